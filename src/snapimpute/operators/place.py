"""Where tall arrays live, and what has to be done to them there.

Arrays as long as the table is high or wide, or as there are observations, live
where the backend keeps them; arrays of rank by rank, and singular values, are
always numpy's. A tall array of another place follows numpy's own protocol
(``__array_ufunc__``, ``__array_function__``), so that formulas are written once,
with numpy's names; its reductions give numpy's numbers and small arrays. What
is compiled, or has to know where it runs, goes through its `place`. A place may
keep arrays of one side, such as all that belong to columns, in numpy's memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from snapimpute.observations import Observations
from snapimpute.types import Array, CellMap

# Operators are built on places: their types are not known here.
LowRank: TypeAlias = Any
MatrixOperator: TypeAlias = Any
Sample: TypeAlias = Any


class Need(NamedTuple):
    """How good a matrix has to be, from whoever takes a step with it.

    ``error`` is allowed in the Frobenius norm. Singular values up to
    ``threshold`` will be set to 0, and the step will mostly be felt in the
    spaces of the orthonormal ``left`` and ``right``.
    """

    error: float = 0.0
    threshold: float = 0.0
    left: Array | None = None
    right: Array | None = None


EXACT = Need()

ROWS, COLUMNS, OBSERVED = 0, 1, 2
"""Sides: an array has as many rows as the table, or as it has columns, or as there are observations."""


class Place(ABC):
    """Another memory than numpy's, and the products there."""

    name: str
    """As a status says it, for instance "torch on cuda:0"."""

    @property
    def kind(self) -> str:
        """All of a place that an answer may depend on, to the last bit."""
        return self.name

    def free_memory(self) -> int | None:
        """Bytes that are free there; None where nobody knows, or where it is that of this machine."""
        return None

    def guarded(self, work: Callable[[], Any]) -> Any:
        """work(), one iteration of a solver say; a place that may lose something meanwhile makes up for it."""
        return work()

    def stored(self, array: Any, path: Path) -> list[Any] | None:
        """Write an array from where it is, if this machine may not be able to hold it; what `fetched` has to know."""
        return None

    def fetched(self, path: Path, *known: Any) -> Any:
        """An array that `stored` has written."""
        raise ValueError(f"no arrays are read from {path} by {self.name}")

    @abstractmethod
    def put(self, array: Any, side: int) -> Any:
        """A copy of a numpy array there; of which ``side`` it is, `ROWS`, `COLUMNS` or `OBSERVED`."""

    @abstractmethod
    def full(self, shape: tuple[int, int], value: float, dtype: DTypeLike, side: int) -> Array:
        """An array of one value there."""

    @abstractmethod
    def observations(self, observations: Observations) -> Observations:
        """The same observations with all their arrays there."""

    @abstractmethod
    def times(self, tall: Array, small: Array) -> Array:
        """tall·small."""

    @abstractmethod
    def inner(self, tall: Array, other: Array) -> Array:
        """tallᵀ·other, an array of numpy."""

    @abstractmethod
    def sampled_product(self, left: Array, right: Array, rows: Any, cols: Any) -> Array:
        """Σ_k left[rows, k] right[cols, k]; numpy's if the indices are."""

    @abstractmethod
    def sparse(self, observations: Observations, values: Array) -> MatrixOperator:
        """The matrix with the given values on the observed cells and 0 elsewhere."""

    def joined(self, operator: MatrixOperator) -> MatrixOperator:
        """The same operator, made ready for several products."""
        return operator

    @abstractmethod
    def mapped(self, factors: LowRank, cell_map: CellMap, need: Need, sample: Sample | None) -> MatrixOperator:
        """f(X) as an operator, as good as is needed."""

    @abstractmethod
    def cell_sum(self, factors: LowRank, cell_map: CellMap, sample: Sample | None) -> tuple[float, float]:
        """Σ f(X_ij) over all cells as a sample knows it, and its standard error."""

    @abstractmethod
    def take(self, table: Any, index: Any) -> Any:
        """table[index] of an array of numpy and indices that live there."""

    @abstractmethod
    def apply(self, kernel: str, x: Array, *arguments: Any) -> None:
        """Apply a compiled map of one real variable, known by the name of its kernel, in place."""


def place_of(array: Any) -> Place | None:
    """Where an array, or an operator's blocks, live; None is numpy's memory."""
    found: Place | None = getattr(array, "place", None)
    return found


def to_host(array: Any) -> Any:
    """The array as numpy's, itself if it is."""
    return array if place_of(array) is None else array.to_host()


def put_beside(like: Any, array: Any, side: int) -> Any:
    """A numpy array where an operator, or another array, lives."""
    place = place_of(like)
    return array if place is None else place.put(array, side)


def take_beside(index: Any, table: Any) -> Any:
    """table[index], where the indices live."""
    place = place_of(index)
    return table[index] if place is None else place.take(table, index)


def full_beside(like: Any, shape: tuple[int, int], value: float, dtype: DTypeLike, side: int) -> Array:
    """One value everywhere, where an operator, or another array, lives."""
    place = place_of(like)
    return np.full(shape, value, dtype) if place is None else place.full(shape, value, dtype, side)
