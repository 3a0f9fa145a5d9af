"""Leading singular triplets of an operator, with a measured error.

A block Krylov method with a warm start. It keeps orthonormal bases Q (left) and
V (right) with AᵀQ = VB, so that the Ritz triplets (u, σ, v) from the SVD of the
small B satisfy Aᵀu = σv to rounding; one more product measures r = Av − σu, and
the r that are not yet small extend Q. With E = Σ r vᵀ over the triplets kept,
these are exact triplets of A − E: the result is the exact answer for a matrix
at distance ‖E‖_F, the `residual` that is returned (a backward error). For a
thresholded SVD, nearby triplets below the threshold count too, by how much they
might exceed it.

No residual shows a triplet that the bases have missed. A random start therefore
goes on until a value a tenth above the threshold would have appeared. It always
has more vectors than triplets found, as a value repeated p times needs p of them.
A warm start is trusted: its guards have been through the same iterations before,
and two fresh random vectors join them each time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Array
from snapimpute.linalg._tall import inner, times
from snapimpute.linalg.backend import COLUMNS, ROWS, backend_of, full_beside, put_beside
from snapimpute.linalg.base import MatrixOperator
from snapimpute.linalg.lowrank import LowRank

GUARD = 10
"""Extra triplets: they speed up the convergence of the last ones that are asked for."""

FRESH = 2
"""Random vectors added to every warm start, so that every direction is met in time."""

MAX_BLOCKS = 6
"""The basis restarts from its best vectors when it holds this multiple of the triplets sought."""

MARGIN = 1.1
"""A random start goes on until it would have met any value of this multiple of the threshold."""

WHOLE_SHARE, BEGUN_SHARE = 0.2, 0.6
"""Above this share of the smaller side, the whole space is cheaper than a basis: before the first passes, and after
them, as they would be lost."""

WHOLE_SIDE = 200
"""Up to this side the whole space is always cheaper."""

WHOLE_CELLS = 1 << 24
"""Above this many cells the whole space is never taken."""


@dataclass(frozen=True)
class PartialSVD:
    """Leading triplets ``x``, the right space to start the next call from, and the cost.

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
    above: float | None = None,
    at_least: int = 0,
    warm_start: Array | None = None,
    tol: float = 1e-8,
    max_rank: int | None = None,
    max_passes: int = 60,
    rng: np.random.Generator | None = None,
) -> PartialSVD:
    """Compute leading singular triplets: ``k`` of them, or all above a threshold.

    Parameters
    ----------
    k
        Number of triplets; with ``above`` a first guess of it, which may be 0.
    above
        Return all triplets with a larger singular value instead, however many there are, and ``at_least`` so many.
    warm_start
        n×p right vectors near those sought, for instance `PartialSVD.subspace`; the rest is drawn from ``rng``.
    tol
        Absolute bound asked of the residual; ``max_passes``, at least 3, end the search without it.
    max_rank
        Return at most that many triplets.

    Examples
    --------
    >>> X = LowRank.from_dense(np.diag([5.0, 3.0, 1.0]))
    >>> partial_svd(X, 1, above=2.0).x.s
    array([5., 3.])
    """
    _check_arguments(operator, k, warm_start, max_rank)
    side = min(operator.shape)
    limit = side if max_rank is None else min(max_rank, side)
    rng = np.random.default_rng(0) if rng is None else rng
    search = _Search(operator, above, min(max(k, at_least), limit), limit, at_least)
    if search.whole_is_cheaper(min(search.k + GUARD, side)):
        return search.whole_space()
    search.start(warm_start, rng)
    while True:
        wanted = search.wanted()
        if search.too_small(wanted) and search.passes + 3 <= max_passes:
            if search.whole_is_cheaper(2 * search.size):
                return search.whole_space()
            search.grow(wanted, rng)
            continue
        residuals = search.measure(wanted)
        error = search.error(residuals)
        if error <= max(tol, search.rounding) and search.deep_enough(residuals):
            return search.result(error)
        if search.passes + 2 > max_passes:
            return search.result(error)
        if search.size >= side or search.whole_is_cheaper(search.size + int((residuals > 0).sum())):
            return search.whole_space()
        search.extend(residuals, 0.1 * tol if error > tol else 0.0)


