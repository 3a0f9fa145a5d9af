"""What is to be minimised: the terms, and the two objectives built from them.

    (P)  ½‖P_Ω(X − O)‖² + λ g(X) + ξ Σ_Ωᶜ r(x)
    (E)  ½‖P_Ω(X − O)‖² + λ g(X) + Σ_Ωᶜ min_u [ ξ r(u) + ½ (u − x)² ]

(P) is the problem as the paper states it (Eq. 11). (E) replaces the discrete
term by its Moreau envelope, and is what the paper's recursion (Eq. 13)
minimises when the prox is exact. Without a discrete term they are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from snapimpute.observations import Observations
from snapimpute.operators import LowRank, MappedLowRank, MatrixOperator, Scaled, Sparse, Sum, cell_sum
from snapimpute.penalties import DiscretePenalty, SpectralPenalty
from snapimpute.types import Array

ObjectiveName = Literal["E", "P", "C"]
"""(E), (P), or a constrained problem in which the fit does not count."""


@dataclass(frozen=True)
class Terms:
    """The three terms of an objective at one point; under a constraint the fit only tells how far it is kept."""

    fit: float
    spectral: float
    discrete: float
    constrained: bool = field(default=False, repr=False)

    @property
    def objective(self) -> float:
        """Their sum, without the fit if that is a constraint."""
        return (0.0 if self.constrained else self.fit) + self.spectral + self.discrete


@dataclass(frozen=True, eq=False)
class Problem:
    """Observations, a spectral penalty, and optionally a discrete penalty and offsets.

    Parameters
    ----------
    observations : Observations
        They need not lie on the alphabet (they may be noisy); to insist on it,
        use ``observations.on_alphabet(...)``.
    spectral : SpectralPenalty
        λ g, for instance ``Nuclear(10.0)``.
    discrete : DiscretePenalty, optional
        ξ r, for instance ``L1("1:5", xi=0.01)``; it acts on the entries not observed.
    offsets : LowRank, optional
        B, subtracted from the data before they are modelled: the mean, or
        biases. X then models O − B, and the discrete penalty acts on X + B.

    Examples
    --------
    >>> from snapimpute import L1, Nuclear
    >>> observations = Observations.from_dense([[1, 5, np.nan], [np.nan, 5, 1]])
    >>> problem = Problem(observations, Nuclear(1.0), L1("1:5", xi=0.1))
    >>> problem.terms(LowRank.zeros((2, 3)))
    Terms(fit=26.0, spectral=0.0, discrete=2.75)
    """

    observations: Observations
    spectral: SpectralPenalty
    discrete: DiscretePenalty | None = None
    offsets: LowRank | None = None

    def __post_init__(self) -> None:
        _check_kind("observations", self.observations, Observations)
        _check_kind("spectral", self.spectral, SpectralPenalty)
        if self.discrete is not None:
            _check_kind("discrete", self.discrete, DiscretePenalty)
        if self.offsets is not None:
            _check_kind("offsets", self.offsets, LowRank)
            if self.offsets.shape != self.shape:
                raise ValueError(f"offsets have shape {self.offsets.shape}, the observations {self.shape}")

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.observations.shape

    @property
    def is_discrete(self) -> bool:
        """Whether a discrete term is present and ξ > 0."""
        return self.discrete is not None and self.discrete.xi > 0

    @property
    def convex(self) -> bool:
        """Whether every term is convex."""
        return self.spectral.convex and (self.discrete is None or not self.is_discrete or self.discrete.convex)

    @cached_property
    def targets(self) -> Array:
        """O − B on the observed cells."""
        return self.observations.values - self._offset_entries

    @cached_property
    def _offset_entries(self) -> Array:
        return np.zeros(len(self.observations)) if self.offsets is None else self.at_observed(self.offsets)

    def at_observed(self, x: LowRank) -> Array:
        """P_Ω(X), in the stored order of the observations."""
        return x.entries(self.observations.rows, self.observations.cols)

    def with_offsets(self, x: LowRank) -> LowRank:
        """X + B."""
        return x if self.offsets is None else LowRank.combine([1.0, 1.0], [x, self.offsets])

    # ---------------------------------------------------------------- objectives
    def terms(self, x: LowRank, x_observed: Array | None = None, objective: ObjectiveName = "E") -> Terms:
        """Evaluate the three terms at X; one pass over all cells if the problem is discrete.

        Parameters
        ----------
        x : LowRank
            With orthonormal factors and s ≥ 0, as solvers return it.
        x_observed : array, optional
            P_Ω(X) where it is known already.
        objective : {"E", "P"}
            Whether the discrete term is its envelope or itself.
        """
        if objective not in ("E", "P"):
            raise ValueError(f'objective must be "E" or "P", got {objective!r}')
        observed = self.at_observed(x) if x_observed is None else x_observed
        fit = 0.5 * float(np.sum((observed - self.targets) ** 2))
        return Terms(fit, self.spectral.value(x.s), self._discrete_term(x, observed, objective))

    def objective(self, x: LowRank, objective: ObjectiveName = "E") -> float:
        """Evaluate (E) or (P) at X."""
        return self.terms(x, objective=objective).objective

    def _discrete_term(self, x: LowRank, observed: Array, objective: ObjectiveName) -> float:
        if self.discrete is None or not self.is_discrete:
            return 0.0
        cost = self.discrete.compiled("envelope" if objective == "E" else "value")
        on_observed = observed + self._offset_entries
        cost(on_observed)
        return cell_sum(self.with_offsets(x), cost) - float(on_observed.sum())

    # ---------------------------------------------------------------- the smooth part of (E)
    def imputed(self, y: LowRank, y_observed: Array) -> MatrixOperator:
        """P_Ω(O) + P_Ωᶜ(prox_ξr(Y)), the matrix that the recursion thresholds; Eqs. (13b), (13c).

        It is Y minus the gradient of the smooth part of (E) at Y. With offsets,
        everything is relative to them: prox(Y + B) − B.
        """
        if self.discrete is None or not self.is_discrete:
            return Sum((y, Sparse(self.observations, self.targets - y_observed)))
        prox = self.discrete.compiled("prox")
        on_observed = y_observed + self._offset_entries
        prox(on_observed)
        terms: list[MatrixOperator] = [MappedLowRank(self.with_offsets(y), prox)]
        terms.append(Sparse(self.observations, self.observations.values - on_observed))
        if self.offsets is not None:
            terms.append(LowRank.combine([-1.0], [self.offsets]))
        return Sum(tuple(terms))

    def gradient_step(self, y: LowRank, y_observed: Array, step: float) -> MatrixOperator:
        """Y minus ``step`` times the gradient at Y: (1 − step)·Y + step·`imputed`."""
        if step == 1:
            return self.imputed(y, y_observed)
        if not self.is_discrete:
            return Sum((y, Sparse(self.observations, step * (self.targets - y_observed))))
        return Sum((LowRank.combine([1 - step], [y]), Scaled(step, self.imputed(y, y_observed))))

    def curvature(self, x: LowRank, x_observed: Array, y: LowRank, y_observed: Array) -> float:
        """h(X) − h(Y) − ⟨∇h(Y), X − Y⟩ for the smooth part h of (E), which is at most ½‖X − Y‖²."""
        on_observed = 0.5 * float(np.sum((x_observed - y_observed) ** 2))
        if not self.is_discrete:
            return on_observed
        difference = LowRank.combine([1.0, -1.0], [x, y])
        # ⟨∇h(Y), X − Y⟩ less its part on Ω, as ∇h(Y) = Y − imputed(Y)
        slope = difference.inner(y) - difference.inner(self.imputed(y, y_observed))
        slope -= float((y_observed - self.targets) @ (x_observed - y_observed))
        envelopes = self._discrete_term(x, x_observed, "E") - self._discrete_term(y, y_observed, "E")
        return on_observed + envelopes - slope


def _check_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
