"""Tables in files: what is found out about them, what comes back, and what is refused with which words."""

from __future__ import annotations

import contextlib
import csv
import errno
import gzip
import io
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.io import mmwrite

pytest.importorskip("polars", reason="reading files is part of an optional extra")
import polars as pl

from snapimpute import Alphabet
from snapimpute.app.io import (
    AlphabetSpec,
    Options,
    Triplets,
    Wide,
    check_output,
    missing_cells,
    output_format,
    read_content,
    read_file,
    table_format,
    write_array,
    write_frame,
    write_pieces,
)
from snapimpute.app.io import _lines as lines_module
from snapimpute.app.io._lines import Fields, Misplaced, Ragged, cut_lines
from snapimpute.app.io._sniff import as_text, format_of, suffix_format
from snapimpute.app.io.write import in_plain_words, writing

FIVE = ["1:5"]
Put = Callable[..., str]


@pytest.fixture
def put(tmp_path) -> Put:
    """Write text or bytes to a file and give its path."""

    def write(content: str | bytes, name: str = "x.csv") -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}" / name
        path.parent.mkdir()
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def read(path: str, alphabet: list[str] | None = None, **options: Any) -> Wide | Triplets:
    return read_file(path, Options(**options), AlphabetSpec.parse(FIVE if alphabet is None else alphabet))


def wide(path: str, alphabet: list[str] | None = None, **options: Any) -> Wide:
    found = read(path, alphabet, **options)
    assert isinstance(found, Wide), found.notes
    return found


def cells(path: str, alphabet: list[str] | None = None, **options: Any) -> Triplets:
    found = read(path, alphabet, **options)
    assert isinstance(found, Triplets), found.notes
    return found


def frame(path: str, **options: Any) -> Any:
    return read_content(path, Options(**options)).frame


def told(source: Any) -> dict[str, str]:
    return dict(source.notes)


def refused(path: str, alphabet: list[str] | None = None, **options: Any) -> str:
    """The error of a file that cannot be read: one sentence that names it."""

    def everything() -> None:
        source, spec = read(path, alphabet, **options), AlphabetSpec.parse(FIVE if alphabet is None else alphabet)
        source.observations(spec.for_columns(source.col_labels))

    with pytest.raises((ValueError, OSError)) as caught:
        everything()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def dense(source: Any, alphabet: Any = "1:5") -> Any:
    """The known values as an array, NaN elsewhere."""
    known, _ = source.observations(alphabet)
    out = np.full(known.shape, np.nan)
    out[known.rows, known.cols] = known.values
    return out


TABLE = [["id", "a", "b", "c"], ["ann", "1", "", "3"], ["bob", "2", "5", ""], ["cleo", "", "4", "1"]]
VALUES = [[1, np.nan, 3], [2, 5, np.nan], [np.nan, 4, 1]]


# -------------------------------------------------------------------- delimiters
@pytest.mark.parametrize(
    ("sign", "name"),
    [(",", "comma"), ("\t", "tab"), (";", "semicolon"), ("|", "bar"), ("::", "two colons"), (" ", "space")],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_delimiter_is_found_and_told(put, sign, name, end):
    """The table is the same whatever separates its cells, with both ends of lines, and the delimiter is named."""
    path = put("".join(sign.join(row) + end for row in TABLE))
    source = wide(path)
    assert told(source)["delimiter"] == name
    assert source.values.columns == ["a", "b", "c"]
    assert source.row_labels.tolist() == ["ann", "bob", "cleo"]
    np.testing.assert_array_equal(dense(source), VALUES)
    again = wide(path, delimiter=name)
    assert again.given.equals(source.given)
    assert wide(path, delimiter=sign).given.equals(source.given)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a;b;c\n1,5;2,5;3\n2,5;1,0;3\n", "semicolon"),
        ("1,5;2,5;3,5\n2,5;1,0;3,5\n", "semicolon"),  # commas within numbers are as even
        ("first name,last name,q\nann marie,x,1\nbob,y z,2\n", "comma"),
        ("title here,q one,q two\n" + "the long one,1,2\n" * 5, "comma"),  # spaces are as even, and more
        ("a, b;c\n1;2\n3;4\n5;6\n", "semicolon"),  # a comma in the names only
        ("x\ty,z\n1\t2\n3\t4\n", "tab"),
        ('"a,b,c";q\n"d,e,f";1\n', "semicolon"),  # what is quoted does not count
        ("u|v|w\n" + "1|2|3\n" * 20 + "1|2\n", "bar"),  # one line that is wrong does not lead astray
    ],
)
def test_the_delimiter_is_the_one_that_cuts_evenly(text, name):
    """Cells may hold other signs, even as many in every line."""
    if text.endswith("1|2\n"):
        with pytest.raises(ValueError, match=r"now bar"):
            as_text(text.encode(), "x", Options())
    else:
        assert as_text(text.encode(), "x", Options()).shown == name


