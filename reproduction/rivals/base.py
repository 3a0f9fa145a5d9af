"""Base of the discrete systems: symbols at any cells, and the choice of λ on entries that are held out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.observations import Observations
from snapimpute.experts.proximal.tuning import LAM_RATIO, LAM_STEPS
from snapimpute.linalg import LowRank
from snapimpute.solvers import Result
from snapimpute.solvers.options import FitKeywords
from snapimpute.solvers.parameters import check_positive


class DiscreteModel(ABC):
    """A completion by symbols of an alphabet; ``result`` tells how the solver fared."""

    alphabet: Alphabet
    lam: float
    result: Result

    @classmethod
    @abstractmethod
    def fit(
        cls,
        observations: Observations,
        alphabet: AlphabetLike,
        *,
        lam: float,
        x0: LowRank | None = None,
        **options: Unpack[FitKeywords],
    ) -> Self:
        """Fit to observations, all of them symbols; ``options`` (max_iter, tol, random_state) as in `solve`."""

    @classmethod
    @abstractmethod
    def largest_lam(cls, observations: Observations, alphabet: AlphabetLike) -> float:
        """The λ from which on nothing is learnt: the grid of `tuned` begins below it."""

    @abstractmethod
    def entries(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Estimates at the given cells, on the scale of the data."""

    @abstractmethod
    def symbols(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """The symbol decided on at the given cells."""


M = TypeVar("M", bound=DiscreteModel)

PATIENCE = 3
"""A path over λ ends after so many λ in a row without a better score."""


class Tuned(NamedTuple, Generic[M]):
    """A model with the λ chosen, fitted to everything observed, and (λ, score) of all that were tried."""

    model: M
    tried: tuple[tuple[float, float], ...]


def tuned(
    model: type[M],
    observations: Observations,
    alphabet: AlphabetLike,
    *,
    lams: Sequence[float] | None = None,
    share: float = 0.2,
    random_state: int = 0,
    **options: Any,
) -> Tuned[M]:
    """Choose λ by the symbols it gives observed entries that were held out, then fit to all of them.

    A path is walked from the largest λ down, each fit starting from the one
    before, until the score has not improved for a while. Its fits are rough
    (``tol=1e-3``) unless a ``tol`` is given.

    Parameters
    ----------
    model : class
        `OneBit`, `MultinomialCompletion`, `ThresholdCompletion` or `RobustDiscrete`.
    observations : Observations
    alphabet : alphabet
    lams : list of float, optional
        What to try; a geometric grid below ``model.largest_lam`` if not given.
    share : float
        Share of the observed entries to hold out.
    random_state : int
    **options
        Further arguments of ``model.fit``.

    Examples
    --------
    >>> from reproduction.rivals import OneBit
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.4)
    >>> chosen = tuned(OneBit, data.observations, "0,1")
    >>> min(score for _, score in chosen.tried) < 0.1
    True
    """
    kept, held = observations.split(share, random_state=random_state)
    if lams is None:
        grid = (model.largest_lam(kept, alphabet) * LAM_RATIO ** np.arange(1, LAM_STEPS + 1)).tolist()
    else:
        grid = sorted((float(lam) for lam in lams), reverse=True)
    rough: dict[str, Any] = {"tol": 1e-3, **options, "random_state": random_state}
    tried: list[tuple[float, float]] = []
    best: M | None = None
    last: M | None = None
    for lam in grid:
        last = model.fit(kept, alphabet, lam=lam, x0=None if last is None else last.result.x, **rough)
        score = float(np.mean(last.symbols(held.rows, held.cols) != held.values))
        best = last if all(score < s for _, s in tried) else best
        tried.append((lam, score))
        if _settled([s for _, s in tried]):
            break
    if best is None:
        raise ValueError("lams must hold at least one number, or be None")
    final = model.fit(observations, alphabet, lam=best.lam, x0=best.result.x, random_state=random_state, **options)
    return Tuned(final, tuple(tried))


def _settled(scores: list[float]) -> bool:
    """True if the best score is so many steps back that a better one is not to be expected."""
    return len(scores) - 1 - scores.index(min(scores)) >= PATIENCE


def checked(observations: Observations, alphabet: AlphabetLike, lam: float) -> tuple[Observations, Alphabet]:
    """The observations with values exactly on the symbols; refuse what lies beside, and a λ that is no strength."""
    check_positive("lam", lam)
    symbols = Alphabet.of(alphabet)
    return observations.on_alphabet(symbols), symbols


def completed(result: Result) -> Result:
    """The result, unless the run was interrupted: then the fit is too."""
    if result.status.code == "interrupted":
        raise KeyboardInterrupt(result.status.message)
    return result
