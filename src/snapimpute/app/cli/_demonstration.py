"""Show the main job on the bundled votes: every method, a table, pictures and a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from snapimpute.app.cli._terminal import Terminal, new_table
from snapimpute.app.io import check_output, writing
from snapimpute.base.files import write_atomically
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets import Dataset, senate_votes
from snapimpute.data.observations import Observations
from snapimpute.estimator.comparison import Outcome, compare, remark, verdict
from snapimpute.evaluation import metrics


def show(out: Path, congress: int, observed: float, seed: int, terminal: Terminal) -> None:
    """Hide votes of one Senate, complete them in every way, and leave the files in a folder."""
    for name in ("completed.csv", "demo.png", "reliability.png", "report.html"):
        check_output(str(out / name), [], force=None)  # now, not after a minute
    data = senate_votes(congress)
    known, hidden = data.observations.split(1 - observed, random_state=seed)
    m, n = data.shape
    terminal.say(
        f"{data.name}: {m} senators × {n} roll calls, {len(data.observations):,} votes (0 nay, 1 yea). "
        f"{len(known):,} stay visible, {len(hidden):,} are hidden and predicted."
    )
    outcomes = _compared(known, hidden, data.alphabet, seed, terminal)
    terminal.say(_table(outcomes))
    terminal.say(f"{verdict(outcomes)} {remark(data.alphabet)}")
    terminal.say(_estimator(out, data, known, hidden, seed))
    best = min((o for o in outcomes if o.held_out is not None), key=lambda o: o.held_out or 0.0)
    filled = fill(known, best, data.alphabet)
    _write(out, data, known, filled, outcomes, f"US Senate, {congress}th Congress: {best.label}")
    terminal.say(
        f"\nFilled in by the method with the best held-out score, {best.label}:\n"
        f"  {out / 'completed.csv'}: every vote, known or filled in\n"
        f"  {out / 'demo.png'}: the table before and after, convergence, errors\n"
        f"  {out / 'reliability.png'}: how far to trust the probabilities\n"
        f"  {out / 'report.html'}: a page about the fit of SnapImputer\n{data.citation}"
    )
    wrong = {one.label: one.error for one in outcomes}
    terminal.note(
        data=data.name, visible=len(known), hidden=len(hidden), wrong=wrong, best=best.label, output=str(out)
    )
    terminal.done()


def _compared(
    known: Observations, hidden: Observations, alphabet: Alphabet, seed: int, terminal: Terminal
) -> list[Outcome]:
    """All methods, tuned and fitted, with progress."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=terminal.errors, disable=terminal.silent) as bar:
        task = bar.add_task("")
        outcomes = compare(
            known,
            hidden,
            alphabet,
            random_state=seed,
            progress=lambda label: bar.update(task, description=f"tuning and fitting: {label}"),
        )
        bar.update(task, description="all methods")
    return outcomes


def _estimator(out: Path, data: Dataset, known: Observations, hidden: Observations, seed: int) -> str:
    """Fit the estimator with its defaults, and write its report; how often symbols and probabilities are wrong."""
    from snapimpute.app.cli._telling import repeat
    from snapimpute.app.report import figures
    from snapimpute.app.report.page import write_report
    from snapimpute.data.schema import ColumnSchema
    from snapimpute.estimator.evaluation import check
    from snapimpute.estimator.imputer import SnapImputer

    alphabet, (m, n) = data.alphabet, data.shape
    imp = SnapImputer(alphabet, random_state=seed).fit(known)
    wrong = 1 - metrics.exact_match(hidden.values, imp.predict(hidden.rows, hidden.cols))
    found = metrics.reliability(hidden.values, imp.predict_proba(hidden.rows, hidden.cols), alphabet)
    with writing(str(out / "reliability.png")):
        figures.reliability(out / "reliability.png", {"SnapImputer with its defaults": found})
    read = [("data", data.name), ("table", f"{m} senators × {n} roll calls, {len(known):,} votes visible")]
    settings = repeat(imp, ColumnSchema.single(alphabet, n))
    page = out / "report.html"
    with writing(str(page)):
        write_report(page, imp, known, check(known, imp), read=read, settings=settings, title=data.name)
    return (
        f"\nSnapImputer with its defaults: {100 * wrong:.2f} % wrong; its probabilities are off by "
        f"{100 * found.error:.1f} points on average.\nOn the visible votes: {imp.verdict_}"
    )


def fill(known: Observations, outcome: Outcome, alphabet: Alphabet) -> Array:
    """Return the whole table: known entries as they are, the rest snapped to the alphabet."""
    if outcome.result is None:
        raise ValueError(f"{outcome.label} has no fitted matrix")
    rows, cols = np.indices(known.shape)
    filled = alphabet.snap(outcome.result.entries(rows, cols))
    filled[known.rows, known.cols] = known.values
    return filled


def _table(outcomes: list[Outcome]) -> Table:
    table = new_table("Hidden votes; λ and ξ chosen on held-out visible votes")
    table.add_column("method", no_wrap=True)
    for name in ("λ", "ξ", "rank", "wrong %", "± s.e.", "NMSE", "κ"):
        table.add_column(name, justify="right", no_wrap=True)
    least = min(o.error for o in outcomes)
    for o in outcomes:
        style = "bold" if o.error == least else None
        table.add_row(
            o.label,
            "" if o.lam is None else f"{o.lam:.3g}",
            "" if not o.xi else f"{o.xi:.3g}",
            "" if o.result is None else str(o.result.x.rank),
            f"{100 * o.error:.2f}",
            f"{100 * o.standard_error:.2f}",
            f"{o.scores['nmse']:.4f}",
            "–" if np.isnan(o.scores["kappa"]) else f"{o.scores['kappa']:.3f}",
            style=style,
        )
    return table


def _write(out: Path, data: Dataset, known: Observations, filled: Array, outcomes: list[Outcome], title: str) -> None:
    from snapimpute.app.report import figures

    rows = known.row_labels if known.row_labels is not None else np.arange(known.shape[0])
    cols = known.col_labels if known.col_labels is not None else np.arange(known.shape[1])
    lines = [",".join(["icpsr", *map(str, cols)])]
    lines += [",".join([str(label), *(f"{v:g}" for v in row)]) for label, row in zip(rows, filled, strict=True)]
    with writing(str(out / "completed.csv")):
        write_atomically(out / "completed.csv", ("\n".join(lines) + "\n").encode())
    with writing(str(out / "demo.png")):
        figures.completion(out / "demo.png", known, filled, outcomes, data.alphabet, title)
