"""Forecast of a blend: memory and seconds of all its experts together, before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snapimpute.base.forecasts import MemoryForecast
from snapimpute.base.machine import available_memory, in_words, seconds_in_words
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.blend.contest import BlendTable, Candidate
from snapimpute.experts.blend.fit import columns_of


@dataclass(frozen=True)
class ExpertPlan:
    """Memory at the peak of a fit, bytes of the fit itself, and seconds; None where nobody knows."""

    name: str
    memory: int | None = None
    saved: int = 0
    seconds: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}: left out, {self.reason}"
        memory = "memory unknown" if self.memory is None else in_words(self.memory)
        return f"{self.name}: {memory}" + (
            "" if self.seconds is None else f", about {seconds_in_words(self.seconds)}"
        )


@dataclass(frozen=True)
class BlendForecast(MemoryForecast):
    """Memory and time that a blend will need.

    Experts are fitted one after the other, and their fits are kept: the peak is that of the largest, with the fits of
    all others beside it.

    Attributes
    ----------
    shape : (int, int)
    cells : int
        Known ones.
    folds : int
        Parts of the known cells that are held out in turn; each expert is fitted once more than that, at most.
    plans : tuple of ExpertPlan
    parts : dict of int
        Bytes at the peak, by part; ``memory`` is their sum, without the observations.
    available : int or None
        Bytes that are free; None if unknown.
    seconds : float or None
        Seconds on a quiet machine, if no expert is left out on the way; None if not timed.
    """

    shape: tuple[int, int]
    cells: int
    folds: int
    plans: tuple[ExpertPlan, ...]
    parts: dict[str, int]
    available: int | None
    seconds: float | None = None

    @classmethod
    def of(cls, shape: tuple[int, int], cells: int, folds: int, plans: Sequence[ExpertPlan]) -> BlendForecast:
        """Add up the forecasts of the experts that take part."""
        some = [one for one in plans if not one.reason]
        largest = max(some, key=lambda one: one.memory or 0, default=None)
        parts = {} if largest is None else {f"the fit of {largest.name}": largest.memory or 0}
        kept = sum(2 * one.saved for one in some if one is not largest)
        known = [one.seconds for one in some if one.seconds is not None]
        seconds = (folds + 1) * sum(known) if known else None
        return cls(
            shape, cells, folds, tuple(plans), parts | {"fits that are kept": kept}, available_memory(), seconds
        )

    def __str__(self) -> str:
        m, n = self.shape
        lines = [
            f"{m:,}×{n:,}, {self.cells:,} known: {self._need()}",
            f"{self.folds} held-out part{'s' * (self.folds != 1)}, then everything"
            + ("" if self.seconds is None else f": up to about {seconds_in_words(self.seconds)}"),
            *map(str, self.plans),
        ]
        return "\n".join(lines)

    def check(self) -> None:
        """Refuse a blend that does not fit into memory, with alternatives."""
        m, n = self.shape
        sizes = {one.name: one.memory for one in self.plans if not one.reason and one.memory}
        if not sizes:
            return
        small = min(sizes, key=lambda name: sizes[name])
        what = f"the blend for {m:,}×{n:,} with {self.cells:,} known cells"
        self._refuse(what, f'take one expert alone, such as method="{small.split(" (")[0]}"')


def plan_of(one: Candidate, table: BlendTable, *, timed: bool) -> ExpertPlan:
    """Forecast an expert on its columns, or say why the table is none for it."""
    observations = columns_of(table.observations, one.columns)
    schema = table.schema if one.columns is None else table.schema.taken(one.columns)
    told = _objection(one, observations, schema)
    if told is not None:
        return ExpertPlan(one.label, reason=told)
    features = table.features if one.expert.uses_features else {}
    try:
        plan: Any = one.expert.forecast(observations, schema, timed=timed, **features)
    except ValueError as err:
        return ExpertPlan(one.label, reason=str(err))
    if plan is None:
        return ExpertPlan(one.label)
    if not plan.fits:
        return ExpertPlan(one.label, reason=f"it needs {in_words(plan.memory)}, more than is free")
    return ExpertPlan(one.label, plan.memory, getattr(plan, "saved", 0), getattr(plan, "seconds", None))


def _objection(one: Candidate, observations: Observations, schema: ColumnSchema) -> str | None:
    if one.columns is not None and not one.columns.size:
        return "it takes no kind of column that this table has"
    if not len(observations):
        return "no cell of the columns that it takes is known"
    return one.expert.objection(observations, schema)
