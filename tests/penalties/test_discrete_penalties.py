"""Discrete penalties: every exact prox is the minimiser, the envelope the minimum, the composition the paper's."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute import L1, ComposedL1, Ridge
from snapimpute.penalties import DISCRETE, DiscretePenalty

STEPS = [0.3, 1.0, 4.0]
numbers = st.floats(-50, 50)
strengths = st.one_of(st.just(0.0), st.floats(1e-6, 20))
symbol_lists = st.lists(st.integers(-300, 300), min_size=1, max_size=20, unique=True).map(
    lambda ks: sorted(k / 7 for k in ks)
)


@st.composite
def weighted_l1(draw: st.DrawFn) -> L1:
    """Any alphabet of up to 20 symbols, any strength, weights or none."""
    symbols = draw(symbol_lists)
    weights = st.lists(st.floats(0, 3), min_size=len(symbols), max_size=len(symbols))
    return L1(symbols, draw(strengths), draw(st.one_of(st.none(), weights)))


def cost(penalty: DiscretePenalty, u: np.ndarray) -> np.ndarray:
    """The penalty of each u, written again from its definition."""
    u = np.asarray(u, dtype=float)
    if isinstance(penalty, Ridge):
        return penalty.xi * (u - penalty.center) ** 2
    assert isinstance(penalty, L1 | ComposedL1)
    weights = penalty.weights if isinstance(penalty, L1) else np.ones(len(penalty.alphabet))
    return penalty.xi * sum(w * np.abs(u - a) for a, w in zip(penalty.alphabet, weights, strict=True))


def l1_minimiser(penalty: L1, y: float, step: float = 1.0) -> float:
    """Minimiser of step·ξ Σ w_k|u − a_k| + ½(u − y)²: the kink or stationary point where 0 is a subgradient."""
    symbols, pulls = penalty.alphabet.symbols, step * penalty.xi * penalty.weights
    borders = np.concatenate([[-np.inf], symbols, [np.inf]])
    for k in range(len(borders) - 1):
        u = y - pulls[:k].sum() + pulls[k:].sum()  # slope 0 between symbols k and k + 1
        if borders[k] < u < borders[k + 1]:
            return u
    for k, a in enumerate(symbols):
        low = a - y + pulls[:k].sum() - pulls[k:].sum()
        if low <= 1e-9 and low + 2 * pulls[k] >= -1e-9:
            return a
    raise AssertionError("a convex function has a minimiser")


def rounding(penalty: L1, y: float, step: float = 1.0) -> float:
    """A few rounding errors of the numbers that the recurrence handles."""
    total = step * penalty.xi * penalty.weights.sum()
    return 1e-14 * (1 + abs(y) + total + np.abs(penalty.alphabet.symbols).max())


def exact_form(penalty: DiscretePenalty) -> DiscretePenalty:
    """The penalty whose prox is exact and whose value is the same."""
    return L1(penalty.alphabet, penalty.xi) if isinstance(penalty, ComposedL1) else penalty


def interesting(penalty: DiscretePenalty, step: float = 1.0) -> np.ndarray:
    """Points on, between, beside and far from the symbols, and where the prox bends."""
    centre = np.array([penalty.center]) if isinstance(penalty, Ridge) else penalty.alphabet.symbols
    reach = step * penalty.xi * 2 * centre.size
    bends = np.random.default_rng(0).permutation((centre[:, None] + np.linspace(-reach, reach, 81)).ravel())[:200]
    return np.concatenate([centre, bends, np.linspace(centre[0] - 3, centre[-1] + 3, 61), [-1e4, 1e4]])


# ---------------------------------------------------------------- prox and envelope by brute force
@pytest.mark.parametrize("step", STEPS)
def test_prox_is_the_minimiser_on_a_grid(discrete, step):
    """No point of a fine grid is better than an exact prox; some are better than the composition."""
    worse = 0
    for y in interesting(discrete, step):
        u = discrete.prox(y, step)
        reach = abs(y - u) + 1.0
        grid = np.linspace(y - reach, y + reach, 2001)
        best = (step * cost(discrete, grid) + 0.5 * (grid - y) ** 2).min()
        mine = step * cost(discrete, u) + 0.5 * (u - y) ** 2
        worse += mine > best + 1e-13 * (1 + y * y)
    assert (worse == 0) == discrete.exact


@pytest.mark.parametrize("step", STEPS)
def test_envelope_is_the_minimum(discrete, step):
    """The envelope is the value at the exact prox plus half the square, and the minimum over a fine grid."""
    y = interesting(discrete, step)
    u = exact_form(discrete).prox(y, step)
    envelope = discrete.envelope(y, step)
    assert_allclose(envelope, step * cost(discrete, u) + 0.5 * (u - y) ** 2, rtol=1e-12, atol=1e-13)
    near = np.linspace(-1, 1, 2001)  # of the minimiser: the penalties are convex, the rest is higher
    for at, best, value in zip(y, u, envelope, strict=True):
        lowest = (step * cost(discrete, best + near) + 0.5 * (best + near - at) ** 2).min()
        assert_allclose(value, lowest, rtol=1e-12, atol=1e-12)


def test_least_is_the_least_value(discrete):
    """No point of a fine grid costs less than `least`, and some point costs just that; the envelope's is the same."""
    points = np.concatenate([interesting(discrete), np.linspace(-12, 40, 52001)])
    assert_allclose(cost(discrete, points).min(), discrete.least, rtol=1e-12, atol=1e-7)
    assert (cost(discrete, points) >= discrete.least - 1e-12).all()
    assert (discrete.envelope(points) >= discrete.least - 1e-12).all()
    assert_allclose(discrete.envelope(points).min(), discrete.least, rtol=1e-12, atol=1e-7)


