"""Solutions for many λ, or many α of the fractional ℓ0, from the largest down, each from the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import numpy as np

from snapimpute.linalg import LowRank
from snapimpute.penalties import AnnealedPenalty
from snapimpute.problem import Problem
from snapimpute.solvers.base import Context, Solver
from snapimpute.solvers.loop import Callback, run
from snapimpute.solvers.options import FitKeywords, FitOptions
from snapimpute.solvers.parameters import check_count, check_positive
from snapimpute.solvers.proximal.continuation import first_penalty
from snapimpute.solvers.proximal.gradient import SoftImpute
from snapimpute.solvers.result import Result


class AnnealPoint(NamedTuple):
    """An α, and the solution there."""

    alpha: float
    result: Result


class PathPoint(NamedTuple):
    """A λ of a path, and the solution there."""

    lam: float
    result: Result


def path(
    problem: Problem,
    lams: Sequence[float] | int = 20,
    solver: Solver[Any] | str | None = None,
    *,
    smallest: float = 1e-2,
    callback: Callback | None = None,
    **options: Unpack[FitKeywords],
) -> Iterator[PathPoint]:
    """Yield the solutions down a path of λ with warm starts, as Soft-Impute does.

    Parameters
    ----------
    problem : Problem
        Its own λ does not enter.
    lams : int or list of float
        Number of λ, evenly spaced on a logarithmic scale, from the largest at which
        X is not 0 down; or the λ themselves, in any order.
    solver : Solver or str, optional
        `SoftImpute` by default.
    smallest : float
        Last λ of a path that is not given, relative to its first.
    callback, **options
        As in `solve`: max_iter, tol, max_rank, random_state, …

    Examples
    --------
    >>> import snapimpute as si
    >>> observations = si.Observations.from_dense([[1, 5, None], [None, 5, 1], [1, 5, 1]])
    >>> [point.result.x.rank for point in path(si.Problem(observations, si.Nuclear(1.0)), [0.1, 1.0, 20.0])]
    [0, 1, 1]
    """
    x: LowRank | None = None
    fitted = FitOptions(**options)
    ladder = _ladder(problem, lams, smallest, int(fitted.random_state))
    for spectral in [problem.spectral.with_lam(lam) for lam in ladder]:  # all of them before any work
        stage = problem.with_spectral(spectral)
        result = run(stage, SoftImpute() if solver is None else solver, fitted, x0=x, callback=callback)
        x = result.x
        yield PathPoint(spectral.lam, result)
        if result.status.code == "interrupted":
            return


def anneal(
    problem: Problem,
    solver: Solver[Any] | str = "auto",
    *,
    steps: int = 8,
    first: float | None = None,
    x0: LowRank | None = None,
    callback: Callback | None = None,
    **options: Unpack[FitKeywords],
) -> Iterator[AnnealPoint]:
    """Yield the solutions while α of `FractionalL0` falls to that of the problem, as its authors do.

    A large α gives wide wells and few local minima; each solution starts the
    next. `solvers.MM` does not need this: it lowers α in its own iterations.

    Parameters
    ----------
    problem : Problem
        With `FractionalL0`; its α is the last one.
    solver : Solver or str
        As in `solve`.
    steps : int
        Number of α, evenly spaced on a logarithmic scale.
    first : float, optional
        The first α; by default the squared largest distance between neighbouring
        symbols.
    x0, callback, **options
        As in `solve`: max_iter, tol, max_rank, random_state, …

    Examples
    --------
    >>> import snapimpute as si
    >>> observations = si.Observations.from_dense([[1, 0, None], [None, 0, 1], [1, 0, 1]])
    >>> problem = si.Problem(observations, si.Nuclear(0.1), si.FractionalL0("0,1", xi=0.01, alpha=0.01))
    >>> [round(point.alpha, 3) for point in anneal(problem, steps=3)]
    [1.0, 0.1, 0.01]
    """
    if not isinstance(problem.discrete, AnnealedPenalty):
        raise TypeError(f"only FractionalL0 has an α to bring down, got {problem.discrete!r}")
    check_count("steps", steps)
    if first is not None:
        check_positive("first", first, otherwise=", or None")
    last = problem.discrete.alpha
    begin = max(problem.discrete.widest if first is None else first, last)
    alphas = np.geomspace(begin, last, steps).tolist() if steps > 1 and begin > last else [last]
    fitted, x = FitOptions(**options), x0
    for alpha in alphas:
        stage = replace(problem, discrete=problem.discrete.with_alpha(alpha))
        result = run(stage, solver, fitted, x0=x, callback=callback)
        x = result.x
        yield AnnealPoint(alpha, result)
        if result.status.code == "interrupted":
            return


def _ladder(problem: Problem, lams: Sequence[float] | int, smallest: float, seed: int) -> list[float]:
    if not isinstance(lams, int | np.integer):
        return sorted((float(lam) for lam in lams), reverse=True)
    if lams < 1 or not 0 < smallest < 1:
        raise ValueError(f"a path has at least 1 λ, and smallest lies between 0 and 1, got {lams} and {smallest}")
    open_problem = problem.with_spectral(problem.spectral.with_lam(0.0))
    first = max(first_penalty(open_problem, LowRank.zeros(problem.shape), Context(None, seed)).lam, 1e-12)
    grid: list[float] = np.geomspace(first, smallest * first, int(lams) + 1)[1:].tolist()
    return grid
