"""Interactive figures of a page: plain functions that return data for plotly.js."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.app.report._canvas import (
    BASELINE,
    CLEAR,
    GOOD,
    GRID,
    INK,
    MUTED,
    OURS,
    ROUNDING,
    SERIES,
    SHARES,
    Figure,
    axis,
    figure,
    trace,
)
from snapimpute.app.report._matrix import BINS, Doubts
from snapimpute.app.report._words import drawn, listed, number, percent, wrapped
from snapimpute.base.types import Array
from snapimpute.evaluation.metrics import Reliability
from snapimpute.views.figures import Confusion, Convergence, TuningCurve, TuningScores

MARKERS = ("circle", "diamond", "square", "triangle-up", "cross", "star")
EDGES = ((0, -0.5), (1, 0.5))
MOST_IN_CELLS = 10
"""Symbols of an alphabet whose counts are written into the cells of a figure, at most."""


def plotly_js() -> str:
    """Return the source of plotly.js, which ships with plotly: the page loads nothing."""
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError as err:
        raise ImportError('a report needs plotly: pip install "snapimpute[app]"') from err
    return str(get_plotlyjs())


# ---------------------------------------------------------------- the choice of λ and ξ
def curves(found: TuningScores) -> Figure:
    """Draw the score against λ, one curve for each ξ, with standard errors, and the pair that was chosen."""
    lams, xis = found.lams.tolist(), found.xis.tolist()
    log = lams[0] > 0
    # Curves often coincide: each stands a little beside its λ, so that its bars can be seen.
    beside = {xi: 1 + 0.015 * log * (i - (len(xis) - 1) / 2) for i, xi in enumerate(xis)}
    data = [_curve(one, i, beside[one.xi]) for i, one in enumerate(found.curves)]
    data.append(_chosen("scatter", beside[found.xi] * found.lam, found.score))
    places, texts = listed(found.lams), [number(lam) for lam in lams]
    every = max(1, -(-len(lams) // 6))
    few = {"tickvals": places[::every], "ticktext": texts[::every]}
    x = axis("strength of low rank, λ", type="log" if log else "linear", tickvals=places, ticktext=texts)
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}}
    return figure(
        data,
        "Each curve is one strength of discreteness ξ, and lower is better; bars are one standard error, the ring is "
        "the pair that was chosen, and curves stand a little side by side so that none hides another.",
        400,
        narrow={"xaxis": few},
        xaxis=x,
        yaxis=axis(found.label),
        showlegend=True,
        legend=legend,
    )


def _curve(one: TuningCurve, place: int, beside: float) -> Figure:
    colour, xi = ROUNDING if one.xi == 0 else SERIES[place % len(SERIES)], number(one.xi)
    points = zip(one.lam.tolist(), one.error.tolist(), one.rank.tolist(), strict=True)
    return trace(
        "scatter",
        mode="lines+markers",
        name=f"ξ = {xi}" + " (plain)" * (one.xi == 0),
        x=listed(beside * one.lam),
        y=listed(one.score),
        error_y={"type": "data", "array": listed(one.error), "thickness": 1, "width": 3, "color": colour},
        customdata=[[number(lam), xi, number(error, 2), rank] for lam, error, rank in points],
        hovertemplate="λ %{customdata[0]}, ξ %{customdata[1]}<br>score %{y:.4g} ± %{customdata[2]}"
        "<br>rank %{customdata[3]}<extra></extra>",
        line={"color": colour, "width": 2, "dash": "dot" if one.xi == 0 else "solid"},
        marker={"color": colour, "size": 7, "symbol": MARKERS[place % len(MARKERS)]},
    )


def _chosen(kind: str, x: float, y: float, **more: Any) -> Figure:
    marker = {"symbol": "circle-open", "size": 19, "line": {"width": 2.5, "color": INK}, "color": INK}
    plain = {"x": [x], "y": [y], "mode": "markers", "name": "chosen", "marker": marker, "hoverinfo": "skip"}
    return trace(kind, **(plain | more))


def _grid(found: TuningScores) -> tuple[list[str], list[str], list[list[float | None]]]:
    """Return the λ and ξ tried as text, and the scores (ξ by λ)."""
    lams, xis = ([number(value) for value in values.tolist()] for values in (found.lams, found.xis))
    return lams, xis, [listed(row) for row in found.grid]


def _colours(found: TuningScores, name: str) -> Figure:
    """Return the range of colours, from the best score on: differences of some standard errors have to show."""
    low, high = float(np.nanmin(found.grid)), float(np.nanmax(found.grid))
    reach = 6 * found.error
    return {
        f"{name}min": low,
        f"{name}max": min(high, low + reach) if reach > 0 and high > low else max(high, low + 1e-9),
    }


def score_map(found: TuningScores) -> Figure:
    """Draw the score of every pair that was tried as a map."""
    lams, xis, z = _grid(found)
    said = [[[lam, xi] for lam in lams] for xi in xis]
    cells = trace(
        "heatmap",
        z=z,
        customdata=said,
        text=[["" if v is None else f"{v:.3g}" for v in row] for row in z],
        texttemplate="%{text}",
        textfont={"size": 12},
        colorscale=GOOD,
        **_colours(found, "z"),
        showscale=False,
        xgap=2,
        ygap=2,
        hoverongaps=False,
        hovertemplate="λ %{customdata[0]}, ξ %{customdata[1]}<br>score %{z:.4g}<extra></extra>",
    )
    every = max(1, -(-len(lams) // 7))
    few = {"tickvals": list(range(len(lams)))[::every], "ticktext": lams[::every]}
    x = axis("strength of low rank, λ", tickvals=list(range(len(lams))), ticktext=lams, showgrid=False)
    y = axis("strength of discreteness, ξ", tickvals=list(range(len(xis))), ticktext=xis, showgrid=False)
    caption = (
        f"One cell for each pair, with its score ({found.label}): the colour fades from the best to "
        "six standard errors above, the pair with the outline was chosen, and empty pairs were not tried."
    )
    outline: Figure = {"type": "rect", "line": {"color": INK, "width": 3}}
    outline |= {f"{name}{end}": at + side for name, at in zip("xy", found.place, strict=True) for end, side in EDGES}
    return figure([cells], caption, 380, narrow={"xaxis": few}, xaxis=x, yaxis=y, shapes=[outline], dragmode=False)


def surface(found: TuningScores) -> Figure:
    """Draw the scores over λ and ξ in three dimensions, with a point for every pair that was tried."""
    (lams, xis, z), place = _grid(found), found.place
    at = [(i, j, v) for j, row in enumerate(z) for i, v in enumerate(row) if v is not None]
    still = {name: {"highlight": False} for name in "xyz"}
    sheet = trace(
        "surface",
        z=z,
        colorscale=GOOD,
        showscale=False,
        opacity=0.75,
        hoverinfo="skip",
        contours=still,
        **_colours(found, "c"),
    )
    dots = trace(
        "scatter3d",
        mode="markers",
        **{name: [one[i] for one in at] for i, name in enumerate("xyz")},
        marker={"size": 3.5, "color": INK},
        customdata=[[lams[i], xis[j]] for i, j, _ in at],
        hovertemplate="λ %{customdata[0]}, ξ %{customdata[1]}<br>score %{z:.4g}<extra></extra>",
    )
    best = _chosen("scatter3d", *place, z=[z[place[1]][place[0]]], marker={"size": 9, "color": ROUNDING})
    best |= {"mode": "markers+text", "text": ["chosen"], "textposition": "top center", "textfont": {"color": INK}}
    plain = {"backgroundcolor": CLEAR, "gridcolor": GRID, "color": MUTED, "tickfont": {"size": 11}}
    axes = {
        f"{name}axis": {**plain, "title": {"text": title}, "tickvals": list(range(len(texts))), "ticktext": texts}
        for name, title, texts in (("x", "λ", lams), ("y", "ξ", xis))
    }
    scene = {
        **axes,
        "zaxis": {**plain, "title": {"text": "score"}},
        "camera": {"eye": {"x": -1.35, "y": -1.5, "z": 0.85}, "center": {"x": 0, "y": 0, "z": -0.14}},
        "aspectratio": {"x": 1.2, "y": 1, "z": 0.7},
    }
    caption = (
        f"Height is the score ({found.label}), and lower is better; turn it with the mouse or a finger. "
        "Small dots are pairs that were tried, the large one was chosen."
    )
    return figure([sheet, dots, best], caption, 440, scene=scene, margin={"l": 0, "r": 0, "t": 0, "b": 0})


# ---------------------------------------------------------------- convergence
PANELS = {
    "objective": (OURS, "the objective should fall and level off"),
    "certificate": (SERIES[2], "the certificate, a bound on how far the fit is from stationary, should become small"),
    "rank": (ROUNDING, "the rank should settle"),
}


def convergence(found: Convergence) -> Figure:
    """Draw the objective, the certificate where there is one, and the rank, by iteration."""
    every = {name: getattr(found, name) for name in PANELS}
    series = {name: one for name, one in every.items() if len(one)}
    count = max(len(series), 1)
    layout: Figure = {"xaxis": axis("iteration", anchor=f"y{count if count > 1 else ''}")}
    data = []
    for i, (name, one) in enumerate(series.items()):
        colour, place = PANELS[name][0], str(i + 1) if i else ""
        log = name != "rank" and bool((one.values > 0).all())
        bottom = 1 - (i + 1) / count
        domain = [bottom + 0.06 * (bottom > 1e-9), 1 - i / count]
        layout[f"yaxis{place}"] = axis(name, domain=domain, type="log" if log else "linear", nticks=4)
        data.append(
            trace(
                "scatter",
                mode="lines+markers" if len(one) < 30 else "lines",
                name=name,
                x=one.iteration.tolist(),
                y=listed(one.values),
                yaxis=f"y{place}",
                line={"color": colour, "width": 2, "shape": "hv" if name == "rank" else "linear"},
                hovertemplate=f"iteration %{{x}}<br>{name} %{{y:.6g}}<extra></extra>",
            )
        )
    said = [PANELS[name][1] for name in series]
    caption = f"{', '.join(said[:-1])}{', and ' if said[1:] else ''}{said[-1] if said else ''}."
    return figure(data, caption[:1].upper() + caption[1:], 60 + 150 * count, **layout)


# ---------------------------------------------------------------- hidden cells
def confusion(found: Confusion) -> Figure:
    """Draw the confusion of symbols: colours are shares of the row."""
    names, table, share = found.names, found.counts, found.share
    share = np.where(np.isnan(share), 0.0, share)
    labels = [drawn(name, 16) for name in names]
    cells = trace(
        "heatmap",
        z=[listed(row, 4) for row in share],
        customdata=[
            [[true, written, f"{n:,}", percent(s)] for written, n, s in zip(labels, counts, row, strict=True)]
            for true, counts, row in zip(labels, table.tolist(), share.tolist(), strict=True)
        ],
        colorscale=SHARES,
        zmin=0,
        zmax=1,
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate="true %{customdata[0]}<br>written %{customdata[1]}<br>%{customdata[2]} cells, "
        "%{customdata[3]} of the row<extra></extra>",
    )
    few: Figure = {}
    if len(labels) <= MOST_IN_CELLS:
        text, short = (_counted(table, share, digits) for digits in (1, 0))
        cells |= {"text": text, "texttemplate": "%{text}", "textfont": {"size": 12}}
        few = {"text": short if len(labels) <= 6 else table.tolist(), "textfont": {"size": 11}}
    x, few_x = _named("symbol written", names)
    y, few_y = _named("true symbol", names, autorange="reversed", tickangle=0)
    return figure(
        [cells],
        "Each row is a true symbol: how often each symbol was written for it, and the share of the row.",
        _height(names),
        xaxis=x,
        yaxis=y,
        narrow={"xaxis": few_x, "yaxis": few_y | {"tickangle": 0}},
        narrow_data=few,
    )


def _counted(table: NDArray[np.int64], share: Array, digits: int) -> list[list[str]]:
    """Write counts and shares as texts of the cells."""
    both = zip(table.tolist(), share.tolist(), strict=True)
    return [[f"{n:,}<br>{percent(s, digits=digits)}" for n, s in zip(*row, strict=True)] for row in both]


def _named(title: str, names: Sequence[str], **more: Any) -> tuple[Figure, Figure]:
    """Return an axis with the names of symbols, on two lines if they are long, and its differences on a phone."""
    place, longest = list(range(len(names))), max(map(len, names), default=0)
    wide = {"tickvals": place, "ticktext": [wrapped(name, 14) for name in names], "showgrid": False}
    few = {"ticktext": [wrapped(name, 9) for name in names], "tickangle": -60 if longest > 3 else 0}
    return axis(title, **(wide | {"tickangle": -45 if longest > 5 else 0} | more)), few


def _height(names: Sequence[str]) -> int:
    """Choose the height of the figures of an alphabet, which stand side by side."""
    return min(max(110 + 54 * len(names), 300), 560)


def recall(found: Confusion) -> Figure:
    """Draw the recall: for each symbol the share of its hidden cells that got it."""
    names, total = found.names, found.total
    place = list(range(len(names)))
    bars = trace(
        "bar",
        x=place,
        y=listed(100 * found.recall),
        width=0.62,
        marker={"color": OURS},
        customdata=[[drawn(name), f"{n:,}"] for name, n in zip(names, total.tolist(), strict=True)],
        hovertemplate="%{customdata[0]}: %{y:.1f} % of %{customdata[1]} cells<extra></extra>",
    )
    x, few = _named("true symbol", names)
    y = axis("found again, %", range=[0, 101])
    caption = "Recall: of the hidden cells that truly hold a symbol, the share that got it back."
    return figure([bars], caption, _height(names), xaxis=x, yaxis=y, narrow={"xaxis": few})


def reliability(found: Reliability) -> Figure:
    """Draw the accuracy of the likeliest symbol against its stated probability, with counts."""
    error = np.sqrt(found.accuracy * (1 - found.accuracy) / found.count)
    same = {"color": MUTED, "width": 1.2, "dash": "dot"}
    line = trace("scatter", mode="lines", x=[0, 100], y=[0, 100], hoverinfo="skip", line=same)
    size = 7 + 15 * np.sqrt(found.count / found.count.max())
    dots = trace(
        "scatter",
        mode="lines+markers",
        x=listed(100 * found.confidence),
        y=listed(100 * found.accuracy),
        error_y={"type": "data", "array": listed(100 * error), "thickness": 1, "width": 3, "color": OURS},
        marker={"size": listed(size, 3), "color": OURS, "opacity": 1},
        cliponaxis=False,
        line={"color": OURS, "width": 1.5},
        customdata=found.count.tolist(),
        hovertemplate="said %{x:.1f} %<br>right %{y:.1f} %<br>%{customdata:,} cells<extra></extra>",
    )
    bars = trace(
        "bar",
        x=listed(100 * found.confidence),
        y=found.count.tolist(),
        yaxis="y2",
        width=4,
        marker={"color": BASELINE},
        hovertemplate="%{y:,} cells<extra></extra>",
    )
    share = {"ticksuffix": " %", "range": [0, 104]}
    return figure(
        [line, dots, bars],
        "On the dotted line a probability means what it says, below it the fit was too sure, above it too modest; "
        "larger dots and the bars at the bottom stand for more cells.",
        460,
        xaxis=axis("probability of the likeliest symbol", anchor="y2", **share),
        yaxis=axis("share that was right", domain=[0.3, 1], **share),
        yaxis2=axis("cells", domain=[0, 0.2], nticks=3),
    )


def certainty(doubts: Doubts) -> Figure:
    """Draw the number of missing cells by the probability of their symbols."""
    middle, width = 100 * (np.arange(BINS) + 0.5) / BINS, 90 / BINS
    bars = trace("bar", x=listed(middle), y=doubts.counts.tolist(), width=width, marker={"color": OURS})
    bars["hovertemplate"] = "%{y:,} cells<extra></extra>"
    x = axis("probability of the symbol", ticksuffix=" %", range=[0, 100])
    caption = "How probable the symbols are that were filled in: the further to the right, the surer the fit."
    return figure([bars], caption, 240, xaxis=x, yaxis=axis("missing cells", nticks=4))
