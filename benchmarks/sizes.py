"""APG, AIS-Impute and APGL on convex problems of growing size: what the choice of "auto" rests on."""

from __future__ import annotations

from typing import Any

import snapimpute as si
from common import save, show
from snapimpute.solvers import AISImpute, Info

SIZES = ((30, 20), (100, 80), (400, 300))
CLOSE = 1e-4


def problem(shape: tuple[int, int], discrete: bool) -> si.Problem:
    """Six per cent observed, or three times as many entries as the factors have numbers."""
    m, n = shape
    rank = 5 if min(shape) > 50 else 2
    observed = min(0.5, max(0.06, 3 * rank * (m + n) / (m * n)))
    data = si.datasets.low_rank_alphabet(shape, rank, "1:5", observed=observed, random_state=0)
    offsets = si.LowRank.constant(shape, 3.0)
    penalty = si.L1("1:5", xi=0.01) if discrete else None
    largest = si.tuning.largest_lam(data.observations, si.tuning.ModelSpec(data.alphabet, center="mean"))
    return si.Problem(data.observations, si.Nuclear(0.1 * largest), penalty, offsets)


def measured(task: si.Problem, label: str) -> list[dict[str, Any]]:
    best = si.solve(task, AISImpute(), max_iter=3000, tol=1e-9, evaluate_every=3000).objective
    rows = []
    for name in ("apg", "ais-impute", "apgl"):

        def ended(info: Info) -> bool:
            return info.objective <= best * (1 + CLOSE)

        runs = [si.solve(task, name, max_iter=2000, tol=0, callback=ended) for _ in range(3)]
        least = min(runs, key=lambda run: float(run.history["seconds"][-1]))
        rows.append(
            {
                "problem": label,
                "solver": name,
                "iterations": least.n_iter,
                "milliseconds": 1e3 * float(least.history["seconds"][-1]),
                "rank": least.x.rank,
            }
        )
    return rows


def main() -> None:
    every = []
    for shape in SIZES:
        for discrete in (False, True):
            label = f"{shape[0]}×{shape[1]}" + (", L1" if discrete else "")
            rows = measured(problem(shape, discrete), label)
            show(f"{label}: to within {CLOSE:g} of the optimum, best of 3", rows)
            every += rows
    save("sizes", every)


if __name__ == "__main__":
    main()
