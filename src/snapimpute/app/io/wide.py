"""A table with one row a line: which columns hold values, which one holds labels, what stays as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from snapimpute.app.io.options import AlphabetSpec, Options, is_number, known_column, labels_of
from snapimpute.base.errors import ArgumentError, Value, inside
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.data.tables import NAMED_CELLS, Table, read_table

if TYPE_CHECKING:
    import polars as pl

INFERRED = 20
"""Different values of a column up to which it may be one of symbols."""


@dataclass(frozen=True, eq=False)
class Wide:
    """A wide table: all columns as they were ``given``, and the ``values`` to complete, null where a cell is missing.

    ``index`` is the column of row labels; the columns in ``left`` are carried along. ``notes`` say how the file was
    read. Columns that are not ``named`` are counted, and so are rows without labels, from ``first`` on.
    """

    given: pl.DataFrame
    values: pl.DataFrame
    index: str | None
    left: list[str]
    where: str
    notes: list[tuple[str, str]]
    named: bool = True
    first: int = 1

    layout = "wide"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns to complete."""
        return self.values.shape

    @property
    def row_labels(self) -> Any:
        """The labels of the rows, or their positions."""
        if self.index is None:
            return np.arange(self.first, self.first + self.shape[0])
        labels = self.given[self.index].to_list()
        whole = all(isinstance(one, int) for one in labels)
        return np.array(labels if whole else [str(one).strip() for one in labels])

    @property
    def col_labels(self) -> Any:
        """The names of the columns."""
        return np.array(self.values.columns)

    def observations(self, alphabet: Any) -> tuple[Observations, Table]:
        """The known cells with their labels, and the table that they were read from."""
        labels = self.row_labels
        try:
            table = read_table(self.values, alphabet, row_labels=labels)
            known = table.observations()
        except ValueError as err:
            raise inside(self.where, err) from None
        return known.labelled(labels, self.col_labels), table

    def filled(self, values: pl.DataFrame, *, typed: bool = False) -> pl.DataFrame:
        """The table as it was given, with cells that were missing taken from completed values.

        Text stays as it was written, 05 and 1.0; or, if it is to be ``typed``, numbers become numbers.
        """
        given = self.given if not typed else self.given.with_columns(self.values)
        return given.with_columns(
            _merged(given[name], self.values[name], values[name]).alias(name) for name in self.values.columns
        )


def _merged(before: pl.Series, known: pl.Series, after: pl.Series) -> pl.Series:
    """A column as it was given, with cells that were missing from another; of another type only if it must be."""
    import polars as pl

    before, known, after = (one.alias("x") for one in (before, known, after))  # a name may be a pattern for polars
    lost = known.is_null()
    if not lost.any():
        return before
    if before.dtype == pl.String and after.dtype != pl.String:
        after = _as_text(after, point=bool(before.str.contains(".", literal=True).any()))
    if before.dtype != after.dtype:
        return after
    return pl.select(pl.when(lost & after.is_not_null()).then(after).otherwise(before)).to_series()


def wide(
    frame: pl.DataFrame,
    where: str,
    options: Options,
    spec: AlphabetSpec,
    notes: list[tuple[str, str]],
    *,
    named: bool = True,
    first: int = 1,
) -> Wide:
    """Sort the columns of a frame into labels, values and others."""
    left = [known_column(frame, name, "--leave", where) for name in options.leave]
    left += [name for name in frame.columns if name not in left and _is_nothing(frame[name])]
    rest = [name for name in frame.columns if name not in left]
    if not rest:
        raise ValueError(f"{where}: every column is left alone, so that there is nothing to complete")
    index = _index(frame, rest, options, spec, where)
    names = [name for name in rest if name != index]
    if not names:
        raise ValueError(f"{where} has a single column, {index!r}, of labels: there is nothing to complete")
    spec.for_columns(names)  # refuses names that are not there
    values = _parsed(frame, names, options, spec, index, where)
    if values.null_count().sum_horizontal()[0] == values.height * values.width:
        raise ValueError(
            f"{where}: no cell of its {values.height}×{values.width} table is known, so that it cannot be completed; "
            f"what means missing is {', '.join(repr(code) for code in options.codes())}"
        )
    counted = f"none: rows are counted from {first}"
    labels = counted if index is None else f"column {index!r}" + ("" if options.index else "; --index none if not")
    more = [("row labels", labels)]
    more += [("left as they are", ", ".join(map(repr, left)))] * bool(left)
    return Wide(frame, values, index, left, where, [*notes, *more], named, first)


