"""Sums and draws of units: normal equations and conditional draws against numpy."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from snapimpute.posterior._gram import WIDTHS, accumulator
from snapimpute.posterior._solve import LANES, solver


def equations(width: int, cells: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Factors of 40 units, and cells with the units they belong to, weights and targets."""
    factors = rng.normal(0, 0.5, (40, width)).astype(np.float32)
    which = rng.integers(0, 40, cells).astype(np.int32)
    return factors, which, rng.uniform(0.5, 2, cells).astype(np.float32), rng.normal(size=cells).astype(np.float32)


def summed(width: int, factors: np.ndarray, which: np.ndarray, w: np.ndarray, t: np.ndarray) -> np.ndarray:
    add = accumulator(width)

    @numba.njit
    def run(factors, which, w, t, out):
        add(factors, which, w, t, 0, which.size, out)

    out = np.full(width * width + width + 1, np.nan, np.float32)
    run(factors, which, w, t, out)
    return out


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("cells", [0, 1, 37])
def test_normal_equations(width, cells):
    """The sums are numpy's, with 1 in place of the first number of each unit."""
    factors, which, w, t = equations(width, cells, np.random.default_rng(width + cells))
    out = summed(width, factors, which, w, t)
    v = factors[which].astype(float)
    v[:, 0] = 1
    square = width * width
    found = np.tril(out[:square].reshape(width, width))
    np.testing.assert_allclose(found, np.tril((v * w[:, None]).T @ v), atol=2e-4)
    np.testing.assert_allclose(out[square : square + width], (v * w[:, None]).T @ t, atol=2e-4)
    assert out[-1] == pytest.approx(float(w @ t**2), rel=1e-5)


@pytest.mark.parametrize("width", [8, 32])
def test_units_are_drawn_from_their_conditional(width):
    """Over many streams, draws of a unit have the mean A⁻¹h and the covariance A⁻¹, and leave what numpy says."""
    rng = np.random.default_rng(0)
    factors, which, w, t = equations(width, 60, rng)
    sums = np.tile(summed(width, factors, which, w, t), (LANES, 1))
    ridge, mean = rng.uniform(1, 3, width).astype(np.float32), rng.normal(size=(LANES, width)).astype(np.float32)
    mean[:] = mean[0]
    scale = np.full(LANES, 1.5, np.float32)
    solve, drawn = solver(width), []
    numbers, rest = np.empty((LANES, width), np.float32), np.empty(LANES, np.float32)
    for key in range(400):
        solve(LANES, sums, ridge, mean, scale, np.uint32(key), np.uint32(4), 0, numbers, rest)
        drawn.append(numbers.copy())
    x = np.concatenate(drawn).astype(float)
    v = factors[which].astype(float)
    v[:, 0] = 1
    A = np.diag(ridge.astype(float)) + 1.5 * (v * w[:, None]).T @ v
    h = ridge * mean[0].astype(float) + 1.5 * (v * w[:, None]).T @ t
    spread = np.sqrt(np.diag(np.linalg.inv(A)))
    assert np.abs((x.mean(axis=0) - np.linalg.solve(A, h)) / spread).max() < 5 / np.sqrt(len(x))
    off = (np.cov(x.T) - np.linalg.inv(A)) / np.outer(spread, spread)
    assert np.abs(off).max() < 6 / np.sqrt(len(x))
    left = ((t - v @ numbers[0]) ** 2) @ w
    assert rest[0] == pytest.approx(left, rel=1e-4)


def test_fewer_units_than_lanes():
    """With fewer units than lanes the others are left alone, and the draws are the same."""
    rng = np.random.default_rng(1)
    factors, which, w, t = equations(8, 20, rng)
    sums = np.tile(summed(8, factors, which, w, t), (LANES, 1))
    given = np.ones(8, np.float32), np.zeros((LANES, 8), np.float32), np.ones(LANES, np.float32), np.uint32(3)
    found = []
    for count in (LANES, 5):
        numbers, rest = np.full((LANES, 8), np.nan, np.float32), np.empty(LANES, np.float32)
        solver(8)(count, sums, *given, np.uint32(4), 0, numbers, rest)
        found.append(numbers)
    np.testing.assert_array_equal(found[0][:5], found[1][:5])
    assert np.isnan(found[1][5:]).all()
