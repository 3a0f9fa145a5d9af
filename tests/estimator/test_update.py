"""More data for a fitted imputer, and its recommendations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import snapimpute as si
from snapimpute import Observations, Proximal, SnapImputer
from snapimpute.estimator._update import merged
from snapimpute.solvers import FitOptions
from tests.helpers import proximal

pytestmark = pytest.mark.slow

NAN = np.nan
EXACT = {"tol": 1e-9, "max_iter": 5000}
GIVEN = {"lam": 1.0, "xi": 0.02, "center": "mean", **EXACT}


@pytest.fixture(scope="module")
def whole() -> np.ndarray:
    """Ratings of low rank with holes."""
    data = si.datasets.low_rank_alphabet((24, 14), rank=2, alphabet="1:5", kind="blocks", observed=0.6)
    X = np.full(data.shape, NAN)
    X[data.observations.rows, data.observations.cols] = data.observations.values
    return X


def objective(imputer: si.SnapImputer, X: np.ndarray) -> float:
    """What was minimised, at the factors of a fit to X."""
    problem = imputer.fit_.tuned.spec.problem(Observations.from_dense(X), imputer.lam_, imputer.xi_)
    return problem.objective(imputer.fit_.model.x)


def cells_of(X: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, cols = np.nonzero(where & ~np.isnan(X))
    return rows, cols, X[rows, cols]


def apart(X: np.ndarray, kind: str) -> np.ndarray:
    """Cells that come later: scattered ones, further rows, further columns, or both of these."""
    rows, cols = np.indices(X.shape)
    late = {
        "cells": np.random.default_rng(0).random(X.shape) < 0.2,
        "rows": rows >= 19,
        "columns": cols >= 11,
        "both": (rows >= 19) | (cols >= 11),
    }[kind]
    return late


# -------------------------------------------------------------------- partial_fit
@pytest.mark.parametrize("kind", ["cells", "rows", "columns", "both"])
@pytest.mark.parametrize("params", [{}, {"xi": 0.0}, {"center": "biases"}, {"center": None}])
def test_partial_fit_is_a_fit_of_everything_at_the_same_strengths(whole, kind, params):
    """New cells, rows and columns lead to the objective that a fit of all data has, and to its estimates."""
    late = apart(whole, kind)
    early = np.where(late, NAN, whole)
    if kind != "cells":
        early = early[: 24 if kind == "columns" else 19, : 14 if kind == "rows" else 11]
    params = {**GIVEN, **params}
    imputer = proximal("1:5", **params).fit(early)
    damping = imputer.damping_
    assert imputer.partial_fit(*cells_of(whole, late)) is imputer
    known = Observations.from_dense(whole)
    everything = imputer.fit_.tuned.fit(known, options=FitOptions(**EXACT))  # from nothing, with the same damping too
    assert (imputer.n_features_in_, imputer.left_.shape[0]) == (14, 24)
    assert (imputer.lam_, imputer.xi_, imputer.damping_) == (1.0, params["xi"], damping)
    assert objective(imputer, whole) == pytest.approx(everything.history["objective"][-1], rel=1e-5)
    cells = np.indices(whole.shape)
    expected = everything.entries(*(index.ravel() for index in cells)).reshape(whole.shape)
    np.testing.assert_allclose(imputer.predict_mean(*cells), expected, atol=0.01)
    out = imputer.transform(whole)
    assert not np.isnan(out).any()
    np.testing.assert_array_equal(out[~np.isnan(whole)], whole[~np.isnan(whole)])


def test_it_goes_on_from_where_it_was(whole):
    """A few new cells take fewer iterations than a fit from nothing."""
    late = np.zeros_like(whole, dtype=bool)
    late[3, :5] = True
    params = {**GIVEN, "tol": 1e-5}
    imputer = proximal("1:5", **params).fit(np.where(late, NAN, whole))
    first = imputer.n_iter_
    assert imputer.partial_fit(*cells_of(whole, late)).n_iter_ < first


def test_a_changed_cell_has_the_new_value(whole):
    """What was known is forgotten."""
    row, col = (int(one[0]) for one in np.nonzero(~np.isnan(whole)))
    changed = whole.copy()
    changed[row, col] = 6 - whole[row, col] if whole[row, col] != 3 else 1
    imputer = proximal("1:5", **GIVEN).fit(whole).partial_fit([row], [col], [changed[row, col]])
    everything = proximal("1:5", **GIVEN).fit(changed)
    assert imputer.predict_mean(row, col) == pytest.approx(everything.predict_mean(row, col), abs=1e-3)
    assert objective(imputer, changed) == pytest.approx(objective(everything, changed), rel=1e-4)


def test_no_cells_change_nothing(whole):
    """Three empty lists are welcome."""
    imputer = proximal("1:5", **GIVEN).fit(whole)
    before = imputer.left_
    assert imputer.partial_fit([], [], []).left_ is before


def test_labels_are_taken_as_labels():
    """Values are given as they are in the table; others are refused."""
    table = [["n", "y", None], ["n", None, "n"], ["y", "y", "y"]]
    imputer = si.SnapImputer(["n", "y"], method=si.Proximal(lam=0.3, xi=0.0)).fit(table)
    imputer.partial_fit([0, 3], [2, 1], ["n", "y"])
    assert imputer.predict(0, 2) == "n"
    assert imputer.left_.shape[0] == 4
    with pytest.raises(ValueError, match=r"1 value\(s\) not in Alphabet.*'maybe'"):
        imputer.partial_fit([0], [0], ["maybe"])


def test_several_alphabets_each_take_their_own():
    """A value must be in the alphabet of its column; columns of any numbers take any."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, (12, 2)), rng.integers(1, 6, (12, 2)), rng.normal(50, 9, 12)])
    X[rng.random(X.shape) < 0.2] = NAN
    X[:, 4] = 50 + np.arange(12)
    alphabet = ["0,1", "0,1", "1:5", "1:5", None]
    imputer = si.SnapImputer([*alphabet[:4], None], method=si.Proximal(lam=0.5, xi=0.01)).fit(X)
    imputer.partial_fit([0, 12, 12, 12], [0, 0, 2, 4], [1, 1, 5, 61.25])
    assert imputer.left_.shape[0] == 13
    with pytest.raises(ValueError, match=r"not in Alphabet\(\[0, 1\]\), the first is 5"):
        imputer.partial_fit([0], [1], [5])
    with pytest.raises(ValueError, match="column 5 is new"):
        imputer.partial_fit([0], [5], [1])
    alone = si.SnapImputer([*alphabet[:4], None], method=si.Proximal(lam=0.5, xi=0.01), continuous="passthrough").fit(
        X
    )
    with pytest.raises(ValueError, match="column 4 was left alone by the fit, so it takes no values"):
        alone.partial_fit([0], [4], [50.0])
    with pytest.raises(ValueError, match="column 4 was left alone by the fit, which says nothing of it"):
        alone.predict(0, [3, 4])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (([0], [0.5], [1]), "cols must hold integers"),
        (([0, 1], [0], [1]), "rows, cols and values must be of one length, got 2, 1 and 1"),
        (([0], [-1], [1]), "index"),
        (([-1], [0], [1]), "index"),
        (([0, 0], [1, 1], [1, 2]), "duplicate"),
        (([0], [0], [7]), "not in Alphabet"),
        (([0], [0], [NAN]), "not in Alphabet"),
        (([0], [0], ["a"]), "real numbers"),
        (([[0]], [[0]], [[1]]), "flat list"),
    ],
)
def test_wrong_cells_are_refused_and_change_nothing(whole, cells, message):
    """One clear error each; the fit stays as it was."""
    imputer = proximal("1:5", **GIVEN).fit(whole)
    before = dict(vars(imputer))
    with pytest.raises(ValueError, match=message):
        imputer.partial_fit(*cells)
    assert dict(vars(imputer)) == before


