"""Tables of any kind in, the same kind out: numpy, scipy sparse, pandas, polars and Arrow.

How a missing cell is coded depends on the kind alone, never on the value 0:

====================  ===============================================================
numpy array, list     NaN, None, pandas' NA, a masked cell
scipy sparse          not stored; a stored zero is an observation
pandas, polars, …     null (NA, None, NaT) or NaN
====================  ===============================================================

`read_table` gives a `Table`, which lists its observed cells piece by piece and
returns a copy of itself with its missing cells filled. What was observed is
copied, not converted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from snapimpute.alphabet import Alphabet
from snapimpute.checks import as_float
from snapimpute.observations import Observations
from snapimpute.operators.threads import cut
from snapimpute.types import Array

Index = NDArray[np.int64]
Cells = tuple[Index, Index, Array]
"""Rows, columns and values of some cells."""

SymbolsAt = Callable[[Index, Index], Array]
"""Gives the symbols to write at cells that lie in a few rows, or in a few columns."""

BLOCK_CELLS = 1 << 17
"""Cells read or filled at once: a block and its indices take a few megabytes."""

MAX_FILLED_CELLS = 100_000_000
"""A sparse table with more cells than this is not filled: the result would be dense."""


def read_table(X: Any) -> Table:
    """Take in a table of any supported kind.

    Raises
    ------
    ValueError, TypeError
        If it has not two dimensions, is empty, or holds something else than
        numbers; a column of a frame is named.

    Examples
    --------
    >>> read_table([[1, None], [2, 5]]).shape
    (2, 2)
    """
    if sp.issparse(X):
        table: Table = SparseTable(X)
    else:
        frame = nw.from_native(X, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            raise TypeError(f"{type(X).__name__} is a query, not a table yet: call its collect() first")
        table = FrameTable(frame) if isinstance(frame, nw.DataFrame) else ArrayTable(X)
    for size, name in zip(table.shape, ("sample(s)", "feature(s)"), strict=True):
        if size == 0:
            raise ValueError(f"found a table with 0 {name} (shape={table.shape}) while a minimum of 1 is required.")
    return table


class Table(ABC):
    """What is known of a table, cell by cell, and the way back to its kind."""

    shape: tuple[int, int]
    row_labels: Any = None
    """The index of a pandas frame, which names its rows; None for the other kinds."""

    max_cells: float = math.inf

    @abstractmethod
    def pieces(self) -> Iterator[Cells]:
        """Yield the observed cells, some at a time; no cell comes twice."""

    @abstractmethod
    def filled(self, symbols_at: SymbolsAt, alphabet: Alphabet) -> Any:
        """Return a copy of the same kind with a symbol in every missing cell."""

    def place(self, row: int, col: int) -> str:
        """How a message names a cell."""
        return f"cell ({row}, {col})"

    def check_fillable(self) -> None:
        """Refuse a table that `filled` would write out with more than `max_cells` cells."""
        m, n = self.shape
        if m * n > self.max_cells:
            raise ValueError(
                f"filling this sparse {m}×{n} table would make a dense array of {m * n:,} cells, more than "
                f"{self.max_cells:,}: fit it, and ask for the cells you need with predict(rows, cols)"
            )

    def check_symbols(self, alphabet: Alphabet) -> None:
        """Refuse values that are not in the alphabet, naming the first cell and how many there are."""
        count, first = 0, ""
        for rows, cols, values in self.pieces():
            bad = np.flatnonzero(~alphabet.contains(values))
            if bad.size and not count:
                i = bad[0]
                first = f"{values[i]:.15g} at {self.place(int(rows[i]), int(cols[i]))}"
            count += bad.size
        if count:
            raise ValueError(
                f"{count} value(s) not in {alphabet!r}, the first is {first}: correct the data or the alphabet; "
                f"a code for missing (such as -1 or 99) must become NaN or null before"
            )

    def observations(self, alphabet: Alphabet) -> Observations:
        """All observed cells, with values exactly on the symbols."""
        self.check_symbols(alphabet)
        rows, cols, values = self._all_cells()
        return Observations.from_coo(rows, cols, values, self.shape, alphabet=alphabet)

    def distinct(self) -> Array:
        """The different values that were observed, in ascending order."""
        return np.unique(self._all_cells()[2])

    def _all_cells(self) -> Cells:
        none = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
        rows, cols, values = zip(none, *self.pieces(), strict=True)
        return np.concatenate(rows), np.concatenate(cols), np.concatenate(values)


class ArrayTable(Table):
    """A numpy array, masked array or nested list.

    The dtype stays if it can hold every symbol (floats always can), else it
    becomes float64. A masked array comes back as a plain one: nothing is
    masked any more.
    """

    def __init__(self, X: Any) -> None:
        given = np.asarray(X)
        if given.ndim != 2:
            raise ValueError(
                f"expected a two-dimensional table, got {given.ndim} dimension(s), shape {given.shape}: "
                f"reshape a single column with X.reshape(-1, 1), a single row with X.reshape(1, -1)"
            )
        self.shape = given.shape
        self._given = given if given.dtype.kind in "biuf" else as_float(X, ndim=2)
        self._mask = np.ma.getmaskarray(X) if np.ma.is_masked(X) else None
        self._bands = cut(self.shape[0], max(1, BLOCK_CELLS // max(1, self.shape[1])))

    def _missing(self, start: int, stop: int) -> NDArray[np.bool_]:
        missing = np.isnan(self._given[start:stop])
        return missing if self._mask is None else missing | self._mask[start:stop]

    def pieces(self) -> Iterator[Cells]:
        """Yield the observed cells by bands of rows."""
        for start, stop in self._bands:
            rows, cols = np.nonzero(~self._missing(start, stop))
            yield rows + start, cols, self._given[rows + start, cols].astype(np.float64)

    def filled(self, symbols_at: SymbolsAt, alphabet: Alphabet) -> NDArray[Any]:
        """Return a copy with a symbol in every missing cell."""
        some = any(self._missing(*band).any() for band in self._bands)
        out = self._given.astype(np.float64 if some and not holds(self._given.dtype, alphabet) else self._given.dtype)
        for start, stop in self._bands:
            rows, cols = np.nonzero(self._missing(start, stop))
            out[rows + start, cols] = symbols_at(rows + start, cols)
        return out


class SparseTable(Table):
    """A scipy sparse matrix or array; it is filled as a dense array of the smallest dtype for the alphabet."""

    max_cells = MAX_FILLED_CELLS

    def __init__(self, X: Any) -> None:
        self._stored = Observations.from_sparse(X)
        self.shape = self._stored.shape

    def pieces(self) -> Iterator[Cells]:
        """Yield the stored cells, all at once."""
        stored = self._stored
        yield stored.rows.astype(np.int64), stored.cols.astype(np.int64), stored.values

    def filled(self, symbols_at: SymbolsAt, alphabet: Alphabet) -> NDArray[Any]:
        """Return a dense array: stored cells as they are, symbols elsewhere."""
        self.check_fillable()
        (m, n), stored = self.shape, self._stored
        out = np.empty((m, n), dtype=smallest_dtype(alphabet))
        out[stored.rows, stored.cols] = alphabet.snap(stored.values)
        for start, stop in cut(m, max(1, BLOCK_CELLS // n)):
            missing = np.ones((stop - start, n), dtype=bool)
            entries = slice(*stored.by_row.indptr[[start, stop]])
            missing[stored.rows[entries] - start, stored.cols[entries]] = False
            rows, cols = np.nonzero(missing)
            out[rows + start, cols] = symbols_at(rows + start, cols)
        return out


class FrameTable(Table):
    """A pandas, polars or Arrow table, through narwhals.

    Index, column names and dtypes stay. Where a column has missing cells and a
    dtype that cannot hold every symbol (integers, and the alphabet has halves;
    no type at all, for want of any value), it becomes Int64 or Float64,
    whichever the alphabet needs; a column without missing cells is not touched.
    """

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        self._frame = frame
        self.shape = frame.shape
        self.row_labels = nw.maybe_get_index(frame)
        for series in frame.iter_columns():
            _numbers(series)  # refuses what are no numbers

    def place(self, row: int, col: int) -> str:
        """Name a cell by its labels."""
        label = row if self.row_labels is None else self.row_labels[[row]].tolist()[0]
        return f"row {label!r}, column {self._frame.columns[col]!r}"

    def pieces(self) -> Iterator[Cells]:
        """Yield the observed cells column by column."""
        for col, series in enumerate(self._frame.iter_columns()):
            values = _numbers(series)
            rows = np.flatnonzero(~np.isnan(values))
            yield rows, np.full(rows.size, col), values[rows]

    def filled(self, symbols_at: SymbolsAt, alphabet: Alphabet) -> Any:
        """Return the frame with the columns replaced that had missing cells."""
        columns = []
        for col, series in enumerate(self._frame.iter_columns()):
            rows = np.flatnonzero(np.isnan(_numbers(series)))
            if rows.size:
                columns.append(_scattered(series, rows, symbols_at(rows, np.full(rows.size, col)), alphabet))
        return self._frame.with_columns(*columns).to_native()


# -------------------------------------------------------------------- columns of frames
_NUMPY_DTYPE: dict[type[nw.dtypes.DType], type[np.generic]] = {
    nw.Boolean: np.bool_,
    nw.Int8: np.int8,
    nw.Int16: np.int16,
    nw.Int32: np.int32,
    nw.Int64: np.int64,
    nw.UInt8: np.uint8,
    nw.UInt16: np.uint16,
    nw.UInt32: np.uint32,
    nw.UInt64: np.uint64,
    nw.Float32: np.float32,
    nw.Float64: np.float64,
    nw.Object: np.object_,
}
"""The types of columns that can hold symbols; objects must be numbers, which `_numbers` checks."""


def _numbers(series: nw.Series[Any]) -> Array:
    """The column as floats with NaN for missing; anything that is no number is an error."""
    kind = type(series.dtype)
    if series.null_count() == len(series):  # of whatever type: a column without any value is welcome
        return np.full(len(series), np.nan)
    try:
        if kind not in _NUMPY_DTYPE:
            raise ValueError(f"its dtype is {series.dtype}")
        return as_float(series.to_numpy() if kind is nw.Object else series.cast(nw.Float64).to_numpy())
    except ValueError as err:
        raise ValueError(
            f"column {series.name!r} cannot be read: {err}; convert it to integers or floats, or leave it out"
        ) from None


def _scattered(series: nw.Series[Any], rows: Index, symbols: Array, alphabet: Alphabet) -> nw.Series[Any]:
    """The column with symbols written in the given rows."""
    kind = type(series.dtype)
    if not holds(np.dtype(_NUMPY_DTYPE.get(kind, np.void)), alphabet):
        kind = nw.Int64 if alphabet.is_integer else nw.Float64
    numbers = symbols.astype(np.int64 if kind is nw.Object and alphabet.is_integer else _NUMPY_DTYPE[kind])
    if kind is nw.Object:
        return series.scatter(rows, numbers.tolist())
    values = nw.new_series(series.name, numbers, dtype=kind(), backend=series.implementation)
    if isinstance(series.dtype, kind):
        return series.scatter(rows, values)
    return values if rows.size == len(series) else series.cast(kind()).scatter(rows, values)


# -------------------------------------------------------------------- dtypes
def holds(dtype: np.dtype[Any], alphabet: Alphabet) -> bool:
    """Whether a dtype can hold every symbol; floats and objects always can.

    Examples
    --------
    >>> holds(np.dtype("uint8"), Alphabet.of("0:2")), holds(np.dtype("uint8"), Alphabet.of("-1,1"))
    (True, False)
    """
    low, high = alphabet.symbols[[0, -1]]
    if dtype.kind == "b":
        return set(alphabet) <= {0.0, 1.0}
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return bool(alphabet.is_integer and limits.min <= low and high <= limits.max)
    return dtype.kind in "fO"


def smallest_dtype(alphabet: Alphabet) -> np.dtype[Any]:
    """The smallest signed integer type for whole symbols, else float32 if it is exact, else float64.

    Examples
    --------
    >>> smallest_dtype(Alphabet.of("1:5")), smallest_dtype(Alphabet.of("0.5:5:0.5"))
    (dtype('int8'), dtype('float32'))
    """
    for name in ("int8", "int16", "int32", "int64"):
        if holds(np.dtype(name), alphabet):
            return np.dtype(name)
    with np.errstate(over="ignore"):
        exact = np.array_equal(alphabet.symbols.astype(np.float32), alphabet.symbols)
    return np.dtype("float32" if exact else "float64")
