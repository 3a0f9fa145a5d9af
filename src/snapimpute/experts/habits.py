"""The expert of habits: how often each symbol is known in a row and in a column, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from snapimpute.base.files import stored
from snapimpute.base.machine import available_memory
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.answers import CellAnswers
from snapimpute.data.expert import Expert
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.solvers import Status

DAMPING = 5.0
"""Known cells of an average row or column that are imagined in addition."""

MOST_CELLS = 100_000
"""Known cells that the two weights are fitted to, at most."""

DONE = Status("converged", "The frequencies are counted.")


@stored("habits", "damping")
@dataclass(frozen=True)
class Habits(Expert):
    """Damped frequencies of the symbols in the row and in the column of a cell.

    P(s) ∝ share of s in the table, times how much more often than usual the row has s, to a power, times the same
    of the column. The two powers are fitted to the known cells, each left out of its own frequencies. It knows no
    pattern across columns: an expert that does not beat it has found none.

    Parameters
    ----------
    damping : float
        Known cells of an average row or column that are imagined in addition.

    Examples
    --------
    >>> table = Observations.from_dense([[1, 1, 1, np.nan], [0, 0, 0, 0], [1, 1, np.nan, 1], [0, 0, 0, 0]])
    >>> Habits().fit(table, Alphabet.of([0, 1])).proba([0], [3]).argmax()
    np.int64(1)
    """

    name: ClassVar[str] = "habits"

    damping: float = DAMPING

    def takes(self, alphabet: Alphabet | None) -> bool:
        """Take every kind of column; those of plain numbers get the mean of the column."""
        return True

    def forecast(self, observations: Observations, alphabet: Any, *, timed: bool = True) -> HabitsForecast:
        """Estimate memory: the counts of the symbols; seconds are hardly worth telling."""
        schema = ColumnSchema.read(alphabet, observations.shape[1])
        symbols = max((len(one or ()) for one in schema.kinds), default=0)
        memory = 4 * symbols * (sum(observations.shape) + 4 * min(len(observations), MOST_CELLS))
        free = available_memory()
        return HabitsForecast(memory, free is None or memory <= free)

    def fit(self, observations: Observations, alphabet: Any, **told: Any) -> HabitsFit:
        """Count symbols, and fit the two powers of each kind of columns."""
        schema = ColumnSchema.read(alphabet, observations.shape[1])
        powers = [
            np.zeros(2) if one is None else _powers(_counts(observations, schema, kind), self.damping)
            for kind, one in enumerate(schema.kinds)
        ]
        return HabitsFit(observations, schema, np.array(powers), self.damping)


class HabitsForecast(NamedTuple):
    """Bytes at the peak, and whether they are free."""

    memory: int
    fits: bool


@stored("habits fit", "observations", "columns", "powers", "damping")
@dataclass(frozen=True, eq=False)
class HabitsFit(CellAnswers):
    """Frequencies of symbols by row and column, and the answers that follow.

    Attributes
    ----------
    observations : Observations
    columns : ColumnSchema
    powers : array (kinds, 2)
        Powers of the frequencies of rows and of columns, for each kind of columns.
    damping : float
    """

    observations: Observations
    columns: ColumnSchema
    powers: Array
    damping: float

    def __post_init__(self) -> None:
        counts = [None if one is None else _counts(self.observations, self.columns, k) for k, one in self._kinds]
        object.__setattr__(self, "_counted", counts)
        object.__setattr__(self, "status", DONE)
        object.__setattr__(self, "history", ())

    @property
    def _kinds(self) -> list[tuple[int, Alphabet | None]]:
        return list(enumerate(self.columns.kinds))

    @property
    def schema(self) -> ColumnSchema:
        """Content of each column."""
        return self.columns

    @property
    def by_cells(self) -> bool:
        """Tell whether the known cells of a row are all that its answers depend on."""
        return True

    def _chances(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        kind = int(self.columns.which[cols[0]]) if cols.size else 0
        counts: _Counts = self._counted[kind]  # type: ignore[attr-defined]
        by_row, by_col = counts.rows[rows], counts.cols[cols]
        return _proba(
            counts.usual,
            _log_odds(by_row, counts.usual, self.damping),
            _log_odds(by_col, counts.usual, self.damping),
            self.powers[kind],
        )

    def _numbers(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        seen, n = self.observations, self.observations.shape[1]
        inside = ~self.columns.discrete[seen.cols]
        sums = np.bincount(seen.cols[inside], seen.values[inside], n)
        means: Array = sums / np.maximum(np.bincount(seen.cols[inside], minlength=n), 1)
        return means[cols]

    def _drawn(self, rows: NDArray[np.intp], cols: NDArray[np.intp], count: int, seed: int) -> Iterator[Array]:
        return self._independent(rows, cols, count, seed)

    def fold_in(self, observations: Observations) -> HabitsFit:
        """Return the answers for new rows, by their own frequencies and those of the fitted columns."""
        out = HabitsFit(observations, self.columns, self.powers, self.damping)
        for mine, fitted in zip(out._counted, self._counted, strict=True):  # type: ignore[attr-defined]
            if mine is not None:
                mine.usual, mine.cols = fitted.usual, fitted.cols
        return out


@dataclass
class _Counts:
    """Number of each symbol by row and by column, the shares of the symbols, and each known cell."""

    usual: Array
    rows: Array
    cols: Array
    at: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def _counts(observations: Observations, schema: ColumnSchema, kind: int) -> _Counts:
    alphabet = schema.kinds[kind]
    size = len(alphabet or ())
    inside = schema.inside(kind, observations.cols)
    rows, cols = observations.rows[inside], observations.cols[inside]
    codes = np.zeros(0, np.intp) if alphabet is None else alphabet.indices(observations.values[inside])
    sides = []
    for lanes, count in zip((rows, cols), observations.shape, strict=True):
        flat = np.bincount(lanes.astype(np.int64) * size + codes, minlength=count * size)
        sides.append(flat.reshape(count, size).astype(np.float32))
    total = np.bincount(codes, minlength=size) + 1.0
    return _Counts(total / total.sum(), sides[0], sides[1], (rows, cols, codes))


def _log_odds(counts: Array, usual: Array, damping: float) -> Array:
    """Return the logarithm of how much more often than usual each symbol is."""
    shares = (counts + damping * usual) / (counts.sum(axis=1, keepdims=True) + damping)
    out: Array = np.log(shares / usual)
    return out


def _proba(usual: Array, by_row: Array, by_col: Array, powers: Array) -> Array:
    logits = np.log(usual) + powers[0] * by_row + powers[1] * by_col
    out: Array = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
    return out


def _powers(counts: _Counts, damping: float) -> Array:
    """Fit the powers to known cells, each left out of the frequencies of its row and column."""
    rows, cols, codes = (one[:: max(-(-one.size // MOST_CELLS), 1)] for one in counts.at)
    if not codes.size or counts.usual.size < 2:
        return np.ones(2)
    at = np.arange(codes.size)
    by_row, by_col = counts.rows[rows].astype(np.float64), counts.cols[cols].astype(np.float64)
    for side in (by_row, by_col):
        side[at, codes] -= 1
    row, col = (_log_odds(side, counts.usual, damping) for side in (by_row, by_col))

    def lost(powers: Array) -> tuple[float, Array]:
        p = _proba(counts.usual, row, col, powers)
        loss = -float(np.log(np.maximum(p[at, codes], 1e-300)).sum())
        p[at, codes] -= 1
        return loss, np.array([float((p * row).sum()), float((p * col).sum())])

    found: Array = minimize(lost, np.ones(2), jac=True, method="L-BFGS-B", bounds=[(0, 3)] * 2).x
    return found
