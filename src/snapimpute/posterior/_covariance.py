"""The posterior of narrow tables: the latent vector of a row may have any covariance.

    z_i ~ N(0, Σ / w_i),   y_ij = s  ⇔  g_j,s < z_ij ≤ g_j,s+1,   w_i ~ Gamma(ν/2, ν/2)

Columns have thresholds, rows a noise level w_i; Σ has an inverse Wishart prior
about a factor model. A sweep visits the columns in turn: each is conditioned on
all others, known or drawn. Columns of categories have several latent ones
(`_contrasts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.posterior._column_passes import add_symbols, draw_missing, move_own, regress
from snapimpute.posterior._contrasts import Contrasts
from snapimpute.posterior._intervals import FAR_THRESHOLD, between_thresholds
from snapimpute.posterior._likelihood import log_densities, log_intervals
from snapimpute.posterior._noise import FIRST_SHAPE, draw_noise, draw_shape
from snapimpute.posterior._row_means import RowMeans
from snapimpute.posterior._units import RELAXATION

THRESHOLDS_FROM = 4
"""First sweep that moves thresholds."""

SETTLE = 10
"""Sweeps in which the rows settle under parameters that are given."""

ROUNDS = 3
"""Rounds of principal factors that make the centre of the prior."""

LINK = 4.0
"""Standard errors of a residual correlation from which the centre of the prior keeps it."""

LEAST_EIGENVALUE, SMALLEST_SHARE = 1e-3, 0.01
"""Limits of that centre: its smallest eigenvalue, and the share of the links below which they are left out."""

MOST_SHARED = 0.98
"""Share of the variance of a column that the factors may explain."""

FIRST_STEP = 0.1
"""First step of the thresholds."""


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of a latent column: rows with a known cell, sorted by symbol, and rows without.

    ``levels`` are 0 for plain numbers, and for contrasts of categories.
    """

    known: NDArray[np.int64]
    symbol: NDArray[np.uint8]
    missing: NDArray[np.int64]
    levels: int


@stored("posterior covariance draw", "precision", "thresholds", "level", "noise_shape", "slopes", "offsets")
@dataclass(frozen=True, eq=False)
class CovarianceDraw:
    """One draw: the precision matrix of the columns, their thresholds, the noise of rows, slopes on their features.

    Noise levels are divided by ``level``; ``noise_shape`` is their ν. ``offsets`` has those of the categories of each
    column that has some.
    """

    precision: Array
    thresholds: Array
    level: float
    noise_shape: float
    slopes: Array
    offsets: tuple[Array, ...] = ()


