"""Methods side by side on the same hidden entries, each tuned on observed entries only.

A gain of a discrete-aware method means little by itself: much of it may be
re-centring. So the plain method stands beside it, raw and centred, and the same
pull to the mean that knows nothing of the alphabet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.evaluation import metrics
from snapimpute.evaluation.baselines import ConstantMean, DampedBiases, Mode
from snapimpute.experts.proximal.offsets import Center
from snapimpute.experts.proximal.spec import ModelSpec, Weights
from snapimpute.experts.proximal.tuned import TunedSpec
from snapimpute.experts.proximal.tuning import choose, xi_grid
from snapimpute.solvers import FitOptions, Result


@dataclass(frozen=True)
class Method:
    """A completion method up to λ and ξ; ``discrete``, ``center`` and ``weights`` as in `ModelSpec`."""

    label: str
    discrete: str | None = None
    center: Center = None
    weights: Weights = None
    scales: tuple[float, ...] = (1.0,)
    """Factors that X may be multiplied by: a control, as part of a gain may be shrinkage undone."""

    @property
    def discrete_aware(self) -> bool:
        """True if the method knows the alphabet while it fits."""
        return self.discrete is not None and self.discrete != "ridge"


BASELINES: dict[str, Callable[[Observations], ConstantMean | Mode | DampedBiases]] = {
    "constant mean": ConstantMean.fit,
    "most common symbol": Mode.fit,
    "damped biases": DampedBiases.fit,
}

METHODS = (
    Method("Soft-Impute"),
    Method("Soft-Impute, mean-centred", center="mean"),
    Method("Soft-Impute, bias-centred", center="biases"),
    Method("ridge to the mean", discrete="ridge"),
    Method("L1", discrete="l1"),
    Method("weighted L1", discrete="l1", weights="frequency"),
    Method("L1, mean-centred", discrete="l1", center="mean"),
    Method("weighted L1, mean-centred", discrete="l1", center="mean", weights="frequency"),
    Method("L0, mean-centred", discrete="l0", center="mean"),
    Method("fract. L0, mean-centred", discrete="l0-fractional", center="mean"),
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Scores of one method on the hidden entries."""

    label: str
    estimate: Array
    wrong: Array
    scores: dict[str, float]
    method: Method | None = None
    lam: float | None = None
    xi: float | None = None
    held_out: float | None = None
    result: Result | None = None

    @property
    def error(self) -> float:
        """Share of hidden entries whose symbol is wrong."""
        return float(self.wrong.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of `error`, entries taken as independent."""
        return float(self.wrong.std() / np.sqrt(self.wrong.size))


def compare(
    known: Observations,
    hidden: Observations,
    alphabet: Alphabet,
    methods: Sequence[Method] = METHODS,
    *,
    random_state: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Fit every baseline and method on ``known`` and score it on ``hidden``.

    λ and ξ are chosen on a fifth of the known entries, by the error rate after
    snapping; the hidden entries are looked at once, to score. ξ = 0 is not
    among the choices: it is the plain method, which has a row of its own.
    """
    say = progress or (lambda _: None)
    outcomes = []
    for label, fit in BASELINES.items():
        say(label)
        outcomes.append(_outcome(label, fit(known).entries(hidden.rows, hidden.cols), hidden, alphabet))
    for method in methods:
        say(method.label)
        outcomes.append(_run(method, known, hidden, alphabet, random_state))
    return outcomes


def paired_difference(a: Outcome, b: Outcome) -> tuple[float, float]:
    """Error of ``a`` minus error of ``b`` on the same entries, and its standard error."""
    difference = a.wrong - b.wrong
    return float(difference.mean()), float(difference.std() / np.sqrt(difference.size))


def verdict(outcomes: Sequence[Outcome]) -> str:
    """One line: did discreteness beat rounding? Methods are picked by their held-out scores."""
    tuned = [o for o in outcomes if o.method is not None and o.held_out is not None]
    aware = min((o for o in tuned if o.method and o.method.discrete_aware), key=lambda o: o.held_out or 0.0)
    plain = min((o for o in tuned if o.method and not o.method.discrete_aware), key=lambda o: o.held_out or 0.0)
    gain, error = paired_difference(plain, aware)
    answer = "helped" if gain > 0 else "did harm"
    if abs(gain) <= 2 * error:
        answer = "made no measurable difference"
    return (
        f"Discreteness {answer} on this table: discrete-aware {aware.label} errs on {100 * aware.error:.2f} % "
        f"of the hidden entries, {plain.label} with rounding on {100 * plain.error:.2f} % "
        f"(gain {100 * gain:+.2f} ± {100 * error:.2f} points, one standard error)."
    )


def remark(alphabet: Alphabet) -> str:
    """Remark on what the penalties do with this alphabet."""
    l1 = "With more than two symbols the unweighted p = 1 penalty also pulls to the middle of the alphabet."
    if len(alphabet) == 2:
        l1 = "With two symbols the p = 1 penalty is flat between them: it only keeps estimates from overshooting."
    return f"{l1} L0 and its fractional form pull to the nearest symbol."


def _run(method: Method, known: Observations, hidden: Observations, alphabet: Alphabet, random_state: int) -> Outcome:
    spec = ModelSpec(alphabet, discrete=method.discrete, center=method.center, weights=method.weights)
    xis = [xi for xi in xi_grid(spec) if xi > 0 or not method.discrete]
    choice = choose(known, spec, xi=xis, random_state=random_state)
    tuned = TunedSpec(spec, choice.lam, choice.xi, choice)
    result = tuned.fit(known, options=FitOptions(max_iter=300, tol=1e-4, random_state=random_state))
    if result.status.code == "interrupted":  # a half-fitted method has no place in a comparison
        raise KeyboardInterrupt(result.status.message)
    estimate = result.entries(hidden.rows, hidden.cols)
    found = _outcome(method.label, estimate, hidden, alphabet)
    held_out = choice.best.score
    return replace(found, method=method, lam=choice.lam, xi=choice.xi, held_out=held_out, result=result)


def _outcome(label: str, estimate: Array, hidden: Observations, alphabet: Alphabet) -> Outcome:
    wrong = (alphabet.snap(estimate) != hidden.values).astype(np.float64)
    return Outcome(label, estimate, wrong, metrics.scores(hidden.values, estimate, alphabet))
