"""The sequel's recursion MM, whose joint objective falls because of where it is anchored, and the annealing of α."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

import snapimpute as si
from snapimpute.linalg import svd
from snapimpute.penalties import SpectralPenalty
from snapimpute.solvers import APG, MM, SoftImpute, anneal
from snapimpute.solvers.base import Context
from snapimpute.solvers.splitting import dense as splitting
from tests.helpers import dense_offsets as base
from tests.helpers import ratings
from tests.solvers.dense import distance_to_stationary, hidden

SHAPE = (12, 10)
SPECTRAL_PENALTIES = [
    si.Nuclear(1.0),
    si.LogSum(lam=2.0, theta=2.0),
    si.LogSum(lam=4.0, theta=1.0),
    si.CappedL1(lam=1.0, theta=6.0),
    si.TruncatedNuclear(lam=1.5, r=1),
    si.MCP(lam=1.2, gamma=2.5),
    si.SCAD(lam=0.8, a=3.7),
    si.Rank(lam=2.0),
]
FRACTIONAL = [
    si.FractionalL0("1:5", xi=0.3, alpha=0.04),
    si.FractionalL0("1:5", xi=0.1, alpha=0.3, weights=[0.2, 0.5, 1.3, 2.0, 1.0]),
]
OBSERVATIONS = si.datasets.low_rank_alphabet(SHAPE, 2, "1:5", observed=0.55, random_state=2).observations
every_spectral = pytest.mark.parametrize("spectral", SPECTRAL_PENALTIES, ids=repr)
every_fractional = pytest.mark.parametrize("discrete", FRACTIONAL, ids=repr)
with_offsets = pytest.mark.parametrize("offsets", [False, True], ids=["plain", "offsets"])


pytestmark = [pytest.mark.usefixtures("one_blas_thread"), pytest.mark.slow]


def biases() -> si.LowRank:
    rng = np.random.default_rng(4)
    return si.LowRank(rng.normal(size=(12, 2)), np.array([0.8, 0.3]), rng.normal(size=(10, 2)))


def toy(
    spectral: SpectralPenalty = SPECTRAL_PENALTIES[0], discrete: Any = FRACTIONAL[0], offsets: bool = False
) -> si.Problem:
    return si.Problem(OBSERVATIONS, spectral, discrete, biases() if offsets else None)


def dense_joint(problem: si.Problem, x: si.LowRank, Z: np.ndarray, alpha: float) -> float:
    """f(X) + λg(X) + ξr(Z) + ½‖P_Ωᶜ(Z − X − B)‖², without the package's kernels."""
    X, unseen, discrete = x.to_dense() + base(problem), hidden(OBSERVATIONS), problem.discrete
    d = Z[unseen][:, None] - discrete.alphabet.symbols
    cost = discrete.xi * (discrete.weights * d**2 / (d**2 + alpha)).sum()
    fit = 0.5 * np.sum((X[OBSERVATIONS.rows, OBSERVATIONS.cols] - OBSERVATIONS.values) ** 2)
    return fit + problem.spectral.value(x.s) + cost + 0.5 * np.sum((Z - X)[unseen] ** 2)


class Run(NamedTuple):
    """The states of a run, driven by hand, the start included."""

    problem: si.Problem
    states: list[Any]


@cache
def driven(spectral: Any, discrete: Any, offsets: bool, first: float | None, steps: int = 45) -> Run:
    problem, solver, context = toy(spectral, discrete, offsets), MM(first=first), Context(None, 0)
    states = [solver.init(problem, si.LowRank.zeros(SHAPE), context)]
    for _ in range(steps):
        states.append(solver.step(problem, states[-1], context))
    return Run(problem, states)


# ---------------------------------------------------------------- the joint objective
@with_offsets
@every_fractional
@every_spectral
def test_joint_objective_falls_at_a_fixed_alpha(spectral, discrete, offsets):
    """With α final from the start the column "joint" never rises, for every spectral penalty, offsets included."""
    result = si.solve(
        toy(spectral, discrete, offsets), MM(first=discrete.alpha), max_iter=80, tol=0, evaluate_every=80
    )
    assert (result.history["alpha"] == discrete.alpha).all()
    joint = result.history["joint"]
    assert np.diff(joint).max() <= 1e-11 * joint[0]
    assert joint[-1] < joint[0]
    assert result.objective < 0.6 * toy(spectral, discrete, offsets).objective(si.LowRank.zeros(SHAPE))


