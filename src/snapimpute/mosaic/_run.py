"""A run: classes from several starts, then rounds of copying, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.clock import Clock
from snapimpute.base.files import stored
from snapimpute.base.machine import seconds_in_words
from snapimpute.base.types import Array
from snapimpute.mosaic._chain import Chain
from snapimpute.mosaic._classes import Answers, Classes, PairClasses, SingleClasses, Strands
from snapimpute.mosaic._panel import Line, Table
from snapimpute.mosaic._settings import Settings
from snapimpute.solvers import Status

WATCHED = 2000
"""Missing cells that a run watches: from them follows how exact the averages are."""

EXCESS_LOSS, EXCESS_SHARE = 0.001, 0.01
"""Log loss that further starts or rounds could still win, at most, where their number is chosen; and its share."""

SINGLE = 0.25
"""Share of that bound with a single start: its rounds follow from each other, and so differ too little."""

LEAST_SAMPLES = 4
"""Answers from which their spread is believed."""

KEPT, KEPT_BYTES = 20, 2**26
"""Strands that are kept for drawn tables and new rows, and their bytes, at most."""

PLACED_UNTIL = 3
"""Iterations in which the rate of jumps along known distances is fitted."""


@stored("mosaic round", "start", "stage", "number", "log_likelihood", "excess", "seconds", "left")
@dataclass(frozen=True)
class Round:
    """A step that has been made.

    Attributes
    ----------
    start : int
        Starts before.
    stage : {"classes", "copying"}
    number : int
        Steps of the stage before, from this start.
    log_likelihood : float
        Of the known cells, with the prior of the classes; NaN while copying.
    excess : float
        Log loss that more answers could still win, estimated from their spread; NaN while there are too few.
    seconds : float
        Since the fit began.
    left : float
        Seconds that the run will still take, about.
    """

    start: int
    stage: str
    number: int
    log_likelihood: float
    excess: float
    seconds: float
    left: float = math.nan

    def __str__(self) -> str:
        told = f": log-likelihood {self.log_likelihood:,.1f}" if self.stage == "classes" else ""
        excess = "" if math.isnan(self.excess) else f", more answers would win {self.excess:.2g} of log loss"
        left = "" if math.isnan(self.left) else f", about {seconds_in_words(self.left)} left"
        return f"start {self.start + 1}, {self.stage} {self.number + 1}{told}{excess}{left}"


Callback = Callable[[Round], Any]


@stored("mosaic strands", "packed", "columns", "start", "binary")
@dataclass(frozen=True, eq=False)
class KeptStrands:
    """Strands of one round. Those of 0 and 1 take a bit for each cell.

    Attributes
    ----------
    packed : array of uint8
    columns : int
    start : int
        The start that they come from, with its classes and its line.
    binary : bool
        True if eight cells share a byte.
    """

    packed: NDArray[np.uint8]
    columns: int
    start: int
    binary: bool

    @classmethod
    def of(cls, strands: Strands, start: int) -> KeptStrands:
        """Pack strands."""
        binary = bool(strands.max(initial=0) <= 1)
        return cls(np.packbits(strands, axis=1) if binary else strands, strands.shape[1], start, binary)

    @property
    def strands(self) -> Strands:
        """The strands, one in each row."""
        return np.unpackbits(self.packed, axis=1, count=self.columns) if self.binary else self.packed


@stored(
    "mosaic run",
    *("start", "stage", "number", "classes", "strands", "lines", "finished", "total", "latest", "samples"),
    *("kept", "turns", "history", "spent"),
)
@dataclass(eq=False)
class RunState:
    """Everything that a run goes on from."""

    start: int = 0
    stage: str = "classes"
    number: int = 0
    classes: Classes | None = None
    strands: Strands | None = None
    lines: list[Line] = field(default_factory=list)
    finished: list[Classes] = field(default_factory=list)
    total: Answers | None = None
    latest: Answers | None = None
    samples: list[list[Array]] = field(default_factory=list)
    kept: list[KeptStrands] = field(default_factory=list)
    turns: NDArray[np.int16] | None = None
    history: list[Round] = field(default_factory=list)
    spent: float = 0.0


class Run:
    """Steps over a panel, and the answers so far."""

    def __init__(
        self,
        table: Table,
        lines: Sequence[Line],
        settings: Settings,
        seed: int,
        *,
        until_exact: bool = False,
    ) -> None:
        self.table, self.settings, self.seed, self.until_exact = table, settings, seed, until_exact
        self.state = RunState(lines=list(lines))
        self.panel = table.along(lines[0])
        rng, size = np.random.default_rng(seed), table.missing.size
        self._watched = np.sort(rng.permutation(size)[:WATCHED])
        self.whole = True
        """False in the middle of a step."""

    def restore(self, state: RunState) -> None:
        """Go on from a state."""
        self.state = state
        self._follow(state.start)

    # ---------------------------------------------------------------- answers
    @property
    def count(self) -> int:
        """Answers that were added up."""
        return sum(map(len, self.state.samples))

    @property
    def answers(self) -> Answers | None:
        """The chances so far: averages, or those of classes that are not finished; None before the first step."""
        if self.count and self.state.total is not None:
            return self.state.total / np.float32(self.count)
        return self.state.latest

    def _add(self, found: Answers) -> None:
        """Add the chances of one start, or of one round."""
        if self.state.total is None:
            self.state.total = found.copy()
        else:
            self.state.total += found
        while len(self.state.samples) <= self.state.start:
            self.state.samples.append([])
        some = found[self._watched]
        self.state.samples[self.state.start].append(np.column_stack([1 - some.sum(axis=1), some]))

    def excess(self) -> float:
        """Estimate the log loss that more answers could win, from the spread between starts, or between rounds."""
        if sum(map(len, self.state.samples)) < LEAST_SAMPLES or not self._watched.size:
            return math.nan
        groups = self._groups()
        variances, means = groups.var(axis=0, ddof=1) / len(groups), groups.mean(axis=0)
        return float((variances / (2 * np.maximum(means, 1e-3))).sum(axis=1).mean())

    def _groups(self) -> Array:
        """Return the answers of watched cells, one group for each start, or for each round of a single one."""
        samples = [one for one in self.state.samples if one]
        return np.stack([np.mean(one, axis=0) for one in samples] if len(samples) > 1 else samples[0])

    @property
    def _exact(self) -> bool:
        """Tell whether more answers would win next to nothing, beside what the answers leave open."""
        excess = self.excess() if self.until_exact else math.nan
        if math.isnan(excess):
            return False
        p = np.maximum(self._groups().mean(axis=0), 1e-9)
        open_ = float(-(p * np.log(p)).sum(axis=1).mean())
        most = min(EXCESS_LOSS, EXCESS_SHARE * open_) * (SINGLE if self.settings.starts == 1 else 1.0)
        return excess <= most

    # ---------------------------------------------------------------- steps
    @property
    def over(self) -> bool:
        """Tell whether all steps are made."""
        return self.state.start >= self.settings.starts

    def _key(self, purpose: int) -> int:
        state = self.state
        sequence = np.random.SeedSequence((self.seed, state.start, state.number, purpose))
        return int(sequence.generate_state(1)[0])

    def step(self, clock: Clock) -> Round:
        """Make one step, and say what came of it."""
        state, self.whole = self.state, False
        start, stage, number = state.start, state.stage, state.number
        likelihood = self._improve() if stage == "classes" else self._copy()
        done = Round(start, stage, number, likelihood, self.excess(), clock.seconds, self._left(clock))
        state.history.append(done)
        self.whole = True
        return done

    def _improve(self) -> float:
        """Improve the classes once; the last time they answer, or give the strands to copy."""
        state, settings = self.state, self.settings
        if state.classes is None:
            kind: type[Classes] = PairClasses if settings.strands == 2 else SingleClasses
            state.classes = kind.begin(self.panel, settings.classes_of(state.start), self._key(0))
        latest = self._room()
        state.classes, likelihood = state.classes.step(self.panel, latest)
        latest = self.table.from_line(self.panel, latest)
        if not self.count:
            state.latest = latest
        if state.number < PLACED_UNTIL and state.start == 0 and self.panel.line.linked:
            state.lines[0] = self.panel.line.rescaled(state.classes.rho.astype(float))
            self.panel = replace(self.panel, line=state.lines[0])
        state.number += 1
        if state.number == self.settings.iterations:
            state.finished.append(state.classes)
            if settings.rounds:
                state.strands = Chain.begin(self.panel, state.classes, self._key(1)).strands
                state.stage, state.number = "copying", 0
            else:
                self._add(latest)
                self._next_start()
        return likelihood

    def _room(self) -> Answers:
        return self.panel.answers(3 if self.settings.strands == 2 else self.panel.most)

    def _follow(self, start: int) -> None:
        """Go on along the line of a start."""
        line = self.state.lines[start % len(self.state.lines)]
        if line is not self.panel.line:
            self.panel = self.table.along(line)

    def _copy(self) -> float:
        state, settings = self.state, self.settings
        assert state.classes is not None and state.strands is not None  # noqa: S101, PT018
        settled = state.number >= settings.rounds // 2
        chain = Chain(self.panel, state.classes, state.strands).round(self._key(2), settled=settled)
        state.strands = chain.strands
        if state.number >= settings.skipped:
            found = self._room()
            chain.fill(found)
            self._add(self.table.from_line(self.panel, found))
            self._keep(chain)
        state.number += 1
        if state.number == settings.rounds or (settings.starts == 1 and self._exact):
            self._next_start()
        return math.nan

    def _keep(self, chain: Chain) -> None:
        """Keep the strands for drawn tables; where there are too many, every other one goes."""
        state = self.state
        state.kept.append(KeptStrands.of(chain.strands, state.start))
        most = max(min(KEPT, KEPT_BYTES // max(state.kept[0].packed.nbytes, 1)), 1)
        if len(state.kept) > most:
            state.kept = state.kept[len(state.kept) % 2 :: 2] if most > 1 else state.kept[-1:]
        if chain.each == 2 and self.panel.line is state.lines[0]:
            turns = chain.turns().astype(np.int16)
            state.turns = turns if state.turns is None else state.turns + turns

    def _next_start(self) -> None:
        state = self.state
        state.start, state.stage, state.number = state.start + 1, "classes", 0
        state.classes = state.strands = None
        self._follow(state.start)
        if self._exact:
            state.start = self.settings.starts

    def _left(self, clock: Clock) -> float:
        """Estimate the seconds that are left, by the seconds of the steps of each stage so far."""
        history, settings = self.state.history, self.settings
        if len(history) < 2:
            return math.nan
        each: dict[str, list[float]] = {"classes": [], "copying": []}
        for before, after in pairwise(history):
            each[after.stage].append(after.seconds - before.seconds)
        known = {stage: float(np.median(one)) for stage, one in each.items() if one}
        made = {stage: sum(one.stage == stage for one in history) + (stage == self.state.stage) for stage in each}
        planned = {
            "classes": self.settings.iterations * settings.starts,
            "copying": settings.rounds * settings.starts,
        }
        usual = max(known.values(), default=0.0)
        left = sum(max(planned[stage] - made[stage], 0) * known.get(stage, usual) for stage in planned)
        return min(left, clock.left)

    # ---------------------------------------------------------------- the loop
    def finish(
        self, clock: Clock, callback: Callback | None = None, keep: Callable[[], None] | None = None
    ) -> Status:
        """Step until all is done, the time is over, or somebody says stop."""
        try:
            while not self.over:
                if clock.over and self.state.history:
                    return self._stopped(
                        "the time is over", "" if self.count else "No start was finished: raise time_limit."
                    )
                done = self.step(clock)
                if callback is not None and callback(done) is True:
                    return self._stopped("the callback asked for it")
                if keep is not None:
                    keep()
        except KeyboardInterrupt:
            if self.answers is None:
                raise
            return Status(
                "interrupted", f"Interrupted after {len(self.state.history)} steps; the best so far is kept."
            )
        if self._exact:
            return Status("converged", f"More answers would lower the log loss by {self.excess():.2g} at most.")
        return Status("max_iter", f"All {len(self.state.history)} steps are made.")

    def _stopped(self, reason: str, advice: str = "") -> Status:
        made = len(self.state.history)
        return Status("stopped", f"Stopped after {made} step{'s' * (made != 1)}: {reason}.", advice)
