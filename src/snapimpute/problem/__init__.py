"""The objective: how well the known cells are met, the discrete term, and the spectral penalty."""

from snapimpute.problem.discreteness import ALL_CELLS, Coverage
from snapimpute.problem.problem import ObjectiveName, Problem, Terms
from snapimpute.problem.smooth import SmoothPart

__all__ = ["ALL_CELLS", "Coverage", "ObjectiveName", "Problem", "SmoothPart", "Terms"]
