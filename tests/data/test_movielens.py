"""MovieLens-100k: the real data where it can be had, and every way of getting it with a small stand-in."""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from snapimpute.data.datasets import Dataset, DatasetUnavailable, movielens_100k
from snapimpute.data.datasets import movielens as module

HEADER = b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
# Stands in for u.data: 4 users with 25 ratings each, users interleaved as in the real file.
U_DATA = b"".join(b"%d\t%d\t%d\t%d\n" % (i % 4 + 1, i + 1, i % 5 + 1, 880000000 + i) for i in range(100))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


ARCHIVE = zipped(**{"ml-100k/README": b"terms", "ml-100k/u.data": U_DATA})
WHEEL = zipped(**{"recbole/dataset_example/ml-100k/ml-100k.inter": HEADER + U_DATA})


def no_network(*args: Any, **kwargs: Any) -> Any:
    raise OSError("no network here")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Expect the stand-in, use an empty cache, and let no source reach out; return the cache file."""
    monkeypatch.setenv("SNAPIMPUTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "ORIGINAL", replace(module.ORIGINAL, sha256=sha256(U_DATA)))
    monkeypatch.setattr(module, "INTER_SHA256", sha256(HEADER + U_DATA))
    monkeypatch.setattr(module, "WHEEL_SHA256", sha256(WHEEL))
    monkeypatch.setattr(requests, "get", no_network)
    monkeypatch.setattr(subprocess, "run", no_network)
    return tmp_path / "cache" / "ml-100k" / "u.data"


def serve(data: bytes) -> Callable[..., requests.Response]:
    answer = requests.Response()
    answer.status_code, answer.raw = 200, io.BytesIO(data)
    return lambda *args, **kwargs: answer


def pip_that_saves(wheel: bytes, calls: list[list[str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(command: list[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        folder = Path(command[command.index("--dest") + 1])
        (folder / "recbole-1.2.1-py3-none-any.whl").write_bytes(wheel)
        assert kwargs["timeout"] > 0
        assert not kwargs.get("shell")
        return subprocess.CompletedProcess(command, 0, "", "")

    return run


def is_stand_in(data: Dataset) -> bool:
    return data.values.tolist() == [i % 5 + 1 for i in range(100)] and data.cols.tolist() == list(range(100))


# ------------------------------------------------------------------ the real data
@pytest.mark.movielens
def test_counts_and_shape(movielens: Dataset) -> None:
    """The ratings are the published ones, in the order of u.data, with ids minus one."""
    assert (movielens.shape, len(movielens)) == ((943, 1682), 100_000)
    assert np.bincount(movielens.values.astype(int)).tolist() == [0, 6110, 11370, 27145, 34174, 21201]
    assert (movielens.rows[0], movielens.cols[0], movielens.values[0]) == (195, 241, 3.0)
    assert (movielens.rows.max(), movielens.cols.max()) == (942, 1681)
    assert "Harper" in movielens.citation
    assert "no redistribution" in movielens.licence


@pytest.mark.movielens
def test_published_splits(movielens: Dataset) -> None:
    """u1 to u5 partition the entries in file order; ua and ub hold each person's first and next ten."""
    fifths = [movielens.splits[f"u{k}"] for k in range(1, 6)]
    np.testing.assert_array_equal(np.concatenate(fifths), np.arange(100_000))
    assert {part.size for part in fifths} == {20_000}
    ua, ub = movielens.splits["ua"], movielens.splits["ub"]
    assert np.intersect1d(ua, ub).size == 0
    for person in (0, 195, 942):
        mine = np.flatnonzero(movielens.rows == person)
        np.testing.assert_array_equal(ua[movielens.rows[ua] == person], mine[:10])
        np.testing.assert_array_equal(ub[movielens.rows[ub] == person], mine[10:20])
    for part in (ua, ub):
        assert np.bincount(movielens.rows[part]).tolist() == [10] * 943


@pytest.mark.movielens
@pytest.mark.parametrize(("name", "size"), [("u1", 20_000), ("u5", 20_000), ("ua", 9_430), ("ub", 9_430)])
def test_split_sizes(movielens: Dataset, name: str, size: int) -> None:
    """A split gives disjoint observations of the published size."""
    train, test = movielens.split(name)
    assert (len(train), len(test)) == (100_000 - size, size)
    keys = [o.rows.astype(np.int64) * 1682 + o.cols for o in (train, test)]
    assert np.intersect1d(*keys).size == 0


