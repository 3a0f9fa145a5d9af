"""Checkpoints of a posterior: the model that was chosen, the state of each chain, the draws so far."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

from snapimpute.posterior._choice import Model
from snapimpute.posterior._row_means import RowMeans
from snapimpute.posterior._run import Run, RunState
from snapimpute.posterior._samplers import CovarianceState, LowRankState
from snapimpute.posterior.diagnostics import Candidate
from snapimpute.posterior.fit import POSTERIOR_KINDS
from snapimpute.solvers.checkpoint import Checkpoint, SnapshotFile, digests
from snapimpute.solvers.serialise import known_by_name


class RunFile:
    """Loads and saves a run; ``parts`` is everything that its draws depend on, by name."""

    def __init__(self, given: Checkpoint | str | os.PathLike[str], parts: Mapping[str, Any]) -> None:
        known = known_by_name((*POSTERIOR_KINDS, RunState, LowRankState, CovarianceState, RowMeans))
        self._file = SnapshotFile(Checkpoint.of(given), digests(parts), known, RunState)
        self._model: Model = ("", "")
        self._tried: tuple[Candidate, ...] = ()

    def load(self) -> RunState | None:
        """Read the saved run, or None if there is no file; a file of another table or model is refused."""
        return self._file.load()

    def begin(self, model: Model, tried: tuple[Candidate, ...]) -> None:
        """Take in what was chosen, which each file holds."""
        self._model, self._tried = model, tried

    def due(self) -> bool:
        """Tell whether it is time to save again."""
        return self._file.due()

    def keep(self, run: Run, seconds: float) -> None:
        """Save a run between two sweeps; the run is worth more than its checkpoint, and goes on if that fails."""
        try:
            self._file.save(run.state(self._model, seconds, self._tried))
        except (OSError, TypeError, ValueError) as err:
            warnings.warn(f"the checkpoint {self._file.path} could not be written: {err}", stacklevel=4)
