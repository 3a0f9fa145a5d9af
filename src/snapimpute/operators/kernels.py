"""Compiled loops over the observed cells; each works on one part of its lanes and releases the lock."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from snapimpute.types import Array


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def sampled_product(left: Array, right: Array, rows: Any, cols: Any, out: Array, start: int, stop: int) -> None:
    """out[p] ← Σ_k left[rows[p], k] right[cols[p], k] for p in start..stop."""
    rank = left.shape[1]
    for p in range(start, stop):
        i, j = rows[p], cols[p]
        # Four partial sums: the compiler may not reorder one, and one alone waits for itself.
        a = b = c = d = out.dtype.type(0)
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
            out[i, k] = 0
        for p in range(indptr[i], indptr[i + 1]):
            v, j = values[p], indices[p]
            for k in range(block.shape[1]):
                out[i, k] += v * block[j, k]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _solve_cholesky(L: Array, y: Array, least: float) -> None:
    """y ← A⁻¹y for the positive definite A whose lower half is in L, which is overwritten."""
    rank = y.size
    for k in range(rank):
        for q in range(k + 1):
            total = L[k, q]
            for t in range(q):
                total -= L[k, t] * L[q, t]
            L[k, q] = np.sqrt(max(total, least)) if q == k else total / L[q, q]
    for k in range(rank):
        for t in range(k):
            y[k] -= L[k, t] * y[t]
        y[k] /= L[k, k]
    for k in range(rank - 1, -1, -1):
        for t in range(k + 1, rank):
            y[k] -= L[t, k] * y[t]
        y[k] /= L[k, k]


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def lanes_least_squares(
    indptr: Any, indices: Any, values: Array, block: Array, ridge: float, out: Array, start: int, stop: int
) -> None:
    """out[i] ← argmin_u Σ_p (values[p] − ⟨block[indices[p]], u⟩)² over the entries p of lane i, by Cholesky.

    A multiple ``ridge`` of the mean diagonal is added to the normal matrix; a
    lane without entries gets 0.
    """
    rank = block.shape[1]
    L, y = np.empty((rank, rank)), np.empty(rank)
    for i in range(start, stop):
        L[:], y[:], out[i] = 0.0, 0.0, 0.0
        if indptr[i] == indptr[i + 1]:
            continue
        for p in range(indptr[i], indptr[i + 1]):
            v, j = values[p], indices[p]
            for k in range(rank):
                y[k] += v * block[j, k]
                for q in range(k + 1):
                    L[k, q] += block[j, k] * block[j, q]
        trace = 0.0
        for k in range(rank):
            trace += L[k, k]
        shift = ridge * trace / rank + 1e-300
        for k in range(rank):
            L[k, k] += shift
        _solve_cholesky(L, y, shift)
        for k in range(rank):
            out[i, k] = y[k]
