"""Weights of experts: a logistic model of their log-probabilities, fitted to held-out cells.

For a cell whose row is known to a share t between "little" (0) and "much" (1), expert e has the log-probabilities
L_es, and the blend

    P(s) = (1 − ε) Q(s) + ε π_s,    Q(s) ∝ exp(Σ_e ((1 − t) u_e + t v_e) L_es + c_s + d_qs),    u, v, ε ≥ 0

where q is the known symbol of the mirror cell in a square table. ε is the share of cells that follow nothing, such as
careless answers; these have the usual shares π of the symbols. A ridge draws u and v to the best single expert and
to each other, and the constants to 0: with few held-out cells the best expert answers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls

from snapimpute.base.files import stored
from snapimpute.base.types import Array

LEAST = 1e-3
"""Probability, shared by all symbols, that is added before a logarithm: no expert is surer."""

MOST_CARELESS, AGAINST_CARELESS = 0.5, 5.0
"""Share ε at most, and what a share of 1 would cost in log loss: it has to be seen in the data."""

TO_BEST, TO_EACH_OTHER, TO_ZERO, TO_NO_MIRROR = 4.0, 160.0, 16.0, 1.0
"""Ridges of the weights to the best expert, of both ends to each other, of the constants, and of the mirror's."""

MOST_CELLS = 40_000
"""Held-out cells that weights are fitted to, at most."""


