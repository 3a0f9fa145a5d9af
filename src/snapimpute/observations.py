"""What is known of a matrix: an explicit list of cells and their values, and ways to split it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from snapimpute.alphabet import Alphabet, AlphabetLike

Index = NDArray[np.int32]
Labels = Sequence[Any] | NDArray[Any]
MAX_SIDE = np.iinfo(np.int32).max


class Compressed(NamedTuple):
    """A compressed (CSR-like) view: lane ``i`` holds entries ``indptr[i]:indptr[i+1]``."""

    indptr: NDArray[np.int64]
    indices: Index
    order: NDArray[np.int32] | NDArray[np.int64] | None  # position in `values`, None if the same


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
            Naming the first offending cell and how many there are.
        """
        r, c = _as_index(rows, "rows"), _as_index(cols, "cols")
        v = _as_float(values)
        if not r.size == c.size == v.size:
            raise ValueError(
                f"rows, cols and values must be equally long, got {r.size}, {c.size} and {v.size} entries"
            )
        if v.size == 0:
            raise ValueError("no observed entry: a matrix without any known value cannot be completed")
        if shape is None:
            shape = (int(r.max()) + 1, int(c.max()) + 1)
        shape = _check_shape(shape)
        _check_range(r, shape[0], "row", r, c)
        _check_range(c, shape[1], "column", r, c)
        _refuse(~np.isfinite(v), r, c, v, "not finite", "drop missing cells or write them as absent")
        order = _canonical_order(r, c, v, shape)
        obs = cls(
            _frozen(r[order].astype(np.int32)),
            _frozen(c[order].astype(np.int32)),
            _frozen(v[order]),
            shape,
            _check_labels(row_labels, shape[0], "row_labels"),
            _check_labels(col_labels, shape[1], "col_labels"),
        )
        return obs if alphabet is None else obs.on_alphabet(alphabet)

    @classmethod
    def from_dense(
        cls,
        X: ArrayLike,
        *,
        alphabet: AlphabetLike | None = None,
        row_labels: Labels | None = None,
        col_labels: Labels | None = None,
    ) -> Observations:
        """Build from a two-dimensional array in which NaN means missing (a masked array: its mask too)."""
        mask = np.ma.getmaskarray(X) if isinstance(X, np.ma.MaskedArray) else None
        data = _as_float(X, ndim=2)
        if data.size == 0:
            raise ValueError(f"cannot complete an empty matrix of shape {data.shape}")
        missing = np.isnan(data) if mask is None else np.isnan(data) | mask
        rows, cols = np.nonzero(~missing)
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
        """Build from a scipy sparse matrix or array; every stored entry, zeros included, is an observation."""
        if not sp.issparse(X):
            raise TypeError(f"expected a scipy sparse matrix or array, got {type(X).__name__}")
        if X.ndim != 2:
            raise ValueError(f"expected a two-dimensional sparse array, got {X.ndim} dimension(s)")
        coo = X.tocoo()
        rows, cols = coo.coords
        return cls.from_coo(
            rows,
            cols,
            coo.data,
            coo.shape,
            alphabet=alphabet,
            row_labels=row_labels,
            col_labels=col_labels,
        )

    # ---------------------------------------------------------------- reading
    def __len__(self) -> int:
        return int(self.values.size)

    def __repr__(self) -> str:
        m, n = self.shape
        return f"Observations({m}×{n}, {len(self)} observed = {100 * self.density:.3g} %)"

    @property
    def density(self) -> float:
        """Share of the cells that is observed, |Ω| / mn."""
        return len(self) / (self.shape[0] * self.shape[1])

    @cached_property
    def by_row(self) -> Compressed:
        """Row pointers over the stored (row-major) order."""
        return Compressed(_pointers(self.rows, self.shape[0]), self.cols, None)

    @cached_property
    def by_col(self) -> Compressed:
        """Column pointers, row indices, and where each entry stands in `values`."""
        order = np.argsort(self.cols, kind="stable")  # stable: rows stay sorted inside a column
        if len(self) <= MAX_SIDE:
            order = order.astype(np.int32)
        return Compressed(_pointers(self.cols, self.shape[1]), self.rows[order], order)

    def to_sparse(self) -> Any:
        """Return a `scipy.sparse.csr_array` with one stored entry per observation."""
        indptr, indices, _ = self.by_row
        return sp.csr_array((self.values.copy(), indices.copy(), indptr.copy()), shape=self.shape)

    def on_alphabet(self, alphabet: AlphabetLike) -> Observations:
        """Check that every value is a symbol; return the observations with values exactly on the symbols."""
        symbols = Alphabet.of(alphabet)
        outside = ~symbols.contains(self.values)
        _refuse(
            outside,
            self.rows,
            self.cols,
            self.values,
            f"not in {symbols!r}",
            "correct the data or the alphabet",
        )
        return self.with_values(symbols.snap(self.values))

    def with_values(self, values: ArrayLike) -> Observations:
        """Return the same cells with other values, given in the stored order."""
        v = _as_float(values)
        if v.shape != self.values.shape:
            raise ValueError(f"expected {len(self)} values, one for each observed cell, got shape {v.shape}")
        _refuse(~np.isfinite(v), self.rows, self.cols, v, "not finite", "give finite values")
        return Observations(self.rows, self.cols, _frozen(v), self.shape, self.row_labels, self.col_labels)

    def take(self, index: ArrayLike) -> Observations:
        """Return the observations at the given positions of the stored order, or where a mask is true."""
        idx = np.asarray(index)
        if idx.dtype == np.bool_ and idx.shape != self.values.shape:
            raise ValueError(f"the mask has shape {idx.shape}, expected ({len(self)},)")
        picked = np.flatnonzero(idx) if idx.dtype == np.bool_ else np.sort(idx)
        if picked.size == 0:
            raise ValueError("no observation selected")
        if picked[0] < 0 or picked[-1] >= len(self) or (np.diff(picked) == 0).any():
            raise ValueError(f"positions must be distinct and between 0 and {len(self) - 1}")
        return Observations(
            _frozen(self.rows[picked]),
            _frozen(self.cols[picked]),
            _frozen(self.values[picked]),
            self.shape,
            self.row_labels,
            self.col_labels,
        )

    # ---------------------------------------------------------------- splitting
    def split(
        self,
        share: float = 0.2,
        *,
        per: Literal["entries", "row"] = "entries",
        random_state: int = 0,
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
            raise ValueError(f"share must lie between 0 and 1 (both excluded), got {share}")
        rng = np.random.default_rng(random_state)
        if per == "entries":
            held = np.zeros(len(self), dtype=bool)
            held[rng.permutation(len(self))[: round(share * len(self))]] = True
        elif per == "row":
            held = _rank_in_row(self, rng) < np.floor(share * np.diff(self.by_row.indptr))[self.rows]
        else:
            raise ValueError(f'per must be "entries" or "row", got {per!r}')
        if not held.any() or held.all():
            raise ValueError(
                f"a share of {share} of {len(self)} entries ({per}) leaves one side empty: change the share"
            )
        return self.take(~held), self.take(held)

    def kfold(self, k: int = 5, *, random_state: int = 0) -> Iterator[tuple[Observations, Observations]]:
        """Yield k pairs (kept, held out); every entry is held out exactly once."""
        if not 2 <= k <= len(self):
            raise ValueError(f"k must be between 2 and the number of observed entries ({len(self)}), got {k}")
        fold = np.empty(len(self), dtype=np.int64)
        fold[np.random.default_rng(random_state).permutation(len(self))] = np.arange(len(self)) % k
        return ((self.take(fold != i), self.take(fold == i)) for i in range(k))


# -------------------------------------------------------------------- checks
def _as_float(values: ArrayLike, ndim: int = 1) -> NDArray[np.float64]:
    if sp.issparse(values):
        raise TypeError("got a scipy sparse matrix where an array was expected: use Observations.from_sparse")
    try:
        out = np.asarray(values)
        if out.dtype.kind == "c":
            raise TypeError("complex values are not supported")
        out = out.astype(np.float64)
    except (TypeError, ValueError) as err:
        raise ValueError(f"values must be real numbers, with NaN for missing: {err}") from None
    if out.ndim != ndim:
        kind = "flat list" if ndim == 1 else "two-dimensional array"
        raise ValueError(f"expected a {kind} of values, got {out.ndim} dimension(s), shape {out.shape}")
    return out


def _as_index(index: ArrayLike, name: str) -> NDArray[np.int64]:
    out = np.asarray(index)
    if out.ndim != 1:
        raise ValueError(f"{name} must be a flat list, got shape {out.shape}")
    if out.size and out.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, got dtype {out.dtype}")
    return out.astype(np.int64)


def _check_shape(shape: tuple[int, int]) -> tuple[int, int]:
    if len(shape) != 2:
        raise ValueError(f"shape must be (rows, columns), got {shape!r}")
    m, n = int(shape[0]), int(shape[1])
    if not (0 < m <= MAX_SIDE and 0 < n <= MAX_SIDE):
        raise ValueError(f"shape must be positive and at most {MAX_SIDE} a side, got {shape!r}")
    return m, n


def _check_range(
    index: NDArray[np.int64], size: int, name: str, rows: NDArray[np.int64], cols: NDArray[np.int64]
) -> None:
    bad = (index < 0) | (index >= size)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"{int(bad.sum())} {name} index(es) outside 0..{size - 1}, the first at cell ({rows[i]}, {cols[i]}): "
            f"indices are zero-based; check them or the shape"
        )


