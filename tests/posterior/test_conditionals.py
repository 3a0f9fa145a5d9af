"""Every conditional of both samplers against brute-force integration of the joint density, on tiny tables.

A draw is compared with the density that the model gives to the same number, all
others as they are: integrated on a grid, it turns draws into uniform numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import ndtr, psi

from snapimpute.posterior._column_passes import draw_missing
from snapimpute.posterior._low_rank import Chain
from snapimpute.posterior._noise import draw_shape
from snapimpute.posterior._units import Side
from tests.posterior.exact import (
    NOISE_SHAPE,
    ROW_SHAPES,
    THRESHOLD_RATE,
    UNIT_RATE,
    CovarianceWorld,
    LowRankWorld,
    precision,
    predicted,
    use_rates,
)

ZOOMS = 4
"""Grids that follow one another, each on the part where the one before saw the density."""

LEAST = 1e-5
"""Probability of a false alarm of one comparison."""


def window(heights: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    """The part of a grid where a density is more than e⁻³⁰ of its largest value."""
    inside = np.flatnonzero(heights > heights.max() - 30)
    return x[max(inside[0] - 1, 0)], x[min(inside[-1] + 1, x.size - 1)]


def share(density: Callable, value: float, low: float, high: float) -> float:
    """The integral of exp(density) up to a value, as a share of the whole from low to high."""
    for _ in range(ZOOMS):
        x = np.linspace(low, high, 401)
        heights = density(x)
        low, high = window(heights, x)
    weights = np.exp(heights - heights.max())
    sums = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2)])
    return float(np.interp(value, x, sums / sums[-1]))


def share_of_log(density: Callable, value: float) -> float:
    """`share` of a positive number, on a grid of its logarithm."""
    return share(lambda u: density(np.exp(u)) + u, np.log(value), -25, 15)


def shares_of_pair(density: Callable, pair: np.ndarray) -> tuple[float, float]:
    """The share of the first of two numbers with the second integrated out, and of the second given the first."""
    first, second = (-60.0, 60.0), (-60.0, 60.0)
    for _ in range(ZOOMS):
        x, y = np.linspace(*first, 161), np.linspace(*second, 161)
        joint = density(x[:, None], y[None, :])
        first, second = window(joint.max(axis=1), x), window(joint.max(axis=0), y)
    alone = np.log(np.maximum(np.exp(joint - joint.max()).sum(axis=1), 1e-300))
    own = share(lambda u: np.interp(u, x, alone), pair[0], x[0], x[-1])
    return own, share(lambda u: density(pair[0], u), pair[1], -60, 60)


def assert_uniform(found: dict[str, list[float]]) -> None:
    for name, values in found.items():
        assert stats.kstest(values, "uniform").pvalue > LEAST, name
        far = np.abs(2 * np.array(values) - 1)  # uniform, too, and not where the draws are too wide or too narrow
        assert stats.kstest(far, "uniform").pvalue > LEAST, name


@pytest.fixture(autouse=True)
def rates(monkeypatch):
    use_rates(monkeypatch)


def prior_shares(side: Side, features: np.ndarray, old: tuple[np.ndarray, ...]) -> dict[str, float]:
    """Shares of what `Side.draw_prior` drew for the factor, in the order of the draws.

    Slopes are those of the features as they were given: two in a group, then one of its own.
    """
    x, known = side.numbers[:, 1].astype(float), np.column_stack([np.ones(len(features)), features]).astype(float)
    center, slopes, slope_precision = old[0][1], old[1][:, 1], old[2][:, 1]
    new, units, size = side.turn @ side.slopes[:, 1], len(x), side.precision[1]
    products, gram = known.T @ x, known.T @ known

    def unexplained(*by: np.ndarray) -> np.ndarray:
        """Sum of squares of x less its mean, which is ``by`` times ones and features."""
        total = x @ x - 2 * sum(one * product for one, product in zip(by, products, strict=True))
        for one, row in zip(by, gram, strict=True):
            total = total + one * sum(other * entry for other, entry in zip(by, row, strict=True))
        return total

    off = float(unexplained(center, *slopes))
    found = {"l": share_of_log(lambda one: units / 2 * np.log(one) - one * off / 2 - UNIT_RATE * one, size)}
    found["m"] = share(lambda m: -size / 2 * unexplained(m, *slopes) - m**2 / 2, side.center[1], -9, 9)

    def of_slopes(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
        ridge = slope_precision[0] * (first**2 + second**2) + slope_precision[1] * third**2
        return -size / 2 * unexplained(side.center[1], first, second, third) - ridge / 2

    pair = shares_of_pair(lambda first, second: of_slopes(first, second, slopes[2]), new[:2])
    found["first B"], found["second B"] = pair
    found["third B"] = share(lambda b: of_slopes(new[0], new[1], b), new[2], -90, 90)
    for number, group in enumerate((new[:2], new[2:])):
        power, squares, value = len(group) / 2, float(group @ group), side.slope_precision[number, 1]
        found[f"β of group {number}"] = share_of_log(
            lambda one, a=power, q=squares: a * np.log(one) - one * q / 2 - UNIT_RATE * one, value
        )
    return found


def unit_density(target: np.ndarray, across: np.ndarray, weights: np.ndarray, ridge: np.ndarray, mean: np.ndarray):
    """Log-density of a unit's level and factor, given the latent values of its cells less the levels across."""

    def density(level, factor):
        prior = -0.5 * (ridge[0] * (level - mean[0]) ** 2 + ridge[1] * (factor - mean[1]) ** 2)
        cells = zip(target, across, weights, strict=True)
        return prior - 0.5 * sum(w * (t - level - factor * q) ** 2 for t, q, w in cells)

    return density


