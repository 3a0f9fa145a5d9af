"""Synthetic matrices: the truth, the noise, the patterns of missing cells, and what is refused."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapimpute import Alphabet
from snapimpute.data.datasets import Synthetic, low_rank_alphabet
from snapimpute.data.datasets._missingness import draw_distinct, patch_edges, unlisted

KINDS = ("quantised", "blocks")
PATTERNS = ("uniform", "power", "by-value", "blocks")


def observed_mask(data: Synthetic) -> np.ndarray:
    mask = np.zeros(data.shape, dtype=bool)
    mask[data.observations.rows, data.observations.cols] = True
    return mask


# ------------------------------------------------------------------ any arguments
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_valid_arguments_give_what_they_say(data: st.DataObject) -> None:
    """Count, alphabet and truth are right for every kind, pattern, shape and share."""
    m, n = data.draw(st.integers(3, 30)), data.draw(st.integers(3, 30))
    symbols = Alphabet.of(data.draw(st.sampled_from(["0,1", "1:5", "-1,0,10", "7"])))
    arguments: dict[str, Any] = {
        "rank": data.draw(st.integers(1, 3)),
        "alphabet": symbols,
        "kind": data.draw(st.sampled_from(KINDS)),
        "missing": data.draw(st.sampled_from(PATTERNS)),
        "observed": data.draw(st.floats(0.2, 0.8)),
        "random_state": data.draw(st.integers(0, 2**40)),
    }
    made = low_rank_alphabet((m, n), **arguments)
    obs = made.observations
    assert made.shape == obs.shape == (m, n)
    assert made.alphabet == symbols
    assert len(obs) == round(arguments["observed"] * m * n)
    dense = made.to_dense()
    assert symbols.contains(dense).all()
    np.testing.assert_array_equal(obs.values, dense[obs.rows, obs.cols])
    hidden = made.hidden(m * n - len(obs), random_state=1)
    assert not observed_mask(made)[hidden.rows, hidden.cols].any()
    np.testing.assert_array_equal(hidden.values, dense[hidden.rows, hidden.cols])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", PATTERNS)
def test_same_seed_same_data(kind: Any, missing: Any) -> None:
    """A seed decides everything, another seed gives other data."""
    one, two, other = (
        low_rank_alphabet(kind=kind, missing=missing, noise=0.1, random_state=seed) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one.observations.cols, two.observations.cols)
    np.testing.assert_array_equal(one.observations.values, two.observations.values)
    np.testing.assert_array_equal(one.hidden(50, 9).cols, two.hidden(50, 9).cols)
    assert not np.array_equal(one.observations.cols, other.observations.cols)
    assert not np.array_equal(one.to_dense(), other.to_dense())
    assert not np.array_equal(one.hidden(50, 9).cols, one.hidden(50, 8).cols)


def test_truth_does_not_depend_on_what_is_observed() -> None:
    """Patterns, shares and noise can be compared on one and the same matrix."""
    truth = low_rank_alphabet().to_dense()
    for missing in PATTERNS:
        changed = low_rank_alphabet(missing=missing, observed=0.1, noise=0.5)
        np.testing.assert_array_equal(changed.to_dense(), truth)


# ------------------------------------------------------------------ the truth
@pytest.mark.parametrize("shares", [None, [0.06, 0.11, 0.27, 0.34, 0.22], [0, 0, 1, 0, 1]])
def test_quantised_symbols_have_the_shares_asked_for(shares: Any) -> None:
    """Symbol frequencies of the truth are those given, up to sampling."""
    data = low_rank_alphabet((600, 500), shares=shares)
    wanted = np.ones(5) if shares is None else np.array(shares, dtype=float)
    found = data.alphabet.frequencies(data.to_dense())
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=0.005)


def test_quantised_symbols_rise_with_the_factor_model() -> None:
    """Each entry is U Vᵀ cut at the thresholds, computed here the plain way."""
    data = low_rank_alphabet((30, 20), rank=2, alphabet="1:3")
    product = data.truth.U @ data.truth.V.T
    expected = 1.0 + (product[..., None] >= data.truth.thresholds).sum(axis=-1)
    np.testing.assert_array_equal(data.to_dense(), expected)


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_blocks_have_low_rank_exactly(rank: int) -> None:
    """Groups of rows and columns make a matrix of at most that rank, with the shares asked for."""
    data = low_rank_alphabet((80, 70), rank=rank, kind="blocks", shares=[1, 1, 1, 1, 5])
    dense = data.to_dense()
    assert np.linalg.matrix_rank(dense) <= rank
    assert len({tuple(row) for row in dense}) <= rank
    table = np.bincount(data.truth.table.ravel(), minlength=5) / rank**2
    np.testing.assert_allclose(table, np.array([1, 1, 1, 1, 5]) / 9, atol=1 / rank**2)


@pytest.mark.parametrize("noise", [0.0, 0.2, 1.0])
def test_noise_is_the_share_of_changed_symbols(noise: float) -> None:
    """An observed symbol differs from the truth with that probability, all others equally often."""
    data = low_rank_alphabet((300, 200), alphabet="0:3", noise=noise, observed=0.5)
    obs = data.observations
    change = (obs.values - data.truth_entries(obs.rows, obs.cols)) % 4
    shares = np.bincount(change.astype(int), minlength=4) / len(obs)
    np.testing.assert_allclose(shares, [1 - noise, noise / 3, noise / 3, noise / 3], atol=0.01)


# ------------------------------------------------------------------ missing cells
def test_uniform_cells_are_equally_likely() -> None:
    """Over many seeds every cell is observed as often as any other (chi-square of 60 cells)."""
    counts = np.zeros((6, 10))
    for seed in range(400):
        counts += observed_mask(low_rank_alphabet((6, 10), rank=1, observed=0.3, random_state=seed))
    assert counts.sum() == 400 * 18
    chi_square = ((counts - 120) ** 2 / (120 * 0.7)).sum()
    assert chi_square < 105  # 99.9 % point with 59 degrees of freedom is 98


def test_power_gives_few_rows_and_columns_much() -> None:
    """The most popular tenth of the rows, and of the columns, has far more than a tenth of the entries."""
    data = low_rank_alphabet((400, 300), missing="power", observed=0.05)
    for axis, least in ((1, 0.25), (0, 0.25)):
        counts = np.sort(observed_mask(data).sum(axis=axis))[::-1]
        assert counts[: counts.size // 10].sum() > least * counts.sum()
    even = np.sort(observed_mask(low_rank_alphabet((400, 300), observed=0.05)).sum(axis=1))[::-1]
    assert even[:40].sum() < 0.2 * even.sum()


def test_by_value_shows_larger_symbols_more_often() -> None:
    """The rate of observation grows with the symbol, about 1 : 5 between the ends."""
    data = low_rank_alphabet((400, 300), missing="by-value", observed=0.05)
    truth, mask = data.to_dense(), observed_mask(data)
    rates = np.array([mask[truth == symbol].mean() for symbol in data.alphabet])
    assert (np.diff(rates) > 0).all()
    assert 4 < rates[-1] / rates[0] < 6


@pytest.mark.parametrize(("observed", "hidden"), [(0.05, 32), (0.3, 32), (0.8, 12)])
def test_blocks_leave_whole_patches_unobserved(observed: float, hidden: int) -> None:
    """Half of the 64 patches, or as many as there is room for, have no entry; the others all have some."""
    data = low_rank_alphabet((400, 240), missing="blocks", observed=observed)
    mask = observed_mask(data)
    rows, cols = patch_edges(400), patch_edges(240)
    counts = np.add.reduceat(np.add.reduceat(mask, rows[:-1], axis=0), cols[:-1], axis=1)
    assert (counts == 0).sum() == hidden
    assert counts[counts > 0].min() > 0.5 * counts[counts > 0].mean()


@pytest.mark.parametrize("missing", ["uniform", "power", "by-value"])
def test_everything_may_be_observed(missing: Any) -> None:
    """The exact count holds up to the last cell, where weighted drawing runs out of likely cells."""
    for observed in (0.97, 1.0):
        data = low_rank_alphabet((40, 30), missing=missing, observed=observed)
        assert len(data.observations) == round(observed * 1200)
    with pytest.raises(ValueError, match="between 1 and 0"):
        data.hidden(1)


@given(st.integers(1, 60), st.data())
def test_drawn_numbers_are_distinct_and_in_range(total: int, data: st.DataObject) -> None:
    """Any count of any range can be drawn without repetition."""
    count = data.draw(st.integers(0, total))
    drawn = draw_distinct(np.random.default_rng(data.draw(st.integers(0, 99))), total, count)
    assert drawn.tolist() == sorted(set(drawn.tolist()))
    assert drawn.size == count
    assert all(0 <= number < total for number in drawn)


@given(st.sets(st.integers(0, 40)))
def test_unlisted_counts_the_others(listed: set[int]) -> None:
    """Ranks among the unlisted numbers are turned into these numbers, in order."""
    others = [number for number in range(50) if number not in listed]
    found = unlisted(np.array(sorted(listed), dtype=np.int64), np.arange(len(others)))
    assert found.tolist() == others


@pytest.mark.parametrize("missing", PATTERNS)
def test_large_shapes_need_memory_for_the_observed_cells_only(missing: Any) -> None:
    """A mask of the 2·10⁸ cells would take 200 MB; the peak stays far below."""
    tracemalloc.start()
    try:
        data = low_rank_alphabet((20_000, 10_000), rank=3, observed=0.0005, missing=missing)
        test = data.hidden(1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(data.observations), len(test)) == (100_000, 1000)
    assert peak < 60e6
    with pytest.raises(ValueError, match=r"20000×10000 matrix has more cells than the 10000000.*use truth_entries"):
        data.to_dense()


# ------------------------------------------------------------------ what is refused
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (0, 5)}, r"shape must hold two integers between 1 and .*got \(0, 5\)"),
        ({"shape": (5.0, 5)}, "shape must hold two integers"),
        ({"shape": 7}, r"shape must be \(rows, columns\), got 7"),
        ({"rank": 0}, "rank must be an integer between 1 and 150, the smaller side, got 0"),
        ({"rank": 151}, "rank must be .*got 151"),
        ({"rank": True}, "rank must be .*got True"),
        ({"alphabet": "1;2"}, "cannot read an alphabet"),
        ({"kind": "ordinal"}, "kind must be one of 'quantised', 'blocks', got 'ordinal'"),
        ({"missing": "random"}, "missing must be one of 'uniform', 'power', 'by-value', 'blocks', got 'random'"),
        ({"noise": -0.1}, "noise must be a number from 0 up to 1, got -0.1"),
        ({"noise": float("nan")}, "noise must be .*got nan"),
        ({"observed": 0}, "observed must be a number above 0 up to 1, got 0"),
        ({"observed": "30%"}, "observed must be .*got '30%'"),
        ({"observed": 1e-9}, "leaves no cell observed: give a larger share"),
        ({"shares": [1, 2]}, "shares must hold 5 numbers"),
        ({"shares": [1, 1, 1, 1, -1]}, "shares must hold 5 numbers, one a symbol, 0 or larger"),
        ({"shares": [0] * 5}, "not all 0"),
        ({"random_state": -1}, "random_state must be an integer, 0 or larger, got -1"),
        ({"random_state": None}, "random_state must be .*got None"),
        ({"alphabet": "3", "noise": 0.1}, "noise needs another symbol"),
        ({"missing": "blocks", "observed": 0.999}, "leaves no patch unobserved.*lower `observed`"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    """The error says what was given and what was expected."""
    with pytest.raises(ValueError, match=message):
        low_rank_alphabet(**arguments)


@pytest.mark.parametrize(
    ("rows", "cols"), [([200], [0]), ([0], [150]), ([-1], [0]), ([0.5], [0]), ([0, 1], [0]), ([[0]], [[0]])]
)
def test_cells_outside_are_refused(rows: Any, cols: Any) -> None:
    """The truth is given at cells of the matrix only."""
    with pytest.raises(ValueError, match="must be"):
        low_rank_alphabet().truth_entries(rows, cols)


@pytest.mark.parametrize("count", [0, 21_001, 1.5, True])
def test_hidden_count_is_checked(count: Any) -> None:
    """Only as many cells can be drawn as are unobserved."""
    with pytest.raises(ValueError, match="count must be an integer between 1 and 21000"):
        low_rank_alphabet().hidden(count)
