"""The page of all figures of the posterior, from the results that lie in the repository.

    python benchmarks/posterior_page.py

writes docs/results/posterior.md, and copies the pictures beside it. The results are
those of posterior.py, posterior_parts.py, posterior_growth.py, and of
`python -m reproduction posterior`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS, PAGES = HERE / "results", HERE.parent / "docs" / "results"
RIVALS = HERE.parent / "reproduction" / "results" / "posterior.md"
TABLES = {
    "movielens": "MovieLens-100k",
    "movielens-1m": "MovieLens-1M, top 501",
    "folds": "MovieLens-100k, u1 … u5",
    "bfi": "bfi, 25 items",
    "digits": "digits, 0 … 16",
    "senate": "Senate 117",
}
MEASURES = {
    "nmse": "NMSE",
    "rmse": "RMSE",
    "wrong": "wrong",
    "exact": "exact",
    "log_loss": "log loss",
    "ece": "calibration error",
    "seconds": "CPU s, least",
}
PARTS = {
    "movielens-20": "MovieLens-100k, 20 % known",
    "movielens-60": "MovieLens-100k, 60 % known",
    "bfi-70": "bfi, 70 % known",
}
SCORES = {"nmse": ("NMSE", 5), "exact": ("exact", 4), "log_loss": ("log loss", 4)}
"""Scores of the parts, and their digits."""

VARIED = {"cells": "known cells", "factors": "factors", "columns": "columns, full covariance", "threads": "threads"}
Rows = list[dict[str, Any]]


def table(rows: Rows) -> str:
    """A table in Markdown; numbers stand to the right."""
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([str(row.get(name, "")) for name in names] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def of_table(rows: Rows) -> Rows:
    """Rows of the tables that have limits, in the order of the page."""
    some = [row for row in rows if row["data"] in TABLES and "part" not in row]
    return sorted(some, key=lambda row: (list(TABLES).index(row["data"]), row["known %"]))


def mean(row: dict[str, Any], key: str, which: str = "") -> str:
    """A mean with its standard error; a dash where there is none."""
    if f"{key}{which}" not in row:
        return "–"
    digits = 1 if key == "seconds" else 4
    error = row.get(f"{key}{which} ±")
    return f"{row[key + which]:.{digits}f}" + (f" ± {error:.{digits}f}" if error is not None else "")


def limits(rows: Rows) -> str:
    """Each limit, what was reached on both groups of seeds, and whether the first keeps it."""
    out = []
    for row in of_table(rows):
        for key, name in MEASURES.items():
            if f"limit {key}" in row:
                limit, kept = row[f"limit {key}"].split()
                sign = "≥" if key == "exact" else "≤"
                found = {"seeds 0, 1, 2": mean(row, key), "seeds 3, 4, 5": mean(row, key, " (3, 4, 5)")}
                start = {"table": TABLES[row["data"]], "known": f"{row['known %']} %", "measure": name}
                out.append(
                    start | {"wanted": f"{sign} {limit}"} | found | {"kept": "yes" if kept == "kept" else "**no**"}
                )
    return table(out)


def scores(rows: Rows) -> str:
    """All scores of each table, and what the defaults chose."""
    out = []
    for row in of_table(rows):
        chosen = f"{row['covariance']}, {row['factors']}, {row['thresholds']}"
        line = {"table": TABLES[row["data"]], "known": f"{row['known %']} %"}
        line |= {name: mean(row, key) for key, name in MEASURES.items() if key != "exact"}
        out.append(line | {"sweeps": f"{row['sweeps']:.0f}", "covariance, factors, thresholds": chosen})
    return table(out)


def folds(rows: Rows) -> str:
    row = next(row for row in rows if row["data"] == "folds")
    names = [f"u{number}" for number in range(1, 6)]
    ours = (
        {"": "the posterior, ratings alone"}
        | dict(zip(names, row["rmse each"], strict=True))
        | {"mean": mean(row, "rmse")}
    )
    nothing = dict.fromkeys([*names, "mean"], "")
    published = [
        {"": "GLocal-K, ratings alone (published)"} | nothing | {"u1": 0.889},
        {"": "myFM, ratings alone (published)"} | nothing | {"u3": 0.891},
        {"": "myFM, with side information (published)"} | nothing | {"u3": 0.886},
    ]
    return table([ours, *published])


# -------------------------------------------------------------------- parts
def parts(rows: Rows, name: str) -> str:
    """Mean of each score; in brackets its difference to the variant compared with, and the standard error of that."""
    by = {(row["variant"], row["seed"]): row for row in rows if row["table"] == name}
    variants, seeds = (list(dict.fromkeys(key[place] for key in by)) for place in (0, 1))
    added = [one for one in variants if not one.startswith("all but")]
    out = []
    for number, variant in enumerate(variants):
        before = added[number - 1] if variant in added else added[-1]
        line = {"variant": variant}
        for key, (score, digits) in SCORES.items():
            mine = [by[variant, seed][key] for seed in seeds]
            off = [one - by[before, seed][key] for one, seed in zip(mine, seeds, strict=True)]
            line[score] = f"{average(mine):.{digits}f}"
            if number:
                line[score] += f" ({average(off):+.{digits}f} ± {standard_error(off):.{digits}f})"
        out.append(line)
    return table(out)


def starts(rows: Rows) -> str:
    out = []
    for name in ("held start", "nothing held"):
        wrong = [row["wrong"] for row in rows if row["table"] == "start" and row["variant"] == name]
        found = f"{average(wrong):.4f} ± {standard_error(wrong):.4f}"
        out.append({"start": name, "wrong": found, "worst": f"{max(wrong):.4f}", "splits": len(wrong)})
    return table(out)


def average(values: list[float]) -> float:
    return sum(values) / len(values)


def standard_error(values: list[float]) -> float:
    middle = average(values)
    return (sum((value - middle) ** 2 for value in values) / (len(values) - 1) / len(values)) ** 0.5


# -------------------------------------------------------------------- growth and speed
def growth(rows: Rows) -> str:
    return table(
        [
            {
                "varied": title,
                "size": f"{row['size']:,}",
                "known cells": f"{row['known']:,}",
                "ms a sweep": f"{1e3 * row['seconds a sweep']:.2f}",
                "ns a cell and sweep": f"{row['ns a cell and sweep']:.0f}",
                "s before the first": f"{row['start seconds']:.2f}",
                "peak MiB": f"{row['MiB']:.0f}",
            }
            for name, title in VARIED.items()
            for row in rows
            if row["varied"] == name
        ]
    )


def named(rows: Rows, part: str) -> str:
    some = [row for row in rows if row.get("part") == part]
    return table([{key: value for key, value in row.items() if key != "part"} for row in some])


def page() -> str:
    """The whole page."""
    main, worth, grown = read("posterior"), read("posterior_parts")["rows"], read("posterior_growth")["rows"]
    rows, machine = main["rows"], main["machine"]
    made = f"{machine['cpu']}, {machine['threads']} thread, numba {machine['numba']}, {machine['date']}"
    sections = [
        "# The posterior: all figures",
        f"[What follows from them](../posterior.md). Made on {made}, while other programs used the machine.",
        "## What was wanted, and what was reached",
        "`python benchmarks/posterior.py`. All defaults, means over three splits with standard errors, three other "
        "splits beside them. The limit on seconds is set against the least of the splits: a busy machine only adds.",
        limits(rows),
        "All scores of the first three splits, and what the defaults chose:",
        scores(rows),
        "## The official folds of MovieLens-100k",
        "RMSE. Published figures are those that their authors report.",
        folds(rows),
        "## Beside myFM with histories",
        "`python -m reproduction posterior`. myFM gets what the mask tells: which films a person has rated, and who "
        "has rated a film. Of 150, 300 and 512 iterations, with all samples kept or half, 300 with all did best "
        "on hidden cells: the choice is in its favour. Two of these ran on three splits, 150 and 512 with half kept; "
        "the others on one.",
        RIVALS.read_text(encoding="utf-8").replace("### ", "#### ").strip(),
        "## What each part is worth",
        "`python benchmarks/posterior_parts.py`. Ten splits, 250 sweeps. Brackets: the difference to the line above, "
        'or to the whole model for "all but", with the standard error of the paired difference. Without own '
        "thresholds there are no factors on them either.",
    ]
    for name, title in PARTS.items():
        sections += [f"### {title}", parts(worth, name)]
    sections += [
        "![Log loss of each variant above that of the whole model, split by split](posterior_parts.png)",
        "### The held start",
        "Senate 117, 5 % known, 300 sweeps. The precision of the factors is held in the first sweeps, or not.",
        starts(worth),
        "## Seconds and memory",
        "`python benchmarks/posterior_growth.py`. Planted ratings, 5 % known, 15 factors, 200 sweeps; narrow tables "
        "have 3,000 rows, 80 % known. Seconds are the processor's, those of threads the clock's; the quickest sweep "
        "counts. Other programs had both cores, so the lines of threads say little. Memory is the peak above that of "
        "the imports and a toy, and levels off where every second draw goes.",
        growth(grown),
        "![Seconds of a sweep and peak memory](posterior_growth.png)",
        "## Nanoseconds a cell and sweep",
        named(rows, "speed"),
        "## The first call",
        "CPU seconds of the first fit of a process, with an empty cache, and in the next process. All numbers of "
        "factors share what is compiled: only the first model has to wait.",
        named(rows, "compile"),
    ]
    return "\n\n".join(sections) + "\n"


def main() -> None:
    (PAGES / "posterior.md").write_text(page(), encoding="utf-8")
    for name in ("posterior_parts", "posterior_growth"):
        shutil.copyfile(RESULTS / f"{name}.png", PAGES / f"{name}.png")
    print(PAGES / "posterior.md")


if __name__ == "__main__":
    main()
