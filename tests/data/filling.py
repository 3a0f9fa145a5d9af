"""Tables that are filled with symbols which depend on the cell, so that a mixed-up cell shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from snapimpute import Alphabet
from snapimpute.data import tables
from snapimpute.data.tables import read_table

STARS, HALVES, BITS = Alphabet.of("1:5"), Alphabet.of("0.5:5:0.5"), Alphabet.of("0,1")
NAN = np.nan


def pattern(alphabet: Alphabet) -> tables.SymbolsAt:
    """Symbols that depend on the cell, so that a mixed-up cell shows."""
    return lambda rows, cols: alphabet.symbols[(3 * rows + 2 * cols) % len(alphabet)]


def fill(X: Any, alphabet: Alphabet = STARS) -> Any:
    table = read_table(X, alphabet)
    table.check_symbols()
    return table.filled(pattern(alphabet))


def expected(X: np.ndarray, alphabet: Alphabet = STARS) -> np.ndarray:
    return np.where(np.isnan(X), pattern(alphabet)(*np.indices(X.shape)), X)


def as_floats(table: Any) -> np.ndarray:
    """Any filled table as an array."""
    if isinstance(table, pa.Table):
        table = table.to_pandas()
    return np.asarray(table.to_numpy() if hasattr(table, "to_numpy") else table).astype(float)


TABLE = np.array([[1, NAN, 5, NAN], [NAN, 2, 2, NAN], [4, NAN, 1, NAN]])  # the last column is empty
GRADES = Alphabet.of(["low", "mid", "high", "top"])
CODES = [-99, "?"]
