"""Memory of tall arrays, and the work that is done there.

A tall array has a row for each row, column or observation of the table, and
lives where the backend keeps it. Arrays of rank by rank, and singular values,
are always numpy's. A tall array of another backend follows numpy's protocol
(``__array_ufunc__``, ``__array_function__``), so that every formula is written
once, with numpy's names; its reductions return numpy's numbers and small arrays.
Compiled work, and work that depends on the device, goes through its `backend`. A
backend may keep the arrays of one side, columns for instance, in numpy's memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from snapimpute.base.types import Array, CellFunction
from snapimpute.data.observations import Observations

# Operators and maps are built on this module or beside it, so their types are not known here.
CellMap: TypeAlias = Any
LowRank: TypeAlias = Any
MatrixOperator: TypeAlias = Any
Sample: TypeAlias = Any


class Accuracy(NamedTuple):
    """Accuracy that a solver step requires of an operator.

    ``error`` is the largest error allowed, in the Frobenius norm. The step sets
    singular values up to ``threshold`` to 0, and mostly acts in the spaces of the
    orthonormal ``left`` and ``right``.
    """

    error: float = 0.0
    threshold: float = 0.0
    left: Array | None = None
    right: Array | None = None


EXACT = Accuracy()

ROWS, COLUMNS, OBSERVED = 0, 1, 2
"""Sides: an array has a row for each row, each column or each observation of the table."""


class Backend(ABC):
    """A memory other than numpy's, and the products computed there."""

    name: str
    """Name in messages, for instance "torch on cuda:0"."""

    @property
    def kind(self) -> str:
        """Everything about the backend that may change an answer, to the last bit."""
        return self.name

    def free_memory(self) -> int | None:
        """Bytes that are free there; None if unknown, or if it is the memory of this machine."""
        return None

    def guarded(self, work: Callable[[], Any]) -> Any:
        """Call ``work``, an iteration of a solver say; a backend that may lose data meanwhile restores it."""
        return work()

    def stored(self, array: Any, path: Path) -> list[Any] | None:
        """Write an array that may be too large for this machine; return the arguments that `fetched` needs."""
        return None

    def fetched(self, path: Path, *known: Any) -> Any:
        """Read an array that `stored` has written."""
        raise ValueError(f"no arrays are read from {path} by {self.name}")

    @abstractmethod
    def put(self, array: Any, side: int) -> Any:
        """Copy a numpy array there; its ``side`` is `ROWS`, `COLUMNS` or `OBSERVED`."""

    @abstractmethod
    def full(self, shape: tuple[int, int], value: float, dtype: DTypeLike, side: int) -> Array:
        """Make an array of one value there."""

    @abstractmethod
    def observations(self, observations: Observations) -> Observations:
        """Return the same observations with all their arrays there."""

    @abstractmethod
    def times(self, tall: Array, small: Array) -> Array:
        """tall·small."""

    @abstractmethod
    def inner(self, tall: Array, other: Array) -> Array:
        """tallᵀ·other, an array of numpy."""

    @abstractmethod
    def sampled_product(self, left: Array, right: Array, rows: Any, cols: Any) -> Array:
        """Σ_k left[rows, k] right[cols, k], where the indices live."""

    @abstractmethod
    def sparse(self, observations: Observations, values: Array) -> MatrixOperator:
        """Return the matrix with the given values on the observed cells and 0 elsewhere."""

    def joined(self, operator: MatrixOperator) -> MatrixOperator:
        """Return the same operator, prepared for several products."""
        return operator

    @abstractmethod
    def mapped(
        self, factors: LowRank, cell_map: CellFunction, accuracy: Accuracy, sample: Sample | None
    ) -> MatrixOperator:
        """Return f(X) as an operator, of the accuracy needed."""

    @abstractmethod
    def cell_sum(self, factors: LowRank, cell_map: CellFunction, sample: Sample | None) -> tuple[float, float]:
        """Estimate Σ f(X_ij) over all cells from a sample; return it and its standard error."""

    @abstractmethod
    def take(self, table: Any, index: Any) -> Any:
        """Return ``table[index]`` of a numpy array and indices that live there."""

    @abstractmethod
    def apply(self, cell_map: CellMap, x: Array) -> None:
        """Apply a map of one real variable in place."""


def backend_of(array: Any) -> Backend | None:
    """Return the backend of an array, or of an operator's blocks; None is numpy's memory."""
    found: Backend | None = getattr(array, "backend", None)
    return found


def to_host(array: Any) -> Any:
    """Return the array in numpy's memory, itself if it is there."""
    return array if backend_of(array) is None else array.to_host()


def put_beside(like: Any, array: Any, side: int) -> Any:
    """Copy a numpy array to the memory of an operator or another array."""
    backend = backend_of(like)
    return array if backend is None else backend.put(array, side)


def take_beside(index: Any, table: Any) -> Any:
    """Return ``table[index]``, where the indices live."""
    backend = backend_of(index)
    return table[index] if backend is None else backend.take(table, index)


def full_beside(like: Any, shape: tuple[int, int], value: float, dtype: DTypeLike, side: int) -> Array:
    """Make an array of one value in the memory of an operator or another array."""
    backend = backend_of(like)
    return np.full(shape, value, dtype) if backend is None else backend.full(shape, value, dtype, side)
