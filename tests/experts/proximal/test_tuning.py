"""λ and ξ are chosen on held-out observed entries, on warm-started paths that stop early."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapimpute import L1, Alphabet, Nuclear, Observations, solve
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.data.schema import ColumnSchema
from snapimpute.evaluation import metrics
from snapimpute.experts.proximal import tuned as tuned_spec
from snapimpute.experts.proximal import tuning
from snapimpute.experts.proximal.choice import HASTY, QUICK, SETTLED
from snapimpute.experts.proximal.offsets import KnownCells
from snapimpute.experts.proximal.spec import SPECTRAL_BY_LAM, ModelSpec
from snapimpute.experts.proximal.tuned import TunedSpec
from snapimpute.experts.proximal.tuning import (
    PATIENCE,
    XI_STEPS,
    Candidate,
    Choice,
    Search,
    Verdict,
    choose,
    lam_grid,
    largest_lam,
    losses,
    path,
    xi_grid,
)
from snapimpute.solvers import APG, AISImpute, FitOptions
from snapimpute.solvers.loop import run
from snapimpute.solvers.options import TUNING

DATA = low_rank_alphabet((30, 24), rank=2, alphabet="1:5", kind="quantised", observed=0.6, noise=0.1, random_state=4)
RECIPE = ModelSpec(DATA.alphabet, center="mean")

MIDDLE = low_rank_alphabet((260, 220), rank=3, alphabet="1:5", kind="quantised", observed=0.3, noise=0.3)
MIDDLE_SPEC = ModelSpec(MIDDLE.alphabet, center="mean")
"""Larger, so that "auto" is AIS-Impute and a whole SVD would not be the cheapest."""


def cells(observations: Observations) -> set[tuple[int, int]]:
    return set(zip(observations.rows.tolist(), observations.cols.tolist(), strict=True))


@pytest.fixture
def solved(monkeypatch) -> list[dict[str, Any]]:
    """Every call of `solve` by the tuning, with what it was given and what it gave."""
    calls: list[dict[str, Any]] = []

    def spy(problem, solver, options, *, x0=None, **more):
        calls.append({"problem": problem, "solver": solver, "x0": x0, **asdict(options), **more})
        calls[-1]["result"] = run(problem, solver, options, x0=x0, **more)
        return calls[-1]["result"]

    monkeypatch.setattr(tuning, "run", spy)
    monkeypatch.setattr(tuned_spec, "run", spy)
    return calls


def lost_by_hand(metric: str, held: Observations, estimate: np.ndarray) -> np.ndarray:
    """What is lost on each entry, with one alphabet."""
    if metric == "rmse":
        return (estimate - held.values) ** 2
    off = np.abs(DATA.alphabet.snap(estimate) - held.values)
    return off if metric == "mae" else (off > 0).astype(float)


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
        ("mae", metrics.mae(held.values, DATA.alphabet.snap(estimate))),
        ("rmse", metrics.rmse(held.values, estimate)),
    ):
        options = {"share": 0.25, "max_iter": 40, "tol": 1e-3, "max_rank": 3, "random_state": 1}
        choice = choose(DATA.observations, RECIPE, lam=2.0, xi=0.01, metric=metric, **options)
        assert choice.best.score == pytest.approx(score, rel=1e-12)
        assert (choice.best.rank, choice.best.n_iter) == (result.x.rank, result.n_iter)
        assert choice.metric == metric
        np.testing.assert_array_equal(choice.held_out[0].estimate, estimate)
        assert cells(choice.held_out[0].observations) == cells(held)


@pytest.mark.parametrize("metric", ["error", "mae", "rmse"])
def test_the_standard_error_is_that_of_the_score(metric):
    """Of a mean it is the usual one; of a root mean square that of the mean over twice the root."""
    choice = choose(DATA.observations, RECIPE, lam=2.0, xi=0.0, metric=metric)
    held = choice.held_out[0]
    loss = lost_by_hand(metric, held.observations, held.estimate)
    np.testing.assert_allclose(held.loss, loss)
    error = loss.std() / math.sqrt(loss.size)
    assert choice.best.error == pytest.approx(error / (2 * math.sqrt(loss.mean())) if metric == "rmse" else error)


# -------------------------------------------------------------------- folds
def test_folds_hold_out_every_entry_once(solved):
    """With cv each fit sees the other folds only, and the folds held out are all entries, each once."""
    choice = choose(DATA.observations, RECIPE, lam=[3.0, 1.0], xi=[0.0, 0.1], cv=3, random_state=5)
    held = [cells(one.observations) for one in choice.held_out]
    assert sum(map(len, held)) == len(set().union(*held)) == len(DATA.observations)
    assert set().union(*held) == cells(DATA.observations)
    assert len(solved) == 3 * 4
    for i, call in enumerate(solved):
        assert cells(call["problem"].observations) == cells(DATA.observations) - held[i % 3]
    assert choice.verdict.count == len(DATA.observations)


def test_the_score_of_folds_is_the_mean_over_all_entries(solved):
    """The losses of all folds count alike, ranks and iterations are the largest of theirs."""
    choice = choose(DATA.observations, RECIPE, lam=2.0, xi=0.0, metric="mae", cv=4, random_state=1)
    folds = list(DATA.observations.kfold(4, random_state=1))
    results = [call["result"] for call in solved]
    parts = [
        lost_by_hand("mae", held, result.entries(held.rows, held.cols))
        for (_, held), result in zip(folds, results, strict=True)
    ]
    assert choice.best.score == pytest.approx(np.concatenate(parts).mean(), rel=1e-12)
    assert choice.best.rank == max(result.x.rank for result in results)
    assert choice.best.n_iter == max(result.n_iter for result in results)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_path_computes_the_smooth_part_once(solved, dtype):
    """All λ of a ξ have the same observations, offsets and targets, in the precision of the fit."""
    choose(DATA.observations, RECIPE, lam=[4.0, 2.0, 1.0], xi=[0.0, 0.02], dtype=dtype)
    for path_of_xi in (solved[:3], solved[3:]):
        problems = [call["problem"] for call in path_of_xi]
        assert {one.targets.dtype for one in problems} == {np.dtype(dtype)}
        assert len({id(one.smooth) for one in problems}) == len({id(one.observations) for one in problems}) == 1
        assert [one.spectral.lam for one in problems] == [4.0, 2.0, 1.0]


def test_folds_are_warm_started_each_by_its_own(solved):
    """Down a path the fit of a fold starts from the fit of the same fold."""
    choose(DATA.observations, RECIPE, lam=[4.0, 2.0, 1.0], xi=0.0, cv=2)
    assert [call["x0"] for call in solved[:2]] == [None, None]
    for i, call in enumerate(solved[2:]):
        assert call["x0"] is solved[i]["result"].x


# -------------------------------------------------------------------- the path
def test_each_fit_starts_from_the_one_before_and_each_path_from_zero(solved):
    """λ falls along a path, every fit is warm-started by its predecessor, and a new ξ starts anew."""
    choose(DATA.observations, RECIPE, lam=[1.0, 4.0, 2.0], xi=[0.0, 0.02])
    assert [call["problem"].spectral.lam for call in solved] == [4.0, 2.0, 1.0] * 2
    assert [call["problem"].discrete.xi for call in solved] == [0.0] * 3 + [0.02] * 3
    for i, call in enumerate(solved):
        assert call["x0"] is (None if i % 3 == 0 else solved[i - 1]["result"].x)


def test_a_path_over_given_lambdas_ends_when_the_score_no_longer_improves():
    """A path is given up exactly when the last few λ brought nothing, and not before."""
    grid = lam_grid(DATA.observations, RECIPE)
    choice = choose(DATA.observations, RECIPE, lam=grid, xi=[0.0, 0.01, 0.1], metric="rmse")
    lengths = []
    for xi in sorted({c.xi for c in choice.tried}):
        lams, scores = zip(*[(c.lam, c.score) for c in choice.tried if c.xi == xi], strict=True)
        assert list(lams) == grid[: len(lams)]
        lengths.append(len(scores))
        since = len(scores) - 1 - int(np.argmin(scores))
        assert since == PATIENCE or (since < PATIENCE and lams[-1] == grid[-1])
    assert len(lengths) == 3
    assert min(lengths) < tuning.LAM_STEPS


def walked(choice: Choice) -> list[Candidate]:
    """The candidates of the first path, before one was fitted further."""
    lams = [c.lam for c in choice.tried]
    end = next((i for i in range(1, len(lams)) if lams[i] >= lams[i - 1]), len(lams))
    return list(choice.tried[:end])


@pytest.mark.parametrize("metric", ["error", "rmse"])
def test_a_path_over_the_grid_ends_at_a_score_that_is_worse_beyond_an_error(solved, metric):
    """By hand: at one that loses more than the best so far by a standard error, or after two that are not better."""
    choice = choose(DATA.observations, RECIPE, metric=metric, xi=0.0)
    first, (_, held) = walked(choice), DATA.observations.split(0.2)
    lost = [lost_by_hand(metric, held, call["result"].entries(held.rows, held.cols)) for call in solved[: len(first)]]
    assert [c.lam for c in first] == lam_grid(DATA.observations.split(0.2)[0], RECIPE)[: len(first)]
    ends = []
    for i in range(1, len(first)):
        best = int(np.argmin([one.mean() for one in lost[:i]]))
        excess = lost[i] - lost[best]
        since = i - int(np.argmin([one.mean() for one in lost[: i + 1]]))
        ends.append(excess.mean() > excess.std() / math.sqrt(excess.size) or since >= PATIENCE)
    assert not any(ends[:-1])
    assert ends[-1] or len(first) == tuning.LAM_STEPS


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fits_down_the_grid_are_hasty(solved, seed):
    """Each but the first has few iterations and a rank that is limited by that of the fit before."""
    choice = choose(MIDDLE.observations, MIDDLE_SPEC, random_state=seed)
    calls = solved[: len(walked(choice))]
    assert (calls[0]["max_rank"], calls[0]["max_iter"]) == (min(MIDDLE.shape), 60)
    for before, call in itertools.pairwise(calls):
        assert call["max_iter"] == max(QUICK.max_iter, QUICK.cells // len(call["problem"].observations)) < 60
        assert call["max_rank"] == min(int(QUICK.growth * before["result"].x.rank) + 10, *MIDDLE.shape)
        assert call["tol"] == QUICK.tol
        assert call["solver"] == AISImpute(accuracy=HASTY)
        assert call["x0"] is before["result"].x


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_xi_begins_at_the_fit_without(solved, seed):
    """At the chosen λ the plain method is fitted further, and each ξ starts from there."""
    choice = choose(MIDDLE.observations, MIDDLE_SPEC, random_state=seed)
    count = len(walked(choice))
    settled = [i for i in range(count, len(solved)) if choice.tried[i].xi == 0]
    assert [solved[i]["tol"] for i in settled] == [SETTLED.tol] * len(settled)
    assert settled[0] == count
    ends = {choice.tried[i].lam: solved[i]["result"].x for i in settled}
    at = choice.verdict.plain.lam
    begun = [i for i in range(len(solved)) if choice.tried[i].xi > 0 and choice.tried[i].lam == at]
    assert len(begun) >= 2
    assert all(solved[i]["x0"] is ends[at] for i in begun)


def test_the_larger_lambda_will_do_if_it_is_as_good(solved):
    """The λ above the hasty choice is fitted further first; the choice itself only if that is worse."""
    counts = set()
    for seed, metric in itertools.product(range(12), ("error", "rmse")):
        solved.clear()
        choice = choose(DATA.observations, RECIPE, xi=0.0, random_state=seed, metric=metric)
        _, held = DATA.observations.split(0.2, random_state=seed)
        lost = [lost_by_hand(metric, held, one["result"].entries(held.rows, held.cols)) for one in solved]
        count = len(walked(choice))

        def as_good(one: np.ndarray, other: np.ndarray) -> bool:
            return (one - other).mean() <= (one - other).std() / math.sqrt(one.size)

        best = [min(range(i + 1), key=lambda j: lost[j].mean()) for i in range(count)]
        hasty = next(i for i in range(count) if all(as_good(lost[i], lost[one]) for one in best[i:]))
        first = max(hasty - 1, 0)
        further = [first] if as_good(lost[count], lost[hasty]) else [first, hasty][: 1 + (hasty > 0)]
        assert [c.lam for c in choice.tried[count:]] == [choice.tried[i].lam for i in further]
        assert choice.best in choice.tried[count:]
        counts.add(len(further))
    assert counts == {1, 2}


def test_other_folds_begin_at_their_own_plain_fit(solved):
    """With cv each fold takes the plain fit of the same fold."""
    choose(DATA.observations, RECIPE, metric="rmse", cv=2)
    first = next(i for i, call in enumerate(solved) if call["problem"].discrete.xi > 0)
    for call in solved[first : first + 2]:
        (start,) = (one for one in solved[:first] if one["result"].x is call["x0"])
        assert start["problem"].spectral.lam == call["problem"].spectral.lam
        assert start["problem"].observations is call["problem"].observations


def scripted(monkeypatch, script: dict[float, np.ndarray]) -> list[float]:
    """The ξ tried in turn if so much is lost at each."""

    class Scripted(Search):
        def _walk(self, lams, xi, starts, limits):
            monkeypatch.setattr(tuning, "losses", lambda *_: script[xi])
            return super()._walk(lams, xi, starts, limits)

    search = Scripted(RECIPE, [DATA.observations.split(0.2)], options=replace(TUNING, max_iter=1))
    return [c.xi for c in search.plain(2.0).others().tried]


@pytest.mark.parametrize(
    ("scores", "tried"),
    [
        ((5, 9, 6, 9, 9), [0, 2, 1]),
        ((5, 4, 6, 9, 9), [0, 2, 1]),
        ((5, 9, 4, 4, 1), [0, 2, 3]),
        ((5, 9, 4, 6, 1), [0, 2, 3]),
        ((5, 9, 4, 3, 2), [0, 2, 3, 4]),
    ],
)
def test_two_xi_are_tried_and_more_while_they_help(monkeypatch, scores, tried):
    """The middle one first, then its neighbour on the side that looks better, then on as long as scores fall."""
    script = {xi: np.full(10, float(score)) for xi, score in zip(XI_STEPS, scores, strict=True)}
    assert scripted(monkeypatch, script) == [XI_STEPS[i] for i in tried]


def test_a_gain_within_an_error_is_no_reason_to_go_on(monkeypatch):
    """Scores fall from ξ to ξ, by less than a standard error of the difference from ξ = 0."""
    noise = np.tile([3.0, -3.0], 5)
    script = {xi: 5 - 0.1 * i + (noise if i else 0 * noise) for i, xi in enumerate(XI_STEPS)}
    assert scripted(monkeypatch, script) == [XI_STEPS[i] for i in (0, 2, 3)]
    better = {xi: loss - (2 if xi else 0) for xi, loss in script.items()}
    assert scripted(monkeypatch, better) == [XI_STEPS[i] for i in (0, 2, 3, 4)]


def test_a_xi_is_chosen_if_it_helps_beyond_an_error(monkeypatch):
    """Within an error the plain method is taken; of a whole surface the best."""
    noise = np.tile([3.0, -3.0], 5)
    for gain, early, chosen in ((0.1, True, 0.0), (2.0, True, 0.1), (0.1, False, 0.1)):
        script = {0.0: np.full(10, 5.0), 0.1: 5 - gain + noise}

        class Scripted(Search):
            def _walk(self, lams, xi, starts, limits, script=script):
                monkeypatch.setattr(tuning, "losses", lambda *_: script[xi])
                return super()._walk(lams, xi, starts, limits)

        folds = [DATA.observations.split(0.2)]
        search = Scripted(RECIPE, folds, options=replace(TUNING, max_iter=1), early=early)
        assert search.plain(2.0, [0.0, 0.1]).others().choice().xi == chosen


def test_given_lambdas_are_tried_with_every_xi():
    """Paths over λ that were given begin at the largest, and no ξ is given up."""
    choice = choose(DATA.observations, RECIPE, lam=[1e6, 2e6])
    assert [(c.lam, c.xi) for c in choice.tried] == [(lam, xi) for xi in XI_STEPS for lam in (2e6, 1e6)]


def test_xi_is_walked_from_the_smallest_up(solved):
    """Whatever the order given, ξ = 0 comes first: the others begin at the plain fit, and all are tried."""
    choice = choose(DATA.observations, RECIPE, xi=[0.1, 0.0, 0.001, 0.2], metric="rmse")
    assert list(dict.fromkeys(c.xi for c in choice.tried)) == [0.0, 0.001, 0.1, 0.2]
    first = next(call for call in solved if call["problem"].discrete.xi > 0)
    assert first["x0"] is not None


def test_a_path_tries_every_pair(solved):
    """Nothing is left out, however bad the scores, and each ξ starts anew from the largest λ."""
    lams, xis = [1e-3, 1e6, 2e6, 3e6, 4.0], [0.0, 0.1, 0.2, 0.3]
    choice = path(DATA.observations, RECIPE, lam=lams, xi=xis, max_iter=5)
    assert [(c.lam, c.xi) for c in choice.tried] == [(lam, xi) for xi in xis for lam in sorted(lams, reverse=True)]
    assert [i for i, call in enumerate(solved) if call["x0"] is None] == [0, 5, 10, 15]
    auto = path(DATA.observations, RECIPE, max_iter=1)
    assert len(auto.tried) == tuning.LAM_STEPS * len(XI_STEPS)
    assert auto.best.score == min(c.score for c in auto.tried)


def test_the_surface_places_every_score():
    """λ and ξ ascend, each score stands at its pair, and NaN where nothing was tried."""
    choice = path(DATA.observations, RECIPE, lam=[1.0, 4.0, 2.0], xi=[0.1, 0.0], max_iter=5)
    lams, xis, scores = choice.surface()
    assert (lams.tolist(), xis.tolist()) == ([1.0, 2.0, 4.0], [0.0, 0.1])
    assert {(lam, xi, scores[i, j]) for i, lam in enumerate(lams) for j, xi in enumerate(xis)} == {
        (c.lam, c.xi, c.score) for c in choice.tried
    }
    some = [Candidate(2.0, 0.0, 0.5, 1, 1), Candidate(1.0, 0.3, 0.25, 1, 1)]
    np.testing.assert_array_equal(Choice(some[1], tuple(some), "error").surface()[2], [[np.nan, 0.25], [0.5, np.nan]])


def test_of_equal_scores_the_first_tried_wins():
    """The smaller ξ, then the larger λ."""
    choice = choose(DATA.observations, RECIPE, lam=[1e6, 2e6], xi=[0.0, 0.1])  # all fits are zero, all scores equal
    assert len({c.score for c in choice.tried}) == 1
    assert (choice.lam, choice.xi) == (2e6, 0.0)
    choice = path(DATA.observations, RECIPE, xi=[0.0, 0.03])
    assert choice.best == next(c for c in choice.tried if c.score == min(c.score for c in choice.tried))


@pytest.mark.parametrize(("metric", "seed"), [("error", 0), ("error", 1), ("mae", 7), ("rmse", 0), ("rmse", 2)])
def test_the_largest_lambda_as_good_as_the_best_is_taken(solved, metric, seed):
    """By hand: no more is lost on average than a standard error of the difference, entry by entry."""
    grid = lam_grid(DATA.observations, RECIPE)[1] * 0.85 ** np.arange(14)
    choice = choose(DATA.observations, RECIPE, lam=grid, xi=0.0, metric=metric, random_state=seed)
    _, held = DATA.observations.split(0.2, random_state=seed)
    lost = {
        call["problem"].spectral.lam: lost_by_hand(metric, held, call["result"].entries(held.rows, held.cols))
        for call in solved
    }
    best = min(lost, key=lambda lam: lost[lam].mean())
    worse = {lam: one - lost[best] for lam, one in lost.items()}
    as_good = [lam for lam, one in worse.items() if one.mean() <= one.std() / math.sqrt(one.size)]
    assert best < choice.lam == max(as_good)
    np.testing.assert_allclose(choice.held_out[0].loss, lost[choice.lam])


def test_a_final_fit_comes_down_the_path_of_the_choice(solved):
    """Where the answer depends on the start, the fit of everything starts as the one that was chosen did."""
    spec = ModelSpec(DATA.alphabet, discrete="l0", center="mean")
    plain = [Candidate(lam, 0.0, 0.5, 1, 1) for lam in (8.0, 4.0, 2.0)]
    late = [Candidate(lam, 0.01, 0.4, 1, 1) for lam in (4.0, 2.0, 1.0)]
    for chosen, walked in (
        (late[0], [(8.0, 0.0), (4.0, 0.0), (4.0, 0.01)]),
        (late[1], [(8.0, 0.0), (4.0, 0.0), (4.0, 0.01), (2.0, 0.01)]),
        (plain[1], [(4.0, 0.0)]),  # convex: the start does not matter
    ):
        solved.clear()
        choice = Choice(chosen, (*plain, *late), "error")
        TunedSpec(spec, chosen.lam, chosen.xi, choice).fit(DATA.observations, options=FitOptions(max_iter=5))
        assert [(call["problem"].spectral.lam, call["problem"].discrete.xi) for call in solved] == walked
        for before, call in itertools.pairwise(solved):
            assert call["x0"] is before["result"].x


# -------------------------------------------------------------------- the verdict
@pytest.mark.slow
@pytest.mark.parametrize("metric", ["error", "mae", "rmse"])
@pytest.mark.parametrize("cv", [None, 3])
def test_the_verdict_compares_entry_by_entry(metric, cv):
    """Gain and standard error are those of the paired differences of the best of either kind."""
    search = (
        Search(RECIPE, KnownCells(DATA.observations).folds(cv=cv), metric)
        .plain([4.0, 2.0, 1.0], [0.0, 0.01, 0.1])
        .others()
    )
    verdict = search.choice().verdict
    scores = {kind: [c for c in search.tried if (c.xi > 0) == kind] for kind in (False, True)}
    assert verdict.plain == min(scores[False], key=lambda c: c.score)
    assert verdict.aware == min(scores[True], key=lambda c: c.score)
    gains = search.losses[verdict.plain] - search.losses[verdict.aware]
    assert verdict.gain == pytest.approx(gains.mean())
    assert verdict.error == pytest.approx(gains.std() / math.sqrt(gains.size))
    power = 2 if metric == "rmse" else 1
    assert verdict.gain == pytest.approx(verdict.plain.score**power - verdict.aware.score**power)
    assert (verdict.count, verdict.metric) == (sum(map(len, search.held)), metric)


def test_without_both_kinds_there_is_no_verdict():
    """Only plain fits, or only others, compare nothing."""
    assert choose(DATA.observations, RECIPE, lam=2.0, xi=0.0).verdict is None
    assert choose(DATA.observations, RECIPE, lam=2.0, xi=[0.1, 0.2]).verdict is None


@pytest.mark.parametrize(
    ("gain", "error", "helped", "answer"),
    [
        (0.03, 0.01, True, "yes: "),
        (-0.03, 0.01, False, "no, it did worse: "),
        (0.02, 0.01, None, "no difference that these data could tell: "),
        (-0.02, 0.01, None, "no difference that these data could tell: "),
        (0.0, 0.0, None, "no difference that these data could tell: "),
    ],
)
def test_a_verdict_needs_two_standard_errors(gain, error, helped, answer):
    """Yes or no beyond two standard errors, else neither; and the text says so."""
    plain, aware = Candidate(1.0, 0.0, 0.25, 1, 1), Candidate(1.0, 0.003, 0.25 - gain, 1, 1)
    verdict = Verdict(plain, aware, gain, error, 12345, "error")
    assert verdict.helped is helped
    assert f"did discreteness beat rounding? {answer}" in str(verdict)


def test_the_text_of_a_verdict_has_its_units():
    """Shares are in percent; the gain of a root mean square is one of squared errors."""
    plain, aware = Candidate(1.0, 0.0, 0.25, 1, 1), Candidate(1.0, 0.003, 0.2, 1, 1)
    texts = {
        metric: str(Verdict(plain, aware, 0.05, 0.01, 12345, metric)).split(": ")[1]
        for metric in ("error", "mae", "rmse")
    }
    assert texts == {
        "error": "20 % wrong with ξ = 0.003, 25 without; gain 5 ± 1 (% wrong, 12,345 entries held out)",
        "mae": "0.2 mae with ξ = 0.003, 0.25 without; gain 0.05 ± 0.01 (mae, 12,345 entries held out)",
        "rmse": "0.2 rmse with ξ = 0.003, 0.25 without; gain 0.05 ± 0.01 (squared error, 12,345 entries held out)",
    }


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
        choose(DATA.observations, ModelSpec(DATA.alphabet, spectral, center="mean"), lam=4.0, xi=0.0)
    assert [call["result"].settings["solver"].split("(")[0] for call in solved] == ["APG", "NIAPG"]


def test_a_solver_without_use_for_lambda_can_be_chosen_by_its_score(solved):
    """Where only the specification is open, a single candidate is scored: the λ and ξ given."""
    choice = choose(DATA.observations, RECIPE, lam=1.0, xi=0.0, solver="svt", max_iter=30)
    assert [(c.lam, c.xi) for c in choice.tried] == [(1.0, 0.0)]
    assert len(solved) == 1
    assert 0 < choice.best.score < 1


# -------------------------------------------------------------------- the grids
@pytest.mark.parametrize("center", [None, "mean", "biases"])
def test_the_largest_lambda_is_where_the_fit_becomes_zero(center):
    """Just above it nothing is left of X, just below something is."""
    spec = ModelSpec(DATA.alphabet, center=center)
    top = largest_lam(DATA.observations, spec)
    ranks = [solve(spec.problem(DATA.observations, f * top, 0.0), APG(), max_iter=5).x.rank for f in (1.001, 0.98)]
    assert ranks == [0, 1]


def test_the_largest_lambda_of_a_constant_table_is_positive():
    """A table that its mean explains completely still has a usable grid."""
    constant = Observations.from_dense(np.full((6, 5), 3.0))
    assert 0 < largest_lam(constant, RECIPE) < 1e-6
    assert choose(constant, RECIPE).best.score == 0.0


@pytest.mark.parametrize("name", SPECTRAL_BY_LAM)
def test_the_lambda_grid_falls_in_thresholds(name):
    """The thresholds fall by one ratio from the largest singular value down, the same for every penalty."""
    spec = ModelSpec(DATA.alphabet, name, center="mean")
    grid = lam_grid(DATA.observations, spec)
    ladder = largest_lam(DATA.observations, spec) * tuning.LAM_RATIO ** np.arange(1, tuning.LAM_STEPS + 1)
    np.testing.assert_allclose([SPECTRAL_BY_LAM[name](lam).threshold() for lam in grid], ladder, rtol=1e-11)
    assert {type(lam) for lam in grid} == {float}


def test_the_lambda_grid_where_it_is_known():
    """λ is the threshold t itself for most penalties, t² for the log-sum with θ = √λ, t²/2 for the rank."""
    grids = {
        name: lam_grid(DATA.observations, ModelSpec(DATA.alphabet, name, center="mean")) for name in SPECTRAL_BY_LAM
    }
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
    """ξ = 0 is always tried, and first; the two others are in units of the gap between symbols."""
    alphabet = Alphabet.of(alphabet)
    X = alphabet.symbols[np.random.default_rng(0).integers(len(alphabet), size=(8, 6))]
    choice_spec = ModelSpec(alphabet, discrete=discrete)
    choice = choose(Observations.from_dense(X), choice_spec, lam=1e6)
    assert [c.xi for c in choice.tried] == [unit * XI_STEPS[i] for i in (0, 2, 1)]
    assert xi_grid(choice_spec) == [unit * step for step in XI_STEPS]


def test_closed_strengths_are_not_searched():
    """Penalty objects leave one candidate for their strength."""
    choice = choose(DATA.observations, ModelSpec(DATA.alphabet, Nuclear(3.0), L1("1:5", 0.01), "mean"))
    assert len(choice.tried) == 1
    choice = choose(DATA.observations, ModelSpec(DATA.alphabet, Nuclear(3.0), None, "mean"))
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
        ({"metric": "accuracy"}, 'metric must be "error", "mae" or "rmse", got \'accuracy\''),
        ({"cv": 0}, "k must be between 2 and the number of observed entries"),
        ({"cv": 1}, "k must be between 2 and the number of observed entries"),
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


# -------------------------------------------------------------------- losses
MIXED = ColumnSchema.of(["0,1", "1:5", None, "0,1"], 4)


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 2, st.floats(-3, 9)), min_size=1, max_size=30))
def test_losses_go_by_the_alphabet_of_the_column(drawn):
    """Each entry is snapped to the symbols of its own column; any number counts by its squared error."""
    rows = np.arange(len(drawn))
    cols = np.array([col % 4 for col, _, _ in drawn])
    truth = np.array([(code % 2, code + 1.0, 2.5 * code, code % 2)[col % 4] for col, code, _ in drawn])
    estimate = np.array([x for _, _, x in drawn])
    held = Observations.from_coo(rows, cols, truth, (rows.size, 4))
    for metric in ("error", "mae", "rmse"):
        expected = []
        for col, o, x in zip(cols.tolist(), truth, estimate, strict=True):
            alphabet = MIXED[col]
            off = np.inf if alphabet is None else abs(alphabet.snap([x])[0] - o)
            squared = alphabet is None or metric == "rmse"
            expected.append((x - o) ** 2 if squared else off if metric == "mae" else float(off > 0))
        np.testing.assert_allclose(losses(metric, held, estimate, MIXED), expected)


def test_losses_of_columns_left_alone_are_squared():
    """A column that is not ours has no symbols to be wrong about."""
    book = ColumnSchema.of({0: "0,1", 1: None}, 2, leave=True)
    held = Observations.from_dense([[1.0, 7.0]])
    np.testing.assert_allclose(losses("error", held, np.array([0.4, 5.0]), book), [1.0, 4.0])


def test_several_alphabets_are_chosen_for_at_once():
    """The score of a table of several alphabets is the mean of what its columns lose."""
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.integers(0, 2, (20, 4)), rng.integers(1, 6, (20, 4)), rng.normal(size=(20, 2))])
    book = ColumnSchema.of(["0,1"] * 4 + ["1:5"] * 4 + [None] * 2, 10)
    choice = choose(Observations.from_dense(X), ModelSpec(book, center="columns"), lam=[3.0, 1.0], xi=[0.0, 0.1])
    (held,) = choice.held_out
    assert choice.best.score == pytest.approx(losses("error", held.observations, held.estimate, book).mean())
    assert choice.verdict is not None


def test_losses_refuse_an_unknown_metric():
    """The scoring function itself checks its metric."""
    with pytest.raises(ValueError, match="metric must be"):
        losses("kappa", Observations.from_dense([[1.0]]), np.ones(1), ColumnSchema.single(DATA.alphabet, 1))
