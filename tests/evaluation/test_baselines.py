"""Baselines: their optimality on small problems, and the reference values on MovieLens-100k."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapimpute import Observations
from snapimpute.data.datasets import Dataset
from snapimpute.evaluation.baselines import ConstantMean, DampedBiases, Mode
from snapimpute.evaluation.metrics import nmse

FITS = [ConstantMean.fit, Mode.fit, DampedBiases.fit]


@st.composite
def observations(draw: st.DrawFn) -> Observations:
    """Any small observations, with empty rows and columns too."""
    m, n = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    cells = sorted(draw(st.sets(st.integers(0, m * n - 1), min_size=1)))
    values = draw(st.lists(st.integers(1, 5), min_size=len(cells), max_size=len(cells)))
    rows, cols = np.divmod(np.array(cells), n)
    return Observations.from_coo(rows, cols, np.array(values, dtype=float), (m, n))


def ridge(obs: Observations, damping_rows: float, damping_cols: float) -> np.ndarray:
    """Solve the normal equations of the damped biases (rows, then columns) densely."""
    (m, n), size = obs.shape, len(obs)
    design = np.zeros((size, m + n))
    design[np.arange(size), obs.rows] = 1
    design[np.arange(size), m + obs.cols] = 1
    damping = np.diag(np.r_[np.full(m, damping_rows), np.full(n, damping_cols)])
    return np.linalg.solve(design.T @ design + damping, design.T @ (obs.values - obs.values.mean()))


@given(observations(), st.floats(0.5, 20), st.floats(0.5, 20))
def test_biases_solve_the_ridge_problem(obs: Observations, damping_rows: float, damping_cols: float) -> None:
    """Alternating damped means arrive at the solution of the normal equations."""
    fitted = DampedBiases.fit(obs, damping_rows=damping_rows, damping_cols=damping_cols, max_sweeps=1000, tol=1e-13)
    expected = ridge(obs, damping_rows, damping_cols)
    np.testing.assert_allclose(np.r_[fitted.row_biases, fitted.col_biases], expected, atol=1e-9)
    assert fitted.mean == pytest.approx(obs.values.mean())


@given(observations(), st.sampled_from([0.0, 5.0]))
def test_unseen_rows_and_columns_have_no_bias(obs: Observations, damping: float) -> None:
    """Where nothing was observed the bias is exactly 0, with and without damping."""
    fitted = DampedBiases.fit(obs, damping_rows=damping, damping_cols=damping)
    assert (fitted.row_biases[np.setdiff1d(np.arange(obs.shape[0]), obs.rows)] == 0).all()
    assert (fitted.col_biases[np.setdiff1d(np.arange(obs.shape[1]), obs.cols)] == 0).all()
    assert np.isfinite(np.r_[fitted.row_biases, fitted.col_biases]).all()


def test_undamped_biases_recover_an_additive_matrix() -> None:
    """Without damping a matrix that is a sum of row and column effects is reproduced, unseen cells too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 1)) + rng.normal(size=15)
    kept, held = Observations.from_dense(X).split(0.3)
    fitted = DampedBiases.fit(kept, damping_rows=0, damping_cols=0, max_sweeps=500, tol=1e-12)
    np.testing.assert_allclose(fitted.entries(held.rows, held.cols), held.values, atol=1e-8)


def test_heavy_damping_leaves_the_mean() -> None:
    """In the limit of infinite damping the biases vanish and the constant mean is left."""
    obs = Observations.from_dense([[1, 5, np.nan], [2, 2, 4]])
    fitted = DampedBiases.fit(obs, damping_rows=1e12, damping_cols=1e12)
    constant = ConstantMean.fit(obs)
    np.testing.assert_allclose(fitted.entries([0, 1], [2, 0]), constant.entries([0, 1], [2, 0]), atol=1e-9)


@given(observations(), st.floats(0, 20))
def test_infinite_damping_leaves_one_kind_of_bias(obs: Observations, damping: float) -> None:
    """Rows or columns whose damping is infinite have no bias at all; the others have damped means."""
    for name, lanes, size in (("rows", obs.rows, obs.shape[0]), ("cols", obs.cols, obs.shape[1])):
        dampings = {"damping_rows": np.inf, "damping_cols": np.inf, f"damping_{name}": damping}
        fitted = DampedBiases.fit(obs, **dampings)
        biases = {"rows": fitted.row_biases, "cols": fitted.col_biases}
        found = biases.pop(name)
        assert (next(iter(biases.values())) == 0).all()
        for lane in range(size):
            mine = obs.values[lanes == lane] - obs.values.mean()
            expected = mine.sum() / (mine.size + damping) if mine.size else 0.0
            assert found[lane] == pytest.approx(expected, abs=1e-12)


