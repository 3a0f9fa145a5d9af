"""Every kind of table is read cell by cell and comes back as the same kind, observed cells untouched."""

from __future__ import annotations

import tracemalloc
from typing import Any

import narwhals as nw
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

STARS, HALVES, BITS = Alphabet.of("1:5"), Alphabet.of("0.5:5:0.5"), Alphabet.of("0,1")
NAN = np.nan


def pattern(alphabet: Alphabet) -> tables.SymbolsAt:
    """Symbols that depend on the cell, so that a mixed-up cell shows."""
    return lambda rows, cols: alphabet.symbols[(3 * rows + 2 * cols) % len(alphabet)]


def fill(X: Any, alphabet: Alphabet = STARS) -> Any:
    table = read_table(X, alphabet)
    table.check_symbols()
    return table.filled(pattern(alphabet))


def expected(X: np.ndarray, alphabet: Alphabet = STARS) -> np.ndarray:
    return np.where(np.isnan(X), pattern(alphabet)(*np.indices(X.shape)), X)


def as_floats(table: Any) -> np.ndarray:
    """Any filled table as an array."""
    if isinstance(table, pa.Table):
        table = table.to_pandas()
    return np.asarray(table.to_numpy() if hasattr(table, "to_numpy") else table).astype(float)


TABLE = np.array([[1, NAN, 5, NAN], [NAN, 2, 2, NAN], [4, NAN, 1, NAN]])  # the last column is empty


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


# -------------------------------------------------------------------- frames
def pandas_column(values: list[Any], dtype: str) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.array(values, dtype=dtype), "b": [2.0, NAN, 3.0]}, index=["x", "y", "z"])


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "Int8", "Int64", "UInt8", "Float32", "Float64", "int16[pyarrow]", "double[pyarrow]"],
)
def test_pandas_columns_keep_their_dtype(dtype):
    """Nullable integers stay nullable integers, floats stay floats; index and columns stay."""
    X = pandas_column([1, None, 4], dtype)
    before = X.copy()
    out = fill(X)
    assert out["a"].dtype == dtype
    assert out["b"].dtype == "float64"
    assert out.index.equals(X.index)
    assert list(out.columns) == ["a", "b"]
    np.testing.assert_array_equal(as_floats(out), expected(np.array([[1, 2], [NAN, NAN], [4, 3]])))
    pd.testing.assert_frame_equal(X, before)


@pytest.mark.parametrize(
    ("dtype", "alphabet", "becomes"),
    [
        ("Int64", HALVES, "Float64"),
        ("UInt8", Alphabet.of("-1,1,2,3,4"), "Int64"),
        ("Int8", Alphabet.of("1,2,3,4,1000"), "Int64"),
        ("int64[pyarrow]", HALVES, "double[pyarrow]"),
        ("Float32", HALVES, "Float32"),
    ],
)
def test_pandas_columns_widen_where_the_alphabet_needs_it(dtype, alphabet, becomes):
    """An integer column that cannot hold every symbol becomes Int64 or Float64 of the same family."""
    out = fill(pandas_column([1, None, 4], dtype), alphabet)
    assert out["a"].dtype == becomes
    np.testing.assert_array_equal(as_floats(out), expected(np.array([[1, 2], [NAN, NAN], [4, 3]]), alphabet))


def test_pandas_columns_without_missing_cells_are_not_touched():
    """Integers stay integers and booleans booleans where there is nothing to fill."""
    X = pd.DataFrame({"i": [1, 0, 1], "b": [True, False, True], "f": [NAN, 1, 0]})
    out = fill(X, Alphabet.of("0,0.5,1"))
    assert [str(t) for t in out.dtypes] == ["int64", "bool", "float64"]
    pd.testing.assert_frame_equal(out[["i", "b"]], X[["i", "b"]])


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]"])
def test_pandas_booleans_are_zeros_and_ones(dtype):
    """Booleans read as 0 and 1 and stay booleans if the alphabet has no more than these."""
    X = pd.DataFrame({"a": pd.array([True, None, False], dtype=dtype)})
    assert fill(X, BITS)["a"].tolist() == [True, bool(pattern(BITS)(1, 0)), False]
    assert fill(X, BITS)["a"].dtype == dtype
    assert as_floats(fill(X, Alphabet.of("0:4")))[:, 0].tolist() == [1, 3, 0]


