"""Compiled maps of one real variable, applied in place to a flat array.

Each runs over blocks that stay in the first-level cache, one symbol at a time,
so that the innermost loop has no branch and uses the vector unit. Comparisons
are written such that NaN stays NaN: a run that diverges must not go unnoticed.
Arrays are copied in loops: with ``y[:] = x`` numba compiles the text of an error
message as well, which takes two to three seconds.
"""

from __future__ import annotations

import numba
import numpy as np

from snapimpute.base.types import Array

_BLOCK = 1024


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def l1_stairs(
    x: Array, low: float, rate: float, period: float, top: float, wide: float, slope: float, base: float
) -> None:
    """x ← what the line through its flat spots leaves of `l1_prox`, for evenly spaced symbols and equal pulls.

    A few operations, however many symbols: the prox climbs with slope 1 between
    flat spots that are ``wide`` = 2·pull long, one in every ``period``; the
    first begins at ``low``, ``rate`` is 1/period, ``top`` the number of the last.
    """
    zero = x.dtype.type(0)
    for i in range(x.size):
        z = x[i] - low
        k = np.floor(z * rate)
        k = zero if k < zero else k
        k = top if k > top else k
        rho = z - k * period
        below = rho if rho < zero else zero
        above = rho - wide
        above = zero if above < zero else above
        x[i] = (base - slope * rho) + (below + above)


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def l1_prox(x: Array, symbols: Array, pulls: Array, slope: float, shift: float) -> None:
    """x ← argmin_u Σ_k pulls_k |u − a_k| + ½ (u − x)², less slope·x + shift; symbols ascending."""
    rise = pulls.sum()
    given = np.empty(min(_BLOCK, x.size), x.dtype)
    for start in range(0, x.size, _BLOCK):
        block = x[start : start + _BLOCK]
        y = given[: block.size]
        for i in range(block.size):
            y[i] = block[i]
            block[i] += rise
        for k in range(symbols.size):
            a, drop = symbols[k], pulls[k] + pulls[k]
            for i in range(block.size):
                u = block[i]
                low = u - drop
                low = a if low < a else low
                block[i] = low if low < u else u
        if slope != 0 or shift != 0:
            for i in range(block.size):
                block[i] -= slope * y[i] + shift


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def composed_l1_prox(x: Array, symbols: Array, pull: float, slope: float, shift: float) -> None:
    """x ← prox_1(prox_2(… prox_K(x))), soft thresholds about a_K first, a_1 last; Eqs. (15), (17), (18).

    Less slope·x + shift.
    """
    zero = x.dtype.type(0)
    given = np.empty(min(_BLOCK, x.size), x.dtype)
    for start in range(0, x.size, _BLOCK):
        block = x[start : start + _BLOCK]
        y = given[: block.size]
        for i in range(block.size):
            y[i] = block[i]
        for k in range(symbols.size - 1, -1, -1):
            a = symbols[k]
            for i in range(block.size):
                d = block[i] - a
                up, down = d - pull, d + pull
                up = zero if up < zero else up
                down = zero if down > zero else down
                block[i] = a + up + down
        if slope != 0 or shift != 0:
            for i in range(block.size):
                block[i] -= slope * y[i] + shift


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
        for i in range(block.size):
            block[i] = total[i]


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def l0_prox(x: Array, symbols: Array, pulls: Array, slope: float, shift: float) -> None:
    """x ← the u among x and the symbols with the least ½ (u − x)² − pulls_k [u = a_k], less slope·x + shift."""
    half = x.dtype.type(0.5)
    given = np.empty(min(_BLOCK, x.size), x.dtype)
    least = np.empty(min(_BLOCK, x.size), x.dtype)
    for start in range(0, x.size, _BLOCK):
        block = x[start : start + _BLOCK]
        y, best = given[: block.size], least[: block.size]
        for i in range(block.size):
            y[i] = block[i]
        best[:] = 0
        for k in range(symbols.size):
            a, gain = symbols[k], pulls[k]
            for i in range(block.size):
                d = y[i] - a
                cost = half * d * d - gain
                block[i] = a if cost < best[i] else block[i]
                best[i] = cost if cost < best[i] else best[i]
        if slope != 0 or shift != 0:
            for i in range(block.size):
                block[i] -= slope * y[i] + shift


@numba.njit(nogil=True, cache=True, error_model="numpy")
def l0_value(x: Array, symbols: Array, pulls: Array) -> None:
    """x ← Σ_k pulls_k [x ≠ a_k]."""
    total = pulls.sum()
    for i in range(x.size):
        cost = total if x[i] == x[i] else np.nan
        for k in range(symbols.size):
            cost = cost - pulls[k] if x[i] == symbols[k] else cost
        x[i] = cost


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fractional_value(x: Array, symbols: Array, pulls: Array, alpha: float) -> None:
    """x ← Σ_k pulls_k d²/(d² + α), d = x − a_k."""
    one = x.dtype.type(1)
    buffer = np.empty(min(_BLOCK, x.size), x.dtype)
    for start in range(0, x.size, _BLOCK):
        block = x[start : start + _BLOCK]
        total = buffer[: block.size]
        total[:] = 0
        for k in range(symbols.size):
            a, w = symbols[k], pulls[k]
            for i in range(block.size):
                square = (block[i] - a) * (block[i] - a)
                total[i] += w / (one + alpha / square)  # 0 at the symbol, w at infinity
        for i in range(block.size):
            block[i] = total[i]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fractional_majorised(x: Array, anchor: Array, symbols: Array, pulls: Array, alpha: float) -> None:
    """x ← argmin_u Σ_k pulls_k b_k² (u − a_k)² + ½ (u − x)², b_k² = α/((anchor − a_k)² + α)²."""
    tops = np.empty(min(_BLOCK, x.size), x.dtype)
    bottoms = np.empty(min(_BLOCK, x.size), x.dtype)
    for start in range(0, x.size, _BLOCK):
        block, z = x[start : start + _BLOCK], anchor[start : start + _BLOCK]
        top, bottom = tops[: block.size], bottoms[: block.size]
        for i in range(block.size):
            top[i] = block[i]
        bottom[:] = 1
        for k in range(symbols.size):
            a, w = symbols[k], 2 * alpha * pulls[k]
            for i in range(block.size):
                square = (z[i] - a) * (z[i] - a) + alpha
                weight = w / (square * square)
                top[i] += weight * a
                bottom[i] += weight
        for i in range(block.size):
            block[i] = top[i] / bottom[i]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def power_value(x: Array, symbols: Array, pulls: Array, p: float) -> None:
    """x ← Σ_k pulls_k |x − a_k|^p."""
    for i in range(x.size):
        total = 0.0
        for k in range(symbols.size):
            size = abs(x[i] - symbols[k])
            total += pulls[k] * (np.sqrt(size) if p == 0.5 else size**p)  # the square root is much the faster
        x[i] = total


@numba.njit(nogil=True, cache=True, error_model="numpy")
def half_squares(x: Array, u: Array) -> None:
    """x ← ½ (x − u)², 0 where both are the same infinity."""
    half, zero = x.dtype.type(0.5), x.dtype.type(0)
    for i in range(x.size):
        d = zero if x[i] == u[i] else x[i] - u[i]
        x[i] = half * d * d
