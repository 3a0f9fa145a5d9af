"""The run of a posterior: clocks, interruptions, several chains, what is told on the way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning

import snapimpute as si
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior import Posterior, PosteriorFit, _run, diagnostics, model
from snapimpute.posterior._covariance import CovarianceChain
from snapimpute.posterior._features import Features, side_maps
from snapimpute.posterior._given import given_features
from snapimpute.posterior._low_rank import Chain
from snapimpute.posterior._samplers import LowRankSampler
from snapimpute.posterior._table import Frame
from snapimpute.solvers.serialise import digest

RNG = np.random.default_rng(5)
VALUES = np.where(RNG.random((50, 12)) < 0.7, RNG.integers(0, 3, (50, 12)), np.nan)
TABLE = si.Observations.from_dense(VALUES)
BINARY = si.Observations.from_dense(np.where(np.isnan(VALUES), np.nan, VALUES > 0))
NO_SIDES = side_maps(TABLE, given_features(TABLE, None, None), mask=False, seed=0)
KINDS = [("low-rank", "rows"), ("full", "columns")]


def log_p(low, high, eta, size) -> np.ndarray:
    return np.log(ndtr(size * (high - eta)) - ndtr(size * (low - eta)))


@pytest.mark.parametrize("kind", ["symbols", "binary", "numbers"])
def test_the_log_likelihood_of_a_low_rank_chain_is_that_of_its_state(kind):
    """A sweep gives that of the state it began with, plain numbers included; thresholds that move do so before."""
    values = {"symbols": VALUES, "binary": VALUES > 0, "numbers": np.column_stack([VALUES[:, :6], VALUES[:, 6:]])}
    dense = np.where(np.isnan(VALUES), np.nan, values[kind]).astype(float)
    alphabet = si.Alphabet.of("0:1" if kind == "binary" else "0:2")
    columns = [None] * 6 if kind == "numbers" else []
    schema = ColumnSchema.of([*columns, *[alphabet] * (12 - len(columns))], 12)
    table = si.Observations.from_dense(dense)
    frame = Frame.of(table, schema, False, NO_SIDES)
    cells = frame.cells(table)
    chain = Chain(cells, 2, (Features.of(cells.shape[0]), Features.of(cells.shape[1])))
    for sweeps in (5, 15):
        for _ in range(sweeps):
            chain.sweep()
        a, b = chain.raters, chain.items
        whose = np.repeat(np.arange(cells.shape[0]), np.diff(cells.start))
        x, y = a.numbers[whose].astype(float), b.numbers[cells.item].astype(float)
        eta = x[:, 0] + y[:, 0] + (x[:, 1:] * y[:, 1:]).sum(axis=1)
        size = np.sqrt(a.noise[whose] * b.noise[cells.item]).astype(float)
        factors, before = np.exp(chain.log_factors[cells.item])[:, None], chain.thresholds.copy()
        chain.sweep()
        moved = before if kind != "symbols" or sweeps == 5 else chain.thresholds
        bounds = factors * moved[whose].astype(float)
        every, plain = np.arange(whose.size), cells.levels[whose] == 0
        expected = log_p(bounds[every, cells.symbol], bounds[every, cells.symbol + 1], eta, size)
        density = np.log(size) - 0.5 * (size * (chain.z - eta)) ** 2 - 0.5 * math.log(2 * math.pi)
        assert chain.log_likelihood == pytest.approx(np.where(plain, density, expected).sum(), rel=1e-4)


def test_the_log_likelihood_of_a_full_covariance_conditions_on_the_other_cells():
    """With thresholds and parameters that stay, it adds up each cell's probability given the row's other cells."""
    frame = Frame.of(TABLE, ColumnSchema.single(si.Alphabet.of("0:2"), 12), False, NO_SIDES)
    columns, numbers, _ = frame.columns(TABLE)
    chain = CovarianceChain(TABLE.shape, columns, numbers)
    for _ in range(6):
        chain.sweep()
    chain.given, chain.robust, visit, expected = True, False, chain._visit, []

    def watched(j, column, *rest):
        K = chain.precision.astype(float)
        others = np.delete(np.arange(12), j)
        eta = -(K[j, others] / K[j, j]) @ chain.z[others]
        size = np.sqrt(K[j, j] * chain.weights)
        g, known = chain.thresholds[j].astype(float), column.known
        low, high = g[column.symbol], g[column.symbol + 1]
        expected.append(log_p(low, high, eta[known], size[known]).sum())
        visit(j, column, *rest)

    chain._visit = watched
    chain.sweep()
    assert chain.log_likelihood == pytest.approx(sum(expected), rel=1e-4)


@pytest.mark.parametrize(("covariance", "side"), KINDS)
def test_every_sweep_has_a_log_likelihood(covariance, side):
    """No sweep lacks it, on tables of three symbols and of two; it rises from the start."""
    for table, alphabet in ((TABLE, "0:2"), (BINARY, "0:1")):
        thresholds = "columns" if alphabet == "0:1" else side
        fit = Posterior(covariance=covariance, thresholds=thresholds, rank=2, sweeps=30).fit(table, alphabet)
        found = np.array([one.log_likelihood for one in fit.history])
        assert np.isfinite(found).all()
        assert found[-10:].mean() > found[0]


@pytest.mark.parametrize(("covariance", "side"), KINDS)
def test_a_limit_before_the_first_draw_keeps_what_is_there(covariance, side):
    """One sweep is made whatever the limit, its state is the answer, and a warning says so."""
    plain = Posterior(covariance=covariance, thresholds=side, rank=2)
    no_mask = ", and there was none for the features of the mask" if covariance == "low-rank" else ""
    with pytest.warns(ConvergenceWarning, match=f"Stopped after 1 sweep: the time is over{no_mask}. Few draws were"):
        fit = plain.fit(TABLE, "0:2", time_limit=0)
    assert fit.frame.row_side.mask.vectors.shape[1] == 0
    assert_allclose(fit.proba(np.arange(50), 3).sum(axis=1), 1.0)
    assert fit.diagnostics.settled is None


def test_short_runs_share_the_time(monkeypatch):
    """Models that the limit leaves no time for do not count; the first, usual one is fitted."""
    seen = []
    with pytest.warns(ConvergenceWarning, match="the time is over"):
        fit = Posterior(rank=2).fit(TABLE, "0:2", time_limit=0, progress=seen.append)
    assert seen == []
    assert fit.diagnostics.held_out == ()
    assert not fit.frame.by_rows


def test_a_chain_that_has_not_settled_is_told(monkeypatch):
    """Where the number of sweeps was left to the library, a warning says so, with what to do."""
    monkeypatch.setattr(diagnostics, "SETTLED", 0.5)
    monkeypatch.setattr(model, "SWEEPS", 150)
    monkeypatch.setattr(_run, "EXCESS_LOSS", 1e-9)
    with pytest.warns(ConvergenceWarning, match=r"not settled: .* \(R̂ 1\.\d\d\)\. Give a larger number of sweeps"):
        Posterior("low-rank", thresholds="rows", rank=2).fit(TABLE, "0:2")
    fit = Posterior("low-rank", thresholds="rows", rank=2, sweeps=150).fit(TABLE, "0:2")
    assert fit.diagnostics.settled is False
    assert fit.status.advice == ""


def test_what_was_tried_is_told_and_kept():
    """Each short run is told as it ends, and the diagnostics have all of them."""
    seen = []
    fit = Posterior(covariance="low-rank", rank=2, sweeps=20).fit(TABLE, "0:2", progress=seen.append)
    assert [one.thresholds for one in seen] == ["columns", "rows"]
    assert fit.diagnostics.held_out == tuple(seen)
    assert all(0.3 < one.loss < 3 and one.error > 0 for one in seen)


@pytest.mark.parametrize("within", [True, False])
def test_an_interruption_of_the_choice_fits_the_best_so_far(within, monkeypatch, caplog):
    """Between two short runs or within one, before or after its draws: what was tried by then decides."""
    seen = []

    def stop(candidate):
        seen.append(candidate)
        if not within:
            raise KeyboardInterrupt

    real = _run.Run._sweep

    def stopping(self, clock):
        if within and len(seen) == 1 and self.number == 50:
            raise KeyboardInterrupt
        return real(self, clock)

    monkeypatch.setattr(_run.Run, "_sweep", stopping)
    fit = Posterior("low-rank", rank=2, sweeps=20).fit(TABLE, "0:2", progress=stop)
    assert (fit.status.code, len(fit.history)) == ("max_iter", 20)
    assert fit.diagnostics.held_out == tuple(seen)
    assert len(seen) == 1
    assert "the best so far is fitted" in caplog.text


def test_sweeps_tell_the_time_that_is_left(capsys):
    """Printed, a sweep says where it is, the Monte Carlo error where it was computed, and the seconds left."""
    Posterior(covariance="low-rank", thresholds="rows", rank=2, sweeps=120).fit(TABLE, "0:2", callback=print)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 120
    assert lines[69].startswith("sweep 70: log-likelihood -")
    assert "Monte Carlo error 0.0" in lines[69]
    assert lines[-1].endswith("about 0 ms left") or "ms left" in lines[-1]


@pytest.mark.parametrize(("covariance", "side"), KINDS)
def test_several_chains_are_pooled(covariance, side):
    """The first chain is the single one; the answer is the average over all, and another seed gives another chain."""
    one = Posterior(covariance=covariance, thresholds=side, rank=2, sweeps=40)
    alone, pair = one.fit(TABLE, "0:2"), Posterior(**{**vars(one), "chains": 2}).fit(TABLE, "0:2")
    assert pair.diagnostics.chains == 2
    assert pair.diagnostics.draws == 2 * alone.diagnostics.draws
    rows, cols = np.arange(50), np.arange(50) % 12
    other = 2 * pair.answers.probabilities(pair.frame, rows, cols) - alone.answers.probabilities(
        alone.frame, rows, cols
    )
    assert np.abs(other - alone.answers.probabilities(alone.frame, rows, cols)).max() > 1e-3
    assert other.min() > -1e-5
    with pytest.raises(ValueError, match="chains must be a whole number, at least 1, got 0"):
        Posterior(chains=0).fit(TABLE, "0:2")


def test_a_stuck_chain_goes_on_from_the_best(monkeypatch):
    """A chain with a low log-likelihood takes the state of the best, is counted, and then goes its own way."""
    real, adopt, states = LowRankSampler.sweep, LowRankSampler.adopt, []

    def held(self, *, keep):
        real(self, keep=keep)
        if self.chain.seed and len(self.likelihoods) <= 10:
            self.likelihoods = [-9999.0 - one for one in range(len(self.likelihoods))]

    def watched(self, other):
        adopt(self, other)
        states.append([(one.chain.raters.numbers.copy(), one.chain.number) for one in (self, other)])

    monkeypatch.setattr(LowRankSampler, "sweep", held)
    monkeypatch.setattr(LowRankSampler, "adopt", watched)
    posterior = Posterior(covariance="low-rank", thresholds="rows", rank=2, sweeps=100, chains=2)
    fit = posterior.fit(TABLE, "0:2")
    assert fit.diagnostics.restarts == 1
    first, second = np.split(fit.answers.draws.raters, 2)
    (mine, number), (best, other) = states[0]
    assert_array_equal(mine, best)
    assert number == other == 30
    assert np.abs(first - second).max() > 0.1


# ---------------------------------------------------------------- checkpoints
class KilledError(Exception):
    """Stands for a process that dies."""


def killed_at(number: int):
    def die(sweep):
        if sweep.number == number:
            raise KilledError

    return die


def same_fit(one: PosteriorFit, other: PosteriorFit) -> None:
    """All that was drawn, bit for bit, and the history but for its seconds."""
    assert digest(one.answers) == digest(other.answers)
    assert one.diagnostics == other.diagnostics
    assert one.status == other.status
    assert [(x.number, x.log_likelihood) for x in one.history] == [
        (x.number, x.log_likelihood) for x in other.history
    ]


@pytest.mark.parametrize(
    ("covariance", "side", "number"),
    [("low-rank", "rows", 3), ("low-rank", "columns", 27), ("full", "columns", 3), ("full", "columns", 27)],
)
def test_a_killed_run_goes_on_to_the_same_bits(covariance, side, number, tmp_path):
    """Killed in the burn-in or after, and resumed: draws, diagnostics and history are those of one that was not."""
    schema = ColumnSchema.of([None, si.Nominal([0, 1, 2]), *[si.Alphabet.of("0:2")] * 10], 12)
    table = schema if side == "columns" else "0:2"
    posterior = Posterior(covariance=covariance, thresholds=side, rank=2, sweeps=40, chains=2)
    path = tmp_path / "run"
    at_once = si.solvers.Checkpoint(path, every_seconds=0)
    with pytest.raises(KilledError):
        posterior.fit(TABLE, table, callback=killed_at(number), checkpoint=at_once)
    resumed = posterior.fit(TABLE, table, checkpoint=path)
    same_fit(resumed, posterior.fit(TABLE, table))
    same_fit(posterior.fit(TABLE, table, checkpoint=path), resumed)


def test_a_resumed_run_may_have_more_sweeps(tmp_path):
    """A run that had ended goes on to the bits of the longer one, if the burn-in is the same."""
    short = Posterior(covariance="low-rank", thresholds="rows", rank=2, sweeps=80)
    long = replace(short, sweeps=90)
    short.fit(TABLE, "0:2", checkpoint=tmp_path / "run")
    same_fit(long.fit(TABLE, "0:2", checkpoint=tmp_path / "run"), long.fit(TABLE, "0:2"))


def test_short_runs_are_not_made_again(tmp_path):
    """The file holds the model that was chosen, and what was tried."""
    posterior, seen = Posterior(rank=2, sweeps=20), []
    first = posterior.fit(TABLE, "0:2", checkpoint=tmp_path / "run")
    again = posterior.fit(TABLE, "0:2", checkpoint=tmp_path / "run", progress=seen.append)
    assert seen == []
    assert len(again.diagnostics.held_out) == 3
    same_fit(first, again)


def test_an_interruption_between_sweeps_is_saved(tmp_path):
    """Ctrl-C in the callback: the file has every sweep that was made."""
    posterior = Posterior(covariance="low-rank", thresholds="rows", rank=2, sweeps=40)

    def stop(sweep):
        if sweep.number == 25:
            raise KeyboardInterrupt

    fit = posterior.fit(TABLE, "0:2", callback=stop, checkpoint=tmp_path / "run")
    assert fit.status.code == "interrupted"
    seen = []
    resumed = posterior.fit(TABLE, "0:2", callback=lambda one: seen.append(one.number), checkpoint=tmp_path / "run")
    assert seen == list(range(26, 40))
    same_fit(resumed, posterior.fit(TABLE, "0:2"))


def test_a_file_of_another_run_is_refused(tmp_path):
    """Another table, another model, another burn-in: the sentence names the part that differs."""
    posterior = Posterior(covariance="full", sweeps=20)
    posterior.fit(TABLE, "0:2", checkpoint=tmp_path / "run")
    fewer = si.Observations.from_dense(VALUES[:40])
    for other, table, named in (
        (posterior, fewer, "observations differs"),
        (replace(posterior, random_state=1), TABLE, r"model differs \(Posterior\(.*random_state=0\) then"),
        (replace(posterior, sweeps=60), TABLE, r"burn-in differs \(10 then, 30 now\)"),
    ):
        with pytest.raises(ValueError, match=named):
            other.fit(table, "0:2", checkpoint=tmp_path / "run")
    (tmp_path / "other").write_text("no checkpoint")
    with pytest.raises(ValueError, match="is not a checkpoint to go on from"):
        posterior.fit(TABLE, "0:2", checkpoint=tmp_path / "other")


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(tmp_path):
    """A warning says so, and the fit is returned."""
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="could not be written"):
        fit = Posterior(covariance="full", sweeps=20).fit(TABLE, "0:2", checkpoint=tmp_path / "file" / "run")
    assert len(fit.history) == 20
