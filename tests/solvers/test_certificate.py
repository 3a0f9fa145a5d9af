"""The duality gap: a lower bound that holds for any X, tight at the optimum, and refused where there is no dual."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import snapimpute as si
from snapimpute.linalg import svd
from snapimpute.penalties import DiscretePenalty
from snapimpute.solvers import ALS, APG, Certificate, certify
from tests.helpers import dense_offsets
from tests.solvers.dense import gradient, hidden, least_envelope

pytestmark = pytest.mark.slow

SHAPE = (12, 10)
DISCRETE: dict[str, DiscretePenalty | None] = {
    "plain": None,
    "l1": si.L1("1:5", xi=0.12),
    "weighted": si.L1("1:5", xi=0.12, weights=[0.2, 0.5, 1.3, 2.0, 1.0]),
    "ridge": si.Ridge(center=3.0, xi=0.2),
}
KINDS = ["zero", "early", "late", "low rank", "large", "huge"]
every_problem = pytest.mark.parametrize(
    ("name", "biased", "lam"),
    [(name, biased, lam) for name in DISCRETE for biased, lam in ((False, 1.0), (True, 2.5))],
)
every_kind = pytest.mark.parametrize("kind", KINDS)


@cache
def toy_problem(name: str, biased: bool, lam: float) -> si.Problem:
    """A small convex problem, with biases or without."""
    data = si.datasets.low_rank_alphabet(SHAPE, 2, "1:5", observed=0.55, random_state=2)
    rng = np.random.default_rng(4)
    biases = si.LowRank(rng.normal(size=(SHAPE[0], 2)), np.array([0.8, 0.3]), rng.normal(size=(SHAPE[1], 2)))
    return si.Problem(data.observations, si.Nuclear(lam), DISCRETE[name], biases if biased else None)


@cache
def best(name: str, biased: bool, lam: float) -> si.LowRank:
    """The end of a very long run."""
    problem = toy_problem(name, biased, lam)
    result = si.solve(problem, APG(), tol=1e-11, max_iter=20_000, evaluate_every=20_000)
    assert result.status.converged
    return result.x


@cache
def modelled_optimum(name: str, biased: bool, lam: float) -> float:
    return least_envelope(toy_problem(name, biased, lam))


def dense_data(problem: si.Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where something was observed, what, and the offsets."""
    return ~hidden(problem.observations), problem.observations.to_sparse().toarray(), dense_offsets(problem)


def matrix(kind: str, name: str, biased: bool, lam: float) -> si.LowRank:
    """An X of some kind, near the optimum or far from it."""
    rng = np.random.default_rng(len(kind))
    if kind == "zero":
        return si.LowRank.zeros(SHAPE)
    if kind == "early":
        return si.solve(toy_problem(name, biased, lam), "soft-impute", max_iter=3, tol=0).x
    if kind == "late":
        return best(name, biased, lam)
    if kind == "low rank":
        return si.LowRank.from_dense(rng.normal(size=(SHAPE[0], 2)) @ rng.normal(size=(2, SHAPE[1]))).truncated(2)
    return si.LowRank.from_dense({"large": 1e3, "huge": 1e10}[kind] * rng.normal(size=SHAPE))


# ---------------------------------------------------------------- the bound holds
@every_kind
@every_problem
def test_the_bound_never_exceeds_the_optimum(name, biased, lam, kind):
    """Whatever X is, the optimum lies between the bounds: that of an interior-point method and that of a long run."""
    problem = toy_problem(name, biased, lam)
    certificate = certify(problem, matrix(kind, name, biased, lam))
    for optimum, rounding in (
        (modelled_optimum(name, biased, lam), 1e-7),
        (problem.objective(best(name, biased, lam)), 1e-12),
    ):
        assert certificate.bound <= optimum * (1 + rounding)
        assert certificate.objective >= optimum * (1 - rounding)
    assert certificate.gap == max(certificate.objective - certificate.bound, 0)


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("scale", [1e6, 1e10])
def test_rounding_does_not_lift_the_bound_far_from_the_optimum(name, scale):
    """Where E(X) has no digits left for the optimum, the bound still has: it is no difference of large numbers."""
    problem, rng = toy_problem(name, False, 1.0), np.random.default_rng(0)
    optimum = problem.objective(best(name, False, 1.0))
    for _ in range(8):
        X = scale * rng.normal(size=SHAPE)
        bound = certify(problem, si.LowRank.from_dense(X)).bound
        assert bound < optimum
        if name == "plain":
            mask, data, _ = dense_data(problem)
            y = gradient(problem, X)[mask] / np.linalg.norm(gradient(problem, X), 2)
            assert bound == pytest.approx(-np.sum(y * data[mask] + 0.5 * y**2), abs=1e-9)


