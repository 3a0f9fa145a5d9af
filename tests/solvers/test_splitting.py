"""Solvers for (P) itself: Davis–Yin and ADMM reach the modelling tool's optimum, penalty decomposition nearly."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.linalg import svd
from snapimpute.penalties import DiscretePenalty
from snapimpute.problem.losses import Multinomial
from snapimpute.solvers import ADMM, DavisYin, PenaltyDecomposition, Result, Solver, fitting
from snapimpute.solvers.base import Context
from snapimpute.solvers.proximal.gradient import Move, Point
from snapimpute.solvers.splitting import dense as splitting
from tests.helpers import dense_offsets as base
from tests.helpers import ratings
from tests.solvers.dense import distance_to_stationary, hidden, least_as_stated

SHAPE = (12, 10)
ALPHABETS = {2: "-1,1", 3: "0,1,2", 5: "1:5"}
WEIGHTS = {2: [0.4, 1.6], 3: [0.3, 2.0, 0.7], 5: [0.2, 0.5, 1.3, 2.0, 1.0]}
COLUMNS = [0, 1, 0, 0, 2, 1, 1, 0, 0, 0]
KINDS = ["l1", "weighted", "l2", "columns"]
EXACT = [DavisYin(), DavisYin(gamma=1.7), ADMM(), ADMM(rho=0.3)]
SLOW = [DavisYin(gamma=0.4), ADMM(rho=3.0)]
every_exact = pytest.mark.parametrize("solver", EXACT, ids=repr)
every_kind = pytest.mark.parametrize("kind", KINDS)


pytestmark = [pytest.mark.usefixtures("one_blas_thread"), pytest.mark.slow]


def penalty(kind: str, symbols: int) -> DiscretePenalty:
    alphabet = ALPHABETS[symbols]
    return {
        "l1": si.L1(alphabet, xi=0.12),
        "weighted": si.L1(alphabet, xi=0.12, weights=WEIGHTS[symbols]),
        "l2": si.L2(alphabet, xi=0.6),
        "columns": si.ByColumn(
            [si.L1(alphabet, xi=0.12), si.L1("0:3", xi=0.2, weights=[1, 0.5, 0.2, 1]), None], COLUMNS
        ),
    }[kind]


@cache
def toy(kind: str, symbols: int, offsets: bool = False) -> si.Problem:
    data = si.datasets.low_rank_alphabet(SHAPE, 2, ALPHABETS[symbols], observed=0.55, random_state=2)
    return si.Problem(data.observations, si.Nuclear(1.0), penalty(kind, symbols), biases() if offsets else None)


def biases() -> si.LowRank:
    rng = np.random.default_rng(4)
    return si.LowRank(rng.normal(size=(12, 2)), np.array([0.8, 0.3]), rng.normal(size=(10, 2)))


def observed_at(problem: si.Problem) -> tuple[np.ndarray, np.ndarray]:
    return problem.observations.rows, problem.observations.cols


def binary() -> si.Problem:
    """Two symbols by their log-odds, which are drawn to −1 and 1."""
    seen = si.datasets.low_rank_alphabet(SHAPE, 2, "0,1", observed=0.55, random_state=2).observations
    return si.Problem(seen, si.Nuclear(1.0), si.L1("-1,1", xi=0.12), loss=Multinomial(2))


@cache
def optimum(kind: str, symbols: int, offsets: bool = False) -> float:
    return least_as_stated(toy(kind, symbols, offsets))


@cache
def solved(solver: Solver[Any], kind: str, symbols: int, offsets: bool = False) -> Result:
    return si.solve(toy(kind, symbols, offsets), solver, max_iter=5000, tol=1e-7, evaluate_every=5000)


# ---------------------------------------------------------------- the optimum of (P)
@every_exact
@pytest.mark.parametrize(("symbols", "offsets"), [(2, False), (3, False), (5, True)])
@every_kind
def test_optimum_is_that_of_the_modelling_tool(kind, symbols, offsets, solver):
    """Davis–Yin and ADMM end at the least (P), for every convex penalty, alphabet and step length."""
    result = solved(solver, kind, symbols, offsets)
    assert result.status.converged
    assert result.objective == pytest.approx(optimum(kind, symbols, offsets), rel=1e-7)


@pytest.mark.parametrize("solver", SLOW, ids=repr)
@every_kind
def test_short_steps_lead_to_the_same_optimum(kind, solver):
    """With a small γ or a large ρ the way is longer, the end the same."""
    result = solved(solver, kind, 5, True)
    assert result.status.converged
    assert result.n_iter > 1.5 * solved(type(solver)(), kind, 5, True).n_iter
    assert result.objective == pytest.approx(optimum(kind, 5, True), rel=1e-7)


@every_exact
@every_kind
def test_objective_reported_is_that_of_the_problem_as_stated(kind, solver):
    """What is reported is (P) at the answer, which lies above (E) there, so that the tests are about (P)."""
    problem, result = toy(kind, 5, True), solved(solver, kind, 5, True)
    assert result.objective_name == "P"
    assert result.objective == pytest.approx(problem.objective(result.x, "P"), rel=1e-12)
    assert result.objective > problem.objective(result.x, "E") * (1 + 1e-4)


@every_exact
@every_kind
def test_certificate_tends_to_zero(kind, solver):
    """The certificate is small at the end and was not at the start."""
    certificates = solved(solver, kind, 5, True).history["certificate"]
    assert certificates[0] > 0.1
    assert certificates[-1] < 2e-5


def test_another_loss_with_davis_yin():
    """With the logistic loss Davis–Yin ends at the least fit plus penalties too; ADMM refuses it."""
    problem = binary()
    best = least_as_stated(problem)
    for solver in (DavisYin(), DavisYin(gamma=0.4)):
        result = si.solve(problem, solver, max_iter=5000, tol=1e-8)
        assert result.status.converged
        assert result.objective == pytest.approx(best, rel=1e-7)
    with pytest.raises(ValueError, match=re.escape("ADMM treats only the least-squares fit, not Multinomial")):
        si.solve(problem, ADMM())


@pytest.mark.parametrize("solver", [DavisYin(), ADMM(), PenaltyDecomposition()], ids=repr)
def test_without_a_discrete_term(solver):
    """Without a discrete term (P) is the plain problem, whose optimum all three reach."""
    problem = si.Problem(toy("l1", 5).observations, si.Nuclear(1.0))
    reference = si.solve(problem, "apg", max_iter=3000, tol=1e-10).objective
    result = si.solve(problem, solver, max_iter=3000, tol=1e-8)
    assert result.status.converged
    assert result.objective == pytest.approx(reference, rel=1e-9)


# ---------------------------------------------------------------- certificates, densely


def inside_l1(discrete: si.L1, w: np.ndarray, u: np.ndarray) -> bool:
    """Whether w lies in the subdifferential of the penalty at u, entry by entry."""
    low, high = np.zeros_like(u), np.zeros_like(u)
    for a, weight in zip(discrete.alphabet, discrete.weights, strict=True):
        on = np.abs(u - a) <= 1e-12
        low += discrete.xi * weight * np.where(on, -1.0, np.sign(u - a))
        high += discrete.xi * weight * np.where(on, 1.0, np.sign(u - a))
    return bool(((low - 1e-9 <= w) & (w <= high + 1e-9)).all())


@pytest.mark.parametrize("gamma", [0.4, 1.0, 1.7])
def test_certificate_of_davis_yin_by_hand(gamma):
    """In every step it bounds ∇f(B) + v + w, v ∈ λ∂g(B), w ∈ ξ∂r(A), with A from the formula, as it does ‖A − B‖."""
    problem, solver, context = toy("weighted", 5, True), DavisYin(gamma=gamma), Context(None, 0)
    unseen, B, seen = (
        hidden(problem.observations),
        base(problem),
        (problem.observations.rows, problem.observations.cols),
    )
    state = solver.init(problem, si.LowRank.zeros(SHAPE), context)
    for _ in range(60):
        Z = state.dense
        A = np.where(unseen, problem.discrete.prox(Z + B, gamma) - B, Z)
        state = solver.step(problem, state, context)
        w = (Z - A) / gamma
        assert inside_l1(problem.discrete, w[unseen], (A + B)[unseen])
        assert np.abs(w[~unseen]).max() == 0
        G, X = w.copy(), state.x.to_dense()
        G[seen] += X[seen] - problem.targets
        assert np.linalg.norm(A - X) <= state.certificate + 1e-12
        assert distance_to_stationary(problem.spectral, state.x, G) <= state.certificate + 1e-10


@pytest.mark.parametrize("rho", [0.3, 1.0, 3.0])
def test_certificate_of_admm_by_hand(rho):
    """In every step it bounds ‖X − U‖ and v + w, v ∈ λ∂g(X), w ∈ ∂(f + ξr)(U), where w = ρW."""
    problem, solver, context = toy("weighted", 5, True), ADMM(rho=rho), Context(None, 0)
    unseen, B, seen = (
        hidden(problem.observations),
        base(problem),
        (problem.observations.rows, problem.observations.cols),
    )
    state = solver.init(problem, si.LowRank.zeros(SHAPE), context)
    for _ in range(60):
        state = solver.step(problem, state, context)
        U, w = state.dense, rho * state.multiplier
        assert inside_l1(problem.discrete, w[unseen], (U + B)[unseen])
        assert w[seen] == pytest.approx(U[seen] - problem.targets, abs=1e-9)
        gap = np.linalg.norm(state.x.to_dense() - U)
        assert np.hypot(gap, distance_to_stationary(problem.spectral, state.x, w)) <= state.certificate + 1e-10


# ---------------------------------------------------------------- penalty decomposition: convex
def slope_bound(problem: si.Problem) -> float:
    """The squared slope of the penalty, over all unobserved entries."""
    discrete = problem.discrete
    square = (discrete.xi * discrete.weights.sum()) ** 2
    return float(square if isinstance(discrete, si.L2) else square * hidden(problem.observations).sum())


@pytest.mark.parametrize(("symbols", "offsets"), [(2, False), (3, False), (5, True)])
@pytest.mark.parametrize("kind", ["l1", "weighted", "l2"])
def test_decomposition_encloses_the_optimum(kind, symbols, offsets):
    """The envelope at the last γ is below the least (P), (P) at the answer within the documented γ/2·slope² of it."""
    problem, best, above = toy(kind, symbols, offsets), optimum(kind, symbols, offsets), []
    for gamma in (0.3, 0.03):
        result = si.solve(problem, PenaltyDecomposition(gamma=gamma), max_iter=4000, tol=1e-6, evaluate_every=4000)
        assert result.status.converged
        envelope, stated = float(result.history["envelope"][-1]), problem.objective(result.x, "P")
        bound = 0.5 * gamma * slope_bound(problem)
        assert envelope <= best + 1e-7 * best
        assert best - 1e-7 * best <= stated <= envelope + bound
        above.append(stated - best)
    assert above[1] < 0.5 * above[0]


def test_decomposition_converges_to_the_optimum():
    """As γ falls the enclosure closes, about in proportion, down to a ten-thousandth of the optimum."""
    problem, best = toy("l1", 5), optimum("l1", 5)
    width = []
    for gamma in (1.0, 0.1, 0.01, 0.001):
        result = si.solve(problem, PenaltyDecomposition(gamma=gamma), max_iter=20000, tol=1e-4, evaluate_every=20000)
        assert result.status.converged
        width.append(problem.objective(result.x, "P") - float(result.history["envelope"][-1]))
    assert (np.array(width[1:]) < 0.3 * np.array(width[:-1])).all()
    assert 0 < width[-1] < 1e-3 * best


# ---------------------------------------------------------------- penalty decomposition: any penalty
ROUGH = [
    si.L0("1:5", xi=0.08),
    si.FractionalL0("1:5", xi=0.1, alpha=0.04),
    si.Lp("1:5", xi=0.1, p=0.5),
]
LOW = [si.Nuclear(1.0), si.LogSum(lam=2.0, theta=2.0)]
every_rough = pytest.mark.parametrize("discrete", ROUGH, ids=repr)
every_low = pytest.mark.parametrize("spectral", LOW, ids=repr)


class Watched(PenaltyDecomposition):
    """Keeps where each step that was tried began."""

    def move(self, problem: si.Problem, y: Point, state: Any, context: Context, **how: Any) -> Move:
        move = super().move(problem, y, state, context, **how)
        TRIED.append((y, move, how["gamma"]))
        return move


TRIED: list[tuple[Point, Move, float]] = []


@cache
def watched(discrete: Any, spectral: Any, offsets: bool) -> tuple[si.Problem, Result, list[si.LowRank], list[Any]]:
    """A run with all its iterates, and for each of them where its step began and its γ."""
    problem = si.Problem(toy("l1", 5).observations, spectral, discrete, biases() if offsets else None)
    iterates: list[si.LowRank] = []
    TRIED.clear()
    result = si.solve(
        problem, Watched(gamma=0.05), max_iter=600, tol=1e-5, callback=lambda info: iterates.append(info.x)
    )
    began = {id(move.to.x): (y, gamma) for y, move, gamma in TRIED}
    return problem, result, iterates, [began[id(x)] for x in iterates]


def rough(test: Any) -> Any:
    return every_rough(every_low(pytest.mark.parametrize("offsets", [False, True], ids=["plain", "offsets"])(test)))


@rough
def test_envelope_never_rises_at_a_fixed_gamma(discrete, spectral, offsets):
    """The envelope is E_γ at the iterate, recomputed; while γ stays it falls; γ only falls; E_γ is at most (P)."""
    problem, result, iterates, _ = watched(discrete, spectral, offsets)
    gammas, envelopes = result.history["gamma"], result.history["envelope"]
    again = [problem.terms(x, gamma=float(g)).objective for x, g in zip(iterates, gammas, strict=True)]
    assert envelopes == pytest.approx(again, rel=1e-12)
    assert (np.diff(gammas) <= 0).all()
    assert gammas[0] == 1
    assert gammas[-1] == 0.05
    same = np.diff(gammas) == 0
    assert same.sum() > 10
    assert np.diff(envelopes)[same].max() <= 1e-11 * envelopes[0]
    for k in np.flatnonzero(~same):  # a new γ: from the envelope of the iterate before at that γ
        before = problem.terms(iterates[k], gamma=float(gammas[k + 1])).objective
        assert envelopes[k + 1] <= before * (1 + 1e-12)
    stated = np.array([problem.objective(x, "P") for x in iterates])
    assert (envelopes <= stated * (1 + 1e-12)).all()
    assert envelopes[-1] < 0.6 * problem.objective(si.LowRank.zeros(SHAPE))


@rough
def test_columns_of_the_decomposition_densely(discrete, spectral, offsets):
    """The gap is ‖X − U‖ on Ωᶜ with U = prox_γ(X), and the objective f(X) + λg(X) + ξr(U), both by dense formulas."""
    problem, result, iterates, _ = watched(discrete, spectral, offsets)
    unseen, seen = hidden(problem.observations), observed_at(problem)
    assert result.objective_name == "P"
    for k in (*range(0, result.n_iter, 7), result.n_iter - 1):
        X, gamma = iterates[k].to_dense(), float(result.history["gamma"][k])
        cells = (X + base(problem))[unseen]
        U = discrete.prox(cells, gamma)
        assert result.history["gap"][k] == pytest.approx(np.linalg.norm(cells - U), abs=2e-6)
        low_rank = spectral.value(np.linalg.svd(X, compute_uv=False)[: iterates[k].rank])
        fit = 0.5 * np.sum((X[seen] - problem.targets) ** 2)
        assert result.history["objective"][k] == pytest.approx(fit + low_rank + discrete.value(U).sum(), rel=1e-9)
    assert 0 < result.history["gap"][-1] < 0.5 * result.history["gap"].max()


def slope_away_from_cusps(discrete: Any, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ξr'(u), and where that is the only subgradient."""
    d = u[:, None] - discrete.alphabet.symbols
    smooth = np.ones_like(u, dtype=bool) if isinstance(discrete, si.FractionalL0) else (d != 0).all(axis=1)
    if isinstance(discrete, si.L0):
        return np.zeros_like(u), smooth
    if isinstance(discrete, si.FractionalL0):
        return discrete.xi * (2 * discrete.alpha * d / (d**2 + discrete.alpha) ** 2).sum(axis=1), smooth
    size = np.where(d == 0, 1.0, np.abs(d))
    return discrete.xi * discrete.p * (np.sign(d) * size ** (discrete.p - 1)).sum(axis=1), smooth


