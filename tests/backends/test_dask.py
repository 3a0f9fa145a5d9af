"""A cluster gives what one machine gives, whatever the blocks, and outlives its workers."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

import snapimpute as si
from snapimpute.experts.proximal.offsets import offsets
from snapimpute.experts.proximal.tuned import tune
from snapimpute.linalg import LowRank, Sample, Sparse, cell_sum, mapped, partial_svd, sampled_sum, sparse
from snapimpute.linalg.backend import COLUMNS, OBSERVED, ROWS
from snapimpute.solvers.proximal.gradient import ProximalSolver
from snapimpute.solvers.registry import SOLVERS
from tests.helpers import ROOT, OwnL1

dask = pytest.importorskip("dask", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="dask's scheduler is not installed")
from snapimpute.backends import backend_named  # noqa: E402
from snapimpute.backends.dask import _tasks as tasks  # noqa: E402
from snapimpute.backends.dask import backend as dask_backend  # noqa: E402
from snapimpute.solvers import cluster_forecast as scaling  # noqa: E402
from snapimpute.solvers.cluster_forecast import bytes_sent, cluster_forecast  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed", "ignore::ResourceWarning"),
    pytest.mark.slow,
]

PROXIMAL = [name for name, solver in SOLVERS.items() if issubclass(solver, ProximalSolver)]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as made:
        yield made


@pytest.fixture
def backend(client: Any) -> Any:
    return backend_named("dask")


def data(shape: tuple[int, int] = (60, 40), observed: float = 0.4) -> si.Observations:
    return si.datasets.low_rank_alphabet(shape, 3, "1:5", observed=observed, random_state=0).observations


def low_rank(shape: tuple[int, int], rank: int = 4, dtype: Any = np.float64) -> LowRank:
    rng = np.random.default_rng(3)
    parts = rng.standard_normal((shape[0], rank)), rng.uniform(0.5, 2, rank), rng.standard_normal((shape[1], rank))
    return LowRank(*(part.astype(dtype) for part in parts))


# ---------------------------------------------------------------- arrays
def test_arithmetic_is_numpys(backend: Any, arithmetic: Any) -> None:
    backend.observations(data((11, 5)))
    a, b = np.arange(33.0).reshape(11, 3) - 5, np.linspace(0.5, 2, 3)
    A = backend.put(a, ROWS)
    pairs = [
        *arithmetic(A, a, b),
        (backend.full((11, 2), 3.0, np.float32, ROWS), np.full((11, 2), 3.0, np.float32)),
    ]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours.to_host(), theirs, rtol=1e-15)
    before, kept = A + 1, A.copy()
    A *= 2.0
    np.testing.assert_array_equal(before.to_host(), a + 1)
    np.testing.assert_array_equal(kept.to_host(), a)
    np.testing.assert_array_equal(A.to_host(), 2 * a)
    assert (A.size, A.ndim, A.nbytes, len(A)) == (a.size, a.ndim, a.nbytes, len(a))


def test_reductions_are_numpys_own_numbers(backend: Any) -> None:
    backend.observations(data((50, 7)))
    a = np.random.default_rng(0).standard_normal((50, 3))
    A = backend.put(a, ROWS)
    for ours, theirs in [
        (A.sum(), a.sum()),
        (np.sum(A, dtype=np.float64), a.sum()),
        (A.sum(axis=0), a.sum(axis=0)),
        (np.linalg.norm(A), np.linalg.norm(a)),
        (np.linalg.norm(A, 1), np.linalg.norm(a, 1)),
        (np.linalg.norm(A, np.inf), np.linalg.norm(a, np.inf)),
        (np.linalg.norm(A, axis=0), np.linalg.norm(a, axis=0)),
        (A.T @ A, a.T @ a),
        (A[:, 0] @ A[:, 1], a[:, 0] @ a[:, 1]),
    ]:
        assert not hasattr(ours, "backend")
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    assert np.isfinite(A).all()
    assert not np.isfinite(A / backend.full((50, 3), 0, np.float64, ROWS)).all()


def test_nothing_comes_back_unasked(backend: Any) -> None:
    backend.observations(data((11, 5)))
    A = backend.put(np.ones((11, 2)), ROWS)
    with pytest.raises(TypeError, match=r"not moved to numpy's memory unasked: use to_host"):
        np.asarray(A)
    with pytest.raises(TypeError, match="no implementation"):
        np.median(A)
    with pytest.raises(TypeError, match="rows of an array in blocks cannot be cut out"):
        A[2:5]
    assert "blocks on dask" in repr(A)


@pytest.mark.parametrize("rows", [40, 9])
def test_decompositions(backend: Any, rows: int) -> None:
    """Also where blocks have fewer rows than columns."""
    backend.observations(data((rows, 7)))
    a = np.random.default_rng(0).standard_normal((rows, 6))
    A = backend.put(a, ROWS)
    Q, R = np.linalg.qr(A)
    np.testing.assert_allclose(Q.to_host() @ R, a, atol=1e-12)
    np.testing.assert_allclose(Q.to_host().T @ Q.to_host(), np.eye(6), atol=1e-12)
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    np.testing.assert_allclose((U.to_host() * s) @ Vt, a, atol=1e-12)


# ---------------------------------------------------------------- operators
def test_products_are_numpys(backend: Any) -> None:
    known = data()
    there = backend.observations(known)
    x, rng = low_rank(known.shape), np.random.default_rng(1)
    y = x.moved(backend)
    B, C = rng.standard_normal((40, 3)), rng.standard_normal((60, 3))
    here_op, there_op = Sparse(known), sparse(there, there.values)
    on_blocks = backend.put(C, ROWS)
    for ours, theirs in [
        (there_op.matmat(B).to_host(), here_op.matmat(B)),
        (there_op.rmatmat(on_blocks), here_op.rmatmat(C)),
        (y.matmat(B).to_host(), x.matmat(B)),
        (y.rmatmat(on_blocks), x.rmatmat(C)),
        (y.entries(there.rows, there.cols).to_host(), x.entries(known.rows, known.cols)),
        (y.entries([[50, 2], [2, 59]], [[1, 1], [3, 0]]), x.entries([[50, 2], [2, 59]], [[1, 1], [3, 0]])),
        (y.norm(), x.norm()),
    ]:
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fraction", [1, 2, 12])
def test_maps_and_samples_are_those_of_one_machine(backend: Any, fraction: int) -> None:
    """The same cells are drawn, whatever blocks they are in."""
    shape = (1300, 300)
    backend.observations(data(shape, observed=0.02))
    x, penalty = low_rank(shape), si.L1("1:5", xi=0.1)
    rest = penalty.compiled_remainder(1.0)
    assert rest is not None
    sample = Sample.of(shape, fraction, (1, 2)) if fraction > 1 else None
    here, there = mapped(x, rest, sample=sample), mapped(x.moved(backend), rest, sample=sample)
    rng = np.random.default_rng(1)
    B, C = rng.standard_normal((shape[1], 3)), rng.standard_normal((shape[0], 2))
    on_blocks = backend.put(C, ROWS)
    forward, backward = there.both(B, on_blocks)
    pairs = [
        (there.matmat(B).to_host(), here.matmat(B)),
        (there.rmatmat(on_blocks), here.rmatmat(C)),
        (forward.to_host(), here.matmat(B)),
        (backward, here.rmatmat(C)),
    ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-4 if sample else 1e-10, atol=1e-4 if sample else 1e-10)
    cost = penalty.compiled_envelope(1.0)
    np.testing.assert_allclose(sampled_sum(x.moved(backend), cost, sample), sampled_sum(x, cost, sample), rtol=1e-9)
    assert cell_sum(x.moved(backend), cost) == pytest.approx(cell_sum(x, cost), rel=1e-12)


@pytest.mark.parametrize("shape", [(60, 40), (30, 45)])
def test_partial_svd(backend: Any, shape: tuple[int, int]) -> None:
    known = data(shape)
    there = backend.observations(known)
    x = low_rank(shape)
    here = partial_svd(x + Sparse(known), 5, tol=1e-9)
    found = partial_svd(x.moved(backend) + sparse(there, there.values), 5, tol=1e-9)
    np.testing.assert_allclose(found.x.s, here.x.s, rtol=1e-9)


# ---------------------------------------------------------------- solvers
def equal(problem: si.Problem, solver: str, *, rel: float = 1e-8, **options: Any) -> si.solvers.Result:
    here, there = (si.solve(problem, solver, tol=0, backend=backend, **options) for backend in ("cpu", "dask"))
    np.testing.assert_allclose(there.history["objective"], here.history["objective"], rtol=rel)
    np.testing.assert_allclose(there.x.to_dense(), here.x.to_dense(), atol=100 * rel)
    assert there.settings["backend"].startswith("dask on ")
    return there


@pytest.mark.parametrize("solver", PROXIMAL)
def test_solvers(client: Any, solver: str) -> None:
    spectral = si.LogSum(40.0, 20.0) if solver == "niapg" else si.Nuclear(2.0)
    equal(si.Problem(data(), spectral, si.L1("1:5", xi=0.05)), solver, max_iter=4)


@pytest.mark.parametrize("kind", ["none", "L0", "fractional", "L2", "columns", "offsets", "ridge", "own"])
def test_problems(client: Any, kind: str) -> None:
    known = data()
    discrete: Any = {
        "none": None,
        "L0": si.L0("1:5", xi=0.02),
        "fractional": si.FractionalL0("1:5", xi=0.02, alpha=0.05),
        "L2": si.L2("1:5", xi=0.5),
        "columns": si.ByColumn([si.L1("1:5", xi=0.05), si.L0("1:3", xi=0.02), None], [0] * 20 + [1] * 15 + [2] * 5),
        "offsets": si.L1("1:5", xi=0.05),
        "ridge": si.Ridge(center=3.0, xi=0.02),
        "own": OwnL1(xi=0.05),
    }[kind]
    base = low_rank(known.shape, 2) if kind == "offsets" else None
    equal(si.Problem(known, si.Nuclear(2.0), discrete, base), "apg", max_iter=4)


def test_sampled_term(client: Any) -> None:
    known = data((2000, 700), observed=0.02)
    problem = si.Problem(known, si.Nuclear(12.0), si.L1("1:5", xi=0.02))
    shares = equal(problem, "ais-impute", rel=1e-6, max_iter=5, max_rank=6, alphabet_term="sampled").history["share"]
    assert shares.max() < 0.5  # else nothing is sampled


def test_single_precision(client: Any) -> None:
    equal(si.Problem(data(), si.Nuclear(2.0), si.L1("1:5", xi=0.05)), "apg", rel=1e-5, max_iter=4, dtype="float32")


def test_a_checkpoint_is_resumed(client: Any, tmp_path: Any) -> None:
    problem = si.Problem(data(), si.Nuclear(2.0), si.L1("1:5", xi=0.05))
    options: dict[str, Any] = {"tol": 0, "backend": "dask", "checkpoint": tmp_path / "run.safetensors"}
    si.solve(problem, "apg", max_iter=3, **options)
    resumed = si.solve(problem, "apg", max_iter=5, **options)
    whole = si.solve(problem, "apg", max_iter=5, tol=0)
    assert resumed.history["iteration"].tolist() == [1, 2, 3, 4, 5]
    assert resumed.objective == pytest.approx(whole.objective, rel=1e-12)


def test_blocks_have_about_as_many_observations() -> None:
    rng = np.random.default_rng(0)
    cells = np.unique(np.stack([(1000 * rng.random(20_000) ** 4).astype(int), rng.integers(0, 200, 20_000)]), axis=1)
    known = si.Observations.from_coo(*cells, np.ones(cells.shape[1]), (1000, 200))
    cut = dask_backend.balanced(known, 7)
    assert len(cut) == 7
    assert sum(cut.rows) == 1000
    assert sum(cut.observed) == len(known)
    assert max(cut.observed) < 1.3 * len(known) / 7
    assert min(cut.rows) < 30 < max(cut.rows)


# ---------------------------------------------------------------- files
def written(folder: Any, known: si.Observations, parts: int) -> Any:
    """The cells in Parquet files, in no order, with text for rows and numbers with gaps for columns."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame({"user": [f"u{i}" for i in known.rows], "item": 3 * known.cols, "stars": known.values})
    frame = frame.sample(frac=1, random_state=0)
    for part in range(parts):
        frame[part::parts].to_parquet(folder / f"{part}.parquet", row_group_size=100)
    return frame