def test_the_end_of_the_sample_does_not_matter():
    """It may be in the middle of a line, which then has fewer delimiters than the others."""
    text = "1,5;2,5;3,5;4,5\n" * 6000
    assert as_text(text.encode(), "x", Options()).shown == "semicolon"


def test_names_in_a_long_first_line_are_not_cut_at_spaces(put):
    """A line longer than the sample says little: a space is the last thing to be taken for a delimiter."""
    names = [f"Film number {j} (1995)" for j in range(5000)]
    path = put(",".join(names) + "\n" + ",".join(["1", "5"] * 2500) + "\n" + ",".join(["", "3"] * 2500) + "\n")
    source = wide(path, index="none")
    assert source.values.columns == names
    assert source.shape == (2, 5000)


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("abc\ndef\n", {}, ["no delimiter was found", "It begins 'abc'", "--delimiter"]),
        (
            "a,b\n1,2\n",
            {"delimiter": ";"},
            ["the delimiter ';' is not in the first line", "it looks as if comma", "--delimiter 'comma'"],
        ),
        ("a,b\n1,2\n", {"delimiter": "tab"}, ["the delimiter '\\t'", "--delimiter 'comma'"]),
        ("a,b\n1,2\n", {"delimiter": "<>"}, ["one character, got '<>'", "semicolon"]),
        ("a,b\n1,2\n", {"delimiter": '"'}, ["one character"]),
        ("a,b\n1,2\n", {"delimiter": ""}, ["one character, got ''"]),
    ],
)
def test_a_wrong_delimiter_is_told_with_a_better_one(put, text, options, parts):
    """Neither a table of a single column comes out nor a riddle."""
    message = refused(put(text), **options)
    for part in parts:
        assert part in message


def test_two_colons_leave_other_signs_alone(put):
    """Tabs, quotes and single colons are part of cells then."""
    path = put('1::Seven: "x\ty"::5\n1::Alien::5\n2::Alien::3\n', "ratings.dat")
    source = cells(path)
    assert source.col_labels.tolist() == ['Seven: "x\ty"', "Alien"]
    assert told(source)["delimiter"] == "two colons"


# -------------------------------------------------------------------- first lines
@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("a,b,c\n1,2,3\n", True),
        ("1,2,3\n4,5,1\n", False),
        ("0,1,2,3,4\n5,5,5,5,5\n", True),  # counted columns
        ("1,2,3,4,5\n5,5,5,5,5\n", True),
        ("1,2,3\n5,5,5\n", False),  # too few to tell
        ("5,4,3,2,1\n5,5,5,5,5\n", False),
        ("196\t242\t3\t881250949\n186\t302\t3\t891717742\n", False),
        ("u1,i1,5\nu1,i2,4\nu2,i1,5\n", False),  # a triplet: its value comes again
        ("country,code,2019\nFrance,FRA,5\nChile,CHL,4\n", True),  # a name: it does not
        ("1,Alien,5\n2,Alien,5\n", False),
        ("ann,5,3,5\nbob,4,4,2\n", False),  # no two columns have the same number as a name
        ("user,101,102\nann,5,3\n", True),
        (",101,102\nann,5,3\nbob,2,1\n", True),  # as pandas writes it
        (",5,3,4\n1,2,,4\n1,1,1,1\n", False),  # no labels below it
        (",,\n1,2,3\n", False),
        ("NA,3,4\n1,2,3\n1,5,5\n", False),
        ("id,NA,b\n1,2,3\n", True),
    ],
)
def test_a_header_is_found(text, header):
    """Text names columns, numbers do not, but for counted ones and numbers above labels."""
    found = as_text(text.encode(), "x", Options())
    assert (found.names is not None) == header
    assert found.rows == text.count("\n") - header


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("low,high,low\nhigh,,low\n", False),
        ("ann,high,low\nbob,,low\n", False),
        ("id,q1,q2\nann,high,low\n", True),
        ("u1,i1,low\nu1,i2,high\n", False),
        ("user,item,answer\nu1,i2,high\n", True),
        (",high,NA\nbob,,low\n", False),
    ],
)
def test_symbols_that_are_text_are_no_header(text, header):
    """Where the labels of the alphabet are known, a line of them is a row."""
    assert (as_text(text.encode(), "x", Options(labels=["low", "high"])).names is not None) == header