def _check_arguments(operator: MatrixOperator, k: int, warm_start: Array | None, max_rank: int | None) -> None:
    if k < 0:
        raise ArgumentError.must("k", k, "be at least 0")
    if max_rank is not None and max_rank < 0:
        raise ArgumentError.must("max_rank", max_rank, "be at least 0 or None")
    n = operator.shape[1]
    if warm_start is not None and (warm_start.ndim != 2 or warm_start.shape[0] != n):
        raise ValueError(f"warm_start must have the {n} rows of a right vector, got shape {warm_start.shape}")


class _Search:
    """Bases of one call of `partial_svd`: AᵀQ = VB, and the Ritz triplets in them."""

    def __init__(self, operator: MatrixOperator, above: float | None, k: int, limit: int, at_least: int) -> None:
        self.A = operator if operator.backend is None else operator.backend.joined(operator)
        self.above = above
        self.k = k
        self.limit = limit
        self.at_least = at_least
        self.side = min(operator.shape)
        self.dtype = operator.dtype
        self.eps = float(np.finfo(self.dtype).eps)
        self.passes = 0
        self.rounds = 0

    # ------------------------------------------------------------ the bases
    @property
    def size(self) -> int:
        return int(self.Q.shape[1])

    def start(self, warm_start: Array | None, rng: np.random.Generator) -> None:
        """Take the image of the warm start, filled up with random vectors, as the first left basis."""
        m, n = self.A.shape
        self.Q: Array = full_beside(self.A, (m, 0), 0, self.dtype, ROWS)
        self.V: Array = full_beside(self.A, (n, 0), 0, self.dtype, COLUMNS)
        self.B: Array = np.zeros((0, 0), self.dtype)
        warm = self.V if warm_start is None else warm_start[:, : self.side].astype(self.dtype, copy=False)
        missing = min(self.k + GUARD, self.side) - warm.shape[1]
        fresh = self._random(rng, min(max(missing, FRESH), self.side - warm.shape[1]))
        self.width, self.trusted = warm.shape[1] + fresh.shape[1], warm.shape[1] > 0
        self._append(self._matmat(orthonormal(np.hstack([warm, fresh]))[0]))

    def grow(self, wanted: int, rng: np.random.Generator) -> None:
        """Add random directions; double them while the threshold has not been reached."""
        count = self.size if wanted + GUARD // 2 > self.size else max(GUARD, self.width // 2)
        count = min(count, self.side - self.size)
        self.width, self.rounds = self.width + count, 0
        self._append(self._matmat(self._random(rng, count)))

    def _random(self, rng: np.random.Generator, count: int) -> Array:
        drawn = rng.standard_normal((self.A.shape[1], count)).astype(self.dtype, copy=False)
        out: Array = put_beside(self.A, drawn, COLUMNS)
        return out

    def extend(self, residuals: Array, small: float) -> None:
        """Add the residuals that are not small, taken together, to the basis."""
        open_ones = residuals > small / math.sqrt(residuals.size)
        if self.size > MAX_BLOCKS * residuals.size:
            self._restart(2 * residuals.size)
        self.rounds += 1
        self._append(self.R[:, open_ones][:, : self.side - self.size])

    def _append(self, block: Array) -> None:
        block, _ = orthonormal_to(self.Q, block)
        image = self._rmatmat(block)
        into, inside = orthonormal_to(self.V, image)
        old, new = self.B.shape[1], block.shape[1]
        self.B = np.block([[self.B, inside[:old]], [np.zeros((new, old), self.dtype), inside[old:]]])
        self.Q, self.V = np.hstack([self.Q, block]), np.hstack([self.V, into])
        self.P, self.s, self.Zt = np.linalg.svd(self.B)

    def _restart(self, count: int) -> None:
        """Keep the leading Ritz vectors only; AᵀU = V diag(s) holds for them, so no product is needed."""
        left, right = self.ritz(count)
        self.Q, self.V, self.B = left, right, np.diag(self.s[:count])

    def ritz(self, count: int) -> tuple[Array, Array]:
        """Left and right Ritz vectors."""
        return times(self.Q, self.Zt[:count].T), times(self.V, self.P[:, :count])

    # ------------------------------------------------------------ what is wanted of them
    def wanted(self) -> int:
        """Number of leading Ritz triplets asked for."""
        count = self.k if self.above is None else max(int((self.s > self.above).sum()), self.at_least)
        return min(count, self.limit, self.s.size)

    def too_small(self, wanted: int) -> bool:
        """True if there are hardly more vectors than triplets wanted: more may follow."""
        breadth = self.size if self.trusted else self.width
        return self.size < self.side and breadth < wanted + min(GUARD // 2, self.limit)

    def measure(self, wanted: int) -> Array:
        """Compute the norms of Av − σu for the wanted triplets and their guards."""
        count = min(wanted + GUARD if self.trusted else max(wanted + GUARD, self.width), self.size)
        self.kept = wanted
        self.left, self.right = self.ritz(count)
        self.R = self._matmat(self.right) - self.left * self.s[:count]
        norms: Array = np.linalg.norm(self.R, axis=0)
        return norms

    def error(self, residuals: Array) -> float:
        """Return ‖E‖_F over the triplets kept, with the amount by which a guard might exceed the threshold."""
        parts = residuals[: self.kept]
        if self.above is not None and self.kept < self.limit:
            if residuals.size == self.kept and self.size < self.side:
                return math.inf  # no guard: what follows is unknown
            guards = self.s[self.kept : residuals.size] + residuals[self.kept :] - self.above
            parts = np.concatenate([parts, np.maximum(guards, 0.0)])
        return float(np.linalg.norm(parts))

    @property
    def rounding(self) -> float:
        """Error below which a measurement is noise."""
        return 16 * self.eps * float(self.s[0]) * math.sqrt(max(self.kept, 1)) if self.s.size else 0.0

    def deep_enough(self, residuals: Array) -> bool:
        """True if a random start would by now have met any value a tenth above the threshold.

        A random vector holds about 1/√n of a singular vector. After j rounds
        the basis holds p(AᵀA) times the start for all polynomials p of degree
        j + 1, among them the Chebyshev polynomial, which enlarges that of σ
        against all those up to s by cosh((j + 1) arcosh(2 (σ/s)² − 1)).
        """
        if self.above is None or self.trusted or self.kept in (self.limit, residuals.size):
            return True
        rest, sought = float(self.s[self.kept]), MARGIN * self.above
        if residuals.max() <= 5000 * self.eps * self.s[0] or rest <= 5000 * self.eps * sought:
            return True  # the bases span everything that the start leads to
        gain = math.acosh(max(2 * (sought / rest) ** 2 - 1, 1.0))
        return (self.rounds + 1) * gain >= math.acosh(math.sqrt(self.A.shape[1]))

    def result(self, error: float) -> PartialSVD:
        """Return the triplets that were measured last."""
        keep = self.kept
        x = LowRank(self.left[:, :keep].copy(), self.s[:keep].copy(), self.right[:, :keep].copy())
        return PartialSVD(x, self.right[:, : keep + GUARD], error, self.passes)

    # ------------------------------------------------------------ the whole space
    def whole_is_cheaper(self, size: int) -> bool:
        """True if a basis of that size costs more than the whole smaller side."""
        m, n = self.A.shape
        share = BEGUN_SHARE if self.passes else WHOLE_SHARE
        return (size >= share * self.side or self.side <= WHOLE_SIDE) and m * n <= WHOLE_CELLS

    def whole_space(self) -> PartialSVD:
        """Take the whole smaller side as the basis: one product and a full SVD, without iteration."""
        m, n = self.A.shape
        whole = put_beside(self.A, np.eye(min(m, n), dtype=self.dtype), COLUMNS if n <= m else ROWS)
        tall = self._matmat(whole) if n <= m else self._rmatmat(whole)
        long, self.s, short = _full_svd(tall, 0.0 if self.at_least else self.above or 0.0)
        self.kept = self.wanted()
        count = min(self.kept + GUARD, self.s.size)
        long, short = long[:, :count], short[:, :count]
        if backend_of(short) is None:
            short = put_beside(self.A, short, COLUMNS if n <= m else ROWS)
        self.left, self.right = (long, short) if n <= m else (short, long)
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
    """Factor a tall block as Q·R with orthonormal Q.

    Cholesky QR with scaled columns runs twice: two products instead of a
    Householder sweep, which is several times slower. Householder serves where
    the columns are too nearly dependent.
    """
    Q, R = block, np.eye(block.shape[1], dtype=block.dtype)
    least = np.finfo(block.dtype).eps ** (1 / 3)
    for _ in range(2):
        scale = np.linalg.norm(Q, axis=0)
        if not (scale > 0).all():
            return _householder(block)
        Q = Q / scale
        gram = inner(Q, Q)
        try:
            L = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            return _householder(block)
        if np.diag(L).min(initial=1.0) < least:
            return _householder(block)
        Q = times(Q, np.linalg.inv(L).T)
        R = L.T @ (scale[:, None] * R)
    return Q, R


def _householder(block: Array) -> tuple[Array, Array]:
    Q, R = np.linalg.qr(block)
    return Q, R


def orthonormal_to(basis: Array, block: Array) -> tuple[Array, Array]:
    """Return Q orthonormal and orthogonal to the basis, and C with block = [basis, Q]·C."""
    if basis.shape[1] == 0:
        return orthonormal(block)
    inside = inner(basis, block)
    Q, R = orthonormal(block - times(basis, inside))
    again = inner(basis, Q)  # rounding left a part inside, which matters if the block almost lies there
    left = np.linalg.norm(again)
    if left <= 50 * np.finfo(block.dtype).eps * math.sqrt(basis.shape[1]):
        return Q, np.vstack([inside, R])
    if left > 0.5:
        # Some column does lie there. Householder's Q is orthogonal for any columns.
        Q = np.linalg.qr(np.hstack([basis, block])).Q[:, basis.shape[1] :]
        return Q, np.vstack([inside, inner(Q, block)])
    Q, correction = orthonormal(Q - times(basis, again))
    return Q, np.vstack([inside + again @ R, correction @ R])


def _full_svd(tall: Array, above: float) -> tuple[Array, Array, Array]:
    """Compute all triplets of a tall array, or all above the threshold and some below.

    Through the Gram matrix in double precision, five times faster, where its
    rounding error of about eps·(σ₁/σ)² does no harm to the triplets wanted.
    """
    least = 1e-3 if tall.dtype == np.float64 else 1e-5
    largest = np.sqrt(np.linalg.norm(tall, 1) * np.linalg.norm(tall, np.inf))  # ≥ σ₁
    if above <= least * largest:
        U, s, Vt = np.linalg.svd(tall, full_matrices=False)
        return U, s, Vt.T.copy()
    wide = tall.astype(np.float64, copy=False)
    squares, vectors = np.linalg.eigh(wide.T @ wide)
    s = np.sqrt(np.maximum(squares[::-1], 0.0))
    count = min(int((s > above).sum()) + GUARD, s.size)
    V = vectors[:, np.arange(s.size)[::-1][:count]].copy()
    found = (wide @ V) / np.maximum(s[:count], least * above), s[:count], V
    U, s, V = (part.astype(tall.dtype, copy=False) for part in found)
    return U, s, V