NAMES: dict[str, Any] = {"row": "user", "column": "item", "value": "stars"}


@pytest.mark.parametrize(("parts", "blocks"), [(1, 3), (4, None), (2, 1)])
def test_files_are_read_by_the_workers(client: Any, tmp_path: Any, parts: int, blocks: int | None) -> None:
    known = data()
    written(tmp_path, known, parts)
    there = si.cluster(client).read_parquet(tmp_path, alphabet="1:5", blocks=blocks, **NAMES)
    assert repr(there) == repr(known)
    assert there.col_labels.tolist() == (3 * np.arange(40)).tolist()
    discrete = si.L1("1:5", xi=0.05)
    here = si.solve(si.Problem(known, si.Nuclear(2.0), discrete), "apg", max_iter=4, tol=0)
    found = si.solve(si.Problem(there, si.Nuclear(2.0), discrete), "apg", max_iter=4, tol=0)
    np.testing.assert_allclose(found.history["objective"], here.history["objective"], rtol=1e-9)
    np.testing.assert_allclose(found.x.s, here.x.s, rtol=1e-9)
    assert found.x.backend is there.backend


def test_strengths_are_chosen_on_held_out_entries(client: Any, tmp_path: Any) -> None:
    """What is held out does not depend on the blocks, nor does the choice."""
    known = data((80, 50), observed=0.5)
    written(tmp_path, known, 2)
    spec = si.tuning.ModelSpec(si.Alphabet.of("1:5"), center="biases", weights="frequency")
    found = []
    for blocks in (1, 3):
        there = si.cluster(client).read_parquet(tmp_path, blocks=blocks, **NAMES)
        kept, held = there.split(0.2, random_state=1)
        assert len(kept) + len(held) == len(known)
        assert len(held) == pytest.approx(0.2 * len(known), rel=0.1)
        options: dict[str, Any] = {"xi": [0.05], "max_iter": 3, "solver": "apg", "metric": "rmse"}
        choice = si.tuning.choose(there, spec, lam=[8.0, 4.0], early=False, **options)
        found.append([(one.lam, one.xi, one.score) for one in choice.tried])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
    assert len(found[0]) == 2


