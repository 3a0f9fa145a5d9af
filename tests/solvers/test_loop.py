"""The loop that runs every solver: status, history, clock, callbacks, interruption and limits."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import snapimpute as si
from snapimpute.penalties import CellPenalty
from snapimpute.problem import Terms
from snapimpute.solvers import APG, SOLVERS, SVT, Info, Result, SoftImpute, Solver, Status
from snapimpute.solvers.base import Context, SolverInfo, State

BASE_KEYS = ["iteration", "seconds", "objective", "fit", "spectral", "discrete", "certificate", "rank"]
SHAPE = (20, 15)


def toy(discrete: Any = si.L1("1:5", xi=0.05), offsets: si.LowRank | None = None) -> si.Problem:  # noqa: B008 - never changed
    observations = si.datasets.low_rank_alphabet(SHAPE, 2, observed=0.5).observations
    return si.Problem(observations, si.Nuclear(3.0), discrete, offsets)


def constant(value: float) -> si.LowRank:
    size = value * np.sqrt(SHAPE[0] * SHAPE[1])
    return si.LowRank(
        np.full((SHAPE[0], 1), SHAPE[0] ** -0.5), np.array([size]), np.full((SHAPE[1], 1), SHAPE[1] ** -0.5)
    )


@dataclass(frozen=True)
class Scripted(Solver[State]):
    """A solver whose iterates are constant matrices of given values; an exception in the list is raised instead."""

    values: tuple[Any, ...]
    name: ClassVar[str] = "scripted"
    info: ClassVar[SolverInfo] = SoftImpute.info
    objective_name: ClassVar[Any] = "E"

    def init(self, problem: si.Problem, x0: si.LowRank, context: Context) -> State:
        return State(x=x0, x_observed=problem.at_observed(x0))

    def step(self, problem: si.Problem, state: State, context: Context) -> State:
        value = self.values[state.iteration]
        if isinstance(value, BaseException):
            raise value
        x = constant(value)
        observed = problem.at_observed(x)
        return State(x=x, x_observed=observed, iteration=state.iteration + 1, change=1.0, certificate=1.0)


def run(solver: Solver[Any] | str, **options: Any) -> Result:
    return si.solve(toy(), solver, **({"max_iter": 10, "tol": 0.0} | options))


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


def test_interrupt_in_a_callback_keeps_the_best():
    """Ctrl-C while a callback runs is the same, and the iteration it looked at counts."""

    def press(info: Info) -> None:
        if info.iteration == 2:
            raise KeyboardInterrupt

    result = run(SoftImpute(), callback=press)
    assert (result.status.code, result.n_iter) == ("interrupted", 2)
    assert result.objective == result.history["objective"][1]
    assert toy().objective(result.x) == pytest.approx(result.objective, rel=1e-12)


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


# ---------------------------------------------------------------- what a solver may add to the loop
@dataclass(frozen=True)
class Rounding(Scripted):
    """Its last touch replaces the iterate by the constant matrix 3, of which it knows all; it counts its touches."""

    touches: list[int] = field(default_factory=list)

    def finish(self, problem: si.Problem, state: State, context: Context) -> State:
        self.touches.append(state.iteration)
        x = constant(3.0)
        return replace(state, x=si.LowRank(x.U, x.s, x.V), x_observed=problem.at_observed(x), certificate=0.25)

    def columns(self, state: State) -> dict[str, float]:
        return {"first": float(state.x.s[0])}

    def extras(self, state: State) -> dict[str, Any]:
        return {"size": state.size}


@pytest.mark.parametrize("every", [1, 100])
@pytest.mark.parametrize(
    ("options", "code", "iterations"),
    [
        ({"max_iter": 3}, "max_iter", 3),
        ({"tol": 0.1}, "converged", 1),
        ({"callback": lambda info: info.iteration == 2}, "stopped", 2),
        ({"callback": lambda info: info.iteration == 3, "max_iter": 3}, "stopped", 3),
    ],
    ids=["max_iter", "tol", "callback", "callback in the last"],
)
def test_last_touches(options, code, iterations, every):
    """`finish` is called once, after the last iteration however that came; answer, last row and extras are of it."""
    solver = Rounding((9.0, 8.0, 7.0, 6.0))
    result = run(solver, evaluate_every=every, **options)
    assert (result.status.code, result.n_iter) == (code, iterations)
    assert solver.touches == [iterations]
    assert result.x.s == pytest.approx(constant(3.0).s)
    last = {key: column[-1] for key, column in result.history.items()}
    assert last["objective"] == result.objective == pytest.approx(toy().objective(constant(3.0)))
    assert last["fit"] == pytest.approx(toy().terms(constant(3.0)).fit)
    assert (last["certificate"], last["rank"], last["first"]) == (0.25, 1, result.x.s[0])
    assert result.extras == {"size": pytest.approx(result.x.s[0])}
    assert result.history["first"][:-1] == pytest.approx([constant(v).s[0] for v in solver.values[: iterations - 1]])


def test_last_touches_do_not_follow_an_interruption():
    """A run that breaks off gives the best iterate as it was, with the extras of that one."""
    solver = Rounding((9.0, 4.0, 50.0, KeyboardInterrupt()))
    result = run(solver)
    assert solver.touches == []
    assert result.x.s == pytest.approx(constant(4.0).s)
    assert result.extras == {"size": pytest.approx(constant(4.0).s[0])}


class Direct(Scripted):
    """A method that is done after its second step."""

    def step(self, problem: si.Problem, state: State, context: Context) -> State:
        return replace(super().step(problem, state, context), final=state.iteration == 1)


@pytest.mark.parametrize("tol", [0.0, 1e-9])
def test_final_state_ends_the_run(tol):
    """A state marked final ends the run as converged, also with tol = 0, and no measure is quoted."""
    result = run(Direct((9.0, 3.0, 5.0)), tol=tol)
    assert (result.status.code, result.n_iter, result.status.advice) == ("converged", 2, "")
    assert "one go" in result.status.message
    assert result.x.s == pytest.approx(constant(3.0).s)


@dataclass(frozen=True, eq=False)
class GapState(State):
    """A state whose gap, not its change, is what `tol` bounds."""

    gap: float = np.inf

    @property
    def measure(self) -> float:
        return self.gap

    @property
    def pending(self) -> str:
        return "before the gap was known" if self.gap == np.inf else ""


@dataclass(frozen=True)
class Gaps(Scripted):
    """Iterates with given gaps."""

    gaps: tuple[float, ...] = ()
    measures: ClassVar[str] = "gap"

    def step(self, problem: si.Problem, state: State, context: Context) -> GapState:
        return GapState.extending(super().step(problem, state, context), gap=self.gaps[state.iteration])


def test_own_measure_decides_and_is_named():
    """`tol` is compared with the measure of the solver, and messages call it by the solver's name for it."""
    solver = Gaps((3.0,) * 4, gaps=(0.5, 0.02, 0.003, 0.0001))
    result = run(solver, tol=0.01)
    assert (result.status.code, result.n_iter) == ("converged", 3)
    assert result.status.message == "Converged: the gap fell to 3.0e-03 in 3 iterations."
    short = run(solver, tol=0.01, max_iter=2)
    assert short.status.message == "Stopped at max_iter=2 with a gap of 2.0e-02, above tol=0.01."