def test_a_delimiter_at_the_end_of_each_line_makes_no_column(put):
    """What has neither name nor values is carried along, not filled with symbols."""
    source = wide(put("id,a,b,,\nann,1,2,,\nbob,3,,,\n"))
    assert source.values.columns == ["a", "b"]
    assert source.filled(source.values.with_columns(pl.Series("b", [2, 5]))).rows()[1] == (
        "bob",
        "3",
        "5",
        None,
        None,
    )
    assert wide(put("id,a,\nann,1,2\nbob,3,\n")).values.columns == ["a", ""]


def test_what_is_said_about_the_header_counts(put):
    """--header and --no-header are stronger than what it looks like."""
    path = put("5,4,3\n1,2,3\n4,4,1\n")
    assert frame(path).columns == ["1", "2", "3"]
    assert frame(path, header=True).columns == ["5", "4", "3"]
    assert frame(put("a,b\n1,2\n"), header=False).rows() == [("a", "b"), ("1", "2")]


def test_comments_and_blank_lines_are_skipped_and_told(put):
    """Before the table, and blank ones anywhere; a line of delimiters only is a row."""
    path = put("# made by hand\n%% twice\n\n  \na,b,c\n1,2,3\n\n   \n,,\n4,5,1\n\n\n")
    source = wide(path)
    assert source.given.rows() == [("1", "2", "3"), (None, None, None), ("4", "5", "1")]
    assert told(source)["lines skipped"] == "4 at the top, blank or comments"


@pytest.mark.parametrize("sign", ["\t", " "])
def test_a_row_without_values_is_not_blank(put, sign):
    """Where white space is the delimiter, a line of it is a row whose cells are all missing."""
    path = put(f"a{sign}b{sign}c\n1{sign}2{sign}3\n{sign}{sign}\n\n4{sign}5{sign}1\n")
    source = wide(path)
    assert source.shape == (3, 3)
    assert source.values.row(1) == (None, None, None)


def test_blank_lines_within_quotes_stay(put):
    """They are part of a cell."""
    path = put('a,b\n"x\n\n\ny",1\n\nz,2\n')
    assert frame(path).rows() == [("x\n\n\ny", "1"), ("z", "2")]


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "{end}"])
def test_ends_of_lines(put, end, last):
    """Those of all systems, with and without one at the end."""
    assert frame(put(f"a,b{end}1,2{end}3,4" + last.format(end=end))).rows() == [("1", "2"), ("3", "4")]


def test_names_are_kept_and_told_apart(put):
    """Without space around them; one that comes again gets a number, and that is told."""
    path = put('x,y, x ,"x ",\n1,2,3,4,5\n')
    found = read_content(path, Options())
    assert found.frame.columns == ["x", "y", "x (2)", "x (3)", ""]
    assert "'x' comes 3 times" in dict(found.notes)["column names"]


def test_a_name_may_hold_anything(put):
    """Line ends and delimiters within quotes, signs of other scripts, separators of lines that are no ends here."""
    names = ["a\nb", 'c,"d"', "Amélie\u2028", "\x0bx", "\x85y"]
    text = io.StringIO()
    csv.writer(text).writerows([names, ["1", "2", "3", "4", "5"]])
    assert frame(put(text.getvalue())).columns == ["a\nb", 'c,"d"', "Amélie", "x", "y"]


# -------------------------------------------------------------------- encodings
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"])
def test_text_in_any_encoding(put, encoding):
    """UTF-8 and what has a byte order mark is known, all else is named; no mark is left in the first name."""
    path = put("idé,a,b\nann,1,2\nbób,3,4\n".encode(encoding))
    named = None if encoding in ("utf-8", "utf-8-sig", "utf-16") else encoding
    found = frame(path, encoding=named)
    assert found.columns == ["idé", "a", "b"]
    assert found.rows()[1][0] == "bób"


def test_a_mark_is_no_part_of_a_name_where_the_encoding_is_said(put):
    """A byte order mark goes also then."""
    assert frame(put("a,b\n1,2\n".encode("utf-8-sig")), encoding="utf-8").columns == ["a", "b"]


