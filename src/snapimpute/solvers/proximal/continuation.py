"""Solvers that begin with a large λ and bring it down, so that every step has a small rank.

At the first λ the first step would just give X = 0. A start that is not zero is
taken as warm, and λ then has its final value at once. The column "lam" of the
history shows λ, and the objective always uses the final one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from snapimpute.base.files import stored
from snapimpute.linalg import LowRank, partial_svd
from snapimpute.penalties import SpectralPenalty, lam_at_threshold
from snapimpute.problem import Coverage, Problem
from snapimpute.problem.losses import Squares
from snapimpute.solvers.base import Context, SolverInfo
from snapimpute.solvers.parameters import check_open
from snapimpute.solvers.proximal.gradient import (
    STEP_COST,
    Limit,
    MomentumState,
    Move,
    Point,
    ProximalGradient,
    arrived,
    fista,
)

CLOSE = 1e-2
"""λ is set to its final value when it is within this fraction of it."""


GROWTH = 3
"""Largest growth of the rank in an iteration, if a tenth is not more; λ waits meanwhile."""

CROWD, SETTLED = 1.01, 0.02
"""While the relative change exceeds the second, values within the factor of the first do not join."""


def first_penalty(problem: Problem, x0: LowRank, context: Context) -> SpectralPenalty:
    """Return the penalty with the least λ at which a step from X = 0 stays; for a warm start the problem's own."""
    if x0.rank:
        return problem.spectral
    operator = problem.smooth.imputed(x0, problem.at_observed(x0), context.coverage)
    size = problem.smooth.scale
    sigma = partial_svd(operator, 1, tol=1e-2 * size, rng=context.rng(0)).x.s
    lam = lam_at_threshold(problem.spectral.with_lam, float(sigma[0]))
    return problem.spectral.with_lam(max(lam, problem.spectral.lam))


def towards(final: SpectralPenalty, lam: float, size: float) -> SpectralPenalty:
    """Return the penalty at ``lam``, or the final one if that is close, or negligible beside the data."""
    near = lam - final.lam <= max(CLOSE * final.lam, 1e-9 * size)
    return final if near else final.with_lam(lam)


