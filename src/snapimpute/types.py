"""Names for the two types that appear everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
"""Of float64, or of float32 where that was asked for."""

CellMap = Callable[[Array], None]
"""A map of one real variable, applied in place to a flat array; called from several threads."""