# ------------------------------------------------------------------ splits
@given(st.lists(st.integers(0, 5), min_size=1, max_size=200))
def test_splits_follow_from_the_order_alone(users: list[int]) -> None:
    """For any order of users ua and ub are the first and the next ten of each, and the fifths a partition."""
    splits = module.official_splits(np.array(users, dtype=np.int32))
    seen: dict[int, int] = {}
    expected: dict[str, list[int]] = {"ua": [], "ub": []}
    for position, user in enumerate(users):
        rank = seen[user] = seen.get(user, -1) + 1
        if rank < 20:
            expected["ua" if rank < 10 else "ub"].append(position)
    assert {name: splits[name].tolist() for name in expected} == expected
    fifths = np.concatenate([splits[f"u{k}"] for k in range(1, 6)])
    assert fifths.tolist() == list(range(len(users)))


# ------------------------------------------------------------------ a path that is given
@pytest.mark.parametrize(
    ("name", "content", "given_path"),
    [
        ("u.data", U_DATA, "u.data"),
        ("renamed.tsv", U_DATA, "renamed.tsv"),
        ("u.data", U_DATA, ""),
        ("ml-100k/u.data", U_DATA, ""),
        ("ml-100k.zip", ARCHIVE, "ml-100k.zip"),
        ("ml-100k.zip", ARCHIVE, ""),
        ("ml-100k.inter", HEADER + U_DATA, "ml-100k.inter"),
        ("recbole.whl", WHEEL, "recbole.whl"),
    ],
)
def test_path_may_be_a_file_a_folder_or_an_archive(
    name: str, content: bytes, given_path: str, tmp_path: Path, offline: Path
) -> None:
    """All forms in which the data are passed around give the same matrix, without the cache or the network."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    data = movielens_100k(tmp_path / given_path)
    assert is_stand_in(data)
    assert data.shape == (943, 1682)
    assert not offline.exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("u.data", U_DATA[:-1], "u.data has SHA-256"),
        ("ml-100k.inter", HEADER + U_DATA + b"\n", "ml-100k.inter has SHA-256"),
        ("ml-100k.zip", zipped(other=U_DATA), "the archive holds none of ml-100k/u.data"),
        ("ml-100k.zip", ARCHIVE[:-40], "SHA-256"),
        ("other.txt", b"", "the folder holds none of u.data, ml-100k/u.data"),
    ],
)
def test_wrong_path_is_an_error_even_where_the_cache_is_good(
    name: str, content: bytes, message: str, tmp_path: Path, offline: Path
) -> None:
    """A path that does not hold the data is reported, and no other source hides the mistake."""
    offline.parent.mkdir(parents=True)
    offline.write_bytes(U_DATA)
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / name).write_bytes(content)
    with pytest.raises(DatasetUnavailable, match=message):
        movielens_100k(folder)


def test_missing_path_is_an_error(tmp_path: Path, offline: Path) -> None:
    """A path that does not exist is reported with what was expected there."""
    with pytest.raises(DatasetUnavailable, match=r"nowhere: FileNotFoundError(.|\n)*Expected the file u\.data"):
        movielens_100k(tmp_path / "nowhere")


@given(st.integers(0, len(U_DATA) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(position: int, change: int) -> None:
    """The hash refuses data of which one byte differs."""
    altered = bytearray(U_DATA)
    altered[position] ^= change
    with pytest.raises(ValueError, match="expected"):
        replace(module.ORIGINAL, sha256=sha256(U_DATA)).checked(bytes(altered))


# ------------------------------------------------------------------ fetching
def test_archive_is_used_and_kept(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive fills the cache, and the second time nothing but the cache is asked."""
    monkeypatch.setattr(requests, "get", serve(ARCHIVE))
    assert is_stand_in(movielens_100k())
    assert offline.read_bytes() == U_DATA
    monkeypatch.setattr(requests, "get", no_network)
    assert is_stand_in(movielens_100k())
    assert [path.name for path in offline.parent.iterdir()] == ["u.data"]
    assert offline.stat().st_mode & 0o777 == 0o644  # a cache may be shared


