"""Solvers at a given rank: min ½‖P_Ω(X − O)‖² over the matrices of rank r.

At a fixed rank the penalty λ·rank is a constant, so these solvers treat the
spectral penalty `Rank`, whose weight does not enter. All begin with the leading
triplets of P_Ω(O), rescaled by mn/|Ω|. From there they are proved to find the
truth only for incoherent matrices with enough uniformly drawn entries. Their
certificate is the norm of the gradient along the matrices of rank r.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from snapimpute.base.types import Array
from snapimpute.linalg import LowRank, Sparse, partial_svd
from snapimpute.problem import ObjectiveName, Problem
from snapimpute.solvers.base import Context, Solver, State
from snapimpute.solvers.parameters import check_count

MAX_GUESS = 50
"""Largest rank that is considered if none is given."""

F = TypeVar("F", bound=State)


class FixedRank(Solver[F], Generic[F]):
    """Base of the solvers at a given rank: the start, the rank, the certificate."""

    objective_name: ClassVar[ObjectiveName] = "P"
    uses_lam: ClassVar[bool] = False
    rank: int | None

    def __post_init__(self) -> None:
        if self.rank is not None:
            check_count("rank", self.rank, otherwise=", or None")

    def spectral_start(self, problem: Problem, x0: LowRank, context: Context, trim: float = math.inf) -> LowRank:
        """Return x0 if it has the rank wanted, or any rank if none is; else the leading triplets of P_Ω(O)·mn/|Ω|."""
        side = min(problem.shape)
        limits = [limit for limit in (self.rank, context.max_rank) if limit is not None]
        rank = min(limits, default=None)
        if x0.rank and x0.rank >= min(rank or 1, side):
            return x0.orthonormalised().truncated(rank or side)
        values = _trimmed(problem, trim)
        operator = Sparse(problem.observations, values / problem.observations.density)
        count = min(rank or MAX_GUESS + 1, side)
        size = float(np.linalg.norm(operator.values))
        x = partial_svd(operator, count, tol=1e-6 * size, rng=context.rng(0)).x
        return x.truncated(rank or guess_rank(x.s, len(problem.observations), problem.shape))


def _trimmed(problem: Problem, trim: float) -> Array:
    """Scale down the targets in rows and columns of more than ``trim`` times the mean degree.

    A heavy row or column would shape the leading vectors alone. Scaling its entries
    down has the same expectation as dropping some of them.
    """
    obs = problem.observations
    factor = np.ones(len(obs))
    for index, size in ((obs.rows, obs.shape[0]), (obs.cols, obs.shape[1])):
        degree = np.bincount(index, minlength=size)
        limit = trim * len(obs) / size
        factor *= np.minimum(1.0, limit / np.maximum(degree, 1))[index]
    out: Array = problem.targets * factor
    return out


def guess_rank(s: Array, observed: int, shape: tuple[int, int]) -> int:
    """Guess the rank at which the spectrum falls off, by the rule of Keshavan and Oh.

    It is the i with the least (σ_{i+1} + σ₁√(i/ε))/σ_i, ε = |Ω|/√(mn).
    """
    if s.size < 2:
        return int(s.size)
    i = np.arange(1, s.size)
    epsilon = observed / math.sqrt(shape[0] * shape[1])
    cost = (s[1:] + s[0] * np.sqrt(i / epsilon)) / np.maximum(s[:-1], 1e-300)
    return int(i[np.argmin(cost)])


def tangent_gradient(problem: Problem, x: LowRank, observed: Array) -> float:
    """Compute the norm of the gradient P_Ω(X − O) along the tangent space of the matrices of X's rank."""
    residual = Sparse(problem.observations, observed - problem.targets)
    right, left = residual.matmat(x.V), residual.rmatmat(x.U)
    both = x.U.T @ right
    outside = right - x.U @ both
    return math.hypot(float(np.linalg.norm(outside)), float(np.linalg.norm(left)))


def reached(problem: Problem, state: F, x: LowRank, **own: Any) -> F:
    """Return the state after a step to X, with fields of the solver's own."""
    observed = problem.at_observed(x)
    return state.after(x, observed, certificate=tangent_gradient(problem, x, observed), **own)


def begun(problem: Problem, x: LowRank) -> State:
    """Return the fields of a `State` before the first step."""
    return State(x=x, x_observed=problem.at_observed(x))
