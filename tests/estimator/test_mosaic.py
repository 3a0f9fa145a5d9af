"""The estimator with the mosaic behind it: the same table back, new rows, more cells, files, clear refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import snapimpute as si
from snapimpute.data.datasets import mosaic_genotypes

DATA = mosaic_genotypes((60, 40), founders=5, observed=0.7)
METHOD = si.Mosaic(order="given", strands=2, rounds=3, starts=1, classes=5)


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    """Known genotypes, NaN elsewhere."""
    X = np.full(DATA.truth.shape, np.nan)
    X[DATA.observations.rows, DATA.observations.cols] = DATA.observations.values
    return X


def test_tables_come_back_filled_with_symbols(table):
    """A frame keeps its labels, known cells and dtypes; missing ones get the most probable symbol."""
    frame = pd.DataFrame(table, columns=[f"rs{j}" for j in range(40)]).astype("Int64")
    imp = si.SnapImputer([0, 1, 2], method=METHOD).fit(frame)
    filled = imp.transform(frame)
    assert filled.columns.tolist() == frame.columns.tolist()
    assert (filled.dtypes == "Int64").all()
    known, found = ~np.isnan(table), filled.to_numpy(dtype=float)
    np.testing.assert_array_equal(found[known], table[known])
    rows, cols = np.nonzero(~known)
    p = imp.predict_proba(rows, cols)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(found[~known], p.argmax(axis=1))
    np.testing.assert_allclose(imp.predict_mean(rows, cols), p @ [0, 1, 2])  # the dosage
    assert np.mean(found[~known] == DATA.truth[~known]) > 0.8
    assert set(imp.history_) == {"start", "stage", "number", "seconds", "log_likelihood", "excess"}
    assert imp.n_iter_ == 18


def test_the_name_alone_is_enough(table):
    """method="mosaic" takes all defaults, and says what it chose."""
    told: list[object] = []
    imp = si.SnapImputer([0, 1, 2], method="mosaic", progress=told.append).fit(table)
    assert str(imp.diagnostics_).startswith("chosen: ")
    assert told
    assert "chosen: " in imp._html_repr()
    assert "steps" in imp._html_repr()


def test_new_rows_more_cells_and_scores(table):
    """Rows that were not fitted are filled, `score` hides cells of them, `partial_fit` goes on."""
    imp = si.SnapImputer([0, 1, 2], method=METHOD).fit(table[:45])
    filled = imp.transform(table[45:])
    assert not np.isnan(filled).any()
    assert imp.score(table[45:]) > 0.7
    assert set(imp.transform(np.full((2, 40), np.nan)).ravel()) <= {0, 1, 2}
    again = imp.partial_fit(table[45:])
    assert again.predict(50, 3) in (0, 1, 2)
    assert again.recommend(0, 3).size <= 3


def test_labels_frames_and_decisions(table):
    """Labels of alleles, polars, another loss, and cells that are too doubtful to fill."""
    names = np.array(["aa", "ab", "bb"], dtype=object)
    labels = [[None if np.isnan(one) else names[int(one)] for one in row] for row in table.tolist()]
    frame = pl.DataFrame(labels, schema=[f"rs{j}" for j in range(40)], orient="row")
    method = si.Mosaic(order="given", rounds=2, starts=1, classes=5)
    filled = si.complete(frame, ["aa", "ab", "bb"], method=method)
    assert isinstance(filled, pl.DataFrame)
    assert filled.null_count().to_numpy().sum() == 0
    doubtful = si.SnapImputer([0, 1, 2], method=METHOD, min_confidence=0.99, decide="mae").fit(table)
    assert np.isnan(doubtful.transform(table)).any()


def test_files_hold_the_mosaic(table, tmp_path):
    """A model comes back from its file with the same bits, and takes new rows."""
    imp = si.SnapImputer([0, 1, 2], method=METHOD).fit(table)
    imp.save(tmp_path / "model.snap")
    back = si.load(tmp_path / "model.snap")
    cells = np.arange(60), np.arange(60) % 40
    np.testing.assert_array_equal(back.predict_proba(*cells), imp.predict_proba(*cells))
    np.testing.assert_array_equal(back.transform(table[:5]), imp.transform(table[:5]))


def test_it_works_as_an_estimator(table):
    """Clones and pipelines; columns of plain numbers are left alone where that is asked for."""
    imp = clone(si.SnapImputer([0, 1, 2], method=METHOD))
    assert imp.get_params()["method"] == METHOD
    assert not np.isnan(make_pipeline(imp).fit_transform(table)).any()
    mixed = pd.DataFrame(table).rename(columns=str).assign(age=np.linspace(20, 60, 60))
    alphabet = {**{str(j): [0, 1, 2] for j in range(40)}, "age": None}
    one = si.SnapImputer(alphabet, method=si.Mosaic(strands=2, rounds=0, starts=1), continuous="passthrough")
    filled = one.fit_transform(mixed)
    np.testing.assert_array_equal(filled["age"], mixed["age"])
    assert not filled.isna().any().any()
    with pytest.raises(ValueError, match="the mosaic takes columns of symbols only"):
        si.SnapImputer(alphabet, method="mosaic").fit(mixed)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "mosaics"}, "method must be one of 'auto', 'posterior', 'mosaic', .* got 'mosaics'"),
        (
            {"method": "mosaic", "backend": "torch"},
            "backend='torch' belongs to the proximal expert, mosaic has no use",
        ),
        (
            {"method": "mosaic", "dtype": "float32"},
            "dtype='float32' belongs to the proximal expert, mosaic has no use",
        ),
    ],
)
def test_parameters_that_the_mosaic_does_not_use_are_refused(table, given, message):
    """The parameter is named, and nothing is computed."""
    with pytest.raises(ValueError, match=message):
        si.SnapImputer([0, 1, 2], **given).fit(table)


def test_features_are_refused(table):
    """The mosaic has no use for features of rows."""
    with pytest.raises(ValueError, match='row_features belong to method="posterior"'):
        si.SnapImputer([0, 1, 2], method=METHOD).fit(table, row_features=np.ones((60, 2)))


def test_evaluation_hides_cells_and_compares():
    """`evaluate` sets the mosaic beside baselines on hidden cells, and it beats those without a model."""
    found = si.evaluate(DATA.observations, si.SnapImputer([0, 1, 2], method=METHOD))
    exact = {way.label: way.exact for way in found.ways}
    assert "expected value, rounded" in exact
    assert exact["snapimpute"] > max(way.exact for way in found.ways if way.kind == "baseline") + 0.1
