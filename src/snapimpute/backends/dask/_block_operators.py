"""Operators of which every block of rows is where the block is, and what is done to a block there."""

from __future__ import annotations

import hashlib
import io
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import numpy as np
from dask.sizeof import sizeof
from numpy.typing import DTypeLike

from snapimpute.backends.dask._blocks import Blocks
from snapimpute.base.files import write_atomically
from snapimpute.base.types import Array, CellFunction
from snapimpute.data.observations import Observations
from snapimpute.linalg import LowRank, MappedLowRank, MatrixOperator, Sample
from snapimpute.linalg import kernels as entries_kernels
from snapimpute.linalg.backend import Backend
from snapimpute.linalg.tiled import Draw, Mapped, band_sums
from snapimpute.penalties import CellMap


class Within:
    """The part of a sample that falls into a block of rows of a matrix with this shape."""

    def __init__(self, sample: Sample, shape: tuple[int, int], start: int, rows: int) -> None:
        self.sample, self.shape, self.start, self.rows = sample, shape, start, rows

    def draw(self, _: tuple[int, int]) -> Draw:
        """Draw from the whole matrix, as the block counts its rows."""
        drawn = self.sample.draw(self.shape)
        bands = [slice((band.start - self.start) % band.step, self.rows, band.step) for band in drawn.bands]
        return drawn._replace(bands=bands)


def size_of(one: Any) -> int:
    """Bytes of a block, for Dask: it brings what is small to where the large is."""
    return 64 + sum(int(sizeof(value)) for value in vars(one).values())


for kind in (MatrixOperator, Observations):
    cast(Any, sizeof).register(kind, size_of)


# ---------------------------------------------------------------- operators
class BlockOperator(MatrixOperator):
    """A matrix of which each block of rows is an operator, where the block is; its ``tree`` makes that."""

    def __init__(self, backend: Any, tree: Any, shape: tuple[int, int], dtype: DTypeLike, error: float = 0.0) -> None:
        self._dask: Any = backend
        self.shape, self._dtype, self._error = shape, np.dtype(dtype), error
        self.built = Blocks(backend, backend.written(tree, keep=True, brief=True), backend.cut.rows, np.empty(0))

    @property
    def tree(self) -> Any:
        """Tree of the matrix, for a larger one."""
        return self.built.as_tree()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Property of all terms together."""
        return self._dtype

    @property
    def backend(self) -> Backend | None:
        """The cluster."""
        return cast(Backend, self._dask)

    @property
    def error(self) -> float:
        """Property of all terms together."""
        return self._error

    def matmat(self, B: Array) -> Array:
        """A·B, in blocks."""
        meta = np.empty((0, B.shape[1]), B.dtype)
        return cast(Array, self.built.then(matmat_of, self._dask.shared(B, again=False), keep=True, meta=meta))

    def rmatmat(self, C: Array) -> Array:
        """Aᵀ·C, a sum over the blocks."""
        found: Array = self._dask.total(rmatmat_of, self.built, C)
        return found

    def both(self, B: Array, C: Array) -> tuple[Array, Array]:
        """(A·B, Aᵀ·C) in one pass over each block."""
        once = self._dask.shared(B, again=False)
        pairs = self.built.then(both_of, once, C, keep=True, brief=True, meta=np.empty(0))
        forward: Any = pairs.then(itemgetter(0), keep=True, meta=np.empty((0, B.shape[1]), B.dtype))
        return forward, self._dask.total(itemgetter(1), pairs)


class BlockMapped(Mapped):
    """f(X) for a low-rank X and a map f of one real variable, by tiles of each block."""

    def __init__(self, backend: Any, factors: LowRank, tree: Any, error: float) -> None:
        super().__init__(factors, error)
        self._operator = BlockOperator(backend, tree, factors.shape, factors.dtype, error)

    @property
    def tree(self) -> Any:
        """Tree of the matrix, for a larger one."""
        return self._operator.tree

    def matmat(self, B: Array) -> Array:
        """f(X)·B."""
        return self._operator.matmat(B)

    def rmatmat(self, C: Array) -> Array:
        """f(X)ᵀ·C."""
        return self._operator.rmatmat(C)

    def both(self, B: Array, C: Array) -> tuple[Array, Array]:
        """Both in one pass."""
        return self._operator.both(B, C)


# ---------------------------------------------------------------- what is done to a block
def full(rows: int, columns: int, value: float, dtype: np.dtype[Any]) -> Array:
    """An array of one value."""
    return np.full((rows, columns), value, dtype)


def inner(x: Array, y: Array) -> Array:
    """xᵀ·y."""
    return x.T @ y


def added(parts: list[Any]) -> Any:
    """The sum of what several blocks gave."""
    first, *more = parts
    total = first.copy() if isinstance(first, np.ndarray) else first
    for part in more:
        total = total + part
    return total


def entries(left: Array, right: Array, rows: Any, cols: Any) -> Array:
    """Σ_k left[rows, k] right[cols, k]."""
    out = np.empty(len(rows), left.dtype)
    u, v, r, c = (np.ascontiguousarray(one) for one in (left, right, rows, cols))
    entries_kernels.sampled_product(u, v, r, c, out, 0, out.size)
    return out


def mapped_of(
    factors: LowRank, cell_map: CellFunction, kind: np.dtype[Any], sample: Any, error: float
) -> MappedLowRank:
    """f(X) of a block."""
    return MappedLowRank(factors, cell_map, tile_dtype=kind, sample=sample, error=error)


def matmat_of(operator: MatrixOperator, B: Array) -> Array:
    """A·B."""
    return operator.matmat(B)


def rmatmat_of(operator: MatrixOperator, C: Array) -> Array:
    """Aᵀ·C."""
    return operator.rmatmat(C)


def both_of(operator: MatrixOperator, B: Array, C: Array) -> tuple[Array, Array]:
    """Both."""
    return operator.both(B, C)


def sums_of_bands(factors: LowRank, cell_map: CellFunction, sample: Any) -> Any:
    """Arrays of different lengths, such that they can be added up."""
    sums = band_sums(factors, cell_map, sample)
    out = np.empty(len(sums), object)
    out[:] = sums
    return out


def applied(x: Array, cell_map: CellMap) -> Array:
    """Return what a map makes of a block."""
    out = x.copy()
    cell_map(out)
    return out


def stored(x: Array, path: Path) -> str:
    """Write a block; its digest."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(x), allow_pickle=False)
    write_atomically(path, buffer.getbuffer(), durable=True)
    return hashlib.sha256(buffer.getbuffer()).hexdigest()


def fetched(path: Path, digest: str) -> Array:
    """Read a block that was written."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{path} does not match its checksum, so it is damaged")
    out: Array = np.load(io.BytesIO(content), allow_pickle=False)
    return out
