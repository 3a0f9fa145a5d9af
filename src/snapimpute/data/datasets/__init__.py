"""Data sets to try: bundled, fetched and synthetic.

`names` lists the names that `load` takes; `low_rank_alphabet` makes matrices
with a known truth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from snapimpute.data.datasets.base import Dataset, DatasetUnavailable, cache_dir
from snapimpute.data.datasets.bookcrossing import book_crossing
from snapimpute.data.datasets.bundled import CONGRESSES, senate_votes
from snapimpute.data.datasets.mosaics import MosaicTable, mosaic_genotypes
from snapimpute.data.datasets.movielens import movielens_100k
from snapimpute.data.datasets.movielens_1m import movielens_1m_top501
from snapimpute.data.datasets.movielens_features import MovieLensFeatures, movielens_100k_features
from snapimpute.data.datasets.synthetic import Synthetic, low_rank_alphabet

__all__ = [
    "REGISTRY",
    "Dataset",
    "DatasetUnavailable",
    "Entry",
    "MosaicTable",
    "MovieLensFeatures",
    "Synthetic",
    "book_crossing",
    "cache_dir",
    "load",
    "low_rank_alphabet",
    "mosaic_genotypes",
    "movielens_1m_top501",
    "movielens_100k",
    "movielens_100k_features",
    "names",
    "senate_votes",
]


class Entry(NamedTuple):
    """A data set of the registry: its loader and its description."""

    loader: Callable[[], Dataset]
    description: str


REGISTRY: dict[str, Entry] = {
    f"senate-{congress}": Entry(
        partial(senate_votes, congress), f"US Senate roll calls {years}, alphabet 0,1; comes with the package"
    )
    for congress, years in CONGRESSES.items()
} | {
    "movielens-100k": Entry(movielens_100k, "ratings of films, 943×1682, alphabet 1:5; fetched, or give its path"),
    "movielens-1m-top501": Entry(
        movielens_1m_top501, "ratings of the 501 most rated films, 6040×501, alphabet 1:5; fetched, or give its path"
    ),
    "book-crossing": Entry(
        book_crossing, "ratings of books, 77805×185973, alphabet 1:10; fetched (27 MB), or give its path"
    ),
}


def names() -> list[str]:
    """Return the names that `load` takes.

    Examples
    --------
    >>> names()
    ['senate-117', 'senate-109', 'senate-94', 'movielens-100k', 'movielens-1m-top501', 'book-crossing']
    """
    return list(REGISTRY)


def load(name: str) -> Dataset:
    """Load a data set by its name.

    Examples
    --------
    >>> load("senate-109").shape
    (102, 645)
    """
    if name not in REGISTRY:
        raise ValueError(f"no data set {name!r}; there are {', '.join(REGISTRY)}")
    return REGISTRY[name].loader()
