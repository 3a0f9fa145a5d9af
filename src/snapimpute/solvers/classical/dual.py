"""SVT: nuclear norm under the constraint P_Ω(X) = P_Ω(O), through its dual."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from snapimpute.base.files import fields_of, stored
from snapimpute.base.types import Array
from snapimpute.linalg import LowRank, Sparse, partial_svd
from snapimpute.penalties import Nuclear
from snapimpute.problem import ObjectiveName, Problem, Terms
from snapimpute.solvers.base import Context, Solver, SolverInfo, State
from snapimpute.solvers.parameters import check_positive


def constrained_terms(problem: Problem, x: LowRank, observed: Array) -> Terms:
    """Compute ‖X‖_* and the violation of the constraint P_Ω(X) = P_Ω(O)."""
    fit = 0.5 * float(np.sum((observed - problem.targets) ** 2))
    return Terms(fit, Nuclear(1.0).value(x.s), 0.0, constrained=True)


def relative_residual(problem: Problem, observed: Array) -> float:
    """Compute ‖P_Ω(X − O)‖/‖P_Ω(O)‖."""
    size = float(np.linalg.norm(problem.targets))
    residual = float(np.linalg.norm(observed - problem.targets)) / (size or 1.0)
    if not math.isfinite(residual):
        raise FloatingPointError("the residual on Ω is not finite")
    return residual


@stored("state svt", *fields_of(State), "dual", "residual", "subspace")
@dataclass(frozen=True, eq=False, kw_only=True)
class DualState(State):
    """Adds Y on Ω, the relative residual there, and the right space to warm-start from."""

    dual: Array
    residual: float
    subspace: Array | None

    @property
    def measure(self) -> float:
        """Relative residual on Ω."""
        return self.residual


@stored("solver svt", "tau", "delta")
@dataclass(frozen=True)
class SVT(Solver[DualState]):
    """Singular value thresholding: X = SVT_τ(Y), Y⁺ = Y + δP_Ω(O − X).

    This solves min τ‖X‖_* + ½‖X‖² under P_Ω(X) = P_Ω(O), by gradient ascent on the
    dual; for large τ it is nearly the least nuclear norm. The λ of `Nuclear` does not
    enter. ``result.extras["dual"]`` holds Y on the observed cells.

    Parameters
    ----------
    tau : float, optional
        5√(mn) by default.
    delta : float, optional
        Step, below 2 for the proof; by default 1.2mn/|Ω|, as the authors advise for
        random entries.

    Notes
    -----
    `tol` of `solve` is the relative residual on Ω; the authors take 1e-4. The
    SVD of each step is solved to a backward error of 1e-3 times the residual.
    """

    tau: float | None = None
    delta: float | None = None
    single: ClassVar[bool] = True
    name: ClassVar[str] = "svt"
    objective_name: ClassVar[ObjectiveName] = "C"
    measures: ClassVar[str] = "relative residual on Ω"
    uses_lam: ClassVar[bool] = False
    if_it_diverges: ClassVar[str] = (
        "The default delta is for entries drawn uniformly; any delta below 2 converges, slowly."
    )
    info: ClassVar[SolverInfo] = SolverInfo(
        title="SVT",
        minimises="τ‖X‖_* + ½‖X‖² s.t. P_Ω(X) = P_Ω(O)",
        spectral=("nuclear",),
        discrete=False,
        convex=True,
        cost="3 passes: |Ω|k + (m+n)k²",
        paper="Cai, Candès, Shen, SIAM J. Optim. 2010",
    )

    def __post_init__(self) -> None:
        for name, value in (("tau", self.tau), ("delta", self.delta)):
            if value is not None:
                check_positive(name, value, otherwise=", or None")

    def parameters(self, problem: Problem) -> tuple[float, float]:
        """Return (τ, δ) for a problem."""
        m, n = problem.shape
        tau = 5 * math.sqrt(m * n) if self.tau is None else self.tau
        delta = 1.2 / problem.observations.density if self.delta is None else self.delta
        return tau, delta

    def init(self, problem: Problem, x0: LowRank, context: Context) -> DualState:
        """Start at Y = k₀δP_Ω(O) with k₀ = ⌈τ/(δ‖P_Ω(O)‖₂)⌉: all earlier steps would have X = 0."""
        tau, delta = self.parameters(problem)
        data = Sparse(problem.observations, problem.targets)
        size = float(np.linalg.norm(problem.targets))
        norm = float(partial_svd(data, 1, tol=1e-6 * size, rng=context.rng(0)).x.s[0])
        kick = math.ceil(tau / (delta * norm)) if norm else 0
        observed = problem.at_observed(x0)
        return DualState(
            x=x0,
            x_observed=observed,
            dual=kick * delta * problem.targets,
            residual=relative_residual(problem, observed),
            subspace=x0.V if x0.rank else None,
        )

    def step(self, problem: Problem, state: DualState, context: Context) -> DualState:
        """Threshold Y, then add δ times what is missing on Ω."""
        tau, delta = self.parameters(problem)
        size = float(np.linalg.norm(problem.targets))
        svd = partial_svd(
            Sparse(problem.observations, state.dual),
            state.x.rank,
            above=tau,
            warm_start=state.subspace,
            tol=max(1e-3 * min(state.residual, 1.0), 1e-12) * size,
            max_rank=context.max_rank,
            rng=context.rng(state.iteration),
        )
        x = LowRank(svd.x.U, svd.x.s - tau, svd.x.V)
        observed = problem.at_observed(x)
        missing = problem.targets - observed
        return state.after(
            x,
            observed,
            certificate=float(np.linalg.norm(missing)) + svd.residual,
            dual=state.dual + delta * missing,
            residual=relative_residual(problem, observed),
            subspace=svd.subspace,
        )

    def terms(self, problem: Problem, state: DualState, context: Context) -> Terms:
        """Compute ‖X‖_* and the violation of the constraint."""
        return constrained_terms(problem, state.x, state.x_observed)

    def merit(self, state: DualState, terms: Terms) -> float:
        """Return the residual: iterates are infeasible, and the first ones have the least norm."""
        return state.residual

    def extras(self, state: DualState) -> dict[str, Any]:
        """Return Y on Ω."""
        return {"dual": state.dual}