def test_other_encodings_are_told_with_the_line(put):
    """What is not UTF-8 says where, and what to do."""
    message = refused(put("a,b\nx,1\nbób,2\n".encode("latin-1")))
    for part in ("x.csv is not text in UTF-8", "line 3", "--encoding latin-1"):
        assert part in message
    assert "there is no encoding 'klingon'" in refused(put("a,b\n1,2\n"), encoding="klingon")
    assert "is not text in ascii" in refused(put("a,é\n1,2\n"), encoding="ascii")


def test_the_line_of_a_bad_byte_is_right_in_a_long_file(put, monkeypatch):
    """Also where the text is looked at in pieces."""
    monkeypatch.setattr("snapimpute.app.io._sniff.PIECE", 7)
    assert "line 41" in refused(put(b"aa,bb\n" * 40 + b"\xe9,b\n"))


def test_what_is_no_text_is_told(put):
    """Binary files, and text of two bytes a character without a mark, do not come out as garbage."""
    message = refused(put("a,b\n1,2\n".encode("utf-16-le")))
    assert "neither text nor of a known format" in message
    assert "--encoding utf-16-le" in message
    assert "neither text" in refused(put(b"SQLite format 3\0" + bytes(100)))


def test_compressed_files(put):
    """gzip is seen by the content; a damaged one is told."""
    packed = gzip.compress(b"a,b,c\n1,2,3\n")
    assert frame(put(packed, "x.csv.gz")).rows() == [("1", "2", "3")]
    for cut in (packed[:-6], packed[:15] + b"\0\0" + packed[17:]):
        assert "the compressed file is damaged" in refused(put(cut, "y.gz"))


# -------------------------------------------------------------------- quotes
def test_quotes_with_delimiters_newlines_and_quotes_inside(put):
    """Cells come out as they were meant."""
    text = io.StringIO()
    rows = [["id", "q"], ["a,b", "1"], ["c\nd", "2"], ['say "hi"', "3"], ["", "4"], ['"', "5"], ["\r\n", "1"]]
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    found = frame(put(text.getvalue()))
    assert [row[0] or "" for row in found.rows()] == ["a,b", "c\nd", 'say "hi"', "", '"', "\r\n"]


def test_quotes_that_mean_nothing_are_taken_as_they_are(put):
    """Where not all of them enclose fields, and lines are cut alike without them; and that is told."""
    path = put('id\ta\tb\n"Weird Al" Y.\t1\t2\n6" pipe\t3\t4\n')
    source = wide(path)
    assert source.row_labels.tolist() == ['"Weird Al" Y.', '6" pipe']
    assert "as they are" in told(source)["quotation marks"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a,b\n1,"x, y\n2,z\n', 2),  # never closed
        ('"a","b"\n"u\\"v",1\n"w",2\n', 2),  # escaped in another way
        ('a,b\n1,2\n3, "x, y"\n', 3),  # a space before it
        ('# note\n\na,b\n"x\ny",1\n"z"z,"1,2"\n', 6),
    ],
)
def test_quotes_that_cannot_be_read_are_told_with_their_line(put, text, line):
    """The line is that of the file, whatever was skipped before."""
    message = refused(put(text))
    assert f"the quotation mark in line {line} neither opens nor closes" in message


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 1 << 24])
def test_lines_are_cut_alike_in_pieces_of_any_size(monkeypatch, piece):
    """Fields, blank lines and quotes are found also where a piece of the file ends."""
    monkeypatch.setattr(lines_module, "PIECE", piece)
    text = 'a,b\n"x,\n""y",1\n\nz,\n  \n"",2'
    found = cut_lines(text.encode(), ",", quoted=True)
    assert isinstance(found, Fields)
    assert (found.data, found.lines) == (b'a,b\n"x,\n""y",1\nz,\n"",2', 4)
    for bad, place in (
        (b'a,b\nx,"y" \n', 8),  # a space behind it
        (b'a,b\nx, "y"\n', 7),
        (b'a,b\nx"y,1\n', 5),
        (b'a,b\n"x,1\n2,3\n', 4),  # never closed
        (b'"a","b"\n"x\\"y","1"\n', 11),
    ):
        assert cut_lines(bad, ",", quoted=True) == Misplaced(place)
    ragged = cut_lines(b"a,b\n1,2\n3\n1,2,3\n\n", ",", quoted=False)
    assert ragged == Ragged(begin=8, fields=1, expected=2, count=2)


