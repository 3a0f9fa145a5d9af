"""The part of a completed table that is drawn, similar rows side by side, and its least certain cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import pdist

from snapimpute.base.types import Array, Index
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.decide import decided
from snapimpute.views.figures import in_range, part_of, places

MOST_LANES = 200
"""Rows, and columns, that are drawn at most."""

MOST_SCANNED = 2_000_000
"""Missing cells that are searched for the least certain ones, at most."""

MOST_DOUBTS = 100
"""Least certain cells that are listed."""

BINS = 20
"""Equal parts of 0 to 1 in which probabilities are counted."""

BLOCK_NUMBERS = 1 << 21
"""Probabilities that are held at once, about."""


@dataclass(frozen=True, eq=False)
class Filled:
    """Symbols of a fit at some cells, in columns of any numbers the estimates, with their probabilities.

    ``second`` is the likeliest other symbol. Cells stay missing (``is_open``) where the symbol is too uncertain.
    Probabilities are NaN where there are none.
    """

    symbols: Array
    sure: Array
    second: Array
    second_sure: Array
    is_open: NDArray[np.bool_]

    @classmethod
    def nothing(cls, size: int) -> Filled:
        """Make so many cells, still without symbols."""
        symbols, sure, second, second_sure = np.full((4, size), np.nan)
        return cls(symbols, sure, second, second_sure, np.zeros(size, dtype=bool))

    @classmethod
    def joined(cls, parts: Sequence[Filled]) -> Filled:
        """Join the cells of several parts."""
        parts = [cls.nothing(0), *parts]
        names = [one.name for one in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def take(self, index: Index) -> Filled:
        """Select some of the cells."""
        return Filled(*(getattr(self, one.name)[index] for one in fields(self)))


@dataclass(frozen=True, eq=False)
class Shown:
    """A part of a completed table, rows and columns in the order in which they are drawn.

    ``values`` are known or decided, with the probability ``sure`` of the decided ones, else NaN. ``position`` is the
    place of a value in the range of its own column, from 0 to 1. ``shape`` counts the whole table without columns
    that the fit left alone.
    """

    rows: Index
    cols: Index
    known: NDArray[np.bool_]
    values: Array
    sure: Array
    is_open: NDArray[np.bool_]
    position: Array
    shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Doubts:
    """The least certain missing cells, most doubtful first, and counts of all probabilities.

    ``missing`` cells are in columns with an alphabet, ``scanned`` of them were searched, and ``left_open`` of these
    stay missing. ``counts`` are searched cells with a probability in each of `BINS` equal parts of 0 to 1.
    """

    rows: Index
    cols: Index
    filled: Filled
    missing: int
    scanned: int
    left_open: int
    counts: NDArray[np.int64]


def alphabets(imputer: SnapImputer) -> ColumnSchema:
    """Return the alphabets of the columns; -1 for columns that the fit left alone."""
    book = ColumnSchema.of(imputer.alphabet_, imputer._model.shape[1])
    if imputer.continuous == "passthrough":
        return ColumnSchema(book.kinds, np.where(book.discrete, book.which, -1))
    return book


def fill(imputer: SnapImputer, book: ColumnSchema, rows: Index, cols: Index) -> Filled:
    """Decide the symbols of cells, with their probabilities and the runners-up; no column may be left alone.

    Examples
    --------
    >>> from snapimpute.experts.proximal.expert import Proximal
    >>> imputer = SnapImputer("0,1", method=Proximal(lam=0.5, xi=0.0))
    >>> imputer = imputer.fit([[0, 1, None], [0, 1, 1], [0, None, 1], [None, 1, 1]])
    >>> found = fill(imputer, alphabets(imputer), np.array([0, 2]), np.array([2, 1]))
    >>> found.symbols, found.second
    (array([1., 1.]), array([0., 0.]))
    """
    out = Filled.nothing(rows.size)
    for kind, alphabet in enumerate(book.kinds):
        inside = np.flatnonzero(book.which[cols] == kind)
        size = max(1, BLOCK_NUMBERS // (1 if alphabet is None else len(alphabet)))
        for start in range(0, inside.size, size):
            _fill_some(imputer, alphabet, rows, cols, inside[start : start + size], out)
    return out


def _fill_some(
    imputer: SnapImputer, alphabet: Alphabet | None, rows: Index, cols: Index, some: Index, out: Filled
) -> None:
    """Fill in some cells, all in columns of one kind."""
    if alphabet is None or imputer.decide == "nearest":
        estimate = imputer.predict_mean(rows[some], cols[some])
        out.symbols[some] = estimate if alphabet is None else alphabet.snap(estimate)
        return
    p = imputer.predict_proba(rows[some], cols[some])
    which, here = decided(p, alphabet.symbols, imputer.decide), np.arange(some.size)
    out.symbols[some], out.sure[some] = alphabet.symbols[which], p[here, which]
    out.is_open[some] = (out.sure[some] < imputer.min_confidence) if imputer.min_confidence > 0 else False
    if len(alphabet) > 1:
        p[here, which] = -1.0
        other = p.argmax(axis=1)
        out.second[some], out.second_sure[some] = alphabet.symbols[other], p[here, other]


def show(imputer: SnapImputer, observations: Observations, *, most: int = MOST_LANES) -> Shown:
    """Complete the ``most`` observed rows and columns, and order them so that similar ones stand side by side.

    Examples
    --------
    >>> from snapimpute.experts.proximal.expert import Proximal
    >>> table = Observations.from_dense([[1, 0, 1, 0], [0, 1, 0, None], [1, 0, None, 0], [0, 1, 0, 1]])
    >>> shown = show(SnapImputer("0,1", method=Proximal(lam=0.5, xi=0.0)).fit(table), table)
    >>> sorted(shown.rows[:2].tolist()) in ([0, 2], [1, 3])
    True
    """
    book = alphabets(imputer)
    m, n = observations.shape
    rows = most_observed(np.bincount(observations.rows, minlength=m), np.arange(m), most)
    cols = most_observed(np.bincount(observations.cols, minlength=n), book.coded, most)
    shape = rows.size, cols.size
    found = fill(imputer, book, np.repeat(rows, cols.size), np.tile(cols, rows.size))
    cells = observations.rows, observations.cols, observations.values
    observed, _ = part_of([cells], observations.shape, rows, cols)
    known = ~np.isnan(observed)
    values = np.where(known, observed, found.symbols.reshape(shape))
    sure = np.where(known, np.nan, found.sure.reshape(shape))
    is_open = found.is_open.reshape(shape) & ~known
    position = positions(values, observations, book, cols)
    down, across = leaf_order(position), leaf_order(position.T)
    at = np.ix_(down, across)
    whole = (m, int(book.coded.size))
    return Shown(rows[down], cols[across], known[at], values[at], sure[at], is_open[at], position[at], whole)


def most_observed(counts: NDArray[Any], lanes: Index, most: int) -> Index:
    """Pick the rows or columns with the most observed cells, in their order; of equals the first."""
    order = np.argsort(-counts[lanes], kind="stable")[:most]
    return np.sort(lanes[order])


def positions(values: Array, observations: Observations, book: ColumnSchema, cols: Index) -> Array:
    """Place values in the range of their columns, from 0 to 1: that of the alphabet, or of the observed values."""
    low, high = np.full(cols.size, np.inf), np.full(cols.size, -np.inf)
    free = np.flatnonzero(~book.discrete[cols])
    if free.size:
        place = places(cols[free], observations.shape[1])[observations.cols]
        inside = place >= 0
        np.minimum.at(low, free[place[inside]], observations.values[inside])
        np.maximum.at(high, free[place[inside]], observations.values[inside])
    for j, col in enumerate(cols.tolist()):
        alphabet = book[col]
        if alphabet is not None:
            low[j], high[j] = alphabet.symbols[[0, -1]]
        elif low[j] > high[j]:  # no value was observed there
            low[j], high[j] = values[:, j].min(), values[:, j].max()
    return np.clip(in_range(values, low, high), 0.0, 1.0)


def leaf_order(points: Array) -> Index:
    """Order rows by hierarchical clustering (average linkage), the leaves turned so that neighbours are alike.

    The direction is the one that begins with the earlier row.

    Examples
    --------
    >>> leaf_order(np.array([[0.0, 0.0], [9.0, 9.0], [0.1, 0.0], [9.1, 9.0]])).tolist()
    [0, 2, 1, 3]
    """
    if points.shape[0] < 3:
        return np.arange(points.shape[0])
    # Distances are given, as scipy warns of points that look like a matrix of distances.
    order = np.asarray(leaves_list(linkage(pdist(points), "average", optimal_ordering=True)), dtype=np.intp)
    return order if order[0] < order[-1] else order[::-1]


def missing_cells(
    observations: Observations, cols: Index, *, most: int = MOST_SCANNED, seed: int = 0
) -> tuple[Index, Index, int]:
    """List the missing cells of some columns, row by row, and count them; of more than ``most`` an even sample.

    Examples
    --------
    >>> table = Observations.from_dense([[1, None, 1], [None, 1, 1]])
    >>> rows, cols, total = missing_cells(table, np.array([0, 1]))
    >>> rows.tolist(), cols.tolist(), total
    ([0, 1], [1, 0], 2)
    """
    among = places(cols, observations.shape[1])[observations.cols]
    inside = among >= 0
    taken = observations.rows[inside].astype(np.int64) * cols.size + among[inside]
    total = observations.shape[0] * int(cols.size) - taken.size
    wanted = np.arange(total) if total <= most else _spread(total, most, seed)
    # The k-th missing cell comes after all observed ones that have at most k missing cells before them.
    cells = wanted + np.searchsorted(taken - np.arange(taken.size), wanted, side="right")
    rows, which = np.divmod(cells, max(cols.size, 1))
    return rows.astype(np.intp), cols[which], total


def _spread(total: int, size: int, seed: int) -> NDArray[np.int64]:
    """Draw a number from each of ``size`` equal parts of 0, …, total − 1, without an array of all."""
    whole, rest = divmod(total, size)
    part = np.arange(size + 1)
    begin = part * whole + np.minimum(part, rest)
    return begin[:-1] + np.random.default_rng(seed).integers(0, np.diff(begin))


def least_certain(
    imputer: SnapImputer,
    observations: Observations,
    *,
    count: int = MOST_DOUBTS,
    most: int = MOST_SCANNED,
    seed: int = 0,
) -> Doubts | None:
    """Find the ``count`` missing cells with the least probable symbols; None without probabilities.

    Of more than ``most`` missing cells a sample is searched.
    """
    book = alphabets(imputer)
    discrete = np.flatnonzero(book.discrete)
    if imputer.decide == "nearest" or not discrete.size:
        return None
    rows, cols, total = missing_cells(observations, discrete, most=most, seed=seed)
    counts, left_open = np.zeros(BINS, dtype=np.int64), 0
    places, kept = [np.zeros(0, dtype=np.intp)], []
    for start in range(0, rows.size, BLOCK_NUMBERS):
        part = slice(start, start + BLOCK_NUMBERS)
        found = fill(imputer, book, rows[part], cols[part])
        counts += np.bincount(np.minimum((BINS * found.sure).astype(np.intp), BINS - 1), minlength=BINS)
        left_open += int(found.is_open.sum())
        few = np.argsort(found.sure, kind="stable")[:count]
        places.append(few + start)
        kept.append(found.take(few))
    where, best = np.concatenate(places), Filled.joined(kept)
    order = np.lexsort((where, best.sure))[:count]
    at = where[order]
    return Doubts(rows[at], cols[at], best.take(order), total, int(rows.size), left_open, counts)
