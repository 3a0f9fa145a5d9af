"""The sampled discrete term: right on average, averaged over iterations, large enough, guarded, as good as all."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import snapimpute as si
from snapimpute.base import threads
from snapimpute.linalg import Dense, tiled
from snapimpute.linalg.backend import Accuracy
from snapimpute.problem import sampling
from snapimpute.problem.sampling import DAMPING, GROWTH, NOISE, WEIGHT, Sampler, compressed
from snapimpute.solvers import (
    APG,
    APGL,
    FPC,
    FPCA,
    NIAPG,
    NMAPG,
    SOLVERS,
    AISImpute,
    FaNCL,
    Result,
    SoftImpute,
    Solver,
)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are worth sampling here, in thin bands and narrow windows."""
    for name, value in {"LEAST_ROWS": 4, "LEAST_COLS": 4}.items():
        monkeypatch.setattr(tiled, name, value)
    monkeypatch.setattr(sampling, "PAST_COST", 0)


# ---------------------------------------------------------------- tools
SHAPE = (48, 36)
LOOSE = Accuracy(threshold=1e6)
"""A threshold so large that the sample may be as small as it ever is."""


def small_problem(discrete: Any = None, offsets: si.LowRank | None = None) -> si.Problem:
    observations = si.datasets.low_rank_alphabet(SHAPE, 2, observed=0.2).observations
    return si.Problem(observations, si.Nuclear(3.0), discrete or si.L1("1:5", xi=0.2), offsets)


def biases(shape: tuple[int, int]) -> si.LowRank:
    rng = np.random.default_rng(4)
    left, right = np.ones((shape[0], 2)), np.ones((shape[1], 2))
    left[:, 0], right[:, 1] = rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
    return si.LowRank(left, np.array([1.0, 0.7]), right)


def somewhere(problem: si.Problem, seed: int = 0, around: float = 3.0) -> tuple[si.LowRank, np.ndarray]:
    """A matrix whose cells lie about the alphabet, and what it has on Ω."""
    rng, (m, n) = np.random.default_rng(seed), problem.shape
    noise = si.LowRank(rng.standard_normal((m, 3)), np.full(3, 0.7), rng.standard_normal((n, 3)))
    x = si.LowRank.combine([1.0, 1.0], [noise, si.LowRank.constant(problem.shape, around)])
    return x, problem.at_observed(x)


class Sampled(NamedTuple):
    """A problem as a run with a sampler sees it."""

    problem: si.Problem
    sampler: Sampler

    def gradient_step(self, *y: Any, **options: Any) -> Any:
        return self.problem.smooth.gradient_step(*y, **options, coverage=self.sampler)

    def terms(self, *x: Any) -> Any:
        return self.problem.terms(*x, coverage=self.sampler)


def drawn(problem: si.Problem, seed: int, iteration: int = 1) -> Sampled:
    """The problem with a sampled term, in an iteration."""
    out = Sampled(problem, Sampler(seed))
    out.sampler.begin(iteration)
    return out