class Continued(ProximalGradient):
    """Adds the fall of λ."""

    def init(self, problem: Problem, x0: LowRank, context: Context) -> MomentumState:
        """Start at x0 with the first λ."""
        return replace(super().init(problem, x0, context), spectral=first_penalty(problem, x0, context))

    def stage(self, problem: Problem, state: MomentumState) -> SpectralPenalty:
        """Take the next λ, rounded to the final one when close."""
        if state.spectral.lam <= problem.spectral.lam:
            return problem.spectral
        size = max(problem.smooth.scale, state.size)
        return towards(problem.spectral, self.next_lam(state, problem.spectral.lam), size)

    @abstractmethod
    def next_lam(self, state: MomentumState, final: float) -> float:
        """Return λ of the next iteration."""

    def growth(self, problem: Problem, state: MomentumState) -> Limit | None:
        """Limit the rank to a few more than now: else λ outruns the fit, and the rank explodes.

        While X still moves, only values that stand out may join. When X has
        settled, λ goes on. At the final λ there is no limit.
        """
        if state.spectral.lam <= problem.spectral.lam:
            return None
        rank = max(state.x.rank, problem.spectral.untouched)
        moving = state.change > SETTLED * state.size > 0
        return Limit(rank + max(GROWTH, rank // 10), CROWD if moving else 1.0)

    def columns(self, state: MomentumState) -> dict[str, float]:
        """Return λ of the iteration."""
        return {"lam": state.spectral.lam}


@stored("solver fpc", "tau", "eta", "stage_tol", "accuracy")
@dataclass(frozen=True)
class FPC(Continued):
    """Fixed point continuation: X⁺ = prox_{τμ g}(X − τ∇h(X)) with τ up to 2, until it settles; then a smaller μ.

    The map is nonexpansive for every τ < 2 while the terms are convex; with a
    discrete penalty that is not, (E) still falls at a fixed μ.

    Parameters
    ----------
    tau : float
        Step length, above 0 and below 2.
    eta : float
        μ falls by this factor from stage to stage, down to λ.
    stage_tol : float
        A stage ends when the relative change is at most this.
    accuracy : float
        Backward error allowed to each prox, relative to the last ‖X − Y‖_F.
    """

    tau: float = 1.99
    eta: float = 0.25
    stage_tol: float = 1e-3
    accuracy: float = 1e-2
    name: ClassVar[str] = "fpc"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="FPC",
        minimises="(E)",
        spectral=("nuclear",),
        discrete=True,
        convex=False,
        cost=STEP_COST,
        paper="Ma, Goldfarb, Chen, Math. Programming 2011",
    )

    def __post_init__(self) -> None:
        check_open("tau", self.tau, 2.0)
        check_open("eta", self.eta, 1.0)

    @property
    def step_size(self) -> float:  # type: ignore[override]
        """Step length τ."""
        return self.tau

    def momentum(self, state: MomentumState) -> tuple[float, float]:
        """Use no momentum."""
        return 0.0, state.t

    def next_lam(self, state: MomentumState, final: float) -> float:
        """Set μ ← max(ημ, λ) when the stage has settled."""
        if state.iteration == 0:
            return self.eta * state.spectral.lam
        relative = state.change / state.size if state.size else 0.0
        return self.eta * state.spectral.lam if relative <= self.stage_tol else state.spectral.lam


@stored("solver fpca", "tau", "eta", "stage_tol", "accuracy")
@dataclass(frozen=True)
class FPCA(FPC):
    """FPC with an approximate, randomised SVD: every one starts from random vectors, none from the last.

    The authors sample columns. This version takes random combinations of all
    columns, and as many power steps as the measured error requires. FPC, with its
    warm starts, needs far fewer passes.
    """

    accuracy: float = 0.1
    name: ClassVar[str] = "fpca"
    info: ClassVar[SolverInfo] = replace(FPC.info, title="FPCA", cost=STEP_COST.replace("3", "10 and more"))

    def move(self, problem: Problem, y: Point, state: MomentumState, context: Context, **how: object) -> Move:  # type: ignore[override]
        """Make the move of `ProximalSolver` from a random block."""
        return super().move(problem, y, replace(state, subspace=None), context, **how)  # type: ignore[arg-type]


@stored("solver ais-impute", "nu", "accuracy")
@dataclass(frozen=True)
class AISImpute(Continued):
    """Accelerated inexact Soft-Impute: momentum, λ_i = (λ₀ − λ)νⁱ + λ, few power steps, restart.

    The momentum restarts when the objective, at the final λ, rises. A discrete
    penalty that is not convex voids all guarantees.

    Parameters
    ----------
    nu : float
        Speed at which λ falls.
    accuracy : float
        Backward error wanted of each prox, relative to the last ‖X − Y‖_F.

    Notes
    -----
    The partial SVD starts from the right vectors of the last iterate with their
    guards, and takes ten power steps (21 passes) at most.
    """

    nu: float = 0.85
    accuracy: float = 0.1
    max_passes: ClassVar[int] = 21
    name: ClassVar[str] = "ais-impute"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="AIS-Impute",
        minimises="(E)",
        spectral=("nuclear",),
        discrete=True,
        convex=False,
        cost=STEP_COST,
        paper="Yao, Kwok, IJCAI 2015",
    )

    def __post_init__(self) -> None:
        check_open("nu", self.nu, 1.0)

    def momentum(self, state: MomentumState) -> tuple[float, float]:
        """Follow the FISTA sequence."""
        return fista(state.t)

    def next_lam(self, state: MomentumState, final: float) -> float:
        """Set λ_{i+1} − λ = ν(λ_i − λ)."""
        return final + self.nu * (state.spectral.lam - final)

    def step(self, problem: Problem, state: MomentumState, context: Context) -> MomentumState:
        """Take a step with momentum, which restarts if the objective rose."""
        after = super().step(problem, state, context)
        terms = problem.terms(after.x, after.x_observed, coverage=context.coverage)
        rose = state.terms is not None and terms.objective > state.terms.objective + context.coverage.slack
        return replace(after, terms=terms, t=1.0 if rose else after.t)


