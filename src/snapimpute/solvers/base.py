"""The interface of a solver to the loop, and its description of itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.linalg import LowRank
from snapimpute.penalties import SPECTRAL
from snapimpute.problem import ALL_CELLS, Coverage, ObjectiveName, Problem, Terms
from snapimpute.problem.losses import Squares

ANY_SPECTRAL = tuple(SPECTRAL)
"""The names of all spectral penalties."""


@stored("state", "x", "x_observed", "iteration", "change", "certificate", "terms", "final")
@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """State of a solver after an iteration; every field is given by name.

    ``x`` has orthonormal factors, so that ‖x‖_F = ‖s‖. ``change`` is ‖X⁺ − X‖_F
    of the last step. ``certificate`` measures how far x is from satisfying the
    first-order conditions; it is infinite while nothing is known. For proximal
    solvers it bounds the distance of 0 from a subdifferential; the docstrings of
    the others define it. ``terms`` holds the objective if the step had to evaluate
    it, and ``final`` marks the end of a method that needs no iteration.
    """

    x: LowRank
    x_observed: Array
    iteration: int = 0
    change: float = math.inf
    certificate: float = math.inf
    terms: Terms | None = None
    final: bool = False

    @classmethod
    def extending(cls, base: State, **own: Any) -> Self:
        """Make a state with the fields of another one and those that are given."""
        return cls(**{one.name: getattr(base, one.name) for one in fields(base)} | own)

    def after(self, x: LowRank, observed: Array, **own: Any) -> Self:
        """Return the state after an iteration to x; fields that are not given stay, but for the terms."""
        step = {"iteration": self.iteration + 1, "change": x.distance(self.x), "terms": None}
        return replace(self, x=x, x_observed=observed, **step | own)

    @property
    def size(self) -> float:
        """‖X‖_F."""
        return math.hypot(*self.x.s)

    @property
    def relative_change(self) -> float:
        """‖X⁺ − X‖_F/‖X⁺‖_F."""
        if self.change == 0:
            return 0.0
        return self.change / self.size if self.size else math.inf

    @property
    def measure(self) -> float:
        """Number that `tol` bounds: the relative change, unless a solver overrides it."""
        return self.relative_change

    @property
    def pending(self) -> str:
        """Reason why the stopping rule cannot apply yet, in words; empty if it can."""
        return ""


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Context:
    """Limits that `solve` sets for every step, the source of randomness, and the cells that a step computes."""

    max_rank: int | None
    seed: int
    coverage: Coverage = ALL_CELLS

    def rng(self, iteration: int) -> np.random.Generator:
        """Return the random numbers of one iteration; a resumed run draws the same ones."""
        return np.random.default_rng([self.seed, iteration])


@dataclass(frozen=True)
class SolverInfo:
    """Description of a solver, from which the table of solvers and the check of a pair are made.

    Attributes
    ----------
    title : str
        Its name in the literature.
    minimises : str
    spectral : tuple of str
        Names of the spectral penalties that it treats.
    discrete : bool
        True if it treats a discrete term (ξ > 0).
    convex : bool
        True if it needs every term to be convex.
    cost : str
        Cost of one iteration; r is the rank, k = r and a few more.
    paper : str
    """

    title: str
    minimises: str
    spectral: tuple[str, ...]
    discrete: bool
    convex: bool
    cost: str
    paper: str


class Solver(ABC, Generic[S]):
    """Hyperparameters and an update. A solver never prints, measures time, or decides to stop."""

    name: ClassVar[str]
    info: ClassVar[SolverInfo]
    objective_name: ClassVar[ObjectiveName]
    measures: ClassVar[str] = "relative change"
    """Name of the number that `tol` bounds."""
    any_loss: ClassVar[bool] = False
    """True if it treats fits other than least squares."""
    samples: ClassVar[bool] = False
    """True if the discrete term may be estimated on a sample."""
    single: ClassVar[bool] = False
    """True if it can compute in float32."""
    anywhere: ClassVar[bool] = False
    """True if it computes with the arrays of any backend."""
    uses_lam: ClassVar[bool] = True
    """True if the λ of the spectral penalty enters."""
    if_it_diverges: ClassVar[str] = "Check the scale of the data, lower xi, or use a solver with a safeguard."

    @abstractmethod
    def init(self, problem: Problem, x0: LowRank, context: Context) -> S:
        """Return the state before the first iteration."""

    @abstractmethod
    def step(self, problem: Problem, state: S, context: Context) -> S:
        """Make one iteration."""

    def finish(self, problem: Problem, state: S, context: Context) -> S:
        """Finish after the last iteration; most solvers have nothing to do."""
        return state

    def terms(self, problem: Problem, state: S, context: Context) -> Terms:
        """Evaluate the terms of the objective."""
        if state.terms is not None:
            return state.terms
        return problem.terms(state.x, state.x_observed, self.objective_name, coverage=context.coverage)

    def merit(self, state: S, terms: Terms) -> float:
        """Return the number by which iterates are compared: the objective, unless iterates are infeasible."""
        return terms.objective

    def columns(self, state: S) -> dict[str, float]:
        """Return further columns of the history."""
        return {}

    def extras(self, state: S) -> dict[str, Any]:
        """Return results besides X."""
        return {}

    @classmethod
    def objection(cls, problem: Problem) -> str | None:
        """Return the reason why this solver cannot treat the problem; None if it can."""
        info = cls.info
        if problem.spectral.name not in info.spectral:
            kind = "penalty" if len(info.spectral) == 1 else "penalties"
            return f"treats only the spectral {kind} {', '.join(info.spectral)}, not {problem.spectral!r}"
        if not (cls.any_loss or isinstance(problem.loss, Squares)):
            return f"treats only the least-squares fit, not {problem.loss!r}"
        if problem.is_discrete and not info.discrete:
            return f"does not treat a discrete term, here {problem.discrete!r}"
        if info.convex and not problem.convex:
            return f"needs every term to be convex, and {problem.discrete!r} is not"
        return None
