"""Symbols are decided by calibrated probabilities and the loss that was asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize

from snapimpute import Alphabet, Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.evaluation.metrics import expected_calibration_error
from snapimpute.experts.decide import check_decide, decided
from snapimpute.experts.proximal import calibration
from snapimpute.experts.proximal.calibration import Calibration, SymbolLogOdds, SymbolRule, counted

RATINGS = Alphabet.of("1:5")
UNEVEN = Alphabet.of([-3.0, 0.0, 1.0, 10.0])
MIXED = ColumnSchema.of(["0,1", "1:5", None, "0,1", "1:5"], 5)
LOSSES = {
    "accuracy": lambda a, b: (a != b).astype(float),
    "mae": lambda a, b: np.abs(a - b),
    "rmse": lambda a, b: (a - b) ** 2,
}


def shares(size: int) -> st.SearchStrategy[np.ndarray]:
    """Some rows of probabilities, with zeros and ties."""
    row = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.7, 4.0]), min_size=size, max_size=size).filter(any)
    return st.lists(row, min_size=1, max_size=10).map(lambda rows: np.array([np.array(p) / sum(p) for p in rows]))


def softmax(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def usual_of(alphabet: Alphabet, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(len(alphabet), 3.0))


def sample(alphabet: Alphabet, size: int, seed: int = 0, noise: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    """Symbols by their usual frequencies, and estimates that miss them by a Gaussian error."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(alphabet.symbols, size, p=usual_of(alphabet))
    return truth, truth + noise * rng.normal(size=size)


def mixed(seed: int = 0, shape: tuple[int, int] = (40, 5)) -> Observations:
    """Observations of the columns of `MIXED`; the last row and the last column have none."""
    rng = np.random.default_rng(seed)
    X = np.empty(shape)
    for alphabet, cols in MIXED.groups:
        some = (shape[0], cols.size)
        X[:, cols] = rng.normal(size=some) if alphabet is None else rng.choice(alphabet.symbols, some)
    X[rng.random(shape) < 0.3] = np.nan
    X[-1], X[:, -1] = np.nan, np.nan
    return Observations.from_dense(X)


def fitted(
    rule: Any = "accuracy", seed: int = 0, book: ColumnSchema = MIXED
) -> tuple[SymbolRule, Observations, Observations]:
    """A decider that was calibrated on a fifth of some observations, with all and with those held out."""
    obs = mixed(seed)
    _, held = obs.split(0.3, random_state=seed)
    noise = np.random.default_rng(seed).normal(size=len(held))
    return SymbolRule.fit(book, rule, obs, [(held, held.values + 0.6 * noise)]), obs, held


def some_cells(obs: Observations, seed: int = 5, size: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, obs.shape[0], size), rng.integers(0, obs.shape[1], size), rng.uniform(-1, 7, size)


# -------------------------------------------------------------------- the rule
@given(
    st.sampled_from([RATINGS, UNEVEN, Alphabet.of([2.5])]).flatmap(lambda a: st.tuples(st.just(a), shares(len(a))))
)
def test_what_is_decided_loses_least(case):
    """No other symbol has a smaller expected loss, of being wrong, absolute or squared."""
    alphabet, p = case
    for rule, loss in LOSSES.items():
        expected = p @ loss(alphabet.symbols[:, None], alphabet.symbols)
        which = decided(p, alphabet.symbols, rule)
        assert which.shape == (len(p),)
        found = expected[np.arange(len(p)), which]
        np.testing.assert_allclose(found, expected.min(axis=1), rtol=1e-12, atol=1e-12)


def test_rules_differ_where_they_should():
    """The most likely symbol, the median and the one next to the mean can be three."""
    p = np.array([[0.4, 0.25, 0.05, 0.3]])
    assert [decided(p, UNEVEN.symbols, rule).tolist() for rule in LOSSES] == [[0], [1], [2]]


@pytest.mark.parametrize("rule", ["accuracy", "mae", "rmse", "nearest"])
def test_rules_are_known(rule):
    """A rule is returned as it was given."""
    assert check_decide(rule) == rule


