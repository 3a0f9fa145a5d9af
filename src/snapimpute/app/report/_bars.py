"""Figures of bars with a name above each: ways to fill hidden cells, and experts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapimpute.app.report._canvas import BASELINE, INK, OURS, ROUNDING, Figure, axis, figure, trace
from snapimpute.app.report._words import drawn, listed, number
from snapimpute.base.types import Array
from snapimpute.views.figures import ExpertScores, WayScores


def scores(found: WayScores) -> Figure:
    """Draw the share of hidden cells that each way got right, with standard errors; without symbols, the error."""
    symbols, colours = found.symbols, {"ours": OURS, "rounding": ROUNDING, "baseline": BASELINE}
    both = zip(found.values.tolist(), found.errors.tolist(), strict=True)
    texts = [f"{value:.1f} ± {error:.1f} %" if symbols else number(value) for value, error in both]
    bars, layout = _bars(found.names, texts, found.values, [i == 0 for i in range(len(texts))])
    bars["marker"] = {"color": [colours[kind] for kind in found.kinds]}
    if symbols:
        bars["error_x"] = _whiskers(found.errors)
        x = axis(found.label, range=[0, 100])
        caption = "Longer is better: the same hidden cells, filled in each way; the thin bars are one standard error."
    else:
        x = axis(found.label, rangemode="tozero")
        caption = "Shorter is better: the error on the same hidden cells, estimated in each way."
    return figure([bars], caption, 70 + 58 * len(texts), xaxis=x, **layout)


def experts(found: ExpertScores) -> Figure:
    """Draw the log loss of each expert on held-out cells, with standard errors and weights; the line is the blend."""
    rows = zip(found.losses.tolist(), found.errors.tolist(), found.texts, strict=True)
    texts = [f"{loss:.4f} ± {error:.4f}, {text}" for loss, error, text in rows]
    members = (found.weights > 0).tolist()
    bars, layout = _bars(found.names, texts, found.losses, members)
    bars["marker"] = {"color": [OURS if member else BASELINE for member in members]}
    bars["error_x"] = _whiskers(found.errors)
    caption = "Shorter is better: the log loss on held-out cells; the thin bars are one standard error"
    if np.isfinite(found.loss):
        line: Figure = {"type": "line", "x0": found.loss, "x1": found.loss}
        line |= {"line": {"color": INK, "width": 1.5, "dash": "dot"}}
        layout["shapes"] = [{**line, "y0": 0.24 - i, "y1": -0.24 - i} for i in range(len(texts))]  # beside no text
        caption += f", and the dotted line is the blend of those with a weight, {found.loss:.4f}"
    x = axis("log loss on held-out cells", rangemode="tozero")
    return figure([bars], f"{caption}.", 70 + 58 * len(texts), xaxis=x, **layout)


def _bars(names: Sequence[str], texts: Sequence[str], values: Array, bold: Sequence[bool]) -> tuple[Figure, Figure]:
    """Return horizontal bars from the top down, and a layout with a name and a text above each."""
    count, shown = len(names), [drawn(name, 60) for name in names]
    bars = trace(
        "bar",
        orientation="h",
        width=0.36,
        x=listed(values),
        y=[-i for i in range(count)],
        customdata=[list(both) for both in zip(shown, texts, strict=True)],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    )
    place = {"x": 0, "xanchor": "left", "yanchor": "middle", "showarrow": False, "xshift": -3}
    plain = place | {"font": {"size": 12.5, "color": INK}}
    notes = [
        {**plain, "y": 0.38 - i, "text": f"<b>{name}</b>  {text}" if strong else f"{name}  {text}"}
        for i, (name, text, strong) in enumerate(zip(shown, texts, bold, strict=True))
    ]
    y = {"visible": False, "range": [0.7 - count, 0.65], "fixedrange": True}
    return bars, {"annotations": notes, "margin": {"l": 8, "r": 14, "t": 4, "b": 48}, "yaxis": y}


def _whiskers(errors: Array) -> Figure:
    return {"type": "data", "array": listed(errors), "color": INK, "thickness": 1.2, "width": 4}
