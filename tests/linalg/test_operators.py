"""Operators: every one equals its dense matrix, passes the dot test, and never stores m×n cells."""

from __future__ import annotations

import re
import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute import L1, LowRank, Observations
from snapimpute.base import threads
from snapimpute.linalg import MappedLowRank, MatrixOperator, Scaled, Sparse, Sum, cell_sum, tiled
from snapimpute.linalg.base import Transposed

rng = np.random.default_rng(3)


class Case(NamedTuple):
    """An operator and the matrix it stands for."""

    name: str
    operator: MatrixOperator
    dense: np.ndarray


def low_rank(m: int, n: int, r: int) -> tuple[LowRank, np.ndarray]:
    U, s, V = rng.standard_normal((m, r)), rng.standard_normal(r), rng.standard_normal((n, r))
    return LowRank(U, s, V), np.einsum("ik,k,jk->ij", U, s, V)


def sparse(m: int, n: int, share: float) -> tuple[Sparse, np.ndarray]:
    """Some values, zeros among them, and empty rows and columns where there are several."""
    dense = np.where(rng.random((m, n)) < share, rng.integers(-1, 3, (m, n)), np.nan)
    dense[m // 2 : m // 2 + m // 4, :] = np.nan
    dense[:, n // 3 : n // 3 + n // 4] = np.nan
    dense[0, 0], dense[-1, -1] = 0.0, 2.5
    return Sparse(Observations.from_dense(dense)), np.nan_to_num(dense)


def bend(x: np.ndarray) -> None:
    """A map that is not linear, does not keep 0 and is exact in any order of evaluation."""
    np.abs(x, out=x)
    x += 1.0


def mapped(m: int, n: int, r: int) -> tuple[MappedLowRank, np.ndarray]:
    factors, dense = low_rank(m, n, r)
    return MappedLowRank(factors, bend), np.abs(dense) + 1


def cases() -> list[Case]:
    out = []
    for m, n in ((7, 4), (1, 6), (5, 1), (1, 1), (300, 290)):
        out.append(Case(f"sparse {m}×{n}", *sparse(m, n, 0.3)))
        out.extend(Case(f"low rank {m}×{n} rank {r}", *low_rank(m, n, r)) for r in (0, 1, 3))
    # One tile is 256×512: less than one, a bit more than one each way, several, single rows and columns.
    for m, n, r in ((5, 7, 2), (257, 513, 3), (600, 1100, 2), (300, 1030, 0), (1, 700, 1), (700, 1, 2), (1, 1, 1)):
        out.append(Case(f"mapped {m}×{n} rank {r}", *mapped(m, n, r)))
    (A, a), (B, b), (C, c) = sparse(40, 30, 0.2), low_rank(40, 30, 2), mapped(40, 30, 3)
    out.append(Case("sum of three", Sum((A, B, C)), a + b + c))
    out.append(Case("sum of one", Sum((A,)), a))
    out.append(Case("added", A + B, a + b))
    out.append(Case("sum, transposed", Sum((A, B)).T, (a + b).T))
    out.append(Case("sparse, transposed", A.T, a.T))
    out.append(Case("low rank, transposed", B.T, b.T))
    out.append(Case("mapped, transposed", C.T, c.T))
    out.append(Case("sum of transposed", Sum((A.T, C.T)), (a + c).T))
    out.append(Case("scaled sparse", Scaled(-0.3, A), -0.3 * a))
    out.append(Case("scaled mapped", Scaled(2.5, C), 2.5 * c))
    out.append(Case("scaled by 0", Scaled(0.0, C), 0 * c))
    out.append(Case("scaled, transposed", Scaled(-4.0, Sum((A, B))).T, -4 * (a + b).T))
    out.append(Case("sum with scaled", Sum((B, Scaled(0.5, C))), b + 0.5 * c))
    return out


CASES = cases()


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def blocks(rows: int, columns: int) -> dict[str, np.ndarray]:
    """The same block in every layout of memory that a caller may hold."""
    block = np.random.default_rng(columns).standard_normal((rows, columns))
    wide = np.zeros((2 * rows, 3 * columns + 1))
    wide[::2, 1::3] = block
    frozen = block.copy()
    frozen.flags.writeable = False
    layouts = {"C": block, "Fortran": np.asfortranarray(block), "strided": wide[::2, 1::3], "read-only": frozen}
    return layouts | {"reversed": block[::-1].copy()[::-1]}


# ---------------------------------------------------------------- products
def test_products_equal_the_dense_ones(case):
    """A·B and Aᵀ·C are those of the dense matrix, for no, one and many columns in any memory layout."""
    m, n = case.operator.shape
    assert (m, n) == case.dense.shape
    for k in (0, 1, 7):
        for name, B in blocks(n, k).items():
            product = case.operator.matmat(B)
            assert product.shape == (m, k)
            assert_allclose(product, case.dense @ B, rtol=1e-11, atol=1e-10, err_msg=name)
        for name, C in blocks(m, k).items():
            product = case.operator.rmatmat(C)
            assert product.shape == (n, k)
            assert_allclose(product, case.dense.T @ C, rtol=1e-11, atol=1e-10, err_msg=name)


def test_dot_test(case):
    """⟨Au, v⟩ = ⟨u, Aᵀv⟩: the two products belong to one matrix."""
    m, n = case.operator.shape
    for seed in range(3):
        draw = np.random.default_rng(seed)
        u, v = draw.standard_normal((n, 1)), draw.standard_normal((m, 1))
        left, right = np.vdot(case.operator.matmat(u), v), np.vdot(u, case.operator.rmatmat(v))
        assert_allclose(left, right, rtol=1e-11, atol=1e-10)


def test_transposed_operator_is_the_transposed_matrix(case):
    """A.T has the shape, the products and the dense form of the transposed matrix, and A.T.T is A again."""
    m, n = case.operator.shape
    assert case.operator.T.shape == (n, m)
    assert_allclose(case.operator.T.to_dense(), case.dense.T, rtol=1e-12, atol=1e-12)
    assert_allclose(case.operator.T.rmatmat(np.eye(n)), case.dense, rtol=1e-12, atol=1e-12)
    assert_allclose(case.operator.T.T.to_dense(), case.dense, rtol=1e-12, atol=1e-12)


def test_dense_form_and_its_refusal(case):
    """to_dense gives the matrix, and refuses above the limit with the size it would take and what to do."""
    m, n = case.operator.shape
    assert_allclose(case.operator.to_dense(), case.dense, rtol=1e-12, atol=1e-12)
    assert_allclose(case.operator.to_dense(max_cells=m * n), case.dense, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=rf"dense {m}×{n} array would hold .* cells .* more than max_cells="):
        case.operator.to_dense(max_cells=m * n - 1)


def test_products_do_not_touch_the_operands(case):
    """A product changes neither the block nor the operator: asked again, it gives the same bits."""
    m, n = case.operator.shape
    B, C = np.random.default_rng(0).standard_normal((n, 2)), np.random.default_rng(1).standard_normal((m, 2))
    before = B.copy(), C.copy()
    first = case.operator.matmat(B), case.operator.rmatmat(C)
    again = case.operator.matmat(B), case.operator.rmatmat(C)
    for left, right in (*zip(first, again, strict=True), (B, before[0]), (C, before[1])):
        assert_array_equal(left, right)


def test_bits_do_not_depend_on_the_number_of_threads(case, monkeypatch):
    """One, two and three threads give the same bits, however little there is to do."""
    monkeypatch.setattr(threads, "WORTH_THREADS", 0)
    m, n = case.operator.shape
    B, C = np.random.default_rng(0).standard_normal((n, 3)), np.random.default_rng(1).standard_normal((m, 3))
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", "1")
    expected = case.operator.matmat(B), case.operator.rmatmat(C)
    for count in ("2", "3"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", count)
        assert_array_equal(case.operator.matmat(B), expected[0])
        assert_array_equal(case.operator.rmatmat(C), expected[1])


# ---------------------------------------------------------------- Sparse, Sum, Transposed
def test_sparse_takes_other_values_on_the_same_cells():
    """Values given replace those observed; a stored zero is a cell like any other."""
    observations = Observations.from_dense([[1, np.nan, 0], [np.nan, 2, 3]])
    dense = Sparse(observations, np.array([5.0, 6.0, 7.0, 8.0])).to_dense()
    assert_array_equal(dense, [[5, 0, 6], [0, 7, 8]])
    with pytest.raises(ValueError, match=re.escape("expected 4 values, got shape (3,)")):
        Sparse(observations, np.ones(3))


@pytest.mark.parametrize("shapes", [[(2, 3), (3, 2)], [(2, 3), (2, 3), (1, 3)], []], ids=str)
def test_sum_of_different_shapes_is_refused(shapes):
    """Operators of different shapes, or none at all, cannot be added; the message names the shapes."""
    with pytest.raises(ValueError, match=re.escape(f"got shapes {sorted(set(shapes))}")):
        Sum(tuple(LowRank.zeros(shape) for shape in shapes))


def test_transposing_twice_gives_the_operator_itself():
    """A.T of a general operator remembers A."""
    A = sparse(4, 3, 0.5)[0]
    assert isinstance(A.T, Transposed)
    assert A.T.T is A


# ---------------------------------------------------------------- least squares over the entries
def lanes_by_lstsq(dense: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Of every row the shortest u with the least Σ (a_j − ⟨u, v_j⟩)² over its entries, by numpy."""
    out = np.zeros((dense.shape[0], V.shape[1]))
    for i, row in enumerate(dense):
        known = ~np.isnan(row)
        if known.any():
            out[i] = np.linalg.lstsq(V[known], row[known], rcond=None)[0]
    return out


def table(m: int, n: int, share: float) -> np.ndarray:
    """Normal numbers, with empty rows and columns."""
    dense = np.where(rng.random((m, n)) < share, rng.standard_normal((m, n)), np.nan)
    dense[m // 2] = np.nan
    dense[:, n // 2] = np.nan
    dense[0, 0] = 1.0
    return dense


@pytest.mark.parametrize(("m", "n", "r"), [(9, 30, 1), (300, 40, 4), (40, 300, 7)])
def test_fit_is_that_of_least_squares(m, n, r):
    """Rows fitted to V and columns fitted to U are those of numpy's least squares, and 0 where there is no entry."""
    dense = table(m, n, 0.7)
    V, U = rng.standard_normal((n, r)), rng.standard_normal((m, r))
    operator = Sparse(Observations.from_dense(dense))
    enough = (~np.isnan(dense)).sum(axis=1) > 2 * r
    assert enough.any()
    assert_allclose(operator.fit_rows(V)[enough], lanes_by_lstsq(dense, V)[enough], rtol=1e-6, atol=1e-6)
    enough = (~np.isnan(dense)).sum(axis=0) > 2 * r
    assert_allclose(operator.fit_cols(U)[enough], lanes_by_lstsq(dense.T, U)[enough], rtol=1e-6, atol=1e-6)
    assert operator.fit_rows(V).shape == (m, r)
    assert operator.fit_cols(U).shape == (n, r)
    assert not operator.fit_rows(V)[m // 2].any()
    assert not operator.fit_cols(U)[n // 2].any()


def test_fit_takes_the_values_of_the_operator():
    """The values fitted are the operator's own, on cells of any order, and a block of any memory layout serves."""
    dense = table(12, 20, 0.8)
    observations = Observations.from_dense(dense)
    twice = Sparse(observations, 2 * observations.values)
    for name, V in blocks(20, 2).items():
        assert_allclose(twice.fit_rows(V), 2 * lanes_by_lstsq(dense, V), rtol=1e-6, atol=1e-6, err_msg=name)
    for name, U in blocks(12, 2).items():
        assert_allclose(twice.fit_cols(U), 2 * lanes_by_lstsq(dense.T, U), rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("why", ["few entries", "dependent columns", "a zero column", "scaled"])
def test_fit_of_lanes_without_a_unique_answer(why):
    """Where many u fit alike, the one found fits as well as any and is about as short as the shortest."""
    dense = table(30, 25, 0.12 if why == "few entries" else 0.7)
    V = rng.standard_normal((25, 4))
    if why == "dependent columns":
        V[:, 3] = V[:, 0] - 2 * V[:, 1]
    elif why == "a zero column":
        V[:, 2] = 0.0
    elif why == "scaled":
        V = 1e-9 * V[:, [0, 0, 1, 2]]
    found, expected = Sparse(Observations.from_dense(dense)).fit_rows(V), lanes_by_lstsq(dense, V)
    unknown = np.isnan(dense)
    residuals = [np.where(unknown, 0, np.nan_to_num(dense) - u @ V.T) for u in (found, expected)]
    sizes = [np.linalg.norm(r, axis=1) for r in residuals]
    assert_allclose(sizes[0], sizes[1], atol=1e-5)
    lengths = [np.linalg.norm(u, axis=1) for u in (found, expected)]
    assert (lengths[0] <= lengths[1] * 1.01 + 1e-12).all()
    assert np.isfinite(found).all()
    assert (lengths[0] > 0).sum() > 15


def test_fit_with_all_of_the_block_zero():
    """A block of zeros explains nothing: the answer is 0, not a number that is none."""
    operator = Sparse(Observations.from_dense(table(6, 5, 0.8)))
    assert_array_equal(operator.fit_rows(np.zeros((5, 2))), np.zeros((6, 2)))
    assert operator.fit_rows(np.zeros((5, 0))).shape == (6, 0)


def test_fit_with_a_ridge_by_hand():
    """A ridge of 1 adds the mean diagonal of the normal matrix: 3·2/(2² + 2²) for one entry."""
    operator = Sparse(Observations.from_dense([[3.0, np.nan]]))
    assert_allclose(operator.fit_rows(np.array([[2.0], [9.0]]), ridge=1.0), [[0.75]])
    assert_allclose(operator.fit_rows(np.array([[2.0], [9.0]])), [[1.5]], rtol=1e-9)


def test_fit_does_not_depend_on_threads(monkeypatch):
    """More lanes than one part holds are fitted to the same bits by one, two and three threads."""
    monkeypatch.setattr(threads, "WORTH_THREADS", 0)
    operator = Sparse(Observations.from_dense(table(700, 600, 0.1)))
    U, V = rng.standard_normal((700, 3)), rng.standard_normal((600, 3))
    found = []
    for count in ("1", "2", "3"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", count)
        found.append((operator.fit_rows(V), operator.fit_cols(U)))
    for rows, cols in found[1:]:
        assert_array_equal(rows, found[0][0])
        assert_array_equal(cols, found[0][1])


# ---------------------------------------------------------------- LowRank
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 12), st.integers(0, 99))
def test_orthonormalised_is_the_same_matrix(m, n, r, seed):
    """Factors of any rank, 0 or above a side too, and weights of any sign become orthonormal ones of the same X."""
    draw = np.random.default_rng(seed)
    X = LowRank(draw.standard_normal((m, r)), draw.standard_normal(r), draw.standard_normal((n, r)))
    Y = X.orthonormalised()
    assert Y.rank == min(m, n, r)
    assert_allclose(Y.to_dense(), X.to_dense(), atol=1e-12)
    assert_allclose(Y.U.T @ Y.U, np.eye(Y.rank), atol=1e-13)
    assert_allclose(Y.V.T @ Y.V, np.eye(Y.rank), atol=1e-13)
    assert (Y.s >= 0).all()
    assert (np.diff(Y.s) <= 0).all()
    assert_allclose(Y.s, np.linalg.svd(X.to_dense(), compute_uv=False)[: Y.rank], atol=1e-12)


def test_orthonormalised_with_dependent_factors():
    """Factors that are dependent or zero still give orthonormal ones, with 0 among the values."""
    u, v = rng.standard_normal((8, 1)), rng.standard_normal((6, 1))
    X = LowRank(np.hstack([u, 2 * u, 0 * u]), np.array([1.0, -3.0, 5.0]), np.hstack([v, v, v]))
    Y = X.orthonormalised()
    assert_allclose(Y.to_dense(), -5 * u @ v.T, atol=1e-12)
    assert_allclose(Y.U.T @ Y.U, np.eye(3), atol=1e-13)
    assert_allclose(Y.s[1:], 0, atol=1e-12)


def test_inner_product_is_the_sum_over_all_cells(case):
    """⟨X, A⟩ is that of the dense matrices, for every kind of A and X of any rank, and symmetric."""
    m, n = case.operator.shape
    for r in (0, 1, 3):
        X, x = low_rank(m, n, r)
        assert_allclose(X.inner(case.operator), np.sum(x * case.dense), rtol=1e-9, atol=1e-8)
    assert_allclose(X.inner(X), X.norm() ** 2, rtol=1e-10)


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4, 5, 8, 9])
def test_entries_are_those_of_the_dense_matrix(rank):
    """Single cells, in any order and shape, again and again, are those of the dense matrix, for any rank."""
    X, dense = low_rank(50, 40, rank)
    rows, cols = rng.integers(0, 50, (30, 4)), rng.integers(0, 40, (30, 4))
    for index in (np.int32, np.int64, np.uint8):
        assert_allclose(X.entries(rows.astype(index), cols.astype(index)), dense[rows, cols], atol=1e-12)
    assert_allclose(X.entries(rows[::2, ::-1], cols[::2, ::-1]), dense[rows, cols][::2, ::-1], atol=1e-12)
    assert_allclose(X.entries(np.arange(50)[:, None], np.arange(40)), dense, atol=1e-12)
    assert_allclose(X.entries(7, 5), dense[7, 5], atol=1e-12)
    assert X.entries(np.zeros(0, int), np.zeros(0, int)).shape == (0,)


def test_entries_of_many_cells_do_not_depend_on_threads(monkeypatch):
    """More cells than one part holds give the same bits for any number of threads, and the right ones."""
    monkeypatch.setattr(threads, "WORTH_THREADS", 0)
    X, dense = low_rank(300, 200, 6)
    rows, cols = rng.integers(0, 300, 100_000), rng.integers(0, 200, 100_000)
    found = []
    for count in ("1", "2", "3"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", count)
        found.append(X.entries(rows, cols))
    assert_array_equal(found[1], found[0])
    assert_array_equal(found[2], found[0])
    assert_allclose(found[0], dense[rows, cols], atol=1e-11)


@pytest.mark.parametrize(
    ("rows", "cols", "message"),
    [
        ([0, 50], [0, 0], "rows must lie in 0..49, got 0 to 50"),
        ([-1, 3], [0, 0], "rows must lie in 0..49, got -1 to 3"),
        ([0], [40], "cols must lie in 0..39, got 40 to 40"),
        ([0.0], [1], "rows must hold integers, got dtype float64"),
        ([0], [True], "cols must hold integers, got dtype bool"),
        ([0, 1, 2], [0, 1], "broadcast"),
    ],
)
def test_entries_outside_the_matrix_are_refused(rows, cols, message):
    """Indices outside the matrix, negative ones too, are refused and named: they would read other memory."""
    with pytest.raises(ValueError, match=message):
        low_rank(50, 40, 2)[0].entries(rows, cols)


def test_factors_must_fit_together():
    """Factors whose shapes do not belong together are refused with all three shapes."""
    U, s, V = np.ones((4, 2)), np.ones(2), np.ones((3, 2))
    for wrong in ((U, s[:1], V), (U[:, :1], s, V), (U, s, V[:, :1]), (U, s[:, None], V), (U[:, 0], s, V)):
        with pytest.raises(ValueError, match="expected U m×r, s of length r, V n×r, got"):
            LowRank(*wrong)


def test_from_dense_is_the_svd():
    """Factoring a matrix gives orthonormal factors, descending values, and the matrix back."""
    dense = rng.standard_normal((7, 4))
    X = LowRank.from_dense(dense)
    assert_allclose(X.to_dense(), dense, atol=1e-13)
    assert_allclose(X.U.T @ X.U, np.eye(4), atol=1e-13)
    assert_allclose(X.V.T @ X.V, np.eye(4), atol=1e-13)
    assert (np.diff(X.s) <= 0).all()
    assert_allclose(LowRank.from_dense(dense.T.tolist()).to_dense(), dense.T, atol=1e-13)


def test_zeros_truncation_and_repr():
    """The zero matrix has rank 0, truncation keeps the leading factors, and the representation says the size."""
    X, _ = low_rank(6, 5, 4)
    assert LowRank.zeros((6, 5)).rank == 0
    assert_array_equal(LowRank.zeros((6, 5)).to_dense(), np.zeros((6, 5)))
    assert X.truncated(2).rank == 2
    assert_allclose(X.truncated(2).to_dense(), (X.U[:, :2] * X.s[:2]) @ X.V[:, :2].T)
    assert X.truncated(0).rank == 0
    assert repr(X) == "LowRank(6×5, rank 4)"


def test_combine_is_the_weighted_sum():
    """Laying factors side by side gives the weighted sum; weights and ranks of 0 cost nothing."""
    (X, x), (Y, y) = low_rank(8, 6, 2), low_rank(8, 6, 3)
    zero = LowRank.zeros((8, 6))
    assert_allclose(LowRank.combine([1.5, -0.5], [X, Y]).to_dense(), 1.5 * x - 0.5 * y, atol=1e-12)
    assert LowRank.combine([1.5, -0.5], [X, Y]).rank == 5
    assert LowRank.combine([1.5, 0.0], [X, Y]).rank == 2
    assert_allclose(LowRank.combine([2.0, 1.0], [X, zero]).to_dense(), 2 * x, atol=1e-12)
    assert LowRank.combine([0.0, 1.0], [X, zero]).shape == (8, 6)
    assert LowRank.combine([0.0, 1.0], [X, zero]).rank == 0
    with pytest.raises(ValueError, match="zip"):
        LowRank.combine([1.0], [X, Y])


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 4), st.integers(0, 99))
def test_norm_is_the_frobenius_norm(m, n, r, seed):
    """The norm is that of the dense matrix, for factors that are not orthonormal and values of any sign."""
    draw = np.random.default_rng(seed)
    X = LowRank(draw.standard_normal((m, r)), draw.standard_normal(r), draw.standard_normal((n, r)))
    assert_allclose(X.norm(), np.linalg.norm(X.to_dense()), rtol=1e-7, atol=1e-7)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 4), st.integers(0, 4), st.integers(0, 99))
def test_distance_is_that_of_the_dense_matrices(m, n, r, q, seed):
    """The distance is the norm of the dense difference, whatever the ranks and whatever Y's factors."""
    draw = np.random.default_rng(seed)
    X = LowRank.from_dense(draw.standard_normal((m, n))).truncated(r)
    Y = LowRank(draw.standard_normal((m, q)), draw.standard_normal(q), draw.standard_normal((n, q)))
    assert_allclose(X.distance(Y), np.linalg.norm(X.to_dense() - Y.to_dense()), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-11])
