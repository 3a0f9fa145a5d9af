"""Settling what is open in a model, the centre and the strengths λ and ξ, before it is fitted to everything."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, Literal

from snapimpute.base.errors import ArgumentError, Setting
from snapimpute.base.files import stored
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.proximal.choice import Choice, Limits, Metric, hasty, lams_of, xi_grid
from snapimpute.experts.proximal.offsets import Center, KnownCells, best_damping
from snapimpute.experts.proximal.spec import BoundSpec, ModelSpec, Weights
from snapimpute.experts.proximal.tuning import LamPath, Progress, Search
from snapimpute.linalg import LowRank
from snapimpute.penalties import DiscretePenalty, SpectralPenalty
from snapimpute.solvers import Checkpoint, FitOptions, Result, Solver, named, pick
from snapimpute.solvers.loop import Callback, run
from snapimpute.solvers.options import COARSE_ITER, COARSE_TOL, DEFAULT, TUNING

Strength = float | Literal["auto"]

APPROACH = Limits(max_iter=10, tol=1e-3, growth=1.3)
"""Limits of the first iterations of the last fit, as the cells that were held out come in."""

UNTUNED_LAM = 8
"""Place in the grid of the λ that is taken then, about a fiftieth of the largest that matters."""


@stored("tuned specification", "spec", "lam", "xi", "choice")
@dataclass(frozen=True)
class TunedSpec:
    """A model specification with its strengths, and what was tried to find them (None if nothing had to be).

    ``start`` is the fit to the kept cells at these strengths. It stands in no file.
    """

    spec: ModelSpec
    lam: float
    xi: float
    choice: Choice | None = None
    start: LowRank | None = field(default=None, init=False, repr=False, compare=False)

    def starting(self, x: LowRank) -> TunedSpec:
        """Return the same with a start of the fit; `replace` makes one without."""
        other = replace(self)
        object.__setattr__(other, "start", x)
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "start"}

    def fit(
        self,
        observations: Observations | BoundSpec,
        solver: Solver[Any] | str = "auto",
        options: FitOptions = DEFAULT,
        *,
        x0: LowRank | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    ) -> Result:
        """Fit everything at the strengths settled, from the fit to the kept cells if that is at hand.

        Where the discrete penalty is not convex the answer depends on the start:
        without that fit λ comes down the path on which it was chosen. A run with a
        checkpoint starts from nothing, as it must find the same start again.
        """
        bound, x = self.spec.bind(observations), x0
        problem = bound.problem(self.lam, self.xi)
        if x is None and checkpoint is None and self._has_start(problem.shape):
            x = self.start
            if isinstance(solver, str) and solver == "auto":
                brief = APPROACH.of(options, x, problem.observations)
                nearer = run(problem, hasty(problem, solver, x), replace(brief, evaluate_every=brief.max_iter), x0=x)
                if nearer.status.code == "interrupted":
                    return nearer
                x = nearer.x
        elif x is None and self.choice is not None and not problem.convex:
            x = self._descended(bound, solver, options, self.choice)
        return run(problem, solver, options, x0=x, callback=callback, checkpoint=checkpoint)

    def _has_start(self, shape: tuple[int, int]) -> bool:
        return self.start is not None and self.start.shape == shape and self.start.rank > 0

    def _descended(
        self, bound: BoundSpec, solver: Solver[Any] | str, options: FitOptions, choice: Choice
    ) -> LowRank | None:
        """Come down the path of the choice again; one that began below the largest λ began at the plain fit there."""
        tried = {xi: {c.lam for c in choice.tried if c.xi == xi} for xi in (0.0, self.xi)}
        above = sorted((lam for lam in tried[self.xi] if lam > self.lam), reverse=True)
        begin = max(tried[self.xi], default=math.inf)
        first = [lam for lam in sorted(tried[0.0], reverse=True) if self.xi > 0 and lam >= begin]
        fit = LamPath(bound, solver, replace(options, max_iter=COARSE_ITER, tol=COARSE_TOL))
        x = None
        for lams, xi in ((first[1:] and first, 0.0), (above, self.xi)):
            for result in fit.down(lams, xi, x):
                x = result.x
        return x


def tune(
    observations: Observations | KnownCells,
    alphabet: Alphabet | ColumnSchema,
    *,
    spectral: str | SpectralPenalty = "nuclear",
    discrete: str | DiscretePenalty | None = "l1",
    weights: Weights = None,
    lam: Strength = "auto",
    xi: Strength = "auto",
    center: Center | Literal["auto"] = "auto",
    solver: Solver[Any] | str = "auto",
    metric: Metric = "error",
    cv: int | None = None,
    options: FitOptions = TUNING,
    progress: Progress | None = None,
) -> TunedSpec:
    """Choose whatever is "auto" on held-out observed cells; `SnapImputer` has the rules, `choose` the metrics.

    The options are those of the last fit; fits on the way are coarser.

    Examples
    --------
    >>> observations = Observations.from_dense([[1, 2, 1], [1, None, 1]])
    >>> tuned = tune(observations, Alphabet.of("1,2"), lam=1.0)
    >>> tuned.spec.center, tuned.lam, tuned.xi  # too few cells to hold some out
    ('mean', 1.0, 0.0)
    """
    flat: Center = "mean" if isinstance(alphabet, Alphabet) else "columns"
    centers: tuple[Center, ...] = (flat, "biases") if center == "auto" else (center,)
    recipes = [ModelSpec(alphabet, spectral, discrete, one, weights) for one in centers]
    cells = KnownCells.of(observations)
    few = cells.too_few
    _check_folds(cv)
    lam = _check_strength("lam", lam, recipes[0].lam_is_open, f"spectral={spectral!r}")
    without = discrete is None and xi == 0  # no penalty of no strength: nothing contradicts
    xi = 0.0 if without else _check_strength("xi", xi, recipes[0].xi_is_open, f"discrete={discrete!r}")
    lam, xi = _without_use(solver, lam, xi)
    _refuse_early(cells, recipes[0], solver, xi)
    if not few:
        dampings = [best_damping(cells, one, random_state=options.random_state) for one in centers]
        recipes = [replace(one, damping=damping) for one, damping in zip(recipes, dampings, strict=True)]
    if len(recipes) == 1 and lam != "auto" and xi != "auto":
        return TunedSpec(recipes[0], lam, xi)
    if few:
        untuned = lams_of(recipes[0].bind(cells))[UNTUNED_LAM] if lam == "auto" else lam
        return TunedSpec(recipes[0], untuned, 0.0 if xi == "auto" else xi)
    folds, coarse = cells.folds(cv=cv, seed=options.random_state), options.coarse()
    return _tuned([Search(one, folds, metric, solver, coarse, progress=progress) for one in recipes], lam, xi)


class TuningInterruptedError(KeyboardInterrupt):
    """The choice was interrupted (Ctrl-C); ``tuned`` has the best that was found until then."""

    def __init__(self, tuned: TunedSpec) -> None:
        super().__init__("interrupted while λ and ξ were chosen")
        self.tuned = tuned


def _tuned(searches: Sequence[Search], lam: Strength, xi: Strength) -> TunedSpec:
    """Choose a specification first, with ξ = 0 while ξ is open, which is much faster; then the open strengths."""
    try:
        best = min((search.plain(lam, xi) for search in searches), key=lambda search: search.lowest)
        return _best_of(best.others())
    except KeyboardInterrupt:
        begun = [search for search in searches if search.tried]
        if not begun:
            raise
        raise TuningInterruptedError(_best_of(min(begun, key=lambda search: search.lowest))) from None


def _best_of(search: Search) -> TunedSpec:
    choice = search.choice()
    return TunedSpec(search.spec, choice.lam, choice.xi, choice).starting(search.ends[choice.best][0])


def _without_use(solver: Solver[Any] | str, lam: Strength, xi: Strength) -> tuple[Strength, Strength]:
    """Leave out strengths that the solver has no use for: λ is 1 then, and ξ is 0."""
    if isinstance(solver, str) and solver == "auto":
        return lam, xi
    kind = named(solver)
    return (
        1.0 if lam == "auto" and not kind.uses_lam else lam,
        0.0 if xi == "auto" and not kind.info.discrete else xi,
    )


def _refuse_early(cells: KnownCells, spec: ModelSpec, solver: Solver[Any] | str, xi: Strength) -> None:
    """Raise now what the solver would object to at the largest ξ, not after an hour at the others."""
    if isinstance(spec.alphabet, ColumnSchema) and all(kind is None for kind in spec.alphabet.kinds):
        return
    strongest = max(xi_grid(spec)) if xi == "auto" else xi
    if spec.center is not None:  # any offsets will do, and the mean is the cheapest
        spec = replace(spec, center="mean")
    pick(spec.bind(cells).problem(1.0, strongest), solver)


def _check_folds(cv: object) -> None:
    if cv is not None and (not isinstance(cv, Integral) or cv < 2):
        raise ArgumentError.must("cv", cv, "be a whole number of folds, at least 2, or None")


def _check_strength(name: str, value: object, is_open: bool, penalty: str) -> Strength:
    """The number given, "auto" where it is to be chosen, 0 where the penalty has no use for it."""
    if isinstance(value, str) and value == "auto":
        return "auto" if is_open else 0.0
    if not isinstance(value, Real):
        raise ArgumentError.must(name, value, 'be a number or "auto"')
    if not is_open:
        raise ArgumentError(
            name, value, Setting(name, value), f" has no use with {penalty}: leave ", Setting(name, "auto")
        )
    return float(value)
