"""Every backend gives the answer of numpy: arrays, products, maps, solvers, checkpoints."""

from __future__ import annotations

import copy
import gc
import importlib
import json
import pickle
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.backends import backend_named
from snapimpute.linalg import LowRank, Sample, Sparse, cell_sum, mapped, partial_svd, sampled_sum, sparse
from snapimpute.linalg.backend import COLUMNS, ROWS, Backend, to_host
from snapimpute.problem.losses import Thresholds
from snapimpute.solvers.proximal.gradient import ProximalSolver
from snapimpute.solvers.registry import SOLVERS
from tests.helpers import ROOT, proximal

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="torch is not installed")

torch.set_num_threads(1)  # tests run side by side, and its threads wait for each other by turning in circles
SHAPE = (90, 70)
PROXIMAL = [name for name, kind in SOLVERS.items() if issubclass(kind, ProximalSolver)]
DISCRETE = {
    "l1": si.L1("1:5", xi=0.05),
    "uneven": si.L1([1, 2, 4, 7], xi=0.03, weights=[1.0, 0.5, 2.0, 1.0]),
    "composed": si.ComposedL1("1:5", xi=0.05),
    "l0": si.L0("1:5", xi=0.02),
    "fractional": si.FractionalL0("1:5", xi=0.02, alpha=0.05),
    "lp": si.Lp("1:5", xi=0.02, p=0.5),
    "l2": si.L2("1:5", xi=0.5),
    "ridge": si.Ridge(center=3.0, xi=0.02),
}


@pytest.fixture(params=["torch:cpu", *(["torch:cuda"] if torch.cuda.is_available() else [])])
def backend_name(request: pytest.FixtureRequest) -> str:
    """Every backend that there is here."""
    return str(request.param)


@pytest.fixture
def backend(backend_name: str) -> Backend:
    found = backend_named(backend_name)
    assert found is not None
    return found


def data(observed: float = 0.3) -> si.Observations:
    return si.datasets.low_rank_alphabet(SHAPE, rank=3, alphabet="1:5", observed=observed).observations


def some(rank: int = 4, dtype: Any = np.float64, scale: float = 1.0) -> LowRank:
    """A matrix of low rank with entries about an alphabet 1..5."""
    rng = np.random.default_rng(3)
    left, right = rng.standard_normal((SHAPE[0], rank)), rng.standard_normal((SHAPE[1], rank))
    left[:, 0], right[:, 0] = 3.0, 1.0
    return LowRank(left, np.full(rank, scale), right).orthonormalised().astype(dtype)


# ---------------------------------------------------------------- arrays
def test_arithmetic_is_numpys(backend: Backend, arithmetic: Any) -> None:
    a, b = np.arange(12.0).reshape(4, 3) - 5, np.linspace(0.5, 2, 3)
    A: Any = backend.put(a, ROWS)
    pairs = [
        *arithmetic(A, a, b),
        (A.T @ A, a.T @ a),
        (np.hstack([A, a]), np.hstack([a, a])),
        (A[np.array([3, 0])], a[[3, 0]]),
        (np.flatnonzero(A == 1), np.flatnonzero(a == 1)),
        (A.reshape(-1), a.reshape(-1)),
    ]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours.to_host(), theirs, rtol=1e-15)
    A[1:3] *= 2.0
    a[1:3] *= 2.0
    A[:, 0] = 7.0
    a[:, 0] = 7.0
    np.testing.assert_array_equal(A.to_host(), a)
    assert (A.shape, A.size, A.ndim, A.nbytes, len(A)) == (a.shape, a.size, a.ndim, a.nbytes, len(a))


def test_reductions_are_numpys_own_numbers(backend: Backend) -> None:
    a = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    A: Any = backend.put(a, ROWS)
    for ours, theirs in [
        (A.sum(), a.sum(dtype=np.float64)),
        (np.sum(A, dtype=np.float64), a.sum(dtype=np.float64)),
        (A.sum(axis=0), a.sum(axis=0)),
        (np.linalg.norm(A), np.linalg.norm(a)),
        (np.linalg.norm(A, axis=0), np.linalg.norm(a, axis=0)),
        (A[:, 0] @ A[:, 1], a[:, 0] @ a[:, 1]),
    ]:
        assert not hasattr(ours, "backend")
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert np.isfinite(A).all()
    assert not np.isfinite(A / backend.full((50, 3), 0, np.float32, ROWS)).all()
    assert A.sum(axis=0).dtype == np.float32


