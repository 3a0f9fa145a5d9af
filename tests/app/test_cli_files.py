"""Every command from files to files: what is written, what is said, what is refused, and what Ctrl-C leaves."""

from __future__ import annotations

import csv
import errno
import io
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console
from scipy.io import mmread, mmwrite

pytest.importorskip("typer", reason="the command line is an optional extra")
pytest.importorskip("polars", reason="the command line is an optional extra")
import polars as pl

import snapimpute as si
from snapimpute.app.cli import _cells as cells
from snapimpute.app.cli import _terminal as terminal
from snapimpute.app.cli import main
from snapimpute.app.cli.app import app
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.data.tables import read_table
from snapimpute.estimator.evaluation import evaluate

EXCEL = find_spec("fastexcel") is not None and find_spec("xlsxwriter") is not None
FAST = ["--lam", "2", "--xi", "0.01", "--center", "mean"]
FIVE = ["-a", "1:5", *FAST]
M, N = 24, 10


@dataclass
class Done:
    code: int
    stdout: bytes
    err: str

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


@pytest.fixture
def snap(monkeypatch, capsysbinary, tmp_path) -> Callable[..., Done]:
    """Run the command as the shell would, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: Any, stdin: bytes = b"", ok: bool = True) -> Done:
        monkeypatch.setattr(sys, "argv", ["snapimpute", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        said = capsysbinary.readouterr()
        done = Done(int(left.value.code or 0), said.out, said.err.decode())
        assert not ok or done.code == 0, done.err
        return done

    return run


@pytest.fixture(scope="module")
def ratings() -> Any:
    """A table of low rank, NaN where a cell is missing; one row and one column have all."""
    known = low_rank_alphabet((M, N), 2, "1:5", observed=0.6, random_state=0).observations
    X = np.full((M, N), np.nan)
    X[known.rows, known.cols] = known.values
    X[0], X[:, 0] = np.arange(N) % 5 + 1, np.arange(M) % 5 + 1
    return X


@pytest.fixture(scope="module")
def wide_frame(ratings) -> Any:
    columns = {f"q{j}": pl.Series(ratings[:, j], nan_to_null=True).cast(pl.Int64) for j in range(N)}
    return pl.DataFrame({"who": [f"r{i:02}" for i in range(M)], **columns})


@pytest.fixture(scope="module")
def long_frame(ratings) -> Any:
    rows, cols = np.nonzero(~np.isnan(ratings))
    values = ratings[rows, cols].astype(int)
    return pl.DataFrame({"user": [f"u{i}" for i in rows], "item": cols + 100, "rating": values})


@pytest.fixture
def wide_csv(snap, wide_frame) -> str:
    wide_frame.write_csv("wide.csv")
    return "wide.csv"


@pytest.fixture
def long_csv(snap, long_frame) -> str:
    long_frame.write_csv("long.csv")
    return "long.csv"


@pytest.fixture(scope="module")
def completed(ratings) -> Any:
    """What the library says."""
    return si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit_transform(ratings)


def put(path: str, table: Any, X: Any) -> None:
    """Write a wide table, or its matrix, in the format of a name."""
    suffix = Path(path).suffix
    if suffix in (".csv", ".tsv"):
        table.write_csv(path, separator="\t" if suffix == ".tsv" else ",")
    elif suffix == ".parquet":
        table.write_parquet(path)
    elif suffix == ".arrow":
        table.write_ipc(path)
    elif suffix == ".xlsx":
        table.write_excel(path)
    elif suffix == ".npz":
        np.savez(path, X=X)
    elif suffix == ".npy":
        np.save(path, X)
    else:
        mmwrite(path, np.nan_to_num(X, nan=-9))


def get(path: str, *, named: bool = True) -> Any:
    """Read a matrix, or the numbers of a wide table."""
    suffix = Path(path).suffix
    if suffix == ".npz":
        return np.load(path)["X"]
    if suffix == ".npy":
        return np.load(path)
    if suffix == ".mtx":
        return np.asarray(mmread(path, spmatrix=False))
    return frame(path, named=named).select(pl.selectors.numeric()).to_numpy()


def frame(path: str, *, named: bool = True) -> Any:
    suffix = Path(path).suffix
    if suffix == ".parquet":
        return pl.read_parquet(path)
    if suffix == ".arrow":
        return pl.read_ipc(Path(path).read_bytes())
    if suffix == ".xlsx":
        return pl.read_excel(path)
    return pl.read_csv(path, separator="\t" if suffix == ".tsv" else ",", has_header=named)


def whole(table: Any, shape: tuple[int, int] = (M, N)) -> Any:
    """Triplets of u0…, 100… as a matrix."""
    out = np.full(shape, np.nan)
    row, col, value = table.columns[:3]
    rows = [int(str(label).removeprefix("u")) for label in table[row]]
    out[rows, table[col].cast(pl.Int64).to_numpy() - 100] = table[value].cast(pl.Float64)
    return out


def left_over(folder: str = ".") -> set[str]:
    """Temporary files."""
    return {name for name in os.listdir(folder) if name.startswith(".")}


WIDE = [".csv", ".tsv", ".parquet", ".arrow", *([".xlsx"] if EXCEL else []), ".npz", ".npy", ".mtx"]
LONG = [one for one in WIDE if one != ".npy"]
excel = pytest.param(".xlsx", marks=pytest.mark.skipif(not EXCEL, reason="needs fastexcel and xlsxwriter"))


# -------------------------------------------------------------------- complete
@pytest.mark.parametrize("given", [".csv", ".tsv", ".parquet", ".arrow", excel, ".npz", ".npy", ".mtx"])
def test_complete_wide_tables_from_any_format_to_any(snap, wide_frame, ratings, completed, given):
    """The same numbers come out of all of them, known cells as they were, labels and names where there were any."""
    put(f"in{given}", wide_frame, ratings)
    for suffix in WIDE:
        snap("complete", f"in{given}", "-o", f"out{suffix}", *FIVE, "--missing", "-9", "-q")
        named = given not in (".npz", ".npy", ".mtx")
        np.testing.assert_array_equal(get(f"out{suffix}", named=named), completed)
        if suffix in (".csv", ".tsv", ".parquet", ".arrow", ".xlsx") and named:
            table = frame(f"out{suffix}")
            assert table.columns == wide_frame.columns
            assert table["who"].to_list() == wide_frame["who"].to_list()
    assert left_over() == set()


@pytest.mark.parametrize("given", [".csv", ".tsv", ".parquet", ".arrow", excel, ".npz", ".mtx"])
def test_complete_triplets_from_any_format_to_any(snap, long_frame, ratings, completed, given):
    """The missing cells come out as triplets with the labels of the input, or the whole as a matrix."""
    if given in (".npz", ".mtx"):
        rows, cols = np.nonzero(~np.isnan(ratings))
        A = sp.coo_array((ratings[rows, cols], (rows, cols)), shape=(M, N))
        (sp.save_npz if given == ".npz" else mmwrite)(f"in{given}", A)
    else:
        put(f"in{given}", long_frame, None)
    first = 1 if given == ".mtx" else 0
    for suffix in LONG:
        done = snap("complete", f"in{given}", "-o", f"out{suffix}", *FIVE, "--json").json
        assert (done["layout"], done["filled"], done["left_open"]) == ("triplets", int(np.isnan(ratings).sum()), 0)
        if suffix in (".npz", ".mtx"):
            np.testing.assert_array_equal(get(f"out{suffix}"), completed)
            continue
        table = frame(f"out{suffix}")
        if given in (".npz", ".mtx"):
            assert table.columns == ["row", "column", "value"]
            table = table.with_columns(pl.col("row") - first, pl.col("column") - first + 100)
        else:
            assert table.columns == ["user", "item", "rating"]
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


def test_a_table_without_names_comes_back_without(snap, ratings, completed):
    """What has no line of names gets none; triplets get names that say what they are."""
    text = "\n".join(";".join("" if np.isnan(x) else f"{x:g}" for x in row) for row in ratings)
    Path("in.csv").write_text(text + "\n")
    snap("complete", "in.csv", "-o", "out.csv", *FIVE)
    lines = Path("out.csv").read_text().splitlines()
    assert len(lines) == M
    np.testing.assert_array_equal([list(map(int, line.split(","))) for line in lines], completed)
    rows, cols = np.nonzero(~np.isnan(ratings))
    triples = zip(rows, cols + 100, ratings[rows, cols], strict=True)
    Path("u.data").write_text("".join(f"{i}\t{j}\t{x:g}\t881250949\n" for i, j, x in triples))
    snap("complete", "u.data", "-o", "out.tsv", *FIVE)
    table = frame("out.tsv")
    assert table.columns == ["row", "column", "value"]
    np.testing.assert_array_equal(whole(table), np.where(np.isnan(ratings), completed, np.nan))


def test_types_of_parquet_stay(snap, wide_frame):
    """Small integers come back as such."""
    small = wide_frame.with_columns(pl.selectors.integer().cast(pl.Int8))
    small.write_parquet("in.parquet")
    snap("complete", "in.parquet", "-o", "out.parquet", *FIVE)
    assert pl.read_parquet("out.parquet").schema == small.schema


def test_pipes(snap, wide_frame, completed):
    """In and out; standard output has the table and nothing else, all talk goes beside it."""
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


def test_chosen_cells(snap, long_csv, ratings, completed):
    """--cells with and without a line of names, in their order; also cells that are known."""
    asked = [("u3", 105), ("u0", 101), ("u9", 109), ("u3", 104)]
    imputer = si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit(ratings)
    expected = imputer.predict([3, 0, 9, 3], [5, 1, 9, 4]).astype(int).tolist()
    for head in ("a,b\n", ""):
        Path("cells.csv").write_text(head + "".join(f"{row},{col}\n" for row, col in asked))
        snap("complete", long_csv, "-o", "out.csv", "--cells", "cells.csv", *FIVE)
        table = frame("out.csv")
        assert list(zip(table["user"], table["item"], strict=True)) == asked
        assert table["rating"].to_list() == expected
    Path("cells.tsv").write_text("u3\t105\tmore\n")
    snap("complete", long_csv, "-o", "out.parquet", "--cells", "cells.tsv", *FIVE)
    assert frame("out.parquet").rows() == [("u3", 105, expected[0])]


def test_the_best_cells_of_each_row(snap, long_csv, ratings):
    """--top gives for every row the missing cells with the highest estimates, best first."""
    snap("complete", long_csv, "-o", "out.csv", "--top", 2, *FIVE)
    table = frame("out.csv")
    imputer = si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit(ratings)
    for i in range(M):
        found = table.filter(pl.col("user") == f"u{i}")["item"].to_list()
        assert found == (imputer.recommend(i, 2) + 100).tolist()
        assert len(found) == min(2, int(np.isnan(ratings[i]).sum()))


def test_probabilities(snap, long_csv, ratings):
    """Those of the symbols that were written."""
    snap("complete", long_csv, "-o", "out.csv", "--probability", *FIVE)
    table = frame("out.csv")
    imputer = si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit(ratings)
    rows, cols = np.nonzero(np.isnan(ratings))
    assert table.columns == ["user", "item", "rating", "probability"]
    np.testing.assert_allclose(table["probability"], imputer.predict_proba(rows, cols).max(axis=1), atol=6e-5)


def test_cells_that_are_not_sure_enough_stay_open(snap, wide_csv, long_csv, ratings):
    """In wide tables as they were, in triplets without a value; how many is said."""
    sure = ["--min-confidence", "0.6"]
    done = snap("complete", wide_csv, "-o", "out.csv", *FIVE, *sure, "--json").json
    table = frame("out.csv").drop("who")
    open_ = int(table.null_count().sum_horizontal()[0])
    assert 0 < open_ == done["left_open"] < np.isnan(ratings).sum()
    assert done["filled"] == np.isnan(ratings).sum() - open_
    done = snap("complete", long_csv, "-o", "out.parquet", *FIVE, *sure, "--probability", "--json").json
    table = frame("out.parquet")
    assert table["rating"].null_count() == table["probability"].null_count() == done["left_open"] == open_
    assert table.drop_nulls()["probability"].min() >= 0.6
    assert "left open" in snap("complete", long_csv, "-o", "out.npz", *FIVE, *sure).out
    assert int(np.isnan(np.load("out.npz")["X"]).sum()) == open_
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
    for suffix in [".csv", ".parquet", ".arrow", *([".xlsx"] if EXCEL else [])]:
        snap("complete", "in.csv", "-o", f"out{suffix}", *FIVE)
        table = frame(f"out{suffix}")
        assert (table.columns, table.height) == (["user", "item", "rating"], 0)


def test_the_same_seed_gives_the_same_bytes(snap, wide_csv):
    """With tuning."""
    for name in ("a.csv", "b.csv"):
        assert snap("complete", wide_csv, "-o", name, "-a", "1:5", "--seed", 3, "--json").json["seed"] == 3
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


# -------------------------------------------------------------------- alphabets
@pytest.fixture(scope="module")
def survey() -> Any:
    rng = np.random.default_rng(0)
    mood = rng.standard_normal(40)

    def answers(symbols: list[Any], lost: float = 0.2) -> list[Any]:
        place = np.clip(((mood + rng.normal(0, 0.3, 40) + 2) / 4 * len(symbols)).astype(int), 0, len(symbols) - 1)
        return [symbols[place[0]], *(None if rng.random() < lost else symbols[k] for k in place[1:])]

    columns: dict[str, list[Any]] = {f"q{j}": answers([1, 2, 3, 4, 5]) for j in range(6)}
    ages = [None if x is None else round(20.0 + 3 * x + rng.random(), 1) for x in answers([1, 2, 3, 4, 5])]
    return pl.DataFrame({"id": [f"p{i}" for i in range(40)], **columns, "sex": answers(["f", "m"]), "age": ages})


MIXED = ["-a", "1:5", "-a", "sex=f,m", "-a", "age=any", "--lam", "0.5", "--xi", "0.01", "--center", "columns"]


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
    assert table.height == int(survey.null_count().sum_horizontal()[0])
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
    assert frame("out.csv").drop("who").null_count().sum_horizontal()[0] == 0
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


# -------------------------------------------------------------------- models
def test_a_model_completes_new_rows(snap, wide_csv, wide_frame, ratings):
    """Wide rows with labels, without, with the columns in another order, and with one carried along."""
    snap("fit", wide_csv, "-m", "m.snap", *FIVE)
    imputer = si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit(ratings)
    new = wide_frame.with_columns(pl.concat_str(pl.lit("n"), "who").alias("who")).head(5)
    expected = imputer.transform(ratings[:5])
    new.write_csv("new.csv")
    done = snap("predict", "m.snap", "new.csv", "-o", "out.csv", "--json").json
    np.testing.assert_array_equal(frame("out.csv").drop("who").to_numpy(), expected)
    assert done["filled"] == int(np.isnan(ratings[:5]).sum())
    assert frame("out.csv")["who"].to_list() == new["who"].to_list()
    new.select([f"q{j}" for j in range(N)][::-1]).write_csv("bare.csv")
    snap("predict", "m.snap", "bare.csv", "-o", "out.parquet")
    assert pl.read_parquet("out.parquet").columns == [f"q{j}" for j in range(N)][::-1]
    np.testing.assert_array_equal(
        pl.read_parquet("out.parquet").select(f"q{j}" for j in range(N)).cast(pl.Int64).to_numpy(), expected
    )
    new.with_columns(note=pl.lit("x"), more=pl.lit("y")).write_csv("more.csv")
    snap("predict", "m.snap", "more.csv", "-o", "out.csv", "--leave", "note", "--leave", "more")
    assert frame("out.csv")["note"].to_list() == ["x"] * 5
    snap("predict", "m.snap", "new.csv", "-o", "out.npz")
    np.testing.assert_array_equal(np.load("out.npz")["X"], expected)
    piped = snap("predict", "m.snap", "-", stdin=Path("new.csv").read_bytes())
    assert piped.out == (snap("predict", "m.snap", "new.csv", "-q").out)


def test_a_few_new_rows_without_labels(snap, wide_csv):
    """Their first column differs in every row, and still holds symbols: the model knows its columns."""
    snap("fit", wide_csv, "-m", "m.snap", *FIVE)
    Path("new.csv").write_text(",".join(f"q{j}" for j in range(N)) + "\n1,5,,,,,,,,\n2,,,4,,,,,,\n")
    done = snap("predict", "m.snap", "new.csv")
    rows = list(csv.reader(done.out.splitlines()))
    assert [row[0] for row in rows] == ["q0", "1", "2"]
    assert all(cell in set("12345") for row in rows[1:] for cell in row)


def test_a_model_completes_new_rows_cell_by_cell(snap, long_csv, wide_csv, ratings):
    """As triplets, for a model of triplets and for one of a wide table; and wide rows for a model of triplets."""
    snap("fit", long_csv, "-m", "long.snap", *FIVE)
    snap("fit", wide_csv, "-m", "wide.snap", *FIVE)
    imputer = si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit(ratings)
    new = np.full((2, N), np.nan)
    new[0, [1, 4]], new[1, [0]] = [5, 2], [3]
    expected = np.where(np.isnan(new), imputer.transform(new), np.nan)
    Path("long-new.csv").write_text("user,item,rating\nu0,101,5\nu0,104,2\nu1,100,3\n")
    snap("predict", "long.snap", "long-new.csv", "-o", "out.csv", "--probability")
    table = frame("out.csv")
    assert table.columns == ["user", "item", "rating", "probability"]
    np.testing.assert_array_equal(whole(table, (2, N)), expected)
    Path("wide-new.csv").write_text("user,item,rating\nu0,q1,5\nu0,q4,2\nu1,q0,3\n")
    snap("predict", "wide.snap", "wide-new.csv", "-o", "out.csv", "--layout", "triplets")
    table = frame("out.csv").with_columns(pl.col("item").str.strip_chars_start("q").cast(pl.Int64) + 100)
    np.testing.assert_array_equal(whole(table, (2, N)), expected)
    names = ",".join(str(100 + j) for j in range(N))
    Path("rows.csv").write_text(f"id,{names}\na,,5,,,2,,,,,\nb,3,,,,,,,,,\n")
    snap("predict", "long.snap", "rows.csv", "-o", "out.csv", "--layout", "wide")
    np.testing.assert_array_equal(frame("out.csv").drop("id").to_numpy(), imputer.transform(new))
    A = sp.coo_array(([5.0, 2, 3], ([0, 0, 1], [1, 4, 0])), shape=(2, N))
    sp.save_npz("rows.npz", A)
    assert "column label(s) are not in the model" in snap("predict", "long.snap", "rows.npz", ok=False).err


def test_a_model_predicts_cells(snap, long_csv, wide_csv, ratings):
    """By the labels of the table it was fitted to, with probabilities, also through pipes."""
    imputer = si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit(ratings)
    expected = imputer.predict([3, 0], [5, 2]).astype(int).tolist()
    snap("complete", long_csv, "-o", "out.csv", "--model", "m.snap", *FIVE)
    done = snap("predict", "m.snap", "--cells", "-", "--probability", stdin=b"user,item\nu3,105\nu0,102\n")
    lines = list(csv.DictReader(done.out.splitlines()))
    assert [(line["user"], line["item"], int(line["rating"])) for line in lines] == [
        ("u3", "105", expected[0]),
        ("u0", "102", expected[1]),
    ]
    assert all(0.2 <= float(line["probability"]) <= 1 for line in lines)
    snap("fit", wide_csv, "-m", "w.snap", *FIVE)
    Path("cells.csv").write_text("r03,q5\nr00,q2\n")
    snap("predict", "w.snap", "--cells", "cells.csv", "-o", "out.parquet")
    assert pl.read_parquet("out.parquet").rows() == [("r03", "q5", expected[0]), ("r00", "q2", expected[1])]


def test_a_model_without_names(snap, ratings):
    """Tables without a line of names: columns are counted in the fit and in new rows."""

    def lines(X: Any) -> str:
        return "".join(",".join("" if np.isnan(x) else f"{x:g}" for x in row) + "\n" for row in X)

    Path("in.csv").write_text(lines(ratings))
    snap("fit", "in.csv", "-m", "m.snap", *FIVE)
    Path("new.csv").write_text(lines(ratings[:4]))
    done = snap("predict", "m.snap", "new.csv")
    expected = si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit(ratings).transform(ratings[:4])
    np.testing.assert_array_equal([list(map(float, line.split(","))) for line in done.out.splitlines()], expected)


def test_recommend(snap, long_csv, ratings):
    """For rows by their labels on the screen, as JSON, and for all in a file."""
    snap("fit", long_csv, "-m", "m.snap", *FIVE)
    imputer = si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit(ratings)
    best = imputer.recommend(4, 3)
    done = snap("recommend", "m.snap", "u4", "-k", 3)
    assert [line.split()[2] for line in done.out.splitlines() if line.split()[:1] == ["u4"]] == [
        str(100 + j) for j in best
    ]
    found = snap("recommend", "m.snap", "u4", "u5", "-k", 3, "--json").json["recommendations"]
    assert [one["column"] for one in found if one["row"] == "u4"] == (100 + best).tolist()
    np.testing.assert_allclose([one["estimate"] for one in found[:3]], imputer.predict_mean(4, best), atol=1e-4)
    for name in ("out.csv", "out.parquet"):
        snap("recommend", "m.snap", "--all", "-o", name, "-k", 2)
        table = frame(name)
        assert table.columns == ["row", "rank", "column", "estimate"]
        assert table.filter(pl.col("row") == "u4")["column"].to_list() == (100 + best[:2]).tolist()
        assert table.height == sum(min(2, int(np.isnan(row).sum())) for row in ratings)
    assert "u0" not in frame("out.csv")["row"]  # all is known of it
    done = snap("recommend", "m.snap", "u4", "-o", "-")
    assert done.out.startswith("row,rank,column,estimate\nu4,1,")


def test_models_made_in_python_have_no_labels(snap, ratings, wide_frame):
    """Rows of a frame can be completed by them; of labels of rows there are none, and that is told."""
    table = wide_frame.drop("who")
    si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit(table).save("frame.snap")
    si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean").fit(ratings).save("array.snap")
    wide_frame.head(3).write_csv("new.csv")
    assert snap("predict", "frame.snap", "new.csv", "-o", "out.csv").code == 0
    for command in (["recommend", "frame.snap", "--all", "-o", "x.csv"], ["recommend", "frame.snap", "r01"]):
        assert "this model has no row labels" in snap(*command, ok=False).err
    done = snap("predict", "array.snap", "new.csv", "-o", "x.csv", ok=False)
    assert "this model has no column labels" in done.err
    assert "snapimpute fit" in done.err


# -------------------------------------------------------------------- evaluate, tune
def test_evaluate(snap, wide_csv, wide_frame):
    """The numbers are those of the library; nothing hidden is known to the fit."""
    done = snap("evaluate", wide_csv, *FIVE, "--share", 0.3, "--seed", 1, "--json").json
    table = read_table(wide_frame.drop("who"), "1:5")
    imputer = si.SnapImputer("1:5", lam=2.0, xi=0.01, center="mean", random_state=1)
    found = evaluate(table.observations(), imputer, share=0.3, random_state=1)
    assert [way["label"] for way in done["ways"]] == [way.label for way in found.ways]
    for ours, theirs in zip(done["ways"], found.ways, strict=True):
        assert (ours["exact"], ours["mae"], ours["rmse"]) == (theirs.exact, theirs.mae, theirs.rmse)
    assert done["hidden"] == len(found.hidden)
    assert done["calibration_error"] == found.reliability().error
    done = snap("evaluate", wide_csv, *FIVE)
    assert "most common of the column" in done.out
    assert "% of the hidden cells right" in done.out


def test_evaluate_other_tables(snap, survey, long_csv):
    """Triplets, labels and mixed columns; λ and ξ chosen within."""
    survey.write_csv("in.csv")
    done = snap("evaluate", "in.csv", *MIXED, "--json").json
    assert 0 < done["ways"][0]["exact"] <= 1
    done = snap("evaluate", long_csv, "-a", "1:5", "--weights", "frequency", "--json").json
    assert done["held_out"]["metric"] == "error"
    done = snap("evaluate", long_csv, *FIVE, "--weights", "frequency", "--json").json
    assert done["ways"][1]["label"] == "plain low rank, rounded"


def test_tune(snap, wide_csv):
    """All that was tried as a table; what is to be typed then; the same strengths as complete chooses."""
    done = snap("tune", wide_csv, "-a", "1:5", "-o", "tried.csv", "--json").json
    table = frame("tried.csv")
    assert table.columns == ["lam", "xi", "score", "error", "rank", "iterations"]
    assert table.height == len(done["tried"])
    assert (done["lam"], done["xi"]) in table.select("lam", "xi").rows()
    chosen = snap("complete", wide_csv, "-o", "out.csv", "-a", "1:5", "--json").json
    assert (done["lam"], done["xi"], done["center"]) == (chosen["lam"], chosen["xi"], chosen["center"])
    shown = snap("tune", wide_csv, "-a", "1:5")
    assert f"snapimpute complete wide.csv --alphabet 1:5 --lam {done['lam']:.6g} --xi {done['xi']:.6g}" in shown.out
    assert "←" in shown.out
    piped = snap("tune", wide_csv, "-a", "1:5", "-o", "-", "-q")
    assert piped.out == Path("tried.csv").read_text()
    done = snap("tune", wide_csv, *FIVE, ok=False)
    assert done.code == 1
    assert "there is nothing to choose" in done.err


def test_tune_says_the_command_that_fits_with_its_choice(snap, wide_csv):
    """With all that was said about the table and the model, as it was said."""
    asked = ["--missing", "?", "--missing", "9", "--header", "--spectral", "lsp", "--max-iter", "10"]
    said = snap("tune", wide_csv, "-a", "1:5", *asked, "--center", "rows", "--cv", "2").out.splitlines()
    (line,) = (one for one in said if one.startswith("to fit with that: "))
    words = shlex.split(line.removeprefix("to fit with that: "))
    assert words[:5] == ["snapimpute", "complete", wide_csv, "--alphabet", "1:5"]
    assert words[5 : 5 + len(asked)] == asked
    found = snap(*words[1:-1], "out.csv", "--json").json
    assert [found["center"], f"{found['lam']:.6g}"] == ["rows", words[words.index("--lam") + 1]]


def test_tune_draws(snap, wide_csv):
    """The scores as a picture; a name that says no format is refused before the work."""
    pytest.importorskip("matplotlib")
    snap("tune", wide_csv, "-a", "1:5", "--picture", "scores.svg")
    assert Path("scores.svg").read_text().startswith("<?xml")
    assert snap("tune", wide_csv, "-a", "1:5", "--picture", "scores.doc", ok=False).code == 2


@pytest.mark.skipif(find_spec("snapimpute.app.report.page") is None, reason="the report is not there yet")
def test_reports(snap, wide_csv, long_csv):
    """A page beside the result, from three commands."""
    pytest.importorskip("plotly")
    snap("complete", wide_csv, "-o", "out.csv", "--report", "a.html", *FIVE)
    snap("fit", long_csv, "-m", "m.snap", "--report", "b.html", *FIVE)
    snap("evaluate", wide_csv, "--report", "c.html", *FIVE)
    for name in ("a.html", "b.html", "c.html"):
        assert "<html" in Path(name).read_text().lower()


def test_a_report_about_next_to_nothing_is_refused_before_the_fit(snap):
    """There is no cell to hide."""
    Path("in.csv").write_text("a,b,c\n1,2,\n")
    for command in (("complete", "in.csv", "-o", "out.csv"), ("fit", "in.csv", "-m", "m.snap")):
        done = snap(*command, "--report", "r.html", *FIVE, "-q", ok=False)
        one_line(done, "in.csv has 2 known cell(s), and a report takes 3 at least", "leave out --report")
    assert os.listdir() == ["in.csv"]


def test_what_could_not_be_chosen_is_not_called_given(snap):
    """A small table gets strengths by default."""
    Path("in.csv").write_text("a,b,c\n1,2,\n2,,1\n1,1,2\n")
    said = snap("complete", "in.csv", "-o", "out.csv", "-a", "1:2").out
    assert "(λ, ξ, centre by default: too few cells are known to choose, or the solver has no use for it)" in said


def test_the_code_of_a_report_gives_the_same_fit(snap, wide_csv, wide_frame):
    """With every option that matters, not only the strengths."""
    from snapimpute.app.cli import _work as work
    from snapimpute.data.schema import ColumnSchema

    options = ["--max-rank", "2", "--tol", "0.01", "--solver", "apg", "--dtype", "float32", "--min-confidence", "0.4"]
    snap("complete", wide_csv, "-o", "out.csv", "--model", "m.snap", *FIVE, *options)
    imputer = si.load("m.snap")
    names = {"X": wide_frame.drop("who")}
    exec(work.repeat(imputer, ColumnSchema.single(imputer.alphabet_, N))["python"], names)  # noqa: S102  it is ours
    assert names["imp"].get_params() == imputer.get_params() | {"alphabet": [1, 2, 3, 4, 5]}
    assert names["imp"].n_iter_ == imputer.n_iter_
    assert names["imp"].transform(names["X"]).equals(frame("out.csv").drop("who"))


# -------------------------------------------------------------------- datasets, doctor
def test_datasets(snap):
    """What there is, one of them, and as a file, wide or triplets, all or a part."""
    assert "senate" in snap("datasets").out
    listed = snap("datasets", "--json").json["datasets"]
    name = next(one for one in listed if "senate" in one)
    votes = si.datasets.load(name)
    shown = snap("datasets", name, "--json").json
    assert (shown["rows"], shown["columns"], shown["known"]) == (*votes.shape, len(votes))
    snap("datasets", name, "-o", "long.parquet")
    table = pl.read_parquet("long.parquet")
    assert table.height == len(votes)
    assert table["value"].sum() == int(votes.values.sum())
    snap("datasets", name, "-o", "wide.csv", "--layout", "wide", "--observed", 0.25, "--seed", 1)
    table = frame("wide.csv")
    assert table.shape == (votes.shape[0], votes.shape[1] + 1)
    assert table.height * (table.width - 1) - int(table.null_count().sum_horizontal()[0]) == round(0.25 * len(votes))
    assert snap("datasets", name, "-o", "-", "-q").out.startswith("row,column,value\n")
    for wrong in (["nothing"], [name, "--layout", "round"], [name, "-o", "x.npz"], [name, "-o", "x"]):
        assert snap("datasets", *wrong, ok=False).code == 2


def test_doctor(snap, monkeypatch):
    """All is well here, as JSON too; a problem is said with what to do, and is exit code 1."""
    done = snap("doctor")
    assert "all is well" in done.out
    found = snap("doctor", "--json").json
    assert found["problems"] == 0
    assert {"snapimpute", "packages", "threads", "memory", "downloads", "a small fit"} <= {
        one["name"] for one in found["findings"]
    }
    assert snap("doctor", "-q").out == ""
    Path("file").write_text("x")
    monkeypatch.setenv("SNAPIMPUTE_CACHE", "/proc/none")
    done = snap("doctor", ok=False)
    assert done.code == 1
    assert "set SNAPIMPUTE_CACHE to a folder that can" in done.out
    assert "1 problem(s)" in done.out


@pytest.mark.parametrize("error", [OSError("libtorch.so: cannot open"), RuntimeError("the card is not supported")])
def test_doctor_looks_on_where_torch_does_not_work(snap, monkeypatch, error):
    """It is noted, and all else is looked at."""

    def refuse(name):
        raise error

    monkeypatch.setattr("snapimpute.backends.backend_named", refuse)
    done = snap("doctor")
    assert str(error) in done.out
    assert "a small fit" in done.out


# -------------------------------------------------------------------- manners
def test_quiet_says_nothing(snap, wide_csv, long_csv):
    """Neither on standard output nor beside it."""
    snap("fit", long_csv, "-m", "m.snap", *FIVE)
    for command in (
        ["complete", wide_csv, "-o", "out.csv", *FIVE],
        ["fit", wide_csv, "-m", "w.snap", *FIVE],
        ["predict", "w.snap", wide_csv, "-o", "out.csv"],
        ["recommend", "m.snap", "--all", "-o", "out.csv"],
        ["tune", wide_csv, "-a", "1:5", "-o", "out.csv", "--lam", 2, "--center", "mean"],
        ["evaluate", wide_csv, *FIVE],
        ["datasets"],
    ):
        done = snap(*command, "--quiet")
        assert (done.out, done.err) == ("", "")


def test_json_is_one_object(snap, wide_csv):
    """With what a script needs to know."""
    done = snap("complete", wide_csv, "-o", "out.csv", *FIVE, "--model", "m.snap", "--json")
    found = done.json
    assert done.err == ""
    for name in ("input", "rows", "columns", "known", "alphabet", "lam", "xi", "center", "rank", "status", "seconds"):
        assert name in found
    assert (found["output"], found["model"], found["interrupted"]) == ("out.csv", "m.snap", False)
    assert (found["rows"], found["columns"]) == (M, N)


def test_what_is_read_and_fitted_is_told(snap, wide_csv):
    """To people: how the file was read, the strengths, how the fit ended, what was written."""
    done = snap("complete", wide_csv, "-o", "out.csv", "-a", "1:5")
    for part in (
        "read wide.csv: format csv",
        "delimiter comma",
        "layout wide: one row a line",
        "row labels column 'who'",
        "table: 24 rows × 10 columns",
        "(λ, ξ, centre chosen on held-out cells)",
        "did discreteness beat rounding?",
        "wrote out.csv: ",
    ):
        assert part in done.out


def test_warnings_are_one_line_each(snap, wide_csv):
    """A fit that did not converge says so, with what to do."""
    done = snap("complete", wide_csv, "-o", "out.csv", *FIVE, "--max-iter", 2)
    assert done.code == 0
    assert done.err.startswith("snapimpute: Stopped at max_iter=2")
    assert "Raise max_iter" in done.err
    assert len(done.err.splitlines()) == 1
    done = snap("evaluate", wide_csv, *FIVE, "--max-iter", 2, "-q")
    assert done.err.splitlines()[0].startswith("snapimpute: Stopped at max_iter=2")


def test_progress_tells_of_scores_and_time(snap, wide_csv, monkeypatch):
    """Lines beside the output where there is no terminal: loss, rank, objective, time left."""
    monkeypatch.setattr(terminal, "EVERY", 0.0)
    done = snap("complete", wide_csv, "-o", "out.csv", "-a", "1:5")
    assert "fitting: λ " in done.err
    lines = done.err.splitlines()
    assert any("held-out loss" in line and "rank" in line and "left" in line for line in lines)
    assert any("iteration 1, objective" in line and "held-out loss" in line for line in lines)
    assert "held-out loss" not in done.out


def test_a_terminal_gets_a_live_line(snap, wide_csv, monkeypatch):
    """Drawn beside the output and wiped away at the end; what is written is the same."""
    snap("complete", wide_csv, "-o", "plain.csv", "-a", "1:5")
    monkeypatch.setenv("FORCE_COLOR", "1")
    for columns in ("80", "140"):
        monkeypatch.setenv("COLUMNS", columns)
        done = snap("complete", wide_csv, "-o", "-", "-a", "1:5")
        assert done.out == Path("plain.csv").read_text()
        assert "\x1b[" in done.err
        drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.err)
        assert re.search(
            r"iteration \d+, objective [\d.]+, rank \d+, loss [\d.]+ .*\d:\d\d:\d\d ≤ [\d.]+ \w+ left", drawn
        )


# -------------------------------------------------------------------- what is not overwritten
def test_never_over_the_input_without_force(snap, wide_csv, long_csv):
    """By whatever name; with --force it is done."""
    before = Path(wide_csv).read_bytes()
    Path("link.csv").symlink_to(wide_csv)
    for out in (wide_csv, f"./{wide_csv}", "link.csv"):
        done = snap("complete", wide_csv, "-o", out, *FIVE, ok=False)
        assert done.code == 1
        assert "is the input, which would be lost: name another file, or add --force" in done.err
    assert snap("fit", wide_csv, "-m", wide_csv, *FIVE, ok=False).code == 1
    assert snap("complete", wide_csv, "-o", "o.csv", "--model", wide_csv, *FIVE, ok=False).code == 1
    assert snap("evaluate", wide_csv, "--report", wide_csv, *FIVE, ok=False).code == 1
    assert snap("tune", wide_csv, "-o", wide_csv, "-a", "1:5", ok=False).code == 1
    Path("cells.csv").write_text("u1,101\n")
    assert snap("complete", long_csv, "--cells", "cells.csv", "-o", "cells.csv", *FIVE, ok=False).code == 1
    snap("fit", long_csv, "-m", "m.snap", *FIVE)
    assert snap("predict", "m.snap", "--cells", "cells.csv", "-o", "cells.csv", ok=False).code == 1
    assert Path(wide_csv).read_bytes() == before
    snap("complete", wide_csv, "-o", wide_csv, *FIVE, "--force")
    assert frame(wide_csv).null_count().sum_horizontal()[0] == 0


def test_force_is_offered_where_it_is_an_option(snap, wide_csv):
    """Advice that leads to another error is none."""
    snap("fit", wide_csv, "-m", "m.snap", *FIVE)
    for command in (
        ("tune", wide_csv, "-a", "1:5", "-o", wide_csv),
        ("evaluate", wide_csv, "-a", "1:5", "--report", wide_csv),
        ("recommend", "m.snap", "--all", "-o", "m.snap", "--to", "csv"),
    ):
        one_line(snap(*command, ok=False), "is the input, which would be lost: name another file")
        assert "--force" not in snap(*command, ok=False).err


@pytest.mark.skipif(os.name == "nt", reason="pipes of other systems")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_pipe_with_a_name_is_written_to_and_not_replaced(snap, wide_csv, kind):
    """As -o >(gzip > out.csv.gz) of a shell."""
    os.mkfifo(f"pipe.{kind}")
    reader = threading.Thread(target=lambda: Path(f"out.{kind}").write_bytes(Path(f"pipe.{kind}").read_bytes()))
    reader.start()
    snap("complete", wide_csv, "-o", f"pipe.{kind}", *FIVE, "-q")
    reader.join(60)
    assert Path(f"pipe.{kind}").is_fifo()
    assert frame(f"out.{kind}").drop("who").null_count().sum_horizontal()[0] == 0


def test_two_results_do_not_go_to_one_file(snap, wide_csv):
    """One of them would be lost."""
    done = snap("complete", wide_csv, "-o", "x.csv", "--model", "x.csv", *FIVE, ok=False)
    assert done.code == 2
    assert "two different results" in done.err
    assert not Path("x.csv").exists()


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
def one_line(done: Done, *parts: str) -> None:
    """An error as it is to be: one line, no traceback, exit code 1, nothing on standard output or left behind."""
    assert done.code == 1
    assert done.err.startswith("snapimpute: ")
    assert len(done.err.splitlines()) == 1, done.err
    assert "Traceback" not in done.err
    assert done.stdout == b""
    for part in parts:
        assert part in done.err, done.err


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


def test_rows_that_do_not_fit_a_model(snap, wide_csv, long_csv, wide_frame):
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


# -------------------------------------------------------------------- disks
@pytest.mark.parametrize(
    ("suffix", "method"), [(".csv", "write_csv"), (".parquet", "write_parquet"), (".arrow", "write_ipc")]
)
def test_a_full_disk_leaves_nothing_half_written(snap, wide_csv, monkeypatch, suffix, method):
    """However the library that writes words it: one line, and what was there before is still there."""

    def full(self: Any, file: Any, *args: Any, **more: Any) -> None:
        file.write(b"half of")
        words = "parquet: underlying IO error: No space left on device (os error 28)"
        raise pl.exceptions.ComputeError(words) if method == "write_parquet" else OSError(words)

    monkeypatch.setattr(pl.DataFrame, method, full)
    Path(f"out{suffix}").write_text("what was there")
    done = snap("complete", wide_csv, "-o", f"out{suffix}", *FIVE, "-q", ok=False)
    one_line(done, f"out{suffix}: the disk is full: nothing was written; make room, or name another place")
    assert Path(f"out{suffix}").read_text() == "what was there"
    assert left_over() == set()


def test_a_disk_that_fills_up_while_cells_are_streamed(snap, long_csv, monkeypatch):
    """After some pieces were written."""
    real, calls = pl.DataFrame.write_csv, []

    def full(self: Any, file: Any, *args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, file, *args, **more)

    monkeypatch.setattr("snapimpute.app.io.triplets.BLOCK", 20)
    monkeypatch.setattr(pl.DataFrame, "write_csv", full)
    done = snap("complete", long_csv, "-o", "out.csv", *FIVE, "-q", ok=False)
    one_line(done, "out.csv: the disk is full: nothing was written")
    assert len(calls) == 4
    assert left_over() == set()
    assert not Path("out.csv").exists()


def test_a_full_disk_when_the_model_is_saved(snap, wide_csv, monkeypatch):
    """The table is there by then, the model is not."""

    def full(*args: Any, **more: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("snapimpute.estimator.files.write_atomically", full)
    done = snap("complete", wide_csv, "-o", "out.csv", "--model", "m.snap", *FIVE, "-q", ok=False)
    one_line(done, "m.snap: the disk is full")
    assert Path("out.csv").exists()
    assert not Path("m.snap").exists()


def child(code: str, *arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
    """The command in a process of its own, after some preparations; Ctrl-C reaches it even if not these tests."""
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    start += f"sys.argv = ['snapimpute', *{list(map(str, arguments))!r}]\n"
    script = start + textwrap.dedent(code) + "\nfrom snapimpute.app.cli import main\nmain()\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", script], **(pipes | more))  # noqa: S603


def wait_for(stream: Any, word: bytes) -> bytes:
    """Read lines until one has a word."""
    seen = b""
    while word not in seen:
        line = stream.readline()
        assert line, seen.decode()
        seen += line
    return seen


LIMITED = """
    import resource
    from snapimpute.app.cli import _cells as cells, main
    before = cells.write
    def limited(*arguments):
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
        return before(*arguments)
    cells.write = limited
    for out in OUTS:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        sys.argv[4] = out
        try:
            main()
        except SystemExit as left:
            sys.stderr.write(f"exit code {left.code}\\n")
    sys.exit(0)
