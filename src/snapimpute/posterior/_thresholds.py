"""The thresholds of raters: Metropolis steps with latent values integrated out, and Newton steps at first."""

from __future__ import annotations

import numpy as np

from snapimpute.posterior._functions import between, log, signed_tail
from snapimpute.posterior._intervals import (
    ACCEPT,
    FAR_THRESHOLD,
    PROPOSE,
    fill_normal,
    fill_uniform,
    kernel,
    log_ratios,
    probabilities,
    replaced,
    threshold_of,
    to_tails,
)

BLOCK = 1024
"""Cells of a block, and more where a rater has more."""

GROW, SHRINK, LEAST_STEP, LARGEST_STEP = np.float32(1.05), np.float32(0.97), np.float32(0.03), np.float32(1.5)
"""Factors of a step after it was taken and refused, and its limits."""

# Rows of the work space of a block.
LOW, HIGH, SIZE, FACTOR, NEW, P_NOW, P_NEW, RATIO, ABOVE = range(9)


@kernel
def block_end(start_of, start, stop):
    """The last rater of a block that begins with `start`: as many whole ones as fit, at least one."""
    end = start + 1
    while end < stop and start_of[end + 1] - start_of[start] <= BLOCK:
        end += 1
    return end


@kernel
def longest_block(start_of, start, stop):
    """Cells and raters of the largest block."""
    cells, raters, first = 0, 0, start
    while first < stop:
        end = block_end(start_of, first, stop)
        cells, raters = max(cells, start_of[end] - start_of[first]), max(raters, end - first)
        first = end
    return cells, raters


@kernel
def _bounds(first, end, start_of, item, symbol, thresholds, factors, work):
    """Look up the ends of each cell's interval."""
    p0 = start_of[first]
    for i in range(first, end):
        for p in range(start_of[i], start_of[i + 1]):
            s, e = symbol[p], factors[item[p]]
            work[LOW, p - p0] = e * thresholds[i, s]
            work[HIGH, p - p0] = e * thresholds[i, s + 1]


@kernel
def _propose(first, end, parity, start_of, symbol, levels, thresholds, steps, shock, proposed, work):
    """Propose thresholds of a parity, in order with their neighbours, and the ends of intervals that follow."""
    p0, inner = start_of[first], thresholds.shape[1] - 2
    for i in range(first, end):
        r, top = i - first, levels[i] - 1
        for t in range(2 - parity, top + 1, 2):
            new = thresholds[i, t] + steps[i, t] * shock[r * inner + t - 1]
            proposed[r, t] = new if thresholds[i, t - 1] < new < thresholds[i, t + 1] else FAR_THRESHOLD
        for p in range(start_of[i], start_of[i + 1]):
            s, k = symbol[p], p - p0
            t = threshold_of(s, parity)
            moves = 1 <= t <= top and proposed[r, t] < FAR_THRESHOLD
            work[ABOVE, k] = np.float32(t - s)
            work[NEW, k] = work[FACTOR, k] * (proposed[r, t] if moves else thresholds[i, t])


@kernel
def _add_up(rater, p0, parity, start_of, symbol, ratio, total):
    """Add up the ratios of a rater's cells by threshold: cells of a threshold are neighbours."""
    p, last = start_of[rater], start_of[rater + 1]
    for t in range(total.size):
        total[t] = np.float32(0)
    while p < last:
        t = threshold_of(symbol[p], parity)
        part = np.float32(0)
        while p < last and threshold_of(symbol[p], parity) == t:
            part += ratio[p - p0]
            p += 1
        total[t] = part


@kernel
def _take(rater, top, parity, thresholds, steps, adapt, center, spread, dice, proposed, total):
    """Accept or refuse the proposals of a rater; ``proposed`` is 1 then, or 0."""
    for t in range(2 - parity, top + 1, 2):
        new, taken = proposed[t], False
        if new < FAR_THRESHOLD:
            then, now = new - center[t], thresholds[rater, t] - center[t]
            gain = total[t] - np.float32(0.5) * (then * then - now * now) / (spread[t] * spread[t])
            taken = log(dice[t - 1]) < gain
        if adapt:
            step = steps[rater, t] * (GROW if taken else SHRINK)
            steps[rater, t] = min(max(step, LEAST_STEP), LARGEST_STEP)
        if taken:
            thresholds[rater, t] = new
        proposed[t] = np.float32(1) if taken else np.float32(0)


@kernel
def _keep(rater, p0, top, parity, start_of, symbol, proposed, work):
    """Keep the tails and probabilities of the cells whose threshold has moved."""
    for p in range(start_of[rater], start_of[rater + 1]):
        k, t = p - p0, threshold_of(symbol[p], parity)
        if 1 <= t <= top and proposed[t] > 0:
            work[P_NOW, k] = work[P_NEW, k]
            if work[ABOVE, k] > 0:
                work[HIGH, k] = work[NEW, k]
            else:
                work[LOW, k] = work[NEW, k]


@kernel
def _evaluate(first, end, start_of, item, symbol, thresholds, factors, eta, work, place):
    """Compute the probability of each cell's interval with some factors of the items."""
    _bounds(first, end, start_of, item, symbol, thresholds, factors, work)
    to_tails(work[LOW, : eta.size], work[SIZE, : eta.size], eta)
    to_tails(work[HIGH, : eta.size], work[SIZE, : eta.size], eta)
    probabilities(work[LOW], work[HIGH], work[place, : eta.size])


