"""`snapimpute fit`: a model in a file, for `predict` and `recommend`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapimpute.cli import INTERRUPTED
from snapimpute.cli.complete import extras
from snapimpute.cli.options import Fitting, Manner, Reading, check_outputs, shared
from snapimpute.cli.talk import Talk
from snapimpute.cli.work import Job


@shared(Reading, Fitting, Manner)
def fit(
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
    cluster: Annotated[
        str | None,
        typer.Option(help="Fit on the workers of a cluster: local starts one here, tcp://… is that of a scheduler."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="With --cluster: write the so many best columns of each row, too.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="With --cluster: save the last fit as it goes, and go on from there if the file exists."),
    ] = None,
    *,
    reading: Reading,
    fitting: Fitting,
    manner: Manner,
) -> None:
    """Fit a model to a table and save it."""
    talk = Talk(manner)
    alone = {"several files": len(table) > 1, "--top": top is not None, "--checkpoint": checkpoint is not None}
    if cluster is not None:
        if report is not None:
            raise typer.BadParameter("--report is not made on a cluster")
        from snapimpute.cli.on_cluster import Goal, fit_on_cluster

        interrupted = fit_on_cluster(cluster, table, Goal(model, top, checkpoint), reading, fitting, talk)
    elif any(alone.values()):
        raise typer.BadParameter(f"{next(name for name in alone if alone[name])}: goes with --cluster only")
    else:
        check_outputs([model, report], [*table], force=force)
        job = Job.of(table[0], reading, talk)
        imputer, interrupted = job.fitted(fitting, talk)
        extras(job, imputer, model, report, talk, interrupted=interrupted)
    talk.done()
    if interrupted:
        raise typer.Exit(INTERRUPTED)
