"""Scores: by hand, against scikit-learn, and by the laws they obey."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from snapimpute.evaluation import metrics

SCALAR = [metrics.nmse, metrics.rmse, metrics.mae, metrics.exact_match, metrics.quadratic_weighted_kappa]
ALPHABETS = {"ratings": [1.0, 2, 3, 4, 5], "votes": [-1.0, 1], "halves": [0.5, 1, 1.5, 2], "uneven": [-3.0, 0, 1, 10]}


def pairs(symbols: list[float], min_size: int = 1) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    """Truth and estimate, both lists of symbols."""
    cell = st.tuples(st.sampled_from(symbols), st.sampled_from(symbols))
    return st.lists(cell, min_size=min_size, max_size=40).map(lambda cells: tuple(np.array(cells).T))


def test_known_values() -> None:
    """Each score of one small case, worked out by hand."""
    truth, estimate = [1, 2, 4, 5], [1, 3, 4, 3]
    assert metrics.nmse(truth, estimate) == pytest.approx(5 / 46)
    assert metrics.rmse(truth, estimate) == pytest.approx(np.sqrt(5 / 4))
    assert metrics.mae(truth, estimate) == 0.75
    assert metrics.exact_match(truth, estimate) == 0.5
    # mean distance 5/4; by chance var 2.5 + 1.1875 + (3 - 2.75)² = 3.75
    assert metrics.quadratic_weighted_kappa(truth, estimate) == pytest.approx(1 - 1.25 / 3.75)


def test_nmse_is_normalised_by_the_truth() -> None:
    """The estimate 0 has NMSE 1 whatever the truth; an estimate twice the truth too."""
    truth = np.array([3.0, -4, 12])
    assert metrics.nmse(truth, np.zeros(3)) == metrics.nmse(truth, 2 * truth) == 1
    with pytest.raises(ValueError, match="which is 0 here: use rmse"):
        metrics.nmse([0, 0], [1, 1])


@pytest.mark.slow
@given(st.sampled_from(list(ALPHABETS.values())).flatmap(pairs))
def test_distances_agree_with_sklearn(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """rmse, mae and exact_match are the usual ones."""
    truth, estimate = pair
    assert metrics.rmse(truth, estimate) == pytest.approx(sklearn.metrics.root_mean_squared_error(truth, estimate))
    assert metrics.mae(truth, estimate) == pytest.approx(sklearn.metrics.mean_absolute_error(truth, estimate))
    codes = (2 * truth).astype(int), (2 * estimate).astype(int)
    assert metrics.exact_match(truth, estimate) == pytest.approx(sklearn.metrics.accuracy_score(*codes))


@given(st.sampled_from(["ratings", "votes", "halves"]).flatmap(lambda name: pairs(ALPHABETS[name], 2)))
def test_kappa_is_sklearns_on_equal_spacing(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """For equally spaced symbols squared distances of values and of positions give the same kappa."""
    truth, estimate = pair
    kappa = metrics.quadratic_weighted_kappa(truth, estimate)
    if np.ptp(np.concatenate(pair)) == 0:
        assert np.isnan(kappa)
        return
    labels = np.arange(-10, 11)  # half symbols as whole numbers, all there may be
    codes = (2 * truth).astype(int), (2 * estimate).astype(int)
    expected = sklearn.metrics.cohen_kappa_score(*codes, weights="quadratic", labels=labels)
    assert kappa == pytest.approx(expected, abs=1e-12)


@given(pairs(ALPHABETS["uneven"], 2))
def test_kappa_weighs_by_symbol_values(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """For any spacing it is one minus observed over expected disagreement, from the table of counts."""
    truth, estimate = pair
    symbols = np.array(ALPHABETS["uneven"])
    table = metrics.confusion(truth, estimate, symbols)
    weight = np.subtract.outer(symbols, symbols) ** 2
    chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    if (weight * chance).sum() > 0:
        expected = 1 - (weight * table).sum() / (weight * chance).sum()
        assert metrics.quadratic_weighted_kappa(truth, estimate) == pytest.approx(expected, abs=1e-12)


@given(st.sampled_from(list(ALPHABETS.values())).flatmap(lambda s: st.tuples(st.just(s), pairs(s))))
def test_confusion_and_recall_agree_with_sklearn(case: tuple[list[float], tuple[np.ndarray, np.ndarray]]) -> None:
    """Rows are the truth, all symbols have their row and column, and recall is the diagonal's share."""
    symbols, (truth, estimate) = case
    codes = np.searchsorted(symbols, truth), np.searchsorted(symbols, estimate)
    table = metrics.confusion(truth, estimate, symbols)
    expected = sklearn.metrics.confusion_matrix(*codes, labels=np.arange(len(symbols)))
    np.testing.assert_array_equal(table, expected)
    recall = metrics.recall_per_symbol(truth, estimate, symbols)
    for k, symbol in enumerate(symbols):
        mine = estimate[truth == symbol]
        assert np.isnan(recall[k]) if mine.size == 0 else recall[k] == pytest.approx(np.mean(mine == symbol))


