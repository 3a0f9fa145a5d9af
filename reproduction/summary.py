"""Means over seeds and their standard errors, as numbers and as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from snapimpute.base.types import Array


def standard_error(values: Sequence[float] | Array) -> float:
    """Standard error of the mean; NaN for a single value."""
    found = np.asarray(values)
    return float(found.std(ddof=1) / math.sqrt(found.size)) if found.size > 1 else math.nan


def in_words(mean: float, error: float, digits: int) -> str:
    """Mean ± standard error, if there is one.

    Examples
    --------
    >>> in_words(0.25, 0.05, 2), in_words(0.25, math.nan, 1)
    ('0.25 ± 0.05', '0.2')
    """
    return f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if math.isfinite(error) else "")


def mean_in_words(values: Sequence[float] | Array, digits: int) -> str:
    """The mean of some values with its standard error.

    Examples
    --------
    >>> mean_in_words([1.0, 2.0, 3.0], 2)
    '2.00 ± 0.58'
    """
    return in_words(float(np.mean(values)), standard_error(values), digits)
