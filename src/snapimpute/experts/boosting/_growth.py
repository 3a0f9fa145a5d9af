"""Growth of one tree: the leaf whose split wins most is split first, and the smaller half is counted anew."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.threads import cut, run_parts, thread_count
from snapimpute.base.types import Array
from snapimpute.experts.boosting import _passes

Cells = NDArray[np.int32]
Bins = NDArray[np.uint8]


class Split(NamedTuple):
    """Gain, feature, last bin on the left, and 1 if NaN goes left."""

    gain: float
    feature: int
    last: int
    shift: int


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes of one tree: what `BoostedTrees` keeps, with the children counted from its root."""

    features: NDArray[np.int32]
    splits: NDArray[np.uint8]
    shifts: NDArray[np.uint8]
    kids: NDArray[np.int32]
    values: NDArray[np.float64]
    depth: int


@dataclass(eq=False)
class _Leaf:
    """A leaf that may be split: its node, its cells, and its sums by feature and bin."""

    node: int
    depth: int
    cells: Cells
    sums: Array
    total: Array
    split: Split


@dataclass(frozen=True)
class Growth:
    """Limits of a tree.

    Attributes
    ----------
    leaves, least : int
        Leaves at most, and cells in each of them at least.
    rate : float
        Share of the best value that each leaf adds.
    l2 : float
        Added to the curvature of each leaf.
    """

    leaves: int = 15
    least: int = 20
    rate: float = 0.08
    l2: float = 1.0

    def tree(self, bins: Bins, cells: Cells, slopes: Array, scores: Array) -> Tree:
        """Grow a tree on some cells, and add its values to their scores.

        Parameters
        ----------
        bins : array of shape (cells, features)
        cells : array
            Positions in ascending order; they come back in the order of the leaves.
        slopes : array of shape (cells, 2)
            Gradient and curvature of the loss at each cell.
        scores : array
        """
        nodes, room = _Nodes(), np.empty_like(cells)
        sums = _counted(bins, cells, slopes)
        open_leaves = [self._leaf(nodes.add(), 0, cells, sums)]
        done: list[_Leaf] = []
        while open_leaves:
            leaf = max(open_leaves, key=lambda one: one.split.gain)  # the first of equals
            if leaf.split.gain <= 0 or len(open_leaves) + len(done) >= self.leaves:
                break
            open_leaves.remove(leaf)
            open_leaves += self._halves(leaf, nodes, bins, slopes, room)
        for leaf in open_leaves:
            value = -self.rate * leaf.total[0] / (leaf.total[1] + self.l2)
            nodes.values[leaf.node] = float(value)
            _passes.add_value(scores, leaf.cells, float(value))
        return nodes.tree(max(leaf.depth for leaf in open_leaves))

    def _leaf(self, node: int, depth: int, cells: Cells, sums: Array) -> _Leaf:
        total = sums[0].sum(axis=0) if sums.size else np.zeros(3)
        return _Leaf(node, depth, cells, sums, total, Split(*_passes.best_split(sums, total, self.least, self.l2)))

    def _halves(self, leaf: _Leaf, nodes: _Nodes, bins: Bins, slopes: Array, room: Cells) -> list[_Leaf]:
        """Split a leaf; the sums of the larger half are what the smaller one leaves."""
        split = leaf.split
        middle = _passes.part(bins, leaf.cells, room, split.feature, split.last, split.shift)
        halves = leaf.cells[:middle], leaf.cells[middle:]
        small = int(halves[1].size < halves[0].size)
        few = _counted(bins, halves[small], slopes)
        many = np.subtract(leaf.sums, few, out=leaf.sums)
        ends = [nodes.add(), nodes.add()]
        nodes.split(leaf.node, split, ends)
        both = (few, many) if small == 0 else (many, few)
        return [self._leaf(ends[i], leaf.depth + 1, halves[i], both[i]) for i in range(2)]


def _counted(bins: Bins, cells: Cells, slopes: Array) -> Array:
    """Sums by feature and bin: threads share the features, so that each sum has one order."""
    features = bins.shape[1]
    out = np.empty((features, 256, 3))
    step = max(math.ceil(features / thread_count()), 1)
    run_parts(
        lambda first, last: _passes.count(bins, cells, slopes, out, first, last),
        cut(features, step),
        operations=3.0 * cells.size * features,
    )
    return out


class _Nodes:
    """Nodes of a tree while it grows; a leaf leads to itself."""

    def __init__(self) -> None:
        self.features: list[int] = []
        self.splits: list[int] = []
        self.shifts: list[int] = []
        self.kids: list[list[int]] = []
        self.values: list[float] = []

    def add(self) -> int:
        node = len(self.values)
        self.features.append(0)
        self.splits.append(_passes.MISSING)
        self.shifts.append(0)
        self.kids.append([node, node])
        self.values.append(0.0)
        return node

    def split(self, node: int, split: Split, ends: list[int]) -> None:
        self.features[node], self.splits[node] = split.feature, split.last + split.shift
        self.shifts[node], self.kids[node] = split.shift, ends

    def tree(self, depth: int) -> Tree:
        return Tree(
            np.array(self.features, np.int32),
            np.array(self.splits, np.uint8),
            np.array(self.shifts, np.uint8),
            np.array(self.kids, np.int32),
            np.array(self.values),
            depth,
        )
