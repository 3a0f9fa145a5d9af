"""The strands that are most like others, in windows along the columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.types import Array

WINDOW = 4096
"""Columns of a window, about: within it a row copies from the same strands."""

CONTEXT = 0.5
"""Weight of the windows before and after."""

PIECE = 1024
"""Columns that are compared at a time."""

ROWS = 256
"""Rows that are compared at a time."""


def nearest(
    strands: NDArray[np.uint8],
    pool: NDArray[np.uint8],
    count: int,
    *,
    own: bool,
    each: int,
    key: int,
    first: int = 0,
) -> NDArray[np.int64]:
    """Return the strands of a pool that are nearest to those of each row, shape (windows, rows, count).

    Rows with two strands get half of them by the first and half by the second. A strand that
    stays in the next window keeps its place. Equally near ones are taken in an order that follows from the ``key``.

    Parameters
    ----------
    strands, pool : array of uint8
    count : int
    own : bool
        True if the strands are those of the pool from ``each`` × ``first`` on: a row does not take its own.
    each : int
        Strands of a row.
    key : int
    first : int
    """
    rows, columns = strands.shape[0] // each, strands.shape[1]
    windows = max(round(columns / WINDOW), 1)
    width, ties = -(-columns // windows), np.random.default_rng(key).random(pool.shape[0], np.float32)
    windows = -(-columns // width)
    out = np.empty((windows, rows, count), np.int64)
    for start in range(0, rows, ROWS):
        stop = min(start + ROWS, rows)
        some = strands[each * start : each * stop]
        alike = [_alike(some[:, at : at + width], pool[:, at : at + width]) for at in range(0, columns, width)]
        for w in range(windows):
            score = alike[w] + ties
            for other in (w - 1, w + 1):
                if 0 <= other < windows:
                    score += np.float32(CONTEXT) * alike[other]
            if own:
                at = np.arange(start, stop)
                for a in range(each):
                    for b in range(each):
                        score[a::each][at - start, each * (first + at) + b] = -np.inf
            found = _halves(score, count, each)
            out[w, start:stop] = found if w == 0 else _in_place(out[w - 1, start:stop], found)
    return out


def _alike(some: NDArray[np.uint8], pool: NDArray[np.uint8]) -> Array:
    """Count the columns in which strands are alike."""
    total = np.zeros((some.shape[0], pool.shape[0]), np.float32)
    levels = int(max(some.max(initial=0), pool.max(initial=0))) + 1
    for start in range(0, some.shape[1], PIECE):
        a, b = some[:, start : start + PIECE], pool[:, start : start + PIECE]
        if levels <= 2:
            total += (a.astype(np.float32) - 0.5) @ (2 * b.astype(np.float32) - 1).T
            continue
        for s in range(levels):
            total += (a == s).astype(np.float32) @ (b == s).astype(np.float32).T
    return total


def _halves(score: Array, count: int, each: int) -> NDArray[np.int64]:
    """Return the places of the highest scores of each row: half of them by its first strand, half by its second."""
    if each == 1:
        return np.argpartition(-score, count - 1, axis=1)[:, :count]
    half = count // 2
    found = np.argpartition(-score[0::2], half - 1, axis=1)[:, :half]
    others = score[1::2].copy()
    np.put_along_axis(others, found, -np.inf, axis=1)
    rest = np.argpartition(-others, count - half - 1, axis=1)[:, : count - half]
    return np.concatenate([found, rest], axis=1)


def _in_place(before: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give strands that were there before their old places."""
    out = before.copy()
    for row in range(before.shape[0]):
        stays = np.isin(before[row], found[row])
        out[row, ~stays] = found[row][~np.isin(found[row], before[row])]
    return out
