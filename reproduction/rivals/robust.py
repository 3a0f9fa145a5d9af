"""Low rank and a symbol in every cell, while some of the observed symbols are wrong: an augmented Lagrangian."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reproduction.rivals.base import DiscreteModel, checked, completed
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.checks import check_cells
from snapimpute.data.observations import Observations
from snapimpute.experts.proximal.spec import spectral_norm
from snapimpute.linalg import Dense, LowRank, partial_svd
from snapimpute.penalties import Nuclear
from snapimpute.problem import ObjectiveName, Problem, Terms
from snapimpute.solvers import FitOptions, Result, Solver, SolverInfo
from snapimpute.solvers.base import Context, State
from snapimpute.solvers.loop import run
from snapimpute.solvers.options import FitKeywords
from snapimpute.solvers.parameters import check_positive
from snapimpute.solvers.splitting.dense import too_large

FIRST_SHARE = 0.7
"""The first threshold λ/μ as a share of σ₁ of the first Z: W begins with rank 1 or little more."""

Codes = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class RobustDiscrete(DiscreteModel):
    """min ‖P_Ω(Z − O)‖₁ + λ‖Z‖_* over the matrices Z whose entries all are symbols.

    Observed symbols may be overruled: of them, as of all cells, Z tells which
    symbol fits the low rank.

    Parameters
    ----------
    alphabet : Alphabet
    lam : float
        λ.
    codes : m×n array of int
        Z, as positions in the alphabet.
    result : Result
        ``result.x`` is W, of low rank and close to Z.

    Notes
    -----
    After Huang, Nie, Huang, AAAI 2013; see `SymbolSplitting` for the iteration.
    It stores m×n arrays. The set of matrices on an alphabet is not convex, so
    there is no guarantee that a minimum is found, and the nuclear norm is not
    indifferent to a shift of the alphabet: 0 is cheap.

    Examples
    --------
    >>> observations = Observations.from_dense([[1, 2, 1, np.nan], [1, 2, 1, 2], [1, 2, 1, 2], [1, np.nan, 1, 2]])
    >>> model = RobustDiscrete.fit(observations, "1,2", lam=0.5)
    >>> model.symbols([0, 3], [3, 1])
    array([2., 2.])
    """

    alphabet: Alphabet
    lam: float
    codes: Codes
    result: Result

    @classmethod
    def fit(
        cls,
        observations: Observations,
        alphabet: AlphabetLike,
        *,
        lam: float,
        x0: LowRank | None = None,
        mu: float | None = None,
        rho: float = 1.05,
        **options: Unpack[FitKeywords],
    ) -> Self:
        """Run the augmented Lagrangian until Z and W meet.

        Parameters
        ----------
        observations : Observations
        alphabet : alphabet
        lam : float
            λ.
        x0 : LowRank, optional
            Its nearest symbols are where Z starts off Ω; the symbol nearest to the mean if not given.
        mu, rho : float
            The first μ, and by what it grows; see `SymbolSplitting`.
        **options
            As in `solve`: max_iter (1000 if not given), random_state, and tol
            (1e-3): stop when ‖Z − W‖ ≤ tol·‖Z‖.
        """
        data, symbols = checked(observations, alphabet, lam)
        given = FitOptions(**({"max_iter": 1000, "tol": 1e-3} | options))
        result = run(Problem(data, Nuclear(lam)), SymbolSplitting(symbols, mu, rho), given, x0=x0)
        return cls(symbols, lam, completed(result).extras["codes"], result)

    @classmethod
    def largest_lam(cls, observations: Observations, alphabet: AlphabetLike) -> float:
        """The largest singular value of sign(O) on Ω: without an alphabet Z = 0 is optimal from this λ on."""
        data, _ = checked(observations, alphabet, 1.0)
        return spectral_norm(data, np.sign(data.values))

    def entries(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """W at the given cells: not snapped."""
        return self.result.entries(*check_cells(rows, cols, self.result.x.shape))

    def symbols(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Z at the given cells."""
        r, c = check_cells(rows, cols, self.result.x.shape)
        decided: Array = self.alphabet.symbols[self.codes[r, c]]
        return decided


@dataclass(frozen=True, eq=False, kw_only=True)
class SymbolState(State):
    """Adds Z as positions in the alphabet, the multiplier Y, the next μ, ‖Z − W‖/‖Z‖, and ‖P_Ω(Z − O)‖₁.

    The certificate is ‖Z − W‖_F, the distance from what is feasible; of optimality it tells nothing.
    """

    codes: Codes
    multiplier: Array
    mu: float
    residual: float = math.inf
    misfit: float = 0.0
    subspace: Array | None = None

    @property
    def measure(self) -> float:
        """‖Z − W‖/‖Z‖."""
        return self.residual


