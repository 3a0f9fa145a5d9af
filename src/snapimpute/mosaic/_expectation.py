"""Expected counts and answers of rows with two strands: forward along the columns, and backward.

Rows go sixteen at once, and only the states before each block of columns are
kept: the others are computed again on the way back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snapimpute.base.compiled import kernel, part
from snapimpute.base.vectors import LANES, Writer, intrinsic, written
from snapimpute.mosaic._pairs import (
    ARRIVE,
    BACK_JUMP,
    BACK_KEEP,
    ENDS,
    INTO,
    INVERSE,
    JUMP,
    KINDS,
    MISSING,
    NONE,
    ONE_SHOWN,
    SEEN_ONE,
    SEEN_ZERO,
    SUMS,
    TOTAL,
    TWO,
    USED,
    ZERO_SHOWN,
    Numbers,
    advance,
    begin,
    emit,
    forward,
    lane,
    prepare,
    rates_of,
    spread,
)

_ONE, _HALF = np.float32(1), np.float32(0.5)


# ---------------------------------------------------------------- backward
@intrinsic
def _arrivals(typing: Any, classes: Any, rates: Any, alpha: Any, jump: Any, numbers: Any) -> Any:
    """Write ρ(1 − ρ) F_y + ρ² α_y: a strand that jumps beside one that arrives in class y."""

    def body(write: Writer, *given: Any) -> None:
        classes, rates, alpha, jump, pointer = given
        numbers, (_, _, both_jump) = Numbers(write, pointer, classes), rates_of(write, rates)
        with write.loop(0, classes) as k:
            own, fresh = write.load(jump, write.times(k, LANES)), write.spread(write.number(alpha, k))
            numbers.store(write.plus(own, both_jump, fresh), ARRIVE, k)

    return written(body, classes, rates, alpha, jump, numbers)


SUMMED = (ENDS, INTO, SEEN_ONE, SEEN_ZERO)
"""Sums over y of a step backward: Σ α_y B, Σ arrive_y B, Σ q t_1(y) and Σ q t_0(y), B = e·b and q = prior·b."""


@intrinsic
def _backward(typing: Any, classes: Any, alpha: Any, numbers: Any, lanes: Any, b: Any, prior: Any) -> Any:
    """Pass a column backward: b ← keep·b + jump_x + jump_y, then e·b, with the sums of it."""

    def body(write: Writer, *given: Any) -> None:
        classes, alpha, pointer, lanes, b, prior = given
        numbers, stay, place = Numbers(write, pointer, classes), lane(write, lanes, BACK_KEEP), write.position(0)
        with write.loop(0, classes) as x:
            jump_x, shown = numbers.load(BACK_JUMP, x), numbers.theta(x)
            of_x = [numbers.load(row, x) for row in (ARRIVE, ONE_SHOWN, ZERO_SHOWN)]
            weights_x = [write.spread(write.number(alpha, x)), *of_x]
            totals = [write.variable(write.zeros()) for _ in SUMMED]

            def pair(y: Any) -> list[Any]:
                at = place.value
                after = write.plus(numbers.load(BACK_JUMP, y), stay, write.load(b, at))
                after = write.sum(after, jump_x)
                seen = write.product(numbers.emission(shown, y), after)
                write.store(seen, b, at)
                both = write.product(write.load(prior, at), after)
                of_y = [numbers.load(row, y) for row in (ARRIVE, ONE_SHOWN, ZERO_SHOWN)]
                values = [seen, seen, both, both]
                weights_y = [write.spread(write.number(alpha, y)), *of_y]
                for total, value, weight in zip(totals, values, weights_y, strict=True):
                    total.value = write.plus(total.value, value, weight)
                place.value = write.add(at, LANES)
                return values

            with write.loop(0, x) as y:
                for row, value, weight in zip(SUMMED, pair(y), weights_x, strict=True):
                    numbers.store(write.plus(numbers.load(row, y), value, weight), row, y)
            pair(x)
            for row, total in zip(SUMMED, totals, strict=True):
                numbers.store(total.value, row, x)

    return written(body, classes, alpha, numbers, lanes, b, prior)


@intrinsic
def _retreat(typing: Any, classes: Any, rates: Any, alpha: Any, numbers: Any, lanes: Any) -> Any:
    """Write what the next step backward needs, which is to the column before: the share that stays, and jumps."""

    def body(write: Writer, *given: Any) -> None:
        classes, rates, alpha, pointer, lanes = given
        numbers, (both_stay, one_jumps, both_jump) = Numbers(write, pointer, classes), rates_of(write, rates)
        scale, every = lane(write, lanes, INVERSE), write.variable(write.zeros())
        with write.loop(0, classes) as k:
            every.value = write.plus(every.value, write.spread(write.number(alpha, k)), numbers.load(ENDS, k))
        both, one = write.product(scale, write.product(both_jump, every.value)), write.product(scale, one_jumps)
        write.store(write.product(both_stay, scale), lanes, BACK_KEEP * LANES)
        with write.loop(0, classes) as k:
            numbers.store(write.plus(both, one, numbers.load(ENDS, k)), BACK_JUMP, k)

    return written(body, classes, rates, alpha, numbers, lanes)


# ---------------------------------------------------------------- counts
@intrinsic
def _weigh(typing: Any, classes: Any, numbers: Any, lanes: Any) -> Any:
    """Write 1/Z, Z the likelihood of the column given all others up to a factor; and P(2), P(0) of missing cells."""

    def body(write: Writer, *given: Any) -> None:
        classes, pointer, lanes = given
        numbers, unknown = Numbers(write, pointer, classes), lane(write, lanes, KINDS + 3)
        known = write.difference(write.ones(), unknown)
        total, twos, zeros = (write.variable(write.zeros()) for _ in range(3))
        with write.loop(0, classes) as k:
            (t, rest), one, none = numbers.theta(k), numbers.load(SEEN_ONE, k), numbers.load(SEEN_ZERO, k)
            twos.value = write.plus(twos.value, t, one)
            zeros.value = write.plus(zeros.value, rest, none)
            total.value = write.plus(total.value, unknown, write.sum(one, none))
        whole = write.plus(total.value, known, write.sum(twos.value, zeros.value))
        scale = write.over(write.ones(), whole)
        for value, row in ((write.ones(), INVERSE), (twos.value, TWO), (zeros.value, NONE)):
            write.store(write.product(scale, value), lanes, row * LANES)

    return written(body, classes, numbers, lanes)


@intrinsic
def _count(typing: Any, classes: Any, alpha: Any, numbers: Any, lanes: Any, counts: Any) -> Any:
    """Add the expected strands that show 1, that show 0, and that jumped, for each class.

    `USED` is 2 in the lanes that count: both strands have the same expectation.
    """

    def body(write: Writer, *given: Any) -> None:
        classes, alpha, pointer, lanes, counts = given
        numbers = Numbers(write, pointer, classes)
        known = write.difference(write.ones(), lane(write, lanes, KINDS + 3))
        here = write.product(lane(write, lanes, INVERSE), lane(write, lanes, USED))
        seen = write.product(here, known)
        with write.loop(0, classes) as k:
            (t, rest), place = numbers.theta(k), write.times(k, 3)
            first = write.product(write.product(seen, t), numbers.load(SEEN_ONE, k))
            second = write.product(write.product(seen, rest), numbers.load(SEEN_ZERO, k))
            jumps = write.total(write.product(here, numbers.load(INTO, k)))
            write.add_number(write.total(first), counts, place)
            write.add_number(write.total(second), counts, write.add(place, 1))
            write.add_number(write.builder.fmul(jumps, write.number(alpha, k)), counts, write.add(place, 2))

    return written(body, classes, alpha, numbers, lanes, counts)


@part
def _logarithm(used, total):
    """Σ log of the lanes used."""
    product = 1.0
    for at in range(used):
        product *= np.float64(total[at])
    return np.log(product)


@part
def _answer(used, symbols, lanes, answers):
    """Add the probabilities of 1 and 2 where a cell is missing."""
    for at in range(used):
        if symbols[at] == MISSING:
            two, none = lanes[TWO, at], lanes[NONE, at]
            answers[at, 0] += max(_ONE - two - none, np.float32(0))
            answers[at, 1] += two


# ---------------------------------------------------------------- whole passes
@part
def _pass_forward(used, symbols, theta, alpha, rates, block, space, checkpoints):
    """Pass all columns, keep the state before each block, and return the log-likelihood."""
    by_pair, numbers, lanes = space
    columns, classes = theta.shape
    f, size, likelihood = by_pair[0], by_pair.shape[1], 0.0
    begin(by_pair, numbers)
    for j in range(columns):
        if j % block == 0:
            checkpoints[j // block, :size] = f
            checkpoints[j // block, size:] = numbers[SUMS]
        spread(classes, theta[j], numbers.reshape(-1))
        advance(classes, rates[j], alpha[j], symbols[j], f, f, numbers, lanes)
        likelihood += _logarithm(used, lanes[TOTAL])
    prepare(classes, rates[0], alpha[0], symbols[0], numbers, lanes)
    return likelihood + _logarithm(used, lanes[TOTAL])


@part
def _hold(first, last, symbols, theta, alpha, rates, block, space, checkpoints, kept):
    """Compute a block of columns again, and keep what is expected in each."""
    by_pair, numbers, lanes = space
    classes, f, size = theta.shape[1], by_pair[0], by_pair.shape[1]
    f[:] = checkpoints[first // block, :size]
    numbers[SUMS] = checkpoints[first // block, size:]
    for j in range(first, last):
        here = kept[j - first]
        spread(classes, theta[j], numbers.reshape(-1))
        prepare(classes, rates[j], alpha[j], symbols[j], numbers, lanes)
        forward(classes, alpha[j], numbers.reshape(-1), lanes.reshape(-1), f, here, f)
        here[size:] = numbers[JUMP]


@part
def _pass_back(first, last, symbols, theta, alpha, rates, used, space, kept, counts, answers):
    """Pass a block of columns backward, from the last to the first."""
    by_pair, numbers, lanes = space
    classes, size = theta.shape[1], by_pair.shape[1]
    by_class, by_lane = numbers.reshape(-1), lanes.reshape(-1)
    for j in range(last - 1, first - 1, -1):
        here = kept[j - first]
        spread(classes, theta[j], by_class)
        emit(classes, symbols[j], numbers, lanes)
        _arrivals(classes, rates[j], alpha[j], here[size:], by_class)
        _backward(classes, alpha[j], by_class, by_lane, by_pair[1], here)
        _weigh(classes, by_class, by_lane)
        _count(classes, alpha[j], by_class, by_lane, counts[j].reshape(-1))
        _answer(used, symbols[j], lanes, answers[j])
        _retreat(classes, rates[j], alpha[j], by_class, by_lane)


@kernel
def expect(used, symbols, theta, alpha, rates, block, space, checkpoints, kept, counts, answers):
    """Pass forward and backward along the columns of up to `LANES` rows; return their log-likelihood.

    Adds to ``counts[j, k]`` the expected strands in class k that show 1, that show 0,
    and that jumped there; and to ``answers[j, lane]`` the probabilities of 1 and 2
    where a cell is missing. ``rates[j]`` are (1 − ρ)², ρ(1 − ρ) and ρ²/2. ``checkpoints``
    hold the state before each ``block`` of columns, ``kept`` what is expected in each
    column of one block.
    """
    by_pair, numbers, lanes = space
    columns = theta.shape[0]
    likelihood = _pass_forward(used, symbols, theta, alpha, rates, block, space, checkpoints)
    by_pair[1][:] = np.float32(0)
    lanes[BACK_KEEP] = np.float32(0)
    numbers[BACK_JUMP] = _HALF  # together 1: nothing is known behind the last column
    for at in range(LANES):
        lanes[USED, at] = np.float32(2) * np.float32(at < used)
    for first in range((columns - 1) // block * block, -1, -block):
        last = min(first + block, columns)
        _hold(first, last, symbols, theta, alpha, rates, block, space, checkpoints, kept)
        _pass_back(first, last, symbols, theta, alpha, rates, used, space, kept, counts, answers)
    return likelihood
