"""What several test modules share: one list of penalties, one of toy problems, and what compares results.

Every module takes them by ``from tests.helpers import …``, wherever it lies.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from snapimpute import (
    L0,
    L1,
    MCP,
    SCAD,
    CappedL1,
    ComposedL1,
    FractionalL0,
    LogSum,
    LowRank,
    Lp,
    Nuclear,
    Observations,
    Problem,
    Proximal,
    Rank,
    Ridge,
    SnapImputer,
    TruncatedNuclear,
)
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.penalties import DiscretePenalty

ROOT = Path(__file__).resolve().parents[1]

# ---------------------------------------------------------------- penalties
SPECTRAL = [
    Nuclear(1.5),
    LogSum(lam=2.0, theta=2.0),  # λ < θ²: the prox is continuous
    LogSum(lam=2.25, theta=1.5),  # λ = θ²
    LogSum(lam=6.0, theta=0.5),  # λ > θ²: the prox jumps
    CappedL1(lam=1.5, theta=2.0),
    TruncatedNuclear(lam=1.5, r=2),
    MCP(lam=1.2, gamma=2.5),
    SCAD(lam=0.8, a=3.7),
    Rank(lam=1.3),
]

DISCRETE = [
    L1("1:5", xi=0.05),
    L1("1:5", xi=0.8, weights=[0.3, 0.0, 2.5, 1.0, 1.2]),
    L1([-3.0, 0.25, 0.5, 7.0], xi=0.3),
    L1("-1,1", xi=0.2),
    L1([2.5], xi=0.4),
    L1([0.1 * k * k - 5 for k in range(20)], xi=0.07),
    ComposedL1("1:5", xi=0.05),
    Ridge(center=2.0, xi=0.3),
]

NONCONVEX = [
    L0("1:5", xi=0.05),
    L0("1:5", xi=0.8, weights=[0.3, 0.0, 2.5, 1.0, 1.2]),
    L0([2.5], xi=0.4),
    L0([0.1 * k * k - 5 for k in range(20)], xi=0.07),
    FractionalL0("1:5", xi=0.05, alpha=0.5),  # ξ < 2α: the prox is continuous while the step is small
    FractionalL0("1:5", xi=0.3, alpha=0.01),  # the prox jumps
    FractionalL0([-3.0, 0.25, 0.5, 7.0], xi=0.8, alpha=0.1, weights=[1.5, 0.0, 0.7, 2.0]),
    FractionalL0("-1,1", xi=2.0, alpha=30.0),  # one wide well
    FractionalL0([-40.0, 2.5, 40.0], xi=0.001, alpha=0.002),  # wells much narrower than the gaps
    Lp("1:5", xi=0.05, p=0.5),
    Lp("1:5", xi=0.4, p=0.5, weights=[0.3, 0.0, 2.5, 1.0, 1.2]),
    Lp([-3.0, 0.25, 0.5, 7.0], xi=0.3, p=0.1),
    Lp("-1,1", xi=0.2, p=0.9, weights=[0.5, 2.0]),
    Lp([2.5], xi=0.4, p=0.5),
]

WEIGHTS = [0.2, 0.5, 1.3, 2.0, 1.0]

STRONG_SPECTRAL = [
    Nuclear(4.0),
    LogSum(lam=30.0, theta=10.0),
    LogSum(lam=30.0, theta=2.0),
    CappedL1(lam=4.0, theta=8.0),
    TruncatedNuclear(lam=4.0, r=2),
    MCP(lam=4.0),
    SCAD(lam=4.0),
    Rank(lam=20.0),
]
"""Strong enough for ratings of some 30 rows and columns, whose largest singular values are about 40."""

RATING_PENALTIES: list[DiscretePenalty | None] = [
    None,
    L1("1:5", xi=0.05),
    L1("1:5", xi=0.05, weights=WEIGHTS),
    Ridge(center=3.0, xi=0.1),
]
"""Of each convex kind one, for solvers on ratings."""

JUMPING_PENALTIES = [L0("1:5", xi=0.1), FractionalL0("1:5", xi=0.1, alpha=0.1), Lp("1:5", xi=0.1, p=0.5)]
"""Of each kind that is not convex one."""


class OwnL1(DiscretePenalty):
    """`L1` on 1..5 as a user writes it: two functions of numpy arrays, the prox by comparing all pieces."""

    convex = True
    symbols, weights = np.arange(1.0, 6.0), np.array([0.5, 1.0, 2.0, 1.0, 0.5])

    def __init__(self, xi: float = 0.2) -> None:
        self.xi = xi

    def value(self, x: ArrayLike) -> np.ndarray:
        return self.xi * (np.abs(np.asarray(x)[..., None] - self.symbols) @ self.weights)

    def prox(self, x: ArrayLike, step: float = 1.0) -> np.ndarray:
        y = np.asarray(x, dtype=np.float64)[..., None]
        borders = np.concatenate([[-np.inf], self.symbols, [np.inf]])
        pulls = step * self.xi * np.array([self.weights[:k].sum() - self.weights[k:].sum() for k in range(6)])
        points = np.clip(y - pulls, borders[:-1], borders[1:])
        costs = step * self.value(points) + 0.5 * (points - y) ** 2
        best: np.ndarray = np.take_along_axis(points, costs.argmin(axis=-1)[..., None], axis=-1)[..., 0]
        return best


# ---------------------------------------------------------------- toy problems
class Toy(NamedTuple):
    """Observations small enough for dense formulas, with or without offsets."""

    name: str
    observations: Observations
    offsets: LowRank | None = None


def _toy(name: str, shape: tuple[int, int], share: float, symbols: list[float], **options: Any) -> Toy:
    rng = np.random.default_rng(len(name))
    dense = np.where(rng.random(shape) < share, rng.choice(symbols, shape), np.nan)
    dense[options.get("empty_rows", []), :] = np.nan
    dense[:, options.get("empty_cols", [])] = np.nan
    dense[-1, -1] = symbols[0]  # at least one entry
    dense += options.get("noise", 0.0) * rng.standard_normal(shape)
    biases = None
    if options.get("biased"):
        left, right = np.ones((shape[0], 2)), np.ones((shape[1], 2))
        left[:, 0], right[:, 1] = rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
        biases = LowRank(left, np.array([1.0, 0.7]), right)
    return Toy(name, Observations.from_dense(dense), biases)


TOYS = [
    _toy("tall ratings", (9, 6), 0.5, [1, 2, 3, 4, 5]),
    _toy("wide ratings with biases", (7, 12), 0.4, [1, 2, 3, 4, 5], biased=True),
    _toy("votes, noisy", (8, 8), 0.6, [-1, 1], noise=0.1),
    _toy("genotypes, stored zeros, empty lanes", (6, 5), 0.7, [0, 1, 2], empty_rows=[0, 3], empty_cols=[2]),
    _toy("one row", (1, 7), 0.5, [0, 1]),
    _toy("one column with biases", (5, 1), 0.5, [1, 2, 3], biased=True),
    _toy("one cell", (1, 1), 1.0, [3]),
]


def ratings(
    shape: tuple[int, int], rank: int = 3, alphabet: Any = "1:5", *, observed: float = 0.5, seed: int = 0
) -> Observations:
    """Some cells of a table of low rank whose symbols are those of an alphabet."""
    return low_rank_alphabet(shape, rank, alphabet, observed=observed, random_state=seed).observations


def biases(shape: tuple[int, int]) -> LowRank:
    """Offsets of rank 2."""
    rng = np.random.default_rng(7)
    return LowRank(rng.normal(size=(shape[0], 2)), np.array([1.0, 0.5]), rng.normal(size=(shape[1], 2)))


# ---------------------------------------------------------------- estimators
def proximal(alphabet: Any = None, **params: Any) -> SnapImputer:
    """The estimator with the proximal expert alone, where each parameter goes to the one of the two that has it."""
    mine = set(SnapImputer().get_params())
    own = {name: value for name, value in params.items() if name in mine}
    inner = {name: value for name, value in params.items() if name not in mine}
    return SnapImputer(alphabet, method=Proximal(**inner), **own)


def complete(table: Any, alphabet: Any, **params: Any) -> Any:
    """The table, filled by `proximal`."""
    return proximal(alphabet, **params).fit_transform(table)


# ---------------------------------------------------------------- dense forms
def dense(observations: Observations, hidden: float = np.nan) -> np.ndarray:
    """The table with its observed values, and another number in the cells that are hidden."""
    out = np.full(observations.shape, hidden)
    out[observations.rows, observations.cols] = observations.values
    return out


def seen(observations: Observations) -> np.ndarray:
    """True in the cells that were observed."""
    return ~np.isnan(dense(observations))


def dense_offsets(problem: Problem) -> np.ndarray:
    """B as an array, of zeros if there is none."""
    return np.zeros(problem.shape) if problem.offsets is None else problem.offsets.to_dense()


# ---------------------------------------------------------------- equal bits
def same_bits(one: Any, other: Any, *, but: tuple[str, ...] = ("seconds",)) -> bool:
    """Equal to the last bit and of the same types, whatever it is made of: results, low rank, arrays, containers.

    ``but`` names keys and fields that may differ, such as the time.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        alike = (one.dtype, one.shape) == (other.dtype, other.shape)
        return alike and (one.tolist() == other.tolist() if one.dtype.hasobject else one.tobytes() == other.tobytes())
    if isinstance(one, dict):
        return list(one) == list(other) and all(same_bits(one[k], other[k], but=but) for k in one if k not in but)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same_bits(a, b, but=but) for a, b in zip(one, other, strict=True))
    if is_dataclass(one) and not isinstance(one, type):
        names = [field.name for field in fields(one) if field.name not in but]
        return all(same_bits(getattr(one, name), getattr(other, name), but=but) for name in names)
    return repr(one) == repr(other) if isinstance(one, float) else bool(one == other) or repr(one) == repr(other)
