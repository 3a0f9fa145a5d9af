"""`snapimpute evaluate`: hide some of what is known, complete, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snapimpute.app.cli._options import Fitting, Manner, Reading
from snapimpute.app.cli._sharing import check_outputs, shared
from snapimpute.app.cli._terminal import Terminal, new_table

if TYPE_CHECKING:
    from rich.table import Table

    from snapimpute.app.cli._work import Job
    from snapimpute.estimator.evaluation import Evaluation

TOLD = ("label", "kind", "exact", "error", "mae", "rmse")
"""Scores of a way that scripts get."""


@shared(Reading, Fitting, Manner)
def evaluate(
    table: Annotated[str, typer.Argument(metavar="IN", help="The table; - reads a pipe.")],
    share: Annotated[float, typer.Option(min=0.001, max=0.999, help="Share of the known cells to hide.")] = 0.2,
    report: Annotated[Path | None, typer.Option(help="Write a page with all of it.")] = None,
    *,
    reading: Reading,
    fitting: Fitting,
    manner: Manner,
) -> None:
    """Hide some known cells, complete the table without them, and score what was filled in against baselines.

    Everything, tuning included, is done without the hidden cells.
    """
    from snapimpute.app.cli import _work as work
    from snapimpute.app.cli._telling import facts, told
    from snapimpute.app.io import writing

    terminal = Terminal(manner)
    check_outputs([report], [table], force=None)
    job = work.Job.of(table, reading, terminal)
    found, interrupted = _evaluated(job, fitting, share, terminal)
    for line in told(found.imputer):
        terminal.say(line)
    terminal.note(
        interrupted=interrupted,
        **facts(found.imputer),
        hidden=len(found.hidden),
        ways=[{name: getattr(way, name) for name in TOLD} for way in found.ways],
    )
    terminal.say(_table(found))
    terminal.say(str(found))
    calibration = found.reliability()
    if calibration is not None:
        terminal.say(f"probabilities are off by {100 * calibration.error:.1f} points on average")
        terminal.note(calibration_error=calibration.error)
    if report is not None:
        found.imputer.set_params(callback=None, progress=None)
        with writing(str(report)):
            work.report(report, job, found.imputer, found, f"{Path(job.source.where).name} evaluated")
        terminal.say(f"report: {report}")
        terminal.note(report=str(report))
    terminal.done(interrupted=interrupted)


def _evaluated(job: Job, fitting: Fitting, share: float, terminal: Terminal) -> tuple[Evaluation, bool]:
    """The scores, and whether the fit was interrupted: then they are those of the best so far."""
    from snapimpute.app.cli import _work as work
    from snapimpute.estimator import evaluation

    interrupted = []
    with terminal.watching("fitting", centers=2, max_iter=fitting.proximal.max_iter) as watcher:
        imputer = fitting.imputer(job.book.by_column, callback=watcher.iterated, progress=watcher.tried)
        with terminal.saying_warnings():
            found = evaluation.evaluate(
                job.known,
                imputer,
                share=share,
                random_state=fitting.seed,
                fit=lambda one, X: interrupted.append(work.fit(one, X, terminal)),
            )
    return found, any(interrupted)


def _table(found: Evaluation) -> Table:
    table = new_table(f"{len(found.hidden):,} hidden cells")
    table.add_column("filled in by", no_wrap=True)
    for name in ("right %", "± s.e.", "MAE", "RMSE"):
        table.add_column(name, justify="right", no_wrap=True)
    for way in found.ways:
        numbers = (f"{100 * way.exact:.2f}", f"{100 * way.error:.2f}", f"{way.mae:.4f}", f"{way.rmse:.4f}")
        table.add_row(way.label, *numbers, style="bold" if way.kind == "ours" else None)
    return table
