"""Labels, and columns with alphabets of their own, come back as they were in any kind of table."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from snapimpute import Alphabet
from snapimpute.data.tables import read_table
from tests.data.filling import BITS, CODES, GRADES, HALVES, NAN, STARS, expected, fill, pattern

# -------------------------------------------------------------------- labels
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
