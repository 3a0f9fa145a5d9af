"""The lines of a text table: how they are cut, which are blank, and which do not fit; fast, for files of any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 24
"""Bytes looked at at once."""

NEWLINE, RETURN, QUOTE = b'\n\r"'

Lines = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Begin and end of some lines, and their numbers of fields."""


@dataclass(frozen=True)
class Ragged:
    """Lines that have not the ``expected`` fields of the first: how many, where the first begins, and its fields."""

    begin: int
    fields: int
    expected: int
    count: int


@dataclass(frozen=True)
class Misplaced:
    """Position of the first quote that neither opens nor closes a field, nor is doubled within one."""

    place: int


@dataclass(frozen=True)
class Fields:
    """A table in lines that all have as many fields as the first: without blank lines, and how many are left."""

    data: bytes
    lines: int


def cut_lines(data: bytes, delimiter: str, *, quoted: bool) -> Fields | Ragged | Misplaced:
    """Leave out blank lines; what else has another number of fields than the first line is `Ragged`.

    A line of delimiters only is a row without any value, not a blank one, where they are as many as in other lines.
    What is not `Misplaced` in quotes is read alike by every program.
    """
    expected, lines, count, first = 0, 0, 0, (0, 0)
    blank: list[tuple[int, int]] = []
    for some in _lines(data, ord(delimiter), quoted):
        if isinstance(some, Misplaced):
            return some
        begins, ends, fields = some
        expected = expected or int(fields[0])
        lines += begins.size
        for i in np.flatnonzero(fields != expected).tolist():
            begin, end = int(begins[i]), int(ends[i])
            if not data[begin:end].strip():
                blank.append((begin, end))
                continue
            first = first if count else (begin, int(fields[i]))
            count += 1
    if count:
        return Ragged(*first, expected, count)
    return Fields(_without(data, blank), lines - len(blank))


def _lines(data: bytes, sign: int, quoted: bool) -> Iterator[Lines | Misplaced]:
    """Yield lines, some at a time; delimiters and ends of lines within quotes do not count."""
    begin, cuts, inside, opened = 0, 0, 0, 0
    before = np.isin(np.arange(256), [sign, NEWLINE, QUOTE])
    for start in range(0, len(data), PIECE):
        piece = np.frombuffer(data, np.uint8, min(PIECE, len(data) - start), start)
        ending = piece == NEWLINE
        events = ending | (piece == sign)
        if quoted:
            quotes = piece == QUOTE
            marks = np.cumsum(quotes, dtype=np.uint8)  # it may overflow: only its last bit is of use
            marks += np.uint8(inside)
            marks &= 1
            place = _misplaced(data, start, piece, quotes, marks, before)
            if place is not None:
                yield Misplaced(place)
                return
            inside = int(marks[-1])
            opened = start + int(np.flatnonzero(quotes)[-1]) if inside and quotes.any() else opened
            events &= marks == 0
        places = np.flatnonzero(events)
        last = np.flatnonzero(ending[places])  # which of them end a line
        if last.size:
            fields = np.diff(last, prepend=-1)
            fields[0] += cuts  # a line may have begun in the piece before
            ends = start + places[last]
            yield np.concatenate([[begin], ends[:-1] + 1]), ends, fields
            begin, cuts = int(ends[-1]) + 1, places.size - int(last[-1]) - 1
        else:
            cuts += places.size
    if inside:
        yield Misplaced(opened)
    elif begin < len(data):
        yield np.array([begin]), np.array([len(data)]), np.array([cuts + 1])


def _misplaced(
    data: bytes,
    start: int,
    piece: NDArray[np.uint8],
    quotes: NDArray[np.bool_],
    inside: NDArray[np.uint8],
    before: NDArray[np.bool_],
) -> int | None:
    """The first quote of a piece that opens in the middle of a field, or closes there; None if there is none."""
    fits = before[piece]
    bad = np.zeros(piece.size, dtype=bool)
    bad[1:] = quotes[1:] & (inside[1:] == 1) & ~fits[:-1]
    fits |= piece == RETURN
    bad[:-1] |= quotes[:-1] & (inside[:-1] == 0) & ~fits[1:]
    stop = start + piece.size
    if start and quotes[0] and inside[0] == 1:
        bad[0] = not before[data[start - 1]]
    if stop < len(data) and quotes[-1] and inside[-1] == 0:
        bad[-1] |= not (before[data[stop]] or data[stop] == RETURN)
    return start + int(np.argmax(bad)) if bad.any() else None


def _without(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    if not spans:
        return data
    view, kept, last = memoryview(data), [], 0
    for begin, end in spans:
        kept.append(view[last:begin])
        last = min(end + 1, len(data))
    return b"".join([*kept, view[last:]])
