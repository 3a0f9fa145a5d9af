"""Features of rows and columns: which cells are known, and what a user brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, svds

from snapimpute.base.files import stored
from snapimpute.base.types import Array, Index
from snapimpute.data.observations import Observations
from snapimpute.posterior._given import Given, Sides

MASK_FEATURES = 50
"""Singular vectors of the mask that are features."""

COLD_RIDGE = 10.0
"""Ridge of the regression that expects the mask's features of units without cells."""

PRINCIPAL = 20
"""Principal components of the features given that a full covariance takes, at most."""


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

    def repeated(self, which: NDArray[Any]) -> Features:
        """Give the features of some units, each as often as it is asked for."""
        return Features(self.values[which], self.sizes)

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


@stored("posterior mask", "weights", "vectors")
@dataclass(frozen=True, eq=False)
class MaskMap:
    """Turns the known cells of units into features: a weight and a singular vector of each unit across."""

    weights: Array
    vectors: Array

    @classmethod
    def none(cls, across: int) -> MaskMap:
        """Return the map that makes no feature."""
        return cls(np.ones(across), np.zeros((across, 0)))

    def features(self, units: Index, across: Index, count: int) -> Array:
        """Features of ``count`` units by the positions of their known cells."""
        degrees = np.maximum(np.bincount(units, minlength=count), 1.0)
        values = degrees[units] ** -0.25 * self.weights[across]
        mask = csr_array((values, (units, across)), shape=(count, self.weights.size))
        return np.asarray(mask @ self.vectors)


class NoTimeError(Exception):
    """The time is over before the features of the mask are there."""


def mask_maps(
    observations: Observations,
    count: int = MASK_FEATURES,
    seed: int = 0,
    over: Callable[[], bool] = lambda: False,
) -> tuple[MaskMap, MaskMap]:
    """Maps of rows and of columns: leading singular vectors of the scaled 0/1 matrix of the known cells.

    Each entry is divided by the fourth roots of the cells known in its row and
    column; features come out as vectors times singular values. Only cells that are
    fitted may be given: the mask tells of held-out cells, too. Without any features if ``over`` is true before.
    """
    (m, n), rows, cols = observations.shape, observations.rows, observations.cols
    weights = [np.maximum(np.bincount(at, minlength=size), 1.0) ** -0.25 for at, size in ((rows, m), (cols, n))]
    mask = csr_array((weights[0][rows] * weights[1][cols], (rows, cols)), shape=(m, n))
    count = max(min(count, min(m, n) - 1), 0)
    if count == 0:
        return MaskMap(weights[1], np.zeros((n, 0))), MaskMap(weights[0], np.zeros((m, 0)))
    start = np.random.default_rng(seed).standard_normal(min(m, n))
    try:
        left, sizes, right = svds(_guarded(mask, over), count, v0=start)
    except NoTimeError:
        return MaskMap.none(n), MaskMap.none(m)
    some = sizes > 1e-6 * sizes.max()  # ARPACK fills the others with noise, and turns signs, as no seed decides
    signs = np.where(right[some].sum(axis=1) < 0, -1.0, 1.0)
    left, right = left[:, some] * signs, right[some] * signs[:, None]
    return MaskMap(weights[1], right.T.copy()), MaskMap(weights[0], left.copy())


@stored("posterior side", "mask", "given", "cold", "weights")
@dataclass(frozen=True, eq=False)
class SideMap:
    """Everything that makes features of the units of one side.

    Attributes
    ----------
    mask : MaskMap
    given : Given
        What a user brought.
    cold : array of shape (1 + columns given, features of the mask)
        Makes the mask's features of a new unit without any known cell from those given.
    weights : array of shape (columns given, principal components)
        Make the features of a full covariance of those given.
    """

    mask: MaskMap
    given: Given
    cold: Array
    weights: Array

    @classmethod
    def learn(cls, mask: MaskMap, given: Given, units: Index, across: Index) -> SideMap:
        """Learn what to expect of new units without known cells, from those that have some.

        Units count by their known cells: cells that are asked for are taken to be spread over the units as the
        known ones are.
        """
        values, counts = mask.features(units, across, given.units), np.bincount(units, minlength=given.units)
        design = _with_ones(given)
        weighted = design.T * (counts / max(counts.mean(), 1e-9))
        ridge = np.full(design.shape[1], COLD_RIDGE)
        ridge[0] = 1e-9
        cold = np.linalg.solve(weighted @ design + np.diag(ridge), weighted @ values)
        return cls(mask, given, cold, given.principal(PRINCIPAL))

    def features(self, units: Index, across: Index) -> Features:
        """Features of the units by the positions of their known cells, and by what is given of them."""
        return Features.of(self.given.units, self.mask.features(units, across, self.given.units), *self.given.columns)

    def new_features(self, units: Index, across: Index) -> Features:
        """Features of units that were not fitted.

        A film of the table that nobody rated is one that nobody cares for, and the mask says so. Of a new film
        without ratings it says nothing: its mask features are those to expect.
        """
        found, count = self.features(units, across), self.given.units
        cold = np.bincount(units, minlength=count) == 0
        return Features(np.where(cold[:, None], self.cold_features().values, found.values), found.sizes)

    def cold_features(self) -> Features:
        """Features that the units would have if none of their cells were known."""
        return Features.of(self.given.units, _with_ones(self.given) @ self.cold, *self.given.columns)

    def principal(self) -> Array:
        """Features for a full covariance."""
        return self.given.values @ self.weights

    def of(self, given: Any, units: int, labels: Any) -> SideMap:
        """Return the map with what is given of other units."""
        return replace(self, given=self.given.of(given, units, labels))

    def take(self, which: NDArray[Any]) -> SideMap:
        """Return the map with some of the units."""
        return replace(self, given=self.given.take(which))


def side_maps(
    observations: Observations, given: Sides, *, mask: bool, seed: int, over: Callable[[], bool] = lambda: False
) -> tuple[SideMap, SideMap]:
    """Learn the maps of rows and columns from the cells that are fitted."""
    (m, n), rows, cols = observations.shape, observations.rows, observations.cols
    maps = mask_maps(observations, seed=seed, over=over) if mask else (MaskMap.none(n), MaskMap.none(m))
    return SideMap.learn(maps[0], given[0], rows, cols), SideMap.learn(maps[1], given[1], cols, rows)


def _guarded(mask: csr_array, over: Callable[[], bool]) -> LinearOperator:
    """Let products with a matrix end with an error once the time is over."""
    turned = mask.T.tocsr()

    def times(matrix: csr_array) -> Callable[[Array], Array]:
        def product(vectors: Array) -> Array:
            if over():
                raise NoTimeError
            return np.asarray(matrix @ vectors)

        return product

    ahead, back = times(mask), times(turned)
    return LinearOperator(mask.shape, ahead, back, ahead, mask.dtype, back)


def _with_ones(given: Given) -> Array:
    return np.hstack([np.ones((given.units, 1)), given.values])


def orthogonal(features: Array) -> tuple[Array, NDArray[np.float64]]:
    """Rotate features to columns that are orthogonal, and drop those that say nothing; the rotation comes second."""
    gram = features.T.astype(np.float64) @ features
    sizes, turn = np.linalg.eigh(gram)
    keep = sizes > 1e-9 * max(sizes.max(initial=0.0), 1e-300)
    return (features @ turn[:, keep]).astype(np.float32), turn[:, keep]
