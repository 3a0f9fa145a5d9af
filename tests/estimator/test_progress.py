"""What an estimator keeps of labels, tells while it tunes, and keeps when it is interrupted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import snapimpute as si
from snapimpute import Observations
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.proximal.model import in_units
from snapimpute.experts.proximal.tuned import TuningInterruptedError, tune
from snapimpute.experts.proximal.tuning import Candidate, Search
from snapimpute.solvers import APG
from tests.helpers import proximal

DATA = low_rank_alphabet((30, 20), rank=2, alphabet="1:5", observed=0.6, random_state=0).observations
NAMED = Observations.from_coo(
    DATA.rows,
    DATA.cols,
    DATA.values,
    DATA.shape,
    row_labels=[f"r{i}" for i in range(30)],
    col_labels=np.arange(100, 120),
)
GIVEN: dict[str, Any] = {"lam": 2.0, "xi": 0.01, "center": "mean"}


class Seen(list[Candidate]):
    """Collects candidates, and interrupts at one of them."""

    def __init__(self, stop: int | None = None) -> None:
        super().__init__()
        self.stop = stop

    def __call__(self, candidate: Candidate) -> None:
        self.append(candidate)
        if len(self) == self.stop:
            raise KeyboardInterrupt


# -------------------------------------------------------------------- observations
def test_observations_are_fitted_like_a_sparse_matrix():
    """The same numbers, whatever labels there are, which only choose the cells to calibrate on; the same table."""
    given = {**GIVEN, "decide": "nearest"}
    one, other = proximal("1:5", **given).fit(NAMED), proximal("1:5", **given).fit(NAMED.to_sparse())
    for name in ("left_", "singular_values_", "right_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.transform(NAMED), other.transform(NAMED.to_sparse()))
    np.testing.assert_array_equal(one.fit_transform(NAMED), other.fit_transform(NAMED.to_sparse()))
    assert one.row_labels_.tolist() == [f"r{i}" for i in range(30)]
    assert one.col_labels_.tolist() == list(range(100, 120))
    assert other.row_labels_ is None
    assert other.col_labels_ is None
    one, other = proximal("1:5", **GIVEN).fit(DATA), proximal("1:5", **GIVEN).fit(DATA.to_sparse())
    cells = np.indices(DATA.shape)
    np.testing.assert_array_equal(one.predict_proba(*cells), other.predict_proba(*cells))


def test_observations_of_labels_are_fitted_like_a_table_of_labels():
    """Their values are positions in the alphabet; what is predicted are labels."""
    levels = ["low", "mid", "high"]
    codes = np.clip(np.round((DATA.values - 1) / 2), 0, 2)
    table = np.full(DATA.shape, None, dtype=object)
    table[DATA.rows, DATA.cols] = np.array(levels, dtype=object)[codes.astype(int)]
    one = proximal(levels, **GIVEN).fit(DATA.with_values(codes))
    other = proximal(levels, **GIVEN).fit(table)
    rows, cols = np.indices(DATA.shape).reshape(2, -1)
    np.testing.assert_array_equal(one.left_, other.left_)
    np.testing.assert_array_equal(one.predict(rows, cols), other.predict(rows, cols))
    assert set(one.predict(rows, cols)) <= set(levels)


def test_a_column_that_is_called_row_labels_is_a_column():
    """Only observations have labels of rows."""
    frame = pd.DataFrame(DATA.to_sparse().toarray(), columns=["row_labels", "col_labels", *range(18)]).astype(float)
    frame = frame.where(frame != 0)
    frame.columns = frame.columns.astype(str)
    imputer = proximal("1:5", **GIVEN).fit(frame)
    assert imputer.row_labels_ is None
    assert imputer.col_labels_ is None


@pytest.mark.parametrize(
    "labels",
    [
        [f"r{i}" for i in range(30)],
        list(range(30)),
        np.array([f"Amélie {i}" for i in range(30)], dtype=object),
        [*range(29), "last"],
    ],
    ids=["text", "numbers", "objects", "both"],
)
def test_labels_are_saved_with_the_model(tmp_path, labels):
    """Text, numbers and objects come back as they were."""
    table = Observations.from_coo(DATA.rows, DATA.cols, DATA.values, DATA.shape, row_labels=labels)
    imputer = proximal("1:5", **GIVEN).fit(table)
    imputer.source_ = {"layout": "triplets", "names": ["a", "b", "c"]}  # as the command does
    imputer.save(tmp_path / "m.snap")
    again = si.load(tmp_path / "m.snap")
    assert again.row_labels_.tolist() == list(labels)
    assert again.col_labels_ is None
    assert again.source_ == imputer.source_


# -------------------------------------------------------------------- progress
def test_progress_is_called_with_every_candidate():
    """As each is scored: both centres, all λ and ξ; those of the centre that was kept are in the choice, in order."""
    seen = Seen()
    imputer = si.SnapImputer("1:5", progress=seen, method="proximal").fit(DATA)
    assert all(isinstance(one, Candidate) for one in seen)
    kept = [one for one in seen if one in imputer.choice_.tried]
    assert kept == list(imputer.choice_.tried)
    assert len(seen) > len(kept)  # the other centre
    assert {one.xi for one in seen} >= {0.0, imputer.xi_}
    one_center = Seen()
    imputer = si.SnapImputer("1:5", method=si.Proximal(center="mean"), progress=one_center).fit(DATA)
    assert tuple(one_center) == imputer.choice_.tried


def test_progress_changes_no_number():
    """Verbosity never does."""
    one, other = (
        si.SnapImputer("1:5", progress=progress, method="proximal").fit(DATA) for progress in (Seen(), None)
    )
    np.testing.assert_array_equal(one.left_, other.left_)
    assert (one.lam_, one.xi_) == (other.lam_, other.xi_)


def test_nothing_is_told_where_nothing_is_tuned():
    """The fit that calibrates is no tuning."""
    seen = Seen()
    proximal("1:5", progress=seen, **GIVEN).fit(DATA)
    assert seen == []


def test_progress_is_no_part_of_a_model_file(tmp_path):
    """It is code, like a callback."""
    imputer = proximal("1:5", progress=print, **GIVEN).fit(DATA)
    with pytest.raises(ValueError, match=r"set_params\(callback=None, progress=None\) before save"):
        imputer.save(tmp_path / "m.snap")
    imputer.set_params(progress=None).save(tmp_path / "m.snap")


# -------------------------------------------------------------------- interruptions
@pytest.mark.parametrize("stop", [1, 3, 8])
def test_an_interrupted_tuning_keeps_the_best_so_far(stop):
    """The best of what was tried is fitted to everything and can be used; the script does not go on."""
    seen, exact = Seen(stop), {"tol": 1e-9, "max_iter": 5000}
    imputer = proximal("1:5", progress=seen, **exact)
    with pytest.raises(KeyboardInterrupt, match="the best so far is kept"):
        imputer.fit(DATA)
    assert len(seen) == stop
    assert set(imputer.choice_.tried) <= set(seen)
    assert (imputer.lam_, imputer.xi_) in {(one.lam, one.xi) for one in seen}
    assert imputer.status_.code == "interrupted"
    assert set(np.unique(imputer.transform(DATA))) <= {1, 2, 3, 4, 5}
    p = imputer.predict_proba([0, 1], [2, 3])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    again = proximal("1:5", lam=imputer.lam_, xi=imputer.xi_, center=imputer.center_, **exact).fit(DATA)
    np.testing.assert_allclose(again.predict_mean(0, range(20)), imputer.predict_mean(0, range(20)), atol=1e-6)


def test_the_center_that_was_best_so_far_is_kept():
    """Both had begun: the one with the lower score."""
    first = Seen()
    si.SnapImputer("1:5", method=si.Proximal(center="mean", xi=0.0), progress=first).fit(DATA)
    rises = (k for k in range(1, len(first)) if first[k].lam >= first[k - 1].lam)  # at the end of the path
    first = first[: next(rises, len(first))]
    seen = Seen(len(first) + 3)
    imputer = si.SnapImputer("1:5", progress=seen, method="proximal")
    with pytest.raises(KeyboardInterrupt):
        imputer.fit(DATA)
    means, biases = seen[: len(first)], seen[len(first) :]
    assert list(means) == list(first)
    best = "mean" if min(c.score for c in means) <= min(c.score for c in biases) else "biases"
    assert imputer.center_ == best


def test_an_interruption_in_the_middle_of_a_score_keeps_what_was_scored(monkeypatch):
    """Whenever the signal comes, what was tried can be chosen."""
    real, count = Search._as_good, [0]

    def stop(self, one, best):
        count[0] += 1
        if count[0] == 1:
            raise KeyboardInterrupt
        return real(self, one, best)

    monkeypatch.setattr(Search, "_as_good", stop)
    imputer = si.SnapImputer("1:5", method=si.Proximal(center="mean"))
    with pytest.raises(KeyboardInterrupt):  # nothing was tried by then, and nothing is kept
        imputer.fit(DATA)
    assert not hasattr(imputer, "left_")
    count[0] = -5
    with pytest.raises(KeyboardInterrupt, match="the best so far is kept"):
        imputer.fit(DATA)
    assert hasattr(imputer, "left_")


def test_an_interruption_before_anything_was_tried_keeps_nothing(monkeypatch):
    """There is nothing to keep, and no half-fitted estimator."""

    def stop(*args: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapimpute.experts.proximal.tuned.best_damping", stop)
    imputer = si.SnapImputer("1:5", method="proximal")
    with pytest.raises(KeyboardInterrupt):
        imputer.fit(DATA)
    with pytest.raises(NotFittedError):
        imputer.transform(DATA)


def test_the_error_of_an_interrupted_choice_has_the_best():
    """`tune` raises it with the best that was found; it is a KeyboardInterrupt for all others."""
    assert issubclass(TuningInterruptedError, KeyboardInterrupt)
    seen, book = Seen(4), ColumnSchema.single(si.Alphabet.of("1:5"), 20)
    known = in_units(DATA, book.scale(DATA.cols, DATA.values))
    with pytest.raises(TuningInterruptedError) as caught:
        tune(known, si.Alphabet.of("1:5"), center="mean", progress=seen)
    tuned = caught.value.tuned
    assert tuned.choice is not None
    assert tuned.choice.tried == tuple(seen)
    assert (tuned.lam, tuned.xi) == (tuned.choice.lam, tuned.choice.xi)
    assert tuned.spec.center == "mean"
    best = min(seen, key=lambda one: one.score)
    assert tuned.lam >= best.lam  # the largest that is as good
    assert tuned.choice.held_out


def test_an_interruption_in_a_fit_of_the_tuning(monkeypatch):
    """Within the solver: what was scored before is kept."""
    real, count = APG.step, [0]

    def stop(self, problem, state, context):
        count[0] += 1
        if count[0] == 40:
            raise KeyboardInterrupt
        return real(self, problem, state, context)

    monkeypatch.setattr(APG, "step", stop)
    seen = Seen()
    imputer = si.SnapImputer("1:5", method=si.Proximal(solver="apg", center="mean"), progress=seen)
    with pytest.raises(KeyboardInterrupt):
        imputer.fit(DATA)
    assert count[0] > 40  # the last fit was made
    assert imputer.choice_.tried == tuple(seen)
    assert len(seen) > 0


def test_an_interrupted_last_fit_is_not_followed_by_another(monkeypatch):
    """With numbers given there would be one more, to calibrate on: an interruption means to come to an end."""
    calls: list[int] = []

    def stop(info: Any) -> None:
        calls.append(info.iteration)
        if info.iteration == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        "snapimpute.experts.proximal.fitting.Search", lambda *args, **more: pytest.fail("a further fit")
    )
    imputer = proximal("1:5", callback=stop, **GIVEN)
    with pytest.raises(KeyboardInterrupt):
        imputer.fit(DATA)
    assert calls == [1, 2, 3]
    assert imputer.status_.code == "interrupted"
    assert imputer.n_iter_ == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(np.unique(imputer.predict(0, range(20)))) <= {1, 2, 3, 4, 5}
        np.testing.assert_allclose(imputer.predict_proba(0, range(20)).sum(axis=1), 1)


# -------------------------------------------------------------------- estimates
def test_estimates_are_those_of_the_fitted_rows():
    """What the methods say of cells, in one object; nothing before a fit."""
    imputer = proximal("1:5", **GIVEN)
    with pytest.raises(NotFittedError):
        _ = imputer.estimates_
    imputer.fit(DATA)
    rows, cols = np.array([0, 3, 29]), np.array([1, 0, 19])
    np.testing.assert_array_equal(imputer.estimates_.mean(rows, cols), imputer.predict_mean(rows, cols))
    np.testing.assert_array_equal(imputer.estimates_.symbols(rows, cols), imputer.predict(rows, cols))
    np.testing.assert_array_equal(imputer.estimates_.proba(rows, cols), imputer.predict_proba(rows, cols))


def test_recommendations_leave_out_what_is_known():
    """Of every row, also of one where all is known."""
    X = DATA.to_sparse().toarray()
    X[5] = 3
    table = Observations.from_dense(np.where(X == 0, np.nan, X))
    imputer = proximal("1:5", **GIVEN).fit(table)
    assert imputer.recommend(5, 20).size == 0
    for row in range(30):
        known = set(table.cols[table.rows == row].tolist())
        found = imputer.recommend(row, 20)
        assert set(found.tolist()) == set(range(20)) - known
        assert (np.diff(imputer.predict_mean(row, found)) <= 0).all()
