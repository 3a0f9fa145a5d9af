"""Links: counts against dense products, symmetric tables, calibrated answers, refusals, threads and files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute.base.clock import Clock
from snapimpute.base.errors import ArgumentError
from snapimpute.data.alphabet import Alphabet, Nominal
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.boosting import BoostedTrees
from snapimpute.experts.links import LINKS_KINDS, Links, LinksFit, PathFeatures
from snapimpute.experts.links._square import Square
from snapimpute.experts.links._training import Lesson, dealt, sampled
from snapimpute.experts.links.fit import FILE_KINDS

SMALL = Links(folds=4, rounds=60, sets=2)
BINARY = Alphabet.of("0,1")


def blocks(size: int, *, symmetric: bool, known: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A planted block model with busy and quiet nodes; return the chances of links, and the table with gaps."""
    rng = np.random.default_rng(seed)
    groups, busy = np.arange(size) % 4, rng.uniform(0.3, 1.7, size)
    chances = np.where(groups[:, None] == groups, 0.35, 0.03) * busy[:, None] * busy
    if not symmetric:
        chances = np.where((groups[:, None] + 1) % 4 == groups, 0.35, 0.03) * busy[:, None] * busy[::-1]
    table, hidden = (rng.random((size, size)) < chances).astype(float), rng.random((size, size)) > known
    if symmetric:
        table, hidden = np.triu(table, 1) + np.triu(table, 1).T, np.triu(hidden, 1) | np.triu(hidden, 1).T
    table[hidden | np.eye(size, dtype=bool)] = np.nan
    return chances, table


