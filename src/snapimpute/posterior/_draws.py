"""Kept draws of a chain, and what they say of any cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array
from snapimpute.posterior._asked import Asked, add_probabilities
from snapimpute.posterior._choices import BLOCK, add_choices
from snapimpute.posterior._draw import Draw, ThresholdPrior
from snapimpute.posterior._link_passes import add_symbols_of
from snapimpute.posterior._links import Links
from snapimpute.posterior._units import UnitPrior

LINKED = 1024
"""Cells of columns in blocks that are computed together."""


@stored(
    "posterior draws",
    "raters",
    "items",
    "rater_noise",
    "item_noise",
    "thresholds",
    "factors",
    "levels",
    "priors",
    "threshold_priors",
    "links",
)
@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of all units, stacked; raters are the units with thresholds.

    Attributes
    ----------
    raters, items : arrays of shape (draws, units, rank + 1)
        The level of each unit first, then its factors.
    rater_noise, item_noise : arrays of shape (draws, units)
        Precisions.
    thresholds : array of shape (draws, raters, symbols − 1)
    factors : array of shape (draws, items)
        Of each item on all thresholds.
    levels : array of int
        Symbols of each rater; 0 for plain numbers.
    """

    raters: Array
    items: Array
    rater_noise: Array
    item_noise: Array
    thresholds: Array
    factors: Array
    levels: NDArray[np.int64]
    priors: tuple[tuple[UnitPrior, UnitPrior], ...] = ()
    threshold_priors: tuple[ThresholdPrior, ...] = ()
    links: tuple[Links, ...] = ()

    @classmethod
    def of(cls, draws: Sequence[Draw], levels: NDArray[np.int64]) -> Draws:
        """Stack single draws."""
        stack: Any = np.stack if len(draws) > 1 else lambda one: one[0][None]
        stacked = {name: stack([getattr(one, name) for one in draws]) for name in _STACKED}
        priors = tuple(one.priors for one in draws), tuple(one.threshold_prior for one in draws)
        links = tuple(one.links for one in draws)
        return cls(**stacked, levels=levels, priors=priors[0], threshold_priors=priors[1], links=links)

    def __getitem__(self, number: int) -> Draw:
        parts: Any = {name: getattr(self, name)[number] for name in _STACKED}
        rest = self.priors[number], self.threshold_priors[number], self.links[number]
        return Draw(**parts, priors=rest[0], threshold_prior=rest[1], links=rest[2])

    def __len__(self) -> int:
        return len(self.raters)

    def thinned(self, count: int) -> Draws:
        """Keep at most so many draws, evenly spaced."""
        keep = np.unique(np.linspace(0, len(self) - 1, min(count, len(self))).round().astype(np.intp))
        return Draws.of([self[i] for i in keep.tolist()], self.levels)

    @property
    def nbytes(self) -> int:
        """Bytes of all draws."""
        stacked: int = sum(getattr(self, name).nbytes for name in _STACKED)
        return stacked + sum(one.nbytes for one in self.links)

    def probabilities(self, rater: NDArray[Any], item: NDArray[Any]) -> Array:
        """Average the probability of each symbol at the cells, one row a cell; 0 beyond the levels of a rater."""
        asked, symbols = Asked.of(rater, item), self.thresholds.shape[2] + 1
        question = asked.raters, asked.items, asked.start, asked.item, asked.order
        out = np.zeros((rater.size, symbols), np.float32)
        given = question, self.raters, self.items, np.sqrt(self.rater_noise), np.sqrt(self.item_noise)

        def work(first: int, last: int) -> None:
            add_probabilities(first, last, *given, self.thresholds, self.factors, out)

        run_parts(work, asked.parts(), 50.0 * rater.size * symbols * len(self))
        linked = np.flatnonzero(np.any([one.block[rater] >= 0 for one in self.links], axis=0))
        for start, stop in cut(linked.size, LINKED):
            here = linked[start:stop]
            out[here] = self._linked(rater[here], item[here])
        shares: Array = out / out.sum(axis=1, keepdims=True)
        return shares

    def _linked(self, rater: NDArray[Any], item: NDArray[Any]) -> Array:
        """Add up the probability of each symbol at cells of columns in blocks."""
        out = np.zeros((rater.size, self.thresholds.shape[2] + 1), np.float32)
        size = np.sqrt(self.rater_noise[:, rater] * self.item_noise[:, item])
        given = self.predictors(rater, item), size, self.factors[:, item], self.thresholds[:, rater]
        add_symbols_of(*given, out)
        positive: Array = np.maximum(out, 0)
        return positive

    def choices(self, first: NDArray[Any], count: int, item: NDArray[Any]) -> Array:
        """Average the probability of each of ``count`` categories at cells, whose raters are ``first`` and on."""
        out = np.zeros((first.size, count), np.float32)
        given = first.astype(np.int64), item.astype(np.int64), self.raters, self.items
        roots = np.sqrt(self.rater_noise), np.sqrt(self.item_noise)

        def work(start: int, stop: int) -> None:
            add_choices(start, stop, *given, *roots, out)

        run_parts(work, cut(first.size, BLOCK), 500.0 * out.size * len(self))
        shares: Array = out / out.sum(axis=1, keepdims=True)
        return shares

    def predictors(self, rater: NDArray[Any], item: NDArray[Any]) -> Array:
        """η at the cells in every draw, one row a draw."""
        out = np.empty((len(self), rater.size), np.float32)
        for d, (left, right) in enumerate(zip(self.raters, self.items, strict=True)):
            a, b = left[rater], right[item]
            out[d] = a[:, 0] + b[:, 0] + np.einsum("ij,ij->i", a[:, 1:], b[:, 1:])
            out[d] += self.links[d].offsets(rater, item)
        return out


_STACKED = ("raters", "items", "rater_noise", "item_noise", "thresholds", "factors")
