"""Random cells that a run watches: from their probabilities in each draw follows how exact the averages are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.posterior._answers import Answers
from snapimpute.posterior._table import Frame, numbers_of

WATCHED, BATCHES = 200, 10
"""Cells that are watched, and batches of the draws of a chain that the Monte Carlo error is computed from."""

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Watch:
    """Cells of columns with symbols, and of columns of plain numbers."""

    frame: Frame
    rows: Positions
    cols: Positions
    plain_rows: Positions
    plain_cols: Positions

    @classmethod
    def of(cls, frame: Frame, observations: Observations, seed: int) -> Watch:
        """Choose cells at random, known or missing."""
        rng = np.random.default_rng(seed)
        rows, cols = (rng.integers(0, size, WATCHED) for size in observations.shape)
        symbols, plain = frame.levels[cols] > 0, numbers_of(frame.schema)[cols]
        return cls(frame, rows[symbols], cols[symbols], rows[plain], cols[plain])

    def values(self, answers: Answers) -> Array:
        """Return the probabilities of all symbols at the cells, then the means of plain numbers."""
        parts = [np.zeros(0, np.float32)]
        if self.rows.size:
            parts.append(answers.probabilities(self.frame, self.rows, self.cols).ravel())
        if self.plain_rows.size:
            parts.append(answers.centers(self.frame, self.plain_rows, self.plain_cols))
        return np.concatenate(parts)

    def by_cell(self, values: Array) -> Array:
        """Return one number for each cell, the expected place of the symbol; the last axis has the values."""
        plain = values.shape[-1] - self.plain_rows.size
        p = values[..., :plain].reshape(*values.shape[:-1], self.rows.size, -1) if self.rows.size else None
        means = np.zeros((*values.shape[:-1], 0)) if p is None else p @ np.arange(p.shape[-1])
        return np.concatenate([means, values[..., plain:]], axis=-1)


def monte_carlo_error(chains: list[Array]) -> float:
    """Root mean square of the standard errors of the averages over all draws, by means of batches.

    Each chain is an array of shape (draws, values). Infinite where there are fewer draws than batches.
    """
    size = min(len(chain) for chain in chains) // BATCHES
    if size == 0 or not chains[0].shape[1]:
        return float("inf")
    means = [chain[-size * BATCHES :].reshape(BATCHES, size, -1).mean(axis=1) for chain in chains]
    batches = np.concatenate(means)
    return float(np.sqrt(np.mean(batches.var(axis=0, ddof=1) / len(batches))))
