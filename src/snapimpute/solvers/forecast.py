"""Forecast of a fit: memory, work of an iteration, and its time.

`workload` counts memory and operations. Time is measured on a small piece of the
products of an iteration. Numbers that depend on the data, the rank above all, are
assumed and stated.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from snapimpute.base.machine import VARIABLE, available_memory, clock, in_words, operations_in_words, seconds_in_words
from snapimpute.base.threads import single_threaded_blas, thread_count
from snapimpute.data.observations import Observations
from snapimpute.linalg import LowRank, MappedLowRank, Sample, Sparse, sampled_sum
from snapimpute.linalg.backend import Backend
from snapimpute.linalg.svd import orthonormal
from snapimpute.linalg.tiled import MAP_COST, TILE_ROWS, WORTH_SINGLE
from snapimpute.penalties import DiscretePenalty
from snapimpute.problem import Problem
from snapimpute.problem.sampling import NOISE, Sampler
from snapimpute.solvers._workload import ITERATION_COSTS, STREAMS, TYPICAL, Case, Parts, Work
from snapimpute.solvers.base import Solver
from snapimpute.solvers.options import FitOptions
from snapimpute.solvers.proximal.gradient import ProximalSolver
from snapimpute.solvers.registry import SOLVERS, pick
from snapimpute.solvers.splitting.dense import DenseSolver

LONG, WORTH_SAMPLING = 5.0, 10.0  # seconds of an iteration: for a warning, and for advice to sample its tiles
WORTH_TIMING, PIECE = 1e7, 5e7  # operations: of the least iteration timed, of the piece on each thread
GUESSED_RANK = 50  # the default, or a quarter of the smaller side
GUESS = "a guess, as neither max_rank nor the solver says one"

logger = logging.getLogger("snapimpute")
_told: set[Case] = set()  # warnings given already


@dataclass(frozen=True)
class Forecast:
    """Memory, work and time that a fit will need.

    Attributes
    ----------
    case : Case
        Sizes, the assumed rank and the passes, from which all else follows.
    solver, dtype : str
    why : str
        Source of the rank.
    parts : dict of int
        Bytes at the peak, by part; ``memory`` is their sum.
    held : int
        Bytes of these that are in memory already; ``needed`` are the others.
    available : int or None
        Bytes that are free; None if unknown.
    work : Work
        Operations, and bytes moved, of an iteration, by part; empty if unknown.
    seconds_by_part : dict of float or None
        Time of an iteration with its objective, ``seconds`` in all; None if not timed.
    sampled_seconds : float or None
        Time of an iteration with ``alphabet_term="sampled"``, if that is worth it.
    filling : dict of float
        Operations of filling the whole table afterwards, row by row, by part; empty if not asked for.
    """

    case: Case
    solver: str
    dtype: str
    why: str
    parts: dict[str, int]
    held: int
    available: int | None
    work: Work = field(default=Work({}, {}), repr=False)
    seconds_by_part: Parts | None = None
    sampled_seconds: float | None = None
    filling: Parts = field(default_factory=dict, repr=False)

    @property
    def memory(self) -> int:
        """Bytes at the peak, the observations included."""
        return sum(self.parts.values())

    @property
    def needed(self) -> int:
        """Bytes needed beyond those held already."""
        return max(self.memory - self.held, 0)

    @property
    def fits(self) -> bool:
        """False if that is more than the free memory."""
        return self.available is None or self.needed <= self.available

    @property
    def seconds(self) -> float | None:
        """Expected time of an iteration with its objective; None if not timed."""
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
        if self.filling:
            lines.append(f"filling the table: {operations_in_words(sum(self.filling.values()))}")
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
    fill: bool = False,
    timed: bool = True,
) -> Forecast:
    """Estimate what `solve` would need for a problem, without solving it.

    Parameters
    ----------
    problem, solver, max_rank, alphabet_term, dtype
        As in `solve`.
    rank : int, optional
        The rank to assume. By default that of the solver, ``max_rank``, or else a
        guess (50, or a quarter of the smaller side).
    fill : bool
        True counts, too, how much work it is to fill the table afterwards, as `SnapImputer` does.
    timed : bool
        True times a small piece of the products, which takes less than an iteration;
        an iteration of some milliseconds is not timed.

    Examples
    --------
    >>> import snapimpute as si
    >>> data = si.datasets.low_rank_alphabet((2000, 1000), rank=3, alphabet="1:5", observed=0.1)
    >>> problem = si.Problem(data.observations, si.Nuclear(50.0), si.L1("1:5", xi=0.1))
    >>> plan = forecast(problem, "apg", max_rank=10, timed=False)
    >>> print(str(plan).splitlines()[1])
    an iteration: 5 passes, 680 Mflop in tiles, 48 Mflop on Ω, 64 Mflop in the SVD
    >>> plan.memory < 8 * 2000 * 1000 * 3
    True
    >>> print(str(forecast(problem, "apg", max_rank=10, fill=True, timed=False)).splitlines()[2])
    filling the table: 598 Mflop
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
    plan = replace(plan, filling=case.filling()) if fill and plan.work.flops else plan
    worth = timed and plan.fits and sum(plan.work.flops.values()) >= WORTH_TIMING
    return _timed(problem, chosen, plan) if worth else plan


