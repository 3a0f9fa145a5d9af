"""Draws of units from their normal equations, sixteen at once: one in each lane of a vector."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from snapimpute.posterior._intervals import fill_normal, kernel

LANES = 16
"""Units that are solved for at once."""


@cache
def _loader(width: int) -> Any:
    """Compile the equations of up to `LANES` units, one a lane."""
    square = width * width

    @kernel
    def load(count, sums, ridge, mean, scale, first, A, h):
        for lane in range(LANES):
            unit = min(lane, count - 1)
            t = scale[first + unit]
            for a in range(width):
                for b in range(a + 1):
                    A[a, b, lane] = t * sums[unit, a * width + b]
                A[a, a, lane] += ridge[a]
                h[a, lane] = ridge[a] * mean[first + unit, a] + t * sums[unit, square + a]

    return load


@cache
def _factoriser(width: int) -> Any:
    """Compile Cholesky's factors, lane by lane."""

    @kernel
    def factor(A, h):
        """A ← its Cholesky factor, reciprocals on the diagonal; h ← L⁻¹h."""
        root = np.empty(LANES, np.float32)
        for a in range(width):
            for lane in range(LANES):
                root[lane] = np.float32(1) / np.sqrt(A[a, a, lane])
            for b in range(a, width):
                for lane in range(LANES):
                    A[b, a, lane] *= root[lane]
            for lane in range(LANES):
                h[a, lane] *= root[lane]
                A[a, a, lane] = root[lane]
            for b in range(a + 1, width):
                for lane in range(LANES):
                    h[b, lane] -= A[b, a, lane] * h[a, lane]
                for c in range(a + 1, b + 1):
                    for lane in range(LANES):
                        A[b, c, lane] -= A[b, a, lane] * A[c, a, lane]

    return factor


@cache
def _finisher(width: int) -> Any:
    """Compile the last step of the solution, and what the units leave of their cells."""
    square = width * width

    @kernel
    def back(A, h):
        """h ← L⁻ᵀh."""
        for a in range(width - 1, -1, -1):
            for lane in range(LANES):
                h[a, lane] *= A[a, a, lane]
            for b in range(a):
                for lane in range(LANES):
                    h[b, lane] -= A[a, b, lane] * h[a, lane]

    @kernel
    def residual(sums, x):
        """Σ w (t − xᵀv)² from the sums alone."""
        total = sums[square + width]
        for a in range(width):
            half = np.float32(0.5) * sums[a * width + a] * x[a]
            for b in range(a):
                half += sums[a * width + b] * x[b]
            total += np.float32(2) * x[a] * (half - sums[square + a])
        return max(total, np.float32(0))

    return back, residual


@cache
def solver(width: int) -> Any:
    """Compile the draw of up to `LANES` units of so many numbers.

    ``solve(count, sums, ridge, mean, scale, key, purpose, first, numbers, rest)``
    draws units first … first + count from N(A⁻¹h, A⁻¹), A = diag(ridge) + scale·G and
    h = ridge·mean + scale·Σ w t v, with the sums of `_gram.accumulator`. ``rest`` gets
    Σ w (t − xᵀv)² of each.
    """
    load, factor, (back, residual) = _loader(width), _factoriser(width), _finisher(width)

    @kernel
    def solve(count, sums, ridge, mean, scale, key, purpose, first, numbers, rest):
        A = np.empty((width, width, LANES), np.float32)
        h, noise = np.empty((width, LANES), np.float32), np.empty((width, LANES), np.float32)
        fill_normal(first * width, purpose, key, noise.reshape(-1))
        load(count, sums, ridge, mean, scale, first, A, h)
        factor(A, h)
        for a in range(width):
            for lane in range(LANES):
                h[a, lane] += noise[a, lane]
        back(A, h)
        for lane in range(count):
            for a in range(width):
                numbers[first + lane, a] = h[a, lane]
            rest[first + lane] = residual(sums[lane], numbers[first + lane])

    return solve
