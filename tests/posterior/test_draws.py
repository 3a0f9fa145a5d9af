"""Completed tables: observed cells stay, others are drawn jointly, for any number of tables under a seed."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import psi

import snapimpute as si
from snapimpute.data import answers as answers_module
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior import Posterior, PosteriorFit
from snapimpute.posterior._answers import KEPT_LINKS, CovarianceAnswers, LowRankAnswers
from snapimpute.posterior._covariance import CovarianceDraw
from snapimpute.posterior._features import side_maps
from snapimpute.posterior._given import given_features
from snapimpute.posterior._table import Frame

COVARIANCES = ["low-rank", "full"]


@cache
def answers(m: int = 80, n: int = 6, seed: int = 0) -> np.ndarray:
    """Answers of 0 to 3 to items with a common factor, a quarter of them missing, and a column of numbers."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((m, 1)) + 0.7 * rng.standard_normal((m, n))
    X = np.digitize(z, [-1.0, 0.0, 1.0]).astype(float)
    X[:, -1] = 20 + 5 * z[:, -1]
    X[rng.random((m, n)) < 0.25] = np.nan
    return X


@cache
def fitted(covariance: str) -> PosteriorFit:
    """Few sweeps: some thirty draws are kept under the full covariance."""
    schema = ColumnSchema.of(["0:3"] * 5 + [None], 6)
    model = Posterior(covariance=covariance, thresholds="columns", rank=2, sweeps=160)
    return model.fit(si.Observations.from_dense(answers()), schema)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_any_number_of_tables_the_same_under_a_seed(covariance):
    """More tables than draws kept: the same bits under a seed, also one by one, and others under another."""
    fit = fitted(covariance)
    tables = fit.draw(130, random_state=3)
    rows, cols = fit.missing()
    assert tables.shape == (130, rows.size)
    assert len(np.unique(tables[:, cols == 5], axis=0)) == 130
    assert set(np.unique(tables[:, cols < 5])) == {0.0, 1.0, 2.0, 3.0}
    assert_array_equal(np.stack(list(fit.iter_draws(130, random_state=3))), tables)
    assert (fit.draw(130, random_state=4) != tables).any()


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_observed_cells_stay_as_they_are(covariance):
    """Cells of whole rows: known ones have their values in every table, the others change from table to table."""
    X, rows = answers(), np.repeat(np.arange(10), 6)
    tables = fitted(covariance).draw(150, rows, np.tile(np.arange(6), 10)).reshape(150, 10, 6)
    known = ~np.isnan(X[:10])
    assert_array_equal(tables[:, known], np.tile(X[:10][known], (150, 1)))
    assert (tables[:, ~known].std(axis=0) > 0).all()


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_drawn_cells_have_the_probabilities_of_the_fit(covariance):
    """Over many tables, missing symbols occur as often as their probabilities say; numbers have their mean."""
    fit = fitted(covariance)
    rows, cols = fit.missing()
    tables = fit.draw(240)
    symbols = cols < 5
    shares = np.stack([(tables[:, symbols] == s).mean(axis=0) for s in range(4)], axis=1)
    # Few draws of the parameters are kept, and those of the full covariance are fewer than the sweeps averaged.
    assert np.sqrt(np.mean((shares - fit.proba(rows[symbols], cols[symbols])) ** 2)) < 0.06
    mean = fit.mean(rows[~symbols], cols[~symbols])
    assert np.sqrt(np.mean((tables[:, ~symbols].mean(axis=0) - mean) ** 2)) < 1.0


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_draws_of_new_rows(covariance):
    """Rows folded in are completed by draws, too: a copy of a fitted row gets nearly the same shares."""
    fit = fitted(covariance)
    folded = fit.fold_in(si.Observations.from_dense(answers()[:20]))
    rows, cols = folded.missing()
    new, old = (one.draw(300, rows, cols) for one in (folded, fit))
    symbols = cols < 5
    assert np.sqrt(np.mean((new[:, symbols].mean(axis=0) - old[:, symbols].mean(axis=0)) ** 2)) < 0.3
    assert set(np.unique(new[:, symbols])) <= {0.0, 1.0, 2.0, 3.0}


