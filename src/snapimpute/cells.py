"""Cells of tables as numbers and back: codes of missing cells, labels, dtypes that can hold symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from snapimpute.alphabet import Alphabet
from snapimpute.checks import as_float
from snapimpute.codebook import Levels
from snapimpute.types import Array

Index = NDArray[np.int64]

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
    out[[any(type(cell) is type(c) and cell == c for c in codes) or _same(cell, codes) for cell in cells]] = None
    return out


def _same(cell: Any, codes: Sequence[Any]) -> bool:
    """Whether a number is one of the codes, 99.0 being 99."""
    number = isinstance(cell, int | float | np.number) and not isinstance(cell, bool)
    return number and any(not isinstance(code, str) and cell == code for code in codes)


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


def scattered(series: nw.Series[Any], rows: Index, symbols: Array, alphabet: Alphabet | None) -> nw.Series[Any]:
    """The column with symbols, or what they stand for, written in the given rows."""
    if alphabet is not None and alphabet.labels is not None:
        return _with_labels(series, rows, alphabet.decode(symbols).tolist())
    kind = type(series.dtype)
    if not holds(np.dtype(NUMPY_DTYPE.get(kind, np.void)), alphabet):
        kind = nw.Int64 if alphabet is not None and alphabet.is_integer else nw.Float64
    if kind is nw.Object:
        return series.scatter(rows, python_numbers(symbols, alphabet).tolist())
    numbers = symbols.astype(NUMPY_DTYPE[kind])
    values = nw.new_series(series.name, numbers, dtype=kind(), backend=series.implementation)
    if isinstance(series.dtype, kind):
        return series.scatter(rows, values)
    return values if rows.size == len(series) else series.cast(kind()).scatter(rows, values)


def _with_labels(series: nw.Series[Any], rows: Index, labels: list[Any]) -> nw.Series[Any]:
    """The column with labels written; a categorical stays one if it has them among its categories."""
    dtype = series.dtype
    if isinstance(dtype, nw.Enum | nw.Categorical):
        categories = dtype.categories if isinstance(dtype, nw.Enum) else series.cat.get_categories().to_list()
        if series.implementation.is_pyarrow():
            whole = series.cast(nw.String).scatter(rows, labels)
            return nw.new_series(series.name, whole.to_list(), dtype=dtype, backend=series.implementation)
        if set(labels) <= set(categories) or (not isinstance(dtype, nw.Enum) and series.implementation.is_polars()):
            return series.scatter(rows, labels)
        series = series.cast(nw.String())
    elif not isinstance(dtype, nw.String | nw.Object):
        series = series.cast(nw.String())
    return series.scatter(rows, labels)


# -------------------------------------------------------------------- dtypes
def holds(dtype: np.dtype[Any], alphabet: Alphabet | None) -> bool:
    """Whether a dtype can hold every symbol; floats and objects always can, and they alone any number (None).

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
