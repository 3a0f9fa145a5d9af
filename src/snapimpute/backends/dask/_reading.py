"""Workers of a cluster read a table and bring the cells of a row together; nobody knows all labels of rows.

A label of a row is hashed into a bucket, and a block is a range of buckets with
its share of the observed cells. Rows are ordered by bucket, then by label: their
order, and with it every sample that is drawn, is the same for any files, any
number of blocks and any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from distributed import Client
from numpy.typing import NDArray

from snapimpute.backends.dask._spread import LabelledRows, hashed
from snapimpute.backends.dask._tasks import Tasks
from snapimpute.base.errors import inside
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.checks import on_symbols, refuse
from snapimpute.data.observations import Observations

BUCKETS = 1 << 16
"""Into which rows are hashed; blocks are made of whole buckets."""

ROWS_PER_READ = 1 << 21
"""Rows of a file that are read at a time."""

BRANCHES = 8
"""Number of surveys joined in one task."""

Names = tuple[str, str, str]
"""Names of the columns with rows, columns and values."""

FilePart = tuple[str, int, int]
"""A file, its first row group, and the one after the last."""


class RawCells(NamedTuple):
    """Observed cells: labels of their rows, labels or numbers of their columns, values."""

    rows: NDArray[Any]
    columns: NDArray[Any]
    values: NDArray[np.float64]


class Survey(NamedTuple):
    """Entries in each bucket, and the labels of columns."""

    counts: NDArray[np.int64]
    columns: NDArray[Any]


# ---------------------------------------------------------------- asked of the workers
def surveyed(client: Client, loads: list[Any]) -> Any:
    """Survey all loaded parts, joined in a tree: the future of a `Survey`."""
    parts = client.map(survey_of, loads, pure=False)
    while len(parts) > 1:
        groups = [parts[i : i + BRANCHES] for i in range(0, len(parts), BRANCHES)]
        parts = client.map(joined, groups, pure=False)
    return parts[0]


def brought(backend: Tasks, loads: list[Any], survey: Survey, owner: Any, wanted: Sequence[int]) -> list[Any]:
    """The wanted blocks, put together of all that was loaded."""
    client, known, belongs = backend.client, backend.given(survey.columns), backend.given(owner)
    split = [client.submit(split_of, one, known, belongs, list(wanted), pure=False) for one in loads]
    pieces = [[client.submit(picked, one, i, pure=False) for one in split] for i in range(len(wanted))]
    return [client.submit(block_of, some, known, pure=False) for some in pieces]


# ---------------------------------------------------------------- files
def parts_of(paths: str | Path | Sequence[str | Path], names: Names) -> list[FilePart]:
    """Pieces of about `ROWS_PER_READ` rows; all files must have the columns, and the same kind of labels."""
    import pyarrow.parquet as pq

    out: list[FilePart] = []
    first: tuple[str, list[bool]] | None = None
    for file in _files(paths):
        try:
            about = pq.ParquetFile(file)
        except ValueError as err:  # that of pyarrow is one
            raise ValueError(f"{file} is not a Parquet file, or damaged: {err}") from None
        first = _same_kind(file, about.schema_arrow, names, first)
        begin, rows = 0, 0
        for group in range(about.num_row_groups):
            rows += about.metadata.row_group(group).num_rows
            if rows >= ROWS_PER_READ or group == about.num_row_groups - 1:
                out.append((file, begin, group + 1))
                begin, rows = group + 1, 0
    if not out:
        raise ValueError("no observed entry: the files have no line")
    return out


def _files(paths: str | Path | Sequence[str | Path]) -> Iterable[str]:
    for one in [paths] if isinstance(paths, str | Path) else paths:
        at = Path(one).absolute()  # workers may run in other folders
        found = [str(at)] if at.is_file() else sorted(glob(str(at / "*.parquet") if at.is_dir() else str(at)))
        if not found:
            raise FileNotFoundError(f"no Parquet file at {one}")
        yield from found


def _same_kind(file: str, schema: Any, names: Names, first: tuple[str, list[bool]] | None) -> tuple[str, list[bool]]:
    """The file whose kind of labels counts, and whether they are text; another kind is an error."""
    for name in names:
        if name not in schema.names:
            raise ValueError(
                f"{file} has the columns {', '.join(schema.names)}, not {name!r}: name them with row=, column=, "
                "value= (--triplets of the command)"
            )
    text = [not _is_number(schema.field(name).type) for name in names[:2]]
    if first is None:
        return file, text
    for name, this, before in zip(names, text, first[1], strict=False):
        if this != before:
            kinds = [f"{'text' if one else 'numbers'} in {at}" for one, at in ((before, first[0]), (this, file))]
            raise ValueError(f"the labels in {name!r} are {', and '.join(kinds)}: write all files alike")
    return first


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


# ---------------------------------------------------------------- what workers do
def read(part: FilePart, names: Names, alphabet: Alphabet | None) -> RawCells:
    """The cells of a part of a file."""
    import pyarrow.parquet as pq

    file, first, last = part
    table = pq.ParquetFile(file).read_row_groups(list(range(first, last)), columns=list(names))
    return _cells(table, names, file, alphabet)


def cells_of(frame: Any, names: Names, alphabet: Alphabet | None) -> RawCells:
    """The cells of a part of a dask dataframe."""
    import pyarrow as pa

    return _cells(pa.Table.from_pandas(frame[[*names]], preserve_index=False), names, "the frame", alphabet)


def _cells(table: Any, names: Names, where: str, alphabet: Alphabet | None) -> RawCells:
    """Values that are missing are left out; one that is not finite, or not in the alphabet, is an error."""
    rows, columns = (_labels(table.column(name), name, where) for name in names[:2])
    try:
        values = np.asarray(table.column(names[2]).cast("float64").to_numpy(), np.float64)
    except (ValueError, NotImplementedError) as err:
        raise ValueError(f"{where} must have numbers in {names[2]!r}: {err}") from None
    seen = ~np.isnan(values)
    cells = RawCells(rows, columns, values) if seen.all() else RawCells(rows[seen], columns[seen], values[seen])
    try:
        refuse(~np.isfinite(cells.values), *cells, ["not finite"], "drop missing cells or write them as absent")
        return cells if alphabet is None else cells._replace(values=on_symbols(alphabet, *cells))
    except ValueError as err:
        raise inside(where, err) from None


def _labels(column: Any, name: str, where: str) -> NDArray[Any]:
    """Whole numbers, or text."""
    import pyarrow as pa

    if column.null_count:
        raise ValueError(f"{where} has cells without a row or a column in {name!r}: leave them out")
    try:
        if _is_number(column.type):
            return np.asarray(column.cast(pa.int64()).to_numpy())  # whole numbers as floats are cast, others refused
        return np.asarray(column.cast(pa.string()).to_numpy()).astype(np.dtypes.StringDType())
    except (ValueError, NotImplementedError) as err:
        raise ValueError(f"{where} must have whole numbers or text in {name!r}: {err}") from None


def bucket_of(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The bucket of each label, the same whatever other labels there are."""
    return (hashed(labels, 0) % np.uint64(BUCKETS)).astype(np.int64)


