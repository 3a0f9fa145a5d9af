"""APGL, FPC, FPCA and AIS-Impute: how λ comes down, what it brings, and what each of them adds."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.linalg import svd
from snapimpute.solvers import APG, APGL, FPC, FPCA, AISImpute, FaNCL, Info, Solver
from snapimpute.solvers.base import Context
from snapimpute.solvers.proximal.continuation import CLOSE, GROWTH, Continued
from snapimpute.solvers.proximal.gradient import MomentumState, Move, Point, ProximalSolver, fista
from tests.helpers import RATING_PENALTIES as DISCRETE_PENALTIES
from tests.helpers import biases, dense_offsets, ratings
from tests.solvers import dense

SHAPE = (40, 30)
LAM = 4.0
SOLVERS = [APGL(), FPC(), FPCA(), AISImpute(), FaNCL()]
CONTEXT = Context(max_rank=None, seed=0)


pytestmark = [pytest.mark.usefixtures("one_blas_thread"), pytest.mark.slow]


def problem(discrete: Any = None, *, lam: float = LAM, offsets: bool = False) -> si.Problem:
    return si.Problem(ratings(SHAPE), si.Nuclear(lam), discrete, biases(SHAPE) if offsets else None)


def imputed_zero(task: si.Problem) -> np.ndarray:
    """The matrix that a step of length 1 from X = 0 thresholds, densely."""
    return -dense.gradient(task, np.zeros(task.shape))


@cache
def optimum(discrete: Any, offsets: bool) -> float:
    """E* of the convex problem, by the plain recursion."""
    result = si.solve(problem(discrete, offsets=offsets), APG(), max_iter=5000, tol=1e-10, evaluate_every=5000)
    assert result.history["certificate"][-1] < 1e-6
    return result.objective


# ---------------------------------------------------------------- how λ comes down
def fall(solver: Solver[Any], first: float, last: float, settled: np.ndarray) -> list[float]:
    """λ of each iteration by the rule of the method; `settled` tells after which a stage of FPC ends."""
    lam, out = first, []
    for done in settled:
        if isinstance(solver, FPC):
            lam = solver.eta * lam if done else lam
        elif isinstance(solver, APGL):
            lam = max(solver.fall * lam, last)
        else:
            lam = last + solver.nu * (lam - last)
        lam = last if lam - last <= CLOSE * last else lam
        out.append(lam)
    return out


@pytest.mark.parametrize("discrete", DISCRETE_PENALTIES[:2], ids=repr)
@pytest.mark.parametrize(
    "solver",
    [*SOLVERS, APGL(fall=0.5), FPC(eta=0.6, stage_tol=0.05), AISImpute(nu=0.5), FaNCL(nu=0.7)],
    ids=repr,
)
def test_lam_falls_by_the_rule(solver, discrete, monkeypatch):
    """Where the rank may grow freely, λ follows the rule of the method from σ₁ of the imputed zero matrix on."""
    monkeypatch.setattr(Continued, "growth", lambda *args: None)
    iterates = [np.zeros(SHAPE)]
    task = problem(discrete)
    result = si.solve(task, solver, max_iter=250, tol=0, callback=lambda info: iterates.append(info.x.to_dense()))
    changes = np.array([np.linalg.norm(b - a) for a, b in pairwise(iterates)])
    sizes = np.array([np.linalg.norm(x) for x in iterates[1:]])
    relative = np.divide(changes, sizes, out=np.zeros_like(changes), where=sizes > 0)
    settled = np.concatenate([[True], relative[:-1] <= getattr(solver, "stage_tol", 0.0)])
    first = np.linalg.norm(imputed_zero(task), 2)
    lam = result.history["lam"]
    assert lam == pytest.approx(fall(solver, first, LAM, settled), rel=1e-9)
    assert lam[0] > 2 * LAM
    assert lam[-1] == LAM
    assert (np.diff(lam) <= 0).all()


@pytest.mark.parametrize(
    "solver", [APGL(fall=0.1), FPC(eta=0.01), FPCA(eta=0.01), AISImpute(nu=0.05), FaNCL(nu=0.05)], ids=repr
)
@pytest.mark.parametrize("discrete", DISCRETE_PENALTIES[:2], ids=repr)
def test_lam_waits_while_the_rank_grows(discrete, solver, monkeypatch):
    """However fast λ is to fall, the rank grows by a few in an iteration, and the optimum is the same."""
    task = problem(discrete, lam=2.0)
    held = si.solve(task, solver, max_iter=400, tol=1e-8)
    ranks = np.concatenate([[0], held.history["rank"]])
    assert (np.diff(ranks) <= np.maximum(GROWTH, ranks[:-1] // 10)).all()
    monkeypatch.setattr(Continued, "growth", lambda *args: None)
    free = si.solve(task, solver, max_iter=400, tol=1e-8)
    assert held.history["lam"][0] > free.history["lam"][0] >= 2.0
    assert held.history["rank"].max() < free.history["rank"].max()
    assert (held.history["lam"] >= 2.0).all()
    assert held.history["lam"][-1] == 2.0
    assert held.objective == pytest.approx(free.objective, rel=1e-8)


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("discrete", DISCRETE_PENALTIES[:2], ids=repr)
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_first_lam_is_the_least_at_which_zero_stays(solver, discrete, offsets):
    """At the first λ a step from 0 stays there, and at one a little smaller it does not."""
    task = problem(discrete, offsets=offsets)
    zero = si.LowRank.zeros(SHAPE)
    state = solver.init(task, zero, CONTEXT)
    first = state.spectral.lam
    assert first == pytest.approx(np.linalg.norm(imputed_zero(task), 2), rel=1e-9)
    for factor, rank in ((1 + 1e-9, 0), (0.99, 1)):
        move = solver.move(task, state.point, state, CONTEXT, spectral=si.Nuclear(factor * first))
        assert move.to.x.rank == rank


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_final_lam_above_the_first_one(solver):
    """A λ so large that the solution is 0 is not lowered: one step, and converged."""
    task = problem(lam=1.01 * float(np.linalg.norm(imputed_zero(problem()), 2)))
    result = si.solve(task, solver)
    assert (result.status.code, result.n_iter, result.x.rank) == ("converged", 1, 0)
    assert result.history["lam"].tolist() == [task.spectral.lam]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_no_continuation_from_a_warm_start(solver):
    """From any matrix but 0 the first λ is the final one, and the certificate is finite at once."""
    start = si.solve(problem(), APG(), max_iter=5, tol=0).x
    history = si.solve(problem(), solver, x0=start, max_iter=5, tol=0).history
    assert (history["lam"] == LAM).all()
    assert np.isfinite(history["certificate"]).all()


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_warm_start_at_the_solution_ends_at_once(solver):
    """From the solution the first step leads nowhere else."""
    solution = si.solve(problem(), APG(), max_iter=3000, tol=1e-9, evaluate_every=3000).x
    again = si.solve(problem(), solver, x0=solution)
    assert (again.status.code, again.n_iter) == ("converged", 1)


@pytest.mark.parametrize("discrete", DISCRETE_PENALTIES[:2], ids=repr)
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_tol_does_not_stop_before_the_final_lam(solver, discrete):
    """However large tol is, a run goes on until λ is final; the certificate is infinite until then, finite after."""
    result = si.solve(problem(discrete), solver, max_iter=300, tol=1e9)
    lam, certificate = result.history["lam"], result.history["certificate"]
    assert result.status.code == "converged"
    assert (lam[:-1] > LAM).all()
    assert lam[-1] == LAM
    assert result.n_iter > 2
    assert (certificate[:-1] == np.inf).all()
    assert np.isfinite(certificate[-1])


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_run_too_short_for_the_final_lam_says_so(solver):
    """A run that ends while λ is still larger does not pass for one that nearly converged."""
    result = si.solve(problem(), solver, max_iter=2, tol=1e9)
    assert (result.status.code, result.status.converged) == ("max_iter", False)
    assert "λ was still coming down" in result.status.message


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_objective_is_that_of_the_final_lam(solver):
    """The history reports (E) of the problem given, also in the iterations with a larger λ."""
    task, iterates = problem(DISCRETE_PENALTIES[1]), []
    history = si.solve(task, solver, max_iter=12, tol=0, callback=lambda info: iterates.append(info.x)).history
    assert history["objective"] == pytest.approx([task.objective(x) for x in iterates], rel=1e-12)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_early_ranks_are_small(solver):
    """The ranks of the first iterations are far below those of a cold start at the final λ."""
    task = problem(DISCRETE_PENALTIES[1], lam=2.0)
    cold = si.solve(task, APG(), max_iter=5, tol=0).history["rank"]
    warm = si.solve(task, solver, max_iter=5, tol=0).history["rank"]
    assert cold.min() >= 8
    assert (warm <= 0.4 * cold).all()


@pytest.mark.parametrize("discrete", [None, si.L1("1:3", xi=0.05)], ids=repr)
@pytest.mark.parametrize("solver", [APGL(), FPC(tau=1.5), FPCA(tau=1.5), AISImpute(), FaNCL()], ids=repr)
def test_no_penalty_at_all_is_reached(solver, discrete):
    """λ comes down to 0 in a finite number of steps too, even where all the data are 0."""
    for values in ([[1, 5, np.nan], [np.nan, 5, 1]], [[0, 0, np.nan], [0, np.nan, 0]]):
        task = si.Problem(si.Observations.from_dense(np.array(values)), si.Nuclear(0.0), discrete)
        result = si.solve(task, solver, max_iter=1500, tol=1e-8)
        assert result.status.converged
        assert result.history["lam"][-1] == 0
        assert task.terms(result.x).fit == pytest.approx(0, abs=1e-9)


# ---------------------------------------------------------------- solutions
@pytest.mark.parametrize(
    ("discrete", "offsets"), [*((one, False) for one in DISCRETE_PENALTIES), (DISCRETE_PENALTIES[1], True)], ids=repr
)
@pytest.mark.parametrize("solver", [*SOLVERS, FPC(tau=1.0), FPC(tau=0.5)], ids=repr)
def test_optimum_is_that_of_the_plain_recursion(solver, discrete, offsets):
    """With small tol all come to the optimum of the convex problem, and certify it."""
    task = problem(discrete, offsets=offsets)
    result = si.solve(task, solver, max_iter=2000, tol=1e-8, evaluate_every=2000)
    assert result.status.converged
    assert result.objective == pytest.approx(optimum(discrete, offsets), rel=1e-9)
    assert result.history["certificate"][-1] < 1e-6 * np.linalg.norm(task.targets)


@pytest.mark.parametrize("path", ["whole", "krylov"])
@pytest.mark.parametrize("discrete", DISCRETE_PENALTIES[:2], ids=repr)
@pytest.mark.parametrize("solver", [*SOLVERS[:-1], FPC(tau=0.5), FaNCL(nu=0.85)], ids=repr)
def test_certificate_bounds_the_distance_from_stationarity(solver, discrete, path, monkeypatch):
    """Once λ is final, 0 lies within the certificate of ∂E at every iterate, whatever the length of the step."""
    monkeypatch.setattr(svd, "WHOLE_CELLS", 0 if path == "krylov" else 1 << 24)
    task, distances = problem(discrete), []

    def watch(info: Info) -> None:
        distances.append(dense.first_order_gap(task, info.x))

    result = si.solve(task, solver, max_iter=150, tol=0, callback=watch, evaluate_every=150)
    certificate = result.history["certificate"]
    assert (np.array(distances) <= certificate + 1e-9).all()
    known = np.isfinite(certificate)
    assert known.sum() > 10
    assert certificate[-1] < 0.1 * certificate[known][0]


# ---------------------------------------------------------------- each of its own
@pytest.mark.parametrize("tau", [0.5, 1.0, 1.99])
def test_fpc_takes_steps_of_length_tau(tau):
    """X⁺ = prox_{τμ}(X − τ∇h(X)), densely, with τ below and above 1."""
    task, solver = problem(DISCRETE_PENALTIES[1]), FPC(tau=tau)
    state, X = solver.init(task, si.LowRank.zeros(SHAPE), CONTEXT), np.zeros(SHAPE)
    for _ in range(6):
        state = solver.step(task, state, CONTEXT)
        U, s, Vt = np.linalg.svd(X - tau * dense.gradient(task, X), full_matrices=False)
        X = (U * np.maximum(s - tau * state.spectral.lam, 0)) @ Vt
        assert state.x.to_dense() == pytest.approx(X, abs=1e-8)


def test_long_steps_of_fpc_are_fewer():
    """τ = 1.99 needs fewer iterations than τ = 1 for the same optimum."""
    long, short = (si.solve(problem(), FPC(tau=tau), max_iter=2000, tol=1e-7) for tau in (1.99, 1.0))
    assert long.n_iter < 0.85 * short.n_iter
    assert long.objective == pytest.approx(short.objective, rel=1e-9)


def starts_of_the_svd(solver: Solver[Any], monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray | None]:
    """What each step's SVD was started from."""
    original, starts = ProximalSolver.move, []

    def move(self: Any, task: si.Problem, y: Point, state: Any, context: Context, **how: Any) -> Move:
        starts.append(state.subspace)
        return original(self, task, y, state, context, **how)

    monkeypatch.setattr(ProximalSolver, "move", move)
    si.solve(problem(), solver, max_iter=6, tol=0)
    return starts


