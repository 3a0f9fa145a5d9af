"""Reading 20 million triplets from CSV: seconds and peak memory, beside what polars takes for the bare columns.

200,000 rows × 20,000 columns with text as labels, in any order, 0.5 % known; the same with every label in quotes, as
R writes them. "ours" ends with `Observations` and the alphabet checked, "polars" with three columns of text. Each is
read in a process of its own; memory is that of the whole process, imports included.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from common import in_process, peak_mib, save, show
from snapimpute.app.io import AlphabetSpec, Options, read_file

SHAPE, LINES = (200_000, 20_000), 20_000_000
LIMIT_S, LIMIT_MIB = 60, 4096


def write(path: Path, *, quoted: bool) -> None:
    """Different cells in random order, a million at a time."""
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, SHAPE[0] * SHAPE[1], LINES + LINES // 50))
    cells = rng.permutation(cells)[:LINES]
    style: Any = "non_numeric" if quoted else "necessary"
    with path.open("wb") as file:
        for start in range(0, LINES, 1_000_000):
            some = cells[start : start + 1_000_000]
            labels = [pl.Series(some // SHAPE[1]).cast(pl.String), pl.Series(some % SHAPE[1]).cast(pl.String)]
            frame = pl.DataFrame({"user": "u" + labels[0], "item": "i" + labels[1], "rating": 1 + some % 5})
            frame.write_csv(file, include_header=start == 0, quote_style=style)


def one(how: str, path: str) -> dict[str, float]:
    begin = time.perf_counter()
    if how == "polars":
        lines = pl.read_csv(path, infer_schema=False).height
    else:
        known, _ = read_file(path, Options(), AlphabetSpec.parse(["1:5"])).observations("1:5")
        lines = len(known)
    if lines != LINES:
        sys.exit(f"{how} read {lines:,} of {LINES:,} lines")
    return {"seconds": time.perf_counter() - begin, "peak MiB": peak_mib()}


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(one(sys.argv[1], sys.argv[2])))
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for labels in ("plain", "quoted"):
            path = Path(folder) / f"{labels}.csv"
            write(path, quoted=labels == "quoted")
            bare = in_process("read_triplets.py", "polars", str(path))
            ours = in_process("read_triplets.py", "ours", str(path))
            size = {"lines": LINES, "labels": labels, "MB": path.stat().st_size / 1e6}
            ratio = {"polars s": bare["seconds"], "ratio": ours["seconds"] / bare["seconds"]}
            rows.append(size | ours | ratio | {"polars MiB": bare["peak MiB"]})
            path.unlink()
    show(f"triplets of {SHAPE[0]:,}×{SHAPE[1]:,} from CSV", rows)
    save("read_triplets", rows)
    slow, large = max(row["seconds"] for row in rows), max(row["peak MiB"] for row in rows)
    print(f"\n{slow:.1f} s and {large:.0f} MiB at most; wanted are {LIMIT_S} s and {LIMIT_MIB} MiB")
    if slow > LIMIT_S or large > LIMIT_MIB:
        sys.exit(1)


if __name__ == "__main__":
    main()
