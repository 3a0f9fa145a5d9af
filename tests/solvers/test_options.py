"""The options of a fit are checked once, where they are made."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import get_type_hints

import pytest

import snapimpute as si
from snapimpute.solvers import FitOptions
from snapimpute.solvers.options import DEFAULT, TUNING, FitKeywords


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_iter": 0}, "max_iter must be a whole number, at least 1, got 0"),
        ({"max_iter": 1.5}, "max_iter must be a whole number, at least 1, got 1.5"),
        ({"evaluate_every": 0}, "evaluate_every must be a whole number, at least 1, got 0"),
        ({"max_rank": 0}, "max_rank must be a whole number, at least 1 or None, got 0"),
        ({"tol": -1.0}, "tol must be at least 0, got -1.0"),
        ({"tol": float("nan")}, "tol must be at least 0, got nan"),
        ({"alphabet_term": "both"}, "alphabet_term must be one of 'tiled', 'sampled', 'auto', got 'both'"),
        ({"alphabet_term": ""}, "alphabet_term must be one of 'tiled', 'sampled', 'auto', got ''"),
        ({"max_rank": 1.5}, "max_rank must be a whole number, at least 1 or None, got 1.5"),
        ({"dtype": "float16"}, "dtype must be one of 'float64', 'float32', got 'float16'"),
        ({"random_state": -1}, "random_state must be a whole number, at least 0, got -1"),
    ],
)
def test_wrong_options_are_refused_when_they_are_made(wrong, message):
    """The error names the option, what it may be, and what was given."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        FitOptions(**wrong)


def test_solve_takes_every_option_by_keyword():
    """The public function has each option with the default that `FitOptions` has, and nothing in between is lost."""
    parameters = inspect.signature(si.solve).parameters
    assert {one.name: one.default for one in fields(FitOptions)} == {
        name: parameters[name].default for name in (one.name for one in fields(FitOptions))
    }
    assert FitOptions() == DEFAULT


def test_keywords_are_the_fields():
    """Functions that take options by keyword take every one of them, of the same type."""
    assert get_type_hints(FitKeywords) == get_type_hints(FitOptions)


def test_coarse_options_are_no_more_exact_than_a_score():
    """At most 60 iterations and a tolerance of at least 1e-3; all else stays."""
    asked = FitOptions(max_iter=300, tol=1e-5, max_rank=4, dtype="float32", random_state=3)
    assert asked.coarse() == FitOptions(max_iter=60, tol=1e-3, max_rank=4, dtype="float32", random_state=3)
    assert FitOptions(max_iter=5, tol=0.1).coarse() == FitOptions(max_iter=5, tol=0.1)
    assert TUNING.coarse() == TUNING
