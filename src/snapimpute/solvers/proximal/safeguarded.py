"""Solvers for penalties that are not convex: every step is checked against a bound on the objective.

A step of length below 1 lowers the objective by (1/step − 1)/2·‖X⁺ − V‖² if its
prox is exact. If a measured objective exceeds the bound, the step is taken again
from the last iterate with a finer SVD. If rounding leaves nothing to gain, the
iterate stays. The bound is a column of the history. `ComposedL1` is not the prox
of its value, so no bound holds with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import fields_of, stored
from snapimpute.linalg import LowRank
from snapimpute.problem import Problem, Terms
from snapimpute.solvers.base import ANY_SPECTRAL, Context, SolverInfo
from snapimpute.solvers.parameters import check_count, check_open, check_positive
from snapimpute.solvers.proximal.continuation import Continued
from snapimpute.solvers.proximal.gradient import (
    STEP_COST,
    MomentumState,
    Move,
    Point,
    ProximalSolver,
    ProximalState,
    arrived,
    moved,
    start,
)

FINER = (1.0, 1e-2, 1e-5, 1e-9)
"""Factor by which the accuracy of the prox improves after a refused step."""


@stored("state safeguarded", *fields_of(ProximalState), "bound")
@dataclass(frozen=True, eq=False, kw_only=True)
class SafeguardedState(ProximalState):
    """Adds the bound on the objective of this iterate."""

    bound: float


Q = TypeVar("Q", bound=SafeguardedState)


class Safeguarded(ProximalSolver[Q], Generic[Q]):
    """Base of safeguarded solvers: steps below the Lipschitz limit, and the way back if one fails."""

    step_size: float

    def __post_init__(self) -> None:
        check_open("step_size", self.step_size, 1.0)

    def columns(self, state: Q) -> dict[str, float]:
        """Return the bound on this iterate."""
        return {"bound": state.bound}

    def falling(self, problem: Problem, state: Q, context: Context) -> tuple[Move, Terms]:
        """Take a step from the iterate itself that does not raise the objective; if all fail, stay."""
        before = state.terms or problem.terms(*state.point, coverage=context.coverage)
        for finer in FINER:
            move = self.move(problem, state.point, state, context, step=self.step_size, finer=finer)
            terms = problem.terms(*move.to, coverage=context.coverage)
            if terms.objective <= before.objective + context.coverage.slack or not problem.exact:
                return move, terms
        return move.refused(state.point), before


def stayed_or_moved(state: Q, move: Move, **own: Any) -> Q:
    """Return the state after a move; a refused step adds nothing to what is known of the iterate."""
    certificate = state.certificate if move.to.x is state.x else move.certificate
    return moved(state, move, certificate=certificate, **own)


@stored("state nmapg", *fields_of(SafeguardedState), "z", "average", "t_before", "t", "q")
@dataclass(frozen=True, eq=False, kw_only=True)
class MonitorState(SafeguardedState):
    """Adds Z, the average c, which is the next bound, the t of two iterations, and the weight q of c."""

    z: Point
    average: float
    t_before: float = 0.0
    t: float = 1.0
    q: float = 1.0


@stored("solver nmapg", "step_size", "eta", "delta", "accuracy")
@dataclass(frozen=True)
class NMAPG(Safeguarded[MonitorState]):
    """Non-monotone accelerated proximal gradient: F(X_k) stays below c_k, an average of the values so far.

    The accelerated step is kept if F(Z⁺) ≤ c − δ‖Z⁺ − Y‖²; else a plain step
    is taken beside it, and the better of the two is kept.

    Parameters
    ----------
    step_size : float
        α, below 1.
    eta : float
        Weight of the past in c.
    delta : float
        δ: required distance of an accelerated step below c, relative to its squared length.
    accuracy : float
        Backward error allowed to each prox, relative to the last ‖X − Y‖_F.
    """

    step_size: float = 0.99
    eta: float = 0.8
    delta: float = 1e-4
    accuracy: float = 1e-2
    name: ClassVar[str] = "nmapg"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="nmAPG",
        minimises="(E), below a falling average",
        spectral=ANY_SPECTRAL,
        discrete=True,
        convex=False,
        cost=f"{STEP_COST}, objective; twice that where a step is refused",
        paper="Li, Lin, NeurIPS 2015",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.eta < 1:
            raise ArgumentError.must("eta", self.eta, "be at least 0 and below 1")
        check_positive("delta", self.delta)

    def init(self, problem: Problem, x0: LowRank, context: Context) -> MonitorState:
        """Start at z = x = x₋ = x0, t₋ = 0, t = 1, q = 1, c = F(x0)."""
        begin = start(problem, x0, context)
        terms = problem.terms(*begin.point, coverage=context.coverage)
        first = terms.objective
        return MonitorState.extending(begin, bound=first, z=begin.before, average=first, terms=terms)

    def step(self, problem: Problem, state: MonitorState, context: Context) -> MonitorState:
        """Take the accelerated step, or the better of it and a plain one."""
        a, b = state.t_before / state.t, (state.t_before - 1) / state.t
        y = Point.combine([1 - a + b, a, -b], [state.point, state.z, state.before])
        move = self.move(problem, y, state, context, step=self.step_size)
        z, terms = move.to, problem.terms(*move.to, coverage=context.coverage)
        if terms.objective > state.average - self.delta * move.length**2 + context.coverage.slack:
            plain, plain_terms = self.falling(problem, state, context)
            if plain_terms.objective <= terms.objective:
                move, terms = plain, plain_terms
        q = self.eta * state.q + 1
        return stayed_or_moved(
            state,
            move,
            bound=state.average,
            z=z,
            average=(self.eta * state.q * state.average + terms.objective) / q,
            t_before=state.t,
            t=0.5 * (math.sqrt(4 * state.t**2 + 1) + 1),
            q=q,
            terms=terms,
        )


@stored("state niapg", *fields_of(SafeguardedState), "recent")
@dataclass(frozen=True, eq=False, kw_only=True)
class RecentState(SafeguardedState):
    """Adds the objectives of the last iterates, whose largest is the next bound."""

    recent: tuple[float, ...] = ()


@stored("solver niapg", "q", "step_size", "accuracy")
@dataclass(frozen=True)
class NIAPG(Safeguarded[RecentState]):
    """Non-convex inexact accelerated proximal gradient: one prox in each iteration, F below a recent maximum.

    The step begins at the extrapolated point Y if F(Y) is at most the largest
    of the last q + 1 objectives, else at X. With LSP it is the baseline of the
    paper.

    Parameters
    ----------
    q : int
        Number of earlier objectives in the maximum.
    step_size : float
        η, below 1.
    accuracy : float
        Backward error wanted of each prox, relative to the last ‖X − Y‖_F.

    Notes
    -----
    The partial SVD takes two power steps (5 passes) at most.
    """

    q: int = 5
    step_size: float = 0.99
    accuracy: float = 0.1
    max_passes: ClassVar[int] = 5
    name: ClassVar[str] = "niapg"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="niAPG",
        minimises="(E), below the recent maximum",
        spectral=ANY_SPECTRAL,
        discrete=True,
        convex=False,
        cost=f"{STEP_COST}, 2 objectives",
        paper="Yao, Kwok, Gao, Chen, Liu, IJCAI 2017",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("q", self.q, least=0)

    def init(self, problem: Problem, x0: LowRank, context: Context) -> RecentState:
        """Start at X_0 = X_{−1} = x0."""
        begin = start(problem, x0, context)
        terms = problem.terms(*begin.point, coverage=context.coverage)
        return RecentState.extending(begin, bound=terms.objective, recent=(terms.objective,), terms=terms)

    def step(self, problem: Problem, state: RecentState, context: Context) -> RecentState:
        """Take a step from Y if F(Y) is low enough, else from X."""
        k, bound = state.iteration + 1, max(state.recent) + context.coverage.slack
        beta = (k - 1) / (k + 2)
        y = Point.combine([1 + beta, -beta], [state.point, state.before])
        move = None
        if (
            beta > 0
            and problem.terms(y.x.orthonormalised(), y.observed, coverage=context.coverage).objective <= bound
        ):
            move = self.move(problem, y, state, context, step=self.step_size)
            terms = problem.terms(*move.to, coverage=context.coverage)
        if move is None or (terms.objective > bound and problem.exact):
            move, terms = self.falling(problem, state, context)
        recent = (*state.recent, terms.objective)[-self.q - 1 :]
        return stayed_or_moved(state, move, bound=bound, recent=recent, terms=terms)


@stored("solver fancl", "nu", "step_size", "accuracy")
@dataclass(frozen=True)
class FaNCL(Continued):
    """Fast nonconvex low-rank: plain proximal gradient with few power steps, while λ falls.

    A step must lower the objective of its λ by c‖X⁺ − X‖², c = (1/step − 1)/4;
    if it does not, it is taken again with a finer SVD.

    Parameters
    ----------
    nu : float
        Speed at which λ falls: λ_i = (λ₀ − λ)νⁱ + λ.
    step_size : float
        1/τ, below 1.
    accuracy : float
        Backward error wanted of each prox, relative to the last ‖X − Y‖_F.

    Notes
    -----
    The partial SVD takes three power steps (7 passes) at most.
    """

    nu: float = 0.96
    step_size: float = 0.99
    accuracy: float = 0.1
    max_passes: ClassVar[int] = 7
    name: ClassVar[str] = "fancl"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="FaNCL",
        minimises="(E), falling in every step at its λ",
        spectral=ANY_SPECTRAL,
        discrete=True,
        convex=False,
        cost=f"{STEP_COST}, objective",
        paper="Yao, Kwok, Wang, Liu, IEEE TPAMI 2019",
    )

    def __post_init__(self) -> None:
        check_open("nu", self.nu, 1.0)
        check_open("step_size", self.step_size, 1.0)

    def momentum(self, state: MomentumState) -> tuple[float, float]:
        """Use no momentum."""
        return 0.0, state.t

    def next_lam(self, state: MomentumState, final: float) -> float:
        """Set λ_{i+1} − λ = ν(λ_i − λ)."""
        return final + self.nu * (state.spectral.lam - final)

    def step(self, problem: Problem, state: MomentumState, context: Context) -> MomentumState:
        """Take a plain step that falls far enough; if all fail, stay."""
        stage, point = self.stage(problem, state), state.point
        before = state.terms or problem.terms(*point, coverage=context.coverage)
        enough = (1 / self.step_size - 1) / 4
        limit = self.growth(problem, state)
        for finer in FINER:
            move = self.move(
                problem, point, state, context, spectral=stage, step=self.step_size, finer=finer, limit=limit
            )
            terms = problem.terms(*move.to, coverage=context.coverage)
            old, new = (
                replace(t, spectral=move.spectral.value(x.s)).objective
                for t, x in ((before, point.x), (terms, move.to.x))
            )
            if old - new >= enough * move.length**2 - context.coverage.slack or not problem.exact:
                return replace(arrived(problem, state, move, state.t), terms=terms)
        return replace(
            arrived(problem, state, move.refused(point), state.t), terms=before, certificate=state.certificate
        )
