"""Shared parts of the tests of commands: what a run left, tables in any format, the form of an error."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.io import mmread, mmwrite

EXCEL = find_spec("fastexcel") is not None and find_spec("xlsxwriter") is not None
FAST = ["--lam", "2", "--xi", "0.01", "--center", "mean"]
FIVE = ["-a", "1:5", *FAST]
TUNED = ["-a", "1:5", "--method", "proximal"]
MIXED = ["-a", "1:5", "-a", "sex=f,m", "-a", "age=any", "--lam", "0.5", "--xi", "0.01", "--center", "columns"]
M, N = 24, 10

WIDE = [f"r{i:02}" for i in range(M)], [f"q{j}" for j in range(N)]
LONG = [f"u{i}" for i in range(M)], [f"{100 + j}" for j in range(N)]
COUNTED = [f"{i + 1}" for i in range(M)], [f"{j + 1}" for j in range(N)]
"""Labels of a wide table, of triplets, and of a table without any: cells are held out by them."""

MATRICES = [".npz", ".npy", ".mtx"]
FRAMES = [".csv", ".tsv", ".parquet", ".arrow", *([".xlsx"] if EXCEL else [])]


@dataclass
class Done:
    """A command that has ended."""

    code: int
    stdout: bytes
    err: str

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


def one_line(done: Done, *parts: str) -> None:
    """An error as it is to be: one line, no traceback, exit code 1, nothing on standard output or left behind."""
    assert done.code == 1
    assert done.err.startswith("snapimpute: ")
    assert len(done.err.splitlines()) == 1, done.err
    assert "Traceback" not in done.err
    assert done.stdout == b""
    for part in parts:
        assert part in done.err, done.err


def put(path: str, table: Any, X: Any = None) -> None:
    """Write a table, or its matrix, in the format of a name."""
    match Path(path).suffix:
        case ".csv":
            table.write_csv(path)
        case ".tsv":
            table.write_csv(path, separator="\t")
        case ".parquet":
            table.write_parquet(path)
        case ".arrow":
            table.write_ipc(path)
        case ".xlsx":
            table.write_excel(path)
        case ".npz":
            np.savez(path, X=X)
        case ".npy":
            np.save(path, X)
        case _:
            mmwrite(path, np.nan_to_num(X, nan=-9))


def get(path: str, *, named: bool = True) -> Any:
    """Read a matrix, or the numbers of a wide table."""
    match Path(path).suffix:
        case ".npz":
            return np.load(path)["X"]
        case ".npy":
            return np.load(path)
        case ".mtx":
            return np.asarray(mmread(path, spmatrix=False))
    return frame(path, named=named).select(pl.selectors.numeric()).to_numpy()


def frame(path: str, *, named: bool = True) -> Any:
    """Read a table."""
    match Path(path).suffix:
        case ".parquet":
            return pl.read_parquet(path)
        case ".arrow":
            return pl.read_ipc(Path(path).read_bytes())
        case ".xlsx":
            return pl.read_excel(path)
        case suffix:
            return pl.read_csv(path, separator="\t" if suffix == ".tsv" else ",", has_header=named)


def gaps(table: Any) -> int:
    """Count the cells of a frame that are open."""
    return int(table.null_count().sum_horizontal()[0])


def whole(table: Any, shape: tuple[int, int] = (M, N)) -> Any:
    """Triplets of u0…, 100… as a matrix."""
    out = np.full(shape, np.nan)
    row, col, value = table.columns[:3]
    rows = [int(str(label).removeprefix("u")) for label in table[row]]
    out[rows, table[col].cast(pl.Int64).to_numpy() - 100] = table[value].cast(pl.Float64)
    return out


def left_over(folder: str = ".") -> set[str]:
    """Temporary files."""
    return {name for name in os.listdir(folder) if name.startswith(".")}
