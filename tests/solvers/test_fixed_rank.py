"""AltMin, OptSpace and Sun and Luo's descent: recovery, descent, rates, first-order conditions, odd data."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.solvers import AltMin, Info, OptSpace, SunLuo
from snapimpute.solvers.base import Context
from snapimpute.solvers.factored._fixed_rank import _trimmed, guess_rank, tangent_gradient
from snapimpute.solvers.factored.manifold import Barrier, _barzilai_borwein, _geodesic, _solve_middle
from tests.helpers import biases, dense_offsets, same_bits

KINDS: list[Any] = [AltMin, OptSpace, SunLuo]
NAN = np.nan
SHAPES = {"square": ((50, 50), 2, 0.45), "tall": ((80, 30), 2, 0.5), "wide": ((30, 90), 3, 0.6)}


pytestmark = [pytest.mark.usefixtures("one_blas_thread"), pytest.mark.slow]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Any:
    """Each of the three solvers."""
    return request.param


def at_rank(observations: Any, offsets: si.LowRank | None = None) -> si.Problem:
    if not isinstance(observations, si.Observations):
        observations = si.Observations.from_dense(np.asarray(observations, dtype=float))
    return si.Problem(observations, si.Rank(0.0), None, offsets)


def matrix(shape: tuple[int, int], rank: int, seed: int = 0) -> np.ndarray:
    """A random matrix of that rank with equal singular values and cells of order 1."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((size, rank))).Q for size in shape)
    return math.sqrt(shape[0] * shape[1]) * U @ V.T


@cache
def planted(
    shape: tuple[int, int], rank: int, share: float, *, noise: float = 0.0, offsets: bool = False
) -> tuple[si.Problem, np.ndarray]:
    """A problem, and the X that it was made of."""
    rng = np.random.default_rng(1)
    truth = matrix(shape, rank)
    data = truth + noise * rng.standard_normal(shape) + (biases(shape).to_dense() if offsets else 0.0)
    data[rng.random(shape) >= share] = NAN
    return at_rank(data, biases(shape) if offsets else None), truth


def noisy() -> si.Problem:
    return planted((50, 40), 2, 0.5, noise=0.3)[0]


def relative_error(x: si.LowRank, truth: np.ndarray) -> float:
    return float(np.linalg.norm(x.to_dense() - truth) / np.linalg.norm(truth))


def dense_tangent_gradient(problem: si.Problem, x: si.LowRank) -> float:
    """‖G − (I − P)G(I − Q)‖ with the gradient G of the fit and the projectors P, Q on the spaces of X."""
    X = x.to_dense()
    U, s, Vt = np.linalg.svd(X)
    r = int((s > 1e-10 * s[0]).sum())
    G = np.zeros(problem.shape)
    obs = problem.observations
    B = dense_offsets(problem)
    G[obs.rows, obs.cols] = (X + B)[obs.rows, obs.cols] - obs.values
    outside = U[:, r:] @ U[:, r:].T @ G @ Vt[r:].T @ Vt[r:]
    return float(np.linalg.norm(G - outside))


def zeros(problem: si.Problem) -> si.LowRank:
    return si.LowRank.zeros(problem.shape)


# ---------------------------------------------------------------- recovery, descent, rates
@pytest.mark.parametrize("offsets", [False, True], ids=["plain", "offsets"])
@pytest.mark.parametrize("name", SHAPES)
def test_planted_matrix_is_recovered(name, offsets, kind):
    """From half of the entries of a matrix of rank r, without noise, the whole matrix comes back."""
    shape, rank, share = SHAPES[name]
    problem, truth = planted(shape, rank, share, offsets=offsets)
    result = si.solve(problem, kind(rank=rank), max_iter=2000, tol=1e-9)
    assert result.status.converged
    assert result.x.rank == rank
    assert relative_error(result.x, truth) < 1e-7
    hidden = np.nonzero(np.ones(shape))
    full = truth + biases(shape).to_dense() if offsets else truth
    assert result.entries(*hidden) == pytest.approx(full[hidden], abs=1e-5)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("name", SHAPES)
