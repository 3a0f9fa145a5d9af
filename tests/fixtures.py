"""Fixtures of several test modules: the lists of `tests.helpers` one by one, and data that may or may not be there.

A test with an argument ``spectral``, ``discrete``, ``nonconvex`` or ``toy`` runs for each member of that list; with
several of them, for the cross product.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from snapimpute.base.threads import single_threaded_blas
from snapimpute.data.datasets import Dataset, DatasetUnavailable, movielens_100k
from snapimpute.penalties import CellPenalty, DiscretePenalty, SpectralPenalty
from tests.helpers import DISCRETE, NONCONVEX, ROOT, SPECTRAL, TOYS, Toy

# Triton reads this as it is imported: without a GPU its kernels are run by its interpreter.
os.environ.setdefault("TRITON_INTERPRET", "0" if Path("/dev/nvidia0").exists() else "1")

# Compilation and busy machines make single examples slow; a time limit for each test is in pyproject.toml.
settings.register_profile("snapimpute", deadline=None)
settings.load_profile("snapimpute")


@pytest.fixture(scope="session", params=SPECTRAL, ids=repr)
def spectral(request: pytest.FixtureRequest) -> SpectralPenalty:
    """Each spectral penalty of the list."""
    return request.param


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


@pytest.fixture
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread: on small arrays more only wait for each other."""
    with single_threaded_blas():
        yield


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
