"""nmAPG, niAPG and FaNCL: the bounds they promise, stationary solutions for every penalty, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.penalties import SpectralPenalty
from snapimpute.solvers import APG, NIAPG, NMAPG, FaNCL, Result, SoftImpute, Solver
from snapimpute.solvers.base import Context
from snapimpute.solvers.proximal.gradient import Move, Point, ProximalSolver
from snapimpute.solvers.proximal.safeguarded import FINER
from tests.helpers import RATING_PENALTIES as DISCRETE_PENALTIES
from tests.helpers import STRONG_SPECTRAL as SPECTRAL_PENALTIES
from tests.helpers import biases, ratings
from tests.solvers.dense import first_order_gap, gradient

SHAPE = (30, 24)
SAFEGUARDED = [NMAPG(), NIAPG(), FaNCL()]


pytestmark = [pytest.mark.usefixtures("one_blas_thread"), pytest.mark.slow]


OBSERVATIONS = ratings(SHAPE, observed=0.6)
SIZE = float(np.linalg.norm(OBSERVATIONS.values))


@dataclass(eq=False)
class Track:
    """A run to convergence with all its iterates, the start included."""

    problem: si.Problem
    result: Result
    iterates: list[si.LowRank]

    @cached_property
    def objectives(self) -> np.ndarray:
        return np.array([self.problem.objective(x) for x in self.iterates])


@cache
def track(solver: Solver[Any], spectral: SpectralPenalty, discrete: Any) -> Track:
    problem = si.Problem(OBSERVATIONS, spectral, discrete)
    iterates = [si.LowRank.zeros(SHAPE)]
    result = si.solve(problem, solver, max_iter=800, tol=1e-7, callback=lambda info: iterates.append(info.x))
    return Track(problem, result, iterates)


def solutions(*solvers: Solver[Any], discrete: Any = DISCRETE_PENALTIES) -> Any:
    """Run a test for each solver, spectral penalty and discrete penalty."""
    tests = [(s, p, d) for s in solvers for p in SPECTRAL_PENALTIES for d in discrete]
    return pytest.mark.parametrize(("solver", "spectral", "discrete"), tests, ids=repr)


# ---------------------------------------------------------------- the promises
@solutions(NMAPG())
def test_nmapg_stays_below_its_average(solver, spectral, discrete):
    """F(X_{k+1}) ≤ c_k at every k, c_k the average recomputed from the objectives, and "bound" is that c_k."""
    one = track(solver, spectral, discrete)
    result, objectives = one.result, one.objectives
    c, q, bounds = objectives[0], 1.0, []
    for value in objectives[1:]:
        bounds.append(c)
        c, q = (solver.eta * q * c + value) / (solver.eta * q + 1), solver.eta * q + 1
    assert (objectives[1:] <= np.array(bounds) * (1 + 1e-12)).all()
    assert result.history["bound"] == pytest.approx(bounds, rel=1e-10)
    assert objectives[-1] < 0.5 * objectives[0]


@pytest.mark.parametrize("q", [0, 2])
@pytest.mark.parametrize("spectral", [si.LogSum(lam=30.0, theta=2.0), si.MCP(lam=5.0)], ids=repr)
def test_niapg_looks_back_as_far_as_it_is_told(spectral, q):
    """The window holds q + 1 objectives; q = 0 makes the objective fall in every step."""
    check_recent_maximum(NIAPG(q=q), spectral, si.L1("1:5", xi=0.05))
    if q == 0:
        assert np.diff(track(NIAPG(q=0), spectral, si.L1("1:5", xi=0.05)).objectives).max() <= 1e-12 * SIZE**2


@solutions(NIAPG())
def test_niapg_stays_below_the_recent_maximum(solver, spectral, discrete):
    """F(X_{k+1}) is at most the largest of the last q + 1 objectives, recomputed, and "bound" is that maximum."""
    check_recent_maximum(solver, spectral, discrete)


def check_recent_maximum(solver: NIAPG, spectral: SpectralPenalty, discrete: Any) -> None:
    one = track(solver, spectral, discrete)
    result, objectives = one.result, one.objectives
    bounds = [objectives[max(0, k - solver.q) : k + 1].max() for k in range(result.n_iter)]
    assert (objectives[1:] <= np.array(bounds) * (1 + 1e-12)).all()
    assert result.history["bound"] == pytest.approx(bounds, rel=1e-10)
    assert objectives[-1] < 0.5 * objectives[0]


@solutions(FaNCL())
def test_fancl_falls_far_enough_at_the_lam_of_each_step(solver, spectral, discrete):
    """Each step lowers the objective of its own λ by at least (1/step − 1)/4·‖X⁺ − X‖²."""
    one = track(solver, spectral, discrete)
    result, iterates = one.result, one.iterates
    enough = (1 / solver.step_size - 1) / 4
    moved = 0
    for lam, before, after in zip(result.history["lam"], iterates[:-1], iterates[1:], strict=True):
        stage = si.Problem(OBSERVATIONS, spectral.with_lam(float(lam)), discrete)
        old, new = stage.objective(before), stage.objective(after)
        square = float(np.sum((after.to_dense() - before.to_dense()) ** 2))
        assert old - new >= enough * square - 1e-11 * old
        moved += square > 0
    assert moved > 10


# ---------------------------------------------------------------- first-order conditions


def test_checker_sees_what_is_not_stationary():
    """The checker accepts the prox of a fully observed matrix, and none that is scaled, cut or rotated."""
    data = si.datasets.low_rank_alphabet((12, 9), 3).to_dense()
    U, s, Vt = np.linalg.svd(data, full_matrices=False)
    for spectral in (si.Nuclear(1.5), si.LogSum(lam=3.0, theta=1.0), si.MCP(lam=1.0), si.SCAD(lam=1.0)):
        problem = si.Problem(si.Observations.from_dense(data), spectral)
        values = spectral.prox(s)
        rank = int((values > 0).sum())
        x = si.LowRank(U, values, Vt.T).truncated(rank)
        assert rank > 1
        assert first_order_gap(problem, x) < 1e-9
        assert first_order_gap(problem, si.LowRank(x.U, 0.99 * x.s, x.V)) > 1e-2
        assert first_order_gap(problem, si.LowRank(x.U[:, 1:], x.s[1:], x.V[:, 1:])) > 1e-2
        assert first_order_gap(problem, si.LowRank(x.U, x.s, np.roll(x.V, 1, axis=0))) > 1e-2


@solutions(*SAFEGUARDED)
def test_solutions_are_stationary(solver, spectral, discrete):
    """Every solution satisfies the first-order condition to 1e-4 of the size of the data, by a dense check."""
    one = track(solver, spectral, discrete)
    problem, result = one.problem, one.result
    assert 0 < result.x.rank < min(SHAPE)
    assert first_order_gap(problem, result.x) <= 1e-4 * SIZE


@solutions(SoftImpute(), APG(), discrete=DISCRETE_PENALTIES[:2])
def test_solutions_of_the_plain_recursions_are_stationary(solver, spectral, discrete):
    """Soft-Impute and APG end at stationary points for every penalty too."""
    problem = si.Problem(OBSERVATIONS, spectral, discrete)
    result = si.solve(problem, solver, max_iter=800, tol=1e-7, evaluate_every=800)
    assert first_order_gap(problem, result.x) <= 1e-4 * SIZE


@solutions(*SAFEGUARDED, discrete=[si.ComposedL1("1:5", xi=0.05)])
def test_composed_prox_runs(solver, spectral, discrete):
    """With the composed prox, for which no bound is promised, every method still comes to a fixed point."""
    one = track(solver, spectral, discrete)
    problem, result = one.problem, one.result
    assert result.status.code in ("converged", "max_iter")
    assert np.isfinite(result.history["objective"]).all()
    assert first_order_gap(problem, result.x) <= 1e-4 * SIZE


@pytest.mark.parametrize("solver", SAFEGUARDED, ids=repr)
def test_offsets(solver):
    """With offsets the bound holds relative to them, and the run converges."""
    problem = si.Problem(OBSERVATIONS, si.LogSum(lam=30.0, theta=2.0), si.L1("1:5", xi=0.05), biases(SHAPE))
    result = si.solve(problem, solver, max_iter=800)
    assert result.status.converged
    assert result.objective == pytest.approx(problem.objective(result.x), rel=1e-12)
    assert result.history["certificate"][-1] < 1e-3 * SIZE


# ---------------------------------------------------------------- where a step is refused
PROBLEM = si.Problem(OBSERVATIONS, si.LogSum(lam=30.0, theta=2.0), si.L1("1:5", xi=0.05))


def worse(move: Move, problem: si.Problem) -> Move:
    """The same move, but to five times the point."""
    x = si.LowRank.combine([5.0], [move.to.x])
    return move._replace(to=Point(x, problem.at_observed(x)))


def dense_step(problem: si.Problem, X: np.ndarray, step: float) -> np.ndarray:
    U, s, Vt = np.linalg.svd(X - step * gradient(problem, X), full_matrices=False)
    return (U * problem.spectral.prox(s, step)) @ Vt


@pytest.mark.parametrize("solver", [NMAPG(), NIAPG()], ids=repr)
def test_refused_accelerated_step_falls_back_to_a_plain_one(solver, monkeypatch):
    """Where the accelerated point is bad every time, the iterates are those of plain proximal gradient."""
    original, bad = ProximalSolver.move, []

    def move(self: Any, problem: si.Problem, y: Point, state: Any, context: Context, **how: Any) -> Move:
        found = original(self, problem, y, state, context, **how)
        if y.x is state.x:
            return found
        bad.append(state.iteration)
        return worse(found, problem)

    monkeypatch.setattr(ProximalSolver, "move", move)
    iterates: list[np.ndarray] = []
    result = si.solve(PROBLEM, solver, max_iter=12, tol=0, callback=lambda info: iterates.append(info.x.to_dense()))
    assert len(set(bad)) >= 10, "the accelerated step was tried"
    X = np.zeros(SHAPE)
    for found in iterates:
        X = dense_step(PROBLEM, X, solver.step_size)
        assert found == pytest.approx(X, abs=1e-3)
    assert (np.diff(result.history["objective"]) <= 0).all()


def test_niapg_starts_from_the_iterate_where_the_extrapolated_point_is_too_high(monkeypatch):
    """If F(Y) exceeds the bound, no step is taken from Y at all."""
    original, starts = ProximalSolver.move, []

    def move(self: Any, problem: si.Problem, y: Point, state: Any, context: Context, **how: Any) -> Move:
        starts.append((problem.objective(y.x.orthonormalised()), max(state.recent), y.x is state.x))
        return original(self, problem, y, state, context, **how)

    monkeypatch.setattr(ProximalSolver, "move", move)
    si.solve(PROBLEM, NIAPG(q=0), max_iter=150, tol=0)
    assert all(value <= bound * (1 + 1e-12) for value, bound, _ in starts)
    from_iterate = [plain for _, _, plain in starts]
    assert True in from_iterate[1:]
    assert False in from_iterate


@pytest.mark.parametrize("solver", SAFEGUARDED, ids=repr)
def test_refused_plain_step_is_taken_again_more_finely(solver, monkeypatch):
    """A plain step that raises the objective is repeated with finer and finer SVDs until it does not."""
    original, asked = ProximalSolver.move, []

    def move(self: Any, problem: si.Problem, y: Point, state: Any, context: Context, **how: Any) -> Move:
        found = original(self, problem, y, state, context, **how)
        asked.append(how.get("finer", 1.0))
        return found if asked[-1] <= 1e-5 else worse(found, problem)

    monkeypatch.setattr(ProximalSolver, "move", move)
    result = si.solve(PROBLEM, solver, max_iter=3, tol=0, callback=None)
    plain = [finer for finer in asked if finer < 1]
    assert plain == [1e-2, 1e-5] * 3
    assert np.isfinite(result.history["objective"]).all()
    assert result.x.rank > 0


@pytest.mark.parametrize("solver", SAFEGUARDED, ids=repr)
def test_where_nothing_helps_the_iterate_stays(solver, monkeypatch):
    """If every step is refused the iterate stays, bit for bit, and the run ends; with tol = 0 it just runs out."""
    start = si.solve(PROBLEM, solver, max_iter=20, tol=0).x
    original, moves = ProximalSolver.move, []

    def move(self: Any, problem: si.Problem, y: Point, state: Any, context: Context, **how: Any) -> Move:
        moves.append(1)
        return worse(original(self, problem, y, state, context, **how), problem)

    monkeypatch.setattr(ProximalSolver, "move", move)
    ended = si.solve(PROBLEM, solver, x0=start, tol=1e-12)
    assert (ended.status.code, ended.n_iter) == ("converged", 1)
    assert ended.history["certificate"].tolist() == [np.inf], "staying proves nothing"
    moves.clear()
    idle = si.solve(PROBLEM, solver, x0=start, max_iter=7, tol=0)
    assert idle.n_iter == 7
    assert len(moves) <= 7 * (1 + len(FINER))
    for result in (ended, idle):
        assert result.x.to_dense() == pytest.approx(start.to_dense(), abs=1e-10)
        assert result.objective == pytest.approx(PROBLEM.objective(start), rel=1e-12)
    assert len(set(idle.history["objective"])) == 1


@pytest.mark.parametrize("solver", SAFEGUARDED, ids=repr)
def test_far_beyond_convergence(solver):
    """A run that goes on where only rounding is left neither rises nor fails, and its certificate stays true."""
    problem, gaps = si.Problem(OBSERVATIONS, si.LogSum(lam=30.0, theta=2.0), si.Ridge(3.0, xi=0.1)), []
    result = si.solve(
        problem, solver, max_iter=400, tol=0, callback=lambda info: gaps.append(first_order_gap(problem, info.x))
    )
    assert (np.array(gaps) <= result.history["certificate"] + 1e-9).all()
    late = result.history["objective"][-100:]
    assert np.ptp(late) <= 1e-12 * late[-1]
    assert first_order_gap(problem, result.x) < 1e-7 * SIZE