@given(weighted_l1(), st.lists(numbers, min_size=1, max_size=20))
@settings(max_examples=100)
def test_least_of_any_weighted_l1(penalty, points):
    """Between the symbols the cost is linear: its least value is that of a symbol, and no other point has less."""
    at_symbols = cost(penalty, penalty.alphabet.symbols)
    assert_allclose(penalty.least, at_symbols.min(), rtol=1e-12, atol=1e-12)
    assert (cost(penalty, np.array(points)) >= penalty.least * (1 - 1e-12) - 1e-12).all()


def test_least_where_it_is_known():
    """1..5 costs 6ξ at the middle symbol, weights move that to the weighted median, a single symbol is free."""
    assert L1("1:5", 0.5).least == ComposedL1("1:5", 0.5).least == 3.0
    assert_allclose(L1("1:5", 0.5, weights=[9, 1, 0, 0, 1]).least, 0.5 * (1 + 4))
    assert_allclose(L1("-1,1", 0.2).least, 0.4)
    assert L1([2.5], 0.4).least == L1("1:5", 0.0).least == Ridge(2.0, 0.3).least == 0.0


@given(weighted_l1(), numbers, st.floats(0.01, 5))
@settings(max_examples=200)
def test_l1_prox_is_the_minimiser_for_any_alphabet(penalty, y, step):
    """The one-pass recurrence gives the kink or stationary point with 0 among the subgradients, to rounding."""
    assert_allclose(penalty.prox(y, step), l1_minimiser(penalty, y, step), rtol=0, atol=rounding(penalty, y, step))


@given(
    st.floats(-5, 5),
    st.floats(0.05, 3),
    st.sampled_from([1, 2, 5, 20]),
    st.floats(1e-4, 3),
    st.lists(numbers, min_size=1, max_size=20),
)
@settings(max_examples=100)
def test_l1_prox_equals_the_closed_formula_for_equal_spacing(first, spacing, count, xi, y):
    """For K equally spaced symbols of equal weight the recurrence agrees with the formula without a loop over K."""
    penalty = L1(first + spacing * np.arange(count), xi)
    period = spacing + 2 * xi
    z = np.array(y) - (first - xi * count)
    k = np.clip(np.floor(z / period), 0, count - 1)
    rest = z - k * period
    expected = first + k * spacing + np.minimum(rest, 0) + np.maximum(rest - 2 * xi, 0)
    assert_allclose(penalty.prox(y), expected, rtol=0, atol=1e-12)


