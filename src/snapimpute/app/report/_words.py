"""Numbers, symbols and names as a reader sees them."""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet

NOTHING = "–"
"""Stands for a number that does not exist."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def percent(share: float, error: float | None = None, *, digits: int = 1) -> str:
    """Return a share in per cent, with its standard error if that is given.

    Examples
    --------
    >>> percent(0.9386, 0.004), percent(float("nan"))
    ('93.9 ± 0.4 %', '–')
    """
    if not math.isfinite(share):
        return NOTHING
    more = "" if error is None or not math.isfinite(error) else f" ± {100 * error:.{digits}f}"
    return f"{100 * share:.{digits}f}{more} %"


def points(gain: float, error: float) -> str:
    """Return a difference of shares in percentage points.

    Examples
    --------
    >>> points(-0.0003, 0.0013)
    '−0.03 ± 0.13 points'
    """
    if not math.isfinite(gain):
        return NOTHING
    return f"{100 * gain:+.2f} ± {100 * error:.2f} points".replace("-", "−")


def number(value: float, digits: int = 3) -> str:
    """Return a number with ``digits`` significant digits; whole numbers in full.

    Examples
    --------
    >>> number(3.61518), number(12345.0), number(float("nan")), number(-0.25)
    ('3.62', '12,345', '–', '−0.25')
    """
    if not math.isfinite(value):
        return NOTHING
    whole = value == round(value) and abs(value) < 1e15
    return (f"{value:,.0f}" if whole else f"{value:.{digits}g}").replace("-", "−")


def plural(count: int, one: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> plural(1, "column"), plural(2000, "column")
    ('1 column', '2,000 columns')
    """
    return f"{count:,} {one}{'s' * (count != 1)}"


def symbol(alphabet: Alphabet | None, value: float) -> str:
    """Return the text of a cell: the label or the number of a symbol, or any number.

    Examples
    --------
    >>> symbol(Alphabet.of(["no", "yes"]), 1.0), symbol(Alphabet.of("1:5"), 4.0), symbol(None, 2 / 3)
    ('yes', '4', '0.6667')
    """
    if math.isnan(value):
        return NOTHING
    if alphabet is None:
        return f"{value:.4g}"
    return alphabet.labels[int(value)] if alphabet.labels is not None else f"{value:.15g}"


def namer(labels: NDArray[Any] | None, what: str) -> Callable[[int], str]:
    """Return a function that names rows or columns: by their labels, or by their positions.

    Examples
    --------
    >>> namer(None, "row")(3), namer(np.array(["ann", "bob"]), "row")(1)
    ('row 3', 'bob')
    """
    return lambda i: f"{what} {i}" if labels is None else str(labels[i])


def drawn(text: str, most: int = 28) -> str:
    """Return text for a figure: one line, not too long, without markup that plotly would read.

    Plotly reads a few tags and entities in its labels, but not the entities of
    quotes, which are harmless there.

    Examples
    --------
    >>> drawn("<b>R&D</b>"), drawn("a very long name indeed", 11)
    ('&lt;b&gt;R&amp;D&lt;/b&gt;', 'a very lon…')
    """
    line = _CONTROL.sub(" ", text)
    return html.escape(line if len(line) <= most else f"{line[: most - 1]}…", quote=False)


def wrapped(text: str, width: int, lines: int = 2) -> str:
    """Return text for a figure, as `drawn`, on a few short lines.

    Examples
    --------
    >>> wrapped("strongly disagree", 9), wrapped("neither agree nor disagree", 9)
    ('strongly<br>disagree', 'neither<br>agree no…')
    """
    parts = textwrap.wrap(_CONTROL.sub(" ", text), width) or [""]
    if len(parts) > lines:
        parts[lines - 1] = " ".join(parts[lines - 1 :])
    return "<br>".join(drawn(part, width) for part in parts[:lines])


def listed(values: Array, digits: int = 6) -> list[float | None]:
    """Return numbers for JSON, which has no NaN and no infinity.

    Examples
    --------
    >>> listed(np.array([0.123456789, np.nan, np.inf, 2.0]), 3)
    [0.123, None, None, 2.0]
    """
    return [float(f"{x:.{digits}g}") if math.isfinite(x) else None for x in np.asarray(values, float).tolist()]
