"""f(U diag(s) Vᵀ), a map of every cell of a low-rank matrix, by tiles that fit the cache.

The discrete penalty acts on the missing cells, so its prox is a dense matrix. It
is never stored. One small BLAS product makes a tile, compiled code maps it in
place, it is used, and the next overwrites it. Tiles that are small in all are
kept for the next product. A tile may serve A·B and Aᵀ·C at once, and may have a
lower precision than the products. `Sample` draws some tiles at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from snapimpute.base.files import stored
from snapimpute.base.threads import Part, cut, run_parts, single_threaded_blas
from snapimpute.base.types import Array, CellFunction
from snapimpute.linalg.backend import EXACT, Accuracy, Backend, backend_of
from snapimpute.linalg.base import MatrixOperator
from snapimpute.linalg.lowrank import LowRank

TILE_ROWS = 512
TILE_BYTES = 1 << 19
"""One tile per thread should stay in the second-level cache together with the factors it is made of."""

KEPT_BYTES, KEPT_SAMPLE = 1 << 24, 1 << 26
"""Tiles that together are no larger, of a table or of a sample, are made once and kept: a partial SVD multiplies
several times."""

LEAST_ROWS, LEAST_COLS = 64, 32
"""Smallest tiles of a sample: below that they cost more to handle than to compute."""

GOOD_CELLS = 1 << 16
"""Tiles of a sample are made taller up to this size, if enough bands remain."""

BANDS_PER_WINDOW = 4
"""Bands of a sample that share a window of columns, if there are rows enough: few bands leave little to omit."""

GROUPS = 8
"""Groups of bands that add up one transposed product, each in its own buffer, for any number of threads. Bands of a
sample with the same columns are one group; as many such groups need no buffers."""

SINGLE = 2 * float(np.finfo(np.float32).eps)
"""Error of a matrix made of float32 tiles, relative to its Frobenius norm; rounding alone is about a third of it."""

WORTH_SINGLE = 1 << 18
"""Cells from which float32 tiles pay off."""

SPEED = 10
"""Tile operations in the time of one other operation: tiles run at the speed of BLAS."""

MAP_COST = 10
"""Cost of mapping one cell, in multiply-adds; a rough figure."""


@stored("sample", "windows", "groups", "seed")
@dataclass(frozen=True)
class Sample:
    """A random choice of tiles: some bands of rows, and for each of them a part of the shuffled columns.

    A band takes every k-th row. The columns are shuffled and cut into equal
    ``windows``, and each band gets one, all of them equally often. If windows alone
    leave out too little, only one in ``groups`` bands is drawn, rounded up. Every
    cell is drawn with the same probability and counts ``1/probability`` times, so
    that products and sums are right on average. Same seed, same tiles.
    """

    windows: int
    groups: int
    seed: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, int], fraction: int, seed: tuple[int, ...] = ()) -> Sample:
        """Draw about one in ``fraction`` cells: by windows while tiles are large enough and bands many."""
        windows = min(max(fraction, 1), cls.most_windows(shape))
        bands = cls(windows, 1, ())._bands(shape)
        return cls(windows, max(min(fraction // windows, bands // 2), 1), seed)

    @staticmethod
    def most_windows(shape: tuple[int, int]) -> int:
        """Return the largest number of windows with tiles that are large enough; at least 1."""
        m, n = shape
        return max(min(m // LEAST_ROWS, n // LEAST_COLS), 1)

    @property
    def fraction(self) -> int:
        """Number of cells for each one drawn, about."""
        return self.windows * self.groups

    def draw(self, shape: tuple[int, int]) -> Draw:
        """Draw from a matrix of the given shape."""
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(shape[1])
        bands, windows = self._bands(shape), min(self.windows, shape[1])
        chosen = np.sort(rng.permutation(bands)[: -(-bands // self.groups)])
        borders = np.linspace(0, shape[1], windows + 1).astype(np.intp)
        which = rng.permutation(np.arange(chosen.size) + rng.integers(windows)) % windows
        parts = [(int(borders[w]), int(borders[w + 1])) for w in which]
        return Draw(order, [slice(int(b), shape[0], bands) for b in chosen], parts, bands / chosen.size)

    def _bands(self, shape: tuple[int, int]) -> int:
        """Return the number of bands: the same for each window, with tiles that are large enough."""
        (m, n), windows = shape, max(min(self.windows, shape[1]), 1)
        rows = m // (BANDS_PER_WINDOW * windows)
        height = max(min(rows, GOOD_CELLS * windows // max(n, 1), TILE_ROWS), LEAST_ROWS)
        return max(min(windows * -(-m // (windows * height)), m), 1)


class Draw(NamedTuple):
    """The tiles drawn: the order of the columns, and bands of rows with a window of the columns each.

    Each band drawn stands for ``band_weight`` bands.
    """

    order: NDArray[np.intp]
    bands: list[slice]
    windows: list[Part]
    band_weight: float


class Mapped(MatrixOperator):
    """f(X) for a low-rank X and a map f of one real variable: the part that all backends share."""

    def __init__(self, factors: LowRank, error: float = 0.0) -> None:
        self.factors, self.shape, self._error = factors, factors.shape, error

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the factors."""
        return self.factors.dtype

    @property
    def backend(self) -> Backend | None:
        """Backend of the factors."""
        return self.factors.backend

    @property
    def error(self) -> float:
        """Error from the precision of its products."""
        return self._error


