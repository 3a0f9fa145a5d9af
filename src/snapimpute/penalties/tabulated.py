"""Discrete penalties between p = 0 and p = 1, whose prox is found numerically and tabulated."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import AlphabetLike
from snapimpute.penalties import _kernels as kernels
from snapimpute.penalties._table import Family, Table, tabulated_prox
from snapimpute.penalties.annealed import MajorisedPenalty
from snapimpute.penalties.base import check_step
from snapimpute.penalties.discrete import SymbolPenalty
from snapimpute.penalties.maps import CellMap


class _Key(NamedTuple):
    """A `Family` that can be looked up."""

    symbols: tuple[float, ...]
    pulls: tuple[float, ...]
    shape: float
    power: bool


class TabulatedPenalty(SymbolPenalty):
    """A penalty whose prox is a table; the last few tables are kept, for all penalties together."""

    convex = False

    @abstractmethod
    def _family(self, step: float) -> _Key:
        """The scalar function that the table is made of; symbols without a pull are left out."""

    def compiled_prox(self, step: float) -> CellMap:
        """The table of this step."""
        family = self._family(step)
        if not family.symbols:
            return CellMap("identity", ())
        return CellMap("tabulated", (self.alphabet.symbols, _table(*family)))

    def _felt(self, step: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Symbols with a pull, and the pulls."""
        pulls = self.pulls(step)
        return tuple(self.alphabet.symbols[pulls > 0].tolist()), tuple(pulls[pulls > 0].tolist())


@lru_cache(maxsize=64)
def _table(symbols: tuple[float, ...], pulls: tuple[float, ...], shape: float, power: bool) -> Table:
    return tabulated_prox(Family(np.array(symbols), np.array(pulls), shape, power))


