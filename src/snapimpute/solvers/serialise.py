"""Values as a tree that JSON can hold with arrays beside it, and back; and a digest of a value.

Nothing in a tree is executed: it has numbers, text, containers and objects of
classes that the caller lists, each built by calling its constructor. A class goes
by the name and the fields that `files.stored` declares, never by its module. What is one
object is one object again, and arrays keep their strides, as BLAS sums a strided
column in another order than a dense one.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import file_form
from snapimpute.linalg.backend import Backend, backend_of

_NATIVE = frozenset(("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"))
"""Types that safetensors has; arrays of others are stored as bytes."""

_PLAIN = re.compile(r"[<>|][biufcSUmM][1-9]\d*(\[[^\]]*\])?")
"""Numpy's names of the types that are plain bytes: no objects, no records."""

Tensors = dict[str, NDArray[Any]]
Known = dict[str, type]


# ---------------------------------------------------------------- digests
def digest(value: Any) -> str:
    """SHA-256 of a value with all its exact parameters.

    Examples
    --------
    >>> digest(0.1 + 0.2) == digest(0.3), digest([1, 2.0]) == digest((np.float64(1.0), 2))
    (False, True)
    """
    sha = hashlib.sha256()
    _feed(value, sha.update)
    return sha.hexdigest()


def _feed(value: Any, update: Callable[[Any], None]) -> None:
    """Feed a value; the kind and the length go first, so that no two values read alike."""

    def head(kind: str, text: str = "") -> None:
        update(f"{kind} {len(text)} {text};".encode(errors="surrogatepass"))

    if value is None or isinstance(value, bool | np.bool_ | str):
        head("text" if isinstance(value, str) else "constant", str(value))
    elif isinstance(value, Real):
        head("number", _number(value))
    elif isinstance(value, np.dtype | type):
        head("type", name_of(value) if isinstance(value, type) else str(value))
    elif isinstance(value, np.ndarray):
        array = np.asarray(value, dtype=np.int64) if value.dtype.kind == "i" else np.asarray(value)
        head("array", f"{_plain(array.dtype).str} {array.shape}")
        update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    elif backend_of(value) is not None and hasattr(value, "fingerprint"):
        head("elsewhere", value.fingerprint())
    elif backend_of(value) is not None and hasattr(value, "to_host"):
        _feed(value.to_host(), update)
    elif isinstance(value, tuple | list):
        head("sequence", str(len(value)))
        for item in value:
            _feed(item, update)
    else:
        parts = _parts(value)
        head("mapping" if isinstance(value, Mapping) else name_of(type(value)), str(len(parts)))
        for name in sorted(parts):
            head("name", name)
            _feed(parts[name], update)


def _number(value: Real) -> str:
    """1, 1.0 and np.float32(1) are the same number."""
    whole = isinstance(value, Integral) or float(value).is_integer()
    return str(int(value)) if whole else float(value).hex()  # type: ignore[call-overload]  # whole numbers have int


