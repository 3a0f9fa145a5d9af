"""Refusals of every command: wrong options, tables and models that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from snapimpute.app.cli import _cells as cells
from snapimpute.app.cli.app import app
from tests.app.cli.running import FAST, FIVE, one_line


# -------------------------------------------------------------------- wrong options
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["complete", "in.csv", "-o", "x.csv", "-a", "5:1"], "must rise"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "-a", "0,1"], "two alphabets"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--lam", "much"], "--lam takes a number"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--xi", "-1"], "--xi takes a number, at least 0"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--xi", "nan"], "--xi takes a number"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--solver", "magic"], "--solver is one of auto"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--spectral", "x"], "--spectral is one of nuclear"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--discrete", "x"], "--discrete is one of l1"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--center", "x"], "--center is one of auto"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--decide", "x"], "--decide is one of accuracy"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--weights", "x"], "--weights is one of none"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--dtype", "x"], "--dtype is one of float64"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--alphabet-term", "x"], "--alphabet-term is one of"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--layout", "x"], "--layout is one of auto"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--format", "x"], "--format is one of csv"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--duplicates", "x"], "--duplicates is one of error"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--triplets", "a,b"], "--triplets names three columns"),
        (
            ["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--triplets", "a,b,c", "--layout", "wide"],
            "contradict each other",
        ),
        (["complete", "in.csv", "-o", "x.doc", "-a", "1:5"], "does not follow from its name"),
        (["complete", "in.csv", "-o", "x.csv", "--to", "doc", "-a", "1:5"], "no output format 'doc'"),
        (["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--cells", "c", "--top", "3"], "not both"),
        (["complete", "-", "-o", "x.csv", "-a", "1:5", "--cells", "-"], "can be read once"),
        (
            ["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--decide", "nearest", "--probability"],
            "no probabilities",
        ),
        (
            ["complete", "in.csv", "-o", "x.csv", "-a", "1:5", "--decide", "nearest", "--min-confidence", "0.5"],
            "needs probabilities",
        ),
        (["complete", "in.csv"], "Missing option '--out'"),
        (["predict", "m.snap"], "give a table with rows to complete, or --cells"),
        (["predict", "m.snap", "in.csv", "--cells", "c.csv"], "not both"),
        (["predict", "m.snap", "in.csv", "-a", "1:5"], "the model has its alphabet"),
        (["predict", "m.snap", "in.csv", "--layout", "x"], "--layout is one of auto"),
        (["predict", "m.snap", "--cells", "in.csv", "-o", "x.npz"], "npz holds a matrix"),
        (["recommend", "m.snap"], "give labels of rows, or --all"),
        (["recommend", "m.snap", "u1", "--all"], "not both"),
        (["recommend", "m.snap", "--all"], "say where with --out"),
        (["recommend", "m.snap", "--all", "-o", "x.mtx"], "mtx holds a matrix"),
        (["tune", "in.csv", "-a", "1:5", "-o", "x.npz"], "npz holds a matrix"),
        (["evaluate", "in.csv", "-a", "1:5", "--share", "1"], "share"),
        (["nothing"], "No such command"),
    ],
)
def test_wrong_options_are_exit_code_2(snap, arguments, words):
    """Before a file is read: there is none here; nothing is written."""
    done = snap(*arguments, ok=False)
    assert done.code == 2
    assert "".join(words.split()) in "".join(done.err.replace("│", "").split())
    assert done.out == ""
    assert os.listdir() == []


def test_exit_codes_are_documented(snap):
    """The help says what they mean, and no argument at all shows it."""
    done = snap("--help")
    assert "130 interrupted" in " ".join(done.out.replace("│", "").split())
    for command in app.registered_commands:
        words = snap(command.callback.__name__, "--help").out
        assert "Usage" in words
        assert "--quiet" in words
        assert "--json" in words
    assert snap("--version").out.startswith("snapimpute ")


# -------------------------------------------------------------------- errors a person can act on
BAD_TABLES = {
    "labels without an order": (
        "id,a,b\nx,low,high\ny,mid,low\nz,high,\n",
        ["-a", "a=infer", "-a", "b=infer"],
        ["in.csv", "found the labels", "from lowest to highest, such as --alphabet high,low"],
    ),
    "wrong delimiter": ("a,b\n1,2\n3,4\n", ["--delimiter", ";"], ["in.csv", "';'", "--delimiter 'comma'"]),
    "no delimiter": ("abc\ndef\n", [], ["in.csv", "no delimiter was found", "--delimiter"]),
    "ragged rows": ("a,b,c\n1,2,3\n1,2\n1,2,3,4\n", [], ["in.csv", "2 line(s)", "line 3, with 2", "Correct them"]),
    "text in numbers": (
        "id,a,b\nann,1,2\nbob,x,4\n",
        [],
        ["in.csv", "column 'a'", "'x' in row 'bob'", "--missing 'x'", "--leave 'a'"],
    ),
    "text in triplets": (
        "user,item,rating\na,x,5\na,y,good\nb,x,4\n",
        [],
        ["in.csv", "'good' at user 'a', item 'y'", "--missing 'good'"],
    ),
    "outside the alphabet": (
        "id,a,b\nann,1,7\nbob,9,4\n",
        [],
        ["in.csv", "2 value(s)", "9 at row 'bob', column 'a' (then 7 at row 'ann'", "is named with --missing"],
    ),
    "outside the labels": (
        "id,a\nann,f\nbob,x\n",
        ["-a", "a=f,m"],
        ["in.csv", "1 value(s) of the column 'a'", "'x' in row 'bob'", "--missing 'x'"],
    ),
    "outside in triplets": (
        "user,item,rating\na,x,5\na,y,9\nb,x,4\n",
        [],
        ["1 value(s)", "9 at row 'a', column 'y'", "--missing"],
    ),
    "all missing": ("a,b\n,NA\n,\n", [], ["in.csv", "no cell of its 2×2 table is known", "'NA'"]),
    "all missing triplets": (
        "user,item,rating\na,x,\nb,y,NA\n",
        [],
        ["in.csv", "no value of its 2 entries is known"],
    ),
    "no such column": (
        "id,a,b\nann,1,2\nbob,3,4\n",
        ["--leave", "x"],
        ["in.csv has no column 'x'", "'id', 'a', 'b'"],
    ),
    "no such index": ("id,a,b\nann,1,2\nbob,3,4\n", ["--index", "x"], ["no column 'x', which --index names"]),
    "no such triplet": ("id,a,b\nann,1,2\nbob,3,4\n", ["--triplets", "id,a,v"], ["'v', which --triplets names"]),
    "no such alphabet": ("id,a,b\nann,1,2\nbob,3,4\n", ["-a", "x=0,1"], ["names the column 'x', which is not there"]),
    "given twice": (
        "user,item,rating\na,x,5\na,x,4\nb,x,4\n",
        [],
        ["1 cell(s) are given twice", "--duplicates last"],
    ),
    "empty": ("", [], ["in.csv is empty"]),
    "names only": ("a,b\n", [], ["in.csv has a line of names, but no row"]),
    "not text": ("a\0b\n", [], ["in.csv is neither text nor"]),
    "bad quotes": ('a,b\n"x,1\n"y,2",3\n', [], ["in.csv", "the quotation mark in line 3", "check that each is"]),
    "no such encoding": ("a,b\n1,2\n", ["--encoding", "klingon"], ["no encoding 'klingon'"]),
    "cells of a wide table": ("id,a,b\nann,1,2\nbob,3,4\n", ["--top", "3"], ["--top", "is a wide table"]),
    "probability of a wide table": ("id,a,b\nann,1,2\nbob,3,4\n", ["--probability"], ["is a wide table"]),
    "labels without order": ("id,a,b\nann,x,y\nbob,z,x\n", ["-a", "infer"], ["not their order", "alphabet"]),
    "not latin": ("a,b\nx,1\nb\udcf3b,2\n", [], ["in.csv is not text in UTF-8", "line 3", "--encoding latin-1"]),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_tables_that_cannot_be_used(snap, case):
    """Each says which file, where in it, and what to do; nothing is written."""
    text, more, parts = BAD_TABLES[case]
    Path("in.csv").write_bytes(text.encode(errors="surrogateescape"))
    own = [] if any("infer" in one for one in more) else ["-a", "1:5"]
    for command in (["complete", "in.csv", "-o", "out.csv"], ["fit", "in.csv", "-m", "out.snap"]):
        if command[0] == "fit" and any(one in ("--top", "--probability") for one in more):
            continue
        one_line(snap(*command, *own, *more, *FAST, "-q", ok=False), *parts)
    assert os.listdir() == ["in.csv"]


@pytest.mark.parametrize(
    "data",
    [b"PAR1 and no more", b"ARROW1\0\0 and no more", b"\x93NUMPY no", b"PK\x03\x04 no", b"%%MatrixMarket no\n"],
    ids=["parquet", "arrow", "npy", "zip", "mtx"],
)
def test_damaged_files(snap, data):
    """Of every kind."""
    Path("in.dat").write_bytes(data)
    one_line(snap("complete", "in.dat", "-o", "out.csv", *FIVE, ok=False), "in.dat")
    assert os.listdir() == ["in.dat"]


def test_files_that_are_not_there(snap, wide_csv):
    """The table, the model, the cells; a folder in place of each; a folder where to write."""
    os.mkdir("folder")
    one_line(snap("complete", "none.csv", "-o", "x.csv", *FIVE, ok=False), "none.csv: there is no such file")
    one_line(snap("complete", "folder", "-o", "x.csv", *FIVE, ok=False), "folder is a folder: name a file")
    one_line(snap("predict", "none.snap", wide_csv, "-o", "x.csv", ok=False), "none.snap: there is no such file")
    one_line(snap("predict", "folder", wide_csv, "-o", "x.csv", ok=False), "folder: it is a folder")
    one_line(snap("complete", wide_csv, "-o", "folder", "--to", "csv", *FIVE, ok=False), "folder is a folder")
    one_line(snap("complete", wide_csv, "-o", "wide.csv/x.csv", *FIVE, ok=False), "wide.csv/x.csv cannot be written")
    snap("complete", wide_csv, "-o", "new/folder/x.csv", *FIVE)
    assert Path("new/folder/x.csv").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write everything")
def test_files_without_permission(snap, wide_csv):
    """They are told apart from those that are not there."""
    os.chmod(wide_csv, 0)
    one_line(snap("complete", wide_csv, "-o", "x.csv", *FIVE, ok=False), "wide.csv: it may not be read or written")


@pytest.mark.parametrize("content", [b"", b"no model", b"\x08\0\0\0\0\0\0\0{}      ", bytes(100)])
def test_unreadable_models(snap, wide_csv, content):
    """Something else, nothing, or one that was damaged: told with its name."""
    Path("m.snap").write_bytes(content)
    for command in (["predict", "m.snap", wide_csv, "-o", "x.csv"], ["recommend", "m.snap", "--all", "-o", "x.csv"]):
        one_line(snap(*command, ok=False), "m.snap is ", "model")
    assert not Path("x.csv").exists()


def test_damaged_models(snap, wide_csv):
    """Cut, or with one byte changed."""
    snap("fit", wide_csv, "-m", "m.snap", *FIVE)
    data = Path("m.snap").read_bytes()
    for spoiled in (data[:-10], data[:3000] + bytes([data[3000] ^ 1]) + data[3001:]):
        Path("m.snap").write_bytes(spoiled)
        one_line(snap("predict", "m.snap", wide_csv, "-o", "x.csv", ok=False), "m.snap is ", "damaged")


def test_rows_that_do_not_fit_a_model(snap, wide_csv, long_csv, wide_frame, fitted):
    """Columns missing or new, labels unknown, symbols outside the alphabet, probabilities of whole rows."""
    snap("fit", wide_csv, "-m", "w.snap", *FIVE)
    snap("fit", long_csv, "-m", "l.snap", *FIVE)
    predict = ["predict", "w.snap", "new.csv", "-o", "x.csv", "-q"]
    wide_frame.drop("q3").write_csv("new.csv")
    one_line(snap(*predict, ok=False), "new.csv has no column 'q3', which the model was fitted with", "add it, empty")
    wide_frame.with_columns(z=pl.lit(1)).write_csv("new.csv")
    one_line(snap(*predict, ok=False), "new.csv has a column 'z', which not", "--leave 'z'")
    wide_frame.with_columns(q3=pl.lit(9)).head(4).write_csv("new.csv")
    one_line(
        snap(*predict, ok=False), "new.csv: 4 value(s) not in", "9 at row 'r00', column 'q3' (then 9 at row 'r01'"
    )
    wide_frame.write_csv("new.csv")
    one_line(snap(*predict, "--probability", ok=False), "--probability is for cells; new.csv is a wide table")
    Path("new.csv").write_text("user,item,rating\nx,999,5\nx,101,4\n")
    one_line(
        snap("predict", "l.snap", "new.csv", "-o", "x.csv", "-q", ok=False), "1 column label(s) are not", "'999'"
    )
    Path("new.csv").write_text("user,item,rating\nx,102,5\nx,101,8\n")
    one_line(
        snap("predict", "l.snap", "new.csv", "-o", "x.csv", "-q", ok=False), "new.csv", "8 at row 'x', column 101"
    )
    one_line(snap("predict", "l.snap", "new.csv", "-o", "x.npz", "-q", ok=False), "cannot be written as npz")
    Path("cells.csv").write_text("user,item\nu1,101\nnobody,101\n")
    one_line(
        snap("predict", "l.snap", "--cells", "cells.csv", "-o", "x.csv", ok=False),
        "cells.csv: 1 row label(s) are not in the model, the first is 'nobody'; the model has 24, such as 'u0'",
    )
    one_line(snap("recommend", "l.snap", "nobody", ok=False), "'nobody'")
    Path("cells.csv").write_text("u1;101\nu2;102\n")
    snap("predict", "l.snap", "--cells", "cells.csv", "-o", "x.csv")
    Path("cells.csv").write_text("u1\n")
    one_line(snap("predict", "l.snap", "--cells", "cells.csv", "-o", "y.csv", ok=False), "cells.csv", "no delimiter")


def test_too_many_cells_are_refused_before_the_fit(snap, long_csv, monkeypatch):
    """With what to do instead; a fit that would be in vain does not begin."""
    snap("fit", long_csv, "-m", "m.snap", *FIVE)
    monkeypatch.setattr(cells, "MOST_CELLS", 50)
    monkeypatch.setattr(cells, "MAX_FILLED_CELLS", 200)
    done = snap("complete", long_csv, "-o", "x.csv", *FIVE, "-q", ok=False)
    one_line(done, "more than the 50 that are written", "--cells FILE", "--top 10", "snapimpute fit")
    snap("complete", long_csv, "-o", "x.csv", "--top", "2", *FIVE)
    one_line(snap("complete", long_csv, "-o", "y.csv", "--top", "3", *FIVE, "-q", ok=False), "more than the 50")
    Path("new.csv").write_text("".join(f"u{i},{100 + i % 3},{1 + i % 5}\n" for i in range(20)))
    one_line(snap("predict", "m.snap", "new.csv", "-o", "y.csv", "-q", ok=False), "fewer rows at a time")
    monkeypatch.setattr(cells, "MOST_CELLS", 1000)
    one_line(snap("complete", long_csv, "-o", "y.npz", *FIVE, "-q", ok=False), "of a dense matrix")
    one_line(
        snap("complete", long_csv, "-o", "y.npz", "--top", "2", *FIVE, "-q", ok=False), "npz holds a whole matrix"
    )
    assert {"y.csv", "y.npz"} & set(os.listdir()) == set()
