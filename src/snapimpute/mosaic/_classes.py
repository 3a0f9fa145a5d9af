"""Classes by expectation–maximisation: what each shows in each column, and how often strands jump between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.files import stored
from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array
from snapimpute.base.vectors import LANES
from snapimpute.mosaic._expectation import expect
from snapimpute.mosaic._pairs import MISSING, pairs, work_space
from snapimpute.mosaic._panel import LEAST_JUMP, MOST_JUMP, Panel
from snapimpute.mosaic._phasing import draw_strands
from snapimpute.mosaic._single import draw_single, expect_single

FIRST_JUMP, SPREAD, EVEN = 0.05, 4.0, 50.0
"""Start: probability of a jump, weight of the frequency in what a class shows, evenness of the classes."""

CLASS_WEIGHT, PAIR_WEIGHT, SINGLE_WEIGHT = 0.1, 0.02, 1.0
"""Pseudo-counts: jumps into each class, and cells of a class that follow the frequency in the column."""

RARE = 0.002
"""Probability that a strand shows 0 or 1 at least, where rows have two strands."""

PARTS = 8
"""Parts of the rows whose counts are summed apart, so that they do not depend on the number of threads."""

Strands = NDArray[np.uint8]
Answers = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Classes(ABC):
    """Classes of strands.

    Attributes
    ----------
    theta : array
        What the classes show in each column.
    alpha : array of shape (columns, classes)
        Probability of the classes that a strand jumps into.
    rho : array of shape (columns,)
        Probability of a jump, 1 where a chain begins.
    """

    theta: NDArray[np.float32]
    alpha: NDArray[np.float32]
    rho: NDArray[np.float32]

    def __post_init__(self) -> None:
        for name in ("theta", "alpha", "rho"):  # kernels walk through memory
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.float32))

    @classmethod
    @abstractmethod
    def begin(cls, panel: Panel, classes: int, seed: int) -> Self:
        """Draw classes at random."""

    @abstractmethod
    def expected(self, panel: Panel, answers: Answers) -> tuple[Array, float]:
        """Pass all rows: return the expected counts and the log-likelihood, and add the chances of missing cells."""

    @abstractmethod
    def improved(self, panel: Panel, counts: Array) -> Self:
        """Return the classes that fit the counts best."""

    @abstractmethod
    def log_prior(self, panel: Panel) -> float:
        """Return the logarithm of the prior, which pseudo-counts make, up to a constant."""

    @abstractmethod
    def draw(self, panel: Panel, key: int) -> Strands:
        """Draw the strands of all rows, jointly along each: what they show in all columns."""

    def step(self, panel: Panel, answers: Answers) -> tuple[Self, float]:
        """Return improved classes, and the log-likelihood of these ones with their prior."""
        counts, likelihood = self.expected(panel, answers)
        return self.improved(panel, counts), likelihood + self.log_prior(panel)

    def _jumps(self, panel: Panel, jumped: Array, strands: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return α and ρ that fit the jumps into each class."""
        alpha = jumped + CLASS_WEIGHT
        line = panel.line
        rho = np.where(line.begins, 1.0, 0.0)
        if line.linked:
            found = (jumped.sum(axis=1) + line.weight * line.jumps) / (strands + line.weight)
            rho = np.where(line.begins, 1.0, np.clip(found, LEAST_JUMP, MOST_JUMP))
        return (alpha / alpha.sum(axis=1, keepdims=True)).astype(np.float32), rho.astype(np.float32)

    def _log_prior_of_jumps(self, panel: Panel, alpha: Array) -> float:
        line, inside = panel.line, ~panel.line.begins
        total = CLASS_WEIGHT * float(np.log(alpha).sum())
        if line.linked:
            rho, mean = self.rho[inside].astype(float), line.jumps[inside]
            total += line.weight * float((mean * np.log(rho) + (1 - mean) * np.log1p(-rho)).sum())
        return total


def _added(parts: Sequence[Array]) -> Array:
    """Sum the counts of parts, in their order."""
    total = np.zeros(parts[0].shape)
    for one in parts:
        total += one
    return total


def _first_jumps(panel: Panel, classes: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.float32]]:
    alpha = rng.dirichlet(np.full(classes, EVEN), panel.shape[1])
    rho = np.where(panel.line.begins, 1.0, FIRST_JUMP if panel.line.linked else 0.0)
    return alpha, rho.astype(np.float32)


