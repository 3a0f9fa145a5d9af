"""Solvers, and the loop that runs them."""

from snapimpute.solvers.base import Card, Solver
from snapimpute.solvers.continuation import APGL, FPC, FPCA, AISImpute
from snapimpute.solvers.loop import solve
from snapimpute.solvers.proximal import APG, SoftImpute
from snapimpute.solvers.registry import SOLVERS, fitting, pick
from snapimpute.solvers.result import Info, Result, Status
from snapimpute.solvers.safeguarded import NIAPG, NMAPG, FaNCL

__all__ = [
    "APG",
    "APGL",
    "FPC",
    "FPCA",
    "NIAPG",
    "NMAPG",
    "SOLVERS",
    "AISImpute",
    "Card",
    "FaNCL",
    "Info",
    "Result",
    "SoftImpute",
    "Solver",
    "Status",
    "fitting",
    "pick",
    "solve",
]
