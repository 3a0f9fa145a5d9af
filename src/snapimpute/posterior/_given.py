"""Features that a user brought for the units of one side of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.feature_map import FeatureMap
from snapimpute.data.features import own_labels, read_features
from snapimpute.data.observations import Observations

Lane = Literal["row", "column"]


@stored("posterior given features", "map", "columns", "units", "lane")
@dataclass(frozen=True, eq=False)
class Given:
    """Features of the units of one side as numbers, and the map that made these; without any, the map is empty.

    Attributes
    ----------
    map : FeatureMap
    columns : tuple of arrays of shape (units, columns)
        Those of each block; 0 says nothing.
    units : int
    lane : {"row", "column"}
    """

    map: FeatureMap
    columns: tuple[Array, ...]
    units: int
    lane: Lane

    @classmethod
    def learn(cls, given: Any, units: int, labels: Any, lane: Lane) -> Given:
        """Learn the map from what is given of the units that are fitted; None is nothing."""
        argument = f"{lane}_features"
        if given is None:
            return cls(FeatureMap((), (), argument), (), units, lane)
        table = read_features(given, units, own_labels(labels), argument, lane)
        found = FeatureMap.learn(table)
        return cls(found, found.encode(table), units, lane)

    def __bool__(self) -> bool:
        return bool(self.map.blocks)

    def of(self, given: Any, units: int, labels: Any) -> Given:
        """Return other units by the same map; of None nothing is known."""
        if given is None:
            return Given(self.map, self.map.nothing(units), units, self.lane)
        argument = self.map.argument
        if not self:
            told = f"{argument} was not given to the fit, which has no use for it now: leave it out, or fit again"
            raise ArgumentError(argument, type(given).__name__, told)
        table = read_features(given, units, own_labels(labels), argument, self.lane)
        return Given(self.map, self.map.encode(table), units, self.lane)

    def grown(self, given: Any, units: int, labels: Any) -> Given:
        """Return these units, followed by others until there are so many."""
        labels = None if own_labels(labels) is None else labels[self.units :]
        more = self.of(given, units - self.units, labels)
        columns = tuple(np.vstack(both) for both in zip(self.columns, more.columns, strict=True))
        return Given(self.map, columns, units, self.lane)

    def take(self, which: NDArray[Any]) -> Given:
        """Return some of the units."""
        return Given(self.map, tuple(one[which] for one in self.columns), which.size, self.lane)

    @property
    def values(self) -> Array:
        """All columns side by side."""
        return np.hstack([np.zeros((self.units, 0), np.float32), *self.columns])

    def principal(self, most: int) -> Array:
        """Weights of the columns that make at most so many of variance 1, none of which correlate."""
        values = self.values.astype(np.float64)
        sizes, turn = np.linalg.eigh(values.T @ values / max(self.units, 1))
        keep = np.flatnonzero(sizes > 1e-9 * max(sizes.max(initial=0.0), 1e-300))[::-1][:most]
        weights: Array = turn[:, keep] / np.sqrt(sizes[keep])
        return weights


Sides: TypeAlias = tuple[Given, Given]
"""What a user brought for the rows and for the columns."""


def given_features(observations: Observations, row_features: Any, column_features: Any) -> Sides:
    """Learn features of the rows and columns that are fitted."""
    m, n = observations.shape
    rows = Given.learn(row_features, m, observations.row_labels, "row")
    return rows, Given.learn(column_features, n, observations.col_labels, "column")


def further_features(sides: Sides, observations: Observations, row_features: Any, column_features: Any) -> Sides:
    """Return the features of a table that holds the one of the sides: those, then what is given of further units."""
    m, n = observations.shape
    rows = sides[0].grown(row_features, m, observations.row_labels)
    return rows, sides[1].grown(column_features, n, observations.col_labels)
