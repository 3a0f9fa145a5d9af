"""p = 2: the norm of the whole vector of unobserved entries, which is no sum over entries."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.penalties.base import HiddenCells, JointPenalty, Line, Moments, Split, Total, check_step
from snapimpute.penalties.discrete import Weighted


@stored("penalty l2", "alphabet", "xi", "weights")
class L2(Weighted, JointPenalty):
    """ξ Σ_k w_k ‖x − a_k 1‖₂ over all unobserved entries together: the paper's regulariser with p = 2.

    The prox is αx + β1. x − a_k 1 has one part along the vector 1 and one along
    x − mean(x), so that the whole problem lies in a plane with the symbols on
    one axis, and only the number, the sum and the sum of squares of the entries
    enter. The prox of a low-rank matrix is therefore of low rank: no pass over
    all cells is needed. It is a re-centring and a shrinkage, and knows nothing
    of where single entries lie.

    Parameters
    ----------
    alphabet, xi, weights
        As in `Weighted`. A norm of N entries pulls each of them by about ξ/√N,
        so ξ has to grow with √N.

    Examples
    --------
    >>> L2("1:5", xi=0.5).prox([1.0, 5.0])
    array([2.1107288, 3.8892712])
    """

    name = "l2"
    convex = True
    alphabet: Alphabet

    def value(self, x: ArrayLike) -> Array:
        """ξ Σ_k w_k ‖x − a_k 1‖₂, one number for the whole array."""
        return np.asarray(self.value_of(Moments.of(np.asarray(x, dtype=np.float64))))

    def prox(self, x: ArrayLike, step: float = 1.0) -> Array:
        """αx + β1."""
        y = np.asarray(x, dtype=np.float64)
        scale, shift = self.shrinkage(Moments.of(y), step)
        return scale * y + shift

    def envelope(self, x: ArrayLike, step: float = 1.0) -> Array:
        """Minimum over u of ``step·penalty(u) + ½‖u − x‖²``, one number for the whole array."""
        return np.asarray(self.envelope_of(Moments.of(np.asarray(x, dtype=np.float64)), step))

    def least_total(self, count: int) -> float:
        """Cost of all entries at the weighted median."""
        symbols = self.alphabet.symbols
        costs = np.abs(symbols[:, None] - symbols) @ self.weights
        return self.xi * math.sqrt(count) * float(costs.min())

    def total(self, cells: HiddenCells, kind: Total, step: float) -> float:
        """``step·penalty`` of the cells, its envelope, or its value at the prox, by moments."""
        moments = cells.moments()
        if kind == "value":
            return step * self.value_of(moments)
        return self.envelope_of(moments, step) if kind == "envelope" else self.landing_of(moments, step)

    def split(self, cells: HiddenCells, step: float) -> Split:
        """The prox is a line."""
        return Split(Line(*self.shrinkage(cells.moments(), step)), None)

    # ---------------------------------------------------------------- by moments
    def value_of(self, moments: Moments) -> float:
        """The value at a vector with these moments."""
        return self._cost(moments.place, moments.count, 1.0) if moments.count else 0.0

    def envelope_of(self, moments: Moments, step: float = 1.0) -> float:
        """The envelope at a vector with these moments."""
        if not moments.count:
            return 0.0
        place = moments.place
        best = self._nearest(place, moments.count, check_step(step))
        return self._cost(best, moments.count, step) + 0.5 * float(np.sum((best - place) ** 2))

    def landing_of(self, moments: Moments, step: float = 1.0) -> float:
        """``step`` times the value at the prox of a vector with these moments."""
        if not moments.count:
            return 0.0
        return self._cost(self._nearest(moments.place, moments.count, check_step(step)), moments.count, step)

    def shrinkage(self, moments: Moments, step: float = 1.0) -> tuple[float, float]:
        """(α, β) of the prox αx + β1 of a vector with these moments."""
        if not moments.count:
            return 1.0, 0.0
        place = moments.place
        along, across = self._nearest(place, moments.count, check_step(step))
        scale = across / place[1] if place[1] > 0 else 0.0
        return scale, (along - scale * place[0]) / math.sqrt(moments.count)

    # ---------------------------------------------------------------- in the plane
    def _axis(self, count: int) -> Array:
        """Positions of the symbols on the first axis."""
        return math.sqrt(count) * self.alphabet.symbols

    def _cost(self, v: Array, count: int, step: float) -> float:
        return step * self.xi * float(self.weights @ np.hypot(v[0] - self._axis(count), v[1]))

    def _nearest(self, place: Array, count: int, step: float) -> Array:
        """Minimiser over v of step·ξ Σ w_k ‖v − A_k‖ + ½‖v − place‖²: a symbol, or Newton's method elsewhere."""
        axis, pulls = self._axis(count), step * self.xi * self.weights
        for k, at in enumerate(axis):
            others = float(pulls @ np.sign(at - axis))
            if math.hypot(place[0] - at - others, place[1]) <= pulls[k]:
                return np.array([at, 0.0])
        felt = pulls > 0
        axis, pulls = axis[felt], pulls[felt]

        def value(v: Array) -> float:
            return float(pulls @ np.hypot(v[0] - axis, v[1])) + 0.5 * float(np.sum((v - place) ** 2))

        size = max(float(np.abs(place).max()), float(np.abs(axis).max(initial=0.0)), 1e-300)
        v = _below_cusps(value, place, axis, pulls)
        for _ in range(200):
            step_to = _newton(v, place, axis, pulls)
            length = 1.0
            while value(v + length * step_to) > value(v) and length > 1e-12:
                length *= 0.5
            v = v + length * step_to
            if np.abs(length * step_to).max() <= 1e-15 * size:
                break
        return np.array([v[0], max(v[1], 0.0)])


def _below_cusps(value: Callable[[Array], float], place: Array, axis: Array, pulls: Array) -> Array:
    """A start that is better than every symbol, none of which is the minimiser: descent never meets one again."""
    costs = [value(np.array([at, 0.0])) for at in axis]
    if not costs or value(place) < min(costs) * (1 - 1e-9):
        return place.copy()
    k = int(np.argmin(costs))
    cusp = np.array([axis[k], 0.0])
    down = place - cusp - np.array([float(pulls @ np.sign(axis[k] - axis)), 0.0])
    length = 1 - pulls[k] / math.hypot(*down)
    while value(cusp + length * down) >= costs[k] and length > 1e-18:
        length *= 0.5
    start: Array = cusp + length * down
    return start


def _newton(v: Array, place: Array, axis: Array, pulls: Array) -> Array:
    """The Newton step of Σ pulls_k ‖v − A_k‖ + ½‖v − place‖²."""
    along, across = v[0] - axis, v[1]
    far = np.maximum(np.hypot(along, across), 1e-300)
    slope = np.array([float(pulls @ (along / far)), float(pulls @ (across / far))]) + v - place
    bend = pulls / far
    mixed = -float(bend @ ((along / far) * (across / far)))
    hessian = np.array(
        [
            [1 + float(bend @ (across / far) ** 2), mixed],
            [mixed, 1 + float(bend @ (along / far) ** 2)],
        ]
    )
    out: Array = -np.linalg.solve(hessian, slope)
    return out
