"""The exact prox of a scalar penalty that has no formula, found numerically and tabulated.

With T(u) = u + r'(u), a minimiser of r(u) + ½ (u − y)² solves T(u) = y where T
rises, or is a symbol at which r has a cusp. Each stretch of u on which T rises,
and each cusp, is a candidate. As y grows the best candidate moves to the right
and never back, so that the prox is a chain of branches with jumps between
them. The jumps are found by bisection; on a branch the prox is smooth and is
interpolated by cubics, in pieces that are halved until `TOLERANCE` is met.
Far outside the alphabet T(u) = y is solved on the spot.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from snapimpute.base.types import Array

TOLERANCE = 1e-11
"""Error of the interpolation, relative to the symbols."""

NODES = 17
"""Nodes of one piece of a branch."""

MAX_DEPTH, MAX_PIECES = 40, 1 << 12
"""Most halvings of a piece, and most pieces of a branch: the tolerance cannot be had at a fold."""

GUIDE = 1 << 12
"""Evenly spaced places at which the search for a piece begins."""

REACH = 4.0
"""Reach of the table beyond the alphabet, in units of its span and of the width of the penalty."""


class Family(NamedTuple):
    """Σ_k pulls_k d²/(d² + shape), or Σ_k pulls_k |d|^shape if ``power``; every pull is above 0."""

    symbols: Array
    pulls: Array
    shape: float
    power: bool


class Stretch(NamedTuple):
    """The u from ``low`` to ``high``, where T rises; a single symbol if they are equal."""

    low: float
    high: float


class Piece(NamedTuple):
    """A part of a branch that begins at a y: the prox at evenly spaced y, and its derivative."""

    begin: float
    u: Array
    slope: Array


# ---------------------------------------------------------------- one value
@numba.njit(nogil=True, cache=True, error_model="numpy")
def derivatives(u: float, symbols: Array, pulls: Array, shape: float, power: bool) -> tuple[float, float, float]:
    """r(u), r'(u) and r''(u)."""
    value = slope = bend = 0.0
    for k in range(symbols.size):
        d = u - symbols[k]
        if power:
            size = abs(d)
            part = pulls[k] * size**shape
            value += part
            slope += shape * part / d if size > 0 else 0.0
            bend += shape * (shape - 1) * part / (d * d) if size > 0 else -np.inf
        else:
            square = d * d + shape
            value += pulls[k] * d * d / square
            slope += 2 * pulls[k] * shape * d / (square * square)
            bend += 2 * pulls[k] * shape * (shape - 3 * d * d) / (square * square * square)
    return value, slope, bend


@numba.njit(nogil=True, cache=True, error_model="numpy")
def settle(y: float, low: float, high: float, symbols: Array, pulls: Array, shape: float, power: bool) -> float:
    """The u from low to high with T(u) = y, or the end nearest to it: Newton steps inside a bracket."""
    left = min(y, symbols[0], high) if low == -np.inf else low
    right = max(y, symbols[-1], low) if high == np.inf else high
    if left < right and left + derivatives(left, symbols, pulls, shape, power)[1] >= y:
        return left
    if left < right and right + derivatives(right, symbols, pulls, shape, power)[1] <= y:
        return right
    u = min(max(y, left), right)
    for _ in range(200):
        _, slope, bend = derivatives(u, symbols, pulls, shape, power)
        excess = u + slope - y
        if excess > 0:
            right = u
        else:
            left = u
        following = u - excess / (1 + bend)
        if not left < following < right:
            following = 0.5 * (left + right)
        if following == u or right - left <= 2e-16 * (abs(left) + abs(right)):
            break
        u = following
    return u


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _loss(
    y: float, a: tuple[float, float], b: tuple[float, float], symbols: Array, pulls: Array, shape: float, power: bool
) -> float:
    """Excess of the least r(u) + ½ (u − y)² on stretch a over that on b."""
    u = a[0] if a[0] == a[1] else settle(y, a[0], a[1], symbols, pulls, shape, power)
    v = b[0] if b[0] == b[1] else settle(y, b[0], b[1], symbols, pulls, shape, power)
    r = derivatives(u, symbols, pulls, shape, power)[0] - derivatives(v, symbols, pulls, shape, power)[0]
    return float(r + 0.5 * (u - v) * (u + v - 2 * y))


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _meeting(
    a: tuple[float, float], b: tuple[float, float], symbols: Array, pulls: Array, shape: float, power: bool
) -> float:
    """The y up to which stretch a, to the left of b, is the better one."""
    left, right = symbols[0] - 1.0, symbols[-1] + 1.0
    for _ in range(2000):
        width = right - left
        at_left = _loss(left, a, b, symbols, pulls, shape, power) <= 0
        at_right = _loss(right, a, b, symbols, pulls, shape, power) > 0
        if at_left and at_right:
            break
        left = left if at_left else left - width
        right = right if at_right else right + width
    for _ in range(200):
        y = 0.5 * (left + right)
        if y in (left, right):
            break
        if _loss(y, a, b, symbols, pulls, shape, power) <= 0:
            left = y
        else:
            right = y
    return float(right)


