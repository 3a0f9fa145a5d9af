"""The paper's evaluation, Section IV, on MovieLens-100k: error against the share observed and against iterations.

Every method is tuned in two ways. Honestly, on a fifth of the *observed* ratings,
then fitted to all of them; and, as figures of this kind usually are, on the very
ratings to be predicted. The second is marked as such wherever it appears. The
controls of the same figure say how much of a gain is discreteness.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from reproduction.summary import in_words, standard_error
from reproduction.surface import WALK, Point, Points, Surface
from reproduction.units import fingerprint
from snapimpute.base.types import Array
from snapimpute.data.datasets import movielens_100k
from snapimpute.data.observations import Observations
from snapimpute.evaluation import metrics
from snapimpute.evaluation.baselines import ConstantMean, DampedBiases
from snapimpute.experts.proximal import tuning
from snapimpute.experts.proximal.offsets import Center, best_damping
from snapimpute.experts.proximal.spec import ModelSpec, Weights
from snapimpute.problem import Problem
from snapimpute.solvers import Result, solve

Kind = Literal["paper", "control", "beyond"]

SHARES = tuple(round(0.2 + 0.05 * k, 2) for k in range(9))
OTHER_SHARES = (0.2, 0.4, 0.6)
"""Shares of the ratings that are observed: of the paper's own curves, and of the others."""

CURVES: tuple[tuple[tuple[Kind, ...], tuple[float, ...]], ...] = (
    (("paper",), SHARES),
    (("control", "beyond"), OTHER_SHARES),
)
"""Kinds of methods, and the shares at which they run."""

THETAS = (50.0, 100.0, 200.0)
"""θ tried for LSP."""

MAX_ITER, TOL = 150, 1e-4
"""Limits of the last fit."""

ITERATIONS, FEW = 200, 0.2
"""Iterations of the figure against iterations, and the share observed there."""

ON_TEST = " (best on test)"
TITLES = {
    False: "MovieLens-100k, strengths chosen on held-out observed ratings",
    True: "MovieLens-100k, strengths chosen on the test ratings: indicative only",
}
QUICK = ("constant mean", "damped biases", "AIS-Impute", "discrete-aware nuclear", "Soft-Impute, bias-centred")
"""Methods that ``--quick`` runs."""

ROUNDED = ("AIS-Impute", "Soft-Impute, bias-centred")
"""Methods whose nearest symbols are scored, too: the control of rounding."""

VERSION = 1
"""To be raised when something is run otherwise: scores are then made anew."""


@dataclass(frozen=True)
class Method:
    """A curve of the figure: a model, the solver that runs it, and the plain method it is compared with."""

    label: str
    kind: Kind
    solver: str = "apg"
    spectral: str = "nuclear"
    discrete: str | None = None
    center: Center = None
    weights: Weights = None
    plain: str | None = None
    like: str | None = None
    """A method whose strengths are near: the search begins there."""

    def recipes(self, observations: Observations, seed: int) -> list[ModelSpec]:
        """Models to tune: one, or one for each θ."""
        thetas: Sequence[float | None] = THETAS if self.spectral == "lsp" else [None]
        damping = best_damping(observations, self.center, random_state=seed)
        made_of = self.spectral, self.discrete, self.center, self.weights, damping
        return [ModelSpec(movielens_100k().alphabet, *made_of, theta) for theta in thetas]


