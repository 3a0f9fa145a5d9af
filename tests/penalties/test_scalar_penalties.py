"""L0, FractionalL0 and Lp: the prox is the global minimiser, although the penalties are not convex."""

from __future__ import annotations

import copy
import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq

from snapimpute import L0, L1, FractionalL0, Lp
from snapimpute.penalties import DISCRETE
from snapimpute.penalties.discrete import SymbolPenalty

STEPS = [0.3, 1.0, 4.0]
KINDS = ["value", "prox", "envelope"]
numbers = st.floats(-50, 50)
steps = st.floats(0.01, 20)
symbol_lists = st.lists(st.integers(-300, 300), min_size=1, max_size=20, unique=True).map(
    lambda ks: sorted(k / 7 for k in ks)
)


@st.composite
def arguments(draw: st.DrawFn) -> dict:
    """Any alphabet of up to 20 symbols, any strength, weights (zeros among them) or none."""
    symbols = draw(symbol_lists)
    weight = st.one_of(st.just(0.0), st.floats(0.01, 3))
    weights = st.lists(weight, min_size=len(symbols), max_size=len(symbols))
    strengths = st.one_of(st.just(0.0), st.floats(1e-4, 20))
    return {"alphabet": symbols, "xi": draw(strengths), "weights": draw(st.one_of(st.none(), weights))}


any_l0 = arguments().map(lambda given: L0(**given))
any_fractional = st.tuples(arguments(), st.floats(-5, 3)).map(lambda t: FractionalL0(**t[0], alpha=10.0 ** t[1]))
any_lp = st.tuples(arguments(), st.floats(0.02, 0.99)).map(lambda t: Lp(**t[0], p=t[1]))
any_table = st.one_of(any_fractional, any_lp)
any_penalty = st.one_of(any_l0, any_fractional, any_lp)


# ---------------------------------------------------------------- the penalties written again
def cost(penalty: SymbolPenalty, u: np.ndarray) -> np.ndarray:
    """The penalty of each u, from its definition."""
    u = np.asarray(u, dtype=float)
    total = np.zeros(u.shape)
    for a, w in zip(penalty.alphabet, penalty.weights, strict=True):
        if isinstance(penalty, L0):
            total += w * (u != a)
        elif isinstance(penalty, FractionalL0):
            total += w * (u - a) ** 2 / ((u - a) ** 2 + penalty.alpha)
        else:
            assert isinstance(penalty, Lp)
            total += w * np.abs(u - a) ** penalty.p
    return penalty.xi * total


def derivative(penalty: SymbolPenalty, u: float) -> float:
    """The derivative of the penalty at a u that is no symbol of an Lp."""
    total = 0.0
    for a, w in zip(penalty.alphabet, penalty.weights, strict=True):
        d = u - a
        if isinstance(penalty, FractionalL0):
            total += w * 2 * penalty.alpha * d / (d * d + penalty.alpha) ** 2
        elif w > 0 and d != 0:
            total += w * penalty.p * math.copysign(abs(d) ** (penalty.p - 1), d)
    return penalty.xi * total


def whole(penalty: SymbolPenalty, u: np.ndarray, y: np.ndarray, step: float) -> np.ndarray:
    """What the prox minimises over u."""
    return step * cost(penalty, u) + 0.5 * (np.asarray(u) - y) ** 2


def fine(penalty: SymbolPenalty, low: float, high: float) -> np.ndarray:
    """The symbols, and points between low and high that crowd about them."""
    width = math.sqrt(penalty.alpha) if isinstance(penalty, FractionalL0) else 1e-3
    offsets = np.geomspace(1e-3 * width, 2 * (high - low) + width, 200)
    symbols = penalty.alphabet.symbols
    about = symbols[:, None] + np.concatenate([-offsets, [0.0], offsets])
    points = np.concatenate([about.ravel(), np.linspace(low, high, 1001)])
    return np.unique(points[(points >= low) & (points <= high)])


