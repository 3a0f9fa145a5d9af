"""Losses: gradients, convexity and the Lipschitz constant that every proximal step relies on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from snapimpute.problem.losses import Loss, Multinomial, Squares, Thresholds

LOSSES: list[Loss] = [
    Squares(),
    Multinomial(2),
    Multinomial(3),
    Multinomial(6),
    Thresholds(np.array([0.4])),
    Thresholds(np.array([-1.5, -1.0, 0.2, 3.0])),
]
CELLS = 4
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
seeds = st.integers(0, 2**32 - 1)


def width(loss: Loss) -> int:
    """Number of entries that one cell has."""
    return loss.symbols - 1 if isinstance(loss, Multinomial) else 1


def draw(loss: Loss, seed: int) -> tuple[Any, Any, Any]:
    """Two points, near each other or far apart, and what was observed."""
    rng = np.random.default_rng(seed)
    count = width(loss) * CELLS
    x = rng.normal(size=count) * rng.choice([0.1, 1.0, 5.0])
    y = x + rng.normal(size=count) * rng.choice([1e-2, 1.0, 5.0])
    if isinstance(loss, Multinomial):
        codes = rng.integers(loss.symbols, size=CELLS)
        return x, y, (codes == np.arange(loss.symbols - 1)[:, None]).astype(float).ravel()
    if isinstance(loss, Thresholds):
        return x, y, rng.integers(loss.thresholds.size + 1, size=CELLS).astype(float)
    return x, y, rng.normal(size=CELLS)


@every_loss
@settings(max_examples=30)
@given(seed=seeds)
def test_gradient_is_the_slope_of_the_value(loss, seed):
    """Central differences of the value in every coordinate agree with the gradient."""
    x, _, targets = draw(loss, seed)
    step = 1e-5
    slopes = [
        (loss.value(x + step * e, targets) - loss.value(x - step * e, targets)) / (2 * step) for e in np.eye(x.size)
    ]
    np.testing.assert_allclose(loss.gradient(x, targets), slopes, atol=1e-7, rtol=1e-6)


@every_loss
@settings(max_examples=30)
@given(seed=seeds)
def test_loss_bends_upwards_and_by_one_at_most(loss, seed):
    """The curvature lies between 0 and ½‖x − y‖²: the loss is convex and a step of length 1 is right."""
    x, y, targets = draw(loss, seed)
    rounding = 1e-12 * (1 + abs(loss.value(x, targets)) + abs(loss.value(y, targets)))
    curvature = loss.curvature(x, y, targets)
    assert -rounding <= curvature <= 0.5 * np.sum((x - y) ** 2) + rounding


@every_loss
@settings(max_examples=30)
@given(seed=seeds)
def test_gradient_is_lipschitz_with_constant_one(loss, seed):
    """‖∇(x) − ∇(y)‖ ≤ ‖x − y‖, and along x − y the gradient grows."""
    x, y, targets = draw(loss, seed)
    difference = loss.gradient(x, targets) - loss.gradient(y, targets)
    assert np.linalg.norm(difference) <= np.linalg.norm(x - y) * (1 + 1e-12)
    assert difference @ (x - y) >= -1e-12


@pytest.mark.parametrize(
    ("loss", "at"),
    [
        (Squares(), [0.0]),
        (Multinomial(2), [0.0]),
        (Multinomial(4), [30.0, 30.0, 0.0]),  # two symbols share all the probability
        (Thresholds(np.array([0.7, 0.7, 0.7])), [0.7]),
    ],
    ids=repr,
)
def test_lipschitz_constant_is_no_larger_than_needed(loss, at):
    """Somewhere the gradient does change as fast as x, so that no longer step would be right."""
    x = np.array(at)
    direction = np.array([1.0, -1.0, 0.0]) / np.sqrt(2) if x.size == 3 else np.ones(1)
    targets = np.zeros(x.size)
    change = loss.gradient(x + 1e-4 * direction, targets) - loss.gradient(x - 1e-4 * direction, targets)
    assert np.linalg.norm(change) / 2e-4 == pytest.approx(1.0, rel=1e-6)


@every_loss
@settings(max_examples=30)
@given(seed=seeds)
def test_curvature_is_the_distance_from_the_tangent(loss, seed):
    """loss(x) = loss(y) + ⟨∇loss(y), x − y⟩ + curvature."""
    x, y, targets = draw(loss, seed)
    tangent = loss.value(y, targets) + loss.gradient(y, targets) @ (x - y)
    scale = 1 + abs(loss.value(x, targets)) + abs(loss.value(y, targets))
    assert tangent + loss.curvature(x, y, targets) == pytest.approx(loss.value(x, targets), abs=1e-12 * scale)


# ---------------------------------------------------------------- likelihoods
@settings(max_examples=30)
@given(seed=seeds)
def test_two_symbols_are_the_logistic_loss(seed):
    """Multinomial(2) is 4 Σ log(1 + exp(−±x)), + where the first symbol was observed."""
    x, _, targets = draw(Multinomial(2), seed)
    logistic = 4 * np.log1p(np.exp(-np.where(targets == 1, x, -x))).sum()
    assert Multinomial(2).value(x, targets) == pytest.approx(logistic, rel=1e-12)
    np.testing.assert_allclose(Multinomial(2).probabilities(x)[0], expit(x), rtol=1e-12)


@settings(max_examples=30)
@given(seed=seeds, symbols=st.integers(2, 7))
def test_likelihood_is_that_of_the_probabilities(seed, symbols):
    """Probabilities sum to one, and the loss is −log of those of the observed symbols, times the scale."""
    loss = Multinomial(symbols)
    x, _, targets = draw(loss, seed)
    shares = loss.probabilities(x)
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, rtol=1e-12)
    one_hot = targets.reshape(symbols - 1, -1)
    picked = np.vstack([one_hot, 1 - one_hot.sum(axis=0)])
    assert loss.value(x, targets) == pytest.approx(
        -loss.scale * np.log((shares * picked).sum(axis=0)).sum(), rel=1e-9
    )


def test_far_values_stay_finite():
    """Log-odds and margins of thousands give finite values and gradients, and certain probabilities."""
    x = np.array([5000.0, -5000.0])
    for loss, targets in ((Multinomial(2), np.zeros(2)), (Thresholds(np.array([-1.0, 1.0])), np.array([0.0, 2.0]))):
        assert np.isfinite(loss.value(x, targets))
        assert np.isfinite(loss.gradient(x, targets)).all()
    np.testing.assert_array_equal(Multinomial(2).probabilities(x), [[1.0, 0.0], [0.0, 1.0]])


# ---------------------------------------------------------------- thresholds
def test_threshold_loss_by_hand():
    """Symbol 1 of 0, 1, 2 wants x above the first threshold and below the second."""
    loss = Thresholds(np.array([0.0, 2.0]))
    by_hand = 2 * (np.log1p(np.exp(-0.5)) + np.log1p(np.exp(0.5 - 2.0)))
    assert loss.value(np.array([0.5]), np.array([1.0])) == pytest.approx(by_hand, rel=1e-12)


@settings(max_examples=30)
@given(seed=seeds)
def test_one_threshold_is_one_bit_with_an_intercept(seed):
    """With two symbols the loss is that of the log-odds θ − x of the first one."""
    loss = Thresholds(np.array([0.4]))
    x, _, codes = draw(loss, seed)
    assert loss.value(x, codes) == pytest.approx(Multinomial(2).value(0.4 - x, 1 - codes), rel=1e-12)
