"""A penalty of the user's own, two functions of numpy: it works everywhere, or is refused by its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import ArrayLike

import snapimpute as si
from snapimpute.experts.proximal.foldin import curvatures, fold_in, shrinkage
from snapimpute.linalg import tiled
from snapimpute.penalties import (
    DiscretePenalty,
    HiddenCells,
    JointPenalty,
    Line,
    MajorisedPenalty,
    Split,
    Total,
)
from snapimpute.problem import sampling
from snapimpute.solvers import SOLVERS, forecast
from tests.helpers import OwnL1, biases, complete, ratings

SHAPE = (48, 36)
L1 = si.L1("1:5", xi=0.2, weights=OwnL1.weights)
PLAIN = si.Problem(ratings(SHAPE), si.Nuclear(3.0), L1)


class OwnOnAlphabet(OwnL1):
    """The same, which says where entries are expected and what they cost at least."""

    alphabet = L1.alphabet

    @property
    def least(self) -> float:
        return float(self.value(self.alphabet.symbols).min())


class Together(DiscretePenalty):
    """A norm of all entries together, which forgets to say so."""

    def value(self, x: ArrayLike) -> np.ndarray:
        return np.asarray(np.linalg.norm(np.asarray(x)))

    def prox(self, x: ArrayLike, step: float = 1.0) -> np.ndarray:
        y = np.asarray(x, dtype=np.float64)
        return y * max(1 - step / max(float(np.linalg.norm(y)), 1e-300), 0.0)


class OwnNorm(JointPenalty):
    """The same norm, which says what it does to the cells of a matrix."""

    convex = True

    def value(self, x: ArrayLike) -> np.ndarray:
        return np.asarray(np.linalg.norm(np.asarray(x)))

    def prox(self, x: ArrayLike, step: float = 1.0) -> np.ndarray:
        y = np.asarray(x, dtype=np.float64)
        return y * self._scale(float(np.linalg.norm(y)), step)

    @staticmethod
    def _scale(norm: float, step: float) -> float:
        return max(1 - step / max(norm, 1e-300), 0.0)

    def envelope(self, x: ArrayLike, step: float = 1.0) -> np.ndarray:
        return np.asarray(self._envelope(float(np.linalg.norm(np.asarray(x))), step))

    def _envelope(self, norm: float, step: float) -> float:
        return 0.5 * norm**2 if norm <= step else step * (norm - 0.5 * step)

    def total(self, cells: HiddenCells, kind: Total, step: float) -> float:
        norm = float(np.sqrt(cells.moments().squares))
        if kind == "envelope":
            return self._envelope(norm, step)
        return step * (norm if kind == "value" else norm * self._scale(norm, step))

    def split(self, cells: HiddenCells, step: float) -> Split:
        return Split(Line(self._scale(float(np.sqrt(cells.moments().squares)), step), 0.0), None)

    def least_total(self, count: int) -> float:
        return 0.0


def solved(problem: si.Problem, solver: str, **options: Any) -> si.solvers.Result:
    return si.solve(problem, solver, max_iter=12, tol=0, **options)


def with_penalty(penalty: DiscretePenalty, offsets: bool = False) -> si.Problem:
    base = biases(SHAPE) if offsets else None
    return si.Problem(PLAIN.observations, PLAIN.spectral, penalty, base)


AWARE = [name for name in SOLVERS if name != "mm" and SOLVERS[name].objection(PLAIN) is None]
"""Solvers that treat a discrete term; MM needs a majoriser besides."""


# ---------------------------------------------------------------- it works
@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("kind", [OwnL1, OwnOnAlphabet])
@pytest.mark.parametrize("solver", AWARE)
def test_own_l1_is_l1_in_every_solver(solver, kind, offsets):
    """Iterates and history of a user's L1 are those of L1, to 1e-8, in each solver that treats a discrete term."""
    if solver in ("sdp",):
        pytest.importorskip("cvxpy")
    own, ours = (solved(with_penalty(one, offsets), solver) for one in (kind(), L1))
    assert own.history["discrete"][-1] > 0
    for name in ("objective", "fit", "spectral", "discrete"):
        assert_allclose(own.history[name], ours.history[name], rtol=1e-8)
    assert_allclose(own.x.to_dense(), ours.x.to_dense(), atol=1e-8)


