"""Short loops of one purpose each over latent intervals: tails at their ends, probabilities, numbers inside.

Each loop writes one array, so that the compiler turns it into vector code.
"""

from __future__ import annotations

import numpy as np

from snapimpute.base.compiled import inline, kernel
from snapimpute.base.random import as_uniform, philox
from snapimpute.posterior._functions import FAR, apart, between, exp2, log, quantile, signed_tail

FAR_THRESHOLD = np.float32(1e9)
"""Stands for an infinite threshold."""

# Purposes of random numbers: every use has its own stream.
PROPOSE, ACCEPT, LATENT, RATERS, ITEMS, MISSING = (np.uint32(k) for k in range(1, 7))


@kernel
def fill_uniform(first, purpose, key, out):
    """Fill with uniform numbers of the counters from ``first`` on, each of which gives two."""
    half = (out.size + 1) // 2
    left, right = out[:half], out[half:]
    stream, secret = np.uint64(purpose), np.uint64(key)
    for k in range(right.size):
        one, other = philox(np.uint64(np.uint32(first + k)), stream, secret)
        left[k] = as_uniform(np.uint32(one))
        right[k] = as_uniform(np.uint32(other))
    if right.size < half:
        one, _ = philox(np.uint64(np.uint32(first + half - 1)), stream, secret)
        left[half - 1] = as_uniform(np.uint32(one))


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


@inline
def by_quantile(one, other, right, u):
    """A standard normal number between two bounds that have these signed tails; ``right`` if both are positive."""
    v = apart(one, other) * u + (other if right else -one)  # the tail beyond the number, on the side of the bounds
    x = quantile(max(min(v, np.float32(1) - v), np.float32(1e-36)))
    return x if (v > np.float32(0.5)) != right else -x


@kernel
def between_thresholds(first, key, low, high, size, eta, z):
    """z ← latent values of cells first …, between the bounds given, which become deviations."""
    u, one, other = np.empty(z.size, np.float32), np.empty(z.size, np.float32), np.empty(z.size, np.float32)
    fill_uniform(first, LATENT, key, u)
    for k in range(z.size):
        low[k] = size[k] * (low[k] - eta[k])
    for k in range(z.size):
        high[k] = size[k] * (high[k] - eta[k])
    for k in range(z.size):
        one[k] = signed_tail(low[k])
    for k in range(z.size):
        other[k] = signed_tail(high[k])
    for k in range(z.size):
        z[k] = by_quantile(one[k], other[k], low[k] >= 0, u[k])
    beyond = np.float32(0)
    for k in range(z.size):
        beyond += np.float32(1) if max(low[k], -high[k]) > FAR - np.float32(1) else np.float32(0)
    for k in range(z.size):
        z[k] = min(max(z[k], low[k]), high[k])
    if beyond > 0:
        for k in range(z.size):
            if max(low[k], -high[k]) > FAR - np.float32(1):
                z[k] = inside(low[k], high[k], u[k])
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
def log_probabilities(one, other, out):
    """out ← logarithm of the probability of the interval between two tails, in either order."""
    for k in range(out.size):
        out[k] = log(apart(one[k], other[k]))


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
