"""Thresholds between the symbols, learnt with a matrix of bounded rank: how far apart symbols lie is left open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit

from reproduction.rivals.base import DiscreteModel, checked, completed
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.checks import check_cells
from snapimpute.data.observations import Observations
from snapimpute.experts.proximal.spec import spectral_norm
from snapimpute.linalg import LowRank
from snapimpute.penalties import Nuclear
from snapimpute.problem import Problem
from snapimpute.problem.losses import Thresholds
from snapimpute.solvers import NIAPG, FitOptions, Result, SolverInfo
from snapimpute.solvers.base import Context
from snapimpute.solvers.loop import run
from snapimpute.solvers.options import FitKeywords
from snapimpute.solvers.parameters import check_count
from snapimpute.solvers.proximal.safeguarded import RecentState


@dataclass(frozen=True, eq=False)
class ThresholdCompletion(DiscreteModel):
    """min over θ and X of rank ≤ r    Σ_Ω Σ_k log(1 + exp(∓(x − θ_k))) + λ‖X‖_*, + where o lies below θ_k, − above.

    Symbol k is decided on where x lies between θ_{k−1} and θ_k. In factors
    X = UVᵀ the penalty is the ridge (λ/2)(‖U‖² + ‖V‖²).

    Parameters
    ----------
    alphabet : Alphabet
    lam : float
        λ, in units of the sum above.
    occurring : array
        The L symbols that were observed; one that never was is never decided on.
    thresholds : array
        θ_1 < … < θ_{L−1}, between them.
    result : Result
        ``result.x`` is X; the objective of its history is that above times 4/(L − 1).

    Notes
    -----
    After the idea of Huo, Liu, Huang, AAAI 2016: factors of exact rank, learnt
    thresholds. Their paper was not at hand; loss, penalty and algorithm are our
    own, see `AlternatingThresholds`. Where the bound on the rank is active the
    problem is not convex, and what is found is a stationary point.

    Examples
    --------
    >>> observations = Observations.from_dense([[1, 2, np.nan], [1, 2, 3], [1, np.nan, 3]])
    >>> model = ThresholdCompletion.fit(observations, "1:3", lam=0.1)
    >>> model.symbols([0, 2], [2, 1])
    array([3., 2.])
    """

    alphabet: Alphabet
    lam: float
    occurring: Array
    thresholds: Array
    result: Result

    @classmethod
    def fit(
        cls,
        observations: Observations,
        alphabet: AlphabetLike,
        *,
        lam: float,
        x0: LowRank | None = None,
        rank: int = 10,
        **options: Unpack[FitKeywords],
    ) -> Self:
        """Alternate between X and the thresholds.

        Parameters
        ----------
        observations : Observations
        alphabet : alphabet
        lam : float
            λ.
        x0 : LowRank, optional
            Where X starts; at 0 if not given.
        rank : int
            r.
        **options
            As in `solve`: max_iter, tol (1e-4 if not given), random_state.
        """
        check_count("rank", rank)
        data, symbols = checked(observations, alphabet, lam)
        occurring, codes = _codes(data, symbols)
        loss = Thresholds(best_thresholds(np.zeros(len(data)), codes))
        problem = Problem(data.with_values(codes), Nuclear(lam * loss.scale), loss=loss)
        given = FitOptions(max_rank=rank, **({"tol": 1e-4} | options))  # type: ignore[misc]  # refuses another max_rank
        result = run(problem, AlternatingThresholds(), given, x0=x0)
        return cls(symbols, lam, occurring, completed(result).extras["thresholds"], result)

    @classmethod
    def largest_lam(cls, observations: Observations, alphabet: AlphabetLike) -> float:
        """The largest singular value of the gradient at X = 0 and its best thresholds."""
        data, symbols = checked(observations, alphabet, 1.0)
        _, codes = _codes(data, symbols)
        zero = np.zeros(len(data))
        loss = Thresholds(best_thresholds(zero, codes))
        return spectral_norm(data, loss.gradient(zero, codes)) / loss.scale

    def score(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """X at the given cells, on the scale of the thresholds."""
        return self.result.x.entries(*check_cells(rows, cols, self.result.x.shape))

    def symbols(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """The symbol above as many thresholds as lie below x."""
        return self.occurring[np.searchsorted(self.thresholds, self.score(rows, cols))]

    def entries(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """The decided symbol: x itself is not on the scale of the data."""
        return self.symbols(rows, cols)


@dataclass(frozen=True, eq=False, kw_only=True)
class ThresholdState(RecentState):
    """Adds the thresholds."""

    thresholds: Array


@dataclass(frozen=True)
class AlternatingThresholds(NIAPG):
    """A step on X, X⁺ = prox_λg(Y − ∇h(Y)) cut to the rank r, then the best thresholds for X⁺.

    The step is that of niAPG with q = 0: it is accelerated, and taken again
    without where the objective would rise. So the objective falls in every step
    on X, and again with the thresholds, each of which is found exactly.
    ``result.extras["thresholds"]`` holds them.
    """

    q: int = 0
    name: ClassVar[str] = "alternating-thresholds"
    info: ClassVar[SolverInfo] = replace(
        NIAPG.info, title="Alternating thresholds", minimises="(E) also over the thresholds, falling in every step"
    )

    def init(self, problem: Problem, x0: LowRank, context: Context) -> ThresholdState:
        """X_0 = x0, and its best thresholds."""
        return self._with_thresholds(problem, super().init(problem, x0, context))

    def step(self, problem: Problem, state: ThresholdState, context: Context) -> ThresholdState:  # type: ignore[override]
        """X, then the thresholds."""
        after = super().step(replace(problem, loss=Thresholds(state.thresholds)), state, context)
        return self._with_thresholds(problem, after)

    @staticmethod
    def _with_thresholds(problem: Problem, state: RecentState) -> ThresholdState:
        thresholds = best_thresholds(state.x_observed, problem.targets)
        terms = replace(problem, loss=Thresholds(thresholds)).terms(state.x, state.x_observed)
        return ThresholdState.extending(state, terms=terms, recent=(terms.objective,), thresholds=thresholds)

    def extras(self, state: ThresholdState) -> dict[str, Any]:  # type: ignore[override]
        """The thresholds."""
        return {"thresholds": state.thresholds}

    @classmethod
    def objection(cls, problem: Problem) -> str | None:
        """Refuse every loss but `Thresholds`."""
        if not isinstance(problem.loss, Thresholds):
            return f"treats only the loss Thresholds, not {problem.loss!r}"
        return super().objection(problem)


def _codes(data: Observations, symbols: Alphabet) -> tuple[Array, Array]:
    """The symbols that occur, and the position of each value among them."""
    occur, codes = np.unique(symbols.indices(data.values), return_inverse=True)
    if occur.size < 2:
        raise ValueError(
            f"thresholds need at least two different symbols, and all observed values are {data.values[0]:g}"
        )
    return symbols.symbols[occur], codes.astype(np.float64)


def best_thresholds(x: Array, codes: Array) -> Array:
    """The θ with the least Σ_Ω Σ_k log(1 + exp(∓(x − θ_k))): Σ_Ω 1/(1 + exp(x − θ_k)) = N_k for each k.

    N_k counts the entries up to symbol k. The left side grows with θ_k, and N_k
    with k, so that the thresholds ascend. With all x in [a, b] the solution lies
    between a + logit(N_k/N) and b + logit(N_k/N).

    Parameters
    ----------
    x : array
        The entries on Ω.
    codes : array
        Position of the symbol observed, 0 … K − 1; each of them occurs.
    """
    counts = np.cumsum(np.bincount(codes.astype(np.intp)))[:-1]
    shifts = logit(counts / x.size)
    margin = 1e-9 * (1 + float(np.abs(x).max()))  # all x may be equal
    low, high = float(x.min()) - margin, float(x.max()) + margin
    pairs = zip(counts.tolist(), shifts.tolist(), strict=True)
    return np.array([_level(x, count, low + shift, high + shift) for count, shift in pairs])


def _level(x: Array, count: int, low: float, high: float) -> float:
    """The θ between low and high with Σ 1/(1 + exp(x − θ)) = count."""
    return float(brentq(lambda theta: float(expit(theta - x).sum()) - count, low, high, xtol=1e-12))
