"""λ and ξ are chosen on held-out observed entries, on warm-started paths that stop early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from snapimpute import L1, Alphabet, Nuclear, Observations, metrics, solve, tuning
from snapimpute.datasets import low_rank_alphabet
from snapimpute.recipe import SPECTRAL, Recipe
from snapimpute.solvers import APG, AISImpute
from snapimpute.tuning import PATIENCE, XI_STEPS, choose, held_out_score, lam_grid, largest_lam

DATA = low_rank_alphabet((30, 24), rank=2, alphabet="1:5", kind="quantised", observed=0.6, noise=0.1, random_state=4)
RECIPE = Recipe(DATA.alphabet, center="mean")


def cells(observations: Observations) -> set[tuple[int, int]]:
    return set(zip(observations.rows.tolist(), observations.cols.tolist(), strict=True))


@pytest.fixture
def solved(monkeypatch) -> list[dict[str, Any]]:
    """Every call of `solve` by the tuning, with what it was given and what it gave."""
    calls: list[dict[str, Any]] = []

    def spy(problem, solver, **options):
        calls.append({"problem": problem, "solver": solver, **options})
        calls[-1]["result"] = solve(problem, solver, **options)
        return calls[-1]["result"]

    monkeypatch.setattr(tuning, "solve", spy)
    return calls


# -------------------------------------------------------------------- what is seen
def test_fits_see_four_fifths_and_never_the_rest(solved):
    """Every fit sees the same kept entries; none of them is among those held out, together they are all."""
    choose(DATA.observations, RECIPE, lam=[3.0, 1.0], xi=[0.0, 0.1], random_state=5)
    kept, held = DATA.observations.split(0.2, random_state=5)
    assert len(solved) == 4
    assert all(cells(call["problem"].observations) == cells(kept) for call in solved)
    assert not cells(kept) & cells(held)
    assert cells(kept) | cells(held) == cells(DATA.observations)


def test_held_out_values_change_scores_only():
    """Other values in the held-out entries leave every fit as it was: the grid, the ranks, the iterations."""
    _, held = DATA.observations.split(0.2, random_state=0)
    out = np.array([cell in cells(held) for cell in zip(DATA.observations.rows, DATA.observations.cols, strict=True)])
    changed = DATA.observations.with_values(np.where(out, 6 - DATA.observations.values, DATA.observations.values))
    lams = lam_grid(DATA.observations.split(0.2, random_state=0)[0], RECIPE)[2:5]  # too few to stop early
    before, after = (choose(obs, RECIPE, lam=lams, xi=[0.0, 0.03]) for obs in (DATA.observations, changed))
    assert [(c.lam, c.xi, c.rank, c.n_iter) for c in before.tried] == [
        (c.lam, c.xi, c.rank, c.n_iter) for c in after.tried
    ]
    assert [c.score for c in before.tried] != [c.score for c in after.tried]
    tops = [choose(obs, RECIPE, xi=0.0, max_iter=2).tried[0].lam for obs in (DATA.observations, changed)]
    assert tops == [lam_grid(DATA.observations.split(0.2, random_state=0)[0], RECIPE)[0]] * 2


def test_unobserved_entries_cannot_matter():
    """Two tables that agree on what is observed give the same choice, whatever else they hold."""
    truth, mask = DATA.to_dense(), np.ones(DATA.shape, dtype=bool)
    mask[DATA.observations.rows, DATA.observations.cols] = False
    tables = [np.ma.masked_array(other, mask) for other in (truth, np.where(mask, 6 - truth, truth))]
    choices = [choose(Observations.from_dense(table), RECIPE, xi=0.0) for table in tables]
    assert choices[0] == choices[1]


def test_the_score_is_that_of_a_fit_on_the_kept_entries():
    """A candidate's score is what one gets by fitting the kept entries and predicting the others."""
    kept, held = DATA.observations.split(0.25, random_state=1)
    result = solve(RECIPE.problem(kept, 2.0, 0.01), max_iter=40, tol=1e-3, max_rank=3, random_state=1)
    estimate = result.entries(held.rows, held.cols)
    for metric, score in (
        ("error", np.mean(DATA.alphabet.snap(estimate) != held.values)),
        ("rmse", metrics.rmse(held.values, estimate)),
    ):
        options = {"share": 0.25, "max_iter": 40, "tol": 1e-3, "max_rank": 3, "random_state": 1}
        choice = choose(DATA.observations, RECIPE, lam=2.0, xi=0.01, metric=metric, **options)
        assert choice.best.score == pytest.approx(score, rel=1e-12)
        assert (choice.best.rank, choice.best.n_iter) == (result.x.rank, result.n_iter)
        assert choice.metric == metric


