"""Compiled maps of one real variable, applied in place to a flat array.

Each runs over blocks that stay in the first-level cache, one symbol at a time,
so that the innermost loop has no branch and uses the vector unit. Comparisons
are written such that NaN stays NaN: a run that diverges must not go unnoticed.
"""

from __future__ import annotations

import numba
import numpy as np

from snapimpute.types import Array

_BLOCK = 1024


@numba.njit(nogil=True, cache=True, error_model="numpy")
def l1_prox(x: Array, symbols: Array, pulls: Array) -> None:
    """x ← argmin_u Σ_k pulls_k |u − a_k| + ½ (u − x)²; symbols ascending."""
    rise = pulls.sum()
    for start in range(0, x.size, _BLOCK):
        block = x[start : start + _BLOCK]
        for i in range(block.size):
            block[i] += rise
        for k in range(symbols.size):
            a, drop = symbols[k], 2 * pulls[k]
            for i in range(block.size):
                u = block[i]
                low = u - drop
                low = a if low < a else low
                block[i] = low if low < u else u


@numba.njit(nogil=True, cache=True, error_model="numpy")
def composed_l1_prox(x: Array, symbols: Array, pull: float) -> None:
    """x ← prox_1(prox_2(… prox_K(x))), soft thresholds about a_K first, a_1 last; Eqs. (15), (17), (18)."""
    for start in range(0, x.size, _BLOCK):
        block = x[start : start + _BLOCK]
        for k in range(symbols.size - 1, -1, -1):
            a = symbols[k]
            for i in range(block.size):
                d = block[i] - a
                up, down = d - pull, d + pull
                up = 0.0 if up < 0 else up
                down = 0.0 if down > 0 else down
                block[i] = a + up + down


@numba.njit(nogil=True, cache=True, error_model="numpy")
def l1_value(x: Array, symbols: Array, pulls: Array) -> None:
    """x ← Σ_k pulls_k |x − a_k|."""
    buffer = np.empty(min(_BLOCK, x.size), x.dtype)
    for start in range(0, x.size, _BLOCK):
        block = x[start : start + _BLOCK]
        total = buffer[: block.size]
        total[:] = 0
        for k in range(symbols.size):
            a, w = symbols[k], pulls[k]
            for i in range(block.size):
                total[i] += w * abs(block[i] - a)
        block[:] = total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def l1_envelope(x: Array, symbols: Array, pulls: Array) -> None:
    """x ← min_u Σ_k pulls_k |u − a_k| + ½ (u − x)²."""
    before = np.empty(min(_BLOCK, x.size), x.dtype)
    after = np.empty(min(_BLOCK, x.size), x.dtype)
    for start in range(0, x.size, _BLOCK):
        block = x[start : start + _BLOCK]
        y, u = before[: block.size], after[: block.size]
        y[:] = block
        l1_prox(block, symbols, pulls)
        u[:] = block
        l1_value(block, symbols, pulls)
        for i in range(block.size):
            d = u[i] - y[i]
            block[i] += 0.5 * d * d
