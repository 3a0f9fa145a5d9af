"""An order of the columns: whether the given one tells something, and how one is found."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from snapimpute.base.types import Array
from snapimpute.mosaic._pairs import MISSING

FEW = 4.0
"""Rows of doubt: an association on n rows counts √(n / (n + 4)) of what it is."""

SURE = 4.0
"""Standard errors by which neighbours must tell more of each other than random columns."""

RANDOM_PAIRS = 20_000
"""Random pairs of columns that neighbours are compared with, at most."""

NOISE, SOME = 0.06, 0.02
"""Standard deviation of the noise on associations, about, and the least association that gets any."""

LEAVES = 3000
"""Columns up to which all orders of the leaves of a tree are compared."""


def associations(symbols: NDArray[np.uint8], nominal: NDArray[np.bool_]) -> Array:
    """Return r² of all pairs of columns on the rows that know both, drawn to 0 where these are few.

    Categories without order have an indicator each; the largest r² of theirs counts.
    """
    features, whose = _features(symbols, nominal)
    r = _correlations(features)
    square: Array = r * r
    if features.shape[1] == symbols.shape[1]:
        return square
    starts = np.flatnonzero(np.diff(whose, prepend=-1))
    by_row = np.maximum.reduceat(square, starts, axis=0)
    out: Array = np.maximum.reduceat(by_row, starts, axis=1)
    return out


def _features(symbols: NDArray[np.uint8], nominal: NDArray[np.bool_]) -> tuple[Array, NDArray[np.int64]]:
    """Return one column of numbers for each ordered column, and one for each category of others; NaN is missing."""
    plain = np.where(symbols == MISSING, np.nan, symbols).astype(np.float32)
    if not nominal.any():
        return plain, np.arange(symbols.shape[1])
    parts, whose = [], []
    for j in range(symbols.shape[1]):
        own = plain[:, j]
        seen = np.unique(own[~np.isnan(own)]) if nominal[j] else np.zeros(0)
        if seen.size <= 2:
            parts.append(own)
            whose.append(j)
            continue
        for s in seen:
            parts.append(np.where(np.isnan(own), np.nan, own == s).astype(np.float32))
            whose.append(j)
    return np.stack(parts, axis=1), np.array(whose)


def _correlations(features: Array) -> Array:
    known = ~np.isnan(features)
    x, w = np.where(known, features, 0).astype(np.float32), known.astype(np.float32)
    means = x.sum(axis=0) / np.maximum(w.sum(axis=0), 1)
    x = np.where(known, x - means, 0).astype(np.float32)
    n, products, sums, squares = w.T @ w, x.T @ x, x.T @ w, (x * x).T @ w
    spread = np.maximum(n * squares - sums**2, 0)
    scale = np.sqrt(spread * spread.T)
    cross = n * products - sums * sums.T
    r = np.where(scale > 1e-6, cross / np.maximum(scale, 1e-6), 0)
    out: Array = np.clip(r, -1, 1) * np.sqrt(n / (n + FEW))
    return out


def neighbours_tell(square: Array, order: NDArray[np.int64], begins: NDArray[np.bool_], seed: int = 0) -> bool:
    """Tell whether columns beside each other are surely more alike than random ones."""
    inside = np.flatnonzero(~begins)
    if order.size < 4 or inside.size < 3:
        return False
    near = square[order[inside - 1], order[inside]]
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, order.size, (2, RANDOM_PAIRS))
    far = square[one[one != other], other[one != other]]
    error = np.sqrt(near.var(ddof=1) / near.size + far.var(ddof=1) / min(far.size, order.size**2 // 2))
    return bool(near.mean() - far.mean() > SURE * max(error, 1e-12))


def found_order(square: Array, seed: int = 0) -> NDArray[np.int64]:
    """Return an order in which columns that are alike stand together, by a tree and the best order of its leaves.

    Two columns are near if each tells of the other, and if both tell of the same columns. A little noise on
    associations makes the orders of several seeds differ: averages over them are better than any single one.
    """
    columns = square.shape[0]
    if columns < 3:
        return np.arange(columns)
    noise = NOISE * np.random.default_rng(seed).standard_normal(square.shape)
    square = np.clip(square + np.where(square > SOME, (noise + noise.T) / 2, 0), 0, 1)
    profiles = square @ square
    size = np.sqrt(np.maximum(np.diag(profiles), 1e-12))
    alike = 0.5 * square + 0.5 * profiles / size / size[:, None]
    distance = 1 - np.clip(alike, 0, 1).astype(np.float64)
    np.fill_diagonal(distance, 0)
    apart = squareform((distance + distance.T) / 2, checks=False)
    tree = linkage(apart, "average")
    if columns <= LEAVES:
        tree = optimal_leaf_ordering(tree, apart)
    return np.asarray(leaves_list(tree), np.int64)
