"""Choice between models by short runs, scored on held-out cells."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence

import numpy as np

from snapimpute.base.clock import Clock
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.posterior.diagnostics import Candidate
from snapimpute.posterior.fit import PosteriorFit

logger = logging.getLogger("snapimpute")

SURE = 2.0
"""Standard errors by which another model must win."""

CHOOSING = 0.4
"""Share of the time that the short runs may take; those that are not made by then do not count."""

Model = tuple[str, str]
"""Covariance, and the side of the thresholds."""

ShortRun = Callable[[Model, Clock], "PosteriorFit | None"]
Progress = Callable[[Candidate], object]


def choose(
    models: Sequence[Model], short_run: ShortRun, held: Observations, clock: Clock, progress: Progress | None
) -> tuple[Model, tuple[Candidate, ...]]:
    """Return the best model, and all that were tried. The first is the usual one: others must win clearly.

    An interruption ends the choice, not the fit: the best so far is fitted, and another interruption ends that.
    """
    best, least, tried, part = models[0], None, list[Candidate](), clock.share(CHOOSING)
    try:
        for model in models:
            begun = part.here
            fit = short_run(model, part)
            if fit is None:
                break
            losses = held_out_losses(fit, held)
            error = float(losses.std() / math.sqrt(losses.size))
            tried.append(Candidate(*model, float(losses.mean()), error, part.here - begun))
            if least is None or _wins(least - losses):
                best, least = model, losses
            if progress is not None:
                progress(tried[-1])
    except KeyboardInterrupt:
        logger.warning("interrupted while choosing between models: the best so far is fitted")
    return best, tuple(tried)


def _wins(gain: Array) -> bool:
    return bool(gain.mean() > SURE * gain.std() / math.sqrt(gain.size))


def held_out_losses(fit: PosteriorFit, held: Observations) -> Array:
    """Return negative log-probabilities of the held-out symbols."""
    schema, found = fit.frame.schema, []
    for kind, alphabet in enumerate(schema.kinds):
        inside = schema.inside(kind, held.cols)
        rows, cols, values = held.rows[inside], held.cols[inside], held.values[inside]
        if alphabet is not None and values.size:
            p = fit.proba(rows, cols)[np.arange(values.size), alphabet.indices(values)]
            found.append(-np.log(np.maximum(p, 1e-12)))
    return np.concatenate(found) if found else np.zeros(1)