def test_pandas_object_columns_of_numbers_stay_objects():
    """What pandas makes of [1, NA] is welcome; whole symbols are filled in as ints."""
    X = pd.DataFrame({"a": pd.Series([1, pd.NA, 4], dtype=object), "b": pd.Series([2.5, None, 1], dtype=object)})
    out = fill(X.drop(columns="b"))
    assert out["a"].dtype == object
    assert [type(x) for x in out["a"]] == [int, int, int]
    out = fill(X, HALVES)
    assert [type(x) for x in out["b"]] == [float, float, int]
    assert out["b"].tolist() == [2.5, pattern(HALVES)(1, 1), 1]


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["q", "q", "r"], name="who"),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]),
        pd.date_range("2024-01-01", periods=3),
        pd.RangeIndex(5, 8),
    ],
)
@pytest.mark.parametrize(
    "columns", [["u", "v", "w", "z"], [3, 2, 1, 0], pd.MultiIndex.from_product([["g", "h"], [1, 2]])]
)
def test_pandas_labels_come_back(index, columns):
    """Any index and any distinct column names survive, with their own names."""
    X = pd.DataFrame(TABLE, index=index, columns=columns)
    pd.testing.assert_frame_equal(fill(X), pd.DataFrame(expected(TABLE), index=index, columns=columns))


POLARS = [pl.Int8, pl.Int64, pl.UInt16, pl.Float32, pl.Float64]
ARROW = [pa.int8(), pa.int64(), pa.uint16(), pa.float32(), pa.float64()]


@pytest.mark.parametrize("dtype", POLARS)
def test_polars_columns_keep_their_dtype(dtype):
    """Integers with nulls come back as the same integers."""
    X = pl.DataFrame({"a": pl.Series([1, None, 4], dtype=dtype), "b": [2.0, None, NAN]})
    out = fill(X)
    assert isinstance(out, pl.DataFrame)
    assert out.schema == X.schema
    np.testing.assert_array_equal(as_floats(out), expected(np.array([[1, 2], [NAN, NAN], [4, NAN]])))
    assert X["a"].null_count() == 1


@pytest.mark.parametrize("dtype", ARROW)
def test_arrow_columns_keep_their_dtype(dtype):
    """Arrow columns too, also in several chunks."""
    part = pa.table({"a": pa.array([1, None, 4], type=dtype), "b": [2.0, None, NAN]})
    X = pa.concat_tables([part, part])
    out = fill(X)
    assert isinstance(out, pa.Table)
    assert out.schema == X.schema
    np.testing.assert_array_equal(as_floats(out), expected(np.array([[1, 2], [NAN, NAN], [4, NAN]] * 2)))


@pytest.mark.parametrize(
    ("alphabet", "integers", "booleans"), [(BITS, "Int64", "Boolean"), (HALVES, "Float64", "Float64")]
)
@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_polars_and_arrow_widen_where_the_alphabet_needs_it(make, alphabet, integers, booleans):
    """Integers and booleans with nulls stay what they are, or become floats for half stars; full columns stay."""
    out = nw.from_native(fill(make({"i": [1, None, 1], "full": [1, 1, 1], "b": [True, None, True]}), alphabet))
    assert {name: str(dtype) for name, dtype in out.schema.items()} == {"i": integers, "full": "Int64", "b": booleans}
    known = np.array([[1, 1, 1], [NAN, 1, NAN], [1, 1, 1]])
    np.testing.assert_array_equal(as_floats(out.to_native()), expected(known, alphabet))


@pytest.mark.parametrize(
    "X",
    [
        pl.DataFrame({"a": [1, 2], "e": [None, None]}),
        pa.table({"a": [1, 2], "e": [None, None]}),
        pd.DataFrame({"a": [1, 2], "e": [None, None]}, index=["x", "y"]),
        pd.DataFrame({"a": [1, 2], "e": pd.to_datetime([None, None])}),
        pd.DataFrame({"a": [1, 2], "e": pd.array([None, None], dtype="string")}),
    ],
    ids=["polars", "arrow", "pandas", "pandas-dates", "pandas-text"],
)
@pytest.mark.parametrize(("alphabet", "kind"), [(STARS, "int64"), (HALVES, "float64")])
def test_a_column_without_any_value_gets_the_type_of_the_alphabet(X, alphabet, kind):
    """A column that has no type, or another one, for want of values is filled like any other."""
    out = fill(X, alphabet)
    column = out.to_pandas()["e"] if not isinstance(out, pd.DataFrame) else out["e"]
    assert str(column.dtype) == kind
    assert column.tolist() == pattern(alphabet)(np.arange(2), 1).tolist()
    if isinstance(X, pd.DataFrame):
        assert out.index.equals(X.index)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": [1, 2], "e": pd.array([None, None], dtype="Int8")}),
        pd.DataFrame({"a": [1, 2], "e": np.array([NAN, NAN], dtype=np.float32)}),
        pl.DataFrame({"a": [1, 2], "e": pl.Series([None, None], dtype=pl.UInt8)}),
        pa.table({"a": [1, 2], "e": pa.array([None, None], type=pa.float32())}),
    ],
    ids=["pandas-Int8", "pandas-float32", "polars", "arrow"],
)
def test_a_column_without_any_value_keeps_a_type_that_fits(X):
    """An empty column whose type can hold the symbols is not given another one."""
    assert nw.from_native(fill(X)).schema == nw.from_native(X).schema
    assert as_floats(fill(X))[:, 1].tolist() == pattern(STARS)(np.arange(2), 1).tolist()
    if isinstance(X, pd.DataFrame):
        assert fill(X)["e"].dtype == X["e"].dtype


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


