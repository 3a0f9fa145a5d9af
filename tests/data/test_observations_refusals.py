"""Observations: what is wrong is named."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from snapimpute import Observations
from tests.data.cells import cells, full, quick, raises, triples


# ------------------------------------------------------------- errors: indices
@pytest.mark.parametrize("which", ["row", "column"])
@pytest.mark.parametrize("bad", [-1, 5, np.iinfo(np.int64).max, np.iinfo(np.int64).min])
def test_indices_out_of_range(which, bad):
    """An index below 0 or beyond the shape is refused: the first cell in the order given, and how many there are."""
    index = [4, bad, 2, -3]
    others = [0, 1, 2, 3]
    rows, cols = (index, others) if which == "row" else (others, index)
    cell = f"({bad}, 1)" if which == "row" else f"(1, {bad})"
    with raises(f"2 {which} index(es) outside 0..4, the first at cell {cell}:", "zero-based", "shape"):
        Observations.from_coo(rows, cols, [1, 1, 1, 1], (5, 5))


def test_huge_unsigned_indices_are_named_as_given():
    """An unsigned index beyond 63 bits is refused under its own number, not as the negative it would wrap to."""
    with raises("1 row index(es) outside 0..2, the first at cell (18446744073709551615, 1)"):
        Observations.from_coo(np.array([0, 2**64 - 1], dtype=np.uint64), [0, 1], [1, 1], (3, 3))
    with raises("shape must be positive and at most 2147483647 a side"):
        Observations.from_coo(np.array([0, 2**64 - 1], dtype=np.uint64), [0, 1], [1, 1])


@pytest.mark.parametrize(("rows", "cols", "cell"), [([-1, -2], [0, 1], "(-1, 0)"), ([0, 3], [-4, -1], "(0, -4)")])
def test_negative_indices_without_a_shape(rows, cols, cell):
    """Negative indices are named as such also where the shape is to be found from them."""
    with raises("2 ", " index(es) outside", f"the first at cell {cell}"):
        Observations.from_coo(rows, cols, [1, 1])


@pytest.mark.parametrize(
    "index",
    [
        [0.0, 1.0],
        np.array([0, 1], dtype=np.float32),
        [True, False],
        ["0", "1"],
        [0, None],
        np.array([0, 1], dtype=object),
        [0, 2**64],
        [0j, 1j],
        np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["rows", "cols"])
def test_indices_must_be_integers(name, index):
    """Floats, booleans, text and objects are no indices, even where they hold whole numbers; the type is named."""
    given_lists = {"rows": [0, 1], "cols": [0, 1], "values": [1, 1]} | {name: index}
    with raises(f"{name} must hold integers, got dtype {np.asarray(index).dtype}"):
        Observations.from_coo(**given_lists)


@pytest.mark.parametrize("name", ["rows", "cols"])
def test_masked_indices_are_refused(name):
    """A masked index is refused instead of read as whatever stands under the mask."""
    given_lists = {"rows": [0, 1], "cols": [0, 1], "values": [1, 1]} | {name: np.ma.array([0, 1], mask=[0, 1])}
    with raises(f"{name} must hold integers, got masked entries"):
        Observations.from_coo(**given_lists)


@pytest.mark.parametrize("name", ["rows", "cols"])
@pytest.mark.parametrize("index", [0, [[0, 1]], [[[0]]]])
def test_indices_must_be_flat(name, index):
    """A single number or a matrix of indices is refused with its shape."""
    given_lists = {"rows": [0, 1], "cols": [0, 1], "values": [1, 1]} | {name: index}
    with raises(f"{name} must be a flat list, got shape {np.shape(index)}"):
        Observations.from_coo(**given_lists)


@pytest.mark.parametrize("sizes", [(1, 2, 2), (2, 1, 2), (2, 2, 1), (0, 0, 1), (1, 0, 0)])
def test_lists_must_be_equally_long(sizes):
    """Lists of different lengths are refused with all three lengths, and nothing is broadcast."""
    r, c, v = sizes
    with raises(f"must be equally long, got {r}, {c} and {v} entries"):
        Observations.from_coo(*(np.zeros(k, dtype=int) for k in sizes))


@pytest.mark.parametrize(
    "shape", [(0, 2), (2, 0), (-1, 2), (2**31, 2), (2, 2**31)], ids=["0 rows", "0 cols", "-1", "rows", "cols"]
)
def test_shape_must_be_positive_and_fit(shape):
    """A side that is zero, negative or beyond 31 bits is refused."""
    with raises("shape must be positive and at most 2147483647 a side, got", repr(shape)):
        Observations.from_coo([0], [0], [1], shape)


@pytest.mark.parametrize("shape", [(2,), (2, 2, 2), 2, (2.5, 2), (2.0, 2.0), "ab", ("2", "2"), (None, 2)])
def test_shape_must_be_two_whole_numbers(shape):
    """A shape that is not two whole numbers is refused rather than truncated."""
    with raises("shape must be two whole numbers (rows, columns), got", repr(shape)):
        Observations.from_coo([0], [0], [1], shape)


def test_shape_may_hold_numpy_integers():
    """A shape of numpy integers, as computed from data, is taken and stored as plain integers."""
    shape = Observations.from_coo([0], [0], [1], (np.int64(3), np.uint8(2))).shape
    assert shape == (3, 2)
    assert all(type(side) is int for side in shape)


# -------------------------------------------------------------- errors: values
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_listed_values_must_be_finite(bad):
    """NaN or infinity among listed values is refused: first cell in the order given, and the count."""
    with raises(f"2 value(s) not finite, the first is {bad} at cell (3, 1)", "drop missing cells"):
        Observations.from_coo([4, 3, 0], [0, 1, 2], [1.0, bad, np.nan])


def test_dense_values_must_not_be_infinite():
    """In a matrix NaN is missing but infinity is an error, named in row order."""
    with raises("2 value(s) not finite, the first is -inf at cell (0, 2)"):
        Observations.from_dense([[np.nan, 1, -np.inf], [np.inf, 2, 3]])


def test_sparse_values_must_be_finite():
    """A NaN stored in a sparse matrix is refused: what is missing there is what is not stored."""
    with raises("1 value(s) not finite, the first is nan at cell (1, 0)"):
        Observations.from_sparse(sp.csr_array(np.array([[1.0, 0.0], [np.nan, 2.0]])))


def test_masked_values_are_not_read():
    """A masked value in a list counts as missing and is refused, instead of read from under the mask."""
    values = np.ma.array([1, 7, 3], mask=[0, 1, 0])
    with raises("1 value(s) not finite, the first is nan at cell (1, 0)"):
        Observations.from_coo([0, 1, 2], [0, 0, 0], values)
    with raises("1 value(s) not finite, the first is nan at cell (0, 1)"):
        full(1, 3).with_values(values)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["1", "2"], "got dtype <U1"),
        ([b"1", b"2"], "got dtype |S1"),
        ([1, "2"], "got dtype <U"),
        (np.array([1, "2"], dtype=object), "got the text '2'"),
        (pd.Series(["4", "5"]), "got"),
        ([1, 2j], "got dtype complex128"),
        (np.array([1, 2j], dtype=object), "complex"),
        (np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), "got dtype datetime64[D]"),
        (np.array([1, 2], dtype="m8[s]"), "got dtype timedelta64[s]"),
        (np.array([1, datetime.date(2020, 1, 1)], dtype=object), "date"),
        (np.array([1, [2]], dtype=object), "sequence"),
        ([[1], [2, 3]], "inhomogeneous"),
        ([1, 10**400], "too large"),
        ([{}, {}], "dict"),
    ],
)
def test_values_must_be_real_numbers(values, reason):
    """Text, dates, complex numbers and other objects are refused, also where numpy would convert them."""
    with raises("values must be real numbers, with NaN for missing: ", reason):
        Observations.from_coo([0, 1], [0, 1], values)


def test_dense_text_is_refused():
    """A matrix of text is refused with the first text found, even if the text reads as a number."""
    with raises("values must be real numbers", "got the text '4'"):
        Observations.from_dense(np.array([[1.0, "4"], [None, "5"]], dtype=object))


def test_pandas_na_in_a_list_is_refused_at_its_cell():
    """A missing object among listed values is refused like NaN, with its cell."""
    with raises("1 value(s) not finite, the first is nan at cell (1, 1)"):
        Observations.from_coo([0, 1], [0, 1], np.array([3, pd.NA], dtype=object))


@pytest.mark.parametrize("values", [3.0, [[1.0, 2.0]], None])
def test_listed_values_must_be_flat(values):
    """A number or a matrix where a list of values is due is refused with its shape."""
    with raises(f"expected a flat list of values, got {np.ndim(values)} dimension(s), shape {np.shape(values)}"):
        Observations.from_coo([0, 1], [0, 1], values)


@pytest.mark.parametrize("X", [3.0, [1.0, 2.0], np.zeros((2, 2, 2)), np.ma.array([1.0, 2.0], mask=[0, 1])])
def test_dense_input_must_be_two_dimensional(X):
    """A number, a vector and a cube are refused as matrices with their shape."""
    with raises(f"expected a two-dimensional array of values, got {np.ndim(X)} dimension(s), shape {np.shape(X)}"):
        Observations.from_dense(X)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_matrices_are_refused(shape):
    """A matrix without cells is refused with its shape, dense or sparse."""
    with raises(f"cannot complete an empty matrix of shape {shape}"):
        Observations.from_dense(np.empty(shape))
    with raises("no observed entry"):
        Observations.from_sparse(sp.csr_array(shape))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Observations.from_coo([], [], []),
        lambda: Observations.from_coo([], [], [], (3, 3)),
        lambda: Observations.from_dense(np.full((2, 2), np.nan)),
        lambda: Observations.from_dense(np.ma.masked_all((2, 2))),
        lambda: Observations.from_dense([[None, None]]),
        lambda: Observations.from_sparse(sp.csr_array((2, 2))),
    ],
    ids=["lists", "lists with shape", "all NaN", "all masked", "all None", "sparse"],
)
def test_nothing_observed_is_refused(make):
    """A matrix of which nothing is known is refused, however it is given."""
    with raises("no observed entry"):
        make()


# -------------------------------------------------------------- errors: sparse
def test_duplicates_name_the_first_repeat():
    """Cells given again are refused: the first repeat in the order given, its value, and the number of repeats."""
    with raises("3 duplicate cell(s), the first is (2, 1), given again with value 7:"):
        Observations.from_coo([2, 0, 2, 0, 0, 1], [1, 0, 1, 0, 0, 1], [5, 1, 7, 2, 3, 4])


@quick
@given(cells(min_size=2), st.data())
def test_duplicates_are_found_anywhere(given_cells, data):
    """Whatever cells are repeated, and wherever, the count and the first repeat are right."""
    rows, cols, values, shape = given_cells
    extra = data.draw(st.lists(st.integers(0, rows.size - 1), min_size=1, max_size=5))
    order = np.array(data.draw(st.permutations([*range(rows.size), *extra])))
    rows, cols, values = rows[order], cols[order], values[order]
    given_order = list(zip(rows.tolist(), cols.tolist(), strict=True))
    first = next(i for i, cell in enumerate(given_order) if cell in given_order[:i])
    with raises(f"{len(extra)} duplicate cell(s), the first is {given_order[first]}, given again"):
        Observations.from_coo(rows, cols, values, shape)


@pytest.mark.parametrize("kind", [sp.coo_array, sp.coo_matrix])
def test_duplicates_in_coo_are_not_summed(kind):
    """A COO matrix with a cell twice is refused, not summed as scipy does."""
    X = kind(([1.0, 2.0, 4.0], ([0, 1, 0], [1, 1, 1])), shape=(2, 2))
    with raises("1 duplicate cell(s), the first is (0, 1), given again with value 4"):
        Observations.from_sparse(X)


@pytest.mark.parametrize(("kind", "cell"), [(sp.csr_array, "(0, 2)"), (sp.csc_array, "(2, 0)")])
def test_duplicates_in_unsorted_compressed_matrices(kind, cell):
    """A CSR or CSC matrix with unsorted indices and a repeated cell is refused too."""
    X = kind((np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), np.array([0, 3, 3, 3])), shape=(3, 3))
    with raises(f"1 duplicate cell(s), the first is {cell}, given again with value 4"):
        Observations.from_sparse(X)


def test_unsorted_csr_is_sorted():
    """A CSR matrix with unsorted indices and no repeats gives sorted observations."""
    X = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    assert triples(Observations.from_sparse(X)) == [(0, 0, 2), (0, 2, 1), (1, 1, 3)]


@pytest.mark.parametrize("kind", [sp.lil_array, sp.dok_array])
def test_other_sparse_formats(kind):
    """The formats for building a matrix are read too."""
    X = kind((2, 3))
    X[0, 2], X[1, 0] = 5, 3
    assert triples(Observations.from_sparse(X)) == [(0, 2, 5), (1, 0, 3)]


@pytest.mark.parametrize(
    "X", [sp.dia_array(np.diag([0.0, 1.0])), sp.bsr_array(np.eye(4), blocksize=(2, 2))], ids=["dia", "bsr"]
)
def test_padded_formats_are_refused(X):
    """Formats whose stored zeros may be padding are refused, since a stored zero is an observation."""
    with raises(f"the {X.format} format cannot tell a stored zero from padding: give CSR, CSC or COO"):
        Observations.from_sparse(X)


@pytest.mark.parametrize("X", [[[1, 2]], np.eye(2), pd.DataFrame([[1]]), None])
def test_from_sparse_wants_sparse(X):
    """What is not a scipy sparse matrix is refused by its type."""
    with raises(f"expected a scipy sparse matrix or array, got {type(X).__name__}", error=TypeError):
        Observations.from_sparse(X)


def test_one_dimensional_sparse_arrays_are_refused():
    """A sparse vector is not a matrix."""
    with raises("expected a two-dimensional sparse array, got 1 dimension(s)"):
        Observations.from_sparse(sp.coo_array(np.array([1.0, 0.0, 2.0])))


@pytest.mark.parametrize("call", [Observations.from_dense, lambda X: Observations.from_coo([0], [0], X)])
def test_sparse_in_the_wrong_place_is_sent_to_from_sparse(call):
    """A sparse matrix where an array is due is refused with the name of the right function."""
    with raises("use Observations.from_sparse", error=TypeError):
        call(sp.eye_array(2))
