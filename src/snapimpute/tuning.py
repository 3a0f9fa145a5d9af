"""Choosing λ and ξ on observed entries that are held out, never on the entries to be predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from snapimpute import metrics
from snapimpute.alphabet import Alphabet
from snapimpute.observations import Observations
from snapimpute.operators import Sparse, partial_svd
from snapimpute.penalties import lam_at_threshold
from snapimpute.recipe import SPECTRAL, Recipe, offsets
from snapimpute.solvers import AlphabetTerm, Precision, Result, Solver, named, solve
from snapimpute.types import Array

Metric = Literal["error", "rmse"]
XI_STEPS = (0.0, 0.001, 0.003, 0.01, 0.03)
"""ξ tried, in units of `Recipe.xi_unit`; 0 is the plain method."""

LAM_STEPS = 14
LAM_RATIO = 0.65
"""λ tried: those whose thresholds are the largest singular value times powers of this ratio."""

PATIENCE = 3
"""A path over λ ends after so many λ in a row without a better score."""


@dataclass(frozen=True)
class Candidate:
    """One pair (λ, ξ) and its score on the held-out entries; lower is better."""

    lam: float
    xi: float
    score: float
    rank: int
    n_iter: int


@dataclass(frozen=True)
class Choice:
    """The pair with the best score, and all that were tried."""

    best: Candidate
    tried: tuple[Candidate, ...]
    metric: Metric

    @property
    def lam(self) -> float:
        """The chosen λ."""
        return self.best.lam

    @property
    def xi(self) -> float:
        """The chosen ξ."""
        return self.best.xi


Progress = Callable[[Candidate], None]


def choose(
    observations: Observations,
    recipe: Recipe,
    *,
    lam: float | Sequence[float] | Literal["auto"] = "auto",
    xi: float | Sequence[float] | Literal["auto"] = "auto",
    metric: Metric = "error",
    share: float = 0.2,
    solver: Solver[Any] | str = "auto",
    max_iter: int = 60,
    tol: float = 1e-3,
    max_rank: int | None = None,
    alphabet_term: AlphabetTerm = "auto",
    dtype: Precision = "float64",
    random_state: int = 0,
    progress: Progress | None = None,
) -> Choice:
    """Choose λ and ξ by how well they predict observed entries that were held out.

    For each ξ a path is walked from the largest λ down, each fit starting from
    the one before, until the score has not improved for a while.

    Parameters
    ----------
    observations : Observations
    recipe : Recipe
    lam, xi : float, list of float or "auto"
        What to try.
    metric : {"error", "rmse"}
        "error": share of entries whose nearest symbol is wrong; "rmse": root
        mean squared error of the estimate before it is snapped.
    share : float
        Share of the observed entries to hold out.
    solver, max_iter, tol, max_rank, alphabet_term, dtype, random_state
        As in `solve`.
    progress : callable, optional
        Called with each `Candidate` as it is scored.

    Examples
    --------
    >>> from snapimpute.datasets import low_rank_alphabet
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.4)
    >>> choice = choose(data.observations, Recipe(data.alphabet, center="mean"))
    >>> choice.best.score < 0.1
    True
    """
    _check_metric(metric)
    kept, held = observations.split(share, random_state=random_state)
    lams = sorted(_grid("lam", lam, lambda: lam_grid(kept, recipe)), reverse=True)
    xis = _grid("xi", xi, lambda: xi_grid(recipe, solver, kept))
    fit = Fit(kept, recipe, solver, max_iter, tol, max_rank, alphabet_term, dtype, random_state)
    tried: list[Candidate] = []
    for one in xis:
        for candidate in _path(fit, held, lams, one, metric):
            tried.append(candidate)
            if progress is not None:
                progress(candidate)
    return Choice(min(tried, key=lambda c: c.score), tuple(tried), metric)


@dataclass(frozen=True)
class Fit:
    """A fit that is open in λ and ξ; parameters as in `choose`."""

    observations: Observations
    recipe: Recipe
    solver: Solver[Any] | str = "auto"
    max_iter: int = 60
    tol: float = 1e-3
    max_rank: int | None = None
    alphabet_term: AlphabetTerm = "auto"
    dtype: Precision = "float64"
    random_state: int = 0

    def down(self, lams: Iterable[float], xi: float) -> Iterator[Result]:
        """The fits at every λ in turn, each started from the one before."""
        x = None
        for lam in lams:
            result = solve(
                self.recipe.problem(self.observations, lam, xi),
                self.solver,
                x0=x,
                max_iter=self.max_iter,
                tol=self.tol,
                max_rank=self.max_rank,
                evaluate_every=self.max_iter,
                alphabet_term=self.alphabet_term,
                dtype=self.dtype,
                random_state=self.random_state,
            )
            if result.status.code == "interrupted":  # `solve` would go on with the best so far, a path must not
                raise KeyboardInterrupt(result.status.message)
            x = result.x
            yield result


def _path(fit: Fit, held: Observations, lams: Sequence[float], xi: float, metric: Metric) -> Iterable[Candidate]:
    best, since = np.inf, 0
    for lam, result in zip(lams, fit.down(lams, xi), strict=True):
        estimate = result.entries(held.rows, held.cols)
        score = held_out_score(metric, held.values, estimate, fit.recipe.alphabet)
        yield Candidate(lam, xi, score, result.x.rank, result.n_iter)
        since = 0 if score < best else since + 1
        best = min(best, score)
        if since >= PATIENCE:
            return


def held_out_score(metric: Metric, truth: Array, estimate: Array, alphabet: Alphabet) -> float:
    """Score of an estimate before snapping; lower is better."""
    _check_metric(metric)
    if metric == "rmse":
        return metrics.rmse(truth, estimate)
    return 1.0 - metrics.exact_match(truth, alphabet.snap(estimate))


def _check_metric(metric: str) -> None:
    if metric not in get_args(Metric):
        raise ValueError(f'metric must be "error" or "rmse", got {metric!r}')


def largest_lam(observations: Observations, recipe: Recipe) -> float:
    """σ₁(P_Ω(O − B)): with the nuclear norm and ξ = 0, X = 0 is optimal from this λ on."""
    base = offsets(observations, recipe.center)
    values = observations.values
    if base is not None:
        values = values - base.entries(observations.rows, observations.cols)
    return spectral_norm(observations, values)


def spectral_norm(observations: Observations, values: Array) -> float:
    """σ₁ of the matrix with these values on Ω and 0 elsewhere, and never quite 0."""
    sigma = partial_svd(Sparse(observations, values), 1, tol=1e-3 * float(np.linalg.norm(values))).x.s[0]
    return max(float(sigma), 1e-12)


def lam_grid(observations: Observations, recipe: Recipe) -> list[float]:
    """λ to try, from the largest down; a single 0 if the penalty brings its own.

    The grid is one of thresholds, the same for every penalty: each λ is the one that has its threshold.
    """
    if not isinstance(recipe.spectral, str):
        return [0.0]
    build = SPECTRAL[recipe.spectral]
    thresholds = largest_lam(observations, recipe) * LAM_RATIO ** np.arange(1, LAM_STEPS + 1)
    return [lam_at_threshold(build, threshold) for threshold in thresholds.tolist()]


def _grid(name: str, given: float | Sequence[float] | str, auto: Callable[[], list[float]]) -> list[float]:
    if isinstance(given, str) and given == "auto":
        return auto()
    if isinstance(given, str) or np.size(given) == 0:
        raise ValueError(f'{name} must be a number, a list of numbers or "auto", got {given!r}')
    return [float(one) for one in np.atleast_1d(given)]


def xi_grid(
    recipe: Recipe, solver: Solver[Any] | str = "auto", observations: Observations | None = None
) -> list[float]:
    """ξ to try, 0 first; only that if the penalty brings its own.

    With observations, a ξ to which the solver objects is left out: there are solvers that need one above 0.
    """
    if not recipe.xi_is_open:
        return [0.0]
    grid = [recipe.xi_unit * step for step in XI_STEPS]
    if observations is None or (isinstance(solver, str) and solver == "auto"):
        return grid
    kind = named(solver)
    return [xi for xi in grid if kind.objection(recipe.problem(observations, 1.0, xi)) is None] or grid