METHODS = {
    method.label: method
    for method in (
        Method("Soft-Impute", "paper", "soft-impute"),
        Method("AIS-Impute", "paper", "ais-impute"),
        Method("niAPG, LSP", "paper", "niapg", "lsp"),
        Method("discrete-aware nuclear", "paper", discrete="l1", plain="AIS-Impute"),
        Method(
            "discrete-aware nuclear, composed",
            "paper",
            discrete="l1-composed",
            plain="AIS-Impute",
            like="discrete-aware nuclear",
        ),
        Method("discrete-aware LSP", "paper", "niapg", "lsp", "l1", plain="niAPG, LSP"),
        Method("Soft-Impute, mean-centred", "control", "ais-impute", center="mean"),
        Method("Soft-Impute, bias-centred", "control", "ais-impute", center="biases"),
        Method("ridge to the mean", "control", discrete="ridge", plain="AIS-Impute"),
        Method("LSP, mean-centred", "control", "niapg", "lsp", center="mean"),
        Method("LSP, bias-centred", "control", "niapg", "lsp", center="biases"),
        Method("LSP, ridge to the mean", "control", "niapg", "lsp", "ridge", plain="niAPG, LSP"),
        Method(
            "weighted L1",
            "beyond",
            discrete="l1",
            weights="frequency",
            plain="AIS-Impute",
            like="discrete-aware nuclear",
        ),
        Method("L0", "beyond", "niapg", discrete="l0", plain="AIS-Impute"),
        Method("fractional L0", "beyond", "niapg", discrete="l0-fractional", plain="AIS-Impute"),
        Method("L1, mean-centred", "beyond", discrete="l1", center="mean", plain="Soft-Impute, mean-centred"),
        Method("L1, bias-centred", "beyond", discrete="l1", center="biases", plain="Soft-Impute, bias-centred"),
        Method("LSP and L1, bias-centred", "beyond", "niapg", "lsp", "l1", "biases", plain="LSP, bias-centred"),
        Method("TNN", "beyond", "niapg", "tnn"),
        Method("capped ℓ1", "beyond", "niapg", "capped-l1"),
    )
}
BASELINES: dict[str, Callable[[Observations], ConstantMean | DampedBiases]] = {
    "constant mean": ConstantMean.fit,
    "damped biases": DampedBiases.fit,
}


@dataclass(frozen=True)
class Score:
    """Scores of one method on the hidden ratings of one split.

    ``nmse_rounded`` is that of the nearest symbols. What is tuned on test ends with "(best on test)".
    """

    data: str
    share: float
    seed: int
    method: str
    nmse: float
    rmse: float
    mae: float
    exact: float
    nmse_rounded: float
    seconds: float
    lam: float | None = None
    xi: float | None = None
    theta: float | None = None
    rank: int | None = None
    iterations: int | None = None
    curve: tuple[float, ...] | None = None


def prints(share: float, asked: Sequence[str], *, on_test: bool = True) -> dict[str, str]:
    """Methods asked for that are run at a share, both ways of tuning where there are two, with fingerprints."""
    grids = tuning.XI_STEPS, tuning.LAM_STEPS, tuning.LAM_RATIO, THETAS
    made_by = grids, WALK, MAX_ITER, TOL, ITERATIONS, VERSION
    kinds = [kind for some, shares in CURVES for kind in some if share in shares]
    ways = ("", ON_TEST) if on_test else ("",)
    names = [name for name in BASELINES if "control" in kinds and name in asked]
    tuned = [label for label, method in METHODS.items() if method.kind in kinds and label in asked]
    names += [f"{label}{way}" for label in tuned for way in ways]
    return {name: fingerprint(name, *_made_by(name.removesuffix(ON_TEST), made_by)) for name in names}


def _made_by(label: str, made_by: Any) -> tuple[Any, ...]:
    """Everything that the scores of a method depend on; only with a discrete penalty is ξ walked along, both ways."""
    method = METHODS.get(label)
    walked = method is not None and method.discrete is not None
    return (method, made_by, "both ways") if walked else (method, made_by)


def run_unit(data: str, share: float, seed: int, methods: Sequence[str]) -> Iterator[Score]:
    """Hide all but a share of the ratings and let methods predict them."""
    source = movielens_100k()
    split = Split(*source.observations.split(1 - share, random_state=seed), seed)
    truth = split.hidden.values
    for name in methods:
        begin, label = time.perf_counter(), name.removesuffix(ON_TEST)
        if label in BASELINES:
            estimate: Array = BASELINES[label](split.known).entries(split.hidden.rows, split.hidden.cols)
            more: dict[str, Any] = {"seconds": time.perf_counter() - begin}
        else:
            trial = split.trial(label)
            estimate, more = trial.honest() if name == label else trial.best_on_test()
            if share == FEW and name == label and METHODS[label].kind == "paper":
                more["curve"] = trial.curve()
        found = metrics.scores(truth, estimate, source.alphabet)
        more |= {of: found[of] for of in ("nmse", "rmse", "mae", "exact")}
        more["nmse_rounded"] = metrics.nmse(truth, source.alphabet.snap(estimate))
        yield Score(data, share, seed, name, **more)