def test_biases_are_those_of_one_machine(client: Any, tmp_path: Any) -> None:
    known = data()
    written(tmp_path, known, 1)
    there = si.cluster(client).read_parquet(tmp_path, blocks=3, **NAMES)
    for center in ("mean", "rows", "columns", "biases"):
        here = offsets(known, center, (2.0, 7.0))
        found = offsets(there, center, (2.0, 7.0))
        assert here is not None
        assert found is not None
        wanted = np.sort(here.entries(known.rows, known.cols))
        np.testing.assert_allclose(np.sort(found.entries(there.rows, there.cols).to_host()), wanted, rtol=1e-12)


def test_results_are_written_by_the_workers(client: Any, tmp_path: Any) -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    known = data()
    (tmp_path / "in").mkdir()
    written(tmp_path / "in", known, 2)
    cluster = si.cluster(client)
    there = cluster.read_parquet(tmp_path / "in", blocks=3, **NAMES)
    problem = si.Problem(there, si.Nuclear(2.0), None, offsets(there, "mean"))
    estimate = si.solve(problem, "apg", max_iter=4, tol=0).estimate
    paths = cluster.write_top(there, estimate, tmp_path / "top", k=3)
    assert [path.name for path in paths] == [f"part-0000{block}.parquet" for block in range(3)]
    best = pd.concat(map(pd.read_parquet, paths))
    here = si.solve(si.Problem(known, si.Nuclear(2.0), None, offsets(known, "mean")), "apg", max_iter=4, tol=0)
    dense = here.estimate.to_dense()
    seen = np.zeros(known.shape, bool)
    seen[known.rows, known.cols] = True
    for row, group in best.groupby("row"):
        scores = np.where(seen[int(row[1:])], -np.inf, dense[int(row[1:])])
        assert group["column"].tolist() == (3 * np.argsort(-scores)[:3]).tolist()
        np.testing.assert_allclose(group["score"], np.sort(scores)[::-1][:3], rtol=1e-9)
    assert len(best) == 3 * known.shape[0]
    paths = cluster.write_completed(there, estimate, tmp_path / "whole", "1:5")
    whole = pd.concat(map(pd.read_parquet, paths)).set_index("row")
    assert set(whole.dtypes) == {np.dtype(np.int8)}
    filled = np.where(seen, 0, si.Alphabet.of("1:5").snap(dense))
    filled[known.rows, known.cols] = known.values
    np.testing.assert_array_equal(whole.loc[[f"u{i}" for i in range(known.shape[0])]].to_numpy(), filled)
    with pytest.raises(FileExistsError, match="is not empty: give a new folder"):
        cluster.write_top(there, estimate, tmp_path / "top")


