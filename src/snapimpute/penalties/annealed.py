"""Penalties with an α that comes down: a large α has few local minima, and each solution starts the next."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

from numpy.typing import ArrayLike

from snapimpute.base.types import Array
from snapimpute.penalties.base import DiscretePenalty


class AnnealedPenalty(DiscretePenalty):
    """A penalty with an α, as `anneal` needs.

    Examples
    --------
    >>> from snapimpute import FractionalL0
    >>> penalty: AnnealedPenalty = FractionalL0("0:4:2", xi=0.1, alpha=0.01)
    >>> penalty.widest, penalty.with_alpha(0.5)
    (4.0, FractionalL0(Alphabet([0, 2, 4]), xi=0.1, alpha=0.5))
    """

    alpha: float

    @property
    @abstractmethod
    def widest(self) -> float:
        """The α to begin with."""

    @abstractmethod
    def with_alpha(self, alpha: float) -> Self:
        """Return the same penalty at another α."""


class MajorisedPenalty(AnnealedPenalty):
    """An annealed penalty below a function whose minimiser has a closed form, as `solvers.MM` needs.

    Examples
    --------
    >>> from snapimpute import FractionalL0
    >>> penalty: MajorisedPenalty = FractionalL0("0,1", xi=0.1, alpha=0.1)
    >>> penalty.majorised([0.2, 0.9], anchor=[0.0, 1.0])
    array([0.07178082, 0.96136986])
    """

    @abstractmethod
    def majorised(self, x: ArrayLike, anchor: ArrayLike, step: float = 1.0) -> Array:
        """Minimiser over u of step·(function that touches the penalty at the anchor) + ½ (u − x)²."""

    @abstractmethod
    def slope(self, x: ArrayLike) -> Array:
        """Derivative of the penalty at every entry, ξ included."""
