"""The mosaic at its defaults: errors, log loss, calibration and CPU seconds of one core, against stated limits.

    python benchmarks/mosaic.py [hapmap shuffled house panel small-panel digits speed large]

Known cells in row-major order, `numpy.random.default_rng(seed).permutation`, the
first share known. Means over seeds 0, 1, 2 with their standard errors; the panel of
1,000 people has seed 0 only. CPU seconds count the choice of settings, the fit and
the answers, after everything is compiled; the least of the seeds is compared with
the limit, since a busy machine only adds. One constant scales log-probabilities
"after": it is the best on five held-out tenths of the known cells, each for a fit to the rest.

Beagle stands beside it on the same splits, where it is installed (beagle.py); it
gets positions, and the mosaic none. Panels are simulated (simulated.py). Tables of
others are read from SNAPIMPUTE_TEST_DATA. Rows of parts that were not asked for are
kept. The large table takes a quarter of an hour, the panels about as long.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits

import beagle
import snapimpute as si
from common import RESULTS, peak_mib, save
from mosaic_speed import compile_everything, large, speed
from posterior import Table, split
from simulated import Panel, panel
from snapimpute.mosaic import MosaicFit

SEEDS, BINS, FOLDS = (0, 1, 2), 15, 5
SPACED = 1000
"""Base pairs between markers whose positions nobody has told."""

PANELS: dict[str, tuple[int, int, float]] = {"panel": (1000, 5000, 4e6), "small-panel": (300, 2000, 2e6)}
"""People, markers, and base pairs that are simulated."""

ALPHABETS = {"house": "0,1", "digits": "0:16"}
CALIBRATED = {"ece": 0.02, "ece after": 0.01, "seconds": 2.0}
LIMITS: dict[tuple[str, int], dict[str, float]] = {
    ("hapmap", 50): {"wrong": 0.064, "log_loss": 0.178} | CALIBRATED,
    ("hapmap", 90): {"wrong": 0.025, "log_loss": 0.077} | CALIBRATED,
    ("shuffled", 50): {"wrong": 0.103},
    ("shuffled", 90): {"wrong": 0.041},
    ("house", 50): {"wrong": 0.209},
    ("panel", 70): {},
    ("panel", 98): {},
    ("small-panel", 70): {},
    ("small-panel", 95): {},
    ("digits", 50): {},
}
"""At most; the panel of 1,000 people has those that Beagle sets."""

BEAGLE_ERRORS, BEAGLE_SECONDS = 2.0, 2.0
"""Paired standard errors that the panel may be worse by, and times as many CPU seconds that it may take."""


class Case(NamedTuple):
    """Known cells, hidden cells and their alphabet; what Beagle is told, and the truth about strands."""

    known: si.Observations
    hidden: si.Observations
    alphabet: str
    positions: NDArray[np.int64] | None = None
    truth: Panel | None = None


# -------------------------------------------------------------------- tables
def cells_of(name: str) -> list[list[str]]:
    """Rows of a file without its head and its first column."""
    folder = Path(os.environ.get("SNAPIMPUTE_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
    with gzip.open(folder / f"{name}.csv.gz", "rt") as file:
        _, *rows = csv.reader(file)
    return [row[1:] for row in rows]


@cache
def table(name: str) -> Table:
    """All known cells, row by row."""
    if name in PANELS:
        dense = panel(*PANELS[name]).strands.sum(axis=1).astype(float)
    elif name == "digits":
        dense = load_digits().data
    elif name == "house":
        dense = np.array(
            [[{"y": 1.0, "n": 0.0}.get(one, np.nan) for one in row] for row in cells_of("house_votes_1984")]
        )
    else:
        rows = cells_of("hapmap_ceu_chr22")
        dense = np.array([[np.nan if one in ("", "NA") else float(one) for one in row] for row in rows])
    return Table.of(si.Observations.from_dense(dense))


def shuffled(cells: si.Observations, seed: int) -> si.Observations:
    """Cells with the columns in random order."""
    place = np.argsort(np.random.default_rng(100 + seed).permutation(cells.shape[1]))
    return si.Observations.from_coo(cells.rows, place[cells.cols], cells.values, cells.shape)


def cases(name: str, percent: int) -> Iterator[tuple[int, Case]]:
    """The splits of a table, with their seeds."""
    truth = panel(*PANELS[name]) if name in PANELS else None
    positions = None if truth is None else truth.positions
    for seed in SEEDS[:1] if name == "panel" else SEEDS:
        known, hidden = split(table(name), percent / 100, seed)
        if name == "shuffled":
            known, hidden = shuffled(known, seed), shuffled(hidden, seed)
        if name == "hapmap":
            positions = SPACED * np.arange(1, known.shape[1] + 1)
        yield seed, Case(known, hidden, ALPHABETS.get(name, "0,1,2"), positions, truth)


# -------------------------------------------------------------------- scores
def scores(p: Any, case: Case, cells: si.Observations) -> dict[str, float]:
    right = si.Alphabet.of(case.alphabet).indices(cells.values)
    return {
        "wrong": float(np.mean(p.argmax(axis=1) != right)),
        "log_loss": -float(np.log(p[np.arange(right.size), right]).mean()),
        "ece": si.metrics.reliability(cells.values, p, case.alphabet, bins=BINS).error,
    }


def scaled(p: Any, constant: float) -> Any:
    """Probabilities whose logarithms are multiplied by a constant."""
    q = p**constant
    return q / q.sum(axis=1, keepdims=True)


def constant_of(case: Case, seed: int) -> float:
    """The constant that is best on held-out tenths of the known cells, each for a fit to the other nine."""
    order = np.random.default_rng(seed).permutation(len(case.known))
    found, right = [], []
    for fold in np.array_split(order, 10)[:FOLDS]:
        held_out, known = case.known.take(np.sort(fold)), case.known.take(np.setdiff1d(order, fold))
        p = si.Mosaic(random_state=seed).fit(known, case.alphabet).proba(held_out.rows, held_out.cols)
        found.append(p)
        right.append(si.Alphabet.of(case.alphabet).indices(held_out.values))
    p, truth = np.concatenate(found), np.concatenate(right)
    best = minimize_scalar(
        lambda constant: -np.log(scaled(p, constant)[np.arange(truth.size), truth]).mean(),
        bounds=(0.05, 5),
        method="bounded",
    )
    return float(best.x)


def switch_error(strands: Any, case: Case) -> float:
    """Share of neighbouring known cells with both alleles of a row whose phase, relative to each other, is wrong."""
    truth, known = case.truth.strands, np.zeros(case.known.shape, bool)
    known[case.known.rows, case.known.cols] = True
    both = known & (truth[:, 0] != truth[:, 1]) & (strands[:, 0] != strands[:, 1])
    wrong = pairs = 0
    for row, cells in enumerate(both):
        alike = strands[row, 0, cells] == truth[row, 0, cells]
        wrong += int((alike[1:] != alike[:-1]).sum())
        pairs += max(alike.size - 1, 0)
    return wrong / max(pairs, 1)


def fitted(case: Case, seed: int) -> tuple[MosaicFit, Any, dict[str, Any]]:
    """A fit at its defaults, its answers at the hidden cells, and their scores."""
    begin = time.process_time()
    fit = si.Mosaic(random_state=seed).fit(case.known, case.alphabet)
    p = fit.proba(case.hidden.rows, case.hidden.cols)
    seconds = time.process_time() - begin
    chosen = {"chosen": str(fit.settings), "status": fit.status.code}
    return fit, p, scores(p, case, case.hidden) | {"seconds": seconds, "steps": len(fit.history)} | chosen


def scored(name: str, case: Case, seed: int) -> dict[str, Any]:
    """All scores of one split."""
    fit, p, row = fitted(case, seed)
    right = si.Alphabet.of(case.alphabet).indices(case.hidden.values)
    row |= {"wrong cells": int((p.argmax(axis=1) != right).sum()), "hidden cells": int(right.size)}
    if name not in PANELS:
        constant = constant_of(case, seed)
        after = scores(scaled(p, constant), case, case.hidden)
        row |= {"constant": constant, "log_loss after": after["log_loss"], "ece after": after["ece"]}
    elif fit.settings.strands == 2:
        row["switches"] = switch_error(fit.strands(), case)
    if case.positions is not None and not beagle.why_not():
        row |= beside_beagle(case, p.argmax(axis=1) != right, right)
    print(name, seed, row, flush=True)
    return row


def beside_beagle(case: Case, wrong: Any, right: Any) -> dict[str, Any]:
    """Beagle's errors and seconds, and how far ours are above its errors: by its standard error, cell by cell."""
    genotypes = np.full(case.known.shape, 255, np.uint8)
    genotypes[case.known.rows, case.known.cols] = case.known.values
    strands, seconds = beagle.phased(genotypes, case.positions)
    theirs = strands.sum(axis=1)[case.hidden.rows, case.hidden.cols] != right
    above = wrong.astype(float) - theirs
    row = {
        "beagle wrong": float(theirs.mean()),
        "beagle wrong cells": int(theirs.sum()),
        "beagle seconds": seconds,
        "above beagle": float(above.mean()),
        "paired error": float(above.std() / np.sqrt(above.size)),
    }
    return row | ({"beagle switches": switch_error(strands, case)} if case.truth is not None else {})


