"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