def survey_of(cells: RawCells) -> Survey:
    """Survey some cells."""
    return Survey(np.bincount(bucket_of(cells.rows), minlength=BUCKETS), np.unique(cells.columns))


def joined(surveys: list[Survey]) -> Survey:
    """Join surveys into one."""
    counts = np.sum([one.counts for one in surveys], axis=0)
    return Survey(counts, np.unique(np.concatenate([one.columns for one in surveys])))


def owners(counts: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
    """The block of each bucket: the one in which the middle of its entries falls, all blocks being equally large."""
    middle = np.cumsum(counts) - counts / 2
    owner = np.minimum((middle * blocks / counts.sum()).astype(np.int64), blocks - 1)
    used = np.unique(owner[counts > 0])  # a bucket that is larger than a block leaves blocks without any
    found: NDArray[np.int64] = np.minimum(np.searchsorted(used, owner), used.size - 1)
    return found


def split_of(cells: RawCells, labels: NDArray[Any], owner: NDArray[np.int64], wanted: list[int]) -> list[RawCells]:
    """The entries of each wanted block, with numbers for the labels of columns."""
    backend = np.full(int(owner.max()) + 1, len(wanted))
    backend[wanted] = np.arange(len(wanted))
    block = backend[owner[bucket_of(cells.rows)]]
    order = np.argsort(block, kind="stable")
    ends = np.searchsorted(block[order], np.arange(len(wanted) + 1))
    order, borders = order[: ends[-1]], ends[1:-1]
    columns = np.searchsorted(labels, cells.columns[order]).astype(np.int32)
    pieces = [np.split(one, borders) for one in (cells.rows[order], columns, cells.values[order])]
    return [RawCells(*piece) for piece in zip(*pieces, strict=True)]


def picked(pieces: list[RawCells], block: int) -> RawCells:
    """One of several."""
    return pieces[block]


def block_of(pieces: list[RawCells], columns: NDArray[Any]) -> LabelledRows:
    """A block, put together of its pieces; rows in the order of their buckets, then of their labels."""
    labels, local = np.unique(np.concatenate([piece.rows for piece in pieces]), return_inverse=True)
    order = np.argsort(bucket_of(labels), kind="stable")
    number = np.empty(labels.size, np.int32)
    number[order] = np.arange(labels.size, dtype=np.int32)
    labels, rows = labels[order], number[local]
    cols, values = (np.concatenate([piece[i] for piece in pieces]) for i in (1, 2))
    shape = labels.size, columns.size
    try:
        return Observations.from_coo(rows, cols, values, shape), labels
    except ValueError:
        _refuse_duplicates(labels[rows], columns[cols], rows.astype(np.int64) * shape[1] + cols, values)
        raise


def _refuse_duplicates(rows: Any, columns: Any, key: NDArray[np.int64], values: NDArray[np.float64]) -> None:
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    if again.size:
        first, later = order[again[0]], order[again[0] + 1]
        raise ValueError(
            f"{again.size} duplicate cell(s) in a block, one of them is row {rows[first]!s}, column "
            f"{columns[first]!s}, with the values {values[first]:.15g} and {values[later]:.15g}: keep one value for "
            "each cell"
        ) from None


def sizes(pair: LabelledRows) -> tuple[int, int]:
    """Rows and entries of a block."""
    return pair[0].shape[0], len(pair[0])
