"""The arithmetic of the solvers in torch, on a GPU or the CPU."""

from __future__ import annotations

import importlib
import math
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

from snapimpute.backends.torch._arrays import DTYPES, TorchArray
from snapimpute.backends.torch._forms import COSTS, Form, form_of
from snapimpute.backends.torch._maps import applied
from snapimpute.backends.torch._settings import undisturbed
from snapimpute.backends.torch._tiles import Tiles, TorchMapped
from snapimpute.base.errors import (
    ArgumentError,
    ArgumentName,
    DeviceMemoryError,
    MissingDeviceError,
    MissingPackageError,
    Setting,
)
from snapimpute.base.machine import in_words
from snapimpute.base.types import Array, CellFunction
from snapimpute.data.checks import check_inside
from snapimpute.data.observations import Compressed, Observations
from snapimpute.linalg import LowRank, MatrixOperator, Sample
from snapimpute.linalg.backend import ROWS, Accuracy, Backend
from snapimpute.linalg.tiled import single_error
from snapimpute.penalties import CellMap

# Torch says once that such tensors are young; it is said here, to nobody.
with warnings.catch_warnings(), undisturbed("cpu"), torch.device("cpu"):
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1), check_invariants=False)

CHUNK = {"cpu": 1 << 16, "cuda": 1 << 22}
"""Observed cells that are gathered at once."""


ON_CPU = (Setting("backend", "torch:cpu"), " or ", Setting("backend", "cpu"))
"""Settings that need no GPU."""


@cache
def torch_backend(device: str | None = None) -> TorchBackend:
    """The backend of a device, by default "cuda" if there is one; one that is not there is a RuntimeError."""
    there = torch.cuda.is_available()
    wanted = device or ("cuda" if there else "cpu")
    asked = f"torch:{wanted}"
    try:
        found = torch.device(wanted)
    except RuntimeError:
        raise ArgumentError(
            "backend", asked, Setting("backend", asked), f': torch knows no device {wanted!r}; try "cpu" or "cuda"'
        ) from None
    if found.type not in CHUNK:
        raise ArgumentError(
            "backend", asked, Setting("backend", asked), ' is not supported: use "torch:cpu" or "torch:cuda"'
        )
    if found.type == "cuda":
        count = torch.cuda.device_count() if there else 0
        if (found.index or 0) >= count:
            told = f" needs a GPU, and torch sees {count or 'none'}{_advice()}, or use "
            raise MissingDeviceError("backend", asked, Setting("backend", asked), told, *ON_CPU)
        _check_triton(asked)
        found = torch.device("cuda", torch.cuda.current_device() if found.index is None else found.index)
    backend = TorchBackend(found)
    backend.check()
    return backend


def _advice() -> str:
    if torch.version.cuda:
        return ": see whether nvidia-smi lists one"
    return (
        f", and torch {torch.__version__} was built without CUDA: install one that was with pip install "
        '--force-reinstall "torch>=2.8" (pytorch.org/get-started has the line for each system)'
    )


def _check_triton(asked: str) -> None:
    try:
        importlib.import_module("triton.tools.tensor_descriptor")
    except ModuleNotFoundError:
        told = ' needs triton 3.4 or later, which is not installed: pip install "triton>=3.4"'
        raise MissingPackageError("backend", asked, Setting("backend", asked), told) from None