def test_nothing_comes_back_unasked(backend: Backend) -> None:
    A: Any = backend.put(np.ones(3), ROWS)
    with pytest.raises(TypeError, match=r"not moved to numpy's memory unasked: use to_host"):
        np.asarray(A)
    with pytest.raises(TypeError, match="no implementation"):
        np.median(A)
    with pytest.raises(TypeError, match="__array_ufunc__"):
        np.arctan(A)
    assert backend.name.split(" on ")[0] == "torch"
    assert "torch on" in repr(A)


def test_decompositions(backend: Backend) -> None:
    a = np.random.default_rng(0).standard_normal((40, 6))
    A: Any = backend.put(a, ROWS)
    Q, R = np.linalg.qr(A)
    np.testing.assert_allclose(Q.to_host() @ R, a, atol=1e-12)
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    np.testing.assert_allclose((U.to_host() * s) @ Vt.to_host(), a, atol=1e-12)
    values, vectors = np.linalg.eigh(A.T @ A)
    np.testing.assert_allclose(vectors.to_host() * values @ vectors.to_host().T, a.T @ a, atol=1e-11)


# ---------------------------------------------------------------- products
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_products_are_numpys(backend: Backend, dtype: Any, rtol: float) -> None:
    known = data().astype(dtype)
    there = backend.observations(known)
    rng = np.random.default_rng(1)
    B, C = rng.standard_normal((SHAPE[1], 5)).astype(dtype), rng.standard_normal((SHAPE[0], 5)).astype(dtype)
    here_op, there_op = Sparse(known), sparse(there, there.values)
    x, y = some(dtype=dtype), some(dtype=dtype).moved(backend)
    close = {"rtol": rtol, "atol": 10 * rtol}
    for ours, theirs in [
        (there_op.matmat(backend.put(B, COLUMNS)), here_op.matmat(B)),
        (there_op.rmatmat(backend.put(C, ROWS)), here_op.rmatmat(C)),
        (y.matmat(backend.put(B, COLUMNS)), x.matmat(B)),
        (y.rmatmat(backend.put(C, ROWS)), x.rmatmat(C)),
        (y.entries(there.rows, there.cols), x.entries(known.rows, known.cols)),
    ]:
        assert ours.dtype == dtype
        np.testing.assert_allclose(to_host(ours), theirs, **close)
    np.testing.assert_allclose(y.entries([[0], [5]], [1, 2]), x.entries([[0], [5]], [1, 2]), **close)
    assert y.norm() == pytest.approx(x.norm(), rel=rtol)
    assert y.distance(some(2, dtype).moved(backend)) == pytest.approx(x.distance(some(2, dtype)), rel=10 * rtol)
    assert y.inner(there_op) == pytest.approx(x.inner(here_op), rel=10 * rtol)
    np.testing.assert_allclose(y.moved(None).to_dense(), x.to_dense(), **close)


def test_cells_outside_the_table_are_refused(backend: Backend) -> None:
    """A kernel would read the memory of something else."""
    x = some().moved(backend)
    for row, col, message in (
        (90, 0, r"rows must lie in 0\.\.89, got 90 to 90"),
        (0, -1, r"cols must lie in 0\.\.69, got -1 to -1"),
        (0.5, 0, "rows must hold integers, got dtype float64"),
    ):
        with pytest.raises(ValueError, match=message):
            x.entries([row], [col])


def test_the_cells_of_a_table_are_moved_once(backend: Backend) -> None:
    known = data()
    first, second = backend.observations(known), backend.observations(known.astype(np.float32))
    assert first.rows is second.rows
    assert first.by_col is second.by_col
    assert second.values.dtype == np.float32
    other = data(0.2)
    last = backend.observations(other)
    assert last.rows is not first.rows
    order: Any = last.by_col.order
    kept = weakref.ref(order.tensor)
    del other, last, order
    gc.collect()
    assert kept() is None  # and no memory is held for a table that is gone


