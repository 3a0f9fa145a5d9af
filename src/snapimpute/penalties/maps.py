"""Maps of one real variable as data: a kind from one list, and its parameters.

A penalty says by such a map what becomes of a cell. Each place has its own
interpreter, a dictionary by kind: compiled code for arrays of numpy is below,
`backends.torch` has the others. Maps are values, so that they travel to workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from snapimpute.base.types import Array, CellFunction
from snapimpute.penalties import _kernels as kernels
from snapimpute.penalties._table import Table, look_up

KINDS: dict[str, tuple[str, ...]] = {
    "identity": (),  # x
    "line": ("slope", "shift"),  # slope·x + shift
    "square": ("pull", "centre"),  # pull·(x − centre)²
    "l1-value": ("symbols", "pulls"),
    "l1-prox": ("symbols", "pulls", "slope", "shift"),
    "l1-stairs": ("low", "rate", "period", "top", "wide", "slope", "base"),
    "composed-l1-prox": ("symbols", "pull", "slope", "shift"),
    "l0-value": ("symbols", "pulls"),
    "l0-prox": ("symbols", "pulls", "slope", "shift"),
    "fractional-value": ("symbols", "pulls", "alpha"),
    "power-value": ("symbols", "pulls", "p"),
    "tabulated": ("symbols", "table"),  # a prox without a formula; symbols without a pull included
    "envelope": ("prox", "value"),  # value(u) + ½ (u − x)² at u = prox(x)
    "landing": ("prox", "value"),  # value(prox(x))
    "remainder": ("prox", "slope", "shift"),  # prox(x) − slope·x − shift
    "less-parabola": ("cost", "bend", "shift", "least"),  # cost(x) − bend·x² + shift·x − least
    "own": ("function",),  # a user's
}
"""Every kind of map, and the names of its parameters; the functions of `_kernels` have the other formulas."""

PRECISIONS = tuple(np.dtype(t) for t in (np.float64, np.float32))


@dataclass(frozen=True, eq=False)
class CellMap:
    """A map of one real variable: calling it changes a flat array in place, in the precision of the array.

    Parameters
    ----------
    kind : str
        A name from `KINDS`.
    parameters : tuple
        Numbers, arrays and maps, as many as `KINDS` names.

    Examples
    --------
    >>> x = np.array([1.0, 2.0])
    >>> CellMap("line", (2.0, 0.5))(x)
    >>> x
    array([2.5, 4.5])
    """

    kind: str
    parameters: tuple[Any, ...]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        names = KINDS[self.kind]
        if len(self.parameters) != len(names):
            wanted = f"{len(names)} parameters ({', '.join(names)})" if names else "no parameters"
            raise ValueError(f"a map of the kind {self.kind!r} takes {wanted}, got {len(self.parameters)}")

    @classmethod
    def of(cls, function: CellFunction) -> CellMap:
        """Make a map of a function of one's own, which changes a flat array in place or returns a new one.

        Examples
        --------
        >>> x = np.array([1.0, 4.0])
        >>> CellMap.of(np.sqrt)(x)
        >>> x
        array([1., 2.])
        """
        return function if isinstance(function, cls) else cls("own", (function,))

    def __call__(self, x: Array) -> None:
        """Change x in place; a backend changes its own arrays."""
        backend = getattr(x, "backend", None)
        if backend is None:
            COMPILED[self.kind](x, *self.parameters_in(x.dtype))
        else:
            backend.apply(self, x)

    def parameters_in(self, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """Return the parameters with all numbers in one precision: a mixture would be slow."""
        if dtype not in self._by_precision:
            raise TypeError(f"a map changes arrays of float64 or float32, got {dtype}: convert the array first")
        return self._by_precision[dtype]

    @cached_property
    def _by_precision(self) -> dict[np.dtype[Any], tuple[Any, ...]]:
        return {dtype: tuple(_in_precision(one, dtype) for one in self.parameters) for dtype in PRECISIONS}

    def __reduce__(self) -> Any:
        return type(self), (self.kind, self.parameters)  # without what is cached


def _in_precision(parameter: Any, dtype: np.dtype[Any]) -> Any:
    numeric = isinstance(parameter, float | int | np.ndarray | np.generic)
    return np.asarray(parameter, dtype)[()] if numeric else parameter


# ---------------------------------------------------------------- the interpreter for arrays of numpy
def _identity(x: Array) -> None:
    pass


def _line(x: Array, slope: float, shift: float) -> None:
    x *= slope
    x += shift


def _square(x: Array, pull: float, centre: float) -> None:
    x -= centre
    x *= x
    x *= pull


def _tabulated(x: Array, symbols: Array, table: Table) -> None:
    look_up(x, *table)


def _envelope(x: Array, prox: CellMap, value: CellMap) -> None:
    u = x.copy()
    prox(u)
    kernels.half_squares(x, u)
    value(u)
    x += u


def _landing(x: Array, prox: CellMap, value: CellMap) -> None:
    prox(x)
    value(x)


def _remainder(x: Array, prox: CellMap, slope: float, shift: float) -> None:
    straight = slope * x
    straight += shift
    prox(x)
    x -= straight


def _less_parabola(x: Array, cost: CellMap, bend: float, shift: float, least: float) -> None:
    curve = (bend * x - shift) * x + least
    cost(x)
    x -= curve


def _own(x: Array, function: Callable[[Array], Array | None]) -> None:
    found = function(x)
    if found is not None:
        x[...] = found


COMPILED: dict[str, Callable[..., None]] = {
    "identity": _identity,
    "line": _line,
    "square": _square,
    "l1-value": kernels.l1_value,
    "l1-prox": kernels.l1_prox,
    "l1-stairs": kernels.l1_stairs,
    "composed-l1-prox": kernels.composed_l1_prox,
    "l0-value": kernels.l0_value,
    "l0-prox": kernels.l0_prox,
    "fractional-value": kernels.fractional_value,
    "power-value": kernels.power_value,
    "tabulated": _tabulated,
    "envelope": _envelope,
    "landing": _landing,
    "remainder": _remainder,
    "less-parabola": _less_parabola,
    "own": _own,
}
"""By kind: called with an array and the parameters in its precision, each changes the array in place."""
