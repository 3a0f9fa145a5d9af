"""Convergence of chains: rank-normalised split R̂, and the effective number of draws.

After A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner (2021), "Rank-normalization, folding, and
localization: an improved R̂ for assessing convergence of MCMC", Bayesian Analysis 16(2). All functions take draws of
shape (chains, draws, quantities) and return one number for each quantity.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from snapimpute.base.types import Array

FEWEST = 8
"""Draws of a chain from which its halves say anything."""

Draws = Array


def split_r_hat(draws: Draws) -> Draws:
    """Return the larger R̂ of the rank-normalised draws and of their rank-normalised distances from the median.

    A quantity that never moves has R̂ = 1; with fewer than `FEWEST` draws it is NaN.
    """
    if draws.shape[1] < FEWEST or not draws.shape[2]:
        return np.full(draws.shape[2], np.nan)
    halves = _halves(draws)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_r_hat(_normal_scores(halves)), _r_hat(_normal_scores(folded)))


def effective_size(draws: Draws) -> Draws:
    """Return the number of independent draws that are worth as much for a mean: the bulk effective sample size."""
    if draws.shape[1] < FEWEST or not draws.shape[2]:
        return np.full(draws.shape[2], np.nan)
    return _effective_size(_normal_scores(_halves(draws)))


def together(chains: list[Array]) -> Draws:
    """Put the last draws of all chains, each of shape (draws, quantities), into one array."""
    count = min(len(chain) for chain in chains)
    return np.stack([chain[len(chain) - count :] for chain in chains]).astype(np.float64)


def _halves(draws: Draws) -> Draws:
    """Cut every chain into two; the draw in the middle of an odd number is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: Draws) -> Draws:
    """Replace draws by normal quantiles of their ranks among those of all chains."""
    chains, count, quantities = draws.shape
    ranks = rankdata(draws.reshape(chains * count, quantities), axis=0)
    scores: Draws = ndtri((ranks - 0.375) / (chains * count + 0.25)).reshape(draws.shape)
    return scores


def _variances(draws: Draws) -> tuple[Draws, Draws]:
    """Variance within chains, and the estimate of the variance of the distribution from all chains."""
    count = draws.shape[1]
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    between = draws.mean(axis=1).var(axis=0, ddof=1)
    return within, (count - 1) / count * within + between


def _r_hat(draws: Draws) -> Draws:
    within, total = _variances(draws)
    found: Draws = np.sqrt(np.divide(total, within, out=np.ones_like(total), where=within > 0))
    return found


def _effective_size(draws: Draws) -> Draws:
    """Geyer's initial monotone sequence over the autocorrelations of all chains together."""
    chains, count, _ = draws.shape
    within, total = _variances(draws)
    covariances = _autocovariances(draws).mean(axis=0) * count / (count - 1)
    correlations = 1 - np.divide(within - covariances, total, out=np.ones_like(covariances), where=total > 0)
    correlations[0] = 1.0
    pairs = correlations[: count // 2 * 2].reshape(count // 2, 2, -1).sum(axis=1)
    ends = np.cumsum(pairs <= 0, axis=0) > 0
    pairs = np.where(ends, 0.0, np.minimum.accumulate(pairs, axis=0))
    length = np.maximum(2 * pairs.sum(axis=0) - 1, 1 / np.log10(chains * count))
    size: Draws = np.where(total > 0, chains * count / length, chains * count)
    return size


def _autocovariances(draws: Draws) -> Draws:
    """Autocovariances of each chain by lag, divided by the number of draws."""
    count = draws.shape[1]
    transformed = np.fft.rfft(draws - draws.mean(axis=1, keepdims=True), 2 * count, axis=1)
    found: Draws = np.fft.irfft(np.abs(transformed) ** 2, 2 * count, axis=1)[:, :count] / count
    return found
