"""Boosted trees: the best split, the loss of the rival, given starts, the same bits for any threads."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from snapimpute.base.clock import Clock
from snapimpute.experts.boosting import BOOSTING_KINDS, BoostedTrees
from snapimpute.experts.boosting.bins import binned, edges_of
from snapimpute.solvers.model_file import read_content, write_content
from snapimpute.solvers.serialise import known_by_name

FORM = "snapimpute trees"


def table(cells: int, symbols: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features and symbols; the first four features matter, one of them is often missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(cells, 8))
    scores = np.stack([X[:, 0] * X[:, 1] * k + np.sin(2 * X[:, 2] * k) - 0.4 * k for k in range(symbols)], 1)
    missing = rng.random(cells) < 0.3
    scores[:, -1] += 1.5 * missing
    X[missing, 3] = np.nan
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    codes = (rng.random((cells, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return X, codes


def gain(slope: np.ndarray, bend: np.ndarray, left: np.ndarray, l2: float) -> float:
    """What a split wins, up to a factor of two."""

    def score(some: np.ndarray) -> float:
        return float(slope[some].sum() ** 2 / (bend[some].sum() + l2))

    return score(left) + score(~left) - score(np.ones_like(left))


def test_edges_separate_few_values_and_cut_many_evenly():
    """Each of few values has a bin of its own, NaN too; of many values the bins hold about as many cells each."""
    rng = np.random.default_rng(0)
    few = np.array([[3.0], [1.0], [np.nan], [2.0], [1.0], [np.inf]])
    assert_array_equal(binned(few, edges_of(few))[:, 0], [2, 0, 255, 1, 0, 2])
    mixed = np.where(rng.random(20_000) < 0.7, 0.0, rng.exponential(size=20_000))[:, None]
    counts = np.bincount(binned(mixed, edges_of(mixed))[:, 0], minlength=256)
    assert counts[0] == (mixed == 0).sum()
    assert counts[1:].max() < 80
    assert counts[255] == 0


@pytest.mark.parametrize("seed", range(8))
def test_the_first_split_is_the_best_of_all(seed):
    """A stump splits where trying every feature, value and side for NaN finds the largest gain."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 7, size=(60, 4)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    codes, weights = rng.integers(0, 2, 60), rng.uniform(0.5, 2, 60)
    start = np.log([[0.4, 0.6]] * 60)
    slope, bend = weights * (0.6 - codes), weights * 0.24
    gains = {}
    for f in range(4):
        for value in range(7):
            for lost in (False, True):
                left = (X[:, f] <= value) | (np.isnan(X[:, f]) & lost)
                if 5 <= left.sum() <= 55:
                    gains[f, value, lost] = gain(slope, bend, left, 1.5)
    best = max(gains, key=lambda one: gains[one])
    f, value, lost = best
    left = (X[:, f] <= value) | (np.isnan(X[:, f]) & lost)
    trees = BoostedTrees.fit(
        X, codes, start, weights=weights, rounds=1, leaves=2, least=5, l2=1.5, learning_rate=0.3, validation=None
    )
    expected = np.where(left, *(-0.3 * slope[side].sum() / (bend[side].sum() + 1.5) for side in (left, ~left)))
    scores = trees.logits(X, start) - start
    assert_allclose(scores[:, 1], expected, atol=1e-12)
    assert_array_equal(scores[:, 0], 0)


@pytest.mark.parametrize("symbols", [2, 4])
def test_as_good_as_the_rival(symbols):
    """The log loss on new cells is that of scikit-learn's trees, up to two percent."""
    X, y = table(12_000, symbols)
    ours = BoostedTrees.fit(X[:8000], y[:8000], rounds=80, learning_rate=0.1, validation=None)
    rival = HistGradientBoostingClassifier(
        max_iter=80, learning_rate=0.1, max_leaf_nodes=15, l2_regularization=1.0, early_stopping=False
    )
    with threadpool_limits(1, user_api="openmp"):  # its threads wait for each other where cores are shared
        theirs = log_loss(y[8000:], rival.fit(X[:8000], y[:8000]).predict_proba(X[8000:]))
    assert log_loss(y[8000:], ours.proba(X[8000:])) < 1.02 * theirs


def test_no_round_returns_the_start():
    """Without rounds the probabilities are those that were given; without a start the frequencies."""
    X, y = table(300, 4)
    start = np.log(np.random.default_rng(0).dirichlet(np.ones(4), 300))
    none = BoostedTrees.fit(X, y, start, rounds=0)
    assert_allclose(none.proba(X, start), np.exp(start))
    plain = BoostedTrees.fit(X, y, rounds=0, validation=None)
    assert_allclose(plain.proba(X[:1])[0], np.bincount(y) / 300, atol=1e-4)


