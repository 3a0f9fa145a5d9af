"""Orders of columns: whether a given one tells something, and whether one that was lost comes back."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute.data.datasets import mosaic_genotypes
from snapimpute.mosaic._nearest import nearest
from snapimpute.mosaic._order import associations, found_order, neighbours_tell
from snapimpute.mosaic._pairs import MISSING
from snapimpute.mosaic._panel import Line

PLAIN = np.zeros(60, bool)
FIRST = np.arange(60) == 0


def markers(seed: int = 0) -> np.ndarray:
    """Strands of many founders: only near columns are alike."""
    data = mosaic_genotypes((300, 60), founders=8, strands=1, jump=0.15, observed=1.0, random_state=seed)
    symbols = data.truth.astype(np.uint8)
    symbols[np.random.default_rng(seed).random(symbols.shape) < 0.2] = MISSING
    return symbols


def test_associations_are_squared_correlations():
    """On rows that know both columns, drawn to 0 by √(n / (n + 4))."""
    symbols = markers()
    square = associations(symbols, PLAIN)
    both = (symbols[:, 3] != MISSING) & (symbols[:, 7] != MISSING)
    r = np.corrcoef(symbols[both, 3], symbols[both, 7])[0, 1]
    assert square[3, 7] == pytest.approx(r**2 * both.sum() / (both.sum() + 4), rel=1e-3)
    assert_allclose(square, square.T, atol=1e-6)


def test_categories_are_associated_without_an_order():
    """Columns whose categories are renamed are as much alike as before, which a correlation would not see."""
    rng = np.random.default_rng(0)
    one = rng.integers(0, 3, 400)
    renamed = np.array([1, 0, 2])[one]
    symbols = np.stack([one, renamed, rng.integers(0, 3, 400)], axis=1).astype(np.uint8)
    square = associations(symbols, np.array([True, True, True]))
    assert square[0, 1] > 0.98
    assert square[0, 2] < 0.05
    assert associations(symbols, np.zeros(3, bool))[0, 1] < 0.7


def test_columns_without_a_cell_or_with_one_symbol_are_like_none():
    """They have no correlation, and do not break it."""
    symbols = markers()
    symbols[:, 5], symbols[:, 6] = MISSING, 1
    square = associations(symbols, PLAIN)
    assert not square[5].any()
    assert not square[6].any()


def test_neighbours_tell_in_order_and_not_shuffled():
    """The given order is taken only if neighbours are surely more alike than random columns."""
    square = associations(markers(), PLAIN)
    assert neighbours_tell(square, np.arange(60), FIRST)
    assert not neighbours_tell(square, np.random.default_rng(1).permutation(60), FIRST)
    noise = np.random.default_rng(0).integers(0, 3, (200, 60)).astype(np.uint8)
    assert not neighbours_tell(associations(noise, PLAIN), np.arange(60), FIRST)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_planted_order_comes_back(seed):
    """Shuffled columns of a chain, each like the one before, return to their order, read from either end."""
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, 3, (300, 60)).astype(np.uint8)
    for j in range(1, 60):
        symbols[:, j] = np.where(rng.random(300) < 0.85, symbols[:, j - 1], symbols[:, j])
    symbols[rng.random(symbols.shape) < 0.2] = MISSING
    shuffled = rng.permutation(60)
    order = shuffled[found_order(associations(symbols[:, shuffled], PLAIN), seed)]
    assert abs(np.corrcoef(np.argsort(order), np.arange(60))[0, 1]) > 0.99
    assert np.abs(np.diff(order)).mean() < 1.5


def test_orders_of_other_seeds_differ_a_little():
    """Averages over several orders are better than one: each seed gives its own, the same one again."""
    square = associations(markers(), PLAIN)
    assert_array_equal(found_order(square, 3), found_order(square, 3))
    assert not np.array_equal(found_order(square, 3), found_order(square, 4))
    assert_array_equal(found_order(square[:2, :2]), [0, 1])


def test_lines_begin_anew_with_each_group():
    """Jumps are sure where a chain begins, bounded elsewhere, and as likely as the way is long."""
    groups = np.array([0, 0, 1, 1, 1])
    line = Line.of(np.arange(5), groups, np.array([0.0, 10.0, 0.0, 10.0, 1e9]))
    assert_array_equal(line.begins, [True, False, True, False, False])
    assert line.jumps[2] == 1
    assert line.jumps[1] == line.jumps[3] < line.jumps[4]


# ---------------------------------------------------------------- nearest strands
def brute_nearest(strands: np.ndarray, row: int, strand: int, count: int) -> list[int]:
    alike = (strands == strands[2 * row + strand]).sum(axis=1).astype(float)
    alike[[2 * row, 2 * row + 1]] = -1
    return sorted(np.sort(alike)[-count:].tolist())


def test_the_nearest_strands_are_found():
    """Half by the first strand, half by the second, never the row's own; as near as the nearest there are."""
    strands = np.random.default_rng(0).integers(0, 2, (40, 90)).astype(np.uint8)
    found = nearest(strands, strands, 8, own=True, each=2, key=0)[0]
    for row in range(20):
        assert len(set(found[row])) == 8
        assert not {2 * row, 2 * row + 1} & set(found[row].tolist())
        alike = (strands[found[row, :4]] == strands[2 * row]).sum(axis=1)
        assert sorted(alike.tolist()) == brute_nearest(strands, row, 0, 4)


def test_strands_that_stay_near_keep_their_places(monkeypatch):
    """In windows along the columns, one that is near in the next window too stays in its slot."""
    monkeypatch.setattr("snapimpute.mosaic._nearest.WINDOW", 30)
    rng = np.random.default_rng(1)
    founders = rng.integers(0, 2, (4, 90))
    strands = np.where(rng.random((40, 90)) < 0.05, rng.integers(0, 2, (40, 90)), np.repeat(founders, 10, axis=0))
    found = nearest(strands.astype(np.uint8), strands.astype(np.uint8), 6, own=True, each=2, key=0)
    assert found.shape == (3, 20, 6)
    for before, after in zip(found[0], found[1], strict=True):
        for slot in range(6):
            if before[slot] in after:
                assert after[slot] == before[slot]