def test_pending_reason_is_told():
    """Where the stopping rule could not apply yet, the status says why instead of an infinite measure."""
    result = run(Gaps((3.0,) * 4, gaps=(np.inf,) * 4), tol=0.01, max_iter=4)
    assert result.status.code == "max_iter"
    assert "max_iter=4 before the gap was known" in result.status.message
    assert "Raise max_iter" in result.status.advice
    assert "inf" not in str(result.status)


class ByDistance(Scripted):
    """Iterates count as the better the nearer their values are to 50, whatever the objective."""

    def merit(self, state: State, terms: Terms) -> float:
        return abs(float(state.x.s[0]) - float(constant(50.0).s[0]))


def test_best_is_by_merit():
    """An interrupted run keeps the iterate of the best merit, and its objective is that of this iterate."""
    result = run(ByDistance((3.0, 40.0, 49.0, 100.0, KeyboardInterrupt())))
    assert result.x.s == pytest.approx(constant(49.0).s)
    assert result.row == 2
    assert result.objective == result.history["objective"][2] == pytest.approx(toy().objective(constant(49.0)))
    assert result.objective > result.history["objective"].min()


def test_interrupted_infeasible_run():
    """A real solver with infeasible iterates keeps the least infeasible one, and reports the objective of it."""

    def press(info: Info) -> None:
        if info.iteration == 6:
            raise KeyboardInterrupt

    problem = toy(None)
    result = si.solve(problem, SVT(), callback=press)
    assert result.history["fit"][result.row] == result.history["fit"].min()
    assert result.objective == pytest.approx(result.x.s.sum())
    assert result.objective != result.history["objective"].min()


