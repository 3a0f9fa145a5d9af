"""Promises of every solver: seeds, interruption, ranks, starts, and parameters that it refuses."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.linalg import svd
from snapimpute.penalties import SPECTRAL
from snapimpute.solvers import SOLVERS, Info, Result
from tests.helpers import STRONG_SPECTRAL, ratings, same_bits

STEPPING = [name for name in SOLVERS if name != "sdp"]
"""Solvers that iterate."""
OBSERVATIONS = ratings((60, 40))
NAN, INF = np.nan, np.inf

pytestmark = pytest.mark.usefixtures("one_blas_thread")
every_solver = pytest.mark.parametrize("name", STEPPING)


def problem(name: str) -> si.Problem:
    """A table that the solver treats, with a discrete term where it takes one."""
    info = SOLVERS[name].info
    spectral = si.Nuclear(4.0) if "nuclear" in info.spectral else si.Rank(1.0)
    discrete = si.FractionalL0("1:5", xi=0.1, alpha=0.3) if name == "mm" else si.L1("1:5", xi=0.1)
    return si.Problem(OBSERVATIONS, spectral, discrete if info.discrete else None)


def run(name: str, **options: Any) -> Result:
    return si.solve(problem(name), name, **{"max_iter": 8, "tol": 0} | options)


def test_every_spectral_penalty_is_tried():
    """The list that tests of solvers run over has each of them, and the log-sum on both sides of λ = θ²."""
    assert {type(p) for p in STRONG_SPECTRAL} == set(SPECTRAL.values())
    assert {p.lam > p.theta**2 for p in STRONG_SPECTRAL if isinstance(p, si.LogSum)} == {True, False}


@every_solver
def test_same_seed_same_bits(name, monkeypatch):
    """Two runs with one seed agree to the last bit; another seed draws other vectors."""
    monkeypatch.setattr(svd, "WHOLE_CELLS", 0)
    first, again, other = (run(name, random_state=seed) for seed in (3, 3, 4))
    assert same_bits((first.x, first.history), (again.x, again.history))
    assert not same_bits(first.x, other.x)


@every_solver
def test_interrupted_run_returns_the_best(name):
    """Ctrl-C gives the best iterate so far, by its own measure, and the row of the history that tells of it."""
    seen = []

    def press(info: Info) -> None:
        seen.append(info.x)
        if info.iteration == 7:
            raise KeyboardInterrupt

    result = run(name, max_iter=20, callback=press)
    assert (result.status.code, result.n_iter) == ("interrupted", 7)
    assert result.x is seen[result.row]
    column = {"svt": "fit", "low-rank-sparse": "fit"}.get(name, "objective")
    assert result.history[column][result.row] == result.history[column].min()


@every_solver
def test_max_rank_holds(name):
    """No iterate has a rank above max_rank, from a start of a higher one neither; without need it changes nothing."""
    start = si.LowRank.from_dense(OBSERVATIONS.to_sparse().toarray()).truncated(6)
    ranks = [run(name, max_rank=2, x0=x0, max_iter=25).history["rank"].max() for x0 in (None, start)]
    assert max(ranks) == 2
    if "rank" not in SOLVERS[name].info.spectral or len(SOLVERS[name].info.spectral) > 1:
        assert same_bits(run(name, max_rank=100).x, run(name).x)


@every_solver
@pytest.mark.parametrize("factor", [1e3, 1e-3])
def test_any_factors_serve_as_a_start(name, factor):
    """Neither orthonormal nor few, of any size and sign: the start is the matrix that they stand for."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(60, 50)), rng.normal(size=(40, 50))
    start = si.LowRank(factor * U, rng.normal(size=50) / factor**2, factor * V)
    clean = si.LowRank.from_dense(start.to_dense())
    odd, plain = (run(name, x0=x0, max_rank=9).history["objective"] for x0 in (start, clean))
    assert odd == pytest.approx(plain, rel=1e-6)


# ---------------------------------------------------------------- parameters
OPEN = "must lie between 0 and 1 (both excluded)"
ABOVE = "must be a finite number above 0"
RANK = "must be a whole number, at least 1, or None"
REFUSED: list[tuple[str, str, str, list[Any]]] = [
    ("als altmin optspace sun-luo", "rank", RANK, [0, -2, 2.5, "3"]),
    ("svt", "tau delta", f"{ABOVE}, or None", [0.0, -1.0, NAN, INF]),
    ("low-rank-sparse", "tau beta", f"{ABOVE}, or None", [0.0, -1.0, NAN, INF]),
    ("low-rank-sparse", "delta", "must be a finite number, at least 0", [-0.1, NAN]),
    ("nmapg niapg fancl", "step_size", OPEN, [0.0, 1.0, 1.5, NAN]),
    ("nmapg", "eta", "must be at least 0 and below 1", [1.0, -0.1]),
    ("nmapg", "delta", ABOVE, [0.0]),
    ("niapg", "q", "must be a whole number, at least 0", [-1, 2.5]),
    ("fancl ais-impute", "nu", OPEN, [0.0, 1.0, -0.5]),
    ("fpc", "tau", "must lie between 0 and 2 (both excluded)", [0.0, 2.0, NAN]),
    ("fpc fpca", "eta", OPEN, [0.0, 1.0]),
    ("apgl", "fall shrink", OPEN, [0.0, 1.0]),
    ("davis-yin", "gamma", "must lie between 0 and 2 (both excluded)", [0.0, 2.0, NAN]),
    ("admm", "rho", ABOVE, [0.0, -1.0, INF]),
    ("penalty-decomposition", "gamma", "must be above 0 and at most 1", [0.0, 1.5, NAN]),
    ("penalty-decomposition mm", "fall", OPEN, [0.0, 1.0]),
    ("penalty-decomposition", "stage_tol", ABOVE, [0.0]),
    ("mm", "first", f"{ABOVE}, or None", [0.0, -1.0, NAN, INF]),
    ("optspace", "trim", "must be a number above 0", [0.0, -1.0, NAN]),
    ("sun-luo", "rho", "must be a finite number, at least 0, or None", [-1.0, NAN, INF]),
    ("apg", "beta", 'must be "paper" or "fista"', ["nesterov"]),
]


@pytest.mark.parametrize(("names", "parameters", "words", "values"), REFUSED)
def test_parameters_out_of_range_are_refused(names, parameters, words, values):
    """A parameter out of range is refused by its name, with what was given."""
    for name in names.split():
        for parameter in parameters.split():
            for value in values:
                with pytest.raises(ValueError, match=re.escape(f"{parameter} {words}, got {value!r}")):
                    SOLVERS[name](**{parameter: value})


def test_ends_of_a_range_that_belong_to_it_are_taken():
    """Infinity trims nothing, 0 means no barriers."""
    assert SOLVERS["optspace"](trim=INF).trim == INF
    assert SOLVERS["sun-luo"](rho=0).rho == 0
