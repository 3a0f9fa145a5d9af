"""SnapImputer: only symbols come out, what was observed stays, and scikit-learn's conventions hold."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
import warnings
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

import snapimpute as si
from snapimpute import Alphabet, Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import SparseTable, read_table
from snapimpute.estimator.model import Decision, Predictions
from snapimpute.experts.proximal import fitting
from snapimpute.experts.proximal import tuned as tuned_spec
from snapimpute.experts.proximal.calibration import SymbolRule
from snapimpute.experts.proximal.model import LowRankPredictions
from snapimpute.experts.proximal.offsets import best_damping, offsets
from snapimpute.experts.proximal.spec import DISCRETE_BY_XI, SPECTRAL_BY_LAM, ModelSpec
from snapimpute.experts.proximal.tuning import Search, choose
from snapimpute.linalg import LowRank
from snapimpute.solvers import APG, NIAPG, SOLVERS, SVT, AISImpute, AltMin, FitOptions, SoftImpute
from tests.helpers import complete, proximal

NAN = np.nan
GIVEN = {"lam": 0.8, "xi": 0.02, "center": "mean"}
"""Nothing to tune: fast."""


def dense(data: si.datasets.Synthetic) -> np.ndarray:
    """What was observed, NaN elsewhere."""
    X = np.full(data.shape, NAN)
    X[data.observations.rows, data.observations.cols] = data.observations.values
    return X


@pytest.fixture(scope="module")
def blocks() -> si.datasets.Synthetic:
    return si.datasets.low_rank_alphabet((40, 30), rank=3, alphabet="1:5", kind="blocks", observed=0.5)


@pytest.fixture(scope="module")
def X(blocks) -> np.ndarray:  # noqa: N802  a matrix
    return dense(blocks)


def nearest(estimate: LowRank, alphabet: str) -> Predictions:
    """What a model with these estimates says that takes the nearest symbol."""
    m, n = estimate.shape
    symbols = Alphabet.of(alphabet)
    one = Observations.from_coo([m - 1], [n - 1], symbols.symbols[:1], (m, n))
    schema = ColumnSchema.single(symbols, n)
    rule = SymbolRule.fit(schema, "nearest", one, [])
    return Predictions(LowRankPredictions(estimate, rule, rule.of_rows(one)), schema, Decision("nearest"))


def check_filled(given: np.ndarray, out: np.ndarray, alphabet: Alphabet) -> None:
    """Only symbols where a cell was missing; the very same values elsewhere."""
    missing = np.isnan(given)
    assert out.shape == given.shape
    assert set(out[missing].tolist()) <= set(alphabet)
    np.testing.assert_array_equal(out[~missing], given[~missing])


# -------------------------------------------------------------------- does it work
@pytest.mark.slow
@pytest.mark.parametrize(("alphabet", "center"), [("0,1", "auto"), ("1:5", "auto"), ("-2,0,0.5,7", "mean")])
def test_recovers_hidden_cells_of_a_block_model(alphabet, center):
    """With λ and ξ chosen on held-out cells, more than 95 % of the hidden cells come back right."""
    data = si.datasets.low_rank_alphabet((36, 30), rank=3, alphabet=alphabet, kind="blocks", observed=0.5)
    given = dense(data)
    imputer = si.SnapImputer(alphabet, method=si.Proximal(center=center))
    out = imputer.fit_transform(given)
    hidden = np.isnan(given)
    assert np.mean(out[hidden] == data.to_dense()[hidden]) > 0.95
    assert imputer.status_.converged
    check_filled(given, out, data.alphabet)


LAMS = {"nuclear": 0.5, "lsp": 9.0, "capped-l1": 6.0, "tnn": 0.5, "mcp": 6.0, "scad": 4.0, "rank": 70.0}


CENTERS = (None, "mean", "biases")
NAMES = [
    *((spectral, "l1", CENTERS[i % 3]) for i, spectral in enumerate(SPECTRAL_BY_LAM)),
    *(("nuclear", discrete, CENTERS[j % 3]) for j, discrete in enumerate([*DISCRETE_BY_XI, "ridge", None])),
    ("rank", "l0", "mean"),
]
"""Each penalty and each centre, and two penalties that jump."""


@pytest.mark.slow
@pytest.mark.parametrize(("spectral", "discrete", "center"), NAMES)
def test_every_name_fits(blocks, X, spectral, discrete, center):
    """Every penalty and every centre gives a table of symbols that is mostly right.

    But for two that jump, at strengths that were set for one: they may stop at the first stationary point.
    """
    lam, xi = LAMS[spectral], "auto" if discrete is None else 0.001 if discrete == "l2" else 0.01
    imputer = si.SnapImputer(
        "1:5",
        method=si.Proximal(
            spectral=spectral, discrete=discrete, center=center, lam=lam, xi=xi, tol=1e-3, max_iter=1000
        ),
    )
    out = imputer.fit_transform(X)
    check_filled(X, out, imputer.alphabet_)
    both_jump = spectral in ("rank", "capped-l1") and discrete in ("l0", "l0-fractional", "lp")
    assert np.mean(out == blocks.to_dense()) > (0.6 if both_jump else 0.9)
    assert (imputer.center_, imputer.lam_, imputer.xi_) == (center, lam, 0.0 if discrete is None else xi)


ALPHABETS = st.sampled_from([[0, 1], [-1, 1], [1, 2, 3, 4, 5], [0, 0.5, 3], [-10, 0.25, 1, 100], [7]])


@st.composite
def hard_tables(draw: st.DrawFn) -> tuple[list[float], np.ndarray]:
    """Tables with holes, constant and empty columns and rows, and duplicated rows; one value at least."""
    symbols = draw(ALPHABETS)
    m, n = draw(st.integers(1, 7)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = rng.choice(np.array(symbols, dtype=float), size=(m, n))
    table[rng.random((m, n)) < draw(st.sampled_from([0.0, 0.3, 0.7, 0.95]))] = NAN
    if draw(st.booleans()):
        table[:, rng.integers(n)] = rng.choice(symbols)
    if draw(st.booleans()):
        table[rng.integers(m)] = table[rng.integers(m)]
    if draw(st.booleans()):
        table[:, rng.integers(n)] = NAN
    if draw(st.booleans()):
        table[rng.integers(m)] = NAN
    if np.isnan(table).all():
        table[rng.integers(m), rng.integers(n)] = rng.choice(symbols)
    return symbols, table


@pytest.mark.slow
@settings(max_examples=60)
@given(
    hard_tables(), st.sampled_from([{}, {"center": "biases", "lam": 0.3}, {"lam": 0.0, "xi": 0.1, "center": None}])
)
def test_any_table_is_filled_with_symbols_and_otherwise_untouched(case, params):
    """Whatever the table, missing cells become symbols and observed cells stay, tuned or not."""
    symbols, table = case
    before = table.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # λ = 0 need not converge
        imputer = proximal(symbols, max_iter=60, **params).fit(table)
    out = imputer.transform(table)
    check_filled(before, out, Alphabet.of(symbols))
    np.testing.assert_array_equal(table, before)
    rows, cols = np.indices(table.shape)
    assert set(imputer.predict(rows, cols).ravel().tolist()) <= set(imputer.alphabet_)


# -------------------------------------------------------------------- kinds
@pytest.mark.slow
def test_every_kind_of_table_gets_the_same_symbols(X):
    """Numpy, masked, sparse, pandas, polars and Arrow: one table, one answer, each in its own kind.

    Labels choose the cells to calibrate on: tables with the same ones have the same probabilities.
    """
    names = [f"q{j}" for j in range(X.shape[1])]
    rows, cols = np.nonzero(~np.isnan(X))
    frame = pd.DataFrame(X, columns=names, index=np.arange(len(X)) + 100)
    kinds: dict[Any, Any] = {
        np.ndarray: np.ma.masked_array(np.nan_to_num(X, nan=-9).astype(np.int16), np.isnan(X)),
        pd.DataFrame: frame.astype("Int8"),
        pl.DataFrame: pl.from_pandas(frame.astype("Int64")),
        pa.Table: pa.Table.from_pandas(frame, preserve_index=False),
    }
    given = {**GIVEN, "decide": "nearest"}
    expected = complete(X, "1:5", **given)
    assert expected.dtype == X.dtype
    for kind, table in kinds.items():
        out = complete(table, "1:5", **given)
        assert type(out) is kind
        out = out.to_pandas() if kind in (pl.DataFrame, pa.Table) else out
        np.testing.assert_array_equal(np.asarray(out, dtype=float), expected)
    out = complete(frame.astype("Int8"), "1:5", **given)
    assert (out.dtypes == "Int8").all()
    assert out.index.equals(frame.index)
    sparse = sp.coo_array((X[rows, cols], (rows, cols)), shape=X.shape)
    out = complete(sparse, "1:5", **given)
    assert out.dtype == np.int8
    np.testing.assert_array_equal(out, expected)
    named = [frame.reset_index(drop=True), kinds[pl.DataFrame], kinds[pa.Table]]
    for same in ([X, kinds[np.ndarray], sparse, pd.DataFrame(X)], named):
        one, *others = (proximal("1:5", **GIVEN).fit(table).predict_proba(*np.indices(X.shape)) for table in same)
        for other in others:
            np.testing.assert_array_equal(other, one)


def test_a_sparse_table_too_large_to_fill_is_refused_before_the_fit(monkeypatch, X):
    """fit_transform says at once that the result would be too large; fit and predict work."""
    monkeypatch.setattr(SparseTable, "max_cells", 1000)
    rows, cols = np.nonzero(~np.isnan(X))
    table = sp.csr_array((X[rows, cols], (rows, cols)), shape=X.shape)
    imputer = proximal("1:5", **GIVEN)
    with pytest.raises(ValueError, match=r"predict\(rows, cols\)"):
        imputer.fit_transform(table)
    assert not hasattr(imputer, "left_")
    assert imputer.fit(table).predict(0, 0) in imputer.alphabet_.symbols
    with pytest.raises(ValueError, match=r"predict\(rows, cols\)"):
        imputer.transform(table)


@pytest.mark.slow
def test_filling_never_builds_a_second_table():
    """Symbols for a 2000×2000 table are made with a few megabytes, from factors of any rank."""
    rng = np.random.default_rng(0)
    estimate = LowRank(rng.standard_normal((2000, 20)), np.ones(20), rng.standard_normal((2000, 20)))
    symbols = nearest(estimate, "-1,1").symbols
    for table, beside in (
        (np.full((2000, 2000), NAN, dtype=np.float32), 12e6),
        (pl.DataFrame({str(j): pl.Series([None] * 2000, dtype=pl.Int8) for j in range(500)}), 12e6),
    ):
        read = read_table(table, "-1,1")
        read.filled(symbols)  # compile first
        tracemalloc.start()
        out = read.filled(symbols)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < (out.nbytes if isinstance(out, np.ndarray) else 0) + beside


# -------------------------------------------------------------------- predictions
def test_predict_is_what_is_filled_in(X):
    """predict speaks of the fit, transform folds its rows in again: after a fit that converged they agree."""
    imputer = proximal("1:5", tol=1e-9, max_iter=5000, **GIVEN).fit(X)
    rows, cols = np.nonzero(np.isnan(X))
    np.testing.assert_array_equal(imputer.predict(rows, cols), imputer.transform(X)[rows, cols])
    np.testing.assert_array_equal(imputer.transform(X), imputer.transform(pd.DataFrame(X)).to_numpy())


def test_symbols_and_estimates_are_the_same_bits(blocks):
    """A tie between two symbols is broken alike by predict, by rows and by columns."""
    rng = np.random.default_rng(1)
    estimate = LowRank(rng.standard_normal((9, 5))[:, ::2], np.array([3.0, 0.7, 0.1]), rng.standard_normal((8, 3)))
    rows, cols = (index.ravel() for index in np.indices((9, 8)))
    estimates = nearest(estimate, "0,1")
    exact = estimate.entries(rows, cols)
    for part in (slice(None), rows == 4, cols == 2, rows + cols == 3):
        np.testing.assert_array_equal(estimates.mean(rows[part], cols[part]), exact[part])
        np.testing.assert_array_equal(estimates.symbols(rows[part], cols[part]), (exact[part] >= 0.5).astype(float))


@pytest.mark.parametrize("center", [None, "mean", "biases"])
def test_predict_mean_is_factors_plus_offsets(X, center):
    """The estimate is the low-rank matrix plus what was subtracted, and predict its nearest symbol if asked for."""
    imputer = si.SnapImputer("1:5", method=si.Proximal(lam=1.0, xi=0.01, center=center), decide="nearest").fit(X)
    whole = imputer.left_ @ np.diag(imputer.singular_values_) @ imputer.right_.T
    np.testing.assert_allclose(imputer.predict_mean(*np.indices(X.shape)), whole + imputer.offsets_.to_dense())
    if center is not None:
        whole = whole + offsets(Observations.from_dense(X), center, imputer.damping_).to_dense()
    cells = np.indices(X.shape)
    np.testing.assert_allclose(imputer.predict_mean(*cells), whole, atol=1e-10)
    np.testing.assert_array_equal(imputer.predict(*cells), imputer.alphabet_.snap(imputer.predict_mean(*cells)))
    assert imputer.predict(3, np.arange(5)).shape == (5,)
    assert imputer.predict(3, 4).shape == ()


def test_predict_refuses_cells_outside(X):
    """Positions outside the table are refused, also negative ones."""
    imputer = proximal("1:5", **GIVEN).fit(X)
    for rows, cols in (([40], [0]), ([-1], [0]), ([0.5], [0])):
        with pytest.raises(ValueError, match="rows must be whole numbers between 0 and 39"):
            imputer.predict(rows, cols)
    with pytest.raises(ValueError, match="cols must be whole numbers between 0 and 29"):
        imputer.predict_mean([0], [30])


def test_cold_rows_and_columns_get_the_centre(X):
    """A row or column without any observation is filled with what the centre says, never with 0 or NaN."""
    cold = X.copy()
    cold[5], cold[:, 7] = NAN, NAN
    imputer = si.SnapImputer("1:5", method=si.Proximal(lam=1.0, xi=0.0, center="mean"), decide="nearest").fit(cold)
    mean = np.nanmean(cold)
    np.testing.assert_allclose(imputer.predict_mean(5, np.arange(30)), mean, atol=1e-8)
    np.testing.assert_array_equal(imputer.transform(cold)[:, 7], imputer.alphabet_.snap(np.full(40, mean)))


# -------------------------------------------------------------------- transform
def test_transform_keeps_the_cells_it_is_given(X):
    """Observed cells of the table given are kept; each row is filled by its own cells, whatever the others are."""
    imputer = proximal("1:5", **GIVEN).fit(X)
    rng = np.random.default_rng(0)
    other = np.where(rng.random((50, 30)) < 0.5, NAN, rng.integers(1, 6, (50, 30)))
    out = imputer.transform(other)
    check_filled(other, out, imputer.alphabet_)
    np.testing.assert_array_equal(imputer.transform(other[7:9]), out[7:9])
    np.testing.assert_array_equal(imputer.transform(X), proximal("1:5", **GIVEN).fit_transform(X))


def test_transform_predicts_rows_it_has_not_seen(blocks, X):
    """Rows that were not part of the fit are completed about as well as those that were."""
    imputer = proximal("1:5", **GIVEN).fit(X[:30])
    out, truth, missing = imputer.transform(X), blocks.to_dense(), np.isnan(X)
    assert np.mean(out[30:][missing[30:]] == truth[30:][missing[30:]]) > 0.9


def test_transform_refuses_other_columns_and_takes_any_rows(X):
    """Another number of columns, other names, other symbols: each error says what was expected. Rows may be any."""
    frame = pd.DataFrame(X, columns=[f"q{j}" for j in range(30)], index=[f"r{i}" for i in range(40)])
    imputer = proximal("1:5", **GIVEN).fit(frame)
    with pytest.raises(ValueError, match="X has 29 features, but SnapImputer is expecting 30"):
        proximal("1:5", **GIVEN).fit(X).transform(X[:, 1:])
    with pytest.raises(ValueError, match="feature names should match"):
        imputer.transform(frame.rename(columns={"q0": "p0"}))
    with pytest.raises(ValueError, match=r"1 value\(s\) not in .*row 'r3', column 'q2'"):
        imputer.transform(frame.mask((frame.index == "r3")[:, None] & (frame.columns == "q2"), 8))
    with pytest.raises(ValueError, match=r"two-dimensional table, got 1 dimension\(s\)\. Reshape your data"):
        imputer.transform(X[0])
    whole = imputer.transform(frame)
    pd.testing.assert_frame_equal(imputer.transform(frame[:12]), whole[:12])
    pd.testing.assert_frame_equal(imputer.transform(frame[::-1]), whole[::-1])


def test_an_inferred_alphabet_is_that_of_the_fit(X):
    """Rows that come later are not looked at for symbols: others than those of the fit are refused."""
    imputer = proximal("infer", **GIVEN).fit(X)
    assert imputer.alphabet_ == Alphabet.of("1:5")
    with pytest.raises(ValueError, match=r"not in Alphabet\(\[1, 2, 3, 4, 5\]\), the first is 6"):
        imputer.transform(np.where(np.arange(30) < 20, 6.0, NAN)[None])


@pytest.mark.parametrize("odd", [NAN, pd.NA, pd.NaT, None, (1, NAN)])
def test_an_odd_index_stays_as_it_is(X, odd):
    """Labels that are not equal to themselves, or stand twice, come back."""
    frame = pd.DataFrame(X, index=pd.Index([odd, odd, *range(2, 40)], dtype=object))
    imputer = proximal("1:5", **GIVEN).fit(frame)
    assert imputer.transform(frame.copy()).index.equals(frame.index)


def test_an_unfitted_imputer_says_so(X):
    """Every method that needs a fit asks for it, also after a fit that failed."""
    imputer = si.SnapImputer("1:3", method="proximal")
    with pytest.raises(ValueError, match="not in Alphabet"):
        imputer.fit(X)
    for call in (lambda: imputer.transform(X), lambda: imputer.predict(0, 0), lambda: imputer.predict_mean(0, 0)):
        with pytest.raises(NotFittedError):
            call()


# -------------------------------------------------------------------- tuning
def test_nothing_is_tuned_when_everything_is_given(monkeypatch, X):
    """With λ, ξ and the centre given nothing is searched for; without calibration no cell is held out either."""

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("tuned")

    monkeypatch.setattr(tuned_spec, "Search", fail)
    imputer = proximal("1:5", **GIVEN).fit(X)
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "Search", fail)
        assert proximal("1:5", decide="nearest", **GIVEN).fit(X).choice_ is None
        with pytest.raises(AssertionError, match="tuned"):
            proximal("1:5", **GIVEN).fit(X)
    assert imputer.choice_ is None
    si.SnapImputer("1:5", method=si.Proximal(spectral=si.Nuclear(1.0), discrete=None, center=None)).fit(X)
    for open_one in GIVEN:
        with pytest.raises(AssertionError, match="tuned"):
            proximal("1:5", **{**GIVEN, open_one: "auto"}).fit(X)


def coarse(limits: dict[str, Any]) -> dict[str, Any]:
    """Options of the fits on the way of an imputer with these limits."""
    return asdict(FitOptions(alphabet_term="auto", **limits).coarse())


def test_auto_chooses_on_held_out_cells_and_fits_everything_again(X):
    """The word "auto" gives what `choose` gives, and then the fit that these values give when passed."""
    X, limits = X[:20, :16], {"max_iter": 5000, "tol": 1e-9, "random_state": 3}
    observations, alphabet = Observations.from_dense(X), Alphabet.of("1:5")
    imputer = proximal("1:5", center="biases", **limits).fit(X)
    damping = best_damping(observations, "biases", random_state=3)
    choice = choose(
        observations,
        ModelSpec(alphabet, center="biases", damping=damping),
        **coarse(limits),
    )
    assert imputer.choice_ == choice
    assert imputer.verdict_ == choice.verdict
    assert imputer.damping_ == damping
    assert (imputer.lam_, imputer.xi_, imputer.center_) == (choice.lam, choice.xi, "biases")
    assert 0.0 in {candidate.xi for candidate in choice.tried}
    again = proximal("1:5", lam=imputer.lam_, xi=imputer.xi_, center="biases", **limits).fit(X)
    np.testing.assert_allclose(again.singular_values_, imputer.singular_values_, rtol=1e-4)
    cells = np.indices(X.shape)
    np.testing.assert_allclose(again.predict_mean(*cells), imputer.predict_mean(*cells), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("xi", "first"), [("auto", 0.0), (0.05, 0.05)])
@pytest.mark.parametrize("biased", [False, True])
def test_auto_centre_is_the_one_that_predicts_held_out_cells_better(monkeypatch, xi, first, biased):
    """Both centres are tried, with ξ = 0 if it is open, and the better one is kept: biases where there are some."""
    rng = np.random.default_rng(6)
    rows, cols = rng.normal(size=(40, 1)), rng.normal(size=30)
    truth = rows + cols if biased else np.sign(rows * cols)
    observations = Observations.from_dense(
        np.where(rng.random((40, 30)) < 0.6, NAN, np.clip(np.round(3 + truth), 1, 5))
    )
    alphabet, limits = Alphabet.of("1:5"), {"max_iter": 100, "tol": 1e-3, "random_state": 0}
    scores = {}
    for center in ("mean", "biases"):
        spec = ModelSpec(alphabet, center=center, damping=best_damping(observations, center))
        scores[center] = min(c.score for c in choose(observations, spec, xi=first, **coarse(limits)).tried)
    walked = []

    class Noting(Search):
        def _walk(self, lams, xi, *more):
            walked.append((self.spec.center, xi))
            return super()._walk(lams, xi, *more)

    monkeypatch.setattr(tuned_spec, "Search", Noting)
    settled = tuned_spec.tune(observations, alphabet, xi=xi, options=FitOptions(**limits))
    assert walked[:2] == [("mean", first), ("biases", first)]
    assert {center for center, _ in walked[2:]} == {settled.spec.center}
    assert {tried for _, tried in walked[2:]} == {c.xi for c in settled.choice.tried}
    assert settled.spec.center == min(scores, key=lambda center: scores[center])
    assert settled.spec.center == ("biases" if biased else "mean")
    if xi == "auto":
        assert {c.xi for c in settled.choice.tried} > {0.0}
    else:
        assert min(c.score for c in settled.choice.tried) == scores[settled.spec.center]
        assert settled.xi == xi


@pytest.mark.parametrize(
    "table",
    [
        [[1, 5], [1, None]],
        [[1, 5, None, 3, None]],
        [[4]],
        [[None, None], [3, None]],
        np.where(np.arange(40) % 3 == 0, NAN, 1 + np.arange(40) % 5)[None, :],
        np.where(np.arange(40) % 3 == 0, NAN, 1 + np.arange(40) % 5)[:, None],
    ],
)
def test_tables_too_small_to_tune_are_filled_nevertheless(table):
    """With few cells or one line nothing is held out: the mean, ξ = 0, a small λ."""
    given = np.array(table, dtype=float)
    imputer = si.SnapImputer("1:5", method="proximal")
    out = imputer.fit_transform(table)
    check_filled(given, out.astype(float), imputer.alphabet_)
    assert (imputer.choice_, imputer.center_, imputer.xi_) == (None, "mean", 0.0)
    assert imputer.lam_ > 0
    keep = si.SnapImputer("1:5", method=si.Proximal(lam=2.0, xi=0.1)).fit(table)
    assert (keep.lam_, keep.xi_, keep.center_) == (2.0, 0.1, "mean")


def test_ten_cells_are_enough_to_tune():
    """From ten observed cells on, in more than one row and column, something is held out."""
    table = np.where(np.arange(12).reshape(3, 4) < 10, 1.0 + np.arange(12).reshape(3, 4) % 2, NAN)
    assert si.SnapImputer("1,2", method="proximal").fit(table).choice_ is not None
    table[0, 0] = NAN
    assert si.SnapImputer("1,2", method="proximal").fit(table).choice_ is None


# -------------------------------------------------------------------- solvers
NO_LAM = {"svt", "sdp", "altmin", "optspace", "sun-luo"}
"""Solvers with an equality constraint or a given rank have no use for λ."""
NO_XI = {*NO_LAM, "low-rank-sparse"}


def treated_by(name: str) -> str:
    """A spectral penalty that the solver treats."""
    return "rank" if SOLVERS[name].info.spectral == ("rank",) else "nuclear"


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_fills_a_table(blocks, X, name):
    """By its name every solver gives a table of symbols that is mostly right, and the fit says that it was run."""
    if name == "sdp":
        pytest.importorskip("cvxpy", reason="the modelling tool is an optional dependency")
        X, truth = X[:16, :14], blocks.to_dense()[:16, :14]
    else:
        truth = blocks.to_dense()
    strengths = {"lam": "auto" if name in NO_LAM else 0.8, "xi": "auto" if name in NO_XI else 0.02}
    strengths["discrete"] = "l0-fractional" if name == "mm" else "l1"
    imputer = proximal(
        "1:5",
        spectral=treated_by(name),
        solver=name,
        center="mean",
        max_rank=3,
        max_iter=500,
        tol=1e-3,
        **strengths,
    )
    out = imputer.fit_transform(X)
    check_filled(X, out, imputer.alphabet_)
    missing = np.isnan(X)
    assert np.mean(out[missing] == truth[missing]) > (0.5 if name == "sdp" else 0.8)
    assert imputer.status_.converged
    assert (imputer.solver_, imputer.solver_why_) == (repr(SOLVERS[name]()), "given")
    assert imputer.lam_ == (1.0 if name in NO_LAM else 0.8)
    assert imputer.xi_ == (0.0 if name in NO_XI else 0.02)
    assert imputer.choice_ is None


def test_a_solver_object_brings_its_parameters(X):
    """An object is run as it is; its defaults are what its name gives."""
    fits = {
        key: proximal("1:5", solver=solver, **GIVEN).fit(X)
        for key, solver in {"name": "ais-impute", "same": AISImpute(), "other": AISImpute(nu=0.5)}.items()
    }
    np.testing.assert_array_equal(fits["name"].singular_values_, fits["same"].singular_values_)
    assert fits["other"].solver_ == repr(AISImpute(nu=0.5)) != fits["same"].solver_
    assert not np.array_equal(fits["other"].singular_values_, fits["same"].singular_values_)


def test_auto_takes_a_solver_that_fits_and_says_why(X):
    """The choice depends on convexity and size, and is the default."""
    convex = proximal("1:5", **GIVEN).fit(X)
    assert convex.solver_ == repr(APG())
    assert convex.solver_why_.startswith("every term is convex and 40×30 is small: APG")
    other = si.SnapImputer(
        "1:5", method=si.Proximal(spectral="mcp", solver="auto", lam=2.0, xi=0.0, center="mean")
    ).fit(X)
    assert other.solver_ == repr(NIAPG())
    assert other.solver_why_ == "MCP(lam=2.0, gamma=3.0) is not convex: niAPG keeps the objective below a bound"


@pytest.mark.parametrize("name", SOLVERS)
def test_what_a_solver_has_no_use_for_is_not_tuned(monkeypatch, X, name):
    """λ is 1 where the solver does not see it, ξ is 0 where it treats no discrete term; the rest is searched."""
    asked = []

    class Asked(Exception):  # noqa: N818  not an error
        pass

    class Noting(Search):
        def plain(self, lam, xi):
            asked.append((lam, xi, self.fits[0].solver))
            return super().plain(lam, xi)

        def _path(self, lams, xi, starts=None):
            assert (xi > 0) == (name == "mm")  # ξ = 0 comes first, but for MM, which needs one above 0
            raise Asked

    monkeypatch.setattr(tuned_spec, "Search", Noting)
    observations, alphabet = Observations.from_dense(X), Alphabet.of("1:5")
    expected = (1.0 if name in NO_LAM else "auto", 0.0 if name in NO_XI else "auto")
    for solver in (name, SOLVERS[name]()):
        open_ones = {"spectral": treated_by(name), "solver": solver}
        open_ones["discrete"] = "l0-fractional" if name == "mm" else "l1"
        if "auto" not in expected:
            settled = tuned_spec.tune(observations, alphabet, center="mean", **open_ones)
            assert (settled.lam, settled.xi, settled.choice) == (*expected, None)
        else:
            with pytest.raises(Asked):
                tuned_spec.tune(observations, alphabet, center="mean", **open_ones)
            assert asked[-1] == (*expected, solver)
        with pytest.raises(Asked):  # the centre is always worth a try
            tuned_spec.tune(observations, alphabet, **open_ones)
        assert asked[-1] == (*expected, solver)
        given = {"center": "mean", "lam": 2.0, "xi": 0.1, **open_ones}
        if name in NO_XI:
            with pytest.raises(ValueError, match=r"does not treat a discrete term.*Solvers that fit"):
                tuned_spec.tune(observations, alphabet, **given)
        else:
            given_ones = tuned_spec.tune(observations, alphabet, **given)
            assert (given_ones.lam, given_ones.xi) == (2.0, 0.1)


def test_auto_tunes_both_strengths(monkeypatch, X):
    """With the solver left open too, nothing is taken out of the search."""
    asked = []

    class Noting(Search):
        def plain(self, lam, xi):
            asked.append((lam, xi, self.fits[0].solver))
            return super().plain(lam, xi)

    monkeypatch.setattr(tuned_spec, "Search", Noting)
    tuned_spec.tune(
        Observations.from_dense(X[:12, :10]), Alphabet.of("1:5"), center="mean", options=FitOptions(max_iter=20)
    )
    assert asked == [("auto", "auto", "auto")]


@pytest.mark.parametrize("spectral", SPECTRAL_BY_LAM)
def test_the_solver_given_is_the_one_that_tunes(monkeypatch, X, spectral):
    """Every fit on the way runs the solver that was asked for, for every penalty, tuned λ included."""
    seen = []
    step = SoftImpute.step
    monkeypatch.setattr(SoftImpute, "step", lambda self, *a: seen.append(self) or step(self, *a))
    for other in (AISImpute, NIAPG, APG):
        monkeypatch.setattr(other, "step", lambda *_: pytest.fail("another solver ran"))
    solver = SoftImpute(accuracy=1e-3)
    imputer = si.SnapImputer(
        "1:5", method=si.Proximal(spectral=spectral, solver=solver, xi=0.0, center="mean", max_iter=20, tol=1e-2)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        imputer.fit(X)
    assert len(imputer.choice_.tried) > 1
    on_the_way = len(seen) - imputer.n_iter_ - sum(candidate.n_iter for candidate in imputer.choice_.tried)
    # Where a penalty is not convex the last fit comes down the path of λ again.
    assert on_the_way == 0 if SPECTRAL_BY_LAM[spectral](1.0).convex else on_the_way >= 0
    assert all(one is solver for one in seen)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"solver": "svt", "xi": 0.1},
            r"SVT does not treat a discrete term, here L1\(.*fit this problem: soft-impute",
        ),
        ({"solver": SVT(), "xi": 0.1}, "SVT does not treat a discrete term"),
        (
            {"solver": "altmin"},
            r"AltMin treats only the spectral penalty rank, not Nuclear\(lam=1\.0\)\. Solvers that fit",
        ),
        (
            {"solver": "apgl", "spectral": "mcp"},
            r"APGL treats .*not MCP.*: soft-impute, apg, nmapg, niapg, fancl, penalty-decomposition$",
        ),
        ({"solver": "gradient"}, "solver must be \"auto\" or one of soft-impute, apg.*, got 'gradient'"),
        ({"solver": "APG"}, "got 'APG'"),
    ],
)
@pytest.mark.parametrize("center", ["mean", "auto"])
def test_a_solver_that_does_not_fit_is_refused_with_those_that_do(X, wrong, message, center):
    """The error names the solver, what it cannot treat, and which solvers can."""
    imputer = proximal("1:5", center=center, **wrong)
    with pytest.raises(ValueError, match=message):
        imputer.fit(X)
    assert not hasattr(imputer, "left_")


@pytest.mark.parametrize("wrong", [None, 3, APG])
def test_what_is_no_solver_is_refused(X, wrong):
    """Neither nothing nor a number nor a class is a solver."""
    with pytest.raises(TypeError, match="solver must be a Solver or the name of one, got"):
        proximal("1:5", solver=wrong, **GIVEN).fit(X)


# -------------------------------------------------------------------- same seed, same result
def test_same_seed_same_bits_on_any_number_of_threads(monkeypatch, X):
    """The fit is a function of the table, the parameters and the seed."""
    cells, fits = np.indices(X.shape), []
    for threads in ("1", "1", "3"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", threads)
        fits.append(si.SnapImputer("1:5", method=si.Proximal(center="mean", xi=0.01)).fit(X))
    for again in fits[1:]:
        assert again.lam_ == fits[0].lam_
        np.testing.assert_array_equal(again.left_, fits[0].left_)
        np.testing.assert_array_equal(again.predict_mean(*cells), fits[0].predict_mean(*cells))


# -------------------------------------------------------------------- how it ended
def test_a_fit_that_ran_out_of_iterations_warns_with_advice(X):
    """The warning says what happened and what to do, and status_ says the same."""
    imputer = proximal("1:5", max_iter=2, **GIVEN)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        imputer.fit(X)
    assert imputer.status_.code == "max_iter"
    assert imputer.n_iter_ == 2
    assert proximal("1:5", max_iter=2, tol=0, **GIVEN).fit(X).n_iter_ == 2  # asked for, so no warning


def test_max_rank_and_history_are_those_of_the_solver(X):
    """max_rank bounds the factors; the history has a row for every iteration."""
    imputer = proximal("1:5", max_rank=1, **GIVEN).fit(X)
    assert imputer.singular_values_.shape == (1,)
    assert imputer.left_.shape == (40, 1)
    assert imputer.right_.shape == (30, 1)
    assert imputer.history_["objective"].shape == (imputer.n_iter_,)


def test_an_interrupted_fit_keeps_the_best_so_far_and_stops(monkeypatch, X):
    """Ctrl-C ends the script as usual, but the imputer can be used and says what happened."""
    step = APG.step

    def interrupted(self, problem, state, context):
        if state.iteration == 5:
            raise KeyboardInterrupt
        return step(self, problem, state, context)

    monkeypatch.setattr(APG, "step", interrupted)
    imputer = proximal("1:5", solver="apg", **GIVEN)
    with pytest.raises(KeyboardInterrupt):
        imputer.fit(X)
    assert imputer.status_.code == "interrupted"
    assert imputer.n_iter_ == 5
    check_filled(X, imputer.transform(X), imputer.alphabet_)


# -------------------------------------------------------------------- errors
def test_a_missing_alphabet_is_explained_with_the_values_found():
    """Without an alphabet the error says how to give it, and which values there are if they are few."""
    with pytest.raises(
        ValueError, match=r"alphabet is required.*values found are 0, 1, 2.5, so alphabet=\[0, 1, 2.5\]"
    ):
        si.complete([[0, 1, None], [2.5, 1, 0]], method="proximal")
    with pytest.raises(ValueError, match=r'such as "1:5" or \[0, 1\], or "infer"$'):
        si.SnapImputer().fit(np.random.default_rng(0).random((5, 5)))
    with pytest.raises(ValueError, match=r"values found are 'n', 'y', so alphabet=\['n', 'y'\]"):
        si.SnapImputer().fit([["n", "y"], ["y", None]])
    with pytest.raises(ValueError, match=r'such as "1:5" or \[0, 1\], or "infer"$'):
        si.SnapImputer().fit([[None]])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lam": "large"}, "lam must be a number or \"auto\", got 'large'"),
        ({"xi": None}, 'xi must be a number or "auto", got None'),
        ({"lam": -1.0}, "lam must be a finite number"),
        ({"xi": NAN}, "xi must be a finite number"),
        ({"center": "median"}, "center must be"),
        ({"spectral": "trace"}, "spectral must be one of 'nuclear', 'lsp'"),
        ({"discrete": "l7"}, "discrete must be one of 'l1'"),
        ({"spectral": si.Nuclear(1.0), "lam": 2.0}, r"lam=2\.0 has no use with spectral=Nuclear\(lam=1\.0\)"),
        ({"discrete": None, "xi": 0.1}, r"xi=0\.1 has no use with discrete=None: leave xi=\"auto\""),
        ({"random_state": None}, "random_state must be a whole number, at least 0, got None"),
        ({"random_state": -1}, "random_state must be a whole number"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"alphabet": "5:1"}, "must rise"),
        ({"decide": "median"}, "decide must be one of 'accuracy', 'mae', 'rmse', 'nearest', got 'median'"),
        ({"min_confidence": 1.5}, "min_confidence must be a number from 0 to 1, got 1.5"),
        ({"min_confidence": "high"}, "min_confidence must be a number from 0 to 1, got 'high'"),
        ({"min_confidence": 0.5, "decide": "nearest"}, "min_confidence needs probabilities"),
        ({"continuous": "drop"}, 'continuous must be "fit" or "passthrough", got'),
        ({"missing": "?"}, r"missing must be a list of values such as \[-99, \"\?\"\], got '\?'"),
        ({"missing": -99}, "missing must be a list of values"),
        ({"backend": "tpu"}, "backend must be one of"),
        ({"cv": 1}, "cv must be a whole number of folds, at least 2, or None, got 1"),
    ],
)
def test_wrong_parameters_are_refused_at_fit(X, wrong, message):
    """The constructor takes anything; fit says what was given and what was expected."""
    imputer = proximal(**{"alphabet": "1:5", **GIVEN, **{"xi": "auto"}, **wrong})
    with pytest.raises(ValueError, match=message):
        imputer.fit(X)


def test_penalty_objects_bring_their_own_strengths(X):
    """lam_ and xi_ are those of the objects, and the objects are what is minimised."""
    imputer = si.SnapImputer(
        "1:5", method=si.Proximal(spectral=si.LogSum(1.5, 2.0), discrete=si.L1("1:5", 0.03), center="mean")
    ).fit(X)
    assert (imputer.lam_, imputer.xi_, imputer.choice_) == (1.5, 0.03, None)
    assert si.SnapImputer("1:5", method=si.Proximal(discrete=None, lam=1.0, center="mean")).fit(X).xi_ == 0.0


@pytest.mark.parametrize("zero", [0, 0.0])
def test_no_strength_of_no_penalty_is_accepted(X, zero):
    """discrete=None says ξ = 0, and so does xi=0: together they are one fit; a penalty with another ξ is refused."""
    given = {"lam": 1.0, "center": "mean"}
    both = proximal("1:5", discrete=None, xi=zero, **given).fit(X)
    assert both.xi_ == 0.0
    assert type(both.xi_) is float
    np.testing.assert_array_equal(both.transform(X), proximal("1:5", discrete=None, **given).fit(X).transform(X))
    with pytest.raises(ValueError, match=r"xi=0(\.0)? has no use with discrete=L1"):
        proximal("1:5", discrete=si.L1("1:5", xi=0.1), xi=zero, **given).fit(X)


# -------------------------------------------------------------------- scikit-learn
def test_clone_and_parameters():
    """Parameters are stored as given, come back, can be set, and survive a clone."""
    alphabet = Alphabet.of("1:5")
    imputer = si.SnapImputer(alphabet, method=si.Proximal(lam=2.0, spectral=si.Nuclear(1.0)))
    assert imputer.get_params()["alphabet"] is alphabet
    copy = clone(imputer)
    assert copy.get_params()["alphabet"] == alphabet
    assert copy.get_params()["method"].spectral == si.Nuclear(1.0)
    assert copy.set_params(method__lam="auto", method__xi=0.1).get_params()["method__xi"] == 0.1
    assert clone(si.SnapImputer([0, 1], method="proximal")).alphabet == [0, 1]
    for solver in ("auto", "svt", AltMin(rank=2)):
        copy = clone(si.SnapImputer("1:5", method=si.Proximal(solver=solver)))
        assert copy.get_params()["method__solver"] == solver
        assert copy.set_params(method__solver="als").method.solver == "als"
    assert si.SnapImputer().get_params()["method"] == "auto"
    assert repr(si.SnapImputer("1:5", decide="mae")) == "SnapImputer(alphabet='1:5', decide='mae')"


def test_a_pickled_imputer_predicts_the_same(X):
    """A fitted imputer survives pickling, as joblib and model stores do it."""
    imputer = proximal("1:5", **GIVEN).fit(pd.DataFrame(X))
    copy = pickle.loads(pickle.dumps(imputer))  # noqa: S301  our own bytes
    np.testing.assert_array_equal(copy.transform(X), imputer.transform(X))


def test_works_in_a_pipeline(X):
    """Before another step, the imputer gives it a table without holes."""
    pipeline = make_pipeline(proximal("1:5", **GIVEN), StandardScaler())
    out = pipeline.fit_transform(X)
    np.testing.assert_allclose(out, StandardScaler().fit_transform(complete(X, "1:5", **GIVEN)))
    np.testing.assert_allclose(pipeline.transform(X), out)
    assert pipeline.get_feature_names_out().tolist() == [f"x{j}" for j in range(30)]


def test_names_of_features(X):
    """Names are kept where all columns have names that are strings."""
    named = pd.DataFrame(X, columns=[f"q{j}" for j in range(30)])
    for table in (named, pl.from_pandas(named), pa.Table.from_pandas(named)):
        imputer = proximal("1:5", **GIVEN).fit(table)
        assert imputer.n_features_in_ == 30
        assert imputer.feature_names_in_.tolist() == list(named.columns)
        assert imputer.get_feature_names_out().tolist() == list(named.columns)
    for table in (X, pd.DataFrame(X)):
        assert not hasattr(proximal("1:5", **GIVEN).fit(table), "feature_names_in_")


def test_set_output_wraps_arrays(X):
    """scikit-learn's own way to ask for frames works."""
    out = proximal("1:5", **GIVEN).set_output(transform="pandas").fit_transform(X)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == [f"x{j}" for j in range(30)]


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_estimator_repr",
        "check_no_attributes_set_in_init",
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
        "check_mixin_order",
    ],
)
def test_scikit_learn_checks_that_need_no_fit(check):
    """The conventions for constructors, parameters and tags, as scikit-learn tests them."""
    getattr(estimator_checks, check)("SnapImputer", si.SnapImputer("0:9", method="proximal"))


# -------------------------------------------------------------------- the package
@pytest.mark.slow
def test_import_is_light():
    """Importing the package loads neither scikit-learn nor any frame library; the names are there when asked for."""
    code = (
        "import sys, snapimpute as si; "
        "heavy = {'sklearn', 'pandas', 'polars', 'narwhals', 'pyarrow'} & set(sys.modules); "
        "assert not heavy, heavy; assert {'SnapImputer', 'complete'} <= set(dir(si)) & set(si.__all__); "
        "assert si.complete.__module__ == 'snapimpute.estimator.shortcuts'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)  # noqa: S603
