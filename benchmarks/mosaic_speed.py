"""Speed of the mosaic's passes in nanoseconds, and minutes and memory of a large table beside their forecast.

`mosaic.py` runs both as its parts speed and large. The large table is fitted in a
process of its own, by two threads, after everything is compiled: memory is the peak
above what the process has before the fit. The forecast is of a quiet machine, so CPU
seconds over threads are held against it: a busy machine adds to the clock only.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import snapimpute as si
from common import blas_speed, in_process, peak_mib
from snapimpute.base.threads import one_thread
from snapimpute.mosaic._chain import Chain
from snapimpute.mosaic._classes import PairClasses
from snapimpute.mosaic._panel import Line, Panel

PAIRS_LIMIT, FILL_LIMIT, WITHIN = 1.5, 0.7, 0.25
"""Nanoseconds at most, and the part by which a forecast may be off."""

TIMED, RUNS = (160, 600), 7
"""Rows and columns of the table whose passes are timed, and how often: the least counts."""

CLASSES, STRANDS = (8, 12, 20), (178, 2000)
LARGE, THREADS = (2000, 20_000), 2
FORWARD, FORWARD_DIAGONAL, BACKWARD, BACKWARD_DIAGONAL = 11, 10, 24, 16
"""Additions and multiplications of a pair x > y in `_pairs._forward` and `_expectation._backward`; those of x = y."""


def compile_everything() -> None:
    """Fit toys, so that the compiler's time and memory do not count."""
    two, one = (si.datasets.mosaic_genotypes((24, 40), founders=4, strands=each) for each in (2, 1))
    for order, rounds in (("given", 2), ("found", 2), (None, 0)):
        for data, strands in ((two, 2), (two, 1), (one, 1)):
            model = si.Mosaic(order=order, strands=strands, rounds=rounds, starts=1, classes=4)
            model.fit(data.observations, data.alphabet).proba([0], [0])


def kept(value: float, limit: float) -> str:
    return f"{limit:g} {'kept' if value <= limit else 'MISSED'}"


# -------------------------------------------------------------------- nanoseconds
def least(work: Callable[[], object]) -> float:
    """Least CPU seconds of several runs after one to warm up."""
    work()
    seconds = []
    for _ in range(RUNS):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def random_panel(shape: tuple[int, int]) -> tuple[Panel, Any]:
    """Rows of two random strands, half of the cells known; and the strands."""
    (m, n), rng = shape, np.random.default_rng(0)
    strands = rng.integers(0, 2, (2 * m, n), np.uint8)
    symbols = np.where(rng.random(shape) < 0.5, strands[0::2] + strands[1::2], 255).astype(np.uint8)
    return Panel(symbols, np.full(n, 3), Line.of(np.arange(n))), strands


def operations(classes: int) -> int:
    """Floating-point operations of a cell in an iteration: forward twice, backward once; those by class left out."""
    off, diagonal = classes * (classes - 1) // 2, classes
    return off * (2 * FORWARD + BACKWARD) + diagonal * (2 * FORWARD_DIAGONAL + BACKWARD_DIAGONAL)


def pair_passes() -> list[dict[str, Any]]:
    """Nanoseconds of an iteration with two strands, for a cell and each of K² pairs."""
    (panel, _), out, product = random_panel(TIMED), [], blas_speed("float32", 2048) / 1e9
    cells = TIMED[0] * TIMED[1]
    for count in CLASSES:
        classes, answers = PairClasses.begin(panel, count, 0), panel.answers(3)
        seconds = least(lambda classes=classes, answers=answers: classes.step(panel, answers))
        cost = seconds / cells / count**2 * 1e9
        row = {"what": "pairs", "size": count, "ns": round(cost, 3), "limit ns": kept(cost, PAIRS_LIMIT)}
        row |= {"GFLOP/s": round(operations(count) * cells / seconds / 1e9, 1), "SGEMM GFLOP/s": round(product, 1)}
        out.append(row)
        print(row, flush=True)
    return out


def filling() -> list[dict[str, Any]]:
    """Nanoseconds of answering, for a cell and each strand copied from; the row's own two strands are in a cell."""
    out = []
    for count in STRANDS:
        panel, strands = random_panel((count // 2, TIMED[1]))
        chain, answers = Chain(panel, PairClasses.begin(panel, 20, 0), strands), panel.answers(3)
        seconds = least(lambda chain=chain, answers=answers: chain.fill(answers))
        cost = seconds / panel.symbols.size / count * 1e9
        out.append({"what": "filling", "size": count, "ns": round(cost, 3), "limit ns": kept(cost, FILL_LIMIT)})
        print(out[-1], flush=True)
    return out


def speed() -> list[dict[str, Any]]:
    with one_thread():
        return [*pair_passes(), *filling()]


# -------------------------------------------------------------------- a large table
def note(words: object) -> None:
    """Tell how far the run is; the last line that this process prints is its result."""
    print(words, file=sys.stderr, flush=True)


def forget_peak() -> float | None:
    """Give free memory back, and let the peak begin anew; MiB that are left, None where the system cannot do that."""
    try:
        ctypes.CDLL(None).malloc_trim(0)  # the fit would take what the making of the table has left
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except (OSError, AttributeError):
        return None
    return peak_mib()


def one_large(shape: tuple[int, int]) -> dict[str, Any]:
    """Fit a large table, and compare with the forecast before it."""
    compile_everything()
    observations = si.datasets.mosaic_genotypes(shape, founders=200, jump=0.002, observed=0.9).observations
    model = si.Mosaic(order="given", strands=2)
    forecast = model.forecast(observations, "0,1,2")
    note(forecast)
    before, cpu, clock = forget_peak(), time.process_time(), time.perf_counter()
    fit = model.fit(observations, "0,1,2", callback=note, progress=note)
    wall, cpu = time.perf_counter() - clock, time.process_time() - cpu
    mib = None if before is None else peak_mib() - before
    note(fit.status)
    seconds, expected = forecast.seconds, forecast.memory / 2**20
    return {
        "rows": shape[0],
        "columns": shape[1],
        "threads": THREADS,
        "chosen": str(fit.settings),
        "steps": len(fit.history),
        "steps planned": fit.settings.starts * (fit.settings.iterations + fit.settings.rounds),
        "wall minutes": wall / 60,
        "CPU minutes": cpu / 60,
        "forecast minutes": seconds / 60,
        "MiB": mib,
        "forecast MiB": expected,
        "seconds ratio": cpu / THREADS / seconds,
        "memory ratio": None if mib is None else mib / expected,
    }


def large() -> list[dict[str, Any]]:
    before = os.environ.get("SNAPIMPUTE_NUM_THREADS", "1")
    os.environ["SNAPIMPUTE_NUM_THREADS"] = str(THREADS)
    try:
        row = in_process("mosaic_speed.py", json.dumps(LARGE))
    finally:
        os.environ["SNAPIMPUTE_NUM_THREADS"] = before
    for key in ("seconds", "memory"):
        if (ratio := row[f"{key} ratio"]) is not None:
            row[f"limit {key} ratio"] = kept(abs(ratio - 1), WITHIN)
    print(row, flush=True)
    return [row]


if __name__ == "__main__":
    rows, columns = json.loads(sys.argv[1])
    print(json.dumps(one_large((rows, columns))))
