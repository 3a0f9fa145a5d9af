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
        ({"method": "gibbs"}, "method must be 'proximal', 'posterior', or a Posterior with its parameters"),
        ({"method": "posterior", "lam": 2.0}, r"lam=2.0 belongs to the proximal method, not to method='posterior'"),
        ({"method": "posterior", "backend": "torch"}, "backend='torch' belongs to the proximal method"),
    ],
)
def test_parameters_that_the_posterior_does_not_use_are_refused(table, given, message):
    """The parameter is named, and nothing is computed."""
    with pytest.raises(ValueError, match=message):
        si.SnapImputer("1:5", **given).fit(table)
