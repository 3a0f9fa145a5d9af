"""Forecast of a posterior: memory, seconds and the size of a saved fit, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from snapimpute.base.forecasts import MemoryForecast
from snapimpute.base.machine import available_memory, in_words, seconds_in_words
from snapimpute.posterior._workload import Case, seconds_of


@dataclass(frozen=True)
class PosteriorForecast(MemoryForecast):
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

    def __str__(self) -> str:
        m, n = self.shape
        runs = f", after {self.tried} short runs" if self.tried else ""
        lines = [
            f"{m:,}×{n:,}, {self.cells:,} known, {self.model}: {self._need()}",
            f"at most {self.sweeps} sweeps{runs}"
            + ("" if self.seconds is None else f": up to about {seconds_in_words(self.seconds)}"),
            f"a saved fit: {in_words(self.saved)}",
        ]
        return "\n".join(lines)

    def check(self) -> None:
        """Refuse a fit that does not fit into memory, in a sentence."""
        m, n = self.shape
        what = f"the posterior of {m:,}×{n:,} with {self.cells:,} known cells"
        self._refuse(what, "choose a smaller rank, or a larger machine")