def _parts(value: Any) -> dict[str, Any]:
    """Parts of an object, by name."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    if (form := file_form(type(value))) is not None:
        return {name: getattr(value, name) for name in form.counted}
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    code = isinstance(value, FunctionType | BuiltinFunctionType | MethodType | ModuleType)
    if code or not hasattr(value, "__dict__"):
        raise TypeError(f"a checkpoint must tell one run from another, and cannot tell what is in {value!r}")
    own = vars(value).items()
    return {name: part for name, part in own if not isinstance(getattr(type(value), name, None), cached_property)}


def name_of(kind: type) -> str:
    """Return the name of a class in files: the declared one; else "own" and the name of the class itself.

    Examples
    --------
    >>> from snapimpute.penalties import Nuclear
    >>> class Mine(Nuclear): ...
    >>> name_of(Nuclear), name_of(Mine)
    ('penalty nuclear', 'own Mine')
    """
    form = file_form(kind)
    return f"own {kind.__qualname__}" if form is None else form.name


def known_by_name(kinds: Iterable[type]) -> Known:
    """List classes by their names in files; two with one name are a ValueError."""
    known: Known = {}
    for kind in kinds:
        other = known.setdefault(name_of(kind), kind)
        if other is not kind:
            both = f"{_path(other)} and {_path(kind)}"
            raise ValueError(f"{both} would both be called {name_of(kind)!r} in a file: rename one of them")
    return known


def _path(kind: type) -> str:
    """Module and name of a class, for errors."""
    return f"{kind.__module__}.{kind.__qualname__}"


# ---------------------------------------------------------------- trees
def _fields(kind: type) -> tuple[str, ...]:
    """The fields of a class in files: the declared ones, or all that its constructor takes."""
    form = file_form(kind)
    return tuple(inspect.signature(kind).parameters) if form is None else form.fields


def _plain(dtype: np.dtype[Any] | str) -> np.dtype[Any]:
    """A type that is plain bytes; others are refused."""
    text = dtype if isinstance(dtype, str) else dtype.str
    if not _PLAIN.fullmatch(text):
        raise TypeError(f"only arrays of numbers and text can be written, not of dtype {dtype}")
    return np.dtype(text)


def _outermost_first(strides: Sequence[int]) -> list[int]:
    """The axes in the order of memory: C order gives 0, 1, …, Fortran order the reverse."""
    return sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))


class Encoder:
    """Turns values into a tree that JSON can hold, and arrays beside it.

    Numbers, text and None stand for themselves, all else is a list that begins
    with its kind. Containers, arrays and objects are counted as they are
    completed; one that is met again is a reference to its number.
    """

    def __init__(
        self, known: Known, given: Mapping[str, Any], what: str = "checkpoint", folder: Path | None = None
    ) -> None:
        self.tensors: Tensors = {}
        self.apart = 0
        """Arrays that are written into the folder, by whoever has them."""
        self._folder = folder
        self._what = what
        self._names = {kind: name for name, kind in known.items()}
        self._given = {id(value): name for name, value in given.items() if value is not None}
        self._numbers: dict[int, int] = {}
        self._open: set[int] = set()
        self._alive: list[Any] = []  # an id must not be used again meanwhile

    def node(self, value: Any) -> Any:
        """The tree of a value."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else ["float", struct.pack(">d", value).hex()]
        if isinstance(value, np.generic):
            return ["scalar", _plain(value.dtype).str, value.tobytes().hex()]
        key = id(value)
        if key in self._given:
            return ["given", self._given[key]]
        if key in self._numbers:
            return ["again", self._numbers[key]]
        if key in self._open:
            raise ValueError(f"a {self._what} cannot hold a {type(value).__name__} that contains itself")
        self._open.add(key)
        out = self._composite(value)
        self._open.discard(key)
        self._numbers[key] = len(self._numbers)
        self._alive.append(value)
        return out

    def _composite(self, value: Any) -> list[Any]:
        kind = type(value)
        if kind in (list, tuple):
            return [kind.__name__, [self.node(item) for item in value]]
        if kind is dict:
            if not all(type(name) is str for name in value):
                raise TypeError(f"the keys of a dict in a {self._what} must be text, got {list(value)}")
            return ["dict", {name: self.node(item) for name, item in value.items()}]
        if kind in (np.ndarray, np.memmap):
            return self._array(value)
        backend = backend_of(value)
        if backend is not None and hasattr(value, "to_host"):
            stored = None if self._folder is None else backend.stored(value, self._folder / str(self.apart))
            if stored is None:
                return ["elsewhere", self._array(value.to_host()), value.side]
            self.apart += 1
            return ["apart", self.apart - 1, stored]
        if kind in self._names:
            return [
                "object",
                self._names[kind],
                {name: self.node(part) for name, part in self._contents(value).items()},
            ]
        takes = "numbers, text, arrays, LowRank, containers of these"
        if self._given:
            takes += ", and the state that `init` of the solver names"
        raise TypeError(f"a {self._what} cannot hold a {_path(kind)}: it takes {takes}")

    def _contents(self, value: Any) -> dict[str, Any]:
        """The arguments of the constructor by name."""
        kind = type(value)
        names = _fields(kind)
        if file_form(kind) is None and set(parts := _parts(value)) != set(names):
            found = f"it consists of {', '.join(parts)}, and is built from {', '.join(names)}"
            raise TypeError(f"a {self._what} cannot hold a {_path(kind)}: {found}")
        return {name: getattr(value, name) for name in names}

    def _array(self, value: NDArray[Any]) -> list[Any]:
        dtype = _plain(value.dtype).str
        packed = np.asarray(value.transpose(_outermost_first(value.strides)), order="C")
        name = str(len(self.tensors))
        self.tensors[name] = packed if dtype in _NATIVE else packed.reshape(-1).view(np.uint8)
        return ["array", name, dtype, value.shape, value.strides, value.flags.writeable]


