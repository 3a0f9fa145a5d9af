"""Precision: a float32 run is float32 throughout and nearly as accurate; a float64 run may have float32 tiles."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import snapimpute as si
from snapimpute.linalg import LowRank, MappedLowRank, Sparse, partial_svd, tiled
from snapimpute.linalg.backend import Accuracy
from snapimpute.linalg.tiled import SINGLE
from snapimpute.problem import Problem, SmoothPart, sampling
from snapimpute.solvers import APG, FPC, SOLVERS, FaNCL, SoftImpute, Solver
from snapimpute.solvers.proximal import continuation
from snapimpute.solvers.proximal import gradient as proximal

pytestmark = pytest.mark.slow

SMALL, LARGE = (60, 40), (210, 170)  # in the larger one partial SVDs iterate
MUCH = 1000
"""Elements of an array that must not be of float64."""

SINGLE_TYPE, DOUBLE_TYPE = np.dtype(np.float32), np.dtype(np.float64)


# ---------------------------------------------------------------- tools
def observed(shape: tuple[int, int]) -> si.Observations:
    return si.datasets.low_rank_alphabet(shape, 2, observed=0.4).observations


def biases(shape: tuple[int, int]) -> LowRank:
    rng = np.random.default_rng(4)
    left, right = np.ones((shape[0], 2)), np.ones((shape[1], 2))
    left[:, 0], right[:, 1] = rng.standard_normal(shape[0]), 2.5 + 0.3 * rng.standard_normal(shape[1])
    return LowRank(left, np.array([0.3, 1.0]), right)


def problem_for(name: str, shape: tuple[int, int], discrete: bool, offsets: bool = False) -> Problem:
    """A problem that a solver treats, about as hard for each."""
    kind = SOLVERS[name]
    spectral = si.Nuclear(0.05 * sum(shape)) if "nuclear" in kind.info.spectral else si.Rank(2.0)
    penalty: Any = si.L1("1:5", xi=0.05) if discrete else None
    if name == "mm":
        penalty = si.FractionalL0("1:5", xi=0.05, alpha=0.3)
    return Problem(observed(shape), spectral, penalty, biases(shape) if offsets else None)


IN_SINGLE = [name for name, kind in SOLVERS.items() if kind.single]
PROXIMAL = [name for name in IN_SINGLE if issubclass(SOLVERS[name], proximal.ProximalSolver)]
KINDS = {
    "plain": {"discrete": False},
    "discrete": {"discrete": True},
    "offsets": {"discrete": False, "offsets": True},
    "discrete with offsets": {"discrete": True, "offsets": True},
}


class Spy:
    """Watches the products: which precisions their arrays have, and what partial SVDs cost."""

    def __init__(self) -> None:
        self.large: set[tuple[str, np.dtype]] = set()
        self.tiles: list[np.dtype] = []
        self.passes: list[int] = []

    def note(self, where: str, *values: Any) -> None:
        for value in values:
            if isinstance(value, tuple):
                self.note(where, *value)
            elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > MUCH:
                self.large.add((where, value.dtype))

    def product(self, where: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def run(operator: Any, *blocks: Any) -> Any:
            out = method(operator, *blocks)
            parts = [getattr(operator, name, None) for name in ("U", "V", "values")]
            self.note(where, *parts, *blocks, out)
            return out

        return run

    def svd(self, operator: Any, *arguments: Any, **options: Any) -> Any:
        out = partial_svd(operator, *arguments, **options)
        self.note("partial SVD", operator.dtype, options.get("warm_start"), out.x.U, out.x.V, out.subspace)
        assert out.x.s.dtype == out.subspace.dtype == operator.dtype
        assert out.passes <= max(options.get("max_passes", 60), 3) + 2
        self.passes.append(out.passes)
        return out


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    watch = Spy()
    for kind in (Sparse, LowRank, MappedLowRank):
        for name in ("matmat", "rmatmat", "both"):
            if name in vars(kind):
                monkeypatch.setattr(kind, name, watch.product(f"{kind.__name__}.{name}", vars(kind)[name]))
    monkeypatch.setattr(LowRank, "entries", watch.product("LowRank.entries", LowRank.entries))
    for module in (proximal, continuation):
        monkeypatch.setattr(module, "partial_svd", watch.svd)
    begin = MappedLowRank.__init__

    def made(self: MappedLowRank, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        watch.tiles.append(self.tile_dtype)

    monkeypatch.setattr(MappedLowRank, "__init__", made)
    for name, value in {"LEAST_ROWS": 4, "LEAST_COLS": 4}.items():
        monkeypatch.setattr(tiled, name, value)  # small tables are worth sampling, too
    monkeypatch.setattr(sampling, "PAST_COST", 0)
    return watch


def dtypes(x: LowRank) -> set[np.dtype]:
    return {x.U.dtype, x.s.dtype, x.V.dtype}


# ---------------------------------------------------------------- float32 from end to end
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROXIMAL)
def test_no_large_float64_array_in_products(name, kind, spy):
    """In a float32 run all blocks of all products, all tiles and all factors of partial SVDs are float32."""
    problem = problem_for(name, LARGE, **KINDS[kind])
    result = si.solve(problem, name, dtype="float32", max_iter=6, tol=0)
    assert dtypes(result.x) == {SINGLE_TYPE}
    assert spy.large
    assert {where for where, dtype in spy.large if dtype != SINGLE_TYPE} == set()
    assert set(spy.tiles) <= {SINGLE_TYPE}
    assert bool(spy.tiles) == KINDS[kind]["discrete"]
    assert len(spy.passes) >= 6


def test_the_spy_sees_float64(spy):
    """The same watch on a float64 run finds float64 arrays, in every place that it watches."""
    si.solve(problem_for("soft-impute", LARGE, discrete=True), SoftImpute(), max_iter=3, tol=0)
    places = {where for where, dtype in spy.large if dtype == DOUBLE_TYPE}
    assert places >= {"Sparse.matmat", "LowRank.matmat", "MappedLowRank.matmat", "partial SVD", "LowRank.entries"}


@pytest.mark.parametrize("solver", [APG(), SoftImpute(), FPC()], ids=lambda s: s.name)
def test_no_large_float64_array_in_a_sampled_run(solver, spy):
    """The same for a sampled run, with what is kept of the past."""
    problem = problem_for(solver.name, LARGE, discrete=True, offsets=True)
    result = si.solve(problem, solver, dtype="float32", alphabet_term="sampled", max_iter=6, tol=0)
    assert result.history["share"].min() < 1
    assert dtypes(result.x) == {SINGLE_TYPE}
    assert {where for where, dtype in spy.large if dtype != SINGLE_TYPE} == set()
    assert set(spy.tiles) == {SINGLE_TYPE}


def test_a_start_of_another_precision_is_converted(spy):
    """A warm start in float64 does not make a float32 run one of float64, nor the other way round."""
    problem = problem_for("apg", LARGE, discrete=True)
    start = si.solve(problem, APG(), max_iter=3, tol=0).x
    spy.large.clear()
    spy.tiles.clear()
    single = si.solve(problem, APG(), x0=start, dtype="float32", max_iter=3, tol=0)
    assert dtypes(single.x) == {SINGLE_TYPE}
    assert {where for where, dtype in spy.large if dtype != SINGLE_TYPE} == set()
    double = si.solve(problem, APG(), x0=single.x, max_iter=3, tol=0)
    assert dtypes(double.x) == {DOUBLE_TYPE}


# ---------------------------------------------------------------- what it costs in accuracy
ACCURATE: list[Solver[Any]] = [
    *(SOLVERS[name]() for name in PROXIMAL if name not in ("fancl", "fpca")),
    FaNCL(nu=0.8),
]


@pytest.mark.parametrize("solver", ACCURATE, ids=lambda s: s.name)
@pytest.mark.parametrize("kind", ["plain", "discrete with offsets"])
def test_convex_problems_are_solved_as_well(solver, kind):
    """Run to tol = 1e-5, the objective is within 1e-5 of float64 and X within 1e-3."""
    problem = problem_for(solver.name, SMALL, **KINDS[kind])
    double, single = (si.solve(problem, solver, dtype=dtype, tol=1e-5) for dtype in ("float64", "float32"))
    assert double.status.converged
    assert single.status.converged
    assert abs(single.objective / double.objective - 1) <= 1e-5
    exact = problem.objective(single.x.astype(np.float64))
    assert abs(exact / double.objective - 1) <= 1e-5  # not only what float32 says of itself
    assert double.x.distance(single.x.astype(np.float64)) <= 1e-3 * double.x.norm()


@pytest.mark.parametrize("solver", [APG(), SOLVERS["ais-impute"](), SOLVERS["niapg"]()], ids=lambda s: s.name)
def test_convex_problems_with_partial_svds(solver, spy):
    """The same where partial SVDs iterate, and these end: in no more passes than float64 takes, and a few."""
    problem = problem_for(solver.name, LARGE, discrete=True)
    double = si.solve(problem, solver, tol=1e-4)
    passes, count = sum(spy.passes), len(spy.passes)
    spy.passes.clear()
    single = si.solve(problem, solver, tol=1e-4, dtype="float32")
    assert double.status.converged
    assert single.status.converged
    assert abs(single.objective / double.objective - 1) <= 1e-5
    assert double.x.distance(single.x.astype(np.float64)) <= 1e-3 * double.x.norm()
    assert sum(spy.passes) / len(spy.passes) <= 1.5 * passes / count + 1


@pytest.mark.parametrize("name", PROXIMAL)
def test_float32_runs_end(name, spy):
    """A tolerance that float32 cannot reach costs no more than max_iter steps, each of a bounded number of passes."""
    problem = problem_for(name, LARGE, discrete=False)
    result = si.solve(problem, name, dtype="float32", tol=1e-12, max_iter=40)
    assert result.n_iter <= 40
    last = spy.passes[-5:]
    assert max(last) <= 25, "late steps begin at a good subspace and a few passes do"
    assert np.isfinite(result.objective)


def test_partial_svd_in_float32_ends():
    """An SVD that is asked for more than float32 holds ends when rounding is all that is left."""
    operator = Sparse(observed((400, 360)).astype(np.float32))
    svd = partial_svd(operator, 2, above=100.0, tol=0.0, rng=np.random.default_rng(0))
    assert svd.passes < 40
    assert 0 < svd.residual < 1e-5 * svd.x.s[0]  # it did not take the whole space instead
    exact = np.linalg.svd(operator.to_dense().astype(float), compute_uv=False)[: svd.x.rank]
    assert_allclose(svd.x.s, exact, rtol=1e-5)
    assert dtypes(svd.x) == {SINGLE_TYPE}


# ---------------------------------------------------------------- every solver
DOUBLE = ("davis-yin", "admm", "penalty-decomposition", "mm", "als", "sdp", "altmin", "optspace", "sun-luo")
"""Solvers that compute in float64."""


def test_every_solver_is_one_or_the_other():
    """The lists have every solver of the registry once; all proximal ones but one compute in float32."""
    assert sorted((*IN_SINGLE, *DOUBLE)) == sorted(SOLVERS)
    others = [
        name for name, kind in SOLVERS.items() if issubclass(kind, proximal.ProximalSolver) and name not in PROXIMAL
    ]
    assert others == ["penalty-decomposition"]  # its stages do not settle in float32


@pytest.mark.parametrize("name", DOUBLE)
def test_solver_refuses_float32(name, monkeypatch):
    """Any other says before any work, by name or as an object, that it cannot, and which ones can."""
    kind = SOLVERS[name]
    problem = problem_for(name, (8, 6), discrete=kind.info.discrete)

    def never(*arguments: Any) -> None:
        raise AssertionError("begun")

    monkeypatch.setattr(kind, "init", never)
    message = (
        f'{kind.__name__} computes in float64: use dtype="float64", or a solver that can do with float32 '
        f"({', '.join(IN_SINGLE)})"
    )
    for solver in (name, kind()):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            si.solve(problem, solver, dtype="float32", max_iter=5)


@pytest.mark.parametrize("name", DOUBLE)
def test_solver_in_float64_returns_float64(name):
    """In float64 these solvers run, and give float64 factors."""
    if name == "sdp":
        pytest.importorskip("cvxpy")
    problem = problem_for(name, (8, 6) if name == "sdp" else SMALL, discrete=SOLVERS[name].info.discrete)
    result = si.solve(problem, name, max_iter=5, tol=0)
    assert dtypes(result.x) == {DOUBLE_TYPE}
    assert np.isfinite(result.objective)


@pytest.mark.parametrize("name", IN_SINGLE)
def test_float32_gives_nearly_the_same(name):
    """A solver asked for float32 has float32 factors and ends near where float64 ends."""
    problem = problem_for(name, SMALL, discrete=SOLVERS[name].info.discrete)
    double, single = (si.solve(problem, name, dtype=d, max_iter=30, tol=0) for d in ("float64", "float32"))
    assert (dtypes(single.x), single.settings["dtype"]) == ({SINGLE_TYPE}, "float32")
    assert double.x.distance(single.x.astype(np.float64)) <= 1e-2 * double.x.norm()
    assert_allclose(single.objective, double.objective, rtol=1e-4)


# ---------------------------------------------------------------- data in another precision
def test_observations_share_their_pointers():
    """The same cells in another precision, or with other values, have the same pointers, not copies of them."""
    obs = observed(SMALL)
    pointers = obs.by_row, obs.by_col
    for other in (obs.astype(np.float32), obs.with_values(obs.values + 1), obs.astype("float32").astype("float64")):
        assert other.by_row is pointers[0]
        assert other.by_col is pointers[1]
        assert other.rows is obs.rows
        assert other.cols is obs.cols


def test_observations_in_another_precision():
    """astype converts the values and nothing else, gives the object itself where it can, and stays read-only."""
    obs = observed(SMALL)
    single = obs.astype(np.float32)
    assert single.values.dtype == np.float32
    assert not single.values.flags.writeable
    assert_array_equal(single.values, obs.values.astype(np.float32))
    assert obs.astype(np.float64) is obs
    assert single.astype("float32") is single
    assert_array_equal(single.by_col.indices, obs.by_col.indices)  # made where it was not there yet
    product = Sparse(single).rmatmat(np.ones((SMALL[0], 2), np.float32))
    assert product.dtype == np.float32
    assert_allclose(product, Sparse(obs).rmatmat(np.ones((SMALL[0], 2))), rtol=1e-6)


def test_low_rank_in_another_precision():
    """astype converts all three factors, and gives the matrix itself only where all three have the precision."""
    x = biases(SMALL)
    single = x.astype(np.float32)
    assert dtypes(single) == {SINGLE_TYPE}
    assert x.astype("float64") is x
    assert single.astype(np.float32) is single
    mixed = LowRank(single.U, x.s, single.V)
    assert dtypes(mixed.astype(np.float32)) == {SINGLE_TYPE}
    assert_allclose(single.to_dense(), x.to_dense(), rtol=1e-5, atol=1e-6)
    assert LowRank.zeros(SMALL, np.float32).dtype == LowRank.constant(SMALL, 2.0, np.float32).dtype == np.float32


def test_problem_in_another_precision():
    """astype converts the observations and the offsets of a problem; all else is the same."""
    problem = problem_for("apg", SMALL, discrete=True, offsets=True)
    single = problem.astype("float32")
    assert single.dtype == single.targets.dtype == single.offsets.dtype == np.float32
    assert single.discrete is problem.discrete
    assert single.spectral is problem.spectral
    assert problem.astype(np.float64) is problem
    x = LowRank.constant(SMALL, 0.3)
    assert_allclose(single.objective(x.astype(np.float32)), problem.objective(x), rtol=1e-6)
    assert single.at_observed(x.astype(np.float32)).dtype == np.float32


# ---------------------------------------------------------------- float32 tiles in float64 runs
@pytest.fixture
def worth_single(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is worth float32 tiles."""
    monkeypatch.setattr(tiled, "WORTH_SINGLE", 0)