# ---------------------------------------------------------------- many values
@numba.njit(nogil=True, cache=True, error_model="numpy")
def _nodes(
    y: Array, low: float, high: float, symbols: Array, pulls: Array, shape: float, power: bool
) -> tuple[Array, Array]:
    """The prox on a stretch and its derivative."""
    u, slope = np.empty(y.size), np.empty(y.size)
    for i in range(y.size):
        u[i] = settle(y[i], low, high, symbols, pulls, shape, power)
        slope[i] = 1 / max(1 + derivatives(u[i], symbols, pulls, shape, power)[2], 1e-12)
    return u, slope


@numba.njit(nogil=True, cache=True, error_model="numpy")
def look_up(
    x: Array,
    guide: NDArray[np.int64],
    edges: Array,
    origins: Array,
    rates: Array,
    firsts: Array,
    u: Array,
    slopes: Array,
    inside: tuple[float, float],
    outer: tuple[float, float],
    symbols: Array,
    pulls: Array,
    shape: float,
    power: bool,
) -> None:
    """x ← prox(x): the piece, the cell of its table, a cubic.

    ``guide`` holds, for evenly spaced y, the piece to begin the search with.
    """
    scale = guide.size / (inside[1] - inside[0])
    for i in range(x.size):
        y = x[i]
        if y < inside[0]:
            x[i] = settle(y, -np.inf, outer[0], symbols, pulls, shape, power)
        elif y > inside[1]:
            x[i] = settle(y, outer[1], np.inf, symbols, pulls, shape, power)
        elif not np.isnan(y):
            b = guide[min(int((y - inside[0]) * scale), guide.size - 1)]
            while b < edges.size and edges[b] <= y:
                b += 1
            t = (y - origins[b]) * rates[b]
            last = firsts[b + 1] - firsts[b] - 2
            cell = min(max(int(t), 0), last)
            t -= cell
            k = firsts[b] + cell
            rise = u[k + 1] - u[k]
            left, right = slopes[k], slopes[k + 1]
            x[i] = u[k] + t * (left + t * (3 * rise - 2 * left - right + t * (left + right - 2 * rise)))


class Table(NamedTuple):
    """The arguments of `look_up`: pieces of the prox, where the table ends, and the family for what lies beyond."""

    guide: NDArray[np.int64]
    edges: Array
    origins: Array
    rates: Array
    firsts: Array
    u: Array
    slopes: Array
    inside: tuple[float, float]
    outer: tuple[float, float]
    symbols: Array
    pulls: Array
    shape: float
    power: bool


def tabulated_prox(family: Family) -> Table:
    """Return the table of x ↦ argmin_u r(u) + ½ (u − x)²."""
    stretches, edges = _branches(family, _candidates(family))
    spread = family.symbols[-1] - family.symbols[0] + _width(family)
    low = min([*edges[:1], family.symbols[0]]) - REACH * spread
    high = max([*edges[-1:], family.symbols[-1]]) + REACH * spread
    pieces = [
        piece
        for stretch, (begin, end) in zip(stretches, pairwise([low, *edges, high]), strict=True)
        for piece in _pieces(family, stretch, begin, end)
    ]
    borders = np.array([*(piece.begin for piece in pieces), high])
    counts = [piece.u.size for piece in pieces]
    rates = (np.array(counts) - 1) / np.diff(borders)
    steps = np.linspace(low, high, GUIDE + 1)[:-1]
    return Table(
        # One piece earlier than the step says: rounding of the place of a y cannot lead past its piece.
        guide=np.maximum(np.searchsorted(borders[1:-1], steps, side="right") - 1, 0),
        edges=borders[1:-1].copy(),
        origins=borders[:-1].copy(),
        rates=rates,
        firsts=np.concatenate([[0], np.cumsum(counts)]),
        u=np.concatenate([piece.u for piece in pieces]),
        slopes=np.concatenate([piece.slope / rate for piece, rate in zip(pieces, rates, strict=True)]),
        inside=(low, high),
        outer=(stretches[0].high, stretches[-1].low),
        **family._asdict(),
    )


def _width(family: Family) -> float:
    """Beyond this distance from all symbols T rises without doubt; where a power is felt."""
    total = float(family.pulls.sum())
    if family.power:
        return float((2 * total) ** (1 / (2 - family.shape)))
    return math.sqrt(family.shape) + float((12 * family.shape * total) ** 0.25)


