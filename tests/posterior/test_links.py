"""Links of a few columns: found, drawn from their conditionals, and kept in every answer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr

import snapimpute as si
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior import Posterior, PosteriorFit
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._links import Links, found_links

ROWS, COLUMNS, PAIRS = 240, 70, 8
MODEL = Posterior(covariance="low-rank", thresholds="columns", rank=3, sweeps=100)


@cache
def wide() -> np.ndarray:
    """Answers of 1 to 4 with one factor; columns 0 and 1, 2 and 3 … share something that no other has."""
    rng = np.random.default_rng(0)
    own = np.where(np.arange(COLUMNS) < 2 * PAIRS, 0.35, 0.85)
    z = 0.5 * rng.standard_normal((ROWS, 1)) + own * rng.standard_normal((ROWS, COLUMNS))
    z[:, : 2 * PAIRS] += 0.8 * np.repeat(rng.standard_normal((ROWS, PAIRS)), 2, axis=1)
    return 1.0 + np.digitize(z, [-0.8, 0.0, 0.8])


@cache
def hidden() -> np.ndarray:
    """A third of the first column, and some cells of all others."""
    rng = np.random.default_rng(1)
    out = rng.random((ROWS, COLUMNS)) < 0.05
    out[:, 0] = rng.random(ROWS) < 0.33
    return out


@cache
def fitted() -> PosteriorFit:
    return MODEL.fit(si.Observations.from_dense(np.where(hidden(), np.nan, wide())), "1:4")


def blocks(links: Links) -> set[tuple[int, ...]]:
    return {tuple(np.flatnonzero(links.block == number).tolist()) for number in range(len(links.shared))}


def test_planted_pairs_are_found_and_no_others():
    """The chain finds nearly all pairs, and takes no two columns for linked that are not."""
    found = blocks(fitted().answers.draws.links[-1])
    assert found <= {(k, k + 1) for k in range(0, 2 * PAIRS, 2)}
    assert len(found) >= PAIRS - 1


def test_drawn_cells_go_along_with_the_linked_column():
    """Drawn cells correlate with the linked column nearly as the hidden ones do; without links they hardly do."""
    gone = hidden()[:, 0] & ~hidden()[:, 1]
    rows, partner = np.flatnonzero(gone), wide()[gone, 1]
    found = []
    for fit in (fitted(), replace(MODEL, links=False).fit(fitted().observations, "1:4")):
        tables = fit.draw(20, rows, np.zeros(rows.size, int))
        found.append(np.mean([np.corrcoef(cells, partner)[0, 1] for cells in tables]))
    truth = np.corrcoef(wide()[gone, 0], partner)[0, 1]
    assert fit.kept_links == "Low rank draws the tables: what only a few columns share may be lost."
    blocks = len(fitted().answers.draws.links[-1].shared)
    assert fitted().kept_links.endswith(f"except in {blocks} blocks of linked columns.")
    assert found[0] > truth - 0.15
    assert found[1] < truth - 0.3


def test_probabilities_of_linked_columns_are_those_of_the_draws():
    """Over all draws, P(s) averages Φ of the thresholds beyond level, factors and link, over the noise."""
    fit = fitted()
    rows, draws = np.flatnonzero(hidden()[:, 0])[:5], fit.answers.draws
    expected = np.zeros((5, 4))
    for number in range(len(draws)):
        one = draws[number]
        a, b = one.raters[0].astype(float), one.items[rows].astype(float)
        eta = a[0] + b[:, 0] + b[:, 1:] @ a[1:] + one.links.loadings[0] * one.links.shared[one.links.block[0], rows]
        size = np.sqrt(one.rater_noise[0] * one.item_noise[rows])
        below = ndtr(size[:, None] * (one.factors[rows, None] * one.thresholds[0] - eta[:, None]))
        expected += np.diff(below, axis=1, prepend=0, append=1) / len(draws)
    assert_allclose(fit.proba(rows, np.zeros(5, int)), expected, atol=2e-5)


def test_new_rows_and_more_cells_keep_the_links():
    """Rows folded in are told about a column by its partner; an update goes on with the blocks."""
    fit, X = fitted(), wide()
    new = np.where(np.arange(COLUMNS) == 0, np.nan, X[:60])
    folded = fit.fold_in(si.Observations.from_dense(new))
    mean = folded.mean(np.arange(60), np.zeros(60, int))
    assert np.corrcoef(mean, X[:60, 0])[0, 1] > 0.65
    assert folded.answers.draws.links[0].shared.shape[1] == 60
    more = si.Observations.from_dense(np.where(hidden() & (np.arange(COLUMNS) > 0), np.nan, X))
    assert len(blocks(replace(MODEL, sweeps=30).update(fit, more).answers.draws.links[-1])) >= PAIRS - 1


def test_shared_values_and_loadings_follow_their_conditionals():
    """A block of two columns: over many draws, λ has the density that integrating u out gives on a grid."""
    rng, rows = np.random.default_rng(2), 12
    rest = np.column_stack([rng.normal(0, 1, rows), rng.normal(0, 1, rows)])
    rest[:, 1] += rest[:, 0]
    weight = rng.gamma(3, 1 / 2, (rows, 2))
    cells = Cells.of(*np.nonzero(np.ones((2, rows))), np.zeros(2 * rows, int), (2, rows), np.array([2, 2]))
    links = Links(np.zeros(2, int), np.array([0.5, 0.5], np.float32), np.zeros((1, rows), np.float32))
    at = links.cells(cells)
    given = at, rest[at.item, at.rater], weight[at.item, at.rater], rng
    found = []
    for _ in range(12_000):
        links = links.with_shared(*given).with_loadings(*given)
        found.append([*links.loadings, links.loadings[0] * links.loadings[1]])
    a, b = np.meshgrid(*2 * [np.linspace(-4, 4, 321)], indexing="ij")
    log_density = -0.5 * (a**2 + b**2)
    for (x, y), (v, w) in zip(rest, weight, strict=True):
        total = 1 + v * a**2 + w * b**2  # r ~ N(0, D⁻¹ + λλᵀ)
        log_density += 0.5 * ((v * a * x + w * b * y) ** 2 / total - np.log(total))
    p = np.exp(log_density - log_density.max())
    p /= p.sum()
    product, later = np.array(found)[200:, 2], np.abs(np.array(found)[200:, :2])
    assert product.mean() == pytest.approx((p * a * b).sum(), abs=0.04)
    assert product.std() == pytest.approx(np.sqrt((p * (a * b) ** 2).sum() - (p * a * b).sum() ** 2), rel=0.08)
    assert_allclose(later.mean(axis=0), [(p * np.abs(a)).sum(), (p * np.abs(b)).sum()], atol=0.04)


def test_blocks_of_several_columns_and_columns_left_alone():
    """Three columns that share residuals make one block; columns of categories and rare company make none."""
    rng = np.random.default_rng(3)
    rest = rng.standard_normal((12, 400))
    rest[:3] += 1.5 * rng.standard_normal(400)
    rest[3:5] += 1.5 * rng.standard_normal(400)
    raters, items = np.nonzero((np.arange(12)[:, None] != 3) | (np.arange(400) < 20))
    cells = Cells.of(raters, items, np.zeros(raters.size, int), (12, 400), np.full(12, 2))
    assert blocks(found_links(cells, rest[raters, cells.item])) == {(0, 1, 2)}
    narrow = Cells.of(np.zeros(5, int), np.arange(5), np.zeros(5, int), (1, 5), np.array([2]))
    assert not found_links(narrow, np.zeros(5)).any


def test_links_are_looked_for_where_no_full_covariance_is():
    """By default links are looked for in wide tables, and in narrow ones where low rank is asked for."""
    schema, narrow = ColumnSchema.single(si.Alphabet.of("1:4"), 6), si.Observations.from_dense(wide()[:, :6])
    assert Posterior()._with_links(narrow, schema).links is False
    assert MODEL._with_links(narrow, schema).links is True
    every = ColumnSchema.single(si.Alphabet.of("1:4"), COLUMNS)
    assert Posterior()._with_links(si.Observations.from_dense(wide()[:100]), every).links is True
    with pytest.raises(ValueError, match='links must be True, False or "auto", got 3'):
        replace(MODEL, links=3).fit(narrow, "1:4")


def test_linked_draws_are_the_same_bits_on_any_number_of_threads(monkeypatch):
    """Two threads give the same blocks and draws, bit by bit."""
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", "2")
    rows, cols = np.nonzero(hidden())
    again = MODEL.fit(fitted().observations, "1:4")
    assert_array_equal(again.proba(rows, cols), fitted().proba(rows, cols))
    assert_array_equal(again.draw(3), fitted().draw(3))
