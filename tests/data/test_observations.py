"""Observations: what goes in comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from snapimpute import Alphabet, Observations
from tests.data.cells import INDEX_DTYPES, SPARSE, VALUE_DTYPES, cells, dense, full, quick, raises, triples


# ---------------------------------------------------------------- round trips
@quick
@given(cells(), st.sampled_from(INDEX_DTYPES), st.sampled_from([np.int8, np.float32, np.float64, ">f8"]))
def test_coo_is_sorted_and_kept(given_cells, index_dtype, value_dtype):
    """Cells in any order and of any integer and real type come out sorted by row, then column."""
    rows, cols, values, shape = given_cells
    obs = Observations.from_coo(rows.astype(index_dtype), cols.astype(index_dtype), values.astype(value_dtype), shape)
    assert triples(obs) == sorted(zip(rows.tolist(), cols.tolist(), values.tolist(), strict=True))
    assert (obs.rows.dtype, obs.cols.dtype, obs.values.dtype) == (np.int32, np.int32, np.float64)
    assert obs.shape == shape
    assert len(obs) == rows.size
    assert obs.density == pytest.approx(rows.size / (shape[0] * shape[1]))


@quick
@given(cells())
def test_dense_masked_and_sparse_agree_with_coo(given_cells):
    """The same cells given dense, masked (with or without NaN under the mask) or sparse are the same observations."""
    expected = Observations.from_coo(*given_cells)
    X = dense(expected)
    missing = np.isnan(X)
    junk = np.where(missing, np.inf, X)
    csr = expected.to_sparse()
    others = [
        Observations.from_dense(X),
        Observations.from_dense(X.tolist()),
        Observations.from_dense(np.asfortranarray(X)),
        Observations.from_dense(np.ma.masked_invalid(X)),
        Observations.from_dense(np.ma.array(junk, mask=missing)),
        Observations.from_dense(np.ma.array(X, mask=False)),
        Observations.from_dense(pd.DataFrame(X)),
        Observations.from_dense(np.where(missing, None, X)),
        *[Observations.from_sparse(kind(csr)) for kind in SPARSE],
    ]
    for other in others:
        assert triples(other) == triples(expected)
        assert other.shape == expected.shape


@quick
@given(cells(), st.sampled_from(SPARSE))
def test_stored_zeros_are_observations(given_cells, kind):
    """Every stored zero of a sparse matrix is observed, and `to_sparse` stores it again."""
    rows, cols, values, shape = given_cells
    X = kind(sp.coo_array((np.zeros_like(values), (rows, cols)), shape=shape))
    assert X.nnz == rows.size, "scipy kept the zeros, so the test is about ours"
    obs = Observations.from_sparse(X)
    assert obs.values.tolist() == [0.0] * rows.size
    assert obs.to_sparse().nnz == rows.size


@pytest.mark.parametrize("dtype", VALUE_DTYPES)
def test_value_types(dtype):
    """Values of every real type are read as float64."""
    obs = Observations.from_coo([0, 0], [0, 1], np.array([0, 3], dtype=dtype))
    assert obs.values.dtype == np.float64
    assert obs.values.dtype.isnative
    assert obs.values.tolist() == [0, 3]


def test_booleans_are_zero_and_one():
    """Links given as booleans are observed zeros and ones."""
    assert Observations.from_dense(np.array([[True, False]])).values.tolist() == [1, 0]
    assert Observations.from_coo([0, 1], [0, 0], [False, True]).values.tolist() == [0, 1]
    assert Observations.from_sparse(sp.csr_array(np.array([[True, False]]))).values.tolist() == [1]


def test_the_shape_is_taken_from_the_largest_indices():
    """Without a shape the matrix is just large enough for its cells."""
    assert Observations.from_coo([4, 0], [0, 2], [1, 1]).shape == (5, 3)


def test_rows_and_columns_may_be_empty():
    """A given shape may leave rows and columns without any entry."""
    obs = Observations.from_coo([1], [1], [5.0], (4, 3))
    assert obs.shape == (4, 3)
    assert np.diff(obs.by_row.indptr).tolist() == [0, 1, 0, 0]
    assert np.diff(obs.by_col.indptr).tolist() == [0, 1, 0]


def test_large_sides_do_not_overflow():
    """Positions near the largest side are ordered right although rows × columns exceeds 32 bits."""
    side = np.iinfo(np.int32).max
    obs = Observations.from_coo(
        np.array([side - 1, 0, side - 1], dtype=np.int32),
        np.array([side - 1, 7, 0], dtype=np.uint64),
        [1, 2, 3],
        (side, side),
    )
    assert triples(obs) == [(0, 7, 2), (side - 1, 0, 3), (side - 1, side - 1, 1)]


def test_small_index_types_do_not_overflow():
    """Indices in eight bits are ordered right in a matrix with more cells than eight bits count."""
    at = np.random.default_rng(0).permutation(120 * 120)
    obs = Observations.from_coo((at // 120).astype(np.int8), (at % 120).astype(np.uint8), at)
    assert_array_equal(obs.values, np.arange(120 * 120))


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([None, 2], dtype="Int64")}),
        np.array([[1, pd.NA], [pd.NA, 2]], dtype=object),
        np.array([[1, None], [np.nan, 2.0]], dtype=object),
        np.ma.array([[1, "x"], [None, 2]], mask=[[0, 1], [0, 0]], dtype=object).filled(np.nan),
    ],
    ids=["nullable frame", "NA objects", "None and NaN objects", "filled objects"],
)
def test_missing_objects_are_missing(X):
    """None, NaN and pandas' NA among Python objects are missing cells, not errors and not numbers."""
    assert triples(Observations.from_dense(X)) == [(0, 0, 1), (1, 1, 2)]