@pytest.mark.parametrize("wrong", ["error", None, 1])
def test_other_rules_are_refused(wrong):
    """The error names the choices and what was given."""
    with pytest.raises(
        ValueError, match=f"decide must be one of 'accuracy', 'mae', 'rmse', 'nearest', got {wrong!r}"
    ):
        check_decide(wrong)


# -------------------------------------------------------------------- probabilities
@given(
    st.sampled_from([RATINGS, UNEVEN, Alphabet.of("0,0.1"), Alphabet.of([2.5]), Alphabet.of("1:30")]),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    st.integers(0, 200),
)
def test_probabilities_are_probabilities(alphabet, estimate, size):
    """They sum to 1 and are finite however far the estimate is, with few data and with many."""
    truth, guess = sample(alphabet, size)
    p = Calibration.fit(alphabet, truth, guess, usual_of(alphabet), None, None).proba(np.array(estimate))
    assert p.shape == (len(estimate), len(alphabet))
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def test_beyond_the_alphabet_nothing_changes_any_more():
    """An estimate further out than half the range says what one at half the range says."""
    calibration = Calibration.fit(RATINGS, *sample(RATINGS, 300), usual_of(RATINGS), None, None)
    far, edge, inside = calibration.proba(np.array([-1e300, -1.0, -0.9]))
    np.testing.assert_allclose(far, edge, rtol=1e-13)
    assert np.abs(inside - edge).max() > 1e-4
    np.testing.assert_allclose(*calibration.proba(np.array([7.0, 1e300])), rtol=1e-13)


@pytest.mark.parametrize("alphabet", [RATINGS, UNEVEN])
def test_without_data_the_error_is_gaussian(alphabet):
    """Nothing held out: the usual frequencies times a Gaussian of the spread of the symbols."""
    usual, nothing = usual_of(alphabet), np.zeros(0)
    calibration = Calibration.fit(alphabet, nothing, nothing, usual, None, None)
    middle = usual @ alphabet.symbols
    variance = usual @ (alphabet.symbols - middle) ** 2
    x = np.linspace(alphabet.symbols[0], alphabet.symbols[-1], 9)
    expected = usual * np.exp(-((x[:, None] - alphabet.symbols) ** 2) / (2 * variance))
    np.testing.assert_allclose(calibration.proba(x), expected / expected.sum(axis=1, keepdims=True), rtol=1e-10)
    assert calibration.log_odds == (0.0, 0.0)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_few_data_stay_close_to_the_simple_case(size):
    """Some entries hardly move the Gaussian of their own error."""
    usual, x = usual_of(RATINGS), np.linspace(1, 5, 9)
    for seed in range(10):
        truth, estimate = sample(RATINGS, size, seed)
        noise = max(np.mean((truth - estimate) ** 2), 0.05**2 * np.cov(RATINGS.symbols, aweights=usual, ddof=0))
        simple = softmax(np.log(usual) - (x[:, None] - RATINGS.symbols) ** 2 / (2 * noise))
        few = Calibration.fit(RATINGS, truth, estimate, usual, None, None).proba(x)
        assert np.abs(few - simple).mean() < 0.12


def test_many_data_overcome_the_simple_case():
    """Where the larger the estimate, the smaller the truth, that is what is learnt."""
    truth, estimate = sample(RATINGS, 5000)
    turned = Calibration.fit(RATINGS, 6 - truth, estimate, usual_of(RATINGS), None, None)
    p = turned.proba(np.array([0.5, 2.0, 4.0, 5.5]))
    assert decided(p, RATINGS.symbols, "accuracy").tolist() == [4, 3, 1, 0]


def test_estimates_that_say_nothing_leave_the_frequencies():
    """Where estimate and truth are independent every probability is about the usual one."""
    usual, x = usual_of(RATINGS), np.linspace(1, 5, 9)
    truth, _ = sample(RATINGS, 20_000)
    estimate = np.random.default_rng(1).uniform(1, 5, truth.size)
    assert np.abs(Calibration.fit(RATINGS, truth, estimate, usual, None, None).proba(x) - usual).max() < 0.03
    few = Calibration.fit(RATINGS, truth[:3], truth[:3] + np.array([100.0, -100.0, 0.0]), usual, None, None)
    assert np.abs(few.proba(np.array([usual @ RATINGS.symbols])) - usual).max() < 0.2


