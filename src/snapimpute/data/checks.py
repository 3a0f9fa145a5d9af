"""Checks of what users give as cells and values: one clear error each, naming the first offender and the count."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.errors import ArgumentError, Phrase, Setting, Value
from snapimpute.data.alphabet import Alphabet, AlphabetLike

Labels = Sequence[Any] | NDArray[Any]
MAX_SIDE = np.iinfo(np.int32).max


def as_float(values: ArrayLike, ndim: int = 1) -> NDArray[np.float64]:
    """Read real numbers; a masked or NA value becomes NaN."""
    if sp.issparse(values):
        raise TypeError("got a scipy sparse matrix where an array was expected: use Observations.from_sparse")
    try:
        out = np.asarray(values)
        if out.dtype.kind not in "biufO":  # numpy would read text, count days, or drop imaginary parts
            hint = ". Complex data not supported" if out.dtype.kind == "c" else ""  # as scikit-learn says it
            raise TypeError(f"got dtype {out.dtype}{hint}")
        out = (na_to_nan(out) if out.dtype.kind == "O" else out).astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as err:
        raise ValueError(f"values must be real numbers, with NaN for missing: {err}") from None
    if np.ma.is_masked(values):
        out = np.where(np.ma.getmask(values), np.nan, out)
    if out.ndim != ndim:
        kind = "flat list" if ndim == 1 else "two-dimensional array"
        raise ValueError(f"expected a {kind} of values, got {out.ndim} dimension(s), shape {out.shape}")
    return out


def na_to_nan(objects: NDArray[Any]) -> NDArray[Any]:
    """Replace what pandas calls missing among Python objects; text is refused even if it reads as a number."""
    text = next((x for x in objects.flat if isinstance(x, str | bytes)), None)
    if text is not None:
        raise TypeError(f"got the text {text!r}")
    pandas = sys.modules.get("pandas")  # its NA can only be there if pandas is loaded
    return objects if pandas is None else np.where(pandas.isna(objects), np.nan, objects)


def as_index(index: ArrayLike, name: str) -> NDArray[Any]:
    """Read a flat list of integers."""
    out = np.asarray(index)
    if out.ndim != 1:
        raise ArgumentError(name, index, f"{name} must be a flat list, got shape {out.shape}")
    if out.size and out.dtype.kind not in "iu":
        raise ArgumentError(name, index, f"{name} must hold integers, got dtype {out.dtype}")
    if np.ma.is_masked(index):
        raise ArgumentError(name, index, f"{name} must hold integers, got masked entries: drop them")
    return out


def check_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """Return (m, n) as two positive integers."""
    try:
        m, n = (operator.index(side) for side in shape)
    except (TypeError, ValueError):
        raise ArgumentError.must("shape", shape, "be two whole numbers (rows, columns)") from None
    if not (0 < m <= MAX_SIDE and 0 < n <= MAX_SIDE):
        raise ArgumentError.must("shape", shape, f"be positive and at most {MAX_SIDE} a side")
    return m, n


def check_range(index: NDArray[Any], size: int, name: str, rows: NDArray[Any], cols: NDArray[Any]) -> None:
    """Refuse indices outside 0..size-1."""
    bad = (index < 0) | (index >= size)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"{int(bad.sum())} {name} index(es) outside 0..{size - 1}, the first at cell ({rows[i]}, {cols[i]}): "
            f"indices are zero-based; check them or the shape"
        )


def refuse(
    bad: NDArray[np.bool_],
    rows: NDArray[Any],
    cols: NDArray[Any],
    values: NDArray[np.float64],
    what: Sequence[Phrase],
    do: str,
) -> None:
    """Raise for the cells marked bad: how many, the first, and what to do."""
    if bad.any():
        i = int(np.argmax(bad))
        where = f", the first is {values[i]:.15g} at cell ({rows[i]}, {cols[i]}): "
        raise ArgumentError("values", float(values[i]), f"{int(bad.sum())} value(s) ", *what, where, do)


def off_symbols(alphabet: Alphabet, count: int, value: float, named: Sequence[str]) -> ArgumentError:
    """Return the error for so many values off an alphabet, the first of which is ``value``, some with their cells."""
    first, *others = named
    then = f" (then {'; '.join(others)})" if others else ""
    return ArgumentError(
        "X",
        value,
        f"{count} value(s) not in ",
        Value("alphabet", alphabet),
        f", the first is {first}{then}: correct the data or the alphabet; a code for missing (such as -1 or 99) is "
        "named with ",
        Setting("missing", [99]),
        ", or becomes NaN or null before",
    )


def on_symbols(
    alphabet: AlphabetLike, rows: NDArray[Any], cols: NDArray[Any], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the values exactly on the symbols; a value off them is an error."""
    symbols = Alphabet.of(alphabet)
    bad = ~symbols.contains(values)
    refuse(bad, rows, cols, values, ["not in ", Value("alphabet", symbols)], "correct the data or the alphabet")
    return symbols.snap(values)