class TorchBackend(Backend):
    """A device of torch; if ``mixed``, fused products may be of low precision while the error of that is allowed."""

    def __init__(self, device: torch.device, mixed: bool = True) -> None:
        self.device, self.mixed = device, mixed
        gpu = f" ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else ""
        self.name = f"torch on {device}{gpu}"
        self._cells: tuple[tuple[Any, ...], tuple[Any, ...]] = ((), ())
        """Cells that were moved last (rows, columns, shape), and their copies on the device."""

    def free_memory(self) -> int | None:
        """Bytes that are free on a GPU, those that torch keeps for itself included."""
        if self.device.type != "cuda":
            return None
        kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(torch.cuda.mem_get_info(self.device)[0]) + kept

    def guarded(self, work: Callable[[], Any]) -> Any:
        """work(), with all digits of float32 whatever the program asked of torch; a full GPU is a MemoryError."""
        try:
            with undisturbed(self.device.type):
                return work()
        except torch.OutOfMemoryError as err:
            free = self.free_memory()
            left = "" if free is None else f", of which {in_words(free)} are free"
            raise DeviceMemoryError(
                "backend",
                self.name,
                f"{self.name} has too little memory{left}. What helps: a smaller ",
                ArgumentName("max_rank"),
                ", ",
                Setting("dtype", "float32"),
                ", nothing else on that device, or ",
                Setting("backend", "cpu"),
            ) from err

    # ---------------------------------------------------------------- moving
    def put(self, array: Any, side: int = ROWS) -> Any:
        """A copy of a numpy array there, whatever side it is of."""
        # Copied by numpy: the single row of an array may run backwards in memory, which torch does not take.
        return TorchArray(torch.from_numpy(np.array(array, order="C")).to(self.device), self)

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
        given = observations.rows, observations.cols
        last, cells = self._cells
        same = all(one() is array for one, array in zip(last, given, strict=False))
        if not (last and same and last[2] == observations.shape):
            cells = self._moved(observations)
            self._cells = (*(weakref.ref(array, self._forget) for array in given), observations.shape), cells
        rows, cols, by_row, by_col = cells
        out = replace(observations, rows=rows, cols=cols, values=self.put(observations.values))
        out.__dict__.update(by_row=by_row, by_col=by_col)
        return out

    def _forget(self, gone: Any) -> None:
        """The table is gone: its cells need no memory there any longer."""
        if any(one is gone for one in self._cells[0]):
            self._cells = ((), ())

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
            check_inside(rows, cols, (len(left), len(right)))  # a kernel would read whatever is there
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
            device=self.device,
            check_invariants=False,
        )
        return self.array(sparse @ right)

    def take(self, table: Any, index: Any) -> Any:
        """table[index] of an array of numpy and indices that live there."""
        return self.put(table)[index]

    # ---------------------------------------------------------------- maps of all cells
    def apply(self, cell_map: CellMap, x: Array) -> None:
        """Apply a map of one real variable in place."""
        tensor = self.tensor(x)
        tensor.copy_(applied(cell_map, tensor))

    @cached_property
    def fused(self) -> Any:
        """The module of fused kernels; None on a device that has none."""
        return self._kernels("fused")

    @cached_property
    def gathers(self) -> Any:
        """The module of kernels for sums over observed cells; None on a device that has none."""
        return self._kernels("gathers")

    def check(self) -> None:
        """Refuse a GPU that the kernels are not for."""
        if self.device.type != "cuda":
            return
        if torch.version.hip or torch.cuda.get_device_capability(self.device) < (8, 0):
            told = " is not supported: the kernels are for GPUs by NVIDIA of compute capability 8.0 or later; use "
            raise MissingDeviceError("backend", self.name, self.name, told, *ON_CPU)

    def _kernels(self, name: str) -> Any:
        if self.device.type != "cuda":
            return None
        self.check()
        return importlib.import_module(f"snapimpute.backends.torch._{name}")

    def mapped(
        self, factors: LowRank, cell_map: CellFunction, accuracy: Accuracy, sample: Sample | None
    ) -> MatrixOperator:
        """f(X) as an operator, in one kernel where there is one, else by tiles."""
        error = single_error(factors, accuracy)
        single = bool(error) or sample is not None or factors.dtype == np.float32
        form = None if self.fused is None or sample is not None or not single else form_of(CellMap.of(cell_map))
        if form is None or not self._fits(factors, form):
            kind = np.dtype(np.float32) if single else factors.dtype
            return TorchMapped(self, factors, cell_map, kind, sample, error)
        from snapimpute.backends.torch._fused_operator import chosen

        return chosen(self, factors, form, accuracy, error)

    def _fits(self, factors: LowRank, form: Form) -> bool:
        """Tell whether kernels take factors as wide, and as large, as these."""
        return factors.rank <= self.fused.MOST_COLUMNS and bool(
            self.fused.in_range(self.tensor(factors.U * factors.s), self.tensor(factors.V), form.unit)
        )

    def cell_sum(self, factors: LowRank, cell_map: CellFunction, sample: Sample | None) -> tuple[float, float]:
        """Σ f(X_ij) over all cells as a sample knows it, and its standard error."""
        if self.fused is not None and sample is None and factors.dtype == np.float32:
            form = form_of(CellMap.of(cell_map))
            if form is not None and form.kind in COSTS and factors.rank <= self.fused.MOST_COLUMNS:
                found = self.fused.total(self.tensor(factors.U * factors.s), self.tensor(factors.V), form)
                if math.isfinite(found):
                    return found, 0.0
        tiles = Tiles(self, factors, cell_map, factors.dtype, sample)
        totals, variance = [], 0.0
        for parts, share in tiles.bands():
            sums = torch.cat([tile.sum(dim=0, dtype=torch.float64) for tile, _, _ in parts])
            totals.append(float(sums.sum()))
            if share < 1:  # the columns are what was drawn
                variance += _spread(sums) * (1 - share)
        if tiles.band_weight > 1:  # the bands were drawn too
            variance += (1 - 1 / tiles.band_weight) * _spread(torch.tensor(totals, dtype=torch.float64, device="cpu"))
        return math.fsum(totals), math.sqrt(variance)


def _spread(values: Tensor) -> float:
    """Variance of a sum of as many independent values; of a single one, about 0."""
    return values.numel() * float(values.var()) if values.numel() > 1 else float(values @ values)


class TorchSparse(MatrixOperator):
    """The matrix with the given values on the observed cells and 0 elsewhere."""

    def __init__(self, backend: TorchBackend, observations: Observations, values: Array) -> None:
        self._torch, self.observations, self.values, self.shape = backend, observations, values, observations.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Follow the values."""
        return self.values.dtype

    @property
    def backend(self) -> Backend | None:
        """Follow the values."""
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
