"""Features that a user brings: cold rows and columns are predicted, useless ones do no harm, new units get theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

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


def test_the_mask_speaks_of_rows_without_a_cell_unless_features_do(world):
    """The features that the mask gives a row without any cell are 0; with features of a user they follow those."""
    rows, cols = world.table.rows, world.table.cols
    mask, _ = mask_maps(world.table)
    found = []
    for given in (None, world.rows):
        side = SideMap.learn(mask, Given.learn(given, 150, None, "row"), rows, cols)
        found.append(side.features(rows, cols).values[-COLD_ROWS:, : mask.vectors.shape[1]])
    assert not found[0].any()
    assert np.abs(found[1]).min(axis=1).max() > 0
