"""Planted values are found again, and answers do not depend on what they should not depend on."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri

import snapimpute as si
from snapimpute.posterior import Posterior
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._covariance import Column, CovarianceChain
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._features import Features
from snapimpute.posterior._low_rank import Chain, Parts


@cache
def people(m: int = 300, n: int = 40, seed: int = 0) -> dict[str, Any]:
    """Raters with thresholds and noise levels of their own, items with noise and a factor on thresholds."""
    rng = np.random.default_rng(seed)
    noise, item_noise = rng.gamma(3, 1 / 3, m), rng.gamma(3, 1 / 3, n)
    own = np.sort(np.array([-1.2, -0.3, 0.6, 1.4]) + 0.3 * rng.standard_normal((m, 4)), axis=1)
    factors = np.exp(0.25 * rng.standard_normal(n))
    eta = rng.normal(0, 0.5, (1, n)) + rng.standard_normal((m, 2)) @ rng.normal(0, 0.7, (n, 2)).T
    z = eta + rng.standard_normal((m, n)) / np.sqrt(np.outer(noise, item_noise))
    y = (z[..., None] > factors[:, None] * own[:, None]).sum(axis=2)
    known = rng.random((m, n)) < 0.7
    return {"noise": noise, "item noise": item_noise, "own": own, "factors": factors, "y": y, "known": known}


def chain_of(table: dict[str, Any], seed: int) -> Chain:
    rows, cols = np.nonzero(table["known"])
    m, n = table["y"].shape
    cells = Cells.of(rows, cols, table["y"][rows, cols], (m, n), np.full(m, 5))
    return Chain(cells, 2, (Features.of(m), Features.of(n)), seed=seed)


def run(chain: Chain, sweeps: int, burn_in: int = 60) -> Draws:
    kept = []
    for number in range(sweeps):
        chain.sweep()
        if number >= burn_in:
            kept.append(chain.draw())
    return Draws.of(kept, chain.cells.levels)


def make_exact(chain: Chain) -> None:
    """Let a fast chain go on as an exact one."""
    chain.parts, chain.center_precision = Parts(exact=True), 1.0
    chain.first_center[0, 1:5] = ndtri(np.arange(1, 5) / 5)


@pytest.mark.slow
def test_the_fast_sampler_moves_probabilities_by_little():
    """Probabilities differ from an exact chain's by .0066 at most (root mean square); two exact ones by .006."""
    table, found = people(), []
    for seed in (0, 1):
        chain = chain_of(table, seed)
        for _ in range(60):
            chain.sweep()
        if seed == 1:
            make_exact(chain)
        found.append(run(chain, 1500).probabilities(*np.nonzero(~table["known"])))
    assert np.sqrt(np.mean((found[0] - found[1]) ** 2)) < 0.0066


def test_planted_thresholds_factors_and_noise_levels_are_found():
    """Posterior means of thresholds, factors and noise levels go along with the planted ones, and lie near them."""
    table = people()
    draws = run(chain_of(table, 0), 260)
    own = draws.thresholds.mean(axis=0)
    common = own.mean(axis=0)
    for t in range(4):
        assert np.corrcoef(own[:, t] - common[t], table["own"][:, t])[0, 1] > 0.45
    planted = table["own"].mean(axis=0)
    slope, level = np.polyfit(planted, common, 1)  # the scale of the latent values is a convention
    assert_allclose(common, level + slope * planted, atol=0.08)
    pairs = {"noise": draws.rater_noise, "item noise": draws.item_noise, "factors": draws.factors}
    for name, least in (("noise", 0.65), ("item noise", 0.7), ("factors", 0.6)):
        mean, truth = np.log(pairs[name]).mean(axis=0), np.log(table[name])
        assert np.corrcoef(mean, truth)[0, 1] > least, name


