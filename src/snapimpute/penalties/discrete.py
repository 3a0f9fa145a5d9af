"""Discrete penalties: what it costs an unobserved entry to lie off the alphabet.

A discrete penalty is a function of one real variable, summed over the entries
that were not observed. ξ lives inside it. `prox(y, step)` is the minimiser over
u of ``step·penalty(u) + ½ (u − y)²`` and `envelope(y, step)` the minimum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from snapimpute.alphabet import Alphabet, AlphabetLike
from snapimpute.penalties import kernels
from snapimpute.types import Array, CellMap

Kind = Literal["value", "prox", "envelope"]


class DiscretePenalty(ABC):
    """A penalty on each unobserved entry, known by its compiled forms.

    A subclass supplies `compiled`; arrays of any shape and single numbers are
    served from it, as are the tiles of the big operators, so that there is one
    implementation of each formula.
    """

    name: ClassVar[str]
    convex: ClassVar[bool]
    exact: ClassVar[bool] = True
    """Whether `prox` is the prox of `value`, so that objective (E) is what the recursion minimises."""

    xi: float

    @property
    @abstractmethod
    def least(self) -> float:
        """Least value that an entry can cost, ξ included."""

    @abstractmethod
    def compiled(self, kind: Kind, step: float = 1.0) -> CellMap:
        """Return the in-place map for ``kind``: the value, the prox or the envelope."""

    def value(self, x: ArrayLike) -> Array:
        """Penalty of every entry, ξ included."""
        return self._apply("value", x, 1.0)

    def prox(self, x: ArrayLike, step: float = 1.0) -> Array:
        """Minimiser over u of ``step·penalty(u) + ½ (u − x)²``, entry by entry."""
        return self._apply("prox", x, step)

    def envelope(self, x: ArrayLike, step: float = 1.0) -> Array:
        """Minimum over u of ``step·penalty(u) + ½ (u − x)²``, entry by entry."""
        return self._apply("envelope", x, step)

    def _apply(self, kind: Kind, x: ArrayLike, step: float) -> Array:
        if not 0 < step < np.inf:
            raise ValueError(f"step must be a finite number above 0, got {step}")
        out = np.array(x, dtype=np.float64, order="C")
        self.compiled(kind, step)(out.reshape(-1))
        return out


class L1(DiscretePenalty):
    """ξ Σ_k w_k |x − a_k|: the paper's regulariser with p = 1, and its exact prox.

    Without weights and with more than two symbols this pulls towards the middle
    of the alphabet, with a flat spot at every symbol. Weights, for instance K
    times the observed symbol frequencies, move that centre.

    Parameters
    ----------
    alphabet : Alphabet, str or list
    xi : float
        Strength, at least 0.
    weights : array_like of K non-negative numbers, optional
        One for each symbol in ascending order; 1 if not given.

    Examples
    --------
    >>> L1("1:5", xi=0.05).prox([3.0, 3.2, 9.0])
    array([3. , 3.15, 8.75])
    """

    name = "l1"
    convex = True

    def __init__(self, alphabet: AlphabetLike, xi: float, weights: ArrayLike | None = None) -> None:
        self.alphabet = Alphabet.of(alphabet)
        self.xi = _check_strength(xi)
        self.weights = _check_weights(weights, self.alphabet)

    def __repr__(self) -> str:
        weights = "" if np.all(self.weights == 1) else f", weights={np.round(self.weights, 4).tolist()}"
        return f"L1({self.alphabet!r}, xi={self.xi:g}{weights})"

    @property
    def least(self) -> float:
        """The cost at the weighted median, which is a symbol."""
        return float(self.value(self.alphabet.symbols).min())

    def compiled(self, kind: Kind, step: float = 1.0) -> CellMap:
        """Return the in-place map; the prox is one pass over the sorted symbols."""
        kernel = {"value": kernels.l1_value, "prox": kernels.l1_prox, "envelope": kernels.l1_envelope}[kind]
        symbols, pulls = self.alphabet.symbols, step * self.xi * self.weights
        return lambda x: kernel(x, symbols, pulls)


class ComposedL1(DiscretePenalty):
    """The paper's composition of K soft thresholds (Eq. 15), a_K first and a_1 last.

    The prox of a sum is not the composition of the proxes: this map depends on
    the order and is not the prox of any sum of absolute values. It is here to
    reproduce the paper. `value` and `envelope` are those of the exact `L1`, and
    no descent is claimed for them.

    Examples
    --------
    >>> ComposedL1("1:5", xi=0.05).prox(3.0)
    array(2.95)
    """

    name = "l1-composed"
    convex = True
    exact = False

    def __init__(self, alphabet: AlphabetLike, xi: float) -> None:
        self.alphabet = Alphabet.of(alphabet)
        self.xi = _check_strength(xi)

    def __repr__(self) -> str:
        return f"ComposedL1({self.alphabet!r}, xi={self.xi:g})"

    @property
    def least(self) -> float:
        """That of the exact `L1`."""
        return L1(self.alphabet, self.xi).least

    def compiled(self, kind: Kind, step: float = 1.0) -> CellMap:
        """Return the in-place map; value and envelope are those of the exact `L1`."""
        if kind != "prox":
            return L1(self.alphabet, self.xi).compiled(kind, step)
        symbols, pull = self.alphabet.symbols, step * self.xi
        return lambda x: kernels.composed_l1_prox(x, symbols, pull)


class Ridge(DiscretePenalty):
    """ξ (x − centre)²: an alphabet-blind pull to one value.

    Not a discrete penalty but the control for all of them: on ratings much of
    what a discrete penalty gains is re-centring, which this does as well.

    Examples
    --------
    >>> Ridge(center=3.0, xi=0.5).prox([3.0, 5.0])
    array([3., 4.])
    """

    name = "ridge"
    convex = True

    def __init__(self, center: float, xi: float) -> None:
        self.center = float(center)
        if not np.isfinite(self.center):
            raise ValueError(f"center must be finite, got {center}")
        self.xi = _check_strength(xi)

    def __repr__(self) -> str:
        return f"Ridge(center={self.center:g}, xi={self.xi:g})"

    @property
    def least(self) -> float:
        """0, at the centre."""
        return 0.0

    def compiled(self, kind: Kind, step: float = 1.0) -> CellMap:
        """Return the in-place map."""
        pull, centre = step * self.xi, self.center
        factor = {"value": pull, "envelope": pull / (1 + 2 * pull), "prox": 1 / (1 + 2 * pull)}[kind]

        def run(x: Array) -> None:
            x -= centre
            if kind == "prox":
                x *= factor
                x += centre
            else:
                x *= x
                x *= factor

        return run


def _check_strength(xi: float) -> float:
    if not (np.isfinite(xi) and xi >= 0):
        raise ValueError(f"xi must be a finite number, at least 0, got {xi}")
    return float(xi)


def _check_weights(weights: ArrayLike | None, alphabet: Alphabet) -> Array:
    if weights is None:
        return np.ones(len(alphabet))
    out = np.array(weights, dtype=np.float64)
    if out.shape != (len(alphabet),):
        raise ValueError(
            f"weights must hold one number for each of the {len(alphabet)} symbols, got shape {out.shape}"
        )
    if not (np.isfinite(out).all() and (out >= 0).all()):
        raise ValueError(f"weights must be finite and at least 0, got {out.tolist()}")
    return out
