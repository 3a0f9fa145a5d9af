"""Data that the user brings: found by path or by the environment, unpacked, checked; clear errors otherwise."""

from __future__ import annotations

import gzip

import pytest

from reproduction.data import given
from reproduction.data.answers import bfi, hapmap_ceu, house_votes_1984
from reproduction.data.given import DATA_VARIABLE, given_file
from snapimpute.data.datasets import DatasetUnavailable

BFI = '"","' + '","'.join([*(f"i{k}" for k in range(25)), "gender", "education", "age"]) + '"\n'
BFI += '"61617",' + ",".join(["6", "NA", *["1"] * 23, "1", "NA", "16"]) + "\n"
BFI += '"61618",' + ",".join(["2"] * 25 + ["2", "", "18"]) + "\n"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


def test_a_file_is_found_by_path_folder_and_variable(tmp_path, monkeypatch):
    """Plain or packed, the content comes out; a path goes before the variable."""
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"packed"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.csv").write_bytes(b"plain")
    assert given_file("A", ["a.csv"], "somewhere", tmp_path) == b"packed"
    assert given_file("A", ["a.csv"], "somewhere", tmp_path / "a.csv.gz") == b"packed"
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "other"))
    assert given_file("A", ["a.csv"], "somewhere") == b"plain"
    assert given_file("A", ["a.csv"], "somewhere", tmp_path) == b"packed"


def test_what_is_not_there_is_said_with_the_remedy(tmp_path, monkeypatch):
    """The error names the file, the folders searched, and where to get it."""
    with pytest.raises(DatasetUnavailable, match=r"no source to fetch.*Get it from a place.*a\.csv or a\.csv\.gz"):
        given_file("A", ["a.csv"], "a place")
    with pytest.raises(DatasetUnavailable, match=r"A is not in .*Get it from a place"):
        given_file("A", ["a.csv"], "a place", tmp_path)
    with pytest.raises(DatasetUnavailable, match=r"A is not in .*nowhere"):
        given_file("A", ["a.csv"], "a place", tmp_path / "nowhere")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"0123456789" * 100)[:-20])
    with pytest.raises(DatasetUnavailable, match=r"cannot read A from .*EOFError"):
        given_file("A", ["a.csv"], "a place", tmp_path)
    monkeypatch.setattr(given, "MAX_BYTES", 8)
    (tmp_path / "b.csv").write_bytes(b"0123456789")
    with pytest.raises(DatasetUnavailable, match=r"larger than 0 MiB"):
        given_file("B", ["b.csv"], "a place", tmp_path)


def test_items_are_read_and_gaps_left_out(tmp_path):
    """25 items; demographics are no items; NA is missing."""
    (tmp_path / "bfi.csv").write_text(BFI, encoding="utf-8")
    data = bfi(tmp_path)
    assert data.shape == (2, 25)
    assert len(data) == 49
    assert [*zip(data.rows, data.cols, data.values, strict=True)][:2] == [(0, 0, 6), (0, 2, 1)]
    assert list(data.row_labels) == ["61617", "61618"]
    assert data.col_labels[24] == "i24"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BFI.replace('"61618",2', '"61618",7'), "'7' at row 61618, column i0; expected 1, 2, 3, 4, 5, 6, NA"),
        (BFI + '"61619",1\n', r"line 4 has 2 of 29 columns"),
        ("", "expected a CSV file with a header"),
        ("a\n1\n", "expected a CSV file with a header"),
    ],
)
def test_other_content_is_refused(tmp_path, text, message):
    """Another symbol with its place, ragged rows with their line, an empty file."""
    (tmp_path / "bfi.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DatasetUnavailable, match=message):
        bfi(tmp_path)


def test_votes_become_numbers(tmp_path):
    """The party is a label; y is 1, n is 0."""
    (tmp_path / "house_votes_1984.csv").write_text("Class,V1,V2\nrepublican,n,y\ndemocrat,NA,n\n", encoding="utf-8")
    data = house_votes_1984(tmp_path)
    assert [*zip(data.rows, data.cols, data.values, strict=True)] == [(0, 0, 0), (0, 1, 1), (1, 1, 0)]
    assert list(data.row_labels) == ["republican 0", "democrat 1"]


def test_the_published_files_have_their_counts(shared_data, monkeypatch):
    """Shapes and counts of the real files, by name, too."""
    for name, load, shape, count in (
        ("bfi.csv.gz", bfi, (2800, 25), 69_492),
        ("house_votes_1984.csv.gz", house_votes_1984, (435, 16), 6568),
        ("hapmap_ceu_chr22.csv.gz", hapmap_ceu, (90, 603), 90 * 603 - 750),
    ):
        data = load(shared_data(name))
        assert (data.shape, len(data)) == (shape, count)
        monkeypatch.setenv(DATA_VARIABLE, str(shared_data(name).parent))
        assert len(load()) == count
