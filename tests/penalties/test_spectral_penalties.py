"""Spectral penalties: every prox is the global minimiser, and the threshold is where it leaves zero."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute import MCP, SCAD, CappedL1, LogSum, Nuclear, Rank, TruncatedNuclear
from snapimpute.penalties import SPECTRAL, SpectralPenalty, lam_at_threshold
from tests import helpers

positive = st.floats(1e-3, 1e3)
with_lambda_as_factor = st.one_of(
    st.builds(Nuclear, positive),
    st.builds(LogSum, positive, positive),
    st.builds(CappedL1, positive, positive),
    st.builds(TruncatedNuclear, positive, st.integers(0, 4)),
    st.builds(Rank, positive),
)
with_lambda_as_parameter = st.one_of(
    st.builds(MCP, positive, positive), st.builds(SCAD, positive, positive.map(lambda x: 2 + x))
)
penalties = with_lambda_as_factor | with_lambda_as_parameter

_LEFT = np.concatenate([np.linspace(0, 1, 4001), np.geomspace(1e-8, 1, 1000)])
FRACTIONS = np.unique(np.concatenate([_LEFT, 1 - _LEFT]))


# ---------------------------------------------------------------- the definitions, written again
def cost(penalty: SpectralPenalty, t: np.ndarray) -> np.ndarray:
    """φ(t) for each t, written again from its definition."""
    lam = penalty.lam
    match penalty:
        case Nuclear() | TruncatedNuclear():  # of the truncated one, behind the r largest values
            return lam * t
        case LogSum():
            return lam * np.log1p(t / penalty.theta)
        case CappedL1():
            return np.where(t < penalty.theta, lam * t, lam * penalty.theta)
        case MCP():
            gamma = penalty.gamma
            return np.where(t < gamma * lam, lam * t - t**2 / (2 * gamma), gamma * lam**2 / 2)
        case SCAD():
            a = penalty.a
            middle = (2 * a * lam * t - t**2 - lam**2) / (2 * (a - 1))
            return np.where(t < lam, lam * t, np.where(t < a * lam, middle, (a + 1) * lam**2 / 2))
        case Rank():
            return lam * (t > 0)
    raise AssertionError(f"no definition of {penalty}")


def limits(penalty: SpectralPenalty) -> list[float]:
    """Steps at which the prox changes its form: from continuous to a jump, from a jump to a hard threshold."""
    match penalty:
        case LogSum():
            return [penalty.theta**2 / penalty.lam]
        case CappedL1():
            return [penalty.theta / penalty.lam, 2 * penalty.theta / penalty.lam]
        case MCP():
            return [penalty.gamma]
        case SCAD():
            return [penalty.a - 1, penalty.a + 1]
    return []


def steps(penalty: SpectralPenalty) -> list[float]:
    """Steps on both sides of every limit, far from it, near it, and at it."""
    sides = (0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 1.2, 3.0)
    return sorted({0.1, 1.0, 7.0, *(limit * side for limit in limits(penalty) for side in sides)})


def corners(penalty: SpectralPenalty, step: float) -> list[float]:
    """Singular values at which the prox may pass from one piece to the next."""
    lam, edge = penalty.lam, penalty.threshold(step)
    match penalty:
        case CappedL1():
            return [edge, penalty.theta, penalty.theta + step * lam / 2]
        case MCP():
            return [edge, penalty.gamma * lam]
        case SCAD():
            return [edge, (1 + step) * lam, penalty.a * lam, (step + penalty.a + 1) * lam / 2]
    return [edge]


def prox_of(penalty: SpectralPenalty, s: Sequence[float] | np.ndarray, step: float = 1.0) -> np.ndarray:
    """Prox of each of these values, put behind as many others as the penalty leaves untouched."""
    s = np.asarray(s, dtype=float)
    lead = np.full(penalty.untouched, s.max(initial=0.0))
    t = penalty.prox(np.concatenate([lead, s]), step)
    assert_array_equal(t[: penalty.untouched], lead)
    return t[penalty.untouched :]


def objective(penalty: SpectralPenalty, t: np.ndarray, s: float, step: float) -> np.ndarray:
    """step·φ(t) + ½(t − s)², less its value ½s² at t = 0, so that nothing large cancels."""
    return step * cost(penalty, t) + t * (0.5 * t - s)


def fine_grid(s: float) -> np.ndarray:
    """Points of [0, s], where the minimiser lies since φ rises; dense at both ends on a logarithmic scale."""
    return s * FRACTIONS


def check_minimiser(penalty: SpectralPenalty, s: float, step: float) -> None:
    """Check that the prox is at least as good as every grid point, and near the best one."""
    t = prox_of(penalty, [s], step)
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
def test_prox_is_the_minimiser_on_a_grid(spectral):
    """The prox is the global minimiser, on both sides of every curvature limit, for tiny and big values."""
    sides = np.array([0.5, 0.9, 0.99, 0.999, 1.0, 1.001, 1.01, 1.1, 2.0])
    for step in steps(spectral):
        around = np.outer(corners(spectral, step), sides).ravel()
        for s in (*around, 0.0, 1e-12, 1e-3, 0.3, 1.0, 3.0, 40.0, 1e6, 1e12):
            check_minimiser(spectral, float(s), step)


def test_every_penalty_is_tried():
    """The list that these tests run through has every penalty there is, and limits where there is a parameter."""
    assert {type(p) for p in helpers.SPECTRAL} == set(SPECTRAL.values())
    assert {p.name for p in helpers.SPECTRAL if not limits(p)} == {"nuclear", "tnn", "rank"}


@given(penalties, st.floats(0, 1e4), positive)
@settings(max_examples=150)
def test_prox_is_the_minimiser_for_any_parameters(penalty, s, step):
    """The prox is the global minimiser for any λ, any other parameter, step and singular value."""
    check_minimiser(penalty, s, step)


@given(penalties, positive)
@settings(max_examples=150)
@example(LogSum(1.0, 1.0), 1.0)
@example(LogSum(1.0, 1.0), 1 + 1e-12)
@example(LogSum(1.0, 1.0), 1 + 1e-7)
@example(LogSum(1.0, 1.0), 1 + 1e-6)
@example(LogSum(1e3, 1e-3), 1e3)
@example(CappedL1(1.0, 1.0), 2.0)
@example(CappedL1(1.0, 1.0), 2 + 1e-9)
@example(MCP(1.0, 3.0), 3.0)
@example(MCP(1.0, 3.0), 3 - 1e-9)
@example(SCAD(1.0, 3.0), 2.0)
@example(SCAD(1.0, 3.0), 4.0)
@example(SCAD(1.0, 3.0), 4 + 1e-9)
def test_prox_leaves_zero_exactly_at_the_threshold(penalty, step):
    """The prox is 0 at the threshold and just below, positive just above, and the grid agrees on both sides."""
    edge = penalty.threshold(step)
    assert (prox_of(penalty, [edge, edge * (1 - 1e-12)], step) == 0).all()
    assert prox_of(penalty, [edge * (1 + 1e-12)], step)[0] > 0
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


Piece = tuple[Fraction, Fraction | None, Fraction, Fraction, Fraction]


def quadratic_pieces(penalty: SpectralPenalty) -> list[Piece]:
    """φ as pieces (from, to, q, l, c): φ(t) = q·t² + l·t + c there, in exact arithmetic."""
    lam, zero = Fraction(penalty.lam), Fraction(0)
    match penalty:
        case CappedL1():
            theta = Fraction(penalty.theta)
            return [(zero, theta, zero, lam, zero), (theta, None, zero, zero, lam * theta)]
        case MCP():
            gamma = Fraction(penalty.gamma)
            end = gamma * lam
            return [(zero, end, -1 / (2 * gamma), lam, zero), (end, None, zero, zero, gamma * lam**2 / 2)]
        case SCAD():
            a = Fraction(penalty.a)
            twice = 2 * (a - 1)
            middle = (lam, a * lam, -1 / twice, 2 * a * lam / twice, -(lam**2) / twice)
            return [(zero, lam, zero, lam, zero), middle, (a * lam, None, zero, zero, (a + 1) * lam**2 / 2)]
    raise AssertionError(f"{penalty} has no such pieces")


def exact_minimiser(penalty: SpectralPenalty, s: Fraction, step: Fraction) -> Fraction:
    """The global minimiser: the best of every piece's ends and stationary point."""
    found = []
    for start, end, q, linear, constant in quadratic_pieces(penalty):
        curvature, last = 1 + 2 * step * q, max(s, start) if end is None else end
        inside = [(s - step * linear) / curvature] if curvature > 0 else []
        points = [start, last, *(t for t in inside if start <= t <= last)]
        found += [(step * (q * t * t + linear * t + constant) + t * t / 2 - s * t, t) for t in points]
    return min(found)[1]