def noise_share(rest: float, count: int, value: float) -> float:
    """Share of a noise level, given what is left of its cells."""
    power = (NOISE_SHAPE + count) / 2 - 1
    return share_of_log(lambda t: power * np.log(t) - t * (NOISE_SHAPE + rest) / 2, value)


def copies(side: Side) -> tuple[np.ndarray, ...]:
    return tuple(one.astype(float) for one in (side.numbers, side.noise, side.precision, side.mean))


def latent(chain: Chain) -> np.ndarray:
    """Latent values as a table."""
    whose = np.repeat(np.arange(chain.cells.shape[0]), np.diff(chain.cells.start))
    z = np.full(chain.cells.shape, np.nan)
    z[whose, chain.cells.item] = chain.z
    return z


def spread_noise(chain: Chain, rng: np.random.Generator) -> None:
    """Set noise levels far apart, so that one in the wrong place shows."""
    for side in (chain.raters, chain.items):
        side.noise = np.exp(rng.normal(0, 1.5, side.noise.size)).astype(np.float32)


def drawn_shares(chain: Chain, rater: int, key: int) -> dict[str, float]:
    """Shares of what the second half of a sweep draws of one rater and of item 1, given the latent values."""
    sides = chain.raters, chain.items
    (_, noise, ridge, mean), (y, other_noise, other_ridge, other_mean) = map(copies, sides)
    chain._predict()
    chain.relaxation = 0.0
    chain._draw_units(np.uint32(key))
    z = latent(chain)
    cells, found = np.flatnonzero(~np.isnan(z[rater])), {}
    new, weights = chain.raters.numbers[rater].astype(float), other_noise[cells]
    target, across = z[rater, cells] - y[cells, 0], y[cells, 1]
    density = unit_density(target, across, weights * noise[rater], ridge, mean[rater])
    found["level of a rater"], found["factor of a rater"] = shares_of_pair(density, new)
    rest = float(weights @ (target - new[0] - new[1] * across) ** 2)
    found["noise of a rater"] = noise_share(rest, cells.size, chain.raters.noise[rater])
    cells = np.flatnonzero(~np.isnan(z[:, 1]))
    weights, raters, new = (
        chain.raters.noise[cells].astype(float),
        chain.raters.numbers[cells].astype(float),
        chain.items.numbers[1].astype(float),
    )
    target = z[cells, 1] - raters[:, 0]
    density = unit_density(target, raters[:, 1], weights * other_noise[1], other_ridge, other_mean[1])
    found["level of an item"], found["factor of an item"] = shares_of_pair(density, new)
    rest = float(weights @ (target - new[0] - new[1] * raters[:, 1]) ** 2)
    found["noise of an item"] = noise_share(rest, cells.size, chain.items.noise[1])
    return found


