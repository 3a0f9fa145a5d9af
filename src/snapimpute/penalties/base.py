"""A discrete penalty: what solvers ask of it, and what it may ask of the unobserved cells of a matrix."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Array, Index
from snapimpute.data.alphabet import Alphabet
from snapimpute.penalties.maps import CellMap

LINE_POINTS = 2001
"""Points at which a prox is compared with the line that is split off."""

Kind = Literal["value", "prox", "envelope", "landing"]
Total = Literal["value", "envelope", "landing"]


class Line(NamedTuple):
    """x ↦ slope·x + shift."""

    slope: float
    shift: float


class Split(NamedTuple):
    """A prox in two parts: a line, which keeps the rank low, and the map of single cells that the line leaves."""

    line: Line
    rest: CellMap | None


class Group(NamedTuple):
    """Columns that share a penalty, or have none."""

    penalty: DiscretePenalty | None
    cols: Index


@dataclass(frozen=True)
class Moments:
    """Moments of a vector: the number of its entries, their sum, and the sum of their squares."""

    count: int
    total: float
    squares: float

    @classmethod
    def of(cls, x: Array) -> Moments:
        """Count and add up the entries of an array."""
        return cls(x.size, float(x.sum()), float(np.sum(x * x)))

    @property
    def place(self) -> Array:
        """(√N·mean, ‖x − mean‖): the place of x in the plane of the constant vector and its own remainder."""
        along = self.total / math.sqrt(self.count)
        return np.array([along, math.sqrt(max(self.squares - along**2, 0.0))])


class HiddenCells(Protocol):
    """The unobserved cells of a low-rank matrix, in the columns of one penalty."""

    def total(self, cell_map: CellMap) -> float:
        """Σ of a map over the cells."""

    def envelope(self, penalty: DiscretePenalty, step: float) -> float:
        """Σ of the envelope of a penalty over the cells, which may be an estimate from a sample."""

    def moments(self) -> Moments:
        """Number, sum and sum of squares of the cells."""


@dataclass(frozen=True)
class EntryFunction:
    """A function of a user's penalty that acts entry by entry, which is checked whenever it is called.

    Parameters
    ----------
    owner, name : str
        Names of the penalty and of the function, for errors.
    function : callable
        Returns an array of the shape that it is given; called from several threads.
    factor : float
        Multiplies the result.
    """

    owner: str
    name: str
    function: Callable[[Array], ArrayLike]
    factor: float = 1.0

    def __call__(self, x: Array) -> Array:
        """Apply the function to a flat array."""
        out = np.asarray(self.function(x))
        if out.shape != x.shape:
            raise ValueError(
                f"{self.owner}.{self.name} must return one number for each entry, and {x.size} entries gave the "
                f"shape {out.shape}: derive a penalty of all entries together from JointPenalty"
            )
        return out if self.factor == 1.0 else self.factor * out


class DiscretePenalty(ABC):
    """Cost of unobserved entries that lie off an alphabet, ξ included; by default a sum over entries.

    A subclass needs `value` and `prox` only, as functions of numpy arrays. Everything that a solver asks follows
    from the two. `CellPenalty` brings compiled maps instead, which are faster.
    `JointPenalty` is no sum over entries.

    Attributes
    ----------
    separable : bool
        True if the penalty is a sum over entries.
    convex : bool
        True if the penalty is convex; not assumed.
    exact : bool
        True if `prox` is the prox of `value`, so that the recursion minimises objective (E).
    xi : float
        Strength; 0 leaves the penalty out.
    alphabet : Alphabet, optional
        Where entries are expected: a line is fitted to the prox there, which helps samples and folding in.

    Examples
    --------
    >>> class Pull(DiscretePenalty):
    ...     convex = True
    ...
    ...     def value(self, x):
    ...         return 0.5 * np.square(x)
    ...
    ...     def prox(self, x, step=1.0):
    ...         return np.asarray(x) / (1 + step)
    >>> Pull().envelope([0.0, 2.0])
    array([0., 1.])
    """

    name: ClassVar[str] = "own"
    separable: bool = True
    convex: bool = False
    exact: bool = True
    xi: float = 1.0
    alphabet: Alphabet | None = None

    @abstractmethod
    def value(self, x: ArrayLike) -> Array:
        """Penalty of every entry, ξ included."""

    @abstractmethod
    def prox(self, x: ArrayLike, step: float = 1.0) -> Array:
        """Minimiser over u of ``step·penalty(u) + ½‖u − x‖²``."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(xi={self.xi:g})"

    def envelope(self, x: ArrayLike, step: float = 1.0) -> Array:
        """Minimum over u of ``step·penalty(u) + ½‖u − x‖²``."""
        return self._apply("envelope", x, step)

    def _apply(self, kind: Kind, x: ArrayLike, step: float) -> Array:
        out = np.array(x, dtype=np.float64, order="C")
        self.compiled(kind, check_step(step))(out.reshape(-1))
        return out

    # ---------------------------------------------------------------- the term of a matrix
    def check(self) -> None:
        """Refuse a penalty whose functions do not act entry by entry."""
        for kind in ("value", "prox"):
            self._apply(kind, [-1.0, 0.0, 2.0], 1.0)

    def groups(self, columns: int) -> list[Group]:
        """Split a table of so many columns into groups with one penalty each."""
        return [Group(self, np.arange(columns))]

    def total(self, cells: HiddenCells, kind: Total, step: float) -> float:
        """Σ of ``step·penalty`` over cells, of its envelope, or of its value at the prox."""
        return cells.envelope(self, step) if kind == "envelope" else cells.total(self.compiled(kind, step))

    def split(self, cells: HiddenCells, step: float) -> Split:
        """Split the prox of the cells into a line and a map of single cells."""
        return Split(self.line(step), self.compiled_remainder(step))

    def curvature(self, step: float = 1.0) -> float:
        """Curvature that the penalty adds at a cell, on average, from 0 to 1: 1 less the slope of the prox."""
        return min(max(1 - self.line(step).slope, 0.0), 1.0)

    @property
    def least(self) -> float:
        """Least value that an entry can cost, ξ included."""
        raise TypeError(f"{type(self).__name__} lacks the property `least`, the least that an entry can cost: add it")

    def least_total(self, count: int) -> float:
        """Least value that so many entries can cost."""
        return count * self.least

    # ---------------------------------------------------------------- maps of cells
    def line(self, step: float) -> Line:
        """Line that is split off the prox; see `compiled_remainder`."""
        return Line(0.0, 0.0) if self.alphabet is None else fitted_line(self, self.alphabet, step)

    def compiled_value(self, step: float) -> CellMap:
        """Return the in-place map x ← step·penalty(x)."""
        return CellMap.of(EntryFunction(type(self).__name__, "value", self.value, step))

    def compiled_prox(self, step: float) -> CellMap:
        """Return the in-place map x ← argmin_u step·penalty(u) + ½ (u − x)²."""
        return CellMap.of(EntryFunction(type(self).__name__, "prox", partial(self.prox, step=step)))

    def compiled_remainder(self, step: float) -> CellMap | None:
        """Return the in-place map x ← prox(x) − line(x); None if nothing remains.

        The line of a low-rank matrix is of low rank, so that only the remainder,
        which is small, has to be computed cell by cell: it may be in lower
        precision, or on a sample of the cells.
        """
        prox, line = CellMap.of(self.compiled_prox(step)), self.line(step)
        return prox if line == (0.0, 0.0) else CellMap("remainder", (prox, *line))

    def compiled_envelope(self, step: float) -> CellMap:
        """Return the in-place map x ← min_u step·penalty(u) + ½ (u − x)²."""
        return CellMap("envelope", self._prox_and_value(step))

    def compiled_landing(self, step: float) -> CellMap:
        """Return the in-place map x ← step·penalty(prox(x))."""
        return CellMap("landing", self._prox_and_value(step))

    def _prox_and_value(self, step: float) -> tuple[CellMap, CellMap]:
        return CellMap.of(self.compiled_prox(step)), CellMap.of(self.compiled_value(step))

    def compiled(self, kind: Kind, step: float = 1.0) -> CellMap:
        """Return the in-place map for ``kind``: the value, the prox, the envelope, or the value at the prox."""
        build = {
            "value": self.compiled_value,
            "prox": self.compiled_prox,
            "envelope": self.compiled_envelope,
            "landing": self.compiled_landing,
        }
        return CellMap.of(build[kind](step))


