"""Functions for whole tasks take what the estimator takes."""

from __future__ import annotations

import inspect
from typing import get_type_hints

from snapimpute.estimator import imputer as imputer_module
from snapimpute.estimator import shortcuts
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.estimator.shortcuts import ImputerParameters, complete


def test_complete_takes_the_parameters_of_the_estimator():
    """Every keyword of `SnapImputer` is one of `complete`, with the same type; the others are those of `fit`."""
    wanted = inspect.signature(SnapImputer).parameters
    keywords = [name for name, one in wanted.items() if one.kind is inspect.Parameter.KEYWORD_ONLY]
    hints = get_type_hints(SnapImputer.__init__, vars(imputer_module))
    assert list(ImputerParameters.__annotations__) == keywords
    assert get_type_hints(ImputerParameters, vars(shortcuts)) == {name: hints[name] for name in keywords}
    mine = inspect.signature(complete).parameters
    named = [name for name, one in mine.items() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    assert named == ["X", "alphabet", "row_features", "column_features", "square"]
    assert mine["alphabet"].default is wanted["alphabet"].default
    assert mine["params"].annotation == "Unpack[ImputerParameters]"
