"""Memory of a fit against the memory that is free, for forecasts of every engine."""

from __future__ import annotations

import math

from snapimpute.base.machine import VARIABLE, in_words


class MemoryForecast:
    """Compares the bytes of a fit, counted by part, with those that are free.

    Attributes
    ----------
    shape : (int, int)
    parts : dict of int
        Bytes at the peak, by part, without the observations.
    available : int or None
        Bytes that are free; None if unknown.
    """

    shape: tuple[int, int]
    parts: dict[str, int]
    available: int | None

    @property
    def memory(self) -> int:
        """Bytes at the peak, without the observations, which are there already."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """False if that is more than the free memory."""
        return self.available is None or self.memory <= self.available

    def _need(self) -> str:
        """Tell the memory, and how much is free."""
        free = "" if self.available is None else f" of {in_words(self.available)} free"
        return f"about {in_words(self.memory)}{free}"

    def _refuse(self, what: str, advice: str) -> None:
        """Raise a MemoryError for a fit that does not fit, with the largest parts, and what to do about it."""
        if self.fits or self.available is None:
            return
        largest = sorted(self.parts.items(), key=lambda part: -part[1])[:2]
        parts = " and ".join(f"{name} {in_words(size)}" for name, size in largest)
        raise MemoryError(
            f"{what} needs about {in_words(self.memory)} more memory than it has now ({parts}), and "
            f'{in_words(self.available)} are free: {advice}, or set {VARIABLE}="{math.ceil(self.memory / 2**30)}GiB" '
            f"if more is free"
        )