# -------------------------------------------------------------------- labels
GRADES = Alphabet.of(["low", "mid", "high", "top"])
CELLS = ["high", None, "low", None, "mid"]
GRADED = ["high", "top", "low", "mid", "mid"]  # by pattern(GRADES) in column 0


@pytest.mark.parametrize("make", [list, lambda X: np.array(X, dtype=object)], ids=["list", "object"])
@pytest.mark.parametrize("missing", [None, NAN, pd.NA])
def test_labels_among_objects_come_back(make, missing):
    """A list or object array of labels comes back as objects, with labels in the missing cells."""
    X = make([["high", missing], [missing, "low"]])
    out = fill(X, GRADES)
    assert out.dtype == object
    assert out.tolist() == [["high", "high"], ["top", "low"]]
    assert read_table(X, GRADES).observations().values.tolist() == [2, 0]


@pytest.mark.parametrize("dtype", ["<U3", "<U4", "<U12"])
def test_arrays_of_text_keep_their_dtype_or_get_wider(dtype):
    """A code marks the missing cells; the result is text too, never narrower than it was."""
    X = np.array([["mid", "?"], ["?", "low"]], dtype=dtype)
    table = read_table(X, GRADES, missing=["?"])
    out = table.filled(pattern(GRADES))
    assert out.dtype == max(dtype, "<U4", key=lambda name: int(name[2:]))
    assert out.tolist() == [["mid", "high"], ["top", "low"]]
    assert X[0, 1] == "?"
    assert fill(np.array([["mid", "low"]], dtype=dtype), GRADES).dtype == dtype


def test_masked_labels_are_missing():
    """What is under a mask is neither read nor a level."""
    X = np.ma.masked_array([["low", "high"], ["junk", "mid"]], [[False, False], [True, False]])
    table = read_table(X, GRADES)
    assert table.filled(pattern(GRADES)).tolist() == [["low", "high"], ["top", "mid"]]
    assert table.levels(0).values.tolist() == ["low"]


@pytest.mark.parametrize(
    "dtype",
    [
        "str",
        object,
        "string",
        "string[pyarrow]",
        pd.ArrowDtype(pa.string()),
        pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())),
        pd.CategoricalDtype(["high", "low", "top", "mid", "other"]),
        pd.CategoricalDtype(["low", "mid", "high", "top"], ordered=True),
        pd.CategoricalDtype(["top", "high", "mid", "low"], ordered=True),
    ],
    ids=str,
)
def test_pandas_labels_keep_dtype_categories_and_index(dtype):
    """Text stays the same kind of text, a category keeps its categories and their order."""
    index = pd.Index(list("pqrpq"), name="who")
    X = pd.DataFrame({"a": pd.Series(CELLS, dtype=dtype, index=index)})
    before = X.copy()
    pd.testing.assert_frame_equal(fill(X, GRADES), pd.DataFrame({"a": pd.Series(GRADED, dtype=dtype, index=index)}))
    pd.testing.assert_frame_equal(X, before)


@pytest.mark.parametrize(
    "dtype",
    [pl.String, pl.Categorical, pl.Enum(["low", "mid", "high", "top"]), pl.Enum(["top", "high", "mid", "low"])],
)
def test_polars_labels_keep_their_dtype(dtype):
    """Strings, categoricals and enums come back as they were."""
    X = pl.DataFrame({"a": pl.Series(CELLS, dtype=dtype)})
    out = fill(X, GRADES)
    assert out.schema == X.schema
    assert out["a"].to_list() == GRADED


@pytest.mark.parametrize(
    "dtype",
    [
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.string(), ordered=True),
    ],
    ids=str,
)
def test_arrow_labels_keep_their_dtype(dtype):
    """Strings and dictionaries too, in several chunks, and the dictionary keeps its order."""
    part = pa.table({"a": pa.array(CELLS, type=dtype)})
    X = pa.concat_tables([part, part.slice(0, 0), part])
    out = fill(X, GRADES)
    assert out.schema == X.schema
    assert out["a"].to_pylist() == [*GRADED, "high", "high", "low", "low", "mid"]
    if pa.types.is_dictionary(dtype):
        assert out["a"].combine_chunks().dictionary.to_pylist() == ["high", "low", "mid", "top"]


