"""How well a table is filled: scores against numbers computed by hand, and hidden cells that are really hidden."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute import Alphabet, Observations, Proximal
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator.evaluation import Evaluation, _baselines, _column_modes, _rounded, _way, check, evaluate
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.evaluation import metrics
from snapimpute.evaluation.metrics import Reliability
from snapimpute.experts.proximal.offsets import DAMPING, KnownCells
from tests.helpers import proximal

pytestmark = pytest.mark.slow

NAN = float("nan")
FIVE = ColumnSchema.single(Alphabet.of("1:5"), 3)
KNOWN = Observations.from_dense([[1, 5, NAN], [1, 4, NAN], [2, NAN, NAN], [NAN, 4, NAN]])
HIDDEN = Observations.from_coo([3, 2, 0, 1], [0, 1, 2, 2], [1.0, 4, 5, 1], (4, 3))  # stored by row
TRUTH = [5.0, 1, 4, 1]
ONES = np.ones(3)

DATA = low_rank_alphabet((40, 25), rank=2, alphabet="1:5", observed=0.6, random_state=0).observations
GIVEN: dict[str, Any] = {"lam": 2.0, "xi": 0.01, "center": "mean"}


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return evaluate(DATA, proximal("1:5", **GIVEN), share=0.3, random_state=2)


@pytest.fixture(scope="module")
def mixed() -> Evaluation:
    """Ratings, labels and any numbers in one table."""
    return evaluate(_mixed(), SnapImputer(MIXED, method=Proximal(lam=0.5, xi=0.01, center="columns")), share=0.3)


MIXED = [Alphabet.of("1:5")] * 6 + [Alphabet.of(["n", "y"])] * 3 + [None, None]


def _mixed(lost: float = 0.3) -> Observations:
    rng = np.random.default_rng(0)
    mood = rng.uniform(-1, 1, 40)[:, None] + 0.2 * rng.standard_normal((40, 11))
    X = np.empty((40, 11))
    X[:, :6] = np.clip(np.round(3 + 2 * mood[:, :6]), 1, 5)
    X[:, 6:9] = mood[:, 6:9] > 0
    X[:, 9:] = 100 + 30 * mood[:, 9:]
    return Observations.from_dense(np.where(rng.random(X.shape) < lost, NAN, X))


# -------------------------------------------------------------------- baselines, by hand
def test_hidden_cells_stand_in_the_order_of_the_table():
    """What the numbers below rest on."""
    assert HIDDEN.values.tolist() == TRUTH
    assert list(zip(HIDDEN.rows.tolist(), HIDDEN.cols.tolist(), strict=True)) == [(0, 2), (1, 2), (2, 1), (3, 0)]


@pytest.mark.parametrize(
    ("label", "estimate", "symbols"),
    [
        ("most common symbol", [1, 1, 1, 1], [1, 1, 1, 1]),  # 1 and 4 come twice, the lower one is taken
        ("most common of the column", [1, 1, 4, 1], [1, 1, 4, 1]),  # nothing is known of the third: as in the table
        ("mean of the column, rounded", [17 / 6, 17 / 6, 13 / 3, 4 / 3], [3, 3, 4, 1]),
    ],
)
def test_baselines(label, estimate, symbols):
    """Estimates, symbols and all scores of each, on a table of six known and four hidden cells."""
    way = {one.label: one for one in _baselines(KNOWN, HIDDEN, FIVE, ONES, KnownCells(KNOWN))}[label]
    np.testing.assert_allclose(way.estimate, estimate)
    np.testing.assert_array_equal(way.symbols, symbols)
    right = [a == b for a, b in zip(symbols, TRUTH, strict=True)]
    share = sum(right) / 4
    assert way.exact == share
    assert way.error == pytest.approx(math.sqrt(share * (1 - share) / 4))
    assert way.mae == pytest.approx(sum(abs(a - b) for a, b in zip(symbols, TRUTH, strict=True)) / 4)
    assert way.rmse == pytest.approx(math.sqrt(sum((a - b) ** 2 for a, b in zip(estimate, TRUTH, strict=True)) / 4))
    assert way.kind == "baseline"


def test_damped_biases():
    """The minimiser of the documented sum of squares, checked by its normal equations."""
    way = {one.label: one for one in _baselines(KNOWN, HIDDEN, FIVE, ONES, KnownCells(KNOWN))}[
        "damped biases, rounded"
    ]
    mean, (damp_rows, damp_cols) = KNOWN.values.mean(), DAMPING
    size = 4 + 3
    A, b = np.zeros((size, size)), np.zeros(size)
    A[np.arange(4), np.arange(4)], A[np.arange(4, 7), np.arange(4, 7)] = damp_rows, damp_cols
    for i, j, value in zip(KNOWN.rows, KNOWN.cols, KNOWN.values, strict=True):
        for one in (i, 4 + j):
            A[one, [i, 4 + j]] += 1
            b[one] += value - mean
    biases = np.linalg.solve(A, b)
    np.testing.assert_allclose(way.estimate, mean + biases[HIDDEN.rows] + biases[4 + HIDDEN.cols], atol=1e-3)


def test_modes_of_columns_of_every_kind():
    """Symbols, labels, means of any numbers; an empty column gets what is usual in its kind."""
    book = ColumnSchema.of([Alphabet.of("1:5"), Alphabet.of("1:5"), ["n", "y"], ["n", "y"], None, None], 6)
    table = [[2, NAN, 1, NAN, 10, NAN], [2, NAN, 1, NAN, 20, NAN], [5, NAN, 0, NAN, 60, NAN]]
    np.testing.assert_allclose(_column_modes(Observations.from_dense(table), book), [2, 2, 1, 1, 30, 30])
    nothing = Observations.from_dense([[NAN, NAN, 1, 0, NAN, NAN]])
    np.testing.assert_allclose(_column_modes(nothing, book), [1, 1, 1, 0, 0, 0])


def test_the_most_common_symbol_needs_one_alphabet(mixed, found):
    """Among kinds there is none."""
    assert "most common symbol" in [way.label for way in found.ways]
    assert "most common symbol" not in [way.label for way in mixed.ways]


# -------------------------------------------------------------------- scores, by hand
def test_columns_count_in_units_of_their_range():
    """1..5 has four units, n and y one, any numbers what the schema says; only symbols can be right."""
    book = ColumnSchema.of([Alphabet.of("1:5"), ["n", "y"], None], 3)
    hidden = Observations.from_dense([[5.0, 1, 100], [1.0, 0, 100]])
    scale = np.array([4.0, 1, 50])
    estimate = np.array([2.6, 0.4, 125, 1.2, 0.1, 50])
    way = _rounded("x", "baseline", hidden, book, scale, estimate)
    np.testing.assert_array_equal(way.symbols, [3, 0, 125, 1, 0, 50])
    assert way.right.tolist() == [0, 0, 1, 1]
    assert way.exact == 0.5
    assert way.mae == pytest.approx((2 / 4 + 1 + 25 / 50 + 0 + 0 + 50 / 50) / 6)
    squares = (2.4 / 4) ** 2 + 0.6**2 + 0.5**2 + (0.2 / 4) ** 2 + 0.1**2 + 1
    assert way.rmse == pytest.approx(math.sqrt(squares / 6))


def test_cells_left_open_are_not_right_and_have_no_distance():
    """NaN is no symbol; the estimate below it counts as usual."""
    symbols = np.array([NAN, 1, NAN, 3])
    way = _way("x", "ours", HIDDEN, FIVE, ONES, np.full(4, 2.0), symbols)
    assert way.right.tolist() == [0, 1, 0, 0]
    assert way.exact == 0.25
    assert way.mae == 1.0
    assert way.rmse == pytest.approx(math.sqrt((9 + 1 + 4 + 1) / 4))
    nothing = _way("x", "ours", HIDDEN, FIVE, ONES, np.full(4, 2.0), np.full(4, NAN))
    assert nothing.exact == 0
    assert math.isnan(nothing.mae)


def test_without_alphabets_there_is_no_share_of_right_ones():
    """Only distances; the sentence speaks of these."""
    alone = evaluate(DATA, SnapImputer([None] * 25, method=Proximal(lam=2.0)))
    assert math.isnan(alone.ours.exact)
    assert math.isnan(alone.ours.error)
    assert all(math.isnan(one) for one in alone.gain(alone.ways[1]))
    assert alone.reliability() is None
    best = min(way.rmse for way in alone.ways if way.kind == "baseline")
    assert str(alone).startswith(f"RMSE {alone.ours.rmse:.4g} at the hidden cells, {best:.4g} by ")


def test_gain_and_its_error(found):
    """The mean of the differences, cell by cell, and its standard error."""
    ours = replace(found.ours, right=np.array([1.0, 1, 1, 0, 1, 0, 0, 1]))
    other = replace(found.ours, right=np.array([1.0, 0, 0, 1, 1, 0, 0, 0]))
    gain, error = replace(found, ways=(ours, other)).gain(other)
    assert gain == 2 / 8
    differences = [0, 1, 1, -1, 0, 0, 0, 1]
    assert error == pytest.approx(math.sqrt(sum((d - gain) ** 2 for d in differences) / 8 / 8))


def test_the_sentence_says_what_is_measurable(found):
    """Points against rounding and the best baseline, with a remark where two standard errors are not reached."""
    text = str(found)
    assert text.startswith(f"{100 * found.ours.exact:.2f} % of the hidden cells right: ")
    best = max((way for way in found.ways if way.kind == "baseline"), key=lambda way: way.exact)
    for other in (found.ways[1], best):
        gain, error = found.gain(other)
        part = next(part for part in text.split("; ") if other.label in part)
        assert f"{100 * gain:+.2f} ± {100 * error:.2f} points" in part
        assert ("no measurable difference" in part) == (abs(gain) <= 2 * error)


def test_confusion(found, mixed):
    """Counts by true and written symbol; of each kind; open cells are left out; any numbers have none."""
    table = found.confusion(0)
    np.testing.assert_array_equal(table, metrics.confusion(found.hidden.values, found.ours.symbols, "1:5"))
    assert table.sum() == len(found.hidden)
    rounded = found.confusion(0, found.ways[1])
    np.testing.assert_array_equal(rounded, metrics.confusion(found.hidden.values, found.ways[1].symbols, "1:5"))
    sizes = [mixed.confusion(kind).shape for kind in (0, 1)]
    assert sizes == [(5, 5), (2, 2)]
    inside = np.isin(mixed.hidden.cols, [6, 7, 8])
    assert mixed.confusion(1).sum() == inside.sum()
    with pytest.raises(ValueError, match="no symbols to confuse"):
        mixed.confusion(2)
    half = np.where(np.arange(len(found.hidden)) % 2 == 0, NAN, found.ours.symbols)
    partly = replace(found, ways=(replace(found.ours, symbols=half), *found.ways[1:]))
    assert partly.confusion(0).sum() == len(found.hidden) // 2
    nothing = replace(found, ways=(replace(found.ours, symbols=np.full(len(found.hidden), NAN)), *found.ways[1:]))
    assert nothing.confusion(0).tolist() == np.zeros((5, 5)).tolist()


# -------------------------------------------------------------------- probabilities
def same(one: Reliability | None, other: Reliability) -> None:
    assert one is not None
    for name in ("confidence", "accuracy", "count"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)


def test_reliability_of_one_kind_is_that_of_the_metrics(found):
    """The very same bins."""
    assert found.proba[0] is not None
    same(found.reliability(), metrics.reliability(found.hidden.values, found.proba[0], "1:5"))


def test_reliability_at_the_edge_of_a_bin(found):
    """Confidences that all lie on the edge of a bin stay in it, however their mean is rounded."""
    p = np.tile([0.1, 0.1, 0.1, 0.1, 0.6], (len(found.hidden), 1))
    p[::2] = [0.05, 0.05, 0.05, 0.26, 0.59]
    some = replace(found, proba=(p,))
    same(some.reliability(), metrics.reliability(found.hidden.values, p, "1:5"))
    assert some.reliability().count.size == 2


def test_reliability_of_several_kinds_is_of_all_their_cells(mixed):
    """As if right or wrong had been asked of each cell by itself."""
    sure, right = [], []
    for kind, alphabet in enumerate(mixed.schema.kinds):
        p = mixed.proba[kind]
        assert (p is None) == (alphabet is None)
        if alphabet is None:
            continue
        truth = mixed.hidden.values[mixed.schema.inside(kind, mixed.hidden.cols)]
        assert p.shape == (truth.size, len(alphabet))
        sure += p.max(axis=1).tolist()
        right += (alphabet.symbols[p.argmax(axis=1)] == truth).tolist()
    bins = [min(int(15 * s), 14) for s in sure]
    used = sorted(set(bins))
    of = {b: [i for i, one in enumerate(bins) if one == b] for b in used}
    expected = Reliability(
        np.array([np.mean([sure[i] for i in of[b]]) for b in used]),
        np.array([np.mean([right[i] for i in of[b]]) for b in used]),
        np.array([len(of[b]) for b in used]),
    )
    same(mixed.reliability(), expected)


def test_a_kind_without_hidden_cells_is_no_trouble():
    """Nor one that nothing is known of."""
    table = _mixed().take(np.flatnonzero(~np.isin(_mixed().cols, [6, 7, 8])))
    order = [None, None, *MIXED[:6], *MIXED[6:9]]
    turned = Observations.from_coo(table.rows, (table.cols + 2) % 11, table.values, table.shape)
    some = evaluate(turned, SnapImputer(order, method=Proximal(lam=0.5, xi=0.01, center="columns")))
    assert some.reliability() is not None
    assert some.proba[2].shape == (0, 2)
    assert some.confusion(2).tolist() == [[0, 0], [0, 0]]


def test_without_probabilities(found):
    """decide="nearest" has none: symbols are those nearest to the estimate."""
    some = evaluate(DATA, proximal("1:5", decide="nearest", **GIVEN))
    assert some.proba == (None,)
    assert some.reliability() is None
    np.testing.assert_array_equal(some.ours.symbols, Alphabet.of("1:5").snap(some.ours.estimate))


def test_cells_that_are_not_sure_enough_stay_open():
    """They are not right; the probabilities are of all cells."""
    some = evaluate(DATA, proximal("1:5", min_confidence=0.6, **GIVEN))
    open_ = np.isnan(some.ours.symbols)
    assert some.proba[0] is not None
    np.testing.assert_array_equal(open_, some.proba[0].max(axis=1) < 0.6)
    assert 0 < open_.sum() < open_.size
    assert not some.ours.right[open_].any()
    assert some.confusion(0).sum() == (~open_).sum()
    labelled = Observations.from_coo(DATA.rows, DATA.cols, (DATA.values > 3).astype(float), DATA.shape)
    some = evaluate(labelled, proximal(["n", "y"], min_confidence=0.9, **GIVEN))
    assert 0 < np.isnan(some.ours.symbols).sum() < len(some.hidden)


# -------------------------------------------------------------------- what is hidden
def test_a_share_is_hidden_by_seed(found):
    """Known and hidden cells are those of the split."""
    known, hidden = DATA.split(0.3, random_state=2)
    for one, other in ((found.known, known), (found.hidden, hidden)):
        np.testing.assert_array_equal(one.rows, other.rows)
        np.testing.assert_array_equal(one.values, other.values)


@pytest.mark.parametrize("tuned", [False, True])
def test_hidden_cells_are_really_hidden(tuned):
    """Other values there change no number of the fit, of the baselines, or of the probabilities."""
    hidden = np.zeros(len(DATA), dtype=bool)
    hidden[np.random.default_rng(5).permutation(len(DATA))[: round(0.2 * len(DATA))]] = True
    others = DATA.with_values(np.where(hidden, 6 - DATA.values, DATA.values))
    settings = {} if tuned else GIVEN
    one, other = (evaluate(table, proximal("1:5", **settings), random_state=5) for table in (DATA, others))
    np.testing.assert_array_equal(other.hidden.values, 6 - one.hidden.values)
    for a, b in zip(one.ways, other.ways, strict=True):
        np.testing.assert_array_equal(a.estimate, b.estimate)
        np.testing.assert_array_equal(a.symbols, b.symbols)
    np.testing.assert_array_equal(one.proba[0], other.proba[0])
    assert (one.imputer.lam_, one.imputer.xi_) == (other.imputer.lam_, other.imputer.xi_)
    assert one.ours.exact != other.ours.exact


def test_a_copy_is_fitted():
    """The imputer that was given stays as it was; callbacks are called, though."""
    seen: list[Any] = []
    imputer = SnapImputer(
        "1:5", method=Proximal(xi=0.0, center="mean"), progress=seen.append, callback=lambda info: None
    )
    some = evaluate(DATA, imputer)
    assert not hasattr(imputer, "left_")
    assert tuple(seen) == some.imputer.choice_.tried


def test_evaluate_is_strict_and_check_says_whether_it_is(found):
    """λ and ξ that were chosen on all cells know something of those hidden later; numbers that were given do not."""
    assert found.strict
    tuned = SnapImputer("1:5", method=Proximal(center="mean")).fit(DATA)
    some = check(DATA, tuned)
    assert not some.strict
    assert some.imputer.choice_ is None
    assert (some.imputer.lam_, some.imputer.xi_, some.imputer.center_) == (tuned.lam_, tuned.xi_, tuned.center_)
    given = proximal("1:5", **GIVEN).fit(DATA)
    assert check(DATA, given).strict
    assert evaluate(DATA, SnapImputer("1:5", method="proximal")).imputer.choice_ is not None


def test_check_hides_other_cells_than_were_held_out():
    """The seed differs from that of the tuning."""
    tuned = SnapImputer("1:5", method=Proximal(center="mean", xi=0.0), random_state=7).fit(DATA)
    held = tuned.choice_.held_out[0].observations
    hidden = check(DATA, tuned).hidden
    assert len(held) == len(hidden)
    places = [set(zip(some.rows.tolist(), some.cols.tolist(), strict=True)) for some in (held, hidden)]
    assert len(places[0] & places[1]) < 0.5 * len(held)


def test_check_is_evaluate_at_the_same_strengths():
    """The same cells hidden, the same numbers."""
    given = proximal("1:5", **GIVEN, random_state=3).fit(DATA)
    one = check(DATA, given)
    other = evaluate(DATA, proximal("1:5", **GIVEN, random_state=3), random_state=4)
    np.testing.assert_array_equal(one.hidden.rows, other.hidden.rows)
    for a, b in zip(one.ways, other.ways, strict=True):
        np.testing.assert_array_equal(a.estimate, b.estimate)


@pytest.mark.parametrize(
    "settings",
    [
        {"spectral": si.Nuclear(2.0), "center": "mean"},
        {"discrete": si.L1("1:5", xi=0.01), "lam": 2.0, "center": "mean"},
        {"discrete": None, "lam": 2.0},
        {"discrete": "ridge", "lam": 2.0, "xi": 0.01},
        {"symbol_weights": "frequency", **GIVEN},
        {"solver": "soft-impute", **GIVEN},
        {"discrete": "l0", **GIVEN},
    ],
    ids=str,
)
def test_penalties_and_solvers_of_all_kinds_are_checked(settings):
    """Objects that bring their own strength, none, weights: the checked fit is that of the imputer."""
    imputer = proximal("1:5", **settings).fit(DATA)
    some = check(DATA, imputer)
    assert (some.imputer.lam_, some.imputer.xi_) == (imputer.lam_, imputer.xi_)
    assert some.ways[1].label == "plain low rank, rounded"
    assert evaluate(DATA, proximal("1:5", **settings)).ours.exact > 0.3


# -------------------------------------------------------------------- against rounding
def test_rounding_is_the_fit_without_a_discrete_penalty(found):
    """At the same λ; with ξ = 0 it is our own estimate."""
    plain = SnapImputer("1:5", method=Proximal(lam=2.0, discrete=None, center="mean"), decide="nearest").fit(
        found.known
    )
    np.testing.assert_allclose(found.ways[1].estimate, plain.predict_mean(found.hidden.rows, found.hidden.cols))
    assert not np.array_equal(found.ways[1].estimate, found.ours.estimate)
    own = evaluate(DATA, SnapImputer("1:5", method=Proximal(lam=2.0, xi=0.0, center="mean")))
    np.testing.assert_array_equal(own.ways[1].estimate, own.ours.estimate)
    np.testing.assert_array_equal(own.ways[1].symbols, Alphabet.of("1:5").snap(own.ours.estimate))


def test_rounding_has_the_best_strength_of_its_own():
    """Where λ was tuned, the plain fit gets the λ that was best without a penalty."""
    imputer = SnapImputer("1:5", method=Proximal(center="mean")).fit(DATA)
    fit, verdict = imputer.fit_, replace(imputer.verdict_, plain=replace(imputer.verdict_.plain, lam=9.0))
    tuned = replace(fit.tuned, choice=replace(imputer.choice_, verdict=verdict))
    imputer._model = replace(imputer._model, fit=replace(fit, tuned=tuned))
    some = check(DATA, imputer)
    plain = SnapImputer("1:5", method=Proximal(lam=9.0, discrete=None, center="mean"), decide="nearest").fit(
        some.known
    )
    np.testing.assert_allclose(some.ways[1].estimate, plain.predict_mean(some.hidden.rows, some.hidden.cols))


# -------------------------------------------------------------------- labels and floats
def test_labels(mixed):
    """Symbols of labels are their positions, in the truth and in what was written."""
    book = mixed.schema
    assert [None if kind is None else kind.labels for kind in book.kinds] == [None, ("n", "y"), None]
    inside = np.isin(mixed.hidden.cols, [6, 7, 8])
    assert set(mixed.ours.symbols[inside]) <= {0.0, 1.0}
    rows, cols = mixed.hidden.rows[inside], mixed.hidden.cols[inside]
    names = np.array(["n", "y"], dtype=object)[mixed.ours.symbols[inside].astype(int)]
    np.testing.assert_array_equal(names, mixed.imputer.predict(rows, cols))
    numbers = np.isin(mixed.hidden.cols, [9, 10])
    np.testing.assert_array_equal(mixed.ours.symbols[numbers], mixed.ours.estimate[numbers])
    assert mixed.ours.right.size == (~numbers).sum()


def test_symbols_that_came_in_single_precision_count_as_right():
    """0.1 of float32 is 0.100000001: the symbol is the same."""
    values = (DATA.values / 10).astype(np.float32).astype(np.float64)
    rough = Observations.from_coo(DATA.rows, DATA.cols, values, DATA.shape)
    fine = Observations.from_coo(DATA.rows, DATA.cols, DATA.values / 10, DATA.shape)
    alphabet, settings = [0.1, 0.2, 0.3, 0.4, 0.5], {"lam": 0.2, "xi": 0.001, "center": "mean"}
    one, other = (evaluate(table, proximal(alphabet, **settings)) for table in (rough, fine))
    assert [way.exact for way in one.ways] == [way.exact for way in other.ways]
    assert one.ours.exact > 0.3
    assert one.confusion(0).tolist() == other.confusion(0).tolist()
