"""Noise levels of the rows of a narrow table: how far apart they lie is drawn, too.

A noise level τ comes from a gamma distribution of shape ν/2 whose logarithm has
the mean 0. So rows have a geometric mean of about 1, whatever ν is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from snapimpute.base.types import Array

FIRST_SHAPE = 10.0
"""ν to start with."""

SHAPES = np.array([2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 26, 32, 48, 64, 96.0])
"""Values that ν may have, all alike beforehand."""


def draw_noise(shape: float, cells: int | NDArray[Any], squares: Array, rng: np.random.Generator) -> Array:
    """Draw noise levels of rows with so many cells, given ν and the squares of these."""
    drawn: Array = rng.gamma((shape + cells) / 2, 1 / (np.exp(psi(shape / 2)) + squares / 2))
    return drawn


def draw_shape(noise: Array, rng: np.random.Generator) -> float:
    """Draw ν given the noise levels of rows."""
    halves, rates = SHAPES / 2, np.exp(psi(SHAPES / 2))
    logs, sums = float(np.log(noise).sum(dtype=np.float64)), float(noise.sum(dtype=np.float64))
    likelihood = noise.size * (halves * np.log(rates) - gammaln(halves)) + halves * logs - rates * sums
    return float(SHAPES[np.argmax(likelihood + rng.gumbel(size=SHAPES.size))])