@with_offsets
@every_fractional
@every_spectral
def test_joint_objective_densely(spectral, discrete, offsets):
    """While α falls too, "joint" is the dense formula at X, Z and α, and at most that of the last step at this α."""
    problem, states = driven(spectral, discrete, offsets, None)
    for before, after in pairwise(states):
        found = dense_joint(problem, after.x, after.dense, after.alpha)
        assert after.joint == pytest.approx(found, rel=1e-11)
        assert after.joint <= dense_joint(problem, before.x, before.dense, after.alpha) * (1 + 1e-11)


@cache
def at(discrete: si.FractionalL0, alpha: float) -> si.FractionalL0:
    """The penalty at another α, whose table is made once."""
    return discrete.with_alpha(alpha)


@with_offsets
@every_spectral
def test_envelope_lies_below_the_joint_objective(spectral, offsets):
    """(E) at X, which is the minimum over Z, is at most the joint objective, and is what is reported at the end."""
    problem, states = driven(spectral, FRACTIONAL[0], offsets, None)
    for state in (states[1], states[12], *states[-10:]):
        stage = replace(problem, discrete=at(problem.discrete, state.alpha))
        assert stage.objective(state.x) <= state.joint * (1 + 1e-9)
    result = si.solve(problem, MM(), max_iter=60, tol=0, evaluate_every=60)
    assert result.objective_name == "E"
    assert result.objective == pytest.approx(problem.objective(result.x), rel=1e-12)


@pytest.mark.parametrize("anchored_at", ["Z", "X"])
def test_anchor_matters(anchored_at):
    """A hand-written recursion falls if the majoriser touches at the last Z, and rises somewhere if it does at X."""
    discrete, unseen = FRACTIONAL[0], hidden(OBSERVATIONS)
    X, Z, joint = np.zeros(SHAPE), np.zeros(SHAPE), []
    for _ in range(60):
        anchor = Z if anchored_at == "Z" else X
        pulls = 2 * discrete.xi * discrete.alpha / ((anchor[..., None] - discrete.alphabet.symbols) ** 2 + 0.04) ** 2
        Z = (X + pulls @ discrete.alphabet.symbols) / (1 + pulls.sum(axis=-1))
        Z[OBSERVATIONS.rows, OBSERVATIONS.cols] = OBSERVATIONS.values
        U, s, Vt = np.linalg.svd(Z, full_matrices=False)
        x = si.LowRank(U, np.maximum(s - 1.0, 0), Vt.T)
        X = x.to_dense()
        joint.append(dense_joint(toy(), x, Z, discrete.alpha))
    if anchored_at == "Z":
        assert np.diff(joint).max() <= 1e-10
        result = si.solve(toy(), MM(first=0.04), max_iter=60, tol=0)
        assert result.history["joint"] == pytest.approx(joint, rel=1e-9)
        assert result.x.to_dense() == pytest.approx(X, abs=1e-7)
        assert unseen.any()
    else:
        assert np.diff(joint).max() > 0.01


# ---------------------------------------------------------------- α
def test_alpha_falls_to_that_of_the_penalty():
    """α begins at the squared largest distance of neighbours, falls by its factor, and ends at the penalty's."""
    discrete = si.FractionalL0([0.0, 1.0, 3.0], xi=0.1, alpha=0.5)
    history = si.solve(toy(discrete=discrete), MM(fall=0.8), max_iter=20, tol=0).history
    assert history["alpha"] == pytest.approx(np.maximum(4.0 * 0.8 ** np.arange(20), 0.5))
    history = si.solve(toy(discrete=discrete), MM(first=2.0, fall=0.5), max_iter=5, tol=0).history
    assert history["alpha"] == pytest.approx([2.0, 1.0, 0.5, 0.5, 0.5])
    history = si.solve(toy(discrete=discrete), MM(first=0.1), max_iter=3, tol=0).history
    assert history["alpha"] == pytest.approx([0.5] * 3)
    alone = si.FractionalL0([2.0], xi=0.1, alpha=0.3)
    assert si.solve(toy(discrete=alone), MM(), max_iter=3, tol=0).history["alpha"] == pytest.approx([0.3] * 3)


def test_alpha_comes_down_before_convergence_is_declared():
    """However loose the tolerance, convergence is at the last α only; a run too short says what was pending."""
    result = si.solve(toy(), MM(), tol=0.5)
    assert result.status.converged
    assert result.history["alpha"][-1] == 0.04
    short = si.solve(toy(), MM(), tol=0.5, max_iter=5)
    assert short.status.code == "max_iter"
    assert "while α was still coming down" in short.status.message
    assert short.history["alpha"][-1] > 0.04


