"""Data that are not part of the package: from a path, the cache or an archive, and always checked by hash."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from snapimpute.base.files import write_atomically
from snapimpute.data.datasets.base import CACHE_VARIABLE, DatasetUnavailable, cache_dir

MAX_BYTES = 64 * 2**20  # above any of these files
WHEEL_TIMEOUT = 120.0  # seconds for the whole download
FAILURES = (OSError, ValueError, KeyError, subprocess.SubprocessError, zipfile.BadZipFile, zlib.error)
_USER = 5  # a warning points at the line that calls the loader, which calls get, _fetch, and what warns


@dataclass(frozen=True)
class Original:
    """One file of others that is found or fetched, never bundled; every copy of it is checked by hash.

    Parameters
    ----------
    title : str
        What the data are called in messages.
    cached : str
        Where the file lies in the cache folder.
    verify : callable
        Returns the bytes of the file from those of a copy, or raises ValueError.
    members : tuple of str
        The names that the file may have in an archive, best first.
    in_folder : tuple of str
        What to look for in a folder that the user names, best first.
    archives : tuple of (str, callable)
        Where to fetch from, in this order: the name of a source, and a function
        that returns a zip file (a wheel is one) with one of `members`.
    reason : str
        Why the data do not come with the package.
    expected : str
        What a path may lead to.
    remedy : str
        What to do when no source works.
    """

    title: str
    cached: str
    verify: Callable[[bytes], bytes]
    members: tuple[str, ...]
    in_folder: tuple[str, ...]
    archives: tuple[tuple[str, Callable[[], bytes]], ...]
    reason: str
    expected: str
    remedy: str

    def get(self, path: str | os.PathLike[str] | None) -> bytes:
        """Return the file from `path` or, if that is None, from the cache or the first archive that works.

        Call it from the loader itself, so that warnings point at the line that calls the loader.

        Raises
        ------
        DatasetUnavailable
            Saying what was tried and what to do.
        """
        return self._fetch() if path is None else self._from_path(Path(path).expanduser())

    def _cache_file(self) -> Path:
        return cache_dir() / self.cached

    def _fetch(self) -> bytes:
        failures = []
        try:
            return self._from_cache()
        except FAILURES as err:
            failures.append(("the cache", err))
        for name, archive in self.archives:
            try:
                data = self._from_zip(io.BytesIO(archive()))
            except FAILURES as err:
                failures.append((name, err))
                continue
            self._keep(data)
            return data
        file = self._cache_file()
        raise DatasetUnavailable(
            f"{self.title} is not part of this package, because {self.reason}, and no source works:\n"
            + "".join(f"  - {name}: {type(err).__name__}: {err}\n" for name, err in failures)
            + f"{self.remedy}, or put its file {file.name} in the cache as {file}."
        )

    def _from_cache(self) -> bytes:
        file = self._cache_file()
        if not file.exists():
            raise FileNotFoundError(f"no file {file}")
        try:
            return self.verify(file.read_bytes())
        except ValueError as err:
            warnings.warn(f"the cached file {file} is damaged and is fetched again: {err}", stacklevel=_USER)
            raise ValueError(f"the file {file} is damaged: {err}") from None

    def _keep(self, data: bytes) -> None:
        try:
            write_atomically(self._cache_file(), data)
        except OSError as err:
            warnings.warn(
                f"{self.title} could not be kept in the cache and will be fetched again next time ({err}): "
                f"set {CACHE_VARIABLE} to a folder that can be written",
                stacklevel=_USER,
            )

    def _from_path(self, path: Path) -> bytes:
        """Return the file from what the user named; nothing else is tried, so that a mistake is seen."""
        found = path
        if path.is_dir():
            found = next((path / name for name in self.in_folder if (path / name).is_file()), path)
        try:
            if found.is_dir():
                raise FileNotFoundError(f"the folder holds none of {', '.join(self.in_folder)}")
            return self._from_zip(found) if zipfile.is_zipfile(found) else self.verify(found.read_bytes())
        except FAILURES as err:
            raise DatasetUnavailable(
                f"cannot read {self.title} from {found}: {type(err).__name__}: {err}\nExpected {self.expected}."
            ) from err

    def _from_zip(self, file: Path | BinaryIO) -> bytes:
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist())
            member = next((name for name in self.members if name in names), None)
            if member is None:
                raise ValueError(f"the archive holds none of {', '.join(self.members)}")
            with archive.open(member) as stream:
                return self.verify(stream.read(MAX_BYTES))


def check_hash(data: bytes, expected: str, name: str) -> None:
    """Raise ValueError, with both SHA-256, unless the data have the one that is expected.

    Examples
    --------
    >>> check_hash(b"", "0" * 64, "empty.txt")
    Traceback (most recent call last):
    ValueError: empty.txt has SHA-256 e3b0c44298fc1c14..., expected 0000000000000000... (0 bytes)
    """
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise ValueError(f"{name} has SHA-256 {found[:16]}..., expected {expected[:16]}... ({len(data)} bytes)")


def wheel(requirement: str, sha256: str, timeout: float = WHEEL_TIMEOUT) -> bytes:
    """Return the bytes of one wheel, downloaded with pip from the index it is set up to use, and not installed.

    Parameters
    ----------
    requirement : str
        Name and version, as in ``recbole==1.2.1``.
    sha256 : str
        Another wheel is refused.
    timeout : float
        Seconds for the whole download.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
        command += ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "10"]
        done = subprocess.run(  # noqa: S603  constant arguments, no shell
            [*command, "--dest", folder, requirement],
            capture_output=True,
            check=False,
            cwd=folder,  # a file pip.py in the user's folder must not be run
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise OSError(f"pip could not download {requirement}: {reason[:200]}")
        wheels = list(Path(folder).glob("*.whl"))
        if len(wheels) != 1:
            raise OSError(f"pip downloaded {len(wheels)} wheels of {requirement}, expected one")
        data = wheels[0].read_bytes()
        check_hash(data, sha256, wheels[0].name)
        return data
