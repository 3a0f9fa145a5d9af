"""softImpute-ALS: the solution of the nuclear norm, descent in every half-step, ranks, starts, early ends."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import snapimpute as si
from snapimpute.solvers import ALS, APG, Info, Result
from snapimpute.solvers.base import Context
from snapimpute.solvers.factored.als import ALSState
from tests.helpers import biases, ratings

SHAPE = (30, 24)
DATA = ratings(SHAPE, observed=0.4)
VARIANTS = ["plain", "discrete", "offsets", "discrete-offsets"]


pytestmark = [pytest.mark.usefixtures("one_blas_thread"), pytest.mark.slow]


@cache
def toy(variant: str = "plain", lam: float = 6.0, shape: tuple[int, int] = SHAPE) -> si.Problem:
    discrete = si.L1("1:5", xi=0.05) if "discrete" in variant else None
    return si.Problem(
        ratings(shape, observed=0.4), si.Nuclear(lam), discrete, biases(shape) if "offsets" in variant else None
    )


@cache
def optimum(variant: str, shape: tuple[int, int] = SHAPE) -> Result:
    result = si.solve(toy(variant, shape=shape), APG(), max_iter=3000, tol=1e-9, evaluate_every=3000)
    assert result.status.converged
    return result


def smooth(problem: si.Problem, x: si.LowRank) -> float:
    """h, the smooth part of (E)."""
    terms = problem.terms(x)
    return terms.fit + terms.discrete


# ---------------------------------------------------------------- the solution
@pytest.mark.parametrize("shape", [SHAPE, (12, 50)], ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_solution_is_that_of_the_nuclear_norm(variant, shape):
    """With more columns than the solution's rank, objective, matrix and rank are those of APG."""
    best = optimum(variant, shape)
    assert 1 < best.x.rank < 11
    result = si.solve(toy(variant, shape=shape), ALS(rank=12), max_iter=2000, tol=1e-7, evaluate_every=2000)
    assert result.status.converged
    assert result.objective == pytest.approx(best.objective, rel=1e-6)
    assert result.x.distance(best.x) < 1e-3 * np.linalg.norm(best.x.s)
    assert result.x.rank == best.x.rank, "the last threshold shows the rank"


def test_default_rank_is_enough_here():
    """Without a rank the factors have as many columns as the table's smaller side, at most 50."""
    problem = toy()
    assert ALS().init(problem, si.LowRank.zeros(SHAPE), Context(None, 0)).left.shape == (30, 24)
    large = si.Problem(ratings((80, 70), observed=0.4), si.Nuclear(1.0))
    x0 = si.LowRank.from_dense(np.eye(80, 70)).truncated(45)
    assert ALS().init(large, si.LowRank.zeros((80, 70)), Context(None, 0)).left.shape == (80, 50)
    assert ALS().init(large, x0, Context(None, 0)).left.shape == (80, 55), "ten more than a start has"
    result = si.solve(problem, ALS(), max_iter=1000, tol=1e-7, evaluate_every=1000)
    assert result.objective == pytest.approx(optimum("plain").objective, rel=1e-6)


@pytest.mark.parametrize("variant", ["plain", "discrete-offsets"])
def test_too_small_a_rank_costs(variant):
    """With fewer columns than the solution's rank the objective is larger, the more so the fewer there are."""
    best = optimum(variant)
    values = [
        si.solve(toy(variant), ALS(rank=rank), max_iter=500, tol=1e-7, evaluate_every=500).objective
        for rank in (1, best.x.rank - 1, best.x.rank + 3)
    ]
    assert values[0] > values[1] * 1.001
    assert values[1] > values[2] * (1 + 1e-5)
    assert values[2] == pytest.approx(best.objective, rel=1e-6)