# -------------------------------------------------------------------- means and limits
def mean_of(key: str, found: Any) -> dict[str, Any]:
    """Mean over the seeds and its standard error; the least of seconds, the sum of cells."""
    if isinstance(found[0], str):
        return {key: "; ".join(dict.fromkeys(found))}
    if key.endswith("cells"):
        return {key: sum(found)}
    if "seconds" in key:
        return {key: min(found), f"{key} each": [round(one, 2) for one in found]}
    if key == "paired error":
        return {key: float(np.sqrt(np.square(found).sum()) / len(found))}
    out: dict[str, Any] = {key: float(np.mean(found))}
    return out | ({f"{key} ±": float(np.std(found, ddof=1) / np.sqrt(len(found)))} if len(found) > 1 else {})


def limits_of(row: dict[str, Any]) -> dict[str, float]:
    """Limits of a table; the panel's are set by Beagle."""
    out = LIMITS[row["part"], row["known %"]]
    if row["part"] != "panel" or "beagle wrong" not in row:
        return out
    most = row["beagle wrong"] + BEAGLE_ERRORS * row["paired error"]
    return out | {"wrong": round(most, 6), "seconds": round(BEAGLE_SECONDS * row["beagle seconds"], 1)}


def measured(name: str, percent: int) -> dict[str, Any]:
    """Means over the seeds of a table, with the limits and whether they were kept."""
    out: dict[str, Any] = {"part": name, "known %": percent}
    rows = [scored(name, case, seed) for seed, case in cases(name, percent)]
    out["seeds"] = len(rows)
    for key in rows[0]:
        if all(key in row for row in rows):
            out |= mean_of(key, [row[key] for row in rows])
    for key, limit in limits_of(out).items():
        out[f"limit {key}"] = f"{limit} {'kept' if out[key] <= limit else 'MISSED'}"
    print(out, flush=True)
    return out


