"""The mosaic as an engine: its parameters, and what it chooses where nobody says."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from snapimpute.base.clock import Clock
from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.threads import single_threaded_blas
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.expert import Expert
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.mosaic._checkpoint import RunFile
from snapimpute.mosaic._choice import Choice, Places, Progress, Wishes
from snapimpute.mosaic._panel import MOST_SYMBOLS, Table, levels_of
from snapimpute.mosaic._run import Round, Run
from snapimpute.mosaic._settings import Settings
from snapimpute.mosaic.fit import MosaicFit
from snapimpute.mosaic.forecast import MosaicForecast
from snapimpute.solvers import Checkpoint

MOST_CLASSES = 100

MOST_UNKNOWN = 20_000_000
"""Cells of a table of which few are known, at most: every missing one is answered."""

LEAST_KNOWN = 0.3
"""Share of known cells from which latent classes, or an order that has to be found, may tell something."""


@stored("mosaic", "classes", "order", "strands", "rounds", "starts", "groups", "positions", "random_state")
@dataclass(frozen=True)
class Mosaic(Expert):
    """Rows as mosaics of each other, along columns that stand in an order.

    First come classes: along the columns each row follows a class, and jumps to another one now and then. Then rows
    copy from each other: each is a mosaic of pieces of all others. Without an order of the columns the classes
    are latent classes.

    Parameters
    ----------
    classes : int or "auto"
        Number of classes; "auto" chooses it on held-out cells where classes answer, and takes 20 where rows copy.
    order : {"auto", "given", "found"} or None
        Order of the columns: the one given, one that is found by their correlations, or None for latent classes.
        "auto" takes the given one if neighbours surely tell more of each other than random columns; else held-out
        cells decide, and an order has to win clearly.
    strands : {"auto", 1, 2}
        Strands of a row. With two, each of 0 and 1, symbols add up: 0, 1, 2. "auto" lets held-out cells decide
        where the alphabet allows it.
    rounds : int or "auto"
        Rounds of copying from each start; 0 leaves them out; "auto" lets held-out cells decide.
    starts : int or "auto"
        Random starts whose answers are averaged.
    groups : sequence, optional
        Group of each column, such as its chromosome: nothing is carried from one to the next.
    positions : sequence of float, optional
        Position of each column, in any unit: columns stand in that order, and a jump is as likely as the way is long.
    random_state : int

    Examples
    --------
    >>> from snapimpute.data.datasets import mosaic_genotypes
    >>> data = mosaic_genotypes((60, 80), founders=6, observed=0.8)
    >>> fit = Mosaic(rounds=3, starts=1).fit(data.observations, [0, 1, 2])
    >>> fit.proba([0, 1], [2, 3]).shape
    (2, 3)
    """

    name: ClassVar[str] = "mosaic"

    classes: int | Literal["auto"] = "auto"
    order: Literal["auto", "given", "found"] | None = "auto"
    strands: int | Literal["auto"] = "auto"
    rounds: int | Literal["auto"] = "auto"
    starts: int | Literal["auto"] = "auto"
    groups: Sequence[Any] | None = None
    positions: Sequence[float] | None = None
    random_state: int = 0

    @property
    def label(self) -> str:
        """Name in verdicts: latent classes where the columns have no order."""
        return "latent classes" if self.order is None else self.name

    def suited(self, observations: Observations, schema: ColumnSchema) -> Mosaic:
        """Return the form that suits a table: where few cells are known, the given order or none is all there is."""
        if self.order != "auto" or observations.density >= LEAST_KNOWN:
            return self
        return replace(self, order=None if self.objection(observations, schema) else "given")

    def probe(self) -> Mosaic | None:
        """Return four classes from one start, in place of many numbers of classes from many starts."""
        quick = self.order in (None, "given") and self.classes == "auto"
        return replace(self, classes=4, starts=1, rounds=0) if quick else None

    def takes(self, alphabet: Alphabet | None) -> bool:
        """Take alphabets of not too many symbols."""
        return alphabet is not None and len(alphabet) <= MOST_SYMBOLS

    def objection(self, observations: Observations, schema: ColumnSchema) -> str | None:
        """Object to sparse tables whose neighbouring columns tell hardly more of each other than random ones do."""
        m, n = observations.shape
        if m * n > MOST_UNKNOWN and observations.density < LEAST_KNOWN:
            return f"it answers every missing cell, and there are {m * n - len(observations):,}"
        if self.order != "auto" or self.groups is not None or self.positions is not None:
            return None
        if observations.density >= LEAST_KNOWN:
            return None
        table, places = self._table(observations, schema)
        if Choice(table, places, self._wishes, self.random_state, Clock()).neighbours_tell_much():
            return None
        return "few cells are known, and neighbouring columns tell hardly more of each other than random ones"

    def fit(
        self,
        observations: Observations,
        alphabet: AlphabetLike | ColumnSchema,
        *,
        time_limit: float | None = None,
        callback: Callable[[Round], Any] | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    ) -> MosaicFit:
        """Fit to the known cells.

        Memory is checked first; `forecast` tells it, and the time.

        Parameters
        ----------
        observations : Observations
        alphabet : Alphabet, what makes one, or ColumnSchema
        time_limit : float, optional
            Seconds after which the answers so far are kept.
        callback : callable, optional
            Called with a `Round` after each step; True ends the run.
        progress : callable, optional
            Called with a `Trial` for each choice that a short run has tried.
        checkpoint : path or Checkpoint, optional
            Save the run there, every 30 seconds, and when it ends or is interrupted. If the file exists, the run goes
            on where it was, to the same bits. It must be of the same table and parameters.
        """
        clock, schema = Clock(time_limit), _schema(alphabet, observations.shape[1])
        table, places = self._table(observations, schema)
        with single_threaded_blas():
            self._forecast(table, timed=False).check()
            file = None if checkpoint is None else RunFile(checkpoint, self._parts(observations, schema))
            saved = None if file is None else file.load()
            if saved is None:
                choice = Choice(table, places, self._wishes, self.random_state, clock)
                settings, tried = choice.settled(progress), tuple(choice.tried)
            else:
                settings, tried = saved.settings, saved.tried
            run = self._run(table, places, settings)
            if saved is not None:
                run.restore(saved.run)
                clock.spent = saved.run.spent
            if file is not None:
                file.begin(run, settings, tried, clock)
            status = run.finish(clock, callback, None if file is None else file.keep_if_due)
            if file is not None:
                file.keep()
        if status.advice:
            warnings.warn(str(status), ConvergenceWarning, stacklevel=2)
        return MosaicFit.of(run, observations, schema, settings, status, tried)

    def update(
        self,
        fit: MosaicFit,
        observations: Observations,
        *,
        time_limit: float | None = None,
        callback: Callable[[Round], Any] | None = None,
    ) -> MosaicFit:
        """Fit a table with more known cells or rows, with the settings and the order of a fit.

        Parameters
        ----------
        fit : MosaicFit
        observations : Observations
            All known cells, those of the fit included; the columns are the same.
        time_limit, callback
            As in `fit`.
        """
        (m, n), shape = fit.observations.shape, observations.shape
        if shape[0] < m or shape[1] != n:
            raise ValueError(
                f"update goes on with at least the rows and exactly the columns of the fit: that is of {(m, n)}, the "
                f"table of {shape}"
            )
        clock, table = Clock(time_limit), Table.of(observations, fit.schema)
        with single_threaded_blas():
            self._forecast(table, timed=False).check()
            run = Run(table, fit.lines, fit.settings, self.random_state, until_exact=self._is_open)
            status = run.finish(clock, callback)
        tried = () if fit.diagnostics is None else fit.diagnostics.held_out
        return MosaicFit.of(run, observations, fit.schema, fit.settings, status, tried)

    def again(self, fit: MosaicFit, observations: Observations, *, progress: Any = None, **told: Any) -> MosaicFit:
        """Fit other known cells of the same table, with the settings and the order of a fit: there is no progress."""
        return self.update(fit, observations, **told)

    def forecast(
        self, observations: Observations, alphabet: AlphabetLike | ColumnSchema, *, timed: bool = True
    ) -> MosaicForecast:
        """Estimate memory, seconds and the size of a saved fit, without fitting.

        Parameters
        ----------
        observations, alphabet
            As in `fit`, which refuses a table that does not fit into memory.
        timed : bool
            True times a piece of the table, which takes a second or two once compiled.
        """
        schema = _schema(alphabet, observations.shape[1])
        with single_threaded_blas():
            return self._forecast(self._table(observations, schema)[0], timed=timed)

    def _forecast(self, table: Table, *, timed: bool) -> MosaicForecast:
        wishes = self._wishes
        likely = replace(wishes, order="given" if wishes.order == "auto" else wishes.order)
        choice = Choice(table, Places(), likely, self.random_state, Clock())
        return MosaicForecast.of(table, choice.most(), choice.trials(), timed=timed)

    def _table(self, observations: Observations, schema: ColumnSchema) -> tuple[Table, Places]:
        """Check the parameters against a table; return its symbols, and groups and positions of its columns."""
        self._check()
        table = Table.of(observations, schema)
        if self.strands == 2 and not table.can_add_up:
            told = "two strands need three symbols in even steps in every column, such as 0, 1, 2: leave strands out"
            raise ArgumentError("strands", 2, told)
        groups, positions = (self._by_column(name, observations.shape[1]) for name in ("groups", "positions"))
        if groups is not None:
            _, first, numbers = np.unique(groups, return_index=True, return_inverse=True)
            groups = np.argsort(np.argsort(first))[numbers].astype(np.int64)
        if positions is not None:
            positions = positions.astype(np.float64)
            if not np.isfinite(positions).all():
                raise ArgumentError.must("positions", self.positions, "be finite numbers, one for each column")
        return table, Places(groups, positions)

    def _by_column(self, name: str, columns: int) -> NDArray[Any] | None:
        given: ArrayLike | None = getattr(self, name)
        if given is None:
            return None
        out = np.asarray(given)
        if out.shape != (columns,):
            raise ArgumentError(
                name, given, f"{name} must have one entry for each of the {columns} columns, got shape {out.shape}"
            )
        return out

    def _check(self) -> None:
        if self.order not in ("auto", "given", "found", None):
            raise ArgumentError.must("order", self.order, 'be "auto", "given", "found" or None')
        if self.strands not in ("auto", 1, 2):
            raise ArgumentError.must("strands", self.strands, 'be 1, 2 or "auto"')
        for name, least in (("classes", 1), ("starts", 1), ("rounds", 0)):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if value != "auto" and (not whole or value < least):
                raise ArgumentError.must(name, value, f'be a whole number, at least {least}, or "auto"')
        if self.classes != "auto" and self.classes > MOST_CLASSES:
            raise ArgumentError.must("classes", self.classes, f"be at most {MOST_CLASSES}")
        if self.positions is not None and self.order not in ("auto", "given"):
            told = f"positions give the columns an order, and order={self.order!r} another: leave one of them out"
            raise ArgumentError("positions", self.positions, told)
        if self.order is None and self.rounds not in ("auto", 0):
            raise ArgumentError("rounds", self.rounds, "rows copy along an order: give one, or rounds=0")

    @property
    def _wishes(self) -> Wishes:
        return Wishes(self.classes, self.order, self.strands, self.rounds, self.starts)

    @property
    def _is_open(self) -> bool:
        """Tell whether a run may end when its answers are exact."""
        return "auto" in (self.starts, self.rounds)

    def _parts(self, observations: Observations, schema: ColumnSchema) -> dict[str, Any]:
        """Everything that the answers depend on."""
        return {"observations": observations, "alphabet": schema, "model": self}

    def _run(self, table: Table, places: Places, settings: Settings) -> Run:
        lines = places.lines(settings.order, table, self.random_state, settings.starts)
        return Run(table, lines, settings, self.random_state, until_exact=self._is_open)


def _schema(alphabet: AlphabetLike | ColumnSchema, columns: int) -> ColumnSchema:
    schema = ColumnSchema.read(alphabet, columns)
    levels_of(schema)
    return schema