def test_a_label_that_an_arrow_dictionary_lacks_is_added_at_its_end():
    """A dictionary may grow; what was in it stays where it was."""
    out = fill(pa.table({"a": pa.array(["mid", None, "high"]).dictionary_encode()}), GRADES)
    assert out["a"].combine_chunks().dictionary.to_pylist() == ["mid", "high", "top"]
    assert out["a"].to_pylist() == ["mid", "top", "high"]


@pytest.mark.parametrize(
    ("X", "dtype"),
    [
        (pd.DataFrame({"a": pd.Categorical(["mid", None], categories=["mid"])}), "String"),
        (pd.DataFrame({"a": pd.Categorical(["mid", None], categories=["mid"], ordered=True)}), "String"),
        (pl.DataFrame({"a": pl.Series(["mid", None], dtype=pl.Enum(["mid"]))}), "String"),
        (pd.DataFrame({"z": ["mid", "low"], "a": [NAN, NAN]}).iloc[:, ::-1], "String"),
        (pd.DataFrame({"a": pd.to_datetime([None, None]), "z": ["mid", "low"]}), "String"),
        (pl.DataFrame({"a": [None, None], "z": ["mid", "low"]}), "String"),
        (pa.table({"a": [None, None], "z": ["mid", "low"]}), "String"),
        (pd.DataFrame({"a": [None, None], "z": ["mid", "low"]}, index=[7, 8], dtype=object), "String"),
    ],
    ids=["category", "ordered", "enum", "floats", "dates", "polars", "arrow", "objects"],
)
def test_labels_become_text_where_the_column_cannot_hold_them(X, dtype):
    """A categorical without the category, and a column of another type without any value, become text."""
    out = nw.from_native(fill(X, GRADES))
    assert str(out.schema["a"]) == dtype
    assert out["a"].to_list()[1] == "top"
    if isinstance(X, pd.DataFrame):
        assert (out["a"].to_native().dtype == object) == (X["a"].dtype == object)
        assert out.to_native().index.equals(X.index)


@pytest.mark.parametrize("ordered", [True, False])
def test_categories_that_are_numbers_are_labels(ordered):
    """A category of numbers is read by its text and keeps its categories."""
    X = pd.DataFrame({"a": pd.Categorical([3, None, 1], categories=[1, 3], ordered=ordered)})
    out = fill(X, Alphabet.of(["1", "3"]))
    assert out["a"].dtype == X["a"].dtype
    assert out["a"].tolist() == [3, 3, 1]


def test_a_table_without_values_takes_labels():
    """Rows of which nothing is known get labels, also from an array of NaN."""
    for X in ([[None, None]], np.full((1, 2), NAN), np.array([[None, pd.NA]], dtype=object)):
        assert fill(X, GRADES).tolist() == [["low", "high"]]


@pytest.mark.parametrize(
    "X", [np.array([[0, 1], [1, 1]]), np.array([[0.0, NAN]]), [[None, 1]], sp.csr_array(np.eye(2))]
)
def test_numbers_are_no_labels(X):
    """A table of numbers is refused where labels were promised, if for one column only."""
    with pytest.raises(ValueError, match=r"column [01] holds numbers, but Alphabet\(\['low', .*'top'\]\) has"):
        read_table(X, GRADES)
    with pytest.raises(ValueError, match="column 1 holds numbers"):
        read_table(np.eye(2), {1: GRADES})


@given(
    st.lists(st.lists(st.sampled_from([*GRADES.labels, None]), min_size=3, max_size=3), min_size=1, max_size=5),
    st.sampled_from(["list", "object", "str", "string", "category", "polars", "arrow"]),
)
def test_labels_of_every_kind_of_table_are_read_alike(X, kind):
    """All kinds of one table hold the same symbols, and their missing cells are filled with the same labels."""
    names = ["a", "b", "c"]
    columns = dict(zip(names, zip(*X, strict=True), strict=True))
    makers = {
        "list": lambda: X,
        "object": lambda: np.array(X, dtype=object),
        "polars": lambda: pl.DataFrame(columns, schema=dict.fromkeys(names, pl.Categorical)),
        "arrow": lambda: pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()}),
    }
    frame = pd.DataFrame(X, columns=names, dtype=object)
    dtype = pd.CategoricalDtype(GRADES.labels) if kind == "category" else kind
    table = read_table(makers[kind]() if kind in makers else frame.astype(dtype), GRADES)
    codes = np.array([[NAN if x is None else GRADES.labels.index(x) for x in row] for row in X])
    rows, cols, values = table.cells()
    assert sorted(zip(rows, cols, values, strict=True)) == [
        (*at, codes[at]) for at in zip(*np.nonzero(codes >= 0), strict=True)
    ]
    out = table.filled(pattern(GRADES))
    cells = out if isinstance(out, np.ndarray) else nw.from_native(out).to_numpy()
    assert cells.tolist() == GRADES.decode(expected(codes, GRADES)).tolist()


