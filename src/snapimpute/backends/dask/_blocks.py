"""An array in blocks of rows on many machines, that numpy's functions work on.

Each block lives on a worker of the cluster, beside the observations of its
rows. Arithmetic is only written down (`expressions`); it is done when a number,
or a small array, is asked of it, and then all that was written down is done
in one task for each block. What was expensive is kept where it was made.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike

from snapimpute.backends.dask._expressions import Node, Ref
from snapimpute.linalg.backend import ROWS


class QR(NamedTuple):
    """Pair as numpy's `qr` returns it: Q there, R here."""

    Q: Blocks
    R: Any


NUMBERS = itertools.count()
"""Whatever is made of something else has a higher one."""


class Written:
    """Tree that makes the blocks of an array and, once that is computed and kept, the places of the values.

    Blocks stay where they are if ``keep``; else they are computed again. ``brief`` ones are of no use beyond an
    iteration.
    """

    __slots__ = ("__weakref__", "brief", "held", "keep", "number", "spare", "tree")

    def __init__(self, tree: Any, *, keep: bool = False, brief: bool = False) -> None:
        self.tree, self.keep, self.brief, self.number = tree, keep, brief, next(NUMBERS)
        self.held: list[Any] | None = None
        self.spare: list[Any] | None = None
        """The same values on other workers."""


class Blocks(NDArrayOperatorsMixin):
    """An array in blocks of so many rows (``lengths``), which are rows of the table or observations (``side``).

    ``meta`` is a block without rows, for its dtype and columns.
    """

    __slots__ = ("backend", "lengths", "meta", "side", "written")

    def __init__(self, backend: Any, written: Written, lengths: tuple[int, ...], meta: Any, side: int = ROWS) -> None:
        self.backend, self.written, self.lengths, self.meta, self.side = backend, written, lengths, meta, side

    # ---------------------------------------------------------------- what it is
    @property
    def shape(self) -> tuple[int, ...]:
        """Follow numpy's attribute or method of this name."""
        return (sum(self.lengths), *self.meta.shape[1:])

    @property
    def ndim(self) -> int:
        """Follow numpy's attribute or method of this name."""
        return int(self.meta.ndim)

    @property
    def size(self) -> int:
        """Follow numpy's attribute or method of this name."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Follow numpy's attribute or method of this name."""
        found: np.dtype[Any] = self.meta.dtype
        return found

    @property
    def nbytes(self) -> int:
        """Follow numpy's attribute or method of this name."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Any:  # noqa: N802 - the name numpy gives it
        """Transposed, to be multiplied with another."""
        return Turned(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Blocks({self.shape}, {self.dtype}, {len(self.lengths)} blocks on {self.backend.name})"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"an array on {self.backend.name} is not moved to numpy's memory unasked: use to_host()")

    def to_host(self) -> Any:
        """A copy in numpy's memory."""
        return np.concatenate([self.meta, *self.backend.each(_same, self)])

    def fingerprint(self) -> str:
        """One text for equal values in equal blocks."""
        return f"{self.shape} {self.lengths} {' '.join(self.backend.each(_digest, self))}"

    def mean(self) -> float:
        """Follow numpy's attribute or method of this name."""
        return float(self.sum()) / max(self.size, 1)

    def shares(self, alphabet: Any) -> Any:
        """Share of each symbol of an alphabet among the values."""
        return self.backend.total(_symbols, self, alphabet) / max(self.size, 1)

    # ---------------------------------------------------------------- trees
    def as_tree(self) -> Any:
        """Tree of the array, for a larger tree: its value where that is kept, else the way to compute it."""
        return Ref(self.written) if self.written.keep or self.written.held is not None else self.written.tree

    def then(
        self, function: Callable[..., Any], *more: Any, keep: bool = False, brief: bool = False, meta: Any = None
    ) -> Blocks:
        """function(self, more) block by block."""
        trees = [one.as_tree() if isinstance(one, Blocks) else one for one in more]
        if meta is None:
            with np.errstate(all="ignore"):
                meta = function(self.meta, *(one.meta if isinstance(one, Blocks) else one for one in more))
        written = self.backend.written(Node(function, self.as_tree(), *trees), keep=keep, brief=brief)
        return Blocks(self.backend, written, self.lengths, meta, self.side)

    def become(self, other: Blocks) -> None:
        """Be another array from now on; what was written down with this one before keeps its meaning."""
        self.written, self.meta = other.written, other.meta

    # ---------------------------------------------------------------- parts
    def __getitem__(self, key: Any) -> Blocks:
        if isinstance(key, Blocks):
            out = self.then(np.take, key, 0)
            out.lengths = key.lengths
            return out
        if isinstance(key, slice):
            if key.indices(len(self)) != (0, len(self), 1):
                raise TypeError("rows of an array in blocks cannot be cut out")
            return self
        first, *columns = key
        if first != slice(None):
            raise TypeError("rows of an array in blocks cannot be cut out")
        return self.then(_columns, *columns)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, Blocks):
            self.become(self.then(_replaced, key, value))
        elif key == slice(None):
            self.become(value if isinstance(value, Blocks) else self.then(np.full_like, value))
        else:
            raise TypeError("rows of an array in blocks cannot be set")

    def copy(self) -> Blocks:
        """Follow numpy's attribute or method of this name."""
        return self.then(_same, keep=self.side == ROWS)

    def astype(self, dtype: DTypeLike, copy: bool = True) -> Blocks:
        """Follow numpy's attribute or method of this name."""
        return self if self.dtype == np.dtype(dtype) and not copy else self.then(_typed, np.dtype(dtype))

    # ---------------------------------------------------------------- reductions
    def sum(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Any:
        """Add up in double precision: one number, or along an axis an array of numpy's, of the dtype it gives."""
        total = self.backend.total(_summed, self, axis)
        return float(total) if axis is None else np.asarray(total, self.dtype if dtype is None else dtype)

    def all(self) -> bool:
        """Follow numpy's attribute or method of this name."""
        return all(self.backend.each(np.all, self))

    # ---------------------------------------------------------------- numpy's protocol
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **more: Any) -> Any:
        if method != "__call__" or more:
            return NotImplemented
        if ufunc is np.matmul:
            return self._matmul(*inputs)
        blocks = next(one for one in inputs if isinstance(one, Blocks))
        with np.errstate(all="ignore"):
            meta = ufunc(*(one.meta if isinstance(one, Blocks) else one for one in inputs))
        trees = [one.as_tree() if isinstance(one, Blocks) else one for one in inputs]
        result = Blocks(blocks.backend, Written(Node(ufunc, *trees)), blocks.lengths, meta, blocks.side)
        if out is None:
            return result
        (target,) = out
        if not isinstance(target, Blocks):
            return NotImplemented
        target.become(result if meta.dtype == target.dtype else result.astype(target.dtype))
        return target

    def _matmul(self, a: Any, b: Any) -> Any:
        if isinstance(a, Blocks) and isinstance(b, Blocks) and a.ndim == b.ndim == 1:
            return float(self.backend.total(_dot, a, b))
        if isinstance(a, Blocks) and isinstance(b, np.ndarray):
            return self.backend.times(a, b)
        return NotImplemented

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func not in FUNCTIONS:
            return NotImplemented
        return FUNCTIONS[func](*args, **kwargs)


