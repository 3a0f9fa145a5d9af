"""Checkpoints: a run is saved as it goes, and a run that was killed goes on where it was, to the last bit.

The file is in the safetensors format: arrays, and in the metadata one JSON
document with the tree that holds them (`solvers.tree`), and a checksum of both.
Nothing in it is executed.

A file also says what was being solved, by one digest for each part of it, and
is refused where a part differs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar, get_type_hints

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as as_safetensors

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored, write_atomically
from snapimpute.data.alphabet import Alphabet
from snapimpute.linalg import LowRank, Sample
from snapimpute.linalg.backend import Backend
from snapimpute.penalties import DISCRETE, SPECTRAL, ByColumn, Ridge
from snapimpute.problem import Problem, Terms
from snapimpute.problem.sampling import Drawn
from snapimpute.solvers.base import Solver, State
from snapimpute.solvers.factored.manifold import Barrier
from snapimpute.solvers.proximal.gradient import Limit, Move, Point
from snapimpute.solvers.registry import SOLVERS
from snapimpute.solvers.serialise import Decoder, Encoder, Known, Tensors, digest, known_by_name, name_of

FORMAT, FORMAT_VERSION = "snapimpute checkpoint", 3
"""Name and version of the format; the version changes whenever older files cannot be read any more."""

MAX_TEXT = 90_000_000
"""Length of the document; safetensors reads 100 million bytes of metadata."""

_OURS = re.compile("[0-9a-f]{32}")
"""Name of a folder into which workers write."""

ADVICE = "Delete it to start anew, or give another path."


# ---------------------------------------------------------------- for the loop
@stored("run", "state", "rows", "seconds", "best", "row", "answer", "extras", "done", "memory")
@dataclass(frozen=True, eq=False)
class RunSnapshot:
    """All that a run needs to go on: the solver's state, the history (``rows``), the clock, and if it had ended.

    ``best``, ``row``, ``answer`` and ``extras`` are the least merit so far, its row of the history, its iterate, and
    the solver's extras. ``memory`` has what else has to be remembered: numbers, text, arrays, `LowRank`, and tuples,
    lists and dicts of these.
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
    """Target of a run's checkpoints, and the interval between them.

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
            raise ArgumentError.must("every_seconds", self.every_seconds, "be at least 0")

    @classmethod
    def of(cls, given: Checkpoint | str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint itself, or one at the path that is given."""
        return given if isinstance(given, Checkpoint) else cls(Path(given))

    def begin(
        self, problem: Problem, solver: Solver[Any], settings: Mapping[str, Any], backend: Backend | None = None
    ) -> CheckpointFile:
        """Load and save for one run; ``settings`` is all else that its iterates depend on, by name.

        Limits that a run may be resumed with a change of, `max_iter` and `tol`, do not belong to them.
        ``place`` is where the arrays of the run live, if not in numpy's memory.
        """
        return CheckpointFile(self, problem, solver, settings, backend)


Snapshot = TypeVar("Snapshot")


