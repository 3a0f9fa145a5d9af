"""Checkpoints: what is saved comes back to the last bit, goes on as if nothing had been, and is refused elsewhere."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import save as as_safetensors

import snapimpute as si
from snapimpute.base import files
from snapimpute.base.threads import single_threaded_blas
from snapimpute.penalties import DISCRETE, SPECTRAL
from snapimpute.problem import Terms
from snapimpute.problem.losses import Multinomial, Squares, Thresholds
from snapimpute.solvers import APG, FPC, SOLVERS, SoftImpute, Solver, checkpoint
from snapimpute.solvers.base import Context, State
from snapimpute.solvers.checkpoint import Checkpoint, CheckpointFile, RunSnapshot, digest, fingerprint

pytestmark = pytest.mark.slow

CONTEXT = Context(max_rank=None, seed=5)
SETTINGS: dict[str, Any] = {"max_rank": None, "random_state": 5, "x0": None}
SMALL, LARGE = (24, 17), (210, 170)  # in the larger one partial SVDs iterate from warm starts
ADVICE = "Delete it to start anew, or give another path."


# ---------------------------------------------------------------- tools
def build(
    shape: tuple[int, int] = SMALL, spectral: Any = None, discrete: Any = None, offsets: bool = False
) -> si.Problem:
    """A problem of which each call makes another copy."""
    observations = si.datasets.low_rank_alphabet(shape, 2, observed=0.5).observations
    base = si.LowRank.constant(shape, 2.75) if offsets else None
    return si.Problem(observations, si.Nuclear(3.0) if spectral is None else copy.deepcopy(spectral), discrete, base)


class Case(NamedTuple):
    """A solver, and how to build a problem for it."""

    name: str
    shape: tuple[int, int]
    discrete: bool

    def problem(self) -> si.Problem:
        info = SOLVERS[self.name].info
        spectral = {"nuclear": si.Nuclear(3.0), "rank": si.Rank(2.0)}[info.spectral[0]]
        if "lsp" in info.spectral:
            spectral = si.LogSum(lam=3.1, theta=1.7)
        penalty = si.FractionalL0("1:5", xi=0.05, alpha=0.3) if self.name == "mm" else si.L1("1:5", xi=0.05)
        return build(self.shape, spectral, penalty if self.discrete else None, offsets=self.discrete)


def cases() -> Iterator[Case]:
    for name, kind in SOLVERS.items():
        for shape in [(6, 5)] if name == "sdp" else [SMALL, LARGE]:
            if name != "mm":
                yield Case(name, shape, discrete=False)
            if kind.info.discrete:
                yield Case(name, shape, discrete=True)


every_case = pytest.mark.parametrize("case", list(cases()), ids=str)


def stepped(solver: Solver[Any], problem: si.Problem, state: Any, count: int) -> Any:
    with single_threaded_blas():
        if state is None:
            state = solver.init(problem, si.LowRank.zeros(problem.shape), CONTEXT)
        for _ in range(count):
            state = solver.step(problem, state, CONTEXT)
    return state


def of_state(state: State, **more: Any) -> RunSnapshot:
    return RunSnapshot(state, [], 0.0, math.inf, -1, state.x, **more)


def some_run(path: Path, **more: Any) -> tuple[CheckpointFile, RunSnapshot]:
    """A run that was saved, and its keeper."""
    problem = build()
    keeper = Checkpoint(path).begin(problem, APG(), SETTINGS)
    saved = of_state(stepped(APG(), problem, None, 2), **more)
    keeper.save(saved)
    return keeper, saved


def through_file(memory: dict[str, Any], path: Path) -> Any:
    """The memory of a run, saved and loaded."""
    keeper, _ = some_run(path, memory=memory)
    loaded = keeper.load()
    assert loaded is not None
    return loaded.memory


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Equal to the last bit: types, values, layout in memory."""
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert (a.dtype.str, a.shape, a.strides) == (b.dtype.str, b.shape, b.strides), where
        names = ("c_contiguous", "f_contiguous", "writeable", "aligned")
        assert [getattr(a.flags, n) for n in names] == [getattr(b.flags, n) for n in names], where
        assert a.tobytes() == b.tobytes(), where
    elif isinstance(a, float | np.generic):
        assert np.asarray(a).dtype == np.asarray(b).dtype, where
        extended = np.asarray(a).dtype.char == "g" and np.finfo("g").nmant == 63
        used = 10 if extended else None  # bytes of 16: in the others may be anything
        assert np.asarray(a).tobytes()[:used] == np.asarray(b).tobytes()[:used], f"{where}: {a} and {b}"
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            assert_same(one, other, f"{where}[{i}]")
    elif isinstance(a, dict):
        assert list(a) == list(b), where
        for name in a:
            assert_same(a[name], b[name], f"{where}[{name!r}]")
    elif is_dataclass(a):
        for f in fields(a):
            assert_same(getattr(a, f.name), getattr(b, f.name), f"{where}.{f.name}")
    elif hasattr(a, "__dict__"):
        assert_same(vars(a), vars(b), where)
    else:
        assert a == b, where


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the document of a file, with a checksum that fits again."""
    with safe_open(path, framework="np") as file:
        document = json.loads(file.metadata()["document"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    change(document)
    text = json.dumps(document)
    metadata = {"document": text, "sha256": checkpoint.checksum(text, tensors)}
    path.write_bytes(as_safetensors(tensors, metadata=metadata))


# ---------------------------------------------------------------- going on
def test_every_solver_has_a_case():
    """The list that the next test runs over has every solver, and both kinds of SVD where there are two."""
    assert {case.name for case in cases()} == set(SOLVERS)
    assert {case.name for case in cases() if case.shape == LARGE} == set(SOLVERS) - {"sdp"}


@every_case
def test_resumed_run_is_bit_identical(case, tmp_path):
    """Three steps, a file, a problem built anew and three more steps: the same bits as six steps in a row."""
    if case.name == "sdp":
        pytest.importorskip("cvxpy")
    solver, problem, again = SOLVERS[case.name](), case.problem(), case.problem()
    half = stepped(solver, problem, None, 3)
    Checkpoint(tmp_path / "a").begin(problem, solver, SETTINGS).save(of_state(half, extras=solver.extras(half)))
    loaded = Checkpoint(tmp_path / "a").begin(again, solver, SETTINGS).load()
    assert_same(loaded.state, half)
    assert_same(loaded.extras, solver.extras(half))
    assert loaded.answer is loaded.state.x
    resumed = loaded.state
    for count in (1, 2):
        half, resumed = stepped(solver, problem, half, count), stepped(solver, again, resumed, count)
        assert_same(resumed, half)
        assert_same(solver.terms(again, resumed, CONTEXT), solver.terms(problem, half, CONTEXT))
        assert_same(solver.columns(resumed), solver.columns(half))
        assert_same(solver.finish(again, resumed, CONTEXT), solver.finish(problem, half, CONTEXT))


@pytest.mark.parametrize("penalty", [si.MCP(2.0), si.SCAD(2.0), si.TruncatedNuclear(2.0, 1), si.CappedL1(2.0, 3.0)])
def test_penalty_of_the_stage(penalty, tmp_path):
    """While λ comes down the state has the problem's penalty at another λ, which comes back with all parameters."""
    solver, problem = SOLVERS["fancl"](), build(spectral=penalty)
    state = stepped(solver, problem, None, 2)
    assert state.spectral.lam > penalty.lam
    keeper = Checkpoint(tmp_path / "a").begin(problem, solver, {})
    keeper.save(of_state(state))
    assert_same(keeper.load().state.spectral, state.spectral)


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    """Workers of a cluster write beside the file; whatever else is there is not theirs."""
    mine = tmp_path / "run.safetensors.parts" / "mine"
    mine.mkdir(parents=True)
    si.solve(build(), APG(), max_iter=3, tol=0, checkpoint=Checkpoint(tmp_path / "run.safetensors", every_seconds=0))
    assert list(mine.parent.iterdir()) == [mine]


