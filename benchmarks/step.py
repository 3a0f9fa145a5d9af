"""One pass of the tiled operator, and one whole step, against the operations they need and a plain BLAS product."""

from __future__ import annotations

from typing import Any

import numpy as np

import snapimpute as si
from common import best_of, blas_speed, save, show
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


class Counter:
    """Counts the operations of all tiled passes while it is entered."""

    def __enter__(self) -> Counter:
        self.operations, self.passes = 0.0, 0
        self.original = original = MappedLowRank.matmat

        def counted(operator: MappedLowRank, B: Any) -> Any:
            m, n = operator.shape
            self.operations += 2 * m * n * (operator.factors.rank + B.shape[1])
            self.passes += 1
            return original(operator, B)

        MappedLowRank.matmat = counted  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        MappedLowRank.matmat = self.original  # type: ignore[method-assign]


def step_row(m: int, n: int, observed: int, lam: float, peak: float) -> dict[str, Any]:
    """Iterations 21 to 40 of a discrete-aware fit: seconds, the operations of their passes, a plain fit beside."""
    data = si.datasets.low_rank_alphabet((m, n), rank=10, alphabet="1:5", observed=observed / (m * n))
    base_part = offsets(data.observations, "mean")
    seconds, ranks = {}, {}
    for label, discrete in (("plain", None), ("discrete", si.L1("1:5", xi=0.01))):
        problem = si.Problem(data.observations, si.Nuclear(lam), discrete, base_part)
        early = si.solve(problem, si.solvers.APG(), max_iter=20, tol=0, evaluate_every=20)
        with Counter() as counter:
            late = si.solve(problem, si.solvers.APG(), x0=early.x, max_iter=20, tol=0, evaluate_every=20)
        seconds[label], ranks[label] = float(late.history["seconds"][-1]) / 20, late.x.rank
    needed = counter.operations / 20
    return {
        "shape": f"{m}x{n}",
        "observed": observed,
        "rank": ranks["discrete"],
        "seconds": seconds["discrete"],
        "passes": counter.passes / 20,
        "Gflop": needed / 1e9,
        "of BLAS": needed / peak / seconds["discrete"],
        "plain seconds": seconds["plain"],
        "discrete/plain": seconds["discrete"] / seconds["plain"],
    }


def main() -> None:
    peak = blas_speed()
    print(f"plain float64 product, 4096 cubed: {peak / 1e9:.1f} Gflop/s")
    passes = [pass_row(*size, peak) for size in SIZES]
    show("one tiled pass, float64: f(U Vᵀ) times a block", passes)
    save("tiled_pass", [row | {"BLAS Gflop/s": peak / 1e9} for row in passes])
    steps = [step_row(943, 1682, 80_000, 14.0, peak), step_row(5_000, 4_000, 400_000, 30.0, peak)]
    show("one iteration: discrete-aware beside plain", steps)
    save("iteration", steps)


if __name__ == "__main__":
    main()
