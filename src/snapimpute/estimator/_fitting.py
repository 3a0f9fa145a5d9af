"""Fit of a table that was read: the specification is tuned already, the model is made here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, need_order
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import Table
from snapimpute.estimator._features import Sides, sides_of
from snapimpute.estimator._update import grown
from snapimpute.experts.decide import Decide
from snapimpute.experts.proximal.calibration import SymbolRule
from snapimpute.experts.proximal.model import Model, in_units
from snapimpute.experts.proximal.offsets import KnownCells
from snapimpute.experts.proximal.spec import BoundSpec
from snapimpute.experts.proximal.tuned import TunedSpec
from snapimpute.experts.proximal.tuning import Search
from snapimpute.solvers import FitOptions, Result, Solver

_SHOWN_VALUES = 20
"""Values found in a table that an error lists, at most."""


@dataclass(frozen=True, eq=False)
class FitData:
    """A table to fit, and its known cells in the units of the model, with everything computed of them once."""

    table: Table
    features: Sides = (None, None)

    def with_features(self, row_features: Any, column_features: Any) -> FitData:
        """Return the table with features of its rows and columns, where some are given."""
        if row_features is None and column_features is None:
            return self
        return replace(self, features=sides_of(self.table, row_features, column_features))

    @property
    def schema(self) -> ColumnSchema:
        """The alphabets of the columns."""
        return self.table.schema

    @property
    def observed(self) -> Observations:
        """The known cells in the units of the data."""
        return self.table.observations()

    @cached_property
    def scale(self) -> Array:
        """Size of one unit of the model in each column."""
        return self.schema.scale(self.observed.cols, self.observed.values)

    @cached_property
    def known(self) -> KnownCells:
        """The known cells in the units of the model."""
        return KnownCells(in_units(self.observed, self.scale))

    @property
    def alphabet(self) -> Alphabet | ColumnSchema:
        """The alphabet of all columns, or those of each, in the units of the model.

        Raises
        ------
        ArgumentError
            If a column holds categories without order, which have no units.
        """
        need_order(*self.schema.kinds)
        return self.schema.one or self.schema.scaled(self.scale)


@dataclass(frozen=True, eq=False)
class Manner:
    """Options of the fit at the chosen strengths, and of the decision for symbols."""

    solver: Solver[Any] | str
    options: FitOptions
    decide: Decide
    min_confidence: float = 0.0
    callback: Callable[[Any], Any] | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit and the model made of it; ``stopped`` is true if an interruption ended it or the calibration."""

    tuned: TunedSpec
    result: Result
    model: Model
    observed: Observations
    stopped: bool = False

    def announce(self, stacklevel: int) -> None:
        """Warn of a fit that did not converge; raise after an interruption, as a script must not go on."""
        status = self.result.status
        if status.code == "interrupted":
            raise KeyboardInterrupt(status.message)
        if status.advice:
            warnings.warn(str(status), ConvergenceWarning, stacklevel=stacklevel + 1)
        if self.stopped:
            raise KeyboardInterrupt("interrupted: the best so far is kept")


def fit_table(data: FitData, tuned: TunedSpec, manner: Manner, *, stopped: bool = False) -> Fitted:
    """Fit everything at the strengths chosen, then calibrate; after an interruption no further fit begins."""
    if tuned.choice is not None:
        data.known.forget_folds()
    bound = tuned.spec.bind(data.known)
    result = tuned.fit(bound, manner.solver, manner.options, callback=manner.callback)
    stopped |= result.status.code == "interrupted"
    held_out: list[tuple[Observations, Array]] = []
    try:
        if tuned.choice is not None or not stopped:
            held_out = _held_out(bound, data.scale, tuned, manner)
    except KeyboardInterrupt:  # too late for the fit, which is kept
        stopped = True
    rule = SymbolRule.fit(data.schema, manner.decide, data.observed, held_out, manner.min_confidence)
    model = Model.of(data.schema, data.scale, data.observed, bound, tuned, result, rule)
    return Fitted(tuned, result, model, data.observed, stopped)


def fit_further(model: Model, tuned: TunedSpec, observed: Observations, manner: Manner) -> Fitted:
    """Go on from a fit with more cells, at the same strengths and calibrations."""
    more = observed.shape[1] - model.shape[1]
    schema, scale = model.schema.widened(more), np.append(model.scale, np.ones(more))
    bound = tuned.spec.bind(in_units(observed, scale))
    start = grown(model, bound)
    result = tuned.fit(bound, manner.solver, manner.options, x0=start, callback=manner.callback)
    rule = model.rule.again(schema, observed)
    return Fitted(tuned, result, Model.of(schema, scale, observed, bound, tuned, result, rule), observed)


def _held_out(bound: BoundSpec, scale: Array, tuned: TunedSpec, manner: Manner) -> list[tuple[Observations, Array]]:
    """Return held-out cells with their estimates, to calibrate on: those of the tuning, or of one more fit."""
    if manner.decide == "nearest" or bound.cells.too_few:
        return []
    choice = tuned.choice
    if choice is None:
        folds = bound.cells.folds(seed=manner.options.random_state)
        search = Search(tuned.spec, folds, solver=manner.solver, options=manner.options.coarse())
        choice = search.plain(tuned.lam, tuned.xi).choice()
    return [
        (one.observations.with_values(one.observations.values * units), one.estimate * units)
        for one in choice.held_out
        for units in (scale[one.observations.cols],)
    ]


def no_alphabet(table: Table) -> ArgumentError:
    """Return the error for no alphabet, with the values found as one."""
    one, hint, names = table.schema.one, "", []
    found = [levels.values for levels in map(table.levels, range(table.shape[1])) if levels.count]
    if one is not None:
        names = one.names()
    elif found and all(values.dtype.kind == "f" for values in found):
        names = [f"{value:.15g}" for value in np.unique(np.concatenate(found)).tolist()]
    if 0 < len(names) <= _SHOWN_VALUES:
        shown = ", ".join(names)
        hint = f"; the values found are {shown}, so alphabet=[{shown}] if there are no others"
    told = f'alphabet is required: the symbols a cell can have, such as "1:5" or [0, 1], or "infer"{hint}'
    return ArgumentError("alphabet", None, told)
