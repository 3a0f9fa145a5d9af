"""Checkpoints: a run is saved as it goes, and a run that was killed goes on where it was, to the last bit.

The file is in the safetensors format: arrays, and in the metadata one JSON
document with the tree that holds them, and a checksum of both. Nothing in it is
executed: the tree has numbers, text, containers and objects of classes that
are known here, each built by calling its constructor. What is one object when
saved is one object when loaded, as solvers ask for identity, and arrays keep
their strides, as BLAS sums a strided column in another order than a dense one.

A file also says what was being solved, by one digest for each part of it, and
is refused where a part differs.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn, get_type_hints

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as as_safetensors

from snapimpute.alphabet import Alphabet
from snapimpute.files import write_atomically
from snapimpute.observations import Observations
from snapimpute.operators import LowRank, Sample
from snapimpute.penalties import DISCRETE, SPECTRAL, ByColumn, Ridge
from snapimpute.problem import Problem, Terms
from snapimpute.sampling import Drawn, Sampler
from snapimpute.solvers.base import Solver, State
from snapimpute.solvers.factored import Barrier
from snapimpute.solvers.proximal import Limit, Move, Point
from snapimpute.solvers.registry import SOLVERS

FORMAT, FORMAT_VERSION = "snapimpute checkpoint", 1
"""What a file calls itself; the second changes whenever older files cannot be read any more."""

MAX_TEXT = 90_000_000
"""Length of the document; safetensors reads 100 million bytes of metadata."""

ADVICE = "Delete it to start anew, or give another path."

_NATIVE = frozenset(("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"))
"""Types that safetensors has; arrays of others are stored as bytes."""

_PLAIN = re.compile(r"[<>|][biufcSUmM][1-9]\d*(\[[^\]]*\])?")
"""How numpy writes the types that are plain bytes: no objects, no records."""

_COUNTED = {Observations: ("rows", "cols", "values", "shape"), Sampler: ("seed",)}
"""What counts of objects with labels, or with a memory, which is part of the run and not of the problem."""

Tensors = dict[str, NDArray[Any]]
_Known = dict[str, type]


# ---------------------------------------------------------------- for the loop
@dataclass(frozen=True, eq=False)
class Saved:
    """All that a run needs to go on.

    Attributes
    ----------
    state : State
        Of the solver.
    rows : list of dict
        The history so far.
    seconds : float
        The clock.
    best, row, answer, extras
        The least merit so far, its row of the history, its iterate, and what
        the solver found besides.
    done : bool
        Whether the run had ended.
    memory : dict
        What else has to be remembered: numbers, text, arrays, `LowRank`,
        and tuples, lists and dicts of these.
    """

    state: State
    rows: list[dict[str, Any]]
    seconds: float
    best: float
    row: int
    answer: LowRank
    extras: dict[str, Any] = field(default_factory=dict)
    done: bool = False
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is saved, and how often.

    Parameters
    ----------
    path : str or Path
        A file of its own for every run; folders are made as needed.
    every_seconds : float
        Save when that many seconds have passed; 0 saves after every iteration.

    Examples
    --------
    >>> Checkpoint("fit.safetensors", every_seconds=60).every_seconds
    60
    """

    path: Path
    every_seconds: float = 30.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if not self.every_seconds >= 0:
            raise ValueError(f"every_seconds must be at least 0, got {self.every_seconds}")

    @classmethod
    def of(cls, given: Checkpoint | str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint itself, or one at the path that is given."""
        return given if isinstance(given, Checkpoint) else cls(Path(given))

    def begin(self, problem: Problem, solver: Solver[Any], settings: Mapping[str, Any]) -> Keeper:
        """Load and save for one run; ``settings`` is all else that its iterates depend on, by name.

        Limits that a run may be resumed with a change of, `max_iter` and `tol`, do not belong to them.
        """
        return Keeper(self, problem, solver, settings)


class Keeper:
    """Loads and saves one run; made by `Checkpoint.begin`."""

    def __init__(self, to: Checkpoint, problem: Problem, solver: Solver[Any], settings: Mapping[str, Any]) -> None:
        self.path, self.every_seconds = to.path, to.every_seconds
        self._fingerprint = fingerprint(problem, solver, settings)
        self._known = _known_classes(problem, solver)
        self._given = {f.name: getattr(problem, f.name) for f in fields(problem)}
        self._since = time.monotonic()

    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self._since >= self.every_seconds

    def save(self, saved: Saved) -> None:
        """Replace the file at once as a whole; a run that is killed meanwhile leaves the one before."""
        encoder = _Encoder(self._known, self._given)
        content = {"fingerprint": self._fingerprint, "tree": encoder.node(saved)}
        document = json.dumps(_writer() | content, allow_nan=False)
        if len(document) > MAX_TEXT:
            size = f"{len(saved.rows):,} iterations make {len(document):,} bytes"
            raise ValueError(f"the history is too long for a checkpoint: {size}, above {MAX_TEXT:,}")
        metadata = {"document": document, "sha256": _checksum(document, encoder.tensors)}
        write_atomically(self.path, as_safetensors(encoder.tensors, metadata=metadata), durable=True)
        self._since = time.monotonic()

    def load(self) -> Saved | None:
        """What was saved, or None if there is no file; one that does not belong to this run is refused."""
        if not self.path.exists():
            return None
        metadata, tensors = self._read()
        document = self._document(metadata)
        if metadata.get("sha256") != _checksum(metadata["document"], tensors):
            self._refuse("its content does not match its checksum, so it is damaged")
        differences = _differences(document.get("fingerprint", {}), self._fingerprint)
        if differences:
            raise ValueError(f"the checkpoint {self.path} belongs to another problem: {differences}. {ADVICE}")
        try:
            saved = _Decoder(self._known, self._given, tensors).value(document["tree"])
        except (KeyError, IndexError, TypeError, ValueError, MemoryError, RecursionError) as err:
            self._refuse(f"its content cannot be restored ({type(err).__name__}: {err})")
        if not isinstance(saved, Saved):
            self._refuse(f"it holds a {type(saved).__name__}, not a run")
        return saved

    def _read(self) -> tuple[dict[str, str], Tensors]:
        if not self.path.is_file():
            self._refuse("it is not a file")
        try:
            with safe_open(self.path, framework="np") as file:
                metadata = file.metadata() or {}
                ours = file.keys() if "document" in metadata else []
                tensors = {name: file.get_tensor(name) for name in ours}
        except (SafetensorError, AttributeError, KeyError, TypeError, ValueError) as err:
            # All but the first: a type that numpy does not have.
            self._refuse(f"it is damaged, or not a safetensors file at all ({err})")
        return metadata, tensors

    def _document(self, metadata: Mapping[str, str]) -> dict[str, Any]:
        """The document, once it is clear that this version wrote it."""
        try:
            document = json.loads(metadata.get("document", "null"))
        except (ValueError, RecursionError) as err:
            self._refuse(f"its text is damaged ({type(err).__name__})")
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            self._refuse("it is a safetensors file of something else")
        here = _writer()
        found = {name: document.get(name) for name in here}
        if found != here:
            wrote, reads = (f"format {one['version']} of snapimpute {one['snapimpute']}" for one in (found, here))
            self._refuse(f"it was written in {wrote}, and this is {reads}")
        return document

    def _refuse(self, found: str) -> NoReturn:
        raise ValueError(f"{self.path} is not a checkpoint to go on from: {found}. {ADVICE}") from None


def _writer() -> dict[str, Any]:
    """How a file begins; another version of the package might compute other iterates."""
    return {"format": FORMAT, "version": FORMAT_VERSION, "snapimpute": import_module("snapimpute").__version__}


# ---------------------------------------------------------------- what is being solved
def fingerprint(problem: Problem, solver: Solver[Any], settings: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """A digest of each part of a run, with words to show for it: all fields of the problem, solver, settings.

    Equal values give equal digests, whatever objects hold them; labels of rows and columns do not count.
    """
    parts = {f.name: getattr(problem, f.name) for f in fields(problem)} | {"solver": solver}
    parts |= {f"setting {name}": value for name, value in settings.items()}
    return {name: {"digest": digest(value), "shown": repr(value)[:200]} for name, value in parts.items()}


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
        head("type", str(value))
    elif isinstance(value, np.ndarray):
        array = np.asarray(value, dtype=np.int64) if value.dtype.kind == "i" else np.asarray(value)
        head("array", f"{_plain(array.dtype).str} {array.shape}")
        update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    elif isinstance(value, tuple | list):
        head("sequence", str(len(value)))
        for item in value:
            _feed(item, update)
    else:
        parts = _parts(value)
        head("mapping" if isinstance(value, Mapping) else _name(type(value)), str(len(parts)))
        for name in sorted(parts):
            head("name", name)
            _feed(parts[name], update)


def _number(value: Real) -> str:
    """1, 1.0 and np.float32(1) are the same number."""
    whole = isinstance(value, Integral) or float(value).is_integer()
    return str(int(value)) if whole else float(value).hex()  # type: ignore[call-overload]  # whole numbers have int


def _parts(value: Any) -> dict[str, Any]:
    """What an object consists of, by name."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    if type(value) in _COUNTED:
        return {name: getattr(value, name) for name in _COUNTED[type(value)]}
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    code = isinstance(value, FunctionType | BuiltinFunctionType | MethodType | ModuleType)
    if code or not hasattr(value, "__dict__"):
        raise TypeError(f"a checkpoint must tell one run from another, and cannot tell what is in {value!r}")
    own = vars(value).items()
    return {name: part for name, part in own if not isinstance(getattr(type(value), name, None), cached_property)}


def _differences(found: Mapping[str, Mapping[str, str]], here: Mapping[str, Mapping[str, str]]) -> str:
    """Which parts of two fingerprints differ, in words; nothing if none does."""
    out = []
    for name in {**here, **found}:
        before, now = (one.get(name, {"digest": "", "shown": "not given"}) for one in (found, here))
        if before["digest"] != now["digest"]:
            same = before["shown"] == now["shown"]
            how = f"though both read {now['shown']}" if same else f"{before['shown']} then, {now['shown']} now"
            out.append(f"{name} differs ({how})")
    return "; ".join(out)


# ---------------------------------------------------------------- values as a tree
def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _known_classes(problem: Problem, solver: Solver[Any]) -> _Known:
    """The classes that a file may name: the states of all solvers, and what those are made of."""
    values = (Saved, State, LowRank, Sample, Drawn, Point, Limit, Move, Terms, Barrier, Alphabet, Ridge, ByColumn)
    penalties = (*SPECTRAL.values(), *DISCRETE.values(), type(problem.spectral), type(problem.discrete))
    states = _state_classes((*SOLVERS.values(), type(solver)))
    return {_name(kind): kind for kind in (*values, *penalties, *states)}


@cache
def _state_classes(solvers: tuple[type[Solver[Any]], ...]) -> tuple[type, ...]:
    """The states that solvers say they return."""
    found: list[type] = []
    for method in (getattr(solver, name) for solver in solvers for name in ("init", "step", "finish")):
        try:
            kind = get_type_hints(method).get("return")
        except NameError:  # a hint that cannot be looked up: a class inside a function, say
            continue
        if isinstance(kind, type) and issubclass(kind, State):
            found.append(kind)
    return tuple(dict.fromkeys(found))


def _arguments(kind: type) -> tuple[str, ...]:
    """What the constructor of a class takes."""
    return tuple(inspect.signature(kind).parameters)


def _plain(dtype: np.dtype[Any] | str) -> np.dtype[Any]:
    """A type that is plain bytes; others are refused."""
    text = dtype if isinstance(dtype, str) else dtype.str
    if not _PLAIN.fullmatch(text):
        raise TypeError(f"a checkpoint holds arrays of numbers and text, not of dtype {dtype}")
    return np.dtype(text)


def _outermost_first(strides: Sequence[int]) -> list[int]:
    """The axes in the order of memory: C order gives 0, 1, …, Fortran order the reverse."""
    return sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))


