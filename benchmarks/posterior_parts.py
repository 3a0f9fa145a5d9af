"""What each part of the low-rank posterior is worth: added one by one, and left out one by one, over ten splits.

    python benchmarks/posterior_parts.py [movielens-20 movielens-60 bfi-70 start]

Every variant runs the same number of sweeps on the same splits, so differences are
paired: a standard error is that of the differences over the splits. Thresholds
belong to people for ratings and to questions for the survey. "start" counts the
chains that never find the factors of a sparse table of votes, with the precision
of the factors held in the first sweeps, and not held. Rows that are there are kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from common import RESULTS, picture, save, show
from posterior import cases, scored
from snapimpute.posterior import Posterior, _low_rank

SEEDS, SWEEPS = tuple(range(10)), 250
SCORES = ("nmse", "exact", "log_loss")
TABLES = {"movielens-20": ("movielens", 20), "movielens-60": ("movielens", 60), "bfi-70": ("bfi", 70)}
TITLES = {
    "movielens-20": "MovieLens-100k, 20 % known",
    "movielens-60": "MovieLens-100k, 60 % known",
    "bfi-70": "bfi, 70 % known",
}
PARTS = ("mask", "noise of the person", "noise of the item", "thresholds", "factors on thresholds")
NOTHING, STUCK = "ordinal alone", 0.13
"""The variant without any part; share of wrong votes above which a chain has not found the factors."""


def model(table: str, parts: tuple[str, ...]) -> Posterior:
    """The model with these parts and no others; in the survey the questions are the raters."""
    people = table != "bfi-70"
    noise = "noise of the person" in parts, "noise of the item" in parts
    return Posterior(
        covariance="low-rank",
        thresholds="rows" if people else "columns",
        sweeps=SWEEPS,
        mask="mask" in parts,
        noise=noise[0] if people else noise[1],
        item_noise=noise[1] if people else noise[0],
        own_thresholds="thresholds" in parts,
        factors="factors on thresholds" in parts,
    )


def variants() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name of each variant, the one it is compared with, and its parts."""
    before = NOTHING
    yield NOTHING, "", ()
    for number, part in enumerate(PARTS, 1):
        yield f"+ {part}", before, PARTS[:number]
        before = f"+ {part}"
    for part in PARTS[:-1]:  # without the last one it is the variant before the last
        rest = tuple(one for one in PARTS if one != part)
        yield f"all but {part}", before, rest


def measured(table: str, kept: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Scores of every variant on every split."""
    done = {(row["variant"], row["seed"]) for row in kept if row["table"] == table}
    for seed in SEEDS:
        missing = [(name, parts) for name, _, parts in variants() if (name, seed) not in done]
        if not missing:
            continue
        (case,) = cases(*TABLES[table], (seed,))
        for name, parts in missing:
            found = scored(case, seed, model(table, parts))
            yield {"table": table, "variant": name, "seed": seed} | {key: found[key] for key in SCORES}


def starts(kept: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Share of wrong votes on the Senate, 5 % known, with the precision of the factors held at first, and not."""
    done = {(row["variant"], row["seed"]) for row in kept if row["table"] == "start"}
    usual = _low_rank.HELD_SWEEPS
    for seed in SEEDS:
        (case,) = cases("senate", 5, (seed,))
        for name, sweeps in (("held start", usual), ("nothing held", 0)):
            if (name, seed) not in done:
                _low_rank.HELD_SWEEPS = sweeps
                found = scored(case, seed, Posterior(covariance="low-rank", thresholds="columns", sweeps=300))
                _low_rank.HELD_SWEEPS = usual
                yield {"table": "start", "variant": name, "seed": seed, "wrong": found["wrong"]}


# -------------------------------------------------------------------- the tables
def summary(table: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean of each score, its difference to the variant compared with, and the standard error of that."""
    by = {(row["variant"], row["seed"]): row for row in rows if row["table"] == table}
    out = []
    for name, before, _ in variants():
        line: dict[str, Any] = {"variant": name}
        for key in SCORES:
            mine = np.array([by[name, seed][key] for seed in SEEDS])
            line[key] = f"{mine.mean():.4f}"
            if before:
                off = mine - np.array([by[before, seed][key] for seed in SEEDS])
                line[key] += f" ({off.mean():+.4f} ± {off.std(ddof=1) / np.sqrt(off.size):.4f})"
        out.append(line)
    return out


def start_summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out = []
    for name in ("held start", "nothing held"):
        wrong = np.array([row["wrong"] for row in rows if row["table"] == "start" and row["variant"] == name])
        error = wrong.std(ddof=1) / np.sqrt(wrong.size)
        stuck = int((wrong > STUCK).sum())
        out.append({"start": name, "wrong": f"{wrong.mean():.4f} ± {error:.4f}", "stuck": f"{stuck} of {wrong.size}"})
    return out


def markdown(rows: list[dict[str, Any]]) -> str:
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *([str(row[key]) for key in head] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(figure: Any, rows: list[dict[str, Any]], tables: list[str]) -> None:
    """Log loss of each variant less that of the whole model, split by split."""
    names = [name for name, _, _ in variants()]
    whole = f"+ {PARTS[-1]}"
    for axes, table in zip(np.atleast_1d(figure.subplots(1, len(tables), sharey=True)), tables, strict=True):
        by = {(row["variant"], row["seed"]): row["log_loss"] for row in rows if row["table"] == table}
        for place, name in enumerate(reversed(names)):
            off = [by[name, seed] - by[whole, seed] for seed in SEEDS]
            axes.plot(off, [place] * len(off), ".", color="#5b7f95", alpha=0.6)
            axes.plot(np.mean(off), place, "|", color="#c0392b", ms=14, mew=2)
        axes.axvline(0, color="0.6", lw=0.8)
        axes.set_yticks(range(len(names)), list(reversed(names)))
        axes.set_title(TITLES[table], fontsize=9)
        axes.set_xlabel("log loss above the whole model")
        axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    asked = sys.argv[1:] or [*TABLES, "start"]
    file = RESULTS / "posterior_parts.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    for name in asked:
        for row in starts(rows) if name == "start" else measured(name, rows):
            rows.append(row)
            save("posterior_parts", rows)  # at once: a run that is broken off goes on from there
            print(row, flush=True)
    for name in asked:
        lines = start_summary(rows) if name == "start" else summary(name, rows)
        show(TITLES.get(name, "Senate 117, 5 % known"), lines)
        print(f"\n{markdown(lines)}")
    drawn = [name for name in TABLES if any(row["table"] == name for row in rows)]
    picture("posterior_parts", lambda figure: draw(figure, rows, drawn), (11, 4))


if __name__ == "__main__":
    main()