"""


@pytest.mark.parametrize("layout", ["wide", "triplets"])
def test_a_file_that_may_not_grow(snap, wide_csv, long_csv, layout):
    """A real limit of the system: every way to write ends with one line and leaves nothing."""
    pytest.importorskip("resource")
    outs = ["out.csv", "out.parquet", "out.arrow", "out.npz", "out.npy", "out.mtx", *(["out.xlsx"] if EXCEL else [])]
    before = set(os.listdir())
    table = wide_csv if layout == "wide" else long_csv
    with child(f"    OUTS = {outs!r}" + LIMITED, "complete", table, "-o", "", *FIVE, "-q") as process:
        said, err = process.communicate(timeout=120)
    lines = err.decode().splitlines()
    assert said == b""
    assert lines[1::2] == ["exit code 1"] * len(outs), lines
    for out, line in zip(outs, lines[::2], strict=True):
        assert line.startswith(
            f"snapimpute: {out}: the file would be larger than is allowed here: nothing was written"
        )
    assert set(os.listdir()) == before


def test_a_reader_that_goes_away_is_no_error(snap, long_csv):
    """As with head: no message, no traceback, exit code 0."""
    wait = """
        import snapimpute.app.cli._cells as cells
        before = cells.write
        def later(*arguments):
            sys.stderr.write("ready\\n")
            sys.stderr.flush()
            sys.stdin.readline()
            return before(*arguments)
        cells.write = later
    """
    for kind in ("csv", "parquet"):
        with child(wait, "complete", long_csv, "-o", "-", "--to", kind, *FIVE, "-q") as process:
            wait_for(process.stderr, b"ready")
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdin is not None
            process.stdout.close()
            process.stdin.write(b"go\n")
            process.stdin.flush()
            assert process.stderr.read() == b""
            assert process.wait(120) == 0


def test_a_reader_that_goes_away_while_we_talk_is_no_error(snap, monkeypatch):
    """As in snapimpute solvers | head: rich would end with the code of an error."""

    def gone(*args: Any) -> int:
        raise BrokenPipeError

    monkeypatch.setattr("snapimpute.app.cli._forget_the_rest", lambda: None)
    for command in ("solvers", "datasets"):
        monkeypatch.setattr(Console, "file", SimpleNamespace(write=gone, flush=gone, isatty=lambda: False))
        done = snap(command, ok=False)
        assert (done.code, done.err) == (0, "")


# -------------------------------------------------------------------- Ctrl-C
def test_an_interrupted_fit_writes_the_best_so_far(snap, wide_csv, monkeypatch):
    """The table is whole, the model can be used, the exit code is 130; no report, which would take longer."""

    def stop(self: Any, info: Any) -> None:
        if info.iteration == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(terminal.Watcher, "iterated", stop)
    done = snap(
        *("complete", wide_csv, "-o", "out.csv", "--model", "m.snap", "--report", "r.html", *FIVE), "--json", ok=False
    )
    assert done.code == 130
    assert "snapimpute: interrupted: going on with the best so far" in done.err
    assert "no report was written" in done.err
    found = done.json
    assert (found["status"], found["interrupted"], found["iterations"]) == ("interrupted", True, 4)
    assert frame("out.csv").drop("who").null_count().sum_horizontal()[0] == 0
    assert snap("predict", "m.snap", wide_csv, "-o", "again.csv").code == 0
    done = snap("fit", wide_csv, "-m", "f.snap", *FIVE, ok=False)
    assert (done.code, Path("f.snap").exists()) == (130, True)
    done = snap("complete", wide_csv, "-o", "-", *FIVE, "-q", ok=False)
    assert done.code == 130
    assert done.out.startswith("who,q0")


def test_the_time_that_is_left_is_that_of_iterations_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a fit that goes on from a checkpoint the iterations before do not count; after the first nobody knows."""
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr(terminal.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(terminal, "EVERY", -1.0)
    said = io.StringIO()
    watcher = terminal.Watcher(Console(file=said, width=200), "fitting", 1, max_iter=100)
    for iteration in (41, 42):
        watcher.iterated(SimpleNamespace(iteration=iteration, objective=1.0, x=SimpleNamespace(rank=2)))
    first, second = said.getvalue().splitlines()
    assert first == "fitting: iteration 41, objective 1, rank 2"
    assert re.fullmatch(r"fitting: iteration 42, objective 1, rank 2; at most 29 min left", second)


def test_an_interrupted_tuning_goes_on_with_the_best_so_far(snap, wide_csv, monkeypatch):
    """What was tried counts: the best of it is fitted and written; tune writes what there is."""
    real, seen = terminal.Watcher.tried, []

    def stop(self: Any, candidate: Any) -> None:
        seen.append(candidate)
        real(self, candidate)
        if len(seen) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(terminal.Watcher, "tried", stop)
    done = snap("complete", wide_csv, "-o", "out.csv", "-a", "1:5", "--json", ok=False)
    assert done.code == 130
    assert len(seen) == 4
    assert done.json["lam"] in {one.lam for one in seen}
    assert frame("out.csv").drop("who").null_count().sum_horizontal()[0] == 0
    seen.clear()
    done = snap("tune", wide_csv, "-a", "1:5", "-o", "tried.csv", "--json", ok=False)
    assert done.code == 130
    assert frame("tried.csv").height == 4
    assert done.json["interrupted"] is True
    seen.clear()
    done = snap("evaluate", wide_csv, "-a", "1:5", "--json", ok=False)
    assert done.code == 130
    assert "interrupted: going on with the best so far" in done.err
    found = done.json
    assert (found["interrupted"], found["ways"][0]["label"]) == (True, "snapimpute")
    assert found["lam"] in {one.lam for one in seen}


@pytest.fixture
def usual_signals():
    """Ctrl-C as Python has it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("times", [1, 2])
def test_an_interruption_while_results_are_written(snap, wide_csv, monkeypatch, usual_signals, times):
    """The fit is over: what it found is written first, and only a second Ctrl-C stops that."""
    real = cells.write

    def interrupted(*arguments: Any) -> Any:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(cells, "write", interrupted)
    done = snap("complete", wide_csv, "-o", "out.csv", "--model", "m.snap", "--report", "r.html", *FIVE, ok=False)
    assert done.code == 130
    assert "snapimpute: interrupted: what there is will be written; Ctrl-C again stops that" in done.err
    assert {"out.csv", "m.snap", "r.html"} & set(os.listdir()) == ({"out.csv", "m.snap"} if times == 1 else set())
    assert ("no file was left half written" in done.err) == (times == 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("stage", ["imputer.SnapImputer._held_out", "evaluation.check"])
def test_an_interruption_after_the_last_fit(snap, wide_csv, monkeypatch, stage):
    """While probabilities are calibrated, or scores for the report are made: the table is there nevertheless."""

    def stop(*args: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"snapimpute.estimator.{stage}", stop)
    done = snap("complete", wide_csv, "-o", "out.csv", "--report", "r.html", *FIVE, "--json", ok=False)
    assert (done.code, done.json["interrupted"], done.json["status"]) == (130, True, "converged")
    assert "no report was written" in done.err
    assert frame("out.csv").drop("who").null_count().sum_horizontal()[0] == 0
    assert not Path("r.html").exists()


def test_an_interruption_before_the_first_iteration_of_the_last_fit(snap, wide_csv, monkeypatch):
    """What was chosen is not lost: it is said, beside that the result knows nothing else."""

    def stop(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapimpute.solvers.proximal.gradient.ProximalGradient.step", stop)
    done = snap("complete", wide_csv, "-o", "out.csv", *FIVE, "-q", ok=False)
    assert done.code == 130
    assert "knows the mean only: fit again with --lam 2 --xi 0.01 --center mean" in done.err


@pytest.mark.parametrize("where", ["read", "fit"])
def test_an_interruption_before_anything_was_fitted_writes_nothing(snap, wide_csv, monkeypatch, where):
    """While the file is read, or before the first λ was scored."""

    def stop(*args: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(
        {"read": "snapimpute.app.io.read._bytes", "fit": "snapimpute.estimator.tuned.best_damping"}[where], stop
    )
    before = os.listdir()
    done = snap("complete", wide_csv, "-o", "out.csv", "-a", "1:5", "-q", ok=False)
    assert done.code == 130
    assert done.err == "snapimpute: interrupted; no file was left half written\n"
    assert os.listdir() == before


@pytest.mark.skipif(os.name == "nt", reason="signals of other systems")
def test_a_real_signal_while_it_tunes(snap):
    """SIGINT: the best so far is written, exit code 130, one line for each thing that is said."""
    known = low_rank_alphabet((400, 300), 5, "1:5", observed=0.3, random_state=0).observations
    table = pl.DataFrame({"user": known.rows, "item": known.cols, "rating": known.values.astype(int)})
    table.write_csv("in.csv")
    loud = "import snapimpute.app.cli._terminal as talk\ntalk.EVERY = 0"
    with child(loud, "complete", "in.csv", "-o", "out.csv", "-a", "1:5", "--max-iter", 100) as process:
        seen = wait_for(process.stderr, b"held-out loss")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    said = (seen + err).decode()
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "interrupted: going on with the best so far" in said
    assert b"wrote out.csv" in out
    assert frame("out.csv").height == 400 * 300 - len(known)
    assert left_over() == set()


@pytest.mark.skipif(os.name == "nt", reason="signals of other systems")
def test_a_real_signal_while_it_waits_for_a_pipe(snap):
    """Nothing is written, and there is no traceback."""
    loud = """
        import snapimpute.app.io.read as read
        before = read._bytes
        def told(path):
            sys.stderr.write("reading\\n")
            sys.stderr.flush()
            return before(path)
        read._bytes = told
    """
    with child(loud, "complete", "-", "-o", "out.csv", "-a", "1:5") as process:
        wait_for(process.stderr, b"reading")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert process.wait(60) == 130
    assert said == "snapimpute: interrupted; no file was left half written\n"
    assert os.listdir() == []


def test_an_interruption_while_the_commands_are_loaded(snap, monkeypatch):
    """That takes a second or two, in which a person may think again."""

    def stop() -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapimpute.app.cli._app", stop)
    done = snap("complete", "in.csv", ok=False)
    assert (done.code, done.err) == (130, "snapimpute: interrupted; no file was left half written\n")


def test_debugging_shows_the_traceback(snap, monkeypatch):
    """Who asks for it gets the exception itself."""
    monkeypatch.setenv("SNAPIMPUTE_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["snapimpute", "complete", "none.csv", "-o", "x.csv", "-a", "1:5"])
    with pytest.raises(FileNotFoundError):
        main()


def test_a_package_that_is_missing_is_named(snap, monkeypatch):
    """The command without its extra says what to install."""
    monkeypatch.setitem(sys.modules, "snapimpute.app.cli.app", None)
    one_line(snap("solvers", ok=False), "pip install", "snapimpute[app]")


# ---------------------------------------------------------------- another backend
def test_a_backend_is_used_and_named(snap, tmp_path):
    """The fit is done there, and the line about it says so."""
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "votes.csv").write_text("a,b,c\n1,0,\n0,1,1\n1,,0\n0,1,1\n")
    done = snap("complete", "votes.csv", "-a", "0,1", *FAST, "--backend", "torch:cpu", "-o", "out.csv")
    assert "Computed with torch on cpu." in done.out


@pytest.mark.parametrize(
    ("backend", "says"), [("jax", "backend must be one of"), ("torch:gpu", "torch knows no device")]
)
def test_a_backend_that_is_not_there_is_said_before_anything_is_read(snap, backend, says):
    """Bad usage, and no file is looked for."""
    pytest.importorskip("torch", reason="torch is not installed")
    done = snap("complete", "missing.csv", "-a", "0,1", "--backend", backend, "-o", "out.csv", ok=False)
    assert done.code == 2
    assert says in done.err


def test_python_m_runs_the_command():
    """Where scripts are not on the path: `python -m snapimpute`."""
    done = subprocess.run(
        [sys.executable, "-m", "snapimpute", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("snapimpute ")
