"""Cells that somebody asks for, sorted by rater, and their probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.compiled import kernel, part
from snapimpute.base.threads import Part
from snapimpute.posterior._functions import below
from snapimpute.posterior._gram import padded
from snapimpute.posterior._passes import predict

CELLS, CELLS_AN_ITEM = 16384, 4
"""Cells that are computed together, at least, and for each item asked for."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Cells asked for, sorted by rater.

    Attributes
    ----------
    raters, items : arrays of int
        Units asked for, each once.
    start : array of shape (raters + 1,)
        Where the cells of each of these raters begin.
    item : array of shape (cells,)
        Place of each cell's item in ``items``.
    order : array of shape (cells,)
        Place of each cell in the question.
    """

    raters: NDArray[np.int64]
    items: NDArray[np.int64]
    start: NDArray[np.int64]
    item: NDArray[np.int32]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, rater: NDArray[Any], item: NDArray[Any]) -> Asked:
        """Sort the cells of a question."""
        (raters, own), (items, other) = _distinct(rater), _distinct(item)
        order = np.argsort(own, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=raters.size))])
        return cls(raters, items, start.astype(np.int64), other[order].astype(np.int32), order.astype(np.int64))

    def parts(self) -> list[Part]:
        """Cut the raters into parts whose cells are computed together."""
        size = max(CELLS, CELLS_AN_ITEM * self.items.size)
        ends = np.searchsorted(self.start, np.arange(size, self.item.size + size, size))
        cuts = [0, *np.unique(np.minimum(ends, self.raters.size)).tolist()]
        return list(pairwise(cuts))


def _distinct(units: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the units once, in order, and give the place of each in that list."""
    there = np.zeros(int(units.max(initial=-1)) + 1, bool)
    there[units] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[units]


@part
def _add_draw(thresholds, place, size, factor, eta, here, before, sums):
    """Add P(symbol) in one draw; ``place`` tells where in the flat ``thresholds`` those of a cell's rater begin."""
    top = sums.shape[0] - 1
    for k in range(eta.size):
        before[k] = np.float32(0)
    for s in range(top):
        bounds, row = thresholds[s:], sums[s]
        for k in range(eta.size):
            here[k] = factor[k] * bounds[place[k]]
        for k in range(eta.size):
            here[k] = below(size[k] * (here[k] - eta[k]))
        for k in range(eta.size):
            row[k] += here[k] - before[k]
        for k in range(eta.size):
            before[k] = here[k]
    row = sums[top]
    for k in range(eta.size):
        row[k] += np.float32(1) - before[k]


@kernel
def add_probabilities(first, last, asked, left, right, left_root, right_root, thresholds, factors, out):
    """Add up P(symbol) over draws for the cells of raters first … last of a question."""
    every, items, start_of, item, order = asked
    raters, p0, p1, used = every[first:last], start_of[first], start_of[last], left.shape[2]
    start, inside, width = start_of[first : last + 1] - p0, item[p0:p1], padded(used)
    own, vectors = np.zeros((raters.size, width), np.float32), np.zeros((items.size, width), np.float32)
    scalars = np.zeros((3, items.size), np.float32)
    heights, roots, others = scalars[0], scalars[1], scalars[2]
    space, place = np.empty((5, p1 - p0), np.float32), np.empty(p1 - p0, np.uint32)
    eta, size, factor, here, before = space[0], space[1], space[2], space[3], space[4]
    sums = np.zeros((thresholds.shape[2] + 1, p1 - p0), np.float32)
    vectors[:, 0] = np.float32(1)
    for i in range(raters.size):
        place[start[i] : start[i + 1]] = raters[i] * thresholds.shape[2]
    for d in range(left.shape[0]):
        for j in range(items.size):
            unit = items[j]
            heights[j], roots[j], others[j] = right[d, unit, 0], right_root[d, unit], factors[d, unit]
            for a in range(1, used):
                vectors[j, a] = right[d, unit, a]
        for i in range(raters.size):
            for a in range(used):
                own[i, a] = left[d, raters[i], a]
        predict(0, raters.size, start, inside, own, vectors.reshape(-1), heights, eta)
        for i in range(raters.size):
            root = left_root[d, raters[i]]
            for k in range(start[i], start[i + 1]):
                size[k] = root * roots[inside[k]]
        for k in range(p1 - p0):
            factor[k] = others[inside[k]]
        _add_draw(thresholds[d].reshape(-1), place, size, factor, eta, here, before, sums)
    for k in range(p1 - p0):
        for s in range(sums.shape[0]):
            out[order[p0 + k], s] = max(sums[s, k], np.float32(0))
