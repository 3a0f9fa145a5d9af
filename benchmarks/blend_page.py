"""The page of all figures of the blend, from the results that lie in the repository.

    python benchmarks/blend_page.py

writes docs/results/blend.md. The results are those of blend.py; a table that was not run has no line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent))  # for those who run the file by its path, as a test does

from blend import LIMITS, MORE_SEEDS, SEEDS, SYNTHETIC, TODAY
from posterior_page import PAGES, Rows, read, table

TABLES = {
    "movielens": "MovieLens-100k",
    "senate": "Senate 117",
    "house": "House votes 1984",
    "bfi": "bfi, 25 items",
    "hapmap": "HapMap CEU",
    "shuffled": "HapMap CEU, shuffled columns",
    "digits": "digits, 0 … 16",
    "polblogs": "polblogs, directed",
    "facebook": "facebook, ten pairs without a link for each link",
    "movielens-1m": "MovieLens-1M, top 501",
    "million": "one million ratings, synthetic",
}
NAMES = {"wrong": "wrong", "nmse": "NMSE", "precision": "average precision", "seconds": "CPU s, least"}


def some(rows: Rows, name: str, percent: int, seeds: tuple[int, ...]) -> Rows:
    """Rows of a table, on some seeds."""
    return [one for one in rows if (one["part"], one["known %"]) == (name, percent) and one["seed"] in seeds]


def mean(rows: Rows, key: str, digits: int = 4) -> str:
    """A mean over seeds with its standard error."""
    values = np.array([one[key] for one in rows if key in one])
    if not values.size:
        return "–"
    error = f" ± {values.std(ddof=1) / np.sqrt(values.size):.{digits}f}" if values.size > 1 else ""
    return f"{values.mean():.{digits}f}{error}"


def limits(rows: Rows) -> str:
    """Each limit, what was reached, and whether it is kept."""
    out = []
    for (name, percent), wanted in LIMITS.items():
        found, clean = some(rows, name, percent, SEEDS), some(rows, name, percent, MORE_SEEDS)
        for key, limit in wanted.items() if found else ():
            values = [one[key] for one in found]
            reached = min(values) if key == "seconds" else float(np.mean(values))
            kept = reached >= limit if key == "precision" else reached <= limit
            line = {"table": TABLES[name], "known": f"{percent} %", "measure": NAMES[key]}
            line |= {"version 0.1": f"{TODAY[name, percent]:.4f}" if key == "wrong" else "–"}
            line |= {"wanted": f"{'≥' if key == 'precision' else '≤'} {limit:g}"}
            line |= {"seeds 0, 1, 2": f"{reached:.1f}" if key == "seconds" else mean(found, key)}
            line |= {"seeds 20, 21, 22": "–" if key == "seconds" else mean(clean, key)}
            out.append(line | {"kept": "yes" if kept else "**no**"})
    return table(out)


def scores(rows: Rows) -> str:
    """Log loss, calibration, seconds and memory of each table, and who carries the answer."""
    out = []
    for name, percent in LIMITS:
        found = some(rows, name, percent, SEEDS)
        if not found or percent == 100:  # nothing is hidden
            continue
        line = {"table": TABLES[name], "known": f"{percent} %", "log loss": mean(found, "log_loss")}
        line |= {"calibration error": mean(found, "ece"), "of a perfect model": mean(found, "fair ece")}
        line |= {"CPU s": f"{np.mean([one['seconds'] for one in found]):.1f}"}
        line |= {"carried by (seed 0)": ", ".join(f"{who} {share:.2f}" for who, share in found[0]["blend"].items())}
        out.append(line)
    return table(out)


def planted(rows: Rows) -> str:
    """Log loss of the blend and of its best expert on planted tables."""
    out = []
    for name in SYNTHETIC:
        for one in some(rows, name, 60, SEEDS):
            line: dict[str, Any] = {"table": name, "seed": one["seed"], "blend": f"{one['log_loss']:.4f}"}
            line |= {"best expert": one["best"], "alone": f"{one['alone'][one['best']]:.4f}"}
            out.append(line | {"blend above it": f"{one['above best']:+.4f} ± {one['paired error']:.4f}"})
    return table(out)


def page() -> str:
    """The text of the page."""
    found = read("blend")
    rows, machine = found["rows"], found["machine"]
    return f"""# The blend

The estimator at its defaults on every kind of table: `SnapImputer(alphabet, random_state=seed)`. Nothing was tuned on
hidden cells of these seeds. Ridges and the least weight of an expert were chosen on seeds 10, 11 and 12. Machine:
{machine["cpu"]}, {machine["threads"]} threads, snapimpute {machine["snapimpute"]}, {machine["date"]}. `python
benchmarks/blend.py` repeats all of it, `python benchmarks/blend_page.py` writes this page. Tables and splits are
those of [the posterior](posterior.md), [the mosaic](mosaic.md) and `python -m reproduction links`.

## Limits

Means over seeds with their standard errors. CPU seconds are those of the fit on all threads, the least of the seeds,
since a busy machine only adds.

{limits(rows)}

## All scores

The calibration error has 15 bins. A perfectly calibrated model has one, too, on a finite number of cells: the next
column tells it, for as many cells with the same confidences.

{scores(rows)}

## Planted tables

Each expert alone beside the blend, 60 % of the cells known. "low rank" and "blocks" have a tenth of random answers;
the blend finds out, and no expert does. The last column is the difference in log loss, with its paired error.

{planted(rows)}
"""


if __name__ == "__main__":
    (PAGES / "blend.md").write_text(page(), encoding="utf-8")
