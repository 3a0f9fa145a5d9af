"""The recursion of Eq. (13) against published reference values, and against itself written out densely."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import snapimpute as si
from snapimpute.linalg import svd
from snapimpute.solvers import APG, Info, SoftImpute

Matrix = np.ndarray
Map = Callable[[Matrix], Matrix]


# ---------------------------------------------------------------- MovieLens-100k
class Row(NamedTuple):
    """One run of 150 iterations: NMSE after 1, 10, 50, 100, 150 of them, ranks after 1, 10, 50, 150, and (E)."""

    observed: int
    spectral: Any
    discrete: Callable[[Matrix], Any]
    nmse: tuple[float, ...]
    ranks: tuple[int, ...]
    objective: float | None
    tolerance: float = 1e-6
    double: bool = False


def no_discrete(values: Matrix) -> None:
    return None


def composed(values: Matrix) -> Any:
    return si.ComposedL1("1:5", xi=0.01)


def exact(values: Matrix) -> Any:
    return si.L1("1:5", xi=0.01)


def exact_weak(values: Matrix) -> Any:
    return si.L1("1:5", xi=0.003)


def weighted(values: Matrix) -> Any:
    return si.L1("1:5", xi=0.01, weights=5 * si.Alphabet.of("1:5").frequencies(values))


NUCLEAR, LSP = si.Nuclear(10.0), si.LogSum(lam=1500.0, theta=100.0)

TABLE = {
    "20-nuclear": Row(
        20, NUCLEAR, no_discrete, (0.96171, 0.56315, 0.12284, 0.11934, 0.11951), (411, 121, 20, 20), 36924.619
    ),
    "20-nuclear-composed": Row(
        20, NUCLEAR, composed, (0.93604, 0.28958, 0.08205, 0.08143, 0.08131), (408, 94, 24, 22), None
    ),
    "20-nuclear-exact": Row(
        20, NUCLEAR, exact, (0.93604, 0.28948, 0.08162, 0.08101, 0.08089), (408, 94, 24, 22), 144345.597, double=True
    ),
    "20-nuclear-weighted": Row(
        20, NUCLEAR, weighted, (0.93604, 0.26959, 0.07204, 0.07285, 0.07295), (408, 89, 18, 21), None
    ),
    "40-nuclear-exact": Row(
        40, NUCLEAR, exact, (0.90610, 0.18376, 0.07059, 0.07029, 0.07022), (505, 119, 56, 55), 151561.216
    ),
    "60-nuclear": Row(
        60, NUCLEAR, no_discrete, (0.90060, 0.23916, 0.07709, 0.07507, 0.07556), (556, 160, 74, 74), 54730.666
    ),
    "60-nuclear-exact": Row(
        60, NUCLEAR, exact, (0.87631, 0.13516, 0.06619, 0.06598, 0.06596), (554, 138, 83, 83), 156844.464
    ),
    # Not convex and still moving after 150 iterations: the error of 1e-2 allowed to each prox ends 1.7e-6 away.
    "20-lsp": Row(
        20,
        LSP,
        no_discrete,
        (0.94571, 0.45055, 0.10121, 0.08706, 0.07962),
        (292, 60, 6, 2),
        13193.049,
        3e-6,
        double=True,
    ),
    "20-lsp-exact": Row(
        20, LSP, exact_weak, (0.93776, 0.36218, 0.06957, 0.07019, 0.06991), (291, 54, 3, 2), 43637.802, double=True
    ),
    "60-lsp-exact": Row(
        60, LSP, exact_weak, (0.86557, 0.16047, 0.06238, 0.06160, 0.06159), (438, 80, 21, 22), 58554.775
    ),
}


@pytest.mark.slow
@pytest.mark.movielens
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE.keys())
def test_reference_table(movielens, row):
    """150 plain accelerated iterations on MovieLens-100k give the reference NMSE, ranks and objective (E)."""
    order = np.random.default_rng(0).permutation(100_000)
    train, test = np.split(order, [row.observed * 1000])
    rows, cols, values = movielens.rows[test], movielens.cols[test], movielens.values[test]
    observations = si.Observations.from_coo(
        movielens.rows[train], movielens.cols[train], movielens.values[train], movielens.shape
    )

    def score(info: Info) -> dict[str, float] | None:
        if info.iteration not in (1, 10, 50, 100, 150):
            return None
        error = info.x.entries(rows, cols) - values
        return {"nmse": float(error @ error / (values @ values))}

    problem = si.Problem(observations, row.spectral, row.discrete(observations.values))
    kind = "float64" if row.double else "float32"  # most in the precision that halves their time
    result = si.solve(problem, APG(), max_iter=150, tol=0, callback=score, evaluate_every=150, dtype=kind)

    nmse = result.history["nmse"]
    assert result.n_iter == 150
    assert nmse[[0, 9, 49, 99, 149]] == pytest.approx(row.nmse, rel=0, abs=2e-5)
    assert tuple(result.history["rank"][[0, 9, 49, 149]]) == row.ranks
    if row.objective is not None:
        assert result.history["objective"][-1] == pytest.approx(row.objective, rel=row.tolerance)


# ---------------------------------------------------------------- the recursion, written out
def soft(x: Matrix, pull: float) -> Matrix:
    return np.sign(x) * np.maximum(np.abs(x) - pull, 0)


def l1_map(symbols: list[float], pulls: list[float]) -> Map:
    """Prox of Σ_k pulls_k |u − a_k|, by trying every symbol and every stationary point between them."""
    a, w = np.array(symbols), np.array(pulls)

    def run(y: Matrix) -> Matrix:
        slopes = [w[:k].sum() - w[k:].sum() for k in range(a.size + 1)]
        tried = np.stack([np.broadcast_to(s, y.shape) for s in a] + [y - s for s in slopes])
        cost = (w * np.abs(tried[..., None] - a)).sum(-1) + 0.5 * (tried - y) ** 2
        return np.take_along_axis(tried, cost.argmin(0)[None], 0)[0]

    return run


def composed_map(symbols: list[float], pull: float) -> Map:
    """Soft thresholds about a_K first, a_1 last."""

    def run(y: Matrix) -> Matrix:
        for a in reversed(symbols):
            y = a + soft(y - a, pull)
        return y

    return run


def logsum_map(lam: float, theta: float) -> Map:
    """Prox of λ log(1 + t/θ), by comparing 0 with the larger root of t² + (θ − s) t + λ − θ s = 0."""

    def cost(t: Matrix, s: Matrix) -> Matrix:
        return lam * np.log1p(t / theta) + 0.5 * (t - s) ** 2

    def run(s: Matrix) -> Matrix:
        square = (s + theta) ** 2 - 4 * lam
        root = np.maximum((s - theta + np.sqrt(np.maximum(square, 0))) / 2, 0)
        return np.where((square >= 0) & (cost(root, s) < cost(np.zeros_like(s), s)), root, 0)

    return run


def paper_momentum() -> Iterator[float]:
    t = 1
    while True:
        yield (t - 1) / (t + 2)
        t += 1


def fista_momentum() -> Iterator[float]:
    """Beck and Teboulle: y_1 = x_0, and y_{k+1} extrapolates by (t_k − 1)/t_{k+1} from t_1 = 1 on."""
    yield 0.0
    t = 1.0
    while True:
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        yield (t - 1) / following
        t = following


def no_momentum() -> Iterator[float]:
    while True:
        yield 0.0


def dense_recursion(
    observations: Any, offsets: Matrix, spectral: Map, discrete: Map, momentum: Iterator[float]
) -> Iterator[Matrix]:
    """Iterates of Eq. (13) with whole arrays and a full SVD."""
    mask, data = np.zeros(observations.shape, bool), np.zeros(observations.shape)
    mask[observations.rows, observations.cols] = True
    data[observations.rows, observations.cols] = observations.values
    X = before = np.zeros(observations.shape)
    for beta in momentum:
        Y = X + beta * (X - before)
        Z = discrete(Y + offsets) - offsets
        U, s, Vt = np.linalg.svd(np.where(mask, data - offsets, Z), full_matrices=False)
        before, X = X, U @ (spectral(s)[:, None] * Vt)
        yield X


SYMBOLS, WEIGHTS = [1.0, 2.0, 3.0, 4.0, 5.0], [0.2, 0.5, 1.3, 2.0, 1.0]
SPECTRAL: dict[str, tuple[Any, Map]] = {
    "nuclear": (si.Nuclear(2.0), lambda s: soft(s, 2.0)),
    "lsp": (si.LogSum(lam=6.0, theta=2.0), logsum_map(6.0, 2.0)),
    "strong-nuclear": (si.Nuclear(18.0), lambda s: soft(s, 18.0)),
    "strong-lsp": (si.LogSum(lam=150.0, theta=10.0), logsum_map(150.0, 10.0)),
}
DISCRETE: dict[str, tuple[Any, Map]] = {
    "none": (None, lambda y: y),
    "l1": (si.L1("1:5", xi=0.05), l1_map(SYMBOLS, [0.05] * 5)),
    "l1-weighted": (si.L1("1:5", xi=0.05, weights=WEIGHTS), l1_map(SYMBOLS, [0.05 * w for w in WEIGHTS])),
    "l1-composed": (si.ComposedL1("1:5", xi=0.05), composed_map(SYMBOLS, 0.05)),
    "ridge": (si.Ridge(center=3.0, xi=0.1), lambda y: (y + 0.2 * 3.0) / 1.2),
}
SOLVERS = {
    "soft-impute": (SoftImpute, {}, no_momentum),
    "apg-paper": (APG, {"beta": "paper"}, paper_momentum),
    "apg-fista": (APG, {"beta": "fista"}, fista_momentum),
}
OFFSETS = ["no-offsets", "rank-2-offsets"]


def compare(
    shape: tuple[int, int], spectral: str, discrete: str, offsets: str, solver: str, max_iter: int, **options: float
) -> Any:
    """Run solver and dense recursion side by side; the result, and the distance after each iteration."""
    observations = si.datasets.low_rank_alphabet(shape, rank=2, observed=0.5, random_state=3).observations
    rng = np.random.default_rng(5)
    B = si.LowRank(rng.uniform(0.5, 1.5, (shape[0], 2)), np.array([1.0, 1.2]), rng.uniform(0, 1, (shape[1], 2)))
    B = B if offsets == "rank-2-offsets" else si.LowRank.zeros(shape)
    make, settings, momentum = SOLVERS[solver]
    naive = dense_recursion(observations, B.to_dense(), SPECTRAL[spectral][1], DISCRETE[discrete][1], momentum())

    def against_naive(info: Info) -> dict[str, float]:
        return {"distance": float(np.linalg.norm(info.x.to_dense() - next(naive)))}

    problem = si.Problem(observations, SPECTRAL[spectral][0], DISCRETE[discrete][0], B if B.rank else None)
    return si.solve(problem, make(**settings, **options), max_iter=max_iter, tol=0, callback=against_naive)


@pytest.mark.usefixtures("one_blas_thread")
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("discrete", DISCRETE)
@pytest.mark.parametrize("spectral", ["nuclear", "lsp"])
def test_iterates_equal_the_dense_recursion(spectral, discrete, offsets, solver):
    """Every one of 30 iterates is that of the recursion done with whole arrays and full SVDs."""
    result = compare((17, 13), spectral, discrete, offsets, solver, 30)
    assert result.history["rank"][-1] > 1, "the problem must not be trivial"
    assert result.history["distance"].max() < 1e-8


@pytest.mark.usefixtures("one_blas_thread")
@pytest.mark.parametrize("solver", ["soft-impute", "apg-paper"])
@pytest.mark.parametrize("discrete", DISCRETE)
@pytest.mark.parametrize("spectral", ["strong-nuclear", "strong-lsp"])
def test_partial_svds_keep_to_their_accuracy(spectral, discrete, solver, monkeypatch):
    """With Krylov steps of accuracy 1e-6 the iterates stay within the errors that these may add up to."""
    monkeypatch.setattr(svd, "WHOLE_CELLS", 0)
    result = compare((90, 70), spectral, discrete, "rank-2-offsets", solver, 15, accuracy=1e-6)
    allowed = 1e-6 * np.cumsum(result.history["certificate"])  # a step's error is a fraction of the last ‖X − Y‖
    assert (result.history["distance"] <= allowed + 1e-10).all()
