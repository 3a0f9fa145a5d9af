"""L2, the norm of all unobserved entries together: its prox is the minimiser, and needs three numbers only."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from snapimpute import L1, L2
from snapimpute.penalties import DISCRETE, Moments

STEPS = [0.3, 1.0, 4.0]
CASES = [
    (L2("1:5", 0.5), [1.0, 5.0]),
    (L2("1:5", 0.05), [1.1, 2.0, 2.9, 4.2, 0.3, 7.0]),
    (L2("1:5", 3.0), [3.1, 3.0, 2.8]),  # ends at a symbol
    (L2("1:5", 0.8, weights=[0.3, 0.0, 2.5, 1.0, 1.2]), [2.2, 3.1, 4.0, 4.4]),
    (L2([-3.0, 0.25, 0.5, 7.0], 0.6), [0.3, 0.4, 0.45]),
    (L2("-1,1", 0.4), [0.0, 0.0, 0.0]),  # no spread
    (L2("1:5", 0.4), [2.0, 2.0]),  # no spread, on a symbol that is not the minimiser
    (L2([2.5], 0.4), [1.0, 2.0, 3.3]),
    (L2("1:5", 0.4), [4.4]),
    (L2("1:3", 2.0, weights=[0, 0, 1]), [0.0, 1.0]),
]
symbol_lists = st.lists(st.integers(-60, 60), min_size=1, max_size=8, unique=True).map(
    lambda ks: sorted(k / 7 for k in ks)
)
vectors = st.lists(st.integers(-900, 900).map(lambda k: k / 77), min_size=1, max_size=6).map(np.array)


@st.composite
def any_l2(draw: st.DrawFn) -> L2:
    """Any alphabet, strength, weights (zeros among them) or none."""
    symbols = draw(symbol_lists)
    weight = st.one_of(st.just(0.0), st.floats(0.01, 3))
    weights = st.lists(weight, min_size=len(symbols), max_size=len(symbols))
    return L2(symbols, draw(st.one_of(st.just(0.0), st.floats(1e-3, 5))), draw(st.one_of(st.none(), weights)))


def cost(penalty: L2, x: np.ndarray) -> float:
    """ξ Σ w_k ‖x − a_k 1‖, from the definition."""
    return penalty.xi * sum(
        w * math.sqrt(sum((v - a) ** 2 for v in x)) for a, w in zip(penalty.alphabet, penalty.weights, strict=True)
    )


def whole(penalty: L2, u: np.ndarray, x: np.ndarray, step: float) -> float:
    """What the prox minimises over u."""
    return step * cost(penalty, u) + 0.5 * float(np.sum((u - x) ** 2))


def subgradient_distance(penalty: L2, u: np.ndarray, x: np.ndarray, step: float) -> float:
    """How far 0 is from the subdifferential of the strongly convex function at u: a bound on ‖u − minimiser‖."""
    slope, slack = u - x, 0.0
    for a, w in zip(penalty.alphabet, step * penalty.xi * penalty.weights, strict=True):
        length = float(np.linalg.norm(u - a))
        if length <= 1e-12 * (1 + abs(a)):
            slack += w
        else:
            slope = slope + w * (u - a) / length
    return max(float(np.linalg.norm(slope)) - slack, 0.0)


# ---------------------------------------------------------------- value and prox
@pytest.mark.parametrize(("penalty", "x"), CASES, ids=repr)
def test_value_is_the_definition(penalty, x):
    """The value is ξ Σ w_k ‖x − a_k 1‖, one number for arrays of any shape."""
    assert_allclose(
        penalty.value(x), cost(penalty, np.array(x)), rtol=1e-7
    )  # by moments: half the digits at a symbol
    assert penalty.value(x).shape == ()
    assert_array_equal(penalty.value(np.array(x)[:, None]), penalty.value(x))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("penalty", "x"), CASES, ids=repr)
def test_prox_is_the_minimiser_of_the_whole_vector(penalty, x, step):
    """A general solver over all entries, from several starts, finds nothing better, and comes close to the prox."""
    x = np.array(x)
    found = penalty.prox(x, step)
    best = min(whole(penalty, np.full(x.size, a), x, step) for a in penalty.alphabet)
    starts = [x, found + 0.01, np.full(x.size, x.mean() + 0.1) + 0.01 * np.arange(x.size)]
    for start in starts:
        ended = minimize(
            lambda u: whole(penalty, u, x, step),
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-8, "fatol": 1e-12, "maxiter": 4000, "maxfev": 4000},
        )
        best = min(best, ended.fun)
    mine = whole(penalty, found, x, step)
    assert mine <= best + 1e-11 * (1 + best)
    assert best <= mine + 1e-5 * (1 + mine)


@given(any_l2(), vectors, st.floats(0.05, 10))
@example(L2("1:5", 0.05), np.full(4, 2.0), 1.0)
@example(L2([-35 - 4 / 7, -17 - 6 / 7, 2 + 3 / 7, 29.0, 31 + 6 / 7], 0.820188), np.full(2, -35 - 4 / 7), 9.0)
@example(L2("1:5", 0.05), np.array([2.0, 2.0 + 1e-9]), 1.0)
@example(L2("1:5", 0.5), np.array([1.0, 1.0 + 1e-4, 1.0]), 4.0)
@settings(max_examples=150)
def test_zero_is_a_subgradient_at_the_prox(penalty, x, step):
    """At the prox of any vector 0 lies in the subdifferential, to the accuracy that moments allow."""
    size = 1 + np.abs(x).max() + np.abs(penalty.alphabet.symbols).max()
    found = penalty.prox(x, step)
    # beside a symbol the slope turns within any distance: so look at the cost, which must not exceed that of symbols
    for a in penalty.alphabet:
        mine = whole(penalty, found, x, step)
        assert mine <= whole(penalty, np.full(x.size, a), x, step) + 1e-7 * (1 + mine)
    nearest = min(float(np.linalg.norm(found - a)) for a in penalty.alphabet)
    if nearest > 1e-4 or nearest == 0:
        assert subgradient_distance(penalty, found, x, step) <= 1e-6 * size * (
            1 + step * penalty.xi / max(nearest, 1e-4)
        )


def test_constant_vectors_on_a_symbol_that_is_not_the_minimiser():
    """All entries 2 of 1..5: the pull of the other symbols wins and moves them by its amount, towards the middle."""
    x = np.full(7, 2.0)
    # slope at 2 without its own cusp: (−1 + 1·3)·ξ in units of the norm; the cusp takes one ξ
    moved = L2("1:5", 0.2).prox(x)
    assert_allclose(moved, 2 + 0.2 * 1 / math.sqrt(7), rtol=1e-6)
    assert_allclose(L2("1:5", 0.2).prox(np.full(4, 3.0)), 3.0, rtol=1e-12)


def test_one_symbol_gives_the_block_soft_threshold():
    """a + max(1 − step·ξ/‖x − a‖, 0)·(x − a)."""
    x, a = np.array([1.0, 2.0, 4.5, 2.2]), 2.5
    for xi in (0.1, 1.0, 5.0):
        factor = max(1 - 2 * xi / np.linalg.norm(x - a), 0.0)
        assert_allclose(L2([a], xi).prox(x, 2.0), a + factor * (x - a), rtol=1e-9, atol=1e-12)


@given(any_l2(), st.integers(-900, 900).map(lambda k: k / 77), st.floats(0.05, 10))
def test_a_single_entry_is_treated_as_by_l1(penalty, y, step):
    """The norm of one entry is its absolute value: value, prox and envelope are those of L1."""
    other = L1(penalty.alphabet, penalty.xi, penalty.weights)
    tolerance = 1e-6 * (1 + abs(y) + np.abs(penalty.alphabet.symbols).max()) * (1 + step * penalty.xi)
    assert_allclose(penalty.prox([y], step), other.prox([y], step), atol=tolerance)
    assert_allclose(penalty.value([y]), other.value(y), atol=tolerance)
    assert_allclose(penalty.envelope([y], step), other.envelope(y, step), atol=2 * len(penalty.alphabet) * tolerance)


def test_known_prox():
    """Two entries as far apart as the alphabet come nearer to each other and stay about the middle."""
    found = L2("1:5", xi=0.5).prox([1.0, 5.0])
    assert_allclose(found.sum(), 6.0, rtol=1e-14)
    r = (found[1] - found[0]) / math.sqrt(2)  # stationary in r = ‖x − 3‖: r + ξ Σ r/√(2(a−3)² + r²) = ‖(−2, 2)‖
    assert_allclose(
        r + 0.5 * sum(r / math.sqrt(2 * (a - 3) ** 2 + r * r) for a in range(1, 6)), math.sqrt(8), rtol=1e-12
    )


# ---------------------------------------------------------------- envelope, moments, shape of the map
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("penalty", "x"), CASES, ids=repr)
def test_envelope_is_the_minimum(penalty, x, step):
    """The envelope is step·value + ½‖u − x‖² at the prox, and the landing the first of the two."""
    x = np.array(x)
    landed = step * cost(penalty, penalty.prox(x, step))
    assert_allclose(penalty.landing_of(Moments.of(x), step), landed, rtol=1e-6, atol=1e-6)
    assert penalty.landing_of(Moments(0, 0.0, 0.0), step) == 0
    assert_allclose(penalty.envelope(x, step), whole(penalty, penalty.prox(x, step), x, step), rtol=1e-6)
    assert penalty.envelope(x, step).shape == ()


@given(any_l2(), vectors, st.floats(0.05, 10))
def test_prox_is_affine_with_numbers_from_the_moments(penalty, x, step):
    """The prox is αx + β with 0 ≤ α ≤ 1, and α, β, value and envelope come from number, sum and sum of squares."""
    moments = Moments(x.size, sum(x.tolist()), sum((x * x).tolist()))
    alpha, beta = penalty.shrinkage(moments, step)
    assert -1e-12 <= alpha <= 1 + 1e-7
    size = 1 + np.abs(x).max() + np.abs(penalty.alphabet.symbols).max()
    assert_allclose(penalty.prox(x, step), alpha * x + beta, atol=1e-5 * size)
    tolerance = 1e-5 * size * (1 + step * penalty.xi) * len(penalty.alphabet)
    assert_allclose(penalty.value_of(moments), penalty.value(x), atol=tolerance)
    assert_allclose(penalty.envelope_of(moments, step), penalty.envelope(x, step), atol=tolerance)


def test_moments_are_those_of_the_array():
    """Count, sum, sum of squares; (√N·mean, ‖x − mean‖) as a place, 0 spread for equal entries."""
    x = np.array([[1.0, 2.0], [4.0, 7.0]])
    assert Moments.of(x) == Moments(4, 14.0, 70.0)
    assert_allclose(Moments.of(x).place, [7.0, math.sqrt(21.0)], rtol=1e-14)
    assert_allclose(Moments.of(np.full(9, 0.5)).place, [1.5, 0.0], atol=1e-7)


@given(any_l2(), vectors, vectors, st.floats(0.05, 10))
def test_prox_moves_no_two_vectors_apart(penalty, x, y, step):
    """‖prox(x) − prox(y)‖ ≤ ‖x − y‖, as for every convex function."""
    n = min(x.size, y.size)
    x, y = x[:n], y[:n]
    size = 1 + np.abs(x).max() + np.abs(y).max() + np.abs(penalty.alphabet.symbols).max()
    gap = np.linalg.norm(penalty.prox(x, step) - penalty.prox(y, step))
    assert gap <= np.linalg.norm(x - y) + 1e-6 * size * (1 + step * penalty.xi)


@given(any_l2(), vectors)
def test_least_total_is_the_least(penalty, x):
    """No vector costs less than `least_total` of its length, and the vector of one of the symbols costs just that."""
    least = penalty.least_total(x.size)
    assert cost(penalty, x) >= least * (1 - 1e-12) - 1e-12
    at_symbols = [cost(penalty, np.full(x.size, a)) for a in penalty.alphabet]
    assert_allclose(least, min(at_symbols), rtol=1e-12, atol=1e-12)
    assert penalty.least_total(0) == 0


# ---------------------------------------------------------------- forms of input, names and errors
def test_any_shape_serves_and_none_is_changed():
    """A table is treated as the vector of its entries, keeps its shape, and is not changed; nothing stays nothing."""
    penalty = L2("1:5", 0.5)
    x = np.random.default_rng(0).normal(3, 2, (4, 6))
    before = x.copy()
    found = penalty.prox(x)
    assert_allclose(found.ravel(), penalty.prox(x.ravel()), rtol=1e-13)
    assert_array_equal(x, before)
    assert penalty.prox(np.zeros((0, 3))).shape == (0, 3)
    assert penalty.value([]) == penalty.envelope([]) == 0
    assert penalty.prox(2.0).shape == ()


@pytest.mark.parametrize("penalty", [L2("1:5", 0.0), L2("1:5", 2.0, weights=[0] * 5)], ids=repr)
def test_without_strength_nothing_happens(penalty):
    """With ξ = 0, or all weights 0, the prox is the identity and value and envelope are 0."""
    for x in (np.linspace(-7, 9, 33), np.full(5, 2.0), np.array([4.4])):
        assert_allclose(penalty.prox(x), x, rtol=1e-12, atol=1e-12)
        assert penalty.value(x) == 0
        assert_allclose(penalty.envelope(x), 0, atol=1e-12)
        assert penalty.least_total(x.size) == 0


def test_step_is_a_factor_of_xi():
    """prox(x, step) and envelope(x, step) are those of step·ξ."""
    x, weights = np.array([1.0, 2.2, 4.9]), [1, 0, 2, 0.5, 1]
    assert_allclose(L2("1:5", 0.3, weights).prox(x, 4.0), L2("1:5", 1.2, weights).prox(x), rtol=1e-12)
    assert_allclose(L2("1:5", 0.3, weights).envelope(x, 4.0), L2("1:5", 1.2, weights).envelope(x), rtol=1e-12)


def test_names_and_errors():
    """It is registered, convex and exact, shows what was asked for, and refuses bad strengths, weights and steps."""
    penalty = L2("1:3", 0.5, [1, 2, 0.25])
    assert DISCRETE[penalty.name] is L2
    assert penalty.convex
    assert penalty.exact
    assert repr(penalty) == "L2(Alphabet([1, 2, 3]), xi=0.5, weights=[1.0, 2.0, 0.25])"
    assert repr(L2("1:3", 0.5)) == "L2(Alphabet([1, 2, 3]), xi=0.5)"
    for bad in (-0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match=re.escape(f"xi must be a finite number, at least 0, got {bad}")):
            L2("1:5", bad)
    with pytest.raises(ValueError, match=re.escape("one number for each of the 5 symbols, got shape (2,)")):
        L2("1:5", 0.1, [1, 2])
    with pytest.raises(ValueError, match="finite and at least 0"):
        L2("1:2", 0.1, [1, -1])
    for bad in (0.0, -1.0, np.nan, np.inf):
        for apply in (penalty.prox, penalty.envelope):
            with pytest.raises(ValueError, match=re.escape(f"step must be a finite number above 0, got {bad}")):
                apply([1.0, 2.0], bad)