class SnapshotFile(Generic[Snapshot]):
    """Loads and saves the snapshots of one run, which are of one class.

    Parameters
    ----------
    to : Checkpoint
    made_of : Mapping
        Digests of everything that the run depends on, from `digests`.
    known : Known
        Classes that the file may name.
    kind : type
        Class of the snapshots.
    given : Mapping, optional
        Values that the caller has anyway, and which the file only names.
    backend : Backend, optional
        Home of the arrays, if that is not numpy's memory.
    """

    def __init__(
        self,
        to: Checkpoint,
        made_of: dict[str, dict[str, str]],
        known: Known,
        kind: type[Snapshot],
        given: Mapping[str, Any] | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.path, self.every_seconds, self._backend = to.path, to.every_seconds, backend
        self._fingerprint, self._known, self._kind, self._given = made_of, known, kind, given or {}
        self._parts = self.path.absolute().with_name(f"{self.path.name}.parts")
        """Folders with the parts of a run that the workers of a cluster write, one for each time."""
        self._since = time.monotonic()

    def due(self) -> bool:
        """Tell whether it is time to save again."""
        return time.monotonic() - self._since >= self.every_seconds

    def save(self, saved: Snapshot) -> None:
        """Replace the file at once as a whole; a run that is killed meanwhile leaves the one before."""
        folder = self._parts / uuid.uuid4().hex
        try:
            self._write(saved, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):  # there may be others in it
                self._parts.rmdir()
            raise
        if folder.exists():
            for other in self._parts.iterdir():  # of the files before
                if other != folder and _OURS.fullmatch(other.name):
                    shutil.rmtree(other, ignore_errors=True)
        self._since = time.monotonic()

    def _write(self, saved: Snapshot, folder: Path) -> None:
        encoder = Encoder(self._known, self._given, folder=folder)
        content = {"fingerprint": self._fingerprint, "tree": encoder.node(saved)}
        content |= {"parts": folder.name} if encoder.apart else {}
        document = json.dumps(_writer() | content, allow_nan=False)
        if len(document) > MAX_TEXT:
            raise ValueError(
                f"the history is too long for a checkpoint: it makes {len(document):,} bytes, above {MAX_TEXT:,}"
            )
        metadata = {"document": document, "sha256": checksum(document, encoder.tensors)}
        write_atomically(self.path, as_safetensors(encoder.tensors, metadata=metadata), durable=True)

    def load(self) -> Snapshot | None:
        """Read the saved run, or None if there is no file; a file that belongs to another run is refused."""
        if not self.path.exists():
            return None
        metadata, tensors = self._read()
        document = self._document(metadata)
        if metadata.get("sha256") != checksum(metadata["document"], tensors):
            self._refuse("its content does not match its checksum, so it is damaged")
        differences = _differences(document.get("fingerprint", {}), self._fingerprint)
        if differences:
            raise ValueError(f"the checkpoint {self.path} belongs to another problem: {differences}. {ADVICE}")
        try:
            folder = self._parts / uuid.UUID(document["parts"]).hex if "parts" in document else None
            saved = Decoder(self._known, self._given, tensors, self._backend, folder).value(document["tree"])
        except (OSError, KeyError, IndexError, TypeError, ValueError, MemoryError, RecursionError) as err:
            self._refuse(f"its content cannot be restored ({type(err).__name__}: {err})")
        if not isinstance(saved, self._kind):
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


class CheckpointFile(SnapshotFile[RunSnapshot]):
    """Loads and saves one run of a solver; made by `Checkpoint.begin`."""

    def __init__(
        self,
        to: Checkpoint,
        problem: Problem,
        solver: Solver[Any],
        settings: Mapping[str, Any],
        backend: Backend | None = None,
    ) -> None:
        kind = {} if backend is None else {"backend": backend.kind}
        made_of = fingerprint(problem, solver, {**settings, **kind})
        given = {f.name: getattr(problem, f.name) for f in fields(problem)}
        super().__init__(to, made_of, _known_classes(problem, solver), RunSnapshot, given, backend)


def _writer() -> dict[str, Any]:
    """Header of a file; another version of the package might compute other iterates."""
    return {"format": FORMAT, "version": FORMAT_VERSION, "snapimpute": import_module("snapimpute").__version__}


# ---------------------------------------------------------------- what is being solved
def fingerprint(problem: Problem, solver: Solver[Any], settings: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """A digest of each part of a run, with words to show for it: all fields of the problem, solver, settings.

    Equal values give equal digests, whatever objects hold them; labels of rows and columns do not count.
    """
    parts = {f.name: getattr(problem, f.name) for f in fields(problem)} | {"solver": solver}
    return digests(parts | {f"setting {name}": value for name, value in settings.items()})


def digests(parts: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return a digest of each part, with words to show for it."""
    return {name: {"digest": digest(value), "shown": _shown(value)} for name, value in parts.items()}


def _shown(value: Any) -> str:
    """A value in words; a class without words of its own is shown by its name, not by its place in memory."""
    kind: Any = type(value)
    return name_of(kind) if kind.__repr__ is object.__repr__ else repr(value)[:200]


def _differences(found: Mapping[str, Mapping[str, str]], here: Mapping[str, Mapping[str, str]]) -> str:
    """Name the parts in which two fingerprints differ; nothing if none does."""
    out = []
    for name in {**here, **found}:
        before, now = (one.get(name, {"digest": "", "shown": "not given"}) for one in (found, here))
        if before["digest"] != now["digest"]:
            same = before["shown"] == now["shown"]
            how = f"though both read {now['shown']}" if same else f"{before['shown']} then, {now['shown']} now"
            out.append(f"{name} differs ({how})")
    return "; ".join(out)


def _known_classes(problem: Problem, solver: Solver[Any]) -> Known:
    """The classes that a file may name: the states of all solvers, their parts, and the user's own penalties."""
    values = (
        RunSnapshot,
        State,
        LowRank,
        Sample,
        Drawn,
        Point,
        Limit,
        Move,
        Terms,
        Barrier,
        Alphabet,
        Ridge,
        ByColumn,
    )
    given = (type(one) for one in (problem.spectral, problem.discrete) if one is not None)
    states = _state_classes((*SOLVERS.values(), type(solver)))
    return known_by_name((*values, *SPECTRAL.values(), *DISCRETE.values(), *given, *states))


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


def checksum(document: str, tensors: Tensors) -> str:
    """SHA-256 of all that a file holds."""
    sha = hashlib.sha256(document.encode())
    for name in sorted(tensors):
        sha.update(f"{name} {tensors[name].dtype.str} {tensors[name].shape};".encode())
        sha.update(tensors[name].reshape(-1).view(np.uint8).data)
    return sha.hexdigest()
