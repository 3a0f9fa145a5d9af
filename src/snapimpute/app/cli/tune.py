"""`snapimpute tune`: which experts, or which λ and ξ of the proximal one, and what was tried."""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snapimpute.app.cli._options import PROXIMAL_OPTIONS, Fitting, Manner, Reading
from snapimpute.app.cli._sharing import check_outputs, said, shared, written_as
from snapimpute.app.cli._terminal import Terminal, new_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from snapimpute.app.cli._work import Job
    from snapimpute.estimator.imputer import SnapImputer
    from snapimpute.experts.blend import ExpertScore
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
    """Compare experts on held-out known cells, or tune the proximal one; say what won, and how to fit with that.

    With --method proximal, or an option of that expert, λ, ξ and the centre are chosen.
    """
    from snapimpute.app.cli._work import Job

    terminal = Terminal(manner, to_stdout=out == "-")
    kind = written_as(out, None, table=True) if out is not None else ""
    if picture is not None and picture.suffix not in PICTURES:
        raise typer.BadParameter(f"--picture must end in {', '.join(PICTURES)}; got {str(picture)!r}")
    if not fitting.blends and fitting.methods != ("proximal",):
        raise typer.BadParameter(
            f"with --method {fitting.method} alone there is nothing to compare: name several experts, such as "
            f"{fitting.method},proximal, or leave it out"
        )
    check_outputs([out, picture], [table], force=None)
    job = Job.of(table, reading, terminal)
    compared = _experts if fitting.blends else _strengths
    rows, draw, interrupted = compared(job, table, reading, fitting, terminal)
    if out is not None:
        import polars as pl

        from snapimpute.app.io import write_frame

        write_frame(pl.DataFrame(rows), out, kind)
        terminal.wrote(out, f": {len(rows)} {'experts' if fitting.blends else 'pairs'}")
    if picture is not None:
        from snapimpute.app.io import writing

        with writing(str(picture)):
            draw(picture)
        terminal.say(f"picture: {picture}")
        terminal.note(picture=str(picture))
    terminal.done(interrupted=interrupted)


Tuned = tuple[list[dict[str, Any]], "Callable[[Path], None]", bool]
"""What was tried, a function that draws it, and whether that was interrupted."""


def _say_command(terminal: Terminal, table: str, words: list[str]) -> None:
    command = shlex.join(["snapimpute", "complete", table, *words])
    terminal.say(f"to fit with that: {command} -o OUT")


# ---------------------------------------------------------------- experts
def _experts(job: Job, table: str, reading: Reading, fitting: Fitting, terminal: Terminal) -> Tuned:
    """Weigh experts on held-out cells."""
    from snapimpute.app.cli._telling import facts
    from snapimpute.app.cli._work import fit
    from snapimpute.app.report import figures

    with terminal.watching("comparing", max_iter=fitting.proximal.max_iter) as watcher:
        imputer = fitting.imputer(job.book.by_column, callback=watcher.iterated, progress=watcher.tried)
        interrupted = fit(imputer, job.table, terminal)
    if not imputer.verdict_.cells:
        raise ValueError("there is nothing to compare: too few cells are known to hold any out")
    terminal.say(_expert_table(imputer.experts_))
    terminal.say(str(imputer.verdict_))
    names = _winners(imputer)
    unused = () if "proximal" in names else (*PROXIMAL_OPTIONS, "backend", "dtype")
    asked = [*said(reading), *said(fitting, "method", "time_limit", *unused)]
    _say_command(terminal, table, [*asked, *(["--method", ",".join(names)] if names else [])])
    terminal.note(**facts(imputer), interrupted=interrupted)
    rows = [asdict(one) for one in imputer.experts_]
    return rows, lambda path: figures.experts(path, imputer), interrupted


def _winners(imputer: SnapImputer) -> list[str]:
    """Return the names of the experts that have weight, as --method takes them.

    There are none if an expert has no name there, or would by its name alone not take the table, as a mosaic without
    an order.
    """
    from snapimpute.experts.methods import METHODS

    fit = imputer.fit_
    names = list(dict.fromkeys(one.expert.name for one in fit.members))
    by_name = [METHODS[name]() for name in names if name in METHODS]
    taken = [one.objection(fit.observations, fit.schema) is None for one in by_name]
    return names if len(taken) == len(names) and all(taken) else []


def _expert_table(scores: tuple[ExpertScore, ...]) -> Table:
    cells = max((one.cells for one in scores), default=0)
    table = new_table(f"log loss on {cells:,} held-out cells, lower is better")
    table.add_column("expert", no_wrap=True)
    for name in ("log loss", "± s.e.", "wrong %", "weight", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("left out because", overflow="fold")
    for one in scores:
        numbers = (f"{one.loss:.4f}", f"{one.error:.4f}", f"{100 * one.wrong:.1f}")
        known = numbers if math.isfinite(one.loss) else ("–", "–", "–")
        weight = f"{one.weight:.2f}" if one.weight else "–"
        style = "bold" if one.weight == max(each.weight for each in scores) else None
        table.add_row(one.name, *known, weight, f"{one.seconds:.1f}", one.reason, style=style)
    return table


# ---------------------------------------------------------------- strengths of the proximal expert
def _strengths(job: Job, table: str, reading: Reading, fitting: Fitting, terminal: Terminal) -> Tuned:
    """Choose λ, ξ and the centre."""
    from snapimpute.app.report import figures

    tuned, interrupted = _settled(job, fitting, terminal)
    choice = tuned.choice
    if choice is None:
        raise ValueError("there is nothing to choose: too few cells are known, or --lam, --xi and --center are given")
    terminal.say(_table(choice))
    if choice.verdict is not None:
        terminal.say(str(choice.verdict))
    chosen = ["--lam", f"{tuned.lam:.6g}", "--xi", f"{tuned.xi:.6g}", "--center", tuned.spec.center or "none"]
    asked = [*said(reading), *said(fitting, "lam", "xi", "center", "cv")]
    _say_command(terminal, table, [*asked, *chosen])
    rows = _rows(choice)
    found = {"lam": tuned.lam, "xi": tuned.xi, "center": tuned.spec.center}
    terminal.note(method="proximal", **found, metric=choice.metric, tried=rows, interrupted=interrupted)
    return rows, lambda path: figures.tuning(path, choice), interrupted


def _settled(job: Job, fitting: Fitting, terminal: Terminal) -> tuple[TunedSpec, bool]:
    """Choose the strengths; return them, and True if the search was interrupted."""
    from snapimpute.experts.proximal.fitting import ProximalData
    from snapimpute.experts.proximal.tuned import TuningInterruptedError

    shared = {"backend": fitting.backend, "dtype": fitting.dtype, "decide": fitting.decide}
    expert = fitting.proximal.sharing(random_state=fitting.seed, **shared)
    watching = terminal.watching("tuning", centers=2, max_iter=expert.max_iter)
    with terminal.saying_warnings(), watching as watcher:
        try:
            return expert.tuned(ProximalData(job.known, job.book), watcher.tried), False
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
