"""Forecast of a mosaic: memory, seconds and the size of a saved fit, before anything is computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from snapimpute.base.forecasts import MemoryForecast
from snapimpute.base.machine import available_memory, in_words, seconds_in_words
from snapimpute.base.threads import one_thread, thread_count
from snapimpute.base.vectors import LANES
from snapimpute.mosaic._chain import COPIED, NEAR, PHASED_BY, Chain
from snapimpute.mosaic._classes import PARTS, Classes, PairClasses, SingleClasses, block_of
from snapimpute.mosaic._pairs import MISSING, pairs
from snapimpute.mosaic._panel import Line, Panel, Table
from snapimpute.mosaic._run import KEPT, KEPT_BYTES
from snapimpute.mosaic._settings import Settings

PIECE_ROWS, PIECE_COLUMNS = 64, 512
"""Rows and columns of the piece that is timed."""

PRODUCT = 5e10
"""Operations a second of a product of float32 matrices, about, on one thread of two."""

RUNS = 3
"""Runs of a piece, the fastest of which counts."""


@dataclass(frozen=True)
class MosaicForecast(MemoryForecast):
    """Memory, time and size in a file that a fit will need.

    Attributes
    ----------
    shape : (int, int)
    settings : Settings
        Those that need most, of all that may be chosen.
    parts : dict of int
        Bytes at the peak, by part; ``memory`` is their sum, without the observations.
    saved : int
        Bytes of the fit in a file, about, without the observations.
    available : int or None
        Bytes that are free; None if unknown.
    seconds : float or None
        Seconds on a quiet machine, if all steps are made; None if not timed.
    """

    shape: tuple[int, int]
    settings: Settings
    parts: dict[str, int]
    saved: int
    available: int | None
    seconds: float | None = None

    @classmethod
    def of(
        cls, table: Table, settings: Settings, trials: tuple[Table, list[Settings]], *, timed: bool
    ) -> MosaicForecast:
        """Forecast a fit, with the short runs before it."""
        parts = memory_of(table, settings)
        saved = parts["answers"] // 3 + parts["draws"]
        m, n = table.symbols.shape
        seconds = None
        if timed:
            piece, short = trials
            seconds = seconds_of(table, settings) + sum(seconds_of(piece, one) for one in short)
        return cls((m, n), settings, parts, saved, available_memory(), seconds)

    def __str__(self) -> str:
        m, n = self.shape
        one = self.settings
        steps = (
            f"{one.starts} start{'s' * (one.starts != 1)}, each {one.iterations} iterations of {one.classes} classes"
        )
        steps += f" and {one.rounds} rounds of copying" if one.rounds else ""
        time_ = "" if self.seconds is None else f": up to about {seconds_in_words(self.seconds)}"
        lines = [f"{m:,}×{n:,}: {self._need()}", f"{steps}{time_}"]
        return "\n".join([*lines, f"a saved fit: {in_words(self.saved)}"])

    def check(self) -> None:
        """Refuse a fit that does not fit into memory, in a sentence."""
        m, n = self.shape
        advice = "fit groups of columns one by one, or on a larger machine"
        self._refuse(f"the mosaic of {m:,}×{n:,}", advice)


def memory_of(table: Table, settings: Settings) -> dict[str, int]:
    """Count the bytes at the peak, by part."""
    (m, n), threads = table.symbols.shape, thread_count()
    hidden = int((table.symbols == MISSING).sum())
    symbols = 3 if settings.strands == 2 else int(table.levels.max(initial=2))
    strands, block = settings.strands * m, block_of(n)
    classes = max(settings.classes, PHASED_BY if settings.rounds else 1)
    numbers = (pairs(classes) + classes) * LANES if settings.strands == 2 else 2 * classes * n
    passes = 4 * numbers * (block + n // block + 4) * threads if settings.strands == 2 else 4 * numbers * threads
    counts = 4 * n * classes * (3 if settings.strands == 2 else symbols + 1)
    copied = strands if strands <= COPIED else NEAR * threads
    made = settings.starts * (settings.rounds - settings.skipped)
    kept = min(KEPT, made, max(KEPT_BYTES // max(strands * n // 8, 1), 1)) if settings.rounds else 0
    return {
        "symbols": 3 * m * n,
        "answers": 4 * hidden * (3 * (symbols - 1) + 2),
        "passes": passes + (PARTS + 2) * counts + 2 * counts,
        "strands": 5 * strands * n * (settings.rounds > 0),
        "copying": (n * copied * 9 // 8 + 16 * 2**20 * threads) * (settings.rounds > 0),
        "draws": kept * strands * n // 8,
    }


def seconds_of(table: Table, settings: Settings) -> float:
    """Estimate the seconds of all steps, by those of a piece on one thread."""
    (m, n), threads = table.symbols.shape, thread_count()
    rows, columns = min(m, PIECE_ROWS), min(n, PIECE_COLUMNS)
    symbols = np.tile(table.symbols[:rows, :columns], (-(-rows // rows), 1))
    panel = Panel(np.ascontiguousarray(symbols), table.levels[:columns], Line.of(np.arange(columns)))
    kind: type[Classes] = PairClasses if settings.strands == 2 else SingleClasses
    with one_thread():
        classes = kind.begin(panel, settings.classes, 0)
        answers = panel.answers(3 if settings.strands == 2 else panel.most)
        improve = quiet_seconds(lambda: classes.step(panel, answers))
        cells = m * n / (rows * columns)
        total = settings.starts * settings.iterations * improve * cells
        if settings.rounds:
            total += settings.starts * _copying_seconds(table, settings, panel, classes, cells)
    return float(total / min(threads, max(m // LANES, 1)))


def _copying_seconds(table: Table, settings: Settings, panel: Panel, classes: Classes, cells: float) -> float:
    """Estimate the seconds of the rounds from one start."""
    (m, n), rng = table.symbols.shape, np.random.default_rng(0)
    strands = settings.strands * m
    copied = min(strands, COPIED) if strands <= COPIED else NEAR
    pool = rng.integers(0, 2, (max(copied, PHASED_BY + 2), panel.shape[1])).astype(np.uint8)
    chain = Chain.begin(panel, classes, 0, pool)
    answers = panel.answers(3 if settings.strands == 2 else panel.most)
    fill = quiet_seconds(lambda: chain.fill(answers)) * cells
    if settings.strands == 1:
        return float(settings.rounds * 2 * fill)
    few = replace(chain, pool=pool[: PHASED_BY + 2])
    alike = 2.0 * strands**2 * n / PRODUCT
    return float(settings.rounds * (quiet_seconds(lambda: few.round(0)) * cells + fill + alike))


def quiet_seconds(work: Callable[[], object]) -> float:
    """Time the fastest of some runs after one that compiles, without the time that other processes take."""
    work()
    times = []
    for _ in range(RUNS):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)
