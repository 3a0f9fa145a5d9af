"""Cells of tables as numbers and back: codes of missing cells, labels, dtypes that can hold symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from snapimpute.base.types import Array, Index
from snapimpute.data.alphabet import Alphabet, is_missing
from snapimpute.data.checks import as_float
from snapimpute.data.schema import Levels

NUMPY_DTYPE: dict[type[nw.dtypes.DType], type[np.generic]] = {
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
"""The types of columns that can hold symbols; objects must be numbers or labels."""


def coded(cells: NDArray[Any], alphabet: Alphabet | None) -> Array:
    """Objects as numbers: labels by the alphabet, numbers as they are, NaN where nothing is."""
    if alphabet is not None and alphabet.labels is not None:
        return alphabet.encode(cells)
    return as_float(cells)


def without(cells: NDArray[Any], codes: Sequence[Any]) -> NDArray[Any]:
    """Objects with None for the codes of missing cells."""
    if not codes:
        return cells
    out = cells.copy()
    out[[is_code(cell, codes) for cell in cells]] = None
    return out


def is_code(cell: Any, codes: Sequence[Any]) -> bool:
    """Tell whether a cell is one of the codes, 99.0 being 99 but neither "99" nor, of 1, True."""
    if isinstance(cell, str):
        return any(isinstance(code, str) and cell == code for code in codes)
    number = isinstance(cell, int | float | np.number) and not isinstance(cell, bool)
    return any((number or type(cell) is type(code)) and not isinstance(code, str) and cell == code for code in codes)


def coded_missing(numbers: NDArray[Any], codes: Sequence[Any]) -> NDArray[np.bool_]:
    """Return which numbers are codes of missing cells; codes that are text are none."""
    out = np.zeros(numbers.shape, dtype=bool)
    for code in codes:
        if not isinstance(code, str):
            out |= numbers == code
    return out


def object_levels(cells: NDArray[Any]) -> Levels:
    """The different values among objects; text if there is any."""
    text = [cell for cell in cells if isinstance(cell, str)]
    if text:
        return Levels(np.array(sorted(set(text)), dtype=object), len(text))
    return number_levels(as_float(cells))


def number_levels(values: Array) -> Levels:
    """The different numbers, and how many cells have one."""
    known = values[~np.isnan(values)]
    return Levels(np.unique(known), known.size)


def python_numbers(values: NDArray[Any], alphabet: Alphabet | None) -> NDArray[Any]:
    """Numbers to stand among objects: whole ones as int, NaN as None."""
    if values.dtype.kind == "O":
        return values
    whole = alphabet is not None and alphabet.is_integer
    some = [None if np.isnan(value) else int(value) if whole else float(value) for value in values]
    return np.array([*some, None], dtype=object)[:-1]


# -------------------------------------------------------------------- columns of frames
def texts(series: nw.Series[Any]) -> list[Any]:
    """The cells of a column; those of a categorical as text, for its categories may be numbers."""
    cells = series.to_list()
    if isinstance(series.dtype, nw.Categorical | nw.Enum):
        return [None if is_missing(cell) else str(cell) for cell in cells]
    return cells


def ordered_categories(series: nw.Series[Any]) -> list[str] | None:
    """The categories of a column from lowest to highest, if they have an order."""
    if isinstance(series.dtype, nw.Enum):
        return [str(one) for one in series.dtype.categories]
    if series.implementation.is_pyarrow() and getattr(series.to_native().type, "ordered", False):
        return list(_dictionary(series.to_native()))
    return None


def own_categories(series: nw.Series[Any]) -> list[str] | None:
    """The categories of a categorical without order: all that pandas declares, else those of its cells."""
    if not isinstance(series.dtype, nw.Categorical):
        return None
    if series.implementation.is_pandas_like():
        return [str(one) for one in series.to_native().dtype.categories]
    return sorted({cell for cell in texts(series) if cell is not None})


def scattered(series: nw.Series[Any], rows: Index, symbols: Array, alphabet: Alphabet | None) -> nw.Series[Any]:
    """The column with symbols, or what they stand for, written in the given rows; null where they are NaN."""
    labelled = alphabet is not None and alphabet.labels is not None
    if labelled or isinstance(series.dtype, nw.Object):
        new = python_numbers(symbols if alphabet is None else alphabet.decode(symbols), alphabet)
        cells = texts(series)
        for row, cell in zip(rows.tolist(), new.tolist(), strict=True):
            cells[row] = cells[row] if cell is None and is_missing(cells[row]) else cell
        return _rebuilt(series, cells)
    whole, given = alphabet is not None and alphabet.is_integer, ~np.isnan(symbols)
    if not given.all():
        series = _with_nulls(series, rows[~given], whole)
        rows, symbols = rows[given], symbols[given]
    kind = type(series.dtype)
    if not holds(np.dtype(NUMPY_DTYPE.get(kind, np.void)), alphabet):
        kind = nw.Int64 if whole else nw.Float64
    numbers = symbols.astype(NUMPY_DTYPE[kind])
    values = nw.new_series(series.name, numbers, dtype=kind(), backend=series.implementation)
    if isinstance(series.dtype, kind):
        return series.scatter(rows, values)
    return values if rows.size == len(series) else series.cast(kind()).scatter(rows, values)


def _with_nulls(series: nw.Series[Any], rows: Index, whole: bool) -> nw.Series[Any]:
    """The column with null in some rows; where its type knows no null, or it has no type, as floats or integers."""
    pandas = series.implementation.is_pandas_like()
    if type(series.dtype) not in NUMPY_DTYPE:  # not a column of numbers, so one without any value
        kind = nw.Int64 if whole and not pandas else nw.Float64
        return nw.new_series(series.name, [None] * len(series), dtype=kind(), backend=series.implementation)
    cells = series.to_list()
    codes = [row for row in rows.tolist() if not is_missing(cells[row])]
    if not codes:
        return series
    for row in codes:
        cells[row] = None
    plain = pandas and isinstance(series.to_native().dtype, np.dtype)
    return _rebuilt(series.cast(nw.Float64()) if plain and not series.dtype.is_float() else series, cells)


def _rebuilt(series: nw.Series[Any], cells: list[Any]) -> nw.Series[Any]:
    """Other cells in a column of the same type and index; as text if its type cannot hold them."""
    native, lib, backend = series.to_native(), series.__native_namespace__(), series.implementation
    like = native
    if not _holds_text(series, {cell for cell in cells if isinstance(cell, str)}):
        like = nw.new_series(series.name, [""], dtype=nw.String(), backend=backend).to_native()
    if backend.is_pyarrow():
        made = lib.chunked_array([_arrow(lib, like, cells)])
    elif backend.is_polars():
        made = lib.Series(series.name, cells, dtype=like.dtype)
    else:
        known = {str(one): one for one in getattr(like.dtype, "categories", ())}
        cells = [None if is_missing(cell) else known[cell] for cell in cells] if known else cells
        made = lib.Series(cells, index=native.index, name=series.name, dtype=like.dtype)
    out: nw.Series[Any] = nw.from_native(made, series_only=True).alias(series.name)
    return out


def _holds_text(series: nw.Series[Any], text: set[str]) -> bool:
    """Tell whether a column can hold text; a categorical with fixed categories only these."""
    dtype = series.dtype
    categories = dtype.categories if isinstance(dtype, nw.Enum) else None
    if series.implementation.is_pandas_like():
        categories = getattr(series.to_native().dtype, "categories", None)
    if categories is not None:
        return text <= set(map(str, categories))
    return not text or isinstance(dtype, nw.String | nw.Categorical | nw.Object)


def _dictionary(native: Any) -> dict[str, Any]:
    """Values in the dictionary of an Arrow column, by their text."""
    return {str(one): one for one in native.unify_dictionaries().chunk(0).dictionary.to_pylist()}


def _arrow(lib: Any, like: Any, cells: list[Any]) -> Any:
    """Cells as an Arrow array of the type of a column; a dictionary keeps its order, what is new comes last."""
    if not lib.types.is_dictionary(like.type):
        return lib.array(cells, type=like.type)
    known = _dictionary(like)
    known |= {cell: cell for cell in cells if cell is not None and cell not in known}
    codes = {text: code for code, text in enumerate(known)}
    return lib.DictionaryArray.from_arrays(
        lib.array([None if cell is None else codes[cell] for cell in cells], type=like.type.index_type),
        lib.array(list(known.values()), type=like.type.value_type),
        ordered=like.type.ordered,
    )


# -------------------------------------------------------------------- dtypes
def holds(dtype: np.dtype[Any], alphabet: Alphabet | None) -> bool:
    """Tell whether a dtype can hold every symbol; floats and objects always can, and they alone any number (None).

    Examples
    --------
    >>> holds(np.dtype("uint8"), Alphabet.of("0:2")), holds(np.dtype("uint8"), Alphabet.of("-1,1"))
    (True, False)
    """
    if alphabet is None:
        return dtype.kind in "fO"
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
