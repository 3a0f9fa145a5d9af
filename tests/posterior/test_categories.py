"""Columns of categories without order: their likelihood, their latent values, and tables of all kinds of columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import ndtr

import snapimpute as si
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior import Posterior
from snapimpute.posterior._choices import add_largest, draw_choice, levels_of, log_shares, shares_of
from snapimpute.posterior._contrasts import Contrasts
from snapimpute.posterior._covariance import Column, CovarianceChain

LEAST = 1e-4
"""A p-value that a right sampler falls below once in ten thousand tests."""


def largest(means: np.ndarray) -> np.ndarray:
    """Integrate by brute force the probability that each of independent normal numbers is the largest."""
    v = np.linspace(means.max() - 12, means.max() + 9, 3001)
    below, density = ndtr(v[:, None] - means), stats.norm.pdf(v[:, None] - means)
    return np.array(
        [np.trapezoid(density[:, c] * np.delete(below, c, axis=1).prod(axis=1), v) for c in range(means.size)]
    )


@pytest.mark.parametrize("categories", [2, 3, 20])
def test_probabilities_of_categories_are_those_of_integration(categories):
    """The sum over nodes agrees with integration on a fine grid, for means near each other and far apart."""
    rng, work = np.random.default_rng(categories), np.empty((categories + 2, 24), np.float32)
    x = (rng.standard_normal((categories, 24)) * np.repeat([0.1, 1, 3, 10], 6)).astype(np.float32)
    out = np.zeros_like(x)
    add_largest(x, 24, out, work)
    assert_allclose(out.T, [largest(one) for one in x.T.astype(float)], atol=2e-6)
    seen = rng.integers(0, categories, 24).astype(np.uint8)
    logs = np.log(np.maximum(out[seen, np.arange(24)].astype(float), 1e-30))
    near = logs > -12  # the coarse sum of log-likelihoods is not for the impossible
    found = log_shares(np.ascontiguousarray(x[:, near]), seen[near], np.empty((4, 24), np.float32))
    assert_allclose(found, logs[near].sum(), rtol=1e-3)


def test_probabilities_of_categories_are_those_of_simulation():
    """Each category is the largest of simulated utilities as often as the probability says; levels invert it."""
    means = np.array([0.3, -0.5, 1.2, -2.0])
    drawn = np.random.default_rng(0).standard_normal((400_000, 4)) + means
    found = shares_of(means)
    assert_allclose(np.bincount(drawn.argmax(axis=1), minlength=4) / 400_000, found, atol=0.003)
    assert_allclose(levels_of(found), means - means.mean(), atol=1e-6)


def test_latent_values_of_categories_have_the_distribution_that_integration_gives():
    """Repeated draws reach the joint density where the category seen is largest: by integration, and by rejection."""
    eta = np.array([0.4, -0.6, 1.0], np.float32)
    size, count, seen = np.float32(1.4), 3000, 1
    rng = np.random.default_rng(0)
    tried = eta + rng.standard_normal((400_000, 3)) / size
    kept = tried[tried.argmax(axis=1) == seen]
    means, sizes = np.repeat(eta[:, None], count, axis=1), np.full(count, size, np.float32)
    category, work = np.full(count, seen, np.uint8), np.empty((4, count), np.float32)
    u = np.zeros((3, count), np.float32)
    for sweep in range(25):
        draw_choice(0, count, np.uint32(sweep), category, means, sizes, u, work)
    assert (u.argmax(axis=0) == seen).all()
    v = np.linspace(-6, 8, 4001)
    density = stats.norm.pdf(size * (v - eta[seen])) * np.prod(
        [ndtr(size * (v - eta[c])) for c in range(3) if c != seen], axis=0
    )
    cdf = np.cumsum(density) / density.sum()
    assert stats.kstest(np.interp(u[seen], v, cdf), "uniform").pvalue > LEAST
    for c in range(3):
        assert stats.ks_2samp(u[c], kept[:, c]).pvalue > LEAST
    assert_allclose(np.corrcoef(u), np.corrcoef(kept.T), atol=0.06)


def test_contrasts_beside_a_number_have_the_distribution_that_simulation_gives():
    """Given a plain number, probabilities of a missing category and contrasts of a known one are those simulated."""
    rows, seen = 1500, 2
    known, missing = np.arange(rows // 2), np.arange(rows // 2, rows)
    contrasts = Contrasts(1, 3, known, np.full(known.size, seen, np.uint8))
    number = Column(np.arange(rows), np.zeros(rows, np.uint8), missing[:0], 0)
    latent = Column(known, np.zeros(known.size, np.uint8), missing, 0)
    chain = CovarianceChain((rows, 3), [number, latent, latent], {0: np.full(rows, 1.3)}, [contrasts], robust=False)
    covariance = np.array([[1.0, 0.5, -0.6], [0.5, 1.5, 0.4], [-0.6, 0.4, 2.0]])
    chain.precision, chain.given, offsets = np.linalg.inv(covariance), True, np.array([0.5, -0.3, -0.2])
    chain.offsets = [offsets]
    sums, v = np.zeros((3, 3, rows), np.float32), []
    for sweep in range(60):
        chain.sweep(sums if sweep >= 20 else None)
        v.append(chain.z[1:, known])
    rng = np.random.default_rng(0)
    mean, rest = covariance[1:, 0] * 1.3, covariance[1:, 1:] - np.outer(covariance[1:, 0], covariance[0, 1:])
    drawn = rng.multivariate_normal(mean, rest, 300_000).T
    chosen = (contrasts.means(offsets, drawn) + rng.standard_normal((3, drawn.shape[1]))).argmax(axis=0)
    assert_allclose(sums[1][:, missing].mean(axis=1) / 40, np.bincount(chosen) / chosen.size, atol=0.01)
    found, expected = np.concatenate(v[20:], axis=1), drawn[:, chosen == seen]
    assert_allclose(found.mean(axis=1), expected.mean(axis=1), atol=0.05)
    assert_allclose(np.cov(found), np.cov(expected), atol=0.1)


# ---------------------------------------------------------------- whole tables
@dataclass(frozen=True)
class Mixed:
    """A table of all kinds of columns drawn from a multinomial and an ordinal probit model."""

    table: si.Observations
    schema: ColumnSchema
    X: np.ndarray
    known: np.ndarray
    utilities: dict[int, np.ndarray]
    """Means of the utilities in each column of categories."""

    def hidden(self, col: int) -> tuple[np.ndarray, np.ndarray]:
        """Hidden rows of a column, and their symbols."""
        rows = np.flatnonzero(~self.known[:, col])
        return rows, self.X[rows, col].astype(int)


def mixed(counts: tuple[int, ...] = (4, 3, 5, 2), m: int = 400, seed: int = 0) -> Mixed:
    """Draw columns of categories, then three of five ordered symbols, then two of numbers."""
    rng = np.random.default_rng(seed)
    f, columns, utilities = rng.standard_normal((m, 2)), [], {}
    for j, count in enumerate(counts):
        utilities[j] = 0.5 * rng.standard_normal(count) + f @ rng.standard_normal((2, count)) * 1.5
        columns.append((utilities[j] + rng.standard_normal((m, count))).argmax(axis=1))
    ordered = f @ rng.standard_normal((2, 3)) + rng.standard_normal((m, 3))
    columns += list(np.digitize(ordered, [-1.5, -0.5, 0.5, 1.5]).T)
    columns += list((20 + 3 * (f @ rng.standard_normal((2, 2)) + 0.5 * rng.standard_normal((m, 2)))).T)
    X = np.column_stack(columns).astype(float)
    known = rng.random(X.shape) < 0.75
    rows, cols = np.nonzero(known)
    table = si.Observations.from_coo(rows, cols, X[known], X.shape)
    spec = [si.Nominal(list(range(count))) for count in counts] + ["0:4"] * 3 + [None] * 2
    return Mixed(table, ColumnSchema.of(spec, X.shape[1]), X, known, utilities)


@pytest.fixture(scope="module")
def made() -> Mixed:
    return mixed()


MODELS = {
    "low-rank": Posterior(covariance="low-rank", rank=4, sweeps=120),
    "full": Posterior(covariance="full", sweeps=120),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request) -> Posterior:
    return MODELS[request.param]


@pytest.fixture(scope="module")
def fitted(made, model):
    return model.fit(made.table, made.schema)


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    return -float(np.log(p[np.arange(y.size), y]).mean())


def test_planted_categories_are_found(made, fitted):
    """Hidden categories get probabilities whose log loss is near that of the truth, far below that of frequencies."""
    for col, count in enumerate((4, 3, 5, 2)):
        rows, y = made.hidden(col)
        p = fitted.proba(rows, np.full(rows.size, col))
        assert p.shape == (rows.size, count)
        assert_allclose(p.sum(axis=1), 1.0)
        best = np.array([shares_of(one) for one in made.utilities[col][rows]])
        usual = np.tile(np.bincount(y, minlength=count) / y.size, (y.size, 1))
        assert log_loss(p, y) < log_loss(best, y) + 0.6 * (log_loss(usual, y) - log_loss(best, y))


def test_categories_in_an_arbitrary_order_lose(made, model, fitted):
    """The same columns taken as ordered symbols have a clearly larger log loss."""
    spec = [alphabet if alphabet is None else si.Alphabet(alphabet.symbols) for alphabet in made.schema.by_column]
    ordered = model.fit(made.table, ColumnSchema.of(spec, len(spec)))
    losses = np.zeros(2)
    for col in range(3):
        rows, y = made.hidden(col)
        losses += [log_loss(fit.proba(rows, np.full(rows.size, col)), y) for fit in (fitted, ordered)]
    assert losses[1] - losses[0] > 0.3


def test_draws_new_rows_and_more_cells(made, model, fitted):
    """Drawn categories have the shares that probabilities say; new rows and updates have nearly those of the fit."""
    rows = np.flatnonzero(~made.known[:, 2])
    cols = np.full(rows.size, 2)
    p = fitted.proba(rows, cols)
    drawn = fitted.draw(60, rows, cols)
    shares = np.stack([(drawn == c).mean() for c in range(5)])
    assert_allclose(shares, p.mean(axis=0), atol=0.03)
    folded = fitted.fold_in(made.table).proba(rows, cols)
    assert np.sqrt(np.mean((folded - p) ** 2)) < 0.1
    further = model.update(fitted, made.table).proba(rows, cols)
    assert np.sqrt(np.mean((further - p) ** 2)) < 0.1


def test_means_of_categories_are_not_given(fitted):
    """Among other cells the mean of a category is NaN; alone it is an error, which names the way out."""
    found = fitted.mean([0, 0, 0, 0], [0, 3, 4, 7])
    assert np.isnan(found).tolist() == [True, True, False, False]
    with pytest.raises(ValueError, match="categories without order have no mean: ask proba"):
        fitted.mean([0, 1], [0, 3])


def test_the_order_of_categories_does_not_matter(made, model, fitted):
    """Categories in another order get the same probabilities, up to Monte Carlo error, as two seeds do."""
    turn = np.array([2, 4, 1, 0, 3])
    values, inside = made.table.values.copy(), made.table.cols == 2
    values[inside] = turn[values[inside].astype(int)]
    rows = np.flatnonzero(~made.known[:, 2])
    cols = np.full(rows.size, 2)
    p = fitted.proba(rows, cols)
    turned = model.fit(made.table.with_values(values), made.schema).proba(rows, cols)[:, turn]
    again = replace(model, random_state=5).fit(made.table, made.schema)
    noise = np.sqrt(np.mean((again.proba(rows, cols) - p) ** 2))
    assert np.sqrt(np.mean((turned - p) ** 2)) < 1.6 * noise


def test_two_categories_are_a_binary_probit():
    """Two categories are two symbols: the same bits."""
    data = mixed((2, 2, 2), m=60)
    ordered = ColumnSchema.of(["0,1"] * 3 + ["0:4"] * 3 + [None] * 2, 8)
    model = Posterior(covariance="low-rank", rank=2, sweeps=30)
    found = [model.fit(data.table, schema).proba([0, 1, 2], [0, 1, 2]) for schema in (data.schema, ordered)]
    assert_array_equal(*found)


@pytest.mark.parametrize("covariance", MODELS)
@pytest.mark.parametrize("categories", [1, 3, 20])
def test_few_and_many_categories(categories, covariance):
    """One category is certain, one never seen is possible, twenty are told apart; the table holds nothing else."""
    rng = np.random.default_rng(1)
    f = rng.standard_normal((150, 2))
    utilities = np.einsum("ik,ckj->ijc", f, rng.standard_normal((categories, 2, 6)) * 2)
    X = (utilities + rng.standard_normal(utilities.shape)).argmax(axis=2).astype(float)
    alphabet = si.Nominal(list(range(categories + (categories == 3))))  # of three, a fourth is never seen
    known = rng.random(X.shape) < 0.8
    X[known & (X < 0)] = 0
    rows, cols = np.nonzero(known)
    fit = Posterior(covariance, rank=2, sweeps=60).fit(
        si.Observations.from_coo(rows, cols, X[known], X.shape), alphabet
    )
    hidden = np.nonzero(~known)
    p, y = fit.proba(*hidden), X[hidden].astype(int)
    assert p.shape[1] == len(alphabet)
    assert np.isfinite(p).all()
    if categories == 1:
        assert_allclose(p, 1.0)
        return
    usual = np.bincount(X[known].astype(int), minlength=len(alphabet)).max() / known.sum()
    assert np.mean(p.argmax(axis=1) == y) > usual + 0.1
    if categories == 3:
        assert 0 < p[:, 3].mean() < 0.05


def test_categories_are_the_same_bits_on_any_number_of_threads(monkeypatch):
    """One thread and three give the same probabilities, bit by bit."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (5000, 4)).astype(float)
    found = []
    for threads in (1, 3):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", str(threads))
        model = Posterior(covariance="low-rank", rank=2, sweeps=4)
        fit = model.fit(si.Observations.from_dense(X), si.Nominal([0, 1, 2, 3]))
        found.append(fit.proba(np.arange(500), np.arange(500) % 4))
    assert_array_equal(*found)


