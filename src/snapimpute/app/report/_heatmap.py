"""Pictures of a table: known, completed, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from snapimpute.app.report._canvas import GAP, MUTED, SURE, SYMBOLS, Figure, axis, figure, trace
from snapimpute.app.report._matrix import Shown
from snapimpute.app.report._words import drawn, listed, plural, symbol
from snapimpute.base.types import Array
from snapimpute.data.schema import ColumnSchema

Name = Callable[[int], str]

MOST_TICKS, MOST_TICKS_NARROW = 40, 12
"""Rows, or columns, with names beside the cells, at most; the second on a phone."""

MOST_IN_LEGEND = 10
"""Symbols that the legend names, at most."""

VIEWS = {
    "known": "What was known, with missing cells in grey; similar rows and columns of the completed table stand side "
    "by side.",
    "completed": "What was known and what was filled in: the colour is the place of the symbol in the range of its "
    "column, and cells that were left open stay grey.",
    "confidence": "How probable the symbol is that was filled in: strong colours are doubtful cells, while known "
    "cells and columns of any numbers stay grey.",
}


def cells(shown: Shown, book: ColumnSchema, row_name: Name, col_name: Name) -> dict[str, Any]:
    """Return the cells from which the page's script draws the three pictures, the text of each value only once.

    ``row_name`` and ``col_name`` return the name of a row or column, given its position.
    """
    texts: dict[str, int] = {}
    codes = np.empty(shown.values.shape, dtype=np.intp)
    for j, col in enumerate(shown.cols.tolist()):
        values, which = np.unique(shown.values[:, j], return_inverse=True)
        said = [drawn(symbol(book[col], value), 40) for value in values.tolist()]
        codes[:, j] = np.array([texts.setdefault(text, len(texts)) for text in said])[which]
    state = np.where(shown.known, "k", np.where(shown.is_open, "o", "f"))
    return {
        "rows": [drawn(_said("row", i, row_name(i)), 60) for i in shown.rows.tolist()],
        "cols": [drawn(_said("column", j, col_name(j)), 60) for j in shown.cols.tolist()],
        "names": list(texts),
        "code": codes.tolist(),
        "state": ["".join(row) for row in state.tolist()],
        "sure": [listed(row, 3) for row in shown.sure],
        "position": [listed(row, 3) for row in shown.position],
    }


def _said(what: str, place: int, name: str) -> str:
    """Put "row" or "column" before a name that does not say so already."""
    return name if name == f"{what} {place}" else f"{what}: {name}"


def view(name: str, shown: Shown, book: ColumnSchema, row_name: Name, col_name: Name) -> Figure:
    """Draw the table, "known", "completed" or "confidence"; the page's script fills in the cells."""
    sure = name == "confidence"
    lowest = min((1 / len(kind) for kind in book.kinds if kind is not None), default=0.0)
    legend, colours = _legend(book, shown, sure=sure)
    heat = trace(
        "heatmap",
        colorscale=colours,
        zmin=100 * min(lowest, 0.9) if sure else 0,
        zmax=100 if sure else 1,
        colorbar=legend,
        hoverinfo="text",
    )
    titles = [
        plural(some, what) if some == whole else f"{some:,} of {plural(whole, what)}"
        for some, whole, what in zip(shown.values.shape, shown.shape, ("row", "column"), strict=True)
    ]
    y, narrow_y = _ticks(titles[0], [row_name(i) for i in shown.rows.tolist()])
    x, narrow_x = _ticks(titles[1], [col_name(j) for j in shown.cols.tolist()])
    return figure(
        [heat],
        VIEWS[name],
        130 + min(max(18 * shown.rows.size, 70), 540) + 70 * ("ticktext" in x),
        narrow={"xaxis": narrow_x, "yaxis": narrow_y},
        xaxis=axis(titles[1], showgrid=False, tickangle=-45) | x,
        yaxis=axis(titles[0], showgrid=False, autorange="reversed") | y,
        plot_bgcolor=GAP,
        margin={"l": 40, "r": 10, "t": 30, "b": 44},
    )


def _legend(book: ColumnSchema, shown: Shown, *, sure: bool) -> tuple[Figure, list[list[Any]]]:
    """Return the legend above the table, and its colours: by symbols if all columns have the same few."""
    kinds = {int(kind) for kind in book.which[shown.cols]}
    alphabet = book.kinds[min(kinds)] if len(kinds) == 1 else None
    colours = SURE if sure else SYMBOLS
    if sure:
        ticks: Figure = {"ticksuffix": " %", "nticks": 5}
    elif alphabet is not None and 1 < len(alphabet) <= MOST_IN_LEGEND:
        places = (alphabet.symbols - alphabet.symbols[0]) / np.ptp(alphabet.symbols)
        texts = [drawn(symbol(alphabet, a), max(48 // len(alphabet), 4)) for a in alphabet]
        if len(alphabet) <= len(SYMBOLS):
            places, colours = _steps(places)
        ticks = {"tickvals": listed(places), "ticktext": texts}
    else:
        ticks = {"tickvals": [0.04, 0.96], "ticktext": ["lowest", "highest"]}
    bar = {
        "orientation": "h",
        "thickness": 10,
        "len": 0.6,
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "ypad": 8,
        "xpad": 0,
        "outlinewidth": 0,
        "tickfont": {"size": 12, "color": MUTED},
        **ticks,
    }
    return bar, colours


def _steps(places: Array) -> tuple[Array, list[list[Any]]]:
    """Give each of two or three symbols a field of one colour; return the middles of the fields, and the colours."""
    edges = np.concatenate([[0.0], (places[1:] + places[:-1]) / 2, [1.0]])
    colours = [SYMBOLS[0][1], SYMBOLS[-1][1]] if places.size == 2 else [one[1] for one in SYMBOLS]
    scale = [[float(edge), colour] for i, colour in enumerate(colours) for edge in edges[i : i + 2]]
    return (edges[1:] + edges[:-1]) / 2, scale


def _ticks(title: str, names: Sequence[str]) -> tuple[Figure, Figure]:
    """Put names beside the cells if there is room; return them and the differences on a phone."""
    # Without names, a standoff would put the title into the cells.
    hidden: Figure = {"showticklabels": False, "title": {**axis(title)["title"], "standoff": None}}
    if len(names) > MOST_TICKS:
        return hidden, {}
    wide = {"tickvals": list(range(len(names))), "ticktext": [drawn(name, 20) for name in names]}
    return wide, {"ticktext": [drawn(name, 10) for name in names]} if len(names) <= MOST_TICKS_NARROW else hidden
