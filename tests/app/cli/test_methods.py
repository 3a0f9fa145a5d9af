"""`--method` and `--time-limit`: which experts are fitted, what is refused, what people and scripts are told."""

from __future__ import annotations

import io
import math
import os
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import snapimpute as si
from snapimpute.app.cli import _terminal as terminal
from snapimpute.app.cli import tune
from snapimpute.app.cli._options import PROXIMAL_OPTIONS, Fitting
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.blend import Step
from snapimpute.experts.methods import METHODS
from snapimpute.experts.proximal.expert import Proximal
from tests.app.cli.running import FIVE, N, frame, gaps

TWO = ["-a", "1:5", "--method", "habits,proximal", "--lam", "2", "--xi", "0.01", "--center", "mean"]
"""A blend that is fitted in no time."""


# -------------------------------------------------------------------- what is fitted
@pytest.mark.parametrize(
    ("given", "method"),
    [
        ({}, "auto"),
        ({"method": "auto"}, "auto"),
        ({"method": "posterior"}, "posterior"),
        ({"method": "habits, mosaic"}, ["habits", "mosaic"]),
        ({"backend": "cpu", "dtype": "float32"}, "auto"),
        ({"method": "proximal"}, "proximal"),
    ],
)
def test_a_method_is_taken_by_its_name(given, method):
    """One, several with commas, and all of them where nothing is said."""
    assert Fitting(**given).imputer("1:5", callback=None, progress=None).method == method


def test_options_of_the_proximal_expert_choose_it():
    """Alone where no method is named, and as a member of those that are."""
    given = {"lam": "2", "weights": "frequency", "center": "none", "discrete": "l1", "max_rank": 3}
    expected = {"lam": 2.0, "symbol_weights": "frequency", "center": None, "discrete": "l1", "max_rank": 3}
    alone = Fitting(**given).imputer("1:5", callback=None, progress=None).method
    other, member = Fitting(method="habits,proximal", **given).expert
    assert other == "habits"
    for one in (alone, member):
        assert one.get_params() == Proximal(**expected).get_params()


def test_defaults_of_the_proximal_options_are_those_of_the_expert():
    """The help page names them, as it computes nothing."""
    import typer

    from snapimpute.app.cli.complete import complete

    app = typer.Typer()
    app.command()(complete)
    shown = {one.name: one.show_default for one in typer.main.get_command(app).params if one.show_default}
    usual = Proximal().get_params()
    for name in PROXIMAL_OPTIONS:
        default = usual["symbol_weights" if name == "weights" else name]
        if default is not None or name == "weights":
            assert shown[name] == ("none" if default is None else f"{default}")
    assert (shown["method"], shown["backend"], shown["dtype"]) == ("auto", "cpu", "float64")


def test_the_help_names_every_method(snap):
    """A method that is added to METHODS has to be added to the help, which cannot look there."""
    words = snap("complete", "--help").out.replace("│", " ").split()
    assert [name for name in METHODS if not {name, f"{name}:", f"{name},", f"{name};"} & {*words}] == []


# -------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--method", "magic"], "--method is one of auto, posterior, mosaic, proximal"),
        (["--method", "habits,magic"], "got 'magic'"),
        (["--method", "habits,habits"], "names habits twice"),
        (["--method", "auto,habits"], "--method auto stands for every expert"),
        (["--method", "auto", "--lam", "2"], "--lam belongs to the proximal expert, and --method auto has no use"),
        (["--method", "posterior", "--max-rank", "2"], "--max-rank belongs to the proximal expert"),
        (["--method", "posterior", "--alphabet-term", "auto"], "--alphabet-term belongs to the proximal expert"),
        (["--method", "mosaic", "--solver", "auto"], "--solver belongs to"),
        (["--method", "habits,mosaic", "--tol", "0.1"], "name --method proximal"),
        (["--method", "habits", "--backend", "cpu"], "--backend belongs to the proximal expert"),
        (["--method", "posterior", "--dtype", "float32"], "--dtype belongs to the proximal expert"),
        (["--time-limit", "0"], "--time-limit takes a number of seconds above 0, got 0"),
        (["--time-limit", "nan"], "--time-limit takes a number of seconds above 0"),
        (["--time-limit", "5", "--lam", "1"], "--time-limit has no use with --method proximal alone"),
        (["--time-limit", "5", "--method", "habits"], "--time-limit has no use with --method habits alone"),
    ],
)
@pytest.mark.parametrize("command", [["complete", "in.csv", "-o", "x.csv"], ["evaluate", "in.csv"]])
def test_what_a_method_has_no_use_for_is_refused(snap, command, more, words):
    """By its name, before a file is read: there is none here."""
    done = snap(*command, "-a", "1:5", *more, ok=False)
    assert done.code == 2
    assert "".join(words.split()) in "".join(done.err.replace("│", "").split())
    assert os.listdir() == []


