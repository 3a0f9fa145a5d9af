"""Growth of seconds and memory of the posterior: known cells, factors, columns of a full covariance, threads.

    python benchmarks/posterior_growth.py [cells factors columns threads]

One thing is varied at a time about a million known cells, 15 factors and one
thread, each run in a process of its own. Seconds are the processor's; those of
threads are the clock's, one thread included. A sweep is the quickest of all, since
a busy machine only adds. Memory is the peak above that of the imports and of a toy
that compiles everything. The exponent is the slope of log(seconds of a sweep)
against log(size) between the two largest sizes, where fixed costs weigh least.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from typing import Any

import numpy as np

import snapimpute as si
from common import RESULTS, in_process, peak_mib, picture, save, show
from snapimpute.posterior import Posterior, Sweep

DENSITY, NOISE, SWEEPS = 0.05, 0.2, 200
ROWS, KNOWN = 3000, 0.8
"""Rows of a narrow table, and its share of known cells."""

BASE = {"cells": 1_000_000, "factors": 15, "columns": 0, "threads": 1}
VARIED: dict[str, tuple[int, ...]] = {
    "cells": (10_000, 100_000, 1_000_000, 10_000_000),
    "factors": (8, 15, 31, 47),
    "columns": (10, 30, 100, 300),
    "threads": (1, 2),
}
TITLES = {"cells": "known cells", "factors": "factors k", "columns": "columns, full covariance", "threads": "threads"}


def table(cells: int) -> si.Observations:
    """Ratings with twice as many rows as columns; 5 % of the cells are known."""
    n = round(math.sqrt(cells / DENSITY / 2))
    return planted((2 * n, n), cells / (2 * n * n))


def planted(shape: tuple[int, int], observed: float) -> si.Observations:
    rank = min(6, shape[1] // 2)
    return si.datasets.low_rank_alphabet(shape, rank, "1:5", observed=observed, noise=NOISE).observations


def one(setting: dict[str, int]) -> dict[str, Any]:
    """Seconds of the start and of a sweep, and the peak of memory, of one run."""
    narrow = bool(setting["columns"])
    how = {"covariance": "full"} if narrow else {"covariance": "low-rank", "thresholds": "rows"}
    model = Posterior(**how, rank="auto" if narrow else setting["factors"], sweeps=SWEEPS)
    toy = planted((200, 100), 0.4)
    Posterior(**how, rank=model.rank, sweeps=25).fit(toy, "1:5").proba([0], [0])
    observations = planted((ROWS, setting["columns"]), KNOWN) if narrow else table(setting["cells"])
    now = time.perf_counter if setting["threads"] > 1 or "clock" in setting else time.process_time
    before, clock, begin = peak_mib(), list[float](), now()

    def note(_: Sweep) -> None:
        clock.append(now())

    model.fit(observations, "1:5", callback=note)
    sweeps = np.diff(clock)
    return {
        "known": len(observations),
        "rows": observations.shape[0],
        "start seconds": clock[0] - begin - float(sweeps.min()),
        "seconds a sweep": float(sweeps.min()),
        "median": float(np.median(sweeps)),
        "ns a cell and sweep": 1e9 * float(sweeps.min()) / len(observations),
        "MiB": peak_mib() - before,
    }


def exponent(rows: list[dict[str, Any]]) -> float:
    """Slope on logarithmic scales between the two largest sizes."""
    a, b = rows[-2:]
    return math.log(b["seconds a sweep"] / a["seconds a sweep"]) / math.log(b["size"] / a["size"])


def draw(figure: Any, rows: list[dict[str, Any]]) -> None:
    grid = figure.subplots(2, len(VARIED), sharey="row")
    for (top, bottom), name in zip(grid.T, VARIED, strict=True):
        some = [row for row in rows if row["varied"] == name]
        sizes = [row["size"] for row in some]
        for axes, key, colour in ((top, "seconds a sweep", "#c0392b"), (bottom, "MiB", "#5b7f95")):
            axes.semilogx(sizes, [row[key] for row in some], "o-", color=colour)
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=7)
            axes.minorticks_off()
            axes.spines[["top", "right"]].set_visible(False)
        top.set_yscale("log")
        bottom.set_ylim(bottom=0)
        top.set_title(f"sweep ∝ size^{exponent(some):.2f}", fontsize=9)
        bottom.set_xlabel(TITLES[name])
    grid[0, 0].set_ylabel("seconds of a sweep")
    grid[1, 0].set_ylabel("peak MiB above imports")


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(one(json.loads(sys.argv[2]))))
        return
    asked = sys.argv[1:] or list(VARIED)
    file = RESULTS / "posterior_growth.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    for name in asked:
        rows = [row for row in rows if row["varied"] != name]
        for size in VARIED[name]:
            setting = BASE | {name: size} | ({"clock": 1} if name == "threads" else {})
            os.environ["SNAPIMPUTE_NUM_THREADS"] = str(setting["threads"])
            found = in_process("posterior_growth.py", "one", json.dumps(setting))
            rows.append({"varied": name, "size": size} | found)
            save("posterior_growth", rows)
            print(rows[-1], flush=True)
    show("a run of the posterior", rows)
    whole = {name: [row for row in rows if row["varied"] == name] for name in VARIED}
    for name, some in whole.items():
        if len(some) > 1:
            print(f"{TITLES[name]}: a sweep grows with the power {exponent(some):.2f}")
    if all(len(some) > 1 for some in whole.values()):
        picture("posterior_growth", lambda figure: draw(figure, rows), (13, 5.5))


if __name__ == "__main__":
    main()
