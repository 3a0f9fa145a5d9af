"""Tell tables with a row in each line from those with a cell in each line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from snapimpute.app.io.options import AlphabetSpec, Options, is_number
from snapimpute.data.alphabet import Alphabet

if TYPE_CHECKING:
    import polars as pl

TIMES = ("timestamp", "time", "date", "datetime", "ts", "unixtime")
"""Names of a fourth column that is not looked at."""

ROWS = ("row", "user", "person", "customer", "reader", "subject", "respondent", "student")
COLUMNS = ("col", "column", "item", "movie", "film", "book", "product", "question")
"""Names of the first two, with or without "id", that leave no doubt."""

LOOKED_AT = 100_000
"""Lines by which a layout is told."""


def looks_like_triplets(frame: pl.DataFrame, options: Options, spec: AlphabetSpec) -> bool:
    """Tell from the first lines whether a frame seems to have a cell in each line.

    Three columns (or a fourth with times), no gap in the first two, rows and columns that come again, and hardly
    ever a pair of them twice. Where the first two hold nothing but symbols, they must be called row and column.
    """
    frame = frame.head(LOOKED_AT)
    of_wide = any(name in (*spec.own, *options.leave, options.index) for name in frame.columns)
    if of_wide or frame.height < 2 or not (frame.width == 3 or (frame.width == 4 and _is_clock(frame[:, 3]))):
        return False
    row, col, value = (frame[:, i] for i in range(3))
    if row.null_count() or col.null_count() or row.n_unique() < 2:
        return False
    if _says(row.name, ROWS) and _says(col.name, COLUMNS):
        return True
    twice = frame.height - frame[:, :2].n_unique()
    if twice > max(1, frame.height // 100) and options.duplicates == "error":
        return False
    few = value.n_unique() <= max(100, frame.height // 10)
    again = row.n_unique() < frame.height and col.n_unique() < frame.height
    return few and again and not (_only_symbols(row, value, spec) and _only_symbols(col, value, spec))


def _says(name: str, known: tuple[str, ...]) -> bool:
    plain = name.lower().removesuffix("id").strip(" _-.")
    return plain in known or plain.removesuffix("s") in known


def _only_symbols(cells: pl.Series, value: pl.Series, spec: AlphabetSpec) -> bool:
    """Tell whether all cells are in the alphabet; if that is not known, among the values."""
    found: list[Any] = cells.unique().to_list()
    default = spec.default
    if isinstance(default, list):
        return {str(one).strip() for one in found} <= set(default)
    if default is None or default == "infer":
        return set(found) <= set(value.unique().to_list())
    numbers = [float(one) for one in map(str, found) if is_number(one)]
    return len(numbers) == len(found) and bool(np.all(Alphabet.of(default).contains(numbers)))


def _is_clock(times: pl.Series) -> bool:
    """Tell whether a column holds times: by its name, its type, or as seconds since 1970."""
    import polars as pl

    if times.name.lower() in TIMES or times.dtype.is_temporal():
        return True
    if not (times.dtype == pl.String or times.dtype.is_numeric()):
        return False
    numbers = times.cast(pl.Float64, strict=False)
    return numbers.null_count() == 0 and bool((numbers > 3e8).all())
