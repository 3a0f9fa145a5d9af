"""Wide tables: labels, missing cells, alphabets, what comes back; and any table at all."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from snapimpute import Alphabet
from snapimpute.app.io import (
    AlphabetSpec,
    Options,
    Triplets,
    read_file,
)
from tests.app.io.reading import FIVE, cells, dense, frame, refused, told, wide


# -------------------------------------------------------------------- wide tables
@pytest.mark.parametrize(
    ("text", "alphabet", "index"),
    [
        ("id,a,b\n7,1,2\n8,3,4\n", FIVE, "id"),
        ("id,a,b\n1,1,2\n2,3,4\n", FIVE, "id"),  # its name says it
        ("name,a,b\nann,1,2\nbob,3,4\n", FIVE, "name"),
        ("x,a,b\n7,1,2\n8,3,4\n", ["x=any", "1:5"], None),  # it has an alphabet of its own
        ("q1,a,b\n1,1,2\n2,3,4\n", FIVE, None),  # symbols
        ("x,a,b\n1,1,2\n9,3,4\n", FIVE, "x"),  # not all are symbols
        ("x,a,b\nlow,low,high\nhigh,high,\n", ["low,high"], None),
        ("x,a,b\nann,low,high\nhigh,high,\n", ["low,high"], "x"),
        ("q1,a,b\n5,1,2\nNA,3,4\n3,1,1\n", FIVE, None),  # a missing cell is no label
        ("q1,a,b\n5,1,2\n?,3,4\n3,1,1\n", FIVE, None),
        (",a,b\n0,1,2\n1,3,4\n", FIVE, ""),
        ("year,a,b\n" + "".join(f"{1990 + i},1,2\n" for i in range(30)), ["infer"], "year"),
        ("year,a,b\n" + "".join(f"{i},1,2\n" for i in range(5)), ["infer"], None),
    ],
)
def test_the_first_column_has_labels_if_it_is_unique_and_no_symbols(put, text, alphabet, index):
    """The rule of the documentation; what was taken is told, and how to say otherwise."""
    missing = ("?",)
    source = wide(put(text), alphabet, missing=missing, layout="wide")
    assert source.index == index
    assert ("--index none" in told(source)["row labels"]) == (index is not None)


def test_what_is_said_about_labels_counts(put):
    """--index names any column, or none."""
    path = put("a,b,who\n1,2,ann\n3,4,bob\n")
    source = wide(path, index="who")
    assert source.row_labels.tolist() == ["ann", "bob"]
    assert source.values.columns == ["a", "b"]
    assert wide(put("id,b\n1,2\n3,4\n"), index="none").values.columns == ["id", "b"]
    assert "has no column 'x', which --index names; its columns are 'a', 'b', 'who'" in refused(path, index="x")


@pytest.mark.parametrize("labels", ["ann,1\nann,2\n", "ann,1\nann ,2\n", "ann,1\n,2\n"])
def test_labels_that_are_named_must_differ(put, labels):
    """A model could not tell the rows apart."""
    message = refused(put("who,a\n" + labels), index="who")
    assert "are empty or come again" in message
    assert "--leave 'who'" in message


@pytest.mark.parametrize("code", ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", " ", " NA "])
def test_usual_codes_mean_missing(put, code):
    """With space around them, too."""
    np.testing.assert_array_equal(dense(wide(put(f"a,b\n1,2\n{code},4\n"))), [[1, 2], [np.nan, 4]])


def test_further_codes_are_named(put):
    """As text or as a number however it is written, in text and in numbers."""
    path = put("a,b\n1,?\n-99,4\n-99.0,-9.9e1\n")
    assert "text where numbers are expected, the first is '?' in row '1'" in refused(path)
    assert "not in Alphabet" in refused(path, missing=["?"])
    found = dense(wide(path, missing=["?", "-99"]))
    np.testing.assert_array_equal(found, [[1, np.nan], [np.nan, 4], [np.nan, np.nan]])


def test_a_label_is_no_code_for_missing_unless_that_is_said(put):
    """None, some, all: the answer None is one."""
    path = put("id,q,z\nx,None,1\ny,some,NA\nz,,2\n")
    source = wide(path, ["q=None,some,all", "1:5"])
    assert source.values["q"].to_list() == ["None", "some", None]
    assert source.values["z"].to_list() == [1, None, 2]
    assert wide(path, ["q=None,some,all", "1:5"], missing=["None"]).values["q"].to_list() == [None, "some", None]
    long = put("who,what,value\nx,q,None\nx,r,some\ny,q,some\ny,r,NA\n", "long.csv")
    assert cells(long, ["None,some"]).levels == ["None", "some"]


def test_text_among_numbers_is_told_with_what_to_do(put):
    """The column, the count, the first cell by its label, and four ways out."""
    message = refused(put("id,a,b\nann,1,2\nbob,x,4\ncleo,y,1\n"))
    for part in (
        "2 cell(s) of the column 'a' are text where numbers are expected, the first is 'x' in row 'bob'",
        "--missing 'x'",
        "--alphabet 'a'=low,high",
        "--leave 'a'",
    ):
        assert part in message
    assert "'inf'" in refused(put("a,b\n1,2\ninf,3\n"), index="none")
    assert "the column 'group' are text" in refused(put("group,a,b\nx,1,2\nx,3,4\n"))  # no labels: they come again
    few = put("id,a,b\nann,1,2\nbob,x,4\ncleo,2,1\n")
    assert "1 cell(s) of the column 'a' are text" in refused(few, ["infer"])  # most of it is numbers


def test_symbols_outside_the_alphabet_are_told_by_cell_and_count(put):
    """Up to three cells by their labels, and how many in all; in columns of numbers and of labels."""
    message = refused(put("id,a,b\nann,1,9\nbob,7,4\ncleo,8,6\n"))
    assert "x.csv: 4 value(s) not in Alphabet([1, 2, 3, 4, 5])" in message
    assert "the first is 7 at row 'bob', column 'a' (then 8 at row 'cleo', column 'a'; 9 at row 'ann'" in message
    message = refused(put("id,a,b\nann,n,y\nbob,m,n\ncleo,k,y\n"), ["n,y"])
    assert "2 value(s) of the column 'a' are not in Alphabet(['n', 'y'])" in message
    assert "the first is 'm' in row 'bob' (then 'k' in row 'cleo')" in message
    assert "--missing 'm'" in message


def test_one_strange_symbol_is_told_alone(put):
    """No list where there is nothing to list; rows without labels are counted from 1, columns by their names."""
    message = refused(put("a,b\n1,1\n2,9\n"), index="none")
    assert "1 value(s) not in Alphabet([1, 2, 3, 4, 5]), the first is 9 at row 2, column 'b':" in message


def test_an_all_missing_table_is_told(put):
    """With what means missing."""
    message = refused(put("a,b\n,NA\n?,\n"), missing=["?"], index="none")
    assert "no cell of its 2×2 table is known" in message
    assert "'NA'" in message
    assert "'?'" in message


def test_columns_that_are_not_there_are_told(put):
    """--leave, --index, --alphabet and --triplets name columns."""
    path = put("id,a,b\nann,1,2\nbob,3,4\n")
    assert "has no column 'x', which --leave names; its columns are 'id', 'a', 'b'" in refused(path, leave=["x"])
    assert "--alphabet names the column 'x', which is not there; there are 'a', 'b'" in refused(path, ["x=1:5"])
    assert "has no column 'x', which --triplets names" in refused(path, triplets=("x", "a", "b"))
    assert "every column is left alone" in refused(path, leave=["id", "a", "b"])
    assert "'ann', of labels" not in refused(put("only,\nx,\n"))
    assert "has a single column, 'id', of labels" in refused(path, leave=["a", "b"], index="id")


# -------------------------------------------------------------------- what comes back
def test_known_cells_come_back_as_the_same_text(put):
    """05, 1.0, space around and codes of missing cells that stay open: nothing is written anew that was known."""
    path = put("id, a ,b,note\nann,05, 1.0 ,x y\nbob,,2.50,\n cleo ,3,NA,-\n", "t.csv")
    source = wide(path, leave=["note"])
    completed = source.values.with_columns(pl.Series("a", [5, 4, 3]), pl.Series("b", [1.0, 2.5, None]))
    out = source.filled(completed)
    assert out.columns == ["id", "a", "b", "note"]
    assert out.rows() == [("ann", "05", " 1.0 ", "x y"), ("bob", "4", "2.50", None), (" cleo ", "3", "NA", "-")]


def test_text_becomes_numbers_where_columns_have_types(put):
    """In Parquet and the like; what is left alone, and labels, stay text."""
    source = wide(put("id,a,b,note\n01,05,1.5,1\n02,,NA,2\n"), ["0:5:0.5"], leave=["note"], index="id")
    done = source.values.with_columns(pl.Series("a", [5, 4]), pl.Series("b", [1.5, None]))
    assert source.filled(done, typed=True).rows() == [("01", 5, 1.5, "1"), ("02", 4, None, "2")]


@pytest.mark.parametrize(
    ("known", "filled", "written"),
    [
        (["1", "2", ""], [1, 2, 5], "5"),
        (["1.0", "2.0", ""], [1.0, 2.0, 5.0], "5.0"),  # as the others in the column are
        (["1", "2", ""], [1.0, 2.0, 5.0], "5"),
        (["1", "2", ""], [1.0, 2.0, 0.5], "0.5"),
        (["low", "high", ""], ["low", "high", "low"], "low"),
    ],
)
def test_new_cells_are_written_like_the_others(put, known, filled, written):
    """Whole numbers without a point where the column has none."""
    path = put("a\tb\n" + "".join(f"{one}\t1\n" for one in known))
    source = wide(path, ["any" if known[0] != "low" else "low,high", "b=1:5"], index="none")
    out = source.filled(pl.DataFrame({"a": filled, "b": [1, 1, 1]}))
    assert out["a"].to_list() == [*known[:2], written]


def test_types_of_columns_stay(tmp_path):
    """Parquet: small integers, floats, booleans, categories and what is left alone; others only where they must."""
    levels = pl.Enum(["low", "mid", "high"])
    given = pl.DataFrame(
        {
            "a": pl.Series([1, None, 5], dtype=pl.Int8),
            "when": pl.Series(["2020-01-01", "2021-01-01", "2022-01-01"]).str.to_date(),
            "b": pl.Series([1.0, float("nan"), None], dtype=pl.Float32),
            "c": pl.Series([True, None, False]),
            "d": pl.Series(["low", None, "high"], dtype=levels),
            "e": pl.Series(["low", "?", "high"], dtype=pl.Categorical),
            "f": pl.Series([1, 2, 3], dtype=pl.UInt16),
        }
    )
    given.write_parquet(tmp_path / "x.parquet")
    spec = ["1:5", "c=0,1", "d=low,mid,high", "e=low,high"]
    assert "the column 'when' holds neither numbers nor text, but Date" in refused(str(tmp_path / "x.parquet"), spec)
    source = wide(str(tmp_path / "x.parquet"), spec, leave=["when"], missing=["?"])
    assert source.values.null_count().row(0) == (1, 2, 1, 1, 1, 0)
    done = source.values.with_columns(
        pl.Series("a", [1, 2, 5], dtype=pl.Int8),
        pl.Series("b", [1, 2, 3], dtype=pl.Float32),
        pl.Series("c", [True, True, False]),
        pl.Series("d", ["low", "mid", "high"], dtype=levels),
        pl.Series("e", ["low", "low", "high"], dtype=pl.Categorical),
    )
    out = source.filled(done)
    assert out.schema == given.schema
    assert out["b"].to_list() == [1, 2, 3]
    assert out["e"].to_list() == ["low", "low", "high"]
    assert out["when"].equals(given["when"])
    wider = source.values.with_columns(pl.Series("a", [1.0, 2.5, 5.0]))
    assert source.filled(wider)["a"].to_list() == [1.0, 2.5, 5.0]


def test_numbers_of_any_length_are_read(put):
    """Whole ones that no integer type holds are numbers all the same."""
    source = wide(put("id,a,b\nx,1,2\ny," + "9" * 40 + ",1\n"), ["a=any", "1:5"])
    assert source.values["a"].to_list() == [1.0, 1e40]


def test_names_that_are_patterns_elsewhere(put):
    """*, ^a$ and the like are names of columns, no more."""
    source = wide(put("*,^b$,b,^.*$\n1,2,,x\n3,,4,y\n"), ["1:5", "^b$=1:3"], leave=["^.*$"], index="none")
    assert source.values.rows() == [(1, 2, None), (3, None, 4)]
    out = source.filled(pl.DataFrame({"*": [1, 3], "^b$": [2, 1], "b": [5, 4]}))
    assert out.rows() == [("1", "2", "5", "x"), ("3", "1", "4", "y")]


def test_decimals_are_numbers(tmp_path):
    """Also those with a type of their own."""
    pl.DataFrame({"a": ["1.0", None, "5.0"], "b": [1, 2, 3]}).with_columns(
        pl.col("a").cast(pl.Decimal(5, 1))
    ).write_parquet(tmp_path / "x.parquet")
    np.testing.assert_array_equal(dense(wide(str(tmp_path / "x.parquet"), index="none"))[:, 0], [1, np.nan, 5])


# -------------------------------------------------------------------- alphabets
@pytest.mark.parametrize(
    ("given", "default", "own"),
    [
        ([], "infer", {}),
        (["1:5"], "1:5", {}),
        (["0,1"], "0,1", {}),
        ([" low, mid ,high "], ["low", "mid", "high"], {}),
        (["any"], None, {}),
        (["infer"], "infer", {}),
        (["q1=1:7", "n,y"], ["n", "y"], {"q1": "1:7"}),
        (["a=b=0,1"], "infer", {"a=b": "0,1"}),
        (["age=any"], "infer", {"age": None}),
        (["=1:5"], "infer", {"": "1:5"}),
        (["0,1,2+"], ["0", "1", "2+"], {}),
    ],
)
def test_alphabets_of_the_command_line(given, default, own):
    """Ranges, lists, labels, any and infer, for all columns or for one."""
    spec = AlphabetSpec.parse(given)
    assert (spec.default, spec.own, spec.given) == (default, own, bool(given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["1:5", "0,1"], "two alphabets for all columns, '1:5' and '0,1': name a column, such as q1=0,1"),
        (["a=1:5", "b=0,1", "2:3", "1:5"], "two alphabets for all columns, '2:3' and '1:5'"),
        (["q=1:5", "q=0,1"], "two alphabets for the column 'q'"),
        (["5:1"], "must rise"),
        (["x"], "cannot read an alphabet from 'x': give a range such as 1:5"),
        ([""], "cannot read an alphabet from ''"),
        (["q="], "cannot read an alphabet from ''"),
        (["1,2,"], "cannot read an alphabet from '1,2,'"),
        (["a,b,a"], "'a' twice"),
        (["1:2:3:4"], "cannot read an alphabet"),
        (["1,1"], "must differ"),
    ],
)
def test_alphabets_that_cannot_be_read(given, message):
    """At once, before a file is read."""
    with pytest.raises(ValueError, match=re.escape(message)):
        AlphabetSpec.parse(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["1:5"], "1:5"),
        (["any"], [None, None]),
        (["infer"], "infer"),
        (["a=infer"], "infer"),  # not labels called infer
        (["a=1:5"], [Alphabet.of("1:5"), "infer"]),
        (["b=n,y", "any"], [None, Alphabet.of(["n", "y"])]),
        (["a=0,1", "0,1"], "0,1"),
    ],
)
def test_alphabets_for_columns(given, expected):
    """What the estimator takes: one for all, or a list."""
    assert AlphabetSpec.parse(given).for_columns(["a", "b"]) == expected


# -------------------------------------------------------------------- any table at all
SIGNS = st.sampled_from([",", "\t", ";", "|", " ", "!", "x"])
ANYTHING = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
UNQUIET = [HealthCheck.function_scoped_fixture]


@settings(max_examples=200, suppress_health_check=UNQUIET)
@given(
    table=st.integers(2, 4).flatmap(
        lambda n: st.lists(st.lists(ANYTHING, min_size=n, max_size=n), min_size=1, max_size=6)
    ),
    sign=SIGNS,
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\r\n", "\n"]),
)
def test_any_table_that_python_writes_reads_back_the_same(tmp_path, table, sign, quoting, end):
    """Whatever stands in its cells, with any delimiter and any quoting; an empty cell is a missing one."""
    if end == "\n":  # Python does not quote a return then, and nobody can tell it from the end of a line
        table = [[cell.replace("\r", "") for cell in row] for row in table]
    names = [f"n{i}" for i in range(len(table[0]))]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=sign, quoting=quoting, lineterminator=end).writerows([names, *table])
    path = tmp_path / "x.csv"
    path.write_bytes(text.getvalue().encode())
    found = frame(str(path), delimiter=sign, header=True)
    assert found.columns == names
    assert [[cell or "" for cell in row] for row in found.rows()] == table


LABEL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6).map(
    str.strip
)


@settings(max_examples=100, suppress_health_check=UNQUIET)
@given(
    st.dictionaries(
        st.tuples(LABEL.filter(bool), LABEL.filter(bool)), st.sampled_from("12345"), min_size=1, max_size=12
    )
)
def test_triplets_of_any_labels_read_back_the_same(tmp_path, table):
    """Labels are text of any kind, or numbers; each cell has its value at the place of its labels."""
    text = io.StringIO(newline="")
    rows = [(row, col, value) for (row, col), value in table.items()]
    csv.writer(text).writerows([("user", "item", "rating"), *rows])
    path = tmp_path / "x.csv"
    path.write_bytes(text.getvalue().encode())
    source = read_file(str(path), Options(layout="triplets", delimiter=",", header=True), AlphabetSpec.parse(FIVE))
    assert isinstance(source, Triplets)
    known, _ = source.observations("1:5")
    found = {
        (str(source.row_labels[i]), str(source.col_labels[j])): value
        for i, j, value in zip(known.rows, known.cols, known.values, strict=True)
    }
    assert found == {labels: float(value) for labels, value in table.items()}


NAME = st.text(st.characters(categories=["L", "N"], include_characters=" _.-"), min_size=1, max_size=6)
WORD = st.text(st.characters(categories=["L"]), min_size=1, max_size=5).filter(lambda w: w not in ("any", "infer"))


@given(
    own=st.dictionaries(NAME, st.lists(WORD, min_size=2, max_size=4, unique=True), max_size=3),
    low=st.integers(-9, 9),
    size=st.integers(1, 9),
)
def test_any_alphabets_are_parsed_as_they_were_given(own, low, size):
    """Labels by column and a range for the others, in any order."""
    assume(all(not word.lower().startswith(("nan", "inf")) for words in own.values() for word in words))
    given_ = [f"{name}={','.join(words)}" for name, words in own.items()]
    spec = AlphabetSpec.parse([*given_, f"{low}:{low + size}"])
    assert spec.default == f"{low}:{low + size}"
    assert spec.own == own
    names = [*own, "another"] if "another" not in own else list(own)
    alphabets = spec.for_columns(names)
    if own:
        assert [one.labels for one in alphabets[: len(own)]] == [tuple(words) for words in own.values()]


def test_paths_are_text_or_paths(tmp_path):
    """A file is named by text, as on the command line."""
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert Path(wide(str(tmp_path / "x.csv"), index="none").where).name == "x.csv"