@given(
    st.one_of(
        st.builds(CappedL1, st.sampled_from([1e-9, 1e-3, 1.0, 1e6]), positive),
        st.builds(MCP, st.sampled_from([1e-12, 1.0, 1e12]), positive),
        st.builds(SCAD, st.sampled_from([1e-12, 1.0, 1e12]), st.floats(2.001, 1e3)),
    ),
    st.sampled_from([0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 1.2, 3.0]),
    st.integers(0, 1),
)
@settings(max_examples=150)
def test_piecewise_quadratic_proxes_are_exact_to_rounding(penalty, side, which):
    """The proxes agree with exact rational arithmetic, also next to the places where their form changes."""
    around = limits(penalty)
    step = around[which % len(around)] * side
    slope = 1 / min([1.0, *(abs(1 - step / limit) for limit in around if step != limit)])
    for corner in corners(penalty, step):
        for s in corner * np.array([0.3, 1 - 1e-5, 1 - 1e-9, 1 + 1e-9, 1 + 1e-5, 1.3, 1e12]):
            exact = exact_minimiser(penalty, Fraction(float(s)), Fraction(step))
            found = prox_of(penalty, [s], step)[0]
            assert found == pytest.approx(float(exact), rel=0, abs=1e-14 * slope * s)


def test_prox_is_monotone_and_keeps_the_order(spectral):
    """A larger singular value is never mapped below a smaller one, so a descending vector stays descending."""
    for step in steps(spectral):
        places = np.array(corners(spectral, step))
        near = np.outer(places, 1 + np.linspace(-1e-8, 1e-8, 201)).ravel()
        s = np.unique(np.concatenate([np.linspace(0, 5 * places.max(), 2001), near]))
        t = prox_of(spectral, s, step)
        assert (np.diff(t) >= 0).all()
        assert_array_equal(prox_of(spectral, s[::-1], step), t[::-1])
        assert (np.diff(spectral.prox(s[::-1], step)) <= 0).all()


