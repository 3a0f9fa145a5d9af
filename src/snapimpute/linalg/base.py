"""Matrices known by their products: nothing of size m×n is stored."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array, Index
from snapimpute.data.observations import Compressed, Observations
from snapimpute.linalg import kernels
from snapimpute.linalg.backend import COLUMNS, ROWS, Backend, backend_of, full_beside, put_beside

MAX_DENSE_CELLS = 50_000_000
ENTRIES = 1 << 15
"""Observed cells of a part."""

_LANES = 256


class MatrixOperator(ABC):
    """An m×n matrix A known by A·B and Aᵀ·C, for blocks B and C of a few columns."""

    shape: tuple[int, int]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision that blocks should have; float64 by default."""
        return np.dtype(np.float64)

    @property
    def backend(self) -> Backend | None:
        """Backend that keeps the blocks; None is numpy's memory."""
        return None

    @property
    def error(self) -> float:
        """Error of the products, beyond rounding, against those of the matrix that the operator stands for.

        It is measured in the Frobenius norm, or on the part of the matrix that
        affects the next step.
        """
        return 0.0

    @abstractmethod
    def matmat(self, B: Array) -> Array:
        """A·B for an n×k block."""

    @abstractmethod
    def rmatmat(self, C: Array) -> Array:
        """Aᵀ·C for an m×k block."""

    def both(self, B: Array, C: Array) -> tuple[Array, Array]:
        """(A·B, Aᵀ·C), in one go where that is cheaper."""
        return self.matmat(B), self.rmatmat(C)

    @property
    def T(self) -> MatrixOperator:  # noqa: N802 - the name numpy gives it
        """The transposed operator."""
        return Transposed(self)

    def __add__(self, other: MatrixOperator) -> MatrixOperator:
        return Sum((self, other))

    def to_dense(self, max_cells: int = MAX_DENSE_CELLS) -> Array:
        """Return the matrix as an array; refused above ``max_cells`` cells."""
        m, n = self.shape
        if m * n > max_cells:
            raise ValueError(
                f"a dense {m}×{n} array would hold {m * n:,} cells ({8 * m * n / 2**30:.1f} GiB), "
                f"more than max_cells={max_cells:,}: ask for single entries, or raise max_cells"
            )
        return self._dense()

    def _dense(self) -> Array:
        return self.matmat(put_beside(self, np.eye(self.shape[1], dtype=self.dtype), COLUMNS))


