"""Tiny tables drawn from the priors of the exact chains: parameters, cells given these, and numbers to compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import ndtr, ndtri, psi

from snapimpute.posterior import _low_rank, _noise, _units
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._choices import Choices, shares_of
from snapimpute.posterior._contrasts import OFFSET_SPREAD, Contrasts
from snapimpute.posterior._covariance import Column, CovarianceChain, wishart
from snapimpute.posterior._features import Features
from snapimpute.posterior._low_rank import Chain, Parts
from snapimpute.posterior._units import Side

UNIT_RATE, THRESHOLD_RATE = 0.3, 0.05
"""Rates of the gamma priors here: with the library's, tiny tables hardly move the priors."""

NOISE_SHAPE = 3.0
"""ν here: noise levels are further apart than the library's, so that one in the wrong place shows."""

ROW_SHAPES = np.array([2.0, 3.0, 12.0])
"""Values of ν of the rows of a narrow table, far apart."""


def use_rates(patch: pytest.MonkeyPatch) -> None:
    """Give the library the rates of the tests, and their ν."""
    patch.setattr(_units, "NOISE_SHAPE", NOISE_SHAPE)
    patch.setattr(_noise, "SHAPES", ROW_SHAPES)
    patch.setattr(_units, "RATE", UNIT_RATE)
    patch.setattr(_low_rank, "RATE", THRESHOLD_RATE)


