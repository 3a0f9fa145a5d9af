"""The loop that runs every solver: status, history, clock, callbacks, interruption and limits."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.penalties import CellPenalty
from snapimpute.solvers import APG, Info, SoftImpute
from snapimpute.solvers.base import Context, State
from tests.solvers.scripted import BASE_KEYS, SHAPE, Scripted, constant, run, toy


# ---------------------------------------------------------------- how a run may end
@pytest.mark.parametrize("solver", [SoftImpute(), APG()], ids=repr)
def test_converged(solver):
    """A run ends at the first relative change up to tol, says so, and needs no advice."""
    changes: list[float] = []
    iterates = [si.LowRank.zeros(SHAPE)]

    def watch(info: Info) -> None:
        changes.append(float(np.linalg.norm(info.x.to_dense() - iterates[-1].to_dense()) / np.linalg.norm(info.x.s)))
        iterates.append(info.x)

    result = run(solver, max_iter=1000, tol=1e-4, callback=watch)
    assert result.status.code == "converged"
    assert result.status.converged
    assert result.status.advice == ""
    assert f"in {result.n_iter} iterations" in str(result.status)
    assert changes[-1] <= 1e-4
    assert min(changes[:-1]) > 1e-4


def test_max_iter():
    """A run that hits max_iter says how far it is from tol and what to do."""
    result = run(APG(), max_iter=3, tol=1e-9)
    assert (result.status.code, result.n_iter, result.status.converged) == ("max_iter", 3, False)
    assert re.search(r"max_iter=3 with a relative change of \d\.\de-\d\d, above tol=1e-09", result.status.message)
    assert "Raise max_iter" in result.status.advice
    assert str(result.status) == f"{result.status.message} {result.status.advice}"


def test_zero_tol_never_stops_early():
    """tol = 0 runs all iterations, also where nothing changes any more, and gives no advice for it."""
    result = si.solve(si.Problem(toy().observations, si.Nuclear(1e6)), APG(), max_iter=50, tol=0)
    assert (result.status.code, result.n_iter, result.status.advice) == ("max_iter", 50, "")
    assert "tol=0" in str(result.status)


@pytest.mark.parametrize("answer", [True, np.True_, 1])
def test_callback_stops(answer):
    """A callback that returns True ends the run there, and the answer is that iterate."""
    seen: list[si.LowRank] = []

    def stop_at_four(info: Info) -> Any:
        seen.append(info.x)
        return answer if info.iteration == 4 else None

    result = run(APG(), callback=stop_at_four)
    assert (result.status.code, result.n_iter) == ("stopped", 4)
    assert "callback after 4 iterations" in str(result.status)
    assert result.x is seen[-1]


def test_last_iterate_is_returned_not_the_best():
    """A run that ends of itself gives its last iterate, even where an earlier one was better."""
    result = run(Scripted((3.0, 100.0)), max_iter=2)
    assert result.history["objective"][0] < result.history["objective"][1]
    assert result.x.s == pytest.approx(constant(100.0).s)
    assert result.objective == result.history["objective"][1]


def test_interrupt_in_a_step_keeps_the_best():
    """Ctrl-C inside a step gives the best iterate so far, marked, and how to go on."""
    result = run(Scripted((9.0, 3.0, 100.0, KeyboardInterrupt())))
    assert (result.status.code, result.n_iter, result.status.converged) == ("interrupted", 3, False)
    assert "after 3 iteration(s); x is the best iterate so far" in result.status.message
    assert "x0" in result.status.advice
    assert result.x.s == pytest.approx(constant(3.0).s)
    assert result.objective == result.history["objective"][1] == result.history["objective"].min()


def test_interrupt_before_anything_is_done():
    """Ctrl-C in the first step gives the starting point back, and an empty history with all its columns."""
    result = run(Scripted((KeyboardInterrupt(),)), x0=constant(2.0))
    assert (result.status.code, result.n_iter) == ("interrupted", 0)
    assert "the starting point" in str(result.status)
    assert result.x.s == pytest.approx(constant(2.0).s)
    assert list(result.history) == BASE_KEYS
    assert np.isnan(result.objective)
    assert repr(result) == "Result(LowRank(20×15, rank 1), 0 iterations, interrupted)"


def test_interrupt_before_an_evaluation_keeps_the_last_iterate():
    """Where no objective has been evaluated yet, the work done is not thrown away."""
    result = run(Scripted((9.0, 3.0, 4.0, KeyboardInterrupt())), evaluate_every=100)
    assert "after 3 iteration(s); x is the last iterate" in str(result.status)
    assert result.x.s == pytest.approx(constant(4.0).s)
    assert np.isnan(result.objective)


def test_interrupted_run_goes_on_from_its_answer():
    """What an interrupted run gives back serves as the start of the next, as its advice says."""

    def press(info: Info) -> None:
        if info.iteration == 5:
            raise KeyboardInterrupt

    first = run(SoftImpute(), callback=press)
    second = run(SoftImpute(), x0=first.x, max_iter=5)
    assert second.objective == pytest.approx(run(SoftImpute(), max_iter=10).objective, rel=1e-9)


@pytest.mark.parametrize("every", [1, 100])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_iterate_that_is_not_finite(bad, every):
    """An iterate that is not finite ends the run with the best one before it, and says so."""
    result = run(Scripted((9.0, 3.0, bad, 1.0)), max_iter=4, evaluate_every=every)
    assert (result.status.code, result.n_iter, result.status.converged) == ("diverged", 2, False)
    assert "not finite" in result.status.message
    assert "lower xi" in result.status.advice
    assert result.x.s == pytest.approx(constant(3.0).s)


class Faulty(CellPenalty):
    """A penalty whose prox, value and envelope multiply every entry by given factors."""

    name = "faulty"
    convex = False
    xi = 1.0
    least = 0.0

    def __init__(self, prox: float, value: float = 1.0) -> None:
        self.factors = prox, value

    def compiled_prox(self, step: float) -> Any:
        return self._scaling(self.factors[0])

    def compiled_value(self, step: float) -> Any:
        return self._scaling(self.factors[1])

    def compiled_envelope(self, step: float) -> Any:
        return self._scaling(self.factors[1])

    @staticmethod
    def _scaling(factor: float) -> Any:
        def scale(x: np.ndarray) -> None:
            x *= factor

        return scale


@pytest.mark.parametrize(
    "penalty",
    [Faulty(np.nan), Faulty(1.0, np.nan), Faulty(3.0), Faulty(1e60)],
    ids=["prox", "objective", "slow", "fast"],
)
@pytest.mark.parametrize("solver", [SoftImpute(), APG()], ids=repr)
def test_penalty_that_makes_a_run_diverge(solver, penalty):
    """A real solver whose numbers become NaN, or grow beyond all bounds, ends without a warning or an error."""
    result = si.solve(toy(penalty), solver, max_iter=2000, tol=0)
    assert result.status.code == "diverged"
    assert np.isfinite(result.x.to_dense()).all()
    assert np.isfinite(result.history["objective"]).all()


def test_other_errors_are_not_swallowed():
    """An error in a callback or a step is the caller's to see."""
    with pytest.raises(ZeroDivisionError):
        run(APG(), callback=lambda info: 1 / 0)
    with pytest.raises(IndexError):
        run(Scripted((1.0,)))


