"""Solvers, and the loop that runs them."""

from typing import Any

from snapimpute.solvers.base import Solver, solve
from snapimpute.solvers.proximal import APG, SoftImpute
from snapimpute.solvers.result import Info, Result, Status

SOLVERS: dict[str, type[Solver[Any]]] = {s.name: s for s in (SoftImpute, APG)}
"""Every solver by name."""

__all__ = ["APG", "SOLVERS", "Info", "Result", "SoftImpute", "Solver", "Status", "solve"]
