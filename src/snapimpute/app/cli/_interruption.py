"""Ctrl-C when there is a result already: it is written first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from snapimpute.app.cli._terminal import Terminal


@dataclass
class Seen:
    """True after a Ctrl-C."""

    interrupted: bool = False


@contextmanager
def seeing_through(terminal: Terminal) -> Iterator[Seen]:
    """Keep the first Ctrl-C in mind, so that a result that is there is written; the second ends it as usual."""
    seen, usual = Seen(), signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield seen  # somebody else looks after it, or nobody is to
        return

    def keep_in_mind(number: int, frame: Any) -> None:
        seen.interrupted = True
        signal.signal(signal.SIGINT, usual)
        terminal.warn("interrupted: what there is will be written; Ctrl-C again stops that")

    signal.signal(signal.SIGINT, keep_in_mind)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, usual)
