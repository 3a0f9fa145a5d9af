"""What pytest has to know before it collects the examples of the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Modules of a backend whose library is not installed have no examples to run."""
    if collection_path.parent.name != "backends":
        return None
    needs = {("arrays", "maps", "torch"): ["torch"], ("fused", "gather"): ["torch", "triton"]}
    lost = [
        library
        for names, libraries in needs.items()
        if collection_path.name.startswith(names)
        for library in libraries
        if importlib.util.find_spec(library) is None
    ]
    return True if lost else None