def valleys(penalty: SymbolPenalty, y: float, step: float) -> list[tuple[float, float]]:
    """(cost, u) of every local minimiser, the best first: brackets from a grid, then roots of the derivative."""
    if isinstance(penalty, L0):
        return sorted((float(whole(penalty, np.array(u), y, step)), u) for u in {y, *penalty.alphabet})
    u = fine(penalty, min(y, penalty.alphabet.symbols[0]), max(y, penalty.alphabet.symbols[-1]))
    f = whole(penalty, u, y, step)
    lowest = (f <= np.append(f[1:], np.inf)) & (f <= np.append(np.inf, f[:-1]))
    out = []
    for k in np.flatnonzero(lowest):
        left, right, best = u[max(k - 1, 0)], u[min(k + 1, u.size - 1)], float(u[k])
        cusp = isinstance(penalty, Lp) and best in penalty.alphabet.symbols[penalty.weights > 0]

        def slope(v: float) -> float:
            return v - y + step * derivative(penalty, v)

        if not cusp and slope(left) < 0 < slope(right):
            best = brentq(slope, left, right, xtol=1e-15, rtol=1e-15)
        out.append((float(whole(penalty, best, y, step)), best))
    return sorted(out)


def interesting(penalty: SymbolPenalty) -> np.ndarray:
    """Points on, beside, between and far from the symbols."""
    symbols = penalty.alphabet.symbols
    shifts = np.random.default_rng(0).permutation(np.geomspace(1e-9, 8, 60))
    beside = (symbols[:, None] + np.concatenate([shifts, -shifts])).ravel()
    picked = np.random.default_rng(1).permutation(beside)[:120]
    return np.concatenate([symbols, picked, np.linspace(symbols[0] - 3, symbols[-1] + 3, 61), [-1e4, 1e4]])


def scale(penalty: SymbolPenalty) -> float:
    return 1 + float(np.abs(penalty.alphabet.symbols).max())


# ---------------------------------------------------------------- the prox by brute force
@pytest.mark.slow
@pytest.mark.parametrize("step", [1e-3, *STEPS, 300.0])
def test_prox_is_the_global_minimiser(nonconvex, step):
    """No symbol, no point of a fine grid and none close by is better than the prox, for tiny and huge steps too."""
    y = interesting(nonconvex)
    u = nonconvex.prox(y, step)
    mine = whole(nonconvex, u, y, step)
    grid = fine(nonconvex, y.min(), y.max())
    best = (step * cost(nonconvex, grid) + 0.5 * (grid - y[:, None]) ** 2).min(axis=1)
    close = u[:, None] + np.concatenate([np.linspace(-1e-2, 1e-2, 201), np.geomspace(1e-7, 1, 50)])
    best = np.minimum(best, whole(nonconvex, close, y[:, None], step).min(axis=1))
    assert (mine <= best + 1e-12 * (1 + best)).all()


@given(any_penalty, st.lists(numbers, min_size=1, max_size=6), steps)
@example(FractionalL0([-40.0, 2.5, 40.0], 0.001, 0.002), [2.5, 2.52], 1.0)
@example(FractionalL0("-1,1", 1.0, 3.0), [0.0, 0.1, 1e-3], 1.0)
@example(Lp("1:5", 1e-3, 0.5), [3.01, 3.02, 40.0], 1.0)
@settings(max_examples=50)
def test_prox_is_the_global_minimiser_for_any_penalty(penalty, near, step):
    """For any alphabet, strength, weights, shape and step, no symbol and no point of a grid is better."""
    y = np.concatenate([near, penalty.alphabet.symbols[:3], penalty.alphabet.symbols[-3:] + 0.01])
    u = penalty.prox(y, step)
    grid = fine(penalty, min(y.min(), penalty.alphabet.symbols[0]), max(y.max(), penalty.alphabet.symbols[-1]))
    best = (step * cost(penalty, grid) + 0.5 * (grid - y[:, None]) ** 2).min(axis=1)
    assert (whole(penalty, u, y, step) <= best + 1e-11 * (1 + best)).all()


@pytest.mark.parametrize("step", STEPS)
def test_prox_agrees_with_a_solver(nonconvex, step):
    """Away from jumps the tabulated prox is, to 1e-10 of the symbols, the best root of the derivative."""
    compared = 0
    for y in interesting(nonconvex)[::3]:
        (least, best), *others = valleys(nonconvex, y, step)
        if all(other - least > 1e-6 for other, u in others if abs(u - best) > 1e-9):
            compared += 1
            assert_allclose(nonconvex.prox(y, step), best, rtol=1e-14, atol=1e-10 * scale(nonconvex), err_msg=f"{y=}")
    assert compared > 20


