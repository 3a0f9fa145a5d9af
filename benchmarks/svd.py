"""Ways to the singular triplets that a step needs: block Krylov, power steps, randomised SVD, Lanczos.

The matrices are those that APG thresholds in its iterations 2, 10 and 50 on
MovieLens-100k (20 % observed, λ = 10, without and with a discrete penalty), and
in 2 and 10 at 20,000×10,000 with 2 million observed. What the iteration asks of
`partial_svd` (all triplets above the threshold, the tolerance, the warm start)
is recorded and asked of every method. The others are helped: they are told the
rank, and Lanczos does not have to make sure that nothing else is above the
threshold. Errors are computed afterwards in one way for all: the residuals on
both sides over the tolerance, and the error of the thresholded matrix over the
length of the step, against a dense SVD (for the large one against `partial_svd`
at a far smaller tolerance).

What came out, on two busy cores (passes and columns do not depend on that):

* A warm start is worth the most: power steps on a random block take 2 to 5 times
  the columns of those on a warm one.
* From the same start Krylov needs half to three quarters of the columns of power
  steps where more than one round is needed, and as many where one is enough.
* Lanczos multiplies the fewest columns in iterations 10 and 50 of MovieLens, but
  one at a time: four to seventy times slower than `partial_svd` where a pass goes
  over all cells (discrete) or many entries (large). On the plain matrix at
  iteration 50 (rank 20) a column costs next to nothing, and it is ahead if it is
  told the rank: 17 ms (ARPACK) and 11 ms (PROPACK) against 20 ms, on one thread.
* PROPACK is 44 times less exact than asked at discrete 50: its products with A and
  Aᵀ are made of float32 tiles and do not match to float64 rounding. On the same
  matrix stored it is exact. The block methods do not mind.
* `partial_svd` is the fastest or level on the others except plain 10 (rank 121),
  where power steps take half its time: after three passes it gives up for the
  whole space.
"""

from __future__ import annotations

import copy
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, svds

import snapimpute as si
from common import save, show
from snapimpute.base.threads import single_threaded_blas
from snapimpute.data.datasets import DatasetUnavailable
from snapimpute.experts.proximal.offsets import offsets
from snapimpute.linalg import LowRank, MatrixOperator, partial_svd
from snapimpute.linalg.svd import GUARD, orthonormal
from snapimpute.solvers import APG
from snapimpute.solvers.base import Context
from snapimpute.solvers.proximal import gradient as proximal

LAM, XI, ITERATIONS = 10.0, 0.01, (2, 10, 50)
LARGE_SHAPE, LARGE_OBSERVED, LARGE_LAM, LARGE_ITERATIONS = (20_000, 10_000), 0.01, 38.0, (2, 10)
REPEATS, ENOUGH_SECONDS, MOST_ROUNDS = 5, 3.0, 60
Array = np.ndarray[Any, np.dtype[np.float64]]


class Counted(MatrixOperator):
    """An operator that counts the products with it, and their columns."""

    def __init__(self, operator: MatrixOperator) -> None:
        self.operator, self.shape = operator, operator.shape
        self.passes = self.columns = 0

    def matmat(self, B: Array) -> Array:
        self._count(B)
        return self.operator.matmat(B)

    def rmatmat(self, C: Array) -> Array:
        self._count(C)
        return self.operator.rmatmat(C)

    def _count(self, block: Array) -> None:
        self.passes += 1
        self.columns += block.shape[1]


@dataclass(frozen=True)
class Asked:
    """Task that an iteration sets `partial_svd`, in its own words, the right answer, and how far the step leads."""

    iteration: int
    operator: MatrixOperator
    k: int
    options: dict[str, Any]
    length: float = math.nan
    truth: LowRank | None = None

    @property
    def above(self) -> float:
        return float(self.options["above"])

    @property
    def tol(self) -> float:
        return float(self.options["tol"])

    @property
    def warm(self) -> Array:
        start = self.options["warm_start"]
        return np.zeros((self.operator.shape[1], 0)) if start is None else start

    @property
    def rank(self) -> int:
        assert self.truth is not None  # noqa: S101
        return self.truth.rank

    def ask(self, operator: MatrixOperator, **changes: Any) -> Any:
        """Call `partial_svd`; the random numbers are the same every time."""
        return partial_svd(operator, self.k, **(copy.deepcopy(self.options) | changes))


