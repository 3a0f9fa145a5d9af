"""One chain of the low-rank posterior: its state, and a sweep.

The state is arrays and nothing else; random numbers follow from the seed, the
chain and the number of the sweep, so that a chain goes on from any sweep to the
same bits, on any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._choices import choice_likelihood, draw_choices
from snapimpute.posterior._draw import Draw, ThresholdPrior
from snapimpute.posterior._features import Features
from snapimpute.posterior._gram import padded
from snapimpute.posterior._intervals import FAR_THRESHOLD
from snapimpute.posterior._likelihood import log_likelihood
from snapimpute.posterior._link_passes import draw_latents
from snapimpute.posterior._links import Links, found_links
from snapimpute.posterior._passes import draw_items, draw_raters, predict, split
from snapimpute.posterior._thresholds import move_thresholds, threshold_slopes
from snapimpute.posterior._units import RATE, RELAXATION, Side

COMMON_SWEEPS, HELD_SWEEPS, NOISE_FROM, FACTORS_FROM = 11, 10, 4, 16
"""Sweeps in which thresholds are common to all raters, in which the precision of factors is held, and from which
items have noise levels and factors on thresholds of their own."""

LARGEST_LOGARITHM = 80.0
"""Logarithm of a factor on thresholds at most."""

OPERATIONS = 200.0
"""Arithmetic of a pass for each cell, about."""

LINKS_AT = (14, 24, 60, 120)
"""Sweeps of the burn-in that look for links."""

LINKED_SURE = 0.1
"""Multiplies ν for columns in blocks: two that are nearly the same leave little noise."""

OTHER_KEY = np.uint32(0x9E3779B9)
"""Makes the random numbers of raters others than those of items."""

BLOCKS = 8
"""Blocks of cells with categories that are drawn together."""


@dataclass(frozen=True)
class Parts:
    """Parts of the model that can be turned off for study.

    An ``exact`` chain draws from one joint density: common thresholds have a proper prior, every part moves from the
    first sweep on, and nothing is rescaled, recentred, held or adapted. That density is the product of the priors
    where the thresholds of *all* raters are in order. The order therefore counts in the prior of the common
    thresholds and of their spread, whose conditionals stay those of independent thresholds.
    """

    noise: bool = True
    item_noise: bool = True
    thresholds: bool = True
    factors: bool = True
    links: bool = False
    exact: bool = False


def factors_of(logarithms: Array) -> Array:
    """Return positive factors as far as their float32 holds them: a flat prior may draw any."""
    factors: Array = np.exp(np.minimum(logarithms, LARGEST_LOGARITHM)).astype(np.float32)
    return factors


class Chain:
    """A chain of draws; call `sweep` for the next."""

    def __init__(
        self,
        cells: Cells,
        rank: int,
        features: tuple[Features, Features],
        *,
        seed: int = 0,
        burn_in: int = 40,
        parts: Parts | None = None,
    ) -> None:
        self.cells, self.rank, self.seed, self.burn_in = cells, rank, seed, burn_in
        self.parts = Parts() if parts is None else parts
        self.width = padded(rank + 1)
        rng = self._random(0, 0)
        self.raters, self.items = (
            Side.start(units, rank, self.width, one, rng) for units, one in zip(cells.shape, features, strict=True)
        )
        self.ordinal = cells.levels > 0
        for raters, levels in cells.choices.levels():
            self.raters.numbers[raters, 0] = levels
        self.binary = bool((cells.levels == 2).all())
        self.number = 0
        self.eta, self.z = np.zeros(len(cells), np.float32), np.zeros(len(cells), np.float32)
        if cells.value is not None:
            self.z[:] = cells.value
        self._start_thresholds()
        items = cells.shape[1]
        self.log_factors: Array = np.zeros(items)
        self.factor_steps: Array = np.full(items, 0.1)
        self.factor_spread = 0.1
        self.links = Links.none(cells.shape)
        self.log_likelihood, self.relaxation = float("nan"), RELAXATION

    def _start_thresholds(self) -> None:
        """Begin with the common thresholds that the shares of the symbols of each kind ask for."""
        cells, most = self.cells, int(self.cells.levels.max(initial=2))
        kinds, self.kinds = int(cells.kind.max(initial=0)) + 1, []
        self.center: Array = np.zeros((kinds, most + 1))
        self.spread: Array = np.full((kinds, most + 1), 0.3)
        whose = np.repeat(np.arange(cells.shape[0]), np.diff(cells.start))
        for kind in range(kinds):
            raters = np.flatnonzero((cells.kind == kind) & self.ordinal)
            levels = int(cells.levels[raters[0]]) if raters.size else 0
            self.kinds.append((raters, levels))
            inside = cells.symbol[(cells.kind == kind)[whose]]
            shares = np.bincount(inside, minlength=levels)[:levels] + 0.5
            shares = np.ones(levels) if self.parts.exact else shares
            self.center[kind, 1:levels] = 0.0 if self.binary else ndtri(np.cumsum(shares) / shares.sum())[:-1]
        self.thresholds = np.full((cells.shape[0], most + 1), FAR_THRESHOLD, np.float32)
        self.thresholds[:, 0] = -FAR_THRESHOLD
        self.steps = np.full((cells.shape[0], most + 1), 0.3, np.float32)
        self.first_center, self.center_precision = self.center.copy(), 1.0 if self.parts.exact else 0.0
        self._make_common()

    def _make_common(self) -> None:
        for kind, (raters, levels) in enumerate(self.kinds):
            self.thresholds[raters, 1:levels] = self.center[kind, 1:levels]

    def _before(self, sweep: int) -> bool:
        """Tell whether that sweep is yet to come; an exact chain begins with everything."""
        return self.number < sweep and not self.parts.exact

    def _random(self, sweep: int, purpose: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=[self.seed, (sweep << 8) | purpose]))

    # ---------------------------------------------------------------- a sweep
    def sweep(self) -> None:
        """Draw everything once."""
        key = np.uint32(np.random.SeedSequence((self.seed, self.number)).generate_state(1)[0])
        self._predict()
        self._draw_links()
        common = self._before(COMMON_SWEEPS) or not self.parts.thresholds
        told = self.ordinal.any() and not self.binary and self.cells.value is None  # by the pass over thresholds
        if not told:
            self.log_likelihood = self._log_likelihood()
        if self.ordinal.any() and not self.binary:
            if common:
                found = [self._move_common() for _ in range(3 if self.number < 3 else 1)]
                self.log_likelihood = found[0] if told else self.log_likelihood
            else:
                self._move_own(key)
        self.log_likelihood += self._choice_likelihood()
        self._draw_units(key)
        self.number += 1

    @property
    def _roots(self) -> tuple[Array, Array]:
        return np.sqrt(self.raters.noise), np.sqrt(self.items.noise)

    def _predict(self) -> None:
        """η of all known cells."""
        cells = self.cells
        pairs = self.raters.numbers, *split(self.items.numbers)
        run_parts(
            lambda a, b: predict(a, b, cells.start, cells.item, *pairs, self.eta),
            cells.rater_parts,
            OPERATIONS * len(cells),
        )

    def _log_likelihood(self) -> float:
        """Log-likelihood of the known cells; the threshold pass gives it, too, where it moves all cells."""
        cells, factors = self.cells, factors_of(self.log_factors)
        levels = cells.levels.copy()
        levels[cells.choices.raters] = -1
        given = cells.start, cells.item, cells.symbol, levels, self.thresholds, factors, *self._roots
        found = run_parts(
            lambda a, b: log_likelihood(a, b, *given, self.eta, self.z), cells.rater_parts, OPERATIONS * len(cells)
        )
        return float(sum(found))

    def _choice_likelihood(self) -> float:
        """Log-likelihood of the cells with categories."""
        cells, choices = self.cells, self.cells.choices
        given = choices.blocks, choices.table, choices.category, cells.start, cells.item, *self._roots, self.eta
        parts = cut(len(choices.blocks), BLOCKS)
        found = run_parts(lambda a, b: choice_likelihood(a, b, *given), parts, OPERATIONS * choices.category.size)
        return float(sum(found))

    def _draw_links(self) -> None:
        """Look for links in some sweeps of the burn-in; draw them, and add them to η."""
        new = self.parts.links and self.number in LINKS_AT and self._before(self.burn_in)
        if new:
            self.links = found_links(self.cells, self.z - self.eta)
        if not self.links.any:
            return
        at, rng = self.links.cells(self.cells), self._random(self.number, 3)
        rest = (self.z[at.place] - self.eta[at.place]).astype(np.float64)
        given = at, rest, self.raters.noise[at.rater].astype(np.float64) * self.items.noise[at.item], rng
        self.links = self.links.with_shared(*given).with_loadings(*given)
        self.eta[at.place] += self.links.offsets(at.rater, at.item)

    def _move_common(self) -> float:
        """Take a Newton step on the common thresholds of each kind; the log-likelihood before it."""
        cells = self.cells
        sums = np.zeros((3, *self.center.shape))
        factors = factors_of(self.log_factors)

        def work(start: int, stop: int) -> tuple[Array, float]:
            own = np.zeros_like(sums)
            given = cells.start, cells.item, cells.symbol, cells.levels, cells.kind, self.thresholds, factors
            return own, threshold_slopes(start, stop, *given, *self._roots, self.eta, *own)

        found = run_parts(work, cells.rater_parts, OPERATIONS * len(cells))
        for own, _ in found:
            sums += own
        for kind, (raters, levels) in enumerate(self.kinds):
            if levels < 2 or not raters.size:
                continue
            slope, bend, mixed = (one[kind, 1:levels] for one in sums)
            hessian = np.diag(bend + 1e-3) + np.diag(mixed[:-1], 1) + np.diag(mixed[:-1], -1)
            step = np.clip(np.linalg.solve(hessian, slope), -0.5, 0.5)
            new = self.center[kind, 1:levels] + step
            self.center[kind, 1:levels] = new if (np.diff(new) > 0).all() else new - 0.9 * step
        self._make_common()
        return float(sum(one for _, one in found))

    def _move_own(self, key: np.uint32) -> None:
        """Move the thresholds of each rater, then the factor that each item has on them."""
        cells, rng = self.cells, self._random(self.number, 1)
        moving = self.parts.factors and not self._before(FACTORS_FROM)
        shift = self.factor_steps * rng.standard_normal(cells.shape[1]) * moving
        factors, others = (factors_of(one) for one in (self.log_factors, self.log_factors + shift))
        center, spread = self.center.astype(np.float32), self.spread.astype(np.float32)
        adapt = self._before(self.burn_in)

        def work(start: int, stop: int) -> tuple[Array, float]:
            change = np.zeros(cells.shape[1], np.float32)
            given = (
                cells.start,
                cells.runs,
                cells.item,
                cells.symbol,
                cells.levels,
                cells.kind,
                self.thresholds,
                center,
                spread,
            )
            more = self.steps, adapt, factors, others, *self._roots, self.eta, key, change
            return change, move_thresholds(start, stop, *given, *more)

        found = run_parts(work, cells.ordinal_parts, OPERATIONS * len(cells))
        if cells.value is None:
            self.log_likelihood = float(sum(one for _, one in found))
        self._draw_threshold_priors(rng)
        if moving:
            self._take_factors(np.sum([change for change, _ in found], axis=0, dtype=np.float64), shift, adapt, rng)

    def _draw_threshold_priors(self, rng: np.random.Generator) -> None:
        """Draw the common thresholds of each kind, and how far raters are from them."""
        for kind, (raters, levels) in enumerate(self.kinds):
            if levels < 2 or not raters.size:
                continue
            every = slice(None) if raters.size == len(self.thresholds) else raters
            own, ones = self.thresholds[every, 1:levels].astype(np.float64), np.ones(raters.size)
            spread = self.spread[kind, 1:levels] / np.sqrt(raters.size)
            share = 1 / (1 + self.center_precision * spread**2)
            mean = share * (ones @ own) / raters.size + (1 - share) * self.first_center[kind, 1:levels]
            center = mean + np.sqrt(share) * spread * rng.standard_normal(levels - 1)
            off = ones @ np.square(own - center)
            self.center[kind, 1:levels] = center
            self.spread[kind, 1:levels] = np.sqrt(
                (RATE + 0.5 * off) / rng.standard_gamma(1 + raters.size / 2, levels - 1)
            )

    def _take_factors(self, change: Array, shift: Array, adapt: bool, rng: np.random.Generator) -> None:
        """Accept or refuse the new factor of each item."""
        old, new = self.log_factors, self.log_factors + shift
        gain = change - 0.5 * (new**2 - old**2) / self.factor_spread**2
        taken = np.log(rng.random(gain.size)) < gain
        if adapt:
            self.factor_steps = np.clip(self.factor_steps * np.where(taken, 1.05, 0.97), 0.01, 0.8)
        factors = np.where(taken, new, old)
        if not self.parts.exact:
            factors -= factors.mean()
        self.log_factors = factors
        self.factor_spread = float(
            rng.gamma(1 + factors.size / 2, 1 / (RATE + 0.5 * float(factors @ factors))) ** -0.5
        )

    def _draw_units(self, key: np.uint32) -> None:
        """Draw latent values, then raters, their noise and prior, then items."""
        cells, roots, used = self.cells, self._roots, self.rank + 1
        factors, rng = factors_of(self.log_factors), self._random(self.number, 2)
        raters, items = self.raters, self.items
        choose(cells, self._roots, self.eta, key, self.z)
        rest = np.empty(cells.shape[0], np.float32), np.empty(cells.shape[1], np.float32)
        bounds = cells.symbol, cells.levels, self.thresholds, factors, *roots, self.eta
        relaxation = np.float32(0 if self._before(self.burn_in) else self.relaxation)
        given = *split(items.numbers), raters.precision, raters.mean, relaxation, used, key, raters.numbers, rest[0]
        z = self._draw_linked(bounds, given) if self.links.any else self._draw_raters(bounds, given)
        held, exact = self._before(HELD_SWEEPS), self.parts.exact
        counts = cells.counts
        if self.parts.noise and not self.binary:
            scaled, sure = self.ordinal & (not exact), np.where(self.links.block >= 0, LINKED_SURE, 1.0)
            raters.draw_noise(rest[0], counts[0], rng, scaled=scaled, sure=sure)
            raters.noise[cells.choices.raters] = 1.0  # the size of utilities says nothing
        raters.draw_prior(self.rank, rng, held=held, level=self.binary)
        order = cells.item_start, cells.rater, cells.position, z, *split(raters.numbers), *self._roots
        more = items.precision, items.mean, relaxation, used, key, items.numbers, rest[1]
        run_parts(lambda a, b: draw_items(a, b, *order, *more), cells.item_parts, OPERATIONS * len(cells))
        if self.parts.item_noise and not self.binary and not self._before(NOISE_FROM):
            items.draw_noise(rest[1], counts[1], rng, scaled=np.full(counts[1].size, not exact))
        items.draw_prior(self.rank, rng, held=held, level=False)

    def _draw_raters(self, bounds: tuple[Any, ...], given: tuple[Any, ...]) -> Array:
        """Draw latent values and raters in one pass; return what levels and factors explain."""
        cells = self.cells
        run_parts(
            lambda a, b: draw_raters(a, b, cells.start, cells.item, *bounds, self.z, *given),
            cells.rater_parts,
            OPERATIONS * len(cells),
        )
        return self.z

    def _draw_linked(self, bounds: tuple[Any, ...], given: tuple[Any, ...]) -> Array:
        """Draw latent values, then raters from these without the links; return the same as `_draw_raters`."""
        cells, (*units, ridge, mean, relaxation, used, key, numbers, rest) = self.cells, given
        parts, work = cells.rater_parts, OPERATIONS * len(cells)
        run_parts(lambda a, b: draw_latents(a, b, cells.start, cells.item, *bounds, key, self.z), parts, work)
        at, z = self.links.cells(cells), self.z.copy()
        z[at.place] -= self.links.offsets(at.rater, at.item)
        order = cells.start, cells.item, np.arange(len(cells)), z
        more = *units, *self._roots[::-1], ridge, mean, relaxation, used, key ^ OTHER_KEY, numbers, rest
        run_parts(lambda a, b: draw_items(a, b, *order, *more), parts, work)
        return z

    def resume(self, draw: Draw, sweep: int) -> None:
        """Go on from a draw of a smaller table of the same kind, as if so many sweeps had been made.

        Units that are new begin at the prior mean of their side, thresholds that are new at the common ones.
        """
        used = self.rank + 1
        self.number = sweep
        noises = draw.rater_noise, draw.item_noise
        for side, numbers, noise, prior in zip(
            (self.raters, self.items), (draw.raters, draw.items), noises, draw.priors, strict=True
        ):
            side.numbers[:, :used] = prior.center
            side.numbers[: len(numbers), :used] = numbers
            side.noise[: len(noise)] = noise
            side.take_prior(prior)
        self.center, self.spread = draw.threshold_prior.center.copy(), draw.threshold_prior.spread.copy()
        self.factor_spread = draw.threshold_prior.factor_spread
        self._make_common()
        self.thresholds[: len(draw.thresholds), 1:-1] = draw.thresholds
        self.log_factors[: draw.factors.size] = np.log(draw.factors)
        self.links = draw.links.grown(self.cells.shape)

    # ---------------------------------------------------------------- answers
    def draw(self) -> Draw:
        """Copy what probabilities depend on."""
        used = self.rank + 1
        return Draw(
            self.raters.numbers[:, :used].copy(),
            self.items.numbers[:, :used].copy(),
            self.raters.noise,
            self.items.noise,
            self.thresholds[:, 1:-1].copy(),
            factors_of(self.log_factors),
            (self.raters.prior(used), self.items.prior(used)),
            ThresholdPrior(self.center.copy(), self.spread.copy(), self.factor_spread),
            self.links,
        )


def choose(cells: Cells, roots: tuple[Array, Array], eta: Array, key: np.uint32, z: Array) -> None:
    """Draw the latent values of columns of categories."""
    choices = cells.choices
    given = choices.blocks, choices.table, choices.category, cells.start, cells.item, *roots, eta, key, z
    parts = cut(len(choices.blocks), BLOCKS)
    run_parts(lambda a, b: draw_choices(a, b, *given), parts, OPERATIONS * choices.category.size)
