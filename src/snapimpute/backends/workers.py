"""Tables in Parquet files, read by the workers of a cluster, and results written by them; never gathered.

Blocks have about as many entries each. How the files are cut makes no
difference to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client
from numpy.typing import NDArray

from snapimpute.alphabet import Alphabet, AlphabetLike
from snapimpute.backends import scoring
from snapimpute.backends.dask_place import Cut, DaskPlace, dask_place
from snapimpute.backends.spread import Pair, SpreadObservations, mixed, words_of
from snapimpute.observations import Observations
from snapimpute.operators import LowRank

BUCKETS = 1 << 12
"""Into which rows are hashed; blocks are made of whole buckets."""

ROWS_PER_READ = 1 << 21
"""Of a file at a time."""

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Cluster:
    """What can be read by the workers of a cluster; made by `cluster`."""

    client: Client

    @classmethod
    def of(cls, client: Client | None) -> Cluster:
        """The workers of a client, or of the one that was made last."""
        return cls(dask_place().client if client is None else client)

    def read_parquet(
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        row: str = "row",
        column: str = "column",
        value: str = "value",
        alphabet: AlphabetLike | None = None,
        blocks: int | None = None,
    ) -> SpreadObservations:
        """Read files with one observed cell in a line; paths must lead to the same files for all workers.

        Parameters
        ----------
        paths : path, pattern such as "ratings/*.parquet", folder, or a list of these
        row, column, value : str
            Names of the columns of the files.
        alphabet : optional
            If given, every value must be one of its symbols.
        blocks : int, optional
            As many as the workers have threads, if not given.
        """
        names = row, column, value
        parts = _parts(paths, names)
        return self._spread(
            lambda: [self.client.submit(_read, *part, names, pure=False) for part in parts], alphabet, blocks
        )

    def from_frame(
        self,
        frame: Any,
        *,
        row: str = "row",
        column: str = "column",
        value: str = "value",
        alphabet: AlphabetLike | None = None,
        blocks: int | None = None,
    ) -> SpreadObservations:
        """Take the cells from a dask dataframe; parameters as in `read_parquet`."""
        missing = [name for name in (row, column, value) if name not in frame.columns]
        if missing:
            raise ValueError(f"the frame has the columns {', '.join(map(str, frame.columns))}, not {missing[0]!r}")
        names = row, column, value
        parts = list(frame[[*names]].to_delayed())
        return self._spread(
            lambda: self.client.map(_arrays_of, self.client.compute(parts), [names] * len(parts), pure=False),
            alphabet,
            blocks,
        )

    def _spread(
        self, begin: Callable[[], list[Any]], alphabet: AlphabetLike | None, blocks: int | None
    ) -> SpreadObservations:
        """Bring together what ``begin`` reads; only how to read is remembered, should a block be lost."""
        loads = begin()
        found = self.client.gather(self.client.map(_surveyed, loads, pure=False))
        counts = np.sum([one[0] for one in found], axis=0)
        if not counts.sum():
            raise ValueError("no observed entry: a matrix without any known value cannot be completed")
        labels = np.unique(np.concatenate([one[1] for one in found]))
        place = DaskPlace(self.client)  # of its own: another table has other blocks
        owner = _owners(counts, blocks or place.blocks())

        def brought(loads: list[Any], wanted: Iterable[int]) -> list[Any]:
            known, belongs = (self.client.scatter(one, broadcast=True, hash=False) for one in (labels, owner))
            split = [self.client.submit(_split, one, known, belongs, pure=False) for one in loads]
            pieces = [[self.client.submit(_picked, one, block, pure=False) for one in split] for block in wanted]
            return [self.client.submit(_block, some, labels.size, alphabet, pure=False) for some in pieces]

        held = brought(loads, range(int(owner.max()) + 1))
        del loads  # the workers may forget what they read as soon as it is split
        sizes = self.client.gather(self.client.map(_sizes, held, pure=False))
        place.cut = Cut(np.cumsum([0, *(rows for rows, _ in sizes)]), [size for _, size in sizes])
        root = place.root(lambda block: brought(begin(), [block])[0], held)
        return SpreadObservations.made(place, root, labels)

    def write_top(
        self, observations: SpreadObservations, estimate: LowRank, folder: str | Path, *, k: int = 10
    ) -> list[Path]:
        """Write the k columns with the highest estimates of each row, among those that were not observed.

        Parameters
        ----------
        observations : SpreadObservations
        estimate : LowRank
            X + B of a fit to them, such as `Result.estimate`.
        folder : path
            Where all workers can write; it must be empty or not exist yet. Files
            have the columns row, column and score, and a row's best comes first.
        k : int
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        return scoring.written(observations, estimate, folder, scoring.top, k)

    def write_factors(self, observations: SpreadObservations, estimate: LowRank, folder: str | Path) -> list[Path]:
        """Write the row factors U·diag(s): files with the columns row, f0, f1, …; parameters as in `write_top`."""
        return scoring.written(observations, estimate, folder, scoring.factors)

    def columns_as_parquet(self, observations: SpreadObservations, estimate: LowRank) -> bytes:
        """The column factors V, as a file with the columns column, f0, f1, …."""
        return scoring.as_parquet("column", np.asarray(observations.col_labels), estimate.V)

    def write_completed(
        self, observations: SpreadObservations, estimate: LowRank, folder: str | Path, alphabet: AlphabetLike
    ) -> list[Path]:
        """Write the whole table, observed cells as they are and all others with the nearest symbol.

        Parameters
        ----------
        observations : SpreadObservations
        estimate : LowRank
            As in `write_top`.
        folder : path
            As in `write_top`. Files have a column "row" and one for each column of the table.
        alphabet : Alphabet or what makes one
        """
        return scoring.written(observations, estimate, folder, scoring.completed, Alphabet.of(alphabet))