def test_known_answers():
    """A = 1..5, ξ = 0.05: 3 stays 3, 3.2 moves by one pull to the middle, 9 by five; the composition gives 2.95."""
    assert_allclose(L1("1:5", 0.05).prox([3.0, 3.2, 2.8, 9.0, -9.0]), [3.0, 3.15, 2.85, 8.75, -8.75], rtol=1e-15)
    assert_allclose(ComposedL1("1:5", 0.05).prox(3.0), 2.95, rtol=1e-15)
    assert_allclose(L1("-1,1", 0.2).prox([0.0, 0.5, 1.3, 2.0]), [0.0, 0.5, 1.0, 1.6], rtol=1e-15)
    assert_allclose(Ridge(3.0, 0.5).prox([3.0, 5.0]), [3.0, 4.0])


def test_weights_move_the_centre():
    """Strong unweighted pulls end at the middle symbol, weighted ones at the weighted median."""
    assert L1("1:5", 100.0).prox(4.9) == 3
    assert L1("1:5", 100.0, weights=[0, 0, 1, 1, 3]).prox(1.2) == 5
    assert L1("1:5", 100.0, weights=[9, 1, 1, 1, 1]).prox(4.9) == 1
    assert_array_equal(L1("1:5", 0.3).prox([0.2, 3.3]), L1("1:5", 0.3, weights=[1] * 5).prox([0.2, 3.3]))


# ---------------------------------------------------------------- shape of the map
@given(weighted_l1(), numbers, st.floats(0, 5), st.floats(0.01, 5))
def test_l1_prox_is_monotone_and_lipschitz(penalty, y, gap, step):
    """The exact prox rises, by at most as much as its argument."""
    low, high = penalty.prox([y, y + gap], step)
    assert -rounding(penalty, y, step) <= high - low <= gap + 2 * rounding(penalty, y + gap, step)


@given(symbol_lists, st.floats(0, 5), numbers, st.floats(0, 5))
def test_composed_prox_is_monotone_and_lipschitz(symbols, xi, y, gap):
    """The composition of soft thresholds rises, by at most as much as its argument."""
    low, high = ComposedL1(symbols, xi).prox([y, y + gap])
    assert -1e-11 <= high - low <= gap + 1e-11


def test_gradient_of_the_envelope_is_what_the_prox_moves(discrete):
    """The derivative of the envelope is x less the exact prox of x, by central differences."""
    h = 1e-5
    x = interesting(discrete)[:-2] + 0.123456e-3
    slope = (discrete.envelope(x + h) - discrete.envelope(x - h)) / (2 * h)
    assert_allclose(slope, x - exact_form(discrete).prox(x), atol=2.1 * h)


@pytest.mark.parametrize(
    "penalty", [L1("1:5", 0.0), ComposedL1("1:5", 0.0), Ridge(3.0, 0.0), L1("1:5", 2.0, weights=[0] * 5)], ids=repr
)
def test_without_strength_nothing_happens(penalty):
    """With ξ = 0, or all weights 0, the prox is the identity and value and envelope are 0."""
    x = np.linspace(-7, 9, 333)
    assert_allclose(penalty.prox(x), x, rtol=1e-15, atol=1e-15)
    assert_array_equal(penalty.value(x), 0)
    assert_allclose(penalty.envelope(x), 0, atol=1e-30)


@given(weighted_l1(), st.lists(numbers, min_size=1, max_size=4), st.floats(0.01, 10))
def test_step_is_a_factor_of_xi(penalty, y, step):
    """prox(x, step) and envelope(x, step) are those of step·ξ; the value has no step."""
    other = L1(penalty.alphabet, step * penalty.xi, penalty.weights)
    assert_array_equal(penalty.prox(y, step), other.prox(y))
    assert_array_equal(penalty.envelope(y, step), other.envelope(y))


@pytest.mark.parametrize("step", STEPS)
def test_step_is_a_factor_of_xi_for_every_penalty(discrete, step):
    """The same holds for the composition and the ridge."""
    center = {"center": discrete.center} if isinstance(discrete, Ridge) else {"alphabet": discrete.alphabet}
    weights = {"weights": discrete.weights} if isinstance(discrete, L1) else {}
    other = type(discrete)(xi=step * discrete.xi, **center, **weights)
    x = np.linspace(-4, 9, 101)
    assert_allclose(discrete.prox(x, step), other.prox(x), rtol=1e-15)
    assert_allclose(discrete.envelope(x, step), other.envelope(x), rtol=1e-15)


