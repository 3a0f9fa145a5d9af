"""Files: stable names of the classes that stand in them, and writing so that nobody ever sees half of one."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")


# ---------------------------------------------------------------- names in files
class FileForm(NamedTuple):
    """Name and fields of a class in files; ``counted`` are the fields that tell one object from another."""

    name: str
    fields: tuple[str, ...]
    counted: tuple[str, ...]


def stored(name: str, *fields: str, counted: tuple[str, ...] | None = None) -> Callable[[type[T]], type[T]]:
    """Declare the name and the fields of a class in files, where they outlive every rename and move of the class.

    Each field is an attribute and an argument of the constructor. Subclasses do not inherit the declaration.

    Examples
    --------
    >>> @stored("point", "x", "y")
    ... class Point: ...
    >>> file_form(Point)
    FileForm(name='point', fields=('x', 'y'), counted=('x', 'y'))
    """

    def declare(kind: type[T]) -> type[T]:
        setattr(kind, _FORM, FileForm(name, fields, fields if counted is None else counted))
        return kind

    return declare


_FORM = "_file_form"


def file_form(kind: type) -> FileForm | None:
    """Return the declaration of a class itself; None if it has none."""
    return vars(kind).get(_FORM)


def fields_of(kind: type) -> tuple[str, ...]:
    """Return the declared fields of a class, for subclasses that add to them."""
    form = file_form(kind)
    return () if form is None else form.fields


# ---------------------------------------------------------------- writing


def write_atomically(path: Path, data: bytes | memoryview, *, durable: bool = False) -> None:
    """Write a file so that other processes see the old content or the new, never a part of it.

    ``durable`` waits until the disk has the content, so that the same holds if the machine goes down.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of ``path`` at the end, if all went well, and else disappears.

    A link stays, and what it leads to is replaced. Pipes and devices stay, too: they get what was written.
    """
    there = path.stat().st_mode if path.exists() else None
    if there is not None and not (stat.S_ISREG(there) or stat.S_ISDIR(there)):
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / "out"
            with (Path(folder) / "out").open("rb") as whole, path.open("wb") as stream:
                shutil.copyfileobj(whole, stream)
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # A temporary file is private. This one is to be as the one it replaces, or as any new file.
        temporary.chmod(0o666 & ~_umask() if there is None else stat.S_IMODE(there))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)  # it can only be read by setting it
    os.umask(mask)
    return mask
