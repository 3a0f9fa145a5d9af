"""The paper's statements about its method, each beside a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from reproduction import paper
from reproduction.paper import Score
from reproduction.summary import in_words, standard_error
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.data.observations import Observations
from snapimpute.linalg import LowRank
from snapimpute.penalties import L1, Nuclear
from snapimpute.problem import Problem
from snapimpute.solvers import solve

WIDE = 0.1
"""An NMSE below this is what the paper calls successful."""

NUCLEAR, LSP = 100, 180
"""Iterations within which most methods are said to converge, by their low-rank term."""

PAIRS = {"discrete-aware nuclear": "AIS-Impute", "discrete-aware LSP": "niAPG, LSP"}
"""Discrete-aware methods and what each adds the alphabet to."""

CONTROLS = {
    "discrete-aware nuclear": ("ridge to the mean", "Soft-Impute, bias-centred"),
    "discrete-aware LSP": ("LSP, ridge to the mean", "LSP, bias-centred", "Soft-Impute, bias-centred"),
}
"""Controls of a gain: the same low-rank term with a pull that knows no alphabet, and centred data."""

Holds = Literal["yes", "no", "in part"]


@dataclass(frozen=True)
class Claim:
    """A statement, whether it held, and what was measured."""

    claim: str
    holds: Holds
    measured: str


def claims(scores: Sequence[Score]) -> list[Claim]:
    """Every claim, from the honest scores of the figures and a few small measurements."""
    honest = [score for score in scores if not score.method.endswith(paper.ON_TEST)]
    found = [below(honest), gains(honest), lowest_share(honest)]
    if any(score.curve for score in honest):
        found += [convergence(honest), sooner(honest)]
    return [*found, complexity(growth()), uniqueness()]


def as_markdown(found: Sequence[Claim]) -> str:
    """One row for each claim."""
    rows = ["| The paper says | Held here | Measured |", "|---|---|---|"]
    rows += [f"| {one.claim} | {one.holds} | {one.measured} |" for one in found]
    return "\n".join(rows) + "\n"


# ---------------------------------------------------------------- from the figures
def _nmse(scores: Sequence[Score], method: str) -> dict[float, dict[int, float]]:
    """NMSE of a method by share and seed."""
    found: dict[float, dict[int, float]] = {}
    for score in scores:
        if score.method == method:
            found.setdefault(score.share, {})[score.seed] = score.nmse
    return found


def _own() -> list[str]:
    return [label for label, method in paper.METHODS.items() if method.kind == "paper"]


def _holds(cases: Sequence[bool]) -> Holds:
    return "yes" if all(cases) else "in part" if any(cases) else "no"


def below(scores: Sequence[Score]) -> Claim:
    """Below 0.1 over a wide range of shares."""
    parts, cases = [], []
    for label in _own():
        mean = {share: np.mean(list(seeds.values())) for share, seeds in _nmse(scores, label).items()}
        if mean:
            first = min((share for share, nmse in mean.items() if nmse < WIDE), default=None)
            parts.append(f"{label}: " + ("nowhere" if first is None else f"from {100 * first:g} % on"))
            cases.append(first is not None and first <= min(mean) + 0.1)
    flat = _nmse(scores, "constant mean")
    level = np.mean([nmse for seeds in flat.values() for nmse in seeds.values()]) if flat else np.nan
    said = "; ".join(parts) + f". The mean of all ratings alone has {level:.4f}."
    return Claim("NMSE below 0.1 over a wide range of observed shares, for most methods", _holds(cases), said)


class Gain(NamedTuple):
    """Difference of two methods' NMSE: mean over the same splits, and its standard error."""

    mean: float
    error: float

    @property
    def sure(self) -> bool:
        """True if it is above 0 by more than two standard errors, where these are known."""
        return self.mean > (2 * self.error if np.isfinite(self.error) else 0)

    def __str__(self) -> str:
        return "+" * (self.mean >= 0) + in_words(self.mean, self.error, 4)


def gain(scores: Sequence[Score], aware: str, plain: str) -> dict[float, Gain]:
    """Compare by share, over the seeds that both have."""
    found = {}
    before = _nmse(scores, plain)
    for share, seeds in _nmse(scores, aware).items():
        both = [before[share][seed] - nmse for seed, nmse in seeds.items() if seed in before.get(share, {})]
        if both:
            found[share] = Gain(float(np.mean(both)), standard_error(both))
    return found


def gains(scores: Sequence[Score]) -> Claim:
    """The discrete-aware methods lie below the plain ones; beside the controls."""
    parts, cases = [], []
    for aware, plain in PAIRS.items():
        for rival in (plain, *CONTROLS[aware]):
            found = gain(scores, aware, rival)
            if found:
                listed = ", ".join(f"{100 * share:g} %: {one}" for share, one in sorted(found.items()))
                parts.append(f"{aware} against {rival}: {listed}")
            if found and rival == plain:
                cases += [one.sure for one in found.values()]
    said = "NMSE lower by (+): " + "; ".join(parts)
    return Claim("The discrete-aware methods have the lower NMSE", _holds(cases), said)


def lowest_share(scores: Sequence[Score]) -> Claim:
    """The gain is largest where least is observed."""
    parts, cases = [], []
    for aware, plain in PAIRS.items():
        found = gain(scores, aware, plain)
        if len(found) > 1:
            most = max(found, key=lambda share: found[share].mean)
            cases.append(most == min(found))
            parts.append(f"{aware}: largest at {100 * most:g} % ({found[most]})")
    return Claim("They gain most at low shares", _holds(cases), "; ".join(parts) or "one share only")


