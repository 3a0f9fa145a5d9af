"""Features as users have them: read, matched by label, turned into numbers for fitted units and for new ones."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute.data.feature_map import MOST_COLUMNS, FeatureMap
from snapimpute.data.features import FeatureTable, read_features

AGES, LIKES = [20.0, None, 40.0, 60.0], [["tea"], None, ["tea", "wine"], []]


def read(given: Any, size: int = 4, labels: Any = None) -> FeatureTable:
    return read_features(given, size, labels, "row_features", "row")


def encoded(given: Any, size: int) -> np.ndarray:
    """Columns of all blocks, as the fit sees them."""
    table = read(given, size)
    return np.hstack(FeatureMap.learn(table).encode(table))


def columns() -> dict[str, list[Any]]:
    days = [datetime.date(1970, 1, 1 + day) for day in range(4)]
    return {"age": AGES, "sex": ["f", None, "m", "f"], "likes": LIKES, "since": days, "member": [True, False] * 2}


FRAMES = {
    "pandas": lambda: pd.DataFrame(columns()).astype({"age": "Float64", "sex": "category"}),
    "polars": lambda: pl.DataFrame(columns(), schema_overrides={"sex": pl.Categorical}),
    "arrow": lambda: pa.table(columns()),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_hold_numbers_categories_tags_and_dates(kind):
    """Every kind of frame is read alike: missing cells are NaN or None, dates are days, booleans are categories."""
    table = read(FRAMES[kind]())
    assert_array_equal(table.numbers["age"], [20, np.nan, 40, 60])
    assert_array_equal(table.numbers["since"], [0, 1, 2, 3])
    assert table.categories["sex"].tolist() == ["f", None, "m", "f"]
    assert table.categories["member"].tolist() == ["True", "False"] * 2
    assert table.tags["likes"].tolist() == [{"tea"}, None, {"tea", "wine"}, set()]


def test_a_dict_goes_by_label():
    """Records, sets of tags, lists of numbers and single values are found by the labels of the table."""
    labels = ["a", "b", "c", "d"]
    records = read({"b": {"age": 30}, "a": {"sex": "f", "age": None}, "other": {"age": 5}}, labels=labels)
    assert_array_equal(records.numbers["age"], [np.nan, 30, np.nan, np.nan])
    assert records.categories["sex"].tolist() == ["f", None, None, None]
    tags = read({"c": {"tea"}, "a": set()}, labels=labels)
    assert tags.tags["value"].tolist() == [set(), None, {"tea"}, None]
    vectors = read({"d": [1, 2], "a": [3, 4]}, labels=labels)
    assert_array_equal(vectors.numbers["1"], [4, np.nan, np.nan, 2])
    assert_array_equal(read({"b": 7}, labels=labels).numbers["value"], [np.nan, 7, np.nan, np.nan])


def test_a_frame_with_an_index_goes_by_label():
    """Lines are found by the labels of the table in any order; without labels on both sides the order counts."""
    frame = pd.DataFrame({"age": [1.0, 2, 3, 4, 5]}, index=list("edcba"))
    assert_array_equal(read(frame, labels=list("abcd")).numbers["age"], [5, 4, 3, 2])
    assert_array_equal(read(frame, 5).numbers["age"], [1, 2, 3, 4, 5])
    assert_array_equal(read(frame.reset_index(drop=True), 5, labels=list("abcde")).numbers["age"], [1, 2, 3, 4, 5])


def test_numbers_are_standardised_and_long_tails_drawn_in():
    """Mean 0, spread 1, an unknown number at the mean with an indicator; a huge one tamed; constants go."""
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(50, 9, 400), np.exp(rng.normal(0, 3, 400)), np.full(400, 7.0)])
    values[:40, 0] = np.nan
    out = encoded(values, 400)
    assert out.shape == (400, 3)  # two numbers and the indicator of the first
    assert_allclose(out.mean(axis=0), 0, atol=1e-6)
    assert_allclose(out[40:, 0].std(), 1, rtol=1e-5)
    assert_allclose(out[:, 1].std(), 1, rtol=1e-5)
    assert_allclose(out[:40, 0], 0, atol=1e-6)
    assert np.ptp(out[:40, 2]) == 0
    assert out[:40, 2].mean() > 0 > out[40:, 2].mean()
    assert np.abs(out).max() < 5
    assert np.abs((values[:, 1] - values[:, 1].mean()) / values[:, 1].std()).max() > 10


def test_categories_and_tags_stand_beside_each_other():
    """A column for each category, rare ones pooled; tags of weight one over the root of their number."""
    names = ["f"] * 5 + ["m"] * 4 + ["x", "y", None]
    out = encoded([[one] for one in names], 12)
    assert out.shape == (12, 3)
    assert_allclose(out[:11].sum(axis=0), 0, atol=1e-5)
    assert_array_equal(out[11], 0)
    assert_array_equal(out[9], out[10])
    assert out[9, 2] > 0.5
    assert len(np.unique(out[:9], axis=0)) == 2
    tags = encoded(pd.DataFrame({"likes": [{"tea"}, {"wine"}, {"tea", "wine"}, {"once"}] * 3 + [None]}), 13)
    assert tags.shape == (13, 3)
    wine, both = tags[1], tags[2]
    assert_allclose(both - wine, [0, np.sqrt(0.5), np.sqrt(0.5) - 1], atol=1e-6)
    assert_array_equal(tags[12], 0)


def test_new_units_are_seen_with_the_eyes_of_the_fit():
    """The same lines give the same columns; what the fit never saw, and what is not known, counts as the average."""
    given = pd.DataFrame({"age": [20.0, 30, 40, 50] * 3, "sex": ["f", "m"] * 6, "likes": [{"tea"}, {"wine"}] * 6})
    table = read(given, 12)
    found = FeatureMap.learn(table)
    for new, old in zip(found.encode(read(given[3:5], 2)), found.encode(table), strict=True):
        assert_array_equal(new, old[3:5])
    strange = pd.DataFrame({"age": [np.nan], "sex": ["other"], "likes": [None]})
    for new, nothing in zip(found.encode(read(strange, 1)), found.nothing(1), strict=True):
        assert_array_equal(new, nothing)
        assert_array_equal(new, 0)
    part = found.encode(read({"a": {"sex": "f"}}, 1, ["a"]))
    assert_array_equal(part[0], 0)
    assert_array_equal(part[1], found.encode(table)[1][:1])


def test_wide_blocks_keep_their_principal_components():
    """Sparse and dense columns by the thousand become a few hundred, which span what the leading vectors span."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 400))
    out = encoded(factors + 0.01 * rng.normal(size=factors.shape), 300)
    assert out.shape == (300, MOST_COLUMNS)
    share = np.linalg.svd(out, compute_uv=False)
    assert share[3] < 0.1 * share[2]
    matrix = sp.random(300, 500, density=0.02, rng=rng, format="csr")
    assert encoded(matrix, 300).shape == (300, MOST_COLUMNS)
    narrow = encoded(sp.csr_array(np.eye(4)[[0, 1, 2, 3] * 5]), 20)
    assert_allclose(narrow, (np.eye(4)[[0, 1, 2, 3] * 5] - 0.25) * np.arcsinh(2), atol=1e-6)