@given(any_table, numbers, steps)
@example(FractionalL0([-40.0, 2.5, 40.0], 0.001, 0.002), 2.52, 1.0)
@example(Lp([-40.0, 2.5, 40.0], 0.001, 0.5), 2.52, 1.0)
@example(Lp("1:5", 0.05, 0.5), 3.4, 0.02)
@settings(max_examples=50)
def test_any_table_agrees_with_a_solver(penalty, y, step):
    """The same for any alphabet and step, where the minimiser is well-determined."""
    (least, best), *others = valleys(penalty, y, step)
    assume(all(other - least > 1e-6 * (1 + least) for other, u in others if abs(u - best) > 1e-9))
    found = float(penalty.prox(y, step))
    h = 1e-4 * (math.sqrt(penalty.alpha) if isinstance(penalty, FractionalL0) else 1e-3)
    bend = 1 + step * (derivative(penalty, best + h) - derivative(penalty, best - h)) / (2 * h)
    assume(bend > 0.05 or best in penalty.alphabet.symbols)  # a fold is close: the root moves fast there
    assert_allclose(found, best, rtol=1e-14, atol=1e-10 * scale(penalty))


@given(any_penalty, st.lists(numbers, min_size=2, max_size=30), steps)
@settings(max_examples=50)
def test_prox_is_monotone(penalty, y, step):
    """A larger argument never has a smaller prox: so it is for every function, convex or not."""
    assert (np.diff(penalty.prox(np.sort(y), step)) >= -1e-10 * scale(penalty)).all()


def test_prox_is_monotone_on_a_dense_line(nonconvex):
    """The pieces of a table meet without a fall, also at jumps; some of the penalties do jump."""
    y = np.linspace(nonconvex.alphabet.symbols[0] - 30, nonconvex.alphabet.symbols[-1] + 30, 50_001)
    for step in STEPS:
        assert (np.diff(nonconvex.prox(y, step)) >= -1e-10 * scale(nonconvex)).all()


def test_wide_wells_give_a_continuous_prox_and_narrow_ones_jumps():
    """With one symbol the fractional prox jumps just if step·ξ > 2α, where the penalty bends down by more than 1."""
    y = np.linspace(-3, 3, 60_001)
    for xi, jumps in [(0.19, False), (0.25, True)]:
        rises = np.diff(FractionalL0([0.0], xi, alpha=0.1).prox(y))
        assert (rises.max() > 0.02) == jumps
        assert FractionalL0([0.0], xi, alpha=0.1).prox(0.0) == 0


# ---------------------------------------------------------------- closed forms
@given(any_l0, numbers, steps)
def test_l0_is_the_best_of_the_value_and_the_symbols(penalty, y, step):
    """The weighted formula: the a_k with the least ½(y − a_k)² − step·ξ·w_k if that is negative, else y."""
    symbols = penalty.alphabet.symbols
    gains = 0.5 * (y - symbols) ** 2 - step * penalty.xi * penalty.weights
    assume(np.abs(gains).min() > 1e-9)
    assume(symbols.size == 1 or np.diff(np.sort(gains))[0] > 1e-9)
    assert penalty.prox(y, step) == (symbols[np.argmin(gains)] if gains.min() < 0 else y)


@given(symbol_lists, st.floats(1e-3, 20), numbers, steps)
def test_l0_without_weights_is_the_nearest_symbol_or_nothing(symbols, xi, y, step):
    """Without weights it is the nearest symbol if (y − a)² < 2·step·ξ, else y."""
    distances = np.abs(y - np.array(symbols))
    assume(len(symbols) == 1 or np.diff(np.sort(distances))[0] > 1e-9)
    assume(abs(distances.min() ** 2 - 2 * step * xi) > 1e-9)
    kept = distances.min() ** 2 >= 2 * step * xi
    assert L0(symbols, xi).prox(y, step) == (y if kept else symbols[np.argmin(distances)])


