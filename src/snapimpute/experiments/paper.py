"""The paper's evaluation, Section IV, on MovieLens-100k: error against the share observed and against iterations.

Every method is tuned in two ways. Honestly, on a fifth of the *observed* ratings,
then fitted to all of them; and, as figures of this kind usually are, on the very
ratings to be predicted. The second is marked as such wherever it appears. The
controls of the same figure say how much of a gain is discreteness.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from snapimpute import metrics, tuning
from snapimpute.baselines import ConstantMean, DampedBiases
from snapimpute.datasets import movielens_100k
from snapimpute.experiments.units import fingerprint
from snapimpute.observations import Observations
from snapimpute.plan import Plan
from snapimpute.recipe import Center, Recipe, Weights, best_damping
from snapimpute.solvers import solve
from snapimpute.tuning import Choice, Search

Kind = Literal["paper", "control", "beyond"]

SHARES = tuple(round(0.2 + 0.05 * k, 2) for k in range(9))
OTHER_SHARES = (0.2, 0.4, 0.6)
"""Shares of the ratings that are observed: of the paper's own curves, and of the others."""

CURVES: tuple[tuple[tuple[Kind, ...], tuple[float, ...]], ...] = (
    (("paper",), SHARES),
    (("control", "beyond"), OTHER_SHARES),
)
"""Which kinds of methods are run at which shares."""

THETAS = (50.0, 100.0, 200.0)
"""θ tried for LSP."""

MAX_ITER, TOL = 300, 1e-4
"""Of the last fit; along the paths 60 and 1e-3, in float32, where a convex problem is solved by AIS-Impute: its
minimiser is the same whoever finds it."""

ITERATIONS = 200
"""Of the figure against iterations."""

ON_TEST = " (best on test)"
TITLES = {
    False: "MovieLens-100k, strengths chosen on held-out observed ratings",
    True: "MovieLens-100k, strengths chosen on the test ratings: indicative only",
}
QUICK = ("constant mean", "damped biases", "AIS-Impute", "discrete-aware nuclear", "Soft-Impute, bias-centred")
"""What ``--quick`` runs."""

VERSION = 1
"""To be raised when something is run otherwise: scores are then made anew."""


@dataclass(frozen=True)
class Method:
    """A curve of the figure: a recipe, the solver that runs it, and the plain method it is to be compared with."""

    label: str
    kind: Kind
    solver: str = "apg"
    spectral: str = "nuclear"
    discrete: str | None = None
    center: Center = None
    weights: Weights = None
    plain: str | None = None

    def recipes(self, observations: Observations, seed: int) -> list[Recipe]:
        """What to tune: one, or one for each θ."""
        thetas: Sequence[float | None] = THETAS if self.spectral == "lsp" else [None]
        damping = best_damping(observations, self.center, random_state=seed)
        made_of = self.spectral, self.discrete, self.center, self.weights, damping
        return [Recipe(movielens_100k().alphabet, *made_of, theta) for theta in thetas]


