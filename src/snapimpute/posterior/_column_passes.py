"""Passes over one column of a table whose columns have any covariance."""

from __future__ import annotations

import numpy as np

from snapimpute.base.compiled import kernel
from snapimpute.posterior._functions import below, log
from snapimpute.posterior._intervals import (
    ACCEPT,
    FAR_THRESHOLD,
    MISSING,
    PROPOSE,
    fill_normal,
    fill_uniform,
    log_ratios,
    probabilities,
    replaced,
    threshold_of,
    to_tails,
)

GROW, SHRINK, LEAST_STEP, LARGEST_STEP = np.float32(1.05), np.float32(0.96), np.float32(0.005), np.float32(0.5)
"""Factors of a step after it was taken and refused, and its limits."""


@kernel
def regress(z, weights, column, out):
    """out ← Σ over the other columns of −K_jl / K_jj z_l: the mean of column j given the others; z by column."""
    for i in range(out.size):
        out[i] = np.float32(0)
    for other in range(z.shape[0]):
        if other != column:
            share = -weights[other] / weights[column]
            row = z[other]
            for i in range(out.size):
                out[i] += share * row[i]


@kernel
def _take(top, parity, thresholds, center, spread, steps, adapt, dice, proposed, total):
    """Accept or refuse the proposals of a column; ``proposed`` is 1 then, or 0."""
    for t in range(2 - parity, top + 1, 2):
        taken = False
        if proposed[t] < FAR_THRESHOLD:
            then, now = proposed[t] - center[t], thresholds[t] - center[t]
            gain = total[t] - np.float32(0.5) * (then * then - now * now) / (spread * spread)
            taken = log(dice[t]) < gain
        if adapt:
            steps[t] = min(max(steps[t] * (GROW if taken else SHRINK), LEAST_STEP), LARGEST_STEP)
        if taken:
            thresholds[t] = proposed[t]
        proposed[t] = np.float32(1) if taken else np.float32(0)


@kernel
def move_own(symbol, levels, thresholds, center, spread, steps, adapt, eta, size, key):
    """Move the thresholds of a column whose known cells, sorted by symbol, have means η and precisions size²."""
    count, top = symbol.size, levels - 1
    low, high, p_now = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(count, np.float32)
    new, above, p_new = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(count, np.float32)
    ratio = np.empty(count, np.float32)
    proposed, total = np.empty(levels + 1, np.float32), np.empty(levels + 1, np.float32)
    shock, dice = np.empty(levels + 1, np.float32), np.empty(levels + 1, np.float32)
    fill_normal(0, PROPOSE, key, shock)
    fill_uniform(0, ACCEPT, key, dice)
    for k in range(count):
        low[k] = thresholds[symbol[k]]
        high[k] = thresholds[symbol[k] + 1]
    to_tails(low, size, eta)
    to_tails(high, size, eta)
    probabilities(low, high, p_now)
    for parity in range(1, -1, -1):
        for t in range(2 - parity, top + 1, 2):
            value = thresholds[t] + steps[t] * shock[t]
            proposed[t] = value if thresholds[t - 1] < value < thresholds[t + 1] else FAR_THRESHOLD
            total[t] = np.float32(0)
        for k in range(count):
            s = symbol[k]
            t = threshold_of(s, parity)
            above[k] = np.float32(t - s)
            new[k] = proposed[t] if 1 <= t <= top and proposed[t] < FAR_THRESHOLD else thresholds[t]
        to_tails(new, size, eta)
        replaced(low, high, new, above, p_new)
        log_ratios(p_new, p_now, ratio)
        for k in range(count):
            total[threshold_of(symbol[k], parity)] += ratio[k]
        _take(top, parity, thresholds, center, spread, steps, adapt, dice, proposed, total)
        for k in range(count):
            t = threshold_of(symbol[k], parity)
            if 1 <= t <= top and proposed[t] > 0:
                p_now[k] = p_new[k]
                if above[k] > 0:
                    high[k] = new[k]
                else:
                    low[k] = new[k]


@kernel
def draw_missing(key, eta, size, relaxation, old, out):
    """out ← N(η, 1/size²), with the relaxation as correlation with the old values."""
    fresh = np.sqrt(np.float32(1) - relaxation * relaxation)
    fill_normal(0, MISSING, key, out)
    for k in range(out.size):
        out[k] = eta[k] + relaxation * (old[k] - eta[k]) + fresh * out[k] / size[k]


@kernel
def add_symbols(thresholds, levels, eta, size, out):
    """Add the probability of each symbol of all rows to ``out``, one row a symbol."""
    before, here = np.zeros(eta.size, np.float32), np.empty(eta.size, np.float32)
    for s in range(levels):
        bound = thresholds[s + 1]
        for i in range(eta.size):
            here[i] = below(size[i] * (bound - eta[i]))
        row = out[s]
        for i in range(eta.size):
            row[i] += here[i] - before[i]
        for i in range(eta.size):
            before[i] = here[i]
