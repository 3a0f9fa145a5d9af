"""Terms to minimise, and the two objectives built from them.

    (P)  ½‖P_Ω(X − O)‖² + λ g(X) + ξ Σ_Ωᶜ r(x)
    (E)  ½‖P_Ω(X − O)‖² + λ g(X) + Σ_Ωᶜ min_u [ ξ r(u) + ½ (u − x)² ]

(P) is the problem as the paper states it (Eq. 11). (E) replaces the discrete
term by its Moreau envelope, and is what the paper's recursion (Eq. 13)
minimises when the prox is exact. Without a discrete term they are the same.
With ½ (u − x)²/γ in place of ½ (u − x)², (E) tends to (P) from below as γ → 0;
methods that take a ``gamma`` mean that. The fit may be another loss.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.linalg import LowRank
from snapimpute.linalg.backend import Backend
from snapimpute.penalties import DiscretePenalty, SpectralPenalty, Total
from snapimpute.problem.discreteness import ALL_CELLS, Coverage
from snapimpute.problem.losses import Loss, Squares
from snapimpute.problem.smooth import SmoothPart

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
        if self.smooth.term is not None:
            _ = self.smooth.term.parts  # a penalty of another table, or without what it needs, is refused at once

    @cached_property
    def smooth(self) -> SmoothPart:
        """The smooth part of (E): everything but the spectral penalty."""
        return SmoothPart(self.observations, self.discrete, self.offsets, self.loss)

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.observations.shape

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

    def with_spectral(self, spectral: SpectralPenalty) -> Problem:
        """Return the problem with another spectral penalty; both share the smooth part, and what it has computed."""
        _check_kind("spectral", spectral, SpectralPenalty)
        out = copy(self)
        object.__setattr__(out, "spectral", spectral)
        return out

    def moved(self, backend: Backend) -> Problem:
        """Return the problem with all that is large in another place."""
        observations = backend.observations(self.observations)  # first: what else is moved goes beside them
        offsets = None if self.offsets is None else self.offsets.moved(backend)
        return replace(self, observations=observations, offsets=offsets)

    @property
    def is_discrete(self) -> bool:
        """True if a discrete term is present and ξ > 0."""
        return self.discrete is not None and self.discrete.xi > 0

    @property
    def jumps(self) -> bool:
        """True if a discrete term is present and not convex: its prox may jump."""
        return self.discrete is not None and self.is_discrete and not self.discrete.convex

    @property
    def exact(self) -> bool:
        """True if the prox of the discrete term, if there is one, is that of its value."""
        return self.discrete is None or not self.is_discrete or self.discrete.exact

    @property
    def convex(self) -> bool:
        """True if every term is convex."""
        return self.spectral.convex and not self.jumps

    # ---------------------------------------------------------------- matrices on the observed cells
    @property
    def targets(self) -> Array:
        """O − B on the observed cells."""
        return self.smooth.targets

    def at_observed(self, x: LowRank) -> Array:
        """P_Ω(X), in the stored order of the observations."""
        return self.smooth.at_observed(x)

    def with_offsets(self, x: LowRank) -> LowRank:
        """X + B."""
        return self.smooth.with_offsets(x)

    # ---------------------------------------------------------------- objectives
    def terms(
        self,
        x: LowRank,
        x_observed: Array | None = None,
        objective: ObjectiveName = "E",
        *,
        gamma: float = 1.0,
        coverage: Coverage = ALL_CELLS,
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
            Step of the envelope; 1 is the one that the recursion minimises.
        coverage : Coverage
            Cells on which the discrete term is computed: all of them, or the sample of a run.
        """
        if objective not in ("E", "P"):
            raise ArgumentError.must("objective", objective, 'be "E" or "P"')
        observed = self.at_observed(x) if x_observed is None else x_observed
        return self._terms(x, observed, "envelope" if objective == "E" else "value", gamma, coverage)

    def _terms(self, x: LowRank, observed: Array, kind: Total, gamma: float, coverage: Coverage) -> Terms:
        fit = self.smooth.fit(observed)
        discrete = self.smooth.discrete_total(x, observed, kind, gamma, coverage)
        return Terms(fit, self.spectral.value(x.s), discrete)

    def objective(self, x: LowRank, objective: ObjectiveName = "E") -> float:
        """Evaluate (E) or (P) at X."""
        return self.terms(x, objective=objective).objective

    def split_terms(self, x: LowRank, x_observed: Array, gamma: float) -> Terms:
        """The terms of (P) at a pair: fit and rank of X, the discrete term of U = prox_γξr(X)."""
        return self._terms(x, x_observed, "landing", gamma, ALL_CELLS)


def _check_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")