def recorded(problem: si.Problem, iterations: tuple[int, ...]) -> list[Asked]:
    """Run APG and keep what the given iterations ask of `partial_svd`."""
    calls: list[Asked] = []
    kept = []

    def spy(operator: MatrixOperator, k: int, **options: Any) -> Any:
        calls.append(Asked(len(calls) + 1, operator, k, copy.deepcopy(options)))
        return partial_svd(operator, k, **options)

    solver, context = APG(), Context(None, 0)
    state = solver.init(problem, LowRank.zeros(problem.shape), context)
    original, proximal.partial_svd = proximal.partial_svd, spy  # type: ignore[attr-defined]
    try:
        for iteration in range(1, max(iterations) + 1):
            state = solver.step(problem, state, context)
            if iteration in iterations:
                kept.append(replace(calls[-1], iteration=iteration, length=state.change))
    finally:
        proximal.partial_svd = original  # type: ignore[attr-defined]
    return [replace(asked, truth=right_answer(asked)) for asked in kept]


def right_answer(asked: Asked) -> LowRank:
    """All triplets above the threshold: by a dense SVD, or for a large matrix by a far smaller tolerance."""
    m, n = asked.operator.shape
    if m * n > 1e7:
        truth: LowRank = asked.ask(asked.operator, tol=1e-9 * asked.tol, max_passes=400).x
        return truth
    whole = LowRank.from_dense(asked.operator.to_dense())
    return whole.truncated(int((whole.s > asked.above).sum()))


# -------------------------------------------------------------------- the methods
def ours(A: MatrixOperator, asked: Asked) -> LowRank:
    x: LowRank = asked.ask(A).x
    return x


def warm_power(A: MatrixOperator, asked: Asked) -> LowRank:
    """Method of AIS-Impute's authors: power steps on the block of the iteration before."""
    return power_steps(A, asked, asked.warm)


def random_power(A: MatrixOperator, asked: Asked) -> LowRank:
    """Halko, Martinsson, Tropp 2011: power steps on a random block."""
    return power_steps(A, asked, asked.warm[:, :0])


def power_steps(A: MatrixOperator, asked: Asked, start: Array) -> LowRank:
    """V ← the right vectors of AᵀQ with Q an orthonormal basis of AV, until the error is small enough.

    The block has the rank sought, which is told, and ten vectors more. That of
    `partial_svd` holds here too: Aᵀu = σv exactly, and AV, which the next step
    needs anyway, gives Av − σu.
    """
    n, width = A.shape[1], min(asked.rank + GUARD, *A.shape)
    fresh = np.random.default_rng(1).standard_normal((n, max(width - start.shape[1], 0)))
    image = A.matmat(orthonormal(np.hstack([start[:, :width], fresh]))[0])
    for _ in range(MOST_ROUNDS):
        Q, _ = orthonormal(image)
        V, s, Zt = np.linalg.svd(A.rmatmat(Q), full_matrices=False)
        U = Q @ Zt.T
        image = A.matmat(V)
        errors = np.linalg.norm(image - U * s, axis=0)
        kept = int((s > asked.above).sum())
        over = np.maximum(s[kept:] + errors[kept:] - asked.above, 0.0)
        if math.hypot(*errors[:kept], *over) <= asked.tol:
            break
    return LowRank(U[:, :kept], s[:kept], V[:, :kept])


def lanczos(solver: str, warm: bool) -> Callable[[MatrixOperator, Asked], LowRank]:
    """scipy's svds, told how many triplets there are and how exact each has to be."""

    def work(A: MatrixOperator, asked: Asked) -> LowRank:
        m, n = A.shape
        linear = LinearOperator(
            (m, n),
            matvec=lambda v: A.matmat(v.reshape(n, 1))[:, 0],
            rmatvec=lambda u: A.rmatmat(u.reshape(m, 1))[:, 0],
            matmat=A.matmat,
            rmatmat=A.rmatmat,
            dtype=np.float64,
        )
        start = None
        if warm and asked.warm.shape[1]:
            start = asked.warm.sum(axis=1)
            start = A.matmat(start[:, None])[:, 0] if solver == "propack" or m < n else start
        assert asked.truth is not None  # noqa: S101
        tol = asked.tol / float(np.linalg.norm(asked.truth.s))
        U, s, Vt = svds(linear, k=asked.rank, tol=tol, v0=start, solver=solver, rng=np.random.default_rng(0))
        order = np.argsort(s)[::-1]
        return LowRank(U[:, order], s[order], Vt[order].T)

    return work