@given(any_l0, steps)
def test_l0_of_a_symbol_without_weights_is_the_symbol(penalty, step):
    """Without weights every symbol stays where it is, and so does whatever the prox has put on one."""
    plain = L0(penalty.alphabet, penalty.xi)
    assert_array_equal(plain.prox(plain.alphabet.symbols, step), plain.alphabet.symbols)
    weak = 0.4 * np.diff(penalty.alphabet.symbols, prepend=-99.0).min() ** 2 / 3  # no symbol reaches another
    weighted = L0(penalty.alphabet, weak, penalty.weights)
    assert_array_equal(weighted.prox(weighted.alphabet.symbols), weighted.alphabet.symbols)


def test_l0_known_answers():
    """1..5 with 2ξ = 0.04: 3.19 goes to 3 and 3.21 stays; a heavy symbol draws from afar, one without weight not."""
    assert_array_equal(L0("1:5", 0.02).prox([3.0, 3.19, 3.21, 2.81, 2.79, -9.0]), [3.0, 3.0, 3.21, 3.0, 2.79, -9.0])
    assert_array_equal(L0("0,1", 0.5, weights=[0, 4]).prox([-0.99, -1.01, 0.1, 2.99, 3.01]), [1, -1.01, 1, 1, 3.01])
    assert_allclose(L0("1:5", 0.02).value([3.0, 3.3, np.nextafter(3, 4)]), [0.08, 0.1, 0.1], rtol=1e-15)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("lam", [0.01, 0.7, 30.0])
def test_lp_with_one_symbol_has_the_known_threshold(p, lam):
    """|u|^p: the prox is 0 up to (2 − p)/(2(1 − p))·(2λ(1 − p))^{1/(2−p)}, and jumps to (2λ(1 − p))^{1/(2−p)}."""
    jump = (2 * lam * (1 - p)) ** (1 / (2 - p))
    edge = (2 - p) / (2 * (1 - p)) * jump
    penalty = Lp([0.0], lam, p)
    assert_array_equal(penalty.prox(edge * np.array([-0.999999999, -0.3, 0.0, 0.7, 0.999999999])), 0)
    assert_allclose(penalty.prox(edge * np.array([-1.000000001, 1.000000001])), [-jump, jump], rtol=1e-6)
    moved = Lp([2.5], lam / 4, p)
    assert_allclose(moved.prox(2.5 + 1.7 * edge, 4.0) - 2.5, penalty.prox(1.7 * edge), rtol=1e-9, atol=1e-10)


def test_half_power_with_one_symbol_has_the_known_formula():
    """p = ½: (2/3)·y·(1 + cos(2π/3 − (2/3)·arccos((ξ/4)·(3/y)^{3/2}))), the half threshold of Xu and others."""
    y = np.linspace(1.6, 40, 500)
    angle = np.arccos(0.25 * (y / 3) ** -1.5)
    assert_allclose(Lp([0.0], 1.0, 0.5).prox(y), 2 / 3 * y * (1 + np.cos(2 * np.pi / 3 - 2 / 3 * angle)), rtol=1e-9)


