"""Observations: what goes in comes out, what is wrong is named, and splits are partitions."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from snapimpute import Alphabet, Observations

quick = settings(max_examples=50, deadline=None)  # a slow machine is no failure

INDEX_DTYPES = [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64, ">i4"]
VALUE_DTYPES = [np.int8, np.uint64, np.float16, np.float32, np.float64, ">f8"]
SPARSE = [sp.coo_array, sp.csr_array, sp.csc_array, sp.coo_matrix, sp.csr_matrix, sp.csc_matrix]


@st.composite
def cells(draw: st.DrawFn, min_size: int = 1, max_size: int = 25) -> tuple[Any, ...]:
    """Distinct cells of a small matrix in any order, values (often zero) and the shape."""
    m, n = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    flat = st.lists(st.integers(0, m * n - 1), min_size=min(min_size, m * n), max_size=max_size, unique=True)
    at = np.array(draw(flat))
    values = draw(st.lists(st.integers(-3, 3), min_size=at.size, max_size=at.size))
    return at // n, at % n, np.array(values, dtype=float), (m, n)


def dense(obs: Observations) -> np.ndarray:
    """The matrix with NaN where nothing was observed."""
    out = np.full(obs.shape, np.nan)
    out[obs.rows, obs.cols] = obs.values
    return out


def triples(obs: Observations) -> list[tuple[int, int, float]]:
    return list(zip(obs.rows.tolist(), obs.cols.tolist(), obs.values.tolist(), strict=True))


def full(m: int, n: int) -> Observations:
    """Every cell observed; the value of a cell is its position."""
    return Observations.from_dense(np.arange(m * n, dtype=float).reshape(m, n))


def raises(*parts: str, error: type[Exception] = ValueError) -> Any:
    """Expect an error whose message holds the parts, literally and in this order."""
    return pytest.raises(error, match=".*".join(re.escape(part) for part in parts))


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


# ------------------------------------------------------------------------ take
@quick
@given(cells(), st.data())
def test_take_by_mask_and_by_position_agree(given_cells, data):
    """A mask and its positions, in any order and integer type, give the same observations in stored order."""
    obs = Observations.from_coo(*given_cells)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(obs), max_size=len(obs))))
    assume(mask.any())
    positions = data.draw(st.permutations(np.flatnonzero(mask).tolist()))
    expected = [t for t, kept in zip(triples(obs), mask, strict=True) if kept]
    for index in (mask, mask.tolist(), positions, np.array(positions, dtype=np.uint64)):
        taken = obs.take(index)
        assert triples(taken) == expected
        assert taken.shape == obs.shape


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([], "no observation selected"),
        ([False] * 4, "no observation selected"),
        ([True, False], "the mask has shape (2,), expected (4,)"),
        ([[True, False], [True, False]], "the mask has shape (2, 2), expected (4,)"),
        ([0, 4, 1, -7], "2 position(s) outside 0..3, the first is 4"),
        ([1, -1], "1 position(s) outside 0..3, the first is -1"),
        ([2, 1, 2, 2], "positions must be distinct, got 2 again"),
        ([1.0, 2.0], "positions must hold integers, got dtype float64"),
        (["a"], "positions must hold integers, got dtype <U1"),
        ([[0, 1]], "positions must be a flat list, got shape (1, 2)"),
        (1, "positions must be a flat list, got shape ()"),
        (np.array([2**64 - 1], dtype=np.uint64), "the first is 18446744073709551615"),
    ],
    ids=str,
)
def test_take_refuses(index, message):
    """Nothing selected, a mask of another shape, and positions outside, repeated or no integers are refused."""
    with raises(message):
        full(2, 2).take(index)


# ----------------------------------------------------------------------- split
def assert_partition(obs: Observations, *parts: Observations) -> None:
    """Check that the parts are disjoint and together are all the observations."""
    assert sorted(t for part in parts for t in triples(part)) == triples(obs)
    assert {part.shape for part in parts} == {obs.shape}


@quick
@given(cells(min_size=2), st.floats(0.01, 0.99), st.integers(0, 2**32))
def test_split_is_a_partition_of_exact_size(given_cells, share, seed):
    """The two sides are disjoint, together everything, and the held-out side has the rounded share of the entries."""
    obs = Observations.from_coo(*given_cells)
    count = round(share * len(obs))
    assume(0 < count < len(obs))
    kept, held = obs.split(share, random_state=seed)
    assert len(held) == count
    assert_partition(obs, kept, held)
    again = obs.split(share, random_state=seed)
    assert triples(again[0]) == triples(kept)
    assert triples(again[1]) == triples(held)


@quick
@given(cells(min_size=4, max_size=40), st.integers(1, 99), st.integers(0, 2**32))
def test_split_by_row_holds_out_the_share_of_every_row(given_cells, percent, seed):
    """Each row gives exactly its share, rounded down, and keeps at least one entry."""
    obs = Observations.from_coo(*given_cells)
    counts = np.bincount(obs.rows, minlength=obs.shape[0])
    expected = counts * percent // 100
    assume(expected.any())
    kept, held = obs.split(percent / 100, per="row", random_state=seed)
    assert_partition(obs, kept, held)
    assert_array_equal(np.bincount(held.rows, minlength=obs.shape[0]), expected)
    assert set(kept.rows.tolist()) == set(obs.rows.tolist())
    again = obs.split(percent / 100, per="row", random_state=seed)
    assert triples(again[1]) == triples(held)


def test_split_by_row_is_exact_in_floating_point():
    """Of a row of 100 entries exactly the percentage is held out, also where share × 100 falls just short of it."""
    for percent in range(1, 100):
        kept, held = full(1, 100).split(percent / 100, per="row")
        assert (len(kept), len(held)) == (100 - percent, percent)


def test_split_by_row_always_keeps_one():
    """Even a share that rounds to the whole row leaves one entry in it."""
    kept, _ = full(3, 10).split(1 - 1e-12, per="row")
    assert np.bincount(kept.rows).tolist() == [1, 1, 1]


@pytest.mark.parametrize("per", ["entries", "row"])
def test_seeds_matter(per):
    """Different seeds give different splits, the default seed is 0, and every entry is held out under some seed."""
    obs = full(10, 10)
    held = [obs.split(0.3, per=per, random_state=seed)[1] for seed in range(40)]
    assert len({tuple(h.values.tolist()) for h in held}) == 40
    assert set(np.concatenate([h.values for h in held]).tolist()) == set(range(100))
    assert triples(obs.split(0.3, per=per)[1]) == triples(held[0])


def test_the_default_share_is_a_fifth():
    """Without arguments one entry in five is held out."""
    kept, held = full(10, 10).split()
    assert (len(kept), len(held)) == (80, 20)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, np.nan, np.inf])
def test_share_must_lie_between(share):
    """A share that is not strictly between 0 and 1 is refused and named."""
    with raises(f"share must lie between 0 and 1 (both excluded), got {share}"):
        full(4, 4).split(share)


@pytest.mark.parametrize("per", ["rows", "column", None, ""])
def test_unknown_ways_to_split_are_refused(per):
    """A way to split that does not exist is refused with those that do."""
    with raises(f'per must be "entries" or "row", got {per!r}'):
        full(4, 4).split(0.5, per=per)


@pytest.mark.parametrize(
    ("share", "per", "obs"),
    [(0.1, "entries", (2, 2)), (0.95, "entries", (2, 2)), (0.2, "row", (5, 4)), (0.5, "row", (5, 1))],
)
def test_empty_sides_are_refused(share, per, obs):
    """A split that would leave one side empty is refused with the share, the number of entries and the way."""
    count = obs[0] * obs[1]
    with raises(f"a share of {share} of {count} entries ({per}) leaves one side empty"):
        full(*obs).split(share, per=per)


# ----------------------------------------------------------------------- kfold
@quick
@given(cells(min_size=4), st.data())
def test_kfold_holds_out_every_entry_once(given_cells, data):
    """The folds partition the entries, sizes differ by at most one, and each kept side is the rest."""
    obs = Observations.from_coo(*given_cells)
    assume(len(obs) >= 2)
    k = data.draw(st.integers(2, len(obs)))
    pairs = list(obs.kfold(k, random_state=data.draw(st.integers(0, 2**32))))
    assert len(pairs) == k
    assert_partition(obs, *(held for _, held in pairs))
    for kept, held in pairs:
        assert_partition(obs, kept, held)
    sizes = [len(held) for _, held in pairs]
    assert max(sizes) - min(sizes) <= 1


def test_kfold_is_seeded():
    """The same seed gives the same folds, another seed others; five folds and seed 0 are the default."""
    obs = full(6, 6)

    def folds(**options):
        return [triples(held) for _, held in obs.kfold(**options)]

    assert folds() == folds(k=5, random_state=0)
    assert folds() != folds(random_state=1)


@pytest.mark.parametrize("k", [-1, 0, 1, 5])
def test_kfold_wants_a_possible_number(k):
    """Fewer than two folds or more folds than entries are refused at the call, before the first fold is asked for."""
    with raises(f"k must be between 2 and the number of observed entries (4), got {k}"):
        full(2, 2).kfold(k)


def test_below_moves_cells_down():
    """The same values, so many rows further down."""
    moved = Observations.from_dense([[1, np.nan], [np.nan, 2]]).below(3)
    assert moved.shape == (5, 2)
    assert list(zip(moved.rows.tolist(), moved.cols.tolist(), moved.values.tolist(), strict=True)) == [
        (3, 0, 1.0),
        (4, 1, 2.0),
    ]
