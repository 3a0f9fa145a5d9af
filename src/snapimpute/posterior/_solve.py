"""Draws of units from their normal equations, sixteen at once: one in each lane of a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapimpute.base.compiled import kernel, part
from snapimpute.base.vectors import LANES, Writer, intrinsic, written
from snapimpute.posterior._intervals import fill_normal

ROWS = 4
"""Rows of a Cholesky factor that are computed together."""


@intrinsic
def turn(typing: Any, source: Any, first: Any, stride: Any, out: Any, place: Any) -> Any:
    """Transpose sixteen rows of sixteen floats, which are ``stride`` apart in ``source``, to one block of ``out``."""

    def body(write: Writer, source: Any, first: Any, stride: Any, out: Any, place: Any) -> None:
        rows = [write.load(source, write.add(first, write.times(stride, lane))) for lane in range(LANES)]
        for lane, row in enumerate(write.turned(rows)):
            write.store(row, out, write.add(place, LANES * lane))

    return written(body, source, first, stride, out, place)


@intrinsic
def _factor(typing: Any, matrix: Any, width: Any, used: Any) -> Any:
    """Cholesky's factor of ``used`` rows, reciprocals on the diagonal; the row after it gets L⁻¹ times itself."""

    def body(write: Writer, matrix: Any, width: Any, used: Any) -> None:
        def at(row: Any, column: Any) -> Any:
            return write.times(write.add(write.times(row, width), column), LANES)

        root = write.variable(write.zeros())
        with write.loop(0, used) as a:
            with write.loop(a, write.add(used, 1), ROWS) as b:
                rest = [write.variable(write.load(matrix, at(write.add(b, r), a))) for r in range(ROWS)]
                with write.loop(0, a) as c:
                    pivot = write.load(matrix, at(a, c))
                    for r in range(ROWS):
                        rest[r].value = write.minus(rest[r].value, write.load(matrix, at(write.add(b, r), c)), pivot)
                with write.builder.if_then(write.builder.icmp_signed("==", a, b)):
                    root.value = write.one_over_root(rest[0].value)
                for r in range(ROWS):
                    write.store(write.product(rest[r].value, root.value), matrix, at(write.add(b, r), a))
            write.store(root.value, matrix, at(a, a))

    return written(body, matrix, width, used)


@intrinsic
def _back(typing: Any, matrix: Any, width: Any, used: Any, x: Any) -> Any:
    """Replace x by L⁻ᵀx."""

    def body(write: Writer, matrix: Any, width: Any, used: Any, x: Any) -> None:
        with write.loop(0, used) as done:
            a = write.builder.sub(write.add(used, -1), done)
            row = write.times(a, width)
            own = write.product(
                write.load(x, write.times(a, LANES)), write.load(matrix, write.times(write.add(row, a), LANES))
            )
            write.store(own, x, write.times(a, LANES))
            with write.loop(0, a) as b:
                place = write.times(b, LANES)
                beside = write.load(matrix, write.times(write.add(row, b), LANES))
                write.store(write.minus(write.load(x, place), beside, own), x, place)

    return written(body, matrix, width, used, x)


@intrinsic
def _add_transposed(typing: Any, matrix: Any, width: Any, used: Any, x: Any, out: Any) -> Any:
    """Add Lᵀx to ``out``."""

    def body(write: Writer, matrix: Any, width: Any, used: Any, x: Any, out: Any) -> None:
        with write.loop(0, used) as b:
            place = write.times(b, LANES)
            inverse = write.load(matrix, write.times(write.add(write.times(b, width), b), LANES))
            own = write.builder.fdiv(write.load(x, place), inverse)
            total = write.variable(write.builder.fadd(write.load(out, place), own))
            with write.loop(write.add(b, 1), used) as a:
                beside = write.load(matrix, write.times(write.add(write.times(a, width), b), LANES))
                total.value = write.plus(total.value, beside, write.load(x, write.times(a, LANES)))
            write.store(total.value, out, place)

    return written(body, matrix, width, used, x, out)


@kernel
def solve_space(width):
    """Work space of `solve_units` for units of so many numbers."""
    matrix = np.zeros((width + 1 + ROWS) * width * LANES, np.float32)
    return matrix, np.zeros((4, width * LANES), np.float32), np.zeros(LANES, np.float32)


