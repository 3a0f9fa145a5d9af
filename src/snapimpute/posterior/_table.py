"""A table in the terms of the samplers: raters, items, symbols, standardised numbers, features."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._covariance import Column
from snapimpute.posterior._features import MaskMap


@stored("posterior frame", "schema", "by_rows", "centers", "scales", "mask")
@dataclass(frozen=True, eq=False)
class Frame:
    """Everything that turns a table with these columns into cells of the sampler.

    Attributes
    ----------
    schema : ColumnSchema
    by_rows : bool
        True where rows have thresholds of their own, False where columns have.
    centers, scales : arrays of shape (columns,)
        Mean and standard deviation of columns of plain numbers; 0 and 1 of others.
    mask : MaskMap
        Makes features of the known cells.
    """

    schema: ColumnSchema
    by_rows: bool
    centers: Array
    scales: Array
    mask: MaskMap

    @classmethod
    def of(cls, observations: Observations, schema: ColumnSchema, by_rows: bool, mask: MaskMap) -> Frame:
        """Standardise the columns of plain numbers."""
        centers, scales = np.zeros(observations.shape[1]), np.ones(observations.shape[1])
        for j in np.flatnonzero(numbers_of(schema)):
            values = observations.values[observations.cols == j]
            if values.size:
                centers[j], spread = float(values.mean()), float(values.std())
                scales[j] = spread if spread > 0 else 1.0
        return cls(schema, by_rows, centers, scales, mask)

    @property
    def levels(self) -> NDArray[np.int64]:
        """Symbols of each column; 0 for plain numbers and columns left alone."""
        sizes = [0 if alphabet is None else len(alphabet) for alphabet in self.schema.kinds]
        return np.array([*sizes, 0], dtype=np.int64)[self.schema.which]

    def symbols(self, observations: Observations) -> tuple[NDArray[np.int64], Array | None]:
        """Return the number of each cell's symbol, and standardised numbers where a column has them."""
        symbols, values, cols = np.zeros(len(observations), np.int64), None, observations.cols
        for kind, alphabet in enumerate(self.schema.kinds):
            inside = self.schema.inside(kind, cols)
            if alphabet is not None:
                symbols[inside] = alphabet.indices(observations.values[inside])
            else:
                values = np.zeros(len(observations)) if values is None else values
                values[inside] = (observations.values[inside] - self.centers[cols[inside]]) / self.scales[
                    cols[inside]
                ]
        return symbols, values

    def cells(self, observations: Observations) -> Cells:
        """Return the known cells by rater and by item."""
        (m, n), rows, cols = observations.shape, observations.rows, observations.cols
        symbols, values = self.symbols(observations)
        if self.by_rows:
            return Cells.of(rows, cols, symbols, (m, n), np.full(m, len(self.schema.one or ())))
        return Cells.of(cols, rows, symbols, (n, m), self.levels, np.maximum(self.schema.which, 0), values)

    def columns(self, observations: Observations) -> tuple[list[Column], dict[int, Array]]:
        """Return the cells of each column, and the standardised numbers of columns that have them."""
        symbols, values = self.symbols(observations)
        order = np.lexsort((observations.rows, symbols, observations.cols))
        ends = np.searchsorted(observations.cols[order], np.arange(observations.shape[1] + 1))
        levels, every, out, numbers = self.levels, np.arange(observations.shape[0]), [], {}
        for j, (start, stop) in enumerate(pairwise(ends.tolist())):
            inside = order[start:stop]
            known = observations.rows[inside].astype(np.int64)
            missing = np.setdiff1d(every, known, assume_unique=True)
            out.append(Column(known, symbols[inside].astype(np.uint8), missing, int(levels[j])))
            if values is not None and levels[j] == 0:
                numbers[j] = values[inside]
        return out, numbers


def numbers_of(schema: ColumnSchema) -> NDArray[np.bool_]:
    """Tell which columns hold plain numbers."""
    plain = np.array([alphabet is None for alphabet in schema.kinds] + [False])
    return np.asarray(plain[schema.which], dtype=np.bool_)
