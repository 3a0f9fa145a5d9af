"""Bins of features: values that are frequent have one each, the others share the rest evenly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array
from snapimpute.experts.boosting import _passes
from snapimpute.experts.boosting._growth import Bins

EDGES = 254
"""Edges between the bins of a feature, at most."""

SAMPLE = 200_000
"""Cells from which edges are found."""

BLOCK = 4096
"""Cells of a part of the work."""


def edges_of(X: Array) -> NDArray[np.float64]:
    """Return the values between the bins of each feature, then infinity."""
    out = np.full((X.shape[1], EDGES + 1), np.inf)
    some = X[:: max(-(-X.shape[0] // SAMPLE), 1)].astype(np.float64)
    for f in range(X.shape[1]):
        levels = _levels(some[np.isfinite(some[:, f]), f])
        out[f, : max(levels.size - 1, 0)] = (levels[1:] + levels[:-1]) / 2
    return out


def _levels(values: Array) -> Array:
    """Return values that get a bin each: all of them, or those that are frequent and quantiles of the others."""
    levels, counts = np.unique(values, return_counts=True)
    if levels.size <= EDGES + 1:
        return levels
    often = counts > values.size / EDGES
    others = np.repeat(levels[~often], counts[~often])
    at = np.linspace(0, others.size - 1, EDGES + 1 - int(often.sum())).round().astype(np.intp)
    return np.unique(np.concatenate([levels[often], others[at]]))


def binned(X: Array, edges: NDArray[np.float64]) -> Bins:
    """Return the bin of each value."""
    out = np.empty(X.shape, np.uint8)
    in_parts(partial(_passes.put_in_bins, X, edges, out), X.shape[0], 20.0 * X.shape[1])
    return out


def in_parts(work: Callable[[int, int], Any], cells: int, each: float) -> None:
    """Share the cells among the threads; each takes so many operations."""
    run_parts(work, cut(cells, BLOCK), operations=each * cells)