def _case(problem: Problem, solver: Solver[Any], rank: int, itemsize: int, sampled: bool) -> Case:
    steps = isinstance(solver, ProximalSolver) or solver.name in ITERATION_COSTS
    kind = "dense" if isinstance(solver, DenseSolver) else "steps" if steps else "other"
    habit, discrete = ITERATION_COSTS.get(solver.name, TYPICAL), problem.discrete
    grouped = discrete is not None and len(discrete.groups(problem.shape[1])) > 1
    habit = habit._replace(more=habit.more + grouped)  # positions of the entries of a group
    (m, n), penalties, observations = problem.shape, _tiled(problem), problem.observations
    single = sampled or (discrete is not None and discrete.convex and m * n >= WORTH_SINGLE)
    offsets, fraction = (problem.offsets.rank if problem.offsets else 0), (_fraction(problem) if sampled else 1)
    sizes = problem.shape, len(observations), itemsize, rank, kind, habit
    term = problem.is_discrete, sum(width for width, _ in penalties) / n, offsets, sampled, fraction
    return Case(*sizes, *term, observations.values.itemsize, 4 if single else itemsize, thread_count())


def _tiled(problem: Problem) -> list[tuple[int, DiscretePenalty]]:
    """Count the columns to be computed cell by cell, by penalty; the most first."""
    if problem.discrete is None or not problem.is_discrete:
        return []
    groups = problem.discrete.groups(problem.shape[1])
    found = [(cols.size, penalty) for penalty, cols in groups if penalty is not None]
    return sorted((one for one in found if one[1].compiled_remainder(1.0) is not None), key=lambda one: -one[0])


