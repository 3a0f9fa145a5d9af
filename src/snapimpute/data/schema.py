"""Content of each column: the alphabet of all, one of its own, any number, or nothing of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError, Setting
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, AlphabetLike, Nominal

MOST_LEVELS = 20
"""A column with more different values than that is not taken for discrete by "infer"."""

SPREADS = 4.0
"""Number of standard deviations of a continuous column that count as much as the whole range of an alphabet."""


@dataclass(frozen=True, eq=False)
class Levels:
    """The different values of a column, how many cells have them, and whether the order of text is meant.

    ``nominal`` is True if the column itself says that its categories have no order.
    """

    values: NDArray[Any]
    count: int
    ordered: bool = False
    nominal: bool = False

    @property
    def few(self) -> bool:
        """True if they can be symbols: not many, and whole numbers, text, or numbers that come again."""
        size, text = self.values.size, self.values.dtype.kind in "OU"
        again = text or size <= self.count / 2 or bool(np.all(self.values == np.round(self.values)))
        return bool(0 < size <= MOST_LEVELS and again)

    @property
    def apart(self) -> bool:
        """Tell whether numbers differ by more than rounding error."""
        if self.values.dtype.kind in "OU" or not self.values.size:
            return True
        return bool(np.diff(self.values).min(initial=np.inf) > 1e-11 * np.abs(self.values).max())


class Group(NamedTuple):
    """Columns that share an alphabet, or hold any number (None)."""

    alphabet: Alphabet | None
    cols: NDArray[np.intp]


@stored("column schema", "kinds", "which")
@dataclass(frozen=True, eq=False)
class ColumnSchema:
    """Content of each column of a table: what its cells can hold.

    Parameters
    ----------
    kinds : tuple of Alphabet or None
        What there is, all different; None stands for any number.
    which : array of int
        For each column the position of its kind; -1 for one that is left alone.

    Examples
    --------
    >>> book = ColumnSchema.of({"a": "1:5", "c": None}, 3, ["a", "b", "c"], default="0,1")
    >>> book.kinds, book.which
    ((Alphabet([1, 2, 3, 4, 5]), Alphabet([0, 1]), None), array([0, 1, 2]))
    """

    kinds: tuple[Alphabet | None, ...]
    which: NDArray[np.intp]

    @classmethod
    def single(cls, alphabet: Alphabet, columns: int) -> ColumnSchema:
        """One alphabet for all columns."""
        return cls((alphabet,), np.zeros(columns, dtype=np.intp))

    @classmethod
    def read(cls, alphabet: AlphabetLike | ColumnSchema, columns: int) -> ColumnSchema:
        """Return a schema as it is, or one alphabet for all of so many columns."""
        return alphabet if isinstance(alphabet, ColumnSchema) else cls.single(Alphabet.of(alphabet), columns)

    @classmethod
    def of(
        cls,
        spec: Any,
        columns: int,
        names: Sequence[Any] | None = None,
        *,
        levels: Callable[[int], Levels] | None = None,
        leave: bool = False,
        default: AlphabetLike | None = None,
    ) -> ColumnSchema:
        """Read what a user gave.

        Parameters
        ----------
        spec : alphabet, "infer", or a dict or list of such
            One for all columns; one for each column, in a list; or a dict by
            name or position, where columns that are not named have ``default``.
            None within a dict or list is a column of any numbers. A list of
            text only is labels, also ``["1:5", "0,1"]``.
        columns : int
        names : sequence, optional
            Of the columns.
        levels : callable, optional
            Gives the different values of a column, for "infer".
        leave : bool
            Whether columns of any numbers are left alone.
        """
        if isinstance(spec, Mapping):
            kinds = [default] * columns
            places = {key: _position(key, columns, names) for key in spec}
            for key, place in places.items():
                if (again := next(other for other in places if places[other] == place)) != key:
                    raise ValueError(f"alphabet names one column twice, as {again!r} and as {key!r}")
                kinds[place] = spec[key]
        elif _is_list_of_alphabets(spec):
            if len(spec) != columns:
                raise ValueError(f"alphabet has {len(spec)} entries, one for each column, but there are {columns}")
            kinds = list(spec)
        elif isinstance(spec, str) and spec == "infer":
            return cls._joined(_inferred(range(columns), levels, together=True), leave)
        else:
            return cls.single(Alphabet.of(spec), columns)
        unknown = [j for j, one in enumerate(kinds) if isinstance(one, str) and one == "infer"]
        found = dict(zip(unknown, _inferred(unknown, levels, together=False), strict=True)) if unknown else {}
        read = [found[j] if j in found else None if one is None else Alphabet.of(one) for j, one in enumerate(kinds)]
        return cls._joined(read, leave)

    @classmethod
    def _joined(cls, read: Sequence[Alphabet | None], leave: bool) -> ColumnSchema:
        different = [one for one in dict.fromkeys(read) if one is not None or not leave]
        which = [different.index(one) if one is not None or not leave else -1 for one in read]
        if not different:
            raise ValueError("no column is discrete, and columns that are not were to be left alone: nothing to do")
        return cls(tuple(different), np.array(which, dtype=np.intp))

    @cached_property
    def one(self) -> Alphabet | None:
        """The alphabet, if all columns have the same; else None."""
        return self.kinds[0] if len(self.kinds) == 1 and (self.which == 0).all() else None

    @property
    def by_column(self) -> Alphabet | list[Alphabet | None]:
        """The alphabet, or one for each column: None where it is any number, or left alone."""
        if self.one is not None:
            return self.one
        return [None if kind < 0 else self.kinds[kind] for kind in self.which.tolist()]

    def __getitem__(self, col: int) -> Alphabet | None:
        kind = int(self.which[col])
        return None if kind < 0 else self.kinds[kind]

    @cached_property
    def coded(self) -> NDArray[np.intp]:
        """The columns that are not left alone."""
        return np.flatnonzero(self.which >= 0)

    @cached_property
    def discrete(self) -> NDArray[np.bool_]:
        """True if each column has an alphabet."""
        kinds = np.array([kind is not None for kind in self.kinds] + [False])
        return kinds[self.which]

    @cached_property
    def nominal(self) -> NDArray[np.bool_]:
        """True if a column holds categories without order."""
        kinds = np.array([kind is not None and not kind.ordered for kind in self.kinds] + [False])
        return kinds[self.which]

    @cached_property
    def labelled(self) -> NDArray[np.intp]:
        """The columns whose symbols stand for labels."""
        kinds = np.array([kind is not None and kind.labels is not None for kind in self.kinds] + [False])
        return np.flatnonzero(kinds[self.which])

    def taken(self, cols: NDArray[np.intp]) -> ColumnSchema:
        """Return some columns, with the kinds that they have."""
        kinds = [kind for kind in np.unique(self.which[cols]).tolist() if kind >= 0]
        place = np.full(len(self.kinds) + 1, -1, dtype=np.intp)
        place[kinds] = np.arange(len(kinds))
        return ColumnSchema(tuple(self.kinds[kind] for kind in kinds), place[self.which[cols]])

    def widened(self, more: int) -> ColumnSchema:
        """Add columns of the first kind."""
        return ColumnSchema(self.kinds, np.append(self.which, np.zeros(more, dtype=np.intp)))

    @cached_property
    def groups(self) -> list[Group]:
        """The columns of each kind."""
        return [Group(kind, np.flatnonzero(self.which == i)) for i, kind in enumerate(self.kinds)]

    def inside(self, kind: int, cols: NDArray[Any]) -> slice | NDArray[np.intp]:
        """Select the cells, given by their columns, that are in columns of a kind."""
        return slice(None) if self.one is not None else np.flatnonzero(self.which[cols] == kind)

    def snapped(self, cols: NDArray[Any], values: Array) -> Array:
        """Values of cells in these columns exactly on the symbols; those of columns of any numbers as they are."""
        out = np.array(values)
        for kind, alphabet in enumerate(self.kinds):
            if alphabet is not None:
                inside = self.inside(kind, cols)
                out[inside] = alphabet.snap(out[inside])
        return out

    def scale(self, cols: NDArray[Any], values: Array) -> Array:
        """Size of one unit of each column, such that all columns count alike; 1 where they have one alphabet.

        The range of an alphabet, or four standard deviations of the values.
        """
        out = np.ones(self.which.size)
        if self.one is not None:
            return out
        for alphabet, some in self.groups:
            if alphabet is not None:
                out[some] = max(float(np.ptp(alphabet.symbols)), 1.0 if len(alphabet) == 1 else 0.0)
                continue
            counts = np.maximum(np.bincount(cols, minlength=out.size), 1)
            mean = np.bincount(cols, values, out.size) / counts
            spread = np.sqrt(np.bincount(cols, (values - mean[cols]) ** 2, out.size) / counts)
            size = np.maximum(np.abs(mean), 1.0)
            out[some] = np.where(spread > 1e-9 * size, SPREADS * spread, size)[some]
        return out

    def scaled(self, scale: Array) -> ColumnSchema:
        """The same columns in other units: columns of one kind and another scale become another kind."""
        if self.one is not None and (scale == 1).all():
            return self
        made: dict[Alphabet | None, int] = {}
        which = np.full(self.which.size, -1)
        for col in self.coded.tolist():
            alphabet = self[col]
            kind = None if alphabet is None else Alphabet(alphabet.symbols / scale[col])
            which[col] = made.setdefault(kind, len(made))
        return ColumnSchema(tuple(made), which)

    def refuse_labels(self) -> None:
        """Raise the error for labels where a table has numbers."""
        col = int(self.labelled[0])
        raise ValueError(
            f"column {col} holds numbers, but {self[col]!r} has labels: give the numbers as alphabet, or the labels"
        )

    def describe(self) -> str:
        """One line: which columns hold what."""
        parts = []
        for alphabet, cols in [*self.groups, Group(None, np.flatnonzero(self.which < 0))]:
            what = "any number" if alphabet is None else f"{alphabet}"
            what = "left alone" if cols.size and self.which[cols[0]] < 0 else what
            parts += [f"{cols.size} column{'s' * (cols.size != 1)}: {what}"] * (cols.size > 0)
        return "; ".join(parts)


def _is_list_of_alphabets(spec: Any) -> bool:
    """A list in which something stands that can be no symbol: a list, an alphabet, nothing, a range."""
    if isinstance(spec, str | Alphabet) or not isinstance(spec, Sequence):
        return False
    return any(one is None or isinstance(one, Alphabet | list | tuple | range | np.ndarray) for one in spec)


def _position(key: Any, columns: int, names: Sequence[Any] | None) -> int:
    if names is not None and key in list(names):
        return list(names).index(key)
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and -columns <= key < columns:
        return int(key) % columns
    known = f"; they are {', '.join(map(repr, list(names)[:MOST_LEVELS]))}" if names is not None else ""
    raise ArgumentError(
        "alphabet", key, f"alphabet names the column {key!r}, which is none of the {columns} columns{known}"
    )


def _inferred(
    cols: Sequence[int] | range, levels: Callable[[int], Levels] | None, *, together: bool
) -> list[Alphabet | None]:
    """The alphabet of each column by its values; if ``together``, one for all where that has few symbols."""
    if levels is None:
        raise ArgumentError("alphabet", "infer", Setting("alphabet", "infer"), " needs a table to look at")
    found = [levels(col) for col in cols]
    if together:
        union = _union([one for one in found if one.count])
        if union is not None and union.few and union.apart:
            return [_from_levels(union)] * len(found)
    return [_from_levels(one) if one.few and one.apart else None for one in found]


def _union(found: Sequence[Levels]) -> Levels | None:
    if not found or len({one.values.dtype.kind in "OU" for one in found}) > 1:
        return None
    first, count = found[0], sum(one.count for one in found)
    if all(one.ordered for one in found):
        same = all(np.array_equal(one.values, first.values) for one in found)
        return Levels(first.values, count, ordered=True) if same else None
    values = np.unique(np.concatenate([one.values for one in found]))
    if values.size > 2 and any(one.nominal for one in found):
        same = all(one.nominal and np.array_equal(one.values, first.values) for one in found)
        return Levels(first.values, count, nominal=True) if same else None
    return Levels(values, count)


def _from_levels(levels: Levels) -> Alphabet:
    if levels.values.dtype.kind not in "OU":
        return Alphabet(levels.values.astype(np.float64))
    labels = [str(one) for one in levels.values]
    if len(labels) <= 2 and levels.nominal:
        return Alphabet.of(sorted(labels))
    if levels.nominal:
        return Nominal(labels)
    if len(labels) > 2 and not levels.ordered:
        raise ArgumentError(
            "alphabet",
            "infer",
            f"found the labels {', '.join(map(repr, labels))}, but not their order: "
            "give them from lowest to highest, such as ",
            Setting("alphabet", labels),
            ", or as an ordered categorical; or say that there is none, by Nominal(...)",
        )
    return Alphabet.of(labels)
