"""Maps of one real variable, as the fused kernels know them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from snapimpute.penalties import CellMap

MOST_SYMBOLS = 20
"""Most symbols that a kernel loops over."""

STAIRS, RECURRENCE, COMPOSED, NEAREST, TABLE, ENVELOPE_L1, ENVELOPE_L0, GAIN, EVEN, EVEN_GAIN = range(10)

GAINS = (GAIN, EVEN_GAIN)
COSTS = (TABLE, ENVELOPE_L1, ENVELOPE_L0, *GAINS)
"""Maps that may be added up over all cells."""

NODES = tuple(1 << power for power in range(13, 17))
"""Numbers of nodes of a table, evenly spaced, as few as will do; between them it is straight."""

REACH = 2.0
"""Reach of a table beyond the alphabet, in spans of it; from there on the map is straight, or in pieces."""

PIECES = REACH * 1.5 ** np.arange(6)
"""Begin of each such piece, if there is more than one: so many spans beyond the alphabet."""

MOST_BREAKS = 64
"""Places at which a map that is read from a table may jump or bend, those beyond the table not counted."""

COARSE = 2e-6
"""Error allowed to a table between its nodes, within the alphabet: root mean squares, relative to the symbols."""

FINE = 4e-7
"""The same for a cost: on the average, relative to the cost itself, which may be tiny beside the symbols."""

STRAIGHT, STRAIGHT_COST = 1e-5, 1e-2
"""Beyond its table a map goes on as one line if that is off by no more: of the way, and of the cost."""

FARTHEST = 1 << 14
"""Most gaps of evenly spaced symbols from 0: factors are numbers of fp16, which end at 65504."""


class Form(NamedTuple):
    """A map: its kind, the numbers that it is made of, and the number of symbols (of nodes, of a table).

    ``breaks`` is how many places follow the nodes of a table at which the map
    jumps or bends: three numbers each, the place, the jump and by how much the
    slope changes.
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
    breaks: int = 0


Maker = Callable[..., Form | None]
"""It makes a form of the parameters of a map, or None where that could not be exact enough."""


def form_of(cell_map: CellMap) -> Form | None:
    """Return the form of a map for the kernels; None of a map that they do not know, or not in all its digits."""
    return _made(FORMS[cell_map.kind], *cell_map.parameters)


def _made(maker: Maker | None, *parameters: Any) -> Form | None:
    return None if maker is None else maker(*parameters)


def _pass(kind: int, symbols: Any, pulls: Any, slope: float, shift: float) -> Form | None:
    """A loop over the symbols."""
    if symbols.size > MOST_SYMBOLS:
        return None
    unit = _unit(symbols)
    pulls = np.broadcast_to(pulls, symbols.shape) / (unit**2 if kind == NEAREST else unit)
    return Form(kind, (slope, shift / unit), symbols.size, np.concatenate([symbols / unit, pulls]), unit)


def _l0_prox(symbols: Any, pulls: Any, slope: float, shift: float) -> Form | None:
    gap = _even_gap(symbols, pulls)
    if not gap:
        return _pass(NEAREST, symbols, pulls, slope, shift)
    return _near(Form(EVEN, (*_nearest(symbols, gap, pulls[0]), 1 - slope, shift / gap), symbols.size, unit=gap))


def _unit(symbols: Any) -> float:
    """The power of two that values are divided by: 1 for most alphabets, else such that the largest is near 256.

    Then cells 125 times as large are numbers of fp16, and so are small symbols beside large ones.
    """
    largest = float(np.abs(symbols).max())
    return 1.0 if largest == 0 or 0.25 <= largest <= 256 else 2.0 ** (math.floor(math.log2(largest)) - 7)


def _near(form: Form) -> Form | None:
    """The form if its evenly spaced symbols are near enough to 0."""
    shift = form.numbers[3] - 1.5 * 2**23 + form.numbers[4]
    return form if max(abs(shift), abs(form.symbols - 1 - shift)) <= FARTHEST else None


def _even_gap(symbols: Any, pulls: Any) -> float:
    """The distance of neighbours if that, and the pull, is the same everywhere; else 0."""
    gaps = np.diff(symbols)
    even = symbols.size > 1 and np.ptp(gaps) <= 1e-9 * gaps[0] and np.ptp(pulls) == 0 and pulls[0] > 0
    return float(gaps.mean()) if even else 0.0


def _nearest(symbols: Any, gap: float, pull: float) -> tuple[float, ...]:
    """Numbers of the nearest symbol, in units of the gap, and the square of how near it has to be to be taken."""
    return *_whole_numbers(symbols.size - 1.0, -float(symbols[0]) / gap), 2 * float(pull) / gap**2


