"""Matrices on an alphabet with a known truth: seeded, of any size, never stored whole."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Index
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.checks import MAX_SIDE, check_cells
from snapimpute.data.datasets._missingness import Missing, draw_distinct, observed_cells, unlisted
from snapimpute.data.observations import Observations

Kind = Literal["quantised", "blocks"]

MAX_DENSE = 10_000_000  # cells that to_dense writes out, at most
_QUANTILE_CELLS = 200_000
_CHUNK = 2**18


@dataclass(frozen=True, eq=False)
class QuantisedTruth:
    """Symbol k where ``U Vᵀ`` lies between the thresholds k-1 and k."""

    U: NDArray[np.float64]
    V: NDArray[np.float64]
    thresholds: NDArray[np.float64]

    def codes(self, rows: Index, cols: Index) -> Index:
        """Return the position in the alphabet of the given entries."""
        return np.searchsorted(self.thresholds, _products(self.U, self.V, rows, cols), side="right")


@dataclass(frozen=True, eq=False)
class BlockTruth:
    """Symbol ``table[g, h]`` where row group g meets column group h; its rank is at most the number of groups."""

    row_groups: Index
    col_groups: Index
    table: Index

    def codes(self, rows: Index, cols: Index) -> Index:
        """Return the position in the alphabet of the given entries."""
        return self.table[self.row_groups[rows], self.col_groups[cols]]


@dataclass(frozen=True, eq=False)
class Synthetic:
    """A matrix on an alphabet with known truth, some of it observed; made by `low_rank_alphabet`.

    Parameters
    ----------
    observations : Observations
        The observed cells, with noise if there is any.
    alphabet : Alphabet
    truth : QuantisedTruth or BlockTruth
        Factors or groups from which any entry is computed; the matrix itself is not stored.

    Examples
    --------
    >>> data = low_rank_alphabet((40, 30), rank=2, alphabet="0,1")
    >>> data
    Synthetic(40×30, 360 observed = 30 %, Alphabet([0, 1]), QuantisedTruth)
    >>> test = data.hidden(100, random_state=1)
    >>> bool((test.values == data.truth_entries(test.rows, test.cols)).all())
    True
    """

    observations: Observations
    alphabet: Alphabet
    truth: QuantisedTruth | BlockTruth

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.observations.shape

    def __repr__(self) -> str:
        (m, n), obs = self.shape, self.observations
        return (
            f"Synthetic({m}×{n}, {len(obs)} observed = {100 * obs.density:.3g} %, "
            f"{self.alphabet!r}, {type(self.truth).__name__})"
        )

    def truth_entries(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.float64]:
        """Return the true symbols, without noise, at the given cells."""
        return self.alphabet.symbols[self.truth.codes(*check_cells(rows, cols, self.shape))]

    def hidden(self, count: int, random_state: int = 0) -> Observations:
        """Draw unobserved cells, all equally likely and none twice, with their true symbols."""
        m, n = self.shape
        known = self.observations.rows.astype(np.int64) * n + self.observations.cols
        left = m * n - known.size
        if not (_is_whole(count) and 1 <= count <= left):
            raise ArgumentError.must("count", count, f"be an integer between 1 and {left}, the unobserved cells")
        rng = np.random.default_rng(_check_seed(random_state))
        rows, cols = np.divmod(unlisted(known, draw_distinct(rng, left, count)), n)
        return Observations.from_coo(rows, cols, self.truth_entries(rows, cols), self.shape)

    def to_dense(self) -> NDArray[np.float64]:
        """Return the whole true matrix; refused above `MAX_DENSE` (10 million) cells."""
        m, n = self.shape
        if m * n > MAX_DENSE:
            raise ValueError(
                f"a {m}×{n} matrix has more cells than the {MAX_DENSE} that are written out: use truth_entries"
            )
        rows, cols = np.divmod(np.arange(m * n), n)
        return self.truth_entries(rows, cols).reshape(m, n)


def low_rank_alphabet(
    shape: tuple[int, int] = (200, 150),
    rank: int = 5,
    alphabet: AlphabetLike = "1:5",
    *,
    kind: Kind = "quantised",
    shares: ArrayLike | None = None,
    noise: float = 0.0,
    observed: float = 0.3,
    missing: Missing = "uniform",
    random_state: int = 0,
) -> Synthetic:
    """Make a matrix on an alphabet that is of low rank, or a quantised matrix of low rank, and observe a part.

    Parameters
    ----------
    shape : (int, int)
    rank : int
        Rank of the hidden factor model, or the number of row groups and of column groups.
    alphabet : alphabet
    kind : {"quantised", "blocks"}
        "quantised": ``U Vᵀ`` with standard normal factors, cut at quantiles into
        symbols; the symbols themselves are then only approximately of low rank.
        "blocks": rows and columns fall at random into `rank` groups and each pair
        of groups has one symbol, so that the rank is at most `rank`.
    shares : array_like, optional
        Share of each symbol, in alphabet order; equal if not given. Met
        approximately; for "blocks" by the pairs of groups.
    noise : float
        Probability with which an observed symbol is replaced by another one, all
        others equally likely. The truth stays as it is.
    observed : float
        Share of the cells to observe: exactly ``round(observed * m * n)`` cells,
        for every `missing`. A row or column may get no observation.
    missing : {"uniform", "power", "by-value", "blocks"}
        "uniform": every cell is equally likely.
        "power": rows and columns have popularities that follow a power law (the
        i-th has weight i^-0.6), as with ratings; cells are drawn one after the
        other in proportion to the product.
        "by-value": missing not at random; cells are drawn in proportion to a weight
        that grows from 0.2 at the smallest symbol to 1 at the largest.
        "blocks": of a grid of at most 8×8 patches of neighbouring rows and columns,
        half are wholly unobserved, or as many as `observed` leaves room for; in the
        rest every cell is equally likely.
        For "power" and "by-value" the likely cells run out when most cells are
        to be observed; then the last ones are drawn uniformly.
    random_state : int
        Same seed, same result. The truth does not depend on `missing`, `observed` or `noise`.

    Returns
    -------
    Synthetic

    Examples
    --------
    >>> data = low_rank_alphabet((60, 50), rank=3, kind="blocks", missing="power", observed=0.2)
    >>> len(data.observations), int(np.linalg.matrix_rank(data.to_dense())) <= 3
    (600, True)
    """
    symbols = Alphabet.of(alphabet)
    m, n = _check_shape(shape)
    portions = _check_shares(shares, len(symbols))
    if not (_is_whole(rank) and 1 <= rank <= min(m, n)):
        raise ArgumentError.must("rank", rank, f"be an integer between 1 and {min(m, n)}, the smaller side")
    _check_share("noise", noise, zero=True)
    _check_share("observed", observed, zero=False)
    if noise > 0 and len(symbols) < 2:
        raise ValueError(f"noise needs another symbol to change to, and {symbols!r} has none: use noise=0")
    _check_choice("kind", kind, get_args(Kind))
    _check_choice("missing", missing, get_args(Missing))
    count = round(observed * m * n)
    if count == 0:
        raise ValueError(f"observed={observed} of a {m}×{n} matrix leaves no cell observed: give a larger share")

    for_truth, for_cells, for_noise = np.random.default_rng(_check_seed(random_state)).spawn(3)
    make = _quantised if kind == "quantised" else _blocks
    truth = make(for_truth, (m, n), int(rank), portions)
    cells = observed_cells(for_cells, (m, n), count, missing, truth.codes, len(symbols))
    rows, cols = np.divmod(cells, n)
    codes = _with_noise(for_noise, truth.codes(rows, cols), noise, len(symbols))
    return Synthetic(Observations.from_coo(rows, cols, symbols.symbols[codes], (m, n)), symbols, truth)


# -------------------------------------------------------------------- the truth
def _quantised(
    rng: np.random.Generator, shape: tuple[int, int], rank: int, portions: NDArray[np.float64]
) -> QuantisedTruth:
    (m, n), cut = shape, np.cumsum(portions)[:-1]
    U, V = rng.standard_normal((m, rank)), rng.standard_normal((n, rank))
    size = min(m * n, _QUANTILE_CELLS)
    rows, cols = np.divmod(draw_distinct(rng, m * n, size), n)
    return QuantisedTruth(U, V, np.quantile(_products(U, V, rows, cols), np.minimum(cut, 1.0)))


def _blocks(rng: np.random.Generator, shape: tuple[int, int], rank: int, portions: NDArray[np.float64]) -> BlockTruth:
    position = (np.arange(rank * rank) + 0.5) / (rank * rank)
    codes = np.minimum(np.searchsorted(np.cumsum(portions), position, side="right"), portions.size - 1)
    table = rng.permutation(codes).reshape(rank, rank)
    return BlockTruth(rng.integers(rank, size=shape[0]), rng.integers(rank, size=shape[1]), table)


def _products(U: NDArray[np.float64], V: NDArray[np.float64], rows: Index, cols: Index) -> NDArray[np.float64]:
    """Compute entries of ``U Vᵀ``, in chunks so that the gathered factors stay small."""
    out = np.empty(rows.size)
    for start in range(0, rows.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        out[part] = np.einsum("ij,ij->i", U[rows[part]], V[cols[part]])
    return out


def _with_noise(rng: np.random.Generator, codes: Index, noise: float, size: int) -> Index:
    """Move each code, with probability `noise`, to one of the other codes."""
    if noise == 0:
        return codes
    moved = rng.random(codes.size) < noise
    step = rng.integers(1, size, size=codes.size)
    return np.where(moved, (codes + step) % size, codes)


# -------------------------------------------------------------------- checks
def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _check_seed(seed: int) -> int:
    if not (_is_whole(seed) and seed >= 0):
        raise ArgumentError.must("random_state", seed, "be an integer, 0 or larger")
    return int(seed)


def _check_shape(shape: tuple[int, int]) -> tuple[int, int]:
    try:
        m, n = shape
    except (TypeError, ValueError):
        raise ArgumentError.must("shape", shape, "be (rows, columns)") from None
    if not (_is_whole(m) and _is_whole(n) and 1 <= m <= MAX_SIDE and 1 <= n <= MAX_SIDE):
        raise ArgumentError.must("shape", shape, f"hold two integers between 1 and {MAX_SIDE}")
    return int(m), int(n)


def _check_share(name: str, value: float, *, zero: bool) -> None:
    number = float(value) if isinstance(value, (int, float, np.number)) and not isinstance(value, bool) else math.nan
    if not (0 <= number <= 1) or (number == 0 and not zero):
        raise ArgumentError.must(name, value, f"be a number {'from' if zero else 'above'} 0 up to 1")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ArgumentError.must(name, value, f"be one of {', '.join(map(repr, choices))}")


def _check_shares(shares: ArrayLike | None, size: int) -> NDArray[np.float64]:
    if shares is None:
        return np.full(size, 1.0 / size)
    given = np.asarray(shares, dtype=np.float64)
    if given.shape != (size,) or not np.isfinite(given).all() or (given < 0).any() or given.sum() <= 0:
        raise ArgumentError.must("shares", shares, f"hold {size} numbers, one a symbol, 0 or larger and not all 0")
    return np.asarray(given / given.sum())
