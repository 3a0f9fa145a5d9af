"""Features that a user brings: cold rows and columns are predicted, useless ones do no harm, new units get theirs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import snapimpute as si
from snapimpute.posterior import Posterior
from snapimpute.posterior._features import SideMap, mask_maps
from snapimpute.posterior._given import Given

COLD_ROWS, COLD_COLUMNS = 30, 6
"""The last rows and columns of the planted table, of which no cell is known."""


@dataclass(frozen=True, eq=False)
class World:
    """A table whose latent values follow from an age of the rows and a taste of rows and columns."""

    values: np.ndarray
    table: si.Observations
    rows: pd.DataFrame
    columns: np.ndarray


@pytest.fixture(scope="module")
def world() -> World:
    rng = np.random.default_rng(0)
    m, n = 150, 36
    age, taste = rng.normal(40, 12, m), rng.integers(0, 3, m)
    genre = rng.integers(0, 3, n)
    z = 0.08 * (age[:, None] - 40) + 1.5 * (taste[:, None] == genre) + rng.normal(0, 0.6, (m, n))
    values = np.digitize(z, np.quantile(z, [0.25, 0.5, 0.75])).astype(float)
    known = rng.random((m, n)) < 0.5
    known[-COLD_ROWS:], known[:, -COLD_COLUMNS:] = False, False
    rows, cols = np.nonzero(known)
    table = si.Observations.from_coo(rows, cols, values[known], (m, n))
    names = np.array(["tea", "wine", "milk"])
    return World(values, table, pd.DataFrame({"age": age, "taste": names[taste]}), np.eye(3)[genre])


def off(p: np.ndarray, values: np.ndarray) -> float:
    """Mean squared error of the expected symbol."""
    return float(np.mean((p @ np.arange(4) - values) ** 2))


def cells(rows: Any, cols: Any) -> tuple[np.ndarray, np.ndarray]:
    r, c = np.meshgrid(rows, cols, indexing="ij")
    return r.ravel(), c.ravel()


@pytest.fixture(scope="module")
def fits(world: World) -> dict[str, Any]:
    models = {
        "rows": Posterior("low-rank", thresholds="rows", rank=3, sweeps=100),
        "columns": Posterior("low-rank", thresholds="columns", rank=3, sweeps=100),
    }
    given = {"row_features": world.rows, "column_features": world.columns}
    found = {side: model.fit(world.table, "0:3", **given) for side, model in models.items()}
    full = Posterior("full", sweeps=60)
    return found | {"full": full.fit(world.table, "0:3", row_features=world.rows)}


@pytest.mark.parametrize("kind", ["rows", "columns", "full"])
def test_cold_rows_are_predicted_from_their_features(world, fits, kind):
    """Rows without any known cell: far better than the mean of the column, and than the same fit without features."""
    where = cells(range(120, 150), range(30))
    truth = world.values[where]
    mean = np.array([world.table.values[world.table.cols == j].mean() for j in range(30)])
    assert off(fits[kind].proba(*where), truth) < 0.6 * np.mean((mean[where[1]] - truth) ** 2)


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_cold_columns_are_predicted_from_their_features(world, fits, kind):
    """Columns without any known cell get the tastes that their features ask for."""
    where = cells(range(120), range(30, 36))
    truth = world.values[where]
    mean = np.array([world.table.values[world.table.rows == i].mean() for i in range(120)])
    assert off(fits[kind].proba(*where), truth) < 0.7 * np.mean((mean[where[0]] - truth) ** 2)


def test_the_mask_speaks_of_rows_of_the_fit_without_a_cell(world):
    """Their mask features are 0, whatever a user brings; new rows without a cell have those to be expected."""
    rows, cols = world.table.rows, world.table.cols
    mask, _ = mask_maps(world.table)
    width = mask.vectors.shape[1]
    for given in (None, world.rows):
        side = SideMap.learn(mask, Given.learn(given, 150, None, "row"), rows, cols)
        assert not side.features(rows, cols).values[-COLD_ROWS:, :width].any()
        new, known = side.new_features(rows, cols).values[:, :width], side.features(rows, cols).values[:120, :width]
        assert_array_equal(new[:120], known)
        weights = np.bincount(rows, minlength=150)[:120]
        if given is None:
            assert_allclose(new[-1], weights @ known / weights.sum(), rtol=1e-4, atol=1e-6)
        else:
            assert np.ptp(new[-COLD_ROWS:], axis=0).max() > 0


def test_the_full_covariance_uses_features_of_rows_where_cells_are_known(world, fits):
    """A cell of a row with few known ones is predicted better with the row's features than without them."""
    few = np.flatnonzero(np.bincount(world.table.rows, minlength=120)[:120] <= 13)
    where = cells(few, range(30))
    without = Posterior("full", sweeps=60).fit(world.table, "0:3")
    errors = [off(fit.proba(*where), world.values[where]) for fit in (fits["full"], without)]
    assert errors[0] < 0.97 * errors[1]


def test_hundreds_of_useless_tags_do_no_harm(world, fits):
    """Tags that say nothing have a ridge of their own: cold rows are predicted as without them."""
    rng = np.random.default_rng(1)
    tags = [set(rng.choice(300, 10).astype(str)) for _ in range(150)]
    model = Posterior("low-rank", thresholds="rows", rank=3, sweeps=100)
    noisy = model.fit(world.table, "0:3", row_features=world.rows.assign(tags=tags), column_features=world.columns)
    where = cells(range(120, 150), range(30))
    errors = [off(fit.proba(*where), world.values[where]) for fit in (fits["rows"], noisy)]
    assert errors[1] < 1.06 * errors[0]


