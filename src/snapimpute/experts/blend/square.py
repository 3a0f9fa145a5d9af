"""Square tables: rows and columns are the same things, and a cell may be its mirror."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema

Form = Literal["no", "directed", "symmetric"]

MIRRORED = 0.99
"""Share of the known cells beside the diagonal whose mirrors are known, and the same, in a symmetric table."""

LEAST_TRIANGLE = 10
"""Known cells, all on one side of the diagonal, from which a square table counts as one half of a symmetric one."""


def form_of(observations: Observations, schema: ColumnSchema, asked: object = "auto") -> Form:
    """Return the form of a table: square where its labels say so, or the user does.

    Examples
    --------
    >>> table = Observations.from_dense([[np.nan, 1, 0], [1, np.nan, 1], [0, 1, np.nan]])
    >>> form_of(table, ColumnSchema.read([0, 1], 3)), form_of(table, ColumnSchema.read([0, 1], 3), True)
    ('no', 'symmetric')
    """
    if asked not in (True, False, "auto"):
        raise ArgumentError.must("square", asked, 'be True, False or "auto"')
    m, n = observations.shape
    fits = m == n and m > 1 and schema.one is not None
    if asked is True and not fits:
        why = f"the table is of {m}×{n}" if m != n or m < 2 else "its columns differ in kind"
        raise ArgumentError("square", asked, f"square=True needs as many rows as columns, all of one kind: {why}")
    if not fits or asked is False or (asked == "auto" and not _same_labels(observations)):
        return "no"
    return "symmetric" if is_symmetric(observations) else "directed"


def is_symmetric(observations: Observations) -> bool:
    """Tell whether a cell and its mirror are one cell: the same where both are known, as nearly all are."""
    cell, mirror = _places(observations)
    beside = cell != mirror
    if not beside.any():
        return False
    there, same = _mirrored(observations)
    if not there[beside].any():
        upper = observations.rows[beside] < observations.cols[beside]
        return bool((upper.all() or not upper.any()) and beside.sum() >= LEAST_TRIANGLE)
    return bool(same[there].all() and there[beside].mean() >= MIRRORED)


def mirrored(observations: Observations) -> Observations:
    """Return a symmetric table with the mirrors of all known cells."""
    missing = ~_mirrored(observations)[0]
    if not missing.any():
        return observations
    rows = np.append(observations.rows, observations.cols[missing])
    cols = np.append(observations.cols, observations.rows[missing])
    values = np.append(observations.values, observations.values[missing])
    return Observations.from_coo(
        rows,
        cols,
        values,
        observations.shape,
        row_labels=observations.row_labels,
        col_labels=observations.col_labels,
    )


def _same_labels(observations: Observations) -> bool:
    rows, cols = observations.row_labels, observations.col_labels
    return rows is not None and cols is not None and bool(np.array_equal(rows, cols))


def _places(observations: Observations) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the known cells, row by row, and those of their mirrors."""
    side, rows, cols = np.int64(observations.shape[1]), observations.rows, observations.cols
    return rows * side + cols, cols * side + rows


def _mirrored(observations: Observations) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell for each known cell whether its mirror is known, and whether it has the same value."""
    cell, mirror = _places(observations)
    place = np.minimum(np.searchsorted(cell, mirror), cell.size - 1)
    there: NDArray[np.bool_] = cell[place] == mirror
    return there, there & (observations.values[place] == observations.values)
