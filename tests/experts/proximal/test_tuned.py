"""Tuning costs little, and the last fit begins where it ended."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from snapimpute import Observations
from snapimpute.base.files import file_form
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.experts.proximal import tuned as tuned_spec
from snapimpute.experts.proximal import tuning
from snapimpute.experts.proximal.choice import SETTLED, SMALL_SIDE, Candidate, thin
from snapimpute.experts.proximal.offsets import KnownCells
from snapimpute.experts.proximal.tuned import APPROACH, TunedSpec, TuningInterruptedError, tune
from snapimpute.solvers import APG, AISImpute, FitOptions
from snapimpute.solvers.loop import run

DATA = low_rank_alphabet((30, 24), rank=2, alphabet="1:5", kind="quantised", observed=0.6, noise=0.1, random_state=4)
MIDDLE = low_rank_alphabet((260, 220), rank=3, alphabet="1:5", kind="quantised", observed=0.3, noise=0.3)
OPTIONS = FitOptions(max_iter=300, tol=1e-4, alphabet_term="auto")


@pytest.fixture
def fits(monkeypatch) -> list[dict[str, Any]]:
    """Every fit of the tuning and after it, with what it was given and what it gave."""
    calls: list[dict[str, Any]] = []

    def spy(problem, solver, options, *, x0=None, **more):
        result = run(problem, solver, options, x0=x0, **more)
        calls.append({"problem": problem, "solver": solver, "x0": x0, "options": options, "result": result})
        return result

    monkeypatch.setattr(tuning, "run", spy)
    monkeypatch.setattr(tuned_spec, "run", spy)
    return calls


def chosen_fit(fits: list[dict[str, Any]], tuned: TunedSpec) -> dict[str, Any]:
    """The fit whose candidate was chosen, the last of several alike."""
    tried = list(tuned.choice.tried)
    return fits[len(tried) - 1 - tried[::-1].index(tuned.choice.best)]


# -------------------------------------------------------------------- the last fit
@pytest.mark.parametrize("discrete", ["l1", "l0"])
@pytest.mark.parametrize("data", [DATA, MIDDLE], ids=["small", "middle"])
def test_the_last_fit_begins_at_the_tuned_factors(fits, data, discrete):
    """The fit to the kept cells that was chosen is the start, and a few iterations of limited rank come first."""
    tuned = tune(data.observations, data.alphabet, center="mean", discrete=discrete, options=OPTIONS)
    assert tuned.start is chosen_fit(fits, tuned)["result"].x
    fits.clear()
    result = tuned.fit(data.observations, options=OPTIONS)
    nearer, last = fits
    assert nearer["x0"] is tuned.start
    assert len(nearer["problem"].observations) == len(data.observations)
    assert nearer["options"].max_iter == APPROACH.max_iter
    assert nearer["options"].max_rank == int(APPROACH.growth * tuned.start.rank) + 10
    assert last["x0"] is nearer["result"].x
    assert last["options"] == OPTIONS
    assert last["result"] is result


def test_a_warm_last_fit_is_as_good_as_a_cold_one_and_shorter():
    """The objective is the same where every term is convex, after fewer iterations."""
    options = FitOptions(max_iter=1000, tol=1e-6)
    tuned = tune(MIDDLE.observations, MIDDLE.alphabet, center="mean", options=options)
    warm, cold = (one.fit(MIDDLE.observations, options=options) for one in (tuned, replace(tuned)))
    assert warm.objective == pytest.approx(cold.objective, rel=1e-6)
    assert warm.n_iter < cold.n_iter


def test_a_solver_that_was_given_begins_there_at_once(fits):
    """Every iteration of it is its own."""
    solver = AISImpute(accuracy=0.2)
    tuned = tune(DATA.observations, DATA.alphabet, center="mean", xi=0.0, solver=solver, options=OPTIONS)
    count = len(fits)
    tuned.fit(DATA.observations, solver, OPTIONS)
    assert [one["solver"] for one in fits] == [solver] * (count + 1)
    assert fits[-1]["x0"] is tuned.start is chosen_fit(fits, tuned)["result"].x


def test_with_folds_the_last_fit_begins_at_that_of_the_first(fits):
    """Any of them will do."""
    tuned = tune(DATA.observations, DATA.alphabet, center="mean", xi=0.0, cv=3, options=OPTIONS)
    tried = list(tuned.choice.tried)
    at = len(tried) - 1 - tried[::-1].index(tuned.choice.best)
    assert tuned.start is fits[3 * at]["result"].x


def test_what_begins_anew(fits, tmp_path):
    """A start that is given goes first; a table of another shape and a checkpoint have none."""
    tuned = tune(DATA.observations, DATA.alphabet, center="mean", xi=0.0, options=OPTIONS)
    own = tuned.start.truncated(1)
    other = Observations.from_dense(DATA.to_dense()[:20])
    for observations, more, x0 in (
        (DATA.observations, {"x0": own}, own),
        (DATA.observations, {"checkpoint": tmp_path / "run"}, None),
        (other, {}, None),
    ):
        fits.clear()
        tuned.fit(observations, options=OPTIONS, **more)
        assert [one["x0"] for one in fits] == [x0]


def test_the_start_stands_in_no_file_and_in_no_comparison():
    """It is as large as the model, and what it leads to is known after the fit."""
    tuned = tune(DATA.observations, DATA.alphabet, center="mean", xi=0.0, options=OPTIONS)
    again = copy.copy(tuned)  # by the state that a pickle has
    assert again.start is None
    assert tuned.start is not None
    assert (again.lam, again.xi, again.choice) == (tuned.lam, tuned.xi, tuned.choice)
    assert "start" not in file_form(TunedSpec).fields
    assert replace(tuned) == tuned
    assert replace(tuned).start is None


def test_an_interruption_before_the_last_iterations_ends_the_fit(monkeypatch, fits):
    """The result of the first ones is returned, with its status."""
    tuned = tune(DATA.observations, DATA.alphabet, center="mean", xi=0.0, options=OPTIONS)
    fits.clear()

    def stop(self, problem, state, context):
        raise KeyboardInterrupt

    monkeypatch.setattr(APG, "step", stop)
    result = tuned.fit(DATA.observations, options=OPTIONS)
    assert result.status.code == "interrupted"
    assert len(fits) == 1


# -------------------------------------------------------------------- the cost
@pytest.fixture
def whole(monkeypatch) -> list[tuple[int, ...]]:
    """Shapes of all whole decompositions."""
    shapes: list[tuple[int, ...]] = []

    def spied(real):
        def spy(a, *more, **named):
            shapes.append(np.shape(a))
            return real(a, *more, **named)

        return spy

    for module in (np.linalg, scipy.linalg):
        for name in ("svd", "eigh"):
            monkeypatch.setattr(module, name, spied(getattr(module, name)))
    return shapes


@pytest.mark.parametrize("center", ["mean", "auto"])
def test_no_whole_svd_on_the_way(whole, center):
    """No decomposition is of the size of the table, though ranks grow beyond a fifth of its side."""
    data = low_rank_alphabet((600, 500), rank=3, alphabet="1:5", kind="quantised", observed=0.1, noise=0.6)
    tuned = tune(data.observations, data.alphabet, center=center, xi=0.0, options=OPTIONS)
    assert min(data.shape) > SMALL_SIDE
    assert max(c.rank for c in tuned.choice.tried) == thin(data.shape)
    assert whole
    assert max(min(shape) for shape in whole) < min(data.shape)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_iterations_over_all_cells_are_few(fits, seed):
    """Those with ξ above 0 cost by the table, not by the known cells: at most an eighth of all."""
    tune(MIDDLE.observations, MIDDLE.alphabet, options=replace(OPTIONS, random_state=seed))
    counts = {False: 0, True: 0}
    for one in fits:
        counts[one["problem"].is_discrete] += one["result"].n_iter
    assert 0 < counts[True] <= sum(counts.values()) / 8


def test_the_same_seed_gives_the_same_tuning():
    """Choice and start, to the last bit."""
    one, again, other = (
        tune(MIDDLE.observations, MIDDLE.alphabet, options=replace(OPTIONS, random_state=seed)) for seed in (3, 3, 4)
    )
    assert one.choice == again.choice
    np.testing.assert_array_equal(one.start.U, again.start.U)
    np.testing.assert_array_equal(one.start.s, again.start.s)
    assert one.choice.tried != other.choice.tried


# -------------------------------------------------------------------- interruptions
def test_an_interruption_anywhere_keeps_the_best():
    """After each candidate in turn: the choice is one that was tried, with its start and its held-out cells."""
    every: list[Candidate] = []
    tune(DATA.observations, DATA.alphabet, center="mean", progress=every.append, options=OPTIONS)
    for stop in range(1, len(every)):
        seen: list[Candidate] = []

        def progress(one: Candidate, seen: list[Candidate] = seen, stop: int = stop) -> None:
            seen.append(one)
            if len(seen) == stop:
                raise KeyboardInterrupt

        with pytest.raises(TuningInterruptedError) as caught:
            tune(DATA.observations, DATA.alphabet, center="mean", progress=progress, options=OPTIONS)
        tuned = caught.value.tuned
        assert seen == every[:stop] == list(tuned.choice.tried)
        assert tuned.choice.best in seen
        assert tuned.choice.held_out
        assert tuned.start.rank == tuned.choice.best.rank


def test_an_interruption_within_the_fit_further_keeps_the_hasty_choice(monkeypatch):
    """While the chosen λ is fitted further there is nothing better."""

    def stopped(problem, solver, options, **more):
        if options.tol == SETTLED.tol:
            raise KeyboardInterrupt
        return run(problem, solver, options, **more)

    monkeypatch.setattr(tuning, "run", stopped)
    with pytest.raises(TuningInterruptedError) as caught:
        tune(KnownCells(DATA.observations), DATA.alphabet, center="mean", options=OPTIONS)
    tuned = caught.value.tuned
    assert tuned.choice.best in tuned.choice.tried
    assert tuned.choice.held_out
    assert tuned.start is not None