@given(st.sampled_from(list(ALPHABETS.values())).flatmap(pairs))
def test_perfect_is_perfect_and_order_does_not_matter(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """No error at the truth itself; scores do not depend on the order or the shape of the arrays."""
    truth, estimate = pair
    assert metrics.rmse(truth, truth) == metrics.mae(truth, truth) == 0
    assert metrics.exact_match(truth, truth) == 1
    for score in (metrics.rmse, metrics.mae, metrics.exact_match):
        assert score(truth, estimate) == pytest.approx(score(truth[::-1, None], estimate[::-1, None]))


def test_scores_take_the_raw_and_the_decided_estimate() -> None:
    """Distances see the estimate as it is; exact and kappa see the nearest symbols, or those given."""
    truth, raw = np.array([1.0, 2, 3, 5]), np.array([1.4, 2.6, 2.9, 7.0])
    snapped, decided = np.array([1.0, 3, 3, 5]), np.array([1.0, 2, 3, 4])
    got = metrics.scores(truth, raw, "1:5")
    assert set(got) == {"nmse", "rmse", "mae", "exact", "kappa"}
    assert got["nmse"] == metrics.nmse(truth, raw)
    assert got["rmse"] == metrics.rmse(truth, raw)
    assert got["mae"] == metrics.mae(truth, raw)
    assert got["exact"] == 0.75
    assert got["kappa"] == metrics.quadratic_weighted_kappa(truth, snapped)
    other = metrics.scores(truth, raw, "1:5", symbols=decided)
    assert other["exact"] == 0.75
    assert other["kappa"] == metrics.quadratic_weighted_kappa(truth, decided) != got["kappa"]
    assert other["rmse"] == got["rmse"]


@pytest.mark.parametrize("score", SCALAR)
@pytest.mark.parametrize(
    ("truth", "estimate", "message"),
    [
        ([1, 2], [1, 2, 3], r"same shape, got \(2,\) and \(3,\)"),
        ([1, 2], [[1], [2]], "same shape"),
        ([], [], "nothing to score"),
        ([1, np.nan], [1, 2], "1 of 2 values of truth are not finite: score the known entries only"),
        ([1, 2], [np.inf, np.nan], "2 of 2 values of estimate are not finite"),
    ],
)
def test_arrays_that_cannot_be_compared(score: Callable[..., float], truth: Any, estimate: Any, message: str) -> None:
    """Other lengths, nothing, and values that are not numbers are refused, never broadcast."""
    with pytest.raises(ValueError, match=message):
        score(truth, estimate)


@pytest.mark.parametrize("table", [metrics.confusion, metrics.recall_per_symbol])
@pytest.mark.parametrize(("truth", "estimate", "name"), [([1, 6], [1, 2], "truth"), ([1, 2], [1, 2.5], "estimate")])
def test_values_off_the_alphabet_are_refused(table: Any, truth: Any, estimate: Any, name: str) -> None:
    """A table of symbols takes symbols; the error shows the first that is none."""
    with pytest.raises(ValueError, match=f"1 of 2 values of {name} are not in Alphabet.*the first is (6|2.5)"):
        table(truth, estimate, "1:5")


def test_scores_refuse_a_truth_off_the_alphabet() -> None:
    """Neither a truth nor decided symbols outside the alphabet are snapped silently."""
    with pytest.raises(ValueError, match="1 of 2 values of truth are not in"):
        metrics.scores([1, 2.5], [1, 2], "1:5")
    with pytest.raises(ValueError, match="1 of 2 values of symbols are not in"):
        metrics.scores([1, 2], [1, 2], "1:5", symbols=[1, 2.5])


# -------------------------------------------------------------------- probabilities
@st.composite
def forecasts(draw: st.DrawFn) -> tuple[list[float], np.ndarray, np.ndarray, int]:
    """Symbols, a truth, probabilities (some of them certain or level), and a number of bins."""
    symbols = draw(st.sampled_from(list(ALPHABETS.values())))
    weight = st.lists(st.sampled_from([0.0, 0.1, 1.0, 3.0]), min_size=len(symbols), max_size=len(symbols))
    rows = draw(st.lists(weight.filter(any), min_size=1, max_size=30))
    truth = draw(st.lists(st.sampled_from(symbols), min_size=len(rows), max_size=len(rows)))
    p = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    return symbols, np.array(truth), p, draw(st.integers(1, 20))


@given(forecasts())
def test_reliability_by_bins(case: tuple[list[float], np.ndarray, np.ndarray, int]) -> None:
    """Bin by bin: how sure of the likeliest symbol, how often right; and the distance of the two on average."""
    symbols, truth, p, bins = case
    sure = [max(row) for row in p.tolist()]
    right = [o == symbols[row.index(max(row))] for o, row in zip(truth.tolist(), p.tolist(), strict=True)]
    places = [min(int(one * bins), bins - 1) for one in sure]
    found = metrics.reliability(truth, p, symbols, bins=bins)
    expected = [
        [(sure[i], right[i]) for i in range(len(sure)) if places[i] == place] for place in sorted(set(places))
    ]
    assert found.count.tolist() == [len(some) for some in expected]
    np.testing.assert_allclose(found.confidence, [np.mean([one for one, _ in some]) for some in expected])
    np.testing.assert_allclose(found.accuracy, [np.mean([hit for _, hit in some]) for some in expected])
    error = sum(abs(sum(one - hit for one, hit in some)) for some in expected) / len(sure)
    assert metrics.expected_calibration_error(truth, p, symbols, bins=bins) == pytest.approx(error, abs=1e-12)
    assert found.error == pytest.approx(error, abs=1e-12)


def test_forecasts_that_come_true_as_often_as_they_say() -> None:
    """Right in 3 of 4 cases at confidence 0.75 is no error; certain and wrong is an error of 1."""
    assert metrics.expected_calibration_error([0, 1, 1, 1], [[0.25, 0.75]] * 4, "0,1") == 0
    assert metrics.expected_calibration_error([0, 0], [[0, 1]] * 2, "0,1") == 1
    assert metrics.reliability([0, 1], [[1, 0], [0.4, 0.6]], "0,1", bins=5).count.tolist() == [1, 1]


@pytest.mark.parametrize("score", [metrics.reliability, metrics.expected_calibration_error])
@pytest.mark.parametrize(
    ("truth", "p", "bins", "message"),
    [
        ([0, 1], [[0.5, 0.5]], 15, r"expected probabilities of shape \(2, 2\), got \(1, 2\)"),
        ([0, 1], [[0.2, 0.3, 0.5]] * 2, 15, r"shape \(2, 2\), got \(2, 3\)"),
        ([0, 1], [0.5, 0.5], 15, r"shape \(2, 2\), got \(2,\)"),
        ([], np.zeros((0, 2)), 15, "nothing to score: truth is empty"),
        ([0, 2], [[0.5, 0.5]] * 2, 15, "1 of 2 values of truth are not in Alphabet.*the first is 2"),
        ([0, np.nan], [[0.5, 0.5]] * 2, 15, "1 of 2 values of truth are not in"),
        ([0, 1], [[0.5, 0.5]] * 2, 0, "bins must be at least 1, got 0"),
    ],
)
def test_forecasts_that_cannot_be_scored(score: Any, truth: Any, p: Any, bins: int, message: str) -> None:
    """One row of probabilities for each entry, one number in it for each symbol, and a truth of symbols."""
    with pytest.raises(ValueError, match=message):
        score(truth, p, "0,1", bins=bins)