# ---------------------------------------------------------------- first-order conditions


def joint_residual(problem: si.Problem, x: si.LowRank, Z: np.ndarray, alpha: float) -> tuple[float, float]:
    """dist(0, ∂_X) and ‖∇_Z‖ of the joint objective, densely."""
    unseen, discrete, X = hidden(OBSERVATIONS), problem.discrete, x.to_dense() + base(problem)
    d = Z[unseen][:, None] - discrete.alphabet.symbols
    slope = discrete.xi * (discrete.weights * 2 * alpha * d / (d**2 + alpha) ** 2).sum(axis=1)
    target = Z.copy()
    target[OBSERVATIONS.rows, OBSERVATIONS.cols] = OBSERVATIONS.values
    G = X - target
    return distance_to_stationary(problem.spectral, x, G), float(np.linalg.norm((Z - X)[unseen] + slope))


@with_offsets
@every_fractional
@every_spectral
def test_certificate_densely(spectral, discrete, offsets):
    """In every step the certificate bounds the dense residual of the joint objective in X and Z together."""
    problem, states = driven(spectral, discrete, offsets, None)
    for state in states[1:]:
        in_x, in_z = joint_residual(problem, state.x, state.dense, state.alpha)
        assert np.hypot(in_x, in_z) <= state.certificate + 1e-9
        if state.pending:
            assert state.certificate == np.inf  # of another α
            continue
        assert in_z == pytest.approx(state.certificate, abs=1e-3 * state.certificate + 1e-9)


@with_offsets
@every_fractional
@pytest.mark.parametrize("spectral", [SPECTRAL_PENALTIES[k] for k in (0, 1, 4)], ids=repr)
def test_first_order_conditions_hold_at_convergence(spectral, discrete, offsets):
    """Where a run has converged the dense residuals vanish, at the penalty's own α."""
    problem, solver, context = toy(spectral, discrete, offsets), MM(), Context(None, 0)
    state = solver.init(problem, si.LowRank.zeros(SHAPE), context)
    while state.iteration < 3000 and state.measure > 1e-8:
        state = solver.step(problem, state, context)
    assert state.measure <= 1e-8
    assert state.alpha == discrete.alpha
    assert max(joint_residual(problem, state.x, state.dense, discrete.alpha)) < 1e-5
    assert state.certificate < 1e-5


# ---------------------------------------------------------------- refusals
OTHERS = [None, si.L0("1:5", xi=0.1), si.L1("1:5", xi=0.1), si.FractionalL0("1:5", xi=0.0, alpha=0.1)]


def test_a_table_too_large_is_refused_with_the_alternative(monkeypatch):
    """A table with more cells than may be stored is refused, with its size and what to use instead."""
    monkeypatch.setattr(splitting, "MAX_CELLS", 119)
    words = "12×10 = 120 cells .* are more than 119: the proximal solvers take the exact prox of FractionalL0"
    with pytest.raises(ValueError, match=words):
        si.solve(toy(), MM())
    monkeypatch.setattr(splitting, "MAX_CELLS", 120)
    si.solve(toy(), MM(), max_iter=2)


# ---------------------------------------------------------------- interruption, starts, determinism
def press_at(iteration: int) -> Any:
    def press(info: Any) -> None:
        if info.iteration == iteration:
            raise KeyboardInterrupt

    return press


def test_partial_svds_keep_the_descent(monkeypatch):
    """With partial SVDs in place of whole ones the joint objective falls as before at a fixed α."""
    problem = si.Problem(ratings((60, 40)), si.Nuclear(4.0), FRACTIONAL[0])
    whole = si.solve(problem, MM(first=0.04), max_iter=60, tol=0, evaluate_every=60).history["joint"]
    monkeypatch.setattr(svd, "WHOLE_CELLS", 0)
    joint = si.solve(problem, MM(first=0.04), max_iter=60, tol=0, evaluate_every=60).history["joint"]
    assert np.diff(joint).max() <= 1e-9 * joint[0]
    assert joint == pytest.approx(whole, rel=1e-6)