@pytest.mark.parametrize("rater", [1, -1])
def test_units_and_their_noise_have_the_distribution_that_integration_gives(rater):
    """Levels, factors and noise of a rater and an item follow the joint density, with symbols and with numbers."""
    world, found = LowRankWorld(shape=(16, 16)), defaultdict(list)
    for repeat in range(200):
        rng = np.random.default_rng((abs(rater), repeat))
        chain = world.drawn(repeat, rng)
        spread_noise(chain, rng)
        for name, value in drawn_shares(chain, rater, repeat).items():
            found[name].append(value)
    assert_uniform(found)


def test_latent_values_have_the_distribution_that_integration_gives():
    """The latent value of every cell with a symbol follows its normal density between two thresholds."""
    world, found = LowRankWorld(), []
    for repeat in range(100):
        rng = np.random.default_rng(repeat)
        chain = world.drawn(repeat, rng)
        spread_noise(chain, rng)
        chain._predict()
        eta, size = predicted(chain), precision(chain)
        chain._draw_units(np.uint32(repeat))
        z, bounds = latent(chain), np.exp(chain.log_factors)[:, None] * chain.thresholds[:, None].astype(float)
        for i, j in np.argwhere(world.known & (world.levels[:, None] > 0)):
            symbol, far = (z[i, j] > bounds[i, j, 1:-1]).sum(), 12 / size[i, j]
            ends = np.clip(bounds[i, j, symbol : symbol + 2], eta[i, j] - far, eta[i, j] + far)
            if ends[1] > ends[0]:

                def density(v, mean=eta[i, j], root=size[i, j]):
                    return -((root * (v - mean)) ** 2) / 2

                found.append(share(density, z[i, j], *ends))
    assert_uniform({"latent values": found})


def test_priors_of_units_have_the_distribution_that_integration_gives():
    """Precisions, centres, slopes of correlated features and their precisions follow the joint density."""
    world, found = LowRankWorld(shape=(4, 3)), defaultdict(list)
    features = world.features_of(4, size=6.0)  # large, so that it counts how they correlate
    for repeat in range(1000):
        rng = np.random.default_rng(repeat)
        side = Side.start(4, 1, 8, features, rng)
        world.draw_side(side, rng, level=True)
        side.numbers *= 3  # a small precision: the priors of centres and slopes count
        old = side.center.copy(), side.turn @ side.slopes, side.slope_precision.copy()
        side.draw_prior(1, rng, held=False, level=True)
        for name, value in prior_shares(side, features.values, old).items():
            found[name].append(value)
    assert_uniform(found)


def test_common_thresholds_have_the_distribution_that_integration_gives():
    """Common thresholds and the spread about them follow the joint density of independent thresholds in order."""
    world, spread, found = LowRankWorld(), 2.0, defaultdict(list)  # a spread for which the prior of the centre counts
    for repeat in range(1500):
        rng = np.random.default_rng(repeat)
        chain = world.drawn(repeat, rng)
        chain.spread[0, 1:3] = spread
        own, first = chain.thresholds[:6, 1].astype(float), chain.first_center[0, 1]
        chain._draw_threshold_priors(rng)

        def density(center, own=own, first=first):
            off = ((own[:, None] - center) ** 2).sum(axis=0)
            return -((center - first) ** 2) / 2 - off / spread**2 / 2

        found["center"].append(share(density, chain.center[0, 1], -8, 8))
        off = float(((own - chain.center[0, 1]) ** 2).sum())
        size = chain.spread[0, 1] ** -2
        found["spread"].append(
            share_of_log(lambda one, off=off: 3 * np.log(one) - one * off / 2 - THRESHOLD_RATE * one, size)
        )
    assert_uniform(found)


