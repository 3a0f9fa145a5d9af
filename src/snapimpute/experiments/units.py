"""Long studies in small units: what is finished is kept in a folder, and a study broken off goes on from there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from snapimpute.files import write_atomically

S = TypeVar("S")
Unit = tuple[str, float, int]
"""Data, share of the entries known, seed."""


class Job(NamedTuple):
    """A unit and where its scores go."""

    run: Callable[[str, float, int], Iterable[Any]]
    unit: Unit
    file: Path

    def work(self) -> None:
        """Run the unit and write its scores."""
        rows = [asdict(score) for score in self.run(*self.unit)]
        write_atomically(self.file, json.dumps(rows, indent=1).encode())


def collect(
    run: Callable[[str, float, int], Iterable[S]],
    kind: type[S],
    units: Iterable[Unit],
    folder: Path,
    each: Callable[[Sequence[Job]], None],
) -> list[S]:
    """Hand the units that are not in the folder yet to ``each``, which works them off; return the scores of all."""
    jobs = [Job(run, unit, folder / f"{unit[0]}-{100 * unit[1]:g}-{unit[2]}.json") for unit in units]
    each([job for job in jobs if not job.file.exists()])
    return [kind(**row) for job in jobs for row in json.loads(job.file.read_text(encoding="utf-8"))]
