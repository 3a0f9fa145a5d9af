"""Calibrated probabilities, and the symbol that a loss asks for.

The probability of symbol k at a cell with the estimate x, in units z of its spread, is

    p_k ∝ exp(α_k + β_k z + γ_k z² + ρ r_ik + κ c_jk)

where r_ik and c_jk say how much more often than usual row i and column j have
symbol k (log of damped frequencies; 0 for a row or column of which nothing is
known). A Gaussian error about the symbols, whatever their prior, is the case
γ = ρ = κ = 0. The parameters are fitted on entries that were held out; a ridge
draws them to that case, and to the observed frequencies, where there are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from snapimpute.base.files import stored
from snapimpute.base.types import Array, Index
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.decide import Decide

DAMPING = 5.0
"""Observations of an average row or column that are imagined in addition, for its frequencies."""

RIDGE = 1.0
"""Pull of the parameters to the simple case: as much as about one entry would."""

MOST_ENTRIES = 200_000
"""Held-out entries that a calibration is fitted to, at most."""

MOST_NUMBERS = 1 << 26
"""Frequencies of rows and columns are used if there are no more numbers than that."""


@stored("symbol log-odds", "tables")
@dataclass(frozen=True, eq=False)
class SymbolLogOdds:
    """Log of the damped share of each symbol in each lane, a row or a column, relative to its usual share.

    There is a table (lanes, symbols) for each group of columns, empty where it is not used.
    """

    tables: tuple[Array, ...]

    @classmethod
    def of(cls, counts: Sequence[Array], usual: Sequence[Array]) -> SymbolLogOdds:
        """Make them from counts (lanes, symbols) and the usual frequencies, one of each for a group."""
        tables = []
        for count, shares in zip(counts, usual, strict=True):
            damped = (count + DAMPING * shares) / (count.sum(axis=1, keepdims=True) + DAMPING)
            tables.append(np.log(damped / shares))
        return cls(tuple(tables))

    def at(self, group: int, lanes: Index) -> Array:
        """Log-odds of some lanes."""
        return self.tables[group][lanes]


def counted(
    observations: Observations, book: ColumnSchema, *, by_row: bool, held: Sequence[Observations] = ()
) -> list[Array]:
    """Count each symbol of each row, or column, for each group; entries of ``held`` do not count."""
    lanes = observations.shape[0] if by_row else observations.shape[1]
    out: list[Array] = []
    for group, alphabet in enumerate(book.kinds):
        size = 0 if alphabet is None else len(alphabet)
        total = np.zeros((lanes if lanes * size <= MOST_NUMBERS else 0, size))
        for sign, entries in ((1, observations), *((-1, some) for some in held)):
            if alphabet is None or not total.size:
                continue
            inside = book.inside(group, entries.cols)
            which = (entries.rows if by_row else entries.cols)[inside].astype(np.int64)
            codes = which * size + alphabet.indices(entries.values[inside])
            total += sign * np.bincount(codes, minlength=total.size).reshape(total.shape)
        out.append(total)
    return out


@stored("calibration", "alphabet", "middle", "spread", "weights", "log_odds")
@dataclass(frozen=True, eq=False)
class Calibration:
    """Probabilities of the symbols of one alphabet; see the head of the module.

    z is (x − middle) / spread; the weights are α, β and γ, the habits ρ and κ.
    """

    alphabet: Alphabet
    middle: float
    spread: float
    weights: Array
    log_odds: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def fit(
        cls, alphabet: Alphabet, truth: Array, estimate: Array, usual: Array, rows: Array | None, cols: Array | None
    ) -> Calibration:
        """Fit to held-out entries.

        ``usual`` are the frequencies of the symbols, none of them 0; ``rows`` and ``cols`` the log-odds of the rows
        and columns of the entries.
        """
        symbols = alphabet.symbols
        middle = float(usual @ symbols)
        spread = max(float(np.sqrt(usual @ (symbols - middle) ** 2)), 1e-12 * max(abs(middle), 1.0))
        noise = float(np.mean((truth - estimate) ** 2)) if truth.size else spread**2
        noise = max(noise, (0.05 * spread) ** 2)
        # −(x − a)²/2σ² less what all symbols share, in terms of z
        a = (symbols - middle) / spread
        sharp = spread**2 / noise
        simple = np.vstack([np.log(usual) - 0.5 * sharp * a**2, sharp * a, np.zeros_like(a)])
        start = cls(alphabet, middle, spread, simple)
        if truth.size == 0 or len(alphabet) == 1:
            return start
        return start._fitted(truth, estimate, rows, cols)

    def _fitted(self, truth: Array, estimate: Array, rows: Array | None, cols: Array | None) -> Calibration:
        z, K = self._z(estimate), len(self.alphabet)
        codes = self.alphabet.indices(truth)
        powers = np.column_stack([np.ones_like(z), z, z**2])
        log_odds = [one for one in (rows, cols) if one is not None]
        here = np.arange(z.size)

        def lost(flat: Array) -> tuple[float, Array]:
            change, extra = flat[: 3 * K].reshape(3, K), flat[3 * K :]
            logits = powers @ (self.weights + change)
            for weight, habit in zip(extra, log_odds, strict=True):
                logits += weight * habit
            logits -= logits.max(axis=1, keepdims=True)
            p = np.exp(logits)
            total = p.sum(axis=1)
            loss = float(np.log(total).sum() - logits[here, codes].sum()) + 0.5 * RIDGE * float(flat @ flat)
            p /= total[:, None]
            p[here, codes] -= 1
            slopes = [float(np.sum(p * habit)) for habit in log_odds]
            return loss, np.concatenate([(powers.T @ p).ravel(), slopes]) + RIDGE * flat

        start = np.zeros(3 * K + len(log_odds))
        found = minimize(
            lost, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-5 * z.size**0.5}
        )
        extra = [0.0, 0.0]
        given = [i for i, one in enumerate((rows, cols)) if one is not None]
        for i, weight in zip(given, found.x[3 * K :].tolist(), strict=True):
            extra[i] = weight
        weights = self.weights + found.x[: 3 * K].reshape(3, K)
        return Calibration(self.alphabet, self.middle, self.spread, weights, (extra[0], extra[1]))

    def _z(self, estimate: Array) -> Array:
        """The estimate in units of the spread, held to where symbols are: beyond, z² would mislead."""
        low, high = self.alphabet.symbols[[0, -1]].tolist()
        reach = 0.5 * (high - low)
        z: Array = (np.clip(estimate, low - reach, high + reach) - self.middle) / self.spread
        return z

    def proba(self, estimate: Array, rows: Array | None = None, cols: Array | None = None) -> Array:
        """Probabilities (N, K) of the symbols in ascending order."""
        z = self._z(estimate)
        logits = np.column_stack([np.ones_like(z), z, z**2]) @ self.weights
        for weight, habit in zip(self.log_odds, (rows, cols), strict=True):
            if habit is not None and weight:
                logits += weight * habit
        logits -= logits.max(axis=1, keepdims=True)
        p: Array = np.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        return p


@stored("symbol rule", "book", "decide", "calibrations", "usual", "cols")
@dataclass(frozen=True, eq=False)
class SymbolRule:
    """Decides the symbols of cells by their estimates, in the units of the data.

    There is a calibration for each group of columns: None for columns of any numbers, and for all if nothing was
    calibrated. ``usual`` are the frequencies of the symbols by group, ``cols`` the log-odds of the columns.
    """

    book: ColumnSchema
    decide: Decide
    calibrations: tuple[Calibration | None, ...]
    usual: tuple[Array, ...]
    cols: SymbolLogOdds

    @classmethod
    def fit(
        cls,
        book: ColumnSchema,
        decide: Decide,
        observations: Observations,
        held_out: Sequence[tuple[Observations, Array]],
    ) -> SymbolRule:
        """Calibrate on held-out entries, given with their estimates, each set as it was left out of a fit."""
        usual = tuple(_usual(group, book, observations) for group in range(len(book.kinds)))
        calibrations: list[Calibration | None] = [None] * len(book.kinds)
        if decide != "nearest":
            left_out = [(held, x, _features(observations, book, held, usual)) for held, x in held_out]
            for g, alphabet in enumerate(book.kinds):
                if alphabet is not None:
                    found = _joined([_of_group(g, book, *one) for one in left_out])
                    calibrations[g] = Calibration.fit(alphabet, *found[:2], usual[g], *found[2:])
        cols = SymbolLogOdds.of(counted(observations, book, by_row=False), usual)
        return cls(book, decide, tuple(calibrations), usual, cols)

    def again(self, book: ColumnSchema, observations: Observations) -> SymbolRule:
        """The same rule and calibrations for more data, with their habits."""
        return replace(self, book=book, cols=SymbolLogOdds.of(counted(observations, book, by_row=False), self.usual))

    def of_rows(self, observations: Observations) -> SymbolLogOdds:
        """The habits of the rows of a table, by its observed cells."""
        return SymbolLogOdds.of(counted(observations, self.book, by_row=True), self.usual)

    def proba(self, group: int, rows: Index, cols: Index, estimate: Array, log_odds: SymbolLogOdds) -> Array:
        """Probabilities of the symbols of a group of columns at some of its cells."""
        calibration = self.calibrations[group]
        if calibration is None:
            raise ValueError('there are no probabilities with decide="nearest", nor of columns of any numbers')
        row = log_odds.at(group, rows) if log_odds.tables[group].size else None
        col = self.cols.at(group, cols) if self.cols.tables[group].size else None
        return calibration.proba(estimate, row, col)


def _usual(group: int, book: ColumnSchema, observations: Observations) -> Array:
    """Frequencies of the symbols in a group of columns, each imagined once in addition, so that none is 0."""
    alphabet = book.kinds[group]
    if alphabet is None:
        return np.ones(0)
    codes = alphabet.indices(observations.values[book.inside(group, observations.cols)])
    counts = np.bincount(codes, minlength=len(alphabet)) + 1.0
    usual: Array = counts / counts.sum()
    return usual


class _Entries(NamedTuple):
    """Held-out entries of a group, their estimates, and the habits of their rows and columns, where there are any."""

    truth: Array
    estimate: Array
    rows: Array | None = None
    cols: Array | None = None


def _features(
    observations: Observations, book: ColumnSchema, held: Observations, usual: Sequence[Array]
) -> tuple[SymbolLogOdds, SymbolLogOdds]:
    """Log-odds of rows and columns, without the held-out entries themselves."""
    rows, cols = (counted(observations, book, by_row=by_row, held=[held]) for by_row in (True, False))
    return SymbolLogOdds.of(rows, usual), SymbolLogOdds.of(cols, usual)


def _of_group(
    group: int, book: ColumnSchema, held: Observations, estimate: Array, log_odds: tuple[SymbolLogOdds, SymbolLogOdds]
) -> _Entries:
    inside = np.arange(len(held))[book.inside(group, held.cols)]
    inside = inside[:: max(-(-inside.size // MOST_ENTRIES), 1)]
    row, col = (one.tables[group] for one in log_odds)
    return _Entries(
        held.values[inside],
        estimate[inside],
        row[held.rows[inside]] if row.size else None,
        col[held.cols[inside]] if col.size else None,
    )


def _joined(parts: Sequence[_Entries]) -> _Entries:
    if not parts:
        return _Entries(np.zeros(0), np.zeros(0))
    joined: list[Any] = [None if one[0] is None else np.concatenate(one) for one in zip(*parts, strict=True)]
    return _Entries(*joined)
