"""Draw the observed cells of a synthetic matrix: without repetition and without an m×n mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.types import Index

Missing = Literal["uniform", "power", "by-value", "blocks"]
CellIds = NDArray[np.int64]  # cell (i, j) of an m×n matrix as i·n + j, sorted by default
CodesAt = Callable[[Index, Index], Index]

PATCH_BANDS = 8  # "blocks": patches are cells of a grid of at most 8×8
POWER = 0.6  # "power": the i-th most popular row or column has weight i^-0.6
LEAST_WEIGHT = 0.2  # "by-value": weight of the smallest symbol; the largest has 1
_ROUNDS = 30


def observed_cells(
    rng: np.random.Generator, shape: tuple[int, int], count: int, missing: Missing, codes_at: CodesAt, size: int
) -> CellIds:
    """Draw `count` distinct cells of an m×n matrix by one of the patterns of `low_rank_alphabet`.

    Only "by-value" calls ``codes_at`` for the positions of cells (rows, cols) in an alphabet of ``size`` symbols.

    Examples
    --------
    >>> observed_cells(np.random.default_rng(0), (3, 4), 12, "uniform", lambda i, j: i, 3)
    array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11])
    """
    total = shape[0] * shape[1]
    if missing == "power":
        return _draw_weighted(rng, total, count, _popular_cells(rng, shape))
    if missing == "by-value":
        return _draw_weighted(rng, total, count, _cells_by_value(rng, shape, codes_at, size))
    if missing == "blocks":
        return _cells_outside_patches(rng, shape, count)
    return draw_distinct(rng, total, count)


def draw_distinct(rng: np.random.Generator, total: int, count: int) -> CellIds:
    """Draw `count` of the numbers below `total`, sorted; memory O(count), every subset equally likely.

    Examples
    --------
    >>> draw_distinct(np.random.default_rng(0), 10**15, 3).size
    3
    """
    if count > total // 2:  # then O(total) is O(count)
        keep = np.ones(total, dtype=bool)
        keep[draw_distinct(rng, total, total - count)] = False
        return np.flatnonzero(keep)
    found: CellIds = np.empty(0, dtype=np.int64)
    while found.size < count:
        found = _merge(found, rng.integers(total, size=count - found.size + 16))
    return _thin(rng, found, count)


def unlisted(listed: CellIds, ranks: CellIds) -> CellIds:
    """Return the cells of the given ranks among those that are not in the sorted list `listed`.

    Examples
    --------
    >>> unlisted(np.array([1, 2, 5]), np.array([0, 1, 2, 3]))
    array([0, 3, 4, 6])
    """
    gaps = listed - np.arange(listed.size)  # number of unlisted cells before each listed one
    return ranks + np.searchsorted(gaps, ranks, side="right")


def _draw_weighted(rng: np.random.Generator, total: int, count: int, propose: Callable[[int], CellIds]) -> CellIds:
    """Draw distinct cells in proportion to the weights behind `propose`, and the last ones uniformly."""
    found: CellIds = np.empty(0, dtype=np.int64)
    yield_ = 1.0  # share of the proposals that gave a new cell
    for _ in range(_ROUNDS):
        before, tries = found.size, int((count - found.size) / yield_) + 16
        found = _merge(found, propose(tries))
        if found.size >= count:
            return _thin(rng, found, count)
        yield_ = max((found.size - before) / tries, 0.1)
    rest = unlisted(found, draw_distinct(rng, total - found.size, count - found.size))
    return _merge(found, rest)


def _merge(found: CellIds, new: CellIds) -> CellIds:
    """Return the sorted union, many times as fast as np.union1d, which hashes."""
    both = np.sort(np.concatenate([found, new]))
    first = np.ones(both.size, dtype=bool)
    first[1:] = both[1:] != both[:-1]
    return both[first]


def _thin(rng: np.random.Generator, found: CellIds, count: int) -> CellIds:
    """Drop a random surplus."""
    surplus = found.size - count
    return np.delete(found, rng.choice(found.size, surplus, replace=False)) if surplus else found


def _popular_cells(rng: np.random.Generator, shape: tuple[int, int]) -> Callable[[int], CellIds]:
    m, n = shape
    rows, cols = (np.cumsum(rng.permutation(np.arange(1.0, side + 1.0) ** -POWER)) for side in (m, n))

    def propose(tries: int) -> CellIds:
        i = np.searchsorted(rows, rng.random(tries) * rows[-1], side="right")
        j = np.searchsorted(cols, rng.random(tries) * cols[-1], side="right")
        cells: CellIds = np.minimum(i, m - 1) * np.int64(n) + np.minimum(j, n - 1)  # rounding may reach the end
        return cells

    return propose


def _cells_by_value(
    rng: np.random.Generator, shape: tuple[int, int], codes_at: CodesAt, size: int
) -> Callable[[int], CellIds]:
    weight = np.linspace(LEAST_WEIGHT, 1.0, size)

    def propose(tries: int) -> CellIds:
        cells = rng.integers(shape[0] * shape[1], size=tries)
        codes = codes_at(*np.divmod(cells, shape[1]))
        return cells[rng.random(tries) < weight[codes]]

    return propose


def _cells_outside_patches(rng: np.random.Generator, shape: tuple[int, int], count: int) -> CellIds:
    """Hide whole patches of a grid of bands, then draw uniformly from the cells that are left."""
    row_edges, col_edges = (patch_edges(side) for side in shape)
    widths = np.diff(col_edges)
    areas = np.multiply.outer(np.diff(row_edges), widths).ravel()
    visible = np.flatnonzero(~_hidden_patches(rng, areas, count, shape))
    ends = np.cumsum(areas[visible])
    drawn = draw_distinct(rng, int(ends[-1]), count)  # numbers in the chain of all visible patches
    which = np.searchsorted(ends, drawn, side="right")
    band, bar = np.divmod(visible[which], widths.size)
    i, j = np.divmod(drawn - (ends - areas[visible])[which], widths[bar])
    return np.sort((row_edges[band] + i) * shape[1] + col_edges[bar] + j)


def patch_edges(side: int) -> NDArray[np.int64]:
    """Return where the bands of the grid of patches begin and end along one side.

    Examples
    --------
    >>> patch_edges(20)
    array([ 0,  2,  5,  7, 10, 12, 15, 17, 20])
    """
    bands = min(side, PATCH_BANDS)
    return np.arange(bands + 1, dtype=np.int64) * side // bands


def _hidden_patches(
    rng: np.random.Generator, areas: NDArray[np.int64], count: int, shape: tuple[int, int]
) -> NDArray[np.bool_]:
    """Choose up to half of the patches, as far as `count` cells still fit into the others."""
    hide = np.zeros(areas.size, dtype=bool)
    room = shape[0] * shape[1] - count
    for patch in rng.permutation(areas.size):
        if areas[patch] <= room and hide.sum() < areas.size // 2:
            hide[patch] = True
            room -= int(areas[patch])
    if not hide.any():
        raise ValueError(
            f'missing="blocks" leaves no patch unobserved when {count} of {shape[0]}×{shape[1]} cells are to be '
            f"observed: lower `observed` or give a larger shape"
        )
    return hide
