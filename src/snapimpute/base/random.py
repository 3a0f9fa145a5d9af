"""Random numbers from counters: the same bits for a unit and a sweep, whoever computes them."""

from __future__ import annotations

import numpy as np

from snapimpute.base.compiled import inline

_MULTIPLIER, _WEYL, _LOW = np.uint64(0xD256D193), np.uint64(0x9E3779B9), np.uint64(0xFFFFFFFF)


@inline
def philox(counter: np.uint64, purpose: np.uint64, key: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Twice 32 random bits of Philox-2x32 with ten rounds (Salmon and others 2011).

    All numbers have 32 bits, in lanes of 64: those are what vectors multiply.
    """
    x0, x1, k = counter, purpose, key
    for _ in range(10):
        product = x0 * _MULTIPLIER
        x0, x1 = (product >> np.uint64(32)) ^ k ^ x1, product & _LOW
        k = (k + _WEYL) & _LOW
    return x0, x1


@inline
def as_uniform(bits: np.uint32) -> np.float32:
    """A number inside (0, 1) from 23 of 32 bits."""
    return (np.float32(np.int32(bits >> np.uint32(9))) + np.float32(0.5)) * np.float32(2.0**-23)
