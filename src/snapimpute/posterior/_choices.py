"""Columns of categories without order: each category has a latent value, and the largest one is seen.

A cell of such a column has the latent values u_c ~ N(η_c, 1/size²), one for each
category, and y = argmax u_c (multinomial probit). Draws keep the latent values
of the last sweep: they say where each one may lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from snapimpute.base.compiled import kernel
from snapimpute.base.threads import cut
from snapimpute.base.types import Array
from snapimpute.posterior._functions import LEAST, below, clipped, exp2, log
from snapimpute.posterior._intervals import FAR_THRESHOLD, LATENT, fill_uniform, inside

BLOCK = 512
"""Cells of a block: its latent values and work space stay in the second cache."""

CHOSEN = np.uint32(32)
"""Purpose of the random numbers of the largest values; the others have that of all latent values."""

NODES, STEP = 21, 0.5
"""Nodes of the quadrature over the largest value, and their distance in deviations."""

COARSE_NODES, COARSE_STEP = 13, 0.75
"""The same for log-likelihoods, of which three digits are enough."""

ROUNDS = 100
"""Rounds that look for the levels with given shares."""


@dataclass(frozen=True, eq=False)
class Choices:
    """Columns of categories, each of which has one rater for every category, one after the other.

    Attributes
    ----------
    table : array of shape (columns, 3)
        First rater, number of categories, and place of the first cell in ``category``.
    category : array
        Category of the cells of each column, in the order in which its raters have them.
    blocks : array of shape (blocks, 3)
        Column, and first and last of its cells: what is drawn together.
    """

    table: NDArray[np.int64]
    category: NDArray[np.uint8]
    blocks: NDArray[np.int64]

    @classmethod
    def of(cls, first: Sequence[int], counts: Sequence[int], categories: Sequence[NDArray[Any]]) -> Choices:
        """Join columns, given by their first raters, numbers of categories, and categories of their cells."""
        sizes = [one.size for one in categories]
        starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        table = np.column_stack([first, counts, starts]).astype(np.int64).reshape(-1, 3)
        blocks = [(number, *part) for number, size in enumerate(sizes) for part in cut(size, BLOCK)]
        joined = np.concatenate([np.zeros(0, np.uint8), *categories]).astype(np.uint8)
        return cls(table, joined, np.array(blocks, np.int64).reshape(-1, 3))

    @property
    def raters(self) -> NDArray[np.int64]:
        """The raters that stand for categories."""
        spans = [np.arange(first, first + count) for first, count, _ in self.table.tolist()]
        return np.concatenate([np.zeros(0, np.int64), *spans])

    def levels(self) -> list[tuple[slice, Array]]:
        """Levels of the raters of each column that give the categories their shares."""
        ends, found = [*self.table[:, 2].tolist(), self.category.size], []
        for (first, count, start), stop in zip(self.table.tolist(), ends[1:], strict=True):
            shares = np.bincount(self.category[start:stop], minlength=count) + 0.5
            found.append((slice(first, first + count), levels_of(shares / shares.sum())))
        return found


def shares_of(levels: Array) -> Array:
    """Probability that each of some independent normal numbers is the largest, by the library's quadrature."""
    at = levels.max() + STEP * (np.arange(NODES) - NODES // 2)
    under = np.maximum(ndtr(at[:, None] - levels), 1e-300)
    ratio = np.exp(-0.5 * (at[:, None] - levels) ** 2) / under
    p: Array = (under.prod(axis=1)[:, None] * ratio).sum(axis=0)
    return p / p.sum()


def levels_of(shares: Array) -> Array:
    """Means of independent normal numbers of which each is the largest in its share of cases.

    Examples
    --------
    >>> levels = levels_of(np.array([0.7, 0.2, 0.1]))
    >>> shares_of(levels).round(3).tolist(), abs(float(levels.sum().round(9)))
    ([0.7, 0.2, 0.1], 0.0)
    """
    levels = np.zeros(shares.size)
    for _ in range(ROUNDS):
        levels += 0.7 * np.log(shares / np.maximum(shares_of(levels), 1e-12))
    centred: Array = levels - levels.mean()
    return centred


@kernel
def draw_choice(first, stride, key, category, eta, size, u, work):
    """Draw the latent values of some cells: the largest given the others, then the others given the largest.

    ``eta`` and ``u`` have a row for each category, of which the one seen has the largest ``u`` before and after.
    Value c of cell k has the random counter first + c·stride + k.
    """
    count = category.size
    top, mean, dice, largest = work[0, :count], work[1, :count], work[2, :count], work[3, :count]
    for k in range(count):
        top[k], mean[k] = -FAR_THRESHOLD, np.float32(0)
    for c in range(eta.shape[0]):
        row, old = eta[c], u[c]
        for k in range(count):
            own = category[k] == c
            top[k] = max(top[k], -FAR_THRESHOLD if own else old[k])
            mean[k] = row[k] if own else mean[k]
    fill_uniform(first, CHOSEN, key, dice)
    for k in range(count):
        largest[k] = mean[k] + inside(size[k] * (top[k] - mean[k]), FAR_THRESHOLD, dice[k]) / size[k]
    for c in range(eta.shape[0]):
        row, new = eta[c], u[c]
        fill_uniform(first + c * stride, LATENT, key, dice)
        for k in range(count):
            x = row[k] + inside(-FAR_THRESHOLD, size[k] * (largest[k] - row[k]), dice[k]) / size[k]
            new[k] = largest[k] if category[k] == c else min(x, largest[k])


@kernel
def draw_choices(start, stop, blocks, table, category, start_of, item, rater_root, item_root, eta, key, z):
    """Draw the latent values of blocks start … stop of the columns of categories."""
    most = 0
    for c in range(table.shape[0]):
        most = max(most, table[c, 1])
    means, values = np.empty((most, BLOCK), np.float32), np.empty((most, BLOCK), np.float32)
    size, work = np.empty(BLOCK, np.float32), np.empty((4, BLOCK), np.float32)
    for b in range(start, stop):
        column, low, high = blocks[b, 0], blocks[b, 1], blocks[b, 2]
        rater, categories, at = table[column, 0], table[column, 1], table[column, 2]
        p0, cells, stride = start_of[rater] + low, high - low, start_of[rater + 1] - start_of[rater]
        for k in range(cells):
            size[k] = rater_root[rater] * item_root[item[p0 + k]]
        for c in range(categories):
            p = p0 + c * stride
            means[c, :cells] = eta[p : p + cells]
            values[c, :cells] = z[p : p + cells]
        seen = category[at + low : at + high]
        draw_choice(p0, stride, key, seen, means[:categories], size[:cells], values[:categories], work)
        for c in range(categories):
            p = p0 + c * stride
            z[p : p + cells] = values[c, :cells]


@kernel
def add_largest(x, count, out, work):
    """Add the probability that each of independent normal numbers with means ``x``, one a row, is the largest.

    That is done for the first ``count`` columns.
    The integral over the largest value is a sum over nodes of equal distance, about the largest mean. Of a smooth
    function that ends at both sides, such sums are nearly exact.
    """
    categories = x.shape[0]
    top, product = work[categories, :count], work[categories + 1, :count]
    for k in range(count):
        top[k] = x[0, k]
    for c in range(1, categories):
        row = x[c]
        for k in range(count):
            top[k] = max(top[k], row[k])
    for node in range(NODES):
        shift = np.float32(STEP * (node - NODES // 2))
        for k in range(count):
            product[k] = np.float32(STEP * 0.3989422804014327)
        for c in range(categories):
            row, ratio = x[c], work[c]
            for k in range(count):
                d = clipped(top[k] + shift - row[k])
                under = max(below(d), np.float32(1e-36))
                ratio[k] = exp2(np.float32(-0.72134752) * d * d) / under
                product[k] *= under
        for c in range(categories):
            ratio, sums = work[c], out[c]
            for k in range(count):
                sums[k] += product[k] * ratio[k]


@kernel
def log_shares(x, category, work):
    """Return Σ log P(the category seen is the largest) of independent normal numbers with means ``x``, one a row."""
    count = category.size
    top, own, product, sums = work[0, :count], work[1, :count], work[2, :count], work[3, :count]
    for k in range(count):
        top[k], own[k], sums[k] = x[0, k], x[0, k], np.float32(0)
    for c in range(1, x.shape[0]):
        row = x[c]
        for k in range(count):
            top[k] = max(top[k], row[k])
            own[k] = row[k] if category[k] == c else own[k]
    for node in range(COARSE_NODES):
        shift = np.float32(COARSE_STEP * (node - COARSE_NODES // 2))
        for k in range(count):
            d = clipped(top[k] + shift - own[k])
            product[k] = np.float32(COARSE_STEP * 0.3989422804014327) * exp2(np.float32(-0.72134752) * d * d)
        for c in range(x.shape[0]):
            row = x[c]
            for k in range(count):
                under = below(clipped(top[k] + shift - row[k]))
                product[k] *= np.float32(1) if category[k] == c else under
        for k in range(count):
            sums[k] += product[k]
    total = np.float64(0)
    for k in range(count):
        total += log(max(sums[k], LEAST))
    return total


@kernel
def choice_likelihood(start, stop, blocks, table, category, start_of, item, rater_root, item_root, eta):
    """Return the log-likelihood of the categories in blocks start … stop."""
    most, total = 0, np.float64(0)
    for c in range(table.shape[0]):
        most = max(most, table[c, 1])
    x, work = np.empty((most, BLOCK), np.float32), np.empty((4, BLOCK), np.float32)
    for b in range(start, stop):
        column, low, high = blocks[b, 0], blocks[b, 1], blocks[b, 2]
        rater, categories, at = table[column, 0], table[column, 1], table[column, 2]
        p0, cells, stride = start_of[rater] + low, high - low, start_of[rater + 1] - start_of[rater]
        for c in range(categories):
            p = p0 + c * stride
            for k in range(cells):
                x[c, k] = rater_root[rater] * item_root[item[p0 + k]] * eta[p + k]
        total += log_shares(x[:categories], category[at + low : at + high], work)
    return total


@kernel
def add_choices(start, stop, first, item, left, right, left_root, right_root, out):
    """Add up P(category) over draws for cells start … stop, whose raters are first, first + 1, …."""
    count, categories = stop - start, out.shape[1]
    x, sums = np.empty((categories, count), np.float32), np.zeros((categories, count), np.float32)
    work = np.empty((categories + 2, count), np.float32)
    for d in range(left.shape[0]):
        for k in range(count):
            i, j = first[start + k], item[start + k]
            size = left_root[d, i] * right_root[d, j]
            for c in range(categories):
                total = left[d, i + c, 0] + right[d, j, 0]
                for f in range(1, left.shape[2]):
                    total += left[d, i + c, f] * right[d, j, f]
                x[c, k] = size * total
        add_largest(x, count, sums, work)
    for k in range(count):
        for c in range(categories):
            out[start + k, c] = sums[c, k]
