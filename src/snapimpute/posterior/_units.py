"""The units of one side of a table: their levels and factors, noise, and the prior that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.types import Array

NOISE_SHAPE = 10.0
"""ν: the prior degrees of freedom of the noise of a unit."""

HELD_PRECISION, FIRST_PRECISION, UNUSED_PRECISION = 5.0, 10.0, 1e12
RATE = 0.01
"""Rate of the gamma priors of precisions, whose shape is 1."""


@dataclass(eq=False)
class Side:
    """The units of one side: their numbers, the prior of these, features and noise.

    A unit has its level first, then its factors; ``mean`` is the prior mean of each unit by its features.
    """

    numbers: Array
    noise: Array
    features: Array
    center: Array
    slopes: Array
    slope_precision: Array
    precision: Array
    mean: Array

    @classmethod
    def start(cls, units: int, rank: int, width: int, features: Array, rng: np.random.Generator) -> Side:
        """Begin with small factors and no levels."""
        numbers = np.zeros((units, width), np.float32)
        numbers[:, 1 : rank + 1] = rng.normal(0, 0.3, (units, rank))
        precision = np.full(width, FIRST_PRECISION, np.float32)
        precision[rank + 1 :] = UNUSED_PRECISION
        count = features.shape[1]
        return cls(
            numbers,
            np.ones(units, np.float32),
            features,
            np.zeros(width),
            np.zeros((count, width)),
            np.full(width, FIRST_PRECISION),
            precision,
            np.zeros((units, width), np.float32),
        )

    def draw_prior(self, rank: int, rng: np.random.Generator, *, held: bool, level: bool) -> None:
        """Draw precisions, centres and slopes of the features, given the numbers of the units."""
        units, used = self.numbers.shape[0], rank + 1
        x = self.numbers[:, :used]
        by_features = self.features @ self.slopes[:, :used].astype(np.float32)
        rest = x - by_features
        sums, squares = rest.sum(axis=0, dtype=np.float64), np.einsum("ij,ij->j", rest, rest, dtype=np.float64)
        center = self.center[:used]
        off = squares - 2 * center * sums + units * center**2
        precision = rng.gamma(1 + units / 2, 1 / (RATE + 0.5 * np.maximum(off, 0.0)))
        if held:
            precision[1:] = HELD_PRECISION
        center = (precision * sums + np.sqrt(1 + units * precision) * rng.standard_normal(used)) / (
            1 + units * precision
        )
        if not level:
            center[0] = 0.0
        total = self._squares[:, None] * precision + self.slope_precision[:used]
        x_sums = (self.features.T @ x).astype(np.float64) - self._feature_sums[:, None] * center
        self.slopes[:, :used] = precision * x_sums / total + rng.standard_normal(total.shape) / np.sqrt(total)
        squares = np.einsum("ij,ij->j", self.slopes[:, :used], self.slopes[:, :used])
        self.slope_precision[:used] = rng.gamma(1 + self.slopes.shape[0] / 2, 1 / (RATE + 0.5 * squares))
        self.precision[:used], self.center[:used] = precision, center
        self.mean[:, :used] = center.astype(np.float32) + self.features @ self.slopes[:, :used].astype(np.float32)

    def prior(self, used: int) -> UnitPrior:
        """Copy the prior of the numbers in use."""
        slopes = self.slopes[:, :used].astype(np.float32), self.slope_precision[:used].copy()
        return UnitPrior(self.precision[:used].copy(), self.center[:used].copy(), *slopes)

    def __post_init__(self) -> None:
        self._squares = np.einsum("ij,ij->j", self.features, self.features, dtype=np.float64)
        self._feature_sums = self.features.sum(axis=0, dtype=np.float64)

    def draw_noise(
        self, rest: Array, counts: NDArray[Any], rng: np.random.Generator, *, scaled: NDArray[Any]
    ) -> None:
        """Draw the noise level of each unit, given what is left of its cells; the ``scaled`` ones have mean 1."""
        noise = rng.gamma((NOISE_SHAPE + counts) / 2, 2 / (NOISE_SHAPE + rest))
        if scaled.any():
            noise[scaled] /= np.exp(np.log(noise[scaled]).mean())
        self.noise = noise.astype(np.float32)


@stored("posterior unit prior", "precision", "center", "slopes", "slope_precision")
@dataclass(frozen=True, eq=False)
class UnitPrior:
    """Prior of the units of a side in one draw: the precision and centre of each number, slopes of the features."""

    precision: Array
    center: Array
    slopes: Array
    slope_precision: Array
