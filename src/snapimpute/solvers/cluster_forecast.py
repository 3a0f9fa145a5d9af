"""Forecast the needs of a fit on a cluster: memory of a worker, bytes sent, operations, time.

Counted from the sizes, as `solvers.workload` counts for one machine. An iteration
sends arrays of n rows to all workers, and one back for each transposed product.
Each of them passes from here to the scheduler and on to W workers, or back the
same way, so that it is counted W + 1 times. And it sends arrays of m rows from
worker to worker: the factors that are kept on two of them. How many columns they
have follows from the ranks of the last iterates; a plan takes one rank for all.

The constants below were measured by `benchmarks/cluster.py` with 20 million
entries on two workers, which also compares the whole with what is counted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from snapimpute.base.machine import in_words, operations_in_words, seconds_in_words
from snapimpute.linalg.svd import FRESH, GUARD
from snapimpute.linalg.tiled import KEPT_SAMPLE
from snapimpute.solvers._workload import ITERATION_COSTS, TYPICAL, Case
from snapimpute.solvers.registry import named

BASE = 200 << 20
"""Bytes of a worker that has no data yet."""

PER_ENTRY = 24
"""Bytes of an observed cell: row, column, value, and its place among those of the column."""

ON_OMEGA = 8
"""Numbers for each observed cell: those of X, of the X before and of Y, of the operator twice, and temporaries."""

BASES = 16
"""Arrays of m rows in a partial SVD, with temporaries."""

READING = 100
"""Bytes of an entry while blocks are put together: labels, numbers, values, the order, and copies of these."""

SPEED = 3.8e9
"""Operations a second of a worker with one thread, all parts of an iteration taken together."""

ASKING = 25 * 0.025
"""Seconds of an iteration until workers have been asked, and have answered, about 25 times."""

REMEMBERED = 6
"""Arrays of n rows that a worker holds at a time."""

FETCHERS = 10
"""Workers that take an array from another at a time: a setting of Dask's."""

BRANCHES = 8
"""Number of blocks added up in one task."""

GIGABIT = 1.25e8
"""Bytes a second of a network of one gigabit."""


@dataclass(frozen=True)
class ClusterForecast:
    """Peak memory of a worker and the driver in bytes; bytes sent, operations and seconds an iteration."""

    case: Case
    workers: int
    memory_per_worker: int
    driver: int
    sent: int
    flops: float
    seconds: float

    def __str__(self) -> str:
        (m, n), count = self.case.shape, self.case.observed
        return "\n".join(
            [
                f"{m:,}×{n:,}, {count:,} observed, rank up to {self.case.rank}, on {self.workers} workers",
                f"memory: about {in_words(self.memory_per_worker)} a worker, {in_words(self.driver)} here",
                f"an iteration: {operations_in_words(self.flops)}, {in_words(self.sent)} sent: "
                f"about {seconds_in_words(self.seconds)}",
            ]
        )


