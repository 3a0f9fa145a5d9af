"""Processes, progress and files: the common part of all studies."""

from __future__ import annotations

import io
import multiprocessing
import os
import platform
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reproduction.units import Job, Run, Scored, Unit, collect
from snapimpute.base.files import write_atomically
from snapimpute.data.datasets import DatasetUnavailable

S = TypeVar("S", bound=Scored)

CORES = os.cpu_count() or 1
POLL = 1.0
"""Seconds between two looks at what is finished."""

PACKAGES = ("snapimpute", "numpy", "scipy", "numba", "scikit-learn")


class StudyRunner:
    """A folder for results, a console to show them on, and processes to make them in.

    Scores are kept in a folder of their own, one for each study, so that a study
    that was broken off goes on from there.
    """

    def __init__(self, out: Path, jobs: int) -> None:
        self.out, self.jobs, self.console = out, jobs, Console()

    def collect(self, study: str, run: Run, kind: type[S], wanted: Mapping[Unit, Mapping[str, str]]) -> list[S]:
        """The scores of a study: those that are there already, and the others, which are made."""
        return collect(run, kind, wanted, self.out / "scores" / study, self._spread)

    def available(self, loaders: Mapping[str, Callable[[], Any]]) -> list[str]:
        """The data that can be had; of the others say why not."""
        found = []
        for name, load in loaders.items():
            try:
                load()
            except DatasetUnavailable as err:
                self.say(f"{name} is left out: {err}")
            else:
                found.append(name)
        return found

    def _spread(self, rest: Sequence[Job]) -> None:
        """Run what is left in several processes with one thread each, and show how far they are."""
        if not rest:
            return
        os.environ["SNAPIMPUTE_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        spawn = multiprocessing.get_context("spawn")
        with (
            Progress(*columns, TimeRemainingColumn(), console=self.console) as bar,
            ProcessPoolExecutor(self.jobs, spawn, initializer=end_with_parent) as pool,
        ):
            task = bar.add_task("scores", total=sum(len(job.methods) for job in rest))
            waiting = {pool.submit(job.work) for job in rest}
            try:
                while waiting:
                    finished, waiting = wait(waiting, timeout=POLL, return_when=FIRST_EXCEPTION)
                    for one in finished:
                        one.result()
                    bar.update(task, completed=sum(job.done() for job in rest))
            except BaseException:  # what is finished is kept; what has not begun is dropped
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def write(self, name: str, table: str, rows: Sequence[Any], without: str = "") -> None:
        """Write a table for people, and its numbers, but for one field, as CSV and Parquet; show the table."""
        write_atomically(self.out / f"{name}.md", table.encode())
        self.tidy(name, [{of: value for of, value in asdict(row).items() if of != without} for row in rows])
        self.console.print(table, markup=False, highlight=False, soft_wrap=True)
        self.say(f"Table and numbers: {self.out / name}.md, .csv, .parquet")

    def tidy(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write numbers, one row for each, as CSV and Parquet."""
        import polars as pl

        frame = pl.DataFrame(list(rows), infer_schema_length=None)
        write_atomically(self.out / f"{name}.csv", frame.write_csv().encode())
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        write_atomically(self.out / f"{name}.parquet", buffer.getvalue())

    def picture(self, name: str) -> Path:
        """Return the path of a figure without its suffix, and print it."""
        self.say(f"Picture: {self.out / name}.png, .svg, .pdf")
        return self.out / name

    def about(self, splits: str) -> str:
        """The command, the versions and the splits that made the results, as Markdown; written, too."""
        words = " ".join(shlex.quote(word) for word in ["snapimpute", *sys.argv[1:]])
        versions = [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)]
        lines = [f"`{words}`", "", f"- {', '.join(versions)}", f"- {splits}"]
        lines.append(f"- {platform.system()} {platform.machine()}, {CORES} cores, {self.jobs} processes")
        text = "\n".join(lines) + "\n"
        write_atomically(self.out / "about.md", text.encode())
        return text

    def say(self, text: str) -> None:
        """Print a line as it is."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def end_with_parent() -> None:
    """Have this process end when the one that started it is killed: it would wait for work for ever."""
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def units(
    data: Mapping[str, tuple[Any, Sequence[float]]], names: Iterable[str], seeds: int, most: int | None = None
) -> list[Unit]:
    """Every seed at the shares, or the first ``most`` of them, of some data."""
    return [(name, share, seed) for name in names for share in data[name][1][:most] for seed in range(seeds)]


def known(asked: list[str] | None, names: Iterable[str], option: str) -> list[str]:
    """The names asked for, or all; refuse others."""
    every = list(names)
    for name in asked or ():
        if name not in every:
            raise typer.BadParameter(f"there are {', '.join(every)}, got {name!r}", param_hint=option)
    return list(dict.fromkeys(asked)) if asked else every
