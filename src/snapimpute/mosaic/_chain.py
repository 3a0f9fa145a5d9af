"""Rows that copy from the strands of all others: the second phase of a mosaic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array
from snapimpute.base.vectors import LANES
from snapimpute.mosaic._classes import Answers, Classes, Strands, drawn_pairs
from snapimpute.mosaic._copying import draw_rows, fill_rows
from snapimpute.mosaic._nearest import nearest
from snapimpute.mosaic._pairs import MISSING
from snapimpute.mosaic._panel import Panel

WRONG = 0.0002
"""Probability that a strand shows another symbol than it copies."""

FEWER_JUMPS, FEWER_PHASED = 5.0, 3.0
"""A strand jumps so many times less often between all strands than between classes, and between a few near ones."""

PHASED_BY = 30
"""Strands of other rows that a row is phased by: half of them near its first strand, half near its second."""

COPIED = 8192
"""Strands that a strand copies from; of more, the `NEAR` nearest ones."""

NEAR = 2048

HELD_BYTES = 2**19
"""Bytes of the states that a pass holds: they stay in the second cache."""

TURNED = 64
"""Rows whose phases are compared at a time: that takes some numbers for each of their cells."""

PACKED_FROM = 2**25
"""Symbols of a panel from which those of 0 and 1 take a bit each: fewer bytes fit into the last cache anyway."""

NOTHING = 254
"""Fills the panel up to whole vectors: no symbol."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Strands to copy from.

    Attributes
    ----------
    strands : array of shape (count, columns)
    own : bool
        True if these are the strands of the rows themselves, which leave out their own.
    """

    strands: Strands
    own: bool


def by_column(strands: Strands, *, binary: bool) -> Strands:
    """Return the symbols of strands by column, in multiples of `LANES`: a byte for each, or a bit."""
    out = np.full((strands.shape[1], -(-strands.shape[0] // LANES) * LANES), NOTHING, np.uint8)
    out[:, : strands.shape[0]] = strands.T
    return np.packbits(out & 1, axis=1, bitorder="little") if binary else out


@dataclass(frozen=True, eq=False)
class Chain:
    """The strands of rows, which are drawn anew in each round.

    Attributes
    ----------
    panel : Panel
    classes : Classes
        Those of the first phase, for the jumps.
    strands : array of uint8
        Two for each row (2i and 2i + 1), or one.
    pool : array of uint8, optional
        Strands to copy from; those of the rows themselves if there are none.
    """

    panel: Panel
    classes: Classes
    strands: Strands
    pool: Strands | None = None

    @classmethod
    def begin(cls, panel: Panel, classes: Classes, key: int, pool: Strands | None = None) -> Chain:
        """Draw the strands from the classes."""
        return cls(panel, classes, classes.draw(panel, key), pool)

    @property
    def each(self) -> int:
        """Strands of a row."""
        return int(self.strands.shape[0] // self.panel.shape[0])

    @property
    def _copied(self) -> Pool:
        return Pool(self.strands, own=True) if self.pool is None else Pool(self.pool, own=False)

    def round(self, key: int, *, settled: bool = True) -> Chain:
        """Draw the strands of every row anew, given those of all others; at first they jump more, to get about."""
        if self.each == 2:
            return replace(self, strands=self._phased(key, FEWER_PHASED if settled else 1.0))
        return replace(self, strands=self.completed(key))

    def _phased(self, key: int, fewer: float) -> Strands:
        pool, (_, n) = self._copied, self.panel.shape
        count = min(PHASED_BY, pool.strands.shape[0] - 2 * pool.own)
        donors = nearest(self.strands, pool.strands, count, own=pool.own, each=2, key=key)
        alpha = np.full((n, count), 1 / count, np.float32)
        nothing = np.zeros((0, 0), np.float32)
        rho = np.where(self.panel.line.begins, 1.0, self.classes.rho / np.float32(fewer))
        return drawn_pairs(self.panel, nothing, alpha, rho, pool.strands, donors, WRONG, key)

    def fill(self, answers: Answers) -> None:
        """Add the chances of the symbols in the missing cells, given the strands."""
        self._pass(lambda first, last, *given: fill_rows(first, last, *given, self.panel.starts, answers))

    def completed(self, key: int) -> Strands:
        """Draw what the strands show in the missing cells, jointly along each."""
        out = np.empty_like(self.strands)
        self._pass(lambda first, last, *given: draw_rows(first, last, *given, key, out))
        return out

    def _pass(self, call: Callable[..., object]) -> None:
        """Call a kernel for parts of the rows; of many strands each row takes the nearest ones."""
        pool, (m, n) = self._copied, self.panel.shape
        stay, count = _log_stay(self.classes.rho), pool.strands.shape[0]
        binary = pool.strands.size > PACKED_FROM and bool(pool.strands.max(initial=0) <= 1)
        symbols, wrong, most = self.panel.symbols, np.float32(WRONG), self.panel.most

        def given(columns: Strands, copied: int, own: bool) -> tuple[object, ...]:
            block = max(min(HELD_BYTES // (4 * copied), n), 16)
            return symbols, self.strands, columns, copied, own, stay, most, wrong, block

        operations = float(self.strands.size) * min(count, NEAR)
        if count <= COPIED:
            whole = given(by_column(pool.strands, binary=binary), count, pool.own)
            run_parts(lambda first, last: call(first, last, *whole), cut(m, 4), operations)
            return

        def near(first: int, last: int) -> None:
            some = self.strands[self.each * first : self.each * last]
            donors = nearest(some, pool.strands, NEAR, own=pool.own, each=self.each, key=0, first=first)
            width = -(-n // donors.shape[0])
            for i in range(first, last):
                windows = zip(range(0, n, width), donors, strict=True)
                parts = [pool.strands[one[i - first], at : at + width] for at, one in windows]
                columns = np.concatenate([by_column(part, binary=binary) for part in parts])
                call(i, i + 1, *given(columns, NEAR, False))

        run_parts(near, cut(m, 16), operations)

    def turns(self) -> NDArray[np.int8]:
        """Tell at each cell with both alleles if its strands lie as at the one before: 1, or −1; else 0."""
        (m, n), out = self.panel.shape, np.zeros(self.panel.shape, np.int8)
        for start, stop in cut(m, TURNED):
            own = self.strands[2 * start : 2 * stop]
            first, second = own[0::2], own[1::2]
            both = (first != second) & (self.panel.symbols[start:stop] != MISSING)
            side = np.where(first > second, 1, -1).astype(np.int8)
            places = np.maximum.accumulate(np.where(both, np.arange(n), -1), axis=1)
            before = np.concatenate([np.full((stop - start, 1), -1), places[:, :-1]], axis=1)
            earlier = np.take_along_axis(side, np.maximum(before, 0), axis=1)
            out[start:stop] = np.where(both & (before >= 0), side * earlier, 0)
        return out


def _log_stay(rho: Array) -> Array:
    """Return Σ log(1 − jump) up to each column; where a chain begins, everything before is forgotten."""
    jump = np.where(rho >= 1, 1 - 1e-12, rho.astype(np.float64) / FEWER_JUMPS)
    return np.cumsum(np.log1p(-jump))