def test_repr():
    """The shape, the number of entries and their share are shown."""
    assert repr(full(2, 3)) == "Observations(2×3, 6 observed = 100 %)"
    assert repr(Observations.from_coo([0], [0], [1], (3, 1000))) == "Observations(3×1000, 1 observed = 0.0333 %)"


# --------------------------------------------------------- the caller's arrays
def writable(*arrays: Any) -> bool:
    return all(a.flags.writeable for a in arrays)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]], ids=["sorted", "unsorted"])
def test_input_arrays_are_copied(order):
    """The caller's arrays stay as they are, stay writable, and writing to them later changes no observation."""
    rows = np.array([0, 0, 1, 1], dtype=np.int32)[order]
    cols = np.array([0, 1, 0, 1], dtype=np.int32)[order]
    values = np.array([1.0, 2.0, 3.0, 4.0])[order]
    row_labels, col_labels = np.array(["a", "b"]), np.array([10, 20])
    arrays = (rows, cols, values, row_labels, col_labels)
    before = [a.copy() for a in arrays]
    for alphabet in (None, "1:4"):
        obs = Observations.from_coo(
            rows, cols, values, alphabet=alphabet, row_labels=row_labels, col_labels=col_labels
        )
        assert writable(*arrays)
        for array, copy in zip(arrays, before, strict=True):
            assert_array_equal(array, copy)
        mine = (obs.rows, obs.cols, obs.values, obs.row_labels, obs.col_labels)
        assert not any(np.shares_memory(a, b) for a, b in zip(arrays, mine, strict=True))


