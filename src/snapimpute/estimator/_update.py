"""More data for a fitted model: further cells, rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.data.cells import coded
from snapimpute.data.checks import Labels, as_index, check_labels, on_symbols
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema


def new_cells(
    book: ColumnSchema, rows: ArrayLike, cols: ArrayLike, values: ArrayLike, *, may_grow: bool
) -> Observations:
    """Cells as numbers, checked against the alphabet of their columns, which may be new if the table ``may_grow``."""
    given = np.atleast_1d(np.asarray(values))
    r, c = (as_index(np.atleast_1d(one), name) for one, name in ((rows, "rows"), (cols, "cols")))
    if not r.shape == c.shape == given.shape:
        raise ValueError(f"rows, cols and values must be of one length, got {r.size}, {c.size} and {given.size}")
    new = int(c.max()) >= book.which.size
    if new and (book.one is None or not may_grow):
        raise ValueError(
            f"column {int(c.max())} is new, which takes a table whose columns have no names and one alphabet: "
            f"fit again"
        )
    if not new and (alone := np.flatnonzero(book.which[c] < 0)).size:
        raise ValueError(f"column {c[alone[0]]} was left alone by the fit, so it takes no values")
    numbers = np.full(given.shape, np.nan)
    for kind, alphabet in enumerate(book.kinds):
        inside = book.inside(kind, c)
        if not numbers[inside].size:  # labels of other columns are no numbers
            continue
        numbers[inside] = coded(given[inside], alphabet)
        if alphabet is not None:
            numbers[inside] = on_symbols(alphabet, r[inside], c[inside], numbers[inside])
    return Observations.from_coo(r, c, numbers)


def merged(old: Observations, new: Observations) -> Observations:
    """All cells of both, in a table that holds both; what is new takes the place of what is old.

    Examples
    --------
    >>> old, new = Observations.from_dense([[1, 2]]), Observations.from_coo([0, 1], [0, 2], [5, 6])
    >>> merged(old, new).to_sparse().toarray()
    array([[5., 2., 0.],
           [0., 0., 6.]])
    """
    m, n = (max(sides) for sides in zip(old.shape, new.shape, strict=True))
    rows, cols = (np.append(*both).astype(np.int64) for both in ((new.rows, old.rows), (new.cols, old.cols)))
    _, first = np.unique(rows * n + cols, return_index=True)
    values = np.append(new.values, old.values)
    return Observations.from_coo(rows[first], cols[first], values[first], (m, n))


def grown_labels(
    labels: NDArray[Any] | None, given: Labels | None, old: int, new: int, lane: str
) -> NDArray[Any] | None:
    """Return the labels of a table that grew from ``old`` to ``new`` rows or columns; None if it never had any.

    Examples
    --------
    >>> grown_labels(np.array(["Ann", "Bob"]), None, 2, 3, "row").tolist()
    ['Ann', 'Bob', 'row 2']
    """
    argument = f"{lane[:3]}_labels"
    if given is not None and len(given) != new - old:
        raise ArgumentError.must(argument, list(given), f"hold {new - old} label(s), one for each new {lane}")
    if given is None and (labels is None or new == old):
        return labels
    known = _generated(lane, 0, old) if labels is None else labels.tolist()
    more = _generated(lane, old, new) if given is None else np.asarray(given).tolist()
    if given is None and (taken := set(known) & set(more)):
        raise ValueError(f"the label {min(taken)!r} is taken, so a new {lane} cannot have it: give {argument}=")
    return check_labels([*known, *more], new, argument)


def _generated(lane: str, start: int, stop: int) -> list[str]:
    """Names by position, as the report gives them."""
    return [f"{lane} {i}" for i in range(start, stop)]