@rough
def test_certificate_of_the_decomposition_densely(discrete, spectral, offsets):
    """It bounds an element of ∇f(X) + λ∂g(X) + ξ∂r(U) in every step, U the prox where the step began."""
    problem, result, iterates, began = watched(discrete, spectral, offsets)
    unseen, seen = hidden(problem.observations), observed_at(problem)
    for x, (y, gamma), certificate in zip(iterates, began, result.history["certificate"], strict=True):
        cells = (y.x.to_dense() + base(problem))[unseen]
        U = discrete.prox(cells, gamma)
        w = (cells - U) / gamma
        slope, smooth = slope_away_from_cusps(discrete, U)
        assert w[smooth] == pytest.approx(slope[smooth], abs=1e-6 / gamma)
        G = np.zeros(SHAPE)
        G[unseen] = w
        G[seen] = x.to_dense()[seen] - problem.targets
        assert distance_to_stationary(spectral, x, G) <= certificate + 1e-8
    assert result.history["certificate"][-1] < 1e-2


@every_rough
def test_gamma_comes_down_before_convergence_is_declared(discrete):
    """However loose the tolerance, a run converges at the last γ only; a short one says what was pending."""
    problem = si.Problem(toy("l1", 5).observations, si.Nuclear(1.0), discrete)
    solver = PenaltyDecomposition(gamma=0.05)
    result = si.solve(problem, solver, max_iter=2000, tol=0.5)
    assert result.status.converged
    assert result.history["gamma"][-1] == 0.05
    assert "relative change over γ" in result.status.message
    short = si.solve(problem, solver, max_iter=5, tol=0.5)
    assert short.status.code == "max_iter"
    assert "while γ was still coming down" in short.status.message
    assert short.status.advice == "Raise max_iter."
    assert short.history["gamma"][-1] > 0.05


