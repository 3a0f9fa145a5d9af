"""Spectral penalties: every prox is the global minimiser, and the threshold is where it leaves zero."""

from __future__ import annotations

import math
import re
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute import LogSum, Nuclear
from snapimpute.penalties import SPECTRAL, SpectralPenalty

STEPS = [0.1, 0.5, 1.0, 2.0, 7.0]
positive = st.floats(1e-3, 1e3)
penalties = st.one_of(st.builds(Nuclear, positive), st.builds(LogSum, positive, positive))


def cost(penalty: SpectralPenalty, t: np.ndarray) -> np.ndarray:
    """φ(t) for each t, written again from its definition."""
    if isinstance(penalty, Nuclear):
        return penalty.lam * t
    assert isinstance(penalty, LogSum)
    return penalty.lam * np.log1p(t / penalty.theta)


def objective(penalty: SpectralPenalty, t: np.ndarray, s: float, step: float) -> np.ndarray:
    """step·φ(t) + ½(t − s)², less its value ½s² at t = 0, so that nothing large cancels."""
    return step * cost(penalty, t) + t * (0.5 * t - s)


def fine_grid(s: float) -> np.ndarray:
    """Points of [0, s], where the minimiser lies since φ rises; dense at both ends on a logarithmic scale."""
    fractions = np.concatenate([[0.0, 1.0], np.linspace(0, 1, 4001), np.geomspace(1e-8, 1, 1000)])
    return s * np.unique(np.concatenate([fractions, 1 - fractions]))


def check_minimiser(penalty: SpectralPenalty, s: float, step: float) -> None:
    """Check that the prox is at least as good as every grid point, and near the best one."""
    t = penalty.prox([s], step)
    grid = fine_grid(s)
    values = objective(penalty, grid, s, step)
    mine = objective(penalty, t, s, step)[0]
    rounding = 1e-14 * (s * s + step * cost(penalty, np.array([s]))[0])
    assert 0 <= t[0] <= s
    assert mine <= values.min() + rounding
    # Where the grid tells 0 and the rest apart, so must the prox.
    beyond = values[grid > 0].min() if s > 0 else math.inf
    if abs(beyond) > 1e-6 * s * s:
        assert (t[0] > 0) == (beyond < 0)


# ---------------------------------------------------------------- the prox
@pytest.mark.parametrize("step", STEPS)
def test_prox_is_the_minimiser_on_a_grid(spectral, step):
    """The prox is the global minimiser, on both sides of the curvature limit, for tiny and big values."""
    around = spectral.threshold(step) * np.array([0.5, 0.9, 0.99, 0.999, 1.001, 1.01, 1.1, 2.0])
    for s in (*around, 0.0, 1e-12, 1e-3, 0.3, 1.0, 3.0, 40.0, 1e6, 1e12):
        check_minimiser(spectral, float(s), step)


@given(penalties, st.floats(0, 1e4), positive)
@settings(max_examples=150)
def test_prox_is_the_minimiser_for_any_parameters(penalty, s, step):
    """The prox is the global minimiser for any λ, θ, step and singular value."""
    check_minimiser(penalty, s, step)


@given(penalties, positive)
@settings(max_examples=150)
@example(LogSum(1.0, 1.0), 1.0)
@example(LogSum(1.0, 1.0), 1 + 1e-12)
@example(LogSum(1.0, 1.0), 1 + 1e-7)
@example(LogSum(1.0, 1.0), 1 + 1e-6)
@example(LogSum(1e3, 1e-3), 1e3)
def test_prox_leaves_zero_exactly_at_the_threshold(penalty, step):
    """The prox is 0 at the threshold and just below, positive just above, and the grid agrees on both sides."""
    edge = penalty.threshold(step)
    assert penalty.prox([edge], step)[0] == 0
    assert penalty.prox([edge * (1 - 1e-12)], step)[0] == 0
    assert penalty.prox([edge * (1 + 1e-12)], step)[0] > 0
    below, above = edge * (1 - 1e-4), edge * (1 + 1e-4)
    assert objective(penalty, fine_grid(below), below, step).min() == 0
    assert objective(penalty, fine_grid(above), above, step).min() < 0


