"""One pass of the tiled operator, and one whole step, against the operations they need and a plain BLAS product."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import best_of, blas_speed, save, show

import snapimpute as si
from snapimpute.operators import LowRank, MappedLowRank
from snapimpute.recipe import offsets

SIZES = ((943, 1682, 20, 30), (5_000, 4_000, 20, 30), (20_000, 10_000, 32, 32))


def factors(m: int, n: int, rank: int) -> LowRank:
    rng = np.random.default_rng(0)
    return LowRank(rng.standard_normal((m, rank)), np.full(rank, 1 / rank), rng.standard_normal((n, rank)))


def pass_row(m: int, n: int, rank: int, columns: int, peak: float) -> dict[str, Any]:
    """f(UVᵀ)·B with the exact L1 prox, the same without any map, and BLAS."""
    y = factors(m, n, rank)
    B = np.random.default_rng(1).standard_normal((n, columns))
    mapped = MappedLowRank(y, si.L1("1:5", xi=0.01).compiled("prox"))
    bare = MappedLowRank(y, lambda tile: None)
    with_map, without = best_of(lambda: mapped.matmat(B)), best_of(lambda: bare.matmat(B))
    operations = 2 * m * n * (rank + columns)
    return {
        "shape": f"{m}x{n}",
        "rank": rank,
        "columns": columns,
        "Gflop": operations / 1e9,
        "seconds": with_map,
        "Gflop/s": operations / with_map / 1e9,
        "of BLAS": operations / with_map / peak,
        "of unmapped": without / with_map,
    }


def step_row(m: int, n: int, observed: int, lam: float, peak: float) -> dict[str, Any]:
    """Seconds of a discrete-aware iteration near convergence, beside a plain one on the same data."""
    data = si.datasets.low_rank_alphabet((m, n), rank=10, alphabet="1:5", observed=observed / (m * n))
    base_part = offsets(data.observations, "mean")
    row: dict[str, Any] = {"shape": f"{m}x{n}", "observed": observed}
    for label, discrete in (("plain", None), ("discrete", si.L1("1:5", xi=0.01))):
        problem = si.Problem(data.observations, si.Nuclear(lam), discrete, base_part)
        result = si.solve(problem, si.solvers.APG(), max_iter=40, tol=0, evaluate_every=40)
        seconds = np.diff(result.history["seconds"])[20:]
        row[f"{label} s"], row[f"{label} rank"] = float(np.median(seconds)), result.x.rank
    passes = row["discrete s"] * peak / (2 * m * n * (2 * row["discrete rank"] + 1 + row["discrete rank"] + 10))
    return row | {"ratio": row["discrete s"] / row["plain s"], "BLAS time of passes": passes}


def main() -> None:
    peak = blas_speed()
    print(f"plain float64 product, 4096 cubed: {peak / 1e9:.1f} Gflop/s")
    passes = [pass_row(*size, peak) for size in SIZES]
    show("one tiled pass, float64: f(U Vᵀ) times a block", passes)
    save("tiled_pass", [row | {"BLAS Gflop/s": peak / 1e9} for row in passes])
    steps = [step_row(943, 1682, 20_000, 20.0, peak), step_row(5_000, 4_000, 400_000, 40.0, peak)]
    show("one iteration: discrete-aware beside plain", steps)
    save("iteration", steps)


if __name__ == "__main__":
    main()
