"""Results in files: cells one a line, whole tables, matrices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.app.cli._work import Job
from snapimpute.app.io import (
    MATRICES,
    Options,
    Wide,
    check_sheet,
    missing_cells,
    read_content,
    write_array,
    write_frame,
    write_pieces,
)
from snapimpute.base.threads import cut
from snapimpute.base.types import Index
from snapimpute.data.alphabet import is_missing
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import MAX_FILLED_CELLS, Table
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.estimator.model import Predictions

if TYPE_CHECKING:
    import polars as pl

MOST_CELLS = 100_000_000
"""Cells that are written one a line, at most."""

BLOCK = 1 << 20
DIGITS = 6

CellBatches = Iterable[tuple[Index, Index]]


def check_request(job: Job, kind: str, only: str | None, top: int | None, probability: bool) -> None:
    """Refuse what cannot be written, before a long fit and not after it."""
    m, n = job.known.shape
    if kind in MATRICES and job.book.labelled.size:
        raise ValueError(f"labels cannot be written as {kind}: choose .csv or .parquet")
    if isinstance(job.source, Wide):
        if only is not None or top is not None or probability:
            raise ValueError(
                f"--cells, --top and --probability are for triplets; {job.source.where} is a wide table, and is "
                "written whole"
            )
        if kind == "excel":
            check_sheet(m, job.source.given.width)
        return
    lines = m * top if top is not None else job.missing
    if only is None and lines > MOST_CELLS:
        raise ValueError(
            f"{job.source.where} has {job.missing:,} missing cells, more than the {MOST_CELLS:,} that are written: "
            "name those you need with --cells FILE, ask for the best of each row with --top 10, or fit a model with "
            "snapimpute fit"
        )
    if kind == "excel" and only is None:
        check_sheet(min(lines, job.missing), 4)
    if kind not in MATRICES:
        return
    if only is not None or top is not None or probability:
        raise ValueError(f"{kind} holds a whole matrix: write chosen cells, or probabilities, as .csv or .parquet")
    if m * n > MAX_FILLED_CELLS:
        raise ValueError(
            f"{job.source.where} has {m * n:,} cells, more than the {MAX_FILLED_CELLS:,} of a dense matrix: write "
            "the missing ones as .csv or .parquet"
        )


def write(
    job: Job, imputer: SnapImputer, out: str, kind: str, only: str | None, top: int | None, probability: bool
) -> tuple[int, int]:
    """Write what was asked for; how many cells were filled in, and how many are left open."""
    source = job.source
    if isinstance(source, Wide):
        return write_whole(source, completed(source, job.table, imputer), out, kind)
    if kind in MATRICES:
        return write_dense(job.table, imputer, out, kind)
    if only is not None:
        asked: CellBatches = [asked_cells(only, imputer)]
    elif top is not None:
        asked = top_cells(imputer, top)
    else:
        asked = missing_cells(job.known)
    return write_cells(imputer, asked, out, kind, list(source.names), probability=probability)


def write_cells(
    imputer: SnapImputer,
    cells: CellBatches,
    out: str,
    kind: str,
    names: list[str],
    *,
    probability: bool,
    estimates: Predictions | None = None,
    labels: Any = None,
) -> tuple[int, int]:
    """Write cells one a line, as they come; how many got a value, and how many are left open.

    Of the fitted table, or of other rows by their ``estimates`` and ``labels``.
    """
    estimates = imputer.estimates_ if estimates is None else estimates
    labels = row_labels(imputer) if labels is None else labels
    open_ = [0]

    def counted() -> Iterator[pl.DataFrame]:
        for frame in cell_frames(imputer, estimates, cells, labels, names, probability=probability):
            open_[0] += frame[:, 2].null_count()
            yield frame

    lines = write_pieces(counted(), out, kind)
    return lines - open_[0], open_[0]


def cell_frames(
    imputer: SnapImputer,
    estimates: Predictions,
    cells: CellBatches,
    labels: Any,
    names: list[str],
    *,
    probability: bool,
) -> Iterator[pl.DataFrame]:
    """Yield cells one a line: labels, symbol, and how probable that is; the first frame is empty."""
    import polars as pl

    row, col, value = names or ["row", "column", "value"]
    more = next(name for name in ("probability", "probability_", "p") if name not in (row, col, value))
    at_row, at_col = pl.Series(row, labels.tolist()), pl.Series(col, column_labels(imputer).tolist())
    book = ColumnSchema.of(imputer.alphabet_, imputer.n_features_in_)
    nothing = np.zeros(0, dtype=np.intp)
    for rows, cols in chain([(nothing, nothing)], cells):
        symbols = estimates.symbols(rows, cols)
        columns = [at_row.gather(rows), at_col.gather(cols), _decoded(book, symbols, cols).alias(value)]
        if probability:
            sure = _probability(book, imputer.decide, estimates, rows, cols, symbols)
            columns.append(pl.Series(more, sure, nan_to_null=True))
        yield pl.DataFrame(columns)


def _decoded(book: ColumnSchema, symbols: Any, cols: Index) -> pl.Series:
    """Symbols as they are written: labels, whole numbers, or numbers; null where a cell is left open."""
    import polars as pl

    values = pl.Series(symbols, dtype=pl.Float64, nan_to_null=True)
    if book.one is not None and book.one.labels is not None:
        return pl.Series(book.one.labels, dtype=pl.String).gather(values.cast(pl.UInt32))
    if not book.labelled.size:
        whole = all(kind is not None and kind.is_integer for kind in book.kinds)
        return values.cast(pl.Int64) if whole else values
    out = np.full(symbols.size, None, dtype=object)
    for kind, alphabet in enumerate(book.kinds):
        inside = np.arange(symbols.size)[book.inside(kind, cols)]
        decoded = symbols[inside] if alphabet is None else alphabet.decode(symbols[inside])
        out[inside] = [None if is_missing(one) else one if isinstance(one, str) else f"{one:.15g}" for one in decoded]
    return pl.Series(out.tolist(), dtype=pl.String)


def _probability(
    book: ColumnSchema, decide: str, estimates: Predictions, rows: Index, cols: Index, symbols: Any
) -> Any:
    """Probability of the symbol of each cell; NaN in columns of any numbers and without probabilities."""
    out = np.full(symbols.size, np.nan)
    if decide == "nearest":
        return out
    for kind, alphabet in enumerate(book.kinds):
        inside = np.arange(symbols.size)[book.inside(kind, cols)]
        if alphabet is None or not inside.size:
            continue
        p = estimates.proba(rows[inside], cols[inside])
        known = ~np.isnan(symbols[inside])
        place = alphabet.indices(np.where(known, symbols[inside], alphabet.symbols[0]))
        out[inside] = np.where(known, p[np.arange(inside.size), place], np.nan)
    return np.round(out, 4)


def completed(source: Wide, table: Table, imputer: SnapImputer) -> pl.DataFrame:
    """The values of a wide table, filled; ``table`` holds them as they were read.

    Estimates of any numbers have six digits, as more would be made up.
    """
    import polars as pl

    values: pl.DataFrame = imputer.transform(table)
    book = ColumnSchema.of(imputer.alphabet_, imputer.n_features_in_)
    out = []
    for j, after in enumerate(values.get_columns()):
        if book[j] is None and after.dtype.is_float():
            before = source.values[after.name]
            short = pl.select(pl.when(before.is_null()).then(after.round_sig_figs(DIGITS)).otherwise(after))
            out.append(short.to_series().alias(after.name))
    return values.with_columns(out)


def write_whole(source: Wide, values: pl.DataFrame, out: str, kind: str) -> tuple[int, int]:
    """Write a wide table with its completed values; how many cells were filled in, and how many stay open."""
    import polars as pl
    import polars.selectors as cs

    before, after = (int(frame.null_count().sum_horizontal()[0]) for frame in (source.values, values))
    if kind in MATRICES:
        write_array(values.with_columns(cs.boolean().cast(pl.Int8)).to_numpy(), out, kind)
    else:
        typed = kind not in ("csv", "tsv")
        write_frame(source.filled(values, typed=typed), out, kind, header=source.named)
    return before - after, after


def write_dense(table: Table, imputer: SnapImputer, out: str, kind: str) -> tuple[int, int]:
    """Write the whole completed matrix of triplets as NPZ or Matrix Market."""
    X = imputer.transform(table)
    left = int(np.isnan(X).sum()) if X.dtype.kind == "f" else 0
    write_array(X, out, kind)
    return X.size - len(table.observations()) - left, left


# -------------------------------------------------------------------- which cells
def asked_cells(path: str, imputer: SnapImputer) -> tuple[Index, Index]:
    """The cells that a file of (row, column) asks for, as positions in the fitted table."""
    content = read_content(path, Options(header=False))
    frame, where = content.frame, content.where
    if frame.width < 2:
        raise ValueError(f"{where} has {frame.width} column(s), cells need two: row and column, by their labels")
    labels = row_labels(imputer), column_labels(imputer)
    asked = [[str(cell).strip() for cell in frame[:, which].to_list()] for which in (0, 1)]
    if not content.named and frame.height > 1:  # a first line without any label of the model has names
        known = [set(map(str, some.tolist())) for some in labels]
        begin = int(asked[0][0] not in known[0] and asked[1][0] not in known[1])
        asked = [some[begin:] for some in asked]
    rows, cols = (
        positions(some, there, name, where)
        for some, there, name in zip(asked, labels, ("row", "column"), strict=True)
    )
    return rows, cols


def positions(asked: list[Any], labels: Any, name: str, where: str) -> Index:
    """Positions of labels in the fitted table; one that is not there is an error."""
    place = {str(label): i for i, label in enumerate(labels.tolist())}
    strange = [one for one in asked if str(one).strip() not in place]
    if strange:
        raise ValueError(
            f"{where}: {len(strange):,} {name} label(s) are not in the model, the first is {str(strange[0])!r}; the "
            f"model has {len(place):,}, such as {', '.join(map(repr, list(place)[:5]))}"
        )
    return np.array([place[str(one).strip()] for one in asked], dtype=np.intp)


def row_labels(imputer: SnapImputer) -> NDArray[Any]:
    """The labels of the rows of a model."""
    return _labels(imputer.row_labels_, "row")


def column_labels(imputer: SnapImputer) -> NDArray[Any]:
    """The labels of the columns of a model."""
    labels = imputer.col_labels_
    return _labels(getattr(imputer, "feature_names_in_", None) if labels is None else labels, "column")


def _labels(labels: NDArray[Any] | None, what: str) -> NDArray[Any]:
    if labels is None:
        raise ValueError(
            f"this model has no {what} labels, since it was fitted in Python without any: fit it with snapimpute "
            "fit, or ask it in Python"
        )
    return labels


def top_cells(imputer: SnapImputer, k: int) -> Iterator[tuple[Index, Index]]:
    """The k cells with the highest estimates of each row, of those not known."""
    rows = np.arange(imputer._model.shape[0])
    for start, stop in cut(rows.size, max(1, BLOCK // k)):
        best = [imputer.recommend(int(row), k) for row in rows[start:stop]]
        yield np.repeat(rows[start:stop], [one.size for one in best]), np.concatenate(best)
