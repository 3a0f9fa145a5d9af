"""A fitted posterior: what the draws say of cells, of new rows, of whole tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.posterior._covariance import SETTLE, CovarianceChain, CovarianceDraw
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._features import MaskMap
from snapimpute.posterior._fold_in import fold_in
from snapimpute.posterior._low_rank import ThresholdPrior
from snapimpute.posterior._table import Frame
from snapimpute.posterior._units import UnitPrior
from snapimpute.solvers import Status

FOLD_DRAWS = 60
"""Draws that new rows are folded into."""

MADE = Status("max_iter", "All sweeps are made.")
LEAST = 1e-6
"""Probability that a symbol has at least: some hundred draws cannot tell a smaller one."""

MOST_CELLS = 100_000_000
"""Completed cells that `PosteriorFit.draw` returns at most."""


@stored("posterior sweep", "number", "log_likelihood", "seconds", "error")
@dataclass(frozen=True)
class Sweep:
    """A sweep that has been made.

    ``error`` is the Monte Carlo error of the probabilities so far; NaN where nobody looked.
    """

    number: int
    log_likelihood: float
    seconds: float
    error: float


class Answers(Protocol):
    """Answers that a covariance gives: probabilities, means and joint draws of cells of its table."""

    def probabilities(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Probability of each symbol, one row a cell."""

    def centers(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Mean of the latent values."""

    def folded(self, frame: Frame, observations: Observations, seed: int) -> Answers:
        """Answers for new rows, by their known cells."""

    def joint(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any], count: int, seed: int) -> Array:
        """Symbols (numbers, in columns of these) of the cells in ``count`` joint draws, one row a draw."""


@stored("low-rank answers", "draws")
@dataclass(frozen=True, eq=False)
class LowRankAnswers:
    """Answers of the low-rank covariance."""

    draws: Draws

    def _units(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return (rows, cols) if frame.by_rows else (cols, rows)

    def probabilities(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Probability of each symbol, averaged over the draws."""
        return self.draws.probabilities(*self._units(frame, rows, cols))

    def centers(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Mean of the latent values."""
        mean: Array = self.draws.predictors(*self._units(frame, rows, cols)).mean(axis=0)
        return mean

    def folded(self, frame: Frame, observations: Observations, seed: int) -> LowRankAnswers:
        """Answers for new rows."""
        given = frame.cells(observations), frame.mask.features(observations)
        return LowRankAnswers(fold_in(self.draws.thinned(FOLD_DRAWS), *given, raters=frame.by_rows, seed=seed))

    def joint(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any], count: int, seed: int) -> Array:
        """Draw the cells from evenly spaced draws of the parameters, one for each table."""
        rater, item = self._units(frame, rows, cols)
        chosen = np.linspace(0, len(self.draws) - 1, count).round().astype(np.intp)
        rng = np.random.default_rng(seed)
        out = np.empty((count, rows.size), np.float32)
        plain = self.draws.levels[rater] == 0
        for place, number in enumerate(chosen.tolist()):
            draw = self.draws[number]
            a, b = draw.raters[rater], draw.items[item]
            z = a[:, 0] + b[:, 0] + np.einsum("ij,ij->i", a[:, 1:], b[:, 1:])
            z += rng.standard_normal(z.size) / np.sqrt(draw.rater_noise[rater] * draw.item_noise[item])
            bounds = draw.factors[item][:, None] * draw.thresholds[rater]
            out[place] = np.where(plain, z, (z[:, None] > bounds).sum(axis=1))
        return out


@stored("covariance answers", "sums", "means", "tables", "missing", "draws")
@dataclass(frozen=True, eq=False)
class CovarianceAnswers:
    """Answers of the full covariance: averages for all cells, completed tables, and draws for new rows.

    ``sums`` has a row of probabilities for each symbol of each column, ``tables``
    the missing cells of each kept draw, in the order of ``missing`` (row·columns + column).
    """

    sums: Array
    means: Array
    tables: Array
    missing: NDArray[np.int64]
    draws: tuple[CovarianceDraw, ...]

    def probabilities(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Probability of each symbol given all other cells of the row, averaged over the draws."""
        p = self.sums[cols, :, rows]
        total: Array = p / p.sum(axis=1, keepdims=True)
        return total

    def centers(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Mean of the latent values given all other cells of the row."""
        found: Array = self.means[cols, rows]
        return found

    def folded(self, frame: Frame, observations: Observations, seed: int) -> CovarianceAnswers:
        """Answers for new rows."""
        columns, numbers = frame.columns(observations)
        return covariance_answers(CovarianceChain(observations.shape, columns, numbers, seed=seed), self.draws)

    def joint(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any], count: int, seed: int) -> Array:
        """Give the cells in evenly spaced completed tables; only missing cells were drawn."""
        cells = rows * np.int64(len(self.sums)) + cols
        place = np.searchsorted(self.missing, cells)
        if (place == self.missing.size).any() or (
            self.missing[np.minimum(place, self.missing.size - 1)] != cells
        ).any():
            raise ValueError("draw completes missing cells: some of the cells asked for were observed")
        if count > len(self.tables):
            raise ValueError(f"{count} tables were asked for, and {len(self.tables)} were kept: fit with more sweeps")
        chosen = np.linspace(0, len(self.tables) - 1, count).round().astype(np.intp)
        found: Array = self.tables[chosen][:, place]
        return found


class Completed:
    """Sums over the sweeps of a full covariance: probabilities and means of all cells, completed tables."""

    def __init__(self, chain: CovarianceChain) -> None:
        self.chain, self.count = chain, 0
        p, m = len(chain.columns), chain.rows
        self.sums = np.zeros((p, max(int(chain.levels.max(initial=0)), 1), m), np.float32)
        self.means = np.zeros((p, m), np.float32)
        flat = np.concatenate([column.missing * p + j for j, column in enumerate(chain.columns)])
        self.order = np.argsort(flat)
        self.missing = flat[self.order]
        self.tables: list[Array] = []
        self.draws: list[CovarianceDraw] = []

    def sweep(self) -> None:
        """Make a sweep and add it up."""
        self.chain.sweep(self.sums, self.means)
        self.count += 1

    def keep(self) -> None:
        """Keep the completed table and the parameters of the last sweep."""
        chain, found = self.chain, []
        for j, column in enumerate(chain.columns):
            z = chain.z[j, column.missing]
            if column.levels:
                z = np.searchsorted(chain.thresholds[j, 1 : column.levels], z).astype(np.float32)
            found.append(z)
        self.tables.append(np.concatenate(found)[self.order])
        self.draws.append(chain.draw())

    def answers(self) -> CovarianceAnswers:
        """Return averages, tables and draws."""
        means = self.means / np.float32(max(self.count, 1))
        return CovarianceAnswers(self.sums, means, np.stack(self.tables), self.missing, tuple(self.draws))


def covariance_answers(chain: CovarianceChain, draws: tuple[CovarianceDraw, ...]) -> CovarianceAnswers:
    """Complete rows under the parameters of each draw in turn."""
    done = Completed(chain)
    chain.take(draws[0])
    for _ in range(SETTLE):
        chain.sweep()
    for draw in draws:
        chain.take(draw)
        done.sweep()
        done.keep()
    return done.answers()


@stored("posterior fit", "frame", "answers", "observations", "history", "status")
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
    """

    frame: Frame
    answers: Any
    observations: Observations
    history: tuple[Sweep, ...] = field(repr=False, default=())
    status: Status = MADE

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
        """Return the expected value at the cells.

        Parameters
        ----------
        rows, cols
            As in `proba`.
        """
        r, c = self._cells(rows, cols)
        out = np.full(r.size, np.nan)
        for kind, alphabet in enumerate(self.frame.schema.kinds):
            inside = np.flatnonzero(self.frame.schema.which[c] == kind)
            if not inside.size:
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

        Parameters
        ----------
        count : int
        rows, cols : array of int, optional
            Cells to draw; all missing ones, row by row, if not given.
        random_state : int
        """
        r, c = self.missing() if rows is None or cols is None else self._cells(rows, cols)
        drawn: Array = self.answers.joint(self.frame, r, c, count, random_state).astype(np.float64)
        for kind, alphabet in enumerate(self.frame.schema.kinds):
            inside = self.frame.schema.which[c] == kind
            if alphabet is not None:
                drawn[:, inside] = alphabet.symbols[drawn[:, inside].astype(np.intp)]
            else:
                drawn[:, inside] = self.frame.centers[c[inside]] + self.frame.scales[c[inside]] * drawn[:, inside]
        return drawn

    def fold_in(self, observations: Observations, *, random_state: int = 0) -> PosteriorFit:
        """Return the answers for new rows with the same columns, by their known cells.

        Parameters
        ----------
        observations : Observations
            Of the new rows.
        random_state : int
        """
        if observations.shape[1] != self.observations.shape[1]:
            raise ValueError(
                f"the new rows have {observations.shape[1]} columns, the fitted table {self.observations.shape[1]}: "
                f"give the same columns in the same order"
            )
        return PosteriorFit(
            self.frame, self.answers.folded(self.frame, observations, random_state), observations, (), self.status
        )


POSTERIOR_KINDS: tuple[type, ...] = (
    CovarianceAnswers,
    CovarianceDraw,
    Draws,
    Frame,
    LowRankAnswers,
    MaskMap,
    PosteriorFit,
    Sweep,
    ThresholdPrior,
    UnitPrior,
)
"""Classes of a fit that stand in files."""
