"""Tiles: one pass gives both products, any precision and number of threads; a sample of them is right on average."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute import L1, LowRank, Observations
from snapimpute.base import threads
from snapimpute.linalg import (
    ColumnGroups,
    Dense,
    MappedLowRank,
    MatrixOperator,
    Sample,
    Scaled,
    Sparse,
    Sum,
    cell_sum,
    sampled_sum,
    tiled,
)

pytestmark = pytest.mark.slow

ROWS, WIDTH = 8, 5
"""Of the tiles of most tests here."""


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 8×5 (float64), three groups: small matrices then have many of them."""
    monkeypatch.setattr(tiled, "TILE_ROWS", ROWS)
    monkeypatch.setattr(tiled, "TILE_BYTES", ROWS * WIDTH * 8)
    monkeypatch.setattr(tiled, "GROUPS", 3)
    monkeypatch.setattr(tiled, "LEAST_ROWS", 2)


tiles_are_small = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # the same for all examples


def factors(shape: tuple[int, int], rank: int = 3, seed: int = 0) -> LowRank:
    rng = np.random.default_rng(seed)
    return LowRank(
        rng.standard_normal((shape[0], rank)), rng.uniform(0.5, 2, rank), rng.standard_normal((shape[1], rank))
    )


def bend(x: np.ndarray) -> None:
    """Not linear, does not keep 0, and smooth: float32 tiles are near those of float64."""
    x *= x
    x += 1.0


def bent(x: LowRank) -> np.ndarray:
    return np.asarray(x.to_dense()) ** 2 + 1


