"""Compiled loops over the observed cells; each works on one part of its lanes and releases the lock."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from snapimpute.base.types import Array


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def sampled_product(left: Array, right: Array, rows: Any, cols: Any, out: Array, start: int, stop: int) -> None:
    """out[p] ← Σ_k left[rows[p], k] right[cols[p], k] for p in start..stop."""
    for p in range(start, stop):
        i, j = rows[p], cols[p]
        total = out.dtype.type(0)
        for k in range(left.shape[1]):  # several partial sums at once: the compiler may reorder them
            total += left[i, k] * right[j, k]
        out[p] = total


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def lanes_product(indptr: Any, indices: Any, values: Array, block: Array, out: Array, start: int, stop: int) -> None:
    """out[i] ← Σ_p values[p] block[indices[p]] over the entries p of lane i, for lanes start..stop."""
    columns = block.shape[1]
    for i in range(start, stop):
        row = out[i]
        row[:] = 0
        p, end = indptr[i], indptr[i + 1]
        while p + 4 <= end:  # four at once: the row is read and written a quarter as often
            a, b, c, d = values[p], values[p + 1], values[p + 2], values[p + 3]
            from_a, from_b = block[indices[p]], block[indices[p + 1]]
            from_c, from_d = block[indices[p + 2]], block[indices[p + 3]]
            for k in range(columns):
                row[k] += (a * from_a[k] + b * from_b[k]) + (c * from_c[k] + d * from_d[k])
            p += 4
        while p < end:
            a, from_a = values[p], block[indices[p]]
            for k in range(columns):
                row[k] += a * from_a[k]
            p += 1


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


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def lanes_solve(
    indptr: Any, indices: Any, weights: Array, block: Array, base: Array, out: Array, start: int, stop: int
) -> None:
    """out[i] ← (base + Σ_p w_j b_j b_jᵀ)⁻¹ out[i], j = indices[p], over the entries p of lane i, by Cholesky."""
    rank = block.shape[1]
    L, y = np.empty((rank, rank)), np.empty(rank)
    trace = 0.0
    for k in range(rank):
        trace += base[k, k]
    for i in range(start, stop):
        total = trace
        for k in range(rank):
            y[k] = out[i, k]
            for q in range(k + 1):
                L[k, q] = base[k, q]
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            for k in range(rank):
                scaled = weights[j] * block[j, k]
                total += scaled * block[j, k]
                for q in range(k + 1):
                    L[k, q] += scaled * block[j, q]
        _solve_cholesky(L, y, 1e-12 * total / rank + 1e-300)
        for k in range(rank):
            out[i, k] = y[k]
