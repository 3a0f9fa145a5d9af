"""Answers that each covariance gives: probabilities, means and joint draws of the cells of its table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.posterior._cold import ColdLevels
from snapimpute.posterior._covariance import SETTLE, CovarianceChain, CovarianceDraw
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._fold_in import fold_in
from snapimpute.posterior._table import Frame

FOLD_DRAWS = 60
"""Draws that new rows are folded into."""

KEPT_LINKS = "The full covariance draws the tables: every link between two columns is kept."
"""Told of a fit that the full covariance completes."""

BETWEEN_TABLES = 8
"""Sweeps of the rows between two completed tables: latent values of sweeps in a row are alike."""


class Answers(Protocol):
    """Answers that a covariance gives: probabilities, means and joint draws of cells of its table."""

    def settled(self, frame: Frame, observations: Observations) -> Answers:
        """Return the answers with what follows from all draws together."""

    def probabilities(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Probability of each symbol, one row a cell."""

    def centers(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Mean of the latent values."""

    def folded(self, frame: Frame, observations: Observations, seed: int) -> Answers:
        """Answers for new rows, by their known cells."""

    def folded_columns(self, frame: Frame, observations: Observations, seed: int) -> Answers:
        """Answers for new columns, by their known cells."""

    def joint(
        self, frame: Frame, observations: Observations, rows: NDArray[Any], cols: NDArray[Any], count: int, seed: int
    ) -> Iterator[Array]:
        """Symbols (numbers, in columns of these) of missing cells in ``count`` joint draws, one at a time."""

    @property
    def kept_links(self) -> str:
        """Tell which links between columns joint draws keep, in a sentence."""


@stored("low-rank answers", "draws", "cold")
@dataclass(frozen=True, eq=False)
class LowRankAnswers:
    """Answers of the low-rank covariance; ``cold`` has what cells of new units without known cells get beside."""

    draws: Draws
    cold: ColdLevels | None = None

    def settled(self, frame: Frame, observations: Observations) -> LowRankAnswers:
        """Learn the levels of new units without a known cell."""
        cold = ColdLevels.learn(self.draws, frame.cells(observations), frame.cold_features())
        return LowRankAnswers(self.draws, cold)

    @cached_property
    def _seen(self) -> Draws:
        """Draws that answers come from."""
        return self.draws if self.cold is None else self.cold.added_to(self.draws)

    @property
    def kept_links(self) -> str:
        """Tell which links between columns joint draws keep, in a sentence."""
        blocks = [len(one.shared) for one in self.draws.links]
        told = "Low rank draws the tables: what only a few columns share may be lost"
        return f"{told}, except in {max(blocks)} blocks of linked columns." if max(blocks, default=0) else f"{told}."

    def _units(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return (rows, cols) if frame.by_rows else (frame.first_rater[cols], rows)

    def probabilities(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Probability of each symbol, averaged over the draws."""
        rater, item = self._units(frame, rows, cols)
        if not frame.categories.any():
            return self._seen.probabilities(rater, item)
        out = np.zeros((rows.size, int(frame.levels.max())), np.float32)
        ordered = np.flatnonzero(frame.categories[cols] == 0)
        p = self._seen.probabilities(rater[ordered], item[ordered])[:, : out.shape[1]]
        out[ordered, : p.shape[1]] = p
        for count, cells in frame.chosen(cols):
            out[cells, :count] = self._seen.choices(rater[cells], count, item[cells])
        return out

    def centers(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Mean of the latent values."""
        mean: Array = self._seen.predictors(*self._units(frame, rows, cols)).mean(axis=0)
        return mean

    def folded(self, frame: Frame, observations: Observations, seed: int) -> LowRankAnswers:
        """Answers for new rows."""
        features = frame.row_side.new_features(observations.rows, observations.cols).values
        return self._folded(frame, observations, features, seed, raters=frame.by_rows)

    def folded_columns(self, frame: Frame, observations: Observations, seed: int) -> LowRankAnswers:
        """Answers for new columns."""
        features = frame.column_side.new_features(observations.cols, observations.rows).values
        features = features if frame.by_rows else features[frame.raters]
        return self._folded(frame, observations, features, seed, raters=not frame.by_rows)

    def _folded(
        self, frame: Frame, observations: Observations, features: Array, seed: int, *, raters: bool
    ) -> LowRankAnswers:
        draws, cells = self.draws.thinned(FOLD_DRAWS), frame.cells(observations)
        folded = fold_in(draws, cells, features, raters=raters, seed=seed)
        if self.cold is None:
            return LowRankAnswers(folded)
        return LowRankAnswers(folded, self.cold.of_raters(cells) if raters else self.cold.of_items(cells))

    def joint(
        self, frame: Frame, observations: Observations, rows: NDArray[Any], cols: NDArray[Any], count: int, seed: int
    ) -> Iterator[Array]:
        """Draw the cells from evenly spaced draws of the parameters, one for each table."""
        rater, item = self._units(frame, rows, cols)
        chosen = [(rater[cells, None] + np.arange(categories), cells) for categories, cells in frame.chosen(cols)]
        for place, number in enumerate(spaced(len(self.draws), count, seed)):
            draw, rng = self._seen[number], np.random.default_rng((seed, place, 1))
            symbols = draw.symbols(self.draws.levels, rater, item, rng)
            for raters, cells in chosen:
                symbols[cells] = draw.choices(raters, item[cells], rng)
            yield symbols


@stored("covariance answers", "sums", "means", "draws")
@dataclass(frozen=True, eq=False)
class CovarianceAnswers:
    """Answers of the full covariance: averages for all cells, and draws of the parameters for completed rows.

    ``sums`` has a row of probabilities for each symbol of each column.
    """

    sums: Array
    means: Array
    draws: tuple[CovarianceDraw, ...]

    @property
    def kept_links(self) -> str:
        """Tell which links between columns joint draws keep, in a sentence."""
        return KEPT_LINKS

    def settled(self, frame: Frame, observations: Observations) -> CovarianceAnswers:
        """Return the answers as they are."""
        return self

    def probabilities(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Probability of each symbol given all other cells of the row, averaged over the draws."""
        p = self.sums[frame.latent[cols], :, rows]
        total: Array = p / p.sum(axis=1, keepdims=True)
        return total

    def centers(self, frame: Frame, rows: NDArray[Any], cols: NDArray[Any]) -> Array:
        """Mean of the latent values given all other cells of the row."""
        found: Array = self.means[frame.latent[cols], rows]
        return found

    def folded(self, frame: Frame, observations: Observations, seed: int) -> CovarianceAnswers:
        """Answers for new rows."""
        return covariance_answers(frame.covariance_chain(observations, seed=seed), self.draws)

    def folded_columns(self, frame: Frame, observations: Observations, seed: int) -> CovarianceAnswers:
        """Refuse: the covariance of a new column with the others is not known."""
        raise ValueError(
            "a full covariance takes no new columns, for it does not know how they go with the others: "
            'fit with them, or with covariance="low-rank"'
        )

    def joint(
        self, frame: Frame, observations: Observations, rows: NDArray[Any], cols: NDArray[Any], count: int, seed: int
    ) -> Iterator[Array]:
        """Complete the rows asked for under evenly spaced draws of the parameters, one for each table.

        The rows go on from one table to the next, with sweeps between that make them nearly independent.
        """
        which, place = np.unique(rows, return_inverse=True)
        stream = int(np.random.SeedSequence((seed, 2)).generate_state(1)[0])
        chain = frame.taking(which).covariance_chain(_rows_of(observations, which), seed=stream)
        chain.begin(self.means[:, which])
        for table, number in enumerate(spaced(len(self.draws), count, seed)):
            chain.take(self.draws[number])
            for _ in range(BETWEEN_TABLES if table else SETTLE):
                chain.sweep()
            yield chain.symbols(place, frame.latent[cols])


class Completed:
    """Sums over the sweeps of a full covariance: probabilities and means of all cells, draws of the parameters."""

    def __init__(self, chain: CovarianceChain) -> None:
        self.chain, self.count = chain, 0
        p, m = len(chain.columns), chain.rows
        most = max([1, *chain.levels.tolist(), *(one.count for one in chain.contrasts)])
        self.sums = np.zeros((p, most, m), np.float32)
        self.means = np.zeros((p, m), np.float32)
        self.draws: list[CovarianceDraw] = []

    def sweep(self) -> None:
        """Make a sweep and add it up."""
        self.chain.sweep(self.sums, self.means)
        self.count += 1

    def keep(self) -> None:
        """Keep the parameters of the last sweep."""
        self.draws.append(self.chain.draw())

    def answers(self) -> CovarianceAnswers:
        """Return averages and draws."""
        means = self.means / np.float32(max(self.count, 1))
        return CovarianceAnswers(self.sums, means, tuple(self.draws))


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


def spaced(draws: int, count: int, seed: int) -> NDArray[np.intp]:
    """Choose so many draws, evenly spaced from a place that the seed decides; each several times where they are few.

    Examples
    --------
    >>> spaced(100, 4, seed=0)
    array([15, 40, 65, 90])
    """
    offset = np.random.default_rng((seed, 0)).random()
    chosen: NDArray[np.intp] = np.floor((np.arange(count) + offset) * (draws / count)).astype(np.intp)
    return chosen


def _rows_of(observations: Observations, which: NDArray[Any]) -> Observations:
    """Take some rows, given in ascending order, as a table of their own."""
    inside = np.isin(observations.rows, which)
    rows = np.searchsorted(which, observations.rows[inside]).astype(np.int32)
    return Observations(
        rows, observations.cols[inside], observations.values[inside], (which.size, observations.shape[1])
    )
