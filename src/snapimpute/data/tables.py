"""Tables of any kind in, the same kind out: numpy, scipy sparse, pandas, polars and Arrow.

How a missing cell is coded depends on the kind alone, never on the value 0:

====================  ===============================================================
numpy array, list     NaN, None, pandas' NA, a masked cell
scipy sparse          not stored; a stored zero is an observation
Observations          not listed
pandas, polars, …     null (NA, None, NaT) or NaN
====================  ===============================================================

Further codes can be named. `read_table` gives a `Table`, which lists its observed
cells piece by piece and returns a copy of itself with its missing cells filled.
What was observed is copied, not converted. The cells of a column are turned into
numbers once, when the table is taken in; everything else works with these.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.threads import cut
from snapimpute.base.types import Array, Index
from snapimpute.data.alphabet import Alphabet, is_missing
from snapimpute.data.cells import (
    NUMPY_DTYPE,
    coded_missing,
    holds,
    is_code,
    number_levels,
    object_levels,
    ordered_categories,
    own_categories,
    python_numbers,
    scattered,
    smallest_dtype,
    texts,
    without,
)
from snapimpute.data.checks import as_float, off_symbols
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema, Levels

Cells = tuple[Index, Index, Array]
"""Rows, columns and values of some cells."""

SymbolsAt = Callable[[Index, Index], Array]
"""Gives the numbers to write at cells that lie in a few rows, or in a few columns; NaN leaves a cell missing."""

BLOCK_CELLS = 1 << 17
"""Cells read or filled at once: a block and its indices take a few megabytes."""

NAMED_CELLS = 3
"""Cells that an error about symbols names, at most."""

MAX_FILLED_CELLS = 100_000_000
"""A sparse table with more cells than this is not filled: the result would be dense."""


def read_table(
    X: Any, alphabet: Any, *, missing: Sequence[Any] = (), leave: bool = False, row_labels: Any = None
) -> Table:
    """Take in a table of any supported kind.

    ``alphabet`` is a schema or what `ColumnSchema.of` takes; ``missing`` are further codes of missing cells. Columns
    of any numbers are left alone if ``leave``. Messages name rows by ``row_labels`` where the table itself has none.
    A table of another form is a ValueError or TypeError, which names the column of a frame.

    Examples
    --------
    >>> table = read_table([["n", None], ["y", "?"]], ["n", "y"], missing=["?"])
    >>> table.shape, table.observations().values
    ((2, 2), array([0., 1.]))
    """
    missing = [code for code in missing if not is_missing(code)]
    if sp.issparse(X) or isinstance(X, Observations):
        table: Table = SparseTable(X, missing)
    else:
        frame = nw.from_native(X, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            raise TypeError(f"{type(X).__name__} is a query, not a table yet: call its collect() first")
        table = FrameTable(frame, missing) if isinstance(frame, nw.DataFrame) else ArrayTable(X, missing)
    for size, name in zip(table.shape, ("sample(s)", "feature(s)"), strict=True):
        if size == 0:
            raise ValueError(f"found a table with 0 {name} (shape={table.shape}) while a minimum of 1 is required.")
    table.given = X
    if row_labels is not None:
        table.row_labels = row_labels
    if isinstance(alphabet, ColumnSchema):
        table.take(alphabet)
    else:
        table.take(ColumnSchema.of(alphabet, table.shape[1], table.names, levels=table.levels, leave=leave))
    return table


class Table(ABC):
    """Known cells of a table, and the way back to its kind."""

    shape: tuple[int, int]
    schema: ColumnSchema
    given: Any
    """The table as it came."""

    names: list[Any] | None = None
    """Names of the columns of a frame or of observations."""

    row_labels: Any = None
    """The index of a pandas frame, or the labels of observations; None for the other kinds."""

    max_cells: float = math.inf

    checked = False
    """True if all values are known to be symbols."""

    def take(self, schema: ColumnSchema) -> None:
        """Set what the columns hold."""
        self.schema = schema

    @abstractmethod
    def levels(self, col: int) -> Levels:
        """The different values of a column."""

    @abstractmethod
    def pieces(self) -> Iterator[Cells]:
        """Yield the observed cells that are not left alone, some at a time; no cell comes twice."""

    @abstractmethod
    def filled(self, symbols_at: SymbolsAt, *, may_abstain: bool = False) -> Any:
        """Return a copy of the same kind with a symbol in every missing cell, or where one is given."""

    def place(self, row: int, col: int) -> str:
        """Name a cell in a message."""
        return f"cell ({row}, {col})"

    def read(self, cells: NDArray[Any], col: int) -> Array:
        """Cells of a column as numbers, NaN where nothing is; what is neither number nor label is an error."""
        alphabet = self.schema[col]
        if alphabet is not None and alphabet.labels is not None:
            return alphabet.encode(cells, lambda row: self.place(row, col))
        try:
            return as_float(cells)
        except ValueError as err:
            raise self.unreadable(col, err) from None

    def unreadable(self, col: int, why: object) -> ArgumentError:
        """The error for a column that holds something else."""
        name = col if self.names is None else self.names[col]
        return ArgumentError(
            "X",
            name,
            f"column {name!r} cannot be read: {why}; convert it to integers or floats, "
            "give its labels as alphabet, or leave it out of the table",
        )

    def check_fillable(self) -> None:
        """Refuse a table that `filled` would write out with more than `max_cells` cells."""
        m, n = self.shape
        if m * n > self.max_cells:
            raise ValueError(
                f"filling this sparse {m}×{n} table would make a dense array of {m * n:,} cells, more than "
                f"{self.max_cells:,}: fit it, and ask for the cells you need with predict(rows, cols), or for the "
                f"best ones of a row with recommend(row, k)"
            )

    def check_symbols(self) -> None:
        """Refuse values that are not in the alphabet of their column, naming the first cells and the count."""
        if self.checked:
            return
        bad: dict[Alphabet, tuple[int, float, list[str]]] = {}
        for rows, cols, values in self.pieces():
            for kind, alphabet in enumerate(self.schema.kinds):
                inside = np.arange(cols.size)[self.schema.inside(kind, cols)]
                seen = values[inside]
                found = inside[~np.isfinite(seen) if alphabet is None else ~alphabet.contains(seen)]
                if found.size and alphabet is None:
                    raise ValueError(f"{self.place(int(rows[found[0]]), int(cols[found[0]]))} is not finite")
                if found.size and alphabet is not None:
                    count, value, named = bad.get(alphabet, (0, float(values[found[0]]), []))
                    more = found[: NAMED_CELLS - len(named)]
                    named += [f"{values[i]:.15g} at {self.place(int(rows[i]), int(cols[i]))}" for i in more]
                    bad[alphabet] = count + found.size, value, named
        for alphabet, (count, value, named) in bad.items():
            raise off_symbols(alphabet, count, value, named)
        self.checked = True

    def observations(self) -> Observations:
        """All observed cells that are not left alone, with values exactly on the symbols."""
        return self._observed

    @cached_property
    def _observed(self) -> Observations:
        self.check_symbols()
        rows, cols, values = self.cells()
        return Observations.from_coo(rows, cols, self.schema.snapped(cols, values), self.shape)

    def cells(self) -> Cells:
        """All observed cells that are not left alone; there may be none."""
        none = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
        rows, cols, values = zip(none, *self.pieces(), strict=True)
        return np.concatenate(rows), np.concatenate(cols), np.concatenate(values)


class ArrayTable(Table):
    """A numpy array, masked array or nested list, of numbers or labels.

    The dtype stays if it can hold every symbol (floats always can), else it
    becomes float64. A masked array comes back as a plain one: nothing is
    masked any more.
    """

    def __init__(self, X: Any, missing: Sequence[Any]) -> None:
        given = np.asarray(X)
        if given.ndim != 2:
            raise ValueError(
                f"expected a two-dimensional table, got {given.ndim} dimension(s), shape {given.shape}: "
                f"reshape a single column with X.reshape(-1, 1), a single row with X.reshape(1, -1)"
            )
        if given.dtype.kind == "U" and not isinstance(X, np.ndarray):
            given = np.array(X, dtype=object)  # numbers beside text stay numbers
        text = given.dtype.kind == "U" or (given.dtype.kind == "O" and any(isinstance(x, str) for x in given.flat))
        if given.dtype.kind not in "biuf" and not text:
            given = as_float(X, ndim=2)  # or refuses it
        self.shape = (given.shape[0], given.shape[1])
        self._given, self._missing_codes = given, missing
        self._mask = np.ma.getmaskarray(X) if np.ma.is_masked(X) else None
        self._bands = cut(self.shape[0], max(1, BLOCK_CELLS // max(1, self.shape[1])))
        self._seen: dict[int, NDArray[Any]] = {}
        """Columns of objects that `levels` has looked at and `take` has not read yet."""
        self._numbers = given
        self._lost = self._missing() if given.dtype.kind in "biuf" else np.zeros((0, 0), dtype=bool)

    def _missing(self) -> NDArray[np.bool_]:
        """Find the missing cells of an array of numbers, band by band."""
        out = np.zeros(self.shape, dtype=bool) if self._mask is None else self._mask.copy()
        if self._given.dtype.kind == "f" or self._missing_codes:
            for start, stop in self._bands:
                numbers = self._given[start:stop].astype(np.float64)
                out[start:stop] |= np.isnan(numbers) | coded_missing(numbers, self._missing_codes)
        return out

    def take(self, schema: ColumnSchema) -> None:
        """Set what the columns hold; labels and other objects are read as numbers at once."""
        super().take(schema)
        if self._given.dtype.kind in "biuf":
            labelled = schema.labelled
            if not labelled.size:
                return
            if self._given.dtype.kind in "biu" or not np.isnan(self._given[:, labelled]).all():
                schema.refuse_labels()
            self._given = self._given.astype(object)  # there is no value yet, but there will be labels
        self._numbers = np.full(self.shape, np.nan)
        for col in schema.coded.tolist():
            self._numbers[:, col] = self.read(self._objects(col), col)
        self._lost = np.isnan(self._numbers)

    def _objects(self, col: int) -> NDArray[Any]:
        if col in self._seen:
            return self._seen.pop(col)
        cells = without(self._given[:, col].astype(object), self._missing_codes)
        if self._mask is not None:
            cells[self._mask[:, col]] = None
        return cells

    def levels(self, col: int) -> Levels:
        """The different values of a column."""
        if self._given.dtype.kind in "OU":
            self._seen[col] = self._objects(col)
            return object_levels(self._seen[col])
        return number_levels(np.where(self._lost[:, col], np.nan, self._given[:, col].astype(np.float64)))

    def _open(self, band: tuple[int, int]) -> NDArray[np.bool_]:
        """Mark the cells of a band that are missing and are to be filled."""
        return self._lost[slice(*band)] & (self.schema.which >= 0)

    def pieces(self) -> Iterator[Cells]:
        """Yield the observed cells by bands of rows."""
        coded = self.schema.which >= 0
        for start, stop in self._bands:
            rows, cols = np.nonzero(~self._lost[start:stop] & coded)
            yield rows + start, cols, self._numbers[start:stop][rows, cols].astype(np.float64)

    def filled(self, symbols_at: SymbolsAt, *, may_abstain: bool = False) -> NDArray[Any]:
        """Return a copy with a symbol in every missing cell."""
        kept = self._given.dtype.kind in "fO" or self._stays(may_abstain)
        labelled = self._given.dtype.kind in "OU"
        out = self._given.astype(object if labelled else self._given.dtype if kept else np.float64)
        for band in self._bands:
            rows, cols = np.nonzero(self._open(band))
            if not rows.size:
                continue
            symbols = symbols_at(rows + band[0], cols)
            out[rows + band[0], cols] = self._decoded(symbols, cols) if labelled else symbols
        if self._given.dtype.kind != "U" or not all(isinstance(one, str) for one in out.flat):
            return out
        return out.astype(np.result_type(out.astype(str), self._given))  # at least as wide as it was

    def _stays(self, may_abstain: bool) -> bool:
        """Tell whether the dtype can hold the cells to be written, if any."""
        if not may_abstain and all(holds(self._given.dtype, kind) for kind in self.schema.kinds):
            return True
        return not any(self._open(band).any() for band in self._bands)

    def _decoded(self, symbols: Array, cols: Index) -> NDArray[Any]:
        out = np.empty(symbols.size, dtype=object)
        for kind, alphabet in enumerate(self.schema.kinds):
            inside = self.schema.inside(kind, cols)
            decoded = symbols[inside] if alphabet is None else alphabet.decode(symbols[inside])
            out[inside] = python_numbers(decoded, alphabet)
        return out


class SparseTable(Table):
    """A scipy sparse matrix or array, or observations; filled as a dense array of the smallest dtype that serves.

    The values of observations are symbols, also where these stand for labels.
    """

    max_cells = MAX_FILLED_CELLS

    def __init__(self, X: Any, missing: Sequence[Any]) -> None:
        self._symbols = isinstance(X, Observations)
        stored = X if isinstance(X, Observations) else Observations.from_sparse(X)
        if stored.col_labels is not None:
            self.names = stored.col_labels.tolist()
        self.row_labels = stored.row_labels
        lost = coded_missing(stored.values, missing)
        if lost.all():
            raise ValueError("no observed entry: every stored value is a code for missing")
        self._stored = stored.take(~lost) if lost.any() else stored
        self.shape = stored.shape

    def take(self, schema: ColumnSchema) -> None:
        """Set what the columns hold."""
        if (schema.which < 0).any():
            raise ValueError("columns of a sparse table cannot be left alone: a dense table has no cell not stored")
        if schema.labelled.size and not self._symbols:
            schema.refuse_labels()
        super().take(schema)

    def place(self, row: int, col: int) -> str:
        """Name a cell by its labels."""
        if self.row_labels is None or self.names is None:
            return super().place(row, col)
        return f"row {self.row_labels[[row]].tolist()[0]!r}, column {self.names[col]!r}"

    def levels(self, col: int) -> Levels:
        """The different values of a column."""
        (start, stop), order = self._stored.by_col.indptr[col : col + 2], self._stored.by_col.order
        return number_levels(self._stored.values[slice(start, stop) if order is None else order[start:stop]])

    def pieces(self) -> Iterator[Cells]:
        """Yield the stored cells, all at once."""
        stored = self._stored
        yield stored.rows.astype(np.int64), stored.cols.astype(np.int64), stored.values.copy()

    def filled(self, symbols_at: SymbolsAt, *, may_abstain: bool = False) -> NDArray[Any]:
        """Return a dense array: stored cells as they are, symbols elsewhere."""
        self.check_fillable()
        if self.schema.labelled.size:
            raise ValueError(
                "observations of labels cannot be filled as an array of numbers: use predict(rows, cols)"
            )
        (m, n), stored = self.shape, self._stored
        dtypes = [np.dtype("float64") if kind is None else smallest_dtype(kind) for kind in self.schema.kinds]
        dtype = np.result_type(*dtypes, np.float32) if may_abstain else np.result_type(*dtypes)
        out = np.empty((m, n), dtype=dtype)
        out[stored.rows, stored.cols] = self.observations().values
        for start, stop in cut(m, max(1, BLOCK_CELLS // n)):
            missing = np.ones((stop - start, n), dtype=bool)
            entries = slice(*stored.by_row.indptr[[start, stop]])
            missing[stored.rows[entries] - start, stored.cols[entries]] = False
            rows, cols = np.nonzero(missing)
            if rows.size:
                out[rows + start, cols] = symbols_at(rows + start, cols)
        return out


class FrameTable(Table):
    """A pandas, polars or Arrow table, through narwhals.

    Index, column names and dtypes stay, categoricals with their order too. Where
    a column has missing cells and a dtype that cannot hold every symbol (integers,
    and the alphabet has halves; no type at all, for want of any value), it becomes
    Int64, Float64 or text, whichever the alphabet needs; a column without missing
    cells is not touched.
    """

    def __init__(self, frame: nw.DataFrame[Any], missing: Sequence[Any]) -> None:
        self._frame, self._missing_codes = frame, missing
        self._columns = list(frame.iter_columns())  # once: to find one by its position, a frame lists all names
        self.shape = frame.shape
        self.names = list(frame.columns)
        self.row_labels = nw.maybe_get_index(frame)
        self._numbers: dict[int, Array] = {}
        self._seen: dict[int, NDArray[Any]] = {}
        """Columns that `levels` has looked at and `take` has not read yet."""

    def take(self, schema: ColumnSchema) -> None:
        """Set what the columns hold, read them, and refuse columns that hold something else."""
        super().take(schema)
        self._numbers = {col: self._read(col) for col in schema.coded.tolist()}
        self._seen.clear()

    def _read(self, col: int) -> Array:
        """A column as floats with NaN for missing; anything that is neither number nor label is an error."""
        series, alphabet = self._columns[col], self.schema[col]
        if series.null_count() == len(series):  # of whatever type: a column without any value is welcome
            return np.full(len(series), np.nan)
        labelled = alphabet is not None and alphabet.labels is not None
        if not labelled and type(series.dtype) not in NUMPY_DTYPE:
            raise self.unreadable(col, f"its dtype is {series.dtype}")
        return self.read(self._cells(col, objects=labelled or isinstance(series.dtype, nw.Object)), col)

    def _cells(self, col: int, *, objects: bool) -> NDArray[Any]:
        """The cells of a column as floats or as objects, NaN or None for missing."""
        if col in self._seen:
            seen = self._seen.pop(col)
            return seen.astype(object, copy=False) if objects else seen
        series = self._columns[col]
        if objects:
            return without(np.array([*texts(series), None], dtype=object)[:-1], self._missing_codes)
        numbers = as_float(series.cast(nw.Float64).to_numpy())
        lost = coded_missing(numbers, self._missing_codes)
        return np.where(lost, np.nan, numbers) if lost.any() else numbers

    def levels(self, col: int) -> Levels:
        """The different values of a column; those of a categorical are its categories."""
        series = self._columns[col]
        order = ordered_categories(series)
        categories = own_categories(series) if order is None else order
        objects = (
            categories is not None or type(series.dtype) not in NUMPY_DTYPE or isinstance(series.dtype, nw.Object)
        )
        self._seen[col] = cells = self._cells(col, objects=objects)
        if categories is not None:
            known = [one for one in categories if not is_code(one, self._missing_codes)]
            ordered, count = order is not None, object_levels(cells).count
            return Levels(np.array(known, dtype=object), count, ordered=ordered, nominal=not ordered)
        return object_levels(cells) if objects else number_levels(cells)

    def place(self, row: int, col: int) -> str:
        """Name a cell by its labels."""
        label = row if self.row_labels is None else self.row_labels[[row]].tolist()[0]
        return f"row {label!r}, column {self._frame.columns[col]!r}"

    def pieces(self) -> Iterator[Cells]:
        """Yield the observed cells column by column."""
        for col, values in self._numbers.items():
            rows = np.flatnonzero(~np.isnan(values))
            yield rows, np.full(rows.size, col), values[rows]

    def filled(self, symbols_at: SymbolsAt, *, may_abstain: bool = False) -> Any:
        """Return the frame with the columns replaced that had missing cells."""
        columns = []
        for col, values in self._numbers.items():
            rows = np.flatnonzero(np.isnan(values))
            if rows.size:
                symbols = symbols_at(rows, np.full(rows.size, col))
                columns.append(scattered(self._columns[col], rows, symbols, self.schema[col]))
        return self._frame.with_columns(*columns).to_native()
