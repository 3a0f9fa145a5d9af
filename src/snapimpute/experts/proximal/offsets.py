"""Offsets: everything subtracted from a table before a matrix of low rank models the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np

from snapimpute.data.holdout import folds_of, has_labels
from snapimpute.data.observations import Observations
from snapimpute.evaluation.baselines import ConstantMean, DampedBiases, alternated
from snapimpute.linalg import LowRank
from snapimpute.linalg.backend import COLUMNS, ROWS, backend_of

Center = Literal["mean", "rows", "columns", "biases"] | None
CENTERS: tuple[Center, ...] = get_args(Literal["mean", "rows", "columns", "biases"])
Damping = tuple[float, float]
DAMPING: Damping = (5.0, 5.0)
DAMPINGS = (1.0, 2.0, 5.0, 12.0, 30.0)
"""Dampings of the biases of rows and columns: the default, and those that `best_damping` tries."""

HELD_OUT = 0.2
"""Share of the observed cells that tuning and calibration hold out."""

MIN_OBSERVED = 10
"""Least number of observed cells; with fewer, nothing is held out and nothing is tuned."""


INNER = 1_000_003
"""Added to the seed, so that other cells are held out than those that a blend leaves out of the fit."""


class KnownCells:
    """Known cells of a table with their mean, biases, offsets and splits, each computed once, when first needed.

    Examples
    --------
    >>> cells = KnownCells(Observations.from_dense([[1, 3], [3, 5], [2, np.nan]]))
    >>> cells.split(0.4, seed=0)[0] is cells.split(0.4, seed=0)[0]
    True
    >>> cells.offsets("mean").entries([2], [1])
    array([2.8])
    """

    def __init__(self, observations: Observations) -> None:
        self.observations = observations
        self._mean: float | None = None
        self._biases: dict[Damping, DampedBiases] = {}
        self._offsets: dict[tuple[Center, Damping], LowRank] = {}
        self._folds: dict[tuple[float, int | None, int], list[Fold]] = {}

    @classmethod
    def of(cls, cells: Observations | KnownCells) -> KnownCells:
        """Return known cells as they are, or observations as known cells."""
        return cells if isinstance(cells, KnownCells) else cls(cells)

    @property
    def too_few(self) -> bool:
        """True for a single row or column, and for so few cells that none are held out."""
        return len(self.observations) < MIN_OBSERVED or min(self.observations.shape) == 1

    def split(self, share: float = HELD_OUT, *, seed: int = 0) -> Fold:
        """Return (kept, held out)."""
        return self.folds(share, seed=seed)[0]

    def folds(self, share: float = HELD_OUT, cv: int | None = None, *, seed: int = 0) -> list[Fold]:
        """Return pairs (kept, held out): one split, or ``cv`` of them that hold out every cell once."""
        key = (0.0 if cv is not None else share, cv, seed)
        if key not in self._folds:
            given = self.observations
            pairs: Iterable[tuple[Observations, Observations]]
            if has_labels(given) and backend_of(given.values) is None:
                # whatever the order of rows and columns, the same cells are held out
                pairs = folds_of(given, cv or 1, share if cv is None else 1 / cv, seed + INNER)
            elif cv is None:
                pairs = [given.split(share, random_state=seed)]
            else:
                pairs = given.kfold(cv, random_state=seed)
            self._folds[key] = [(KnownCells(kept), held) for kept, held in pairs]
        return self._folds[key]

    def forget_folds(self) -> None:
        """Let go of the splits, and of everything computed of them, to free their memory."""
        self._folds.clear()

    @property
    def mean(self) -> float:
        """Mean of the values."""
        if self._mean is None:
            self._mean = ConstantMean.fit(self.observations).mean
        return self._mean

    def biases(self, center: Center, damping: Damping = DAMPING) -> DampedBiases:
        """Return the biases of a centre; those of the mean are 0."""
        if center in (None, "mean"):
            m, n = self.observations.shape
            return DampedBiases(self.mean, np.zeros(m), np.zeros(n))
        rows, cols = dampings(center, damping)
        if (rows, cols) not in self._biases:
            self._biases[rows, cols] = DampedBiases.fit(self.observations, damping_rows=rows, damping_cols=cols)
        return self._biases[rows, cols]

    def offsets(self, center: Center, damping: Damping = DAMPING) -> LowRank | None:
        """Return B of a centre: nothing, the mean, or damped biases of rows, columns or both besides."""
        if center is None:
            return None
        key = center, dampings(center, damping)
        if key not in self._offsets:
            self._offsets[key] = self._made(center, damping)
        return self._offsets[key]

    def _made(self, center: Center, damping: Damping) -> LowRank:
        (m, n), backend = self.observations.shape, backend_of(self.observations.values)
        if center == "mean":
            if backend is None:
                return LowRank.constant((m, n), self.mean)
            left, right = (
                backend.full((side, 1), 1.0, np.float64, which) for side, which in ((m, ROWS), (n, COLUMNS))
            )
            return LowRank(left, np.array([self.mean]), right)
        if backend is not None:
            return spread_biases(self.observations, *dampings(center, damping))
        biases = self.biases(center, damping)
        left = np.column_stack([biases.mean + biases.row_biases, np.ones(m)])
        return LowRank(left, np.ones(2), np.column_stack([np.ones(n), biases.col_biases]))


Fold = tuple[KnownCells, Observations]
"""Cells that are kept, and those that are held out."""


def offsets(observations: Observations | KnownCells, center: Center, damping: Damping = DAMPING) -> LowRank | None:
    """Return B, the offsets of a centre; see `KnownCells.offsets`."""
    return KnownCells.of(observations).offsets(center, damping)


def spread_biases(
    observations: Any, damping_rows: float, damping_cols: float, *, max_sweeps: int = 20, tol: float = 1e-4
) -> LowRank:
    """Return μ + b_i + c_j of observations on a cluster, as a matrix of rank 2; see `DampedBiases`."""
    values, (m, n), backend = observations.values, observations.shape, observations.backend
    mean = values.mean()
    deviation = math.sqrt(max(float((values**2).sum()) / values.size - mean**2, 0.0))
    weights = observations.column_counts() + damping_cols
    weights = np.where(weights > 0, weights, 1.0)
    b, c = alternated(
        lambda b: observations.column_sums(mean, b) / weights,
        lambda c: observations.row_means(mean, c, damping_rows),
        (backend.full((m, 1), 0.0, np.float64, ROWS), np.zeros(n)),
        max_sweeps,
        tol * deviation,
    )
    ones = backend.full((m, 1), 1.0, np.float64, ROWS)
    return LowRank(np.hstack([b + mean, ones]), np.ones(2), np.column_stack([np.ones(n), c]))


def dampings(center: Center, damping: Damping) -> Damping:
    """Return the dampings of rows and columns, infinite for biases that a centre has not."""
    rows, cols = damping
    no_rows, no_cols = center in ("mean", "columns"), center in ("mean", "rows")
    return math.inf if no_rows else rows, math.inf if no_cols else cols


def best_damping(
    observations: Observations | KnownCells, center: Center, *, share: float = HELD_OUT, random_state: int = 0
) -> Damping:
    """Choose the dampings of `DAMPINGS` whose biases alone predict held-out cells best, of rows first."""
    if center in (None, "mean"):
        return DAMPING
    kept, held = KnownCells.of(observations).split(share, seed=random_state)

    def lost(damping: Damping) -> float:
        biases: Any = (kept.biases if backend_of(kept.observations.values) is None else kept.offsets)(center, damping)
        return float(np.mean((biases.entries(held.rows, held.cols) - held.values) ** 2))

    rows, cols = DAMPING
    if center != "columns":
        rows = min(DAMPINGS, key=lambda one: lost((one, cols)))
    if center != "rows":
        cols = min(DAMPINGS, key=lambda one: lost((rows, one)))
    return rows, cols
