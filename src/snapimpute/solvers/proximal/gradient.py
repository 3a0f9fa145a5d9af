"""Proximal gradient solvers: a gradient step on the smooth part of (E), then the spectral prox.

The smooth part of (E) is the fit on Ω plus the Moreau envelope of the discrete
penalty on Ωᶜ; its gradient is 1-Lipschitz, and Y minus the gradient is
`SmoothPart.imputed`, so that a step of length 1 thresholds that matrix.

Each step solves its prox to a backward error of at most a fraction `accuracy`
of the last ‖X − Y‖_F, measured by the partial SVD. With an error of norm ε
plain proximal gradient still falls by ½‖X⁺ − X‖² − ε‖X⁺ − X‖. Solvers whose
authors take a fixed number of power steps limit the passes of the partial SVD to
that number; the error that remains is measured, and counted in the certificate.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import fields_of, stored
from snapimpute.base.types import Array
from snapimpute.linalg import LowRank, partial_svd
from snapimpute.linalg.backend import Accuracy
from snapimpute.penalties import SpectralPenalty, lam_at_threshold
from snapimpute.problem import ObjectiveName, Problem
from snapimpute.solvers.base import ANY_SPECTRAL, Context, Solver, SolverInfo, State

STEP_COST = "3 passes: |Ω|k + (m+n)k², discrete: mn(r+k)"
"""Cost of a step with a good warm start; r is the rank, k = r + 10 and two random directions."""


ROUNDING = 0.25
"""Share of the error allowed to a prox that tiles of lower precision may use up."""


BELOW_NOISE = 0.5
"""If a gradient is known on a sample only, its partial SVD may err by this part of the noise."""


@stored("proximal point", "x", "observed")
class Point(NamedTuple):
    """A matrix and its entries on Ω."""

    x: LowRank
    observed: Array

    @classmethod
    def combine(cls, weights: Sequence[float], points: Sequence[Point]) -> Point:
        """Compute Σ_i weights_i · points_i; a point given twice is counted once."""
        merged: dict[int, tuple[float, Point]] = {}
        for weight, point in zip(weights, points, strict=True):
            merged[id(point.x)] = (weight + merged.get(id(point.x), (0.0, point))[0], point)
        felt = [(float(w), p) for w, p in merged.values() if w != 0]
        if len(felt) == 1 and felt[0][0] == 1:
            return felt[0][1]
        observed = np.zeros_like(points[0].observed)
        for weight, point in felt:
            observed += weight * point.observed
        weights_left, points_left = zip(*merged.values(), strict=True)
        return cls(LowRank.combine(weights_left, [p.x for p in points_left]), observed)


@stored("rank limit", "rank", "crowd")
class Limit(NamedTuple):
    """The largest rank that a step may have.

    Values within the factor ``crowd`` of the first one beyond are left out with it:
    so far they cannot be told from noise.
    """

    rank: int
    crowd: float

    def rank_of(self, s: Array, least: int) -> int:
        """Return the number of values to keep, given one more than ``rank`` of them."""
        return max(int((s[: self.rank] >= self.crowd * s[self.rank]).sum()), least)


@stored("proximal move", "to", "length", "error", "subspace", "step", "spectral", "jumps")
class Move(NamedTuple):
    """One proximal gradient step from Y: its end, length and error, and the start of the next SVD."""

    to: Point
    length: float
    error: float
    subspace: Array
    step: float
    spectral: SpectralPenalty
    jumps: bool = False

    def refused(self, at: Point) -> Move:
        """Refuse the step: the iterate stays, and only the length of the step is kept."""
        return self._replace(to=at, length=0.0, error=self.length)

    @property
    def certificate(self) -> float:
        """Bound on dist(0, ∂E(X)): I/step − ∇h is Lipschitz with the constant max(1, step − 1)/step.

        If the discrete penalty is not convex its prox may jump, and ∇h with it.
        Then this bounds the distance of 0 from the subdifferential of the joint
        objective at X and U = prox(Y); its minimum over U is (E). On Ωᶜ the
        residual is Y − X in U and (1/step − 1)(Y − X) in X, on Ω at most
        max(1, step − 1)/step·‖Y − X‖.
        """
        if self.jumps:
            reach = max(math.hypot(1.0, 1 / self.step - 1), 1 / self.step)
            return reach * self.length + self.error / self.step
        return (max(1.0, self.step - 1.0) * self.length + self.error) / self.step


@stored("state proximal", *fields_of(State), "before", "subspace", "scale")
@dataclass(frozen=True, eq=False, kw_only=True)
class ProximalState(State):
    """Adds the iterate before, the right space for a warm start, and the scale of the last move."""

    before: Point
    subspace: Array | None
    scale: float = math.inf

    @property
    def point(self) -> Point:
        """Iterate with its entries on Ω."""
        return Point(self.x, self.x_observed)


P = TypeVar("P", bound=ProximalState)


class ProximalSolver(Solver[P], Generic[P]):
    """Base of all proximal gradient solvers: the step and its accuracy."""

    objective_name: ClassVar[ObjectiveName] = "E"
    any_loss: ClassVar[bool] = True
    samples: ClassVar[bool] = True
    single: ClassVar[bool] = True
    anywhere: ClassVar[bool] = True
    max_passes: ClassVar[int] = 60
    accuracy: float

    def move(
        self,
        problem: Problem,
        y: Point,
        state: ProximalState,
        context: Context,
        *,
        spectral: SpectralPenalty | None = None,
        step: float = 1.0,
        gamma: float = 1.0,
        finer: float = 1.0,
        limit: Limit | None = None,
    ) -> Move:
        """Compute X = prox_{step·λg}(Y − step·∇h(Y)), with an error ``finer`` times that of `accuracy`.

        If the rank would exceed ``limit``, λ is raised until it does not. ``gamma`` is
        that of the envelope in h.
        """
        spectral = spectral or problem.spectral
        most = [r for r in (context.max_rank, None if limit is None else limit.rank + 1) if r is not None]
        above = spectral.threshold(step)
        size = problem.smooth.scale
        # While ‖X − Y‖ is unknown, one singular value just above the threshold is the least that matters.
        scale = state.scale if np.isfinite(state.scale) else max(above, 1e-6 * size)
        tol = max(finer * self.accuracy * scale, (1e-12 if problem.dtype == np.float64 else 1e-6) * size)
        right = state.x.V if state.subspace is None and state.x.rank else state.subspace
        share = step / gamma  # weight of the prox in the step: its noise and its error count as much
        accuracy = Accuracy(ROUNDING * tol / share, above / share, state.x.U, right)
        operator = problem.smooth.gradient_step(*y, step, gamma=gamma, accuracy=accuracy, coverage=context.coverage)
        svd = partial_svd(
            operator,
            state.x.rank,
            above=above,
            at_least=spectral.untouched,
            warm_start=state.subspace,
            tol=max(tol, BELOW_NOISE * share * context.coverage.noise),
            max_rank=min(most, default=None),
            max_passes=self.max_passes if finer == 1 else 60,
            rng=context.rng(state.iteration),
        )
        keep = svd.x.rank
        if limit is not None and keep > limit.rank:
            keep = limit.rank_of(svd.x.s, max(spectral.untouched, state.x.rank))
            spectral = spectral.with_lam(lam_at_threshold(spectral.with_lam, float(svd.x.s[keep]), step))
        s = spectral.prox(svd.x.s, step)[:keep].astype(problem.dtype, copy=False)
        kept = svd.x.truncated(int((s > 0).sum()))
        x = replace(kept, s=s[: kept.rank])
        observed = problem.at_observed(x)
        error = svd.residual + operator.error
        return Move(Point(x, observed), x.distance(y.x), error, svd.subspace, step, spectral, problem.jumps)


def start(problem: Problem, x0: LowRank, context: Context) -> ProximalState:
    """Return the fields of a `ProximalState` before the first iteration: X_0 = X_{−1} = x0, orthonormalised."""
    if x0.rank:
        x0 = x0.orthonormalised().truncated(context.max_rank or x0.rank)
    observed = problem.at_observed(x0)
    return ProximalState(x=x0, x_observed=observed, before=Point(x0, observed), subspace=x0.V if x0.rank else None)


@stored("state momentum", *fields_of(ProximalState), "spectral", "t", "continuing", "lipschitz")
@dataclass(frozen=True, eq=False, kw_only=True)
class MomentumState(ProximalState):
    """Adds the penalty of the stage, t of the FISTA sequence (it begins 0, 1), and 1/step if that changes."""

    spectral: SpectralPenalty
    t: float = 0.0
    continuing: bool = False
    lipschitz: float = 1.0

    @property
    def measure(self) -> float:
        """Relative change, once λ has come down to its final value."""
        return math.inf if self.continuing else super().measure

    @property
    def pending(self) -> str:
        """Say that λ is still coming down."""
        return "while λ was still coming down" if self.continuing else ""


class ProximalGradient(ProximalSolver[MomentumState]):
    """Extrapolate, impute, threshold: Eqs. (8), (10) and (13)."""

    step_size: float = 1.0

    @abstractmethod
    def momentum(self, state: MomentumState) -> tuple[float, float]:
        """Return β of the next iteration, and the next t of the FISTA sequence."""

    def stage(self, problem: Problem, state: MomentumState) -> SpectralPenalty:
        """Return the penalty of the next iteration; with continuation one with a larger λ."""
        return problem.spectral

    def growth(self, problem: Problem, state: MomentumState) -> Limit | None:
        """Return the largest rank of the next iterate; None is no limit."""
        return None

    def init(self, problem: Problem, x0: LowRank, context: Context) -> MomentumState:
        """Start at x0 = X_0 = X_{−1}."""
        return MomentumState.extending(start(problem, x0, context), spectral=problem.spectral)

    def step(self, problem: Problem, state: MomentumState, context: Context) -> MomentumState:
        """Compute X_t = prox_λg(P_Ω(O) + P_Ωᶜ(prox_ξr(Y_t)))."""
        spectral = self.stage(problem, state)
        beta, t = self.momentum(state)
        y = Point.combine([1 + beta, -beta], [state.point, state.before])  # Eq. (13a), sign corrected
        limit = self.growth(problem, state)
        move = self.move(  # Eqs. (13b), (13c)
            problem, y, state, context, spectral=spectral, step=self.step_size, limit=limit
        )
        return arrived(problem, state, move, t)


def moved(state: P, move: Move, **own: Any) -> P:
    """Return the state after a move, with fields of the solver's own."""
    known: dict[str, Any] = {"certificate": move.certificate, "before": state.point, "subspace": move.subspace}
    return state.after(*move.to, scale=move.length + move.error, **known | own)


