"""SnapImputer among scikit-learn's own: its checks, pipelines, searches, columns, frames and copies."""

from __future__ import annotations

import pickle
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import snapimpute as si
from snapimpute import Proximal, SnapImputer
from tests.helpers import proximal

pytestmark = pytest.mark.slow

NAN = np.nan
GIVEN = {"lam": 0.5, "xi": 0.01}

ROWS = "predict gives a symbol for each cell of a row, and the check expects one number for a row"
EXCUSED = {
    "check_estimator_sparse_array": ROWS,
    "check_estimator_sparse_matrix": ROWS,
    "check_fit_score_takes_y": "partial_fit takes rows, cols and values, as others already call it",
}
"""Checks that SnapImputer fails, with the reason; `Filler` passes all of them."""


def _hidden(name: str) -> Any:
    def none(_: object) -> None:
        raise AttributeError(name)

    return property(none)


class Filler(SnapImputer):
    """The same without the methods that take cells, so that the checks look at the rest."""

    predict, predict_proba, partial_fit = map(_hidden, ("predict", "predict_proba", "partial_fit"))


SINGLE = "the posterior computes in single precision, whose last digit depends on the other cells that are asked for"
BLENDED = EXCUSED | dict.fromkeys(
    ("check_methods_sample_order_invariance", "check_methods_subset_invariance"), SINGLE
)
"""The same for the default method, which takes some two minutes: it makes some forty blends."""


def excused(estimator: SnapImputer) -> dict[str, str]:
    if isinstance(estimator, Filler):
        return {}
    return BLENDED if estimator.method == "auto" else EXCUSED


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        proximal("infer", **GIVEN),
        SnapImputer("infer", method="proximal"),
        SnapImputer("infer"),
        Filler("infer", method=Proximal(**GIVEN)),
    ],
    expected_failed_checks=excused,
)
def test_scikit_learn_checks(estimator, check):
    """Every check of scikit-learn passes, but for those excused above."""
    check(estimator)


def test_what_is_excused_does_fail():
    """No check is excused that would pass."""
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(proximal("infer", **GIVEN), on_fail=None, on_skip=None)
    assert {one["check_name"] for one in found if one["status"] == "failed"} == set(EXCUSED)


@pytest.fixture(scope="module")
def answers() -> tuple[np.ndarray, np.ndarray]:
    """Answers of low rank from 1 to 5 with holes, and a class that the whole answers tell."""
    rng = np.random.default_rng(3)
    person, question = rng.standard_normal((60, 2)), rng.standard_normal((2, 10))
    whole = np.clip(np.round(3 + 1.2 * person @ question), 1, 5)
    return np.where(rng.random(whole.shape) < 0.3, NAN, whole), (person[:, 0] > 0).astype(int)


# -------------------------------------------------------------------- among others
def test_a_pipeline_is_scored_on_rows_that_the_fit_has_not_seen(answers):
    """Imputer and classifier together, in cross-validation."""
    X, y = answers
    pipeline = make_pipeline(proximal("1:5", **GIVEN), LogisticRegression(max_iter=500))
    scores = cross_val_score(pipeline, X, y, cv=4, error_score="raise")
    assert scores.mean() > 0.75
    assert pipeline.fit(X, y)[:-1].get_feature_names_out().tolist() == [f"x{j}" for j in range(10)]


