"""Penalties with an α that comes down: a large α has few local minima, and each solution starts the next."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

from numpy.typing import ArrayLike

from snapimpute.base.types import Array
from snapimpute.penalties.base import DiscretePenalty


class AnnealedPenalty(DiscretePenalty):
    """A penalty with an α, as `anneal` needs."""

    alpha: float

    @property
    @abstractmethod
    def widest(self) -> float:
        """The α to begin with."""

    @abstractmethod
    def with_alpha(self, alpha: float) -> Self:
        """Return the same penalty at another α."""


class MajorisedPenalty(AnnealedPenalty):
    """An annealed penalty below a function whose minimiser has a closed form, as `solvers.MM` needs."""

    @abstractmethod
    def majorised(self, x: ArrayLike, anchor: ArrayLike, step: float = 1.0) -> Array:
        """Minimiser over u of step·(function that touches the penalty at the anchor) + ½ (u − x)²."""

    @abstractmethod
    def slope(self, x: ArrayLike) -> Array:
        """Derivative of the penalty at every entry, ξ included."""
