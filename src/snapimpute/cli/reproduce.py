"""`snapimpute reproduce`: the studies behind the documentation, run anew."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from snapimpute.experiments import gallery, paper
from snapimpute.experiments import recovery as recovering
from snapimpute.experiments import systems as comparing
from snapimpute.experiments.units import Job, collect
from snapimpute.files import write_atomically

reproduce = typer.Typer(help="Run the studies behind the documentation.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder; scores that are there already are kept.")]
Jobs = Annotated[int, typer.Option(min=1, help="Processes, with one thread each.")]
CORES = os.cpu_count() or 1


@reproduce.command()
def recovery(
    out: Annotated[Path, typer.Option(help="Folder; scores that are there already are kept.")] = Path(
        "recovery-output"
    ),
    seeds: Annotated[int, typer.Option(min=2, help="Splits of each setting.")] = 10,
    source: Annotated[list[str] | None, typer.Option(help=f"{', '.join(recovering.SOURCES)}; all if none.")] = None,
    quick: Annotated[bool, typer.Option(help="Two shares and two seeds only.")] = False,
    jobs: Jobs = CORES,
) -> None:
    """Exact recovery and error against the share observed, with and without each discrete penalty."""
    sources = _known(source, recovering.SOURCES, "--source")
    shares = recovering.SHARES[1:3] if quick else recovering.SHARES
    units = [(name, share, seed) for name in sources for share in shares for seed in range(2 if quick else seeds)]
    console = Console()
    scores = collect(
        recovering.run_unit,
        recovering.Score,
        units,
        recovering.prints(),
        out / "scores",
        lambda rest: _spread(rest, jobs, console),
    )
    lines = recovering.summarise(scores)
    _write(out, "recovery", recovering.as_markdown(lines), lines, console)
    from snapimpute.report import figures

    figures.recovery(out / "recovery.png", lines)
    for name in sources:
        for share in shares:
            console.print(recovering.verdict(lines, name, share), markup=False, highlight=False)
    console.print(f"Picture: {out / 'recovery.png'}", markup=False)


@reproduce.command()
def systems(
    out: Annotated[Path, typer.Option(help="Folder; scores that are there already are kept.")] = Path(
        "systems-output"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Splits of each setting.")] = 3,
    data: Annotated[list[str] | None, typer.Option(help=f"{', '.join(comparing.DATA)}; all if none.")] = None,
    system: Annotated[list[str] | None, typer.Option(help="Names as in the table; all if none.")] = None,
    jobs: Jobs = CORES,
) -> None:
    """Other systems for finite alphabets beside ours, on the same splits, each tuned on observed entries."""
    chosen, asked = _known(data, comparing.DATA, "--data"), _known(system, comparing.SYSTEMS, "--system")
    console = Console()
    scores = []
    for name in chosen:
        scores += collect(
            comparing.run_unit,
            comparing.Score,
            [(name, share, seed) for share in comparing.DATA[name][1] for seed in range(seeds)],
            {one: code for one, code in comparing.prints(name).items() if one in asked},
            out / "scores",
            lambda rest: _spread(rest, jobs, console),
        )
    _write(out, "systems", comparing.as_markdown(scores), scores, console)


@reproduce.command()
def fig1(
    out: Out = Path("paper-output"),
    seeds: Annotated[int, typer.Option(min=1, help="Splits of each share.")] = 5,
    method: Annotated[list[str] | None, typer.Option(help="Names as in the table; all if none.")] = None,
    quick: Annotated[
        bool, typer.Option(help="Two shares, one seed, some methods, tuned on held-out ratings.")
    ] = False,
    jobs: Jobs = CORES,
) -> None:
    """The paper's Figure 1: NMSE against the share of MovieLens-100k that is observed, with controls."""
    console = Console()
    asked = _known(method, paper.QUICK if quick else [*paper.BASELINES, *paper.METHODS], "--method")
    scores: list[paper.Score] = []
    for kinds, shares in paper.CURVES:
        codes = paper.prints(kinds, asked)
        scores += collect(
            paper.run_unit,
            paper.Score,
            [
                ("movielens", s, seed)
                for s in ((0.2, 0.4) if quick else shares)
                for seed in range(1 if quick else seeds)
            ],
            {name: code for name, code in codes.items() if not (quick and name.endswith(paper.ON_TEST))},
            out / "scores",
            lambda rest: _spread(rest, jobs, console),
        )
    lines = paper.summarise(scores)
    _write(out, "fig1", paper.as_markdown(lines), lines, console)
    from snapimpute.report import figures

    for on_test, name in ((False, "held-out"), (True, "best-on-test")):
        drawn = [line for line in lines if line.on_test == on_test]
        if drawn:
            figures.shares(out / f"fig1-{name}.png", drawn, paper.TITLES[on_test])
            console.print(f"Picture: {out / f'fig1-{name}.png'}", markup=False)


