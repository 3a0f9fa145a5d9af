"""The page of `gpu.py`: tables in Markdown and a picture, from the JSON that it left.

    python benchmarks/gpu_page.py [results]

writes docs/results/gpu.md and docs/results/gpu.png.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from gpu_parts import UNFINISHED, made
from snapimpute.base.files import write_atomically

HERE = Path(__file__).parent
PAGES = HERE.parent / "docs" / "results"
TITLES = {
    "check": "Error of every map against float64, relative to the whole product",
    "repeat": "The same product, launched again and again",
    "pass": "One pass at 200,948×84,432, the shape of MovieLens-32M",
    "sums": "Sparse products of 32 million ratings, beside the vendor's and a copy in memory",
    "fit": "A fit of 32 million synthetic ratings, alphabet 0.5..5 by 0.5, ξ = 0.01",
    "reference": "MovieLens-100k: largest difference to the reference values after 1 to 150 iterations",
}
MAPS = ("L1", "composed L1", "L0", "fractional L0", "L1 with weights")
COLORS = {"bf16": "#c0392b", "fp16": "#e08e79", "tf32": "#5b7f95", "float32": "#b8b8b8"}


def table(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names), *([_text(row.get(name, "")) for name in names] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    if 0 < abs(value) < 1e-2:
        return f"{value:.1e}"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}" if abs(value) < 1e6 else f"{value:.9g}"


def picture(rows: list[dict[str, Any]], path: Path) -> None:
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    found = {(row["map"], row["precision"]): row for row in rows if row["columns"] == "64 + 64"}
    beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "fontsize": 8, "color": "#444444"}
    for i, (precision, color) in enumerate(COLORS.items()):
        places = [j + 0.2 * (i - 1.5) for j in range(len(MAPS))]
        speeds = [found[name, precision]["TFLOP/s"] for name in MAPS]
        bars = axes.bar(places, speeds, 0.2, color=color, label=precision)
        axes.bar_label(bars, fmt="%.0f", fontsize=8)
        plain = found[MAPS[0], precision]["plain product TFLOP/s"]
        axes.axhline(plain, color=color, lw=1, ls="--")
        axes.annotate(f"plain\n{precision} {plain:.0f}", (1.01, plain), **beside, va="top" if i == 1 else "bottom")
    axes.set_xticks(range(len(MAPS)), MAPS)
    axes.set_ylabel("TFLOP/s, 2mn(r + k) a pass")
    axes.set_title("e(UVᵀ)·B in one kernel, 200,948×84,432, 64 + 64 columns; dashed: a plain product", fontsize=10)
    axes.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.68))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def text(found: dict[str, Any]) -> str:
    there = {name: found[name] for name in TITLES if name in found}
    ways = list(dict.fromkeys(made(part) for part in there.values()))
    alike = f"Made by {ways[0]} and `python benchmarks/gpu_page.py`; " if len(ways) == 1 else ""
    parts = [
        "# One GPU: all figures",
        f"{alike}[what was measured](../gpu.md). Times are medians by the device's own clock, of a fit one run.",
        "![Speed of the fused pass by map and precision](gpu.png)",
    ]
    for name, part in there.items():
        parts += [f"## {TITLES[name]}", *([] if alike else [f"Made by {made(part)}."]), table(part["rows"])]
    return "\n\n".join(parts) + "\n"


def instructions(found: dict[str, Any]) -> str:
    """The section on a simulation of the compiled instructions, which is not repeated."""
    parts = [
        "## The same without a GPU, instruction by instruction",
        f"{found['kernels']} kernels compiled for {found['target']} by triton {found['triton']}, with up to "
        f"{found['most shared memory']:,} bytes of shared memory, by a simulation in numpy that is not part of the "
        "package any more; [its result](../gpu.md#checked-without-a-gpu).",
        table(found["rows"]),
        f"Sums over observed cells, and entries of a low-rank matrix, by {found['kernels of sums']} kernels, "
        "relative to float64:",
        table(found["sums"]),
    ]
    return "\n\n".join(parts) + "\n"


def whole(results: Path) -> str:
    """The page of what was measured and what was simulated."""
    measured, computed = (json.loads((results / f"{name}.json").read_text()) for name in ("gpu", "gpu_instructions"))
    return f"{text(measured)}\n{instructions(computed)}"


def main() -> None:
    results = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results"
    found = json.loads((results / "gpu.json").read_text())
    for name in found:
        if name.endswith(UNFINISHED):
            print(f"left out: {name}")
    if "pass" in found:
        picture([row for row in found["pass"]["rows"] if "precision" in row], PAGES / "gpu.png")
    write_atomically(PAGES / "gpu.md", whole(results).encode())


if __name__ == "__main__":
    main()
