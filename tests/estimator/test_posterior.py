"""The estimator with the posterior behind it: the same table back, new rows, more cells, files, clear refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import snapimpute as si
from snapimpute.data.datasets import low_rank_alphabet

DATA = low_rank_alphabet((120, 25), rank=2, alphabet="1:5", observed=0.7)
METHODS = [si.Posterior("low-rank", sweeps=60), si.Posterior("full", sweeps=60)]


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    """Known cells, NaN elsewhere."""
    X = np.full(DATA.observations.shape, np.nan)
    X[DATA.observations.rows, DATA.observations.cols] = DATA.observations.values
    return X


@pytest.mark.parametrize("method", METHODS, ids=["low-rank", "full"])
def test_tables_come_back_filled_with_symbols(table, method):
    """A frame keeps its labels, known cells and dtypes; missing ones get symbols by the probabilities."""
    frame = pd.DataFrame(table, columns=[f"q{j}" for j in range(25)]).astype("Int64")
    imp = si.SnapImputer("1:5", method=method).fit(frame)
    filled = imp.transform(frame)
    assert filled.columns.tolist() == frame.columns.tolist()
    assert (filled.dtypes == "Int64").all()
    known = ~np.isnan(table)
    np.testing.assert_array_equal(filled.to_numpy(dtype=float)[known], table[known])
    rows, cols = np.nonzero(~known)
    p = imp.predict_proba(rows, cols)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(imp.predict(rows, cols), p.argmax(axis=1) + 1)
    np.testing.assert_array_equal(filled.to_numpy(dtype=float)[~known], p.argmax(axis=1) + 1)
    np.testing.assert_allclose(imp.predict_mean(rows, cols), p @ np.arange(1, 6))
    assert imp.n_iter_ == 60
    assert set(imp.history_) == {"number", "seconds", "log_likelihood", "error", "excess"}


@pytest.mark.parametrize("method", METHODS, ids=["low-rank", "full"])
def test_new_rows_and_more_cells(table, method):
    """Rows that were not fitted are filled, `score` hides cells of them, `partial_fit` goes on."""
    imp = si.SnapImputer("1:5", method=method).fit(table[:100])
    filled = imp.transform(table[100:])
    assert not np.isnan(filled).any()
    assert imp.score(table[100:]) > 0.25
    assert set(imp.transform(np.full((2, 25), np.nan)).ravel()) <= {1, 2, 3, 4, 5}  # rows of which nothing is known
    again = imp.partial_fit(table[100:])
    assert again.predict(110, 3) in range(1, 6)


@pytest.mark.parametrize("method", METHODS, ids=["low-rank", "full"])
def test_files_hold_the_posterior(table, method, tmp_path):
    """A model comes back from its file with the same bits, and takes new rows."""
    imp = si.SnapImputer("1:5", method=method).fit(table)
    imp.save(tmp_path / "model.snap")
    back = si.load(tmp_path / "model.snap")
    cells = np.arange(120), np.arange(120) % 25
    np.testing.assert_array_equal(back.predict_proba(*cells), imp.predict_proba(*cells))
    np.testing.assert_array_equal(back.transform(table[:5]), imp.transform(table[:5]))


def test_progress_and_diagnostics(table, capsys):
    """What short runs tried and each sweep are told as they come, and can be printed; the figures are kept."""
    imp = si.SnapImputer("1:5", method=si.Posterior(sweeps=20), progress=print, callback=print).fit(table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("low-rank, thresholds by columns: log loss 0.4")
    assert lines[-1].startswith("sweep 20: log-likelihood")
    assert len(imp.diagnostics_.held_out) == len(lines) - 20 == 3
    shown = imp._html_repr()
    assert "too few draws to tell" in shown
    assert "The 20 sweeps are made." in shown
    assert si.SnapImputer("1:5", method=si.Proximal(lam=1.0, xi=0.0)).fit(table).diagnostics_ is None


def test_it_works_as_an_estimator(table):
    """Clones, pipelines and losses: the symbol minimises the loss, and a doubtful one stays missing."""
    imp = clone(si.SnapImputer("1:5", method=si.Posterior("low-rank", sweeps=60), decide="mae"))
    assert imp.get_params()["method"] == si.Posterior("low-rank", sweeps=60)
    filled = make_pipeline(imp).fit_transform(table)
    assert not np.isnan(filled).any()
    doubtful = si.SnapImputer("1:5", method="posterior", min_confidence=0.9).fit(table)
    assert np.isnan(doubtful.transform(table)).any()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"method": "gibbs"},
            r"method must be one of 'auto', .* an expert such as si\.Posterior\(\), .* got 'gibbs'",
        ),
        (
            {"method": "posterior", "backend": "torch"},
            "backend='torch' belongs to the proximal expert, posterior has",
        ),
        (
            {"method": "posterior", "dtype": "float32"},
            "dtype='float32' belongs to the proximal expert, posterior has",
        ),
    ],
)
def test_parameters_that_the_posterior_does_not_use_are_refused(table, given, message):
    """The parameter is named, and nothing is computed."""
    with pytest.raises(ValueError, match=message):
        si.SnapImputer("1:5", **given).fit(table)


# ---------------------------------------------------------------- features of rows and columns
NAMES = [f"q{j}" for j in range(12)]


@pytest.fixture(scope="module")
def liking() -> tuple[pd.DataFrame, pd.DataFrame, dict]:
    """Answers that follow from the taste of a person and the kind of a question; ten people answered nothing."""
    rng = np.random.default_rng(0)
    taste, kind = rng.integers(0, 2, 90), np.arange(12) % 2
    z = 2.0 * (taste[:, None] == kind) - 1 + rng.normal(0, 0.7, (90, 12))
    answers = np.where(rng.random(z.shape) < 0.6, 1 + (z > -0.5) + (z > 0.5), np.nan)
    answers[80:] = np.nan
    index = [f"person {i}" for i in range(90)]
    people = pd.DataFrame({"taste": np.array(["tea", "wine"])[taste], "age": rng.normal(40, 9, 90)}, index=index)
    questions = {name: {"about": {"tea" if one == 0 else "wine"}} for name, one in zip(NAMES, kind, strict=True)}
    return pd.DataFrame(answers, columns=NAMES, index=index), people, questions


def right(filled: pd.DataFrame, people: pd.DataFrame) -> float:
    """Share of rows whose liked questions get more than the others."""
    about = np.array([np.arange(12) % 2 == one for one in (people["taste"] == "wine").astype(int)])
    values = filled.to_numpy(dtype=float)
    return float(np.mean((values * about).sum(axis=1) > (values * ~about).sum(axis=1)))


@pytest.mark.parametrize("covariance", ["low-rank", "full"])
def test_features_fill_rows_of_which_nothing_is_known(liking, covariance, tmp_path):
    """By their features: in the fit, in new rows, after more rows, from a file; lines go by label, in any order."""
    answers, people, questions = liking
    columns = {"column_features": questions} if covariance == "low-rank" else {}
    imp = si.SnapImputer("1:3", method=si.Posterior(covariance, rank=2, sweeps=80))
    shuffled = people.sample(frac=1, random_state=0)
    filled = imp.fit_transform(answers[5:], row_features=shuffled, **columns)
    assert right(filled[75:], people[80:]) == 1
    new = imp.transform(answers[80:].set_axis(people.index[:10]), row_features=people)
    assert right(new, people[:10]) == 1
    assert right(imp.transform(answers[80:]), people[80:]) < 1
    imp.save(tmp_path / "model.snap")
    again = si.load(tmp_path / "model.snap").transform(answers[80:].set_axis(people.index[:10]), row_features=people)
    pd.testing.assert_frame_equal(again, new)
    pd.testing.assert_frame_equal(imp.transform(answers[5:], row_features=people), filled)
    imp.partial_fit(answers[:5], row_features=people[:5])
    cells = np.indices((10, 12)).reshape(2, -1)
    later = pd.DataFrame(imp.predict(75 + cells[0], cells[1]).reshape(10, 12))
    assert right(later, people[80:]) == 1


def test_features_in_one_call(liking):
    """`complete` takes them, too, and arrays go by position."""
    answers, people, questions = liking
    method = si.Posterior("low-rank", rank=2, sweeps=60)
    filled = si.complete(answers, "1:3", method=method, row_features=people, column_features=questions)
    assert right(filled[80:], people[80:]) == 1


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("proximal", {"row_features": np.ones((90, 1))}, 'row_features belong to method="posterior"'),
        ("posterior", {"row_features": np.ones((9, 1))}, "row_features describes 9 rows, the table has 90"),
        ("posterior", {"column_features": np.ones((9, 1))}, "column_features describes 9 columns, the table has 12"),
        ("posterior", {"row_features": pd.DataFrame({"x": [1]}, ["me"])}, r"lacks 90 row\(s\) of the table"),
        (si.Posterior("full"), {"column_features": np.ones((12, 1))}, 'column_features need covariance="low-rank"'),
    ],
)
def test_features_that_do_not_fit_are_refused(liking, method, given, message):
    """The argument is named, with what was given and what was expected."""
    with pytest.raises(ValueError, match=message):
        si.SnapImputer("1:3", method=method).fit(liking[0], **given)


def test_new_rows_need_no_features_that_the_fit_had_not(table):
    """Features that come only now are refused, by both methods."""
    imp = si.SnapImputer("1:5", method=METHODS[0]).fit(table[:100])
    with pytest.raises(ValueError, match="row_features was not given to the fit, which has no use for it now"):
        imp.transform(table[100:], row_features=np.ones((20, 1)))
    proximal = si.SnapImputer("1:5", method=si.Proximal(lam=1.0, xi=0.0, max_iter=5, tol=1.0)).fit(table[:100])
    with pytest.raises(ValueError, match='row_features belong to method="posterior"'):
        proximal.transform(table[100:], row_features=np.ones((20, 1)))