def _whole_numbers(top: float, shift: float) -> tuple[float, ...]:
    """Constants by which a kernel finds the nearest of 0 … top to s + shift: see `_fused_kernels._from_flat`."""
    whole = math.floor(shift + 0.5)
    return 1 / top, shift / top, float(top), 1.5 * 2**23 + whole, shift - whole


def _stairs(
    low: float, rate: float, period: float, top: float, wide: float, slope: float, base: float
) -> Form | None:
    numbers = (*_whole_numbers(top, -(low + 0.5 * wide) / period), 0.5 * wide / period, 1 - slope)
    return _near(Form(STAIRS, numbers, int(top) + 1, unit=period))


def _envelope(prox: CellMap, value: CellMap) -> Form | None:
    return _made(ENVELOPES.get((prox.kind, value.kind)), prox, value)


def _l1_envelope(prox: CellMap, value: CellMap) -> Form | None:
    symbols, pulls = value.parameters
    gap = _even_gap(symbols, pulls)
    if gap:
        return _gain(symbols, gap, float(pulls[0]), CellMap("envelope", (prox, value)))
    form = _pass(RECURRENCE, symbols, pulls, 0.0, 0.0)
    return form and form._replace(kind=ENVELOPE_L1, numbers=())


def _l0_envelope(prox: CellMap, value: CellMap) -> Form | None:
    symbols, pulls = value.parameters
    gap = _even_gap(symbols, pulls)
    if gap:
        numbers = _nearest(symbols, gap, pulls[0])
        return _near(Form(EVEN_GAIN, numbers, symbols.size, unit=gap, constant=float(pulls.sum())))
    form = _pass(NEAREST, symbols, pulls, 0.0, 0.0)
    return form and form._replace(kind=ENVELOPE_L0, numbers=())


def _remainder(prox: CellMap, slope: float, shift: float) -> Form | None:
    return _made(REMAINDERS.get(prox.kind), prox, slope, shift)


def _tabulated_remainder(prox: CellMap, slope: float, shift: float) -> Form | None:
    return _read(CellMap("remainder", (prox, slope, shift)), prox, 1)


def _tabulated_envelope(prox: CellMap, value: CellMap) -> Form | None:
    return _read(CellMap("envelope", (prox, value)), prox, 2)


def _gain(symbols: Any, gap: float, pull: float, envelope: CellMap) -> Form | None:
    """The envelope has the derivative y − prox(y): a parabola, as the line is split off, less the integral of f."""
    period, top = gap + 2 * pull, symbols.size - 1
    slope, low = gap / period, float(symbols[0]) - pull * symbols.size
    stairs = _stairs(low, 1 / period, period, top, 2 * pull, slope, 0.0)
    bend, tilt = 1 - slope, (slope - 1) * 0.5 * float(symbols[0] + symbols[-1])
    middle = low + pull
    there = np.array([middle])
    envelope(there)
    constant = float(there[0]) - 0.5 * bend * middle**2 - tilt * middle
    return stairs and stairs._replace(kind=GAIN, constant=constant, bend=bend, tilt=tilt)


def _read(cell_map: CellMap, prox: CellMap, power: int) -> Form | None:
    """A table of the map, whose values grow with that power of the unit; None if it cannot be exact enough."""
    symbols, table_of_prox = prox.parameters
    span, unit = float(np.ptp(symbols)), _unit(symbols)
    if span == 0:  # nothing says where cells are
        return None
    typical = min(math.sqrt(float(np.square(symbols).mean())), span)
    low, high = float(symbols[0]) - REACH * span, float(symbols[-1]) + REACH * span
    jumps = np.empty((0, 3))
    if power == 1:  # an envelope does not jump
        jumps = _breaks(cell_map, table_of_prox.edges, 1e-5 * span, 1e-7 * typical)
    if len(jumps) > MOST_BREAKS:
        return None
    for count in NODES:
        beyond = _beyond(cell_map, jumps, symbols, (high - low) / count, power)
        breaks = np.concatenate([jumps, beyond])
        places = np.linspace(low, high, 2 * count + 1)
        values = _without(cell_map, places, breaks)
        if _off(cell_map, places, values, symbols, power) <= (COARSE * typical if power == 1 else FINE):
            table = np.stack([values[:-2:2], np.diff(values[::2])], axis=1) / unit**power
            scale = np.array([unit, unit**power, unit ** (power - 1)])
            whole = np.concatenate([table.reshape(-1), (breaks / scale).reshape(-1)])
            return Form(TABLE, (low / unit, count * unit / (high - low)), count, whole, unit, breaks=len(breaks))
    return None


