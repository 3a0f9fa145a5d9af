"""Walking over a grid of λ and ξ: every fit starts from one beside it, and the walk ends where errors rise.

A study tunes hundreds of fits, so this one is leaner than `tuning.choose`: only
squared errors, one split, and fits that several penalties share, those with
ξ = 0, are made once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from snapimpute import metrics, tuning
from snapimpute.observations import Observations
from snapimpute.operators import LowRank
from snapimpute.recipe import Recipe
from snapimpute.solvers import Result, solve

ABOVE = 1
"""The path of a ξ begins so many λ above the best of the ξ before."""

MAX_ITER, TOL = 40, 1e-4
"""Of every fit on the way."""

BETTER = 2e-3
"""A step counts as an improvement from this share of the error on: paths have long flat ends, at high ranks."""

HIGH_RANK = 0.12
"""A path ends at a rank of this share of the smaller side."""

WALK = ABOVE, MAX_ITER, TOL, BETTER, HIGH_RANK
"""All that a walk is made by, for fingerprints."""


@dataclass(frozen=True, eq=False)
class Point:
    """A fit at places of the grids of λ and ξ, its NMSE on the entries held out, and the time it took."""

    lam: int
    xi: int
    nmse: float
    seconds: float
    result: Result


Points = MutableMapping[tuple[int, int], Point]


class Surface:
    """The fits of a recipe to some entries, scored on others, by places in the grids of λ and ξ.

    Parameters
    ----------
    known, held : Observations
        What is fitted, and what it is scored on.
    recipe : Recipe
    solver : str
        For problems that are not convex; others are solved by AIS-Impute, as the minimiser is the same whoever
        finds it.
    lams : list of float
        From the largest down.
    seed : int
    plain : dict, optional
        Fits with ξ = 0 that were made before, which are taken, and added to.
    """

    def __init__(
        self,
        known: Observations,
        held: Observations,
        recipe: Recipe,
        solver: str,
        lams: list[float],
        seed: int,
        plain: Points | None = None,
    ) -> None:
        self.known, self.held, self.recipe, self.solver, self.seed = known, held, recipe, solver, seed
        self.lams, self.xis = lams, tuning.xi_grid(recipe)
        self.plain: Points = {} if plain is None else plain
        self.others: Points = {}
        self.start: LowRank | None = None
        """Where a fit starts that has no other beside it."""
        self.patience = 1 if recipe.spectral == "nuclear" else 2

    def at(self, lam: int, xi: int) -> Point:
        """The fit at a point of the grid, started from one beside it: that of the next λ above, if it is there."""
        points = self.others if xi else self.plain
        if (lam, xi) not in points:
            points[lam, xi] = self._fit(lam, xi)
        return points[lam, xi]

    def _fit(self, lam: int, xi: int) -> Point:
        begin = time.perf_counter()
        problem = self.recipe.problem(self.known, self.lams[lam], self.xis[xi])
        beside = ((lam - 1, xi), (lam, xi - 1), (lam + 1, xi))
        found = [one.result.x for place in beside for one in (self.plain.get(place), self.others.get(place)) if one]
        result = solve(
            problem,
            "ais-impute" if problem.convex else self.solver,
            x0=found[0] if found else self.start,
            max_iter=MAX_ITER,
            tol=TOL,
            evaluate_every=MAX_ITER,
            dtype="float32",
            random_state=self.seed,
        )
        if result.status.code == "interrupted":
            raise KeyboardInterrupt(result.status.message)
        nmse = metrics.nmse(self.held.values, result.entries(self.held.rows, self.held.cols))
        return Point(lam, xi, nmse, time.perf_counter() - begin, result)

    def best_plain(self) -> Point:
        """The best fit with ξ = 0."""
        return self._path(0, 0)

    def best(self) -> Point:
        """The best fit: of ξ = 0, then of each larger ξ as long as that is better than the one before."""
        best = self.best_plain()
        for xi in range(1, len(self.xis)):
            one = self._path(max(best.lam - ABOVE, 0), xi)
            if one.nmse >= (1 - BETTER) * best.nmse:
                break
            best = one
        return best

    def climb(self, lam: int, xi: int) -> Point:
        """From a point to the best of its neighbours, until none is better."""
        best = self.at(lam, xi)
        while True:
            steps = (best.lam - 1, best.xi), (best.lam + 1, best.xi), (best.lam, best.xi - 1), (best.lam, best.xi + 1)
            beside = [self.at(i, k) for i, k in steps if 0 <= i < len(self.lams) and 0 <= k < len(self.xis)]
            better = min(beside, key=lambda point: point.nmse)
            if better.nmse >= (1 - BETTER) * best.nmse:
                return best
            best = better

    def _path(self, begin: int, xi: int) -> Point:
        """Down from a λ until the error rises; where it does so at once, up."""
        best = self._along(self.at(begin, xi), range(begin + 1, len(self.lams)))
        return best if best.lam > begin else self._along(best, range(begin - 1, -1, -1))

    def _along(self, best: Point, places: range) -> Point:
        since = 0
        for lam in places:
            one = self.at(lam, best.xi)
            better = one.nmse < (1 - BETTER) * best.nmse
            since = 0 if better else since + 1
            best = one if better else best
            if since >= self.patience or one.result.x.rank > HIGH_RANK * min(self.known.shape):
                break
        return best

    def down_to(self, lam: int, xi: int) -> LowRank | None:
        """Where a fit at a point starts that comes down a path: first the λ of ξ = 0, then those of its own."""
        turn = max(lam - ABOVE, 0) if xi else lam
        for place in range(turn):
            self.at(place, 0)
        for place in range(turn, lam):
            self.at(place, xi)
        return self.at(lam - 1, xi if turn < lam else 0).result.x if lam else None

    def points(self) -> Iterator[Point]:
        """All that were fitted."""
        yield from self.plain.values()
        yield from self.others.values()

    @property
    def seconds(self) -> float:
        """What all the fits took, those that others made included."""
        return sum(point.seconds for point in self.points())

    def strengths(self, point: Point) -> dict[str, Any]:
        """λ, ξ and θ of a point."""
        return {"lam": self.lams[point.lam], "xi": self.xis[point.xi], "theta": self.recipe.theta}