def test_distance_of_nearly_equal_matrices_has_its_digits(gap):
    """A relative distance of 1e-9 comes out to six digits, in any direction, alone or in an extrapolation."""
    X = LowRank.from_dense(rng.standard_normal((60, 5)) @ rng.standard_normal((5, 40))).truncated(5)
    size = np.linalg.norm(X.s)
    digits = 1e-6 if gap >= 1e-9 else 1e-4
    inside = LowRank(X.U, X.s * (1 + gap), X.V)
    assert_allclose(X.distance(inside), gap * size, rtol=digits)
    draw = rng.standard_normal((60, 1)), rng.standard_normal((40, 1))
    nudge = LowRank(draw[0], np.array([gap * size]) / np.linalg.norm(draw[0]) / np.linalg.norm(draw[1]), draw[1])
    assert_allclose(X.distance(LowRank.combine([1.0, 1.0], [X, nudge])), gap * size, rtol=digits)
    turned = np.linalg.qr(X.U + gap * rng.standard_normal(X.U.shape)).Q
    turned *= np.sign(np.einsum("ik,ik->k", turned, X.U))
    expected = np.linalg.norm((turned - X.U) * X.s)  # V is orthonormal
    assert_allclose(X.distance(LowRank(turned, X.s, X.V)), expected, rtol=digits)
    # Extrapolated, as a solver does it: (1 + β) Z − β X is at distance (1 + β)‖Z − X‖ of X.
    ahead = LowRank.combine([1.9, -0.9], [LowRank(turned, X.s, X.V), X])
    assert_allclose(X.distance(ahead), 1.9 * expected, rtol=digits)