# ---------------------------------------------------------------- what workers do
def _parts(paths: str | Path | Sequence[str | Path], names: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """(file, first row group, last): pieces of about `ROWS_PER_READ` rows."""
    import pyarrow.parquet as pq

    files: list[str] = []
    for one in [paths] if isinstance(paths, str | Path) else paths:
        at = Path(one).absolute()  # workers may run in other folders
        found = sorted(glob(str(at / "*.parquet"))) if at.is_dir() else sorted(glob(str(at)))
        if not found:
            raise FileNotFoundError(f"no Parquet file at {one}")
        files += found
    out = []
    for file in files:
        about = pq.ParquetFile(file)
        missing = [name for name in names if name not in about.schema_arrow.names]
        if missing:
            has = ", ".join(about.schema_arrow.names)
            raise ValueError(
                f"{file} has the columns {has}, not {missing[0]!r}: name them with row=, column=, value= "
                "(--triplets of the command)"
            )
        first, rows = 0, 0
        for group in range(about.num_row_groups):
            rows += about.metadata.row_group(group).num_rows
            if rows >= ROWS_PER_READ or group == about.num_row_groups - 1:
                out.append((file, first, group + 1))
                first, rows = group + 1, 0
    return out


def _read(file: str, first: int, last: int, names: tuple[str, str, str]) -> Arrays:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file).read_row_groups(list(range(first, last)), columns=list(names))
    return _checked([table.column(name).to_pandas() for name in names], file)


def _arrays_of(frame: Any, names: tuple[str, str, str]) -> Arrays:
    return _checked([frame[name] for name in names], "the frame")


def _checked(columns: list[Any], where: str) -> Arrays:
    row, column = (_labels(one, where) for one in columns[:2])
    values = np.asarray(columns[2], dtype=np.float64)
    seen = ~np.isnan(values)
    return row[seen], column[seen], values[seen]


def _labels(series: Any, where: str) -> NDArray[Any]:
    if series.isna().any():
        raise ValueError(f"{where} has cells without a row or a column in {series.name!r}: leave them out")
    array = np.asarray(series)
    return array if array.dtype.kind in "iu" else array.astype(str).astype(np.dtypes.StringDType())


def _hashed(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The bucket of each label, the same whatever other labels there are."""
    return (mixed(words_of(labels), 0) % np.uint64(BUCKETS)).astype(np.int64)


def _surveyed(arrays: Arrays) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Entries in each bucket, and the labels of columns."""
    return np.bincount(_hashed(arrays[0]), minlength=BUCKETS), np.unique(arrays[1])


def _owners(counts: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
    """The block of each bucket: the largest first, each to the block that has least so far."""
    owner, load = np.zeros(counts.size, np.int64), np.zeros(min(blocks, int((counts > 0).sum())))
    for bucket in np.argsort(-counts, kind="stable"):
        if counts[bucket]:
            owner[bucket] = np.argmin(load)
            load[owner[bucket]] += counts[bucket]
    return owner


def _split(arrays: Arrays, labels: NDArray[Any], owner: NDArray[np.int64]) -> list[Arrays]:
    """The entries of each block, with numbers for the labels of columns."""
    rows, columns, values = arrays
    block, cols = owner[_hashed(rows)], np.searchsorted(labels, columns).astype(np.int32)
    order = np.argsort(block, kind="stable")
    ends = np.searchsorted(block[order], np.arange(1, int(owner.max()) + 1))
    pieces = [np.split(one[order], ends) for one in (rows, cols, values)]
    return list(zip(*pieces, strict=True))


def _picked(pieces: list[Arrays], block: int) -> Arrays:
    return pieces[block]


def _block(pieces: list[Arrays], columns: int, alphabet: Any) -> Pair:
    labels, local = np.unique(np.concatenate([piece[0] for piece in pieces]), return_inverse=True)
    local = local.astype(np.int32)  # half of it, before the others are brought together
    cols, values = (np.concatenate([piece[i] for piece in pieces]) for i in (1, 2))
    try:
        found = Observations.from_coo(local, cols, values, (labels.size, columns), alphabet=alphabet)
    except ValueError as err:
        raise ValueError(f"in the block of row {labels[0]!r}, counted from there: {err}") from None
    return found, labels


def _sizes(pair: Pair) -> tuple[int, int]:
    return pair[0].shape[0], len(pair[0])
