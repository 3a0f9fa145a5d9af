"""The problem: its terms and the recursion's operator equal naive dense formulas, with and without offsets."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute import L1, ComposedL1, LogSum, LowRank, Nuclear, Observations, Problem, Ridge
from snapimpute.problem import Terms
from tests.helpers import dense, dense_offsets


def some_x(shape: tuple[int, int], seed: int = 0) -> LowRank:
    """A matrix such as solvers return: orthonormal factors, descending positive values."""
    draw = np.random.default_rng(seed)
    return LowRank.from_dense(2 + draw.standard_normal(shape)).truncated(3)


def dense_parts(problem: Problem, x: LowRank) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (observed?, O with NaN, B, X + B) as arrays."""
    data, offsets = dense(problem.observations), dense_offsets(problem)
    return ~np.isnan(data), data, offsets, x.to_dense() + offsets


def naive_terms(problem: Problem, x: LowRank, objective: str) -> Terms:
    """The three terms, each from its definition on dense arrays."""
    seen, data, _, total = dense_parts(problem, x)
    fit = sum((total[i, j] - data[i, j]) ** 2 for i, j in np.argwhere(seen)) / 2
    values = np.linalg.svd(x.to_dense(), compute_uv=False)
    spectral = problem.spectral.value(values[values > 1e-12 * values[0]] if values[0] > 0 else [])
    if problem.discrete is None:
        return Terms(fit, spectral, 0.0)
    cost = problem.discrete.envelope if objective == "E" else problem.discrete.value
    return Terms(fit, spectral, sum(float(cost(total[i, j])) for i, j in np.argwhere(~seen)))


def problems(toy: Any, spectral: Any, discrete: Any) -> Problem:
    return Problem(toy.observations, spectral, discrete, toy.offsets)


# ---------------------------------------------------------------- the terms
def check_terms(problem: Problem) -> None:
    for x in (some_x(problem.shape), LowRank.zeros(problem.shape)):
        for objective in ("E", "P"):
            expected, found = naive_terms(problem, x, objective), problem.terms(x, objective=objective)
            assert_allclose(found.fit, expected.fit, rtol=1e-11, atol=1e-12)
            assert_allclose(found.spectral, expected.spectral, rtol=1e-11, atol=1e-12)
            assert_allclose(found.discrete, expected.discrete, rtol=1e-11, atol=1e-10)
            assert problem.objective(x, objective) == found.objective == found.fit + found.spectral + found.discrete
        assert problem.objective(x, "E") <= problem.objective(x, "P") + 1e-12  # the envelope lies below the penalty


def test_terms_of_every_spectral_penalty(toy, spectral):
    """Fit and spectral term equal their definitions; a discrete term of strength 0 is none, in (E) as in (P)."""
    problem = problems(toy, spectral, None)
    check_terms(problem)
    x = some_x(problem.shape)
    without = problem.terms(x)
    for objective in ("E", "P"):
        assert problem.terms(x, objective=objective) == without
        assert problems(toy, spectral, L1("1:5", xi=0.0)).terms(x, objective=objective) == without


def test_terms_of_every_discrete_penalty(toy, discrete):
    """The discrete terms of (E) and (P) equal their definitions beside a spectral term, and (E) ≤ (P)."""
    check_terms(problems(toy, LogSum(lam=2.0, theta=2.0), discrete))


def test_known_objective():
    """At X = 0 the objective is half the sum of squares observed plus the envelope of 0 on the other cells."""
    observations = Observations.from_dense([[1, 5, np.nan], [np.nan, 5, 1]])
    problem = Problem(observations, Nuclear(1.0), L1("1:5", xi=0.1))
    zero = LowRank.zeros((2, 3))
    assert problem.terms(zero, objective="P") == pytest.approx(Terms(26.0, 0.0, 2 * 0.1 * 15))
    assert problem.terms(zero) == pytest.approx(Terms(26.0, 0.0, 2 * (0.1 * (15 - 2.5) + 0.125)))


def test_values_on_the_observed_cells_can_be_handed_in(toy):
    """Given P_Ω(X), the terms are the same bits as without it, and it is not changed."""
    problem = problems(toy, Nuclear(1.0), L1("1:5", xi=0.2))
    x = some_x(problem.shape)
    observed = problem.at_observed(x)
    before = observed.copy()
    assert problem.terms(x, observed) == problem.terms(x)
    assert_array_equal(observed, before)


# ---------------------------------------------------------------- the recursion's operator
def naive_imputed(problem: Problem, y: LowRank) -> np.ndarray:
    """P_Ω(O) + P_Ωᶜ(prox(Y + B)) − B, cell by cell."""
    seen, data, offsets, total = dense_parts(problem, y)
    out = np.empty(problem.shape)
    for i, j in np.ndindex(*problem.shape):
        filled = total[i, j] if problem.discrete is None else float(problem.discrete.prox(total[i, j]))
        out[i, j] = (data[i, j] if seen[i, j] else filled) - offsets[i, j]
    return out


