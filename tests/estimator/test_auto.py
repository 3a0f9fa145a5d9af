"""The default method, a blend of experts, in the estimator: tables, answers, parameters, interruptions."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

import snapimpute as si
from snapimpute import Observations, SnapImputer
from snapimpute.estimator.model import same_cells
from snapimpute.experts.blend import BlendVerdict, ExpertScore, Step
from snapimpute.experts.proximal.expert import ProximalFit
from snapimpute.posterior import Sweep
from tests.helpers import same_bits

NAN = np.nan
QUICK = si.Posterior("low-rank", rank=2, thresholds="columns", sweeps=20)
FEW: list[Any] = ["habits", si.Proximal(lam=1.0, xi=0.0, center="mean"), QUICK]
"""Experts whose blend takes a tenth of the time of the default one."""


def ratings(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Answers from 1 to 3 that follow one taste, a quarter of them missing."""
    rng = np.random.default_rng(seed)
    taste, kind = rng.standard_normal((shape[0], 1)), rng.choice([-1.5, 1.5], shape[1])
    X = np.clip(np.round(2 + taste * kind + 0.3 * rng.standard_normal(shape)), 1, 3)
    return np.where(rng.random(shape) < 0.25, NAN, X)


X = ratings((24, 6))


@pytest.fixture(scope="module")
def auto() -> SnapImputer:
    """The default, fitted once."""
    return SnapImputer("1:3").fit(X)


@pytest.fixture(scope="module")
def blend() -> SnapImputer:
    """A blend of few experts, fitted once."""
    return SnapImputer("1:3", method=FEW).fit(X)


def check_filled(given: np.ndarray, out: Any, symbols: Any = (1, 2, 3)) -> None:
    """Symbols where a cell was missing, and the very same value elsewhere."""
    found, missing = np.asarray(out, dtype=float), np.isnan(given)
    np.testing.assert_array_equal(found[~missing], given[~missing])
    assert set(found[missing].tolist()) <= set(symbols)


# -------------------------------------------------------------------- what the default is
def test_the_default_is_a_blend_that_tells_what_it_weighed(auto):
    """Scores of all experts, their shares, the verdict, the status: what `fit_` has, under the estimator's names."""
    fit = auto.fit_
    assert isinstance(fit, si.BlendFit)
    assert auto.experts_ == fit.scores
    assert all(isinstance(one, ExpertScore) for one in auto.experts_)
    assert {one.name for one in auto.experts_} >= {"mosaic", "proximal", "habits"}
    assert auto.blend_ == {one.name: one.weight for one in auto.experts_ if one.weight > 0}
    assert sum(auto.blend_.values()) == pytest.approx(1)
    assert isinstance(auto.verdict_, BlendVerdict)
    assert auto.verdict_.leader == max(auto.blend_, key=auto.blend_.get)
    assert auto.status_.converged
    assert auto.n_iter_ == len(fit.members) == len(auto.blend_)
    assert auto.history_ == {}
    assert auto.diagnostics_ == fit.diagnostics
    assert auto.verdict_.leader in auto._html_repr()


def test_attributes_of_low_rank_belong_to_the_proximal_method(auto):
    """Factors and strengths of a blend are AttributeErrors that say where they are; nothing is there before a fit."""
    for name in ("lam_", "left_", "choice_", "center_", "solver_", "offsets_"):
        assert not hasattr(auto, name)
        assert not hasattr(SnapImputer("1:3"), name)
    with pytest.raises(AttributeError, match=r'only method="proximal" has factors.*fitted by blend: its fit is fit_'):
        _ = auto.lam_
    for name in ("fit_", "experts_", "blend_", "verdict_", "diagnostics_", "status_", "history_", "n_iter_"):
        with pytest.raises(AttributeError, match=f"{name} is learned by fit, which was not called yet"):
            getattr(SnapImputer("1:3"), name)
    with pytest.raises(NotFittedError):
        SnapImputer("1:3").transform(X)


def test_one_expert_has_all_of_the_answer():
    """A single expert is no blend: no scores, its share is 1, and the verdict is its own."""
    imputer = SnapImputer("1:3", method=si.Proximal(center="mean")).fit(X)
    assert (imputer.experts_, imputer.blend_) == ((), {"proximal": 1.0})
    assert imputer.verdict_ == imputer.choice_.verdict
    assert SnapImputer("1:3", method="habits").fit(X).verdict_ is None