@reproduce.command()
def fig2(
    out: Out = Path("paper-output"),
    seeds: Annotated[int, typer.Option(min=1, help="Splits.")] = 5,
    quick: Annotated[bool, typer.Option(help="One seed, the fast methods.")] = False,
    jobs: Jobs = CORES,
) -> None:
    """The paper's Figure 2: NMSE against iterations, 20 % of MovieLens-100k observed."""
    console = Console()
    codes = paper.curve_prints(paper.QUICK if quick else tuple(paper.METHODS))
    units = [("movielens", 0.2, seed) for seed in range(1 if quick else seeds)]
    curves = collect(
        paper.run_curve, paper.Curve, units, codes, out / "curves", lambda rest: _spread(rest, jobs, console)
    )
    write_atomically(out / "fig2.json", json.dumps([asdict(curve) for curve in curves], indent=1).encode())
    from snapimpute.report import figures

    figures.iterations(out / "fig2.png", curves, "MovieLens-100k, 20 % observed, tuned on held-out ratings")
    for curve in curves:
        console.print(
            f"{curve.method}, seed {curve.seed}: NMSE {curve.nmse[-1]:.4f}, settled after {curve.settled} iterations",
            markup=False,
            highlight=False,
        )
    console.print(f"Picture: {out / 'fig2.png'}", markup=False)


@reproduce.command()
def penalties(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("penalties-output"),
) -> None:
    """Draw what every discrete penalty does to a value, on the alphabets 1..5 and ±1."""
    from snapimpute.report import figures

    for name, (alphabet, shown) in gallery.GALLERY.items():
        figures.penalties(out / f"{name}.png", alphabet, shown)
        typer.echo(out / f"{name}.png")


def _known(asked: list[str] | None, names: Iterable[str], option: str) -> list[str]:
    """The names asked for, or all; refuse others."""
    every = list(names)
    for name in asked or ():
        if name not in every:
            raise typer.BadParameter(f"there are {', '.join(every)}, got {name!r}", param_hint=option)
    return list(dict.fromkeys(asked)) if asked else every


def _write(out: Path, name: str, table: str, rows: Sequence[Any], console: Console) -> None:
    """Write a table and its numbers, and show the table."""
    write_atomically(out / f"{name}.md", table.encode())
    write_atomically(out / f"{name}.json", json.dumps([asdict(row) for row in rows], indent=1).encode())
    console.print(table, markup=False, highlight=False, soft_wrap=True)
    console.print(f"Table and numbers: {out / name}.md, .json", markup=False)


def _spread(rest: Sequence[Job], jobs: int, console: Console) -> None:
    """Run what is left in several processes with one thread each, and show how far it is."""
    os.environ["SNAPIMPUTE_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with (
        Progress(*columns, TimeRemainingColumn(), console=console) as bar,
        ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        task = bar.add_task("settings", total=len(rest))
        waiting = [pool.submit(job.work) for job in rest]
        try:
            for done in as_completed(waiting):
                done.result()
                bar.advance(task)
        except BaseException:  # what is finished is kept; what has not begun is dropped
            pool.shutdown(wait=False, cancel_futures=True)
            raise
