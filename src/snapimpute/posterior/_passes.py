"""The passes of a sweep over the known cells: by rater, then by item (see `_cells`)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from snapimpute.posterior._functions import below
from snapimpute.posterior._gram import accumulator
from snapimpute.posterior._intervals import ITEMS, RATERS, between_thresholds, kernel
from snapimpute.posterior._solve import LANES, solver


@cache
def predictors(width: int) -> Any:
    """Compile ``predict``, which fills ``eta`` with b_i + c_j + p_i·q_j for the cells of raters start … stop."""

    @kernel
    def predict(start, stop, start_of, item, raters, items, eta):
        for i in range(start, stop):
            for p in range(start_of[i], start_of[i + 1]):
                j = item[p]
                total = raters[i, 0] + items[j, 0] - raters[i, 0] * items[j, 0]
                for d in range(width):
                    total += raters[i, d] * items[j, d]
                eta[p] = total

    return predict


@kernel
def draw_latent(
    first, last, start_of, item, symbol, levels, thresholds, factors, rater_root, item_root, eta, key, space, z
):
    """Draw the latent values of raters first … last between their thresholds; plain numbers stay.

    ``space`` has rows for the ends of the intervals, the precisions and the values.
    """
    p0, count = start_of[first], start_of[last] - start_of[first]
    low, high, size = space[0, :count], space[1, :count], space[2, :count]
    for i in range(first, last):
        for p in range(start_of[i], start_of[i + 1]):
            j, s, k = item[p], symbol[p], p - p0
            size[k] = rater_root[i] * item_root[j]
            low[k] = factors[j] * thresholds[i, s]
            high[k] = factors[j] * thresholds[i, s + 1]
    drawn = space[3, :count]
    between_thresholds(p0, key, low, high, size, eta[p0 : p0 + count], drawn)
    for i in range(first, last):
        if levels[i] > 0:
            for p in range(start_of[i], start_of[i + 1]):
                z[p] = drawn[p - p0]


@kernel
def most_cells(start_of, start, stop):
    """Cells of the largest group of units that are solved for together."""
    most = 0
    for first in range(start, stop, LANES):
        most = max(most, start_of[min(first + LANES, stop)] - start_of[first])
    return most


@cache
def rater_pass(width: int) -> Any:
    """Compile ``draw_raters``: latent values between their thresholds, then raters start … stop, given the items."""
    add, solve, length = accumulator(width), solver(width), width * width + width + 1

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
        items,
        weight,
        ridge,
        mean,
        scale,
        key,
        numbers,
        rest,
    ):
        sums, space = (
            np.empty((LANES, length), np.float32),
            np.empty((4, most_cells(start_of, start, stop)), np.float32),
        )
        bounds = symbol, levels, thresholds, factors, rater_root, item_root
        for first in range(start, stop, LANES):
            count = min(LANES, stop - first)
            p0, p1 = start_of[first], start_of[first + count]
            draw_latent(first, first + count, start_of, item, *bounds, eta, key, space, z)
            target, w = space[0], space[1]
            for k in range(p1 - p0):
                j = item[p0 + k]
                target[k] = z[p0 + k] - items[j, 0]
                w[k] = weight[j]
            for lane in range(count):
                a, b = start_of[first + lane] - p0, start_of[first + lane + 1] - p0
                add(items, item[p0:p1], w, target, a, b, sums[lane])
            solve(count, sums, ridge, mean, scale, key, RATERS, first, numbers, rest)

    return draw_raters


@cache
def item_pass(width: int) -> Any:
    """Compile ``draw_items``: items start … stop, given the latent values and the raters."""
    add, solve, length = accumulator(width), solver(width), width * width + width + 1

    @kernel
    def draw_items(start, stop, start_of, rater, position, z, raters, weight, ridge, mean, scale, key, numbers, rest):
        sums, space = (
            np.empty((LANES, length), np.float32),
            np.empty((2, most_cells(start_of, start, stop)), np.float32),
        )
        target, w = space[0], space[1]
        for first in range(start, stop, LANES):
            count = min(LANES, stop - first)
            p0, p1 = start_of[first], start_of[first + count]
            for k in range(p1 - p0):
                i = rater[p0 + k]
                target[k] = z[position[p0 + k]] - raters[i, 0]
                w[k] = weight[i]
            for lane in range(count):
                a, b = start_of[first + lane] - p0, start_of[first + lane + 1] - p0
                add(raters, rater[p0:p1], w, target, a, b, sums[lane])
            solve(count, sums, ridge, mean, scale, key, ITEMS, first, numbers, rest)

    return draw_items


@kernel
def add_probabilities(start, stop, rater, item, left, right, left_root, right_root, thresholds, factors, out):
    """Add up P(symbol) over draws for cells start … stop."""
    count, symbols = stop - start, thresholds.shape[2] + 1
    eta, size, bound = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(count, np.float32)
    before = np.empty(count, np.float32)
    sums = np.zeros((symbols, count), np.float32)
    for d in range(left.shape[0]):
        for k in range(count):
            i, j = rater[start + k], item[start + k]
            total = left[d, i, 0] + right[d, j, 0]
            for f in range(1, left.shape[2]):
                total += left[d, i, f] * right[d, j, f]
            eta[k] = total
            size[k] = left_root[d, i] * right_root[d, j]
            before[k] = np.float32(0)
        for s in range(symbols - 1):
            for k in range(count):
                bound[k] = factors[d, item[start + k]] * thresholds[d, rater[start + k], s]
            row = sums[s]
            for k in range(count):
                bound[k] = below(size[k] * (bound[k] - eta[k]))
            for k in range(count):
                row[k] += bound[k] - before[k]
            for k in range(count):
                before[k] = bound[k]
        for k in range(count):
            sums[symbols - 1, k] += np.float32(1) - before[k]
    for k in range(count):
        for s in range(symbols):
            out[start + k, s] = max(sums[s, k], np.float32(0))
