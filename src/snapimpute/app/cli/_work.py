"""Steps that commands share: read a table, fit, report on the fit, write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snapimpute.app.cli._options import Fitting, Reading
from snapimpute.app.cli._telling import alphabets, facts, repeat, told
from snapimpute.app.cli._terminal import Terminal
from snapimpute.app.io import Triplets, Wide, read_file, writing
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import Table
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.proximal.expert import ProximalFit

LEAST_REPORTED = 3
"""Cells of a table: one fifth of fewer is none."""


@dataclass(frozen=True, eq=False)
class Job:
    """A table that was read, once: how its file has it, its known cells, and the table that is fitted."""

    source: Wide | Triplets
    known: Observations
    table: Table
    read: list[tuple[str, str]]

    @classmethod
    def of(cls, path: str, reading: Reading, terminal: Terminal) -> Job:
        """Read a table, and say what was found."""
        spec = reading.spec
        source = read_file(path, reading.options, spec)
        terminal.say(read_as(source))
        if not spec.given:
            book = source.observations("infer")[1].schema
            raise ValueError(
                f"say what a cell can hold with --alphabet. In {source.where} was found: "
                f"{book.describe()}; take that with "
                f"--alphabet infer, or give all symbols, such as --alphabet 1:5"
            )
        names = source.values.columns if isinstance(source, Wide) else source.col_labels.tolist()
        known, table = source.observations(spec.for_columns(names))
        book = table.schema
        m, n = known.shape
        found = [
            ("table", f"{m:,} rows × {n:,} columns, {len(known):,} cells known ({100 * known.density:.3g} %)"),
            ("alphabet", book.describe()),
        ]
        for name, text in found:
            terminal.say(f"{name}: {text}")
        facts = {"input": source.where, "layout": source.layout, "rows": m, "columns": n, "known": len(known)}
        terminal.note(**facts, alphabet=alphabets(book))
        return cls(source, known, table, [*source.notes, *found])

    @property
    def book(self) -> ColumnSchema:
        """Alphabet of each column."""
        return self.table.schema

    @property
    def missing(self) -> int:
        """Cells that are not known."""
        return self.known.shape[0] * self.known.shape[1] - len(self.known)

    def check_report(self, report: Path | None) -> None:
        """Refuse a report about a table of which no cell can be hidden, before the fit."""
        if report is not None and len(self.known) < LEAST_REPORTED:
            raise ValueError(
                f"{self.source.where} has {len(self.known)} known cell(s), and a report takes {LEAST_REPORTED} at "
                "least, to hide one of them: leave out --report"
            )

    def fitted(self, fitting: Fitting, terminal: Terminal) -> tuple[SnapImputer, bool]:
        """Fit with progress; the second is whether that was interrupted, with the best so far kept."""
        with terminal.watching("fitting", centers=2, max_iter=fitting.proximal.max_iter) as watcher:
            imputer = fitting.imputer(self.book.by_column, callback=watcher.iterated, progress=watcher.tried)
            interrupted = fit(imputer, self.table, terminal)
        imputer.set_params(callback=None, progress=None)
        if imputer.row_labels_ is None:
            imputer.row_labels_, imputer.col_labels_ = self.known.row_labels, self.known.col_labels
        names = list(self.source.names) if isinstance(self.source, Triplets) else []
        imputer.source_ = {"layout": self.source.layout, "names": names}
        for line in told(imputer):
            terminal.say(line)
        terminal.note(**facts(imputer), interrupted=interrupted)
        return imputer, interrupted


def read_as(source: Wide | Triplets) -> str:
    """Describe in one line how a table was read."""
    (_, where), *rest = source.notes
    return f"read {where}: {' · '.join(f'{name} {text}' for name, text in rest)}"


def fit(imputer: SnapImputer, X: Any, terminal: Terminal) -> bool:
    """Fit, and say each warning once; whether it was interrupted, with something to keep."""
    with terminal.saying_warnings():
        try:
            imputer.fit(X)
        except KeyboardInterrupt:
            if not hasattr(imputer, "fit_"):
                raise
            terminal.warn("interrupted: going on with the best so far")
            if isinstance(imputer.fit_, ProximalFit) and imputer.n_iter_ == 0:
                terminal.warn(
                    "the last fit had not begun, so that this knows the mean only: fit again with "
                    f"--lam {imputer.lam_:.6g} --xi {imputer.xi_:.6g} --center {imputer.center_ or 'none'}"
                )
            return True
    return False


def report(path: Path, job: Job, imputer: SnapImputer, evaluation: Any, title: str) -> None:
    """Write the page about a fit."""
    from snapimpute.app.report.page import write_report

    write_report(path, imputer, job.known, evaluation, read=job.read, settings=repeat(imputer, job.book), title=title)


def keep(imputer: SnapImputer, model: Path | None, terminal: Terminal) -> None:
    """Save the model, if asked."""
    if model is None:
        return
    with writing(str(model)):
        imputer.save(model)
    terminal.say(f"model: {model}")
    terminal.note(model=str(model))


def tell(job: Job, imputer: SnapImputer, report: Path | None, terminal: Terminal, *, interrupted: bool) -> None:
    """Write the report, if asked, and end: with the exit code of an interruption, if there was one."""
    if report is not None and interrupted:
        terminal.warn("no report was written: it takes further fits, and the command was interrupted")
    elif report is not None:
        try:
            _report(job, imputer, report, terminal)
        except KeyboardInterrupt:
            interrupted = True
            terminal.warn("interrupted: no report was written")
    terminal.note(interrupted=interrupted)
    terminal.done(interrupted=interrupted)


def _report(job: Job, imputer: SnapImputer, path: Path, terminal: Terminal) -> None:
    from snapimpute.estimator.evaluation import check

    with terminal.saying_warnings():
        evaluation = check(job.known, imputer)
    with writing(str(path)):
        report(path, job, imputer, evaluation, f"{Path(job.source.where).name} completed")
    terminal.say(f"report: {path}")
    terminal.note(report=str(path))
