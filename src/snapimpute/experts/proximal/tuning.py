"""Choosing λ and ξ on observed entries that are held out, never on the entries to be predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.experts.proximal.choice import (
    DISCRETE,
    LAM_RATIO,
    LAM_STEPS,
    QUICK,
    SETTLED,
    XI_STEPS,
    Candidate,
    Choice,
    Grid,
    HeldOut,
    Limits,
    Metric,
    Verdict,
    check_metric,
    hasty,
    lam_grid,
    lams_of,
    largest_lam,
    losses,
    score_of,
    thin,
    xi_grid,
    xis_of,
)
from snapimpute.experts.proximal.offsets import HELD_OUT, KnownCells
from snapimpute.experts.proximal.spec import BoundSpec, ModelSpec
from snapimpute.linalg import LowRank
from snapimpute.solvers import FitOptions, Result, Solver
from snapimpute.solvers.loop import run
from snapimpute.solvers.options import TUNING, FitKeywords

__all__ = [
    "LAM_RATIO",
    "LAM_STEPS",
    "XI_STEPS",
    "Candidate",
    "Choice",
    "HeldOut",
    "LamPath",
    "ModelSpec",
    "Search",
    "Verdict",
    "choose",
    "lam_grid",
    "lams_of",
    "largest_lam",
    "losses",
    "path",
    "xi_grid",
]

Progress = Callable[[Candidate], None]


PATIENCE = 2
"""A path over λ ends after so many λ in a row without a better score, or after one that is worse beyond an error."""

MOST_LOSSES = 100_000
"""Held-out entries that two candidates are compared on, at most."""


def choose(
    observations: Observations,
    spec: ModelSpec,
    *,
    lam: Grid = "auto",
    xi: Grid = "auto",
    metric: Metric = "error",
    share: float = HELD_OUT,
    cv: int | None = None,
    early: bool = True,
    solver: Solver[Any] | str = "auto",
    progress: Progress | None = None,
    **options: Unpack[FitKeywords],
) -> Choice:
    """Choose λ and ξ by how well they predict observed entries that were held out.

    The path of the plain method is walked from the largest λ down, each fit
    starting from the one before, until the score gets worse. If no λ were given,
    these fits are hasty; a better one follows at the chosen λ, and each ξ starts
    from there. Two ξ are tried, more while they help beyond a standard error. All
    λ and ξ that were given are tried, each ξ with a path over λ of its own.

    Parameters
    ----------
    observations : Observations
    spec : ModelSpec
    lam, xi : float, list of float or "auto"
        What to try.
    metric : {"error", "mae", "rmse"}
        "error": share of entries whose nearest symbol is wrong; "mae": mean
        absolute error of the nearest symbol; "rmse": root mean squared error of
        the estimate before it is snapped. Entries of columns without an alphabet
        count by the squared error.
    share : float
        Share of the observed entries to hold out.
    cv : int, optional
        Hold out every entry once, in so many folds, instead.
    early : bool
        Whether paths end early, and begin late; if not, every pair is tried.
    solver : Solver or str
        As in `solve`.
    progress : callable, optional
        Called with each `Candidate` as it is scored.
    **options
        As in `solve`, with other defaults: max_iter (60), tol (1e-3),
        alphabet_term ("auto"), max_rank, backend, dtype, random_state.

    Examples
    --------
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.4)
    >>> choice = choose(data.observations, ModelSpec(data.alphabet, center="mean"))
    >>> choice.best.score < 0.1
    True
    """
    fitted = replace(TUNING, **options)
    folds = KnownCells(observations).folds(share, cv, seed=fitted.random_state)
    search = Search(spec, folds, metric, solver, fitted, early=early, progress=progress)
    return search.plain(lam, xi).others().choice()


def path(
    observations: Observations,
    spec: ModelSpec,
    *,
    lam: Grid = "auto",
    xi: Grid = "auto",
    metric: Metric = "error",
    share: float = HELD_OUT,
    cv: int | None = None,
    solver: Solver[Any] | str = "auto",
    progress: Progress | None = None,
    **options: Unpack[FitKeywords],
) -> Choice:
    """Score every pair (λ, ξ), for the whole surface; parameters as in `choose`.

    Examples
    --------
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.4)
    >>> lams, xis, scores = path(data.observations, ModelSpec(data.alphabet), lam=[4, 2, 1], xi=[0, 0.03]).surface()
    >>> scores.shape
    (3, 2)
    """
    fitted = replace(TUNING, **options)
    folds = KnownCells(observations).folds(share, cv, seed=fitted.random_state)
    search = Search(spec, folds, metric, solver, fitted, early=False, progress=progress)
    return search.plain(lam, xi).others().choice()


class Search:
    """Walks paths, and remembers what they gave; parameters as in `choose`.

    ``folds`` are pairs of kept and held-out cells. Call `plain` first: it tries the
    first ξ, which is 0 if that is among them. `others` tries the rest.
    """

    def __init__(
        self,
        spec: ModelSpec,
        folds: Sequence[tuple[Observations | KnownCells, Observations]],
        metric: Metric = "error",
        solver: Solver[Any] | str = "auto",
        options: FitOptions = TUNING,
        *,
        early: bool = True,
        progress: Progress | None = None,
    ) -> None:
        check_metric(metric)
        self.metric, self.early, self.progress, self.spec = metric, early, progress, spec
        self.fits = [LamPath(spec.bind(kept), solver, options) for kept, _ in folds]
        self.held = [held for _, held in folds]
        self.tried: list[Candidate] = []
        self.losses: dict[Candidate, Array] = {}
        self.best: dict[bool, Candidate] = {}
        """The best plain candidate and the best of the others, by whether ξ is above 0."""
        self.found: dict[Candidate, list[HeldOut]] = {}
        """Held-out cells as the best candidates predict them."""
        self.ends: dict[Candidate, list[LowRank]] = {}
        """Fits of the best candidates, one of each fold."""

    def plain(self, lam: Grid = "auto", xi: Grid = "auto") -> Search:
        """Walk the path of the first ξ."""
        bound, solver = self.fits[0].bound, self.fits[0].solver
        self.lams, self.xis = sorted(lams_of(bound, lam), reverse=True), sorted(xis_of(bound, solver, xi))
        self.open = self.early and isinstance(xi, str)
        self.swift = self.early and (isinstance(lam, str) or len(self.lams) == 1)
        self.auto = solver == "auto"
        self.thin = thin(self.held[0].shape)
        self.rough = self.swift and len(self.lams) > 1 and self.auto
        self._path(self.lams, self.xis[0])
        return self

    def others(self) -> Search:
        """Try the other ξ: at the chosen λ and from the fit there, or down paths of their own where λ were given."""
        if self.swift:
            self._discrete(self._settled())
        else:
            for xi in self.xis[1:]:
                self._path(self.lams, xi)
        return self

    @property
    def lowest(self) -> float:
        """The best score so far."""
        return min(c.score for c in self.tried)

    def _path(self, lams: Sequence[float], xi: float, starts: list[LowRank] | None = None) -> Candidate:
        """Walk down, from nothing or from fits without the discrete term; return the best candidate."""
        own = DISCRETE if starts else QUICK if self.rough else None
        return self._walk(lams, xi, starts, own if self.auto else None)

    def _walk(
        self, lams: Sequence[float], xi: float, starts: list[LowRank] | None, limits: Limits | None
    ) -> Candidate:
        x0s: Sequence[LowRank | None] = starts or [None] * len(self.fits)
        walks = [fit.down(lams, xi, x0, limits=limits) for fit, x0 in zip(self.fits, x0s, strict=True)]
        scored = (self._score(lam, xi, results) for lam, *results in zip(lams, *walks, strict=True))
        best, since = next(scored), 0
        for one in scored:
            worse = limits is not None and not self._as_good(one, best)
            best, since = (one, 0) if one.score < best.score else (best, since + 1)
            if self.early and (since >= PATIENCE or worse or (limits is not None and one.rank >= self.thin)):
                break
        return best

    def _settled(self) -> Candidate:
        """Fit further at the λ that the first path chose; the scores of its hasty fits count no more.

        Their ranks lag behind, which asks for too small a λ: the λ above comes first, and will do if it is as good.
        """
        rough = self._chosen()
        if not self.rough:
            return rough
        before, starts, place = (self.found, self.best, self.ends), self.ends[rough], self.lams.index(rough.lam)
        self.found, self.best, self.ends = {}, {}, {}
        try:
            for lam in self.lams[max(place - 1, 0) : place + 1]:
                settled = self._walk([lam], rough.xi, starts, SETTLED)
                if self._as_good(settled, rough):
                    break
        except KeyboardInterrupt:
            if not self.best:
                self.found, self.best, self.ends = before
            raise
        return self._chosen()

    def _discrete(self, plain: Candidate) -> None:
        """Try the other ξ at one λ; if one helps beyond a standard error, the λ next to it besides."""
        starts = self.ends[plain]
        for xi in self._xis(plain) if self.open else self.xis[1:]:
            self._path([plain.lam], xi, starts)
        best = min(self.best.values(), key=lambda c: c.score)
        if best is plain or not self.rough or not self._helps(best, plain):
            return
        place, starts = self.lams.index(best.lam), self.ends[best]
        for lam in (*self.lams[max(place - 1, 0) : place], *self.lams[place + 1 : place + 2]):
            self._path([lam], best.xi, starts)

    def _xis(self, plain: Candidate) -> Iterator[float]:
        """Yield the middle ξ, the next one that looks better, and more while that helps beyond a standard error."""
        xis = self.xis[1:]
        place, step = (len(xis) - 1) // 2, 0
        while 0 <= place < len(xis):
            yield xis[place]
            one = self.tried[-1]
            if step and not (one is self.best[True] and self._helps(one, plain)):
                return
            step = step or (1 if one.score < plain.score else -1)
            place += step

    def _score(self, lam: float, xi: float, results: Sequence[Result]) -> Candidate:
        book, found = self.spec.book(self.held[0].shape[1]), []
        for held, result in zip(self.held, results, strict=True):
            estimate = result.entries(held.rows, held.cols)
            found.append(HeldOut(held, estimate, losses(self.metric, held, estimate, book)))
        lost = np.concatenate([one.loss for one in found])
        mean, error = score_of(self.metric, lost)
        rank, count = max(result.x.rank for result in results), max(result.n_iter for result in results)
        candidate = Candidate(lam, xi, mean, rank, count, error)
        self.losses[candidate] = lost[:: -(-lost.size // MOST_LOSSES)]
        self.ends[candidate] = [result.x for result in results]
        self.found[candidate] = found
        if (xi > 0) not in self.best or mean < self.best[xi > 0].score:
            self.best[xi > 0] = candidate
        self.found = {c: kept for c, kept in self.found.items() if self._as_good(c, self.best[c.xi > 0])}
        self.ends = {c: kept for c, kept in self.ends.items() if c in self.found}
        self.tried.append(candidate)  # last: an interruption may come anywhere, and what was tried can be chosen
        if self.progress is not None:
            self.progress(candidate)
        return candidate

    def choice(self) -> Choice:
        """ξ above 0 if it is better beyond a standard error; the largest λ no more than one above the best score."""
        chosen = self._chosen()
        return Choice(chosen, tuple(self.tried), self.metric, tuple(self.found[chosen]), self._verdict())

    def _chosen(self) -> Candidate:
        best = min(self.best.values(), key=lambda c: (c.score, c.xi))
        if self.early and best.xi > 0 and False in self.best and not self._helps(best, self.best[False]):
            best = self.best[False]
        return max((c for c in self.found if c.xi == best.xi), key=lambda c: c.lam)

    def _as_good(self, one: Candidate, best: Candidate) -> bool:
        if one is best or not self.early:
            return one is best
        return self._excess(one, best) <= 1

    def _helps(self, one: Candidate, other: Candidate) -> bool:
        """True if a candidate loses less than another, beyond a standard error."""
        return self._excess(one, other) < -1

    def _excess(self, one: Candidate, other: Candidate) -> float:
        """Return how much more a candidate loses than another on the same entries, in standard errors."""
        worse = self.losses[one] - self.losses[other]
        error = float(worse.std()) / math.sqrt(worse.size)
        return float(worse.mean()) / max(error, 1e-300)

    def _verdict(self) -> Verdict | None:
        if len(self.best) < 2:
            return None
        plain, aware = self.best[False], self.best[True]
        return Verdict.of(plain, aware, self.found[plain], self.found[aware], self.metric)


@dataclass(frozen=True)
class LamPath:
    """Fits of a bound specification down a path of λ; parameters as in `choose`."""

    bound: BoundSpec
    solver: Solver[Any] | str = "auto"
    options: FitOptions = TUNING

    def down(
        self, lams: Iterable[float], xi: float, x: LowRank | None = None, *, limits: Limits | None = None
    ) -> Iterator[Result]:
        """Yield the fits at every λ in turn, each started from the one before, the first from ``x``."""
        for lam in lams:
            problem, options, solver = self.bound.problem(lam, xi, self.options.dtype), self.options, self.solver
            if limits is not None:
                options, solver = limits.of(options, x, problem.observations), hasty(problem, solver, x)
            result = run(problem, solver, replace(options, evaluate_every=options.max_iter), x0=x)
            if result.status.code == "interrupted":  # `solve` would go on with the best so far, a path must not
                raise KeyboardInterrupt(result.status.message)
            x = result.x
            yield result