def test_factors_on_thresholds_have_the_distribution_that_integration_gives():
    """Metropolis steps of an item's factor follow its density on a grid, with latent values integrated out."""
    world = LowRankWorld(numbers=0)
    chain = world.drawn(3, np.random.default_rng(3))
    chain.steps[:], chain.factor_steps[:], spread, found = 0.0, 0.5, 0.6, []
    spread_noise(chain, np.random.default_rng(0))
    chain._predict()
    eta, size, cells = predicted(chain)[:, 1], precision(chain)[:, 1], chain.cells
    known = slice(cells.item_start[1], cells.item_start[2])
    raters, symbols = cells.rater[known], cells.symbol[cells.position[known]]
    for number in range(4000):
        chain.number, chain.factor_spread = number, spread
        chain._move_own(np.uint32(number))
        found.append(chain.log_factors[1])
    x = np.linspace(-4, 4, 801)
    density = -((x / spread) ** 2) / 2
    for i, s in zip(raters, symbols, strict=True):
        low, high = (size[i] * (np.exp(x) * chain.thresholds[i, s + end].astype(float) - eta[i]) for end in (0, 1))
        p = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        density += np.log(np.maximum(p, 1e-300))
    weights = np.exp(density - density.max())
    mean = (weights @ x) / weights.sum()
    deviation = np.sqrt(weights @ (x - mean) ** 2 / weights.sum())
    assert abs(np.mean(found[100:]) - mean) < 0.2 * deviation
    assert_allclose(np.std(found[100:]), deviation, rtol=0.15)


def test_the_precision_of_two_columns_has_the_distribution_that_integration_gives():
    """Draws of Σ follow prior times likelihood on a grid of two variances and a correlation."""
    world = CovarianceWorld(rows=6, levels=(0, 0))
    chain = world.drawn(1, np.random.default_rng(1))
    z, weights, found = chain.z.astype(float), chain.weights.astype(float), []
    cross = (z * weights) @ z.T + (chain.strength + 1) * np.eye(2)
    rng = np.random.default_rng(0)
    for _ in range(2000):
        chain._draw_precision(rng)
        inverse = np.linalg.inv(chain.precision)
        found.append((np.log(chain.precision[0, 0]), inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])))
    u = np.linspace(-5, 4, 91)
    rho = np.linspace(-1, 1, 203)[1:-1]
    a, b, r = np.exp(u)[:, None, None], np.exp(u)[None, :, None], rho[None, None, :]
    # K = (a, −ρ√ab; −ρ√ab, b); its density is that of a Wishart distribution, da db d(−ρ√ab) = (ab)^{3/2} du dv dρ.
    off, log_size = -r * np.sqrt(a * b), np.log(a) + np.log(b) + np.log1p(-(r**2))
    power = (2 + 2 + chain.strength - 2 - 1 + chain.rows) / 2
    density = power * log_size - (cross[0, 0] * a + cross[1, 1] * b + 2 * cross[0, 1] * off) / 2 + 1.5 * np.log(a * b)
    shares = np.exp(density - density.max())
    for values, grid, axes in ((0, u, (1, 2)), (1, rho, (0, 1))):
        sums = np.cumsum(shares.sum(axis=axes))
        half = (sums - shares.sum(axis=axes) / 2) / sums[-1]
        assert stats.kstest(np.interp(np.array(found)[:, values], grid, half), "uniform").pvalue > LEAST


def test_the_shape_of_noise_levels_has_the_distribution_that_their_density_gives(monkeypatch):
    """ν of the rows is drawn as often as the gamma density of their noise levels says."""
    use_rates(monkeypatch)
    rng, noise = np.random.default_rng(0), np.array([0.4, 0.9, 1.1, 2.5])
    drawn = [draw_shape(noise, rng) for _ in range(3000)]
    densities = [stats.gamma(one / 2, scale=np.exp(-psi(one / 2))).pdf(noise).prod() for one in ROW_SHAPES]
    expected = 3000 * np.array(densities) / sum(densities)
    assert expected.min() > 100
    assert stats.chisquare([drawn.count(one) for one in ROW_SHAPES], expected).pvalue > LEAST


