"""Boosted trees that start from given log-probabilities, and that files can hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from snapimpute.base.clock import Clock
from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.experts.boosting import _passes
from snapimpute.experts.boosting._growth import Growth
from snapimpute.experts.boosting._run import Run, Task, as_start, as_table, held_out, lanes_of
from snapimpute.experts.boosting.bins import binned, in_parts

MOST_LEAVES = 10_000
"""Leaves of a tree at most: nodes are counted in two bytes."""


@stored(
    "boosted trees",
    *("symbols", "edges", "features", "splits", "shifts", "kids", "values", "starts", "depths", "baseline"),
    *("losses", "ended"),
)
@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Boosted trees for symbols of cells, by features of the cells.

    Attributes
    ----------
    symbols : int
    edges : array of shape (features, 255)
        Values between the bins of each feature, then infinity.
    features, splits, shifts, kids, values : array
        Nodes: feature, last bin that goes left, 1 if bins count from NaN on, the two next nodes counted from the
        root, and the score of a leaf. A leaf leads to itself.
    starts, depths : array of int
        Root and depth of each tree. With two symbols each round has one tree, for the log-odds of the second;
        else one for each symbol.
    baseline : array or None
        Log-probabilities where no start was given; None if one was.
    losses : array
        Log loss of the validation part before the first round and after each.
    ended : {"rounds", "early", "time"}
        Reason for the end: all rounds made, no more to win on the validation part, or the time was over.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> trees = BoostedTrees.fit(X, (X[:, 0] > 0).astype(int), rounds=20)
    >>> trees.proba([[2.0, 0, 0], [-2.0, 0, 0]]).round(1)
    array([[0.1, 0.9],
           [0.9, 0.1]])
    """

    symbols: int
    edges: NDArray[np.float64] = field(repr=False)
    features: NDArray[np.int32] = field(repr=False)
    splits: NDArray[np.uint8] = field(repr=False)
    shifts: NDArray[np.uint8] = field(repr=False)
    kids: NDArray[np.int32] = field(repr=False)
    values: NDArray[np.float64] = field(repr=False)
    starts: NDArray[np.int64] = field(repr=False)
    depths: NDArray[np.int64] = field(repr=False)
    baseline: Array | None = None
    losses: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    ended: str = "rounds"

    @classmethod
    def fit(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        start: ArrayLike | None = None,
        *,
        symbols: int | None = None,
        weights: ArrayLike | None = None,
        rounds: int = 300,
        learning_rate: float = 0.08,
        leaves: int = 15,
        least: int = 20,
        l2: float = 1.0,
        validation: float | ArrayLike | None = 0.1,
        patience: int = 20,
        seed: int = 0,
        clock: Clock | None = None,
    ) -> BoostedTrees:
        """Fit to cells whose symbols are known.

        Parameters
        ----------
        X : array of shape (cells, features)
            NaN where a feature is not known.
        y : array of int
            Positions of the symbols in their alphabet.
        start : array of shape (cells, symbols), optional
            Log-probabilities that the trees correct; the frequencies of the symbols if not given.
        symbols : int, optional
            Size of the alphabet; from the start or from ``y`` if not given.
        weights : array of float, optional
            Number of cells that each one stands for.
        rounds : int
            Rounds at most.
        learning_rate : float
        leaves, least : int
            Leaves of a tree at most, and cells in each at least.
        l2 : float
            Added to the curvature of each leaf.
        validation : float, array of int or None
            Share of the cells, or their positions, on which the number of rounds is chosen; None makes all rounds.
        patience : int
            Rounds without a smaller log loss there, after which the fit ends.
        seed : int
            For the choice of the validation part.
        clock : Clock, optional
            The fit ends when its time is over, and keeps the trees so far.
        """
        if not 2 <= leaves <= MOST_LEAVES:
            raise ArgumentError.must("leaves", leaves, f"be between 2 and {MOST_LEAVES}")
        task = Task.of(X, y, start, symbols, weights)
        held = held_out(validation, task.codes.size, seed)
        growth = Growth(leaves, least, learning_rate, l2)
        run = Run(task, held, growth)
        ended = run.boosted(rounds, patience if held.size else rounds, clock or Clock())
        losses = np.array(run.losses) if held.size else np.zeros(0)
        return cls(task.symbols, run.edges, **run.nodes(), baseline=run.baseline, losses=losses, ended=ended)

    @property
    def rounds(self) -> int:
        """Number of rounds that were kept."""
        return int(self.depths.size // lanes_of(self.symbols))

    def logits(self, X: ArrayLike, start: ArrayLike | None = None) -> Array:
        """Return the log-probabilities of cells up to a constant for each: their start, corrected by the trees.

        Parameters
        ----------
        X : array of shape (cells, features)
        start : array of shape (cells, symbols), optional
            Needed where the fit had one.
        """
        table = as_table(X)
        if table.shape[1] != self.edges.shape[0]:
            raise ValueError(f"X has {table.shape[1]} features, the trees {self.edges.shape[0]}: give the same ones")
        if (start is None) != (self.baseline is not None):
            told = "began from log-probabilities: give start" if start is None else "began without any: drop start"
            raise ValueError(f"the trees {told}")
        origin = self.baseline if start is None else as_start(start, table.shape[0], self.symbols)
        bins = binned(table, self.edges)
        scores = np.zeros((lanes_of(self.symbols), table.shape[0]))
        words = _passes.packed(self.features, self.splits, self.shifts, self.kids)
        work = partial(_passes.add_trees, bins, words, self.values, self.starts, self.depths, scores)
        in_parts(work, table.shape[0], 10.0 * self.depths.size)
        out = np.array(np.broadcast_to(np.asarray(origin), (table.shape[0], self.symbols)))
        out[:, -scores.shape[0] :] += scores.T
        return out

    def proba(self, X: ArrayLike, start: ArrayLike | None = None) -> Array:
        """Return the probabilities of the symbols, one row a cell.

        Parameters
        ----------
        X, start
            As in `logits`.
        """
        out: Array = softmax(self.logits(X, start), axis=1)
        return out


BOOSTING_KINDS: tuple[type, ...] = (BoostedTrees,)
"""Classes that stand in files."""
