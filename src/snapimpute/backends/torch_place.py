"""The arithmetic of the solvers in torch, on a GPU or the CPU."""

from __future__ import annotations

import math
import warnings
import weakref
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

from snapimpute.backends.arrays import DTYPES, TorchArray
from snapimpute.backends.forms import COSTS, form_of
from snapimpute.backends.maps import MAPS
from snapimpute.observations import Compressed, Observations
from snapimpute.operators import LowRank, MatrixOperator, Sample
from snapimpute.operators.place import ROWS, Need, Place
from snapimpute.operators.tiled import Mapped, single_error
from snapimpute.types import Array, CellMap

with warnings.catch_warnings():  # torch says once that such tensors are young; it is said here, to nobody
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1), check_invariants=False)

CHUNK = {"cpu": 1 << 16, "cuda": 1 << 22}
"""Observed cells that are gathered at once."""

TILE = {"cpu": (512, 2048), "cuda": (8192, 16384)}
"""Rows and columns of a tile."""


@cache
def torch_place(device: str | None = None) -> TorchPlace:
    """The place of a device, "cuda" if there is one and nothing is said.

    Raises
    ------
    RuntimeError
        If the device is not there.
    """
    there = torch.cuda.is_available()
    wanted = device or ("cuda" if there else "cpu")
    try:
        found = torch.device(wanted)
    except RuntimeError:
        raise ValueError(f'backend="torch:{wanted}": torch knows no device {wanted!r}; try "cpu" or "cuda"') from None
    if found.type not in CHUNK:
        raise ValueError(f'backend="torch:{wanted}" is not supported: use "torch:cpu" or "torch:cuda"')
    if found.type == "cuda":
        count = torch.cuda.device_count() if there else 0
        if (found.index or 0) >= count:
            built = "" if torch.version.cuda else f", and torch {torch.__version__} was built without CUDA"
            raise RuntimeError(
                f'backend="torch:{wanted}" needs a GPU, and torch sees {count or "none"}{built}: '
                'install torch with CUDA, or use backend="torch:cpu" or "cpu"'
            )
        found = torch.device("cuda", torch.cuda.current_device() if found.index is None else found.index)
    return TorchPlace(found)


