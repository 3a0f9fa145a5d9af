"""Low rank and symbols everywhere, while some of the observed symbols are wrong: an augmented Lagrangian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.alphabet import Alphabet, AlphabetLike
from snapimpute.baselines.base import DiscreteModel, checked, spectral_norm
from snapimpute.baselines.simple import check_cells
from snapimpute.observations import Observations
from snapimpute.operators import Dense, LowRank, partial_svd
from snapimpute.penalties import Nuclear
from snapimpute.problem import ObjectiveName, Problem, Terms
from snapimpute.solvers import Card, Result, Solver, solve
from snapimpute.solvers.base import Context, State
from snapimpute.solvers.parameters import check_positive
from snapimpute.types import Array

MAX_CELLS = 2**25
"""Matrices of more cells are refused: a few arrays of this size are kept."""

Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class SymbolState(State):
    """Adds Z as positions in the alphabet, the multiplier Y, μ, and ‖Z − W‖/‖Z‖."""

    codes: Codes
    multiplier: Array
    mu: float
    residual: float
    errors: float
    subspace: Array | None

    @property
    def measure(self) -> float:
        """‖Z − W‖/‖Z‖."""
        return self.residual


@dataclass(frozen=True)
class SymbolSplitting(Solver[SymbolState]):
    """min ‖P_Ω(Z − O)‖₁ + λ‖W‖_* s.t. Z = W, Z on the alphabet everywhere: an augmented Lagrangian.

        W ← SVT_{λ/μ}(Z + Y/μ)
        z ← the symbol with the least |z − o| + μ/2·(z − (w − y/μ))²,    without |z − o| on Ωᶜ
        Y ← Y + μ(Z − W),    μ ← ρμ

    ``result.x`` is W; ``result.extras["codes"]`` holds Z, as positions in the
    alphabet.

    Parameters
    ----------
    alphabet : Alphabet
    mu : float, optional
        The first μ; such that λ/μ is ``share`` times σ₁ of the first Z if not given.
    rho : float
        ρ, above 1: by what μ grows in each iteration.

    Notes
    -----
    The set of matrices on an alphabet is not convex: nothing is promised but
    that Z and W meet, as μ grows. `tol` of `solve` is ‖Z − W‖/‖Z‖.
    """

    alphabet: Alphabet
    mu: float | None = None
    rho: float = 1.1
    share: float = 0.5
    start: str = "mean"
    name: ClassVar[str] = "symbol-splitting"
    objective_name: ClassVar[ObjectiveName] = "C"
    measures: ClassVar[str] = "relative distance between Z and W"
    card: ClassVar[Card] = Card(
        title="Robust discrete completion",
        minimises="‖P_Ω(Z − O)‖₁ + λ‖W‖_* s.t. Z = W, Z on the alphabet",
        spectral=("nuclear",),
        discrete=False,
        convex=False,
        cost="3 passes: mnk; K comparisons for each cell",
        paper="Huang, Nie, Huang, AAAI 2013",
    )

    def init(self, problem: Problem, x0: LowRank, context: Context) -> SymbolState:
        obs = problem.observations
        if x0.rank:
            codes = self.alphabet.indices(x0.to_dense())
        elif self.start == "mean":
            codes = np.full(problem.shape, self.alphabet.indices(obs.values.mean()))
        else:
            codes = np.full(problem.shape, self.alphabet.indices(0.0))
        codes = codes.astype(np.int16)
        codes[obs.rows, obs.cols] = self.alphabet.indices(obs.values)
        Z = self.alphabet.symbols[codes]
        mu = self.mu
        if mu is None:
            sigma = partial_svd(Dense(Z), 1, tol=1e-3 * np.linalg.norm(Z)).x.s[0]
            mu = problem.spectral.lam / (self.share * sigma)
        return SymbolState(
            x0, problem.at_observed(x0), 0, np.inf, np.inf, codes, np.zeros(problem.shape), mu, np.inf, 0.0, None
        )

    def step(self, problem: Problem, state: SymbolState, context: Context) -> SymbolState:
        obs, mu = problem.observations, state.mu
        Z = self.alphabet.symbols[state.codes]
        edge = problem.spectral.lam / mu
        size = float(np.linalg.norm(Z))
        svd = partial_svd(
            Dense(Z + state.multiplier / mu),
            state.x.rank,
            above=edge,
            warm_start=state.subspace,
            tol=1e-3 * min(state.residual, 1.0) * size,
            max_rank=context.max_rank,
            rng=context.rng(state.iteration),
        )
        x = LowRank(svd.x.U, svd.x.s - edge, svd.x.V)
        W = x.to_dense()
        codes = self._nearest(problem, W - state.multiplier / mu, mu)
        Z = self.alphabet.symbols[codes]
        gap = Z - W
        residual = float(np.linalg.norm(gap)) / (float(np.linalg.norm(Z)) or 1.0)
        return SymbolState(
            x=x,
            x_observed=W[obs.rows, obs.cols],
            iteration=state.iteration + 1,
            change=x.distance(state.x),
            certificate=np.inf,
            codes=codes,
            multiplier=state.multiplier + mu * gap,
            mu=self.rho * mu,
            residual=residual,
            errors=float(np.abs(Z[obs.rows, obs.cols] - obs.values).sum()),
            subspace=svd.subspace,
        )

    def _nearest(self, problem: Problem, aim: Array, mu: float) -> Codes:
        obs = problem.observations
        codes = self.alphabet.indices(aim).astype(np.int16)
        a = self.alphabet.symbols[:, None]
        cost = np.abs(a - obs.values) + mu / 2 * (a - aim[obs.rows, obs.cols]) ** 2
        codes[obs.rows, obs.cols] = np.argmin(cost, axis=0)
        return codes

    def terms(self, problem: Problem, state: SymbolState) -> Terms:
        return Terms(0.5 * state.residual**2, problem.spectral.value(state.x.s) + state.errors, 0.0, constrained=True)

    def merit(self, state: SymbolState, terms: Terms) -> float:
        return state.residual

    def columns(self, state: SymbolState) -> dict[str, float]:
        return {"mu": state.mu}

    def extras(self, state: SymbolState) -> dict[str, Any]:
        return {"codes": state.codes}