WHOLE: dict[str, Callable[[], list[dict[str, Any]]]] = {"speed": speed, "large": large}
ALL = (*dict.fromkeys(name for name, _ in LIMITS), *WHOLE)


def kept(asked: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows of earlier runs that are not made again."""
    file = RESULTS / "mosaic.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    return [row for row in rows if row["part"] not in asked]


def main() -> None:
    asked = tuple(sys.argv[1:]) or ALL
    if unknown := set(asked) - set(ALL):
        sys.exit(f"there are {', '.join(ALL)}; got {', '.join(sorted(unknown))}")
    if reason := beagle.why_not():
        print(f"{reason}: the columns of Beagle stay empty")
    compile_everything()
    for key in LIMITS:
        if key[0] in asked:
            row = measured(*key)
            others = [old for old in kept(()) if (old["part"], old.get("known %")) != key]
            save("mosaic", [*others, row])  # at once: a run that is broken off leaves what it has made
    for name, make in WHOLE.items():
        if name in asked:
            rows = [{"part": name} | row for row in make()]
            save("mosaic", [*kept((name,)), *rows])
    print(f"largest memory {peak_mib():.0f} MiB")
    print(RESULTS / "mosaic.json")


if __name__ == "__main__":
    os.environ.setdefault("SNAPIMPUTE_NUM_THREADS", "1")
    main()
