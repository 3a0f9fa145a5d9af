"""Parts of observations: by mask, by position, splits and folds that are partitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from snapimpute import Observations
from tests.data.cells import cells, full, quick, raises, triples


# ------------------------------------------------------------------------ take
@quick
@given(cells(), st.data())
def test_take_by_mask_and_by_position_agree(given_cells, data):
    """A mask and its positions, in any order and integer type, give the same observations in stored order."""
    obs = Observations.from_coo(*given_cells)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(obs), max_size=len(obs))))
    assume(mask.any())
    positions = data.draw(st.permutations(np.flatnonzero(mask).tolist()))
    expected = [t for t, kept in zip(triples(obs), mask, strict=True) if kept]
    for index in (mask, mask.tolist(), positions, np.array(positions, dtype=np.uint64)):
        taken = obs.take(index)
        assert triples(taken) == expected
        assert taken.shape == obs.shape


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([], "no observation selected"),
        ([False] * 4, "no observation selected"),
        ([True, False], "the mask has shape (2,), expected (4,)"),
        ([[True, False], [True, False]], "the mask has shape (2, 2), expected (4,)"),
        ([0, 4, 1, -7], "2 position(s) outside 0..3, the first is 4"),
        ([1, -1], "1 position(s) outside 0..3, the first is -1"),
        ([2, 1, 2, 2], "positions must be distinct, got 2 again"),
        ([1.0, 2.0], "positions must hold integers, got dtype float64"),
        (["a"], "positions must hold integers, got dtype <U1"),
        ([[0, 1]], "positions must be a flat list, got shape (1, 2)"),
        (1, "positions must be a flat list, got shape ()"),
        (np.array([2**64 - 1], dtype=np.uint64), "the first is 18446744073709551615"),
    ],
    ids=str,
)
def test_take_refuses(index, message):
    """Nothing selected, a mask of another shape, and positions outside, repeated or no integers are refused."""
    with raises(message):
        full(2, 2).take(index)


# ----------------------------------------------------------------------- split
def assert_partition(obs: Observations, *parts: Observations) -> None:
    """Check that the parts are disjoint and together are all the observations."""
    assert sorted(t for part in parts for t in triples(part)) == triples(obs)
    assert {part.shape for part in parts} == {obs.shape}


@quick
@given(cells(min_size=2), st.floats(0.01, 0.99), st.integers(0, 2**32))
def test_split_is_a_partition_of_exact_size(given_cells, share, seed):
    """The two sides are disjoint, together everything, and the held-out side has the rounded share of the entries."""
    obs = Observations.from_coo(*given_cells)
    count = round(share * len(obs))
    assume(0 < count < len(obs))
    kept, held = obs.split(share, random_state=seed)
    assert len(held) == count
    assert_partition(obs, kept, held)
    again = obs.split(share, random_state=seed)
    assert triples(again[0]) == triples(kept)
    assert triples(again[1]) == triples(held)


@quick
@given(cells(min_size=4, max_size=40), st.integers(1, 99), st.integers(0, 2**32))
def test_split_by_row_holds_out_the_share_of_every_row(given_cells, percent, seed):
    """Each row gives exactly its share, rounded down, and keeps at least one entry."""
    obs = Observations.from_coo(*given_cells)
    counts = np.bincount(obs.rows, minlength=obs.shape[0])
    expected = counts * percent // 100
    assume(expected.any())
    kept, held = obs.split(percent / 100, per="row", random_state=seed)
    assert_partition(obs, kept, held)
    assert_array_equal(np.bincount(held.rows, minlength=obs.shape[0]), expected)
    assert set(kept.rows.tolist()) == set(obs.rows.tolist())
    again = obs.split(percent / 100, per="row", random_state=seed)
    assert triples(again[1]) == triples(held)


def test_split_by_row_is_exact_in_floating_point():
    """Of a row of 100 entries exactly the percentage is held out, also where share × 100 falls just short of it."""
    for percent in range(1, 100):
        kept, held = full(1, 100).split(percent / 100, per="row")
        assert (len(kept), len(held)) == (100 - percent, percent)


def test_split_by_row_always_keeps_one():
    """Even a share that rounds to the whole row leaves one entry in it."""
    kept, _ = full(3, 10).split(1 - 1e-12, per="row")
    assert np.bincount(kept.rows).tolist() == [1, 1, 1]


@pytest.mark.parametrize("per", ["entries", "row"])
def test_seeds_matter(per):
    """Different seeds give different splits, the default seed is 0, and every entry is held out under some seed."""
    obs = full(10, 10)
    held = [obs.split(0.3, per=per, random_state=seed)[1] for seed in range(40)]
    assert len({tuple(h.values.tolist()) for h in held}) == 40
    assert set(np.concatenate([h.values for h in held]).tolist()) == set(range(100))
    assert triples(obs.split(0.3, per=per)[1]) == triples(held[0])


def test_the_default_share_is_a_fifth():
    """Without arguments one entry in five is held out."""
    kept, held = full(10, 10).split()
    assert (len(kept), len(held)) == (80, 20)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, np.nan, np.inf])
def test_share_must_lie_between(share):
    """A share that is not strictly between 0 and 1 is refused and named."""
    with raises(f"share must lie between 0 and 1 (both excluded), got {share}"):
        full(4, 4).split(share)


@pytest.mark.parametrize("per", ["rows", "column", None, ""])
def test_unknown_ways_to_split_are_refused(per):
    """A way to split that does not exist is refused with those that do."""
    with raises(f'per must be "entries" or "row", got {per!r}'):
        full(4, 4).split(0.5, per=per)


@pytest.mark.parametrize(
    ("share", "per", "obs"),
    [(0.1, "entries", (2, 2)), (0.95, "entries", (2, 2)), (0.2, "row", (5, 4)), (0.5, "row", (5, 1))],
)
def test_empty_sides_are_refused(share, per, obs):
    """A split that would leave one side empty is refused with the share, the number of entries and the way."""
    count = obs[0] * obs[1]
    with raises(f"a share of {share} of {count} entries ({per}) leaves one side empty"):
        full(*obs).split(share, per=per)


# ----------------------------------------------------------------------- kfold
@quick
@given(cells(min_size=4), st.data())
def test_kfold_holds_out_every_entry_once(given_cells, data):
    """The folds partition the entries, sizes differ by at most one, and each kept side is the rest."""
    obs = Observations.from_coo(*given_cells)
    assume(len(obs) >= 2)
    k = data.draw(st.integers(2, len(obs)))
    pairs = list(obs.kfold(k, random_state=data.draw(st.integers(0, 2**32))))
    assert len(pairs) == k
    assert_partition(obs, *(held for _, held in pairs))
    for kept, held in pairs:
        assert_partition(obs, kept, held)
    sizes = [len(held) for _, held in pairs]
    assert max(sizes) - min(sizes) <= 1


def test_kfold_is_seeded():
    """The same seed gives the same folds, another seed others; five folds and seed 0 are the default."""
    obs = full(6, 6)

    def folds(**options):
        return [triples(held) for _, held in obs.kfold(**options)]

    assert folds() == folds(k=5, random_state=0)
    assert folds() != folds(random_state=1)


@pytest.mark.parametrize("k", [-1, 0, 1, 5])
def test_kfold_wants_a_possible_number(k):
    """Fewer than two folds or more folds than entries are refused at the call, before the first fold is asked for."""
    with raises(f"k must be between 2 and the number of observed entries (4), got {k}"):
        full(2, 2).kfold(k)


def test_below_moves_cells_down():
    """The same values, so many rows further down."""
    moved = Observations.from_dense([[1, np.nan], [np.nan, 2]]).below(3)
    assert moved.shape == (5, 2)
    assert list(zip(moved.rows.tolist(), moved.cols.tolist(), moved.values.tolist(), strict=True)) == [
        (3, 0, 1.0),
        (4, 1, 2.0),
    ]
