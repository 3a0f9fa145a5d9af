"""Every solver on the same problems of MovieLens-100k: iterations and seconds to within 1e-4 of the best value."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import snapimpute as si
from common import save, show
from snapimpute.datasets import DatasetUnavailable
from snapimpute.solvers import SOLVERS, AISImpute, Info, fitting

CLOSE, PATIENCE = 1e-4, 60.0
OTHER_PROBLEMS = ("svt", "sdp", "low-rank-sparse", "altmin", "optspace", "sun-luo")
"""These minimise something else."""


def problems(data: Any) -> dict[str, si.Problem]:
    first = np.random.default_rng(0).permutation(100_000)
    cells = {n: first[:n] for n in (20_000, 60_000)}
    observed = {
        n: si.Observations.from_coo(data.rows[c], data.cols[c], data.values[c], data.shape) for n, c in cells.items()
    }
    return {
        "20 %, nuclear 10": si.Problem(observed[20_000], si.Nuclear(10.0)),
        "60 %, nuclear 10": si.Problem(observed[60_000], si.Nuclear(10.0)),
        "20 %, nuclear 10, L1 ξ=.01": si.Problem(observed[20_000], si.Nuclear(10.0), si.L1("1:5", xi=0.01)),
        "20 %, LSP 1500, 100": si.Problem(observed[20_000], si.LogSum(1500.0, 100.0)),
        "20 %, LSP 1500, 100, L1 ξ=.003": si.Problem(
            observed[20_000], si.LogSum(1500.0, 100.0), si.L1("1:5", xi=0.003)
        ),
        "20 %, MCP 20": si.Problem(observed[20_000], si.MCP(20.0)),
    }


def reference(problem: si.Problem) -> float:
    """The optimum if the problem is convex, else the best that the safeguarded solvers find."""
    if problem.convex:
        return si.solve(problem, AISImpute(), max_iter=1000, tol=1e-7, evaluate_every=1000).objective
    runs = [si.solve(problem, name, max_iter=600, tol=1e-6, evaluate_every=600) for name in ("niapg", "nmapg")]
    return min(run.objective for run in runs)


def race(label: str, problem: si.Problem) -> list[dict[str, Any]]:
    target = reference(problem) * (1 + CLOSE)
    rows = []
    for name in fitting(problem):
        if name in OTHER_PROBLEMS:
            continue
        result = si.solve(problem, SOLVERS[name](), max_iter=5000, tol=0, callback=lambda info: ended(info, target))
        there = result.objective <= target
        rows.append(
            {
                "problem": label,
                "solver": name,
                "iterations": result.n_iter if there else f"more than {result.n_iter}",
                "seconds": float(result.history["seconds"][-1]) if there else f"more than {PATIENCE:g}",
                "above target": max(result.objective / target - 1, 0.0),
                "rank": result.x.rank,
                "largest rank": int(result.history["rank"].max()),
            }
        )
    return rows


def ended(info: Info, target: float) -> bool:
    return info.objective <= target or info.row["seconds"] > PATIENCE


def main() -> None:
    try:
        data = si.datasets.movielens_100k()
    except DatasetUnavailable as err:
        sys.exit(f"the race needs MovieLens-100k: {err}")
    every = []
    for label, problem in problems(data).items():
        rows = race(label, problem)
        show(f"MovieLens-100k, {label}: to within {CLOSE:g} of the best objective", rows)
        every += rows
    save("race", every)


if __name__ == "__main__":
    main()
