"""Log-likelihood of known cells, with latent values integrated out."""

from __future__ import annotations

import numpy as np

from snapimpute.base.compiled import kernel
from snapimpute.posterior._functions import log
from snapimpute.posterior._intervals import probabilities, to_tails
from snapimpute.posterior._thresholds import block_end, longest_block

HALF_LOG_2_PI = np.float32(0.9189385332046727)


@kernel
def log_intervals(low, high, size, eta):
    """Return Σ log P(low < N(η, 1/size²) ≤ high); ``low`` and ``high`` are overwritten."""
    to_tails(low, size, eta)
    to_tails(high, size, eta)
    p = np.empty(low.size, np.float32)
    probabilities(low, high, p)
    for k in range(p.size):
        p[k] = log(p[k])
    total = np.float64(0)
    for k in range(p.size):
        total += p[k]
    return total


@kernel
def log_densities(value, size, eta):
    """Return the sum of the log-densities of plain numbers."""
    total = np.float64(0)
    for k in range(value.size):
        off = size[k] * (value[k] - eta[k])
        total += log(size[k]) - np.float32(0.5) * off * off - HALF_LOG_2_PI
    return total


@kernel
def log_likelihood(
    start, stop, start_of, item, symbol, levels, thresholds, factors, rater_root, item_root, eta, value
):
    """Return the log-likelihood of the cells of raters start … stop; those of level 0 have a ``value``.

    Raters of level −1, which stand for categories, do not count.
    """
    total, first = np.float64(0), start
    space = np.empty((3, longest_block(start_of, start, stop)[0]), np.float32)
    while first < stop:
        end = block_end(start_of, first, stop)
        p0, count = start_of[first], start_of[end] - start_of[first]
        low, high, size = space[0, :count], space[1, :count], space[2, :count]
        for i in range(first, end):
            for p in range(start_of[i], start_of[i + 1]):
                j, s, k = item[p], symbol[p], p - p0
                size[k] = rater_root[i] * item_root[j]
                low[k] = factors[j] * thresholds[i, s]
                high[k] = factors[j] * thresholds[i, s + 1]
        total += log_intervals(low, high, size, eta[p0 : p0 + count])  # 0 for plain numbers
        for i in range(first, end):
            if levels[i] == 0:
                a, b = start_of[i], start_of[i + 1]
                total += log_densities(value[a:b], size[a - p0 : b - p0], eta[a:b])
        first = end
    return total
