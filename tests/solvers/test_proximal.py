"""SoftImpute and APG: descent, rates, certificates, limits, determinism and memory."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import tracemalloc
from functools import cache
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.linalg import svd
from snapimpute.solvers import APG, Result, SoftImpute
from snapimpute.solvers.base import Context
from tests.helpers import RATING_PENALTIES, biases
from tests.helpers import STRONG_SPECTRAL as SPECTRAL_PENALTIES
from tests.helpers import ratings as made
from tests.helpers import same_bits as same
from tests.solvers.dense import first_order_gap

SOLVERS = [SoftImpute(), APG(), APG(beta="fista")]
DISCRETE_PENALTIES = [*RATING_PENALTIES, si.L1("1:5", xi=0.4), si.L1([1, 1.5, 3, 5], xi=0.1)]
PATHS = ["whole", "krylov"]


pytestmark = [pytest.mark.usefixtures("one_blas_thread"), pytest.mark.slow]


@pytest.fixture
def take_path(monkeypatch):
    """Let the partial SVD take the whole space, or never."""
    return lambda path: monkeypatch.setattr(svd, "WHOLE_CELLS", 0 if path == "krylov" else 1 << 24)


def ratings(shape: tuple[int, int] = (30, 24), observed: float = 0.4, random_state: int = 0) -> si.Observations:
    return made(shape, observed=observed, seed=random_state)


def same_bits(a: Result, b: Result) -> bool:
    return same((a.x, a.history), (b.x, b.history))


def with_cells(matrix: Any) -> si.Observations:
    return si.Observations.from_dense(np.asarray(matrix, dtype=float))


# ---------------------------------------------------------------- descent


TABLES = [
    ("whole", (30, 24), False),
    ("krylov", (30, 24), True),
    ("whole", (12, 50), True),
    ("krylov", (12, 50), False),
]


@pytest.mark.parametrize(
    ("spectral", "discrete", "path", "shape", "offsets"),
    [
        (spectral, discrete, *TABLES[(i + j) % 4])
        for i, spectral in enumerate(SPECTRAL_PENALTIES)
        for j, discrete in enumerate(DISCRETE_PENALTIES)
    ],
    ids=repr,
)
def test_objective_falls_in_every_step(spectral, discrete, offsets, shape, path, take_path):
    """(E) never rises under plain proximal steps: any penalties, any shape, whole or Krylov, default accuracy."""
    take_path(path)
    problem = si.Problem(ratings(shape), spectral, discrete, biases(shape) if offsets else None)
    objective = si.solve(problem, SoftImpute(), max_iter=20, tol=0).history["objective"]
    start = problem.objective(si.LowRank.zeros(shape))
    steps = np.diff([start, *objective])
    assert steps.max() <= 1e-10 * abs(objective[-1])
    assert steps.min() < 0


@pytest.mark.parametrize("path", PATHS)
def test_objective_falls_until_nothing_changes(path, take_path):
    """(E) does not rise either when a run goes on far beyond convergence, where only rounding is left."""
    take_path(path)
    problem = si.Problem(ratings(), si.LogSum(lam=30.0, theta=2.0), si.L1("1:5", xi=0.05))
    result = si.solve(problem, SoftImpute(), max_iter=250, tol=0)
    assert np.diff(result.history["objective"]).max() <= 1e-10 * result.objective
    assert result.history["certificate"][-1] < 1e-7


# ---------------------------------------------------------------- rates
@cache
def optimum(problem: si.Problem) -> tuple[float, np.ndarray]:
    """(E*, X*) of a convex problem, from a very long run."""
    result = si.solve(problem, APG(), max_iter=20_000, tol=1e-12, evaluate_every=20_000)
    assert result.history["certificate"][-1] < 1e-8
    return result.objective, result.x.to_dense()


RATE_PROBLEMS = {
    "plain": si.Problem(ratings((16, 12)), si.Nuclear(1.0)),
    "discrete": si.Problem(ratings((16, 12)), si.Nuclear(1.0), si.L1("1:5", xi=0.1)),
    "offsets": si.Problem(ratings((16, 12)), si.Nuclear(1.0), si.L1("1:5", xi=0.02), biases((16, 12))),
}
STARTS = {
    "zero": si.LowRank.zeros((16, 12)),
    "random": si.LowRank.from_dense(3 * np.random.default_rng(0).normal(size=(16, 12))),
}


def distances_to_optimum(problem: si.Problem, solver: Any, start: si.LowRank) -> tuple[np.ndarray, np.ndarray, float]:
    """t, E_t − E*, ‖X_0 − X*‖²."""
    least, best = optimum(problem)
    history = si.solve(problem, solver, x0=start, max_iter=100, tol=0).history
    return history["iteration"], history["objective"] - least, float(np.sum((start.to_dense() - best) ** 2))


@pytest.mark.parametrize(
    ("solver", "factor"),
    [
        (APG(beta="paper"), lambda t: 6 / (t + 2) ** 2),  # β_t = (t − 1)/(t + 2)
        (APG(beta="fista"), lambda t: 2 / (t + 1) ** 2),
        (SoftImpute(), lambda t: 1 / (2 * t)),
    ],
    ids=["paper", "fista", "plain"],
)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", RATE_PROBLEMS)
def test_rates_are_those_proved(name, start, solver, factor):
    """E_t − E* is at most its factor times ‖X_0 − X*‖² at every t, from 0 and from anywhere."""
    t, gap, square = distances_to_optimum(RATE_PROBLEMS[name], solver, STARTS[start])
    assert (gap <= square * factor(t)).all()


def test_fista_sequence():
    """β_t is (t_{k−1} − 1)/t_k of Beck and Teboulle with t_1 = 1: 0, 0, 0.282, 0.434."""
    problem, solver = RATE_PROBLEMS["plain"], APG(beta="fista")
    context = Context(max_rank=None, seed=0)
    state, betas = solver.init(problem, STARTS["zero"], context), []
    for _ in range(4):
        betas.append(solver.momentum(state)[0])
        state = solver.step(problem, state, context)
    assert betas == pytest.approx([0, 0, 0.2817, 0.4340], abs=1e-4)


# ---------------------------------------------------------------- certificates


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("solver", [SoftImpute(), APG()], ids=repr)
@pytest.mark.parametrize(
    ("discrete", "offsets"), [(None, False), (None, True), (si.L1("1:5", xi=0.05), True), (si.Ridge(3.0, 0.1), False)]
)
def test_certificate_bounds_the_distance_from_stationarity(discrete, offsets, solver, path, take_path):
    """At every iterate 0 lies within the certificate of ∂E."""
    take_path(path)
    problem = si.Problem(ratings(), si.Nuclear(6.0), discrete, biases((30, 24)) if offsets else None)
    distances: list[float] = []
    result = si.solve(
        problem,
        solver,
        max_iter=30,
        tol=0,
        callback=lambda info: distances.append(first_order_gap(problem, info.x)),
    )
    certificate = result.history["certificate"]
    assert (np.array(distances) <= certificate + 1e-9).all()
    assert min(distances) < 0.1 * certificate[0], "the run must get somewhere"


@pytest.mark.parametrize("discrete", [None, si.L1("1:5", xi=0.05)], ids=repr)
def test_certificate_counts_the_error_of_the_prox(discrete, take_path):
    """The certificate holds where the prox is solved roughly, and ‖X − Y‖ alone would promise too much."""
    take_path("krylov")
    problem = si.Problem(ratings((150, 120), observed=0.9, random_state=2), si.Nuclear(6.0), discrete)
    distances: list[float] = []
    result = si.solve(
        problem,
        SoftImpute(accuracy=1.0),
        max_iter=18,
        tol=0,
        callback=lambda info: distances.append(first_order_gap(problem, info.x)),
    )
    assert (np.array(distances) <= result.history["certificate"]).all()


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("path", PATHS)
def test_certificate_is_small_at_convergence(path, solver, take_path):
    """A run to tol = 1e-9 ends with a certificate, and a true distance from stationarity, of that order."""
    take_path(path)
    problem = si.Problem(ratings(), si.Nuclear(6.0), si.L1("1:5", xi=0.05))
    result = si.solve(problem, solver, max_iter=5000, tol=1e-9, evaluate_every=5000)
    assert result.status.converged
    size = np.linalg.norm(result.x.s)
    assert result.history["certificate"][-1] < 1e-8 * size
    assert first_order_gap(problem, result.x) < 1e-8 * size


# ---------------------------------------------------------------- limits with known answers
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("discrete", [si.L1("1:5", 0), si.ComposedL1("1:5", 0), si.Ridge(3.0, 0)], ids=repr)
def test_zero_strength_is_no_discrete_penalty(discrete, solver):
    """ξ = 0 gives the bits of a run without a discrete penalty."""
    plain = si.solve(si.Problem(ratings(), si.Nuclear(2.0)), solver, max_iter=20, tol=0)
    zero = si.solve(si.Problem(ratings(), si.Nuclear(2.0), discrete), solver, max_iter=20, tol=0)
    assert same_bits(plain, zero)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_strong_penalty_gives_rank_zero(solver, path, take_path):
    """The solution is 0 from λ = σ₁(P_Ω(O)) on, is found in one step, and is not 0 just below."""
    take_path(path)
    observations = ratings()
    largest = np.linalg.norm(observations.to_sparse().toarray(), 2)
    at = si.solve(si.Problem(observations, si.Nuclear(largest * (1 + 1e-9))), solver)
    assert (at.x.rank, at.n_iter, at.status.code) == (0, 1, "converged")
    assert at.x.to_dense().shape == observations.shape
    assert si.solve(si.Problem(observations, si.Nuclear(largest * (1 - 1e-3))), solver).x.rank == 1


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("path", PATHS)
def test_no_spectral_penalty_imputes_once(path, solver, take_path):
    """With λ = 0 and no discreteness the first step fills in the observed cells, and that is a solution."""
    take_path(path)
    observations = ratings()
    result = si.solve(si.Problem(observations, si.Nuclear(0.0)), solver)
    assert result.x.to_dense() == pytest.approx(observations.to_sparse().toarray(), abs=1e-10)
    assert result.objective == pytest.approx(0, abs=1e-18)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("spectral", SPECTRAL_PENALTIES, ids=repr)
def test_fully_observed_matrix_is_thresholded_once(spectral, solver):
    """Where every cell is known the answer is the prox of the singular values, whatever the discrete penalty."""
    data = si.datasets.low_rank_alphabet((15, 11), 3).to_dense()
    result = si.solve(si.Problem(with_cells(data), spectral, si.L1("1:5", xi=0.3)), solver)
    U, s, Vt = np.linalg.svd(data, full_matrices=False)
    assert result.x.to_dense() == pytest.approx((U * spectral.prox(s)) @ Vt, abs=1e-9)
    assert result.n_iter == 2, "the second step changes nothing, and so ends the run"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_values_that_are_free_are_kept_however_large_lam_is(solver, path, take_path):
    """The truncated nuclear norm never cuts the r leading values: of known data the best rank-r matrix is left."""
    take_path(path)
    data = si.datasets.low_rank_alphabet((40, 30), 5).to_dense()
    U, s, Vt = np.linalg.svd(data, full_matrices=False)
    penalty = si.TruncatedNuclear(lam=10 * float(s[0]), r=3)
    result = si.solve(si.Problem(with_cells(data), penalty), solver)
    assert result.x.to_dense() == pytest.approx((U[:, :3] * s[:3]) @ Vt[:3], abs=1e-6)
    partly = si.solve(si.Problem(ratings(), penalty), solver, max_iter=8, tol=0)
    assert (partly.history["rank"] == 3).all()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("solver", [SoftImpute(), APG()], ids=repr)
@pytest.mark.parametrize("discrete", [None, si.L1("1:5", xi=0.05)], ids=repr)
def test_warm_start_at_the_solution_ends_at_once(discrete, solver, path, take_path):
    """From the solution, one step is enough and leads nowhere else."""
    take_path(path)
    problem = si.Problem(ratings(), si.Nuclear(6.0), discrete)
    solution = si.solve(problem, solver, max_iter=3000, tol=1e-8, evaluate_every=3000)
    again = si.solve(problem, solver, x0=solution.x)
    assert (again.n_iter, again.status.code) == (1, "converged")
    assert again.objective == pytest.approx(solution.objective, rel=1e-9)


# ---------------------------------------------------------------- odd shapes and data
NAN = np.nan
ODD = {
    "single row": [[1, 5, NAN, 3, NAN]],
    "single column": [[1], [NAN], [4]],
    "one cell": [[3]],
    "one observation": [[NAN, NAN, NAN], [NAN, 4, NAN]],
    "constant": [[3, 3, NAN], [3, NAN, 3], [NAN, 3, 3], [3, 3, 3]],
    "all zero": [[0, 0, NAN], [0, NAN, 0]],
    "empty row and column": [[1, 5, NAN], [NAN, NAN, NAN], [5, 1, NAN]],
    "two equal columns": [[1, 1, 1], [5, 5, NAN], [2, NAN, 2]],
}


@pytest.mark.parametrize(("path", "solver"), [("whole", SoftImpute()), ("krylov", APG())])
@pytest.mark.parametrize("discrete", [None, si.L1("0:5", xi=0.05)], ids=repr)
@pytest.mark.parametrize("name", ODD)
def test_odd_matrices_are_solved(name, discrete, solver, path, take_path):
    """Degenerate matrices converge to a stationary point like any other."""
    take_path(path)
    problem = si.Problem(with_cells(ODD[name]), si.Nuclear(0.5), discrete)
    result = si.solve(problem, solver, max_iter=3000, tol=1e-8, evaluate_every=3000)
    assert result.status.converged
    assert np.isfinite(result.x.to_dense()).all()
    assert first_order_gap(problem, result.x) < 1e-5


def test_single_row_by_hand():
    """For a single row without discreteness the observed part o shrinks to o(1 − λ/‖o‖), the rest is 0."""
    result = si.solve(si.Problem(with_cells([[3, NAN, 4]]), si.Nuclear(1.0)), APG(), tol=1e-12)
    assert result.x.to_dense() == pytest.approx(np.array([[2.4, 0, 3.2]]), abs=1e-9)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scale_does_not_matter(scale, solver):
    """Data, alphabet, λ and ξ times a constant give the solution times that constant, in as many iterations."""

    def run(c: float) -> Result:
        o = ratings()
        scaled = si.Observations.from_coo(o.rows, o.cols, c * o.values, o.shape)
        problem = si.Problem(scaled, si.Nuclear(4 * c), si.L1(c * np.arange(1, 6), xi=0.05 * c))
        return si.solve(problem, solver, tol=1e-7)

    one, other = run(1.0), run(scale)
    assert other.status.converged
    assert other.n_iter == one.n_iter
    assert other.x.to_dense() / scale == pytest.approx(one.x.to_dense(), rel=1e-9, abs=1e-9)
    assert other.objective / scale**2 == pytest.approx(one.objective, rel=1e-9)


# ---------------------------------------------------------------- determinism
@cache
def large_enough() -> si.Problem:
    """More rows and columns than a tile, more cells than a part of the sampled product."""
    return si.Problem(ratings((600, 700), observed=0.15), si.Nuclear(50.0), si.L1("1:5", xi=0.05))


def few_steps(problem: si.Problem, seed: int = 0) -> Result:
    return si.solve(problem, APG(), max_iter=3, tol=0, random_state=seed)


def test_number_of_threads_does_not_change_a_bit(monkeypatch, take_path):
    """Tiles are cut and summed the same way for 1, 2 and 3 threads."""
    take_path("krylov")
    runs = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", threads)
        runs.append(few_steps(large_enough()))
    assert same_bits(runs[0], runs[1])
    assert same_bits(runs[0], runs[2])


def test_runs_in_several_python_threads():
    """Runs started at once from several threads give what each gives alone."""
    problems = [
        si.Problem(ratings((300, 280), random_state=i), si.Nuclear(12.0), si.L1("1:5", 0.05)) for i in range(3)
    ]
    alone = [few_steps(p) for p in problems]
    together: list[Result | None] = [None] * 3

    def work(i: int) -> None:
        together[i] = few_steps(problems[i])

    workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for a, b in zip(alone, together, strict=True):
        assert b is not None, "a thread failed"
        assert b.objective == pytest.approx(a.objective, rel=1e-12)
        assert a.x.distance(b.x) < 1e-9 * np.linalg.norm(a.x.s)


def _send_objective(problem: si.Problem, to: Any) -> None:
    to.send(few_steps(problem).objective)
    to.close()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this platform cannot fork")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python warns of a fork while there are threads")
def test_run_in_a_forked_child(monkeypatch):
    """A child forked after the parent has used its threads starts its own, and finds the same solution."""
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", "2")
    problem = large_enough()
    expected = few_steps(problem).objective
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_send_objective, args=(problem, send))
    child.start()
    send.close()
    try:
        assert receive.poll(60), "the child gave no answer"
        assert receive.recv() == pytest.approx(expected, rel=1e-12)
    finally:
        child.kill()
        child.join()


# ---------------------------------------------------------------- memory
def test_nothing_of_the_size_of_the_matrix_is_stored():
    """A discrete fit of 3000×4000 cells stays far below the 96 MB of one such array."""
    observations = si.datasets.low_rank_alphabet((3000, 4000), 3, kind="blocks", observed=0.02).observations
    problem = si.Problem(observations, si.Nuclear(75.0), si.L1("1:5", xi=0.02))
    few_steps(si.Problem(ratings(), si.Nuclear(4.0), si.L1("1:5", xi=0.02)))  # what is compiled is not counted
    tracemalloc.start()
    try:
        result = si.solve(problem, APG(), max_iter=3, tol=0, evaluate_every=3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.x.rank > 0
    assert peak < 3000 * 4000 * 8 / 4
