"""The thresholds of raters: Metropolis steps with latent values integrated out, and Newton steps at first."""

from __future__ import annotations

import numpy as np

from snapimpute.base.compiled import kernel, part
from snapimpute.posterior._functions import between, log, signed_tail
from snapimpute.posterior._intervals import ACCEPT, PROPOSE, fill_normal, fill_uniform, log_probabilities, to_tails

BLOCK = 1024
"""Cells of a block, and more where a rater has more."""

GROW, SHRINK, LEAST_STEP, LARGEST_STEP = np.float32(1.05), np.float32(0.97), np.float32(0.03), np.float32(1.5)
"""Factors of a step after it was taken and refused, and its limits."""

# Rows of the work space of a block. A cell's interval has an odd and an even threshold: ``ODD`` and ``EVEN`` are the
# tails there, ``LOG_NOW`` and ``LOG_NEW`` logarithms of its probability, ``FLAG`` is 1 where a threshold has moved.
EVEN, ODD, SIZE, FACTOR, NEW, LOG_NOW, LOG_NEW, FLAG = range(8)


@part
def block_end(start_of, start, stop):
    """The last rater of a block that begins with `start`: as many whole ones as fit, at least one."""
    end = start + 1
    while end < stop and start_of[end + 1] - start_of[start] <= BLOCK:
        end += 1
    return end


@part
def longest_block(start_of, start, stop):
    """Cells and raters of the largest block."""
    cells, raters, first = 0, 0, start
    while first < stop:
        end = block_end(start_of, first, stop)
        cells, raters = max(cells, start_of[end] - start_of[first]), max(raters, end - first)
        first = end
    return cells, raters


@part
def _begin(first, end, start_of, item, symbol, factors, rater_root, item_root, stride, slots, work):
    """Look up precisions and factors, and where a cell's thresholds stand among those of the block, by parity."""
    p0 = start_of[first]
    for i in range(first, end):
        a, b, begin, root = start_of[i], start_of[i + 1], (i - first) * stride, rater_root[i]
        items, symbols, size = item[a:b], symbol[a:b], work[SIZE, a - p0 : b - p0]
        even, odd = slots[0, a - p0 : b - p0], slots[1, a - p0 : b - p0]
        for k in range(b - a):
            s = np.uint32(symbols[k])
            up = s & np.uint32(1)
            even[k] = begin + s + up
            odd[k] = begin + s + np.uint32(1) - up
        for k in range(b - a):
            size[k] = root * item_root[items[k]]
    _look_up_factors(item[p0 : start_of[end]], factors, work)


@part
def _look_up_factors(item, factors, work):
    """Look up the factor that each cell's item has on its thresholds."""
    factor = work[FACTOR]
    for k in range(item.size):
        factor[k] = factors[item[k]]


@part
def _tails_at(bounds, slots, eta, work, row):
    """Compute the signed tails at one threshold of each cell."""
    factor, out = work[FACTOR], work[row]
    for k in range(eta.size):
        out[k] = factor[k] * bounds[slots[k]]
    to_tails(out[: eta.size], work[SIZE], eta)


@part
def _evaluate(bounds, slots, eta, work, row):
    """Compute the tails at both thresholds of each cell, and the logarithm of its probability."""
    for parity in range(2):
        _tails_at(bounds, slots[parity], eta, work, parity)
    log_probabilities(work[EVEN], work[ODD], work[row, : eta.size])


@part
def _compare(item, work, change):
    """Add what the new factors change to ``change``; return the log-likelihood of the old ones."""
    now, then, total = work[LOG_NOW, : item.size], work[LOG_NEW, : item.size], np.float32(0)
    for k in range(item.size):
        total += now[k]
    for k in range(item.size):
        then[k] -= now[k]
    for k in range(item.size):
        change[item[k]] += then[k]
    return total


@part
def _propose(first, end, parity, levels, thresholds, steps, shock, proposed):
    """Propose thresholds of a parity; those that would leave their order, and all others, stay as they are."""
    stride = thresholds.shape[1]
    for i in range(first, end):
        r, top = (i - first) * stride, levels[i] - 1
        for t in range(stride):
            proposed[r + t] = thresholds[i, t]
        for t in range(2 - parity, top + 1, 2):
            new = thresholds[i, t] + steps[i, t] * shock[r + t]
            if thresholds[i, t - 1] < new < thresholds[i, t + 1]:
                proposed[r + t] = new


@part
def _gain(new, now, start, stop):
    """Sum of new − now over cells start … stop."""
    total, new, now = np.float32(0), new[start:stop], now[start:stop]
    for k in range(new.size):
        total += new[k] - now[k]
    return total


