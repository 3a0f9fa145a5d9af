"""A model specification: everything that makes a `Problem` of observations, except the strengths λ and ξ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.evaluation.baselines import ConstantMean, DampedBiases, alternated
from snapimpute.linalg import LowRank
from snapimpute.linalg.backend import COLUMNS, ROWS, backend_of
from snapimpute.penalties import (
    L0,
    L1,
    L2,
    MCP,
    SCAD,
    ByColumn,
    CappedL1,
    ComposedL1,
    DiscretePenalty,
    FractionalL0,
    LogSum,
    Lp,
    Nuclear,
    Rank,
    Ridge,
    SpectralPenalty,
    TruncatedNuclear,
)
from snapimpute.problem import Problem

Weights = ArrayLike | Literal["frequency"] | None
Center = Literal["mean", "rows", "columns", "biases"] | None
CENTERS: tuple[Center, ...] = get_args(Literal["mean", "rows", "columns", "biases"])
Damping = tuple[float, float]
DAMPING: Damping = (5.0, 5.0)
DAMPINGS = (1.0, 2.0, 5.0, 12.0, 30.0)
"""Dampings of the biases of rows and columns: what is taken, and what `best_damping` tries."""

SPECTRAL_BY_LAM: dict[str, Callable[[float], SpectralPenalty]] = {
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


WITH_THETA: dict[str, Callable[[float, float], SpectralPenalty]] = {"lsp": LogSum, "capped-l1": CappedL1}
"""Those that take θ besides."""


class Builder(NamedTuple):
    """How ξ and the weights of the symbols make a discrete penalty.

    ξ is measured in powers of the smallest distance d between symbols: that is
    ``power``, the degree of ½ (u − x)² less that of the penalty.
    """

    build: Callable[[Alphabet, float, Array | None], DiscretePenalty]
    power: float
    weighted: bool = True


FRACTIONAL_ALPHA = 0.05
"""α of "l0-fractional" in units of d²: wells a quarter of a step wide."""

DISCRETE_BY_XI: dict[str, Builder] = {
    "l1": Builder(L1, 1.0),
    "l1-composed": Builder(lambda alphabet, xi, _: ComposedL1(alphabet, xi), 1.0, weighted=False),
    "l0": Builder(L0, 2.0),
    "l0-fractional": Builder(
        lambda alphabet, xi, weights: FractionalL0(
            alphabet, xi, FRACTIONAL_ALPHA * smallest_gap(alphabet) ** 2, weights
        ),
        2.0,
    ),
    "lp": Builder(lambda alphabet, xi, weights: Lp(alphabet, xi, 0.5, weights), 1.5),
    "l2": Builder(L2, 1.0),
}
"""Discrete penalties by name: "lp" with p = ½, "l0-fractional" with α = d²/20."""


def smallest_gap(alphabet: Alphabet) -> float:
    """d, the smallest distance between symbols; 1 where there is one symbol only."""
    gaps = np.diff(alphabet.symbols)
    return float(gaps.min()) if gaps.size else 1.0


@stored("model specification", "alphabet", "spectral", "discrete", "center", "weights", "damping", "theta")
@dataclass(frozen=True, eq=False)
class ModelSpec:
    """How to model a table, up to the strengths that are chosen on its data.

    Parameters
    ----------
    alphabet : Alphabet or ColumnSchema
        With several alphabets, ξ is in units of each (`ModelSpec.xi_unit`).
    spectral : str or SpectralPenalty
        A name of `SPECTRAL_BY_LAM` ("nuclear", "lsp", "capped-l1", "tnn", "mcp", "scad" or "rank"), or a penalty
        that has its λ already.
    discrete : str, DiscretePenalty or None
        A name of `DISCRETE_BY_XI`, "ridge" (the control that does not see the
        alphabet), a penalty that has its ξ already, or nothing. ξ of "l2" is
        for each entry: the norm of N unobserved ones gets ξ√N.
    weights : {None, "frequency"} or array_like
        One for each symbol: 1, K times the observed frequencies, or as given.
    center : {None, "mean", "rows", "columns", "biases"}
        What is subtracted before modelling; see `offsets`.
    damping : (float, float)
        Of the biases of rows and columns.
    theta : float, optional
        θ of "lsp" and "capped-l1", instead of one that follows from λ.

    Examples
    --------
    >>> observations = Observations.from_dense([[1, 5, np.nan], [np.nan, 5, 1]])
    >>> ModelSpec(Alphabet.of("1:5"), center="mean").problem(observations, lam=0.5, xi=0.01).discrete
    L1(Alphabet([1, 2, 3, 4, 5]), xi=0.01)
    """

    alphabet: Alphabet | ColumnSchema
    spectral: str | SpectralPenalty = "nuclear"
    discrete: str | DiscretePenalty | None = "l1"
    center: Center = None
    weights: Weights = None
    damping: Damping = DAMPING
    theta: float | None = None

    def __post_init__(self) -> None:
        _check_name("spectral", self.spectral, SPECTRAL_BY_LAM, SpectralPenalty)
        if self.discrete is not None:
            _check_name("discrete", self.discrete, (*DISCRETE_BY_XI, "ridge"), DiscretePenalty)
        if isinstance(self.discrete, ByColumn):
            raise ValueError("discrete=ByColumn(...) brings its own alphabets: use Problem and solve")
        if isinstance(self.alphabet, ColumnSchema) and isinstance(self.discrete, DiscretePenalty):
            raise ValueError(f"discrete={self.discrete!r} has one alphabet, the table has several: name the penalty")
        if self.center is not None and self.center not in CENTERS:
            names = ", ".join(map(repr, CENTERS))
            raise ValueError(f"center must be None or one of {names}, got {self.center!r}")
        if self.theta is not None and self.spectral not in WITH_THETA:
            raise ValueError(f"theta={self.theta:g} has no use with spectral={self.spectral!r}")
        self._check_weights()

    def _check_weights(self) -> None:
        if self.weights is None:
            return
        if isinstance(self.weights, str) and self.weights != "frequency":
            raise ValueError(f'weights must be None, "frequency" or one number a symbol, got {self.weights!r}')
        if not (
            isinstance(self.discrete, str)
            and self.discrete in DISCRETE_BY_XI
            and DISCRETE_BY_XI[self.discrete].weighted
        ):
            raise ValueError(f"discrete={self.discrete!r} takes no weights here, got weights={self.weights!r}")

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
        spectral = self.spectral_at(lam) if isinstance(self.spectral, str) else self.spectral
        base = offsets(observations, self.center, self.damping)
        return Problem(observations, spectral, self._penalty(observations, xi), base)

    def spectral_at(self, lam: float) -> SpectralPenalty:
        """The penalty of that name with a λ."""
        name = str(self.spectral)
        return SPECTRAL_BY_LAM[name](lam) if self.theta is None else WITH_THETA[name](lam, self.theta)

    def book(self, columns: int) -> ColumnSchema:
        """The alphabet of each of so many columns."""
        return (
            self.alphabet if isinstance(self.alphabet, ColumnSchema) else ColumnSchema.single(self.alphabet, columns)
        )

    def _penalty(self, observations: Observations, xi: float) -> DiscretePenalty | None:
        if not isinstance(self.discrete, str):
            return self.discrete
        if self.discrete == "ridge":
            return Ridge(float(observations.values.mean()), xi)
        if isinstance(self.alphabet, Alphabet):
            return self._of_alphabet(self.alphabet, observations.values, math.prod(observations.shape), xi)
        which = np.where(self.alphabet.which < 0, len(self.alphabet.kinds), self.alphabet.which)
        penalties: list[DiscretePenalty | None] = []
        for kind, (alphabet, cols) in enumerate(self.alphabet.groups):
            if alphabet is None or xi == 0:
                penalties.append(None)
                continue
            seen = observations.values[self.alphabet.inside(kind, observations.cols)]
            cells = observations.shape[0] * cols.size
            penalties.append(self._of_alphabet(alphabet, seen, cells, xi * self._unit(alphabet)))
        if not any(penalty is not None for penalty in penalties):
            return None
        return ByColumn([*penalties, None], which)

    def _of_alphabet(self, alphabet: Alphabet, seen: Array, cells: int, xi: float) -> DiscretePenalty:
        kind = str(self.discrete)
        if kind == "l2":
            xi *= math.sqrt(cells - seen.size)
        return DISCRETE_BY_XI[kind].build(alphabet, xi, self._symbol_weights(alphabet, seen))

    def _symbol_weights(self, alphabet: Alphabet, seen: Array) -> Array | None:
        if self.weights is None:
            return None
        if isinstance(self.weights, str):
            if not seen.size:
                return None
            shares: Array = alphabet.frequencies(seen) if backend_of(seen) is None else seen.shares(alphabet)  # type: ignore[attr-defined]
            return len(alphabet) * shares
        return np.asarray(self.weights, dtype=np.float64)

    @property
    def xi_unit(self) -> float:
        """The ξ that makes the penalty about as strong as the fit of one entry over the distance of two symbols."""
        return self._unit(self.alphabet) if isinstance(self.alphabet, Alphabet) else 1.0

    def _unit(self, alphabet: Alphabet) -> float:
        if not isinstance(self.discrete, str) or self.discrete == "ridge":
            return 1.0
        return float(smallest_gap(alphabet) ** DISCRETE_BY_XI[self.discrete].power)


def offsets(observations: Observations, center: Center, damping: Damping = DAMPING) -> LowRank | None:
    """B, what is known before any low rank: nothing, the mean, or damped biases of rows, columns or both besides."""
    m, n = observations.shape
    if center is None:
        return None
    if center == "mean":
        mean, backend = ConstantMean.fit(observations).mean, backend_of(observations.values)
        if backend is None:
            return LowRank.constant((m, n), mean)
        ones = (backend.full((side, 1), 1.0, np.float64, which) for side, which in ((m, ROWS), (n, COLUMNS)))
        left, right = ones
        return LowRank(left, np.array([mean]), right)
    if backend_of(observations.values) is not None:
        return spread_biases(observations, *dampings(center, damping))
    biases = fitted_biases(observations, center, damping)
    left = np.column_stack([biases.mean + biases.row_biases, np.ones(m)])
    right = np.column_stack([np.ones(n), biases.col_biases])
    return LowRank(left, np.ones(2), right)


def fitted_biases(observations: Observations, center: Center, damping: Damping) -> DampedBiases:
    """The biases of a centre."""
    rows, cols = dampings(center, damping)
    return DampedBiases.fit(observations, damping_rows=rows, damping_cols=cols)


def spread_biases(
    observations: Any, damping_rows: float, damping_cols: float, *, max_sweeps: int = 20, tol: float = 1e-4
) -> LowRank:
    """μ + b_i + c_j of observations on a cluster, as a matrix of rank 2; see `DampedBiases`."""
    values, (m, n), backend = observations.values, observations.shape, observations.backend
    mean = values.mean()
    deviation = math.sqrt(max(float((values**2).sum()) / values.size - mean**2, 0.0))
    weights = observations.column_counts() + damping_cols
    weights = np.where(weights > 0, weights, 1.0)
    b, c = alternated(
        lambda b: observations.column_sums(mean, b) / weights,
        lambda c: observations.row_means(mean, c, damping_rows),
        (backend.full((m, 1), 0.0, np.float64, ROWS), np.zeros(n)),
        max_sweeps,
        tol * deviation,
    )
    ones = backend.full((m, 1), 1.0, np.float64, ROWS)
    return LowRank(np.hstack([b + mean, ones]), np.ones(2), np.column_stack([np.ones(n), c]))


def dampings(center: Center, damping: Damping) -> Damping:
    """Of rows and columns; biases that a centre has not are damped to 0."""
    rows, cols = damping
    no_rows, no_cols = center in ("mean", "columns"), center in ("mean", "rows")
    return math.inf if no_rows else rows, math.inf if no_cols else cols


def best_damping(observations: Observations, center: Center, *, share: float = 0.2, random_state: int = 0) -> Damping:
    """The dampings of `DAMPINGS` whose biases alone predict held-out entries best: of rows first, then of columns."""
    if center in (None, "mean"):
        return DAMPING
    kept, held = observations.split(share, random_state=random_state)

    def lost(damping: Damping) -> float:
        here = backend_of(kept.values) is None
        biases = fitted_biases(kept, center, damping) if here else offsets(kept, center, damping)
        if biases is None:
            return math.inf
        return float(np.mean((biases.entries(held.rows, held.cols) - held.values) ** 2))

    rows, cols = DAMPING
    if center != "columns":
        rows = min(DAMPINGS, key=lambda one: lost((one, cols)))
    if center != "rows":
        cols = min(DAMPINGS, key=lambda one: lost((rows, one)))
    return rows, cols


def _check_name(what: str, value: object, names: Iterable[str], kind: type) -> None:
    if isinstance(value, kind) or (isinstance(value, str) and value in names):
        return
    raise ValueError(f"{what} must be one of {', '.join(map(repr, names))} or a {kind.__name__}, got {value!r}")
