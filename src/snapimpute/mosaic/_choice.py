"""Choice of order, strands, classes and copying, by short runs that are scored on held-out cells."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.clock import Clock
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.mosaic._order import associations, found_order, neighbours_tell
from snapimpute.mosaic._panel import Line, Table
from snapimpute.mosaic._run import Run
from snapimpute.mosaic._settings import (
    CLASS_STARTS,
    COPY_CLASSES,
    ITERATIONS,
    LEAST_COPIED,
    Order,
    Settings,
    copying_plan,
)

logger = logging.getLogger("snapimpute")

SAMPLE_ROWS, SAMPLE_COLUMNS, SAMPLE_CELLS = 1000, 800, 300_000
"""Rows and columns of the piece that short runs look at, at most; more rows of narrow tables, up to so many cells."""

HELD_OUT, MOST_HELD_OUT, ENOUGH = 0.1, 0.25, 1000
"""Share of the known cells that short runs are scored on: more where these are few, until there are enough."""

CHOOSING = 0.4
"""Share of the time that the short runs may take."""

FIRST_CLASSES = 8
CLASSES = (2, 3, 4, 6, 8, 12, 20, 30)
"""Numbers of classes that are tried, upwards, until two in a row are no better."""

TRIAL_ITERATIONS, TRIAL_ROUNDS, TRIAL_STARTS = 10, 4, 5
"""Iterations and rounds of copying in a short run; and starts, where it is one for the number of classes."""

SCALES = np.linspace(0.2, 2.0, 19)
"""Factors of log-probabilities that short runs are scored with: the best one counts, as few answers are too sure."""

SURE = 1.0
"""Standard errors by which an order that is found must win against none, and classes against copying."""

FOUND_STARTS = 2
"""Times as many starts where the order is found: each has an order of its own."""

MUCH = 2.0
"""Times as much that neighbours must tell of each other as random columns do, where few cells are known."""

LEAST_ORDERED, MOST_ORDERED = 8, 5000
"""Columns among which an order is looked for, at least and at most."""

Progress = Callable[["Trial"], object]


@stored("mosaic trial", "settings", "loss", "error", "seconds")
@dataclass(frozen=True)
class Trial:
    """Settings that were tried by a short run: their log loss on held-out cells, with its standard error."""

    settings: Settings
    loss: float
    error: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.settings}: log loss {self.loss:.4f} ± {self.error:.4f}"


@dataclass(frozen=True)
class Wishes:
    """Parameters that a user fixed; "auto" leaves them open."""

    classes: int | str
    order: Order | str
    strands: int | str
    rounds: int | str
    starts: int | str


@dataclass(frozen=True, eq=False)
class Places:
    """Groups and positions of the columns, where a user gave them."""

    groups: NDArray[np.int64] | None = None
    positions: Array | None = None

    @property
    def given(self) -> bool:
        """Tell whether there are any."""
        return self.groups is not None or self.positions is not None

    def sample(self, cols: NDArray[np.int64]) -> Places:
        """Return those of some columns."""
        groups = None if self.groups is None else self.groups[cols]
        return Places(groups, None if self.positions is None else self.positions[cols])

    def lines(self, order: Order, table: Table, seed: int, count: int = 1) -> tuple[Line, ...]:
        """Return the lines of a table in an order: several where it has to be found."""
        columns = table.symbols.shape[1]
        if order is None:
            return (Line.unlinked(columns),)
        groups = np.zeros(columns, np.int64) if self.groups is None else self.groups
        if order == "given":
            along = np.arange(columns, dtype=float) if self.positions is None else self.positions
            return (Line.of(np.lexsort((along, groups)), self.groups, self.positions),)
        square = associations(table.symbols, table.nominal)
        parts = [np.flatnonzero(groups == one) for one in np.unique(groups)]
        return tuple(
            Line.of(
                np.concatenate([one[found_order(square[np.ix_(one, one)], seed + k)] for one in parts]), self.groups
            )
            for k in range(count)
        )


class Choice:
    """Settles what a user left open."""

    def __init__(self, table: Table, places: Places, wishes: Wishes, seed: int, clock: Clock) -> None:
        self.table, self.places, self.wishes, self.seed = table, places, wishes, seed
        self.clock, self.tried = clock.share(CHOOSING), list[Trial]()

    def settled(self, progress: Progress | None) -> Settings:
        """Return the settings to run with; an interruption ends the choice with the best so far."""
        self._progress, best = progress, self._usual()
        try:
            for found in self._better(best):
                best = found
                if self.clock.over:
                    break
        except KeyboardInterrupt:
            logger.warning("interrupted while choosing settings: the best so far is fitted")
        return best

    def most(self) -> Settings:
        """Return the settings that need most of all that may be chosen."""
        usual = self._usual()
        if usual.rounds or self.wishes.rounds == 0 or not self._can_copy(usual):
            return usual
        return self._copying(usual)

    def trials(self) -> tuple[Table, list[Settings]]:
        """Return the piece that short runs look at, and the first ones: those that are made in any case."""
        usual = self._usual()
        if not self._decides(usual):
            return self.table, []
        first = [replace(usual, order=order, strands=strands, rounds=0, skipped=0) for order, strands in self._open]
        if self.wishes.rounds == "auto" and self._can_copy(usual):
            copying = self._copying(usual)
            first.append(replace(copying, rounds=min(TRIAL_ROUNDS, copying.rounds)))
        short = [replace(one, starts=1, iterations=TRIAL_ITERATIONS) for one in first]
        return self.table.sample(*self._piece(self.table)), short

    # ---------------------------------------------------------------- what is open
    @property
    def _copies(self) -> bool:
        """Tell whether rows have to copy."""
        return self.wishes.rounds not in ("auto", 0)

    def _decides(self, usual: Settings) -> bool:
        """Tell whether anything is open."""
        copying = self.wishes.rounds == "auto" and self._can_copy(usual)
        return len(self._open) > 1 or copying or (self.wishes.classes == "auto" and not self._copies)

    @property
    def _rows(self) -> int:
        return int(self.table.symbols.shape[0])

    def neighbours_tell_much(self) -> bool:
        """Tell whether columns beside each other tell twice as much of each other as random ones, surely."""
        some = self.table.sample(*self._piece(self.table))
        square = associations(some.symbols, some.nominal)
        columns = square.shape[0]
        if columns < 3 or not neighbours_tell(square, np.arange(columns), np.arange(columns) == 0, self.seed):
            return False
        near = float(np.diagonal(square, 1).mean())
        far = float((square.sum() - np.trace(square)) / (columns * (columns - 1)))
        return near >= MUCH * far

    def likely_orders(self) -> list[Order]:
        """Return the orders to try: the given one alone where neighbours surely tell of each other."""
        wish = self.wishes.order
        if wish != "auto":
            return [wish]  # type: ignore[list-item]
        if self.places.given:
            return ["given"]
        columns = self.table.symbols.shape[1]
        some = self.table.sample(*self._piece(self.table))
        square = associations(some.symbols, some.nominal)
        if neighbours_tell(square, np.arange(square.shape[0]), np.arange(square.shape[0]) == 0, self.seed):
            return ["given"]
        known: list[Order] = ["given", "found"] if LEAST_ORDERED <= columns <= MOST_ORDERED else ["given"]
        return known if self._copies else [None, *known]

    def _strands(self) -> list[int]:
        if self.wishes.strands != "auto":
            return [int(self.wishes.strands)]
        return [2, 1] if self.table.can_add_up else [1]

    def _most_classes(self) -> int:
        return max(min(self._rows // 3, CLASSES[-1]), 1)

    def _usual(self) -> Settings:
        """Return the settings that nobody has tried yet."""
        order, strands = self.likely_orders(), self._strands()
        self._open = [(one, each) for one in order for each in strands]
        wish = self.wishes.classes
        classes = min(FIRST_CLASSES, self._most_classes()) if wish == "auto" else int(wish)
        usual = Settings(self._open[0][0], self._open[0][1], classes, self._starts(CLASS_STARTS))
        return self._copying(usual) if self._copies and usual.order is not None else usual

    def _starts(self, usual: int) -> int:
        return usual if self.wishes.starts == "auto" else int(self.wishes.starts)

    def _copying(self, settings: Settings) -> Settings:
        """Return the settings with copying after the classes."""
        starts, rounds, skipped = copying_plan(self._rows)
        starts *= FOUND_STARTS if settings.order == "found" else 1
        if self.wishes.rounds != "auto":
            rounds = int(self.wishes.rounds)
            skipped = min(skipped, rounds - 1)
        classes = settings.classes
        if self.wishes.classes == "auto":
            classes = max(min(COPY_CLASSES, self._most_classes()), 2)
        return replace(
            settings,
            classes=classes,
            starts=self._starts(starts),
            rounds=rounds,
            skipped=skipped,
            iterations=ITERATIONS,
        )

    def _can_copy(self, settings: Settings) -> bool:
        return settings.order is not None and self._rows >= LEAST_COPIED

    # ---------------------------------------------------------------- short runs
    def _better(self, usual: Settings) -> Iterator[Settings]:
        """Yield the best settings so far, each time something more is settled."""
        auto_rounds, auto_classes = self.wishes.rounds == "auto", self.wishes.classes == "auto"
        if not self._decides(usual) or not self._prepared():
            yield usual
            return
        best, least = usual, np.full(1, math.inf)
        if len(self._open) > 1 or not self._copies:
            for order, strands in self._open:
                one = replace(usual, order=order, strands=strands, rounds=0, skipped=0)
                losses = self._losses(one)
                sure = SURE if order != best.order else 0.0
                if losses is not None and (least.size != losses.size or _gain(least, losses) > sure):
                    best, least = one, losses
            best = self._copying(best) if self._copies and best.order is not None else best
            yield best
        if auto_rounds and self._can_copy(best):
            copying = self._copying(best)
            losses = self._losses(copying)
            if losses is not None and (least.size != losses.size or _gain(losses, least) < SURE):
                yield copying
                return
        if auto_classes and not best.rounds:
            yield self._with_classes(best)

    def _with_classes(self, best: Settings) -> Settings:
        worse = 0
        least, usual = math.inf, best
        for classes in CLASSES:
            if classes > self._most_classes() or worse == 2 or self.clock.over:
                break
            losses = self._losses(replace(usual, classes=classes), TRIAL_STARTS)
            loss = math.inf if losses is None else float(losses.mean())
            worse = 0 if loss <= least else worse + (classes > best.classes)
            if loss < least:
                best, least = replace(usual, classes=classes), loss
        return replace(best, others=self._beside(best.classes))

    def _beside(self, classes: int) -> tuple[int, ...]:
        """Return the numbers of classes next to one: held-out cells tell little between them."""
        at, every = CLASSES.index(classes) if classes in CLASSES else -1, range(len(CLASSES))
        beside = [CLASSES[k] for k in (at - 1, at + 1) if at >= 0 and k in every]
        return tuple(one for one in beside if one <= self._most_classes())

    def _piece(self, table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and columns of a piece of a large table: random rows, neighbouring columns."""
        (m, n), rng = table.symbols.shape, np.random.default_rng(self.seed)
        rows = np.sort(rng.permutation(m)[: max(SAMPLE_ROWS, SAMPLE_CELLS // min(n, SAMPLE_COLUMNS))])
        order = self.places.lines("given", table, 0)[0].order if self.places.given else np.arange(n)
        first = int(rng.integers(0, max(n - SAMPLE_COLUMNS, 0) + 1))
        return rows, order[first : first + SAMPLE_COLUMNS]

    def _prepared(self) -> bool:
        """Hide cells of a piece of the table; False if too few are known."""
        rows, cols = self._piece(self.table)
        piece = self.table.sample(rows, cols)
        if (known := int((piece.symbols != 255).sum())) < 20:
            return False
        self._hidden, self._at, self._truth = piece.hiding(
            min(max(HELD_OUT, ENOUGH / known), MOST_HELD_OUT), self.seed
        )
        self._where, self._lines = self.places.sample(cols), dict[Order, tuple[Line, ...]]()
        return True

    def _losses(self, settings: Settings, starts: int = 1) -> Array | None:
        """Run settings for a short while on the piece; return the log losses of hidden cells, None without time."""
        begun = self.clock.here
        if settings.order not in self._lines:
            self._lines[settings.order] = self._where.lines(settings.order, self._hidden, self.seed)
        most = max(self._hidden.symbols.shape[0] // 3, 1)
        rounds = min(TRIAL_ROUNDS, settings.rounds)
        short = replace(
            settings,
            classes=min(settings.classes, most),
            starts=min(starts, settings.starts),
            rounds=rounds,
            skipped=min(1, max(rounds - 1, 0)),
            iterations=TRIAL_ITERATIONS,
        )
        run = Run(self._hidden, self._lines[settings.order], short, self.seed)
        status = run.finish(self.clock)
        if status.code == "interrupted":
            raise KeyboardInterrupt
        if status.code == "stopped" or run.answers is None:
            return None
        losses = losses_of(self._hidden, run.answers, self._at, self._truth)
        error = float(losses.std() / math.sqrt(losses.size))
        trial = Trial(settings, float(losses.mean()), error, self.clock.here - begun)
        self.tried.append(trial)
        if self._progress is not None:
            self._progress(trial)
        return losses


def _gain(one: Array, other: Array) -> float:
    """Return by how many standard errors the second losses are lower."""
    gain = one - other
    return float(gain.mean() / max(gain.std() / math.sqrt(gain.size), 1e-12))


def losses_of(table: Table, answers: Array, at: NDArray[np.int64], truth: NDArray[np.uint8]) -> Array:
    """Return negative log-probabilities of hidden symbols, scaled by the best factor."""
    columns = table.symbols.shape[1]
    found = answers[table.place(at // columns, at % columns)].astype(np.float64)
    p = np.column_stack([1 - found.sum(axis=1), found])
    logs = np.log(np.maximum(p, 1e-6))
    scaled = []
    for scale in SCALES:
        powers = scale * logs
        powers -= np.log(np.exp(powers).sum(axis=1, keepdims=True))
        scaled.append(-powers[np.arange(truth.size), truth])
    out: Array = min(scaled, key=lambda one: float(one.mean()))
    return out