@stored("penalty l0-fractional", "alphabet", "xi", "alpha", "weights")
class FractionalL0(TabulatedPenalty, MajorisedPenalty):
    """ξ Σ_k w_k d²/(d² + α), d = x − a_k: the ℓ0 made smooth, as in the sequel of the paper (arXiv 2405.02101).

    It tends to `L0` as α → 0, and to ξ/α times a sum of squares for large α.
    The smaller α, the deeper and narrower the wells about the symbols; `anneal`
    and `solvers.MM` bring α down while they iterate. `prox` is the exact
    minimiser; the sequel's closed formula, which minimises a majoriser instead,
    is `majorised`.

    Parameters
    ----------
    alphabet, xi, weights
        As in `Weighted`.
    alpha : float
        Above 0, in squared units of the symbols: wells are about √α wide.

    Examples
    --------
    >>> FractionalL0("1:5", xi=0.02, alpha=0.01).prox([3.0, 3.1, 3.5])
    array([3.        , 3.02149619, 3.49997358])
    """

    name = "l0-fractional"

    def __init__(self, alphabet: AlphabetLike, xi: float, alpha: float, weights: ArrayLike | None = None) -> None:
        super().__init__(alphabet, xi, weights)
        if not 0 < alpha < np.inf:
            raise ArgumentError.must("alpha", alpha, "be a finite number above 0")
        self.alpha = float(alpha)

    def _shape(self) -> dict[str, float]:
        return {"alpha": self.alpha}

    def with_alpha(self, alpha: float) -> Self:
        """Return the same penalty at another α."""
        return type(self)(self.alphabet, self.xi, alpha, self.weights)

    @property
    def least(self) -> float:
        """The least cost, near a symbol or, where wells merge, between symbols."""
        symbols = self.alphabet.symbols
        grid = np.unique(np.concatenate([symbols, np.linspace(symbols[0], symbols[-1], 64 * symbols.size)]))
        cost = self.value(grid)
        low = np.flatnonzero(np.r_[True, cost[1:] <= cost[:-1]] & np.r_[cost[:-1] <= cost[1:], True])
        return min(self._least_near(grid, k) for k in low.tolist())

    def _least_near(self, grid: Array, k: int) -> float:
        """The least value between the neighbours of a point of a grid."""
        around = grid[max(k - 1, 0)], grid[min(k + 1, grid.size - 1)]
        found = minimize_scalar(
            lambda u: float(self.value(u)), bounds=around, method="bounded", options={"xatol": 1e-12}
        )
        return min(float(self.value(grid[k])), float(found.fun))

    def _family(self, step: float) -> _Key:
        return _Key(*self._felt(step), self.alpha, power=False)

    def compiled_value(self, step: float) -> CellMap:
        """Σ_k over the symbols."""
        return CellMap("fractional-value", (self.alphabet.symbols, self.pulls(step), self.alpha))

    @property
    def widest(self) -> float:
        """The α that annealing begins with: the squared largest distance between neighbouring symbols."""
        return float(np.diff(self.alphabet.symbols).max(initial=0.0)) ** 2

    def slope(self, x: ArrayLike) -> Array:
        """ξ Σ_k w_k 2αd/(d² + α)², entry by entry."""
        at = np.asarray(x, dtype=np.float64)
        out = np.zeros_like(at)
        for a, w in zip(self.alphabet, self.weights, strict=True):
            d = at - a
            out += 2 * w * self.alpha * d / (d * d + self.alpha) ** 2
        return self.xi * out

    def majorised(self, x: ArrayLike, anchor: ArrayLike, step: float = 1.0) -> Array:
        """(x + 2ξ Σ b_k² a_k)/(1 + 2ξ Σ b_k²), b_k = √α/((anchor − a_k)² + α): one step down from the anchor.

        d²/(d² + α) is concave in d², so that its tangent at the anchor lies
        above it; this is the minimiser over u of that majoriser plus
        ½ (u − x)², and never costs more than u = anchor.
        """
        out = np.array(x, dtype=np.float64, order="C")
        at = np.ascontiguousarray(np.broadcast_to(np.asarray(anchor, dtype=np.float64), out.shape))
        pulls = self.pulls(check_step(step))
        kernels.fractional_majorised(out.reshape(-1), at.reshape(-1), self.alphabet.symbols, pulls, self.alpha)
        return out


@stored("penalty lp", "alphabet", "xi", "p", "weights")
class Lp(TabulatedPenalty):
    """ξ Σ_k w_k |x − a_k|^p with 0 < p < 1, entry by entry.

    Every symbol is a cusp and a local minimiser, and between symbols the penalty
    is concave. The paper's ‖·‖_p of the whole vector is, for p < 1, neither a norm nor a sum
    over entries; this is the sum over entries of its p-th power.

    Parameters
    ----------
    alphabet, xi, weights
        As in `Weighted`.
    p : float
        Between 0 and 1, both excluded; for the ends see `L0` and `L1`.

    Examples
    --------
    >>> Lp("1:5", xi=0.02, p=0.5).prox([3.0, 3.1, 3.4])
    array([3.        , 3.        , 3.38971066])
    """

    name = "lp"

    def __init__(self, alphabet: AlphabetLike, xi: float, p: float, weights: ArrayLike | None = None) -> None:
        super().__init__(alphabet, xi, weights)
        if not 0 < p < 1:
            raise ArgumentError.must("p", p, "lie between 0 and 1 (both excluded; there are L0 and L1)")
        self.p = float(p)

    def _shape(self) -> dict[str, float]:
        return {"p": self.p}

    @property
    def least(self) -> float:
        """The cost on the best symbol: between symbols the penalty is concave."""
        return float(self.value(self.alphabet.symbols).min())

    def _family(self, step: float) -> _Key:
        return _Key(*self._felt(step), self.p, power=True)

    def compiled_value(self, step: float) -> CellMap:
        """Σ_k over the symbols."""
        return CellMap("power-value", (self.alphabet.symbols, self.pulls(step), self.p))
