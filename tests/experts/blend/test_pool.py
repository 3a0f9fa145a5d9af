"""Weights of experts: their slope, what they find in planted evidence, and their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from snapimpute.experts.blend.pool import Evidence, Pool, _Task, logs_of, softmax


def evidence(cells: int, noises: tuple[float, ...], *, symbols: int = 3, careless: float = 0.0, seed: int = 0):
    """Experts that know the true log-probabilities up to noise, and symbols drawn from these."""
    rng = np.random.default_rng(seed)
    true = 1.5 * rng.standard_normal((cells, symbols))
    truth = (softmax(true).cumsum(axis=1) < rng.random(cells)[:, None]).sum(axis=1)
    lost = rng.random(cells) < careless
    truth = np.where(lost, rng.integers(0, symbols, cells), truth)
    logs = np.stack([logs_of(softmax(true + noise * rng.standard_normal(true.shape))) for noise in noises])
    return Evidence(logs, truth, rng.random(cells))


def loss(pool: Pool, given: Evidence) -> float:
    p = pool.proba(given.logs, given.reach, given.mirror)
    return -float(np.log(p[np.arange(given.truth.size), given.truth]).mean())


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_slope_is_that_of_the_loss(mirrored):
    """The slope agrees with finite differences, for every parameter."""
    rng = np.random.default_rng(1)
    given = evidence(60, (0.3, 0.8))
    if mirrored:
        given = given._replace(mirror=rng.integers(0, 4, 60))
    task = _Task(given, np.array([1.0, 0.0]))
    x = np.abs(rng.normal(0, 0.3, task.start.size)) + 0.01
    np.testing.assert_allclose(task.lost(x)[1], approx_fprime(x, lambda y: task.lost(y)[0], 1e-6), atol=2e-3)


def test_two_that_know_different_things_are_better_together():
    """On other cells the blend of two noisy experts beats the better one, and both have weight."""
    pool = Pool.fit(evidence(4000, (0.8, 0.8), seed=0))
    other = evidence(4000, (0.8, 0.8), seed=1)
    alone = [loss(Pool.single(2, k, 3), other) for k in (0, 1)]
    assert (pool.weights > 0.2).all()
    assert loss(pool, other) < min(alone) - 0.02


def test_an_expert_that_knows_nothing_has_no_weight():
    """The weight of noise beside the truth is next to nothing."""
    pool = Pool.fit(evidence(3000, (0.0, 8.0)))
    assert pool.weights[0] > 0.85
    assert pool.weights[1] < 0.03


def test_with_few_cells_the_best_expert_answers_nearly_alone():
    """Five held-out cells move the weights little from the best single expert."""
    pool = Pool.fit(evidence(5, (0.5, 0.6)))
    assert sorted(np.round(pool.weights, 0).tolist()) == [0, 1]


def test_an_expert_that_is_too_sure_is_toned_down():
    """Probabilities whose logarithms are doubled get about half the weight."""
    given = evidence(8000, (0.0,))
    sharp = given._replace(logs=np.stack([logs_of(softmax(2 * given.logs[0]))]))
    assert Pool.fit(sharp).weights[0] == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_careless_cells_are_found(share):
    """The share of cells that follow nothing is found to three points, and is 0 where there are none."""
    found = Pool.fit(evidence(8000, (0.0,), careless=share)).careless
    assert found == pytest.approx(share, abs=0.03)


def test_weights_may_depend_on_how_much_is_known():
    """An expert that is right only in rows of which much is known gets its weight there."""
    given = evidence(6000, (0.6, 0.0))
    noise = np.random.default_rng(2).standard_normal(given.logs[1].shape)
    logs = np.stack([given.logs[0], given.logs[1] + 4 * (1 - given.reach)[:, None] * noise])
    pool = Pool.fit(given._replace(logs=logs))
    assert pool.high[1] > pool.low[1] + 0.2


def test_the_symbol_of_the_mirror_counts():
    """Where a cell is mostly the same as its mirror, a known mirror raises the probability of its symbol."""
    given, rng = evidence(4000, (3.0,), symbols=2), np.random.default_rng(3)
    mirror = np.where(rng.random(4000) < 0.5, 0, np.where(rng.random(4000) < 0.9, given.truth, 1 - given.truth) + 1)
    pool = Pool.fit(given._replace(mirror=mirror))
    assert pool.mirror[2, 1] - pool.mirror[2, 0] > 1
    assert pool.mirror[1, 0] - pool.mirror[1, 1] > 1


@settings(max_examples=25, deadline=None)
@given(cells=st.integers(1, 40), experts=st.integers(1, 4), symbols=st.integers(1, 5), seed=st.integers(0, 99))
def test_answers_are_probabilities(cells, experts, symbols, seed):
    """Whatever the evidence, weights are at least 0 and answers are probabilities."""
    rng = np.random.default_rng(seed)
    given = Evidence(
        logs_of(rng.dirichlet(np.ones(symbols), (experts, cells)).reshape(experts * cells, symbols)).reshape(
            experts, cells, symbols
        ),
        rng.integers(0, symbols, cells),
        rng.random(cells),
    )
    pool = Pool.fit(given)
    p = pool.proba(given.logs, given.reach)
    assert (np.concatenate([pool.low, pool.high]) >= 0).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_plain_numbers_are_averaged():
    """Two estimates with independent errors get half each; one that is noise gets none; weights sum to 1."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(5000)
    means = np.stack([truth + 0.5 * rng.standard_normal(5000), truth + 0.5 * rng.standard_normal(5000)])
    np.testing.assert_allclose(Pool.of_numbers(means, truth).weights, [0.5, 0.5], atol=0.03)
    noise = np.stack([means[0], rng.standard_normal(5000)])
    weights = Pool.of_numbers(noise, truth).weights
    assert weights.sum() == pytest.approx(1)
    assert weights[1] < 0.25
    np.testing.assert_allclose(Pool.of_numbers(means[:1], truth).mean(means[:1]), means[0])
