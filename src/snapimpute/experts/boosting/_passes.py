"""Compiled passes of boosted trees: bins, gradients, histograms, splits, and ways down a tree."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from snapimpute.base.compiled import kernel

MISSING = 255
"""Bin of NaN."""

_exact: Any = numba.njit(nogil=True, error_model="numpy", cache=True)  # fast rounding would not know NaN


# ---------------------------------------------------------------- bins
@_exact
def put_in_bins(X, edges, bins, begin, end):
    """Number of edges below each value; `MISSING` for NaN. Edges are padded with infinity to 255."""
    for i in range(begin, end):
        for f in range(X.shape[1]):
            x, low = X[i, f], 0
            for step in (128, 64, 32, 16, 8, 4, 2, 1):
                low += step if edges[f, low + step - 1] < x else 0
            bins[i, f] = MISSING if np.isnan(x) else low


# ---------------------------------------------------------------- gradients
@kernel
def logistic(scores, codes, weights, out, begin, end):
    """Gradient and curvature of the log loss for two symbols, by the log-odds of the second."""
    for i in range(begin, end):
        p = 1.0 / (1.0 + np.exp(-min(max(scores[0, i], -40.0), 40.0)))
        out[0, i, 0] = weights[i] * (p - (codes[i] == 1))
        out[0, i, 1] = weights[i] * p * (1.0 - p)


@kernel
def softmax(scores, codes, weights, out, begin, end):
    """Gradient and curvature of the log loss, by the scores of all symbols."""
    symbols = scores.shape[0]
    for i in range(begin, end):
        top = scores[0, i]
        for k in range(1, symbols):
            top = max(top, scores[k, i])
        total = 0.0
        for k in range(symbols):
            out[k, i, 0] = np.exp(scores[k, i] - top)
            total += out[k, i, 0]
        for k in range(symbols):
            p = out[k, i, 0] / total
            out[k, i, 0] = weights[i] * (p - (codes[i] == k))
            out[k, i, 1] = weights[i] * p * (1.0 - p)


# ---------------------------------------------------------------- growth
@kernel
def count(bins, cells, slopes, out, first, last):
    """Sum gradient, curvature and number of the cells by bin, for the features from first to last."""
    out[first:last] = 0.0
    for at in range(cells.size):
        i = cells[at]
        slope, bend = slopes[i, 0], slopes[i, 1]
        for f in range(first, last):
            b = bins[i, f]
            out[f, b, 0] += slope
            out[f, b, 1] += bend
            out[f, b, 2] += 1.0


@kernel
def best_split(sums, total, least, l2):
    """Return gain, feature, last bin on the left, and 1 if NaN goes left; the gain is 0 if nothing can be won."""
    slope, bend, size = total[0], total[1], total[2]
    whole = slope * slope / (bend + l2)
    best, feature, split, shift = 0.0, -1, 0, 0
    for f in range(sums.shape[0]):
        lost = sums[f, MISSING]
        for left in range(2 if lost[2] > 0 else 1):
            a, b, c = left * lost[0], left * lost[1], left * lost[2]
            for at in range(MISSING):
                here = sums[f, at, 2]
                a, b, c = a + sums[f, at, 0], b + sums[f, at, 1], c + here
                if size - c < least:
                    break
                if here == 0 or c < least:
                    continue
                u, v = slope - a, bend - b
                gain = a * a / (b + l2) + u * u / (v + l2) - whole
                if gain > best:
                    best, feature, split, shift = gain, f, at, left
    return best, feature, split, shift


@kernel
def part(bins, cells, room, feature, split, shift):
    """Move the cells that go left before the others, both in their order; return how many go left."""
    left = right = 0
    for at in range(cells.size):
        i = cells[at]
        goes = np.uint8(bins[i, feature] + np.uint8(shift)) > np.uint8(split + shift)
        cells[left] = i
        room[right] = i
        left += 1 - int(goes)
        right += int(goes)
    cells[left:] = room[:right]
    return left


@kernel
def add_value(scores, cells, value):
    """Add the value of a leaf to its cells."""
    for at in range(cells.size):
        scores[cells[at]] += value


# ---------------------------------------------------------------- ways down a tree
@kernel
def add_tree(bins, cells, features, splits, shifts, kids, values, depth, scores):
    """Add what one tree says of some cells."""
    for at in range(cells.size):
        i, node = cells[at], 0
        for _ in range(depth):
            right = np.uint8(bins[i, features[node]] + shifts[node]) > splits[node]
            node = kids[node, np.int64(right)]
        scores[i] += values[node]


@kernel
def packed(features, splits, shifts, kids):
    """A word for each node: the feature, the last bin on the left, the shift, and both kids."""
    out = np.empty(features.size, np.uint64)
    for node in range(features.size):
        what = features[node] | splits[node] << 16 | shifts[node] << 24
        out[node] = np.uint64(what | kids[node, 0] << 32 | kids[node, 1] << 48)
    return out


@kernel
def add_trees(bins, words, values, starts, depths, scores, begin, end):
    """Add what the trees say of the cells from begin to end; trees take turns with the rows of scores."""
    lanes, low = scores.shape[0], np.uint64(0xFFFF)
    for tree in range(depths.size):
        root, lane, depth = starts[tree], tree % lanes, depths[tree]
        for i in range(begin, end):
            node = np.uint64(0)
            for _ in range(depth):
                word = words[root + np.int64(node)]
                mine = np.uint8(bins[i, np.int64(word & low)] + np.uint8(word >> np.uint64(24)))
                right = mine > np.uint8(word >> np.uint64(16))
                node = (word >> np.uint64(48 if right else 32)) & low
            scores[lane, i] += values[root + np.int64(node)]
