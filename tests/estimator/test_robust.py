"""Any table is filled, and the same table with the same seed in the same way, on however many threads."""

from __future__ import annotations

import warnings
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import snapimpute as si
from tests.helpers import proximal

pytestmark = pytest.mark.slow

NAN = np.nan
STRENGTHS = st.fixed_dictionaries(
    {
        "lam": st.sampled_from([0.0, 0.1, 1.0, 1e3]),
        "xi": st.sampled_from([0.0, 0.01, 0.3]),
        "center": st.sampled_from([None, "mean", "rows", "columns", "biases"]),
        "decide": st.sampled_from(["accuracy", "mae", "rmse", "nearest"]),
    }
)
SCALES = (1e-9, 1e-3, 1.0, 1e6, 1e12)


@st.composite
def columns(draw: st.DrawFn, most_rows: int = 9, scales: tuple[float, ...] = SCALES) -> tuple[list[Any], np.ndarray]:
    """Columns with alphabets of any size and scale, or of any numbers; constant, empty, sparse, duplicated."""
    m, n = draw(st.integers(1, most_rows)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    one_for_all = draw(st.booleans())
    shared = sorted({float(a) for a in rng.integers(-5, 6, rng.integers(1, 6))})
    alphabets: list[Any] = []
    X = np.full((m, n), NAN)
    for j in range(n):
        scale = float(rng.choice(scales))
        levels = shared if one_for_all else [a * scale for a in sorted(set(rng.integers(-5, 6, 4).tolist()))]
        kind = draw(
            st.sampled_from(["levels", "constant", "empty", "levels", "numbers" if not one_for_all else "levels"])
        )
        X[:, j] = rng.choice(levels, m) if kind != "numbers" else scale * rng.standard_normal(m)
        if kind == "constant":
            X[:, j] = levels[0]
        if kind == "empty":
            X[:, j] = NAN
        alphabets.append(None if kind == "numbers" else list(map(float, levels)))
    X[rng.random((m, n)) < draw(st.sampled_from([0.0, 0.3, 0.8]))] = NAN
    if m > 1 and draw(st.booleans()):
        X[rng.integers(m)] = X[rng.integers(m)]
    if np.isnan(X).all():
        j = int(rng.integers(n))
        X[rng.integers(m), j] = 0.5 if alphabets[j] is None else alphabets[j][0]
    return (shared if one_for_all else alphabets), X


def check(alphabet: list[Any], X: np.ndarray, out: np.ndarray) -> None:
    """No missing cell, only symbols, what was observed unchanged."""
    missing = np.isnan(X)
    assert np.isfinite(out).all()
    np.testing.assert_array_equal(out[~missing], X[~missing])
    for j in range(X.shape[1]):
        symbols = alphabet[j] if isinstance(alphabet[0], list) or None in alphabet else alphabet
        if symbols is not None:
            assert set(out[missing[:, j], j].tolist()) <= set(symbols)


def quietly_fitted(alphabet: Any, X: np.ndarray, **params: Any) -> si.SnapImputer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # λ = 0 need not converge
        return proximal(alphabet, max_iter=60, **params).fit(X)


# -------------------------------------------------------------------- any table
@settings(max_examples=150)
@given(columns(), STRENGTHS)
def test_any_table_is_filled(case, params):
    """Missing, constant, empty, duplicated, huge and tiny: only symbols come out, in new rows as well."""
    alphabet, X = case
    before = X.copy()
    imputer = quietly_fitted(alphabet, X, **params)
    out = imputer.transform(X)
    check(alphabet, before, out)
    np.testing.assert_array_equal(X, before)
    check(alphabet, X[::-1], imputer.transform(X[::-1]))
    nothing = np.full((2, X.shape[1]), NAN)
    check(alphabet, nothing, imputer.transform(nothing))
    assert np.isfinite(imputer.predict_mean(*np.indices(X.shape))).all()


@settings(max_examples=8)
@given(columns(most_rows=14), st.sampled_from(["accuracy", "rmse"]))
def test_any_table_is_filled_with_tuned_strengths(case, decide):
    """The same with everything left to be chosen."""
    alphabet, X = case
    check(alphabet, X, quietly_fitted(alphabet, X, decide=decide).transform(X))


BLEND = ["habits", si.Proximal(lam=0.5, xi=0.01, max_iter=60), si.Posterior("low-rank", rank=2, sweeps=10)]


@settings(max_examples=60)
@given(columns(most_rows=25, scales=(1e-3, 1.0, 1e6)), st.sampled_from(["accuracy", "mae", "rmse", "nearest"]))
def test_any_table_is_filled_by_a_blend(case, decide):
    """The same with several experts, where there are cells enough to hold some out, and where there are not."""
    alphabet, X = case
    before = X.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        imputer = si.SnapImputer(alphabet, method=BLEND, decide=decide).fit(X)
    check(alphabet, before, imputer.transform(X))
    np.testing.assert_array_equal(X, before)
    check(alphabet, X[::-1], imputer.transform(X[::-1]))
    nothing = np.full((2, X.shape[1]), NAN)
    check(alphabet, nothing, imputer.transform(nothing))
    assert sum(imputer.blend_.values()) == pytest.approx(1)


@settings(max_examples=40)
@given(columns(scales=(1e-3, 1.0, 1e6)), STRENGTHS)
def test_inferred_alphabets_hold_what_was_seen(case, params):
    """With "infer" nothing comes out of a column with an alphabet that was not seen in the table."""
    _, X = case
    imputer = quietly_fitted("infer", X, **params)
    out = imputer.transform(X)
    assert np.isfinite(out).all()
    found = imputer.alphabet_ if isinstance(imputer.alphabet_, list) else [imputer.alphabet_] * X.shape[1]
    seen = set(X[~np.isnan(X)].tolist())
    for j, alphabet in enumerate(found):
        if alphabet is not None and not np.isnan(X[:, j]).all():
            assert set(out[:, j].tolist()) <= seen


@pytest.mark.parametrize("center", [None, "mean", "rows", "columns", "biases"])
def test_columns_with_one_level_or_none_survive(center):
    """A constant column is filled with its constant if that is its alphabet, an empty one with some symbol."""
    X = pd.DataFrame(
        {"a": [1.0, 2, NAN, 2, 1], "same": [7.0, NAN, 7, 7, NAN], "none": [NAN] * 5, "b": [1.0, 1, 2, NAN, 2]}
    )
    alphabet = {"a": [1, 2], "same": [7], "none": [3, 4], "b": [1, 2]}
    out = si.SnapImputer(alphabet, method=si.Proximal(lam=0.1, xi=0.01, center=center)).fit_transform(X)
    assert out["same"].tolist() == [7.0] * 5
    assert set(out["none"]) <= {3.0, 4.0}
    assert not out.isna().any().any()


# -------------------------------------------------------------------- the same every time
@pytest.fixture(scope="module")
def X() -> np.ndarray:  # noqa: N802  a matrix
    data = si.datasets.low_rank_alphabet((300, 200), rank=4, alphabet="1:5", kind="blocks", observed=0.3)
    whole = np.full(data.shape, NAN)
    whole[data.observations.rows, data.observations.cols] = data.observations.values
    whole[17], whole[:, 5] = NAN, NAN
    return whole


PARAMS = {"lam": 3.0, "xi": 0.02, "center": "biases", "tol": 1e-3}


def fitted(X: np.ndarray, **params: Any) -> tuple[np.ndarray, ...]:
    """All that a fit gives."""
    imputer = proximal("1:5", **PARAMS | params).fit(X)
    cells = np.ix_(range(20), range(20))
    return (
        imputer.transform(X),
        imputer.left_,
        imputer.right_,
        imputer.predict_proba(*cells),
        imputer.predict_mean(*cells),
    )


def test_same_seed_same_bits(X):
    """Twice the same call gives the same bits; another seed calibrates on other cells."""
    one, two, other = fitted(X), fitted(X), fitted(X, random_state=1)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one[3], other[3])


def test_threads_do_not_matter(monkeypatch, tmp_path, X):
    """On one thread and on two: the same symbols and factors, after saving and loading too."""
    found = {}
    for threads in ("1", "2"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", threads)
        found[threads] = fitted(X)
        proximal("1:5", **PARAMS).fit(X).save(tmp_path / threads)
    np.testing.assert_array_equal(found["1"][0], found["2"][0])
    for a, b in zip(found["1"][1:], found["2"][1:], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    np.testing.assert_array_equal(si.load(tmp_path / "1").transform(X), si.load(tmp_path / "2").transform(X))
    np.testing.assert_array_equal(si.load(tmp_path / "1").transform(X), found["1"][0])


@pytest.mark.slow
def test_processes_do_not_matter(X):
    """Fits in joblib's processes are the one in this process."""
    here = fitted(X)
    for there in joblib.Parallel(2)(joblib.delayed(fitted)(X) for _ in range(2)):
        np.testing.assert_array_equal(there[0], here[0])
        for a, b in zip(there[1:], here[1:], strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)
