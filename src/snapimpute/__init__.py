"""Complete matrices whose entries come from a finite alphabet."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from snapimpute import baselines, datasets, evaluation, metrics, penalties, plots, rivals, solvers, tuning
    from snapimpute.alphabet import Alphabet
    from snapimpute.backends import cluster
    from snapimpute.estimator import SnapImputer, complete, load
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

_HOMES = {
    **dict.fromkeys(("baselines", "datasets", "evaluation", "metrics", "penalties")),
    **dict.fromkeys(("plots", "rivals", "solvers", "tuning")),
    "Alphabet": "alphabet",
    "Observations": "observations",
    "LowRank": "operators",
    "Problem": "problem",
    "cluster": "backends",
    **dict.fromkeys(("Result", "certify", "forecast", "solve"), "solvers"),
    **dict.fromkeys(("SnapImputer", "complete", "load"), "estimator"),
    **dict.fromkeys(("L0", "L1", "L2", "ByColumn", "ComposedL1", "FractionalL0", "Lp", "Ridge"), "penalties"),
    **dict.fromkeys(("MCP", "SCAD", "CappedL1", "LogSum", "Nuclear", "Rank", "TruncatedNuclear"), "penalties"),
}
"""Every public name and the module it comes from; None says that it is a module itself."""


if not TYPE_CHECKING:  # type checkers know the names from above, and so can tell a name that is not there

    def __getattr__(name: str) -> Any:
        """Import what is asked for when it is first used: numba, scipy and scikit-learn take a second or two."""
        if name not in _HOMES:
            raise AttributeError(f"module 'snapimpute' has no attribute {name!r}")
        home = _HOMES[name]
        found = import_module(f"snapimpute.{home or name}")
        globals()[name] = found if home is None else getattr(found, name)
        return globals()[name]


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
    "cluster",
    "complete",
    "datasets",
    "evaluation",
    "forecast",
    "load",
    "metrics",
    "penalties",
    "plots",
    "rivals",
    "solve",
    "solvers",
    "tuning",
]