class Split:
    """Known and hidden ratings, and the trials of methods on them, which share their plain fits."""

    def __init__(self, known: Observations, hidden: Observations, seed: int) -> None:
        self.known, self.hidden, self.seed = known, hidden, seed
        self.kept, self.held = known.split(0.2, random_state=seed)
        self.plain: dict[Any, Points] = defaultdict(dict)
        self.trials: dict[str, Trial] = {}

    def trial(self, label: str) -> Trial:
        """The trial of a method, begun once."""
        if label not in self.trials:
            method = METHODS[label]
            near = self.trial(method.like) if method.like else None
            self.trials[label] = Trial(method, self, near)
        return self.trials[label]


class Trial:
    """One method on one split: λ, ξ and θ chosen on a fifth of the known ratings, and on the hidden ones.

    θ is chosen without a discrete penalty, and then kept. What is best on the
    hidden ratings is sought from the honest choice on, among its neighbours.
    ``near`` is a trial whose strengths are near.
    """

    def __init__(self, method: Method, split: Split, near: Trial | None = None) -> None:
        self.method, self.near = method, near
        self.known, self.hidden, self.seed = split.known, split.hidden, split.seed
        self.tuning, self.testing = list[Surface](), list[Surface]()
        for spec in method.recipes(split.known, split.seed):
            lams = tuning.lam_grid(split.kept, spec)
            plain = split.plain[method.spectral, method.center, spec.theta]
            self.tuning.append(Surface(split.kept, split.held, spec, method.solver, lams, split.seed, plain))
            self.testing.append(Surface(split.known, split.hidden, spec, method.solver, lams, split.seed))

    @cached_property
    def chosen(self) -> tuple[int, Point]:
        """The place of θ, and the best fit, on held-out ratings."""
        at = min(range(len(self.tuning)), key=lambda i: self.tuning[i].best_plain().nmse)
        surface = self.tuning[at]
        if self.near is None:
            return at, surface.best()
        near = self.near.chosen[1]
        surface.start = near.result.x
        return at, surface.climb(near.lam, near.xi)

    def _problem(self) -> Problem:
        at, point = self.chosen
        surface = self.tuning[at]
        return surface.spec.problem(self.known, surface.lams[point.lam], surface.xis[point.xi])

    @cached_property
    def fitted(self) -> Result:
        """The method at these strengths, on all known ratings.

        Where not convex, by the same way over the grid, with as few iterations, as
        both are part of what was chosen. Soft-Impute comes down a path because that
        is its way.
        """
        problem, (at, point) = self._problem(), self.chosen
        way = self.tuning[at].way_to(point)
        if not problem.convex:
            return self.testing[at].follow(way).result
        x0 = None
        if self.method.solver == "soft-impute" and way[:-1]:
            x0 = self.testing[at].follow(way[:-1]).result.x
        options: dict[str, Any] = {"max_iter": MAX_ITER, "tol": TOL, "evaluate_every": MAX_ITER, "dtype": "float32"}
        return solve(problem, self.method.solver, x0=x0, random_state=self.seed, **options)

    def _entries(self, result: Result) -> Array:
        return result.entries(self.hidden.rows, self.hidden.cols)

    def honest(self) -> tuple[Array, dict[str, Any]]:
        """The estimate of the hidden ratings, and what was chosen for it."""
        (at, point), result = self.chosen, self.fitted
        seconds = sum(one.seconds for one in self.tuning) + float(result.history["seconds"][-1])
        more = {"seconds": seconds, "rank": result.x.rank, "iterations": result.n_iter}
        return self._entries(result), self.tuning[at].strengths(point) | more

    def best_on_test(self) -> tuple[Array, dict[str, Any]]:
        """The best of all that was fitted to the known ratings, as judged by the hidden ones."""
        honest, (_, point) = self.honest(), self.chosen
        for surface in self.testing:
            surface.start = self.fitted.x
            surface.climb(point.lam, point.xi)
        surface, best = min(
            ((surface, one) for surface in self.testing for one in surface.points()), key=lambda pair: pair[1].nmse
        )
        if metrics.nmse(self.hidden.values, honest[0]) <= best.nmse:
            return honest
        more = {"seconds": sum(one.seconds for one in self.testing), "rank": best.result.x.rank}
        return self._entries(best.result), surface.strengths(best) | more | {"iterations": best.result.n_iter}

    def curve(self) -> tuple[float, ...]:
        """NMSE of the hidden ratings after each iteration from 0 at the strengths chosen."""
        problem, found = self._problem(), list[float]()

        def score(info: Any) -> None:
            estimate = problem.with_offsets(info.x).entries(self.hidden.rows, self.hidden.cols)
            found.append(metrics.nmse(self.hidden.values, estimate))

        options: dict[str, Any] = {"max_iter": ITERATIONS, "tol": 0, "evaluate_every": ITERATIONS, "dtype": "float32"}
        solve(problem, self.method.solver, callback=score, random_state=self.seed, **options)
        return tuple(found)


