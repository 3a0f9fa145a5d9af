"""List of all solvers, choice of those that fit a problem, and the default one."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from snapimpute.base.errors import ArgumentError, Setting
from snapimpute.problem import Problem
from snapimpute.solvers.base import Solver
from snapimpute.solvers.classical.dual import SVT
from snapimpute.solvers.classical.sdp import SDP
from snapimpute.solvers.classical.sparse import LowRankSparse
from snapimpute.solvers.factored.als import ALS
from snapimpute.solvers.factored.manifold import AltMin, OptSpace, SunLuo
from snapimpute.solvers.proximal.continuation import APGL, FPC, FPCA, AISImpute
from snapimpute.solvers.proximal.gradient import APG, SoftImpute
from snapimpute.solvers.proximal.safeguarded import NIAPG, NMAPG, FaNCL
from snapimpute.solvers.splitting.decomposition import PenaltyDecomposition
from snapimpute.solvers.splitting.dense import ADMM, DavisYin
from snapimpute.solvers.splitting.majorised import MM

_PROXIMAL = (SoftImpute, APG, APGL, FPC, FPCA, AISImpute, NMAPG, NIAPG, FaNCL)
_SPLITTING = (DavisYin, ADMM, PenaltyDecomposition, MM)
_OTHERS = (ALS, SVT, SDP, LowRankSparse, AltMin, OptSpace, SunLuo)

SOLVERS: dict[str, type[Solver[Any]]] = {s.name: s for s in (*_PROXIMAL, *_SPLITTING, *_OTHERS)}
"""Every solver by name."""


SMALL_CELLS = 10_000
"""Up to this size the whole SVD of every step is cheap, and bringing λ down only costs iterations."""


class SolverChoice(NamedTuple):
    """A solver, and the reason for choosing it."""

    solver: Solver[Any]
    why: str


def fitting(problem: Problem) -> list[str]:
    """Return the names of the solvers that can treat a problem."""
    return [name for name, solver in SOLVERS.items() if solver.objection(problem) is None]


def named(solver: Solver[Any] | str) -> type[Solver[Any]]:
    """Return the class of a solver, given as an instance or by its name."""
    if isinstance(solver, str):
        if solver not in SOLVERS:
            raise ArgumentError.must("solver", solver, f'be "auto" or one of {", ".join(SOLVERS)}')
        return SOLVERS[solver]
    if not isinstance(solver, Solver):
        raise TypeError(f"solver must be a Solver or the name of one, got {type(solver).__name__}")
    return type(solver)


def pick(problem: Problem, solver: Solver[Any] | str, *, warm: bool = False) -> SolverChoice:
    """Return the solver that is given or named, or choose one for "auto"; refuse one that does not fit.

    ``warm`` means that the start is not zero: poor early stationary points lie behind,
    and momentum is worth more than caution.

    Examples
    --------
    >>> import snapimpute as si
    >>> observations = si.Observations.from_dense([[1, 5, None], [None, 5, 1]])
    >>> pick(si.Problem(observations, si.Rank(1.0)), "auto").why
    'Rank(lam=1.0) is not convex: niAPG keeps the objective below a bound'
    """
    if isinstance(solver, str) and solver == "auto":
        return _auto(problem, warm)
    kind = named(solver)
    objection = kind.objection(problem)
    if objection is not None:
        fits = ", ".join(fitting(problem))
        raise ArgumentError("solver", solver, f"{kind.__name__} {objection}. Solvers that fit this problem: {fits}")
    return SolverChoice(kind() if isinstance(solver, str) else solver, "given")


def require(solver: Solver[Any], ability: Literal["samples", "single", "anywhere"]) -> None:
    """Refuse a solver that cannot work with a sample, in float32 or on another backend; name those that can."""
    if getattr(solver, ability):
        return
    needs, instead, can = {
        "samples": (
            "needs the discrete term on all cells",
            Setting("alphabet_term", "tiled"),
            "that can work with a sample",
        ),
        "single": ("computes in float64", Setting("dtype", "float64"), "that can do with float32"),
        "anywhere": ("computes with numpy only", Setting("backend", "cpu"), "that can do with other backends"),
    }[ability]
    fits = ", ".join(name for name, kind in SOLVERS.items() if getattr(kind, ability))
    told = f"{type(solver).__name__} {needs}: use ", instead, f", or a solver {can} ({fits})"
    raise ArgumentError("solver", solver, *told)


def _auto(problem: Problem, warm: bool) -> SolverChoice:
    """Choose by measurements (docs/how-to-choose.md): by convexity first, then by a warm start, and by size."""
    if problem.jumps and not warm:
        why = "FaNCL brings λ down, which keeps clear of poor stationary points, and falls at every λ"
        return SolverChoice(FaNCL(), f"{problem.discrete!r} is not convex: {why}")
    if not problem.convex:
        term = problem.discrete if problem.spectral.convex else problem.spectral
        return SolverChoice(NIAPG(), f"{term!r} is not convex: niAPG keeps the objective below a bound")
    m, n = problem.shape
    if m * n <= SMALL_CELLS:
        return SolverChoice(
            APG(), f"every term is convex and {m}×{n} is small: APG, as whole SVDs are cheap at any rank"
        )
    return SolverChoice(AISImpute(), "every term is convex: AIS-Impute, as its early steps have a small rank")