def test_too_many_symbols_are_refused():
    """Alphabets of more symbols than a byte tells apart are refused, ordered or not."""
    table = si.Observations.from_dense([[0.0, 1.0], [299.0, 4.0]])
    for alphabet in ("0:299", si.Nominal(range(300))):
        with pytest.raises(ValueError, match="at most 256 symbols, got one of 300"):
            Posterior().fit(table, alphabet)


def test_new_columns_of_categories_are_folded_in():
    """A new column is answered by the categories of rows like a row, nearly as if it had been fitted."""
    rng = np.random.default_rng(2)
    f = rng.standard_normal((300, 2))
    utilities = np.einsum("ik,ckj->ijc", f, rng.standard_normal((4, 2, 9)) * 2)
    X = (utilities + rng.standard_normal(utilities.shape)).argmax(axis=2).astype(float)
    alphabet = si.Nominal([0, 1, 2, 3])
    fit = MODELS["low-rank"].fit(si.Observations.from_dense(X[:, :8]), alphabet)
    known = rng.random(300) < 0.5
    new = fit.fold_in_columns(si.Observations.from_dense(np.where(known, X[:, 8], np.nan)[:, None]))
    rows = np.flatnonzero(~known)
    p, y = new.proba(rows, np.zeros(rows.size, dtype=int)), X[rows, 8].astype(int)
    best = np.array([shares_of(one) for one in utilities[rows, 8]])
    assert log_loss(p, y) < log_loss(best, y) + 0.3 * (np.log(4) - log_loss(best, y))
    assert set(new.draw(2).ravel()) <= {0, 1, 2, 3}


def test_a_few_columns_of_many_categories_may_have_more_factors_than_columns(made):
    """Rank and forecast count a latent value for each category, not for each column."""
    rng = np.random.default_rng(0)
    table = si.Observations.from_dense(rng.integers(0, 9, (60, 2)).astype(float))
    nominal, ordered = (ColumnSchema.single(one, 2) for one in (si.Nominal(range(9)), si.Alphabet.of("0:8")))
    model = Posterior(covariance="low-rank")
    assert [model.rank_of(table, one) for one in (nominal, ordered)] == [15, 1]
    plans = [model.forecast(table, one, timed=False) for one in (nominal, ordered)]
    assert plans[0].memory > 2 * plans[1].memory


def test_rows_cannot_have_thresholds_of_categories(made):
    """Thresholds by row need an order, which the error says."""
    with pytest.raises(ValueError, match="needs one alphabet for all columns, with an order"):
        Posterior(thresholds="rows").fit(made.table, made.schema)