class MappedLowRank(Mapped):
    """f(X) for a low-rank X and a map f of one real variable, that changes flat arrays in place, in several threads.

    A product costs O(mn(r + k)) operations and one tile of memory per thread; small tiles are kept for the next
    product if ``keep``. With a ``sample`` the operator is f(X) on average only, and its products cost less. ``error``
    is that from the precision of the tiles, ``tile_dtype``, in the Frobenius norm.

    Examples
    --------
    >>> X = LowRank(np.ones((3, 1)), np.array([2.0]), np.ones((2, 1)))
    >>> MappedLowRank(X, lambda tile: np.square(tile, out=tile)).matmat(np.eye(2))
    array([[4., 4.], [4., 4.], [4., 4.]])
    """

    def __init__(
        self,
        factors: LowRank,
        cell_map: CellFunction,
        *,
        tile_dtype: DTypeLike | None = None,
        sample: Sample | None = None,
        keep: bool = True,
        error: float = 0.0,
    ) -> None:
        super().__init__(factors, error)
        self.cell_map = cell_map
        self.tile_dtype = np.dtype(factors.dtype if tile_dtype is None else tile_dtype)
        self.sample = sample
        small = sample is not None or math.prod(self.shape) * self.tile_dtype.itemsize <= KEPT_BYTES
        self.keep = keep and small

    @property
    def T(self) -> MatrixOperator:  # noqa: N802 - the name numpy gives it
        """f(Xᵀ): the map does not depend on the position of a cell."""
        if self._in_one_pass:
            return super().T
        return MappedLowRank(self.factors.T, self.cell_map, tile_dtype=self.tile_dtype, keep=False)

    @property
    def _in_one_pass(self) -> bool:
        """True if transposed products use the same tiles: tiles that are kept, or drawn."""
        return self.sample is not None or self.keep

    @cached_property
    def _tiles(self) -> _Tiles:
        return _Tiles(self.factors, self.cell_map, self.tile_dtype, self.sample, self.keep)

    def matmat(self, B: Array) -> Array:
        """f(X)·B, row band by row band."""
        tiles = self._tiles
        block, out = tiles.columns_of(B), np.zeros((self.shape[0], B.shape[1]), self.tile_dtype)

        def work(start: int, stop: int) -> None:
            for band in range(start, stop):
                for tile, rows, cols in tiles.of_band(band):
                    out[rows] += tile @ block[cols]

        self._run(work, cut(len(tiles.bands), 1), B.shape[1])
        return out.astype(B.dtype, copy=False)

    def rmatmat(self, C: Array) -> Array:
        """f(X)ᵀ·C, column band by column band, so that no two threads write one cell."""
        if not self._in_one_pass:
            return self.T.matmat(C)
        return self.both(np.zeros((self.shape[1], 0), C.dtype), C)[1]

    def both(self, B: Array, C: Array) -> tuple[Array, Array]:
        """(f(X)·B, f(X)ᵀ·C) in one pass over the tiles."""
        tiles, groups = self._tiles, self._tiles.groups
        block, other = tiles.columns_of(B), np.ascontiguousarray(C, self.tile_dtype)
        forward = np.zeros((self.shape[0], B.shape[1]), self.tile_dtype)
        sums = np.zeros((1 if tiles.apart else len(groups), self.shape[1], C.shape[1]), self.tile_dtype)

        def work(group: int, _: int) -> None:
            backward = sums[0 if tiles.apart else group]
            for band in groups[group]:
                for tile, rows, cols in tiles.of_band(band):
                    if B.shape[1]:
                        forward[rows] += tile @ block[cols]
                    backward[cols] += tile.T @ other[rows]

        self._run(work, cut(len(groups), 1), B.shape[1] + C.shape[1])
        backward = tiles.in_order(sums[0] if len(sums) == 1 else sums.sum(axis=0))
        return forward.astype(B.dtype, copy=False), backward.astype(C.dtype, copy=False)

    def _run(self, work: Any, parts: list[Part], columns: int) -> list[Any]:
        with single_threaded_blas():
            return run_parts(work, parts, self._tiles.operations(columns) / SPEED)


