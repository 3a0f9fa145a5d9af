"""Data sets: cells in the order of their source, an alphabet, labels and provenance."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations

CACHE_VARIABLE = "SNAPIMPUTE_CACHE"


class DatasetUnavailable(OSError):  # noqa: N818  a state of the world, not a mistake
    """No source of a data set works; the message lists what was tried and what to do."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A matrix with missing cells, on a finite alphabet, and its provenance.

    Cells are kept in the order of the source, because published splits refer to
    it; `observations` gives them sorted, ready for a solver. Everything is
    checked on construction and the arrays are read-only.

    Parameters
    ----------
    name : str
    rows, cols : array of int32
        Zero-based positions, in source order.
    values : array of float64
        One symbol of the alphabet for each cell.
    shape : (int, int)
    alphabet : Alphabet
    row_labels, col_labels : array, optional
        Names of rows and columns in the source.
    citation, licence, description : str
    splits : mapping of str to array of int
        Published splits: for each name the positions, in source order, of the
        *test* entries; all other entries are for training.

    Examples
    --------
    >>> data = Dataset("toy", [0, 1, 1], [1, 0, 1], [5, 3, 4], (2, 2), Alphabet.of("1:5"), splits={"last": [2]})
    >>> data
    Dataset('toy', 2×2, 3 observed = 75 %, Alphabet([1, 2, 3, 4, 5]), splits: last)
    >>> train, test = data.split("last")
    >>> train.values, test.values
    (array([5., 3.]), array([4.]))
    """

    name: str
    rows: NDArray[np.int32]
    cols: NDArray[np.int32]
    values: NDArray[np.float64]
    shape: tuple[int, int]
    alphabet: Alphabet
    row_labels: NDArray[Any] | None = None
    col_labels: NDArray[Any] | None = None
    citation: str = ""
    licence: str = ""
    description: str = ""
    splits: Mapping[str, NDArray[np.intp]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("rows", "cols", "values"):
            object.__setattr__(self, name, np.array(getattr(self, name)))
        self.observations  # noqa: B018  checks lengths, types, ranges, duplicates, labels and symbols
        for name, dtype in (("rows", np.int32), ("cols", np.int32), ("values", np.float64)):
            object.__setattr__(self, name, _read_only(getattr(self, name).astype(dtype)))
        tests = {name: self._check_split(name, test) for name, test in self.splits.items()}
        object.__setattr__(self, "splits", MappingProxyType(tests))

    def _check_split(self, name: str, test: NDArray[np.intp]) -> NDArray[np.intp]:
        given, size = np.asarray(test), len(self)
        index = np.unique(given)
        whole = given.ndim == 1 and given.dtype.kind in "iu" and index.size == given.size
        if not (whole and 0 < index.size < size and index[0] >= 0 and index[-1] < size):
            raise ValueError(
                f"split {name!r} of data set {self.name!r} must list some, not all, of the positions 0..{size - 1} "
                f"of its test entries, each once; got an array of shape {given.shape}, dtype {given.dtype}"
            )
        return _read_only(index.astype(np.intp))

    def __len__(self) -> int:
        return int(self.values.size)

    def __repr__(self) -> str:
        m, n = self.shape
        splits = f", splits: {' '.join(self.splits)}" if self.splits else ""
        return (
            f"Dataset({self.name!r}, {m}×{n}, {len(self)} observed = {100 * self.observations.density:.3g} %, "
            f"{self.alphabet!r}{splits})"
        )

    @cached_property
    def observations(self) -> Observations:
        """All observed cells, sorted by row and column, with the labels."""
        return self._pick(slice(None))

    def split(self, name: str) -> tuple[Observations, Observations]:
        """Return the published split `name` as (train, test).

        Raises
        ------
        KeyError
            If there is no such split; the message lists those there are.
        """
        if name not in self.splits:
            known = ", ".join(self.splits) or "none; use observations.split() for a random one"
            raise KeyError(f"data set {self.name!r} has no split {name!r}; available: {known}")
        test = np.zeros(len(self), dtype=bool)
        test[self.splits[name]] = True
        return self._pick(~test), self._pick(test)

    def _pick(self, index: slice | NDArray[np.bool_]) -> Observations:
        return Observations.from_coo(
            self.rows[index],
            self.cols[index],
            self.values[index],
            self.shape,
            alphabet=self.alphabet,
            row_labels=self.row_labels,
            col_labels=self.col_labels,
        )


def cache_dir() -> Path:
    """Return the folder for downloaded data, which need not exist yet.

    It is the environment variable ``SNAPIMPUTE_CACHE``, else ``snapimpute`` in
    ``XDG_CACHE_HOME``, else ``~/.cache/snapimpute``.

    Examples
    --------
    >>> import os
    >>> cache_dir().name == "snapimpute" or "SNAPIMPUTE_CACHE" in os.environ
    True
    """
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # A relative XDG_CACHE_HOME is to be ignored: XDG Base Directory Specification.
    base = Path(shared) if shared and Path(shared).is_absolute() else Path.home() / ".cache"
    return base / "snapimpute"


def _read_only(a: NDArray[Any]) -> NDArray[Any]:
    a.flags.writeable = False
    return a