def test_fractional_tends_to_l0():
    """As α → 0 the fractional prox tends to that of L0, away from its thresholds, and so does the value."""
    y = np.array([0.4, 1.0, 1.15, 2.45, 3.0, 3.3, 3.9, 7.0])
    limit = L0("1:5", 0.05)
    errors = [np.abs(FractionalL0("1:5", 0.05, alpha).prox(y) - limit.prox(y)).max() for alpha in (1e-2, 1e-4, 1e-6)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[2] < 1e-5
    assert_allclose(FractionalL0("1:5", 0.05, 1e-9).value(y), limit.value(y), atol=1e-8)


def test_fractional_tends_to_a_sum_of_squares():
    """For huge α it is ξ/α Σ w_k(x − a_k)², whose prox is a weighted mean."""
    ratio, weights, alpha = 0.3, np.array([1.0, 0.0, 2.0]), 1e9
    penalty = FractionalL0("1:3", ratio * alpha, alpha, weights)
    y = np.linspace(-5, 9, 57)
    mean = (y + 2 * ratio * weights @ [1.0, 2.0, 3.0]) / (1 + 2 * ratio * weights.sum())
    assert_allclose(penalty.prox(y), mean, atol=1e-6)
    assert_allclose(penalty.value(y), ratio * ((y - 1) ** 2 + 2 * (y - 3) ** 2), rtol=1e-6)


def test_lp_tends_to_l1_and_to_l0():
    """p → 1 gives the prox of L1, p → 0 that of L0, away from thresholds."""
    y = np.array([0.4, 1.0, 1.15, 2.45, 3.0, 3.5, 3.9, 7.0])
    for limit, powers in [(L1("1:5", 0.05), (0.99, 0.999, 0.9999)), (L0("1:5", 0.05), (0.01, 0.001, 0.0001))]:
        errors = [np.abs(Lp("1:5", 0.05, p).prox(y) - limit.prox(y)).max() for p in powers]
        assert errors[0] > 5 * errors[1] > 25 * errors[2], (limit, errors)
        assert errors[2] < 2e-4


# ---------------------------------------------------------------- envelope, value, least
@pytest.mark.parametrize("step", STEPS)
def test_envelope_is_the_minimum(nonconvex, step):
    """The envelope is step·value + ½ (u − y)² at the prox, and the least of that over a fine grid, to its spacing."""
    y = interesting(nonconvex)
    u = nonconvex.prox(y, step)
    envelope = nonconvex.envelope(y, step)
    assert_allclose(envelope, whole(nonconvex, u, y, step), rtol=1e-12, atol=1e-13)
    for at, found in zip(y[::5], envelope[::5], strict=True):
        grid = np.append(
            fine(nonconvex, min(at, nonconvex.alphabet.symbols[0]), max(at, nonconvex.alphabet.symbols[-1])), at
        )
        lowest = whole(nonconvex, grid, at, step).min()
        assert found <= lowest + 1e-12 * (1 + lowest)
        assert lowest <= found + 1e-3 * (1 + found)


def test_landing_is_the_value_at_the_prox(nonconvex):
    """The compiled map "landing" is step times the penalty at the prox, in place."""
    y = interesting(nonconvex)
    for step in STEPS:
        landing = y.copy()
        nonconvex.compiled("landing", step)(landing)
        assert_allclose(landing, step * cost(nonconvex, nonconvex.prox(y, step)), rtol=1e-12, atol=1e-15)


def test_value_is_the_definition(nonconvex):
    """The value is ξ Σ w_k times 1[d ≠ 0], d²/(d² + α) or |d|^p, entry by entry."""
    x = interesting(nonconvex)
    assert_allclose(nonconvex.value(x), cost(nonconvex, x), rtol=1e-12, atol=1e-15)


@pytest.mark.slow
@given(any_penalty)
@example(FractionalL0("-1,1", 1.0, 3.0))  # two wells are just becoming one
@example(FractionalL0("-1,1", 1.0, 2.9))
@example(FractionalL0("1:5", 1.0, 1e-12))
@settings(max_examples=20)
def test_least_is_the_least_value(penalty):
    """No point of a fine grid costs less than `least`, and some point costs hardly more; many cost as many times."""
    symbols = penalty.alphabet.symbols
    costs = cost(penalty, fine(penalty, symbols[0], max(symbols[-1], symbols[0] + 1)))
    assert penalty.least <= costs.min() + 1e-12 * (1 + costs.min())
    assert costs.min() <= penalty.least + 1e-3 * penalty.xi * max(penalty.weights.sum(), 1)


def test_least_where_it_is_known():
    """L0: all weights but the largest; a single symbol is free; two far symbols cost one well."""
    assert_allclose(L0("1:5", 0.5).least, 2.0)
    assert_allclose(L0("1:3", 0.5, weights=[1, 4, 2]).least, 1.5)
    assert L0([2.5], 3.0).least == Lp([2.5], 3.0, 0.5).least == FractionalL0([2.5], 3.0, 0.1).least == 0
    assert_allclose(Lp("0,4", 0.5, 0.5).least, 1.0)
    assert_allclose(FractionalL0("-1,1", 1.0, alpha=8.0).least, 2 / 9)
    assert_allclose(FractionalL0("0,100", 1.0, alpha=1.0).least, 1e4 / (1e4 + 1), atol=1e-10)


# ---------------------------------------------------------------- forms of input
@pytest.mark.parametrize("kind", KINDS)
def test_nan_stays_nan(nonconvex, kind):
    """What is not a number is not hidden behind a symbol, and its neighbours are not touched."""
    out = getattr(nonconvex, kind)([2.0, np.nan, 3.3])
    assert_array_equal(np.isnan(out), [False, True, False])
    assert_array_equal(out[[0, 2]], getattr(nonconvex, kind)([2.0, 3.3]))


def test_infinity_stays_infinite(nonconvex):
    """The prox leaves infinities alone: a run that diverges must be noticed."""
    assert_array_equal(nonconvex.prox([np.inf, -np.inf]), [np.inf, -np.inf])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [1.0, 0.3])
