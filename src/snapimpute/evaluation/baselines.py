"""Baselines that any completion has to beat: one number for all cells, or one for each row and column.

`fit` makes a baseline from observations, and `entries` gives its estimates at
any cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Index
from snapimpute.data.checks import check_cells
from snapimpute.data.observations import Observations

__all__ = ["ConstantMean", "DampedBiases", "Mode"]


@dataclass(frozen=True)
class ConstantMean:
    """Estimate every cell by the mean of the observed values, the constant with the least squared error.

    Examples
    --------
    >>> obs = Observations.from_dense([[1, np.nan], [2, 5]])
    >>> baseline = ConstantMean.fit(obs)
    >>> baseline.entries([0, 1], [1, 1])
    array([2.67, 2.67])
    """

    mean: float
    shape: tuple[int, int]

    @classmethod
    def fit(cls, observations: Observations) -> ConstantMean:
        """Take the mean of the observed values."""
        return cls(float(observations.values.mean()), observations.shape)

    def entries(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.float64]:
        """Return the estimates at the given cells."""
        return np.full(check_cells(rows, cols, self.shape)[0].size, self.mean)


@dataclass(frozen=True)
class Mode:
    """Fill every cell with the most frequent symbol, the constant that is right most often.

    Of equally frequent symbols the smallest is taken.

    Examples
    --------
    >>> Mode.fit(Observations.from_dense([[1, np.nan], [5, 5]])).symbol
    5.0
    """

    symbol: float
    shape: tuple[int, int]

    @classmethod
    def fit(cls, observations: Observations) -> Mode:
        """Count the observed symbols."""
        symbols, counts = np.unique(observations.values, return_counts=True)
        return cls(float(symbols[np.argmax(counts)]), observations.shape)

    def entries(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.float64]:
        """Return the estimates at the given cells."""
        return np.full(check_cells(rows, cols, self.shape)[0].size, self.symbol)


@dataclass(frozen=True, eq=False)
class DampedBiases:
    """Estimate μ + b_i + c_j: the mean, plus a bias for each row and each column.

    The biases solve, by alternating damped means,

        min over b, c    Σ_Ω (o_ij − μ − b_i − c_j)² + d_r Σ b_i² + d_c Σ c_j²

    with μ the mean of the observed values. As a matrix the estimate has rank 2.

    Parameters
    ----------
    mean : float
    row_biases : array of shape (m,)
    col_biases : array of shape (n,)
        The bias of a row or column without any observation is 0.

    Examples
    --------
    >>> obs = Observations.from_dense([[1, 3], [3, 5], [2, np.nan]])
    >>> baseline = DampedBiases.fit(obs, damping_rows=0.1, damping_cols=0.1)
    >>> baseline.entries([2], [1])
    array([3.9])
    """

    mean: float
    row_biases: NDArray[np.float64]
    col_biases: NDArray[np.float64]

    @classmethod
    def fit(
        cls,
        observations: Observations,
        *,
        damping_rows: float = 5.0,
        damping_cols: float = 5.0,
        max_sweeps: int = 20,
        tol: float = 1e-4,
    ) -> DampedBiases:
        """Fit by alternating over columns and rows, columns first.

        Parameters
        ----------
        observations : Observations
        damping_rows, damping_cols : float
            Pseudo-count: so many average observations are added to each row or
            column. 0 means no damping, infinity no bias.
        max_sweeps : int
        tol : float
            Stop when no bias moves by more than `tol` times the standard
            deviation of the values in a sweep. The sweeps converge fast unless the damping is close to 0.
        """
        for name, damping in (("damping_rows", damping_rows), ("damping_cols", damping_cols)):
            if not damping >= 0:
                raise ArgumentError.must(name, damping, "be a number, 0 or larger")
        if max_sweeps < 1 or not tol >= 0:
            raise ValueError(f"max_sweeps must be at least 1 and tol at least 0, got {max_sweeps!r} and {tol!r}")
        rows, cols, (m, n) = observations.rows, observations.cols, observations.shape
        mean = float(observations.values.mean())
        centred = observations.values - mean
        row_weight = _damped_counts(rows, m, damping_rows)
        col_weight = _damped_counts(cols, n, damping_cols)
        b, c = alternated(
            lambda b: np.bincount(cols, centred - b[rows], n) / col_weight,
            lambda c: np.bincount(rows, centred - c[cols], m) / row_weight,
            (np.zeros(m), np.zeros(n)),
            max_sweeps,
            tol * float(centred.std()),
        )
        b.flags.writeable = c.flags.writeable = False
        return cls(mean, b, c)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.row_biases.size, self.col_biases.size

    def entries(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.float64]:
        """Return the estimates at the given cells."""
        r, c = check_cells(rows, cols, self.shape)
        estimates: NDArray[np.float64] = self.mean + self.row_biases[r] + self.col_biases[c]
        return estimates


def alternated(
    columns: Callable[[Any], Any], rows: Callable[[Any], Any], start: tuple[Any, Any], max_sweeps: int, least: float
) -> tuple[Any, Any]:
    """Fit row and column biases in turn, each given the other, until none moves by more than ``least``."""
    b, c = start
    for _ in range(max_sweeps):
        before = b, c
        c = columns(b)
        b = rows(c)
        if max(np.linalg.norm(b - before[0], np.inf), np.linalg.norm(c - before[1], np.inf)) <= least:
            break
    return b, c


def _damped_counts(index: Index, size: int, damping: float) -> NDArray[np.float64]:
    counts = np.bincount(index, minlength=size) + float(damping)
    return np.where(counts > 0, counts, 1.0)  # no observation, no damping: 0 / 1, a bias of 0
