"""Workers write the predictions of a fit on a cluster: one file a block, and never an m×n anything."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from snapimpute.backends.dask._blocks import Blocks
from snapimpute.backends.dask._expressions import PerBlock
from snapimpute.backends.dask._spread import LabelledRows, SpreadObservations
from snapimpute.base.files import replacing, write_atomically
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.linalg import LowRank

CELLS = 1 << 22
"""Estimated at a time."""


def written(
    observations: SpreadObservations, estimate: LowRank, folder: str | Path, work: Any, *more: Any
) -> list[Path]:
    """Have the workers write a file for each block; the paths."""
    backend, at = observations.backend, Path(folder).absolute()
    if estimate.shape != observations.shape:
        raise ValueError(f"the estimate has shape {estimate.shape}, the observations {observations.shape}")
    if at.exists() and any(at.iterdir()):
        raise FileExistsError(f"{at} is not empty: give a new folder, or empty it")
    at.mkdir(parents=True, exist_ok=True)
    paths = [at / f"part-{block:05}.parquet" for block in range(backend.count)]
    left, labels = cast(Blocks, estimate.U * estimate.s), backend.shared(np.asarray(observations.col_labels))
    backend.guarded(
        lambda: backend.each(
            work, observations.pairs, left, backend.shared(estimate.V), labels, PerBlock(tuple(paths)), *more
        )
    )
    for left_over in at.glob(".part-*"):  # by workers that died while they wrote
        left_over.unlink(missing_ok=True)
    return paths


def _bands(rows: int, left: Array, right: Array) -> Iterator[tuple[slice, Array]]:
    """Some rows of the estimate at a time."""
    step = max(CELLS // max(len(right), 1), 1)
    for start in range(0, rows, step):
        band = slice(start, min(start + step, rows))
        yield band, left[band] @ right.T


def top(pair: LabelledRows, left: Array, right: Array, labels: Any, path: Path, k: int) -> int:
    """The highest estimates of each row."""
    import pyarrow as pa

    known, names = pair
    pointers, found = known.by_row.indptr, []
    for band, scores in _bands(known.shape[0], left, right):
        seen = slice(pointers[band.start], pointers[band.stop])
        scores[known.rows[seen] - band.start, known.cols[seen]] = -np.inf
        count = min(k, scores.shape[1])
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        value = np.take_along_axis(scores, best, axis=1)
        order = np.lexsort((best, -value), axis=1)
        best, value = np.take_along_axis(best, order, axis=1), np.take_along_axis(value, order, axis=1)
        rows = np.repeat(np.arange(band.start, band.stop), count)
        kept = np.isfinite(value).reshape(-1)
        found.append((rows[kept], best.reshape(-1)[kept], value.reshape(-1)[kept]))
    rows, cols, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
    table = pa.table({"row": _plain(names[rows]), "column": _plain(labels[cols]), "score": values})
    _save(path, iter([table]))
    return len(values)


def completed(pair: LabelledRows, left: Array, right: Array, labels: Any, path: Path, alphabet: Alphabet) -> int:
    """All cells."""
    import pyarrow as pa

    known, names = pair
    pointers = known.by_row.indptr
    small = (alphabet.symbols == np.round(alphabet.symbols)).all() and np.abs(alphabet.symbols).max() <= 127
    kind = np.int8 if small else np.float64

    def tables() -> Iterator[Any]:
        for band, values in _bands(known.shape[0], left, right):
            seen = slice(pointers[band.start], pointers[band.stop])
            filled = alphabet.snap(values)
            filled[known.rows[seen] - band.start, known.cols[seen]] = known.values[seen]
            columns = {str(name): column for name, column in zip(labels, filled.T.astype(kind), strict=True)}
            yield pa.table({"row": _plain(names[band])} | columns)

    _save(path, tables())
    return known.shape[0]


def factors(pair: LabelledRows, left: Array, right: Array, labels: Any, path: Path) -> int:
    """The factors of the rows."""
    write_atomically(path, as_parquet("row", pair[1], left))
    return len(left)


def as_parquet(name: str, labels: Any, factor: Array) -> bytes:
    """Labels and factors as a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    columns = {f"f{i}": column for i, column in enumerate(np.ascontiguousarray(factor.T))}
    pq.write_table(pa.table({name: _plain(labels)} | columns), buffer)
    return buffer.getvalue()


def _plain(labels: Any) -> Any:
    return labels if labels.dtype.kind in "iu" else labels.astype(object)


def _save(path: Path, tables: Iterator[Any]) -> None:
    import pyarrow.parquet as pq

    first = next(tables)
    with replacing(path) as temporary, pq.ParquetWriter(temporary, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)
