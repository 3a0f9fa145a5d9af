"""The discrete term on the unobserved cells of a matrix, of low rank or dense.

A penalty says by itself what its term is (`DiscretePenalty.total` and `split`):
here are the cells that it asks for. What it does to single cells makes a dense
matrix, and is done by tiles; a line keeps the low rank. Columns with penalties of
their own are treated group by group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array, Index
from snapimpute.data.observations import Observations
from snapimpute.linalg import ColumnGroups, LowRank, MatrixOperator, Sum, cell_sum, mapped
from snapimpute.linalg.backend import EXACT, Accuracy, backend_of, take_beside
from snapimpute.linalg.base import ENTRIES
from snapimpute.penalties import CellMap, DiscretePenalty, Line, Moments, Total


class Part(NamedTuple):
    """Columns that share a penalty, and the places of their observed cells; None stands for all of them."""

    number: int
    penalty: DiscretePenalty | None
    cols: Index | None
    observed: Index | None
    shape: tuple[int, int]
    known: int
    """Number of observed cells."""
    convex: bool
    """True if all penalties of the table are convex; else a prox may jump, and rounding carry a cell over it."""

    def of(self, x: LowRank) -> LowRank:
        """Take the columns of x."""
        return x if self.cols is None else LowRank(x.U, x.s, x.V[self.cols])

    def seen(self, on_observed: Array) -> Array:
        """Copy the observed cells of the columns."""
        return on_observed.copy() if self.observed is None else on_observed[self.observed]


class Coverage:
    """The cells that an iteration computes: here all of them, and in `sampling.Sampler` a sample.

    A run holds it, tells it of every iteration, and hands it to whatever asks for sums or products.
    """

    noise: float = 0.0
    """Norm of the noise in the last gradient."""

    @property
    def slack(self) -> float:
        """Largest difference of two estimates of one objective."""
        return 0.0

    def begin(self, iteration: int) -> None:
        """Begin an iteration."""

    def watch(self, objective: float) -> None:
        """Look at an objective."""

    def settled(self, change: float) -> bool:
        """Tell if the relative change of an iterate is noise, and small."""
        return False

    def columns(self) -> dict[str, float]:
        """Columns of the history."""
        return {}

    def memory(self) -> dict[str, Any]:
        """Everything that changes from iteration to iteration, for a checkpoint."""
        return {}

    def remember(self, memory: dict[str, Any]) -> None:
        """Take up what `memory` gave."""

    def begin_total(self) -> None:
        """Begin a sum over all parts."""

    def envelope(self, part: Part, x: LowRank, penalty: DiscretePenalty, step: float) -> float:
        """Σ of the envelope over all cells of a part."""
        return cell_sum(x, penalty.compiled("envelope", step))

    def remainder(
        self, part: Part, x: LowRank, rest: CellMap, size: float, step: float, accuracy: Accuracy
    ) -> MatrixOperator:
        """Make the operator of what the line leaves of a prox, by tiles of the accuracy allowed.

        ``size`` is the root mean square of what it leaves on the observed cells.
        """
        if part.cols is not None and accuracy.right is not None:
            accuracy = accuracy._replace(right=accuracy.right[part.cols])
        return mapped(x, rest, accuracy=accuracy if part.convex else EXACT)


ALL_CELLS = Coverage()


@dataclass(frozen=True, eq=False)
class PartCells:
    """The unobserved cells of a part, as a penalty asks for them (`penalties.HiddenCells`)."""

    part: Part
    x: LowRank
    on_observed: Array
    coverage: Coverage

    @property
    def seen(self) -> Array:
        """A copy of the observed cells."""
        return self.part.seen(self.on_observed)

    def total(self, cell_map: CellMap) -> float:
        """Σ of a map over the cells."""
        return cell_sum(self.x, cell_map) - self._on_seen(cell_map)

    def envelope(self, penalty: DiscretePenalty, step: float) -> float:
        """Σ of the envelope of a penalty over the cells, which may be an estimate."""
        whole = self.coverage.envelope(self.part, self.x, penalty, step)
        return whole - self._on_seen(penalty.compiled("envelope", step))

    def _on_seen(self, cell_map: CellMap) -> float:
        costs = self.seen
        cell_map(costs)
        return float(costs.sum(dtype=np.float64))

    def moments(self) -> Moments:
        """Number, sum and sum of squares of the cells."""
        all_cells, seen = moments(self.x), self.seen
        return Moments(
            all_cells.count - seen.size,
            all_cells.total - float(seen.sum(dtype=np.float64)),
            max(all_cells.squares - float(np.sum(seen * seen, dtype=np.float64)), 0.0),
        )

    def prox(self, penalty: DiscretePenalty, step: float, accuracy: Accuracy) -> tuple[MatrixOperator, Array]:
        """Make a matrix that is the prox on the cells, and return what it has on the observed ones."""
        line, rest = penalty.split(self, step)
        straight, seen = LowRank.combine([line.slope, 1.0], [self.x, self.x.constant_beside(line.shift)]), self.seen
        size = _move(seen, line, rest)
        if rest is None:
            return straight, seen
        return Sum((straight, self.coverage.remainder(self.part, self.x, rest, size, step, accuracy))), seen


@dataclass(frozen=True, eq=False)
class DiscreteTerm:
    """A discrete penalty on the cells that were not observed.

    Matrices are given as they are to be compared with the alphabet, offsets
    included, and ``on_observed`` is what they have on Ω.
    """

    penalty: DiscretePenalty
    observations: Observations

    @cached_property
    def parts(self) -> list[Part]:
        """The columns by their penalties."""
        (m, n), convex = self.observations.shape, self.penalty.convex
        groups = self.penalty.groups(n)
        for penalty, _ in groups:
            if penalty is not None:
                penalty.check()
        if len(groups) == 1:
            return [Part(0, groups[0].penalty, None, None, (m, n), len(self.observations), convex)]
        which = np.empty(n, dtype=np.intp)
        for number, (_, cols) in enumerate(groups):
            which[cols] = number
        belongs = take_beside(self.observations.cols, which)
        positions = [np.flatnonzero(belongs == number) for number in range(len(groups))]
        return [
            Part(number, penalty, cols, seen, (m, cols.size), seen.size, convex)
            for number, ((penalty, cols), seen) in enumerate(zip(groups, positions, strict=True))
        ]

    def total(
        self, x: LowRank, on_observed: Array, kind: Total, step: float = 1.0, coverage: Coverage = ALL_CELLS
    ) -> float:
        """Σ over Ωᶜ: the penalty, or min_u penalty(u) + (u − x)²/(2·step), or the penalty at that minimiser."""
        unit = 1.0 if kind == "value" else step
        coverage.begin_total()
        cells = self._cells(x, on_observed, coverage)
        return sum(penalty.total(some, kind, unit) for penalty, some in cells if penalty is not None) / unit

    def _cells(
        self, x: LowRank, on_observed: Array, coverage: Coverage
    ) -> Iterator[tuple[DiscretePenalty | None, PartCells]]:
        for part in self.parts:
            yield part.penalty, PartCells(part, part.of(x), on_observed, coverage)

    def prox(
        self,
        x: LowRank,
        on_observed: Array,
        step: float = 1.0,
        accuracy: Accuracy = EXACT,
        coverage: Coverage = ALL_CELLS,
    ) -> tuple[MatrixOperator, Array]:
        """Make a matrix that is prox(X) on Ωᶜ, and return what it happens to have on Ω."""
        operators, values = [], np.empty_like(on_observed)
        for penalty, cells in self._cells(x, on_observed, coverage):
            operator, seen = (cells.x, cells.seen) if penalty is None else cells.prox(penalty, step, accuracy)
            operators.append(operator)
            values[slice(None) if cells.part.observed is None else cells.part.observed] = seen
        if self.parts[0].cols is None:
            return operators[0], values
        return ColumnGroups(tuple(operators), tuple(p.cols for p in self.parts if p.cols is not None)), values

    def prox_dense(self, x: Array, step: float = 1.0) -> Array:
        """prox(X) on Ωᶜ and X on Ω, for an array that holds the whole matrix."""
        hidden = np.ones(x.shape, dtype=bool)
        hidden[self.observations.rows, self.observations.cols] = False
        out = x.copy()
        for part in self.parts:
            if part.penalty is not None:
                where = hidden
                if part.cols is not None:
                    where = np.zeros_like(hidden)
                    where[:, part.cols] = hidden[:, part.cols]
                out[where] = part.penalty.prox(x[where], step)
        return out

    @property
    def least(self) -> float:
        """The least value over all matrices."""
        hidden = [math.prod(part.shape) - part.known for part in self.parts]
        return sum(
            part.penalty.least_total(count)
            for part, count in zip(self.parts, hidden, strict=True)
            if part.penalty is not None
        )


def _move(seen: Array, line: Line, rest: CellMap | None) -> float:
    """Replace entries by line + remainder; return the root mean square of the remainder."""
    slope, shift = seen.dtype.type(line.slope), seen.dtype.type(line.shift)

    def work(start: int, stop: int) -> float:
        part = seen[start:stop]
        if rest is None:
            part *= slope
            part += shift
            return 0.0
        remainder = part.copy()
        rest(remainder)
        part *= slope
        part += shift
        part += remainder
        return float(remainder @ remainder)

    step = ENTRIES if backend_of(seen) is None else max(seen.size, 1)
    squares = run_parts(work, cut(seen.size, step), operations=50.0 * seen.size)
    return math.sqrt(math.fsum(squares) / max(seen.size, 1))


def moments(x: LowRank) -> Moments:
    """Number, sum and sum of squares of all cells."""
    m, n = x.shape
    return Moments(m * n, float(x.U.sum(axis=0) * x.s @ x.V.sum(axis=0)), x.norm() ** 2)
