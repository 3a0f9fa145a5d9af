"""The posterior as a whole: the same bits on any threads, planted values found again, every odd table answered."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr

import snapimpute as si
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior import Posterior, _features, _run
from snapimpute.posterior import model as choices
from snapimpute.posterior._cells import Cells, parts
from snapimpute.posterior._covariance import factor_covariance
from snapimpute.posterior._features import Features
from snapimpute.posterior._low_rank import Chain
from snapimpute.posterior._low_rank import Parts as ModelParts

KINDS = [("low-rank", "rows"), ("low-rank", "columns"), ("full", "columns")]


def planted(m: int, n: int, rank: int, symbols: int, observed: float, seed: int = 0) -> tuple:
    """A table drawn from the model itself: known cells, the others, and the probabilities of all symbols."""
    rng = np.random.default_rng(seed)
    levels = rng.normal(0, 0.5, (m, 1)) + rng.normal(0, 0.5, (1, n))
    eta = levels + rng.normal(0, 0.8, (m, rank)) @ rng.normal(0, 0.8, (n, rank)).T
    edges = np.linspace(-1.5, 1.5, symbols - 1)
    cdf = np.concatenate([np.zeros((m, n, 1)), ndtr(edges - eta[..., None]), np.ones((m, n, 1))], axis=2)
    p = np.diff(cdf, axis=2)
    y = (rng.random((m, n, 1)) > np.cumsum(p, axis=2)).sum(axis=2)
    known = rng.random((m, n)) < observed
    rows, cols = np.nonzero(known)
    table = si.Observations.from_coo(rows, cols, y[known].astype(float), (m, n))
    return table, np.nonzero(~known), y, p


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    return -float(np.log(p[np.arange(y.size), y]).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("covariance", "side"), KINDS)
def test_probabilities_near_those_that_made_the_table(covariance, side):
    """Held-out cells get probabilities whose log loss is near that of the truth, and far below that of the shares."""
    table, hidden, y, p = planted(600, 30, 2, 5, 0.6)
    fit = Posterior(covariance=covariance, thresholds=side, rank=4, sweeps=160).fit(table, "0:4")
    truth, symbols = log_loss(p[hidden], y[hidden]), y[hidden]
    shares = np.bincount(symbols, minlength=5) / symbols.size
    found = fit.proba(*hidden)
    assert_allclose(found.sum(axis=1), 1.0)
    alone = log_loss(np.tile(shares, (symbols.size, 1)), symbols)
    assert log_loss(found, symbols) < truth + (0.5 if covariance == "full" else 0.3) * (alone - truth)
    assert_allclose(fit.mean(*hidden), found @ np.arange(5))


@pytest.mark.slow
@pytest.mark.parametrize(("covariance", "side"), KINDS)
def test_the_same_bits_on_any_number_of_threads(covariance, side, monkeypatch):
    """One, two and four threads give the same draws, bit by bit; another seed gives others."""
    table, hidden, *_ = planted(500, 60, 2, 5, 0.8)
    found = []
    for threads in (1, 2, 4):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", str(threads))
        fit = Posterior(covariance=covariance, thresholds=side, rank=3, sweeps=24).fit(table, "0:4")
        found.append(fit.proba(*hidden))
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])
    other = Posterior(covariance=covariance, thresholds=side, rank=3, sweeps=24, random_state=1).fit(table, "0:4")
    assert np.abs(other.proba(*hidden) - found[0]).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("covariance", "side"), KINDS)
def test_reversing_the_alphabet_reverses_the_probabilities(covariance, side):
    """Symbols counted from the other end have the same probabilities, within Monte Carlo error."""
    table, hidden, *_ = planted(200, 30, 2, 4, 0.7)
    there = table.with_values(3 - table.values)
    model = Posterior(covariance=covariance, thresholds=side, rank=3, sweeps=400)
    here, back = (model.fit(one, "0:3").proba(*hidden) for one in (table, there))
    assert np.sqrt(np.mean((here - back[:, ::-1]) ** 2)) < 0.045


def test_thresholds_have_the_distribution_that_integration_gives():
    """One rater, η and noise known, two thresholds: Metropolis steps follow the density that a grid gives."""
    rng = np.random.default_rng(2)
    symbols = (rng.random(12) < 0.4).astype(np.int64)
    cells = Cells.of(np.zeros(12, np.int64), np.arange(12), symbols, (1, 12), np.array([3]))
    chain = Chain(cells, 1, (Features.of(1), Features.of(12)), burn_in=0)
    chain.number, chain.steps[:] = 20, 0.8
    chain.eta[:] = rng.normal(size=12).astype(np.float32)
    chain.raters.noise[:], chain.items.noise = 1.5, np.exp(rng.normal(0, 2, 12)).astype(np.float32)
    chain.log_factors = rng.normal(0, 0.4, 12)
    chain.spread[:] = 0.7
    start, found = chain.thresholds.copy(), []
    chain._draw_threshold_priors = lambda rng: None
    for number in range(6000):
        chain.number, chain.parts = 20 + number, ModelParts(factors=False)
        chain._move_own(np.uint32(number))
        found.append(chain.thresholds[0, 1:3].copy())
    low, high = np.meshgrid(*2 * [np.linspace(-4, 4, 401)], indexing="ij")
    log_density = -0.5 * ((low - start[0, 1]) ** 2 + (high - start[0, 2]) ** 2) / 0.49
    size = np.sqrt(1.5 * chain.items.noise[cells.item].astype(float))
    factors = np.exp(chain.log_factors[cells.item])
    for s, *cell in zip(cells.symbol, chain.eta, size, factors, strict=True):
        below, above = (ndtr(cell[1] * (cell[2] * bound - cell[0])) for bound in (low, high))
        log_density += np.log((below if s == 0 else np.where(high > low, above - below, 0.0)) + 1e-300)
    weights = np.where(high > low, np.exp(log_density - log_density.max()), 0.0)
    weights /= weights.sum()
    mean = np.array([(weights * low).sum(), (weights * high).sum()])
    assert_allclose(np.mean(found[500:], axis=0), mean, atol=0.06)
    spread = np.sqrt([(weights * (low - mean[0]) ** 2).sum(), (weights * (high - mean[1]) ** 2).sum()])
    assert_allclose(np.std(found[500:], axis=0), spread, rtol=0.1)


@pytest.mark.slow
def test_errors_of_draws_in_a_row_cancel():
    """After the burn-in the latent means of hidden cells correlate negatively from one sweep to the next."""
    table, hidden, *_ = planted(80, 30, 2, 5, 0.8)
    cells = Cells.of(table.rows, table.cols, table.values.astype(int), table.shape, np.full(80, 5))
    chain, found = Chain(cells, 2, (Features.of(80), Features.of(30)), burn_in=30), []
    for _ in range(130):
        chain.sweep()
        a, b = chain.raters.numbers.astype(float), chain.items.numbers.astype(float)
        found.append((a[:, [0]] + b[:, 0] + a[:, 1:] @ b[:, 1:].T)[hidden])
    off = np.stack(found[30:]) - np.mean(found[30:], axis=0)
    assert (off[1:] * off[:-1]).mean() < 0


def test_noise_levels_of_rows_are_found():
    """Rows that answer at random get a smaller precision than those that follow the factors."""
    table, *_ = planted(200, 60, 2, 5, 0.9)
    rng = np.random.default_rng(0)
    values = table.values.copy()
    careless = table.rows < 40
    values[careless] = rng.integers(0, 5, careless.sum())
    fit = Posterior(covariance="low-rank", thresholds="rows", rank=3, sweeps=200).fit(
        table.with_values(values), "0:4"
    )
    noise = fit.answers.draws.rater_noise.mean(axis=0)
    assert np.mean(noise[:40, None] < noise[None, 40:]) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("covariance", "side"), KINDS)
def test_new_rows_are_answered_nearly_as_rows_of_the_fit(covariance, side):
    """Rows folded in have a log loss near the one that they have as part of the fit."""
    table, hidden, y, _ = planted(300, 30, 2, 4, 0.6)
    model = Posterior(covariance=covariance, thresholds=side, rank=3, sweeps=200)
    old, new = table.rows < 240, table.rows >= 240
    first = si.Observations.from_coo(table.rows[old], table.cols[old], table.values[old], (240, 30))
    last = si.Observations.from_coo(table.rows[new] - 240, table.cols[new], table.values[new], (60, 30))
    rows, cols = (one[hidden[0] >= 240] for one in hidden)
    fit = model.fit(first, "0:3")
    folded, whole = fit.fold_in(last).proba(rows - 240, cols), model.fit(table, "0:3").proba(rows, cols)
    truth = y[rows, cols]
    assert log_loss(folded, truth) < log_loss(whole, truth) + 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("covariance", "side"), KINDS)
def test_more_cells_go_on_from_the_fit(covariance, side):
    """With half of the hidden cells added, an update of few sweeps is as good as a fit from nothing."""
    table, hidden, y, _ = planted(300, 30, 2, 4, 0.7)
    kept, _ = table.split(0.4, random_state=0)
    model = Posterior(covariance=covariance, thresholds=side, rank=3, sweeps=200)
    first = model.fit(kept, "0:3")
    updated = replace(model, sweeps=60).update(first, table)
    again = model.fit(table, "0:3")
    before, after, whole = (log_loss(fit.proba(*hidden), y[hidden]) for fit in (first, updated, again))
    assert after < before
    assert after < whole + (0.06 if covariance == "full" else 0.02)
    with pytest.raises(ValueError, match="update goes on with at least the rows"):
        model.update(again, si.Observations.from_dense([[1.0]]))


@pytest.mark.parametrize(("covariance", "side"), KINDS)
@pytest.mark.parametrize("symbols", [2, 100])
def test_few_and_many_symbols(covariance, side, symbols):
    """Two symbols and a hundred: all probabilities are numbers, and those of symbols nearby are larger."""
    table, hidden, y, _ = planted(80, 20, 1, symbols, 0.7)
    fit = Posterior(covariance=covariance, thresholds=side, rank=2, sweeps=60).fit(table, f"0:{symbols - 1}")
    p = fit.proba(*hidden)
    assert np.isfinite(p).all()
    assert_allclose(p.sum(axis=1), 1.0)
    off = np.abs(fit.mean(*hidden) - y[hidden]).mean()
    assert off < np.abs(table.values.mean() - y[hidden]).mean()


@pytest.mark.parametrize(("covariance", "side"), KINDS)
def test_rows_and_columns_with_little_or_nothing(covariance, side):
    """Rows and columns without a cell, with one, and columns with one symbol: every cell gets probabilities."""
    rng = np.random.default_rng(0)
    X = rng.integers(1, 6, (30, 8)).astype(float)
    X[3], X[:, 2] = np.nan, np.nan
    X[4, 1:] = np.nan
    X[:, 5] = 5
    fit = Posterior(covariance=covariance, thresholds=side, rank=2, sweeps=80).fit(
        si.Observations.from_dense(X), "1:5"
    )
    rows, cols = np.indices(X.shape).reshape(2, -1)
    p = fit.proba(rows, cols).reshape(30, 8, 5)
    assert np.isfinite(p).all()
    assert_allclose(p.sum(axis=2), 1.0)
    assert (p[:, 5].argmax(axis=1)[:3] == 4).all()


def test_numbers_beside_symbols():
    """A column of plain numbers that decides the symbols of another: both are answered, each by the other."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=400)
    number, rating = 50 + 10 * latent, np.digitize(latent + 0.1 * rng.normal(size=400), [-0.5, 0.5]).astype(float)
    more = np.digitize(latent + 0.3 * rng.normal(size=400), [-0.5, 0.5]).astype(float)
    X = np.column_stack([number, rating, more])
    X[:50, 0], X[50:100, 1] = np.nan, np.nan
    schema = ColumnSchema.of([None, "0:2", "0:2"], 3)
    for covariance in ("low-rank", "full"):
        fit = Posterior(covariance=covariance, sweeps=200).fit(si.Observations.from_dense(X), schema)
        found = fit.mean(np.arange(50), np.zeros(50, dtype=int))
        assert np.corrcoef(found, number[:50])[0, 1] > 0.8
        assert np.mean(fit.proba(np.arange(50, 100), np.ones(50, dtype=int)).argmax(axis=1) == rating[50:100]) > 0.8
        drawn = fit.draw(5, np.arange(50), np.zeros(50, dtype=int))
        assert drawn.shape == (5, 50)
        assert drawn.std() == pytest.approx(number[:50].std(), rel=0.3)


