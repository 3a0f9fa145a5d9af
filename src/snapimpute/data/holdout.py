"""Held-out cells: chosen by a hash of what a cell is, so that the order of rows and columns does not matter."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.data.observations import Observations

Split = tuple[Observations, Observations]
"""Cells that are kept, and cells that are held out."""

CLUMPED = 2.0
"""Times the variance that independent cells would give the number of missing cells in a row: blocks have more."""

MOSTLY_KNOWN = 0.5
"""Share of known cells from which the pattern of the missing ones is imitated."""


def cell_hashes(observations: Observations, seed: int = 0, *, symmetric: bool = False) -> NDArray[np.uint64]:
    """Return a random number for each known cell: by its labels where there are any, else by its position.

    In a symmetric table a cell and its mirror have the same number.

    Examples
    --------
    >>> table = Observations.from_dense([[1, 2], [3, 4]], row_labels=["a", "b"], col_labels=["x", "y"])
    >>> turned = Observations.from_dense([[3, 4], [1, 2]], row_labels=["b", "a"], col_labels=["x", "y"])
    >>> bool((cell_hashes(table)[:2] == cell_hashes(turned)[2:]).all())
    True
    """
    m, n = observations.shape
    rows = _lane_hashes(observations.row_labels, m, 0 if symmetric else 1)[observations.rows]
    cols = _lane_hashes(observations.col_labels, n, 0 if symmetric else 2)[observations.cols]
    if symmetric:
        rows, cols = np.minimum(rows, cols), np.maximum(rows, cols)
    with np.errstate(over="ignore"):
        return mixed_bits(mixed_bits(mixed_bits(rows) + cols) + np.uint64(seed % 2**63))


def hold_out(observations: Observations, share: float, seed: int = 0, *, symmetric: bool = False) -> Split:
    """Split into (kept, held out) by the hashes of the cells.

    Examples
    --------
    >>> kept, held = hold_out(Observations.from_dense(np.ones((4, 5))), 0.2)
    >>> len(kept), len(held)
    (16, 4)
    """
    return folds_of(observations, 1, share, seed, symmetric=symmetric)[0]


def folds_of(
    observations: Observations, count: int, share: float, seed: int = 0, *, symmetric: bool = False
) -> list[Split]:
    """Return so many splits; each holds out another share of the cells.

    Raises
    ------
    ArgumentError
        If a share is not between 0 and 1, or the folds hold out more than everything.
    """
    if not 0 < share < 1 or count * share > 1 + 1e-9:
        raise ArgumentError.must("share", share, f"lie between 0 and 1, for {count} folds at most {1 / count:g}")
    order = np.argsort(cell_hashes(observations, seed, symmetric=symmetric), kind="stable")
    ends = [round(k * share * order.size) for k in range(count + 1)]
    if symmetric:
        ends = [_pair_end(observations, order, end) for end in ends]
    return [_split(observations, order[start:stop]) for start, stop in pairwise(ends)]


def split_by_labels(observations: Observations, share: float, seed: int = 0) -> Split:
    """Split into (kept, held out) by hashes where there are labels, else as `Observations.split` does."""
    if has_labels(observations):
        return hold_out(observations, share, seed)
    return observations.split(share, random_state=seed)


def has_labels(observations: Any) -> bool:
    """Tell whether rows or columns have labels; those of a cluster have none."""
    rows, cols = (getattr(observations, name, None) for name in ("row_labels", "col_labels"))
    return rows is not None or cols is not None


def imitating(observations: Observations, count: int, share: float, seed: int = 0) -> list[Split] | None:
    """Hold out cells in the pattern of the missing ones; None where these are not clumped, or most are missing.

    Where whole blocks are missing, a row loses the cells that another row does not have: what is asked of a model
    then is as hard as for the cells that are really missing. Each row loses cells in one of so many splits at most.
    """
    m, n = observations.shape
    if observations.density < MOSTLY_KNOWN or not is_clumped(observations):
        return None
    known = np.zeros((m, n), dtype=bool)
    known[observations.rows, observations.cols] = True
    order, hashes = row_order(observations, seed), row_hashes(observations, seed + 1)
    donors = order[np.flatnonzero(~known[order].all(axis=1))]
    held, wanted = np.full((m, n), -1), share * len(observations)
    fold, taken = 0, 0
    for row in order.tolist():
        lost = known[row] & ~known[donors[int(hashes[row] % np.uint64(donors.size))]]
        if lost.sum() < known[row].sum():
            held[row, lost] = fold
            taken += int(lost.sum())
        if taken >= wanted:
            fold, taken = fold + 1, 0
        if fold == count:
            break
    folds = held[observations.rows, observations.cols]
    if fold < count:  # too few rows for all splits
        return None
    return [_split(observations, np.flatnonzero(folds == k)) for k in range(count)]


def row_hashes(observations: Observations, seed: int = 0) -> NDArray[np.uint64]:
    """Return a random number for each row: by its label where there are any, else by its position."""
    lanes = _lane_hashes(observations.row_labels, observations.shape[0], 1)
    with np.errstate(over="ignore"):
        return mixed_bits(lanes + np.uint64(seed % 2**63))


def row_order(observations: Observations, seed: int = 0) -> NDArray[np.intp]:
    """Return the rows in a random order that follows their labels."""
    return np.argsort(row_hashes(observations, seed), kind="stable")


def is_clumped(observations: Observations) -> bool:
    """Tell whether missing cells come in blocks: their number varies between rows far more than by chance.

    Examples
    --------
    >>> half = np.ones((40, 20))
    >>> half[20:, 10:] = np.nan
    >>> is_clumped(Observations.from_dense(half))
    True
    """
    m, n = observations.shape
    missing = n - np.bincount(observations.rows, minlength=m)
    share = 1 - np.bincount(observations.cols, minlength=n) / m
    by_chance = float((share * (1 - share)).sum())
    return by_chance > 0 and m > 1 and float(missing.var()) > CLUMPED * by_chance


def _split(observations: Observations, held: NDArray[np.intp]) -> Split:
    mask = np.zeros(len(observations), dtype=bool)
    mask[held] = True
    if not mask.any() or mask.all():
        raise ValueError(f"{len(observations)} known cells are too few to hold some out")
    return observations.take(~mask), observations.take(mask)


def _pair_end(observations: Observations, order: NDArray[np.intp], end: int) -> int:
    """Move the end of a fold behind the mirror of its last cell."""
    if not 0 < end < order.size:
        return end
    before, after = (order[end - 1], order[end])
    rows, cols = observations.rows, observations.cols
    return end + int(rows[before] == cols[after] and cols[before] == rows[after])


def _lane_hashes(labels: NDArray[Any] | None, size: int, salt: int) -> NDArray[np.uint64]:
    """Return a number for each row or column, by its label or position."""
    if labels is None:
        with np.errstate(over="ignore"):
            return mixed_bits(np.arange(size, dtype=np.uint64) + np.uint64((salt + 1) << 48))
    key = salt.to_bytes(8, "little")
    texts = (str(label).encode("utf-8", "surrogatepass") for label in labels.tolist())
    digests = b"".join(blake2b(text, digest_size=8, key=key).digest() for text in texts)
    return np.frombuffer(digests, dtype=np.uint64)


def mixed_bits(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of numbers (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