class Evidence(NamedTuple):
    """Log-probabilities of experts (E, N, K) at held-out cells, the symbols there, and what else is known of them.

    ``reach`` is the share t of each cell; ``mirror`` the code of its mirror cell, 0 where that is not known.
    """

    logs: Array
    truth: NDArray[np.intp]
    reach: Array
    mirror: NDArray[np.intp] | None = None

    def some(self, most: int) -> Evidence:
        """Return every so manyth cell."""
        step = max(-(-self.truth.size // most), 1)
        mirror = None if self.mirror is None else self.mirror[::step]
        return Evidence(self.logs[:, ::step], self.truth[::step], self.reach[::step], mirror)

    def of(self, experts: Sequence[int]) -> Evidence:
        """Return the evidence of some experts."""
        return self._replace(logs=self.logs[list(experts)])


@stored("pool", "low", "high", "constants", "mirror", "careless", "usual")
@dataclass(frozen=True, eq=False)
class Pool:
    """Weights of the experts for the columns of one kind.

    Parameters
    ----------
    low, high : array (E,)
        Weights in rows of which little, or much, is known.
    constants : array (K,)
        Of each symbol; empty for columns of plain numbers, whose expected values are averaged.
    mirror : array (K + 1, K) or None
        Constants by the symbol of the mirror cell; the first row is for one that is not known.
    careless : float
        ε, the share of cells that follow nothing.
    usual : array (K,) or None
        π, the shares of the symbols.
    """

    low: Array
    high: Array
    constants: Array
    mirror: Array | None = None
    careless: float = 0.0
    usual: Array | None = None

    @property
    def weights(self) -> Array:
        """Weight of each expert, in the middle."""
        out: Array = (self.low + self.high) / 2
        return out

    def logits(self, logs: Array, reach: Array, mirror: NDArray[np.intp] | None = None) -> Array:
        """Blend log-probabilities (E, N, K), up to a constant of each cell."""
        out = np.broadcast_to(self.constants, logs.shape[1:]).astype(np.float64)
        for low, high, one in zip(self.low, self.high, logs, strict=True):
            if low > 0 or high > 0:
                out += (low + (high - low) * reach)[:, None] * one
        if self.mirror is not None and mirror is not None:
            out += self.mirror[mirror]
        return out

    def proba(self, logs: Array, reach: Array, mirror: NDArray[np.intp] | None = None) -> Array:
        """Blend log-probabilities (E, N, K)."""
        clean = softmax(self.logits(logs, reach, mirror))
        return clean if self.usual is None else (1 - self.careless) * clean + self.careless * self.usual

    def mean(self, means: Array) -> Array:
        """Average expected values (E, N) of plain numbers."""
        out: Array = self.weights @ means
        return out

    @classmethod
    def single(cls, experts: int, best: int, symbols: int) -> Pool:
        """Let one expert answer alone."""
        one = np.eye(experts)[best]
        return cls(one, one, np.zeros(symbols))

    @classmethod
    def of_numbers(cls, means: Array, truth: Array) -> Pool:
        """Weigh expected values of plain numbers by least squares, drawn to the best expert; the weights sum to 1."""
        experts = means.shape[0]
        if not truth.size:
            return cls.single(experts, 0, 0)
        best = int(np.argmin(((means - truth) ** 2).mean(axis=1)))
        base = means[best]
        rest = [e for e in range(experts) if e != best]
        spread = float(np.std(truth - base)) or 1.0
        design = np.vstack([(means[rest] - base).T / spread, np.sqrt(TO_BEST) * np.eye(len(rest))])
        found = nnls(design, np.append((truth - base) / spread, np.zeros(len(rest))))[0] if rest else np.zeros(0)
        found /= max(float(found.sum()), 1.0)
        weights = np.zeros(experts)
        weights[rest], weights[best] = found, 1 - found.sum()
        return cls(weights, weights, np.zeros(0))

    @classmethod
    def fit(cls, evidence: Evidence) -> Pool:
        """Fit the weights to held-out cells."""
        given = evidence.some(MOST_CELLS)
        experts, cells, symbols = given.logs.shape
        if not cells:
            return cls.single(experts, 0, symbols)
        at = np.arange(cells)
        best = int(np.argmin([-one[at, given.truth].mean() for one in given.logs]))
        if symbols < 2:
            return cls.single(experts, best, symbols)
        task = _Task(given, np.eye(experts)[best])
        found = minimize(task.lost, task.start, jac=True, method="L-BFGS-B", bounds=task.bounds)
        return task.pool(found.x)


class _Task:
    """Loss of the weights on held-out cells, with its slope."""

    def __init__(self, given: Evidence, prior: Array) -> None:
        self.given, self.prior = given, prior
        self.experts, _, self.symbols = given.logs.shape
        states = 0 if given.mirror is None else self.symbols + 1
        self.states = states
        free = self.symbols * (1 + states)
        self.usual = (np.bincount(given.truth, minlength=self.symbols) + 1.0) / (given.truth.size + self.symbols)
        self.start = np.concatenate([prior, prior, np.zeros(free), [1e-3]])
        self.bounds = [(0.0, None)] * (2 * self.experts) + [(None, None)] * free + [(0.0, MOST_CARELESS)]

    def pool(self, x: Array) -> Pool:
        """Return the pool of some parameters."""
        low, high, rest = x[: self.experts], x[self.experts : 2 * self.experts], x[2 * self.experts : -1]
        mirror = rest[self.symbols :].reshape(self.states, self.symbols).copy() if self.states else None
        return Pool(low.copy(), high.copy(), rest[: self.symbols].copy(), mirror, float(x[-1]), self.usual)

    def lost(self, x: Array) -> tuple[float, Array]:
        """Return the loss and its slope."""
        given, pool, at = self.given, self.pool(x), np.arange(self.given.truth.size)
        p = softmax(pool.logits(given.logs, given.reach, given.mirror))
        clean, usual = p[at, given.truth], self.usual[given.truth]
        mixed = np.maximum((1 - pool.careless) * clean + pool.careless * usual, 1e-300)
        loss = -float(np.log(mixed).sum()) + AGAINST_CARELESS * pool.careless
        careless = float(((clean - usual) / mixed).sum()) + AGAINST_CARELESS
        p[at, given.truth] -= 1
        p *= ((1 - pool.careless) * clean / mixed)[:, None]
        by_expert = np.einsum("nk,enk->en", p, given.logs)
        middle, apart = pool.weights - self.prior, pool.high - pool.low
        loss += TO_BEST * float(middle @ middle) + 0.5 * TO_EACH_OTHER * float(apart @ apart)
        low = by_expert @ (1 - given.reach) + TO_BEST * middle - TO_EACH_OTHER * apart
        high = by_expert @ given.reach + TO_BEST * middle + TO_EACH_OTHER * apart
        constants = p.sum(axis=0) + TO_ZERO * pool.constants
        loss += 0.5 * TO_ZERO * float(pool.constants @ pool.constants)
        slopes = [low, high, constants]
        if pool.mirror is not None and given.mirror is not None:
            loss += 0.5 * TO_NO_MIRROR * float((pool.mirror**2).sum())
            sums = np.zeros((self.states, self.symbols))
            np.add.at(sums, given.mirror, p)
            slopes.append((sums + TO_NO_MIRROR * pool.mirror).ravel())
        return loss, np.concatenate([*slopes, [careless]])


def softmax(logits: Array) -> Array:
    """Return the probabilities of logits, row by row."""
    out: Array = np.exp(logits - logits.max(axis=1, keepdims=True))
    out /= out.sum(axis=1, keepdims=True)
    return out


def logs_of(p: Array) -> Array:
    """Return log-probabilities that no expert can make too sure."""
    out: Array = np.log(p + LEAST / max(p.shape[1], 1))
    return out