def test_dense_and_sparse_input_is_copied():
    """Neither a dense nor a sparse input shares memory with the observations, is changed or is frozen."""
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    masked = np.ma.array(X.copy(), mask=[[0, 1], [0, 0]])
    csr = sp.csr_array(X)
    coo = csr.tocoo()
    unsorted = sp.csr_array((np.array([2.0, 1.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    Observations.from_dense(masked)
    Observations.from_sparse(unsorted)
    assert masked.data.tolist() == X.tolist()
    assert masked.mask.tolist() == [[False, True], [False, False]]
    assert unsorted.indices.tolist() == [1, 0]
    for obs in (Observations.from_dense(X), Observations.from_sparse(csr), Observations.from_sparse(coo)):
        for theirs in (X, csr.data, csr.indices, csr.indptr, coo.data, *coo.coords):
            assert not any(np.shares_memory(theirs, mine) for mine in (obs.rows, obs.cols, obs.values))
    assert writable(X, masked.data, csr.data, csr.indices, csr.indptr, coo.data, *coo.coords)


def test_with_values_and_take_copy_their_input():
    """The values and positions given to `with_values` and `take` are neither frozen nor shared nor sorted."""
    obs = full(2, 2)
    values, positions = np.array([9.0, 8.0, 7.0, 6.0]), np.array([2, 0])
    other = obs.with_values(values)
    obs.take(positions)
    values[0] = -1.0
    assert other.values.tolist() == [9, 8, 7, 6]
    assert positions.tolist() == [2, 0]
    assert writable(values, positions)


MAKERS: dict[str, Callable[[], Observations]] = {
    "from_coo": lambda: Observations.from_coo([1, 0], [0, 0], [1, 2], row_labels=[5, 6], col_labels=["a"]),
    "from_dense": lambda: Observations.from_dense([[1.0, 2.0]], row_labels=["r"], col_labels=["a", "b"]),
    "alphabet": lambda: Observations.from_dense([[1, 2]], alphabet="1:2", row_labels=[0], col_labels=[0, 1]),
    "from_sparse": lambda: Observations.from_sparse(
        sp.eye_array(2, format="csr"), row_labels=[0, 1], col_labels=[0, 1]
    ),
    "with_values": lambda: MAKERS["from_dense"]().with_values([5.0, 6.0]),
    "take": lambda: MAKERS["from_dense"]().take([1]),
    "split": lambda: MAKERS["from_dense"]().split(0.5)[1],
}


@pytest.mark.parametrize("name", MAKERS)
def test_arrays_are_read_only(name):
    """However observations are made, none of their arrays can be written, the cached ones included."""
    obs = MAKERS[name]()
    arrays = [obs.rows, obs.cols, obs.values, obs.row_labels, obs.col_labels, *obs.by_row, *obs.by_col]
    for array in arrays:
        if array is not None:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = array[0]
    with pytest.raises(AttributeError, match="cannot assign"):
        obs.values = np.zeros(2)


# ---------------------------------------------------------------------- labels
def test_labels_are_kept():
    """Labels of any kind are kept in order, through `take`, `with_values`, `on_alphabet` and `split`."""
    obs = Observations.from_dense([[1, 2], [3, 4]], row_labels=["u", "v"], col_labels=pd.Index([10, 20]))
    held = obs.split(0.5)[1]
    for other in (obs, obs.take([0]), obs.with_values([4, 3, 2, 1]), obs.on_alphabet("1:4"), held):
        assert other.row_labels.tolist() == ["u", "v"]
        assert other.col_labels.tolist() == [10, 20]
    assert full(2, 2).row_labels is None
    assert full(2, 2).col_labels is None


@pytest.mark.parametrize("make", ["from_dense", "from_sparse"])
def test_every_constructor_takes_labels(make):
    """Dense and sparse input take labels and an alphabet like lists do."""
    X = np.array([[1.0, 2.0]])
    X = sp.csr_array(X) if make == "from_sparse" else X
    obs = getattr(Observations, make)(X, alphabet="1:2", row_labels=["r"], col_labels=["a", "b"])
    assert obs.row_labels.tolist() == ["r"]
    assert obs.col_labels.tolist() == ["a", "b"]
    with raises("1 value(s) not in Alphabet([1, 3]), the first is 2 at cell (0, 1)"):
        getattr(Observations, make)(X, alphabet="1,3")


@pytest.mark.parametrize("labels", [[1, "a"], ["a", 1.5], ["x", None]])
def test_mixed_labels_keep_their_types(labels):
    """Numbers among text labels stay numbers."""
    obs = Observations.from_coo([0], [0], [1], (2, 2), row_labels=labels, col_labels=tuple(labels))
    assert obs.row_labels.tolist() == labels
    assert obs.col_labels.tolist() == labels


@pytest.mark.parametrize("name", ["row_labels", "col_labels"])
@pytest.mark.parametrize("labels", [["a"], ["a", "b", "c"], "ab", 5, [["a", "b"]], []])
def test_labels_must_be_one_each(name, labels):
    """Too few or too many labels, a single text or a table are refused with the number wanted and the shape given."""
    with raises(f"{name} must hold 2 labels, got shape {np.shape(labels)}"):
        Observations.from_coo([0], [0], [1], (2, 2), **{name: labels})


# --------------------------------------------------------------------- reading
@quick
@given(cells())
def test_by_row_and_by_col_agree_with_scipy(given_cells):
    """The two compressed views are scipy's CSR and CSC: pointers, indices, and the values through `order`."""
    rows, cols, values, shape = given_cells
    obs = Observations.from_coo(rows, cols, values, shape)
    coo = sp.coo_array((values, (rows, cols)), shape=shape)
    for view, expected in ((obs.by_row, coo.tocsr()), (obs.by_col, coo.tocsc())):
        expected.sort_indices()
        assert_array_equal(view.indptr, expected.indptr)
        assert_array_equal(view.indices, expected.indices)
        assert_array_equal(obs.values if view.order is None else obs.values[view.order], expected.data)
        assert (view.indptr.dtype, view.indices.dtype) == (np.int64, np.int32)
    assert obs.by_row.order is None
    assert obs.by_col.order.dtype == np.int32


def test_views_are_computed_once():
    """The compressed views are cached."""
    obs = full(2, 3)
    assert obs.by_row is obs.by_row
    assert obs.by_col is obs.by_col


@quick
@given(cells())
def test_to_sparse_round_trip(given_cells):
    """`to_sparse` gives a CSR array with one stored entry for each observation, which reads back the same."""
    rows, cols, values, shape = given_cells
    obs = Observations.from_coo(rows, cols, values, shape)
    X = obs.to_sparse()
    assert isinstance(X, sp.csr_array)
    assert X.nnz == len(obs)
    assert_array_equal(X.toarray(), sp.coo_array((values, (rows, cols)), shape=shape).toarray())
    assert triples(Observations.from_sparse(X)) == triples(obs)


def test_to_sparse_gives_arrays_of_its_own():
    """The sparse array may be changed in place without touching the observations."""
    obs = full(2, 2)
    X = obs.to_sparse()
    X.data[:] = 9.0
    X.indices[:] = X.indices[::-1].copy()
    X.indptr[1] = 1
    assert triples(obs) == triples(full(2, 2))
    assert obs.by_row.indptr.tolist() == [0, 2, 4]


def test_with_values_keeps_the_cells():
    """Other values on the same cells, in stored order; the cells are shared, not copied."""
    obs = Observations.from_coo([1, 0], [0, 1], [5, 6], (3, 3))
    other = obs.with_values([10, 20])
    assert triples(other) == [(0, 1, 10), (1, 0, 20)]
    assert triples(obs) == [(0, 1, 6), (1, 0, 5)]
    assert other.rows is obs.rows
    assert other.shape == (3, 3)


@pytest.mark.parametrize("values", [[1.0], [1.0] * 5, []])
def test_with_values_wants_one_for_each_cell(values):
    """A different number of values is refused with both numbers, and one value is not broadcast."""
    with raises(f"expected 4 values, one for each observed cell, got shape ({len(values)},)"):
        full(2, 2).with_values(values)


def test_with_values_refuses_what_is_not_finite():
    """NaN and infinity are refused as values, with the first cell and the count."""
    with raises("2 value(s) not finite, the first is inf at cell (0, 1)"):
        full(2, 2).with_values([1, np.inf, 2, np.nan])


# -------------------------------------------------------------------- alphabet
def test_on_alphabet_removes_rounding_error():
    """Values within rounding error of a symbol, as float32 data are, come out exactly on it."""
    values = np.array([0.1, 0.3, 0.7], dtype=np.float32)
    obs = Observations.from_coo([0, 0, 0], [0, 1, 2], values)
    assert obs.on_alphabet("0.1:1:0.1").values.tolist() == [0.1, 0.3, 0.7]
    assert obs.on_alphabet(Alphabet.of("0.1:1:0.1")).values.tolist() == [0.1, 0.3, 0.7]
    assert Observations.from_coo([0, 0, 0], [0, 1, 2], values, alphabet="0.1:1:0.1").values.tolist() == [
        0.1,
        0.3,
        0.7,
    ]


def test_values_off_the_alphabet_are_named_in_the_order_given():
    """The first value off the alphabet is the first in the caller's order, not the sorted one; all are counted."""
    with raises("2 value(s) not in Alphabet([1, 2, 3, 4, 5]), the first is 7 at cell (2, 0)", "the alphabet"):
        Observations.from_coo([1, 2, 0], [0, 0, 0], [5, 7, 9], alphabet="1:5")


def test_on_alphabet_names_the_first_in_stored_order():
    """Checked later, the first is the first of the stored order."""
    with raises("2 value(s) not in Alphabet([1, 2, 3, 4, 5]), the first is 9 at cell (0, 0)"):
        Observations.from_coo([1, 2, 0], [0, 0, 0], [5, 7, 9]).on_alphabet("1:5")


def test_a_value_just_off_the_alphabet_is_shown_with_its_digits():
    """A value near a symbol is shown so that the difference can be seen."""
    with raises("the first is 2.999994 at cell (0, 0)"):
        Observations.from_coo([0], [0], [2.999994], alphabet="1:5")


def test_a_bad_alphabet_is_refused():
    """An alphabet that cannot be read is refused as the alphabet would be."""
    with raises("alphabet range '5:1' must rise"):
        full(2, 2).on_alphabet("5:1")
