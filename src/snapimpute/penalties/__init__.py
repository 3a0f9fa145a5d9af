"""Penalties: spectral ones act on singular values, discrete ones on unobserved entries."""

from snapimpute.penalties.discrete import L1, ComposedL1, DiscretePenalty, Ridge
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

SPECTRAL: dict[str, type[SpectralPenalty]] = {
    p.name: p for p in (Nuclear, LogSum, CappedL1, TruncatedNuclear, MCP, SCAD, Rank)
}
"""Every spectral penalty by name."""

DISCRETE: dict[str, type[DiscretePenalty]] = {p.name: p for p in (L1, ComposedL1)}
"""Every penalty with an alphabet by name; the control `Ridge` has none."""

__all__ = [
    "DISCRETE",
    "L1",
    "MCP",
    "SCAD",
    "SPECTRAL",
    "CappedL1",
    "ComposedL1",
    "DiscretePenalty",
    "LogSum",
    "Nuclear",
    "Rank",
    "Ridge",
    "SpectralPenalty",
    "TruncatedNuclear",
    "lam_at_threshold",
]
