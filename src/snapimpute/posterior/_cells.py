"""The known cells of a table as the sampler reads them: by rater and symbol, and by item."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.threads import Part
from snapimpute.base.types import Array
from snapimpute.posterior._choices import Choices

PIECES = 16
"""Parts of a pass at most; their number depends on nothing but the table, so that sums have the same bits."""

WORTH_A_PIECE = 8192
"""Cells of a part at least."""

UNITS = 16
"""Parts begin with a multiple of so many units, which are solved for together."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Known cells. A *rater* is a unit with thresholds (a row or a column of the table), an *item* one across.

    Attributes
    ----------
    shape : (int, int)
        Raters and items.
    start : array of shape (raters + 1,)
        Where the cells of each rater begin.
    item, symbol : arrays of shape (cells,)
        By rater, and by symbol within a rater.
    runs : array of shape (raters, symbols + 1)
        Where the cells of each rater and symbol begin, and where those of its last symbol end.
    value : array of shape (cells,) or None
        Plain numbers, in raters without symbols; None if all have symbols.
    item_start, rater, position : arrays
        The same cells by item: where those of an item begin, their raters, and their places above.
    levels, kind : arrays of shape (raters,)
        Number of symbols, 0 for plain numbers and categories; raters of one kind share an alphabet.
    choices : Choices
        Raters that stand for the categories of a column.
    """

    shape: tuple[int, int]
    start: NDArray[np.int64]
    item: NDArray[np.int32]
    symbol: NDArray[np.uint8]
    runs: NDArray[np.int64]
    value: Array | None
    item_start: NDArray[np.int64]
    rater: NDArray[np.int32]
    position: NDArray[np.int64]
    levels: NDArray[np.int64]
    kind: NDArray[np.int64]
    choices: Choices

    @classmethod
    def of(
        cls,
        raters: NDArray[Any],
        items: NDArray[Any],
        symbols: NDArray[Any],
        shape: tuple[int, int],
        levels: NDArray[Any],
        kind: NDArray[Any] | None = None,
        values: Array | None = None,
        choices: Choices | None = None,
    ) -> Cells:
        """Sort cells given in any order; ``symbols`` are their numbers, from 0, within the alphabet of the rater.

        Cells of raters that stand for categories have the symbol 0: all raters of a column have them in one order.
        """
        order = np.lexsort((items, symbols, raters))
        rater, item = raters[order].astype(np.int32), items[order].astype(np.int32)
        start = np.concatenate([[0], np.cumsum(np.bincount(rater, minlength=shape[0]))])
        position = np.argsort(item, kind="stable")
        item_start = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=shape[1]))])
        value = None if values is None else values[order].astype(np.float32)
        kinds = np.zeros(shape[0], np.int64) if kind is None else np.asarray(kind, np.int64)
        by_item = item_start.astype(np.int64), rater[position], position.astype(np.int64)
        symbol = symbols[order].astype(np.uint8)
        chosen = Choices.of([], [], []) if choices is None else choices
        sizes = np.asarray(levels, np.int64)
        stride = int(sizes.max(initial=2)) + 1
        ends = np.cumsum(np.bincount(rater.astype(np.int64) * stride + symbol, minlength=shape[0] * stride))
        runs = np.concatenate([[0], ends[:-1]]).reshape(shape[0], stride).astype(np.int64)
        by_rater = start.astype(np.int64), item, symbol, runs, value
        return cls(shape, *by_rater, *by_item, sizes, kinds, chosen)

    def __len__(self) -> int:
        return self.item.size

    @cached_property
    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Known cells of each rater, and of each item."""
        return np.diff(self.start), np.diff(self.item_start)

    @cached_property
    def rater_parts(self) -> list[Part]:
        """Parts of the raters with about as many cells each."""
        return parts(self.start)

    @cached_property
    def ordinal_parts(self) -> list[Part]:
        """Parts of the raters, without those that have no symbols."""
        ordinal = self.levels > 0
        cuts, found = np.flatnonzero(np.diff(ordinal)) + 1, list[Part]()
        for start, stop in self.rater_parts:
            inside = cuts[(cuts > start) & (cuts < stop)].tolist()
            found += [part for part in pairwise([start, *inside, stop]) if ordinal[part[0]]]
        return found

    @cached_property
    def item_parts(self) -> list[Part]:
        """Parts of the items with about as many cells each."""
        return parts(self.item_start)


def parts(start: NDArray[np.int64]) -> list[Part]:
    """Cut units into at most `PIECES` parts with about as many cells each.

    Examples
    --------
    >>> parts(np.arange(0, 100_001, 1000))
    [(0, 16), (16, 32), (32, 48), (48, 64), (64, 80), (80, 96), (96, 100)]
    """
    units, cells = start.size - 1, int(start[-1])
    pieces = max(min(PIECES, cells // WORTH_A_PIECE), 1)
    wanted = np.searchsorted(start, np.arange(1, pieces) * (cells / pieces))
    cuts = np.unique(np.concatenate([[0], np.minimum(-(-wanted // UNITS) * UNITS, units), [units]]))
    return list(pairwise(cuts.tolist()))
