"""Features of rows or columns as users have them: arrays, frames, sparse matrices, or a dict by label.

A `FeatureTable` is what was read: numbers, categories, tags and a sparse matrix,
one row for each unit of the table that the features are of. Units are matched by
their labels where both sides have some, by their positions otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Array
from snapimpute.data.alphabet import is_missing
from snapimpute.data.cells import texts
from snapimpute.data.checks import as_float

Objects = NDArray[np.object_]

SECONDS_A_DAY = 86_400.0


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features of some units, as they were read; a unit of which a feature is not known has NaN or None there.

    Attributes
    ----------
    argument : str
        The argument that brought them, for messages.
    size : int
        Number of units.
    numbers : mapping of name to array of float64
    categories : mapping of name to array of str
    tags : mapping of name to array of frozenset of str
    matrix : sparse array or None
    whole : bool
        False where each unit names only what is known of it, as in a dict: features may be absent.
    """

    argument: str
    size: int
    numbers: Mapping[str, Array] = field(default_factory=dict)
    categories: Mapping[str, Objects] = field(default_factory=dict)
    tags: Mapping[str, Objects] = field(default_factory=dict)
    matrix: sp.csr_array | None = None
    whole: bool = True

    def take(self, index: NDArray[np.intp]) -> FeatureTable:
        """Return the units at some positions; of −1 nothing is known."""
        known = index >= 0

        def picked(values: NDArray[Any], nothing: Any) -> NDArray[Any]:
            out = np.full(index.size, nothing, dtype=values.dtype)
            out[known] = values[index[known]]
            return out

        numbers = {name: picked(values, np.nan) for name, values in self.numbers.items()}
        categories = {name: picked(values, None) for name, values in self.categories.items()}
        tags = {name: picked(values, None) for name, values in self.tags.items()}
        matrix = None
        if self.matrix is not None:
            at = np.flatnonzero(known)
            pick = sp.csr_array((np.ones(at.size), (at, index[at])), shape=(index.size, self.size))
            matrix = sp.csr_array(pick @ self.matrix)
        return FeatureTable(self.argument, index.size, numbers, categories, tags, matrix, self.whole)

    @property
    def names(self) -> list[str]:
        """Names of the features, without those of a sparse matrix."""
        return [*self.numbers, *self.categories, *self.tags]