def _candidates(family: Family) -> list[Stretch]:
    """All stretches from left to right."""
    symbols = family.symbols
    if not family.power:
        return _rising(family, -np.inf, np.inf, _grid(family))
    out = []
    far = 2 * _width(family) + symbols[-1] - symbols[0]
    borders = [-np.inf, *symbols.tolist(), np.inf]
    for left, right in pairwise(borders):
        begin, end = max(left, symbols[0] - far), min(right, symbols[-1] + far)
        inner = begin + (end - begin) * 0.5 * (1 - np.cos(np.pi * np.arange(1, 400) / 400))
        out += _rising(family, left, right, inner)
        if right < np.inf:
            out.append(Stretch(right, right))
    return out


def _grid(family: Family) -> Array:
    """Points at which the sign of T' is looked at, dense about every symbol."""
    width = math.sqrt(family.shape)
    far = 2 * _width(family) + family.symbols[-1] - family.symbols[0]
    offsets = width * np.sinh(np.linspace(0, math.asinh(far / width), 200)[1:])
    about = family.symbols[:, None] + np.concatenate([-offsets[::-1], [0.0], offsets])
    return np.unique(np.concatenate([about.ravel(), np.linspace(about.min(), about.max(), 2000)]))


def _rising(family: Family, left: float, right: float, grid: Array) -> list[Stretch]:
    """The stretches between left and right; an infinite end belongs to the outermost, a cusp to none."""
    rises = np.array([1 + derivatives(u, *family)[2] > 0 for u in grid])
    out = []
    begin: float | None = left if rises[0] and left == -np.inf else None
    if rises[0] and begin is None:
        begin = _turn(family, left, grid[0])
    for before, after, up_before, up_after in zip(grid[:-1], grid[1:], rises[:-1], rises[1:], strict=True):
        if up_before == up_after:
            continue
        turn = _turn(family, before, after)
        if up_after:
            begin = turn
        elif begin is not None:
            out.append(Stretch(begin, turn))
            begin = None
    if begin is not None:
        out.append(Stretch(begin, np.inf if right == np.inf else _turn(family, grid[-1], right)))
    return out


def _turn(family: Family, left: float, right: float) -> float:
    """Places where T' changes its sign."""
    up = 1 + derivatives(right, *family)[2] > 0
    for _ in range(200):
        middle = 0.5 * (left + right)
        if middle in (left, right):
            break
        if (1 + derivatives(middle, *family)[2] > 0) == up:
            right = middle
        else:
            left = middle
    return right if up else left


def _branches(family: Family, candidates: list[Stretch]) -> tuple[list[Stretch], list[float]]:
    """The candidates that are ever the best, and the y at which each gives way to the next."""
    chain: list[Stretch] = []
    starts: list[float] = []
    for candidate in candidates:
        begin = -np.inf
        while chain:
            begin = _meeting(chain[-1], candidate, *family)
            if begin > starts[-1]:
                break
            chain.pop()
            starts.pop()
            begin = -np.inf
        chain.append(candidate)
        starts.append(begin)
    return chain, starts[1:]


def _pieces(family: Family, stretch: Stretch, begin: float, end: float) -> list[Piece]:
    """Tables of a branch, so short that cubics between their nodes are exact to the tolerance."""
    if stretch.low == stretch.high:
        return [Piece(begin, np.full(2, stretch.low), np.zeros(2))]
    where: tuple[Any, ...] = (*stretch, *family)
    allowed = TOLERANCE * (1 + float(np.abs(family.symbols).max()))
    # A well may be narrower than any even spacing: one cut falls into the middle of each.
    wells = [float(a + derivatives(a, *family)[1]) for a in family.symbols if stretch.low < a < stretch.high]
    marks = [begin, *sorted({y for y in wells if begin < y < end}), end]
    out: list[Piece] = []
    waiting = [(left, right, 0) for left, right in pairwise(marks)][::-1]
    while waiting:
        left, right, depth = waiting.pop()
        y = np.linspace(left, right, NODES)
        u, slope = _nodes(y, *where)
        middle, _ = _nodes(0.5 * (y[1:] + y[:-1]), *where)
        guess = 0.5 * (u[1:] + u[:-1]) + (slope[:-1] - slope[1:]) * (y[1] - y[0]) / 8
        rounding = 1e-14 * max(abs(left), abs(right))
        exact = np.abs(guess - middle).max() <= max(allowed, rounding)
        if exact or depth > MAX_DEPTH or len(out) > MAX_PIECES:
            out.append(Piece(left, u, slope))
        else:
            half = 0.5 * (left + right)
            waiting += [(half, right, depth + 1), (left, half, depth + 1)]
    return out