def check_imputed(problem: Problem, y: LowRank) -> None:
    y_observed = problem.at_observed(y)
    before = y_observed.copy()
    operator = problem.smooth.imputed(y, y_observed)
    assert operator.shape == problem.shape
    assert_allclose(operator.to_dense(), naive_imputed(problem, y), rtol=1e-11, atol=1e-11)
    assert_allclose(operator.T.to_dense(), naive_imputed(problem, y).T, rtol=1e-11, atol=1e-11)
    draw = np.random.default_rng(1)
    u, v = draw.standard_normal((problem.shape[1], 1)), draw.standard_normal((problem.shape[0], 1))
    assert_allclose(np.vdot(operator.matmat(u), v), np.vdot(u, operator.rmatmat(v)), rtol=1e-10, atol=1e-11)
    assert_array_equal(y_observed, before)


def test_imputed_matrix_is_the_dense_formula(toy, discrete):
    """The matrix that is thresholded has the data on Ω and the prox elsewhere, relative to the offsets; dot test."""
    problem = problems(toy, Nuclear(1.0), discrete)
    x, before = some_x(problem.shape, 1), some_x(problem.shape, 2)
    check_imputed(problem, x)
    check_imputed(problem, LowRank.combine([1.6, -0.6], [x, before]))  # extrapolated, as the recursion does
    check_imputed(problem, LowRank.zeros(problem.shape))


def test_imputed_matrix_without_a_discrete_penalty(toy):
    """Without a discrete term, or with one of strength 0, the other cells keep the value they have."""
    for discrete in (None, L1("1:5", xi=0.0)):
        problem = problems(toy, Nuclear(1.0), discrete)
        check_imputed(problem, some_x(problem.shape))
        check_imputed(problem, LowRank.zeros(problem.shape))


@pytest.mark.slow
def test_imputed_matrix_is_a_gradient_step(toy, discrete):
    """Y minus the imputed matrix is the gradient of the smooth part of (E), by central differences."""
    if not discrete.exact:
        discrete = L1(discrete.alphabet, discrete.xi)
    problem = problems(toy, Nuclear(0.0), discrete)
    y, h = some_x(problem.shape, 4), 1e-5
    step = y.to_dense() - problem.smooth.imputed(y, problem.at_observed(y)).to_dense()
    for i, j in np.ndindex(*problem.shape):
        bump = LowRank(np.eye(problem.shape[0])[:, [i]], np.array([h]), np.eye(problem.shape[1])[:, [j]])
        up, down = (problem.terms(LowRank.combine([1.0, sign], [y, bump])) for sign in (1.0, -1.0))
        slope = up.fit + up.discrete - down.fit - down.discrete
        assert_allclose(slope / (2 * h), step[i, j], atol=3e-5)


# ---------------------------------------------------------------- the smooth part
def naive_smooth(problem: Problem, x: LowRank) -> tuple[float, np.ndarray]:
    """The smooth part h of (E) and its gradient, cell by cell."""
    seen, data, _, total = dense_parts(problem, x)
    value, slope = 0.0, np.zeros(problem.shape)
    for i, j in np.ndindex(*problem.shape):
        if seen[i, j]:
            value += 0.5 * (total[i, j] - data[i, j]) ** 2
            slope[i, j] = total[i, j] - data[i, j]
        elif problem.discrete is not None:
            value += float(problem.discrete.envelope(total[i, j]))
            slope[i, j] = total[i, j] - float(problem.discrete.prox(total[i, j]))
    return value, slope


def iterates(shape: tuple[int, int]) -> list[LowRank]:
    """Points such as solvers meet: an iterate, an extrapolated one, zero."""
    x, before = some_x(shape, 1), some_x(shape, 2)
    return [x, LowRank.combine([1.6, -0.6], [x, before]), LowRank.zeros(shape)]


def check_gradient_step(problem: Problem, steps: tuple[float, ...]) -> None:
    for y in iterates(problem.shape):
        y_observed = problem.at_observed(y)
        before, gradient = y_observed.copy(), naive_smooth(problem, y)[1]
        for step in steps:
            operator = problem.smooth.gradient_step(y, y_observed, step)
            expected = y.to_dense() - step * gradient
            assert operator.shape == problem.shape
            assert_allclose(operator.to_dense(), expected, rtol=1e-11, atol=1e-11)
            assert_allclose(operator.T.to_dense(), expected.T, rtol=1e-11, atol=1e-11)
            assert_array_equal(y_observed, before)


def test_gradient_step_is_the_dense_formula(toy, discrete):
    """Y − step·∇h(Y) for steps shorter and longer than 1, for every discrete penalty, with and without offsets."""
    check_gradient_step(problems(toy, Nuclear(1.0), discrete), (0.5, 1.0, 1.99, 10.0))


def test_gradient_step_without_a_discrete_penalty(toy):
    """Without a discrete term, or with one of strength 0, only the observed cells move."""
    for discrete in (None, L1("1:5", xi=0.0)):
        check_gradient_step(problems(toy, Nuclear(1.0), discrete), (0.5, 1.0, 1.99))


