"""Matrices known by their products, and their leading singular triplets."""

from snapimpute.linalg.base import ColumnGroups, Dense, MatrixOperator, Scaled, Sparse, Sum, sparse
from snapimpute.linalg.lowrank import LowRank
from snapimpute.linalg.svd import PartialSVD, partial_svd
from snapimpute.linalg.tiled import MappedLowRank, Sample, cell_sum, mapped, sampled_sum

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
