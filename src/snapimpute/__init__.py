"""Complete matrices whose entries come from a finite alphabet."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from snapimpute import penalties, solvers
    from snapimpute.backends import cluster
    from snapimpute.data import datasets
    from snapimpute.data.alphabet import Alphabet, Nominal
    from snapimpute.data.expert import Expert, ExpertFit
    from snapimpute.data.observations import Observations
    from snapimpute.estimator.evaluation import evaluate
    from snapimpute.estimator.imputer import SnapImputer
    from snapimpute.estimator.shortcuts import complete, load
    from snapimpute.evaluation import baselines, metrics
    from snapimpute.experts.blend import Blend, BlendFit
    from snapimpute.experts.habits import Habits
    from snapimpute.experts.links import Links, LinksFit
    from snapimpute.experts.proximal import tuning
    from snapimpute.experts.proximal.expert import Proximal, ProximalFit
    from snapimpute.linalg import LowRank
    from snapimpute.mosaic import Mosaic, MosaicFit
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
    from snapimpute.posterior import Posterior, PosteriorFit
    from snapimpute.problem import Problem
    from snapimpute.solvers import Result, certify, forecast, solve
    from snapimpute.views import plots

_MODULES = {
    "baselines": "evaluation",
    "datasets": "data",
    "metrics": "evaluation",
    "penalties": "",
    "plots": "views",
    "solvers": "",
    "tuning": "experts.proximal",
}
"""Every public module, and the package below this one that holds it."""

_NAMES = {
    "Alphabet": "data.alphabet",
    "Nominal": "data.alphabet",
    "Expert": "data.expert",
    "ExpertFit": "data.expert",
    "Observations": "data.observations",
    "LowRank": "linalg",
    "Mosaic": "mosaic",
    "MosaicFit": "mosaic",
    "Blend": "experts.blend",
    "BlendFit": "experts.blend",
    "Habits": "experts.habits",
    "Links": "experts.links",
    "LinksFit": "experts.links",
    "Proximal": "experts.proximal.expert",
    "ProximalFit": "experts.proximal.expert",
    "Posterior": "posterior",
    "PosteriorFit": "posterior",
    "Problem": "problem",
    "cluster": "backends",
    "evaluate": "estimator.evaluation",
    **dict.fromkeys(("Result", "certify", "forecast", "solve"), "solvers"),
    "SnapImputer": "estimator.imputer",
    **dict.fromkeys(("complete", "load"), "estimator.shortcuts"),
    **dict.fromkeys(("L0", "L1", "L2", "ByColumn", "ComposedL1", "FractionalL0", "Lp", "Ridge"), "penalties"),
    **dict.fromkeys(("MCP", "SCAD", "CappedL1", "LogSum", "Nuclear", "Rank", "TruncatedNuclear"), "penalties"),
}
"""Every other public name, and the module it comes from."""


if not TYPE_CHECKING:  # type checkers know the names from above, and so can tell a name that is not there

    def __getattr__(name: str) -> Any:
        """Import what is asked for when it is first used: numba, scipy and scikit-learn take a second or two."""
        if name in _MODULES:
            found = import_module(".".join(filter(None, ("snapimpute", _MODULES[name], name))))
        elif name in _NAMES:
            found = getattr(import_module(f"snapimpute.{_NAMES[name]}"), name)
        else:
            raise AttributeError(f"module 'snapimpute' has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


__all__ = [
    "L0",
    "L1",
    "L2",
    "MCP",
    "SCAD",
    "Alphabet",
    "Blend",
    "BlendFit",
    "ByColumn",
    "CappedL1",
    "ComposedL1",
    "Expert",
    "ExpertFit",
    "FractionalL0",
    "Habits",
    "Links",
    "LinksFit",
    "LogSum",
    "LowRank",
    "Lp",
    "Mosaic",
    "MosaicFit",
    "Nominal",
    "Nuclear",
    "Observations",
    "Posterior",
    "PosteriorFit",
    "Problem",
    "Proximal",
    "ProximalFit",
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
    "evaluate",
    "forecast",
    "load",
    "metrics",
    "penalties",
    "plots",
    "solve",
    "solvers",
    "tuning",
]
