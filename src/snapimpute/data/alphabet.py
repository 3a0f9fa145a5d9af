"""Finite alphabets A = {a_1 < ... < a_K}: the values that cells can have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.errors import ArgumentError, Setting, Value
from snapimpute.base.files import stored

MAX_SYMBOLS = 10_000
_SHOWN = 20  # longer alphabets are abbreviated in messages
_HELP = (
    'give a list of numbers, a range such as "1:5" or "0.5:5:0.5", a list such as "-1,1", '
    'or labels from lowest to highest such as ["low", "mid", "high"]'
)


@stored("alphabet", "symbols", "labels")
@dataclass(frozen=True, eq=False)
class Alphabet:
    """A sorted set of distinct finite numbers, with any spacing; the numbers may stand for labels.

    Build one with :meth:`of`, which also takes the short forms that every
    function with an ``alphabet`` argument takes.

    Parameters
    ----------
    symbols : array of float
        At least one symbol; sorted on construction, duplicates refused.
    labels : tuple of str, optional
        Names of the symbols, from lowest to highest; the symbols are then 0, 1, 2, ….

    Examples
    --------
    >>> Alphabet.of("1:5")
    Alphabet([1, 2, 3, 4, 5])
    >>> Alphabet.of("0.5:2:0.5").snap([0.2, 0.75, 9.0])
    array([0.5, 1. , 2. ])
    >>> Alphabet.of(["no", "yes"]).decode([1.0, 0.0])
    array(['yes', 'no'], dtype=object)
    """

    symbols: NDArray[np.float64]
    labels: tuple[str, ...] | None = None

    ordered: ClassVar[bool] = True
    """Whether the symbols have an order; categories have none."""

    def __post_init__(self) -> None:
        symbols = _as_floats(self.symbols)
        if symbols.ndim != 1 or symbols.size == 0:
            told = f"an alphabet needs a flat list of symbols, got shape {symbols.shape}: {_HELP}"
            raise ArgumentError("alphabet", self.symbols, told)
        if symbols.size > MAX_SYMBOLS:
            told = f"an alphabet of {symbols.size} symbols is not one: at most {MAX_SYMBOLS}"
            raise ArgumentError("alphabet", self.symbols, told)
        bad = ~np.isfinite(symbols)
        if bad.any():
            told = f"alphabet symbols must be finite, got {symbols[bad][0]}: {_HELP}"
            raise ArgumentError("alphabet", self.symbols, told)
        symbols = np.sort(symbols) + 0.0  # -0.0 becomes 0.0: equal alphabets need equal bytes to hash alike
        same = np.flatnonzero(np.diff(symbols) <= 1e-12 * np.abs(symbols).max())
        if same.size:
            low, high = symbols[same[0] : same[0] + 2].tolist()
            told = f"alphabet symbols must differ by more than rounding error, got {low} and {high}"
            raise ArgumentError("alphabet", self.symbols, told)
        symbols.flags.writeable = False
        object.__setattr__(self, "symbols", symbols)
        if self.labels is not None:
            self._check_labels(symbols)

    def _check_labels(self, symbols: NDArray[np.float64]) -> None:
        labels = tuple(map(str, self.labels or ()))
        if len(set(labels)) < len(labels):
            again = next(label for label in labels if labels.count(label) > 1)
            raise ArgumentError("alphabet", labels, f"the labels of an alphabet must differ, got {again!r} twice")
        if not np.array_equal(symbols, np.arange(len(labels))):
            told = f"{len(labels)} labels stand for 0, 1, …, {len(labels) - 1}, got symbols {symbols}"
            raise ArgumentError("alphabet", labels, told)
        object.__setattr__(self, "labels", labels)

    @classmethod
    def of(cls, spec: AlphabetLike) -> Alphabet:
        """Read an alphabet from a list, ``"1:5"``, ``"0.5:5:0.5"``, ``"-1,1"``, ordered labels or an `Alphabet`."""
        if isinstance(spec, Alphabet):
            return spec
        if isinstance(spec, str):
            return cls(_parse(spec))
        labels = np.asarray(spec, dtype=object)  # 0-d for what has no order: a set, a dict
        if labels.ndim == 1 and labels.size and all(isinstance(label, str) for label in labels):
            return cls(np.arange(float(labels.size)), tuple(labels))
        return cls(_as_floats(spec))

    def __len__(self) -> int:
        return int(self.symbols.size)

    def __iter__(self) -> Iterator[float]:
        return iter(self.symbols.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Alphabet) or self.labels != other.labels or self.ordered != other.ordered:
            return False
        return np.array_equal(self.symbols, other.symbols)

    def __hash__(self) -> int:
        return hash(self.symbols.tobytes())

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{self}])"

    def __str__(self) -> str:
        names = self.names()
        if len(names) > _SHOWN:
            names[3:-1] = ["..."]
        return ", ".join(names)

    def names(self) -> list[str]:
        """Return the symbols as text: a number, or a label in quotes."""
        return [f"{a:.15g}" for a in self] if self.labels is None else [repr(label) for label in self.labels]

    def decode(self, symbols: ArrayLike) -> NDArray[Any]:
        """Return the labels of symbols, or the symbols if there are none; NaN stays, as None among labels."""
        values = np.asarray(symbols, dtype=np.float64)
        if self.labels is None:
            return values
        known = np.array([*self.labels, None], dtype=object)
        return known[np.where(np.isnan(values), len(self.labels), values).astype(np.intp)]

    def encode(self, values: NDArray[Any], place: Callable[[int], str] | None = None) -> NDArray[np.float64]:
        """Return the symbols that labels stand for; NaN where a value is missing.

        Parameters
        ----------
        values : array of objects
        place : callable, optional
            Takes the position of a value, and returns its name for a message.

        Raises
        ------
        ValueError
            If a value is no label. The message names the first one and counts all.
        """
        codes: dict[Any, float] = {label: float(code) for code, label in enumerate(self.labels or ())}
        known = (
            codes.get(one, -1.0) if isinstance(one, str) else np.nan if is_missing(one) else -1.0
            for one in values.flat
        )
        out = np.fromiter(known, dtype=np.float64, count=values.size)
        strange = np.flatnonzero(out < 0)
        if strange.size:
            where = f" at {place(int(strange[0]))}" if place is not None else ""
            first = values.flat[strange[0]]
            raise ArgumentError(
                "values",
                first,
                f"{strange.size} value(s) not in ",
                Value("alphabet", self),
                f", the first is {first!r}{where}: correct the data or the alphabet, or name a code for missing, "
                "such as ",
                Setting("missing", [first]),
            )
        return out.reshape(values.shape)

    @cached_property
    def spacing(self) -> float | None:
        """The distance between neighbours if it is the same everywhere, else None."""
        gaps = np.diff(self.symbols)
        if gaps.size == 0:
            return None
        equal = np.ptp(gaps) <= 1e-12 * np.abs(self.symbols).max()
        return float(gaps.mean()) if equal else None

    @property
    def is_integer(self) -> bool:
        """True if every symbol is a whole number."""
        return bool(np.all(self.symbols == np.round(self.symbols)))

    def indices(self, x: ArrayLike, offset: ArrayLike = 0.0) -> NDArray[np.intp]:
        """Return the position of the symbol nearest to ``x + offset``; a tie goes to the larger symbol."""
        values = np.asarray(x, dtype=np.float64) + np.asarray(offset, dtype=np.float64)
        lost = int(np.isnan(values).sum())
        if lost:
            raise ArgumentError("x", np.nan, f"cannot snap {lost} NaN value(s) to ", Value("alphabet", self))
        return self._nearest(values)

    def _nearest(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        midpoints = (self.symbols[1:] + self.symbols[:-1]) / 2
        return np.searchsorted(midpoints, values, side="right")

    def snap(self, x: ArrayLike, offset: ArrayLike = 0.0) -> NDArray[np.float64]:
        """Replace every value by the nearest symbol to ``x + offset``; a tie goes to the larger symbol.

        Parameters
        ----------
        x : array_like
        offset : array_like, optional
            The mean, or biases, subtracted from the data before ``x`` was
            estimated: ``x`` lives on the alphabet ``A - offset``.

        Raises
        ------
        ValueError
            If a value is NaN: it has no nearest symbol.
        """
        return self.symbols[self.indices(x, offset)]

    def contains(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Tell which values are symbols, up to rounding error: float32 stores 0.1 as 0.100000001."""
        values = np.asarray(x, dtype=np.float64)
        gap = np.diff(self.symbols).min(initial=np.inf)
        tolerance = min(1e-6 * float(np.abs(self.symbols).max()), 1e-3 * float(gap))
        distance: NDArray[np.float64] = np.abs(values - self.symbols[self._nearest(values)])
        return distance <= tolerance  # never true of NaN

    def shifted(self, offset: float) -> Alphabet:
        """Return the alphabet ``A - offset`` seen by data from which ``offset`` was subtracted."""
        return Alphabet(self.symbols - float(offset))

    def frequencies(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the share of each symbol among ``values``; the shares sum to one.

        Examples
        --------
        >>> Alphabet.of("0,1,2").frequencies([0, 2, 2, 2])
        array([0.25, 0. , 0.75])
        """
        flat = np.asarray(values, dtype=np.float64).ravel()
        if flat.size == 0:
            raise ValueError("symbol frequencies need at least one value")
        inside = self.contains(flat)
        if not inside.all():
            first = float(flat[~inside][0])
            count = f"{int((~inside).sum())} of {flat.size} values are not in "
            raise ArgumentError("values", first, count, Value("alphabet", self), f", the first is {first:.15g}")
        return np.bincount(self.indices(flat), minlength=len(self)) / flat.size


@stored("nominal alphabet", "symbols", "labels")
class Nominal(Alphabet):
    """Categories without order, as the alphabet of a table or of a column: colours, parties, languages.

    ``method="posterior"`` and ``"mosaic"`` fit them. Probabilities come in the order of the categories.

    Parameters
    ----------
    symbols : list of str, list of numbers, or Alphabet
        Names, in any order; or numbers that serve as codes, which are sorted.
    labels : tuple of str, optional
        Names of the codes, where the symbols are 0, 1, 2, ….

    Examples
    --------
    >>> Nominal(["red", "green", "blue"])
    Nominal(['red', 'green', 'blue'])
    >>> Nominal(["red", "green", "blue"]) == Alphabet.of(["red", "green", "blue"])
    False
    >>> from snapimpute import SnapImputer
    >>> X = [["red", 1, 5], ["blue", 5, None], [None, 1, 5], ["red", 2, 4], ["blue", 5, 1], ["green", 3, 3]]
    >>> imputer = SnapImputer({0: Nominal(["red", "green", "blue"]), 1: "1:5", 2: "1:5"}, method="posterior")
    >>> imputer.fit(X).predict_proba(2, 0).shape
    (3,)
    """

    ordered: ClassVar[bool] = False

    def __init__(self, symbols: AlphabetLike, labels: tuple[str, ...] | None = None) -> None:
        given = Alphabet.of(symbols)
        super().__init__(given.symbols, given.labels if labels is None else labels)

    @classmethod
    def of(cls, spec: AlphabetLike) -> Alphabet:
        """Read categories from all that `Alphabet.of` reads."""
        return spec if isinstance(spec, cls) else cls(spec)


AlphabetLike = Alphabet | str | Sequence[float] | Sequence[str] | NDArray[np.float64]


def need_order(*alphabets: Alphabet | None) -> None:
    """Refuse categories without order where symbols count as numbers."""
    for one in alphabets:
        if one is not None and not one.ordered:
            raise ArgumentError(
                "alphabet",
                one,
                Value("alphabet", one),
                " has no order, which the proximal method cannot do without: choose ",
                Setting("method", "posterior"),
                ", or give the categories from lowest to highest, as an ordered alphabet",
            )


def is_missing(value: object) -> bool:
    """Return True for None, NaN, NaT and pandas' NA, which has no truth value."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)  # noqa: PLR0124


def _as_floats(spec: ArrayLike) -> NDArray[np.float64]:
    try:
        given = np.asarray(spec)
        if given.dtype.kind in "cmM":  # numpy would drop the imaginary part, or count days
            raise TypeError
        return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError("alphabet", spec, f"cannot read an alphabet from {spec!r}: {_HELP}") from None


def _parse(spec: str) -> NDArray[np.float64]:
    """Read ``"a:b"``, ``"a:b:step"`` or ``"a,b,c"``; exact decimal arithmetic, so 0.1 steps do not drift."""
    try:
        if ":" in spec:
            parts = [Fraction(repr(float(p))) for p in spec.split(":")]
            if len(parts) not in (2, 3):
                raise ValueError
            first, last = parts[0], parts[1]
            step = parts[2] if len(parts) == 3 else Fraction(1)
        else:
            return np.array([float(p) for p in spec.split(",")])
    except (ValueError, ZeroDivisionError):
        raise ArgumentError("alphabet", spec, f"cannot read an alphabet from {spec!r}: {_HELP}") from None
    if step <= 0 or last < first:
        raise ValueError(f"alphabet range {spec!r} must rise: first:last or first:last:step with step > 0")
    count = math.floor((last - first) / step) + 1
    if first + (count - 1) * step != last:
        raise ValueError(
            f"alphabet range {spec!r} does not reach its end {spec.split(':')[1].strip()} in whole steps"
        )
    if count > MAX_SYMBOLS:
        raise ValueError(f"alphabet range {spec!r} has {count} symbols, at most {MAX_SYMBOLS} are allowed")
    return np.array([float(first + k * step) for k in range(count)])
