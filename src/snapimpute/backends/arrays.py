"""A torch tensor that numpy's functions work on, so that formulas are written once for all backends.

Ufuncs and a short list of functions are passed on to torch; all others are
refused, and nothing is ever moved to numpy's memory in silence. Reductions, and
the small factor of a QR, come back as numpy's: they are small, and decisions
are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike
from scipy.special import expit

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
    np.positive: torch.positive,
    np.absolute: torch.abs,
    np.square: torch.square,
    np.sqrt: torch.sqrt,
    np.exp: torch.exp,
    np.log: torch.log,
    np.sign: torch.sign,
    np.maximum: torch.maximum,
    np.minimum: torch.minimum,
    np.logaddexp: torch.logaddexp,
    np.isfinite: torch.isfinite,
    np.greater: torch.gt,
    np.greater_equal: torch.ge,
    np.less: torch.lt,
    np.less_equal: torch.le,
    np.equal: torch.eq,
    np.not_equal: torch.ne,
    np.logical_and: torch.logical_and,
    np.logical_or: torch.logical_or,
    np.logical_not: torch.logical_not,
    np.invert: torch.bitwise_not,
    np.bitwise_and: torch.bitwise_and,
    np.bitwise_or: torch.bitwise_or,
    expit: torch.special.expit,
}
WANT_TENSORS = {np.maximum, np.minimum, np.logaddexp}
"""torch takes no plain numbers here."""


class QR(NamedTuple):
    """As numpy's: Q there, R here."""

    Q: TorchArray
    R: Any


class TorchArray(NDArrayOperatorsMixin):
    """A tensor and the place it lives in.

    Parameters
    ----------
    tensor : torch.Tensor
    place : TorchPlace
    """

    __slots__ = ("place", "tensor")

    def __init__(self, tensor: torch.Tensor, place: Any) -> None:
        self.tensor, self.place = tensor, place

    # ---------------------------------------------------------------- what it is
    @property
    def shape(self) -> tuple[int, ...]:
        """As numpy's."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """As numpy's."""
        return self.tensor.ndim

    @property
    def size(self) -> int:
        """As numpy's."""
        return self.tensor.numel()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Numpy's name of it."""
        return NUMPY[self.tensor.dtype]

    @property
    def nbytes(self) -> int:
        """As numpy's."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def T(self) -> TorchArray:  # noqa: N802 - the name numpy gives it
        """Transposed, without a copy."""
        return self._new(self.tensor.T)

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"TorchArray({self.shape}, {self.dtype}, {self.place.name})"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"an array on {self.place.name} is not moved to numpy's memory unasked: use to_host()")

    def _new(self, tensor: torch.Tensor) -> TorchArray:
        return TorchArray(tensor, self.place)

    def to_host(self) -> Any:
        """A copy in numpy's memory."""
        return self.tensor.detach().cpu().numpy().copy()

    # ---------------------------------------------------------------- parts
    def _index(self, key: Any) -> Any:
        if isinstance(key, tuple):
            return tuple(self._index(one) for one in key)
        if isinstance(key, TorchArray):
            return key.tensor
        return self.place.put(key).tensor if isinstance(key, np.ndarray) else key

    def __getitem__(self, key: Any) -> TorchArray:
        # Always in one piece, as what is saved and loaded again would be: then all bits are the same.
        return self._new(self.tensor[self._index(key)].contiguous())

    def __setitem__(self, key: Any, value: Any) -> None:
        given = self._operand(value)
        self.tensor[self._index(key)] = given.to(self.tensor.dtype) if isinstance(given, torch.Tensor) else given

    def copy(self) -> TorchArray:
        """As numpy's."""
        return self._new(self.tensor.clone(memory_format=torch.contiguous_format))

    def astype(self, dtype: DTypeLike, copy: bool = True) -> TorchArray:
        """As numpy's."""
        wanted = DTYPES[np.dtype(dtype)]
        return self if self.tensor.dtype == wanted and not copy else self._new(self.tensor.to(wanted, copy=True))

    def reshape(self, *shape: Any) -> TorchArray:
        """As numpy's."""
        return self._new(self.tensor.reshape(*shape))

    def ravel(self) -> TorchArray:
        """As numpy's."""
        return self._new(self.tensor.reshape(-1))

    # ---------------------------------------------------------------- reductions
    def sum(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Any:
        """As numpy's, added up in double precision; a number, or a numpy array."""
        exact = self.tensor.dtype.is_floating_point or dtype is not None
        tensor = self.tensor.sum(dtype=torch.float64) if exact and axis is None else self.tensor
        if axis is not None:
            tensor = tensor.sum(dim=axis, dtype=torch.float64)
        elif not exact:
            tensor = tensor.sum()
        wanted = np.dtype(dtype) if dtype is not None else self.dtype if exact else np.dtype(np.int64)
        out = tensor.cpu().numpy()
        return out.astype(wanted if axis is not None or not exact else np.float64)[()]

    def min(self) -> Any:
        """As numpy's."""
        return self.tensor.min().cpu().numpy()[()]

    def max(self) -> Any:
        """As numpy's."""
        return self.tensor.max().cpu().numpy()[()]

    def all(self) -> bool:
        """As numpy's."""
        return bool(self.tensor.all())

    def any(self) -> bool:
        """As numpy's."""
        return bool(self.tensor.any())

    # ---------------------------------------------------------------- numpy's protocol
    def _operand(self, value: Any) -> Any:
        """A tensor here, or a plain number."""
        if isinstance(value, TorchArray):
            return value.tensor
        if isinstance(value, np.ndarray) and value.ndim:
            return self.place.put(value).tensor
        return value.item() if isinstance(value, np.generic | np.ndarray) else value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **more: Any) -> Any:
        if method != "__call__" or more or (ufunc is not np.matmul and ufunc not in UFUNCS):
            return NotImplemented
        if ufunc is np.matmul:
            result = self._matmul(*(self._operand(one) for one in inputs))
        else:
            operands = [self._operand(one) for one in inputs]
            if ufunc in WANT_TENSORS:
                operands = [
                    one if isinstance(one, torch.Tensor) else torch.as_tensor(one, dtype=self.tensor.dtype)
                    for one in operands
                ]
            result = UFUNCS[ufunc](*operands)
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