def test_fpca_never_starts_warm(monkeypatch):
    """Each SVD of FPCA starts from random vectors; those of FPC from the last ones."""
    assert all(start is None for start in starts_of_the_svd(FPCA(), monkeypatch))
    assert all(start is not None for start in starts_of_the_svd(FPC(), monkeypatch)[1:])


def test_ais_restarts_exactly_where_the_objective_rose(monkeypatch):
    """t is 1 after an iteration whose objective exceeds the one before, and follows FISTA after any other."""
    task, states = problem(), []
    original = AISImpute.step

    def step(self: AISImpute, task: si.Problem, state: MomentumState, context: Context) -> MomentumState:
        states.append(original(self, task, state, context))
        return states[-1]

    monkeypatch.setattr(AISImpute, "step", step)
    objective = si.solve(task, AISImpute(), max_iter=120, tol=0).history["objective"]
    rose = np.concatenate([[False], np.diff(objective) > 0])
    expected, t = [], 0.0
    for restart in rose:
        t = 1.0 if restart else 0.5 * (1 + np.sqrt(1 + 4 * t * t))
        expected.append(t)
    assert [state.t for state in states] == pytest.approx(expected, rel=1e-12)
    assert 0 < rose.sum() < 60, "it did restart, and not all the time"


def test_ais_does_not_evaluate_twice(monkeypatch):
    """The objective that a step needs for the restart is the one in the history: one evaluation an iteration."""
    original, count = si.Problem.terms, []

    def terms(self: si.Problem, *args: Any, **kwargs: Any) -> Any:
        count.append(1)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(si.Problem, "terms", terms)
    si.solve(problem(), AISImpute(), max_iter=9, tol=0)
    assert len(count) == 9


