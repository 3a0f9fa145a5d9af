"""Detect the format of a file by its first bytes, and the encoding, delimiter and header of text."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from snapimpute.app.io._lines import PIECE, Fields, Misplaced, Ragged, cut_lines
from snapimpute.app.io.options import FORMATS, Options, is_number

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar", "::": "two colons", " ": "space"}
STAND_IN = "\x1f"
"""Takes the place of two colons, since a delimiter is one character for those who read tables."""

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".data": "csv",
    ".dat": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".mtx": "mtx",
    ".npz": "npz",
    ".npy": "npz",
    ".xlsx": "excel",
}
SAMPLE, SAMPLE_LINES = 1 << 16, 100
"""Bytes and lines looked at to guess."""


@dataclass(frozen=True, eq=False)
class Text:
    """A text table: its bytes in UTF-8 without comments and blank lines, and how they are cut.

    ``delimiter`` is that of the data, ``shown`` how it is called; ``names`` is the first line, if that has names.
    """

    data: bytes
    delimiter: str
    shown: str
    names: list[str] | None
    quoted: bool
    rows: int
    notes: list[tuple[str, str]]


def format_of(data: bytes, where: str = "the file") -> str:
    r"""The format of some content, by its first bytes.

    Examples
    --------
    >>> format_of(b"PAR1...."), format_of(b"a,b\n1,2")
    ('parquet', 'csv')
    """
    if data[:4] == b"PAR1":
        return "parquet"
    if data[:6] == b"ARROW1" or data[:4] == b"\xff\xff\xff\xff":
        return "arrow"
    if data[:14].lower() == b"%%matrixmarket":
        return "mtx"
    if data[:6] == b"\x93NUMPY":
        return "npz"
    if data[:4] == b"PK\x03\x04":
        return _format_of_zip(data, where)
    return "csv"


def _format_of_zip(data: bytes, where: str) -> str:
    """Excel and NPZ files are archives; another one is not looked into."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as inside:
            names = inside.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as err:
        raise ValueError(f"{where}: this looks like an Excel or NPZ file, but is damaged ({err})") from None
    if any(name.startswith("xl/") for name in names):
        return "excel"
    if any(name.endswith(".npy") for name in names):
        return "npz"
    raise ValueError(f"{where} is an archive (of {', '.join(map(repr, names[:3]))}): unpack it, and name a file")


def suffix_format(path: str) -> str | None:
    """The format that a file name asks for, None if it says nothing."""
    return SUFFIXES.get(Path(path.lower()).suffix)


def unpacked(data: bytes, where: str) -> bytes:
    """The content of a gzip file, or what is there."""
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as err:
        raise ValueError(f"{where}: the compressed file is damaged ({err})") from None


# -------------------------------------------------------------------- text
def as_text(data: bytes, where: str, options: Options) -> Text:
    """Find out how a text table is written, and refuse lines that do not fit."""
    data, skipped = _without_comments(_utf8(data, where, options.encoding))
    if not data.strip():
        raise ValueError(f"{where} is empty: there is no table in it")
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")  # as old Macs end lines
    delimiter = _delimiter(data, where, options.delimiter)
    notes = [("lines skipped", f"{skipped} at the top, blank or comments")] if skipped else []
    shown, quoted = DELIMITERS.get(delimiter, repr(delimiter)), b'"' in data
    if len(delimiter) > 1:
        data, delimiter, quoted = data.replace(delimiter.encode(), STAND_IN.encode()), STAND_IN, False
    found = cut_lines(data, delimiter, quoted=quoted)
    if isinstance(found, Misplaced):
        found, quoted = _unquoted(data, delimiter, found.place, where, skipped), False
        notes.append(("quotation marks", "taken as they are: not all of them enclose a field"))
    if isinstance(found, Ragged):
        raise ValueError(
            f"{where}: {found.count:,} line(s) do not have {found.expected} fields as the first line has; the first "
            f"is line {_line(data, found.begin, skipped)}, with {found.fields}. Correct them, or name another "
            f"delimiter with --delimiter (now {shown})"
        )
    data, sample = found.data, _sampled(found.data, delimiter, quoted)
    header = _has_header(sample, options) if options.header is None else options.header
    names = _first_row(data, delimiter, quoted) if header else None
    return Text(data, delimiter, shown, names, quoted, found.lines - header, notes)


def _utf8(data: bytes, where: str, encoding: str | None) -> bytes:
    """The text in UTF-8, without a byte order mark."""
    if encoding is None and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    try:
        if encoding is not None:
            return data.decode(encoding).removeprefix("\ufeff").encode()
        data = data.removeprefix(b"\xef\xbb\xbf")
        decoder, start = codecs.getincrementaldecoder("utf-8")(), 0
        for start in range(0, len(data), PIECE):
            decoder.decode(data[start : start + PIECE], final=start + PIECE >= len(data))
    except LookupError:
        raise ValueError(f"there is no encoding {encoding!r}: try utf-8, latin-1, cp1252 or utf-16") from None
    except UnicodeDecodeError as err:
        line = "" if encoding else f", the first time in line {data.count(10, 0, start + err.start) + 1}"
        raise ValueError(
            f"{where} is not text in {encoding or 'UTF-8'} ({err.reason}{line}): save it as UTF-8, or name its "
            f"encoding, such as --encoding latin-1"
        ) from None
    if b"\0" in data[:SAMPLE]:
        raise ValueError(
            f"{where} is neither text nor of a known format ({', '.join(FORMATS)}): convert it to one of them; if it "
            f"is text, name its encoding, such as --encoding utf-16-le"
        )
    return data