def _joined(along: int) -> Callable[[Sequence[Any]], TorchArray]:
    def join(arrays: Sequence[Any]) -> TorchArray:
        some = next(one for one in arrays if isinstance(one, TorchArray))
        tensors = [some._operand(one) for one in arrays]
        kind = tensors[0].dtype
        for tensor in tensors[1:]:
            kind = torch.promote_types(kind, tensor.dtype)
        axis = along if tensors[0].ndim > 1 else 0
        return some._new(torch.cat([tensor.to(kind) for tensor in tensors], dim=axis))

    return join


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


def _like(fill: float) -> Callable[..., TorchArray]:
    def make(x: TorchArray, dtype: DTypeLike | None = None) -> TorchArray:
        kind = x.tensor.dtype if dtype is None else DTYPES[np.dtype(dtype)]
        return x._new(torch.full_like(x.tensor, fill, dtype=kind, memory_format=torch.contiguous_format))

    return make


def _where(condition: TorchArray, a: Any, b: Any) -> TorchArray:
    return condition._new(torch.where(condition.tensor, condition._operand(a), condition._operand(b)))


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.hstack: _joined(1),
    np.vstack: _joined(0),
    np.zeros_like: _like(0.0),
    np.empty_like: _like(0.0),
    np.sum: lambda x, axis=None, dtype=None: x.sum(axis, dtype),
    np.where: _where,
    np.flatnonzero: lambda x: x._new(torch.nonzero(x.tensor.reshape(-1)).reshape(-1)),
    np.count_nonzero: lambda x: int(torch.count_nonzero(x.tensor)),
    np.linalg.norm: _norm,
    np.linalg.qr: _qr,
    np.linalg.svd: _svd,
    np.linalg.eigh: _eigh,
}
"""Numpy's functions that are known here."""