def test_a_frame_of_dask_is_read(client: Any, tmp_path: Any) -> None:
    frames = pytest.importorskip("dask.dataframe", reason="dask's dataframes are not installed")
    frame = frames.from_pandas(written(tmp_path, data(), 1), npartitions=3)
    there = si.cluster(client).from_frame(frame, **NAMES)
    assert repr(there) == repr(data())
    with pytest.raises(ValueError, match=r"the frame has the columns user, item, stars, not 'row'"):
        si.cluster(client).from_frame(frame)


def test_bad_files_are_refused(client: Any, tmp_path: Any) -> None:
    reader = si.cluster(client).read_parquet
    with pytest.raises(FileNotFoundError, match="no Parquet file at"):
        reader(tmp_path / "*.parquet")
    frame = written(tmp_path, data(), 1)
    with pytest.raises(ValueError, match=r"has the columns user, item, stars.*, not 'row': name them with row="):
        reader(tmp_path)
    with pytest.raises(ValueError, match=r"not in Alphabet\(\[1, 2, 3\]\)"):
        reader(tmp_path, alphabet="1:3", **NAMES)
    frame[:3].to_parquet(tmp_path / "again.parquet")
    with pytest.raises(ValueError, match=r"duplicate cell"):
        reader(tmp_path, **NAMES)