# ---------------------------------------------------------------- history
@pytest.mark.parametrize("discrete", [None, si.L1("1:5", xi=0.05)], ids=repr)
def test_history_columns(discrete):
    """The history has one row per iteration, and its objective is the sum of its terms and that of the iterate."""
    problem = toy(discrete)
    iterates: list[si.LowRank] = []
    result = si.solve(problem, APG(), max_iter=6, tol=0, callback=lambda info: iterates.append(info.x))
    history = result.history
    assert list(history) == BASE_KEYS
    assert {k: v.shape for k, v in history.items()} == dict.fromkeys(BASE_KEYS, (6,))
    assert history["iteration"].tolist() == [1, 2, 3, 4, 5, 6]
    assert history["rank"].tolist() == [x.rank for x in iterates]
    total = history["fit"] + history["spectral"] + history["discrete"]
    assert history["objective"].tolist() == total.tolist()
    assert history["objective"] == pytest.approx([problem.objective(x) for x in iterates], rel=1e-12)
    assert (history["discrete"] > 0).all() if discrete else (history["discrete"] == 0).all()
    assert (history["certificate"] > 0).all()


def test_callback_columns():
    """What a callback records or returns becomes columns, NaN where it recorded nothing."""

    def score(info: Info) -> dict[str, float] | None:
        info.record(twice=2 * info.iteration)
        info.record({"with space": -1.0})
        return {"odd": info.objective} if info.iteration % 2 else None

    history = run(APG(), max_iter=4, callback=score).history
    assert list(history) == [*BASE_KEYS, "twice", "with space", "odd"]
    assert history["twice"].tolist() == [2, 4, 6, 8]
    assert history["with space"].tolist() == [-1] * 4
    np.testing.assert_array_equal(history["odd"], np.where([True, False, True, False], history["objective"], np.nan))


