"""Candidates for λ and ξ, the limits of their fits, their scores on held-out entries, and the choice among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.proximal.spec import BoundSpec, ModelSpec
from snapimpute.linalg import LowRank
from snapimpute.linalg.svd import GUARD, WHOLE_SHARE
from snapimpute.penalties import lam_at_threshold
from snapimpute.problem import Problem
from snapimpute.solvers import AISImpute, FitOptions, Solver, named, pick

Metric = Literal["error", "mae", "rmse"]
Grid = float | Sequence[float] | Literal["auto"]

XI_STEPS = (0.0, 0.001, 0.003, 0.01, 0.03)
"""ξ tried, in units of `ModelSpec.xi_unit`; 0 is the plain method."""

LAM_STEPS = 14
LAM_RATIO = 0.65
"""λ tried: those whose thresholds are the largest singular value times powers of this ratio."""


SMALL_SIDE = 400
"""Up to this side a whole SVD takes some hundredths of a second."""

HASTY = 1.0
"""Error of the steps of a hasty fit, in units of their length."""


def thin(shape: tuple[int, int]) -> int:
    """Return the largest rank at which a partial SVD of a table is not a whole one; no limit for small tables."""
    side = min(shape)
    return side if side <= SMALL_SIDE else int(WHOLE_SHARE * side) - GUARD - 2


class Limits(NamedTuple):
    """Limits of a fit on the way: iterations, tolerance, and growth of the rank from that of its start.

    Ten ranks more are always allowed, and none above `thin`. The rank would overshoot in
    the first steps at a smaller λ, which makes them dear, and then fall again. A table
    with fewer known cells than ``cells`` by some factor has that many iterations, if
    they are more.
    """

    max_iter: int
    tol: float
    growth: float
    cells: int = 0

    def of(self, options: FitOptions, start: LowRank | None, known: Observations) -> FitOptions:
        """Return the options of a fit to known cells, from a start, within these limits."""
        options, most = replace(options, tol=max(options.tol, self.tol)), thin(known.shape)
        if start is not None and start.rank:
            count = max(self.max_iter, self.cells // len(known))
            options = replace(options, max_iter=min(options.max_iter, count))
            most = min(most, int(self.growth * start.rank) + 10)
        return replace(options, max_rank=min(most, options.max_rank or most))


QUICK = Limits(max_iter=6, tol=5e-3, growth=1.5, cells=400_000)
"""Limits of the fits down a path of λ that nobody gave: each only has to rank its λ. The first has all iterations."""

SETTLED = Limits(max_iter=30, tol=2e-3, growth=2.0)
"""Limits of the fit at the λ that such a path chose."""

DISCRETE = Limits(max_iter=6, tol=2e-3, growth=1.5, cells=400_000)
"""Limits of the fits with a ξ above 0 that start from there: every iteration passes over all cells."""


def hasty(problem: Problem, solver: Solver[Any] | str, start: LowRank | None) -> Solver[Any] | str:
    """Return a solver for a fit on the way: AIS-Impute, where "auto" takes it, needs no exact steps there."""
    if solver != "auto":
        return solver
    picked = pick(problem, solver, warm=start is not None and start.rank > 0).solver
    return replace(picked, accuracy=HASTY) if isinstance(picked, AISImpute) else solver


@stored("candidate", "lam", "xi", "score", "rank", "n_iter", "error")
@dataclass(frozen=True)
class Candidate:
    """One pair (λ, ξ) and its score on the held-out entries, with its standard error; lower is better."""

    lam: float
    xi: float
    score: float
    rank: int
    n_iter: int
    error: float = 0.0


@stored("held-out cells", "observations", "estimate", "loss")
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Entries that were held out, what a fit to the others says of them, and what was lost on each."""

    observations: Observations
    estimate: Array
    loss: Array


@stored("verdict", "plain", "aware", "gain", "error", "count", "metric")
@dataclass(frozen=True)
class Verdict:
    """Comparison of discreteness with rounding: the best ξ above 0 against the best plain fit, on the same entries.

    Where λ was chosen from a grid, both are fits at the chosen λ or beside it.
    ``gain`` is how much lower its loss is on average (share of wrong symbols,
    absolute or squared error), ``error`` the standard error of that difference.
    """

    plain: Candidate
    aware: Candidate
    gain: float
    error: float
    count: int
    metric: Metric

    @classmethod
    def of(
        cls, plain: Candidate, aware: Candidate, before: Sequence[HeldOut], after: Sequence[HeldOut], metric: Metric
    ) -> Verdict:
        """Compare two candidates by what they lose on each held-out cell."""
        gains = np.concatenate([old.loss - new.loss for old, new in zip(before, after, strict=True)])
        error = float(gains.std()) / math.sqrt(gains.size)
        return cls(plain, aware, float(gains.mean()), error, gains.size, metric)

    @property
    def helped(self) -> bool | None:
        """Yes or no, beyond two standard errors; None where the data cannot tell."""
        return None if abs(self.gain) <= 2 * self.error else self.gain > 0

    def __str__(self) -> str:
        answer = {True: "yes", False: "no, it did worse", None: "no difference that these data could tell"}
        percent, unit = (100.0, "% wrong") if self.metric == "error" else (1.0, self.metric)
        found = {one: f"{percent * one.score:.3g}" for one in (self.plain, self.aware)}
        what = "squared error" if self.metric == "rmse" else unit
        return (
            f"did discreteness beat rounding? {answer[self.helped]}: {found[self.aware]} {unit} with ξ = "
            f"{self.aware.xi:.3g}, {found[self.plain]} without; gain {percent * self.gain:.2g} ± "
            f"{percent * self.error:.2g} ({what}, {self.count:,} entries held out)"
        )


