"""R̂ and effective sizes: the formulas of the paper, word for word, and chains whose effective size is known."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from numpy.testing import assert_allclose

from snapimpute.posterior._convergence import effective_size, split_r_hat
from snapimpute.posterior._run import stuck
from snapimpute.posterior._watch import Watch, variances_of_means
from snapimpute.posterior.diagnostics import Candidate, Diagnostics


def autoregressive(phi: float, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Stationary chains whose draws correlate by φ with the next; their mean is worth n(1 − φ)/(1 + φ) draws."""
    shocks = np.random.default_rng(seed).standard_normal(shape)
    out = shocks.copy()
    for t in range(1, shape[1]):
        out[:, t] = phi * out[:, t - 1] + math.sqrt(1 - phi**2) * shocks[:, t]
    return out


def scores(chains: list[list[float]]) -> list[list[float]]:
    """Normal scores of ranks, equation (14) of the paper; no ties."""
    every = sorted(x for chain in chains for x in chain)
    normal, count = NormalDist(), len(every)
    return [[normal.inv_cdf((every.index(x) + 1 - 3 / 8) / (count + 1 / 4)) for x in chain] for chain in chains]


def variances(chains: list[list[float]]) -> tuple[float, float]:
    """W and the estimate of the marginal variance, equations (1) to (3)."""
    n, means = len(chains[0]), [sum(c) / len(c) for c in chains]
    within = sum(sum((x - m) ** 2 for x in c) / (n - 1) for c, m in zip(chains, means, strict=True)) / len(chains)
    grand = sum(means) / len(means)
    between = n * sum((m - grand) ** 2 for m in means) / (len(means) - 1)
    return within, (n - 1) / n * within + between / n


def plain_r_hat(chains: list[list[float]]) -> float:
    """Equation (4)."""
    within, total = variances(chains)
    return math.sqrt(total / within)


def plain_size(chains: list[list[float]]) -> float:
    """Equations (9) to (11), with the initial monotone sequence of Geyer."""
    n, (within, total) = len(chains[0]), variances(chains)

    def correlation(lag: int) -> float:
        parts = []
        for chain in chains:
            mean = sum(chain) / n
            parts.append(sum((chain[t] - mean) * (chain[t + lag] - mean) for t in range(n - lag)) / (n - 1))
        return 1 - (within - sum(parts) / len(parts)) / total

    tau, least, lag = -1.0, math.inf, 0
    while lag + 1 < n:
        pair = (1.0 if lag == 0 else correlation(lag)) + correlation(lag + 1)
        if pair <= 0:
            break
        least = min(least, pair)
        tau, lag = tau + 2 * least, lag + 2
    return len(chains) * n / max(tau, 1 / math.log10(len(chains) * n))


@pytest.mark.parametrize(("phi", "chains"), [(0.0, 1), (0.6, 2), (-0.4, 3)])
def test_figures_follow_the_formulas_of_the_paper(phi, chains):
    """Both figures equal a version of the formulas in plain loops; the draw in the middle is left out."""
    draws = autoregressive(phi, (chains, 61), seed=chains)
    halves = [half.tolist() for chain in draws for half in (chain[:30], chain[-30:])]
    middle = float(np.median([x for half in halves for x in half]))
    folded = [[abs(x - middle) for x in half] for half in halves]
    expected = max(plain_r_hat(scores(halves)), plain_r_hat(scores(folded)))
    assert_allclose(split_r_hat(draws[..., None]), expected, rtol=1e-10)
    assert_allclose(effective_size(draws[..., None]), plain_size(scores(halves)), rtol=1e-10)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_effective_sizes_of_autoregressive_chains(phi):
    """They are near those that theory gives, and the Monte Carlo error by batches near the standard error."""
    draws = autoregressive(phi, (2, 1000, 40))
    known = 2000 * (1 - phi) / (1 + phi)
    assert np.median(effective_size(draws)) == pytest.approx(known, rel=0.1)
    assert variances_of_means(list(draws)).mean() == pytest.approx(1 / known, rel=0.2)