def test_infinite_damping_of_both_is_the_mean() -> None:
    """Without any bias the constant mean is left, exactly."""
    obs = Observations.from_dense([[1, 5, np.nan], [2, 2, 4]])
    fitted = DampedBiases.fit(obs, damping_rows=np.inf, damping_cols=np.inf)
    assert fitted.entries([0, 1], [2, 0]).tolist() == ConstantMean.fit(obs).entries([0, 1], [2, 0]).tolist()


def test_biases_are_ready_to_be_a_matrix_of_rank_two() -> None:
    """mean + row_biases + col_biases, as an outer sum, is what entries gives."""
    obs = Observations.from_dense([[1, 5, np.nan], [2, 2, 4]])
    fitted = DampedBiases.fit(obs)
    matrix = fitted.mean + np.add.outer(fitted.row_biases, fitted.col_biases)
    rows, cols = np.divmod(np.arange(6), 3)
    np.testing.assert_allclose(fitted.entries(rows, cols).reshape(2, 3), matrix, rtol=1e-14)
    assert np.linalg.matrix_rank(matrix) <= 2
    with pytest.raises(ValueError, match="read-only"):
        fitted.row_biases[0] = 1


@given(observations(), st.floats(-10, 10))
def test_mean_is_the_best_constant(obs: Observations, other: float) -> None:
    """No other constant has a smaller squared error on what was observed."""
    mean = ConstantMean.fit(obs).entries(obs.rows, obs.cols)
    assert ((obs.values - mean) ** 2).sum() <= ((obs.values - other) ** 2).sum() + 1e-9


@given(observations())
def test_mode_is_right_most_often(obs: Observations) -> None:
    """No symbol matches more observed entries, and of equals the smallest is taken."""
    symbol = Mode.fit(obs).symbol
    hits = {s: int((obs.values == s).sum()) for s in range(1, 6)}
    assert symbol == min(s for s in hits if hits[s] == max(hits.values()))
    assert set(Mode.fit(obs).entries([0, 0], [0, 0]).tolist()) == {symbol}


@pytest.mark.movielens
@pytest.mark.parametrize(
    ("ratio", "mean_score", "bias_score"), [(0.2, 0.0924, 0.0688), (0.6, 0.0924, 0.0648)], ids=["20 %", "60 %"]
)
def test_reference_values(movielens: Dataset, ratio: float, mean_score: float, bias_score: float) -> None:
    """On MovieLens-100k the mean and the biases, by their defaults, have the known NMSE."""
    order = np.random.default_rng(0).permutation(100_000)
    seen, test = np.split(order, [int(ratio * 100_000)])
    known = Observations.from_coo(movielens.rows[seen], movielens.cols[seen], movielens.values[seen], movielens.shape)
    rows, cols, truth = movielens.rows[test], movielens.cols[test], movielens.values[test]
    assert nmse(truth, ConstantMean.fit(known).entries(rows, cols)) == pytest.approx(mean_score, abs=5e-4)
    assert nmse(truth, DampedBiases.fit(known).entries(rows, cols)) == pytest.approx(bias_score, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"damping_rows": -1}, "damping_rows must be a number, 0 or larger, got -1"),
        ({"damping_cols": np.nan}, "damping_cols must be a number, 0 or larger, got nan"),
        ({"max_sweeps": 0}, "max_sweeps must be at least 1"),
        ({"tol": -1e-3}, "tol at least 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    """The error says what was given and what was expected."""
    with pytest.raises(ValueError, match=message):
        DampedBiases.fit(Observations.from_dense([[1.0]]), **arguments)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(("rows", "cols"), [([2], [0]), ([0], [3]), ([-1], [0]), ([0.5], [0]), ([0, 1], [0])])
def test_cells_outside_are_refused(fit: Any, rows: Any, cols: Any) -> None:
    """An estimate is given at cells of the matrix only; negative positions do not wrap around."""
    with pytest.raises(ValueError, match=r"rows|cols"):
        fit(Observations.from_dense([[1, 5, np.nan], [2, 2, 4]])).entries(rows, cols)
