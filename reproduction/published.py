"""Experiments of the papers behind the solvers, with the figures that they report.

The figures are facts from the papers named; the protocols are written from
their descriptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.rivals import OneBit, tuned
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.evaluation.metrics import rmse
from snapimpute.penalties import Nuclear
from snapimpute.problem import Problem
from snapimpute.solvers import SVT, AISImpute, Info, path, solve


@dataclass(frozen=True)
class SoftImputeSetting:
    """A row of the tables of Mazumder, Hastie and Tibshirani (JMLR 2010)."""

    rank: int
    observed: float
    snr: float
    error: float
    standard_error: float


@dataclass(frozen=True)
class SVTSetting:
    """A row of the table of Cai, Candès and Shen (SIAM J. Optim. 2010), at n = 1000."""

    rank: int
    observed: float
    iterations: int
    error: float


SOFT_IMPUTE_ROWS = (
    SoftImputeSetting(rank=10, observed=0.2, snr=10.0, error=0.5877, standard_error=0.0047),
    SoftImputeSetting(rank=30, observed=0.5, snr=3.0, error=0.7238, standard_error=0.0027),
)
SVT_ROWS = (
    SVTSetting(rank=10, observed=0.12, iterations=117, error=1.64e-4),
    SVTSetting(rank=50, observed=0.39, iterations=114, error=1.59e-4),
)
ONE_BIT_ACCURACY = 0.73
"""Signs of MovieLens-100k about its mean, 95 % known (Davenport, Plan, van den Berg, Wootters 2014)."""

AIS_IMPUTE_RMSE = (0.874, 0.875)
AIS_IMPUTE_RANK = (59, 60)


def soft_impute_error(setting: SoftImputeSetting, seed: int, side: int = 100) -> float:
    """‖P_Ωᶜ(UVᵀ − Ẑ)‖²/‖P_Ωᶜ(UVᵀ)‖², λ chosen along the path on a fifth of the missing cells."""
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((2, side, setting.rank))
    truth = U @ V.T
    noise = rng.standard_normal((side, side)) * truth.std() / setting.snr
    known = rng.random((side, side)) < setting.observed
    observations = Observations.from_dense(np.where(known, truth + noise, np.nan))
    validation = ~known & (rng.random((side, side)) < 0.2)
    test = ~known & ~validation
    estimates = (
        point.result.x.to_dense()
        for point in path(
            Problem(observations, Nuclear(1.0)), 40, smallest=1e-3, tol=1e-4, max_iter=1000, evaluate_every=1000
        )
    )
    best = min(estimates, key=lambda Z: float(np.sum((Z - truth)[validation] ** 2)))
    return float(np.sum((best - truth)[test] ** 2) / np.sum(truth[test] ** 2))


def svt_run(setting: SVTSetting, seed: int, side: int = 1000) -> tuple[int, float]:
    """(Iterations, relative error) of SVT with its defaults on a planted matrix."""
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((2, side, setting.rank))
    cells = rng.choice(side * side, int(setting.observed * side * side), replace=False)
    rows, cols = cells // side, cells % side
    values = np.einsum("ij,ij->i", U[rows], V[cols])
    problem = Problem(Observations.from_coo(rows, cols, values, (side, side)), Nuclear(1.0))
    result = solve(problem, SVT(), tol=1e-4, evaluate_every=500)
    truth = U @ V.T
    error = np.linalg.norm(result.x.to_dense() - truth) / np.linalg.norm(truth)
    return result.n_iter, float(error)


def ais_impute_run(ratings: Observations, seed: int) -> tuple[float, int, int]:
    """(RMSE, rank, iterations) of the authors' script: z-scores of all ratings, half of them known, λ = 9."""
    values: Array = (ratings.values - ratings.values.mean()) / ratings.values.std(ddof=1)
    known, hidden = ratings.with_values(values).split(0.5, random_state=seed)
    last = [np.inf]

    def settled(info: Info) -> bool:
        """The script stops when the objective changes by at most 1e-3."""
        before, last[0] = last[0], info.objective
        return info.row["lam"] == 9.0 and abs(before - last[0]) <= 1e-3

    result: Any = solve(Problem(known, Nuclear(9.0)), AISImpute(), tol=0, max_iter=1000, callback=settled)
    return rmse(hidden.values, result.entries(hidden.rows, hidden.cols)), result.x.rank, result.n_iter


def one_bit_accuracy(ratings: Observations, seed: int) -> float:
    """Share of hidden signs that are right, as the authors have it: no intercept, 95 % known; λ on held-out ones."""
    signs = ratings.with_values(np.where(ratings.values > ratings.values.mean(), 1.0, -1.0))
    known, hidden = signs.split(0.05, random_state=seed)
    model = tuned(OneBit, known, "-1,1", tol=1e-3, random_state=seed).model
    return float(np.mean(model.symbols(hidden.rows, hidden.cols) == hidden.values))
