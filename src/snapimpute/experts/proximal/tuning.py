"""Choosing λ and ξ on observed entries that are held out, never on the entries to be predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import numpy as np

from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.proximal.choice import Candidate, Choice, HeldOut, Metric, Verdict, check_metric
from snapimpute.experts.proximal.offsets import HELD_OUT, KnownCells
from snapimpute.experts.proximal.spec import BoundSpec, ModelSpec
from snapimpute.linalg import LowRank
from snapimpute.penalties import lam_at_threshold
from snapimpute.solvers import FitOptions, Result, Solver, named
from snapimpute.solvers.loop import run
from snapimpute.solvers.options import TUNING, FitKeywords

__all__ = [
    "Candidate",
    "Choice",
    "HeldOut",
    "LamPath",
    "ModelSpec",
    "Search",
    "Verdict",
    "choose",
    "lam_grid",
    "largest_lam",
    "losses",
    "path",
    "xi_grid",
]

XI_STEPS = (0.0, 0.001, 0.003, 0.01, 0.03)
"""ξ tried, in units of `ModelSpec.xi_unit`; 0 is the plain method."""

LAM_STEPS = 14
LAM_RATIO = 0.65
"""λ tried: those whose thresholds are the largest singular value times powers of this ratio."""

PATIENCE = 2
"""A path over λ ends after so many λ in a row without a better score (one that began late, after one); so do the ξ,
each with its own path."""

ABOVE = 1
"""Paths with a ξ above 0 begin so many λ above the best of the plain method, where λ is chosen from a grid."""

MOST_LOSSES = 100_000
"""Held-out entries that two candidates are compared on, at most."""


Progress = Callable[[Candidate], None]
Grid = float | Sequence[float] | Literal["auto"]


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

    For each ξ a path is walked from the largest λ down, each fit starting from
    the one before, until the score has not improved for a while. On a grid of λ
    that was not given, the paths with ξ above 0 begin a little above the best λ
    of the plain method, from its fit there.

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
        self.starts: dict[float, list[LowRank]] = {}
        """The last fits of the first path, by λ."""

    def plain(self, lam: Grid = "auto", xi: Grid = "auto") -> Search:
        """Walk the path of the first ξ."""
        bound, solver = self.fits[0].bound, self.fits[0].solver
        self.lams = sorted(_grid("lam", lam, lambda: lams_of(bound)), reverse=True)
        self.xis = sorted(_grid("xi", xi, lambda: xis_of(bound, solver)))
        first = self._path(self.lams, self.xis[0])
        self.late = self.early and isinstance(lam, str) and self.xis[0] == 0
        self.begin = max(first - ABOVE, 0) if self.late else 0
        return self

    def others(self) -> Search:
        """Walk the paths of the other ξ, from the smallest to the largest."""
        since = 0
        for xi in self.xis[1:]:
            lams, before = self.lams[self.begin :], self.lowest
            self._path(lams, xi, self.starts.get(lams[0]) if self.late else None)
            since = 0 if self.lowest < before else since + 1
            if self.late and since >= PATIENCE:
                break
        return self

    @property
    def lowest(self) -> float:
        """The best score so far."""
        return min(c.score for c in self.tried)

    def _path(self, lams: Sequence[float], xi: float, starts: list[LowRank] | None = None) -> int:
        """Walk down; return the place of the best λ."""
        best, since, place, first = math.inf, 0, 0, not self.tried
        x0s: Sequence[LowRank | None] = starts or [None] * len(self.fits)
        walks = [fit.down(lams, xi, x0) for fit, x0 in zip(self.fits, x0s, strict=True)]
        for i, (lam, *results) in enumerate(zip(lams, *walks, strict=True)):
            candidate = self._score(lam, xi, results)
            if first:
                self.starts[lam] = [result.x for result in results]
                for old in list(self.starts)[: -PATIENCE - ABOVE - 1]:
                    del self.starts[old]
            since = 0 if candidate.score < best else since + 1
            if candidate.score < best:
                best, place = candidate.score, i
            if self.early and since >= (PATIENCE if starts is None else 1):
                break
        return place

    def _score(self, lam: float, xi: float, results: Sequence[Result]) -> Candidate:
        book, found = self.spec.book(self.held[0].shape[1]), []
        for held, result in zip(self.held, results, strict=True):
            estimate = result.entries(held.rows, held.cols)
            found.append(HeldOut(held, estimate, losses(self.metric, held, estimate, book)))
        lost = np.concatenate([one.loss for one in found])
        mean, error = float(lost.mean()), float(lost.std()) / math.sqrt(lost.size)
        if self.metric == "rmse":
            mean = math.sqrt(mean)
            error /= 2 * max(mean, 1e-300)
        rank, count = max(result.x.rank for result in results), max(result.n_iter for result in results)
        candidate = Candidate(lam, xi, mean, rank, count, error)
        self.losses[candidate] = lost[:: -(-lost.size // MOST_LOSSES)]
        self.found[candidate] = found
        if (xi > 0) not in self.best or mean < self.best[xi > 0].score:
            self.best[xi > 0] = candidate
        self.found = {c: kept for c, kept in self.found.items() if self._as_good(c, self.best[c.xi > 0])}
        self.tried.append(candidate)  # last: an interruption may come anywhere, and what was tried can be chosen
        if self.progress is not None:
            self.progress(candidate)
        return candidate

    def choice(self) -> Choice:
        """The ξ of the best score, and the largest λ whose score is no more than a standard error above it."""
        best = min(self.best.values(), key=lambda c: (c.score, c.xi))
        chosen = max((c for c in self.found if c.xi == best.xi), key=lambda c: c.lam)
        return Choice(chosen, tuple(self.tried), self.metric, tuple(self.found[chosen]), self._verdict())

    def _as_good(self, one: Candidate, best: Candidate) -> bool:
        if one is best or not self.early:
            return one is best
        worse = self.losses[one] - self.losses[best]
        return float(worse.mean()) <= float(worse.std()) / math.sqrt(worse.size)

    def _verdict(self) -> Verdict | None:
        if len(self.best) < 2:
            return None
        plain, aware = self.best[False], self.best[True]
        before, after = self.found[plain], self.found[aware]
        gains = np.concatenate([old.loss - new.loss for old, new in zip(before, after, strict=True)])
        error = float(gains.std()) / math.sqrt(gains.size)
        return Verdict(plain, aware, float(gains.mean()), error, gains.size, self.metric)


@dataclass(frozen=True)
class LamPath:
    """Fits of a bound specification down a path of λ; parameters as in `choose`."""

    bound: BoundSpec
    solver: Solver[Any] | str = "auto"
    options: FitOptions = TUNING

    def down(self, lams: Iterable[float], xi: float, x: LowRank | None = None) -> Iterator[Result]:
        """Yield the fits at every λ in turn, each started from the one before, the first from ``x``."""
        options = replace(self.options, evaluate_every=self.options.max_iter)
        for lam in lams:
            result = run(self.bound.problem(lam, xi, options.dtype), self.solver, options, x0=x)
            if result.status.code == "interrupted":  # `solve` would go on with the best so far, a path must not
                raise KeyboardInterrupt(result.status.message)
            x = result.x
            yield result


def losses(metric: Metric, held: Observations, estimate: Array, book: ColumnSchema) -> Array:
    """Loss on each entry: 1 for a wrong symbol, or the absolute or the squared error."""
    check_metric(metric)
    truth = held.values
    out: Array = (estimate - truth) ** 2
    if metric == "rmse":
        return out
    for kind, alphabet in enumerate(book.kinds):
        if alphabet is not None:
            inside = book.inside(kind, held.cols)
            off = np.abs(alphabet.snap(estimate[inside]) - alphabet.snap(truth[inside]))
            out[inside] = off if metric == "mae" else off > 0
    return out


def largest_lam(observations: Observations, spec: ModelSpec) -> float:
    """Return σ₁(P_Ω(O − B)): with the nuclear norm and ξ = 0, X = 0 is optimal from this λ on."""
    return spec.bind(observations).largest_lam


def lam_grid(observations: Observations, spec: ModelSpec) -> list[float]:
    """Return the λ to try, from the largest down; a single 0 if the penalty brings its own.

    The grid is one of thresholds, the same for every penalty: each λ is the one that has its threshold.
    """
    return lams_of(spec.bind(observations))


def lams_of(bound: BoundSpec) -> list[float]:
    """Return the grid of λ for a bound specification, as `lam_grid`."""
    if not isinstance(bound.spec.spectral, str):
        return [0.0]
    thresholds = bound.largest_lam * LAM_RATIO ** np.arange(1, LAM_STEPS + 1)
    return [lam_at_threshold(bound.spec.spectral_at, threshold) for threshold in thresholds.tolist()]


def _grid(name: str, given: float | Sequence[float] | str, auto: Callable[[], list[float]]) -> list[float]:
    if isinstance(given, str) and given == "auto":
        return auto()
    if isinstance(given, str) or np.size(given) == 0:
        raise ArgumentError.must(name, given, 'be a number, a list of numbers or "auto"')
    return [float(one) for one in np.atleast_1d(given)]


def xi_grid(spec: ModelSpec) -> list[float]:
    """Return the ξ to try, 0 first; only that if the penalty brings its own."""
    return [spec.xi_unit * step for step in XI_STEPS] if spec.xi_is_open else [0.0]


def xis_of(bound: BoundSpec, solver: Solver[Any] | str) -> list[float]:
    """Return the grid of ξ, without those to which the solver objects: some need a ξ above 0."""
    grid = xi_grid(bound.spec)
    if not bound.spec.xi_is_open or (isinstance(solver, str) and solver == "auto"):
        return grid
    kind = named(solver)
    return [xi for xi in grid if kind.objection(bound.problem(1.0, xi)) is None] or grid