def test_a_perfect_start_is_kept():
    """Where nothing can be won, validation cells end the fit early, and the loss stays what it was."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 5))
    p = 1 / (1 + np.exp(-2 * X[:, 0]))
    y = (rng.random(6000) < p).astype(int)
    start = np.log(np.stack([1 - p, p], 1))
    trees = BoostedTrees.fit(X[:4000], y[:4000], start[:4000], validation=0.3)
    assert trees.ended == "early"
    before = log_loss(y[4000:], np.exp(start[4000:]))
    assert log_loss(y[4000:], trees.proba(X[4000:], start[4000:])) < before + 0.005


@pytest.mark.parametrize("symbols", [2, 4])
def test_the_same_bits_on_any_number_of_threads(symbols, monkeypatch):
    """One thread and three give the same trees and the same answers."""
    X, y = table(30_000, symbols)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", threads)
        trees = BoostedTrees.fit(X, y, rounds=4)
        found.append((trees.values, trees.kids, trees.proba(X)))
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)


def test_weights_count_as_copies():
    """A cell of weight three is three cells."""
    X, y = table(900)
    weights = np.random.default_rng(0).integers(1, 4, 900)
    settings = {"rounds": 10, "least": 1, "validation": None}
    heavy = BoostedTrees.fit(X, y, weights=weights, **settings)
    again = np.repeat(np.arange(900), weights)
    copied = BoostedTrees.fit(X[again], y[again], **settings)
    if np.array_equal(heavy.edges, copied.edges):
        assert_allclose(heavy.proba(X), copied.proba(X), rtol=1e-9)
    assert_allclose(heavy.proba(X)[:, 1].mean(), copied.proba(X)[:, 1].mean(), atol=0.01)


def test_limits_of_leaves_hold():
    """No leaf has fewer training cells than allowed, no tree more leaves."""
    X, y = table(500)
    trees = BoostedTrees.fit(X, y, rounds=5, leaves=6, least=40, validation=None)
    for tree in range(5):
        stop = trees.starts[tree + 1] if tree < 4 else trees.values.size
        nodes = slice(trees.starts[tree], stop)
        ends = trees.kids[nodes, 0] == np.arange(stop - trees.starts[tree])
        assert ends.sum() <= 6
    lone = BoostedTrees.fit(X, y, rounds=1, leaves=6, least=40, validation=None)
    _, counts = np.unique(lone.logits(X)[:, 1], return_counts=True)
    assert counts.min() >= 40


def test_a_column_that_says_nothing_and_one_without_values():
    """Constant features and features that are never known do no harm, nor does a table without features."""
    X, y = table(400)
    wide = np.column_stack([X, np.full(400, np.nan), np.ones(400)])
    settings = {"rounds": 10, "validation": None}
    assert_array_equal(BoostedTrees.fit(wide, y, **settings).proba(wide), BoostedTrees.fit(X, y, **settings).proba(X))
    assert BoostedTrees.fit(X[:, :0], y, **settings).proba(X[:, :0]).shape == (400, 2)


def test_time_that_is_over_keeps_the_trees_so_far():
    """A clock without time ends the fit before the first round."""
    X, y = table(400)
    trees = BoostedTrees.fit(X, y, clock=Clock(0.0))
    assert (trees.ended, trees.rounds) == ("time", 0)
    assert np.isfinite(trees.proba(X)).all()


@pytest.mark.parametrize("symbols", [2, 4])
def test_files_hold_trees(tmp_path, symbols):
    """Trees that were saved and read give the same bits."""
    X, y = table(400, symbols)
    trees = BoostedTrees.fit(X, y, rounds=6)
    write_content(tmp_path / "trees", trees, known_by_name(BOOSTING_KINDS), FORM)
    again = read_content(tmp_path / "trees", known_by_name(BOOSTING_KINDS), FORM)
    assert_array_equal(again.proba(X), trees.proba(X))


def test_wrong_input_is_refused():
    """Shapes, symbols, weights and starts that do not fit are errors that say so."""
    X, y = table(50)
    trees = BoostedTrees.fit(X, y, rounds=1)
    for call, told in [
        (lambda: BoostedTrees.fit(X, y[:-1]), "y must hold"),
        (lambda: BoostedTrees.fit(X, y, symbols=1 + int(y.max()), weights=-np.ones(50)), "weights"),
        (lambda: BoostedTrees.fit(X, y + 3, symbols=4), "y must lie between"),
        (lambda: BoostedTrees.fit(X, y, np.zeros((50, 3))[:, :1]), "y must lie|start must hold"),
        (lambda: BoostedTrees.fit(X, y, validation=1.5), "validation must be"),
        (lambda: trees.proba(X[:, :2]), "give the same ones"),
        (lambda: trees.proba(X, np.zeros((50, 2))), "drop start"),
    ]:
        with pytest.raises(ValueError, match=told):
            call()