@given(penalties, st.lists(st.floats(0, 1e4), min_size=2, max_size=6), positive)
def test_prox_is_monotone_for_any_parameters(penalty, s, step):
    """The order of singular values is kept for any λ, any other parameter and step, up to rounding."""
    s = np.sort(s)
    assert (np.diff(prox_of(penalty, s, step)) >= -1e-12 * s[1:]).all()


@pytest.mark.parametrize("nearness", [0.99, 0.9, 0.7, 0.5, 1e-3, 1e-6, 1e-9, 1e-12, 5e-15, 2e-15])
@pytest.mark.parametrize("build", [lambda x, lam: MCP(lam, x), lambda x, lam: SCAD(lam, x)], ids=["mcp", "scad"])
def test_continuous_proxes_stay_in_order_to_the_last_bit(build, nearness):
    """Rounding never takes the order away, nor lifts the prox above s, near the limit where it climbs steeply too."""
    ulps = np.spacing(1.0) * np.arange(-8, 9)
    for x, lam in product([2.3, 3.0, 3.7, 11.1], [0.1, 0.37, 1.2, 1e6 / 3]):
        penalty = build(x, lam)
        step = limits(penalty)[0] * (1 - nearness)
        near = np.outer(corners(penalty, step), 1 + ulps).ravel()
        s = np.unique(np.concatenate([near, np.linspace(penalty.threshold(step), x * lam, 50)]))
        t = penalty.prox(s, step)
        assert (np.diff(t) >= 0).all()
        assert (t <= s).all()
        assert_array_equal(t[s >= x * lam], s[s >= x * lam])


