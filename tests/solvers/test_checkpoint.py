"""Checkpoints: what is saved comes back to the last bit and goes on as if nothing had been."""

from __future__ import annotations

import math
import os
import signal
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import snapimpute as si
from snapimpute.base import files
from snapimpute.problem import Terms
from snapimpute.solvers import APG, SOLVERS, checkpoint
from snapimpute.solvers.checkpoint import Checkpoint, RunSnapshot
from tests.solvers.saved_runs import (
    CONTEXT,
    LARGE,
    SETTINGS,
    SMALL,
    assert_same,
    build,
    cases,
    every_case,
    of_state,
    some_run,
    stepped,
    through_file,
)

pytestmark = pytest.mark.slow


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