def test_fit_falls_in_every_iteration(name, noise, kind):
    """The fit never rises, and is much smaller in the end than at the start."""
    shape, rank, share = SHAPES[name]
    problem, _ = planted(shape, rank, share, noise=noise)
    solver = kind(rank=rank)
    start = solver.init(problem, zeros(problem), Context(None, 0)).x
    history = si.solve(problem, solver, max_iter=40, tol=0).history
    fit = np.array([problem.terms(start).fit, *history["fit"]])
    assert np.diff(fit).max() <= 1e-12 * fit[0]
    assert fit[-1] < 0.5 * fit[0]
    assert history["objective"] == pytest.approx(history["fit"], rel=1e-15), "Rank(0) weighs nothing"


@pytest.mark.parametrize(
    ("solver", "ratio"), [(AltMin(rank=2), 0.5), (SunLuo(rank=2), 0.85), (OptSpace(rank=2), 0.9)]
)
def test_error_decays_geometrically(solver, ratio):
    """Over windows of 5 iterations the error falls at least by the ratio to the 5th, down to 1e-8."""
    problem, truth = planted((60, 50), 2, 0.5)
    errors: list[float] = []
    si.solve(
        problem,
        solver,
        max_iter=100,
        tol=0,
        callback=lambda info: errors.append(relative_error(info.x, truth)) or errors[-1] < 1e-8,
    )
    assert errors[-1] < 1e-8
    windows = np.array(errors[5:]) / np.array(errors[:-5])
    assert len(windows) > 5
    assert windows.max() < ratio**5


def test_all_three_find_the_same_minimum():
    """With noise the three end at the same objective, and at the same matrix."""
    runs = [si.solve(noisy(), kind(rank=2), max_iter=2000, tol=1e-9) for kind in KINDS]
    for run in runs[1:]:
        assert run.objective == pytest.approx(runs[0].objective, rel=1e-6)
        assert run.x.distance(runs[0].x) < 1e-5 * np.linalg.norm(runs[0].x.s)


# ---------------------------------------------------------------- first-order conditions
@pytest.mark.parametrize("offsets", [False, True], ids=["plain", "offsets"])
def test_certificate_is_the_gradient_along_the_tangent_space(offsets, kind):
    """In every iteration the certificate equals a dense computation from the projectors of X."""
    problem, _ = planted((50, 40), 2, 0.5, noise=0.3, offsets=offsets)
    dense: list[float] = []
    result = si.solve(
        problem,
        kind(rank=2),
        max_iter=6,
        tol=0,
        callback=lambda info: dense.append(dense_tangent_gradient(problem, info.x)),
    )
    assert result.history["certificate"] == pytest.approx(dense, rel=1e-8)
    assert min(dense) > 0


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_answer_is_stationary(noise, kind):
    """At convergence the gradient along the matrices of rank r is nothing against the data, with noise or without."""
    problem, _ = planted((50, 40), 2, 0.5, noise=noise)
    result = si.solve(problem, kind(rank=2), max_iter=2000, tol=1e-7)
    assert result.status.converged
    size = np.linalg.norm(problem.targets)
    assert result.history["certificate"][-1] < 1e-4 * size
    assert dense_tangent_gradient(problem, result.x) < 1e-4 * size
    start = kind(rank=2).init(problem, zeros(problem), Context(None, 0)).x
    assert tangent_gradient(problem, start, problem.at_observed(start)) > 1e-2 * size, "the start is not stationary"


def test_gradient_is_that_of_the_fit_by_finite_differences():
    """Along tangent directions the fit changes at most as fast as the certificate says, along one just so fast."""
    problem = noisy()
    x = si.solve(problem, AltMin(rank=2), max_iter=2, tol=0).x
    residual = si.LowRank.from_dense(np.zeros(problem.shape)).to_dense()
    residual[problem.observations.rows, problem.observations.cols] = problem.at_observed(x) - problem.targets
    P, Q = x.U @ x.U.T, x.V @ x.V.T
    steepest = P @ residual + residual @ Q - P @ residual @ Q
    size = tangent_gradient(problem, x, problem.at_observed(x))
    rng = np.random.default_rng(0)
    other = P @ rng.standard_normal(problem.shape)
    h = 1e-4

    def slope(direction: np.ndarray) -> float:
        step = h * direction / np.linalg.norm(direction)
        up, down = (
            problem.terms(si.LowRank.from_dense(np.asarray(x.to_dense() + sign * step))).fit for sign in (1, -1)
        )
        return (up - down) / (2 * h)

    assert slope(steepest) == pytest.approx(size, rel=1e-6)
    assert abs(slope(other)) < size


