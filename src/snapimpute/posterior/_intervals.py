"""Short loops of one purpose each over latent intervals: tails at their ends, probabilities, numbers inside.

Each loop writes one array, so that the compiler turns it into vector code.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from snapimpute.posterior._functions import FAR, between, exp2, inline, log, quantile, signed_tail
from snapimpute.posterior._random import uniform

kernel: Any = numba.njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
"""Compiled without the interpreter's lock, and kept on disk for later processes."""

FAR_THRESHOLD = np.float32(1e9)
"""Stands for an infinite threshold."""

# Purposes of random numbers: every use has its own stream.
PROPOSE, ACCEPT, LATENT, RATERS, ITEMS, MISSING = (np.uint32(k) for k in range(1, 7))


@kernel
def fill_uniform(first, purpose, key, out):
    """Fill with uniform numbers of the counters from ``first`` on."""
    for k in range(out.size):
        out[k] = uniform(np.uint32(first + k), purpose, key)


@kernel
def fill_normal(first, purpose, key, out):
    """Fill with standard normal numbers of the counters from ``first`` on."""
    fill_uniform(first, purpose, key, out)
    for k in range(out.size):
        u = out[k]
        x = quantile(min(u, np.float32(1) - u))
        out[k] = x if u < np.float32(0.5) else -x


@kernel
def threshold_of(symbol, parity):
    """The threshold of a symbol, below or above, whose number is odd (parity 1) or even (0)."""
    return symbol if symbol % 2 == parity else symbol + 1


@inline
def inside(a, b, u):
    """A standard normal number between a and b, from a uniform one.

    The tail that is smaller serves, for the digits; beyond `FAR` it is an exponential.
    """
    side = np.float32(1) if a < 0 else np.float32(-1)
    low, high = min(side * a, side * b), max(side * a, side * b)  # low < 0: the lower tail
    first, last = signed_tail(low), signed_tail(high)
    v = between(first, last) * u - first  # P(N ≤ x)
    x = quantile(max(min(v, np.float32(1) - v), np.float32(1e-36)))
    x = x if v > np.float32(0.5) else -x
    rate = -min(high, -np.float32(1))
    least = exp2(max(np.float32(-1.442695) * rate * (high - low), np.float32(-126)))
    x = x if high > np.float32(1) - FAR else high + log(np.float32(1) - u * (np.float32(1) - least)) / rate
    return side * min(max(x, low), high)


@kernel
def between_thresholds(first, key, low, high, size, eta, z):
    """z ← latent values of cells first …, between the bounds given."""
    fill_uniform(first, LATENT, key, z)
    for k in range(z.size):
        z[k] = inside(size[k] * (low[k] - eta[k]), size[k] * (high[k] - eta[k]), z[k])
    for k in range(z.size):
        z[k] = eta[k] + z[k] / size[k]


@kernel
def to_tails(bound, size, eta):
    """bound ← signed tail at the bound, in deviations."""
    for k in range(bound.size):
        bound[k] = signed_tail(size[k] * (bound[k] - eta[k]))


@kernel
def probabilities(low, high, p):
    """p ← probability of the interval between two tails."""
    for k in range(p.size):
        p[k] = between(low[k], high[k])


@kernel
def replaced(low, high, new, above, p):
    """p ← probability of the interval with one end replaced: the upper one where ``above`` is 1."""
    for k in range(p.size):
        up = above[k] > np.float32(0.5)
        a, b = low[k], high[k]
        p[k] = between(a if up else new[k], new[k] if up else b)


@kernel
def log_ratios(p, q, out):
    """out ← log(p / q)."""
    for k in range(out.size):
        out[k] = log(p[k] / q[k])