# -------------------------------------------------------------------- ragged
@pytest.mark.parametrize(
    ("text", "line", "count", "fields"),
    [
        ("a,b,c\n1,2,3\n1,2\n", 3, 1, 2),
        ("a,b,c\n1,2,3,4\n1,2,3\n1,2\n", 2, 2, 4),
        ("# x\n\na,b,c\n1,2,3\n\n1,2\n", 6, 1, 2),  # skipped and blank lines count
        ('a,b,c\n"x\ny",2,3\n"1",2\n', 4, 1, 2),  # so do those within quotes
        ('a,b,c\n"x\ny",2\n1,2,3\n', 2, 1, 2),  # the line where the row begins
        ("a,b,c\r\n1,2,3\r\n1,2,3,\r\n", 3, 1, 4),
        ("1,2\n3\n", 2, 1, 1),
    ],
)
def test_ragged_lines_are_told_by_number(put, text, line, count, fields):
    """How many there are, the first of them as an editor counts, and how many fields it has."""
    message = refused(put(text))
    assert f"{count} line(s) do not have" in message
    assert f"the first is line {line}, with {fields}" in message
    assert "--delimiter" in message


def test_what_was_made_of_a_file_is_checked(put, monkeypatch):
    """Should the reader of tables lose lines, that is an error and not a smaller table."""
    whole = pl.read_csv
    monkeypatch.setattr(pl, "read_csv", lambda *args, **more: whole(*args, **more).head(2))
    assert "it has 3 rows, but 1 came out" in refused(put("a,b\n1,2\n3,4\n5,1\n"))


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


# -------------------------------------------------------------------- layouts
U_DATA = "196\t242\t3\t881250949\n186\t302\t3\t891717742\n22\t242\t1\t878887116\n186\t242\t5\t880606923\n"


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


# -------------------------------------------------------------------- other formats
X = np.array([[1, np.nan, 3], [np.nan, 5, 0]])
A = sp.coo_array(([1.0, 3, 5, 0], ([0, 0, 1, 1], [0, 2, 1, 2])), shape=(2, 4))


def saved(save: Callable[..., Any], *args: Any, **more: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *args, **more)
    return buffer.getvalue()


def polars_bytes(method: str, table: Any) -> bytes:
    buffer = io.BytesIO()
    getattr(table, method)(buffer)
    return buffer.getvalue()


FRAME = pl.DataFrame({"id": ["ann", "bob"], "a": [1, None], "b": [None, 5], "c": [3, 0]})
BINARY = {
    "parquet": polars_bytes("write_parquet", FRAME),
    "arrow": polars_bytes("write_ipc", FRAME),
    "arrow stream": polars_bytes("write_ipc_stream", FRAME),
    "npz": saved(np.savez, X=X),
    "npy": saved(np.save, X),
    "sparse npz": saved(sp.save_npz, A.tocsr()),
    "mtx": saved(mmwrite, A),
    "dense mtx": saved(mmwrite, np.nan_to_num(X, nan=-9)),
}


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrow stream"])
def test_files_of_columns(put, kind):
    """Known by their content, not by their name."""
    source = wide(put(BINARY[kind], "x.txt"), ["0:5"])
    assert told(source)["format"] == kind.split()[0]
    assert source.row_labels.tolist() == ["ann", "bob"]
    np.testing.assert_array_equal(dense(source, "0:5"), X)


@pytest.mark.parametrize(("kind", "first"), [("npz", 0), ("npy", 0), ("dense mtx", 1)])
def test_dense_matrices(put, kind, first):
    """NaN is missing, codes too; rows and columns are counted as the format does, and that is told."""
    source = wide(put(BINARY[kind], "x"), ["0:5"], missing=["-9"])
    np.testing.assert_array_equal(dense(source, "0:5"), X)
    assert source.values.columns == [str(j + first) for j in range(3)]
    assert source.row_labels.tolist() == [first, first + 1]
    assert f"counted from {first}" in told(source)["column names"]
    assert f"counted from {first}" in told(source)["row labels"]


def test_a_matrix_has_no_labels(put):
    """Its first column is one of values, whatever stands in it; and its rows are no triplets."""
    assert "2 value(s) not in" in refused(put(saved(np.save, np.array([[9, 1], [8, 2]]))))
    three = np.array([[7, 1, 5], [7, 2, 4], [8, 1, 3]])
    assert wide(put(saved(np.save, three)), ["any"]).shape == (3, 3)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float16", "float32"])
def test_dense_matrices_of_any_type(put, dtype):
    """Small types and booleans, too."""
    np.testing.assert_array_equal(dense(wide(put(saved(np.save, np.eye(3, dtype=dtype))), ["0,1"]), "0,1"), np.eye(3))


