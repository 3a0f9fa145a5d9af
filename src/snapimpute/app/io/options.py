"""Options for reading a file: what they leave open is detected and reported."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from snapimpute.data.alphabet import Alphabet

if TYPE_CHECKING:
    import polars as pl

Layout = Literal["auto", "wide", "triplets"]
LAYOUTS: tuple[str, ...] = ("auto", "wide", "triplets")
FORMATS = ("csv", "parquet", "arrow", "mtx", "npz", "excel")

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>")
"""Texts that mean missing in files, besides those that a user names."""

ANY = "any"
"""The alphabet of a column of any numbers, on the command line."""


@dataclass(frozen=True)
class Options:
    """Options for reading a file; None or "auto" is detected.

    ``triplets`` names the columns of row, column and value, or counts them from 1. ``index`` is the column of row
    labels, "none" for none; columns in ``leave`` are carried along as they are. ``missing`` holds further codes for
    missing cells. ``labels`` are what cells may hold besides numbers: a first line of labels is not taken for names.
    """

    format: str | None = None
    layout: Layout = "auto"
    triplets: tuple[str, str, str] | None = None
    index: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    encoding: str | None = None
    missing: Sequence[str] = ()
    leave: Sequence[str] = ()
    duplicates: Literal["error", "last"] = "error"
    sheet: str | None = None
    labels: Collection[str] = ()

    def codes(self, labels: Collection[str] = ()) -> list[str]:
        """All text that means missing; what is a label, such as None beside some and all, only if a user says so."""
        return [code for code in MISSING if code not in labels] + [code.strip() for code in self.missing]

    @property
    def numbers(self) -> list[float]:
        """The codes for missing that are numbers."""
        return [float(code) for code in self.missing if is_number(code)]


@dataclass(frozen=True)
class AlphabetSpec:
    """An alphabet for all columns, and others for some of them, as the command line gives them.

    Examples
    --------
    >>> AlphabetSpec.parse(["1:5", "sex=f,m", "age=any"])
    AlphabetSpec(default='1:5', own={'sex': ['f', 'm'], 'age': None})
    """

    default: Any
    own: dict[str, Any]
    given: bool = field(default=True, repr=False)
    """True if there is any."""

    @classmethod
    def parse(cls, given: Sequence[str]) -> AlphabetSpec:
        """Read ``1:5``, ``n,y``, ``infer`` or ``any``, each alone or as ``COLUMN=…``."""
        default, own, all_columns = None, {}, [one for one in given if "=" not in one]
        for one in all_columns[1:]:
            raise ValueError(
                f"two alphabets for all columns, {all_columns[0]!r} and {one!r}: name a column, such as q1={one}"
            )
        for one in all_columns:
            default = _alphabet(one)
        for one in given:
            name, equals, rest = one.rpartition("=")
            if equals and name in own:
                raise ValueError(f"two alphabets for the column {name!r}: give one of them")
            if equals:
                own[name] = _alphabet(rest)
        return cls(default if all_columns else "infer", own, bool(given))

    @property
    def labels(self) -> set[str]:
        """All labels of all alphabets."""
        return {label for one in (self.default, *self.own.values()) for label in labels_of(one)}

    def for_columns(self, names: Sequence[Any]) -> Any:
        """Alphabet of these columns, in the form that `SnapImputer` takes."""
        columns = [str(name) for name in names]
        known = set(columns)
        for name in self.own:
            if name not in known:
                raise ValueError(
                    f"--alphabet names the column {name!r}, which is not there; there are {_some(columns)}"
                )
        alike = all(one == self.default for one in self.own.values())
        if alike and self.default is not None:
            return self.default
        default = self._of(self.default)
        own = {name: self._of(one) for name, one in self.own.items()}
        return [own.get(name, default) for name in columns]

    def at(self, name: str) -> Any:
        """The alphabet of a column: text, labels, "infer", or None for any numbers."""
        return self.own.get(name, self.default)

    @staticmethod
    def _of(spec: Any) -> Any:
        return spec if spec is None or spec == "infer" else Alphabet.of(spec)


def known_column(frame: pl.DataFrame, name: str, option: str, where: str) -> str:
    """Return the name of a column that an option names; one that is not there is an error."""
    if name in frame.columns:
        return name
    known = _some(frame.columns)
    raise ValueError(f"{where} has no column {name!r}, which {option} names; its columns are {known}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + " …" * (len(names) > 20)


def labels_of(alphabet: Any) -> list[str]:
    """The labels of an alphabet as `AlphabetSpec` has it; none where it holds numbers."""
    return alphabet if isinstance(alphabet, list) else []


def _alphabet(text: str) -> Any:
    """One alphabet: a range or list of numbers as text, labels as a list, None for any numbers."""
    text = text.strip()
    if text == ANY:
        return None
    if text == "infer":
        return text
    parts = [part.strip() for part in text.split(",")]
    numeric = ":" in text or all(map(is_number, parts))
    if not all(parts) or (len(parts) < 2 and not numeric):
        raise ValueError(
            f"cannot read an alphabet from {text!r}: give a range such as 1:5, numbers such as 0,1, labels from "
            f"lowest to highest such as low,mid,high, infer, or any for a column of any numbers"
        )
    Alphabet.of(text if numeric else parts)  # refuses it now, not after the file was read
    return text if numeric else parts


def is_number(text: str) -> bool:
    """Tell whether text reads as a finite number.

    Examples
    --------
    >>> is_number(" -1.5e3"), is_number("nan"), is_number("1_000"), is_number("x")
    (True, False, False, False)
    """
    try:
        value = float(text)
    except ValueError:
        return False
    return "_" not in text and value - value == 0
