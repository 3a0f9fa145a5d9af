"""Figures in files, by matplotlib without a display. Each function writes one figure."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from snapimpute.base.files import write_atomically
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.estimator.comparison import Outcome
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.evaluation.metrics import Reliability
from snapimpute.experts.proximal.choice import Choice
from snapimpute.views.figures import Convergence, names
from snapimpute.views.plots import (
    AWARE,
    BASELINE,
    PLAIN,
    draw_bars,
    draw_certificate,
    draw_matrix,
    plot_experts,
    plot_path,
    plot_reliability,
    seriation,
)

FORMATS: dict[str, dict[str, Any]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def completion(
    path: Path, known: Observations, filled: Array, outcomes: Sequence[Outcome], alphabet: Alphabet, title: str
) -> None:
    """Draw the table before and after, the convergence of the fits and the errors of the methods."""
    order = np.ix_(*seriation(filled))
    table = np.full(known.shape, np.nan)
    table[known.rows, known.cols] = known.values
    figure = Figure(figsize=(12, 8.6), layout="constrained")
    figure.suptitle(title, fontsize=14)
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.1, 1], squeeze=False)[:, 0]
    before, after = top.subplots(1, 2)
    draw_matrix(before, table[order], alphabet, f"known: {100 * known.density:.1f} % of the cells")
    image = draw_matrix(after, filled[order], alphabet, "completed")
    bar = top.colorbar(image, ax=[before, after], shrink=0.7, aspect=12, ticks=np.arange(len(alphabet)))
    bar.ax.set_yticklabels(names(alphabet))
    left, right = bottom.subplots(1, 2)
    _convergence(left, outcomes)
    _errors(right, outcomes)
    save(figure, path)


def reliability(path: Path, curves: Mapping[str, Reliability]) -> None:
    """Draw the accuracy of the likeliest symbol against its stated probability."""
    figure = Figure(figsize=(4.5 * len(curves), 4.5), layout="constrained")
    for axes, (name, found) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        plot_reliability(found, axes)
        axes.set_title(f"{name}\n{axes.get_title()}", fontsize=10)
    save(figure, path)


def tuning(path: Path, choice: Choice) -> None:
    """Draw the scores on held-out cells against λ."""
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    plot_path(choice, figure.subplots())
    save(figure, path)


def experts(path: Path, imputer: SnapImputer) -> None:
    """Draw the log losses of the experts of a blend on held-out cells, and their weights."""
    count = len(imputer.experts_)
    figure = Figure(figsize=(7.4, 1.4 + 0.5 * count), layout="constrained")
    plot_experts(imputer, figure.subplots())
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure, atomically, in the format of its suffix; without one as PNG, SVG and PDF."""
    for suffix in [path.suffix] if path.suffix in FORMATS else FORMATS:
        buffer = io.BytesIO()
        with mpl.rc_context({"svg.hashsalt": "snapimpute"}):  # the same figure, the same file
            figure.savefig(buffer, format=suffix[1:], dpi=110, metadata=FORMATS[suffix])
        write_atomically(path if path.suffix in FORMATS else path.with_name(path.name + suffix), buffer.getvalue())


def _convergence(axis: Any, outcomes: Sequence[Outcome]) -> None:
    fitted = [(o.result, o.method.discrete_aware) for o in outcomes if o.result is not None and o.method is not None]
    for result, aware in fitted:
        draw_certificate(axis, Convergence.of(result), color=AWARE if aware else PLAIN, alpha=0.75, lw=1.4)
    axis.plot([], [], color=PLAIN, label="plain")
    axis.plot([], [], color=AWARE, label="discrete-aware")
    axis.set(title="convergence", xlabel="iteration (nothing is known while λ is still coming down)")
    axis.set_xlim(left=0)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)


def _errors(axis: Any, outcomes: Sequence[Outcome]) -> None:
    order = sorted(outcomes, key=lambda o: -o.error)
    colours = [BASELINE if o.method is None else AWARE if o.method.discrete_aware else PLAIN for o in order]
    errors, spreads = [100 * o.error for o in order], [100 * o.standard_error for o in order]
    draw_bars(axis, [o.label for o in order], errors, spreads, colours)
    axis.set(title="hidden entries predicted wrongly", xlabel="per cent, with one standard error")