def mapped(
    factors: LowRank, cell_map: CellFunction, *, accuracy: Accuracy = EXACT, sample: Sample | None = None
) -> MatrixOperator:
    """Return f(X) as an operator, where X lives, with tiles of lower precision if that is accurate enough."""
    backend = backend_of(factors.U)
    if backend is not None:
        there: MatrixOperator = backend.mapped(factors, cell_map, accuracy, sample)
        return there
    error = single_error(factors, accuracy)
    single = np.float32 if error or sample is not None else None  # rounding is small beside the noise of a sample
    return MappedLowRank(factors, cell_map, tile_dtype=single, sample=sample, error=error)


def single_error(factors: LowRank, accuracy: Accuracy) -> float:
    """Return the error of float32 tiles of a float64 matrix; 0 if they are too coarse or not worth using."""
    if accuracy.error == 0 or math.prod(factors.shape) < WORTH_SINGLE or factors.dtype != np.float64:
        return 0.0
    error = SINGLE * factors.norm()
    return error if error <= accuracy.error else 0.0


def cell_sum(factors: LowRank, cell_map: CellFunction) -> float:
    """Sum f(X_ij) over all cells of a low-rank matrix."""
    return sampled_sum(factors, cell_map, None)[0]


def sampled_sum(factors: LowRank, cell_map: CellFunction, sample: Sample | None) -> tuple[float, float]:
    """Estimate Σ f(X_ij) over all cells from a sample; return it and its standard error."""
    backend = backend_of(factors.U)
    if backend is not None:
        return backend.cell_sum(factors, cell_map, sample)
    if sample is None:
        return math.fsum(float(sums.sum()) for sums in band_sums(factors, cell_map, None)), 0.0
    return estimate(band_sums(factors, cell_map, sample), sample.draw(factors.shape), factors.shape[1])


def band_sums(factors: LowRank, cell_map: CellFunction, sample: Any) -> list[Array]:
    """Sum f(X_ij) over the rows of each band, column by column; for bands of all columns tile by tile."""
    tiles = _Tiles(factors, cell_map, factors.dtype, sample)

    def work(band: int, _: int) -> Array:
        first, last = tiles.windows[band]
        if last - first == factors.shape[1]:
            return np.array([float(tile.sum(dtype=np.float64)) for tile, _, _ in tiles.of_band(band)])
        return np.concatenate([tile.sum(axis=0, dtype=np.float64) for tile, _, _ in tiles.of_band(band)])

    with single_threaded_blas():
        return run_parts(work, cut(len(tiles.bands), 1), tiles.operations(0) / SPEED)


def estimate(sums: list[Array], drawn: Draw, columns: int) -> tuple[float, float]:
    """Estimate the sum over all cells from `band_sums` of a sample; return it and its standard error."""
    totals = np.array([float(one.sum()) for one in sums])
    shares = [(last - first) / columns for first, last in drawn.windows]
    # only the columns were drawn
    variance = math.fsum(_spread(one) * (1 - share) for one, share in zip(sums, shares, strict=True) if share < 1)
    if drawn.band_weight > 1:  # the bands were drawn too
        variance += (1 - 1 / drawn.band_weight) * _spread(totals)
    return math.fsum(totals), math.sqrt(variance)


