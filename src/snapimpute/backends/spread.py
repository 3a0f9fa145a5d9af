"""Tables that no machine holds: ratings in Parquet files, read by the workers of a cluster and never gathered.

Rows are spread over blocks by a hash of their labels, such that all entries of
a row meet in one block, and blocks have about as many entries each; nobody has
to know all labels of rows. Columns are as many as one machine can hold. How the
files are cut makes no difference to the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from distributed import Client
from numpy.typing import DTypeLike, NDArray

from snapimpute.alphabet import AlphabetLike
from snapimpute.backends.blocks import Blocks, Written
from snapimpute.backends.dask_place import Cut, DaskPlace, dask_place
from snapimpute.backends.expressions import Call, Given
from snapimpute.observations import Observations
from snapimpute.operators import LowRank
from snapimpute.operators.place import OBSERVED, ROWS

BUCKETS = 1 << 12
"""Into which rows are hashed; blocks are made of whole buckets."""

MOST_HELD = 1 << 20
"""Entries that are held out at most: more would not tell more."""

ROWS_PER_READ = 1 << 21
"""Of a file at a time."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """What can be read by the workers of a cluster; made by `cluster`."""

    place: DaskPlace

    @classmethod
    def of(cls, client: Client | None) -> Cluster:
        """The workers of a client, or of the one that was made last."""
        return cls(dask_place() if client is None else DaskPlace(client))

    @property
    def client(self) -> Client:
        """Of Dask."""
        return self.place.client

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
        parts = _parts(paths, (row, column, value))
        loads = [self.client.submit(_read, *part, (row, column, value), pure=False) for part in parts]
        return self._spread(loads, alphabet, blocks)

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
        parts = self.client.compute(list(frame[[row, column, value]].to_delayed()))
        loads = self.client.map(_arrays_of, parts, [(row, column, value)] * len(parts), pure=False)
        return self._spread(loads, alphabet, blocks)

    def _spread(self, loads: list[Any], alphabet: AlphabetLike | None, blocks: int | None) -> SpreadObservations:
        found = self.client.gather(self.client.map(_surveyed, loads, pure=False))
        counts = np.sum([one[0] for one in found], axis=0)
        if not counts.sum():
            raise ValueError("no observed entry: a matrix without any known value cannot be completed")
        labels = np.unique(np.concatenate([one[1] for one in found]))
        owner = _owners(counts, blocks or self.place.blocks())
        known, belongs = (self.client.scatter(one, broadcast=True, hash=False) for one in (labels, owner))
        split = [self.client.submit(_split, one, known, belongs, pure=False) for one in loads]
        count = int(owner.max()) + 1

        def load(block: int) -> Any:
            pieces = [self.client.submit(_picked, one, block, pure=False) for one in split]
            return self.client.submit(_block, pieces, labels.size, alphabet, pure=False)

        held = [load(block) for block in range(count)]
        sizes = self.client.gather(self.client.map(_sizes, held, pure=False))
        self.place.cut = Cut(np.cumsum([0, *(rows for rows, _ in sizes)]), [size for _, size in sizes])
        return SpreadObservations.made(self.place, self.place.root(load, held), labels)


@dataclass(frozen=True, eq=False, repr=False)
class SpreadObservations(Observations):
    """Observations of which each worker of a cluster has its blocks; labels of rows are there, too."""

    place: Any = None
    root: Any = None

    @classmethod
    def made(cls, place: DaskPlace, root: Written, labels: NDArray[Any]) -> SpreadObservations:
        """Of blocks that are pairs of observations and labels of rows."""
        there = Call(_observations, Given(root))

        def field(name: str, kind: DTypeLike) -> Any:
            tree = Call(getattr, there, name)
            return Blocks(place, Written(tree), place.cut.observed, np.empty(0, kind), OBSERVED)

        shape = (place.cut.borders[-1], labels.size)
        parts = field("rows", np.int32), field("cols", np.int32), field("values", np.float64)
        return cls(*parts, shape, None, labels, place, root)

    def split(
        self, share: float = 0.2, *, per: Literal["entries", "row"] = "entries", random_state: int = 0
    ) -> tuple[Observations, Observations]:
        """Split into (kept, held out); what is held out comes here, `MOST_HELD` entries at most.

        Whether an entry is held out depends on its row, its column and the seed
        alone, not on files, blocks or workers.
        """
        if not 0 < share < 1:
            raise ValueError(f"share must lie between 0 and 1 (both excluded), got {share}")
        if per != "entries":
            raise ValueError(f'observations on a cluster are split per="entries" only, got {per!r}')
        share = min(share, MOST_HELD / len(self))
        parts = self.place.each(_held, self._pairs, share, random_state)
        starts = self.place.cut.borders
        rows, cols, values = (np.concatenate(one) for one in zip(*parts, strict=True))
        rows = rows + np.repeat(starts[:-1], [len(part[0]) for part in parts])
        if not 0 < rows.size < len(self):
            raise ValueError(f"a share of {share:g} of {len(self)} entries leaves one side empty: change the share")
        left = [size - len(part[0]) for size, part in zip(self.place.cut.observed, parts, strict=True)]
        return self._kept(share, random_state, left), Observations.from_coo(rows, cols, values, self.shape)

    @property
    def _pairs(self) -> Blocks:
        return Blocks(self.place, self.root, self.place.cut.rows, np.empty(0))

    def _kept(self, share: float, seed: int, left: list[int]) -> SpreadObservations:
        place, root = DaskPlace(self.place.client), self.root
        place.cut = Cut(self.place.cut.borders, left)

        def load(block: int) -> Any:
            return place.client.submit(_kept, root.held[block], share, seed, pure=False)

        labels = cast("NDArray[Any]", self.col_labels)
        return SpreadObservations.made(place, place.root(load), labels)

    def biases(self, damping_rows: float, damping_cols: float, *, max_sweeps: int = 20, tol: float = 1e-4) -> LowRank:
        """μ + b_i + c_j as a matrix of rank 2; see `baselines.DampedBiases`."""
        values, place, n = cast(Blocks, self.values), self.place, self.shape[1]
        mean = values.mean()
        spread = math.sqrt(max(float((values**2).sum()) / values.size - mean**2, 0.0))
        counts, c = place.total(_column_counts, self._pairs, n), np.zeros(n)
        weights = np.where(counts + damping_cols > 0, counts + damping_cols, 1.0)
        b = place.full((self.shape[0], 1), 0.0, np.float64, ROWS)
        for _ in range(max_sweeps):
            before, c_before = b, c
            c = place.total(_column_sums, self._pairs, b, mean, n) / weights
            tree = place.tree(_row_biases, self._pairs, place.shared(c), mean, damping_rows)
            b = Blocks(place, place.written(tree, keep=True), place.cut.rows, np.empty((0, 1)))
            moved = max(float(np.linalg.norm(b - before, np.inf)), float(np.abs(c - c_before).max()))
            if moved <= tol * spread:
                break
        ones = place.full((self.shape[0], 1), 1.0, np.float64, ROWS)
        return LowRank(np.hstack([b + mean, ones]), np.ones(2), np.column_stack([np.ones(n), c]))

    def fingerprint(self) -> str:
        """One text for equal cells in equal blocks."""
        return " ".join(cast(Blocks, one).fingerprint() for one in (self.rows, self.cols, self.values))

    def astype(self, dtype: DTypeLike) -> Observations:
        """Return the same cells with their values in another precision."""
        values = cast(Blocks, self.values)
        return self if values.dtype == np.dtype(dtype) else replace(self, values=cast(Any, values.astype(dtype)))


# ---------------------------------------------------------------- what workers do
Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]


def _parts(paths: str | Path | Sequence[str | Path], names: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """(file, first row group, last): pieces of about `ROWS_PER_READ` rows."""
    import pyarrow.parquet as pq

    files: list[str] = []
    for one in [paths] if isinstance(paths, str | Path) else paths:
        at = Path(one)
        found = sorted(glob(str(at / "*.parquet"))) if at.is_dir() else sorted(glob(str(one)))
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
                f"{file} has the columns {has}, not {missing[0]!r}: name them with row=, column=, value="
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
    return (_mixed(_words(labels), 0) % np.uint64(BUCKETS)).astype(np.int64)


def _words(labels: NDArray[Any]) -> NDArray[np.uint64]:
    """Labels as rows of whole numbers; a shorter text ends with zeros."""
    if labels.dtype.kind in "iu":
        return labels.astype(np.int64).view(np.uint64)[:, None]
    longest = int(np.strings.str_len(labels).max(initial=1))
    text = np.strings.encode(labels.astype(f"U{longest}"), "utf-8")
    return text.astype(f"S{max(-(-text.itemsize // 8) * 8, 8)}").view(np.uint64).reshape(labels.size, -1)


def _mixed(words: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """A hash of each row of words, to which words of zeros at the end add nothing."""
    total = np.zeros(len(words), np.uint64)
    for place, word in enumerate(words.T, 1):
        total += _stirred(word) * np.uint64(2 * place + 1)
    return _stirred(total + np.uint64(seed) * np.uint64(0xD1B54A32D192ED03))


def _stirred(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        word = (word ^ (word >> np.uint64(30))) * np.uint64(factor)
    out: NDArray[np.uint64] = word ^ (word >> np.uint64(31))
    return out


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


def _block(pieces: list[Arrays], columns: int, alphabet: Any) -> tuple[Observations, NDArray[Any]]:
    rows, cols, values = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    labels, local = np.unique(rows, return_inverse=True)
    try:
        found = Observations.from_coo(local, cols, values, (labels.size, columns), alphabet=alphabet)
    except ValueError as err:
        raise ValueError(f"in the block of row {labels[0]!r}, counted from there: {err}") from None
    return found, labels


def _chosen(pair: tuple[Observations, NDArray[Any]], share: float, seed: int) -> NDArray[np.bool_]:
    """Which entries are held out: a hash of row and column below a share."""
    known, labels = pair
    rows = _mixed(_words(labels), seed)[known.rows]
    mixed = _mixed((rows ^ known.cols.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))[:, None], seed + 1)
    chosen: NDArray[np.bool_] = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share
    return chosen


def _held(pair: tuple[Observations, NDArray[Any]], share: float, seed: int) -> Any:
    known, chosen = pair[0], _chosen(pair, share, seed)
    return known.rows[chosen].astype(np.int64), known.cols[chosen], known.values[chosen]


def _kept(pair: tuple[Observations, NDArray[Any]], share: float, seed: int) -> tuple[Observations, NDArray[Any]]:
    return pair[0].take(~_chosen(pair, share, seed)), pair[1]


def _column_counts(pair: tuple[Observations, NDArray[Any]], columns: int) -> NDArray[np.float64]:
    return np.bincount(pair[0].cols, minlength=columns).astype(np.float64)


def _column_sums(pair: tuple[Observations, NDArray[Any]], b: Any, mean: float, columns: int) -> NDArray[np.float64]:
    known = pair[0]
    return np.bincount(known.cols, known.values - mean - b[known.rows, 0], columns).astype(np.float64)


def _row_biases(pair: tuple[Observations, NDArray[Any]], c: Any, mean: float, damping: float) -> NDArray[np.float64]:
    known, rows = pair[0], pair[0].shape[0]
    weights = np.bincount(known.rows, minlength=rows) + damping
    sums = np.bincount(known.rows, known.values - mean - c[known.cols], rows)
    return (sums / np.where(weights > 0, weights, 1.0))[:, None]


def _sizes(pair: tuple[Observations, NDArray[Any]]) -> tuple[int, int]:
    return pair[0].shape[0], len(pair[0])


def _observations(pair: tuple[Observations, NDArray[Any]]) -> Observations:
    return pair[0]
