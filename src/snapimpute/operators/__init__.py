"""Matrices known by their products, and their leading singular triplets."""

from snapimpute.operators.base import ColumnGroups, Dense, MatrixOperator, Scaled, Sparse, Sum, sparse
from snapimpute.operators.lowrank import LowRank
from snapimpute.operators.svd import PartialSVD, partial_svd
from snapimpute.operators.tiled import MappedLowRank, Sample, cell_sum, mapped, sampled_sum

__all__ = [
    "ColumnGroups",
    "Dense",
    "LowRank",
    "MappedLowRank",
    "MatrixOperator",
    "PartialSVD",
    "Sample",
    "Scaled",
    "Sparse",
    "Sum",
    "cell_sum",
    "mapped",
    "partial_svd",
    "sampled_sum",
    "sparse",
]
