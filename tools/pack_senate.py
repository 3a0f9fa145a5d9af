"""Pack Senate roll calls from CSV into the small files that the package carries.

Each table has one row for each senator (first column: ICPSR id) and one column
for each roll call (header: its number in that Congress); 1 is yea, 0 is nay, and
an empty cell means that no vote was recorded. Votes are stored as two bits a
cell, yea and known, in a compressed .npz of plain arrays.

    python tools/pack_senate.py senate_117.csv.gz senate_109.csv.gz senate_094.csv.gz
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).resolve().parents[1] / "src" / "snapimpute" / "data" / "datasets" / "data"
CODES = {"0": 0, "1": 1, "": -1}


def pack(source: Path, target: Path) -> None:
    """Read one table and write its packed form."""
    with gzip.open(source, "rt", newline="") as file:
        header, *body = csv.reader(file)
    votes = np.array([[CODES[cell] for cell in row[1:]] for row in body], dtype=np.int8)
    np.savez_compressed(
        target,
        shape=np.array(votes.shape, dtype=np.int32),
        yea=np.packbits(votes == 1),
        known=np.packbits(votes >= 0),
        icpsr=np.array([int(row[0]) for row in body], dtype=np.int32),
        rollcall=np.array([int(number) for number in header[1:]], dtype=np.int32),
    )
    known = int((votes >= 0).sum())
    sys.stdout.write(
        f"{target.name}: {votes.shape[0]}×{votes.shape[1]}, {known} votes, {target.stat().st_size} bytes\n"
    )


def main() -> None:
    """Pack every table named on the command line."""
    parser = argparse.ArgumentParser(description="Pack Senate roll calls (senate_NNN.csv.gz) for the package.")
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    for table in arguments.tables:
        congress = int(table.name.removeprefix("senate_").split(".")[0])
        pack(table, arguments.out / f"senate_{congress:03d}.npz")


if __name__ == "__main__":
    main()
