"""The fused kernels against float64: on a GPU where there is one, else by Triton's interpreter on small shapes."""

from __future__ import annotations

import itertools
import os
from functools import partial
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.linalg import LowRank, MappedLowRank, cell_sum
from snapimpute.linalg.backend import EXACT, Accuracy

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

GPU = torch.cuda.is_available()
if not GPU:
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("there is no GPU, and TRITON_INTERPRET=1 was not set in time", allow_module_level=True)
    torch.set_num_threads(1)

from snapimpute.backends import backend_named  # noqa: E402
from snapimpute.backends.torch import _forms as forms  # noqa: E402
from snapimpute.backends.torch import _fused as fused  # noqa: E402
from snapimpute.backends.torch import _fused_operator as fused_operator  # noqa: E402
from snapimpute.backends.torch import _gathers as gathers  # noqa: E402
from snapimpute.backends.torch._fused_operator import FusedMapped, chosen  # noqa: E402
from snapimpute.backends.torch._tiles import TorchMapped  # noqa: E402
from snapimpute.backends.torch.backend import TorchBackend  # noqa: E402

pytestmark = pytest.mark.slow

DEVICE = "cuda" if GPU else "cpu"
TWENTY = [0.25 * k + 0.01 * k * k for k in range(20)]
WEIGHTS = np.linspace(0.5, 1.5, 20)
PENALTIES = {
    "stairs": si.L1("1:5", xi=0.05),
    "half stars": si.L1("0.5:5:0.5", xi=0.01),
    "votes": si.L1("-1,1", xi=0.1),
    "wide": si.L1("1:5", xi=2.0),
    "weights": si.L1([1, 2, 4, 7], xi=0.03, weights=[1.0, 0.5, 2.0, 1.0]),
    "composed": si.ComposedL1("1:5", xi=0.05),
    "uneven composed": si.ComposedL1([1, 2, 4, 7], xi=0.05),
    "l0": si.L0("1:5", xi=0.02),
    "weighted l0": si.L0([1, 2, 4, 7], xi=0.02, weights=[1.0, 0.5, 2.0, 1.0]),
    "fractional": si.FractionalL0("1:5", xi=0.02, alpha=0.05),
    "fractional, jumping": si.FractionalL0("1:5", xi=0.3, alpha=0.01),
    "lp": si.Lp("1:5", xi=0.05, p=0.5),
    "one well of five": si.FractionalL0("1:5", xi=0.3, alpha=0.5, weights=[0, 0, 2, 0, 0]),
    "twenty": si.L1(TWENTY, xi=0.01, weights=WEIGHTS),
    "twenty composed": si.ComposedL1(TWENTY, xi=0.01),
    "twenty l0": si.L0(TWENTY, xi=0.005, weights=WEIGHTS),
    "twenty fractional": si.FractionalL0(TWENTY, xi=0.01, alpha=0.02),
    "small and large": si.L1([0, 1, 1000], xi=0.05),
    "large": si.L1([1e5, 2e5, 4e5, 7e5], xi=3e3),
    "small": si.L0([1e-5, 2e-5, 4e-5, 7e-5], xi=2e-12),
    "small fractional": si.FractionalL0([1e-5, 2e-5, 4e-5, 7e-5], xi=3e-11, alpha=1e-12),
}
SIZES = {"small and large": 0.2, "large": 1e5, "small": 1e-5, "small fractional": 1e-5}
# bf16 is not a type of numpy's, which the interpreter computes with.
LIMITS = {"fp16": 2e-4, "tf32": 2e-4, "float32": 1e-6} | ({"bf16": 2e-3} if GPU else {})
JUMPING = ("l0", "weighted l0", "twenty l0", "small", "lp", "fractional, jumping", "small fractional")
TABLES = ("lp", "fractional", "fractional, jumping", "one well of five", "twenty fractional", "small fractional")
JUMP = 3e-2  # a cell that rounding carries over an edge is off by as much as the map jumps


