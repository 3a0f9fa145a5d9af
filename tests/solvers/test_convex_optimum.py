"""The optimum that the solvers reach on convex problems is the one a modelling tool finds."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.linalg import svd
from snapimpute.solvers import SOLVERS as ALL_SOLVERS
from snapimpute.solvers import AISImpute, Result
from tests.solvers.dense import least_envelope

pytestmark = pytest.mark.slow

ALPHABETS = {2: "-1,1", 3: "0,1,2", 5: "1:5"}
WEIGHTS = {2: [0.4, 1.6], 3: [0.3, 2.0, 0.7], 5: [0.2, 0.5, 1.3, 2.0, 1.0]}
VARIANTS = ["plain", "discrete", "weighted", "offsets", "weighted-offsets"]
CASES = [((12, 10), 5, variant) for variant in VARIANTS]
CASES += [(*case, variant) for case in (((12, 10), 2), ((8, 6), 3)) for variant in ("discrete", "weighted-offsets")]
"""Shape, symbols, and what else."""
# These solve other problems: see test_constrained.py, test_splitting.py and test_majorised.py.
OTHERS = ("svt", "sdp", "low-rank-sparse", "davis-yin", "admm", "penalty-decomposition", "mm")
SOLVERS = {
    name: solver() for name, solver in ALL_SOLVERS.items() if "nuclear" in solver.info.spectral and name not in OTHERS
}


@cache
def toy(shape: tuple[int, int], symbols: int, variant: str) -> si.Problem:
    """A small problem on an alphabet, with what the variant names."""
    data = si.datasets.low_rank_alphabet(shape, 2, ALPHABETS[symbols], observed=0.55, random_state=2)
    discrete: Any = None
    if "discrete" in variant:
        discrete = si.L1(ALPHABETS[symbols], xi=0.12)
    elif "weighted" in variant:
        discrete = si.L1(ALPHABETS[symbols], xi=0.12, weights=WEIGHTS[symbols])
    rng = np.random.default_rng(4)
    biases = si.LowRank(rng.normal(size=(shape[0], 2)), np.array([0.8, 0.3]), rng.normal(size=(shape[1], 2)))
    return si.Problem(data.observations, si.Nuclear(1.0), discrete, biases if "offsets" in variant else None)


@cache
def modelled_optimum(shape: tuple[int, int], symbols: int, variant: str) -> float:
    return least_envelope(toy(shape, symbols, variant))


@cache
def solved(shape: tuple[int, int], symbols: int, variant: str, solver: str) -> Result:
    return si.solve(
        toy(shape, symbols, variant), SOLVERS[solver], max_iter=3000, tol=1e-8, evaluate_every=3000, random_state=1
    )


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "fpca"])  # which here is FPC: see below
@pytest.mark.parametrize(("shape", "symbols", "variant"), CASES)
def test_optimum_is_that_of_the_modelling_tool(shape, symbols, variant, solver):
    """The objective (E) at the solver's answer is the least one, with and without discreteness, weights, offsets."""
    result = solved(shape, symbols, variant, solver)
    assert result.status.converged
    assert result.objective == pytest.approx(modelled_optimum(shape, symbols, variant), rel=1e-6)


@pytest.mark.parametrize(("shape", "symbols", "variant"), CASES)
def test_fpca_is_fpc_on_small_tables(shape, symbols, variant):
    """Every SVD is a whole one there, so that all iterates are the same, to the last bit, up to the optimum above."""
    problem = toy(shape, symbols, variant)
    one, other = (si.solve(problem, SOLVERS[name], max_iter=60, tol=0, random_state=1) for name in ("fpc", "fpca"))
    assert min(shape) <= svd.WHOLE_SIDE
    np.testing.assert_array_equal(one.history["objective"], other.history["objective"])
    np.testing.assert_array_equal(one.x.to_dense(), other.x.to_dense())


@pytest.mark.parametrize(("shape", "symbols", "variant"), CASES)
def test_solvers_agree(shape, symbols, variant):
    """All solvers end at the same value and nearly the same matrix."""
    first, *others = (solved(shape, symbols, variant, solver) for solver in SOLVERS if solver != "fpca")
    for other in others:
        assert other.objective == pytest.approx(first.objective, rel=1e-7)
        assert np.linalg.norm(other.x.to_dense() - first.x.to_dense()) < 1e-3


# ---------------------------------------------------------------- a problem of real size
@pytest.fixture(scope="module")
def fifth(movielens) -> tuple[si.Problem, Result, Result]:
    """A fifth of MovieLens-100k, its optimum, and a point some way off from which plain steps can get there."""
    first = np.random.default_rng(0).permutation(100_000)[:20_000]
    cells = (movielens.rows[first], movielens.cols[first], movielens.values[first])
    problem = si.Problem(si.Observations.from_coo(*cells, movielens.shape), si.Nuclear(10.0))
    optimum = si.solve(problem, AISImpute(), max_iter=3000, tol=1e-9, evaluate_every=3000)
    rough = si.solve(problem, AISImpute(), max_iter=3000, tol=1e-3, evaluate_every=3000)
    return problem, optimum, rough


@pytest.mark.movielens
@pytest.mark.slow
def test_optimum_on_ratings_is_certified(fifth):
    """A duality gap proves that the reference is the optimum, and that the other tests start away from it."""
    problem, optimum, rough = fifth
    assert si.certify(problem, optimum.x).relative_gap < 1e-5
    assert rough.objective > optimum.objective * (1 + 1e-4)
    assert optimum.x.rank == 20


@pytest.mark.movielens
@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_reaches_the_optimum_on_ratings(fifth, solver):
    """On a fifth of MovieLens-100k every convex solver comes within 1e-6 of the optimum, and never below it."""
    problem, optimum, rough = fifth

    def near(name: str, start: si.LowRank, off: float) -> Result:
        done = {"callback": lambda info: info.objective <= optimum.objective * (1 + off)}
        return si.solve(problem, SOLVERS[name], x0=start, max_iter=3000, tol=0, **done)

    # FPCA takes the steps of FPC, each at eight times the time
    start = near("fpc", rough.x, 1e-5).x if solver == "fpca" else rough.x
    assert problem.objective(start) > optimum.objective * (1 + 2e-6)
    result = near(solver, start, 1e-6)
    assert result.objective == pytest.approx(optimum.objective, rel=1e-6)
    assert result.objective >= optimum.objective * (1 - 1e-10)


@pytest.mark.parametrize("variant", ["discrete", "weighted-offsets"])
def test_the_envelope_is_not_the_penalty_itself(variant):
    """(E) lies strictly below (P) at the answer, so that the tests above are about (E) and not about (P)."""
    result = solved((12, 10), 5, variant, "apg")
    problem = toy((12, 10), 5, variant)
    assert result.objective_name == "E"
    assert result.objective == pytest.approx(problem.objective(result.x, "E"), rel=1e-12)
    assert result.objective < problem.objective(result.x, "P") * (1 - 1e-4)
