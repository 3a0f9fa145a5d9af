"""Report of a blend on its experts: scores on held-out cells, weights, who carries the answer, progress."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from snapimpute.base.files import stored
from snapimpute.base.machine import seconds_in_words

ALONE = 0.995
"""Share of the weights from which an expert answers alone."""


@stored("expert score", "name", "loss", "error", "wrong", "weight", "seconds", "cells", "reason")
@dataclass(frozen=True)
class ExpertScore:
    """Score of an expert on held-out cells, and its weight in the blend.

    Attributes
    ----------
    name : str
    loss, error : float
        Log loss on the held-out cells, with its standard error; NaN where it was not fitted.
    wrong : float
        Share of held-out cells whose most probable symbol is wrong.
    weight : float
        Share of the blend.
    seconds : float
        Of the fits on the way.
    cells : int
        Held-out cells that it was scored on.
    reason : str
        Why it has no part in the blend; empty if it has.
    """

    name: str
    loss: float
    error: float
    wrong: float
    weight: float
    seconds: float
    cells: int
    reason: str = ""

    def __str__(self) -> str:
        if math.isnan(self.loss):
            return f"{self.name}: {self.reason}"
        scored = f"log loss {self.loss:.4f} ± {self.error:.4f}, {100 * self.wrong:.1f} % wrong"
        return f"{self.name}: {scored}, " + (self.reason or f"weight {self.weight:.2f}")


@stored(
    "blend verdict",
    "leader",
    "share",
    "loss",
    "best",
    "rival",
    "gain",
    "error",
    "lead",
    "lead_error",
    "cells",
    "penalty",
)
@dataclass(frozen=True)
class BlendVerdict:
    """Verdict: the expert that carries the answer, and by how much.

    Losses are log losses on the held-out cells. Weights were fitted to the same cells, a few numbers to thousands.

    Attributes
    ----------
    leader : str
        The expert with the largest weight.
    share : float
        Its share of all weights.
    loss : float
        Of the blend.
    best : str
        The best single expert.
    rival : str
        The second best, or "".
    gain, error : float
        By how much the blend is better than the best single expert, with its standard error.
    lead, lead_error : float
        By how much the best single expert is better than the second best.
    cells : int
        Held-out cells.
    penalty : choice.Verdict or None
        Whether the discrete penalty beat rounding, where the proximal expert tried it.
    """

    leader: str
    share: float
    loss: float
    best: str
    rival: str
    gain: float
    error: float
    lead: float
    lead_error: float
    cells: int
    penalty: Any = None

    @property
    def helped(self) -> bool | None:
        """Yes or no: is the blend better than its best expert, beyond two standard errors? None: nobody can tell."""
        return None if abs(self.gain) <= 2 * self.error else self.gain > 0

    def __str__(self) -> str:
        if not self.cells:
            return f"{self.leader} answers alone: nothing was held out to compare experts on"
        if self.share > ALONE:
            line = f"{self.leader} answers alone: log loss {self.loss:.4f}"
        else:
            line = (
                f"{self.leader} carries {100 * self.share:.0f} % of the answer: log loss {self.loss:.4f}, "
                f"{self.gain:.4f} ± {self.error:.4f} better than {self.best} alone"
            )
        if self.rival:
            which = "; it" if self.share > ALONE else ", which"
            line += f"{which} leads {self.rival} by {self.lead:.4f} ± {self.lead_error:.4f}"
        line += f" ({self.cells:,} cells held out)"
        return line if self.penalty is None else f"{line}\n{self.penalty}"


@dataclass(frozen=True)
class Step:
    """A step of a blend, for progress: an expert was fitted to a fold, or to everything.

    Attributes
    ----------
    name : str
    stage : {"probe", "held out", "everything"}
    loss : float
        Log loss on held-out cells so far; NaN in the last stage.
    done, steps : int
        Steps made, and steps expected.
    seconds, left : float
        Since the fit began, and about how many are left.
    """

    name: str
    stage: str
    loss: float
    done: int
    steps: int
    seconds: float
    left: float

    def __str__(self) -> str:
        loss = "" if math.isnan(self.loss) else f": log loss {self.loss:.4f}"
        left = "" if math.isnan(self.left) else f", about {seconds_in_words(self.left)} left"
        return f"{self.name}, {self.stage}{loss} (step {self.done} of {self.steps}{left})"