# -------------------------------------------------------------------- codes for missing
CODED = np.array([[1, -99, 5], [-99, 2, 2], [4, -99, 1]])
DECODED = np.where(CODED == -99, NAN, CODED)
CODES = [-99, "?"]


def sometimes(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """Symbols as in `pattern`, but none in even columns."""
    return np.where(cols % 2, pattern(STARS)(rows, cols), NAN)


def as_frame(dtype: Any = "int64") -> pd.DataFrame:
    return pd.DataFrame(CODED, columns=list("abc"), index=[3, 4, 4]).astype(dtype)


ABSTAINED = np.where(np.isnan(DECODED), sometimes(*np.indices(DECODED.shape)), DECODED)


@pytest.mark.parametrize(
    "X",
    [
        CODED,
        CODED.astype("int8"),
        CODED.astype("float32"),
        CODED.astype(object),
        np.where(CODED == -99, "?", CODED.astype(object)),
        np.where(CODED == -99, NAN, CODED),
        CODED.tolist(),
        sp.csr_array(CODED),
        as_frame(),
        as_frame("Int64"),
        as_frame(object),
        as_frame("float32"),
        as_frame().astype({"b": "Float64"}).replace({"b": {-99.0: None}}),
        pl.DataFrame(CODED, schema=list("abc")),
        pa.table(dict(zip("abc", CODED.T, strict=True))),
    ],
    ids=lambda X: f"{type(X).__name__}-{getattr(X, 'dtype', '')}",
)
@pytest.mark.parametrize("codes", [CODES, (-99.0, "?", None, NAN, pd.NA), np.array([-99])])
def test_codes_for_missing_become_symbols(X, codes):
    """A value named as missing is neither read, nor a level, nor in the result; the rest is as it was."""
    if len(codes) == 1 and "?" in np.ravel(X if isinstance(X, np.ndarray) else 0).tolist():
        return
    table = read_table(X, STARS, missing=codes)
    assert sorted(table.cells()[2]) == sorted(DECODED[~np.isnan(DECODED)])
    assert table.levels(0).values.tolist() == [1, 4]
    out = table.filled(pattern(STARS))
    np.testing.assert_array_equal(as_floats(out), expected(DECODED))
    if isinstance(X, np.ndarray) and X.dtype != object:
        assert out.dtype == X.dtype
    if isinstance(X, pd.DataFrame):
        pd.testing.assert_series_equal(out.dtypes, X.dtypes)
        assert out.index.equals(X.index)


@pytest.mark.parametrize(
    ("X", "becomes"),
    [
        (CODED, "float64"),
        (CODED.astype("int8"), "float64"),
        (CODED.astype("float32"), "float32"),
        (sp.csr_array(CODED), "float32"),
    ],
)
def test_where_no_symbol_is_given_an_array_has_nan(X, becomes):
    """Integers become floats then, for they cannot hold NaN; no code stays behind."""
    out = read_table(X, STARS, missing=CODES).filled(sometimes, may_abstain=True)
    assert out.dtype == becomes
    np.testing.assert_array_equal(out, ABSTAINED)


def test_where_no_symbol_is_given_objects_have_none():
    """Objects keep None where nothing is known, and whole symbols are ints."""
    X = np.where(CODED == -99, "?", CODED.astype(object))
    out = read_table(X, STARS, missing=CODES).filled(sometimes, may_abstain=True)
    assert out.tolist() == [[1, 3, 5], [None, 2, 2], [4, 4, 1]]
    labels = np.array([["low", "?"], ["?", "high"]])
    out = read_table(labels, GRADES, missing=CODES).filled(sometimes, may_abstain=True)
    assert out.tolist() == [["low", "top"], [None, "high"]]


def test_integers_with_nothing_to_fill_stay_integers():
    """Without missing cells there is nothing to abstain from."""
    out = read_table(np.array([[1, 2]]), STARS, missing=CODES).filled(sometimes, may_abstain=True)
    assert out.dtype == np.int64


@pytest.mark.parametrize(
    ("X", "becomes"),
    [
        (as_frame(), ["float64", "int64"]),
        (as_frame("Int64"), ["Int64", "Int64"]),
        (as_frame("int16[pyarrow]"), ["int16[pyarrow]", "int16[pyarrow]"]),
        (as_frame("float32"), ["float32", "float32"]),
        (as_frame(object), ["object", "object"]),
        (pl.DataFrame(CODED, schema=list("abc")), ["Int64", "Int64"]),
        (pa.table(dict(zip("abc", CODED.T, strict=True))), ["int64", "int64"]),
    ],
)
def test_where_no_symbol_is_given_a_frame_has_null(X, becomes):
    """Types that know null stay; the integers of numpy become floats, in the columns that need it only."""
    out = read_table(X, STARS, missing=CODES).filled(sometimes, may_abstain=True)
    dtypes = out.schema.types if isinstance(out, pa.Table) else out.dtypes
    assert [str(dtype) for dtype in dtypes] == [*becomes, becomes[1]]
    frame = out if isinstance(out, pd.DataFrame) else out.to_pandas()
    assert frame.isna().to_numpy().tolist() == np.isnan(ABSTAINED).tolist()
    np.testing.assert_array_equal(frame.astype("Float64").to_numpy(float, na_value=NAN), ABSTAINED)
    if isinstance(X, pd.DataFrame):
        assert out.index.equals(X.index)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": ["low", "?", "mid"]}, index=list("xyz")),
        pd.DataFrame({"a": ["low", "?", "mid"]}, dtype=object),
        pd.DataFrame({"a": ["low", "?", "mid"]}, dtype="string"),
        pd.DataFrame({"a": pd.Categorical(["low", "?", "mid"], ["?", "low", "mid", "top"], ordered=True)}),
        pl.DataFrame({"a": ["low", "?", "mid"]}, schema={"a": pl.String}),
        pl.DataFrame({"a": ["low", "?", "mid"]}, schema={"a": pl.Categorical}),
        pl.DataFrame({"a": ["low", "?", "mid"]}, schema={"a": pl.Enum(["?", "low", "mid", "top"])}),
        pa.table({"a": ["low", "?", "mid"]}),
        pa.table({"a": pa.array(["low", "?", "mid"]).dictionary_encode()}),
    ],
)
def test_codes_among_labels(X):
    """A code that is text becomes a label, or null where none is given; the type stays, and it is no level."""
    table = read_table(X, GRADES, missing=CODES)
    out, null = table.filled(pattern(GRADES)), table.filled(sometimes, may_abstain=True)
    schema = nw.from_native(X).schema
    assert nw.from_native(out).schema == nw.from_native(null).schema == schema
    assert nw.from_native(out)["a"].to_list() == ["low", "top", "mid"]
    assert nw.from_native(null)["a"].is_null().to_list() == [False, True, False]
    assert table.levels(0).values.tolist() == ["low", "mid", "top"][: 3 if table.levels(0).ordered else 2]
    assert table.levels(0).count == 2
    if isinstance(X, pd.DataFrame):
        assert out["a"].dtype == null["a"].dtype == X["a"].dtype
        assert out.index.equals(X.index)
        assert null.index.equals(X.index)


