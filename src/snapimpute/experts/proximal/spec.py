"""A model specification: everything that makes a `Problem` of observations, except the strengths λ and ξ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapimpute.base.errors import ArgumentError, Setting
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, need_order
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.proximal.offsets import CENTERS, DAMPING, Center, Damping, KnownCells
from snapimpute.linalg import LowRank, partial_svd, sparse
from snapimpute.linalg.backend import backend_of
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
"""Spectral penalties made from λ alone: "lsp" with θ = √λ, "capped-l1" with θ = 2λ, "tnn" with r = 3,
"mcp" with γ = 3, "scad" with a = 3.7.
"""


WITH_THETA: dict[str, Callable[[float, float], SpectralPenalty]] = {"lsp": LogSum, "capped-l1": CappedL1}
"""Spectral penalties that take θ besides."""


class Builder(NamedTuple):
    """Recipe that makes a discrete penalty from ξ and the weights of the symbols.

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
    """Model of a table, up to the strengths that are chosen on its data.

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
        What is subtracted before modelling; see `KnownCells.offsets`.
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
        need_order(*(self.alphabet.kinds if isinstance(self.alphabet, ColumnSchema) else (self.alphabet,)))
        _check_name("spectral", self.spectral, SPECTRAL_BY_LAM, SpectralPenalty)
        if self.discrete is not None:
            _check_name("discrete", self.discrete, (*DISCRETE_BY_XI, "ridge"), DiscretePenalty)
        if isinstance(self.discrete, ByColumn):
            told = "discrete=ByColumn(...) brings its own alphabets: use Problem and solve"
            raise ArgumentError("discrete", self.discrete, told)
        if isinstance(self.alphabet, ColumnSchema) and isinstance(self.discrete, DiscretePenalty):
            told = " has one alphabet, the table has several: name the penalty"
            raise ArgumentError("discrete", self.discrete, Setting("discrete", self.discrete), told)
        if self.center is not None and self.center not in CENTERS:
            names = ", ".join(map(repr, CENTERS))
            raise ArgumentError.must("center", self.center, f"be None or one of {names}")
        if self.theta is not None and self.spectral not in WITH_THETA:
            raise ArgumentError(
                "theta",
                self.theta,
                Setting("theta", self.theta),
                " has no use with ",
                Setting("spectral", self.spectral),
            )
        self._check_weights()

    def _check_weights(self) -> None:
        if self.weights is None:
            return
        if isinstance(self.weights, str) and self.weights != "frequency":
            raise ArgumentError.must("weights", self.weights, 'be None, "frequency" or one number a symbol')
        if not (
            isinstance(self.discrete, str)
            and self.discrete in DISCRETE_BY_XI
            and DISCRETE_BY_XI[self.discrete].weighted
        ):
            raise ArgumentError(
                "weights",
                self.weights,
                Setting("discrete", self.discrete),
                " takes no weights here, got ",
                Setting("weights", self.weights),
            )

    @property
    def lam_is_open(self) -> bool:
        """True if λ has to be given."""
        return isinstance(self.spectral, str)

    @property
    def xi_is_open(self) -> bool:
        """True if ξ has to be given."""
        return isinstance(self.discrete, str)

    def bind(self, cells: Observations | KnownCells | BoundSpec) -> BoundSpec:
        """Bind to the cells that are to be fitted: offsets, weights and the rest are then computed once."""
        if isinstance(cells, BoundSpec):
            return cells if cells.spec is self else BoundSpec(self, cells.cells)
        return BoundSpec(self, KnownCells.of(cells))

    def problem(self, observations: Observations, lam: float, xi: float) -> Problem:
        """Build the problem; a strength that is not open is not used."""
        return self.bind(observations).problem(lam, xi)

    def spectral_at(self, lam: float) -> SpectralPenalty:
        """The penalty of that name with a λ."""
        name = str(self.spectral)
        return SPECTRAL_BY_LAM[name](lam) if self.theta is None else WITH_THETA[name](lam, self.theta)

    def book(self, columns: int) -> ColumnSchema:
        """The alphabet of each of so many columns."""
        return (
            self.alphabet if isinstance(self.alphabet, ColumnSchema) else ColumnSchema.single(self.alphabet, columns)
        )

    @property
    def xi_unit(self) -> float:
        """The ξ that makes the penalty about as strong as the fit of one entry over the distance of two symbols."""
        return self.unit_of(self.alphabet) if isinstance(self.alphabet, Alphabet) else 1.0

    def unit_of(self, alphabet: Alphabet) -> float:
        """The ξ that does so in columns with an alphabet, of the several that a table may have."""
        if not isinstance(self.discrete, str) or self.discrete == "ridge":
            return 1.0
        return float(smallest_gap(alphabet) ** DISCRETE_BY_XI[self.discrete].power)


class BoundSpec:
    """A model specification and the cells it is fitted to, with everything that follows from the two.

    Offsets, symbol weights, the largest λ and the penalty at each ξ are computed once, when first needed.

    Examples
    --------
    >>> observations = Observations.from_dense([[1, 5, np.nan], [np.nan, 5, 1]])
    >>> bound = ModelSpec(Alphabet.of("1:5"), center="biases").bind(observations)
    >>> bound.problem(2.0, 0.01).offsets is bound.problem(1.0, 0.0).offsets
    True
    """

    def __init__(self, spec: ModelSpec, cells: KnownCells) -> None:
        self.spec, self.cells = spec, cells
        self._penalties: dict[float, DiscretePenalty | None] = {}
        self._last: tuple[float, str | None, Problem] | None = None

    @property
    def observations(self) -> Observations:
        """The cells to fit."""
        return self.cells.observations

    @property
    def offsets(self) -> LowRank | None:
        """Offsets that are subtracted from the targets."""
        return self.cells.offsets(self.spec.center, self.spec.damping)

    def problem(self, lam: float, xi: float, dtype: str | None = None) -> Problem:
        """Build the problem in a precision; it shares its smooth part with the last one, if that had the same ξ."""
        given = self.spec.spectral
        spectral = self.spec.spectral_at(lam) if isinstance(given, str) else given
        if self._last is None or self._last[:2] != (xi, dtype):
            problem = Problem(self.observations, spectral, self._penalty(xi), self.offsets)
            self._last = xi, dtype, problem if dtype is None else problem.astype(dtype)
        return self._last[2].with_spectral(spectral)

    @cached_property
    def largest_lam(self) -> float:
        """σ₁(P_Ω(O − B)): with the nuclear norm and ξ = 0, X = 0 is optimal from this λ on."""
        observations, base = self.observations, self.offsets
        values = observations.values
        if base is not None:
            values = values - base.entries(observations.rows, observations.cols)
        return spectral_norm(observations, values)

    def _penalty(self, xi: float) -> DiscretePenalty | None:
        if not isinstance(self.spec.discrete, str):
            return self.spec.discrete
        if xi not in self._penalties:
            self._penalties[xi] = self._built(self.spec.discrete, xi)
        return self._penalties[xi]

    def _built(self, name: str, xi: float) -> DiscretePenalty | None:
        book = self.spec.alphabet
        if name == "ridge":
            return Ridge(self.cells.mean, xi)
        if isinstance(book, Alphabet):
            return self._groups[0].at(name, xi)  # type: ignore[union-attr]
        penalties = [
            None if group is None or xi == 0 else group.at(name, xi * self.spec.unit_of(group.alphabet))
            for group in self._groups
        ]
        if not any(penalty is not None for penalty in penalties):
            return None
        return ByColumn([*penalties, None], np.where(book.which < 0, len(book.kinds), book.which))

    @cached_property
    def _groups(self) -> list[_Group | None]:
        """Columns with the same alphabet; None for those of any numbers."""
        book, observations = self.spec.alphabet, self.observations
        m, n = observations.shape
        if isinstance(book, Alphabet):
            return [_Group.of(book, observations.values, m * n, self.spec.weights)]
        return [
            None
            if alphabet is None
            else _Group.of(
                alphabet, observations.values[book.inside(kind, observations.cols)], m * cols.size, self.spec.weights
            )
            for kind, (alphabet, cols) in enumerate(book.groups)
        ]


class _Group(NamedTuple):
    """Columns with one alphabet: the weights of its symbols, and the number of cells that are not known."""

    alphabet: Alphabet
    weights: Array | None
    unknown: int

    @classmethod
    def of(cls, alphabet: Alphabet, seen: Array, cells: int, weights: Weights) -> _Group:
        """Count the symbols that were seen, if their frequencies are the weights."""
        if weights is None or (isinstance(weights, str) and not seen.size):
            return cls(alphabet, None, cells - seen.size)
        if not isinstance(weights, str):
            return cls(alphabet, np.asarray(weights, dtype=np.float64), cells - seen.size)
        shares: Array = alphabet.frequencies(seen) if backend_of(seen) is None else seen.shares(alphabet)  # type: ignore[attr-defined]
        return cls(alphabet, len(alphabet) * shares, cells - seen.size)

    def at(self, name: str, xi: float) -> DiscretePenalty:
        """Build the penalty; ξ of "l2" is for each cell."""
        return DISCRETE_BY_XI[name].build(
            self.alphabet, xi * math.sqrt(self.unknown) if name == "l2" else xi, self.weights
        )


def spectral_norm(observations: Observations, values: Array) -> float:
    """Return σ₁ of the matrix with these values on Ω and 0 elsewhere, and never quite 0."""
    sigma = partial_svd(sparse(observations, values), 1, tol=1e-3 * float(np.linalg.norm(values))).x.s[0]
    return max(float(sigma), 1e-12)


def _check_name(what: str, value: object, names: Iterable[str], kind: type) -> None:
    if isinstance(value, kind) or (isinstance(value, str) and value in names):
        return
    raise ArgumentError.must(what, value, f"be one of {', '.join(map(repr, names))} or a {kind.__name__}")
