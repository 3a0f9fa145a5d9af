"""Exact chains leave the joint distribution of parameters and cells as it is: Geweke's test, and ranks of the truth.

The first test begins with parameters and cells from the prior, and alternates
sweeps with new cells. However often, the parameters still come from the prior,
if every conditional is right; many starts make the comparison one of
independent numbers. The second asks where the truth ranks among later draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.posterior.exact import (
    CovarianceWorld,
    LowRankWorld,
    category_numbers,
    covariance_numbers,
    low_rank_numbers,
    use_rates,
)

STARTS, SWEEPS = 400, 20
"""Independent chains of Geweke's test, and the sweeps that each makes, with new cells before every one."""

TRUTHS, DRAWS, THIN = 200, 7, 8
"""Planted tables whose truth is ranked, the draws it is ranked among, and the sweeps between two of them."""

FALSE_ALARM = 5e-5
"""Probability that one test of all its numbers fails by chance; seeds are fixed."""

WORLDS: dict[str, tuple[Any, Any]] = {
    "low rank, symbols beside categories and numbers": (
        LowRankWorld(shape=(8, 7), numbers=1, categories=3),
        category_numbers,
    ),
    "low rank, four symbols": (LowRankWorld(shape=(5, 14), symbols=4, rank=2, numbers=0), low_rank_numbers),
    "low rank, two symbols": (LowRankWorld(symbols=2, numbers=0), low_rank_numbers),
    "full covariance": (CovarianceWorld(categories=3, features=True), covariance_numbers),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_sweeps_and_new_cells_leave_the_prior_as_it_is(name, monkeypatch):
    """Geweke's test: after sweeps that alternate with new cells, every number has its prior distribution still."""
    use_rates(monkeypatch)
    world, numbers = WORLDS[name]
    rng, before, after = np.random.default_rng(0), [], []
    for start in range(STARTS):
        before += [numbers(world.drawn(start, rng)) for _ in range(2)]
        chain = world.drawn(start, rng)
        with np.errstate(over="ignore"):  # the prior has no bounds, single precision has
            for _ in range(SWEEPS):
                world.observe(chain, rng)
                chain.sweep()
        after.append(numbers(chain))
    found = {}
    for one in before[0]:
        prior, later = (np.array([x[one] for x in given]) for given in (before, after))
        found[one] = stats.ks_2samp(prior, later).pvalue
        center = np.median(prior)
        found[f"spread of {one}"] = stats.ks_2samp(np.abs(prior - center), np.abs(later - center)).pvalue
    assert not {one: value for one, value in found.items() if value < FALSE_ALARM / len(found)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "identified"),
    [
        (
            "low rank, symbols beside categories and numbers",
            [
                *("η of a hidden cell", "η of a known cell", "η of a number", "P of a hidden cell", "g_1", "g_2"),
                *("difference of utilities", "hidden difference", "P of category 1"),
            ],
        ),
        (
            "full covariance",
            [
                *("ρ of two symbols", "ρ with a number", "missing symbol", "missing number", "g_1, column 0"),
                *("difference of offsets", "ρ with a contrast", "P of a missing category"),
            ],
        ),
    ],
)
def test_the_truth_ranks_anywhere_among_the_draws(name, identified, monkeypatch):
    """Simulation-based calibration: ranks of η, P(s), thresholds and correlations among draws are uniform."""
    use_rates(monkeypatch)
    world, numbers = WORLDS[name]
    rng, ranks = np.random.default_rng(1), []
    for truth in range(TRUTHS):
        chain, draws = world.drawn(truth, rng), []
        planted = numbers(chain)
        for sweep in range((DRAWS + 1) * THIN):
            chain.sweep()
            if sweep >= THIN and sweep % THIN == 0:
                draws.append(numbers(chain))
        ranks.append([sum(draw[one] < planted[one] for draw in draws) for one in identified])
    for one, place in zip(identified, np.array(ranks).T, strict=True):
        counts = np.bincount(place, minlength=DRAWS + 1)
        assert stats.chisquare(counts).pvalue > FALSE_ALARM / len(identified), (one, counts)