# ---------------------------------------------------------------- the composition and the control
@given(symbol_lists, st.floats(0, 3), numbers)
def test_composed_prox_is_k_soft_thresholds_last_symbol_first(symbols, xi, y):
    """The paper's Eq. 15: soft thresholds about a_K, then a_{K−1}, …, then a_1, one after the other."""
    u = y
    for a in reversed(symbols):
        u = a + np.sign(u - a) * max(abs(u - a) - xi, 0)
    assert_allclose(ComposedL1(symbols, xi).prox(y), u, rtol=0, atol=1e-12)


def test_composition_depends_on_the_order():
    """Mirroring alphabet and point, which reverses the order, gives 3.05 for 2.95: no prox would do that."""
    assert_allclose(ComposedL1("1:5", 0.05).prox(3.0), 2.95, rtol=1e-15)
    assert_allclose(6 - ComposedL1("1:5", 0.05).prox(6 - 3.0), 3.05, rtol=1e-15)


def test_composition_reports_the_costs_of_the_exact_penalty():
    """Value and envelope of the composition are those of L1, and it says that its prox is not exact."""
    x = np.linspace(-2, 8, 401)
    exact, composed = L1("1:5", 0.4), ComposedL1("1:5", 0.4)
    assert_array_equal(composed.value(x), exact.value(x))
    assert_array_equal(composed.envelope(x, 2.0), exact.envelope(x, 2.0))
    assert exact.exact
    assert not composed.exact


@given(st.floats(-5, 5), st.floats(0, 10), numbers)
def test_ridge_by_its_derivative(center, xi, x):
    """At the ridge's prox the derivative 2ξ(u − centre) + u − x is 0, and the envelope is the cost there."""
    ridge = Ridge(center, xi)
    u = ridge.prox(x)
    assert_allclose(2 * xi * (u - center) + u, x, rtol=1e-12, atol=1e-12)
    assert_allclose(ridge.envelope(x), xi * (u - center) ** 2 + 0.5 * (u - x) ** 2, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- value and forms of input
def test_value_is_the_definition(discrete):
    """The value is ξ Σ w_k|x − a_k| (for the ridge ξ(x − centre)²), entry by entry."""
    x = interesting(discrete)
    assert_allclose(discrete.value(x), cost(discrete, x), rtol=1e-13, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["value", "prox", "envelope"])
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 5000])
def test_any_size_gives_what_single_numbers_give(discrete, kind, size):
    """Blocks of the compiled loops, whole or cut short, do not show in the result."""
    x = np.random.default_rng(size).normal(2, 3, size)
    whole = getattr(discrete, kind)(x)
    picked = np.unique(np.concatenate([np.arange(0, size, 257), np.arange(max(size - 2, 0), size)]))
    assert whole.shape == (size,)
    assert_array_equal(whole[picked], [float(getattr(discrete, kind)(x[i])) for i in picked])


@pytest.mark.parametrize("kind", ["value", "prox", "envelope"])
def test_any_form_of_input_serves_and_none_is_changed(discrete, kind):
    """Scalars, lists, integers, any memory order, read-only arrays: same values, same shape, input untouched."""
    apply = getattr(discrete, kind)
    base = np.random.default_rng(0).normal(2, 3, (6, 8))
    before = base.copy()
    flat = apply(base.ravel()).reshape(base.shape)
    forms = {"C": base, "Fortran": np.asfortranarray(base), "list": base.tolist(), "transposed": base.T.copy().T}
    for name, form in forms.items():
        assert_array_equal(apply(form), flat, err_msg=name)
    assert_array_equal(apply(base[::2, 1::3]), flat[::2, 1::3])
    assert_array_equal(apply(base.T), flat.T)
    frozen = base.copy()
    frozen.flags.writeable = False
    assert_array_equal(apply(frozen), flat)
    assert_array_equal(base, before)
    assert_array_equal(apply(np.arange(-3, 9)), apply(np.arange(-3.0, 9.0)))
    assert_array_equal(apply(base.astype(np.float32)), apply(base.astype(np.float32).astype(float)))
    assert apply(2).shape == ()
    assert apply(np.zeros((0, 3))).shape == (0, 3)
    assert apply(base).dtype == np.float64


