"""Cells that trees are taught on: all of the rare symbols, a sample of the common ones, each told by the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from snapimpute.base.clock import Clock
from snapimpute.data.answers import LEAST
from snapimpute.experts.boosting import BoostedTrees
from snapimpute.experts.links._square import Cells, Square
from snapimpute.experts.links.features import Found, PathFeatures


@dataclass(frozen=True, eq=False)
class Lesson:
    """Known cells that trees are taught on.

    Attributes
    ----------
    features : array of shape (cells, features)
        From the cells of other folds.
    codes, folds : array of int
        Symbol of each cell, and the fold that it was held out with.
    weights : array of shape (symbols,)
        Known cells for each one that is taught, by symbol. Trees are taught without weights, and the logarithms are
        added to their scores: heavy cells would be learnt by heart, and chances elsewhere come out too large.
    """

    features: Found
    codes: Cells
    folds: Cells
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, square: Square, folds: int, most: int, seed: int, clock: Clock) -> Lesson:
        """Hide each fold in turn, and take the features of its cells from the others.

        Folds after the first are left out when the time is over.
        """
        rng = np.random.default_rng(seed)
        fold = dealt(square.codes, folds, rng)
        picked, weights = sampled(square.codes, square.symbols, most, rng)
        cells: list[Cells] = []
        found: list[Found] = []
        for number in range(folds):
            if found and clock.over:
                break
            kept = fold != number
            some = picked[fold[picked] == number]
            paths = PathFeatures(square.take(kept), float(kept.mean()) or 1.0)
            found.append(paths.at(square.rows[some], square.cols[some]))
            cells.append(some)
        taught = np.concatenate(cells)
        return cls(np.concatenate(found), square.codes[taught], fold[taught], weights)

    def held(self, number: int) -> Cells:
        """Positions of the cells of one fold."""
        return np.flatnonzero(self.folds == number)

    def losses(self, trees: BoostedTrees, some: Cells) -> tuple[float, float]:
        """Log loss of some cells by trees and by the frequencies of the symbols, as in the whole table."""
        if not some.size:
            return float("nan"), float("nan")
        codes, heavy = self.codes[some], self.weights[self.codes[some]]
        counts = np.bincount(self.codes, minlength=self.weights.size) * self.weights
        plain = (counts / counts.sum())[codes]
        found = chances(trees, self.features[some], self.weights)[np.arange(codes.size), codes]
        ours, theirs = (-np.log(np.maximum(p, LEAST)) @ heavy / heavy.sum() for p in (found, plain))
        return float(ours), float(theirs)


def chances(trees: BoostedTrees, features: Found, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of symbols by trees that were taught on a sample of the cells."""
    out: NDArray[np.float64] = softmax(trees.logits(features) + np.log(weights), axis=1)
    return out


def dealt(codes: Cells, folds: int, rng: np.random.Generator) -> Cells:
    """Deal cells to folds, so that all folds have about as many cells of each symbol."""
    out = np.empty(codes.size, np.int64)
    out[np.lexsort((rng.random(codes.size), codes))] = np.arange(codes.size) % folds
    return out


def sampled(codes: Cells, symbols: int, most: int, rng: np.random.Generator) -> tuple[Cells, NDArray[np.float64]]:
    """Pick at most so many cells, the rare symbols first; return them, and how many cells one of each symbol is."""
    counts = np.bincount(codes, minlength=symbols)
    picked, weights, left = [], np.ones(symbols), most
    for place, symbol in enumerate(np.argsort(counts, kind="stable")):
        size = min(int(counts[symbol]), left // (symbols - place))
        if size:
            picked.append(rng.permutation(np.flatnonzero(codes == symbol))[:size])
            weights[symbol] = counts[symbol] / size
            left -= size
    return np.sort(np.concatenate(picked)), weights
