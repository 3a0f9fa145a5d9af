"""`snapimpute complete`: a table with holes in, the table filled out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapimpute.cli import INTERRUPTED, cells, work
from snapimpute.cli.cells import MOST_CELLS
from snapimpute.cli.interruption import seeing_through
from snapimpute.cli.options import Fitting, Manner, Reading, check_outputs, shared, written_as
from snapimpute.cli.talk import Talk
from snapimpute.cli.work import Job
from snapimpute.estimator import SnapImputer
from snapimpute.formats import MATRICES, Wide, check_sheet, missing_cells, writing
from snapimpute.tables import MAX_FILLED_CELLS


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
    talk = Talk(manner, to_stdout=out == "-")
    kind = written_as(out, to)
    if only is not None and top is not None:
        raise typer.BadParameter("give --cells or --top, not both")
    if table == only == "-":
        raise typer.BadParameter("standard input can be read once: name a file for the table or for --cells")
    if probability and fitting.decide == "nearest":
        raise typer.BadParameter("--decide nearest has no probabilities: leave out --probability")
    check_outputs([out, model, report], [table, only], force=force)
    job = Job.of(table, reading, talk)
    _check_request(job, kind, only, top, probability)
    job.check_report(report)
    imputer, interrupted = job.fitted(fitting, talk)
    with seeing_through(talk) as seen:
        filled, left = _write(job, imputer, out, kind, only, top, probability)
        where = "standard output" if out == "-" else out
        talk.say(f"wrote {where}: {filled:,} cells filled in" + (f", {left:,} left open" if left else ""))
        talk.note(output=where, filled=filled, left_open=left)
        keep(imputer, model, talk)
    tell(job, imputer, report, talk, interrupted=interrupted or seen.interrupted)


def keep(imputer: SnapImputer, model: Path | None, talk: Talk) -> None:
    """Save the model, if asked."""
    if model is None:
        return
    with writing(str(model)):
        imputer.save(model)
    talk.say(f"model: {model}")
    talk.note(model=str(model))


def tell(job: Job, imputer: SnapImputer, report: Path | None, talk: Talk, *, interrupted: bool) -> None:
    """Write the report, if asked, and end: with the exit code of an interruption, if there was one."""
    if report is not None and interrupted:
        talk.warn("no report was written: it takes further fits, and the command was interrupted")
    elif report is not None:
        try:
            _report(job, imputer, report, talk)
        except KeyboardInterrupt:
            interrupted = True
            talk.warn("interrupted: no report was written")
    talk.note(interrupted=interrupted)
    talk.done()
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _report(job: Job, imputer: SnapImputer, report: Path, talk: Talk) -> None:
    from snapimpute.evaluation import check

    with talk.saying_warnings():
        evaluation = check(job.known, imputer)
    with writing(str(report)):
        work.report(report, job, imputer, evaluation, f"{Path(job.source.where).name} completed")
    talk.say(f"report: {report}")
    talk.note(report=str(report))


def _check_request(job: Job, kind: str, only: str | None, top: int | None, probability: bool) -> None:
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


def _write(
    job: Job, imputer: SnapImputer, out: str, kind: str, only: str | None, top: int | None, probability: bool
) -> tuple[int, int]:
    source = job.source
    if isinstance(source, Wide):
        return cells.write_whole(source, cells.completed(source, imputer), out, kind)
    if kind in MATRICES:
        return cells.write_dense(job.known, imputer, out, kind)
    if only is not None:
        asked: cells.Cells = [cells.asked_cells(only, imputer)]
    elif top is not None:
        asked = cells.top_cells(imputer, top)
    else:
        asked = missing_cells(job.known)
    return cells.write_cells(imputer, asked, out, kind, list(source.names), probability=probability)
