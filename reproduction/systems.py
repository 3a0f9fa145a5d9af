"""Other systems for entries on a finite alphabet, on the same splits as ours, each tuned on observed entries only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from reproduction.data.answers import bfi, hapmap_ceu, house_votes_1984
from reproduction.published import ONE_BIT_ACCURACY
from reproduction.rivals import (
    DiscreteModel,
    MultinomialCompletion,
    OneBit,
    RobustDiscrete,
    ThresholdCompletion,
    tuned,
)
from reproduction.summary import mean_in_words
from reproduction.units import fingerprint
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets import Dataset, movielens_100k, senate_votes
from snapimpute.data.observations import Observations
from snapimpute.evaluation import metrics
from snapimpute.evaluation.baselines import ConstantMean, DampedBiases, Mode
from snapimpute.experts.proximal import tuning
from snapimpute.experts.proximal.tuned import tune
from snapimpute.solvers import FitOptions


class Answer(NamedTuple):
    """Estimate and decided symbol of every hidden entry, and the ξ chosen, if there is one to choose."""

    estimate: Array
    symbols: Array
    xi: float | None = None


System = Callable[[Observations, Observations, Alphabet, int], Answer]
"""Known entries, where the hidden ones are, alphabet, seed → answer."""


@dataclass(frozen=True)
class Score:
    """Scores of one system on the hidden entries of one split; no NMSE where it gives symbols and no estimate."""

    data: str
    share: float
    seed: int
    method: str
    error: float
    nmse: float | None
    seconds: float
    xi: float | None = None


def binarised(data: Dataset) -> Dataset:
    """1 above the mean of all entries, else −1."""
    signs = np.where(data.values > data.values.mean(), 1.0, -1.0)
    return replace(data, name=f"{data.name}, above or below its mean", values=signs, alphabet=Alphabet.of("-1,1"))


DATA: dict[str, tuple[Callable[[], Dataset], tuple[float, ...]]] = {
    "senate": (lambda: senate_votes(117), (0.05, 0.1, 0.2)),
    "house-votes": (house_votes_1984, (0.2, 0.5)),
    "survey": (bfi, (0.5, 0.8)),
    "genotypes": (hapmap_ceu, (0.1, 0.2, 0.5)),
    "movielens": (movielens_100k, (0.2,)),
    "movielens-signs": (lambda: binarised(movielens_100k()), (0.95,)),
}
"""Sources of the entries, and the shares that stay known."""


def _simple(model: Any) -> System:
    def run(known: Observations, hidden: Observations, alphabet: Alphabet, seed: int) -> Answer:
        estimate = model.fit(known).entries(hidden.rows, hidden.cols)
        return Answer(estimate, alphabet.snap(estimate))

    return run


def _rival(model: type[DiscreteModel], **options: Any) -> System:
    def run(known: Observations, hidden: Observations, alphabet: Alphabet, seed: int) -> Answer:
        fitted = tuned(model, known, alphabet, random_state=seed, **options).model
        cells = hidden.rows, hidden.cols
        return Answer(fitted.entries(*cells), fitted.symbols(*cells))

    return run


def _ours(discrete: str | None) -> System:
    def run(known: Observations, hidden: Observations, alphabet: Alphabet, seed: int) -> Answer:
        options = FitOptions(max_iter=300, tol=1e-4, random_state=seed)
        plan = tune(known, alphabet, discrete=discrete, options=options)
        result = plan.fit(known, options=options)
        estimate = result.entries(hidden.rows, hidden.cols)
        return Answer(estimate, alphabet.snap(estimate), plan.xi)

    return run


OURS_PLAIN = "ours, ξ = 0"
SYSTEMS: dict[str, System] = {
    "constant mean": _simple(ConstantMean),
    "most common symbol": _simple(Mode),
    "damped biases": _simple(DampedBiases),
    "robust discrete (Huang 2013)": _rival(RobustDiscrete),
    "learned thresholds (Huo 2016)": _rival(ThresholdCompletion),
    "1-bit (Davenport 2014)": _rival(OneBit, intercept=True),
    "multinomial (Lafond 2014)": _rival(MultinomialCompletion, intercept=True),
    OURS_PLAIN: _ours(None),
    "ours, ridge to the mean": _ours("ridge"),
    "ours, L1": _ours("l1"),
    "ours, fractional L0": _ours("l0-fractional"),
}


QUICK = ("constant mean", "damped biases", OURS_PLAIN, "ours, L1", "ours, fractional L0")
"""Methods that ``--quick`` runs."""


def fits(system: str, alphabet: Alphabet) -> bool:
    """True if a system can treat an alphabet, and is not another one in disguise."""
    two = len(alphabet) == 2
    return {"1-bit (Davenport 2014)": two, "multinomial (Lafond 2014)": not two}.get(system, True)


VERSION = 1
"""To be raised when a system is run with other options: its scores are then made anew."""

DECIDING = ("most common symbol", "learned thresholds (Huo 2016)")
"""These give symbols only."""


def prints(data: str) -> dict[str, str]:
    """The systems that can treat some data, with their fingerprints."""
    alphabet = DATA[data][0]().alphabet
    return {
        name: fingerprint(name, tuning.XI_STEPS, tuning.LAM_STEPS, tuning.LAM_RATIO, VERSION)
        for name in SYSTEMS
        if fits(name, alphabet)
    }


def run_unit(data: str, share: float, seed: int, systems: Sequence[str]) -> Iterator[Score]:
    """Hide all but a share of the entries, and let systems predict the rest."""
    source = DATA[data][0]()
    known, hidden = source.observations.split(1 - share, random_state=seed)
    for name in systems:
        begin = time.perf_counter()
        answer = SYSTEMS[name](known, hidden, source.alphabet, seed)
        spent = time.perf_counter() - begin
        error = float(np.mean(answer.symbols != hidden.values))
        nmse = None if name in DECIDING else metrics.nmse(hidden.values, answer.estimate)
        yield Score(data, share, seed, name, error, nmse, round(spent, 2), answer.xi)


def as_markdown(scores: Sequence[Score]) -> str:
    """A table for each set of data: error rate in per cent, mean ± standard error over the seeds, NMSE, seconds."""
    out = []
    for data in dict.fromkeys(s.data for s in scores):
        mine = [s for s in scores if s.data == data]
        shares = list(dict.fromkeys(s.share for s in mine))
        heads = [f"{100 * share:g} % known: wrong % | NMSE | s" for share in shares]
        out.append(f"### {data}: {len({s.seed for s in mine})} seeds\n")
        out.append("| system | " + " | ".join(heads) + " |")
        out.append("|---|" + "---|---|---|" * len(shares))
        for system in dict.fromkeys(s.method for s in mine):
            cells = [_cells([s for s in mine if (s.method, s.share) == (system, share)]) for share in shares]
            out.append(f"| {system} | " + " | ".join(cells) + " |")
        if data == "movielens-signs":
            out.append(f"\nPublished for 1-bit completion: {100 * (1 - ONE_BIT_ACCURACY):.0f} % wrong (one split).")
        out.append("")
    return "\n".join(out)


def _cells(rows: Sequence[Score]) -> str:
    errors = 100 * np.array([s.error for s in rows])
    known = [s.nmse for s in rows if s.nmse is not None]
    nmse = f"{np.mean(known):.4f}" if known else "–"
    plain = sum(s.xi == 0 for s in rows)
    chosen = f" (ξ = 0 chosen in {plain} of {len(rows)})" if plain and rows[0].method != OURS_PLAIN else ""
    return f"{mean_in_words(errors, 2)}{chosen} | {nmse} | {np.mean([s.seconds for s in rows]):.1f}"
