"""Tables to files: whole or in pieces, and nobody ever sees half of one."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from snapimpute.app.io._sniff import suffix_format
from snapimpute.base.files import replacing

if TYPE_CHECKING:
    import polars as pl

TABLES = ("csv", "tsv", "parquet", "arrow", "excel")
MATRICES = ("npz", "mtx")
OUTPUTS = (*TABLES, *MATRICES)
STANDARD_OUTPUT = "standard output"
ENDINGS = ".csv, .tsv, .parquet, .arrow, .npz, .mtx or .xlsx"

EXCEL_ROWS, EXCEL_COLUMNS = 1_048_575, 16_384
"""Most rows and columns of a sheet, below a line of names."""


def output_format(path: str, asked: str | None) -> str:
    """The format to write: as asked, else by the suffix; CSV to standard output."""
    if asked is not None and asked not in OUTPUTS:
        raise ValueError(f"there is no output format {asked!r}; there are {', '.join(OUTPUTS)}")
    if asked is not None:
        return asked
    if path == "-":
        return "csv"
    if path.lower().endswith((".tsv", ".tab")):
        return "tsv"
    found = suffix_format(path)
    if found is None:
        raise ValueError(f"the format of {path} does not follow from its name: end it in {ENDINGS}, or add --to")
    return found


def table_format(path: str, asked: str | None) -> str:
    """The format of a table with columns of different kinds, which a matrix cannot hold."""
    kind = output_format(path, asked)
    if kind in MATRICES:
        raise ValueError(f"{kind} holds a matrix of numbers, and this is a table: write {' or '.join(TABLES)}")
    return kind


def check_output(path: str, inputs: list[str], *, force: bool | None) -> None:
    """Refuse to write over what is read, or where nothing can be written, before any work is done.

    ``force`` allows the first; None if a command has no such option.
    """
    if path == "-":
        return
    out = Path(path)
    if out.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it")
    for one in inputs:
        if one != "-" and not force and out.exists() and Path(one).exists() and out.samefile(one):
            do = "name another file" + ("" if force is None else ", or add --force")
            raise ValueError(f"{path} is the input, which would be lost: {do}")
    if out.exists() and not out.is_file():  # a pipe or a device
        if not os.access(out, os.W_OK):
            raise ValueError(f"{path} may not be written to: check its permissions, or name another file")
        return
    parent = out.resolve().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise ValueError(f"{path} cannot be written: {parent} is not a folder that can be written to")


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Name the file that was asked for in errors of the disk."""
    try:
        yield
    except OSError as err:
        if err.errno is None:
            raise
        where = STANDARD_OUTPUT if path == "-" else path
        raise OSError(err.errno, os.strerror(err.errno), where) from err


class _Remembering(io.RawIOBase):
    """A file that keeps the error of its disk: polars words it anew, and leaves its number to the text."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.failed: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Write all of it."""
        try:
            return self._file.write(data)
        except OSError as err:
            self.failed = err
            raise


@contextmanager
def _target(path: str) -> Iterator[IO[bytes]]:
    """A file that takes its place when all is written, or standard output."""
    with writing(path), _opened(path) as file:
        remembering = _Remembering(file)
        try:
            yield cast("IO[bytes]", remembering)
        except Exception as err:
            if remembering.failed is None:
                raise
            raise remembering.failed from err


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if path == "-":
        with _standard_output() as file:
            yield file
        return
    with replacing(Path(path)) as temporary, temporary.open("wb") as file:
        yield file


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    """A file that takes all it is given; without a buffer (PYTHONUNBUFFERED) a part may be lost unnoticed."""
    out = sys.stdout.buffer
    if isinstance(out, io.RawIOBase):
        with os.fdopen(os.dup(out.fileno()), "wb") as file:
            yield file
        return
    yield out
    out.flush()


def write_frame(frame: pl.DataFrame, path: str, kind: str, *, header: bool = True) -> None:
    """Write a frame; CSV, TSV (with names in the first line, or without), Parquet, Arrow or Excel."""
    with _target(path) as file:
        if kind in ("csv", "tsv"):
            frame.write_csv(file, separator="\t" if kind == "tsv" else ",", include_header=header)
        elif kind in ("parquet", "arrow"):
            (frame.write_parquet if kind == "parquet" else frame.write_ipc)(file)
        elif kind == "excel":
            file.write(_excel(frame))
        else:
            raise ValueError(f"a table of columns cannot be written as {kind}")