# -------------------------------------------------------------------- tables
def kinds_of(X: np.ndarray) -> dict[str, Any]:
    rows, cols = np.nonzero(~np.isnan(X))
    frame = pd.DataFrame(X, columns=[f"q{j}" for j in range(X.shape[1])])
    return {
        "pandas": frame.astype("Int64"),
        "polars": pl.from_pandas(frame).fill_nan(None).cast(pl.Int8),
        "sparse": sp.csr_array((X[rows, cols], (rows, cols)), shape=X.shape),
        "observations": Observations.from_dense(X),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pandas", "polars", "sparse", "observations"])
def test_the_default_fills_every_kind_of_table(kind):
    """Frames, sparse matrices and observations are filled, each in its own kind."""
    table = kinds_of(X)[kind]
    out = SnapImputer("1:3").fit_transform(table)
    assert type(out) is (type(table) if kind in ("pandas", "polars") else np.ndarray)
    check_filled(X, out)


@pytest.mark.parametrize("kind", ["pandas", "polars", "sparse", "observations"])
def test_a_blend_fills_every_kind_of_table_alike(blend, kind):
    """One table, one answer, with the dtypes of the table; names of columns choose other held-out cells than none."""
    table, given = kinds_of(X)[kind], X
    out = si.complete(table, "1:3", method=FEW)
    check_filled(X, out)
    if kind in ("pandas", "polars"):
        given = Observations.from_dense(X, col_labels=[f"q{j}" for j in range(6)])
        blend = SnapImputer("1:3", method=FEW).fit(given)
    np.testing.assert_array_equal(np.asarray(out, dtype=float), blend.transform(given))
    if kind == "pandas":
        assert (out.dtypes == "Int64").all()
    if kind == "polars":
        assert out.schema == table.schema


def test_known_cells_stay_and_the_fitted_table_has_one_answer(auto):
    """`transform`, `predict`, `predict_proba` and `fit_transform` say the same of the table that was fitted."""
    out = auto.transform(X)
    check_filled(X, out)
    rows, cols = np.nonzero(np.isnan(X))
    np.testing.assert_array_equal(auto.predict(rows, cols), out[rows, cols])
    np.testing.assert_array_equal(auto.predict(X)[rows, cols], out[rows, cols])
    p = auto.predict_proba(rows, cols)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(p.argmax(axis=1) + 1, out[rows, cols])
    np.testing.assert_allclose(auto.predict_mean(rows, cols), p @ [1, 2, 3])
    again = SnapImputer("1:3", method=FEW)
    np.testing.assert_array_equal(again.fit_transform(X), again.transform(X))


def test_same_seed_same_bits(blend):
    """The seed decides which cells are held out, too: the same one gives the same bits, another one others."""
    cells = np.indices(X.shape)
    one, other = (SnapImputer("1:3", method=FEW, random_state=seed).fit(X) for seed in (0, 1))
    np.testing.assert_array_equal(one.predict_proba(*cells), blend.predict_proba(*cells))
    assert one.blend_ == blend.blend_
    assert not np.array_equal(other.predict_proba(*cells), blend.predict_proba(*cells))


def test_any_rows_are_filled_by_their_own_cells(blend):
    """New rows are filled; a row of the fit gets the answers of the fit, alone, in another order, or twice."""
    new = ratings((9, 6), seed=4)
    check_filled(new, blend.transform(new))
    whole = blend.transform(X)
    np.testing.assert_array_equal(blend.transform(X[::-1]), whole[::-1])
    np.testing.assert_array_equal(blend.transform(X[[3, 3, 8]]), whole[[3, 3, 8]])
    both = blend.transform(np.vstack([new, X]))
    np.testing.assert_array_equal(both[9:], whole)
    check_filled(new, both[:9])
    assert not np.isnan(blend.transform(np.full((2, 6), NAN))).any()
    rows, cols = np.indices((3, 6)).reshape(2, -1)
    said, fitted = blend.fold_in(X[5:8]), blend.estimates_
    np.testing.assert_allclose(said.proba(rows, cols), fitted.proba(rows + 5, cols), rtol=1e-6)
    assert said.proba(rows[:0], cols[:0]).shape == (0, 3)
    assert 0 <= blend.score(X) <= 1


def test_rows_with_the_same_cells_have_the_same_answers():
    """Draws differ between two rows of which the same is known; what is said of them does not."""
    twice = np.vstack([X, X[:4]])
    imputer = SnapImputer("1:3", method=QUICK).fit(twice)
    cells = np.indices((4, 6)).reshape(2, -1)
    assert not np.array_equal(imputer.fit_.proba(*cells), imputer.fit_.proba(cells[0] + 24, cells[1]))
    np.testing.assert_array_equal(imputer.predict_proba(*cells), imputer.predict_proba(cells[0] + 24, cells[1]))
    observed = Observations.from_dense([[1, 2], [0, NAN], [1, 2], [NAN, NAN]])
    other = Observations.from_dense([[NAN, NAN], [2, 1], [-0.0, NAN], [1, 2]])
    assert same_cells(other, observed).tolist() == [3, -1, 1, 0]


def test_more_cells_and_rows(blend):
    """`partial_fit` takes in cells and rows; weights stay, and a cell that is known now is kept."""
    imputer = clone(blend).fit(X)
    before = imputer.blend_
    row, col = (int(one[0]) for one in np.nonzero(np.isnan(X)))
    imputer.partial_fit([row], [col], [3]).partial_fit(ratings((3, 6), seed=7))
    assert imputer.blend_ == before
    assert imputer.fit_.observations.shape == (27, 6)
    known = imputer._observed
    assert known.values[(known.rows == row) & (known.cols == col)].tolist() == [3]
    assert imputer.predict(25, [0, 1]).shape == (2,)
    assert imputer.recommend(25, 2).size <= 2
    first = SnapImputer("1:3", method=FEW).partial_fit(X)
    np.testing.assert_array_equal(first.transform(X), blend.transform(X))


def test_a_file_holds_a_blend(auto, blend, tmp_path):
    """What is loaded says the same to the last bit, of fitted rows and of new ones, and can go on."""
    for number, imputer in enumerate((auto, blend)):
        path = tmp_path / f"{number}.snap"
        imputer.save(path)
        back = si.load(path)
        cells = np.indices(X.shape)
        np.testing.assert_array_equal(back.predict_proba(*cells), imputer.predict_proba(*cells))
        new = ratings((5, 6), seed=9)
        np.testing.assert_array_equal(back.transform(new), imputer.transform(new))
        assert same_bits(back.experts_, imputer.experts_)
        assert same_bits(back.verdict_, imputer.verdict_)
        assert (back.blend_, back.status_) == (imputer.blend_, imputer.status_)
        more = [one.partial_fit([0], [0], [1]).predict_proba(*cells) for one in (back, si.load(path))]
        np.testing.assert_array_equal(*more)


# -------------------------------------------------------------------- decisions
def test_symbols_are_decided_by_the_loss(blend):
    """The blend is the same; "mae" takes the median, "rmse" and "nearest" what is nearest to the mean."""
    cells = np.indices(X.shape).reshape(2, -1)
    p = blend.predict_proba(*cells)
    means = p @ [1, 2, 3]
    expected = {
        "accuracy": p.argmax(axis=1) + 1,
        "mae": (p.cumsum(axis=1) < 0.5).sum(axis=1) + 1,
        "rmse": np.clip(np.round(means), 1, 3),
        "nearest": np.clip(np.round(means), 1, 3),
    }
    for decide, symbols in expected.items():
        imputer = SnapImputer("1:3", method=FEW, decide=decide).fit(X)
        np.testing.assert_array_equal(imputer.predict(*cells), symbols, err_msg=decide)


def test_doubtful_cells_stay_missing(blend):
    """With ``min_confidence`` a cell whose symbol is less probable stays as it was."""
    imputer = SnapImputer("1:3", method=FEW, min_confidence=0.8).fit(X)
    rows, cols = np.nonzero(np.isnan(X))
    sure = blend.predict_proba(rows, cols).max(axis=1) >= 0.8
    assert 0 < sure.sum() < sure.size
    np.testing.assert_array_equal(~np.isnan(imputer.transform(X)[rows, cols]), sure)


# -------------------------------------------------------------------- columns of all kinds
def mixed() -> tuple[pd.DataFrame, dict[str, Any]]:
    """Ratings, votes, colours and sizes that follow one taste, a sixth of them missing."""
    rng = np.random.default_rng(3)
    taste = rng.standard_normal(60)
    frame = pd.DataFrame(
        {
            "stars": np.clip(np.round(3 + 1.5 * taste), 1, 5),
            "marks": np.clip(np.round(3 - 1.5 * taste), 1, 5),
            "vote": np.where(taste + 0.2 * rng.standard_normal(60) > 0, "yes", "no"),
            "colour": np.array(["red", "green", "blue"])[np.digitize(taste, [-0.5, 0.5])],
            "size": 170 + 10 * taste + rng.standard_normal(60),
        }
    )
    alphabet = {
        "stars": "1:5",
        "marks": "1:5",
        "vote": ["no", "yes"],
        "colour": si.Nominal(["red", "green", "blue"]),
        "size": None,
    }
    return frame.mask(rng.random(frame.shape) < 1 / 6), alphabet


@pytest.mark.slow
def test_the_default_fills_columns_of_all_kinds(tmp_path):
    """Every expert takes the columns that it can; the table is filled, and the model comes back from its file."""
    frame, alphabet = mixed()
    imputer = SnapImputer(alphabet).fit(frame)
    out = imputer.transform(frame)
    assert not out.isna().any(axis=None)
    pd.testing.assert_frame_equal(out.where(frame.notna()), frame, check_dtype=False)
    hidden = frame["size"].isna() & frame["stars"].notna()
    assert np.corrcoef(out["size"][hidden], frame["stars"][hidden])[0, 1] > 0.7
    imputer.save(tmp_path / "m.snap")
    pd.testing.assert_frame_equal(si.load(tmp_path / "m.snap").transform(frame[:9]), imputer.transform(frame[:9]))


@pytest.fixture(scope="module")
def of_all_kinds() -> SnapImputer:
    frame, alphabet = mixed()
    return SnapImputer(alphabet, method=FEW).fit(frame)


def test_a_blend_answers_for_columns_of_all_kinds(of_all_kinds):
    """Each column is filled from its own alphabet; numbers get expected values, which know something."""
    frame, _ = mixed()
    out = of_all_kinds.transform(frame)
    assert not out.isna().any(axis=None)
    for name in ("vote", "colour"):
        assert set(out[name]) <= set(frame[name].dropna())
    assert set(out["stars"]) <= set(range(1, 6))
    known = frame.notna()
    pd.testing.assert_frame_equal(out.where(known), frame, check_dtype=False)
    hidden = frame["size"].isna() & frame["stars"].notna()
    assert np.corrcoef(out["size"][hidden], frame["stars"][hidden])[0, 1] > 0.7


def test_every_kind_has_its_own_experts_and_answers(of_all_kinds):
    """Low rank has no part in categories; probabilities have the symbols of the column, and numbers none."""
    fit = of_all_kinds.fit_
    kinds = fit.schema.which
    assert "proximal" not in fit.weights(int(kinds[3]))
    scores = {one.name: one for one in of_all_kinds.experts_}
    assert 0 < scores["proximal"].cells < scores["habits"].cells  # it was fitted to the other columns
    members = {one.label: one.columns for one in fit.members}
    if "proximal" in members:
        assert members["proximal"].tolist() == [0, 1, 2, 4]
    assert of_all_kinds.predict_proba(0, 0).shape == (5,)
    assert of_all_kinds.predict_proba(0, 2).shape == (2,)
    assert of_all_kinds.predict_proba(0, 3).shape == (3,)
    with pytest.raises(ValueError, match="one alphabet"):
        of_all_kinds.predict_proba(0, 4)
    with pytest.raises(ValueError, match="have no mean"):
        of_all_kinds.predict_mean(0, 3)
    assert np.isfinite(of_all_kinds.predict_mean([0, 0, 0], [0, 2, 4])).all()
    colours = si.Alphabet.of(si.Nominal(["red", "green", "blue"])).labels
    assert of_all_kinds.predict(0, 3) == colours[of_all_kinds.predict_proba(0, 3).argmax()]


def test_a_kind_of_columns_that_no_expert_takes_is_refused():
    """Low rank alone cannot fill categories: the error says what to add."""
    frame, alphabet = mixed()
    with pytest.raises(
        ValueError, match=r"no expert of the blend takes columns of Nominal\(.*add one that does, or si.Hab"
    ):
        SnapImputer(alphabet, method=FEW[1:2]).fit(frame)
    with pytest.raises(ValueError, match="no expert of the blend takes columns of any numbers"):
        SnapImputer(alphabet, method=["mosaic"]).fit(frame)
    with pytest.raises(
        ValueError, match="so few known cells one expert answers alone, and none of the blend takes all"
    ):
        SnapImputer(alphabet, method=[FEW[1], "mosaic"]).fit(frame[:8])


@pytest.mark.parametrize("rows", [9, 60])
@pytest.mark.parametrize("limit", [None, 1e-6])
def test_every_kind_of_column_has_an_expert(rows, limit):
    """Few cells, columns left alone, no time: an expert that takes what the others do not is fitted in any case."""
    frame, alphabet = mixed()
    methods = [FEW[1], "habits"]
    imputer = SnapImputer(alphabet, method=methods, continuous="passthrough", time_limit=limit).fit(frame[:rows])
    out = imputer.transform(frame[:rows])
    assert not out.drop(columns="size").isna().any(axis=None)
    pd.testing.assert_series_equal(out["size"], frame["size"][:rows])


def test_columns_of_all_kinds_in_files_and_new_rows(of_all_kinds, tmp_path):
    """A model of such a table comes back from its file, and fills rows that it has not seen."""
    frame, _ = mixed()
    of_all_kinds.save(tmp_path / "m.snap")
    back = si.load(tmp_path / "m.snap")
    new = frame[:7].assign(stars=[1.0, 5, NAN, 2, 4, NAN, 3])
    pd.testing.assert_frame_equal(back.transform(new), of_all_kinds.transform(new))
    assert not back.transform(new).isna().any(axis=None)


# -------------------------------------------------------------------- tiny tables
TINY: dict[str, tuple[Any, Any]] = {
    "a row": ("1:3", np.where(np.arange(60) % 4, 1.0 + np.arange(60) % 3, NAN)[None]),
    "a column": ("1:3", np.where(np.arange(60) % 4, 1.0 + np.arange(60) % 3, NAN)[:, None]),
    "three cells": ("1:3", np.array([[1, NAN], [3, 2]])),
    "one cell": ("1:3", np.array([[2.0]])),
    "one symbol": ([7], np.where(np.arange(80).reshape(20, 4) % 3, 7.0, NAN)),
    "a constant column": ("1:3", np.column_stack([np.full(24, 2.0), X[:, :4]])),
    "an empty column": ("1:3", np.column_stack([np.full(24, NAN), X[:, :4]])),
    "an empty row": ("1:3", np.vstack([np.full(6, NAN), X[:14]])),
    "all known": ("1:3", np.nan_to_num(X[:15], nan=2.0)),
}


@pytest.mark.parametrize("name", TINY)
def test_tiny_tables_are_filled(name):
    """With 50 cells or fewer, a single line, one symbol, nothing missing: symbols come out, and a verdict."""
    alphabet, table = TINY[name]
    imputer = SnapImputer(alphabet, method=FEW)
    out = imputer.fit_transform(table)
    check_filled(table, out, imputer.alphabet_.symbols.tolist())
    assert sum(imputer.blend_.values()) == pytest.approx(1)
    assert imputer.verdict_.leader in str(imputer.verdict_)
    assert not np.isnan(imputer.transform(np.full((2, table.shape[1]), NAN))).any()


@pytest.mark.parametrize("name", ["a row", "a column", "three cells", "one cell"])
def test_the_default_lets_one_expert_answer_where_little_is_known(name):
    """Below 50 known cells or in a single line nothing is held out: low rank answers alone, and says so."""
    alphabet, table = TINY[name]
    imputer = SnapImputer(alphabet)
    check_filled(table, imputer.fit_transform(table))
    assert imputer.blend_ == {"proximal": 1.0}
    assert str(imputer.verdict_) == "proximal answers alone: nothing was held out to compare experts on"
    assert {one.reason for one in imputer.experts_ if one.name == "habits"} == {
        "too few cells are known to compare experts"
    }


def test_a_table_without_a_known_cell_is_refused():
    """There is nothing to learn from."""
    with pytest.raises(ValueError, match="no observed"):
        SnapImputer("1:3").fit(np.full((5, 4), NAN))


# -------------------------------------------------------------------- the method
@pytest.mark.parametrize(
    ("method", "labels"),
    [
        ("habits", ["habits"]),
        (si.Habits(damping=2.0), ["habits"]),
        (["habits", si.Habits(damping=50.0)], ["habits", "habits"]),
        ((si.Proximal(lam=1.0, xi=0.0),), ["proximal"]),
        (si.Blend([si.Habits()]), ["habits"]),
    ],
    ids=str,
)
def test_a_method_is_a_name_an_expert_or_several(method, labels):
    """All of these fill the table; a list is a blend."""
    imputer = SnapImputer("1:3", method=method).fit(X)
    check_filled(X, imputer.transform(X))
    several = not isinstance(method, str | si.Habits)
    assert isinstance(imputer.fit_, si.BlendFit) == several
    if several:
        assert [one.name for one in imputer.experts_] == labels
    else:
        assert list(imputer.blend_) == labels


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"method": "magic"}, "method must be one of 'auto', .*got 'magic'"),
        ({"method": None}, "method must be one of .*, an expert such as si.Posterior.., or a list of such, got None"),
        ({"method": 3}, "method must be one of .* got 3"),
        ({"method": si.Habits}, "method must be one of"),
        ({"method": ["habits", 3]}, "method must be one of .* got 3"),
        ({"method": []}, "experts must name at least one expert"),
        ({"method": si.Blend(["habits"])}, "experts must be experts such as"),
        ({"method": si.Blend("all")}, 'experts must be a list of experts, or "auto"'),
        ({"time_limit": 0}, "time_limit must be a number of seconds above 0, or None, got 0"),
        ({"random_state": None}, "random_state must be a whole number, at least 0, got None"),
        (
            {"method": "habits", "backend": "torch"},
            "backend='torch' belongs to the proximal expert, habits has no use",
        ),
        (
            {"method": "habits", "dtype": "float32"},
            "dtype='float32' belongs to the proximal expert, habits has no use",
        ),
        ({"backend": "tpu"}, "backend must be one of"),
        ({"decide": "median"}, "decide must be one of"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_before_any_fit(monkeypatch, params, message):
    """The error names the parameter, what was given, and what was expected."""
    for kind in (si.Habits, si.Proximal, si.Posterior, si.Mosaic):
        monkeypatch.setattr(kind, "fit", lambda *a, **k: pytest.fail("something was fitted"))
    with pytest.raises(ValueError, match=message):
        SnapImputer("1:3", **params).fit(X)


def test_an_expert_alone_has_no_use_for_square():
    """Only a blend asks whether rows and columns are the same things."""
    with pytest.raises(ValueError, match="square=True has no use with method='habits': leave it out"):
        SnapImputer("1:3", method="habits").fit(X, square=True)
    with pytest.raises(ValueError, match=r"square=True needs as many rows as columns.*the table is of 24×6"):
        SnapImputer("1:3", method=FEW).fit(X, square=True)
    with pytest.raises(ValueError, match="square must be True, False"):
        SnapImputer("1:3", method=FEW).fit(X, square="yes")


# -------------------------------------------------------------------- parameters
def test_parameters_of_the_expert_are_set_by_name():
    """``method__rank`` sets one of the expert, where the method is its name and where it is an object."""
    by_name = SnapImputer("1:3", method="posterior", random_state=4).set_params(method__rank=2, method__sweeps=20)
    assert isinstance(by_name.method, si.Posterior)
    assert (by_name.method.rank, by_name.method.sweeps, by_name.method.random_state) == (2, 20, 4)
    given = si.Posterior("low-rank", sweeps=20)
    by_object = SnapImputer("1:3", method=given).set_params(method__rank=2, decide="mae")
    assert (by_object.method, by_object.decide) == (dataclasses.replace(given, rank=2), "mae")
    assert given.rank != 2
    assert by_object.get_params()["method__rank"] == 2
    assert "method__rank" not in by_object.get_params(deep=False)
    together = SnapImputer("1:3").set_params(method="proximal", method__lam=2.0, method__xi=0.0)
    assert together.fit(X).lam_ == 2.0
    blended = SnapImputer("1:3").set_params(method__square=False)
    assert blended.method.square is False
    assert blended.set_params(random_state=9)._expert().random_state == 9


@pytest.mark.parametrize("method", ["posterior", si.Posterior(), "auto"], ids=str)
def test_a_parameter_that_the_expert_has_not_is_refused(method):
    """The error names the expert and the parameters that it has; so does one that the estimator has not."""
    imputer = SnapImputer("1:3", method=method)
    with pytest.raises(ValueError, match=r"(Posterior|Blend) has no parameter 'rang': it has"):
        imputer.set_params(method__rang=2)
    with pytest.raises(ValueError, match="Invalid parameter 'lam'"):
        imputer.set_params(lam=2.0)
    assert imputer.method is method


def test_a_seed_of_the_estimator_reaches_an_expert_that_leaves_it_open():
    """A name and an open seed take that of the estimator; a seed that was given to the expert stays."""
    for method, seed in ((FEW[1], 5), (dataclasses.replace(FEW[1], random_state=2), 2), ("proximal", 5)):
        imputer = SnapImputer("1:3", method=method, random_state=5)
        assert imputer._expert().random_state == seed
    assert FEW[1].random_state is None


@pytest.mark.parametrize(
    "method", [FEW[1], FEW, si.Blend(tuple(FEW[1:])), "auto"], ids=["expert", "list", "blend", "name"]
)
def test_clones_have_the_same_parameters(method):
    """A clone is not fitted; its expert is equal and fits to the same."""
    imputer = SnapImputer("1:3", method=method, min_confidence=0.2, time_limit=60.0)
    copy = clone(imputer)
    assert repr(copy) == repr(imputer)
    assert not hasattr(copy, "fit_")
    if method != "auto":
        np.testing.assert_array_equal(copy.fit(X).transform(X), imputer.fit(X).transform(X))


def test_a_grid_search_over_a_parameter_of_the_expert():
    """GridSearchCV tries ``method__rank`` of an expert that was given by name or as an object."""
    for method in (QUICK, "posterior"):
        imputer = SnapImputer("1:3", method=method).set_params(method__sweeps=15)
        search = GridSearchCV(imputer, {"method__rank": [1, 2]}, cv=2, error_score="raise").fit(X)
        assert set(search.best_params_) == {"method__rank"}
        assert search.best_estimator_.method.rank == search.best_params_["method__rank"]
        assert 0 < search.best_score_ <= 1


# -------------------------------------------------------------------- an expert of one's own
class Middle(si.Expert):
    """Every missing cell has the middle symbol, as surely as ``sure`` says."""

    name = "middle"

    def __init__(self, sure: float = 0.9) -> None:
        self.sure = sure

    def fit(self, observations: Observations, alphabet: Any, **told: Any) -> si.ExpertFit:
        if told.get("callback") is not None:
            told["callback"]("one step")
        return MiddleFit(observations, alphabet, self.sure)


class MiddleFit(si.ExpertFit):
    def __init__(self, observations: Observations, alphabet: Any, sure: float) -> None:
        super().__init__(observations, alphabet)
        self.sure = sure

    def chances(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        return np.tile([(1 - self.sure) / 2, self.sure, (1 - self.sure) / 2], (rows.size, 1))


class Knowing(MiddleFit):
    def fold_in(self, observations: Observations, *, row_features: Any = None) -> MiddleFit:
        return Knowing(observations, self.schema, self.sure)


def test_an_expert_of_ones_own_answers_alone():
    """It takes parameters, callbacks and clones; new rows need a `fold_in`; no file holds its class."""
    seen: list[Any] = []
    imputer = SnapImputer("1:3", method=Middle(), callback=seen.append).fit(X)
    assert seen == ["one step"]
    assert (imputer.transform(X)[np.isnan(X)] == 2).all()
    assert imputer.blend_ == {"middle": 1.0}
    np.testing.assert_allclose(imputer.predict_proba(0, 0), [0.05, 0.9, 0.05])
    np.testing.assert_allclose(imputer.set_params(method__sure=0.5).fit(X).predict_proba(0, 0), [0.25, 0.5, 0.25])
    assert clone(imputer).method.sure == 0.5
    with pytest.raises(ValueError, match="MiddleFit says nothing of new rows"):
        imputer.transform(X[:3])
    with pytest.raises(ValueError, match="row_features"):
        imputer.fit(X, row_features=np.ones((24, 1)))
    imputer.set_params(callback=None)
    with pytest.raises(TypeError, match="Middle"):
        imputer.save("nowhere.snap")


def test_an_expert_of_ones_own_in_a_list(monkeypatch):
    """It is weighed beside the others: out where it knows nothing, in where it is right."""
    imputer = SnapImputer("1:3", method=[*FEW[:2], Middle()]).fit(X)
    reasons = {one.name: one.reason for one in imputer.experts_}
    assert reasons["middle"] == "it adds nothing to the others"
    assert "middle" not in imputer.blend_
    twos = np.where(np.isnan(X), NAN, 2.0)
    twos[0, :2] = [1, 3]
    monkeypatch.setattr(
        Middle, "fit", lambda self, observations, alphabet, **told: Knowing(observations, alphabet, 0.99)
    )
    found = SnapImputer("1:3", method=[Middle(), "habits"]).fit(twos)
    assert "middle" in found.blend_
    assert (found.transform(X[:3])[np.isnan(X[:3])] == 2).all()


# -------------------------------------------------------------------- time, progress, interruptions
def test_a_time_limit_keeps_the_best_so_far():
    """Hardly any time: one expert at least is fitted, the others say why they were not."""
    imputer = SnapImputer("1:3", method=FEW, time_limit=1e-6).fit(X)
    assert imputer.blend_ == {"habits": 1.0}
    assert {one.reason for one in imputer.experts_[1:]} == {"the time limit left no time for it"}
    assert imputer.status_.code == "stopped"
    check_filled(X, imputer.transform(X))


def test_progress_tells_each_step_and_callback_those_of_the_last_fits(capsys):
    """Steps count up to what was announced; both can be printed."""
    steps: list[Step] = []
    imputer = SnapImputer("1:3", method=FEW, progress=steps.append).fit(X)
    assert {one.name for one in steps} == {"habits", "proximal", QUICK.label}
    assert [one.done for one in steps] == list(range(1, len(steps) + 1))
    assert {one.stage for one in steps} == {"held out", "everything"}
    last = [one for one in steps if one.stage == "everything"]
    assert [one.name for one in last] == list(imputer.blend_)
    assert last[-1].steps >= last[-1].done
    sweeps: list[Any] = []
    SnapImputer("1:3", method=[QUICK], progress=print, callback=sweeps.append).fit(X)
    assert f"{QUICK.label}, everything (step" in capsys.readouterr().out
    assert sweeps
    assert all(isinstance(one, Sweep) for one in sweeps)


def test_progress_and_callback_change_no_number(blend):
    """Verbosity never does."""
    other = SnapImputer("1:3", method=FEW, progress=lambda _: None, callback=lambda _: None).fit(X)
    np.testing.assert_array_equal(
        other.predict_proba(*np.indices(X.shape)), blend.predict_proba(*np.indices(X.shape))
    )


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_an_interruption_keeps_the_best_so_far(stop):
    """From `progress`, after any step: the script ends, and the imputer can be used and saved."""
    steps: list[Step] = []

    def stopping(step: Step) -> None:
        steps.append(step)
        if len(steps) == stop:
            raise KeyboardInterrupt

    imputer = SnapImputer("1:3", method=FEW, progress=stopping)
    with pytest.raises(KeyboardInterrupt, match="interrupted: the best so far is kept"):
        imputer.fit(X)
    assert imputer.status_.code == "interrupted"
    check_filled(X, imputer.transform(X))
    assert set(imputer.blend_) <= {one.name for one in steps}


def test_an_interruption_of_the_last_fit_keeps_what_was_held_out_from(monkeypatch):
    """From `callback`, in the last fit of an expert: what it knew then is kept."""

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        imputer = SnapImputer("1:3", method=[FEW[1]], callback=stop)
        with pytest.raises(KeyboardInterrupt, match="the best so far is kept"):
            imputer.fit(X)
    assert imputer.status_.code == "interrupted"
    assert isinstance(imputer.fit_.members[0].fit, ProximalFit)
    check_filled(X, imputer.transform(X))


def test_an_interruption_before_anything_was_fitted_keeps_nothing(monkeypatch):
    """There is nothing to keep, and no half-fitted estimator."""

    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(si.Habits, "fit", stop)
    imputer = SnapImputer("1:3", method=["habits"])
    with pytest.raises(KeyboardInterrupt, match="before any expert was fitted"):
        imputer.fit(X)
    with pytest.raises(NotFittedError):
        imputer.transform(X)


# -------------------------------------------------------------------- square tables
def links(symmetric: bool) -> np.ndarray:
    """Who knows whom among two groups; a fifth of the pairs is not known."""
    rng = np.random.default_rng(8)
    group = np.arange(16) % 2
    table = (rng.random((16, 16)) < np.where(group[:, None] == group, 0.9, 0.1)).astype(float)
    lost = rng.random((16, 16)) < 0.2
    if symmetric:
        table, lost = np.triu(table, 1) + np.triu(table, 1).T, np.triu(lost) | np.triu(lost).T
    np.fill_diagonal(lost, True)
    return np.where(lost, NAN, table)


SQUARE: list[Any] = ["habits", si.Proximal(lam=1.0, xi=0.0, center="mean")]


def test_a_symmetric_table_has_symmetric_answers():
    """A cell and its mirror are one cell, in the probabilities and in the symbols; one half is enough."""
    whole = links(symmetric=True)
    imputer = SnapImputer([0, 1], method=SQUARE).fit(whole, square=True)
    assert imputer.fit_.square == "symmetric"
    rows, cols = np.indices(whole.shape)
    p = imputer.predict_proba(rows, cols)
    np.testing.assert_allclose(p, p.transpose(1, 0, 2), rtol=1e-12)
    out = imputer.transform(whole)
    np.testing.assert_array_equal(out, out.T)
    half = np.where(rows < cols, whole, NAN)
    other = SnapImputer([0, 1], method=SQUARE).fit(half, square=True)
    np.testing.assert_allclose(other.predict_proba(rows, cols), p, rtol=1e-12)
    assert SnapImputer([0, 1], method=SQUARE).fit(whole).fit_.square == "no"
    labels = [f"v{i}" for i in range(16)]
    named = Observations.from_dense(whole, row_labels=labels, col_labels=labels)
    assert SnapImputer([0, 1], method=SQUARE).fit(named).fit_.square == "symmetric"
    assert SnapImputer([0, 1], method=SQUARE).fit(named, square=False).fit_.square == "no"


def test_a_directed_table_is_filled_and_takes_no_new_rows():
    """A link and its mirror are two cells; a new row would be a new column, too."""
    table = links(symmetric=False)
    imputer = SnapImputer([0, 1], method=SQUARE).fit(table, square=True)
    assert imputer.fit_.square == "directed"
    check_filled(table, imputer.transform(table), (0, 1))
    with pytest.raises(ValueError, match="a new row of a square table is a new column"):
        imputer.transform(table[:4])
    check_filled(table, si.complete(table, [0, 1], method=SQUARE, square=True), (0, 1))


# -------------------------------------------------------------------- features
def test_features_go_to_the_experts_that_use_them():
    """A blend takes features of rows for its posterior; one without any such expert ignores none silently."""
    features = np.nan_to_num(X[:, :1], nan=2.0)
    imputer = SnapImputer("1:3", method=FEW).fit(X, row_features=features)
    check_filled(X, imputer.transform(X, row_features=features))
    assert SnapImputer("1:3", method=FEW[1]).fit(X)
    with pytest.raises(ValueError, match="row_features"):
        SnapImputer("1:3", method=FEW[1]).fit(X, row_features=features)