def arrived(problem: Problem, state: MomentumState, move: Move, t: float) -> MomentumState:
    """Return the state after a move at its λ; only the final λ has a certificate."""
    continuing = move.spectral.lam > problem.spectral.lam
    certificate = math.inf if continuing else move.certificate
    return moved(state, move, certificate=certificate, spectral=move.spectral, t=t, continuing=continuing)


@stored("solver soft-impute", "accuracy")
@dataclass(frozen=True)
class SoftImpute(ProximalGradient):
    """Proximal gradient: X⁺ = prox_λg(P_Ω(O) + P_Ωᶜ(prox_ξr(X))), Eq. (8) for ξ = 0.

    (E) falls in every step, for any penalty. `solvers.path` gives its path of λ with
    warm starts.

    Parameters
    ----------
    accuracy : float
        Backward error allowed to each prox, relative to the last ‖X − Y‖_F.
    """

    accuracy: float = 1e-2
    name: ClassVar[str] = "soft-impute"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="Soft-Impute",
        minimises="(E), falling in every step",
        spectral=ANY_SPECTRAL,
        discrete=True,
        convex=False,
        cost=STEP_COST,
        paper="Mazumder, Hastie, Tibshirani, JMLR 2010",
    )

    def momentum(self, state: MomentumState) -> tuple[float, float]:
        """Use no momentum."""
        return 0.0, state.t


