"""`snapimpute predict`: what a saved model says of new rows, or of cells."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapimpute.app.cli._options import Manner, Reading
from snapimpute.app.cli._sharing import check_outputs, shared, written_as
from snapimpute.app.cli._terminal import Terminal


@shared(Reading, Manner)
def predict(
    model: Annotated[Path, typer.Argument(help="A model that fit or complete saved.")],
    table: Annotated[
        str | None, typer.Argument(metavar="IN", help="Rows to complete, with the columns of the fit.")
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write; - writes to a pipe.")] = "-",
    to: Annotated[str | None, typer.Option("--to", help="Output format, where the name does not say it.")] = None,
    only: Annotated[
        str | None, typer.Option("--cells", help="A file of cells (row, column) of the fitted table.")
    ] = None,
    probability: Annotated[
        bool, typer.Option("--probability", help="Cells: add a column with the probability of each value.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Allow writing over the input.")] = False,
    *,
    reading: Reading,
    manner: Manner,
) -> None:
    """Complete new rows by a saved model, or predict cells of the table it was fitted to."""
    from snapimpute.app.cli import _cells as cells
    from snapimpute.app.cli import _rows as rows
    from snapimpute.estimator.shortcuts import load

    if (table is None) == (only is None):
        raise typer.BadParameter(
            "give a table with rows to complete, or --cells FILE with cells to predict; not both"
        )
    if reading.alphabet:
        raise typer.BadParameter("the model has its alphabet: leave out --alphabet")
    terminal = Terminal(manner, to_stdout=out == "-")
    kind = written_as(out, to, table=only is not None)
    check_outputs([out], [str(model), table, only], force=force)
    imputer = load(model)
    if only is not None:
        asked = [cells.asked_cells(only, imputer)]
        filled, left = cells.write_cells(imputer, asked, out, kind, rows.names(imputer), probability=probability)
    else:
        filled, left = rows.write_rows(imputer, str(table), out, kind, reading.options, probability, terminal)
    still = f", {left:,} left open" if left else ""
    terminal.note(model=str(model))
    terminal.wrote(out, f": {filled:,} cells predicted{still}", filled=filled, left_open=left)
    terminal.done()