def test_gamma_falls_by_its_factor_when_settled():
    """γ takes the values 1, fall, fall², … and the last; a looser stage tolerance brings it down sooner."""
    problem = si.Problem(toy("l1", 5).observations, si.Nuclear(1.0), ROUGH[0])
    runs = [
        si.solve(problem, PenaltyDecomposition(gamma=0.1, fall=0.4, stage_tol=tol), max_iter=500, tol=1e-3)
        for tol in (1e-1, 1e-3)
    ]
    for result in runs:
        assert np.unique(result.history["gamma"])[::-1] == pytest.approx([1, 0.4, 0.16, 0.1], rel=1e-12)
    soon, late = (int(np.argmax(result.history["gamma"] == 0.1)) for result in runs)
    assert soon < late


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize("name", ["davis-yin", "admm"])
def test_a_table_too_large_is_refused_with_the_alternative(name, monkeypatch):
    """A table with more cells than may be stored is refused at once, with what to use; a smaller one is not."""
    problem = toy("l1", 5)
    monkeypatch.setattr(splitting, "MAX_CELLS", 119)
    words = r"stores dense arrays, and 12×10 = 120 cells .* are more than 119: PenaltyDecomposition"
    with pytest.raises(ValueError, match=words) as refusal:
        si.solve(problem, name)
    assert name not in fitting(problem)
    assert "penalty-decomposition" in str(refusal.value)
    si.solve(problem, "penalty-decomposition", max_iter=2)
    monkeypatch.setattr(splitting, "MAX_CELLS", 120)
    si.solve(problem, name, max_iter=2)