def _fraction(problem: Problem) -> int:
    """Return the number of cells for each one that a sample draws, estimated from the data."""
    observations, penalties = problem.observations, _tiled(problem)
    if not penalties:
        return 1
    some = observations.values[:: max(len(observations) // 10_000, 1)].astype(np.float64)
    (penalties[0][1].compiled_remainder(1.0) or np.abs)(some)
    size, threshold = float(np.sqrt(np.mean(some**2))), problem.spectral.threshold()
    averaged = NOISE * threshold  # the noise of the past, once there is a past
    return Sampler(0).sample_for(0, problem.shape, len(observations), size, threshold, averaged).fraction


def _timed(problem: Problem, solver: Solver[Any], plan: Forecast) -> Forecast:
    """Add seconds to the forecast, and those with a sample if that is worth it."""
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
    """Compute the seconds of an iteration, by part."""
    work = case.work()
    out = {name: amount / speeds.get(name, speeds["blocks"]) for name, amount in work.flops.items()}
    out["Ω"] += STREAMS * case.itemsize * case.observed / speeds["streams"]
    out["SVD"] += work.bytes["SVD"] / speeds["streams"]
    if case.tiled:  # one thread evaluates the objective on Ω
        cells = case.cells + case.threads * case.tiled * case.observed
        out["objective"] = case.habit.objectives * cells / speeds["cells"]
    return out


def _speeds(problem: Problem, case: Case) -> Parts:
    """Measure operations a second on Ω, in tiles and on blocks; bytes, and cells of an objective, a second."""
    dtype, k = np.dtype(f"f{case.itemsize}"), min(case.columns, 128)
    rows = max(min(max(case.shape), int(PIECE * case.threads / (8 * k * k))), k)
    block = np.random.default_rng(0).random((rows, k), np.float32).astype(dtype)
    some = np.ones(min(case.observed, 1 << 20), dtype)
    speeds = {"Ω": _speed_on_observed(problem.observations, case, dtype)}
    speeds["blocks"] = 8.0 * rows * k * k / clock(lambda: orthonormal(block))
    speeds["streams"] = 3.0 * some.nbytes / clock(lambda: some + some)
    return speeds | (_speed_of_tiles(problem, case) if case.tiled else {})


def _speed_on_observed(observations: Observations, case: Case, dtype: np.dtype[Any]) -> float:
    """Time products with the real operator, both ways, on fewer entries if that would take long."""
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
    """Time a product with some rows of mapped cells, like the data, and an objective on them."""
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
    rest(np.ones(8, tile_dtype))  # compiles
    cost(np.ones(8, dtype))
    sample = Sample.of((m, n), case.fraction, (0,)) if case.fraction > 1 else None
    B, C, passes = np.ones((n, k), dtype), np.ones((m, k), dtype), case.passes if case.kept else 2

    def products() -> None:
        operator = MappedLowRank(factors, rest, tile_dtype=tile_dtype, sample=sample, keep=case.kept)
        for i in range(passes):
            _ = operator.rmatmat(C) if i % 2 else operator.matmat(B)

    cells = m * n / (sample.fraction if sample else 1)
    operations = 2.0 * (made_of + MAP_COST + passes * k) if case.kept else passes * each
    narrow = factors.truncated(case.rank + case.offsets)
    evaluation = clock(lambda: sampled_sum(narrow, cost, sample))
    return {"tiles": operations * cells / clock(products), "cells": cells / evaluation}


def check_memory(plan: Forecast) -> None:
    """Refuse a fit that cannot be held in memory, with the numbers and what could be done.

    If the rank is only a guess, only a fit that needs too much at rank 1 is refused;
    `announce` warns of the others.
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
    """Return the largest rank below the assumed one that fits; 0 if none does."""
    return bisect_left(range(1, plan.case.rank), True, key=lambda rank: not _at(plan, rank=rank).fits)


def _at(plan: Forecast, **sizes: int) -> Forecast:
    """Forecast the memory at another rank or precision."""
    case = replace(plan.case, **sizes)  # type: ignore[arg-type]
    return replace(plan, case=case, parts=case.memory())


def announce(plan: Forecast) -> None:
    """Log a forecast: as a warning, once, if an iteration is long or memory may not suffice; else as information."""
    serious = not plan.fits or (plan.seconds or 0.0) > LONG
    logger.log(logging.WARNING if serious and plan.case not in _told else logging.INFO, "%s", plan)
    _told.update([plan.case] if serious else [])


def look_ahead(
    problem: Problem, solver: Solver[Any] | str, options: FitOptions, backend: Backend | None = None
) -> Forecast:
    """Forecast a fit before `solve` begins: refuse one that is too large, and log the rest.

    Timing is skipped if its result would not be logged, as an iteration is surely
    short, and on other backends, which hold everything themselves.
    """
    asked = partial(
        forecast,
        problem,
        solver,
        max_rank=options.max_rank,
        alphabet_term=options.alphabet_term,
        dtype=options.dtype,
    )
    plan = asked(timed=False)
    if backend is not None:
        free = backend.free_memory()
        plan = plan if free is None else replace(plan, available=free, held=0)
    check_memory(plan)
    if backend is not None:
        return plan
    if logger.isEnabledFor(logging.INFO) or sum(plan.work.flops.values()) > LONG * 1e9:
        plan = asked()
    announce(plan)
    return plan
