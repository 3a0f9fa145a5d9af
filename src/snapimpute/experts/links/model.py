"""Links as an expert: its parameters, and the fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from snapimpute.base.clock import Clock
from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.expert import Expert
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.boosting import BoostedTrees
from snapimpute.experts.links._square import MOST_SYMBOLS, Square, Symmetric, schema_of
from snapimpute.experts.links._training import Lesson
from snapimpute.experts.links.fit import MADE, LinksDiagnostics, LinksFit, LinksStep
from snapimpute.solvers import Status

RATE, L2, PATIENCE = 0.06, 20.0, 20
"""Share of the best value that a leaf adds, curvature added to it, and rounds without gain that end a set."""

LEAST_CELLS = 20
"""Cells of a leaf at least, where there are enough."""


@stored("links", "folds", "rounds", "sets", "leaves", "cells", "random_state")
@dataclass(frozen=True)
class Links(Expert):
    """Links between things that are both the rows and the columns of a table: friends, blogs, countries that trade.

    Boosted trees learn from the known cells what degrees, the mirror cell, common neighbours, paths and factors say
    of a pair. Each known cell is hidden from its own features: they come from the other folds.

    Parameters
    ----------
    folds : int
        Parts of the known cells; each is hidden in turn.
    rounds : int
        Rounds of boosting at most; cells of one fold decide how many.
    sets : int
        Sets of trees whose probabilities are averaged; each leaves out another fold.
    leaves : int
        Leaves of a tree.
    cells : int
        Known cells that trees are taught on, at most: all of the rare symbols, if they are few, and a sample of
        the common ones.
    random_state : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> groups = np.arange(40) % 2
    >>> links = (rng.random((40, 40)) < np.where(groups[:, None] == groups, 0.5, 0.1)).astype(float)
    >>> links[rng.random((40, 40)) < 0.2] = np.nan
    >>> fit = Links(folds=3, sets=1).fit(Observations.from_dense(links), "0,1")
    >>> fit.proba([0, 0], [2, 3]).shape
    (2, 2)
    """

    name: ClassVar[str] = "links"

    folds: int = 10
    rounds: int = 400
    sets: int = 2
    leaves: int = 15
    cells: int = 250_000
    random_state: int = 0

    def takes(self, alphabet: Alphabet | None) -> bool:
        """Take alphabets of at most eight symbols."""
        return alphabet is not None and len(alphabet) <= MOST_SYMBOLS

    def objection(self, observations: Observations, schema: ColumnSchema) -> str | None:
        """Object to tables whose rows and columns cannot be the same things."""
        m, n = observations.shape
        return None if m == n and schema.one is not None else "rows and columns are not the same things"

    def brief(self) -> Links:
        """Return the expert with one set of trees."""
        return replace(self, sets=1)

    def fit(
        self,
        observations: Observations,
        alphabet: AlphabetLike | ColumnSchema,
        *,
        symmetric: Symmetric = "auto",
        row_features: Any = None,
        column_features: Any = None,
        time_limit: float | None = None,
        callback: Callable[[LinksStep], Any] | None = None,
        progress: Callable[[Any], Any] | None = None,
    ) -> LinksFit:
        """Fit to the known cells of a square table.

        Parameters
        ----------
        observations : Observations
        alphabet : Alphabet, what makes one, or ColumnSchema
            One alphabet for all columns, of at most eight symbols.
        symmetric : bool or "auto"
            True if a cell and its mirror are one cell; "auto" finds out by the known cells.
        row_features, column_features : None
            Refused: links use no features.
        time_limit : float, optional
            Seconds after which the trees so far are kept.
        callback : callable, optional
            Called with a `LinksStep` after each set of trees; True ends the fit.
        progress : callable, optional
            As other experts take it; never called, as nothing is chosen by short runs.
        """
        clock = Clock(time_limit)
        self._check(symmetric, row_features, column_features)
        schema = schema_of(alphabet, observations.shape)
        assert schema.one is not None  # noqa: S101  # schema_of refuses others
        square = Square.of(observations, schema.one, symmetric)
        if not square.codes.size:
            told = "links need known cells off the diagonal, and there are none"
            raise ArgumentError("observations", observations, told)
        folds = max(min(self.folds, square.codes.size), 1)
        lesson = Lesson.of(square, folds, self.cells, self.random_state, clock)
        trees, history, status = self._taught(lesson, clock, callback)
        tried = [lesson.losses(one, lesson.held(step.number)) for one, step in zip(trees, history, strict=True)]
        loss, baseline = np.mean(tried, axis=0).tolist()
        diagnostics = LinksDiagnostics(square.symmetric, folds, lesson.codes.size, loss, baseline)
        return LinksFit(schema, observations, square.symmetric, trees, lesson.weights, history, status, diagnostics)

    def _taught(
        self, lesson: Lesson, clock: Clock, callback: Callable[[LinksStep], Any] | None
    ) -> tuple[tuple[BoostedTrees, ...], tuple[LinksStep, ...], Status]:
        """Fit sets of trees; each chooses its rounds on another fold."""
        trees: list[BoostedTrees] = []
        history: list[LinksStep] = []
        stopped = False
        for number in range(min(self.sets, int(lesson.folds.max()) + 1)):
            if stopped or (trees and clock.over):
                break
            trees.append(self._set(lesson, number, clock))
            loss, _ = lesson.losses(trees[-1], lesson.held(number))
            history.append(LinksStep(number, trees[-1].rounds, loss, clock.seconds))
            stopped = callback is not None and bool(callback(history[-1]))
        status = MADE
        if stopped or clock.over:
            reason = "by the callback" if stopped else "as the time was over"
            status = Status("stopped", f"Stopped after {len(trees)} of {self.sets} sets of trees, {reason}.")
        return tuple(trees), tuple(history), status

    def _set(self, lesson: Lesson, number: int, clock: Clock) -> BoostedTrees:
        """Fit one set of trees; a fold decides how many."""
        held = lesson.held(number)
        return BoostedTrees.fit(
            lesson.features,
            lesson.codes,
            symbols=lesson.weights.size,
            rounds=self.rounds,
            learning_rate=RATE,
            l2=L2,
            leaves=self.leaves,
            least=max(min(LEAST_CELLS, lesson.codes.size // 20), 1),
            validation=held if held.size < lesson.codes.size else None,
            patience=PATIENCE,
            clock=clock,
        )

    def _check(self, symmetric: Symmetric, row_features: Any, column_features: Any) -> None:
        for name, least in (("folds", 2), ("rounds", 1), ("sets", 1), ("leaves", 2), ("cells", 100)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
                raise ArgumentError.must(name, value, f"be a whole number, at least {least}")
        if not (symmetric == "auto" or isinstance(symmetric, bool)):
            raise ArgumentError.must("symmetric", symmetric, 'be True, False or "auto"')
        for name, given in (("row_features", row_features), ("column_features", column_features)):
            if given is not None:
                raise ArgumentError(name, given, f"links use no features of rows or columns: leave {name} out")