def answers(fit: LinksFit, symmetric: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Missing cells off the diagonal, and the probability of a link there."""
    rows, cols = fit.missing()
    some = (rows < cols) if symmetric else (rows != cols)
    rows, cols = rows[some], cols[some]
    return rows, cols, fit.proba(rows, cols)[:, 1]


def cross_entropy(chances: np.ndarray, p: np.ndarray) -> float:
    """Expected log loss where the chances are known."""
    return float(-np.mean(chances * np.log(p) + (1 - chances) * np.log(1 - p)))


FITS: dict[bool, LinksFit] = {}


def fitted(symmetric: bool) -> LinksFit:
    """Each kind of table once."""
    if symmetric not in FITS:
        _, table = blocks(90, symmetric=symmetric, known=0.7)
        FITS[symmetric] = SMALL.fit(Observations.from_dense(table), "0,1")
    return FITS[symmetric]


# ---------------------------------------------------------------- features
@pytest.mark.parametrize("symmetric", [False, True])
def test_counts_are_products_of_matrices(symmetric):
    """Common neighbours and paths of a pair are entries of products of the adjacency matrix."""
    _, table = blocks(30, symmetric=symmetric, known=0.6)
    features = PathFeatures.of(Observations.from_dense(table), BINARY, share=0.5)
    rows, cols = (one.ravel() for one in np.indices(table.shape))
    above = rows < cols if symmetric else rows != cols
    found = dict(zip(features.names, features.at(rows[above], cols[above]).T, strict=True))
    A = np.nan_to_num(table)
    B = np.maximum(A, A.T)
    d, o, e = (np.maximum(one, 1) for one in (B.sum(0), A.sum(1), A.sum(0)))
    N = B / np.sqrt(d[:, None] * d)
    truth = {
        "1: common either": 4 * B @ B,
        "1: allocated either": 2 * (B / d) @ B,
        "1: rare common either": 4 * (B / np.log(np.maximum(2 * B.sum(0) + 1, 2))) @ B,
        "1: two steps": N @ N,
        "1: three steps": N @ N @ N,
        "1: Jaccard": B @ B / np.maximum(B.sum(0)[:, None] + B.sum(0) - B @ B, 1),
    }
    if not symmetric:
        mean = A.mean(axis=0).sum()
        S = np.outer(1 / np.sqrt(np.maximum(A.sum(1) + mean, 1)), 1 / np.sqrt(np.maximum(A.sum(0) + mean, 1)))
        truth |= {
            "1: common out-out": 4 * A @ A.T,
            "1: common out-in": 4 * A @ A,
            "1: common in-out": 4 * A.T @ A.T,
            "1: common in-in": 4 * A.T @ A,
            "1: allocated out-out": 2 * (A / e) @ A.T,
            "1: alike rows": (A / e) @ (A.T / o) @ A * S,
            "1: three steps ahead": (A / np.sqrt(o * e)) @ (A / np.sqrt(o * e)) @ A * S,
            "1: out of row": np.tile(2 * A.sum(1)[:, None], 30),
            "1: out of row's column": np.tile(2 * A.sum(0)[:, None], 30),
            "mirror": table.T,
        }
    for name, product in truth.items():
        assert_allclose(found[name], product[rows[above], cols[above]], rtol=1e-5, atol=1e-6, err_msg=name)


def test_factors_are_a_truncated_svd():
    """All factors of a small graph give its normalised matrix back; two give the best one of rank two."""
    _, table = blocks(25, symmetric=False, known=0.8)
    features = PathFeatures.of(Observations.from_dense(table), BINARY)
    A = np.nan_to_num(table)
    mean = A.sum() / 25
    N = A / np.sqrt((A.sum(1)[:, None] + mean) * (A.sum(0) + mean))
    rows, cols = (one.ravel() for one in np.indices(A.shape))
    found = dict(zip(features.names, features.at(rows, cols).T, strict=True))
    assert_allclose(found["1: 32 factors"], N.ravel(), atol=1e-5)
    assert_allclose(found["1: 32 factors of the mirror"], N.T.ravel(), atol=1e-5)
    U, s, V = np.linalg.svd(N)
    assert_allclose(found["1: 2 factors"], ((U[:, :2] * s[:2]) @ V[:2]).ravel(), atol=1e-5)


def test_features_do_not_know_their_cell():
    """Features of a pair from a table without it are the same whatever the cell holds."""
    _, table = blocks(30, symmetric=False, known=1.0)
    found = []
    for value in (0.0, 1.0):
        table[3, 7] = value
        square = Square.of(Observations.from_dense(table), BINARY)
        kept = (square.rows != 3) | (square.cols != 7)
        found.append(PathFeatures(square.take(kept), 1.0).at([3], [7]))
    assert_array_equal(*found)


def test_each_uncommon_symbol_has_features():
    """A table of four symbols has the features of three graphs, and tells the symbol of the mirror."""
    rng = np.random.default_rng(0)
    table = rng.choice(4, size=(20, 20), p=[0.1, 0.1, 0.7, 0.1])
    features = PathFeatures.of(Observations.from_dense(table), "0:3", symmetric=False)
    assert {name.split(":")[0] for name in features.names if ":" in name} == {"0", "1", "3"}
    found = dict(zip(features.names, features.at([1, 2], [5, 9]).T, strict=True))
    assert_array_equal(found["mirror"], [table[5, 1], table[9, 2]])


# ---------------------------------------------------------------- symmetric tables
def test_a_symmetric_table_is_found():
    """Mirrors that agree make a table symmetric, also on one side or with gaps; one that differs does not."""
    _, table = blocks(60, symmetric=True, known=0.7)
    upper, gaps = np.where(np.triu(np.ones_like(table)) > 0, table, np.nan), table.copy()
    gaps[np.random.default_rng(0).random(gaps.shape) < 0.1] = np.nan
    for one in (table, upper, upper.T, gaps):
        assert Square.of(Observations.from_dense(one), BINARY).symmetric
    i, j = np.argwhere(table == 1)[0]
    table[i, j] = 0
    assert not Square.of(Observations.from_dense(table), BINARY).symmetric
    assert not fitted(symmetric=False).symmetric
    with pytest.raises(ArgumentError, match=rf"1 cell\(s\) differ from their mirrors, first \({i}, {j}\)"):
        Square.of(Observations.from_dense(table), BINARY, symmetric=True)


def test_a_cell_and_its_mirror_are_one_cell():
    """Each pair of a symmetric table is taken once, so its mirror is hidden with it, and answered alike."""
    fit = fitted(symmetric=True)
    square = fit.features.square
    assert (square.rows < square.cols).all()
    assert len(fit.observations) == 2 * square.codes.size
    rows, cols, p = answers(fit, symmetric=True)
    assert_array_equal(fit.proba(cols, rows)[:, 1], p)
    drawn = fit.draw(2, np.append(rows, cols), np.append(cols, rows))
    assert_array_equal(drawn[:, : rows.size], drawn[:, rows.size :])


def test_one_side_of_a_symmetric_table_tells_the_other():
    """Where only one of both cells is known, the other is, too."""
    _, table = blocks(60, symmetric=True, known=0.7)
    upper = np.where(np.triu(np.ones_like(table)) > 0, table, np.nan)
    fit = SMALL.fit(Observations.from_dense(upper), BINARY)
    rows, cols = np.nonzero(upper == 1)
    assert (fit.proba(cols, rows)[:, 1] > 0.999).all()


# ---------------------------------------------------------------- training
def test_folds_and_samples_keep_symbols_apart():
    """Folds share each symbol evenly; rare symbols are all taken, and weights count all cells."""
    rng = np.random.default_rng(0)
    codes = rng.choice(3, 5000, p=[0.9, 0.08, 0.02])
    fold = dealt(codes, 4, rng)
    for symbol in range(3):
        counts = np.bincount(fold[codes == symbol], minlength=4)
        assert np.ptp(counts) <= 1
    picked, weights = sampled(codes, 3, 900, rng)
    assert picked.size == np.unique(picked).size <= 900
    assert weights[2] == 1.0
    assert_allclose(np.bincount(codes[picked], weights[codes[picked]]), np.bincount(codes))


def test_a_lesson_hides_each_fold():
    """Features of a known cell come from a table without its fold."""
    _, table = blocks(40, symmetric=False, known=0.7)
    square = Square.of(Observations.from_dense(table), BINARY)
    lesson = Lesson.of(square, 3, 10_000, 0, Clock())
    assert lesson.codes.size == square.codes.size
    fold = dealt(square.codes, 3, np.random.default_rng(0))
    some = fold == 1
    hidden = PathFeatures(square.take(~some), float((~some).mean()))
    assert_array_equal(lesson.features[lesson.folds == 1], hidden.at(square.rows[some], square.cols[some]))


# ---------------------------------------------------------------- answers
@pytest.mark.parametrize("symmetric", [False, True])
def test_better_than_degrees_alone(symmetric):
    """On a planted block model the answers are closer to the truth than those of trees on degrees."""
    chances, table = blocks(150, symmetric=symmetric, known=0.7)
    observations = Observations.from_dense(table)
    fit = SMALL.fit(observations, BINARY)
    rows, cols, p = answers(fit, symmetric)
    square = fit.features.square
    degrees = [i for i, name in enumerate(fit.features.names) if "out of" in name or "share" in name]
    simple = BoostedTrees.fit(fit.features.at(square.rows, square.cols)[:, degrees], square.codes, rounds=60)
    rival = simple.proba(fit.features.at(rows, cols)[:, degrees])[:, 1]
    truth = chances[rows, cols].clip(1e-6, 1 - 1e-6)
    least = cross_entropy(truth, truth)
    assert cross_entropy(truth, p) - least < 0.5 * (cross_entropy(truth, rival) - least)


def test_answers_are_calibrated():
    """The mean probability is the share of links, overall and among the likely ones."""
    chances, table = blocks(150, symmetric=False, known=0.6)
    rows, cols, p = answers(SMALL.fit(Observations.from_dense(table), BINARY), symmetric=False)
    truth = chances[rows, cols].clip(0, 1)
    for some in (p > 0, p > np.quantile(p, 0.8), p < np.quantile(p, 0.5)):
        assert_allclose(p[some].mean(), truth[some].mean(), rtol=0.15, atol=0.005)


def test_a_sample_of_common_cells_keeps_the_probabilities():
    """Trees on few of the common cells give about the same mean as on all of them."""
    _, table = blocks(120, symmetric=False, known=0.7)
    observations = Observations.from_dense(table)
    few, whole = (Links(folds=4, rounds=40, sets=2, cells=cells).fit(observations, BINARY) for cells in (3000, 10**6))
    assert few.diagnostics is not None
    assert few.diagnostics.cells <= 3000
    assert_allclose(answers(few, False)[2].mean(), answers(whole, False)[2].mean(), rtol=0.1)


def test_known_cells_are_certain_and_the_diagonal_has_frequencies():
    """A known cell has its symbol; a missing one on the diagonal the frequencies of the diagonal."""
    _, table = blocks(40, symmetric=False, known=0.8)
    table[np.arange(30), np.arange(30)] = 1.0
    fit = SMALL.fit(Observations.from_dense(table), BINARY)
    rows, cols = np.nonzero(~np.isnan(table))
    assert_array_equal(fit.mean(rows, cols).round(3), table[rows, cols])
    assert (fit.proba(np.arange(30, 40), np.arange(30, 40))[:, 1] > 0.9).all()


def test_several_symbols():
    """Four symbols of a table with planted groups: better than their frequencies."""
    rng = np.random.default_rng(0)
    groups = np.arange(80) % 4
    symbols = np.where(rng.random((80, 80)) < 0.7, (groups[:, None] + 3 * groups) % 4, rng.integers(0, 4, (80, 80)))
    table = np.where(rng.random((80, 80)) < 0.7, symbols, np.nan)
    fit = Links(folds=3, rounds=30, sets=1).fit(Observations.from_dense(table), Nominal([0.0, 1.0, 2.0, 3.0]))
    rows, cols = fit.missing()
    p = fit.proba(rows, cols)
    assert_allclose(p.sum(axis=1), 1)
    assert (p.argmax(axis=1) == symbols[rows, cols]).mean() > 0.6
    assert set(np.unique(fit.draw(1, rows, cols))) <= {0.0, 1.0, 2.0, 3.0}


def test_draws_have_the_probabilities():
    """Drawn tables have links as often as they are probable, and a seed gives the same tables."""
    fit = fitted(symmetric=False)
    rows, cols, p = answers(fit, symmetric=False)
    drawn = fit.draw(50, rows, cols, random_state=3)
    assert_allclose(drawn.mean(), p.mean(), rtol=0.05)
    assert np.corrcoef(drawn.mean(axis=0), p)[0, 1] > 0.8
    assert_array_equal(drawn, fit.draw(50, rows, cols, random_state=3))


@pytest.mark.parametrize("cells", [{(0, 1): 1}, {(0, 1): 1, (1, 2): 0}, {(0, 0): 1, (1, 0): 0, (0, 1): 0}])
def test_tiny_tables(cells):
    """One, two or three known cells are enough for an answer."""
    rows, cols = zip(*cells, strict=True)
    fit = Links().fit(Observations.from_coo(rows, cols, list(cells.values()), (4, 4)), BINARY)
    assert np.isfinite(fit.proba(*fit.missing())).all()


# ---------------------------------------------------------------- the house around it
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_same_bits_on_any_number_of_threads(symmetric, monkeypatch):
    """One thread and three give the same answers."""
    _, table = blocks(120, symmetric=symmetric, known=0.7)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", threads)
        fit = SMALL.fit(Observations.from_dense(table), BINARY)
        found.append(answers(fit, symmetric)[2])
    assert_array_equal(*found)


def test_files_hold_fits(tmp_path):
    """A fit that was saved and read gives the same bits; its classes are listed."""
    fit = fitted(symmetric=False)
    fit.save(tmp_path / "fit")
    again = LinksFit.load(tmp_path / "fit")
    assert_array_equal(answers(again, False)[2], answers(fit, False)[2])
    assert again.history == fit.history
    assert again.diagnostics == fit.diagnostics
    assert set(LINKS_KINDS) <= set(FILE_KINDS)


def test_a_fit_says_how_it_went():
    """Each set of trees is a step; the diagnostics compare with frequencies; the callback ends the fit."""
    fit = fitted(symmetric=False)
    assert [step.number for step in fit.history] == [0, 1]
    assert fit.status.code == "max_iter"
    assert fit.diagnostics is not None
    assert fit.diagnostics.loss < fit.diagnostics.baseline
    assert "trees on" in str(fit.diagnostics)
    stopped = SMALL.fit(fit.observations, BINARY, callback=lambda step: True)
    assert (stopped.status.code, len(stopped.history)) == ("stopped", 1)


def test_time_that_is_over_leaves_an_answer():
    """Without time the answers are frequencies, or those of a few trees."""
    _, table = blocks(60, symmetric=False, known=0.7)
    fit = Links().fit(Observations.from_dense(table), BINARY, time_limit=0.0)
    assert fit.status.code == "stopped"
    assert_allclose(answers(fit, False)[2].mean(), np.nanmean(table), atol=0.03)


SEEN = Observations.from_dense(blocks(20, symmetric=False, known=0.7)[1])
REFUSED: dict[str, tuple[Links, Observations, Any, dict[str, Any], str]] = {
    "not square": (SMALL, Observations.from_dense(np.eye(4)[:3]), "0,1", {}, "square table"),
    "many symbols": (SMALL, SEEN, "0:9", {}, "at most 8 symbols"),
    "columns differ": (SMALL, SEEN, ColumnSchema.of({0: "0:3"}, 20, default="0,1"), {}, "one alphabet"),
    "row features": (SMALL, SEEN, "0,1", {"row_features": np.ones((20, 1))}, "leave row_features out"),
    "column features": (SMALL, SEEN, "0,1", {"column_features": np.ones((20, 1))}, "leave column_features out"),
    "symmetric": (SMALL, SEEN, "0,1", {"symmetric": "yes"}, "symmetric must be"),
    "folds": (Links(folds=1), SEEN, "0,1", {}, "folds must be a whole number"),
    "diagonal only": (SMALL, Observations.from_coo([0, 1], [0, 1], [0, 1], (2, 2)), "0,1", {}, "off the diagonal"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_links_cannot_do_is_refused(name):
    """Tables, alphabets and parameters that do not fit are errors that say what to do."""
    model, observations, alphabet, more, told = REFUSED[name]
    with pytest.raises(ArgumentError, match=told):
        model.fit(observations, alphabet, **more)


def test_new_rows_are_refused():
    """A new row would be a new column, too."""
    with pytest.raises(ValueError, match="a new column, too"):
        fitted(symmetric=True).fold_in(SEEN)
