"""Cells of small matrices, and observations as lists."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st

from snapimpute import Observations

quick = settings(max_examples=50, deadline=None)  # a slow machine is no failure

INDEX_DTYPES = [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64, ">i4"]
VALUE_DTYPES = [np.int8, np.uint64, np.float16, np.float32, np.float64, ">f8"]
SPARSE = [sp.coo_array, sp.csr_array, sp.csc_array, sp.coo_matrix, sp.csr_matrix, sp.csc_matrix]


@st.composite
def cells(draw: st.DrawFn, min_size: int = 1, max_size: int = 25) -> tuple[Any, ...]:
    """Distinct cells of a small matrix in any order, values (often zero) and the shape."""
    m, n = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    flat = st.lists(st.integers(0, m * n - 1), min_size=min(min_size, m * n), max_size=max_size, unique=True)
    at = np.array(draw(flat))
    values = draw(st.lists(st.integers(-3, 3), min_size=at.size, max_size=at.size))
    return at // n, at % n, np.array(values, dtype=float), (m, n)


def dense(obs: Observations) -> np.ndarray:
    """The matrix with NaN where nothing was observed."""
    out = np.full(obs.shape, np.nan)
    out[obs.rows, obs.cols] = obs.values
    return out


def triples(obs: Observations) -> list[tuple[int, int, float]]:
    return list(zip(obs.rows.tolist(), obs.cols.tolist(), obs.values.tolist(), strict=True))


def full(m: int, n: int) -> Observations:
    """Every cell observed; the value of a cell is its position."""
    return Observations.from_dense(np.arange(m * n, dtype=float).reshape(m, n))


def raises(*parts: str, error: type[Exception] = ValueError) -> Any:
    """Expect an error whose message holds the parts, literally and in this order."""
    return pytest.raises(error, match=".*".join(re.escape(part) for part in parts))
