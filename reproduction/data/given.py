"""Files that may not come with the package and cannot be fetched: they are read where the user keeps them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path

from snapimpute.data.datasets.base import DatasetUnavailable

DATA_VARIABLE = "SNAPIMPUTE_DATA"
MAX_BYTES = 1 << 28
"""Most bytes of a file, unpacked: more is refused."""


def given_file(title: str, names: Sequence[str], source: str, path: str | os.PathLike[str] | None = None) -> bytes:
    """Return the content of the first file of these names in a folder, unpacked if it is a gzip file.

    Parameters
    ----------
    title : str
        What the data set is called in messages.
    names : list of str
        Of the file; with ".gz" each is looked for, too.
    source : str
        Where the user gets it, for the message.
    path : path, optional
        The file, or the folder that holds it; else the folder named by the environment variable ``SNAPIMPUTE_DATA``.

    Raises
    ------
    DatasetUnavailable
        Saying what was looked for, and where to get it.
    """
    wanted = [name + end for name in names for end in ("", ".gz")]
    where = os.environ.get(DATA_VARIABLE) if path is None else path
    remedy = f"Get it from {source}, and set {DATA_VARIABLE} to the folder that holds {' or '.join(wanted)}."
    if not where:
        raise DatasetUnavailable(f"{title} may not be part of this package and has no source to fetch. {remedy}")
    place = Path(where).expanduser()
    file = next((place / name for name in wanted if (place / name).is_file()), None) if place.is_dir() else place
    if file is None or not file.is_file():
        raise DatasetUnavailable(f"{title} is not in {place}. {remedy}")
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, EOFError) as err:
        raise DatasetUnavailable(f"cannot read {title} from {file}: {type(err).__name__}: {err}. {remedy}") from err
    if len(data) > MAX_BYTES:
        raise DatasetUnavailable(f"{file} is larger than {MAX_BYTES >> 20} MiB: it cannot be {title}. {remedy}")
    return data