def rating_like(shape: tuple[int, int], seed: int) -> LowRank:
    rng = np.random.default_rng(seed)
    noise = LowRank(rng.standard_normal((shape[0], 4)), np.full(4, 0.6), rng.standard_normal((shape[1], 4)))
    return LowRank.combine([1.0, 1.0], [noise, LowRank.constant(shape, 3.0)])


@pytest.mark.parametrize(
    "penalty", [si.L1("1:5", xi=0.3), si.L1([1, 2.5, 5], xi=0.2), si.L1("1:5", xi=5.0)], ids=repr
)
def test_error_of_float32_tiles(penalty, worth_single):
    """The error that is stated for float32 tiles bounds the real one, which is there."""
    problem = Problem(observed(LARGE), si.Nuclear(3.0), penalty)
    for seed in range(3):
        y = rating_like(LARGE, seed)
        accuracy = Accuracy(error=1.0)
        seen = problem.at_observed(y)
        coarse, exact = (problem.smooth.gradient_step(y, seen, 1.0, accuracy=one) for one in (accuracy, Accuracy()))
        real = np.linalg.norm(coarse.to_dense() - exact.to_dense())
        assert 0 < real <= coarse.error == SINGLE * y.norm()
        assert exact.error == 0


def tile_error(problem: Problem, y: LowRank, accuracy: Accuracy) -> float:
    return problem.smooth.gradient_step(y, problem.at_observed(y), 1.0, accuracy=accuracy).error