def settled(curve: Sequence[float]) -> float:
    """The iteration from which on a curve stays within 1 % of where it ends.

    Infinite if it came there in its last tenth only: it would have gone on.
    """
    off = np.abs(np.array(curve) / curve[-1] - 1) > 0.01
    found = int(np.flatnonzero(off)[-1]) + 2 if off.any() else 1
    return found if found <= max(0.9 * len(curve), 1) else math.inf


def count_in_words(iterations: float, most: int = ITERATIONS) -> str:
    """A mean of what `settled` gives."""
    return f"{iterations:.0f}" if math.isfinite(iterations) else f"more than {most}"


# ---------------------------------------------------------------- summaries
@dataclass(frozen=True)
class Line:
    """Mean and standard error over the seeds of one method at one share."""

    share: float
    method: str
    kind: str
    on_test: bool
    nmse: float
    error: float
    seeds: int


def summarise(scores: Sequence[Score]) -> list[Line]:
    """Over the seeds, by share and method, in the order of the methods; some rounded, too, as a control.

    Baselines, which are not tuned, stand beside both ways of tuning.
    """
    lines = []
    both = any(s.method.endswith(ON_TEST) for s in scores)
    order = [*BASELINES, *METHODS]
    keys = dict.fromkeys((s.share, s.method) for s in scores)
    for share, name in sorted(keys, key=lambda key: (key[0], order.index(key[1].removesuffix(ON_TEST)))):
        some = [s for s in scores if (s.share, s.method) == (share, name)]
        label = name.removesuffix(ON_TEST)
        kind = METHODS[label].kind if label in METHODS else "control"
        lines.append(_line(some, label, kind, [s.nmse for s in some]))
        if label in BASELINES and both:
            lines.append(replace(lines[-1], on_test=True))
        if label in ROUNDED:
            lines.append(_line(some, f"{label}, rounded", "control", [s.nmse_rounded for s in some]))
    return lines


def _line(some: Sequence[Score], label: str, kind: Kind, nmse: Sequence[float]) -> Line:
    on_test = some[0].method.endswith(ON_TEST)
    return Line(some[0].share, label, kind, on_test, float(np.mean(nmse)), standard_error(nmse), len(some))


def as_markdown(lines: Sequence[Line]) -> str:
    """Two tables, one for each way of tuning: methods by shares."""
    parts = []
    for on_test, title in ((False, "Tuned on held-out observed ratings"), (True, "Best on test (indicative only)")):
        some = [line for line in lines if line.on_test == on_test]
        if not some:
            continue
        shares = sorted({line.share for line in some})
        found = {(line.method, line.share): line for line in some}
        rows = [f"| {title}: NMSE | " + " | ".join(f"{100 * share:g} %" for share in shares) + " |"]
        rows.append("|---" * (len(shares) + 1) + "|")
        for method in dict.fromkeys(line.method for line in some):
            cells = [_cell(found.get((method, share))) for share in shares]
            rows.append(f"| {method} | " + " | ".join(cells) + " |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _cell(line: Line | None) -> str:
    return "" if line is None else in_words(line.nmse, line.error, 4)
