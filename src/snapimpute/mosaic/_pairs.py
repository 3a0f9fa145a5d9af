"""Steps over pairs of classes, along the columns, for sixteen rows at once: one in each lane of a vector.

A row has two strands, each in one of K classes, so its state is a pair (x, y).
Both orders of a pair are equally likely, so only y ≤ x is computed: pair
x(x+1)/2 + y. A strand in class x shows 1 with probability θ_x, and a symbol is
the sum of the two. With t_1(y), t_0(y) the probability that the other strand
makes up the symbol (1 both where the cell is missing),

    e(x, y) = θ_x t_1(y) + (1 − θ_x) t_0(y).

Numbers by class stand in one array, a row of it for each of the names below;
numbers by lane in another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snapimpute.base.compiled import kernel, part
from snapimpute.base.vectors import LANES, Writer, intrinsic, written

MISSING = 255
"""Stands for a missing cell."""

SUMS, THETA, ONE, ZERO, ONE_SHOWN, ZERO_SHOWN, JUMP, BACK_JUMP, ARRIVE, ENDS, INTO, SEEN_ONE, SEEN_ZERO = range(13)
"""Rows of the numbers by class.

Sums of f over the other class; θ; t_1 and t_0, and the same with θ and 1 − θ where the cell is missing; jumps of a
step forward, and of one backward; strands that arrive beside a jump; and the sums of a step backward.
"""

TOTAL, KEEP, BACK_KEEP, INVERSE, TWO, NONE, USED, KINDS = range(8)
"""Rows of the numbers by lane; four rows from `KINDS` on tell whether the symbol is 0, 1, 2 or missing."""

_ONE = np.float32(1)


def pairs(classes: int) -> int:
    """Count the pairs of so many classes, without regard to their order."""
    return classes * (classes + 1) // 2


@kernel
def work_space(classes):
    """Work space of a batch of rows: two numbers by pair, then numbers by class and by lane."""
    by_pair = np.zeros((2, classes * (classes + 1) // 2 * LANES), np.float32)
    return by_pair, np.zeros((SEEN_ZERO + 1, classes * LANES), np.float32), np.zeros((KINDS + 4, LANES), np.float32)


class Numbers:
    """Writes loads and stores of the numbers by class."""

    def __init__(self, write: Writer, pointer: Any, classes: Any) -> None:
        self.write, self.pointer, self.width = write, pointer, write.times(classes, LANES)

    def _at(self, row: int, k: Any) -> Any:
        return self.write.add(self.write.times(self.width, row), self.write.times(k, LANES))

    def load(self, row: int, k: Any) -> Any:
        """Sixteen numbers of a class."""
        return self.write.load(self.pointer, self._at(row, k))

    def store(self, value: Any, row: int, k: Any) -> None:
        """Store sixteen numbers of a class."""
        self.write.store(value, self.pointer, self._at(row, k))

    def theta(self, k: Any) -> tuple[Any, Any]:
        """θ and 1 − θ."""
        t = self.load(THETA, k)
        return t, self.write.difference(self.write.ones(), t)

    def emission(self, shown: tuple[Any, Any], y: Any) -> Any:
        """e(x, y), by θ_x and 1 − θ_x."""
        first = self.write.product(shown[0], self.load(ONE, y))
        return self.write.plus(first, shown[1], self.load(ZERO, y))


def lane(write: Writer, pointer: Any, row: int) -> Any:
    """One row of the numbers by lane."""
    return write.load(pointer, row * LANES)


def rates_of(write: Writer, rates: Any) -> list[Any]:
    """(1 − ρ)², ρ(1 − ρ) and ρ²/2, in every lane."""
    return [write.spread(write.number(rates, at)) for at in range(3)]


# ---------------------------------------------------------------- emissions
@intrinsic
def spread(typing: Any, classes: Any, values: Any, numbers: Any) -> Any:
    """Give all lanes the same θ of each class."""

    def body(write: Writer, *given: Any) -> None:
        classes, values, pointer = given
        numbers = Numbers(write, pointer, classes)
        with write.loop(0, classes) as k:
            numbers.store(write.spread(write.number(values, k)), THETA, k)

    return written(body, classes, values, numbers)


@intrinsic
def _emissions(typing: Any, classes: Any, numbers: Any, lanes: Any) -> Any:
    """Write t_1 and t_0 of each class, and the same with θ and 1 − θ where a cell is missing."""

    def body(write: Writer, *given: Any) -> None:
        classes, pointer, lanes = given
        numbers = Numbers(write, pointer, classes)
        is_0, is_1, is_2, missing = (lane(write, lanes, KINDS + number) for number in range(4))
        with write.loop(0, classes) as k:
            t, rest = numbers.theta(k)
            first = write.plus(write.product(is_1, rest), is_2, t)
            second = write.plus(write.product(is_1, t), is_0, rest)
            numbers.store(write.sum(first, missing), ONE, k)
            numbers.store(write.sum(second, missing), ZERO, k)
            numbers.store(write.plus(first, missing, t), ONE_SHOWN, k)
            numbers.store(write.plus(second, missing, rest), ZERO_SHOWN, k)

    return written(body, classes, numbers, lanes)


@part
def emit(classes, symbols, numbers, lanes):
    """Write the emissions of a column."""
    for number in range(4):
        row = lanes[KINDS + number]
        for at in range(LANES):
            row[at] = np.float32(min(symbols[at], np.uint8(3)) == number)
    _emissions(classes, numbers.reshape(-1), lanes.reshape(-1))


# ---------------------------------------------------------------- forward
@intrinsic
def _expect(typing: Any, classes: Any, rates: Any, alpha: Any, numbers: Any, lanes: Any) -> Any:
    """Write what a step forward needs: Σ f before it, the share of f that stays, and jumps."""

    def body(write: Writer, *given: Any) -> None:
        classes, rates, alpha, pointer, lanes = given
        numbers = Numbers(write, pointer, classes)
        both_stay, one_jumps, both_jump = rates_of(write, rates)
        total = write.variable(write.zeros())
        with write.loop(0, classes) as k:
            total.value = write.sum(total.value, numbers.load(SUMS, k))
        write.store(total.value, lanes, TOTAL * LANES)
        inverse = write.over(write.ones(), total.value)
        write.store(write.product(both_stay, inverse), lanes, KEEP * LANES)
        factor = write.product(one_jumps, inverse)
        with write.loop(0, classes) as k:
            fresh = write.product(both_jump, write.spread(write.number(alpha, k)))
            numbers.store(write.plus(fresh, factor, numbers.load(SUMS, k)), JUMP, k)

    return written(body, classes, rates, alpha, numbers, lanes)


def _forward(write: Writer, *given: Any) -> None:
    """Write a step: prior(x, y) = keep·f + α_x jump_y + α_y jump_x, out = e·prior, and the sums of it over y."""
    classes, alpha, pointer, lanes, f, prior, out = given
    numbers, stay, place = Numbers(write, pointer, classes), lane(write, lanes, KEEP), write.position(0)
    with write.loop(0, classes) as x:
        alpha_x, jump_x = write.spread(write.number(alpha, x)), numbers.load(JUMP, x)
        shown, total = numbers.theta(x), write.variable(write.zeros())

        def pair(y: Any) -> Any:
            at = place.value
            expected = write.product(stay, write.load(f, at))
            expected = write.plus(expected, alpha_x, numbers.load(JUMP, y))
            expected = write.plus(expected, write.spread(write.number(alpha, y)), jump_x)
            found = write.product(expected, numbers.emission(shown, y))
            if prior is not None:
                write.store(expected, prior, at)
            write.store(found, out, at)
            total.value = write.sum(total.value, found)
            place.value = write.add(at, LANES)
            return found

        with write.loop(0, x) as y:
            found = pair(y)
            numbers.store(write.sum(numbers.load(SUMS, y), found), SUMS, y)
        pair(x)
        numbers.store(total.value, SUMS, x)


@intrinsic
def forward(typing: Any, classes: Any, alpha: Any, numbers: Any, lanes: Any, f: Any, prior: Any, out: Any) -> Any:
    """Pass a column: f becomes what is expected (``prior``) and, times the emission, ``out``."""
    return written(_forward, classes, alpha, numbers, lanes, f, prior, out)


@intrinsic
def _filter(typing: Any, classes: Any, alpha: Any, numbers: Any, lanes: Any, f: Any, out: Any) -> Any:
    """Pass a column without keeping what is expected."""

    def body(write: Writer, *given: Any) -> None:
        _forward(write, *given[:5], None, given[5])

    return written(body, classes, alpha, numbers, lanes, f, out)


@part
def begin(by_pair, numbers):
    """Begin before the first column: anything will do, as all strands jump there."""
    by_pair[0][:] = np.float32(0)
    numbers[SUMS] = np.float32(0)
    numbers[SUMS, :LANES] = _ONE


@part
def prepare(classes, rates, alpha, symbols, numbers, lanes):
    """Make ready for a step forward, whose θ are there; `TOTAL` gets the total before it."""
    emit(classes, symbols, numbers, lanes)
    _expect(classes, rates, alpha, numbers.reshape(-1), lanes.reshape(-1))


@part
def advance(classes, rates, alpha, symbols, f, out, numbers, lanes):
    """Pass one column forward."""
    prepare(classes, rates, alpha, symbols, numbers, lanes)
    _filter(classes, alpha, numbers.reshape(-1), lanes.reshape(-1), f, out)
