"""A fitted model: what it says of cells, of the rows it was fitted on and of others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.files import stored
from snapimpute.base.threads import cut
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import BLOCK_CELLS, Cells
from snapimpute.experts.proximal.calibration import SymbolLogOdds, SymbolRule
from snapimpute.experts.proximal.foldin import OffsetModel, fold_in, same_rows, shrinkage
from snapimpute.experts.proximal.spec import BoundSpec
from snapimpute.experts.proximal.tuned import TunedSpec
from snapimpute.linalg import LowRank
from snapimpute.penalties import DiscretePenalty, Nuclear
from snapimpute.problem import Problem
from snapimpute.solvers import Result
from snapimpute.solvers.loop import SAMPLED_CELLS


@stored("model", "schema", "scale", "x", "base", "shown", "offsets", "discrete", "shrink", "rule", "log_odds")
@dataclass(frozen=True, eq=False)
class Model:
    """A low-rank matrix ``x``, offsets, the units of the columns, and how symbols are decided.

    ``scale`` is one unit of the model in each column, 1 where all columns have one alphabet. ``base`` makes the
    offsets of any rows; the estimates of fitted rows are ``shown`` + ``offsets``. ``shrink`` is that of `foldin`;
    ``log_odds`` are those of the rows that were fitted.
    """

    schema: ColumnSchema
    scale: Array
    x: LowRank
    base: OffsetModel
    shown: LowRank
    offsets: LowRank
    discrete: DiscretePenalty | None
    shrink: Array
    rule: SymbolRule
    log_odds: SymbolLogOdds

    @classmethod
    def of(
        cls,
        schema: ColumnSchema,
        scale: Array,
        observed: Observations,
        bound: BoundSpec,
        tuned: TunedSpec,
        result: Result,
        rule: SymbolRule,
    ) -> Model:
        """Make a model of a fit; the observations are in the units of the data, those bound in the model's."""
        base = OffsetModel.of(bound.cells, bound.spec.center, bound.spec.damping)
        problem = bound.problem(tuned.lam, tuned.xi)
        x = LowRank(*(part.astype(np.float64) for part in (result.x.U, result.x.s, result.x.V)))
        discrete = problem.discrete if problem.is_discrete else None
        shrink = shrinkage(_affordable(problem), x)
        log_odds = rule.of_rows(observed)
        return cls(schema, scale, x, base, *base.estimates(x, problem.observations), discrete, shrink, rule, log_odds)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the fitted table."""
        return self.x.shape

    def whole(self, x: LowRank, offsets: LowRank) -> LowRank:
        """Estimates in the units of the data."""
        both = LowRank.combine([1.0, 1.0], [x, offsets])
        return both if (self.scale == 1).all() else LowRank(both.U, both.s, both.V * self.scale[:, None])

    @cached_property
    def fitted(self) -> LowRankPredictions:
        """Predictions for the rows that were fitted."""
        return LowRankPredictions(self.whole(self.shown, self.offsets), self.rule, self.log_odds)

    def folded(self, cells: Cells, rows: int, fitted: Observations | None = None) -> LowRankPredictions:
        """Predict any rows from their observed cells; see `foldin`.

        Rows with the cells that they had in the fit, ``fitted``, begin at their factors.
        """
        shape = rows, self.shape[1]
        if not cells[2].size:
            nothing = LowRank(np.zeros((rows, self.x.rank)), np.ones(self.x.rank), self.x.V)
            counts = [np.zeros((rows, table.shape[1])) for table in self.log_odds.tables]
            log_odds = SymbolLogOdds.of(counts, self.rule.usual)
            return LowRankPredictions(self.whole(*self.base.estimates(nothing, None)), self.rule, log_odds)
        observed = Observations.from_coo(*cells, shape)
        known = in_units(observed, self.scale)
        problem = _affordable(Problem(known, Nuclear(1.0), self.discrete, self.base.offsets(known, rows)))
        start = None if fitted is None or problem.jumps else self._start(same_rows(observed, fitted))
        x = LowRank(fold_in(problem, self.x.V, self.shrink, start), np.ones(self.x.rank), self.x.V)
        return LowRankPredictions(self.whole(*self.base.estimates(x, known)), self.rule, self.rule.of_rows(observed))

    def _start(self, fitted: NDArray[np.bool_]) -> Array:
        """Return the coordinates of the rows that were fitted, and 0 for the others."""
        start, some = np.zeros((fitted.size, self.x.rank)), np.flatnonzero(fitted)
        start[some] = self.x.U[some] * self.x.s
        return start


def _affordable(problem: Problem) -> Problem:
    """Without the discrete term where it has so many cells that a fit would sample it."""
    m, n = problem.shape
    return problem if m * n <= SAMPLED_CELLS else replace(problem, discrete=None)


class LowRankPredictions:
    """Predictions of a low-rank model.

    Cells are taken a block at a time; those of a block may lie anywhere.
    """

    def __init__(self, estimate: LowRank, rule: SymbolRule, log_odds: SymbolLogOdds) -> None:
        self.estimate, self._decider, self._habits = estimate, rule, log_odds
        self._left = np.ascontiguousarray(estimate.U * estimate.s)
        self._right = np.ascontiguousarray(estimate.V)
        self._ones = np.ones(estimate.rank, estimate.dtype)

    def mean(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """The estimates at cells; only the factors of these rows and columns are touched."""
        rows, cols = np.asarray(rows), np.asarray(cols)
        if not rows.size:
            return np.zeros(0)
        top, left = rows.min(), cols.min()
        U, V = self._left[top : rows.max() + 1], self._right[left : cols.max() + 1]
        if U.shape[0] <= V.shape[0]:  # `entries` copies the first factor
            return LowRank(U, self._ones, V).entries(rows - top, cols - left)
        return LowRank(V, self._ones, U).entries(cols - left, rows - top)

    def proba(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Probabilities of the symbols in ascending order, at cells of columns with one alphabet."""
        rows, cols = np.asarray(rows), np.asarray(cols)
        groups = np.unique(self._decider.book.which[cols]) if cols.size else np.zeros(1, dtype=np.intp)
        if groups.size != 1 or groups[0] < 0:
            raise ValueError("probabilities are had for columns with one and the same alphabet at a time")
        group = int(groups[0])
        size = len(self._decider.usual[group])
        out = np.empty((rows.size, size))
        for start, stop in cut(rows.size, BLOCK_CELLS):
            r, c = rows[start:stop], cols[start:stop]
            out[start:stop] = self._decider.proba(group, r, c, self.mean(r, c), self._habits)
        return out


def in_units(observed: Observations, scale: Array) -> Observations:
    """The observations in the units of a model."""
    return observed if (scale == 1).all() else observed.with_values(observed.values / scale[observed.cols])
