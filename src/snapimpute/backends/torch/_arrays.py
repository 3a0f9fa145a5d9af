"""A torch tensor that numpy's functions work on, so that formulas are written once for all backends.

Ufuncs and a short list of functions are passed on to torch; all others are
refused, and nothing is ever moved to numpy's memory in silence. Reductions, and
the small factor of a QR, come back as numpy's: they are small, and decisions
are made of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike

from snapimpute.linalg.backend import ROWS

DTYPES = {
    np.dtype(name): getattr(torch, name)
    for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
}
NUMPY = {ours: theirs for theirs, ours in DTYPES.items()}

UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: torch.add,
    np.subtract: torch.subtract,
    np.multiply: torch.multiply,
    np.true_divide: torch.true_divide,
    np.power: torch.pow,
    np.negative: torch.negative,
    np.equal: torch.eq,
    np.isfinite: torch.isfinite,
}
"""Numpy's that are known here, and `matmul`."""


class QR(NamedTuple):
    """Pair as numpy's `qr` returns it: Q there, R here."""

    Q: TorchArray
    R: Any


class TorchArray(NDArrayOperatorsMixin):
    """A tensor and the backend that it lives on."""

    __slots__ = ("backend", "tensor")
    side = ROWS
    """All are alike here."""

    def __init__(self, tensor: torch.Tensor, backend: Any) -> None:
        self.tensor, self.backend = tensor, backend

    # ---------------------------------------------------------------- what it is
    @property
    def shape(self) -> tuple[int, ...]:
        """Follow numpy's attribute or method of this name."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Follow numpy's attribute or method of this name."""
        return self.tensor.ndim

    @property
    def size(self) -> int:
        """Follow numpy's attribute or method of this name."""
        return self.tensor.numel()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Numpy's name of it."""
        return NUMPY[self.tensor.dtype]

    @property
    def nbytes(self) -> int:
        """Follow numpy's attribute or method of this name."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def T(self) -> TorchArray:  # noqa: N802 - the name numpy gives it
        """Transposed, without a copy."""
        return self._new(self.tensor.T)

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"TorchArray({self.shape}, {self.dtype}, {self.backend.name})"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"an array on {self.backend.name} is not moved to numpy's memory unasked: use to_host()")

    def __reduce__(self) -> Any:
        name = self.backend.name
        raise TypeError(f"an array on {name} is not pickled: use to_host() first, or moved(None) of a matrix")

    def __deepcopy__(self, memo: Any) -> TorchArray:
        return self.copy()

    def _new(self, tensor: torch.Tensor) -> TorchArray:
        return TorchArray(tensor, self.backend)

    def to_host(self) -> Any:
        """A copy in numpy's memory."""
        return self.tensor.detach().cpu().numpy().copy()

    # ---------------------------------------------------------------- parts
    def _index(self, key: Any) -> Any:
        if isinstance(key, tuple):
            return tuple(self._index(one) for one in key)
        if isinstance(key, TorchArray):
            return key.tensor
        return self.backend.put(key).tensor if isinstance(key, np.ndarray) else key

    def __getitem__(self, key: Any) -> TorchArray:
        # Always in one piece, as what is saved and loaded again would be: then all bits are the same.
        return self._new(self.tensor[self._index(key)].contiguous())

    def __setitem__(self, key: Any, value: Any) -> None:
        given = self._operand(value)
        self.tensor[self._index(key)] = given.to(self.tensor.dtype) if isinstance(given, torch.Tensor) else given

    def copy(self) -> TorchArray:
        """Follow numpy's attribute or method of this name."""
        return self._new(self.tensor.clone(memory_format=torch.contiguous_format))

    def astype(self, dtype: DTypeLike, copy: bool = True) -> TorchArray:
        """Follow numpy's attribute or method of this name."""
        wanted = DTYPES[np.dtype(dtype)]
        return self if self.tensor.dtype == wanted and not copy else self._new(self.tensor.to(wanted, copy=True))

    def reshape(self, *shape: Any) -> TorchArray:
        """Follow numpy's attribute or method of this name."""
        return self._new(self.tensor.reshape(*shape))

    # ---------------------------------------------------------------- reductions
    def sum(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Any:
        """Add up in double precision: one number, or along an axis an array of numpy's, of the dtype it gives."""
        if axis is None:
            return self.tensor.sum(dtype=torch.float64).item()
        wanted = self.dtype if dtype is None else dtype
        return self.tensor.sum(dim=axis, dtype=torch.float64).cpu().numpy().astype(wanted)

    def all(self) -> bool:
        """Follow numpy's attribute or method of this name."""
        return bool(self.tensor.all())

    # ---------------------------------------------------------------- numpy's protocol
    def _operand(self, value: Any) -> Any:
        """A tensor here, or a plain number."""
        if isinstance(value, TorchArray):
            return value.tensor
        if isinstance(value, np.ndarray) and value.ndim:
            return self.backend.put(value).tensor
        return value.item() if isinstance(value, np.generic | np.ndarray) else value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **more: Any) -> Any:
        if method != "__call__" or more or (ufunc is not np.matmul and ufunc not in UFUNCS):
            return NotImplemented
        if ufunc is np.matmul:
            result = self._matmul(*(self._operand(one) for one in inputs))
        else:
            result = UFUNCS[ufunc](*(self._operand(one) for one in inputs))
        if out is None:
            return self._new(result) if isinstance(result, torch.Tensor) else result
        (target,) = out
        if not isinstance(target, TorchArray):
            return NotImplemented
        target.tensor.copy_(result)
        return target

    @staticmethod
    def _matmul(a: torch.Tensor, b: torch.Tensor) -> Any:
        kind = torch.promote_types(a.dtype, b.dtype)
        if a.ndim == b.ndim == 1:  # a number: added up in double precision
            return float((a * b).sum(dtype=torch.float64))
        return torch.matmul(a.to(kind), b.to(kind))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func not in FUNCTIONS:
            return NotImplemented
        return FUNCTIONS[func](*args, **kwargs)


