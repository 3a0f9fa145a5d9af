"""Sums and draws of units: normal equations and conditional draws against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from snapimpute.base.vectors import LANES
from snapimpute.posterior import _asked
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._gram import add_cells, padded, sums_length
from snapimpute.posterior._passes import predict, split
from snapimpute.posterior._solve import solve_space, solve_units


def equations(width: int, cells: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Factors of 40 units, and cells with the units they belong to, weights and targets."""
    factors = rng.normal(0, 0.5, (40, width)).astype(np.float32)
    which = rng.integers(0, 40, cells).astype(np.int32)
    return factors, which, rng.uniform(0.5, 2, cells).astype(np.float32), rng.normal(size=cells).astype(np.float32)


def summed(width: int, factors: np.ndarray, which: np.ndarray, w: np.ndarray, t: np.ndarray) -> np.ndarray:
    out = np.full(sums_length(width), np.nan, np.float32)
    add_cells(split(factors)[0], width, which, w, t, 0, which.size, out)
    return out


@pytest.mark.parametrize("width", [16, 32, 48])
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
    assert out[square + width] == pytest.approx(float(w @ t**2), rel=1e-5)


@pytest.mark.parametrize(("used", "relaxation"), [(8, 0.0), (16, 0.0), (31, 0.0), (8, -0.7), (31, -0.7)])
def test_units_are_drawn_from_their_conditional(used, relaxation):
    """Draws of a unit have the mean A⁻¹h and the covariance A⁻¹, and the relaxation correlates two in a row.

    They leave of their cells what numpy says.
    """
    rng, width = np.random.default_rng(0), padded(used)
    factors, which, w, t = equations(width, 60, rng)
    factors[:, used:] = 0
    sums = np.tile(summed(width, factors, which, w, t), (LANES, 1))
    ridge, mean = rng.uniform(1, 3, width).astype(np.float32), rng.normal(size=(LANES, width)).astype(np.float32)
    mean[:] = mean[0]
    drawn, space = [], solve_space(width)
    numbers, rest = np.zeros((LANES, width), np.float32), np.empty(LANES, np.float32)
    for key in range(400):
        stream = np.uint32(key), np.uint32(4)
        about = np.float32(relaxation if key else 0.0)
        solve_units(LANES, used, width, sums, ridge, mean, about, *stream, 0, numbers, rest, space)
        drawn.append(numbers[:, :used].copy())
    x = np.concatenate(drawn).astype(float)
    v = factors[which, :used].astype(float)
    v[:, 0] = 1
    A = np.diag(ridge[:used].astype(float)) + (v * w[:, None]).T @ v
    h = ridge[:used] * mean[0, :used].astype(float) + (v * w[:, None]).T @ t
    spread = np.sqrt(np.diag(np.linalg.inv(A)))
    bound = 6 / np.sqrt(len(x) * (1 - relaxation**2) / (1 + relaxation**2))
    assert np.abs((x.mean(axis=0) - np.linalg.solve(A, h)) / spread).max() < 5 / np.sqrt(len(x))
    off = (np.cov(x.T) - np.linalg.inv(A)) / np.outer(spread, spread)
    assert np.abs(off).max() < bound
    old, new = (np.concatenate(part) - x.mean(axis=0) for part in (drawn[:-1], drawn[1:]))
    off = (new.T @ old / len(old) - relaxation * np.linalg.inv(A)) / np.outer(spread, spread)
    assert np.abs(off).max() < bound
    left = ((t - v @ numbers[0, :used]) ** 2) @ w
    assert rest[0] == pytest.approx(left, rel=1e-4)
    assert not numbers[:, used:].any()


@pytest.mark.parametrize("rank", [3, 20])
def test_predictors(rank):
    """η of every cell is b_i + c_j + p_i·q_j, whatever the number of cells of a row; other rows stay as they are."""
    rng, counts = np.random.default_rng(0), np.array([0, 1, 15, 16, 17, 40, 3])
    width, start = padded(rank + 1), np.concatenate([[0], np.cumsum(counts)])
    raters, items = (np.zeros((size, width), np.float32) for size in (counts.size, 30))
    for side in (raters, items):
        side[:, : rank + 1] = rng.normal(size=(len(side), rank + 1))
    item = rng.integers(0, 30, start[-1]).astype(np.int32)
    eta = np.full(start[-1], np.nan, np.float32)
    predict(0, 5, start, item, raters, *split(items), eta)
    who = np.repeat(np.arange(7), counts)
    expected = raters[who, 0] + items[item, 0] + (raters[who, 1:] * items[item, 1:]).sum(axis=1)
    np.testing.assert_allclose(eta[: start[5]], expected[: start[5]], atol=1e-5)
    assert np.isnan(eta[start[5] :]).all()


@pytest.mark.parametrize("rank", [3, 20])
def test_probabilities_of_cells_in_any_order(rank, monkeypatch):
    """Cells asked for in any order and twice, computed in parts, have the average probabilities of all draws."""
    monkeypatch.setattr(_asked, "CELLS", 7)
    monkeypatch.setattr(_asked, "CELLS_AN_ITEM", 0)
    rng, draws, m, n = np.random.default_rng(0), 3, 12, 9
    raters, items = (rng.normal(0, 0.5, (draws, size, rank + 1)).astype(np.float32) for size in (m, n))
    noises = [rng.uniform(0.5, 2, (draws, size)).astype(np.float32) for size in (m, n)]
    thresholds = np.sort(rng.normal(size=(draws, m, 3)), axis=2).astype(np.float32)
    factors = rng.uniform(0.5, 2, (draws, n)).astype(np.float32)
    found = Draws(raters, items, *noises, thresholds, factors, np.full(m, 4))
    r, c = rng.integers(0, m - 1, 60), rng.integers(1, n, 60)
    eta = raters[:, r, :1] + items[:, c, :1] + (raters[:, r, 1:] * items[:, c, 1:]).sum(axis=2, keepdims=True)
    root = np.sqrt(noises[0][:, r] * noises[1][:, c])[:, :, None]
    below = ndtr(root * (factors[:, c, None] * thresholds[:, r] - eta))
    expected = np.diff(np.concatenate([0 * below[..., :1], below, 0 * below[..., :1] + 1], axis=2), axis=2)
    np.testing.assert_allclose(found.probabilities(r, c), expected.mean(axis=0), atol=1e-5)
    assert found.probabilities(r[:0], c[:0]).shape == (0, 4)


def test_fewer_units_than_lanes():
    """With fewer units than lanes the others are left alone, and the draws are the same."""
    rng = np.random.default_rng(1)
    factors, which, w, t = equations(16, 20, rng)
    sums = np.tile(summed(16, factors, which, w, t), (LANES, 1))
    given = np.ones(16, np.float32), np.zeros((LANES, 16), np.float32), np.float32(0), np.uint32(3), np.uint32(4), 0
    found = []
    for count in (LANES, 5):
        numbers, rest = np.full((LANES, 16), np.nan, np.float32), np.empty(LANES, np.float32)
        solve_units(count, 16, 16, sums, *given, numbers, rest, solve_space(16))
        found.append(numbers)
    np.testing.assert_array_equal(found[0][:5], found[1][:5])
    assert np.isnan(found[1][5:]).all()