def test_short_runs_do_not_see_the_mask_of_held_out_cells(monkeypatch):
    """The runs that choose a model make features of the cells that they fit, never of those held out."""
    table, *_ = planted(60, 20, 1, 4, 0.5)
    kept, held = table.split(choices.HELD_OUT, random_state=0)
    seen, make = list[si.Observations](), _features.mask_maps

    def spy(observations, *args, **kwargs):
        seen.append(observations)
        return make(observations, *args, **kwargs)

    monkeypatch.setattr(_features, "mask_maps", spy)
    Posterior(sweeps=4, covariance="low-rank").fit(table, "0:3")
    key = {len(kept): kept, len(table): table}
    assert [len(one) for one in seen].count(len(table)) == 1  # the last run, of everything that is known
    assert len(seen) > 1
    assert len(held) > 0
    for one in seen:
        assert_array_equal(one.rows, key[len(one)].rows)
        assert_array_equal(one.cols, key[len(one)].cols)


@pytest.mark.slow
def test_features_of_held_out_cells_are_not_used():
    """Hidden cells do not matter: a table that lost them altogether gives the same bits."""
    table, hidden, *_ = planted(100, 30, 2, 4, 0.5)
    kept, _ = table.split(0.2, random_state=0)
    again = si.Observations.from_coo(kept.rows, kept.cols, kept.values, kept.shape)
    one, two = (Posterior(covariance="low-rank", thresholds="rows", sweeps=20).fit(x, "0:3") for x in (kept, again))
    assert_array_equal(one.proba(*hidden), two.proba(*hidden))


