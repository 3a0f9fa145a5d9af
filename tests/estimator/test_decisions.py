"""Symbols that an estimator writes: by the probabilities of the fit, the loss, and the least confidence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapimpute import Alphabet, ExpertFit, Nominal, Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator.model import Decision, Predictions
from snapimpute.experts.decide import decided

KINDS = (Alphabet.of("0,1"), Alphabet.of([-3.0, 0.0, 1.0, 10.0]), None, Nominal(["a", "b", "c"]))
MIXED = ColumnSchema(KINDS, np.array([0, 1, 2, 0, 1, 3]))
LOSSES = ("accuracy", "mae", "rmse")


class Fixed(ExpertFit):
    """Random probabilities, the same for a cell whenever it is asked for; the number of a cell is its place."""

    def __init__(self, schema: ColumnSchema, rows: int = 30) -> None:
        super().__init__(Observations.from_dense(np.ones((rows, schema.which.size))), schema)
        self.p = np.random.default_rng(0).dirichlet(np.ones(4), (rows, schema.which.size))

    def chances(self, rows, cols):
        alphabet = self.schema[int(cols[0])]
        p = self.p[rows, cols][:, : len(alphabet)]
        return p / p.sum(axis=1, keepdims=True)

    def _numbers(self, rows, cols):
        return 100.0 * rows + cols


def cells(seed: int = 5, size: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 30, size), rng.integers(0, 6, size)


@pytest.mark.parametrize("rule", LOSSES)
def test_every_cell_is_decided_by_its_own_alphabet(rule):
    """Symbols are those that the loss asks for; numbers are as expected; of categories the likeliest is taken."""
    fit, (rows, cols) = Fixed(MIXED), cells()
    found = Predictions(fit, MIXED, Decision(rule)).symbols(rows, cols)
    for i in range(rows.size):
        alphabet = MIXED[int(cols[i])]
        if alphabet is None:
            assert found[i] == 100 * rows[i] + cols[i]
            continue
        p = fit.proba(rows[i : i + 1], cols[i : i + 1])
        loss = rule if alphabet.ordered else "accuracy"
        assert found[i] == alphabet.symbols[decided(p, alphabet.symbols, loss)[0]]


@given(st.floats(0.01, 1.0), st.sampled_from(LOSSES))
def test_what_is_not_sure_enough_is_left_open(threshold, rule):
    """NaN exactly where the decided symbol, not the likeliest one, is less probable than asked for."""
    fit, (rows, cols) = Fixed(MIXED), cells()
    found = Predictions(fit, MIXED, Decision(rule, threshold)).symbols(rows, cols)
    free = Predictions(fit, MIXED, Decision(rule)).symbols(rows, cols)
    for i in range(rows.size):
        alphabet = MIXED[int(cols[i])]
        if alphabet is None:
            assert found[i] == free[i]
            continue
        p = fit.proba(rows[i : i + 1], cols[i : i + 1])[0, alphabet.indices(free[i : i + 1])[0]]
        np.testing.assert_equal(found[i], np.nan if p < threshold else free[i])


def test_nearest_is_snapping():
    """The expected value becomes the nearest symbol of its column; categories have none, and get the likeliest."""
    fit, (rows, cols) = Fixed(MIXED), cells()
    found = Predictions(fit, MIXED, Decision("nearest")).symbols(rows, cols)
    for i in range(rows.size):
        alphabet, at = MIXED[int(cols[i])], (rows[i : i + 1], cols[i : i + 1])
        if alphabet is None:
            assert found[i] == 100 * rows[i] + cols[i]
        elif alphabet.ordered:
            assert found[i] == alphabet.snap(fit.mean(*at))[0]
        else:
            assert found[i] == fit.proba(*at)[0].argmax()