def test_cells_are_moved_again_if_any_of_them_differ(backend: Backend) -> None:
    """Observations that share their rows may have other columns, or another shape."""
    known = data()
    first = backend.observations(known)
    columns, n = replace(known, cols=known.cols[::-1].copy()), SHAPE[1] + 2
    np.testing.assert_array_equal(to_host(backend.observations(columns).cols), columns.cols)
    assert backend.observations(replace(known, shape=(SHAPE[0], n))).by_col.indptr.shape == (n + 1,)
    assert backend.observations(known).by_col.indptr.shape == first.by_col.indptr.shape


# ---------------------------------------------------------------- maps
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-11), (np.float32, 1e-5)])
def test_tiles_are_numpys(backend: Backend, sampled: bool, dtype: Any, rtol: float) -> None:
    x = some(dtype=dtype)
    rtol = 1e-5 if sampled else rtol  # tiles of a sample are of float32
    penalty = si.L1("1:5", xi=0.1)
    rest, cost = penalty.compiled_remainder(1.0), penalty.compiled_envelope(1.0)
    sample = Sample(2, 2, (5,)) if sampled else None
    rng = np.random.default_rng(1)
    B, C = rng.standard_normal((SHAPE[1], 3)).astype(dtype), rng.standard_normal((SHAPE[0], 2)).astype(dtype)
    here, there = mapped(x, rest, sample=sample), mapped(x.moved(backend), rest, sample=sample)
    forward, backward = there.both(backend.put(B, COLUMNS), backend.put(C, ROWS))
    for ours, theirs in [
        (there.matmat(backend.put(B, COLUMNS)), here.matmat(B)),
        (there.rmatmat(backend.put(C, ROWS)), here.rmatmat(C)),
        (forward, here.matmat(B)),
        (backward, here.rmatmat(C)),
    ]:
        np.testing.assert_allclose(to_host(ours), theirs, rtol=rtol, atol=rtol)
    assert there.dtype == dtype
    assert there.shape == SHAPE
    assert cell_sum(x.moved(backend), cost) == pytest.approx(cell_sum(x, cost), rel=rtol)
    assert there.error == here.error == 0
    np.testing.assert_allclose(
        sampled_sum(x.moved(backend), cost, sample), sampled_sum(x, cost, sample), rtol=10 * rtol, atol=1e-9
    )


def test_a_map_that_has_no_name_runs_on_arrays_of_a_place(backend: Backend) -> None:
    x = some()

    def square(cells: Any) -> None:
        cells *= cells

    assert cell_sum(x.moved(backend), square) == pytest.approx(x.norm() ** 2, rel=1e-12)


def test_partial_svd(backend: Backend) -> None:
    x = some(6)
    known = data()
    here = partial_svd(x + Sparse(known), 5, tol=1e-9)
    there_known = backend.observations(known)
    there = partial_svd(x.moved(backend) + sparse(there_known, there_known.values), 5, tol=1e-9)
    np.testing.assert_allclose(there.x.s, here.x.s, rtol=1e-10)
    np.testing.assert_allclose(there.x.moved(None).to_dense(), here.x.to_dense(), atol=1e-7)
    assert there.passes == here.passes


# ---------------------------------------------------------------- solvers
def compare(problem: si.Problem, solver: Any, backend_name: str, rel: float, **options: Any) -> si.solvers.Result:
    backend: Any = backend_named(backend_name)
    here = si.solve(problem, solver, tol=0, **options)
    backend.mixed = False  # low precision, where a step allows it, is tested elsewhere
    there = si.solve(problem, solver, tol=0, backend=backend_name, **options)
    backend.mixed = True
    assert there.n_iter == here.n_iter
    np.testing.assert_allclose(there.history["objective"], here.history["objective"], rtol=rel)
    np.testing.assert_allclose(there.history["rank"], here.history["rank"])
    assert isinstance(there.x.U, np.ndarray)
    assert isinstance(there.x.V, np.ndarray)
    assert there.x.dtype == here.x.dtype
    assert there.x.distance(here.x) <= 100 * rel * here.x.norm()
    assert there.settings["backend"] == backend_named(backend_name).name  # type: ignore[union-attr]
    return there


@pytest.mark.parametrize("solver", PROXIMAL)
def test_every_proximal_solver_computes_the_same(backend_name: str, solver: str) -> None:
    problem = si.Problem(data(), si.Nuclear(2.0), DISCRETE["l1"])
    compare(problem, solver, backend_name, 1e-10, max_iter=12)


