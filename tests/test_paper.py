"""The paper's figures as a program: methods, both ways of tuning, curves, summaries, pictures, on a small table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import snapimpute as si
from snapimpute.cli.app import app
from snapimpute.datasets import Dataset
from snapimpute.experiments import paper
from snapimpute.tuning import Search


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """Ratings of low rank in the place of MovieLens."""
    votes = si.datasets.senate_votes(117)
    made = si.datasets.low_rank_alphabet((40, 30), 2, "1:5", observed=0.8, random_state=0).observations
    data = replace(
        votes,
        name="small",
        rows=made.rows,
        cols=made.cols,
        values=made.values,
        shape=made.shape,
        alphabet=si.Alphabet.of("1:5"),
        row_labels=None,
        col_labels=None,
        splits={},
    )
    monkeypatch.setattr(paper, "movielens_100k", lambda: data)
    monkeypatch.setattr(paper, "THETAS", (5.0, 20.0))
    monkeypatch.setattr(paper, "ITERATIONS", 12)
    return data


@pytest.mark.parametrize("label", paper.METHODS)
def test_every_method_runs_both_ways(small, label):
    """Scores belong to the estimate; what is tuned on test says so."""
    names = list(paper.prints(("paper", "control", "beyond"), [label]))
    assert names == [label, label + paper.ON_TEST]
    scores = list(paper.run_unit("small", 0.6, 0, names))
    for score in scores:
        assert 0 < score.nmse < 0.3
        assert score.rmse == pytest.approx(np.sqrt(score.nmse * np.mean(_hidden(small).values ** 2)))
        assert (score.theta is not None) == (paper.METHODS[label].spectral == "lsp")
        assert score.rank > 0


def _hidden(data: Dataset) -> si.Observations:
    return data.observations.split(0.4, random_state=0)[1]


def test_honest_tuning_never_sees_the_hidden_ratings(small, monkeypatch):
    """Other hidden values lead to the same strengths; tuned on test they may not."""
    known, hidden = small.observations.split(0.4, random_state=0)
    held: list[Any] = []
    begin = Search.__init__

    def spy(self: Search, observations: si.Observations, *args: Any, **options: Any) -> None:
        begin(self, observations, *args, **options)
        held.extend(self.held)

    monkeypatch.setattr(Search, "__init__", spy)
    paper.strengths(paper.METHODS["AIS-Impute"], known, None, 0)
    cells = {*zip(known.rows.tolist(), known.cols.tolist(), strict=True)}
    assert all({*zip(one.rows.tolist(), one.cols.tolist(), strict=True)} <= cells for one in held)
    held.clear()
    paper.strengths(paper.METHODS["AIS-Impute"], known, hidden, 0)
    assert all(one is hidden for one in held)


def test_curves_have_every_iteration(small):
    """NMSE after each iteration, and the one from which on it hardly changes."""
    (curve,) = paper.run_curve("small", 0.6, 0, ["discrete-aware nuclear"])
    assert len(curve.nmse) == 12
    assert 1 <= curve.settled <= 12
    assert replace(curve, nmse=(0.5, 0.2, 0.1, 0.1001)).settled == 3
    assert replace(curve, nmse=(0.1, 0.1)).settled == 1


def test_summary_is_over_the_seeds():
    """Mean and standard error of each method at each share."""
    one = paper.Score("d", 0.2, 0, "AIS-Impute", 0.1, 1.0, 1.0, 0.4, 0.2, 3.0, iterations=10)
    scores = [one, replace(one, seed=1, nmse=0.3), replace(one, method="AIS-Impute (best on test)", nmse=0.05)]
    honest, best = paper.summarise(scores)
    assert (honest.nmse, honest.error, honest.seeds, honest.on_test) == (
        pytest.approx(0.2),
        pytest.approx(0.1),
        2,
        False,
    )
    assert (best.nmse, best.on_test, best.method) == (0.05, True, "AIS-Impute")
    table = paper.as_markdown([honest, best])
    assert "| AIS-Impute | 0.2000 ± 0.1000 |" in table
    assert "| AIS-Impute | 0.0500 |" in table


def test_commands_leave_tables_and_pictures(small, monkeypatch, tmp_path):
    """`reproduce fig1` and `fig2`, quick, in this process."""
    from snapimpute.cli import reproduce

    monkeypatch.setattr(reproduce, "_spread", lambda rest, jobs, console: [job.work() for job in rest])
    for command in ("fig1", "fig2"):
        done = CliRunner().invoke(app, ["reproduce", command, "--quick", "--out", str(tmp_path)])
        assert done.exit_code == 0, done.output
    names = {file.name for file in tmp_path.iterdir()}
    assert {"fig1.md", "fig1.json", "fig1-held-out.png", "fig2.png", "fig2.json"} <= names
    assert "discrete-aware nuclear" in (tmp_path / "fig1.md").read_text(encoding="utf-8")
