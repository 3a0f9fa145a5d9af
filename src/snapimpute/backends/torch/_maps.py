"""The interpreter of cell maps for tensors.

It has every kind of `penalties.maps`, and gives the values of numpy. NaN stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snapimpute.backends.torch._arrays import NUMPY
from snapimpute.penalties import CellMap


def applied(cell_map: CellMap, x: Tensor) -> Tensor:
    """Return what a map makes of a tensor, of which nothing is changed."""
    parameters = cell_map.parameters_in(NUMPY[x.dtype])
    numbers = (one.item() if isinstance(one, np.generic) else one for one in parameters)
    return MAPS[cell_map.kind](x, *numbers)


def _identity(x: Tensor) -> Tensor:
    return x.clone()


def _line(x: Tensor, slope: float, shift: float) -> Tensor:
    return (x * slope).add_(shift)


def _square(x: Tensor, pull: float, centre: float) -> Tensor:
    d = x - centre
    return d.mul_(d).mul_(pull)


def _l1_stairs(
    x: Tensor, low: float, rate: float, period: float, top: float, wide: float, slope: float, base: float
) -> Tensor:
    z = x - low
    k = torch.floor(z * rate).clamp_(0, top)
    rho = z.sub_(k.mul_(period))
    steps = torch.clamp(rho, max=0).add_(torch.clamp(rho - wide, min=0))
    return rho.mul_(-slope).add_(base).add_(steps)


def _less_line(u: Tensor, x: Tensor, slope: float, shift: float) -> Tensor:
    return u if slope == 0 and shift == 0 else u.sub_(slope * x + shift)


def _l1_prox(x: Tensor, symbols: Any, pulls: Any, slope: float, shift: float) -> Tensor:
    u = x + float(pulls.sum())
    for a, pull in zip(symbols.tolist(), pulls.tolist(), strict=True):
        u = torch.minimum(u, (u - 2 * pull).clamp_(min=a))
    return _less_line(u, x, slope, shift)


def _composed_l1_prox(x: Tensor, symbols: Any, pull: float, slope: float, shift: float) -> Tensor:
    u = x.clone()
    for a in symbols.tolist()[::-1]:
        d = u - a
        u = (d - pull).clamp_(min=0).add_((d + pull).clamp_(max=0)).add_(a)
    return _less_line(u, x, slope, shift)


def _l1_value(x: Tensor, symbols: Any, pulls: Any) -> Tensor:
    total = torch.zeros_like(x)
    for a, pull in zip(symbols.tolist(), pulls.tolist(), strict=True):
        total.add_((x - a).abs_(), alpha=pull)
    return total


def _l0_prox(x: Tensor, symbols: Any, pulls: Any, slope: float, shift: float) -> Tensor:
    u, best = x.clone(), torch.zeros_like(x)
    for a, gain in zip(symbols.tolist(), pulls.tolist(), strict=True):
        cost = (x - a).square_().mul_(0.5).sub_(gain)
        better = cost < best
        u.masked_fill_(better, a)
        best = torch.where(better, cost, best)
    return _less_line(u, x, slope, shift)


def _l0_value(x: Tensor, symbols: Any, pulls: Any) -> Tensor:
    total = torch.where(x.isnan(), x, float(pulls.sum()))
    for a, pull in zip(symbols.tolist(), pulls.tolist(), strict=True):
        total = torch.where(x == torch.tensor(a, dtype=x.dtype, device=x.device), total - pull, total)
    return total


def _fractional_value(x: Tensor, symbols: Any, pulls: Any, alpha: float) -> Tensor:
    total = torch.zeros_like(x)
    for a, pull in zip(symbols.tolist(), pulls.tolist(), strict=True):
        total.add_(pull / (1 + alpha / (x - a).square_()))
    return total


def _power_value(x: Tensor, symbols: Any, pulls: Any, p: float) -> Tensor:
    total = torch.zeros_like(x)
    for a, pull in zip(symbols.tolist(), pulls.tolist(), strict=True):
        total.add_((x - a).abs_().pow_(p), alpha=pull)
    return total


def _tabulated(x: Tensor, alphabet: Any, table: Any) -> Tensor:
    """The piece, the cell of its table, a cubic; beyond the table the equation is solved."""
    given = table.edges, table.origins, table.rates, table.firsts, table.u, table.slopes
    edges, origins, rates, firsts, u, slopes = (torch.as_tensor(one, device=x.device) for one in given)
    inside, outer = table.inside, table.outer
    y = x.to(torch.float64)
    b = torch.searchsorted(edges, y.contiguous(), right=True)
    t = (y - origins[b]) * rates[b]
    cell = torch.minimum(t.nan_to_num(0.0).long().clamp_(min=0), firsts[b + 1] - firsts[b] - 2)
    t = t - cell
    k = firsts[b] + cell
    rise, left, right = u[k + 1] - u[k], slopes[k], slopes[k + 1]
    out = u[k] + t * (left + t * (3 * rise - 2 * left - right + t * (left + right - 2 * rise)))
    for beyond, low, high in ((y < inside[0], -math.inf, outer[0]), (y > inside[1], outer[1], math.inf)):
        if bool(beyond.any()):
            out[beyond] = _settled(y[beyond], low, high, table.symbols, table.pulls, table.shape, table.power)
    found: Tensor = out.to(x.dtype)
    return found


def _settled(y: Tensor, low: float, high: float, symbols: Any, pulls: Any, shape: float, power: bool) -> Tensor:
    """The u from low to high with u + r'(u) = y, by bisection."""
    first, last = float(symbols[0]), float(symbols[-1])
    left = y.clamp(max=min(first, high)) if low == -math.inf else torch.full_like(y, low)
    right = y.clamp(min=max(last, low)) if high == math.inf else torch.full_like(y, high)
    for _ in range(80):
        u = 0.5 * (left + right)
        above = u + _slope(u, symbols, pulls, shape, power) > y
        left, right = torch.where(above, left, u), torch.where(above, u, right)
    return 0.5 * (left + right)