def canonical_order(
    rows: NDArray[Any], cols: NDArray[Any], values: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[np.int64] | None:
    """Row-major order, None if it is the order given; a cell given twice is an error."""
    key = rows.astype(np.int64)
    key *= shape[1]  # sides fit in 31 bits, so the product fits in 62
    key += cols.astype(np.int64, copy=False)
    if np.all(key[1:] > key[:-1]):
        return None
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    if again.size:
        later = order[again + 1]
        i = int(later.min())
        raise ValueError(
            f"{again.size} duplicate cell(s), the first is ({rows[i]}, {cols[i]}), "
            f"given again with value {values[i]:.15g}: keep one value for each cell"
        )
    return order


def check_inside(rows: NDArray[Any], cols: NDArray[Any], shape: tuple[int, int]) -> None:
    """Refuse positions of cells that are no integers, or outside of a matrix."""
    for name, index, size in (("rows", rows, shape[0]), ("cols", cols, shape[1])):
        if index.dtype.kind not in "iu":
            raise ArgumentError(name, index, f"{name} must hold integers, got dtype {index.dtype}")
        if index.size and not (index.min() >= 0 and index.max() < size):
            told = f"{name} must lie in 0..{size - 1}, got {index.min()} to {index.max()}"
            raise ArgumentError(name, index, told)


def check_cells(
    rows: ArrayLike, cols: ArrayLike, shape: tuple[int, int]
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Read positions as two equally long flat lists of integers inside the matrix."""
    r, c = np.asarray(rows), np.asarray(cols)
    if r.ndim != 1 or r.shape != c.shape:
        raise ValueError(f"rows and cols must be equally long flat lists, got shapes {r.shape} and {c.shape}")
    for index, size, name in ((r, shape[0], "rows"), (c, shape[1], "cols")):
        if index.size and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= size):
            raise ValueError(f"{name} must be integers between 0 and {size - 1}, the positions in a {shape} matrix")
    return r.astype(np.int64), c.astype(np.int64)


def check_positions(index: NDArray[Any], size: int) -> NDArray[Any]:
    """Return distinct positions below size, sorted."""
    index = as_index(index, "positions")
    bad = (index < 0) | (index >= size)
    if bad.any():
        raise ValueError(f"{int(bad.sum())} position(s) outside 0..{size - 1}, the first is {index[np.argmax(bad)]}")
    picked = np.unique(index)
    if picked.size < index.size:
        raise ValueError(f"positions must be distinct, got {index.size - picked.size} again")
    return picked


def check_labels(labels: Labels | None, size: int, name: str) -> NDArray[Any] | None:
    """Return one label for each lane, read-only."""
    if labels is None:
        return None
    out = np.asarray(labels)
    if out.shape != (size,):
        raise ValueError(f"{name} must hold {size} labels, got shape {out.shape}")
    if out.dtype.kind == "U" and not all(isinstance(label, str) for label in labels):
        out = np.asarray(labels, dtype=object)  # keep the 1 of [1, "a"] a number
    return frozen(out)


def frozen(a: NDArray[Any], order: NDArray[Any] | None = None, dtype: Any = None) -> NDArray[Any]:
    """Return a read-only copy, in another order and type if given."""
    out = a.astype(dtype or a.dtype) if order is None else a[order].astype(dtype or a.dtype, copy=False)
    out.flags.writeable = False
    return out
