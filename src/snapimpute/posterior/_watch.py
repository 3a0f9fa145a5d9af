"""Random cells that a run watches: from their probabilities in each draw follows how exact the averages are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.posterior._answers import Answers
from snapimpute.posterior._table import Frame, numbers_of

WATCHED, BATCHES = 200, 10
"""Cells that are watched, and batches of the draws of a chain that the Monte Carlo error is computed from."""

LEAST = 1e-6
"""Probability that a symbol counts with at least."""

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

    def precision(self, chains: list[Array]) -> Precision:
        """Return how exact the averages over all draws are; each chain is an array of shape (draws, values)."""
        variances = variances_of_means(chains)
        if not variances.size:
            return Precision(math.inf, math.inf)
        error, plain = float(np.sqrt(variances.mean())), variances.size - self.plain_rows.size
        means = np.mean([chain.mean(axis=0) for chain in chains], axis=0)
        losses = variances[:plain] / np.maximum(means[:plain], LEAST)
        cells = self.rows.size + self.plain_rows.size
        return Precision(error, float((losses.sum() + variances[plain:].sum()) / (2 * cells)))


class Precision(NamedTuple):
    """Monte Carlo error of a probability, as a root mean square, and the log loss that it costs on average.

    An average p̂ over draws that is off by δ costs Σ δ²/2p̂ over the symbols of a cell, to second order. A plain number
    costs δ²/2, in standard deviations of its column.
    """

    error: float
    excess: float


def variances_of_means(chains: list[Array]) -> Array:
    """Return the variance of each average over all draws, by means of batches.

    Infinite where there are fewer draws than batches.
    """
    size = min(len(chain) for chain in chains) // BATCHES
    if size == 0:
        return np.full(chains[0].shape[1], np.inf)
    means = [chain[-size * BATCHES :].reshape(BATCHES, size, -1).mean(axis=1) for chain in chains]
    batches = np.concatenate(means).astype(np.float64)
    found: Array = batches.var(axis=0, ddof=1) / len(batches)
    return found
