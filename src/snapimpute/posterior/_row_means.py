"""Means of the latent values of rows by their features, for a full covariance.

    z_i ~ N(BᵀF_i, Σ / w_i),   B | Σ ~ N(0, Σ ⊗ I / β),   β ~ Gamma(1, rate .01)

Slopes have the units of their column, so that they are drawn all at once. Features are
not further columns of Σ: the noise level of a row would then answer for them, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.posterior import _units

FIRST_PRECISION = 10.0


class Regression(NamedTuple):
    """A regression on features: Cholesky factor of the normal equations, slopes, what these explain."""

    root: Array
    center: Array
    explained: Array


@stored("posterior row means", "features", "slopes", "precision")
@dataclass(eq=False)
class RowMeans:
    """Features of rows, the slopes of each column on them, and their precision β; there may be no feature."""

    features: Array
    slopes: Array
    precision: float = FIRST_PRECISION

    @classmethod
    def start(cls, features: Array, columns: int) -> RowMeans:
        """Begin without any effect."""
        return cls(features.astype(np.float32), np.zeros((features.shape[1], columns)))

    def take(self, slopes: Array) -> None:
        """Take slopes as given."""
        self.slopes = slopes.astype(np.float64)

    def scale(self, spread: Array) -> None:
        """Divide the units of the columns."""
        self.slopes = self.slopes / spread

    def left_of(self, z: Array) -> Array:
        """Latent values, by column, less their means."""
        if not self.slopes.size:
            return z
        rest: Array = z - (self.features @ self.slopes.astype(np.float32)).T
        return rest

    def beside(self, precision: Array, column: int) -> Array:
        """Add this to the mean of a column given the others that it would have if all means were 0.

        It is μ_j + Σ_l K_jl μ_l / K_jj over the other columns l; ``precision`` is row j of K.
        """
        shares = self.slopes @ (precision / precision[column])
        found: Array = self.features @ shares.astype(np.float32)
        return found

    def regress(self, weighted: Array, weights: Array) -> Regression:
        """Regress latent values, times the weights of the rows, on the features.

        Σ is drawn from what is left of them, with the slopes integrated out, and `draw` adds these.
        """
        gram = ((self.features.T * weights) @ self.features).astype(np.float64)
        products = (self.features.T @ weighted.T).astype(np.float64)
        root = np.linalg.cholesky(gram + self.precision * np.eye(len(gram)))
        half = np.linalg.solve(root, products)
        return Regression(root, np.linalg.solve(root.T, half), half.T @ half)

    def draw(self, regression: Regression, precision: Array, rng: np.random.Generator) -> None:
        """Draw the slopes given Σ⁻¹, then their precision β."""
        if not self.slopes.size:
            return
        shock = np.linalg.solve(regression.root.T, rng.standard_normal(self.slopes.shape))
        self.slopes = regression.center + np.linalg.solve(np.linalg.cholesky(precision).T, shock.T).T
        squares = float(np.einsum("ij,ij->", self.slopes @ precision, self.slopes))
        self.precision = float(rng.gamma(1 + self.slopes.size / 2, 1 / (_units.RATE + 0.5 * squares)))
