"""A fitted mosaic: what it says of cells, of new rows, of whole tables, and of the strands of each row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.threads import single_threaded_blas
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, Nominal
from snapimpute.data.answers import CellAnswers
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.mosaic._chain import Chain
from snapimpute.mosaic._choice import Trial
from snapimpute.mosaic._classes import Answers, Classes, PairClasses, SingleClasses, Strands
from snapimpute.mosaic._panel import Line, Table
from snapimpute.mosaic._run import KeptStrands, Round, Run
from snapimpute.mosaic._settings import Settings
from snapimpute.mosaic.diagnostics import MosaicDiagnostics
from snapimpute.solvers import Status
from snapimpute.solvers.model_file import read_content, write_content
from snapimpute.solvers.serialise import known_by_name

FORM = "snapimpute mosaic"

MADE = Status("max_iter", "All steps are made.")

FOLDED, FOLD_ROUNDS = 10, 2
"""Strands kept that new rows copy from, and rounds for each of them."""

PHASINGS = 20
"""Draws of strands that phases follow from, where classes answer."""


@stored(
    "mosaic fit",
    *("columns", "observations", "settings", "lines", "answers", "classes", "kept", "turns", "history", "status"),
    *("diagnostics", "pool"),
)
@dataclass(frozen=True, eq=False)
class MosaicFit(CellAnswers):
    """Rows as mosaics, and what they say of any cell.

    Attributes
    ----------
    columns : ColumnSchema
        Content of each column.
    observations : Observations
    settings : Settings
        What was chosen: order, strands, classes, starts, rounds.
    lines : tuple of Line
        The columns in the order of the chain, of each start in turn.
    answers : array
        Chances of all symbols but the first in each missing cell, row by row.
    classes : tuple of Classes
        Those of each start.
    kept : tuple of KeptStrands
        Strands of some rounds, for drawn tables and new rows; empty where classes answer.
    turns : array or None
        How often strands lay as at the cell with both alleles before, and how often the other way round.
    history : tuple of Round
    status : Status
        Reason why the run ended.
    diagnostics : MosaicDiagnostics or None
        What was chosen and why; None after `fold_in`.
    pool : tuple of KeptStrands
        Strands of the fitted rows, where the rows are new ones.
    """

    columns: ColumnSchema
    observations: Observations
    settings: Settings
    lines: tuple[Line, ...]
    answers: Answers
    classes: tuple[Classes, ...]
    kept: tuple[KeptStrands, ...] = ()
    turns: NDArray[np.int16] | None = field(default=None, repr=False)
    history: tuple[Round, ...] = field(default=(), repr=False)
    status: Status = MADE
    diagnostics: MosaicDiagnostics | None = None
    pool: tuple[KeptStrands, ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls,
        run: Run,
        observations: Observations,
        schema: ColumnSchema,
        settings: Settings,
        status: Status,
        held_out: tuple[Trial, ...],
    ) -> MosaicFit:
        """Return what a run has found so far."""
        state, answers = run.state, run.answers
        classes = [*state.finished, *([] if state.classes is None or state.finished else [state.classes])]
        assert answers is not None  # noqa: S101  # a run without a step is an error before
        return cls(
            schema,
            observations,
            settings,
            tuple(state.lines),
            answers,
            tuple(classes),
            tuple(state.kept),
            state.turns,
            tuple(state.history),
            status,
            MosaicDiagnostics(settings, run.count, run.excess(), held_out),
        )

    @property
    def schema(self) -> ColumnSchema:
        """Content of each column."""
        return self.columns

    @property
    def by_cells(self) -> bool:
        """Tell whether the known cells of a row are all that its answers depend on."""
        return True

    # ---------------------------------------------------------------- cells
    @cached_property
    def table(self) -> Table:
        """The symbols of the known cells."""
        return Table.of(self.observations, self.schema)

    def line(self, start: int) -> Line:
        """Return the line of a start."""
        return self.lines[start % len(self.lines)]

    def _chances(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        at = self.table.place(rows, cols)
        out = np.zeros((rows.size, self.answers.shape[1] + 1))
        hidden = at >= 0
        found = self.answers[at[hidden]]
        out[hidden, 1:] = found
        out[hidden, 0] = np.maximum(1 - found.sum(axis=1, dtype=np.float64), 0)
        _, values = self._known(rows[~hidden], cols[~hidden])
        for kind, alphabet in enumerate(self.schema.kinds):
            inside = self.schema.which[cols[~hidden]] == kind
            if alphabet is not None and inside.any():
                out[np.flatnonzero(~hidden)[inside], alphabet.indices(values[inside])] = 1.0
        return out

    # ---------------------------------------------------------------- tables
    def _drawn(self, rows: NDArray[np.intp], cols: NDArray[np.intp], count: int, seed: int) -> Iterator[Array]:
        for number in range(count):
            key = int(np.random.SeedSequence((seed, number)).generate_state(1)[0])
            with single_threaded_blas():
                strands, line = self._strands_of(number, key)
            place = np.empty(line.order.size, np.int64)
            place[line.order] = np.arange(line.order.size)
            drawn = strands if self.settings.strands == 1 else strands[0::2] + strands[1::2]
            yield self._decoded(cols, drawn[rows, place[cols]])

    def _strands_of(self, number: int, key: int) -> tuple[Strands, Line]:
        """Draw completed strands, by those of a round or by the classes of a start, along the line returned."""
        if not self.kept:
            start = number % len(self.classes)
            return self.classes[start].draw(self.table.along(self.line(start)), key), self.line(start)
        at = number % len(self.kept)
        return self._chain(at).completed(key), self.line(self.kept[at].start)

    def _chain(self, at: int) -> Chain:
        kept = self.kept[at]
        pool = self.pool[at].strands if self.pool else None
        panel = self.table.along(self.line(kept.start))
        return Chain(panel, self.classes[kept.start], kept.strands, pool)

    # ---------------------------------------------------------------- phases
    def strands(self) -> Strands:
        """Return the two strands of each row, shape (rows, 2, columns): alleles 0 and 1 in the order of the columns.

        At a known cell with both alleles they lie as in most rounds; missing cells are those of the last round.
        """
        if self.settings.strands != 2:
            raise ArgumentError(
                "strands", 1, "each row has one strand, which is the row itself: ask proba for its cells"
            )
        line, first = self.lines[0], self.classes[0]
        panel = self.table.along(line)
        m, n = panel.shape
        with single_threaded_blas():
            along = [one for one in self.kept if self.line(one.start) is line]
            if along:
                last, turns = along[-1].strands, self.turns
            else:
                chains = [Chain(panel, first, first.draw(panel, key)) for key in range(PHASINGS)]
                last, turns = chains[-1].strands, np.sum([one.turns() for one in chains], axis=0, dtype=np.int16)
        pairs, own = last.reshape(m, 2, n), Chain(panel, first, last).turns()
        wrong = (np.zeros_like(own) if turns is None else turns) * own < 0  # most rounds had it the other way round
        swapped = np.cumsum(wrong, axis=1) % 2 == 1
        along_line = np.where(swapped[:, None, :], pairs[:, ::-1], pairs)
        out = np.empty_like(along_line)
        out[:, :, line.order] = along_line
        return out

    # ---------------------------------------------------------------- new rows
    def fold_in(self, observations: Observations, *, random_state: int = 0) -> MosaicFit:
        """Return the answers for new rows with the same columns, by their known cells: the fit stays as it is.

        Parameters
        ----------
        observations : Observations
            Of the new rows.
        random_state : int
        """
        if observations.shape[1] != self.observations.shape[1]:
            raise ValueError(
                f"the new rows have {observations.shape[1]} columns, the fitted table {self.observations.shape[1]}: "
                f"give the same columns in the same order"
            )
        table = Table.of(observations, self.schema)
        answers = np.zeros((table.missing.size, self.answers.shape[1]), np.float32)
        with single_threaded_blas():
            if not self.kept:
                for start, classes in enumerate(self.classes):
                    panel = table.along(self.line(start))
                    found = np.zeros_like(answers)
                    classes.expected(panel, found)
                    answers += table.from_line(panel, found)
                return self._with(observations, answers / np.float32(len(self.classes)))
            pool = self.pool or self.kept
            some = pool[:: -(-len(pool) // FOLDED)]
            own = [self._folded(table, kept, answers, number, random_state) for number, kept in enumerate(some)]
        return self._with(observations, answers / np.float32(len(some)), tuple(own), tuple(some))

    def _folded(self, table: Table, kept: KeptStrands, answers: Answers, number: int, seed: int) -> KeptStrands:
        """Add the answers of new rows that copy from the strands of one round, and return their own strands."""
        keys = np.random.SeedSequence((seed, number)).generate_state(FOLD_ROUNDS + 1)
        panel, found = table.along(self.line(kept.start)), np.zeros_like(answers)
        chain = Chain.begin(panel, self.classes[kept.start], int(keys[0]), kept.strands)
        for key in keys[1:]:
            chain = chain.round(int(key))
        chain.fill(found)
        answers += table.from_line(panel, found)
        return KeptStrands.of(chain.strands, kept.start)

    def _with(
        self,
        observations: Observations,
        answers: Answers,
        kept: tuple[KeptStrands, ...] = (),
        pool: tuple[KeptStrands, ...] = (),
    ) -> MosaicFit:
        """Return the fit of other rows."""
        other = replace(self, observations=observations, answers=answers, kept=kept, pool=pool, history=())
        return replace(other, turns=None, diagnostics=None)

    # ---------------------------------------------------------------- files
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file: numbers and text, no code; `load` reads it.

        Parameters
        ----------
        path : path
            Written atomically; a file that is there is replaced.
        """
        write_content(path, self, known_by_name(FILE_KINDS), FORM)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MosaicFit:
        """Read a fit that `save` wrote.

        Parameters
        ----------
        path : path
        """
        found = read_content(path, known_by_name(FILE_KINDS), FORM)
        if not isinstance(found, cls):
            raise ValueError(f"{path} holds a {type(found).__name__}, no fit of a mosaic")
        return found


MOSAIC_KINDS: tuple[type, ...] = (
    KeptStrands,
    Line,
    MosaicDiagnostics,
    MosaicFit,
    PairClasses,
    Round,
    Settings,
    SingleClasses,
    Trial,
)
"""Classes of a fit that stand in files."""

FILE_KINDS: tuple[type, ...] = (*MOSAIC_KINDS, Alphabet, Nominal, ColumnSchema, Observations, Status)
"""All classes in the file of a fit."""