@pytest.mark.parametrize("kind", ["value", "prox", "envelope"])
def test_nan_stays_nan_and_infinity_infinite(discrete, kind):
    """What is not finite is not hidden behind a symbol: a run that diverges must be noticed."""
    out = getattr(discrete, kind)([np.nan, np.inf, -np.inf])
    assert np.isnan(out[0])
    assert not np.isfinite(out[1:]).any()


@pytest.mark.parametrize("kind", ["value", "prox", "envelope"])
def test_compiled_map_is_the_array_function_in_place(discrete, kind):
    """The map that tiles use gives the bits that the array function gives, in the memory it was given."""
    x = np.random.default_rng(1).normal(2, 3, 3000)
    expected = getattr(discrete, kind)(x)
    discrete.compiled(kind)(x)
    assert_array_equal(x, expected)


# ---------------------------------------------------------------- names and errors
def test_every_penalty_with_an_alphabet_is_registered_under_its_name(discrete):
    """A penalty can be found by its name; the control is in no list."""
    assert isinstance(discrete, Ridge) or DISCRETE[discrete.name] is type(discrete)


def test_repr_says_what_was_asked_for():
    """The representation shows alphabet, ξ, and weights where they differ from 1."""
    assert repr(L1("1:3", 0.5)) == "L1(Alphabet([1, 2, 3]), xi=0.5)"
    assert repr(L1("1:3", 0.5, [1, 2, 0.25])) == "L1(Alphabet([1, 2, 3]), xi=0.5, weights=[1.0, 2.0, 0.25])"
    assert repr(ComposedL1("-1,1", 1)) == "ComposedL1(Alphabet([-1, 1]), xi=1)"
    assert repr(Ridge(3, 0.1)) == "Ridge(center=3, xi=0.1)"


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf])
@pytest.mark.parametrize("build", [lambda x: L1("1:5", x), lambda x: ComposedL1("1:5", x), lambda x: Ridge(3, x)])
def test_bad_xi_is_refused(build, bad):
    """ξ must be finite and at least 0; the message says what was given."""
    with pytest.raises(ValueError, match=re.escape(f"xi must be a finite number, at least 0, got {bad}")):
        build(bad)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], "one number for each of the 5 symbols, got shape (2,)"),
        (np.ones((5, 1)), "one number for each of the 5 symbols, got shape (5, 1)"),
        ([1, 1, -1, 1, 1], "finite and at least 0, got [1.0, 1.0, -1.0, 1.0, 1.0]"),
        ([1, 1, np.nan, 1, 1], "finite and at least 0"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    """Weights must be K finite numbers, at least 0."""
    with pytest.raises(ValueError, match=re.escape(message)):
        L1("1:5", 0.1, weights)


def test_later_changes_of_the_weights_do_not_reach_the_penalty():
    """The penalty keeps its own copy of the weights."""
    weights = np.ones(5)
    penalty = L1("1:5", 0.1, weights)
    weights[:] = 9
    assert_array_equal(penalty.weights, 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_center_is_refused(bad):
    """The ridge's centre must be finite."""
    with pytest.raises(ValueError, match=f"center must be finite, got {bad}"):
        Ridge(bad, 0.1)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_step_is_refused(discrete, bad):
    """The step must be finite and positive."""
    for apply in (discrete.prox, discrete.envelope):
        with pytest.raises(ValueError, match=re.escape(f"step must be a finite number above 0, got {bad}")):
            apply(1.0, bad)


@given(symbol_lists, st.floats(0.01, 0.99), st.floats(0.1, 3), st.lists(numbers, min_size=1, max_size=20))
@settings(max_examples=100)
def test_the_composition_is_the_prox_about_symbols_that_moved_down(symbols, part, step, y):
    """Eq. 15 is the exact prox of another sum: its k-th symbol from below lies k − 1 thresholds lower."""
    threshold = part * np.diff(symbols).min(initial=5.0)  # the symbols keep their order
    moved = np.array(symbols) - threshold * np.arange(len(symbols))
    composed = ComposedL1(symbols, threshold / step).prox(y, step)
    exact = L1(moved, threshold / step).prox(y, step)
    assert_allclose(composed, exact, atol=1e-12 * (1 + abs(moved).max() + len(symbols)))
