"""Nanoseconds of a sweep of the low-rank posterior by part, and its normal equations beside matrix products.

    python benchmarks/posterior_kernels.py

For each table and rank: processor time a cell and sweep of each compiled pass and of
what numpy does between them, the least over many sweeps, as a busy machine only adds.
Then the normal equations alone: arithmetic of both sides a cell, its speed with cells
gathered from random places, beside the product of gathered matrices of the same sizes
by BLAS, and the share of what BLAS reaches on large matrices.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

import snapimpute as si
from common import RESULTS, save
from posterior import Table, split
from snapimpute.base.compiled import kernel
from snapimpute.posterior import Posterior, Sweep, _low_rank
from snapimpute.posterior._gram import add_cells, padded, sums_length
from snapimpute.posterior._units import Side

SWEEPS, SETTLED = 60, 25
"""Sweeps of a run, and the first one that is measured."""

PARTS = {
    "predict": "η",
    "move_thresholds": "thresholds and factors on them",
    "draw_raters": "latent values, raters",
    "draw_items": "items",
    "draw_prior": "priors of units",
    "draw_noise": "noise of units",
}
TILE, UNITS, CELLS = 16, 200, 84
LARGE = 512
"""Rows and columns of the matrix that are summed at once; units of the comparison with BLAS, and cells of each; rows
of its large matrices."""


class Meter:
    """Processor time of every part, sweep by sweep."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self.least: dict[str, float] = {}
        self._begun = time.thread_time()

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **options: Any) -> Any:
            begun = time.thread_time()
            result = work(*given, **options)
            self.spent[name] += time.thread_time() - begun
            return result

        return timed

    def swept(self, sweep: Sweep) -> None:
        """Callback after each sweep."""
        now = time.thread_time()
        self.spent["rest"] = now - self._begun - sum(self.spent.values())
        if sweep.number >= SETTLED:
            for name, seconds in self.spent.items():
                self.least[name] = min(self.least.get(name, np.inf), seconds)
            whole = sum(self.spent.values())
            self.least["whole"] = min(self.least.get("whole", np.inf), whole)
        self.spent.clear()
        self._begun = time.thread_time()


def parts_of(observations: si.Observations, alphabet: str, rank: int) -> dict[str, float]:
    """Nanoseconds a cell and sweep of each part."""
    meter, kept = Meter(), {}
    for name in PARTS:
        owner: Any = _low_rank if hasattr(_low_rank, name) else Side
        kept[name] = owner, getattr(owner, name)
        setattr(owner, name, meter.timed(name, getattr(owner, name)))
    try:
        model = Posterior(covariance="low-rank", thresholds="rows", rank=rank, sweeps=SWEEPS)
        model.fit(observations, alphabet, callback=meter.swept)
    finally:
        for name, (owner, work) in kept.items():
            setattr(owner, name, work)
    return {name: round(seconds / len(observations) * 1e9, 2) for name, seconds in meter.least.items()}


def least_seconds(work: Callable[[], object]) -> float:
    """Processor time of the quickest of many runs."""
    work()
    seconds = []
    for _ in range(50):
        begun = time.thread_time()
        work()
        seconds.append(time.thread_time() - begun)
    return min(seconds)


def operations(width: int) -> int:
    """Arithmetic of one side for a cell: tiles on and below the diagonal, the vector."""
    tiles = width // TILE
    return 2 * TILE * TILE * tiles * (tiles + 1) // 2 + 2 * width


@kernel
def normal_equations(vectors, width, which, weights, targets, start, out):
    for unit in range(start.size - 1):
        add_cells(vectors, width, which, weights, targets, start[unit], start[unit + 1], out[unit])


def equations_of(rank: int) -> dict[str, Any]:
    """Speed of the normal equations alone, and of BLAS on matrices of the same sizes."""
    width, rng = padded(rank + 1), np.random.default_rng(0)
    vectors = rng.standard_normal((4000, width)).astype(np.float32)
    which = rng.integers(0, 4000, UNITS * CELLS).astype(np.int32)
    weights, targets = (rng.random(which.size).astype(np.float32) for _ in range(2))
    start, out = np.arange(UNITS + 1) * CELLS, np.empty((UNITS, sums_length(width)), np.float32)
    ours = least_seconds(lambda: normal_equations(vectors.ravel(), width, which, weights, targets, start, out))
    gathered = vectors[which].reshape(UNITS, CELLS, width)
    turned = np.ascontiguousarray(gathered.transpose(0, 2, 1))
    blas = least_seconds(lambda: turned @ gathered)
    large = rng.standard_normal((LARGE, LARGE)).astype(np.float32)
    done, peak = operations(width) * which.size, 2 * LARGE**3 / least_seconds(lambda: large @ large)
    return {
        "rank": rank,
        "flops a cell, both sides": 2 * operations(width),
        "ns a cell, one side": round(ours / which.size * 1e9, 2),
        "GFLOP/s": round(done / ours / 1e9, 1),
        "BLAS, same sizes": round(2 * width * width * which.size / blas / 1e9, 1),
        "BLAS, large": round(peak / 1e9, 1),
        "share of BLAS": f"{done / ours / peak:.0%}",
    }


def tables() -> list[tuple[str, si.Observations, str]]:
    films = Table.of(si.datasets.movielens_100k())
    made = {
        symbols: si.datasets.low_rank_alphabet(
            (6000, 4000), rank=6, alphabet=f"1:{symbols}", observed=1_000_000 / 24e6
        ).observations
        for symbols in (5, 10)
    }
    return [
        ("MovieLens-100k, 20 %", split(films, 0.2, 0)[0], "1:5"),
        ("MovieLens-100k, 80 %", split(films, 0.8, 0)[0], "1:5"),
        *((f"1 million, S = {symbols}", table, f"1:{symbols}") for symbols, table in made.items()),
    ]


def main() -> None:
    rows = []
    for name, observations, alphabet in tables():
        for rank in (8, 15, 31):
            rows.append({"data": name, "cells": len(observations), "rank": rank})
            rows[-1] |= parts_of(observations, alphabet, rank)
            print(rows[-1], flush=True)
    equations = [equations_of(rank) for rank in (15, 31)]
    for row in equations:
        print(row)
    save("posterior_kernels", rows + equations)
    print(RESULTS / "posterior_kernels.json")


if __name__ == "__main__":
    os.environ.setdefault("SNAPIMPUTE_NUM_THREADS", "1")
    main()