def blocks(shape: tuple[int, int], k: int, q: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((shape[1], k)), rng.standard_normal((shape[0], q))


# sides around the borders of tiles and groups
sides = st.sampled_from([1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 24, 25, 40, 41])


# ---------------------------------------------------------------- all tiles
@tiles_are_small
@given(st.tuples(sides, sides), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_one_pass_gives_both_products(small_tiles, shape, rank, k, q):
    """`both` is the two products and the dense truth; ⟨AB, C⟩ = ⟨B, AᵀC⟩."""
    x = factors(shape, rank)
    A, dense = MappedLowRank(x, bend), bent(x)
    B, C = blocks(shape, k, q)
    forward, backward = A.both(B, C)
    size = 1e-12 * np.abs(dense).max() * max(shape)
    assert (forward.shape, backward.shape) == ((shape[0], k), (shape[1], q))
    for got, truth in ((forward, dense @ B), (backward, dense.T @ C)):
        assert_allclose(got, truth, rtol=1e-12, atol=size)
    assert_allclose(A.matmat(B), forward, rtol=1e-12, atol=size)
    assert_allclose(A.rmatmat(C), backward, rtol=1e-12, atol=size)
    if k == q:
        assert_allclose(np.vdot(A.matmat(B), C), np.vdot(B, A.rmatmat(C)), rtol=1e-10, atol=100 * size)


@tiles_are_small
@given(st.tuples(sides, sides), st.integers(0, 3))
def test_float32_tiles(small_tiles, shape, k):
    """float32 tiles give products in the precision of the blocks, 1e-5 from float64."""
    x = factors(shape)
    A, dense = MappedLowRank(x, bend, tile_dtype=np.float32), bent(x)
    B, C = blocks(shape, k, 2)
    size = 1e-5 * np.linalg.norm(dense)
    for got, truth in (*zip(A.both(B, C), (dense @ B, dense.T @ C), strict=True), (A.matmat(B), dense @ B)):
        assert got.dtype == np.float64
        assert_allclose(got, truth, rtol=1e-5, atol=size)
    assert A.rmatmat(C).dtype == np.float64
    assert A.dtype == np.float64
    single = [A.matmat(B.astype(np.float32)), *A.both(B.astype(np.float32), C.astype(np.float32))]
    assert {product.dtype for product in single} == {np.dtype(np.float32)}
    assert A.T.matmat(C).dtype == np.float64
    assert_allclose(A.T.matmat(C), dense.T @ C, rtol=1e-5, atol=size)


def test_tiles_are_of_the_precision_asked_for(small_tiles, monkeypatch):
    """The map sees tiles of ``tile_dtype``, none larger than a tile, and every cell just once in a pass."""
    monkeypatch.setattr(tiled, "KEPT_BYTES", 0)
    seen: list[tuple[np.dtype, int]] = []

    def spy(x: np.ndarray) -> None:
        seen.append((x.dtype, x.size))
        bend(x)

    x = factors((21, 13))
    B, C = blocks((21, 13), 2, 2)
    for tile_dtype, width in ((None, WIDTH), (np.float64, WIDTH), (np.float32, 2 * WIDTH)):
        A = MappedLowRank(x, spy, tile_dtype=tile_dtype)
        for product in (lambda A=A: A.matmat(B), lambda A=A: A.rmatmat(C), lambda A=A: A.both(B, C)):
            seen.clear()
            product()
            assert {dtype for dtype, _ in seen} == {np.dtype(tile_dtype or np.float64)}
            assert sum(size for _, size in seen) == 21 * 13
            assert len(seen) >= 3 * math.ceil(13 / width)
            assert max(size for _, size in seen) <= ROWS * width


@pytest.mark.parametrize("sample", [None, Sample(3, 1, (0,)), Sample(9, 1, (0,)), Sample(2, 2, (0,))], ids=str)
@pytest.mark.parametrize("tile_dtype", [np.float64, np.float32])
def test_small_tiles_are_made_once(small_tiles, monkeypatch, sample, tile_dtype):
    """Tiles that are small in all are mapped once for all products, which are those of tiles made anew."""
    x, (B, C), calls = factors((41, 26)), blocks((41, 26), 3, 2), []

    def spy(x: np.ndarray) -> None:
        calls.append(x.size)
        bend(x)

    def products(A: MappedLowRank) -> list[np.ndarray]:
        return [A.matmat(B), A.rmatmat(C), A.T.matmat(C), A.T.rmatmat(B), *A.both(B, C), A.matmat(B)]

    A = MappedLowRank(x, spy, tile_dtype=tile_dtype, sample=sample)
    kept, once = products(A), sum(calls)
    share = 1 if sample is None else sample.draw((41, 26)).band_weight * sample.windows
    assert once == pytest.approx(41 * 26 / share, rel=0.2)
    cells = once * np.dtype(tile_dtype).itemsize
    for name in ("KEPT_BYTES", "KEPT_SAMPLE"):
        monkeypatch.setattr(tiled, name, cells - 1)
    calls.clear()
    anew = products(MappedLowRank(x, spy, tile_dtype=tile_dtype, sample=sample))
    assert sum(calls) == 6 * once
    for one, other in zip(kept, anew, strict=True):
        assert_allclose(one, other, rtol=1e-4 if tile_dtype == np.float32 else 1e-11, atol=1e-5)
    for name in ("KEPT_BYTES", "KEPT_SAMPLE"):
        monkeypatch.setattr(tiled, name, cells)
    calls.clear()
    products(MappedLowRank(x, spy, tile_dtype=tile_dtype, sample=sample))
    assert sum(calls) == once


def test_float32_factors(small_tiles):
    """Factors of float32 make tiles, and an operator, of float32."""
    A = MappedLowRank(factors((9, 7)).astype(np.float32), bend)
    B, C = (block.astype(np.float32) for block in blocks((9, 7), 2, 2))
    assert A.dtype == A.tile_dtype == np.float32
    assert {p.dtype for p in (A.matmat(B), A.rmatmat(C), *A.both(B, C), A.to_dense())} == {np.dtype(np.float32)}


SAMPLES = [
    None,
    Sample(1, 1, (3,)),
    Sample(2, 1, (3,)),
    Sample(5, 1, (0, 7)),
    Sample(3, 4, (0, 7)),
    Sample(1, 3, (2,)),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
@pytest.mark.parametrize("tile_dtype", [np.float64, np.float32])
def test_bits_do_not_depend_on_the_number_of_threads(small_tiles, sample, tile_dtype, monkeypatch):
    """One, two and five threads give the same bits, of all tiles or of a sample, and so do sums."""
    monkeypatch.setattr(threads, "WORTH_THREADS", 0)
    shape = (43, 31)
    x, (B, C) = factors(shape), blocks(shape, 3, 2)

    def results() -> list[np.ndarray]:
        A = MappedLowRank(x, bend, tile_dtype=tile_dtype, sample=sample)
        total = np.array(sampled_sum(x, bend, sample))
        return [A.matmat(B), A.rmatmat(C), *A.both(B, C), A.to_dense(), total]

    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", "1")
    expected = results()
    for count in ("2", "5"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", count)
        for got, one in zip(results(), expected, strict=True):
            assert got.tobytes() == one.tobytes()


def test_threads_are_used(small_tiles, monkeypatch):
    """The test before would prove nothing if all the work were done by one thread."""
    import threading

    monkeypatch.setattr(threads, "WORTH_THREADS", 0)
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", "3")
    names: set[str] = set()
    barrier = threading.Barrier(2, timeout=30)

    def spy(x: np.ndarray) -> None:
        if threading.current_thread().name not in names and len(names) < 2:
            names.add(threading.current_thread().name)
            barrier.wait()
        bend(x)

    MappedLowRank(factors((40, 9)), spy).both(*blocks((40, 9), 1, 1))
    assert len(names) >= 2


# ---------------------------------------------------------------- `both` of the other operators
def operators() -> dict[str, MatrixOperator]:
    rng = np.random.default_rng(5)
    shape = (23, 17)
    dense = np.where(rng.random(shape) < 0.4, rng.integers(-1, 4, shape), np.nan)
    sparse, low, mapped = (
        Sparse(Observations.from_dense(dense)),
        factors(shape, 2),
        MappedLowRank(factors(shape), bend),
    )
    cols = (np.array([0, 3, 4, 16]), np.setdiff1d(np.arange(17), [0, 3, 4, 16]))
    parts = tuple(LowRank(low.U, low.s, low.V[c]) for c in cols)
    drawn = MappedLowRank(factors(shape), bend, sample=Sample(3, 2, (1, 2)))
    return {
        "sparse": sparse,
        "low rank": low,
        "dense": Dense(rng.standard_normal(shape)),
        "mapped": mapped,
        "drawn": drawn,
        "sum": Sum((sparse, low, mapped, drawn)),
        "scaled": Scaled(-0.3, Sum((sparse, mapped))),
        "groups": ColumnGroups((parts[0], MappedLowRank(parts[1], bend)), cols),
        "groups of drawn": ColumnGroups(
            tuple(MappedLowRank(p, bend, sample=Sample(2, 1, (4,))) for p in parts), cols
        ),
        "transposed": sparse.T,
        "transposed drawn": drawn.T,
        "transposed sum": Sum((sparse, drawn)).T,
        "sum of transposed": Sum((sparse.T, mapped.T, drawn.T)),
    }


@pytest.mark.parametrize("name", list(operators()))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_both_of_every_operator(small_tiles, name, dtype):
    """`both` is (A·B, Aᵀ·C) for every operator, and leaves the blocks alone."""
    A = operators()[name]
    B, C = (block.astype(dtype) for block in blocks(A.shape, 3, 2))
    before = B.copy(), C.copy()
    forward, backward = A.both(B, C)
    dense, rounding = A.to_dense(), 1e-11 if dtype == np.float64 else 1e-4
    size = rounding * np.linalg.norm(dense)
    assert_allclose(forward, A.matmat(B), rtol=rounding, atol=size)
    assert_allclose(backward, A.rmatmat(C), rtol=rounding, atol=size)
    assert_allclose(forward, dense @ B, rtol=rounding, atol=size)
    assert_allclose(backward, dense.T @ C, rtol=rounding, atol=size)
    assert_array_equal(B, before[0])
    assert_array_equal(C, before[1])


# ---------------------------------------------------------------- what is drawn
DRAWS = [
    *(((40, 23), 4, 1), ((40, 24), 4, 1), ((17, 7), 3, 1), ((9, 4), 7, 1), ((30, 1), 2, 1), ((1, 6), 6, 1)),
    *(((40, 23), 3, 4), ((40, 24), 1, 3), ((17, 7), 2, 99), ((9, 4), 7, 2)),
]
"""Shapes, windows of columns, and of how many bands of rows one is drawn."""


def drawn_cells(shape: tuple[int, int], sample: Sample) -> np.ndarray:
    """The matrix of ones as the sample knows it."""
    return MappedLowRank(LowRank.constant(shape, 1.0), lambda x: None, sample=sample).to_dense()


@pytest.mark.parametrize(("shape", "windows", "groups"), DRAWS, ids=str)
def test_every_cell_is_drawn_equally_often(small_tiles, shape, windows, groups):
    """Over many seeds each cell is drawn with one probability, and counts 1 on average: n/width of its window."""
    tries, n = 600, shape[1]
    drawn, total, counts = np.zeros(shape), np.zeros(shape), set()
    for seed in range(tries):
        ones = drawn_cells(shape, Sample(windows, groups, (seed,)))
        counts.update(np.unique(ones[ones != 0]).tolist())
        drawn += ones != 0
        total += ones
    windows = min(windows, n)
    weight = Sample(windows, groups, (0,)).draw(shape).band_weight
    assert 1 <= weight <= groups
    assert groups > 1 or weight == 1
    widths = {n // windows, -(-n // windows)}
    assert_allclose(sorted(counts), sorted(weight * n / width for width in widths), rtol=1e-12)
    likely = 1 / (weight * windows)
    error = math.sqrt(likely * (1 - likely) / tries)
    assert np.abs(drawn / tries - likely).max() <= 5 * error
    assert abs(drawn.mean() / tries - likely) <= 5 * error
    assert np.abs(total / tries - 1).max() <= 5 * error * max(counts)


@given(st.integers(1, 400), st.integers(1, 60), st.integers(1, 12), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=100)
def test_windows_are_handed_out_evenly(m, n, windows, groups, seed):
    """Windows cover the shuffled columns, and each goes to as many bands of rows as any other, or one more."""
    windows = min(windows, n)
    draw = Sample(windows, groups, (seed,)).draw((m, n))
    assert sorted(draw.order) == list(range(n))
    counts = Counter(draw.windows)
    often = [counts.get(window, 0) for window in all_windows(windows, n)]
    assert sum(often) == len(draw.windows) == len(draw.bands)
    assert max(often) - min(often) <= 1
    again = Sample(windows, groups, (seed,)).draw((m, n))
    assert_array_equal(again.order, draw.order)
    assert again[1:] == draw[1:]
    rows = [i for band in draw.bands for i in range(m)[band]]
    assert len(rows) == len(set(rows))
    assert sorted(rows) == list(range(m)) or groups > 1
    heights = [len(range(m)[band]) for band in draw.bands]
    assert max(heights) - min(heights) <= 1
    assert len(draw.bands) >= 1


def all_windows(windows: int, n: int) -> list[tuple[int, int]]:
    """The parts of the columns, as equal as whole numbers allow, found from many draws."""
    found: set[tuple[int, int]] = set()
    for seed in itertools.count():
        found.update(Sample(windows, 1, (seed,)).draw((100, n)).windows)
        if len(found) == windows:
            break
        assert seed < 1000
    parts = sorted(found)
    assert [left for left, _ in parts] == [0, *(right for _, right in parts[:-1])]
    assert parts[-1][1] == n
    widths = [right - left for left, right in parts]
    assert max(widths) - min(widths) <= 1
    return parts


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 5000))
def test_sample_of_a_fraction(m, n, fraction):
    """One of so many cells, or a few more, but two bands at least; all if asked for; no window without a column."""
    sample = Sample.of((m, n), fraction, (1, 2))
    assert sample.seed == (1, 2)
    assert 1 <= sample.windows <= n
    assert 1 <= sample.fraction <= fraction
    draw, bands = sample.draw((m, n)), len(Sample(sample.windows, 1, ()).draw((m, n)).bands)
    assert len(draw.bands) >= min(2, bands)
    assert sample.fraction > fraction / 2 or sample.groups == max(bands // 2, 1)
    assert Sample.of((m, n), 1).fraction == 1


def test_one_sample_serves_all_products(small_tiles):
    """matmat, rmatmat, both, the transposed operator and the dense form belong to one matrix; f(X) where drawn."""
    shape = (37, 26)
    x, (B, C) = factors(shape), blocks(shape, 3, 2)
    for windows, groups in ((2, 1), (3, 1), (7, 1), (26, 1), (40, 1), (1, 3), (3, 2), (4, 99)):
        A = MappedLowRank(x, bend, sample=Sample(windows, groups, (windows, 1)))
        dense = A.to_dense()
        drawn = dense != 0
        assert 0 < drawn.mean() < 1
        ones = drawn_cells(shape, A.sample)
        assert_array_equal(drawn, ones != 0)
        assert_allclose(dense, ones * bent(x), rtol=1e-12)
        forward, backward = A.both(B, C)
        for got, truth in ((forward, dense @ B), (A.matmat(B), dense @ B), (backward, dense.T @ C)):
            assert_allclose(got, truth, rtol=1e-11, atol=1e-9)
        assert_allclose(A.rmatmat(C), dense.T @ C, rtol=1e-11, atol=1e-9)
        assert_allclose(A.T.to_dense(), dense.T, rtol=1e-12)
        assert_allclose(A.T.matmat(C), dense.T @ C, rtol=1e-11, atol=1e-9)
        assert_allclose(A.T.rmatmat(B), dense @ B, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("shape", [(37, 26), (1, 9), (9, 1), (1, 1)], ids=str)
def test_one_window_is_everything(small_tiles, shape):
    """A sample of one window is the exact operator, and its sum has no error."""
    x, (B, C) = factors(shape), blocks(shape, 2, 2)
    A, exact = MappedLowRank(x, bend, sample=Sample(1, 1, (5,))), MappedLowRank(x, bend)
    assert_allclose(A.to_dense(), exact.to_dense(), rtol=1e-13)
    for got, truth in zip(A.both(B, C), exact.both(B, C), strict=True):
        assert_allclose(got, truth, rtol=1e-12, atol=1e-12)
    total, error = sampled_sum(x, bend, Sample(1, 1, (5,)))
    assert_allclose(total, cell_sum(x, bend), rtol=1e-13)
    assert error == 0
    assert sampled_sum(x, bend, None) == (cell_sum(x, bend), 0.0)


def test_other_seeds_draw_other_cells(small_tiles):
    """Same seed, same cells; another number anywhere in it, others."""
    drawn = {seed: drawn_cells((40, 30), Sample(4, 1, seed)).tobytes() for seed in ((0,), (1,), (0, 0, 1), (0, 1, 0))}
    assert len(set(drawn.values())) == len(drawn)
    assert drawn[(1,)] == drawn_cells((40, 30), Sample(4, 1, (1,))).tobytes()


# ---------------------------------------------------------------- right on average
@pytest.mark.parametrize(
    ("shape", "windows", "groups"), [((40, 24), 4, 1), ((41, 23), 3, 2), ((9, 4), 7, 1), ((50, 6), 1, 3)], ids=str
)
def test_products_of_a_sample_are_right_on_average(small_tiles, shape, windows, groups):
    """The mean of each product over many seeds is the exact one, within five standard errors."""
    tries = 300
    x, (B, C) = factors(shape), blocks(shape, 2, 2)
    exact = bent(x)
    truth = exact @ B, exact.T @ C, exact @ B, exact.T @ C
    found: list[list[np.ndarray]] = [[], [], [], []]
    for seed in range(tries):
        A = MappedLowRank(x, bend, sample=Sample(windows, groups, (seed, 0)))
        for some, product in zip(found, (A.matmat(B), A.rmatmat(C), *A.both(B, C)), strict=True):
            some.append(product)
    for some, goal in zip(found, truth, strict=True):
        error = np.std(some, axis=0) / math.sqrt(tries)
        assert (np.abs(np.mean(some, axis=0) - goal) <= 5 * error + 1e-9).all()


def spread_of_sums(
    x: LowRank, cell_map: Any, windows: int, groups: int = 1, tries: int = 200
) -> tuple[float, float, float]:
    """(mean, standard deviation, what is stated for it) of a sum over many samples."""
    found = np.array([sampled_sum(x, cell_map, Sample(windows, groups, (seed, 2))) for seed in range(tries)])
    return found[:, 0].mean(), found[:, 0].std(), math.sqrt(np.mean(found[:, 1] ** 2))


def remainder(x: np.ndarray) -> None:
    """What is summed in earnest: small, of either sign, and nearly independent from cell to cell."""
    L1("-2:2", xi=0.1).compiled_remainder(1.0)(x)


@pytest.mark.parametrize(
    ("shape", "windows", "groups"),
    [((96, 60), 3, 1), ((64, 60), 6, 1), ((160, 48), 2, 3), ((320, 48), 1, 2)],
    ids=str,
)
@pytest.mark.parametrize("cell_map", [remainder, np.sin], ids=["remainder", "sine"])
def test_sum_of_a_sample(shape, windows, groups, cell_map):
    """The mean of the sum over many seeds is exact; its stated standard error is between ½ and 2 of the real one."""
    x = factors(shape, 3)
    run = cell_map if cell_map is remainder else lambda cells: np.sin(3 * cells, out=cells)
    mean, real, stated = spread_of_sums(x, run, windows, groups)
    assert abs(mean - cell_sum(x, run)) <= 5 * real / math.sqrt(200)
    assert 0.5 <= stated / real <= 2


@pytest.mark.parametrize(("windows", "groups"), [(4, 1), (2, 2), (1, 3)])
def test_sum_of_cells_that_are_not_small(windows, groups):
    """A sum that is far from 0 is right on average, too."""
    x = factors((192, 48), 3)
    mean, real, _ = spread_of_sums(x, bend, windows, groups)
    assert abs(mean - cell_sum(x, bend)) <= 5 * real / math.sqrt(200)
    assert real < 0.5 * mean  # or that would prove nothing


@pytest.mark.parametrize(("shape", "windows"), [((50, 62), 6), ((160, 61), 3), ((112, 49), 5)], ids=str)
def test_sum_of_a_sample_with_windows_of_different_width(shape, windows):
    """The same where the columns cannot be cut into equal windows, and the cells share a constant part."""
    x = factors(shape, 3)

    def run(cells: np.ndarray) -> None:
        np.sin(3 * cells, out=cells)
        cells *= 0.1
        cells += 1.0

    mean, real, stated = spread_of_sums(x, run, windows)
    assert abs(mean - cell_sum(x, run)) <= 5 * real / math.sqrt(200) + 1e-9
    assert 0.5 <= stated / real <= 2


@pytest.mark.parametrize("windows", [6, 9, 12])
def test_sum_of_a_sample_with_narrow_windows(windows):
    """Windows of one column are right on average too, and know their error; there are no more than columns."""
    x = factors((160, 9), 3)
    mean, real, stated = spread_of_sums(x, remainder, windows)
    assert abs(mean - cell_sum(x, remainder)) <= 5 * real / math.sqrt(200)
    assert 0.5 <= stated / real <= 2


# ---------------------------------------------------------------- what the split is for
def rating_like() -> LowRank:
    """300×400 values in 1..5."""
    rng = np.random.default_rng(2)
    U, V = rng.uniform(0, 1, (300, 4)), rng.uniform(0, 1, (400, 4))
    dense = U @ V.T
    U, V = np.hstack([U, np.ones((300, 1))]), np.hstack([V, np.ones((400, 1))])
    low, high = dense.min(), dense.max()
    s = np.full(5, 4 / (high - low))
    s[4] = 1 - 4 * low / (high - low)
    return LowRank(U, s, V)


@pytest.mark.parametrize("way", ["matmat", "rmatmat", "both"])
def test_float32_tiles_with_the_split(way):
    """ξ = .01, values in 1..5: the whole product is within 1e-7 of float64 with the split, and worse without it."""
    x, penalty = rating_like(), L1("1:5", xi=0.01)
    assert_allclose([x.to_dense().min(), x.to_dense().max()], [1, 5])
    B, C = blocks(x.shape, 8, 8)
    line, single = penalty.line(1.0), {"tile_dtype": np.float32}
    straight = LowRank.combine([line.slope, 1.0], [x, LowRank.constant(x.shape, line.shift)])
    split = Sum((straight, MappedLowRank(x, penalty.compiled_remainder(1.0), **single)))
    whole = MappedLowRank(x, penalty.compiled("prox"), **single)
    truth = penalty.prox(x.to_dense())

    def error(A: MatrixOperator) -> float:
        if way == "both":
            forward, backward = A.both(B, C)
            return max(relative(forward, truth @ B), relative(backward, truth.T @ C))
        return relative(A.matmat(B), truth @ B) if way == "matmat" else relative(A.rmatmat(C), truth.T @ C)

    assert error(split) <= 1e-7
    assert error(whole) > 3 * error(split)


def relative(got: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(got - truth) / np.linalg.norm(truth))
