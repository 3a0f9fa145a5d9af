"""`snapimpute tune`: which λ and ξ, and what was tried."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snapimpute.app.cli._options import Fitting, Manner, Reading, check_outputs, said, shared, written_as
from snapimpute.app.cli._terminal import Terminal, new_table

if TYPE_CHECKING:
    from rich.table import Table

    from snapimpute.app.cli._work import Job
    from snapimpute.experts.proximal.choice import Choice
    from snapimpute.experts.proximal.tuned import TunedSpec

PICTURES = (".png", ".svg", ".pdf")


@shared(Reading, Fitting, Manner)
def tune(
    table: Annotated[str, typer.Argument(metavar="IN", help="The table; - reads a pipe.")],
    out: Annotated[str | None, typer.Option("--out", "-o", help="Write all that was tried, as a table.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the scores (PNG, SVG or PDF).")] = None,
    *,
    reading: Reading,
    fitting: Fitting,
    manner: Manner,
) -> None:
    """Choose λ, ξ and the centre on held-out known cells; say whether discreteness beat rounding."""
    from snapimpute.app.cli._work import Job
    from snapimpute.app.io import write_frame, writing

    terminal = Terminal(manner, to_stdout=out == "-")
    kind = written_as(out, None, table=True) if out is not None else ""
    if picture is not None and picture.suffix not in PICTURES:
        raise typer.BadParameter(f"--picture must end in {', '.join(PICTURES)}; got {str(picture)!r}")
    check_outputs([out, picture], [table], force=None)
    job = Job.of(table, reading, terminal)
    tuned, interrupted = _settled(job, fitting, terminal)
    choice = tuned.choice
    if choice is None:
        raise ValueError("there is nothing to choose: too few cells are known, or --lam, --xi and --center are given")
    terminal.say(_table(choice))
    if choice.verdict is not None:
        terminal.say(str(choice.verdict))
    found = {"lam": tuned.lam, "xi": tuned.xi, "center": tuned.spec.center}
    chosen = ["--lam", f"{tuned.lam:.6g}", "--xi", f"{tuned.xi:.6g}", "--center", tuned.spec.center or "none"]
    asked = [*said(reading), *said(fitting, "lam", "xi", "center", "cv")]
    command = shlex.join(["snapimpute", "complete", table, *asked, *chosen])
    terminal.say(f"to fit with that: {command} -o OUT")
    rows = _rows(choice)
    terminal.note(**found, metric=choice.metric, tried=rows, interrupted=interrupted)
    if out is not None:
        import polars as pl

        write_frame(pl.DataFrame(rows), out, kind)
        terminal.wrote(out, f": {len(rows)} pairs")
    if picture is not None:
        from snapimpute.app.report import figures

        with writing(str(picture)):
            figures.tuning(picture, choice)
        terminal.say(f"picture: {picture}")
        terminal.note(picture=str(picture))
    terminal.done(interrupted=interrupted)


def _settled(job: Job, fitting: Fitting, terminal: Terminal) -> tuple[TunedSpec, bool]:
    """Choose the strengths; return them, and True if the search was interrupted."""
    from snapimpute.estimator.imputer import METRICS
    from snapimpute.experts.proximal.model import in_units
    from snapimpute.experts.proximal.tuned import TuningInterruptedError

    watching = terminal.watching("tuning", centers=2, max_iter=fitting.max_iter)
    with terminal.saying_warnings(), watching as watcher:
        scale = job.book.scale(job.known.cols, job.known.values)
        known, alphabet = in_units(job.known, scale), job.book.one or job.book.scaled(scale)
        try:
            return fitting.settled(known, alphabet, METRICS[fitting.decide], fitting.options(), watcher.tried), False  # type: ignore[index]
        except TuningInterruptedError as err:
            terminal.warn("interrupted: this is the best of what was tried")
            return err.tuned, True


def _rows(choice: Choice) -> list[dict[str, Any]]:
    return [
        {"lam": c.lam, "xi": c.xi, "score": c.score, "error": c.error, "rank": c.rank, "iterations": c.n_iter}
        for c in choice.tried
    ]


def _table(choice: Choice) -> Table:
    """Scores by λ and ξ, the chosen one marked."""
    lams, xis, scores = choice.surface()
    percent, unit = (100.0, "% wrong") if choice.metric == "error" else (1.0, choice.metric)
    table = new_table(f"{unit} on held-out cells, by λ (down) and ξ (across)")
    table.add_column("λ", justify="right")
    for xi in xis:
        table.add_column(f"{xi:.3g}", justify="right", no_wrap=True)
    for lam, line in sorted(zip(lams, scores, strict=True), key=lambda pair: -pair[0]):
        cells = ["" if math.isnan(s) else f"{percent * s:.4g}" for s in line]
        mark = [c + (" ←" if (lam, xi) == (choice.lam, choice.xi) else "") for c, xi in zip(cells, xis, strict=True)]
        table.add_row(f"{lam:.4g}", *mark)
    return table
