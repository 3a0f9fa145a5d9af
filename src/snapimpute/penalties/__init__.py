"""Penalties: spectral ones act on singular values, discrete ones on unobserved entries."""

from snapimpute.penalties.annealed import AnnealedPenalty, MajorisedPenalty
from snapimpute.penalties.base import (
    CellPenalty,
    DiscretePenalty,
    Group,
    HiddenCells,
    JointPenalty,
    Line,
    Moments,
    Split,
    Total,
)
from snapimpute.penalties.columns import ByColumn
from snapimpute.penalties.discrete import L0, L1, ComposedL1, Ridge
from snapimpute.penalties.maps import CellMap
from snapimpute.penalties.norm import L2
from snapimpute.penalties.spectral import (
    MCP,
    SCAD,
    CappedL1,
    LogSum,
    Nuclear,
    Rank,
    SpectralPenalty,
    TruncatedNuclear,
    lam_at_threshold,
)
from snapimpute.penalties.tabulated import FractionalL0, Lp

SPECTRAL: dict[str, type[SpectralPenalty]] = {
    p.name: p for p in (Nuclear, LogSum, CappedL1, TruncatedNuclear, MCP, SCAD, Rank)
}
"""Every spectral penalty by name."""

DISCRETE: dict[str, type[DiscretePenalty]] = {p.name: p for p in (L1, ComposedL1, L0, FractionalL0, Lp, L2)}
"""Every penalty with an alphabet by name; the control `Ridge` has none."""

__all__ = [
    "DISCRETE",
    "L0",
    "L1",
    "L2",
    "MCP",
    "SCAD",
    "SPECTRAL",
    "AnnealedPenalty",
    "ByColumn",
    "CappedL1",
    "CellMap",
    "CellPenalty",
    "ComposedL1",
    "DiscretePenalty",
    "FractionalL0",
    "Group",
    "HiddenCells",
    "JointPenalty",
    "Line",
    "LogSum",
    "Lp",
    "MajorisedPenalty",
    "Moments",
    "Nuclear",
    "Rank",
    "Ridge",
    "SpectralPenalty",
    "Split",
    "Total",
    "TruncatedNuclear",
    "lam_at_threshold",
]