def test_every_option_of_the_proximal_expert_is_refused_by_others():
    """None of them slips through."""
    values = {"lam": "1", "xi": "1", "cv": 2, "max_iter": 9, "tol": 0.1, "max_rank": 2, "spectral": "lsp"}
    values |= {"discrete": "l2", "weights": "none", "center": "mean", "solver": "apg", "alphabet_term": "tiled"}
    assert {*values} == {*PROXIMAL_OPTIONS}
    for name, value in values.items():
        with pytest.raises(Exception, match=f"--{name.replace('_', '-')} belongs to the proximal expert"):
            Fitting(method="posterior", **{name: value})


def test_a_single_expert_has_nothing_to_compare(snap):
    """Tuning compares experts, or strengths of the proximal one."""
    done = snap("tune", "in.csv", "-a", "1:5", "--method", "mosaic", ok=False)
    assert done.code == 2
    assert "mosaic,proximal" in done.err


def test_a_cluster_takes_the_proximal_expert_only(snap):
    """Before a scheduler is looked for."""
    pytest.importorskip("distributed", reason="dask's scheduler is not installed")
    cluster = ["--cluster", "tcp://127.0.0.1:9", "-a", "1:5", "-m", "model"]
    done = snap("fit", "none.parquet", *cluster, "--method", "posterior", ok=False)
    assert done.code == 2
    assert "--method posterior has no use with --cluster" in " ".join(done.err.replace("│", "").split())


# -------------------------------------------------------------------- what is told
def test_a_blend_tells_of_its_experts(snap, wide_csv):
    """One line for each, with its score and weight or why it has none; the verdict; the cells are filled."""
    done = snap("complete", wide_csv, "-o", "out.csv", "--model", "m.snap", *TWO)
    imputer = si.load("m.snap")
    lines = done.out.splitlines()
    for score in imputer.experts_:
        assert str(score) in lines
    assert str(imputer.verdict_) in done.out
    assert "strengths: " not in done.out
    assert gaps(frame("out.csv")) == 0


def test_json_of_a_blend(snap, wide_csv):
    """Method, experts, weights, verdict; no strengths, which belong to one expert alone."""
    found = snap("fit", wide_csv, "-m", "m.snap", *TWO, "--json").json
    assert found["method"] == ["habits", "proximal"]
    experts = {one["name"]: one for one in found["experts"]}
    assert {*experts} == {"habits", "proximal"}
    assert {"loss", "error", "wrong", "weight", "seconds", "cells", "reason"} <= {*experts["habits"]}
    assert found["blend"] == {name: one["weight"] for name, one in experts.items() if one["weight"]}
    assert sum(found["blend"].values()) == pytest.approx(1)
    assert found["verdict"]["leader"] in found["blend"]
    assert {"share", "loss", "best", "rival", "gain", "error", "cells", "helped"} <= {*found["verdict"]}
    assert "lam" not in found


def test_json_of_a_single_expert(snap, wide_csv):
    """Its name, and that all of the answer is its own; of the proximal one the strengths, as ever."""
    found = snap("fit", wide_csv, "-m", "m.snap", "-a", "1:5", "--method", "posterior", "--json").json
    assert (found["method"], found["blend"], found["experts"]) == ("posterior", {"posterior": 1.0}, [])
    assert "verdict" not in found
    found = snap("fit", wide_csv, "-m", "m.snap", *FIVE, "--json").json
    assert (found["method"], found["blend"], found["lam"]) == ("proximal", {"proximal": 1.0}, 2.0)


def test_a_single_expert_tells_of_its_run(snap, wide_csv):
    """How it ended, and two lines of its diagnostics."""
    done = snap("complete", wide_csv, "-o", "out.csv", "-a", "1:5", "--method", "posterior")
    assert "fit: posterior, The 400 sweeps are made." in done.out
    assert "draws of 1 chain" in done.out
    assert "Monte Carlo error" in done.out
    assert "tried: " not in done.out
    done = snap("complete", wide_csv, "-o", "out.csv", "-a", "1:5", "--method", "mosaic")
    assert "chosen: no order" in done.out


