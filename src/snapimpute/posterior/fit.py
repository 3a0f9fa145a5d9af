"""A fitted posterior: what the draws say of cells, of new rows, of whole tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.machine import seconds_in_words
from snapimpute.base.types import Array
from snapimpute.data.alphabet import AlphabetLike
from snapimpute.data.answers import CellAnswers
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior._answers import KEPT_LINKS, Answers, CovarianceAnswers, LowRankAnswers
from snapimpute.posterior._cold import ColdLevels
from snapimpute.posterior._completion import Completion
from snapimpute.posterior._covariance import CovarianceDraw
from snapimpute.posterior._draw import ThresholdPrior
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._features import MaskMap, SideMap
from snapimpute.posterior._given import Given
from snapimpute.posterior._links import Links
from snapimpute.posterior._table import Frame, numbers_of
from snapimpute.posterior._units import UnitPrior
from snapimpute.posterior.diagnostics import Candidate, Diagnostics
from snapimpute.solvers import Status

MADE = Status("max_iter", "All sweeps are made.")


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
class PosteriorFit(CellAnswers):
    """Draws from a posterior, and what they say of any cell.

    Completed tables keep the links between columns that `kept_links` tells.

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

    @property
    def schema(self) -> ColumnSchema:
        """Content of each column."""
        return self.frame.schema

    @property
    def scale(self) -> Array:
        """Size of one unit of the model in each column."""
        return self.frame.scales

    @property
    def by_cells(self) -> bool:
        """Tell whether the known cells of a row are all that its answers depend on."""
        return not self.frame.row_side.given

    def knows(self, row_features: Any) -> bool:
        """Tell whether these are the features of the fitted rows."""
        known = self.frame.row_side.given
        if row_features is None:
            return True
        return np.array_equal(known.of(row_features, row_features.size, None).values, known.values)

    def _chances(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        found: Array = self.answers.probabilities(self.frame, rows, cols)
        return found

    def _numbers(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        found: Array = self.answers.centers(self.frame, rows, cols)
        return self._in_units(cols, found)

    def _in_units(self, cols: NDArray[np.intp], standardised: Array) -> Array:
        out: Array = self.frame.centers[cols] + self.frame.scales[cols] * standardised
        return out

    def _drawn(self, rows: NDArray[np.intp], cols: NDArray[np.intp], count: int, seed: int) -> Iterator[Array]:
        plain = numbers_of(self.schema)[cols]
        for found in self._completing.joint(self.frame, self.observations, rows, cols, count, seed):
            out = self._decoded(cols, found)
            out[plain] = self._in_units(cols[plain], out[plain])
            yield out

    @property
    def kept_links(self) -> str:
        """Tell which links between columns the tables of `draw` keep, in a sentence."""
        told: str = self.answers.kept_links if self.completion is None else KEPT_LINKS
        return told

    @cached_property
    def _completing(self) -> Answers:
        """Answers that tables are drawn from."""
        answers: Answers = self.answers
        return answers if self.completion is None else self.completion.answers(self.frame, self.observations)

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