@pytest.mark.parametrize("kind", ["rows", "columns", "full"])
def test_new_rows_with_nothing_but_features(world, fits, kind):
    """Folded in, rows without a cell get what rows of the fit with the same features get; without, all the same."""
    empty = si.Observations(*np.zeros((2, 0), np.int32), np.zeros(0), (4, 36))
    new = pd.DataFrame({"age": [20.0, 60, 20, 60], "taste": ["tea", "tea", "wine", "wine"]})
    where = cells(range(4), range(30))
    mean = fits[kind].fold_in(empty, row_features=new).mean(*where).reshape(4, 30)
    assert (mean[1::2].mean(axis=1) > mean[::2].mean(axis=1) + 0.5).all()  # the old give more
    liked = world.columns[:30, 0] == 1
    assert (mean[:2, liked] - mean[2:, liked]).mean() > 0.3  # and each what is liked
    average = fits[kind].fold_in(empty).mean(*where).reshape(4, 30).mean(axis=1)
    assert np.ptp(average) < 0.5 * np.ptp(mean.mean(axis=1))
    assert mean.mean(axis=1).min() < average.mean() < mean.mean(axis=1).max()


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_new_columns_by_their_cells_and_features(world, fits, kind):
    """Columns folded in are predicted nearly as well as fitted ones, and without a cell by their features."""
    rng = np.random.default_rng(2)
    known = rng.random((150, 6)) < 0.4
    known[-COLD_ROWS:], known[:, 3:] = False, False
    rows, cols = np.nonzero(known)
    table = si.Observations.from_coo(rows, cols, world.values[rows, 30 + cols], (150, 6))
    folded = fits[kind].fold_in_columns(table, column_features=world.columns[30:])
    mean = np.array([world.table.values[world.table.rows == i].mean() for i in range(120)])
    for some, bound in ((range(3), 0.6), (range(3, 6), 0.7)):
        where = cells(range(120), some)
        truth = world.values[where[0], 30 + where[1]]
        assert off(folded.proba(*where), truth) < bound * np.mean((mean[where[0]] - truth) ** 2)
    assert folded.draw(2).shape == (2, 900 - len(table))
    again = fits[kind].fold_in_columns(table, "0:3", column_features=world.columns[30:])
    assert_array_equal(again.proba(0, 0), folded.proba(0, 0))


def test_new_columns_that_do_not_fit_are_refused(world, fits):
    """Other rows, another alphabet and a full covariance: one sentence each."""
    table = world.table
    with pytest.raises(ValueError, match="the new columns have 1 rows, the fitted table 150: give the same rows"):
        fits["rows"].fold_in_columns(si.Observations.from_dense([[1.0]]))
    with pytest.raises(ValueError, match="new columns need one of the alphabets of the fit, which are"):
        fits["rows"].fold_in_columns(table, "0:5")
    with pytest.raises(ValueError, match="a full covariance takes no new columns"):
        fits["full"].fold_in_columns(table)


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_an_update_takes_features_of_new_rows_and_columns(world, fits, kind):
    """Rows and columns beyond the fit bring their own lines; those of the fit keep theirs."""
    cells_of = world.table.rows, world.table.cols, world.table.values
    first = [(one[(cells_of[0] < 100) & (cells_of[1] < 25)]) for one in cells_of]
    small = si.Observations.from_coo(*first, (100, 25))
    model = Posterior("low-rank", thresholds=kind, rank=3, sweeps=80)
    begun = model.fit(small, "0:3", row_features=world.rows[:100], column_features=world.columns[:25])
    more = model.update(begun, world.table, row_features=world.rows[100:], column_features=world.columns[25:])
    where = cells(range(120, 150), range(30))
    whole = off(fits[kind].proba(*where), world.values[where])
    assert off(more.proba(*where), world.values[where]) < 1.15 * whole
    bare = model.update(begun, world.table)
    assert off(bare.proba(*where), world.values[where]) > 1.15 * whole
    with pytest.raises(ValueError, match="row_features describes 150 rows, the table has 50"):
        model.update(begun, world.table, row_features=world.rows)


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_new_rows_like_what_they_ask_for(kind):
    """Where known cells are those that people like, so are those of new rows without a cell: no bias is left."""
    rng = np.random.default_rng(4)
    eta = rng.normal(0, 1, (240, 2)) @ rng.normal(0, 1, (2, 30))
    values = np.digitize(eta + rng.normal(0, 0.5, eta.shape), [-1, 0, 1]).astype(float)
    chosen = rng.random(eta.shape) < 0.6 / (1 + np.exp(-2 * eta))
    rows, cols = np.nonzero(chosen)
    old = rows < 200
    table = si.Observations.from_coo(rows[old], cols[old], values[rows[old], cols[old]], (200, 30))
    fit = Posterior("low-rank", thresholds=kind, rank=2, sweeps=80).fit(table, "0:3")
    asked, truth = (rows[~old] - 200, cols[~old]), values[rows[~old], cols[~old]]
    folded = fit.fold_in(si.Observations(*np.zeros((2, 0), np.int32), np.zeros(0), (40, 30)))
    bare = replace(folded, answers=replace(folded.answers, cold=None))
    assert np.mean(bare.mean(*asked) - truth) < -0.25
    assert abs(np.mean(folded.mean(*asked) - truth)) < 0.1
    assert abs(np.mean(folded.draw(20, *asked).mean(axis=0) - truth)) < 0.12