def ordered(centers: np.ndarray, raters: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Common thresholds, spreads and thresholds from their priors, where those of all raters are in order."""
    while True:
        spread = rng.gamma(1, 1 / THRESHOLD_RATE, (256, centers.size)) ** -0.5
        common = centers + rng.standard_normal(spread.shape)
        own = common[:, None] + spread[:, None] * rng.standard_normal((256, raters, centers.size))
        good = np.flatnonzero((np.diff(own) > 0).all(axis=(1, 2)))
        if good.size:
            return common[good[0]], spread[good[0]], own[good[0]]


@dataclass(frozen=True)
class LowRankWorld:
    """A design of known cells; the first raters use ``symbols`` symbols, the last ``numbers`` plain numbers.

    Between them one column has ``categories`` without order, and as many raters.
    """

    shape: tuple[int, int] = (8, 5)
    symbols: int = 3
    rank: int = 1
    numbers: int = 2
    categories: int = 0

    @property
    def ordinal(self) -> int:
        """Number of raters with thresholds."""
        return self.shape[0] - self.numbers - self.categories

    @property
    def chosen(self) -> slice:
        """Raters that stand for categories."""
        return slice(self.ordinal, self.ordinal + self.categories)

    @property
    def known(self) -> np.ndarray:
        """All cells but some on a diagonal; those of categories together."""
        i, j = np.indices(self.shape)
        known = (i + j) % 5 != 0
        if self.categories:
            known[self.chosen] = known[self.ordinal]
        return known

    @property
    def levels(self) -> np.ndarray:
        return np.where(np.arange(self.shape[0]) < self.ordinal, self.symbols, 0)

    def drawn(self, seed: int, rng: np.random.Generator) -> Chain:
        """A chain whose parameters come from the prior, and whose cells come from these."""
        count = int(self.known.sum())
        cells = self._cells(np.zeros(count, np.int64), np.zeros(count))
        features = self.features_of(self.shape[0]), self.features_of(self.shape[1])
        chain = Chain(cells, self.rank, features, seed=seed, burn_in=0, parts=Parts(exact=True))
        chain.steps[:], chain.factor_steps[:] = 0.6, 0.4
        for side, level in ((chain.raters, chain.binary), (chain.items, False)):
            self.draw_side(side, rng, level=level)
        chain.raters.noise[self.chosen] = 1.0
        if not chain.binary:
            self._draw_thresholds(chain, rng)
        self.observe(chain, rng)
        return chain

    def features_of(self, units: int, size: float = 1.0) -> Features:
        """Three columns in two groups, none orthogonal to another."""
        x = np.linspace(-size, size, units)
        return Features.of(units, np.column_stack([x, x + size / 2]), (x + x**2 / size)[:, None])

    def _cells(self, symbols: np.ndarray, values: np.ndarray) -> Cells:
        raters, items = np.nonzero(self.known)
        kind, choices = (self.levels == 0).astype(np.int64), None
        if self.categories:
            every = np.full(self.shape, -np.inf)
            every[self.known] = values
            seen = every[self.chosen].argmax(axis=0)[self.known[self.ordinal]]
            choices = Choices.of([self.ordinal], [self.categories], [seen])
        return Cells.of(raters, items, symbols, self.shape, self.levels, kind, values, choices)

    def draw_side(self, side: Side, rng: np.random.Generator, *, level: bool) -> None:
        used = self.rank + 1
        side.precision[:used] = rng.gamma(1, 1 / UNIT_RATE, used)
        side.center[:used] = rng.standard_normal(used)
        side.center[0] *= level
        side.slope_precision[:, :used] = rng.gamma(1, 1 / UNIT_RATE, (len(side.groups), used))
        for number, group in enumerate(side.groups):
            shape = len(side.slopes[group]), used
            side.slopes[group, :used] = rng.standard_normal(shape) / np.sqrt(side.slope_precision[number, :used])
        side.mean[:, :used] = side.center[:used] + side.features @ side.slopes[:, :used]
        shocks = rng.standard_normal((len(side.numbers), used)) / np.sqrt(side.precision[:used])
        side.numbers[:, :used] = side.mean[:, :used] + shocks
        if self.symbols > 2 or self.numbers:
            side.noise = rng.gamma(NOISE_SHAPE / 2, 2 / NOISE_SHAPE, len(side.numbers)).astype(np.float32)

    def _draw_thresholds(self, chain: Chain, rng: np.random.Generator) -> None:
        top, raters = self.symbols, self.ordinal
        centers = ndtri(np.arange(1, top) / top)
        chain.center[0, 1:top], chain.spread[0, 1:top], own = ordered(centers, raters, rng)
        chain.thresholds[:raters, 1:top] = own
        chain.factor_spread = rng.gamma(1, 1 / THRESHOLD_RATE) ** -0.5
        chain.log_factors = chain.factor_spread * rng.standard_normal(self.shape[1])

    def observe(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw the cells given the parameters."""
        known, eta, size = self.known, predicted(chain), precision(chain)
        z = eta + rng.standard_normal(self.shape) / size
        bounds = np.exp(chain.log_factors)[None, :, None] * chain.thresholds[:, None, 1:-1].astype(float)
        symbols = np.where(self.levels[:, None] > 0, (z[..., None] > bounds).sum(axis=2), 0)
        values = np.where(self.levels[:, None] > 0, 0.0, z)
        chain.cells = self._cells(symbols[known], values[known])
        chain.z[:] = chain.cells.value


def predicted(chain: Chain) -> np.ndarray:
    """η of all cells."""
    a, b = chain.raters.numbers.astype(float), chain.items.numbers.astype(float)
    return a[:, :1] + b[:, 0] + a[:, 1:] @ b[:, 1:].T


def precision(chain: Chain) -> np.ndarray:
    """√(τ_i τ'_j) of all cells."""
    return np.sqrt(np.outer(chain.raters.noise.astype(float), chain.items.noise))


def low_rank_numbers(chain: Chain) -> dict[str, float]:
    """What a chain says of cells, thresholds, noise and priors."""
    eta, size, factors = predicted(chain), precision(chain), np.exp(chain.log_factors)
    bounds = factors[:, None] * chain.thresholds[0, 1:-1].astype(float)
    below = ndtr(size[0, :, None] * (bounds - eta[0, :, None]))
    found = {"η of a hidden cell": eta[0, 0], "η of a known cell": eta[0, 1], "η of a number": eta[-1, 0]}
    found |= {"P of a hidden cell": below[0, 0], "P of a known cell": 1 - below[1, -1], "factor": factors[0]}
    sides = {"raters": chain.raters, "items": chain.items}
    for name, side in sides.items():
        found |= {f"level, {name}": side.numbers[0, 0], f"size of p, {name}": abs(side.numbers[0, 1])}
        found |= {f"l of levels, {name}": side.precision[0], f"l of factors, {name}": side.precision[1]}
        found |= {
            f"m, {name}": side.center[1],
            f"B, {name}": side.slopes[0, 0],
            f"β, {name}": side.slope_precision[0, 1],
            f"B of the second group, {name}": side.slopes[-1, 1],
        }
        found |= {f"τ, {name}": side.noise[0], f"last τ, {name}": side.noise[-1]}
    found |= {f"g_{t}": chain.thresholds[0, t] for t in range(1, chain.thresholds.shape[1] - 1)}
    found |= {f"common g_{t}": chain.center[0, t] for t in range(1, chain.thresholds.shape[1] - 1)}
    found |= {f"ω_{t}": chain.spread[0, t] for t in range(1, chain.thresholds.shape[1] - 1)}
    return {name: float(value) for name, value in (found | {"ω_κ": chain.factor_spread}).items()}


def category_numbers(chain: Chain) -> dict[str, float]:
    """Say of a chain what `low_rank_numbers` says, and of a column of categories beside."""
    first = int(chain.cells.choices.table[0, 0])
    eta, size = predicted(chain)[first : first + 3], precision(chain)[first]
    found = {"difference of utilities": eta[0, 1] - eta[1, 1], "hidden difference": eta[1, 0] - eta[2, 0]}
    found |= {f"P of category {c}": share for c, share in enumerate(shares_of(size[1] * eta[:, 1]))}
    return {name: float(value) for name, value in found.items()} | low_rank_numbers(chain)


@dataclass(frozen=True)
class CovarianceWorld:
    """A narrow table; the first columns have symbols, then one has plain numbers, and perhaps one categories.

    Rows may have two features.
    """

    rows: int = 12
    levels: tuple[int, ...] = (3, 3, 4, 0)
    categories: int = 0
    features: bool = False

    @property
    def known(self) -> np.ndarray:
        """Most cells, those of categories last."""
        i, j = np.indices((self.rows, len(self.levels) + 1))
        return (i + 2 * j) % 5 != 0

    @property
    def contrasts(self) -> list[Contrasts]:
        """The column of categories, if there is one, without a cell."""
        empty = np.empty(0, np.int64)
        return [Contrasts(len(self.levels), self.categories, empty, empty.astype(np.uint8))] * (self.categories > 0)

    def drawn(self, seed: int, rng: np.random.Generator) -> CovarianceChain:
        """A chain whose parameters come from the prior, and whose cells come from these."""
        more = [0] * max(self.categories - 1, 0)
        p = len(self.levels) + len(more)
        empty = np.empty(0, np.int64)
        every = np.arange(self.rows)
        columns = [Column(empty, empty.astype(np.uint8), every, levels) for levels in (*self.levels, *more)]
        numbers = {j: np.empty(0) for j, levels in enumerate(self.levels) if not levels}
        x = np.linspace(-1, 1, self.rows)[:, None]
        features = np.hstack([x, x + x**2]) if self.features else x[:, :0]
        shape, options = (self.rows, p), {"features": features, "seed": seed, "burn_in": 0, "exact": True}
        chain = CovarianceChain(shape, columns, numbers, self.contrasts, **options)
        chain.offsets = [OFFSET_SPREAD * rng.standard_normal(one.count) for one in chain.contrasts]
        chain.steps[:] = 0.4
        chain.precision = wishart(p + 2 + chain.strength, (chain.strength + 1) * np.eye(p), rng)
        chain.means.precision = rng.gamma(1, 1 / UNIT_RATE)
        root = np.linalg.cholesky(np.linalg.inv(chain.precision)) / np.sqrt(chain.means.precision)
        chain.means.take(rng.standard_normal((features.shape[1], p)) @ root.T)
        chain.noise_shape = float(rng.choice(ROW_SHAPES))
        half = chain.noise_shape / 2
        chain.weights = rng.gamma(half, 1 / np.exp(psi(half)), self.rows).astype(np.float32)
        for j, levels in enumerate(self.levels):
            own = np.array([1.0, 0.0])
            while levels and not (np.diff(own) > 0).all():
                own = ndtri(np.arange(1, levels) / levels) + rng.standard_normal(levels - 1)
            chain.thresholds[j, 1:levels] = own[: max(levels - 1, 0)]
        self.observe(chain, rng)
        return chain

    def observe(self, chain: CovarianceChain, rng: np.random.Generator) -> None:
        """Draw all latent values, and the cells, given the parameters."""
        root = np.linalg.cholesky(np.linalg.inv(chain.precision))
        shock = (root @ rng.standard_normal(chain.z.shape)) / np.sqrt(chain.weights)
        chain.z[:] = (chain.means.features @ chain.means.slopes).T + shock
        for j, levels in enumerate(self.levels):
            known = np.flatnonzero(self.known[:, j])
            symbol = np.searchsorted(chain.thresholds[j, 1 : max(levels, 1)], chain.z[j, known])
            order = np.argsort(symbol, kind="stable")
            missing = np.flatnonzero(~self.known[:, j])
            chain.columns[j] = Column(known[order], symbol[order].astype(np.uint8), missing, levels)
        for one, offsets in zip(self.contrasts, chain.offsets, strict=True):
            known = np.flatnonzero(self.known[:, -1])
            u = one.means(offsets, chain.z[one.columns, known])
            u += rng.standard_normal(u.shape).astype(np.float32) / np.sqrt(chain.weights[known])
            chain.utilities = [u]
            chain.contrasts = (Contrasts(one.first, one.count, known, u.argmax(axis=0).astype(np.uint8)),)


def covariance_numbers(chain: CovarianceChain) -> dict[str, float]:
    """What a chain says of correlations, thresholds, weights and missing cells."""
    covariance = np.linalg.inv(chain.precision)
    spread = np.sqrt(np.diag(covariance))
    found = {"ρ of two symbols": covariance[0, 1] / (spread[0] * spread[1]), "spread": spread[0]}
    found |= {"ρ with a number": covariance[2, 3] / (spread[2] * spread[3]), "spread of numbers": spread[3]}
    found |= {"weight": chain.weights[0], "weight of a full row": chain.weights[3]}
    found["ν"] = chain.noise_shape
    found |= {"missing symbol": chain.z[0, 0], "missing number": chain.z[3, 4], "latent value": chain.z[0, 1]}
    found |= {f"g_{t}, column {j}": chain.thresholds[j, t] for j in (0, 2) for t in range(1, chain.levels[j])}
    for place, slopes in enumerate(chain.means.slopes):
        found |= {f"B_{place}": slopes[0], f"B_{place} of numbers": slopes[3], "β": chain.means.precision}
    found["P(0)"] = ndtr(np.sqrt(chain.weights[0]) * chain.thresholds[0, 1] / spread[0])
    for offsets, one in zip(chain.offsets, chain.contrasts, strict=True):
        p = one.shares(offsets, chain.z[one.columns], np.sqrt(chain.weights))
        found |= {"difference of offsets": offsets[0] - offsets[1], "location": offsets.mean()}
        found |= {"contrast of a missing cell": chain.z[one.first, 2], "contrast of a known cell": chain.z[-1, 0]}
        found |= {"P of a missing category": p[1, 2], "P of a known category": p[0, 0]}
        found |= {"ρ of contrasts": covariance[-1, -2] / (spread[-1] * spread[-2])}
        found |= {"ρ with a contrast": covariance[0, -1] / (spread[0] * spread[-1]), "spread of it": spread[-1]}
    return {name: float(value) for name, value in found.items()}
