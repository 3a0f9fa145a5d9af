"""The leading singular triplets of an operator, with a measured error.

A block Krylov method with a warm start. It keeps orthonormal bases Q (left) and
V (right) with AᵀQ = VB, so that the Ritz triplets (u, σ, v) from the SVD of the
small B satisfy Aᵀu = σv to rounding; one more product measures r = Av − σu, and
the r that are not yet small extend Q. With E = Σ r vᵀ over the triplets kept, these are exact triplets
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

FRESH = 2
"""Random vectors added to every warm start, so that no direction is missed for ever."""

MAX_BLOCKS = 6
"""The basis restarts from its best vectors when it holds that many times the triplets sought."""

WHOLE_SHARE = 0.25
"""From this share of the smaller side on, a basis is so large that the whole space is cheaper."""

WHOLE_SIDE = 128
"""Up to this side the whole space is always cheaper."""

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
    """The bases of one call of `partial_svd`: AᵀQ = VB, and the Ritz triplets in them."""

    def __init__(self, operator: MatrixOperator, above: float, k: int, limit: int) -> None:
        self.A = operator
        self.above = above
        self.k = k
        self.limit = limit
        self.side = min(operator.shape)
        self.passes = 0

    # ------------------------------------------------------------ the bases
    @property
    def size(self) -> int:
        return int(self.Q.shape[1])

    def start(self, warm_start: Array | None, rng: np.random.Generator) -> None:
        """Take the image of the warm start, filled up with random vectors, as the first left basis."""
        m, n = self.A.shape
        warm = np.zeros((n, 0)) if warm_start is None else warm_start[:, : self.side]
        missing = min(self.k + GUARD, self.side) - warm.shape[1]
        fresh = rng.standard_normal((n, min(max(missing, FRESH), self.side - warm.shape[1])))
        self.Q, self.V, self.B = np.zeros((m, 0)), np.zeros((n, 0)), np.zeros((0, 0))
        self._append(self._matmat(orthonormal(np.hstack([warm, fresh]))[0]))

    def grow(self, rng: np.random.Generator) -> None:
        """Double the basis with random directions: the threshold has not been reached."""
        count = min(max(self.size, GUARD), self.side - self.size)
        self._append(self._matmat(rng.standard_normal((self.A.shape[1], count))))

    def extend(self, tol: float) -> None:
        """Add the residuals that are not yet small to the basis."""
        norms = np.linalg.norm(self.R, axis=0)
        open_ones = norms > 0.1 * tol / np.sqrt(norms.size)
        if self.size > MAX_BLOCKS * norms.size:
            self._restart(2 * norms.size)
        self._append(self.R[:, open_ones][:, : self.side - self.size])

    def _append(self, block: Array) -> None:
        block, _ = orthonormal_to(self.Q, block)
        image = self._rmatmat(block)
        into, inside = orthonormal_to(self.V, image)
        old, new = self.B.shape[1], block.shape[1]
        self.B = np.block([[self.B, inside[:old]], [np.zeros((new, old)), inside[old:]]])
        self.Q, self.V = np.hstack([self.Q, block]), np.hstack([self.V, into])
        self.P, self.s, self.Zt = np.linalg.svd(self.B)

    def _restart(self, count: int) -> None:
        """Keep the leading Ritz vectors only; AᵀU = V diag(s) holds for them, so no product is needed."""
        left, right = self.ritz(count)
        self.Q, self.V, self.B = left, right, np.diag(self.s[:count])

    def ritz(self, count: int) -> tuple[Array, Array]:
        """Left and right Ritz vectors."""
        return self.Q @ self.Zt[:count].T, self.V @ self.P[:, :count]

    # ------------------------------------------------------------ what is wanted of them
    def wanted(self) -> int:
        """Number of leading Ritz triplets asked for."""
        count = int((self.s > self.above).sum()) if self.above > 0 else self.k
        return min(count, self.limit)

    def too_small(self, wanted: int) -> bool:
        """Whether hardly any Ritz value stands below those wanted, so that more may follow."""
        return self.size < self.side and self.size < wanted + min(GUARD // 2, self.limit)

    def measure(self, wanted: int) -> Array:
        """Norms of Av − σu for the wanted triplets and their guards."""
        count = min(wanted + GUARD, self.size)
        self.kept = wanted
        self.left, self.right = self.ritz(count)
        self.R = self._matmat(self.right) - self.left * self.s[:count]
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
        """What was measured last."""
        keep = self.kept
        x = LowRank(self.left[:, :keep].copy(), self.s[:keep].copy(), self.right[:, :keep].copy())
        return PartialSVD(x, self.right, error, self.passes)

    # ------------------------------------------------------------ the whole space
    def whole_is_cheaper(self, size: int) -> bool:
        """Whether a basis of that size costs more than the whole smaller side."""
        m, n = self.A.shape
        return (size >= WHOLE_SHARE * self.side or self.side <= WHOLE_SIDE) and m * n <= WHOLE_CELLS

    def whole_space(self) -> PartialSVD:
        """A basis of the whole smaller side needs no iteration: one product and a full SVD."""
        m, n = self.A.shape
        tall = self._matmat(np.eye(n)) if n <= m else self._rmatmat(np.eye(m))
        left, self.s, right = _full_svd(tall, self.above)
        self.kept = self.wanted()
        count = min(self.kept + GUARD, self.s.size)
        left, right = left[:, :count], right[:, :count]
        self.left, self.right = (left, right) if n <= m else (right, left)
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


def orthonormal(block: Array) -> tuple[Array, Array]:
    """QR of a tall block: block = Q·R with orthonormal Q.

    Cholesky QR with scaled columns, done twice: two products instead of a
    Householder sweep, which is several times slower; that one serves where the
    columns are too nearly dependent.
    """
    Q, R = block, np.eye(block.shape[1])
    for _ in range(2):
        scale = np.linalg.norm(Q, axis=0)
        if not (scale > 0).all():
            return _householder(block)
        Q = Q / scale
        gram = Q.T @ Q
        try:
            L = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            return _householder(block)
        if np.diag(L).min() < 1e-5:
            return _householder(block)
        Q = Q @ np.linalg.inv(L).T
        R = L.T @ (scale[:, None] * R)
    return Q, R


def _householder(block: Array) -> tuple[Array, Array]:
    Q, R = np.linalg.qr(block)
    return Q, R


def orthonormal_to(basis: Array, block: Array) -> tuple[Array, Array]:
    """Return Q orthonormal and orthogonal to the basis, and C with block = [basis, Q]·C."""
    inside = basis.T @ block
    Q, R = orthonormal(block - basis @ inside)
    again = basis.T @ Q  # what rounding left inside matters where the block almost lies there
    Q, correction = orthonormal(Q - basis @ again)
    return Q, np.vstack([inside + again @ R, correction @ R])


def _full_svd(tall: Array, above: float) -> tuple[Array, Array, Array]:
    """All triplets of a tall array, or all above the threshold and some below.

    Through the Gram matrix, five times faster, where its rounding error of
    about 1e-16 (σ₁/σ)² does no harm to the triplets wanted.
    """
    largest = np.sqrt(np.linalg.norm(tall, 1) * np.linalg.norm(tall, np.inf))  # ≥ σ₁
    if above < 1e-3 * largest:
        U, s, Vt = np.linalg.svd(tall, full_matrices=False)
        return U, s, np.ascontiguousarray(Vt.T)
    squares, vectors = np.linalg.eigh(tall.T @ tall)
    s = np.sqrt(np.maximum(squares[::-1], 0.0))
    count = min(int((s > above).sum()) + GUARD, s.size)
    V = np.ascontiguousarray(vectors[:, ::-1][:, :count])
    return (tall @ V) / np.maximum(s[:count], 1e-3 * above), s[:count], V
