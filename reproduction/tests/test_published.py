"""The experiments of the papers behind the solvers: the figures published are those found here."""

from __future__ import annotations

import numpy as np
import pytest

import snapimpute as si
from reproduction import published
from reproduction.published import SoftImputeSetting, SVTSetting
from snapimpute.data.datasets import Dataset

EASY = SoftImputeSetting(rank=2, observed=0.5, snr=10.0, error=0.0, standard_error=0.0)


@pytest.mark.slow
def test_svt_takes_the_iterations_published():
    """SVT on a planted 1000×1000 matrix of rank 10: iterations within 5 of those published, error within 10 %."""
    setting = published.SVT_ROWS[0]
    iterations, error = published.svt_run(setting, seed=1)
    assert abs(iterations - setting.iterations) <= 5
    assert error == pytest.approx(setting.error, rel=0.1)


def test_svt_recovers_a_small_matrix():
    """On a small side, with enough entries, the same run ends at the planted matrix, for any seed in its own way."""
    setting = SVTSetting(rank=2, observed=0.6, iterations=0, error=0.0)
    runs = [published.svt_run(setting, seed, side=60) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]
    assert all(error < 1e-3 and iterations < 500 for iterations, error in runs)


def test_soft_impute_error_is_a_function_of_its_seed():
    """The same seed gives the same error, another one another; it is below that of X = 0, which is 1."""
    first, again, other = (published.soft_impute_error(EASY, seed, side=30) for seed in (0, 0, 1))
    assert first == again != other
    assert 0 < max(first, other) < 0.2


def test_soft_impute_error_grows_with_what_is_missing_and_with_noise():
    """Fewer entries, more noise or a higher rank make the error larger, still below 1."""
    easy = published.soft_impute_error(EASY, 0, side=30)
    for harder in (
        SoftImputeSetting(2, observed=0.2, snr=10.0, error=0.0, standard_error=0.0),
        SoftImputeSetting(2, observed=0.5, snr=1.0, error=0.0, standard_error=0.0),
        SoftImputeSetting(6, observed=0.5, snr=10.0, error=0.0, standard_error=0.0),
    ):
        assert 1.5 * easy < published.soft_impute_error(harder, 0, side=30) < 1


@pytest.mark.slow
@pytest.mark.movielens
def test_ais_impute_has_the_error_and_rank_published(movielens: Dataset) -> None:
    """The authors' script on MovieLens-100k: RMSE and rank are near those published."""
    error, rank, iterations = published.ais_impute_run(movielens.observations, seed=0)
    assert error == pytest.approx(np.mean(published.AIS_IMPUTE_RMSE), abs=0.006)
    assert 58 <= rank <= 63
    assert iterations < 1000


def test_ais_impute_stops_when_the_objective_has_settled():
    """The rule of the script applies at the final λ only, and ends the run long before its limit."""
    data = si.datasets.low_rank_alphabet((80, 60), rank=3, alphabet="1:5", observed=0.8, random_state=0)
    runs = [published.ais_impute_run(data.observations, seed) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]
    for error, rank, iterations in runs:
        assert error < 1  # of the z-scores, whose mean would have 1
        assert 0 < rank < 60
        assert 5 < iterations < 500


def test_one_bit_accuracy_is_that_of_hidden_signs():
    """On planted signs nearly all hidden ones are right, on noise about half; the same seed gives the same split."""
    data = si.datasets.low_rank_alphabet((60, 50), rank=2, alphabet="1:5", kind="blocks", observed=0.6)
    planted = published.one_bit_accuracy(data.observations, seed=0)
    assert planted > 0.9
    assert published.one_bit_accuracy(data.observations, seed=0) == planted
    noise = np.random.default_rng(0).permutation(data.observations.values)
    assert 0.2 < published.one_bit_accuracy(data.observations.with_values(noise), seed=0) < 0.8
