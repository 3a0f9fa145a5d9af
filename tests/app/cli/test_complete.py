"""`snapimpute complete`: from any format to any, what comes back, and alphabets."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite

from tests.app.cli.running import (
    COUNTED,
    FAST,
    FIVE,
    FRAMES,
    LONG,
    MATRICES,
    MIXED,
    WIDE,
    M,
    N,
    frame,
    gaps,
    get,
    left_over,
    one_line,
    put,
    whole,
)


# -------------------------------------------------------------------- complete
def to_write(given: str, into: list[str]) -> list[str]:
    """Every format from three kinds of input, and from the others one frame and one matrix."""
    return into if given in (".csv", ".parquet", ".npz") else [".csv", ".npz"]


@pytest.mark.slow
@pytest.mark.parametrize("given", [*FRAMES, *MATRICES])
def test_complete_wide_tables_from_any_format_to_any(snap, wide_frame, ratings, library, given):
    """The same numbers come out of all of them, known cells as they were, labels and names where there were any."""
    labels = WIDE if given in FRAMES else COUNTED if given == ".mtx" else (None, [f"{j}" for j in range(N)])
    completed = library(*labels).transform(ratings)
    put(f"in{given}", wide_frame, ratings)
    for suffix in to_write(given, [*FRAMES, *MATRICES]):
        snap("complete", f"in{given}", "-o", f"out{suffix}", *FIVE, "--missing", "-9", "-q")
        np.testing.assert_array_equal(get(f"out{suffix}", named=given in FRAMES), completed)
        if suffix in FRAMES and given in FRAMES:
            table = frame(f"out{suffix}")
            assert table.columns == wide_frame.columns
            assert table["who"].to_list() == wide_frame["who"].to_list()
    assert left_over() == set()


@pytest.mark.slow
@pytest.mark.parametrize("given", [*FRAMES, ".npz", ".mtx"])
def test_complete_triplets_from_any_format_to_any(snap, long_frame, ratings, library, given):
    """The missing cells come out as triplets with the labels of the input, or the whole as a matrix."""
    labels = LONG if given in FRAMES else COUNTED if given == ".mtx" else ()
    completed = library(*labels).transform(ratings)
    if given in MATRICES:
        rows, cols = np.nonzero(~np.isnan(ratings))
        A = sp.coo_array((ratings[rows, cols], (rows, cols)), shape=(M, N))
        (sp.save_npz if given == ".npz" else mmwrite)(f"in{given}", A)
    else:
        put(f"in{given}", long_frame)
    first = 1 if given == ".mtx" else 0
    for suffix in to_write(given, [*FRAMES, ".npz", ".mtx"]):
        done = snap("complete", f"in{given}", "-o", f"out{suffix}", *FIVE, "--json").json
        assert (done["layout"], done["filled"], done["left_open"]) == ("triplets", int(np.isnan(ratings).sum()), 0)
        if suffix in MATRICES:
            np.testing.assert_array_equal(get(f"out{suffix}"), completed)
            continue
        table = frame(f"out{suffix}")
        assert table.columns == (["row", "column", "value"] if given in MATRICES else ["user", "item", "rating"])
        if given in MATRICES:
            table = table.with_columns(pl.col("row") - first, pl.col("column") - first + 100)
        np.testing.assert_array_equal(whole(table), np.where(np.isnan(ratings), completed, np.nan))
    assert left_over() == set()


def test_known_cells_names_and_order_stay(snap):
    """Text as it was written, columns left alone, an index in the middle; only missing cells are new."""
    given = 'q1, q2,note,id,q3\n05,1.0,a b,x,\n,2.0,"c,d",y,3\n1,,,z,4\n2,3.0,-,w,\n'
    Path("in.csv").write_text(given)
    snap("complete", "in.csv", "-o", "out.csv", *FIVE, "--index", "id", "--leave", "note")
    before, after = (list(csv.reader(text.splitlines())) for text in (given, Path("out.csv").read_text()))
    assert after[0] == ["q1", "q2", "note", "id", "q3"]
    for old, new in zip(before[1:], after[1:], strict=True):
        assert [b for a, b in zip(old, new, strict=True) if a] == [a for a in old if a]
        assert new[0] in {"05", "1", "2", "3", "4", "5"}
        assert new[1] in {"1.0", "2.0", "3.0", "4.0", "5.0"}
    assert after[3][2] == ""


def test_a_table_without_names_comes_back_without(snap, ratings, library):
    """What has no line of names gets none; triplets get names that say what they are."""
    text = "\n".join(";".join("" if np.isnan(x) else f"{x:g}" for x in row) for row in ratings)
    Path("in.csv").write_text(text + "\n")
    snap("complete", "in.csv", "-o", "out.csv", *FIVE)
    lines = Path("out.csv").read_text().splitlines()
    assert len(lines) == M
    completed = library(*COUNTED).transform(ratings)
    np.testing.assert_array_equal([list(map(int, line.split(","))) for line in lines], completed)
    rows, cols = np.nonzero(~np.isnan(ratings))
    triples = zip(rows, cols + 100, ratings[rows, cols], strict=True)
    Path("u.data").write_text("".join(f"{i}\t{j}\t{x:g}\t881250949\n" for i, j, x in triples))
    snap("complete", "u.data", "-o", "out.tsv", *FIVE)
    table = frame("out.tsv")
    assert table.columns == ["row", "column", "value"]
    completed = library(None, LONG[1]).transform(ratings)
    np.testing.assert_array_equal(whole(table), np.where(np.isnan(ratings), completed, np.nan))


def test_types_of_parquet_stay(snap, wide_frame):
    """Small integers come back as such."""
    small = wide_frame.with_columns(pl.selectors.integer().cast(pl.Int8))
    small.write_parquet("in.parquet")
    snap("complete", "in.parquet", "-o", "out.parquet", *FIVE)
    assert pl.read_parquet("out.parquet").schema == small.schema


def test_pipes(snap, wide_frame, ratings, library):
    """In and out; standard output has the table and nothing else, all talk goes beside it."""
    completed = library(*WIDE).transform(ratings)
    data = wide_frame.write_csv().encode()
    done = snap("complete", "-", "-o", "-", *FIVE, stdin=data)
    np.testing.assert_array_equal(pl.read_csv(io.BytesIO(done.stdout)).drop("who").to_numpy(), completed)
    assert done.err.startswith("read standard input: format csv")
    assert "wrote standard output" in done.err
    done = snap("complete", "-", "-o", "-", "--to", "parquet", *FIVE, "--json", stdin=data)
    np.testing.assert_array_equal(pl.read_parquet(io.BytesIO(done.stdout)).drop("who").to_numpy(), completed)
    assert json.loads(done.err)["output"] == "standard output"
    for kind in ("tsv", "arrow", "npz", "mtx"):
        assert snap("complete", "-", "-o", "-", "--to", kind, *FIVE, "-q", stdin=data).stdout


def test_triplets_through_pipes(snap, long_frame):
    """Streamed formats, too."""
    data = long_frame.write_csv().encode()
    plain = pl.read_csv(io.BytesIO(snap("complete", "-", "-o", "-", *FIVE, stdin=data).stdout))
    for kind, read in (("parquet", pl.read_parquet), ("arrow", pl.read_ipc)):
        done = snap("complete", "-", "-o", "-", "--to", kind, *FIVE, "-q", stdin=data)
        assert read(io.BytesIO(done.stdout)).rows() == plain.rows()
        assert done.err == ""


def test_chosen_cells(snap, long_csv, library):
    """--cells with and without a line of names, in their order; also cells that are known."""
    asked = [("u3", 105), ("u0", 101), ("u9", 109), ("u3", 104)]
    expected = library(*LONG).predict([3, 0, 9, 3], [5, 1, 9, 4]).astype(int).tolist()
    for head in ("a,b\n", ""):
        Path("cells.csv").write_text(head + "".join(f"{row},{col}\n" for row, col in asked))
        snap("complete", long_csv, "-o", "out.csv", "--cells", "cells.csv", *FIVE)
        table = frame("out.csv")
        assert list(zip(table["user"], table["item"], strict=True)) == asked
        assert table["rating"].to_list() == expected
    Path("cells.tsv").write_text("u3\t105\tmore\n")
    snap("complete", long_csv, "-o", "out.parquet", "--cells", "cells.tsv", *FIVE)
    assert frame("out.parquet").rows() == [("u3", 105, expected[0])]


def test_the_best_cells_of_each_row(snap, long_csv, ratings, fitted):
    """--top gives for every row the missing cells with the highest estimates, best first."""
    snap("complete", long_csv, "-o", "out.csv", "--top", 2, *FIVE)
    table = frame("out.csv")
    for i in range(M):
        found = table.filter(pl.col("user") == f"u{i}")["item"].to_list()
        assert found == (fitted.recommend(i, 2) + 100).tolist()
        assert len(found) == min(2, int(np.isnan(ratings[i]).sum()))


def test_probabilities(snap, long_csv, ratings, library):
    """Those of the symbols that were written."""
    snap("complete", long_csv, "-o", "out.csv", "--probability", *FIVE)
    table = frame("out.csv")
    rows, cols = np.nonzero(np.isnan(ratings))
    assert table.columns == ["user", "item", "rating", "probability"]
    likeliest = library(*LONG).predict_proba(rows, cols).max(axis=1)
    np.testing.assert_allclose(table["probability"], likeliest, atol=6e-5)


def test_cells_that_are_not_sure_enough_stay_open(snap, wide_csv, long_csv, ratings):
    """In wide tables as they were, in triplets without a value; how many is said."""
    sure = ["--min-confidence", "0.6"]
    done = snap("complete", wide_csv, "-o", "out.csv", *FIVE, *sure, "--json").json
    table = frame("out.csv").drop("who")
    open_ = gaps(table)
    assert 0 < open_ == done["left_open"] < np.isnan(ratings).sum()
    assert done["filled"] == np.isnan(ratings).sum() - open_
    done = snap("complete", long_csv, "-o", "out.parquet", *FIVE, *sure, "--probability", "--json").json
    table = frame("out.parquet")
    assert 0 < table["rating"].null_count() == table["probability"].null_count() == done["left_open"]
    assert table.drop_nulls()["probability"].min() >= 0.6
    assert "left open" in snap("complete", long_csv, "-o", "out.npz", *FIVE, *sure).out
    assert int(np.isnan(np.load("out.npz")["X"]).sum()) == done["left_open"]
    Path("open.csv").write_text(Path(wide_csv).read_text().replace(",,", ",?,").replace(",,", ",?,"))
    snap("complete", "open.csv", "-o", "out.csv", *FIVE, *sure, "--missing", "?")
    assert "?" in Path("out.csv").read_text()


def test_a_table_without_gaps(snap, long_frame):
    """Nothing to do is no error: the table comes back, and triplets are a line of names; in every format."""
    pl.DataFrame({"who": ["a", "b", "c"], "q": [1, 2, 3], "p": [5, 4, 3]}).write_csv("in.csv")
    assert "0 cells filled in" in snap("complete", "in.csv", "-o", "out.csv", *FIVE).out
    assert Path("out.csv").read_text() == Path("in.csv").read_text()
    rows = [(f"u{i}", f"i{j}", 1 + (i + j) % 5) for i in range(4) for j in range(4)]
    pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row").write_csv("in.csv")
    for suffix in [one for one in FRAMES if one != ".tsv"]:
        snap("complete", "in.csv", "-o", f"out{suffix}", *FIVE)
        table = frame(f"out{suffix}")
        assert (table.columns, table.height) == (["user", "item", "rating"], 0)


def test_the_same_seed_gives_the_same_bytes(snap, wide_csv):
    """With tuning."""
    for name in ("a.csv", "b.csv"):
        assert snap("complete", wide_csv, "-o", name, "-a", "1:5", "--seed", 3, "--json").json["seed"] == 3
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


# -------------------------------------------------------------------- alphabets
def test_columns_with_alphabets_of_their_own(snap, survey):
    """Numbers, labels and a column of any numbers in one wide table; each is filled with its own kind."""
    survey.write_csv("in.csv")
    done = snap("complete", "in.csv", "-o", "out.parquet", *MIXED)
    assert "6 columns: 1, 2, 3, 4, 5; 1 column: 'f', 'm'; 1 column: any number" in done.out
    survey.write_parquet("in.parquet")
    snap("complete", "in.parquet", "-o", "typed.parquet", *MIXED)
    text, typed = pl.read_parquet("out.parquet"), pl.read_parquet("typed.parquet")
    assert typed.schema == survey.schema
    assert text["sex"].to_list() == typed["sex"].to_list()
    assert set(text["sex"]) == {"f", "m"}
    assert set(typed["q1"]) <= {1, 2, 3, 4, 5}
    assert typed["age"].is_between(10, 50).all()
    assert text["age"].cast(pl.Float64).to_list() == typed["age"].to_list()
    assert "labels cannot be written as npz" in snap("complete", "in.csv", "-o", "x.npz", *MIXED, ok=False).err


def test_columns_with_alphabets_of_their_own_as_triplets(snap, survey):
    """The same one cell a line: the same symbols."""
    survey.write_csv("wide.csv")
    rows = [
        (row["id"], name, str(row[name])) for row in survey.to_dicts() for name in survey.columns[1:] if row[name]
    ]
    pl.DataFrame(rows, schema=["id", "what", "value"], orient="row").write_csv("long.csv")
    snap("complete", "wide.csv", "-o", "wide.parquet", *MIXED)
    snap("complete", "long.csv", "-o", "long.parquet", *MIXED, "--probability", "--model", "m.snap")
    filled = pl.read_parquet("wide.parquet").cast(pl.String).unpivot(index="id", variable_name="what")
    filled = {(a, b): c for a, b, c in filled.rows()}
    table = pl.read_parquet("long.parquet")
    assert table.columns == ["id", "what", "value", "probability"]
    assert table.height == gaps(survey)
    for row, col, value, p in table.rows():
        assert (p is None) == (col == "age")
        known = filled[row, col]
        assert float(value) == pytest.approx(float(known), rel=1e-3) if col == "age" else value == known
    Path("new.csv").write_text("id,what,value\nx,sex,f\nx,q1,1\ny,q2,5\ny,age,35\n")
    done = snap("predict", "m.snap", "new.csv")
    found = {(a, b): c for a, b, c in csv.reader(done.out.splitlines())}
    assert found["x", "q2"] in "12345"
    assert found["y", "sex"] in ("f", "m")
    assert 10 < float(found["x", "age"]) < 50
    assert ("x", "sex") not in found


def test_labels_in_triplets(snap):
    """An alphabet of labels, found out or given, from files to files."""
    rng = np.random.default_rng(0)
    rows = [(f"u{i}", f"v{j}", "ny"[(i + j) % 2]) for i in range(12) for j in range(8) if rng.random() < 0.6]
    pl.DataFrame(rows, schema=["row", "column", "value"], orient="row").write_csv("in.csv")
    table = pl.DataFrame(rows, schema=["row", "column", "value"], orient="row")
    table.write_csv("bare.csv", include_header=False)
    done = snap("complete", "bare.csv", "-o", "bare.csv.out", "--to", "csv", "-a", "n,y", "--lam", 0.5, "--json").json
    assert done["known"] == len(rows)
    for alphabet in ("n,y", "infer"):
        snap("complete", "in.csv", "-o", "out.csv", "-a", alphabet, "--lam", 0.5, "--xi", 0.01)
        table = frame("out.csv")
        assert table.height == 96 - len(rows)
        right = [value == "ny"[(int(r[1:]) + int(c[1:])) % 2] for r, c, value in table.rows()]
        assert np.mean(right) > 0.9


def test_any_numbers_in_all_columns(snap, wide_csv):
    """--alphabet any completes without symbols; it is not the same as saying nothing."""
    snap("complete", wide_csv, "-o", "out.csv", "-a", "any", "--lam", 1, "--center", "columns")
    assert gaps(frame("out.csv")) == 0
    done = snap("evaluate", wide_csv, "-a", "any", "--lam", 1, "--center", "columns")
    assert "RMSE" in done.out
    assert json.loads(snap("evaluate", wide_csv, "-a", "any", "--lam", 1, "--json").out)["ways"][0]["exact"] is None


def test_what_was_inferred_is_shown(snap, wide_csv):
    """--alphabet infer says what it found, and so does an alphabet that was forgotten."""
    done = snap("complete", wide_csv, "-o", "out.csv", "-a", "infer", *FAST)
    assert "alphabet: 10 columns: 1, 2, 3, 4, 5" in done.out
    assert json.loads(snap("complete", wide_csv, "-o", "out.csv", "-a", "infer", *FAST, "--json").out)[
        "alphabet"
    ] == [*(1, 2, 3, 4, 5)]
    done = snap("complete", wide_csv, "-o", "no.csv", *FAST, ok=False)
    assert done.code == 1
    assert "say what a cell can hold with --alphabet. In wide.csv was found: 10 columns: 1, 2," in done.err
    assert not Path("no.csv").exists()


def test_no_penalty_takes_no_strength(snap, wide_frame):
    """--discrete none with --xi 0 contradicts nothing; with another --xi it is refused in the command's words."""
    put("in.csv", wide_frame)
    without = ["complete", "in.csv", "-a", "1:5", "--lam", "2", "--center", "mean", "--discrete", "none", "-q"]
    snap(*without, "-o", "auto.csv")
    snap(*without, "-o", "zero.csv", "--xi", "0")
    assert Path("zero.csv").read_bytes() == Path("auto.csv").read_bytes()
    one_line(snap(*without, "-o", "more.csv", "--xi", "0.1", ok=False), "--xi 0.1 has no use with", "--xi auto")