@pytest.mark.parametrize(("kind", "first"), [("sparse npz", 0), ("mtx", 1)])
def test_sparse_matrices(put, kind, first):
    """What is not stored is missing, a stored 0 is known, empty lanes stay."""
    source = cells(put(BINARY[kind], "x"), ["0:5"])
    assert source.shape == (2, 4)
    assert source.row_labels.tolist() == [first, first + 1]
    np.testing.assert_array_equal(dense(source, "0:5")[:, :3], X)
    assert f"positions count from {first}" in told(source)["layout"]
    assert np.isnan(dense(cells(put(BINARY[kind], "x"), ["0:5"], missing=["0"]), "0:5")[1, 2])
    assert "no --layout wide" in refused(put(BINARY[kind], "x"), layout="wide")


def test_sparse_matrices_with_oddities(put):
    """NaN that is stored is missing, a cell stored twice is an error or the last counts, nothing stored is told."""
    odd = sp.coo_array(([1.0, np.nan, 2, 3], ([0, 0, 1, 1], [0, 1, 1, 1])), shape=(2, 2))
    path = put(saved(mmwrite, odd), "x.mtx")
    assert "1 cell(s) are given twice, the first is row '2', column '2', again in entry 4" in refused(path)
    np.testing.assert_array_equal(dense(cells(path, duplicates="last")), [[1, np.nan], [np.nan, 3]])
    assert "no value of its 0 entries is known" in refused(put(saved(mmwrite, sp.coo_array((2, 2))), "y.mtx"))


def test_excel_round_trip(tmp_path):
    """Numbers, text, empty cells and dates come back as they were; wide and triplets."""
    pytest.importorskip("fastexcel")
    pytest.importorskip("xlsxwriter")
    table = FRAME.with_columns(pl.Series("on", ["2020-01-01", "2020-01-02"]).str.to_date(), empty=pl.lit(None))
    path = str(tmp_path / "x.xlsx")
    write_frame(table, path, "excel")
    source = wide(path, ["0:5"], leave=["on"])
    assert told(source)["format"] == "excel"
    np.testing.assert_array_equal(dense(source, "0:5")[:, :3], X)
    assert source.given["on"].equals(table["on"])
    write_frame(pl.DataFrame({"user": ["a", "a", "b"], "item": [1, 2, 1], "rating": [5, None, 4]}), path, "excel")
    np.testing.assert_array_equal(dense(cells(path)), [[5, np.nan], [4, np.nan]])


def test_sheets_of_a_workbook(tmp_path):
    """The first, or the one that is named; others are told of, and so is one that is not there."""
    pytest.importorskip("fastexcel")
    writer = pytest.importorskip("xlsxwriter")
    path = str(tmp_path / "x.xlsx")
    with writer.Workbook(path) as book:
        book.add_worksheet("notes").write(0, 0, "read me")
        sheet = book.add_worksheet("answers")
        for row, line in enumerate([["id", "a", "b"], ["x", 1, 2], ["y", None, 4]]):
            sheet.write_row(row, 0, line)
    assert "x.xlsx is empty: it has 0 rows and 1 columns (sheet 'notes'; --sheet if another: 'answers')" in refused(
        path
    )
    source = wide(path, sheet="answers")
    np.testing.assert_array_equal(dense(source), [[1, 2], [np.nan, 4]])
    assert told(source)["sheet"] == "'answers'"
    assert "has no sheet 'b', which --sheet names; its sheets are 'notes', 'answers'" in refused(path, sheet="b")


def test_only_a_workbook_has_sheets(put):
    """A sheet that is named for another file is a mistake."""
    for kind in ("csv", *BINARY):
        assert "has no sheets: leave out --sheet" in refused(put(BINARY.get(kind, "a,b\n1,2\n"), "x"), sheet="a")


def test_a_comma_for_a_point_is_told(put):
    """As tables of many countries have it."""
    message = refused(put("id;a;b\nx;1,0;2\ny;;3\n"))
    assert "'1,0' in row 'x'. Write decimals with a point" in message


