"""Cost and outcome of tuning `Proximal`: CPU seconds of tuning and last fit, errors, strengths and verdicts.

    python benchmarks/tuning.py [movielens senate bfi hapmap] [--as-before COMMIT]

Tuning of centre, λ and ξ on a fifth held out, then the last fit on all known cells,
with the options of the estimator; hidden cells are scored by their nearest symbols.
Splits are those of `Observations.split` at seeds 10 and 11. CPU seconds are those of
the process, after everything is compiled, with the numbers of threads in "machine":
set OPENBLAS_NUM_THREADS=1 and NUMBA_NUM_THREADS=1. bfi and HapMap are read from
SNAPIMPUTE_TEST_DATA. Figures of an older commit stand under "before"; run this
script on its sources (PYTHONPATH) with --as-before to measure them again.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import snapimpute as si
from common import RESULTS, compile_everything, machine, show
from snapimpute.base.files import write_atomically
from snapimpute.data import datasets
from snapimpute.experts.proximal.offsets import KnownCells
from snapimpute.experts.proximal.tuned import tune
from snapimpute.solvers import FitOptions

SEEDS = (10, 11)
SHARES = {"movielens": (20, 50, 80), "senate": (5, 50), "bfi": (50,), "hapmap": (50,)}
ALPHABETS = {"movielens": "1:5", "senate": "0,1", "bfi": "1:6", "hapmap": "0,1,2"}
OPTIONS = FitOptions(max_iter=300, tol=1e-4, alphabet_term="auto")
BFI_ITEMS = 25

LIMITS = {("movielens", 80): 3.0, ("senate", 50): 1.5, ("bfi", 50): 1.0}
"""CPU seconds wanted of tuning and last fit."""


def cells_of(name: str, columns: int | None = None) -> si.Observations:
    """Read the cells of a table; its first column holds names."""
    folder = Path(os.environ.get("SNAPIMPUTE_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
    with gzip.open(folder / f"{name}.csv.gz", "rt") as file:
        _, *rows = csv.reader(file)
    cells = [[float(one) if one not in ("", "NA") else np.nan for one in row[1:][:columns]] for row in rows]
    return si.Observations.from_dense(np.array(cells))


def table(name: str) -> si.Observations:
    if name == "movielens":
        return datasets.load("movielens-100k").observations
    if name == "senate":
        return datasets.senate_votes(117).observations
    return cells_of("bfi", BFI_ITEMS) if name == "bfi" else cells_of("hapmap_ceu_chr22")


def measured(name: str, share: int, seed: int) -> dict[str, Any]:
    """Tune and fit the known share of a table; score the rest."""
    known, hidden = table(name).split(1 - share / 100, random_state=seed)
    alphabet, cells = si.Alphabet.of(ALPHABETS[name]), KnownCells(known)
    tried: list[Any] = []
    begin = time.process_time()
    tuned = tune(cells, alphabet, options=OPTIONS, progress=tried.append)
    between = time.process_time()
    result = tuned.fit(tuned.spec.bind(cells), options=OPTIONS)
    end = time.process_time()
    estimate = result.entries(hidden.rows, hidden.cols)
    wrong = float(np.mean(alphabet.snap(estimate) != hidden.values))
    choice: Any = tuned.choice
    verdict = choice.verdict
    return {
        "data": name,
        "known": share,
        "seed": seed,
        "centre": tuned.spec.center,
        "lam": tuned.lam,
        "xi": tuned.xi,
        "rank": result.x.rank,
        "fits": len(tried),
        "wrong": wrong,
        "± of wrong": math.sqrt(wrong * (1 - wrong) / len(hidden)),
        "NMSE": si.metrics.nmse(hidden.values, estimate),
        "gain": None if verdict is None else verdict.gain,
        "± of gain": None if verdict is None else verdict.error,
        "helped": None if verdict is None else verdict.helped,
        "tuning": between - begin,
        "last fit": end - between,
        "seconds": end - begin,
        "iterations": result.n_iter,
    }


def merged(rows: list[dict[str, Any]], name: str, new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace the rows of a table, keep the others."""
    return [row for row in rows if row["data"] != name] + new


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(SHARES))
    parser.add_argument("--as-before", metavar="COMMIT", help="the sources are those of an older commit")
    given = parser.parse_args()
    compile_everything()
    path = RESULTS / "tuning.json"
    stored = json.loads(path.read_text()) if path.exists() else {"rows": [], "before": {"commit": None, "rows": []}}
    for name in given.tables or SHARES:
        new = [measured(name, share, seed) for share in SHARES[name] for seed in SEEDS]
        show(name, new)
        into = stored["before"] if given.as_before else stored
        into["rows"] = merged(into["rows"], name, new)
    if given.as_before:
        stored["before"]["commit"] = given.as_before
    stored = {"machine": machine(), "rows": stored["rows"], "before": stored["before"]}
    write_atomically(path, (json.dumps(stored, indent=1) + "\n").encode())
    for row in [] if given.as_before else stored["rows"]:
        limit = LIMITS.get((row["data"], row["known"]), math.inf)
        if row["seconds"] > limit:
            print(f"{row['data']} at {row['known']} %: {row['seconds']:.2f} CPU seconds, {limit} wanted")


if __name__ == "__main__":
    main()