def _is_nothing(column: pl.Series) -> bool:
    """Tell whether a column has neither a name nor a value, as a delimiter at the end of each line makes it."""
    return re.fullmatch(r"( \(\d+\))?", column.name) is not None and column.alias("x").null_count() == column.len()


def _index(frame: pl.DataFrame, names: list[str], options: Options, spec: AlphabetSpec, where: str) -> str | None:
    """The column of labels: as asked, else the first if its cells all differ and are not in the alphabet."""
    if options.index is not None:
        asked = None if options.index == "none" else known_column(frame, options.index, "--index", where)
        return None if asked is None else _checked_index(frame, asked, where)
    first = frame[names[0]]
    cells = [str(one).strip() for one in first.to_list()]
    if len(names) == 1 or names[0] in spec.own or first.null_count() or len(set(cells)) < len(cells):
        return None
    return names[0] if _are_labels(names[0], cells, options, spec.default) else None


def _are_labels(name: str, cells: list[str], options: Options, alphabet: Any) -> bool:
    """Tell whether different cells are labels rather than symbols."""
    if not all(map(is_number, cells)):
        return not (set(cells) <= set(labels_of(alphabet)) or set(cells) & set(options.codes()))
    numbers = [float(cell) for cell in cells]
    if set(numbers) & set(options.numbers):
        return False
    if name.lower() in ("", "id", "index"):
        return True
    if isinstance(alphabet, str) and alphabet != "infer":
        return not bool(np.all(Alphabet.of(alphabet).contains(numbers)))
    whole = all(number == round(number) for number in numbers)
    return alphabet is not None and whole and len(cells) > INFERRED


def _checked_index(frame: pl.DataFrame, name: str, where: str) -> str:
    """Labels that a user names must differ: a model could not tell the rows apart."""
    import polars as pl

    labels = frame[name].cast(pl.String).str.strip_chars()
    again = labels.is_null() | labels.is_duplicated()
    if again.any():
        row = int(again.arg_true()[0])
        raise ValueError(
            f"{where}: {int(again.sum()):,} labels in the column {name!r}, which --index names, are empty or come "
            f"again, the first is {labels[row]!r} in row {row + 1}: correct them, or carry the column along with "
            f"--leave {name!r}"
        )
    return name


def _parsed(
    frame: pl.DataFrame, names: list[str], options: Options, spec: AlphabetSpec, index: str | None, where: str
) -> pl.DataFrame:
    """Columns as numbers or text, with null for missing cells; text among numbers is an error.

    All columns at once: a column at a time takes seconds where there are thousands.
    """
    import polars as pl

    # By position, since polars takes names such as * for patterns.
    chosen = [frame[name] for name in names]
    given = pl.DataFrame([column.alias(str(j)) for j, column in enumerate(chosen)])
    cells = given.select(
        _without_codes(str(j), column, options, spec.at(column.name), where) for j, column in enumerate(chosen)
    )
    labels = [labels_of(spec.at(name)) for name in names]
    for column, name, known_labels in zip(cells, names, labels, strict=True):
        if known_labels and column.dtype == pl.String:
            _check_labels(frame, column.alias(name), known_labels, index, where)
    texts = [one.name for one, some in zip(cells, labels, strict=True) if one.dtype == pl.String and not some]
    numbers = cells.select(pl.col(texts).cast(pl.Float64, strict=False))
    known = dict(zip(texts, cells.select(pl.col(texts).count()).row(0), strict=True)) if texts else {}
    for column in numbers:
        name, count = names[int(column.name)], known[column.name] - int(column.is_finite().sum() or 0)
        if count and spec.at(name) == "infer" and 2 * count > known[column.name]:
            texts.remove(column.name)
        elif count:
            raise _text_among_numbers(frame, cells[column.name].alias(name), index, where)
    if texts:
        whole = cells.select(pl.col(texts).cast(pl.Int64, strict=False))  # null for 1.0, and for what is too long
        cells = cells.with_columns(
            one if one.count() == known[one.name] else numbers[one.name] for one in whole.get_columns()
        )
    return cells.rename(dict(zip(cells.columns, names, strict=True)))


