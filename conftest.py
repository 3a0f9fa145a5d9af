"""Collection: fixtures that all tests share, and modules of backends that cannot be collected here."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

pytest_plugins = ["tests.fixtures"]

ALL_SLOW = re.compile(r"^pytestmark = .*(?:\n    .*)*pytest\.mark\.slow", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the examples of a backend whose library is not installed, and modules that are slow as a whole.

    The latter only where no slow test is run: to import them takes as long as many quick tests.
    """
    if collection_path.name.startswith("test_") and "not slow" in config.option.markexpr:
        return True if ALL_SLOW.search(collection_path.read_text(encoding="utf-8")) else None
    if collection_path.parts[-3:-1] != ("backends", "torch"):
        return None
    needs = ["torch", "triton"] if collection_path.name.startswith(("_fused", "_gather")) else ["torch"]
    return True if any(importlib.util.find_spec(library) is None for library in needs) else None