def test_a_column_transformer_gives_each_part_its_own_alphabet(answers):
    """Some columns of a frame are ratings, others labels; each part comes back filled."""
    X, _ = answers
    frame = pd.DataFrame(X, columns=[f"q{j}" for j in range(10)])
    labels = pd.DataFrame(
        {f"l{j}": frame[f"q{j}"].map({1: "lo", 2: "lo", 3: "lo", 4: "hi", 5: "hi"}) for j in range(4)}
    )
    both = pd.concat([frame, labels], axis=1)
    columns = ColumnTransformer(
        [
            ("numbers", proximal("1:5", **GIVEN), list(frame.columns)),
            ("labels", proximal(["lo", "hi"], **GIVEN), list(labels.columns)),
        ],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    out = columns.fit_transform(both)
    assert list(out.columns) == list(both.columns)
    assert not out.isna().any().any()
    assert set(out["l0"]) <= {"lo", "hi"}
    pd.testing.assert_frame_equal(out.where(both.notna()), both, check_dtype=False)
    pd.testing.assert_frame_equal(columns.transform(both[:7]), out[:7])


def test_a_grid_search_chooses_lam_by_the_score_of_the_estimator(answers):
    """GridSearchCV takes λ by `score`, which is the share of hidden cells that come back right."""
    X, _ = answers
    search = GridSearchCV(
        SnapImputer("1:5", method=Proximal(xi=0.0, center="mean")),
        {"method__lam": [0.5, 1e4]},
        cv=3,
        error_score="raise",
    )
    search.fit(X)
    assert search.best_params_ == {"method__lam": 0.5}  # the other one leaves nothing but the mean
    assert 0.3 < search.best_score_ <= 1
    assert search.score(X) == search.best_estimator_.score(X)


@pytest.mark.parametrize(("decide", "low", "high"), [("accuracy", 0, 1), ("mae", -4, 0), ("rmse", -4, 0)])
def test_score_is_of_cells_that_were_hidden(answers, decide, low, high):
    """Higher is better, the same every time, and by the loss that ``decide`` names; one cell cannot be scored."""
    X, _ = answers
    imputer = proximal("1:5", decide=decide, **GIVEN).fit(X)
    rows, cols = np.nonzero(~np.isnan(X))
    order = np.random.default_rng(0).permutation(rows.size)
    hidden = order[: round(0.2 * rows.size)]
    left = X.copy()
    left[rows[hidden], cols[hidden]] = NAN
    off = imputer.transform(left)[rows[hidden], cols[hidden]] - X[rows[hidden], cols[hidden]]
    expected = {"accuracy": np.mean(off == 0), "mae": -np.mean(np.abs(off)), "rmse": -np.sqrt(np.mean(off**2))}[
        decide
    ]
    assert imputer.score(X) == pytest.approx(expected) == imputer.score(X)
    assert low <= expected <= high
    with pytest.raises(ValueError, match="cannot be scored"):
        imputer.score(np.where(np.arange(10) == 0, 1.0, NAN)[None])


# -------------------------------------------------------------------- frames, names, copies
@pytest.mark.parametrize(("kind", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output_gives_frames_with_names(answers, kind, frame):
    """An array becomes a frame with names, a frame keeps its own; the values are the same."""
    X, _ = answers
    expected = proximal("1:5", **GIVEN).fit_transform(X)
    imputer = proximal("1:5", **GIVEN).set_output(transform=kind)
    out = imputer.fit_transform(X)
    assert isinstance(out, frame)
    assert list(out.columns) == imputer.get_feature_names_out().tolist() == [f"x{j}" for j in range(10)]
    np.testing.assert_array_equal(out.to_numpy(), expected)
    given = pd.DataFrame(X, columns=[f"q{j}" for j in range(10)])
    named = imputer.fit(given).transform(given)
    assert isinstance(named, frame)
    assert list(named.columns) == list(given.columns) == imputer.get_feature_names_out().tolist()


def test_clone_has_the_parameters_and_nothing_of_the_fit(answers):
    """A clone of a fitted imputer is not fitted, and fits to the same."""
    X, _ = answers
    imputer = SnapImputer(
        "1:5", method=Proximal(spectral=si.LogSum(1.0, 1.0), xi=0.01, solver=si.solvers.NIAPG())
    ).fit(X)
    copy = clone(imputer)
    assert not hasattr(copy, "left_")
    np.testing.assert_array_equal(copy.fit(X).left_, imputer.left_)


@pytest.mark.parametrize("alphabet", ["1:5", {0: "1:5", 1: "1:6", **dict.fromkeys(range(2, 10), "1:5")}])
def test_pickle_and_joblib_keep_everything(tmp_path, answers, alphabet):
    """A fitted imputer survives both, probabilities and further data included."""
    X, _ = answers
    imputer = proximal(alphabet, **GIVEN).fit(X)
    joblib.dump(imputer, tmp_path / "imputer.joblib")
    for copy in (pickle.loads(pickle.dumps(imputer)), joblib.load(tmp_path / "imputer.joblib")):  # noqa: S301  our own
        np.testing.assert_array_equal(copy.transform(X), imputer.transform(X))
        np.testing.assert_array_equal(copy.predict_proba(3, [0, 2]), imputer.predict_proba(3, [0, 2]))
        copy.partial_fit([0], [0], [5])
        assert copy.predict(0, 0).shape == ()


def _filled(X: np.ndarray, params: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    imputer = proximal("1:5", **params).fit(X)
    return imputer.transform(X), imputer.left_


@pytest.mark.slow
def test_processes_give_the_same_symbols(answers):
    """Fits in joblib's processes are those of this one, tuned or not."""
    X, _ = answers
    jobs = [GIVEN, {"center": "mean", "xi": 0.01}]
    for params, (symbols, left) in zip(
        jobs, joblib.Parallel(2)(joblib.delayed(_filled)(X, p) for p in jobs), strict=True
    ):
        here = _filled(X, params)
        np.testing.assert_array_equal(symbols, here[0])
        np.testing.assert_allclose(left, here[1], atol=1e-9)