@part
def _take(rater, r, top, parity, runs, p0, thresholds, steps, adapt, center, spread, dice, proposed, flags, work):
    """Accept or refuse the proposals of a rater, whose ``flags`` are 1 then, or 0."""
    for t in range(thresholds.shape[1]):
        flags[r + t] = np.float32(0)
    for t in range(2 - parity, top + 1, 2):
        new, old, taken = proposed[r + t], thresholds[rater, t], False
        if new != old:
            total = _gain(work[LOG_NEW], work[LOG_NOW], runs[rater, t - 1] - p0, runs[rater, t + 1] - p0)
            then, now = new - center[t], old - center[t]
            gain = total - np.float32(0.5) * (then * then - now * now) / (spread[t] * spread[t])
            taken = log(dice[r + t]) < gain
        if adapt:
            step = steps[rater, t] * (GROW if taken else SHRINK)
            steps[rater, t] = min(max(step, LEAST_STEP), LARGEST_STEP)
        if taken:
            thresholds[rater, t] = new
            flags[r + t] = np.float32(1)


@part
def _keep(flag, now, new):
    """Replace the numbers of the cells whose threshold has moved."""
    for k in range(flag.size):
        now[k] = new[k] if flag[k] > np.float32(0) else now[k]


@part
def _move_block(
    first, end, start_of, runs, levels, kind, thresholds, center, spread, steps, adapt, eta, slots, luck, work
):
    """Move the thresholds of a block, one parity after the other."""
    shock, dice, proposed, flags = luck
    p0, stride, count = start_of[first], thresholds.shape[1], eta.size
    for parity in range(1, -1, -1):
        _propose(first, end, parity, levels, thresholds, steps, shock, proposed)
        _tails_at(proposed, slots[parity], eta, work, NEW)
        log_probabilities(work[NEW], work[1 - parity], work[LOG_NEW, :count])
        for i in range(first, end):
            r, own = (i - first) * stride, kind[i]
            given = thresholds, steps, adapt, center[own], spread[own], dice, proposed, flags, work
            _take(i, r, levels[i] - 1, parity, runs, p0, *given)
        flag, slot = work[FLAG, :count], slots[parity]
        for k in range(count):
            flag[k] = flags[slot[k]]
        _keep(flag, work[LOG_NOW], work[LOG_NEW])
        if parity == 1:
            _keep(flag, work[ODD], work[NEW])


@kernel
def move_thresholds(
    start,
    stop,
    start_of,
    runs,
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
    stride = thresholds.shape[1]
    work, slots = np.empty((8, cells), np.float32), np.empty((2, cells), np.uint32)
    space = np.empty((4, raters * stride), np.float32)
    luck, flat = (space[0], space[1], space[2], space[3]), thresholds.reshape(-1)
    likelihood, first = np.float64(0), start
    while first < stop:
        end = block_end(start_of, first, stop)
        p0, count, drawn = start_of[first], start_of[end] - start_of[first], (end - first) * stride
        fill_normal(first * stride, PROPOSE, key, space[0, :drawn])
        fill_uniform(first * stride, ACCEPT, key, space[1, :drawn])
        items, there, bounds = item[p0 : p0 + count], eta[p0 : p0 + count], flat[first * stride : end * stride]
        _begin(first, end, start_of, item, symbol, factors, rater_root, item_root, stride, slots, work)
        _evaluate(bounds, slots, there, work, LOG_NOW)
        given = thresholds, center, spread, steps, adapt, there, slots, luck, work
        _move_block(first, end, start_of, runs, levels, kind, *given)
        _look_up_factors(items, others, work)
        _evaluate(bounds, slots, there, work, LOG_NEW)
        likelihood += _compare(items, work, change)
        first = end
    return likelihood


@kernel
def threshold_slopes(start, stop, indptr, cols, y, levels, kind, g, e, root_r, root_c, eta, slope, bend, mixed):
    """Add up the slopes of the log-likelihood in the common thresholds of each kind, and how much it bends.

    ``bend`` and ``mixed`` are the diagonal of minus the second derivatives, and what stands beside it. Cells more
    than five deviations out are skipped there. Returns the log-likelihood.
    """
    likelihood = np.float64(0)
    for i in range(start, stop):
        own = kind[i]
        if levels[i] == 0:
            continue
        for p in range(indptr[i], indptr[i + 1]):
            j, s = cols[p], y[p]
            size = root_r[i] * root_c[j]
            a, b = size * (e[j] * g[i, s] - eta[p]), size * (e[j] * g[i, s + 1] - eta[p])
            p_cell = between(signed_tail(a), signed_tail(b))
            likelihood += log(p_cell)
            if a > 5 or b < -5:
                continue
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
    return likelihood
