"""The forecast of a posterior: what it counts is there, what it refuses would not fit, and words for both."""

from __future__ import annotations

import numpy as np
import pytest

import snapimpute as si
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior import Posterior

DATA = low_rank_alphabet((300, 20), rank=2, alphabet="1:5", observed=0.6).observations


def test_a_forecast_in_words():
    """Sizes, free memory, sweeps and short runs, seconds and the size in a file stand in three lines."""
    plan = Posterior().forecast(DATA, "1:5")
    lines = str(plan).splitlines()
    assert lines[0].startswith(f"300×20, {len(DATA):,} known, low rank, 15 factors: about ")
    assert lines[1].startswith("at most 400 sweeps, after 3 short runs: up to about ")
    assert lines[2].startswith("a saved fit: ")
    assert 0 < plan.seconds < 60
    assert Posterior(covariance="full").forecast(DATA, "1:5", timed=False).model == "full covariance"


@pytest.mark.parametrize("model", [Posterior("low-rank", thresholds="rows", sweeps=60), Posterior("full", sweeps=60)])
def test_the_size_of_a_saved_fit_is_near_that_of_the_file(model, tmp_path):
    """The forecast of the file, the observations added, is off by a quarter at most."""
    imp = si.SnapImputer("1:5", method=model).fit(DATA)
    imp.save(tmp_path / "model.snap")
    known = sum(part.nbytes for part in (DATA.rows, DATA.cols, DATA.values))
    size = model.forecast(DATA, "1:5", timed=False).saved + known
    assert size == pytest.approx((tmp_path / "model.snap").stat().st_size, rel=0.25)


def test_draws_stay_within_their_memory():
    """Twice the rows and columns do not need twice the memory once draws are thinned."""
    model, cells = Posterior("low-rank", thresholds="rows"), 50_000
    draws = []
    for units in (10_000, 20_000):
        place = np.arange(cells)
        table = si.Observations.from_coo(place % units, place // units, np.ones(cells), (units, 900))
        draws.append(model.forecast(table, "1:5", timed=False).parts["draws"])
    assert draws[1] < 1.1 * draws[0]


def test_a_table_that_does_not_fit_is_refused(monkeypatch):
    """Before anything is computed, with the numbers and a way out."""
    monkeypatch.setenv("SNAPIMPUTE_MAX_MEMORY", "1MiB")
    plan = Posterior().forecast(DATA, "1:5", timed=False)
    assert not plan.fits
    with pytest.raises(MemoryError, match=r"needs about \d+ MiB more memory.* 1.0 MiB are free: choose"):
        Posterior().fit(DATA, "1:5")


def test_a_covariance_that_does_not_fit_is_not_tried(monkeypatch):
    """Where only low rank fits into memory, the choice is among low-rank models; asked for, it is refused."""
    monkeypatch.setenv("SNAPIMPUTE_MAX_MEMORY", "30MiB")
    wide = low_rank_alphabet((4000, 60), rank=2, alphabet="1:20", observed=0.3).observations
    model = Posterior(sweeps=20)
    assert model.forecast(wide, "1:20", timed=False).fits
    assert "full" not in [name for name, _ in model._models(wide, ColumnSchema.single(si.Alphabet.of("1:20"), 60))]
    with pytest.raises(MemoryError, match="the posterior of 4,000×60"):
        Posterior(covariance="full", sweeps=20).fit(wide, "1:20")
