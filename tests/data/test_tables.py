"""Arrays and sparse matrices are read cell by cell and come back as the same kind, observed cells untouched."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from snapimpute import Alphabet
from snapimpute.data import tables
from snapimpute.data.cells import holds, smallest_dtype
from snapimpute.data.tables import MAX_FILLED_CELLS, SparseTable, read_table
from tests.data.filling import BITS, HALVES, NAN, STARS, TABLE, as_floats, expected, fill, pattern


# -------------------------------------------------------------------- numpy
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_float_arrays_keep_dtype_and_order(dtype, order):
    """A float array comes back with its dtype and memory order; the one given is not changed."""
    X = np.array(TABLE, dtype=dtype, order=order)
    given = X.copy()
    out = fill(X)
    assert type(out) is np.ndarray
    assert out.dtype == X.dtype
    assert out.flags[f"{order}_CONTIGUOUS"]
    np.testing.assert_array_equal(out, expected(TABLE))
    np.testing.assert_array_equal(X, given)
    assert not np.shares_memory(out, X)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64"])
def test_integer_arrays_have_nothing_to_fill(dtype):
    """Without missing cells an array comes back as it is, whatever the alphabet could need."""
    X = np.array([[1, 0], [0, 1]], dtype=dtype)
    out = fill(X, Alphabet.of("0,0.5,1"))
    assert out.dtype == X.dtype
    assert out is not X
    np.testing.assert_array_equal(out, X)


@pytest.mark.parametrize(
    ("dtype", "alphabet", "becomes"),
    [
        ("float32", STARS, "float32"),
        ("int8", STARS, "int8"),
        ("uint8", STARS, "uint8"),
        ("int64", HALVES, "float64"),
        ("uint8", Alphabet.of("-1,1,2,4,5"), "float64"),
    ],
)
def test_masked_arrays_come_back_plain(dtype, alphabet, becomes):
    """What is under a mask is missing; the result is a plain array whose dtype holds every symbol."""
    mask = np.isnan(TABLE)
    X = np.ma.masked_array(np.where(mask, 77, TABLE).astype(dtype), mask)
    out = fill(X, alphabet)
    assert type(out) is np.ndarray
    assert out.dtype == becomes
    np.testing.assert_array_equal(out, expected(TABLE, alphabet))


def test_masked_floats_may_have_nan_as_well():
    """A cell is missing if it is masked or NaN."""
    X = np.ma.masked_array([[1.0, NAN], [9.0, 2.0]], [[False, False], [True, False]])
    np.testing.assert_array_equal(fill(X), expected(np.array([[1, NAN], [NAN, 2]])))


@pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT])
def test_lists_and_objects_become_floats(missing):
    """Nested lists and object arrays take None, NaN and what pandas calls missing."""
    X = [[1, missing, 5], [missing, 2, 2]]
    for one in (X, np.array(X, dtype=object)):
        out = fill(one)
        assert out.dtype == np.float64
        np.testing.assert_array_equal(out, expected(np.array([[1, NAN, 5], [NAN, 2, 2]])))


# -------------------------------------------------------------------- scipy sparse
@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_array, sp.dok_array])
def test_a_stored_zero_is_an_observation(make):
    """Not stored is missing, a stored zero is not; the answer is dense and small."""
    coo = sp.coo_array(([1.0, 0.0, 0.0, 1.0], ([0, 0, 1, 2], [0, 2, 1, 2])), shape=(3, 4))
    X = make(coo)
    out = fill(X, BITS)
    known = np.array([[1, NAN, 0, NAN], [NAN, 0, NAN, NAN], [NAN, NAN, 1, NAN]])
    assert type(out) is np.ndarray
    assert out.dtype == np.int8
    np.testing.assert_array_equal(out, expected(known, BITS))


def test_a_sparse_table_is_filled_up_to_a_limit_and_refused_before_work():
    """Above the limit the error says the size and names predict; nothing is allocated."""
    side = int(np.sqrt(MAX_FILLED_CELLS))
    read_table(sp.coo_array(([1.0], ([0], [0])), shape=(side, side)), STARS).check_fillable()
    table = read_table(sp.coo_array(([1.0], ([0], [0])), shape=(side, side + 1)), STARS)
    for refuse in (table.check_fillable, lambda: table.filled(pattern(STARS))):
        with pytest.raises(ValueError, match=r"dense array of 100,010,000 cells.*predict\(rows, cols\)"):
            refuse()


@pytest.mark.parametrize(
    ("alphabet", "dtype"),
    [
        ("0,1", "int8"),
        ("-128:127", "int8"),
        ("0:128", "int16"),
        ("0,40000", "int32"),
        ("0,1e10", "int64"),
        ("0,1e30", "float64"),
        ("0.5:5:0.5", "float32"),
        ("0.1,0.2", "float64"),
        ("0,1e300", "float64"),
    ],
)
def test_the_smallest_dtype_holds_every_symbol_exactly(alphabet, dtype):
    """Whole symbols get the smallest signed integers, others float32 only if that is exact."""
    alphabet = Alphabet.of(alphabet)
    assert smallest_dtype(alphabet) == dtype
    np.testing.assert_array_equal(alphabet.symbols.astype(dtype).astype(float), alphabet.symbols)


@pytest.mark.parametrize(
    ("dtype", "alphabet", "answer"),
    [
        ("bool", "0,1", True),
        ("bool", "0:2", False),
        ("bool", "1", True),
        ("int8", "-1,1", True),
        ("uint8", "-1,1", False),
        ("uint8", "0:255", True),
        ("uint8", "0:256", False),
        ("int64", "0,0.5", False),
        ("float32", "0.1,1e300", True),
        ("object", "0.5,1", True),
        ("M8[s]", "0,1", False),
    ],
)
def test_holds(dtype, alphabet, answer):
    """A dtype holds an alphabet if each symbol can be written in it."""
    assert holds(np.dtype(dtype), Alphabet.of(alphabet)) is answer


# -------------------------------------------------------------------- reading, for any table
TABLES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.one_of(st.just(NAN), st.sampled_from(STARS.symbols.tolist())),
)


@given(TABLES, st.sampled_from(["numpy", "masked", "pandas", "Int64", "polars", "arrow", "sparse"]))
def test_every_observed_cell_is_read_once_and_every_other_filled(X, kind):
    """All kinds of one table hold the same observations, and are filled in the same cells."""
    names = [f"c{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    rows, cols = np.nonzero(~np.isnan(X))
    if kind == "sparse" and rows.size == 0:
        return  # a sparse matrix without stored cells is refused when it is read
    table = read_table(
        {
            "numpy": lambda: X,
            "masked": lambda: np.ma.masked_array(np.nan_to_num(X, nan=-7).astype(int), np.isnan(X)),
            "pandas": lambda: frame,
            "Int64": lambda: frame.astype("Int64"),
            "polars": lambda: pl.DataFrame(X, schema=names, orient="row"),
            "arrow": lambda: pa.Table.from_pandas(frame.astype("Int64")),
            "sparse": lambda: sp.coo_array((X[rows, cols], (rows, cols)), shape=X.shape),
        }[kind](),
        STARS,
    )
    assert table.shape == X.shape
    seen = [cell for piece in table.pieces() for cell in zip(*piece, strict=True)]
    assert sorted(seen) == list(zip(rows, cols, X[rows, cols], strict=True))
    for col in range(X.shape[1]):
        np.testing.assert_array_equal(table.levels(col).values, np.unique(X[rows[cols == col], col]))
        assert table.levels(col).count == (cols == col).sum()
    np.testing.assert_array_equal(as_floats(table.filled(pattern(STARS))), expected(X))


@pytest.mark.parametrize("kind", ["numpy", "sparse"])
def test_large_tables_are_worked_on_in_blocks(monkeypatch, kind):
    """With a small block the result is the same, and no call asks for more than a block of neighbouring rows."""
    monkeypatch.setattr(tables, "BLOCK_CELLS", 20)
    rng = np.random.default_rng(0)
    X = np.where(rng.random((31, 7)) < 0.5, NAN, rng.integers(1, 6, (31, 7)))
    rows, cols = np.nonzero(~np.isnan(X))
    table = read_table(X if kind == "numpy" else sp.csr_array((X[rows, cols], (rows, cols)), shape=X.shape), STARS)
    sizes = []

    def symbols_at(rows, cols):
        sizes.append((rows.size, np.ptp(rows) if rows.size else 0))
        return pattern(STARS)(rows, cols)

    np.testing.assert_array_equal(table.filled(symbols_at), expected(X))
    assert max(size for size, _ in sizes) <= 20
    assert max(spread for _, spread in sizes) <= 1
    assert len(list(table.pieces())) > 1 or kind == "sparse"


def test_filling_takes_a_few_megabytes_beside_the_result():
    """A table of 16 MB is filled with less than 8 MB of memory beyond the copy."""
    X = np.full((2000, 2000), NAN, dtype=np.float32)
    table = read_table(X, STARS)
    tracemalloc.start()
    out = table.filled(pattern(STARS))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < out.nbytes + 8e6


# -------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("X", "column", "why"),
    [
        (pd.DataFrame({"a": [1, 2], "name": ["x", None]}), "name", "String"),
        (pd.DataFrame({"a": [1, 2], 7: pd.Categorical([1, 2])}), 7, "Categorical"),
        (pd.DataFrame({"when": pd.to_datetime(["2024-01-01", None])}), "when", "Datetime"),
        (pd.DataFrame({"o": pd.Series([1, "3"], dtype=object)}), "o", "the text '3'"),
        (pl.DataFrame({"a": [1], "s": ["1"]}), "s", "String"),
        (pl.DataFrame({"l": [[1, 2]]}), "l", "List"),
        (pl.DataFrame({"d": [1]}).cast(pl.Decimal(10, 2)), "d", "Decimal"),
        (pa.table({"a": [1], "s": ["1"]}), "s", "String"),
    ],
)
def test_columns_that_are_not_numbers_are_named(X, column, why):
    """The error names the column, its type, and what to do."""
    with pytest.raises(
        ValueError, match=f"column {column!r} cannot be read: .*{why}.*convert it to integers or floats"
    ):
        read_table(X, STARS)


@pytest.mark.parametrize(
    ("X", "place"),
    [
        (np.array([[1, 9, NAN], [7, 5, 0]]), r"3 value\(s\).*first is 9 at cell \(0, 1\)"),
        (np.array([[1, np.inf]]), r"1 value\(s\).*first is inf at cell \(0, 1\)"),
        (sp.coo_array(([9.0, 1.0], ([2, 0], [1, 1])), shape=(3, 2)), r"1 value\(s\).*first is 9 at cell \(2, 1\)"),
        (
            pd.DataFrame({"q1": [1, 2], "q2": [7, 3.5]}, index=["ann", "bob"]),
            r"2 value\(s\).*first is 7 at row 'ann', column 'q2'",
        ),
        (pd.DataFrame({0: [1, -1]}, index=[10, 20]), r"first is -1 at row 20, column 0"),
        (pl.DataFrame({"q1": [1, 2], "q2": [1, 99]}), r"1 value\(s\).*first is 99 at row 1, column 'q2'"),
    ],
)
def test_values_off_the_alphabet_are_named_and_counted(X, place):
    """The error names the first cell, by its labels where there are any, and says how many there are."""
    with pytest.raises(ValueError, match=place) as caught:
        read_table(X, STARS).check_symbols()
    assert "Alphabet([1, 2, 3, 4, 5])" in str(caught.value)
    assert "NaN or null" in str(caught.value)


def test_values_off_the_alphabet_are_counted_over_all_blocks(monkeypatch):
    """The first is the first of the whole table, the count is that of all blocks."""
    monkeypatch.setattr(tables, "BLOCK_CELLS", 4)
    X = np.ones((10, 2))
    X[3, 1], X[8, 0] = 6, 7
    with pytest.raises(ValueError, match=r"2 value\(s\).*first is 6 at cell \(3, 1\)"):
        read_table(X, STARS).check_symbols()


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.ones(3), ValueError, r"two-dimensional table, got 1 dimension.*reshape"),
        (np.ones((2, 2, 2)), ValueError, "got 3 dimension"),
        (pd.Series([1.0, 2.0]), ValueError, "got 1 dimension"),
        (np.ones((0, 3)), ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.ones((3, 0)), ValueError, r"0 feature\(s\) \(shape=\(3, 0\)\)"),
        (pl.DataFrame(), ValueError, r"0 sample\(s\)"),
        (pd.DataFrame(index=[1, 2]), ValueError, r"0 feature\(s\)"),
        (np.array([["1", "2"]]), ValueError, "real numbers"),
        (np.array([[1j]]), ValueError, "real numbers"),
        (pl.LazyFrame({"a": [1]}), TypeError, r"LazyFrame.*collect\(\)"),
        (sp.dia_array(np.eye(2)), ValueError, "dia format"),
        (sp.csr_array((2, 2)), ValueError, "no observed entry"),
    ],
)
def test_what_is_no_table_is_refused(X, error, message):
    """Wrong dimensions, emptiness, text, queries and unclear formats each get their own message."""
    with pytest.raises(error, match=message):
        read_table(X, STARS)


def test_a_table_without_any_value_cannot_be_fitted():
    """All missing: the error says so in words."""
    for X in (np.full((2, 2), NAN), pd.DataFrame({"a": [None, None]}), pl.DataFrame({"a": [NAN]})):
        with pytest.raises(ValueError, match="no observed entry"):
            read_table(X, STARS).observations()


def test_float32_values_become_exact_symbols():
    """0.1 in float32 is not the float64 0.1, but it is that symbol; the cell itself is kept as it came."""
    X = np.array([[0.1, NAN], [0.2, 0.1]], dtype=np.float32)
    alphabet = Alphabet.of("0.1,0.2")
    assert set(read_table(X, alphabet).observations().values) == {0.1, 0.2}
    assert set(fill(X, alphabet).ravel().tolist()) <= set(np.float32([0.1, 0.2]).tolist())


def test_the_limit_is_that_of_sparse_tables_only():
    """A dense table of any size is filled: its cells are in memory already."""
    assert SparseTable.max_cells == MAX_FILLED_CELLS
    assert read_table(np.ones((1, 1)), STARS).max_cells == np.inf
