"""A solver whose iterates are given, for tests of the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import snapimpute as si
from snapimpute.solvers import Result, SoftImpute, Solver
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
