"""X = U diag(s) Vᵀ, the iterate of every solver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from snapimpute.base.files import stored
from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array
from snapimpute.data.checks import check_inside
from snapimpute.linalg import kernels
from snapimpute.linalg._tall import inner, times
from snapimpute.linalg.backend import COLUMNS, ROWS, Backend, backend_of, full_beside, to_host
from snapimpute.linalg.base import ENTRIES, MAX_DENSE_CELLS, MatrixOperator


@stored("low-rank matrix", "U", "s", "V")
@dataclass(frozen=True, eq=False)
class LowRank(MatrixOperator):
    """The m×n matrix U diag(s) Vᵀ with U m×r, s of length r, V n×r.

    The factors of a solver's result are orthonormal and s descends; a
    combination of such matrices need not be.

    Examples
    --------
    >>> X = LowRank(np.ones((3, 1)), np.array([2.0]), np.ones((2, 1)))
    >>> X.entries([0, 2], [1, 1])
    array([2., 2.])
    """

    U: Array
    s: Array
    V: Array

    def __post_init__(self) -> None:
        r = self.s.shape[0] if self.s.ndim == 1 else -1
        if self.U.ndim != 2 or self.V.ndim != 2 or self.U.shape[1] != r or self.V.shape[1] != r:
            raise ValueError(
                f"expected U m×r, s of length r, V n×r, got {self.U.shape}, {self.s.shape} and {self.V.shape}"
            )

    @classmethod
    def zeros(cls, shape: tuple[int, int], dtype: DTypeLike = np.float64) -> LowRank:
        """Return the zero matrix, of rank 0."""
        return cls(np.zeros((shape[0], 0), dtype), np.zeros(0, dtype), np.zeros((shape[1], 0), dtype))

    @classmethod
    def constant(cls, shape: tuple[int, int], value: float, dtype: DTypeLike = np.float64) -> LowRank:
        """Return the matrix with one value everywhere, of rank 1."""
        return cls(np.ones((shape[0], 1), dtype), np.array([value], dtype), np.ones((shape[1], 1), dtype))

    @classmethod
    def from_dense(cls, X: ArrayLike) -> LowRank:
        """Factor a (small) array by a full SVD."""
        U, s, Vt = np.linalg.svd(np.asarray(X, dtype=np.float64), full_matrices=False)
        return cls(U, s, np.ascontiguousarray(Vt.T))

    @classmethod
    def combine(cls, weights: Sequence[float], terms: Sequence[LowRank]) -> LowRank:
        """Σ_i weights_i · terms_i, by laying the factors side by side."""
        parts = [(w, t) for w, t in zip(weights, terms, strict=True) if w != 0 and t.rank > 0]
        if not parts:
            return terms[0].truncated(0)
        if len(parts) == 1:
            (w, t), *_ = parts
            return cls(t.U, t.s.dtype.type(w) * t.s, t.V)
        return cls(
            np.hstack([t.U for _, t in parts]),
            np.concatenate([t.s.dtype.type(w) * t.s for w, t in parts]),
            np.hstack([t.V for _, t in parts]),
        )

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """(m, n)."""
        return self.U.shape[0], self.V.shape[0]

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.s.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the factors."""
        return self.U.dtype

    def astype(self, dtype: DTypeLike) -> LowRank:
        """Return the matrix with its factors in another precision, itself if they have it."""
        if self.dtype == self.s.dtype == self.V.dtype == np.dtype(dtype):
            return self
        return LowRank(self.U.astype(dtype), self.s.astype(dtype), self.V.astype(dtype))

    @property
    def backend(self) -> Backend | None:
        """Backend of U and V; s is always numpy's."""
        return backend_of(self.U)

    def moved(self, backend: Backend | None) -> LowRank:
        """Return the matrix with its tall factors in another place."""
        if backend is self.backend:
            return self
        U, V = to_host(self.U), to_host(self.V)
        return (
            LowRank(U, self.s, V)
            if backend is None
            else LowRank(backend.put(U, ROWS), self.s, backend.put(V, COLUMNS))
        )

    def constant_beside(self, value: float) -> LowRank:
        """Return the matrix of the same shape with one value everywhere, where this one lives."""
        (m, n), dtype = self.shape, self.dtype
        left, right = full_beside(self, (m, 1), 1, dtype, ROWS), full_beside(self, (n, 1), 1, dtype, COLUMNS)
        return LowRank(left, np.array([value], dtype), right)

    @property
    def T(self) -> LowRank:  # noqa: N802 - the name numpy gives it
        """V diag(s) Uᵀ."""
        return LowRank(self.V, self.s, self.U)

    def __repr__(self) -> str:
        return f"LowRank({self.shape[0]}×{self.shape[1]}, rank {self.rank})"

    def matmat(self, B: Array) -> Array:
        """U (s ∘ (Vᵀ B))."""
        return times(self.U, self.s[:, None] * inner(self.V, B))

    def rmatmat(self, C: Array) -> Array:
        """V (s ∘ (Uᵀ C))."""
        return times(self.V, self.s[:, None] * inner(self.U, C))

    def entries(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the values at the given cells, O(r) for each, where the indices live."""
        if self.backend is not None:
            return self.backend.sampled_product(self.U * self.s, self.V, rows, cols)
        r, c = np.broadcast_arrays(np.asarray(rows), np.asarray(cols))
        check_inside(r, c, self.shape)
        left, right = np.ascontiguousarray(self.U * self.s), np.ascontiguousarray(self.V)
        flat_r, flat_c = np.ascontiguousarray(r).ravel(), np.ascontiguousarray(c).ravel()
        out = np.empty(r.size, self.dtype)
        run_parts(
            lambda start, stop: kernels.sampled_product(left, right, flat_r, flat_c, out, start, stop),
            cut(out.size, ENTRIES),
            operations=2.0 * out.size * self.rank,
        )
        return out.reshape(r.shape)

    def norm(self) -> float:
        """Frobenius norm; for a difference of nearly equal matrices use `distance`."""
        square = float(self.s @ (inner(self.U, self.U) * inner(self.V, self.V)) @ self.s)
        return math.sqrt(max(square, 0.0))

    def distance(self, other: LowRank) -> float:
        """‖X − Y‖_F, accurate also where the two are nearly equal; the factors of X must be orthonormal.

        Y is split along the column and row spaces of X, so that the difference
        is taken of small r×r arrays and nothing large cancels.
        """
        inner_left, inner_right = inner(self.U, other.U), inner(self.V, other.V)
        outer_left, outer_right = other.U - times(self.U, inner_left), other.V - times(self.V, inner_right)
        scaled = inner_left * other.s
        both = np.linalg.norm(np.diag(self.s) - scaled @ inner_right.T)
        left = np.linalg.norm(times(outer_left, (inner_right * other.s).T))
        right = np.linalg.norm(times(outer_right, scaled.T))
        neither = LowRank(outer_left, other.s, outer_right).norm()
        return math.hypot(float(both), float(left), float(right), neither)

    def inner(self, other: MatrixOperator) -> float:
        """⟨X, A⟩ = Σ_ij x_ij a_ij, one product with A."""
        return float(np.sum((self.U * self.s) * other.matmat(self.V)))

    def orthonormalised(self) -> LowRank:
        """Return the same matrix with orthonormal factors and s ≥ 0 descending."""
        left, R = np.linalg.qr(self.U)
        right, T = np.linalg.qr(self.V)
        P, s, Qt = np.linalg.svd((R * self.s) @ T.T, full_matrices=False)
        return LowRank(left @ P, s, right @ Qt.T)

    def truncated(self, rank: int) -> LowRank:
        """Keep the first ``rank`` factors."""
        return LowRank(self.U[:, :rank], self.s[:rank], self.V[:, :rank])

    def to_dense(self, max_cells: int = MAX_DENSE_CELLS) -> Array:
        """Return the matrix as an array; refused above ``max_cells`` cells."""
        return super().to_dense(max_cells)

    def _dense(self) -> Array:
        return (self.U * self.s) @ self.V.T
