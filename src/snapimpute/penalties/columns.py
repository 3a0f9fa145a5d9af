"""Tables whose columns have different alphabets, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.penalties.base import DiscretePenalty, Group


@stored("penalty by-column", "penalties", "which")
class ByColumn(DiscretePenalty):
    """A penalty of its own for each column: alphabets that differ, or columns that are not discrete.

    Parameters
    ----------
    penalties : sequence of DiscretePenalty or None
        The different penalties; None is for columns that are not discrete.
    which : array_like of int
        For each column of the table the position of its penalty.

    Examples
    --------
    >>> from snapimpute import L1
    >>> penalty = ByColumn([L1("0,1", xi=0.1), None], which=[0, 0, 1])
    >>> penalty.prox([[0.5, 1.3, 7.7]])
    array([[0.5, 1.1, 7.7]])
    """

    name = "by-column"

    def __init__(self, penalties: Sequence[DiscretePenalty | None], which: ArrayLike) -> None:
        self.penalties = tuple(penalties)
        self.which = np.array(which)
        for penalty in self.penalties:
            if penalty is not None and (not isinstance(penalty, DiscretePenalty) or isinstance(penalty, ByColumn)):
                raise TypeError(f"each column has a DiscretePenalty of its own or None, got {penalty!r}")
        used = self.which
        if used.ndim != 1 or used.dtype.kind not in "iu" or not used.size:
            raise ArgumentError.must("which", which, "be a flat list of integers, one for each column")
        if used.min() < 0 or used.max() >= len(self.penalties):
            raise ValueError(
                f"which must lie in 0..{len(self.penalties) - 1}, the positions of the penalties, "
                f"got {used.min()} to {used.max()}"
            )

    @classmethod
    def of(cls, build: Callable[[Alphabet], DiscretePenalty], alphabets: Sequence[AlphabetLike | None]) -> ByColumn:
        """Build from one alphabet for each column; equal ones share a penalty, None is a column without.

        Examples
        --------
        >>> from snapimpute import L1
        >>> ByColumn.of(lambda alphabet: L1(alphabet, xi=0.1), ["0,1", "0:2", "0,1", None])
        ByColumn(2 columns L1(Alphabet([0, 1]), xi=0.1), 1 column L1(Alphabet([0, 1, 2]), xi=0.1), 1 column None)
        """
        read = [None if one is None else Alphabet.of(one) for one in alphabets]
        different = list(dict.fromkeys(read))
        return cls([None if one is None else build(one) for one in different], [different.index(one) for one in read])

    def __repr__(self) -> str:
        parts = [f"{cols.size} column{'s' * (cols.size != 1)} {penalty!r}" for penalty, cols in self.groups()]
        return f"ByColumn({', '.join(parts)})"

    def groups(self, columns: int | None = None) -> list[Group]:
        """Each penalty that is used, with its columns; a table with another number of columns is refused."""
        if columns not in (None, self.which.size):
            raise ValueError(f"{self.which.size} columns have a penalty, but the table has {columns}")
        found = [Group(penalty, np.flatnonzero(self.which == i)) for i, penalty in enumerate(self.penalties)]
        return [group for group in found if group.cols.size]

    @property
    def _used(self) -> list[DiscretePenalty]:
        return [penalty for penalty, _ in self.groups() if penalty is not None]

    @property
    def separable(self) -> bool:  # type: ignore[override]
        """True if all are sums over entries."""
        return all(penalty.separable for penalty in self._used)

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """True if all are convex."""
        return all(penalty.convex for penalty in self._used)

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """True if all are exact."""
        return all(penalty.exact for penalty in self._used)

    @property
    def xi(self) -> float:  # type: ignore[override]
        """The largest of all."""
        return max((penalty.xi for penalty in self._used), default=0.0)

    def value(self, x: ArrayLike) -> Array:
        """Σ over the columns, one number for the whole table."""
        table = self._table(x)
        return np.asarray(sum(float(np.sum(p.value(table[:, cols]))) for p, cols in self.groups() if p is not None))

    def prox(self, x: ArrayLike, step: float = 1.0) -> Array:
        """Each column by its own penalty."""
        out = self._table(x).copy()
        for penalty, cols in self.groups():
            if penalty is not None:
                out[:, cols] = penalty.prox(out[:, cols], step)
        return out

    def envelope(self, x: ArrayLike, step: float = 1.0) -> Array:
        """Σ over the columns, one number for the whole table."""
        table = self._table(x)
        parts = (p.envelope(table[:, cols], step) for p, cols in self.groups() if p is not None)
        return np.asarray(sum(float(np.sum(part)) for part in parts))

    def _table(self, x: ArrayLike) -> Array:
        table = np.asarray(x, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.which.size:
            raise ValueError(f"expected a table with {self.which.size} columns, got shape {table.shape}")
        return table