@pytest.mark.parametrize(
    ("X", "becomes"),
    [
        (pd.DataFrame({"e": pd.to_datetime([None, None]), "a": [1, 2]}, index=["x", "y"]), "float64"),
        (pd.DataFrame({"e": pd.array([None, None], dtype="string"), "a": [1, 2]}), "float64"),
        (pd.DataFrame({"e": pd.array([None, None], dtype="Int8"), "a": [1, 2]}), "Int8"),
        (pl.DataFrame({"e": [None, None], "a": [1, 2]}), "Int64"),
        (pa.table({"e": [None, None], "a": [1, 2]}), "int64"),
    ],
)
def test_a_column_without_any_value_may_stay_empty_in_part(X, becomes):
    """Where one cell is filled and the other is not, the column has a type for symbols and null."""
    out = read_table(X, STARS).filled(lambda rows, cols: np.where(rows == 0, 4.0, NAN), may_abstain=True)
    dtypes = out.schema.types if isinstance(out, pa.Table) else list(out.dtypes)
    assert str(dtypes[0]) == becomes
    column = nw.from_native(out)["e"]
    assert column.is_null().to_list() == [False, True]
    assert column.to_list()[0] == 4
    if isinstance(X, pd.DataFrame):
        assert out.index.equals(X.index)


def test_a_number_as_code_is_not_its_text():
    """-99 does not mean "-99", nor the other way round."""
    X = np.array([["-99", "low"], [-99, "mid"]], dtype=object)
    with pytest.raises(ValueError, match=r"1 value\(s\).*first is '-99' at cell \(0, 0\)"):
        read_table(X, GRADES, missing=[-99])
    with pytest.raises(ValueError, match=r"1 value\(s\).*first is -99 at cell \(1, 0\)"):
        read_table(X, GRADES, missing=["-99"])


def test_a_sparse_table_of_codes_only_has_no_observed_entry():
    """If all that is stored means missing, the error says so."""
    with pytest.raises(ValueError, match="no observed entry: every stored value is a code"):
        read_table(sp.csr_array(([-99.0], ([0], [0])), shape=(2, 2)), STARS, missing=CODES)


