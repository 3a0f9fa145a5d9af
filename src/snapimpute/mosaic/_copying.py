"""A strand as a mosaic of other strands: passes along its known columns, answers at the missing ones.

A strand copies from another one, d, with chance f_d. Into the next column it
goes on with it with probability ``keep``, or takes any strand with its ``share``,
which is 0 for the row's own strands; and it shows another symbol than it copies
with a small chance. Where nothing is known only the probabilities of the steps
are multiplied, so that passes skip those columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from snapimpute.base.compiled import kernel, part
from snapimpute.base.vectors import LANES, Writer, intrinsic, written
from snapimpute.mosaic._pairs import MISSING
from snapimpute.mosaic._phasing import ALLELE, CASE, CLASS, uniforms

_ONE, _ZERO = np.float32(1), np.float32(0)

NOBODY = -1
"""Stands for no strand."""

KEEP, LEAVE, RIGHT, WRONG, OTHER_KEEP, OTHER_LEAVE, TOTAL, HERE = range(8)
"""Places of the numbers that a pass takes and gives."""


def _pass_by(alike: Callable[..., Any]) -> Callable[..., None]:
    """Write a step over a known column in either direction: out ← (keep·f + leave·share)·e, and the sum of it."""

    def body(write: Writer, *given: Any) -> None:
        size, panel, symbol, numbers, share, f, out = given
        keep, leave, right, wrong = (write.spread(write.number(numbers, at)) for at in range(4))
        own, total = write.number(symbol, 0), write.variable(write.zeros())
        with write.loop(0, size, LANES) as at:
            expected = write.plus(write.product(leave, write.load(share, at)), keep, write.load(f, at))
            found = write.product(expected, write.choose(alike(write, panel, at, own), right, wrong))
            write.store(found, out, at)
            total.value = write.sum(total.value, found)
        write.put(write.total(total.value), numbers, TOTAL)

    return body


def _weigh_by(alike: Callable[..., Any]) -> Callable[..., None]:
    """Write the weights of all strands in a missing column, and of those that show the symbol."""

    def body(write: Writer, *given: Any) -> None:
        size, panel, symbol, numbers, share, f, b = given
        keep, leave, _, _, other_keep, other_leave = (write.spread(write.number(numbers, at)) for at in range(6))
        shown = write.number(symbol, 0)
        total, here = write.variable(write.zeros()), write.variable(write.zeros())
        with write.loop(0, size, LANES) as at:
            fresh = write.load(share, at)
            ahead = write.plus(write.product(leave, fresh), keep, write.load(f, at))
            back = write.plus(write.product(other_leave, fresh), other_keep, write.load(b, at))
            weight = write.product(ahead, back)
            total.value = write.sum(total.value, weight)
            here.value = write.sum(here.value, write.choose(alike(write, panel, at, shown), weight, write.zeros()))
        write.put(write.total(total.value), numbers, TOTAL)
        write.put(write.total(here.value), numbers, HERE)

    return body


def _by_bytes(write: Writer, panel: Any, at: Any, symbol: Any) -> Any:
    return write.equal(panel, at, write.spread(symbol))


def _by_bits(write: Writer, panel: Any, at: Any, symbol: Any) -> Any:
    return write.same(write.bits(panel, at), symbol)


@intrinsic
def _pass_bytes(typing: Any, size: Any, panel: Any, symbol: Any, numbers: Any, share: Any, f: Any, out: Any) -> Any:
    """Pass a known column of a panel with a byte for each strand."""
    return written(_pass_by(_by_bytes), size, panel, symbol, numbers, share, f, out)


@intrinsic
def _pass_bits(typing: Any, size: Any, panel: Any, symbol: Any, numbers: Any, share: Any, f: Any, out: Any) -> Any:
    """Pass a known column of a panel with a bit for each strand."""
    return written(_pass_by(_by_bits), size, panel, symbol, numbers, share, f, out)


@intrinsic
def _weigh_bytes(typing: Any, size: Any, panel: Any, symbol: Any, numbers: Any, share: Any, f: Any, b: Any) -> Any:
    """Weigh a missing column of a panel with a byte for each strand."""
    return written(_weigh_by(_by_bytes), size, panel, symbol, numbers, share, f, b)


@intrinsic
def _weigh_bits(typing: Any, size: Any, panel: Any, symbol: Any, numbers: Any, share: Any, f: Any, b: Any) -> Any:
    """Weigh a missing column of a panel with a bit for each strand."""
    return written(_weigh_by(_by_bits), size, panel, symbol, numbers, share, f, b)


@part
def _pass(size, panel, symbol, numbers, share, f, out):
    """Pass a known column."""
    if panel.size < size:
        _pass_bits(size, panel, symbol, numbers, share, f, out)
    else:
        _pass_bytes(size, panel, symbol, numbers, share, f, out)


@part
def _weigh(size, panel, symbol, numbers, share, f, b):
    """Weigh the strands in a missing column."""
    if panel.size < size:
        _weigh_bits(size, panel, symbol, numbers, share, f, b)
    else:
        _weigh_bytes(size, panel, symbol, numbers, share, f, b)


@part
def _symbol(panel, size, strand):
    """Symbol of one strand in a column."""
    if panel.size < size:
        return np.uint8((panel[strand // 8] >> np.uint8(strand % 8)) & np.uint8(1))
    return panel[strand]


@part
def _answer(panel, levels, keep, scale, other_keep, other_scale, share, f, b, numbers, symbol, out):
    """Write the chance of each symbol but the first, in a missing column between two known ones."""
    numbers[KEEP], numbers[LEAVE] = keep * scale, _ONE - keep
    numbers[OTHER_KEEP], numbers[OTHER_LEAVE] = other_keep * other_scale, _ONE - other_keep
    for s in range(1, levels):
        symbol[0] = s
        _weigh(f.size, panel, symbol, numbers, share, f, b)
        copied = min(max(numbers[HERE] / numbers[TOTAL], _ZERO), _ONE)
        out[s - 1] = numbers[WRONG] + (numbers[RIGHT] - numbers[WRONG]) * copied


@part
def _steps(stay, known, keep, before, after):
    """Write the probability of no jump: to each known column from the one before, to and from each missing one."""
    last, p = 0, 0
    for j in range(stay.size):
        if p < known.size and known[p] == j:
            keep[p] = np.float32(np.exp(stay[j] - stay[last])) if p else _ZERO
            last = j
            p += 1
        else:
            before[j] = np.float32(np.exp(stay[j] - stay[last])) if p else _ZERO
            after[j] = np.float32(np.exp(stay[known[p]] - stay[j])) if p < known.size else _ZERO


@part
def _mark(panel, strand, known, keep, share, block, numbers, symbol, held):
    """Pass all known columns forward, and keep the state before each block of them."""
    slots, checkpoints, _, marked = held
    size, scale, f = share.size, _ONE, slots[0]
    f[:] = _ZERO
    for p in range(known.size):
        if p % block == 0:
            checkpoints[p // block] = f
            marked[p // block] = scale
        numbers[KEEP], numbers[LEAVE] = keep[p] * scale, _ONE - keep[p]
        symbol[0] = strand[known[p]]
        _pass(size, panel[known[p]], symbol, numbers, share, f, f)
        scale = _ONE / numbers[TOTAL]


@part
def _hold(panel, strand, known, keep, share, block, first, numbers, symbol, held):
    """Hold the states of a block: before each of its known columns, and after the last one."""
    slots, checkpoints, scales, marked = held
    if known.size > block:
        slots[0] = checkpoints[first // block]
        scales[0] = marked[first // block]
    else:
        slots[0] = _ZERO
        scales[0] = _ONE
    for p in range(first, min(first + block, known.size)):
        slot = p - first
        numbers[KEEP], numbers[LEAVE] = keep[p] * scales[slot], _ONE - keep[p]
        symbol[0] = strand[known[p]]
        _pass(share.size, panel[known[p]], symbol, numbers, share, slots[slot], slots[slot + 1])
        scales[slot + 1] = _ONE / numbers[TOTAL]


@part
def _fill(panel, strand, known, steps, levels, share, block, numbers, symbol, b, held, out):
    """Write the chances of the symbols of a strand where its cell is missing, into ``out[j, s − 1]``."""
    keep, before, after = steps
    seen, columns, size = known.size, strand.size, share.size
    slots, _, scales, _ = held
    if seen > block:
        _mark(panel, strand, known, keep, share, block, numbers, symbol, held)
    b[:] = _ZERO
    behind = _ONE
    for first in range((max(seen, 1) - 1) // block * block, -1, -block):
        stop = min(first + block, seen)
        _hold(panel, strand, known, keep, share, block, first, numbers, symbol, held)
        for p in range(stop, first - 1, -1):
            if p == stop and stop < seen:
                continue  # answered with the block after this one
            left = known[p - 1] if p else -1
            right = known[p] if p < seen else columns
            if p < seen:
                next_keep = keep[p + 1] if p + 1 < seen else _ZERO
                numbers[KEEP], numbers[LEAVE] = next_keep * behind, _ONE - next_keep
                symbol[0] = strand[right]
                _pass(size, panel[right], symbol, numbers, share, b, b)
                behind = _ONE / numbers[TOTAL]
            for j in range(left + 1, right):
                _answer(
                    panel[j], levels, before[j], scales[p - first], after[j], behind, share, slots[p - first], b,
                    numbers, symbol, out[j],
                )  # fmt: skip


@part
def _one_of(f, u):
    """Draw a strand by its weight."""
    total = _ZERO
    for d in range(f.size):
        total += f[d]
    left = u * total
    for d in range(f.size):
        left -= f[d]
        if left < 0:
            return d
    last = f.size - 1
    while last > 0 and f[last] == 0:
        last -= 1
    return last


@part
def _before(copied, keep, f, scale, since, share, column, number, key):
    """Draw the strand copied in a column, given the one in the next column.

    ``since`` is the probability of no jump since the known column that ``f`` belongs to.
    """
    u, v = uniforms(column, CASE, number, key)
    if copied != NOBODY:
        stay = keep * (since * scale * f[copied] + (_ONE - since) * share[copied])
        if u * (stay + (_ONE - keep) * share[copied]) < stay:
            return copied
    u, _ = uniforms(column, CLASS, number, key)
    return _one_of(f if u < since else share, v)


@part
def _draw(panel, strand, known, stay, steps, levels, share, block, numbers, symbol, held, number, key, out):
    """Draw which strand is copied in each column, and what it shows where the cell is missing."""
    seen, columns, wrong = known.size, strand.size, _ONE - numbers[RIGHT]
    slots, _, scales, _ = held
    if seen > block:
        _mark(panel, strand, known, steps[0], share, block, numbers, symbol, held)
    copied = NOBODY
    for first in range((max(seen, 1) - 1) // block * block, -1, -block):
        stop = min(first + block, seen)
        _hold(panel, strand, known, steps[0], share, block, first, numbers, symbol, held)
        for p in range(stop, first - 1, -1):
            if p == stop and stop < seen:
                continue  # drawn with the block after this one
            left = known[p - 1] if p else -1
            for j in range((known[p] if p < seen else columns) - 1, max(left, 0) - 1, -1):
                since = np.float32(np.exp(stay[j] - stay[left])) if p else _ZERO
                keep = np.float32(np.exp(stay[j + 1] - stay[j])) if j + 1 < columns else _ZERO
                copied = _before(copied, keep, slots[p - first], scales[p - first], since, share, j, number, key)
                out[j] = strand[j]
                if j > left:
                    out[j] = _symbol(panel[j], share.size, copied)
                    u, v = uniforms(j, ALLELE, number, key)
                    if u < wrong:
                        out[j] = (out[j] + 1 + np.int64(v * np.float32(levels - 1))) % levels


@part
def _known_columns(symbols, known):
    """Write the columns of the known cells, and return how many there are."""
    seen = 0
    for j in range(symbols.size):
        if symbols[j] != MISSING:
            known[seen] = j
            seen += 1
    return seen


@part
def _held(columns, size, block):
    """Hold the states of a strand: slots of one block, checkpoints before each, and the scales of both."""
    slots, checkpoints = np.zeros((block + 1, size), np.float32), np.zeros((columns // block + 1, size), np.float32)
    return slots, checkpoints, np.zeros(block + 1, np.float32), np.zeros(columns // block + 1, np.float32)


@part
def _numbers(shown, wrong):
    """Numbers of a pass for strands that show so many symbols."""
    numbers = np.zeros(8, np.float32)
    numbers[RIGHT], numbers[WRONG] = _ONE - wrong, wrong / np.float32(shown - 1)
    return numbers


@kernel
def fill_rows(first, last, symbols, strands, panel, count, own, stay, levels, wrong, block, starts, answers):
    """Add the answers of rows ``first`` … ``last`` − 1 at their missing cells.

    ``panel[j]`` are the symbols in a column of the ``count`` strands that may be
    copied, in multiples of `LANES`: a byte for each, or a bit where all are 0 and 1.
    ``own`` says that these are the strands of the rows themselves, so that each row
    leaves out its own. Row i has the strands 2i and 2i + 1, whose symbols are 0 and 1
    and add up; with as many strands as rows, each row is one strand of ``levels``
    symbols. ``stay[j]`` is Σ log(1 − jump) up to column j; ``block`` known columns are
    held at a time.
    """
    columns, size = symbols.shape[1], (count + LANES - 1) // LANES * LANES
    each = strands.shape[0] // symbols.shape[0]
    shown, even = 2 if each == 2 else levels, _ONE / np.float32(count - each * own)
    share, b = np.zeros(size, np.float32), np.zeros(size, np.float32)
    share[:count] = even
    held, numbers, symbol = _held(columns, size, block), _numbers(shown, wrong), np.zeros(1, np.uint8)
    chances = np.zeros((2, columns, shown - 1), np.float32)
    known, steps = np.zeros(columns, np.int64), np.zeros((3, columns), np.float32)
    for i in range(first, last):
        seen = _known_columns(symbols[i], known)
        if seen == columns:
            continue
        _steps(stay, known[:seen], steps[0], steps[1], steps[2])
        if own:
            share[each * i : each * i + each] = _ZERO
        for t in range(each):
            strand = strands[each * i + t]
            _fill(panel, strand, known[:seen], steps, shown, share, block, numbers, symbol, b, held, chances[t])
        if own:
            share[each * i : each * i + each] = even
        at = starts[i]
        for j in range(columns):
            if symbols[i, j] != MISSING:
                continue
            if each == 2:
                one, two = chances[0, j, 0], chances[1, j, 0]
                answers[at, 0] += one * (_ONE - two) + two * (_ONE - one)
                answers[at, 1] += one * two
            else:
                for s in range(levels - 1):
                    answers[at, s] += chances[0, j, s]
            at += 1


@kernel
def draw_rows(first, last, symbols, strands, panel, count, own, stay, levels, wrong, block, key, out):
    """Draw what the strands of rows ``first`` … ``last`` − 1 show in their missing cells, jointly along each.

    Arguments are those of `fill_rows`; ``out`` are the strands with the drawn symbols.
    """
    columns, size = symbols.shape[1], (count + LANES - 1) // LANES * LANES
    each = strands.shape[0] // symbols.shape[0]
    shown, even = 2 if each == 2 else levels, _ONE / np.float32(count - each * own)
    share = np.zeros(size, np.float32)
    share[:count] = even
    held, numbers, symbol = _held(columns, size, block), _numbers(shown, wrong), np.zeros(1, np.uint8)
    known, steps = np.zeros(columns, np.int64), np.zeros((3, columns), np.float32)
    for i in range(first, last):
        seen = _known_columns(symbols[i], known)
        if seen == columns:
            out[each * i : each * i + each] = strands[each * i : each * i + each]
            continue
        _steps(stay, known[:seen], steps[0], steps[1], steps[2])
        if own:
            share[each * i : each * i + each] = _ZERO
        for t in range(each):
            n = each * i + t
            _draw(
                panel, strands[n], known[:seen], stay, steps, shown, share, block, numbers, symbol, held, n, key,
                out[n],
            )  # fmt: skip
        if own:
            share[each * i : each * i + each] = even