def test_new_columns_need_columns_without_names(whole):
    """A frame has names, and a new column would have none."""
    frame = pd.DataFrame(whole, columns=[f"q{j}" for j in range(14)])
    imputer = proximal("1:5", **GIVEN).fit(frame)
    with pytest.raises(ValueError, match="column 14 is new, which takes a table whose columns have no names"):
        imputer.partial_fit([0], [14], [1])
    imputer.partial_fit([30], [13], [1])
    assert imputer.left_.shape[0] == 31
    assert imputer.transform(frame).shape == (24, 14)


def test_a_short_update_warns_with_advice(whole):
    """As a fit does."""
    imputer = proximal("1:5", **{**GIVEN, "max_iter": 2, "tol": 0}).fit(whole)
    imputer.set_params(method__tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        imputer.partial_fit([0], [0], [1])


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_merged_is_the_old_overwritten_by_the_new(seed):
    """As if both were written into one table, one after the other."""
    rng = np.random.default_rng(seed)
    tables = [np.where(rng.random(shape) < 0.5, rng.integers(1, 9, shape), 0) for shape in rng.integers(1, 6, (2, 2))]
    for table in tables:
        table[0, 0] = 4
    old, new = (Observations.from_coo(*np.nonzero(one), one[np.nonzero(one)], one.shape) for one in tables)
    both = np.zeros(np.maximum(*(one.shape for one in tables)))
    for one in tables:
        both[: one.shape[0], : one.shape[1]][one > 0] = one[one > 0]
    np.testing.assert_array_equal(merged(old, new).to_sparse().toarray(), both)


# -------------------------------------------------------------------- recommend
@pytest.mark.parametrize("params", [{}, {"center": "biases"}, {"decide": "nearest"}])
def test_recommend_is_the_best_of_what_is_not_observed(whole, params):
    """By brute force: the estimates of the row, without the observed columns, sorted."""
    imputer = proximal("1:5", **{**GIVEN, **params}).fit(whole)
    for row in range(24):
        open_ = np.flatnonzero(np.isnan(whole[row]))
        ranked = open_[np.argsort(-imputer.predict_mean(row, open_), kind="stable")]
        for k in (1, 3, 100):
            np.testing.assert_array_equal(imputer.recommend(row, k), ranked[:k])


def test_recommend_knows_later_cells_and_leaves_out_what_has_no_symbols(whole):
    """A cell that came later is observed too; a column of any numbers is no recommendation."""
    imputer = proximal("1:5", **GIVEN).fit(whole)
    best = int(imputer.recommend(0, 1)[0])
    assert best not in imputer.partial_fit([0], [best], [1]).recommend(0, 100)
    numbers = np.column_stack([whole[:, :5], np.where(np.arange(24) % 5 == 0, NAN, 1000.0 + np.arange(24))])
    several = si.SnapImputer([*["1:5"] * 4, [1, 2, 3, 4, 5], None], method=si.Proximal(lam=0.5, xi=0.0)).fit(numbers)
    assert 5 not in several.recommend(0, 100)


def test_recommend_gives_nothing_where_all_is_known(whole):
    """A row without a hole has no recommendation."""
    full = whole.copy()
    full[2] = 3
    assert proximal("1:5", **GIVEN).fit(full).recommend(2).size == 0


@pytest.mark.parametrize(
    ("row", "k", "message"),
    [
        (24, 1, "rows must be whole numbers between 0 and 23"),
        ([0, 1], 1, "row must be one position"),
        (0, 0, "k must be a whole number, at least 1, got 0"),
        (0, 1.5, "k must be a whole number"),
    ],
)
def test_recommend_refuses_what_makes_no_sense(whole, row: Any, k: Any, message):
    """Rows outside, many rows, no columns."""
    with pytest.raises(ValueError, match=message):
        proximal("1:5", **GIVEN).fit(whole).recommend(row, k)


def test_rows_of_a_table_are_taken_in():
    """A table alone is further rows; the first one is fitted; labels and names are those of the fit."""
    labels = ["low", "mid", "high"]
    X = pd.DataFrame([["low", "mid", "low"], ["high", "high", None], ["mid", None, "mid"], ["high", "high", "high"]])
    X.columns = ["a", "b", "c"]
    imp = SnapImputer(labels, method=Proximal(lam=0.3, xi=0.0, center="mean")).partial_fit(X)
    assert imp.left_.shape[0] == 4
    imp.partial_fit(X.iloc[:2])
    assert imp.left_.shape[0] == 6
    whole = pd.concat([X, X.iloc[:2]], ignore_index=True)
    again = SnapImputer(labels, method=Proximal(lam=0.3, xi=0.0, center="mean", tol=1e-9, max_iter=2000)).fit(whole)
    np.testing.assert_allclose(imp.predict_mean(5, [0, 1]), again.predict_mean(5, [0, 1]), atol=1e-2)
    with pytest.raises(ValueError, match="feature names"):
        imp.partial_fit(X.rename(columns={"a": "z"}))


def test_predict_takes_a_table():
    """All cells of any rows: what `fold_in` says of them, in the shape of the table."""
    X = np.array([[5, 4, np.nan, 1], [np.nan, 4, 1, 1], [1, np.nan, 5, 5], [1, 1, 5, np.nan]])
    imp = SnapImputer("1:5", method=Proximal(lam=0.5, xi=0.01)).fit(X)
    rows, cols = np.indices(X.shape).reshape(2, -1)
    said = imp.fold_in(X)
    np.testing.assert_array_equal(imp.predict(X).ravel(), said.symbols(rows, cols))
    np.testing.assert_array_equal(imp.predict_mean(X).ravel(), said.mean(rows, cols))
    assert imp.predict_proba(X).shape == (4, 4, 5)
    np.testing.assert_array_equal(imp.transform(X), np.where(np.isnan(X), imp.predict(X), X))


# -------------------------------------------------------------------- labels
NAMED = Observations.from_dense(
    [[5, 4, NAN, 1], [NAN, 4, 1, 1], [1, NAN, 5, 5], [1, 1, 5, NAN]],
    row_labels=["Ann", "Bob", "Cem", "Dia"],
    col_labels=[10, 20, 30, 40],
)
QUICK = {"lam": 1.0, "xi": 0.0, "center": "mean"}


def test_labels_survive_more_data(tmp_path):
    """Known labels stay, new rows and columns are named by their position, and files and predictions keep both."""
    imputer = proximal("1:5", **QUICK).fit(NAMED)
    imputer.partial_fit([3], [0], [5.0])
    assert imputer.row_labels_.tolist() == ["Ann", "Bob", "Cem", "Dia"]
    imputer.partial_fit([4, 5, 0], [0, 1, 4], [5.0, 1.0, 3.0])
    rows, cols = ["Ann", "Bob", "Cem", "Dia", "row 4", "row 5"], [10, 20, 30, 40, "column 4"]
    imputer.save(tmp_path / "m.snap")
    for one in (imputer, si.load(tmp_path / "m.snap")):
        assert one.row_labels_.tolist() == rows
        assert one.col_labels_.tolist() == cols
        at = one.row_labels_.tolist().index("row 4"), one.col_labels_.tolist().index(20)
        assert one.predict(*at) == imputer.predict(4, 1)


def test_new_labels_can_be_given():
    """They name the new rows and columns; a table of observations brings its own."""
    imputer = proximal("1:5", **QUICK).fit(NAMED)
    imputer.partial_fit([4], [4], [5.0], row_labels=["Eva"], col_labels=[50])
    assert imputer.row_labels_.tolist() == ["Ann", "Bob", "Cem", "Dia", "Eva"]
    assert imputer.col_labels_.tolist() == [10, 20, 30, 40, 50]
    assert imputer.col_labels_.dtype.kind == "i"
    more = Observations.from_dense([[1, 1, 5, NAN, 3]], row_labels=["Fay"])
    assert imputer.partial_fit(more).row_labels_[-1] == "Fay"


def test_labels_given_later_name_the_earlier_rows_by_position():
    """A model without labels gets some for all its rows when new ones have them, and has none before."""
    imputer = proximal("1:5", **QUICK).fit(NAMED.to_sparse())
    assert imputer.partial_fit([4], [0], [5.0]).row_labels_ is None
    imputer.partial_fit([5], [0], [5.0], row_labels=["Eva"])
    assert imputer.row_labels_.tolist() == ["row 0", "row 1", "row 2", "row 3", "row 4", "Eva"]
    assert imputer.col_labels_ is None


@pytest.mark.parametrize(
    ("labels", "given", "message"),
    [
        (["a", "b"], ["c", "d"], r"row_labels must hold 1 label\(s\), one for each new row, got \['c', 'd'\]"),
        (["a", "row 2"], None, "the label 'row 2' is taken, so a new row cannot have it: give row_labels="),
    ],
)
def test_labels_that_do_not_fit_are_refused_before_the_fit(labels, given, message):
    """One label for each new row, and none twice; the model stays as it was."""
    table = Observations.from_dense([[5, 4], [1, 5]], row_labels=labels)
    imputer = proximal("1:5", **QUICK).fit(table)
    with pytest.raises(ValueError, match=message):
        imputer.partial_fit([2], [0], [5.0], row_labels=given)
    assert imputer.left_.shape[0] == 2
    assert imputer.row_labels_.tolist() == labels
