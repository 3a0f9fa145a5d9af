"""Normal equations of one unit, summed in vector registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from snapimpute.base.compiled import kernel
from snapimpute.base.vectors import LANES, Writer, intrinsic, written


@kernel
def padded(numbers):
    """Numbers of a unit with those that fill its last vector."""
    return -(-numbers // LANES) * LANES


@kernel
def sums_length(width):
    """Numbers that `add_cells` writes for a unit: a matrix, a vector, a sum of squares."""
    return width * width + width + LANES


def _sum_tile(write: Writer, corner: tuple[Any, Any], cells: Any, width: Any, out: Any, diagonal: bool) -> None:
    """Sum rows top … top + 15 and columns left … left + 15 of the matrix; on the diagonal the vector, too."""
    (top, left), (factors, which, weights, targets, start, stop) = corner, cells
    sums = [write.variable(write.zeros()) for _ in range(LANES)]
    right, square = write.variable(write.zeros()), write.variable(write.zero())
    with write.loop(start, stop) as cell:
        unit = write.builder.sext(write.number(which, cell), ir.IntType(64))
        row = write.times(unit, width)
        weight = write.number(weights, cell)
        weighted = write.product(write.load(factors, write.add(row, left)), write.spread(weight))
        for a in range(LANES):
            single = write.number(factors, write.add(row, top, a))
            sums[a].value = write.plus(sums[a].value, weighted, write.spread(single))
        if diagonal:
            target = write.number(targets, cell)
            right.value = write.plus(right.value, weighted, write.spread(target))
            square.value = write.plus(square.value, write.product(weight, target), target)
    for a in range(LANES):
        write.store(sums[a].value, out, write.add(write.times(write.add(top, a), width), left))
    if diagonal:
        matrix = write.times(width, width)
        write.store(right.value, out, write.add(matrix, top))
        write.builder.store(square.value, write.builder.gep(out, [write.add(matrix, width)]))


@intrinsic
def _add_on_diagonal(
    typing: Any,
    factors: Any,
    which: Any,
    weights: Any,
    targets: Any,
    start: Any,
    stop: Any,
    top: Any,
    width: Any,
    out: Any,
) -> Any:
    def body(write: Writer, *given: Any) -> None:
        *cells, top, width, out = given
        _sum_tile(write, (top, top), cells, width, out, diagonal=True)

    return written(body, factors, which, weights, targets, start, stop, top, width, out)


@intrinsic
def _add_below(
    typing: Any,
    factors: Any,
    which: Any,
    weights: Any,
    targets: Any,
    start: Any,
    stop: Any,
    top: Any,
    left: Any,
    width: Any,
    out: Any,
) -> Any:
    def body(write: Writer, *given: Any) -> None:
        *cells, top, left, width, out = given
        _sum_tile(write, (top, left), cells, width, out, diagonal=False)

    return written(body, factors, which, weights, targets, start, stop, top, left, width, out)


@kernel
def add_cells(factors, width, which, weights, targets, start, stop, out):
    """Sum the normal equations of cells start … stop.

    Puts Σ w v vᵀ, Σ w t v and Σ w t² one after the other into ``out``, which has
    `sums_length` numbers; v are the ``width`` numbers of unit ``which[p]`` in the
    flat ``factors``, w and t ``weights[p]`` and ``targets[p]``. Of the matrix only
    tiles on and below the diagonal are filled in.
    """
    for top in range(0, width, LANES):
        _add_on_diagonal(factors, which, weights, targets, start, stop, top, width, out)
        for left in range(0, top, LANES):
            _add_below(factors, which, weights, targets, start, stop, top, left, width, out)


@intrinsic
def sums_of_products(
    typing: Any,
    row: Any,
    place: Any,
    vectors: Any,
    width: Any,
    which: Any,
    start: Any,
    stop: Any,
    out: Any,
    at: Any,
) -> Any:
    """Products of one row with up to sixteen others: xᵀv for ``which[start]`` … to ``out[at]`` ….

    Beyond the cell before ``stop`` it repeats that one.
    """

    def body(write: Writer, *given: Any) -> None:
        row, place, vectors, width, which, start, stop, out, at = given
        sums = [write.variable(write.zeros()) for _ in range(LANES)]
        last = write.add(stop, -1)
        units = []
        for lane in range(LANES):
            cell = write.smaller(write.add(start, lane), last)
            units.append(write.times(write.builder.sext(write.number(which, cell), ir.IntType(64)), width))
        with write.loop(0, width, LANES) as left:
            own = write.load(row, write.add(place, left))
            for lane in range(LANES):
                other = write.load(vectors, write.add(units[lane], left))
                sums[lane].value = write.plus(sums[lane].value, own, other)
        write.store(write.added_up([one.value for one in sums]), out, at)

    return written(body, row, place, vectors, width, which, start, stop, out, at)
