"""`evaluate`, `tune` and reports; `datasets` and `doctor`."""

from __future__ import annotations

import os
import shlex
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import snapimpute as si
from snapimpute.app.cli._telling import repeat
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import read_table
from snapimpute.estimator.evaluation import evaluate
from tests.app.cli.running import (
    FIVE,
    MIXED,
    WIDE,
    N,
    frame,
    gaps,
    one_line,
)

pytestmark = pytest.mark.slow


# -------------------------------------------------------------------- evaluate, tune
def test_evaluate(snap, wide_csv, wide_frame):
    """The numbers are those of the library; nothing hidden is known to the fit."""
    done = snap("evaluate", wide_csv, *FIVE, "--share", 0.3, "--seed", 1, "--json").json
    table = read_table(wide_frame.drop("who"), "1:5")
    imputer = si.SnapImputer("1:5", method=si.Proximal(lam=2.0, xi=0.01, center="mean"), random_state=1)
    found = evaluate(table.observations().labelled(*WIDE), imputer, share=0.3, random_state=1)
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
    done = snap("tune", wide_csv, "-a", "1:5", "--method", "proximal", "-o", "tried.csv", "--json").json
    table = frame("tried.csv")
    assert table.columns == ["lam", "xi", "score", "error", "rank", "iterations"]
    assert table.height == len(done["tried"])
    assert (done["lam"], done["xi"]) in table.select("lam", "xi").rows()
    chosen = snap("complete", wide_csv, "-o", "out.csv", "-a", "1:5", "--method", "proximal", "--json").json
    assert (done["lam"], done["xi"], done["center"]) == (chosen["lam"], chosen["xi"], chosen["center"])
    shown = snap("tune", wide_csv, "-a", "1:5", "--method", "proximal")
    assert (
        f"snapimpute complete wide.csv --alphabet 1:5 --method proximal --lam {done['lam']:.6g} --xi {done['xi']:.6g}"
        in shown.out
    )
    assert "←" in shown.out
    piped = snap("tune", wide_csv, "-a", "1:5", "--method", "proximal", "-o", "-", "-q")
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
    snap("tune", wide_csv, "-a", "1:5", "--method", "proximal", "--picture", "scores.svg")
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
    said = snap("complete", "in.csv", "-o", "out.csv", "-a", "1:2", "--method", "proximal").out
    assert "(λ, ξ, centre by default: too few cells are known to choose, or the solver has no use for it)" in said


def code_of(model):
    """A model, and the code that a report says would fit it again."""
    imputer = si.load(model)
    book = ColumnSchema.single(imputer.alphabet_, N)
    return imputer, repeat(imputer, book)["python"]


def test_the_code_of_a_report_gives_the_same_fit(snap, wide_csv, wide_frame):
    """With every option that matters, not only the strengths."""
    options = ["--max-rank", "2", "--tol", "0.01", "--solver", "apg", "--dtype", "float32", "--min-confidence", "0.4"]
    snap("complete", wide_csv, "-o", "out.csv", "--model", "m.snap", *FIVE, *options)
    imputer, code = code_of("m.snap")
    names = {"X": imputer._observed}
    exec(code, names)  # noqa: S102  it is ours
    again, asked = (one.get_params(deep=False) for one in (names["imp"], imputer))
    assert again.pop("method").get_params() == asked.pop("method").get_params()
    assert again == asked | {"alphabet": [1, 2, 3, 4, 5]}
    assert names["imp"].n_iter_ == imputer.n_iter_
    assert np.array_equal(names["imp"].transform(names["X"]), frame("out.csv").drop("who").to_numpy(), equal_nan=True)


def test_the_code_of_a_report_has_what_was_chosen(snap, wide_csv):
    """Strengths and centre that tuning found stand in it as numbers: nothing is tuned again."""
    snap("fit", wide_csv, "-m", "m.snap", "-a", "1:5", "--method", "proximal", "--xi", "0")
    imputer, code = code_of("m.snap")
    names: dict[str, object] = {}
    exec(code.removesuffix("imp.fit(X)\n"), names)  # noqa: S102  it is ours
    method = names["imp"].method
    assert (method.lam, method.xi, method.center) == (pytest.approx(imputer.lam_), 0.0, imputer.center_)
    assert (method.backend, method.decide) == (None, None)


@pytest.mark.parametrize("method", ["habits", "habits,proximal"])
def test_the_code_of_a_report_names_the_experts(snap, wide_csv, method):
    """One by its name, several in a list, the proximal one with the options that were given."""
    more = ["--lam", "2", "--xi", "0"] if "proximal" in method else []
    snap("fit", wide_csv, "-m", "m.snap", "-a", "1:5", "--method", method, *more, "--seed", "3")
    imputer, code = code_of("m.snap")
    assert "method=['habits', si.Proximal(lam=2.0, xi=0.0)]" in code or "method='habits'" in code
    assert "random_state=3" in code
    names = {"X": imputer._observed}
    exec(code, names)  # noqa: S102  it is ours
    np.testing.assert_array_equal(names["imp"].predict_proba([0, 1], [2, 3]), imputer.predict_proba([0, 1], [2, 3]))


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
    assert table.height * (table.width - 1) - gaps(table) == round(0.25 * len(votes))
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