@stored("choice", "best", "tried", "metric", "held_out", "verdict")
@dataclass(frozen=True)
class Choice:
    """The pair that was chosen, and all that were tried.

    The simplest model is taken, within a standard error of the difference: the
    largest λ whose score is as good as the best, and ξ = 0 unless another is
    better. A λ that was worse than the best so far, on the way, stays out; of a
    whole surface the best is taken.
    ``held_out`` is what the fit says of each held-out set, and ``verdict``
    compares the best ξ above 0 with ξ = 0, where both were tried.
    """

    best: Candidate
    tried: tuple[Candidate, ...]
    metric: Metric
    held_out: tuple[HeldOut, ...] = field(default=(), repr=False, compare=False)
    verdict: Verdict | None = None

    @property
    def lam(self) -> float:
        """The chosen λ."""
        return self.best.lam

    @property
    def xi(self) -> float:
        """The chosen ξ."""
        return self.best.xi

    def surface(self) -> tuple[Array, Array, Array]:
        """(λ, ξ, scores of every pair, NaN where it was not tried), to plot."""
        lams = np.array(sorted({c.lam for c in self.tried}))
        xis = np.array(sorted({c.xi for c in self.tried}))
        scores = np.full((lams.size, xis.size), np.nan)
        for c in self.tried:
            scores[np.searchsorted(lams, c.lam), np.searchsorted(xis, c.xi)] = c.score
        return lams, xis, scores


def check_metric(metric: str) -> None:
    """Refuse a metric that is none."""
    if metric not in get_args(Metric):
        raise ArgumentError.must("metric", metric, 'be "error", "mae" or "rmse"')


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


def score_of(metric: Metric, lost: Array) -> tuple[float, float]:
    """Return the score of what was lost on each entry, with its standard error."""
    mean, error = float(lost.mean()), float(lost.std()) / math.sqrt(lost.size)
    if metric != "rmse":
        return mean, error
    root = math.sqrt(mean)
    return root, error / (2 * max(root, 1e-300))


def largest_lam(observations: Observations, spec: ModelSpec) -> float:
    """Return σ₁(P_Ω(O − B)): with the nuclear norm and ξ = 0, X = 0 is optimal from this λ on."""
    return spec.bind(observations).largest_lam


def lam_grid(observations: Observations, spec: ModelSpec) -> list[float]:
    """Return the λ to try, from the largest down; a single 0 if the penalty brings its own.

    The grid is one of thresholds, the same for every penalty: each λ is the one that has its threshold.
    """
    return lams_of(spec.bind(observations))


def lams_of(bound: BoundSpec, given: Grid = "auto") -> list[float]:
    """Return the λ given, or the grid of them for a bound specification, as `lam_grid`."""

    def auto() -> list[float]:
        if not isinstance(bound.spec.spectral, str):
            return [0.0]
        thresholds = bound.largest_lam * LAM_RATIO ** np.arange(1, LAM_STEPS + 1)
        return [lam_at_threshold(bound.spec.spectral_at, threshold) for threshold in thresholds.tolist()]

    return _grid("lam", given, auto)


def _grid(name: str, given: float | Sequence[float] | str, auto: Callable[[], list[float]]) -> list[float]:
    if isinstance(given, str) and given == "auto":
        return auto()
    if isinstance(given, str) or np.size(given) == 0:
        raise ArgumentError.must(name, given, 'be a number, a list of numbers or "auto"')
    return [float(one) for one in np.atleast_1d(given)]


def xi_grid(spec: ModelSpec) -> list[float]:
    """Return the ξ to try, 0 first; only that if the penalty brings its own."""
    return [spec.xi_unit * step for step in XI_STEPS] if spec.xi_is_open else [0.0]


def xis_of(bound: BoundSpec, solver: Solver[Any] | str, given: Grid = "auto") -> list[float]:
    """Return the ξ given, or the grid of them without those to which the solver objects: some need a ξ above 0."""

    def auto() -> list[float]:
        grid = xi_grid(bound.spec)
        if not bound.spec.xi_is_open or (isinstance(solver, str) and solver == "auto"):
            return grid
        kind = named(solver)
        return [xi for xi in grid if kind.objection(bound.problem(1.0, xi)) is None] or grid

    return _grid("xi", given, auto)
