"""The leading singular triplets of an operator, with a measured error.

A block Krylov method with a warm start. It keeps an orthonormal basis Q of the
left space and W = AᵀQ, so the left Ritz triplets (u, σ, v) satisfy Aᵀu = σv to
rounding; one more product measures r = Av − σu, and the r that are not yet
small extend Q. With E = Σ r vᵀ over the triplets kept, these are exact triplets
of A − E: the result is the exact answer for a matrix at distance ‖E‖_F, the
`residual` that is returned (a backward error). For a thresholded SVD, nearby
triplets below the threshold count too, by how much they might exceed it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snapimpute.operators.base import MatrixOperator
from snapimpute.operators.lowrank import LowRank
from snapimpute.types import Array

GUARD = 10
"""Triplets carried beyond those asked for: they speed up the convergence of the last ones."""

MAX_BLOCKS = 6
"""The basis restarts from its best vectors when it holds that many times the triplets sought."""

WHOLE_SHARE = 0.25
"""From this share of the smaller side on, a basis is so large that the whole space is cheaper."""

WHOLE_CELLS = 1 << 24
"""Above this many cells the whole space is never taken."""


@dataclass(frozen=True)
class PartialSVD:
    """Leading triplets ``x``, the right space to start the next call from, and what it cost.

    ``residual`` bounds the backward error in the Frobenius norm, ``passes``
    counts products with the operator or its transpose.
    """

    x: LowRank
    subspace: Array
    residual: float
    passes: int


def partial_svd(
    operator: MatrixOperator,
    k: int,
    *,
    above: float = 0.0,
    warm_start: Array | None = None,
    tol: float = 1e-8,
    max_rank: int | None = None,
    max_passes: int = 60,
    rng: np.random.Generator | None = None,
) -> PartialSVD:
    """Leading singular triplets: at least ``k``, and all above a threshold.

    Parameters
    ----------
    operator : MatrixOperator
        Seen only through `matmat` and `rmatmat`.
    k : int
        Triplets wanted in any case; with ``above`` a guess, which may be 0.
    above : float
        If positive, all triplets with a singular value above it are returned
        instead, however many there are.
    warm_start : array n×p, optional
        Right vectors near those sought, for instance `PartialSVD.subspace`.
    tol : float
        Absolute bound asked of the residual.
    max_rank : int, optional
        Return at most that many triplets.
    max_passes : int
        Stop then, whatever the residual; it is returned.
    rng : numpy.random.Generator, optional
        For the random part of the starting block.

    Examples
    --------
    >>> X = LowRank.from_dense(np.diag([5.0, 3.0, 1.0]))
    >>> partial_svd(X, 1, above=2.0).x.s
    array([5., 3.])
    """
    side = min(operator.shape)
    limit = side if max_rank is None else min(max_rank, side)
    rng = np.random.default_rng(0) if rng is None else rng
    search = _Search(operator, above, min(k, limit), limit)
    if search.whole_is_cheaper(min(max(k, 0) + GUARD, side)):
        return search.whole_space()
    search.start(warm_start, rng)
    while True:
        wanted = search.wanted()
        if search.too_small(wanted):
            if search.whole_is_cheaper(2 * search.size):
                return search.whole_space()
            search.grow(rng)
            continue
        residuals = search.measure(wanted)
        error = search.error(residuals)
        if error <= tol or search.passes >= max_passes or search.size >= side:
            return search.result(error)
        if search.whole_is_cheaper(search.size + int((residuals > 0).sum())):
            return search.whole_space()
        search.extend(tol)


class _Search:
    """The basis of one call of `partial_svd`: Q, W = AᵀQ and the Ritz triplets in it."""

    def __init__(self, operator: MatrixOperator, above: float, k: int, limit: int) -> None:
        self.A = operator
        self.above = above
        self.k = k
        self.limit = limit
        self.passes = 0

    # ------------------------------------------------------------ the basis
    @property
    def size(self) -> int:
        return int(self.Q.shape[1])

    def start(self, warm_start: Array | None, rng: np.random.Generator) -> None:
        n = self.A.shape[1]
        count = min(self.k + GUARD, *self.A.shape)
        warm = np.zeros((n, 0)) if warm_start is None else warm_start[:, : min(self.A.shape)]
        fresh = rng.standard_normal((n, max(count - warm.shape[1], min(2, n))))
        block = np.hstack([warm, fresh])[:, : min(self.A.shape)]
        self.Q = np.zeros((self.A.shape[0], 0))
        self.W = np.zeros((n, 0))
        self._append(self._matmat(np.linalg.qr(block).Q))

    def grow(self, rng: np.random.Generator) -> None:
        """Double the basis with random directions: the threshold has not been reached."""
        count = min(max(self.size, GUARD), min(self.A.shape) - self.size)
        self._append(self._matmat(rng.standard_normal((self.A.shape[1], count))))

    def extend(self, tol: float) -> None:
        """Add the residuals that are not yet small to the basis."""
        norms = np.linalg.norm(self.R, axis=0)
        open_ones = norms > 0.1 * tol / np.sqrt(max(norms.size, 1))
        if self.size > MAX_BLOCKS * norms.size:
            self._restart(2 * norms.size)
        room = min(self.A.shape) - self.size
        self._append(self.R[:, open_ones][:, :room])

    def _restart(self, count: int) -> None:
        """Keep the leading Ritz vectors only; AᵀU = V diag(s) holds for them, so no product is needed."""
        self.Q, self.W = self.U[:, :count], self.V[:, :count] * self.s[:count]

    def _append(self, block: Array) -> None:
        for _ in range(2):  # twice is enough for orthogonality to rounding
            block = block - self.Q @ (self.Q.T @ block)
            block = np.linalg.qr(block).Q
        self.Q = np.hstack([self.Q, block])
        self.W = np.hstack([self.W, self._rmatmat(block)])
        basis, R = np.linalg.qr(self.W)
        P, s, Zt = np.linalg.svd(R)
        self.s, self.U, self.V = s, self.Q @ Zt.T, basis @ P

    # ------------------------------------------------------------ what is wanted of it
    def wanted(self) -> int:
        """Number of leading Ritz triplets asked for."""
        count = int((self.s > self.above).sum()) if self.above > 0 else self.k
        return min(count, self.limit)

    def too_small(self, wanted: int) -> bool:
        """Whether no Ritz value stands below those wanted, so that more may follow."""
        return self.size < min(self.A.shape) and self.size < wanted + min(GUARD // 2, self.limit)

    def measure(self, wanted: int) -> Array:
        """Norms of Av − σu for the wanted triplets and their guards."""
        self.kept = wanted
        count = min(wanted + GUARD, self.size)
        self.R = self._matmat(self.V[:, :count]) - self.U[:, :count] * self.s[:count]
        norms: Array = np.linalg.norm(self.R, axis=0)
        return norms

    def error(self, residuals: Array) -> float:
        """‖E‖_F over the triplets kept, and by how much a guard might exceed the threshold."""
        parts = residuals[: self.kept]
        if self.above > 0 and self.kept < self.limit:
            guards = self.s[self.kept : residuals.size] + residuals[self.kept :] - self.above
            parts = np.concatenate([parts, np.maximum(guards, 0.0)])
        return float(np.linalg.norm(parts))

    def result(self, error: float) -> PartialSVD:
        keep, carry = self.kept, min(self.kept + GUARD, self.size)
        x = LowRank(self.U[:, :keep].copy(), self.s[:keep].copy(), self.V[:, :keep].copy())
        return PartialSVD(x, self.V[:, :carry].copy(), error, self.passes)

    # ------------------------------------------------------------ the whole space
    def whole_is_cheaper(self, size: int) -> bool:
        m, n = self.A.shape
        return size >= WHOLE_SHARE * min(m, n) and m * n <= WHOLE_CELLS

    def whole_space(self) -> PartialSVD:
        """A basis of the whole smaller side needs no iteration: one product and a full SVD."""
        m, n = self.A.shape
        dense = self._matmat(np.eye(n)) if n <= m else self._rmatmat(np.eye(m)).T
        U, s, Vt = np.linalg.svd(dense, full_matrices=False)
        self.U, self.s, self.V, self.Q = U, s, np.ascontiguousarray(Vt.T), U
        self.kept = self.wanted()
        return self.result(0.0)

    # ------------------------------------------------------------ products
    def _matmat(self, B: Array) -> Array:
        return self._finite(self.A.matmat(B))

    def _rmatmat(self, C: Array) -> Array:
        return self._finite(self.A.rmatmat(C))

    def _finite(self, product: Array) -> Array:
        self.passes += 1
        if not np.isfinite(product).all():
            raise FloatingPointError("a product with the operator is not finite")
        return product
