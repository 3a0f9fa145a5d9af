"""New rows for draws that are there: their own numbers are drawn, everything else stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.types import Array
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._gram import padded
from snapimpute.posterior._intervals import FAR_THRESHOLD
from snapimpute.posterior._low_rank import Draw
from snapimpute.posterior._passes import draw_items, draw_raters, predict, split
from snapimpute.posterior._thresholds import move_thresholds
from snapimpute.posterior._units import NOISE_SHAPE, UNUSED_PRECISION, UnitPrior

SWEEPS = 6
"""Sweeps for the new rows in each kept draw; they begin at their prior means."""

STEP = 0.3
"""Step of the thresholds of new raters."""


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
    found = [
        _Folding(draw, cells, features, raters, (seed, number)).draw() for number, draw in enumerate(draws_of(draws))
    ]
    return Draws.of(found, cells.levels)


def draws_of(draws: Draws) -> list[Draw]:
    """Take the draws one by one."""
    return [draws[i] for i in range(len(draws))]


class _Folding:
    """The new units of one draw."""

    def __init__(self, draw: Draw, cells: Cells, features: Array, raters: bool, seed: tuple[int, int]) -> None:
        self.given, self.cells, self.raters, self.seed = draw, cells, raters, seed
        used = draw.raters.shape[1]
        self.used, self.width = used, padded(used)
        prior: UnitPrior = draw.priors[0 if raters else 1]
        self.precision = np.full(self.width, UNUSED_PRECISION, np.float32)
        self.precision[:used] = prior.precision
        mean = prior.center.astype(np.float32) + features @ prior.slopes
        self.mean = self._padded(mean)
        self.new = self.mean.copy()
        self.old = self._padded(draw.items if raters else draw.raters)
        units = self.new.shape[0]
        self.noise = np.ones(units, np.float32)
        self.binary = bool((cells.levels == 2).all())
        if raters:
            most = draw.threshold_prior.center.shape[1]
            self.thresholds = np.full((units, most), FAR_THRESHOLD, np.float32)
            self.thresholds[:, 0] = -FAR_THRESHOLD
            for unit, (kind, levels) in enumerate(zip(cells.kind, cells.levels, strict=True)):
                self.thresholds[unit, 1:levels] = draw.threshold_prior.center[kind, 1:levels]
            self.factors = draw.factors
        else:
            edges = np.full((len(draw.thresholds), 1), FAR_THRESHOLD, np.float32)
            self.thresholds = np.hstack([-edges, draw.thresholds, edges])
            self.factors = np.ones(units, np.float32)

    def _padded(self, numbers: Array) -> Array:
        out = np.zeros((len(numbers), self.width), np.float32)
        out[:, : self.used] = numbers
        return out

    def draw(self) -> Draw:
        """Sweep over the new units and return the draw with them."""
        for sweep in range(SWEEPS if len(self.cells) else 0):
            self._sweep(sweep)
        if not len(self.cells):
            self._from_prior()
        numbers = self.new[:, : self.used].copy()
        if self.raters:
            return replace(
                self.given, raters=numbers, rater_noise=self.noise, thresholds=self.thresholds[:, 1:-1].copy()
            )
        return replace(self.given, items=numbers, item_noise=self.noise, factors=self.factors)

    def _from_prior(self) -> None:
        rng = np.random.default_rng((*self.seed, 0))
        shock = rng.standard_normal(self.new.shape).astype(np.float32)
        self.new = self.mean + shock / np.sqrt(self.precision)

    def _sweep(self, sweep: int) -> None:
        """Draw thresholds, latent values, numbers and noise of the new units."""
        cells, draw = self.cells, self.given
        rng = np.random.default_rng((*self.seed, sweep + 1))
        key = np.uint32(rng.integers(1 << 32))
        pair = (self.new, self.old) if self.raters else (self.old, self.new)
        noises = (self.noise, draw.item_noise) if self.raters else (draw.rater_noise, self.noise)
        roots = np.sqrt(noises[0]), np.sqrt(noises[1])
        eta, z = np.empty(len(cells), np.float32), self._latent()
        every, by_rater = (0, cells.shape[0]), (cells.start, cells.item)
        predict(*every, *by_rater, pair[0], *split(pair[1]), eta)
        if self.raters and not self.binary:
            self._move_thresholds(roots, eta, key)
        bounds = cells.symbol, cells.levels, self.thresholds, self.factors, *roots, eta, z
        target = self.new if self.raters else self.old.copy()
        mean = self.mean if self.raters else np.zeros_like(self.old)
        rest = np.empty(cells.shape[0], np.float32)
        prior = self.precision, mean, self.used
        draw_raters(*every, *by_rater, *bounds, *split(pair[1]), *prior, key, target, rest)
        if not self.raters:
            rest = np.empty(cells.shape[1], np.float32)
            order = cells.item_start, cells.rater, cells.position, z
            prior = self.precision, self.mean, self.used
            draw_items(0, cells.shape[1], *order, *split(self.old), *roots, *prior, key, self.new, rest)
        if not self.binary:
            counts: NDArray[Any] = cells.counts[0 if self.raters else 1]
            self.noise = rng.gamma((NOISE_SHAPE + counts) / 2, 2 / (NOISE_SHAPE + rest)).astype(np.float32)

    def _move_thresholds(self, roots: tuple[Array, Array], eta: Array, key: np.uint32) -> None:
        """Move the thresholds of new raters, with the factors of the items as they are."""
        cells, prior, factors = self.cells, self.given.threshold_prior, self.factors
        center, spread = prior.center.astype(np.float32), prior.spread.astype(np.float32)
        steps, change = np.full_like(self.thresholds, STEP), np.zeros(cells.shape[1], np.float32)
        given = cells.start, cells.item, cells.symbol, cells.levels, cells.kind, self.thresholds
        more = center, spread, steps, False, factors, factors, *roots, eta, key, change
        move_thresholds(0, cells.shape[0], *given, *more)

    def _latent(self) -> Array:
        """Latent values to start from: plain numbers are known."""
        return np.zeros(len(self.cells), np.float32) if self.cells.value is None else self.cells.value.copy()
