"""The compiled maps of one real variable, in torch: each changes a tensor in place.

They have the names and arguments of `penalties.kernels` and `penalties.table`,
and give the same values. NaN stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _even_l1_remainder(
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


def _half_squares(x: Tensor, u: Any) -> Tensor:
    return torch.where(x == u.tensor, 0.0, x - u.tensor).square_().mul_(0.5)


def _look_up(
    x: Tensor,
    guide: Any,
    edges: Any,
    origins: Any,
    rates: Any,
    firsts: Any,
    u: Any,
    slopes: Any,
    inside: tuple[float, float],
    outer: tuple[float, float],
    *family: Any,
) -> Tensor:
    """The piece, the cell of its table, a cubic; beyond the table the equation is solved."""
    tables = (torch.as_tensor(one, device=x.device) for one in (edges, origins, rates, firsts, u, slopes))
    edges, origins, rates, firsts, u, slopes = tables
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
            out[beyond] = _settled(y[beyond], low, high, *family)
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


MAPS: dict[str, Callable[..., Tensor]] = {
    "even_l1_remainder": _even_l1_remainder,
    "l1_prox": _l1_prox,
    "composed_l1_prox": _composed_l1_prox,
    "l1_value": _l1_value,
    "l0_prox": _l0_prox,
    "l0_value": _l0_value,
    "fractional_value": _fractional_value,
    "power_value": _power_value,
    "half_squares": _half_squares,
    "_look_up": _look_up,
}
"""By the names of the compiled ones."""
