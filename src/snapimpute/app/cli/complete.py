"""`snapimpute complete`: a table with holes in, the table filled out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapimpute.app.cli._interruption import seeing_through
from snapimpute.app.cli._options import Fitting, Manner, Reading
from snapimpute.app.cli._sharing import check_outputs, shared, written_as
from snapimpute.app.cli._terminal import Terminal


@shared(Reading, Fitting, Manner)
def complete(
    table: Annotated[
        str,
        typer.Argument(metavar="IN", help="CSV, TSV, Parquet, Arrow, Matrix Market, NPZ or Excel; - reads a pipe."),
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Where to write; the name says the format. - writes to a pipe.")
    ],
    to: Annotated[str | None, typer.Option("--to", help="Output format, where the name does not say it.")] = None,
    only: Annotated[
        str | None, typer.Option("--cells", help="Triplets: fill only the cells of this file (row, column).")
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Triplets: only the best so many missing cells of each row.")
    ] = None,
    probability: Annotated[
        bool, typer.Option("--probability", help="Triplets: add a column with the probability of each value.")
    ] = False,
    model: Annotated[Path | None, typer.Option(help="Save the fitted model, too.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page about the fit, and how far to trust it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Allow writing over the input.")] = False,
    *,
    reading: Reading,
    fitting: Fitting,
    manner: Manner,
) -> None:
    """Complete a table: what is known stays, what is missing gets a symbol of the alphabet.

    Wide tables come back whole. Of triplets (row, column, value) the missing cells are written, as triplets.
    """
    from snapimpute.app.cli import _cells as cells
    from snapimpute.app.cli import _work as work

    terminal = Terminal(manner, to_stdout=out == "-")
    kind = written_as(out, to)
    if only is not None and top is not None:
        raise typer.BadParameter("give --cells or --top, not both")
    if table == only == "-":
        raise typer.BadParameter("standard input can be read once: name a file for the table or for --cells")
    if probability and fitting.decide == "nearest":
        raise typer.BadParameter("--decide nearest has no probabilities: leave out --probability")
    check_outputs([out, model, report], [table, only], force=force)
    job = work.Job.of(table, reading, terminal)
    cells.check_request(job, kind, only, top, probability)
    job.check_report(report)
    imputer, interrupted = job.fitted(fitting, terminal)
    with seeing_through(terminal) as seen:
        filled, left = cells.write(job, imputer, out, kind, only, top, probability)
        still = f", {left:,} left open" if left else ""
        terminal.wrote(out, f": {filled:,} cells filled in{still}", filled=filled, left_open=left)
        work.keep(imputer, model, terminal)
    work.tell(job, imputer, report, terminal, interrupted=interrupted or seen.interrupted)
