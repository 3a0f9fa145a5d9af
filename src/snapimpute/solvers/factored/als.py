"""softImpute-ALS: nuclear norm through its factored form, by alternating ridge regressions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from snapimpute.base.files import fields_of, stored
from snapimpute.base.types import Array
from snapimpute.linalg import LowRank
from snapimpute.problem import ObjectiveName, Problem
from snapimpute.solvers.base import Context, Solver, SolverInfo, State
from snapimpute.solvers.parameters import check_count

DEFAULT_RANK = 50
"""Columns of the factors if neither `rank` nor `max_rank` is given."""


@stored("state als", *fields_of(State), "left", "scale")
@dataclass(frozen=True, eq=False, kw_only=True)
class ALSState(State):
    """Adds the left factor A = left·diag(scale) that the next half-step holds fixed."""

    left: Array
    scale: Array


@stored("solver als", "rank")
@dataclass(frozen=True)
class ALS(Solver[ALSState]):
    """softImpute-ALS: min_{A,B} h(ABᵀ) + (λ/2)(‖A‖² + ‖B‖²), with a new imputed matrix in every half-step.

    This equals the problem with the nuclear norm if the factors have more columns
    than the rank of the solution; `certify` checks that. A last soft threshold
    makes the rank visible. With a discrete penalty the imputed matrix is that of
    Eq. (13), so that a half-step lowers a majoriser of (E). The certificate is the
    distance by which the two half-steps moved X: 0 at a stationary point of the
    factored problem, but no bound on a subgradient.

    Parameters
    ----------
    rank : int, optional
        Columns of the factors; by default `max_rank` of `solve`, or else 50.
    """

    rank: int | None = None
    name: ClassVar[str] = "als"
    objective_name: ClassVar[ObjectiveName] = "E"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="softImpute-ALS",
        minimises="(E) in factored form, falling",
        spectral=("nuclear",),
        discrete=True,
        convex=False,
        cost="2 passes: |Ω|r + (m+n)r², discrete: mn·2r",
        paper="Hastie, Mazumder, Lee, Zadeh, JMLR 2015",
    )

    def __post_init__(self) -> None:
        if self.rank is not None:
            check_count("rank", self.rank, otherwise=", or None")

    def init(self, problem: Problem, x0: LowRank, context: Context) -> ALSState:
        """Take x0, scaled by √s, as A; fill up with random columns that B does not use yet."""
        m = problem.shape[0]
        limits = [limit for limit in (self.rank, context.max_rank) if limit is not None]
        rank = min(*(limits or [max(DEFAULT_RANK, x0.rank + 10)]), *problem.shape)
        x = x0.orthonormalised().truncated(rank)
        random = context.rng(0).standard_normal((m, rank - x.rank))
        left = np.linalg.qr(np.hstack([x.U, random])).Q
        left[:, : x.rank] = x.U
        scale = np.concatenate([np.sqrt(x.s), np.ones(rank - x.rank)])
        return ALSState(x=x, x_observed=problem.at_observed(x), left=left, scale=scale)

    def step(self, problem: Problem, state: ALSState, context: Context) -> ALSState:
        """Fit B given A, then A given B, each by ridge regression on the imputed matrix."""
        lam = problem.spectral.lam
        middle = self._half(problem, state.x, state.x_observed, state.left, state.scale, lam, transposed=True)
        observed = problem.at_observed(middle)
        right, scale = middle.V, np.sqrt(middle.s)
        x = self._half(problem, middle, observed, right, scale, lam, transposed=False)
        # Stationary in the factors means that neither half-step moves X.
        certificate = math.hypot(middle.distance(state.x), x.distance(middle))
        return state.after(x, problem.at_observed(x), certificate=certificate, left=x.U, scale=np.sqrt(x.s))

    @staticmethod
    def _half(
        problem: Problem, x: LowRank, observed: Array, fixed: Array, scale: Array, lam: float, *, transposed: bool
    ) -> LowRank:
        """Compute the new factor X*ᵀ·fixed·D(D² + λ)⁻¹; return its product with the fixed one as an SVD."""
        imputed = problem.smooth.imputed(x, observed)
        product = imputed.rmatmat(fixed) if transposed else imputed.matmat(fixed)
        weights = np.divide(scale**2, scale**2 + lam, out=np.zeros_like(scale), where=scale > 0)
        P, s, Qt = np.linalg.svd(product * weights, full_matrices=False)
        turned = fixed @ Qt.T
        return LowRank(turned, s, P) if transposed else LowRank(P, s, turned)

    def finish(self, problem: Problem, state: ALSState, context: Context) -> ALSState:
        """Threshold the imputed matrix inside the right space found."""
        product = problem.smooth.imputed(state.x, state.x_observed).matmat(state.x.V)
        P, s, Qt = np.linalg.svd(product, full_matrices=False)
        s = problem.spectral.prox(s)
        x = LowRank(P, s, state.x.V @ Qt.T).truncated(int((s > 0).sum()))
        return replace(state, x=x, x_observed=problem.at_observed(x))
