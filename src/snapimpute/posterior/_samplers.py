"""Chains with what is kept of them: draws, sums, and the values of watched cells."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.posterior._answers import Answers, Completed, CovarianceAnswers, LowRankAnswers
from snapimpute.posterior._covariance import CovarianceChain, CovarianceDraw
from snapimpute.posterior._draw import Draw
from snapimpute.posterior._draws import Draws
from snapimpute.posterior._low_rank import Chain
from snapimpute.posterior._watch import Watch

KEPT_BYTES = 1 << 28
"""Memory of all kept draws at most; then every second one goes."""

FEWEST_DRAWS = 20
"""Draws that are kept whatever their size."""

PARAMETERS_EVERY = 4
"""The parameters of a full covariance are kept after so many sweeps: those in a row are alike."""

RESUME_AT = 20
"""Number of sweeps that a chain counts as made when it goes on from a draw."""

CHAIN_GIVEN = {"cells", "rank", "seed", "burn_in", "parts", "width", "ordinal", "binary", "kinds", "eta"}
CHAIN_GIVEN |= {"raters", "items"}
SIDE_GIVEN = {"features", "turn", "groups", "_gram", "_feature_sums", "_extended", "_ones"}
COVARIANCE_GIVEN = {"rows", "columns", "seed", "burn_in", "strength", "rank", "robust", "exact", "levels"}
COVARIANCE_GIVEN |= {"contrasts", "is_contrast"}
"""Attributes that follow from the table, the parameters or other ones; the rest is the state of a chain."""

Numbers = dict[str, Any]


@stored("posterior low-rank state", "chain", "raters", "items", "draws", "every", "seen", "watched", "likelihoods")
@dataclass(frozen=True, eq=False)
class LowRankState:
    """Everything that a low-rank chain goes on from, with what was kept of it so far."""

    chain: Numbers
    raters: Numbers
    items: Numbers
    draws: Draws | None
    every: int
    seen: int
    watched: Array | None
    likelihoods: list[float]


@stored("posterior covariance state", "chain", "sums", "means", "count", "draws", "watched", "likelihoods")
@dataclass(frozen=True, eq=False)
class CovarianceState:
    """Everything that a chain with a full covariance goes on from, with what was kept of it so far."""

    chain: Numbers
    sums: Array
    means: Array
    count: int
    draws: tuple[CovarianceDraw, ...]
    watched: Array | None
    likelihoods: list[float]


class Sampler(ABC):
    """A chain, and what is kept of it: draws, the values of watched cells, log-likelihoods."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.watched: list[Array] = []
        self.likelihoods: list[float] = []

    @property
    @abstractmethod
    def log_likelihood(self) -> float:
        """Log-likelihood of the known cells in the last sweep."""

    @property
    @abstractmethod
    def kept(self) -> int:
        """Number of draws that count."""

    @abstractmethod
    def sweep(self, *, keep: bool) -> None:
        """Make a sweep and keep what it gives."""

    @abstractmethod
    def keep_now(self) -> None:
        """Keep the state as it is, where nothing was kept so far."""

    def clear(self) -> None:
        """Forget everything that was kept."""
        self.watched, self.likelihoods = [], []

    @abstractmethod
    def resume(self, draw: Any, burn_in: int) -> None:
        """Go on from a draw of a smaller table."""

    @abstractmethod
    def adopt(self, other: Any) -> None:
        """Go on from the state of another chain, with random numbers of its own."""

    @abstractmethod
    def pooled(self, chains: Sequence[Any]) -> Answers:
        """Return the answers of all these chains together, this one included."""

    @abstractmethod
    def state(self) -> Any:
        """Return everything that the chain goes on from."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Take up a state."""


