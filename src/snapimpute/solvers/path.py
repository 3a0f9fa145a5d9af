"""Solutions for many λ, from the largest that matters down, each started from the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from snapimpute.operators import LowRank
from snapimpute.problem import Problem
from snapimpute.solvers.base import Context, Solver
from snapimpute.solvers.continuation import first_penalty
from snapimpute.solvers.loop import solve
from snapimpute.solvers.proximal import SoftImpute
from snapimpute.solvers.result import Result


class PathPoint(NamedTuple):
    """One λ of a path, and the solution there."""

    lam: float
    result: Result


def path(
    problem: Problem,
    lams: Sequence[float] | int = 20,
    solver: Solver[Any] | str | None = None,
    *,
    smallest: float = 1e-2,
    **options: Any,
) -> Iterator[PathPoint]:
    """Yield the solutions down a path of λ with warm starts, as Soft-Impute does.

    Parameters
    ----------
    problem : Problem
        Its own λ does not enter.
    lams : int or list of float
        How many λ, evenly spaced on a logarithmic scale from the largest at
        which X is not 0 down, or the λ themselves, in any order.
    solver : Solver or str, optional
        `SoftImpute` if not given.
    smallest : float
        Where a path that is not given ends, relative to its first λ.
    **options
        As in `solve`: max_iter, tol, max_rank, random_state, …

    Examples
    --------
    >>> import snapimpute as si
    >>> observations = si.Observations.from_dense([[1, 5, None], [None, 5, 1], [1, 5, 1]])
    >>> [point.result.x.rank for point in path(si.Problem(observations, si.Nuclear(1.0)), [0.1, 1.0, 20.0])]
    [0, 1, 1]
    """
    x: LowRank | None = None
    ladder = _ladder(problem, lams, smallest, int(options.get("random_state", 0)))
    for spectral in [problem.spectral.with_lam(lam) for lam in ladder]:  # all of them before any work
        stage = replace(problem, spectral=spectral)
        result = solve(stage, SoftImpute() if solver is None else solver, x0=x, **options)
        x = result.x
        yield PathPoint(spectral.lam, result)
        if result.status.code == "interrupted":
            return


def _ladder(problem: Problem, lams: Sequence[float] | int, smallest: float, seed: int) -> list[float]:
    if not isinstance(lams, int | np.integer):
        return sorted((float(lam) for lam in lams), reverse=True)
    if lams < 1 or not 0 < smallest < 1:
        raise ValueError(f"a path has at least 1 λ, and smallest lies between 0 and 1, got {lams} and {smallest}")
    open_problem = replace(problem, spectral=problem.spectral.with_lam(0.0))
    first = max(first_penalty(open_problem, LowRank.zeros(problem.shape), Context(None, seed)).lam, 1e-12)
    grid: list[float] = np.geomspace(first, smallest * first, int(lams) + 1)[1:].tolist()
    return grid