@pytest.mark.parametrize("biased", [False, True])
def test_float32_tiles_only_where_the_error_is_allowed(biased, worth_single, spy, monkeypatch):
    """float32 tiles serve while the error that a step allows is larger than theirs, and not one step longer."""
    problem = problem_for("apg", SMALL, discrete=True, offsets=biased)
    expected: list[np.dtype] = []
    found: list[np.dtype] = []
    gradient_step = SmoothPart.gradient_step

    def watched(self: SmoothPart, y: LowRank, *arguments: Any, **options: Any) -> Any:
        accuracy = options.get("accuracy", Accuracy())
        before = len(spy.tiles)
        out = gradient_step(self, y, *arguments, **options)
        found.append(spy.tiles[before])
        allowed = 0 < SINGLE * self.with_offsets(y).norm() <= accuracy.error  # of 0, float64 tiles are exact as well
        expected.append(SINGLE_TYPE if allowed else DOUBLE_TYPE)
        return out

    monkeypatch.setattr(SmoothPart, "gradient_step", watched)
    result = si.solve(problem, APG(), tol=1e-8, max_iter=300)
    assert dtypes(result.x) == {DOUBLE_TYPE}
    assert found == expected
    assert found[1] == SINGLE_TYPE
    assert found[-1] == DOUBLE_TYPE