METHODS = {
    method.label: method
    for method in (
        Method("Soft-Impute", "paper", "soft-impute"),
        Method("AIS-Impute", "paper", "ais-impute"),
        Method("niAPG, LSP", "paper", "niapg", "lsp"),
        Method("discrete-aware nuclear, composed", "paper", discrete="l1-composed", plain="AIS-Impute"),
        Method("discrete-aware nuclear", "paper", discrete="l1", plain="AIS-Impute"),
        Method("discrete-aware LSP", "paper", "niapg", "lsp", "l1", plain="niAPG, LSP"),
        Method("Soft-Impute, mean-centred", "control", "ais-impute", center="mean"),
        Method("Soft-Impute, bias-centred", "control", "ais-impute", center="biases"),
        Method("ridge to the mean", "control", discrete="ridge", plain="AIS-Impute"),
        Method("weighted L1", "beyond", discrete="l1", weights="frequency", plain="AIS-Impute"),
        Method("L0", "beyond", "niapg", discrete="l0", plain="AIS-Impute"),
        Method("fractional L0", "beyond", "niapg", discrete="l0-fractional", plain="AIS-Impute"),
        Method("L1, mean-centred", "beyond", discrete="l1", center="mean", plain="Soft-Impute, mean-centred"),
        Method("L1, bias-centred", "beyond", discrete="l1", center="biases", plain="Soft-Impute, bias-centred"),
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
    """How one method did on the hidden ratings of one split.

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


def prints(kinds: Sequence[Kind], asked: Sequence[str]) -> dict[str, str]:
    """The methods of some kinds among those asked for, both ways of tuning where there are two, with fingerprints."""
    made_by = tuning.XI_STEPS, tuning.LAM_STEPS, tuning.LAM_RATIO, THETAS, MAX_ITER, TOL, VERSION
    tuned = [label for label, method in METHODS.items() if method.kind in kinds and label in asked]
    names = [name for name in BASELINES if "control" in kinds and name in asked]
    names += [f"{label}{way}" for way in ("", ON_TEST) for label in tuned]
    return {name: fingerprint(name, METHODS.get(name.removesuffix(ON_TEST)), made_by) for name in names}


def run_unit(data: str, share: float, seed: int, methods: Sequence[str]) -> Iterator[Score]:
    """Hide all but a share of the ratings and let methods predict them."""
    source = movielens_100k()
    known, hidden = source.observations.split(1 - share, random_state=seed)
    for name in methods:
        begin, more = time.perf_counter(), dict[str, Any]()
        if name in BASELINES:
            estimate = BASELINES[name](known).entries(hidden.rows, hidden.cols)
        else:
            method = METHODS[name.removesuffix(ON_TEST)]
            estimate, more = _tuned(method, known, hidden, seed, on_test=name.endswith(ON_TEST))
        seconds = time.perf_counter() - begin
        symbols, truth = source.alphabet.snap(estimate), hidden.values
        yield Score(
            data,
            share,
            seed,
            name,
            nmse=metrics.nmse(truth, estimate),
            rmse=metrics.rmse(truth, estimate),
            mae=metrics.mae(truth, estimate),
            exact=metrics.exact_match(truth, symbols),
            nmse_rounded=metrics.nmse(truth, symbols),
            seconds=seconds,
            **more,
        )


def strengths(method: Method, known: Observations, hidden: Observations | None, seed: int) -> Plan:
    """λ, ξ and θ by the squared error on a fifth of the known ratings; on the hidden ones where these are given."""
    folds = None if hidden is None else [(known, hidden)]
    found, limits = [], {"random_state": seed, "dtype": "float32"}
    for recipe in method.recipes(known, seed):
        convex = recipe.problem(known, 1.0, max(tuning.xi_grid(recipe))).convex
        solver = "ais-impute" if convex else method.solver
        search = Search(known, recipe, "rmse", solver=solver, limits=limits, folds=folds)
        search.plain().others()
        best = min(search.best.values(), key=lambda c: c.score)
        found.append(Plan(recipe, best.lam, best.xi, Choice(best, tuple(search.tried), "rmse")))
    return min(found, key=lambda plan: plan.choice.best.score if plan.choice else np.inf)


def _tuned(
    method: Method, known: Observations, hidden: Observations, seed: int, *, on_test: bool
) -> tuple[Any, dict[str, Any]]:
    """The estimate of the hidden ratings, and what was chosen; where not convex, λ comes down the path."""
    plan = strengths(method, known, hidden if on_test else None, seed)
    limits = {"max_iter": MAX_ITER, "tol": TOL, "evaluate_every": MAX_ITER, "random_state": seed}
    result = plan.fit(known, method.solver, **limits)
    more = {"lam": plan.lam, "xi": plan.xi, "theta": plan.recipe.theta}
    return result.entries(hidden.rows, hidden.cols), more | {"rank": result.x.rank, "iterations": result.n_iter}


# ---------------------------------------------------------------- against iterations
@dataclass(frozen=True)
class Curve:
    """NMSE of the hidden ratings after each iteration, at strengths chosen on held-out ones."""

    data: str
    share: float
    seed: int
    method: str
    nmse: tuple[float, ...]
    seconds: float

    @property
    def settled(self) -> int:
        """The iteration from which on it stays within 1 % of where it ends."""
        off = np.abs(np.array(self.nmse) / self.nmse[-1] - 1) > 0.01
        return int(np.flatnonzero(off)[-1]) + 2 if off.any() else 1


def curve_prints(methods: Sequence[str]) -> dict[str, str]:
    """The paper's own methods among these, with the fingerprints of their curves."""
    made_by = tuning.XI_STEPS, tuning.LAM_STEPS, tuning.LAM_RATIO, THETAS, ITERATIONS, VERSION
    wanted = [METHODS[name] for name in methods if name in METHODS and METHODS[name].kind == "paper"]
    return {method.label: fingerprint(method, made_by) for method in wanted}


def run_curve(data: str, share: float, seed: int, methods: Sequence[str]) -> Iterator[Curve]:
    """Walk methods through a fixed number of iterations."""
    known, hidden = movielens_100k().observations.split(1 - share, random_state=seed)
    for name in methods:
        method, found = METHODS[name], list[float]()
        plan = strengths(method, known, None, seed)
        problem = plan.recipe.problem(known, plan.lam, plan.xi)

        def score(info: Any, problem: Any = problem, found: list[float] = found) -> None:
            estimate = problem.with_offsets(info.x).entries(hidden.rows, hidden.cols)
            found.append(metrics.nmse(hidden.values, estimate))

        options: dict[str, Any] = {"max_iter": ITERATIONS, "tol": 0, "evaluate_every": ITERATIONS}
        result = solve(problem, method.solver, callback=score, random_state=seed, **options)
        yield Curve(data, share, seed, name, tuple(found), float(result.history["seconds"][-1]))


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
    exact: float
    nmse_rounded: float
    seconds: float
    iterations: float


def summarise(scores: Sequence[Score]) -> list[Line]:
    """Over the seeds, by share and method, in the order of the methods."""
    lines = []
    order = [*BASELINES, *METHODS]
    keys = dict.fromkeys((s.share, s.method) for s in scores)
    for share, name in sorted(keys, key=lambda key: (key[0], order.index(key[1].removesuffix(ON_TEST)))):
        some = [s for s in scores if (s.share, s.method) == (share, name)]
        nmse = np.array([s.nmse for s in some])
        error = float(nmse.std(ddof=1) / np.sqrt(nmse.size)) if nmse.size > 1 else float("nan")
        label = name.removesuffix(ON_TEST)
        kind = METHODS[label].kind if label in METHODS else "control"
        averaged = ("exact", "nmse_rounded", "seconds", "iterations")
        means = {of: float(np.mean([getattr(s, of) or 0 for s in some])) for of in averaged}
        lines.append(Line(share, label, kind, name != label, float(nmse.mean()), error, seeds=len(some), **means))
    return lines


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
    if line is None:
        return ""
    return f"{line.nmse:.4f}" + (f" ± {line.error:.4f}" if np.isfinite(line.error) else "")