METHODS: dict[str, Callable[[MatrixOperator, Asked], LowRank]] = {
    "partial_svd (block Krylov, warm)": ours,
    "power steps, warm": warm_power,
    "randomised, power steps": random_power,
    "Lanczos (ARPACK)": lanczos("arpack", warm=False),
    "Golub-Kahan (PROPACK), warm": lanczos("propack", warm=True),
}


# -------------------------------------------------------------------- the measurements
def measured(label: str, asked: Asked, name: str) -> dict[str, Any]:
    """Seconds (median), passes and columns, and errors, each computed in the same way for all."""
    seconds: list[float] = []
    with single_threaded_blas():
        while len(seconds) < REPEATS and sum(seconds) < ENOUGH_SECONDS:
            A = Counted(asked.operator)
            begin = time.perf_counter()
            found = METHODS[name](A, asked)
            seconds.append(time.perf_counter() - begin)
    row: dict[str, Any] = {"matrix": label, "iteration": asked.iteration, "rank": asked.rank, "method": name}
    row |= {"seconds": statistics.median(seconds), "passes": A.passes, "columns": A.columns, "found": found.rank}
    return row | errors(asked, found)


def errors(asked: Asked, found: LowRank) -> dict[str, float]:
    """‖(AV − US, AᵀU − VS)‖ over what was asked, and the error of the thresholded matrix over the step's length."""
    assert asked.truth is not None  # noqa: S101
    right = asked.operator.matmat(found.V) - found.U * found.s
    left = asked.operator.rmatmat(found.U) - found.V * found.s
    got, wanted = (replace(x, s=np.maximum(x.s - asked.above, 0.0)) for x in (found, asked.truth))
    backward = math.hypot(float(np.linalg.norm(right)), float(np.linalg.norm(left)))
    return {"error / asked": backward / asked.tol, "prox error / step": got.distance(wanted) / asked.length}


def movielens() -> dict[str, list[Asked]]:
    try:
        data = si.datasets.movielens_100k()
    except DatasetUnavailable as err:
        sys.exit(f"this benchmark needs MovieLens-100k: {err}")
    cells = np.random.default_rng(0).permutation(100_000)[:20_000]
    observed = si.Observations.from_coo(data.rows[cells], data.cols[cells], data.values[cells], data.shape)
    plain = si.Problem(observed, si.Nuclear(LAM))
    discrete = si.Problem(observed, si.Nuclear(LAM), si.L1("1:5", xi=XI))
    return {"plain": recorded(plain, ITERATIONS), "discrete": recorded(discrete, ITERATIONS)}


def large() -> dict[str, list[Asked]]:
    data = si.datasets.low_rank_alphabet(LARGE_SHAPE, rank=20, alphabet="1:5", observed=LARGE_OBSERVED)
    base = offsets(data.observations, "mean")
    problem = si.Problem(data.observations, si.Nuclear(LARGE_LAM), offsets=base)
    return {"large": recorded(problem, LARGE_ITERATIONS)}


def main() -> None:
    every = []
    for title, make in (
        (f"MovieLens-100k, 20 % observed, λ = {LAM:g}", movielens),
        (f"{LARGE_SHAPE[0]}×{LARGE_SHAPE[1]}, {LARGE_OBSERVED:.0%} observed, λ = {LARGE_LAM:g}", large),
    ):
        rows = [measured(label, one, name) for label, asked in make().items() for one in asked for name in METHODS]
        show(f"the triplets that a step of APG asks for: {title}", rows)
        every += rows
    save("svd", every)


if __name__ == "__main__":
    main()
