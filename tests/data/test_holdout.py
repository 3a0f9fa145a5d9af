"""Held-out cells: by a hash of what a cell is, or in the pattern of the missing ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapimpute import Observations
from snapimpute.data.holdout import cell_hashes, folds_of, hold_out, imitating, is_clumped

NAN = np.nan


def labelled(seed: int = 0, shape: tuple[int, int] = (12, 9)) -> Observations:
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(shape) < 0.6, rng.integers(1, 6, shape), NAN)
    X[0, 0] = 1
    return Observations.from_dense(
        X, row_labels=[f"r{i}" for i in range(shape[0])], col_labels=[f"c{j}" for j in range(shape[1])]
    )


def names(cells: Observations) -> set[tuple[str, str]]:
    return set(zip(cells.row_labels[cells.rows].tolist(), cells.col_labels[cells.cols].tolist(), strict=True))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), share=st.floats(0.05, 0.9))
def test_the_order_of_rows_and_columns_does_not_matter(seed, share):
    """A permuted table with labels holds out the same cells, by name."""
    table = labelled(seed)
    rng = np.random.default_rng(seed)
    rows, cols = (rng.permutation(size) for size in table.shape)
    turned = Observations.from_coo(
        np.argsort(rows)[table.rows],
        np.argsort(cols)[table.cols],
        table.values,
        table.shape,
        row_labels=table.row_labels[rows],
        col_labels=table.col_labels[cols],
    )
    held = [hold_out(one, share, seed)[1] for one in (table, turned)]
    assert names(held[0]) == names(held[1])


def test_folds_are_apart_and_of_their_share():
    """Three folds of a tenth hold out 30 % of the cells, none of them twice; kept and held-out cells make up all."""
    table = Observations.from_dense(np.ones((40, 50)))
    folds = folds_of(table, 3, 0.1, seed=2)
    places = [held.rows * 50 + held.cols for _, held in folds]
    assert [one.size for one in places] == [200] * 3
    assert np.unique(np.concatenate(places)).size == 600
    assert all(len(kept) + len(held) == 2000 for kept, held in folds)


def test_seeds_hold_out_other_cells_that_look_random():
    """Two seeds share about as many cells as chance says; rows and columns are hit alike."""
    table = Observations.from_dense(np.ones((60, 60)))
    one, other = (hold_out(table, 0.2, seed)[1] for seed in (0, 1))
    both = np.intersect1d(one.rows * 60 + one.cols, other.rows * 60 + other.cols).size
    assert abs(both - 0.04 * 3600) < 5 * np.sqrt(0.04 * 3600)
    for lanes in (one.rows, one.cols):
        assert np.bincount(lanes, minlength=60).var() < 2 * 60 * 0.2 * 0.8


def test_rows_and_columns_of_one_name_differ():
    """Cell (a, b) and cell (b, a) are different cells, except in a symmetric table."""
    table = Observations.from_dense([[1, 2], [3, 4]], row_labels=["a", "b"], col_labels=["a", "b"])
    assert np.unique(cell_hashes(table)).size == 4
    assert np.unique(cell_hashes(table, symmetric=True)).size == 3


def test_a_cell_and_its_mirror_are_held_out_together():
    """In a symmetric table no held-out cell has its mirror among the kept ones."""
    table = Observations.from_dense(np.ones((31, 31)))
    for kept, held in folds_of(table, 3, 0.1, seed=5, symmetric=True):
        known = set(zip(kept.rows.tolist(), kept.cols.tolist(), strict=True))
        assert not known & set(zip(held.cols.tolist(), held.rows.tolist(), strict=True))


@pytest.mark.parametrize(("count", "share"), [(1, 0.0), (1, 1.0), (3, 0.4)])
def test_shares_that_make_no_sense_are_refused(count, share):
    """A share is between 0 and 1, and folds hold out no cell twice."""
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        folds_of(labelled(), count, share)


def blocks(seed: int = 0) -> Observations:
    """Two forms of a survey: each half of the people lacks another half of the questions."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 6, (60, 20)).astype(float)
    X[:30, 12:] = NAN
    X[30:50, :6] = NAN
    return Observations.from_dense(X)


def test_blocks_of_missing_cells_are_imitated():
    """A row loses the questions that another row lacks: all of a form, or none."""
    table = blocks()
    assert is_clumped(table)
    forms, seen = {tuple(range(12, 20)), tuple(range(6)), ()}, set()
    for kept, held in imitating(table, 2, 0.1, seed=0):
        assert 0.1 * len(table) <= len(held) <= 0.1 * len(table) + 20
        for row in np.unique(held.rows).tolist():
            assert tuple(held.cols[held.rows == row].tolist()) in forms
            assert (kept.rows == row).any()
            assert row not in seen
            seen.add(row)


def test_imitated_blocks_follow_the_labels():
    """A permuted table with labels loses the same cells, by name."""
    table = blocks()
    rows = np.random.default_rng(1).permutation(60)
    names = np.array([f"r{i}" for i in range(60)])
    one = table.labelled(names, None)
    other = Observations.from_coo(
        np.argsort(rows)[table.rows], table.cols, table.values, table.shape, row_labels=names[rows]
    )
    held = [imitating(some, 1, 0.1)[0][1] for some in (one, other)]
    cells = [set(zip(h.row_labels[h.rows].tolist(), h.cols.tolist(), strict=True)) for h in held]
    assert cells[0] == cells[1]


def test_cells_missing_at_random_are_not_imitated():
    """Neither cells missing one by one, nor a table that is mostly missing."""
    rng = np.random.default_rng(0)
    alone = Observations.from_dense(np.where(rng.random((200, 30)) < 0.8, 1.0, NAN))
    assert not is_clumped(alone)
    assert imitating(alone, 1, 0.1) is None
    sparse = np.full((60, 40), NAN)
    sparse[:20, :30] = 1
    assert is_clumped(Observations.from_dense(sparse))
    assert imitating(Observations.from_dense(sparse), 1, 0.1) is None
