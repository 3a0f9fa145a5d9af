"""Result of a solver run: the matrix, the status and the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.display import html_of_result
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.linalg import LowRank
from snapimpute.problem import ObjectiveName, Problem


@stored("status", "code", "message", "advice")
@dataclass(frozen=True)
class Status:
    """Reason why a run ended, and what to do about it.

    ``code`` is one of "converged", "max_iter", "stopped", "interrupted" and
    "diverged".
    """

    code: str
    message: str
    advice: str = ""

    @property
    def converged(self) -> bool:
        """True if the stopping rule was met."""
        return self.code == "converged"

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


@dataclass(frozen=True, eq=False)
class Result:
    """Outcome of `solve`.

    Attributes
    ----------
    x : LowRank
        The completed matrix without offsets, X = U diag(s) Vᵀ.
    offsets : LowRank or None
        B; the estimate of the data is X + B, which `entries` gives.
    status : Status
    history : dict of arrays
        One row per iteration: iteration, seconds (of the solver alone),
        objective, fit, spectral, discrete, certificate, rank, and columns that a
        callback recorded.
    objective_name : {"E", "P", "C"}
        Objective that the history reports; "C" is ‖X‖_* under the constraint
        P_Ω(X) = P_Ω(O), whose violation the column "fit" shows.
    settings : dict
        Settings of the run: solver and the reason for it, penalties, limits, seed.
    extras : dict
        Results of some solvers besides x; see there.
    row : int
        Row of the history that belongs to x: the last one, unless the run broke off.
    """

    x: LowRank
    offsets: LowRank | None
    status: Status
    history: dict[str, NDArray[Any]]
    objective_name: ObjectiveName
    settings: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)
    row: int = -1

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return int(self.history["iteration"].size)

    @property
    def objective(self) -> float:
        """Objective at x; NaN if it was never evaluated."""
        return float(self.history["objective"][self.row]) if self.n_iter else float("nan")

    @property
    def estimate(self) -> LowRank:
        """X + B."""
        return self.x if self.offsets is None else LowRank.combine([1.0, 1.0], [self.x, self.offsets])

    def entries(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Estimate the data at the given cells: X + B, not snapped to any alphabet."""
        out = self.x.entries(rows, cols)
        return out if self.offsets is None else out + self.offsets.entries(rows, cols)

    def __repr__(self) -> str:
        final = "" if np.isnan(self.objective) else f", {self.objective_name} = {self.objective:.8g}"
        return f"Result({self.x!r}, {self.n_iter} iterations{final}, {self.status.code})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        return html_of_result(self)


class History:
    """Rows with possibly different keys, returned as columns."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one array per key; NaN where a row lacks it."""
        keys = list(dict.fromkeys(k for k in (*BASE_KEYS, *(k for row in self.rows for k in row))))
        return {k: np.array([row.get(k, np.nan) for row in self.rows]) for k in keys}


BASE_KEYS = ("iteration", "seconds", "objective", "fit", "spectral", "discrete", "certificate", "rank")


@dataclass(frozen=True, eq=False)
class Info:
    """Argument of a callback after each iteration; `record` adds columns to the history.

    ``x`` lives where the solver computes; ``x.moved(None)`` is a copy in numpy's memory.
    """

    iteration: int
    x: LowRank
    problem: Problem
    row: dict[str, Any]

    @property
    def objective(self) -> float:
        """Objective at x; NaN where it is not evaluated."""
        return float(self.row.get("objective", np.nan))

    def record(self, metrics: Mapping[str, float] | None = None, **more: float) -> None:
        """Add columns to this iteration's row of the history."""
        for key, value in {**(metrics or {}), **more}.items():
            if key in BASE_KEYS:
                raise ValueError(f"{key!r} is a column of the history itself: record the metric under another name")
            self.row[key] = value
