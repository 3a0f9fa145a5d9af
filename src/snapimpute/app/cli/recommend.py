"""`snapimpute recommend`: the best missing cells of rows, by a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snapimpute.app.cli._options import Manner
from snapimpute.app.cli._sharing import check_outputs, shared, written_as
from snapimpute.app.cli._terminal import Terminal, new_table

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from snapimpute.base.types import Index
    from snapimpute.estimator.imputer import SnapImputer


@shared(Manner)
def recommend(
    model: Annotated[Path, typer.Argument(help="A model that fit or complete saved.")],
    rows: Annotated[list[str] | None, typer.Argument(metavar="ROW", help="Labels of rows.")] = None,
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="How many for each row.")] = 10,
    everybody: Annotated[bool, typer.Option("--all", help="For every row; needs --out.")] = False,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Write a table of row, rank, column, estimate.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="Output format, where the name does not say it.")] = None,
    *,
    manner: Manner,
) -> None:
    """Recommend: the columns with the highest estimates in a row, of those not known there, best first."""
    import numpy as np

    from snapimpute.app.cli._cells import positions, row_labels
    from snapimpute.app.io import write_pieces
    from snapimpute.base.threads import cut
    from snapimpute.estimator.shortcuts import load

    if bool(rows) == everybody:
        raise typer.BadParameter("give labels of rows, or --all for every row; not both")
    if everybody and out is None:
        raise typer.BadParameter("--all writes a table: say where with --out")
    terminal = Terminal(manner, to_stdout=out == "-")
    kind = written_as(out, to, table=True) if out is not None else ""
    check_outputs([out], [str(model)], force=None)
    imputer = load(model)
    labels = row_labels(imputer)
    chosen = np.arange(labels.size) if everybody else positions(list(rows or []), labels, "row", str(model))
    if out is not None:
        parts = (chosen[start:stop] for start, stop in cut(chosen.size, 1000))
        lines = write_pieces((_frame(imputer, part, count) for part in parts), out, kind)
        text = f": {lines:,} recommendations for {chosen.size:,} rows"
        terminal.note(model=str(model))
        terminal.wrote(out, text, rows=chosen.size, lines=lines)
    else:
        frame = _frame(imputer, chosen, count)
        terminal.say(_table(frame))
        terminal.note(model=str(model), recommendations=frame.to_dicts())
    terminal.done()


def _frame(imputer: SnapImputer, rows: Index, count: int) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    from snapimpute.app.cli._cells import column_labels, row_labels

    best = [imputer.recommend(int(row), count) for row in rows]
    sizes = [one.size for one in best]
    at, cols = np.repeat(rows, sizes), np.concatenate(best)
    return pl.DataFrame(
        {
            "row": pl.Series(row_labels(imputer)[at].tolist()),
            "rank": np.concatenate([np.arange(1, size + 1) for size in sizes]),
            "column": pl.Series(column_labels(imputer)[cols].tolist()),
            "estimate": imputer.predict_mean(at, cols).round(4),
        }
    )


def _table(frame: pl.DataFrame) -> Table:
    table = new_table()
    for name in frame.columns:
        table.add_column(name, justify="left" if name in ("row", "column") else "right")
    for row in frame.iter_rows():
        table.add_row(*(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row))
    return table