def cluster_forecast(
    shape: tuple[int, int],
    observed: int,
    rank: int,
    *,
    workers: int,
    solver: str = "ais-impute",
    discrete: bool = True,
    sampled: bool = True,
    fraction: int | None = None,
    offsets: int = 2,
    dtype: str = "float64",
    flops_per_second: float = SPEED,
    bytes_per_second: float = GIGABIT,
) -> ClusterForecast:
    """Forecast a fit on so many workers of one thread each, with iterates of at most this rank.

    One of ``fraction`` cells is drawn for a sampled term, by default as many as were observed. ``offsets`` is the
    rank of what is taken off before: 0 for nothing, 1 for a mean, 2 for biases. Speeds are those of a worker and of
    one connection; if not given, what was measured, and a network of one gigabit.

    Examples
    --------
    >>> print(cluster_forecast((100_000_000, 1_000_000), 1_000_000_000, 64, workers=100))  # doctest: +ELLIPSIS
    100,000,000×1,000,000, 1,000,000,000 observed, rank up to 64, on 100 workers
    memory: ...
    an iteration: ...
    """
    (m, n), item = shape, np.dtype(dtype).itemsize
    habit = ITERATION_COSTS.get(named(solver).name, TYPICAL)
    drawn = fraction or max(m * n // max(observed, 1), 1)
    case = Case(
        shape,
        observed,
        item,
        rank,
        habit=habit,
        discrete=discrete,
        tiled=float(discrete),
        offsets=offsets,
        sampled=discrete and sampled,
        fraction=drawn if discrete and sampled else 1,
    )
    rows, entries = -(-m // workers), -(-observed // workers)
    kept = columns_kept(case) if workers > 1 else 0
    sent = bytes_sent(case, workers)
    flops = sum(case.work().flops.values())
    seconds = ASKING + flops / (workers * flops_per_second) + seconds_sending(case, workers, bytes_per_second)
    width = rank + GUARD + FRESH
    fit = entries * (PER_ENTRY + ON_OMEGA * item) + item * (
        rows * (BASES * width + 2 * kept) + n * REMEMBERED * width
    )
    fit += 2 * case.tile_size * int(min(rows * n * case.tiled / case.fraction, KEPT_SAMPLE))
    driver = BASE + item * n * (REMEMBERED + BASES) * width
    return ClusterForecast(case, workers, BASE + max(fit, READING * entries), int(driver), int(sent), flops, seconds)


def columns_kept(case: Case, ranks: Sequence[int] = ()) -> int:
    """Columns of m rows that are copied to another worker in an iteration: of X, and of a sampler's past."""
    now, before, _ = _last(case, ranks)
    return now + 2 * (before + GUARD) * case.sampled


def columns_sent(case: Case, ranks: Sequence[int] = (), rounds: int | None = None) -> tuple[int, int]:
    """Columns of n rows that go out in an iteration, and that come back.

    ``ranks`` are those of the new X, of the one before and of the one before that; ``rounds`` of the partial SVD are
    a product with the transposed matrix and one with the matrix each, by default the usual number.
    """
    now, before, earlier = _last(case, ranks)
    rounds = max((case.habit.passes - 1) // 2, 1) if rounds is None else rounds
    first, again = min(before + GUARD + FRESH, *case.shape), min(now + GUARD, *case.shape)
    start = before + earlier * case.habit.momentum
    out = start + now + first + rounds * again
    back = first + (rounds - 1) * again
    if case.discrete:
        out += start + 1 + 3 * case.offsets  # the line has a constant, and both have offsets
    if case.sampled:
        past = min(before + GUARD, *case.shape)
        out += past + (before + past)  # the spaces of the past, and what is kept of it
        out += now + case.offsets  # for the objective
        back += before
    return out, back


def _last(case: Case, ranks: Sequence[int]) -> Sequence[int]:
    return ranks or (case.rank,) * 3


def bytes_sent(case: Case, workers: int, ranks: Sequence[int] = (), rounds: int | None = None) -> int:
    """Bytes that an iteration sends, over all connections."""
    (m, n), item = case.shape, case.itemsize
    kept = columns_kept(case, ranks) if workers > 1 else 0
    return (workers + 1) * item * n * sum(columns_sent(case, ranks, rounds)) + item * m * kept


def seconds_sending(case: Case, workers: int, bytes_per_second: float) -> float:
    """Seconds of an iteration on the way, where each machine has one connection.

    What goes out passes from here to the scheduler, to one worker, and from those that have it to `FETCHERS` others
    at a time each; what comes back is added up by `BRANCHES` in a tree, and passes through the scheduler, too.
    """
    out, back = columns_sent(case)
    steps_out, steps_back, holders, parts = 2.0, 2.0, 1, workers
    while holders < workers:
        more = min(FETCHERS * holders, workers - holders)
        steps_out += more / holders
        holders += more
    while parts > 1:
        steps_back += min(BRANCHES, parts) - 1
        parts = -(-parts // BRANCHES)
    (m, n), kept = case.shape, columns_kept(case) if workers > 1 else 0
    return case.itemsize / bytes_per_second * (n * (out * steps_out + back * steps_back) + m / workers * kept)
