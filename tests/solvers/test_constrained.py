"""SVT, SDP and low rank plus sparse: optimality conditions, a modelling tool's optimum, recovery, refusals."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import snapimpute as si
from snapimpute.solvers import SDP, SVT, LowRankSparse, Result
from snapimpute.solvers.base import Context
from snapimpute.solvers.classical import sdp
from snapimpute.solvers.classical.sparse import split
from tests.helpers import biases, dense_offsets

NAN = np.nan


pytestmark = [pytest.mark.usefixtures("one_blas_thread"), pytest.mark.slow]


@pytest.fixture(scope="session")
def cp() -> Any:
    """The modelling tool, or skip the test."""
    return pytest.importorskip("cvxpy", reason="the modelling tool is an optional dependency")


@cache
def planted(shape: tuple[int, int], rank: int, share: float, offsets: bool = False) -> tuple[si.Problem, np.ndarray]:
    """A problem without noise, and the X that it was made of."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    data = truth + biases(shape).to_dense() if offsets else truth.copy()
    data[rng.random(shape) >= share] = NAN
    observations = si.Observations.from_dense(data)
    return si.Problem(observations, si.Nuclear(1.0), None, biases(shape) if offsets else None), truth


def on_cells(problem: si.Problem, values: np.ndarray) -> np.ndarray:
    out = np.zeros(problem.shape)
    out[problem.observations.rows, problem.observations.cols] = values
    return out


def thresholded(Y: np.ndarray, tau: float) -> np.ndarray:
    U, s, Vt = np.linalg.svd(Y, full_matrices=False)
    return (U * np.maximum(s - tau, 0)) @ Vt


def residual(problem: si.Problem, x: si.LowRank) -> float:
    missing = problem.at_observed(x) - problem.targets
    return float(np.linalg.norm(missing) / np.linalg.norm(problem.targets))


# ---------------------------------------------------------------- SVT
@pytest.mark.parametrize(
    ("tau", "delta", "offsets"), [(5.0, 1.0, False), (20.0, 1.9, False), (100.0, None, False), (5.0, 1.0, True)]
)
def test_fixed_point_satisfies_the_optimality_conditions(tau, delta, offsets):
    """At the answer X = SVT_τ(Y) with a Y that is 0 off Ω, and P_Ω(X) = P_Ω(O): the KKT conditions, densely."""
    problem, _ = planted((16, 12), 1, 0.85, offsets)
    result = si.solve(problem, SVT(tau=tau, delta=delta), max_iter=5000, tol=1e-7, evaluate_every=5000)
    assert result.status.converged
    X, Y = result.x.to_dense(), on_cells(problem, result.extras["dual"])
    size = np.linalg.norm(problem.targets)
    assert result.extras["dual"].shape == (len(problem.observations),)
    assert np.linalg.norm(thresholded(Y, tau) - X) < 1e-6 * size
    assert residual(problem, result.x) <= 1e-7
    # Y − X is τ times a subgradient of the nuclear norm at X.
    G = (Y - X) / tau
    assert np.linalg.norm(G, 2) <= 1 + 1e-6
    assert np.sum(G * X) == pytest.approx(result.x.s.sum(), rel=1e-6)


def test_no_other_feasible_matrix_is_better():
    """τ‖X‖_* + ½‖X‖² rises along any direction that keeps the observed entries."""
    problem, _ = planted((16, 12), 1, 0.85)
    X = si.solve(problem, SVT(tau=10.0, delta=1.9), max_iter=5000, tol=1e-8, evaluate_every=5000).x.to_dense()

    def value(Z: np.ndarray) -> float:
        return 10.0 * np.linalg.svd(Z, compute_uv=False).sum() + 0.5 * float(np.sum(Z**2))

    off = on_cells(problem, np.ones(len(problem.observations))) == 0
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1):
        for _ in range(10):
            assert value(X + size * off * rng.standard_normal(X.shape)) > value(X)