def _slope(u: Tensor, symbols: Any, pulls: Any, shape: float, power: bool) -> Tensor:
    """r'(u)."""
    total = torch.zeros_like(u)
    for a, pull in zip(symbols.tolist(), pulls.tolist(), strict=True):
        d = u - a
        if power:
            total += torch.where(d == 0, 0.0, shape * pull * d.abs().pow(shape - 1) * d.sign())
        else:
            total += 2 * pull * shape * d / (d * d + shape).square()
    return total


def _envelope(x: Tensor, prox: CellMap, value: CellMap) -> Tensor:
    u = applied(prox, x)
    half_squares = torch.where(x == u, 0.0, x - u).square_().mul_(0.5)
    return half_squares.add_(applied(value, u))


def _landing(x: Tensor, prox: CellMap, value: CellMap) -> Tensor:
    return applied(value, applied(prox, x))


def _remainder(x: Tensor, prox: CellMap, slope: float, shift: float) -> Tensor:
    return applied(prox, x).sub_((x * slope).add_(shift))


def _less_parabola(x: Tensor, cost: CellMap, bend: float, shift: float, least: float) -> Tensor:
    return applied(cost, x).sub_((x * bend - shift).mul_(x).add_(least))


def _own(x: Tensor, function: Any) -> Tensor:
    """A user's function knows numpy only: it is called in the memory of the host."""
    host = x.cpu().numpy().copy()
    CellMap.of(function)(host.reshape(-1))
    return torch.from_numpy(host).to(x.device)


MAPS: dict[str, Callable[..., Tensor]] = {
    "identity": _identity,
    "line": _line,
    "square": _square,
    "l1-value": _l1_value,
    "l1-prox": _l1_prox,
    "l1-stairs": _l1_stairs,
    "composed-l1-prox": _composed_l1_prox,
    "l0-value": _l0_value,
    "l0-prox": _l0_prox,
    "fractional-value": _fractional_value,
    "power-value": _power_value,
    "tabulated": _tabulated,
    "envelope": _envelope,
    "landing": _landing,
    "remainder": _remainder,
    "less-parabola": _less_parabola,
    "own": _own,
}
"""By kind: called with a tensor and the parameters in its precision, each returns another tensor."""
