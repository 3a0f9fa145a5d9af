"""Every discrete penalty in every proximal solver: it runs, falls where promised, and the certificate is true."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import snapimpute as si
from snapimpute.base import threads
from snapimpute.linalg import tiled
from snapimpute.penalties import DISCRETE
from snapimpute.solvers import FPC, FPCA, SOLVERS, PenaltyDecomposition, Result, SoftImpute
from snapimpute.solvers.base import Context
from snapimpute.solvers.proximal.gradient import Move, Point, ProximalSolver
from tests.solvers.dense import distance_to_stationary, first_order_gap, groups, hidden
from tests.solvers.dense import prox as dense_prox

SHAPE = (12, 10)
PENALTIES = {
    "l1": si.L1("1:5", xi=0.1),
    "weighted": si.L1("1:5", xi=0.1, weights=[0.2, 0.5, 1.3, 2.0, 1.0]),
    "composed": si.ComposedL1("1:5", xi=0.05),
    "l0": si.L0("1:5", xi=0.08),
    "fractional": si.FractionalL0("1:5", xi=0.1, alpha=0.04),
    "lp": si.Lp("1:5", xi=0.1, p=0.5),
    "l2": si.L2("1:5", xi=0.6),
    "columns": si.ByColumn(
        [si.L1("1:5", xi=0.1), si.L0("1:5", xi=0.08), si.L2("1:5", xi=0.3), None], [0, 1, 0, 2, 3, 1, 2, 0, 2, 1]
    ),
}
EXACT = [name for name, penalty in PENALTIES.items() if penalty.exact]
JUMPING = [name for name, penalty in PENALTIES.items() if not penalty.convex]
PROXIMAL = [
    name for name, kind in SOLVERS.items() if issubclass(kind, ProximalSolver) and kind is not PenaltyDecomposition
]
MONOTONE = ["soft-impute", "fpc", "nmapg", "fancl"]
SHORTER = {"fpc": FPC(tau=1.5), "fpca": FPCA(tau=1.5)}  # with τ = 1.99 every step overshoots by 99 %
every_solver = pytest.mark.parametrize("solver", PROXIMAL)
every_exact = pytest.mark.parametrize("kind", EXACT)
every_jumping = pytest.mark.parametrize("kind", JUMPING)
DATA = si.datasets.low_rank_alphabet(SHAPE, 2, "1:5", observed=0.55, random_state=2).observations


pytestmark = [pytest.mark.usefixtures("one_blas_thread"), pytest.mark.slow]


class Step(NamedTuple):
    """Where a step began, and how long it was."""

    y: Point
    move: Move


class Track(NamedTuple):
    """A run with all its iterates, and the step that led to each."""

    problem: si.Problem
    result: Result
    iterates: list[si.LowRank]
    steps: list[Step]


@cache
def track(solver: str, kind: str) -> Track:
    problem = si.Problem(DATA, si.Nuclear(1.0), PENALTIES[kind])
    iterates, began = [], {}
    original = ProximalSolver.move

    def move(self: Any, problem: si.Problem, y: Point, state: Any, context: Context, **how: Any) -> Move:
        found = original(self, problem, y, state, context, **how)
        began[id(found.to.x)] = Step(y, found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProximalSolver, "move", move)
        result = si.solve(
            problem,
            SHORTER.get(solver, solver),
            max_iter=500,
            tol=1e-7,
            callback=lambda info: iterates.append(info.x),
        )
    return Track(problem, result, iterates, [began[id(x)] for x in iterates])


def dense_objective(problem: si.Problem, x: si.LowRank) -> float:
    """(E) by dense formulas."""
    X, U = x.to_dense(), dense_prox(problem, x.to_dense())
    unseen, total = hidden(problem.observations), 0.0
    for part, cols in groups(problem.discrete, X.shape[1]):
        if part is not None:
            total += float(np.sum(part.value(U[:, cols][unseen[:, cols]])))
    fit = 0.5 * np.sum((X[problem.observations.rows, problem.observations.cols] - problem.observations.values) ** 2)
    nuclear = np.linalg.svd(X, compute_uv=False).sum()
    return float(fit + problem.spectral.lam * nuclear + total + 0.5 * np.sum((U - X)[unseen] ** 2))


def test_every_discrete_penalty_is_tried():
    """The list has every discrete penalty, the weighted and column-wise ones besides, convex and not."""
    assert {type(p) for p in PENALTIES.values()} == {*DISCRETE.values(), si.ByColumn}
    assert JUMPING == ["l0", "fractional", "lp", "columns"]
    assert len(PROXIMAL) == 9


@pytest.mark.parametrize("kind", PENALTIES)
@every_solver
def test_penalty_runs_in_solver(solver, kind):
    """The run ends with finite numbers; the objective, if the prox is exact, is the dense (E), below that at zero."""
    problem, result, iterates, _ = track(solver, kind)
    assert result.status.code in ("converged", "max_iter")
    assert np.isfinite(result.x.to_dense()).all()
    assert np.isfinite(result.history["objective"]).all()
    if problem.discrete.exact:
        for x, value in list(zip(iterates, result.history["objective"], strict=True))[:: max(result.n_iter // 4, 1)]:
            assert value == pytest.approx(dense_objective(problem, x), rel=1e-9)
        assert result.objective < 0.7 * dense_objective(problem, si.LowRank.zeros(SHAPE))


@every_exact
def test_soft_impute_falls_in_every_step(kind):
    """(E) never rises under Soft-Impute, whatever the discrete penalty."""
    _, result, *_ = track("soft-impute", kind)
    objectives = result.history["objective"]
    assert result.n_iter > 5
    assert np.diff(objectives).max() <= 1e-9 * objectives[0]


@every_exact
@pytest.mark.parametrize("tau", [1.0, 1.99])
def test_fpc_falls_in_every_step_at_its_last_lam(kind, tau):
    """From a warm start λ is final at once, and (E) never rises under FPC, up to step lengths of nearly 2."""
    problem = si.Problem(DATA, si.Nuclear(1.0), PENALTIES[kind])
    start = si.solve(si.Problem(DATA, si.Nuclear(3.0)), SoftImpute(), max_iter=5).x
    result = si.solve(problem, FPC(tau=tau), x0=start, max_iter=60, tol=0)
    objectives = np.array([problem.objective(start), *result.history["objective"]])
    assert (result.history["lam"] == 1.0).all()
    assert np.diff(objectives).max() <= 1e-9 * objectives[0]
    assert objectives[-1] < 0.9 * objectives[0]


@every_exact
@pytest.mark.parametrize("solver", MONOTONE)
def test_certificate_gets_small(solver, kind):
    """Solvers that fall, or stay below a falling bound, end with a small certificate for every exact penalty."""
    _, result, *_ = track(solver, kind)
    assert result.history["certificate"][-1] < 1e-4 * np.linalg.norm(DATA.values)


@every_jumping
@every_solver
def test_certificate_where_the_prox_jumps(solver, kind):
    """At every iterate it bounds the dense residual of the joint objective in X and U, U the prox where Y was."""
    problem, result, iterates, steps = track(solver, kind)
    unseen, seen = hidden(DATA), (DATA.rows, DATA.cols)
    checked = 0
    for x, (y, _), certificate in zip(iterates, steps, result.history["certificate"], strict=True):
        if not np.isfinite(certificate):  # λ is still coming down
            continue
        X, Y = x.to_dense(), y.x.to_dense()
        U = dense_prox(problem, Y)
        G = np.where(unseen, X - U, 0.0)
        G[seen] = X[seen] - DATA.values
        in_u = (U - X + (Y - U))[unseen]  # Y − U is a subgradient of ξr at U
        assert (
            np.hypot(np.linalg.norm(in_u), distance_to_stationary(problem.spectral, x, G))
            <= certificate * (1 + 1e-6) + 1e-8
        )
        checked += 1
    assert checked > 3


@pytest.mark.parametrize("kind", ["l1", "weighted", "l2"])
@every_solver
def test_certificate_where_the_prox_is_continuous(solver, kind):
    """For convex penalties it bounds dist(0, ∂E(X)) at every iterate, densely."""
    problem, result, iterates, _ = track(solver, kind)
    for x, certificate in zip(iterates, result.history["certificate"], strict=True):
        assert first_order_gap(problem, x) <= certificate * (1 + 1e-6) + 1e-8


# ---------------------------------------------------------------- several tiles, several threads
LARGE = si.datasets.low_rank_alphabet((300, 40), 3, "1:5", observed=0.3, random_state=3).observations


@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("solver", ["soft-impute", "ais-impute", "fancl", "penalty-decomposition"])
def test_many_tiles_and_threads(solver, kind, monkeypatch):
    """With many tiles on three threads the run is, to the last bit, that of one thread, and (E) the dense one."""
    penalty = PENALTIES[kind]
    if kind == "columns":
        penalty = si.ByColumn(penalty.penalties, np.tile(penalty.which, 4))
    problem = si.Problem(LARGE, si.Nuclear(5.0), penalty)
    monkeypatch.setattr(tiled, "TILE_ROWS", 32)
    monkeypatch.setattr(threads, "WORTH_THREADS", 0)
    runs = []
    for count in ("1", "3"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", count)
        runs.append(si.solve(problem, solver, max_iter=6, tol=0))
    assert runs[0].x.s.tobytes() == runs[1].x.s.tobytes()
    assert runs[0].history["objective"].tobytes() == runs[1].history["objective"].tobytes()
    if penalty.exact:
        start = dense_objective(problem, si.LowRank.zeros((300, 40)))
        assert problem.objective(runs[1].x) == pytest.approx(dense_objective(problem, runs[1].x), rel=1e-9)
        assert problem.objective(runs[1].x) < start


def test_bringing_lam_down_avoids_poor_stationary_points():
    """With L0, started at 0 and the final λ, niAPG stops far above where FaNCL ends: why "auto" takes the latter."""
    data = si.datasets.low_rank_alphabet((60, 50), rank=3, alphabet="0,1,2", kind="blocks", observed=0.3)
    problem = si.Problem(data.observations, si.Nuclear(1.0), si.L0("0,1,2", xi=0.02))
    cold, down = (si.solve(problem, name, max_iter=500, tol=1e-6) for name in ("niapg", "fancl"))
    assert cold.status.converged
    assert down.status.converged
    assert cold.objective == pytest.approx(232, abs=1)
    assert down.objective == pytest.approx(163.5, abs=1)
