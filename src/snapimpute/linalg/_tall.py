"""Products of tall, narrow arrays, cut into bands of rows for the threads.

BLAS threads would compete with ours and with other programs, and the result would
depend on their number. Here it does not.
"""

from __future__ import annotations

import numpy as np

from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array
from snapimpute.linalg.backend import backend_of

BAND = 8192
"""Rows of a part."""


def times(tall: Array, small: Array) -> Array:
    """tall·small, where the first lives."""
    backend = backend_of(tall)
    if backend is not None:
        return backend.times(tall, small)
    if tall.shape[0] <= BAND:
        return tall @ small
    out = np.empty((tall.shape[0], small.shape[1]), np.result_type(tall, small))

    def work(start: int, stop: int) -> None:
        np.matmul(tall[start:stop], small, out=out[start:stop])

    run_parts(work, cut(tall.shape[0], BAND), 2.0 * tall.size * small.shape[1])
    return out


def inner(tall: Array, other: Array) -> Array:
    """tallᵀ·other, a sum over the bands; always in numpy's memory."""
    backend = backend_of(tall)
    if backend is not None:
        return backend.inner(tall, other)
    if tall.shape[0] <= BAND:
        return tall.T @ other

    def work(start: int, stop: int) -> Array:
        return tall[start:stop].T @ other[start:stop]

    first, *more = run_parts(work, cut(tall.shape[0], BAND), 2.0 * tall.size * other.shape[1])
    for part in more:
        first += part
    return first
