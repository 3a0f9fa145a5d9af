"""Tables in Parquet files, read by the workers of a cluster, and results written by them; never gathered.

Blocks have about as many entries each. How the files are cut, and how many
blocks there are, makes no difference to the answer (`reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

from snapimpute.backends.dask import _reading as reading
from snapimpute.backends.dask import _scoring as scoring
from snapimpute.backends.dask._spread import SpreadObservations
from snapimpute.backends.dask.backend import Cut, DaskBackend, check_versions, dask_backend
from snapimpute.base.errors import ArgumentError
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.linalg import LowRank


@dataclass(frozen=True, eq=False)
class Cluster:
    """Readers that run on the workers of a cluster; made by `cluster`."""

    client: Client

    @classmethod
    def of(cls, client: Client | None) -> Cluster:
        """The workers of a client, or of the one that was made last."""
        if client is None:
            return cls(dask_backend().client)
        check_versions(client)
        return cls(client)

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
        names, symbols = (row, column, value), None if alphabet is None else Alphabet.of(alphabet)
        parts = reading.parts_of(paths, names)
        return self._spread(
            lambda: [self.client.submit(reading.read, part, names, symbols, pure=False) for part in parts], blocks
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
        names, symbols = (row, column, value), None if alphabet is None else Alphabet.of(alphabet)
        parts = list(frame[[*names]].to_delayed())
        more = {"names": names, "alphabet": symbols}
        return self._spread(
            lambda: self.client.map(reading.cells_of, self.client.compute(parts), **more, pure=False), blocks
        )

    def _spread(self, begin: Callable[[], list[Any]], blocks: int | None) -> SpreadObservations:
        """Bring together what ``begin`` reads; only how to read is remembered, should a block be lost."""
        if blocks is not None and blocks < 1:
            raise ArgumentError.must("blocks", blocks, "be at least 1")
        backend = DaskBackend(self.client)  # of its own: another table has other blocks
        survey, owner, held, sizes = backend.surely(lambda: self._read(backend, begin(), blocks or backend.blocks()))
        backend.cut = Cut(np.cumsum([0, *(rows for rows, _ in sizes)]), [size for _, size in sizes])
        root = backend.root(lambda wanted: reading.brought(backend, begin(), survey, owner, wanted), held)
        return SpreadObservations.made(backend, root, survey.columns)

    def _read(self, backend: DaskBackend, loads: list[Any], blocks: int) -> tuple[Any, Any, list[Any], list[Any]]:
        """Read all parts: return the survey, the block of each bucket, the blocks, and their sizes."""
        survey = backend.here([reading.surveyed(self.client, loads)])[0]
        if not survey.counts.sum():
            raise ValueError("no observed entry: a matrix without any known value cannot be completed")
        owner = reading.owners(survey.counts, blocks)
        held = reading.brought(backend, loads, survey, owner, range(int(owner.max()) + 1))
        loads.clear()  # the workers may forget what they read as soon as it is split
        return survey, owner, held, backend.here(self.client.map(reading.sizes, held, pure=False))

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
            raise ArgumentError.must("k", k, "be at least 1")
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
