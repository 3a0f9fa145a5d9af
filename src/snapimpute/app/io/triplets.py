"""A table with one cell a line: row, column and value, at any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.app.io.options import AlphabetSpec, Options, is_number, known_column
from snapimpute.base.errors import ArgumentError, Phrase, Value, inside
from snapimpute.base.threads import cut
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import NAMED_CELLS, Table, read_table

if TYPE_CHECKING:
    import polars as pl

BLOCK = 1 << 20
"""Cells written at once."""

MOST_CHARACTERS = 1 << 24
"""Labels are an array of text if that takes no more than so many, else one of objects."""

Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Triplets:
    """Known cells: positions among ``row_labels`` and ``col_labels``, and values as ``codes`` of ``levels``.

    ``levels`` are the different values in the file, numbers or text; ``names`` those of the three columns.
    """

    rows: Codes
    cols: Codes
    levels: list[Any]
    codes: Codes
    row_labels: NDArray[Any]
    col_labels: NDArray[Any]
    names: tuple[str, str, str]
    where: str
    notes: list[tuple[str, str]]

    layout = "triplets"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.row_labels.size, self.col_labels.size

    def observations(self, alphabet: Any) -> tuple[Observations, Table]:
        """The known cells with their labels, and the table that they make.

        With labels as alphabet the values are their positions.
        """
        alphabet = self._with_labels(alphabet)
        values = self._numbers(alphabet)
        known = Observations.from_coo(
            self.rows, self.cols, values, self.shape, row_labels=self.row_labels, col_labels=self.col_labels
        )
        try:
            table = read_table(known, alphabet)
            table.checked = self._surely_inside(table.schema)
            table.check_symbols()
        except ValueError as err:
            raise inside(self.where, err) from None
        return known, table

    def _with_labels(self, alphabet: Any) -> Any:
        """Alphabet to fit with: labels as an `Alphabet`, detected if there are two."""
        if isinstance(alphabet, list) and all(isinstance(one, str) for one in alphabet):
            return Alphabet.of(alphabet)
        if not (isinstance(alphabet, str) and alphabet == "infer"):
            return alphabet
        text = sorted(one for one in self.levels if isinstance(one, str))
        if not text or len(text) < len(self.levels):
            return alphabet
        if len(text) > 2:
            shown = ",".join(text[:20])
            raise ValueError(
                f"{self.where}: found the labels {shown}, but not their order: give them from lowest to highest, "
                f"such as --alphabet {shown}"
            )
        return Alphabet.of(text)

    def _numbers(self, alphabet: Any) -> Array:
        """The values: numbers, or the positions of labels in the alphabet of their column."""
        numbers = np.array([float(one) if is_number(str(one)) else np.nan for one in self.levels])
        if not isinstance(alphabet, list):
            labelled = isinstance(alphabet, Alphabet) and alphabet.labels is not None
            values = (self._positions(alphabet) if labelled else numbers)[self.codes]
            self._refuse(np.isnan(values), alphabet if labelled else None)
            return values
        values = numbers[self.codes]
        for one in dict.fromkeys(one for one in alphabet if isinstance(one, Alphabet) and one.labels is not None):
            inside = np.array([other == one for other in alphabet])[self.cols]
            values[inside] = self._positions(one)[self.codes[inside]]
            self._refuse(inside & np.isnan(values), one)
        self._refuse(np.isnan(values), None)
        return values

    def _positions(self, alphabet: Alphabet) -> Array:
        """Position of each level among the labels, NaN if it is none of them."""
        places = {label: float(place) for place, label in enumerate(alphabet.labels or ())}
        texts = (one if isinstance(one, str) else f"{one:.15g}" for one in self.levels)
        return np.array([places.get(text, np.nan) for text in texts])

    def _refuse(self, bad: NDArray[np.bool_], alphabet: Alphabet | None) -> None:
        """Raise for values that are not in an alphabet of labels, or are text where numbers are expected."""
        if not bad.any():
            return
        entries = np.flatnonzero(bad)
        first, *others = (f"{self._text(i)} at {self._backend(i)}" for i in entries[:NAMED_CELLS].tolist())
        then = f" (then {'; '.join(others)})" if others else ""
        text: list[Phrase] = ["text where numbers are expected"]
        what = text if alphabet is None else ["not in ", Value("alphabet", alphabet)]
        labels = "; if the values are labels, give them from lowest to highest, --alphabet low,high"
        do = f"Correct them{labels}" if alphabet is None else "Correct the data or the alphabet"
        raise ArgumentError(
            "alphabet",
            alphabet,
            f"{self.where}: {entries.size:,} value(s) are ",
            *what,
            f", the first is {first}{then}. {do}; a code for missing is named with --missing "
            f"{self._text(int(entries[0]))}",
        )

    def _text(self, entry: int) -> str:
        level = self.levels[self.codes[entry]]
        return repr(level if isinstance(level, str) else f"{level:.15g}")

    def _backend(self, entry: int) -> str:
        row, col = self.row_labels[self.rows[entry]], self.col_labels[self.cols[entry]]
        return f"{self.names[0]} {str(row)!r}, {self.names[1]} {str(col)!r}"

    def _surely_inside(self, book: ColumnSchema) -> bool:
        """Tell whether all values are symbols, by the different ones alone: much faster than by all cells."""
        if book.one is None or book.one.labels is not None:
            return book.one is not None
        return bool(np.all(book.one.contains(np.array(self.levels, dtype=np.float64))))


def missing_cells(known: Observations) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the cells that are not known, some rows at a time."""
    m, n = known.shape
    indptr = known.by_row.indptr
    for start, stop in cut(m, max(1, BLOCK // n)):
        unknown = np.ones((stop - start, n), dtype=bool)
        inside = slice(int(indptr[start]), int(indptr[stop]))
        unknown[known.rows[inside] - start, known.cols[inside]] = False
        rows, cols = np.nonzero(unknown)
        if rows.size:
            yield rows + start, cols


def triplets(
    frame: pl.DataFrame,
    where: str,
    options: Options,
    spec: AlphabetSpec,
    notes: list[tuple[str, str]],
    *,
    said: bool,
    named: bool = True,
) -> Triplets:
    """Encode the labels of a frame with a cell in each line."""
    names, left = _names(frame, options, where), frame.columns
    # A column is let go as soon as it is encoded: at 20 million lines each takes a third of a gigabyte.
    rows, row_labels = _labels(frame.drop_in_place(names[0]), "row", where)
    cols, col_labels = _labels(frame.drop_in_place(names[1]), "column", where)
    codes, levels = _levels(frame.drop_in_place(names[2]), options, spec)
    others = [name for name in left if name not in names]
    shown = "triplets: " + ", ".join(map(repr, names) if named else (f"column {name}" for name in names))
    more = [("layout", shown + ("" if said else "; --layout wide if not"))]
    more += [("not looked at", ", ".join(map(repr, others)))] * bool(others)
    called = names if named else ("row", "column", "value")
    return assembled((rows, cols, codes), levels, (row_labels, col_labels), called, where, options, [*notes, *more])


def assembled(
    cells: tuple[Codes, Codes, Codes],
    levels: list[Any],
    labels: tuple[NDArray[Any], NDArray[Any]],
    names: tuple[str, str, str],
    where: str,
    options: Options,
    notes: list[tuple[str, str]],
) -> Triplets:
    """Leave out cells without a value (their code is -1), sort the others, and see to those given twice."""
    rows, cols, codes = cells
    known = np.flatnonzero(codes >= 0)
    if not known.size:
        raise ValueError(
            f"{where}: no value of its {codes.size:,} entries is known, so that it cannot be completed; what means "
            f"missing is {', '.join(repr(code) for code in options.codes())}"
        )
    if known.size < codes.size:
        rows, cols, codes = rows[known], cols[known], codes[known]
    key = rows.astype(np.int64)
    key *= labels[1].size
    key += cols
    if not bool(np.all(key[1:] > key[:-1])):
        order = np.argsort(key)
        again = np.flatnonzero(np.diff(key[order]) == 0)
        if again.size:  # the order of equal ones matters: another sort, which takes twice as long
            order = np.argsort(key, kind="stable")
            _refuse_twice(int(known[order[again + 1].min()]), again.size, cells, labels, names, where, options)
            order = np.delete(order, again)
        rows, cols, codes = rows[order], cols[order], codes[order]
    return Triplets(rows, cols, levels, codes, *labels, names, where, notes)


def _refuse_twice(
    entry: int,
    count: int,
    cells: tuple[Codes, Codes, Codes],
    labels: tuple[NDArray[Any], NDArray[Any]],
    names: tuple[str, str, str],
    where: str,
    options: Options,
) -> None:
    if options.duplicates == "last":
        return
    row, col = (str(some[codes[entry]]) for some, codes in zip(labels, cells[:2], strict=True))
    raise ValueError(
        f"{where}: {count:,} cell(s) are given twice, the first is {names[0]} {row!r}, {names[1]} {col!r}, again in "
        f"entry {entry + 1:,}: keep one value for each, or add --duplicates last"
    )


def _names(frame: pl.DataFrame, options: Options, where: str) -> tuple[str, str, str]:
    if options.triplets is None:
        if frame.width < 3:
            raise ValueError(f"{where} has {frame.width} column(s), triplets need three: row, column and value")
        first, second, third = frame.columns[:3]
        return first, second, third
    found = []
    for asked in options.triplets:
        counted = asked not in frame.columns and asked.isdecimal() and 1 <= int(asked) <= frame.width
        name = frame.columns[int(asked) - 1] if counted else asked
        found.append(known_column(frame, name, "--triplets", where))
    if len(set(found)) < 3:
        raise ValueError(
            f"--triplets names the columns {', '.join(map(repr, found))}: three different ones are needed"
        )
    return found[0], found[1], found[2]


# -------------------------------------------------------------------- columns
def _labels(cells: pl.Series, what: str, where: str) -> tuple[Codes, NDArray[Any]]:
    """Positions among the different labels, and these; a line without one is an error."""
    import polars as pl

    if cells.dtype == pl.String:
        cells = cells.str.strip_chars()
    lost = cells.is_null() | (cells == "") if cells.dtype == pl.String else cells.is_null()
    if lost.any():
        raise ValueError(
            f"{where}: {int(lost.sum()):,} line(s) have no {what} label, the first is entry "
            f"{int(lost.arg_true()[0]) + 1:,}: fill them in, or leave the lines out"
        )
    codes, different = _encoded(cells)
    return codes, _plain(different)


def _encoded(cells: pl.Series) -> tuple[Codes, pl.Series]:
    """Positions among the different cells, -1 for null, and these in the order in which they first appear."""
    import polars as pl

    text = cells if cells.dtype == pl.String else cells.cast(pl.String)
    physical = text.cast(pl.Categorical).to_physical()  # any numbers: the fastest way to tell text apart
    top = int(physical.max() or 0) + 1  # type: ignore[arg-type]
    codes = physical.fill_null(top).to_numpy()
    first = np.full(top + 1, codes.size)
    first[codes[::-1]] = np.arange(codes.size - 1, -1, -1)
    used = np.flatnonzero(first[:top] < codes.size)
    used = used[np.argsort(first[used])]
    place = np.full(top + 1, -1, dtype=np.int32)
    place[used] = np.arange(used.size)
    return place[codes], cells.gather(first[used])


def _plain(labels: pl.Series) -> NDArray[Any]:
    """Labels as an array of whole numbers, if they are written as such, else of text."""
    import polars as pl

    if labels.dtype.is_integer():
        return labels.to_numpy()
    if labels.dtype.is_float() and bool((labels == labels.round()).all()):
        return labels.cast(pl.Int64).to_numpy()
    texts = labels.cast(pl.String)
    numbers = texts.cast(pl.Int64, strict=False)
    if not numbers.null_count() and bool((numbers.cast(pl.String) == texts).all()):
        return numbers.to_numpy()
    longest = max(map(len, texts.to_list()), default=0)
    return np.array(texts.to_list(), dtype=object if longest * texts.len() > MOST_CHARACTERS else None)


def _levels(values: pl.Series, options: Options, spec: AlphabetSpec) -> tuple[Codes, list[Any]]:
    """Positions among the different values, -1 where one is missing; numbers where they read as such.

    With an alphabet of labels they stay as they are written: 01 may be one.
    """
    import polars as pl

    if values.dtype == pl.Boolean:
        values = values.cast(pl.Int8)
    elif values.dtype == pl.String:
        values = values.str.strip_chars()
    codes, different = _encoded(values)
    labels, numbers = spec.labels, set(options.numbers)
    missing, kept = set(options.codes(labels)), dict[Any, int]()
    moved = np.full(different.len() + 1, -1, dtype=np.int32)  # the last one is for null
    for place, text in enumerate(different.cast(pl.String).to_list()):
        number = is_number(text)
        if text in missing or (number and float(text) in numbers):
            continue
        moved[place] = kept.setdefault(float(text) if number and not labels else text, len(kept))
    return moved[codes], list(kept)
