"""Spectral penalties: functions of the singular values that favour low rank.

λ lives inside the penalty. `prox(s, step)` is the minimiser over t ≥ 0 of
``step·penalty(t) + ½ ‖t − s‖²``, a global one for every step, also where the
penalty is not convex; `threshold(step)` is the largest singular value that it
maps to zero, which tells the partial SVD how many triplets matter.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from snapimpute.types import Array


class SpectralPenalty(ABC):
    """A penalty on the vector of singular values, in descending order."""

    name: ClassVar[str]
    convex: ClassVar[bool]

    @abstractmethod
    def value(self, s: ArrayLike) -> float:
        """Penalty of the whole vector, λ included."""

    @abstractmethod
    def prox(self, s: ArrayLike, step: float = 1.0) -> Array:
        """Minimiser over t ≥ 0 of ``step·penalty(t) + ½ ‖t − s‖²``."""

    @abstractmethod
    def threshold(self, step: float = 1.0) -> float:
        """Largest singular value that `prox` maps to zero."""


@dataclass(frozen=True)
class Nuclear(SpectralPenalty):
    """λ Σ_i s_i, the nuclear norm; its prox is the soft threshold (Eq. 9).

    Examples
    --------
    >>> Nuclear(2.0).prox([5.0, 3.0, 1.0])
    array([3., 1., 0.])
    """

    lam: float
    name: ClassVar[str] = "nuclear"
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_positive("lam", self.lam, zero=True)

    def value(self, s: ArrayLike) -> float:
        """λ Σ_i s_i."""
        return float(self.lam * np.sum(np.asarray(s, dtype=np.float64)))

    def prox(self, s: ArrayLike, step: float = 1.0) -> Array:
        """max(s − step·λ, 0)."""
        return np.maximum(np.asarray(s, dtype=np.float64) - self.threshold(step), 0.0)

    def threshold(self, step: float = 1.0) -> float:
        """step·λ."""
        return _check_positive("step", step) * self.lam


@dataclass(frozen=True)
class LogSum(SpectralPenalty):
    """λ Σ_i log(1 + s_i/θ), the log-sum penalty (LSP): not convex, nearer to the rank.

    The smaller θ, the nearer; θ → ∞ with λ/θ fixed gives the nuclear norm.

    Examples
    --------
    >>> LogSum(lam=1.0, theta=1.0).prox([3.0, 1.0])
    array([2.73205081, 0. ])
    """

    lam: float
    theta: float
    name: ClassVar[str] = "lsp"
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_positive("lam", self.lam, zero=True)
        _check_positive("theta", self.theta)

    def value(self, s: ArrayLike) -> float:
        """λ Σ_i log(1 + s_i/θ)."""
        return float(self.lam * np.sum(np.log1p(np.asarray(s, dtype=np.float64) / self.theta)))

    def prox(self, s: ArrayLike, step: float = 1.0) -> Array:
        """Global minimiser: the larger stationary point above the threshold, 0 up to it."""
        s = np.asarray(s, dtype=np.float64)
        return np.where(s <= self.threshold(step), 0.0, self._stationary(s, step * self.lam))

    def threshold(self, step: float = 1.0) -> float:
        """step·λ/θ while step·λ ≤ θ²; beyond, where the stationary point is as good as 0."""
        pull, theta = _check_positive("step", step) * self.lam, self.theta
        if pull <= theta**2 * (1 + 2e-7):  # so near the limit the two cases differ by 1e-14 of the value
            return pull / theta

        def excess(t: float) -> float:
            """Objective of t less that of 0, for the s that has t as its stationary point."""
            return pull * (math.log1p(t / theta) - t / (t + theta)) - 0.5 * t * t

        low, high = math.sqrt(pull) - theta, pull / theta - theta
        t = float(brentq(excess, low, high, xtol=1e-15 * low, rtol=8.9e-16))
        return t + pull / (t + theta)

    def _stationary(self, s: Array, pull: float) -> Array:
        """Larger root of t + pull/(t + θ) = s, that is of t² − (s − θ) t − (sθ − pull) = 0."""
        half, product = 0.5 * (s - self.theta), s * self.theta - pull
        root = np.sqrt(np.maximum(half**2 + product, 0.0))
        # Where half < 0 the sum half + root would cancel; the product of the two roots gives the other form.
        below = half < 0
        return np.maximum(np.where(below, product / np.where(below, root - half, 1.0), half + root), 0.0)


def _check_positive(name: str, value: float, *, zero: bool = False) -> float:
    if not (np.isfinite(value) and (value > 0 or (zero and value == 0))):
        raise ValueError(f"{name} must be a finite number {'at least' if zero else 'above'} 0, got {value}")
    return float(value)
