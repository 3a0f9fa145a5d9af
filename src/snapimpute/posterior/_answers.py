"""Answers that each covariance gives: probabilities, means and joint draws of the cells of its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.posterior._covariance import SETTLE, CovarianceChain, CovarianceDraw
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._fold_in import fold_in
from snapimpute.posterior._table import Frame

FOLD_DRAWS = 60
"""Draws that new rows are folded into."""


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
