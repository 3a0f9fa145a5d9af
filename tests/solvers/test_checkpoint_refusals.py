"""Checkpoints that are refused: what cannot be held, and files that are damaged, foreign or of another version."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.numpy import save as as_safetensors

import snapimpute as si
from snapimpute.solvers import APG, SoftImpute, checkpoint
from snapimpute.solvers.base import Context, State
from snapimpute.solvers.checkpoint import Checkpoint
from tests.solvers.saved_runs import (
    CONTEXT,
    SMALL,
    assert_same,
    build,
    of_state,
    refused,
    rewritten,
    some_run,
    stepped,
)

pytestmark = pytest.mark.slow


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
    with pytest.raises(ValueError, match="the history is too long for a checkpoint: it makes"):
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
