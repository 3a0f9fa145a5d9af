"""Data sets: what the class checks and splits, and the bundled Senate roll calls."""

from __future__ import annotations

import csv
import gzip
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapimpute import Alphabet
from snapimpute.base.files import write_atomically
from snapimpute.data import datasets
from snapimpute.data.datasets.base import Dataset, cache_dir
from tests.helpers import ROOT

SENATE = {117: ((104, 949), 91_537), 109: ((102, 645), 62_857), 94: ((102, 1311), 114_687)}


def toy(**changes: object) -> Dataset:
    fields = {
        "name": "toy",
        "rows": np.array([2, 0, 1, 0]),
        "cols": np.array([0, 1, 1, 0]),
        "values": np.array([5.0, 1.0, 3.0, 2.0]),
        "shape": (3, 2),
        "alphabet": Alphabet.of("1:5"),
        "splits": {"first": np.array([0]), "odd": np.array([1, 3])},
    }
    return Dataset(**(fields | changes))  # type: ignore[arg-type]


# ------------------------------------------------------------------ Dataset
def test_source_order_is_kept_and_observations_are_sorted() -> None:
    """Published splits refer to the source order, solvers to the sorted one."""
    data = toy()
    assert data.values.tolist() == [5, 1, 3, 2]
    assert data.observations.values.tolist() == [2, 1, 3, 5]
    assert data.observations is data.observations


def test_split_takes_positions_of_the_source_order() -> None:
    """The named entries are the test entries, the others are for training."""
    train, test = toy().split("odd")
    assert (test.rows.tolist(), test.cols.tolist(), test.values.tolist()) == ([0, 0], [0, 1], [2, 1])
    assert (train.rows.tolist(), train.values.tolist()) == ([1, 2], [3, 5])


def test_split_names_the_splits_there_are() -> None:
    """A wrong name is answered with the right ones."""
    with pytest.raises(KeyError, match=r"'toy' has no split 'second'; available: first, odd"):
        toy().split("second")
    with pytest.raises(KeyError, match=r"available: none; use observations\.split"):
        toy(splits={}).split("u1")


@given(st.data())
def test_every_split_is_a_partition(data: st.DataObject) -> None:
    """Training and test entries are disjoint and together all entries, whatever the split."""
    m, n = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 6))
    cells = data.draw(st.permutations(range(m * n)))
    test = data.draw(st.sets(st.integers(0, m * n - 1), min_size=1, max_size=m * n - 1))
    rows, cols = np.divmod(np.array(cells), n)
    values = np.array([cell % 3 for cell in cells], dtype=float)
    whole = Dataset("any", rows, cols, values, (m, n), Alphabet.of("0:2"), splits={"s": np.array(sorted(test))})
    train, held = whole.split("s")
    keys = [set((o.rows.astype(int) * n + o.cols).tolist()) for o in (train, held)]
    assert keys[1] == {cells[i] for i in test}
    assert keys[0] == set(range(m * n)) - keys[1]
    for part in (train, held):
        assert part.values.tolist() == ((part.rows.astype(int) * n + part.cols) % 3).tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": np.array([5.0, 1.0, 3.5, 2.0])}, r"not in Alphabet.*3\.5"),
        ({"rows": np.array([2, 0, 1, 3])}, r"row index\(es\) outside 0\.\.2"),
        ({"rows": np.array([2, 0, 0.5, 0])}, "rows must hold integers"),
        ({"cols": np.array([0, 1, 1])}, "equally long"),
        ({"row_labels": np.array([1, 2])}, "row_labels must hold 3 labels"),
        ({"splits": {"bad": np.array([4])}}, r"split 'bad' of data set 'toy'.*0\.\.3"),
        ({"splits": {"bad": np.array([-1])}}, "split 'bad'"),
        ({"splits": {"bad": np.array([1, 1])}}, "split 'bad'.*each once"),
        ({"splits": {"bad": np.array([], dtype=int)}}, "split 'bad'.*some, not all"),
        ({"splits": {"bad": np.arange(4)}}, "split 'bad'.*some, not all"),
        ({"splits": {"bad": np.array([0.0])}}, "split 'bad'.*float64"),
    ],
)
def test_wrong_fields_are_refused(changes: dict[str, object], message: str) -> None:
    """A data set that contradicts itself cannot be made."""
    with pytest.raises(ValueError, match=message):
        toy(**changes)


