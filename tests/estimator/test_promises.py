"""What the estimator promises on real tables: new rows, calibration, exact match, pipelines with cross-validation."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import snapimpute as si
from tests.helpers import proximal

pytestmark = pytest.mark.slow

RATINGS: dict[str, Any] = {"lam": 14.0, "xi": 0.001, "center": "biases"}


@pytest.fixture(scope="module")
def ratings(movielens):
    """(known, hidden): a random fifth of MovieLens-100k is hidden."""
    return movielens.observations.split(0.2, random_state=0)


@pytest.fixture(scope="module")
def rated(ratings):
    return proximal("1:5", **RATINGS).fit(ratings[0].to_sparse())


@pytest.mark.movielens
def test_ratings_are_matched_exactly_as_often_as_by_the_best_rivals(rated, ratings):
    """More than 0.435 of the hidden ratings, where rounding the estimate finds fewer."""
    hidden = ratings[1]
    exact = si.metrics.exact_match(hidden.values, rated.predict(hidden.rows, hidden.cols))
    rounded = rated.alphabet_.snap(rated.predict_mean(hidden.rows, hidden.cols))
    assert exact > 0.435
    assert exact > si.metrics.exact_match(hidden.values, rounded) + 0.01


@pytest.mark.movielens
def test_probabilities_of_ratings_are_calibrated(rated, ratings):
    """The expected calibration error on hidden ratings is at most 0.03, and surer ratings are right more often."""
    hidden = ratings[1]
    p = rated.predict_proba(hidden.rows, hidden.cols)
    assert si.metrics.expected_calibration_error(hidden.values, p, "1:5") <= 0.03
    sure = p.max(axis=1) > 0.5
    right = p.argmax(axis=1) + 1 == hidden.values
    assert right[sure].mean() > right[~sure].mean() + 0.1


@pytest.mark.movielens
def test_new_users_are_as_well_off_as_after_a_refit(movielens):
    """A fifth of the users, folded in by four fifths of their ratings: within 3 % of the NMSE of fitting them too."""
    data = movielens.observations
    new = np.isin(data.rows, np.random.default_rng(0).permutation(data.shape[0])[: data.shape[0] // 5])
    seen, hidden = data.take(new).split(0.2, per="row", random_state=0)
    cells = data.rows.astype(np.int64) * data.shape[1] + data.cols
    kept = ~new | np.isin(cells, seen.rows.astype(np.int64) * data.shape[1] + seen.cols)
    options = {**RATINGS, "decide": "nearest"}
    first = proximal("1:5", **options).fit(data.take(~new).to_sparse())
    again = proximal("1:5", **options).fit(data.take(kept).to_sparse())
    folded = first.fold_in(seen.to_sparse()).mean(hidden.rows, hidden.cols)
    refitted = again.predict_mean(hidden.rows, hidden.cols)
    assert si.metrics.nmse(hidden.values, folded) <= 1.03 * si.metrics.nmse(hidden.values, refitted)


def test_probabilities_of_votes_are_calibrated():
    """With the defaults, half of the votes hidden: at most 0.03 off, and fewer than 6 % wrong."""
    known, hidden = si.datasets.senate_votes(117).observations.split(0.5, random_state=1)
    imp = si.SnapImputer([0, 1], method="proximal").fit(known.to_sparse())
    p = imp.predict_proba(hidden.rows, hidden.cols)
    assert si.metrics.expected_calibration_error(hidden.values, p, [0, 1]) <= 0.03
    assert si.metrics.exact_match(hidden.values, imp.predict(hidden.rows, hidden.cols)) > 0.94


def test_pipeline_with_cross_validation_on_votes():
    """A roll call is predicted from the others, with the holes filled inside of each fold."""
    votes = si.datasets.senate_votes(117).observations.to_sparse().tocoo()
    table = np.full(votes.shape, np.nan)
    table[votes.coords] = votes.data
    present = ~np.isnan(table[:, 40])
    X, y = np.delete(table, 40, axis=1)[present], table[present, 40].astype(int)
    pipe = make_pipeline(
        si.SnapImputer([0, 1], method=si.Proximal(lam=3.0, xi=0.001)), LogisticRegression(max_iter=2000)
    )
    scores = cross_val_score(pipe, X, y, cv=3)
    assert scores.mean() > max(y.mean(), 1 - y.mean()) + 0.02


def test_pipeline_with_cross_validation_on_survey_answers(shared_data):
    """The answers of bfi tell the gender better than guessing; the answers alone are scored by cells found again."""
    with gzip.open(shared_data("bfi.csv.gz"), "rt") as file:
        bfi = pd.read_csv(file, index_col=0)
    X, y = bfi.iloc[:, :25].astype("Int64"), bfi["gender"]
    imp = si.SnapImputer("1:6", method=si.Proximal(lam=25.0, xi=0.0, center="biases"))
    pipe = make_pipeline(imp, LogisticRegression(max_iter=2000))
    assert cross_val_score(pipe, X, y, cv=3).mean() > y.value_counts(normalize=True).max() + 0.02
    common = bfi.iloc[:, :25].stack().value_counts(normalize=True).max()
    assert cross_val_score(imp, X, cv=3).mean() > common + 0.05