@pytest.mark.parametrize("solver", [name for name in PROXIMAL if SOLVERS[name].single])
def test_in_single_precision(backend_name: str, solver: str) -> None:
    problem = si.Problem(data(), si.Nuclear(2.0), DISCRETE["l1"])
    compare(problem, solver, backend_name, 1e-5, max_iter=8, dtype="float32")


def test_all_digits_of_float32_whatever_torch_was_asked_for(
    backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs ask torch for fast products of few digits; the objective and the certificate have all digits still."""
    backend: Any = backend_named(backend_name)
    seen = []
    product = backend.times
    monkeypatch.setattr(backend, "times", lambda *given: (seen.append(_digits()), product(*given))[1])
    torch.set_float32_matmul_precision("medium")
    before = _digits()
    try:
        si.solve(
            si.Problem(data(), si.Nuclear(2.0), DISCRETE["l1"]),
            "apg",
            max_iter=2,
            dtype="float32",
            backend=backend_name,
        )
        assert _digits() == before
    finally:
        torch.set_float32_matmul_precision("highest")
    assert {one[0] for one in seen} == {"highest"}


def _digits() -> tuple[str, bool]:
    return torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32


def test_the_same_bits_at_every_run(backend_name: str) -> None:
    """With lanes that are longer than what one program adds up."""
    known = si.datasets.low_rank_alphabet((1500, 40), rank=3, alphabet="1:5", observed=0.6).observations
    problem = si.Problem(known, si.Nuclear(5.0), DISCRETE["l1"])
    options: dict[str, Any] = {"max_iter": 6, "tol": 0, "dtype": "float32", "backend": backend_name}
    first, *others = (si.solve(problem, "ais-impute", **options) for _ in range(4))
    for other in others:
        np.testing.assert_array_equal(first.x.U, other.x.U)
        assert first.objective == other.objective


@pytest.mark.parametrize("discrete", [*DISCRETE, "none", "columns"])
@pytest.mark.parametrize("spectral", [si.Nuclear(2.0), si.LogSum(40.0, 20.0)], ids=["nuclear", "lsp"])
def test_every_penalty(backend_name: str, discrete: str, spectral: Any) -> None:
    half = SHAPE[1] // 2
    by_column = si.ByColumn([DISCRETE["l1"], DISCRETE["l0"], None], [0] * half + [1] * (half - 5) + [2] * 5)
    penalty = {"none": None, "columns": by_column}.get(discrete, DISCRETE.get(discrete))
    problem = si.Problem(data(), spectral, penalty)
    compare(problem, "niapg", backend_name, 1e-10, max_iter=10)
    compare(problem, "niapg", backend_name, 1e-5, max_iter=5, dtype="float32")


def test_offsets_warm_start_and_limits(backend_name: str) -> None:
    known = data()
    offsets = LowRank.constant(SHAPE, 3.0)
    problem = si.Problem(known, si.Nuclear(2.0), DISCRETE["l1"], offsets)
    compare(problem, "apg", backend_name, 1e-10, max_iter=10, x0=some(2, scale=0.1), max_rank=4)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1)])
@pytest.mark.parametrize("discrete", ["l1", None])
def test_one_row_or_column(backend_name: str, shape: tuple[int, int], discrete: str | None) -> None:
    """Their arrays may run backwards in memory, which torch does not take."""
    table = np.resize([1.0, 5.0, 4.0, 1.0, 2.0, np.nan], shape)
    problem = si.Problem(si.Observations.from_dense(table), si.Nuclear(0.1), DISCRETE.get(discrete or ""))
    compare(problem, "apg", backend_name, 1e-10, max_iter=4)


def test_offsets_of_another_precision(backend_name: str) -> None:
    """Such as the X of a fit in float32."""
    for wide, dtype in ((np.float32, "float64"), (np.float64, "float32")):
        problem = si.Problem(data(), si.Nuclear(2.0), DISCRETE["l1"], LowRank.constant(SHAPE, 3.1, wide))
        compare(problem, "niapg", backend_name, 1e-10 if dtype == "float64" else 1e-5, max_iter=4, dtype=dtype)


def test_a_sampled_term(backend_name: str) -> None:
    known = si.datasets.low_rank_alphabet((600, 500), rank=3, alphabet="1:5", observed=0.05).observations
    problem = si.Problem(known, si.Nuclear(8.0), si.L1("1:5", xi=0.02))
    result = compare(problem, "apg", backend_name, 1e-5, max_iter=12, alphabet_term="sampled", max_rank=6)
    assert result.history["share"].min() < 1


def test_the_status_says_where(backend_name: str) -> None:
    problem = si.Problem(data(), si.Nuclear(2.0))
    result = si.solve(problem, "apg", max_iter=3, backend=backend_name)
    assert result.status.message.endswith(f"Computed with {backend_named(backend_name).name}.")  # type: ignore[union-attr]


def test_a_callback_gets_numbers_of_numpy(backend_name: str) -> None:
    known = data()
    seen = []

    def score(info: Any) -> dict[str, float]:
        estimate = info.x.entries(known.rows, known.cols)
        seen.append(estimate)
        return {"nmse": si.metrics.nmse(known.values, estimate)}

    problem = si.Problem(known, si.Nuclear(2.0))
    here = si.solve(problem, "apg", max_iter=5, callback=score, tol=0)
    there = si.solve(problem, "apg", max_iter=5, callback=score, tol=0, backend=backend_name)
    assert all(isinstance(one, np.ndarray) for one in seen)
    np.testing.assert_allclose(there.history["nmse"], here.history["nmse"], rtol=1e-9)


@pytest.mark.parametrize("sampled", [False, True])
def test_a_checkpoint_goes_on_to_the_same_bits(backend_name: str, sampled: bool, tmp_path: Any) -> None:
    known = si.datasets.low_rank_alphabet((300, 250), rank=3, alphabet="1:5", observed=0.1).observations
    problem = si.Problem(known, si.Nuclear(4.0), si.L1("1:5", xi=0.02))
    term: Any = "sampled" if sampled else "tiled"
    options: dict[str, Any] = {"tol": 0, "backend": backend_name, "alphabet_term": term}
    whole = si.solve(problem, "apg", max_iter=12, **options)
    path = si.solvers.Checkpoint(tmp_path / "run.safetensors", every_seconds=0)
    si.solve(problem, "apg", max_iter=5, checkpoint=path, **options)
    resumed = si.solve(problem, "apg", max_iter=12, checkpoint=path, **options)
    np.testing.assert_array_equal(resumed.history["objective"], whole.history["objective"])
    np.testing.assert_array_equal(resumed.x.U, whole.x.U)
    with pytest.raises(ValueError, match="setting backend differs"):
        si.solve(problem, "apg", max_iter=12, checkpoint=path, tol=0, alphabet_term=term)


def test_an_iterate_kept_by_a_callback_is_a_start(backend_name: str, tmp_path: Any) -> None:
    """Here as there, with a checkpoint too; only a file takes numpy's arrays alone."""
    kept: list[LowRank] = []
    problem = si.Problem(data(), si.Nuclear(2.0))
    si.solve(problem, "apg", max_iter=3, tol=0, callback=lambda info: kept.append(info.x), backend=backend_name)
    options: dict[str, Any] = {"max_iter": 2, "tol": 0, "backend": backend_name, "checkpoint": tmp_path / "run"}
    first = si.solve(problem, "apg", x0=kept[-1], **options)
    again = si.solve(problem, "apg", x0=kept[-1].moved(None), **options)  # the same start: the run is done
    np.testing.assert_array_equal(first.x.U, again.x.U)
    with pytest.raises(TypeError, match=r"moved\(None\)"):
        pickle.dumps(kept[-1])
    assert copy.deepcopy(kept[-1]).distance(kept[-1]) == pytest.approx(0, abs=1e-9)


def test_an_interruption_returns_numpys_arrays(backend_name: str) -> None:
    def stop(info: Any) -> None:
        if info.iteration == 3:
            raise KeyboardInterrupt

    result = si.solve(si.Problem(data(), si.Nuclear(2.0)), "apg", callback=stop, backend=backend_name)
    assert result.status.code == "interrupted"
    assert isinstance(result.x.U, np.ndarray)


def test_an_estimator(backend_name: str) -> None:
    table = np.full(SHAPE, np.nan)
    known = data()
    table[known.rows, known.cols] = known.values
    options: dict[str, Any] = {"alphabet": "1:5", "lam": 2.0, "xi": 0.02, "tol": 1e-2}
    here = proximal(**options).fit_transform(table)
    there = proximal(**options, backend=backend_name).fit_transform(table)
    np.testing.assert_array_equal(there, here)
    tuned = proximal("1:5", tol=1e-2, backend=backend_name).fit(table)
    assert tuned.lam_ > 0


# ---------------------------------------------------------------- what is not there
def test_an_unknown_backend_is_refused() -> None:
    problem = si.Problem(data(), si.Nuclear(2.0))
    with pytest.raises(ValueError, match=r"backend must be one of 'cpu', 'torch', .*got 'jax'"):
        si.solve(problem, backend="jax")
    with pytest.raises(ValueError, match=r"torch knows no device 'gpu'"):
        si.solve(problem, backend="torch:gpu")
    with pytest.raises(ValueError, match=r"not supported: use .torch:cpu. or .torch:cuda."):
        si.solve(problem, backend="torch:meta")
    with pytest.raises(ValueError, match=r"backend must be one of .*got None"):
        si.solve(problem, backend=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="backend must be one of"):
        si.SnapImputer(alphabet="1:5", backend="jax", method="proximal").fit([[1, 2], [3, 4]])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_an_error_and_not_a_slower_answer() -> None:
    problem = si.Problem(data(), si.Nuclear(2.0))
    with pytest.raises(
        RuntimeError, match=r'needs a GPU, and torch sees none.* or use backend="torch:cpu"'
    ) as caught:
        si.solve(problem, backend="torch:cuda")
    advice = "see whether nvidia-smi lists one" if torch.version.cuda else 'pip install --force-reinstall "torch'
    assert advice in str(caught.value)
    assert si.solve(problem, "apg", backend="torch", max_iter=2).settings["backend"] == "torch on cpu"


def test_without_torch_the_message_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "snapimpute.backends.torch.backend", raising=False)
    monkeypatch.delitem(sys.modules, "snapimpute.backends.torch._arrays", raising=False)
    monkeypatch.delitem(sys.modules, "snapimpute.backends.torch._maps", raising=False)
    with pytest.raises(ImportError, match=r'needs torch, which is not installed: pip install "snapimpute\[gpu\]"'):
        backend_named("torch")


