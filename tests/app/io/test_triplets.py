"""Layouts that are told apart, and triplets."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from snapimpute import Alphabet
from snapimpute.app.io import (
    AlphabetSpec,
    missing_cells,
)
from tests.app.io.reading import FIVE, U_DATA, cells, dense, read, refused, told, wide

# -------------------------------------------------------------------- layouts


def test_movielens_is_read_as_it_is(put):
    """No header, tabs, times: triplets, with whole labels in the order of their first line."""
    source = cells(put(U_DATA, "u.data"))
    assert source.row_labels.tolist() == [196, 186, 22]
    assert source.col_labels.tolist() == [242, 302]
    np.testing.assert_array_equal(dense(source), [[3, np.nan], [5, 3], [1, np.nan]])
    notes = told(source)
    assert notes["delimiter"] == "tab"
    assert "counted from 1" in notes["column names"]
    assert notes["layout"] == "triplets: column 1, column 2, column 3; --layout wide if not"
    assert notes["not looked at"] == "'4'"
    assert source.names == ("row", "column", "value")


@pytest.mark.parametrize(
    ("text", "alphabet", "layout"),
    [
        ("user,item,rating\n1,1,5\n1,2,4\n2,1,3\n", FIVE, "triplets"),
        ("userId,movieId,rating,timestamp\n1,1,5,x\n1,2,4,y\n2,1,3,z\n", FIVE, "triplets"),
        ("user,item,rating\n1,a,1.7\n1,b,2.2\n2,a,3.1\n", ["any"], "triplets"),
        ("who,what,value\nann,x,5\nann,y,4\nbob,x,3\n", FIVE, "triplets"),
        ("who,what,value\nann,x,5\nann,y,4\nbob,x,3\nbob,x,3\n", FIVE, "triplets"),  # a cell twice: told later
        ("who,what,value\nann,x,5\nann,y,\nbob,x,3\n", FIVE, "triplets"),
        ("id,q1,q2\na,1,2\nb,1,4\nc,2,2\n", FIVE, "wide"),  # every row comes once
        ("q1,q2,q3\n1,2,3\n1,3,2\n2,2,5\n2,1,1\n", FIVE, "wide"),  # nothing but symbols
        ("q1,q2,q3\n1,2,3\n1,3,2\n2,2,1\n2,1,1\n", ["infer"], "wide"),
        ("x,y,z\nlow,low,high\nlow,high,\nhigh,low,low\n", ["low,high"], "wide"),
        ("who,what,value\nann,x,5\nann,y,4\n,x,3\n", FIVE, "wide"),  # a label is missing
        ("who,what,value\nann,x,5\nann,,4\nbob,x,3\n", FIVE, "wide"),
        ("who,what,value,more\nann,x,5,1\nann,y,4,2\nbob,x,3,3\n", FIVE, "wide"),
        ("who,what\nann,x\nann,y\n", FIVE, "wide"),
        ("who,what,value\nann,x,5\nann,y,4\nbob,x,3\n", ["x=1:5", "y=1:5"], "triplets"),  # columns in the cells
        ("who,what,value\n1,2,5\n1,3,4\n2,2,3\n", ["value=1:5", "infer"], "wide"),  # a column of the file
        ("who,what,value\n" + "".join(f"{i % 7},{i % 40},{i * 0.1}\n" for i in range(200)), ["any"], "wide"),
    ],
)
def test_layouts_are_told_apart(put, text, alphabet, layout):
    """By what the columns hold and how often it comes again, or by their names; it is stated, and what if not."""
    path = put(text)
    try:
        source = read(path, alphabet)
        found, note = source.layout, told(source)["layout"]
        assert ("--layout wide" if layout == "triplets" else "--layout triplets") in note
    except ValueError as err:  # wide tables of what are no symbols
        found = "triplets" if "given twice" in str(err) else "wide"
    assert found == layout


def test_what_is_said_about_the_layout_counts(put):
    """--layout and --triplets are stronger than what it looks like, and no advice is given then."""
    path = put("user,item,rating\n1,1,5\n1,2,4\n2,1,3\n")
    source = wide(path, layout="wide")
    assert source.shape == (3, 3)
    assert told(source)["layout"] == "wide: one row a line"
    source = cells(put("r,when,c,v\nann,1,x,5\nann,2,y,4\nann,3,z,3\n"), triplets=("r", "c", "4"))
    assert source.names == ("r", "c", "v")
    assert source.shape == (1, 3)
    assert told(source)["layout"] == "triplets: 'r', 'c', 'v'"


def test_options_of_wide_tables_make_a_table_wide(put):
    """Who names a column to leave alone, or one of labels, does not speak of triplets."""
    path = put("who,what,value\n1,7,5\n1,8,4\n2,7,3\n")
    assert wide(path, ["any"], leave=["what"]).values.columns == ["who", "value"]


def test_triplets_need_three_columns(put):
    """And three different ones."""
    assert "has 2 column(s), triplets need three" in refused(put("a,b\n1,2\n"), layout="triplets")
    path = put("a,b,c\n1,2,3\n")
    assert "three different ones are needed" in refused(path, triplets=("a", "1", "c"))
    assert "has no column '7', which --triplets names" in refused(path, triplets=("a", "b", "7"))


# -------------------------------------------------------------------- triplets
def test_labels_are_kept_as_they_are_written(put):
    """Leading zeros make text of them all; whole numbers stay numbers; space around goes."""
    source = cells(put("user,item,rating\n007,10,5\n007,2,4\n12,10,3\n"))
    assert source.row_labels.tolist() == ["007", "12"]
    assert source.col_labels.tolist() == [10, 2]
    assert source.col_labels.dtype.kind == "i"
    assert cells(put("user,item,rating\n ann ,x,5\nann, y,4\n")).row_labels.tolist() == ["ann"]
    big = "9" * 30
    assert cells(put(f"user,item,rating\n{big},x,5\n{big},y,4\n3,x,1\n")).row_labels.tolist() == [big, "3"]


def test_long_labels_take_no_more_memory_than_they_need(put):
    """One long label among many does not make all of them long."""
    text = "".join(f"u{i},x,5\n" for i in range(3000)) + "u" * 10_000 + ",y,5\n"
    labels = cells(put("user,item,rating\n" + text)).row_labels
    assert labels.dtype == object
    assert labels[-1] == "u" * 10_000


def test_values_that_are_missing_are_left_out(put):
    """Empty ones, codes, and further codes however they are written; their rows and columns stay."""
    path = put("user,item,rating\na,x,5\na,y,\nb,x,NA\nb,y,-99.0\nc,z,-99\n")
    source = cells(path, missing=["-99"])
    assert source.shape == (3, 3)
    assert dense(source)[0, 0] == 5
    assert np.isnan(dense(source)).sum() == 8
    assert "no value of its 2 entries is known" in refused(put("user,item,rating\na,x,\nb,y,NA\n"))


def test_lines_without_a_label_are_told(put):
    """Which entry, and of what."""
    message = refused(put("user,item,rating\na,x,5\na, ,4\n,y,3\n"), layout="triplets")
    assert "1 line(s) have no row label, the first is entry 3" in message
    assert "no column label, the first is entry 2" in refused(
        put('user,item,rating\na,x,5\na,"",4\n'), layout="triplets"
    )


def test_cells_given_twice(put):
    """An error that says where, as the file counts, or the last one counts."""
    path = put("user,item,rating\nb,y,1\na,x,\na,x,5\nb,x,4\na,x,3\na,y,2\na,x,1\n")
    message = refused(path)
    assert "2 cell(s) are given twice, the first is user 'a', item 'x', again in entry 5" in message
    assert "--duplicates last" in message
    np.testing.assert_array_equal(dense(cells(path, duplicates="last")), [[1, 4], [2, 1]])


def test_values_are_numbers_however_they_are_written(put):
    """5, 5.0 and 05 are one symbol."""
    source = cells(put("user,item,rating\na,x,5\na,y,5.0\nb,x,05\nb,y,1\n"))
    assert source.levels == [5.0, 1.0]


def test_labels_as_values(put):
    """By an alphabet of labels, as they are written; two are found out, more must be given in order."""
    path = put("user,item,answer\na,x,n\na,y,y\nb,x,y\n")
    known, table = cells(path, ["n,y"]).observations(["n", "y"])
    assert (known.values.tolist(), table.schema.one) == ([0, 1, 1], Alphabet.of(["n", "y"]))
    known, table = cells(path, ["infer"]).observations("infer")
    assert table.schema.one == Alphabet.of(["n", "y"])
    message = refused(put("user,item,answer\na,x,n\na,y,y\nb,x,k\n"), ["infer"])
    assert "found the labels k,n,y, but not their order" in message
    assert "--alphabet k,n,y" in message
    message = refused(put("user,item,answer\na,x,n\na,y,q\nb,x,k\n"), ["n,y"])
    assert (
        "2 value(s) are not in Alphabet(['n', 'y']), the first is 'q' at user 'a', item 'y' (then 'k' at" in message
    )
    coded = cells(put("user,item,answer\na,x,01\na,y,02+\nb,x,01\n"), ["01,02+"])
    assert coded.observations(["01", "02+"])[0].values.tolist() == [0, 1, 0]


def test_text_among_values_is_told(put):
    """The first ones, by their labels, and what to do."""
    message = refused(put("user,item,rating\na,x,5\na,y,good\nb,x,4\nb,y,bad\n"))
    assert (
        "2 value(s) are text where numbers are expected, the first is 'good' at user 'a', item 'y' (then" in message
    )
    assert "--missing 'good'" in message


def test_symbols_outside_the_alphabet_in_triplets(put):
    """By their labels."""
    message = refused(put("user,item,rating\na,x,5\na,y,9\nb,x,4\n"))
    assert "1 value(s) not in Alphabet([1, 2, 3, 4, 5]), the first is 9 at row 'a', column 'y'" in message


def test_columns_may_have_alphabets_of_their_own_in_triplets(put):
    """Answers, a sex and an age, one a line: each is read by the alphabet of its column."""
    path = put("who,what,value\nann,q1,5\nann,sex,f\nann,age,31.5\nbob,q1,2\nbob,sex,m\nbob,age,NA\n")
    given = ["1:5", "sex=f,m", "age=any"]
    source = cells(path, given)
    known, table = source.observations(AlphabetSpec.parse(given).for_columns(source.col_labels.tolist()))
    assert table.schema.kinds == (Alphabet.of("1:5"), Alphabet.of(["f", "m"]), None)
    np.testing.assert_array_equal(known.values, [5, 0, 31.5, 2, 1])
    message = refused(put("who,what,value\nann,q1,5\nann,sex,f\nbob,q1,x\nbob,sex,y\n"), ["1:5", "sex=f,m"])
    assert "1 value(s) are not in Alphabet(['f', 'm']), the first is 'y' at who 'bob', what 'sex'" in message
    message = refused(put("who,what,value\nann,q1,5\nann,sex,f\nbob,q1,x\nbob,sex,m\n"), ["1:5", "sex=f,m"])
    assert "1 value(s) are text where numbers are expected, the first is 'x' at who 'bob', what 'q1'" in message


def test_columns_named_by_numbers_have_alphabets_too(put):
    """The labels of columns are whole numbers then, and are found by their text."""
    source = cells(put("user,item,rating\n7,1,5\n7,2,1\n8,1,3\n"), ["1:5", "2=0,1"])
    _, table = source.observations(AlphabetSpec.parse(["1:5", "2=0,1"]).for_columns(source.col_labels.tolist()))
    assert table.schema.kinds == (Alphabet.of("1:5"), Alphabet.of("0,1"))


@pytest.mark.parametrize("dtype", [pl.Int32, pl.UInt64, pl.Float32, pl.Float64, pl.Boolean, pl.Categorical])
def test_triplets_of_any_type(tmp_path, dtype):
    """Labels and values of Parquet files: numbers, text, categories, booleans; NaN and null are missing."""
    values = pl.Series("v", [1, None, 0, 1]).cast(pl.String if dtype == pl.Categorical else dtype)
    table = pl.DataFrame({"r": [1.0, 1.0, 2.0, 2.0], "c": ["x", "y", "x", "y"], "v": values})
    table = table.cast({"c": pl.Categorical, "v": dtype})
    table.write_parquet(tmp_path / "x.parquet")
    source = cells(str(tmp_path / "x.parquet"), ["0,1"], layout="triplets")
    assert (source.row_labels.tolist(), source.col_labels.tolist()) == ([1, 2], ["x", "y"])
    np.testing.assert_array_equal(dense(source, "0,1"), [[1, np.nan], [0, 1]])


def test_missing_cells_are_listed_in_blocks(put, monkeypatch):
    """All of them, each once, in order, however many at a time."""
    known, _ = cells(put(U_DATA)).observations("1:5")
    expected = [(0, 1), (2, 1)]
    for block in (1, 2, 100):
        monkeypatch.setattr("snapimpute.app.io.triplets.BLOCK", block)
        listed = [pair for rows, cols in missing_cells(known) for pair in zip(rows, cols, strict=True)]
        assert listed == expected
