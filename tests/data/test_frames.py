"""Frames come back as the same kind, with the types of their columns where these hold the symbols."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from snapimpute import Alphabet
from tests.data.filling import BITS, HALVES, NAN, STARS, TABLE, as_floats, expected, fill, pattern


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