def test_r_hat_sees_chains_that_differ():
    """Chains with another mean, another spread or a drift have R̂ well above 1, equal ones near 1."""
    same, steps = autoregressive(0.3, (4, 400)), np.linspace(0, 2, 400)
    cases = np.stack([same, same + np.array([[0], [0], [0], [1]]), same * [[1], [1], [1], [4]], same + steps], axis=2)
    found = split_r_hat(cases)
    assert found[0] < 1.02
    assert (found[1:] > 1.1).all()


def test_quantities_without_a_figure():
    """Constants have R̂ = 1 and full size; few draws have none."""
    assert_allclose(split_r_hat(np.ones((2, 20, 1))), 1.0)
    assert_allclose(effective_size(np.ones((2, 20, 1))), 40.0)
    assert np.isnan(split_r_hat(np.zeros((1, 5, 2)))).all()
    assert effective_size(np.zeros((1, 20, 0))).shape == (0,)
    assert (variances_of_means([np.zeros((5, 3))]) == math.inf).all()


def test_a_chain_far_below_the_best_is_stuck():
    """Far means many deviations and much for each cell: neither alone suffices."""
    noise = np.random.default_rng(0).normal(size=(3, 20))
    assert stuck([-700 + noise[0], -2300 + noise[1], -702 + noise[2]], cells=4500) == (0, [1])
    assert stuck([-700 + noise[0], -750 + noise[1]], cells=4500) == (0, [])
    assert stuck([-1000 + 300 * noise[0], -700 + 300 * noise[1]], cells=4500) == (1, [])
    assert stuck([noise[0]], cells=10) == (0, [])


def test_diagnostics_in_words():
    """They say first if the run has settled, by cells alone, and count draws in the plural."""
    figures = {
        "error": 0.01,
        "excess": 1e-3,
        "r_hat": 1.3,
        "largest_r_hat": 1.2,
        "effective_size": 9.0,
        "cell_effective_size": 80.0,
    }
    good = Diagnostics(chains=2, restarts=1, draws=300, cell_r_hat=1.02, **figures)
    assert good.settled is True
    assert str(good).startswith("settled: 300 draws of 2 chains, 1 restarted as stuck\n")
    bad = Diagnostics(chains=1, restarts=0, draws=300, cell_r_hat=1.4, **figures)
    assert bad.settled is False
    assert str(bad).startswith("not settled: 300 draws of 1 chain\n")
    few = Diagnostics(
        chains=1,
        restarts=0,
        draws=30,
        cell_r_hat=1.4,
        held_out=(Candidate("full", "columns", 1.2, 0.1, 0.5),),
        **figures,
    )
    assert few.settled is None
    assert str(few).endswith("tried: full, thresholds by columns: log loss 1.2000 ± 0.1000")


def test_the_excess_is_the_log_loss_that_averages_of_few_draws_lose():
    """Averages of 200 independent draws lose to the true mean what the estimate says, for symbols and for numbers."""
    rng = np.random.default_rng(0)
    nothing = np.zeros(0, np.int64)
    watch = Watch(None, np.arange(40), nothing, nothing, nothing)
    p = rng.dirichlet(np.full(4, 3.0), 40)
    found, lost = [], []
    for _ in range(60):
        draws = np.stack([rng.dirichlet(30 * one, 200) for one in p], axis=1)
        mean = draws.mean(axis=0)
        found.append(watch.precision([draws.reshape(200, -1)]).excess)
        lost.append((p * np.log(p / mean)).sum(axis=1).mean())
    assert np.mean(found) == pytest.approx(np.mean(lost), rel=0.1)
    numbers = Watch(None, nothing, nothing, np.arange(30), nothing)
    draws = rng.normal(0, 0.5, (200, 30))
    assert numbers.precision([draws]).excess == pytest.approx(0.5 * 0.25 / 200, rel=0.2)
