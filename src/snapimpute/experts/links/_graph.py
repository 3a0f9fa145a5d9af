"""The cells that hold one symbol, as links: neighbours, degrees, and factors of the normalised matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.experts.links import _passes
from snapimpute.experts.links._square import Cells
from snapimpute.linalg import Sparse, partial_svd

RANKS = (2, 4, 8, 16, 32)
"""Numbers of factors that features are made of."""

TOLERANCE = 1e-2
"""Error allowed in the factors; singular values of the normalised matrix are 1 at most."""

PAIRS = 4096
"""Pairs of a part of the work."""


class Neighbours(NamedTuple):
    """Neighbours of node i: ``nodes[begins[i]:begins[i + 1]]``, in ascending order."""

    begins: NDArray[np.int64]
    nodes: NDArray[np.int32]

    @classmethod
    def of(cls, rows: Cells, cols: Cells, size: int) -> Neighbours:
        """Return the columns of each row."""
        order = np.lexsort((cols, rows))
        begins = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=size))]).astype(np.int64)
        return cls(begins, cols[order].astype(np.int32))

    @property
    def degrees(self) -> Array:
        """Number of neighbours of each node."""
        return np.diff(self.begins).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of nodes in the order of their rows, and what is computed for each."""

    rows: Cells
    cols: Cells

    def common(self, here: Neighbours, there: Neighbours, weights: Array) -> Array:
        """Sums of weights over common neighbours, one row for each column of the weights; see `_passes.common`."""
        out = np.empty((self.rows.size, weights.shape[1]))
        self._in_parts(_passes.common, (here, there, weights, out), 100.0)
        return out.T

    def three_steps(self, ways: Sequence[Neighbours], by_first: Array, by_second: Array) -> Array:
        """Sums over paths of three steps, each the product of the weights of the two nodes between."""
        out = np.empty(self.rows.size)
        self._in_parts(_passes.three_steps, (*ways, by_first, by_second, out), 1000.0)
        return out

    def low_rank(self, left: Array, right: Array) -> Array:
        """Entries of a product of factors, one row for each of `RANKS`."""
        out = np.empty((self.rows.size, len(RANKS)))
        self._in_parts(_passes.low_rank, (left, right, np.array(RANKS), out), 100.0)
        return out.T

    def _in_parts(self, work: Callable[..., Any], given: tuple[Any, ...], each: float) -> None:
        run_parts(
            lambda begin, end: work(self.rows, self.cols, *given, begin, end),
            cut(self.rows.size, PAIRS),
            operations=each * self.rows.size,
        )


@dataclass(frozen=True, eq=False)
class Graph:
    """Links from rows to columns: the known cells that hold one symbol.

    Attributes
    ----------
    size : int
        Nodes.
    rows, cols : array of int
        Of all links; a symmetric table has each twice.
    """

    size: int
    rows: Cells
    cols: Cells

    @cached_property
    def out(self) -> Neighbours:
        """Columns that each row links to."""
        return Neighbours.of(self.rows, self.cols, self.size)

    @cached_property
    def into(self) -> Neighbours:
        """Rows that link to each column."""
        return Neighbours.of(self.cols, self.rows, self.size)

    @cached_property
    def either(self) -> Neighbours:
        """Nodes that are linked in either direction."""
        both = np.unique(np.append(self.rows * self.size + self.cols, self.cols * self.size + self.rows))
        return Neighbours.of(*np.divmod(both, self.size), self.size)

    @cached_property
    def scales(self) -> tuple[Array, Array]:
        """Factors of rows and columns that normalise the matrix; each degree counts one mean degree more."""
        mean = self.rows.size / self.size
        out, into = (1 / np.sqrt(np.maximum(one.degrees + mean, 1)) for one in (self.out, self.into))
        return out, into

    @cached_property
    def factors(self) -> tuple[Array, Array]:
        """The leading singular triplets of the normalised matrix, values with the rows; zeros where it has fewer."""
        left, right = np.zeros((self.size, RANKS[-1])), np.zeros((self.size, RANKS[-1]))
        if not self.rows.size:
            return left, right
        cells = Observations.from_coo(self.rows, self.cols, np.ones(self.rows.size), (self.size, self.size))
        values = self.scales[0][cells.rows] * self.scales[1][cells.cols]
        found = partial_svd(Sparse(cells, values), min(RANKS[-1], self.size), tol=TOLERANCE).x
        left[:, : found.s.size], right[:, : found.s.size] = found.U * found.s, found.V
        return left, right