@dataclass(frozen=True)
class Knowing(Scripted):
    """Its steps evaluate the objective themselves, all but those of odd number."""

    def step(self, problem: si.Problem, state: State, context: Context) -> State:
        after = super().step(problem, state, context)
        known = after.iteration % 2 == 0
        return replace(after, terms=Terms(1.0, 2.0, float(after.iteration)) if known else None)


def test_terms_known_to_the_step_are_not_evaluated_again(monkeypatch):
    """The terms that a state holds go into the history as they are; only others are evaluated."""
    evaluate, evaluated = si.Problem.terms, []

    def counting(self: si.Problem, *args: Any, **kwargs: Any) -> Terms:
        evaluated.append(args)
        return evaluate(self, *args, **kwargs)

    monkeypatch.setattr(si.Problem, "terms", counting)
    history = run(Knowing((3.0,) * 5), max_iter=5).history
    assert len(evaluated) == 3
    assert history["objective"][1::2].tolist() == [5.0, 7.0]
    assert history["discrete"][1::2].tolist() == [2.0, 4.0]
    assert history["objective"][::2] == pytest.approx(toy().objective(constant(3.0)))


@dataclass(frozen=True)
class Certified(Scripted):
    """Iterates with given certificates."""

    certificates: tuple[float, ...] = ()

    def step(self, problem: si.Problem, state: State, context: Context) -> State:
        return replace(super().step(problem, state, context), certificate=self.certificates[state.iteration])


def test_infinite_certificate_is_no_divergence():
    """A certificate may be infinite (nothing is known yet); NaN means that the numbers broke down."""
    fine = run(Certified((3.0,) * 3, certificates=(np.inf, np.inf, 0.5)), max_iter=3)
    assert fine.status.code == "max_iter"
    assert fine.history["certificate"].tolist() == [np.inf, np.inf, 0.5]
    broken = run(Certified((3.0, 4.0, 3.0), certificates=(1.0, np.nan, 1.0)), max_iter=3)
    assert (broken.status.code, broken.n_iter) == ("diverged", 1)
    assert broken.x.s == pytest.approx(constant(3.0).s)


def test_advice_after_divergence_is_the_solvers():
    """A solver may know better what to do when its numbers break down."""

    class Careful(Scripted):
        if_it_diverges = "Take smaller steps."

    assert run(Careful((3.0, np.nan)), max_iter=2).status.advice == "Take smaller steps."


def test_solver_by_name():
    """A name takes the defaults of that solver, to the bit; what is recorded is the solver, not the name."""
    named, given = run("soft-impute", max_iter=5), run(SoftImpute(), max_iter=5)
    assert named.settings == given.settings
    assert named.settings["solver"] == repr(SoftImpute())
    assert named.history["objective"].tolist() == given.history["objective"].tolist()
    with pytest.raises(ValueError, match="got 'soft'"):
        run("soft")


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


