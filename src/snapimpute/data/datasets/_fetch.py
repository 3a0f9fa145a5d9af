"""Data that are not part of the package: from a path, the cache or an archive, and always checked by hash."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from snapimpute.data.datasets.base import CACHE_VARIABLE, DatasetUnavailable, cache_dir

MAX_BYTES = 64 * 2**20  # above any of these files
ANSWER_TIMEOUT = 10.0  # seconds without an answer
WHEEL_TIMEOUT = 120.0  # seconds for the whole download
FAILURES = (
    *(OSError, ValueError, KeyError, EOFError, subprocess.SubprocessError),
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error),
)
_USER = 4  # a warning points at the line that calls the loader, which calls get, which calls _fetch


@dataclass(frozen=True)
class Original:
    """One file of others that is found or fetched, never bundled; every copy of it is checked by hash.

    Parameters
    ----------
    title : str
        What the data are called in messages.
    cached : str
        Where the file lies in the cache folder.
    sha256 : str
        Hash of the file.
    members : tuple of str
        The names that the file may have in an archive, best first.
    in_folder : tuple of str
        What to look for in a folder that the user names, best first.
    archives : tuple of (str, callable)
        Where to fetch from, in this order: the name of a source, and a function
        that returns a zip file (a wheel is one) or a tar file with one of `members`.
    reason : str
        Why the data do not come with the package.
    expected : str
        What a path may lead to.
    remedy : str
        What to do when no source works.
    unwrapped : callable, optional
        Returns the bytes of the file from those of a copy in another form, or raises ValueError.
    """

    title: str
    cached: str
    sha256: str
    members: tuple[str, ...]
    in_folder: tuple[str, ...]
    archives: tuple[tuple[str, Callable[[], bytes]], ...]
    reason: str
    expected: str
    remedy: str
    unwrapped: Callable[[bytes], bytes] = bytes

    def get(self, path: str | os.PathLike[str] | None) -> bytes:
        """Return the file from `path` or, if that is None, from the cache or the first archive that works.

        Call it from the loader itself, so that warnings point at the line that calls the loader. DatasetUnavailable
        says what was tried, and what to do.
        """
        return self._fetch() if path is None else self._from_path(Path(path).expanduser())

    def checked(self, copy: bytes) -> bytes:
        """Return the file from a copy in any of its forms, or raise ValueError."""
        data = self.unwrapped(copy)
        check_hash(data, self.sha256, Path(self.cached).name)
        return data

    def _fetch(self) -> bytes:
        import pooch

        file = cache_dir() / self.cached
        try:
            if file.exists() and pooch.file_hash(str(file)) != self.sha256:
                warnings.warn(f"the cached file {file} is damaged and is fetched again", stacklevel=_USER)
            return self._kept_in(file.parent)
        except DatasetUnavailable:
            raise
        except OSError as err:
            warnings.warn(
                f"{self.title} could not be kept in the cache and will be fetched again next time ({err}): "
                f"set {CACHE_VARIABLE} to a folder that can be written",
                stacklevel=_USER,
            )
        with tempfile.TemporaryDirectory() as folder:
            return self._kept_in(Path(folder))

    def _kept_in(self, folder: Path) -> bytes:
        """Return the file from a folder; pooch checks its hash, and puts it there whole where it is not."""
        import pooch

        log = pooch.get_logger()
        level = log.level
        log.setLevel("WARNING")  # a library is quiet
        try:
            name = Path(self.cached).name
            found = pooch.retrieve(self.title, self.sha256, fname=name, path=folder, downloader=self._download)
        finally:
            log.setLevel(level)
        return Path(found).read_bytes()

    # A downloader of our own: pooch takes one address for a file, this one has several sources, and unpacks archives.
    def _download(self, _title: str, target: str, _pooch: Any) -> None:
        """Write the file from the first archive that works."""
        failures: list[tuple[str, Exception]] = []
        for name, archive in self.archives:
            try:
                data = self._from_archive(io.BytesIO(archive()))
            except FAILURES as err:
                failures.append((name, err))
                continue
            Path(target).write_bytes(data)
            Path(target).chmod(0o644)  # a temporary file is private, a cache may be shared
            return
        file = cache_dir() / self.cached
        missing = FileNotFoundError(f"no file {file}")
        failures.insert(0, ("the cache", ValueError(f"the file {file} is damaged") if file.exists() else missing))
        raise DatasetUnavailable(
            f"{self.title} is not part of this package, because {self.reason}, and no source works:\n"
            + "".join(f"  - {name}: {type(err).__name__}: {err}\n" for name, err in failures)
            + f"{self.remedy}, or put its file {file.name} in the cache as {file}."
        )

    def _from_path(self, path: Path) -> bytes:
        """Return the file from what the user named; nothing else is tried, so that a mistake is seen."""
        found = path
        if path.is_dir():
            found = next((path / name for name in self.in_folder if (path / name).is_file()), path)
        try:
            if found.is_dir():
                raise FileNotFoundError(f"the folder holds none of {', '.join(self.in_folder)}")
            with found.open("rb") as file:
                packed = zipfile.is_zipfile(file) or _is_tar(file)
                return self._from_archive(file) if packed else self.checked(found.read_bytes())
        except FAILURES as err:
            raise DatasetUnavailable(
                f"cannot read {self.title} from {found}: {type(err).__name__}: {err}\nExpected {self.expected}."
            ) from err

    def _from_archive(self, file: BinaryIO) -> bytes:
        """Return the file from a zip file or a tar file."""
        if _is_tar(file):
            with tarfile.open(fileobj=file) as tar:
                stream = tar.extractfile(self._member(tar.getnames()))
                return self.checked(b"" if stream is None else stream.read(MAX_BYTES))
        with zipfile.ZipFile(file) as packed, packed.open(self._member(packed.namelist())) as member:
            return self.checked(member.read(MAX_BYTES))

    def _member(self, names: Collection[str]) -> str:
        member = next((name for name in self.members if name in names), None)
        if member is None:
            raise ValueError(f"the archive holds none of {', '.join(self.members)}")
        return member


def _is_tar(file: BinaryIO) -> bool:
    """Tell a tar file, leaving the file at its beginning."""
    file.seek(0)
    found = tarfile.is_tarfile(file)
    file.seek(0)
    return found


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


def download(url: str) -> bytes:
    """Return what an address answers."""
    import pooch

    out = io.BytesIO()
    pooch.HTTPDownloader(timeout=ANSWER_TIMEOUT)(url, out, None)
    return out.getvalue()


# By pip and not by pooch: where the index is, and how this machine reaches it, is written in the settings of pip.
def wheel(requirement: str, sha256: str, timeout: float = WHEEL_TIMEOUT) -> bytes:
    """Return the bytes of one wheel, such as ``recbole==1.2.1``, downloaded with pip, and not installed.

    A wheel with another hash is refused; the whole download may take ``timeout`` seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        _pip_download(Path(folder), requirement, ["--only-binary=:all:", requirement], timeout)
        return _the_one(list(Path(folder).glob("*.whl")), requirement, "wheels", sha256)


def sdist(requirement: str, sha256: str, timeout: float = WHEEL_TIMEOUT) -> bytes:
    """Return the bytes of one source distribution, such as ``gcimpute==0.0.4``, downloaded with pip, not installed.

    pip asks a source distribution for its metadata, which runs its code: so pip checks the hash before.
    """
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "requirements.txt"
        listed.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
        name = requirement.partition("==")[0]
        how = [f"--no-binary={name}", "--require-hashes", "--requirement", str(listed)]
        _pip_download(Path(folder), requirement, how, timeout)
        return _the_one(list(Path(folder).glob("*.tar.gz")), requirement, "source distributions", sha256)


def _pip_download(folder: Path, requirement: str, how: Sequence[str], timeout: float) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input"]
    command += ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "10"]
    done = subprocess.run(  # noqa: S603  constant arguments, no shell
        [*command, "--dest", str(folder), *how],
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


def _the_one(files: Sequence[Path], requirement: str, what: str, sha256: str) -> bytes:
    if len(files) != 1:
        raise OSError(f"pip downloaded {len(files)} {what} of {requirement}, expected one")
    data = files[0].read_bytes()
    check_hash(data, sha256, files[0].name)
    return data
