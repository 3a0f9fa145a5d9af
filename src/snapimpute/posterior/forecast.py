"""Forecast of a posterior: memory, seconds and the size of a saved fit, before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from snapimpute.base.machine import VARIABLE, available_memory, in_words, seconds_in_words
from snapimpute.posterior._workload import Case, seconds_of


@dataclass(frozen=True)
class PosteriorForecast:
    """Memory, time and size in a file that a fit will need.

    Attributes
    ----------
    shape : (int, int)
    cells : int
        Known ones.
    model : str
        The model that needs most of those that may be chosen.
    tried, sweeps : int
        Short runs that choose between models, and sweeps after that at most.
    parts : dict of int
        Bytes at the peak, by part; ``memory`` is their sum, without the observations.
    saved : int
        Bytes of the fit in a file.
    available : int or None
        Bytes that are free; None if unknown.
    seconds : float or None
        Seconds on a quiet machine, if all sweeps are made; None if not timed. A run ends before where
        more would win nothing.
    """

    shape: tuple[int, int]
    cells: int
    model: str
    tried: int
    sweeps: int
    parts: dict[str, int]
    saved: int
    available: int | None
    seconds: float | None = None

    @classmethod
    def of(cls, cases: Sequence[Case], tried: int, sweeps: int, short: int) -> PosteriorForecast:
        """Forecast a fit that chooses between models; time is measured if short runs have ``short`` sweeps."""
        largest = max(cases, key=lambda case: sum(case.memory().values()))
        tried = tried if tried > 1 else 0
        return cls(
            largest.shape,
            largest.cells,
            largest.words,
            tried,
            sweeps,
            largest.memory(),
            max(case.saved() for case in cases),
            available_memory(),
            seconds_of(cases, tried, short, sweeps) if short else None,
        )

    @property
    def memory(self) -> int:
        """Bytes at the peak, without the observations, which are there already."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """False if that is more than the free memory."""
        return self.available is None or self.memory <= self.available

    def __str__(self) -> str:
        (m, n), free = self.shape, "" if self.available is None else f" of {in_words(self.available)} free"
        runs = f", after {self.tried} short runs" if self.tried else ""
        lines = [
            f"{m:,}×{n:,}, {self.cells:,} known, {self.model}: about {in_words(self.memory)}{free}",
            f"at most {self.sweeps} sweeps{runs}"
            + ("" if self.seconds is None else f": up to about {seconds_in_words(self.seconds)}"),
            f"a saved fit: {in_words(self.saved)}",
        ]
        return "\n".join(lines)

    def check(self) -> None:
        """Refuse a fit that does not fit into memory, in a sentence."""
        if self.fits or self.available is None:
            return
        (m, n), largest = self.shape, sorted(self.parts.items(), key=lambda part: -part[1])[:2]
        parts = " and ".join(f"{name} {in_words(size)}" for name, size in largest)
        raise MemoryError(
            f"the posterior of {m:,}×{n:,} with {self.cells:,} known cells needs about {in_words(self.memory)} more "
            f"memory than it has now ({parts}), and {in_words(self.available)} are free: choose a smaller rank, "
            f'or a larger machine, or set {VARIABLE}="{math.ceil(self.memory / 2**30)}GiB" if more is free'
        )