@dataclass(frozen=True)
class SymbolSplitting(Solver[SymbolState]):
    """min ‖P_Ω(Z − O)‖₁ + λ‖W‖_* s.t. Z = W, Z on the alphabet, by an augmented Lagrangian with growing μ.

        W ← SVT_{λ/μ}(Z + Y/μ)
        z ← the symbol with the least |z − o| + μ/2·(z − (w − y/μ))²,    off Ω without |z − o|
        Y ← Y + μ(Z − W),    μ ← ρμ

    ``result.x`` is W; ``result.extras["codes"]`` holds Z, as positions in the
    alphabet.

    Parameters
    ----------
    alphabet : Alphabet
    mu : float, optional
        The first μ; λ/(0.7σ₁) with σ₁ that of the first Z if not given.
    rho : float
        ρ, above 1. The slower μ grows, the better the symbols (on blocks and on
        votes 1.05 was as good as 1.02, and 1.2 much worse).

    Notes
    -----
    The authors' μ and ρ were not at hand. The alphabet is not convex: nothing is
    promised but that Z and W meet as μ grows.
    """

    alphabet: Alphabet
    mu: float | None = None
    rho: float = 1.05
    name: ClassVar[str] = "symbol-splitting"
    objective_name: ClassVar[ObjectiveName] = "C"
    measures: ClassVar[str] = "relative distance between Z and W"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="Robust discrete completion",
        minimises="‖P_Ω(Z − O)‖₁ + λ‖W‖_* s.t. Z = W, Z on the alphabet; nothing is promised",
        spectral=("nuclear",),
        discrete=False,
        convex=False,
        cost="3 passes: mnk",
        paper="Huang, Nie, Huang, AAAI 2013",
    )

    def __post_init__(self) -> None:
        if self.mu is not None:
            check_positive("mu", self.mu, otherwise=", or None")
        if not (math.isfinite(self.rho) and self.rho > 1):
            raise ValueError(f"rho must be a finite number above 1, got {self.rho}")

    def init(self, problem: Problem, x0: LowRank, context: Context) -> SymbolState:
        """Z = O on Ω; elsewhere the symbol nearest to x0, or to the mean if that is 0."""
        obs = problem.observations
        start = x0.to_dense() if x0.rank else np.full(problem.shape, obs.values.mean())
        codes = self.alphabet.indices(start).astype(np.int16)
        codes[obs.rows, obs.cols] = self.alphabet.indices(obs.values)
        Z = self.alphabet.symbols[codes]
        size = float(np.linalg.norm(Z))
        mu = self.mu
        if mu is None:
            sigma = float(partial_svd(Dense(Z), 1, tol=1e-3 * size, rng=context.rng(0)).x.s[0])
            mu = problem.spectral.lam / (FIRST_SHARE * (sigma or 1.0))
        return SymbolState(
            x=x0, x_observed=problem.at_observed(x0), codes=codes, multiplier=np.zeros(problem.shape), mu=mu
        )

    def step(self, problem: Problem, state: SymbolState, context: Context) -> SymbolState:
        """W, then Z, then the multiplier."""
        obs, mu, edge = problem.observations, state.mu, problem.spectral.threshold(1 / state.mu)
        shift = state.multiplier / mu
        aim = self.alphabet.symbols[state.codes] + shift
        svd = partial_svd(
            Dense(aim),
            state.x.rank,
            above=edge,
            warm_start=state.subspace,
            tol=max(1e-3 * min(state.residual, 1.0), 1e-12) * float(np.linalg.norm(aim)),
            max_rank=context.max_rank,
            rng=context.rng(state.iteration),
        )
        x = replace(svd.x, s=problem.spectral.prox(svd.x.s, 1 / mu))
        W = x.to_dense()
        codes = self.nearest(obs, W - shift, mu)
        Z = self.alphabet.symbols[codes]
        gap = Z - W
        distance = float(np.linalg.norm(gap))
        return SymbolState(
            x=x,
            x_observed=W[obs.rows, obs.cols],
            iteration=state.iteration + 1,
            change=x.distance(state.x),
            certificate=distance,
            codes=codes,
            multiplier=state.multiplier + mu * gap,
            mu=self.rho * mu,
            residual=distance / (float(np.linalg.norm(Z)) or 1.0),
            misfit=float(np.abs(Z[obs.rows, obs.cols] - obs.values).sum()),
            subspace=svd.subspace,
        )

    def nearest(self, observations: Observations, aim: Array, mu: float) -> Codes:
        """Positions of the symbols with the least |z − o| + μ/2·(z − a)², a = ``aim``; off Ω those nearest to a."""
        rows, cols, symbols = observations.rows, observations.cols, self.alphabet.symbols[:, None]
        codes = self.alphabet.indices(aim).astype(np.int16)
        costs = np.abs(symbols - observations.values) + mu / 2 * (symbols - aim[rows, cols]) ** 2
        codes[rows, cols] = np.argmin(costs, axis=0)
        return codes

    def terms(self, problem: Problem, state: SymbolState, context: Context) -> Terms:
        """‖P_Ω(Z − O)‖₁ + λ‖W‖_*, and how far Z is from W."""
        value = state.misfit + problem.spectral.value(state.x.s)
        return Terms(0.5 * state.certificate**2, value, 0.0, constrained=True)

    def merit(self, state: SymbolState, terms: Terms) -> float:
        """The distance of Z and W, as iterates are infeasible."""
        return state.residual

    def columns(self, state: SymbolState) -> dict[str, float]:
        """The next μ."""
        return {"mu": state.mu}

    def extras(self, state: SymbolState) -> dict[str, Any]:
        """Z."""
        return {"codes": state.codes}

    @classmethod
    def objection(cls, problem: Problem) -> str | None:
        """Sizes that cannot be stored, and offsets."""
        if problem.offsets is not None:
            return "does not treat offsets"
        instead = "for gross errors use LowRankSparse, for symbols MultinomialCompletion"
        return super().objection(problem) or too_large(problem, instead)