class TorchPlace(Place):
    """A device of torch.

    Parameters
    ----------
    device : torch.device
    mixed : bool
        Whether fused products may be of low precision while the error of that is allowed.
    """

    def __init__(self, device: torch.device, mixed: bool = True) -> None:
        self.device, self.mixed = device, mixed
        gpu = f" ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else ""
        self.name = f"torch on {device}{gpu}"
        self._cells: tuple[weakref.ref[Any] | None, tuple[Any, ...]] = (None, ())

    def free_memory(self) -> int | None:
        """Bytes that are free on a GPU, those that torch keeps for itself included."""
        if self.device.type != "cuda":
            return None
        kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(torch.cuda.mem_get_info(self.device)[0]) + kept

    # ---------------------------------------------------------------- moving
    def put(self, array: Any, side: int = ROWS) -> Any:
        """A copy of a numpy array there, whatever side it is of."""
        return TorchArray(torch.tensor(np.ascontiguousarray(array), device=self.device), self)

    def full(self, shape: tuple[int, int], value: float, dtype: DTypeLike, side: int = ROWS) -> Array:
        """An array of one value there."""
        return self.array(torch.full(shape, value, dtype=DTYPES[np.dtype(dtype)], device=self.device))

    def array(self, tensor: Tensor) -> Array:
        """A tensor as numpy's functions know it."""
        return cast(Array, TorchArray(tensor, self))

    def tensor(self, array: Any) -> Tensor:
        """An array, of here or there, as a tensor there."""
        found: Tensor = array.tensor if isinstance(array, TorchArray) else self.put(array).tensor
        return found

    def observations(self, observations: Observations) -> Observations:
        """The same observations with all their arrays there; the cells that were moved last are not moved again."""
        last, cells = self._cells
        if last is None or last() is not observations.rows:
            cells = self._moved(observations)
            self._cells = weakref.ref(observations.rows), cells
        rows, cols, by_row, by_col = cells
        out = replace(observations, rows=rows, cols=cols, values=self.put(observations.values))
        out.__dict__.update(by_row=by_row, by_col=by_col)
        return out

    def _moved(self, observations: Observations) -> tuple[Any, ...]:
        """The cells, and pointers to them by row and by column."""
        (m, n), rows, cols = observations.shape, self.put(observations.rows), self.put(observations.cols)
        order = torch.argsort(cols.tensor, stable=True)  # rows stay sorted inside a column
        there: Any = self.array(order)
        lanes = Compressed if self.gathers is None else self.gathers.Lanes
        by_row = lanes(self._pointers(rows.tensor, m), cols, None)
        by_col = lanes(self._pointers(cols.tensor, n), rows[there], there)
        return rows, cols, by_row, by_col

    def _pointers(self, lanes: Tensor, count: int) -> Any:
        out = torch.zeros(count + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(torch.bincount(lanes, minlength=count), 0, out=out[1:])
        return self.array(out)

    # ---------------------------------------------------------------- products
    def times(self, tall: Array, small: Array) -> Array:
        """tall·small."""
        return self.array(self.tensor(tall) @ self.tensor(small.astype(tall.dtype, copy=False)))

    def inner(self, tall: Array, other: Array) -> Array:
        """tallᵀ·other, an array of numpy."""
        product: Array = (self.tensor(tall).T @ self.tensor(other)).cpu().numpy()
        return product

    def sampled_product(self, left: Array, right: Array, rows: Any, cols: Any) -> Array:
        """Σ_k left[rows, k] right[cols, k]; numpy's if the indices are."""
        host = not isinstance(rows, TorchArray)
        if host:
            rows, cols = np.broadcast_arrays(np.asarray(rows), np.asarray(cols))
        shape = rows.shape
        r, c = self.tensor(rows).reshape(-1), self.tensor(cols).reshape(-1)
        out = self._sampled(self.tensor(left), self.tensor(right), r, c)
        return cast(Array, out.cpu().numpy().reshape(shape)) if host else self.array(out)

    def _sampled(self, left: Tensor, right: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
        if self.gathers is not None:
            found: Tensor = self.gathers.entries(left, right, rows, cols)
            return found
        out = torch.empty(rows.numel(), dtype=left.dtype, device=self.device)
        step = CHUNK[self.device.type]
        for start in range(0, rows.numel(), step):
            part = slice(start, start + step)
            torch.linalg.vecdot(left[rows[part]], right[cols[part]], out=out[part])
        return out

    def sparse(self, observations: Observations, values: Array) -> MatrixOperator:
        """The matrix with the given values on the observed cells and 0 elsewhere."""
        return TorchSparse(self, observations, values)

    def lanes_product(self, lanes: Compressed, values: Array, block: Array) -> Array:
        """Σ_p values[p] block[indices[p]] over the entries p of each lane."""
        right = self.tensor(block)
        indptr, indices = self.tensor(lanes.indptr), self.tensor(lanes.indices)
        if self.gathers is not None:
            whole: Any = lanes
            return self.array(
                self.gathers.lane_sums(whole.pieces, indices, self.tensor(values).to(right.dtype), right)
            )
        shape = (indptr.numel() - 1, right.shape[0])
        sparse = torch.sparse_csr_tensor(
            indptr.to(indices.dtype) if values.size < 1 << 31 else indptr,
            indices,
            self.tensor(values).to(right.dtype),
            shape,
            check_invariants=False,
        )
        return self.array(sparse @ right)

    def take(self, table: Any, index: Any) -> Any:
        """table[index] of an array of numpy and indices that live there."""
        return self.put(table)[index]

    # ---------------------------------------------------------------- maps of all cells
    def apply(self, kernel: str, x: Array, *arguments: Any) -> None:
        """Apply a map by the name of its kernel, in place."""
        tensor = self.tensor(x)
        tensor.copy_(MAPS[kernel](tensor, *arguments))

    @cached_property
    def fused(self) -> Any:
        """The module of fused kernels; None on a device that has none."""
        if self.device.type != "cuda":
            return None
        from snapimpute.backends import fused

        return fused

    @cached_property
    def gathers(self) -> Any:
        """The module of kernels for sums over observed cells; None on a device that has none."""
        if self.device.type != "cuda":
            return None
        from snapimpute.backends import gathers

        return gathers

    def mapped(self, factors: LowRank, cell_map: CellMap, need: Need, sample: Sample | None) -> MatrixOperator:
        """f(X) as an operator, in one kernel where there is one, else by tiles."""
        error = single_error(factors, need)
        single = bool(error) or sample is not None or factors.dtype == np.float32
        form = None if self.fused is None or sample is not None or not single else form_of(cell_map)
        if form is None or factors.rank > self.fused.MOST_COLUMNS:
            kind = np.dtype(np.float32) if single else factors.dtype
            return TorchMapped(self, factors, cell_map, kind, sample, error)
        from snapimpute.backends.fused_operator import chosen

        return chosen(self, factors, form, need, error)

    def cell_sum(self, factors: LowRank, cell_map: CellMap, sample: Sample | None) -> tuple[float, float]:
        """Σ f(X_ij) over all cells as a sample knows it, and its standard error."""
        if self.fused is not None and sample is None and factors.dtype == np.float32:
            form = form_of(cell_map)
            if form is not None and form.kind in COSTS and factors.rank <= self.fused.MOST_COLUMNS:
                return self.fused.total(self.tensor(factors.U * factors.s), self.tensor(factors.V), form), 0.0
        tiles = _Tiles(self, factors, cell_map, factors.dtype, sample)
        totals, variance = [], 0.0
        for parts, share in tiles.bands():
            sums = torch.cat([tile.sum(dim=0, dtype=torch.float64) for tile, _, _ in parts])
            totals.append(float(sums.sum()))
            if share < 1:  # the columns are what was drawn
                variance += _spread(sums) * (1 - share)
        if tiles.band_weight > 1:  # the bands were drawn too
            variance += (1 - 1 / tiles.band_weight) * _spread(torch.tensor(totals, dtype=torch.float64))
        return math.fsum(totals), math.sqrt(variance)


def _spread(values: Tensor) -> float:
    """Variance of a sum of as many independent values; of a single one, about 0."""
    return values.numel() * float(values.var()) if values.numel() > 1 else float(values @ values)


class TorchSparse(MatrixOperator):
    """The matrix with the given values on the observed cells and 0 elsewhere."""

    def __init__(self, place: TorchPlace, observations: Observations, values: Array) -> None:
        self._torch, self.observations, self.values, self.shape = place, observations, values, observations.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the values."""
        return self.values.dtype

    @property
    def place(self) -> Place | None:
        """That of the values."""
        return self._torch

    def matmat(self, B: Array) -> Array:
        """A·B, a sum over the entries of each row."""
        return self._torch.lanes_product(self.observations.by_row, self.values, B)

    def rmatmat(self, C: Array) -> Array:
        """Aᵀ·C, a sum over the entries of each column."""
        return self._torch.lanes_product(self.observations.by_col, self._values_by_col, C)

    @cached_property
    def _values_by_col(self) -> Array:
        return self.values[self.observations.by_col.order]


class _Tiles:
    """The mapped tiles of a low-rank matrix, band of rows by band of rows, all of them or a sample."""

    def __init__(
        self, place: TorchPlace, factors: LowRank, cell_map: CellMap, dtype: np.dtype[Any], sample: Sample | None
    ) -> None:
        m, n = factors.shape
        height, self.width = TILE[place.device.type]
        kind = DTYPES[np.dtype(dtype)]
        self.place, self.cell_map, self.columns, self.band_weight = place, cell_map, n, 1.0
        self.left = place.tensor(factors.U * factors.s).to(kind)
        right = place.tensor(factors.V).to(kind)
        self.order: Tensor | None = None
        if sample is None:
            self.rows = [slice(start, min(start + height, m)) for start in range(0, m, height)]
            self.windows = [(0, n)] * len(self.rows)
        else:
            order, self.rows, self.windows, self.band_weight = sample.draw((m, n))
            self.order = place.put(order).tensor
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
            self.cell_map(self.place.array(tile))
            if self.order is not None:
                tile *= self.band_weight * self.columns / (last - first)
            yield tile, rows, cols


class TorchMapped(Mapped):
    """f(X) for a low-rank X and a map f of one real variable, by tiles that are made, used and forgotten."""

    def __init__(
        self,
        place: TorchPlace,
        factors: LowRank,
        cell_map: CellMap,
        dtype: np.dtype[Any],
        sample: Sample | None,
        error: float,
    ) -> None:
        super().__init__(factors, error)
        self._torch = place
        self._arguments = place, factors, cell_map, dtype, sample

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
        tiles, place, (m, n) = _Tiles(*self._arguments), self._torch, self.shape
        kind = tiles.left.dtype
        block = None if B is None else place.tensor(B).to(kind)
        other = None if C is None else place.tensor(C).to(kind)
        if block is not None and tiles.order is not None:
            block = block[tiles.order]
        forward = None if block is None else torch.zeros((m, block.shape[1]), dtype=kind, device=place.device)
        backward = None if other is None else torch.zeros((n, other.shape[1]), dtype=kind, device=place.device)
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
        wanted = DTYPES[self.dtype]
        return self._torch.array(torch.empty(0, dtype=wanted) if out is None else out.to(wanted))
