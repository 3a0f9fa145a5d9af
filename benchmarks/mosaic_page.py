"""The page of all figures of the mosaic, from the results that lie in the repository.

    python benchmarks/mosaic_page.py

writes docs/results/mosaic.md. The results are those of mosaic.py; a part that was
not run has no section.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # for those who run the file by its path, as a test does

from posterior_page import PAGES, Rows, mean, read, table

TABLES = {
    "hapmap": "HapMap CEU",
    "shuffled": "HapMap CEU, shuffled columns",
    "house": "House votes 1984",
    "digits": "digits, 0 … 16",
    "panel": "1,000 people, simulated",
    "small-panel": "300 people, simulated",
}
MEASURES = {
    "wrong": "wrong",
    "log_loss": "log loss",
    "ece": "calibration error",
    "log_loss after": "log loss, scaled",
    "ece after": "calibration error, scaled",
    "seconds": "CPU s, least",
}
PASSES = {"pairs": "an iteration with {size:,} classes, by cell and K²", "filling": "answers from {size:,} strands"}
PROTOTYPE = {50: 0.092, 90: 0.033}
"""Wrong cells of Beagle on HapMap CEU, when the limits were set."""


def of_tables(rows: Rows) -> Rows:
    """Rows of the scored tables, in the order of the page."""
    some = [row for row in rows if row["part"] in TABLES]
    return sorted(some, key=lambda row: (list(TABLES).index(row["part"]), row["known %"]))


def of_part(rows: Rows, part: str) -> Rows:
    return [row for row in rows if row["part"] == part]


def start_of(row: dict[str, Any]) -> dict[str, str]:
    return {"table": TABLES[row["part"]], "known": f"{row['known %']} %"}


def verdict(row: dict[str, Any], key: str) -> tuple[str, str]:
    """A limit, and whether it was kept."""
    limit, kept = row[f"limit {key}"].split()
    return limit, "yes" if kept == "kept" else "**no**"


def fine(row: dict[str, Any], key: str) -> str:
    """A number with five digits, as `mean` writes it with four; a dash where there is none."""
    if key not in row:
        return "–"
    error = row.get(f"{key} ±")
    return f"{row[key]:.5f}" + (f" ± {error:.5f}" if error is not None else "")


def found(row: dict[str, Any], key: str) -> str:
    return fine(row, key) if "panel" in row["part"] and key == "wrong" else mean(row, key)


# -------------------------------------------------------------------- tables
def limits(rows: Rows) -> str:
    """Each limit, what was reached, and whether that keeps it."""
    out = []
    for row in of_tables(rows):
        for key, name in MEASURES.items():
            if f"limit {key}" in row:
                limit, kept = verdict(row, key)
                line = start_of(row) | {"measure": name, "wanted": f"≤ {limit}", "reached": found(row, key)}
                out.append(line | {"kept": kept})
    for row in of_part(rows, "speed"):
        limit, kept = verdict(row, "ns")
        line = {"table": PASSES[row["what"]].format(**row), "known": "", "measure": "ns", "wanted": f"≤ {limit}"}
        out.append(line | {"reached": f"{row['ns']:.2f}", "kept": kept})
    for row in of_part(rows, "large"):
        for key in ("seconds", "memory"):
            if f"limit {key} ratio" not in row:
                continue
            limit, kept = verdict(row, f"{key} ratio")
            wanted = f"{1 - float(limit):g} … {1 + float(limit):g}"
            line = {"table": size_of(row), "known": "90 %", "measure": f"{key}, over their forecast"}
            out.append(line | {"wanted": wanted, "reached": f"{row[f'{key} ratio']:.2f}", "kept": kept})
    return table(out) if out else "Nothing with a limit was run."


def scores(rows: Rows) -> str:
    """All scores of each table, and what the defaults chose."""
    return table(
        [
            start_of(row)
            | {name: found(row, key) for key, name in MEASURES.items()}
            | {"seeds": row["seeds"], "steps": f"{row['steps']:.0f}", "chosen": row["chosen"]}
            for row in of_tables(rows)
        ]
    )


def beside_beagle(rows: Rows) -> str:
    """Errors, seconds and phases beside Beagle's."""
    out = []
    for row in rows:
        above = f"{row['above beagle']:+.5f} ± {row['paired error']:.5f}" if "above beagle" in row else "–"
        cells = [f"{row[key]:,}" if key in row else "–" for key in ("wrong cells", "beagle wrong cells")]
        seconds = [f"{row[key]:.1f}" if key in row else "–" for key in ("seconds", "beagle seconds")]
        line = start_of(row) | {"wrong": fine(row, "wrong"), "Beagle": fine(row, "beagle wrong")}
        line |= {"cells": cells[0], "Beagle's": cells[1], "difference": above}
        line |= {"CPU s": seconds[0], "Beagle's CPU s": seconds[1]}
        out.append(line | {"switches": fine(row, "switches"), "Beagle's switches": fine(row, "beagle switches")})
    return table(out)


