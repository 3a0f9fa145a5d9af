"""Names for the two types that appear everywhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CellMap = Callable[[Array], None]
"""A map of one real variable, applied in place to a flat array; called from several threads."""