class Decoder:
    """Turns the tree back into values, and counts as the encoder did."""

    def __init__(
        self,
        known: Known,
        given: Mapping[str, Any],
        tensors: Tensors,
        backend: Backend | None = None,
        folder: Path | None = None,
    ) -> None:
        self._known, self._given, self._tensors, self._backend, self._folder = known, given, tensors, backend, folder
        self._made: list[Any] = []

    def value(self, node: Any) -> Any:
        """The value of a tree."""
        if not isinstance(node, list):
            return node
        kind, *rest = node
        if kind == "float":
            return struct.unpack(">d", bytes.fromhex(rest[0]))[0]
        if kind == "scalar":
            return np.frombuffer(bytes.fromhex(rest[1]), _plain(rest[0]))[0]
        if kind == "given":
            return self._given[rest[0]]
        if kind == "again":
            return self._made[rest[0]]
        out = self._composite(kind, *rest)
        self._made.append(out)
        return out

    def _composite(self, kind: str, content: Any, *rest: Any) -> Any:
        if kind in ("list", "tuple"):
            items = [self.value(item) for item in content]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return {name: self.value(item) for name, item in content.items()}
        if kind == "array":
            return self._array(content, *rest)
        if kind == "elsewhere":
            array = self._array(*content[1:])
            return array if self._backend is None else self._backend.put(array, *rest)
        if kind == "apart" and self._backend is not None and self._folder is not None:
            return self._backend.fetched(self._folder / str(int(content)), *rest[0])
        if kind == "object":
            return self._object(content, *rest)
        raise ValueError(f"there is no kind {kind!r}")

    def _object(self, name: str, parts: dict[str, Any]) -> Any:
        if name not in self._known:
            raise ValueError(f"the class {name} is not one that such files hold")
        if not isinstance(parts, dict):
            raise ValueError(f"a {name} is built from fields with names, not from a {type(parts).__name__}")
        kind = self._known[name]
        if unknown := parts.keys() - set(_fields(kind)):
            raise ValueError(f"a {name} has no field {', '.join(sorted(unknown))}")
        # A field that was declared since the file was written has a default.
        return kind(**{field: self.value(part) for field, part in parts.items()})

    def _array(self, name: str, kind: str, shape: list[int], strides: list[int], writeable: bool) -> NDArray[Any]:
        dtype, order = _plain(kind), _outermost_first(strides)
        packed = self._tensors[name].reshape(-1).view(dtype).reshape([shape[axis] for axis in order])
        # From the first to the last element in memory; steps may lead backwards, and a view may have gaps.
        reach = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)] if packed.size else []
        first = -sum(step for step in reach if step < 0)
        memory = np.zeros((sum(map(abs, reach)) + dtype.itemsize) * (packed.size > 0), dtype=np.uint8)
        out: NDArray[Any] = np.ndarray(shape, dtype, memory, first, strides)
        out[...] = packed.transpose(np.argsort(order))
        out.flags.writeable = writeable
        return out
