"""Square tables: which are, which are symmetric, and the mirrors of known cells."""

from __future__ import annotations

import numpy as np
import pytest

from snapimpute import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.blend.square import form_of, is_symmetric, mirrored

NAN = np.nan
SCHEMA = ColumnSchema.read([0, 1], 12)


def table(symmetric: bool, *, labels: bool = True, seed: int = 0) -> Observations:
    rng = np.random.default_rng(seed)
    X = (rng.random((12, 12)) < 0.4).astype(float)
    hidden = rng.random((12, 12)) < 0.3
    if symmetric:
        X, hidden = np.triu(X, 1) + np.triu(X, 1).T, np.triu(hidden, 1) | np.triu(hidden, 1).T
    X[hidden] = NAN
    names = [f"n{i}" for i in range(12)] if labels else None
    return Observations.from_dense(X, row_labels=names, col_labels=names)


@pytest.mark.parametrize(
    ("symmetric", "labels", "asked", "form"),
    [
        (True, True, "auto", "symmetric"),
        (False, True, "auto", "directed"),
        (True, False, "auto", "no"),
        (True, False, True, "symmetric"),
        (False, False, True, "directed"),
        (True, True, False, "no"),
    ],
)
def test_labels_or_the_user_say_that_a_table_is_square(symmetric, labels, asked, form):
    """Equal labels of rows and columns are enough; the user overrides them; symmetry is seen in the cells."""
    assert form_of(table(symmetric, labels=labels), SCHEMA, asked) == form


@pytest.mark.parametrize(
    ("cells", "schema", "message"),
    [
        (Observations.from_dense(np.ones((3, 4))), ColumnSchema.read([0, 1], 4), "the table is of 3×4"),
        (
            Observations.from_dense(np.ones((2, 2))),
            ColumnSchema.of({0: [0, 1], 1: None}, 2),
            "its columns differ in kind",
        ),
    ],
)
def test_what_cannot_be_square_is_refused(cells, schema, message):
    """The error says why."""
    with pytest.raises(ValueError, match=message):
        form_of(cells, schema, True)
    assert form_of(cells, schema, "auto") == "no"


def test_one_half_of_a_symmetric_table_is_enough():
    """Where only one side of the diagonal is known, the mirrors follow from it."""
    whole = table(True)
    upper = whole.take(whole.rows < whole.cols)
    assert is_symmetric(upper)
    filled = mirrored(upper)
    off = whole.take(whole.rows != whole.cols)
    np.testing.assert_array_equal(filled.to_sparse().toarray(), off.to_sparse().toarray())
    assert mirrored(filled) is filled


def test_one_cell_that_differs_from_its_mirror_makes_a_table_directed():
    """A single contradiction is no symmetry."""
    whole = table(True)
    values = whole.values.copy()
    place = np.flatnonzero(whole.rows < whole.cols)[0]
    values[place] = 1 - values[place]
    assert not is_symmetric(whole.with_values(values))


def test_nothing_but_a_diagonal_is_not_symmetric():
    """A diagonal has no mirrors to compare."""
    assert not is_symmetric(Observations.from_dense(np.where(np.eye(5) > 0, 1.0, NAN)))