@pytest.mark.parametrize("theta", [1.0, 3.0])
@pytest.mark.parametrize("lam", [1e-3, 1e-6, 1e-9, 1e-12])
def test_a_small_jump_is_one_jump_at_its_place(theta, lam):
    """The capped ℓ1 with λ ≪ θ jumps once, at θ + λ/2, though both sides are then almost equally good."""
    s = theta + lam * np.linspace(0, 2, 2001)
    t = CappedL1(lam, theta).prox(s)
    assert (np.diff(t) >= 0).all()
    assert s[t >= s].min() == pytest.approx(theta + lam / 2, abs=2e-3 * lam + 1e-15)


@given(st.floats(0.01, 0.99), positive, st.floats(0, 50), st.floats(0, 1))
def test_prox_is_continuous_while_the_problem_is_convex(share, size, s, gap):
    """While the problem is convex the prox is Lipschitz, with a constant that follows from the curvature."""
    a = 2 + size
    for penalty, step, bound in [
        (Nuclear(size), 1.0, 1.0),
        (TruncatedNuclear(size, 2), 1.0, 1.0),
        (LogSum(share * size**2, size), 1.0, 1 / (1 - share)),  # step·λ < θ²
        (MCP(size, size), share * size, 1 / (1 - share)),  # step < γ
        (SCAD(size, a), share * (a - 1), 1 / (1 - share)),  # step < a − 1: (a − 1)/(a − 1 − step)
    ]:
        low, high = prox_of(penalty, [s, s + gap], step)
        assert 0 <= high - low <= bound * gap * (1 + 1e-9) + 1e-10


@pytest.mark.parametrize(
    ("penalty", "step", "constant"),
    [(MCP(1.0, 3.0), 2.0, 3.0), (SCAD(1.0, 4.0), 2.0, 3.0), (LogSum(0.5, 1.0), 1.0, 2.0)],
    ids=repr,
)
def test_lipschitz_constants_are_reached(penalty, step, constant):
    """The constants 1/(1 − step/γ), (a − 1)/(a − 1 − step) and 1/(1 − step·λ/θ²) cannot be improved."""
    s = np.linspace(0, 5, 50001)
    assert np.diff(penalty.prox(s, step)).max() / (s[1] - s[0]) == pytest.approx(constant, rel=1e-3)


@pytest.mark.parametrize(
    "penalty", [CappedL1(1.0, 2.0), MCP(1.0, 0.9), SCAD(0.5, 2.5), Rank(1.0), LogSum(2.0, 1.0)], ids=repr
)
def test_prox_jumps_beyond_the_curvature_limit(penalty):
    """Where the problem is not convex the prox has a jump, as a minimiser must."""
    step = 1.6
    s = np.linspace(0, 6, 60001)
    assert np.diff(penalty.prox(s, step)).max() > 0.3


# ---------------------------------------------------------------- the truncated nuclear norm, a penalty of the vector
def truncated_objective(t: np.ndarray, s: np.ndarray, pull: float, r: int) -> np.ndarray:
    """pull·(sum of all but the r largest) + ½‖t − s‖², for each row t."""
    return pull * np.sort(t, axis=1)[:, : max(t.shape[1] - r, 0)].sum(axis=1) + 0.5 * ((t - s) ** 2).sum(axis=1)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=3), st.integers(0, 4), st.floats(0, 5), st.floats(0.1, 3))