def _without_comments(data: bytes) -> tuple[bytes, int]:
    """The data from the first line on that is neither blank nor begins with # or %; how many were skipped."""
    head = re.match(rb"(?:(?:[#%][^\n]*|[ \r]*)(?:\n|\Z))+", data)
    return (data[head.end() :], data.count(b"\n", 0, head.end())) if head is not None else (data, 0)


def _line(data: bytes, place: int, skipped: int) -> str:
    """The number of a line of the file, for messages."""
    return f"{data.count(10, 0, place) + 1 + skipped:,}"


def _unquoted(data: bytes, delimiter: str, place: int, where: str, skipped: int) -> Fields:
    """Lines cut without looking at quotes, where these seem to have no meaning; else an error about one of them.

    They have none if the first line has none and all lines are cut alike.
    """
    first = data[: data.find(b"\n")]
    found = cut_lines(data, delimiter, quoted=False) if b'"' not in first else None
    if isinstance(found, Fields):
        return found
    raise ValueError(
        f"{where}: the quotation mark in line {_line(data, place, skipped)} neither opens nor closes a field. Write "
        'two ("") for one within a field, and no space between it and the delimiter; or check that each is closed'
    )


def _sample(data: bytes) -> str:
    """The first lines, whole ones if there is an end of line among them."""
    text = data[:SAMPLE].decode(errors="ignore")
    return text[: text.rfind("\n") + 1] or text if len(data) > SAMPLE else text


def _sampled(data: bytes, delimiter: str, quoted: bool) -> list[list[str]]:
    """The first lines in fields."""
    lines = _sample(data).replace("\r\n", "\n").removesuffix("\n").split("\n")[:SAMPLE_LINES]
    if not quoted:
        return [line.split(delimiter) for line in lines]
    rows = csv.reader([f"{line}\n" for line in lines], delimiter=delimiter)
    try:
        return [row for row in rows if row]
    except csv.Error:  # a return within a line; it is only a guess that wants these rows
        return [line.split(delimiter) for line in lines]


def _first_row(data: bytes, delimiter: str, quoted: bool) -> list[str]:
    """The fields of the first line, however long it is."""
    if not quoted:
        return data[: data.find(b"\n") if b"\n" in data else None].decode().rstrip("\r").split(delimiter)
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    before = csv.field_size_limit(max(len(data), 1 << 17))
    try:
        return next(csv.reader(lines, delimiter=delimiter))
    finally:
        csv.field_size_limit(before)


def _delimiter(data: bytes, where: str, asked: str | None) -> str:
    """The delimiter asked for, or the one that cuts the first lines most evenly, and into most pieces."""
    if asked is not None:
        asked = {name: sign for sign, name in DELIMITERS.items()}.get(asked, asked.replace("\\t", "\t"))
        if asked not in DELIMITERS and (len(asked.encode()) != 1 or asked in '"\r\n'):
            raise ValueError(
                f"the delimiter must be one character, got {asked!r}; known by name: {', '.join(DELIMITERS.values())}"
            )
    lines = re.sub(r'"[^"]*"', '""', _sample(data)).split("\n")
    lines = [line for line in lines if line.strip()][:SAMPLE_LINES]
    found = {sign: _cut(lines, sign) for sign in DELIMITERS}
    if found[";"][0] == found[","][0] == 1:
        found[","] = 0.0, 0  # it stands within numbers
    best = max(found, key=lambda sign: (sign != " " and found[sign][1] > 0, *found[sign]))
    chosen = best if asked is None else asked
    if _cut(lines, chosen)[1] > 0:
        return chosen
    what = "no delimiter was found" if asked is None else f"the delimiter {asked!r} is not in the first line"
    better = f"it looks as if {DELIMITERS[best]} separates them: --delimiter {DELIMITERS[best]!r}"
    better = better if found[best][1] else "name the delimiter with --delimiter, or check that the file is a table"
    raise ValueError(
        f"{where}: {what}, so that the table would have one column only. It begins "
        f"{lines[0][:80].rstrip()!r}; {better}"
    )


def _cut(lines: Sequence[str], sign: str) -> tuple[float, int]:
    """The share of the lines that a delimiter cuts into as many pieces as the first, and how often it cuts that."""
    counts = [line.count(sign) for line in lines]
    return (counts.count(counts[0]) / len(counts), counts[0]) if counts[0] else (0.0, 0)


def _has_header(rows: Sequence[Sequence[str]], options: Options) -> bool:
    """Tell from the first lines whether the very first names columns.

    It does if there is text in it, unless a number comes twice, or it is a triplet whose value comes again below, or
    symbols are text and are all there is beside labels of a row.
    Numbers alone are names if they are 0, 1, 2, … or 1, 2, 3, …; or if only the first is missing, above labels.
    """
    first, rest, codes = [cell.strip() for cell in rows[0]], rows[1:], options.codes(options.labels)
    if {*first[1:]} - {*codes} <= {*options.labels} or (len(first) in (3, 4) and first[2] in options.labels):
        return False
    known = [cell for cell in first if cell not in codes]
    numbers = [cell for cell in known if is_number(cell)]
    if len(numbers) < len(known):
        triplet = len(first) in (3, 4) and is_number(first[2]) and not is_number(first[1])
        again = triplet and any(row[2:3] and row[2].strip() == first[2] for row in rest)
        return not again and len(set(numbers)) == len(numbers)
    if len(known) < len(first):
        labels = [row[0].strip() for row in rest if row]
        alone = not first[0] and len(known) == len(first) - 1 == len(set(known)) and len(first) > 2
        return alone and all(labels) and len(set(labels)) == len(labels)
    counted = [float(i) for i in range(len(first))]
    return len(first) > 4 and [float(cell) for cell in first] in (counted, [i + 1 for i in counted])