# ---------------------------------------------------------------- faults
def test_a_cluster_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise ValueError("No clients found")

    monkeypatch.setattr(dask_backend, "get_client", none)
    with pytest.raises(RuntimeError, match=r'backend="dask" needs a cluster: connect to one first'):
        backend_named("dask")


def test_a_worker_that_cannot_connect_tries_again(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it may happen where a scheduler is busy: a copy is handed over by the second try."""
    calls: list[int] = []
    connect = tasks.get_client

    def busy() -> Any:
        calls.append(1)
        assert len(calls) > 1
        return connect()

    monkeypatch.setattr(tasks, "get_client", busy)
    monkeypatch.setattr(tasks, "SECURING", 1e9)
    problem = si.Problem(data(), si.Nuclear(4.0))
    there = si.solve(problem, "apg", max_iter=3, tol=0, backend="dask")
    here = si.solve(problem, "apg", max_iter=3, tol=0)
    assert len(calls) > 2
    np.testing.assert_allclose(there.objective, here.objective, rtol=1e-12)


def test_copies_that_end_on_one_worker_are_taken_apart(client: Any) -> None:
    """As Dask's memory manager may bring them together; after the next iteration one death does not take both."""
    problem = si.Problem(data((200, 120)), si.Nuclear(4.0))
    together: list[Any] = []

    def bring_together(info: Any) -> None:
        if info.iteration == 3:
            together.extend(one for one in newest()._live if one.spare is not None)
            for one in together:
                one.spare = list(one.held)
        if info.iteration == 4:
            assert together
            assert all(one.held is None or one.spare is None or apart(one) for one in together)

    def newest() -> Any:
        return max(tasks.FAMILIES[client], key=lambda one: one.number)

    def apart(one: Any) -> bool:
        there = client.who_has([*one.held, *one.spare])
        return all(
            len({*there[held.key], *there[spare.key]}) > 1 for held, spare in zip(one.held, one.spare, strict=True)
        )

    si.solve(problem, "apg", max_iter=5, tol=0, backend="dask", callback=bring_together)


def test_tables_of_one_cluster_do_not_know_of_each_other(client: Any, tmp_path: Any) -> None:
    """Another table has other blocks."""
    for name, share in (("one", 0.4), ("other", 0.2)):
        (tmp_path / name).mkdir()
        written(tmp_path / name, data(observed=share), 2)
    cluster = si.cluster(client)
    one = cluster.read_parquet(tmp_path / "one", blocks=3, **NAMES)
    fitted = si.solve(si.Problem(one, si.Nuclear(2.0)), "apg", max_iter=3, tol=0)
    cells = np.arange(40), np.arange(40)
    before = fitted.x.entries(*cells)
    other = cluster.read_parquet(tmp_path / "other", blocks=2, **NAMES)
    np.testing.assert_array_equal(fitted.x.entries(*cells), before)
    kept, held = one.split(0.25)
    assert len(kept) + len(held) == len(one) != len(other)


def test_a_worker_may_die_at_any_time(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While files are read and after, as held-out cells are set aside, twice in a fit to the others, before results.

    Paths are relative, and the workers run in another folder. Before the second death in the fit an iteration is
    done by two: only then is there something of everything on another.
    """
    (tmp_path / "in").mkdir()
    table = written(tmp_path / "in", data((200, 120)), 2)
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options, silence_logs=50) as made, distributed.Client(made) as client:
        monkeypatch.chdir(tmp_path)

        def both() -> None:
            """Wait for both; a nanny whose worker dies as it starts goes with it."""
            made.scale(2)
            client.wait_for_workers(2)

        def kill(which: int) -> None:
            both()
            os.kill(sorted(client.run(os.getpid).values())[which], signal.SIGKILL)

        def deadly(info: Any) -> None:
            if info.iteration == 4:
                both()
            if info.iteration in (2, 6):
                kill(info.iteration // 4)

        cluster = si.cluster(client)
        threading.Timer(0.05, kill, [1]).start()
        known = cluster.read_parquet("in", blocks=3, **NAMES)
        assert len(known) == len(table)
        assert client.amm.running()  # it is the user's, and stays on
        whole = [known.split(0.2), offsets(known, "biases")]
        kill(0)
        again = [known.split(0.2), offsets(known, "biases")]
        kept, held = again[0]
        np.testing.assert_array_equal(held.values, whole[0][1].values)
        np.testing.assert_allclose(again[1].V, whole[1].V, rtol=1e-12)
        problem = si.Problem(kept, si.Nuclear(4.0), None, offsets(kept, "mean"))
        limits: dict[str, Any] = {"max_iter": 8, "tol": 0}
        calm = si.solve(problem, "apg", **limits, checkpoint="run.safetensors")
        troubled = si.solve(problem, "apg", **limits, callback=deadly)
        np.testing.assert_allclose(troubled.history["objective"], calm.history["objective"], rtol=1e-12)
        both()
        assert len(cluster.write_factors(known, troubled.estimate, "rows")) == 3  # then all is on two workers again
        kill(1)
        assert len(cluster.write_top(known, troubled.estimate, "top", k=2)) == 3
    assert len(list((tmp_path / "run.safetensors.parts").glob("*/*/*.npy"))) > 0


DRIVER = """
import os, signal, sys
import distributed, snapimpute as si
address, folder, run = sys.argv[1:]
with distributed.Client(address) as client:
    known = si.cluster(client).read_parquet(folder, row="user", column="item", value="stars", blocks=3)
    problem = si.Problem(known, si.Nuclear(2.0), si.L1("1:5", xi=0.05))
    checkpoint = si.solvers.Checkpoint(run, every_seconds=0)

    def die(info):
        if info.iteration == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    si.solve(problem, "apg", max_iter=6, tol=0, callback=die, checkpoint=checkpoint, alphabet_term="sampled")
"""
"""Begins a fit, and is killed in the third iteration."""


def test_a_lost_driver_leaves_a_run_to_go_on_with(client: Any, tmp_path: Any) -> None:
    """Another process goes on, with data that are read anew; the arrays of the rows were never in one place."""
    known, run = data(), tmp_path / "run.safetensors"
    (tmp_path / "in").mkdir()
    written(tmp_path / "in", known, 2)
    (tmp_path / "run.safetensors.parts" / "mine").mkdir(parents=True)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster:
        arguments = [cluster.scheduler_address, str(tmp_path / "in"), str(run)]
        done = subprocess.run([sys.executable, "-c", DRIVER, *arguments], check=False, capture_output=True)  # noqa: S603
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    with safe_open(run, framework="np") as file:
        shapes = {tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    assert not {known.shape[0], len(known)} & {length for shape in shapes for length in shape}
    there = si.cluster(client).read_parquet(tmp_path / "in", blocks=3, **NAMES)
    problem = si.Problem(there, si.Nuclear(2.0), si.L1("1:5", xi=0.05))
    options: dict[str, Any] = {"max_iter": 6, "tol": 0, "alphabet_term": "sampled"}
    resumed = si.solve(problem, "apg", checkpoint=run, **options)
    whole = si.solve(problem, "apg", **options)
    assert resumed.history["iteration"].tolist() == [1, 2, 3, 4, 5, 6]
    assert resumed.history["seconds"][2] != whole.history["seconds"][2]
    np.testing.assert_allclose(resumed.history["objective"], whole.history["objective"], rtol=1e-12)
    parts = tmp_path / "run.safetensors.parts"
    assert sorted(len(path.name) for path in parts.iterdir()) == [4, 32]  # those before are gone
    others = si.cluster(client).read_parquet(tmp_path / "in", blocks=2, **NAMES)
    with pytest.raises(ValueError, match=r"setting backend differs \('dask, 3 blocks' then, 'dask, 2 blocks' now"):
        si.solve(replace(problem, observations=others), "apg", checkpoint=run, **options)
    one = next(parts.rglob("1.npy"))
    one.write_bytes(one.read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="does not match its checksum, so it is damaged"):
        si.solve(problem, "apg", checkpoint=run, **options)


def test_a_full_disk(tmp_path: Any) -> None:
    """Of the workers: a fit goes on without its checkpoint, results are an error, and nothing is half there."""
    known = data((300, 40))
    (tmp_path / "in").mkdir()
    written(tmp_path / "in", known, 2)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as made,
        distributed.Client(made) as client,
    ):
        cluster = si.cluster(client)
        there = cluster.read_parquet(tmp_path / "in", **NAMES)
        client.run(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        problem = si.Problem(there, si.Nuclear(2.0))
        options: dict[str, Any] = {"max_iter": 2, "tol": 0, "checkpoint": si.solvers.Checkpoint(tmp_path / "run", 0)}
        with pytest.warns(UserWarning, match=r"the checkpoint .*run could not be written: .*File too large"):
            result = si.solve(problem, "apg", **options)
        assert result.n_iter == 2
        with pytest.raises(OSError, match="File too large"):
            cluster.write_top(there, result.estimate, tmp_path / "top")
    assert not (tmp_path / "run").exists()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != tmp_path / "in"]


def test_the_planner_knows_what_workers_hold() -> None:
    assert scaling.REMEMBERED == tasks.REMEMBERED
    assert scaling.BRANCHES == tasks.BRANCHES
    assert dask.config.get("distributed.worker.connections.incoming") == scaling.FETCHERS


def test_put_knows_the_sides(backend: Any) -> None:
    there = backend.observations(data())
    column_side, observed = np.ones((40, 2)), np.arange(float(len(there)))
    assert backend.put(column_side, COLUMNS) is column_side
    np.testing.assert_array_equal(backend.put(observed, OBSERVED).to_host(), observed)


# ---------------------------------------------------------------- the command
def run(*arguments: Any) -> Any:
    pytest.importorskip("typer", reason="the command line is an optional extra")
    from typer.testing import CliRunner

    from snapimpute.app.cli.app import app

    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_the_command_fits_on_a_cluster(client: Any, tmp_path: Any) -> None:
    """From files to files: factors that give the estimates of one machine, and the best columns of each row."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    known = data()
    (tmp_path / "in").mkdir()
    written(tmp_path / "in", known, 2)
    files, address = sorted((tmp_path / "in").iterdir()), client.scheduler.address
    given = ["--triplets", "user,item,stars", "-a", "1:5", "--lam", 4, "--xi", 0.02, "--center", "biases"]
    saved = ["--checkpoint", tmp_path / "run.safetensors"]
    more = ["--solver", "apg", "--max-iter", 3, "--model", tmp_path / "out", "--top", 2, "--json", *saved]
    done = run("fit", *files, "--cluster", address, *given, *more)
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["columns"], facts["known"]) == (*known.shape, len(known))
    plan = cluster_forecast(known.shape, len(known), 32, workers=2, solver="apg", sampled=False)
    assert facts["expected"] == {"memory_per_worker": plan.memory_per_worker, "sent": plan.sent}
    assert (tmp_path / "run.safetensors").exists()
    assert facts["lam"] == json.loads((tmp_path / "out" / "model.json").read_text())["lam"] == 4
    rows = pd.concat(map(pd.read_parquet, sorted((tmp_path / "out" / "rows").iterdir()))).set_index("row")
    columns = pd.read_parquet(tmp_path / "out" / "columns.parquet").set_index("column")
    estimate = (rows.to_numpy() @ columns.to_numpy().T)[np.argsort([int(label[1:]) for label in rows.index])]
    spec = si.tuning.ModelSpec(si.Alphabet.of("1:5"), center="biases")
    plan = tune(known, spec.alphabet, lam=4.0, xi=0.02, center="biases")
    here = si.solve(plan.spec.problem(known, 4.0, 0.02), "apg", max_iter=3, tol=1e-4)
    assert np.abs(estimate - here.estimate.to_dense()).max() < 0.3  # what is held out to choose the damping differs
    assert len(pd.concat(map(pd.read_parquet, (tmp_path / "out" / "top").iterdir()))) == 2 * known.shape[0]


def test_the_command_says_what_is_wrong(client: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from snapimpute.app.cli import _on_cluster as on_cluster

    written(tmp_path, data(), 1)
    monkeypatch.setattr(on_cluster, "LIMIT", 0.5)
    far = run("fit", tmp_path, "--cluster", "tcp://127.0.0.1:9", "-a", "1:5", "--model", tmp_path / "out")
    assert isinstance(far.exception, ConnectionError)
    assert "no scheduler answers at tcp://127.0.0.1:9: start one with `dask scheduler`" in str(far.exception)
    address = client.scheduler.address
    no_alphabet = run("fit", tmp_path, "--cluster", address, "--model", tmp_path / "out")
    assert "give one alphabet for all columns, such as --alphabet 1:5" in str(no_alphabet.exception)
    monkeypatch.setattr(dask_backend, "_version", lambda: "0.0.9")
    old = run("fit", tmp_path, "--cluster", address, "-a", "1:5", "--model", tmp_path / "out")
    assert "workers have snapimpute 0.0.9, and this is" in str(old.exception)
    several = run("fit", "a.csv", "b.csv", "--model", tmp_path / "out")
    assert several.exit_code == 2
    assert "several files go with --cluster only" in several.output
    alone = run("fit", "a.csv", "--blocks", 3, "--model", tmp_path / "out")
    assert "--blocks goes with --cluster only" in alone.output
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- what to expect
def test_what_is_sent_is_what_was_counted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that all processes wrote in each iteration, beside the formula for its ranks and rounds."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import cluster as bench

    shape = (2000, 3000)  # blocks are larger than what is sent, as they are where it matters
    cells = data(shape, observed=0.1)
    table = pd.DataFrame({"user": cells.rows, "item": cells.cols, "stars": cells.values})
    table.to_parquet(tmp_path / "ratings.parquet")
    monkeypatch.setattr(tasks, "SECURING", 1e9)  # in every iteration, though they are short
    # Dask moves a small block to a worker that has less to do, unless that seems expensive.
    calm = {"distributed.scheduler.work-stealing": False, "distributed.scheduler.bandwidth": "10MB"}
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        dask.config.set(calm),
        distributed.LocalCluster(**options, silence_logs=50) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        known = si.cluster(client).read_parquet(tmp_path, **NAMES)
        for discrete, term in ((None, "tiled"), (si.L1("1:5", xi=0.02), "sampled")):
            problem = si.Problem(known, si.Nuclear(45.0), discrete, offsets(known, "mean"))
            limits: dict[str, Any] = {"max_iter": 6, "tol": 0, "max_rank": 8, "evaluate_every": 100}
            with bench.Watch(client, known) as watch:
                si.solve(problem, "ais-impute", alphabet_term=term, callback=watch, **limits)
            plan = cluster_forecast(
                shape, len(known), 8, workers=2, offsets=1, discrete=discrete is not None, sampled=term == "sampled"
            )
            done = watch.iterations(3)
            assert len(done) == 2
            for one in done:
                assert one["sent"] == pytest.approx(bytes_sent(plan.case, 2, one["ranks"], one["rounds"]), rel=0.2)


def test_time_on_the_way_grows_with_the_workers() -> None:
    """An array passes from worker to worker in a tree: ten times the workers do not take ten times as long."""
    seconds = []
    for workers in (1, 2, 10, 100, 1000):
        case = cluster_forecast((10**8, 10**6), 10**9, 64, workers=workers).case
        seconds.append(scaling.seconds_sending(replace(case, shape=(1, 10**6)), workers, 1e9))
    assert seconds == sorted(seconds)
    assert seconds[4] < 2 * seconds[3]
