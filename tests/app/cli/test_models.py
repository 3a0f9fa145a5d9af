"""`fit`, `predict` and `recommend`: a model from a file to new rows and cells."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

import snapimpute as si
from tests.app.cli.running import (
    COUNTED,
    FIVE,
    LONG,
    WIDE,
    N,
    frame,
    whole,
)


# -------------------------------------------------------------------- models
def test_a_model_completes_new_rows(snap, wide_csv, wide_frame, ratings, library):
    """Wide rows with labels, without, with the columns in another order, and with one carried along."""
    snap("fit", wide_csv, "-m", "m.snap", *FIVE)
    new = wide_frame.with_columns(pl.concat_str(pl.lit("n"), "who").alias("who")).head(5)
    expected = library(*WIDE).transform(ratings[:5])
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


def test_a_model_completes_new_rows_cell_by_cell(snap, long_csv, wide_csv, library):
    """As triplets, for a model of triplets and for one of a wide table; and wide rows for a model of triplets."""
    snap("fit", long_csv, "-m", "long.snap", *FIVE)
    snap("fit", wide_csv, "-m", "wide.snap", *FIVE)
    new = np.full((2, N), np.nan)
    new[0, [1, 4]], new[1, [0]] = [5, 2], [3]
    by_long, by_wide = (library(*one).transform(new) for one in (LONG, WIDE))
    Path("long-new.csv").write_text("user,item,rating\nu0,101,5\nu0,104,2\nu1,100,3\n")
    snap("predict", "long.snap", "long-new.csv", "-o", "out.csv", "--probability")
    table = frame("out.csv")
    assert table.columns == ["user", "item", "rating", "probability"]
    np.testing.assert_array_equal(whole(table, (2, N)), np.where(np.isnan(new), by_long, np.nan))
    Path("wide-new.csv").write_text("user,item,rating\nu0,q1,5\nu0,q4,2\nu1,q0,3\n")
    snap("predict", "wide.snap", "wide-new.csv", "-o", "out.csv", "--layout", "triplets")
    table = frame("out.csv").with_columns(pl.col("item").str.strip_chars_start("q").cast(pl.Int64) + 100)
    np.testing.assert_array_equal(whole(table, (2, N)), np.where(np.isnan(new), by_wide, np.nan))
    names = ",".join(str(100 + j) for j in range(N))
    Path("rows.csv").write_text(f"id,{names}\na,,5,,,2,,,,,\nb,3,,,,,,,,,\n")
    snap("predict", "long.snap", "rows.csv", "-o", "out.csv", "--layout", "wide")
    np.testing.assert_array_equal(frame("out.csv").drop("id").to_numpy(), by_long)
    A = sp.coo_array(([5.0, 2, 3], ([0, 0, 1], [1, 4, 0])), shape=(2, N))
    sp.save_npz("rows.npz", A)
    assert "column label(s) are not in the model" in snap("predict", "long.snap", "rows.npz", ok=False).err


def test_a_model_predicts_cells(snap, long_csv, wide_csv, library):
    """By the labels of the table it was fitted to, with probabilities, also through pipes."""
    expected = library(*LONG).predict([3, 0], [5, 2]).astype(int).tolist()
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
    expected = library(*WIDE).predict([3, 0], [5, 2]).astype(int).tolist()
    assert pl.read_parquet("out.parquet").rows() == [("r03", "q5", expected[0]), ("r00", "q2", expected[1])]


def test_a_model_without_names(snap, ratings, library):
    """Tables without a line of names: columns are counted in the fit and in new rows."""

    def lines(X: Any) -> str:
        return "".join(",".join("" if np.isnan(x) else f"{x:g}" for x in row) + "\n" for row in X)

    Path("in.csv").write_text(lines(ratings))
    snap("fit", "in.csv", "-m", "m.snap", *FIVE)
    Path("new.csv").write_text(lines(ratings[:4]))
    done = snap("predict", "m.snap", "new.csv")
    expected = library(*COUNTED).transform(ratings[:4])
    np.testing.assert_array_equal([list(map(float, line.split(","))) for line in done.out.splitlines()], expected)


def test_recommend(snap, long_csv, ratings, fitted):
    """For rows by their labels on the screen, as JSON, and for all in a file."""
    snap("fit", long_csv, "-m", "m.snap", *FIVE)
    best = fitted.recommend(4, 3)
    done = snap("recommend", "m.snap", "u4", "-k", 3)
    assert [line.split()[2] for line in done.out.splitlines() if line.split()[:1] == ["u4"]] == [
        str(100 + j) for j in best
    ]
    found = snap("recommend", "m.snap", "u4", "u5", "-k", 3, "--json").json["recommendations"]
    assert [one["column"] for one in found if one["row"] == "u4"] == (100 + best).tolist()
    np.testing.assert_allclose([one["estimate"] for one in found[:3]], fitted.predict_mean(4, best), atol=1e-4)
    for name in ("out.csv", "out.parquet"):
        snap("recommend", "m.snap", "--all", "-o", name, "-k", 2)
        table = frame(name)
        assert table.columns == ["row", "rank", "column", "estimate"]
        assert table.filter(pl.col("row") == "u4")["column"].to_list() == (100 + best[:2]).tolist()
        assert table.height == sum(min(2, int(np.isnan(row).sum())) for row in ratings)
    assert "u0" not in frame("out.csv")["row"]  # all is known of it
    done = snap("recommend", "m.snap", "u4", "-o", "-")
    assert done.out.startswith("row,rank,column,estimate\nu4,1,")


def test_models_made_in_python_have_no_labels(snap, wide_frame, fitted):
    """Rows of a frame can be completed by them; of labels of rows there are none, and that is told."""
    table = wide_frame.drop("who")
    si.SnapImputer("1:5", method=si.Proximal(lam=2.0, xi=0.01, center="mean")).fit(table).save("frame.snap")
    fitted.save("array.snap")
    wide_frame.head(3).write_csv("new.csv")
    assert snap("predict", "frame.snap", "new.csv", "-o", "out.csv").code == 0
    for command in (["recommend", "frame.snap", "--all", "-o", "x.csv"], ["recommend", "frame.snap", "r01"]):
        assert "this model has no row labels" in snap(*command, ok=False).err
    done = snap("predict", "array.snap", "new.csv", "-o", "x.csv", ok=False)
    assert "this model has no column labels" in done.err
    assert "snapimpute fit" in done.err
