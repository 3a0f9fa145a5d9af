"""Features of pairs of a square table: degrees, mirrors, common neighbours, paths and factors of the known cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.threads import single_threaded_blas
from snapimpute.base.types import Array
from snapimpute.data.alphabet import AlphabetLike
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.links._graph import RANKS, Graph, Pairs
from snapimpute.experts.links._square import Square, Symmetric, schema_of

PRIOR = 5.0
"""Cells of the mean share that are added to each row and column before its share is taken."""

Named = dict[str, Array]

Found = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PathFeatures:
    """Features of any pair, from the known cells of a square table.

    Each symbol but the most common one makes a graph of the cells that hold it. Features of a known cell contain the
    cell itself. To learn from known cells, take their features from a table without them, as `Links` does.

    Attributes
    ----------
    square : Square
        The known cells.
    share : float
        Share of the known cells that these are: counts are scaled to what all of them would give.

    Examples
    --------
    >>> seen = Observations.from_coo([0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 0, 0], [1, 1, 0, 0, 0, 0], (4, 4))
    >>> features = PathFeatures.of(seen, "0,1")
    >>> found = features.at([0], [3])
    >>> found.shape == (1, len(features.names))
    True
    >>> float(found[0, features.names.index("1: out of row")])
    2.0
    """

    square: Square
    share: float = 1.0

    @classmethod
    def of(
        cls,
        observations: Observations,
        alphabet: AlphabetLike | ColumnSchema,
        *,
        symmetric: Symmetric = "auto",
        share: float = 1.0,
    ) -> PathFeatures:
        """Return the features that follow from known cells.

        Parameters
        ----------
        observations : Observations
            Known cells of a square table.
        alphabet : Alphabet, what makes one, or ColumnSchema
        symmetric : bool or "auto"
            True if a cell and its mirror are one cell; "auto" finds out.
        share : float
            Share of all known cells that these are, if some are held out.
        """
        schema = schema_of(alphabet, observations.shape)
        assert schema.one is not None  # noqa: S101  # schema_of refuses others
        return cls(Square.of(observations, schema.one, symmetric), share)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        nothing = np.zeros(0, np.int64)
        return tuple(self._named(Pairs(nothing, nothing)))

    def at(self, rows: ArrayLike, cols: ArrayLike) -> Found:
        """Return the features of pairs, one row each; NaN where the state of the mirror is not known.

        Parameters
        ----------
        rows, cols : array of int
        """
        r, c = (np.asarray(one).astype(np.int64).ravel() for one in (rows, cols))
        if self.square.symmetric:
            r, c = np.minimum(r, c), np.maximum(r, c)
        order = np.argsort(r, kind="stable")
        out = np.empty((r.size, len(self.names)), np.float32)
        for place, found in enumerate(self._named(Pairs(r[order], c[order])).values()):
            out[order, place] = found
        return out

    # ---------------------------------------------------------------- parts
    def _named(self, pairs: Pairs) -> Named:
        out = {f"known of {name}": found for name, found in self._ends(self._known, pairs).items()}
        if not self.square.symmetric:
            mirror = self.square.found(pairs.cols, pairs.rows)
            out["mirror"] = np.where(mirror < 0, np.nan, mirror)
        for symbol, graph in self._graphs.items():
            parts = (self._degrees(graph, pairs), self._neighbours(graph, pairs), self._paths(graph, pairs))
            for part in (*parts, self._factors(graph, pairs)):
                out |= {f"{symbol}: {name}": found for name, found in part.items()}
        return out

    @cached_property
    def _graphs(self) -> dict[int, Graph]:
        """The graph of each symbol but the most common one."""
        rows, cols, codes = self.square.both_ways()
        symbols = [symbol for symbol in range(self.square.symbols) if symbol != self.square.common]
        with single_threaded_blas():
            made = {s: Graph(self.square.size, rows[codes == s], cols[codes == s]) for s in symbols}
            for graph in made.values():
                graph.factors  # noqa: B018  # computed here, where BLAS has one thread
        return made

    @cached_property
    def _known(self) -> tuple[Array, Array]:
        """Known cells in each row, and in each column."""
        rows, cols, _ = self.square.both_ways()
        size = self.square.size
        return np.bincount(rows, minlength=size) / self.share, np.bincount(cols, minlength=size) / self.share

    def _ends(self, sides: tuple[Array, Array], pairs: Pairs) -> Named:
        """Counts at both ends of the pairs; by size in symmetric tables, where no end comes first."""
        (out, into), r, c = sides, pairs.rows, pairs.cols
        if self.square.symmetric:
            return {"smaller": np.minimum(out[r], out[c]), "larger": np.maximum(out[r], out[c])}
        return {"row": out[r], "column": into[c], "column's row": out[c], "row's column": into[r]}

    def _degrees(self, graph: Graph, pairs: Pairs) -> Named:
        counts = graph.out.degrees / self.share, graph.into.degrees / self.share
        mean = counts[0].sum() / max(self._known[0].sum(), 1.0)
        shares = [(one + PRIOR * mean) / (all_of + PRIOR) for one, all_of in zip(counts, self._known, strict=True)]
        out = {f"out of {name}": found for name, found in self._ends(counts, pairs).items()}
        out |= {f"share of {name}": found for name, found in self._ends((shares[0], shares[1]), pairs).items()}
        return out | {"product of shares": shares[0][pairs.rows] * shares[1][pairs.cols]}

    def _neighbours(self, graph: Graph, pairs: Pairs) -> Named:
        """Common neighbours: all alike, by 1 / log of their degree (Adamic–Adar), by 1 / degree (allocation)."""
        ways = {"either": (graph.either, graph.either, graph.either)}
        if not self.square.symmetric:
            ways |= {
                "out-out": (graph.out, graph.out, graph.into),
                "out-in": (graph.out, graph.into, graph.either),
                "in-out": (graph.into, graph.out, graph.either),
                "in-in": (graph.into, graph.into, graph.out),
            }
        out: Named = {}
        for way, (here, there, by) in ways.items():
            degrees = by.degrees
            rare = 1 / np.log(np.maximum(degrees / self.share + 1, 2))
            weights = np.stack([np.ones(degrees.size), rare, 1 / np.maximum(degrees, 1)], axis=1)
            found = pairs.common(here, there, weights)
            names = f"common {way}", f"rare common {way}", f"allocated {way}"
            scales = self.share**2, self.share**2, self.share
            out |= {name: one / scale for name, one, scale in zip(names, found, scales, strict=True)}
        degrees, count = graph.either.degrees, out["common either"] * self.share**2
        ends = degrees[pairs.rows], degrees[pairs.cols]
        out["Jaccard"] = count / np.maximum(ends[0] + ends[1] - count, 1)
        out["two steps"] = out["allocated either"] * self.share / np.sqrt(np.maximum(ends[0] * ends[1], 1))
        return out

    def _paths(self, graph: Graph, pairs: Pairs) -> Named:
        """Paths of three steps, normalised as D^-½ A D^-½ A D^-½ A D^-½."""
        either, even = graph.either, 1 / np.maximum(graph.either.degrees, 1)
        ends = np.sqrt(even[pairs.rows] * even[pairs.cols])
        found = {"three steps": pairs.three_steps([either] * 3, even, even) * ends}
        if self.square.symmetric:
            return found
        out, into = (1 / np.maximum(one.degrees, 1) for one in (graph.out, graph.into))
        through, ends = np.sqrt(out * into), graph.scales[0][pairs.rows] * graph.scales[1][pairs.cols]
        alike = pairs.three_steps([graph.out, graph.into, graph.into], into, out)
        ahead = pairs.three_steps([graph.out, graph.out, graph.into], through, through)
        return found | {"alike rows": alike * ends, "three steps ahead": ahead * ends}

    def _factors(self, graph: Graph, pairs: Pairs) -> Named:
        left, right = graph.factors
        out = dict(zip((f"{rank} factors" for rank in RANKS), pairs.low_rank(left, right), strict=True))
        if not self.square.symmetric:
            back = Pairs(pairs.cols, pairs.rows).low_rank(left, right)
            out |= dict(zip((f"{rank} factors of the mirror" for rank in RANKS), back, strict=True))
        return out
