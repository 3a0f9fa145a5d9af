"""The options of a fit: how long, how exactly, where and in which precision it computes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypedDict, get_args

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.solvers.parameters import check_count

AlphabetTerm = Literal["tiled", "sampled", "auto"]
Precision = Literal["float64", "float32"]
ALPHABET_TERMS: tuple[str, ...] = get_args(AlphabetTerm)
PRECISIONS: tuple[str, ...] = get_args(Precision)

COARSE_ITER, COARSE_TOL = 60, 1e-3
"""Limits of a fit that is only scored: no more exact than its score."""


class FitKeywords(TypedDict, total=False):
    """The fields of `FitOptions`, for functions that take them by keyword."""

    max_iter: int
    tol: float
    max_rank: int | None
    evaluate_every: int
    alphabet_term: AlphabetTerm
    backend: str
    dtype: Precision
    random_state: int


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ArgumentError.must(name, value, f"be one of {', '.join(map(repr, choices))}")


@stored(
    "fit options",
    *("max_iter", "tol", "max_rank", "evaluate_every", "alphabet_term", "backend", "dtype", "random_state"),
)
@dataclass(frozen=True)
class FitOptions:
    """Options of a fit, checked once and passed whole; `solve` explains each of them.

    Examples
    --------
    >>> FitOptions(max_iter=200, dtype="float32").coarse().max_iter
    60
    """

    max_iter: int = 500
    tol: float = 1e-5
    max_rank: int | None = None
    evaluate_every: int = 1
    alphabet_term: AlphabetTerm = "tiled"
    backend: str = "cpu"
    dtype: Precision = "float64"
    random_state: int = 0

    def __post_init__(self) -> None:
        check_count("max_iter", self.max_iter)
        check_count("evaluate_every", self.evaluate_every)
        if self.max_rank is not None:
            check_count("max_rank", self.max_rank, otherwise=" or None")
        if not self.tol >= 0:
            raise ArgumentError.must("tol", self.tol, "be at least 0")
        _check_choice("alphabet_term", self.alphabet_term, ALPHABET_TERMS)
        _check_choice("dtype", self.dtype, PRECISIONS)
        check_count("random_state", self.random_state, least=0)

    def lasting(self) -> dict[str, Any]:
        """Return the options that the iterates depend on, by name: a resumed run may change the others."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("max_iter", "tol")}

    def coarse(self) -> FitOptions:
        """Return the options of a fit that is only scored: at most 60 iterations, a tolerance of at least 1e-3."""
        return replace(self, max_iter=min(self.max_iter, COARSE_ITER), tol=max(self.tol, COARSE_TOL))


DEFAULT = FitOptions()
TUNING = FitOptions(max_iter=COARSE_ITER, tol=COARSE_TOL, alphabet_term="auto")
"""Options where nobody gives others: of `solve`, and of the fits that choose λ and ξ."""