def test_large_tau_gives_nearly_the_least_nuclear_norm(cp):
    """The nuclear norm at the answer falls towards the least one as τ grows."""
    problem, _ = planted((16, 12), 1, 0.85)
    least = si.solve(problem, SDP()).objective
    runs = [
        si.solve(problem, SVT(tau=tau, delta=1.9), max_iter=5000, tol=1e-5, evaluate_every=5000)
        for tau in (1.0, 10.0, 100.0)
    ]
    excess = [run.objective / least - 1 for run in runs]
    assert excess[0] > 0.1
    assert 0.1 > excess[1] > 0.01
    assert abs(excess[2]) < 1e-4


def test_planted_matrix_is_recovered_with_the_authors_parameters():
    """With τ = 5√(mn) and δ = 1.2mn/|Ω| a matrix of rank 2 comes back, to about the residual asked for."""
    problem, truth = planted((100, 80), 2, 0.4)
    result = si.solve(problem, SVT(), tol=1e-4)
    assert result.status.converged
    assert SVT().parameters(problem) == pytest.approx((5 * math.sqrt(8000), 1.2 * 8000 / len(problem.observations)))
    assert np.linalg.norm(result.x.to_dense() - truth) < 1e-3 * np.linalg.norm(truth)
    assert result.x.rank == 2


def test_tol_is_the_residual_and_the_history_that_of_the_constrained_problem():
    """A run ends at the first residual up to tol; the objective is ‖X‖_*, the fit half the squared violation."""
    problem, _ = planted((20, 15), 2, 0.7)
    seen: list[float] = []
    result = si.solve(problem, SVT(tau=50.0), tol=1e-3, callback=lambda info: seen.append(residual(problem, info.x)))
    assert result.status.code == "converged"
    assert f"the relative residual on Ω fell to {seen[-1]:.1e}" in result.status.message
    assert seen[-1] <= 1e-3 < min(seen[:-1])
    assert result.objective_name == "C"
    assert result.objective == pytest.approx(np.linalg.svd(result.x.to_dense(), compute_uv=False).sum())
    assert result.history["objective"] == pytest.approx(result.history["spectral"])
    size = np.linalg.norm(problem.targets)
    assert result.history["fit"] == pytest.approx(0.5 * (size * np.array(seen)) ** 2)


@pytest.mark.parametrize(("tau", "delta"), [(50.0, 1.0), (50.0, 0.3), (0.1, 1.0)])
def test_kick(tau, delta):
    """Y begins at k₀δP_Ω(O) with the least k₀ that makes the first X anything but 0."""
    problem, _ = planted((20, 15), 2, 0.7)
    context = Context(None, 0)
    state = SVT(tau=tau, delta=delta).init(problem, si.LowRank.zeros(problem.shape), context)
    norm = np.linalg.norm(on_cells(problem, problem.targets), 2)
    k0 = math.ceil(tau / (delta * norm))
    assert state.dual == pytest.approx(k0 * delta * problem.targets)
    assert SVT(tau=tau, delta=delta).step(problem, state, context).x.rank > 0
    assert not thresholded(on_cells(problem, (k0 - 1) * delta * problem.targets), tau).any(), "one less gives 0"


def test_weight_of_the_nuclear_norm_does_not_enter():
    """λ changes nothing: neither the iterates nor the objective."""
    observations = planted((20, 15), 2, 0.7)[0].observations
    runs = [si.solve(si.Problem(observations, si.Nuclear(lam)), SVT(), max_iter=20, tol=0) for lam in (0.0, 7.0)]
    assert runs[0].x.s.tobytes() == runs[1].x.s.tobytes()
    assert runs[0].objective == runs[1].objective


@pytest.mark.parametrize("delta", [10.0, 1e4])
def test_divergence_is_noticed(delta):
    """Steps far too long end in numbers that are not finite; the answer is then the iterate of least residual."""
    problem, _ = planted((20, 15), 2, 0.7)
    seen: list[float] = []
    result = si.solve(
        problem,
        SVT(delta=delta),
        max_iter=1000,
        tol=1e-8,
        callback=lambda info: seen.append(residual(problem, info.x)),
    )
    assert result.status.code == "diverged"
    assert "the best iterate so far" in result.status.message
    assert residual(problem, result.x) == pytest.approx(min(seen))
    assert seen[-1] > 1e6 * min(seen)