def test_compiled_map_is_the_array_function_in_place(nonconvex, kind, step):
    """The map that tiles use gives the bits of the array function, in the memory it was given, for any block."""
    x = np.random.default_rng(1).normal(2, 3, 2500)
    expected = getattr(nonconvex, kind)(x) * step if kind == "value" else getattr(nonconvex, kind)(x, step)
    given = x.copy()
    nonconvex.compiled(kind, step)(x)
    assert_allclose(x, expected, rtol=1e-14 if kind == "value" else 0, atol=0)
    single = [float(getattr(nonconvex, kind)(v)) for v in given[::500]]
    assert_array_equal(getattr(nonconvex, kind)(given)[::500], single)


@pytest.mark.parametrize("kind", KINDS)
def test_any_form_of_input_serves_and_none_is_changed(nonconvex, kind):
    """Scalars, lists, integers, any memory order, nothing at all: same values, same shape, input untouched."""
    apply = getattr(nonconvex, kind)
    base = np.random.default_rng(0).normal(2, 3, (6, 8))
    before = base.copy()
    flat = apply(base.ravel()).reshape(base.shape)
    for form in (base, np.asfortranarray(base), base.tolist()):
        assert_array_equal(apply(form), flat)
    assert_array_equal(apply(base[::2, 1::3]), flat[::2, 1::3])
    assert_array_equal(apply(base.T), flat.T)
    assert_array_equal(base, before)
    assert_array_equal(apply(np.arange(-3, 9)), apply(np.arange(-3.0, 9.0)))
    assert apply(2).shape == ()
    assert apply(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("weights", [None, [0.0] * 5])
def test_without_strength_nothing_happens(weights):
    """With ξ = 0, or all weights 0, the prox is the identity and value, envelope and least are 0."""
    x = np.linspace(-7, 9, 333)
    xi = 0.0 if weights is None else 2.0
    for penalty in (
        L0("1:5", xi, weights),
        FractionalL0("1:5", xi, alpha=0.1, weights=weights),
        Lp("1:5", xi, p=0.5, weights=weights),
    ):
        assert_array_equal(penalty.prox(x, 3.0), x)
        assert_array_equal(penalty.value(x), 0)
        assert_array_equal(penalty.envelope(x), 0)
        assert penalty.least == 0


@pytest.mark.parametrize("step", STEPS)
def test_step_is_a_factor_of_xi(nonconvex, step):
    """prox(x, step) and envelope(x, step) are those of step·ξ; a table of one step is not used for another."""
    more = {"alpha": nonconvex.alpha} if isinstance(nonconvex, FractionalL0) else {}
    more |= {"p": nonconvex.p} if isinstance(nonconvex, Lp) else {}
    other = type(nonconvex)(nonconvex.alphabet, xi=step * nonconvex.xi, weights=nonconvex.weights, **more)
    x = np.linspace(-4, 9, 101)
    assert_allclose(nonconvex.prox(x, step), other.prox(x), rtol=1e-14)
    assert_allclose(nonconvex.envelope(x, step), other.envelope(x), rtol=1e-13)


def test_symbols_without_weight_do_not_count():
    """A symbol of weight 0 may as well be left out."""
    x = np.linspace(-4, 9, 101)
    for build in (L0, lambda *a, **k: FractionalL0(*a, alpha=0.02, **k), lambda *a, **k: Lp(*a, p=0.5, **k)):
        with_zero, without = build("1:4", 0.1, weights=[1, 0, 2, 0]), build("1,3", 0.1, weights=[1, 2])
        assert_array_equal(with_zero.prox(x), without.prox(x))
        assert_allclose(with_zero.value(x), without.value(x), rtol=1e-15)


# ---------------------------------------------------------------- the majorised step of FractionalL0
weak_fractional = st.tuples(arguments(), st.floats(-3, 3)).map(lambda t: FractionalL0(**t[0], alpha=10.0 ** t[1]))


@given(weak_fractional, numbers, numbers, steps)
def test_majorised_is_its_formula(penalty, x, anchor, step):
    """(x + 2·step·ξ Σ w_k b_k² a_k)/(1 + 2·step·ξ Σ w_k b_k²) with b_k = √α/((anchor − a_k)² + α)."""
    b = [math.sqrt(penalty.alpha) / ((anchor - a) ** 2 + penalty.alpha) for a in penalty.alphabet]
    pulls = [2 * step * penalty.xi * w * bk**2 for w, bk in zip(penalty.weights, b, strict=True)]
    expected = (x + sum(q * a for q, a in zip(pulls, penalty.alphabet, strict=True))) / (1 + sum(pulls))
    assert_allclose(penalty.majorised(x, anchor, step), expected, rtol=1e-12, atol=1e-12 * scale(penalty))


@given(weak_fractional, numbers, st.lists(numbers, min_size=1, max_size=20))
def test_the_majoriser_touches_at_the_anchor_and_lies_above(penalty, anchor, points):
    """ξ Σ w_k [t_k + b_k²((u − a_k)² − (anchor − a_k)²)] is the penalty at the anchor and above it elsewhere."""
    u = np.array([anchor, *points, *penalty.alphabet])
    above = np.zeros(u.shape)
    for a, w in zip(penalty.alphabet, penalty.weights, strict=True):
        d2 = (anchor - a) ** 2
        above += w * (d2 / (d2 + penalty.alpha) + penalty.alpha / (d2 + penalty.alpha) ** 2 * ((u - a) ** 2 - d2))
    above *= penalty.xi
    value = penalty.value(u)
    assert_allclose(value[0], above[0], rtol=1e-12, atol=1e-12)
    assert (value <= above * (1 + 1e-11) + 1e-11).all()


@given(weak_fractional, numbers, numbers, steps)
def test_majorised_step_never_costs_more_than_the_anchor(penalty, x, anchor, step):
    """step·value(u) + ½ (u − x)² does not rise from u = anchor to the majorised step, nor below that of the prox."""
    u = penalty.majorised(x, anchor, step)
    after, before = whole(penalty, u, x, step), whole(penalty, anchor, x, step)
    assert after <= before * (1 + 1e-12) + 1e-12


def test_repeated_majorised_steps_end_at_a_stationary_point():
    """They descend to a u with u − x + step·r'(u) = 0, which the step leaves alone, as it does the prox."""
    penalty = FractionalL0([-3.0, 0.25, 0.5, 7.0], xi=0.8, alpha=0.1, weights=[1.5, 0.0, 0.7, 2.0])
    x = np.linspace(-5, 9, 57)
    for step in STEPS:
        u, costs = x.copy(), [whole(penalty, x, x, step)]
        for _ in range(3000):
            u = penalty.majorised(x, u, step)
            costs.append(whole(penalty, u, x, step))
        assert (np.diff(costs, axis=0) <= 1e-13 * (1 + costs[0])).all()
        slope = [a - b + step * derivative(penalty, a) for a, b in zip(u, x, strict=True)]
        assert_allclose(slope, 0, atol=1e-8)
        assert_allclose(penalty.majorised(x, u, step), u, atol=1e-9)
        best = penalty.prox(x, step)
        assert_allclose(penalty.majorised(x, best, step), best, atol=1e-8)
        assert (penalty.envelope(x, step) <= costs[-1] + 1e-12).all()


def test_majorised_takes_any_shape_and_changes_nothing():
    """Anchors are broadcast to x, blocks do not show, x and anchor stay, NaN stays NaN, a bad step is refused."""
    penalty = FractionalL0("1:5", 0.3, 0.05)
    x, anchor = np.random.default_rng(0).normal(3, 2, (2, 50, 30))
    before = x.copy(), anchor.copy()
    whole_array = penalty.majorised(x, anchor)
    assert_array_equal([x, anchor], before)
    assert whole_array[31, 7] == penalty.majorised(x[31, 7], anchor[31, 7])
    assert_array_equal(penalty.majorised(x.T, anchor.T), whole_array.T)
    assert_array_equal(penalty.majorised(x, 2.0), penalty.majorised(x, np.full(x.shape, 2.0)))
    assert penalty.majorised(2, 3).shape == ()
    assert np.isnan(penalty.majorised([np.nan, 1.0], [1.0, np.nan])).all()
    with pytest.raises(ValueError, match="step must be a finite number above 0, got 0"):
        penalty.majorised(x, anchor, 0.0)


# ---------------------------------------------------------------- copies, names and errors
@pytest.mark.slow
@pytest.mark.parametrize("copied", [lambda p: pickle.loads(pickle.dumps(p)), copy.copy, copy.deepcopy])  # noqa: S301
def test_copies_have_the_same_prox(nonconvex, copied):
    """A pickled or copied penalty, tables or not, gives the same bits and the same representation."""
    x = np.linspace(-4, 9, 301)
    expected = nonconvex.prox(x), nonconvex.value(x), nonconvex.envelope(x)
    other = copied(nonconvex)
    assert repr(other) == repr(nonconvex)
    assert_array_equal([other.prox(x), other.value(x), other.envelope(x)], expected)


def test_with_alpha_changes_alpha_only():
    """The same alphabet, ξ and weights at another α; the penalty itself stays as it was."""
    penalty = FractionalL0("1:3", 0.5, 0.1, weights=[1, 0, 2])
    x = np.linspace(-1, 5, 50)
    before = penalty.prox(x)
    assert_array_equal(penalty.with_alpha(3.0).prox(x), FractionalL0("1:3", 0.5, 3.0, weights=[1, 0, 2]).prox(x))
    assert (
        repr(penalty.with_alpha(3.0)) == "FractionalL0(Alphabet([1, 2, 3]), xi=0.5, alpha=3, weights=[1.0, 0.0, 2.0])"
    )
    assert_array_equal(penalty.prox(x), before)


def test_registered_exact_and_not_convex(nonconvex):
    """Each can be found by its name, says that it is not convex, and that its prox is exact."""
    assert DISCRETE[nonconvex.name] is type(nonconvex)
    assert not nonconvex.convex
    assert nonconvex.exact


def test_repr_says_what_was_asked_for():
    """The representation shows alphabet, ξ, α or p, and weights where they differ from 1."""
    assert repr(L0("1:3", 0.5)) == "L0(Alphabet([1, 2, 3]), xi=0.5)"
    assert repr(Lp("1:2", 0.5, p=0.3, weights=[1, 2])) == "Lp(Alphabet([1, 2]), xi=0.5, p=0.3, weights=[1.0, 2.0])"


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_alpha_is_refused(bad):
    """α must be finite and above 0, in the constructor and in `with_alpha`."""
    message = re.escape(f"alpha must be a finite number above 0, got {bad}")
    with pytest.raises(ValueError, match=message):
        FractionalL0("1:5", 0.1, bad)
    with pytest.raises(ValueError, match=message):
        FractionalL0("1:5", 0.1, 1.0).with_alpha(bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.5, 2.0, np.nan, np.inf])