# -------------------------------------------------------------------- columns of their own
def test_each_column_of_an_array_has_its_alphabet():
    """Symbols are snapped and filled column by column, and a column of any numbers keeps its numbers."""
    X = np.array([[0.1, 1, 0.37], [NAN, NAN, NAN], [0.2, 0, -4.5]], dtype=np.float32)
    book = ["0.1,0.2", BITS, None]
    table = read_table(X, book)
    observed = table.observations()
    np.testing.assert_array_equal(observed.values, [0.1, 1, np.float32(0.37), 0.2, 0, -4.5])
    out = table.filled(lambda rows, cols: np.array([0.2, 1, 0.123])[cols])
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out[1], np.float32([0.2, 1, 0.123]))
    np.testing.assert_array_equal(out[[0, 2]], X[[0, 2]])


def test_objects_mix_labels_and_numbers():
    """In an object array one column may have labels, one whole symbols, one any numbers, each as Python has them."""
    X = np.array([["low", 1, 0.5], [None, None, None], ["high", 5, 2]], dtype=object)
    out = read_table(X, [GRADES, STARS, None]).filled(lambda rows, cols: np.array([1.0, 3.0, 1.25])[cols])
    assert out.tolist() == [["low", 1, 0.5], ["mid", 3, 1.25], ["high", 5, 2]]
    assert [type(cell) for cell in out[1]] == [str, int, float]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_each_column_of_a_frame_has_its_alphabet(make):
    """Labels, symbols and any numbers side by side; integers become floats where any number may come."""
    X = make({"g": ["low", None, "high"], "s": [5.0, None, 1.0], "x": [0.37, None, -4.0], "i": [1, 2, 3]})
    out = nw.from_native(
        read_table(X, {"g": GRADES, "s": STARS}).filled(lambda rows, cols: np.array([1, 3, 1.25])[cols])
    )
    assert out["g"].to_list() == ["low", "mid", "high"]
    assert out["s"].to_list() == [5, 3, 1]
    assert out["x"].to_list() == [0.37, 1.25, -4]
    assert out["i"].to_list() == [1, 2, 3]
    assert out.schema["i"] == nw.Int64


@pytest.mark.parametrize(("dtype", "becomes"), [("Int64", "Float64"), ("Float32", "Float32"), ("float64", "float64")])
def test_a_column_of_any_numbers_is_of_floats_once_filled(dtype, becomes):
    """Estimates need not be whole, so integers with missing cells become floats of their family."""
    X = pd.DataFrame({"a": pd.array([7, None, -2], dtype=dtype), "b": [1, 0, 1]})
    out = read_table(X, {"b": BITS}).filled(lambda rows, cols: np.full(rows.size, 0.5))
    assert out["a"].dtype == becomes
    assert out["a"].tolist() == [7, 0.5, -2]
    assert out["b"].dtype == "int64"


def test_nullable_integers_stay_where_each_column_has_an_alphabet():
    """Int64 stays Int64 in every column whose symbols are whole, also if another column has halves."""
    X = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([1, None], dtype="Int64")})
    out = read_table(X, {"a": STARS, "b": HALVES}).filled(lambda rows, cols: np.array([4.0, 2.5])[cols])
    assert [str(dtype) for dtype in out.dtypes] == ["Int64", "Float64"]
    assert out.to_numpy(float).tolist() == [[1, 1], [4, 2.5]]


@pytest.mark.parametrize("dtype", [np.int64, np.bool_])
def test_a_mask_over_columns_of_their_own(dtype):
    """An integer array stays one if every column's symbols fit."""
    X = np.ma.masked_array(np.eye(2, dtype=dtype), np.eye(2, dtype=bool))
    assert read_table(X, [BITS, "0:1"]).filled(lambda rows, cols: cols * 1.0).dtype == dtype
    assert read_table(X, [BITS, None]).filled(lambda rows, cols: cols * 0.5).tolist() == [[0, 0], [0, 0.5]]


def test_a_sparse_table_may_have_columns_of_their_own():
    """It is filled in a dtype that holds the symbols of all."""
    X = sp.coo_array(([1.0, 300.0, 0.0], ([0, 1, 2], [0, 1, 0])), shape=(3, 2))
    out = read_table(X, [BITS, "0:300:100"]).filled(lambda rows, cols: np.array([1.0, 200.0])[cols])
    assert out.dtype == np.int16
    assert out.tolist() == [[1, 200], [1, 300], [0, 200]]
    assert read_table(X, [BITS, None]).filled(lambda rows, cols: cols * 0.3).dtype == np.float64


