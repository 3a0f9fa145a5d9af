"""`snapimpute fit`: a model in a file, for `predict` and `recommend`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapimpute.cli.ending import INTERRUPTED
from snapimpute.cli.interruption import seeing_through
from snapimpute.cli.options import Fitting, Manner, Reading, Workers, check_outputs, shared
from snapimpute.cli.talk import Talk


@shared(Reading, Fitting, Workers, Manner)
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
    *,
    reading: Reading,
    fitting: Fitting,
    workers: Workers,
    manner: Manner,
) -> None:
    """Fit a model to a table and save it."""
    talk = Talk(manner)
    if workers.cluster is not None:
        if report is not None:
            raise typer.BadParameter("--report is not made on a cluster")
        from snapimpute.cli.on_cluster import fit_on_cluster

        interrupted = fit_on_cluster(workers, table, model, reading, fitting, talk)
        talk.done()
        if interrupted:
            raise typer.Exit(INTERRUPTED)
        return
    if len(table) > 1:
        raise typer.BadParameter("several files go with --cluster only")
    check_outputs([model, report], [*table], force=force)
    from snapimpute.cli import work

    job = work.Job.of(table[0], reading, talk)
    job.check_report(report)
    imputer, interrupted = job.fitted(fitting, talk)
    with seeing_through(talk) as seen:
        work.keep(imputer, model, talk)
    work.tell(job, imputer, report, talk, interrupted=interrupted or seen.interrupted)
