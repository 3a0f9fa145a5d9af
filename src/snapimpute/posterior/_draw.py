"""One draw of the low-rank posterior, and the cells that it draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.posterior._links import Links
from snapimpute.posterior._units import UnitPrior

DRAWN_CELLS = 1 << 18
"""Cells whose symbols are drawn together."""


@stored("posterior threshold prior", "center", "spread", "factor_spread")
@dataclass(frozen=True, eq=False)
class ThresholdPrior:
    """Prior of the thresholds of each kind of raters in one draw, and of the factors of items on them."""

    center: Array
    spread: Array
    factor_spread: float


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of everything that a cell's probabilities depend on, and the priors that new units come from."""

    raters: Array
    items: Array
    rater_noise: Array
    item_noise: Array
    thresholds: Array
    factors: Array
    priors: tuple[UnitPrior, UnitPrior]
    threshold_prior: ThresholdPrior
    links: Links

    def latent(self, rater: NDArray[Any], item: NDArray[Any], rng: np.random.Generator) -> Array:
        """Draw the latent values of cells given everything else."""
        a, b = self.raters[rater], self.items[item]
        eta = a[:, 0] + b[:, 0] + np.einsum("ij,ij->i", a[:, 1:], b[:, 1:]) + self.links.offsets(rater, item)
        noise = rng.standard_normal(eta.size) / np.sqrt(self.rater_noise[rater] * self.item_noise[item])
        z: Array = eta + noise
        return z

    def symbols(
        self, levels: NDArray[np.int64], rater: NDArray[Any], item: NDArray[Any], rng: np.random.Generator
    ) -> Array:
        """Draw the symbols of cells given everything else; latent values where a rater has plain numbers."""
        out = np.empty(rater.size, np.float32)
        for start in range(0, rater.size, DRAWN_CELLS):
            i, j = rater[start : start + DRAWN_CELLS], item[start : start + DRAWN_CELLS]
            z = self.latent(i, j, rng)
            above = (z[:, None] > self.factors[j][:, None] * self.thresholds[i]).sum(axis=1)
            out[start : start + DRAWN_CELLS] = np.where(levels[i] == 0, z, above)
        return out

    def choices(self, raters: NDArray[Any], item: NDArray[Any], rng: np.random.Generator) -> NDArray[np.intp]:
        """Draw the categories of cells, whose raters stand in a row each."""
        out = np.empty(item.size, np.intp)
        for start in range(0, item.size, DRAWN_CELLS):
            some = raters[start : start + DRAWN_CELLS]
            items = np.repeat(item[start : start + DRAWN_CELLS], some.shape[1])
            out[start : start + DRAWN_CELLS] = (
                self.latent(some.ravel(), items, rng).reshape(some.shape).argmax(axis=1)
            )
        return out