def test_bad_power_is_refused(bad):
    """p must lie strictly between 0 and 1; the message names what there is at the ends."""
    with pytest.raises(
        ValueError, match=re.escape(f"p must lie between 0 and 1 (both excluded; there are L0 and L1), got {bad}")
    ):
        Lp("1:5", 0.1, bad)


@pytest.mark.parametrize(
    "build",
    [
        lambda xi=0.1, weights=None: L0("1:5", xi, weights),
        lambda xi=0.1, weights=None: FractionalL0("1:5", xi, 0.1, weights),
        lambda xi=0.1, weights=None: Lp("1:5", xi, 0.5, weights),
    ],
)
def test_bad_strength_weights_and_steps_are_refused(build):
    """ξ and weights must be finite and at least 0, weights one for each symbol, steps finite and above 0."""
    for bad in (-0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match=re.escape(f"xi must be a finite number, at least 0, got {bad}")):
            build(xi=bad)
    for weights, message in [
        ([1, 2], "one number for each of the 5 symbols, got shape (2,)"),
        ([1, 1, -1, 1, 1], "finite and at least 0, got [1.0, 1.0, -1.0, 1.0, 1.0]"),
        ([1, 1, np.nan, 1, 1], "finite and at least 0"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            build(weights=weights)
    for bad in (0.0, -1.0, np.nan, np.inf):
        for apply in (build().prox, build().envelope):
            with pytest.raises(ValueError, match=re.escape(f"step must be a finite number above 0, got {bad}")):
                apply(1.0, bad)