# -------------------------------------------------------------------- the path
def test_each_fit_starts_from_the_one_before_and_each_path_from_zero(solved):
    """λ falls along a path, every fit is warm-started by its predecessor, and a new ξ starts anew."""
    choose(DATA.observations, RECIPE, lam=[1.0, 4.0, 2.0], xi=[0.0, 0.02])
    assert [call["problem"].spectral.lam for call in solved] == [4.0, 2.0, 1.0] * 2
    assert [call["problem"].discrete.xi for call in solved] == [0.0] * 3 + [0.02] * 3
    for i, call in enumerate(solved):
        assert call["x0"] is (None if i % 3 == 0 else solved[i - 1]["result"].x)


def test_a_path_ends_when_the_score_no_longer_improves():
    """A path is given up exactly when the last few λ brought nothing, and not before."""
    choice = choose(DATA.observations, RECIPE, metric="rmse")
    lengths = []
    for xi in sorted({c.xi for c in choice.tried}):
        scores = [c.score for c in choice.tried if c.xi == xi]
        lengths.append(len(scores))
        since = len(scores) - 1 - int(np.argmin(scores))
        assert since == PATIENCE or (since < PATIENCE and len(scores) == tuning.LAM_STEPS)
    assert len(lengths) == len(XI_STEPS)
    assert min(lengths) < tuning.LAM_STEPS


def test_the_best_is_the_first_of_the_least_scores():
    """Of equal scores the first tried wins: the smaller ξ, then the larger λ."""
    choice = choose(DATA.observations, RECIPE, lam=[1e6, 2e6], xi=[0.0, 0.1])  # all fits are zero, all scores equal
    assert len({c.score for c in choice.tried}) == 1
    assert (choice.lam, choice.xi) == (2e6, 0.0)
    choice = choose(DATA.observations, RECIPE, xi=[0.0, 0.03])
    assert choice.best.score == min(c.score for c in choice.tried)


def test_progress_sees_every_candidate_in_order():
    """The callback gets exactly the candidates of the result, as they come."""
    seen: list[tuning.Candidate] = []
    choice = choose(DATA.observations, RECIPE, lam=[4.0, 2.0], xi=[0.0, 0.1], progress=seen.append)
    assert tuple(seen) == choice.tried
    assert len(seen) == 4


def test_same_seed_same_choice():
    """The choice is a function of the data and the seed, and the seed decides what is held out."""
    first, again, other = (choose(DATA.observations, RECIPE, xi=0.0, random_state=seed) for seed in (0, 0, 1))
    assert first == again
    assert [c.score for c in first.tried] != [c.score for c in other.tried]


def test_an_interruption_ends_the_whole_choice():
    """Ctrl-C in one fit must not mean to go on with the next one."""

    class Interrupted(APG):
        def step(self, problem, state, context):
            raise KeyboardInterrupt

    seen: list[tuning.Candidate] = []
    with pytest.raises(KeyboardInterrupt):
        choose(DATA.observations, RECIPE, solver=Interrupted(), progress=seen.append)
    assert seen == []


# -------------------------------------------------------------------- the solver
@pytest.mark.parametrize(
    ("solver", "ran"), [("auto", APG()), ("ais-impute", AISImpute()), (APG(beta="fista"), APG(beta="fista"))]
)
def test_every_fit_runs_the_solver_asked_for(solved, solver, ran):
    """A name, an object or "auto" reaches each fit, and is what runs there."""
    choose(DATA.observations, RECIPE, lam=[4.0, 2.0], xi=[0.0, 0.02], solver=solver)
    assert [call["solver"] for call in solved] == [solver] * 4
    assert {call["result"].settings["solver"] for call in solved} == {repr(ran)}


def test_without_a_name_the_solver_is_chosen_for_each_problem(solved):
    """The default is "auto": another penalty, another solver."""
    for spectral in ("nuclear", "mcp"):
        choose(DATA.observations, Recipe(DATA.alphabet, spectral, center="mean"), lam=4.0, xi=0.0)
    assert [call["result"].settings["solver"].split("(")[0] for call in solved] == ["APG", "NIAPG"]


def test_a_solver_without_use_for_lambda_can_be_chosen_by_its_score(solved):
    """Where only the recipe is open, a single candidate is scored: the λ and ξ given."""
    choice = choose(DATA.observations, RECIPE, lam=1.0, xi=0.0, solver="svt", max_iter=30)
    assert [(c.lam, c.xi) for c in choice.tried] == [(1.0, 0.0)]
    assert len(solved) == 1
    assert 0 < choice.best.score < 1


# -------------------------------------------------------------------- the grids
@pytest.mark.parametrize("center", [None, "mean", "biases"])
def test_the_largest_lambda_is_where_the_fit_becomes_zero(center):
    """Just above it nothing is left of X, just below something is."""
    recipe = Recipe(DATA.alphabet, center=center)
    top = largest_lam(DATA.observations, recipe)
    ranks = [solve(recipe.problem(DATA.observations, f * top, 0.0), APG(), max_iter=5).x.rank for f in (1.001, 0.98)]
    assert ranks == [0, 1]


def test_the_largest_lambda_of_a_constant_table_is_positive():
    """A table that its mean explains completely still has a usable grid."""
    constant = Observations.from_dense(np.full((6, 5), 3.0))
    assert 0 < largest_lam(constant, RECIPE) < 1e-6
    assert choose(constant, RECIPE).best.score == 0.0


