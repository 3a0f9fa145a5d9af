"""The units of one side of a table: their levels and factors, noise, and the prior that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.posterior._features import Features

NOISE_SHAPE = 10.0
"""ν: the prior degrees of freedom of the noise of a unit."""

HELD_PRECISION, FIRST_PRECISION, UNUSED_PRECISION = 5.0, 10.0, 1e12
RATE = 0.01
"""Rate of the gamma priors of precisions, whose shape is 1."""

RELAXATION = -0.7
"""Correlation of normal numbers with those of the sweep before, given everything else.

A negative one puts them on the other side of their mean (Adler 1981, over-relaxation), so that errors cancel in
averages over sweeps: half as many are as good. Closer to −1 precisions hardly move.
"""


@dataclass(eq=False)
class Side:
    """The units of one side: their numbers, the prior of these, features and noise.

    A unit has its level first, then its factors; ``mean`` is the prior mean of each unit by its features.
    Features are `Features.rotated`: those of a group are orthogonal, so that their slopes are drawn one by one, and
    each group has a precision of its own. ``slopes`` are in the rotated units, `prior` gives them in those of the
    features.
    """

    numbers: Array
    noise: Array
    features: Array
    turn: Array
    groups: tuple[slice, ...]
    center: Array
    slopes: Array
    slope_precision: Array
    precision: Array
    mean: Array

    @classmethod
    def start(cls, units: int, rank: int, width: int, features: Features, rng: np.random.Generator) -> Side:
        """Begin with small factors and no levels."""
        numbers = np.zeros((units, width), np.float32)
        numbers[:, 1 : rank + 1] = rng.normal(0, 0.3, (units, rank))
        precision = np.full(width, FIRST_PRECISION, np.float32)
        precision[rank + 1 :] = UNUSED_PRECISION
        rotated, turn, groups = features.rotated()
        return cls(
            numbers,
            np.ones(units, np.float32),
            rotated,
            turn,
            groups,
            np.zeros(width),
            np.zeros((rotated.shape[1], width)),
            np.full((len(groups), width), FIRST_PRECISION),
            precision,
            np.zeros((units, width), np.float32),
        )

    def draw_prior(self, rank: int, rng: np.random.Generator, *, held: bool, level: bool) -> None:
        """Draw precisions, centres and slopes of the features, given the numbers of the units."""
        units, used = self.numbers.shape[0], rank + 1
        rest = self.numbers[:, :used] - self.mean[:, :used]
        precision = rng.standard_gamma(1 + units / 2, used) / (RATE + 0.5 * self._ones @ np.square(rest))
        if held:
            precision[1:] = HELD_PRECISION
        products, before = (self._extended.T @ rest).astype(np.float64), self.center[:used]
        sums = products[-1] + units * before
        center = (precision * sums + np.sqrt(1 + units * precision) * rng.standard_normal(used)) / (
            1 + units * precision
        )
        if not level:
            center[0] = 0.0
        if self.groups:
            moved = self._gram @ self.slopes[:, :used] + self._feature_sums[:, None] * (before - center)
            self._draw_slopes(products[:-1] + moved, precision, rng)
        self.precision[:used], self.center[:used] = precision, center
        self._set_mean(used)

    def _set_mean(self, used: int) -> None:
        coefficients = np.vstack([self.slopes[:, :used], self.center[:used]]).astype(np.float32)
        np.matmul(self._extended, coefficients, out=self.mean[:, :used])

    def _draw_slopes(self, sums: Array, precision: Array, rng: np.random.Generator) -> None:
        """Draw the slopes of each group of features in turn, given those of the others, and their precision.

        ``sums`` are those of each feature times the numbers of the units, less their centres.
        """
        used = sums.shape[1]
        for number, group in enumerate(self.groups):
            slopes, size = self.slopes[group, :used], self._gram[group, group].diagonal()[:, None]
            others = self._gram[group] @ self.slopes[:, :used] - size * slopes if len(self.groups) > 1 else 0.0
            total = size * precision + self.slope_precision[number, :used]
            mean = precision * (sums[group] - others) / total
            slopes[:] = mean + rng.standard_normal(total.shape) / np.sqrt(total)
            squares = np.einsum("ij,ij->j", slopes, slopes)
            self.slope_precision[number, :used] = rng.standard_gamma(1 + len(slopes) / 2, used) / (
                RATE + 0.5 * squares
            )

    def prior(self, used: int) -> UnitPrior:
        """Copy the prior of the numbers in use; slopes are those of the features before the rotation."""
        slopes = (self.turn @ self.slopes[:, :used]).astype(np.float32)
        return UnitPrior(
            self.precision[:used].copy(), self.center[:used].copy(), slopes, self.slope_precision[:, :used].copy()
        )

    def take_prior(self, prior: UnitPrior) -> None:
        """Take the prior of a draw; slopes and their precisions only where the features are as many."""
        used = prior.center.size
        self.precision[:used], self.center[:used] = prior.precision, prior.center
        if prior.slopes.shape[0] == self.turn.shape[0] and len(prior.slope_precision) == len(self.groups):
            self.slopes[:, :used] = self.turn.T @ prior.slopes
            self.slope_precision[:, :used] = prior.slope_precision
        self._set_mean(used)

    def __post_init__(self) -> None:
        self._ones = np.ones(len(self.features), np.float32)
        self._extended = np.hstack([self.features, self._ones[:, None]])
        self._gram = (self.features.T @ self.features).astype(np.float64)
        self._feature_sums = self.features.sum(axis=0, dtype=np.float64)

    def draw_noise(
        self,
        rest: Array,
        counts: NDArray[Any],
        rng: np.random.Generator,
        *,
        scaled: NDArray[Any],
        sure: float | Array = 1.0,
    ) -> None:
        """Draw the noise level of each unit, given what is left of its cells; the ``scaled`` ones have mean 1.

        ``sure`` multiplies ν: a unit that may be far from the others has less than 1.
        """
        shape = NOISE_SHAPE * sure
        noise = rng.standard_gamma((shape + counts) / 2) / (0.5 * (shape + rest))
        if scaled.all():
            noise /= np.exp(np.log(noise).mean())
        elif scaled.any():
            noise[scaled] /= np.exp(np.log(noise[scaled]).mean())
        self.noise = noise.astype(np.float32)


@stored("posterior unit prior", "precision", "center", "slopes", "slope_precision")
@dataclass(frozen=True, eq=False)
class UnitPrior:
    """Prior of the units of a side in one draw: the precision and centre of each number, slopes of the features.

    ``slope_precision`` has a row for each group of features.
    """

    precision: Array
    center: Array
    slopes: Array
    slope_precision: Array