LEFT = lambda rows, cols: np.full(rows.size, 1.0)  # noqa: E731


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_a_frame_that_are_left_alone_are_not_touched(make):
    """Whatever they hold, missing cells included: text, dates, numbers, codes."""
    data = {"t": ["x", None, "y"], "d": np.array(["2024-01-01", "NaT", "2024-01-03"], dtype="M8[us]")}
    X = make({**data, "n": [0.5, None, -99.0], "b": [1.0, None, -99.0]})
    table = read_table(X, {"b": BITS}, missing=CODES, leave=True)
    assert set(table.cells()[1]) == {3}
    table.check_symbols()
    out = nw.from_native(table.filled(LEFT))
    assert out["b"].to_list() == [1, 1, 1]
    assert out.drop("b").to_native().__class__ is X.__class__
    assert out.schema == nw.from_native(X).schema
    for name in "tdn":
        assert (out[name].is_null() == nw.from_native(X)[name].is_null()).all()
        assert out[name].drop_nulls().to_list() == nw.from_native(X)[name].drop_nulls().to_list()


@pytest.mark.parametrize("dtype", [float, object])
def test_columns_of_an_array_that_are_left_alone_are_not_touched(dtype):
    """Neither NaN, nor a code, nor infinity in them is filled, read or refused."""
    X = np.array([[NAN, 1], [-99, NAN], [np.inf, 0]], dtype=dtype)
    if dtype is object:
        X[0, 0] = "text"
    table = read_table(X, [None, BITS], missing=CODES, leave=True)
    assert table.observations().values.tolist() == [1, 0]
    out = table.filled(LEFT)
    assert [str(cell) for cell in out[:, 0]] == [str(cell) for cell in X[:, 0]]
    assert out[:, 1].tolist() == [1, 1, 0]


def test_a_masked_array_with_columns_left_alone():
    """A masked cell of a column that is left alone has nothing to do with the dtype."""
    X = np.ma.masked_array([[7, 1], [8, 0]], [[True, False], [False, False]])
    out = read_table(X, [None, "0,0.5,1"], leave=True).filled(LEFT)
    assert out.dtype == np.int64
    assert out.tolist() == [[7, 1], [8, 0]]


def test_columns_of_a_sparse_table_cannot_be_left_alone():
    """The result is dense: what is not stored would have to be something."""
    with pytest.raises(ValueError, match="columns of a sparse table cannot be left alone"):
        read_table(sp.csr_array(np.eye(2)), [BITS, None], leave=True)


@pytest.mark.parametrize(
    ("X", "book", "message"),
    [
        (
            np.array([[1, 0], [5, 5.0]]),
            [STARS, BITS],
            r"1 value\(s\) not in Alphabet\(\[0, 1\]\).*5 at cell \(1, 1\)",
        ),
        (np.array([[1, 0], [5, np.inf]]), [STARS, None], r"cell \(1, 1\) is not finite"),
        (
            pd.DataFrame({"s": [1, 5], "b": [2, 0.5]}, index=["ann", "bob"]),
            {"s": STARS, "b": BITS},
            r"2 value\(s\) not in Alphabet\(\[0, 1\]\), the first is 2 at row 'ann', column 'b'",
        ),
        (pl.DataFrame({"s": [1], "x": [-np.inf]}), {"s": STARS}, "row 0, column 'x' is not finite"),
        (
            sp.coo_array(([1.0, 3.0], ([0, 2], [0, 1])), shape=(3, 2)),
            {0: BITS, 1: BITS},
            r"the first is 3 at cell \(2, 1\)",
        ),
        (np.array([["low", "n"], ["mid", "low"]]), [GRADES, ["n", "y"]], r"\['n', 'y'\].*'low' at cell \(1, 1\)"),
        ([["low", 1], [3, 2]], [GRADES, STARS], r"1 value\(s\) not in.*first is 3 at cell \(1, 0\)"),
        ([["low", 1], [None, "x"]], [GRADES, STARS], r"column 1 cannot be read: .*real numbers.*the text 'x'"),
        (
            pd.DataFrame({"g": ["low", "x", "z"]}, index=["ann", "bob", "cat"]),
            {"g": GRADES},
            r"2 value\(s\) not in Alphabet\(\['low', .*\]\), the first is 'x' at row 'bob', column 'g': correct",
        ),
        (pl.DataFrame({"g": [1, 2]}), {"g": GRADES}, r"2 value\(s\).*first is 1 at row 0, column 'g'"),
        (pa.table({"b": [1, 0], "t": ["x", "y"]}), {"b": BITS}, "column 't' cannot be read: its dtype is String"),
    ],
)
def test_errors_name_the_cell_and_the_alphabet_of_its_column(X, book, message):
    """What is off the alphabet of its own column is named by row and column, and so is what is not finite."""
    with pytest.raises(ValueError, match=message):
        read_table(X, book).check_symbols()


def test_a_table_is_read_by_a_codebook_as_well():
    """The schema of one table serves the next, where "infer" would find something else."""
    first = read_table(pd.DataFrame({"a": ["n", "y"], "b": [0, 4]}), "infer")
    again = read_table(pd.DataFrame({"a": ["y", None], "b": [NAN, 4]}), first.schema)
    assert again.schema is first.schema
    assert again.observations().values.tolist() == [1, 4]
