"""Tables from files, of any format and layout."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from snapimpute.app.io._sniff import Text, as_text, format_of, unpacked
from snapimpute.app.io.layout import looks_like_triplets
from snapimpute.app.io.options import FORMATS, AlphabetSpec, Options
from snapimpute.app.io.triplets import Triplets, assembled, triplets
from snapimpute.app.io.wide import Wide, wide

if TYPE_CHECKING:
    import polars as pl

STANDARD_INPUT = "standard input"
Notes = list[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Content:
    """Content of a file: a frame, with text files all text, or the cells of a sparse matrix.

    ``where`` is how messages name the file, ``notes`` say how it was read. Columns that are not ``named`` are
    counted, and so are rows without labels, from ``first`` on. All columns of a ``matrix`` hold values.
    """

    frame: pl.DataFrame
    where: str
    notes: Notes
    named: bool = True
    first: int = 1
    matrix: bool = False
    cells: Triplets | None = None


def read_file(path: str, options: Options, spec: AlphabetSpec) -> Wide | Triplets:
    """Read a table; ``-`` is standard input. Errors are one sentence."""
    return arranged(read_content(path, options), options, spec)


def arranged(content: Content, options: Options, spec: AlphabetSpec) -> Wide | Triplets:
    """Tell the layout of what was read, if it is not said, and take it in."""
    said = options.layout != "auto" or options.triplets is not None
    if content.cells is not None:
        if options.layout == "wide":
            raise ValueError(f"{content.where} is a sparse matrix, and has no --layout wide: leave that out")
        return content.cells
    as_cells = options.layout == "triplets" or options.triplets is not None
    frame, where, notes = content.frame, content.where, content.notes
    if content.matrix and options.index is None:
        options = replace(options, index="none")
    open_ = options.layout == "auto" and not content.matrix
    if as_cells or (open_ and looks_like_triplets(frame, options, spec)):
        return triplets(frame, where, options, spec, notes, said=said, named=content.named)
    layout = ("layout", "wide: one row a line" + ("" if said else "; --layout triplets if not"))
    return wide(frame, where, options, spec, [*notes, layout], named=content.named, first=content.first)


def read_content(path: str, options: Options) -> Content:
    """Read the columns of a file, or the cells of a sparse matrix."""
    where = STANDARD_INPUT if path == "-" else path
    data = unpacked(_bytes(path), where)
    kind = options.format or format_of(data, where)
    if kind not in FORMATS:
        raise ValueError(f"there is no format {kind!r}; there are {', '.join(FORMATS)}")
    if options.sheet is not None and kind != "excel":
        raise ValueError(f"{where} is no Excel file, and has no sheets: leave out --sheet")
    notes: Notes = [("file", where), ("format", kind)]
    if kind == "csv":
        text = as_text(data, where, options)
        del data
        return _from_text(text, where, notes)
    if kind in ("mtx", "npz"):
        return _matrix(data, kind, where, notes, options)
    frame, more = _excel(data, where, options.sheet) if kind == "excel" else (_binary(data, kind, where), [])
    if not frame.height or not frame.width:
        told = "".join(f" ({name} {text})" for name, text in more)
        raise ValueError(f"{where} is empty: it has {frame.height} rows and {frame.width} columns{told}")
    notes += more
    frame.columns = _distinct(frame.columns)
    return Content(frame, where, notes)


def _bytes(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    where = Path(path)
    if where.is_dir():
        raise ValueError(f"{path} is a folder: name a file")
    return where.read_bytes()


def _from_text(text: Text, where: str, notes: Notes) -> Content:
    """All columns as text."""
    import polars as pl

    if not text.rows:
        raise ValueError(f"{where} has a line of names, but no row below it")
    try:
        frame = pl.read_csv(
            io.BytesIO(text.data),
            separator=text.delimiter,
            has_header=False,  # so that names stay as they are
            infer_schema=False,
            quote_char='"' if text.quoted else None,
        )
    except pl.exceptions.PolarsError as err:
        raise ValueError(f"{where} cannot be read as a table: {reason(err)}") from None
    frame = frame.slice(1) if text.names is not None else frame
    if frame.height != text.rows:
        raise ValueError(
            f"{where} cannot be read as a table: it has {text.rows:,} rows, but {frame.height:,} came out; check its "
            "quotation marks"
        )
    notes = [*notes, ("delimiter", text.shown), *text.notes]
    if text.names is None:
        frame.columns = [str(i + 1) for i in range(frame.width)]
        counted = "none, columns are counted from 1; --header if the first line has them"
        return Content(frame, where, [*notes, ("column names", counted)], named=False)
    frame.columns = _distinct(text.names)
    again = Counter(name.strip() for name in text.names).most_common(1)[0]
    told = f"; {again[0]!r} comes {again[1]} times, so that names were numbered" if again[1] > 1 else ""
    return Content(frame, where, [*notes, ("column names", f"in the first line{told}")])


def _distinct(names: Sequence[str]) -> list[str]:
    """Names without space around them; one that comes again gets a number."""
    out: dict[str, None] = {}
    for name in names:
        plain, count = name.strip(), 1
        fresh = plain
        while fresh in out:
            count += 1
            fresh = f"{plain} ({count})"
        out[fresh] = None
    return list(out)


def _binary(data: bytes, kind: str, where: str) -> pl.DataFrame:
    import polars as pl

    try:
        if kind == "parquet":
            return pl.read_parquet(io.BytesIO(data))
        stream = data[:6] != b"ARROW1"
        return pl.read_ipc_stream(io.BytesIO(data)) if stream else pl.read_ipc(io.BytesIO(data))
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as err:  # whatever a damaged file leads to, a panic in the reader included
        raise ValueError(f"{where} cannot be read as {kind}: {reason(err)}") from None


def _excel(data: bytes, where: str, sheet: str | None) -> tuple[pl.DataFrame, Notes]:
    """One sheet of a workbook, the first if none is named; said where there are others."""
    import polars as pl

    try:
        import fastexcel

        sheets = list(fastexcel.read_excel(data).sheet_names)
        asked = sheets[0] if sheet is None else sheet
        if asked in sheets:
            frame = pl.read_excel(io.BytesIO(data), sheet_name=asked, infer_schema_length=None, raise_if_empty=False)
    except ImportError:
        raise ValueError(f'{where}: Excel files need one more package: pip install "snapimpute[excel]"') from None
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as err:  # whatever a damaged file leads to, a panic in the reader included
        raise ValueError(f"{where} cannot be read as excel: {reason(err)}") from None
    names = ", ".join(map(repr, sheets))
    if asked not in sheets:
        raise ValueError(f"{where} has no sheet {asked!r}, which --sheet names; its sheets are {names}")
    others = ", ".join(repr(name) for name in sheets if name != asked)
    told = f"{asked!r}" + (f"; --sheet if another: {others}" if sheet is None else "")
    return frame, [("sheet", told)] * (len(sheets) > 1)


def reason(err: BaseException) -> str:
    """The first line of an error, or its kind."""
    return (str(err).strip().splitlines() or [type(err).__name__])[0]


def _matrix(data: bytes, kind: str, where: str, notes: Notes, options: Options) -> Content:
    """A matrix: a sparse one has known cells, in a dense one NaN is missing."""
    import polars as pl
    import scipy.sparse as sp

    try:
        X = _matrix_market(data) if kind == "mtx" else _numpy(data)
    except Exception as err:  # whatever a damaged file leads to
        raise ValueError(f"{where} cannot be read as {kind}: {reason(err)}") from None
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise ValueError(f"{where}: expected a two-dimensional array of numbers, got shape {X.shape}, {X.dtype}")
    first = 1 if kind == "mtx" else 0  # as the format counts
    if not sp.issparse(X):
        X = X.astype(np.float32) if X.dtype == np.float16 else X
        columns = {str(j + first): pl.Series(X[:, j], nan_to_null=True) for j in range(X.shape[1])}
        counted = ("column names", f"none, columns are counted from {first}")
        return Content(pl.DataFrame(columns), where, [*notes, counted], False, first, matrix=True)
    coo = X.tocoo()
    levels, codes = np.unique(coo.data.astype(np.float64), return_inverse=True)
    lost = np.isnan(levels) | np.isin(levels, options.numbers)
    codes = np.where(lost, -1, np.arange(levels.size))[codes] if lost.any() else codes
    labels = [np.arange(first, size + first) for size in coo.shape]
    layout = ("layout", f"a sparse matrix: what is not stored is missing; positions count from {first}")
    rows, cols = (index.astype(np.int32) for index in coo.coords)
    cells = assembled(
        (rows, cols, codes.astype(np.int32)),
        levels.tolist(),
        (labels[0], labels[1]),
        ("row", "column", "value"),
        where,
        options,
        [*notes, layout],
    )
    return Content(pl.DataFrame(), where, cells.notes, cells=cells)


def _matrix_market(data: bytes) -> Any:
    from scipy.io import mmread

    # Without the end of the last line scipy reads on behind the file, and takes Python down with it.
    return mmread(io.BytesIO(data if data.endswith(b"\n") else data + b"\n"), spmatrix=False)


def _numpy(data: bytes) -> Any:
    import scipy.sparse as sp

    if data[:6] == b"\x93NUMPY":
        return np.load(io.BytesIO(data), allow_pickle=False)
    with np.load(io.BytesIO(data), allow_pickle=False) as inside:
        names = list(inside)
        if {"format", "shape", "data"} <= set(names):
            return sp.load_npz(io.BytesIO(data))
        if len(names) != 1:
            raise ValueError(f"it holds {len(names)} arrays ({', '.join(names)}): one is needed")
        return inside[names[0]]
