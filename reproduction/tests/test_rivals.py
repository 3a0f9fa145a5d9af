"""The discrete systems beside ours: optima of a modelling tool, descent, planted truths, refusals."""

from __future__ import annotations

import re
import tracemalloc
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

import snapimpute as si
from reproduction.rivals import MultinomialCompletion, OneBit, RobustDiscrete, ThresholdCompletion, tuned
from reproduction.rivals.robust import SymbolSplitting
from reproduction.rivals.thresholds import AlternatingThresholds, best_thresholds
from snapimpute.data.datasets import Dataset
from snapimpute.problem.losses import Thresholds
from snapimpute.solvers import loop
from snapimpute.solvers.splitting.dense import MAX_CELLS

MODELS = [OneBit, MultinomialCompletion, ThresholdCompletion, RobustDiscrete]
LIKELIHOODS = [OneBit, MultinomialCompletion]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)


@cache
def votes() -> Any:
    """Two symbols in blocks, a third observed."""
    return si.datasets.low_rank_alphabet((60, 50), 2, "0,1", kind="blocks", observed=0.35, random_state=1)


@cache
def answers() -> si.Observations:
    """Three symbols, unevenly spaced."""
    return si.datasets.low_rank_alphabet((30, 25), 2, [-1.0, 0.0, 4.0], observed=0.5).observations


@pytest.fixture
def cp() -> Any:
    return pytest.importorskip("cvxpy", reason="the modelling tool is an optional dependency")


def small(shape: tuple[int, int], symbols: str) -> si.Observations:
    return si.datasets.low_rank_alphabet(shape, 2, symbols, observed=0.7, noise=0.1, random_state=3).observations


def cells(shape: tuple[int, int]) -> tuple[Any, Any]:
    return np.divmod(np.arange(shape[0] * shape[1]), shape[1])


# ---------------------------------------------------------------- likelihood
def test_one_bit_reaches_the_optimum_of_a_modelling_tool(cp):
    """The penalised logistic likelihood is that of CVXPY to 1e-5, and so are the log-odds, nearly."""
    obs, lam = small((8, 6), "-1,1"), 0.6
    model = OneBit.fit(obs, "-1,1", lam=lam, tol=1e-9, max_iter=5000)
    X = cp.Variable(obs.shape)
    smaller = np.where(obs.values == -1, 1.0, -1.0)
    cost = cp.sum(cp.logistic(-cp.multiply(smaller, X[obs.rows, obs.cols]))) + lam * cp.normNuc(X)
    modelled = cp.Problem(cp.Minimize(cost))
    modelled.solve(solver=cp.CLARABEL)
    assert model.result.objective / 4 == pytest.approx(modelled.value, rel=1e-5)
    odds = model.log_odds(*cells(obs.shape)).reshape(obs.shape)
    np.testing.assert_allclose(odds, X.value, atol=1e-3 * np.abs(X.value).max())
    assert np.linalg.norm(X.value) > 1


