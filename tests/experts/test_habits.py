"""The expert of habits: its formula, its powers, new rows, every kind of column."""

from __future__ import annotations

import numpy as np
import pytest

from snapimpute import Alphabet, Habits, Nominal, Observations
from snapimpute.data.schema import ColumnSchema

NAN = np.nan


def person_and_item(seed: int = 0, shape: tuple[int, int] = (80, 40)) -> np.ndarray:
    """Answers that follow from the person and the item, each by itself."""
    rng = np.random.default_rng(seed)
    level = 1.5 * rng.standard_normal((shape[0], 1)) + rng.standard_normal(shape[1])
    return (level + 0.7 * rng.standard_normal(shape) > 0).astype(float)


def test_probabilities_are_the_formula():
    """P(s) ∝ usual share × (row's share / usual)^a × (column's share / usual)^b, with damped shares."""
    X = np.where(np.random.default_rng(1).random((20, 10)) < 0.7, person_and_item(0, (20, 10)), NAN)
    fit = Habits(damping=3.0).fit(Observations.from_dense(X), [0, 1])
    usual = np.array([(X == 0).sum() + 1, (X == 1).sum() + 1]) / ((~np.isnan(X)).sum() + 2)
    a, b = fit.powers[0]

    def shares(cells: np.ndarray) -> np.ndarray:
        counts = np.array([(cells == 0).sum(), (cells == 1).sum()])
        return (counts + 3.0 * usual) / (counts.sum() + 3.0)

    expected = usual * (shares(X[4]) / usual) ** a * (shares(X[:, 7]) / usual) ** b
    np.testing.assert_allclose(fit.proba([4], [7])[0], expected / expected.sum(), rtol=1e-5)


def test_habits_of_nobody_have_no_power():
    """In random answers frequencies of rows and columns tell nothing; in those that follow from them, much."""
    noise = np.random.default_rng(0).integers(0, 2, (150, 60)).astype(float)
    assert (Habits().fit(Observations.from_dense(noise), [0, 1]).powers < 0.35).all()
    assert (Habits().fit(Observations.from_dense(person_and_item()), [0, 1]).powers > 0.6).all()


def test_new_rows_keep_the_columns_of_the_fit():
    """A new row has its own habits and the columns' known ones; a fitted row has the answers of the fit."""
    X = person_and_item()
    fit = Habits().fit(Observations.from_dense(X), [0, 1])
    again = fit.fold_in(Observations.from_dense(X[:5]))
    rows, cols = np.indices((5, 40)).reshape(2, -1)
    np.testing.assert_allclose(again.proba(rows, cols), fit.proba(rows, cols), rtol=1e-6)
    nobody = fit.fold_in(Observations.from_coo([0], [0], [1.0], (2, 40)))
    assert nobody.proba([1], [3])[0, 1] == pytest.approx(
        fit.fold_in(Observations.from_coo([0], [9], [0.0], (2, 40))).proba([1], [3])[0, 1]
    )


def test_every_kind_of_column():
    """Numbers get the mean of their column, categories and ordered symbols their probabilities."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 50), rng.normal(7, 1, 50), rng.integers(1, 6, 50)]).astype(float)
    X[rng.random(X.shape) < 0.2] = NAN
    schema = ColumnSchema((Nominal(["a", "b", "c"]), None, Alphabet.of("1:5")), np.array([0, 1, 2]))
    fit = Habits().fit(Observations.from_dense(X), schema)
    assert fit.mean([3], [1])[0] == pytest.approx(np.nanmean(X[:, 1]))
    assert fit.proba([3], [0]).shape == (1, 3)
    assert fit.proba([3], [2]).shape == (1, 5)


def test_draws_follow_the_probabilities():
    """Of many drawn tables as many have a symbol as its probability says, and known cells stay."""
    X = np.where(np.random.default_rng(1).random((20, 10)) < 0.7, person_and_item(0, (20, 10)), NAN)
    X[0, 0] = NAN
    fit = Habits().fit(Observations.from_dense(X), [0, 1])
    drawn = fit.draw(2000, [0, 1], [0, 1])[:, 0]
    assert drawn.mean() == pytest.approx(fit.proba([0], [0])[0, 1], abs=0.04)