@pytest.mark.parametrize("name", SPECTRAL)
def test_the_lambda_grid_falls_in_thresholds(name):
    """The thresholds fall by one ratio from the largest singular value down, the same for every penalty."""
    recipe = Recipe(DATA.alphabet, name, center="mean")
    grid = lam_grid(DATA.observations, recipe)
    ladder = largest_lam(DATA.observations, recipe) * tuning.LAM_RATIO ** np.arange(1, tuning.LAM_STEPS + 1)
    np.testing.assert_allclose([SPECTRAL[name](lam).threshold() for lam in grid], ladder, rtol=1e-11)
    assert {type(lam) for lam in grid} == {float}


def test_the_lambda_grid_where_it_is_known():
    """λ is the threshold t itself for most penalties, t² for the log-sum with θ = √λ, t²/2 for the rank."""
    grids = {name: lam_grid(DATA.observations, Recipe(DATA.alphabet, name, center="mean")) for name in SPECTRAL}
    t = grids.pop("nuclear")
    np.testing.assert_allclose(np.divide(t[1:], t[:-1]), tuning.LAM_RATIO)
    np.testing.assert_allclose(grids.pop("lsp"), np.square(t), rtol=1e-11)
    np.testing.assert_allclose(grids.pop("rank"), np.square(t) / 2, rtol=1e-11)
    assert all(grid == t for grid in grids.values())
    assert len(grids) == 4


@pytest.mark.parametrize(
    ("alphabet", "discrete", "unit"),
    [("1:5", "l1", 1.0), ("0,0.5,3", "l1", 0.5), ("0,0.5,3", "l0", 0.25), ("0,0.5,3", "ridge", 1.0)],
)
def test_the_xi_grid_has_zero_and_the_unit_of_the_smallest_gap(alphabet, discrete, unit):
    """ξ = 0 is always tried, and first; the others are in units of the gap between symbols."""
    alphabet = Alphabet.of(alphabet)
    X = alphabet.symbols[np.random.default_rng(0).integers(len(alphabet), size=(8, 6))]
    choice = choose(Observations.from_dense(X), Recipe(alphabet, discrete=discrete), lam=1e6)
    assert [c.xi for c in choice.tried] == [unit * step for step in XI_STEPS]
    assert choice.tried[0].xi == 0.0


def test_closed_strengths_are_not_searched():
    """Penalty objects leave one candidate for their strength."""
    choice = choose(DATA.observations, Recipe(DATA.alphabet, Nuclear(3.0), L1("1:5", 0.01), "mean"))
    assert len(choice.tried) == 1
    choice = choose(DATA.observations, Recipe(DATA.alphabet, Nuclear(3.0), None, "mean"))
    assert len(choice.tried) == 1


def test_lists_and_arrays_of_strengths_are_taken():
    """A grid may be a number, a list or an array, in any order."""
    tried = [
        choose(DATA.observations, RECIPE, lam=lam, xi=0.0).tried for lam in ([2.0, 4.0], np.array([4.0, 2.0]), (2, 4))
    ]
    assert tried[0] == tried[1] == tried[2]
    assert {type(number) for c in tried[1] for number in (c.lam, c.xi, c.score)} == {float}


# -------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"metric": "mae"}, 'metric must be "error" or "rmse", got \'mae\''),
        ({"lam": "best"}, "lam must be a number, a list of numbers or \"auto\", got 'best'"),
        ({"xi": "none"}, "xi must be a number, a list of numbers or \"auto\", got 'none'"),
        ({"lam": []}, "lam must be a number"),
        ({"lam": -1.0}, "lam must be a finite number"),
        ({"xi": np.inf}, "xi must be a finite number"),
        ({"share": 1.0}, "share must lie between 0 and 1"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"solver": "newton"}, "solver must be \"auto\" or one of soft-impute, .*, got 'newton'"),
        ({"solver": "svt", "xi": 0.1}, "SVT does not treat a discrete term.*fit this problem: soft-impute"),
        ({"solver": "altmin"}, "AltMin treats only the spectral penalty rank, not Nuclear"),
    ],
)
def test_wrong_arguments_are_refused_before_any_fit(solved, wrong, message):
    """The error says what was expected and what was given, and no fit was run in vain."""
    with pytest.raises(ValueError, match=message):
        choose(DATA.observations, RECIPE, **wrong)
    assert all("result" not in call for call in solved)


def test_too_few_entries_to_hold_out():
    """Two entries cannot be split into five parts, and the error says so."""
    with pytest.raises(ValueError, match="leaves one side empty"):
        choose(Observations.from_dense([[1.0, 2.0]]), RECIPE)


def test_held_out_score_refuses_an_unknown_metric():
    """The scoring function itself checks its metric."""
    with pytest.raises(ValueError, match="metric must be"):
        held_out_score("mae", np.ones(2), np.ones(2), DATA.alphabet)
