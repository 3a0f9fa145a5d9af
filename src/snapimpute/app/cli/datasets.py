"""`snapimpute datasets`: what there is to try things on, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from snapimpute.app.cli._options import Manner
from snapimpute.app.cli._sharing import check_outputs, shared, written_as
from snapimpute.app.cli._terminal import Terminal, new_table

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from snapimpute.data.datasets import Dataset

MOST_WIDE = 20_000_000
"""Cells of a wide table, at most."""


@shared(Manner)
def datasets(
    name: Annotated[str | None, typer.Argument(help="Load this one.")] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Write it to a file; the name says the format.")
    ] = None,
    layout: Annotated[str, typer.Option(help="wide or triplets.")] = "triplets",
    observed: Annotated[float, typer.Option(min=0.001, max=1, help="Keep only this share of the cells.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of that.")] = 0,
    *,
    manner: Manner,
) -> None:
    """List the data sets, show one, or write it to a file."""
    from snapimpute.app.io import write_frame
    from snapimpute.data.datasets import REGISTRY, load

    terminal = Terminal(manner, to_stdout=out == "-")
    if name is None:
        terminal.say(_table())
        terminal.note(datasets={known: entry.description for known, entry in REGISTRY.items()})
        return terminal.print_facts()
    if name not in REGISTRY:
        raise typer.BadParameter(f"there is no data set {name!r}; there are {', '.join(REGISTRY)}")
    if layout not in ("wide", "triplets"):
        raise typer.BadParameter(f"--layout is wide or triplets; got {layout!r}")
    kind = written_as(out, None, table=True) if out is not None else ""
    check_outputs([out], [], force=None)
    data = load(name)
    terminal.say(repr(data))
    terminal.say(data.citation)
    terminal.note(name=name, rows=data.shape[0], columns=data.shape[1], known=len(data), alphabet=list(data.alphabet))
    if out is not None:
        write_frame(_frame(data, layout, observed, seed), out, kind)
        terminal.wrote(out)
    terminal.print_facts()


def _table() -> Table:
    from snapimpute.data.datasets import REGISTRY

    table = new_table()
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for known, entry in REGISTRY.items():
        table.add_row(known, entry.description)
    return table


def _frame(data: Dataset, layout: str, observed: float, seed: int) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    known = data.observations
    if observed < 1:
        known, _ = known.split(1 - observed, random_state=seed)
    rows, cols = (
        _labels(labels, size) for labels, size in zip((known.row_labels, known.col_labels), known.shape, strict=True)
    )
    whole = data.alphabet.is_integer
    if layout == "triplets":
        values = known.values.astype(np.int64) if whole else known.values
        return pl.DataFrame({"row": rows[known.rows], "column": cols[known.cols], "value": values})
    m, n = known.shape
    if m * n > MOST_WIDE:
        raise ValueError(
            f"a wide table of {data.name} would have {m * n:,} cells, more than {MOST_WIDE:,}: take --layout triplets"
        )
    table = np.full((m, n), np.nan)
    table[known.rows, known.cols] = known.values
    columns = {str(col): pl.Series(table[:, j], nan_to_null=True) for j, col in enumerate(cols.tolist())}
    frame = pl.DataFrame(columns)
    frame = frame.cast(pl.Int64) if whole else frame
    return frame.insert_column(0, pl.Series("id", rows))


def _labels(labels: Any, size: int) -> Any:
    import numpy as np

    return np.arange(size) if labels is None else np.asarray(labels)
