"""A fitted model: the answers of an expert, the columns of the table, and how symbols are decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.files import stored
from snapimpute.base.threads import cut
from snapimpute.base.types import Array
from snapimpute.data.answers import CellAnswers
from snapimpute.data.expert import Expert
from snapimpute.data.features import FeatureTable, refuse_features
from snapimpute.data.holdout import mixed_bits
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import BLOCK_CELLS, Cells
from snapimpute.experts.decide import Decide, decided
from snapimpute.experts.proximal.expert import ProximalFit


@stored("decision", "decide", "min_confidence")
@dataclass(frozen=True)
class Decision:
    """Loss that a symbol minimises, and the least probability it must have."""

    decide: Decide
    min_confidence: float = 0.0


@stored("fitted model", "schema", "expert", "fit", "rule")
@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted expert with the columns of its table, and how symbols are decided.

    Parameters
    ----------
    schema : ColumnSchema
    expert : Expert
    fit : CellAnswers
    rule : Decision
    """

    schema: ColumnSchema
    expert: Expert
    fit: Any
    rule: Decision

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the fitted table."""
        shape: tuple[int, int] = self.fit.observations.shape
        return shape

    @property
    def scale(self) -> Array:
        """Size of one unit of the model in each column."""
        scale: Array = self.fit.scale
        return scale

    @cached_property
    def fitted(self) -> Predictions:
        """Predictions for the rows that were fitted; those with the same known cells have the same."""
        if not self._by_cells:
            return Predictions(self.fit, self.schema, self.rule)
        return self._mixed(self.fit.observations, same_cells(self.fit.observations, self.fit.observations))

    @property
    def _by_cells(self) -> bool:
        """Tell whether known cells say all of a row; low rank folds rows in again, which is exact."""
        return bool(self.fit.by_cells) and not isinstance(self.fit, ProximalFit)

    def folded(
        self, cells: Cells, rows: int, fitted: Observations | None = None, given: FeatureTable | None = None
    ) -> Predictions:
        """Predict any rows from observed cells and features; the rows of the fit have the answers of the fit."""
        r, c = (one.astype(np.int32) for one in cells[:2])
        shape = rows, self.shape[1]
        observed = Observations.from_coo(*cells, shape) if r.size else Observations(r, c, np.zeros(0), shape)
        if not self.expert.uses_features:
            refuse_features(given)
        if fitted is not None and _alike(observed, fitted) and self.fit.knows(given):
            return self.fitted
        if fitted is not None and self._by_cells and given is None:
            return self._mixed(observed, same_cells(observed, fitted))
        return Predictions(self._new(observed, given), self.schema, self.rule)

    def _new(self, observed: Observations, given: FeatureTable | None = None) -> Any:
        told = {"row_features": given} if self.expert.uses_features else {}
        return self.fit.fold_in(observed, **told)

    def _mixed(self, observed: Observations, place: NDArray[np.intp]) -> Predictions:
        """Predict rows of which some stand in the fit, at a place or -1; no row depends on the others of these."""
        if (place < 0).all():
            return Predictions(self._new(observed), self.schema, self.rule)
        if np.array_equal(place, np.arange(self.shape[0])):
            return Predictions(self.fit, self.schema, self.rule)
        new = np.flatnonzero(place < 0)
        folded = self._new(rows_of(observed, new)) if new.size else self.fit
        among = np.cumsum(place < 0) - 1
        answers = MixedAnswers(self.fit, folded, np.where(place < 0, among, place), place < 0)
        return Predictions(answers, self.schema, self.rule)

    def deciding(self, min_confidence: float) -> FittedModel:
        """Return the same model, abstaining below another confidence."""
        return replace(self, rule=replace(self.rule, min_confidence=min_confidence))

    @property
    def history(self) -> dict[str, NDArray[Any]]:
        """History of the fit in columns."""
        history = self.fit.history
        if isinstance(history, Mapping):
            return dict(history)
        names = [one.name for one in fields(history[0]) if one.name not in HIDDEN] if history else []
        return {name: np.array([getattr(one, name) for one in history]) for name in names}


HIDDEN = ("left",)
"""Columns of a history that only matter while it grows."""


@dataclass(frozen=True, eq=False)
class MixedAnswers:
    """Answers for rows of which some are those of a fit, and others were folded in.

    Parameters
    ----------
    fitted, folded : CellAnswers
    place : array
        Place of each row among the answers that it has.
    new : array of bool
        Whether these are ``folded``.
    """

    fitted: CellAnswers
    folded: CellAnswers
    place: NDArray[np.intp]
    new: NDArray[np.bool_]

    def mean(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the expected values at cells."""
        return self._of("mean", rows, cols)

    def proba(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the probability of each symbol at cells."""
        return self._of("proba", rows, cols)

    def _of(self, name: str, rows: ArrayLike, cols: ArrayLike) -> Array:
        r, c = np.asarray(rows), np.asarray(cols)
        new, place = self.new[r], self.place[r]
        parts = [(self.fitted, ~new), (self.folded, new)]
        found = [(inside, getattr(one, name)(place[inside], c[inside])) for one, inside in parts if inside.any()]
        if not found:
            empty: Array = getattr(self.fitted, name)(place, c)
            return empty
        out: Array = np.empty((r.size, *found[0][1].shape[1:]))
        for inside, values in found:
            out[inside] = values
        return out


def rows_of(observed: Observations, rows: NDArray[np.intp]) -> Observations:
    """Return some rows of a table, in ascending order, as a table."""
    place = np.full(observed.shape[0], -1, dtype=np.int32)
    place[rows] = np.arange(rows.size)
    inside = np.flatnonzero(place[observed.rows] >= 0)
    shape = rows.size, observed.shape[1]
    return Observations(place[observed.rows[inside]], observed.cols[inside], observed.values[inside], shape)


def same_cells(observed: Observations, fitted: Observations) -> NDArray[np.intp]:
    """Return for each row the first row of a fit that has the very same known cells; -1 where there is none.

    Examples
    --------
    >>> fitted = Observations.from_dense([[1, 2], [3, np.nan]])
    >>> same_cells(Observations.from_dense([[3, np.nan], [3, 2], [1, 2]]), fitted).tolist()
    [1, -1, 0]
    """
    seen = _row_hashes(fitted).tolist()
    place = dict(zip(reversed(seen), reversed(range(len(seen))), strict=True))
    return np.array([place.get(one, -1) for one in _row_hashes(observed).tolist()], dtype=np.intp)


def _row_hashes(observed: Observations) -> NDArray[np.uint64]:
    """Return 64 bits of what is known of each row."""
    out = np.zeros(observed.shape[0], dtype=np.uint64)
    values = (observed.values + 0.0).view(np.uint64)  # -0 is 0
    with np.errstate(over="ignore"):
        cells = mixed_bits(mixed_bits(observed.cols.astype(np.uint64)) ^ values)
    np.add.at(out, observed.rows, cells)
    return out


def _alike(one: Observations, other: Observations) -> bool:
    names = ("rows", "cols", "values")
    same = one.shape == other.shape
    return same and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


class Predictions:
    """Expected values, probabilities and symbols that a fit gives for the cells of some rows."""

    def __init__(self, fit: CellAnswers | MixedAnswers, schema: ColumnSchema, rule: Decision) -> None:
        self._fit, self._schema, self._rule = fit, schema, rule

    def mean(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return expected values."""
        return self._fit.mean(rows, cols) if np.size(rows) else np.zeros(0)

    def proba(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return probabilities of the symbols in ascending order, at cells of columns with one alphabet."""
        return self._fit.proba(rows, cols)

    def symbols(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the decided symbols as numbers, NaN where there is none; expected values of plain numbers.

        Categories without order have no distance: the most probable one is decided, whatever the loss.
        """
        r, c = np.asarray(rows), np.asarray(cols)
        out = np.full(r.size, np.nan)
        for kind, alphabet in enumerate(self._schema.kinds):
            inside = np.flatnonzero(self._schema.which[c] == kind)
            for start, stop in cut(inside.size, BLOCK_CELLS):
                here = inside[start:stop]
                if alphabet is None:
                    out[here] = self.mean(r[here], c[here])
                elif self._rule.decide == "nearest" and alphabet.ordered:
                    out[here] = alphabet.snap(self.mean(r[here], c[here]))
                else:
                    decide = self._rule.decide if alphabet.ordered else "accuracy"
                    out[here] = self._decided(self.proba(r[here], c[here]), alphabet.symbols, decide)
        return out

    def _decided(self, p: Array, symbols: Array, decide: Decide) -> Array:
        places = decided(p, symbols, decide)
        sure = p[np.arange(len(p)), places] >= self._rule.min_confidence
        return np.where(sure, symbols[places], np.nan)
