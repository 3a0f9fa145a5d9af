"""Before a fit begins: how much memory it will need, how much work an iteration is, and how long that takes.

Memory is counted, array by array, at the moments at which a solver holds most;
time is measured, on a small piece of the very products that an iteration is
made of. What depends on the data, the rank above all, is assumed and stated.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapimpute.discreteness import WORTH_SINGLE
from snapimpute.machine import VARIABLE, available_memory, in_words
from snapimpute.observations import Observations
from snapimpute.operators import LowRank, MappedLowRank, Sample, Sparse
from snapimpute.operators.svd import FRESH, GUARD, WHOLE_CELLS, WHOLE_SHARE, WHOLE_SIDE, orthonormal
from snapimpute.operators.threads import single_threaded_blas, thread_count
from snapimpute.operators.tiled import GROUPS, MAP_COST, TILE_BYTES, TILE_ROWS
from snapimpute.penalties import ByColumn, CellPenalty
from snapimpute.problem import Problem
from snapimpute.sampling import Sampler
from snapimpute.solvers.base import Solver
from snapimpute.solvers.proximal import Proximal
from snapimpute.solvers.registry import pick
from snapimpute.solvers.splitting import DenseSolver
from snapimpute.types import Array, CellMap

logger = logging.getLogger("snapimpute")

LONG = 5.0
"""Seconds; an iteration that is expected to take longer is worth a warning."""

WORTH_SAMPLING = 10.0
"""Seconds of an iteration from which on a sample is advised where tiles make up nearly all of it."""

GUESSED_RANK = 50
"""Where neither max_rank nor the solver says one, or a quarter of the smaller side."""

WORTH_TIMING = 1e7
"""Operations; an iteration with fewer takes some milliseconds, and nobody needs to be told."""

PIECE = 5e7
"""Operations, for each thread, that are timed at most."""

COLD_BLOCKS = 6.5
"""Basis of a partial SVD from a random start, in multiples of r + `GUARD`; 2 to 7 were measured."""

DENSE_ARRAYS = 8
"""m×n arrays of a method that stores them, with the temporaries of a step."""

STREAMS = 20
"""How often an iteration reads or writes an array of |Ω| numbers."""

BLOCK_STREAMS = 10
"""How often a pass reads or writes the blocks of the partial SVD, on both sides, beside their products."""

Parts = dict[str, float]


class TooLargeError(MemoryError):
    """A fit that needs more memory than there is."""


class Habit(NamedTuple):
    """What an iteration of a solver is made of, as measured on typical data."""

    passes: int = 5
    objectives: int = 1
    momentum: bool = True


TYPICAL = Habit()
HABITS: Mapping[str, Habit] = {
    "soft-impute": Habit(3, momentum=False),
    "apgl": Habit(8, 2),
    "fpc": Habit(5, momentum=False),
    "fpca": Habit(11, momentum=False),
    "ais-impute": Habit(3),
    "niapg": Habit(3, 2),
    "fancl": Habit(3, momentum=False),
    "penalty-decomposition": Habit(5, 3),
    "als": Habit(2, momentum=False),
    "svt": Habit(3, momentum=False),
    "low-rank-sparse": Habit(3, momentum=False),
}
"""For a proximal solver that is not here the default holds."""


@dataclass(frozen=True)
class Case:
    """The sizes that memory and work follow from.

    ``kind`` is "steps" for solvers whose iteration is a partial SVD, "dense" for
    those that store the whole matrix, and "other". ``tiled`` is the share of the
    columns whose cells are computed one by one, one of ``fraction`` cells
    is drawn where they are sampled.
    """

    shape: tuple[int, int]
    observed: int
    itemsize: int
    rank: int
    kind: str = "steps"
    habit: Habit = TYPICAL
    discrete: bool = False
    tiled: float = 0.0
    grouped: bool = False
    offsets: int = 0
    sampled: bool = False
    fraction: int = 1
    given: int = 8
    tile_size: int = 4
    threads: int = 1

    # ---------------------------------------------------------------- sizes
    @property
    def lanes(self) -> int:
        """m + n."""
        return sum(self.shape)

    @property
    def cells(self) -> float:
        """That are computed one by one in a pass."""
        return self.shape[0] * self.shape[1] * self.tiled / self.fraction

    @property
    def width(self) -> int:
        """Rank of the point that a step begins at."""
        return 2 * self.rank if self.habit.momentum else self.rank

    def whole(self, blocks: float) -> bool:
        """Whether a basis of so many blocks gives way to the whole smaller side."""
        (m, n), side = self.shape, min(self.shape)
        large = blocks * (self.rank + GUARD) >= WHOLE_SHARE * side or side <= WHOLE_SIDE
        return large and m * n <= WHOLE_CELLS

    @property
    def columns(self) -> int:
        """Of the blocks that are multiplied."""
        side = min(self.shape)
        return side if self.whole(1) else min(self.rank + GUARD + FRESH, side)

    @property
    def passes(self) -> int:
        """Products with the operator in an iteration; a sample is noisier, and takes one more round."""
        return 1 if self.whole(1) else self.habit.passes + 2 * self.sampled

    # ---------------------------------------------------------------- memory
    def memory(self) -> dict[str, int]:
        """Bytes by part, at the moment at which there are most."""
        m, n = self.shape
        if self.kind == "steps":
            moments = [self._svd(warm=False), self._svd(warm=True), self._gradient(), self._arrival()]
        else:
            size = self.itemsize
            moment: Parts = {"entries on Ω": 3 * size * self.observed, "factors": 2 * size * self.lanes * self.rank}
            if self.kind == "dense":
                moment["dense arrays"] = DENSE_ARRAYS * size * m * n
            moments = [moment]
        most = max(moments, key=lambda moment: sum(moment.values()))
        return {"observations": self._data()} | {name: int(size) for name, size in most.items() if size}

    def _data(self) -> int:
        """Rows, columns and values, in the order of the columns too; with values in two precisions where asked."""
        values = self.given + (self.itemsize if self.itemsize != self.given else 0)
        return (16 + values + 8 * self.grouped) * self.observed + 8 * (self.lanes + 2)

    def _entries(self, more: int) -> int:
        """The targets, the offsets, X, the X before and, where it is another, Y on Ω; and so many temporaries."""
        return self.itemsize * self.observed * (3 + self.habit.momentum + (self.offsets > 0) + more)

    def _factors(self, more: int = 0) -> int:
        """X, the X before, Y where it is not X, all with offsets and as a line where there is a discrete term."""
        columns = 2 * self.rank + (self.width if self.habit.momentum else 0) + more
        with_offsets = self.width + self.offsets
        if self.discrete:
            columns += with_offsets + 1 + (with_offsets if self.offsets else 0)
        return self.itemsize * self.lanes * columns

    def _svd(self, *, warm: bool) -> Parts:
        """In the partial SVD; in the first, from a random start, there are no factors yet."""
        (m, n), side, size = self.shape, min(self.shape), self.itemsize
        k = self.columns if warm else min(self.rank + GUARD, side)
        blocks = max((self.passes - 1) / 2, 1.0) if warm else COLD_BLOCKS
        first = self.habit.momentum and not warm  # Y is X still
        moment: Parts = {"entries on Ω": self._entries(2 - first), "factors": self._factors() if warm else 0}
        if self.whole(min(blocks + 1, 3.0)):
            moment["dense arrays"] = size * (side * side + 4 * m * n)
        else:
            basis = min(blocks * k, side)
            moment["SVD bases"] = size * (2 * self.lanes * basis + (4 * m + 3 * n) * k)
        if self.tiled:
            made_of = self.offsets + (self.width if warm else 0)
            moment["tiles"] = 3 * TILE_BYTES * self.threads + self.tile_size * self.lanes * 2 * (made_of + k)
        if self.sampled and warm:
            kept = 2 * (2 * self.rank + GUARD) + self.width + self.offsets
            moment["past of the sampler"] = size * self.lanes * kept + 4 * GROUPS * n * k
        return moment

    def _gradient(self) -> Parts:
        """Where the correction on Ω is made."""
        more = 4 + self.grouped if self.discrete else 3
        return {"entries on Ω": self._entries(more), "factors": self._factors()}

    def _arrival(self) -> Parts:
        """Where the distance of the new X from Y is measured."""
        return {"entries on Ω": self._entries(1), "factors": self._factors(self.rank + 3 * self.width)}

    # ---------------------------------------------------------------- work
    def pass_flops(self) -> Parts:
        """Operations of one product with the operator, by part."""
        k, width = self.columns, self.width + 2 * self.offsets + self.discrete
        tiles = 2.0 * self.cells * (self.width + self.offsets + k + MAP_COST)
        return _present({"Ω": 2.0 * self.observed * k, "factors": 2.0 * self.lanes * width * k, "tiles": tiles})

    def pass_bytes(self) -> Parts:
        """What one product moves between memory and processor, by part."""
        k, b, (m, n) = self.columns, self.itemsize, self.shape
        bands = -(-m // TILE_ROWS)
        across = self.tiled * bands * n * (self.width + self.offsets + k) * self.tile_size / self.fraction
        low_rank = b * self.lanes * (self.width + self.offsets + k)
        return _present({"Ω": (b + 4.0) * self.observed + b * self.lanes * k, "factors": low_rank, "tiles": across})

    def flops(self) -> Parts:
        """Operations of an iteration, by part."""
        once, k, rank = self.pass_flops(), self.columns, self.rank
        work = {name: self.passes * amount for name, amount in once.items()}
        work["Ω"] += 2.0 * self.observed * rank
        if self.sampled:  # what is kept of the past is multiplied from both sides
            work["tiles"] += 2.0 * self.cells * (self.width + self.offsets + 2 * k + MAP_COST)
        if self.whole(1):
            work["SVD"] = 10.0 * self.shape[0] * self.shape[1] * k
        else:
            rounds = (self.passes - 1) / 2  # each is made orthogonal to those before
            distances = 30 if self.habit.momentum else 15
            work["SVD"] = self.lanes * (k * k * rounds * (6 + 4 * rounds) + distances * rank * rank)
        work["objective"] = 2.0 * self.habit.objectives * self.cells * (rank + self.offsets + 2 * MAP_COST)
        return _present(work)

    def bytes(self) -> Parts:
        """What an iteration moves between memory and processor, by part."""
        moved = {name: self.passes * amount for name, amount in self.pass_bytes().items()}
        moved["Ω"] += STREAMS * self.itemsize * self.observed
        moved["SVD"] = float(BLOCK_STREAMS * self.itemsize * self.lanes * self.columns * self.passes)
        return moved


def _present(parts: Parts) -> Parts:
    return {name: amount for name, amount in parts.items() if amount}


@dataclass(frozen=True)
class Forecast:
    """What a fit will need.

    Attributes
    ----------
    case : Case
        The sizes that all follows from.
    solver, dtype : str
    why : str
        Where the rank that is assumed comes from.
    guessed : bool
        Whether it is only a guess.
    parts : dict of int
        Bytes at the peak, by part.
    held : int
        Bytes of these that are in memory already.
    available : int or None
        Bytes that are free; None where nobody knows.
    pass_flops, pass_bytes, flops, bytes : dict of float
        Operations, and bytes moved, of one product and of an iteration, by part.
    seconds_by_part : dict of float or None
        Of an iteration with its objective; None if not timed.
    sampled_seconds : float or None
        What an iteration would take with ``alphabet_term="sampled"``, where that is worth it.
    """

    case: Case
    solver: str
    dtype: str
    why: str
    guessed: bool
    parts: dict[str, int]
    held: int
    available: int | None
    pass_flops: Parts
    pass_bytes: Parts
    flops: Parts
    bytes: Parts
    seconds_by_part: Parts | None = None
    sampled_seconds: float | None = None

    @property
    def memory(self) -> int:
        """Bytes at the peak, the observations included."""
        return sum(self.parts.values())

    @property
    def needed(self) -> int:
        """Bytes beyond those that are held already."""
        return max(self.memory - self.held, 0)

    @property
    def fits(self) -> bool:
        """Whether that is there, as far as anybody knows."""
        return self.available is None or self.needed <= self.available

    @property
    def rank(self) -> int:
        """The rank assumed."""
        return self.case.rank

    @property
    def passes(self) -> int:
        """Products with the operator in an iteration."""
        return self.case.passes

    @property
    def seconds(self) -> float | None:
        """Expected of an iteration with its objective; None if not timed."""
        return None if self.seconds_by_part is None else sum(self.seconds_by_part.values())

    def __str__(self) -> str:
        free = "" if self.available is None else f" of {in_words(self.available)} free"
        rank = f"rank up to {self.rank}{' (a guess)' if self.guessed else ''}"
        lines = [f"{_sizes(self)}, {self.dtype}, {rank}: about {in_words(self.needed)}{free}"]
        if self.flops:
            lines.append(_iteration(self))
        if self.sampled_seconds is not None:
            lines.append(f'alphabet_term="sampled" would take about {_spell(self.sampled_seconds)} an iteration')
        if not self.fits:
            most = _rank_that_fits(self)
            lines.append(f"it may not fit{f': max_rank={most} would' if most else ''}")
        return "\n".join(lines)


def _sizes(forecast: Forecast) -> str:
    m, n = forecast.case.shape
    return f"{m:,}×{n:,}, {forecast.case.observed:,} observed"


def _iteration(forecast: Forecast) -> str:
    work = forecast.flops
    tiles, rest = work.get("tiles", 0.0) + work.get("objective", 0.0), work.get("factors", 0.0) + work["SVD"]
    named = ((tiles, "in tiles"), (work["Ω"], "on Ω"), (rest, "in the SVD"))
    text = ", ".join(f"{_flop(amount)} {where}" for amount, where in named if amount)
    passes = f"{forecast.passes} pass{'es' * (forecast.passes != 1)}"
    seconds = "" if forecast.seconds is None else f": about {_spell(forecast.seconds)}"
    return f"an iteration: {passes}, {text}{seconds}"


def _flop(amount: float) -> str:
    for power, unit in ((12, "Tflop"), (9, "Gflop"), (6, "Mflop")):
        if amount >= 0.95 * 10**power:
            return f"{_short(amount / 10**power)} {unit}"
    return f"{_short(amount / 1e3)} kflop"


def _spell(seconds: float) -> str:
    if seconds < 0.95:
        return f"{_short(1000 * seconds)} ms"
    return f"{_short(seconds)} s" if seconds < 120 else f"{_short(seconds / 60)} min"


def _short(number: float) -> str:
    return f"{number:.1f}" if number < 9.95 else f"{number:,.0f}"


# ---------------------------------------------------------------- making one
def forecast(
    problem: Problem,
    solver: Solver[Any] | str = "auto",
    *,
    max_rank: int | None = None,
    alphabet_term: str = "tiled",
    dtype: str = "float64",
    rank: int | None = None,
    timed: bool = True,
) -> Forecast:
    """Estimate what `solve` would need for a problem, without solving it.

    Parameters
    ----------
    problem, solver, max_rank, alphabet_term, dtype
        As in `solve`.
    rank : int, optional
        The rank to reckon with; ``max_rank``, that of the solver, or else a
        guess (50, or a quarter of the smaller side) if not given.
    timed : bool
        Whether to time a small piece of the products, for at most about the
        time of one iteration; problems of some milliseconds are never timed.

    Examples
    --------
    >>> import snapimpute as si
    >>> data = si.datasets.low_rank_alphabet((2000, 1000), rank=3, alphabet="1:5", observed=0.1)
    >>> problem = si.Problem(data.observations, si.Nuclear(50.0), si.L1("1:5", xi=0.1))
    >>> plan = forecast(problem, "apg", max_rank=10, timed=False)
    >>> print(str(plan).splitlines()[1])
    an iteration: 5 passes, 1.1 Gflop in tiles, 48 Mflop on Ω, 46 Mflop in the SVD
    >>> plan.memory < 8 * 2000 * 1000 * 3
    True
    """
    chosen = pick(problem, solver).solver
    assumed, why = _rank(problem, chosen, max_rank, rank)
    sampled = alphabet_term == "sampled" and problem.is_discrete
    case = _case(problem, chosen, assumed, np.dtype(dtype).itemsize, sampled)
    steps = case.kind == "steps"
    result = Forecast(
        case,
        chosen.name,
        np.dtype(dtype).name,
        why,
        why == GUESS,
        case.memory(),
        _held(problem.observations),
        available_memory(),
        case.pass_flops() if steps else {},
        case.pass_bytes() if steps else {},
        case.flops() if steps else {},
        case.bytes() if steps else {},
    )
    if not (timed and steps and result.fits and sum(result.flops.values()) >= WORTH_TIMING):
        return result
    return _timed(problem, chosen, result)


GUESS = "a guess, as neither max_rank nor the solver says one"


def _rank(problem: Problem, solver: Solver[Any], max_rank: int | None, rank: int | None) -> tuple[int, str]:
    """The rank to reckon with, and where it comes from."""
    side = min(problem.shape)
    own = getattr(solver, "rank", None)
    for given, why in ((rank, "given"), (own, "that of the solver"), (max_rank, "max_rank")):
        if given is not None:
            return min(given, side), why
    return max(min(GUESSED_RANK, side // 4), min(problem.spectral.untouched, side), 1), GUESS


def _case(problem: Problem, solver: Solver[Any], rank: int, itemsize: int, sampled: bool) -> Case:
    kind = "steps" if isinstance(solver, Proximal) or solver.name in HABITS else "other"
    kind = "dense" if isinstance(solver, DenseSolver) else kind
    tiled = _tiled(problem)
    m, n = problem.shape
    convex = problem.discrete is not None and problem.discrete.convex and m * n >= WORTH_SINGLE
    return Case(
        problem.shape,
        len(problem.observations),
        itemsize,
        rank,
        kind,
        HABITS.get(solver.name, TYPICAL),
        discrete=problem.is_discrete,
        tiled=sum(width for width, _ in tiled) / n,
        grouped=isinstance(problem.discrete, ByColumn),
        offsets=0 if problem.offsets is None else problem.offsets.rank,
        sampled=sampled,
        fraction=_fraction(problem) if sampled else 1,
        given=problem.observations.values.itemsize,
        tile_size=4 if convex or sampled else itemsize,
        threads=thread_count(),
    )


def _tiled(problem: Problem) -> list[tuple[int, CellMap]]:
    """How many columns have to be computed cell by cell, and the map of the cells."""
    if problem.discrete is None or not problem.is_discrete:
        return []
    everything = [(problem.discrete, np.arange(problem.shape[1]))]
    found = []
    for penalty, cols in problem.discrete.groups() if isinstance(problem.discrete, ByColumn) else everything:
        if isinstance(penalty, CellPenalty):
            rest = penalty.compiled_remainder(1.0)
            if rest is not None:
                found.append((cols.size, rest))
    return sorted(found, key=lambda one: -one[0])


def _fraction(problem: Problem) -> int:
    """How many times smaller the sample is than all, by what the data themselves would leave to estimate."""
    observations = problem.observations
    some = observations.values[:: max(len(observations) // 10_000, 1)].astype(np.float64)
    sizes = []
    for _, rest in _tiled(problem)[:1]:
        rest(some)
        sizes.append(float(np.sqrt(np.mean(some**2))))
    drawn = Sampler(0).sample_for(
        problem.shape, len(observations), max(sizes, default=0.0), problem.spectral.threshold()
    )
    return drawn.windows


def _held(observations: Observations) -> int:
    """Bytes of the observations that are in memory already."""
    arrays: list[NDArray[Any]] = [observations.rows, observations.cols, observations.values]
    arrays += [array for array in observations.__dict__.get("by_col", ()) if array is not None]
    return sum(array.nbytes for array in arrays)


# ---------------------------------------------------------------- time
def _timed(problem: Problem, solver: Solver[Any], plan: Forecast) -> Forecast:
    """The forecast with seconds, and those of a sample where that is worth it."""
    case = plan.case
    with single_threaded_blas():
        speed = _Speed.measured(problem, case)
    seconds = speed.seconds(case)
    plan = replace(plan, seconds_by_part=seconds)
    total, tiles = sum(seconds.values()), seconds.get("tiles", 0.0) + seconds.get("objective", 0.0)
    if total < WORTH_SAMPLING or tiles < 0.8 * total or case.sampled or not solver.samples:
        return plan
    fewer = replace(case, sampled=True, fraction=_fraction(problem))
    speed = speed._replace(tiles=_speed_of_tiles(problem, fewer, np.dtype(f"f{case.itemsize}")))
    return replace(plan, sampled_seconds=sum(speed.seconds(fewer).values()))


class _Speed(NamedTuple):
    """Operations a second, by what they are done on; and bytes a second."""

    observed: float
    tiles: float
    blocks: float
    streams: float

    @classmethod
    def measured(cls, problem: Problem, case: Case) -> _Speed:
        dtype = np.dtype(f"f{case.itemsize}")
        k = case.columns
        rows = max(min(max(case.shape), int(PIECE * case.threads / (8 * k * k))), k)
        block = np.random.default_rng(0).random((rows, k), np.float32).astype(dtype)
        some = np.ones(min(case.observed, 1 << 20), dtype)
        return cls(
            _speed_on_observed(problem.observations, case, dtype),
            _speed_of_tiles(problem, case, dtype) if case.tiled else 1.0,
            8.0 * rows * k * k / _clock(lambda: orthonormal(block)),
            3.0 * some.nbytes / _clock(lambda: some + some),
        )

    def seconds(self, case: Case) -> Parts:
        """Of an iteration, by part."""
        speeds = {"Ω": self.observed, "tiles": self.tiles, "objective": self.tiles}
        out = {name: amount / speeds.get(name, self.blocks) for name, amount in case.flops().items()}
        out["Ω"] += STREAMS * case.itemsize * case.observed / self.streams
        out["SVD"] += case.bytes()["SVD"] / self.streams
        return out


def _clock(work: Callable[[], object]) -> float:
    """Seconds of the better of two runs."""
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return max(min(times), 1e-7)


def _speed_on_observed(observations: Observations, case: Case, dtype: np.dtype[Any]) -> float:
    """Of products with the real operator, both ways, thinned out where that would take long."""
    k = max(min(case.columns, int(4e6 / case.lanes)), min(case.columns, 4))
    step = len(observations) // max(int(PIECE / (20 * k)), 2 * case.lanes)
    if step > 1:
        observations = observations.take(np.arange(0, len(observations), step))
    operator = Sparse(observations.astype(dtype))
    blocks = [np.ones((side, k), dtype) for side in case.shape]
    operator.rmatmat(blocks[0][:, :1])  # sorts and compiles
    operator.matmat(blocks[1][:, :1])
    seconds = _clock(lambda: (operator.matmat(blocks[1]), operator.rmatmat(blocks[0])))
    return 4.0 * len(observations) * k / seconds


def _speed_of_tiles(problem: Problem, case: Case, dtype: np.dtype[Any]) -> float:
    """Of a product with the mapped cells of some rows, which look like the data; of a sample, both ways."""
    k, made_of = case.columns, max(case.width + case.offsets, 2)
    each = 2.0 * (made_of + k + MAP_COST)
    m, n = case.shape
    budget = PIECE * case.threads
    if case.fraction == 1:
        m = min(m, TILE_ROWS * case.threads)
        n = min(n, max(int(20 * budget / (each * m)), 64))
    else:
        m = min(m, max(int(4 * budget * case.fraction / (each * n)), TILE_ROWS))
    factors = _like(problem.observations.values[:10_000], (m, n), made_of, dtype)
    _, rest = _tiled(problem)[0]
    tile_dtype, sample = (
        np.dtype(f"f{case.tile_size}"),
        Sample.of((m, n), case.fraction, (0,)) if case.fraction > 1 else None,
    )
    operator = MappedLowRank(factors, rest, tile_dtype=tile_dtype, sample=sample)
    rest(np.ones(8, tile_dtype))  # compiles
    right, left = np.ones((n, k), dtype), np.ones((m, k), dtype)
    if sample is None:
        return each * m * n / _clock(lambda: operator.matmat(right))
    both = _clock(lambda: (operator.matmat(right), operator.rmatmat(left)))
    return 2 * each * m * n / sample.fraction / both


def _like(values: Array, shape: tuple[int, int], rank: int, dtype: np.dtype[Any]) -> LowRank:
    """A random matrix of low rank with the mean and the spread of the values."""
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((side, rank), np.float32).astype(dtype) for side in shape)
    left[:, 0] = right[:, 0] = 1
    s = np.full(rank, values.std() / math.sqrt(rank - 1), dtype)
    s[0] = values.mean()
    return LowRank(left, s, right)


# ---------------------------------------------------------------- using one
def check_memory(plan: Forecast) -> None:
    """Refuse a fit that cannot be held in memory, with the numbers and what could be done.

    Where the rank is only a guess, refused is what would not fit at rank 1;
    `announce` warns of the rest.

    Raises
    ------
    TooLargeError
        A `MemoryError`.
    """
    least = _at(plan, rank=1) if plan.guessed else plan
    if least.fits or plan.available is None:
        return
    parts = sorted(least.parts.items(), key=lambda part: -part[1])[:3]
    raise TooLargeError(
        f"{_sizes(plan)}, in {plan.dtype} at rank {least.rank} needs about {in_words(least.needed)} beside the data "
        f"({', '.join(f'{name} {in_words(size)}' for name, size in parts)}), {in_words(plan.available)} are free. "
        f"What helps: {'; '.join(_ways_out(least))}"
    )


def _ways_out(plan: Forecast) -> list[str]:
    ways = []
    single = _at(plan, itemsize=4)
    for other, text in ((plan, ""), (single, 'dtype="float32"')):
        if other is single and plan.case.itemsize == 4:
            continue
        if other.fits and text:
            ways.append(f"{text} ({in_words(other.needed)})")
        elif rank := _rank_that_fits(other):
            smaller = in_words(_at(other, rank=rank).needed)
            ways.append(f"{f'{text} with ' if text else ''}max_rank={rank} ({smaller})")
    ways.append(f"a machine with {in_words(plan.needed)} free")
    ways.append(f'if more is free than was found, {VARIABLE}="{math.ceil(plan.needed / 2**30)}GiB"')
    return ways


def _rank_that_fits(plan: Forecast) -> int:
    """The largest rank below the one assumed that fits; 0 if none does."""
    low, high = 0, plan.rank
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _at(plan, rank=middle).fits else (low, middle)
    return low


def _at(plan: Forecast, **sizes: Any) -> Forecast:
    """The memory of another rank or precision."""
    case = replace(plan.case, **sizes)
    return replace(plan, case=case, parts=case.memory())


_told: set[Case] = set()


def announce(plan: Forecast) -> None:
    """Log a forecast: as a warning, once, if an iteration is long or memory may not suffice; else as information."""
    serious = not plan.fits or (plan.seconds or 0.0) > LONG
    level = logging.WARNING if serious and plan.case not in _told else logging.INFO
    _told.update([plan.case] if serious else [])
    logger.log(level, "%s", plan)


def look_ahead(problem: Problem, solver: Solver[Any], **how: Any) -> Forecast:
    """What `solve` does first: forecast, refuse what cannot fit, tell what to expect.

    Nothing is timed where nobody would be told: below warnings if these are not
    logged, and where an iteration is surely short.
    """
    plan = forecast(problem, solver, timed=False, **how)
    check_memory(plan)
    if logger.isEnabledFor(logging.INFO) or sum(plan.flops.values()) > LONG * 2e8:
        plan = forecast(problem, solver, **how)
    announce(plan)
    return plan
