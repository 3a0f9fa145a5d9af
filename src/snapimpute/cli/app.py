"""The list of commands."""

from typing import Annotated

import typer

import snapimpute
from snapimpute.cli.demo import demo
from snapimpute.cli.reproduce import reproduce
from snapimpute.cli.solvers import solvers

app = typer.Typer(
    help="Complete tables whose entries come from a finite alphabet: ratings, votes, answers, genotypes, links.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"snapimpute {snapimpute.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Complete tables whose entries come from a finite alphabet."""


app.command()(demo)
app.command()(solvers)
app.add_typer(reproduce, name="reproduce")