def test_parts_of_the_problem_are_not_copied(tmp_path):
    """The penalty, the loss and the offsets of the problem come back as those of the problem that is resumed."""
    parts = ("observations", "spectral", "discrete", "offsets", "loss")
    problems = [build(discrete=si.L1("1:5", xi=0.1), offsets=True) for _ in range(2)]
    state = stepped(APG(), problems[0], None, 1)
    memory = {name: getattr(problems[0], name) for name in parts}
    Checkpoint(tmp_path / "a").begin(problems[0], APG(), {}).save(of_state(state, memory=memory))
    loaded = Checkpoint(tmp_path / "a").begin(problems[1], APG(), {}).load()
    for name in parts:
        assert loaded.memory[name] is getattr(problems[1], name), name
    assert loaded.state.spectral is problems[1].spectral


def test_identity_survives(tmp_path):
    """What was one object is one object, also between state, answer, extras and memory; equal ones stay two."""
    problem = build()
    state = APG().init(problem, si.LowRank.constant(SMALL, 1.0), CONTEXT)
    assert state.before.x is state.x, "the momentum of the first step counts on it"
    array = np.arange(3.0)
    memory = {
        "one": array,
        "same": [array],
        "equal": array.copy(),
        "x": state.x,
        "U": state.x.U,
        "list": [],
    }
    memory["list again"] = memory["list"]
    keeper = Checkpoint(tmp_path / "a").begin(problem, APG(), {})
    keeper.save(of_state(state, memory=memory, extras={"subspace": state.subspace}))
    loaded = keeper.load()
    assert loaded.state.before.x is loaded.state.x is loaded.answer is loaded.memory["x"]
    assert loaded.state.before.observed is loaded.state.x_observed
    assert loaded.state.subspace is loaded.state.x.V is loaded.extras["subspace"]
    assert loaded.memory["U"] is loaded.state.x.U
    assert loaded.memory["one"] is loaded.memory["same"][0]
    assert loaded.memory["equal"] is not loaded.memory["one"]
    assert loaded.memory["list"] is loaded.memory["list again"]
    loaded.memory["one"][0] = 7.0  # a sampler changes its arrays in place
    assert loaded.memory["equal"][0] == 0.0


