"""The paper's figures as a program: methods, both ways of tuning, curves, summaries, pictures, on a small table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import snapimpute as si
from reproduction import paper
from snapimpute.data.datasets import Dataset


@pytest.mark.parametrize("label", paper.METHODS)
def test_every_method_runs_both_ways(small_ratings, label):
    """Scores belong to the estimate; what is tuned on test says so."""
    names = list(paper.prints(0.6, [label]))
    assert names == [label, label + paper.ON_TEST]
    scores = list(paper.run_unit("small", 0.6, 0, names))
    for score in scores:
        assert 0 < score.nmse < 0.3
        assert score.rmse == pytest.approx(np.sqrt(score.nmse * np.mean(_hidden(small_ratings).values ** 2)))
        assert (score.theta is not None) == (paper.METHODS[label].spectral == "lsp")
        assert score.rank > 0


def _hidden(data: Dataset) -> si.Observations:
    return data.observations.split(0.4, random_state=0)[1]


def test_honest_tuning_never_sees_the_hidden_ratings(small_ratings):
    """The entries it is scored on are known ones; other hidden values lead to the same strengths and estimates."""
    known, hidden = small_ratings.observations.split(0.4, random_state=0)
    others = si.Observations.from_coo(hidden.rows, hidden.cols, 6 - hidden.values, hidden.shape)
    for label in ("discrete-aware nuclear", "niAPG, LSP"):
        first, second = (paper.Split(known, one, 0).trial(label) for one in (hidden, others))
        cells = {*zip(known.rows.tolist(), known.cols.tolist(), strict=True)}
        for surface in first.tuning:
            assert {*zip(surface.held.rows.tolist(), surface.held.cols.tolist(), strict=True)} <= cells
        (one, about), (two, also) = first.honest(), second.honest()
        np.testing.assert_array_equal(one, two)
        assert (about["lam"], about["xi"], about["theta"]) == (also["lam"], also["xi"], also["theta"])


@pytest.mark.parametrize("label", ["AIS-Impute", "discrete-aware nuclear, composed", "discrete-aware LSP", "L0"])
def test_best_on_test_is_never_worse(small_ratings, label):
    """It looks at the honest fit too, and says which strengths it has."""
    trial = paper.Split(*small_ratings.observations.split(0.4, random_state=1), 1).trial(label)
    truth = trial.hidden.values
    honest, best = trial.honest(), trial.best_on_test()
    assert si.metrics.nmse(truth, best[0]) <= si.metrics.nmse(truth, honest[0])
    (surface,) = [one for one in trial.testing if one.spec.theta == best[1]["theta"]]
    assert best[1]["lam"] in surface.lams
    assert best[1]["xi"] in surface.xis


def test_plain_fits_are_shared(small_ratings):
    """Methods with the same low-rank term and centre fit ξ = 0 once."""
    split = paper.Split(*small_ratings.observations.split(0.4, random_state=0), 0)
    plain = split.trial("AIS-Impute").chosen[1]
    aware = split.trial("discrete-aware nuclear")
    assert aware.tuning[0].best_plain() is plain
    centred = split.trial("L1, mean-centred")
    assert centred.tuning[0].best_plain() is not plain


def test_curves_have_every_iteration(small_ratings, monkeypatch):
    """At the few observed, of the paper's methods tuned honestly: NMSE after each iteration."""
    monkeypatch.setattr(paper, "FEW", 0.6)
    names = ["discrete-aware nuclear", "discrete-aware nuclear (best on test)", "L0"]
    curve, none, neither = (score.curve for score in paper.run_unit("small", 0.6, 0, names))
    assert len(curve) == 12
    assert none is None
    assert neither is None


def test_settled_is_where_a_curve_stays():
    """The iteration from which on it is within 1 % of its end."""
    assert paper.settled((0.5, 0.2, 0.1, 0.1001)) == 3
    assert paper.settled((0.1, 0.1)) == 1
    assert paper.settled((0.1, 0.3, *[0.1] * 8)) == 3
    assert paper.settled(tuple(np.geomspace(1, 0.1, 50))) == np.inf
    assert (paper.count_in_words(73.4), paper.count_in_words(np.inf, 50)) == ("73", "more than 50")


def test_summary_is_over_the_seeds():
    """Mean and standard error of each method at each share."""
    one = paper.Score("d", 0.2, 0, "AIS-Impute", 0.1, 1.0, 1.0, 0.4, 0.25, 3.0, iterations=10)
    scores = [one, replace(one, seed=1, nmse=0.3), replace(one, method="AIS-Impute (best on test)", nmse=0.05)]
    honest, rounded, best, _ = paper.summarise(scores)
    assert (rounded.method, rounded.kind, rounded.nmse) == ("AIS-Impute, rounded", "control", pytest.approx(0.25))
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


def test_baselines_stand_beside_both_ways_of_tuning():
    """They are not tuned, so that they are controls in both figures; without the second way only once."""
    one = paper.Score("d", 0.2, 0, "constant mean", 0.1, 1.0, 1.0, 0.4, 0.25, 3.0)
    honest, on_test, best = paper.summarise([one, replace(one, method="AIS-Impute (best on test)")])[:3]
    assert (honest.method, honest.on_test) == ("constant mean", False)
    assert repr(on_test) == repr(replace(honest, on_test=True))  # with an error of NaN, which is not even itself
    assert (best.method, best.on_test) == ("AIS-Impute", True)
    assert [line.on_test for line in paper.summarise([one])] == [False]
