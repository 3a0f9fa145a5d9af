"""A clock with a limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any


class Clock:
    """Seconds since it was made, and those left.

    Parameters
    ----------
    limit : float, optional
        Seconds after which the time is over.
    spent : float
        Seconds of an earlier run that this one goes on from; they count in `seconds` only.
    """

    def __init__(self, limit: float | None = None, spent: float = 0.0) -> None:
        self.begun, self.limit, self.spent = time.perf_counter(), math.inf if limit is None else float(limit), spent

    @property
    def here(self) -> float:
        """Seconds since the clock was made."""
        return time.perf_counter() - self.begun

    @property
    def seconds(self) -> float:
        """Seconds of the run, the earlier ones included."""
        return self.spent + self.here

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.limit - self.here

    @property
    def over(self) -> bool:
        """Tell whether the time is over."""
        return self.left <= 0

    def stopping(self, callback: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        """Return a callback that also asks for an end when the time is over; the same where there is no limit."""
        if math.isinf(self.limit):
            return callback
        return lambda step: bool(callback is not None and callback(step)) or self.over

    def interrupting(self, progress: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        """Return a progress function that interrupts when the time is over; the same where there is no limit."""
        if math.isinf(self.limit):
            return progress

        def told(one: Any) -> None:
            if progress is not None:
                progress(one)
            if self.over:
                raise KeyboardInterrupt("the time is over")

        return told

    def share(self, part: float) -> Clock:
        """Return a clock that ends when a part of the time left is over."""
        return Clock(None if math.isinf(self.limit) else max(part * self.left, 0.0))
