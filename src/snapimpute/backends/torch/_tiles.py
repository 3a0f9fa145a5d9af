"""f(X) by tiles, in torch: whatever f is, on the CPU and where kernels do not know it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from snapimpute.backends.torch._arrays import DTYPES
from snapimpute.base.types import Array, CellFunction
from snapimpute.linalg import LowRank, Sample
from snapimpute.linalg.tiled import Mapped
from snapimpute.penalties import CellMap

TILE = {"cpu": (512, 2048), "cuda": (8192, 16384)}
"""Rows and columns of a tile."""


class Tiles:
    """The mapped tiles of a low-rank matrix, band of rows by band of rows, all of them or a sample."""

    def __init__(
        self, backend: Any, factors: LowRank, cell_map: CellFunction, dtype: np.dtype[Any], sample: Sample | None
    ) -> None:
        m, n = factors.shape
        height, self.width = TILE[backend.device.type]
        kind = DTYPES[np.dtype(dtype)]
        self.backend, self.cell_map, self.columns, self.band_weight = backend, CellMap.of(cell_map), n, 1.0
        self.left = backend.tensor(factors.U * factors.s).to(kind)
        right = backend.tensor(factors.V).to(kind)
        self.order: Tensor | None = None
        if sample is None:
            self.rows = [slice(start, min(start + height, m)) for start in range(0, m, height)]
            self.windows = [(0, n)] * len(self.rows)
        else:
            order, self.rows, self.windows, self.band_weight = sample.draw((m, n))
            self.order = backend.put(order).tensor
            right = right[self.order]
        self.right = right

    def bands(self) -> Any:
        """Yield, for each band, its tiles with their rows and columns, and its share of the columns."""
        for rows, (first, last) in zip(self.rows, self.windows, strict=True):
            yield self._tiles(rows, first, last), (last - first) / self.columns

    def _tiles(self, rows: slice, first: int, last: int) -> Any:
        left = self.left[rows]
        for start in range(first, last, self.width):
            cols = slice(start, min(start + self.width, last))
            tile = left @ self.right[cols].T
            self.backend.apply(self.cell_map, self.backend.array(tile))
            if self.order is not None:
                tile *= self.band_weight * self.columns / (last - first)
            yield tile, rows, cols


class TorchMapped(Mapped):
    """f(X) for a low-rank X and a map f of one real variable, by tiles that are made, used and forgotten."""

    def __init__(
        self,
        backend: Any,
        factors: LowRank,
        cell_map: CellFunction,
        dtype: np.dtype[Any],
        sample: Sample | None,
        error: float,
    ) -> None:
        super().__init__(factors, error)
        self._torch = backend
        self._arguments = backend, factors, cell_map, dtype, sample

    def matmat(self, B: Array) -> Array:
        """f(X)·B."""
        return self._products(B, None)[0]

    def rmatmat(self, C: Array) -> Array:
        """f(X)ᵀ·C."""
        return self._products(None, C)[1]

    def both(self, B: Array, C: Array) -> tuple[Array, Array]:
        """(f(X)·B, f(X)ᵀ·C) in one pass over the tiles."""
        return self._products(B, C)

    def _products(self, B: Array | None, C: Array | None) -> tuple[Array, Array]:
        tiles, backend, (m, n) = Tiles(*self._arguments), self._torch, self.shape
        kind = tiles.left.dtype
        block = None if B is None else backend.tensor(B).to(kind)
        other = None if C is None else backend.tensor(C).to(kind)
        if block is not None and tiles.order is not None:
            block = block[tiles.order]
        forward = None if block is None else torch.zeros((m, block.shape[1]), dtype=kind, device=backend.device)
        backward = None if other is None else torch.zeros((n, other.shape[1]), dtype=kind, device=backend.device)
        for parts, _ in tiles.bands():
            for tile, rows, cols in parts:
                if forward is not None and block is not None:
                    forward[rows] += tile @ block[cols]
                if backward is not None and other is not None:
                    backward[cols] += tile.T @ other[rows]
        if backward is not None and tiles.order is not None:
            sorted_back = torch.empty_like(backward)
            sorted_back[tiles.order] = backward
            backward = sorted_back
        return self._back(forward), self._back(backward)

    def _back(self, out: Tensor | None) -> Array:
        whole = torch.empty(0, device=self._torch.device) if out is None else out
        found: Array = self._torch.array(whole.to(DTYPES[self.dtype]))
        return found
