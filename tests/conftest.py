"""What several test modules share: one list of penalties, one of toy problems, data that may or may not be there.

A test with an argument ``spectral``, ``discrete``, ``nonconvex`` or ``toy`` runs for each member of that list; with
several of them, for the cross product.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings

from snapimpute import (
    L0,
    L1,
    MCP,
    SCAD,
    Alphabet,
    CappedL1,
    ComposedL1,
    FractionalL0,
    LogSum,
    LowRank,
    Lp,
    Nuclear,
    Observations,
    Rank,
    Ridge,
    TruncatedNuclear,
)
from snapimpute.datasets import Dataset, DatasetUnavailable, low_rank_alphabet, movielens_100k, senate_votes
from snapimpute.experiments import paper
from snapimpute.penalties import CellPenalty, DiscretePenalty, SpectralPenalty

# Triton reads this as it is imported: without a GPU its kernels are run by its interpreter.
os.environ.setdefault("TRITON_INTERPRET", "0" if Path("/dev/nvidia0").exists() else "1")

# Compilation and busy machines make single examples slow; a time limit for each test is in pyproject.toml.
settings.register_profile("snapimpute", deadline=None)
settings.load_profile("snapimpute")

ROOT = Path(__file__).resolve().parents[1]

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


@pytest.fixture(scope="session", params=SPECTRAL, ids=repr)
def spectral(request: pytest.FixtureRequest) -> SpectralPenalty:
    """Each spectral penalty of the list."""
    return request.param


@pytest.fixture(scope="session")
def spectral_list() -> list[SpectralPenalty]:
    """All of them, for a test that none is missing."""
    return SPECTRAL


@pytest.fixture(scope="session", params=DISCRETE, ids=repr)
def discrete(request: pytest.FixtureRequest) -> DiscretePenalty:
    """Each discrete penalty of the list, the ridge control included."""
    return request.param


@pytest.fixture(scope="session", params=NONCONVEX, ids=repr)
def nonconvex(request: pytest.FixtureRequest) -> CellPenalty:
    """Each penalty of single entries that is not convex."""
    return request.param


@pytest.fixture(scope="session", params=TOYS, ids=lambda toy: toy.name)
def toy(request: pytest.FixtureRequest) -> Toy:
    """Each toy problem of the list."""
    return request.param


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Give the path of a file of test data by its name, or skip the test where there is no such file."""
    folder = Path(os.environ.get("SNAPIMPUTE_TEST_DATA") or ROOT.parent / "shared" / "data")

    def find(name: str) -> Path:
        path = folder / name
        if not path.is_file():
            pytest.skip(f"no test data {name}: set SNAPIMPUTE_TEST_DATA to a folder that holds it")
        return path

    return find


@pytest.fixture(scope="session")
def movielens() -> Dataset:
    """MovieLens-100k from the cache or wherever it can be had, or skip the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a cache that cannot be written is no reason to fail
            return movielens_100k()
    except DatasetUnavailable as err:
        pytest.skip(f"MovieLens-100k cannot be had here: {err}")


@pytest.fixture
def small_ratings(monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """Ratings of low rank in the place of MovieLens."""
    votes = senate_votes(117)
    made = low_rank_alphabet((40, 30), 2, "1:5", observed=0.8, random_state=0).observations
    data = replace(
        votes,
        name="small",
        rows=made.rows,
        cols=made.cols,
        values=made.values,
        shape=made.shape,
        alphabet=Alphabet.of("1:5"),
        row_labels=None,
        col_labels=None,
        splits={},
    )
    monkeypatch.setattr(paper, "movielens_100k", lambda: data)
    monkeypatch.setattr(paper, "THETAS", (5.0, 20.0))
    monkeypatch.setattr(paper, "ITERATIONS", 12)
    return data


@pytest.fixture
def arithmetic() -> Any:
    """What an array of any place must be able to do, beside what numpy makes of it: a of three columns, b a row."""

    def each(A: Any, a: np.ndarray, b: np.ndarray) -> list[tuple[Any, np.ndarray]]:
        single, theirs = A.astype(np.float32), a.astype(np.float32)
        return [
            (A + b, a + b),
            (b * A, b * a),
            (A / b, a / b),
            (2 - A, 2 - a),
            (-A, -a),
            (A**2, a**2),
            (A @ np.eye(3)[:, :2], a[:, :2]),
            (np.hstack([A, A]), np.hstack([a, a])),
            (A[:, 1:], a[:, 1:]),
            (A[:, np.array([True, False, True])], a[:, [0, 2]]),
            (np.zeros_like(A), np.zeros_like(a)),
            (single, theirs),
            (np.float32(2) * single, np.float32(2) * theirs),
        ]

    return each