# ---------------------------------------------------------------- the rank
@pytest.mark.parametrize(("shape", "rank"), [((60, 60), 2), ((120, 80), 3), ((80, 160), 1)])
def test_planted_rank_is_guessed(shape, rank, kind):
    """Where no rank is given the planted one is found from the spectrum."""
    problem, _ = planted(shape, rank, 0.5, noise=0.1)
    assert si.solve(problem, kind(), max_iter=1).x.rank == rank


def test_guess_by_hand():
    """(σ_{i+1} + σ₁√(i/ε))/σ_i with σ = 10, 8, 1 and ε = 100·100/100 is 0.9, 0.302, so the rank is 2."""
    s = np.array([10.0, 8.0, 1.0])
    costs = [(8 + 10 * math.sqrt(1 / 100)) / 10, (1 + 10 * math.sqrt(2 / 100)) / 8]
    assert costs == pytest.approx([0.9, 0.3018], abs=1e-4)
    assert guess_rank(s, 10_000, (100, 100)) == 2
    # With 1 entry per row and column, ε = 1, taking a second triplet costs √2·σ₁ and is not worth it.
    assert [(8 + 10) / 10, (1 + 10 * math.sqrt(2)) / 8] == pytest.approx([1.8, 1.8928], abs=1e-4)
    assert guess_rank(s, 100, (100, 100)) == 1
    assert guess_rank(s, 100, (100, 1)) == 2, "the geometric mean of the sides counts"
    # With ε = 4 and σ = 10, 7, 3: (7 + 10/2)/10 = 1.2 < (3 + 10·√½)/7 = 1.44.
    assert guess_rank(np.array([10.0, 7.0, 3.0]), 400, (100, 100)) == 1
    assert guess_rank(s[:1], 100, (1, 100)) == 1
    assert guess_rank(np.zeros(4), 100, (10, 10)) == 1


@pytest.mark.parametrize(("rank", "max_rank", "expected"), [(3, None, 3), (None, 4, 4), (5, 2, 2), (2, 5, 2)])
def test_rank_and_max_rank(rank, max_rank, expected, kind):
    """The rank is the one given, or max_rank; where both are, the smaller."""
    result = si.solve(noisy(), kind(rank=rank), max_iter=2, max_rank=max_rank)
    assert result.x.rank == expected
    assert (result.history["rank"] == expected).all()


def test_weight_of_the_rank_does_not_enter(kind):
    """λ changes the objective by λ·r and nothing else."""
    free, weighed = (
        si.solve(si.Problem(noisy().observations, si.Rank(lam)), kind(rank=2), max_iter=4, tol=0)
        for lam in (0.0, 5.0)
    )
    assert free.x.s.tobytes() == weighed.x.s.tobytes()
    assert weighed.history["objective"] - free.history["objective"] == pytest.approx(np.full(4, 10.0))
    assert (free.objective_name, weighed.objective_name) == ("P", "P")


# ---------------------------------------------------------------- starts
def test_warm_start_at_the_solution_ends_at_once(kind):
    """From the solution one step is enough, however coherent it is, with the rank given or taken from x0."""
    rng = np.random.default_rng(3)
    data = matrix((40, 30), 2)
    data[:, 0] *= 30  # a column so long that the start would be clipped
    problem = at_rank(np.where(rng.random(data.shape) < 0.7, data, NAN))
    for rank in (2, None):
        result = si.solve(problem, kind(rank=rank), x0=si.LowRank.from_dense(data).truncated(2), tol=1e-6)
        assert (result.n_iter, result.status.code, result.x.rank) == (1, "converged", 2)
        assert relative_error(result.x, data) < 1e-7


def test_start_of_too_small_a_rank_is_not_used(kind):
    """An x0 with fewer triplets than the rank asked for gives the bits of a run without it."""
    x0 = si.LowRank.from_dense(matrix((50, 40), 1, seed=9)).truncated(1)
    with_it, without = (si.solve(noisy(), kind(rank=2), x0=start, max_iter=3, tol=0) for start in (x0, None))
    assert same_bits((with_it.x, with_it.history), (without.x, without.history))


def test_start_of_a_larger_rank_is_truncated(kind):
    """Of an x0 with more triplets than the rank asked for the leading ones are taken."""
    problem, truth = planted((50, 40), 2, 0.5)
    x = si.LowRank.from_dense(truth + 1e-3 * matrix((50, 40), 2, seed=5)).truncated(4)
    state = kind(rank=2).init(problem, x, Context(None, 0))
    assert state.x.rank == 2
    assert relative_error(state.x, truth) < 2e-3