def _off(cell_map: CellMap, places: Any, values: Any, symbols: Any, power: int) -> float:
    """Error of a table within the alphabet: nodes are every other of the values, which are without breaks.

    Where breaks are large beside the map, a float32 of their sum has few digits of it.
    """
    inside = (places[1::2] >= symbols[0]) & (places[1::2] <= symbols[-1])
    off = (values[1::2] - 0.5 * (values[2::2] + values[:-2:2]))[inside]
    whole = _mapped(cell_map, places[1::2][inside])
    lost = float(np.finfo(np.float32).eps) * float(np.abs(values[1::2][inside] - whole).mean())
    if power == 1:
        return math.sqrt(float(np.square(off).mean())) + lost
    return (float(np.abs(off).mean()) + lost) / max(float(whole.mean()), 1e-300)


def _beyond(cell_map: CellMap, jumps: Any, symbols: Any, step: float, power: int) -> Any:
    """Places where the map bends beyond a table with nodes so far apart; none if it is as good as straight there."""
    span, found = float(np.ptp(symbols)), []
    for end, way in ((symbols[0], -1), (symbols[-1], 1)):
        places = end + way * span * np.concatenate([[REACH - step / span], PIECES])
        values = _without(cell_map, places, jumps)
        line = values[1] + (places - places[1]) * (values[1] - values[0]) / (places[1] - places[0])
        allowed = STRAIGHT * np.abs(places - places[1]) if power == 1 else STRAIGHT_COST * np.abs(values)
        if (np.abs(values - line) > allowed)[2:6].any():  # of the first four pieces
            found.append(_bends(places[::way], values[::way]))
    return np.concatenate([np.empty((0, 3)), *found])


def _bends(places: Any, values: Any) -> Any:
    """Places, jumps of 0, and changes of the slope, of what is straight between ascending places."""
    slopes = np.diff(values) / np.diff(places)
    return np.stack([places[1:-1], np.zeros(len(places) - 2), np.diff(slopes)], axis=1)


def _without(cell_map: CellMap, places: Any, breaks: Any) -> Any:
    """The map less its breaks."""
    values = _mapped(cell_map, places)
    for backend, step, bend in breaks:
        values -= np.where(places < backend, 0.0, step + bend * (places - backend))
    return values


def _mapped(cell_map: CellMap, values: Any) -> Any:
    out = values.copy()
    cell_map(out)
    return out


def _breaks(cell_map: CellMap, edges: Any, near: float, least: float) -> Any:
    """Breaks of a map, where it jumps by more than ``least`` or bends: places, jumps, and changes of the slope."""
    before, after = _mapped(cell_map, np.nextafter(edges, -np.inf)), _mapped(cell_map, edges)
    left = _mapped(cell_map, edges - near) - _mapped(cell_map, edges - 2 * near)
    right = _mapped(cell_map, edges + 2 * near) - _mapped(cell_map, edges + near)
    steps, bends = after - before, (right - left) / near
    return np.stack([edges, steps, bends], axis=1)[(np.abs(steps) > least) | (np.abs(bends) > 1e-2)]


FORMS: dict[str, Maker | None] = {
    "identity": None,
    "line": None,
    "square": None,
    "l1-value": None,
    "l1-prox": partial(_pass, RECURRENCE),
    "l1-stairs": _stairs,
    "composed-l1-prox": partial(_pass, COMPOSED),
    "l0-value": None,
    "l0-prox": _l0_prox,
    "fractional-value": None,
    "power-value": None,
    "tabulated": None,
    "envelope": _envelope,
    "landing": None,
    "remainder": _remainder,
    "less-parabola": None,
    "own": None,
}
"""By kind: called with the parameters of a map, each returns its form; None of a kind that goes by tiles."""

ENVELOPES: dict[tuple[str, str], Maker] = {
    ("l1-prox", "l1-value"): _l1_envelope,
    ("l0-prox", "l0-value"): _l0_envelope,
    ("tabulated", "fractional-value"): _tabulated_envelope,
    ("tabulated", "power-value"): _tabulated_envelope,
}
"""By the kinds of prox and value; the envelopes of others are not fused."""

REMAINDERS: dict[str, Maker] = {"tabulated": _tabulated_remainder}
"""By the kind of the prox; other proxes bring a remainder of their own kind, or are not fused."""
