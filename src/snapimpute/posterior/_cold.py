"""Levels of new rows and columns of which no cell is known: people rate what they like.

A known cell lies above what the features of its row and column expect: those who
rate a film like it more than people at large would. Cells that are asked for are
taken to be chosen as the known ones are. So a cell of a new row without known cells
gets, beside the prior mean of the row, what the known cells of its column have on
average; a cell of such a column what those of its row have. Rows and columns of the
fit without a known cell get nothing: nobody chose them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._features import Features
from snapimpute.posterior._gram import padded
from snapimpute.posterior._passes import predict, split
from snapimpute.posterior._units import UnitPrior

DRAWS = 8
"""Draws that the levels are averages of."""

DAMPING = 10.0
"""Known cells of an average unit that are imagined beside the own ones."""


@stored("posterior cold levels", "raters", "items", "by_item", "by_rater")
@dataclass(frozen=True, eq=False)
class ColdLevels:
    """Units that are new and have no known cell, and what is added to the cells of such units.

    Attributes
    ----------
    raters, items : arrays of bool
        True for these units.
    by_item : array of shape (items,)
        What cells of cold raters get.
    by_rater : array of shape (raters,)
        What cells of cold items get.
    """

    raters: NDArray[np.bool_]
    items: NDArray[np.bool_]
    by_item: Array
    by_rater: Array

    @classmethod
    def learn(cls, draws: Draws, cells: Cells, features: tuple[Features, Features]) -> ColdLevels:
        """Compare known cells with the same cells of units of which only the features are known."""
        some = draws.thinned(DRAWS)
        by_item, by_rater = np.zeros(cells.shape[1]), np.zeros(cells.shape[0])
        whose = np.repeat(np.arange(cells.shape[0]), cells.counts[0])
        for number in range(len(some)):
            draw = some[number]
            raters, items = _padded(draw.raters), _padded(draw.items)
            cold = [_padded(_means(one, prior)) for one, prior in zip(features, draw.priors, strict=True)]
            eta = _predicted(cells, raters, items)
            by_item += _levels(eta - _predicted(cells, cold[0], items), cells.item, cells.counts[1]) / len(some)
            by_rater += _levels(eta - _predicted(cells, raters, cold[1]), whose, cells.counts[0]) / len(some)
        none = np.zeros(cells.shape[0], dtype=np.bool_), np.zeros(cells.shape[1], dtype=np.bool_)
        return cls(*none, by_item, by_rater)

    def of_raters(self, cells: Cells) -> ColdLevels:
        """Return the levels with new raters."""
        by_rater = np.full(cells.shape[0], self.by_rater.mean())
        return replace(self, raters=cells.counts[0] == 0, by_rater=by_rater)

    def of_items(self, cells: Cells) -> ColdLevels:
        """Return the levels with new items."""
        by_item = np.full(cells.shape[1], self.by_item.mean())
        return replace(self, items=cells.counts[1] == 0, by_item=by_item)

    def added_to(self, draws: Draws) -> Draws:
        """Add the levels to the cells of cold units, as two more factors; the same draws where no unit is cold."""
        if not (self.raters.any() or self.items.any()):
            return draws
        more = np.column_stack([self.raters, self.by_rater]), np.column_stack([self.by_item, self.items])
        raters, items = (
            np.dstack([numbers, np.broadcast_to(one.astype(np.float32), (len(numbers), *one.shape))])
            for numbers, one in zip((draws.raters, draws.items), more, strict=True)
        )
        return replace(draws, raters=raters, items=items)


def _means(features: Features, prior: UnitPrior) -> Array:
    found: Array = prior.center.astype(np.float32) + features.values @ prior.slopes
    return found


def _padded(numbers: Array) -> Array:
    out = np.zeros((len(numbers), padded(numbers.shape[1])), np.float32)
    out[:, : numbers.shape[1]] = numbers
    return out


def _predicted(cells: Cells, raters: Array, items: Array) -> Array:
    """η of the known cells."""
    eta = np.empty(len(cells), np.float32)
    predict(0, cells.shape[0], cells.start, cells.item, raters, *split(items), eta)
    return eta


def _levels(off: Array, units: NDArray[Any], counts: NDArray[np.int64]) -> Array:
    """Damped means by unit."""
    everywhere = float(off.mean()) if off.size else 0.0
    sums = np.bincount(units, off, minlength=counts.size)
    return (sums + DAMPING * everywhere) / (counts + DAMPING)