def test_no_penalty_fits_the_entries():
    """With λ = 0 and enough columns every entry is fitted; with too few, as well as alternating fits can."""
    problem = toy(lam=0.0)
    full = si.solve(problem, ALS(rank=24), max_iter=200, tol=1e-9)
    assert full.objective < 1e-8 * problem.objective(si.LowRank.zeros(SHAPE))
    few = si.solve(problem, ALS(rank=2), max_iter=3000, tol=1e-9, evaluate_every=3000)
    other = si.solve(si.Problem(DATA, si.Rank(0.0)), si.solvers.AltMin(rank=2), x0=few.x, max_iter=1, tol=0)
    assert few.x.rank == 2
    assert few.history["fit"][-1] == pytest.approx(other.history["fit"][-1], rel=1e-4)


def test_strong_penalty_gives_rank_zero():
    """From λ = σ₁(P_Ω(O)) on the answer is 0, of rank 0."""
    largest = np.linalg.norm(DATA.to_sparse().toarray(), 2)
    result = si.solve(si.Problem(DATA, si.Nuclear(1.01 * largest)), ALS(rank=5), max_iter=200)
    assert result.x.rank == 0
    assert result.objective == pytest.approx(0.5 * np.sum(DATA.values**2))


# ---------------------------------------------------------------- descent
@pytest.mark.parametrize("variant", VARIANTS)
def test_factored_objective_falls_in_every_half_step(variant):
    """h(ABᵀ) + (λ/2)(‖A‖² + ‖B‖²) never rises: not when B is fitted, when A is, nor when the two are balanced."""
    problem, solver, context = toy(variant), ALS(rank=8), Context(None, 0)
    lam = problem.spectral.lam
    state = solver.init(problem, si.LowRank.zeros(SHAPE), context)
    # B = 0 at first
    values = [smooth(problem, state.x) + lam / 2 * float(np.sum(state.scale**2))]
    for _ in range(12):
        A = state.left * state.scale
        middle = solver._half(problem, state.x, state.x_observed, state.left, state.scale, lam, transposed=True)
        B = np.linalg.lstsq(A, middle.to_dense(), rcond=None)[0].T
        assert_allclose(A @ B.T, middle.to_dense(), atol=1e-9, err_msg="A is held fixed")
        values.append(smooth(problem, middle) + lam / 2 * float(np.sum(A**2) + np.sum(B**2)))
        values.append(problem.objective(middle))  # balanced, ½(‖A‖² + ‖B‖²) is the nuclear norm
        after = solver.step(problem, state, context)
        B = middle.V * np.sqrt(middle.s)
        A = np.linalg.lstsq(B, after.x.to_dense().T, rcond=None)[0].T
        assert_allclose(A @ B.T, after.x.to_dense(), atol=1e-9, err_msg="B is held fixed")
        values.append(smooth(problem, after.x) + lam / 2 * float(np.sum(A**2) + np.sum(B**2)))
        values.append(problem.objective(after.x))
        state = after
    assert np.diff(values).max() <= 1e-10 * values[0]
    assert values[-1] < 0.5 * values[0]


