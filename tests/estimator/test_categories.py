"""Categories without order in the estimator: labels and dtypes come back, losses, files, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import snapimpute as si
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator.evaluation import _way

METHOD = si.Posterior("low-rank", rank=3, sweeps=60)
METHODS = {"low-rank": METHOD, "full": si.Posterior("full", sweeps=60)}
COLOURS, SHAPES = ["red", "green", "blue", "black"], ["round", "flat", "long"]
SPEC = {"colour": si.Nominal([*COLOURS, "never"]), "shape": si.Nominal(SHAPES), "stars": "1:4", "size": None}


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table that follows two factors, and the same with a fifth of its cells missing."""
    rng = np.random.default_rng(0)
    f = rng.standard_normal((160, 2))

    def chosen(names):
        utilities = 2 * f @ rng.standard_normal((2, len(names))) + rng.standard_normal((160, len(names)))
        return np.array(names, dtype=object)[utilities.argmax(axis=1)]

    whole = pd.DataFrame(
        {
            "colour": chosen(COLOURS),
            "shape": chosen(SHAPES),
            "stars": np.digitize(f[:, 0], [-1, 0, 1]) + 1,
            "size": f[:, 1] + 0.1 * rng.standard_normal(160),
        }
    ).astype({"stars": "Int64"})
    holes = whole.mask(rng.random(whole.shape) < 0.2)
    holes["colour"] = pd.Categorical(holes["colour"], [*COLOURS, "never"])
    return whole, holes


WHOLE, HOLES = frames()


@pytest.fixture(scope="module", params=METHODS)
def imputer(request) -> si.SnapImputer:
    return si.SnapImputer(SPEC, method=METHODS[request.param]).fit(HOLES)


def test_a_table_of_all_kinds_comes_back_with_its_labels_and_dtypes(imputer):
    """Categories are filled by their names, better than by the most common one; dtypes stay, in pandas and polars."""
    filled = imputer.transform(HOLES)
    assert filled.dtypes.equals(HOLES.dtypes)
    assert not filled.isna().any(axis=None)
    for name in ("colour", "shape"):
        hidden = HOLES[name].isna()
        right = (filled[name][hidden].astype(object) == WHOLE[name][hidden]).mean()
        assert right > WHOLE[name].value_counts(normalize=True).max() + 0.1
    own = {name: [None if pd.isna(one) else one for one in HOLES[name].astype(object)] for name in HOLES}
    types = {"colour": pl.Categorical, "shape": pl.Enum(SHAPES), "stars": pl.Int8, "size": pl.Float64}
    given = pl.DataFrame(own, schema=types)
    found = imputer.transform(given)
    assert found.schema == given.schema
    assert found["colour"].to_list() == filled["colour"].tolist()


def test_probabilities_come_in_the_order_of_the_categories(imputer):
    """The decided category is the most probable one, whatever the loss; the mean of a category is not given."""
    rows = np.flatnonzero(HOLES["colour"].isna())
    p = imputer.predict_proba(rows, 0)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    best = np.array([*COLOURS, "never"], dtype=object)[p.argmax(axis=1)]
    assert imputer.predict(rows, 0).tolist() == best.tolist()
    for decide in ("mae", "nearest"):
        other = si.SnapImputer(SPEC, method=imputer.method, decide=decide).fit(HOLES)
        assert other.predict(rows, 0).tolist() == best.tolist()
    assert np.isnan(imputer.predict_mean([0, 0], [0, 3])).tolist() == [True, False]
    with pytest.raises(ValueError, match="categories without order have no mean"):
        imputer.predict_mean(0, 0)


def test_categories_in_files_further_cells_and_scores(imputer, tmp_path):
    """A model with categories comes back from its file, goes on with a label, and is scored beside baselines."""
    imputer.save(tmp_path / "model.snap")
    back = si.load(tmp_path / "model.snap")
    assert back.alphabet_ == imputer.alphabet_
    np.testing.assert_array_equal(back.predict_proba([0, 1], 0), imputer.predict_proba([0, 1], 0))
    assert back.partial_fit([0], [1], ["flat"]).predict(0, 1) in SHAPES
    assert imputer.recommend(0, k=4).tolist() in ([2], [])  # categories and numbers are never recommended
    assert imputer.score(HOLES) > -1
    found = si.evaluate(imputer._observed, si.SnapImputer(imputer.alphabet_, method=imputer.method))
    assert found.ours.exact > max(way.exact for way in found.ways[1:])
    assert np.isfinite([way.mae for way in found.ways]).all()  # of stars and sizes


def test_distances_do_not_count_categories():
    """A wrong category is wrong, and neither in the mean absolute nor in the root mean squared error."""
    book = ColumnSchema.of([si.Nominal([0, 1, 2]), "1:5"], 2)
    hidden = si.Observations.from_dense([[2.0, 5.0], [0.0, 1.0]])
    way = _way("x", "ours", hidden, book, np.ones(2), np.array([np.nan, 4, np.nan, 1]), np.array([0.0, 4, 0, 1]))
    assert (way.exact, way.mae, way.rmse) == (0.5, 0.5, pytest.approx(np.sqrt(0.5)))


def test_categoricals_without_order_are_recognised():
    """Categories that a column declares are its alphabet under "infer"."""
    found = si.SnapImputer("infer", method=METHOD).fit(HOLES[["colour", "stars"]])
    assert found.alphabet_ == [si.Nominal([*COLOURS, "never"]), si.Alphabet.of("1:4")]


@pytest.mark.parametrize(
    "refused",
    [
        lambda: si.SnapImputer(SPEC, method="proximal").fit(HOLES),
        lambda: si.SnapImputer("infer", method="proximal").fit(HOLES[["colour"]]),
        lambda: si.complete([[1, 2], [3, None]], si.Nominal([1, 2, 3]), method="proximal"),
        lambda: si.L1(si.Nominal([1, 2, 3]), xi=1.0),
    ],
    ids=["a column", "inferred", "the table", "a penalty"],
)
def test_the_proximal_method_refuses_categories(refused):
    """Whatever measures distances between symbols refuses categories, and names the method that fits them."""
    with pytest.raises(ValueError, match=r"Nominal\(.*has no order, .*choose method=\"posterior\""):
        refused()
