"""A table in the terms of the samplers: raters, items, symbols, standardised numbers, features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._choices import Choices
from snapimpute.posterior._contrasts import Contrasts
from snapimpute.posterior._covariance import Column, CovarianceChain
from snapimpute.posterior._features import Features, SideMap


@stored("posterior frame", "schema", "by_rows", "centers", "scales", "row_side", "column_side")
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
    row_side, column_side : SideMap
        Make features of known cells, and hold those that a user brought.
    """

    schema: ColumnSchema
    by_rows: bool
    centers: Array
    scales: Array
    row_side: SideMap
    column_side: SideMap

    @classmethod
    def of(
        cls, observations: Observations, schema: ColumnSchema, by_rows: bool, sides: tuple[SideMap, SideMap]
    ) -> Frame:
        """Standardise the columns of plain numbers."""
        centers, scales = np.zeros(observations.shape[1]), np.ones(observations.shape[1])
        for j in np.flatnonzero(numbers_of(schema)):
            values = observations.values[observations.cols == j]
            if values.size:
                centers[j], spread = float(values.mean()), float(values.std())
                scales[j] = spread if spread > 0 else 1.0
        return cls(schema, by_rows, centers, scales, *sides)

    def features(self, observations: Observations) -> tuple[Features, Features]:
        """Return the features of raters and of items."""
        rows, cols = observations.rows, observations.cols
        of_rows, of_columns = self.row_side.features(rows, cols), self.column_side.features(cols, rows)
        return (of_rows, of_columns) if self.by_rows else (of_columns.repeated(self.raters), of_rows)

    def cold_features(self) -> tuple[Features, Features]:
        """Return the features that raters and items would have if none of their cells were known."""
        of_rows, of_columns = self.row_side.cold_features(), self.column_side.cold_features()
        return (of_rows, of_columns) if self.by_rows else (of_columns.repeated(self.raters), of_rows)

    @cached_property
    def levels(self) -> NDArray[np.int64]:
        """Symbols of each column; 0 for plain numbers and columns left alone."""
        sizes = [0 if alphabet is None else len(alphabet) for alphabet in self.schema.kinds]
        return np.array([*sizes, 0], dtype=np.int64)[self.schema.which]

    @cached_property
    def categories(self) -> NDArray[np.int64]:
        """Categories of each column without order, 0 for other columns; an order of only two makes no difference."""
        sizes = [0 if one is None or one.ordered or len(one) <= 2 else len(one) for one in self.schema.kinds]
        return np.array([*sizes, 0], dtype=np.int64)[self.schema.which]

    @cached_property
    def raters(self) -> NDArray[np.int64]:
        """Column of each rater, where columns are the raters: one for each category, or a single one."""
        return np.repeat(np.arange(self.categories.size), np.maximum(self.categories, 1))

    @cached_property
    def first_rater(self) -> NDArray[np.int64]:
        """First rater of each column, where columns are the raters."""
        return np.searchsorted(self.raters, np.arange(self.categories.size))

    @cached_property
    def latent(self) -> NDArray[np.int64]:
        """First latent column of each column in a full covariance: there are one fewer than categories."""
        counts = np.maximum(self.categories - 1, 1)
        return np.cumsum(counts) - counts

    def chosen(self, cols: NDArray[Any]) -> list[tuple[int, NDArray[np.intp]]]:
        """Select the cells, given by their columns, that have categories without order, by the number of these."""
        here = self.categories[cols]
        return [(count, np.flatnonzero(here == count)) for count in np.unique(here[here > 0]).tolist()]

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
        levels = np.where(self.categories > 0, 0, self.levels)[self.raters]
        kinds, shape = np.maximum(self.schema.which, 0)[self.raters], (self.raters.size, m)
        times = np.maximum(self.categories, 1)[cols]
        cell = np.repeat(np.arange(cols.size), times)
        number = np.arange(cell.size) - np.repeat(np.cumsum(times) - times, times)  # of the rater, within its column
        single = np.where(self.categories[cols] > 0, 0, symbols)[cell]
        spread = None if values is None else values[cell]
        rater = self.first_rater[cols][cell] + number
        return Cells.of(rater, rows[cell], single, shape, levels, kinds, spread, self._choices(observations, symbols))

    def _choices(self, observations: Observations, symbols: NDArray[np.int64]) -> Choices:
        """Return the columns of categories with the category of each known cell, by row."""
        columns = np.flatnonzero(self.categories)
        cells = np.flatnonzero(self.categories[observations.cols])
        order = cells[np.lexsort((observations.rows[cells], observations.cols[cells]))]
        ends = np.searchsorted(observations.cols[order], columns, side="right").tolist()
        seen = [symbols[order[start:stop]] for start, stop in pairwise([0, *ends])]
        return Choices.of(self.first_rater[columns].tolist(), self.categories[columns].tolist(), seen)

    def columns(self, observations: Observations) -> tuple[list[Column], dict[int, Array], list[Contrasts]]:
        """Return the cells of each latent column, standardised numbers where a column has them, and contrasts."""
        symbols, values = self.symbols(observations)
        order = np.lexsort((observations.rows, symbols, observations.cols))
        ends = np.searchsorted(observations.cols[order], np.arange(observations.shape[1] + 1))
        levels, every, out, numbers = self.levels, np.arange(observations.shape[0]), list[Column](), {}
        contrasts = []
        for j, (start, stop) in enumerate(pairwise(ends.tolist())):
            inside = order[start:stop]
            known = observations.rows[inside].astype(np.int64)
            missing = np.setdiff1d(every, known, assume_unique=True)
            if count := int(self.categories[j]):
                contrasts.append(Contrasts(len(out), count, known, symbols[inside].astype(np.uint8)))
                out += [Column(known, np.zeros(known.size, np.uint8), missing, 0)] * (count - 1)
                continue
            if values is not None and levels[j] == 0:
                numbers[len(out)] = values[inside]
            out.append(Column(known, symbols[inside].astype(np.uint8), missing, int(levels[j])))
        return out, numbers, contrasts

    def covariance_chain(self, observations: Observations, **options: Any) -> CovarianceChain:
        """Begin a chain with a full covariance."""
        columns, numbers, contrasts = self.columns(observations)
        shape, features = (observations.shape[0], len(columns)), self.row_side.principal()
        return CovarianceChain(shape, columns, numbers, contrasts, features=features, **options)

    def with_rows(self, given: Any, observations: Observations) -> Frame:
        """Return the frame with what is given of other rows."""
        return replace(self, row_side=self.row_side.of(given, observations.shape[0], observations.row_labels))

    def with_columns(self, alphabet: AlphabetLike | None, given: Any, observations: Observations) -> Frame:
        """Return the frame of new columns across the same rows."""
        kinds, count = self.schema.kinds, observations.shape[1]
        wanted = kinds[0] if alphabet is None and len(kinds) == 1 else _alphabet(alphabet)
        if wanted not in kinds or (alphabet is None and len(kinds) > 1):
            told = f"new columns need one of the alphabets of the fit, which are {', '.join(map(repr, kinds))}"
            raise ArgumentError("alphabet", alphabet, f"{told}; got {alphabet!r}")
        schema = ColumnSchema(kinds, np.full(count, kinds.index(wanted)))
        sides = self.row_side, self.column_side.of(given, count, observations.col_labels)
        return Frame.of(observations, schema, self.by_rows, sides)

    def taking(self, which: NDArray[Any]) -> Frame:
        """Return the frame of some of the rows."""
        return replace(self, row_side=self.row_side.take(which))


def _alphabet(given: AlphabetLike | None) -> Alphabet | None:
    return None if given is None else Alphabet.of(given)


def numbers_of(schema: ColumnSchema) -> NDArray[np.bool_]:
    """Tell which columns hold plain numbers."""
    plain = np.array([alphabet is None for alphabet in schema.kinds] + [False])
    return np.asarray(plain[schema.which], dtype=np.bool_)
