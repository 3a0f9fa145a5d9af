"""Collection: fixtures that all tests share, and modules of backends that cannot be collected here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

pytest_plugins = ["tests.fixtures"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the examples of a backend whose library is not installed."""
    if collection_path.parts[-3:-1] != ("backends", "torch"):
        return None
    needs = ["torch", "triton"] if collection_path.name.startswith(("_fused", "_gather")) else ["torch"]
    return True if any(importlib.util.find_spec(library) is None for library in needs) else None
