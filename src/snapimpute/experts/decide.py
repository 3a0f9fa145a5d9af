"""Decision for a symbol by its probabilities, as a loss asks."""

from __future__ import annotations

from numbers import Real
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError, ArgumentName, Setting
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet

Decide = Literal["accuracy", "mae", "rmse", "nearest"]
"""Loss that the decided symbol minimises: the chance of being wrong, the expected absolute or squared error; or the
distance to the estimate, without probabilities."""


def check_decide(decide: object) -> Decide:
    """Refuse what is no rule."""
    if decide not in get_args(Decide):
        raise ArgumentError.must("decide", decide, f"be one of {', '.join(map(repr, get_args(Decide)))}")
    return decide  # type: ignore[return-value]


def check_confidence(value: object, decide: object) -> float:
    """Refuse a least confidence that is no probability, or that a rule without probabilities cannot use."""
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ArgumentError.must("min_confidence", value, "be a number from 0 to 1")
    if float(value) > 0 and decide == "nearest":
        raise ArgumentError(
            "min_confidence",
            value,
            ArgumentName("min_confidence"),
            " needs probabilities, which there are none of with ",
            Setting("decide", "nearest"),
        )
    return float(value)


def decided(probabilities: Array, symbols: Array, decide: Decide) -> NDArray[np.intp]:
    """Positions of the symbols that minimise the expected loss.

    Examples
    --------
    >>> p, symbols = np.array([[0.4, 0.25, 0.35]]), np.array([1.0, 2.0, 3.0])
    >>> [int(decided(p, symbols, rule)[0]) for rule in ("accuracy", "mae", "rmse")]
    [0, 1, 1]
    """
    if decide == "rmse":
        return Alphabet.of(symbols.astype(np.float64)).indices(probabilities @ symbols)
    reached = np.cumsum(probabilities, axis=1) >= 0.5 - 1e-12 if decide == "mae" else probabilities
    which: NDArray[np.intp] = np.argmax(reached, axis=1)
    return which
