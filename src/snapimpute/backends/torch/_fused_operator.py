"""f(X) as an operator by fused products, in the lowest precision that is good enough.

How good one is, is measured: on some of the rows and columns the products with
the spaces that the next step will feel are made in float32 as well.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from snapimpute.backends.torch import _fused as fused
from snapimpute.backends.torch._arrays import DTYPES
from snapimpute.backends.torch._forms import Form
from snapimpute.base.types import Array
from snapimpute.linalg import LowRank
from snapimpute.linalg.backend import Accuracy
from snapimpute.linalg.tiled import Mapped

PROBED = 2048
"""Rows, and columns, on which a precision is compared with float32."""

CHEAP, EXACT = "fp16", "float32"


def chosen(backend: Any, factors: LowRank, form: Form, accuracy: Accuracy, error: float) -> FusedMapped:
    """The operator in the cheap precision if its error is allowed, else in float32, whose error is given."""
    exact = FusedMapped(backend, factors, form, EXACT, error)
    if backend.mixed and accuracy.error > error and accuracy.left is not None and accuracy.right is not None:
        cheap = FusedMapped(backend, factors, form, CHEAP, error)
        cheap.measure(exact, accuracy.left, accuracy.right)
        if cheap.error <= accuracy.error:
            return cheap
    return exact


def probed(rows: int) -> Tensor:
    """All of a few rows, else some that are spread evenly, but not periodically: tables may be periodic."""
    if rows < 2 * PROBED:
        return torch.arange(rows)
    golden = 0.5 * (math.sqrt(5) - 1)
    return (torch.arange(PROBED, dtype=torch.float64) * golden % 1 * rows).long()


class FusedMapped(Mapped):
    """f(X) for a low-rank X and a map that kernels know; ``error`` is what their precision costs."""

    def __init__(self, backend: Any, factors: LowRank, form: Form, precision: str, error: float) -> None:
        super().__init__(factors, error)
        self._torch, self.form, self.precision = backend, form, precision
        left, right = backend.tensor(factors.U * factors.s), backend.tensor(factors.V)
        self.sides = fused.sides(left.to(torch.float32), right.to(torch.float32), precision, form.unit)

    def matmat(self, B: Array) -> Array:
        """f(X)·B."""
        left, right = self.sides
        return self._times(left, right, self.shape[0], B)

    def rmatmat(self, C: Array) -> Array:
        """f(X)ᵀ·C."""
        left, right = self.sides
        return self._times(right, left, self.shape[1], C)

    def _times(self, left: fused.Side, right: fused.Side, rows: int, block: Array) -> Array:
        found: Array = self._torch.array(self._product(left, right, rows, block).to(DTYPES[self.dtype]))
        return found

    def _product(self, left: fused.Side, right: fused.Side, rows: int, block: Array) -> Tensor:
        """Multiply in float32; a block that is wider than kernels take is cut into several."""
        given = self._torch.tensor(block).to(torch.float32)
        step = fused.MOST_COLUMNS
        parts = [
            fused.product_of_sides(left, right, rows, self.form, given[:, start : start + step], self.precision)
            for start in range(0, max(given.shape[1], 1), step)
        ]
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0]

    def measure(self, exact: FusedMapped, left: Array, right: Array) -> None:
        """Add to the error ‖E·right‖ and ‖Eᵀ·left‖ on some rows and columns, E the difference to the exact one."""
        total = 0.0
        for here, space in ((0, right), (1, left)):
            rows = self.shape[here]
            some = probed(rows).to(self._torch.device)
            one, two = (
                each._product(each.sides[here].at(some), each.sides[1 - here], len(some), space)
                for each in (self, exact)
            )
            total += float((one - two).square().sum(dtype=torch.float64)) * rows / len(some)
        self._error += math.sqrt(total)