@settings(max_examples=60)
@example([2.0, 2.0, 2.0], 1, 1.0, 1.0)
@example([3.0, 2.0, 1.0], 2, 5.0, 1.0)
def test_truncated_prox_is_optimal_over_vectors(s, r, lam, step):
    """No vector of a grid is better, whichever of its entries are the r largest; the first r stay as they were."""
    s = np.sort(s)[::-1]
    penalty = TruncatedNuclear(lam, r)
    t = penalty.prox(s, step)
    points = [np.concatenate([np.linspace(0, 1.2 * one, 25), [one, max(one - step * lam, 0.0)]]) for one in s]
    grid = np.array(list(product(*points)))
    best = truncated_objective(grid, s, step * lam, r).min()
    mine = truncated_objective(t[None], s, step * lam, r)[0]
    assert mine == pytest.approx(best, rel=1e-12, abs=1e-12)
    assert penalty.untouched == r
    assert_array_equal(t[:r], s[:r])
    assert penalty.value(t) == pytest.approx(lam * np.sort(t)[: max(t.size - r, 0)].sum())
    assert penalty.threshold(step) == step * lam


# ---------------------------------------------------------------- what λ is
@given(with_lambda_as_factor, st.lists(st.floats(0, 1e3), max_size=5), positive)
def test_step_is_a_factor_of_lambda(penalty, s, step):
    """Where λ is a factor, prox(s, step) is the prox of step·λ, and the value is proportional to λ."""
    assume(step * penalty.lam > 0)
    other = penalty.with_lam(step * penalty.lam)
    assert_allclose(penalty.prox(s, step), other.prox(s), rtol=1e-12)
    assert penalty.threshold(step) == pytest.approx(other.threshold(), rel=1e-14)
    assert other.value(s) == pytest.approx(step * penalty.value(s), rel=1e-12)


@given(with_lambda_as_parameter, st.lists(st.just(0.0) | positive, max_size=5), positive, st.integers(-20, 20))
def test_lambda_is_the_unit_of_mcp_and_scad(penalty, s, step, power):
    """Where λ is a parameter, c·λ maps c·s to c times what λ maps s to, and costs c² times as much."""
    c = 2.0**power
    other, scaled = penalty.with_lam(c * penalty.lam), [c * one for one in s]
    assert_array_equal(other.prox(scaled, step), c * penalty.prox(s, step))
    assert other.threshold(step) == c * penalty.threshold(step)
    assert other.value(scaled) == c * c * penalty.value(s)


@given(positive, positive, st.lists(st.floats(0, 1e3), max_size=5), st.sampled_from([0.25, 0.5, 2.0, 16.0]))
def test_step_of_mcp_is_a_factor_of_lambda_and_a_divisor_of_gamma(lam, gamma, s, step):
    """step times MCP(λ, γ) is MCP(step·λ, γ/step); for SCAD there is no such pair."""
    penalty, other = MCP(lam, gamma), MCP(step * lam, gamma / step)
    assert_allclose(penalty.prox(s, step), other.prox(s), rtol=1e-12)
    assert penalty.threshold(step) == pytest.approx(other.threshold(), rel=1e-14)
    assert other.value(s) == pytest.approx(step * penalty.value(s), rel=1e-12)


def test_with_lam_changes_lambda_only(spectral):
    """The copy has the new λ and every other parameter of the old one, which is not changed."""
    before = repr(spectral)
    other = spectral.with_lam(9.5)
    assert type(other) is type(spectral)
    assert other.lam == 9.5
    assert other.with_lam(spectral.lam) == spectral
    assert other.untouched == spectral.untouched
    assert repr(spectral) == before
    with pytest.raises(ValueError, match="lam must be a finite number at least 0, got -1"):
        spectral.with_lam(-1.0)


@pytest.mark.parametrize("target", [1e-6, 0.3, 1.0, 7.5, 1e6])
def test_lam_at_threshold_inverts_the_threshold(spectral, target):
    """The λ found has just this threshold, for every penalty and size; 0 or less needs no penalty."""
    lam = lam_at_threshold(spectral.with_lam, target)
    assert type(lam) is float
    assert spectral.with_lam(lam).threshold() == pytest.approx(target, rel=1e-12)
    assert lam_at_threshold(spectral.with_lam, 0.0) == lam_at_threshold(spectral.with_lam, -target) == 0.0