@pytest.mark.filterwarnings("ignore:Stopped after")  # a busy machine keeps few draws in that time
def test_the_time_limit_and_a_callback_end_a_run():
    """Both keep the draws so far and say so; sweeps are told one by one."""
    table, *_ = planted(60, 20, 1, 3, 0.7)
    model = Posterior(covariance="low-rank", thresholds="rows", rank=2, sweeps=5000)
    over = model.fit(table, "0:2", time_limit=0.3)
    assert "the time is over" in over.status.message
    seen: list[int] = []
    stopped = model.fit(table, "0:2", callback=lambda sweep: seen.append(sweep.number) or len(seen) >= 100)
    assert "the callback asked for it" in stopped.status.message
    assert seen == list(range(len(stopped.history)))


@pytest.mark.parametrize("covariance", ["low-rank", "full"])
def test_an_interruption_keeps_the_draws_so_far(covariance):
    """Draws so far are returned, with words that say so; before the first one it goes on to the caller."""
    table, *_ = planted(60, 20, 1, 3, 0.7)
    model = Posterior(covariance=covariance, rank=2, sweeps=200)

    def at(number: int):
        def stop(sweep):
            if sweep.number == number:
                raise KeyboardInterrupt

        return stop

    kept = model.fit(table, "0:2", callback=at(80))
    assert (kept.status.code, len(kept.history)) == ("interrupted", 81)
    assert np.isfinite(kept.proba(0, 0)).all()
    with pytest.raises(KeyboardInterrupt):
        model.fit(table, "0:2", callback=at(5))


