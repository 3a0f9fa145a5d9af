"""Everything that is settled before a run: order, strands, classes, and how much of each phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapimpute.base.files import stored

Order = Literal["given", "found"] | None

ITERATIONS, FEW_ITERATIONS = 15, 10
"""Iterations of expectation–maximisation from each start; fewer are better where classes answer."""

CLASS_STARTS = 12
"""Starts at most where classes alone answer."""

COPY_CLASSES = 20
"""Classes that strands are drawn from before they copy."""

LEAST_COPIED = 4
"""Rows from which strands can be copied."""


@stored("mosaic settings", "order", "strands", "classes", "starts", "rounds", "skipped", "others", "iterations")
@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes
    ----------
    order : {"given", "found"} or None
        None for latent classes.
    strands : int
        Of a row: 1 or 2.
    classes : int
    starts : int
        At most.
    rounds : int
        Rounds of copying from each start, at most; 0 if classes answer.
    skipped : int
        Rounds before the first one whose answers count.
    others : tuple of int
        Further numbers of classes, which the starts take in turn: no single one is sure.
    iterations : int
        Of expectation–maximisation, from each start.
    """

    order: Order
    strands: int
    classes: int
    starts: int
    rounds: int = 0
    skipped: int = 0
    others: tuple[int, ...] = ()
    iterations: int = FEW_ITERATIONS

    def classes_of(self, start: int) -> int:
        """Return the number of classes of a start."""
        every = (self.classes, *self.others)
        return every[start % len(every)]

    def __str__(self) -> str:
        order = "no order" if self.order is None else f"{self.order} order"
        strands = f"{self.strands} strand{'s' * (self.strands != 1)}"
        what = "copying" if self.rounds else f"{self.classes} classes"
        return f"{order}, {strands}, {what}"


def copying_plan(rows: int) -> tuple[int, int, int]:
    """Return starts, rounds and rounds skipped: few rows have several optima, many take long to settle."""
    if rows <= 200:
        return 4, 6, 1
    if rows <= 600:
        return 2, 10, 2
    return 1, 20, 4