class LowRankSampler(Sampler):
    """A low-rank chain, whose draws are kept, evenly spaced as far as memory goes."""

    def __init__(self, chain: Chain, watch: Watch, memory: int = KEPT_BYTES) -> None:
        super().__init__(watch)
        self.chain, self.memory, self.every, self.seen = chain, memory, 1, 0
        self.draws: list[Draw] = []

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the known cells in the last sweep."""
        return self.chain.log_likelihood

    @property
    def kept(self) -> int:
        """Number of draws kept."""
        return len(self.draws)

    def sweep(self, *, keep: bool) -> None:
        """Make a sweep and keep its draw."""
        self.chain.sweep()
        if keep:
            if self.seen % self.every == 0:
                self.keep_now()
            self.seen += 1

    def keep_now(self) -> None:
        """Keep the draw as it is; where memory is short, every second one goes."""
        draw = self.chain.draw()
        self.draws.append(draw)
        self.watched.append(self.watch.values(self.answers([draw])))
        self.likelihoods.append(self.log_likelihood)
        if len(self.draws) > max(self.memory // size_of(draw), FEWEST_DRAWS):
            self.draws, self.every = self.draws[::2], 2 * self.every

    def clear(self) -> None:
        """Forget everything that was kept."""
        super().clear()
        self.draws, self.every, self.seen = [], 1, 0

    def resume(self, draw: Draw, burn_in: int) -> None:
        """Go on from a draw of a smaller table."""
        self.chain.resume(draw, RESUME_AT)
        self.chain.burn_in = RESUME_AT + burn_in

    def answers(self, draws: list[Draw]) -> LowRankAnswers:
        """Return the answers of some draws."""
        return LowRankAnswers(Draws.of(draws, self.chain.cells.levels))

    def pooled(self, chains: Sequence[LowRankSampler]) -> LowRankAnswers:
        """Return the answers of all these chains together, this one included."""
        return self.answers([draw for one in chains for draw in one.draws])

    def adopt(self, other: LowRankSampler) -> None:
        """Go on from the state of another chain, with random numbers of its own."""
        state = copy.deepcopy(other._numbers())
        self._take(*state)

    def _numbers(self) -> tuple[Numbers, Numbers, Numbers]:
        chain = self.chain
        raters, items = (numbers_of(side, SIDE_GIVEN) for side in (chain.raters, chain.items))
        return numbers_of(chain, CHAIN_GIVEN), raters, items

    def _take(self, chain: Numbers, raters: Numbers, items: Numbers) -> None:
        take_numbers(self.chain, chain)
        take_numbers(self.chain.raters, raters)
        take_numbers(self.chain.items, items)

    def state(self) -> LowRankState:
        """Return everything that the chain goes on from."""
        draws = Draws.of(self.draws, self.chain.cells.levels) if self.draws else None
        chain, raters, items = self._numbers()
        watched, likelihoods = stacked(self.watched), list(self.likelihoods)
        return LowRankState(chain, raters, items, draws, self.every, self.seen, watched, likelihoods)

    def restore(self, state: LowRankState) -> None:
        """Take up a state."""
        self._take(state.chain, state.raters, state.items)
        self.draws = [] if state.draws is None else [state.draws[i] for i in range(len(state.draws))]
        self.watched, self.likelihoods = unstacked(state.watched), list(state.likelihoods)
        self.every, self.seen = state.every, state.seen


class CovarianceSampler(Sampler):
    """A chain with a full covariance: averages of all cells, and draws of the parameters."""

    def __init__(self, chain: CovarianceChain, watch: Watch) -> None:
        super().__init__(watch)
        self.done = Completed(chain)
        self._before = watch.values(self._sums())

    def _sums(self) -> CovarianceAnswers:
        return _Sums(self.done.sums, self.done.means, ())

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the known cells in the last sweep."""
        return self.done.chain.log_likelihood

    @property
    def kept(self) -> int:
        """Number of sweeps that were added up."""
        return self.done.count

    def sweep(self, *, keep: bool) -> None:
        """Make a sweep; add up its probabilities, keep its parameters now and then."""
        if not keep:
            self.done.chain.sweep()
            return
        self.done.sweep()
        total = self.watch.values(self._sums())
        self.watched.append(total - self._before)
        self.likelihoods.append(self.log_likelihood)
        self._before = total
        if (self.done.count - 1) % PARAMETERS_EVERY == 0:
            self.done.keep()

    def keep_now(self) -> None:
        """Make a sweep that counts."""
        self.sweep(keep=True)

    def clear(self) -> None:
        """Forget everything that was kept."""
        super().clear()
        self.done = Completed(self.done.chain)
        self._before = self.watch.values(self._sums())

    def resume(self, draw: CovarianceDraw, burn_in: int) -> None:
        """Go on from a draw of a smaller table."""
        self.done.chain.burn_in = RESUME_AT + burn_in
        self.done.chain.resume(draw, RESUME_AT)

    def pooled(self, chains: Sequence[CovarianceSampler]) -> CovarianceAnswers:
        """Return the answers of all these chains together, this one included."""
        if len(chains) == 1:
            return self.done.answers()
        sums, means = (np.sum([getattr(one.done, name) for one in chains], axis=0) for name in ("sums", "means"))
        means /= np.float32(max(sum(one.kept for one in chains), 1))
        return CovarianceAnswers(sums, means, tuple(draw for one in chains for draw in one.done.draws))

    def adopt(self, other: CovarianceSampler) -> None:
        """Go on from the state of another chain, with random numbers of its own."""
        take_numbers(self.done.chain, copy.deepcopy(numbers_of(other.done.chain, COVARIANCE_GIVEN)))

    def state(self) -> CovarianceState:
        """Return everything that the chain goes on from."""
        done = self.done
        kept = done.sums, done.means, done.count, tuple(done.draws), stacked(self.watched), list(self.likelihoods)
        return CovarianceState(numbers_of(done.chain, COVARIANCE_GIVEN), *kept)

    def restore(self, state: CovarianceState) -> None:
        """Take up a state."""
        done = self.done
        take_numbers(done.chain, state.chain)
        done.sums, done.means, done.count, done.draws = state.sums, state.means, state.count, list(state.draws)
        self.watched, self.likelihoods = unstacked(state.watched), list(state.likelihoods)
        self._before = self.watch.values(self._sums())


class _Sums(CovarianceAnswers):
    """Sums of the probabilities, not divided by anything."""

    def probabilities(self, frame: Any, rows: Any, cols: Any) -> Array:
        """Return the sums at the cells."""
        found: Array = self.sums[frame.latent[cols], :, rows]
        return found


def size_of(draw: Draw) -> int:
    """Bytes of a draw."""
    parts = (part for part in vars(draw).values() if isinstance(part, np.ndarray))
    return sum(part.nbytes for part in parts) + draw.links.nbytes


def numbers_of(part: Any, given: set[str]) -> Numbers:
    """Return the attributes of a part of a chain that are not given."""
    return {name: value for name, value in vars(part).items() if name not in given}


def take_numbers(part: Any, numbers: Numbers) -> None:
    """Set the attributes of a part of a chain."""
    for name, value in numbers.items():
        setattr(part, name, value)


def stacked(values: list[Array]) -> Array | None:
    """Stack arrays of one shape, if there are any."""
    return np.stack(values) if values else None


def unstacked(values: Array | None) -> list[Array]:
    """Take a stack apart."""
    return [] if values is None else list(values)