@kernel
def _begin(first, end, start_of, item, symbol, thresholds, factors, rater_root, item_root, eta, work):
    """Fill the work space of a block with precisions, factors, tails and probabilities as they are."""
    p0 = start_of[first]
    for i in range(first, end):
        for p in range(start_of[i], start_of[i + 1]):
            work[SIZE, p - p0] = rater_root[i] * item_root[item[p]]
            work[FACTOR, p - p0] = factors[item[p]]
    _evaluate(first, end, start_of, item, symbol, thresholds, factors, eta, work, P_NOW)


@kernel
def _move_block(
    first, end, start_of, symbol, levels, kind, thresholds, center, spread, steps, adapt, eta, luck, work
):
    """Move the thresholds of a block, one parity after the other."""
    shock, dice, proposed, total = luck
    p0, inner = start_of[first], thresholds.shape[1] - 2
    for parity in range(1, -1, -1):
        _propose(first, end, parity, start_of, symbol, levels, thresholds, steps, shock, proposed, work)
        to_tails(work[NEW, : eta.size], work[SIZE], eta)
        replaced(work[LOW], work[HIGH], work[NEW], work[ABOVE], work[P_NEW, : eta.size])
        log_ratios(work[P_NEW], work[P_NOW], work[RATIO, : eta.size])
        for i in range(first, end):
            r, top, own = i - first, levels[i] - 1, kind[i]
            _add_up(i, p0, parity, start_of, symbol, work[RATIO], total)
            dice_of = dice[r * inner : (r + 1) * inner]
            _take(i, top, parity, thresholds, steps, adapt, center[own], spread[own], dice_of, proposed[r], total)
            _keep(i, p0, top, parity, start_of, symbol, proposed[r], work)


@kernel
def move_thresholds(
    start,
    stop,
    start_of,
    item,
    symbol,
    levels,
    kind,
    thresholds,
    center,
    spread,
    steps,
    adapt,
    factors,
    others,
    rater_root,
    item_root,
    eta,
    key,
    change,
):
    """Move the thresholds of raters start … stop, then see what other factors of the items would change.

    Thresholds of one parity move together: a cell has one of each. ``change[j]``
    gets the log-likelihood ratio of ``others[j]`` for ``factors[j]``. Returns the
    log-likelihood before that.
    """
    cells, raters = longest_block(start_of, start, stop)
    inner = thresholds.shape[1] - 2
    space = np.empty((9, cells), np.float32)
    shock, dice = np.empty(raters * inner, np.float32), np.empty(raters * inner, np.float32)
    luck = shock, dice, np.empty((raters, inner + 2), np.float32), np.empty(inner + 2, np.float32)
    likelihood, first = np.float64(0), start
    while first < stop:
        end = block_end(start_of, first, stop)
        p0, count, drawn = start_of[first], start_of[end] - start_of[first], (end - first) * inner
        fill_normal(first * inner, PROPOSE, key, shock[:drawn])
        fill_uniform(first * inner, ACCEPT, key, dice[:drawn])
        there = eta[p0 : p0 + count]
        _begin(first, end, start_of, item, symbol, thresholds, factors, rater_root, item_root, there, space)
        given = start_of, symbol, levels, kind
        _move_block(first, end, *given, thresholds, center, spread, steps, adapt, there, luck, space)
        for k in range(count):
            likelihood += log(space[P_NOW, k])
        _evaluate(first, end, start_of, item, symbol, thresholds, others, there, space, P_NEW)
        log_ratios(space[P_NEW], space[P_NOW], space[RATIO, :count])
        for k in range(count):
            change[item[p0 + k]] += space[RATIO, k]
        first = end
    return likelihood


@kernel
def threshold_slopes(start, stop, indptr, cols, y, levels, kind, g, e, root_r, root_c, eta, slope, bend, mixed):
    """Add up the slopes of the log-likelihood in the common thresholds of each kind, and how much it bends.

    ``bend`` and ``mixed`` are the diagonal of minus the second derivatives, and what stands beside it. Cells more
    than five deviations out are skipped.
    """
    for i in range(start, stop):
        own = kind[i]
        if levels[i] == 0:
            continue
        for p in range(indptr[i], indptr[i + 1]):
            j, s = cols[p], y[p]
            size = root_r[i] * root_c[j]
            a, b = size * (e[j] * g[i, s] - eta[p]), size * (e[j] * g[i, s + 1] - eta[p])
            if a > 5 or b < -5:
                continue
            p_cell = between(signed_tail(a), signed_tail(b))
            per = size * e[j] / p_cell
            at_a = per * np.float32(0.3989423) * np.exp(-np.float32(0.5) * a * a) if s > 0 else np.float32(0)
            at_b = (
                per * np.float32(0.3989423) * np.exp(-np.float32(0.5) * b * b) if s + 1 < levels[i] else np.float32(0)
            )
            slope[own, s] -= at_a
            slope[own, s + 1] += at_b
            bend[own, s] += at_a * (at_a - size * e[j] * a)
            bend[own, s + 1] += at_b * (at_b + size * e[j] * b)
            mixed[own, s] -= at_a * at_b
