"""Engines behind the estimator, the posterior and the mosaic: fitted models that answer as the proximal one does."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.threads import cut
from snapimpute.base.types import Array
from snapimpute.data.features import FeatureTable, refuse_features
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import BLOCK_CELLS, Cells
from snapimpute.estimator._features import Sides
from snapimpute.experts.decide import Decide, decided
from snapimpute.experts.proximal.model import Predictions
from snapimpute.mosaic import Mosaic, MosaicFit
from snapimpute.posterior import Posterior, PosteriorFit

Engine: TypeAlias = Posterior | Mosaic
EngineFit: TypeAlias = PosteriorFit | MosaicFit

ENGINES: dict[str, type[Engine]] = {"posterior": Posterior, "mosaic": Mosaic}

METHODS = ("proximal", *ENGINES)

SHARED = (
    *("alphabet", "method", "decide", "min_confidence", "continuous", "missing", "random_state"),
    *("callback", "progress"),
)
"""Parameters of the estimator that engines use; the others belong to the proximal method."""


def engine_of(imputer: Any) -> Engine | None:
    """Return the engine that a method asks for, or None for the proximal method.

    Raises
    ------
    ArgumentError
        If there is no such method, or a parameter is given that the engine does not use.
    """
    method = imputer.method
    if isinstance(method, str) and method == "proximal":
        return None
    named = isinstance(method, str) and method in ENGINES
    if not named and not isinstance(method, tuple(ENGINES.values())):
        expected = f"be {', '.join(map(repr, METHODS))}, or a Posterior or Mosaic with its parameters"
        raise ArgumentError.must("method", method, expected)
    for name, parameter in inspect.signature(type(imputer).__init__).parameters.items():
        if name in ("self", *SHARED):
            continue
        given = getattr(imputer, name)
        if given is not parameter.default and given != parameter.default:
            told = f"{name}={given!r} belongs to the proximal method, not to method={method!r}: leave {name} out"
            raise ArgumentError(name, given, told)
    return ENGINES[method](random_state=imputer.random_state) if named else method


def fit_engine(engine: Engine, observed: Observations, schema: ColumnSchema, sides: Sides, **told: Any) -> EngineFit:
    """Fit an engine to the known cells; the mosaic takes no features."""
    if isinstance(engine, Mosaic):
        refuse_features(*sides)
        return engine.fit(observed, schema, **told)
    rows, columns = sides
    return engine.fit(observed, schema, row_features=rows, column_features=columns, **told)


def update_engine(
    engine: Engine | None, fit: EngineFit, observed: Observations, sides: Sides, **told: Any
) -> EngineFit:
    """Go on from a fit with more known cells."""
    if isinstance(fit, MosaicFit):
        refuse_features(*sides)
        return (engine if isinstance(engine, Mosaic) else Mosaic()).update(fit, observed, **told)
    rows, columns = sides
    by = engine if isinstance(engine, Posterior) else Posterior()
    return by.update(fit, observed, row_features=rows, column_features=columns, **told)


@stored("decision", "decide", "min_confidence")
@dataclass(frozen=True)
class Decision:
    """Loss that a symbol minimises, and the least probability it must have."""

    decide: Decide
    min_confidence: float = 0.0


@stored("posterior model", "schema", "fit", "rule")  # the name that it had before there was a second engine
@dataclass(frozen=True, eq=False)
class EngineModel:
    """A fitted engine with the columns of its table, and how symbols are decided.

    Parameters
    ----------
    schema : ColumnSchema
    fit : PosteriorFit or MosaicFit
    rule : Decision
    """

    schema: ColumnSchema
    fit: EngineFit
    rule: Decision

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the fitted table."""
        return self.fit.observations.shape

    @property
    def scale(self) -> Array:
        """Size of one unit of the model in each column."""
        return self.fit.frame.scales if isinstance(self.fit, PosteriorFit) else np.ones(self.shape[1])

    @cached_property
    def fitted(self) -> FitPredictions:
        """Predictions for the rows that were fitted."""
        return FitPredictions(self.fit, self.schema, self.rule)

    def folded(
        self, cells: Cells, rows: int, fitted: Observations | None = None, given: FeatureTable | None = None
    ) -> FitPredictions:
        """Predict any rows from observed cells and features; the rows of the fit have the answers of the fit."""
        r, c = (one.astype(np.int32) for one in cells[:2])
        shape = rows, self.shape[1]
        observed = Observations.from_coo(*cells, shape) if r.size else Observations(r, c, np.zeros(0), shape)
        if fitted is not None and _alike(observed, fitted) and self._knows(given):
            return self.fitted
        return FitPredictions(self._of_new(observed, given), self.schema, self.rule)

    def _of_new(self, observed: Observations, given: FeatureTable | None) -> EngineFit:
        """Return the fit of new rows."""
        if isinstance(self.fit, PosteriorFit):
            return self.fit.fold_in(observed, row_features=given)
        refuse_features(given)
        return self.fit.fold_in(observed)

    def _knows(self, given: FeatureTable | None) -> bool:
        """Tell whether these are the features of the rows of the fit."""
        if given is None or isinstance(self.fit, MosaicFit):
            refuse_features(given)
            return True
        known = self.fit.frame.row_side.given
        return np.array_equal(known.of(given, given.size, None).values, known.values)

    def deciding(self, min_confidence: float) -> EngineModel:
        """Return the same model, abstaining below another confidence."""
        return replace(self, rule=replace(self.rule, min_confidence=min_confidence))


def _alike(one: Observations, other: Observations) -> bool:
    names = ("rows", "cols", "values")
    same = one.shape == other.shape
    return same and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


class FitPredictions(Predictions):
    """Expected values, probabilities and symbols that an engine gives for the cells of some rows."""

    def __init__(self, fit: EngineFit, schema: ColumnSchema, rule: Decision) -> None:
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


class Ended(NamedTuple):
    """Number of steps of a run, and its history in columns."""

    steps: int
    history: dict[str, NDArray[Any]]


def ended(fit: EngineFit) -> Ended:
    """Gather the history of a run in columns."""
    names = HISTORY[type(fit)]
    return Ended(len(fit.history), {name: np.array([getattr(one, name) for one in fit.history]) for name in names})


HISTORY: dict[type[EngineFit], tuple[str, ...]] = {
    PosteriorFit: ("number", "seconds", "log_likelihood", "error", "excess"),
    MosaicFit: ("start", "stage", "number", "seconds", "log_likelihood", "excess"),
}
"""Columns of the history of each engine."""