class Composed(MatrixOperator):
    """An operator made of others, its ``parts``."""

    parts: tuple[MatrixOperator, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Widest precision of the parts."""
        return np.result_type(*(part.dtype for part in self.parts))

    @property
    def backend(self) -> Backend | None:
        """Backend of the parts."""
        return self.parts[0].backend

    @property
    def error(self) -> float:
        """Sum of the errors of the parts."""
        return math.fsum(part.error for part in self.parts)


@dataclass(frozen=True)
class Transposed(Composed):
    """Aᵀ of an operator A."""

    operator: MatrixOperator

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Shape of Aᵀ."""
        return self.operator.shape[1], self.operator.shape[0]

    @property
    def parts(self) -> tuple[MatrixOperator, ...]:  # type: ignore[override]
        """A alone."""
        return (self.operator,)

    @property
    def T(self) -> MatrixOperator:  # noqa: N802
        """A itself."""
        return self.operator

    def matmat(self, B: Array) -> Array:
        """Aᵀ·B."""
        return self.operator.rmatmat(B)

    def rmatmat(self, C: Array) -> Array:
        """A·C."""
        return self.operator.matmat(C)


class Sum(Composed):
    """A₁ + A₂ + … of operators of one shape."""

    def __init__(self, terms: tuple[MatrixOperator, ...]) -> None:
        shapes = {t.shape for t in terms}
        if len(shapes) != 1:
            raise ValueError(f"operators of one shape can be added, got shapes {sorted(shapes)}")
        self.parts, self.shape = terms, terms[0].shape

    def matmat(self, B: Array) -> Array:
        """Σ A_i·B."""
        out = self.parts[0].matmat(B)
        for term in self.parts[1:]:
            out += term.matmat(B)
        return out

    def rmatmat(self, C: Array) -> Array:
        """Σ A_iᵀ·C."""
        out = self.parts[0].rmatmat(C)
        for term in self.parts[1:]:
            out += term.rmatmat(C)
        return out

    def both(self, B: Array, C: Array) -> tuple[Array, Array]:
        """Σ over the terms."""
        forward, backward = self.parts[0].both(B, C)
        for term in self.parts[1:]:
            more_forward, more_backward = term.both(B, C)
            forward += more_forward
            backward += more_backward
        return forward, backward


@dataclass(frozen=True)
class Scaled(Composed):
    """c·A of an operator A."""

    factor: float
    operator: MatrixOperator

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Shape of A."""
        return self.operator.shape

    @property
    def parts(self) -> tuple[MatrixOperator, ...]:  # type: ignore[override]
        """A alone."""
        return (self.operator,)

    @property
    def error(self) -> float:
        """|c| times the error of A."""
        return abs(self.factor) * self.operator.error

    def matmat(self, B: Array) -> Array:
        """c·(A·B)."""
        return self.operator.matmat(self.factor * B)

    def rmatmat(self, C: Array) -> Array:
        """c·(Aᵀ·C)."""
        return self.operator.rmatmat(self.factor * C)

    def both(self, B: Array, C: Array) -> tuple[Array, Array]:
        """(c·A·B, c·Aᵀ·C)."""
        return self.operator.both(self.factor * B, self.factor * C)


@dataclass(frozen=True, eq=False)
class Dense(MatrixOperator):
    """A stored matrix, for the few methods that need one."""

    values: Array

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """(m, n)."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the array."""
        return self.values.dtype

    def matmat(self, B: Array) -> Array:
        """A·B."""
        return self.values @ B

    def rmatmat(self, C: Array) -> Array:
        """Aᵀ·C."""
        return self.values.T @ C


@dataclass(frozen=True, eq=False)
class ColumnGroups(Composed):
    """A matrix in groups of columns: part i holds the columns ``cols[i]``; together they hold all."""

    parts: tuple[MatrixOperator, ...]
    cols: tuple[Index, ...]

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """(m, n)."""
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    @property
    def error(self) -> float:
        """Error of all groups together."""
        return math.hypot(*(part.error for part in self.parts))

    def matmat(self, B: Array) -> Array:
        """Σ over the groups."""
        out = full_beside(self, (self.shape[0], B.shape[1]), 0, B.dtype, ROWS)
        for operator, cols in zip(self.parts, self.cols, strict=True):
            out += operator.matmat(B[cols])
        return out

    def rmatmat(self, C: Array) -> Array:
        """Group by group."""
        out = full_beside(self, (self.shape[1], C.shape[1]), 0, C.dtype, COLUMNS)
        for operator, cols in zip(self.parts, self.cols, strict=True):
            out[cols] = operator.rmatmat(C)
        return out

    def both(self, B: Array, C: Array) -> tuple[Array, Array]:
        """Group by group."""
        forward = full_beside(self, (self.shape[0], B.shape[1]), 0, B.dtype, ROWS)
        backward = full_beside(self, (self.shape[1], C.shape[1]), 0, C.dtype, COLUMNS)
        for operator, cols in zip(self.parts, self.cols, strict=True):
            part, backward[cols] = operator.both(B[cols], C)
            forward += part
        return forward, backward


class Sparse(MatrixOperator):
    """The matrix with the given values on the observed cells, in the stored order, and 0 elsewhere.

    Examples
    --------
    >>> A = Sparse(Observations.from_dense([[1.0, np.nan], [2.0, 3.0]]))
    >>> A.matmat(np.eye(2))
    array([[1., 0.], [2., 3.]])
    """

    def __init__(self, observations: Observations, values: Array | None = None) -> None:
        self.observations = observations
        self.values = observations.values if values is None else values
        if self.values.shape != observations.values.shape:
            raise ValueError(f"expected {len(observations)} values, got shape {self.values.shape}")
        self.shape = observations.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the values."""
        return self.values.dtype

    def matmat(self, B: Array) -> Array:
        """A·B, a sum over the entries of each row."""
        return _lanes_times(self.observations.by_row, self.values, B)

    def rmatmat(self, C: Array) -> Array:
        """Aᵀ·C, a sum over the entries of each column."""
        return _lanes_times(self.observations.by_col, self._values_by_col, C)

    @cached_property
    def _values_by_col(self) -> Array:
        """Values in the order of the columns: gathered once for all products."""
        order = self.observations.by_col.order
        if order is None:
            return self.values
        out = np.empty_like(self.values)
        run_parts(
            lambda start, stop: self.values.take(order[start:stop], out=out[start:stop], mode="clip"),
            cut(out.size, ENTRIES),
            operations=10.0 * out.size,
        )
        return out

    def fit_rows(self, V: Array, ridge: float = 1e-10) -> Array:
        """Return the m×r array U that minimises Σ (a_ij − ⟨u_i, v_j⟩)² over the entries.

        A row with fewer than r entries gets, nearly, the shortest of its
        solutions: ``ridge``, relative to the diagonal of its normal matrix,
        decides between them. A row without entries gets 0.
        """
        return _lanes_fitted(self.observations.by_row, self.values, V, ridge)

    def fit_cols(self, U: Array, ridge: float = 1e-10) -> Array:
        """Return the n×r array V that minimises Σ (a_ij − ⟨u_i, v_j⟩)² over the entries, as `fit_rows`."""
        return _lanes_fitted(self.observations.by_col, self._values_by_col, U, ridge)


def sparse(observations: Observations, values: Array) -> MatrixOperator:
    """Return the matrix with the given values on the observed cells and 0 elsewhere, where the values live."""
    backend = backend_of(values)
    if backend is None:
        return Sparse(observations, values)
    there: MatrixOperator = backend.sparse(observations, values)
    return there


def _lanes_times(lanes: Compressed, data: Array, block: Array) -> Array:
    indptr, indices, _ = lanes
    out = np.empty((indptr.size - 1, block.shape[1]), block.dtype)
    block = np.ascontiguousarray(block)
    run_parts(
        lambda start, stop: kernels.lanes_product(indptr, indices, data, block, out, start, stop),
        cut(indptr.size - 1, _LANES),
        operations=2.0 * data.size * block.shape[1],
    )
    return out


def _lanes_fitted(lanes: Compressed, data: Array, block: Array, ridge: float) -> Array:
    indptr, indices, _ = lanes
    rank = block.shape[1]
    out = np.empty((indptr.size - 1, rank), block.dtype)
    block = np.ascontiguousarray(block)
    run_parts(
        lambda start, stop: kernels.lanes_least_squares(indptr, indices, data, block, ridge, out, start, stop),
        cut(indptr.size - 1, _LANES),
        operations=float(data.size * rank**2 + out.shape[0] * rank**3 / 3),
    )
    return out