@given(penalties, st.floats(1e-4, 1e4))
def test_lam_at_threshold_for_any_parameters(penalty, target):
    """The threshold is inverted whatever the other parameters are, and λ itself is found again."""
    lam = lam_at_threshold(penalty.with_lam, target)
    assert penalty.with_lam(lam).threshold() == pytest.approx(target, rel=1e-12)
    assert lam_at_threshold(penalty.with_lam, penalty.threshold()) == pytest.approx(penalty.lam, rel=1e-11)


@pytest.mark.parametrize("target", [0.1, 0.7, 12345.678])
def test_lam_at_threshold_where_it_is_known(target):
    """A threshold that is λ is returned as it is, to the last bit; that of the rank is √2λ."""
    for build in (Nuclear, MCP, SCAD, lambda lam: TruncatedNuclear(lam, 3), lambda lam: CappedL1(lam, 2 * lam)):
        assert lam_at_threshold(build, target) == target
    assert lam_at_threshold(Rank, target) == pytest.approx(target**2 / 2, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_lam_at_threshold_refuses_what_is_no_threshold(bad):
    """A target that is not finite is refused by its name, not searched for."""
    with pytest.raises(ValueError, match=f"target must be a finite number above 0, got {bad}"):
        lam_at_threshold(Rank, bad)


# ---------------------------------------------------------------- limits
@pytest.mark.parametrize(
    "build",
    [
        lambda rate: LogSum(rate * 1e10, 1e10),
        lambda rate: CappedL1(rate, 1e10),
        lambda rate: TruncatedNuclear(rate, 0),
        lambda rate: MCP(rate, 1e10),
        lambda rate: SCAD(rate, 1e10),
    ],
    ids=["lsp", "capped-l1", "tnn", "mcp", "scad"],
)
@given(st.floats(0.1, 10), st.lists(st.floats(0, 100), min_size=1, max_size=5), st.floats(0.1, 10))
@settings(max_examples=40)
def test_limit_is_the_nuclear_norm(build, rate, s, step):
    """θ → ∞ (for LSP with λ/θ fixed), r = 0, γ → ∞ and a → ∞ give the nuclear norm: value, prox and threshold."""
    penalty, limit = build(rate), Nuclear(rate)
    assert_allclose(penalty.prox(s, step), limit.prox(s, step), atol=1e-6)
    assert_allclose(penalty.value(s), limit.value(s), rtol=1e-6, atol=1e-300)
    assert_allclose(penalty.threshold(step), limit.threshold(step))


@given(positive, positive, st.floats(1, 100), st.lists(st.floats(0, 5), min_size=1, max_size=5))
def test_mcp_is_a_hard_threshold_from_step_gamma_on(lam, gamma, factor, s):
    """With step ≥ γ singular values up to λ√(γ·step) are cut and larger ones kept."""
    step = gamma * factor
    edge = lam * math.sqrt(gamma * step)
    s = edge * np.array(s)
    assert_array_equal(MCP(lam, gamma).prox(s, step), np.where(s <= edge, 0.0, s))


@given(positive, positive, st.lists(st.floats(0, 5).filter(lambda x: abs(x - 1) > 1e-9), min_size=1, max_size=5))
def test_capped_l1_with_small_theta_is_the_rank(strength, step, s):
    """θ → 0 with λθ fixed gives the prox, the threshold and the value of the rank."""
    theta = 1e-9
    penalty, limit = CappedL1(strength / theta, theta), Rank(strength)
    s = limit.threshold(step) * np.array(s)
    assert_allclose(penalty.threshold(step), limit.threshold(step), rtol=1e-14)
    assert_array_equal(penalty.prox(s, step), limit.prox(s, step))
    kept = s[s > theta]
    assert penalty.value(kept) == pytest.approx(limit.value(kept))


def test_log_sum_with_small_theta_is_nearly_the_rank():
    """For θ → 0 the penalty of any two non-zero values is nearly the same, which no convex penalty offers."""
    penalty = LogSum(1 / math.log1p(1e12), 1e-12)
    assert_allclose([penalty.value([1.0]), penalty.value([5.0]), penalty.value([1.0, 5.0])], [1, 1, 2], rtol=0.07)


def test_without_a_penalty_the_prox_is_the_identity(spectral):
    """λ = 0 changes nothing and costs nothing, whatever the step."""
    s = [1e9, 3.0, 1e-9, 0.0]
    penalty = spectral.with_lam(0.0)
    for step in steps(spectral):
        assert penalty.threshold(step) == 0
        assert_allclose(prox_of(penalty, s, step), s, rtol=1e-15)
    assert penalty.value(s) == 0


# ---------------------------------------------------------------- value, forms of input, errors
def test_value_sums_the_penalty_of_every_singular_value(spectral):
    """The value is Σ φ(s_i) behind the free ones, 0 for no singular value, in any form of input."""
    s, free = np.array([7.0, 2.0, 1.5, 0.9, 0.5, 1e-12, 0.0]), spectral.untouched
    assert_allclose(spectral.value(s), cost(spectral, s[free:]).sum(), rtol=1e-14)
    for one in (1e-12, 0.3, 0.8, 1.2, 2.0, 2.96, 3.0, 1e12):  # in the pieces and where they meet
        expected = cost(spectral, np.array([one]))[0]
        assert spectral.value([one] * (free + 1)) == pytest.approx(expected, rel=1e-14)
    assert spectral.value([7, 2, 1]) == pytest.approx(cost(spectral, np.array([7.0, 2.0, 1.0])[free:]).sum())
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
    """NaN stays NaN and alone, whatever the step, so that a run that diverges does not go unnoticed."""
    for step in steps(spectral):
        assert_array_equal(np.isnan(spectral.prox([np.nan, 2.0, np.nan, 0.5], step)), [True, False, True, False])


def test_every_penalty_is_registered_under_its_name(spectral):
    """A penalty can be found by its name."""
    assert SPECTRAL[spectral.name] is type(spectral)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_lambda_is_refused(spectral, bad):
    """λ must be finite and at least 0; the message names it and what was given."""
    parameters = vars(spectral) | {"lam": bad}
    with pytest.raises(ValueError, match=re.escape(f"lam must be a finite number at least 0, got {bad}")):
        type(spectral)(**parameters)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize(("kind", "name"), [(LogSum, "theta"), (CappedL1, "theta"), (MCP, "gamma")])
def test_bad_theta_or_gamma_is_refused(kind, name, bad):
    """θ and γ must be finite and positive."""
    with pytest.raises(ValueError, match=re.escape(f"{name} must be a finite number above 0, got {bad}")):
        kind(1.0, bad)


@pytest.mark.parametrize("bad", [2.0, 1.0, -3.7, np.nan, np.inf])
def test_bad_a_is_refused(bad):
    """SCAD needs a > 2."""
    with pytest.raises(ValueError, match=re.escape(f"a must be a finite number above 2, got {bad}")):
        SCAD(1.0, bad)


@pytest.mark.parametrize("bad", [-1, 1.0, 2.5, np.nan, "3", None])
def test_bad_r_is_refused(bad):
    """The number of free singular values must be a whole number, NumPy's included."""
    with pytest.raises(ValueError, match=re.escape(f"r must be a whole number, at least 0, got {bad!r}")):
        TruncatedNuclear(1.0, bad)
    assert TruncatedNuclear(1.0, np.int64(2)).untouched == 2


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_step_is_refused(spectral, bad):
    """The step must be finite and positive, for the prox and for the threshold."""
    message = re.escape(f"step must be a finite number above 0, got {bad}")
    with pytest.raises(ValueError, match=message):
        spectral.prox([1.0], bad)
    with pytest.raises(ValueError, match=message):
        spectral.threshold(bad)
