"""A table in the terms of the passes: symbols by row, along the columns in the order of the chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.mosaic._pairs import MISSING

MOST_SYMBOLS = 200
"""Symbols of an alphabet: the number of each is kept in one byte, and some bytes mean something else."""

JUMP, JUMP_WEIGHT = 0.01, 1.0
"""Prior mean of the probability of a jump, and the strands that it counts as."""

PLACED_WEIGHT = 20.0
"""Strands that the prior of a jump counts as where distances between columns are known."""

LEAST_JUMP, MOST_JUMP = 1e-4, 0.9
"""Bounds of the probability of a jump."""


@stored("mosaic line", "order", "begins", "jumps", "weight", "linked")
@dataclass(frozen=True, eq=False)
class Line:
    """The columns in the order of a chain.

    Attributes
    ----------
    order : array of int
        Column at each place of the chain.
    begins : array of bool
        True where a chain begins: at the first place, and where a group of columns ends.
    jumps : array of float
        Prior mean of the probability of a jump into each place.
    weight : float
        Strands that the prior counts as.
    linked : bool
        False for latent classes: a strand keeps its class in all columns.
    """

    order: NDArray[np.int64]
    begins: NDArray[np.bool_]
    jumps: Array
    weight: float = JUMP_WEIGHT
    linked: bool = True

    @classmethod
    def unlinked(cls, columns: int) -> Line:
        """Return the line of latent classes."""
        begins = np.arange(columns) == 0
        return cls(np.arange(columns), begins, begins.astype(float), linked=False)

    @classmethod
    def of(
        cls, order: NDArray[np.int64], groups: NDArray[np.int64] | None = None, positions: Array | None = None
    ) -> Line:
        """Return the line of columns in an order; those of a group stand together.

        Parameters
        ----------
        order : array of int
        groups : array of int, optional
            Group of each column.
        positions : array of float, optional
            Position of each column, in any unit: jumps are as likely as the way is long.
        """
        begins, jumps, weight = np.arange(order.size) == 0, np.full(order.size, JUMP), JUMP_WEIGHT
        if groups is not None:
            begins[1:] |= np.diff(groups[order]) != 0
        if positions is not None:
            weight = PLACED_WEIGHT
            steps = np.abs(np.diff(positions[order], prepend=positions[order[0]]))
            inside = ~begins & (steps > 0)
            if inside.any():
                jumps = 1 - np.exp(-JUMP * steps / steps[inside].mean())
        jumps = np.clip(jumps, LEAST_JUMP, MOST_JUMP)
        return cls(order, begins, np.where(begins, 1.0, jumps), weight)

    def rescaled(self, jumps: Array) -> Line:
        """Return the line whose distances fit the jumps that were found, each the probability of one place."""
        inside = ~self.begins
        if self.weight != PLACED_WEIGHT or not inside.any():
            return self
        ways = -np.log1p(-self.jumps[inside])
        rate = float(-np.log1p(-np.minimum(jumps[inside], MOST_JUMP)).sum() / max(ways.sum(), 1e-300))
        scaled = np.clip(1 - np.exp(-rate * ways), LEAST_JUMP, MOST_JUMP)
        out = self.jumps.copy()
        out[inside] = scaled
        return replace(self, jumps=out)


@dataclass(frozen=True, eq=False)
class Table:
    """The symbols of a table, column by column as they were given.

    Attributes
    ----------
    symbols : array of uint8, shape (rows, columns)
        Place of each symbol in its alphabet, `MISSING` where a cell is not known.
    levels : array of int
        Symbols that each column can have; 1 where it is left alone.
    nominal : array of bool
        True where the symbols of a column have no order.
    can_add_up : bool
        True if each symbol can be the sum of two strands: three symbols, in even steps, in every column that counts.
    """

    symbols: NDArray[np.uint8]
    levels: NDArray[np.int64]
    nominal: NDArray[np.bool_]
    can_add_up: bool

    @classmethod
    def of(cls, observations: Observations, schema: ColumnSchema) -> Table:
        """Look up the symbols of the known cells."""
        rows, cols, values = observations.rows, observations.cols, observations.values
        symbols = np.full(observations.shape, MISSING, np.uint8)
        for kind, alphabet in enumerate(schema.kinds):
            inside = schema.inside(kind, cols)
            if alphabet is not None:
                symbols[rows[inside], cols[inside]] = alphabet.indices(values[inside])
        adds = all(one is not None and _in_three_steps(one) for one in schema.kinds)
        return cls(symbols, levels_of(schema), schema.nominal, adds)

    @cached_property
    def missing(self) -> NDArray[np.int64]:
        """Missing cells in ascending order, each as row × columns + column."""
        return np.flatnonzero(self.symbols.reshape(-1) == MISSING)

    def place(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the number of each missing cell, −1 for one that is known."""
        asked = rows.astype(np.int64) * self.symbols.shape[1] + cols
        if not self.missing.size:
            return np.full(asked.size, -1)
        found = np.minimum(np.searchsorted(self.missing, asked), self.missing.size - 1)
        return np.where(self.missing[found] == asked, found, -1)

    def along(self, line: Line) -> Panel:
        """Return the symbols along a line."""
        return Panel(self.symbols[:, line.order], self.levels[line.order], line)

    def from_line(self, panel: Panel, answers: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return answers by the missing cells of a line in the order of the table's."""
        order = panel.line.order
        if (order == np.arange(order.size)).all():
            return answers
        hidden = np.flatnonzero(panel.symbols.reshape(-1) == MISSING)
        out = np.empty_like(answers)
        out[self.place(hidden // order.size, order[hidden % order.size])] = answers
        return out

    def sample(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> Table:
        """Return some of the rows and columns."""
        symbols = np.ascontiguousarray(self.symbols[np.ix_(rows, cols)])
        return replace(self, symbols=symbols, levels=self.levels[cols], nominal=self.nominal[cols])

    def hiding(self, share: float, seed: int) -> tuple[Table, NDArray[np.int64], NDArray[np.uint8]]:
        """Hide a share of the known cells: return the table, their places (row × columns + column), and symbols."""
        known = np.flatnonzero(self.symbols.reshape(-1) != MISSING)
        hidden = np.sort(np.random.default_rng(seed).permutation(known)[: max(round(share * known.size), 1)])
        symbols = self.symbols.copy()
        symbols.reshape(-1)[hidden] = MISSING
        return replace(self, symbols=symbols), hidden, self.symbols.reshape(-1)[hidden]


def _in_three_steps(alphabet: Alphabet) -> bool:
    steps = np.diff(alphabet.symbols)
    return len(alphabet) == 3 and alphabet.ordered and alphabet.labels is None and bool(np.isclose(*steps))


@dataclass(frozen=True, eq=False)
class Panel:
    """The symbols of a table along a line.

    Attributes
    ----------
    symbols : array of uint8, shape (rows, columns)
    levels : array of int
        Symbols that each column can have.
    line : Line
    """

    symbols: NDArray[np.uint8]
    levels: NDArray[np.int64]
    line: Line

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", np.ascontiguousarray(self.symbols, np.uint8))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        m, n = self.symbols.shape
        return m, n

    @property
    def most(self) -> int:
        """Symbols of the column that has most."""
        return int(self.levels.max(initial=2))

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Number of the first missing cell of each row, and of all."""
        return np.concatenate([[0], np.cumsum((self.symbols == MISSING).sum(axis=1))]).astype(np.int64)

    def answers(self, symbols: int) -> NDArray[np.float32]:
        """Return room for the chances of all symbols but the first, at each missing cell."""
        return np.zeros((int(self.starts[-1]), symbols - 1), np.float32)

    @cached_property
    def shares(self) -> Array:
        """Return the share of each symbol in each column, with half a cell for each symbol it can have."""
        counts = np.array([(self.symbols == s).sum(axis=0) for s in range(self.most)], dtype=float).T
        counts += 0.5 * (np.arange(self.most) < self.levels[:, None])
        out: Array = counts / counts.sum(axis=1, keepdims=True)
        return out

    @cached_property
    def frequencies(self) -> Array:
        """Return the frequency of allele 1 in each column, where rows have two strands."""
        known = self.symbols != MISSING
        total = np.where(known, self.symbols, 0).sum(axis=0, dtype=np.int64)
        out: Array = (total + 0.5) / (2 * known.sum(axis=0) + 1.0)
        return out


def levels_of(schema: ColumnSchema) -> NDArray[np.int64]:
    """Return the symbols of each column, 1 where a column is left alone.

    Raises
    ------
    ArgumentError
        If a column holds plain numbers, or has too many symbols.
    """
    sizes = []
    for one in schema.kinds:
        if one is None:
            told = "the mosaic takes columns of symbols only, and some columns hold any numbers: leave them "
            raise ArgumentError("alphabet", None, f'{told}out (continuous="passthrough"), or use si.Posterior()')
        if len(one) > MOST_SYMBOLS:
            told = f"the mosaic takes alphabets of at most {MOST_SYMBOLS} symbols, got one of {len(one)}"
            raise ArgumentError("alphabet", one, f"{told}: join rare ones")
        sizes.append(len(one))
    return np.array([*sizes, 1], dtype=np.int64)[schema.which]