def _side_by_side(arrays: Sequence[Any]) -> TorchArray:
    some = next(one for one in arrays if isinstance(one, TorchArray))
    tensors = [some._operand(one) for one in arrays]
    kind = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return some._new(torch.cat([tensor.to(kind) for tensor in tensors], dim=1))


def _norm(x: TorchArray, ord: Any = None, axis: int | None = None) -> Any:
    tensor = x.tensor
    if axis is not None:
        return torch.linalg.vector_norm(tensor, dim=axis, dtype=torch.float64).cpu().numpy().astype(x.dtype)
    if ord is None:
        return float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
    return float(torch.linalg.matrix_norm(tensor, ord=ord))


def _qr(x: TorchArray) -> QR:
    q, r = torch.linalg.qr(x.tensor)
    return QR(x._new(q.contiguous()), r.cpu().numpy())


def _svd(x: TorchArray, full_matrices: bool = True) -> tuple[TorchArray, Any, TorchArray]:
    u, s, vt = torch.linalg.svd(x.tensor, full_matrices=full_matrices)
    return x._new(u), s.cpu().numpy(), x._new(vt)


def _eigh(x: TorchArray) -> tuple[Any, TorchArray]:
    values, vectors = torch.linalg.eigh(x.tensor)
    return values.cpu().numpy(), x._new(vectors)


def _zeros_like(x: TorchArray) -> TorchArray:
    return x._new(torch.zeros_like(x.tensor, memory_format=torch.contiguous_format))


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.hstack: _side_by_side,
    np.zeros_like: _zeros_like,
    np.empty_like: _zeros_like,
    np.sum: lambda x, axis=None, dtype=None: x.sum(axis, dtype),
    np.flatnonzero: lambda x: x._new(torch.nonzero(x.tensor.reshape(-1)).reshape(-1)),
    np.linalg.norm: _norm,
    np.linalg.qr: _qr,
    np.linalg.svd: _svd,
    np.linalg.eigh: _eigh,
}
"""Numpy's functions that are known here."""
