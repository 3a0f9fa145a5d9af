"""Solvers, and the loop that runs them."""

from snapimpute.solvers.base import Solver, SolverInfo
from snapimpute.solvers.certificate import Certificate, certify
from snapimpute.solvers.checkpoint import Checkpoint
from snapimpute.solvers.classical.dual import SVT
from snapimpute.solvers.classical.sdp import SDP
from snapimpute.solvers.classical.sparse import LowRankSparse
from snapimpute.solvers.factored.als import ALS
from snapimpute.solvers.factored.manifold import AltMin, OptSpace, SunLuo
from snapimpute.solvers.forecast import Forecast, forecast
from snapimpute.solvers.loop import solve
from snapimpute.solvers.options import AlphabetTerm, FitOptions, Precision
from snapimpute.solvers.path import AnnealPoint, PathPoint, anneal, path
from snapimpute.solvers.proximal.continuation import APGL, FPC, FPCA, AISImpute
from snapimpute.solvers.proximal.gradient import APG, SoftImpute
from snapimpute.solvers.proximal.safeguarded import NIAPG, NMAPG, FaNCL
from snapimpute.solvers.registry import SOLVERS, SolverChoice, fitting, named, pick
from snapimpute.solvers.result import Info, Result, Status
from snapimpute.solvers.splitting.decomposition import PenaltyDecomposition
from snapimpute.solvers.splitting.dense import ADMM, DavisYin
from snapimpute.solvers.splitting.majorised import MM

__all__ = [
    "ADMM",
    "ALS",
    "APG",
    "APGL",
    "FPC",
    "FPCA",
    "MM",
    "NIAPG",
    "NMAPG",
    "SDP",
    "SOLVERS",
    "SVT",
    "AISImpute",
    "AlphabetTerm",
    "AltMin",
    "AnnealPoint",
    "Certificate",
    "Checkpoint",
    "DavisYin",
    "FaNCL",
    "FitOptions",
    "Forecast",
    "Info",
    "LowRankSparse",
    "OptSpace",
    "PathPoint",
    "PenaltyDecomposition",
    "Precision",
    "Result",
    "SoftImpute",
    "Solver",
    "SolverChoice",
    "SolverInfo",
    "Status",
    "SunLuo",
    "anneal",
    "certify",
    "fitting",
    "forecast",
    "named",
    "path",
    "pick",
    "solve",
]