def test_half_step_is_a_ridge_regression():
    """B is X*ᵀA(AᵀA + λ)⁻¹ for the imputed matrix X*, computed densely."""
    problem = toy("discrete-offsets")
    state = si.solve(problem, ALS(rank=4), max_iter=3, tol=0).x
    observed, scale = problem.at_observed(state), np.sqrt(state.s)
    A = state.U * scale
    imputed = problem.smooth.imputed(state, observed).to_dense()
    B = imputed.T @ A @ np.linalg.inv(A.T @ A + 6.0 * np.eye(A.shape[1]))
    found = ALS._half(problem, state, observed, state.U, scale, 6.0, transposed=True)
    assert found.to_dense() == pytest.approx(A @ B.T, abs=1e-10)
    assert_allclose(found.V.T @ found.V, np.eye(A.shape[1]), atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_finish_lowers_the_objective_and_shows_the_rank(variant):
    """The last threshold leaves no tiny singular values behind, and (E) is no larger for it."""
    problem, solver, context = toy(variant), ALS(rank=12), Context(None, 0)
    state: ALSState = solver.init(problem, si.LowRank.zeros(SHAPE), context)
    for _ in range(300):
        state = solver.step(problem, state, context)
    finished = solver.finish(problem, state, context)
    assert state.x.rank == 12
    assert state.x.s[-1] > 0
    assert finished.x.rank == optimum(variant).x.rank < 12
    assert problem.objective(finished.x) <= problem.objective(state.x) * (1 + 1e-12)
    assert finished.x_observed == pytest.approx(problem.at_observed(finished.x), abs=1e-12)
    assert_allclose(finished.x.U.T @ finished.x.U, np.eye(finished.x.rank), atol=1e-10)


# ---------------------------------------------------------------- ranks and starts
@pytest.mark.parametrize(("rank", "max_rank", "expected"), [(None, 3, 3), (5, 2, 2), (2, 5, 2), (100, None, 24)])
def test_rank_and_max_rank(rank, max_rank, expected):
    """No iterate has more columns than rank, max_rank or a side allow."""
    result = si.solve(toy(lam=0.5), ALS(rank=rank), max_iter=4, tol=0, max_rank=max_rank)
    assert (result.history["rank"][:-1] == expected).all()
    assert result.x.rank <= expected
    assert result.x.rank > 1


@pytest.mark.parametrize("variant", ["plain", "discrete-offsets"])
def test_warm_start_at_the_solution_stays_there(variant):
    """From the solution, with no further columns, one step leads nowhere; with more, the run ends there sooner."""
    problem, best = toy(variant), optimum(variant)
    exact = si.solve(problem, ALS(rank=best.x.rank), x0=best.x, tol=1e-5)
    assert (exact.n_iter, exact.status.code) == (1, "converged")
    assert exact.x.distance(best.x) < 1e-5 * np.linalg.norm(best.x.s)
    warm, cold = (si.solve(problem, ALS(rank=12), x0=x0, max_iter=1000, tol=1e-6) for x0 in (best.x, None))
    assert warm.objective == pytest.approx(best.objective, rel=1e-5)
    assert warm.n_iter < cold.n_iter


@pytest.mark.parametrize("shape", [(1, 7), (7, 1), (1, 1)], ids=str)
def test_single_rows_and_columns(shape):
    """A table of one row or column, or one cell, shrinks by λ as a whole."""
    data = np.arange(1.0, 8.0).reshape(shape) if 7 in shape else np.array([[5.0]])
    result = si.solve(si.Problem(si.Observations.from_dense(data), si.Nuclear(2.0)), ALS(), max_iter=2000, tol=1e-12)
    size = np.linalg.norm(data)
    assert result.x.to_dense() == pytest.approx(data * (1 - 2 / size), abs=1e-6)


# ---------------------------------------------------------------- how a run ends
def ends(how: str) -> Result:
    options: dict[str, Any] = {"max_iter": 40, "tol": 0.0}
    if how == "converged":
        options = {"max_iter": 1000, "tol": 1e-4}
    elif how != "max_iter":
        every = 7 if how == "stopped, not evaluated there" else 1

        def stop(info: Info) -> bool:
            return info.iteration == 40

        options = {"max_iter": 100, "tol": 0.0, "callback": stop, "evaluate_every": every}
    return si.solve(toy("discrete"), ALS(rank=12), **options)


@pytest.mark.parametrize("how", ["converged", "max_iter", "stopped", "stopped, not evaluated there"])
def test_last_row_is_true_of_the_answer(how):
    """However a run ends, it is finished, and the last row has the objective, terms and rank of the answer."""
    result = ends(how)
    assert result.status.code == how.split(",", maxsplit=1)[0]
    problem = toy("discrete")
    terms = problem.terms(result.x)
    last = {key: column[-1] for key, column in result.history.items()}
    assert last["rank"] == result.x.rank < 12, "finish has shown the rank"
    assert result.objective == last["objective"] == pytest.approx(terms.objective, rel=1e-12)
    for name in ("fit", "spectral", "discrete"):
        assert last[name] == pytest.approx(getattr(terms, name), rel=1e-10)
