"""A fitted posterior: what the draws say of cells, of new rows, of whole tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.files import stored
from snapimpute.base.machine import seconds_in_words
from snapimpute.base.types import Array
from snapimpute.data.alphabet import AlphabetLike
from snapimpute.data.observations import Observations
from snapimpute.posterior._answers import KEPT_LINKS, Answers, CovarianceAnswers, LowRankAnswers
from snapimpute.posterior._cold import ColdLevels
from snapimpute.posterior._completion import Completion
from snapimpute.posterior._covariance import CovarianceDraw
from snapimpute.posterior._draw import ThresholdPrior
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._features import MaskMap, SideMap
from snapimpute.posterior._given import Given
from snapimpute.posterior._links import Links
from snapimpute.posterior._table import Frame
from snapimpute.posterior._units import UnitPrior
from snapimpute.posterior.diagnostics import Candidate, Diagnostics
from snapimpute.solvers import Status

MADE = Status("max_iter", "All sweeps are made.")
LEAST = 1e-6
"""Probability that a symbol has at least: some hundred draws cannot tell a smaller one."""

MOST_CELLS = 100_000_000
"""Cells that `PosteriorFit.draw` returns at most, and that `missing` lists."""


@stored("posterior sweep", "number", "log_likelihood", "seconds", "error", "excess", "left")
@dataclass(frozen=True)
class Sweep:
    """A sweep that has been made, of all chains.

    Attributes
    ----------
    number : int
        Sweeps before.
    log_likelihood : float
        Of the known cells, the average over chains; with a full covariance each cell is given all others of its row.
    seconds : float
        Since the fit began.
    error : float
        Monte Carlo error of the probabilities so far; NaN where nobody looked.
    excess : float
        Log loss that more draws could still win; NaN where nobody looked.
    left : float
        Seconds that the run will still take, about.
    """

    number: int
    log_likelihood: float
    seconds: float
    error: float
    excess: float = math.nan
    left: float = math.nan

    def __str__(self) -> str:
        error = "" if math.isnan(self.error) else f", Monte Carlo error {self.error:.4f}"
        left = "" if math.isnan(self.left) else f", about {seconds_in_words(self.left)} left"
        return f"sweep {self.number + 1}: log-likelihood {self.log_likelihood:,.1f}{error}{left}"


@stored("posterior fit", "frame", "answers", "observations", "history", "status", "completion", "diagnostics")
@dataclass(frozen=True, eq=False)
class PosteriorFit:
    """Draws from a posterior, and what they say of any cell.

    Attributes
    ----------
    frame : Frame
        The columns of the table, and which side has thresholds.
    answers : LowRankAnswers or CovarianceAnswers
    observations : Observations
    history : tuple of Sweep
    status : Status
        Reason why the run ended.
    completion : Completion or None
        Draws completed tables in place of the answers.
    diagnostics : Diagnostics or None
        Figures that tell if the run has settled; None after `fold_in`.
    """

    frame: Frame
    answers: Any
    observations: Observations
    history: tuple[Sweep, ...] = field(repr=False, default=())
    status: Status = MADE
    completion: Completion | None = None
    diagnostics: Diagnostics | None = None

    def proba(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the probability of each symbol at the cells, one row a cell; the columns must share an alphabet.

        Parameters
        ----------
        rows, cols : int or array of int
            Zero-based positions.
        """
        r, c = self._cells(rows, cols)
        kinds = np.unique(self.frame.schema.which[c])
        alphabet = self.frame.schema.kinds[kinds[0]] if kinds.size == 1 and kinds[0] >= 0 else None
        if alphabet is None:
            raise ValueError("proba needs cells of columns with one alphabet: ask for each kind of columns apart")
        return self._probabilities(r, c, len(alphabet))

    def _probabilities(self, rows: NDArray[Any], cols: NDArray[Any], symbols: int) -> Array:
        p = np.maximum(self.answers.probabilities(self.frame, rows, cols)[:, :symbols].astype(np.float64), LEAST)
        out: Array = p / p.sum(axis=1, keepdims=True)
        return out

    def mean(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the expected value at the cells; NaN in columns of categories without order.

        Parameters
        ----------
        rows, cols
            As in `proba`.

        Raises
        ------
        ValueError
            If all cells are in columns of categories without order.
        """
        r, c = self._cells(rows, cols)
        out = np.full(r.size, np.nan)
        if r.size and self.frame.schema.nominal[c].all():
            raise ValueError("categories without order have no mean: ask proba for their probabilities")
        for kind, alphabet in enumerate(self.frame.schema.kinds):
            inside = np.flatnonzero(self.frame.schema.which[c] == kind)
            if not inside.size or (alphabet is not None and not alphabet.ordered):
                continue
            if alphabet is not None:
                out[inside] = self._probabilities(r[inside], c[inside], len(alphabet)) @ alphabet.symbols
            else:
                eta = self.answers.centers(self.frame, r[inside], c[inside])
                out[inside] = self.frame.centers[c[inside]] + self.frame.scales[c[inside]] * eta
        return out

    def entries(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the expected value at the cells, as `solve`'s results do."""
        return self.mean(rows, cols)

    def _cells(self, rows: ArrayLike, cols: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        r, c = np.broadcast_arrays(np.atleast_1d(rows), np.atleast_1d(cols))
        for index, size, name in ((r, self.observations.shape[0], "rows"), (c, self.observations.shape[1], "cols")):
            if index.size and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= size):
                raise ValueError(
                    f"{name} must be whole numbers between 0 and {size - 1}, positions in the fitted table"
                )
        return r.ravel().astype(np.intp), c.ravel().astype(np.intp)

    def missing(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return rows and columns of all cells that were not observed, row by row."""
        m, n = self.observations.shape
        if m * n > MOST_CELLS:
            raise ValueError(f"the table has {m * n:,} cells, too many to list: name the rows and cols to draw")
        hidden = np.ones((m, n), dtype=bool)
        hidden[self.observations.rows, self.observations.cols] = False
        rows, cols = np.nonzero(hidden)
        return rows, cols

    def draw(
        self, count: int, rows: ArrayLike | None = None, cols: ArrayLike | None = None, *, random_state: int = 0
    ) -> Array:
        """Return completed cells, jointly drawn: one row for each of ``count`` tables.

        Cells that were observed keep their values. A regression on the tables needs the links between its columns:
        `kept_links` tells which ones are kept. Each table has parameters of its own, as long as there are that
        many; a fit with more sweeps has more.

        Parameters
        ----------
        count : int
        rows, cols : array of int, optional
            Cells to draw; all missing ones, row by row, if not given.
        random_state : int
        """
        r, c = self._asked(rows, cols)
        if count * r.size > MOST_CELLS:
            raise ValueError(
                f"{count} tables of {r.size:,} cells are too many to hold: take them one by one from iter_draws"
            )
        drawn = list(self.iter_draws(count, r, c, random_state=random_state))
        return np.array(drawn)

    @property
    def kept_links(self) -> str:
        """Tell which links between columns the tables of `draw` keep, in a sentence."""
        told: str = self.answers.kept_links if self.completion is None else KEPT_LINKS
        return told

    def iter_draws(
        self, count: int, rows: ArrayLike | None = None, cols: ArrayLike | None = None, *, random_state: int = 0
    ) -> Iterator[Array]:
        """Give the tables of `draw` one by one, so that only one of them is in memory.

        Parameters
        ----------
        count, rows, cols, random_state
            As in `draw`.
        """
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
            raise ValueError(f"count must be a whole number of tables, at least 1, got {count!r}")
        return self._completed(*self._asked(rows, cols), int(count), random_state)

    def _asked(self, rows: ArrayLike | None, cols: ArrayLike | None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Cells that a draw is asked for."""
        if rows is None and cols is None:
            return self.missing()
        if rows is None or cols is None:
            raise ValueError("rows and cols belong together: give both, or neither for all missing cells")
        return self._cells(rows, cols)

    def _completed(self, rows: NDArray[np.intp], cols: NDArray[np.intp], count: int, seed: int) -> Iterator[Array]:
        """Give the cells of each table: known values, and drawn symbols in the units of their columns."""
        known, values = self._known(rows, cols)
        r, c = rows[~known], cols[~known]
        for found in self._completing.joint(self.frame, self.observations, r, c, count, seed):
            drawn = found.astype(np.float64)
            for kind, alphabet in enumerate(self.frame.schema.kinds):
                inside = self.frame.schema.which[c] == kind
                if alphabet is not None:
                    drawn[inside] = alphabet.symbols[drawn[inside].astype(np.intp)]
                else:
                    drawn[inside] = self.frame.centers[c[inside]] + self.frame.scales[c[inside]] * drawn[inside]
            out = values.copy()
            out[~known] = drawn
            yield out

    @cached_property
    def _completing(self) -> Answers:
        """Answers that tables are drawn from."""
        answers: Answers = self.answers
        return answers if self.completion is None else self.completion.answers(self.frame, self.observations)

    def _known(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> tuple[NDArray[np.bool_], Array]:
        """Tell which cells were observed, and their values."""
        observed = self.observations
        width = np.int64(observed.shape[1])
        cells = observed.rows * width + observed.cols  # in ascending order
        asked, out = rows * width + cols, np.full(rows.size, np.nan)
        place = np.minimum(np.searchsorted(cells, asked), max(cells.size - 1, 0))
        known = cells[place] == asked if cells.size else np.zeros(rows.size, dtype=bool)
        out[known] = observed.values[place[known]]
        return known, out

    def fold_in(self, observations: Observations, *, row_features: Any = None, random_state: int = 0) -> PosteriorFit:
        """Return the answers for new rows with the same columns, by their known cells and features.

        Parameters
        ----------
        observations : Observations
            Of the new rows.
        row_features : array, frame, sparse matrix or dict, optional
            Features of the new rows, as the fit had them; without any, the new rows count as average.
        random_state : int
        """
        if observations.shape[1] != self.observations.shape[1]:
            raise ValueError(
                f"the new rows have {observations.shape[1]} columns, the fitted table {self.observations.shape[1]}: "
                f"give the same columns in the same order"
            )
        frame = self.frame.with_rows(row_features, observations)
        answers = self.answers.folded(frame, observations, random_state)
        completion = None if self.completion is None else self.completion.of_new_rows(self.frame.row_side)
        return PosteriorFit(frame, answers, observations, (), self.status, completion)

    def fold_in_columns(
        self,
        observations: Observations,
        alphabet: AlphabetLike | None = None,
        *,
        column_features: Any = None,
        random_state: int = 0,
    ) -> PosteriorFit:
        """Return the answers for new columns across the same rows, by their known cells and features.

        Parameters
        ----------
        observations : Observations
            Of the new columns, in the rows of the fit.
        alphabet : Alphabet or what makes one, optional
            One of those of the fit; may be left out where all columns have the same.
        column_features : array, frame, sparse matrix or dict, optional
            Features of the new columns, as the fit had them.
        random_state : int
        """
        if observations.shape[0] != self.observations.shape[0]:
            raise ValueError(
                f"the new columns have {observations.shape[0]} rows, the fitted table {self.observations.shape[0]}: "
                f"give the same rows in the same order"
            )
        frame = self.frame.with_columns(alphabet, column_features, observations)
        answers = self.answers.folded_columns(frame, observations, random_state)
        return PosteriorFit(frame, answers, observations, (), self.status)


POSTERIOR_KINDS: tuple[type, ...] = (
    ColdLevels,
    Candidate,
    Completion,
    CovarianceAnswers,
    CovarianceDraw,
    Diagnostics,
    Draws,
    Frame,
    Given,
    Links,
    LowRankAnswers,
    MaskMap,
    PosteriorFit,
    SideMap,
    Sweep,
    ThresholdPrior,
    UnitPrior,
)
"""Classes of a fit that stand in files."""
