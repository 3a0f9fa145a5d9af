"""Answers of a fitted model about the cells of its table: probabilities, means, completed tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema

LEAST = 1e-6
"""Probability that a symbol has at least: no model is surer."""

MOST_CELLS = 100_000_000
"""Cells that `CellAnswers.draw` returns at most, and that `missing` lists."""


class CellAnswers(ABC):
    """Answers about any cell of a table, by position.

    A model says how probable the symbols of cells are, and draws cells jointly; all else follows.
    """

    observations: Observations

    # ---------------------------------------------------------------- of a model
    @property
    @abstractmethod
    def schema(self) -> ColumnSchema:
        """Content of each column."""

    @abstractmethod
    def _chances(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        """Return the probability of each symbol at cells of columns with one alphabet, one row a cell."""

    @abstractmethod
    def _drawn(self, rows: NDArray[np.intp], cols: NDArray[np.intp], count: int, seed: int) -> Iterator[Array]:
        """Give the values of missing cells in each of so many tables, jointly drawn."""

    def _numbers(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        """Return the expected values at cells of columns of plain numbers."""
        return np.full(rows.size, np.nan)

    @property
    def interrupted(self) -> bool:
        """Tell whether an interruption ended the fit, with the best so far kept."""
        status = getattr(self, "status", None)
        return status is not None and status.code == "interrupted"

    @property
    def scale(self) -> Array:
        """Size of one unit of the model in each column."""
        return np.ones(self.observations.shape[1])

    @property
    def by_cells(self) -> bool:
        """Tell whether the known cells of a row are all that its answers depend on: not its place, nor features."""
        return False

    def knows(self, row_features: Any) -> bool:
        """Tell whether these are the features of the fitted rows."""
        return row_features is None

    def _independent(self, rows: NDArray[np.intp], cols: NDArray[np.intp], count: int, seed: int) -> Iterator[Array]:
        """Give tables whose cells are drawn one by one from their probabilities; plain numbers are their means."""
        limits = np.full((rows.size, max((len(kind or ()) for kind in self.schema.kinds), default=1)), np.inf)
        for kind, alphabet in enumerate(self.schema.kinds):
            inside = np.flatnonzero(self.schema.which[cols] == kind)
            if alphabet is not None and inside.size:
                p = self._probabilities(rows[inside], cols[inside], len(alphabet))
                limits[inside, : len(alphabet) - 1] = np.cumsum(p, axis=1)[:, :-1]
        plain = ~self.schema.discrete[cols]
        means = self._numbers(rows[plain], cols[plain]) if plain.any() else np.zeros(0)
        rng = np.random.default_rng(seed)
        for _ in range(count):
            out = self._decoded(cols, (limits < rng.random(rows.size)[:, None]).sum(axis=1))
            out[plain] = means
            yield out

    # ---------------------------------------------------------------- for everybody
    def proba(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the probability of each symbol at the cells, one row a cell; the columns must share an alphabet.

        Parameters
        ----------
        rows, cols : int or array of int
            Zero-based positions.
        """
        r, c = self._cells(rows, cols)
        some = [kind for kind, one in enumerate(self.schema.kinds) if one is not None][:1]
        kinds = np.unique(self.schema.which[c] if c.size else some)
        alphabet = self.schema.kinds[kinds[0]] if kinds.size == 1 and kinds[0] >= 0 else None
        if alphabet is None:
            raise ValueError("proba needs cells of columns with one alphabet: ask for each kind of columns apart")
        return self._probabilities(r, c, len(alphabet))

    def _probabilities(self, rows: NDArray[np.intp], cols: NDArray[np.intp], symbols: int) -> Array:
        p = np.maximum(self._chances(rows, cols)[:, :symbols].astype(np.float64), LEAST)
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
        if r.size and self.schema.nominal[c].all():
            raise ValueError("categories without order have no mean: ask proba for their probabilities")
        for kind, alphabet in enumerate(self.schema.kinds):
            inside = np.flatnonzero(self.schema.which[c] == kind)
            if not inside.size or (alphabet is not None and not alphabet.ordered):
                continue
            if alphabet is not None:
                out[inside] = self._probabilities(r[inside], c[inside], len(alphabet)) @ alphabet.symbols
            else:
                out[inside] = self._numbers(r[inside], c[inside])
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

        Cells that were observed keep their values. Each table has parameters of its own, as long as the fit kept
        that many.

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
        """Give the cells of each table: known values, and drawn ones."""
        known, values = self._known(rows, cols)
        for drawn in self._drawn(rows[~known], cols[~known], count, seed):
            out = values.copy()
            out[~known] = drawn
            yield out

    def _decoded(self, cols: NDArray[np.intp], symbols: NDArray[Any]) -> Array:
        """Return the values of symbols, given by their places in the alphabets of their columns."""
        out = symbols.astype(np.float64)
        for kind, alphabet in enumerate(self.schema.kinds):
            inside = self.schema.which[cols] == kind
            if alphabet is not None:
                out[inside] = alphabet.symbols[out[inside].astype(np.intp)]
        return out

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
