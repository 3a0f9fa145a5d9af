"""What several test modules share: data that may or may not be there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from snapimpute.datasets import Dataset, DatasetUnavailable, movielens_100k

# Compilation and busy machines make single examples slow; a time limit for each test is in pyproject.toml.
settings.register_profile("snapimpute", deadline=None)
settings.load_profile("snapimpute")

ROOT = Path(__file__).resolve().parents[1]


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
