"""Discrete penalties: what it costs an unobserved entry to lie off the alphabet.

Most are a function of one real variable, summed over the entries that were not
observed; `L2` alone is not. ξ lives inside the penalty.
`prox(y, step)` is the minimiser over u of ``step·penalty(u) + ½‖u − y‖²`` and
`envelope(y, step)` the minimum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, AlphabetLike, need_order
from snapimpute.penalties.base import CellPenalty, Line, fitted_line
from snapimpute.penalties.maps import CellMap


class Weighted:
    """An alphabet, a strength ξ and one weight w_k for each symbol.

    Parameters
    ----------
    alphabet : Alphabet, str or list
    xi : float
        Strength, at least 0.
    weights : array_like of K non-negative numbers, optional
        One for each symbol in ascending order; 1 if not given. K times the
        observed symbol frequencies is a common choice.
    """

    def __init__(self, alphabet: AlphabetLike, xi: float, weights: ArrayLike | None = None) -> None:
        self.alphabet = Alphabet.of(alphabet)
        need_order(self.alphabet)
        self.xi = check_strength(xi)
        self.weights = check_weights(weights, self.alphabet)

    def __repr__(self) -> str:
        shape = "".join(f", {name}={value:g}" for name, value in self._shape().items())
        weights = "" if np.all(self.weights == 1) else f", weights={np.round(self.weights, 4).tolist()}"
        return f"{type(self).__name__}({self.alphabet!r}, xi={self.xi:g}{shape}{weights})"

    def _shape(self) -> dict[str, float]:
        """Further parameters of the penalty, by name."""
        return {}

    def pulls(self, step: float) -> Array:
        """step·ξ·w_k."""
        return step * self.xi * self.weights


class SymbolPenalty(Weighted, CellPenalty):
    """A penalty of single entries with an alphabet and weights; parameters as in `Weighted`."""

    alphabet: Alphabet


@stored("penalty l1", "alphabet", "xi", "weights")
class L1(SymbolPenalty):
    """ξ Σ_k w_k |x − a_k|: the paper's regulariser with p = 1, and its exact prox.

    Without weights and with more than two symbols this pulls towards the middle
    of the alphabet, with a flat spot at every symbol. Weights, for instance K
    times the observed symbol frequencies, move that centre.

    Parameters
    ----------
    alphabet, xi, weights
        As in `Weighted`.

    Examples
    --------
    >>> L1("1:5", xi=0.05).prox([3.0, 3.2, 9.0])
    array([3. , 3.15, 8.75])
    """

    name = "l1"
    convex = True

    @property
    def least(self) -> float:
        """The cost at the weighted median, which is a symbol."""
        return float(self.value(self.alphabet.symbols).min())

    def compiled_value(self, step: float) -> CellMap:
        """Σ_k over the symbols."""
        return CellMap("l1-value", (self.alphabet.symbols, self.pulls(step)))

    def compiled_prox(self, step: float) -> CellMap:
        """One pass over the sorted symbols."""
        return CellMap("l1-prox", (self.alphabet.symbols, self.pulls(step), 0.0, 0.0))

    @property
    def _gap(self) -> float | None:
        """The distance of neighbours if the flat spots of the prox form an even staircase."""
        even = len(self.alphabet) > 1 and np.all(self.weights == self.weights[0]) and self.weights[0] > 0
        return self.alphabet.spacing if even else None

    def line(self, step: float) -> Line:
        """Line through the middle of all flat spots where these form an even staircase, else fitted."""
        gap, pull = self._gap, float(self.pulls(step)[0])
        if gap is None:
            return super().line(step)
        slope = gap / (gap + 2 * pull)
        centre = 0.5 * float(self.alphabet.symbols[0] + self.alphabet.symbols[-1])
        return Line(slope, (1 - slope) * centre)

    def compiled_remainder(self, step: float) -> CellMap:
        """A few operations on an even staircase, else one pass over the symbols."""
        gap, line = self._gap, self.line(step)
        if gap is None:
            return CellMap("l1-prox", (self.alphabet.symbols, self.pulls(step), *line))
        pull, first = float(self.pulls(step)[0]), float(self.alphabet.symbols[0])
        low, period = first - pull * len(self.alphabet), gap + 2 * pull
        base = first - line.slope * low - line.shift
        stairs = low, 1 / period, period, len(self.alphabet) - 1, 2 * pull
        return CellMap("l1-stairs", (*stairs, line.slope, base))


@stored("penalty l0", "alphabet", "xi", "weights")
class L0(SymbolPenalty):
    """ξ Σ_k w_k 1[x ≠ a_k]: the paper's regulariser with p = 0.

    Every symbol with a weight is a local minimiser, without weights a global
    one, so that nothing is pulled to the middle. The prox leaves a value alone or puts it on a symbol:
    argmin over u ∈ {y, a_1, …, a_K}; without weights the nearest symbol if
    (y − a)² < 2·step·ξ.

    Parameters
    ----------
    alphabet, xi, weights
        As in `Weighted`.

    Notes
    -----
    The value is written as the paper writes it: off the alphabet an entry costs
    ξ Σ_k w_k, on a symbol ξ w_k less, so that (E) and (P) contain the constant
    ξ (Σ_k w_k − max_k w_k) for every unobserved entry, without weights ξ(K − 1).

    Examples
    --------
    >>> L0("1:5", xi=0.02).prox([3.1, 3.3, 9.0])
    array([3. , 3.3, 9. ])
    >>> L0("1:5", xi=0.02).value([3.0, 3.3])
    array([0.08, 0.1 ])
    """

    name = "l0"
    convex = False

    @property
    def least(self) -> float:
        """The cost on the symbol with the largest weight."""
        return self.xi * float(self.weights.sum() - self.weights.max())

    def compiled_value(self, step: float) -> CellMap:
        """Σ_k over the symbols that x is not."""
        return CellMap("l0-value", (self.alphabet.symbols, self.pulls(step)))

    def compiled_prox(self, step: float) -> CellMap:
        """The best of y and the symbols."""
        return CellMap("l0-prox", (self.alphabet.symbols, self.pulls(step), 0.0, 0.0))

    def compiled_remainder(self, step: float) -> CellMap:
        """The same, less the line."""
        return CellMap("l0-prox", (self.alphabet.symbols, self.pulls(step), *self.line(step)))


@stored("penalty l1-composed", "alphabet", "xi")
class ComposedL1(CellPenalty):
    """The paper's composition of K soft thresholds (Eq. 15), a_K first and a_1 last.

    The prox of a sum is not the composition of the proxes: this map depends on
    the order. It is the exact prox of another sum, Σ_k |u − b_k| about the
    symbols b_k = a_k − (k − 1)·step·ξ, as long as step·ξ is below the distance
    of neighbours: the k-th symbol from below has moved down by k − 1 thresholds.
    It is here to reproduce the paper. `value` and
    `envelope` are those of the exact `L1`, and no descent is claimed for them.

    Examples
    --------
    >>> ComposedL1("1:5", xi=0.05).prox(3.0)
    array(2.95)
    """

    name = "l1-composed"
    convex = True
    exact = False
    alphabet: Alphabet

    def __init__(self, alphabet: AlphabetLike, xi: float) -> None:
        self.alphabet = Alphabet.of(alphabet)
        need_order(self.alphabet)
        self.xi = check_strength(xi)

    def __repr__(self) -> str:
        return f"ComposedL1({self.alphabet!r}, xi={self.xi:g})"

    @property
    def least(self) -> float:
        """Same as that of the exact `L1`."""
        return L1(self.alphabet, self.xi).least

    def compiled_value(self, step: float) -> CellMap:
        """Same as that of the exact `L1`."""
        return L1(self.alphabet, self.xi).compiled_value(step)

    def compiled_prox(self, step: float) -> CellMap:
        """K soft thresholds, one after the other."""
        return CellMap("composed-l1-prox", (self.alphabet.symbols, step * self.xi, 0.0, 0.0))

    def _as_exact(self, step: float) -> L1 | None:
        """The `L1` about moved symbols whose prox this is, where those are evenly spaced as well."""
        gap, pull = self.alphabet.spacing, step * self.xi
        if gap is None or not 0 < pull < 0.99 * gap:
            return None
        moved = self.alphabet.symbols - pull * np.arange(len(self.alphabet))
        return L1(moved, self.xi)

    def line(self, step: float) -> Line:
        """Line through the middle of all flat spots where these form an even staircase, else fitted."""
        exact = self._as_exact(step)
        return fitted_line(self, self.alphabet, step) if exact is None else exact.line(step)

    def compiled_remainder(self, step: float) -> CellMap:
        """A few operations on an even staircase, else K soft thresholds less the line."""
        exact, line = self._as_exact(step), self.line(step)
        if exact is None:
            return CellMap("composed-l1-prox", (self.alphabet.symbols, step * self.xi, *line))
        return exact.compiled_remainder(step)

    def compiled_envelope(self, step: float) -> CellMap:
        """Same as that of the exact `L1`."""
        return L1(self.alphabet, self.xi).compiled_envelope(step)


@stored("penalty ridge", "center", "xi")
class Ridge(CellPenalty):
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
            raise ArgumentError.must("center", center, "be finite")
        self.xi = check_strength(xi)

    def __repr__(self) -> str:
        return f"Ridge(center={self.center:g}, xi={self.xi:g})"

    @property
    def least(self) -> float:
        """0, at the centre."""
        return 0.0

    def compiled_value(self, step: float) -> CellMap:
        """step·ξ (x − centre)²."""
        return CellMap("square", (step * self.xi, self.center))

    def compiled_prox(self, step: float) -> CellMap:
        """A weighted mean of x and the centre."""
        return CellMap("line", tuple(self.line(step)))

    def line(self, step: float) -> Line:
        """The prox is a line."""
        slope = 1 / (1 + 2 * step * self.xi)
        return Line(slope, (1 - slope) * self.center)

    def compiled_remainder(self, step: float) -> None:
        """None: nothing remains."""
        return


def check_strength(xi: float) -> float:
    """A finite ξ, at least 0."""
    if not (np.isfinite(xi) and xi >= 0):
        raise ArgumentError.must("xi", xi, "be a finite number, at least 0")
    return float(xi)


def check_weights(weights: ArrayLike | None, alphabet: Alphabet) -> Array:
    """One finite weight, at least 0, for each symbol; 1 where none are given."""
    if weights is None:
        return np.ones(len(alphabet))
    out = np.array(weights, dtype=np.float64)
    if out.shape != (len(alphabet),):
        raise ValueError(
            f"weights must hold one number for each of the {len(alphabet)} symbols, got shape {out.shape}"
        )
    if not (np.isfinite(out).all() and (out >= 0).all()):
        raise ArgumentError.must("weights", out.tolist(), "be finite and at least 0")
    return out