@st.composite
def convex_problems(draw: st.DrawFn) -> tuple[si.Problem, np.random.Generator]:
    """Any small table, with or without a discrete term and offsets, λ from slight to overwhelming."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, n = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    symbols = draw(st.sampled_from([[0, 1], [-1, 1], [1, 2, 3, 4, 5], [-3, 0.25, 0.5, 7], [2.5]]))
    table = np.where(rng.random((m, n)) < draw(st.sampled_from([0.3, 0.6, 1.0])), rng.choice(symbols, (m, n)), np.nan)
    table[0, 0] = symbols[-1]
    xi = draw(st.sampled_from([0.0, 0.02, 0.5]))
    discrete = draw(
        st.sampled_from([None, si.L1(symbols, xi), si.L1(symbols, xi, rng.random(len(symbols))), si.Ridge(1.0, xi)])
    )
    offsets = (
        si.LowRank(rng.normal(size=(m, 1)), np.ones(1), rng.normal(size=(n, 1))) if draw(st.booleans()) else None
    )
    spectral = si.Nuclear(draw(st.sampled_from([0.05, 0.7, 20.0])))
    return si.Problem(si.Observations.from_dense(table), spectral, discrete, offsets), rng


@given(convex_problems(), st.sampled_from([0.0, 0.1, 1.0, 30.0, 1e7]), st.integers(1, 8))
@settings(max_examples=60)
def test_no_matrix_has_less_than_the_bound(case, scale, rank):
    """For any table and any two matrices the bound at one is at most the objective at the other."""
    problem, rng = case
    m, n = problem.shape
    x = si.LowRank.from_dense(scale * rng.normal(size=(m, n))).truncated(rank)
    end = si.solve(problem, APG(), tol=1e-8, max_iter=400, evaluate_every=400).x
    others = [si.LowRank.zeros((m, n)), si.LowRank.from_dense(rng.normal(size=(m, n))), end]
    for one in (x, end):
        certificate = certify(problem, one)
        rounding = 1e-14 * problem.spectral.value(one.s)  # of α⟨G, X⟩
        for other in (*others, x):
            value = problem.objective(other)
            assert certificate.bound <= value + 1e-10 * (1 + value) + rounding


@pytest.mark.parametrize("discrete", [None, si.L1("1:5", 0.2), si.Ridge(2.0, 0.3)], ids=repr)
def test_every_shape_is_certified(toy, discrete):
    """Single rows, columns and cells, empty lanes and biases: the answer of a solver has hardly a gap."""
    problem = si.Problem(toy.observations, si.Nuclear(0.6), discrete, toy.offsets)
    certificate = certify(problem, si.solve(problem, APG(), tol=1e-10, max_iter=5000, evaluate_every=5000).x)
    assert certificate.relative_gap < 1e-7
    assert certificate.gradient_norm < 1 + 1e-7


# ---------------------------------------------------------------- the numbers
@every_kind
@every_problem
def test_the_formula_recomputed_densely(name, biased, lam, kind):
    """The gap is that of the formula, the gradient's norm that of a full SVD, the objective the problem's own."""
    problem, x = toy_problem(name, biased, lam), matrix(kind, name, biased, lam)
    certificate = certify(problem, x)
    assert certificate.objective == problem.objective(x)
    X, (mask, _, offsets) = x.to_dense(), dense_data(problem)
    G = gradient(problem, X)
    norm = np.linalg.norm(G, 2)
    alpha = min(1.0, lam / norm)
    gap = lam * np.linalg.norm(X, "nuc") + alpha * np.sum(G * X) + 0.5 * (1 - alpha) ** 2 * np.sum(G[mask] ** 2)
    if problem.discrete is not None:
        lowest = problem.discrete.envelope(np.linspace(0, 6, 6001)).min()
        gap += (1 - alpha) * np.sum(problem.discrete.envelope((X + offsets)[~mask]) - lowest)
    assert certificate.gradient_norm == pytest.approx(norm / lam, rel=1e-9)
    assert certificate.gap == pytest.approx(gap, rel=1e-9, abs=1e-9 * certificate.objective)


@pytest.mark.parametrize("kind", ["zero", "early", "late", "low rank"])
@every_problem
def test_the_bound_is_at_most_the_dual_value_by_brute_force(name, biased, lam, kind):
    """With the conjugate of the envelope as a maximum over a grid, bound ≤ dual value ≤ optimum."""
    problem, x = toy_problem(name, biased, lam), matrix(kind, name, biased, lam)
    certificate = certify(problem, x)
    mask, data, offsets = dense_data(problem)
    G = gradient(problem, x.to_dense())
    alpha = min(1.0, lam / np.linalg.norm(G, 2))
    on, off = alpha * G[mask], alpha * G[~mask]
    dual = -np.sum(on * (data - offsets)[mask] + 0.5 * on**2)
    if problem.discrete is not None:
        grid = np.arange(-20, 20, 1e-3)  # e*(y) is the largest yz − e(z); with offsets z = x + b
        envelope = problem.discrete.envelope(grid)
        conjugates = [np.max(y * grid - envelope) for y in off]
        dual -= np.sum(conjugates - off * offsets[~mask])
    assert certificate.bound <= dual + 1e-9
    assert dual <= problem.objective(best(name, biased, lam)) + 1e-5  # of the grid
    if alpha == 1 or problem.discrete is None:
        assert certificate.bound == pytest.approx(dual, abs=1e-5)


@pytest.mark.parametrize("name", ["l1", "weighted"])
def test_the_bound_gives_away_what_convexity_does(name):
    """Far from the optimum the bound lies strictly below the dual value, so the test above can tell them apart."""
    problem = toy_problem(name, False, 1.0)
    x = matrix("low rank", name, False, 1.0)
    G, (mask, data, _) = gradient(problem, x.to_dense()), dense_data(problem)
    y = G / np.linalg.norm(G, 2)
    grid = np.arange(-20, 20, 1e-3)
    envelope = problem.discrete.envelope(grid)
    dual = -np.sum(y[mask] * data[mask] + 0.5 * y[mask] ** 2) - sum(np.max(g * grid - envelope) for g in y[~mask])
    assert certify(problem, x).bound < dual - 0.1


@every_kind
@every_problem
def test_the_krylov_path_gives_the_same_numbers(monkeypatch, name, biased, lam, kind):
    """Whether the norm of the gradient comes from a full or a partial SVD, the certificate is the same."""
    problem, x = toy_problem(name, biased, lam), matrix(kind, name, biased, lam)
    whole = certify(problem, x)
    monkeypatch.setattr(svd, "WHOLE_CELLS", 0)
    partial = certify(problem, x, random_state=5)
    assert partial.objective == whole.objective
    assert partial.gradient_norm == pytest.approx(whole.gradient_norm, rel=1e-6)
    assert partial.bound == pytest.approx(whole.bound, rel=1e-5)


def test_the_krylov_path_on_a_larger_table(monkeypatch):
    """Where the whole space is no longer cheap, the partial SVD still finds the norm to the accuracy promised."""
    data = si.datasets.low_rank_alphabet((200, 150), 3, "1:5", observed=0.3, random_state=1)
    problem = si.Problem(data.observations, si.Nuclear(15.0), si.L1("1:5", xi=0.02))
    x = si.solve(problem, max_iter=30, tol=0).x
    expected = certify(problem, x)
    monkeypatch.setattr(svd, "WHOLE_CELLS", 0)
    norm = np.linalg.norm(gradient(problem, x.to_dense()), 2) / 15.0
    for seed in range(3):
        certificate = certify(problem, x, random_state=seed)
        assert norm - 1e-9 <= certificate.gradient_norm <= norm + 3e-6
        assert certificate.bound == pytest.approx(expected.bound, rel=1e-5)


def test_the_measured_error_of_the_norm_counts(monkeypatch):
    """A partial SVD that falls short of the norm, and says by how much, does not make an infeasible dual point."""
    problem = toy_problem("l1", False, 1.0)
    exact = certify(problem, si.LowRank.zeros(SHAPE))

    def short(*arguments: Any, **options: Any) -> svd.PartialSVD:
        found = svd.partial_svd(*arguments, **options)
        missing = 0.25 * float(found.x.s[0])
        return replace(found, x=replace(found.x, s=found.x.s - missing), residual=missing)

    monkeypatch.setitem(certify.__globals__, "partial_svd", short)
    again = certify(problem, si.LowRank.zeros(SHAPE))
    assert (again.gradient_norm, again.bound) == pytest.approx((exact.gradient_norm, exact.bound), rel=1e-12)


# ---------------------------------------------------------------- tightness
@every_problem
def test_the_gap_vanishes_at_the_optimum(name, biased, lam):
    """The gap falls with the iterations, and at the end of a long run it is below 1e-7 of the objective."""
    problem = toy_problem(name, biased, lam)
    gaps = [certify(problem, si.solve(problem, max_iter=k, tol=0).x).relative_gap for k in (1, 15, 60)]
    end = certify(problem, best(name, biased, lam))
    assert gaps[0] > 3 * gaps[1] > 9 * gaps[2] > 0
    assert end.relative_gap < 1e-7
    assert end.gradient_norm == pytest.approx(1, abs=1e-7)


def test_zero_is_certified_from_the_largest_lambda_on():
    """X = 0 has no gap where λ is at least the norm of the gradient there, and one below."""
    for name in DISCRETE:
        problem = toy_problem(name, False, 1.0)
        norm = np.linalg.norm(gradient(problem, np.zeros(SHAPE)), 2)
        zero = si.LowRank.zeros(SHAPE)
        for factor, optimal in ((1.5, True), (1.0001, True), (0.9, False)):
            at = si.Problem(problem.observations, si.Nuclear(factor * norm), problem.discrete)
            certificate = certify(at, zero)
            assert (certificate.relative_gap < 1e-12) == optimal
            assert certificate.gradient_norm == pytest.approx(1 / factor)


def test_data_that_are_all_zero():
    """A gradient of zero needs no division: the optimum is 0 and known."""
    certificate = certify(
        si.Problem(si.Observations.from_dense([[0.0, np.nan], [0.0, 0.0]]), si.Nuclear(1.0)), si.LowRank.zeros((2, 2))
    )
    assert (certificate.objective, certificate.bound, certificate.gap, certificate.relative_gap) == (0, 0, 0, 0)


@pytest.mark.parametrize("name", ["plain", "l1"])
def test_factored_solutions_are_certified_if_their_rank_suffices(name):
    """Alternating least squares with enough columns has hardly a gap, with too few a large one that no run closes."""
    problem = toy_problem(name, False, 1.0)
    rank = best(name, False, 1.0).rank
    assert rank >= 2
    limits: dict[str, Any] = {"tol": 1e-10, "max_iter": 5000, "evaluate_every": 5000}
    enough, short = (certify(problem, si.solve(problem, ALS(rank=r), **limits).x) for r in (rank + 2, 1))
    assert enough.relative_gap < 1e-6
    assert enough.gradient_norm < 1 + 1e-5
    assert short.relative_gap > 1e-2
    assert short.gradient_norm > 1.2
    assert short.objective > enough.objective * 1.01


# ---------------------------------------------------------------- refusals and words
@pytest.mark.parametrize(
    "spectral",
    [
        si.LogSum(1.0, 1.0),
        si.CappedL1(1.0, 2.0),
        si.TruncatedNuclear(1.0, r=1),
        si.MCP(1.0),
        si.SCAD(1.0),
        si.Rank(1.0),
        si.Nuclear(0.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("discrete", [None, si.L1("1:5", 0.1)], ids=repr)
def test_what_is_not_convex_is_refused(spectral, discrete):
    """Without the nuclear norm and λ > 0 there is no such dual, and the error names the penalties."""
    problem = si.Problem(toy_problem("plain", False, 1.0).observations, spectral, discrete)
    named = repr(spectral) + ("" if discrete is None else f" and {discrete!r}")
    with pytest.raises(
        ValueError, match=f"needs the nuclear norm with λ > 0 and convex terms, got {re.escape(named)}$"
    ):
        certify(problem, si.LowRank.zeros(SHAPE))


def test_a_discrete_penalty_that_is_not_convex_is_refused():
    """Such a penalty is named in the error, unless ξ = 0 switches it off."""
    observations = toy_problem("plain", False, 1.0).observations
    with pytest.raises(ValueError, match=r"convex terms, got Nuclear\(lam=1\.0\) and L0\("):
        certify(si.Problem(observations, si.Nuclear(1.0), si.L0("1:5", 0.1)), si.LowRank.zeros(SHAPE))
    certify(si.Problem(observations, si.Nuclear(1.0), si.L0("1:5", 0.0)), si.LowRank.zeros(SHAPE))


def test_the_composition_is_refused():
    """A map that is no prox has no objective to bound; with ξ = 0 it is out of the way."""
    observations = toy_problem("plain", False, 1.0).observations
    with pytest.raises(ValueError, match=r"ComposedL1\(.*\) is not the prox of its value.*: use L1$"):
        certify(si.Problem(observations, si.Nuclear(1.0), si.ComposedL1("1:5", 0.1)), si.LowRank.zeros(SHAPE))
    x = best("plain", False, 1.0)
    without = certify(si.Problem(observations, si.Nuclear(1.0), si.ComposedL1("1:5", 0.0)), x)
    assert without == certify(toy_problem("plain", False, 1.0), x)


def test_a_certificate_is_a_sentence():
    """Printed, it names both bounds, how close they are, and the norm of the gradient."""
    assert str(Certificate(objective=12.5, bound=10.0, gradient_norm=1.25)) == (
        "E(X) = 12.5, and no matrix has less than 10: X is within 2.0e-01 of the optimum (‖gradient‖₂ = 1.25 λ)"
    )


def test_rounding_does_not_make_a_negative_gap():
    """A bound that rounding lifted above the objective is a gap of 0."""
    assert Certificate(objective=1.0, bound=1.0 + 1e-16, gradient_norm=1.0).gap == 0
    assert Certificate(objective=1.0, bound=1.0 + 1e-9, gradient_norm=1.0).relative_gap == 0
    assert Certificate(objective=-2.0, bound=-3.0, gradient_norm=1.0).relative_gap == 0.5