def test_a_data_set_cannot_be_changed() -> None:
    """Arrays and splits are read-only, and those of the caller stay as they were."""
    rows = np.array([2, 0, 1, 0])
    data = toy(rows=rows)
    rows[0] = 1
    assert data.rows[0] == 2
    for array in (data.rows, data.cols, data.values, data.splits["odd"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError):
        data.splits["new"] = np.array([0])  # type: ignore[index]


def test_repr_says_what_it_is() -> None:
    """Name, shape, how much is observed, alphabet and splits are seen at a glance."""
    assert repr(toy()) == "Dataset('toy', 3×2, 4 observed = 66.7 %, Alphabet([1, 2, 3, 4, 5]), splits: first odd)"


# ------------------------------------------------------------------ Senate
@pytest.mark.parametrize("congress", SENATE)
def test_senate_has_the_published_size(congress: int) -> None:
    """Shape, number of votes, labels and provenance of each Congress."""
    data = datasets.senate_votes(congress)
    shape, votes = SENATE[congress]
    assert (data.shape, len(data)) == (shape, votes)
    assert set(data.values.tolist()) == {0.0, 1.0}
    assert data.alphabet == Alphabet.of("0,1")
    assert data.row_labels is not None
    assert np.unique(data.row_labels).size == shape[0]
    assert data.col_labels is not None
    assert data.col_labels.tolist() == list(range(1, shape[1] + 1))
    assert "Voteview" in data.citation
    assert data.observations.row_labels is not None


@pytest.mark.parametrize("congress", SENATE)
def test_senate_equals_its_source_cell_by_cell(congress: int, shared_data: Callable[[str], Path]) -> None:
    """The packed votes are those of the table they were packed from."""
    with gzip.open(shared_data(f"senate_{congress:03d}.csv.gz"), "rt", newline="") as file:
        header, *body = csv.reader(file)
    expected = np.array([[float(cell) if cell else np.nan for cell in row[1:]] for row in body])
    data = datasets.senate_votes(congress)
    votes = np.full(data.shape, np.nan)
    votes[data.rows, data.cols] = data.values
    np.testing.assert_array_equal(votes, expected)
    np.testing.assert_array_equal(data.row_labels, [int(row[0]) for row in body])
    np.testing.assert_array_equal(data.col_labels, [int(number) for number in header[1:]])


def test_packing_tool_makes_the_bundled_file(shared_data: Callable[[str], Path], tmp_path: Path) -> None:
    """The tool, run on the table, gives the arrays that the package carries."""
    file = ROOT / "tools" / "pack_senate.py"
    if not file.is_file():
        pytest.skip("the packing tool is not part of an installed package")
    spec = importlib.util.spec_from_file_location("pack_senate", file)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    tool.pack(shared_data("senate_109.csv.gz"), tmp_path / "senate_109.npz")
    with np.load(tmp_path / "senate_109.npz") as new, np.load(tool.TARGET / "senate_109.npz") as bundled:
        assert new.files == bundled.files
        for name in new.files:
            np.testing.assert_array_equal(new[name], bundled[name])


def test_unknown_congress_lists_those_there_are() -> None:
    """Asking for another Congress names the three."""
    with pytest.raises(ValueError, match="Congress 118 in the package; there are 117, 109, 94"):
        datasets.senate_votes(118)


# ------------------------------------------------------------------ registry and cache
def test_registry_loads_by_name() -> None:
    """Every bundled data set is listed under the name it has, with a description."""
    for name in datasets.names():
        if name.startswith("senate"):
            assert datasets.load(name).name == name
        assert datasets.REGISTRY[name].description
    with pytest.raises(
        ValueError,
        match=r"no data set 'netflix'; there are senate-117, .*movielens-100k, movielens-1m-top501, book-crossing$",
    ):
        datasets.load("netflix")


@pytest.mark.parametrize(
    ("own", "xdg", "expected"),
    [
        ("/a/b", "/x", "/a/b"),
        ("~/b", "", "/home/someone/b"),
        ("", "/x", "/x/snapimpute"),
        ("", "relative", "/home/someone/.cache/snapimpute"),
        ("", "", "/home/someone/.cache/snapimpute"),
    ],
)
def test_cache_folder(own: str, xdg: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The own variable wins over XDG_CACHE_HOME, which wins over the home folder; a relative one is ignored."""
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("SNAPIMPUTE_CACHE", own)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert cache_dir() == Path(expected)


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When writing fails nothing is half written, and no temporary file stays."""
    file = tmp_path / "folder" / "data"
    write_atomically(file, b"old")

    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert [path.name for path in file.parent.iterdir()] == ["data"]
