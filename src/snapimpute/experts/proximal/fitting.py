"""Fit at tuned strengths, and the model that is made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from snapimpute.base.types import Array, Index
from snapimpute.data.alphabet import Alphabet, need_order
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.decide import Decide
from snapimpute.experts.proximal.calibration import SymbolRule
from snapimpute.experts.proximal.foldin import fold_in
from snapimpute.experts.proximal.model import Model, in_units
from snapimpute.experts.proximal.offsets import KnownCells
from snapimpute.experts.proximal.spec import BoundSpec
from snapimpute.experts.proximal.tuned import TunedSpec
from snapimpute.experts.proximal.tuning import Search
from snapimpute.linalg import LowRank
from snapimpute.penalties import Nuclear
from snapimpute.problem import Problem
from snapimpute.solvers import FitOptions, Result, Solver


@dataclass(frozen=True, eq=False)
class ProximalData:
    """Known cells of a table in the units of the model, with everything computed of them once."""

    observed: Observations
    schema: ColumnSchema

    @classmethod
    def of(cls, observed: Observations, schema: ColumnSchema) -> ProximalData:
        """Take in a table, or return what was computed of the very same one, as long as somebody keeps that."""
        found = _KEPT.get(id(observed))
        if found is None or found.observed is not observed or found.schema is not schema:
            found = _KEPT[id(observed)] = cls(observed, schema)
        return found

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


_KEPT: WeakValueDictionary[int, ProximalData] = WeakValueDictionary()
"""Tables that somebody keeps, by the identity of their observations."""


@dataclass(frozen=True, eq=False)
class Manner:
    """Options of the fit at the chosen strengths, and the decision that probabilities are for."""

    solver: Solver[Any] | str
    options: FitOptions
    decide: Decide
    callback: Callable[[Any], Any] | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit and the model made of it; ``stopped`` is true if an interruption ended it or the calibration."""

    tuned: TunedSpec
    result: Result
    model: Model
    stopped: bool = False


def fit_table(data: ProximalData, tuned: TunedSpec, manner: Manner, *, stopped: bool = False) -> Fitted:
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
    rule = SymbolRule.fit(data.schema, manner.decide, data.observed, held_out)
    model = Model.of(data.schema, data.scale, data.observed, bound, tuned, result, rule)
    return Fitted(tuned, result, model, stopped)


def fit_further(model: Model, tuned: TunedSpec, observed: Observations, manner: Manner) -> Fitted:
    """Go on from a fit with more cells, at the same strengths and calibrations."""
    more = observed.shape[1] - model.shape[1]
    schema, scale = model.schema.widened(more), np.append(model.scale, np.ones(more))
    bound = tuned.spec.bind(in_units(observed, scale))
    start = grown(model, bound)
    result = tuned.fit(bound, manner.solver, manner.options, x0=start, callback=manner.callback)
    rule = model.rule.again(schema, observed)
    return Fitted(tuned, result, Model.of(schema, scale, observed, bound, tuned, result, rule))


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


def grown(model: Model, bound: BoundSpec) -> LowRank:
    """The factors of a model with those of new rows and columns, by their cells in the old columns and rows."""
    x, known, base = model.x, bound.observations, bound.offsets
    m, n = known.shape
    targets = known.values - (0.0 if base is None else base.entries(known.rows, known.cols))
    U = _folded(known.rows, known.cols, targets, (m, x.shape[1]), x.U * x.s, x.V, model.shrink)
    V = _folded(known.cols, known.rows, targets, (n, x.shape[0]), x.V * x.s, x.U, model.shrink)
    return LowRank(U, 1 / np.maximum(x.s, 1e-300), V).orthonormalised()


def _folded(
    lanes: Index, across: Index, targets: Array, shape: tuple[int, int], have: Array, basis: Array, shrink: Array
) -> Array:
    """Coordinates of lanes, those there are and those of new ones."""
    old, count = have.shape[0], shape[0]
    out = np.zeros((count, have.shape[1]))
    out[:old] = have
    use = (lanes >= old) & (across < shape[1])
    if use.any() and have.shape[1]:
        cells = Observations.from_coo(lanes[use] - old, across[use], targets[use], (count - old, shape[1]))
        out[old:] = fold_in(Problem(cells, Nuclear(1.0)), basis, shrink)
    return out