def test_one_symbol_is_certain():
    """Whatever the estimate, there is nothing else to decide."""
    only = Alphabet.of([2.5])
    calibration = Calibration.fit(only, np.full(4, 2.5), np.array([1.0, 2, 3, 4]), np.ones(1), None, None)
    np.testing.assert_array_equal(calibration.proba(np.array([-1e300, 0.0, 2.5, 1e300])), np.ones((4, 1)))


def test_thirty_symbols():
    """Many symbols are fitted as well: the likeliest is near the estimate, and as often right as it says."""
    alphabet = Alphabet.of("1:30")
    calibration = Calibration.fit(alphabet, *sample(alphabet, 6000), usual_of(alphabet), None, None)
    truth, estimate = sample(alphabet, 6000, seed=1)
    p = calibration.proba(estimate)
    right = alphabet.symbols[decided(p, alphabet.symbols, "accuracy")] == truth
    assert right.mean() > np.mean(alphabet.snap(estimate) == truth)
    assert expected_calibration_error(truth, p, alphabet) < 0.05


# -------------------------------------------------------------------- the fit
def entries(size: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Held-out entries of five symbols by a model that is known: their estimates, habits and probabilities."""
    rng = np.random.default_rng(seed)
    estimate = rng.uniform(0.5, 5.5, size)
    rows, cols = 0.7 * rng.normal(size=(2, size, 5))
    a = RATINGS.symbols
    logits = -0.9 * (estimate[:, None] - a) ** 2 + 0.12 * (a - 3) ** 2 * (estimate[:, None] - 3) ** 2 / 4
    p = softmax(logits + np.array([0.5, -0.5, 0.0, 1.0, -1.0]) + 0.8 * rows + 0.3 * cols)
    truth = a[(p.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)]
    return {"truth": truth, "estimate": estimate, "rows": rows, "cols": cols, "p": p}


def fit(data: dict[str, np.ndarray], *, rows: bool = True, cols: bool = True) -> Calibration:
    usual = (np.bincount(RATINGS.indices(data["truth"]), minlength=5) + 1) / (data["truth"].size + 5)
    given = data["rows"] if rows else None, data["cols"] if cols else None
    return Calibration.fit(RATINGS, data["truth"], data["estimate"], usual, *given)


def test_a_known_model_is_recovered():
    """From many entries: the probabilities, the weights of the habits, and a small calibration error."""
    calibration = fit(entries(20_000))
    fresh = entries(20_000, seed=1)
    p = calibration.proba(fresh["estimate"], fresh["rows"], fresh["cols"])
    assert np.abs(p - fresh["p"]).mean() < 0.01
    assert calibration.log_odds == pytest.approx((0.8, 0.3), abs=0.05)
    assert expected_calibration_error(fresh["truth"], p, RATINGS) < 0.015


def test_habits_are_used_where_given():
    """Those of rows alone or of columns alone get a weight of their own place; without them it is 0."""
    data = entries(5000)
    assert fit(data, cols=False).log_odds == (pytest.approx(0.8, abs=0.15), 0.0)
    assert fit(data, rows=False).log_odds == (0.0, pytest.approx(0.3, abs=0.15))
    assert fit(data, rows=False, cols=False).log_odds == (0.0, 0.0)


@pytest.mark.parametrize(("rows", "cols"), [(True, True), (True, False), (False, True), (False, False)])
def test_the_gradient_is_that_of_the_loss(monkeypatch, rows, cols):
    """Against finite differences, at the start and away from it."""
    asked: list[Any] = []

    def spy(lost, start, **options):
        asked.append((lost, start))
        return minimize(lost, start, **options)

    monkeypatch.setattr(calibration, "minimize", spy)
    fit(entries(40), rows=rows, cols=cols)
    ((lost, start),) = asked
    rng = np.random.default_rng(0)
    for at in (start, start + 0.5 * rng.normal(size=start.size)):
        error = check_grad(lambda x: lost(x)[0], lambda x: lost(x)[1], at)
        assert error < 1e-4 * max(np.linalg.norm(lost(at)[1]), 1)


@pytest.mark.parametrize("size", [10, 1000])
def test_no_other_parameters_lose_less(size):
    """The likelihood of what was held out, less the ridge about the Gaussian case, is at its best."""
    data = entries(size)
    found = fit(data)
    usual = (np.bincount(RATINGS.indices(data["truth"]), minlength=5) + 1) / (size + 5)
    noise = np.mean((data["truth"] - data["estimate"]) ** 2)
    a = (RATINGS.symbols - found.middle) / found.spread
    sharp = found.spread**2 / noise
    simple = np.array([np.log(usual) - sharp * a**2 / 2, sharp * a, 0 * a])
    z = (data["estimate"] - found.middle) / found.spread
    powers, codes = np.column_stack([z**0, z, z**2]), RATINGS.indices(data["truth"])

    def lost(weights: np.ndarray, log_odds: np.ndarray) -> float:
        p = softmax(powers @ weights + log_odds[0] * data["rows"] + log_odds[1] * data["cols"])
        ridge = np.sum((weights - simple) ** 2) + np.sum(log_odds**2)
        return float(-np.log(p[np.arange(size), codes]).sum() + calibration.RIDGE * ridge / 2)

    least = lost(found.weights, np.array(found.log_odds))
    assert least < lost(simple, np.zeros(2))
    rng = np.random.default_rng(1)
    for step in (0.3, 0.03, 0.003):
        for _ in range(20):
            away = rng.normal(size=(3, 5)), rng.normal(size=2)
            assert lost(found.weights + step * away[0], np.array(found.log_odds) + step * away[1]) > least


# -------------------------------------------------------------------- habits
@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("book", [MIXED, ColumnSchema.single(RATINGS, 5)])
def test_counts_are_those_of_a_table(by_row, book):
    """How often each symbol stands in each row, or column, of the columns of a group; held-out entries do not."""
    obs = mixed() if book is MIXED else Observations.from_dense(np.random.default_rng(0).integers(1, 6, (9, 5)))
    kept, held = obs.split(0.3)
    for some, counts in (
        (obs, counted(obs, book, by_row=by_row)),
        (kept, counted(obs, book, by_row=by_row, held=[held])),
    ):
        dense = np.full(obs.shape, np.nan)
        dense[some.rows, some.cols] = some.values
        assert len(counts) == len(book.groups)
        for count, (alphabet, cols) in zip(counts, book.groups, strict=True):
            mine = np.full(obs.shape, np.nan)
            mine[:, cols] = dense[:, cols]
            symbols = [] if alphabet is None else list(alphabet)
            expected = [np.sum(mine == a, axis=1 if by_row else 0) for a in symbols]
            np.testing.assert_array_equal(count, np.array(expected).reshape(len(symbols), -1).T if symbols else count)
            assert count.shape == (obs.shape[0 if by_row else 1], len(symbols))


def test_several_sets_can_be_held_out():
    """What two sets hold is not counted."""
    obs = mixed()
    parts = [held for _, held in obs.kfold(3)]
    rest = obs.kfold(3)
    for _ in range(2):
        next(rest)
    _, last = next(rest)
    without = counted(obs, MIXED, by_row=True, held=parts[:2])
    for count, expected in zip(without, counted(last, MIXED, by_row=True), strict=True):
        np.testing.assert_array_equal(count, expected)


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=6))
def test_habits_are_logs_of_damped_shares(counts):
    """As if a few entries with the usual symbols were added to each lane."""
    count, usual = np.array(counts, dtype=float), np.array([0.2, 0.3, 0.5])
    found = SymbolLogOdds.of([count], [usual]).at(0, np.arange(len(counts)))
    for row, one in zip(count, found, strict=True):
        damped = (row + calibration.DAMPING * usual) / (row.sum() + calibration.DAMPING)
        np.testing.assert_allclose(one, np.log(damped / usual), atol=1e-13)


def test_a_lane_of_which_nothing_is_known_has_no_habit():
    """Log shares relative to the usual are 0 in a cold row or column, and not in the others."""
    rule, obs, _ = fitted()
    rows = rule.of_rows(obs)
    for group, (alphabet, _) in enumerate(MIXED.groups):
        if alphabet is not None:
            np.testing.assert_allclose(rows.tables[group][-1], 0, atol=1e-14)
            np.testing.assert_allclose(rule.cols.tables[group][-1], 0, atol=1e-14)
            assert np.abs(rows.tables[group][:-1]).max() > 0.1


def test_no_entry_is_its_own_evidence(monkeypatch):
    """A calibration sees the habits without the entries it is fitted to, each set without its own."""
    seen: list[tuple[Any, ...]] = []

    def spy(alphabet, truth, estimate, usual, rows, cols):
        seen.append((truth, estimate, rows, cols))
        return fit_calibration(alphabet, truth, estimate, usual, rows, cols)

    fit_calibration = Calibration.fit
    monkeypatch.setattr(Calibration, "fit", spy)
    obs = mixed()
    folds = list(obs.kfold(2))
    rule = SymbolRule.fit(MIXED, "mae", obs, [(held, held.values + 0.1) for _, held in folds])
    assert len(seen) == 2  # groups with an alphabet
    for group, (truth, estimate, rows, cols) in zip((0, 1), seen, strict=True):
        expected: list[list[np.ndarray]] = [[], [], []]
        for kept, held in folds:
            inside = np.isin(held.cols, MIXED.groups[group].cols)
            expected[0].append(held.values[inside])
            for by_row, lanes in ((True, held.rows), (False, held.cols)):
                log_odds = SymbolLogOdds.of(counted(kept, MIXED, by_row=by_row), rule.usual)
                expected[1 if by_row else 2].append(log_odds.at(group, lanes[inside]))
        for found, parts in zip((truth, rows, cols), expected, strict=True):
            np.testing.assert_array_equal(found, np.concatenate(parts))
        np.testing.assert_allclose(estimate, truth + 0.1)


def test_habits_of_too_many_lanes_are_not_used(monkeypatch):
    """Where they would need too much memory the probabilities go by the estimate alone."""
    monkeypatch.setattr(calibration, "MOST_NUMBERS", 50)  # 40 rows are too many, 5 columns are not
    rule, obs, _ = fitted()
    assert [one.log_odds[0] for one in rule.calibrations if one is not None] == [0.0, 0.0]
    assert all(one.log_odds[1] != 0 for one in rule.calibrations if one is not None)
    log_odds = rule.of_rows(obs)
    assert log_odds.tables[0].size == 0
    rows, cols, x = some_cells(obs)
    inside = MIXED.inside(0, cols)
    here = cols[inside], x[inside], log_odds
    np.testing.assert_array_equal(rule.proba(0, rows[inside], *here), rule.proba(0, rows[inside][::-1], *here))


def test_a_calibration_is_fitted_to_so_many_entries_at_most(monkeypatch):
    """Of more, every so manyth is taken."""
    monkeypatch.setattr(calibration, "MOST_ENTRIES", 10)
    sizes: list[int] = []
    fit_calibration = Calibration.fit
    monkeypatch.setattr(Calibration, "fit", lambda *given: sizes.append(given[1].size) or fit_calibration(*given))
    fitted()
    assert all(5 < size <= 10 for size in sizes)


# -------------------------------------------------------------------- the decider
def test_every_cell_has_the_probabilities_of_its_group():
    """They are those of the calibration of the group, by the estimate and the habits of row and column."""
    rule, obs, _ = fitted()
    rows, cols, x = some_cells(obs)
    log_odds = rule.of_rows(obs)
    for group in (0, 1):
        inside = np.flatnonzero(MIXED.which[cols] == group)
        p = rule.proba(group, rows[inside], cols[inside], x[inside], log_odds)
        by_hand = rule.calibrations[group].proba(
            x[inside], log_odds.tables[group][rows[inside]], rule.cols.tables[group][cols[inside]]
        )
        np.testing.assert_allclose(p, by_hand)
    assert rule.calibrations[2] is None


def test_the_usual_frequencies_are_those_of_the_group():
    """Each symbol is imagined once more, so that none has frequency 0."""
    rule, obs, _ = fitted()
    for (alphabet, cols), usual in zip(MIXED.groups, rule.usual, strict=True):
        if alphabet is not None:
            values = obs.values[np.isin(obs.cols, cols)]
            counts = np.array([np.sum(values == a) for a in alphabet]) + 1
            np.testing.assert_allclose(usual, counts / counts.sum())


def test_nearest_needs_no_calibration():
    """Without a loss there are no probabilities, and asking for them is an error."""
    obs = mixed()
    _, held = obs.split(0.3)
    rule = SymbolRule.fit(MIXED, "nearest", obs, [(held, held.values)])
    assert rule.calibrations == (None, None, None)
    with pytest.raises(ValueError, match='there are no probabilities with decide="nearest"'):
        rule.proba(0, np.zeros(1, int), np.zeros(1, int), np.zeros(1), rule.of_rows(obs))


def test_columns_of_any_numbers_have_no_probabilities():
    """There is no alphabet to have them of."""
    rule, obs, _ = fitted()
    zero = np.zeros(1, dtype=int)
    with pytest.raises(ValueError, match="nor of columns of any numbers"):
        rule.proba(2, zero, zero + 2, np.ones(1), rule.of_rows(obs))


def test_one_alphabet_for_all_columns():
    """The short way for one group gives what the long way gives."""
    obs = Observations.from_dense(np.random.default_rng(0).integers(1, 6, (20, 6)))
    _, held = obs.split(0.3)
    guess = held.values + 0.5
    one = ColumnSchema.single(RATINGS, 6)
    two = ColumnSchema((RATINGS, None), np.zeros(6, dtype=int))  # as if there were another kind
    found = []
    for book in (one, two):
        rule = SymbolRule.fit(book, "rmse", obs, [(held, guess)])
        found.append(rule.proba(0, *some_cells(obs), rule.of_rows(obs)))
    assert one.one is not None
    assert two.one is None
    np.testing.assert_array_equal(*found)


def test_without_anything_held_out_there_is_the_simple_case():
    """Nothing to calibrate on: habits are not used, the Gaussian of the spread is."""
    obs = mixed()
    rule = SymbolRule.fit(MIXED, "accuracy", obs, [])
    for group in (0, 1):
        alphabet, nothing = MIXED.kinds[group], np.zeros(0)
        expected = Calibration.fit(alphabet, nothing, nothing, rule.usual[group], None, None)
        np.testing.assert_array_equal(rule.calibrations[group].weights, expected.weights)
        assert rule.calibrations[group].log_odds == (0.0, 0.0)


def test_again_keeps_the_rule_and_counts_anew():
    """More data, and more columns: the calibrations stay, the habits of the columns are those of the data."""
    rule, _, _ = fitted("mae")
    wide = MIXED.widened(2)
    more = Observations.from_dense(np.random.default_rng(3).integers(0, 2, (8, 7)) + np.array([0, 1, 0, 0, 1, 0, 0]))
    again = rule.again(wide, more)
    assert (again.book, again.decide) == (wide, "mae")
    assert again.calibrations is rule.calibrations
    assert again.usual is rule.usual
    expected = SymbolLogOdds.of(counted(more, wide, by_row=False), rule.usual)
    for found, table in zip(again.cols.tables, expected.tables, strict=True):
        np.testing.assert_array_equal(found, table)
    assert np.abs(again.cols.tables[0][5:]).max() > 0  # the new columns have habits
    rows, cols, x = some_cells(more)
    inside = wide.inside(0, cols)
    assert again.proba(0, rows[inside], cols[inside], x[inside], again.of_rows(more)).shape[1] == 2