@pytest.mark.parametrize("key", BASE_KEYS)
def test_own_columns_are_protected(key):
    """A metric under the name of a column of the loop is refused, whichever way it comes."""
    with pytest.raises(ValueError, match=f"'{key}' is a column of the history itself"):
        run(APG(), callback=lambda info: {key: 0.0})
    with pytest.raises(ValueError, match="another name"):
        run(APG(), callback=lambda info: info.record(**{key: 0.0}))


def test_info():
    """A callback sees the iteration, the iterate, the problem and the objective."""
    problem, seen = toy(), []
    result = si.solve(problem, APG(), max_iter=3, tol=0, callback=seen.append)
    assert [info.iteration for info in seen] == [1, 2, 3]
    assert all(info.problem is problem for info in seen)
    assert [info.objective for info in seen] == result.history["objective"].tolist()
    assert seen[-1].x is result.x


@pytest.mark.parametrize(("every", "at"), [(1, range(1, 8)), (3, [3, 6, 7]), (7, [7]), (100, [7])])
def test_evaluate_every(every, at):
    """The objective is evaluated in every so many iterations and the last, and is NaN elsewhere."""
    seen: list[float] = []
    full, some = run(APG(), max_iter=7), run(APG(), max_iter=7, evaluate_every=every, callback=None)
    run(APG(), max_iter=7, evaluate_every=every, callback=lambda info: seen.append(info.objective))
    there = np.isin(full.history["iteration"], list(at))
    for key in ("objective", "fit", "spectral", "discrete"):
        np.testing.assert_array_equal(some.history[key], np.where(there, full.history[key], np.nan))
    np.testing.assert_array_equal(seen, some.history["objective"])
    assert some.history["rank"].tolist() == full.history["rank"].tolist()
    assert (some.x.to_dense() == full.x.to_dense()).all(), "looking does not change the run"


def test_last_objective_is_always_evaluated():
    """Also a run that converges or is stopped between two evaluations ends with an objective."""
    converged = run(APG(), max_iter=1000, tol=1e-3, evaluate_every=1000)
    stopped = run(APG(), evaluate_every=1000, callback=lambda info: info.iteration == 4)
    for result, code in ((converged, "converged"), (stopped, "stopped")):
        assert result.status.code == code
        assert np.isfinite(result.history["objective"]).sum() == 1
        assert result.objective == result.history["objective"][-1] == pytest.approx(toy().objective(result.x))


# ---------------------------------------------------------------- the clock
def test_clock_stops_for_callbacks(monkeypatch):
    """Seconds count the solver alone: neither a slow callback nor a slow evaluation shows in them."""
    evaluate = si.Problem.terms

    def slow_terms(*args: Any, **kwargs: Any) -> Any:
        time.sleep(0.05)
        return evaluate(*args, **kwargs)

    monkeypatch.setattr(si.Problem, "terms", slow_terms)
    result = run(Scripted((3.0,) * 6), max_iter=6, callback=lambda info: time.sleep(0.05))
    seconds = result.history["seconds"]
    assert seconds[-1] < 0.3, "0.3 s were slept in callbacks and as many in evaluations"
    assert seconds[0] >= 0
    assert (np.diff(seconds) >= 0).all()


def test_clock_counts_the_steps():
    """A slow step does show in the seconds, in its own row."""

    class Slow(Scripted):
        def step(self, problem: si.Problem, state: State, context: Context) -> State:
            time.sleep(0.03)
            return super().step(problem, state, context)

    seconds = run(Slow((3.0,) * 3), max_iter=3).history["seconds"]
    assert (np.diff([0.0, *seconds]) >= 0.03).all()


# ---------------------------------------------------------------- arguments
def test_a_start_of_another_shape_is_refused():
    """Both shapes are named; limits out of range are refused by the options themselves."""
    with pytest.raises(ValueError, match=re.escape("x0 has shape (15, 20), the problem (20, 15)")):
        run(APG(), x0=si.LowRank.zeros((15, 20)))
    with pytest.raises(ValueError, match="max_iter must be a whole number, at least 1, got None"):
        run(APG(), max_iter=None)


def test_numpy_integers_are_whole_numbers():
    """Limits computed with numpy are taken."""
    result = run(APG(), max_iter=np.int64(3), max_rank=np.int32(2), evaluate_every=np.uint8(1))
    assert (result.n_iter, result.x.rank) == (3, 2)