# ---------------------------------------------------------------- mapped low-rank matrices
@pytest.mark.parametrize(("m", "n", "r"), [(1, 1, 1), (5, 7, 2), (257, 513, 3), (600, 1100, 2), (700, 1, 0)])
def test_cell_sum_is_the_sum_over_all_cells(m, n, r):
    """The sum of the mapped cells is that of the dense matrix, over any number of tiles."""
    factors, dense = low_rank(m, n, r)
    assert_allclose(cell_sum(factors, bend), (np.abs(dense) + 1).sum(), rtol=1e-12)


def test_cell_sum_does_not_depend_on_threads(monkeypatch):
    """The sum has the same bits for any number of threads."""
    monkeypatch.setattr(threads, "WORTH_THREADS", 0)
    factors, _ = low_rank(1500, 700, 3)
    sums = set()
    for count in ("1", "2", "3"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", count)
        sums.add(cell_sum(factors, bend))
    assert len(sums) == 1


@pytest.mark.parametrize("tile", [(1, 8), (3, 24 * 8), (64, 64 * 8 * 5)])
def test_tiles_of_any_size_give_the_same_matrix(tile, monkeypatch):
    """Tiles of a single cell, a few or many cover every cell exactly once."""
    monkeypatch.setattr(tiled, "TILE_ROWS", tile[0])
    monkeypatch.setattr(tiled, "TILE_BYTES", tile[1])
    operator, dense = mapped(70, 33, 2)
    assert_allclose(operator.to_dense(), dense, atol=1e-12)
    assert_allclose(cell_sum(operator.factors, bend), dense.sum())


def test_map_sees_flat_writable_arrays_and_every_cell_once():
    """The map gets flat contiguous float arrays, which together hold every cell once."""
    seen = []

    def record(tile: np.ndarray) -> None:
        assert tile.ndim == 1
        assert tile.flags.c_contiguous
        assert tile.flags.writeable
        assert tile.dtype == np.float64
        seen.append(tile.copy())

    factors, dense = low_rank(300, 600, 2)
    cell_sum(factors, record)
    assert_allclose(np.sort(np.concatenate(seen)), np.sort(dense.ravel()), atol=1e-12)


def test_mapped_matrix_is_never_stored():
    """Products and the sum of a 3000×4000 matrix, 96 MB if stored, take a few MB."""
    draw = np.random.default_rng(0)
    factors = LowRank(draw.standard_normal((3000, 4)), np.ones(4), draw.standard_normal((4000, 4)))
    prox = L1("1:5", 0.1).compiled("prox")
    operator = MappedLowRank(factors, prox)
    prox(np.zeros(3))  # compiled before memory is watched
    B, C = draw.standard_normal((4000, 4)), draw.standard_normal((3000, 4))
    tracemalloc.start()
    try:
        operator.matmat(B)
        operator.rmatmat(C)
        cell_sum(factors, prox)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3000 * 4000 * 8 / 10
