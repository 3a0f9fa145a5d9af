"""A square table in the terms of the features: each cell once, its symbol, and its mirror."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema

MOST_SYMBOLS = 8
"""Symbols of an alphabet: each but the most common one has features of its own."""

SURE = 20
"""Pairs of an uncommon symbol and its mirror that agree, from which a table is taken for symmetric."""

Symmetric = bool | Literal["auto"]
Cells = NDArray[np.int64]


def schema_of(alphabet: AlphabetLike | ColumnSchema, shape: tuple[int, int]) -> ColumnSchema:
    """Return the content of the columns; refuse tables that are not square, and all but one small alphabet."""
    if shape[0] != shape[1]:
        told = f"links need a square table, whose rows and columns are the same things, got {shape[0]}×{shape[1]}"
        raise ArgumentError("observations", shape, told)
    schema = alphabet if isinstance(alphabet, ColumnSchema) else ColumnSchema.single(Alphabet.of(alphabet), shape[1])
    if schema.one is None:
        told = "links need one alphabet for all columns: choose another method for columns that differ"
        raise ArgumentError("alphabet", schema, told)
    if len(schema.one) > MOST_SYMBOLS:
        told = f"links take at most {MOST_SYMBOLS} symbols, got {len(schema.one)}: choose another method"
        raise ArgumentError("alphabet", schema, told)
    return schema


@dataclass(frozen=True, eq=False)
class Square:
    """Known cells of a square table, each once, without the diagonal.

    Where the table is symmetric, a cell and its mirror are one cell, above the diagonal.

    Attributes
    ----------
    size, symbols : int
        Rows, and symbols of the alphabet.
    symmetric : bool
    rows, cols, codes : array of int
        Sorted by row, then column.
    loops : array of int
        How often each symbol is on the diagonal.
    """

    size: int
    symbols: int
    symmetric: bool
    rows: Cells
    cols: Cells
    codes: Cells
    loops: NDArray[np.int64]

    @classmethod
    def of(cls, observations: Observations, alphabet: Alphabet, symmetric: Symmetric = "auto") -> Square:
        """Read the known cells; "auto" finds out whether the table is symmetric."""
        rows, cols = observations.rows.astype(np.int64), observations.cols.astype(np.int64)
        codes = alphabet.indices(observations.values).astype(np.int64)
        loops = np.bincount(codes[rows == cols], minlength=len(alphabet))
        off = rows != cols
        directed = cls(observations.shape[0], len(alphabet), False, rows[off], cols[off], codes[off], loops)
        if symmetric == "auto":
            symmetric = directed.looks_symmetric
        return directed.folded() if symmetric else directed

    @cached_property
    def keys(self) -> Cells:
        """One number for each cell, ascending."""
        return self.rows * self.size + self.cols

    @cached_property
    def common(self) -> int:
        """The most common symbol."""
        return int(np.argmax(np.bincount(self.codes, minlength=self.symbols)))

    @cached_property
    def mirrors(self) -> NDArray[np.int64]:
        """Symbol of the mirror of each cell; −1 where it is not known."""
        return self.found(self.cols, self.rows)

    def found(self, rows: Cells, cols: Cells) -> NDArray[np.int64]:
        """Return the symbols of cells; −1 where one is not known."""
        if not self.codes.size:
            return np.full(rows.size, -1, np.int64)
        keys, asked = self.keys, rows * self.size + cols
        place = np.minimum(np.searchsorted(keys, asked), keys.size - 1)
        return np.where(keys[place] == asked, self.codes[place], -1)

    @property
    def looks_symmetric(self) -> bool:
        """Tell whether no cell differs from its mirror, and enough of them say so.

        Enough are all mirrors known; only one side of the diagonal known; or some cells of uncommon symbols.
        """
        both = self.mirrors >= 0
        if (self.mirrors[both] != self.codes[both]).any() or not self.codes.size:
            return False
        one_side = bool((self.rows < self.cols).all() or (self.rows > self.cols).all())
        return bool(both.all()) or one_side or int((self.codes[both] != self.common).sum()) >= 2 * SURE

    def folded(self) -> Square:
        """Return the symmetric table of these cells, each pair once; refuse cells that differ from their mirrors."""
        wrong = np.flatnonzero((self.mirrors >= 0) & (self.mirrors != self.codes))
        if wrong.size:
            i, j = int(self.rows[wrong[0]]), int(self.cols[wrong[0]])
            told = f"{wrong.size // 2} cell(s) differ from their mirrors, first ({i}, {j}) and ({j}, {i})"
            raise ArgumentError("symmetric", True, f"symmetric=True, but {told}: leave symmetric out")
        low, high = np.minimum(self.rows, self.cols), np.maximum(self.rows, self.cols)
        _, first = np.unique(low * self.size + high, return_index=True)
        return Square(self.size, self.symbols, True, low[first], high[first], self.codes[first], self.loops)

    def take(self, some: NDArray[np.bool_] | Cells) -> Square:
        """Return the table with some of the cells."""
        out = Square(
            self.size, self.symbols, self.symmetric, self.rows[some], self.cols[some], self.codes[some], self.loops
        )
        out.__dict__["common"] = self.common
        return out

    def both_ways(self) -> tuple[Cells, Cells, Cells]:
        """Return rows, columns and symbols of all cells: those of a symmetric table on both sides."""
        if not self.symmetric:
            return self.rows, self.cols, self.codes
        both = np.append(self.rows, self.cols), np.append(self.cols, self.rows), np.tile(self.codes, 2)
        return both