def test_mapping_does_not_stop():
    """A non-empty mapping is metrics, not a wish to stop."""
    assert run(APG(), max_iter=4, callback=lambda info: {"a": 1.0}).n_iter == 4


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
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_iter": 0}, "max_iter must be a whole number, at least 1, got 0"),
        ({"max_iter": 2.5}, "max_iter must be a whole number, at least 1, got 2.5"),
        ({"max_iter": None}, "max_iter must be a whole number, at least 1, got None"),
        ({"tol": -1e-3}, "tol must be at least 0, got -0.001"),
        ({"tol": np.nan}, "tol must be at least 0, got nan"),
        ({"max_rank": 0}, "max_rank must be a whole number, at least 1 or None, got 0"),
        ({"max_rank": 1.5}, "max_rank must be a whole number, at least 1 or None, got 1.5"),
        ({"evaluate_every": 0}, "evaluate_every must be a whole number, at least 1, got 0"),
        ({"x0": si.LowRank.zeros((15, 20))}, "x0 has shape (15, 20), the problem (20, 15)"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(options, message):
    """Each limit out of range, and a start of another shape, is named with what was given."""
    with pytest.raises(ValueError, match=re.escape(message)):
        run(APG(), **options)


def test_numpy_integers_are_whole_numbers():
    """Limits computed with numpy are taken."""
    result = run(APG(), max_iter=np.int64(3), max_rank=np.int32(2), evaluate_every=np.uint8(1))
    assert (result.n_iter, result.x.rank) == (3, 2)


# ---------------------------------------------------------------- the result
def test_entries_add_the_offsets():
    """`entries` estimates the data, X + B, while `x` is without offsets."""
    offsets = constant(2.5)
    result = si.solve(toy(offsets=offsets), APG(), max_iter=5)
    rows, cols = np.array([0, 3, 19]), np.array([14, 2, 0])
    assert result.offsets is offsets
    assert result.entries(rows, cols) == pytest.approx(result.x.to_dense()[rows, cols] + 2.5)
    plain = run(APG())
    assert plain.offsets is None
    assert plain.entries(rows, cols).tolist() == plain.x.entries(rows, cols).tolist()


def test_repr():
    """A result introduces itself: shape, rank, iterations, which objective, and why it ended."""
    result = run(APG(), max_iter=4)
    expected = f"Result(LowRank(20×15, rank {result.x.rank}), 4 iterations, E = {result.objective:.8g}, max_iter)"
    assert repr(result) == expected


def test_settings():
    """The result remembers what was run."""
    result = run(APG(beta="fista"), max_iter=4, tol=1e-3, max_rank=3, random_state=7)
    assert result.settings == {
        "solver": "APG(beta='fista', accuracy=0.01)",
        "why": "given",
        "spectral": "Nuclear(lam=3.0)",
        "discrete": "L1(Alphabet([1, 2, 3, 4, 5]), xi=0.05)",
        "loss": "Squares()",
        "max_iter": 4,
        "tol": 1e-3,
        "max_rank": 3,
        "alphabet_term": "tiled",
        "backend": "cpu",
        "dtype": "float64",
        "random_state": 7,
    }
    assert result.objective_name == "E"


def test_status_without_advice_prints_its_message():
    """A status reads as a sentence, with or without advice."""
    assert str(Status("stopped", "Done.")) == "Done."
    assert str(Status("max_iter", "Not done.", "Go on.")) == "Not done. Go on."


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_are_values(name):
    """A solver is listed under its name, compares by its parameters, cannot be changed, and names its objective."""
    solver = SOLVERS[name]()
    assert solver.name == name
    assert solver.objective_name in ("E", "P", "C")
    assert solver == SOLVERS[name]()
    with pytest.raises(AttributeError):
        solver.accuracy = 1.0


def _below(kind: type) -> list[type]:
    return [kind, *(one for child in kind.__subclasses__() for one in _below(child))]


@pytest.mark.parametrize("kind", [one for one in _below(State) if one.__module__.startswith("snapimpute.")], ids=repr)
def test_fields_of_states_are_given_by_name(kind):
    """No state of ours can be built by position: five numbers in a row tell nobody what they are."""
    assert all(one.kw_only for one in fields(kind))


def test_a_state_extends_another():
    """The fields of the other state are taken over as they are, but for those that are given."""
    problem = toy()
    base = State(x=constant(1.0), x_observed=problem.at_observed(constant(1.0)), iteration=3, change=0.5)
    after = GapState.extending(base, gap=2.0, change=0.25)
    assert (after.x is base.x, after.iteration, after.change, after.gap) == (True, 3, 0.25, 2.0)