@pytest.fixture
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were one of an old kind."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "old card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))


@pytest.mark.usefixtures("pretended_gpu")
@pytest.mark.parametrize("lost", ["triton", "triton.tools.tensor_descriptor"])
def test_a_gpu_without_triton_is_an_error(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None at all, or one from before descriptors of tensors."""
    from snapimpute.backends.torch.backend import torch_backend

    for name in [name for name in sys.modules if name.startswith("triton.tools")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, lost, None)
    for device in ("cuda", None):
        with pytest.raises(ImportError, match=r'needs triton 3.4 or later.*: pip install "triton>=3.4"'):
            torch_backend.__wrapped__(device)


@pytest.mark.usefixtures("pretended_gpu")
def test_an_old_gpu_is_told_of_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a table is read, and by `doctor`."""
    from snapimpute.backends.torch import backend as torch_backend

    monkeypatch.setattr(torch_backend, "_check_triton", lambda device: None)
    for device in ("cuda", None):
        with pytest.raises(RuntimeError, match=r"old card\) is not supported: .* capability 8.0 or later"):
            torch_backend.torch_backend.__wrapped__(device)


@pytest.mark.parametrize("where", ["sparse", "observations"])
def test_memory_that_does_not_suffice_is_an_error_in_words(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the way, and as the data are moved."""
    from snapimpute.backends.torch.backend import TorchBackend

    def full(*given: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(TorchBackend, where, full)
    monkeypatch.setattr(TorchBackend, "free_memory", lambda backend: 3 << 30)
    problem = si.Problem(si.datasets.low_rank_alphabet((20, 15), 2).observations, si.Nuclear(2.0))
    with pytest.raises(
        MemoryError, match=r"has too little memory, of which 3.0 GiB are free\. What helps: a smaller max_"
    ):
        si.solve(problem, "apg", backend="torch:cpu")


@pytest.mark.usefixtures("pretended_gpu")
def test_a_gpu_that_kernels_are_not_for_is_an_error() -> None:
    from snapimpute.backends.torch.backend import TorchBackend

    backend = TorchBackend(torch.device("cuda", 0))
    for name in ("fused", "gathers"):
        with pytest.raises(
            RuntimeError, match=r"old card\) is not supported: .* capability 8.0 or later; use backend="
        ):
            getattr(backend, name)


@pytest.mark.usefixtures("pretended_gpu")
def test_a_gpu_finds_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of kernels, which are imported by name, are there under these names."""
    pytest.importorskip("triton", reason="triton is not installed")
    from snapimpute.backends.torch.backend import TorchBackend

    monkeypatch.setattr(TorchBackend, "check", lambda backend: None)
    backend = TorchBackend(torch.device("cuda", 0))
    assert callable(backend.fused.product)
    assert callable(backend.gathers.entries)


def test_a_solver_that_needs_numpy_is_refused(backend_name: str) -> None:
    with pytest.raises(ValueError, match=r"ALS computes with numpy only: use backend=.cpu., or a solver .*\(.*apg"):
        si.solve(si.Problem(data(), si.Nuclear(2.0)), "als", backend=backend_name)


def test_another_fit_than_least_squares_is_refused(backend_name: str) -> None:
    problem = si.Problem(data(), si.Nuclear(2.0), loss=Thresholds(np.array([1.5, 2.5, 3.5, 4.5])))
    with pytest.raises(ValueError, match=r"knows the least-squares fit only, not Thresholds.*use .cpu."):
        si.solve(problem, "apg", backend=backend_name)


# ---------------------------------------------------------------- figures


def test_the_pages_say_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/gpu.md and docs/results/gpu.md have the numbers of benchmarks/results/gpu.json."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page: Any = importlib.import_module("gpu_page")
    found = json.loads((ROOT / "benchmarks" / "results" / "gpu.json").read_text())
    assert page.whole(ROOT / "benchmarks" / "results") == (ROOT / "docs" / "results" / "gpu.md").read_text()
    said = (ROOT / "docs" / "gpu.md").read_text()
    rows = [row for row in found["pass"]["rows"] if row["map"] == "L1" and row["columns"] == "64 + 64"]
    speeds = " | ".join(f"{row['TFLOP/s']:.0f}" for row in rows)
    ratios = " | ".join(f"{row['ratio']:.2g}" for row in rows)
    assert f"| one pass, rank 64, 64 columns: TFLOP/s | {speeds} |" in said
    assert f"| beside a plain product of that type | {ratios} |" in said
    first, again, single, planned = (row["seconds"] for row in found["fit"]["rows"])
    assert f"take {again:.1f} s and {found['fit']['rows'][1]['peak GB']:.2f} GB, {first:.1f} s the first time" in said
    assert f"than float32 ({single:.1f} s" in said
    assert f"expects {round(planned, -1):,.0f} s of two CPU cores" in said


def test_parts_are_kept_with_where_they_were_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is run alone, fails or is stopped leaves the others as they were."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    parts: Any = importlib.import_module("gpu_parts")
    page: Any = importlib.import_module("gpu_page")

    def good() -> Any:
        yield [{"ms": 1.0}]
        yield [{"ms": 1.0}, {"ms": 2.0}]

    def bad() -> Any:
        yield [{"ms": 3.0}]
        raise ValueError("no more")

    path = tmp_path / "gpu.json"
    about = {"command": "python", "device": "X", "memory GB": 8, "torch": "2", "triton": "3"}
    every = {"check": good, "fit": bad, "sums": good}
    assert parts.measure(every, list(every), path, {**about, "date": "one day"}) == ["fit"]
    assert parts.measure({"fit": good}, ["fit"], path, {**about, "date": "another"}) == []
    assert parts.measure({"sums": bad}, ["sums"], path, {**about, "date": "a third"}) == ["sums"]
    found = json.loads(path.read_text())
    assert {name: (part["date"], len(part["rows"])) for name, part in found.items()} == {
        "check": ("one day", 2),
        "sums": ("one day", 2),
        "fit": ("another", 2),
        "sums (unfinished)": ("a third", 1),
    }
    text = page.text(found)
    assert text.count("triton 3, on one day.") == 2
    assert text.count("triton 3, on another.") == 1
    assert "a third" not in text
