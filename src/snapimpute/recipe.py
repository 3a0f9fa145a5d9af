"""A recipe: everything that makes a `Problem` of observations, except the strengths λ and ξ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from snapimpute.alphabet import Alphabet
from snapimpute.baselines import ConstantMean, DampedBiases
from snapimpute.observations import Observations
from snapimpute.operators import LowRank
from snapimpute.penalties import (
    L1,
    MCP,
    SCAD,
    CappedL1,
    ComposedL1,
    DiscretePenalty,
    LogSum,
    Nuclear,
    Rank,
    Ridge,
    SpectralPenalty,
    TruncatedNuclear,
)
from snapimpute.problem import Problem

Center = Literal["mean", "biases"] | None

SPECTRAL: dict[str, Callable[[float], SpectralPenalty]] = {
    "nuclear": Nuclear,
    # θ = √λ here and θ = 2λ below are the defaults of the FaNCL authors; the thresholds are then √λ and λ.
    "lsp": lambda lam: LogSum(lam, max(np.sqrt(lam), 1e-12)),
    "capped-l1": lambda lam: CappedL1(lam, max(2 * lam, 1e-12)),
    "tnn": lambda lam: TruncatedNuclear(lam, r=3),
    "mcp": MCP,
    "scad": SCAD,
    "rank": Rank,
}
"""How λ alone makes a spectral penalty: "lsp" with θ = √λ, "capped-l1" with θ = 2λ, "tnn" with r = 3,
"mcp" with γ = 3, "scad" with a = 3.7.
"""

DISCRETE: dict[str, Callable[[Alphabet, float, Observations], DiscretePenalty]] = {
    "l1": lambda alphabet, xi, _: L1(alphabet, xi),
    "l1-weighted": lambda alphabet, xi, obs: L1(
        alphabet, xi, weights=len(alphabet) * alphabet.frequencies(obs.values)
    ),
    "l1-composed": lambda alphabet, xi, _: ComposedL1(alphabet, xi),
    "ridge": lambda _, xi, obs: Ridge(float(obs.values.mean()), xi),
}
"""How ξ makes a discrete penalty; "l1-weighted" weighs symbols by how often they were observed."""


@dataclass(frozen=True)
class Recipe:
    """How to model a table, up to the strengths that are chosen on its data.

    Parameters
    ----------
    alphabet : Alphabet
    spectral : str or SpectralPenalty
        A name of `SPECTRAL` ("nuclear", "lsp", "capped-l1", "tnn", "mcp", "scad" or "rank"), or a penalty
        that has its λ already.
    discrete : str, DiscretePenalty or None
        A name of `DISCRETE`, a penalty that has its ξ already, or nothing.
    center : {None, "mean", "biases"}
        What is subtracted before modelling; see `offsets`.

    Examples
    --------
    >>> observations = Observations.from_dense([[1, 5, np.nan], [np.nan, 5, 1]])
    >>> Recipe(Alphabet.of("1:5"), center="mean").problem(observations, lam=0.5, xi=0.01).discrete
    L1(Alphabet([1, 2, 3, 4, 5]), xi=0.01)
    """

    alphabet: Alphabet
    spectral: str | SpectralPenalty = "nuclear"
    discrete: str | DiscretePenalty | None = "l1"
    center: Center = None

    def __post_init__(self) -> None:
        _check_name("spectral", self.spectral, SPECTRAL, SpectralPenalty)
        if self.discrete is not None:
            _check_name("discrete", self.discrete, DISCRETE, DiscretePenalty)
        if self.center not in (None, "mean", "biases"):
            raise ValueError(f'center must be None, "mean" or "biases", got {self.center!r}')

    @property
    def lam_is_open(self) -> bool:
        """Whether λ has to be given."""
        return isinstance(self.spectral, str)

    @property
    def xi_is_open(self) -> bool:
        """Whether ξ has to be given."""
        return isinstance(self.discrete, str)

    def problem(self, observations: Observations, lam: float, xi: float) -> Problem:
        """Build the problem; a strength that is not open is not used."""
        spectral = SPECTRAL[self.spectral](lam) if isinstance(self.spectral, str) else self.spectral
        discrete = self.discrete
        if isinstance(discrete, str):
            discrete = DISCRETE[discrete](self.alphabet, xi, observations)
        return Problem(observations, spectral, discrete, offsets(observations, self.center))


def offsets(observations: Observations, center: Center) -> LowRank | None:
    """B, the part of the data that is known before any low rank: nothing, the mean, or damped biases."""
    m, n = observations.shape
    if center is None:
        return None
    if center == "mean":
        mean = ConstantMean.fit(observations).mean
        return LowRank(np.ones((m, 1)), np.array([mean]), np.ones((n, 1)))
    biases = DampedBiases.fit(observations)
    left = np.column_stack([biases.mean + biases.row_biases, np.ones(m)])
    right = np.column_stack([np.ones(n), biases.col_biases])
    return LowRank(left, np.ones(2), right)


def _check_name(what: str, value: object, names: Mapping[str, object], kind: type) -> None:
    if isinstance(value, kind) or (isinstance(value, str) and value in names):
        return
    raise ValueError(f"{what} must be one of {', '.join(map(repr, names))} or a {kind.__name__}, got {value!r}")
