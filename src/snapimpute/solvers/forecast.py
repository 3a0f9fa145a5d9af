"""Before a fit begins: how much memory it will need, how much work an iteration is, and how long that takes.

Memory is counted, array by array, at the moments at which a solver holds most;
time is measured, on a small piece of the very products that an iteration is
made of. What depends on the data, the rank above all, is assumed and stated.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from snapimpute.discreteness import WORTH_SINGLE
from snapimpute.machine import VARIABLE, available_memory, clock, in_words, operations_in_words, seconds_in_words
from snapimpute.observations import Observations
from snapimpute.operators import LowRank, MappedLowRank, Sample, Sparse, sampled_sum
from snapimpute.operators.svd import FRESH, GUARD, WHOLE_CELLS, WHOLE_SHARE, WHOLE_SIDE, orthonormal
from snapimpute.operators.threads import single_threaded_blas, thread_count
from snapimpute.operators.tiled import GROUPS, MAP_COST, TILE_BYTES, TILE_ROWS
from snapimpute.penalties import ByColumn, CellPenalty
from snapimpute.problem import Problem
from snapimpute.sampling import NOISE, Sampler
from snapimpute.solvers.base import Solver
from snapimpute.solvers.proximal import Proximal
from snapimpute.solvers.registry import SOLVERS, pick
from snapimpute.solvers.splitting import DenseSolver

LONG, WORTH_SAMPLING = 5.0, 10.0  # seconds of an iteration: for a warning, and for advice to sample its tiles
WORTH_TIMING, PIECE = 1e7, 5e7  # operations: of an iteration that is timed, and of what is timed for each thread
GUESSED_RANK = 50  # where nobody says one, or a quarter of the smaller side
COLD_BLOCKS = 6.5  # basis of the first partial SVD, in multiples of r + GUARD; 2 to 7 were measured
DENSE_ARRAYS = 8  # m×n numbers of a method that stores them, with all temporaries; 5 to 8 were measured
STREAMS, BLOCK_STREAMS = 20, 10  # how often an iteration goes over |Ω| numbers, and a pass over the SVD's blocks
GUESS = "a guess, as neither max_rank nor the solver says one"

logger = logging.getLogger("snapimpute")
Parts = dict[str, float]
_told: set[Case] = set()  # what was warned of already


class Habit(NamedTuple):
    """What an iteration of a solver is made of, as measured: passes, objectives, whether Y is another than X.

    ``searches`` says that there is a partial SVD, whose first starts from random
    vectors; ``more`` counts further arrays of |Ω| numbers.
    """

    passes: int = 5
    objectives: int = 1
    momentum: bool = True
    searches: bool = True
    more: int = 0


TYPICAL, PLAIN = Habit(), Habit(3, momentum=False)
HABITS = {"ais-impute": Habit(3), "niapg": Habit(3, 2), "apgl": Habit(8, 2), "penalty-decomposition": Habit(5, 3)}
HABITS |= {"soft-impute": PLAIN, "fancl": PLAIN, "svt": PLAIN, "low-rank-sparse": PLAIN._replace(more=5)}
HABITS |= {"fpc": PLAIN._replace(passes=5), "fpca": PLAIN._replace(passes=11), "als": Habit(2, 1, False, False)}


class Work(NamedTuple):
    """Operations, and bytes moved between memory and processor, of one product and of an iteration, by part."""

    pass_flops: Parts
    pass_bytes: Parts
    flops: Parts
    bytes: Parts


@dataclass(frozen=True)
class Case:
    """The sizes that memory and work follow from.

    ``kind`` is "steps" for solvers whose iterations are passes over Ω and all
    cells, "dense" for those that store the whole matrix, else "other". ``tiled``
    is the share of the columns whose cells are computed one by one, and one of
    ``fraction`` cells is drawn where they are sampled; ``given`` is the size of
    the values as they were given.
    """

    shape: tuple[int, int]
    observed: int
    itemsize: int
    rank: int
    kind: str = "steps"
    habit: Habit = TYPICAL
    discrete: bool = False
    tiled: float = 0.0
    offsets: int = 0
    sampled: bool = False
    fraction: int = 1
    given: int = 8
    tile_size: int = 4
    threads: int = 1

    @property
    def lanes(self) -> int:
        """m + n."""
        return sum(self.shape)

    @property
    def cells(self) -> float:
        """How many are computed one by one in a pass."""
        return self.shape[0] * self.shape[1] * self.tiled / self.fraction

    @property
    def width(self) -> int:
        """Rank of the point that a step begins at."""
        return 2 * self.rank if self.habit.momentum else self.rank

    def whole(self, blocks: float) -> bool:
        """Whether a basis of so many blocks gives way to the whole smaller side."""
        side = min(self.shape)
        large = blocks * (self.rank + GUARD) >= WHOLE_SHARE * side or side <= WHOLE_SIDE
        return large and self.shape[0] * self.shape[1] <= WHOLE_CELLS

    @property
    def columns(self) -> int:
        """Of the blocks that are multiplied."""
        return min(self.shape) if self.whole(1) else min(self.rank + GUARD + FRESH, *self.shape)

    @property
    def passes(self) -> int:
        """Products with the operator in an iteration; a sample is noisier, and takes one more round."""
        return 1 if self.whole(1) else self.habit.passes + 2 * self.sampled

    def memory(self) -> dict[str, int]:
        """Bytes by part, at the moment at which there are most."""
        (m, n), size, observed = self.shape, self.itemsize, self.observed
        data = (16 + self.given + size * (size != self.given)) * observed + 8 * self.lanes
        if self.kind == "steps":  # where the correction on Ω is made, or in a partial SVD
            gradient: Parts = {"entries on Ω": self._entries(4), "factors": self._factors()}
            moments = [gradient, self._svd(warm=True), *[self._svd(warm=False)] * self.habit.searches]
        else:
            moments = [{"entries on Ω": 3 * size * observed, "factors": 2 * size * self.lanes * self.rank}]
            moments[0]["dense arrays"] = DENSE_ARRAYS * size * m * n * (self.kind == "dense")
        most = max(moments, key=lambda parts: sum(parts.values()))
        return {"observations": data} | {name: int(size) for name, size in most.items() if size}

    def _entries(self, more: int) -> int:
        """The targets, the offsets, X, the X before and, where it is another, Y on Ω; and so many temporaries."""
        held = 3 + self.habit.momentum + self.habit.more + (self.offsets > 0)
        return self.itemsize * self.observed * (held + more)

    def _factors(self) -> int:
        """X, the one before, the best, Y where it is not X; Y with offsets, as a line too, for a discrete term."""
        columns, with_offsets = 3 * self.rank + self.width * self.habit.momentum, self.width + self.offsets
        columns += self.discrete * (with_offsets + 1 + with_offsets * (self.offsets > 0))
        return self.itemsize * self.lanes * columns

    def _svd(self, *, warm: bool) -> Parts:
        """In a partial SVD; in the first, from random vectors, there are no factors yet."""
        (m, n), side, size = self.shape, min(self.shape), self.itemsize
        k = self.columns if warm else min(self.rank + GUARD, side)
        blocks = max((self.passes - 1) / 2, 1.0) if warm else COLD_BLOCKS
        entries = self._entries(2 if warm or not self.habit.momentum else 1)  # in the first, Y is X still
        parts: Parts = {"entries on Ω": entries, "factors": self._factors() * warm}
        if self.whole(min(blocks + 1, 3.0)):
            parts["dense arrays"] = size * (side * side + 4 * m * n)
        else:
            parts["SVD bases"] = size * (2 * self.lanes * min(blocks * k, side) + (4 * m + 3 * n) * k)
        made_of = self.offsets + self.width * warm
        if self.tiled:
            parts["tiles"] = 3 * TILE_BYTES * self.threads + self.tile_size * self.lanes * 2 * (made_of + k)
        if self.sampled and warm:
            kept = 2 * (2 * self.rank + GUARD) + made_of
            parts["past of the sampler"] = size * self.lanes * kept + self.tile_size * GROUPS * n * k
        return parts

    def work(self) -> Work:
        """Operations, and bytes moved, by part."""
        (m, n), observed, size = self.shape, self.observed, self.itemsize
        k, r, lanes, tiles = self.columns, self.rank, self.lanes, 2.0 * self.cells
        made_of, line = self.width + self.offsets, self.width + 2 * self.offsets + self.discrete
        flops: Parts = {"Ω": 2.0 * observed * k, "factors": 2.0 * lanes * line * k}
        moved: Parts = {"Ω": (size + 4.0) * observed + size * lanes * k, "factors": size * lanes * (line + k)}
        if self.tiled:
            flops["tiles"] = tiles * (made_of + k + MAP_COST)
            moved["tiles"] = self.tile_size * self.cells * (made_of + k) / TILE_ROWS
        total, traffic = ({name: self.passes * amount for name, amount in once.items()} for once in (flops, moved))
        total["Ω"] += 2.0 * observed * r
        traffic["Ω"] += STREAMS * size * observed
        rounds, distances = (self.passes - 1) / 2, 15 * (1 + self.habit.momentum) * r * r
        search = lanes * (k * k * rounds * (6 + 4 * rounds) + distances)  # each round against those before
        total["SVD"] = 5.0 * m * n * k if self.whole(1) else search
        traffic["SVD"] = BLOCK_STREAMS * size * lanes * k * self.passes
        if self.tiled:  # what is kept of the past of a sample is multiplied from both sides
            total["tiles"] += tiles * (made_of + 2 * k + MAP_COST) * self.sampled
            total["objective"] = tiles * self.habit.objectives * (r + self.offsets + 2 * MAP_COST)
        return Work(flops, moved, total, traffic)


@dataclass(frozen=True)
class Forecast:
    """What a fit will need.

    Attributes
    ----------
    case : Case
        The sizes that all follows from, the rank assumed and the passes among them.
    solver, dtype : str
    why : str
        Where the rank comes from.
    parts : dict of int
        Bytes at the peak, by part; ``memory`` is their sum.
    held : int
        Bytes of these that are in memory already; ``needed`` are the others.
    available : int or None
        Bytes that are free; None where nobody knows.
    work : Work
        Operations, and bytes moved, of one product and of an iteration, by part; nothing where not known.
    seconds_by_part : dict of float or None
        Of an iteration with its objective, ``seconds`` in all; None if not timed.
    sampled_seconds : float or None
        What an iteration would take with ``alphabet_term="sampled"``, where that is worth it.
    """

    case: Case
    solver: str
    dtype: str
    why: str
    parts: dict[str, int]
    held: int
    available: int | None
    work: Work = field(default=Work({}, {}, {}, {}), repr=False)
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
    def seconds(self) -> float | None:
        """Expected of an iteration with its objective; None if not timed."""
        return None if self.seconds_by_part is None else sum(self.seconds_by_part.values())

    def __str__(self) -> str:
        free = "" if self.available is None else f" of {in_words(self.available)} free"
        lines = [f"{_what(self)}: about {in_words(self.needed)}{free}"]
        work, passes = self.work.flops, self.case.passes
        if work:
            tiles, rest = work.get("tiles", 0) + work.get("objective", 0), work["factors"] + work["SVD"]
            named = ((tiles, "in tiles"), (work["Ω"], "on Ω"), (rest, "in the SVD"))
            text = ", ".join(f"{operations_in_words(amount)} {where}" for amount, where in named if amount)
            seconds = "" if self.seconds is None else f": about {seconds_in_words(self.seconds)}"
            lines.append(f"an iteration: {passes} pass{'es' * (passes != 1)}, {text}{seconds}")
        if self.sampled_seconds is not None:
            lines.append(f'with alphabet_term="sampled": about {seconds_in_words(self.sampled_seconds)}')
        if not self.fits:
            most = _rank_that_fits(self)
            lines.append(f"it may not fit{f'; max_rank={most} would' if most else ''}")
        return "\n".join(lines)


def _what(plan: Forecast) -> str:
    (m, n), guess = plan.case.shape, " (a guess)" if plan.why == GUESS else ""
    return f"{m:,}×{n:,}, {plan.case.observed:,} observed, {plan.dtype}, rank up to {plan.case.rank}{guess}"


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
        The rank to reckon with; that of the solver, ``max_rank``, or else a
        guess (50, or a quarter of the smaller side) if not given.
    timed : bool
        Whether to time a small piece of the products, which takes less than an
        iteration; where that is some milliseconds nothing is timed.

    Examples
    --------
    >>> import snapimpute as si
    >>> data = si.datasets.low_rank_alphabet((2000, 1000), rank=3, alphabet="1:5", observed=0.1)
    >>> problem = si.Problem(data.observations, si.Nuclear(50.0), si.L1("1:5", xi=0.1))
    >>> plan = forecast(problem, "apg", max_rank=10, timed=False)
    >>> print(str(plan).splitlines()[1])
    an iteration: 5 passes, 1.2 Gflop in tiles, 48 Mflop on Ω, 64 Mflop in the SVD
    >>> plan.memory < 8 * 2000 * 1000 * 3
    True
    """
    chosen = pick(problem, solver).solver
    side, own = min(problem.shape), getattr(chosen, "rank", None)
    guess = max(min(GUESSED_RANK, side // 4), problem.spectral.untouched, 1)
    known = ((rank, "given"), (own, "that of the solver"), (max_rank, "max_rank"), (guess, GUESS))
    assumed, why = next((value, why) for value, why in known if value is not None)
    sampled = alphabet_term == "sampled" and problem.is_discrete
    case = _case(problem, chosen, min(assumed, side), np.dtype(dtype).itemsize, sampled)
    observations = problem.observations
    arrays = [observations.rows, observations.cols, observations.values, *observations.__dict__.get("by_col", ())]
    held = sum(array.nbytes for array in arrays if array is not None)
    plan = Forecast(case, chosen.name, np.dtype(dtype).name, why, case.memory(), held, available_memory())
    plan = replace(plan, work=case.work()) if case.kind == "steps" else plan
    worth = timed and plan.fits and sum(plan.work.flops.values()) >= WORTH_TIMING
    return _timed(problem, chosen, plan) if worth else plan


def _case(problem: Problem, solver: Solver[Any], rank: int, itemsize: int, sampled: bool) -> Case:
    steps = isinstance(solver, Proximal) or solver.name in HABITS
    kind = "dense" if isinstance(solver, DenseSolver) else "steps" if steps else "other"
    habit, discrete = HABITS.get(solver.name, TYPICAL), problem.discrete
    habit = habit._replace(more=habit.more + isinstance(discrete, ByColumn))  # where the entries of a group stand
    (m, n), penalties, observations = problem.shape, _tiled(problem), problem.observations
    single = sampled or (discrete is not None and discrete.convex and m * n >= WORTH_SINGLE)
    offsets, fraction = (problem.offsets.rank if problem.offsets else 0), (_fraction(problem) if sampled else 1)
    sizes = problem.shape, len(observations), itemsize, rank, kind, habit
    term = problem.is_discrete, sum(width for width, _ in penalties) / n, offsets, sampled, fraction
    return Case(*sizes, *term, observations.values.itemsize, 4 if single else itemsize, thread_count())


def _tiled(problem: Problem) -> list[tuple[int, CellPenalty]]:
    """How many columns have to be computed cell by cell, and their penalty; the most first."""
    if problem.discrete is None or not problem.is_discrete:
        return []
    everything = [(problem.discrete, np.arange(problem.shape[1]))]
    groups = problem.discrete.groups() if isinstance(problem.discrete, ByColumn) else everything
    found = [(cols.size, penalty) for penalty, cols in groups if isinstance(penalty, CellPenalty)]
    return sorted((one for one in found if one[1].compiled_remainder(1.0) is not None), key=lambda one: -one[0])


def _fraction(problem: Problem) -> int:
    """One of how many cells a sample draws, by what the data themselves would leave to estimate."""
    observations, penalties = problem.observations, _tiled(problem)
    if not penalties:
        return 1
    some = observations.values[:: max(len(observations) // 10_000, 1)].astype(np.float64)
    (penalties[0][1].compiled_remainder(1.0) or np.abs)(some)
    size, threshold = float(np.sqrt(np.mean(some**2))), problem.spectral.threshold()
    averaged = NOISE * threshold  # the noise of the past, once there is one
    return Sampler(0).sample_for(0, problem.shape, len(observations), size, threshold, averaged).fraction


def _timed(problem: Problem, solver: Solver[Any], plan: Forecast) -> Forecast:
    """The forecast with seconds, and those of a sample where that is worth it."""
    case = plan.case
    with single_threaded_blas():
        speeds = _speeds(problem, case)
        seconds = _seconds(case, speeds)
        total, tiles = sum(seconds.values()), seconds.get("tiles", 0.0) + seconds.get("objective", 0.0)
        plan = replace(plan, seconds_by_part=seconds)
        if total < WORTH_SAMPLING or tiles < 0.8 * total or case.sampled or not solver.samples:
            return plan
        fewer = replace(case, sampled=True, fraction=_fraction(problem))
        seconds = _seconds(fewer, speeds | _speed_of_tiles(problem, fewer))
    return replace(plan, sampled_seconds=sum(seconds.values()))


def _seconds(case: Case, speeds: Parts) -> Parts:
    """Of an iteration, by part."""
    work = case.work()
    out = {name: amount / speeds.get(name, speeds["blocks"]) for name, amount in work.flops.items()}
    out["Ω"] += STREAMS * case.itemsize * case.observed / speeds["streams"]
    out["SVD"] += work.bytes["SVD"] / speeds["streams"]
    if case.tiled:  # on Ω it is one thread that evaluates the objective
        cells = case.cells + case.threads * case.tiled * case.observed
        out["objective"] = case.habit.objectives * cells / speeds["cells"]
    return out


def _speeds(problem: Problem, case: Case) -> Parts:
    """Operations a second on Ω, in tiles and on blocks; bytes, and cells of an objective, a second."""
    dtype, k = np.dtype(f"f{case.itemsize}"), min(case.columns, 128)
    rows = max(min(max(case.shape), int(PIECE * case.threads / (8 * k * k))), k)
    block = np.random.default_rng(0).random((rows, k), np.float32).astype(dtype)
    some = np.ones(min(case.observed, 1 << 20), dtype)
    speeds = {"Ω": _speed_on_observed(problem.observations, case, dtype)}
    speeds["blocks"] = 8.0 * rows * k * k / clock(lambda: orthonormal(block))
    speeds["streams"] = 3.0 * some.nbytes / clock(lambda: some + some)
    return speeds | (_speed_of_tiles(problem, case) if case.tiled else {})


def _speed_on_observed(observations: Observations, case: Case, dtype: np.dtype[Any]) -> float:
    """Of products with the real operator, both ways, thinned out where that would take long."""
    k = max(min(case.columns, int(4e6 / case.lanes)), min(case.columns, 4))
    step = len(observations) // max(int(PIECE / (20 * k)), 4 * case.lanes)
    if step > 1:
        rows, cols, values = observations.rows[::step], observations.cols[::step], observations.values[::step]
        observations = Observations(rows.copy(), cols.copy(), values.copy(), observations.shape)
    operator = Sparse(observations.astype(dtype))
    left, right = (np.ones((side, k), dtype) for side in case.shape)
    _ = operator.rmatmat(left[:, :1]), operator.matmat(right[:, :1])  # sorts and compiles
    return 4.0 * len(observations) * k / clock(lambda: (operator.matmat(right), operator.rmatmat(left)))


def _speed_of_tiles(problem: Problem, case: Case) -> Parts:
    """Of a product with some rows of mapped cells, which look like the data, and of an objective on them."""
    k, made_of, (m, n) = case.columns, max(case.width + case.offsets, 2), case.shape
    each, budget = 2.0 * (made_of + k + MAP_COST), PIECE * case.threads
    if case.fraction == 1:
        m = min(m, TILE_ROWS * case.threads)
        n = min(n, max(int(20 * budget / (each * m)), 64))
    else:
        m = min(m, max(int(4 * budget * case.fraction / (each * n)), TILE_ROWS))
    dtype, tile_dtype = np.dtype(f"f{case.itemsize}"), np.dtype(f"f{case.tile_size}")
    rng, values = np.random.default_rng(0), problem.observations.values[:10_000]
    left, right = (rng.standard_normal((side, made_of), np.float32).astype(dtype) for side in (m, n))
    left[:, 0] = right[:, 0] = 1
    spread = np.full(made_of - 1, values.std() / math.sqrt(made_of - 1))
    factors = LowRank(left, np.append(values.mean(), spread).astype(dtype), right)
    penalty = _tiled(problem)[0][1]
    rest, cost = penalty.compiled_remainder(1.0) or np.abs, penalty.compiled_envelope(1.0)
    _ = rest(np.ones(8, tile_dtype)), cost(np.ones(8, dtype))  # compiles
    sample = Sample.of((m, n), case.fraction, (0,)) if case.fraction > 1 else None
    operator = MappedLowRank(factors, rest, tile_dtype=tile_dtype, sample=sample)
    B, C = np.ones((n, k), dtype), np.ones((m, k), dtype)
    cells = m * n / (sample.fraction if sample else 1)
    forward = clock(lambda: operator.matmat(B))
    backward = clock(lambda: operator.rmatmat(C)) if sample else forward
    narrow = factors.truncated(case.rank + case.offsets)
    evaluation = clock(lambda: sampled_sum(narrow, cost, sample))
    return {"tiles": 2 * each * cells / (forward + backward), "cells": cells / evaluation}


def check_memory(plan: Forecast) -> None:
    """Refuse a fit that cannot be held in memory, with the numbers and what could be done.

    Where the rank is only a guess, refused is what would not fit at rank 1;
    `announce` warns of the rest.

    Raises
    ------
    MemoryError
    """
    least = replace(_at(plan, rank=1), why="the least") if plan.why == GUESS else plan
    if least.fits or plan.available is None:
        return
    largest = sorted(least.parts.items(), key=lambda part: -part[1])[:3]
    parts = ", ".join(f"{name} {in_words(size)}" for name, size in largest)
    raise MemoryError(
        f"{_what(least)} needs about {in_words(least.needed)} more memory than it has now (in all: {parts}), and "
        f"{in_words(plan.available)} are free. What helps: {'; '.join(_ways_out(least))}"
    )


def _ways_out(plan: Forecast) -> list[str]:
    ways, single = [], _at(plan, itemsize=4)
    if rank := _rank_that_fits(plan):
        ways.append(f"max_rank={rank} ({in_words(_at(plan, rank=rank).needed)})")
    if plan.case.itemsize > 4 and plan.solver in SOLVERS and SOLVERS[plan.solver].single:
        rank = plan.case.rank if single.fits else _rank_that_fits(single)
        also = "" if single.fits else f" with max_rank={rank}"
        ways += [f'dtype="float32"{also} ({in_words(_at(single, rank=rank).needed)})'] * (rank > 0)
    override = f'{VARIABLE}="{math.ceil(plan.needed / 2**30)}GiB" if more is free than was found'
    return [*ways, f"a machine with {in_words(plan.needed)} free", override]


def _rank_that_fits(plan: Forecast) -> int:
    """The largest rank below the one assumed that fits; 0 if none does."""
    return bisect_left(range(1, plan.case.rank), True, key=lambda rank: not _at(plan, rank=rank).fits)


def _at(plan: Forecast, **sizes: int) -> Forecast:
    """The memory at another rank or precision."""
    case = replace(plan.case, **sizes)  # type: ignore[arg-type]
    return replace(plan, case=case, parts=case.memory())


def announce(plan: Forecast) -> None:
    """Log a forecast: as a warning, once, if an iteration is long or memory may not suffice; else as information."""
    serious = not plan.fits or (plan.seconds or 0.0) > LONG
    logger.log(logging.WARNING if serious and plan.case not in _told else logging.INFO, "%s", plan)
    _told.update([plan.case] if serious else [])


def look_ahead(problem: Problem, solver: Solver[Any] | str, **how: Any) -> Forecast:
    """What `solve` does first: forecast, refuse what cannot fit, tell what to expect; options as of `forecast`.

    Nothing is timed where nobody would be told, as an iteration is surely short.
    """
    plan = forecast(problem, solver, timed=False, **how)
    check_memory(plan)
    if logger.isEnabledFor(logging.INFO) or sum(plan.work.flops.values()) > LONG * 1e9:
        plan = forecast(problem, solver, **how)
    announce(plan)
    return plan
