"""Features of rows and columns: which cells are known, and what a user brings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations

MASK_FEATURES = 50
"""Singular vectors of the mask that are features."""


@dataclass(frozen=True, eq=False)
class Features:
    """Features of the units of one side; the columns of a group share the precision of their slopes.

    Attributes
    ----------
    values : array of shape (units, columns)
    sizes : tuple of int
        Columns of each group.
    """

    values: Array
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, units: int, *groups: Array) -> Features:
        """Put groups of columns side by side; those without a column are dropped."""
        some = [group.astype(np.float32) for group in groups if group.shape[1]]
        values = np.hstack([np.zeros((units, 0), np.float32), *some])
        return cls(values, tuple(group.shape[1] for group in some))

    def rotated(self) -> tuple[Array, Array, tuple[slice, ...]]:
        """Rotate each group to orthogonal columns, and drop those that say nothing.

        The prior of the slopes is the same in any rotation. Returns the columns, the
        rotation (columns before × columns after), and where each group stands.
        """
        found, groups, start, stop = [], list[slice](), 0, 0
        turn = np.zeros((self.values.shape[1], self.values.shape[1]))
        for size in self.sizes:
            own = self.values[:, start : start + size]
            rotated, part = orthogonal(own)
            turn[start : start + size, stop : stop + part.shape[1]] = part
            groups.append(slice(stop, stop + part.shape[1]))
            found.append(rotated)
            start, stop = start + size, stop + part.shape[1]
        columns = np.hstack([np.zeros((len(self.values), 0), np.float32), *found])
        return columns, turn[:, :stop], tuple(groups)


@stored("posterior mask", "weights", "right")
@dataclass(frozen=True, eq=False)
class MaskMap:
    """Turns the known cells of any rows into features: a weight for each column, and its right singular vector."""

    weights: Array
    right: Array

    def features(self, observations: Observations) -> Array:
        """Features of the rows of a table with the same columns."""
        rows, cols, m = observations.rows, observations.cols, observations.shape[0]
        values = np.maximum(np.bincount(rows, minlength=m), 1.0)[rows] ** -0.25 * self.weights[cols]
        mask = csr_array((values, (rows, cols)), shape=observations.shape)
        return np.asarray(mask @ self.right, dtype=np.float32)


def mask_features(
    observations: Observations, count: int = MASK_FEATURES, seed: int = 0
) -> tuple[Features, Features, MaskMap]:
    """Features of rows and of columns: leading singular vectors of the scaled 0/1 matrix of the known cells.

    Each entry is divided by the fourth roots of the cells known in its row and
    column; vectors are multiplied by the singular values. Only cells that are
    fitted may be given: the mask tells of held-out cells, too.
    """
    (m, n), rows, cols = observations.shape, observations.rows, observations.cols
    weights = [np.maximum(np.bincount(at, minlength=size), 1.0) ** -0.25 for at, size in ((rows, m), (cols, n))]
    mask = csr_array((weights[0][rows] * weights[1][cols], (rows, cols)), shape=(m, n))
    count = max(min(count, min(m, n) - 1), 0)
    if count == 0:
        return Features.of(m), Features.of(n), MaskMap(weights[1], np.zeros((n, 0)))
    start = np.random.default_rng(seed).standard_normal(min(m, n))
    left, sizes, right = svds(mask, count, v0=start)
    return Features.of(m, left * sizes), Features.of(n, right.T * sizes), MaskMap(weights[1], right.T.copy())


def no_features(shape: tuple[int, int]) -> tuple[Features, Features, MaskMap]:
    """Features of nobody."""
    m, n = shape
    return Features.of(m), Features.of(n), MaskMap(np.ones(n), np.zeros((n, 0)))


def orthogonal(features: Array) -> tuple[Array, NDArray[np.float64]]:
    """Rotate features to columns that are orthogonal, and drop those that say nothing; the rotation comes second."""
    gram = features.T.astype(np.float64) @ features
    sizes, turn = np.linalg.eigh(gram)
    keep = sizes > 1e-9 * max(sizes.max(initial=0.0), 1e-300)
    return (features @ turn[:, keep]).astype(np.float32), turn[:, keep]