class CovarianceChain:
    """A chain with a full covariance; ``values`` are the standardised numbers of columns without symbols.

    An ``exact`` chain draws from one joint density: the prior of Σ has the identity as its fixed centre, that of
    thresholds the quantiles of equal shares, and nothing is rescaled or adapted.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        columns: list[Column],
        values: dict[int, Array],
        contrasts: Sequence[Contrasts] = (),
        *,
        features: Array | None = None,
        seed: int = 0,
        burn_in: int = 40,
        strength: float | None = None,
        rank: int | None = None,
        robust: bool = True,
        exact: bool = False,
    ) -> None:
        (self.rows, p), self.columns, self.seed, self.burn_in = shape, columns, seed, burn_in
        self.strength = float(p) if strength is None else float(strength)
        self.rank = max(min(p // 6, 12), 1) if rank is None else rank
        self.robust, self.exact, self.number = robust, exact, 0
        self.given = False
        self.levels = np.array([column.levels for column in columns])
        most = int(self.levels.max(initial=2))
        self.thresholds = np.full((p, most + 1), FAR_THRESHOLD, np.float32)
        self.thresholds[:, 0] = -FAR_THRESHOLD
        self.steps = np.full((p, most + 1), FIRST_STEP, np.float32)
        self.z = np.zeros((p, self.rows), np.float32)
        for j, column in enumerate(columns):
            if column.levels:
                shares = np.bincount(column.symbol, minlength=column.levels)[: column.levels] + 0.5
                self.thresholds[j, 1 : column.levels] = ndtri(np.cumsum(shares) / shares.sum())[:-1]
            elif j in values:
                self.z[j, column.known] = values[j]
        self.contrasts, begun = tuple(contrasts), [one.start() for one in contrasts]
        self.offsets, self.utilities = [one for one, _ in begun], [one for _, one in begun]
        known = np.zeros((p, self.rows), np.float32)
        for j, column in enumerate(columns):
            known[j, column.known] = 1.0
        self.least: Array = LINK / np.sqrt(np.maximum((known @ known.T).astype(np.float64), 1.0))
        self.precision: Array = np.eye(p)
        self.means = RowMeans.start(np.zeros((self.rows, 0)) if features is None else features, p)
        self.weights, self.level, self.noise_shape = np.ones(self.rows, np.float32), 1.0, FIRST_SHAPE
        self.log_likelihood, self.relaxation = float("nan"), RELAXATION

    def _random(self, purpose: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=[self.seed, (self.number << 8) | purpose]))

    def sweep(self, sums: Array | None = None, centers: Array | None = None) -> None:
        """Draw everything once; add probabilities of all cells to ``sums``, and means to ``centers``.

        ``log_likelihood`` is that of each known cell given all other cells of its row, added up.
        """
        rng = self._random(1)
        self.log_likelihood = 0.0
        if self.number > 0:
            if not self.given:
                self._draw_precision(rng)
            if self.robust:
                self._draw_weights(rng)
        center = self._threshold_centers()
        seeds = np.random.SeedSequence((self.seed, self.number)).generate_state(len(self.columns))
        for j, column in enumerate(self.columns):
            if not self.is_contrast[j]:
                self._visit(j, column, center[j], np.uint32(seeds[j]), sums, centers)
        for place, contrasts in enumerate(self.contrasts):
            self._draw_utilities(place, contrasts, np.uint32(seeds[contrasts.first] ^ 1), rng)
            self._visit_categories(place, contrasts, seeds, sums, centers)
        self.number += 1

    @property
    def _relaxation(self) -> np.float32:
        """Relaxation of missing cells and contrasts: none in the burn-in, nor where parameters are given."""
        early = self.number < self.burn_in and not self.exact
        return np.float32(0 if early or self.given else self.relaxation)

    def _threshold_centers(self) -> Array:
        """Prior means of the thresholds: those of all columns now, or where the shares of all symbols are equal."""
        centers = np.zeros_like(self.thresholds)
        for t in range(1, centers.shape[1] - 1):
            has = self.levels > t
            if has.any():
                centers[has, t] = ndtri(t / self.levels[has]) if self.exact else self.thresholds[has, t].mean()
        return centers

    def _visit(
        self, j: int, column: Column, center: Array, key: np.uint32, sums: Array | None, centers: Array | None
    ) -> None:
        """Draw the thresholds and the latent values of a column, given the others."""
        weights = self.precision[j].astype(np.float32)
        eta = np.empty(self.rows, np.float32)
        regress(self.z, weights, j, eta)
        eta += self.means.beside(self.precision[j], j)
        size = np.sqrt(weights[j] * self.weights)
        known, missing = column.known, column.missing
        if column.levels:
            mean, spread = eta[known], size[known]
            if self.number >= THRESHOLDS_FROM and column.levels > 1 and not self.given:
                given = column.symbol, column.levels, self.thresholds[j], center, np.float32(1), self.steps[j]
                adapt = self.number < self.burn_in and not self.exact
                move_own(*given, adapt, mean, spread, key)
            bounds = self.thresholds[j]
            low, high, z = bounds[column.symbol], bounds[column.symbol + 1], np.empty(known.size, np.float32)
            self.log_likelihood += log_intervals(low.copy(), high.copy(), spread, mean)
            between_thresholds(0, key, low, high, spread, mean, z)
            self.z[j, known] = z
            if sums is not None:
                add_symbols(self.thresholds[j], column.levels, eta, size, sums[j])
        else:
            self.log_likelihood += log_densities(self.z[j, known], size[known], eta[known])
        if centers is not None:
            centers[j] += eta
        drawn = np.empty(missing.size, np.float32)
        draw_missing(key, eta[missing], size[missing], self._relaxation, self.z[j, missing], drawn)
        self.z[j, missing] = drawn

    @cached_property
    def is_contrast(self) -> NDArray[np.bool_]:
        """Tell which latent columns are contrasts of categories."""
        found = np.zeros(len(self.columns), dtype=bool)
        for one in self.contrasts:
            found[one.columns] = True
        return found

    def _draw_utilities(self, place: int, one: Contrasts, key: np.uint32, rng: np.random.Generator) -> None:
        """Draw utilities and offsets of a column of categories."""
        v, weights = self.z[one.columns, one.known], self.weights[one.known]
        one.draw(self.offsets[place], self.utilities[place], v, np.sqrt(weights), key)
        if not self.given:
            self.offsets[place] = one.offsets(self.utilities[place], v, weights, rng)

    def _visit_categories(
        self, place: int, one: Contrasts, seeds: NDArray[Any], sums: Array | None, centers: Array | None
    ) -> None:
        """Draw the contrasts of a column of categories, given its utilities and the other columns."""
        offsets, known, roots = self.offsets[place], one.known, np.sqrt(self.weights)
        eta, drawn = np.empty(self.rows, np.float32), np.empty(self.rows, np.float32)
        columns = range(one.columns.start, one.columns.stop)
        for j, target in zip(columns, one.targets(offsets, self.utilities[place]), strict=True):
            row = self.precision[j].astype(np.float32)
            regress(self.z, row, j, eta)
            eta += self.means.beside(self.precision[j], j)
            precision = np.full(self.rows, row[j])
            eta[known] = (row[j] * eta[known] + target) / (row[j] + 1)
            precision[known] += 1
            draw_missing(np.uint32(seeds[j]), eta, np.sqrt(precision) * roots, self._relaxation, self.z[j], drawn)
            self.z[j] = drawn
        shares = one.shares(offsets, self.z[one.columns], roots)
        self.log_likelihood += float(np.log(np.maximum(shares[one.category, known], 1e-30)).sum(dtype=np.float64))
        if sums is not None:
            sums[one.first, : one.count] += shares
        if centers is not None:
            centers[one.columns] += self.z[one.columns]

    def _draw_precision(self, rng: np.random.Generator) -> None:
        """Draw K from its Wishart distribution, and give Σ a unit diagonal for columns with symbols."""
        p = len(self.columns)
        weighted = self.z * self.weights
        regression = self.means.regress(weighted, self.weights)
        cross = (weighted @ self.z.T).astype(np.float64) - regression.explained
        center = np.eye(p) if self.exact else factor_covariance(cross / self.rows, self.rank, self.least)
        freedom = p + 2 + self.strength + self.rows
        precision: Array = wishart(freedom, (self.strength + 1) * center + cross, rng)
        self.means.draw(regression, precision, rng)
        if not self.exact:
            spread = np.sqrt(np.diag(np.linalg.inv(precision)))
            spread[self.levels == 0] = 1.0
            precision *= np.outer(spread, spread)
            self.z /= spread[:, None].astype(np.float32)
            self.means.scale(spread)
            self.thresholds[:, 1:-1] /= spread[:, None].astype(np.float32)
            self.thresholds[:, 1:-1][self.thresholds[:, 1:-1] > FAR_THRESHOLD / 1e3] = FAR_THRESHOLD
        self.precision = precision

    def _draw_weights(self, rng: np.random.Generator) -> None:
        """Draw the noise level of each row."""
        rest = self.means.left_of(self.z)
        squares = np.einsum("ij,ij->j", rest, self.precision.astype(np.float32) @ rest)
        cells = np.full(self.rows, len(self.columns))
        for offsets, utilities, one in zip(self.offsets, self.utilities, self.contrasts, strict=True):
            squares[one.known] += one.squares(offsets, utilities, self.z[one.columns, one.known])
            cells[one.known] += one.count
        weights = draw_noise(self.noise_shape, cells, squares, rng)
        if not (self.exact or self.given):
            self.level = float(np.exp(np.log(weights).mean()))
        weights /= self.level
        if not self.given:
            self.noise_shape = draw_shape(weights, rng)
        self.weights = weights.astype(np.float32)

    def take(self, draw: CovarianceDraw) -> None:
        """Take the parameters of a draw as given: sweeps move the rows only."""
        self.precision, self.given = draw.precision.astype(np.float64), True
        self.noise_shape = draw.noise_shape
        self.thresholds[:, 1:-1] = draw.thresholds
        self.level = draw.level
        self.offsets = [one.astype(np.float64) for one in draw.offsets]
        self.means.take(draw.slopes)

    def begin(self, means: Array) -> None:
        """Begin with latent values that are given; known numbers stay."""
        for j, column in enumerate(self.columns):
            self.z[j, column.missing] = means[j, column.missing]
            if column.levels or self.is_contrast[j]:
                self.z[j, column.known] = means[j, column.known]

    def symbols(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        """Symbols of cells as their latent values are now; these themselves in columns of plain numbers.

        ``cols`` are latent columns, the first one of those of categories, which are drawn.
        """
        z = self.z[cols, rows]
        found = (z[:, None] > self.thresholds[cols, 1:-1]).sum(axis=1)
        out = np.where(self.levels[cols] > 0, found, z).astype(np.float32)
        for offsets, one in zip(self.offsets, self.contrasts, strict=True):
            here = np.flatnonzero(cols == one.first)
            v, roots = self.z[one.columns, rows[here]], np.sqrt(self.weights[rows[here]])
            out[here] = one.chosen(offsets, v, roots, self._random(2))
        return out

    def resume(self, draw: CovarianceDraw, sweep: int) -> None:
        """Go on from the parameters of a draw, as if so many sweeps had been made."""
        self.take(draw)
        for _ in range(SETTLE):
            self.sweep()
        self.given, self.number = False, sweep

    def draw(self) -> CovarianceDraw:
        """Copy the parameters."""
        thresholds = self.thresholds[:, 1:-1].copy()
        offsets = tuple(one.astype(np.float32) for one in self.offsets)
        precision, slopes = self.precision.astype(np.float32), self.means.slopes.astype(np.float32)
        return CovarianceDraw(precision, thresholds, self.level, self.noise_shape, slopes, offsets)


def wishart(freedom: float, inverse_scale: Array, rng: np.random.Generator) -> Array:
    """Draw from a Wishart distribution by Bartlett's decomposition, given the inverse of its scale."""
    p = inverse_scale.shape[0]
    lower = np.tril(rng.standard_normal((p, p)), -1)
    lower[np.diag_indices(p)] = np.sqrt(rng.chisquare(freedom - np.arange(p)))
    root = solve_triangular(np.linalg.cholesky(inverse_scale), lower, lower=True, trans="T")
    product: Array = root @ root.T
    return product


