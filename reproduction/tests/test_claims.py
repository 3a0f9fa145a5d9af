"""The table of the paper's claims: what each says follows from the scores it is given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from reproduction import claims
from reproduction.paper import Score

SHARES = (0.2, 0.4, 0.6)


def scores(method: str, nmse: dict[float, float], curve: tuple[float, ...] | None = None) -> Iterator[Score]:
    """Two seeds that differ by a hundredth; the curve at the first share only."""
    for share, value in nmse.items():
        for seed in (0, 1):
            found = value + 0.01 * seed
            yield Score(
                "d", share, seed, method, found, 1.0, 1.0, 0.4, 0.2, 1.0, curve=curve if share == 0.2 else None
            )


def flat(value: float) -> dict[float, float]:
    return dict.fromkeys(SHARES, value)


FAST, SLOW = (0.5, 0.1, 0.1, 0.1, 0.1, 0.1), (0.5, 0.4, 0.3, 0.1, 0.1, 0.1)


@pytest.fixture
def found() -> list[Score]:
    return [
        *scores("constant mean", flat(0.092)),
        *scores("AIS-Impute", {0.2: 0.12, 0.4: 0.08, 0.6: 0.07}, SLOW),
        *scores("discrete-aware nuclear", {0.2: 0.08, 0.4: 0.07, 0.6: 0.065}, FAST),
        *scores("niAPG, LSP", flat(0.08), FAST),
        *scores("discrete-aware LSP", {0.2: 0.075, 0.4: 0.07, 0.6: 0.081}, SLOW),
        *scores("Soft-Impute, bias-centred", flat(0.06)),
        *scores("LSP, ridge to the mean", flat(0.074)),
    ]


def test_below_names_the_first_share(found):
    """From where on each of the paper's methods is below 0.1, and what a constant has."""
    one = claims.below(found)
    assert "AIS-Impute: from 40 % on" in one.measured
    assert "discrete-aware nuclear: from 20 % on" in one.measured
    assert "0.0970" in one.measured
    assert one.holds == "in part"
    assert claims.below(list(scores("AIS-Impute", {0.2: 0.2, 0.4: 0.2}))).holds == "no"


def test_gains_are_paired(found):
    """The same seeds are compared: what they have in common drops out of the standard error."""
    gain = claims.gain(found, "discrete-aware nuclear", "AIS-Impute")
    assert [gain[share].mean for share in SHARES] == pytest.approx([0.04, 0.01, 0.005])
    assert [gain[share].error for share in SHARES] == pytest.approx([0, 0, 0], abs=1e-12)
    one = claims.gains(found)
    assert one.holds == "in part"  # LSP loses at 60 %
    assert "discrete-aware nuclear against AIS-Impute: 20 %: +0.0400 ± 0.0000" in one.measured
    assert "discrete-aware nuclear against Soft-Impute, bias-centred: 20 %: -0.0200" in one.measured
    assert "discrete-aware LSP against LSP, ridge to the mean: 20 %: -0.0010" in one.measured
    assert claims.gain(found, "discrete-aware nuclear", "nobody") == {}


def test_most_at_low_shares(found):
    """The share of the largest gain is named."""
    one = claims.lowest_share(found)
    assert "discrete-aware nuclear: largest at 20 %" in one.measured
    assert "discrete-aware LSP: largest at 40 %" in one.measured
    assert one.holds == "in part"


def test_iterations_are_compared_with_what_is_said(found, monkeypatch):
    """Within the limit of its low-rank term, and sooner or later than the plain method."""
    monkeypatch.setattr(claims, "NUCLEAR", 3)
    one = claims.convergence(found)
    assert "AIS-Impute: 4 (said: 3)" in one.measured
    assert "discrete-aware LSP: 4 (said: 180)" in one.measured
    assert one.holds == "yes"
    monkeypatch.setattr(claims, "LSP", 3)
    assert claims.convergence(found).holds == "in part"  # half of them are not most, and not none
    monkeypatch.setattr(claims, "NUCLEAR", 1)
    monkeypatch.setattr(claims, "LSP", 1)
    assert claims.convergence(found).holds == "no"
    assert claims.sooner(found).holds == "yes"
    turned = [*scores("AIS-Impute", flat(0.1), FAST), *scores("discrete-aware nuclear", flat(0.1), SLOW)]
    assert claims.sooner(turned).holds == "no"
    half = claims.sooner([score for score in found if "LSP" not in score.method])
    assert (half.holds, half.measured.endswith("discrete-aware LSP not measured")) == ("in part", True)


def test_a_gain_within_two_standard_errors_is_none():
    """One seed up, one seed down: lower on average, but not surely."""
    pair = [*scores("AIS-Impute", {0.2: 0.1}), *scores("discrete-aware nuclear", {0.2: 0.099})]
    assert claims.gains(pair).holds == "yes"
    noisy = [replace(one, nmse=0.05 if one.seed else one.nmse) if "aware" in one.method else one for one in pair]
    noisy = [replace(one, nmse=one.nmse + 0.04) if "aware" in one.method and not one.seed else one for one in noisy]
    assert claims.gain(noisy, "discrete-aware nuclear", "AIS-Impute")[0.2].mean > 0
    assert claims.gains(noisy).holds == "no"


def test_complexity_is_the_slope():
    """Twice the side, four times the seconds: a power of two."""
    one = claims.complexity({"plain": [0.01, 0.02, 0.04], "discrete-aware": [0.01, 0.04, 0.16]}, (1, 2, 4))
    assert "plain: 10, 20, 40 ms (side to the power 1.0)" in one.measured
    assert "power 2.0" in one.measured
    assert one.holds == "in part"
    assert claims.complexity({"plain": [1, 2], "discrete-aware": [2, 4]}, (1, 2)).holds == "yes"


def test_growth_is_measured_without_and_with_the_alphabet():
    """Seconds for each size."""
    found = claims.growth((60, 120), 3)
    assert all(len(seconds) == 2 and min(seconds) > 0 for seconds in found.values())


def test_a_convex_problem_may_have_many_solutions():
    """Three ends of the solver with the same value, which no other table of that kind beats."""
    problem = claims.diagonal()
    assert problem.convex
    found = claims.minimisers(problem)
    values = [problem.objective(x) for x in found]
    assert np.ptp(values) < 1e-9
    cells = sorted(x.to_dense()[0, 1] for x in found)
    assert cells[0] < -0.5 < cells[1] < 0.5 < cells[2]
    for a in np.linspace(0, 1.2, 13):
        for b in np.linspace(-1, 1, 21):
            other = claims.LowRank.from_dense(np.array([[a, b], [b, a]]))
            assert problem.objective(other) >= values[0] - 1e-9
    assert claims.uniqueness().holds == "no"


def test_the_table_has_a_row_for_each(found, monkeypatch):
    """All seven; without curves those on iterations are left out; scores tuned on test do not count."""
    monkeypatch.setattr(claims, "growth", lambda: {"plain": [1.0, 1.0, 1.0], "discrete-aware": [1.0, 1.0, 1.0]})
    tuned_on_test = list(scores("AIS-Impute (best on test)", flat(0.0)))
    rows = claims.claims([*found, *tuned_on_test])
    assert len(rows) == 7
    assert rows == claims.claims(found)
    assert claims.as_markdown(rows).count("\n") == 9
    assert len(claims.claims(list(scores("AIS-Impute", flat(0.1))))) == 5