# ---------------------------------------------------------------- two strands
@stored("mosaic pair classes", "theta", "alpha", "rho")
@dataclass(frozen=True, eq=False)
class PairClasses(Classes):
    """Classes of rows with two strands, whose 0 and 1 add up; ``theta[j, k]`` is the probability of 1."""

    @classmethod
    def begin(cls, panel: Panel, classes: int, seed: int) -> Self:
        """Draw classes at random."""
        rng = np.random.default_rng(seed)
        alpha, rho = _first_jumps(panel, classes, rng)
        phi = SPREAD * panel.frequencies[:, None]
        theta = rng.beta(1 + phi, 1 + SPREAD - phi, (panel.shape[1], classes))
        return cls(np.clip(theta, RARE, 1 - RARE).astype(np.float32), alpha.astype(np.float32), rho)

    def expected(self, panel: Panel, answers: Answers) -> tuple[Array, float]:
        """Pass all rows: return the expected counts and the log-likelihood, and add the chances of missing cells."""
        (m, n), classes = panel.shape, self.alpha.shape[1]
        batches, block = cut(m, LANES), block_of(n)
        shape, rates = (n, classes, 3), rates_of(self.rho)

        def passed(start: int, stop: int) -> tuple[Array, float]:
            counts, likelihood = np.zeros(shape, np.float32), 0.0
            space, checkpoints, kept = space_of(classes, n, block)
            found = np.zeros((n, LANES, 2), np.float32)
            for first, last in batches[start:stop]:
                found[:] = 0
                given = last - first, lanes_of(panel.symbols[first:last]), self.theta, self.alpha, rates, block
                likelihood += expect(*given, space, checkpoints, kept, counts, found)
                own = panel.symbols[first:last] == MISSING
                answers[panel.starts[first] : panel.starts[last]] += found.transpose(1, 0, 2)[: last - first][own]
            return counts, likelihood

        parts = cut(len(batches), -(-len(batches) // PARTS))
        done = run_parts(passed, parts, m * n * 30.0 * classes**2)
        return _added([one for one, _ in done]), float(sum(likelihood for _, likelihood in done))

    def improved(self, panel: Panel, counts: Array) -> Self:
        """Return the classes that fit the counts best."""
        phi = PAIR_WEIGHT * panel.frequencies[:, None]
        one, zero = counts[..., 0], counts[..., 1]
        theta = np.clip((one + phi) / (one + zero + PAIR_WEIGHT), RARE, 1 - RARE)
        alpha, rho = self._jumps(panel, counts[..., 2], 2 * panel.shape[0])
        return type(self)(theta.astype(np.float32), alpha, rho)

    def log_prior(self, panel: Panel) -> float:
        """Return the logarithm of the prior, which pseudo-counts make, up to a constant."""
        phi, theta = panel.frequencies[:, None], self.theta.astype(float)
        shown = phi * np.log(theta) + (1 - phi) * np.log1p(-theta)
        return PAIR_WEIGHT * float(shown.sum()) + self._log_prior_of_jumps(panel, self.alpha.astype(float))

    def draw(self, panel: Panel, key: int) -> Strands:
        """Draw the strands of all rows, jointly along each: rows 2i and 2i + 1 are those of row i."""
        nobody = np.zeros((0, LANES, 1), np.int64)
        return drawn_pairs(panel, self.theta, self.alpha, self.rho, np.zeros((0, 0), np.uint8), nobody, 0.0, key)


def rates_of(rho: Array) -> NDArray[np.float32]:
    """Return the probabilities that neither strand jumps, that one certain strand does, and half that both do."""
    r = rho.astype(np.float64)
    return np.stack([(1 - r) ** 2, r * (1 - r), r**2 / 2], axis=1).astype(np.float32)


def block_of(columns: int) -> int:
    """Return the columns of a block, so that blocks and the states before them take about the same room."""
    return max(8, int(np.sqrt(columns)))


def lanes_of(symbols: Strands) -> Strands:
    """Return the symbols of up to `LANES` rows by column, one row in each lane, with rows that know nothing."""
    out = np.full((symbols.shape[1], LANES), MISSING, np.uint8)
    out[:, : symbols.shape[0]] = symbols.T
    return out


def space_of(classes: int, columns: int, block: int) -> tuple[tuple[Array, ...], Array, Array]:
    """Return work space, checkpoints and the room for a block."""
    width = LANES * (pairs(classes) + classes)
    checkpoints = np.zeros(((columns - 1) // block + 1, width), np.float32)
    return work_space(classes), checkpoints, np.zeros((block, width), np.float32)


def drawn_pairs(
    panel: Panel,
    theta: NDArray[np.float32],
    alpha: NDArray[np.float32],
    rho: NDArray[np.float32],
    strands: Strands,
    donors: NDArray[np.int64],
    wrong: float,
    key: int,
) -> Strands:
    """Draw two strands of each row, from classes or from strands that stand for them; see `draw_strands`."""
    (m, n), classes = panel.shape, alpha.shape[1]
    block, rates, out = block_of(n), rates_of(rho), np.zeros((m, 2, n), np.uint8)
    width = -(-n // max(donors.shape[0], 1))

    def drawn(start: int, stop: int) -> None:
        space, checkpoints, kept = space_of(classes, n, block)
        rows = np.arange(start, stop)
        own = np.zeros((donors.shape[0], LANES, donors.shape[2]), np.int64)
        if donors.size:
            own[:, : rows.size] = donors[:, start:stop]
        source = theta, strands, own, width, np.float32(wrong)
        given = rows, lanes_of(panel.symbols[start:stop]), source, alpha, rates, block
        draw_strands(*given, space, checkpoints, kept, key, out[start:stop])

    run_parts(drawn, cut(m, LANES), m * n * 10.0 * classes**2)
    return out.reshape(2 * m, n)


# ---------------------------------------------------------------- one strand
@stored("mosaic single classes", "theta", "alpha", "rho", "used")
@dataclass(frozen=True, eq=False)
class SingleClasses(Classes):
    """Classes of rows with one strand; ``theta[j, s, k]`` is the probability of symbol s, and ``used`` counts them.

    Numbers by class are in multiples of `LANES`, those that nobody uses are 0.
    """

    used: int = 0

    @classmethod
    def begin(cls, panel: Panel, classes: int, seed: int) -> Self:
        """Draw classes at random."""
        rng, (_, n), size = np.random.default_rng(seed), panel.shape, -(-classes // LANES) * LANES
        found, rho = _first_jumps(panel, classes, rng)
        alpha, theta = np.zeros((n, size), np.float32), np.zeros((n, panel.most, size), np.float32)
        alpha[:, :classes] = found
        can = np.arange(panel.most) < panel.levels[:, None]
        weights = np.where(can, 0.5 + SPREAD * panel.shares, 0.0)
        drawn = rng.standard_gamma(weights[:, :, None], (n, panel.most, classes)) + 1e-3 * can[:, :, None]
        theta[:, :, :classes] = drawn / drawn.sum(axis=1, keepdims=True)
        return cls(theta, alpha, rho, classes)

    def expected(self, panel: Panel, answers: Answers) -> tuple[Array, float]:
        """Pass all rows: return the expected counts and the log-likelihood, and add the chances of missing cells."""
        (m, n), (levels, size) = panel.shape, self.theta.shape[1:]

        def passed(first: int, last: int) -> tuple[Array, float]:
            counts = np.zeros((n, levels + 1, size), np.float32)
            given = panel.symbols, self.theta, self.alpha, self.rho, counts, panel.starts, answers
            return counts, expect_single(first, last, *given)

        done = run_parts(passed, cut(m, -(-m // PARTS)), m * n * 20.0 * size)
        return _added([one for one, _ in done]), float(sum(likelihood for _, likelihood in done))

    def improved(self, panel: Panel, counts: Array) -> Self:
        """Return the classes that fit the counts best."""
        theta, alpha = np.zeros_like(self.theta), np.zeros_like(self.alpha)
        shown = counts[:, :-1, : self.used] + SINGLE_WEIGHT * panel.shares[:, :, None]
        theta[:, :, : self.used] = shown / shown.sum(axis=1, keepdims=True)
        alpha[:, : self.used], rho = self._jumps(panel, counts[:, -1, : self.used], panel.shape[0])
        return replace(self, theta=theta, alpha=alpha, rho=rho)

    def log_prior(self, panel: Panel) -> float:
        """Return the logarithm of the prior, which pseudo-counts make, up to a constant."""
        theta = self.theta[:, :, : self.used].astype(float)
        shares = np.broadcast_to(panel.shares[:, :, None], theta.shape)
        shown = float((shares * np.log(np.where(shares > 0, theta, 1.0))).sum())
        return SINGLE_WEIGHT * shown + self._log_prior_of_jumps(panel, self.alpha[:, : self.used].astype(float))

    def draw(self, panel: Panel, key: int) -> Strands:
        """Draw the missing cells of all rows, jointly along each."""
        m, n = panel.shape
        out = np.empty((m, n), np.uint8)
        given = panel.symbols, self.theta, self.alpha, self.rho, key, out
        run_parts(lambda first, last: draw_single(first, last, *given), cut(m, LANES), m * n * 20.0)
        return out