@pytest.mark.parametrize("method", ["posterior", "mosaic", "habits", "habits,proximal"])
def test_every_command_takes_the_model_of_every_expert(snap, long_csv, method):
    """Cells with probabilities, new rows, recommendations, an evaluation."""
    snap("fit", long_csv, "-m", "m.snap", "-a", "1:5", "--method", method)
    done = snap("predict", "m.snap", "--cells", "-", "--probability", stdin=b"user,item\nu3,105\nu0,102\n")
    assert len(done.out.splitlines()) == 3
    assert "u4" in snap("recommend", "m.snap", "u4", "-k", 3).out
    Path("new.csv").write_text("user,item,rating\nx,101,5\nx,104,2\n")
    snap("predict", "m.snap", "new.csv", "-o", "out.csv")
    assert frame("out.csv").height == 8
    snap("complete", long_csv, "-o", "top.csv", "--top", "2", "-a", "1:5", "--method", method, "-q")
    found = snap("evaluate", long_csv, "-a", "1:5", "--method", method, "--json").json
    assert found["ways"][0]["label"] == "snapimpute"


def test_an_interrupted_blend_goes_on_with_the_best_so_far(snap, wide_csv, monkeypatch):
    """What was compared counts; the table is whole, the exit code is 130."""

    def stop(self: Any, found: Any) -> None:
        if found.done == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(terminal.Watcher, "tried", stop)
    done = snap("complete", wide_csv, "-o", "out.csv", *TWO, "--json", ok=False)
    assert done.code == 130
    assert "interrupted: going on with the best so far" in done.err
    assert (done.json["status"], done.json["interrupted"]) == ("interrupted", True)
    assert gaps(frame("out.csv")) == 0


def test_a_time_limit_ends_the_comparison(snap, wide_csv):
    """The best so far answers, and the reasons say which experts had no time."""
    found = snap("complete", wide_csv, "-o", "out.csv", "-a", "1:5", "--time-limit", "0.001", "--json").json
    assert any("time limit" in one["reason"] for one in found["experts"])
    assert gaps(frame("out.csv")) == 0


# -------------------------------------------------------------------- progress
def shown(*steps: Any, method: str = "tried") -> list[str]:
    """Lines that a watcher says where there is no terminal."""
    said = io.StringIO()
    watcher = terminal.Watcher(Console(file=said, width=200), "fitting", 1, max_iter=100)
    for step in steps:
        getattr(watcher, method)(step)
    return said.getvalue().splitlines()


def test_progress_of_a_blend(monkeypatch):
    """The expert, its score on held-out cells, how much is done, the time left; neither where nobody knows."""
    monkeypatch.setattr(terminal, "EVERY", -1.0)
    steps = [Step("mosaic", "held out", 0.81234, 3, 12, 2.0, 30.0)]
    steps += [Step("mosaic", "everything", math.nan, 12, 12, 9.0, math.nan)]
    assert shown(*steps) == [
        "fitting: mosaic, held out: log loss 0.8123; 25 % done; about 30 s left",
        "fitting: mosaic, everything; 100 % done",
    ]


def test_progress_of_sweeps_and_models(monkeypatch):
    """What other experts tell is shown as they word it."""
    monkeypatch.setattr(terminal, "EVERY", -1.0)

    class Told(SimpleNamespace):
        def __str__(self) -> str:
            return self.text

    assert shown(Told(text="low-rank: log loss 0.8")) == ["fitting: low-rank: log loss 0.8"]
    sweep = Told(text="sweep 3, about 2 s left", seconds=1.0, left=2.0)
    assert shown(sweep, Told(text="sweep 4", seconds=1.0, left=math.nan), method="iterated") == [
        "fitting: sweep 3, about 2 s left",
        "fitting: sweep 4",
    ]
    assert shown(Told(text="trees, set 1"), method="iterated") == ["fitting: trees, set 1"]


