"""The passes of a sweep over the known cells: by rater, then by item (see `_cells`).

Units come as ``vectors``, their numbers one after the other with 1 in place of the level, and as ``heights``, the
levels.
"""

from __future__ import annotations

import numpy as np

from snapimpute.base.compiled import kernel, part
from snapimpute.base.types import Array
from snapimpute.base.vectors import LANES
from snapimpute.posterior._gram import add_cells, sums_length, sums_of_products
from snapimpute.posterior._intervals import ITEMS, RATERS, between_thresholds
from snapimpute.posterior._solve import solve_space, solve_units


def split(numbers: Array) -> tuple[Array, Array]:
    """Copy what the passes read of units: vectors and heights."""
    vectors = numbers.copy()
    vectors[:, 0] = 1
    return vectors.reshape(-1), numbers[:, 0].copy()


@kernel
def predict(start, stop, start_of, item, raters, vectors, heights, eta):
    """Fill ``eta`` with b_i + c_j + p_i·q_j for the cells of raters start … stop."""
    width, flat, rest = raters.shape[1], raters.reshape(-1), np.empty(LANES, np.float32)
    for i in range(start, stop):
        end = start_of[i + 1]
        for p in range(start_of[i], end, LANES):
            if p + LANES <= end:
                sums_of_products(flat, i * width, vectors, width, item, p, end, eta, p)
            else:
                sums_of_products(flat, i * width, vectors, width, item, p, end, rest, 0)
                for k in range(end - p):
                    eta[p + k] = rest[k]
    for p in range(start_of[start], start_of[stop]):
        eta[p] += heights[item[p]]


@part
def _look_up(first, last, start_of, item, symbol, thresholds, factors, rater_root, item_root, space):
    """Look up the ends of the intervals and the precisions of the cells of raters first … last."""
    p0 = start_of[first]
    for i in range(first, last):
        a, b, own, root = start_of[i], start_of[i + 1], thresholds[i], rater_root[i]
        above = own[1:]
        items, symbols = item[a:b], symbol[a:b]
        low, high, size = space[0, a - p0 : b - p0], space[1, a - p0 : b - p0], space[2, a - p0 : b - p0]
        for k in range(b - a):
            factor = factors[items[k]]
            low[k] = factor * own[symbols[k]]
            high[k] = factor * above[symbols[k]]
            size[k] = root * item_root[items[k]]


@kernel
def draw_latent(
    first, last, start_of, item, symbol, levels, thresholds, factors, rater_root, item_root, eta, key, space, z
):
    """Draw the latent values of raters first … last between their thresholds; plain numbers stay.

    ``space`` has rows for the ends of the intervals, the precisions, which stay there, and the values.
    """
    _look_up(first, last, start_of, item, symbol, thresholds, factors, rater_root, item_root, space)
    p0, count = start_of[first], start_of[last] - start_of[first]
    low, high, size, drawn = space[0, :count], space[1, :count], space[2, :count], space[3, :count]
    between_thresholds(p0, key, low, high, size, eta[p0 : p0 + count], drawn)
    for i in range(first, last):
        if levels[i] > 0:
            a, b = start_of[i], start_of[i + 1]
            own, new = z[a:b], drawn[a - p0 : b - p0]
            for k in range(b - a):
                own[k] = new[k]


@part
def most_cells(start_of, start, stop):
    """Cells of the largest group of units that are solved for together."""
    most = 0
    for first in range(start, stop, LANES):
        most = max(most, start_of[min(first + LANES, stop)] - start_of[first])
    return most


@kernel
def draw_raters(
    start,
    stop,
    start_of,
    item,
    symbol,
    levels,
    thresholds,
    factors,
    rater_root,
    item_root,
    eta,
    z,
    vectors,
    heights,
    ridge,
    mean,
    relaxation,
    used,
    key,
    numbers,
    rest,
):
    """Draw latent values between their thresholds, then the ``used`` numbers of raters start … stop, given the items.

    ``rest`` gets what is left of the cells of each: the sum of its squares over the noise of the items.
    """
    width = numbers.shape[1]
    sums, solving = np.zeros((LANES, sums_length(width)), np.float32), solve_space(width)
    space = np.empty((4, most_cells(start_of, start, stop)), np.float32)
    bounds = symbol, levels, thresholds, factors, rater_root, item_root
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        p0, p1 = start_of[first], start_of[first + count]
        draw_latent(first, first + count, start_of, item, *bounds, eta, key, space, z)
        target, weight, values, items = space[0, : p1 - p0], space[2, : p1 - p0], z[p0:p1], item[p0:p1]
        for k in range(p1 - p0):
            target[k] = values[k] - heights[items[k]]
        for k in range(p1 - p0):
            weight[k] *= weight[k]
        for lane in range(count):
            a, b = start_of[first + lane] - p0, start_of[first + lane + 1] - p0
            add_cells(vectors, width, items, weight, target, a, b, sums[lane])
        solve_units(count, used, width, sums, ridge, mean, relaxation, key, RATERS, first, numbers, rest, solving)
        for i in range(first, first + count):
            rest[i] /= rater_root[i] * rater_root[i]


@kernel
def draw_items(
    start,
    stop,
    start_of,
    rater,
    position,
    z,
    vectors,
    heights,
    rater_root,
    item_root,
    ridge,
    mean,
    relaxation,
    used,
    key,
    numbers,
    rest,
):
    """Draw the ``used`` numbers of items start … stop, given the latent values and the raters; ``rest`` as above."""
    width = numbers.shape[1]
    sums, solving = np.zeros((LANES, sums_length(width)), np.float32), solve_space(width)
    space = np.empty((2, most_cells(start_of, start, stop)), np.float32)
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        p0, p1 = start_of[first], start_of[first + count]
        target, weight, raters, places = space[0, : p1 - p0], space[1, : p1 - p0], rater[p0:p1], position[p0:p1]
        for k in range(p1 - p0):
            target[k] = z[places[k]] - heights[raters[k]]
        for k in range(p1 - p0):
            weight[k] = rater_root[raters[k]]
        for lane in range(count):
            a, b = start_of[first + lane] - p0, start_of[first + lane + 1] - p0
            own = item_root[first + lane] * item_root[first + lane]
            for k in range(a, b):
                weight[k] *= own * weight[k]
            add_cells(vectors, width, raters, weight, target, a, b, sums[lane])
        solve_units(count, used, width, sums, ridge, mean, relaxation, key, ITEMS, first, numbers, rest, solving)
        for j in range(first, first + count):
            rest[j] /= item_root[j] * item_root[j]
