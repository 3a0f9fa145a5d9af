"""Complete matrices whose entries come from a finite alphabet."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from snapimpute import solvers
from snapimpute.alphabet import Alphabet
from snapimpute.observations import Observations
from snapimpute.operators import LowRank
from snapimpute.penalties import (
    L0,
    L1,
    L2,
    MCP,
    SCAD,
    ByColumn,
    CappedL1,
    ComposedL1,
    FractionalL0,
    LogSum,
    Lp,
    Nuclear,
    Rank,
    Ridge,
    TruncatedNuclear,
)
from snapimpute.problem import Problem
from snapimpute.solvers import Result, certify, forecast, solve

if TYPE_CHECKING:
    from snapimpute import baselines, datasets, metrics, rivals, tuning
    from snapimpute.estimator import SnapImputer, complete, load

__version__ = "0.1.0"

_LAZY_MODULES = ("baselines", "datasets", "metrics", "rivals", "tuning")
_LAZY_NAMES = dict.fromkeys(("SnapImputer", "complete", "load"), "estimator")


def __getattr__(name: str) -> Any:
    """Import a heavier part when it is first used."""
    if name in _LAZY_MODULES:
        return import_module(f"snapimpute.{name}")
    if name in _LAZY_NAMES:
        return getattr(import_module(f"snapimpute.{_LAZY_NAMES[name]}"), name)
    raise AttributeError(f"module 'snapimpute' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


__all__ = [
    "L0",
    "L1",
    "L2",
    "MCP",
    "SCAD",
    "Alphabet",
    "ByColumn",
    "CappedL1",
    "ComposedL1",
    "FractionalL0",
    "LogSum",
    "LowRank",
    "Lp",
    "Nuclear",
    "Observations",
    "Problem",
    "Rank",
    "Result",
    "Ridge",
    "SnapImputer",
    "TruncatedNuclear",
    "baselines",
    "certify",
    "complete",
    "datasets",
    "forecast",
    "load",
    "metrics",
    "rivals",
    "solve",
    "solvers",
    "tuning",
]