def exact_log_sum(lam: float, theta: float, s: float, step: float) -> tuple[Decimal, Decimal]:
    """The threshold and the prox of the log-sum penalty in sixty digits."""
    with localcontext() as context:
        context.prec = 60
        pull, offset, at = Decimal(step) * Decimal(lam), Decimal(theta), Decimal(s)
        edge = pull / offset
        if pull > offset**2:
            low, high = pull.sqrt() - offset, pull / offset - offset
            for _ in range(180):  # bisect for the stationary point that is as good as 0
                t = (low + high) / 2
                better = pull * ((1 + t / offset).ln() - t / (t + offset)) < t * t / 2
                low, high = (low, t) if better else (t, high)
            edge = low + pull / (low + offset)
        root = ((at + offset) ** 2 - 4 * pull) if at > edge else Decimal(0)
        return edge, (at - offset + root.sqrt()) / 2 if at > edge else Decimal(0)


@pytest.mark.parametrize("theta", [1e-4, 0.3, 1.0, 50.0, 1e7])
@pytest.mark.parametrize("excess", [-0.9, -1e-3, 0.0, 1e-9, 1.9e-7, 2.1e-7, 1e-5, 0.1, 10.0, 1e5, 1e12])
def test_log_sum_is_exact_to_rounding(theta, excess):
    """Threshold and prox agree with sixty-digit arithmetic, below, at and far above λ = θ²."""
    lam = theta**2 * (1 + excess)
    penalty = LogSum(lam, theta)
    edge, _ = exact_log_sum(lam, theta, 0.0, 1.0)
    assert_allclose(penalty.threshold(), float(edge), rtol=3e-14)
    for factor in (1.01, 1.5, 4.0, 1e6):
        s = float(edge) * factor
        assert_allclose(penalty.prox([s])[0], float(exact_log_sum(lam, theta, s, 1.0)[1]), rtol=1e-11)


def test_log_sum_jumps_only_beyond_its_curvature_limit():
    """Up to λ = θ² the prox starts from 0 continuously; beyond, it jumps to a stationary point at least √λ − θ."""
    for lam in (0.5, 1.0):
        penalty = LogSum(lam, 1.0)
        assert penalty.prox([penalty.threshold() * (1 + 1e-12)])[0] < 1e-5
    for lam in (1.1, 2.0, 100.0):
        penalty = LogSum(lam, 1.0)
        assert penalty.prox([penalty.threshold() * (1 + 1e-12)])[0] >= math.sqrt(lam) - 1


@pytest.mark.parametrize("step", STEPS)
def test_prox_is_monotone_and_keeps_the_order(spectral, step):
    """A larger singular value is never mapped below a smaller one, so a descending vector stays descending."""
    edge = spectral.threshold(step)
    s = np.unique(np.concatenate([np.linspace(0, 5 * edge, 2001), edge * (1 + np.linspace(-1e-9, 1e-9, 101))]))
    t = spectral.prox(s, step)
    assert (np.diff(t) >= 0).all()
    assert_array_equal(spectral.prox(s[::-1], step), t[::-1])


@given(st.floats(0.01, 0.99), positive, st.floats(0, 50), st.floats(0, 1))
def test_prox_is_continuous_while_the_problem_is_convex(share, theta, s, gap):
    """While step·λ < θ² the prox is Lipschitz with constant 1/(1 − step·λ/θ²); that of the nuclear norm is 1."""
    bound = gap / (1 - share)
    low, high = LogSum(share * theta**2, theta).prox([s, s + gap])
    assert 0 <= high - low <= bound * (1 + 1e-9) + 1e-10
    low, high = Nuclear(theta).prox([s, s + gap])
    assert 0 <= high - low <= gap + 1e-13