def _settled(scores: Sequence[Score]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for score in scores:
        if score.curve:
            found.setdefault(score.method, []).append(paper.settled(score.curve))
    return found


def _limit(label: str) -> int:
    return LSP if paper.METHODS[label].spectral == "lsp" else NUCLEAR


def convergence(scores: Sequence[Score]) -> Claim:
    """Within 100 iterations with the nuclear norm, 180 with LSP."""
    found = {label: float(np.mean(counts)) for label, counts in _settled(scores).items()}
    cases = [count <= _limit(label) for label, count in found.items()]
    parts = [f"{label}: {paper.count_in_words(count)} (said: {_limit(label)})" for label, count in found.items()]
    said = f"iterations until the NMSE stays within 1 % of that after {paper.ITERATIONS}: " + "; ".join(parts)
    claim = f"Convergence within {NUCLEAR} iterations with the nuclear norm and {LSP} with LSP, for most methods"
    return Claim(claim, "yes" if np.mean(cases) > 0.5 else _holds(cases), said)


def sooner(scores: Sequence[Score]) -> Claim:
    """Discrete-aware sooner in the convex case and later in the other."""
    found, parts, cases = _settled(scores), [], []
    for (aware, plain), is_sooner in zip(PAIRS.items(), (True, False), strict=True):
        if aware not in found or plain not in found:
            cases.append(False)
            parts.append(f"{aware} not measured")
            continue
        own, other = float(np.mean(found[aware])), float(np.mean(found[plain]))
        cases.append((own < other) == is_sooner)
        parts.append(f"{aware} {paper.count_in_words(own)}, {plain} {paper.count_in_words(other)}")
    claim = "Discrete-aware converges sooner than the plain method in the convex case and later in the other"
    return Claim(claim, _holds(cases), "iterations: " + "; ".join(parts))


# ---------------------------------------------------------------- measured apart
SIZES = (1000, 2000, 4000)


def growth(sizes: Sequence[int] = SIZES, iterations: int = 6) -> dict[str, list[float]]:
    """Seconds of an iteration on n×n tables with 40 n cells known, at rank 10: without and with the alphabet."""
    found: dict[str, list[float]] = {"plain": [], "discrete-aware": []}
    for n in sizes:
        data = low_rank_alphabet((n, n), 5, "1:5", observed=40 / n, random_state=0)
        for seconds, discrete in zip(found.values(), (None, L1("1:5", xi=0.01)), strict=True):
            problem = Problem(data.observations, Nuclear(5.0), discrete)
            more: dict[str, Any] = {"max_rank": 10, "tol": 0, "evaluate_every": iterations, "alphabet_term": "tiled"}
            result = solve(problem, "apg", max_iter=iterations, **more)
            steps = np.diff(np.array(result.history["seconds"], float), prepend=0.0)
            seconds.append(float(np.median(steps[1:])))
    return found


def complexity(seconds: Mapping[str, Sequence[float]], sizes: Sequence[int] = SIZES) -> Claim:
    """Measure the time of an iteration against the side of the table."""
    order = {name: float(np.log(t[-1] / t[0]) / np.log(sizes[-1] / sizes[0])) for name, t in seconds.items()}
    parts = [
        f"{name}: {', '.join(f'{1000 * one:.0f}' for one in t)} ms (side to the power {order[name]:.1f})"
        for name, t in seconds.items()
    ]
    said = f"an iteration on n×n with 40 n cells known, rank 10, n = {', '.join(map(str, sizes))}: " + "; ".join(
        parts
    )
    said += (
        ". Against a full SVD, as in the paper, both are small; beside Soft-Impute's sparse-plus-low-rank product "
        "the alphabet term, exact, adds m·n (docs/scale.md: sampled, it does not)."
    )
    same = order["discrete-aware"] < order["plain"] + 0.4
    return Claim("The same order of complexity as the plain method", "yes" if same else "in part", said)


def diagonal(lam: float = 0.25, xi: float = 0.1) -> Problem:
    """A 2×2 table with 1 on the diagonal, the rest missing, on the alphabet ±1."""
    known = Observations.from_coo([0, 1], [0, 1], [1.0, 1.0], (2, 2))
    return Problem(known, Nuclear(lam), L1("-1,1", xi=xi))


def minimisers(problem: Problem) -> list[LowRank]:
    """Run the solver from three starts on `diagonal`."""
    starts = [None, *(LowRank.from_dense(np.array([[1.0, b], [b, 1.0]])) for b in (0.9, -0.9))]
    return [solve(problem, "apg", x0=start, max_iter=200, tol=1e-10).x for start in starts]


def uniqueness() -> Claim:
    """Convexity gives one value, not one solution."""
    problem = diagonal()
    found = minimisers(problem)
    values = [problem.objective(x) for x in found]
    same = max(values) - min(values) < 1e-9
    apart = max(x.distance(found[0]) for x in found)
    said = (
        "a 2×2 table with 1, 1 on the diagonal, alphabet ±1, λ = 0.25, ξ = 0.1: from three starts the missing cells "
        f"become {', '.join(f'{x.to_dense()[0, 1]:+.2f}' for x in found)}, all with the objective {values[0]:.6f} "
        f"(they differ by {max(values) - min(values):.0e}). The value is unique, the solution need not be."
    )
    return Claim("A unique solution in the convex case", "no" if same and apart > 0.1 else "yes", said)
