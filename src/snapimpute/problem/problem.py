"""What is to be minimised: the terms, and the two objectives built from them.

    (P)  ½‖P_Ω(X − O)‖² + λ g(X) + ξ Σ_Ωᶜ r(x)
    (E)  ½‖P_Ω(X − O)‖² + λ g(X) + Σ_Ωᶜ min_u [ ξ r(u) + ½ (u − x)² ]

(P) is the problem as the paper states it (Eq. 11). (E) replaces the discrete
term by its Moreau envelope, and is what the paper's recursion (Eq. 13)
minimises when the prox is exact. Without a discrete term they are the same.
With ½ (u − x)²/γ in place of ½ (u − x)², (E) tends to (P) from below as γ → 0;
methods that take a ``gamma`` mean that. The fit may be another loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.linalg import LowRank, MatrixOperator, Scaled, Sum, sparse
from snapimpute.linalg.backend import EXACT, Accuracy, Backend
from snapimpute.penalties import DiscretePenalty, SpectralPenalty
from snapimpute.problem.discreteness import DiscreteTerm, Total
from snapimpute.problem.losses import Loss, Squares
from snapimpute.problem.sampling import SampledTerm, Sampler

SQUARES = Squares()

ObjectiveName = Literal["E", "P", "C"]
"""(E), (P), or a constrained problem in which the fit does not count."""


@stored("objective terms", "fit", "spectral", "discrete", "constrained")
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
    loss : Loss, optional
        What replaces the fit ½‖P_Ω(X − O)‖²; most solvers know that fit only.

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
    loss: Loss = SQUARES
    sampler: Sampler | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        _check_kind("observations", self.observations, Observations)
        _check_kind("spectral", self.spectral, SpectralPenalty)
        if self.discrete is not None:
            _check_kind("discrete", self.discrete, DiscretePenalty)
        if self.offsets is not None:
            _check_kind("offsets", self.offsets, LowRank)
            if self.offsets.shape != self.shape:
                raise ValueError(f"offsets have shape {self.offsets.shape}, the observations {self.shape}")
        _check_kind("loss", self.loss, Loss)
        if self._term is not None:
            _ = self._term.parts  # a table with other columns is refused at once

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.observations.shape

    @cached_property
    def _term(self) -> DiscreteTerm | None:
        """The discrete term, if there is one with ξ > 0."""
        if self.discrete is None or not self.is_discrete:
            return None
        if self.sampler is not None:
            return SampledTerm(self.discrete, self.observations, self.sampler)
        return DiscreteTerm(self.discrete, self.observations)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the observed values, and of all that is computed from them."""
        return self.observations.values.dtype

    def astype(self, dtype: DTypeLike) -> Problem:
        """Return the problem in another precision, its offsets too; itself if it has that."""
        offsets = None if self.offsets is None else self.offsets.astype(dtype)
        if self.dtype == np.dtype(dtype) and offsets is self.offsets:
            return self
        return replace(self, observations=self.observations.astype(dtype), offsets=offsets)

    def moved(self, backend: Backend) -> Problem:
        """Return the problem with all that is large in another place."""
        observations = backend.observations(self.observations)  # first: what else is moved goes beside them
        offsets = None if self.offsets is None else self.offsets.moved(backend)
        return replace(self, observations=observations, offsets=offsets)

    @property
    def is_discrete(self) -> bool:
        """Whether a discrete term is present and ξ > 0."""
        return self.discrete is not None and self.discrete.xi > 0

    @property
    def jumps(self) -> bool:
        """Whether a discrete term is present and not convex: its prox may jump."""
        return self.discrete is not None and self.is_discrete and not self.discrete.convex

    @property
    def exact(self) -> bool:
        """Whether the prox of the discrete term, if there is one, is that of its value."""
        return self.discrete is None or not self.is_discrete or self.discrete.exact

    @property
    def convex(self) -> bool:
        """Whether every term is convex."""
        return self.spectral.convex and not self.jumps

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
        """What the loss compares X with: O − B under least squares, else O itself, and X + B with it."""
        return self.targets if isinstance(self.loss, Squares) else self.observations.values

    @cached_property
    def _base(self) -> Array | float:
        """What is added to X for that."""
        return 0.0 if isinstance(self.loss, Squares) or self.offsets is None else self._offset_entries

    def fit(self, x_observed: Array) -> float:
        """The loss on Ω."""
        return self.loss.value(x_observed + self._base, self._goal)

    def fit_gradient(self, x_observed: Array) -> Array:
        """Its gradient on Ω."""
        gradient = self.loss.gradient(x_observed + self._base, self._goal)
        return gradient.astype(self.dtype, copy=False)

    @cached_property
    def scale(self) -> float:
        """The size of the data as solvers feel it, ‖∇loss(0)‖: under least squares ‖P_Ω(O − B)‖."""
        return float(np.linalg.norm(self.fit_gradient(np.zeros_like(self.observations.values))))

    def at_observed(self, x: LowRank) -> Array:
        """P_Ω(X), in the stored order of the observations."""
        return x.entries(self.observations.rows, self.observations.cols)

    def with_offsets(self, x: LowRank) -> LowRank:
        """X + B."""
        return x if self.offsets is None else LowRank.combine([1.0, 1.0], [x, self.offsets])

    # ---------------------------------------------------------------- samples
    def begin(self, iteration: int) -> None:
        """Say that an iteration begins: a sampled term draws other cells then."""
        if self.sampler is not None:
            self.sampler.begin(iteration)

    def watch(self, terms: Terms) -> None:
        """Show the terms of an iterate to whoever guards a sampled term against divergence."""
        if self.sampler is not None:
            self.sampler.watch(terms.objective)

    def columns(self) -> dict[str, float]:
        """Further columns of the history."""
        return {} if self.sampler is None else self.sampler.columns()

    def settled(self, change: float) -> bool:
        """Whether the relative change of iterates is but the noise of a sampled term by now."""
        return self.sampler is not None and self.sampler.settled(change)

    @property
    def noise(self) -> float:
        """Norm of the noise in the last gradient; 0 unless the discrete term is sampled."""
        return 0.0 if self.sampler is None else self.sampler.noise

    @property
    def slack(self) -> float:
        """By how much an objective may exceed a bound and still keep to it; 0 unless the discrete term is sampled."""
        return 0.0 if self.sampler is None else self.sampler.slack

    # ---------------------------------------------------------------- objectives
    def terms(
        self, x: LowRank, x_observed: Array | None = None, objective: ObjectiveName = "E", *, gamma: float = 1.0
    ) -> Terms:
        """Evaluate the three terms at X; one pass over all cells if the problem is discrete.

        Parameters
        ----------
        x : LowRank
            With orthonormal factors and s ≥ 0, as solvers return it.
        x_observed : array, optional
            P_Ω(X) where it is known already.
        objective : {"E", "P"}
            Whether the discrete term is its envelope or itself.
        gamma : float
            Of the envelope; 1 is the one that the recursion minimises.
        """
        if objective not in ("E", "P"):
            raise ArgumentError.must("objective", objective, 'be "E" or "P"')
        observed = self.at_observed(x) if x_observed is None else x_observed
        fit = self.fit(observed)
        return Terms(fit, self.spectral.value(x.s), self._discrete_value(x, observed, objective, gamma))

    def objective(self, x: LowRank, objective: ObjectiveName = "E") -> float:
        """Evaluate (E) or (P) at X."""
        return self.terms(x, objective=objective).objective

    def split_terms(self, x: LowRank, x_observed: Array, gamma: float) -> Terms:
        """The terms of (P) at a pair: fit and rank of X, the discrete term of U = prox_γξr(X)."""
        landing = self._discrete_total(x, x_observed, "landing", gamma)
        return Terms(self.fit(x_observed), self.spectral.value(x.s), landing)

    def _discrete_value(self, x: LowRank, observed: Array, objective: ObjectiveName, gamma: float) -> float:
        return self._discrete_total(x, observed, "envelope" if objective == "E" else "value", gamma)

    def _discrete_total(self, x: LowRank, observed: Array, kind: Total, gamma: float) -> float:
        if self._term is None:
            return 0.0
        return self._term.total(self.with_offsets(x), observed + self._offset_entries, kind, gamma)

    @property
    def least_discrete(self) -> float:
        """The least value of the discrete term over all matrices."""
        return 0.0 if self._term is None else self._term.least

    # ---------------------------------------------------------------- the smooth part of (E)
    def imputed(self, y: LowRank, y_observed: Array) -> MatrixOperator:
        """P_Ω(O) + P_Ωᶜ(prox_ξr(Y)), the matrix that the recursion thresholds; Eqs. (13b), (13c).

        It is Y minus the gradient of the smooth part of (E) at Y. With offsets,
        everything is relative to them: prox(Y + B) − B.
        """
        return self.gradient_step(y, y_observed, 1.0)

    def gradient_step(
        self, y: LowRank, y_observed: Array, step: float, *, gamma: float = 1.0, accuracy: Accuracy = EXACT
    ) -> MatrixOperator:
        """Y minus ``step`` times the gradient at Y of the smooth part of (E), as good as ``need`` asks."""
        if self._term is None:
            return Sum((y, sparse(self.observations, -step * self.fit_gradient(y_observed))))
        mapped, on_observed = self._term.prox(
            self.with_offsets(y), y_observed + self._offset_entries, gamma, accuracy
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
        """What has to be added on Ω, where the step is to lead to y − step·∇loss(y)."""
        if step == share == 1 and isinstance(self.loss, Squares):
            return self.observations.values - on_observed
        wanted = y_observed - step * self.fit_gradient(y_observed)
        change: Array = wanted - (1 - share) * y_observed - share * (on_observed - self._offset_entries)
        return change

    def curvature(self, x: LowRank, x_observed: Array, y: LowRank, y_observed: Array) -> float:
        """h(X) − h(Y) − ⟨∇h(Y), X − Y⟩ for the smooth part h of (E), which is at most ½‖X − Y‖²."""
        on_observed = self.loss.curvature(x_observed + self._base, y_observed + self._base, self._goal)
        if self._term is None:
            return on_observed
        difference = LowRank.combine([1.0, -1.0], [x, y])
        # ⟨∇h(Y), X − Y⟩ less its part on Ω, as ∇h(Y) = Y − imputed(Y)
        slope = difference.inner(y) - difference.inner(self.imputed(y, y_observed))
        slope -= float(self.fit_gradient(y_observed) @ (x_observed - y_observed))
        envelopes = self._discrete_value(x, x_observed, "E", 1.0) - self._discrete_value(y, y_observed, "E", 1.0)
        return on_observed + envelopes - slope

    # ---------------------------------------------------------------- for methods that store the whole matrix
    def prox_dense(self, x: Array, step: float) -> Array:
        """prox_{step·ξr}(X + B) − B on Ωᶜ and X on Ω, for an array."""
        if self._term is None:
            return x.copy()
        if self.offsets is None:
            return self._term.prox_dense(x, step)
        base = self.offsets.to_dense()
        return self._term.prox_dense(x + base, step) - base


def _check_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