def bases(shape: tuple[int, int], left: int, right: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(np.linalg.qr(rng.standard_normal((s, k))).Q for s, k in zip(shape, (left, right), strict=True))


def kept(A: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """P_l A + A P_r − P_l A P_r."""
    P, Q = left @ left.T, right @ right.T
    return P @ A + A @ Q - P @ A @ Q


BY_COLUMN = si.ByColumn([si.L1("1:5", xi=0.2), None, si.L0("0:6:2", xi=0.3)], np.arange(SHAPE[1]) % 3)

PENALTIES: dict[str, tuple[Any, bool]] = {
    "l1": (si.L1("1:5", xi=0.2), False),
    "l1 with offsets": (si.L1("1:5", xi=0.2), True),
    "l1 uneven": (si.L1([1, 2.5, 5], xi=0.3, weights=[0.5, 1, 2]), False),
    "l0": (si.L0("1:5", xi=0.1), False),
    "fractional": (si.FractionalL0("1:5", xi=0.2, alpha=0.1), False),
    "composed": (si.ComposedL1("1:5", xi=0.2), False),
    "by column": (BY_COLUMN, False),
    "by column with offsets": (BY_COLUMN, True),
}


# ---------------------------------------------------------------- one step is right on average
@pytest.mark.parametrize(
    ("name", "step", "gamma"), [*((name, 1.0, 1.0) for name in PENALTIES), ("l1", 1.99, 1.0), ("l0", 0.3, 0.5)]
)
def test_step_is_right_on_average(name, step, gamma):
    """The mean over many samples of a gradient step is the exact one in every cell, within five standard errors."""
    penalty, biased = PENALTIES[name]
    problem = small_problem(penalty, biases(SHAPE) if biased else None)
    y = somewhere(problem, around=0.0 if biased else 3.0)
    exact = problem.smooth.gradient_step(*y, step, gamma=gamma).to_dense()
    tries, total, squares = 200, np.zeros(SHAPE), np.zeros(SHAPE)
    for seed in range(tries):
        sampled = drawn(problem, seed, iteration=seed % 7)
        A = sampled.gradient_step(*y, step, gamma=gamma, accuracy=LOOSE).to_dense() - exact
        assert sampled.sampler.fraction > 1
        total += A
        squares += A**2
    mean = total / tries
    error = np.sqrt(np.maximum(squares / tries - mean**2, 0) / tries)
    where = np.ones(SHAPE, dtype=bool)
    if isinstance(penalty, si.ByColumn):
        where = np.broadcast_to(penalty.which != 1, SHAPE)  # the others have no penalty, and no error
        assert np.abs(mean[~where]).max() < 1e-12
    assert (np.abs(mean) <= 5 * np.maximum(error, error[where].mean()) + 1e-6).all()
    rows, cols = problem.observations.rows, problem.observations.cols
    for part in (mean[where], mean[rows, cols]):
        assert abs(part.mean()) <= 5 * error[where].mean() / math.sqrt(part.size) * math.sqrt(SHAPE[0]) + 1e-7


def test_samples_of_a_step_differ_only_in_the_remainder():
    """The line, the offsets and the correction on Ω are exact: with a sample of all cells the step is exact."""
    for penalty, biased in PENALTIES.values():
        problem = small_problem(penalty, biases(SHAPE) if biased else None)
        y = somewhere(problem)
        exact = problem.smooth.gradient_step(*y, 1.0).to_dense()
        strict = drawn(problem, 0).gradient_step(
            *y, 1.0, accuracy=Accuracy(threshold=1e-9)
        )  # no noise is small enough
        assert_allclose(strict.to_dense(), exact, atol=1e-12)


def test_norm_of_the_noise():
    """The noise of a fresh sample has about the norm that is stated, in a step that a solver might take."""
    problem = small_problem()
    for seed in range(3):
        y = somewhere(problem, seed)
        exact = problem.smooth.gradient_step(*y, 1.0).to_dense()
        norms = []
        for k in range(8):
            sampled = drawn(problem, k)
            norms.append(np.linalg.norm(sampled.gradient_step(*y, 1.0, accuracy=LOOSE).to_dense() - exact, 2))
        stated = sampled.sampler.columns()["noise"] * LOOSE.threshold  # nothing was averaged
        assert 1 / 3 <= np.mean(norms) / stated <= 3


# ---------------------------------------------------------------- averaging
@given(st.integers(1, 12), st.integers(1, 10), st.integers(0, 5), st.integers(0, 5), st.integers(0, 99))
@settings(max_examples=60)
def test_compressed_keeps_what_meets_the_bases(m, n, left, right, seed):
    """What is kept of a matrix is P_l A + A P_r − P_l A P_r, in factors."""
    A = np.random.default_rng(seed).standard_normal((m, n))
    L, R = bases((m, n), min(left, m), min(right, n), seed)
    out = compressed(Dense(A), L, R)
    assert out.rank == L.shape[1] + R.shape[1]
    assert_allclose(out.to_dense(), kept(A, L, R), atol=1e-12)
    assert_allclose(out.matmat(R), A @ R, atol=1e-12)
    assert_allclose(out.rmatmat(L), A.T @ L, atol=1e-12)


def step_matrices(problem: si.Problem, sampler: Sampler, ys: list[Any], accuracy: Accuracy) -> list[np.ndarray]:
    """The steps from one point after the other, in one iteration after the other."""
    sampled = Sampled(problem, sampler)
    out = []
    for t, y in enumerate(ys, start=1):
        sampled.sampler.begin(t)
        out.append(sampled.gradient_step(*y, 1.0, accuracy=accuracy).to_dense())
    return out


def test_weight_of_the_past():
    """The remainder is WEIGHT·fresh + (1 − WEIGHT)·past, and the past what the bases keep of the average before."""
    problem = small_problem()
    ys = [somewhere(problem, seed) for seed in range(3)]
    left, right = bases(SHAPE, 4, 6)
    got = step_matrices(problem, Sampler(5), ys, LOOSE._replace(left=left, right=right))
    past = None
    for t, (y, A) in enumerate(zip(ys, got, strict=True), start=1):
        fixed = A - remainder_part(problem, y, A)  # line and correction
        fresh = drawn(problem, 5, t).gradient_step(*y, 1.0, accuracy=LOOSE).to_dense() - fixed
        average = fresh if past is None else WEIGHT * fresh + (1 - WEIGHT) * past
        assert_allclose(A - fixed, average, atol=1e-6)
        past = kept(average, left, right)
    assert 0 < WEIGHT < 1


def remainder_part(problem: si.Problem, y: Any, A: np.ndarray) -> np.ndarray:
    """What a step A has besides its line and the correction on Ω."""
    x, observed = y
    slope, shift = problem.discrete.line(1.0)
    straight = slope * x.to_dense() + shift
    exact = problem.discrete.prox(observed)
    correction = np.zeros(problem.shape)
    correction[problem.observations.rows, problem.observations.cols] = problem.observations.values - exact
    return A - straight - correction


def test_same_iteration_same_sample():
    """A step that is taken again in its iteration sees the same sample and the same past; in the next, others."""
    sampled = Sampled(small_problem(), Sampler(1))
    y, (left, right) = somewhere(sampled.problem), bases(SHAPE, 4, 6)
    accuracy = LOOSE._replace(left=left, right=right)
    sampled.sampler.begin(1)
    sampled.gradient_step(*y, 1.0, accuracy=accuracy)
    sampled.sampler.begin(2)
    first, again = (sampled.gradient_step(*y, 1.0, accuracy=accuracy).to_dense() for _ in range(2))
    assert_array_equal(first, again)
    sampled.sampler.begin(3)
    assert not np.allclose(sampled.gradient_step(*y, 1.0, accuracy=accuracy).to_dense(), first)


def test_past_of_another_gamma_is_forgotten():
    """The remainder of another γ is another function: its average is not mixed in."""
    problem, y = small_problem(), somewhere(small_problem())
    left, right = bases(SHAPE, 4, 6)
    sampled = drawn(problem, 2, 1)
    sampled.gradient_step(*y, 1.0, gamma=0.5, accuracy=LOOSE._replace(left=left, right=right))
    sampled.sampler.begin(2)
    A = sampled.gradient_step(*y, 1.0, accuracy=LOOSE._replace(left=left, right=right)).to_dense()
    assert_array_equal(A, drawn(problem, 2, 2).gradient_step(*y, 1.0, accuracy=LOOSE).to_dense())


def test_averaging_damps_the_noise():
    """Where all is kept, the noise falls to about DAMPING of that of one sample, and the mean stays exact."""
    problem, y = small_problem(), somewhere(small_problem())
    everything = LOOSE._replace(left=np.eye(SHAPE[0]), right=np.eye(SHAPE[1]))
    exact = problem.smooth.gradient_step(*y, 1.0).to_dense()
    averages = np.array(step_matrices(problem, Sampler(0), [y] * 150, everything)[20:]) - exact
    single = (
        np.array([drawn(problem, s).gradient_step(*y, 1.0, accuracy=LOOSE).to_dense() for s in range(60)]) - exact
    )
    assert_allclose(np.sqrt(np.mean(averages**2) / np.mean(single**2)), DAMPING, rtol=0.1)
    assert abs(averages.mean()) < 0.05 * single.std()


# ---------------------------------------------------------------- how large a sample
@given(
    st.integers(40, 3000),
    st.integers(40, 3000),
    st.floats(0.001, 1.0),
    st.one_of(st.just(0.0), st.floats(1e-6, 10)),
    st.one_of(st.just(0.0), st.floats(1e-3, 1e4)),
)
def test_size_of_a_sample(m, n, density, remainder, threshold):
    """At least as many cells as were observed; so many that the noise is small beside the threshold."""
    observed = max(round(density * m * n), 1)
    sampler = Sampler(0)
    sample = sampler.sample_for(0, (m, n), observed, remainder, threshold)
    assert sample.fraction >= 1
    assert sampler.fractions == ({0: sample.fraction} if threshold else {})
    assert sample.fraction == 1 or sample.fraction * observed <= m * n
    columns = sampler.columns()
    assert set(columns) == {"share", "noise", "doubt"}
    assert columns["share"] == (1 / sample.fraction if threshold else 1)
    assert columns["noise"] <= NOISE * (1 + 1e-9)

    def fraction(remainder: float, threshold: float) -> int:
        return Sampler(0).sample_for(0, (m, n), observed, remainder, threshold).fraction

    for larger in (2.0, 10.0):
        assert fraction(larger * remainder, threshold) <= sample.fraction * 2
        if threshold:
            assert fraction(remainder, larger * threshold) >= sample.fraction / 2


def test_size_of_a_sample_in_numbers():
    """A remainder that is large beside the threshold needs all cells, a small one as few as were observed."""
    shape, observed = (1000, 800), 40_000
    sizes = [Sampler(0).sample_for(0, shape, observed, e, 20.0).fraction for e in (10.0, 0.1, 0.05, 1e-2, 1e-4)]
    assert sizes[0] == 1
    assert sizes == sorted(sizes)
    assert sizes[-1] == 1000 * 800 // observed == 20
    sampler = Sampler(0)
    fraction = sampler.sample_for(0, shape, observed, 0.02, 20.0).fraction
    size = 0.02 * (math.sqrt(1000) + math.sqrt(800))
    assert_allclose(sampler.columns()["noise"], size * math.sqrt(fraction - 1) / 20.0)
    assert size * math.sqrt(fraction) / 20.0 > NOISE


def test_average_allows_a_smaller_sample():
    """Beside a past of the noise allowed, a fresh sample may have 1/DAMPING times as much."""
    shape, observed = (4000, 3200), 40_000
    alone, averaged = Sampler(0), Sampler(0)
    first = alone.sample_for(0, shape, observed, 0.008, 20.0).fraction
    second = averaged.sample_for(0, shape, observed, 0.008, 20.0, NOISE * 20.0).fraction
    assert_allclose((second - 1) / (first - 1), 1 / DAMPING**2, rtol=0.5)
    assert averaged.columns()["noise"] <= NOISE * (1 + 1e-9)
    noisy = Sampler(0)
    assert 1 < noisy.sample_for(0, shape, observed, 0.008, 20.0, 100 * NOISE * 20.0).fraction <= second


def test_size_that_the_guard_allows():
    """After the guard has acted no sample is smaller than it says."""
    for threshold in (20.0, 0.0):
        for most in (3, 1):
            sampler = Sampler(0, most=most, fractions={0: 20})
            assert sampler.sample_for(0, (1000, 800), 40_000, 1e-6, threshold).fraction == most


def test_parts_have_samples_of_their_own():
    """Each part of the columns has its own size, and in each iteration its own seed; the smallest share is shown."""
    shape, observed = (1000, 800), 40_000
    sampler = Sampler(7, iteration=3)
    small, large = (sampler.sample_for(i, shape, observed, e, 20.0) for i, e in ((0, 1e-6), (2, 0.02)))
    assert (small.seed, large.seed) == ((7, 3, 0), (7, 3, 2))
    assert 1 < large.fraction < small.fraction == 20
    assert sampler.fractions == {0: small.fraction, 2: large.fraction}
    assert sampler.fraction == small.fraction
    assert sampler.columns()["share"] == 1 / small.fraction
    sampler.begin(4)
    assert sampler.sample_for(2, shape, observed, 0.02, 20.0).seed == (7, 4, 2)
    with pytest.raises(AttributeError):
        sampler.fraction = 2


def test_without_a_threshold_the_sample_is_like_the_last_one():
    """Who asks without a threshold gets the cells of the last sample, and leaves what is known of it alone."""
    shape, observed = (1000, 800), 40_000
    sampler = Sampler(7, iteration=3)
    assert sampler.sample_for(0, shape, observed, 0.05, 0.0).fraction == 20  # nothing is known yet
    assert (sampler.fractions, sampler.noise, sampler.threshold) == ({}, 0.0, 0.0)
    last = [sampler.sample_for(i, shape, observed, e, 20.0) for i, e in enumerate((0.05, 1e-6))]
    before = sampler.memory()
    again = [sampler.sample_for(i, shape, observed, 10.0, 0.0) for i in range(2)]
    assert again == last
    assert last[0].fraction < last[1].fraction
    assert sampler.memory() == before


# ---------------------------------------------------------------- the guard
def watched(objectives: list[float], **fields: Any) -> Sampler:
    sampler = Sampler(0, **{"fractions": {0: 40}} | fields)
    for objective in objectives:
        sampler.watch(objective)
    return sampler


def test_guard_enlarges_the_sample():
    """Objectives that rise beyond doubt enlarge the sample by GROWTH, again and again, at last to all cells."""
    sampler = watched([100.0])
    sizes, objective = [], 100.0
    for _ in range(60):
        objective *= 1.02
        sampler.watch(objective)
        sampler.fractions[0] = min(sampler.fraction, sampler.most or sampler.fraction)  # the next sample
        sizes.append(sampler.fraction)
    assert sizes[0] == 40
    assert sizes[-1] == 1
    changes = list(dict.fromkeys(sizes))
    assert changes == [40, 40 // GROWTH, 40 // GROWTH // GROWTH, 1]


def test_guard_needs_several_alarms():
    """One or two high values are no alarm, and a low one in between begins the count anew."""
    assert watched([100.0, 120.0, 120.0]).most is None
    assert watched([100.0, 120.0, 120.0, 99.0, 120.0, 120.0]).most is None
    assert watched([100.0, 120.0, 120.0, 120.0]).most == 40 // GROWTH
    assert watched([-100.0, -80.0, -80.0, -80.0]).most == 40 // GROWTH


@pytest.mark.parametrize(
    ("objectives", "doubt"),
    [
        ([100.0 - k for k in range(50)], 0.0),  # falls
        ([100.0] * 50, 0.0),  # stays
        ([100.0 + 0.5 * (k % 2) for k in range(50)], 0.0),  # below 1 %
        ([100.0 + 0.015 * k for k in range(50)], 0.0),  # less than 1 % in all
        ([100.0 + 5 * (k > 0) for k in range(50)], 1.0),  # doubtful
        ([1e-3 * (k % 3) for k in range(50)], 1e-3),  # about 0, doubtful
    ],
)
def test_guard_leaves_others_alone(objectives, doubt):
    """Objectives that fall, hardly rise, or rise by less than their doubt leave the sample as it is."""
    sampler = watched(objectives, doubt=doubt)
    assert sampler.most is None
    assert sampler.lowest == min(objectives)


def test_larger_sample_is_judged_anew():
    """What was least with a smaller sample, by luck perhaps, is no measure for a larger one; nor is what moved."""
    sampler = watched([100.0, 120.0, 120.0, 120.0])
    assert (sampler.lowest, sampler.risen) == (math.inf, 0)
    for objective in (120.0, 119.0, 119.5, 119.0):
        sampler.watch(objective)
    assert sampler.most == 40 // GROWTH
    assert sampler.lowest == 119.0


def test_change_that_does_not_settle_enlarges_the_sample():
    """A change that stopped falling enlarges the sample where it is large, and ends the run where it is small."""
    sampler = Sampler(0, fractions={0: 40})
    assert not any(sampler.settled(0.9**k) for k in range(40))
    assert sampler.most is None
    stays = Sampler(0, fractions={0: 40})
    assert not any(stays.settled(change) for change in (0.1, *[0.2] * sampling.QUIET))
    assert stays.most == 40 // GROWTH
    assert (stays.least, stays.quiet, stays.lowest) == (math.inf, 0, math.inf)
    small = Sampler(0, fractions={0: 40})
    found = [small.settled(change) for change in (1e-4, *[2e-4] * sampling.QUIET)]
    assert found == [False] * sampling.QUIET + [True]
    assert small.most is None
    everything = Sampler(0, fractions={0: 1})
    assert not any(everything.settled(1e-4) for _ in range(3 * sampling.QUIET))


def test_guard_forgets_the_past():
    """What made the objective rise is not averaged on; all cells are never enlarged."""
    problem = small_problem()
    sampled = drawn(problem, 0)
    left, right = bases(SHAPE, 4, 6)
    sampled.gradient_step(*somewhere(problem), 1.0, accuracy=LOOSE._replace(left=left, right=right))
    assert sampled.sampler.drawn
    for objective in (1.0, 2.0, 3.0, 4.0):
        sampled.sampler.watch(objective)
    assert not sampled.sampler.drawn
    assert watched([1.0, 2.0, 3.0, 4.0, 5.0], fractions={0: 1}).most is None


def test_guard_stops_a_run_that_drifts_off(monkeypatch):
    """With far too small a sample and no averaging the objective rises; the guard notices, and more cells cure it."""
    monkeypatch.setattr(sampling, "NOISE", 1e9)
    monkeypatch.setattr(sampling, "WEIGHT", 1.0)
    observations = si.datasets.low_rank_alphabet((160, 128), 3, observed=0.1).observations
    problem = si.Problem(observations, si.Nuclear(1.0), si.L1("1:5", xi=0.1))
    exact = si.solve(problem, APG(), max_iter=40, tol=0).objective
    guarded = si.solve(problem, APG(), max_iter=40, tol=0, alphabet_term="sampled")
    share = guarded.history["share"]
    assert (np.diff(share) >= 0).all()
    assert share[-1] >= GROWTH * share[0]
    assert problem.objective(guarded.x) <= 1.02 * exact
    for name in ("watch", "settled"):  # without all that enlarges a sample
        monkeypatch.setattr(Sampler, name, lambda self, *arguments: False, raising=False)
    alone = si.solve(problem, APG(), max_iter=40, tol=0, alphabet_term="sampled")
    assert problem.objective(alone.x) > 1.03 * exact


# ---------------------------------------------------------------- whole runs
LARGE = (300, 240)


@pytest.fixture(scope="module")
def data() -> si.datasets.Synthetic:
    return si.datasets.low_rank_alphabet(LARGE, 3, "1:5", observed=0.15)


@pytest.fixture(scope="module")
def problem(data: si.datasets.Synthetic) -> si.Problem:
    return si.Problem(data.observations, si.Nuclear(20.0), si.L1("1:5", xi=0.05))


@pytest.fixture(scope="module")
def reference(problem: si.Problem) -> Result:
    """The optimum, by all tiles."""
    return si.solve(problem, APG(), tol=1e-5)


def nmse(data: si.datasets.Synthetic, result: Result) -> float:
    hidden = data.hidden(8000)
    got = result.entries(hidden.rows, hidden.cols)
    return float(np.sum((got - hidden.values) ** 2) / np.sum(hidden.values**2))


FAST = FPC(eta=0.5, stage_tol=0.02)
RUNS: list[Solver[Any]] = [SoftImpute(), APG(), AISImpute(), APGL(), NMAPG(), NIAPG(), FaNCL(nu=0.8), FAST]


def test_every_sampling_solver_is_tried():
    """The list of the next test has every solver that can work with a sample; FPCA is FPC with another SVD."""
    assert {type(s).name for s in RUNS} | {"fpca"} == {name for name, kind in SOLVERS.items() if kind.samples}


@pytest.mark.parametrize("solver", RUNS, ids=lambda s: s.name)
def test_sampled_run_is_as_good(solver, data, problem, reference):
    """Every solver ends within 1 % of the objective of all tiles and 2 % of the error on hidden cells."""
    result = si.solve(problem, solver, max_iter=40, tol=0, alphabet_term="sampled")
    assert result.history["share"].max() < 0.5
    assert problem.objective(result.x) <= 1.01 * reference.objective
    assert abs(nmse(data, result) / nmse(data, reference) - 1) <= 0.02
    assert abs(result.objective / problem.objective(result.x) - 1) < 1e-3


def test_run_that_settles(data, problem, reference):
    """A run that has come down to its noise says so and ends, near the optimum; with tol = 0 it would go on."""
    result = si.solve(problem, SoftImpute(), tol=1e-8, max_iter=300, alphabet_term="sampled")
    assert result.status.code == "converged"
    assert "noise of the sample" in result.status.message
    assert result.n_iter < 150
    assert problem.objective(result.x) <= 1.01 * reference.objective
    assert abs(nmse(data, result) / nmse(data, reference) - 1) <= 0.02


def test_history_tells_of_the_sample(problem, reference):
    """The columns share, noise and doubt are there; an estimate of the objective is mostly within 5 doubts."""
    exact: list[float] = []

    def compare(info: si.solvers.Info) -> None:
        exact.append(problem.objective(info.x))

    result = si.solve(problem, APG(), max_iter=30, tol=0, alphabet_term="sampled", callback=compare)
    history = result.history
    assert (history["share"] > 0).all()
    assert (history["share"] <= 1).all()
    assert (history["noise"] > 0).all()
    assert (history["noise"] <= NOISE).all()
    assert np.isfinite(history["doubt"]).all()
    within = np.abs(history["objective"] - exact) / history["doubt"]
    assert np.mean(within <= 5) >= 0.9
    assert within.max() > 0.1  # it is an estimate
    assert "share" not in reference.history


def in_doubts(problem: si.Problem) -> np.ndarray:
    """How far the estimates of a run are from the exact objectives, in standard errors as stated."""
    exact: list[float] = []
    result = si.solve(
        problem,
        APG(),
        max_iter=30,
        tol=0,
        alphabet_term="sampled",
        callback=lambda info: exact.append(problem.objective(info.x)),
    )
    assert result.history["share"].max() < 1
    assert np.isfinite(result.history["doubt"]).all()
    return (result.history["objective"] - exact) / result.history["doubt"]


def assert_standard(errors: np.ndarray) -> None:
    assert np.mean(np.abs(errors) <= 3) >= 0.9
    assert 0.4 <= np.sqrt(np.mean(errors**2)) <= 2


def test_doubt_with_windows_of_different_width():
    """The same for a number of columns that no number of windows divides."""
    observations = si.datasets.low_rank_alphabet((300, 241), 3, observed=0.15).observations
    assert_standard(in_doubts(si.Problem(observations, si.Nuclear(20.0), si.L1("1:5", xi=0.05))))


def test_doubt_with_a_narrow_group_of_columns():
    """A group of few columns does not take away the doubt, and with it the guard, of the whole table."""
    observations = si.datasets.low_rank_alphabet((300, 240), 3, observed=0.15).observations
    which = (np.arange(240) >= 6).astype(int)
    penalty = si.ByColumn([si.L1("1:5", xi=0.02), si.L1("1:5", xi=0.01)], which)
    assert_standard(in_doubts(si.Problem(observations, si.Nuclear(20.0), penalty)))


def test_doubt_of_a_sparse_table():
    """Where so few cells were observed that most bands of rows are left out, the doubt is a number still."""
    observations = si.datasets.low_rank_alphabet(SHAPE, 2, observed=0.01).observations
    problem = si.Problem(observations, si.Nuclear(3.0), si.L1("1:5", xi=0.001))
    history = si.solve(problem, APG(), max_iter=3, tol=0, alphabet_term="sampled").history
    assert np.isfinite(history["doubt"]).all()
    assert (history["doubt"] > 0).all()
    assert (history["share"] < 0.5).all()


@pytest.mark.parametrize("fraction", [3, 6, 18])
def test_doubt_of_one_estimate(fraction):
    """At one point the estimate of the objective is right on average, and so is the square of its doubt."""
    observations = si.datasets.low_rank_alphabet(SHAPE, 2, observed=0.01).observations
    problem, tries = si.Problem(observations, si.Nuclear(3.0), si.L1("1:5", xi=0.001)), 300
    x, observed = somewhere(problem)
    found = []
    for seed in range(tries):
        sampled = Sampled(problem, Sampler(seed, fractions={0: fraction}))
        found.append((sampled.terms(x, observed).objective, sampled.sampler.doubt))
    estimates, doubts = np.array(found).T
    real = estimates.std()
    assert abs(estimates.mean() - problem.objective(x)) <= 5 * real / math.sqrt(tries)
    assert 0.5 <= math.sqrt(np.mean(doubts**2)) / real <= 2
    exact = Sampled(problem, Sampler(0))  # nothing is known of a sample
    assert_allclose(exact.terms(x, observed).objective, problem.objective(x), rtol=1e-12)
    assert exact.sampler.doubt == 0


def test_no_doubt_of_what_is_known_exactly():
    """Cells at the vertex of the quadratic part need no sample, though the bands drawn are not of equal height."""
    shape = (50, 36)
    observations = si.datasets.low_rank_alphabet(shape, 2, observed=0.1).observations
    problem = si.Problem(observations, si.Nuclear(3.0), si.L1("1:5", xi=0.2))
    x = si.LowRank.constant(shape, 3.0)
    for seed in range(5):
        sampled = Sampled(problem, Sampler(seed, fractions={0: 12}))
        value = sampled.terms(x).discrete
        assert_allclose(value, problem.terms(x).discrete, rtol=1e-10)
        assert sampled.sampler.doubt <= 1e-10 * value


def test_doubt_of_each_part():
    """A part of the columns is summed with the share that it had itself, and the doubts of the parts add up."""
    penalty = si.ByColumn([si.L1("1:5", xi=0.2), si.L1("1:5", xi=0.1)], np.arange(SHAPE[1]) % 2)
    problem = small_problem(penalty)
    x, observed = somewhere(problem)

    def doubt(*fractions: int) -> float:
        sampled = Sampled(problem, Sampler(0, fractions=dict(enumerate(fractions))))
        sampled.terms(x, observed)
        return sampled.sampler.doubt

    first, second = doubt(3, 1), doubt(1, 3)
    assert min(first, second) > 0
    assert doubt(1, 1) == 0
    assert_allclose(doubt(3, 3), math.hypot(first, second))


def test_history_of_a_line_search_tells_of_the_step(problem):
    """Where APGL checks a step, share and noise are still those of the sample that the step was taken with."""
    history = si.solve(problem, APGL(), max_iter=20, tol=0, alphabet_term="sampled").history
    assert (history["noise"][history["share"] < 1] > 0).all()


def test_same_seed_same_bits(problem):
    """A seed decides the answer to the last bit; another seed gives another one, hardly worse."""

    def run(seed: int) -> Result:
        return si.solve(problem, APG(), max_iter=12, tol=0, alphabet_term="sampled", random_state=seed)

    first, again, other = run(3), run(3), run(4)
    for name in ("U", "s", "V"):
        assert getattr(first.x, name).tobytes() == getattr(again.x, name).tobytes()
    for name in set(first.history) - {"seconds"}:
        assert_array_equal(first.history[name], again.history[name])
    assert first.x.s.tobytes() != other.x.s.tobytes()
    assert_allclose(problem.objective(other.x), problem.objective(first.x), rtol=1e-2)


@pytest.mark.parametrize("solver", [APG(), NMAPG()], ids=lambda s: s.name)
def test_bits_do_not_depend_on_the_number_of_threads(solver, problem, monkeypatch):
    """One, two and three threads give the same bits."""
    monkeypatch.setattr(threads, "WORTH_THREADS", 0)
    found = []
    for count in ("1", "2", "3"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", count)
        found.append(si.solve(problem, solver, max_iter=6, tol=0, alphabet_term="sampled"))
    assert found[0].history["share"].max() < 1
    for other in found[1:]:
        assert other.x.s.tobytes() == found[0].x.s.tobytes()
        assert other.x.V.tobytes() == found[0].x.V.tobytes()
        assert_array_equal(other.history["objective"], found[0].history["objective"])


@pytest.mark.parametrize("solver", [APG(), SoftImpute()], ids=lambda s: s.name)
def test_strong_penalty_and_small_sample(solver):
    """ξ = .05 and few cells observed, where a sample alone diverges (method.md §3): the objective stays near."""
    observations = si.datasets.low_rank_alphabet((200, 160), 3, observed=0.04).observations
    problem = si.Problem(observations, si.Nuclear(2.0), si.L1("1:5", xi=0.05))
    result = si.solve(problem, solver, max_iter=40, tol=0, alphabet_term="sampled")
    exact = si.solve(problem, solver, max_iter=40, tol=0)
    assert result.status.code == "max_iter"
    assert problem.objective(result.x) <= 1.02 * exact.objective
    assert result.x.rank <= 1.5 * exact.x.rank + 5


# ---------------------------------------------------------------- what it can be combined with
@pytest.mark.parametrize(
    "penalty",
    [
        si.ByColumn([si.L1("1:5", xi=0.05), None], np.arange(240) % 2),
        si.ByColumn([si.L1("1:5", xi=0.05), si.Ridge(3.0, xi=0.02)], np.arange(240) % 2),
        si.L0("1:5", xi=0.02),
        si.FractionalL0("1:5", xi=0.02, alpha=0.1),
    ],
    ids=lambda p: type(p).__name__,
)
def test_other_penalties(penalty, data):
    """Penalties by column, with columns that are not sampled among them, and those that jump work as well."""
    problem = si.Problem(data.observations, si.Nuclear(20.0), penalty)
    exact = si.solve(problem, SoftImpute(), max_iter=20, tol=0)
    result = si.solve(problem, SoftImpute(), max_iter=20, tol=0, alphabet_term="sampled")
    assert result.history["share"].min() < 1
    assert_allclose(problem.objective(result.x), exact.objective, rtol=2e-3)
    assert result.x.distance(exact.x) <= 0.05 * exact.x.norm()


def test_offsets(data):
    """With offsets, the alphabet is still that of the data."""
    problem = si.Problem(data.observations, si.Nuclear(15.0), si.L1("1:5", xi=0.05), si.LowRank.constant(LARGE, 2.8))
    exact = si.solve(problem, APG(), max_iter=25, tol=0)
    result = si.solve(problem, APG(), max_iter=25, tol=0, alphabet_term="sampled")
    assert result.history["share"].min() < 1
    assert_allclose(problem.objective(result.x), exact.objective, rtol=1e-3)
    assert abs(nmse(data, result) / nmse(data, exact) - 1) < 0.02


def test_a_vector_penalty_needs_no_sample(data):
    """The ℓ2 norm of all cells keeps the low rank: a sampled run is the exact one."""
    problem = si.Problem(data.observations, si.Nuclear(20.0), si.L2("1:5", xi=0.5))
    results = [si.solve(problem, APG(), max_iter=5, tol=0, alphabet_term=term) for term in ("tiled", "sampled")]
    assert results[0].x.s.tobytes() == results[1].x.s.tobytes()


@pytest.mark.parametrize("discrete", [None, si.L1("1:5", xi=0.0)], ids=repr)
def test_without_a_discrete_term_nothing_is_sampled(discrete, data):
    """A problem without a discrete term ignores the option, to the last bit, whatever the solver."""
    problem = si.Problem(data.observations, si.Nuclear(20.0), discrete)
    results = [si.solve(problem, APG(), max_iter=5, tol=0, alphabet_term=term) for term in ("tiled", "sampled")]
    assert results[0].x.U.tobytes() == results[1].x.U.tobytes()
    assert list(results[0].history) == list(results[1].history)
    assert "share" not in results[1].history
    si.solve(problem, "svt", max_iter=2, alphabet_term="sampled")  # takes no discrete term at all


@pytest.mark.parametrize("name", [n for n, kind in SOLVERS.items() if kind.info.discrete and not kind.samples])
def test_solvers_that_need_all_cells_refuse(name):
    """A solver that needs all cells says so at once, and names those that do not."""
    penalty = si.FractionalL0("1:5", xi=0.1, alpha=0.2) if name == "mm" else si.L1("1:5", xi=0.1)
    with pytest.raises(ValueError, match=r'on all cells: use alphabet_term="tiled", or a solver .*soft-impute, apg'):
        si.solve(small_problem(penalty), name, alphabet_term="sampled")


def test_the_problem_given_is_left_alone(problem):
    """The sampler belongs to the run: a problem has no place for one, and evaluates exactly afterwards."""
    before = problem.objective(si.LowRank.constant(LARGE, 3.2))
    si.solve(problem, APG(), max_iter=3, tol=0, alphabet_term="sampled")
    assert [one.name for one in fields(problem)] == ["observations", "spectral", "discrete", "offsets", "loss"]
    assert problem.objective(si.LowRank.constant(LARGE, 3.2)) == before
    with pytest.raises(ValueError, match=r"alphabet_term must be one of 'tiled', 'sampled'.*, got 'sample'"):
        si.solve(problem, APG(), alphabet_term="sample")


def test_fpca_averages_too():
    """FPCA starts every SVD anew; its samples are averaged all the same."""
    seen: list[bool] = []
    remembers = sampling.Drawn.total

    def spy(self: sampling.Drawn, rest: Any) -> Any:
        seen.append(self.past is not None)
        return remembers(self, rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling.Drawn, "total", spy)
        si.solve(small_problem(), FPCA(), max_iter=10, tol=0, alphabet_term="sampled")
    assert seen
    assert any(seen)
