"""Files as the commands read them: what is found, told and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from snapimpute.app.io import (
    AlphabetSpec,
    Options,
    Triplets,
    Wide,
    read_content,
    read_file,
)

FIVE = ["1:5"]
Put = Callable[..., str]


def read(path: str, alphabet: list[str] | None = None, **options: Any) -> Wide | Triplets:
    return read_file(path, Options(**options), AlphabetSpec.parse(FIVE if alphabet is None else alphabet))


def wide(path: str, alphabet: list[str] | None = None, **options: Any) -> Wide:
    found = read(path, alphabet, **options)
    assert isinstance(found, Wide), found.notes
    return found


def cells(path: str, alphabet: list[str] | None = None, **options: Any) -> Triplets:
    found = read(path, alphabet, **options)
    assert isinstance(found, Triplets), found.notes
    return found


def frame(path: str, **options: Any) -> Any:
    return read_content(path, Options(**options)).frame


def told(source: Any) -> dict[str, str]:
    return dict(source.notes)


def refused(path: str, alphabet: list[str] | None = None, **options: Any) -> str:
    """The error of a file that cannot be read: one sentence that names it."""

    def everything() -> None:
        source, spec = read(path, alphabet, **options), AlphabetSpec.parse(FIVE if alphabet is None else alphabet)
        source.observations(spec.for_columns(source.col_labels))

    with pytest.raises((ValueError, OSError)) as caught:
        everything()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def dense(source: Any, alphabet: Any = "1:5") -> Any:
    """The known values as an array, NaN elsewhere."""
    known, _ = source.observations(alphabet)
    out = np.full(known.shape, np.nan)
    out[known.rows, known.cols] = known.values
    return out


TABLE = [["id", "a", "b", "c"], ["ann", "1", "", "3"], ["bob", "2", "5", ""], ["cleo", "", "4", "1"]]
VALUES = [[1, np.nan, 3], [2, 5, np.nan], [np.nan, 4, 1]]
U_DATA = "196\t242\t3\t881250949\n186\t302\t3\t891717742\n22\t242\t1\t878887116\n186\t242\t5\t880606923\n"
