"""Growth of seconds and memory of an iteration with |Ω|, m, n, rank, alphabet size and threads.

One thing is varied at a time about 20,000×10,000 with 2 million observed, rank
20 and five symbols in float32; a discrete-aware iteration with all cells and
one with a sample, each run in a process of its own. The exponent is the slope
of log(seconds) against log(size) between the smallest and the largest.
"""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any

import numpy as np

import snapimpute as si
from common import compile_everything, in_process, peak_mib, picture, save, show

BASE = {"m": 20_000, "n": 10_000, "observed": 2_000_000, "rank": 20, "symbols": 5, "threads": 2}
VARIED = {
    "observed": (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000),
    "m": (5_000, 10_000, 20_000, 40_000, 80_000),
    "n": (2_500, 5_000, 10_000, 20_000, 40_000),
    "rank": (5, 10, 20, 40),
    "symbols": (2, 5, 10, 20),
    "threads": (1, 2),
}
TERMS = ("tiled", "sampled")
ITERATIONS = 4


def one(setting: dict[str, int], term: str) -> dict[str, Any]:
    """Iterations from a warm start of the given rank on random ratings; max_rank keeps it."""
    compile_everything()
    before = peak_mib()
    rng = np.random.default_rng(0)
    m, n, rank, symbols = setting["m"], setting["n"], setting["rank"], setting["symbols"]
    cells = np.unique(rng.integers(0, m * n, setting["observed"]))
    values = rng.integers(1, symbols + 1, cells.size).astype(float)
    observations = si.Observations.from_coo(cells // n, cells % n, values, (m, n))
    middle = (symbols + 1) / 2
    factors = [np.linalg.qr(rng.standard_normal((side, rank))).Q for side in (m, n)]
    spread = 0.5 * math.sqrt(m * n / rank)
    start = si.LowRank(factors[0], np.linspace(1.2, 0.8, rank) * spread, factors[1])
    penalty = si.L1(f"1:{symbols}", xi=0.01)
    base = si.LowRank.constant((m, n), middle)
    problem = si.Problem(observations, si.Nuclear(0.1 * spread), penalty, base)
    result = si.solve(
        problem,
        si.solvers.SoftImpute(),
        x0=start,
        max_iter=ITERATIONS,
        tol=0,
        max_rank=rank,
        dtype="float32",
        alphabet_term=term,
        evaluate_every=10**6,
    )
    seconds = float(np.median(np.diff(result.history["seconds"])))
    return {"seconds": seconds, "MiB": peak_mib() - before, "share": float(result.history.get("share", [1.0])[-1])}


def exponent(sizes: list[int], seconds: list[float]) -> float:
    return math.log(seconds[-1] / seconds[0]) / math.log(sizes[-1] / sizes[0])


def draw(figure: Any, rows: list[dict[str, Any]]) -> None:
    grid = figure.subplots(2, len(VARIED), sharey="row")
    for (top, bottom), name in zip(grid.T, VARIED, strict=True):
        for term, colour in zip(TERMS, ("#c0392b", "#5b7f95"), strict=True):
            some = [row for row in rows if row["varied"] == name and row["term"] == term]
            sizes = [row["size"] for row in some]
            top.loglog(sizes, [row["seconds"] for row in some], "o-", color=colour, label=term)
            bottom.loglog(sizes, [row["MiB"] for row in some], "o-", color=colour)
        for axes in (top, bottom):
            axes.set_xticks(VARIED[name], [f"{size:,.3g}".replace("e+0", "e") for size in VARIED[name]], fontsize=7)
            axes.minorticks_off()
        bottom.set_xlabel({"observed": "|Ω|"}.get(name, name))
    grid[0, 0].set_ylabel("seconds of an iteration")
    grid[1, 0].set_ylabel("peak MiB above imports")
    grid[0, 0].legend()


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(one(json.loads(sys.argv[1]), sys.argv[2])))
        return
    rows, growth = [], []
    for name, sizes in VARIED.items():
        for term in TERMS:
            some = []
            for size in sizes:
                setting = BASE | {name: size}
                os.environ["SNAPIMPUTE_NUM_THREADS"] = str(setting["threads"])
                found = in_process("growth.py", json.dumps(setting), term)
                some.append({"varied": name, "size": size, "term": term} | found)
            rows += some
            growth.append(
                {
                    "varied": name,
                    "term": term,
                    "from": sizes[0],
                    "to": sizes[-1],
                    "seconds grow by": some[-1]["seconds"] / some[0]["seconds"],
                    "exponent": exponent([r["size"] for r in some], [r["seconds"] for r in some]),
                    "MiB grow by": some[-1]["MiB"] / some[0]["MiB"],
                }
            )
    os.environ.pop("SNAPIMPUTE_NUM_THREADS", None)
    show("an iteration", rows)
    show("growth, everything else at its base " + json.dumps(BASE), growth)
    save("growth", rows)
    picture("growth", lambda figure: draw(figure, rows), (15, 6))


if __name__ == "__main__":
    main()
