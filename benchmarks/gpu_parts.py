"""The file of `benchmarks/gpu.py`: every part with where and when it was measured, parts of other runs kept."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from snapimpute.base.files import write_atomically

Rows = list[dict[str, Any]]
Parts = dict[str, Callable[[], Iterator[Rows]]]

UNFINISHED = " (unfinished)"
"""After the name of a part that was stopped, with what it had by then; one that was finished before stays, too."""


def measure(parts: Parts, names: list[str], path: Path, about: dict[str, Any]) -> list[str]:
    """Run parts and keep what they find after every row; the names of those that failed.

    Parameters
    ----------
    parts : dict
        Functions that yield all rows so far, again and again.
    names : list of str
        Which to run.
    path : Path
        Of the JSON, to which they are added.
    about : dict
        What is written beside each.
    """
    failed = []
    for name in names:
        rows: Rows = []
        try:
            for rows in parts[name]():
                keep(path, name + UNFINISHED, {**about, "rows": rows})
        except Exception:  # the others are worth having
            traceback.print_exc()
            failed.append(name)
        else:
            keep(path, name, {**about, "rows": rows})
    return failed


def keep(path: Path, name: str, part: dict[str, Any]) -> None:
    """Write one part to the file, in place of an earlier one of that name and of an unfinished one."""
    found = json.loads(path.read_text()) if path.exists() else {}
    found.pop(name + UNFINISHED, None)
    found[name] = part
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(found, indent=1).encode())


def made(part: dict[str, Any]) -> str:
    """Place and time of a measurement, in words."""
    when = f", on {part['date']}" if "date" in part else ""
    return (
        f"`{part['command'].strip()}` on one {part['device']} ({part['memory GB']:.0f} GB) "
        f"with torch {part['torch']} and triton {part['triton']}{when}"
    )