def test_the_solvers_that_treat_a_discrete_term():
    """The list above holds the proximal solvers and those that store the whole matrix."""
    assert {"soft-impute", "apg", "fancl", "ais-impute", "niapg", "admm", "davis-yin", "als"} <= set(AWARE)


def test_own_penalty_among_the_columns():
    """ByColumn takes a user's penalty for some columns, and is then what it is with L1."""
    mixed = [si.ByColumn([one, None, si.L0("1:5", xi=0.1)], np.arange(SHAPE[1]) % 3) for one in (OwnL1(), L1)]
    own, ours = (solved(with_penalty(one), "apg") for one in mixed)
    assert_allclose(own.x.to_dense(), ours.x.to_dense(), atol=1e-8)
    assert_allclose(own.history["objective"], ours.history["objective"], rtol=1e-8)


def test_own_penalty_in_the_smooth_part():
    """Values of (E) and (P), a pair, a step of any length, the curvature and a dense prox are those of L1."""
    own, ours = with_penalty(OwnL1(), offsets=True), with_penalty(L1, offsets=True)
    x, y = (solved(ours, "apg").x, solved(with_penalty(L1), "apg").x)
    at = ours.at_observed(x)
    for objective in ("E", "P"):
        assert_allclose(own.objective(x, objective), ours.objective(x, objective), rtol=1e-10)
    assert_allclose(own.split_terms(x, at, 0.3).discrete, ours.split_terms(x, at, 0.3).discrete, rtol=1e-10)
    for step, gamma in ((1.0, 1.0), (1.9, 1.0), (0.3, 0.3)):
        steps = [p.smooth.gradient_step(x, at, step, gamma=gamma).to_dense() for p in (own, ours)]
        assert_allclose(*steps, atol=1e-10)
    curvature = [p.smooth.curvature(x, at, y, p.at_observed(y)) for p in (own, ours)]
    assert_allclose(*curvature, rtol=1e-8)
    dense = [p.smooth.prox_dense(x.to_dense(), 0.7) for p in (own, ours)]
    assert_allclose(*dense, atol=1e-12)


@pytest.mark.parametrize("kind", [OwnL1, OwnOnAlphabet])
def test_own_penalty_folds_in(kind):
    """Rows fold in as with L1; an alphabet brings a line and with it a curvature below 1."""
    x = si.solve(PLAIN, "apg", tol=1e-10, max_iter=2000).x
    ours = fold_in(PLAIN, x.V, shrinkage(PLAIN, x))
    problem = with_penalty(kind())
    found = fold_in(problem, x.V, shrinkage(problem, x))
    assert_allclose(found @ x.V.T, ours @ x.V.T, atol=1e-4)
    bend = curvatures(problem.discrete, SHAPE[1])
    assert (bend == 1).all() if kind is OwnL1 else ((bend > 0) & (bend < 1)).all()


def test_own_penalty_is_forecast():
    """A forecast counts the tiles of a user's penalty, and times them."""
    observations = ratings((600, 500), observed=0.05)
    own, ours = (forecast(si.Problem(observations, si.Nuclear(9.0), one), "apg") for one in (OwnL1(), L1))
    assert own.work.flops["tiles"] == ours.work.flops["tiles"] > 0
    assert own.seconds is not None
    assert own.seconds > 0


def test_own_penalty_on_a_sample(monkeypatch):
    """A sampled run with a user's penalty ends near the exact optimum, and did not compute every cell."""
    for name, size in (("LEAST_ROWS", 4), ("LEAST_COLS", 4)):
        monkeypatch.setattr(tiled, name, size)
    monkeypatch.setattr(sampling, "PAST_COST", 0)
    problem = si.Problem(ratings((200, 150), observed=0.1), si.Nuclear(30.0), OwnOnAlphabet())
    exact = si.solve(problem, "soft-impute", max_iter=60, tol=1e-6)
    sampled = si.solve(problem, "soft-impute", max_iter=60, tol=1e-6, alphabet_term="sampled")
    assert sampled.history["share"].min() < 1
    assert problem.objective(sampled.x) == pytest.approx(problem.objective(exact.x), rel=2e-3)


