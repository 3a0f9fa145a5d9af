"""Tables that workers of a cluster read: any cut gives the same answer, bad files are named, lost blocks return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.linalg.backend import ROWS

distributed = pytest.importorskip("distributed", reason="dask's scheduler is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
from distributed.comm import CommClosedError  # noqa: E402

from snapimpute.backends import backend_named  # noqa: E402
from snapimpute.backends.dask import _reading as reading  # noqa: E402
from snapimpute.backends.dask import _tasks as tasks  # noqa: E402
from snapimpute.backends.dask import backend as dask_backend  # noqa: E402
from snapimpute.backends.dask._spread import hashed  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed", "ignore::ResourceWarning"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as made:
        yield made


def save(path: Any, rows: Any, columns: Any, values: Any) -> None:
    pq.write_table(pa.table({"row": rows, "column": columns, "value": values}), path)


def observations(shape: tuple[int, int], observed: float) -> si.Observations:
    return si.datasets.low_rank_alphabet(shape, 3, "1:5", observed=observed, random_state=0).observations


# ---------------------------------------------------------------- the answer
def test_a_sample_is_the_same_for_any_blocks_and_files(client: Any, tmp_path: Any) -> None:
    """Rows have one order, whatever the blocks, so that the same cells are drawn."""
    known = observations((2000, 700), 0.02)
    names = np.array([f"u{i}" for i in known.rows])
    for parts in (1, 3):
        (tmp_path / str(parts)).mkdir()
        for part in range(parts):
            some = slice(part, None, parts)
            save(tmp_path / str(parts) / f"{part}.parquet", names[some], known.cols[some], known.values[some])
    found = []
    for parts, blocks in ((1, 1), (3, 3)):
        there = si.cluster(client).read_parquet(tmp_path / str(parts), blocks=blocks)
        problem = si.Problem(there, si.Nuclear(12.0), si.L1("1:5", xi=0.02))
        options: dict[str, Any] = {"max_iter": 5, "tol": 0, "max_rank": 6, "alphabet_term": "sampled"}
        found.append(si.solve(problem, "ais-impute", **options))
        assert found[-1].history["share"].max() < 0.5
    np.testing.assert_allclose(found[1].history["objective"], found[0].history["objective"], rtol=1e-6)
    np.testing.assert_allclose(found[1].x.s, found[0].x.s, rtol=1e-6)


def test_blocks_are_ranges_of_buckets_with_their_share_of_the_entries() -> None:
    counts = np.random.default_rng(0).poisson(5.0, reading.BUCKETS)
    owner = reading.owners(counts, 100)
    assert (np.diff(owner) >= 0).all()
    load = np.bincount(owner, counts)
    assert load.size == 100
    assert load.max() < 1.01 * load.mean()
    counts[7] = 3 * counts.sum()  # one row has more than all others: it cannot be cut
    heavy = reading.owners(counts, 4)
    assert sorted(set(heavy[counts > 0])) == list(range(heavy.max() + 1))


def test_a_hash_does_not_depend_on_the_labels_beside_it() -> None:
    labels = np.array(["a", "b" * 1000, "é", ""], np.dtypes.StringDType())
    np.testing.assert_array_equal(hashed(labels, 3), np.concatenate([hashed(labels[i : i + 1], 3) for i in range(4)]))
    assert len(set(hashed(labels, 3))) == 4


# ---------------------------------------------------------------- files
def test_missing_values_are_left_out_and_whole_numbers_may_be_floats(client: Any, tmp_path: Any) -> None:
    save(tmp_path / "a.parquet", [1.0, 2.0, 2.0], [7, 7, 9], [1.0, None, 5.0])
    save(tmp_path / "b.parquet", pa.array([1, 3], pa.int32()), [9, 7], ["4", "2"])
    there = si.cluster(client).read_parquet(tmp_path, alphabet="1:5", blocks=2)
    assert there.shape == (3, 2)
    assert len(there) == 4
    assert there.col_labels.tolist() == [7, 9]


WRONG: dict[str, tuple[list[Any], str]] = {
    "labels": (
        [[1, 2], [1, 2], [1.0, 2.0]],
        r"the labels in 'row' are text in .*right.parquet, and numbers in .*wrong.parquet: write all",
    ),
    "no label": ([["u", None], [1, 2], [1.0, 2.0]], "wrong.parquet has cells without a row or a column in 'row'"),
    "halves": ([["u", "w"], [1.0, 2.5], [1.0, 2.0]], "wrong.parquet must have whole numbers or text in 'column'"),
    "words": ([["u", "w"], [1, 2], ["1", "good"]], "wrong.parquet must have numbers in 'value': .*good"),
    "infinite": (
        [["u", "w"], [1, 2], [1.0, np.inf]],
        r"wrong.parquet: 1 value\(s\) not finite, the first is inf at cell \(w, 2\)",
    ),
    "symbol": (
        [["u", "w"], [1, 2], [1.0, 7.0]],
        r"wrong.parquet: 1 value\(s\) not in Alphabet\(\[1, 2, 3, 4, 5\]\), the first is 7 at cell \(w, 2\)",
    ),
    "twice": (
        [["w", "v"], [4, 1], [1.0, 3.0]],
        r"1 duplicate cell\(s\) in a block, one of them is row v, column 1, with the values .*: keep one value",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_file_is_named(client: Any, tmp_path: Any, kind: str) -> None:
    content, said = WRONG[kind]
    save(tmp_path / "right.parquet", ["u", "v"], [3, 1], [5.0, 4.0])
    save(tmp_path / "wrong.parquet", *content)
    with pytest.raises(ValueError, match=said):
        si.cluster(client).read_parquet(tmp_path, alphabet="1:5", blocks=1)


def test_a_file_of_another_kind_is_named(client: Any, tmp_path: Any) -> None:
    save(tmp_path / "right.parquet", ["u", "v"], [3, 1], [5.0, 4.0])
    pq.write_table(pa.table({"row": ["u"], "col": [1], "value": [1.0]}), tmp_path / "wrong.parquet")
    with pytest.raises(ValueError, match=r"wrong.parquet has the columns row, col, value, not 'column': name them"):
        si.cluster(client).read_parquet(tmp_path)
    (tmp_path / "wrong.parquet").write_text("row,column,value")
    with pytest.raises(ValueError, match=r"wrong.parquet is not a Parquet file, or damaged"):
        si.cluster(client).read_parquet(tmp_path)


def test_files_without_a_line(client: Any, tmp_path: Any) -> None:
    nothing = pa.array([], pa.float64())
    save(tmp_path / "a.parquet", pa.array([], pa.int64()), pa.array([], pa.int64()), nothing)
    with pytest.raises(ValueError, match="no observed entry"):
        si.cluster(client).read_parquet(tmp_path)
    save(tmp_path / "b.parquet", [1], [1], pa.array([None], pa.float64()))
    with pytest.raises(ValueError, match="no observed entry"):
        si.cluster(client).read_parquet(tmp_path)


# ---------------------------------------------------------------- faults
def test_lost_blocks_are_read_again_all_at_once(client: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = observations((60, 40), 0.4)
    save(tmp_path / "a.parquet", known.rows, known.cols, known.values)
    there = si.cluster(client).read_parquet(tmp_path, blocks=3)
    before, asked, bring = there.column_counts(), [], reading.brought

    def brought(*arguments: Any) -> Any:
        asked.append(list(arguments[-1]))
        return bring(*arguments)

    monkeypatch.setattr(reading, "brought", brought)
    client.cancel(there.root.held[1:], force=True)
    np.testing.assert_array_equal(there.column_counts(), before)
    assert asked == [[1, 2]]
    kept, _ = there.split(0.2)
    client.cancel([*there.root.held, *kept.root.held], force=True)
    assert kept.column_counts().sum() == len(kept)
    assert asked == [[1, 2], [0, 1, 2]]


def test_what_was_sent_is_sent_again(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of this side that are lost with a worker, or could not be sent as it died."""
    backend: Any = backend_named("dask")
    backend.observations(observations((60, 40), 0.4))
    A = backend.put(np.ones((60, 2)), ROWS)
    client.cancel(A.written.held, force=True)
    assert A.sum() == 120
    scatter, failed = client.scatter, []

    def first_fails(*arguments: Any, **options: Any) -> Any:
        assert not options.get("broadcast")  # it would wait for a worker that is dead
        if not failed:
            failed.append(True)
            raise CommClosedError("gone")
        return scatter(*arguments, **options)

    monkeypatch.setattr(client, "scatter", first_fails)
    large = np.arange(40_000.0).reshape(20_000, 2)
    assert backend.total(np.vdot, backend.shared(large), large[:, :]) == pytest.approx(
        backend.count * np.vdot(large, large)
    )
    assert failed


