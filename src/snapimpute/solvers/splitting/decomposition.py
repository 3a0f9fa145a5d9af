"""Penalty decomposition: the problem as stated, (P), for any penalty and any size, by ever closer envelopes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import fields_of, stored
from snapimpute.linalg import LowRank
from snapimpute.problem import ObjectiveName, Problem, Terms
from snapimpute.solvers.base import ANY_SPECTRAL, Context, SolverInfo
from snapimpute.solvers.parameters import check_open, check_positive
from snapimpute.solvers.proximal.gradient import (
    STEP_COST,
    Move,
    Point,
    ProximalSolver,
    ProximalState,
    fista,
    moved,
    start,
)
from snapimpute.solvers.proximal.safeguarded import FINER


@stored("state penalty-decomposition", *fields_of(ProximalState), "gamma", "final_gamma", "envelope", "t")
@dataclass(frozen=True, eq=False, kw_only=True)
class DecompositionState(ProximalState):
    """Adds γ, its last value, the objective of its envelope, and t of the FISTA sequence."""

    gamma: float
    final_gamma: float
    envelope: float
    t: float = 0.0

    @property
    def measure(self) -> float:
        """Relative change over γ, once γ has come down to its final value."""
        return math.inf if self.pending else self.relative_change / self.gamma

    @property
    def pending(self) -> str:
        """Say that γ is still coming down."""
        return "while γ was still coming down" if self.gamma > self.final_gamma else ""


@stored("solver penalty-decomposition", "gamma", "fall", "stage_tol", "accuracy")
@dataclass(frozen=True)
class PenaltyDecomposition(ProximalSolver[DecompositionState]):
    """Penalty decomposition for (P): min f(X) + λg(X) + ξr(U) + ‖X − U‖²/(2γ) over X and U, while γ falls.

    For a given γ its minimum over U is (E) with the envelope of step γ, which
    falls in every step (column "envelope"), for any penalties, and never exceeds
    (P) at the same X. The objective reported is that of (P) at the pair (X, U), and
    equals (P) if X = U; the column "gap" is ‖X − U‖. The certificate bounds the norm
    of an element of ∇f(X) + λ∂g(X) + ξ∂r(U'), where U' is the prox of the point Y
    that the step began at. As the steps become short, U' = U unless an entry lies at
    a jump, and certificate and gap are the first-order conditions of (P). A gap
    below about 1e-8 times the root of the objective is rounding. `ComposedL1` has
    other symbols here; see there.

    Parameters
    ----------
    gamma : float
        The last γ, above 0 and at most 1.
    fall : float
        Factor by which γ falls when X has settled.
    stage_tol : float
        X has settled when its relative change over γ is at most this.
    accuracy : float
        Backward error allowed to each prox, relative to the last ‖X − Y‖_F.

    Notes
    -----
    Under L1 and L2, (P) exceeds the last envelope by at most γ/2 times the
    squared slope of the penalty: (ξ Σ w_k)² for each unobserved entry under L1,
    for all of them together under L2. A step has the length γ, so that a small γ
    costs iterations.
    """

    gamma: float = 0.01
    fall: float = 0.5
    stage_tol: float = 1e-3
    accuracy: float = 1e-2
    name: ClassVar[str] = "penalty-decomposition"
    objective_name: ClassVar[ObjectiveName] = "P"
    samples: ClassVar[bool] = False
    single: ClassVar[bool] = False
    measures: ClassVar[str] = "relative change over γ"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="Penalty decomposition",
        minimises="(P), by envelopes that fall in every step",
        spectral=ANY_SPECTRAL,
        discrete=True,
        convex=False,
        cost=f"{STEP_COST}, 2 objectives",
        paper="Lu, Zhang, SIAM J. Optimization 2013 (for ℓ0 problems)",
    )

    def __post_init__(self) -> None:
        if not 0 < self.gamma <= 1:
            raise ArgumentError.must("gamma", self.gamma, "be above 0 and at most 1")
        check_open("fall", self.fall, 1.0)
        check_positive("stage_tol", self.stage_tol)

    def init(self, problem: Problem, x0: LowRank, context: Context) -> DecompositionState:
        """Start at γ = 1, the envelope of the plain recursion; without a discrete term γ stays there."""
        begin = start(problem, x0, context)
        final = self.gamma if problem.is_discrete else 1.0
        envelope = problem.terms(*begin.point).objective
        return DecompositionState.extending(begin, gamma=1.0, final_gamma=final, envelope=envelope)

    def step(self, problem: Problem, state: DecompositionState, context: Context) -> DecompositionState:
        """Take a step with momentum if that lowers the envelope, else a plain one."""
        state = self._staged(problem, state)
        beta, t = fista(state.t)
        y = Point.combine([1 + beta, -beta], [state.point, state.before])
        move, reached = self._tried(problem, y, state, context)
        if reached > state.envelope and problem.exact:
            move, reached = self._plain(problem, state, context)
            t = 1.0
        certificate = state.certificate
        if move.to.x is not state.x:
            certificate = (move.length + move.error) / state.gamma
        terms = problem.split_terms(*move.to, state.gamma)
        return moved(state, move, certificate=certificate, envelope=reached, t=t, terms=terms)

    def _staged(self, problem: Problem, state: DecompositionState) -> DecompositionState:
        """Return the state at the next γ, if X has settled: with another envelope, and without momentum."""
        settled = state.iteration > 0 and state.relative_change <= self.stage_tol * state.gamma
        if not (settled and state.pending):
            return state
        gamma = max(self.fall * state.gamma, state.final_gamma)
        envelope = problem.terms(state.x, state.x_observed, gamma=gamma).objective
        return replace(state, gamma=gamma, envelope=envelope, t=0.0)

    def _tried(
        self, problem: Problem, y: Point, state: DecompositionState, context: Context, finer: float = 1.0
    ) -> tuple[Move, float]:
        """Try a step from Y; return it and the envelope there."""
        move = self.move(problem, y, state, context, step=state.gamma, gamma=state.gamma, finer=finer)
        return move, problem.terms(*move.to, gamma=state.gamma).objective

    def _plain(self, problem: Problem, state: DecompositionState, context: Context) -> tuple[Move, float]:
        """Take a step from X itself that does not raise the envelope; if all fail, stay."""
        for finer in FINER:
            move, reached = self._tried(problem, state.point, state, context, finer)
            if reached <= state.envelope:
                return move, reached
        return move.refused(state.point), state.envelope

    def merit(self, state: DecompositionState, terms: Terms) -> float:
        """Return the envelope at the last γ; earlier ones are not comparable."""
        return math.inf if state.pending else state.envelope

    def columns(self, state: DecompositionState) -> dict[str, float]:
        """Return γ, the objective of its envelope, and ‖X − U‖."""
        rest = 0.0 if state.terms is None else max(state.envelope - state.terms.objective, 0.0)
        return {"gamma": state.gamma, "envelope": state.envelope, "gap": math.sqrt(2 * state.gamma * rest)}
