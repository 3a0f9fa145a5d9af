"""Draws of the two strands of sixteen rows at once: filter forward, draw backward."""

from __future__ import annotations

import numpy as np

from snapimpute.base.compiled import inline, kernel, part
from snapimpute.base.random import as_uniform, philox
from snapimpute.base.vectors import LANES
from snapimpute.mosaic._pairs import SUMS, THETA, advance, begin, spread

_ONE = np.float32(1)

CASE, CLASS, ALLELE = (np.uint64(number) for number in range(3))
"""Purposes of random numbers."""


@inline
def uniforms(column, purpose, row, key):
    """Two uniform numbers of a row and a column."""
    one, other = philox(np.uint64(column) * np.uint64(4) + purpose, np.uint64(row), np.uint64(key))
    return as_uniform(np.uint32(one)), as_uniform(np.uint32(other))


@inline
def place(x, y):
    """Place of a pair, whatever its order."""
    low, high = min(x, y), max(x, y)
    return high * (high + 1) // 2 + low


@part
def _draw_class(classes, lane, sums, u):
    """Draw a class by the numbers of a lane."""
    total = np.float32(0)
    for k in range(classes):
        total += sums[k * LANES + lane]
    left = u * total
    for k in range(classes - 1):
        left -= sums[k * LANES + lane]
        if left < 0:
            return k
    return classes - 1


@part
def _draw_partner(classes, lane, x, f, u):
    """Draw the class beside another one."""
    total = np.float32(0)
    for y in range(classes):
        total += f[place(x, y) * LANES + lane]
    left = u * total
    for y in range(classes - 1):
        left -= f[place(x, y) * LANES + lane]
        if left < 0:
            return y
    return classes - 1


@part
def _earlier(classes, lane, rates, alpha, f, sums, x, y, column, row, key):
    """Draw the pair in a column, given the one after it."""
    both_stay, one_jumps, both_jump = rates[0], rates[1], np.float32(2) * rates[2]
    total = np.float32(0)
    for k in range(classes):
        total += sums[k * LANES + lane]
    stay = both_stay * f[place(x, y) * LANES + lane]
    second = one_jumps * alpha[y] * sums[x * LANES + lane]
    first = one_jumps * alpha[x] * sums[y * LANES + lane]
    u, _ = uniforms(column, CASE, row, key)
    u *= stay + second + first + both_jump * alpha[x] * alpha[y] * total
    if u < stay:
        return x, y
    v, w = uniforms(column, CLASS, row, key)
    if u < stay + second:
        return x, _draw_partner(classes, lane, x, f, v)
    if u < stay + second + first:
        return _draw_partner(classes, lane, y, f, v), y
    x = _draw_class(classes, lane, sums, v)
    return x, _draw_partner(classes, lane, x, f, w)


@part
def _show(theta_x, theta_y, symbol, column, row, key, out):
    """Draw what the two strands show."""
    if symbol in (0, 2):
        out[0, column] = out[1, column] = np.uint8(symbol // 2)
        return
    u, v = uniforms(column, ALLELE, row, key)
    if symbol == 1:
        first, second = theta_x * (_ONE - theta_y), theta_y * (_ONE - theta_x)
        chosen = u * (first + second) < first
        out[0, column], out[1, column] = np.uint8(chosen), np.uint8(not chosen)
        return
    out[0, column], out[1, column] = np.uint8(u < theta_x), np.uint8(v < theta_y)


@part
def _copied(classes, strands, donors, column, wrong, theta):
    """Let the classes of each lane be strands: θ is 1 − ``wrong`` where they have 1."""
    right = _ONE - wrong
    for lane in range(LANES):
        for k in range(classes):
            theta[k * LANES + lane] = right if strands[donors[lane, k], column] else wrong


@part
def _classes_at(j, classes, source, numbers):
    """Write θ in each lane: of the classes, or of the strands that stand for them."""
    theta, strands, donors, width, wrong = source
    if donors.size:
        _copied(classes, strands, donors[j // width], j, wrong, numbers[THETA])
    else:
        spread(classes, theta[j], numbers.reshape(-1))


@part
def _shown(j, k, lane, source):
    """θ of one class in one lane."""
    theta, strands, donors, width, wrong = source
    if donors.size:
        return _ONE - wrong if strands[donors[j // width, lane, k], j] else wrong
    return theta[j, k]


@part
def _pass(symbols, source, alpha, rates, block, space, checkpoints):
    """Pass all columns forward, and keep the state before each block."""
    by_pair, numbers, lanes = space
    columns, classes = alpha.shape
    f, size = by_pair[0], by_pair.shape[1]
    begin(by_pair, numbers)
    for j in range(columns):
        if j % block == 0:
            checkpoints[j // block, :size] = f
            checkpoints[j // block, size:] = numbers[SUMS]
        _classes_at(j, classes, source, numbers)
        advance(classes, rates[j], alpha[j], symbols[j], f, f, numbers, lanes)


@part
def _hold(first, last, symbols, source, alpha, rates, block, space, checkpoints, kept):
    """Compute a block of columns again, and keep the state after each."""
    by_pair, numbers, lanes = space
    classes, size = alpha.shape[1], by_pair.shape[1]
    before = by_pair[0]
    before[:] = checkpoints[first // block, :size]
    numbers[SUMS] = checkpoints[first // block, size:]
    for j in range(first, last):
        here = kept[j - first]
        _classes_at(j, classes, source, numbers)
        advance(classes, rates[j], alpha[j], symbols[j], before, here, numbers, lanes)
        here[size:] = numbers[SUMS]
        before = here


@part
def _draw_back(first, last, rows, symbols, source, alpha, rates, size, kept, key, x, y, out):
    """Draw the pairs of a block of columns from the last to the first, and what they show."""
    columns, classes = alpha.shape
    for j in range(last - 1, first - 1, -1):
        f, sums = kept[j - first, :size], kept[j - first, size:]
        for lane in range(rows.size):
            row = rows[lane]
            if j == columns - 1:
                v, w = uniforms(j, CLASS, row, key)
                x[lane] = _draw_class(classes, lane, sums, v)
                y[lane] = _draw_partner(classes, lane, x[lane], f, w)
            else:
                x[lane], y[lane] = _earlier(
                    classes, lane, rates[j + 1], alpha[j + 1], f, sums, x[lane], y[lane], j, row, key
                )
            of_x, of_y = _shown(j, x[lane], lane, source), _shown(j, y[lane], lane, source)
            _show(of_x, of_y, symbols[j, lane], j, row, key, out[lane])


@kernel
def draw_strands(rows, symbols, source, alpha, rates, block, space, checkpoints, kept, key, out):
    """Draw both strands of up to `LANES` ``rows`` into ``out[lane]``.

    ``source`` are θ of the classes by column; or, where there are donors, the strands
    to copy, those of each lane and class by window, the columns of a window, and the
    probability of a wrong copy. All else is as in `_expectation.expect`.
    """
    columns, size = alpha.shape[0], space[0].shape[1]
    x, y = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    _pass(symbols, source, alpha, rates, block, space, checkpoints)
    for first in range((columns - 1) // block * block, -1, -block):
        last = min(first + block, columns)
        _hold(first, last, symbols, source, alpha, rates, block, space, checkpoints, kept)
        _draw_back(first, last, rows, symbols, source, alpha, rates, size, kept, key, x, y, out)
