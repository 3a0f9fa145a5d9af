"""The observed cells of a matrix: an explicit list with their values, and ways to split it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Index
from snapimpute.data.alphabet import AlphabetLike
from snapimpute.data.checks import (
    MAX_SIDE,
    Labels,
    as_float,
    as_index,
    canonical_order,
    check_labels,
    check_positions,
    check_range,
    check_shape,
    frozen,
    on_symbols,
    refuse,
)


class Compressed(NamedTuple):
    """A compressed (CSR-like) view: lane ``i`` holds entries ``indptr[i]:indptr[i+1]``."""

    indptr: NDArray[np.int64]
    indices: Index
    order: NDArray[np.int32] | NDArray[np.int64] | None  # position in `values`, None if the same


@stored(
    "observations",
    "rows",
    "cols",
    "values",
    "shape",
    "row_labels",
    "col_labels",
    counted=("rows", "cols", "values", "shape"),
)
@dataclass(frozen=True, eq=False)
class Observations:
    """The observed cells Ω of an m×n matrix and their values, sorted by row, then column.

    Ω is explicit: a stored zero is an observation, and what is not listed is
    missing. Build one with `from_coo`, `from_dense` or `from_sparse`; these
    check everything. The arrays are read-only.

    Parameters
    ----------
    rows, cols : array of int32
    values : array of float64
        Or of float32, from `astype`.
    shape : (int, int)
    row_labels, col_labels : sequence, optional

    Examples
    --------
    >>> obs = Observations.from_dense([[1, np.nan, 5], [np.nan, 3, 0]])
    >>> obs
    Observations(2×3, 4 observed = 66.7 %)
    >>> obs.values
    array([1., 5., 3., 0.])
    """

    rows: Index
    cols: Index
    values: NDArray[np.float64]
    shape: tuple[int, int]
    row_labels: NDArray[Any] | None = None
    col_labels: NDArray[Any] | None = None

    # ---------------------------------------------------------------- building
    @classmethod
    def from_coo(
        cls,
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        shape: tuple[int, int] | None = None,
        *,
        alphabet: AlphabetLike | None = None,
        row_labels: Labels | None = None,
        col_labels: Labels | None = None,
    ) -> Observations:
        """Build from three equally long lists, in any order.

        Parameters
        ----------
        rows, cols : array_like of int
            Zero-based positions.
        values : array_like of float
        shape : (int, int), optional
            Taken from the largest indices if not given.
        alphabet : optional
            If given, every value must be one of its symbols.
        row_labels, col_labels : sequence, optional
            Names, one for each row and column.

        Raises
        ------
        ValueError
            If a cell is refused. The message names the first one, in the order given, and counts all.
        """
        r, c, v = as_index(rows, "rows"), as_index(cols, "cols"), as_float(values)
        if not r.size == c.size == v.size:
            raise ValueError(
                f"rows, cols and values must be equally long, got {r.size}, {c.size} and {v.size} entries"
            )
        if v.size == 0:
            raise ValueError("no observed entry: a matrix without any known value cannot be completed")
        if shape is None:
            shape = (max(int(r.max()), 0) + 1, max(int(c.max()), 0) + 1)
        shape = check_shape(shape)
        check_range(r, shape[0], "row", r, c)
        check_range(c, shape[1], "column", r, c)
        refuse(~np.isfinite(v), r, c, v, ["not finite"], "drop missing cells or write them as absent")
        if alphabet is not None:
            v = on_symbols(alphabet, r, c, v)
        order = canonical_order(r, c, v, shape)
        return cls(
            frozen(r, order, np.int32),
            frozen(c, order, np.int32),
            frozen(v, order),
            shape,
            check_labels(row_labels, shape[0], "row_labels"),
            check_labels(col_labels, shape[1], "col_labels"),
        )

    @classmethod
    def from_dense(
        cls,
        X: ArrayLike,
        *,
        alphabet: AlphabetLike | None = None,
        row_labels: Labels | None = None,
        col_labels: Labels | None = None,
    ) -> Observations:
        """Build from a two-dimensional array; NaN means missing (so do None, pandas' NA, and a masked cell)."""
        data = as_float(X, ndim=2)
        if data.size == 0:
            raise ValueError(f"cannot complete an empty matrix of shape {data.shape}")
        rows, cols = np.nonzero(~np.isnan(data))
        return cls.from_coo(
            rows,
            cols,
            data[rows, cols],
            (data.shape[0], data.shape[1]),
            alphabet=alphabet,
            row_labels=row_labels,
            col_labels=col_labels,
        )

    @classmethod
    def from_sparse(
        cls,
        X: Any,
        *,
        alphabet: AlphabetLike | None = None,
        row_labels: Labels | None = None,
        col_labels: Labels | None = None,
    ) -> Observations:
        """Build from a scipy sparse matrix or array; every stored entry, zeros included, is an observation.

        The DIA and BSR formats are refused: they cannot tell a stored zero from padding.
        """
        if not sp.issparse(X):
            raise TypeError(f"expected a scipy sparse matrix or array, got {type(X).__name__}")
        if X.ndim != 2:
            raise ValueError(f"expected a two-dimensional sparse array, got {X.ndim} dimension(s)")
        if X.format in ("dia", "bsr"):
            raise ValueError(
                f"the {X.format} format cannot tell a stored zero from padding: give CSR, CSC or COO sparse arrays"
            )
        coo = X.tocoo()
        rows, cols = coo.coords
        return cls.from_coo(
            rows, cols, coo.data, coo.shape, alphabet=alphabet, row_labels=row_labels, col_labels=col_labels
        )

    # ---------------------------------------------------------------- reading
    def __len__(self) -> int:
        return int(self.values.size)

    def __repr__(self) -> str:
        m, n = self.shape
        return f"Observations({m}×{n}, {len(self)} observed = {100 * self.density:.3g} %)"

    @property
    def density(self) -> float:
        """Share of observed cells, |Ω| / mn."""
        return len(self) / (self.shape[0] * self.shape[1])

    @cached_property
    def by_row(self) -> Compressed:
        """Row pointers over the stored (row-major) order."""
        return Compressed(_pointers(self.rows, self.shape[0]), self.cols, None)

    @cached_property
    def by_col(self) -> Compressed:
        """Column pointers, row indices, and the position of each entry in `values`."""
        order = np.argsort(self.cols, kind="stable")  # stable: rows stay sorted inside a column
        if len(self) <= MAX_SIDE:
            order = order.astype(np.int32)
        return Compressed(_pointers(self.cols, self.shape[1]), frozen(self.rows, order), frozen(order))

    def to_sparse(self) -> Any:
        """Return a `scipy.sparse.csr_array` with one stored entry per observation."""
        indptr, indices, _ = self.by_row
        return sp.csr_array((self.values.copy(), indices.copy(), indptr.copy()), shape=self.shape)

    def on_alphabet(self, alphabet: AlphabetLike) -> Observations:
        """Check that every value is a symbol; return the observations with values exactly on the symbols."""
        return self.with_values(on_symbols(alphabet, self.rows, self.cols, self.values))

    def with_values(self, values: ArrayLike) -> Observations:
        """Return the same cells with other values, given in the stored order."""
        v = as_float(values)
        if v.shape != self.values.shape:
            raise ValueError(f"expected {len(self)} values, one for each observed cell, got shape {v.shape}")
        refuse(~np.isfinite(v), self.rows, self.cols, v, ["not finite"], "give finite values")
        return self._with(values=frozen(v))

    def labelled(self, row_labels: Labels | None, col_labels: Labels | None) -> Observations:
        """Return the same cells with other labels of rows and columns."""
        m, n = self.shape
        rows, cols = check_labels(row_labels, m, "row_labels"), check_labels(col_labels, n, "col_labels")
        return self._with(row_labels=rows, col_labels=cols)

    def astype(self, dtype: DTypeLike) -> Observations:
        """Return the same cells with their values in another precision, for a solver that runs in it."""
        if self.values.dtype == np.dtype(dtype):
            return self
        return self._with(values=frozen(self.values, dtype=dtype))

    def _with(self, **changes: NDArray[Any] | None) -> Observations:
        """The same cells, whose order by rows and columns is not worked out again."""
        out = replace(self, **changes)  # type: ignore[arg-type]  # neither positions nor the shape
        out.__dict__.update({name: self.__dict__[name] for name in ("by_row", "by_col") if name in self.__dict__})
        return out

    def below(self, rows: int) -> Observations:
        """Return the same cells so many rows further down, in a table with as many more."""
        m, n = self.shape
        moved = frozen(self.rows + np.int32(rows), dtype=np.int32)
        return Observations(moved, self.cols, self.values, check_shape((m + rows, n)))

    def take(self, index: ArrayLike) -> Observations:
        """Return the observations where a mask is true, or at the given positions; they stay in stored order."""
        idx = np.asarray(index)
        if idx.dtype == np.bool_ and idx.shape != self.values.shape:
            raise ValueError(f"the mask has shape {idx.shape}, expected ({len(self)},)")
        picked = np.flatnonzero(idx) if idx.dtype == np.bool_ else check_positions(idx, len(self))
        if picked.size == 0:
            raise ValueError("no observation selected")
        return Observations(
            frozen(self.rows, picked),
            frozen(self.cols, picked),
            frozen(self.values, picked),
            self.shape,
            self.row_labels,
            self.col_labels,
        )

    # ---------------------------------------------------------------- splitting
    def split(
        self, share: float = 0.2, *, per: Literal["entries", "row"] = "entries", random_state: int = 0
    ) -> tuple[Observations, Observations]:
        """Split into (kept, held out).

        Parameters
        ----------
        share : float
            Share of the observed entries to hold out, between 0 and 1.
        per : {"entries", "row"}
            "entries" draws from all entries alike; "row" holds out that share of
            every row (rounded down), so that each row keeps at least one entry.
        random_state : int
            Same seed, same split.

        Examples
        --------
        >>> kept, held = Observations.from_dense(np.ones((4, 5))).split(0.2)
        >>> len(kept), len(held)
        (16, 4)
        """
        if not 0 < share < 1:
            raise ArgumentError.must("share", share, "lie between 0 and 1 (both excluded)")
        rng = np.random.default_rng(random_state)
        if per == "entries":
            held = np.zeros(len(self), dtype=bool)
            held[rng.permutation(len(self))[: round(share * len(self))]] = True
        elif per == "row":
            counts = np.diff(self.by_row.indptr)
            out = np.floor(share * counts + 1e-9)  # 0.29 * 100 is 28.999999999999996
            held = _rank_in_row(self, rng) < np.minimum(out, counts - 1)[self.rows]
        else:
            raise ArgumentError.must("per", per, 'be "entries" or "row"')
        if not held.any() or held.all():
            raise ValueError(
                f"a share of {share} of {len(self)} entries ({per}) leaves one side empty: change the share"
            )
        return self.take(~held), self.take(held)

    def kfold(self, k: int = 5, *, random_state: int = 0) -> Iterator[tuple[Observations, Observations]]:
        """Yield k pairs (kept, held out); every entry is held out exactly once."""
        if not 2 <= k <= len(self):
            raise ArgumentError.must("k", k, f"be between 2 and the number of observed entries ({len(self)})")
        fold = np.empty(len(self), dtype=np.int64)
        fold[np.random.default_rng(random_state).permutation(len(self))] = np.arange(len(self)) % k
        return ((self.take(fold != i), self.take(fold == i)) for i in range(k))


def _pointers(lanes: Index, count: int) -> NDArray[np.int64]:
    out = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(lanes, minlength=count), out=out[1:])
    out.flags.writeable = False
    return out


def _rank_in_row(obs: Observations, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a random rank (0, 1, ...) for every entry among the entries of its row."""
    order = np.lexsort((rng.random(len(obs)), obs.rows))
    rank = np.empty(len(obs), dtype=np.int64)
    rank[order] = np.arange(len(obs)) - obs.by_row.indptr[obs.rows[order]]
    return rank