@part
def _load(count, used, width, sums, ridge, mean, first, matrix, rows, prior):
    """Put the equations of units into the lanes of a matrix, their right sides into the row after the last used."""
    flat, length = sums.reshape(-1), sums.shape[1]
    for a in range(used):
        for left in range(0, a + 1, LANES):
            turn(flat, a * width + left, length, matrix, (a * width + left) * LANES)
        diagonal = matrix[(a * width + a) * LANES : (a * width + a + 1) * LANES]
        for lane in range(LANES):
            diagonal[lane] += ridge[a]
    for lane in range(count):
        for a in range(width):
            rows[lane * width + a] = ridge[a] * mean[first + lane, a]
    for a in range(0, width, LANES):
        turn(rows, a, width, prior, a * LANES)
        turn(flat, width * width + a, length, matrix, (used * width + a) * LANES)
    right = matrix[used * width * LANES : (used + 1) * width * LANES]
    for k in range(used * LANES):
        right[k] += prior[k]


@part
def _left_over(used, ridge, solved, drawn, prior, x, total):
    """Add to Σ w t² what makes it Σ w (t − xᵀv)².

    With A = LLᵀ, y = Lᵀx and f = L⁻¹h the sums are xᵀAx = yᵀy and hᵀx = fᵀy.
    """
    for a in range(used):
        for lane in range(LANES):
            k = a * LANES + lane
            y, number = drawn[k], x[k]
            total[lane] += y * (y - np.float32(2) * solved[k]) + number * (
                np.float32(2) * prior[k] - ridge[a] * number
            )


@part
def _relax(count, used, width, first, numbers, matrix, relaxation, solved, drawn, x, rows):
    """Turn f + noise, f = L⁻¹h, into f + r(Lᵀx − f) + √(1 − r²)·noise, with relaxation r and the old numbers x."""
    fresh = np.sqrt(np.float32(1) - relaxation * relaxation)
    for lane in range(count):
        for a in range(used):
            rows[lane * width + a] = numbers[first + lane, a]
    for a in range(0, width, LANES):
        turn(rows, a, width, x, a * LANES)
    for k in range(used * LANES):
        drawn[k] = solved[k] + fresh * (drawn[k] - solved[k]) - relaxation * solved[k]
    for k in range(used * LANES):
        x[k] *= relaxation
    _add_transposed(matrix, width, used, x, drawn)


@kernel
def solve_units(count, used, width, sums, ridge, mean, relaxation, key, purpose, first, numbers, rest, space):
    """Draw up to `LANES` units of ``used`` numbers.

    Units first … first + count come from N(A⁻¹h, A⁻¹), A = diag(ridge) + G and
    h = ridge·mean + Σ w t v, with the sums of `_gram.add_cells`, one row a unit.
    ``relaxation`` is their correlation with the numbers that were, which leaves this
    distribution as it is. ``rest`` gets Σ w (t − xᵀv)² of each.
    """
    matrix, vectors, total = space
    drawn, prior, x, rows = vectors[0], vectors[1], vectors[2], vectors[3]
    _load(count, used, width, sums, ridge, mean, first, matrix, rows, prior)
    _factor(matrix, width, used)
    solved = matrix[used * width * LANES : (used + 1) * width * LANES]
    fill_normal(first * width, purpose, key, drawn[: used * LANES])
    for k in range(used * LANES):
        drawn[k] += solved[k]
    if relaxation != 0:
        _relax(count, used, width, first, numbers, matrix, relaxation, solved, drawn, x, rows)
    for k in range(used * LANES):
        x[k] = drawn[k]
    _back(matrix, width, used, x)
    for lane in range(count):
        total[lane] = sums[lane, width * width + width]
    _left_over(used, ridge, solved, drawn, prior, x, total)
    for a in range(0, width, LANES):
        turn(x, a * LANES, LANES, rows, a * LANES)
    for a in range(0, used, LANES):
        last = min(LANES, used - a)
        for lane in range(count):
            own, new = numbers[first + lane, a : a + last], rows[(a + lane) * LANES : (a + lane) * LANES + last]
            for k in range(last):
                own[k] = new[k]
    for lane in range(count):
        rest[first + lane] = max(total[lane], np.float32(0))