def factors(m: int, n: int, rank: int, size: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """A matrix with entries about 3, some of them off any alphabet; of numbers that float32 has."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((m, rank)) * 1.2 / np.sqrt(rank), rng.standard_normal((n, rank))
    left[:, 0], right[:, 0] = 3.0, 1.0
    return (size * left).astype(np.float32).astype(np.float64), right.astype(np.float32).astype(np.float64)


def there(*arrays: np.ndarray) -> list[Any]:
    return [torch.tensor(array, dtype=torch.float32, device=DEVICE) for array in arrays]


@pytest.mark.parametrize("precision", LIMITS)
@pytest.mark.parametrize("name", PENALTIES)
def test_products_are_those_of_float64(name: str, precision: str) -> None:
    """Column by column, relative to what the whole product of such a column is on the average.

    Where the parts of a sum nearly cancel, any rounding of the parts is large beside the sum.
    """
    penalty: Any = PENALTIES[name]
    left, right = factors(70, 90, 20, SIZES.get(name, 1.0))
    block = np.random.default_rng(1).standard_normal((90, 20)) * np.geomspace(1e-6, 1e3, 20)
    rest, line = penalty.compiled_remainder(1.0), penalty.line(1.0)
    exact = MappedLowRank(LowRank(left, np.ones(20), right), rest).matmat(block)
    cells = left @ right.T
    mapped = cells.copy().reshape(-1)
    rest(mapped)
    whole = np.linalg.norm(line.slope * cells + line.shift + mapped.reshape(cells.shape))
    u, v, b = there(left, right, block)
    found = fused.product(u, v, forms.form_of(rest), b, precision, plain=not GPU).cpu().numpy()
    off = np.linalg.norm(found - exact, axis=0) / (whole * np.linalg.norm(block, axis=0) / np.sqrt(len(block)))
    more = JUMP if precision != "float32" and name in JUMPING else 2e-6 if name in TABLES else 0.0
    assert off.max() <= more + LIMITS[precision]


@pytest.mark.parametrize("large", [0, fused.LARGE], ids=["in pieces", "whole"])
@pytest.mark.parametrize(
    ("m", "n", "rank", "width"), [(1, 1, 1, 1), (130, 40, 3, 70), (20, 300, 70, 5), (40, 30, 256, 256)]
)
def test_any_shape(m: int, n: int, rank: int, width: int, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "LARGE", large)
    penalty = PENALTIES["stairs"]
    left, right = factors(m, n, rank)
    block = np.random.default_rng(2).standard_normal((n, width))
    rest: Any = penalty.compiled_remainder(1.0)  # type: ignore[attr-defined]
    exact = MappedLowRank(LowRank(left, np.ones(rank), right), rest).matmat(block)
    found = fused.product(*there(left, right), forms.form_of(rest), *there(block), "float32", plain=not GPU)
    assert found.shape == (m, width)
    np.testing.assert_allclose(found.cpu().numpy(), exact, atol=1e-4 * np.abs(block).sum(axis=0).max())


@pytest.mark.parametrize("name", [name for name in PENALTIES if "composed" not in name])
def test_totals_are_those_of_float64(name: str) -> None:
    penalty: Any = PENALTIES[name]
    left, right = factors(70, 90, 20, SIZES.get(name, 1.0))
    cost = penalty.compiled_envelope(1.0)
    exact = cell_sum(LowRank(left, np.ones(20), right), cost)
    found = fused.total(*there(left, right), forms.form_of(cost), plain=not GPU)
    assert found == pytest.approx(exact, rel=3e-7)


def test_equal_costs_of_many_columns() -> None:
    """Added to a large float32, all of them are rounded the same way."""
    penalty = si.L0([1, 2, 4, 7], xi=0.0113, weights=[1.0, 0.5, 2.0, 1.0])
    left, right = np.full((3, 1), 3.5), np.ones((30_000, 1))
    cost = penalty.compiled_envelope(1.0)
    exact = cell_sum(LowRank(left, np.ones(1), right), cost)
    found = fused.total(*there(left, right), forms.form_of(cost), plain=not GPU)  # type: ignore[arg-type]
    assert found == pytest.approx(exact, rel=4e-7)


def test_a_small_cost_of_large_symbols() -> None:
    """A table is as good as the cost asks for, which is small beside 1000."""
    penalty = si.FractionalL0([1000, 1001, 1003], xi=0.03, alpha=0.05, weights=[1, 1, 0])
    left, right = factors(70, 90, 20)
    left[:, 0] = 1001.3
    cost = penalty.compiled_envelope(1.0)
    exact = cell_sum(LowRank(left, np.ones(20), right), cost)
    found = fused.total(*there(left, right), forms.form_of(cost), plain=not GPU)  # type: ignore[arg-type]
    assert found == pytest.approx(exact, rel=2e-5)


@pytest.mark.parametrize("penalty", [si.Lp("1:5", xi=0.5, p=0.5), si.FractionalL0("1:5", xi=1.0, alpha=1.0)], ids=str)
def test_far_from_the_alphabet_a_table_still_bends(penalty: Any) -> None:
    y = np.linspace(-60, 66, 64)
    cells, one = there(y[:, None], np.ones((1, 1)))
    rest, cost = penalty.compiled_remainder(1.0), penalty.compiled_envelope(1.0)
    wanted, costs = y.copy(), y.copy()
    rest(wanted)
    cost(costs)
    found = fused.product(cells, one, forms.form_of(rest), one, "float32", plain=not GPU).cpu().numpy()[:, 0]
    assert (np.abs(found - wanted) / (1 + np.abs(y))).max() < 1e-3
    each = [fused.total(cell[None], one, forms.form_of(cost), plain=not GPU) for cell in cells]
    np.testing.assert_allclose(each, costs, rtol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entries(dtype: Any) -> None:
    left, right = factors(30, 40, 37)
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, 30, 150).astype(np.int32), rng.integers(0, 40, 150).astype(np.int32)
    given = [torch.tensor(one, device=DEVICE) for one in (left, right, rows, cols)]
    found = gathers.entries(given[0].to(dtype), given[1].to(dtype), given[2], given[3]).cpu().numpy()
    np.testing.assert_allclose(found, (left[rows] * right[cols]).sum(axis=1), rtol=1e-5, atol=1e-5)
    assert gathers.entries(given[0], given[1], given[2][:0], given[3][:0]).numel() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("counts", [[3, 0, 7, 1], [0, 0], [5, 1300, 0, 512, 513], []])
@pytest.mark.parametrize("width", [1, 20, 150])
def test_lane_sums(dtype: Any, counts: list[int], width: int) -> None:
    """Lanes that are empty, short, just one piece long, and of several pieces."""
    rng = np.random.default_rng(0)
    pointers = np.concatenate([[0], np.cumsum(np.array(counts, dtype=np.int64))]).astype(np.int64)
    indices = rng.integers(0, 40, pointers[-1]).astype(np.int32)
    values, block = rng.standard_normal(len(indices)), rng.standard_normal((40, width))
    ends, where, v, b = (torch.tensor(one, device=DEVICE) for one in (pointers, indices, values, block))
    lanes = gathers.Lanes(backend_named("torch:cpu").array(ends), where, None)
    found = gathers.lane_sums(lanes.pieces, where, v.to(dtype), b.to(dtype)).cpu().numpy()
    wanted = np.array([values[a:z] @ block[indices[a:z]] for a, z in itertools.pairwise(pointers)])
    assert found.shape == (len(counts), width)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-4
    np.testing.assert_allclose(found, wanted.reshape(found.shape), rtol=tolerance, atol=tolerance)


def test_maps_that_kernels_do_not_know() -> None:
    assert forms.form_of(si.L1("1:5", xi=0.1).compiled_value(1.0)) is None
    assert forms.form_of(si.Ridge(center=3.0, xi=0.1).compiled_envelope(1.0)) is None
    many = si.L1(np.arange(30.0) ** 1.5, xi=0.01)
    assert forms.form_of(many.compiled_remainder(1.0)) is None
    assert forms.form_of(many.compiled_envelope(1.0)) is None
    alone = si.Lp([3.0], xi=0.1, p=0.5)  # where to put a table?
    assert forms.form_of(alone.compiled_remainder(1.0)) is None
    assert forms.form_of(alone.compiled_envelope(1.0)) is None
    steep = si.FractionalL0("1:5", xi=0.021, alpha=0.0105)  # nearly a jump: no table is fine enough
    assert forms.form_of(steep.compiled_remainder(1.0)) is None
    far = si.L1([99_999, 100_000, 100_001], xi=0.01)  # fp16 has no such numbers
    assert forms.form_of(far.compiled_remainder(1.0)) is None
    assert forms.form_of(far.compiled_envelope(1.0)) is None
    for even in (si.L1("0:100", xi=0.01), si.L0("0:100", xi=0.01)):  # evenly spaced, any number will do
        assert forms.form_of(even.compiled_remainder(1.0)).kind in (forms.STAIRS, forms.EVEN)  # type: ignore[union-attr]
        assert forms.form_of(even.compiled_envelope(1.0)).kind in forms.GAINS  # type: ignore[union-attr]


@pytest.mark.parametrize("columns", range(1, 600, 7))
def test_pieces_cover_the_columns_and_little_more(columns: int) -> None:
    found = fused.pieces_of(columns)
    assert sum(found) >= columns
    assert list(found) == sorted(found, reverse=True)
    assert set(found) <= {16, 32, 64, 128, 256}
    assert sum(found) - columns < max(16, sum(found) // 4)
    assert len(found) <= 3


def test_too_many_columns_are_refused() -> None:
    assert fused.pieces_of(769) == ()
    form: Any = forms.form_of(PENALTIES["stairs"].compiled_remainder(1.0))  # type: ignore[attr-defined]
    wide, narrow = torch.ones((5, 257)), torch.ones((5, 3))
    with pytest.raises(ValueError, match="factors of up to 256 columns, got 257"):
        fused.product(wide, wide, form, narrow, "fp16", plain=True)
    with pytest.raises(ValueError, match="a block of up to 256 columns, got 257"):
        fused.product(narrow, narrow, form, wide, "fp16", plain=True)


def test_kernels_are_launched_where_their_arguments_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton launches on the current device, and would read the memory of another one."""
    monkeypatch.setattr(torch.cuda, "device", lambda device: f"on {device}")

    class Far:
        is_cuda, device = True, torch.device("cuda:1")

    assert fused.on_device_of(Far()) == "on cuda:1"  # type: ignore[arg-type]
    with fused.on_device_of(torch.ones(1)):  # nothing is asked of a GPU that may not be there
        pass


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("width", [16, 80, 256])
@pytest.mark.parametrize("rank", [16, 144, 256, 768])
def test_blocks_fit_the_fast_memory(rank: int, width: int, itemsize: int) -> None:
    size = fused.blocks_for(rank, width, itemsize)
    if rank * itemsize <= 1536:
        held = size.rows * rank + size.stages * size.cols * (rank + width) + size.rows * size.cols
        assert itemsize * held <= 227 * 1024


def test_smaller_cards_get_smaller_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    class SolverInfo:
        shared_memory_per_block_optin = 232_448  # an H200

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SolverInfo)
    assert fused.shared_of.__wrapped__(torch.device("cuda:0")) == fused.SHARED
    SolverInfo.shared_memory_per_block_optin = 101_376  # of the kind that one has at home
    small = fused.shared_of.__wrapped__(torch.device("cuda:0"))
    assert small == 101_376 - fused.SPARE
    assert fused.blocks_for(64, 64, 2) == (128, 64, 4, 3)
    found = fused.blocks_for(64, 64, 2, shared=small)
    assert found == (64, 32, 4, 2)