class _Encoder:
    """Turns values into a tree that JSON can hold, and arrays beside it.

    Numbers, text and None stand for themselves, all else is a list that begins
    with its kind. Containers, arrays and objects are counted as they are
    completed; one that is met again is a reference to its number.
    """

    def __init__(self, known: _Known, given: Mapping[str, Any]) -> None:
        self.tensors: Tensors = {}
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
            raise ValueError(f"a checkpoint cannot hold a {type(value).__name__} that contains itself")
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
                raise TypeError(f"the keys of a dict in a checkpoint must be text, got {list(value)}")
            return ["dict", {name: self.node(item) for name, item in value.items()}]
        if kind in (np.ndarray, np.memmap):
            return self._array(value)
        if kind in self._names:
            return ["object", self._names[kind], [self.node(part) for part in self._contents(value)]]
        takes = "numbers, text, arrays, LowRank, containers of these, and the state that `init` of the solver names"
        raise TypeError(f"a checkpoint cannot hold a {_name(kind)}: it takes {takes}")

    @staticmethod
    def _contents(value: Any) -> list[Any]:
        """What to call the constructor with."""
        names, parts = _arguments(type(value)), _parts(value)
        if set(parts) != set(names):
            found = f"it consists of {', '.join(parts)}, and is built from {', '.join(names)}"
            raise TypeError(f"a checkpoint cannot hold a {_name(type(value))}: {found}")
        return [parts[name] for name in names]

    def _array(self, value: NDArray[Any]) -> list[Any]:
        dtype = _plain(value.dtype).str
        packed = np.asarray(value.transpose(_outermost_first(value.strides)), order="C")
        name = str(len(self.tensors))
        self.tensors[name] = packed if dtype in _NATIVE else packed.reshape(-1).view(np.uint8)
        return ["array", name, dtype, value.shape, value.strides, value.flags.writeable]


class _Decoder:
    """Turns the tree back into values, and counts as the encoder did."""

    def __init__(self, known: _Known, given: Mapping[str, Any], tensors: Tensors) -> None:
        self._known, self._given, self._tensors = known, given, tensors
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
        if kind == "object":
            if content not in self._known:
                raise ValueError(f"the class {content} is not one that checkpoints hold")
            names = _arguments(self._known[content])
            return self._known[content](**dict(zip(names, map(self.value, rest[0]), strict=True)))
        raise ValueError(f"there is no kind {kind!r}")

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


def _checksum(document: str, tensors: Tensors) -> str:
    """SHA-256 of all that a file holds."""
    sha = hashlib.sha256(document.encode())
    for name in sorted(tensors):
        sha.update(f"{name} {tensors[name].dtype.str} {tensors[name].shape};".encode())
        sha.update(tensors[name].reshape(-1).view(np.uint8).data)
    return sha.hexdigest()
