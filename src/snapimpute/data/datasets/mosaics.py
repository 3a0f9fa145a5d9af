"""Tables that are mosaics by construction: each row is made of pieces of a few founders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations


@dataclass(frozen=True, eq=False)
class MosaicTable:
    """A table with everything that it was made of.

    Attributes
    ----------
    observations : Observations
    alphabet : Alphabet
    truth : array of shape (m, n)
        All cells.
    strands : array of shape (strands × m, n)
        What each strand shows; strands 2i and 2i + 1 are those of row i where there are two.
    sources : array of shape (strands × m, n)
        Founder of each piece.
    """

    observations: Observations
    alphabet: Alphabet
    truth: NDArray[np.float64]
    strands: NDArray[np.uint8]
    sources: NDArray[np.int64]


def mosaic_genotypes(
    shape: tuple[int, int] = (100, 300),
    founders: int = 8,
    *,
    strands: int = 2,
    symbols: int = 2,
    jump: float = 0.02,
    wrong: float = 0.001,
    observed: float = 0.7,
    random_state: int = 0,
) -> MosaicTable:
    """Make a table whose rows are mosaics of founders along the columns, and observe a part.

    Parameters
    ----------
    shape : (int, int)
    founders : int
        Number of different strands that all others are pieces of.
    strands : {1, 2}
        Strands of a row: with two, each of 0 and 1, the cell is their sum.
    symbols : int
        Symbols of a strand; two where rows have two strands.
    jump : float
        Probability that a strand goes on with another founder in the next column.
    wrong : float
        Probability that a cell of a strand shows another symbol than its founder.
    observed : float
        Share of the cells that are observed.
    random_state : int

    Examples
    --------
    >>> data = mosaic_genotypes((50, 40), founders=4, observed=0.5)
    >>> data.observations.shape, np.unique(data.truth).tolist()
    ((50, 40), [0.0, 1.0, 2.0])
    """
    m, n = shape
    if strands not in (1, 2) or (strands == 2 and symbols != 2):
        raise ArgumentError.must("strands", strands, "be 1, or 2 with symbols=2")
    if not 0 < observed <= 1:
        raise ArgumentError.must("observed", observed, "lie above 0 and be at most 1")
    rng = np.random.default_rng(random_state)
    frequency = rng.dirichlet(np.full(symbols, 2.0), n)
    shown = (rng.random((founders, n, 1)) > frequency.cumsum(axis=1)[:, :-1]).sum(axis=2)
    sources = np.empty((strands * m, n), np.int64)
    for j in range(n):
        fresh = rng.integers(0, founders, strands * m)
        stays = (rng.random(strands * m) >= jump) & (j > 0)
        sources[:, j] = np.where(stays, sources[:, j - 1], fresh)
    alleles = shown[sources, np.arange(n)]
    off = rng.random(alleles.shape) < wrong
    alleles = np.where(off, (alleles + rng.integers(1, max(symbols, 2), alleles.shape)) % symbols, alleles)
    truth = alleles.reshape(m, strands, n).sum(axis=1) if strands == 2 else alleles
    alphabet = Alphabet.of([float(s) for s in range(3 if strands == 2 else symbols)])
    cells = np.sort(rng.permutation(m * n)[: max(round(observed * m * n), 1)])
    seen = Observations.from_coo(cells // n, cells % n, truth.reshape(-1)[cells], shape)
    return MosaicTable(seen, alphabet, truth.astype(float), alleles.astype(np.uint8), sources)
