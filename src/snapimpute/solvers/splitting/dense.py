"""Convex problems as stated, (P), not their envelope (E): Davis–Yin splitting and ADMM.

The copy of X that carries the discrete term is dense, so that these methods
store m×n numbers and refuse large problems. Penalty decomposition stores no
such copy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np

from snapimpute.base.files import fields_of, stored
from snapimpute.base.types import Array
from snapimpute.linalg import Dense, LowRank, PartialSVD, partial_svd
from snapimpute.problem import ObjectiveName, Problem
from snapimpute.solvers.base import Context, Solver, SolverInfo, State
from snapimpute.solvers.parameters import check_open, check_positive

MAX_CELLS = 1 << 25
"""Largest table that is stored whole, several times: 256 MiB each time."""


def too_large(problem: Problem, instead: str) -> str | None:
    """Return the reason why a problem is too large for a method that stores m×n numbers, if it is."""
    m, n = problem.shape
    if m * n <= MAX_CELLS:
        return None
    return (
        f"stores dense arrays, and {m}×{n} = {m * n:,} cells ({8 * m * n / 2**30:.1f} GiB each) are more than "
        f"{MAX_CELLS:,}: {instead}"
    )


@stored("state dense", *fields_of(State), "dense", "gap", "subspace")
@dataclass(frozen=True, eq=False, kw_only=True)
class DenseState(State):
    """Adds the dense variable of a method, the distance of its two copies of X, and the start of the next SVD."""

    dense: Array
    gap: float = math.inf
    subspace: Array | None

    @property
    def measure(self) -> float:
        """Distance of the two copies and change of X, relative to X."""
        if self.gap == self.change == 0:
            return 0.0
        return max(self.gap, self.change) / self.size if self.size else math.inf


def dense_start(problem: Problem, x0: LowRank, dense: Array) -> DenseState:
    """The state before the first iteration, at x0 with orthonormal factors."""
    return DenseState(x=x0, x_observed=problem.at_observed(x0), dense=dense, subspace=x0.V if x0.rank else None)


D = TypeVar("D", bound=DenseState)


class DenseSolver(Solver[D], Generic[D]):
    """Base of methods with a dense variable."""

    measures: ClassVar[str] = "relative change and distance of the two copies of X"
    accuracy: float

    @classmethod
    def objection(cls, problem: Problem) -> str | None:
        """Refuse what any solver refuses, maps that are not the prox of their value, and large tables."""
        objection = super().objection(problem)
        if objection is None and not problem.exact:
            return f"needs the prox of the penalty itself, and that of {problem.discrete!r} is another's: use L1"
        return objection or too_large(problem, cls.instead(problem))

    @staticmethod
    def instead(problem: Problem) -> str:
        """Name the alternative for a large table."""
        return "PenaltyDecomposition comes as close to (P) as asked and stores none"

    def shrunk(self, problem: Problem, target: Array, step: float, state: D, context: Context) -> PartialSVD:
        """Compute prox_{step·λg}(target), and the backward error of its SVD."""
        spectral, size = problem.spectral, problem.smooth.scale
        above = spectral.threshold(step)
        scale = state.gap + state.change
        svd = partial_svd(
            Dense(target),
            state.x.rank,
            above=above,
            at_least=spectral.untouched,
            warm_start=state.subspace,
            tol=max(self.accuracy * (scale if np.isfinite(scale) else max(above, 1e-6 * size)), 1e-13 * size),
            max_rank=context.max_rank,
            rng=context.rng(state.iteration),
        )
        s = spectral.prox(svd.x.s, step)
        kept = svd.x.truncated(int((s > 0).sum()))
        return replace(svd, x=replace(kept, s=s[: kept.rank]))


@stored("solver davis-yin", "gamma", "accuracy")
@dataclass(frozen=True)
class DavisYin(DenseSolver[DenseState]):
    """Davis–Yin three-operator splitting for (P): A = prox_γξr(Z), B = prox_γλg(2A − Z − γ∇f(A)), Z⁺ = Z + B − A.

    A and B tend to a minimiser of (P). The result is B, which has low rank.
    The certificate is ‖A − B‖ max(1, 1/γ), with subgradients taken at A and B.

    Parameters
    ----------
    gamma : float
        Step length, above 0 and below 2.
    accuracy : float
        Backward error allowed to each SVD, relative to the last ‖A − B‖ and change.
    """

    gamma: float = 1.0
    accuracy: float = 1e-3
    name: ClassVar[str] = "davis-yin"
    objective_name: ClassVar[ObjectiveName] = "P"
    any_loss: ClassVar[bool] = True
    info: ClassVar[SolverInfo] = SolverInfo(
        title="Davis–Yin splitting",
        minimises="(P)",
        spectral=("nuclear",),
        discrete=True,
        convex=True,
        cost="3 passes over a dense table: mn·k, 3mn numbers stored",
        paper="Davis, Yin, Set-Valued and Variational Analysis 2017",
    )

    def __post_init__(self) -> None:
        check_open("gamma", self.gamma, 2.0)

    def init(self, problem: Problem, x0: LowRank, context: Context) -> DenseState:
        """Start at Z = x0."""
        x = x0.orthonormalised() if x0.rank else x0
        return dense_start(problem, x, x.to_dense())

    def step(self, problem: Problem, state: DenseState, context: Context) -> DenseState:
        """Apply the three operators once."""
        seen = problem.observations.rows, problem.observations.cols
        Z = state.dense
        A = problem.smooth.prox_dense(Z, self.gamma)
        target = 2 * A - Z
        target[seen] -= self.gamma * problem.smooth.fit_gradient(A[seen])
        svd = self.shrunk(problem, target, self.gamma, state, context)
        B = svd.x.to_dense()
        gap = float(np.linalg.norm(B - A))
        return state.after(
            svd.x,
            problem.at_observed(svd.x),
            certificate=gap * max(1.0, 1 / self.gamma) + svd.residual / self.gamma,
            dense=Z + B - A,
            gap=gap,
            subspace=svd.subspace,
        )


@stored("state admm", *fields_of(DenseState), "multiplier")
@dataclass(frozen=True, eq=False, kw_only=True)
class ADMMState(DenseState):
    """Adds the scaled multiplier W; ``dense`` is U."""

    multiplier: Array


@stored("solver admm", "rho", "accuracy")
@dataclass(frozen=True)
class ADMM(DenseSolver[ADMMState]):
    """Alternating directions for (P): λg(X) + f(U) + ξr(U) under X = U; f lives on Ω, r on Ωᶜ, so U is two proxes.

    X = prox_{λg/ρ}(U − W); U = prox_{(f + ξr)/ρ}(X + W); W⁺ = W + X − U. The
    certificate is ‖X − U‖ and ρ‖U − U₋‖ together, 0 at an optimum.

    Parameters
    ----------
    rho : float
        Weight of the constraint.
    accuracy : float
        Backward error allowed to each SVD, relative to the last ‖X − U‖ and change.
    """

    rho: float = 1.0
    accuracy: float = 1e-3
    name: ClassVar[str] = "admm"
    objective_name: ClassVar[ObjectiveName] = "P"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="ADMM",
        minimises="(P)",
        spectral=("nuclear",),
        discrete=True,
        convex=True,
        cost="3 passes over a dense table: mn·k, 4mn numbers stored",
        paper="Boyd, Parikh, Chu, Peleato, Eckstein, Foundations and Trends in ML 2011",
    )

    def __post_init__(self) -> None:
        check_positive("rho", self.rho)

    def init(self, problem: Problem, x0: LowRank, context: Context) -> ADMMState:
        """Start at U = x0, W = 0."""
        x = x0.orthonormalised() if x0.rank else x0
        U = x.to_dense()
        return ADMMState.extending(dense_start(problem, x, U), multiplier=np.zeros_like(U))

    def step(self, problem: Problem, state: ADMMState, context: Context) -> ADMMState:
        """Update X, then U, then the multiplier."""
        seen = problem.observations.rows, problem.observations.cols
        svd = self.shrunk(problem, state.dense - state.multiplier, 1 / self.rho, state, context)
        X = svd.x.to_dense()
        point = X + state.multiplier
        U = problem.smooth.prox_dense(point, 1 / self.rho)
        U[seen] = (problem.targets + self.rho * point[seen]) / (1 + self.rho)
        gap = float(np.linalg.norm(X - U))
        moved_by = float(np.linalg.norm(U - state.dense))
        return state.after(
            svd.x,
            problem.at_observed(svd.x),
            certificate=math.hypot(gap, self.rho * moved_by) + self.rho * svd.residual,
            dense=U,
            gap=max(gap, moved_by),
            subspace=svd.subspace,
            multiplier=point - U,
        )
