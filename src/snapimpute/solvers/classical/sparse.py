"""Low rank plus sparse errors: an unknown part of the observed entries is grossly wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import fields_of, stored
from snapimpute.base.types import Array
from snapimpute.linalg import LowRank, Sparse, Sum, partial_svd
from snapimpute.problem import ObjectiveName, Problem, Terms
from snapimpute.solvers.base import Context, Solver, SolverInfo, State
from snapimpute.solvers.parameters import check_positive


@stored("state low-rank-sparse", *fields_of(State), "errors", "rest", "multiplier", "residual", "weight", "subspace")
@dataclass(frozen=True, eq=False, kw_only=True)
class SplitState(State):
    """Adds, on Ω, the errors B, the small rest Z and the multiplier; the residual; a warm start."""

    errors: Array
    rest: Array
    multiplier: Array
    residual: float = math.inf
    weight: float
    subspace: Array | None

    @property
    def measure(self) -> float:
        """Larger of the relative change and the relative residual."""
        return max(super().measure, self.residual)


@stored("solver low-rank-sparse", "tau", "delta", "beta")
@dataclass(frozen=True)
class LowRankSparse(Solver[SplitState]):
    """min λ‖A‖_* + τ‖B‖₁ s.t. ‖P_Ω(O − A − B)‖ ≤ δ, by alternating directions.

    ``result.x`` is A; ``result.extras["errors"]`` holds B on the observed cells,
    0 where an entry is believed.

    Parameters
    ----------
    tau : float, optional
        Weight of the errors; λ/√(max(m, n)·|Ω|/mn) by default.
    delta : float
        Noise allowed on the entries that are believed.
    beta : float, optional
        Penalty of the splitting; 0.15·λ|Ω|/‖P_Ω(O)‖₁ by default.

    Notes
    -----
    The authors update A, B and the rest in turn, three blocks without a proof
    of convergence. B and the rest are found together here, by a search in one
    variable: two blocks, for which alternating directions converge.
    """

    tau: float | None = None
    delta: float = 0.0
    beta: float | None = None
    single: ClassVar[bool] = True
    name: ClassVar[str] = "low-rank-sparse"
    objective_name: ClassVar[ObjectiveName] = "C"
    measures: ClassVar[str] = "relative change or residual"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="Low rank + sparse",
        minimises="λ‖A‖_* + τ‖B‖₁ s.t. ‖P_Ω(O − A − B)‖ ≤ δ",
        spectral=("nuclear",),
        discrete=False,
        convex=True,
        cost="3 passes: |Ω|k + (m+n)k²",
        paper="Tao, Yuan, SIAM J. Optim. 2011",
    )

    def __post_init__(self) -> None:
        for name, value in (("tau", self.tau), ("beta", self.beta)):
            if value is not None:
                check_positive(name, value, otherwise=", or None")
        if not (math.isfinite(self.delta) and self.delta >= 0):
            raise ArgumentError.must("delta", self.delta, "be a finite number, at least 0")

    def parameters(self, problem: Problem) -> tuple[float, float]:
        """Return (τ, β) for a problem."""
        obs, lam = problem.observations, problem.spectral.lam
        tau = lam / math.sqrt(max(problem.shape) * obs.density) if self.tau is None else self.tau
        total = float(np.abs(problem.targets).sum())
        beta = 0.15 * lam * len(obs) / total if self.beta is None else self.beta
        return tau, beta

    def init(self, problem: Problem, x0: LowRank, context: Context) -> SplitState:
        """Start without errors and multiplier."""
        if problem.spectral.lam == 0 or not problem.targets.any():
            raise ValueError("LowRankSparse needs λ > 0 and data that are not all zero")
        observed = problem.at_observed(x0)
        zero = np.zeros_like(observed)
        tau, _ = self.parameters(problem)
        return SplitState(
            x=x0,
            x_observed=observed,
            errors=zero,
            rest=zero,
            multiplier=zero,
            weight=tau,
            subspace=x0.V if x0.rank else None,
        )

    def step(self, problem: Problem, state: SplitState, context: Context) -> SplitState:
        """Update A, then B with the rest, then the multiplier."""
        tau, beta = self.parameters(problem)
        size = float(np.linalg.norm(problem.targets))
        aim = problem.targets - state.errors - state.rest + state.multiplier / beta
        edge = problem.spectral.threshold(1 / beta)
        last = state.change if np.isfinite(state.change) else size
        svd = partial_svd(
            Sum((state.x, Sparse(problem.observations, aim - state.x_observed))),
            state.x.rank,
            above=edge,
            warm_start=state.subspace,
            tol=max(1e-2 * min(last, size), 1e-12 * size),
            max_rank=context.max_rank,
            rng=context.rng(state.iteration),
        )
        x = LowRank(svd.x.U, svd.x.s - edge, svd.x.V)
        observed = problem.at_observed(x)
        free = problem.targets - observed + state.multiplier / beta
        errors, rest = split(free, tau / beta, self.delta)
        violation = problem.targets - observed - errors - rest
        change = x.distance(state.x)
        moved = float(np.linalg.norm(errors + rest - state.errors - state.rest))
        return state.after(
            x,
            observed,
            certificate=float(np.linalg.norm(violation)) + beta * (math.hypot(moved, change) + svd.residual),
            errors=errors,
            rest=rest,
            multiplier=state.multiplier + beta * violation,
            residual=float(np.linalg.norm(violation)) / size,
            subspace=svd.subspace,
        )

    def terms(self, problem: Problem, state: SplitState, context: Context) -> Terms:
        """Compute λ‖A‖_* + τ‖B‖₁, and the distance of P_Ω(A + B + rest) from P_Ω(O)."""
        left = problem.targets - state.x_observed - state.errors - state.rest
        value = problem.spectral.value(state.x.s) + state.weight * float(np.abs(state.errors).sum())
        return Terms(0.5 * float(left @ left), value, 0.0, constrained=True)

    def merit(self, state: SplitState, terms: Terms) -> float:
        """Return the residual, as iterates are infeasible."""
        return state.residual

    def columns(self, state: SplitState) -> dict[str, float]:
        """Return the number of entries taken as wrong."""
        return {"errors": float(np.count_nonzero(state.errors))}

    def extras(self, state: SplitState) -> dict[str, Any]:
        """Return B on Ω."""
        return {"errors": state.errors}


def split(free: Array, edge: float, delta: float) -> tuple[Array, Array]:
    """Find B and Z with the least edge·‖B‖₁ + ½‖N − B − Z‖² under ‖Z‖ ≤ δ, N = ``free``.

    With w = N − B − Z, Z = s·w for an s ≥ 0 and |w| ≤ edge, so that N − B is N
    clipped to ±(1 + s)·edge, and s solves ‖Z‖ = δ.
    """
    if float(np.linalg.norm(free)) <= delta:
        return np.zeros_like(free), free.copy()

    def clipped(s: float) -> Array:
        return np.clip(free, -(1 + s) * edge, (1 + s) * edge)

    def excess(s: float) -> float:
        return s / (1 + s) * float(np.linalg.norm(clipped(s))) - delta

    if delta == 0:
        kept = clipped(0.0)
        return free - kept, np.zeros_like(free)
    high = 1.0
    while excess(high) < 0:
        high *= 2
    s = float(brentq(excess, 0.0, high, xtol=1e-15 * high, rtol=1e-14))
    kept = clipped(s)
    return free - kept, s / (1 + s) * kept
