"""Figures, by matplotlib without a display. Each function writes one PNG file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from snapimpute.alphabet import Alphabet
from snapimpute.experiments.comparison import Outcome
from snapimpute.files import write_atomically
from snapimpute.observations import Observations
from snapimpute.types import Array

MISSING = "#e4e4e4"
PLAIN, AWARE, BASELINE = "#5b7f95", "#c0392b", "#b8b8b8"


def completion(
    path: Path,
    known: Observations,
    filled: Array,
    outcomes: Sequence[Outcome],
    alphabet: Alphabet,
    title: str,
) -> None:
    """Draw what was known, what was filled in, how the fits converged and how often each method erred."""
    rows, cols = _seriation(filled)
    table = np.full(known.shape, np.nan)
    table[known.rows, known.cols] = known.values
    figure = Figure(figsize=(12, 8.6), layout="constrained")
    figure.suptitle(title, fontsize=14)
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.1, 1], squeeze=False)[:, 0]
    before, after = top.subplots(1, 2)
    _matrix(before, table[np.ix_(rows, cols)], alphabet, f"known: {100 * known.density:.1f} % of the cells")
    image = _matrix(after, filled[np.ix_(rows, cols)], alphabet, "completed")
    bar = top.colorbar(image, ax=[before, after], shrink=0.7, aspect=12, ticks=np.arange(len(alphabet)))
    bar.ax.set_yticklabels([f"{a:g}" for a in alphabet])
    left, right = bottom.subplots(1, 2)
    _convergence(left, outcomes)
    _errors(right, outcomes)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, atomically."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    write_atomically(path, buffer.getvalue())


def _seriation(filled: Array) -> tuple[Any, Any]:
    """Order rows and columns by the leading singular vectors, so that structure shows."""
    U, _, Vt = np.linalg.svd(filled - filled.mean(), full_matrices=False)
    return np.argsort(U[:, 0]), np.argsort(Vt[0])


def _matrix(axis: Any, table: Array, alphabet: Alphabet, title: str) -> Any:
    colours = mpl.colormaps["viridis"](np.linspace(0.12, 0.92, len(alphabet)))
    shades = ListedColormap(colours).with_extremes(bad=MISSING)
    codes = np.ma.masked_invalid(np.where(np.isnan(table), np.nan, alphabet.indices(np.nan_to_num(table))))
    edges = np.arange(len(alphabet) + 1) - 0.5
    image = axis.imshow(
        codes, aspect="auto", interpolation="nearest", cmap=shades, norm=BoundaryNorm(edges, shades.N)
    )
    axis.set(title=title, xlabel="columns", ylabel="rows", xticks=[], yticks=[])
    return image


def _convergence(axis: Any, outcomes: Sequence[Outcome]) -> None:
    fitted = [(o.result, o.method.discrete_aware) for o in outcomes if o.result is not None and o.method is not None]
    for result, aware in fitted:
        history = result.history
        relative = history["certificate"] / max(float(np.linalg.norm(result.x.s)), 1e-12)
        axis.semilogy(history["iteration"], relative, color=AWARE if aware else PLAIN, alpha=0.75, lw=1.4)
    axis.plot([], [], color=PLAIN, label="plain")
    axis.plot([], [], color=AWARE, label="discrete-aware")
    axis.set(title="convergence", ylabel="distance from a stationary point, relative to ‖X‖")
    axis.set(xlabel="iteration (nothing is known while λ is still coming down)")
    axis.set_xlim(left=0)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)


def _errors(axis: Any, outcomes: Sequence[Outcome]) -> None:
    order = sorted(outcomes, key=lambda o: -o.error)
    for position, outcome in enumerate(order):
        method = outcome.method
        colour = BASELINE if method is None else AWARE if method.discrete_aware else PLAIN
        axis.barh(position, 100 * outcome.error, color=colour, xerr=100 * outcome.standard_error, ecolor="#333333")
        axis.text(
            100 * (outcome.error + 1.5 * outcome.standard_error),
            position,
            f" {100 * outcome.error:.2f}",
            va="center",
            fontsize=9,
        )
    axis.set_yticks(range(len(order)), [o.label for o in order], fontsize=9)
    axis.set(title="hidden entries predicted wrongly", xlabel="per cent, with one standard error")
    axis.margins(x=0.12)