class Turned:
    """An array in blocks, transposed: it can only be multiplied."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks

    def __matmul__(self, other: Blocks) -> Any:
        return self.blocks.backend.inner(self.blocks, other)


# ---------------------------------------------------------------- what is done to a block
def _same(x: Any) -> Any:
    return x


def _symbols(x: Any, alphabet: Any) -> Any:
    return x.size * alphabet.frequencies(x) if x.size else np.zeros(len(alphabet))


def _digest(x: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(x).data).hexdigest()


def _columns(x: Any, columns: Any) -> Any:
    return np.ascontiguousarray(x[:, columns])


def _replaced(x: Any, index: Any, value: Any) -> Any:
    out = x.copy()
    out[index] = value
    return out


def _typed(x: Any, dtype: np.dtype[Any]) -> Any:
    return x.astype(dtype)


def _summed(x: Any, axis: int | None) -> Any:
    return np.sum(x, axis=axis, dtype=np.float64)


def _dot(x: Any, y: Any) -> float:
    return float(np.sum(x * y, dtype=np.float64))


def _squares(x: Any, axis: int | None) -> Any:
    return np.sum(np.square(x, dtype=np.float64), axis=axis)


def _row_sums(x: Any) -> float:
    return float(np.abs(x).sum(axis=1, dtype=np.float64).max(initial=0.0))


def _column_sums(x: Any) -> Any:
    return np.abs(x).sum(axis=0, dtype=np.float64)


def _hstack(*arrays: Any) -> Any:
    return np.hstack(arrays)


def _q(pair: Any, piece: Any) -> Any:
    return pair[0] @ piece


def _factored(x: Any) -> Any:
    return tuple(np.linalg.qr(x))


# ---------------------------------------------------------------- functions of numpy
def _side_by_side(arrays: Sequence[Blocks]) -> Blocks:
    first, *more = arrays
    return first.then(_hstack, *more)


def _norm(x: Blocks, ord: Any = None, axis: int | None = None) -> Any:
    if axis is not None:
        return np.sqrt(x.backend.total(_squares, x, axis)).astype(x.dtype)
    if ord is None:
        return math.sqrt(x.backend.total(_squares, x, None))
    if ord == 1:
        return float(np.max(x.backend.total(_column_sums, x), initial=0.0))
    return max(x.backend.each(_row_sums, x))


def _qr(x: Blocks) -> QR:
    """Householder's of each block, and of what is left of all of them together."""
    pairs = x.then(_factored, keep=True, brief=True, meta=np.empty((0, 0), x.dtype))
    parts = x.backend.each(itemgetter(1), pairs)
    Q, R = np.linalg.qr(np.concatenate(parts))
    borders = np.cumsum([len(part) for part in parts])[:-1]
    pieces = x.backend.per_block(np.split(Q, borders))
    return QR(pairs.then(_q, pieces, keep=True, meta=np.empty((0, R.shape[0]), x.dtype)), R)


def _svd(x: Blocks, full_matrices: bool = True) -> tuple[Blocks, Any, Any]:
    Q, R = _qr(x)
    u, s, vt = np.linalg.svd(R, full_matrices=False)
    return x.backend.times(Q, u), s, vt


def _flatnonzero(x: Blocks) -> Blocks:
    """Positions where a block is not 0, counted within the block."""
    found = x.then(np.flatnonzero, keep=True)
    found.lengths = tuple(x.backend.each(len, found))
    return found


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.hstack: _side_by_side,
    np.zeros_like: lambda x: x.then(np.zeros_like),
    np.empty_like: lambda x: x.then(np.zeros_like),
    np.sum: lambda x, axis=None, dtype=None: x.sum(axis, dtype),
    np.flatnonzero: _flatnonzero,
    np.linalg.norm: _norm,
    np.linalg.qr: _qr,
    np.linalg.svd: _svd,
}
"""Numpy's functions that are known here."""