def _excel(frame: pl.DataFrame) -> bytes:
    check_sheet(frame.height, frame.width)
    try:
        from xlsxwriter import Workbook
    except ImportError:
        raise ValueError('Excel files need one more package: pip install "snapimpute[excel]"') from None
    # As polars would make it, but without temporary files, which a full disk would not take.
    options = {"in_memory": True, "nan_inf_to_errors": True, "strings_to_formulas": False}
    buffer = io.BytesIO()
    book = Workbook(buffer, {**options, "default_date_format": "yyyy-mm-dd;@"})
    frame.write_excel(book)
    book.close()
    return buffer.getvalue()


def check_sheet(rows: int, columns: int) -> None:
    """Refuse what is too large for a sheet of Excel."""
    if rows > EXCEL_ROWS or columns > EXCEL_COLUMNS:
        raise ValueError(
            f"a sheet of Excel holds {EXCEL_ROWS:,} rows and {EXCEL_COLUMNS:,} columns, this table has {rows:,} and "
            f"{columns:,}: write it as .csv or .parquet"
        )


def write_pieces(pieces: Iterator[pl.DataFrame], path: str, kind: str) -> int:
    """Write frames one after the other, as they come (at least one); return how many rows there were."""
    import polars as pl

    if kind in ("csv", "tsv"):
        return _as_lines(pieces, path, "\t" if kind == "tsv" else ",")
    if kind not in ("parquet", "arrow"):
        whole = pl.concat(list(pieces))
        write_frame(whole, path, kind)
        return whole.height
    first = next(pieces)
    rows = [0]

    def source(with_columns: Any, predicate: Any, n_rows: Any, batch_size: Any) -> Iterator[pl.DataFrame]:
        for frame in _chained(first, pieces):
            rows[0] += frame.height
            yield frame

    lazy = pl.io.plugins.register_io_source(source, schema=first.schema)
    sink: Callable[..., Any] = lazy.sink_parquet if kind == "parquet" else lazy.sink_ipc
    with _target(path) as file:
        sink(file)
    return rows[0]


def _chained(first: pl.DataFrame, rest: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    yield first
    yield from rest


def _as_lines(pieces: Iterator[pl.DataFrame], path: str, separator: str) -> int:
    rows = 0
    with _target(path) as file:
        for i, frame in enumerate(pieces):
            frame.write_csv(file, separator=separator, include_header=i == 0)
            rows += frame.height
    return rows


def write_array(X: Any, path: str, kind: str) -> None:
    """Write a dense matrix as NPZ (or NPY, if its name ends so) or Matrix Market."""
    import numpy as np

    with _target(path) as file:
        if kind == "mtx":
            from scipy.io import mmwrite

            mmwrite(file, X)
        else:
            # Numpy writes to a file past Python, and does not notice if the disk is full; an archive that cannot be
            # ended says so once more when Python ends.
            buffer = io.BytesIO()
            if path.lower().endswith(".npy"):
                np.save(buffer, X)
            else:
                np.savez_compressed(buffer, X=X)
            file.write(buffer.getbuffer())


def in_plain_words(err: OSError) -> str:
    """Say what went wrong with a file, and what to do."""
    name = f"{err.filename}: " if err.filename else ""
    known = {
        errno.ENOENT: "there is no such file",
        errno.EACCES: "it may not be read or written: check its permissions",
        errno.EISDIR: "it is a folder: name a file",
        errno.ENOTDIR: "a part of its path is no folder: check the path",
        errno.ENOSPC: "the disk is full: nothing was written; make room, or name another place",
        errno.EDQUOT: "your share of the disk is full: nothing was written; make room, or name another place",
        errno.EFBIG: "the file would be larger than is allowed here: nothing was written; raise the limit (ulimit "
        "-f), or name another place",
        errno.EROFS: "this place cannot be written to: name another one",
        errno.ENAMETOOLONG: "its name is too long: name another file",
    }
    text = known.get(err.errno or 0, err.strerror or str(err))
    if err.filename == STANDARD_OUTPUT:
        text = text.replace("nothing was written", "what arrived there is not whole")
    return name + text
