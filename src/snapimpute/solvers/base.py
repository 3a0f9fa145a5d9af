"""The one loop, and what a solver must supply to run in it."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from snapimpute.operators import LowRank
from snapimpute.operators.threads import single_threaded_blas
from snapimpute.problem import ObjectiveName, Problem
from snapimpute.solvers.result import History, Info, Result, Status
from snapimpute.types import Array

SMALL_SIDE = 10_000
"""Below, the blocks are so small that BLAS threads cost more than they bring."""

Callback = Callable[[Info], "bool | Mapping[str, float] | None"]


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver stands after an iteration.

    ``x`` has orthonormal factors, so that ‖x‖_F = ‖s‖; ``change`` is ‖X⁺ − X‖_F
    of the last step, and ``certificate`` bounds the distance of 0 from the
    subdifferential of the objective at x.
    """

    x: LowRank
    x_observed: Array
    iteration: int
    change: float
    certificate: float


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Context:
    """What `solve` lays down for every step: the limits a solver must keep to, and its randomness."""

    max_rank: int | None
    seed: int

    def rng(self, iteration: int) -> np.random.Generator:
        """Random numbers of one iteration; a resumed run draws the same ones."""
        return np.random.default_rng([self.seed, iteration])


class Solver(ABC, Generic[S]):
    """Hyperparameters and an update; never prints, never times, never decides to stop."""

    name: ClassVar[str]
    objective_name: ClassVar[ObjectiveName]

    @abstractmethod
    def init(self, problem: Problem, x0: LowRank, context: Context) -> S:
        """State before the first iteration."""

    @abstractmethod
    def step(self, problem: Problem, state: S, context: Context) -> S:
        """One iteration."""


def solve(
    problem: Problem,
    solver: Solver[Any],
    *,
    x0: LowRank | None = None,
    max_iter: int = 500,
    tol: float = 1e-5,
    max_rank: int | None = None,
    callback: Callback | None = None,
    evaluate_every: int = 1,
    random_state: int = 0,
) -> Result:
    """Minimise a problem with a solver.

    Parameters
    ----------
    problem : Problem
    solver : Solver
        For instance ``solvers.APG()``.
    x0 : LowRank, optional
        Where to start; the zero matrix if not given.
    max_iter : int
        Iterations at most.
    tol : float
        Stop when ‖X⁺ − X‖_F ≤ tol·‖X⁺‖_F; 0 never stops early.
    max_rank : int, optional
        Keep at most that many singular triplets in every step. The problem
        solved is then another one, unless the solution's rank is smaller.
    callback : callable, optional
        Called with an `Info` after each iteration. A mapping that it returns
        becomes columns of the history; True stops the run.
    evaluate_every : int
        Evaluate the objective in every so many iterations (and the last). For
        a discrete problem an evaluation is one pass over all cells.
    random_state : int
        Seed of the random starting blocks of the partial SVD.

    Returns
    -------
    Result
        The last iterate; after an interruption (Ctrl-C) or a non-finite value,
        the best one evaluated so far. ``result.status`` says which.

    Examples
    --------
    >>> import snapimpute as si
    >>> observations = si.Observations.from_dense([[1, 5, np.nan], [np.nan, 5, 1], [1, 5, 1]])
    >>> result = solve(si.Problem(observations, si.Nuclear(0.1)), si.solvers.APG())
    >>> result.status.code, result.x.rank
    ('converged', 1)
    """
    _check_limits(max_iter, tol, max_rank, evaluate_every)
    start = LowRank.zeros(problem.shape) if x0 is None else x0
    if start.shape != problem.shape:
        raise ValueError(f"x0 has shape {start.shape}, the problem {problem.shape}")
    run = _Run(problem, solver, callback, evaluate_every, Context(max_rank, int(random_state)))
    status = run.loop(start, max_iter, tol)
    settings = {
        "solver": repr(solver),
        "spectral": repr(problem.spectral),
        "discrete": repr(problem.discrete),
        "max_iter": max_iter,
        "tol": tol,
        "max_rank": max_rank,
        "random_state": random_state,
    }
    history = run.history.columns()
    return Result(run.answer, problem.offsets, status, history, solver.objective_name, settings)


