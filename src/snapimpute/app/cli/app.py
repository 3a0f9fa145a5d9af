"""The list of commands."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import snapimpute
from snapimpute.app.cli._ending import InterruptedCommandError, ReaderGoneError
from snapimpute.app.cli.complete import complete
from snapimpute.app.cli.datasets import datasets
from snapimpute.app.cli.demo import demo
from snapimpute.app.cli.doctor import doctor
from snapimpute.app.cli.evaluate import evaluate
from snapimpute.app.cli.fit import fit
from snapimpute.app.cli.predict import predict
from snapimpute.app.cli.recommend import recommend
from snapimpute.app.cli.solvers import solvers
from snapimpute.app.cli.tune import tune


class Commands(TyperGroup):
    """Command group that hands on to `main` the errors which typer would swallow."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as err:
            raise InterruptedCommandError from err
        except BrokenPipeError as err:
            raise ReaderGoneError from err


app = typer.Typer(
    cls=Commands,
    help="Complete tables whose entries come from a finite alphabet: ratings, votes, answers, genotypes, links.",
    epilog="Exit codes: 0 done; 1 the input cannot be used, or the output not written; 2 wrong options; "
    "130 interrupted, with the best so far written.",
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


for command in (demo, complete, fit, predict, evaluate, tune, recommend, datasets, solvers, doctor):
    app.command()(command)
