"""`snapimpute demo`: the main job on the bundled votes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snapimpute.app.cli._options import Manner
from snapimpute.app.cli._sharing import shared
from snapimpute.app.cli._terminal import Terminal


@shared(Manner)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the completed table and the picture.")] = Path("demo-output"),
    congress: Annotated[int, typer.Option(help="Which Senate: 117, 109, 94.")] = 117,
    observed: Annotated[float, typer.Option(min=0.01, max=0.99, help="Share of the votes left visible.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
    *,
    manner: Manner,
) -> None:
    """Hide most of the bundled Senate votes, complete them, score every method, leave a table and a picture."""
    from snapimpute.app.cli import _demonstration as demonstration
    from snapimpute.data.datasets.bundled import CONGRESSES

    if congress not in CONGRESSES:
        raise typer.BadParameter(f"there are {', '.join(map(str, CONGRESSES))}, got {congress}")
    demonstration.show(out, congress, observed, seed, Terminal(manner))