class _Run:
    """One run of the loop: clock, history, best so far."""

    def __init__(
        self, problem: Problem, solver: Solver[Any], callback: Callback | None, every: int, context: Context
    ) -> None:
        self.problem, self.solver, self.callback, self.every, self.context = problem, solver, callback, every, context
        self.history = History()
        self.seconds = 0.0
        self.best = np.inf

    def loop(self, x0: LowRank, max_iter: int, tol: float) -> Status:
        self.answer = x0
        try:
            state = self._timed(self.solver.init, x0)
            for iteration in range(1, max_iter + 1):
                state = self._timed(self.solver.step, state)
                size = math.hypot(*state.x.s)
                if not (math.isfinite(size) and math.isfinite(state.certificate)):
                    raise FloatingPointError("the iterate is not finite")
                done = tol > 0 and state.change <= tol * size
                stop = self._record(state, last=done or iteration == max_iter)
                if done or stop or iteration == max_iter:
                    self.answer = state.x
                    return _ended(done, stop, iteration, tol, state.change / size if size else 0.0)
        except KeyboardInterrupt:
            return self._broken_off("interrupted", "Interrupted")
        except (FloatingPointError, OverflowError) as err:
            return self._broken_off("diverged", f"A value that is not finite appeared ({err})")
        raise AssertionError("unreachable: max_iter is at least 1")

    def _timed(self, work: Callable[..., Any], *arguments: Any) -> Any:
        begin = time.perf_counter()
        with single_threaded_blas(when=max(self.problem.shape) < SMALL_SIDE), _quiet_overflow():
            out = work(self.problem, *arguments, self.context)
        self.seconds += time.perf_counter() - begin
        return out

    def _record(self, state: State, *, last: bool) -> bool:
        """Append a row to the history; whether the callback asks to stop."""
        row: dict[str, Any] = {"iteration": state.iteration, "seconds": self.seconds}
        row |= {"certificate": state.certificate, "rank": state.x.rank}
        if last or state.iteration % self.every == 0:
            self._evaluate(state, row)
        elif not np.isfinite(self.best):
            self.answer = state.x  # nothing to compare it with yet
        self.history.rows.append(row)
        stop = self._ask_callback(state, row)
        if stop and "objective" not in row:
            self._evaluate(state, row)
        return stop

    def _evaluate(self, state: State, row: dict[str, Any]) -> None:
        with _quiet_overflow():
            terms = self.problem.terms(state.x, state.x_observed, self.solver.objective_name)
        if not np.isfinite(terms.objective):
            raise FloatingPointError("the objective is not finite")
        row |= {"objective": terms.objective, "fit": terms.fit}
        row |= {"spectral": terms.spectral, "discrete": terms.discrete}
        if terms.objective <= self.best:
            self.best, self.answer = terms.objective, state.x

    def _ask_callback(self, state: State, row: dict[str, Any]) -> bool:
        if self.callback is None:
            return False
        info = Info(state.iteration, state.x, self.problem, row)
        answer = self.callback(info)
        if isinstance(answer, Mapping):
            info.record(answer)
            return False
        return bool(answer)

    def _broken_off(self, code: str, message: str) -> Status:
        done = len(self.history.rows)
        unevaluated = "the last iterate" if done else "the starting point"
        kept = "the best iterate so far" if np.isfinite(self.best) else unevaluated
        advice = {
            "interrupted": "Pass it as x0 to go on from there.",
            "diverged": "Check the scale of the data, lower xi, or use a solver with a safeguard.",
        }[code]
        return Status(code, f"{message} after {done} iteration(s); x is {kept}.", advice)


def _ended(done: bool, stop: bool, iteration: int, tol: float, relative: float) -> Status:
    if done:
        return Status(
            "converged", f"Converged: the relative change fell to {relative:.1e} in {iteration} iterations."
        )
    if stop:
        return Status("stopped", f"Stopped by the callback after {iteration} iterations.")
    if tol == 0:
        return Status("max_iter", f"Ran all {iteration} iterations that were asked for (tol=0 never stops early).")
    return Status(
        "max_iter",
        f"Stopped at max_iter={iteration} with a relative change of {relative:.1e}, above tol={tol:g}.",
        "Raise max_iter, or tol if this is close enough.",
    )


def _quiet_overflow() -> np.errstate:
    """The loop itself looks for what is not finite, and says so in the status."""
    return np.errstate(over="ignore", invalid="ignore")


def _check_limits(max_iter: int, tol: float, max_rank: int | None, evaluate_every: int) -> None:
    _check_count("max_iter", max_iter)
    _check_count("evaluate_every", evaluate_every)
    if max_rank is not None:
        _check_count("max_rank", max_rank, " or None")
    if not tol >= 0:
        raise ValueError(f"tol must be at least 0, got {tol}")


def _check_count(name: str, value: object, otherwise: str = "") -> None:
    if not (isinstance(value, Integral) and int(value) >= 1):
        raise ValueError(f"{name} must be a whole number, at least 1{otherwise}, got {value!r}")