def test_spectral_start_is_rescaled():
    """Of a matrix observed everywhere the start is the matrix; of half of its entries, near it and not half of it."""
    full, truth = planted((60, 50), 2, 1.0)
    start = SunLuo(rank=2).init(full, zeros(full), Context(None, 0)).x
    assert relative_error(start, truth) < 1e-5
    half, truth = planted((60, 50), 2, 0.5)
    start = SunLuo(rank=2).init(half, zeros(half), Context(None, 0)).x
    assert np.linalg.norm(start.s) == pytest.approx(np.linalg.norm(truth), rel=0.15)


def heavy_rows() -> tuple[si.Problem, np.ndarray]:
    """A few of the entries, but all those of the first five rows."""
    rng = np.random.default_rng(0)
    truth = matrix((150, 120), 2)
    share = np.full(truth.shape, 0.15)
    share[:5] = 1.0
    return at_rank(np.where(rng.random(truth.shape) < share, truth, NAN)), truth


def test_trimming_by_hand():
    """With a mean of 2 per row, a row of 4 counts as 2 for trim = 1, each of its entries half; columns likewise."""
    problem = at_rank([[8, 8, 8, 8], [8, NAN, NAN, NAN], [8, NAN, NAN, NAN]])
    # 6 entries: rows of 4, 1, 1 with a mean of 2; columns of 3, 1, 1, 1 with a mean of 1.5
    assert _trimmed(problem, 1.0) == pytest.approx([2, 4, 4, 4, 4, 4])
    assert _trimmed(problem, 1.5) == pytest.approx([4.5, 6, 6, 6, 6, 6])
    assert _trimmed(problem, math.inf) == pytest.approx(problem.targets)


def test_start_of_optspace_is_trimmed():
    """Rows of which all is known would shape the leading vectors; trimmed they weigh about what they should."""
    problem, truth = heavy_rows()
    left = np.linalg.svd(truth)[0][:, :2]
    weights = {}
    errors = {}
    for trim in (2.0, math.inf):
        start = OptSpace(rank=2, trim=trim).init(problem, zeros(problem), Context(None, 0)).left
        weights[trim] = float(np.sum(start[:5] ** 2))
        errors[trim] = float(np.linalg.norm(left - start @ (start.T @ left)))
    due = float(np.sum(left[:5] ** 2))
    assert weights[math.inf] > 6 * due
    assert weights[2.0] < 4 * due, "counted as twice the mean, so up to four times the weight"
    assert errors[2.0] < 0.95 * errors[math.inf]
    result = si.solve(problem, OptSpace(rank=2), max_iter=1000, tol=1e-7)
    assert relative_error(result.x, truth) < 1e-5


# ---------------------------------------------------------------- odd data
def test_lanes_with_few_entries(kind):
    """Rows and columns with no entry are 0 in the answer, those with one do no harm, and the rest is recovered."""
    problem, truth = planted((50, 40), 2, 0.6)
    dense = np.full(problem.shape, NAN)
    dense[problem.observations.rows, problem.observations.cols] = problem.observations.values
    dense[3], dense[:, 5] = NAN, NAN
    dense[7, 1:], dense[7, 0] = NAN, truth[7, 0]
    dense[1:, 9], dense[0, 9] = NAN, truth[0, 9]
    X = si.solve(at_rank(dense), kind(rank=2), max_iter=1000, tol=1e-7).x.to_dense()
    assert np.abs(X[3]).max() < 1e-9
    assert np.abs(X[:, 5]).max() < 1e-9
    near = 0.02 if kind is OptSpace else 1e-3  # plain descent is slow where next to nothing is known
    if kind is not OptSpace:
        assert (X[7, 0], X[0, 9]) == pytest.approx((truth[7, 0], truth[0, 9]), abs=near)
    well = np.ix_(np.setdiff1d(np.arange(50), [3, 7]), np.setdiff1d(np.arange(40), [5, 9]))
    assert X[well] == pytest.approx(truth[well], abs=near)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_rank_larger_than_a_side(shape, kind):
    """A rank above the smaller side is that side, and every entry is fitted."""
    problem, _ = planted(shape, 3, 0.7, noise=0.3)
    result = si.solve(problem, kind(rank=10), max_iter=500, tol=1e-9)
    assert result.x.rank == min(shape)
    assert problem.at_observed(result.x) == pytest.approx(problem.targets, abs=1e-5)


