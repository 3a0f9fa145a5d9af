"""Proximal gradient solvers: a gradient step on the smooth part of (E), then the spectral prox.

The smooth part of (E) is the fit on Ω plus the Moreau envelope of the discrete
penalty on Ωᶜ; its gradient is 1-Lipschitz, so every step has length 1, and
Y minus the gradient is `Problem.imputed`.

Each step solves its prox to a backward error of at most a fraction `accuracy`
of the last ‖X − Y‖_F, measured by the partial SVD. With an error of norm ε
plain proximal gradient still falls by ½‖X⁺ − X‖² − ε‖X⁺ − X‖.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from snapimpute.operators import LowRank, PartialSVD, partial_svd
from snapimpute.operators.base import MatrixOperator
from snapimpute.problem import ObjectiveName, Problem
from snapimpute.solvers.base import Context, Solver, State
from snapimpute.types import Array


@dataclass(frozen=True, eq=False)
class ProximalState(State):
    """Adds the iterate before, the right space to warm-start from, and t of the FISTA sequence, which begins 0, 1."""

    before: LowRank
    before_observed: Array
    subspace: Array | None
    t: float = 0.0


class ProximalGradient(Solver[ProximalState]):
    """The shared step: extrapolate, impute, threshold; Eqs. (8), (10) and (13)."""

    objective_name: ClassVar[ObjectiveName] = "E"
    accuracy: float

    def momentum(self, state: ProximalState) -> tuple[float, float]:
        """β of the next iteration, and the next t of the FISTA sequence."""
        return 0.0, state.t

    def init(self, problem: Problem, x0: LowRank, context: Context) -> ProximalState:
        """Start at x0 = X_0 = X_{−1}."""
        observed = problem.at_observed(x0)
        subspace = x0.V if x0.rank else None
        return ProximalState(x0, observed, 0, np.inf, np.inf, x0, observed, subspace)

    def step(self, problem: Problem, state: ProximalState, context: Context) -> ProximalState:
        """X_t = prox_λg(P_Ω(O) + P_Ωᶜ(prox_ξr(Y_t)))."""
        beta, t = self.momentum(state)
        y = LowRank.combine([1 + beta, -beta], [state.x, state.before])  # Eq. (13a), sign corrected
        y_observed = (1 + beta) * state.x_observed - beta * state.before_observed
        svd = self._leading_triplets(problem, problem.imputed(y, y_observed), state, context)  # Eq. (13b)
        x = threshold(problem, svd)  # Eq. (13c)
        return ProximalState(
            x=x,
            x_observed=problem.at_observed(x),
            iteration=state.iteration + 1,
            change=x.distance(state.x),
            certificate=x.distance(y) + svd.residual,
            before=state.x,
            before_observed=state.x_observed,
            subspace=svd.subspace,
            t=t,
        )

    def _leading_triplets(
        self, problem: Problem, operator: MatrixOperator, state: ProximalState, context: Context
    ) -> PartialSVD:
        above = problem.spectral.threshold()
        size = float(np.linalg.norm(problem.targets))
        # Before ‖X − Y‖ is known, one singular value just above the threshold is the least that matters.
        scale = state.certificate if np.isfinite(state.certificate) else max(above, 1e-6 * size)
        return partial_svd(
            operator,
            state.x.rank,
            above=above,
            warm_start=state.subspace,
            tol=max(self.accuracy * scale, 1e-12 * size),
            max_rank=context.max_rank,
            rng=context.rng(state.iteration),
        )


@dataclass(frozen=True)
class SoftImpute(ProximalGradient):
    """Proximal gradient: X⁺ = prox_λg(P_Ω(O) + P_Ωᶜ(prox_ξr(X))), Eq. (8) for ξ = 0.

    (E) falls in every step, for any penalty. Mazumder, Hastie, Tibshirani,
    JMLR 2010.

    Parameters
    ----------
    accuracy : float
        Backward error allowed to each prox, relative to the last ‖X − Y‖_F.
    """

    accuracy: float = 1e-2
    name: ClassVar[str] = "soft-impute"


@dataclass(frozen=True)
class APG(ProximalGradient):
    """Accelerated proximal gradient: the paper's Eq. (10), and Eq. (13) with a discrete penalty.

    The plain recursion: momentum, no continuation, restart or line search. For
    convex penalties E_t − E* ≤ 6‖X_0 − X*‖²/(t + 2)² (``beta="paper"``); for
    others nothing is promised.

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

    def __post_init__(self) -> None:
        if self.beta not in ("paper", "fista"):
            raise ValueError(f'beta must be "paper" or "fista", got {self.beta!r}')

    def momentum(self, state: ProximalState) -> tuple[float, float]:
        """β of the next iteration, and the next t of the FISTA sequence."""
        following = 0.5 * (1 + math.sqrt(1 + 4 * state.t**2))
        if self.beta == "fista":
            return max(state.t - 1, 0.0) / following, following
        iteration = state.iteration + 1
        return (iteration - 1) / (iteration + 2), following


def threshold(problem: Problem, svd: PartialSVD, step: float = 1.0) -> LowRank:
    """Apply the spectral prox to the singular values and drop the zeros."""
    s = problem.spectral.prox(svd.x.s, step)
    return LowRank(svd.x.U, s, svd.x.V).truncated(int((s > 0).sum()))
