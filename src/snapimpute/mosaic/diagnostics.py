"""Diagnostics of a run: what was chosen and why, and how exact the answers are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from snapimpute.base.files import stored
from snapimpute.mosaic._choice import Trial
from snapimpute.mosaic._settings import Settings


@stored("mosaic diagnostics", "settings", "answers", "excess", "held_out")
@dataclass(frozen=True)
class MosaicDiagnostics:
    """Settings of a run, what they were chosen by, and how exact the answers are.

    Attributes
    ----------
    settings : Settings
        What was chosen: order, strands, classes, starts, rounds.
    answers : int
        Starts or rounds whose answers were averaged.
    excess : float
        Log loss that more of them could still win, estimated from their spread; NaN where too few tell.
    held_out : tuple of Trial
        Settings that short runs compared, in the order tried; empty where nothing was open.
    """

    settings: Settings
    answers: int
    excess: float
    held_out: tuple[Trial, ...] = ()

    def __str__(self) -> str:
        one = self.settings
        each = "rounds of copying" if one.rounds else "sets of classes"
        excess = "" if math.isnan(self.excess) else f"; more would win {self.excess:.2g} of log loss at most"
        lines = [f"chosen: {one}", f"averaged: {self.answers} {each}{excess}"]
        return "\n".join([*lines, *(f"tried: {trial}" for trial in self.held_out)])
