"""A path of λ: from the largest that matters down, warm-started, and at every λ the solution that it has alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.solvers import AISImpute, PathPoint, path
from snapimpute.solvers import path as _function
from snapimpute.solvers.loop import run, solve
from tests.helpers import STRONG_SPECTRAL as SPECTRAL

pytestmark = pytest.mark.slow

DATA = si.datasets.low_rank_alphabet((30, 24), rank=3, alphabet="1:5", observed=0.5, noise=0.1, random_state=3)
PLAIN = si.Problem(DATA.observations, si.Nuclear(1.0))
CONVEX = {
    "plain": PLAIN,
    "discrete": si.Problem(DATA.observations, si.Nuclear(1.0), si.L1("1:5", xi=0.05)),
    "offsets": si.Problem(
        DATA.observations,
        si.Nuclear(1.0),
        si.L1("1:5", xi=0.02, weights=[0.2, 0.5, 1.3, 2.0, 1.0]),
        si.LowRank(np.full((30, 1), 3.0), np.ones(1), np.ones((24, 1))),
    ),
}
FAR: dict[str, Any] = {"tol": 3e-7, "max_iter": 5000, "evaluate_every": 5000}


def largest(problem: si.Problem) -> float:
    """σ₁ of the matrix that the first step from X = 0 thresholds."""
    zero = si.LowRank.zeros(problem.shape)
    return float(np.linalg.norm(problem.smooth.imputed(zero, problem.at_observed(zero)).to_dense(), 2))


def lams(points: list[PathPoint]) -> list[float]:
    return [point.lam for point in points]


# ---------------------------------------------------------------- the solutions
@pytest.mark.parametrize("name", CONVEX)
def test_every_point_is_the_solution_at_its_lambda(name):
    """On a convex problem each result has the objective of a cold start at that λ."""
    problem = CONVEX[name]
    points = list(path(problem, 6, smallest=0.05, **FAR))
    cold = [solve(replace(problem, spectral=si.Nuclear(lam)), "soft-impute", **FAR) for lam in lams(points)]
    for point, alone in zip(points, cold, strict=True):
        assert point.result.status.converged
        assert point.result.settings["spectral"] == repr(si.Nuclear(point.lam))
        assert point.result.objective == pytest.approx(alone.objective, rel=1e-7)
    assert len({round(p.result.objective, 3) for p in points}) == 6


def test_each_point_starts_from_the_one_before(monkeypatch):
    """The first solve starts from zero, each other from the answer of its predecessor."""
    calls: list[tuple[Any, Any]] = []

    def spy(problem, solver, options, *, x0, **more):
        result = run(problem, solver, options, x0=x0, **more)
        calls.append((x0, result.x))
        return result

    monkeypatch.setitem(_function.__globals__, "run", spy)
    list(path(PLAIN, 5))
    assert calls[0][0] is None
    assert all(start is before for (start, _), (_, before) in zip(calls[1:], calls[:-1], strict=True))
    assert len(calls) == 5


@pytest.mark.parametrize(("name", "share"), [("plain", 0.2), ("discrete", 0.6), ("offsets", 0.7)])
def test_a_path_saves_iterations(name, share):
    """Down twenty λ warm starts need far fewer iterations than cold ones, which a plain problem shows best."""
    problem = CONVEX[name]
    points = list(path(problem, tol=1e-3))
    cold = [solve(replace(problem, spectral=si.Nuclear(lam)), "soft-impute", tol=1e-3) for lam in lams(points)]
    assert sum(p.result.n_iter for p in points) < share * sum(alone.n_iter for alone in cold)


# ---------------------------------------------------------------- the λ
@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize(("count", "smallest"), [(1, 0.3), (6, 1e-2), (9, 0.5)])
def test_the_ladder_is_even_on_a_logarithmic_scale(name, count, smallest):
    """So many λ as asked for, falling by one ratio from the largest, which is left out, to ``smallest`` times it."""
    top = largest(CONVEX[name])
    points = list(path(CONVEX[name], count, smallest=smallest, max_iter=1, tol=0))
    np.testing.assert_allclose(lams(points), top * smallest ** (np.arange(1, count + 1) / count), rtol=1e-9)
    assert {type(lam) for lam in lams(points)} == {float}


def test_the_defaults():
    """Twenty λ over two orders of magnitude, by Soft-Impute."""
    points = list(path(PLAIN, tol=1e-2))
    assert len(points) == 20
    assert points[-1].lam == pytest.approx(1e-2 * largest(PLAIN))
    assert points[0].result.settings["solver"] == repr(si.solvers.SoftImpute())
    assert lams(list(path(PLAIN, np.int64(3)))) == lams(list(path(PLAIN, 3)))


@pytest.mark.parametrize("name", CONVEX)
def test_the_first_lambda_is_the_first_that_matters(name):
    """X is 0 at the λ where the ladder hangs, and not 0 just below, at the first rung of a fine ladder."""
    problem = CONVEX[name]
    above, at = path(problem, [1.0001 * largest(problem), 1.00001 * largest(problem)])
    assert (above.result.x.rank, at.result.x.rank) == (0, 0)
    first = next(iter(path(problem, 100, smallest=0.5)))
    assert first.lam < largest(problem)
    assert first.result.x.rank > 0


def test_a_list_may_come_in_any_order():
    """Given λ are taken from the largest down, as a list, a tuple or an array, whatever their order."""
    runs = [
        list(path(PLAIN, given, max_iter=5, tol=0))
        for given in ([2.0, 8.0, 4.0], (8, 4, 2), np.array([4.0, 2.0, 8.0]))
    ]
    for points in runs:
        assert lams(points) == [8.0, 4.0, 2.0]
        assert {type(lam) for lam in lams(points)} == {float}
        assert [p.result.objective for p in points] == [p.result.objective for p in runs[0]]
    assert lams(list(path(PLAIN, [3.0], smallest=7.0))) == [3.0]  # of no use to a list


def test_the_own_lambda_of_the_problem_does_not_enter():
    """Whatever λ the problem had, the path is the same."""
    runs = [list(path(replace(PLAIN, spectral=si.Nuclear(lam)), 4, max_iter=5, tol=0)) for lam in (0.0, 1.0, 1e6)]
    for points in runs[1:]:
        assert lams(points) == lams(runs[0])
        assert [p.result.objective for p in points] == [p.result.objective for p in runs[0]]


def test_data_that_are_all_zero():
    """Where nothing is left to model, every λ gives 0."""
    zero = si.Problem(si.Observations.from_dense([[0.0, np.nan, 0.0], [0.0, 0.0, np.nan]]), si.Nuclear(1.0))
    points = list(path(zero, 3))
    assert [point.result.x.rank for point in points] == [0, 0, 0]
    assert all(lam > 0 for lam in lams(points))


# ---------------------------------------------------------------- penalties, solvers, options
@pytest.mark.parametrize("penalty", SPECTRAL, ids=repr)
@pytest.mark.parametrize("solver", [None, "niapg"])
def test_every_spectral_penalty_has_a_path(penalty, solver):
    """λ falls, its threshold begins at the largest singular value, the fit improves, other parameters stay."""
    problem = si.Problem(DATA.observations, penalty)
    points = list(path(problem, 5, solver, smallest=0.05, max_iter=60, tol=1e-4))
    assert all(np.diff(lams(points)) < 0)
    top = points[0].lam / 0.05 ** (1 / 5)
    assert penalty.with_lam(top).threshold() == pytest.approx(largest(problem), rel=1e-9)
    fits = np.array([point.result.history["fit"][-1] for point in points])
    assert fits[-1] < 0.5 * fits[0]
    assert [p.result.settings["spectral"] for p in points] == [repr(penalty.with_lam(lam)) for lam in lams(points)]
    ranks = [point.result.x.rank for point in points]
    assert ranks[-1] > 0
    assert ranks[0] <= max(2, ranks[-1])


@pytest.mark.parametrize("solver", ["auto", "ais-impute", AISImpute(nu=0.5), "als", "low-rank-sparse"])
def test_any_solver_that_fits_walks_the_path(solver):
    """A solver may be given by name, as an object or be chosen, and is the one that runs."""
    points = list(path(PLAIN, [8.0, 4.0], solver))
    expected = solve(PLAIN, solver, max_iter=1, tol=0).settings["solver"]
    assert {point.result.settings["solver"] for point in points} == {expected}
    assert points[0].result.x.rank > 0


def test_options_reach_every_solve():
    """Limits, the seed and a callback are those of each `solve`."""
    seen = []

    def note(info):
        seen.append(info.iteration)
        return {"twice": 2.0 * info.iteration}

    points = list(path(PLAIN, 3, max_iter=4, tol=0, max_rank=1, random_state=7, callback=note, evaluate_every=2))
    assert seen == [1, 2, 3, 4] * 3
    for _, result in points:
        assert result.x.rank == 1
        limits = [result.settings[key] for key in ("max_iter", "tol", "max_rank", "random_state")]
        assert limits == [4, 0, 1, 7]
        assert result.history["twice"].tolist() == [2, 4, 6, 8]
        assert np.isnan(result.history["objective"]).tolist() == [True, False, True, False]


def test_points_come_one_by_one():
    """A caller that stops early has paid for what it took only."""
    seen: list[int] = []
    walk = path(PLAIN, 5, max_iter=2, tol=0, callback=lambda info: seen.append(info.iteration))
    next(walk)
    assert seen == [1, 2]


def test_an_interruption_ends_the_path_with_what_was_done():
    """After Ctrl-C the point in work comes out with its best so far, and no other follows."""
    count = 0

    def interrupt(info):
        nonlocal count
        count += 1
        if count == 8:
            raise KeyboardInterrupt

    points = list(path(PLAIN, 6, max_iter=3, tol=0, callback=interrupt))
    assert [point.result.status.code for point in points] == ["max_iter", "max_iter", "interrupted"]
    assert points[-1].result.n_iter == 2
    assert points[-1].result.x.rank > 0


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lams": 0}, "at least 1 λ.*got 0 and 0.01"),
        ({"lams": -3}, "at least 1 λ"),
        ({"smallest": 0.0}, "smallest lies between 0 and 1, got 20 and 0.0"),
        ({"smallest": 1.0}, "smallest lies between 0 and 1"),
        ({"smallest": np.nan}, "smallest lies between 0 and 1"),
        ({"lams": [1.0, -1.0]}, "lam must be a finite number"),
        ({"lams": [1.0, np.nan]}, "lam must be a finite number"),
        ({"solver": "gradient"}, "solver must be"),
        ({"solver": "altmin"}, "AltMin treats only the spectral penalty rank.*fit this problem: soft-impute"),
        ({"max_iter": 0}, "max_iter must be"),
    ],
)
def test_wrong_arguments_are_refused_before_any_work(wrong, message):
    """The error says what was expected, and no iteration was run in vain."""
    seen: list[int] = []
    with pytest.raises(ValueError, match=message):
        list(path(PLAIN, **{"callback": lambda info: seen.append(info.iteration), **wrong}))
    assert seen == []


def test_unknown_options_are_refused():
    """What `solve` does not know, or the path itself supplies, is a TypeError."""
    for wrong in ({"accuracy": 0.1}, {"x0": si.LowRank.zeros(PLAIN.shape)}):
        with pytest.raises(TypeError):
            list(path(PLAIN, 2, **wrong))
