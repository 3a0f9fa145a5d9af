"""Runs that were saved: problems made anew, steps by hand, files changed, and what counts as the same."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as as_safetensors

import snapimpute as si
from snapimpute.base.threads import single_threaded_blas
from snapimpute.solvers import APG, SOLVERS, Solver, checkpoint
from snapimpute.solvers.base import Context, State
from snapimpute.solvers.checkpoint import Checkpoint, CheckpointFile, RunSnapshot

CONTEXT = Context(max_rank=None, seed=5)
SETTINGS: dict[str, Any] = {"max_rank": None, "random_state": 5, "x0": None}
SMALL, LARGE = (24, 17), (210, 170)  # in the larger one partial SVDs iterate from warm starts
ADVICE = "Delete it to start anew, or give another path."


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


def refused(keeper: CheckpointFile, *words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(ADVICE)) as caught:
        keeper.load()
    for word in (str(keeper.path), *words):
        assert word in str(caught.value)