ODD = {
    "single row": [[1, 5, NAN, 3, NAN]],
    "single column": [[1], [NAN], [4]],
    "one cell": [[3]],
    "one observation": [[NAN, NAN, NAN], [NAN, 4, NAN]],
    "constant": [[3, 3, NAN], [3, NAN, 3], [NAN, 3, 3], [3, 3, 3]],
    "all zero": [[0, 0, NAN], [0, NAN, 0]],
}


@pytest.mark.parametrize("rank", [1, None])
@pytest.mark.parametrize("name", ODD)
def test_odd_matrices_of_rank_one_are_fitted(name, rank, kind):
    """Tables that a matrix of rank 1 fits are fitted, down to a single cell and to nothing but zeros."""
    problem = at_rank(ODD[name])
    result = si.solve(problem, kind(rank=rank), max_iter=500, tol=1e-10)
    assert result.status.converged
    assert result.x.rank == 1
    assert problem.at_observed(result.x) == pytest.approx(problem.targets, abs=1e-6)


@pytest.mark.parametrize(("name", "iterations"), [("all zero", 60), ("one cell", 1100)])
def test_going_on_at_an_exact_solution(name, iterations, kind):
    """Where the gradient is 0 a run with tol = 0 stands still for any number of iterations."""
    problem = at_rank(ODD[name])
    result = si.solve(problem, kind(rank=1), max_iter=iterations, tol=0, evaluate_every=iterations)
    assert (result.status.code, result.n_iter) == ("max_iter", iterations)
    assert problem.at_observed(result.x) == pytest.approx(problem.targets, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scale_does_not_matter(scale, kind):
    """Data times a constant give the solution times that constant."""
    o = noisy().observations
    scaled = at_rank(si.Observations.from_coo(o.rows, o.cols, scale * o.values, o.shape))
    one, other = (si.solve(problem, kind(rank=2), max_iter=500, tol=1e-6) for problem in (noisy(), scaled))
    assert other.status.converged
    assert other.x.to_dense() / scale == pytest.approx(one.x.to_dense(), abs=1e-3)
    assert other.objective / scale**2 == pytest.approx(one.objective, rel=1e-6)


# ---------------------------------------------------------------- how a run goes


def test_interrupted_run_returns_the_best_and_can_go_on(kind):
    """Ctrl-C gives the best iterate so far; passed as x0, also without naming the rank, it is gone on from."""

    def interrupt(info: Info) -> None:
        if info.iteration == 4:
            raise KeyboardInterrupt

    problem, _ = planted((60, 60), 2, 0.5, noise=0.1)
    result = si.solve(problem, kind(), max_iter=50, tol=0, callback=interrupt)
    assert (result.status.code, result.n_iter) == ("interrupted", 4)
    assert result.objective == result.history["objective"].min()
    assert problem.objective(result.x, "P") == pytest.approx(result.objective, rel=1e-10)
    on = si.solve(problem, kind(), x0=result.x, max_iter=2, tol=0)
    assert on.history["objective"].max() <= result.objective * (1 + 1e-10)


# ---------------------------------------------------------------- the parts
def test_geodesic_stays_on_the_manifold_and_has_the_velocity():
    """The end is orthonormal and at the angles asked for; near the start it moves along the direction."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((20, 4))).Q * [1, -1, 1, -1]
    D = rng.standard_normal((20, 4))
    D -= U @ (U.T @ D)
    for length in (0.0, 1e-3, 0.3, 5.0):
        end = _geodesic(U, length * D)
        assert end.T @ end == pytest.approx(np.eye(4), abs=1e-13)
    assert _geodesic(U, 0 * D) == pytest.approx(U, abs=1e-14), "not even a sign changes"
    h = 1e-5
    assert (_geodesic(U, h * D) - _geodesic(U, -h * D)) / (2 * h) == pytest.approx(D, abs=1e-8)
    angles = 0.1 * np.linalg.svd(D, compute_uv=False)
    cosines = np.linalg.svd(U.T @ _geodesic(U, 0.1 * D), compute_uv=False)
    assert np.sort(np.arccos(cosines)) == pytest.approx(np.sort(angles), rel=1e-9)


@pytest.mark.parametrize("share", [0.6, 0.06], ids=["enough entries", "fewer than unknowns"])
def test_middle_is_the_least_squares_solution(share):
    """The S found by conjugate gradients fits like numpy's least squares; where that is unique, it is the same."""
    problem, _ = planted((20, 15), 3, share, noise=0.5)
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((size, 5))).Q for size in problem.shape)
    obs = problem.observations
    design = np.einsum("pk,pl->pkl", U[obs.rows], V[obs.cols]).reshape(len(obs), 25)
    expected = np.linalg.lstsq(design, problem.targets, rcond=None)[0]
    found = _solve_middle(problem, U, V, np.zeros((5, 5)))
    assert design @ found.ravel() == pytest.approx(design @ expected, abs=1e-8)
    assert (len(obs) < 25) == (share == 0.06)
    if len(obs) >= 25:
        assert found.ravel() == pytest.approx(expected, abs=1e-8)
        away = _solve_middle(problem, U, V, rng.standard_normal((5, 5)))
        assert away.ravel() == pytest.approx(expected, abs=1e-8)


