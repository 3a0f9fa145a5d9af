"""Normal equations of one unit, summed in vector registers: what plain loops do four times slower.

Numba compiles loops over arrays, but keeps no 16×16 matrix in registers: each
cell would load and store all of it. `accumulator` writes the loop in LLVM's
language instead, row a of the matrix in one vector, to which a cell adds
weight·v_a·v. Tests compare it with numpy.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped
from numba.extending import intrinsic

WIDTHS = (8, 16, 32, 48, 64)
"""Numbers a unit may have; others are padded to the next."""

_TILE = 16
"""Rows and columns of the matrix that are summed at once."""

cgutils: Any = untyped
_FLOAT, _INDEX = ir.FloatType(), ir.IntType(64)


@cache
def accumulator(width: int) -> Any:
    """Return the compiled function that sums the normal equations of cells start … stop.

    ``add(factors, which, weights, targets, start, stop, out)`` puts Σ w v vᵀ,
    Σ w t v and Σ w t² one after the other into ``out``, a flat array of
    width·width + width + 1 numbers, where v is row ``which[p]`` of ``factors``
    with its first number replaced by 1, and w and t are ``weights[p]`` and
    ``targets[p]``. Only the lower triangle is filled in above a width of 16.
    """

    @intrinsic
    def add(
        typing: Any, factors: Any, which: Any, weights: Any, targets: Any, start: Any, stop: Any, out: Any
    ) -> Any:
        signature = types.void(factors, which, weights, targets, start, stop, out)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointers = [
                context.make_array(kind)(context, builder, value).data
                for kind, value in zip(signature.args, arguments, strict=True)
                if isinstance(kind, types.Array)
            ]
            first, last = (
                context.cast(builder, value, kind, types.int64)
                for kind, value in zip(signature.args[4:6], arguments[4:6], strict=True)
            )
            for top in range(0, width, _TILE):
                for left in range(0, top + 1, _TILE):
                    _sum_block(builder, width, (top, left), pointers, (first, last))
            return context.get_dummy_value()

        return signature, generate

    return add


def _sum_block(builder: Any, width: int, corner: tuple[int, int], pointers: Any, cells: Any) -> None:
    """Sum a block of the matrix; with one on the diagonal also that part of the vector, and with the first Σ w t²."""
    factors, which, weights, targets, out = pointers
    size, (top, left) = min(_TILE, width), corner
    vector = ir.VectorType(_FLOAT, size)
    zero = ir.Constant(vector, [0.0] * size)
    sums = [cgutils.alloca_once_value(builder, zero) for _ in range(size)]
    right = cgutils.alloca_once_value(builder, zero)
    square = cgutils.alloca_once_value(builder, ir.Constant(_FLOAT, 0.0))

    def load(unit: Any, offset: int) -> Any:
        start = builder.add(builder.mul(unit, ir.Constant(_INDEX, width)), ir.Constant(_INDEX, offset))
        v = builder.load(builder.bitcast(builder.gep(factors, [start]), vector.as_pointer()), align=4)
        return v if offset else builder.insert_element(v, ir.Constant(_FLOAT, 1.0), _lane(0))

    with cgutils.for_range_slice(builder, *cells, ir.Constant(_INDEX, 1)) as (cell, _):
        unit = builder.sext(builder.load(builder.gep(which, [cell])), _INDEX)
        row = load(unit, top)
        column = row if left == top else load(unit, left)
        weight = builder.load(builder.gep(weights, [cell]))
        weighted = builder.fmul(column, _spread(builder, weight, vector))
        for a in range(size):
            _add_product(builder, sums[a], weighted, _spread(builder, builder.extract_element(row, _lane(a)), vector))
        if left == top:
            target = builder.load(builder.gep(targets, [cell]))
            _add_product(builder, right, weighted, _spread(builder, target, vector))
            if top == 0:
                _add_product(builder, square, builder.fmul(weight, target), target)
    found = [((top + a) * width + left, sums[a]) for a in range(size)]
    if left == top:
        found.append((width * width + top, right))
    for offset, total in found:
        place = builder.gep(out, [ir.Constant(_INDEX, offset)])
        builder.store(builder.load(total), builder.bitcast(place, vector.as_pointer()), align=4)
    if top == 0:
        builder.store(builder.load(square), builder.gep(out, [ir.Constant(_INDEX, width * width + width)]))


def _lane(number: int) -> Any:
    return ir.Constant(ir.IntType(32), number)


def _spread(builder: Any, value: Any, vector: Any) -> Any:
    """A vector that has one number in every lane."""
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _lane(0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), lanes)


def _add_product(builder: Any, place: Any, a: Any, b: Any) -> None:
    """place ← place + a·b, rounded once where the machine can."""
    fused = ("contract",)
    builder.store(builder.fadd(builder.fmul(a, b, flags=fused), builder.load(place), flags=fused), place)
