"""`snapimpute reproduce`: the studies behind the documentation, run anew."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from snapimpute.experiments import recovery as study
from snapimpute.files import write_atomically

reproduce = typer.Typer(help="Run the studies behind the documentation.", no_args_is_help=True)


@reproduce.command()
def recovery(
    out: Annotated[
        Path, typer.Option(help="Folder for scores, table and figure; what is there already is kept.")
    ] = Path("recovery-output"),
    seeds: Annotated[int, typer.Option(min=2, help="Splits of each setting.")] = 10,
    source: Annotated[
        list[str] | None, typer.Option(help=f"Which of {', '.join(study.SOURCES)}; all if none.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Two shares, three seeds.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
) -> None:
    """Exact recovery and error against the share observed, with and without each discrete penalty."""
    sources = source or list(study.SOURCES)
    for name in sources:
        if name not in study.SOURCES:
            raise typer.BadParameter(f"there are {', '.join(study.SOURCES)}, got {name!r}", param_hint="--source")
    shares = study.SHARES[1:3] if quick else study.SHARES
    units = [(name, share, seed) for name in sources for share in shares for seed in range(3 if quick else seeds)]
    console = Console()
    scores = study.run_all(units, out / "scores", lambda work, rest: _spread(work, rest, jobs, console))
    lines = study.summarise(scores)
    table = study.as_markdown(lines)
    write_atomically(out / "recovery.md", table.encode())
    write_atomically(out / "recovery.json", json.dumps([asdict(line) for line in lines], indent=1).encode())
    from snapimpute.report import figures

    figures.recovery(out / "recovery.png", lines)
    console.print(table, markup=False, highlight=False)
    for name in sources:
        for share in shares:
            console.print(study.verdict(lines, name, share), highlight=False)
    console.print(f"\n{out / 'recovery.md'}, {out / 'recovery.json'}, {out / 'recovery.png'}")


def _spread(work: Callable[..., None], rest: list[Any], jobs: int, console: Console) -> None:
    """Run the units that are left in several processes with one thread each, and show how far it is."""
    os.environ["SNAPIMPUTE_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with (
        Progress(*columns, TimeRemainingColumn(), console=console) as bar,
        ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        task = bar.add_task("settings", total=len(rest))
        waiting = [pool.submit(work, *unit) for unit in rest]
        try:
            for done in as_completed(waiting):
                done.result()
                bar.advance(task)
        except BaseException:  # what is finished is kept; what has not begun is dropped
            pool.shutdown(wait=False, cancel_futures=True)
            raise
