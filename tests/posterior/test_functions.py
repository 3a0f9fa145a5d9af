"""Functions without a branch: SciPy's values out to where float32 ends; truncated normals to 40 deviations."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr, ndtr, ndtri

from snapimpute.base.random import philox
from snapimpute.posterior import _functions as functions
from snapimpute.posterior._intervals import LATENT, between_thresholds, fill_normal, fill_uniform, inside


@numba.njit
def each_log(x, out):
    for i in range(x.size):
        out[i] = functions.log(x[i])


@numba.njit
def each_exp2(x, out):
    for i in range(x.size):
        out[i] = functions.exp2(x[i])


@numba.njit
def each_tail(x, out):
    for i in range(x.size):
        out[i] = functions.tail(x[i])


@numba.njit
def each_quantile(x, out):
    for i in range(x.size):
        out[i] = functions.quantile(x[i])


@numba.njit
def each_between(a, b, out):
    for i in range(a.size):
        out[i] = functions.between(functions.signed_tail(a[i]), functions.signed_tail(b[i]))


@numba.njit
def each_inside(a, b, u, out):
    for i in range(u.size):
        out[i] = inside(a, b, u[i])


def applied(each, *given: np.ndarray) -> np.ndarray:
    out = np.empty(given[0].size, np.float32)
    each(*(one.astype(np.float32) for one in given), out)
    return out.astype(np.float64)


def test_powers_and_logarithms():
    """2^x over all normal numbers, and log back, to seven digits."""
    x = np.linspace(-126, 126, 5001).astype(np.float32).astype(float)
    np.testing.assert_allclose(applied(each_exp2, x), 2.0**x, rtol=3e-7)
    y = np.geomspace(1e-37, 1e37, 5001).astype(np.float32).astype(float)
    np.testing.assert_allclose(applied(each_log, y), np.log(y), rtol=3e-7, atol=3e-7)


def test_tails_to_twelve_deviations():
    """The upper tail of a normal number is right to five digits, however small it is."""
    x = np.linspace(0, 12.5, 5001).astype(np.float32).astype(float)
    np.testing.assert_allclose(applied(each_tail, x), ndtr(-x), rtol=1e-5)


def test_quantiles_of_every_size():
    """The quantile of a tail is right to 2e-6 down to 1e-36, and is never negative."""
    p = np.concatenate([np.geomspace(1e-36, 0.5, 5001), [0.5]]).astype(np.float32).astype(float)
    found = applied(each_quantile, p)
    np.testing.assert_allclose(found, -ndtri(p), atol=2e-6)
    assert found.min() >= 0


def test_intervals_on_both_sides():
    """The probability of an interval keeps its digits in both tails, and never falls below the least."""
    rng = np.random.default_rng(0)
    a = rng.uniform(-9, 9, 5000).astype(np.float32).astype(float)
    b = (a + rng.uniform(0.05, 4, a.size)).astype(np.float32).astype(float)
    upper = np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))
    np.testing.assert_allclose(applied(each_between, a, b), upper, rtol=3e-5)
    assert applied(each_between, np.full(1, 30.0), np.full(1, 31.0)) == functions.LEAST


@pytest.mark.parametrize(
    ("a", "b"),
    [(-1.0, 0.5), (2.0, 2.2), (-30.0, -2.0), (5.0, 1e9), (11.0, 40.0), (20.0, 20.01), (-40.5, -40.0), (40.0, 1e9)],
)
def test_truncated_normals(a, b):
    """Numbers between two bounds have the distribution they should, to 40 deviations."""
    u = np.empty(20_000, np.float32)
    fill_uniform(0, np.uint32(3), np.uint32(5), u)
    out = np.empty_like(u)
    each_inside(np.float32(a), np.float32(b), u, out)
    assert out.min() >= np.float32(a)
    assert out.max() <= np.float32(b)
    low, high = (-b, -a) if a > 0 else (a, b)
    x = np.sort((-out if a > 0 else out).astype(float))
    first, last = log_ndtr(low), log_ndtr(high)
    expected = (np.exp(log_ndtr(x) - last) - np.exp(first - last)) / (1 - np.exp(first - last))
    assert stats.kstest(expected, "uniform").statistic < 0.02


@pytest.mark.parametrize("farthest", [3.0, 30.0])
def test_numbers_of_a_block_are_those_of_single_cells(farthest):
    """All cells of a block at once get the numbers that each gets alone, with and without cells far out."""
    rng, size, count = np.random.default_rng(0), np.float32(2), 777
    low = rng.uniform(-farthest, farthest, count).astype(np.float32)
    high = low + rng.uniform(0.1, 3, count).astype(np.float32)
    u, z, eta = np.empty(count, np.float32), np.empty(count, np.float32), np.full(count, 0.25, np.float32)
    fill_uniform(5, LATENT, np.uint32(9), u)
    expected = [
        inside(size * (a - e), size * (b - e), v) / size + e for a, b, e, v in zip(low, high, eta, u, strict=True)
    ]
    between_thresholds(5, np.uint32(9), low, high, np.full(count, size), eta, z)
    np.testing.assert_allclose(z, expected, atol=1e-5)


def test_random_bits_are_those_of_philox():
    """Philox-2x32 with ten rounds, by the known answers that its authors publish."""
    ones = np.uint64(0xFFFFFFFF)
    assert philox(np.uint64(0), np.uint64(0), np.uint64(0)) == (0xFF1DAE59, 0x6CD10DF2)
    assert philox(ones, ones, ones) == (0x2C3F628B, 0xAB4FD7AD)


@pytest.mark.parametrize(("fill", "name"), [(fill_uniform, "uniform"), (fill_normal, "norm")])
@pytest.mark.parametrize("count", [50_000, 50_001])
def test_random_numbers_have_their_distribution(fill, name, count):
    """Streams of two keys have the distribution, and nothing to do with each other, nor halves of one."""
    streams = [np.empty(count, np.float32) for _ in range(2)]
    for key, stream in enumerate(streams):
        fill(0, np.uint32(3), np.uint32(key), stream)
        assert stats.kstest(stream.astype(float), name).pvalue > 1e-3
    assert abs(np.corrcoef(*streams)[0, 1]) < 0.02
    assert abs(np.corrcoef(streams[0][: count // 2], streams[0][-(count // 2) :])[0, 1]) < 0.03
