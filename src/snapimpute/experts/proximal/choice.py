"""Candidates for λ and ξ with their scores on held-out entries, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations

Metric = Literal["error", "mae", "rmse"]


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

    ``gain`` is how much lower its loss is on average (share of wrong symbols,
    absolute or squared error), ``error`` the standard error of that difference.
    """

    plain: Candidate
    aware: Candidate
    gain: float
    error: float
    count: int
    metric: Metric

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

    Of the λ whose scores are as good as the best, within a standard error of the
    difference, the largest is taken: the simplest model. One that was worse than
    the best so far, on the way, stays out; of a whole surface the best is taken.
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