def passes(rows: Rows) -> str:
    return table(
        [
            {
                "pass": PASSES[row["what"]].format(**row),
                "ns": f"{row['ns']:.2f}",
                "GFLOP/s": row.get("GFLOP/s", ""),
                "GFLOP/s of SGEMM": row.get("SGEMM GFLOP/s", ""),
            }
            for row in rows
        ]
    )


def size_of(row: dict[str, Any]) -> str:
    return f"{row['rows']:,} × {row['columns']:,}"


def large(rows: Rows) -> str:
    return table(
        [
            {
                "table": size_of(row),
                "threads": row["threads"],
                "chosen": row["chosen"],
                "steps": f"{row['steps']} of {row['steps planned']}",
                "minutes": f"{row['wall minutes']:.1f}",
                "forecast": f"{row['forecast minutes']:.1f}",
                "CPU minutes": f"{row['CPU minutes']:.1f}",
                "peak MiB": "–" if row["MiB"] is None else f"{row['MiB']:,.0f}",
                "forecast MiB": f"{row['forecast MiB']:,.0f}",
            }
            for row in rows
        ]
    )


# -------------------------------------------------------------------- the page
def first_sections(main: dict[str, Any]) -> list[str]:
    rows, machine = main["rows"], main["machine"]
    made = f"{machine['cpu']}, {machine['threads']} thread, numba {machine['numba']}, {machine['date']}"
    return [
        "# The mosaic: all figures",
        f"[What follows from them](../mosaic.md). Made on {made}, while other programs used the machine.",
        "## What was wanted, and what was reached",
        "`python benchmarks/mosaic.py`. All defaults, means over three splits with standard errors; the panel of "
        "1,000 people has one split, and its limits are Beagle's wrong cells plus two standard errors of the paired "
        "difference, and twice Beagle's CPU seconds. The limit on seconds is set against the least of the splits: a "
        "busy machine only adds. The House votes were at .214 in version 0.1.",
        limits(rows),
        "All scores, and what the defaults chose. Calibration errors have 15 bins. Scaled ones are of probabilities "
        "whose logarithms are multiplied by one constant: the best on five held-out tenths of the known "
        "cells, each for a fit to the rest.",
        scores(rows),
    ]


def later_sections(rows: Rows) -> list[str]:
    """Sections of the parts that were run."""
    out, rivals = [], [row for row in of_tables(rows) if row["part"] == "hapmap" or "panel" in row["part"]]
    if rivals:
        before = " and ".join(f"{wrong} at {known} %" for known, wrong in PROTOTYPE.items())
        out += [
            "## Beside Beagle",
            "Beagle 5.4 on the same splits, one thread, Java's start and compiler included. It gets the positions, "
            "for HapMap even steps, and the mosaic none. Cells are wrong cells of all splits; the difference has its "
            "paired standard error. Switches are the share of neighbouring known cells with both alleles whose phase "
            f"is wrong. When the limits were set, Beagle had {before} of HapMap. Panels are simulated by msprime: "
            "`benchmarks/simulated.py`.",
            beside_beagle(rivals),
        ]
    if some := of_part(rows, "speed"):
        out += [
            "## Nanoseconds",
            "One core, the least of several runs. An iteration of expectation–maximisation with two strands is "
            "divided by the cells and the pairs of classes, K²; its operations are those of forward twice and "
            "backward once. Answers are divided by the cells and the strands copied from; half the cells are known.",
            passes(some),
        ]
    if some := of_part(rows, "large"):
        out += [
            "## A large table",
            'Genotypes of 200 founders, `Mosaic(order="given", strands=2)`. Memory is the peak above what the '
            "process had before the fit. The forecast is of a quiet machine: CPU minutes over threads are held "
            "against it, as minutes of the clock count what other programs took.",
            large(some),
        ]
    return out


def page() -> str:
    """The whole page."""
    main = read("mosaic")
    return "\n\n".join([*first_sections(main), *later_sections(main["rows"])]) + "\n"


def main() -> None:
    (PAGES / "mosaic.md").write_text(page(), encoding="utf-8")
    print(PAGES / "mosaic.md")


if __name__ == "__main__":
    main()
