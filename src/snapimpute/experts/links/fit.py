"""Fitted trees on paths, and what they say of any pair."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, Nominal
from snapimpute.data.answers import CellAnswers
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.boosting import BOOSTING_KINDS, BoostedTrees
from snapimpute.experts.links._square import Cells, Square
from snapimpute.experts.links._training import chances
from snapimpute.experts.links.features import PathFeatures
from snapimpute.solvers import Status
from snapimpute.solvers.model_file import read_content, write_content
from snapimpute.solvers.serialise import known_by_name

FORM = "snapimpute links"

MADE = Status("max_iter", "All sets of trees are made.")

BLOCK = 1 << 16
"""Pairs whose features are in memory at once."""


@stored("links step", "number", "rounds", "loss", "seconds")
@dataclass(frozen=True)
class LinksStep:
    """A set of trees that has been fitted.

    Attributes
    ----------
    number : int
        Sets before.
    rounds : int
        Rounds that were kept.
    loss : float
        Log loss of the cells of one fold, which chose the number of rounds.
    seconds : float
        Since the fit began.
    """

    number: int
    rounds: int
    loss: float
    seconds: float


@stored("links diagnostics", "symmetric", "folds", "cells", "loss", "baseline")
@dataclass(frozen=True)
class LinksDiagnostics:
    """Findings about the table, and how much the trees win.

    Attributes
    ----------
    symmetric : bool
        True if a cell and its mirror are one cell.
    folds, cells : int
        Folds of known cells, and cells that the trees were taught on.
    loss, baseline : float
        Log loss of held-out cells by the trees, and by the frequencies of the symbols.
    """

    symmetric: bool
    folds: int
    cells: int
    loss: float
    baseline: float

    def __str__(self) -> str:
        kind = "symmetric" if self.symmetric else "not symmetric"
        return (
            f"the table is {kind}; trees on {self.cells:,} cells in {self.folds} folds: log loss {self.loss:.4g}, "
            f"by frequencies {self.baseline:.4g}"
        )


@stored("links fit", "columns", "observations", "symmetric", "trees", "weights", "history", "status", "diagnostics")
@dataclass(frozen=True, eq=False)
class LinksFit(CellAnswers):
    """Trees on what the known cells say of a pair.

    Attributes
    ----------
    columns : ColumnSchema
        One alphabet for all columns.
    observations : Observations
    symmetric : bool
        True if a cell and its mirror are one cell.
    trees : tuple of BoostedTrees
        Sets whose probabilities are averaged.
    weights : array of float
        Known cells for each one that the trees were taught on, by symbol.
    history : tuple of LinksStep
    status : Status
        Reason why the fit ended.
    diagnostics : LinksDiagnostics or None
    """

    columns: ColumnSchema
    observations: Observations
    symmetric: bool
    trees: tuple[BoostedTrees, ...] = field(repr=False)
    weights: NDArray[np.float64] = field(repr=False)
    history: tuple[LinksStep, ...] = field(default=(), repr=False)
    status: Status = MADE
    diagnostics: LinksDiagnostics | None = None

    @property
    def schema(self) -> ColumnSchema:
        """Content of each column."""
        return self.columns

    @cached_property
    def features(self) -> PathFeatures:
        """Features of any pair, from all known cells."""
        return PathFeatures.of(self.observations, self.columns, symmetric=self.symmetric)

    # ---------------------------------------------------------------- cells
    def _chances(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        square = self.features.square
        r, c = rows.astype(np.int64), cols.astype(np.int64)
        known = self._known_codes(r, c)
        out = np.zeros((r.size, square.symbols))
        out[known >= 0, known[known >= 0]] = 1.0
        out[(known < 0) & (r == c)] = _loops(square)
        asked = np.flatnonzero((known < 0) & (r != c))
        asked = asked[np.argsort(r[asked], kind="stable")]
        for begin in range(0, asked.size, BLOCK):
            some = asked[begin : begin + BLOCK]
            found = self.features.at(r[some], c[some])
            for trees in self.trees:
                out[some] += chances(trees, found, self.weights) / len(self.trees)
        return out

    def _known_codes(self, rows: Cells, cols: Cells) -> Cells:
        """Symbols of known cells, by their mirrors in a symmetric table; −1 elsewhere."""
        square = self.features.square
        swap = (rows > cols) & self.symmetric
        out = square.found(np.where(swap, cols, rows), np.where(swap, rows, cols))
        loops = np.flatnonzero(rows == cols)
        known, values = self._known(rows[loops], cols[loops])
        alphabet = self.columns.kinds[0]
        if alphabet is not None:
            out[loops[known]] = alphabet.indices(values[known])
        return out

    # ---------------------------------------------------------------- tables
    def _drawn(self, rows: NDArray[np.intp], cols: NDArray[np.intp], count: int, seed: int) -> Iterator[Array]:
        swap = (rows > cols) & self.symmetric
        keys = np.where(swap, cols, rows) * np.int64(self.observations.shape[1]) + np.where(swap, rows, cols)
        pairs, which = np.unique(keys, return_inverse=True)
        chances = self._chances(*np.divmod(pairs, np.int64(self.observations.shape[1])))
        bounds = np.cumsum(chances, axis=1)
        for number in range(count):
            rng = np.random.default_rng(np.random.SeedSequence((seed, number)))
            level = rng.random(pairs.size) * bounds[:, -1]
            symbols = (level[:, None] >= bounds[:, :-1]).sum(axis=1)
            yield self._decoded(cols, symbols[which])

    def fold_in(self, observations: Observations, *, random_state: int = 0) -> LinksFit:
        """Refuse new rows: a new row of a square table is a new column, too."""
        raise ValueError(
            "links take no new rows: a new row of a square table is a new column, too. Fit the larger table again"
        )

    # ---------------------------------------------------------------- files
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file: numbers and text, no code; `load` reads it.

        Parameters
        ----------
        path : path
            Written atomically; a file that is there is replaced.
        """
        write_content(path, self, known_by_name(FILE_KINDS), FORM)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinksFit:
        """Read a fit that `save` wrote.

        Parameters
        ----------
        path : path
        """
        found = read_content(path, known_by_name(FILE_KINDS), FORM)
        if not isinstance(found, cls):
            raise ValueError(f"{path} holds a {type(found).__name__}, no fit of links")
        return found


def _loops(square: Square) -> Array:
    """Frequencies of the symbols on the diagonal, and one cell more with those of the whole table."""
    counts = np.bincount(square.codes, minlength=square.symbols)
    loops = square.loops + counts / counts.sum()
    out: Array = loops / loops.sum()
    return out


LINKS_KINDS: tuple[type, ...] = (*BOOSTING_KINDS, LinksDiagnostics, LinksFit, LinksStep)
"""Classes of a fit that stand in files."""

FILE_KINDS: tuple[type, ...] = (*LINKS_KINDS, Alphabet, Nominal, ColumnSchema, Observations, Status)
"""All classes in the file of a fit."""
