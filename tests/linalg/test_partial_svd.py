"""The partial SVD: the triplets of the full one, all above the threshold, and a residual that can be believed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute import LowRank
from snapimpute import linalg as operators
from snapimpute.linalg import MatrixOperator, PartialSVD, partial_svd, svd
from snapimpute.linalg.svd import _full_svd, orthonormal, orthonormal_to


class Dense(MatrixOperator):
    """A stored matrix that counts how often it is used."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix
        self.shape = matrix.shape
        self.passes = 0

    def matmat(self, B: np.ndarray) -> np.ndarray:
        self.passes += 1
        return self.matrix @ B

    def rmatmat(self, C: np.ndarray) -> np.ndarray:
        self.passes += 1
        return self.matrix.T @ C


class Diagonal(MatrixOperator):
    """A large matrix whose singular values and vectors are known: diag(s)."""

    def __init__(self, s: np.ndarray) -> None:
        self.s = s
        self.shape = (s.size, s.size)

    def matmat(self, B: np.ndarray) -> np.ndarray:
        return self.s[:, None] * B

    rmatmat = matmat


def with_values(m: int, n: int, s: np.ndarray, seed: int = 0) -> np.ndarray:
    """A matrix with the given singular values and random vectors."""
    draw = np.random.default_rng(seed)
    left = np.linalg.qr(draw.standard_normal((m, s.size))).Q
    right = np.linalg.qr(draw.standard_normal((n, s.size))).Q
    return (left * s) @ right.T


def spectra() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(5)
    noise = draw.standard_normal((90, 70))
    planted = 3 * draw.standard_normal((80, 6)) @ draw.standard_normal((6, 120)) + draw.standard_normal((80, 120))
    clustered = np.concatenate([10 + 1e-3 * np.arange(15), 5 + 1e-5 * np.arange(20), np.linspace(3, 0, 45)])
    repeated = np.concatenate([np.full(30, 2.0), np.full(70, 1.0)])
    return {
        "random": noise,
        "low rank plus noise": planted,
        "low rank exactly": with_values(100, 60, np.array([9.0, 8, 7, 0.5])),
        "clustered": with_values(85, 100, np.sort(clustered)[::-1]),
        "repeated": with_values(100, 130, repeated),
        "decaying": with_values(150, 75, 0.7 ** np.arange(75)),
        "identity": np.eye(60),
        "1×1": np.array([[-3.0]]),
        "1×9": draw.standard_normal((1, 9)),
        "9×1": draw.standard_normal((9, 1)),
        "2×3": np.array([[2.0, 0, 0], [0, 1, 0]]),
    }


SPECTRA = spectra()


@pytest.fixture(params=SPECTRA, ids=str)
def matrix(request: pytest.FixtureRequest) -> np.ndarray:
    return SPECTRA[request.param]


