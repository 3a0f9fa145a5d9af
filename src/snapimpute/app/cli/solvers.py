"""`snapimpute solvers`: what each solver minimises, what it treats, what it costs, and where it is from."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snapimpute.app.cli._options import Manner
from snapimpute.app.cli._sharing import shared
from snapimpute.app.cli._terminal import Speaker, new_table

if TYPE_CHECKING:
    from rich.table import Table

    from snapimpute.solvers import Solver

NOTES = """\
r is the rank, k = r and a dozen guard vectors, a pass one product with the matrix that a step thresholds.
(E) is the objective with the Moreau envelope of the discrete penalty: what the paper's recursion minimises.
(P) is the problem with the discrete penalty itself, as the paper states it.
solver="auto": fancl if the discrete penalty is not convex (niapg from a warm start), niapg if the spectral one is
not, else ais-impute, or apg up to 10,000 cells.
Details: snapimpute solvers NAME."""


@shared(Manner)
def solvers(
    name: Annotated[str | None, typer.Argument(help="Show one solver in full, with its parameters.")] = None,
    *,
    manner: Manner,
) -> None:
    """List the solvers: what each minimises, its penalties, discrete-aware or not, cost of an iteration, paper."""
    from snapimpute.solvers import SOLVERS

    if name is not None and name not in SOLVERS:
        raise typer.BadParameter(f"there is no solver {name!r}; there are {', '.join(SOLVERS)}")
    chosen = SOLVERS if name is None else {name: SOLVERS[name]}
    if manner.quiet:
        return
    if manner.as_json:
        typer.echo(json.dumps([describe(s) for s in chosen.values()], indent=1, ensure_ascii=False))
    elif name is None:
        console = Speaker()
        console.print(_table())
        console.print(NOTES)
    else:
        typer.echo(_details(chosen[name]))


def describe(solver: type[Solver[Any]]) -> dict[str, Any]:
    """Everything a solver says of itself."""
    info = asdict(solver.info)
    parameters = {f.name: f.default for f in fields(solver)}  # type: ignore[arg-type]  # all are dataclasses
    return {"name": solver.name, **info, "parameters": parameters}


def _penalties(solver: type[Solver[Any]]) -> str:
    from snapimpute.penalties import SPECTRAL

    return "all" if len(solver.info.spectral) == len(SPECTRAL) else ", ".join(solver.info.spectral)


def _table() -> Table:
    from snapimpute.solvers import SOLVERS

    table = new_table()
    table.add_column("solver", style="bold", no_wrap=True)
    # Folded, as a word that is too long for a narrow terminal would be cut off otherwise.
    table.add_column("minimises", ratio=3, overflow="fold")
    table.add_column("penalties", ratio=1, overflow="fold")
    table.add_column("discrete aware", ratio=1, overflow="fold")
    table.add_column("an iteration costs", ratio=3, overflow="fold")
    table.add_column("paper", ratio=3, min_width=11, overflow="fold")
    for name, solver in SOLVERS.items():
        info = solver.info
        aware = "no" if not info.discrete else "convex ones" if info.convex else "yes"
        table.add_row(name, info.minimises, _penalties(solver), aware, info.cost, info.paper)
    return table


def _details(solver: type[Solver[Any]]) -> str:
    info = solver.info
    parameters = ", ".join(f"{name}={default!r}" for name, default in describe(solver)["parameters"].items())
    lines = [
        f"{solver.name}: {info.title}  (si.solvers.{solver.__name__})",
        f"  minimises     {info.minimises}",
        f"  penalties     {', '.join(info.spectral)}" + (" (convex terms only)" if info.convex else ""),
        f"  discrete      {'yes' if info.discrete else 'no'}",
        f"  iteration     {info.cost}",
        f"  stops on      the {solver.measures}",
        f"  parameters    {parameters or 'none'}",
        f"  paper         {info.paper}",
        "",
        inspect.cleandoc(solver.__doc__ or ""),
    ]
    return "\n".join(lines)
