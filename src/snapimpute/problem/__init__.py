"""The objective: how well the known cells are met, the discrete term, and the spectral penalty."""

from snapimpute.problem.problem import ObjectiveName, Problem, Terms

__all__ = ["ObjectiveName", "Problem", "Terms"]