def check_curvature(problem: Problem) -> list[tuple[float, float]]:
    found = []
    for x in iterates(problem.shape):
        for y in iterates(problem.shape):
            (at_x, _), (at_y, slope) = naive_smooth(problem, x), naive_smooth(problem, y)
            difference = x.to_dense() - y.to_dense()
            expected = at_x - at_y - float(np.vdot(slope, difference))
            value = problem.smooth.curvature(x, problem.at_observed(x), y, problem.at_observed(y))
            assert_allclose(value, expected, rtol=1e-9, atol=1e-10 * (1 + at_x + at_y))
            found.append((value, 0.5 * float(np.sum(difference**2))))
    return found


@pytest.mark.slow
def test_curvature_is_the_dense_formula(toy, discrete):
    """h(X) − h(Y) − ⟨∇h(Y), X − Y⟩ for every discrete penalty and with offsets; for an exact prox in 0..½‖X − Y‖²."""
    for value, most in check_curvature(problems(toy, Nuclear(1.0), discrete)):
        if discrete.exact:
            assert -1e-9 <= value <= most + 1e-9


def test_curvature_without_a_discrete_penalty(toy):
    """Without a discrete term it is half the square of the difference on the observed cells."""
    for discrete in (None, L1("1:5", xi=0.0)):
        check_curvature(problems(toy, Nuclear(1.0), discrete))


# ---------------------------------------------------------------- what a problem knows of itself
def test_targets_are_the_data_less_the_offsets(toy):
    """O − B on the observed cells, in the stored order."""
    problem = problems(toy, Nuclear(1.0), None)
    seen, data, offsets, _ = dense_parts(problem, LowRank.zeros(problem.shape))
    assert_allclose(problem.targets, (data - offsets)[seen], atol=1e-13)


def test_with_offsets_adds_them(toy):
    """X + B as one low-rank matrix; X itself where there are none."""
    problem = problems(toy, Nuclear(1.0), None)
    x = some_x(problem.shape)
    assert_allclose(problem.with_offsets(x).to_dense(), dense_parts(problem, x)[3], atol=1e-12)
    assert (problem.with_offsets(x) is x) == (toy.offsets is None)


@pytest.mark.parametrize(
    ("spectral", "discrete", "is_discrete", "convex"),
    [
        (Nuclear(1.0), None, False, True),
        (Nuclear(1.0), L1("1:5", 0.1), True, True),
        (Nuclear(1.0), L1("1:5", 0.0), False, True),
        (Nuclear(1.0), ComposedL1("1:5", 0.1), True, True),
        (Nuclear(1.0), Ridge(3.0, 0.1), True, True),
        (LogSum(1.0, 1.0), L1("1:5", 0.1), True, False),
    ],
)
def test_problem_knows_its_kind(spectral, discrete, is_discrete, convex):
    """A problem is discrete with ξ > 0 only, and convex if every term is."""
    problem = Problem(Observations.from_dense([[1.0, np.nan]]), spectral, discrete)
    assert (problem.is_discrete, problem.convex) == (is_discrete, convex)


# ---------------------------------------------------------------- errors
def test_parts_of_the_wrong_kind_are_refused():
    """Each part that is not what it should be is refused by its name; so are offsets of another shape."""
    observations = Observations.from_dense([[1.0, np.nan], [2.0, 3.0]])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"observations": np.ones((2, 2))}, "observations must be a Observations, got ndarray"),
        ({"spectral": 10.0}, "spectral must be a SpectralPenalty, got float"),
        ({"discrete": "1:5"}, "discrete must be a DiscretePenalty, got str"),
        ({"spectral": L1("1:5", 0.1)}, "spectral must be a SpectralPenalty, got L1"),
        ({"offsets": np.ones((2, 2))}, "offsets must be a LowRank, got ndarray"),
    ]
    for change, message in wrong:
        with pytest.raises(TypeError, match=re.escape(message)):
            Problem(**({"observations": observations, "spectral": Nuclear(1.0)} | change))
    with pytest.raises(ValueError, match=re.escape("offsets have shape (2, 3), the observations (2, 2)")):
        Problem(observations, Nuclear(1.0), offsets=LowRank.zeros((2, 3)))


def test_unknown_objective_is_refused():
    """There are two objectives; another name is an error, not silently one of them."""
    problem = Problem(Observations.from_dense([[1.0, np.nan]]), Nuclear(1.0))
    with pytest.raises(ValueError, match='objective must be "E" or "P", got \'e\''):
        problem.objective(LowRank.zeros((1, 2)), "e")


def test_another_spectral_penalty_shares_the_smooth_part(toy):
    """A path of λ computes targets and offsets on Ω once, and each problem is the one that would be built anew."""
    problem = problems(toy, Nuclear(1.0), L1("1:5", xi=0.1))
    targets, other = problem.smooth.targets, problem.with_spectral(Nuclear(7.0))
    assert other.smooth.targets is targets
    assert (other.spectral.lam, problem.spectral.lam) == (7.0, 1.0)
    x = LowRank.zeros(problem.shape)
    assert other.terms(x) == replace(problem, spectral=Nuclear(7.0)).terms(x)
    with pytest.raises(TypeError, match="spectral must be a SpectralPenalty"):
        problem.with_spectral(7.0)
