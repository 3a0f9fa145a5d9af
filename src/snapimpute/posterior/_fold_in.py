"""New rows or columns for draws that are there: their own numbers are drawn, everything else stays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.types import Array
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._draw import Draw
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._gram import padded
from snapimpute.posterior._intervals import FAR_THRESHOLD
from snapimpute.posterior._low_rank import choose
from snapimpute.posterior._passes import draw_items, draw_latent, draw_raters, predict, split
from snapimpute.posterior._thresholds import move_thresholds
from snapimpute.posterior._units import NOISE_SHAPE, UNUSED_PRECISION, UnitPrior

SWEEPS, CHOICE_SWEEPS = 6, 12
"""Sweeps for the new units in each kept draw, which begin at their prior means; more for columns of categories."""

STEP = 0.3
"""Step of the thresholds of new raters."""

ANEW = np.float32(0)
"""Relaxation of numbers that forget those of the last sweep."""


def fold_in(draws: Draws, cells: Cells, features: Array, *, raters: bool, seed: int = 0) -> Draws:
    """Return draws whose raters (or items) are the new units, with the old ones across.

    Parameters
    ----------
    draws : Draws
    cells : Cells
        Known cells of the new units.
    features : array of shape (new units, features)
    raters : bool
        Whether the new units are raters, which have thresholds, or items.
    """
    kind = _Raters if raters else _Items
    found = [kind(draw, cells, features, (seed, number)).draw() for number, draw in enumerate(draws_of(draws))]
    return Draws.of(found, cells.levels)


def draws_of(draws: Draws) -> list[Draw]:
    """Take the draws one by one."""
    return [draws[i] for i in range(len(draws))]


class _Folding(ABC):
    """The new units of one draw, which begin at their prior means."""

    sweeps = SWEEPS

    def __init__(self, draw: Draw, cells: Cells, features: Array, prior: UnitPrior, seed: tuple[int, int]) -> None:
        self.given, self.cells, self.seed = draw, cells, seed
        self.used = prior.center.size
        self.width = padded(self.used)
        self.precision = np.full(self.width, UNUSED_PRECISION, np.float32)
        self.precision[: self.used] = prior.precision
        self.mean = self._padded(prior.center.astype(np.float32) + features @ prior.slopes)
        self.new = self.mean.copy()
        self.noise = np.ones(len(features), np.float32)
        self.binary = bool((cells.levels == 2).all())
        self.z = np.zeros(len(cells), np.float32) if cells.value is None else cells.value.copy()

    def _padded(self, numbers: Array) -> Array:
        out = np.zeros((len(numbers), self.width), np.float32)
        out[:, : self.used] = numbers
        return out

    def draw(self) -> Draw:
        """Sweep over the new units and return the draw with them."""
        for sweep in range(self.sweeps):
            rng = np.random.default_rng((*self.seed, sweep + 1))
            eta = np.empty(len(self.cells), np.float32)
            rest, counts = self._sweep(np.uint32(rng.integers(1 << 32)), eta, self.z)
            if not self.binary:
                self.noise = rng.gamma((NOISE_SHAPE + counts) / 2, 2 / (NOISE_SHAPE + rest)).astype(np.float32)
        return self._changed(self.new[:, : self.used].copy())

    @abstractmethod
    def _sweep(self, key: np.uint32, eta: Array, z: Array) -> tuple[Array, NDArray[Any]]:
        """Draw thresholds, latent values and numbers; return what these leave of the cells, and how many they are.

        ``eta`` is room for the predictors, ``z`` has the plain numbers and the last latent values.
        """

    @abstractmethod
    def _changed(self, numbers: Array) -> Draw:
        """Return the draw with the new units."""


class _Raters(_Folding):
    """New units with thresholds of their own."""

    def __init__(self, draw: Draw, cells: Cells, features: Array, seed: tuple[int, int]) -> None:
        super().__init__(draw, cells, features, draw.priors[0], seed)
        self.items, self.roots = split(self._padded(draw.items)), np.sqrt(draw.item_noise)
        shape = len(self.new), draw.threshold_prior.center.shape[1]
        self.thresholds = np.full(shape, FAR_THRESHOLD, np.float32)
        self.thresholds[:, 0] = -FAR_THRESHOLD
        for unit, (kind, levels) in enumerate(zip(cells.kind, cells.levels, strict=True)):
            self.thresholds[unit, 1:levels] = draw.threshold_prior.center[kind, 1:levels]
        self.sweeps = CHOICE_SWEEPS if cells.choices.category.size else SWEEPS
        for units, found in cells.choices.levels():
            self.new[units, 0] = found

    def _sweep(self, key: np.uint32, eta: Array, z: Array) -> tuple[Array, NDArray[Any]]:
        cells, given = self.cells, (0, len(self.new), self.cells.start, self.cells.item)
        self.noise[cells.choices.raters] = 1.0
        roots = np.sqrt(self.noise), self.roots
        predict(*given, self.new, *self.items, eta)
        if not self.binary:
            self._move_thresholds(roots, eta, key)
        choose(cells, roots, eta, key, z)
        bounds = cells.symbol, cells.levels, self.thresholds, self.given.factors, *roots, eta, z
        prior, rest = (self.precision, self.mean, ANEW, self.used), np.empty(len(self.new), np.float32)
        draw_raters(*given, *bounds, *self.items, *prior, key, self.new, rest)
        return rest, cells.counts[0]

    def _move_thresholds(self, roots: tuple[Array, Array], eta: Array, key: np.uint32) -> None:
        """Move the thresholds, with the factors of the items as they are."""
        cells, prior, factors = self.cells, self.given.threshold_prior, self.given.factors
        center, spread = prior.center.astype(np.float32), prior.spread.astype(np.float32)
        steps, change = np.full_like(self.thresholds, STEP), np.zeros(cells.shape[1], np.float32)
        given = cells.start, cells.runs, cells.item, cells.symbol, cells.levels, cells.kind, self.thresholds
        more = center, spread, steps, False, factors, factors, *roots, eta, key, change
        move_thresholds(0, cells.shape[0], *given, *more)

    def _changed(self, numbers: Array) -> Draw:
        thresholds = self.thresholds[:, 1:-1].copy()
        self.noise[self.cells.choices.raters] = 1.0
        links = self.given.links.of_raters(len(numbers))
        return replace(self.given, raters=numbers, rater_noise=self.noise, thresholds=thresholds, links=links)


class _Items(_Folding):
    """New units across: the thresholds are those of the raters."""

    def __init__(self, draw: Draw, cells: Cells, features: Array, seed: tuple[int, int]) -> None:
        super().__init__(draw, cells, features, draw.priors[1], seed)
        self.raters, self.roots = self._padded(draw.raters), np.sqrt(draw.rater_noise)
        edges = np.full((len(draw.thresholds), 1), FAR_THRESHOLD, np.float32)
        self.thresholds = np.hstack([-edges, draw.thresholds, edges])
        shock = np.random.default_rng((*seed, 0)).standard_normal(len(self.new)) * (cells.counts[1] == 0)
        self.factors = np.exp(draw.threshold_prior.factor_spread * shock).astype(np.float32)
        self.links = draw.links.of_items(len(self.new))
        self.linked, self.seen = self.links.cells(cells), False

    def _sweep(self, key: np.uint32, eta: Array, z: Array) -> tuple[Array, NDArray[Any]]:
        cells, roots = self.cells, (self.roots, np.sqrt(self.noise))
        given = 0, len(self.raters), cells.start, cells.item
        predict(*given, self.raters, *split(self.new), eta)
        at, rng = self.linked, np.random.default_rng((*self.seed, int(key)))
        if self.links.any and self.seen:  # latent values were drawn
            weight = self.given.rater_noise[at.rater] * self.noise[at.item]
            self.links = self.links.with_shared(at, z[at.place] - eta[at.place], weight, rng)
        self.seen, offsets = True, self.links.offsets(at.rater, at.item)
        eta[at.place] += offsets
        choose(cells, roots, eta, key, z)
        space = np.empty((4, len(cells)), np.float32)
        bounds = cells.symbol, cells.levels, self.thresholds, self.factors
        draw_latent(*given, *bounds, *roots, eta, key, space, z)
        explained = z.copy()
        explained[at.place] -= offsets
        order = cells.item_start, cells.rater, cells.position, explained
        prior, rest = (self.precision, self.mean, ANEW, self.used), np.empty(len(self.new), np.float32)
        draw_items(0, len(self.new), *order, *split(self.raters), *roots, *prior, key, self.new, rest)
        return rest, cells.counts[1]

    def _changed(self, numbers: Array) -> Draw:
        return replace(self.given, items=numbers, item_noise=self.noise, factors=self.factors, links=self.links)
