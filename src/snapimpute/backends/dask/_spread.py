"""Observations that no machine holds: each worker of a cluster has its blocks of rows.

Rows are spread over blocks by a hash of their labels, such that all entries of
a row meet in one block; nobody has to know all labels of rows. Columns are as
many as one machine can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from snapimpute.backends.dask._blocks import Blocks, Written
from snapimpute.backends.dask._expressions import Node, Ref
from snapimpute.backends.dask.backend import Cut, DaskBackend
from snapimpute.base.errors import ArgumentError
from snapimpute.data.observations import Observations
from snapimpute.linalg.backend import OBSERVED

MOST_HELD = 1 << 20
"""Entries that are held out at most: more would not tell more."""

AT_A_TIME = 1 << 16
"""Labels that are hashed together."""

LabelledRows = tuple[Observations, NDArray[Any]]
"""A block: the observations, and the labels of their rows."""


@dataclass(frozen=True, eq=False, repr=False)
class SpreadObservations(Observations):
    """Observations of which each worker of a cluster has its blocks; labels of rows are there, too."""

    backend: Any = None
    root: Any = None

    @classmethod
    def made(cls, backend: DaskBackend, root: Written, labels: NDArray[Any]) -> SpreadObservations:
        """Make one of blocks that are pairs of observations and labels of rows."""
        there = Node(_observations, Ref(root))
        backend.spread = True

        def field(name: str, kind: DTypeLike) -> Any:
            tree = Node(getattr, there, name)
            return Blocks(backend, Written(tree), backend.cut.observed, np.empty(0, kind), OBSERVED)

        shape = (backend.cut.borders[-1], labels.size)
        parts = field("rows", np.int32), field("cols", np.int32), field("values", np.float64)
        return cls(*parts, shape, None, labels, backend, root)

    def split(
        self, share: float = 0.2, *, per: Literal["entries", "row"] = "entries", random_state: int = 0
    ) -> tuple[Observations, Observations]:
        """Split into (kept, held out); what is held out comes here, `MOST_HELD` entries at most.

        Whether an entry is held out depends on its row, its column and the seed
        alone, not on files, blocks or workers.
        """
        if not 0 < share < 1:
            raise ArgumentError.must("share", share, "lie between 0 and 1 (both excluded)")
        if per != "entries":
            told = f'observations on a cluster are split per="entries" only, got {per!r}'
            raise ArgumentError("per", per, told)
        share = min(share, MOST_HELD / len(self))
        parts = self.backend.each(_held, self.pairs, share, random_state)
        starts = self.backend.cut.borders
        rows, cols, values = (np.concatenate(one) for one in zip(*parts, strict=True))
        rows = rows + np.repeat(starts[:-1], [len(part[0]) for part in parts])
        if not 0 < rows.size < len(self):
            raise ValueError(f"a share of {share:g} of {len(self)} entries leaves one side empty: change the share")
        left = [size - len(part[0]) for size, part in zip(self.backend.cut.observed, parts, strict=True)]
        return self._kept(share, random_state, left), Observations.from_coo(rows, cols, values, self.shape)

    @property
    def pairs(self) -> Blocks:
        """The blocks themselves."""
        return Blocks(self.backend, self.root, self.backend.cut.rows, np.empty(0))

    def _kept(self, share: float, seed: int, left: list[int]) -> SpreadObservations:
        parent, root = self.backend, self.root
        backend = DaskBackend(parent.client)
        backend.cut = Cut(self.backend.cut.borders, left)

        def load(wanted: Sequence[int]) -> list[Any]:
            pairs = parent.restored(root, wanted)
            return [backend.client.submit(_kept, pair, share, seed, pure=False) for pair in pairs]

        labels = cast("NDArray[Any]", self.col_labels)
        return SpreadObservations.made(backend, backend.root(load), labels)

    def column_counts(self) -> NDArray[np.float64]:
        """Entries of each column."""
        found: NDArray[np.float64] = self.backend.total(_column_counts, self.pairs, self.shape[1])
        return found

    def column_sums(self, base: float, b: Any) -> NDArray[np.float64]:
        """Σ_i o_ij − base − b_i over the entries of each column, of an m×1 array b."""
        found: NDArray[np.float64] = self.backend.total(_column_sums, self.pairs, b, base, self.shape[1])
        return found

    def row_means(self, base: float, c: NDArray[np.float64], damping: float) -> Any:
        """The damped mean of o_ij − base − c_j of each row, an m×1 array on the workers."""
        tree = self.backend.tree(_row_means, self.pairs, self.backend.shared(c), base, damping)
        return Blocks(self.backend, self.backend.written(tree, keep=True), self.backend.cut.rows, np.empty((0, 1)))

    def fingerprint(self) -> str:
        """One text for equal cells in equal blocks."""
        return " ".join(cast(Blocks, one).fingerprint() for one in (self.rows, self.cols, self.values))

    def astype(self, dtype: DTypeLike) -> Observations:
        """Return the same cells with their values in another precision."""
        values = cast(Blocks, self.values)
        return self if values.dtype == np.dtype(dtype) else replace(self, values=cast(Any, values.astype(dtype)))


# ---------------------------------------------------------------- what workers do
def words_of(labels: NDArray[Any]) -> NDArray[np.uint64]:
    """Labels as rows of whole numbers; a shorter text ends with zeros."""
    if labels.dtype.kind in "iu":
        return labels.astype(np.int64).view(np.uint64)[:, None]
    longest = int(np.strings.str_len(labels).max(initial=1))
    text = np.strings.encode(labels.astype(f"U{longest}"), "utf-8")
    return text.astype(f"S{max(-(-text.itemsize // 8) * 8, 8)}").view(np.uint64).reshape(labels.size, -1)


def hashed(labels: NDArray[Any], seed: int) -> NDArray[np.uint64]:
    """A hash of each label, some at a time: one that is long takes its length of memory for all of them."""
    parts = [mixed(words_of(labels[i : i + AT_A_TIME]), seed) for i in range(0, labels.size, AT_A_TIME)]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def mixed(words: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """A hash of each row of words, to which words of zeros at the end add nothing."""
    total = np.zeros(len(words), np.uint64)
    for backend, word in enumerate(words.T, 1):
        total += _stirred(word) * np.uint64(2 * backend + 1)
    return _stirred(total + np.uint64(seed * 0xD1B54A32D192ED03 % 2**64))


def _stirred(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        word = (word ^ (word >> np.uint64(30))) * np.uint64(factor)
    out: NDArray[np.uint64] = word ^ (word >> np.uint64(31))
    return out


def _chosen(pair: LabelledRows, share: float, seed: int) -> NDArray[np.bool_]:
    """Mark the held-out entries: a hash of row and column below a share."""
    known, labels = pair
    rows = hashed(labels, seed)[known.rows]
    cells = mixed((rows ^ known.cols.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))[:, None], seed + 1)
    chosen: NDArray[np.bool_] = (cells >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share
    return chosen


def _held(pair: LabelledRows, share: float, seed: int) -> Any:
    known, chosen = pair[0], _chosen(pair, share, seed)
    return known.rows[chosen].astype(np.int64), known.cols[chosen], known.values[chosen]


def _kept(pair: LabelledRows, share: float, seed: int) -> LabelledRows:
    known, kept = pair[0], ~_chosen(pair, share, seed)
    # Of a small block nothing may be left.
    return Observations(known.rows[kept], known.cols[kept], known.values[kept], known.shape), pair[1]


def _column_counts(pair: LabelledRows, columns: int) -> NDArray[np.float64]:
    return np.bincount(pair[0].cols, minlength=columns).astype(np.float64)


def _column_sums(pair: LabelledRows, b: Any, mean: float, columns: int) -> NDArray[np.float64]:
    known = pair[0]
    return np.bincount(known.cols, known.values - mean - b[known.rows, 0], columns).astype(np.float64)


def _row_means(pair: LabelledRows, c: Any, mean: float, damping: float) -> NDArray[np.float64]:
    known, rows = pair[0], pair[0].shape[0]
    weights = np.bincount(known.rows, minlength=rows) + damping
    sums = np.bincount(known.rows, known.values - mean - c[known.cols], rows)
    return (sums / np.where(weights > 0, weights, 1.0))[:, None]


def _observations(pair: LabelledRows) -> Observations:
    return pair[0]
