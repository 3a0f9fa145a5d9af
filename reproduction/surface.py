"""Walking over a grid of λ and ξ: every fit starts from one beside it, and the walk ends where errors rise.

The larger ξ, the larger the best λ: from the best λ of one ξ the next is sought both ways.

A study tunes hundreds of fits, so this one is leaner than `tuning.choose`: only
squared errors, one split, and fits that several penalties share, those with
ξ = 0, are made once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from snapimpute.data.observations import Observations
from snapimpute.evaluation import metrics
from snapimpute.experts.proximal import tuning
from snapimpute.experts.proximal.spec import ModelSpec
from snapimpute.linalg import LowRank
from snapimpute.solvers import Result, solve

MAX_ITER, TOL = 40, 1e-4
"""Limits of every fit on the way."""

BETTER = 2e-3
"""A step counts as an improvement from this share of the error on: paths have long flat ends, at high ranks."""

HIGH_RANK = 0.12
"""A path down ends at a rank of this share of the smaller side."""

WALK = 1, MAX_ITER, TOL, BETTER, HIGH_RANK
"""All that a walk is made by, for fingerprints."""


@dataclass(frozen=True, eq=False)
class Point:
    """A fit at places of the grids of λ and ξ, its NMSE on the entries held out, and the time it took.

    ``before`` is the place of the fit that it started from, if there was one.
    """

    lam: int
    xi: int
    nmse: float
    seconds: float
    result: Result
    before: tuple[int, int] | None = None


Points = MutableMapping[tuple[int, int], Point]


class Surface:
    """The fits of a model specification to some entries, scored on others, by places in the grids of λ and ξ.

    Parameters
    ----------
    known, held : Observations
        What is fitted, and what it is scored on.
    spec : ModelSpec
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
        spec: ModelSpec,
        solver: str,
        lams: list[float],
        seed: int,
        plain: Points | None = None,
    ) -> None:
        self.known, self.held, self.spec, self.solver, self.seed = known, held, spec, solver, seed
        self.lams, self.xis = lams, tuning.xi_grid(spec)
        self.plain: Points = {} if plain is None else plain
        self.others: Points = {}
        self.start: LowRank | None = None
        """Start of a fit that has no other beside it."""
        self.patience = 1 if spec.spectral == "nuclear" else 2

    def at(self, lam: int, xi: int) -> Point:
        """The fit at a point of the grid, started from one beside it: that of the next λ above, if it is there."""
        points = self.others if xi else self.plain
        if (lam, xi) not in points:
            beside = ((lam - 1, xi), (lam, xi - 1), (lam + 1, xi))
            before = next((place for place in beside if self._made(place)), None)
            points[lam, xi] = self._fit(lam, xi, before)
        return points[lam, xi]

    def _made(self, place: tuple[int, int]) -> Point | None:
        return (self.others if place[1] else self.plain).get(place)

    def _fit(self, lam: int, xi: int, before: tuple[int, int] | None) -> Point:
        begin = time.perf_counter()
        problem = self.spec.problem(self.known, self.lams[lam], self.xis[xi])
        start = None if before is None else self._made(before)
        result = solve(
            problem,
            "ais-impute" if problem.convex else self.solver,
            x0=self.start if start is None else start.result.x,
            max_iter=MAX_ITER,
            tol=TOL,
            evaluate_every=MAX_ITER,
            dtype="float32",
            random_state=self.seed,
        )
        if result.status.code == "interrupted":
            raise KeyboardInterrupt(result.status.message)
        nmse = metrics.nmse(self.held.values, result.entries(self.held.rows, self.held.cols))
        return Point(lam, xi, nmse, time.perf_counter() - begin, result, before)

    def best_plain(self) -> Point:
        """The best fit with ξ = 0."""
        return self._path(0, 0)

    def best(self) -> Point:
        """The best fit: of ξ = 0, then of each larger ξ as long as that is better than the one before."""
        best = self.best_plain()
        for xi in range(1, len(self.xis)):
            one = self._path(max(best.lam - 1, 0), xi)
            if one.nmse >= (1 - BETTER) * best.nmse:
                break
            best = one
        return best

    def climb(self, lam: int, xi: int) -> Point:
        """Walk from a point to the best of its neighbours, until none is better."""
        best = self.at(lam, xi)
        while True:
            steps = (best.lam - 1, best.xi), (best.lam + 1, best.xi), (best.lam, best.xi - 1), (best.lam, best.xi + 1)
            beside = [self.at(i, k) for i, k in steps if 0 <= i < len(self.lams) and 0 <= k < len(self.xis)]
            better = min(beside, key=lambda point: point.nmse)
            if better.nmse >= (1 - BETTER) * best.nmse:
                return best
            best = better

    def _path(self, begin: int, xi: int) -> Point:
        """Walk from a λ up until the error rises, then down."""
        best = self._along(self.at(begin, xi), range(begin - 1, -1, -1))
        return self._along(best, range(begin + 1, len(self.lams)))

    def _along(self, best: Point, places: range) -> Point:
        since = 0
        for lam in places:
            one = self.at(lam, best.xi)
            better = one.nmse < (1 - BETTER) * best.nmse
            since = 0 if better else since + 1
            best = one if better else best
            high = places.step > 0 and one.result.x.rank > HIGH_RANK * min(self.known.shape)
            if since >= self.patience or high:
                break
        return best

    def way_to(self, point: Point) -> list[tuple[int, int]]:
        """The places of the fits that led to a point, the first of them first, itself last."""
        way = [(point.lam, point.xi)]
        while (made := self._made(way[0])) is not None and made.before is not None:
            way.insert(0, made.before)
        return way

    def follow(self, way: list[tuple[int, int]]) -> Point:
        """Make the fits of a way that another surface was walked, each started from the one before."""
        before = None
        for lam, xi in way:
            points = self.others if xi else self.plain
            points[lam, xi] = self._fit(lam, xi, before)
            before = lam, xi
        return points[lam, xi]

    def points(self) -> Iterator[Point]:
        """All that were fitted."""
        yield from self.plain.values()
        yield from self.others.values()

    @property
    def seconds(self) -> float:
        """Seconds of all fits, those that others made included."""
        return sum(point.seconds for point in self.points())

    def strengths(self, point: Point) -> dict[str, Any]:
        """λ, ξ and θ of a point."""
        return {"lam": self.lams[point.lam], "xi": self.xis[point.xi], "theta": self.spec.theta}