def test_all_zero_data_of_svt():
    """Nothing but zeros is matched by the zero matrix at once."""
    problem = si.Problem(si.Observations.from_dense([[0, 0, NAN], [0, NAN, 0]]), si.Nuclear(1.0))
    result = si.solve(problem, SVT())
    assert (result.status.code, result.n_iter, result.x.rank) == ("converged", 1, 0)


# ---------------------------------------------------------------- SDP
def random_table(shape: tuple[int, int], offsets: bool = False) -> si.Problem:
    rng = np.random.default_rng(5)
    data = np.where(rng.random(shape) < 0.5, rng.integers(1, 6, shape), NAN)
    return si.Problem(si.Observations.from_dense(data), si.Nuclear(3.0), None, biases(shape) if offsets else None)


@pytest.mark.parametrize("offsets", [False, True], ids=["plain", "offsets"])
@pytest.mark.parametrize("shape", [(8, 6), (12, 10)], ids=str)
def test_least_nuclear_norm_is_that_of_the_modelling_tool(shape, offsets, cp):
    """The value is the least ‖X‖_*, not twice that, whatever λ; the observed entries, less offsets, are kept."""
    problem = random_table(shape, offsets)
    obs = problem.observations
    result = si.solve(problem, SDP())
    X = cp.Variable(shape)
    B = dense_offsets(problem)
    model = cp.Problem(cp.Minimize(cp.normNuc(X)), [X[obs.rows, obs.cols] == obs.values - B[obs.rows, obs.cols]])
    model.solve(solver=cp.CLARABEL)
    assert result.objective == pytest.approx(float(model.value), rel=1e-6)
    assert result.objective == pytest.approx(np.linalg.svd(result.x.to_dense(), compute_uv=False).sum(), rel=1e-9)
    assert result.entries(obs.rows, obs.cols) == pytest.approx(obs.values, abs=1e-6)
    assert (result.status.code, result.n_iter, result.objective_name) == ("converged", 1, "C")
    assert "Solved in one go" in result.status.message


def test_planted_matrix_is_recovered_by_the_programme(cp):
    """Of a matrix of rank 1 with enough entries the rest is found to the accuracy of the interior-point method."""
    problem, truth = planted((14, 12), 1, 0.9)
    result = si.solve(problem, SDP())
    assert result.x.to_dense() == pytest.approx(truth, abs=1e-5)
    assert result.x.s[1:].max(initial=0.0) < 1e-5 * result.x.s[0]
    assert si.solve(problem, SDP(), max_rank=1).x.rank == 1


def test_large_programme_is_refused_before_any_work(monkeypatch):
    """A table too large is refused with the memory that it would take and what to use instead."""
    problem, truth = planted((100, 60), 2, 0.3)
    worked: list[si.Problem] = []
    monkeypatch.setattr(sdp, "_solved", lambda p: worked.append(p) or truth)
    # (160·161/2)² numbers of 8 bytes
    with pytest.raises(
        ValueError, match=r"100×60 table has linear systems of about 1\.2 GiB, more than max_gib=1: use SVT"
    ):
        si.solve(problem, SDP())
    assert not worked
    assert si.solve(problem, SDP(max_gib=1.3)).x.to_dense() == pytest.approx(truth)
    assert len(worked) == 1


def test_missing_modelling_tool_names_the_extra(monkeypatch):
    """Without the modelling tool the error says what to install."""

    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(sdp, "import_module", missing)
    with pytest.raises(ImportError, match=r'the solver SDP needs cvxpy: pip install "snapimpute\[sdp\]"'):
        si.solve(random_table((8, 6)), SDP())


# ---------------------------------------------------------------- low rank plus sparse: the split
def check_split(free: np.ndarray, edge: float, delta: float) -> None:
    """The KKT conditions of min edge‖B‖₁ + ½‖N − B − Z‖² under ‖Z‖ ≤ δ, which is convex."""
    B, Z = split(free, edge, delta)
    w, scale = free - B - Z, max(float(np.abs(free).max()), delta)
    assert np.linalg.norm(Z) <= delta * (1 + 1e-9)
    assert np.abs(w).max() <= edge * (1 + 1e-9) + 1e-12 * scale
    wrong = B != 0
    assert w[wrong] == pytest.approx(edge * np.sign(B[wrong]), rel=1e-6, abs=1e-9 * scale)
    size = float(np.linalg.norm(w))
    if size > 1e-9 * scale and delta > 0:
        assert np.linalg.norm(Z) == pytest.approx(delta, rel=1e-9), "the constraint is active"
        assert_allclose(Z, delta * w / size, rtol=1e-6, atol=1e-9 * scale, err_msg="and Z along w")


