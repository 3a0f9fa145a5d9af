"""Matrices known by their products, and their leading singular triplets."""

from snapimpute.operators.base import MatrixOperator, Sparse, Sum
from snapimpute.operators.lowrank import LowRank
from snapimpute.operators.svd import PartialSVD, partial_svd
from snapimpute.operators.tiled import MappedLowRank, cell_sum

__all__ = ["LowRank", "MappedLowRank", "MatrixOperator", "PartialSVD", "Sparse", "Sum", "cell_sum", "partial_svd"]
