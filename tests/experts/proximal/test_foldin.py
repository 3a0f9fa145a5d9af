"""Rows that a fit has not seen: they solve the objective of the fit, and rows of the fit come out as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import snapimpute as si
from snapimpute import L1, Alphabet, LowRank, Nuclear, Observations, Problem
from snapimpute.experts.proximal import foldin, model
from snapimpute.experts.proximal.foldin import OffsetModel, curvatures, fold_in, shrinkage
from snapimpute.experts.proximal.offsets import CENTERS, KnownCells, offsets
from snapimpute.experts.proximal.spec import ModelSpec
from snapimpute.linalg.kernels import lanes_solve
from snapimpute.penalties import ByColumn
from snapimpute.solvers import solve
from snapimpute.solvers._workload import FILLING_PASSES

SPECTRAL = {"nuclear": 2.0, "lsp": 4.0}


@pytest.fixture(scope="module")
def table() -> Observations:
    """Ratings of low rank, with a row and a column of which nothing is known."""
    data = si.datasets.low_rank_alphabet((30, 20), rank=2, alphabet="1:5", kind="blocks", observed=0.5)
    cells = data.observations
    return cells.take((cells.rows != 4) & (cells.cols != 7))


def orthonormal(n: int, rank: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, rank)))[0]


def row_objective(c: np.ndarray, problem: Problem, V: np.ndarray, w: np.ndarray) -> float:
    """The stated objective, cell by cell: fit, envelope of the discrete term, and ½ Σ w c²."""
    x = c.reshape(problem.shape[0], -1) @ V.T
    base = 0.0 if problem.offsets is None else problem.offsets.to_dense()
    cells = problem.observations
    observed = np.zeros(problem.shape, dtype=bool)
    observed[cells.rows, cells.cols] = True
    lost = 0.5 * float(np.sum(((x + base)[cells.rows, cells.cols] - cells.values) ** 2))
    if problem.discrete is not None:
        lost += float(np.sum(problem.discrete.envelope((x + base)[~observed])))
    return lost + 0.5 * float(np.sum(w * c.reshape(-1, V.shape[1]) ** 2))


# -------------------------------------------------------------------- rows of a fit
@pytest.mark.parametrize("spectral", SPECTRAL)
@pytest.mark.parametrize("xi", [0.0, 0.02])
@pytest.mark.parametrize("center", [None, *CENTERS])
def test_rows_of_a_converged_fit_fold_in_to_themselves(table, spectral, xi, center):
    """A row of the fit, given by its observed cells alone, gets the estimates that it had in the fit."""
    spec = ModelSpec(Alphabet.of("1:5"), spectral, "l1", center)
    problem = spec.problem(table, SPECTRAL[spectral], xi)
    x = solve(problem, tol=1e-10, max_iter=20_000).x
    assert x.rank > 0
    w = shrinkage(problem, x)
    again = fold_in(problem, x.V, w) @ x.V.T
    np.testing.assert_allclose(again, x.to_dense(), atol=2e-5)
    some = table.take((table.rows >= 10) & (table.rows < 15))  # nothing depends on the other rows
    few = Observations.from_coo(some.rows - 10, some.cols, some.values, (5, 20))
    base = OffsetModel.of(KnownCells(table), center, spec.damping).offsets(few, 5)
    part = fold_in(Problem(few, Nuclear(1.0), problem.discrete if xi else None, base), x.V, w) @ x.V.T
    np.testing.assert_allclose(part, x.to_dense()[10:15], atol=2e-5)


def test_shrinkage_of_the_nuclear_norm_is_lam_by_singular_value(table):
    """w = λ/s where the fit has converged, with a discrete term or without."""
    for xi in (0.0, 0.02):
        problem = ModelSpec(Alphabet.of("1:5"), center="mean").problem(table, 2.0, xi)
        x = solve(problem, tol=1e-11, max_iter=20_000).x
        np.testing.assert_allclose(shrinkage(problem, x), 2.0 / x.s, rtol=1e-5)


def test_shrinkage_is_the_slope_of_the_penalty(table):
    """For the log-sum penalty w = λ / ((s + θ) s)."""
    problem = ModelSpec(Alphabet.of("1:5"), "lsp", center="mean").problem(table, 4.0, 0.0)
    x = solve(problem, tol=1e-11, max_iter=20_000).x
    np.testing.assert_allclose(shrinkage(problem, x), 4.0 / (x.s + 2.0) / x.s, rtol=1e-5)


# -------------------------------------------------------------------- the objective of a row
@settings(max_examples=25)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.01, 0.1, 0.5]),
    st.sampled_from([0.1, 0.3, 0.7]),
    st.sampled_from([0.05, 1.0]),
)
def test_fold_in_minimises_the_row_objective(seed, xi, share, weight):
    """No point that a general method finds is better, with few cells of a row known and a weak shrinkage too."""
    rng = np.random.default_rng(seed)
    V, w = orthonormal(12, 3, seed), weight * rng.uniform(0.5, 2.0, 3)
    truth = np.clip(np.round(3 + 3 * rng.standard_normal((4, 3)) @ V.T), 1, 5)
    known = rng.random(truth.shape) < share
    known[0, 0] = True
    problem = Problem(
        Observations.from_dense(np.where(known, truth, np.nan)),
        Nuclear(1.0),
        L1("1:5", xi) if xi else None,
        LowRank.constant((4, 12), 2.7),
    )
    C = fold_in(problem, V, w)
    found = row_objective(C, problem, V, w)
    best = minimize(row_objective, C.ravel() * 0.9, (problem, V, w), method="L-BFGS-B", options={"ftol": 1e-15})
    assert found <= best.fun + 1e-7 * max(found, 1.0)


def test_rows_with_few_cells_do_not_run_away():
    """Steps by an average curvature would swing about the answer where most cells of a row are discrete."""
    rng = np.random.default_rng(0)
    V, w = orthonormal(60, 4, 0), np.full(4, 0.05)
    truth = np.clip(np.round(3 + 4 * rng.standard_normal((40, 4)) @ V.T), 1, 5)
    known = rng.random(truth.shape) < 0.05
    known[:, 0] = True
    cells = Observations.from_dense(np.where(known, truth, np.nan))
    for xi in (0.003, 0.03, 0.3):
        problem = Problem(cells, Nuclear(1.0), L1("1:5", xi), LowRank.constant((40, 60), 3.0))
        C = fold_in(problem, V, w)
        x = LowRank(C, np.ones(4), V)
        slope = problem.smooth.gradient_step(x, problem.at_observed(x), 1.0).matmat(V) - C * (1 + w)
        assert np.abs(slope).max() < 1e-6


def test_a_row_does_not_depend_on_the_others():
    """Each row comes out the same alone and among others."""
    rng = np.random.default_rng(1)
    V, w = orthonormal(15, 3, 1), np.array([0.1, 0.2, 0.3])
    truth = np.where(rng.random((20, 15)) < 0.4, rng.integers(1, 6, (20, 15)), np.nan)
    truth[:, 0] = 3
    whole = fold_in(Problem(Observations.from_dense(truth), Nuclear(1.0), L1("1:5", 0.05)), V, w)
    for i in (0, 7, 19):
        alone = fold_in(Problem(Observations.from_dense(truth[[i]]), Nuclear(1.0), L1("1:5", 0.05)), V, w)
        np.testing.assert_allclose(alone[0], whole[i], atol=1e-12)


def test_without_factors_there_are_no_coordinates():
    """A model of rank 0 has none."""
    cells = Observations.from_dense([[1.0, np.nan], [2.0, 3.0]])
    assert fold_in(Problem(cells, Nuclear(1.0)), np.zeros((2, 0)), np.zeros(0)).shape == (2, 0)


def test_curvatures_are_those_of_each_column():
    """Columns without a discrete penalty have none; an L1 penalty bends more the stronger it is."""
    by_column = ByColumn([L1("1:5", 0.1), None, L1("1:5", 0.4)], [0, 1, 2, 0])
    found = curvatures(by_column, 4)
    assert found[1] == 0
    assert 0 < found[0] == found[3] < found[2] < 1
    np.testing.assert_array_equal(curvatures(None, 3), np.zeros(3))


# -------------------------------------------------------------------- offsets
@pytest.mark.parametrize("center", CENTERS)
def test_offsets_of_the_rows_of_a_fit_are_those_of_the_recipe(table, center):
    """The same numbers as `spec.offsets`, so that nothing changes for rows that were part of the fit."""
    for damping in ((5.0, 5.0), (1.0, 30.0)):
        expected = offsets(table, center, damping).to_dense()
        found = OffsetModel.of(KnownCells(table), center, damping).offsets(table, 30).to_dense()
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert offsets(table, None) is OffsetModel.of(KnownCells(table), None, damping).offsets(table, 30) is None


@pytest.mark.parametrize("center", [None, *CENTERS])
def test_cold_rows_get_the_mean_and_the_bias_of_the_column(table, center):
    """A row of which nothing is known has the bias 0; so has a column, which gets that of the row."""
    base = OffsetModel.of(KnownCells(table), center, (5.0, 5.0))
    mean = table.values.mean()
    bias = np.zeros(20) if center in (None, "mean", "rows") else base.col_biases
    for nothing, rows in ((None, 3), (table, 30)):
        x = LowRank(np.ones((rows, 1)), np.ones(1), np.ones((20, 1)))
        shown, added = (part.to_dense() for part in base.estimates(x, nothing))
        cold = 0 if nothing is None else 4
        np.testing.assert_allclose(shown[cold], np.zeros(20))
        np.testing.assert_allclose(added[cold], mean + bias, atol=1e-12)
    assert base.col_biases[7] == 0
    np.testing.assert_array_equal(shown[:, 7], np.zeros(30))
    np.testing.assert_array_equal(shown[:4, :7], np.ones((4, 7)))
    if center is None:  # nothing is added where something is known
        np.testing.assert_array_equal(added[:4, :7], np.zeros((4, 7)))
        np.testing.assert_allclose(added[:, 7], mean)


# -------------------------------------------------------------------- in the estimator
@pytest.mark.parametrize("center", [None, *CENTERS])
@pytest.mark.parametrize("xi", [0.0, 0.02])
def test_tables_without_any_value_are_filled(table, center, xi):
    """Rows of which nothing is known get what the offsets say, in a table with others and in one without."""
    X = np.full((30, 20), np.nan)
    X[table.rows, table.cols] = table.values
    imputer = si.SnapImputer("1:5", method=si.Proximal(lam=1.0, xi=xi, center=center), decide="nearest").fit(X)
    bias = (
        np.zeros(20)
        if center in (None, "mean", "rows")
        else OffsetModel.of(KnownCells(table), center, imputer.damping_).col_biases
    )
    expected = table.values.mean() + bias
    np.testing.assert_allclose(imputer.predict_mean(4, np.arange(20)), expected)
    symbols = imputer.alphabet_.snap(expected)
    np.testing.assert_array_equal(imputer.transform(np.full((2, 20), np.nan)), [symbols, symbols])
    np.testing.assert_array_equal(imputer.transform(np.vstack([X[0], np.full(20, np.nan)]))[1], symbols)
    whole = imputer.left_ * imputer.singular_values_ @ imputer.right_.T + imputer.offsets_.to_dense()
    np.testing.assert_allclose(imputer.predict_mean(*np.indices(X.shape)), whole, atol=1e-10)


# -------------------------------------------------------------------- how much work it is
RATED = si.datasets.low_rank_alphabet((120, 80), 3, alphabet="1:5", observed=0.35, random_state=0).observations


GIVEN = {"lam": 4.0, "xi": 0.02, "center": "mean", "decide": "nearest"}


@pytest.fixture
def passes(monkeypatch) -> list[float]:
    """The passes over all cells that folding in takes, each counted by its share of the rows."""
    found: list[float] = []
    real = foldin._Sweeps.step

    def counting(sweeps: foldin._Sweeps) -> None:
        found.append(sweeps.C.shape[0] / RATED.shape[0])
        real(sweeps)

    monkeypatch.setattr(foldin._Sweeps, "step", counting)
    return found


@pytest.mark.parametrize(("tol", "most"), [(1e-4, 4.5), (1e-7, 2.1)])
@pytest.mark.parametrize("discrete", ["l1", "l1-composed"])
def test_rows_of_the_fit_begin_at_their_factors(passes, discrete, tol, most):
    """They take two passes after an exact fit, a few after another, and come out as from anywhere else."""
    expert = si.Proximal(discrete=discrete, tol=tol, max_iter=2000, **GIVEN)
    fit = expert.fit(RATED, "1:5")
    again = fit.fold_in(RATED)
    warm = sum(passes)
    assert 1 <= warm <= most
    assert FILLING_PASSES / 4 <= warm <= 2 * FILLING_PASSES
    passes.clear()
    cold = fit.model.folded((RATED.rows, RATED.cols, RATED.values), 120)
    assert warm < 0.6 * sum(passes)
    rows, cols = np.indices(RATED.shape).reshape(2, -1)
    np.testing.assert_allclose(cold.mean(rows, cols), again.mean(rows, cols), atol=2e-6)


def test_the_fitted_table_has_the_answers_of_the_fit(passes):
    """`transform` of the table that was fitted folds nothing in: a cell has one answer."""
    imputer = si.SnapImputer("1:5", method=si.Proximal(**GIVEN), decide="nearest").fit(RATED)
    filled = imputer.transform(RATED)
    assert passes == []
    rows, cols = np.indices(RATED.shape).reshape(2, -1)
    missing = np.ones(RATED.shape, dtype=bool)
    missing[RATED.rows, RATED.cols] = False
    np.testing.assert_array_equal(filled[missing], imputer.predict(rows, cols).reshape(RATED.shape)[missing])


def test_only_rows_as_they_were_fitted_begin_at_their_factors(passes):
    """A row whose cells changed takes the passes that a new one takes, and gets the same answer as one."""
    expert = si.Proximal(max_iter=2000, tol=1e-7, **GIVEN)
    imputer = si.SnapImputer("1:5", method=expert, decide="nearest").fit(RATED)
    changed = RATED.with_values(np.where(RATED.rows == 3, 6 - RATED.values, RATED.values))
    assert np.flatnonzero(~foldin.same_rows(changed, RATED)).tolist() == [3]
    passes.clear()
    cells, columns = imputer.fold_in(changed), np.arange(80)
    assert len(passes) > 4
    assert sum(passes) < 2.5
    alone = changed.take(changed.rows == 3)
    new = imputer.fold_in(Observations.from_coo(alone.rows - 3, alone.cols, alone.values, (1, 80)))
    np.testing.assert_allclose(cells.mean(np.full(80, 3), columns), new.mean(np.zeros(80, int), columns), atol=2e-6)


@pytest.mark.parametrize("discrete", ["l0", "lp"])
def test_where_a_start_matters_every_row_begins_at_zero(discrete):
    """With a penalty that is not convex the answer is that of the cells alone, whatever row of the fit they were."""
    imputer = si.SnapImputer(
        "1:5", method=si.Proximal(discrete=discrete, lam=4.0, xi=0.1, center="mean"), decide="nearest"
    ).fit(RATED)
    X = RATED.to_sparse().toarray()
    X[X == 0] = np.nan
    some, turned = imputer.transform(X[:-1]), imputer.transform(X[::-1])
    np.testing.assert_array_equal(some, turned[::-1][:-1])


def test_rows_alone_have_the_offsets_and_cells_that_they_had(monkeypatch):
    """Passes that leave rows out change nothing for the others, with offsets and columns without a penalty."""
    rng = np.random.default_rng(1)
    V, w = orthonormal(15, 3, 1), np.array([0.1, 0.2, 0.3])
    truth = np.where(rng.random((20, 15)) < 0.4, rng.integers(1, 6, (20, 15)), np.nan)
    truth[:, 0] = 3
    base = LowRank(rng.standard_normal((20, 1)), np.ones(1), rng.standard_normal((15, 1)))
    penalty = ByColumn([L1("1:5", 0.05), None], [0] * 10 + [1] * 5)
    problem = Problem(Observations.from_dense(truth), Nuclear(1.0), penalty, base)
    some = fold_in(problem, V, w)
    monkeypatch.setattr(foldin, "FEW", -1.0)
    np.testing.assert_allclose(some, fold_in(problem, V, w), atol=1e-12)


# -------------------------------------------------------------------- the kernel
@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 12))
def test_lanes_solve_is_numpy_solve(seed, rank, columns):
    """(base + Σ w b bᵀ)⁻¹ out for every lane; lanes outside the part are not touched."""
    rng = np.random.default_rng(seed)
    known = rng.random((5, columns)) < 0.5
    known[0] = False
    indptr, indices = np.append(0, np.cumsum(known.sum(axis=1))), np.nonzero(known)[1]
    block, weights = rng.standard_normal((columns, rank)), rng.uniform(0, 1, columns)
    root = rng.standard_normal((rank, rank))
    base, right = root @ root.T + 0.1 * np.eye(rank), rng.standard_normal((5, rank))
    out = right.copy()
    lanes_solve(indptr, indices, weights, block, base, out, 0, 4)
    for i in range(4):
        some = block[known[i]]
        matrix = base + (some * weights[known[i]][:, None]).T @ some
        np.testing.assert_allclose(out[i], np.linalg.solve(matrix, right[i]), rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(out[4], right[4])


def test_lanes_solve_survives_a_singular_matrix():
    """A lane of which nothing is known has no curvature at all where nothing shrinks it: it stays finite."""
    out = np.zeros((1, 2))
    indptr, indices = np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64)
    lanes_solve(indptr, indices, np.ones(3), np.ones((3, 2)), np.zeros((2, 2)), out, 0, 1)
    np.testing.assert_array_equal(out, np.zeros((1, 2)))


def test_huge_tables_fold_in_without_the_discrete_term(monkeypatch):
    """Where a fit would sample the discrete term, no pass over all cells is made to read off or to fold in."""
    X = si.datasets.low_rank_alphabet((40, 30), 2, observed=0.5).observations.to_sparse()
    monkeypatch.setattr(model, "SAMPLED_CELLS", 100)
    imp = si.SnapImputer("1:5", method=si.Proximal(lam=2.0, xi=0.1, center="mean"), decide="nearest").fit(X)
    monkeypatch.setattr("snapimpute.linalg.tiled.MappedLowRank.matmat", lambda *_: pytest.fail("a pass was made"))
    assert imp.transform(X).shape == (40, 30)
