"""Text in files: delimiters, first lines, encodings, quotes and ragged rows."""

from __future__ import annotations

import csv
import gzip
import io

import numpy as np
import polars as pl
import pytest

from snapimpute.app.io import (
    Options,
    read_content,
)
from snapimpute.app.io import _lines as lines_module
from snapimpute.app.io._lines import Fields, Misplaced, Ragged, cut_lines
from snapimpute.app.io._sniff import as_text
from tests.app.io.reading import TABLE, VALUES, cells, dense, frame, refused, told, wide


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


@pytest.mark.slow
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