def factor_covariance(covariance: Array, rank: int, least: Array) -> Array:
    """Fit a factor model with unit diagonal to a covariance matrix by principal factors, and add single links.

    What two columns share beyond the factors is kept where it is at least ``least`` (Fan and others 2013): a prior
    about the factors alone would pull a link between only two columns towards 0.
    """
    spread = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(spread, spread)
    shared = np.full(len(correlation), 0.5)
    for _ in range(ROUNDS):
        reduced = correlation.copy()
        reduced[np.diag_indices(len(reduced))] = shared
        sizes, vectors = np.linalg.eigh(reduced)
        loadings = vectors[:, -rank:] * np.sqrt(np.maximum(sizes[-rank:], 0.0))
        found = np.einsum("ij,ij->i", loadings, loadings)
        shared = np.minimum(found, MOST_SHARED)
    # Where a column would share more than all of its variance the model was no covariance: its loadings shrink.
    loadings *= np.sqrt(shared / np.maximum(found, 1e-12))[:, None]
    model: Array = loadings @ loadings.T
    model[np.diag_indices(len(model))] = 1.0
    rest = correlation - model
    return with_links(model, np.where(np.abs(rest) >= least, rest, 0.0))


def with_links(model: Array, links: Array) -> Array:
    """Add links to a correlation matrix, all of them smaller by the same factor where it would not be one."""
    share = 1.0
    while share > SMALLEST_SHARE:
        found: Array = model + share * links
        if is_positive(found - LEAST_EIGENVALUE * np.eye(len(found))):
            return found
        share *= 0.8
    return model


def is_positive(matrix: Array) -> bool:
    """Tell whether a symmetric matrix is positive definite."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