@given(
    st.lists(st.floats(-20, 20, width=16), min_size=1, max_size=8),
    st.floats(0.01, 10),
    st.sampled_from([0.0, 1e-3, 0.5, 3.0, 20.0]),
)
def test_split_satisfies_the_optimality_conditions(free, edge, delta):
    """B and Z satisfy the conditions that make them the minimum, for any data, weight and allowance."""
    check_split(np.array(free), edge, delta)


def test_split_by_hand():
    """Without an allowance B is the soft threshold; with one as large as the data all is rest."""
    free = np.array([3.0, -0.5, -2.0, 0.0])
    B, Z = split(free, 1.0, 0.0)
    assert_allclose(B, [2, 0, -1, 0], atol=1e-15)
    assert not Z.any()
    B, Z = split(free, 1.0, 4.0)
    assert not B.any()
    assert free == pytest.approx(Z)
    # One entry: w = 1 is all that is left of 3, Z takes its δ = 0.5, and B the other 1.5.
    assert np.concatenate(split(np.array([3.0]), 1.0, 0.5)) == pytest.approx([1.5, 0.5])
    # Just above the allowance B is still 0.
    assert np.concatenate(split(np.array([3.0]), 1.0, 2.9)) == pytest.approx([0, 2.9])


@pytest.mark.parametrize("delta", [0.0, 0.5, 2.0])
def test_split_is_the_minimum_of_the_modelling_tool(delta, cp):
    """The value of the split is the least one a modelling tool finds."""
    free = 3 * np.random.default_rng(0).standard_normal(7)
    B, Z = split(free, 0.8, delta)
    b, z = cp.Variable(7), cp.Variable(7)
    model = cp.Problem(cp.Minimize(0.8 * cp.norm1(b) + 0.5 * cp.sum_squares(free - b - z)), [cp.norm(z) <= delta])
    model.solve(solver=cp.CLARABEL)
    assert 0.8 * np.abs(B).sum() + 0.5 * np.sum((free - B - Z) ** 2) == pytest.approx(float(model.value), rel=1e-6)


# ---------------------------------------------------------------- low rank plus sparse: the solver
@pytest.mark.parametrize("offsets", [False, True], ids=["plain", "offsets"])
@pytest.mark.parametrize("delta", [0.0, 0.5])
def test_optimum_of_low_rank_plus_sparse_is_that_of_the_modelling_tool(delta, offsets, cp):
    """λ‖A‖_* + τ‖B‖₁ at the answer is the least one under the constraint, which is kept."""
    plain, _ = planted((8, 6), 2, 0.7, offsets)
    problem = si.Problem(plain.observations, si.Nuclear(1.5), None, plain.offsets)
    obs, tau = problem.observations, 0.6
    A, B = cp.Variable(problem.shape), cp.Variable(len(obs))
    rest = problem.targets - A[obs.rows, obs.cols] - B
    model = cp.Problem(
        cp.Minimize(1.5 * cp.normNuc(A) + tau * cp.norm1(B)), [cp.norm(rest) <= delta if delta else rest == 0]
    )
    model.solve(solver=cp.CLARABEL)
    result = si.solve(problem, LowRankSparse(tau=tau, delta=delta), max_iter=5000, tol=1e-8, evaluate_every=5000)
    assert result.status.converged
    assert result.objective == pytest.approx(float(model.value), rel=1e-5)
    errors = result.extras["errors"]
    assert result.objective == pytest.approx(1.5 * result.x.s.sum() + tau * np.abs(errors).sum(), rel=1e-9)
    left = problem.targets - problem.at_observed(result.x) - errors
    assert np.linalg.norm(left) == pytest.approx(delta, abs=1e-6)
    assert 0 < np.count_nonzero(errors) < len(obs), "both terms are at work"


