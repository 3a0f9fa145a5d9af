"""Semidefinite programme of the nuclear norm, through a modelling tool: small tables, high accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from snapimpute.base.files import stored
from snapimpute.linalg import LowRank
from snapimpute.problem import ObjectiveName, Problem, Terms
from snapimpute.solvers.base import Context, Solver, SolverInfo, State
from snapimpute.solvers.classical.dual import constrained_terms, relative_residual


@stored("solver sdp", "max_gib")
@dataclass(frozen=True)
class SDP(Solver[State]):
    """min ½(tr W₁ + tr W₂) s.t. [[W₁, X], [Xᵀ, W₂]] ⪰ 0, P_Ω(X) = P_Ω(O): the least nuclear norm.

    An interior-point method solves it in one go. The value is ‖X‖_* (the paper
    drops the ½, which doubles it). The λ of `Nuclear` does not enter. This solver
    needs the extra ``snapimpute[sdp]``.

    Parameters
    ----------
    max_gib : float
        Refuse a problem whose linear systems would need more memory.
    """

    max_gib: float = 1.0
    name: ClassVar[str] = "sdp"
    objective_name: ClassVar[ObjectiveName] = "C"
    uses_lam: ClassVar[bool] = False
    info: ClassVar[SolverInfo] = SolverInfo(
        title="SDP",
        minimises="‖X‖_* s.t. P_Ω(X) = P_Ω(O)",
        spectral=("nuclear",),
        discrete=False,
        convex=True,
        cost="(m+n)⁶ in time, (m+n)⁴ in memory; m + n up to 150",
        paper="Fazel, thesis 2002; Recht, Fazel, Parrilo, SIAM Review 2010",
    )

    def init(self, problem: Problem, x0: LowRank, context: Context) -> State:
        """Refuse a table that is too large, before any work."""
        side = sum(problem.shape)
        need = 8 * (side * (side + 1) / 2) ** 2 / 2**30
        if need > self.max_gib:
            raise ValueError(
                f"the semidefinite programme of a {problem.shape[0]}×{problem.shape[1]} table has linear systems of "
                f"about {need:,.1f} GiB, more than max_gib={self.max_gib:g}: use SVT for the same problem, or "
                "AIS-Impute with a small λ"
            )
        return State(x=x0, x_observed=problem.at_observed(x0))

    def step(self, problem: Problem, state: State, context: Context) -> State:
        """Solve the programme."""
        x = LowRank.from_dense(_solved(problem))
        x = x.truncated(int((x.s > 1e-9 * x.s[0]).sum()))
        if context.max_rank is not None:
            x = x.truncated(context.max_rank)
        observed = problem.at_observed(x)
        return state.after(x, observed, certificate=relative_residual(problem, observed), final=True)

    def terms(self, problem: Problem, state: State, context: Context) -> Terms:
        """Compute ‖X‖_* and the violation of the constraint."""
        return constrained_terms(problem, state.x, state.x_observed)


def _solved(problem: Problem) -> Any:
    try:
        cp: Any = import_module("cvxpy")
    except ImportError as err:
        raise ImportError('the solver SDP needs cvxpy: pip install "snapimpute[sdp]"') from err
    m, n = problem.shape
    obs = problem.observations
    W = cp.Variable((m + n, m + n), PSD=True)
    X = W[:m, m:]
    programme = cp.Problem(cp.Minimize(0.5 * cp.trace(W)), [X[obs.rows, obs.cols] == problem.targets])
    programme.solve(solver=cp.CLARABEL)
    if programme.status not in ("optimal", "optimal_inaccurate"):
        raise FloatingPointError(f"the interior-point method ended with the status {programme.status!r}")
    return X.value
