"""A run of one or several chains: burn-in, kept draws, and when to stop."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from snapimpute.base.clock import Clock
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.posterior._convergence import split_r_hat, together
from snapimpute.posterior._samplers import FEWEST_DRAWS, Sampler
from snapimpute.posterior._table import Frame
from snapimpute.posterior._watch import Precision, Watch
from snapimpute.posterior.diagnostics import Candidate, Diagnostics, diagnose
from snapimpute.posterior.fit import PosteriorFit, Sweep
from snapimpute.solvers import Status

LOOK_EVERY = 30
"""Sweeps between two looks at the precision of the probabilities."""

EXCESS_LOSS = 0.001
"""Log loss that more sweeps could still win, at most, where their number is chosen."""

MIXED = 1.02
"""Median R̂ of cells from which the estimated precision is believed: chains that move slowly seem precise too soon."""

NOT_SETTLED = "The chain has not settled: its halves disagree on half of the cells (R̂ {:.2f})."
SETTLE_IT = "Give a larger number of sweeps, or several chains."

RESUME_BURN_IN = 15
"""Sweeps until draws are kept when a chain goes on from a draw."""

STUCK_DEVIATIONS, STUCK_LOSS = 6.0, 0.05
"""A chain is stuck if its log-likelihood is below the best one's by so many deviations, and so much a cell."""

Callback = Callable[[Sweep], Any]


@dataclass(frozen=True)
class Plan:
    """Sweeps at most, those before the first draw is kept, and whether the run may end before, when it is exact.

    The ``note`` follows the words that the time is over.
    """

    sweeps: int
    burn_in: int
    until_exact: bool = False
    note: str = ""


@stored("posterior run", "model", "number", "history", "seconds", "restarts", "chains", "held_out")
@dataclass(frozen=True, eq=False)
class RunState:
    """Everything that a run goes on from: the model that was chosen, the sweeps made, the state of each chain."""

    model: tuple[str, str]
    number: int
    history: tuple[Sweep, ...]
    seconds: float
    restarts: int
    chains: tuple[Any, ...]
    held_out: tuple[Candidate, ...]


class Keeper(Protocol):
    """Saves a run as it goes."""

    def due(self) -> bool:
        """Tell whether it is time to save again."""

    def keep(self, run: Run, seconds: float) -> None:
        """Save a run between two sweeps."""