def test_multinomial_reaches_the_optimum_of_a_modelling_tool(cp):
    """Likelihood and both matrices of log-odds are those of CVXPY for three symbols."""
    obs, lam = small((6, 5), "1:3"), 0.4
    model = MultinomialCompletion.fit(obs, "1:3", lam=lam, tol=1e-9, max_iter=5000)
    X = [cp.Variable(obs.shape), cp.Variable(obs.shape)]
    cost = lam * (cp.normNuc(X[0]) + cp.normNuc(X[1]))
    for i, j, value in zip(obs.rows.tolist(), obs.cols.tolist(), obs.values.tolist(), strict=True):
        odds = [X[0][i, j], X[1][i, j], cp.Constant(0.0)]
        cost += cp.log_sum_exp(cp.hstack(odds)) - odds[int(value) - 1]
    modelled = cp.Problem(cp.Minimize(cost))
    modelled.solve(solver=cp.CLARABEL)
    assert model.result.objective / 2 == pytest.approx(modelled.value, rel=1e-5)
    expected = np.stack([x.value.ravel() for x in X], axis=1)
    np.testing.assert_allclose(model.log_odds(*cells(obs.shape)), expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize(("solver", "share"), [(si.solvers.APG(), 1e-9), (si.solvers.AISImpute(), 1e-2)], ids=repr)
def test_log_odds_stay_in_their_blocks(solver, share):
    """The matrix that stands for K − 1 has next to nothing outside its blocks, and no nuclear norm but theirs."""
    data = si.datasets.low_rank_alphabet((90, 80), 2, "1:3", observed=0.4).observations
    model = MultinomialCompletion.fit(data, "1:3", lam=2.0, solver=solver)
    dense = model.result.x.to_dense()
    assert dense.shape == (180, 160)
    blocks = dense[:90, :80], dense[90:, 80:]
    outside = np.linalg.norm(dense[:90, 80:]), np.linalg.norm(dense[90:, :80])
    assert max(outside) < share * min(np.linalg.norm(block) for block in blocks)
    assert sum(np.linalg.norm(block, "nuc") for block in blocks) == pytest.approx(model.result.x.s.sum(), rel=1e-4)
    np.testing.assert_allclose(model.log_odds([3], [4])[0], [dense[3, 4], dense[93, 84]], atol=1e-9)


def test_multinomial_of_two_symbols_is_one_bit():
    """Both models are the same for two symbols, entry by entry."""
    obs = votes().observations
    first, second = (model.fit(obs, "0,1", lam=1.5) for model in LIKELIHOODS)
    rows, cols = cells(obs.shape)
    np.testing.assert_allclose(first.proba(rows, cols), second.proba(rows, cols), atol=1e-9)


def test_probabilities_expectations_and_symbols_agree():
    """Rows of proba sum to one, entries are their expectation, symbols their mode, in the order of the alphabet."""
    obs = answers()
    model = MultinomialCompletion.fit(obs, [-1.0, 0.0, 4.0], lam=0.5)
    proba = model.proba(obs.rows, obs.cols)
    assert proba.shape == (len(obs), 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.entries(obs.rows, obs.cols), proba @ [-1.0, 0.0, 4.0], rtol=1e-12)
    decided = model.symbols(obs.rows, obs.cols)
    np.testing.assert_array_equal(decided, np.array([-1.0, 0.0, 4.0])[proba.argmax(axis=1)])
    assert np.mean(decided == obs.values) > 0.9  # the first symbol is not taken for the last


@pytest.mark.parametrize("model", LIKELIHOODS, ids=lambda m: m.__name__)
def test_cells_of_which_nothing_is_known(model):
    """A row without observations has two equally likely symbols, and the larger one is decided on."""
    obs = si.Observations.from_coo([0, 0, 1], [0, 1, 0], [0, 1, 0], (3, 2))
    fitted = model.fit(obs, "0,1", lam=0.1)
    np.testing.assert_allclose(fitted.proba([2], [0]), [[0.5, 0.5]], atol=1e-12)
    assert fitted.symbols([2], [1]) == 1


@pytest.mark.parametrize("model", [*LIKELIHOODS, ThresholdCompletion], ids=lambda m: m.__name__)
def test_nothing_is_learnt_from_the_largest_lam_on(model):
    """X is 0 just above `largest_lam` and not just below it, so that the grid of λ begins where it should."""
    obs = votes().observations
    largest = model.largest_lam(obs, "0,1")
    assert model.fit(obs, "0,1", lam=1.01 * largest).result.x.rank == 0
    assert model.fit(obs, "0,1", lam=0.95 * largest).result.x.rank > 0


@pytest.mark.parametrize("model", [MultinomialCompletion, ThresholdCompletion], ids=lambda m: m.__name__)
def test_nothing_of_the_size_of_the_matrix_is_stored(model):
    """A fit of 3000×4000 cells stays far below the 96 MB of one such array."""
    obs = si.datasets.low_rank_alphabet((3000, 4000), 2, "0:2", kind="blocks", observed=0.003).observations
    lam = 0.5 * model.largest_lam(obs, "0:2")
    tracemalloc.start()
    try:
        fitted = model.fit(obs, "0:2", lam=lam, max_iter=3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert fitted.result.x.rank > 0
    assert peak < 3000 * 4000 * 8 / 4


# ---------------------------------------------------------------- thresholds
def test_best_thresholds_are_those_of_scipy():
    """Each threshold minimises its own part of the loss, and they ascend."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=400) * 3
    codes = np.minimum(rng.poisson(1.2, size=400), 3).astype(float)
    found = best_thresholds(x, codes)
    assert (np.diff(found) > 0).all()
    for k, theta in enumerate(found):
        above = np.where(codes > k, 1.0, -1.0)
        least = minimize_scalar(lambda t, s=above: np.logaddexp(0, -s * (x - t)).sum(), bracket=(-5, 5), tol=1e-12)
        assert theta == pytest.approx(least.x, abs=1e-6)
        assert np.sum(above * expit(-above * (x - theta))) == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("x", [np.zeros(5), np.full(5, 2.0), np.array([-900.0, -900.0, 0.0, 900.0, 900.0])], ids=repr)
def test_best_thresholds_of_extreme_entries(x):
    """Thresholds are found, ascending, where all entries are equal and where they lie far apart."""
    found = best_thresholds(x, np.array([0.0, 0.0, 1.0, 2.0, 2.0]))
    assert found[0] < found[1]
    np.testing.assert_allclose(expit(found[:, None] - x).sum(axis=1), [2, 3], atol=1e-6)


@pytest.mark.parametrize("rank", [1, 3])
def test_joint_objective_falls_in_every_step(rank):
    """X and the thresholds together lower the objective from step to step, also at a rank that binds."""
    obs = si.datasets.low_rank_alphabet((50, 40), 3, "1:5", observed=0.5, noise=0.1).observations
    model = ThresholdCompletion.fit(obs, "1:5", lam=1.0, rank=rank, max_iter=40, tol=0)
    objective = model.result.history["objective"]
    assert model.result.x.rank == rank
    assert (np.diff(objective) <= 1e-12 * objective[0]).all()
    assert objective[-1] < 0.9 * objective[0]
    assert (np.diff(model.thresholds) > 0).all()
    at_observed = model.score(obs.rows, obs.cols)
    np.testing.assert_allclose(model.thresholds, best_thresholds(at_observed, obs.values - 1), atol=1e-9)
    loss = Thresholds(model.thresholds)
    by_hand = loss.value(at_observed, obs.values - 1) + loss.scale * model.result.x.s.sum()
    assert objective[-1] == pytest.approx(by_hand, rel=1e-9)


def test_thresholds_are_stationary_with_x():
    """At the end the thresholds are the best for X, and a plain step at them stays at X."""
    obs = answers()
    model = ThresholdCompletion.fit(obs, [-1.0, 0.0, 4.0], lam=1.0, rank=6, tol=1e-8, max_iter=5000)
    codes = si.Alphabet.of([-1.0, 0.0, 4.0]).indices(obs.values).astype(float)
    np.testing.assert_allclose(model.thresholds, best_thresholds(model.score(obs.rows, obs.cols), codes), atol=1e-9)
    loss = Thresholds(model.thresholds)
    problem = si.Problem(obs.with_values(codes), si.Nuclear(loss.scale), loss=loss)
    after = si.solve(problem, si.solvers.SoftImpute(), x0=model.result.x, max_iter=1, tol=0, max_rank=6).x
    assert after.distance(model.result.x) < 1e-5 * model.result.x.norm()


def test_uneven_thresholds_are_recovered():
    """Ordinal data cut at uneven thresholds are completed better than by snapping a low-rank fit to the scale."""
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(80, 1)) @ rng.normal(size=(1, 70)) * 2
    truth = 1.0 + np.searchsorted([-2.0, -1.7, 1.5], scores)
    seen = rng.random(truth.shape) < 0.4
    rows, cols = np.nonzero(seen)
    obs = si.Observations.from_coo(rows, cols, truth[seen], truth.shape)
    model = ThresholdCompletion.fit(obs, "1:4", lam=0.5, rank=1)
    wrong = np.mean(model.symbols(*np.nonzero(~seen)) != truth[~seen])
    assert wrong < 0.05
    gaps = np.diff(model.thresholds)
    assert gaps[1] / gaps[0] == pytest.approx(3.2 / 0.3, rel=0.5)
    squares = si.solve(si.Problem(obs, si.Nuclear(4.0)), max_rank=2)
    assert wrong < 0.5 * np.mean(si.Alphabet.of("1:4").snap(squares.entries(*np.nonzero(~seen))) != truth[~seen])


def test_symbols_never_observed_are_never_decided_on():
    """Data of 1:5 without a 3 have three thresholds, and the symbols stay those observed."""
    obs = si.datasets.low_rank_alphabet((30, 25), 2, [1.0, 2.0, 4.0, 5.0], observed=0.5).observations
    model = ThresholdCompletion.fit(obs, "1:5", lam=0.5)
    assert model.thresholds.shape == (3,)
    decided = model.symbols(*cells(obs.shape))
    assert set(decided.tolist()) <= {1.0, 2.0, 4.0, 5.0}
    assert np.mean(model.symbols(obs.rows, obs.cols) == obs.values) > 0.8
    np.testing.assert_array_equal(model.entries(obs.rows, obs.cols), model.symbols(obs.rows, obs.cols))


# ---------------------------------------------------------------- robust
@pytest.mark.parametrize(("alphabet", "share"), [("0,1", 0.25), ("1:5", 0.15)])
def test_gross_errors_are_overruled(alphabet, share):
    """Planted blocks are recovered, at nearly all hidden and nearly all corrupted cells, from 10 % wrong symbols."""
    data = si.datasets.low_rank_alphabet(
        (80, 70), 3, alphabet, kind="blocks", observed=0.5, noise=0.1, random_state=2
    )
    obs, hidden = data.observations, data.hidden(2000)
    truth = data.truth_entries(obs.rows, obs.cols)
    bad = truth != obs.values
    assert bad.sum() > 200
    lam = share * RobustDiscrete.largest_lam(obs, alphabet)
    model = RobustDiscrete.fit(obs, alphabet, lam=lam)
    assert model.result.status.converged
    assert np.mean(model.symbols(hidden.rows, hidden.cols) != hidden.values) < 0.02
    assert np.mean(model.symbols(obs.rows, obs.cols)[bad] != truth[bad]) < 0.05
    snapped = data.alphabet.snap(model.entries(hidden.rows, hidden.cols))
    assert np.mean(snapped != model.symbols(hidden.rows, hidden.cols)) < 0.01  # Z and W have met


def test_cells_take_the_symbol_with_the_least_cost():
    """The update of Z is the minimiser by brute force, on Ω with the misfit and off Ω without."""
    alphabet = si.Alphabet.of([-1.0, 0.0, 0.5, 3.0])
    rng = np.random.default_rng(0)
    obs = si.Observations.from_dense(np.where(rng.random((6, 5)) < 0.5, rng.choice(alphabet.symbols, (6, 5)), np.nan))
    aim, mu = rng.normal(size=(6, 5)) * 2, 1.3
    codes = SymbolSplitting(alphabet).nearest(obs, aim, mu)
    given = obs.to_sparse().toarray()
    seen = np.zeros((6, 5), dtype=bool)
    seen[obs.rows, obs.cols] = True
    for i, j in np.ndindex(6, 5):
        costs = [seen[i, j] * abs(a - given[i, j]) + mu / 2 * (a - aim[i, j]) ** 2 for a in alphabet]
        assert codes[i, j] == int(np.argmin(costs))


def test_a_step_of_the_augmented_lagrangian_by_hand():
    """W, Z, Y and μ after two steps are those of dense formulas."""
    obs, lam, mu, rho = small((7, 6), "0:2"), 6.0, 3.0, 1.3
    alphabet = si.Alphabet.of("0:2")
    solver = SymbolSplitting(alphabet, mu=mu, rho=rho)
    codes = np.full(obs.shape, alphabet.indices(obs.values.mean()))
    codes[obs.rows, obs.cols] = obs.values
    Z, Y = codes.astype(float), np.zeros(obs.shape)
    for _ in range(2):
        U, s, Vt = np.linalg.svd(Z + Y / mu, full_matrices=False)
        W = (U * np.maximum(s - lam / mu, 0)) @ Vt
        Z = solver.nearest(obs, W - Y / mu, mu).astype(float)
        Y, mu = Y + mu * (Z - W), rho * mu
    result = si.solve(si.Problem(obs, si.Nuclear(lam)), solver, max_iter=2, tol=0)
    np.testing.assert_allclose(result.x.to_dense(), W, atol=1e-9)
    np.testing.assert_array_equal(result.extras["codes"], Z)
    assert result.history["mu"][-1] == pytest.approx(mu)
    misfit = np.abs(Z[obs.rows, obs.cols] - obs.values).sum()
    assert misfit > 0
    objective = misfit + lam * np.linalg.norm(W, "nuc")
    assert result.objective == pytest.approx(objective)
    assert result.history["certificate"][-1] == pytest.approx(np.linalg.norm(Z - W))


# ---------------------------------------------------------------- all of them
@every_model
def test_planted_votes_are_completed(model):
    """Blocks of votes are completed almost without error, with λ tuned on the observed entries alone."""
    data, hidden = votes(), votes().hidden(1000)
    chosen = tuned(model, data.observations, "0,1")
    assert np.mean(chosen.model.symbols(hidden.rows, hidden.cols) != hidden.values) < 0.03
    estimates = chosen.model.entries(hidden.rows, hidden.cols)
    assert np.mean(data.alphabet.snap(estimates) != hidden.values) < 0.03  # on the scale of the data


@every_model
def test_same_seed_same_fit(model):
    """Two fits with one seed agree to the last bit, of a matrix so large that the partial SVD starts at random."""
    obs = si.datasets.low_rank_alphabet((220, 200), 2, "0,1", kind="blocks", observed=0.2).observations
    lam = 0.5 * model.largest_lam(obs, "0,1")
    first, second = (model.fit(obs, "0,1", lam=lam, random_state=4, max_iter=4) for _ in range(2))
    np.testing.assert_array_equal(first.result.x.to_dense(), second.result.x.to_dense())


@every_model
def test_symbols_keep_their_names(model):
    """Symbols 0, 1 and 10, 20 give the same completion under their names, at a λ of the same share."""
    obs = votes().observations
    renamed = (
        obs.with_values(10 + 10 * obs.values) if model is not RobustDiscrete else obs.with_values(7 * obs.values)
    )
    names = np.array([10.0, 20.0]) if model is not RobustDiscrete else np.array([0.0, 7.0])
    rows, cols = cells(obs.shape)
    lam = 0.3 * model.largest_lam(obs, "0,1")
    plain = model.fit(obs, "0,1", lam=lam).symbols(rows, cols)
    np.testing.assert_array_equal(model.fit(renamed, names, lam=lam).symbols(rows, cols), names[plain.astype(int)])


def test_lam_is_chosen_on_held_out_entries():
    """`tuned` tries λ downwards, takes the first with the least error on the entries held out, and fits to all."""
    obs = votes().observations
    chosen = tuned(OneBit, obs, "0,1", lams=[0.5, 8.0, 2.0], share=0.25, random_state=3, tol=1e-7)
    assert [lam for lam, _ in chosen.tried] == [8.0, 2.0, 0.5]
    kept, held = obs.split(0.25, random_state=3)
    for lam, score in chosen.tried:
        fitted = OneBit.fit(kept, "0,1", lam=lam, tol=1e-7)
        assert score == pytest.approx(np.mean(fitted.symbols(held.rows, held.cols) != held.values), abs=0.005)
    best = min(chosen.tried, key=lambda pair: pair[1])[0]
    assert chosen.model.lam == best
    again = OneBit.fit(obs, "0,1", lam=best, tol=1e-7)
    np.testing.assert_allclose(chosen.model.entries([0, 5], [1, 7]), again.entries([0, 5], [1, 7]), atol=1e-4)


def test_path_over_lam_ends_when_nothing_is_gained():
    """After three λ without a better score no further one is tried."""
    obs = votes().observations
    hopeless = [1000.0 * k for k in range(1, 9)]
    assert len(tuned(OneBit, obs, "0,1", lams=hopeless).tried) == 4


@pytest.mark.movielens
def test_signs_of_movielens(movielens: Dataset):
    """71 % of the hidden ratings come on the right side of the mean; 73 % are published, biases alone give 70 %."""
    obs, mean = movielens.observations, movielens.observations.values.mean()
    train, test = obs.with_values((obs.values > mean).astype(float)).split(0.05, random_state=0)
    model = tuned(OneBit, train, "0,1", lams=[12.0, 10.0, 8.5, 7.5], tol=1e-3).model
    right = np.mean(model.symbols(test.rows, test.cols) == test.values)
    assert right > 0.705
    biases = si.baselines.DampedBiases.fit(train).entries(test.rows, test.cols) > 0.5
    assert right > np.mean(biases == test.values)


# ---------------------------------------------------------------- refusals
@every_model
@pytest.mark.parametrize("lam", [0.0, -1.0, np.nan, np.inf])
def test_lam_must_be_a_strength(model, lam):
    """λ has to be finite and above 0."""
    with pytest.raises(ValueError, match=f"lam must be a finite number above 0, got {re.escape(str(lam))}"):
        model.fit(votes().observations, "0,1", lam=lam)


@every_model
def test_values_must_be_symbols(model):
    """A value beside the alphabet is refused with its cell."""
    obs = si.Observations.from_dense([[0, 1], [0.5, 1]])
    with pytest.raises(ValueError, match=r"0\.5"):
        model.fit(obs, "0,1", lam=1.0)


@every_model
def test_cells_must_lie_in_the_matrix(model):
    """Rows beyond the last are refused, although the matrix of log-odds has more."""
    fitted = model.fit(votes().observations, "0,1", lam=2.0, max_iter=2)
    for method in (fitted.entries, fitted.symbols):
        with pytest.raises(ValueError, match="rows must be integers between 0 and 59"):
            method([60], [0])


def test_wrong_numbers_of_symbols():
    """One bit needs two symbols, and every model something to decide between."""
    with pytest.raises(
        ValueError, match=r"OneBit needs an alphabet of two symbols, got .* use MultinomialCompletion"
    ):
        OneBit.fit(answers(), [-1.0, 0.0, 4.0], lam=1.0)
    same = si.Observations.from_dense([[2.0, np.nan], [2.0, 2.0]])
    with pytest.raises(ValueError, match="MultinomialCompletion needs at least two symbols"):
        MultinomialCompletion.fit(same, [2.0], lam=1.0)
    with pytest.raises(ValueError, match="at least two different symbols, and all observed values are 2"):
        ThresholdCompletion.fit(same, "1,2", lam=1.0)


def test_large_matrices_are_refused_where_they_would_be_stored():
    """Above 2²⁵ cells the robust method refuses at once and names others."""
    obs = si.Observations.from_coo([0, 1], [0, 1], [0, 1], (2**13, 2**12 + 1))
    assert obs.shape[0] * obs.shape[1] > MAX_CELLS == 2**25
    with pytest.raises(
        ValueError, match=r"8192×4097 = 33,562,624 cells .* are more than 33,554,432: .* LowRankSparse"
    ):
        RobustDiscrete.fit(obs, "0,1", lam=1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 1.0}, "rho must be a finite number above 1, got 1.0"),
        ({"mu": 0.0}, "mu must be a finite number above 0, or None, got 0.0"),
    ],
)
def test_robust_options_are_checked(options, message):
    """μ must be positive and grow."""
    with pytest.raises(ValueError, match=message):
        RobustDiscrete.fit(votes().observations, "0,1", lam=1.0, **options)


def test_solvers_of_other_problems_are_refused():
    """The two iterations say which problems they treat."""
    obs = votes().observations
    with pytest.raises(ValueError, match="AlternatingThresholds treats only the loss Thresholds, not Squares"):
        si.solve(si.Problem(obs, si.Nuclear(1.0)), AlternatingThresholds())
    mean = si.LowRank(np.ones((60, 1)), np.ones(1), np.ones((50, 1)))
    with pytest.raises(ValueError, match="SymbolSplitting does not treat offsets"):
        si.solve(si.Problem(obs, si.Nuclear(1.0), offsets=mean), SymbolSplitting(si.Alphabet.of("0,1")))
    with pytest.raises(ValueError, match="rank must be a whole number, at least 1, got 0"):
        ThresholdCompletion.fit(obs, "0,1", lam=1.0, rank=0)


def test_tuned_refuses_what_it_does_not_know():
    """An empty grid is refused."""
    with pytest.raises(ValueError, match="lams must hold at least one number"):
        tuned(OneBit, votes().observations, "0,1", lams=[])


@every_model
def test_interruption_is_passed_on(model, monkeypatch):
    """Ctrl-C during a fit ends it: no half-fitted model is given back."""

    def stop(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop._Run, "_timed", stop)
    with pytest.raises(KeyboardInterrupt, match="Interrupted"):
        model.fit(votes().observations, "0,1", lam=1.0)
