"""f(U diag(s) Vᵀ), a map of every cell of a low-rank matrix, by tiles that fit the cache.

The discrete penalty lives on the cells that were not observed, so its prox is
a dense matrix. It is never stored: each tile is made by one small BLAS product,
mapped in place by compiled code, used, and overwritten by the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from snapimpute.operators.base import MatrixOperator
from snapimpute.operators.lowrank import LowRank
from snapimpute.operators.threads import cut, run_parts, single_threaded_blas
from snapimpute.types import Array, CellMap

TILE_ROWS = 256
TILE_BYTES = 1 << 20
"""One tile per thread should stay in the second-level cache together with the factors it is made of."""

MAP_COST = 10
"""What mapping one cell costs, in multiply-adds; a rough figure."""


class MappedLowRank(MatrixOperator):
    """f(X) for a low-rank X and a map f of one real variable, applied to every cell.

    A product costs O(mn(r + k)) operations and one tile of memory per thread.

    Parameters
    ----------
    factors : LowRank
    cell_map : callable
        Changes a flat array in place; called from several threads.

    Examples
    --------
    >>> X = LowRank(np.ones((3, 1)), np.array([2.0]), np.ones((2, 1)))
    >>> MappedLowRank(X, lambda tile: np.square(tile, out=tile)).matmat(np.eye(2))
    array([[4., 4.], [4., 4.], [4., 4.]])
    """

    def __init__(self, factors: LowRank, cell_map: CellMap) -> None:
        self.factors = factors
        self.cell_map = cell_map
        self.shape = factors.shape

    @property
    def T(self) -> MappedLowRank:  # noqa: N802 - the name numpy gives it
        """f(Xᵀ): the map does not see where a cell stands."""
        return MappedLowRank(self.factors.T, self.cell_map)

    def matmat(self, B: Array) -> Array:
        """f(X)·B, row band by row band."""
        out = np.zeros((self.shape[0], B.shape[1]))
        B = np.ascontiguousarray(B)
        tiles = _Tiles(self.factors)

        def work(start: int, stop: int) -> None:
            for tile, (left, right) in tiles.of_band(start, stop):
                self.cell_map(tile.reshape(-1))
                out[start:stop] += tile @ B[left:right]

        with single_threaded_blas():
            run_parts(work, tiles.bands, tiles.operations(B.shape[1]))
        return out

    def rmatmat(self, C: Array) -> Array:
        """f(X)ᵀ·C, column band by column band, so that no two threads write one cell."""
        return self.T.matmat(C)


def cell_sum(factors: LowRank, cell_map: CellMap) -> float:
    """Σ f(X_ij) over all cells of a low-rank matrix."""
    tiles = _Tiles(factors)

    def work(start: int, stop: int) -> float:
        total = 0.0
        for tile, _ in tiles.of_band(start, stop):
            flat = tile.reshape(-1)
            cell_map(flat)
            total += float(flat.sum())
        return total

    with single_threaded_blas():
        return math.fsum(run_parts(work, tiles.bands, tiles.operations(0)))


class _Tiles:
    """The tiles of a low-rank matrix: bands of rows, each cut into columns."""

    def __init__(self, factors: LowRank) -> None:
        self.left = np.ascontiguousarray(factors.U * factors.s)
        self.right = np.ascontiguousarray(factors.V)
        self.bands = cut(factors.shape[0], TILE_ROWS)
        self.width = TILE_BYTES // (TILE_ROWS * self.left.itemsize)

    def operations(self, columns: int) -> float:
        """Of making every tile, mapping it, and multiplying it by a block of so many columns."""
        (m, r), n = self.left.shape, self.right.shape[0]
        return float(2 * m * n * (r + columns + MAP_COST))

    def of_band(self, start: int, stop: int) -> Iterator[tuple[Array, tuple[int, int]]]:
        """Yield (tile, (first column, last column)); the tile's memory is used again by the next."""
        rows = self.left[start:stop]
        memory = np.empty(rows.shape[0] * min(self.width, self.right.shape[0]))
        for left, right in cut(self.right.shape[0], self.width):
            tile = memory[: rows.shape[0] * (right - left)].reshape(rows.shape[0], right - left)
            np.matmul(rows, self.right[left:right].T, out=tile)
            yield tile, (left, right)