class Run:
    """Chains that sweep in turn, until the sweeps are made, the draws suffice or the time is over."""

    def __init__(
        self, frame: Frame, observations: Observations, watch: Watch, samplers: Sequence[Sampler], plan: Plan
    ) -> None:
        self.frame, self.observations, self.watch, self.samplers = frame, observations, watch, list(samplers)
        self.plan, self.number, self.history, self.restarts = plan, 0, list[Sweep](), 0
        self._whole = True  # between two sweeps
        self._begun = 0.0, 0  # seconds and sweeps before the loop

    def resume(self, draw: Any) -> None:
        """Go on from a draw of a smaller table, with a short burn-in."""
        burn_in = min(self.plan.burn_in, RESUME_BURN_IN)
        self.plan = replace(self.plan, burn_in=burn_in)
        for sampler in self.samplers:
            sampler.resume(draw, burn_in)

    def state(self, model: tuple[str, str], seconds: float, held_out: tuple[Candidate, ...]) -> RunState:
        """Return everything that the run goes on from."""
        chains = tuple(one.state() for one in self.samplers)
        return RunState(model, self.number, tuple(self.history), seconds, self.restarts, chains, held_out)

    def restore(self, state: RunState) -> None:
        """Take up a run between two sweeps."""
        self.number, self.history, self.restarts = state.number, list(state.history), state.restarts
        for sampler, one in zip(self.samplers, state.chains, strict=True):
            sampler.restore(one)

    # ---------------------------------------------------------------- the loop
    def finish(
        self,
        clock: Clock,
        callback: Callback | None = None,
        keeper: Keeper | None = None,
        held_out: tuple[Candidate, ...] = (),
    ) -> PosteriorFit:
        """Sweep until the draws suffice, the time is over, or the user interrupts."""
        try:
            status = self._sweep_on(clock, callback, keeper)
            if keeper is not None:
                keeper.keep(self, clock.seconds)
        except KeyboardInterrupt:
            if keeper is not None and self._whole:
                keeper.keep(self, clock.seconds)
            if not self._kept:
                raise
            told = f"Interrupted after {self.number} sweeps; the {self._kept} draws so far are kept."
            status = Status("interrupted", told)
        if not self._kept:
            for sampler in self.samplers:
                sampler.keep_now()
        diagnostics = self._diagnostics(held_out)
        if status.code == "max_iter" and self.plan.until_exact and diagnostics.settled is False:
            status = replace(status, advice=f"{NOT_SETTLED.format(diagnostics.cell_r_hat)} {SETTLE_IT}")
        answers, history = self.samplers[0].pooled(self.samplers), tuple(self.history)
        answers = answers.settled(self.frame, self.observations)
        return PosteriorFit(self.frame, answers, self.observations, history, status, diagnostics=diagnostics)

    def _sweep_on(self, clock: Clock, callback: Callback | None, keeper: Keeper | None) -> Status:
        self._begun = clock.here, self.number
        while (status := self._ended(clock)) is None:
            done = self._sweep(clock)
            if callback is not None and callback(done) is True:
                return self._stopped("the callback asked for it")
            if keeper is not None and keeper.due():
                keeper.keep(self, clock.seconds)
        return status

    def _ended(self, clock: Clock) -> Status | None:
        """Return the reason why the run has ended, if it has."""
        excess = self.history[-1].excess if self.history else math.nan
        if self.plan.until_exact and excess <= EXCESS_LOSS and self._mixed():
            told = f"After {self.number} sweeps, more would lower the log loss by {excess:.2g} at most."
            return Status("converged", told)
        if self.number >= self.plan.sweeps:
            return Status("max_iter", f"The {self.plan.sweeps} sweeps are made.")
        if not (clock.over and self.number):
            return None
        return self._stopped(f"the time is over{self.plan.note}", "Few draws were kept: raise time_limit.")

    def _stopped(self, reason: str, advice: str = "") -> Status:
        early = self._kept < FEWEST_DRAWS or self.number <= self.plan.burn_in
        return Status(
            "stopped",
            f"Stopped after {self.number} sweep{'s' * (self.number != 1)}: {reason}.",
            advice if early else "",
        )

    @property
    def _kept(self) -> int:
        return sum(one.kept for one in self.samplers)

    def _sweep(self, clock: Clock) -> Sweep:
        """Make a sweep of each chain. Draws of the second half of the burn-in count until it ends."""
        number, burn_in, self._whole = self.number, self.plan.burn_in, False
        for sampler in self.samplers:
            if number == burn_in:
                sampler.clear()
            sampler.sweep(keep=number >= burn_in // 2)
        self.number += 1
        if self.number == 3 * burn_in // 4:
            self._restart_stuck()
        after = self.number - burn_in
        look = after > 0 and after % LOOK_EVERY == 0
        error, excess = self._precision() if look else Precision(math.nan, math.nan)
        likelihood = float(np.mean([one.log_likelihood for one in self.samplers]))
        done = Sweep(number, likelihood, clock.seconds, error, excess, self._left(clock, excess))
        self.history.append(done)
        self._whole = True
        return done

    def _mixed(self) -> bool:
        """Tell whether halves of the chains agree so well that the precision can be believed."""
        r_hats = split_r_hat(together([self.watch.by_cell(np.stack(one.watched)) for one in self.samplers]))
        return bool(np.median(r_hats) <= MIXED)

    def _precision(self) -> Precision:
        return self.watch.precision([np.stack(one.watched) for one in self.samplers])

    def _left(self, clock: Clock, excess: float) -> float:
        """Estimate the seconds that are left: the excess falls with the number of draws."""
        each = (clock.here - self._begun[0]) / (self.number - self._begun[1])
        sweeps = float(self.plan.sweeps - self.number)
        if self.plan.until_exact and math.isfinite(excess):
            after = self.number - self.plan.burn_in
            sweeps = min(sweeps, max(after * (excess / EXCESS_LOSS - 1), 0.0))
        elif self.history and math.isnan(excess):
            return min(max(self.history[-1].left - each, 0.0), clock.left)
        return min(sweeps * each, clock.left)

    def _restart_stuck(self) -> None:
        """Let chains that are stuck go on from the best one."""
        traces = [np.array(one.likelihoods) for one in self.samplers]
        best, behind = stuck(traces, len(self.observations))
        for number in behind:
            self.samplers[number].adopt(self.samplers[best])
        self.restarts = len(behind)

    def _diagnostics(self, held_out: tuple[Candidate, ...]) -> Diagnostics:
        values = [np.stack(one.watched) for one in self.samplers]
        return diagnose(
            [self.watch.by_cell(one) for one in values],
            [np.array(one.likelihoods) for one in self.samplers],
            precision=self.watch.precision(values),
            draws=self._kept,
            restarts=self.restarts,
            held_out=held_out,
        )


def warn_of(fit: PosteriorFit) -> None:
    """Warn of a run that ended too early, or has not settled."""
    if fit.status.advice:
        warnings.warn(str(fit.status), ConvergenceWarning, stacklevel=3)


def stuck(traces: Sequence[Array], cells: int) -> tuple[int, list[int]]:
    """Return the chain with the best log-likelihood, and those that are far below it.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(3, 20))
    >>> stuck([-700 + noise[0], -2300 + noise[1], -702 + noise[2]], cells=4500)
    (0, [1])
    """
    if len(traces) == 1 or len(traces[0]) < 2:
        return 0, []
    means, spread = [one.mean() for one in traces], np.sqrt(np.mean([one.var(ddof=1) for one in traces]))
    best = int(np.argmax(means))
    far = max(STUCK_DEVIATIONS * spread, STUCK_LOSS * cells)
    return best, [number for number, mean in enumerate(means) if means[best] - mean > far]