@cache
def corrupted() -> tuple[si.Problem, np.ndarray, np.ndarray]:
    """100×100 of rank 2, of which 60 % are observed, of which 5 % are grossly wrong; the truth; the errors on Ω."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 100))
    known = rng.random(truth.shape) < 0.6
    wrong = known & (rng.random(truth.shape) < 0.05)
    errors = np.where(wrong, rng.choice([-1, 1], truth.shape) * rng.uniform(1, 10, truth.shape), 0)
    observations = si.Observations.from_dense(np.where(known, truth + errors, NAN))
    return si.Problem(observations, si.Nuclear(1.0)), truth, errors[observations.rows, observations.cols]


@cache
def cleaned() -> Result:
    return si.solve(corrupted()[0], LowRankSparse(), max_iter=500, tol=1e-7)


def test_gross_errors_are_found_and_the_rest_recovered():
    """With the default weight the matrix comes back exactly, and the errors are those planted, all and no others."""
    _, truth, errors = corrupted()
    result = cleaned()
    assert result.status.converged
    assert np.linalg.norm(result.x.to_dense() - truth) < 1e-4 * np.linalg.norm(truth)
    found = result.extras["errors"]
    assert ((found != 0) == (errors != 0)).all()
    assert found == pytest.approx(errors, abs=1e-3)
    assert result.history["errors"][-1] == np.count_nonzero(errors)
    assert result.x.rank == 2


def test_without_the_sparse_part_the_errors_spoil_the_matrix():
    """Without a sparse part the answer is far from the truth, so that the test above says something."""
    problem, truth, _ = corrupted()
    x = si.solve(problem, si.solvers.APG(), max_iter=200).x
    assert np.linalg.norm(x.to_dense() - truth) > 0.1 * np.linalg.norm(truth)


def test_history_of_low_rank_plus_sparse():
    """The objective is λ‖A‖_* + τ‖B‖₁ with the default τ, the fit the violation that is left."""
    problem, _, _ = corrupted()
    result = cleaned()
    tau = 1 / math.sqrt(100 * problem.observations.density)
    beta = 0.15 * len(problem.observations) / np.abs(problem.targets).sum()
    assert LowRankSparse().parameters(problem) == pytest.approx((tau, beta))
    errors = result.extras["errors"]
    assert result.objective_name == "C"
    assert result.objective == pytest.approx(result.x.s.sum() + tau * np.abs(errors).sum())
    left = problem.targets - problem.at_observed(result.x) - errors
    assert result.history["fit"][-1] == pytest.approx(0.5 * float(left @ left), abs=1e-15)
    assert np.linalg.norm(left) <= 1e-7 * np.linalg.norm(problem.targets)


def test_splitting_parameter_does_not_change_the_optimum():
    """Any β leads to the same value; only the way there differs."""
    problem, _ = planted((12, 10), 2, 0.7)
    runs = [
        si.solve(problem, LowRankSparse(tau=0.4, beta=beta), max_iter=2000, tol=1e-6, evaluate_every=2000)
        for beta in (None, 0.5, 1.0)
    ]
    assert len({run.n_iter for run in runs}) > 1
    for run in runs[1:]:
        assert run.status.converged
        assert run.objective == pytest.approx(runs[0].objective, rel=1e-5)


def test_warm_start_of_low_rank_plus_sparse():
    """A start at the solution ends there."""
    problem, _, _ = corrupted()
    again = si.solve(problem, LowRankSparse(), x0=cleaned().x, max_iter=500, tol=1e-7)
    assert again.x.distance(cleaned().x) < 1e-5 * np.linalg.norm(cleaned().x.s)


def test_nothing_to_split_is_refused():
    """λ = 0 and data that are all zero leave nothing to weigh, and are refused at once."""
    observations = planted((8, 6), 2, 0.7)[0].observations
    zero = si.Observations.from_dense([[0, 0, NAN], [0, NAN, 0]])
    for problem in (si.Problem(observations, si.Nuclear(0.0)), si.Problem(zero, si.Nuclear(1.0))):
        with pytest.raises(ValueError, match="needs λ > 0 and data that are not all zero"):
            si.solve(problem, LowRankSparse())