def test_own_penalty_resumes_with_the_same_bits(tmp_path):
    """A checkpoint knows the penalty by its class and its strength: it goes on, and refuses another strength."""
    path, problem = tmp_path / "run", with_penalty(OwnL1())
    whole = si.solve(problem, "apg", max_iter=8, tol=0)
    si.solve(problem, "apg", max_iter=3, tol=0, checkpoint=path)
    resumed = si.solve(with_penalty(OwnL1()), "apg", max_iter=8, tol=0, checkpoint=path)
    assert np.array_equal(resumed.x.to_dense(), whole.x.to_dense())
    for other in (OwnL1(xi=0.3), OwnOnAlphabet(), L1):
        with pytest.raises(ValueError, match="discrete differs"):
            si.solve(with_penalty(other), "apg", max_iter=9, tol=0, checkpoint=path)


def test_own_penalty_in_the_estimator():
    """SnapImputer takes a user's penalty and fills the table as with L1."""
    table, options = ratings((30, 20)), {"lam": 2.0, "center": None, "max_iter": 40}
    filled = [complete(table, "1:5", discrete=one, **options) for one in (OwnL1(), L1)]
    assert np.array_equal(*filled)


def test_a_penalty_of_all_entries_together():
    """A user's JointPenalty is solved by its split as by the dense method, which takes its `prox`."""
    problem = with_penalty(OwnNorm())
    x = solved(with_penalty(L1), "apg").x
    hidden = np.ones(SHAPE, dtype=bool)
    hidden[problem.observations.rows, problem.observations.cols] = False
    cells = x.to_dense()[hidden]
    assert problem.terms(x, objective="P").discrete == pytest.approx(np.linalg.norm(cells))
    assert problem.terms(x).discrete == pytest.approx(float(OwnNorm().envelope(cells)))
    stepped = problem.smooth.imputed(x, problem.at_observed(x)).to_dense()
    assert_allclose(stepped[hidden], OwnNorm().prox(cells), atol=1e-10)
    optimum = si.solve(problem, "davis-yin", tol=1e-10, max_iter=3000).x
    decomposed = si.solve(problem, "penalty-decomposition", tol=1e-7, max_iter=3000).x
    assert problem.objective(decomposed, "P") == pytest.approx(problem.objective(optimum, "P"), rel=1e-3)


class OwnWell(MajorisedPenalty):
    """`FractionalL0` by its interface alone: a penalty with an α and a majoriser that is another class."""

    def __init__(self, alpha: float, xi: float = 0.1) -> None:
        self.ours, self.alpha, self.xi = si.FractionalL0("1:5", xi, alpha), alpha, xi

    @property
    def widest(self) -> float:
        return self.ours.widest

    def with_alpha(self, alpha: float) -> OwnWell:
        return OwnWell(alpha, self.xi)

    def value(self, x: ArrayLike) -> np.ndarray:
        return self.ours.value(x)

    def prox(self, x: ArrayLike, step: float = 1.0) -> np.ndarray:
        return self.ours.prox(x, step)

    def majorised(self, x: ArrayLike, anchor: ArrayLike, step: float = 1.0) -> np.ndarray:
        return self.ours.majorised(x, anchor, step)

    def slope(self, x: ArrayLike) -> np.ndarray:
        return self.ours.slope(x)


def test_own_majoriser():
    """MM and anneal take any penalty that supplies what they need, and do with it what they do with FractionalL0."""
    both = [with_penalty(one) for one in (OwnWell(0.1), si.FractionalL0("1:5", xi=0.1, alpha=0.1))]
    own, ours = (solved(one, "mm") for one in both)
    assert_allclose(own.history["joint"], ours.history["joint"], rtol=1e-12)
    assert np.array_equal(own.x.to_dense(), ours.x.to_dense())
    paths = [list(si.solvers.anneal(one, "soft-impute", steps=3, max_iter=5, tol=0)) for one in both]
    assert [point.alpha for point in paths[0]] == [point.alpha for point in paths[1]]
    assert_allclose(paths[0][-1].result.x.to_dense(), paths[1][-1].result.x.to_dense(), atol=1e-8)


