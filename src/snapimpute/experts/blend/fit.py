"""A fitted blend: its members, their weights, and what they say of cells together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.threads import cut
from snapimpute.base.types import Array
from snapimpute.data.answers import CellAnswers
from snapimpute.data.expert import Expert
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import BLOCK_CELLS
from snapimpute.experts.blend.pool import Pool, logs_of
from snapimpute.experts.blend.report import BlendVerdict, ExpertScore
from snapimpute.solvers import Status

DRAWS_ALONE = 0.3
"""Share of the weights from which the dependence of cells in drawn tables is that of the expert."""


@stored("blend member", "label", "expert", "fit", "columns", "table")
@dataclass(frozen=True, eq=False)
class Member:
    """A fitted expert of a blend.

    Parameters
    ----------
    label : str
    expert : Expert
    fit : CellAnswers
    columns : array or None
        The columns that it was fitted to; None for all.
    table : int
        Columns of the whole table.
    """

    label: str
    expert: Expert
    fit: Any
    columns: NDArray[np.intp] | None
    table: int

    @cached_property
    def _place(self) -> NDArray[np.intp] | None:
        if self.columns is None:
            return None
        place = np.full(self.table, -1, dtype=np.intp)
        place[self.columns] = np.arange(self.columns.size)
        return place

    def takes(self, col: int) -> bool:
        """Tell whether a column is among those that were fitted."""
        return self._place is None or bool(self._place[col] >= 0)

    def at(self, cols: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return columns as the expert counts them."""
        return cols if self._place is None else self._place[cols]

    def logs(self, rows: NDArray[np.intp], cols: NDArray[np.intp], *, both: bool = False) -> Array:
        """Return log-probabilities at cells; averaged with those of the mirror cells if ``both``."""
        found = logs_of(self.fit.proba(rows, self.at(cols)))
        if both:
            found = (found + logs_of(self.fit.proba(cols, self.at(rows)))) / 2
        return found

    def means(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        """Return expected values at cells."""
        found: Array = self.fit.mean(rows, self.at(cols))
        return found

    def of_rows(self, observations: Observations, row_features: Any) -> Member:
        """Return the answers for new rows."""
        told = {"row_features": row_features} if self.expert.uses_features else {}
        return replace(self, fit=self.fit.fold_in(columns_of(observations, self.columns), **told))


@stored("reach", "few", "many")
@dataclass(frozen=True)
class Reach:
    """Scale of how much is known of a row, from 0 to 1, by the number of its known cells."""

    few: float
    many: float

    @classmethod
    def of(cls, observations: Observations) -> Reach:
        """Take the tenth and the ninetieth per cent of the rows that have a known cell."""
        counts = np.bincount(observations.rows)
        few, many = np.percentile(counts[counts > 0], [10, 90])
        return cls(float(few), float(many))

    def at(self, observations: Observations) -> Array:
        """Return the reach of each row; the middle where rows hardly differ."""
        counts = np.bincount(observations.rows, minlength=observations.shape[0])
        if self.many < 1.5 * self.few + 1:
            return np.full(counts.size, 0.5)
        low, high = np.log1p([self.few, self.many])
        reach: Array = np.clip((np.log1p(counts) - low) / (high - low), 0.0, 1.0)
        return reach


@stored(
    "blend fit", *("columns", "observations", "members", "pools", "reach", "square", "scores", "verdict", "status")
)
@dataclass(frozen=True, eq=False)
class BlendFit(CellAnswers):
    """Experts with weights, and what they say of any cell together.

    Attributes
    ----------
    columns : ColumnSchema
        Content of each column.
    observations : Observations
    members : tuple of Member
        The experts that have weight.
    pools : tuple of Pool or None
        Weights for each kind of columns; None where a kind has no column.
    reach : Reach
    square : {"no", "directed", "symmetric"}
        Whether rows and columns are the same things, and a cell and its mirror one cell.
    scores : tuple of ExpertScore
        What each expert scored on held-out cells.
    verdict : BlendVerdict
    status : Status
    """

    columns: ColumnSchema
    observations: Observations
    members: tuple[Member, ...]
    pools: tuple[Pool, ...]
    reach: Reach
    square: str
    scores: tuple[ExpertScore, ...]
    verdict: BlendVerdict
    status: Status
    history: tuple[Any, ...] = field(default=(), init=False, repr=False)

    @property
    def schema(self) -> ColumnSchema:
        """Content of each column."""
        return self.columns

    @property
    def diagnostics(self) -> dict[str, Any]:
        """Diagnostics of the members that have any."""
        found = {one.label: getattr(one.fit, "diagnostics", None) for one in self.members}
        return {label: one for label, one in found.items() if one is not None}

    @property
    def scale(self) -> Array:
        """Size of one unit of the model in each column."""
        return self.columns.scale(self.observations.cols, self.observations.values)

    def weights(self, kind: int = 0) -> dict[str, float]:
        """Return the share of each member in the answers for a kind of columns."""
        weights = self.pools[kind].weights
        total = max(float(weights.sum()), 1e-12)
        return {one.label: float(w) / total for one, w in zip(self._of(kind), weights, strict=True)}

    @cached_property
    def _reach(self) -> Array:
        return self.reach.at(self.observations)

    def _of(self, kind: int) -> list[Member]:
        """Return the members that answer for columns of a kind."""
        return [one for one in self.members if kind_taken(one, self.columns, kind)]

    def _chances(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        if not rows.size:
            return np.zeros((0, len(self.columns.kinds[0] or ())))
        kind = int(self.columns.which[cols[0]])
        pool, members = self.pools[kind], self._of(kind)
        out = np.empty((rows.size, pool.constants.size))
        for start, stop in cut(rows.size, BLOCK_CELLS):
            r, c = rows[start:stop], cols[start:stop]
            logs = np.stack([one.logs(r, c, both=self.square == "symmetric") for one in members])
            mirror = None if pool.mirror is None else mirror_codes(self._coded, r, c)
            out[start:stop] = pool.proba(logs, self._reach[r], mirror)
        return out

    def _numbers(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        out = np.full(rows.size, np.nan)
        for kind in np.unique(self.columns.which[cols]).tolist():
            inside = np.flatnonzero(self.columns.which[cols] == kind)
            means = np.stack([one.means(rows[inside], cols[inside]) for one in self._of(kind)])
            out[inside] = self.pools[kind].mean(means)
        return out

    @cached_property
    def _coded(self) -> CodedCells:
        """The known cells, to look up mirrors."""
        return CodedCells.of(self.observations, self.columns)

    def _drawn(self, rows: NDArray[np.intp], cols: NDArray[np.intp], count: int, seed: int) -> Iterator[Array]:
        weights = self.weights()
        for one in sorted(self.members, key=lambda one: -weights.get(one.label, 0.0)):
            whole = one.columns is None and weights.get(one.label, 0.0) >= DRAWS_ALONE
            if whole and self.square != "symmetric":
                yield from one.fit._drawn(rows, cols, count, seed)
                return
        yield from self._independent(rows, cols, count, seed)

    @property
    def by_cells(self) -> bool:
        """Tell whether the known cells of a row are all that its answers depend on."""
        return self.square == "no" and all(one.fit.by_cells for one in self.members)

    def knows(self, row_features: Any) -> bool:
        """Tell whether these are the features of the fitted rows."""
        return all(one.fit.knows(row_features) for one in self.members if one.expert.uses_features)

    def fold_in(self, observations: Observations, *, row_features: Any = None) -> BlendFit:
        """Return the answers for new rows, by their known cells and features."""
        if self.square != "no":
            raise ValueError(
                "a new row of a square table is a new column, too: fit again with both in it, or with square=False"
            )
        members = tuple(one.of_rows(observations, row_features) for one in self.members)
        return replace(self, observations=observations, members=members)


@dataclass(frozen=True, eq=False)
class CodedCells:
    """Known cells in ascending order with the codes of their symbols, from 1 on."""

    places: NDArray[np.int64]
    codes: NDArray[np.intp]
    side: int

    @classmethod
    def of(cls, observations: Observations, schema: ColumnSchema) -> CodedCells:
        """Take the cells of a table with one alphabet."""
        alphabet, side = schema.kinds[0], observations.shape[1]
        codes = np.zeros(0, np.intp) if alphabet is None else alphabet.indices(observations.values) + 1
        return cls(observations.rows * np.int64(side) + observations.cols, codes, side)


def mirror_codes(known: CodedCells, rows: NDArray[Any], cols: NDArray[Any]) -> NDArray[np.intp]:
    """Return 0 where the mirror of a cell is not known, else one more than the place of its symbol."""
    wanted = cols.astype(np.int64) * known.side + rows
    place = np.minimum(np.searchsorted(known.places, wanted), max(known.places.size - 1, 0))
    there = known.places[place] == wanted
    return np.where(there, known.codes[place], 0)


def kind_taken(member: Member, schema: ColumnSchema, kind: int) -> bool:
    """Tell whether a member was fitted to columns of a kind."""
    cols = np.flatnonzero(schema.which == kind)
    return bool(cols.size) and member.takes(int(cols[0]))


def columns_of(observations: Observations, columns: NDArray[np.intp] | None) -> Observations:
    """Return the known cells of some columns, counted among them."""
    if columns is None:
        return observations
    m, n = observations.shape
    place = np.full(n, -1, dtype=np.int64)
    place[columns] = np.arange(columns.size)
    inside = np.flatnonzero(place[observations.cols] >= 0)
    labels = None if observations.col_labels is None else observations.col_labels[columns]
    return Observations(
        observations.rows[inside],
        place[observations.cols[inside]].astype(np.int32),
        observations.values[inside],
        (m, columns.size),
        observations.row_labels,
        labels,
    )
