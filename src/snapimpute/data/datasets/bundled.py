"""Data sets that come with the package."""

from __future__ import annotations

from importlib import resources

import numpy as np

from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets.base import Dataset

CONGRESSES = {117: "2021-2023", 109: "2005-2007", 94: "1975-1977"}
VOTEVIEW = (
    "Lewis, Jeffrey B., Keith Poole, Howard Rosenthal, Adam Boche, Aaron Rudkin, and Luke Sonnet. "
    "Voteview: Congressional Roll-Call Votes Database. https://voteview.com/"
)


def senate_votes(congress: int = 117) -> Dataset:
    """Load the roll calls of one Congress of the United States Senate.

    A row is a senator (label: ICPSR id), a column a roll call (label: its number
    in that Congress); 1 is yea, 0 is nay. A vote that was not cast, also of
    a senator who was not in office yet or any more, is missing.

    Parameters
    ----------
    congress : {117, 109, 94}
        117 (2021-2023, 104×949), 109 (2005-2007, 102×645) or 94 (1975-1977, 102×1311).

    Returns
    -------
    Dataset

    Examples
    --------
    >>> senate_votes(109)
    Dataset('senate-109', 102×645, 62857 observed = 95.5 %, Alphabet([0, 1]))
    """
    if congress not in CONGRESSES:
        known = ", ".join(str(number) for number in CONGRESSES)
        raise ValueError(f"no Senate votes of Congress {congress!r} in the package; there are {known}")
    file = resources.files("snapimpute.data.datasets") / "data" / f"senate_{congress:03d}.npz"
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as packed:
        m, n = (int(side) for side in packed["shape"])
        yea = np.unpackbits(packed["yea"], count=m * n)
        cells = np.flatnonzero(np.unpackbits(packed["known"], count=m * n))
        icpsr, rollcall = packed["icpsr"], packed["rollcall"]
    rows, cols = np.divmod(cells, n)
    return Dataset(
        name=f"senate-{congress}",
        rows=rows.astype(np.int32),
        cols=cols.astype(np.int32),
        values=yea[cells].astype(np.float64),
        shape=(m, n),
        alphabet=Alphabet.of("0,1"),
        row_labels=icpsr,
        col_labels=rollcall,
        citation=VOTEVIEW,
        licence="Facts of public record, compiled by Voteview; cite Voteview when you use them.",
        description=f"US Senate roll calls, {congress}th Congress ({CONGRESSES[congress]}): 1 yea, 0 nay",
    )