# ---------------------------------------------------------------- values
LAYOUTS = {
    "C": np.arange(12.0).reshape(3, 4),
    "Fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "leading columns": np.arange(12.0).reshape(3, 4)[:, :2],
    "one column": np.arange(12.0).reshape(3, 4)[:, :1],
    "one column of Fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4))[:, :1],
    "every second row": np.arange(12.0).reshape(4, 3)[::2],
    "backwards": np.arange(12.0).reshape(3, 4)[::-1, ::-2],
    "three axes": np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0),
    "broadcast": np.broadcast_to(np.arange(3.0), (4, 3)),
    "no columns": np.zeros((3, 0)),
    "no columns, Fortran": np.zeros((3, 0), order="F"),
    "no rows": np.zeros((0, 4))[:, ::2],
    "nothing": np.zeros(0),
    "one number": np.array(2.5),
    "read-only": np.broadcast_to(np.array(1.0), ()),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_memory_order_is_kept(name, tmp_path):
    """Order, gaps and direction of an array in memory come back: sums by BLAS and numpy depend on them."""
    array = LAYOUTS[name]
    assert_same(through_file({"a": array}, tmp_path / "a")["a"], array)


@pytest.mark.parametrize(
    "kind", ["?", "i1", ">i4", "u8", "f2", "f4", "f8", ">f8", "g", "c8", "c16", "S3", "U2", "M8[s]"]
)
def test_every_plain_dtype(kind, tmp_path):
    """Arrays and scalars of every type that is plain bytes come back with it."""
    array = np.array([1, 0, 7]).astype(np.dtype(kind))
    loaded = through_file({"a": array, "s": array[0], "empty": array[:0]}, tmp_path / "a")
    assert_same(loaded, {"a": array, "s": array[0], "empty": array[:0]})


def test_memmap_becomes_an_array(tmp_path):
    """An array in a file is stored with its content."""
    mapped = np.memmap(tmp_path / "data", dtype=np.float64, mode="w+", shape=(3,))
    mapped[:] = [1, 2, 3]
    assert_same(through_file({"a": mapped}, tmp_path / "a")["a"], np.array([1.0, 2.0, 3.0]))


NUMBERS = [0.1 + 0.2, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan, -math.nan, 1.0, 1, 2**130]


def test_exact_numbers(tmp_path):
    """Every float comes back with its bits, NaN with its payload, whole numbers as what they were."""
    payload = struct.unpack("<d", bytes.fromhex("efbeadde0000f87f"))[0]
    values = [
        *NUMBERS,
        payload,
        True,
        None,
        "λ \ud800 \0",
        np.float64(0.1),
        np.float32(0.1),
        np.int64(3),
        np.bool_(True),
    ]
    loaded = through_file({"values": values}, tmp_path / "a")
    assert_same(loaded["values"], values)
    assert struct.pack("<d", loaded["values"][len(NUMBERS)]).hex() == "efbeadde0000f87f"


