"""Recursion of the paper's sequel: the fractional ℓ0 majorised at the last Z, in closed form, while α falls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import fields_of, stored
from snapimpute.base.types import Array
from snapimpute.linalg import LowRank
from snapimpute.penalties import MajorisedPenalty
from snapimpute.problem import ObjectiveName, Problem, Terms
from snapimpute.solvers.base import ANY_SPECTRAL, Context, SolverInfo
from snapimpute.solvers.parameters import check_open
from snapimpute.solvers.splitting.dense import DenseSolver, DenseState, dense_start


@stored("state mm", *fields_of(DenseState), "alpha", "final_alpha", "joint")
@dataclass(frozen=True, eq=False, kw_only=True)
class MajorisedState(DenseState):
    """Adds α and the joint objective at it; ``dense`` is Z, offsets included, and what was observed on Ω."""

    alpha: float
    final_alpha: float
    joint: float

    @property
    def measure(self) -> float:
        """Relative change, once α has come down to its final value."""
        return math.inf if self.pending else self.relative_change

    @property
    def pending(self) -> str:
        """Say that α is still coming down."""
        return "while α was still coming down" if self.alpha > self.final_alpha else ""


@stored("solver mm", "first", "fall", "accuracy")
@dataclass(frozen=True)
class MM(DenseSolver[MajorisedState]):
    """Majorise and minimise: Z⁺ = majorised(X; Z) of `FractionalL0`, X⁺ = prox_λg(P_Ω(O) + P_Ωᶜ(Z⁺)).

    At a given α the joint objective f(X) + λg(X) + ξr(Z) + ½‖P_Ωᶜ(Z − X)‖² falls
    in every step (column "joint"), for any spectral penalty; its minimum over Z
    is (E), which is reported. The majoriser has to touch at the last Z: anchored at
    X, the objective may rise. So Z is stored, m×n numbers. The certificate is the
    gradient of the joint objective in Z plus the error of the SVD, and infinite
    while α is falling.

    Parameters
    ----------
    first : float, optional
        α at the start; by default the squared largest distance between neighbouring
        symbols. The last α is that of the penalty.
    fall : float
        Factor by which α falls in every iteration.
    accuracy : float
        Backward error allowed to each SVD, relative to the last change.
    """

    first: float | None = None
    fall: float = 0.9
    accuracy: float = 1e-3
    name: ClassVar[str] = "mm"
    objective_name: ClassVar[ObjectiveName] = "E"
    measures: ClassVar[str] = "relative change"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="Majorise–minimise",
        minimises="(E) with FractionalL0, α falling",
        spectral=ANY_SPECTRAL,
        discrete=True,
        convex=False,
        cost="3 passes over a dense table: mn·k, 2mn numbers stored",
        paper="the sequel of the paper, arXiv 2405.02101 (2024)",
    )

    def __post_init__(self) -> None:
        check_open("fall", self.fall, 1.0)
        if self.first is not None and not 0 < self.first < np.inf:
            raise ArgumentError.must("first", self.first, "be a finite number above 0, or None")

    @classmethod
    def objection(cls, problem: Problem) -> str | None:
        """Refuse what any dense solver refuses, and every penalty except the one with this majoriser."""
        if not (isinstance(problem.discrete, MajorisedPenalty) and problem.is_discrete):
            return f"needs the discrete penalty FractionalL0 with ξ > 0, not {problem.discrete!r}"
        return super().objection(problem)

    @staticmethod
    def instead(problem: Problem) -> str:
        """Name the alternative for a large table."""
        return "the proximal solvers take the exact prox of FractionalL0 and store none"

    def init(self, problem: Problem, x0: LowRank, context: Context) -> MajorisedState:
        """Start at Z = x0."""
        penalty = _majorised(problem)
        x = x0.orthonormalised() if x0.rank else x0
        alpha = max(penalty.widest if self.first is None else self.first, penalty.alpha)
        start = dense_start(problem, x, _filled(problem, x))
        joint = self._joint(problem, x, start.x_observed, start.dense, penalty.with_alpha(alpha))
        return MajorisedState.extending(start, alpha=alpha, final_alpha=penalty.alpha, joint=joint)

    def step(self, problem: Problem, state: MajorisedState, context: Context) -> MajorisedState:
        """Update Z by the closed formula, then X."""
        final = _majorised(problem)
        alpha = max(self.fall * state.alpha, final.alpha) if state.iteration else state.alpha
        penalty = final.with_alpha(alpha)
        seen = problem.observations.rows, problem.observations.cols
        Z = penalty.majorised(_filled(problem, state.x), state.dense)
        Z[seen] = problem.observations.values
        base = 0.0 if problem.offsets is None else problem.offsets.to_dense()
        svd = self.shrunk(problem, Z - base, 1.0, state, context)
        observed = problem.at_observed(svd.x)
        left = Z - _filled(problem, svd.x) + penalty.slope(Z)
        left[seen] = 0
        return state.after(
            svd.x,
            observed,
            certificate=float(np.linalg.norm(left)) + svd.residual if alpha == final.alpha else math.inf,
            dense=Z,
            gap=0.0,
            subspace=svd.subspace,
            alpha=alpha,
            joint=self._joint(problem, svd.x, observed, Z, penalty),
        )

    @staticmethod
    def _joint(problem: Problem, x: LowRank, observed: Array, Z: Array, penalty: MajorisedPenalty) -> float:
        """Compute f(X) + λg(X) + ξr(Z) + ½‖P_Ωᶜ(Z − X)‖²."""
        cells = penalty.value(Z) + 0.5 * (Z - _filled(problem, x)) ** 2
        cells[problem.observations.rows, problem.observations.cols] = 0
        return problem.smooth.fit(observed) + problem.spectral.value(x.s) + float(cells.sum())

    def merit(self, state: MajorisedState, terms: Terms) -> float:
        """Return the objective: an X of a larger α counts as well."""
        return terms.objective

    def columns(self, state: MajorisedState) -> dict[str, float]:
        """Return α, and the joint objective at it."""
        return {"alpha": state.alpha, "joint": state.joint}


def _majorised(problem: Problem) -> MajorisedPenalty:
    assert isinstance(problem.discrete, MajorisedPenalty)  # noqa: S101 - `objection` has seen to it
    return problem.discrete


def _filled(problem: Problem, x: LowRank) -> Array:
    """Return X + B as an array."""
    return problem.with_offsets(x).to_dense()