def test_wheel_is_used_when_the_archive_is_not_reached(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip is asked for exactly one wheel without its dependencies, and what it holds is kept."""
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", pip_that_saves(WHEEL, calls))
    assert is_stand_in(movielens_100k())
    assert offline.read_bytes() == U_DATA
    assert is_stand_in(movielens_100k())
    assert len(calls) == 1
    assert {"--no-deps", "--only-binary=:all:", "recbole==1.2.1"} < set(calls[0])


def test_damaged_cache_is_reported_and_fetched_again(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache file that fails its hash gives a warning at the caller's line, never data, and is replaced."""
    offline.parent.mkdir(parents=True)
    offline.write_bytes(U_DATA[:500])
    monkeypatch.setattr(requests, "get", serve(ARCHIVE))
    with pytest.warns(UserWarning, match=r"cached file .*u\.data is damaged and is fetched again") as caught:
        data = movielens_100k()
    assert caught[0].filename == __file__
    assert is_stand_in(data)
    assert offline.read_bytes() == U_DATA


def test_all_sources_failing_says_what_was_tried_and_what_to_do(offline: Path) -> None:
    """One error names each source with its reason, and the way out."""
    with pytest.raises(DatasetUnavailable) as caught:
        movielens_100k()
    message = str(caught.value)
    assert "its terms forbid redistribution" in message
    assert f"the cache: FileNotFoundError: no file {offline}" in message
    assert (
        "the GroupLens archive https://files.grouplens.org/datasets/movielens/ml-100k.zip: OSError: no net" in message
    )
    assert "the wheel recbole==1.2.1 from the package index: OSError: no network here" in message
    assert "pass path='.../ml-100k.zip' to movielens_100k" in message
    assert f"or put its file u.data in the cache as {offline}" in message
    assert isinstance(caught.value, OSError)
    assert not offline.exists()


@pytest.mark.parametrize("archive", [b"not a zip", zipped(other=b""), zipped(**{"ml-100k/u.data": b"1\t1\t1\t1\n"})])
def test_bad_archive_leads_on_to_the_wheel(archive: bytes, offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is no archive, or another one, counts as a failed source."""
    monkeypatch.setattr(requests, "get", serve(archive))
    monkeypatch.setattr(subprocess, "run", pip_that_saves(WHEEL, []))
    assert is_stand_in(movielens_100k())


def test_answer_that_breaks_off_is_a_failed_source(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection lost half way is listed, not raised."""

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise requests.exceptions.ChunkedEncodingError("the answer broke off")

    monkeypatch.setattr(requests, "get", broken)
    with pytest.raises(DatasetUnavailable, match="the answer broke off"):
        movielens_100k()


def test_other_wheel_is_refused(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel with another hash is not opened."""
    other = zipped(**{"recbole/dataset_example/ml-100k/ml-100k.inter": HEADER + U_DATA, "more": b""})
    monkeypatch.setattr(subprocess, "run", pip_that_saves(other, []))
    with pytest.raises(DatasetUnavailable, match=r"recbole-1\.2\.1-py3-none-any\.whl has SHA-256"):
        movielens_100k()


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (subprocess.CompletedProcess([], 1, "", "WARNING: a\nERROR: No matching distribution"), "ERROR: No matching"),
        (subprocess.CompletedProcess([], 1, "", ""), "no message"),
        (subprocess.CompletedProcess([], 0, "", ""), "pip downloaded 0 wheels"),
        (subprocess.TimeoutExpired("pip", 120), "timed out after 120 seconds"),
    ],
)
def test_failing_pip_is_quoted(outcome: Any, message: str, offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip said last, or that it took too long, stands in the error."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(DatasetUnavailable, match=message):
        movielens_100k()


def test_cache_that_cannot_be_written_is_a_warning(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data are given all the same, and the warning says which variable to set."""
    offline.parent.parent.write_bytes(b"a file where the folder should be")
    monkeypatch.setattr(requests, "get", serve(ARCHIVE))
    with pytest.warns(UserWarning, match="set SNAPIMPUTE_CACHE to a folder that can be written"):
        data = movielens_100k()
    assert is_stand_in(data)


def test_constants_are_those_published() -> None:
    """The hashes that everything is checked against are the known ones."""
    assert module.U_DATA_SHA256 == "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490"
    assert module.WHEEL_SHA256 == "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
    assert module.INTER_SHA256 == "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