@st.composite
def views(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Arrays of many types and shapes, transposed and cut."""
    kinds = hnp.scalar_dtypes().filter(lambda dtype: dtype.itemsize > 0)
    array = draw(hnp.arrays(draw(kinds), draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))))
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    step = st.sampled_from([1, 2, -1])
    cuts = tuple(slice(None, None, draw(step)) for _ in range(array.ndim))
    return array[cuts] if cuts else array


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), views())
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(), inner, max_size=3),
        st.tuples(inner).map(lambda pair: [pair[0], pair[0]]),
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(VALUES)
def test_any_nested_value(tmp_path_factory, value):
    """Whatever is built of plain values comes back to the last bit, and what is in two places as one."""
    loaded = through_file({"value": value, "again": value}, tmp_path_factory.getbasetemp() / "nested")
    assert_same(loaded["value"], value)
    if isinstance(value, list | dict | np.ndarray):
        assert loaded["again"] is loaded["value"]


ALPHABET_PENALTIES = [
    si.L1("1:5", xi=0.1 + 0.2, weights=[1, 2, 1, 0.5, 1]),
    si.ComposedL1("1:5", xi=0.1),
    si.L0("0,1", xi=0.1),
    si.FractionalL0("1:5", xi=0.1, alpha=0.3),
    si.Lp("1:5", xi=0.1, p=0.4),
    si.L2("1:5", xi=0.1),
    si.Ridge(3.0, xi=0.1),
    si.ByColumn([si.L1("1:5", xi=0.1), None], [0, 0, 1]),
]


@pytest.mark.parametrize("penalty", ALPHABET_PENALTIES, ids=repr)
def test_every_discrete_penalty(penalty, tmp_path):
    """Penalties come back by their constructors with every parameter exact."""
    assert_same(through_file({"penalty": penalty}, tmp_path / "a")["penalty"], penalty)


def test_all_of_a_run_comes_back(tmp_path):
    """History, clock, best so far, answer, extras, the flag and the memory come back beside the state."""
    rows = [
        {"iteration": 1, "seconds": 0.1, "rank": np.int64(3)},
        {"iteration": 2, "objective": math.nan, "own": True},
    ]
    problem = build()
    state = stepped(APG(), problem, None, 2)
    terms, answer = Terms(1.5, math.inf, -0.0, constrained=True), si.LowRank.constant(SMALL, 0.1)
    memory = {"terms": terms, "rng": np.random.default_rng(3).bit_generator.state, "mean": answer, "kept": None}
    saved = RunSnapshot(state, rows, 12.5, 3.25, 1, answer, {"dual": np.arange(4.0)}, done=True, memory=memory)
    keeper = Checkpoint(tmp_path / "a").begin(problem, APG(), {})
    keeper.save(saved)
    loaded = keeper.load()
    assert_same(loaded, saved)
    rng = np.random.default_rng()
    rng.bit_generator.state = loaded.memory["rng"]
    assert rng.random() == np.random.default_rng(3).random()


# ---------------------------------------------------------------- what cannot be held
class Custom(NamedTuple):
    a: int


def looped() -> list[Any]:
    out: list[Any] = []
    out.append(out)
    return out


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "cannot hold a builtins.object"),
        (Custom(1), "cannot hold a .*Custom"),
        ({1: 2}, "the keys of a dict in a checkpoint must be text, got [1]"),
        (np.array([object()]), "not of dtype object"),
        (np.zeros(2, "f8,i4"), "not of dtype"),
        (np.ma.masked_array([1.0]), "cannot hold a numpy.ma"),
        (b"bytes", "cannot hold a builtins.bytes"),
        (looped(), "cannot hold a list that contains itself"),
        (lambda: None, "cannot hold a builtins.function"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_refused_when_saved(value, message, tmp_path):
    """What could not be restored is refused at once, by name, and the file of before stays."""
    keeper, saved = some_run(tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    with pytest.raises((TypeError, ValueError), match=message if ".*" in message else re.escape(message)):
        keeper.save(replace(saved, memory={"value": value}))
    assert (tmp_path / "a").read_bytes() == before


def test_long_text_is_refused_when_saved(tmp_path, monkeypatch):
    """A history that could be written but not read is not written."""
    keeper, saved = some_run(tmp_path / "a")
    monkeypatch.setattr(checkpoint, "MAX_TEXT", 1000)
    with pytest.raises(ValueError, match="the history is too long for a checkpoint: 0 iterations make"):
        keeper.save(saved)


@dataclass(frozen=True, eq=False)
class OwnState(State):
    """The state of a solver that is not in the list."""

    velocity: Any


@dataclass(frozen=True)
class Own(SoftImpute):
    """A solver that is not in the list."""

    def init(self, problem: si.Problem, x0: si.LowRank, context: Context) -> OwnState:
        return OwnState(x=x0, x_observed=problem.at_observed(x0), velocity=np.ones((2, 3)).T)


class Silent(Own):
    """One that does not say what its state is."""

    def init(self, problem, x0, context):
        return HiddenState(x=x0, x_observed=problem.at_observed(x0), velocity=1.0)


@dataclass(frozen=True, eq=False)
class HiddenState(OwnState):
    """A state that no annotation names."""


def test_solvers_of_others(tmp_path):
    """The state of a solver outside of the list is taken if its methods name the class, else refused when saved."""
    problem = build()
    state = Own().init(problem, si.LowRank.zeros(SMALL), CONTEXT)
    keeper = Checkpoint(tmp_path / "a").begin(problem, Own(), {})
    keeper.save(of_state(state))
    assert_same(keeper.load().state, state)
    hidden = Silent().init(problem, si.LowRank.zeros(SMALL), CONTEXT)
    with pytest.raises(TypeError, match="HiddenState"):
        Checkpoint(tmp_path / "b").begin(problem, Silent(), {}).save(of_state(hidden))


def test_state_that_its_constructor_would_not_restore(tmp_path):
    """An object with more in it than its constructor takes is refused, not cut down."""

    class Richer(si.L1):
        def __init__(self, alphabet: Any, xi: float) -> None:
            super().__init__(alphabet, xi)
            self.counter = 0

    problem = build(discrete=Richer("1:5", 0.1))
    keeper = Checkpoint(tmp_path / "a").begin(problem, APG(), {})
    state = stepped(APG(), problem, None, 1)
    with pytest.raises(
        TypeError, match="it consists of alphabet, xi, weights, counter, and is built from alphabet, xi"
    ):
        keeper.save(of_state(state, memory={"penalty": Richer("1:5", 0.1)}))


# ---------------------------------------------------------------- files that are refused
def refused(keeper: CheckpointFile, *words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(ADVICE)) as caught:
        keeper.load()
    for word in (str(keeper.path), *words):
        assert word in str(caught.value)


def test_no_file_is_no_run(tmp_path):
    """Where there is nothing to go on from, nothing is loaded, and a folder that is missing is made."""
    keeper = Checkpoint(tmp_path / "new" / "a").begin(build(), APG(), {})
    assert keeper.load() is None
    keeper.save(of_state(stepped(APG(), build(), None, 1)))
    assert keeper.load().state.iteration == 1


def test_truncated_files(tmp_path):
    """A file that ends early is refused, wherever it ends."""
    keeper, _ = some_run(tmp_path / "a")
    whole = keeper.path.read_bytes()
    for length in {*range(0, len(whole), len(whole) // 97), 1, 7, 8, 9, len(whole) - 1}:
        keeper.path.write_bytes(whole[:length])
        refused(keeper, "damaged")
    keeper.path.write_bytes(whole + b"x")
    refused(keeper, "damaged")


def test_flipped_bits(tmp_path):
    """One bit changed anywhere in the header or in the arrays is noticed."""
    keeper, _ = some_run(tmp_path / "a")
    whole = keeper.path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    assert header < len(whole)
    for backend in [*range(8), *range(8, header, 13), *range(header, len(whole), 331), len(whole) - 1]:
        broken = bytearray(whole)
        broken[backend] ^= 1 << backend % 7
        keeper.path.write_bytes(broken)
        refused(keeper)


FOREIGN = {
    "text": b"once upon a time there was a matrix" * 10,
    "a pickle": pickle.dumps({"state": np.zeros(3)}),
    "an archive": b"PK\x03\x04" + bytes(200),
    "nothing": b"",
    "other tensors": as_safetensors({"weight": np.zeros((2, 2))}),
    "other metadata": as_safetensors({"weight": np.zeros(2)}, metadata={"format": "pt"}),
    "another document": as_safetensors({"weight": np.zeros(2)}, metadata={"document": '{"title": "poems"}'}),
    "no JSON": as_safetensors({"weight": np.zeros(2)}, metadata={"document": "{"}),
    "deep JSON": as_safetensors({"weight": np.zeros(2)}, metadata={"document": "[" * 100_000}),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files(name, tmp_path):
    """A file of something else is refused and left as it is."""
    keeper = Checkpoint(tmp_path / "a").begin(build(), APG(), {})
    keeper.path.write_bytes(FOREIGN[name])
    refused(keeper, "a safetensors file of something else" if "other" in name else "damaged")
    assert keeper.path.read_bytes() == FOREIGN[name]


def test_folder_is_refused(tmp_path):
    """A path that is a folder is refused like a file of something else."""
    refused(Checkpoint(tmp_path).begin(build(), APG(), {}), "it is not a file")


@pytest.mark.parametrize(
    ("key", "value"), [("version", 2), ("version", 4), ("version", None), ("snapimpute", "0.0.9")]
)
def test_other_versions(key, value, tmp_path):
    """A file of another format or another version of the package is refused, and both are named."""
    keeper, _ = some_run(tmp_path / "a")
    rewritten(keeper.path, lambda document: document.update({key: value}))
    found = {"version": 3, "snapimpute": si.__version__, key: value}
    words = f"written in format {found['version']} of snapimpute {found['snapimpute']}, "
    refused(keeper, words, f"this is format 3 of snapimpute {si.__version__}")


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "subprocess.Popen", "snapimpute.problem.Problem"])
def test_unknown_classes_are_never_called(name, tmp_path):
    """A file can name only classes of the list; no other is looked up, whatever the checksum says."""
    keeper, _ = some_run(tmp_path / "a", memory={"x": si.Nuclear(1.0)})

    def change(document: dict[str, Any]) -> None:
        text = json.dumps(document["tree"])
        assert "penalty nuclear" in text
        document["tree"] = json.loads(text.replace("penalty nuclear", name))

    rewritten(keeper.path, change)
    refused(keeper, f"the class {name} is not one that such files hold")


@pytest.mark.parametrize(
    "tree",
    [
        5,
        None,
        ["list", []],
        ["unheard of", 1],
        ["again", 7],
        ["given", "solver"],
        ["array", "999", "<f8", [2], [8], True],
        ["array", "0", "|O8", [2], [8], True],
        ["array", "0", "<f8", [10**9], [8], True],
        ["object", "low-rank matrix", [1, 2]],
        ["object", "low-rank matrix", {"U": 1}],
        ["object", "penalty nuclear", {"lam": -1.0}],
        ["object", "penalty nuclear", {"lam": 1.0, "name": "l1"}],
        [],
    ],
    ids=str,
)
def test_trees_that_make_no_sense(tree, tmp_path):
    """A document that fits its checksum but describes no run is refused with the same advice."""
    keeper, _ = some_run(tmp_path / "a")
    rewritten(keeper.path, lambda document: document.update(tree=tree))
    refused(keeper)


# ---------------------------------------------------------------- what is being solved
OBSERVED = build().observations


def with_value(at: int, value: float) -> si.Observations:
    values = OBSERVED.values.copy()
    values[at] = value
    return si.Observations.from_coo(OBSERVED.rows, OBSERVED.cols, values, OBSERVED.shape)


def base_problem(**change: Any) -> si.Problem:
    parts = {
        "observations": OBSERVED,
        "spectral": si.LogSum(lam=3.0, theta=2.0),
        "discrete": si.FractionalL0("1:5", xi=0.1, alpha=0.3),
        "offsets": si.LowRank.constant(SMALL, 2.0),
        "loss": Thresholds(np.array([0.0, 1.0])),
    }
    return si.Problem(**(parts | change))


def up(value: float) -> float:
    """The next number."""
    return math.nextafter(value, math.inf)


PROBLEMS = {
    "a value": (base_problem(observations=with_value(7, up(OBSERVED.values[7]))), "observations"),
    "lam": (base_problem(spectral=si.LogSum(lam=up(3.0), theta=2.0)), "spectral"),
    "theta": (base_problem(spectral=si.LogSum(lam=3.0, theta=up(2.0))), "spectral"),
    "another spectral": (base_problem(spectral=si.CappedL1(lam=3.0, theta=2.0)), "spectral"),
    "xi": (base_problem(discrete=si.FractionalL0("1:5", xi=up(0.1), alpha=0.3)), "discrete"),
    "alpha": (base_problem(discrete=si.FractionalL0("1:5", xi=0.1, alpha=up(0.3))), "discrete"),
    "alphabet": (base_problem(discrete=si.FractionalL0([1, 2, 3, 4, up(5)], xi=0.1, alpha=0.3)), "discrete"),
    "weights": (base_problem(discrete=si.FractionalL0("1:5", 0.1, 0.3, [1, 1, up(1), 1, 1])), "discrete"),
    "another discrete": (base_problem(discrete=si.L1("1:5", xi=0.1)), "discrete"),
    "no discrete": (base_problem(discrete=None), "discrete"),
    "offsets": (base_problem(offsets=si.LowRank.constant(SMALL, up(2.0))), "offsets"),
    "no offsets": (base_problem(offsets=None), "offsets"),
    "threshold": (base_problem(loss=Thresholds(np.array([0.0, up(1.0)]))), "loss"),
    "another loss": (base_problem(loss=Squares()), "loss"),
}


def unequal(a: dict[str, Any], b: dict[str, Any]) -> set[str]:
    return {name for name in {**a, **b} if a.get(name, {}).get("digest") != b.get(name, {}).get("digest")}


@pytest.mark.parametrize("name", PROBLEMS)
def test_fingerprint_sees_every_ingredient(name):
    """The least change of any part of a problem changes the digest of that part and of no other."""
    problem, part = PROBLEMS[name]
    reference = fingerprint(base_problem(), FPC(), SETTINGS)
    assert unequal(reference, fingerprint(problem, FPC(), SETTINGS)) == {part}


def test_fingerprint_sees_the_cells_and_the_shape():
    """The same values in other cells, or in a larger table, are other observations."""
    obs = OBSERVED
    moved = si.Observations.from_coo((obs.rows + 1) % SMALL[0], obs.cols, obs.values, obs.shape)
    turned = si.Observations.from_coo(obs.rows, (obs.cols + 1) % SMALL[1], obs.values, obs.shape)
    larger = si.Observations.from_coo(obs.rows, obs.cols, obs.values, (SMALL[0] + 1, SMALL[1]))
    assert len({digest(one) for one in (obs, moved, turned, larger)}) == 4


@pytest.mark.parametrize(
    ("solver", "changed", "part"),
    [
        (replace(FPC(), tau=up(FPC().tau)), {}, "solver"),
        (replace(FPC(), accuracy=up(FPC().accuracy)), {}, "solver"),
        (SOLVERS["fpca"](accuracy=FPC().accuracy), {}, "solver"),
        (FPC(), {"max_rank": 7}, "setting max_rank"),
        (FPC(), {"random_state": 6}, "setting random_state"),
        (FPC(), {"x0": si.LowRank.zeros(SMALL)}, "setting x0"),
        (FPC(), {"dtype": np.dtype(np.float32)}, "setting dtype"),
    ],
    ids=str,
)
def test_fingerprint_sees_solver_and_settings(solver, changed, part):
    """A hyperparameter, another solver, or a setting changes its own digest alone."""
    reference = fingerprint(base_problem(), FPC(), SETTINGS)
    assert unequal(reference, fingerprint(base_problem(), solver, SETTINGS | changed)) == {part}


NUMERIC = [
    *(si.Nuclear(1.0), si.LogSum(1.0, 2.0), si.CappedL1(1.0, 2.0), si.MCP(1.0, 2.5), si.SCAD(1.0, 3.0), si.Rank(1.0)),
    *(
        si.TruncatedNuclear(1.0, 2),
        si.L1("1:5", 0.5),
        si.ComposedL1("1:5", 0.5),
        si.L0("1:5", 0.5),
        si.L2("1:5", 0.5),
    ),
    *(si.FractionalL0("1:5", 0.5, 0.25), si.Lp("1:5", 0.5, 0.25), si.Ridge(3.0, 0.5), Multinomial(3)),
]


@pytest.mark.parametrize("value", NUMERIC, ids=repr)
def test_digest_sees_every_number(value):
    """Each number of each penalty counts, to the last bit."""
    numbers = {name: number for name, number in vars(value).items() if isinstance(number, int | float)}
    assert numbers
    for name, number in numbers.items():
        other = copy.copy(value)
        object.__setattr__(other, name, number + 1 if isinstance(number, int) else up(number))
        assert digest(other) != digest(value), name
        assert digest(copy.deepcopy(value)) == digest(value)


def test_every_penalty_is_tried():
    """The list of the test before has every penalty that there is."""
    assert {type(value) for value in NUMERIC} >= {*SPECTRAL.values(), *DISCRETE.values()}


def test_equal_copies_have_equal_fingerprints():
    """Other objects with equal values, other orders in memory, labels and spellings of numbers are the same run."""
    problem = base_problem()
    obs, offsets = problem.observations, problem.offsets
    labelled = si.Observations.from_coo(
        obs.rows.astype(np.int64), obs.cols, obs.values, obs.shape, row_labels=[f"r{i}" for i in range(SMALL[0])]
    )
    other = si.Problem(
        labelled,
        si.LogSum(lam=3, theta=np.float64(2.0)),
        copy.deepcopy(problem.discrete),
        si.LowRank(np.asfortranarray(offsets.U), offsets.s.copy(), offsets.V[::1]),
        copy.deepcopy(problem.loss),
    )
    _ = problem.targets, problem.smooth.scale  # what a problem computes for itself does not count
    settings_again = {"random_state": np.int64(5), "x0": None, "max_rank": None}
    before, now = fingerprint(problem, FPC(tau=1), SETTINGS), fingerprint(other, FPC(tau=1.0), settings_again)
    assert before.keys() == now.keys()
    assert unequal(before, now) == set()


class Cached:
    """An object that remembers a result."""

    def __init__(self, a: float) -> None:
        self.a = a

    @cached_property
    def twice(self) -> float:
        return 2 * self.a


def test_remembered_results_do_not_count():
    """An object that has computed something is still the same object; its parameters do count."""
    first, second = Cached(1.0), Cached(1.0)
    assert first.twice == 2.0
    assert digest(first) == digest(second) != digest(Cached(3.0))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, [2]], [[1], 2]),
        (["ab", "c"], ["a", "bc"]),
        ("1", 1),
        ("None", None),
        (True, "True"),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(2), np.zeros(4, np.float32)),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        (0.1 + 0.2, 0.3),
        (math.inf, -math.inf),
        (math.nan, None),
        ([], None),
        (float, int),
    ],
    ids=str,
)
def test_digests_do_not_collide(one, other):
    """Values that could read alike do not."""
    assert digest(one) != digest(other)


OPAQUE = {
    "built-in": len,
    "function": lambda: 0,
    "module": math,
    "object": object(),
    "generator": np.random.default_rng(0),
    "array of objects": np.array([None]),
}


@pytest.mark.parametrize("value", OPAQUE.values(), ids=list(OPAQUE))
def test_what_cannot_be_told_apart_is_refused(value):
    """A function or an opaque object might be anything: no digest is made up for it."""
    with pytest.raises(TypeError, match=r"cannot tell what is in|not of dtype object"):
        fingerprint(build(), APG(), {"value": value})


@pytest.mark.parametrize("name", PROBLEMS)
def test_another_problem_is_refused(name, tmp_path):
    """A file of another problem is refused, and the part that differs is named with both values."""
    problem, part = PROBLEMS[name]
    state = State(x=si.LowRank.zeros(SMALL), x_observed=np.zeros(len(OBSERVED)), change=1.0, certificate=1.0)
    Checkpoint(tmp_path / "a").begin(base_problem(), FPC(), SETTINGS).save(of_state(state))
    refused(
        Checkpoint(tmp_path / "a").begin(problem, FPC(), SETTINGS), "belongs to another problem", f"{part} differs ("
    )


def test_message_of_a_mismatch(tmp_path):
    """The message shows what was and what is; where both read alike, it says so."""
    keeper, _ = some_run(tmp_path / "a")
    path = keeper.path
    refused(
        Checkpoint(path).begin(build(spectral=si.Nuclear(2.0)), APG(beta="fista"), SETTINGS | {"max_rank": 4}),
        "spectral differs (Nuclear(lam=3.0) then, Nuclear(lam=2.0) now); solver differs (APG(beta='paper', accuracy=",
        "; setting max_rank differs (None then, 4 now). ",
    )
    xi = [si.L1("1:5", xi=0.1), si.L1("1:5", xi=up(0.1))]
    state = stepped(APG(), build(), None, 1)
    Checkpoint(path).begin(build(discrete=xi[0]), APG(), {}).save(of_state(state))
    shown = "L1(Alphabet([1, 2, 3, 4, 5]), xi=0.1)"
    refused(Checkpoint(path).begin(build(discrete=xi[1]), APG(), {}), f"discrete differs (though both read {shown})")
    refused(
        Checkpoint(path).begin(build(discrete=xi[0]), APG(), {"dtype": 1}), "dtype differs (not given then, 1 now)"
    )


# ---------------------------------------------------------------- writing
@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_failing_write_leaves_the_old_file(broken, tmp_path, monkeypatch):
    """A disk that is full in the middle of a write costs the new file only, and leaves no rest behind."""
    keeper, saved = some_run(tmp_path / "a")
    before = keeper.path.read_bytes()

    def full(*args: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(*{"fsync": (files.os, "fsync"), "replace": (Path, "replace")}[broken], full)
    with pytest.raises(OSError, match="no space left"):
        keeper.save(replace(saved, seconds=99.0))
    monkeypatch.undo()
    assert keeper.path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert keeper.load().seconds == 0.0


def test_the_disk_has_the_content_before_the_name_changes(tmp_path, monkeypatch):
    """The content is flushed to the disk before it takes the place of the old one."""
    events: list[str] = []
    fsync, rename = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("fsync"), fsync(handle))[1])
    monkeypatch.setattr(Path, "replace", lambda a, b: (events.append("replace"), rename(a, b))[1])
    some_run(tmp_path / "a")
    assert events == ["fsync", "replace"]


ENDLESS = """
import sys, itertools, numpy as np, snapimpute as si
from snapimpute.solvers.checkpoint import Checkpoint, RunSnapshot
from snapimpute.solvers.base import State
problem = si.Problem(si.Observations.from_dense(np.eye(3)), si.Nuclear(1.0))
keeper = Checkpoint(sys.argv[1]).begin(problem, si.solvers.APG(), {})
x = si.LowRank.zeros((3, 3))
for k in itertools.count():
    state = State(x=x, x_observed=np.zeros(9), iteration=k, change=1.0, certificate=1.0)
    keeper.save(RunSnapshot(state, [], 0.0, 0.0, -1, x, memory={"all": np.full(200_000, float(k))}))
    if k == 2:
        print("begun", flush=True)
"""


def test_killed_while_writing(tmp_path):
    """A process that is killed at any moment leaves a file that loads, with all of one iteration in it."""
    path = tmp_path / "a"
    run = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE)  # noqa: S603
    try:
        assert run.stdout.readline() == b"begun\n"
        time.sleep(0.05)
    finally:
        run.send_signal(signal.SIGKILL)
        run.communicate()
    problem = si.Problem(si.Observations.from_dense(np.eye(3)), si.Nuclear(1.0))
    loaded = Checkpoint(path).begin(problem, APG(), {}).load()
    assert (loaded.memory["all"] == loaded.state.iteration).all()


# ---------------------------------------------------------------- the surface
def test_checkpoint_of(tmp_path, monkeypatch):
    """A path makes a checkpoint with the usual interval; a checkpoint is taken as it is."""
    own = Checkpoint(tmp_path / "a", every_seconds=5)
    assert Checkpoint.of(own) is own
    assert Checkpoint.of(str(own.path)) == Checkpoint.of(own.path) == Checkpoint(own.path, every_seconds=30.0)
    for wrong in (-1.0, math.nan):
        with pytest.raises(ValueError, match="every_seconds must be at least 0"):
            Checkpoint(tmp_path / "a", every_seconds=wrong)


def test_due(tmp_path, monkeypatch):
    """A run is due when the interval has passed since it began or was saved; 0 is always, infinity never."""
    now = 100.0
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now)
    problem, state = build(), stepped(APG(), build(), None, 1)
    keeper = Checkpoint(tmp_path / "a", every_seconds=30).begin(problem, APG(), {})
    now = 129.0
    assert not keeper.due()
    now = 130.0
    assert keeper.due()
    keeper.save(of_state(state))
    assert not keeper.due()
    now = 160.0
    assert keeper.due()
    assert Checkpoint(tmp_path / "a", every_seconds=0).begin(problem, APG(), {}).due()
    assert not Checkpoint(tmp_path / "a", every_seconds=math.inf).begin(problem, APG(), {}).due()
