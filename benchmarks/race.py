"""Every solver on the same problems of MovieLens-100k: iterations and seconds to within 1e-4 of the best value."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

import snapimpute as si
from common import save, show
from snapimpute.data.datasets import DatasetUnavailable
from snapimpute.solvers import SOLVERS, AISImpute, Info, fitting

CLOSE, PATIENCE = 1e-4, 40.0
PICTURE = Path(__file__).parents[1] / "docs" / "race.png"
OTHER_PROBLEMS = (
    *("svt", "sdp", "low-rank-sparse", "altmin", "optspace", "sun-luo"),
    *("davis-yin", "admm", "penalty-decomposition"),
)
"""These minimise something else."""


def problems(data: Any) -> dict[str, si.Problem]:
    first = np.random.default_rng(0).permutation(100_000)
    cells = first[:20_000]
    observed = si.Observations.from_coo(data.rows[cells], data.cols[cells], data.values[cells], data.shape)
    nuclear, lsp = si.Nuclear(10.0), si.LogSum(1500.0, 100.0)
    return {
        "nuclear λ=10": si.Problem(observed, nuclear),
        "nuclear λ=10, L1 ξ=.01": si.Problem(observed, nuclear, si.L1("1:5", xi=0.01)),
        "LSP λ=1500 θ=100": si.Problem(observed, lsp),
        "LSP λ=1500 θ=100, L1 ξ=.003": si.Problem(observed, lsp, si.L1("1:5", xi=0.003)),
    }


def reference(problem: si.Problem) -> float:
    """The optimum if the problem is convex, else the best that the safeguarded solvers find."""
    if problem.convex:
        return si.solve(problem, AISImpute(), max_iter=1000, tol=1e-7, evaluate_every=1000).objective
    runs = [si.solve(problem, name, max_iter=600, tol=1e-6, evaluate_every=600) for name in ("niapg", "nmapg")]
    return min(run.objective for run in runs)


def race(label: str, problem: si.Problem, panel: Any) -> list[dict[str, Any]]:
    best = reference(problem)
    target = best * (1 + CLOSE)
    rows = []
    for name in fitting(problem):
        if name in OTHER_PROBLEMS:
            continue
        result = si.solve(problem, SOLVERS[name](), max_iter=5000, tol=0, callback=lambda info: ended(info, target))
        draw(panel, name, result, best)
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


def draw(panel: Any, name: str, result: si.Result, best: float) -> None:
    above = np.maximum(result.history["objective"] / best - 1, 0.5 * CLOSE)
    auto = name in ("ais-impute", "niapg")
    colour = mpl.colormaps["tab10"](list(SOLVERS).index(name) % 10)  # the same in every panel
    panel.loglog(result.history["seconds"], above, label=name, color=colour, linewidth=2.4 if auto else 1.2)


def finish(figure: Any, panels: Any, labels: list[str]) -> None:
    for panel, label in zip(panels, labels, strict=True):
        panel.axhline(CLOSE, color="0.6", linewidth=0.8, linestyle=":")
        panel.set(title=label, xlabel="seconds", ylim=(0.5 * CLOSE, 30))
        panel.legend(fontsize=7, loc="lower left", ncols=2)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_ylabel("objective above the best, relative")
    figure.suptitle("MovieLens-100k, 20 % observed, started at 0")
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    try:
        data = si.datasets.movielens_100k()
    except DatasetUnavailable as err:
        sys.exit(f"the race needs MovieLens-100k: {err}")
    figure, grid = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    every, chosen = [], problems(data)
    for (label, problem), panel in zip(chosen.items(), grid.flat, strict=True):
        rows = race(label, problem, panel)
        show(f"MovieLens-100k, 20 %, {label}: to within {CLOSE:g} of the best objective", rows)
        every += rows
    save("race", every)
    finish(figure, grid.flat, list(chosen))


if __name__ == "__main__":
    main()
