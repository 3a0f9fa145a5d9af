"""Long studies in small units: what is finished is kept in a folder, and a study broken off goes on from there.

A unit is one split of one set of data. Its file holds a score for each method,
with a fingerprint of how it was made; a score made otherwise is made anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from snapimpute.base.files import write_atomically

Unit = tuple[str, float, int]
"""Data, share of the entries observed, seed."""


class Scored(Protocol):
    """A dataclass that says which method it is of."""

    @property
    def method(self) -> str:
        """The name of the method."""


S = TypeVar("S", bound=Scored)
Run = Callable[[str, float, int, Sequence[str]], Iterable[Any]]


def fingerprint(*made_of: object) -> str:
    """A short code of everything that a score depends on besides the data."""
    return hashlib.sha256(repr(made_of).encode()).hexdigest()[:12]


class Job(NamedTuple):
    """The methods of a unit that are still to be run, and where their scores go."""

    run: Run
    unit: Unit
    methods: tuple[str, ...]
    file: Path
    prints: Mapping[str, str]

    def work(self) -> None:
        """Run the methods and write the score of each, as soon as it is there, beside those that are."""
        rows = _read(self.file)
        for score in self.run(*self.unit, self.methods):
            rows[score.method] = {"made by": self.prints[score.method], "score": asdict(score)}
            write_atomically(self.file, json.dumps(rows, indent=1).encode())

    def done(self) -> int:
        """Count the methods that have their score by now."""
        rows = _read(self.file)
        return sum(rows.get(method, {}).get("made by") == self.prints[method] for method in self.methods)


def collect(
    run: Run,
    kind: type[S],
    wanted: Mapping[Unit, Mapping[str, str]],
    folder: Path,
    each: Callable[[Sequence[Job]], None],
) -> list[S]:
    """Hand what is not in the folder yet to ``each``, which works it off; return the scores of all.

    Parameters
    ----------
    run : callable
        Gives the scores of some methods of a unit.
    kind : type
        Of the scores.
    wanted : mapping
        For each unit the methods wanted, and the fingerprint of each.
    folder : Path
    each : callable
        Calls ``work`` of every job that it is given.
    """
    jobs = []
    for unit, prints in wanted.items():
        file = folder / f"{unit[0]}-{100 * unit[1]:g}-{unit[2]}.json"
        rows = _read(file)
        missing = tuple(m for m, code in prints.items() if rows.get(m, {}).get("made by") != code)
        jobs.append(Job(run, unit, missing, file, dict(prints)))
    each([job for job in jobs if job.methods])
    found = [(method, _read(job.file)) for job in jobs for method in job.prints]
    return [kind(**rows[method]["score"]) for method, rows in found if method in rows]


def _read(file: Path) -> dict[str, Any]:
    rows: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return rows