@pytest.mark.parametrize(
    ("given", "size", "labels", "message"),
    [
        (np.zeros((3, 2)), 4, None, "row_features describes 3 rows, the table has 4: give one for each, in order"),
        (np.zeros((2, 2, 2)), 2, None, "must have two dimensions"),
        ({"a": 1}, 2, None, "goes by label, and the rows of the table have none: give row_labels to the table"),
        ({"x": 1}, 2, ["a", "b"], "has no label of the table: its first is 'x', the table's 'a'; write both alike"),
        ({"a": [1, 2], "b": [1]}, 2, ["a", "b"], "differ in length: give each 2 numbers"),
        (pd.DataFrame({"x": [1, 2]}, index=["a", "c"]), 2, ["a", "b"], r"lacks 1 row\(s\) of the table, .* is 'b'"),
        (pd.DataFrame({"x": [1, 2]}, index=["a", "a"]), 2, ["a", "b"], "describes 'a' twice: keep one line"),
        (np.array([[np.inf], [1]]), 2, None, "holds ∞: write NaN where a number is not known"),
        (sp.csr_array([[np.nan], [1.0]]), 2, None, "is sparse and holds NaN"),
        (pd.DataFrame({"x": [[1, 2], [3, 4]]}), 2, None, "must hold sets or lists of text, got .*: give each number"),
        (pd.DataFrame({"x": [1j, 2]}), 2, None, "feature 'x' of row_features cannot be read"),
        (pl.LazyFrame({"x": [1, 2]}), 2, None, "is a query, not a table yet: call its collect"),
    ],
)
def test_features_that_do_not_fit_are_refused(given, size, labels, message):
    """One sentence: what was given, what was expected, what to do."""
    with pytest.raises(ValueError, match=message):
        read(given, size, labels)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pd.DataFrame({"age": [1.0], "new": [2]}), "has a feature 'new' that the fit did not have: leave it out"),
        (pd.DataFrame({"age": [1.0]}), "lacks the feature 'sex' of the fit: give it, with NaN where it is not known"),
        (pd.DataFrame({"age": ["old"], "sex": ["f"]}), "feature 'age' of row_features held numbers in the fit"),
        (sp.csr_array([[1.0]]), "lacks the feature 'age' of the fit"),
    ],
)
def test_new_units_need_the_features_of_the_fit(given, message):
    """A feature too many, one too few, one of another kind and a matrix are refused."""
    found = FeatureMap.learn(read(pd.DataFrame({"age": [1.0, 2, 3], "sex": ["f", "m", "f"]}), 3))
    with pytest.raises(ValueError, match=message):
        found.encode(read(given, 1))


def test_matrices_need_the_columns_of_the_fit():
    """A sparse matrix of another width is refused, and one where the fit had an array."""
    matrix, array = sp.csr_array(np.eye(4)), np.eye(4)
    with pytest.raises(ValueError, match="must be a sparse matrix of 4 columns as in the fit, got one of 3"):
        FeatureMap.learn(read(matrix)).encode(read(sp.csr_array(np.eye(3)), 3))
    with pytest.raises(ValueError, match="lacks the feature '0' of the fit"):
        FeatureMap.learn(read(array)).encode(read(matrix))
