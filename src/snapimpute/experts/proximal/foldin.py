"""Rows that a fit has not seen: their factors, by the objective of the fit with everything else held fixed.

In X = U diag(s) Vᵀ a row is x = Vc. Where a fit has converged, each of its own
rows solves

    min over c    ½ Σ_observed (o_j − b_j − v_jᵀc)² + discrete term on the others + ½ Σ_k w_k c_k²

with w_k = g'(s_k)/s_k for the spectral penalty g (λ/s_k for the nuclear norm). So
do new rows here, and a row of the fit comes out as it was. w is read off the fit
itself, which serves every penalty and solver: s_k w_k = u_kᵀ(Z − X)v_k, Z the
point before the spectral prox. A row of which nothing is known has c ≈ 0, and
gets what the offsets say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.experts.proximal.offsets import Center, Damping, KnownCells
from snapimpute.linalg import LowRank
from snapimpute.linalg.kernels import lanes_solve
from snapimpute.penalties import DiscretePenalty
from snapimpute.problem import Problem

SWEEPS, SMALL = 60, 1e-7
"""Newton steps at most, and the relative change that ends those of a row; one is exact if nothing is discrete."""

LONGER = 1.5
"""Times the length of the last step, at most, that a step may have."""

FEW = 0.5
"""Share of the rows: once so few have not arrived, the passes that follow leave the others out."""

LANES = 256
"""Rows solved for by a thread at once."""


@stored("offset model", "center", "mean", "col_biases", "damping", "cold")
@dataclass(frozen=True, eq=False)
class OffsetModel:
    """Parts of the offsets, from which those of other rows follow: μ, the biases of columns, the damping.

    A row without observed cells has the bias 0. Without a centre there are no offsets, but rows and columns of
    which nothing is known have the mean all the same (`estimates`).
    """

    center: Center
    mean: float
    col_biases: Array
    damping: Damping
    cold: NDArray[np.bool_]
    """Columns without any observation."""

    @classmethod
    def of(cls, cells: KnownCells, center: Center, damping: Damping) -> OffsetModel:
        """Take the biases of the known cells; the same numbers as `KnownCells.offsets`."""
        biases, n = cells.biases(center, damping), cells.observations.shape[1]
        cold = np.bincount(cells.observations.cols, minlength=n) == 0
        return cls(center, biases.mean, np.array(biases.col_biases), damping, cold)

    def offsets(self, observations: Observations | None, rows: int) -> LowRank | None:
        """Return the offsets of so many rows with these observed cells, or with none; see `KnownCells.offsets`."""
        if self.center is None:
            return None
        known = np.zeros(rows) if observations is None else np.bincount(observations.rows, minlength=rows)
        ones = np.ones(rows)
        bias = np.zeros(rows)
        if self.center in ("rows", "biases") and observations is not None:
            rest = observations.values - self.mean - self.col_biases[observations.cols]
            bias = np.bincount(observations.rows, rest, rows) / np.maximum(known + self.damping[0], 1e-300)
        right = np.column_stack([np.ones(self.cold.size), self.col_biases])
        return LowRank(np.column_stack([self.mean + bias, ones]), np.ones(2), right)

    def estimates(self, x: LowRank, observations: Observations | None) -> tuple[LowRank, LowRank]:
        """The factors and the offsets whose sum is what is estimated: cold rows and columns have no factors.

        A discrete term draws them to the alphabet, all the same way, which says nothing of their cells.
        """
        rows = x.shape[0]
        cold = np.ones(rows, dtype=bool)
        if observations is not None:
            cold[observations.rows] = False
        shown = LowRank(x.U * ~cold[:, None], x.s, x.V * ~self.cold[:, None])
        base = self.offsets(observations, rows)
        if base is None:
            right = np.column_stack([np.full(self.cold.size, self.mean), self.mean * self.cold])
            base = LowRank(np.column_stack([cold, ~cold]).astype(np.float64), np.ones(2), right)
        return shown, base


def shrinkage(problem: Problem, x: LowRank) -> Array:
    """w, how strongly a fit draws each coordinate of a row to 0."""
    z = problem.smooth.gradient_step(x, problem.at_observed(x), 1.0)
    before = np.einsum("ik,ik->k", x.U, z.matmat(x.V))
    shrink: Array = np.maximum(before - x.s, 0.0) / np.maximum(x.s, 1e-300)
    return shrink


def fold_in(problem: Problem, V: Array, w: Array, start: Array | None = None) -> Array:
    """Return the coordinates C of the rows of a problem: their part of a low-rank matrix is C Vᵀ.

    The columns of V are orthonormal, w comes from `shrinkage`; the problem's spectral penalty is not used. The answer
    does not depend on the ``start``, but for a discrete penalty that is not convex.

    Examples
    --------
    >>> from snapimpute import Nuclear
    >>> V = np.full((4, 1), 0.5)
    >>> rows = Observations.from_dense([[2.0, 2.0, np.nan, np.nan]])
    >>> fold_in(Problem(rows, Nuclear(1.0)), V, np.array([0.0])) @ V.T
    array([[2., 2., 2., 2.]])
    """
    C = np.zeros((problem.shape[0], V.shape[1])) if start is None else start.copy()
    if C.shape[1] == 0:
        return C
    bend = curvatures(problem.discrete, problem.shape[1])
    sweeps, places = _Sweeps(problem, _Basis(V, w, bend), C), np.arange(C.shape[0])
    for _ in range(SWEEPS):
        sweeps.step()
        C[places] = sweeps.C
        if not (problem.is_discrete and sweeps.going.any()):
            break
        if sweeps.few_going():
            places = places[sweeps.going]
            sweeps = sweeps.those_going()
    return C


class _Basis:
    """V, how it shrinks and bends, and the curvature of a row without observed cells."""

    def __init__(self, V: Array, w: Array, bend: Array) -> None:
        self.V, self.w, self.bend = V, w, bend
        self.curvature = (V * bend[:, None]).T @ V + np.diag(w)


class _Sweeps:
    """Newton steps of rows, all at once.

    The curvature of a discrete term is but an average, and a step may lead too far. Those that
    follow in the row are shorter then, as the slopes before and after tell (Barzilai and Borwein).
    """

    def __init__(self, problem: Problem, basis: _Basis, C: Array) -> None:
        m = C.shape[0]
        self.problem, self.basis, self.C = problem, basis, C
        self.length: Array = np.ones(m)
        self.before: Array = np.zeros(m)
        self.last: Array = np.zeros_like(C)
        self.going = np.ones(m, dtype=bool)

    def step(self) -> None:
        """Take one step in every row that has not arrived: one pass over all cells of the rows."""
        problem, basis, (m, rank) = self.problem, self.basis, self.C.shape
        x = LowRank(self.C, np.ones(rank), basis.V)
        slope = problem.smooth.gradient_step(x, problem.at_observed(x), 1.0).matmat(basis.V) - self.C * (1 + basis.w)
        after = np.einsum("ik,ik->i", slope, self.last)
        fall = np.maximum(self.before - after, self.before / LONGER)
        longer = np.divide(self.before, fall, out=np.full(m, LONGER), where=fall > 0)
        self.length = np.minimum(self.length * longer, 1.0)
        step = slope.copy()
        indptr, indices, _ = problem.observations.by_row

        def work(start: int, stop: int) -> None:
            lanes_solve(indptr, indices, 1 - basis.bend, basis.V, basis.curvature, step, start, stop)

        run_parts(work, cut(m, LANES), float(len(problem.observations) * rank**2 + m * rank**3))
        self.last = step * (self.length * self.going)[:, None]
        self.before = np.maximum(np.einsum("ik,ik->i", slope, self.last), 0.0)
        self.C = self.C + self.last
        self.going &= np.linalg.norm(self.last, axis=1) > SMALL * np.linalg.norm(self.C, axis=1)

    def few_going(self) -> bool:
        """Tell whether the passes that follow may leave the other rows out; a problem needs an observed cell."""
        separable = self.problem.discrete is None or self.problem.discrete.separable
        return bool(separable and self.going.mean() <= FEW and self.going[self.problem.observations.rows].any())

    def those_going(self) -> _Sweeps:
        """Return the rows that have not arrived, alone."""
        out = _Sweeps(_rows(self.problem, self.going), self.basis, self.C[self.going])
        out.length, out.before, out.last = (one[self.going] for one in (self.length, self.before, self.last))
        return out


def _rows(problem: Problem, chosen: NDArray[np.bool_]) -> Problem:
    """Return the problem of some rows alone."""
    cells, base = problem.observations, problem.offsets
    count, inside, place = int(chosen.sum()), chosen[cells.rows], np.cumsum(chosen) - 1
    shape = count, problem.shape[1]
    some = Observations.from_coo(place[cells.rows[inside]], cells.cols[inside], cells.values[inside], shape)
    offsets = None if base is None else LowRank(base.U[chosen], base.s, base.V)
    return replace(problem, observations=some, offsets=offsets)


def same_rows(cells: Observations, others: Observations) -> NDArray[np.bool_]:
    """Return which rows hold the same cells with the same values as the row in that place of another table.

    Examples
    --------
    >>> one, other = Observations.from_dense([[1, 2], [3, np.nan]]), Observations.from_dense([[1, 2], [3, 4], [5, 6]])
    >>> same_rows(one, other)
    array([ True, False])
    """
    out = np.zeros(cells.shape[0], dtype=bool)
    shared = min(cells.shape[0], others.shape[0])
    counts, wanted = (np.diff(one.by_row.indptr[: shared + 1]) for one in (cells, others))
    alike = np.flatnonzero(counts == wanted)
    out[alike] = True
    mine, theirs = (np.flatnonzero(np.isin(one.rows, alike)) for one in (cells, others))
    other = (cells.cols[mine] != others.cols[theirs]) | (cells.values[mine] != others.values[theirs])
    out[cells.rows[mine[other]]] = False
    return out


def curvatures(penalty: DiscretePenalty | None, columns: int) -> Array:
    """Average curvature that a discrete penalty adds to the objective at an unobserved cell of each column."""
    out = np.zeros(columns)
    for one, cols in [] if penalty is None else penalty.groups(columns):
        out[cols] = 0.0 if one is None else one.curvature()
    return out
