"""`snapimpute fit`: a model in a file, for `predict` and `recommend`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapimpute.app.cli._interruption import seeing_through
from snapimpute.app.cli._options import Fitting, Manner, Reading, Workers
from snapimpute.app.cli._sharing import check_outputs, shared
from snapimpute.app.cli._terminal import Terminal

PREPARED = "prepare the files such that each line is one known cell"
NO_SYMBOLS = "a cluster writes factors and scores, and decides on no symbol"
NOT_ON_A_CLUSTER = {
    **dict.fromkeys(("missing", "layout", "index"), PREPARED),
    **dict.fromkeys(("delimiter", "header", "encoding", "format", "sheet"), "give Parquet files"),
    **dict.fromkeys(("decide", "min_confidence"), NO_SYMBOLS),
    "leave": "carry such columns along outside of the files",
    "duplicates": "a cell that is given twice is an error; " + PREPARED,
    "time_limit": "limit its iterations by --max-iter",
    "backend": "its workers compute on their processors",
    "report": "fit a sample of the rows without --cluster for a report",
    "force": "name a new folder with --model, or an empty one",
}
"""Options of `fit` that a cluster does not use, and what to do instead."""


@shared(Reading, Fitting, Workers, Manner)
def fit(
    ctx: typer.Context,
    table: Annotated[
        list[str],
        typer.Argument(
            metavar="IN", help="The table to fit; - reads a pipe. With --cluster: Parquet files, folders."
        ),
    ],
    model: Annotated[
        Path,
        typer.Option(
            "--model", "-m", help="Where to save the model: numbers and text, no code. With --cluster a folder."
        ),
    ],
    report: Annotated[Path | None, typer.Option(help="Write a page about the fit, and how far to trust it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Allow writing over the input.")] = False,
    *,
    reading: Reading,
    fitting: Fitting,
    workers: Workers,
    manner: Manner,
) -> None:
    """Fit a model to a table and save it."""
    terminal = Terminal(manner)
    if workers.cluster is not None:
        _refuse_unused(ctx)
        from snapimpute.app.cli._on_cluster import fit_on_cluster

        interrupted = fit_on_cluster(workers, table, model, reading, fitting, terminal)
        return terminal.done(interrupted=interrupted)
    if len(table) > 1:
        raise typer.BadParameter("several files go with --cluster only")
    check_outputs([model, report], [*table], force=force)
    from snapimpute.app.cli import _work as work

    job = work.Job.of(table[0], reading, terminal)
    job.check_report(report)
    imputer, interrupted = job.fitted(fitting, terminal)
    with seeing_through(terminal) as seen:
        work.keep(imputer, model, terminal)
    work.tell(job, imputer, report, terminal, interrupted=interrupted or seen.interrupted)


def _refuse_unused(ctx: typer.Context) -> None:
    """Refuse options that were given, and that a cluster would drop."""
    for parameter in ctx.command.params:
        name = str(parameter.name)
        source = ctx.get_parameter_source(name)
        if name in NOT_ON_A_CLUSTER and source is not None and source.name != "DEFAULT":
            raise typer.BadParameter(
                f"{parameter.opts[0]} has no use with --cluster: leave it out, and {NOT_ON_A_CLUSTER[name]}"
            )
