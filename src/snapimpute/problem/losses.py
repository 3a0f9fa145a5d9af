"""Cost of misfit at the observed entries: least squares, or a likelihood.

Every loss is convex and scaled such that its gradient is 1-Lipschitz, so that a
proximal step of length 1 is right for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp

from snapimpute.base.files import stored
from snapimpute.base.types import Array


class Loss(ABC):
    """A convex function of the entries on Ω, given what was observed there."""

    @abstractmethod
    def value(self, x: Array, targets: Array) -> float:
        """Σ over Ω."""

    @abstractmethod
    def gradient(self, x: Array, targets: Array) -> Array:
        """Its derivative at every observed entry."""

    def curvature(self, x: Array, y: Array, targets: Array) -> float:
        """loss(x) − loss(y) − ⟨∇loss(y), x − y⟩, at most ½‖x − y‖²."""
        return self.value(x, targets) - self.value(y, targets) - float(self.gradient(y, targets) @ (x - y))


@stored("loss least-squares")
@dataclass(frozen=True)
class Squares(Loss):
    """½ Σ (x − o)²: the fit of the paper."""

    def value(self, x: Array, targets: Array) -> float:
        """½ Σ (x − o)²."""
        return 0.5 * float(np.sum((x - targets) ** 2))

    def gradient(self, x: Array, targets: Array) -> Array:
        """x − o."""
        return x - targets

    def curvature(self, x: Array, y: Array, targets: Array) -> float:
        """½‖x − y‖², without cancellation."""
        return 0.5 * float(np.sum((x - y) ** 2))


@stored("loss multinomial", "symbols")
@dataclass(frozen=True)
class Multinomial(Loss):
    """−log-likelihood of symbols whose log-odds against the last symbol are the entries, times 4 (K = 2) or 2.

    The K − 1 log-odds of one cell stand in K − 1 blocks of x, one after the
    other, and ``targets`` is 1 in the block of the symbol observed, else 0. For
    two symbols this is the logistic loss of 1-bit completion. The factor makes
    the gradient 1-Lipschitz: the Hessian of the log-likelihood of a cell is at
    most 1/4 for two symbols, 1/2 for more.
    """

    symbols: int

    @property
    def scale(self) -> float:
        """Factor of the log-likelihood."""
        return 4.0 if self.symbols == 2 else 2.0

    def log_odds(self, x: Array) -> Array:
        """The K log-odds of each cell, one row for each symbol; those of the last symbol are 0."""
        odds = x.reshape(self.symbols - 1, -1)
        return np.vstack([odds, np.zeros(odds.shape[1])])

    def probabilities(self, x: Array) -> Array:
        """The probability of each symbol (row) for each cell (column)."""
        odds = self.log_odds(x)
        shares: Array = np.exp(odds - logsumexp(odds, axis=0))
        return shares

    def value(self, x: Array, targets: Array) -> float:
        """scale·Σ (log Σ_k exp(x_k) − x_observed)."""
        return self.scale * (float(logsumexp(self.log_odds(x), axis=0).sum()) - float(x @ targets))

    def gradient(self, x: Array, targets: Array) -> Array:
        """scale·(probability less what was observed)."""
        return self.scale * (self.probabilities(x)[:-1].ravel() - targets)


@stored("loss thresholds", "thresholds")
@dataclass(frozen=True, eq=False)
class Thresholds(Loss):
    """Σ_k log(1 + exp(∓(x − θ_k))), scaled: the entry should lie on the right side of every threshold.

    ``targets`` is the position of the symbol observed, 0 … K − 1, and θ_k, ascending,
    separates the symbols up to k from those above.
    """

    thresholds: Array

    @property
    def scale(self) -> float:
        """Makes the gradient 1-Lipschitz: each of the K − 1 terms bends by at most 1/4."""
        return 4.0 / self.thresholds.size

    def _sides(self, targets: Array) -> Array:
        """+1 where the symbol lies above a threshold (row), −1 where below."""
        above: Array = np.where(targets > np.arange(self.thresholds.size)[:, None] + 0.5, 1.0, -1.0)
        return above

    def value(self, x: Array, targets: Array) -> float:
        """Σ over entries and thresholds."""
        margins = self._sides(targets) * (x - self.thresholds[:, None])
        return self.scale * float(np.logaddexp(0.0, -margins).sum())

    def gradient(self, x: Array, targets: Array) -> Array:
        """Σ over the thresholds."""
        sides = self._sides(targets)
        pulls: Array = (-sides * expit(-sides * (x - self.thresholds[:, None]))).sum(axis=0)
        return self.scale * pulls
