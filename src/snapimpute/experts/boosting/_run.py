"""A run of boosting: its checked input, and round after round of trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax

from snapimpute.base.clock import Clock
from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Array
from snapimpute.experts.boosting import _passes
from snapimpute.experts.boosting._growth import Cells, Growth, Tree
from snapimpute.experts.boosting.bins import binned, edges_of, in_parts


# ---------------------------------------------------------------- input
@dataclass(frozen=True, eq=False)
class Task:
    """Checked input of a fit."""

    X: Array
    codes: NDArray[np.int64]
    symbols: int
    start: Array | None
    weights: Array

    @classmethod
    def of(
        cls, X: ArrayLike, y: ArrayLike, start: ArrayLike | None, symbols: int | None, weights: ArrayLike | None
    ) -> Task:
        table, codes = as_table(X), np.asarray(y)
        cells = table.shape[0]
        if codes.shape != (cells,) or codes.dtype.kind not in "iu" or not cells:
            raise ValueError(f"y must hold the symbol of each of the {cells} cells, as a whole number")
        if symbols is None:
            symbols = int(codes.max()) + 1 if start is None else np.asarray(start).shape[-1]
        symbols = max(symbols, 2)
        if codes.min() < 0 or codes.max() >= symbols:
            raise ValueError(f"y must lie between 0 and {symbols - 1}, got {codes.min()} to {codes.max()}")
        heavy = np.ones(cells) if weights is None else np.asarray(weights, dtype=np.float64)
        if heavy.shape != (cells,) or not (heavy >= 0).all():
            raise ValueError(f"weights must be {cells} numbers, none below 0")
        origin = None if start is None else as_start(start, cells, symbols)
        return cls(table, codes.astype(np.int64), symbols, origin, heavy)


def as_table(X: ArrayLike) -> Array:
    table = np.asarray(X)
    table = np.ascontiguousarray(table, dtype=np.float32 if table.dtype == np.float32 else np.float64)
    if table.ndim != 2:
        raise ValueError(f"X must have one row a cell and one column a feature, got shape {table.shape}")
    return table


def as_start(start: ArrayLike, cells: int, symbols: int) -> Array:
    out = np.asarray(start, dtype=np.float64)
    if out.shape != (cells, symbols) or not np.isfinite(out).all():
        raise ValueError(f"start must hold finite log-probabilities of shape ({cells}, {symbols}), got {out.shape}")
    return out


def held_out(validation: float | ArrayLike | None, cells: int, seed: int) -> Cells:
    """Positions of the validation part."""
    if validation is None:
        return np.zeros(0, np.int32)
    if isinstance(validation, float | int):
        if not 0 <= validation < 1:
            raise ArgumentError.must("validation", validation, "be a share below 1, positions of cells, or None")
        drawn = np.random.default_rng(seed).permutation(cells)[: round(validation * cells)]
        return np.sort(drawn).astype(np.int32)
    return np.unique(np.asarray(validation, dtype=np.int32))


def lanes_of(symbols: int) -> int:
    """Trees of a round."""
    return 1 if symbols == 2 else symbols


# ---------------------------------------------------------------- rounds
class Run:
    """Rounds of boosting: scores of the cells, and the trees so far."""

    def __init__(self, task: Task, held: Cells, growth: Growth) -> None:
        self.task, self.held, self.growth = task, held, growth
        size = task.codes.size
        self.taught = np.setdiff1d(np.arange(size, dtype=np.int32), held)
        if not self.taught.size:
            raise ValueError("no cell is left to fit to: take a smaller validation part")
        self.baseline = self._frequencies() if task.start is None else None
        origin = np.tile(self._frequencies(), (size, 1)) if task.start is None else task.start
        both = origin[:, 1:] - origin[:, :1] if task.symbols == 2 else origin
        self.scores = np.ascontiguousarray(both.T, dtype=np.float64)
        self.edges = edges_of(task.X[self.taught])
        self.bins = binned(task.X, self.edges)
        self.slopes = np.empty((*self.scores.shape, 2))
        self.trees: list[Tree] = []
        self.losses: list[float] = [self._loss()]

    def boosted(self, rounds: int, patience: int, clock: Clock) -> str:
        """Make rounds until none is left, none wins anything, or the time is over; return the reason."""
        for made in range(1, rounds + 1):
            if clock.over:
                return "time"
            self._round()
            self.losses.append(self._loss())
            if made - int(np.argmin(self.losses)) >= patience:
                return "early"
        return "rounds"

    def nodes(self) -> dict[str, NDArray[Any]]:
        """Return the fields of `BoostedTrees` that hold its nodes: all trees up to the best round, one by one."""
        best = int(np.argmin(self.losses)) if self.held.size else len(self.losses) - 1
        trees = self.trees[: best * len(self.scores)]
        sizes = np.array([tree.values.size for tree in trees], np.int64)
        starts = np.cumsum(sizes) - sizes
        empty = {
            "features": np.zeros(0, np.int32),
            "splits": np.zeros(0, np.uint8),
            "shifts": np.zeros(0, np.uint8),
            "kids": np.zeros((0, 2), np.int32),
            "values": np.zeros(0),
        }
        out = {name: np.concatenate([none, *(getattr(tree, name) for tree in trees)]) for name, none in empty.items()}
        return out | {"starts": starts, "depths": np.array([tree.depth for tree in trees], np.int64)}

    def _round(self) -> None:
        task, lanes = self.task, len(self.scores)
        passed = _passes.logistic if lanes == 1 else _passes.softmax
        slopes = partial(passed, self.scores, task.codes, task.weights, self.slopes)
        in_parts(slopes, task.codes.size, 30.0 * lanes)
        for lane in range(lanes):
            cells = self.taught.copy()
            tree = self.growth.tree(self.bins, cells, self.slopes[lane], self.scores[lane])
            self.trees.append(tree)
            if self.held.size:
                _passes.add_tree(
                    self.bins, self.held, tree.features, tree.splits, tree.shifts, tree.kids, tree.values,
                    tree.depth, self.scores[lane],
                )  # fmt: skip

    def _frequencies(self) -> Array:
        """Log-probabilities of the symbols among the cells that are fitted to."""
        task = self.task
        counts = np.bincount(task.codes[self.taught], task.weights[self.taught], task.symbols)
        out: Array = np.log((counts + 1e-3) / (counts.sum() + 1e-3 * task.symbols))
        return out

    def _loss(self) -> float:
        """Log loss of the validation part; 0 without one."""
        if not self.held.size:
            return 0.0
        scores, codes, weights = self.scores[:, self.held], self.task.codes[self.held], self.task.weights[self.held]
        if len(scores) == 1:
            each = np.logaddexp(0.0, np.where(codes == 1, -scores[0], scores[0]))
        else:
            each = -log_softmax(scores, axis=0)[codes, np.arange(codes.size)]
        return float(each @ weights / max(weights.sum(), 1e-300))
