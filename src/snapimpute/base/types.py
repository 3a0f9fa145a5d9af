"""Types that appear everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
"""An array of float64, or of float32 on request."""

Index = NDArray[np.integer[Any]]
"""Positions of rows, columns or cells: integers of any size."""

CellFunction = Callable[[Array], Any]
"""A function that changes a flat array in place, cell by cell; called from several threads."""