@stored("solver apgl", "fall", "shrink", "accuracy")
@dataclass(frozen=True)
class APGL(Continued):
    """Accelerated proximal gradient with line search and continuation: steps 1/L with the least L that works.

    Each iteration first tries an L smaller by the factor ``shrink``, and raises it, up
    to 1, until h(X) ≤ h(Y) + ⟨∇h(Y), X − Y⟩ + (L/2)‖X − Y‖². The FISTA sequence takes
    the change of the step length into account, so its rate holds where every
    term is convex.

    Parameters
    ----------
    fall : float
        μ ← max(fall·μ, λ) in every iteration.
    shrink : float
        Factor between trials of L.
    accuracy : float
        Backward error allowed to each prox, relative to the last ‖X − Y‖_F.
    """

    fall: float = 0.7
    shrink: float = 0.8
    accuracy: float = 1e-2
    name: ClassVar[str] = "apgl"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="APGL (NNLS)",
        minimises="(E)",
        spectral=("nuclear",),
        discrete=True,
        convex=False,
        cost=f"{STEP_COST}; as much again for a trial that fails",
        paper="Toh, Yun, Pacific J. Optimization 2010; Scheinberg, Goldfarb, Bai, FoCM 2014 (changing steps)",
    )

    def __post_init__(self) -> None:
        check_open("fall", self.fall, 1.0)
        check_open("shrink", self.shrink, 1.0)

    def next_lam(self, state: MomentumState, final: float) -> float:
        """Set μ ← max(fall·μ, λ)."""
        return max(self.fall * state.spectral.lam, final)

    def momentum(self, state: MomentumState) -> tuple[float, float]:
        """Follow the FISTA sequence."""
        return fista(state.t)

    def step(self, problem: Problem, state: MomentumState, context: Context) -> MomentumState:
        """Take the longest of the steps tried that stays below the model."""
        spectral = self.stage(problem, state)
        trial = max(self.shrink * state.lipschitz, 1e-6)
        while True:
            beta, t = fista(state.t, trial / state.lipschitz)
            y = Point.combine([1 + beta, -beta], [state.point, state.before])
            limit = self.growth(problem, state)
            move = self.move(problem, y, state, context, spectral=spectral, step=1 / trial, limit=limit)
            if trial >= 1 or self._holds(problem, move, y, trial, context.coverage):
                break
            trial = min(trial / self.shrink, 1.0)
        return replace(arrived(problem, state, move, t), lipschitz=trial)

    @staticmethod
    def _holds(problem: Problem, move: Move, y: Point, lipschitz: float, coverage: Coverage) -> bool:
        # Except for plain least squares the curvature is a difference of sums: possible rounding counts against it.
        sums = problem.is_discrete or not isinstance(problem.loss, Squares)
        rounding = 50 * float(np.finfo(problem.dtype).eps)
        doubt = rounding * float(np.sum(problem.targets**2, dtype=np.float64)) if sums else 0.0
        doubt += coverage.slack + coverage.noise * math.sqrt(move.to.x.rank) * move.length
        return problem.smooth.curvature(*move.to, *y, coverage) + doubt <= 0.5 * lipschitz * move.length**2

    def columns(self, state: MomentumState) -> dict[str, float]:
        """Return λ and the step length of the iteration."""
        return super().columns(state) | {"step": 1 / state.lipschitz}
