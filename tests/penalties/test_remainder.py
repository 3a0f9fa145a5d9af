"""What a line leaves of a prox: both together are the prox, and on an even staircase the published formulas hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute import L1, Alphabet, Ridge
from snapimpute.penalties import CellMap, CellPenalty, Line

pytestmark = pytest.mark.slow

STEPS = [0.3, 1.0, 4.0]
EPS32 = float(np.finfo(np.float32).eps)


# ---------------------------------------------------------------- tools
def symbols_of(penalty: CellPenalty) -> np.ndarray:
    return np.array([penalty.center]) if isinstance(penalty, Ridge) else penalty.alphabet.symbols


def reach(penalty: CellPenalty, step: float) -> float:
    """By how much a prox of this step may move a value, about."""
    weights = getattr(penalty, "weights", np.ones(symbols_of(penalty).size))
    return step * penalty.xi * float(weights.sum())


def points(penalty: CellPenalty, step: float) -> np.ndarray:
    """On, between, beside and far from the symbols, where the prox bends, and much farther out than any data."""
    a = symbols_of(penalty)
    far = reach(penalty, step)
    rng = np.random.default_rng(0)
    inside = rng.uniform(a[0] - far - 1, a[-1] + far + 1, 1500)
    bends = (a[:, None] + np.linspace(-far, far, 41)).ravel()
    outside = np.concatenate([a[0] - 10.0 ** np.arange(5), a[-1] + 10.0 ** np.arange(5)])
    return np.concatenate([a, inside, bends, outside, [0.0]])


def size_of(penalty: CellPenalty, step: float, y: np.ndarray) -> np.ndarray:
    """The size of the numbers that a prox handles at y, for one rounding error."""
    return np.abs(symbols_of(penalty)).max() + np.abs(y) + reach(penalty, step)


def applied(cell_map: CellMap, y: np.ndarray) -> np.ndarray:
    out = y.copy()
    cell_map(out)
    return out


def rest(penalty: CellPenalty, step: float, y: np.ndarray) -> np.ndarray:
    """The remainder as it is compiled; of the ridge control, which has none, the prox."""
    return applied(penalty.compiled_remainder(step) or penalty.compiled_prox(step), y)


def difference(penalty: CellPenalty, step: float, y: np.ndarray) -> np.ndarray:
    """The remainder by its definition."""
    slope, shift = penalty.line(step)
    return penalty.prox(y, step) - slope * y - shift


def check(penalty: CellPenalty, step: float, y: np.ndarray) -> None:
    error = np.abs(rest(penalty, step, y) - difference(penalty, step, y))
    wrong = error > 1e-13 * size_of(penalty, step, y)
    assert not wrong.any(), (penalty, step, y[wrong][0], error[wrong][0])


# ---------------------------------------------------------------- line + remainder = prox
@pytest.mark.parametrize("step", STEPS)
def test_line_and_remainder_are_the_prox(discrete, step):
    """For each convex penalty the remainder is the prox less the line, inside the alphabet and far outside."""
    if isinstance(discrete, Ridge):
        y = points(discrete, step)
        assert discrete.compiled_remainder(step) is None
        assert_allclose(difference(discrete, step, y), 0, atol=1e-13 * np.abs(y).max())
    else:
        check(discrete, step, points(discrete, step))


@pytest.mark.parametrize("step", STEPS)
def test_line_and_remainder_are_the_prox_that_jumps(nonconvex, step):
    """The same for penalties that are not convex; a cell jumps in both or in neither."""
    check(nonconvex, step, points(nonconvex, step))


@st.composite
def even_l1(draw: st.DrawFn) -> L1:
    """1 to 20 symbols at one distance, one weight for all, seen after an offset was subtracted or not."""
    gap = draw(st.sampled_from([0.1, 0.5, 2 / 3, 1.0, 7.0]))
    first = draw(st.sampled_from([-3.0, 0.0, 0.5, 1.0, 40.0]))
    count = draw(st.integers(1, 20))
    alphabet = Alphabet(first + gap * np.arange(count)).shifted(draw(st.one_of(st.just(0.0), st.floats(-5, 5))))
    weight = draw(st.sampled_from([1.0, 0.37, 2.5]))
    return L1(alphabet, draw(st.sampled_from([0.0, 1e-6, 0.003, 0.05, 0.4, 3.0])), np.full(count, weight))


@st.composite
def uneven_l1(draw: st.DrawFn) -> L1:
    """Any alphabet, and weights, zeros among them, or none."""
    symbols = draw(st.lists(st.integers(-300, 300), min_size=1, max_size=20, unique=True).map(sorted))
    weights = st.lists(st.sampled_from([0.0, 0.2, 1.0, 2.7]), min_size=len(symbols), max_size=len(symbols))
    alphabet = Alphabet(np.array(symbols) / 7).shifted(draw(st.sampled_from([0.0, 3.527, -40.1])))
    return L1(alphabet, draw(st.sampled_from([0.0, 0.003, 0.05, 0.4, 3.0])), draw(st.one_of(st.none(), weights)))


steps = st.one_of(st.sampled_from(STEPS), st.floats(1e-3, 20))
far_points = st.lists(st.floats(-1e6, 1e6), max_size=10)


@given(even_l1(), steps, far_points)
@settings(max_examples=100)
def test_even_staircase(penalty, step, more):
    """For any evenly spaced alphabet the few operations are the prox less the line."""
    check(penalty, step, np.concatenate([points(penalty, step), more]))


@given(uneven_l1(), steps, far_points)
@settings(max_examples=60)
def test_uneven_staircase(penalty, step, more):
    """For any other alphabet, and any weights, the pass over the symbols is the prox less the line."""
    check(penalty, step, np.concatenate([points(penalty, step), more]))


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 2500])
def test_any_number_of_cells(discrete, size):
    """What a cell becomes depends on the cell alone, not on how many there are: kernels work in blocks."""
    y = np.random.default_rng(1).uniform(-10, 10, size)
    whole = rest(discrete, 1.0, y)
    assert whole.shape == y.shape
    pieces = [rest(discrete, 1.0, piece.copy()) for piece in np.array_split(y, 7) if piece.size]
    assert_array_equal(whole, np.concatenate(pieces) if pieces else whole)


# ---------------------------------------------------------------- the published facts
@given(even_l1().filter(lambda p: len(p.alphabet) > 1 and p.xi > 0), st.sampled_from(STEPS))
@settings(max_examples=60)
def test_published_line_of_even_spacing(penalty, step):
    """1 − slope = 2ξ/(d + 2ξ) and the line leaves the middle of the alphabet where it is (method.md §3)."""
    a, d = penalty.alphabet.symbols, penalty.alphabet.spacing
    xi = step * penalty.xi * penalty.weights[0]
    c, centre = 2 * xi / (d + 2 * xi), 0.5 * (a[0] + a[-1])
    line = penalty.line(step)
    assert_allclose(1 - line.slope, c, rtol=1e-12, atol=1e-15)
    assert_allclose(line.slope * centre + line.shift, centre, rtol=1e-12, atol=1e-13)
    assert_allclose(line.shift, c * centre, rtol=1e-11, atol=1e-14)


@given(even_l1().filter(lambda p: len(p.alphabet) > 1 and p.xi > 0), st.sampled_from(STEPS))
@settings(max_examples=60)
def test_published_remainder_of_even_spacing(penalty, step):
    """|e| ≤ ξd/(d + 2ξ), reached, and e has the period d + 2ξ from a₁ − ξK to a_K + ξK; outside its slope is c."""
    a, d, count = penalty.alphabet.symbols, penalty.alphabet.spacing, len(penalty.alphabet)
    xi = step * penalty.xi * penalty.weights[0]
    low, high, period = a[0] - xi * count, a[-1] + xi * count, d + 2 * xi
    rounding = 1e-12 * (np.abs(a).max() + high - low)
    y = np.linspace(low, high, 4001)
    e = rest(penalty, step, y)
    bound = xi * d / period
    assert np.abs(e).max() <= bound + rounding
    at_edges = rest(penalty, step, np.array([low, low + 2 * xi]))  # of a flat spot
    assert_allclose(at_edges, [bound, -bound], rtol=1e-9, atol=rounding)
    inner = y[y + period <= high]
    assert_allclose(rest(penalty, step, inner + period), rest(penalty, step, inner), atol=rounding)
    below, above = (rest(penalty, step, np.array([end, end + sign])) for end, sign in ((low, -1), (high, 1)))
    assert_allclose([below[0] - below[1], above[1] - above[0]], 2 * xi / period, rtol=1e-9, atol=rounding)


def test_remainder_in_numbers():
    """A = 1..5, ξ = .05: the line is (y + .3)/1.1, and e = ±.05/1.1 at the edges of a flat spot, 0 in its middle."""
    penalty = L1("1:5", xi=0.05)
    assert_allclose(penalty.line(1.0), (1 / 1.1, 0.3 / 1.1), rtol=1e-14)
    e = rest(penalty, 1.0, np.array([3.0, 2.95, 3.05, 2.5, 0.75, 5.25, 9.0]))
    # prox: 3, 3, 3, 2.55, 1, 5, 8.75
    expected = np.array([3, 3, 3, 2.55, 1, 5, 8.75]) - (np.array([3.0, 2.95, 3.05, 2.5, 0.75, 5.25, 9.0]) + 0.3) / 1.1
    assert_allclose(e, expected, atol=1e-14)
    assert_allclose(e[:3], [0, 0.05 / 1.1, -0.05 / 1.1], atol=1e-14)


# ---------------------------------------------------------------- fitted lines
@pytest.mark.parametrize("step", STEPS)
def test_other_lines_are_fitted(nonconvex, step):
    """No other line leaves a smaller mean square, from half a gap below the alphabet to half a gap above."""
    a = symbols_of(nonconvex)
    margin = 0.5 * np.diff(a).mean() if a.size > 1 else 1.0
    y = np.linspace(a[0] - margin, a[-1] + margin, 2001)
    e = rest(nonconvex, step, y)
    for other in (e + 1e-3, e - 1e-3, e + 1e-3 * (y - y.mean()), e - 1e-3 * (y - y.mean())):
        assert np.mean(e**2) < np.mean(other**2)


def test_fitted_line_of_uneven_symbols():
    """With weights or uneven gaps the line has the least mean square too; with even ones it need not be that."""
    for penalty in (L1([-3.0, 0.25, 0.5, 7.0], xi=0.3), L1("1:5", xi=0.8, weights=[0.3, 0, 2.5, 1, 1.2])):
        a = penalty.alphabet.symbols
        margin = 0.5 * np.diff(a).mean()
        y = np.linspace(a[0] - margin, a[-1] + margin, 2001)
        slope, shift = np.polyfit(y, penalty.prox(y), 1)
        assert_allclose(penalty.line(1.0), (slope, shift), rtol=1e-9)


# ---------------------------------------------------------------- NaN, precision
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", STEPS)
def test_nan_stays_nan(discrete, dtype, step):
    """A cell that is not a number stays so, and no other becomes it: a diverged run must not go unnoticed."""
    _check_nan(discrete, dtype, step)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_stays_nan_where_the_prox_jumps(nonconvex, dtype):
    """The same for penalties that are not convex."""
    _check_nan(nonconvex, dtype, 1.0)


@given(even_l1(), steps, st.integers(0, 20))
@settings(max_examples=30)
def test_nan_stays_nan_on_an_even_staircase(penalty, step, where):
    """The same for any even staircase, wherever it stands in the vector unit."""
    y = np.linspace(-3, 9, 21)
    y[where] = np.nan
    assert_array_equal(np.isnan(rest(penalty, step, y)), np.isnan(y))


def _check_nan(penalty: CellPenalty, dtype: type, step: float) -> None:
    y = points(penalty, step).astype(dtype)
    y[::3] = np.nan
    assert_array_equal(np.isnan(rest(penalty, step, y)), np.isnan(y))


def smooth(penalty: CellPenalty, step: float, y: np.ndarray, near: float) -> np.ndarray:
    """Which points are farther than ``near`` from a jump of the prox, or from a place where it is all but one."""
    rise = penalty.prox(y + near, step) - penalty.prox(y - near, step)
    return rise <= 8 * near


def check_single(penalty: CellPenalty, step: float) -> None:
    y = points(penalty, step)
    y = y[np.abs(y) <= 1e3].astype(np.float32)
    got = rest(penalty, step, y)
    assert got.dtype == np.float32
    exact = y.astype(np.float64)
    largest = size_of(penalty, step, exact)
    calm = smooth(penalty, step, exact, 1e-4 * (1 + float(np.abs(symbols_of(penalty)).max())))
    assert calm.mean() > 0.5
    error = np.abs(got - rest(penalty, step, exact))
    assert (error <= 16 * EPS32 * largest)[calm].all()


@pytest.mark.parametrize("step", STEPS)
def test_single_precision(discrete, step):
    """float32 cells stay float32, and are within a few of its rounding errors of float64."""
    check_single(discrete, step)


@pytest.mark.parametrize("step", STEPS)
def test_single_precision_away_from_jumps(nonconvex, step):
    """The same where the prox does not jump near by."""
    check_single(nonconvex, step)


def test_split_saves_digits():
    """The remainder in float32 is nearer to the truth than the prox in float32: it is small (method.md §3)."""
    penalty = L1("1:5", xi=0.01)
    y = np.random.default_rng(0).uniform(0.5, 5.5, 20_000)
    single = y.astype(np.float32)
    direct = applied(penalty.compiled_prox(1.0), single) - penalty.prox(y)
    split = rest(penalty, 1.0, single) - rest(penalty, 1.0, y)
    assert np.sqrt(np.mean(direct**2)) > 0.5 * EPS32
    assert np.sqrt(np.mean(split**2)) < 0.4 * np.sqrt(np.mean(direct**2))


# ---------------------------------------------------------------- without an alphabet
class Stretch(CellPenalty):
    """A penalty that says nothing of a line."""

    name = "stretch"
    convex = True
    xi = 1.0

    @property
    def least(self) -> float:
        return 0.0

    def compiled_value(self, step: float) -> CellMap:
        return CellMap.of(lambda x: x * x * (0.5 * step))

    def compiled_prox(self, step: float) -> CellMap:
        return CellMap.of(lambda x: x / (1 + step))


def test_default_line_is_zero():
    """A penalty without an alphabet has the line (0, 0): the remainder is the whole prox."""
    penalty = Stretch()
    assert penalty.line(0.7) == Line(0.0, 0.0)
    y = np.linspace(-4, 4, 31)
    assert_array_equal(rest(penalty, 0.7, y), penalty.prox(y, 0.7))


class Slanted(Stretch):
    """A penalty that names a line only."""

    def line(self, step: float) -> Line:
        return Line(0.5, 0.25)


def test_a_line_alone_is_enough():
    """A penalty that supplies a line gets its remainder from the prox, in the precision of the cells."""
    penalty = Slanted()
    y = np.linspace(-4, 4, 31)
    assert_allclose(rest(penalty, 0.7, y), y / 1.7 - 0.5 * y - 0.25, atol=1e-15)
    assert rest(penalty, 0.7, y.astype(np.float32)).dtype == np.float32


def test_ridge_is_its_line():
    """Of the ridge control nothing remains, whatever the step: its prox is a line."""
    for step in STEPS:
        penalty = Ridge(center=2.0, xi=0.3)
        assert penalty.compiled_remainder(step) is None
        y = np.linspace(-10, 10, 41)
        slope, shift = penalty.line(step)
        assert_allclose(penalty.prox(y, step), slope * y + shift, atol=1e-14)