def _without_codes(place: str, given: pl.Series, options: Options, alphabet: Any, where: str) -> pl.Expr:
    """A column with null for NaN and for the codes of missing cells; text without space around it."""
    import polars as pl

    column, dtype = pl.col(place), given.dtype
    if dtype.is_numeric() or dtype == pl.Boolean:
        column = column.cast(pl.Float64) if dtype.is_decimal() else column
        column = column.fill_nan(None) if dtype.is_float() else column
        lost = column.cast(pl.Float64).is_in(options.numbers)
        return pl.when(lost).then(None).otherwise(column).alias(place) if options.numbers else column
    categories = dtype in (pl.Categorical, pl.Enum)
    if not (dtype == pl.String or categories or dtype == pl.Null):
        raise ValueError(
            f"{where}: the column {given.name!r} holds neither numbers nor text, but {dtype}: add --leave "
            f"{given.name!r} to carry it along as it is"
        )
    text = column.cast(pl.String).str.strip_chars()
    lost = text.is_in(options.codes(labels_of(alphabet)))
    if options.numbers:
        lost |= text.cast(pl.Float64, strict=False).is_in(options.numbers).fill_null(value=False)
    kept = column if categories else text  # categories keep their type, and their order
    return pl.when(lost).then(None).otherwise(kept).alias(place)


def _cell(frame: pl.DataFrame, row: int, index: str | None) -> str:
    return f"row {str(frame[index][row]).strip()!r}" if index is not None else f"row {row + 1}"


def _check_labels(frame: pl.DataFrame, cells: pl.Series, labels: list[str], index: str | None, where: str) -> None:
    """Refuse text that is no label, naming the first cells and the count."""
    bad = cells.is_not_null() & ~cells.is_in(labels)
    if not bad.any():
        return
    rows = bad.arg_true().to_list()
    first, *others = (f"{cells[row]!r} in {_cell(frame, row, index)}" for row in rows[:NAMED_CELLS])
    then = f" (then {'; '.join(others)})" if others else ""
    raise ArgumentError(
        "alphabet",
        labels,
        f"{where}: {len(rows):,} value(s) of the column {cells.name!r} are not in ",
        Value("alphabet", Alphabet.of(labels)),
        f", the first is {first}{then}. Correct the data or the alphabet; a code for missing is named with --missing "
        f"{cells[rows[0]]!r}",
    )


def _text_among_numbers(frame: pl.DataFrame, cells: pl.Series, index: str | None, where: str) -> ValueError:
    import polars as pl

    numbers, name = cells.cast(pl.Float64, strict=False), cells.name
    rows = (cells.is_not_null() & (numbers.is_null() | ~numbers.is_finite())).arg_true().to_list()
    value = cells[rows[0]]
    comma = re.fullmatch(r"[+-]?\d+,\d+", value) is not None
    do = "Write decimals with a point" if comma else "Correct them"
    return ValueError(
        f"{where}: {len(rows):,} cell(s) of the column {name!r} are text where numbers are expected, the first is "
        f"{value!r} in {_cell(frame, rows[0], index)}. {do}; or, if this means missing, add --missing "
        f"{value!r}; if the column holds labels, give them from lowest to highest, --alphabet {name!r}=low,high; if "
        f"it is not to be completed, add --leave {name!r}"
    )


def _as_text(values: pl.Series, *, point: bool) -> pl.Series:
    """Numbers as text; whole ones without a point where all are, unless the others in the column have one."""
    import polars as pl

    known = values.drop_nulls()
    if values.dtype.is_float() and not point and bool((known == known.round()).all()):
        return values.cast(pl.Int64, strict=False).cast(pl.String)
    return (values.cast(pl.Float64) if point else values).cast(pl.String)
