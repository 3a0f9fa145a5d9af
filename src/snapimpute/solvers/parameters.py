"""Checks of hyperparameters and of the limits of a run, each with one clear error."""

from __future__ import annotations

import math
from numbers import Integral

from snapimpute.base.errors import ArgumentError


def check_count(name: str, value: object, *, least: int = 1, otherwise: str = "") -> None:
    """Raise unless the value is a whole number, at least ``least``."""
    if not (isinstance(value, Integral) and int(value) >= least):
        raise ArgumentError.must(name, value, f"be a whole number, at least {least}{otherwise}")


def check_open(name: str, value: float, high: float) -> None:
    """Raise unless 0 < value < high."""
    if not 0 < value < high:
        raise ArgumentError.must(name, value, f"lie between 0 and {high:g} (both excluded)")


def check_positive(name: str, value: float, *, otherwise: str = "") -> None:
    """Raise unless the value is finite and above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ArgumentError.must(name, value, f"be a finite number above 0{otherwise}")