def _refuse(
    bad: NDArray[np.bool_],
    rows: NDArray[Any],
    cols: NDArray[Any],
    values: NDArray[np.float64],
    what: str,
    do: str,
) -> None:
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"{int(bad.sum())} value(s) {what}, the first is {values[i]:g} at cell ({rows[i]}, {cols[i]}): {do}"
        )


def _canonical_order(
    rows: NDArray[np.int64], cols: NDArray[np.int64], values: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Row-major order; a cell given twice is an error."""
    key = rows * shape[1] + cols  # sides fit in 31 bits, so the product fits in 62
    if np.all(key[1:] > key[:-1]):
        return np.arange(key.size)
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    if again.size:
        later = order[again + 1]
        i = int(later.min())
        raise ValueError(
            f"{again.size} duplicate cell(s), the first is ({rows[i]}, {cols[i]}), "
            f"given again with value {values[i]:g}: keep one value for each cell"
        )
    return order


def _check_labels(labels: Labels | None, size: int, name: str) -> NDArray[Any] | None:
    if labels is None:
        return None
    out = np.asarray(labels)
    if out.shape != (size,):
        raise ValueError(f"{name} must hold {size} labels, got shape {out.shape}")
    return out


def _frozen(a: NDArray[Any]) -> NDArray[Any]:
    a.flags.writeable = False
    return a


def _pointers(lanes: Index, count: int) -> NDArray[np.int64]:
    out = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(lanes, minlength=count), out=out[1:])
    return out


def _rank_in_row(obs: Observations, rng: np.random.Generator) -> NDArray[np.int64]:
    """Random rank (0, 1, ...) of every entry among the entries of its row."""
    order = np.lexsort((rng.random(len(obs)), obs.rows))
    rank = np.empty(len(obs), dtype=np.int64)
    rank[order] = np.arange(len(obs)) - obs.by_row.indptr[obs.rows[order]]
    return rank