def read_features(given: Any, size: int, labels: Sequence[Any] | None, argument: str, lane: str) -> FeatureTable:
    """Read the features of the ``size`` rows or columns of a table.

    ``labels`` are those of the table, None if it has none; ``lane`` is "row" or
    "column". Anything that does not fit is an ArgumentError of ``argument``.

    Examples
    --------
    >>> read_features({"Ann": {"age": 30, "likes": {"tea"}}}, 2, ["Bob", "Ann"], "row_features", "row").numbers
    {'age': array([nan, 30.])}
    """
    if isinstance(given, FeatureTable):
        return _as_long(given, size, lane)
    if isinstance(given, Mapping):
        return _from_mapping(given, labels, argument, lane)
    if sp.issparse(given):
        return _as_long(_from_sparse(given, argument), size, lane)
    frame = nw.from_native(given, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise ArgumentError(argument, given, f"{argument} is a query, not a table yet: call its collect() first")
    if not isinstance(frame, nw.DataFrame):
        return _as_long(_from_array(given, argument), size, lane)
    table = _from_frame(frame, argument)
    index = own_labels(nw.maybe_get_index(frame))
    if index is None or labels is None:
        return _as_long(table, size, lane)
    return table.take(_places(index, labels, argument, lane))


def refuse_features(*given: FeatureTable | None) -> None:
    """Refuse features, which the proximal method has no use for."""
    for one in given:
        if one is not None:
            told = f'{one.argument} belong to method="posterior": other methods have no use for them'
            raise ArgumentError(one.argument, one.size, told)


def own_labels(labels: Any) -> list[Any] | None:
    """Return labels as a list; None where there are none, or nothing but positions.

    Examples
    --------
    >>> own_labels(["a", "b"]), own_labels(range(3)), own_labels(None)
    (['a', 'b'], None, None)
    """
    if labels is None:
        return None
    out = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    return None if out == list(range(len(out))) else out


def _as_long(table: FeatureTable, size: int, lane: str) -> FeatureTable:
    if table.size != size:
        told = f"{table.argument} describes {table.size} {lane}s, the table has {size}: give one for each, in order"
        raise ArgumentError(table.argument, table.size, told)
    return table


def _places(index: list[Any], labels: Sequence[Any], argument: str, lane: str) -> NDArray[np.intp]:
    """Positions of the labels of a table in those of the features."""
    where = {label: place for place, label in enumerate(index)}
    if len(where) < len(index):
        again = next(label for place, label in enumerate(index) if where[label] != place)
        raise ArgumentError(argument, again, f"{argument} describes {again!r} twice: keep one line for each label")
    lost = [label for label in labels if label not in where]
    if lost:
        told = (
            f"{argument} lacks {len(lost)} {lane}(s) of the table, the first is {lost[0]!r}: give one for each label"
        )
        raise ArgumentError(argument, lost[0], f"{told}, or drop the index to go by position")
    return np.array([where[label] for label in labels], dtype=np.intp)


# ---------------------------------------------------------------- kinds of tables
def _from_mapping(given: Mapping[Any, Any], labels: Sequence[Any] | None, argument: str, lane: str) -> FeatureTable:
    """Features by label: a record, a set of tags, a list of numbers or a single value each."""
    if labels is None:
        told = f"{argument} goes by label, and the {lane}s of the table have none: give {lane}_labels to the table"
        raise ArgumentError(argument, type(given).__name__, f"{told}, or an array in its order")
    if not any(label in given for label in labels):
        told = f"{argument} has no label of the table: its first is {next(iter(given), None)!r}"
        raise ArgumentError(argument, None, f"{told}, the table's {labels[0]!r}; write both alike")
    rows = [given.get(label) for label in labels]
    some = [row for row in rows if row is not None]
    if all(isinstance(row, Mapping) for row in some):
        names = list(dict.fromkeys(str(name) for row in some for name in row))
        cells = [{} if row is None else {str(name): value for name, value in row.items()} for row in rows]
        columns = ((name, [row.get(name) for row in cells]) for name in names)
        return replace(_of_columns(argument, len(rows), columns), whole=False)
    if all(_is_vector(row) for row in some):
        width = max(len(row) for row in some)
        if any(len(row) != width for row in some):
            raise ArgumentError(
                argument, width, f"the lists of {argument} differ in length: give each {width} numbers"
            )
        lost = [None] * width
        return _from_array([lost if row is None else list(row) for row in rows], argument)
    return _of_columns(argument, len(rows), [("value", rows)])


def _is_vector(row: Any) -> bool:
    """Tell whether this is a list of numbers."""
    if not isinstance(row, Sequence | np.ndarray) or isinstance(row, str):
        return False
    return len(row) > 0 and not any(isinstance(one, str) for one in row)


def _from_sparse(given: Any, argument: str) -> FeatureTable:
    matrix = sp.csr_array(given).astype(np.float64)
    if not np.isfinite(matrix.data).all():
        raise ArgumentError(argument, np.nan, f"{argument} is sparse and holds NaN or ∞: leave such entries out")
    return FeatureTable(argument, matrix.shape[0], matrix=matrix)


def _from_array(given: Any, argument: str) -> FeatureTable:
    """Columns of an array; those of objects hold what they hold."""
    array = np.asarray(given)
    if array.dtype.kind in "OU" and not isinstance(given, np.ndarray):
        array = np.array([list(row) if _is_row(row) else [row] for row in given], dtype=object)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        told = f"{argument} must have two dimensions, one line for each unit, got shape {array.shape}"
        raise ArgumentError(argument, array.shape, told)
    size, width = array.shape
    if array.dtype.kind in "OU":
        return _of_columns(argument, size, ((str(j), list(array[:, j])) for j in range(width)))
    values = _numbers(given if np.ma.isMaskedArray(given) else array, f"{argument}", argument)
    values = values.reshape(size, width)
    return FeatureTable(argument, size, {str(j): values[:, j] for j in range(width)})


def _is_row(row: Any) -> bool:
    return isinstance(row, list | tuple | np.ndarray)


def _from_frame(frame: nw.DataFrame[Any], argument: str) -> FeatureTable:
    def cells(series: nw.Series[Any]) -> Any:
        if series.dtype.is_numeric() and series.null_count() < len(series):
            return as_float(series.cast(nw.Float64).to_numpy())
        return texts(series)

    columns = zip(frame.columns, frame.iter_columns(), strict=True)
    return _of_columns(argument, len(frame), ((str(name), cells(series)) for name, series in columns))


# ---------------------------------------------------------------- kinds of columns
def _of_columns(argument: str, size: int, columns: Iterable[tuple[str, Any]]) -> FeatureTable:
    """Sort columns by what they hold."""
    numbers, categories, tags = dict[str, Array](), dict[str, Objects](), dict[str, Objects]()
    for name, cells in columns:
        where = f"feature {name!r} of {argument}"
        if isinstance(cells, np.ndarray):
            numbers[name] = _numbers(cells, where, argument)
            continue
        some = [cell for cell in cells if not _is_nothing(cell)]
        if any(_is_tags(cell) for cell in some):
            tags[name] = _objects(cells, partial(_tags, where=where, argument=argument))
        elif any(isinstance(cell, str | bool | np.bool_) for cell in some):
            categories[name] = _objects(cells, str)
        elif any(isinstance(cell, date | np.datetime64) for cell in some):
            numbers[name] = np.array([np.nan if _is_nothing(cell) else _days(cell) for cell in cells])
        else:
            lost = [np.nan if _is_nothing(cell) else cell for cell in cells]
            numbers[name] = _numbers(np.array(lost, dtype=object), where, argument)
    return FeatureTable(argument, size, numbers, categories, tags)


def _numbers(cells: Any, where: str, argument: str) -> Array:
    try:
        out = as_float(cells, np.ndim(cells))
    except ValueError as err:
        raise ArgumentError(argument, None, f"{where} cannot be read: {err}") from None
    if np.isinf(out).any():
        raise ArgumentError(argument, np.inf, f"{where} holds ∞: write NaN where a number is not known")
    return out


def _is_tags(cell: Any) -> bool:
    return isinstance(cell, set | frozenset | list | tuple | np.ndarray)


def _is_nothing(cell: Any) -> bool:
    return cell is None or (not _is_tags(cell) and bool(is_missing(cell)))


def _objects(cells: Iterable[Any], read: Callable[[Any], Any]) -> Objects:
    found = [None if _is_nothing(cell) else read(cell) for cell in cells]
    out = np.empty(len(found), dtype=object)
    out[:] = found
    return out


def _tags(cell: Any, where: str, argument: str) -> frozenset[str]:
    if not _is_tags(cell) or not all(isinstance(tag, str) for tag in cell):
        told = f"{where} must hold sets or lists of text, got {cell!r}: give each number a column of its own"
        raise ArgumentError(argument, cell, told)
    return frozenset(cell)


def _days(cell: Any) -> float:
    """Days since the beginning of 1970."""
    if isinstance(cell, date) and not isinstance(cell, datetime):
        return float((cell - date(1970, 1, 1)).days)
    return float(np.datetime64(cell, "s").astype(np.int64)) / SECONDS_A_DAY