@given(penalties, st.lists(st.floats(0, 1e3), max_size=5), positive)
def test_step_is_a_factor_of_lambda(penalty, s, step):
    """prox(s, step) is the prox of step·λ."""
    assume(step * penalty.lam > 0)
    scaled = {"lam": step * penalty.lam} | ({"theta": penalty.theta} if isinstance(penalty, LogSum) else {})
    other = type(penalty)(**scaled)
    assert_array_equal(penalty.prox(s, step), other.prox(s))
    assert penalty.threshold(step) == other.threshold()


@given(st.floats(0.1, 10), st.lists(st.floats(0, 100), min_size=1, max_size=5))
def test_log_sum_with_large_theta_is_the_nuclear_norm(rate, s):
    """θ → ∞ with λ/θ fixed gives the nuclear norm: value, prox and threshold."""
    theta = 1e10
    penalty, limit = LogSum(rate * theta, theta), Nuclear(rate)
    assert_allclose(penalty.prox(s), limit.prox(s), atol=1e-6)
    assert_allclose(penalty.value(s), limit.value(s), rtol=1e-6, atol=1e-300)
    assert_allclose(penalty.threshold(), limit.threshold())


def test_log_sum_with_small_theta_is_nearly_the_rank():
    """For θ → 0 the penalty of any two non-zero values is nearly the same, which no convex penalty offers."""
    penalty = LogSum(1 / math.log1p(1e12), 1e-12)
    assert_allclose([penalty.value([1.0]), penalty.value([5.0]), penalty.value([1.0, 5.0])], [1, 1, 2], rtol=0.07)


def test_without_a_penalty_the_prox_is_the_identity():
    """λ = 0 changes nothing."""
    s = [1e9, 3.0, 1e-9, 0.0]
    for penalty in (Nuclear(0.0), LogSum(0.0, 2.0)):
        assert penalty.threshold() == 0
        assert_allclose(penalty.prox(s), s, rtol=1e-15)


# ---------------------------------------------------------------- value, forms of input, errors
def test_value_sums_the_penalty_of_every_singular_value(spectral):
    """The value is Σ φ(s_i), 0 for no singular value, in any form of input."""
    s = np.array([7.0, 2.0, 0.5, 0.0])
    assert_allclose(spectral.value(s), cost(spectral, s).sum(), rtol=1e-14)
    assert spectral.value([7, 2, 1]) == pytest.approx(cost(spectral, np.array([7.0, 2.0, 1.0])).sum())
    assert spectral.value([]) == 0.0
    assert isinstance(spectral.value(s), float)


def test_prox_leaves_its_input_alone_and_takes_any_form(spectral):
    """Lists, integers, empty vectors and read-only arrays serve as input, and no input is changed."""
    s = np.array([9.0, 4.0, 1.0])
    s.flags.writeable = False
    t = spectral.prox(s)
    assert t is not s
    assert_array_equal(s, [9, 4, 1])
    assert_array_equal(spectral.prox([9, 4, 1]), t)
    assert spectral.prox([]).shape == (0,)
    assert t.dtype == np.float64


def test_prox_of_nan_is_not_a_number(spectral):
    """NaN stays NaN, so that a run that diverges does not go unnoticed."""
    assert np.isnan(spectral.prox([np.nan])[0])


def test_every_penalty_is_registered_under_its_name(spectral):
    """A penalty can be found by its name."""
    assert SPECTRAL[spectral.name] is type(spectral)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("build", [Nuclear, lambda x: LogSum(x, 1.0)], ids=["nuclear", "lsp"])
def test_bad_lambda_is_refused(build, bad):
    """λ must be finite and at least 0; the message names it and what was given."""
    with pytest.raises(ValueError, match=re.escape(f"lam must be a finite number at least 0, got {bad}")):
        build(bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_theta_is_refused(bad):
    """θ must be finite and positive."""
    with pytest.raises(ValueError, match=re.escape(f"theta must be a finite number above 0, got {bad}")):
        LogSum(1.0, bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_step_is_refused(spectral, bad):
    """The step must be finite and positive, for the prox and for the threshold."""
    message = re.escape(f"step must be a finite number above 0, got {bad}")
    with pytest.raises(ValueError, match=message):
        spectral.prox([1.0], bad)
    with pytest.raises(ValueError, match=message):
        spectral.threshold(bad)