@pytest.mark.parametrize("solver", [APG(), SOLVERS["ais-impute"](), SOLVERS["nmapg"]()], ids=lambda s: s.name)
def test_float32_tiles_lead_to_the_same_optimum(solver, monkeypatch, spy):
    """Run on, a solver with float32 tiles at first ends at the objective of one with float64 tiles, to 1e-9."""
    problem = problem_for(solver.name, SMALL, discrete=True)
    objectives = []
    for worth in (0, 1 << 60):
        monkeypatch.setattr(tiled, "WORTH_SINGLE", worth)
        spy.tiles.clear()
        objectives.append(si.solve(problem, solver, tol=1e-8, max_iter=400).objective)
        assert (SINGLE_TYPE in spy.tiles) == (worth == 0)
    assert abs(objectives[0] / objectives[1] - 1) <= 1e-9


def test_float32_tiles_count_in_the_certificate(worth_single):
    """The certificate of a step with float32 tiles is larger by their error."""
    problem = problem_for("soft-impute", LARGE, discrete=True)
    history = si.solve(problem, SoftImpute(), max_iter=3, tol=0).history
    assert np.isfinite(history["certificate"]).all()
    y = rating_like(LARGE, 0)
    assert tile_error(problem, y, Accuracy(error=1.0)) > 0
    assert tile_error(problem, y, Accuracy(error=1e-9)) == 0
    assert tile_error(problem, y, Accuracy()) == 0
    half = problem.smooth.gradient_step(y, problem.at_observed(y), 0.5, accuracy=Accuracy(error=1.0))
    assert half.error == 0.5 * tile_error(problem, y, Accuracy(error=1.0))


def test_float32_tiles_are_for_large_convex_float64_problems(monkeypatch, spy):
    """Where the prox jumps, on a small table, and in float32 itself, tiles have the precision of the problem."""
    jumping = Problem(observed(SMALL), si.Nuclear(5.0), si.L0("1:5", xi=0.05))
    convex = problem_for("apg", SMALL, discrete=True)
    for problem, worth in ((jumping, 0), (convex, 1 << 60)):
        monkeypatch.setattr(tiled, "WORTH_SINGLE", worth)
        spy.tiles.clear()
        si.solve(problem, APG(), max_iter=3, tol=0)
        assert set(spy.tiles) == {DOUBLE_TYPE}
    monkeypatch.setattr(tiled, "WORTH_SINGLE", 0)
    y = rating_like(SMALL, 0)
    assert tile_error(convex.astype("float32"), y.astype("float32"), Accuracy(error=1.0)) == 0
