"""Random numbers from counters: the same bits for a unit and a sweep, whoever computes them."""

from __future__ import annotations

import numpy as np

from snapimpute.posterior._functions import inline, quantile

_MULTIPLIER, _WEYL = np.uint64(0xD256D193), np.uint32(0x9E3779B9)


@inline
def philox(counter: np.uint32, purpose: np.uint32, key: np.uint32) -> np.uint64:
    """64 random bits of Philox-2x32 with ten rounds (Salmon and others 2011)."""
    x0, x1, k = np.uint32(counter), np.uint32(purpose), np.uint32(key)
    for _ in range(10):
        product = np.uint64(x0) * _MULTIPLIER
        high, low = np.uint32(product >> np.uint64(32)), np.uint32(product)
        x0, x1 = np.uint32(high ^ k ^ x1), low
        k = np.uint32(k + _WEYL)
    return (np.uint64(x1) << np.uint64(32)) | np.uint64(x0)


@inline
def as_uniform(bits: np.uint32) -> np.float32:
    """A number inside (0, 1) from 23 of 32 bits."""
    return (np.float32(np.int32(bits >> np.uint32(9))) + np.float32(0.5)) * np.float32(2.0**-23)


@inline
def uniform(counter: np.uint32, purpose: np.uint32, key: np.uint32) -> np.float32:
    """A uniform number inside (0, 1)."""
    return as_uniform(np.uint32(philox(counter, purpose, key)))


@inline
def normal(counter: np.uint32, purpose: np.uint32, key: np.uint32) -> np.float32:
    """A standard normal number, of at most 5.3 deviations."""
    u = uniform(counter, purpose, key)
    x = quantile(min(u, np.float32(1) - u))
    return x if u < np.float32(0.5) else -x
