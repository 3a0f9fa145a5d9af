"""Every kind of cell map gives the values of its formula, wherever it is interpreted: numpy, torch, Triton."""

from __future__ import annotations

import dataclasses
import os
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import snapimpute as si
from snapimpute.backends import backend_named
from snapimpute.linalg import LowRank, cell_sum
from snapimpute.linalg.backend import ROWS
from snapimpute.penalties import CellMap
from snapimpute.penalties._table import TOLERANCE
from snapimpute.penalties.maps import COMPILED, KINDS

pytestmark = pytest.mark.slow

Function = Callable[[np.ndarray], np.ndarray]


# ---------------------------------------------------------------- one case of each kind, with its formula
class Case(NamedTuple):
    """A map, and the same function written down independently, in float64."""

    cell_map: CellMap
    formula: Function


def distances(x: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    return np.abs(x[:, None] - symbols)


def minimiser(value: Function, candidates: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return, for each x, the candidate u of its row with the least value(u) + ½ (u − x)²."""
    cost = value(candidates.ravel()).reshape(candidates.shape) + 0.5 * (candidates - x[:, None]) ** 2
    return candidates[np.arange(x.size), cost.argmin(axis=1)]


def l1(symbols: np.ndarray, pulls: np.ndarray) -> tuple[Function, Function]:
    """Return value and prox: a minimiser is a symbol, or x moved by the pulls of all symbols on either side."""

    def value(x: np.ndarray) -> np.ndarray:
        return distances(x, symbols) @ pulls

    def prox(x: np.ndarray) -> np.ndarray:
        moves = [pulls[k:].sum() - pulls[:k].sum() for k in range(symbols.size + 1)]
        fixed = np.broadcast_to(symbols, (x.size, symbols.size))
        return minimiser(value, np.hstack([fixed, x[:, None] + moves]), x)

    return value, prox


def l0(symbols: np.ndarray, pulls: np.ndarray) -> tuple[Function, Function]:
    """Return value and prox: a minimiser is x or a symbol."""

    def value(x: np.ndarray) -> np.ndarray:
        return (distances(x, symbols) != 0) @ pulls + 0 * x

    def prox(x: np.ndarray) -> np.ndarray:
        fixed = np.broadcast_to(symbols, (x.size, symbols.size))
        return minimiser(value, np.hstack([x[:, None], fixed]), x)

    return value, prox


def fractional(symbols: np.ndarray, pulls: np.ndarray, alpha: float) -> tuple[Function, Function]:
    def value(x: np.ndarray) -> np.ndarray:
        return (distances(x, symbols) ** 2 / (distances(x, symbols) ** 2 + alpha)) @ pulls

    def slope(x: np.ndarray) -> np.ndarray:
        return (2 * alpha * (x[:, None] - symbols) / (distances(x, symbols) ** 2 + alpha) ** 2) @ pulls

    return value, searched(value, slope, symbols, np.empty(0))


def power(symbols: np.ndarray, pulls: np.ndarray, p: float) -> tuple[Function, Function]:
    def value(x: np.ndarray) -> np.ndarray:
        return distances(x, symbols) ** p @ pulls

    def slope(x: np.ndarray) -> np.ndarray:
        return (p * np.sign(x[:, None] - symbols) * np.fmax(distances(x, symbols), 1e-12) ** (p - 1)) @ pulls

    return value, searched(value, slope, symbols, symbols)


def searched(value: Function, slope: Function, symbols: np.ndarray, cusps: np.ndarray) -> Function:
    """Return the prox of a value: a cusp, or the zero of the slope beside the best point of finer and finer grids."""

    def prox(x: np.ndarray) -> np.ndarray:
        low, high = np.fmin(x, symbols[0]) - 1, np.fmax(x, symbols[-1]) + 1
        fixed = np.broadcast_to(cusps, (x.size, cusps.size))
        for _ in range(4):
            points = np.linspace(low, high, 401, axis=1)
            best = minimiser(value, np.hstack([fixed, points]), x)
            low, high = best - 3 * (high - low) / 400, best + 3 * (high - low) / 400
        for _ in range(60):
            middle = 0.5 * (low + high)
            above = middle - x + slope(middle) > 0
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.where(np.isin(best, cusps), best, middle)

    return prox


def composed(symbols: np.ndarray, pull: float) -> Function:
    def prox(x: np.ndarray) -> np.ndarray:
        for a in symbols[::-1]:
            x = a + np.sign(x - a) * np.maximum(np.abs(x - a) - pull, 0)
        return x

    return prox


def less_line(function: Function, slope: float, shift: float) -> Function:
    return lambda x: function(x) - slope * x - shift


def envelope(prox: Case, value: Case) -> Case:
    def formula(x: np.ndarray) -> np.ndarray:
        u = prox.formula(x)
        return value.formula(u) + 0.5 * (u - x) ** 2

    return Case(CellMap("envelope", (prox.cell_map, value.cell_map)), formula)


def landing(prox: Case, value: Case) -> Case:
    return Case(CellMap("landing", (prox.cell_map, value.cell_map)), lambda x: value.formula(prox.formula(x)))


def remainder(prox: Case, slope: float, shift: float) -> Case:
    return Case(CellMap("remainder", (prox.cell_map, slope, shift)), less_line(prox.formula, slope, shift))


def simple(kind: str, parameters: tuple[Any, ...], formula: Function) -> Case:
    return Case(CellMap(kind, parameters), formula)


EVEN, EQUAL = np.arange(1.0, 6.0), np.full(5, 0.05)
UNEVEN, WEIGHTED = np.array([1.0, 2.0, 4.0, 7.0]), np.array([0.03, 0.015, 0.06, 0.03])
MIXED = {"even": (EVEN, EQUAL), "uneven": (UNEVEN, WEIGHTED)}
WELLS, CUSPS = si.FractionalL0("1:5", xi=0.05, alpha=0.05), si.Lp("1:5", xi=0.05, p=0.5)


def staircase(symbols: np.ndarray, pull: float) -> Case:
    """The prox of L1 less the line through the middle of all its flat spots."""
    low, period = symbols[0] - pull * symbols.size, symbols[1] - symbols[0] + 2 * pull
    slope = 1 - 2 * pull / period
    shift = (1 - slope) * float(symbols.mean())
    parameters = low, 1 / period, period, symbols.size - 1, 2 * pull, slope, symbols[0] - slope * low - shift
    return simple("l1-stairs", parameters, less_line(l1(symbols, np.full(symbols.size, pull))[1], slope, shift))


def cases() -> dict[str, Case]:
    """Return the cases by name: the kind, and more where a kind has several."""
    found = {
        "identity": simple("identity", (), lambda x: x),
        "line": simple("line", (0.75, 0.5), lambda x: 0.75 * x + 0.5),
        "square": simple("square", (0.25, 3.0), lambda x: 0.25 * (x - 3.0) ** 2),
        "l1-stairs": staircase(EVEN, 0.05),
        "own": Case(CellMap.of(np.tanh), np.tanh),
        "own in place": Case(CellMap.of(lambda x: np.tanh(x, out=x)), np.tanh),
    }
    for name, (symbols, pulls) in MIXED.items():
        for kind, (value, prox) in {"l1": l1(symbols, pulls), "l0": l0(symbols, pulls)}.items():
            of_value = simple(f"{kind}-value", (symbols, pulls), value)
            of_prox = simple(f"{kind}-prox", (symbols, pulls, 0.0, 0.0), prox)
            found[f"{kind}-value {name}"], found[f"{kind}-prox {name}"] = of_value, of_prox
            less = simple(f"{kind}-prox", (symbols, pulls, 0.9, 0.3), less_line(prox, 0.9, 0.3))
            found[f"{kind}-prox {name} less a line"] = less
            found[f"envelope {kind} {name}"] = envelope(of_prox, of_value)
            found[f"landing {kind} {name}"] = landing(of_prox, of_value)
        whole = composed(symbols, 0.05)
        parameters = symbols, 0.05
        found[f"composed-l1-prox {name}"] = simple("composed-l1-prox", (*parameters, 0.0, 0.0), whole)
        less = simple("composed-l1-prox", (*parameters, 0.9, 0.3), less_line(whole, 0.9, 0.3))
        found[f"composed-l1-prox {name} less a line"] = less
    for kind, penalty, (value, prox) in (
        ("fractional-value", WELLS, fractional(EVEN, EQUAL, 0.05)),
        ("power-value", CUSPS, power(EVEN, EQUAL, 0.5)),
    ):
        of_value, of_prox = Case(penalty.compiled_value(1.0), value), Case(penalty.compiled_prox(1.0), prox)
        assert (of_value.cell_map.kind, of_prox.cell_map.kind) == (kind, "tabulated")
        found[kind], found[f"tabulated {kind}"] = of_value, of_prox
        found[f"remainder {kind}"] = remainder(of_prox, 0.9, 0.3)
        found[f"envelope {kind}"] = envelope(of_prox, of_value)
    cost = found["envelope l0 uneven"]
    less_parabola = CellMap("less-parabola", (cost.cell_map, 0.05, 0.3, 0.1))
    found["less-parabola"] = Case(less_parabola, lambda x: cost.formula(x) - 0.05 * x * x + 0.3 * x - 0.1)
    return found


CASES = cases()


def grid(dtype: Any) -> np.ndarray:
    """Symbols, both sides of every edge of theirs, points between, far ones, and NaN."""
    edges = [a + side * way for a in (*EVEN, 7.0) for way in (0.05, 0.1, 0.25, 0.3162, 0.35) for side in (-1, 1)]
    near = [edge + off for edge in edges for off in (-1e-3, 1e-3)]
    drawn = np.random.default_rng(0).uniform(-2, 10, 400)
    return np.concatenate([EVEN, [7.0], near, drawn, [-60.0, 66.0, -1e3, 1e3, np.nan]]).astype(dtype)


def allowed(x: np.ndarray, name: str, precision: float) -> np.ndarray:
    """Return the rounding that a case may show: squares are as large as x², all others as x."""
    kind = CASES[name].cell_map.kind
    square = kind in ("square", "envelope", "less-parabola")
    if kind in ("tabulated", "remainder"):
        precision = max(precision, 6 * TOLERANCE)
    return precision * (1 + (x * x if square else np.abs(x)))


def agree(found: np.ndarray, name: str, x: np.ndarray, precision: float) -> None:
    x = x.astype(np.float64)
    known = ~np.isnan(x)
    assert np.isnan(found[~known]).all()
    off = np.abs(found[known] - CASES[name].formula(x[known]))
    wrong = off > allowed(x[known], name, precision)
    assert not wrong.any(), (x[known][wrong], found[known][wrong], off[wrong])


PRECISION = {np.float64: 1e-13, np.float32: 8e-7}


# ---------------------------------------------------------------- every kind, every interpreter
def test_every_kind_has_its_interpreters() -> None:
    """A kind that is declared is known to all interpreters, and tried by a case below."""
    from snapimpute.backends.torch._forms import FORMS

    tried = {case.cell_map.kind for case in CASES.values()}
    assert list(KINDS) == list(COMPILED) == list(FORMS)
    assert tried == set(KINDS)
    assert {name.split()[0] for name in CASES} == tried


def test_torch_has_every_kind() -> None:
    """Tensors take every map that arrays of numpy take."""
    pytest.importorskip("torch", reason="torch is not installed")
    from snapimpute.backends.torch._maps import MAPS

    assert list(KINDS) == list(MAPS)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_numpy(name: str, dtype: Any) -> None:
    """Compiled code gives the formula, in the memory and the precision that it is given."""
    x = grid(dtype)
    found = x.copy()
    CASES[name].cell_map(found)
    assert found.dtype == dtype
    agree(found, name, x, PRECISION[dtype])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_torch(name: str, dtype: Any) -> None:
    """Tensors give the formula, and at infinity what numpy gives."""
    pytest.importorskip("torch", reason="torch is not installed")
    backend: Any = backend_named("torch:cpu")
    x = grid(dtype)
    there = backend.put(x, ROWS)
    CASES[name].cell_map(there)
    assert there.dtype == dtype
    agree(there.to_host(), name, x, PRECISION[dtype])
    far = np.array([np.inf, -np.inf, 1e9, -1e9], dtype)
    there = backend.put(far, ROWS)
    CASES[name].cell_map(there)
    with np.errstate(all="ignore"):
        CASES[name].cell_map(far)
    np.testing.assert_allclose(there.to_host(), far, rtol=1e-6)


FUSED = {
    *("l1-stairs", "l1-prox", "l0-prox", "composed-l1-prox", "remainder fractional-value", "remainder power-value"),
    *("envelope l1", "envelope l0", "envelope fractional-value", "envelope power-value"),
}
"""The cases that kernels know, by how their names begin."""


@pytest.mark.parametrize("name", CASES)
def test_triton(name: str) -> None:
    """Fused kernels give the formula in float32; a map that they do not know is refused by the table of forms."""
    from snapimpute.backends.torch._forms import COSTS, form_of

    form = form_of(CASES[name].cell_map)
    assert (form is not None) == name.startswith(tuple(FUSED))
    if form is None:
        return
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton", reason="triton is not installed")
    gpu = torch.cuda.is_available()
    if not gpu and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("there is no GPU, and TRITON_INTERPRET=1 was not set in time")
    from snapimpute.backends.torch import _fused as fused

    x = grid(np.float32)
    x = x[np.abs(x) < (20 if form.table is not None else 100)]  # tables promise fewer digits far outside
    cells = torch.tensor(x[:, None], device="cuda" if gpu else "cpu")
    one = torch.ones((1, 1), device=cells.device)
    if name.startswith("envelope"):
        assert form.kind in COSTS
        found = fused.total(cells, one, form, plain=not gpu)
        assert found == pytest.approx(CASES[name].formula(x.astype(np.float64)).sum(), rel=1e-6)
    else:
        found = fused.product(cells, one, form, one, "float32", plain=not gpu).cpu().numpy()[:, 0]
        agree(found, name, x, 3e-5 if name.startswith("remainder") else 4e-6)


# ---------------------------------------------------------------- the value
@pytest.mark.parametrize("name", [name for name in CASES if name != "own in place"])
def test_a_map_travels(name: str) -> None:
    """A map that was pickled, as for a worker, gives the same bits."""
    x = grid(np.float32)
    here, there = x.copy(), x.copy()
    cell_map = CASES[name].cell_map
    cell_map(here)
    sent = pickle.dumps(cell_map)
    pickle.loads(sent)(there)  # noqa: S301 - our own
    np.testing.assert_array_equal(here, there)
    assert len(pickle.dumps(cell_map)) == len(sent)  # what is cached on the way stays here


def test_numbers_take_the_precision_of_the_array() -> None:
    """A kernel gets float32 for float32: a mixture is computed in double, which is slow."""
    cell_map = CASES["l1-prox uneven less a line"].cell_map
    for dtype in (np.dtype(np.float64), np.dtype(np.float32)):
        assert {one.dtype for one in cell_map.parameters_in(dtype)} == {dtype}
    with pytest.raises(TypeError, match="float64 or float32, got int64: convert the array first"):
        cell_map(np.arange(3))


def test_a_map_is_checked_when_it_is_made() -> None:
    """An unknown kind, or another number of parameters, is an error in words; a map that stands does not change."""
    with pytest.raises(ValueError, match=r"kind must be one of identity, line.*, own, got 'l2-prox'"):
        CellMap("l2-prox", ())
    with pytest.raises(ValueError, match=r"'line' takes 2 parameters \(slope, shift\), got 1"):
        CellMap("line", (1.0,))
    with pytest.raises(ValueError, match="'identity' takes no parameters, got 1"):
        CellMap("identity", (1.0,))
    with pytest.raises(dataclasses.FrozenInstanceError):
        CASES["line"].cell_map.kind = "square"  # type: ignore[misc]


def test_a_map_stays_as_it_is() -> None:
    """`CellMap.of` wraps functions, and nothing else."""
    cell_map = CASES["line"].cell_map
    assert CellMap.of(cell_map) is cell_map


# ---------------------------------------------------------------- a user's map
class Tanh(si.penalties.CellPenalty):
    """A penalty with maps of its own, of functions that numpy alone knows."""

    name, convex, xi, least = "tanh", True, 1.0, 0.0

    def compiled_value(self, step: float) -> CellMap:
        return CellMap.of(lambda x: step * np.where(x > 0, np.log1p(np.abs(x)), 0.0))

    def compiled_prox(self, step: float) -> CellMap:
        return CellMap.of(lambda x: np.where(x > step, x - step, 0.0))


class Bare(Tanh):
    """The same by bare functions."""

    def compiled_prox(self, step: float) -> Any:
        return lambda x: np.where(x > step, x - step, 0.0)


def test_functions_of_a_penalty_become_maps() -> None:
    """A penalty may return functions, in place or not: the library makes maps of them."""
    x = np.linspace(-2, 2, 9)
    for bare, wrapped in (
        (Bare().compiled_remainder(0.7), Tanh().compiled_remainder(0.7)),
        (Bare().compiled_envelope(0.7), Tanh().compiled_envelope(0.7)),
        (Bare().compiled("prox", 0.7), Tanh().compiled("prox", 0.7)),
    ):
        here, there = x.copy(), x.copy()
        bare(here)  # type: ignore[misc]
        wrapped(there)  # type: ignore[misc]
        np.testing.assert_array_equal(here, there)
        assert not np.array_equal(here, x)


@pytest.mark.parametrize("kind", ["value", "prox", "envelope", "landing"])
def test_a_users_map_is_applied_on_every_backend(kind: Any) -> None:
    """Tensors take a user's function through the memory of the host, whatever it does with numpy."""
    pytest.importorskip("torch", reason="torch is not installed")
    backend: Any = backend_named("torch:cpu")
    x = LowRank(np.arange(12.0).reshape(6, 2), np.ones(2), np.linspace(-1, 1, 10).reshape(5, 2))
    cost = Tanh().compiled(kind, 0.7)
    assert cell_sum(x.moved(backend), cost) == pytest.approx(cell_sum(x, cost), rel=1e-13)