def test_weights_and_missing_cells_have_the_distribution_that_integration_gives():
    """The weight of a row, a missing and a known cell of the full covariance follow the joint density."""
    world, found = CovarianceWorld(), defaultdict(list)
    for repeat in range(2000):
        rng = np.random.default_rng(repeat)
        chain = world.drawn(repeat, rng)
        chain.relaxation = 0.0
        shape = chain.noise_shape
        rate, power = float(np.exp(psi(shape / 2))), (shape + 4) / 2 - 1
        chain._draw_weights(rng)
        z = chain.z[:, 1].astype(float)
        squares = float(z @ chain.precision @ z)
        weight = float(chain.weights[1])
        found["weight"].append(
            share_of_log(lambda w, q=squares, a=power, b=rate: a * np.log(w) - w * (q / 2 + b), weight)
        )
        chain.weights = np.exp(rng.normal(0, 1.5, chain.rows)).astype(np.float32)
        for row in (0, 1):  # row 0 lacks the cell of the first column
            chain._visit(0, chain.columns[0], chain._threshold_centers()[0], np.uint32(repeat), None, None)
            others, ends = chain.z[:, row].astype(float), [-30.0, 30.0]

            def density(v, row=row, others=others, chain=chain):
                one = np.repeat(others[:, None], v.size, axis=1)
                one[0] = v
                return -0.5 * float(chain.weights[row]) * np.einsum("ik,ij,jk->k", one, chain.precision, one)

            if row:
                symbol = (others[0] > chain.thresholds[0, 1:-1]).sum()
                ends = np.clip(chain.thresholds[0, symbol : symbol + 2], *ends).tolist()
            found[f"cell {row}"].append(share(density, others[0], *ends))
    assert_uniform(found)


def test_missing_cells_keep_their_distribution_when_they_are_relaxed():
    """From values of N(η, 1/size²) follow others of this distribution; the relaxation is their correlation."""
    rng, cells, relaxation = np.random.default_rng(0), 20_000, np.float32(-0.7)
    eta, size = rng.normal(size=cells).astype(np.float32), rng.uniform(0.5, 2, cells).astype(np.float32)
    old, new = (eta + rng.normal(size=cells) / size).astype(np.float32), np.empty(cells, np.float32)
    draw_missing(np.uint32(1), eta, size, relaxation, old, new)
    before, after = (size * (old - eta)).astype(float), (size * (new - eta)).astype(float)
    assert stats.kstest(after, "norm").pvalue > LEAST
    assert abs((before * after).mean() - relaxation) < 5 / np.sqrt(cells)


def test_thresholds_of_a_column_have_the_distribution_that_integration_gives():
    """Metropolis steps of a column's two thresholds follow their density on a grid, given the other columns."""
    chain = CovarianceWorld(rows=15).drawn(4, np.random.default_rng(4))
    column, center, found = chain.columns[0], chain._threshold_centers()[0].astype(float), []
    chain.weights = np.exp(np.random.default_rng(0).normal(0, 1.5, chain.rows)).astype(np.float32)
    row = chain.precision[0]
    eta = (-(row[1:, None] * chain.z[1:]).sum(axis=0) / row[0])[column.known]
    size = np.sqrt(row[0] * chain.weights)[column.known].astype(float)
    for number in range(8000):
        chain.number = 10 + number
        chain._visit(0, column, center.astype(np.float32), np.uint32(number), None, None)
        found.append(chain.thresholds[0, 1:3].astype(float))
    low, high = np.meshgrid(*2 * [np.linspace(-5, 5, 401)], indexing="ij")
    density = -((low - center[1]) ** 2 + (high - center[2]) ** 2) / 2
    for s, mean, root in zip(column.symbol, eta, size, strict=True):
        below, above = ndtr(root * (low - mean)), ndtr(root * (high - mean))
        p = (below, above - below, 1 - above)[s]
        density += np.log(np.maximum(p, 1e-300))
    weights = np.where(high > low, np.exp(density - density.max()), 0.0)
    weights /= weights.sum()
    for place, values in enumerate((low, high)):
        mean = (weights * values).sum()
        deviation = np.sqrt((weights * (values - mean) ** 2).sum())
        own = np.array(found)[500:, place]
        assert abs(own.mean() - mean) < 0.2 * deviation
        assert_allclose(own.std(), deviation, rtol=0.15)
