"""Does discreteness pay? Recovery from few entries, each method tuned on observed entries only, many seeds.

Every method takes the same solver and the same path of λ, each fit started from
the one before; ξ = 0 is the plain method, in its own row. Beside the discrete
penalties stand their controls: no centring, biases, a pull to the mean that
does not see the alphabet, and a rescaling of X, which undoes shrinkage.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from reproduction.summary import standard_error
from reproduction.units import fingerprint
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets import low_rank_alphabet, senate_votes
from snapimpute.data.datasets.synthetic import Kind
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator.comparison import Method
from snapimpute.experts.proximal.spec import ModelSpec
from snapimpute.experts.proximal.tuning import LamPath, largest_lam
from snapimpute.solvers import APG, Result
from snapimpute.solvers.options import TUNING

SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
XI_STEPS = (0.001, 0.003, 0.01)
"""In units of `ModelSpec.xi_unit`."""

LAM_RATIO, LAM_STEPS = 0.55, 9
"""λ tried: the largest that matters times powers of the ratio."""

MAX_ITER = 50
"""Most iterations of each fit along the path."""

PATIENCE = 3
"""A path ends after so many λ in a row without a better score."""

HELD_OUT = 0.2
"""Share of the known entries on which strengths are chosen."""

PLAIN = "ξ = 0"
METHODS = (
    Method(PLAIN, center="mean"),
    Method("ξ = 0, uncentred"),
    Method("ξ = 0, biases", center="biases"),
    Method("ξ = 0, rescaled", center="mean", scales=(1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0)),
    Method("ridge", discrete="ridge", center="mean"),
    Method("L1", discrete="l1", center="mean"),
    Method("weighted L1", discrete="l1", center="mean", weights="frequency"),
    Method("L0", discrete="l0", center="mean"),
    Method("fractional L0", discrete="l0-fractional", center="mean"),
    Method("Lp, p = ½", discrete="lp", center="mean"),
    Method("fractional L0, biases", discrete="l0-fractional", center="biases"),
)


CONTROLS = tuple(m.label for m in METHODS if not m.discrete_aware)


def prints() -> dict[str, str]:
    """The fingerprint of every method: how it is defined, and the grids that it is tuned on."""
    return {m.label: fingerprint(m, XI_STEPS, LAM_RATIO, LAM_STEPS, MAX_ITER, PATIENCE, HELD_OUT) for m in METHODS}


class Source(NamedTuple):
    """Source of entries: a function of the seed."""

    title: str
    alphabet: Alphabet
    make: Callable[[int], Observations]


def _synthetic(alphabet: str, kind: Kind, rank: int) -> Callable[[int], Observations]:
    def make(seed: int) -> Observations:
        data = low_rank_alphabet((100, 80), rank, alphabet, kind=kind, observed=0.5, random_state=seed)
        return Observations.from_dense(data.to_dense())

    return make


SOURCES: dict[str, Source] = {
    "blocks": Source("block model 0/1, 5 groups, 100×80", Alphabet.of("0,1"), _synthetic("0,1", "blocks", 5)),
    "signs": Source(
        "signs ±1 of a product of rank 2, 100×80", Alphabet.of("-1,1"), _synthetic("-1,1", "quantised", 2)
    ),
    "genotypes": Source("block model 0/1/2, 5 groups, 100×80", Alphabet.of("0:2"), _synthetic("0:2", "blocks", 5)),
    "senate": Source(
        "US Senate votes, 117th Congress, 104×949", Alphabet.of("0,1"), lambda _: senate_votes(117).observations
    ),
}


@dataclass(frozen=True)
class Score:
    """Scores of one method on the hidden entries of one split.

    ``error`` and ``exact`` belong to the strengths with the least held-out error
    rate, ``square`` (mean squared error, clipped to the alphabet, in units of
    the squared smallest gap) to those with the least held-out squared error.
    """

    source: str
    share: float
    seed: int
    method: str
    error: float
    square: float
    exact: bool
    lam: float
    xi: float
    seconds: float
    scale: float = 1.0


def run_unit(source: str, share: float, seed: int, labels: Sequence[str] | None = None) -> list[Score]:
    """Split the entries of a source, tune methods on what is known, score them on the rest."""
    chosen = SOURCES[source]
    known, hidden = chosen.make(seed).split(1 - share, random_state=seed)
    out = []
    for method in METHODS:
        if labels is None or method.label in labels:
            begin = time.perf_counter()
            error, square, lam, trial = _tuned(method, known, hidden, chosen.alphabet, seed)
            spent = round(time.perf_counter() - begin, 2)
            score = Score(
                source, share, seed, method.label, error, square, error == 0, lam, trial.xi, spent, trial.scale
            )
            out.append(score)
    return out


# ---------------------------------------------------------------- tuning
class _Trial(NamedTuple):
    """Scores on the held-out entries, and the place of λ in the grid, ξ and the scale that gave them."""

    error: float
    square: float
    place: int
    xi: float
    scale: float

    @property
    def strengths(self) -> tuple[int, float, float]:
        """Settings that were chosen."""
        return self.place, self.xi, self.scale


def _tuned(
    method: Method, known: Observations, hidden: Observations, alphabet: Alphabet, seed: int
) -> tuple[float, float, float, _Trial]:
    """(Error, squared error, λ, trial): strengths by each score on a fifth of the known, then a fit to all."""
    spec = ModelSpec(alphabet, discrete=method.discrete, center=method.center, weights=method.weights)
    kept, held = known.split(HELD_OUT, random_state=seed)
    lams = [largest_lam(kept, spec) * LAM_RATIO**k for k in range(1, LAM_STEPS + 1)]
    xis = [step * spec.xi_unit for step in XI_STEPS] if method.discrete else [0.0]
    trials = [trial for xi in xis for trial in _walk_down(spec, kept, held, lams, xi, method.scales)]
    by_error, by_square = min(trials), min(trials, key=lambda t: (t.square, t.error))
    error, square = _final(spec, known, hidden, lams, by_error)
    if by_square.strengths != by_error.strengths:
        square = _final(spec, known, hidden, lams, by_square)[1]
    return error, square, lams[by_error.place], by_error


def _path(spec: ModelSpec, observations: Observations, lams: Sequence[float], xi: float) -> Iterator[Result]:
    return LamPath(spec.bind(observations), APG(), replace(TUNING, max_iter=MAX_ITER)).down(lams, xi)


def _walk_down(
    spec: ModelSpec,
    kept: Observations,
    held: Observations,
    lams: Sequence[float],
    xi: float,
    scales: Sequence[float],
) -> Iterator[_Trial]:
    """Every λ in turn, until neither score has improved for a while."""
    best, since = [math.inf, math.inf], 0
    for place, result in enumerate(_path(spec, kept, lams, xi)):
        trials = [_Trial(*_scores(result, held, spec.alphabet, c), place, xi, c) for c in scales]
        yield from trials
        error, square = min(t.error for t in trials), min(t.square for t in trials)
        since = 0 if error < best[0] or square < best[1] else since + 1
        best = [min(best[0], error), min(best[1], square)]
        if since >= PATIENCE:
            return


def _final(
    spec: ModelSpec, known: Observations, hidden: Observations, lams: Sequence[float], trial: _Trial
) -> tuple[float, float]:
    """Walk down to the λ chosen with all known entries, and score on the hidden ones."""
    *_, result = _path(spec, known, lams[: trial.place + 1], trial.xi)
    return _scores(result, hidden, spec.alphabet, trial.scale)


def _scores(
    result: Result, test: Observations, alphabet: Alphabet | ColumnSchema, scale: float
) -> tuple[float, float]:
    """(Share of wrong symbols, mean squared error after clipping to the alphabet)."""
    alphabet = Alphabet.of(alphabet)  # type: ignore[arg-type]  # there is one for all columns here
    cells = test.rows, test.cols
    estimate = result.entries(*cells) + (scale - 1) * result.x.entries(*cells)
    error = float(np.mean(alphabet.snap(estimate) != test.values))
    low, high = alphabet.symbols[0], alphabet.symbols[-1]
    gap = float(np.diff(alphabet.symbols).min())
    return error, float(np.mean((np.clip(estimate, low, high) - test.values) ** 2)) / gap**2


# ---------------------------------------------------------------- summary
@dataclass(frozen=True)
class Line:
    """One method at one share: means over the seeds, and the paired difference to ξ = 0 with its standard error."""

    source: str
    share: float
    method: str
    seeds: int
    error: float
    error_se: float
    gain: float
    gain_se: float
    square: float
    square_ratio: float
    square_ratio_se: float
    exact: float


def summarise(scores: Sequence[Score]) -> list[Line]:
    """A line for each source, share and method, in the order in which they come."""
    keys = dict.fromkeys((s.source, s.share, s.method) for s in scores)
    return [_line([s for s in scores if (s.source, s.share, s.method) == key], scores) for key in keys]


def _line(rows: Sequence[Score], scores: Sequence[Score]) -> Line:
    first = rows[0]
    plain = {s.seed: s for s in scores if (s.source, s.share, s.method) == (first.source, first.share, PLAIN)}
    error = np.array([s.error for s in rows])
    gain = np.array([plain[s.seed].error - s.error for s in rows])
    square = np.array([s.square for s in rows])
    ratio = np.array([s.square / max(plain[s.seed].square, 1e-12) for s in rows])
    return Line(
        source=first.source,
        share=first.share,
        method=first.method,
        seeds=len(rows),
        error=float(error.mean()),
        error_se=standard_error(error),
        gain=float(gain.mean()),
        gain_se=standard_error(gain),
        square=float(square.mean()),
        square_ratio=float(ratio.mean()),
        square_ratio_se=standard_error(ratio),
        exact=float(np.mean([s.exact for s in rows])),
    )


def as_markdown(lines: Sequence[Line]) -> str:
    """One table for each source: error rates in per cent, the gain over ξ = 0, squared error relative to it."""
    out = []
    for source in dict.fromkeys(line.source for line in lines):
        mine = [line for line in lines if line.source == source]
        shares = list(dict.fromkeys(line.share for line in mine))
        out.append(f"### {SOURCES[source].title}: {mine[0].seeds} seeds\n")
        out.append("| method | " + " | ".join(f"{100 * share:g} % observed" for share in shares) + " |")
        out.append("|---|" + "---|" * len(shares))
        for method in dict.fromkeys(line.method for line in mine):
            cells = [_cell(line) for line in mine if line.method == method]
            out.append(f"| {method} | " + " | ".join(cells) + " |")
        out.append("")
    return "\n".join(out)


def _cell(line: Line) -> str:
    text = f"{100 * line.error:.2f} ± {100 * line.error_se:.2f}"
    if line.method != PLAIN:
        text += f" ({100 * line.gain:+.2f} ± {100 * line.gain_se:.2f}; {100 * (line.square_ratio - 1):+.0f} %)"
    return text + (f" **exact {line.exact:.0%}**" if line.exact > 0 else "")


def verdict(lines: Sequence[Line], source: str, share: float) -> str:
    """The best discrete penalty beside ξ = 0 and the best control, in a sentence; both best in hindsight."""
    mine = [line for line in lines if (line.source, line.share) == (source, share)]
    plain = next(line for line in mine if line.method == PLAIN)
    controls = [line for line in mine if line.method in CONTROLS]
    aware = [line for line in mine if line.method not in CONTROLS]
    best, control = max(aware, key=lambda line: line.gain), max(controls, key=lambda line: line.gain)
    square = min(controls, key=lambda line: line.square_ratio)
    return (
        f"{SOURCES[source].title}, {100 * share:g} % observed, {best.seeds} seeds: of {len(aware)} discrete "
        f"penalties {best.method} errs least, on {100 * best.error:.2f} %, ξ = 0 on {100 * plain.error:.2f} % (gain "
        f"{100 * best.gain:+.2f} ± {100 * best.gain_se:.2f} points), the best control, {control.method}, on "
        f"{100 * control.error:.2f} %. Squared error {100 * (best.square_ratio - 1):+.1f} ± "
        f"{100 * best.square_ratio_se:.1f} % against ξ = 0; the best control there, {square.method}, has "
        f"{100 * (square.square_ratio - 1):+.1f} %."
    )
