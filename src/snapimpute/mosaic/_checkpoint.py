"""Checkpoints of a mosaic: the settings that were chosen, and everything that its run goes on from."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from snapimpute.base.clock import Clock
from snapimpute.base.files import stored
from snapimpute.mosaic._choice import Trial
from snapimpute.mosaic._run import Run, RunState
from snapimpute.mosaic._settings import Settings
from snapimpute.mosaic.fit import FILE_KINDS
from snapimpute.solvers.checkpoint import Checkpoint, SnapshotFile, digests
from snapimpute.solvers.serialise import known_by_name


@stored("mosaic snapshot", "settings", "tried", "run")
@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run between two steps."""

    settings: Settings
    tried: tuple[Trial, ...]
    run: RunState


class RunFile:
    """Loads and saves a run; ``parts`` is everything that its answers depend on, by name."""

    def __init__(self, given: Checkpoint | str | os.PathLike[str], parts: Mapping[str, Any]) -> None:
        known = known_by_name((*FILE_KINDS, RunState, Snapshot))
        self._file = SnapshotFile(Checkpoint.of(given), digests(parts), known, Snapshot)

    def load(self) -> Snapshot | None:
        """Read the saved run, or None if there is no file; a file of another table or model is refused."""
        return self._file.load()

    def begin(self, run: Run, settings: Settings, tried: tuple[Trial, ...], clock: Clock) -> None:
        """Take in the run that is saved from now on."""
        self._run, self._settings, self._tried, self._clock = run, settings, tried, clock

    def keep_if_due(self) -> None:
        """Save if it is time to."""
        if self._file.due():
            self.keep()

    def keep(self) -> None:
        """Save the run, if it is between two steps. It is worth more than its checkpoint, and goes on without."""
        if not self._run.whole:
            return
        self._run.state.spent = self._clock.seconds
        try:
            self._file.save(Snapshot(self._settings, self._tried, self._run.state))
        except (OSError, TypeError, ValueError) as err:
            warnings.warn(f"the checkpoint {self._file.path} could not be written: {err}", stacklevel=4)
