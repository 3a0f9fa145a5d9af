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
    table: Annotated[str, typer.Argument(metavar="IN", help="The table to fit; - reads a pipe.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="Where to save the model: numbers and text, no code.")],
    report: Annotated[Path | None, typer.Option(help="Write a page about the fit, and how far to trust it.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Allow writing over the input.")] = False,
    *,
    reading: Reading,
    fitting: Fitting,
    manner: Manner,
) -> None:
    """Fit a model to a table and save it."""
    talk = Talk(manner)
    check_outputs([model, report], [table], force=force)
    job = Job.of(table, reading, talk)
    imputer, interrupted = job.fitted(fitting, talk)
    extras(job, imputer, model, report, talk, interrupted=interrupted)
    talk.done()
    if interrupted:
        raise typer.Exit(INTERRUPTED)
