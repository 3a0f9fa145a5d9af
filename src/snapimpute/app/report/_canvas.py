"""Colours, axes and type of all figures of a page, in the form of plotly.js.

Colours are names of the page's CSS variables, which its script replaces, so that the figures follow its theme.
"""

from __future__ import annotations

from typing import Any

Figure = dict[str, Any]
"""``data`` and ``layout`` of plotly; ``caption``; ``narrow`` and ``narrow_data``, the differences on a phone."""

INK, MUTED, GRID, CARD, LINE = "var(--ink)", "var(--muted)", "var(--grid)", "var(--card)", "var(--line)"
OURS, ROUNDING, BASELINE, GAP = "var(--ours)", "var(--rounding)", "var(--baseline)", "var(--gap)"
SERIES = tuple(f"var(--series-{i})" for i in range(6))
SYMBOLS = [[0.0, "var(--low)"], [0.5, "var(--middle)"], [1.0, "var(--high)"]]
SURE = [[0.0, "var(--unsure)"], [0.5, "var(--half-sure)"], [1.0, "var(--sure)"]]
GOOD = [[0.0, "var(--good)"], [1.0, "var(--poor)"]]
SHARES = [[0.0, "var(--none)"], [1.0, "var(--all)"]]
CLEAR = "rgba(0,0,0,0)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def axis(title: str = "", **more: Any) -> Figure:
    """Return an axis with a title in plain words."""
    return {
        "title": {"text": title, "font": {"color": MUTED, "size": 13}, "standoff": 10},
        "gridcolor": GRID,
        "linecolor": LINE,
        "tickfont": {"color": MUTED, "size": 12},
        "zeroline": False,
        "ticks": "",
        "automargin": True,
        **more,
    }


def trace(kind: str, **more: Any) -> Figure:
    """Return one layer of a figure."""
    return {"type": kind, **more}


def figure(
    data: list[Figure],
    caption: str,
    height: int,
    *,
    narrow: Figure | None = None,
    narrow_data: Figure | None = None,
    **layout: Any,
) -> Figure:
    """Return a figure with a sentence on how to read it; its height is in pixels, its width that of the page.

    ``narrow`` and ``narrow_data`` are differences on a phone, in the layout and in the first trace.
    """
    base = {
        "height": height,
        "margin": {"l": 52, "r": 14, "t": 14, "b": 48},
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"family": FONT, "size": 13, "color": INK},
        "hoverlabel": {"bgcolor": CARD, "bordercolor": LINE, "font": {"color": INK, "family": FONT, "size": 13}},
        "modebar": {"bgcolor": CLEAR, "color": MUTED, "activecolor": INK},
        "showlegend": False,
    }
    return {
        "data": data,
        "layout": base | layout,
        "caption": caption,
        "narrow": narrow or {},
        "narrow_data": narrow_data or {},
    }