def test_barrier_by_hand_and_by_finite_differences():
    """ρ(z − 1)₊² of z = 3‖u‖²/2β² for the rows and the whole; its gradient is that of finite differences."""
    barrier = Barrier(rho=2.0, row=3.0, whole=6.0)
    U = np.array([[2.0, 0.0], [0.0, 1.0]])
    # Rows: z = 1.5·4/3 = 2 and 1.5·1/3 = 0.5; the whole: z = 1.5·5/6 = 1.25.
    assert barrier.value(U) == pytest.approx(2 * (1 + 0.25**2))
    assert barrier.value(0.5 * U) == 0
    assert not barrier.gradient(0.5 * U).any()
    rng = np.random.default_rng(0)
    U = rng.standard_normal((6, 3))
    h, numeric = 1e-6, np.zeros_like(U)
    for cell in np.ndindex(*U.shape):
        E = np.zeros_like(U)
        E[cell] = h
        numeric[cell] = (barrier.value(U + E) - barrier.value(U - E)) / (2 * h)
    assert np.abs(numeric).max() > 1
    assert barrier.gradient(U) == pytest.approx(numeric, rel=1e-6, abs=1e-6)


def test_barrier_is_felt():
    """Bounds from a start far too small keep the factors small; without barriers the truth is found from there."""
    problem, truth = planted((50, 40), 2, 0.5)
    x0 = si.LowRank.from_dense(0.01 * truth).truncated(2)
    held, free = (si.solve(problem, SunLuo(rank=2, rho=rho), x0=x0, max_iter=500, tol=1e-7) for rho in (1e6, 0.0))
    assert relative_error(free.x, truth) < 1e-4
    whole = 5 * 2 * float(x0.s[0])  # β_T²
    assert held.x.s.sum() < whole, "‖U‖² stays at about 2β_T²/3"
    assert held.x.s.sum() > 2 * float(x0.s.sum()), "and the data pull against it"
    assert free.x.s.sum() > 5 * whole


def test_barriers_are_not_felt_at_an_incoherent_solution():
    """At the default bounds a run with barriers takes the steps of one without."""
    with_barriers, without = (si.solve(noisy(), SunLuo(rank=2, rho=rho), max_iter=30, tol=0) for rho in (1e6, 0.0))
    assert same_bits((with_barriers.x, with_barriers.history), (without.x, without.history))


def test_length_of_barzilai_and_borwein():
    """On a quadratic the length is 1/curvature along the step; without curvature there is none."""
    A = np.diag([1.0, 4.0])
    old, new = (np.zeros((2, 1)), np.zeros((2, 1))), (np.array([[3.0], [0.0]]), np.array([[0.0], [4.0]]))
    gradients = tuple(A @ f for f in old), tuple(A @ f for f in new)
    # ⟨s, s⟩ = 25, ⟨s, As⟩ = 9·1 + 16·4 = 73
    assert _barzilai_borwein(old, new, *gradients) == pytest.approx(25 / 73)
    bowl = tuple(7.0 * f for f in old), tuple(7.0 * f for f in new)
    assert _barzilai_borwein(old, new, *bowl) == pytest.approx(1 / 7)
    assert _barzilai_borwein(old, new, *(tuple(-f for f in pair) for pair in gradients)) is None
    assert _barzilai_borwein(old, old, gradients[0], gradients[0]) is None