@pytest.mark.parametrize("kind", BINARY)
def test_damaged_files_are_told(put, kind):
    """Cut in half, or with bytes in the middle changed: one sentence, and no other exception."""
    whole = BINARY[kind]
    half = put(whole[: len(whole) // 2], "half")
    assert "half" in refused(half, ["0:5"])
    for place in range(8, len(whole), max(1, len(whole) // 40)):
        spoiled = whole[:place] + bytes([whole[place] ^ 0xFF] * 4) + whole[place + 4 :]
        try:
            found = read(put(spoiled, "spoiled"), ["0:5"])
            found.observations("0:5")
        except ValueError as err:
            assert "\n" not in str(err)  # noqa: PT017  it may be damaged where it does not matter


def test_a_damaged_excel_file_is_told(tmp_path, put):
    """Also where the archive is whole but not what it says."""
    pytest.importorskip("fastexcel")
    pytest.importorskip("xlsxwriter")
    whole = polars_bytes("write_excel", FRAME)
    assert "half.xlsx: this looks like an Excel or NPZ file, but is damaged" in refused(
        put(whole[: len(whole) // 2], "half.xlsx")
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("xl/workbook.xml", "no")
    assert "cannot be read as excel" in refused(put(buffer.getvalue(), "x.xlsx"))


@pytest.mark.parametrize("kind", ["parquet", "arrow", "mtx", "npz", "excel"])
def test_a_format_that_is_said_but_not_there(put, kind):
    """Text that is called something else."""
    if kind == "excel":
        pytest.importorskip("fastexcel")
    message = refused(put("a,b\n1,2\n"), format=kind)
    assert f"x.csv cannot be read as {kind}: " in message


def test_archives_and_several_arrays(put):
    """Not looked into."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("ml-100k/u.data", U_DATA)
    assert "x.zip is an archive (of 'ml-100k/u.data'): unpack it" in refused(put(buffer.getvalue(), "x.zip"))
    message = refused(put(saved(np.savez, X=X, Y=X), "x.npz"))
    assert "it holds 2 arrays (X, Y): one is needed" in message


@pytest.mark.parametrize(
    "array", [np.zeros(3), np.zeros((2, 2, 2)), np.ones((2, 2), complex), np.array([["a"]]), np.zeros((0, 3))]
)
def test_arrays_that_are_no_tables(put, array):
    """One dimension, three, complex numbers, text, nothing."""
    assert "expected a two-dimensional array of numbers, got shape" in refused(put(saved(np.save, array), "x.npy"))
    if array.dtype.kind == "c":
        assert "two-dimensional array of numbers" in refused(put(saved(mmwrite, sp.coo_array(array)), "x.mtx"))


def test_objects_are_not_loaded(put):
    """An array of objects would run code."""
    data = saved(np.save, np.array([[{}]], dtype=object), allow_pickle=True)
    assert "cannot be read as npz" in refused(put(data, "x.npy"))


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing\n", "  \n", "\ufeff"])
def test_empty_files(put, content):
    """No table in it."""
    assert "x.csv is empty: there is no table in it" in refused(put(content))


def test_names_without_rows(put):
    """In every format."""
    assert "has a line of names, but no row below it" in refused(put("a,b,c\n"))
    assert "is empty: it has 0 rows" in refused(put(polars_bytes("write_parquet", FRAME.head(0)), "x.parquet"))
    assert "1 row" not in refused(put("a,b,c\n", "y.csv"))


def test_no_such_file_and_a_folder(tmp_path):
    """What is not there, and what is no file."""
    with pytest.raises(FileNotFoundError):
        read(str(tmp_path / "none.csv"))
    assert "is a folder: name a file" in refused(str(tmp_path))


def test_standard_input(monkeypatch):
    """Any format through a pipe."""
    for data in (b"id,a,b\nann,1,2\nbob,3,\n", BINARY["parquet"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        source = wide("-", ["0:5"])
        assert source.where == "standard input"
        assert source.row_labels.tolist() == ["ann", "bob"]


def test_formats_by_content_and_name():
    """What the first bytes and the last letters say."""
    assert [format_of(data) for data in BINARY.values()] == [
        *("parquet", "arrow", "arrow", "npz", "npz", "npz", "mtx", "mtx")
    ]
    assert suffix_format("A/B.CSV") == "csv"
    assert suffix_format("x.unknown") is None


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


# -------------------------------------------------------------------- output
def test_the_format_to_write_follows_from_the_name():
    """Or from what is asked."""
    known = {"x.csv": "csv", "x.TSV": "tsv", "x.tab": "tsv", "a/b.parquet": "parquet", "x.feather": "arrow"}
    known |= {"x.npz": "npz", "x.npy": "npz", "x.mtx": "mtx", "x.xlsx": "excel", "-": "csv"}
    assert {path: output_format(path, None) for path in known} == known
    assert output_format("x", "parquet") == "parquet"
    for path in ("x", "x.csv.gz", "x.doc"):
        with pytest.raises(ValueError, match=r"does not follow from its name: end it in \.csv"):
            output_format(path, None)
    with pytest.raises(ValueError, match="no output format 'doc'; there are csv"):
        output_format("x.csv", "doc")
    with pytest.raises(ValueError, match="npz holds a matrix"):
        table_format("x.npz", None)


def test_where_nothing_may_be_written(tmp_path, put):
    """Over the input, in a folder's place, below a file."""
    path = put("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is the input, which would be lost"):
        check_output(f"{Path(path).parent}/../0/x.csv", [path], force=False)
    check_output(path, [path], force=True)
    check_output(path, [str(tmp_path / "other.csv"), "-"], force=False)
    path = str(Path(path).rename(tmp_path / "x.csv"))
    (tmp_path / "link.csv").symlink_to(path)
    with pytest.raises(ValueError, match="is the input"):
        check_output(str(tmp_path / "link.csv"), [path], force=False)
    with pytest.raises(ValueError, match="is a folder: name a file in it"):
        check_output(str(tmp_path), [], force=False)
    with pytest.raises(ValueError, match=r"x\.csv is not a folder that can be written to"):
        check_output(f"{path}/y.csv", [], force=False)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "arrow", "excel"])
def test_what_is_written_can_be_read(tmp_path, kind):
    """Whole, and in pieces, an empty one included."""
    if kind == "excel":
        pytest.importorskip("fastexcel")
        pytest.importorskip("xlsxwriter")
    table = pl.DataFrame({"user": ["a,b", "c"], "item": ["x\ty", "z"], "rating": [5, None]})
    path = str(tmp_path / "x")
    write_frame(table, path, kind)
    expected = table.cast(pl.String).rows() if kind in ("csv", "tsv") else table.rows()
    assert frame(path).rows() == expected
    assert write_pieces(iter([table.head(0), table.head(1), table.tail(1)]), path, kind) == 2
    assert frame(path).rows() == expected
    assert write_pieces(iter([table.head(0)]), path, kind) == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


@pytest.mark.parametrize("name", ["x.npz", "x.npy", "x.mtx"])
def test_matrices_can_be_read_again(tmp_path, name):
    """Numbers as they are; .npy is no archive."""
    path, whole = str(tmp_path / name), np.array([[1, 2], [3, 5]], dtype=np.int8)
    write_array(whole, path, output_format(path, None))
    np.testing.assert_array_equal(dense(wide(path)), whole)
    if name == "x.npy":
        np.testing.assert_array_equal(np.load(path), whole)


def test_a_sheet_has_an_end(tmp_path):
    """What Excel cannot hold is refused, not cut."""
    with pytest.raises(ValueError, match=r"holds 1,048,575 rows and 16,384 columns, this table has 1 and 16,385"):
        write_frame(pl.DataFrame({str(j): [1] for j in range(16_385)}), str(tmp_path / "x.xlsx"), "excel")
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_disk_name_the_file():
    """Others stay as they are."""
    with pytest.raises(OSError, match="No space left") as caught, writing("out.csv"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "out.csv")
    for other in (RuntimeError("other"), OSError("of no number")):
        with pytest.raises(type(other), match=str(other)), writing("out.csv"):
            raise other


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("buffering", [-1, 0])
def test_standard_output_that_takes_no_more(tmp_path, monkeypatch, kind, buffering):
    """An error says so, and never a part is taken for the whole; with a buffer, and without one."""
    resource = pytest.importorskip("resource")
    table = pl.DataFrame({f"column {j}": [j % 3] * 50 for j in range(500)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    out = (tmp_path / "out").open("wb", buffering=buffering)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_frame(table, "-", kind)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        with contextlib.suppress(OSError):
            out.close()
    assert in_plain_words(caught.value).startswith("standard output: the file would be larger than is allowed here: ")
    assert "what arrived there is not whole" in in_plain_words(caught.value)


@pytest.mark.parametrize("write", [write_frame, lambda table, *rest: write_pieces(iter([table, table]), *rest)])
@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_a_disk_that_takes_no_more(tmp_path, kind, write):
    """The error has its number however polars words it, also where it writes from threads of its own."""
    resource = pytest.importorskip("resource")
    table = pl.DataFrame({f"column {j}": np.random.default_rng(j).random(2000) for j in range(20)})
    limits, path = resource.getrlimit(resource.RLIMIT_FSIZE), tmp_path / f"out.{kind}"
    path.write_text("what was there")
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write(table, str(path), kind)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert [one.read_text() for one in tmp_path.iterdir()] == ["what was there"]


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
