"""Spectral penalties: functions of the singular values that favour low rank.

λ lives inside the penalty. `prox(s, step)` is the minimiser over t ≥ 0 of
``step·penalty(t) + ½ ‖t − s‖²``, a global one for every step, also where the
penalty is not convex; `threshold(step)` is the largest singular value that it
maps to zero, which tells the partial SVD how many triplets matter.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array


class SpectralPenalty(ABC):
    """A penalty on the vector of singular values, in descending order."""

    name: ClassVar[str]
    convex: ClassVar[bool]
    lam: float

    @property
    def untouched(self) -> int:
        """Number of leading singular values that `prox` keeps as they are, however small."""
        return 0

    def with_lam(self, lam: float) -> Self:
        """Return the same penalty with another λ."""
        return replace(self, lam=lam)  # type: ignore[type-var]  # every penalty is a dataclass

    @abstractmethod
    def value(self, s: ArrayLike) -> float:
        """Penalty of the whole vector, λ included."""

    @abstractmethod
    def prox(self, s: ArrayLike, step: float = 1.0) -> Array:
        """Minimiser over t ≥ 0 of ``step·penalty(t) + ½ ‖t − s‖²``."""

    @abstractmethod
    def threshold(self, step: float = 1.0) -> float:
        """Largest singular value that `prox` maps to zero (of those behind the first `untouched`)."""


@stored("penalty nuclear", "lam")
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


@stored("penalty lsp", "lam", "theta")
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


@stored("penalty capped-l1", "lam", "theta")
@dataclass(frozen=True)
class CappedL1(SpectralPenalty):
    """λ Σ_i min(s_i, θ), the capped ℓ1: values from θ on cost the same, so large ones are not shrunk.

    Examples
    --------
    >>> CappedL1(lam=1.0, theta=2.0).prox([5.0, 2.0, 1.0])
    array([5., 1., 0.])
    """

    lam: float
    theta: float
    name: ClassVar[str] = "capped-l1"
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_positive("lam", self.lam, zero=True)
        _check_positive("theta", self.theta)

    def value(self, s: ArrayLike) -> float:
        """λ Σ_i min(s_i, θ)."""
        return float(self.lam * np.sum(np.minimum(np.asarray(s, dtype=np.float64), self.theta)))

    def prox(self, s: ArrayLike, step: float = 1.0) -> Array:
        """Soft threshold up to θ + step·λ/2, where keeping s is as good; all is kept or cut if step·λ > 2θ."""
        s, edge = np.asarray(s, dtype=np.float64), self.threshold(step)
        pull = step * self.lam
        shrunk = (s <= self.theta + 0.5 * pull) & (pull <= 2 * self.theta)
        return np.where(s <= edge, 0.0, np.where(shrunk, s - pull, s))

    def threshold(self, step: float = 1.0) -> float:
        """step·λ while step·λ ≤ 2θ; beyond, √(2·step·λ·θ), where keeping s is as good as 0."""
        pull = _check_positive("step", step) * self.lam
        return pull if pull <= 2 * self.theta else math.sqrt(2 * pull * self.theta)


@stored("penalty tnn", "lam", "r")
@dataclass(frozen=True)
class TruncatedNuclear(SpectralPenalty):
    """λ Σ_{i>r} s_i, the truncated nuclear norm (TNN): the r largest values are free.

    r = 0 is the nuclear norm.

    Examples
    --------
    >>> TruncatedNuclear(lam=1.0, r=1).prox([5.0, 3.0, 0.5])
    array([5., 2., 0.])
    """

    lam: float
    r: int
    name: ClassVar[str] = "tnn"
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_positive("lam", self.lam, zero=True)
        given: object = self.r
        if not (isinstance(given, Integral) and int(given) >= 0):
            raise ArgumentError.must("r", given, "be a whole number, at least 0")

    @property
    def untouched(self) -> int:
        """r."""
        return int(self.r)

    def value(self, s: ArrayLike) -> float:
        """λ Σ_{i>r} s_i."""
        return float(self.lam * np.sum(np.asarray(s, dtype=np.float64)[self.r :]))

    def prox(self, s: ArrayLike, step: float = 1.0) -> Array:
        """Soft threshold of all but the first r."""
        out = np.array(s, dtype=np.float64)
        out[self.r :] = np.maximum(out[self.r :] - self.threshold(step), 0.0)
        return out

    def threshold(self, step: float = 1.0) -> float:
        """step·λ, for all but the first r."""
        return _check_positive("step", step) * self.lam


@stored("penalty mcp", "lam", "gamma")
@dataclass(frozen=True)
class MCP(SpectralPenalty):
    """Σ_i λs_i − s_i²/2γ up to s_i = γλ, then γλ²/2: the minimax concave penalty.

    λ is a parameter here, not a factor. γ → ∞ gives the nuclear norm.

    Examples
    --------
    >>> MCP(lam=1.0, gamma=3.0).prox([5.0, 2.0, 1.0])
    array([5. , 1.5, 0. ])
    """

    lam: float
    gamma: float = 3.0
    name: ClassVar[str] = "mcp"
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_positive("lam", self.lam, zero=True)
        _check_positive("gamma", self.gamma)

    def value(self, s: ArrayLike) -> float:
        """Σ_i of the quadratic piece, constant from γλ on."""
        t = np.minimum(np.asarray(s, dtype=np.float64), self.gamma * self.lam)
        return float(np.sum(t * (self.lam - t / (2 * self.gamma))))

    def prox(self, s: ArrayLike, step: float = 1.0) -> Array:
        """Firm threshold while step < γ, hard threshold from there on."""
        s = np.asarray(s, dtype=np.float64)
        edge = self.threshold(step)
        if step >= self.gamma:
            return np.where(s <= edge, 0.0, s)
        # Near step = γ the difference γ − step is exact, 1 − step/γ is not; rounding must not lift the line above s.
        inner = np.minimum((s - edge) * (self.gamma / (self.gamma - step)), s)
        return np.where(s <= edge, 0.0, np.where(s >= self.gamma * self.lam, s, inner))

    def threshold(self, step: float = 1.0) -> float:
        """step·λ while step < γ, else λ√(γ·step)."""
        step = _check_positive("step", step)
        return self.lam * (step if step < self.gamma else math.sqrt(self.gamma * step))


@stored("penalty scad", "lam", "a")
@dataclass(frozen=True)
class SCAD(SpectralPenalty):
    """Σ_i λs_i up to λ, a quadratic up to aλ, then (a+1)λ²/2: smoothly clipped absolute deviation.

    λ is a parameter here, not a factor; a > 2. a → ∞ gives the nuclear norm.

    Examples
    --------
    >>> SCAD(lam=1.0, a=3.0).prox([5.0, 2.5, 1.5])
    array([5. , 2. , 0.5])
    """

    lam: float
    a: float = 3.7
    name: ClassVar[str] = "scad"
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_positive("lam", self.lam, zero=True)
        if not (np.isfinite(self.a) and self.a > 2):
            raise ArgumentError.must("a", self.a, "be a finite number above 2")

    def value(self, s: ArrayLike) -> float:
        """Σ_i of the three pieces."""
        t = np.asarray(s, dtype=np.float64)
        over = np.clip(t, self.lam, self.a * self.lam) - self.lam
        return float(np.sum(self.lam * np.minimum(t, self.lam) + over * (self.lam - over / (2 * (self.a - 1)))))

    def prox(self, s: ArrayLike, step: float = 1.0) -> Array:
        """Soft threshold up to (1 + step)λ, then a line up to s = aλ, while step < a − 1.

        From there on the middle piece has no minimum inside: the soft threshold ends where keeping s is
        as good, at λ(step + a + 1)/2, or, once step > a + 1, all is kept or cut.
        """
        s, edge = np.asarray(s, dtype=np.float64), self.threshold(step)
        lam, last = self.lam, self.a - 1
        if step > self.a + 1:
            return np.where(s <= edge, 0.0, s)
        if step >= last:
            return np.where(s <= edge, 0.0, np.where(s <= 0.5 * lam * (step + self.a + 1), s - edge, s))
        bend = lam * (1 + step)
        line = np.minimum(lam + (s - bend) * (last / (last - step)), s)  # rounding must not lift it above s
        low = np.where(s <= edge, 0.0, np.where(s <= bend, s - edge, line))
        return np.where(s >= self.a * lam, s, low)

    def threshold(self, step: float = 1.0) -> float:
        """step·λ while step ≤ a + 1, else λ√(step·(a + 1))."""
        step = _check_positive("step", step)
        return self.lam * (step if step <= self.a + 1 else math.sqrt(step * (self.a + 1)))


@stored("penalty rank", "lam")
@dataclass(frozen=True)
class Rank(SpectralPenalty):
    """λ times the number of singular values above 0: the rank itself.

    Examples
    --------
    >>> Rank(2.0).prox([5.0, 3.0, 1.0])
    array([5., 3., 0.])
    """

    lam: float
    name: ClassVar[str] = "rank"
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_positive("lam", self.lam, zero=True)

    def value(self, s: ArrayLike) -> float:
        """λ · |{i: s_i > 0}|."""
        return float(self.lam * np.count_nonzero(np.asarray(s, dtype=np.float64)))

    def prox(self, s: ArrayLike, step: float = 1.0) -> Array:
        """Hard threshold."""
        s = np.asarray(s, dtype=np.float64)
        return np.where(s <= self.threshold(step), 0.0, s)

    def threshold(self, step: float = 1.0) -> float:
        """√(2·step·λ)."""
        return math.sqrt(2 * _check_positive("step", step) * self.lam)


def lam_at_threshold(build: Callable[[float], SpectralPenalty], target: float, step: float = 1.0) -> float:
    """Return the λ at which the prox of ``build(λ)`` maps singular values up to ``target`` to zero.

    Examples
    --------
    >>> lam_at_threshold(Rank, 4.0)
    8.0
    """
    if target <= 0:
        return 0.0
    if build(_check_positive("target", target)).threshold(step) == target:
        return float(target)

    def excess(log_lam: float) -> float:
        return math.log(max(build(math.exp(log_lam)).threshold(step), 1e-300) / target)

    low = high = math.log(target)
    while excess(low) > 0:
        low -= 4.0
    while excess(high) < 0:
        high += 4.0
    return math.exp(float(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))


def _check_positive(name: str, value: float, *, zero: bool = False) -> float:
    if not (np.isfinite(value) and (value > 0 or (zero and value == 0))):
        raise ArgumentError.must(name, value, f"be a finite number {'at least' if zero else 'above'} 0")
    return float(value)