class CellPenalty(DiscretePenalty):
    """A penalty that is a sum over entries: a function of one real variable, known by its compiled forms.

    A subclass supplies the value and the prox as in-place maps of flat arrays;
    arrays of any shape and single numbers are served from them, as are the
    tiles of the big operators, so that there is one implementation of each
    formula. The envelope follows from the two.
    """

    @property
    @abstractmethod
    def least(self) -> float:
        """Least value that an entry can cost, ξ included."""

    @abstractmethod
    def compiled_value(self, step: float) -> CellMap:
        """Return the in-place map x ← step·penalty(x)."""

    @abstractmethod
    def compiled_prox(self, step: float) -> CellMap:
        """Return the in-place map x ← argmin_u step·penalty(u) + ½ (u − x)²."""

    def value(self, x: ArrayLike) -> Array:
        """Penalty of every entry, ξ included."""
        return self._apply("value", x, 1.0)

    def prox(self, x: ArrayLike, step: float = 1.0) -> Array:
        """Minimiser over u of ``step·penalty(u) + ½ (u − x)²``, entry by entry."""
        return self._apply("prox", x, step)

    def check(self) -> None:
        """Maps act entry by entry."""


class JointPenalty(DiscretePenalty):
    """A penalty of all unobserved entries together, which is no sum over them; `L2` is one.

    A subclass supplies `total` and `split` from what it may ask of the cells (`HiddenCells`): sums of maps, and
    moments. Both of this example follow from the sum of squares.

    Examples
    --------
    >>> class HalfSquares(JointPenalty):
    ...     convex = True
    ...
    ...     def value(self, x):
    ...         return 0.5 * np.sum(np.square(x))
    ...
    ...     def prox(self, x, step=1.0):
    ...         return np.asarray(x) / (1 + step)
    ...
    ...     def envelope(self, x, step=1.0):
    ...         return step / (1 + step) * self.value(x)
    ...
    ...     def total(self, cells, kind, step):
    ...         shares = {"value": step, "envelope": step / (1 + step), "landing": step / (1 + step) ** 2}
    ...         return 0.5 * shares[kind] * cells.moments().squares
    ...
    ...     def split(self, cells, step):
    ...         return Split(Line(1 / (1 + step), 0.0), None)
    ...
    ...     def least_total(self, count):
    ...         return 0.0
    >>> HalfSquares().envelope([0.0, 2.0])
    np.float64(1.0)
    """

    separable = False

    @abstractmethod
    def envelope(self, x: ArrayLike, step: float = 1.0) -> Array:
        """Minimum over u of ``step·penalty(u) + ½‖u − x‖²``, one number for the whole array."""

    @abstractmethod
    def total(self, cells: HiddenCells, kind: Total, step: float) -> float:
        """``step·penalty`` of the cells, its envelope, or its value at the prox."""

    @abstractmethod
    def split(self, cells: HiddenCells, step: float) -> Split:
        """Split the prox of the cells into a line and a map of single cells."""

    @abstractmethod
    def least_total(self, count: int) -> float:
        """Least value that so many entries can cost."""

    def check(self) -> None:
        """Nothing has to act entry by entry."""

    def curvature(self, step: float = 1.0) -> float:
        """0: the curvature is shared by all entries, and tiny at each."""
        return 0.0

    def compiled_remainder(self, step: float) -> None:
        """Return None: no cell is computed on its own."""
        return


def fitted_line(penalty: DiscretePenalty, alphabet: Alphabet, step: float) -> Line:
    """The line of least squares to the prox, from half a gap below the alphabet to half a gap above."""
    symbols = alphabet.symbols
    margin = 0.5 * float(np.diff(symbols).mean()) if symbols.size > 1 else 1.0
    y = np.linspace(symbols[0] - margin, symbols[-1] + margin, LINE_POINTS)
    u, middle = penalty.prox(y, step), float(y.mean())
    slope = float((y - middle) @ u / ((y - middle) @ (y - middle)))
    return Line(slope, float(u.mean()) - slope * middle)


def check_step(step: float) -> float:
    """A finite step above 0."""
    if not 0 < step < np.inf:
        raise ArgumentError.must("step", step, "be a finite number above 0")
    return float(step)
