"""A run of a sampler: burn-in, kept draws, and when to stop."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.posterior._answers import Completed, CovarianceAnswers, LowRankAnswers
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._covariance import CovarianceChain, CovarianceDraw
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._low_rank import Chain, Draw
from snapimpute.posterior._table import Frame
from snapimpute.posterior.fit import PosteriorFit, Sweep
from snapimpute.solvers import Status

LOOK_EVERY = 30
"""Sweeps between two looks at the Monte Carlo error."""

MONTE_CARLO_ERROR = 0.006
"""Root mean square that the Monte Carlo error of a probability may have where the sweeps are chosen."""

WATCHED, BATCHES = 200, 10
"""Cells whose probabilities tell the Monte Carlo error, and batches of draws that it is computed from."""

KEPT_BYTES = 1 << 28
"""Memory of all kept draws at most; then every second one goes."""

FEWEST_DRAWS = 20
TABLE_EVERY = 8
"""A completed table is kept after so many sweeps: those in a row are alike."""

RESUME_AT, RESUME_BURN_IN = 20, 15
"""Number of sweeps that a chain counts as made when it goes on from a draw, and those until draws are kept."""

Callback = Callable[[Sweep], Any]


class Run(ABC):
    """The loop that both covariances share."""

    def __init__(
        self, frame: Frame, observations: Observations, sweeps: int, burn_in: int, *, until_exact: bool, seed: int
    ) -> None:
        self.frame, self.observations, self.sweeps, self.burn_in = frame, observations, sweeps, burn_in
        self.until_exact, self.history = until_exact, list[Sweep]()
        rng = np.random.default_rng(seed)
        self.rows, self.cols = (rng.integers(0, size, WATCHED) for size in observations.shape)
        symbols = frame.levels[self.cols] > 0
        self.rows, self.cols = self.rows[symbols], self.cols[symbols]
        self.watched: list[Array] = []

    @abstractmethod
    def resume(self, draw: Any) -> None:
        """Go on from a draw of a smaller table, with a short burn-in."""

    @abstractmethod
    def sweep(self, number: int) -> float:
        """Make a sweep, keep what it gives after the burn-in; the log-likelihood, NaN if unknown."""

    @abstractmethod
    def answers(self) -> Any:
        """Everything kept."""

    @property
    @abstractmethod
    def kept(self) -> int:
        """Number of draws kept."""

    def finish(self, time_limit: float | None, callback: Callback | None) -> PosteriorFit:
        """Sweep until the draws suffice, the time is over, or the user interrupts."""
        begun, status = time.perf_counter(), Status("max_iter", f"The {self.sweeps} sweeps are made.")
        try:
            for number in range(self.sweeps):
                likelihood = self.sweep(number)
                seconds = time.perf_counter() - begun
                after = number + 1 - self.burn_in
                error = self.error() if after > 0 and after % LOOK_EVERY == 0 else math.nan
                done = Sweep(number, likelihood, seconds, error)
                self.history.append(done)
                stopped = callback is not None and callback(done) is True
                over = time_limit is not None and seconds > time_limit
                if self.until_exact and error <= MONTE_CARLO_ERROR:
                    told = f"The Monte Carlo error of the probabilities fell to {error:.2g} in {number + 1} sweeps."
                    status = Status("converged", told)
                    break
                if (stopped or over) and self.kept >= FEWEST_DRAWS:
                    reason = "the callback asked for it" if stopped else "the time is over"
                    status = Status("stopped", f"Stopped after {number + 1} sweeps: {reason}.")
                    break
        except KeyboardInterrupt:
            if self.kept < FEWEST_DRAWS:
                raise
            told = f"Interrupted after {len(self.history)} sweeps; the {self.kept} draws so far are kept."
            status = Status("interrupted", told)
        return PosteriorFit(self.frame, self.answers(), self.observations, tuple(self.history), status)

    def error(self) -> float:
        """Root mean square of the standard errors of the averages, by batch means."""
        size = len(self.watched) // BATCHES
        if size == 0 or not self.rows.size:
            return math.inf
        last = np.stack(self.watched[-size * BATCHES :])
        means = last.reshape(BATCHES, size, *last.shape[1:]).mean(axis=1)
        return float(np.sqrt(np.mean(means.var(axis=0, ddof=1) / BATCHES)))


class LowRankRun(Run):
    """A run of the low-rank chain, whose draws are kept."""

    def __init__(self, chain: Chain, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.chain, self.every = chain, 1
        self._draws: list[Draw] = []

    def resume(self, draw: Draw) -> None:
        """Go on from a draw of a smaller table, with a short burn-in."""
        self.chain.resume(draw, RESUME_AT)
        self.burn_in = min(self.burn_in, RESUME_BURN_IN)
        self.chain.burn_in = RESUME_AT + self.burn_in

    @property
    def kept(self) -> int:
        """Number of draws kept."""
        return len(self._draws)

    def sweep(self, number: int) -> float:
        """Make a sweep and keep its draw."""
        self.chain.sweep()
        if number >= self.burn_in and (number - self.burn_in) % self.every == 0:
            draw, cells = self.chain.draw(), self.chain.cells
            self._draws.append(draw)
            self.watched.append(self._answers([draw], cells).probabilities(self.frame, self.rows, self.cols))
            if len(self._draws) > max(KEPT_BYTES // _size(draw), FEWEST_DRAWS):
                self._draws, self.every = self._draws[::2], 2 * self.every
        return self.chain.log_likelihood

    def _answers(self, draws: list[Draw], cells: Cells) -> LowRankAnswers:
        return LowRankAnswers(Draws.of(draws, cells.levels))

    def answers(self) -> LowRankAnswers:
        """All kept draws, stacked."""
        return self._answers(self._draws, self.chain.cells)


class CovarianceRun(Run):
    """A run of the chain with a full covariance: averages of all cells, and completed tables."""

    def __init__(self, chain: CovarianceChain, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.done = Completed(chain)
        self._before = np.zeros((self.rows.size, self.done.sums.shape[1]))

    def resume(self, draw: CovarianceDraw) -> None:
        """Go on from a draw of a smaller table, with a short burn-in."""
        self.burn_in = min(self.burn_in, RESUME_BURN_IN)
        self.done.chain.burn_in = RESUME_AT + self.burn_in
        self.done.chain.resume(draw, RESUME_AT)

    @property
    def kept(self) -> int:
        """Number of sweeps that were added up."""
        return self.done.count

    def sweep(self, number: int) -> float:
        """Make a sweep, add up its probabilities, keep a table now and then."""
        if number < self.burn_in:
            self.done.chain.sweep()
            return math.nan
        self.done.sweep()
        total = self.done.sums[self.cols, :, self.rows].astype(np.float64)
        self.watched.append(total - self._before)
        self._before = total
        if (number - self.burn_in) % TABLE_EVERY == 0:
            self.done.keep()
        return math.nan

    def answers(self) -> CovarianceAnswers:
        """Averages, tables and draws."""
        return self.done.answers()


def _size(draw: Draw) -> int:
    return sum(part.nbytes for part in vars(draw).values() if isinstance(part, np.ndarray))
