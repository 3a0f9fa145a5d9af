"""The loop and what a solver adds to it: last touches, measures, merits, extras; and the result."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import snapimpute as si
from snapimpute.problem import Terms
from snapimpute.solvers import APG, SOLVERS, SoftImpute, Status
from snapimpute.solvers.base import Context, State
from tests.solvers.scripted import Scripted, constant, run, toy


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