def test_a_good_start_helps():
    """At a fixed α a run from near the answer, by any factors, needs far fewer iterations and comes to it."""
    solver, problem = MM(first=0.04), toy()
    cold = si.solve(problem, solver, max_iter=5000, tol=1e-6)
    start = si.LowRank(3.0 * cold.x.U, cold.x.s / 6.0, 2.0 * cold.x.V)
    warm = si.solve(problem, solver, x0=start, max_iter=5000, tol=1e-6)
    assert warm.n_iter < 0.7 * cold.n_iter
    assert warm.objective <= cold.objective * (1 + 1e-6)


# ---------------------------------------------------------------- annealing
def test_alpha_is_annealed_from_the_first_to_the_last():
    """α is evenly spaced on a logarithmic scale, from the squared distance of neighbours or what is given."""
    problem = toy(discrete=si.FractionalL0([0.0, 1.0, 3.0], xi=0.1, alpha=0.04))
    for options, first in (({}, 4.0), ({"first": 0.64}, 0.64), ({"first": 0.001}, 0.04)):
        points = list(anneal(problem, SoftImpute(), steps=3, max_iter=3, **options))
        alphas = [point.alpha for point in points]
        steps = [first, np.sqrt(first * 0.04), 0.04] if first > 0.04 else [0.04]
        assert alphas == pytest.approx(steps, rel=1e-12)
        assert alphas[-1] == 0.04
        for point, alpha in zip(points, alphas, strict=True):
            assert f"alpha={alpha:g}" in point.result.settings["discrete"]
    (only,) = anneal(problem, SoftImpute(), steps=1, max_iter=3)
    assert only.alpha == 0.04
    with pytest.raises(ValueError, match="first must be a finite number above 0, or None"):
        next(anneal(problem, first=-1.0))
    assert len(list(anneal(problem, SoftImpute(), max_iter=1))) == 8


def test_each_solution_starts_the_next():
    """Each stage is `solve` from the last solution at that α, and takes fewer iterations than from zero."""
    problem = toy()
    points = list(anneal(problem, SoftImpute(), steps=4, tol=1e-6, max_iter=2000))
    cold = 0
    for (_, before), (alpha, after) in pairwise(points):
        stage = replace(problem, discrete=at(problem.discrete, alpha))
        again = si.solve(stage, SoftImpute(), x0=before.x, tol=1e-6, max_iter=2000)
        assert again.x.s.tobytes() == after.x.s.tobytes()
        assert after.objective == pytest.approx(stage.objective(after.x), rel=1e-12)
        cold += si.solve(stage, SoftImpute(), tol=1e-6, max_iter=2000).n_iter
    assert sum(point.result.n_iter for point in points[1:]) < 0.8 * cold


def test_interruption_ends_the_annealing():
    """Ctrl-C in a stage gives that stage's result and none after it."""
    pressed = list(anneal(toy(), SoftImpute(), steps=5, max_iter=20, tol=0, callback=press_at(4)))
    assert [point.result.status.code for point in pressed] == ["interrupted"]


def test_options_of_the_annealing():
    """x0 starts the first stage only, and the solver, here picked by itself or by name, gets all other options."""
    start = si.solve(toy(), APG(), max_iter=50).x
    first, second = anneal(toy(), "soft-impute", steps=2, x0=start, max_iter=4, tol=0, random_state=5)
    alone = si.solve(toy(discrete=at(FRACTIONAL[0], 1.0)), SoftImpute(), x0=start, max_iter=4, tol=0, random_state=5)
    assert first.result.x.s.tobytes() == alone.x.s.tobytes()
    after = si.solve(toy(), SoftImpute(), x0=first.result.x, max_iter=4, tol=0, random_state=5)
    assert second.result.x.s.tobytes() == after.x.s.tobytes()
    assert second.result.settings["random_state"] == 5
    (auto,) = anneal(toy(), steps=1, max_iter=2)
    assert "FaNCL" in auto.result.settings["solver"]


@pytest.mark.parametrize("discrete", OTHERS[:3], ids=repr)
def test_annealing_refuses_other_penalties(discrete):
    """Only FractionalL0 has an α; another penalty is named."""
    with pytest.raises(TypeError, match=re.escape(f"only FractionalL0 has an α to bring down, got {discrete!r}")):
        next(anneal(toy(discrete=discrete)))


def test_annealing_refuses_bad_options():
    """The number of steps is a whole number, at least 1, and α has to be a finite number above 0."""
    for steps in (0, -1, 2.5):
        with pytest.raises(ValueError, match=re.escape(f"steps must be a whole number, at least 1, got {steps!r}")):
            next(anneal(toy(), steps=steps))