def survey(m: int = 600, n: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Answers of 1 to 5 to items with a common factor, and which are missing: the first two items correlate at .8."""
    rng = np.random.default_rng(seed)
    covariance = 0.15 + 0.85 * np.eye(n)
    covariance[0, 1] = covariance[1, 0] = 0.85
    z = rng.standard_normal((m, n)) @ np.linalg.cholesky(covariance).T
    y = 1.0 + np.digitize(z, [-1.3, -0.4, 0.4, 1.3])
    missing = np.zeros((m, n), dtype=bool)
    missing[:, 0] = rng.random(m) < np.where(y[:, 2] > 3, 0.6, 0.2)
    return y, missing


def drawn_correlation(covariance: str, y: np.ndarray, missing: np.ndarray) -> float:
    """Correlation of the first two items where the first is missing, averaged over twenty completed tables."""
    fit = Posterior(covariance=covariance, thresholds="columns", sweeps=260, links=False).fit(
        si.Observations.from_dense(np.where(missing, np.nan, y)), "1:5"
    )
    return float(np.mean([np.corrcoef(cells, y[missing[:, 0], 1])[0, 1] for cells in fit.draw(20)]))


def test_draws_keep_what_two_columns_share():
    """Completed cells correlate with another column as the hidden ones do under the full covariance, not low rank."""
    y, missing = survey(600, 30)
    gone = missing[:, 0]
    complete = np.corrcoef(y[gone, 0], y[gone, 1])[0, 1]
    assert complete == pytest.approx(0.8, abs=0.05)
    assert drawn_correlation("full", y, missing) == pytest.approx(complete, abs=0.05)
    # A known limit: a factor that only two columns have is shrunk away, and their completed cells are less alike.
    assert drawn_correlation("low-rank", y, missing) < complete - 0.06


def test_a_planted_covariance_is_found():
    """Posterior means of all latent correlations are near the planted ones, though only symbols are known."""
    y, missing = survey(1500)
    columns = []
    for answers, gone in zip(y.T, missing.T, strict=True):
        order = np.argsort(answers, kind="stable")
        known = order[~gone[order]]
        columns.append(Column(known, (answers[known] - 1).astype(np.uint8), np.flatnonzero(gone), 5))
    chain, total = CovarianceChain(y.shape, columns, {}), np.zeros((12, 12))
    for number in range(160):
        chain.sweep()
        if number >= 60:
            sigma = np.linalg.inv(chain.precision)
            total += sigma / np.sqrt(np.outer(np.diag(sigma), np.diag(sigma))) / 100
    planted = 0.15 + 0.85 * np.eye(12)
    planted[0, 1] = planted[1, 0] = 0.85
    assert np.sqrt(np.mean((total - planted) ** 2)) < 0.03
    assert total[0, 1] == pytest.approx(0.85, abs=0.04)


def test_plain_numbers_follow_the_closed_form():
    """With plain numbers and a block missing, means of the exact chain are those of the closed form."""
    rng = np.random.default_rng(0)
    m, p, gone = 80, 6, 30
    z = rng.standard_normal((m, p)) @ rng.standard_normal((p, p)) / 2
    rows, none = np.arange(m), np.empty(0, np.uint8)
    columns = [Column(rows[gone * (j < 2) :], none, rows[: gone * (j < 2)], 0) for j in range(p)]
    values = {j: z[column.known, j] for j, column in enumerate(columns)}
    chain = CovarianceChain((m, p), columns, values, robust=False, exact=True)
    centers, first = np.zeros((p, m), np.float32), 100
    for number in range(first + 3000):
        chain.sweep(None, centers if number >= first else None)
    # Rows that lack a block say nothing of the regression of that block on the others, where Σ has an inverse
    # Wishart prior with Ψ = (f + 1) I; so its coefficients have the mean (Ψ + ZᵀZ)⁻¹ ZᵀY, over the complete rows.
    whole, across = z[gone:, 2:], z[gone:, :2]
    coefficients = np.linalg.solve((chain.strength + 1) * np.eye(p - 2) + whole.T @ whole, whole.T @ across)
    expected = z[:gone, 2:] @ coefficients
    found = centers[:2, :gone].T / 3000
    assert np.abs(found - expected).max() < 0.06 * expected.std()


@pytest.mark.parametrize(("covariance", "side"), [("low-rank", "rows"), ("low-rank", "columns"), ("full", "columns")])
def test_the_order_of_rows_and_columns_does_not_matter(covariance, side):
    """A table with rows and columns in another order gets the same probabilities, within Monte Carlo error."""
    y, _ = survey(200, 20)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(y.shape) < 0.7, y, np.nan)
    rows, cols = rng.permutation(200), rng.permutation(20)
    model = Posterior(covariance=covariance, thresholds=side, rank=3, sweeps=400)
    every = np.indices(y.shape).reshape(2, -1)
    here, there = (
        model.fit(si.Observations.from_dense(one), "1:5").proba(*every).reshape(*y.shape, 5)
        for one in (y, y[np.ix_(rows, cols)])
    )
    assert np.sqrt(np.mean((here[np.ix_(rows, cols)] - there) ** 2)) < 0.03
