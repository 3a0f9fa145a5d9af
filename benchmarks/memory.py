"""A discrete-aware fit at 20,000×10,000 with 2 million observed: seconds and peak memory above the imports.

Twenty planted factors of equal strength; λ goes down a short path, each fit
starting from the one before, as anybody would fit at this size: cold at the
final λ the first step would have a rank of thousands.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import numpy as np

import snapimpute as si
from common import save, show
from snapimpute.recipe import offsets

LIMIT_MIB = 400
SHAPE, OBSERVED, RANK, XI = (20_000, 10_000), 0.01, 20, 0.01
PATH = ((36.0, 6), (31.0, 6), (26.0, 8), (22.0, 10))
"""λ and iterations."""


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def compile_everything() -> None:
    """Run all compiled code once on a toy, so that the compiler's memory counts as import."""
    data = si.datasets.low_rank_alphabet((300, 300), rank=2, alphabet="1:5", observed=0.2)
    si.solve(si.Problem(data.observations, si.Nuclear(5.0), si.L1("1:5", xi=XI)), si.solvers.APG(), max_iter=3, tol=0)


def main() -> None:
    compile_everything()
    base = peak_mib()
    data = si.datasets.low_rank_alphabet(SHAPE, rank=RANK, alphabet="1:5", observed=OBSERVED)
    observations, hidden = data.observations, data.hidden(200_000, random_state=1)
    base_part = offsets(observations, "mean")
    rows: list[dict[str, Any]] = []
    x = None
    for lam, iterations in PATH:
        problem = si.Problem(observations, si.Nuclear(lam), si.L1("1:5", xi=XI), base_part)
        begin = time.perf_counter()
        result = si.solve(problem, si.solvers.APG(), x0=x, max_iter=iterations, tol=0, evaluate_every=iterations)
        x = result.x
        estimate = result.entries(hidden.rows, hidden.cols)
        rows.append(
            {
                "lam": lam,
                "iterations": iterations,
                "rank": x.rank,
                "s / iteration": float(result.history["seconds"][-1]) / iterations,
                "seconds": time.perf_counter() - begin,
                "E": float(result.history["objective"][-1]),
                "NMSE": si.metrics.nmse(hidden.values, estimate),
                "NMSE of the mean": si.metrics.nmse(hidden.values, np.full(len(hidden), observations.values.mean())),
                "peak MiB above imports": peak_mib() - base,
            }
        )
        show(f"fit at {SHAPE[0]}×{SHAPE[1]}, {len(observations):,} observed, ξ = {XI}", rows[-1:])
    save("memory", rows)
    peak = rows[-1]["peak MiB above imports"]
    print(f"\npeak {peak:.0f} MiB above the imports, at most {LIMIT_MIB} wanted; solution rank {rows[-1]['rank']}")
    if peak > LIMIT_MIB:
        sys.exit(1)


if __name__ == "__main__":
    main()
