"""The finite alphabet A = {a_1 < ... < a_K} that the entries of a matrix come from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_SYMBOLS = 10_000
_HELP = 'give a list of numbers, a range such as "1:5" or "0.5:5:0.5", or a list such as "-1,1"'


@dataclass(frozen=True, eq=False)
class Alphabet:
    """A sorted set of distinct finite numbers, with any spacing.

    Build one with :meth:`of`, which also takes the short forms that every
    function with an ``alphabet`` argument takes.

    Parameters
    ----------
    symbols : array of float
        At least one symbol; sorted on construction, duplicates refused.

    Examples
    --------
    >>> Alphabet.of("1:5")
    Alphabet([1, 2, 3, 4, 5])
    >>> Alphabet.of("0.5:2:0.5").snap([0.2, 0.75, 9.0])
    array([0.5, 1. , 2. ])
    """

    symbols: NDArray[np.float64]

    def __post_init__(self) -> None:
        symbols = np.array(self.symbols, dtype=np.float64)
        if symbols.ndim != 1 or symbols.size == 0:
            raise ValueError(f"an alphabet needs a flat list of symbols, got shape {symbols.shape}: {_HELP}")
        if symbols.size > MAX_SYMBOLS:
            raise ValueError(f"an alphabet of {symbols.size} symbols is not one: at most {MAX_SYMBOLS}")
        bad = ~np.isfinite(symbols)
        if bad.any():
            raise ValueError(f"alphabet symbols must be finite, got {symbols[bad][0]}: {_HELP}")
        symbols = np.sort(symbols)
        same = np.flatnonzero(np.diff(symbols) == 0)
        if same.size:
            raise ValueError(f"alphabet symbols must differ, got {symbols[same[0]]:g} more than once")
        symbols.flags.writeable = False
        object.__setattr__(self, "symbols", symbols)

    @classmethod
    def of(cls, spec: AlphabetLike) -> Alphabet:
        """Read an alphabet from a list, ``"1:5"``, ``"0.5:5:0.5"``, ``"-1,1"`` or an `Alphabet`."""
        if isinstance(spec, Alphabet):
            return spec
        if isinstance(spec, str):
            return cls(_parse(spec))
        try:
            symbols = np.asarray(spec, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"cannot read an alphabet from {spec!r}: {_HELP}") from None
        return cls(symbols)

    def __len__(self) -> int:
        return int(self.symbols.size)

    def __iter__(self) -> Iterator[float]:
        return iter(self.symbols.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alphabet) and np.array_equal(self.symbols, other.symbols)

    def __hash__(self) -> int:
        return hash(self.symbols.tobytes())

    def __repr__(self) -> str:
        return f"Alphabet([{', '.join(f'{a:g}' for a in self)}])"

    @property
    def spacing(self) -> float | None:
        """The distance between neighbours if it is the same everywhere, else None."""
        gaps = np.diff(self.symbols)
        if gaps.size == 0:
            return None
        equal = np.ptp(gaps) <= 1e-12 * max(1.0, float(np.abs(self.symbols).max()))
        return float(gaps.mean()) if equal else None

    @property
    def is_integer(self) -> bool:
        """Whether every symbol is a whole number."""
        return bool(np.all(self.symbols == np.round(self.symbols)))

    def indices(self, x: ArrayLike, offset: ArrayLike = 0.0) -> NDArray[np.intp]:
        """Position of the symbol nearest to ``x + offset``; a tie goes to the larger symbol."""
        midpoints = (self.symbols[1:] + self.symbols[:-1]) / 2
        return np.searchsorted(midpoints, _shift(x, offset), side="right")

    def snap(self, x: ArrayLike, offset: ArrayLike = 0.0) -> NDArray[np.float64]:
        """Replace every value by the nearest symbol to ``x + offset``; a tie goes to the larger symbol.

        Parameters
        ----------
        x : array_like
        offset : array_like, optional
            What was subtracted from the data before ``x`` was estimated (the
            mean, or biases): the alphabet that ``x`` lives on is ``A - offset``.

        Raises
        ------
        ValueError
            If a value is NaN: there is no nearest symbol.
        """
        values = _shift(x, offset)
        if np.isnan(values).any():
            raise ValueError(f"cannot snap {int(np.isnan(values).sum())} NaN value(s) to {self!r}")
        return self.symbols[self.indices(values)]

    def contains(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Whether each value is a symbol, up to rounding error of the value."""
        values = np.asarray(x, dtype=np.float64)
        nearest = self.symbols[self.indices(np.where(np.isnan(values), 0.0, values))]
        return np.abs(values - nearest) <= 1e-9 * np.maximum(1.0, np.abs(nearest))

    def shifted(self, offset: float) -> Alphabet:
        """Return the alphabet ``A - offset`` seen by data from which ``offset`` was subtracted."""
        return Alphabet(self.symbols - float(offset))

    def frequencies(self, values: ArrayLike) -> NDArray[np.float64]:
        """Share of each symbol among ``values``; the shares sum to one.

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
            raise ValueError(
                f"{int((~inside).sum())} of {flat.size} values are not in {self!r}, the first is {flat[~inside][0]:g}"
            )
        return np.bincount(self.indices(flat), minlength=len(self)) / flat.size


AlphabetLike = Alphabet | str | Sequence[float] | NDArray[np.float64]


def _shift(x: ArrayLike, offset: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(x, dtype=np.float64) + np.asarray(offset, dtype=np.float64)


def _parse(spec: str) -> NDArray[np.float64]:
    """Read ``"a:b"``, ``"a:b:step"`` or ``"a,b,c"``; exact decimal arithmetic, so 0.1 steps do not drift."""
    try:
        if ":" in spec:
            parts = [Fraction(p.strip()) for p in spec.split(":")]
            if len(parts) not in (2, 3):
                raise ValueError
            first, last = parts[0], parts[1]
            step = parts[2] if len(parts) == 3 else Fraction(1)
        else:
            return np.array([float(p) for p in spec.split(",")])
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"cannot read an alphabet from {spec!r}: {_HELP}") from None
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
