"""Maps of one real variable, as the kernels of `backends.fused` know them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from snapimpute.penalties.kernels import Bound, Envelope, Remainder
from snapimpute.penalties.table import Tabulated
from snapimpute.types import CellMap

MOST_SYMBOLS = 20
"""That a kernel loops over."""

STAIRS, RECURRENCE, COMPOSED, NEAREST, TABLE, ENVELOPE_L1, ENVELOPE_L0, GAIN, EVEN, EVEN_GAIN = range(10)

GAINS = (GAIN, EVEN_GAIN)
COSTS = (TABLE, ENVELOPE_L1, ENVELOPE_L0, *GAINS)
"""Maps that may be added up over all cells."""

NODES = 1 << 13
"""Of a table, evenly spaced; between them it is straight."""

REACH = 2.0
"""How far a table reaches beyond the alphabet, in units of its span; beyond, the map goes on straight."""


class Form(NamedTuple):
    """A map: its kind, the numbers that it is made of, and the number of symbols (of nodes, of a table).

    The kernel is given U/``unit``, and gives f/unit. Of a gain, which is what a
    parabola leaves of an envelope, the sum over all cells is
    ``bend``·½Σy² + ``tilt``·Σy + ``constant``·mn − unit²·(the kernel's).
    """

    kind: int
    numbers: tuple[float, ...]
    symbols: int
    table: Any = None
    unit: float = 1.0
    constant: float = 0.0
    bend: float = 0.0
    tilt: float = 0.0


def form_of(cell_map: CellMap) -> Form | None:
    """The form of a map that kernels know; None of one that they do not."""
    if isinstance(cell_map, Bound):
        return _bound_form(cell_map.kernel.__name__, cell_map.arguments)
    if isinstance(cell_map, Remainder) and isinstance(cell_map.prox, Tabulated):
        return _tabulated(cell_map, cell_map.prox.family.symbols)
    if isinstance(cell_map, Envelope):
        if isinstance(cell_map.prox, Tabulated):
            return _tabulated(cell_map, cell_map.prox.family.symbols)
        if isinstance(cell_map.prox, Bound) and isinstance(cell_map.value, Bound):
            return _envelope_form(cell_map.prox, cell_map.value)
    return None


def _bound_form(name: str, arguments: tuple[Any, ...]) -> Form | None:
    if name == "even_l1_remainder":
        return _stairs(*arguments)
    kinds = {"l1_prox": RECURRENCE, "l0_prox": NEAREST, "composed_l1_prox": COMPOSED}
    if name not in kinds:
        return None
    symbols, pulls, slope, shift = arguments
    pulls = np.broadcast_to(pulls, symbols.shape)
    gap = _even_gap(symbols, pulls)
    if kinds[name] == NEAREST and gap:
        return Form(EVEN, (*_nearest(symbols, gap, pulls[0]), 1 - slope, shift / gap), symbols.size, unit=gap)
    if symbols.size > MOST_SYMBOLS:
        return None
    return Form(kinds[name], (slope, shift), symbols.size, np.concatenate([symbols, pulls]))


def _even_gap(symbols: Any, pulls: Any) -> float:
    """The distance of neighbours if that, and the pull, is the same everywhere; else 0."""
    gaps = np.diff(symbols)
    even = symbols.size > 1 and np.ptp(gaps) <= 1e-9 * gaps[0] and np.ptp(pulls) == 0 and pulls[0] > 0
    return float(gaps.mean()) if even else 0.0


def _nearest(symbols: Any, gap: float, pull: float) -> tuple[float, ...]:
    """Numbers of the nearest symbol, in units of the gap, and the square of how near it has to be to be taken."""
    return *_whole_numbers(symbols.size - 1.0, -float(symbols[0]) / gap), 2 * float(pull) / gap**2


def _whole_numbers(top: float, shift: float) -> tuple[float, ...]:
    """What a kernel needs to find the nearest of 0 … top to s + shift: see `fused_kernels._from_flat`."""
    whole = math.floor(shift + 0.5)
    return 1 / top, shift / top, float(top), 1.5 * 2**23 + whole, shift - whole


def _stairs(low: float, rate: float, period: float, top: float, wide: float, slope: float, base: float) -> Form:
    numbers = (*_whole_numbers(top, -(low + 0.5 * wide) / period), 0.5 * wide / period, 1 - slope)
    return Form(STAIRS, numbers, int(top) + 1, unit=period)


def _envelope_form(prox: Bound, value: Bound) -> Form | None:
    names = prox.kernel.__name__, value.kernel.__name__
    kinds = {("l1_prox", "l1_value"): ENVELOPE_L1, ("l0_prox", "l0_value"): ENVELOPE_L0}
    if names not in kinds:
        return None
    symbols, pulls = value.arguments
    gap = _even_gap(symbols, pulls)
    if gap and kinds[names] == ENVELOPE_L1:
        return _gain(symbols, gap, float(pulls[0]), Envelope(prox, value))
    if gap:
        numbers = _nearest(symbols, gap, pulls[0])
        return Form(EVEN_GAIN, numbers, symbols.size, unit=gap, constant=float(pulls.sum()))
    if symbols.size > MOST_SYMBOLS:
        return None
    return Form(kinds[names], (), symbols.size, np.concatenate([symbols, pulls]))


def _gain(symbols: Any, gap: float, pull: float, envelope: Envelope) -> Form:
    """The envelope has the derivative y − prox(y): a parabola, as the line is split off, less the integral of f."""
    period, top = gap + 2 * pull, symbols.size - 1
    slope, low = gap / period, float(symbols[0]) - pull * symbols.size
    stairs = _stairs(low, 1 / period, period, top, 2 * pull, slope, 0.0)
    bend, tilt = 1 - slope, (slope - 1) * 0.5 * float(symbols[0] + symbols[-1])
    middle = low + pull
    there = np.array([middle])
    envelope(there)
    constant = float(there[0]) - 0.5 * bend * middle**2 - tilt * middle
    return stairs._replace(kind=GAIN, constant=constant, bend=bend, tilt=tilt)


def _tabulated(cell_map: CellMap, symbols: Any) -> Form:
    span = float(symbols[-1] - symbols[0]) or 1.0
    low, high = float(symbols[0]) - REACH * span, float(symbols[-1]) + REACH * span
    values = np.linspace(low, high, NODES + 1)
    cell_map(values)
    table = np.stack([values[:-1], np.diff(values)], axis=1)
    return Form(TABLE, (low, NODES / (high - low)), NODES, table)
