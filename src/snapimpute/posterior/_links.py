"""Links: what a few columns share and no other has, beside the factors of all.

    z_ij = b_i + c_j + p_i·q_j + λ_j u_i,B(j) + e_ij,   u_ib ~ N(0, 1),   λ_j ~ N(0, 1)

A factor that two of a hundred columns need is shrunk away by a prior that all loadings share. So blocks B of columns
whose residuals correlate get a factor of their own. They are found during the burn-in, and stay from then on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.posterior._cells import Cells

LARGEST_BLOCK, MOST_BLOCKS = 6, 512
"""Columns of a block at most, and blocks of a table."""

MOST_COLUMNS, MOST_CELLS = 2000, 20_000_000
"""Columns and cells of a table at most whose residuals are compared."""

FEWEST_TOGETHER = 30
"""Rows in which two columns must be known to be compared."""

MARGIN = 0.5
"""Standard errors that a correlation must have beyond the largest that chance brings."""


@dataclass(frozen=True, eq=False)
class LinkedCells:
    """The known cells of columns in blocks: their places in `Cells`, their raters (columns) and items (rows)."""

    place: NDArray[np.int64]
    rater: NDArray[np.int64]
    item: NDArray[np.int32]


@stored("posterior links", "block", "loadings", "shared")
@dataclass(frozen=True, eq=False)
class Links:
    """One draw of the links.

    Attributes
    ----------
    block : array of shape (raters,)
        Block of each column, -1 without.
    loadings : array of shape (raters,)
        λ, 0 without a block.
    shared : array of shape (blocks, items)
        u of each row.
    """

    block: NDArray[np.int64]
    loadings: Array
    shared: Array

    @classmethod
    def none(cls, shape: tuple[int, int]) -> Links:
        """No block among so many raters and items."""
        raters, items = shape
        return cls(np.full(raters, -1), np.zeros(raters, np.float32), np.zeros((0, items), np.float32))

    @property
    def any(self) -> bool:
        """Tell whether there is a block."""
        return len(self.shared) > 0

    @property
    def nbytes(self) -> int:
        """Bytes of the draw."""
        return self.block.nbytes + self.loadings.nbytes + self.shared.nbytes

    def of_items(self, items: int) -> Links:
        """Return the same blocks for new items, of which nothing is known yet."""
        return replace(self, shared=np.zeros((len(self.shared), items), np.float32))

    def grown(self, shape: tuple[int, int]) -> Links:
        """Return the same for a table with further raters and items, of which nothing is known yet."""
        out = Links.none(shape)
        out.block[: self.block.size], out.loadings[: self.block.size] = self.block, self.loadings
        shared = np.zeros((len(self.shared), shape[1]), np.float32)
        shared[:, : self.shared.shape[1]] = self.shared
        return replace(out, shared=shared)

    def of_raters(self, raters: int) -> Links:
        """Return the links of new raters, which are in no block."""
        return replace(self, block=np.full(raters, -1), loadings=np.zeros(raters, np.float32))

    def offsets(self, rater: NDArray[np.integer], item: NDArray[np.integer]) -> Array:
        """λ_j u_i,B(j) of cells; 0 outside of blocks."""
        if not self.any:
            return np.zeros(rater.size, np.float32)
        found: Array = self.loadings[rater] * self.shared[self.block[rater], item]
        return found

    def cells(self, cells: Cells) -> LinkedCells:
        """List the known cells of columns in blocks."""
        raters = np.flatnonzero(self.block >= 0)
        spans = [np.arange(cells.start[j], cells.start[j + 1]) for j in raters.tolist()]
        place = np.concatenate([np.zeros(0, np.int64), *spans])
        return LinkedCells(place, np.repeat(raters, np.diff(cells.start)[raters]), cells.item[place])

    def with_shared(self, cells: LinkedCells, rest: Array, weight: Array, rng: np.random.Generator) -> Links:
        """Draw u given λ and what levels and factors leave of the latent values, with its precision."""
        blocks, items = self.shared.shape
        loading, place = self.loadings[cells.rater].astype(np.float64), self.block[cells.rater] * items + cells.item
        total = 1 + np.bincount(place, weight * loading**2, blocks * items)
        mean = np.bincount(place, weight * loading * rest, blocks * items) / total
        drawn = mean + rng.standard_normal(total.size) / np.sqrt(total)
        return replace(self, shared=drawn.reshape(blocks, items).astype(np.float32))

    def with_loadings(self, cells: LinkedCells, rest: Array, weight: Array, rng: np.random.Generator) -> Links:
        """Draw λ given u."""
        shared, raters = self.shared[self.block[cells.rater], cells.item].astype(np.float64), self.block.size
        total = 1 + np.bincount(cells.rater, weight * shared**2, raters)
        mean = np.bincount(cells.rater, weight * shared * rest, raters) / total
        drawn = mean + rng.standard_normal(raters) / np.sqrt(total)
        return replace(self, loadings=np.where(self.block >= 0, drawn, 0.0).astype(np.float32))


def found_links(cells: Cells, rest: Array) -> Links:
    """Find blocks of columns whose residuals correlate more than by chance, the strongest first.

    A column joins a block if it correlates with every member. ``rest`` is what levels and factors leave of the
    latent values. Columns of categories are left alone.
    """
    raters, items = cells.shape
    if raters < 2 or raters > MOST_COLUMNS or raters * items > MOST_CELLS:
        return Links.none(cells.shape)
    correlation, together, spread = residual_correlations(cells, rest)
    correlation[cells.choices.raters] = correlation[:, cells.choices.raters] = 0.0
    by_chance = math.sqrt(2 * math.log(max(raters * (raters - 1) / 2, 2))) + MARGIN
    strong = (np.abs(correlation) * np.sqrt(together) > by_chance) & (together >= FEWEST_TOGETHER)
    first, second = np.nonzero(np.triu(strong, 1))
    order = np.argsort(-np.abs(correlation[first, second]), kind="stable")
    blocks: list[list[int]] = []
    of: dict[int, list[int]] = {}
    for a, b in zip(first[order].tolist(), second[order].tolist(), strict=True):
        if a not in of and b not in of:
            if len(blocks) < MOST_BLOCKS:
                of[a] = of[b] = [a, b]
                blocks.append(of[a])
        elif (a in of) != (b in of):
            new, members = (a, of[b]) if b in of else (b, of[a])
            if len(members) < LARGEST_BLOCK and strong[new, members].all():
                of[new] = members
                members.append(new)
    return _started(blocks, correlation, spread, items)


def _started(blocks: list[list[int]], correlation: Array, spread: Array, items: int) -> Links:
    """Begin with loadings that give the correlations with the first member of each block."""
    raters = len(spread)
    block, loadings = np.full(raters, -1), np.zeros(raters, np.float32)
    for number, members in enumerate(blocks):
        block[members] = number
        with_first = correlation[members[0], members]
        with_first[0] = np.abs(with_first[1:]).max()
        loadings[members] = np.sign(with_first) * np.sqrt(np.abs(with_first)) * spread[members]
    return Links(block, loadings, np.zeros((len(blocks), items), np.float32))


def residual_correlations(cells: Cells, rest: Array) -> tuple[Array, Array, Array]:
    """Correlations of the columns' residuals, the rows in which both are known, and the columns' deviations."""
    raters, items = cells.shape
    counts = np.maximum(np.diff(cells.start), 1)
    whose = np.repeat(np.arange(raters), np.diff(cells.start))
    spread = np.sqrt(np.maximum(np.bincount(whose, rest.astype(np.float64) ** 2, raters) / counts, 1e-12))
    values, known = np.zeros((raters, items), np.float32), np.zeros((raters, items), np.float32)
    values[whose, cells.item] = rest / spread[whose]
    known[whose, cells.item] = 1.0
    together = (known @ known.T).astype(np.float64)
    correlation = (values @ values.T) / np.maximum(together, 1.0)
    np.fill_diagonal(correlation, 0.0)
    return correlation, together, spread
