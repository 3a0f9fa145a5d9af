"""Passes over the cells of a table some of whose columns are linked (see `_links`)."""

from __future__ import annotations

import numpy as np

from snapimpute.base.compiled import kernel
from snapimpute.base.vectors import LANES
from snapimpute.posterior._functions import below
from snapimpute.posterior._passes import draw_latent, most_cells


@kernel
def draw_latents(
    start, stop, start_of, item, symbol, levels, thresholds, factors, rater_root, item_root, eta, key, z
):
    """Draw the latent values of raters start … stop between their thresholds."""
    space = np.empty((4, most_cells(start_of, start, stop)), np.float32)
    given = start_of, item, symbol, levels, thresholds, factors, rater_root, item_root
    for first in range(start, stop, LANES):
        draw_latent(first, min(first + LANES, stop), *given, eta, key, space, z)


@kernel
def add_symbols_of(eta, size, factor, thresholds, out):
    """Add up P(symbol) over draws: one row of ``eta``, ``size``, ``factor`` and ``thresholds`` a draw."""
    draws, cells, top = thresholds.shape
    before = np.empty(cells, np.float32)
    for d in range(draws):
        before[:] = np.float32(0)
        for s in range(top):
            for k in range(cells):
                here = below(size[d, k] * (factor[d, k] * thresholds[d, k, s] - eta[d, k]))
                out[k, s] += here - before[k]
                before[k] = here
        for k in range(cells):
            out[k, top] += np.float32(1) - before[k]
