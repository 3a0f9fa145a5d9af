"""The smooth part of (E): the fit on the observed cells, and the envelope of the discrete penalty on the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.linalg import LowRank, MatrixOperator, Scaled, Sum, sparse
from snapimpute.linalg.backend import EXACT, Accuracy
from snapimpute.penalties import DiscretePenalty, Total
from snapimpute.problem.discreteness import ALL_CELLS, Coverage, DiscreteTerm
from snapimpute.problem.losses import Loss, Squares


@dataclass(frozen=True, eq=False)
class SmoothPart:
    """h(X): the loss on Ω plus the envelope of the discrete penalty on Ωᶜ; its gradient is 1-Lipschitz.

    Parameters are those of `Problem`, which makes it. Where a ``coverage`` may be given, a run says which cells the
    discrete term is computed on; by default it is all of them.

    Examples
    --------
    >>> from snapimpute.problem import Problem
    >>> from snapimpute.penalties import Nuclear
    >>> observations = Observations.from_dense([[1, 5, np.nan], [np.nan, 5, 1]])
    >>> smooth, zero = Problem(observations, Nuclear(1.0)).smooth, LowRank.zeros((2, 3))
    >>> smooth.imputed(zero, smooth.at_observed(zero)).to_dense()
    array([[1., 5., 0.],
           [0., 5., 1.]])
    """

    observations: Observations
    discrete: DiscretePenalty | None
    offsets: LowRank | None
    loss: Loss

    @cached_property
    def term(self) -> DiscreteTerm | None:
        """The discrete term, if there is one with ξ > 0."""
        if self.discrete is None or not self.discrete.xi > 0:
            return None
        return DiscreteTerm(self.discrete, self.observations)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the observed values, and of all that is computed from them."""
        return self.observations.values.dtype

    # ---------------------------------------------------------------- the fit
    @cached_property
    def targets(self) -> Array:
        """O − B on the observed cells."""
        return self.observations.values - self._offset_entries

    @cached_property
    def _offset_entries(self) -> Array:
        if self.offsets is None:
            return np.zeros_like(self.observations.values)
        return self.at_observed(self.offsets)

    @cached_property
    def _goal(self) -> Array:
        """Values that the loss compares X with: O − B under least squares, else O itself, and X + B with it."""
        return self.targets if isinstance(self.loss, Squares) else self.observations.values

    @cached_property
    def _base(self) -> Array | float:
        """Values added to X for that."""
        return 0.0 if isinstance(self.loss, Squares) or self.offsets is None else self._offset_entries

    def at_observed(self, x: LowRank) -> Array:
        """P_Ω(X), in the stored order of the observations."""
        return x.entries(self.observations.rows, self.observations.cols)

    def with_offsets(self, x: LowRank) -> LowRank:
        """X + B."""
        return x if self.offsets is None else LowRank.combine([1.0, 1.0], [x, self.offsets])

    def fit(self, x_observed: Array) -> float:
        """Evaluate the loss on Ω."""
        return self.loss.value(x_observed + self._base, self._goal)

    def fit_gradient(self, x_observed: Array) -> Array:
        """Evaluate its gradient on Ω."""
        gradient = self.loss.gradient(x_observed + self._base, self._goal)
        return gradient.astype(self.dtype, copy=False)

    @cached_property
    def scale(self) -> float:
        """Size of the data as solvers feel it, ‖∇loss(0)‖: under least squares ‖P_Ω(O − B)‖."""
        return float(np.linalg.norm(self.fit_gradient(np.zeros_like(self.observations.values))))

    # ---------------------------------------------------------------- the discrete term
    def discrete_total(
        self, x: LowRank, observed: Array, kind: Total, gamma: float, coverage: Coverage = ALL_CELLS
    ) -> float:
        """Evaluate the discrete term at X: the penalty, its envelope of step γ, or the penalty at the prox."""
        if self.term is None:
            return 0.0
        return self.term.total(self.with_offsets(x), observed + self._offset_entries, kind, gamma, coverage)

    @property
    def least_discrete(self) -> float:
        """Least value of the discrete term over all matrices."""
        return 0.0 if self.term is None else self.term.least

    def prox_dense(self, x: Array, step: float) -> Array:
        """prox_{step·ξr}(X + B) − B on Ωᶜ and X on Ω, for an array."""
        if self.term is None:
            return x.copy()
        if self.offsets is None:
            return self.term.prox_dense(x, step)
        base = self.offsets.to_dense()
        return self.term.prox_dense(x + base, step) - base

    # ---------------------------------------------------------------- both together
    def imputed(self, y: LowRank, y_observed: Array, coverage: Coverage = ALL_CELLS) -> MatrixOperator:
        """P_Ω(O) + P_Ωᶜ(prox_ξr(Y)), the matrix that the recursion thresholds; Eqs. (13b), (13c).

        It is Y minus the gradient of h at Y. With offsets, everything is relative to them: prox(Y + B) − B.
        """
        return self.gradient_step(y, y_observed, 1.0, coverage=coverage)

    def gradient_step(
        self,
        y: LowRank,
        y_observed: Array,
        step: float,
        *,
        gamma: float = 1.0,
        accuracy: Accuracy = EXACT,
        coverage: Coverage = ALL_CELLS,
    ) -> MatrixOperator:
        """Y minus ``step`` times the gradient of h at Y, of the accuracy required."""
        if self.term is None:
            return Sum((y, sparse(self.observations, -step * self.fit_gradient(y_observed))))
        mapped, on_observed = self.term.prox(
            self.with_offsets(y), y_observed + self._offset_entries, gamma, accuracy, coverage
        )
        # On Ωᶜ the gradient is (Y − prox(Y))/γ: a share of the prox, the rest of Y itself.
        share = step / gamma
        terms = [mapped if share == 1 else Scaled(share, mapped)]
        if share != 1:
            terms.append(LowRank.combine([1 - share], [y]))
        if self.offsets is not None:
            terms.append(LowRank.combine([-share], [self.offsets]))
        return Sum((*terms, sparse(self.observations, self._correction(y_observed, on_observed, step, share))))

    def _correction(self, y_observed: Array, on_observed: Array, step: float, share: float) -> Array:
        """Values to be added on Ω, where the step is to lead to y − step·∇loss(y)."""
        if step == share == 1 and isinstance(self.loss, Squares):
            return self.observations.values - on_observed
        wanted = y_observed - step * self.fit_gradient(y_observed)
        change: Array = wanted - (1 - share) * y_observed - share * (on_observed - self._offset_entries)
        return change

    def curvature(
        self, x: LowRank, x_observed: Array, y: LowRank, y_observed: Array, coverage: Coverage = ALL_CELLS
    ) -> float:
        """h(X) − h(Y) − ⟨∇h(Y), X − Y⟩, which is at most ½‖X − Y‖²."""
        on_observed = self.loss.curvature(x_observed + self._base, y_observed + self._base, self._goal)
        if self.term is None:
            return on_observed
        difference = LowRank.combine([1.0, -1.0], [x, y])
        # ⟨∇h(Y), X − Y⟩ less its part on Ω, as ∇h(Y) = Y − imputed(Y)
        slope = difference.inner(y) - difference.inner(self.imputed(y, y_observed, coverage))
        slope -= float(self.fit_gradient(y_observed) @ (x_observed - y_observed))
        there = self.discrete_total(x, x_observed, "envelope", 1.0, coverage)
        return on_observed + (there - self.discrete_total(y, y_observed, "envelope", 1.0, coverage)) - slope