def _spread(values: Array) -> float:
    """Estimate the variance of a sum of independent values; of a single one, that about 0."""
    return values.size * float(values.var(ddof=1)) if values.size > 1 else float(values @ values)


class _Tiles:
    """The mapped tiles of a low-rank matrix: bands of rows, each cut into columns.

    Cells of a sample are multiplied by the number of cells they stand for. Threads
    may work on ``groups`` of bands at the same time; if ``apart``, no two groups
    share a column.
    """

    def __init__(
        self,
        factors: LowRank,
        cell_map: CellFunction,
        dtype: np.dtype[Any],
        sample: Sample | None,
        keep: bool = False,
    ) -> None:
        m, n = self.shape = factors.shape
        self.cell_map = cell_map
        right, self.band_weight = factors.V, 1.0
        self.order: NDArray[np.intp] | None = None
        if sample is None:
            self.bands = [slice(start, stop, 1) for start, stop in cut(m, TILE_ROWS)]
            self.windows = [(0, n)] * len(self.bands)
        else:
            self.order, self.bands, self.windows, self.band_weight = sample.draw((m, n))
            right = right[self.order]
        self.left = np.ascontiguousarray(factors.U * factors.s, dtype)
        self.right = np.ascontiguousarray(right, dtype)
        self.width = TILE_BYTES // (TILE_ROWS * self.left.itemsize)
        both = zip(self.bands, self.windows, strict=True)
        self.ends = np.cumsum([_height(band) * (last - first) for band, (first, last) in both]).tolist()
        self.cells: int = self.ends[-1] if self.ends else 0
        keep = keep and self.cells * self.left.itemsize <= (KEPT_BYTES if sample is None else KEPT_SAMPLE)
        self.kept = np.empty(self.cells, dtype) if keep else None  # one block: the next operator gets it again
        self.made = [False] * len(self.bands)
        same: dict[int, list[int]] = {}
        for band, (first, _) in enumerate(self.windows):
            same.setdefault(first, []).append(band)
        self.apart = len(same) >= GROUPS
        several = cut(len(self.bands), -(-len(self.bands) // GROUPS))
        self.groups: list[Any] = list(same.values()) if self.apart else [range(*part) for part in several]

    def columns_of(self, B: Array) -> Array:
        """Return a block of n rows in the order and the precision of the tiles."""
        return np.ascontiguousarray(B if self.order is None else B[self.order], self.left.dtype)

    def in_order(self, out: Array) -> Array:
        """Undo `columns_of` for a product."""
        if self.order is None:
            return out
        back = np.empty_like(out)
        back[self.order] = out
        return back

    def operations(self, columns: int) -> float:
        """Count the operations to make every tile, map it, and multiply it by a block of so many columns."""
        return float(2 * self.cells * (self.left.shape[1] + columns + MAP_COST))

    def of_band(self, band: int) -> Iterator[tuple[Array, slice, slice]]:
        """Yield (tile, its rows, its columns); the next tile reuses the memory unless tiles are kept."""
        rows, (first, last) = self.bands[band], self.windows[band]
        height = _height(rows)
        if self.kept is None:
            memory = np.empty(height * min(self.width, last - first), self.left.dtype)
        else:
            memory = self.kept[self.ends[band] - height * (last - first) : self.ends[band]]
        for left, right in cut(last - first, self.width):
            cols = slice(first + left, first + right)
            begin = 0 if self.kept is None else height * left
            cells = memory[begin : begin + height * (right - left)]
            tile = cells.reshape(height, right - left)
            if not self.made[band]:
                np.matmul(self.left[rows], self.right[cols].T, out=tile)
                self.cell_map(cells)
                if self.order is not None:
                    cells *= cells.dtype.type(self.band_weight * self.shape[1] / (last - first))
            yield tile, rows, cols
        self.made[band] = self.kept is not None


def _height(band: slice) -> int:
    return len(range(band.start, band.stop, band.step))
