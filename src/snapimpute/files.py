"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file so that other processes see the old content or the new, never a part of it.

    ``durable`` waits until the disk has the content, so that the same holds if the machine goes down.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # a temporary file is private; this one is not to be
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)  # it can only be read by setting it
    os.umask(mask)
    return mask