# ---------------------------------------------------------------- the operator
@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A place with kernels; without a GPU, by the interpreter."""
    if GPU:
        return backend_named("torch:cuda")
    found: Any = TorchBackend(torch.device("cpu"))
    found.__dict__.update(fused=fused, gathers=gathers)
    for name in ("product_of_sides", "total"):
        monkeypatch.setattr(fused, name, partial(getattr(fused, name), plain=True))
    return found


def test_the_operator_is_the_matrix_and_its_transpose(backend: Any) -> None:
    left, right = factors(70, 50, 6)
    x = LowRank(left, np.linspace(1, 0.5, 6), right).astype(np.float32)
    rest: Any = PENALTIES["stairs"].compiled_remainder(1.0)  # type: ignore[attr-defined]
    exact = MappedLowRank(x.astype(np.float64), rest)
    operator = FusedMapped(backend, x.moved(backend), forms.form_of(rest), "float32", 0.0)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    B, C = rng.standard_normal((50, 4)), rng.standard_normal((70, 3))
    forward = operator.matmat(backend.put(B.astype(np.float32)))
    backward = operator.rmatmat(backend.put(C.astype(np.float32)))
    np.testing.assert_allclose(forward.to_host(), exact.matmat(B), atol=2e-5)  # type: ignore[attr-defined]
    np.testing.assert_allclose(backward.to_host(), exact.rmatmat(C), atol=2e-5)  # type: ignore[attr-defined]
    # the dot test
    ours = float((forward.to_host()[:, :3] * C).sum())  # type: ignore[attr-defined]
    theirs = float((B[:, :3] * backward.to_host()).sum())  # type: ignore[attr-defined]
    assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-3)
    assert operator.shape == (70, 50)
    assert operator.dtype == np.float32
    assert operator.backend is backend


def test_the_cheap_precision_serves_while_its_error_is_allowed(backend: Any) -> None:
    left, right = factors(70, 50, 6)
    x = LowRank(left, np.ones(6), right).orthonormalised().astype(np.float32).moved(backend)
    form: Any = forms.form_of(PENALTIES["stairs"].compiled_remainder(1.0))  # type: ignore[attr-defined]
    coarse = chosen(backend, x, form, Accuracy(1.0, 0.0, x.U, x.V), 0.0)
    assert coarse.precision == "fp16"
    assert 0 < coarse.error <= 1.0
    assert chosen(backend, x, form, Accuracy(0.5 * coarse.error, 0.0, x.U, x.V), 0.0).precision == "float32"
    assert chosen(backend, x, form, EXACT, 0.0).precision == "float32"
    assert chosen(backend, x, form, Accuracy(1.0), 0.0).precision == "float32"  # no spaces to measure it in
    # what was measured is what there is, on all rows of a table as small as this
    exact = chosen(backend, x, form, EXACT, 0.0)
    off = coarse.matmat(x.V).to_host() - exact.matmat(x.V).to_host()  # type: ignore[attr-defined]
    down = coarse.rmatmat(x.U).to_host() - exact.rmatmat(x.U).to_host()  # type: ignore[attr-defined]
    assert coarse.error == pytest.approx(float(np.hypot(np.linalg.norm(off), np.linalg.norm(down))), rel=1e-3)
    # beside what float32 costs a matrix of float64
    assert chosen(backend, x, form, Accuracy(1.0, 0.0, x.U, x.V), 0.25).error == pytest.approx(coarse.error + 0.25)


def test_beyond_the_limits_blocks_are_cut_and_factors_go_by_tiles(backend: Any) -> None:
    rest: Any = PENALTIES["stairs"].compiled_remainder(1.0)  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    for rank, kind in ((3, FusedMapped), (257, TorchMapped)):
        left, right = factors(30, 20, rank)
        x = LowRank(left, np.ones(rank), right).astype(np.float32)
        B = rng.standard_normal((20, 300)).astype(np.float32)
        operator = backend.mapped(x.moved(backend), rest, EXACT, None)
        assert type(operator) is kind
        exact = MappedLowRank(x.astype(np.float64), rest).matmat(B.astype(np.float64))
        np.testing.assert_allclose(operator.matmat(backend.put(B)).to_host(), exact, atol=2e-4)


@pytest.mark.parametrize("name", ["stairs", "weights", "weighted l0", "fractional"])
@pytest.mark.parametrize("far", [3e2, 3e4, 1e6])
def test_cells_out_of_range_go_by_tiles(far: float, name: str, backend: Any) -> None:
    """They are finite, and fp16 has no such numbers."""
    left, right = factors(40, 30, 4)
    left[3] *= far
    x = LowRank(left, np.ones(4), right).astype(np.float32)
    penalty: Any = PENALTIES[name]
    rest, cost = penalty.compiled_remainder(1.0), penalty.compiled_envelope(1.0)
    B = np.random.default_rng(0).standard_normal((30, 5)).astype(np.float32)
    operator = backend.mapped(x.moved(backend), rest, EXACT, None)
    assert type(operator) is (FusedMapped if far < 1e3 else TorchMapped)
    exact = MappedLowRank(x.astype(np.float64), rest).matmat(B.astype(np.float64))
    rtol, cost_tol = (1e-3, 1e-2) if name in TABLES else (1e-4, 1e-5)  # tables promise no more so far outside
    np.testing.assert_allclose(operator.matmat(backend.put(B)).to_host(), exact, rtol=rtol, atol=1e-4)
    found, _ = backend.cell_sum(x.moved(backend), cost, None)
    assert found == pytest.approx(cell_sum(x.astype(np.float64), cost), rel=cost_tol)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["stairs", "weights", "l0", "weighted l0", "fractional"])
def test_what_is_not_finite_is_not_hidden(name: str, bad: float, backend: Any) -> None:
    left, right = factors(40, 30, 4)
    left[3, 1] = bad
    x = LowRank(left, np.ones(4), right).astype(np.float32).moved(backend)
    penalty: Any = PENALTIES[name]
    operator = backend.mapped(x, penalty.compiled_remainder(1.0), EXACT, None)
    found = operator.matmat(backend.put(np.ones((30, 2), np.float32))).to_host()
    assert not np.isfinite(found[3]).any()
    if np.isnan(bad):
        assert np.isnan(backend.cell_sum(x, penalty.compiled_envelope(1.0), None)[0])


def test_a_table_in_which_every_other_row_and_column_is_small(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that the error is measured on are not every so many-th."""
    monkeypatch.setattr(fused_operator, "PROBED", 128)
    left, right = factors(512, 512, 4)
    left[::2] /= 50
    right[::2] /= 50
    x = LowRank(left, np.ones(4), right).orthonormalised().astype(np.float32).moved(backend)
    form: Any = forms.form_of(PENALTIES["stairs"].compiled_remainder(1.0))  # type: ignore[attr-defined]
    exact, cheap = (FusedMapped(backend, x, form, precision, 0.0) for precision in ("float32", "fp16"))
    cheap.measure(exact, x.U, x.V)
    off = cheap.matmat(x.V).to_host() - exact.matmat(x.V).to_host()  # type: ignore[attr-defined]
    down = cheap.rmatmat(x.U).to_host() - exact.rmatmat(x.U).to_host()  # type: ignore[attr-defined]
    assert cheap.error == pytest.approx(float(np.hypot(np.linalg.norm(off), np.linalg.norm(down))), rel=0.2)