@stored("solver apg", "beta", "accuracy")
@dataclass(frozen=True)
class APG(ProximalGradient):
    """Accelerated proximal gradient: the paper's Eq. (10), and Eq. (13) with a discrete penalty.

    The plain recursion: momentum, no continuation, restart or line search. For
    convex penalties E_t − E* ≤ 6‖X_0 − X*‖²/(t + 2)² (``beta="paper"``); other
    penalties have no guarantee.

    Parameters
    ----------
    beta : {"paper", "fista"}
        β_t = (t − 1)/(t + 2), or the FISTA sequence.
    accuracy : float
        Backward error allowed to each prox, relative to the last ‖X − Y‖_F.
    """

    beta: Literal["paper", "fista"] = "paper"
    accuracy: float = 1e-2
    name: ClassVar[str] = "apg"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="Accelerated proximal gradient",
        minimises="(E); without convexity nothing is promised",
        spectral=ANY_SPECTRAL,
        discrete=True,
        convex=False,
        cost=STEP_COST,
        paper="Iimori, de Abreu, Taghizadeh, Ishibashi 2020, Eqs. 10, 13; Beck, Teboulle, SIIMS 2009",
    )

    def __post_init__(self) -> None:
        if self.beta not in ("paper", "fista"):
            raise ArgumentError.must("beta", self.beta, 'be "paper" or "fista"')

    def momentum(self, state: MomentumState) -> tuple[float, float]:
        """Return β of the next iteration, and the next t of the FISTA sequence."""
        beta, following = fista(state.t)
        if self.beta == "fista":
            return beta, following
        iteration = state.iteration + 1
        return (iteration - 1) / (iteration + 2), following


def fista(t: float, ratio: float = 1.0) -> tuple[float, float]:
    """Return (β, t⁺) of the FISTA sequence; ``ratio`` is the last step length over the present one."""
    following = 0.5 * (1 + math.sqrt(1 + 4 * ratio * t * t))
    return max(t - 1, 0.0) / following, following