def test_large_tables_are_refused_without_storing_them():
    """The limit stands: 10⁵×10⁵ is refused before anything is allocated."""
    observations = si.Observations.from_coo([0, 1], [0, 1], [1.0, 5.0], (100_000, 100_000))
    for name in ("davis-yin", "admm"):
        with pytest.raises(ValueError, match=re.escape("10,000,000,000 cells (74.5 GiB each)")):
            si.solve(si.Problem(observations, si.Nuclear(1.0), si.L1("1:5", xi=0.1)), name)


# ---------------------------------------------------------------- interruption, starts, determinism
ALL = [DavisYin(), ADMM(), PenaltyDecomposition(gamma=0.1)]
every_solver = pytest.mark.parametrize("solver", ALL, ids=repr)


def larger() -> si.Problem:
    """A problem in which a partial SVD is not a whole one."""
    return si.Problem(ratings((60, 40)), si.Nuclear(4.0), si.L1("1:5", xi=0.1))


@every_solver
def test_partial_svds_lead_to_the_same_optimum(solver, monkeypatch):
    """With partial SVDs in place of whole ones the value at the end is the same."""
    whole = si.solve(larger(), solver, max_iter=2000, tol=1e-6, evaluate_every=2000)
    monkeypatch.setattr(svd, "WHOLE_CELLS", 0)
    partial = si.solve(larger(), solver, max_iter=2000, tol=1e-6, evaluate_every=2000)
    assert whole.status.converged
    assert partial.status.converged
    assert partial.objective == pytest.approx(whole.objective, rel=1e-7)


@every_solver
def test_a_good_start_helps(solver):
    """From near the answer, by any factors, far fewer iterations lead to the same value."""
    problem = toy("l1", 5, True)
    cold = si.solve(problem, solver, max_iter=5000, tol=1e-5, evaluate_every=5000)
    x = cold.x
    start = si.LowRank(3.0 * x.U, x.s / 6.0, 2.0 * x.V)
    warm = si.solve(problem, solver, x0=start, max_iter=5000, tol=1e-5, evaluate_every=5000)
    assert warm.n_iter < cold.n_iter
    assert warm.objective == pytest.approx(cold.objective, rel=1e-4)