def test_a_terminal_shows_the_share_of_a_run():
    """The bar moves by steps of a blend, and by seconds of a single run; the words need no room twice."""
    told: list[dict[str, Any]] = []
    watcher = terminal.Watcher(None, "fitting", 1, max_iter=100)
    watcher.bar = SimpleNamespace(update=lambda task, **more: told.append(more))
    watcher.iterated(SimpleNamespace(seconds=1.0, left=3.0))
    assert told[-1]["completed"] == 0.25
    watcher.tried(Step("mosaic", "held out", 0.81234, 3, 12, 2.0, 30.0))
    assert told[-1] == {
        "description": "mosaic, held out: log loss 0.8123; 25 % done",
        "left": "about 30 s left",
        "total": 1.0,
        "completed": 0.25,
    }
    watcher.iterated(SimpleNamespace(seconds=1.0, left=0.1))  # of one member
    watcher.iterated(SimpleNamespace(iteration=90, objective=1.0, x=SimpleNamespace(rank=2)))
    assert [one["completed"] for one in told[-2:]] == [0.25, 0.25]
    assert told[-1]["left"] == ""


def test_progress_of_a_blend_is_shown_while_it_runs(snap, wide_csv, monkeypatch):
    """From the command itself."""
    monkeypatch.setattr(terminal, "EVERY", -1.0)
    done = snap("complete", wide_csv, "-o", "out.csv", *TWO)
    assert "fitting: habits, held out: log loss " in done.err
    assert "fitting: iteration 1, objective " in done.err
    assert "100 % done" in done.err


# -------------------------------------------------------------------- tune
def test_tune_compares_experts(snap, wide_csv):
    """A table of them, the same as a file, the verdict, and the command that fits with what won."""
    done = snap("tune", wide_csv, *TWO, "-o", "experts.csv")
    table = frame("experts.csv")
    assert table.columns == ["name", "loss", "error", "wrong", "weight", "seconds", "cells", "reason"]
    assert {*table["name"]} == {"habits", "proximal"}
    assert "log loss on" in done.out
    assert "left out because" in done.out
    (line,) = (one for one in done.out.splitlines() if one.startswith("to fit with that: "))
    words = shlex.split(line.removeprefix("to fit with that: "))
    won = ",".join(table.filter(table["weight"] > 0)["name"])
    assert words[words.index("--method") + 1] == won
    assert ("--lam" in words) == ("proximal" in won)
    snap(*words[1:-1], "out.csv", "-q")
    assert snap("tune", wide_csv, *TWO, "-o", "-", "-q").out.startswith("name,loss,")
    found = snap("tune", wide_csv, *TWO, "--json").json
    assert [one["name"] for one in found["experts"]] == table["name"].to_list()
    assert found["verdict"]["cells"] > 0


def test_tune_leaves_out_options_of_an_expert_that_lost(snap, wide_csv):
    """The command that it says is one that is not refused: without the proximal expert there are none for it."""
    hopeless = ["--lam", "1e6", "--xi", "0", "--center", "none", "--dtype", "float32"]
    said = snap("tune", wide_csv, "-a", "1:5", "--method", "habits,proximal", *hopeless, "--seed", "1").out
    words = "snapimpute complete wide.csv --alphabet 1:5 --seed 1 --method habits -o OUT"
    assert f"to fit with that: {words}\n" in said


def test_tune_names_no_expert_that_would_refuse_the_table(ratings):
    """A mosaic without an order is none that --method mosaic fits to a sparse table: then nothing is named."""
    sparse = np.where(np.arange(ratings.size).reshape(ratings.shape) % 4 == 0, ratings, np.nan)
    known, schema = si.Observations.from_dense(sparse), ColumnSchema.single(si.Alphabet.of("1:5"), N)
    assert si.Mosaic().objection(known, schema) is not None

    def won(*several: Any) -> list[str]:
        members = [SimpleNamespace(expert=one) for one in several]
        return tune._winners(
            SimpleNamespace(fit_=SimpleNamespace(members=members, observations=known, schema=schema))
        )

    assert won(si.Mosaic(order=None), si.Habits()) == []
    assert won(si.Posterior(covariance="full"), si.Posterior(), si.Habits()) == ["posterior", "habits"]


def test_tune_draws_experts(snap, wide_csv):
    """As a picture, with their names in it."""
    pytest.importorskip("matplotlib")
    snap("tune", wide_csv, *TWO, "--picture", "experts.svg")
    assert Path("experts.svg").read_text().startswith("<?xml")


def test_too_few_cells_to_compare_are_an_error(snap):
    """As nothing can be held out."""
    Path("in.csv").write_text("a,b,c\n1,2,\n2,,1\n1,1,2\n")
    done = snap("tune", "in.csv", "-a", "1:2", "-q", ok=False)
    assert done.code == 1
    assert "there is nothing to compare: too few cells are known" in done.err