def test_all_columns_of_a_space_count_in_the_error(backend: Any) -> None:
    left, right = factors(40, 30, 4)
    x = LowRank(left, np.ones(4), right).astype(np.float32).moved(backend)
    form: Any = forms.form_of(PENALTIES["stairs"].compiled_remainder(1.0))  # type: ignore[attr-defined]
    exact, cheap = (FusedMapped(backend, x, form, precision, 0.0) for precision in ("float32", "fp16"))
    right_space, nothing = np.zeros((30, 286), np.float32), backend.put(np.zeros((40, 0), np.float32))
    right_space[:, 256:] = np.eye(30)
    cheap.measure(exact, nothing, backend.put(right_space))
    assert cheap.error > 0


def test_precision_rises_as_steps_become_small(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole fit by the kernels: fp16 at first, float32 at the end, and the objective of numpy."""
    used: list[str] = []

    def noted(*given: Any) -> FusedMapped:
        used.append((one := chosen(*given)).precision)
        return one

    monkeypatch.setattr("snapimpute.backends.torch._fused_operator.chosen", noted)
    monkeypatch.setattr("snapimpute.backends.torch.backend.torch_backend", lambda device=None: backend)
    known = si.datasets.low_rank_alphabet((30, 25), rank=2, alphabet="1:5", observed=0.4).observations
    problem = si.Problem(known, si.Nuclear(2.0), si.L1("1:5", xi=0.2))
    options: dict[str, Any] = {"max_iter": 6, "tol": 0, "evaluate_every": 6, "dtype": "float32"}
    here = si.solve(problem, "apg", **options)
    there = si.solve(problem, "apg", backend=f"torch:{DEVICE}", **options)
    assert there.objective == pytest.approx(here.objective, rel=1e-5)
    assert used[0] == "float32"  # nothing is known yet of the spaces that matter
    turn = used.index("float32", 1)
    assert turn > 1
    assert set(used[1:turn]) == {"fp16"}
    assert set(used[turn:]) == {"float32"}


def test_a_shifted_alphabet_by_more_columns_of_the_factors(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With offsets the alphabet differs from cell to cell; they join the factors."""
    ranks: list[int] = []

    def noted(backend: Any, factors: LowRank, *given: Any) -> FusedMapped:
        ranks.append(factors.rank)
        return chosen(backend, factors, *given)

    monkeypatch.setattr("snapimpute.backends.torch._fused_operator.chosen", noted)
    monkeypatch.setattr("snapimpute.backends.torch.backend.torch_backend", lambda device=None: backend)
    known = si.datasets.low_rank_alphabet((30, 25), rank=2, alphabet="1:5", observed=0.4).observations
    rng = np.random.default_rng(0)
    ones = np.ones
    biases = LowRank(
        np.stack([rng.standard_normal(30), ones(30)], 1), ones(2), np.stack([ones(25), rng.standard_normal(25)], 1)
    )
    problem = si.Problem(known, si.Nuclear(2.0), si.L1("1:5", xi=0.05), biases)
    options: dict[str, Any] = {"max_iter": 2, "tol": 0, "dtype": "float32"}
    here = si.solve(problem, "apg", **options)
    there = si.solve(problem, "apg", backend=f"torch:{DEVICE}", **options)
    assert ranks[0] == 2  # of the start, which is 0, only they are there
    assert there.objective == pytest.approx(here.objective, rel=1e-5)


def test_columns_with_penalties_of_their_own(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spaces that the error is measured in have as many rows as the table has such columns."""
    sizes: list[tuple[int, int]] = []

    def noted(backend: Any, factors: LowRank, form: Any, accuracy: Accuracy, error: float) -> FusedMapped:
        if accuracy.right is not None:
            sizes.append((factors.shape[1], accuracy.right.shape[0]))
        return chosen(backend, factors, form, accuracy, error)

    monkeypatch.setattr("snapimpute.backends.torch._fused_operator.chosen", noted)
    monkeypatch.setattr("snapimpute.backends.torch.backend.torch_backend", lambda device=None: backend)
    known = si.datasets.low_rank_alphabet((30, 25), rank=2, alphabet="1:5", observed=0.4).observations
    each = si.ByColumn([si.L1("1:5", xi=0.2), si.L1("1,2,4,5", xi=0.1), None], [0, 1] * 12 + [2])
    problem = si.Problem(known, si.Nuclear(2.0), each)
    options: dict[str, Any] = {"max_iter": 4, "tol": 0, "evaluate_every": 4, "dtype": "float32"}
    here = si.solve(problem, "apg", **options)
    there = si.solve(problem, "apg", backend=f"torch:{DEVICE}", **options)
    assert there.objective == pytest.approx(here.objective, rel=1e-5)
    assert set(sizes) == {(12, 12)}