def test_the_sampler_stops_when_probabilities_are_exact_enough(monkeypatch):
    """Before all sweeps are made, the Monte Carlo error falls below its bound."""
    monkeypatch.setattr(_run, "EXCESS_LOSS", 0.005)
    X = np.random.default_rng(0).integers(0, 3, (40, 60)).astype(float)
    fit = Posterior(covariance="low-rank", thresholds="rows", rank=1).fit(si.Observations.from_dense(X), "0:2")
    assert fit.status.code == "converged"
    assert fit.history[-1].excess <= 0.005


def test_questions_that_have_no_answer():
    """Cells outside, columns of several alphabets and rows of another table are each refused in a sentence."""
    table, *_ = planted(60, 20, 1, 3, 0.7)
    fit = Posterior(covariance="full", sweeps=60).fit(table, "0:2")
    with pytest.raises(ValueError, match="rows must be whole numbers between 0 and 59"):
        fit.proba(60, 0)
    with pytest.raises(ValueError, match="the new rows have 1 columns, the fitted table 20"):
        fit.fold_in(si.Observations.from_dense([[1.0]]))
    schema = ColumnSchema.of([si.Alphabet.of("0:2")] * 19 + [si.Alphabet.of("0:3")], 20)
    mixed = Posterior(sweeps=20, covariance="low-rank").fit(table, schema)
    with pytest.raises(ValueError, match="proba needs cells of columns with one alphabet"):
        mixed.proba([0, 0], [0, 19])
    with pytest.raises(ValueError, match="needs one alphabet for all columns"):
        Posterior(covariance="low-rank", thresholds="rows").fit(table, schema)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"covariance": "wide"}, "covariance must be one of 'auto', 'low-rank', 'full', got 'wide'"),
        ({"thresholds": "cells"}, "thresholds must be one of"),
        ({"covariance": "full", "thresholds": "rows"}, 'thresholds="rows" needs covariance="low-rank"'),
        ({"rank": 0}, 'rank must be a whole number, at least 1, or "auto", got 0'),
        ({"sweeps": 2.5}, "sweeps must be a whole number"),
    ],
)
def test_wrong_parameters_are_refused(wrong, message):
    """Each is named with what was given and what was expected."""
    with pytest.raises(ValueError, match=message):
        Posterior(**wrong).fit(si.Observations.from_dense([[1, 2], [2, 1]]), "1,2")


def test_parts_have_about_as_many_cells_each():
    """Parts cover all units in order, begin at multiples of the units that are solved for together, and are few."""
    start = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(0, 900, 700))])
    found = parts(start)
    assert [found[0][0], found[-1][1]] == [0, 700]
    assert all(a[1] == b[0] and b[0] % 16 == 0 for a, b in pairwise(found))
    assert len(found) <= 16


def test_the_centre_of_the_prior_is_a_covariance_where_columns_have_nothing_of_their_own():
    """Columns that factors explain wholly, one of them more than wholly, give no negative eigenvalue."""
    for seed in range(20):
        loadings = np.random.default_rng(seed).normal(size=(8, 3))
        loadings /= np.linalg.norm(loadings, axis=1, keepdims=True)
        center = factor_covariance(loadings @ loadings.T, 2, np.ones((8, 8)))
        assert_allclose(np.diag(center), 1.0)
        assert np.linalg.eigvalsh(center)[0] > 0