def test_cells_of_a_row_are_drawn_jointly():
    """Two missing cells beside a known one have the joint distribution that rejection sampling gives."""
    rng = np.random.default_rng(0)
    sigma = np.array([[1, 0.6, 0.5], [0.6, 1, 0.9], [0.5, 0.9, 1]])
    bounds = np.array([-0.5, 0.6])
    w = rng.gamma(5, 1 / np.exp(psi(5)), 400_000)
    z = rng.standard_normal((w.size, 3)) @ np.linalg.cholesky(sigma).T / np.sqrt(w)[:, None]
    y = (z[..., None] > bounds).sum(axis=2)
    expected = np.bincount(3 * y[y[:, 0] == 2, 1] + y[y[:, 0] == 2, 2], minlength=9) / (y[:, 0] == 2).sum()
    table = si.Observations.from_coo(np.arange(3000), np.zeros(3000, int), np.full(3000, 2.0), (3000, 3))
    parameters = np.linalg.inv(sigma).astype(np.float32), np.tile(bounds, (3, 1)).astype(np.float32)
    draw = CovarianceDraw(*parameters, level=1.0, noise_shape=10.0, slopes=np.zeros((0, 3)))
    sides = side_maps(table, given_features(table, None, None), mask=False, seed=0)
    frame = Frame.of(table, ColumnSchema.single(si.Alphabet.of("0:2"), 3), False, sides)
    parts = CovarianceAnswers(np.zeros((3, 3, 3000)), np.zeros((3, 3000), np.float32), (draw,))
    drawn = PosteriorFit(frame, parts, table).draw(6).reshape(6, 3000, 2).astype(int)
    found = np.bincount((3 * drawn[..., 0] + drawn[..., 1]).ravel(), minlength=9) / drawn[..., 0].size
    assert_allclose(found, expected, atol=0.012)
    # Tables are nearly independent: rows do not keep their symbols from one to the next more often than by chance.
    stay, shares = (
        np.mean(drawn[1:] == drawn[:-1]),
        [np.bincount(one.ravel()) / one.size for one in np.moveaxis(drawn, 2, 0)],
    )
    assert stay == pytest.approx(np.mean([one @ one for one in shares]), abs=0.05)


def test_what_cannot_be_drawn_is_refused(monkeypatch):
    """No table, half of the positions, and more cells than memory should hold: each is refused in a sentence."""
    fit = fitted("full")
    with pytest.raises(ValueError, match="count must be a whole number of tables, at least 1, got 0"):
        fit.draw(0)
    with pytest.raises(ValueError, match="rows and cols belong together"):
        fit.draw(2, rows=[0])
    monkeypatch.setattr(answers_module, "MOST_CELLS", 500)
    with pytest.raises(ValueError, match="take them one by one from iter_draws"):
        fit.draw(30)
    assert next(fit.iter_draws(30, [0], [0])).shape == (1,)
    monkeypatch.setattr(answers_module, "MOST_CELLS", 400)
    with pytest.raises(ValueError, match="name the rows and cols to draw"):
        fit.draw(1)


def test_narrow_tables_are_completed_by_the_full_covariance(tmp_path):
    """Where low rank predicts, the full covariance draws: in the fit, in its file and for new rows."""
    X = np.random.default_rng(0).integers(0, 4, (60, 5)).astype(float)
    X[:10, 0] = np.nan
    imputer = si.SnapImputer("0:3", method=Posterior(sweeps=40)).fit(X)
    imputer.save(tmp_path / "model")
    fit, loaded = (one._model.fit for one in (imputer, si.load(tmp_path / "model")))
    assert isinstance(fit.answers, LowRankAnswers)
    assert isinstance(fit._completing, CovarianceAnswers)
    assert fit.kept_links == fit._completing.kept_links == KEPT_LINKS
    assert_array_equal(loaded.draw(3), fit.draw(3))
    folded = fit.fold_in(si.Observations.from_dense(X[:20]))
    assert isinstance(folded._completing, CovarianceAnswers)
    assert folded.draw(3).shape == (3, 10)
    assert_array_equal(folded._completing.draws[0].precision, fit._completing.draws[0].precision)
    assert Posterior(covariance="low-rank", sweeps=40).fit(fit.observations, "0:3").completion is None