# ---------------------------------------------------------------- APGL
def smooth(task: si.Problem, X: np.ndarray) -> tuple[float, np.ndarray]:
    """h and ∇h of the smooth part of (E), densely."""
    B, unseen, G = dense_offsets(task), dense.hidden(task.observations), dense.gradient(task, X)
    value = 0.5 * float(np.sum(G[~unseen] ** 2))
    if task.discrete is not None:
        value += float(np.sum(task.discrete.envelope((X + B)[unseen])))
    return value, G


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("discrete", DISCRETE_PENALTIES, ids=repr)
def test_apgl_keeps_below_its_model(discrete, offsets, monkeypatch):
    """Every step kept has h(X) ≤ h(Y) + ⟨∇h(Y), X − Y⟩ + (L/2)‖X − Y‖² with its L ≤ 1, and many have L < 1."""
    original, tried = ProximalSolver.move, []

    def move(self: Any, task: si.Problem, y: Point, state: Any, context: Context, **how: Any) -> Move:
        found = original(self, task, y, state, context, **how)
        tried.append((state.iteration, y.x.to_dense(), found.to.x.to_dense(), how["step"]))
        return found

    monkeypatch.setattr(ProximalSolver, "move", move)
    task = problem(discrete, offsets=offsets)
    steps = si.solve(task, APGL(), max_iter=60, tol=0).history["step"]
    kept = list({iteration: trial for iteration, *trial in tried}.values())  # the last trial of each iteration
    assert len(kept) == 60
    for (Y, X, step), recorded in zip(kept, steps, strict=True):
        (at_x, _), (at_y, slope) = smooth(task, X), smooth(task, Y)
        square = float(np.sum((X - Y) ** 2))
        assert at_x <= at_y + np.vdot(slope, X - Y) + 0.5 / step * square + 1e-11 * at_y
        assert recorded == pytest.approx(step)
        assert step >= 1
    assert (steps > 1.2).sum() > 20
    assert len(tried) > len(kept), "some trial failed"


def test_apgl_momentum_knows_the_step_length():
    """t⁺ = ½(1 + √(1 + 4t²·L⁺/L)), the sequence for steps that change."""
    task, solver = problem(), APGL()
    state = solver.init(task, si.LowRank.zeros(SHAPE), CONTEXT)
    for _ in range(12):
        after = solver.step(task, state, CONTEXT)
        ratio = after.lipschitz / state.lipschitz
        assert after.t == pytest.approx(0.5 * (1 + np.sqrt(1 + 4 * ratio * state.t**2)), rel=1e-12)
        assert after.t == fista(state.t, ratio)[1]
        assert 0 < after.lipschitz <= 1
        state = after


def test_apgl_is_accurate_to_the_end():
    """Where steps become so short that rounding hides the curvature, L does not run away: the run converges."""
    for discrete in DISCRETE_PENALTIES[:2]:
        result = si.solve(problem(discrete), APGL(), max_iter=1000, tol=1e-11)
        assert result.status.converged
        assert result.history["certificate"][-1] < 1e-8