@contextmanager
def krylov_only() -> Iterator[None]:
    """Take the whole space for no matrix, however small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svd, "WHOLE_CELLS", -1)
        yield


@pytest.fixture(params=["whole space", "Krylov"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each of the two ways to the triplets, forced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svd, "WHOLE_CELLS", 1 << 24 if request.param == "whole space" else -1)
        patch.setattr(svd, "WHOLE_SHARE", 0.0)
        yield request.param


@pytest.fixture
def krylov() -> Iterator[None]:
    with krylov_only():
        yield


def check_triplets(matrix: np.ndarray, found: PartialSVD, count: int, accuracy: float = 1e-8) -> None:
    """Check values, orthonormality and that the triplets reproduce the leading part of the matrix."""
    x = found.x
    values = np.linalg.svd(matrix, compute_uv=False)
    assert x.rank == count
    assert x.shape == matrix.shape
    assert_allclose(x.s, values[:count], atol=accuracy * values[0])
    assert_allclose(x.U.T @ x.U, np.eye(count), atol=1e-8)
    assert_allclose(x.V.T @ x.V, np.eye(count), atol=1e-8)
    assert_allclose(matrix @ x.V, x.U * x.s, atol=accuracy * values[0])
    assert_allclose(matrix.T @ x.U, x.V * x.s, atol=accuracy * values[0])
    # Nothing of that size is left: the subspace, not only some vectors, has been found.
    rest = np.linalg.norm(matrix - x.to_dense(), 2)
    assert rest <= (values[count] if count < values.size else 0) + accuracy * values[0]


def soft_threshold(matrix: np.ndarray, above: float) -> np.ndarray:
    U, s, Vt = np.linalg.svd(matrix, full_matrices=False)
    return (U * np.maximum(s - above, 0)) @ Vt


def backward_gap(matrix: np.ndarray, found: PartialSVD, above: float) -> float:
    """‖SVT(A) − SVT from the triplets found‖_F."""
    x = found.x
    return float(np.linalg.norm(soft_threshold(matrix, above) - (x.U * np.maximum(x.s - above, 0)) @ x.V.T))


# ---------------------------------------------------------------- the right triplets
def test_whole_space_in_single_precision_keeps_small_values(monkeypatch):
    """One value 3000 times the threshold, as of a table that was not centred: the others stay exact."""
    monkeypatch.setattr(svd, "WHOLE_SHARE", 0.0)
    values = np.concatenate([[4500.0], np.linspace(9, 0.5, 69)])
    matrix = with_values(120, 70, values)
    calls = []
    gram = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda a: (calls.append(a.dtype), gram(a))[1])
    found = partial_svd(operators.Dense(matrix.astype(np.float32)), 5, above=1.55)
    assert calls == [np.float64]
    assert found.x.dtype == np.float32
    assert found.x.rank == int((values > 1.55).sum())
    assert_allclose(found.x.s, values[: found.x.rank], rtol=3e-5, atol=3e-4)
    for factor in (found.x.U, found.x.V):
        assert_allclose(factor.T @ factor, np.eye(found.x.rank), atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 1, 3, 12])
def test_leading_triplets_are_those_of_the_full_svd(matrix, k, path):
    """The k leading triplets are those of the full SVD, over the whole space and over Krylov spaces."""
    operator = Dense(matrix)
    found = partial_svd(operator, k, tol=1e-10, max_passes=300)
    check_triplets(matrix, found, min(k, *matrix.shape))
    assert found.residual <= 1e-10 or found.residual <= 1e-12 * np.linalg.norm(matrix)
    assert found.passes == operator.passes


@pytest.mark.slow
@pytest.mark.parametrize(("k", "share"), [(3, 0.0), (0, 0.02), (40, 0.3), (3, 0.75), (0, 1.0)])
def test_all_triplets_above_a_threshold_are_returned(matrix, k, share, path):
    """Whatever the guess k: all triplets above the threshold, none, some or every one, and no other."""
    values = np.linalg.svd(matrix, compute_uv=False)
    edges = np.concatenate([[values[0] * 1.5], values[values > 1e-9 * values[0]], [0.0]])
    gaps = np.flatnonzero(edges[:-1] - edges[1:] > 1e-6 * values[0])  # none inside a repeated value
    backend = gaps[round(share * (gaps.size - 1))]
    above = (edges[backend] + edges[backend + 1]) / 2
    found = partial_svd(Dense(matrix), k, above=above, tol=1e-10, max_passes=300)
    check_triplets(matrix, found, int((values > above).sum()))


def test_threshold_zero_means_every_triplet(path):
    """A threshold of 0 asks for all triplets, as a problem without penalty does, not for k of them."""
    matrix = SPECTRA["random"][:30, :20]
    check_triplets(matrix, partial_svd(Dense(matrix), 0, above=0.0, tol=1e-10), 20)


@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (30, 20), (20, 50)])
@pytest.mark.parametrize("above", [None, 0.0, 0.5])
def test_zero_operator_has_only_zeros(shape, above, path):
    """The zero matrix has no triplet above anything; those asked for have value 0 and orthonormal vectors."""
    found = partial_svd(LowRank.zeros(shape), 2, above=above)
    count = min(2, *shape) if above is None else 0
    assert_array_equal(found.x.s, np.zeros(count))
    assert_allclose(found.x.U.T @ found.x.U, np.eye(count), atol=1e-12)
    assert_allclose(found.x.V.T @ found.x.V, np.eye(count), atol=1e-12)
    assert found.residual == 0


def test_both_ways_agree(matrix):
    """The whole space and the Krylov space give the same matrix."""
    values = np.linalg.svd(matrix, compute_uv=False)
    above = 0.7 * values[0] * (1 + 1e-7)
    whole = partial_svd(Dense(matrix), 3, above=above)
    with krylov_only():
        steps = partial_svd(Dense(matrix), 3, above=above, tol=1e-10, max_passes=300)
    assert whole.x.rank == steps.x.rank
    assert_allclose(steps.x.to_dense(), whole.x.to_dense(), atol=1e-8 * values[0])


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scale_does_not_matter(scale, path):
    """A tiny or huge matrix gives the same vectors, with a tolerance to match."""
    matrix = SPECTRA["low rank plus noise"]
    values = np.linalg.svd(matrix, compute_uv=False)
    above = (values[5] + values[6]) / 2
    found = partial_svd(Dense(scale * matrix), 2, above=scale * above, tol=scale * 1e-8)
    check_triplets(scale * matrix, found, 6)


# ---------------------------------------------------------------- nothing is missed
@pytest.mark.parametrize("k", [0, 20, 60])
def test_value_repeated_more_often_than_the_block_is_wide_is_found_every_time(k, krylov):
    """A block of p vectors meets a repeated value p times at most; the search widens until it has met them all."""
    s = np.concatenate([np.ones(50), np.full(950, 0.5)])
    found = partial_svd(Diagonal(s), k, above=0.9)
    assert found.x.rank == 50
    assert_allclose(found.x.s, 1)


@pytest.mark.slow
@pytest.mark.parametrize("tol", [1e-6, 0.1])
@pytest.mark.parametrize("signal", [1.3, 1.5])
def test_few_values_above_a_long_bulk_are_not_overlooked(signal, tol):
    """Eight values above a bulk of 20,000 are found from a cold start; a random block alone misses them."""
    bulk = np.sin(np.linspace(0, np.pi / 2, 19_992))
    s = np.concatenate([np.full(8, signal), bulk])
    found = partial_svd(Diagonal(s), 0, above=1.2, tol=tol)
    assert found.x.rank == 8
    assert_allclose(found.x.s, signal, atol=tol)


@pytest.mark.slow
@given(
    st.integers(30, 90),
    st.integers(30, 90),
    st.sampled_from(["flat", "decaying", "planted"]),
    st.floats(0.02, 0.9),
    st.sampled_from([1e-8, 1e-4, 0.01, 0.1, 1.0, 10.0]),
    st.integers(0, 8),
    st.integers(0, 10_000),
)
@settings(max_examples=150)
def test_residual_bounds_the_error_of_the_thresholded_matrix(m, n, kind, share, tol, k, seed):
    """‖SVT(A) − SVT from the triplets‖_F is at most the residual, for tight and for very loose tolerances."""
    draw = np.random.default_rng(seed)
    matrix = draw.standard_normal((m, n))
    if kind == "decaying":
        matrix = with_values(m, n, 10 * 0.9 ** np.arange(min(m, n)), seed)
    elif kind == "planted":
        matrix += 2 * draw.standard_normal((m, 5)) @ draw.standard_normal((5, n))
    values = np.linalg.svd(matrix, compute_uv=False)
    above = float(np.quantile(values, 1 - share * share))
    with krylov_only():
        found = partial_svd(Dense(matrix), k, above=above, tol=tol, max_passes=400, rng=draw)
    assert backward_gap(matrix, found, above) <= found.residual + 1e-9
    assert found.residual <= tol


@pytest.mark.parametrize("max_passes", [3, 5, 9])
def test_residual_is_honest_when_passes_run_out(max_passes, krylov):
    """Stopped early, the residual still bounds the error; where nothing is known of what follows it is infinite."""
    for matrix in SPECTRA.values():
        above = 0.3 * np.linalg.norm(matrix, 2)
        found = partial_svd(Dense(matrix), 1, above=above, tol=0.0, max_passes=max_passes)
        assert backward_gap(matrix, found, above) <= found.residual + 1e-9


def test_residual_of_every_triplet_kept_is_in_the_residual(krylov):
    """Without a threshold the residual is ‖Av − σu‖ over the triplets kept, measured."""
    matrix = SPECTRA["random"]
    found = partial_svd(Dense(matrix), 6, tol=0.5)
    x = found.x
    assert_allclose(found.residual, np.linalg.norm(matrix @ x.V - x.U * x.s), rtol=1e-6)
    assert 0 < found.residual <= 0.5
    assert_allclose(matrix.T @ x.U, x.V * x.s, atol=1e-12)  # this side is exact


# ---------------------------------------------------------------- limits, starts, seeds
@pytest.mark.parametrize("max_rank", [0, 1, 4, 500])
def test_max_rank_keeps_the_leading_ones(max_rank, path):
    """With max_rank the leading triplets come back, at most so many, with and without a threshold."""
    matrix = SPECTRA["low rank plus noise"]
    found = partial_svd(Dense(matrix), 3, above=50.0, max_rank=max_rank, tol=1e-10, max_passes=300)
    above = int((np.linalg.svd(matrix, compute_uv=False) > 50).sum())
    assert above == 6
    check_triplets(matrix, found, min(above, max_rank))
    check_triplets(matrix, partial_svd(Dense(matrix), 5, max_rank=max_rank, tol=1e-10), min(5, max_rank))


@pytest.mark.slow
@pytest.mark.parametrize(("k", "at_least"), [(0, 0), (20, 1), (3, 4), (0, 9), (3, 500)])
def test_at_least_so_many_come_back_though_below_the_threshold(matrix, at_least, k, path):
    """All triplets above the threshold, or the leading ``at_least`` where those are more, and just as accurate."""
    values = np.linalg.svd(matrix, compute_uv=False)
    edges = np.concatenate([[values[0] * 1.5], values[values > 1e-9 * values[0]], [0.0]])
    backend = int(np.argmax(edges[:-1] - edges[1:] > 1e-6 * values[0]))
    above = (edges[backend] + edges[backend + 1]) / 2
    for edge in (above, 2 * values[0]):
        found = partial_svd(Dense(matrix), k, above=edge, at_least=at_least, tol=1e-10, max_passes=300)
        check_triplets(matrix, found, min(max(int((values > edge).sum()), at_least), values.size))
        assert found.residual <= 1e-10 or found.residual <= 1e-12 * np.linalg.norm(matrix)


@pytest.mark.parametrize("max_rank", [0, 1, 3, 500])
def test_at_least_stays_within_max_rank_and_the_smaller_side(max_rank, path):
    """``max_rank`` and the number of rows or columns limit ``at_least`` like everything else."""
    matrix = SPECTRA["low rank plus noise"]
    found = partial_svd(Dense(matrix), 0, above=1e6, at_least=4, max_rank=max_rank, tol=1e-10, max_passes=300)
    check_triplets(matrix, found, min(4, max_rank))
    small = matrix[:6, :4]
    found = partial_svd(Dense(small), 0, above=1e6, at_least=50, max_rank=max_rank, tol=1e-10)
    check_triplets(small, found, min(4, max_rank))


def test_at_least_counts_with_a_threshold_only(path):
    """Without a threshold k triplets are asked for, whatever ``at_least`` says below that."""
    matrix = SPECTRA["decaying"]
    check_triplets(matrix, partial_svd(Dense(matrix), 5, at_least=2, tol=1e-10, max_passes=300), 5)


def test_at_least_from_a_warm_start(krylov):
    """A warm start that knows fewer triplets than asked for is filled up."""
    matrix = SPECTRA["low rank plus noise"]
    start = partial_svd(Dense(matrix), 2, tol=1e-10, max_passes=300).x.V
    found = partial_svd(Dense(matrix), 2, above=1e6, at_least=8, warm_start=start, tol=1e-8, max_passes=300)
    check_triplets(matrix, found, 8, accuracy=1e-6)


@pytest.mark.parametrize("above", [0.0, 0.5])
def test_at_least_of_the_zero_operator(above, path):
    """The zero matrix gives as many triplets as asked for, of value 0, with orthonormal vectors."""
    found = partial_svd(Dense(np.zeros((30, 20))), 0, above=above, at_least=3, tol=1e-10)
    assert_array_equal(found.x.s, np.zeros(3))
    assert_allclose(found.x.U.T @ found.x.U, np.eye(3), atol=1e-12)
    assert_allclose(found.x.V.T @ found.x.V, np.eye(3), atol=1e-12)


def test_max_rank_does_not_make_the_whole_space_cheaper(monkeypatch):
    """A large guess k under a small max_rank does not cost the whole space."""
    monkeypatch.setattr(svd, "WHOLE_SIDE", 0)
    operator = Dense(with_values(300, 200, np.concatenate([[90.0, 80.0], np.linspace(2, 1, 198)])))
    widest = 0

    def watch(B: np.ndarray) -> np.ndarray:
        nonlocal widest
        widest = max(widest, B.shape[1])
        return operator.matrix @ B

    monkeypatch.setattr(operator, "matmat", watch)
    partial_svd(operator, 150, above=1.5, max_rank=2, tol=1e-3)
    assert widest <= 2 + svd.GUARD


def test_search_that_has_filled_the_smaller_side_ends_there(krylov):
    """Rounding may lead a basis as large as the smaller side astray; the answer then comes from one more product."""
    matrix = SPECTRA["random"]
    values = np.linalg.svd(matrix, compute_uv=False)
    found = partial_svd(Dense(matrix), 0, above=(values[1] + values[2]) / 2, tol=1e-11, max_passes=1000)
    check_triplets(matrix, found, 2)
    assert found.residual <= 1e-11
    assert found.passes <= 20


@pytest.mark.parametrize("max_passes", [1, 3, 4, 6, 11])
@pytest.mark.parametrize("above", [None, 5.0, 1e-3])
def test_passes_stay_within_their_limit(max_passes, above, krylov):
    """Never more than max_passes products (three at least), however far from converged, and all are counted."""
    operator = Dense(SPECTRA["random"])
    found = partial_svd(operator, 2, above=above, tol=0.0, max_passes=max_passes)
    assert found.passes == operator.passes
    assert found.passes <= max(max_passes, 3)


def test_warm_start_needs_fewer_passes(krylov):
    """Started from the subspace of a nearby matrix, the search needs fewer products than from nothing."""
    matrix = SPECTRA["low rank plus noise"]
    cold = partial_svd(Dense(matrix), 6, above=50.0, tol=1e-4)
    nearby = matrix + 1e-5 * np.random.default_rng(1).standard_normal(matrix.shape)
    warm = partial_svd(Dense(nearby), 6, above=50.0, tol=1e-4, warm_start=cold.subspace)
    again = partial_svd(Dense(nearby), 6, above=50.0, tol=1e-4)
    assert warm.passes < again.passes
    assert_allclose(warm.x.to_dense(), again.x.to_dense(), atol=1e-3)


@pytest.mark.parametrize("kind", ["empty", "too wide", "dependent", "zero", "orthogonal to the answer"])
def test_any_warm_start_leads_to_the_answer(kind, krylov):
    """A poor warm start costs passes, not triplets."""
    matrix = SPECTRA["low rank plus noise"]
    m, n = matrix.shape
    draw = np.random.default_rng(0).standard_normal((n, n))
    start = {
        "empty": draw[:, :0],
        "too wide": draw[:, : m + 7],
        "dependent": np.repeat(draw[:, :2], 5, axis=1),
        "zero": np.zeros((n, 4)),
        "orthogonal to the answer": np.linalg.svd(matrix)[2][-20:].T,
    }[kind]
    found = partial_svd(Dense(matrix), 6, above=50.0, warm_start=start, tol=1e-9, max_passes=200)
    check_triplets(matrix, found, 6)


def test_subspace_begins_with_the_triplets_and_adds_guards(path):
    """The subspace to start the next call from holds the right vectors found and at most ten more."""
    found = partial_svd(Dense(SPECTRA["random"]), 5, tol=1e-10, max_passes=300)
    assert_array_equal(found.subspace[:, :5], found.x.V)
    assert 5 < found.subspace.shape[1] <= 5 + svd.GUARD
    found = partial_svd(Dense(SPECTRA["low rank plus noise"]), 30, above=50.0)  # of a guess that was too high
    assert found.x.rank == 6
    assert found.subspace.shape[1] <= 6 + svd.GUARD


def test_same_seed_gives_the_same_bits(krylov):
    """The result depends on the seed of the generator and on nothing else that is random."""
    matrix = SPECTRA["low rank plus noise"]

    def run(seed: int) -> PartialSVD:
        return partial_svd(Dense(matrix), 3, above=50.0, tol=0.1, rng=np.random.default_rng(seed))

    first, again, other = run(1), run(1), run(2)
    assert_array_equal(first.x.U, again.x.U)
    assert_array_equal(first.x.V, again.x.V)
    assert_array_equal(first.subspace, again.subspace)
    assert (first.residual, first.passes) == (again.residual, again.passes)
    assert not np.array_equal(first.x.U, other.x.U)


def test_restart_keeps_the_answer(krylov, monkeypatch):
    """Restarting from the leading Ritz vectors again and again bounds the basis and still converges."""
    monkeypatch.setattr(svd, "MAX_BLOCKS", 2)
    largest = 0
    append = svd._Search._append

    def watch(self: svd._Search, block: np.ndarray) -> None:
        nonlocal largest
        append(self, block)
        largest = max(largest, self.size)

    monkeypatch.setattr(svd._Search, "_append", watch)
    matrix = with_values(300, 250, np.linspace(2, 1, 250))
    check_triplets(matrix, partial_svd(Dense(matrix), 2, tol=1e-9, max_passes=2000), 2)
    assert largest <= 4 * 12


# ---------------------------------------------------------------- errors
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_operator_that_is_not_finite_is_an_error(bad, path):
    """A NaN or an infinity in the operator raises, rather than coming out as some triplet."""
    matrix = SPECTRA["random"].copy()
    matrix[3, 4] = bad
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(FloatingPointError, match="a product with the operator is not finite"),
    ):
        partial_svd(Dense(matrix), 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": -1}, "k must be at least 0, got -1"),
        ({"k": 1, "max_rank": -1}, "max_rank must be at least 0 or None, got -1"),
        (
            {"k": 1, "warm_start": np.ones((90, 2))},
            "warm_start must have the 70 rows of a right vector, got shape (90, 2)",
        ),
        ({"k": 1, "warm_start": np.ones(70)}, "warm_start must have the 70 rows of a right vector, got shape (70,)"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    """Arguments that make no sense are refused, and shown."""
    with pytest.raises(ValueError, match=re.escape(message)):
        partial_svd(Dense(SPECTRA["random"]), **arguments)


# ---------------------------------------------------------------- orthonormal bases
def awkward_blocks() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(2)
    block = draw.standard_normal((40, 6))
    nearly = np.repeat(block[:, :1], 6, axis=1) + 1e-9 * block
    zero_column = block.copy()
    zero_column[:, 2] = 0
    hilbert = 1 / (np.arange(40)[:, None] + np.arange(6) + 1.0)
    return {
        "random": block,
        "badly scaled": block * 10.0 ** np.array([-150, -20, 0, 5, 60, 120]),
        "nearly dependent": nearly,
        "dependent to half the digits": np.repeat(block[:, :1], 6, axis=1) + 1e-7 * block,
        "exactly dependent": np.repeat(block[:, :2], 3, axis=1),
        "zero column": zero_column,
        "zero": np.zeros((40, 6)),
        "Hilbert": hilbert,
        "one column": block[:, :1],
        "no column": block[:, :0],
        "square": draw.standard_normal((6, 6)),
    }


BLOCKS = awkward_blocks()


@pytest.mark.parametrize("name", BLOCKS)
def test_orthonormal_is_a_qr_factorisation(name):
    """Q is orthonormal and Q·R the block, also for dependent, zero and badly scaled columns."""
    block = BLOCKS[name]
    before = block.copy()
    Q, R = orthonormal(block)
    assert Q.shape == block.shape
    assert_allclose(Q.T @ Q, np.eye(block.shape[1]), atol=1e-13)
    scale = np.linalg.norm(block, axis=0)
    assert (np.linalg.norm(Q @ R - block, axis=0) <= 1e-13 * scale).all()
    assert_array_equal(block, before)


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["none", "some", "all", "coordinates"])
@pytest.mark.parametrize("name", sorted(set(BLOCKS) - {"square"}))
def test_orthonormal_to_extends_a_basis(name, inside):
    """Q is orthonormal, orthogonal to the basis, and [basis, Q]·C the block, even where that lies in the basis."""
    block = BLOCKS[name].copy()
    basis = np.linalg.qr(np.random.default_rng(4).standard_normal((40, 9))).Q
    if inside == "some":
        block[:, ::2] = basis[:, : block[:, ::2].shape[1]] * 7
    elif inside == "all":
        block = basis @ np.random.default_rng(5).standard_normal((9, block.shape[1]))
    elif inside == "coordinates":  # where a zero column's Householder vector would lie in the basis
        basis = np.eye(40, 9)
    Q, C = orthonormal_to(basis, block)
    joint = np.hstack([basis, Q])
    assert_allclose(joint.T @ joint, np.eye(joint.shape[1]), atol=1e-12)
    scale = np.linalg.norm(block, axis=0)
    assert (np.linalg.norm(joint @ C - block, axis=0) <= 1e-12 * scale).all()


def test_invariant_start_goes_on_without_losing_orthogonality(krylov):
    """A start that spans singular vectors exactly leaves zero residuals; the bases stay orthonormal past them."""
    s = np.concatenate([np.arange(30.0, 10, -1), np.linspace(5, 1, 60)])
    start = np.eye(80)[:, 20:32]  # exact singular vectors, not the leading ones
    found = partial_svd(Diagonal(s), 20, warm_start=start, tol=1e-10, max_passes=200)
    assert_allclose(found.x.s, s[:20], atol=1e-8)
    assert_allclose(found.x.U.T @ found.x.U, np.eye(20), atol=1e-10)


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.002, 0.3, 2.0])
@pytest.mark.parametrize("kind", ["random", "low rank exactly", "decaying"])
def test_full_svd_is_that_of_numpy(kind, share):
    """Directly, or through the Gram matrix where that is accurate: values, and vectors that rebuild the matrix."""
    tall = SPECTRA[kind]
    values = np.linalg.svd(tall, compute_uv=False)
    above = share * values[0]
    U, s, V = _full_svd(tall, above)
    kept = int((values > above * (1 + 1e-12)).sum())
    assert s.size >= kept
    assert_allclose(s[:kept], values[:kept], atol=1e-9 * values[0])
    assert_allclose(U[:, :kept].T @ U[:, :kept], np.eye(kept), atol=1e-8)
    assert_allclose(V[:, :kept].T @ V[:, :kept], np.eye(kept), atol=1e-12)
    if kept:
        rest = tall - (U[:, :kept] * s[:kept]) @ V[:, :kept].T
        assert np.linalg.norm(rest, 2) <= max(above, values[kept] if kept < values.size else 0) + 1e-9 * values[0]
    assert np.isfinite(U).all()
