"""The discrete term on the unobserved cells of a matrix, of low rank or dense.

What a penalty of single entries does to a matrix of low rank is dense, and is
done by tiles; what a penalty of the whole vector does keeps the low rank.
Columns with penalties of their own are treated group by group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from snapimpute.base.threads import cut, run_parts
from snapimpute.base.types import Array, Index
from snapimpute.data.observations import Observations
from snapimpute.linalg import ColumnGroups, LowRank, MatrixOperator, Sum, cell_sum, mapped
from snapimpute.linalg.backend import EXACT, Accuracy, backend_of, take_beside
from snapimpute.linalg.base import ENTRIES
from snapimpute.penalties import L2, ByColumn, CellMap, CellPenalty, DiscretePenalty, Line, Moments

Total = Literal["value", "envelope", "landing"]


class Part(NamedTuple):
    """Columns that share a penalty, and where their observed cells stand; None stands for all of them."""

    penalty: DiscretePenalty | None
    cols: Index | None
    observed: Index | None

    def of(self, x: LowRank) -> LowRank:
        """The columns of x."""
        return x if self.cols is None else LowRank(x.U, x.s, x.V[self.cols])

    def seen(self, on_observed: Array) -> Array:
        """A copy of the observed cells of the columns."""
        return on_observed.copy() if self.observed is None else on_observed[self.observed]


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
        if not isinstance(self.penalty, ByColumn):
            return [Part(self.penalty, None, None)]
        if self.penalty.which.size != self.observations.shape[1]:
            raise ValueError(
                f"{self.penalty.which.size} columns have a penalty, but the table has {self.observations.shape[1]}"
            )
        belongs = take_beside(self.observations.cols, self.penalty.which)
        return [
            Part(penalty, cols, np.flatnonzero(belongs == self.penalty.which[cols[0]]))
            for penalty, cols in self.penalty.groups()
        ]

    def total(self, x: LowRank, on_observed: Array, kind: Total, step: float = 1.0) -> float:
        """Σ over Ωᶜ: the penalty, or min_u penalty(u) + (u − x)²/(2·step), or the penalty at that minimiser."""
        unit = 1.0 if kind == "value" else step
        sums = (
            self._part_total(i, part.of(x), part.seen(on_observed), kind, unit) for i, part in enumerate(self.parts)
        )
        return sum(sums) / unit

    def _part_total(self, i: int, x: LowRank, seen: Array, kind: Total, step: float) -> float:
        penalty = self.parts[i].penalty
        if isinstance(penalty, CellPenalty):
            cost = penalty.compiled(kind, step)
            cost(seen)
            return cell_sum(x, cost) - float(seen.sum(dtype=np.float64))
        if isinstance(penalty, L2):
            moments = _hidden_moments(x, seen)
            if kind == "value":
                return penalty.value_of(moments)
            return penalty.envelope_of(moments, step) if kind == "envelope" else penalty.landing_of(moments, step)
        return 0.0

    def prox(
        self, x: LowRank, on_observed: Array, step: float = 1.0, accuracy: Accuracy = EXACT
    ) -> tuple[MatrixOperator, Array]:
        """A matrix that is prox(X) on Ωᶜ, and what it happens to have on Ω."""
        operators, values = [], np.empty_like(on_observed)
        for i, part in enumerate(self.parts):
            operator, seen = self._part_prox(i, part.of(x), part.seen(on_observed), step, accuracy)
            operators.append(operator)
            values[slice(None) if part.observed is None else part.observed] = seen
        if self.parts[0].cols is None:
            return operators[0], values
        return ColumnGroups(tuple(operators), tuple(p.cols for p in self.parts if p.cols is not None)), values

    def _part_prox(
        self, i: int, x: LowRank, seen: Array, step: float, accuracy: Accuracy
    ) -> tuple[MatrixOperator, Array]:
        penalty = self.parts[i].penalty
        if isinstance(penalty, CellPenalty):
            line, rest = penalty.line(step), penalty.compiled_remainder(step)
            straight = LowRank.combine([line.slope, 1.0], [x, x.constant_beside(line.shift)])
            size = _move(seen, line, rest)
            if rest is None:
                return straight, seen
            return Sum((straight, self._remainder(i, x, rest, size, step, accuracy))), seen
        if isinstance(penalty, L2):
            scale, shift = penalty.shrinkage(_hidden_moments(x, seen), step)
            moved = LowRank.combine([scale, 1.0], [x, x.constant_beside(shift)])
            return moved, x.dtype.type(scale) * seen + x.dtype.type(shift)
        return x, seen

    def _remainder(
        self, i: int, x: LowRank, rest: CellMap, size: float, step: float, accuracy: Accuracy
    ) -> MatrixOperator:
        """What the line leaves of the prox, by all tiles; in lower precision where the error allowed is large enough.

        ``size`` is its root mean square on the observed cells. Where the prox
        jumps, rounding could carry a cell over the edge.
        """
        cols = self.parts[i].cols
        if cols is not None and accuracy.right is not None:
            accuracy = accuracy._replace(right=accuracy.right[cols])
        return mapped(x, rest, accuracy=accuracy if self.penalty.convex else EXACT)

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
        m = self.observations.shape[0]
        total = 0.0
        for penalty, cols, observed in self.parts:
            width = self.observations.shape[1] if cols is None else cols.size
            hidden = m * width - (len(self.observations) if observed is None else observed.size)
            if isinstance(penalty, CellPenalty):
                total += hidden * penalty.least
            elif isinstance(penalty, L2):
                total += penalty.least_total(hidden)
        return total


def _move(seen: Array, line: Line, rest: CellMap | None) -> float:
    """Replace entries by line + remainder; the root mean square of the remainder."""
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


def _hidden_moments(x: LowRank, seen: Array) -> Moments:
    """Number, sum and sum of squares of the cells that were not observed."""
    all_cells = moments(x)
    return Moments(
        all_cells.count - seen.size,
        all_cells.total - float(seen.sum(dtype=np.float64)),
        max(all_cells.squares - float(np.sum(seen * seen, dtype=np.float64)), 0.0),
    )


def moments(x: LowRank) -> Moments:
    """Number, sum and sum of squares of all cells."""
    m, n = x.shape
    return Moments(m * n, float(x.U.sum(axis=0) * x.s @ x.V.sum(axis=0)), x.norm() ** 2)
