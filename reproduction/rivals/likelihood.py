"""Maximum likelihood under a nuclear norm: the log-odds of the symbols are matrices of low rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from reproduction.rivals.base import DiscreteModel, checked, completed
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.checks import check_cells
from snapimpute.data.observations import Observations
from snapimpute.experts.proximal.spec import spectral_norm
from snapimpute.linalg import LowRank
from snapimpute.penalties import Nuclear
from snapimpute.problem import Problem
from snapimpute.problem.losses import Multinomial
from snapimpute.solvers import FitOptions, Result, Solver
from snapimpute.solvers.loop import run
from snapimpute.solvers.options import FitKeywords


@dataclass(frozen=True, eq=False)
class MultinomialCompletion(DiscreteModel):
    """min −log-likelihood(X_1, …, X_{K−1}) + λ Σ_l ‖X_l‖_*, with X_l the log-odds of symbol l against the last one.

    At each cell the symbol l < K has the probability exp(x_l)/(1 + Σ_h exp(x_h))
    and the last symbol the rest. The K − 1 matrices are learnt together.

    Parameters
    ----------
    alphabet : Alphabet
    lam : float
        λ, in units of the log-likelihood.
    shape : (int, int)
    result : Result
        ``result.x`` is diag(X_1, …, X_{K−1}), ((K−1)m)×((K−1)n).

    Notes
    -----
    After Lafond, Klopp, Moulines, Salmon, NeurIPS 2014. The sum of the nuclear
    norms is that of the block-diagonal matrix, observed inside its blocks only;
    so it is one problem for the proximal solvers. The iterates are
    block-diagonal up to the error of the partial SVD; what that leaves outside
    the blocks is not read, and without it the objective is no larger. The
    authors bound the entries besides; that bound is left out. Nothing m×n is
    stored. Without an intercept all symbols are equally likely where nothing is
    known.

    Examples
    --------
    >>> observations = Observations.from_dense([[1, 2, np.nan], [1, 2, 3], [1, np.nan, 3]])
    >>> model = MultinomialCompletion.fit(observations, "1:3", lam=0.1)
    >>> model.symbols([0, 2], [2, 1])
    array([3., 2.])
    """

    alphabet: Alphabet
    lam: float
    shape: tuple[int, int]
    result: Result

    @classmethod
    def fit(
        cls,
        observations: Observations,
        alphabet: AlphabetLike,
        *,
        lam: float,
        x0: LowRank | None = None,
        solver: Solver[Any] | str = "auto",
        intercept: bool = False,
        **options: Unpack[FitKeywords],
    ) -> Self:
        """Fit with an ordinary solver.

        Parameters
        ----------
        observations : Observations
        alphabet : alphabet
        lam : float
            λ, in units of the log-likelihood.
        x0 : LowRank, optional
            Where to start: the ``result.x`` of another fit.
        solver : Solver or str
            One that takes any loss, as the proximal ones do.
        intercept : bool
            Whether the log-odds are those of the observed frequencies plus X,
            not X alone. The authors have none.
        **options
            As in `solve`: max_iter, tol, max_rank, random_state.
        """
        data, symbols = checked(observations, alphabet, lam)
        loss, blocks = cls._blocks(data, symbols)
        base = _frequencies(data, symbols) if intercept else None
        problem = Problem(blocks, Nuclear(lam * loss.scale), None, base, loss)
        result = run(problem, solver, FitOptions(**options), x0=x0)
        return cls(symbols, lam, data.shape, completed(result))

    @classmethod
    def largest_lam(cls, observations: Observations, alphabet: AlphabetLike) -> float:
        """The largest singular value of the gradient at X = 0, which is optimal from this λ on."""
        data, symbols = checked(observations, alphabet, 1.0)
        loss, blocks = cls._blocks(data, symbols)
        return spectral_norm(blocks, loss.gradient(np.zeros(len(blocks)), blocks.values)) / loss.scale

    @classmethod
    def _blocks(cls, data: Observations, symbols: Alphabet) -> tuple[Multinomial, Observations]:
        """The loss, and 1 where a symbol was observed, 0 where another was: at (lm + i, ln + j) for symbol l."""
        cls._check_symbols(symbols)
        (m, n), blocks = data.shape, np.arange(len(symbols) - 1)[:, None]
        observed = symbols.indices(data.values) == blocks
        # Sorted by row, the blocks follow each other, as the loss wants them.
        rows, cols = blocks * m + data.rows, blocks * n + data.cols
        shape = blocks.size * m, blocks.size * n
        return Multinomial(len(symbols)), Observations.from_coo(rows.ravel(), cols.ravel(), observed.ravel(), shape)

    @classmethod
    def _check_symbols(cls, symbols: Alphabet) -> None:
        if len(symbols) < 2:
            raise ValueError(f"{cls.__name__} needs at least two symbols, got {symbols!r}")

    def log_odds(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Log-odds of each symbol but the last against the last one, one row for each cell."""
        r, c = check_cells(rows, cols, self.shape)
        (m, n), blocks = self.shape, np.arange(len(self.alphabet) - 1)
        return self.result.entries(r[:, None] + blocks * m, c[:, None] + blocks * n)

    def proba(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Probability of each symbol, in the order of the alphabet, one row for each cell."""
        odds = np.ascontiguousarray(self.log_odds(rows, cols).T).ravel()
        return Multinomial(len(self.alphabet)).probabilities(odds).T

    def entries(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """The expected value at the given cells."""
        expected: Array = self.proba(rows, cols) @ self.alphabet.symbols
        return expected

    def symbols(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """The most likely symbol at the given cells; a tie goes to the larger one."""
        backwards = self.proba(rows, cols)[:, ::-1]
        likeliest: Array = self.alphabet.symbols[::-1][np.argmax(backwards, axis=1)]
        return likeliest


@dataclass(frozen=True, eq=False)
class OneBit(MultinomialCompletion):
    """min −log-likelihood(X) + λ‖X‖_* with X the log-odds of the smaller of two symbols: 1-bit completion.

    The smaller symbol has the probability 1/(1 + exp(−x)).

    Notes
    -----
    After Davenport, Plan, van den Berg, Wootters, Information and Inference
    2014. They maximise the likelihood over a ball ‖X‖_* ≤ α√(rmn), optionally
    with a bound α on the entries. This is the penalised (Lagrangian) form
    without that bound: each λ gives the solution for one radius of the ball.

    Examples
    --------
    >>> observations = Observations.from_dense([[0, 1, np.nan], [0, 1, 1], [0, np.nan, 1]])
    >>> model = OneBit.fit(observations, "0,1", lam=0.1)
    >>> model.symbols([0, 2], [2, 1])
    array([1., 1.])
    """

    @classmethod
    def _check_symbols(cls, symbols: Alphabet) -> None:
        if len(symbols) != 2:
            raise ValueError(
                f"OneBit needs an alphabet of two symbols, got {symbols!r}: "
                "use MultinomialCompletion, or say which values count as the larger symbol"
            )


def _frequencies(data: Observations, symbols: Alphabet) -> LowRank:
    """The log-odds of the observed frequencies against the last symbol, the same in every cell of a block.

    One observation is added to each symbol, so that none is impossible.
    """
    counts = np.bincount(symbols.indices(data.values), minlength=len(symbols)) + 1.0
    (m, n), blocks = data.shape, np.eye(len(symbols) - 1)
    return LowRank(np.repeat(blocks, m, axis=0), np.log(counts[:-1] / counts[-1]), np.repeat(blocks, n, axis=0))