def test_a_lost_copy_is_replaced_before_the_other_is_lost(client: Any) -> None:
    """Also if nothing was asked of it, and if it belongs to another table of the same cluster."""
    backend: Any = backend_named("dask")
    backend.observations(observations((60, 40), 0.4))
    B = (backend.put(np.ones((60, 2)), ROWS) * 2).copy()
    backend.guarded(B.sum)
    client.cancel(B.written.spare, force=True)
    backend._seen = {*backend._seen, "tcp://127.0.0.1:9"}  # of which the copies were
    backend.guarded(B.sum)
    client.cancel(B.written.held, force=True)
    other: Any = dask_backend.DaskBackend(client)
    other.cut = backend.cut
    assert other.total(np.sum, B) == 240
    client.cancel(B.written.held, force=True)  # the last there was
    with pytest.raises(ConnectionError, match="something that was nowhere else"):
        B.sum()


def test_nobody_to_do_the_work(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a.parquet", [1], [1], [1.0])
    monkeypatch.setattr(tasks, "PATIENCE", 0.3)
    monkeypatch.setattr(tasks, "LOOK", 0.1)
    options = {"n_workers": 0, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as made,
        distributed.Client(made, set_as_default=False) as alone,
        pytest.raises(ConnectionError, match=r"has had no worker for 0 seconds: start one"),
    ):
        si.cluster(alone).read_parquet(tmp_path)


def test_workers_must_have_the_same_version(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise ModuleNotFoundError("No module named 'snapimpute'", name="snapimpute")

    monkeypatch.setattr(dask_backend, "_version", lambda: "0.0.9")
    with pytest.raises(ImportError, match=r"workers have snapimpute 0\.0\.9, and this is"):
        si.cluster(client)
    monkeypatch.setattr(dask_backend, "_version", none)
    with pytest.raises(ImportError, match="do not have snapimpute: install snapimpute"):
        backend_named("dask")
