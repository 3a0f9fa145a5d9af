"""Compiled loops over the observed cells; each works on one part of its lanes and releases the lock."""

from __future__ import annotations

from typing import Any

import numba

from snapimpute.types import Array


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def sampled_product(left: Array, right: Array, rows: Any, cols: Any, out: Array, start: int, stop: int) -> None:
    """out[p] ← Σ_k left[rows[p], k] right[cols[p], k] for p in start..stop."""
    rank = left.shape[1]
    for p in range(start, stop):
        i, j = rows[p], cols[p]
        # Four partial sums: the compiler may not reorder one, and one alone waits for itself.
        a = b = c = d = 0.0
        k = 0
        while k + 4 <= rank:
            a += left[i, k] * right[j, k]
            b += left[i, k + 1] * right[j, k + 1]
            c += left[i, k + 2] * right[j, k + 2]
            d += left[i, k + 3] * right[j, k + 3]
            k += 4
        while k < rank:
            a += left[i, k] * right[j, k]
            k += 1
        out[p] = (a + b) + (c + d)


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def lanes_product(indptr: Any, indices: Any, values: Array, block: Array, out: Array, start: int, stop: int) -> None:
    """out[i] ← Σ_p values[p] block[indices[p]] over the entries p of lane i, for lanes start..stop."""
    for i in range(start, stop):
        for k in range(block.shape[1]):
            out[i, k] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            v, j = values[p], indices[p]
            for k in range(block.shape[1]):
                out[i, k] += v * block[j, k]
