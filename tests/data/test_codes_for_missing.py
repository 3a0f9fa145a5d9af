"""Codes for missing cells are neither read nor left, in any kind of table."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from snapimpute.data.tables import read_table
from tests.data.filling import CODES, GRADES, NAN, STARS, as_floats, expected, pattern

CODED = np.array([[1, -99, 5], [-99, 2, 2], [4, -99, 1]])
DECODED = np.where(CODED == -99, NAN, CODED)


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