# ---------------------------------------------------------------- or is refused
def test_functions_that_do_not_act_on_entries_are_refused():
    """A penalty of all entries together that is no JointPenalty is refused when the problem is made, by its name."""
    with pytest.raises(ValueError, match=r"Together\.value must return one number for each entry.*JointPenalty"):
        with_penalty(Together())


def test_a_prox_of_another_shape_is_refused():
    """A prox that does not return as many entries is refused, by its name."""

    class Short(OwnL1):
        def prox(self, x: ArrayLike, step: float = 1.0) -> np.ndarray:
            return super().prox(x, step)[:1]

    with pytest.raises(ValueError, match=r"Short\.prox must return one number for each entry"):
        with_penalty(Short())


@pytest.mark.parametrize(("missing", "left"), [("prox", "value"), ("value", "prox")])
def test_a_penalty_without_one_of_the_two_is_no_penalty(missing, left):
    """A class that lacks the value or the prox cannot be made, and Python says which."""
    half: Any = type("Half", (DiscretePenalty,), {left: getattr(OwnL1, left)})
    with pytest.raises(TypeError, match=f"Half.*{missing}"):
        half()


def test_a_certificate_needs_the_least_value():
    """certify names the property that is missing; with it the gap is that of L1."""
    x = si.solve(PLAIN, "apg", tol=1e-9, max_iter=2000).x
    with pytest.raises(TypeError, match="OwnL1 lacks the property `least`"):
        si.certify(with_penalty(OwnL1()), x)
    own, ours = (si.certify(with_penalty(one), x) for one in (OwnOnAlphabet(), L1))
    assert own.bound == pytest.approx(ours.bound, rel=1e-9)


def test_majorise_minimise_and_annealing_name_what_they_need():
    """MM and anneal refuse a penalty without a majoriser or an α."""
    with pytest.raises(ValueError, match=r"MM needs the discrete penalty FractionalL0"):
        si.solve(with_penalty(OwnL1()), "mm")
    with pytest.raises(ValueError, match=r"not OwnL1\(xi=0\.2\)"):
        si.solve(with_penalty(OwnL1()), "mm")
    with pytest.raises(TypeError, match="only FractionalL0 has an α"):
        next(si.solvers.anneal(with_penalty(OwnL1())))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [False, True])
def test_own_penalty_on_torch(columns):
    """Torch applies a user's numpy functions through the memory of the host: the answer is that of numpy."""
    pytest.importorskip("torch", reason="torch is not installed")
    own = si.ByColumn([L1, OwnL1()], np.arange(SHAPE[1]) % 2) if columns else OwnL1()
    there = solved(with_penalty(own), "apg", backend="torch:cpu")
    here = solved(with_penalty(L1), "apg")
    assert_allclose(there.x.to_dense(), here.x.to_dense(), atol=1e-8)
    assert_allclose(there.history["objective"], here.history["objective"], rtol=1e-8)


def test_a_model_of_an_own_penalty_is_not_saved(tmp_path: Path):
    """A file of a model takes classes that it can make again, and refuses others by name."""
    table = ratings((30, 20), observed=0.7)
    imputer = si.SnapImputer("1:5", method=si.Proximal(discrete=OwnL1(), lam=2.0, center=None)).fit(table)
    with pytest.raises((TypeError, ValueError), match="OwnL1"):
        imputer.save(tmp_path / "model.snap")


def test_strength_zero_leaves_an_own_penalty_out():
    """With ξ = 0 a user's penalty is no discrete term, and its functions are never called."""

    class Broken(OwnL1):
        def value(self, x: ArrayLike) -> np.ndarray:
            raise AssertionError("called")

        prox = value  # type: ignore[assignment]

    result = solved(with_penalty(Broken(xi=0.0)), "apg")
    assert result.history["discrete"].max() == 0
    assert np.array_equal(result.x.to_dense(), solved(replace(PLAIN, discrete=None), "apg").x.to_dense())
