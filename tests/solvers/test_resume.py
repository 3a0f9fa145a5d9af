"""Runs with a checkpoint: killed or interrupted anywhere, they go on to the same bits; others are refused."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.linalg import tiled
from snapimpute.problem import sampling
from snapimpute.solvers import APG, SOLVERS, Info, Result, checkpoint
from snapimpute.solvers.checkpoint import Checkpoint, CheckpointFile
from snapimpute.solvers.proximal import gradient as proximal
from tests.helpers import same_bits

pytestmark = pytest.mark.slow

SHAPE = (150, 140)  # partial SVDs iterate


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are worth sampling here."""
    for name, value in SAMPLING.items():
        monkeypatch.setattr(tiled, name, value)
    monkeypatch.setattr(sampling, "PAST_COST", 0)


SAMPLING = {"LEAST_ROWS": 4, "LEAST_COLS": 4}

WAYS: dict[str, dict[str, Any]] = {
    "tiled": {},
    "sampled": {"alphabet_term": "sampled", "random_state": 3},
    "float32": {"dtype": "float32"},
    "sampled float32": {"alphabet_term": "sampled", "dtype": "float32"},
}


# ---------------------------------------------------------------- tools
def build(lam: float = 12.0, xi: float = 0.05, seed: int = 0) -> si.Problem:
    """A problem of which each call makes another copy."""
    observations = si.datasets.low_rank_alphabet(SHAPE, 3, observed=0.2, random_state=seed).observations
    return si.Problem(observations, si.Nuclear(lam), si.L1("1:5", xi=xi), si.LowRank.constant(SHAPE, 0.3))


def run(solver: Any = "apg", **options: Any) -> Result:
    return si.solve(build(), solver, **{"max_iter": 14, "tol": 0.0} | options)


def assert_same(one: Result, other: Result) -> None:
    """Equal to the last bit, but for the clock."""
    assert same_bits((one.status, one.row, one.x, one.history), (other.status, other.row, other.x, other.history))
    for result in (one, other):
        assert (np.diff(result.history["seconds"]) >= 0).all()


class Steps:
    """Counts the steps of all proximal solvers, and interrupts one."""

    def __init__(self, interrupt_at: int | None = None) -> None:
        self.count, self.interrupt_at = 0, interrupt_at

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        out = SVD(*arguments, **options)
        if self.count == self.interrupt_at:
            raise KeyboardInterrupt
        return out


SVD = proximal.partial_svd


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    watch = Steps()
    monkeypatch.setattr(proximal, "partial_svd", watch)
    return watch


def interrupt(at: int) -> Any:
    def callback(info: Info) -> None:
        if info.iteration == at:
            raise KeyboardInterrupt

    return callback


# ---------------------------------------------------------------- killed
CHILD = """
import json, sys, time
import snapimpute as si
from snapimpute.linalg import tiled
from snapimpute.problem import sampling
from snapimpute.solvers.checkpoint import Checkpoint

path, shape, sizes, options = sys.argv[1], *map(json.loads, sys.argv[2:])
sampling.PAST_COST = 0
for name, value in sizes.items():
    setattr(tiled, name, value)
observations = si.datasets.low_rank_alphabet(tuple(shape), 3, observed=0.2, random_state=0).observations
problem = si.Problem(
    observations, si.Nuclear(12.0), si.L1("1:5", xi=0.05), si.LowRank.constant(tuple(shape), 0.3)
)

def tell(info):
    print(info.iteration, flush=True)
    time.sleep(0.02 if info.iteration < 5 else 0.1)

si.solve(problem, "apg", tol=0, checkpoint=Checkpoint(path, every_seconds=0), callback=tell, **options)
"""

KILLED_AFTER, LONG = 5, 400


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, int]]]:
    """For each way the file of a process that was killed in the middle, and the last iteration it told of."""
    folder = tmp_path_factory.mktemp("killed")
    children = {}
    for way in ("tiled", "sampled", "float32"):
        given = (SHAPE, SAMPLING, WAYS[way] | {"max_iter": LONG})
        command = [sys.executable, "-c", CHILD, str(folder / way), *map(json.dumps, given)]
        children[way] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    out = {}
    try:
        for way, child in children.items():
            last = 0
            while last < KILLED_AFTER:
                line = child.stdout.readline()
                assert line, f"the process ended after {last} iterations"
                last = int(line)
            assert (folder / way).is_file()
            child.kill()
            told = [last, *map(int, child.communicate()[0].split())]
            assert child.returncode == -9
            out[way] = folder / way, told[-1]
        yield out
    finally:
        for child in children.values():
            if child.poll() is None:
                child.kill()
                child.communicate()


@pytest.mark.parametrize("way", ["tiled", "sampled", "float32"])
def test_killed_run_goes_on_to_the_same_bits(way, killed, steps):
    """A process killed in the middle is taken up by another one, which ends with the bits of a run never stopped."""
    path, told = killed[way]
    most = told + 6
    resumed = run(checkpoint=path, max_iter=most, **WAYS[way])
    taken = steps.count
    assert taken in (5, 6)  # what was told of is in the file, and perhaps one more
    whole = run(max_iter=most, **WAYS[way])
    assert steps.count == taken + most
    assert_same(resumed, whole)
    assert ("share" in whole.history) == (way == "sampled")
    if way == "sampled":
        assert whole.history["share"].min() < 1
    assert resumed.x.dtype == (np.float32 if way == "float32" else np.float64)


# ---------------------------------------------------------------- interrupted
SOLVERS_TRIED = ["soft-impute", "apg", "apgl", "fpc", "ais-impute", "nmapg", "niapg", "fancl"]


@pytest.mark.parametrize(
    ("name", "way"),
    [*((name, "sampled") for name in SOLVERS_TRIED), *(("apg", way) for way in WAYS if way != "sampled")],
)
def test_interrupted_by_a_callback(name, way, tmp_path):
    """Ctrl-C while a callback runs saves the run; taken up again it ends as if nothing had been."""
    path = tmp_path / "run"
    broken = run(name, max_iter=9, checkpoint=path, callback=interrupt(5), **WAYS[way])
    assert broken.status.code == "interrupted"
    assert path.is_file()
    assert broken.n_iter == 5
    assert_same(run(name, max_iter=9, checkpoint=path, **WAYS[way]), run(name, max_iter=9, **WAYS[way]))


@pytest.mark.parametrize("way", WAYS)
def test_interrupted_in_a_step(way, tmp_path, steps):
    """Ctrl-C in the middle of a step: the steps before are saved, not the half one, nor what it drew."""
    path = tmp_path / "run"
    steps.interrupt_at = 7
    broken = run(checkpoint=path, **WAYS[way])
    assert broken.status.code == "interrupted"
    assert broken.n_iter == 6
    resumed, taken = run(checkpoint=path, **WAYS[way]), steps.count
    assert taken == 7 + 14 - 6
    assert_same(resumed, run(**WAYS[way]))


def test_interrupted_twice_in_an_iteration(tmp_path):
    """An iteration that is interrupted twice stands in the history once."""
    for _ in range(2):
        assert run(checkpoint=tmp_path / "run", callback=interrupt(4)).status.code == "interrupted"
    assert_same(run(checkpoint=tmp_path / "run"), run())


def test_finished_run_stays_as_it_is(tmp_path):
    """A finished run that is asked for again, and again, has the same history every time."""
    first, *again = (run(checkpoint=tmp_path / "run", max_iter=4) for _ in range(4))
    for other in again:
        assert_same(other, first)


def test_what_a_callback_recorded_is_kept(tmp_path):
    """Columns of a callback come back from the file, and the callback sees each iteration once, the last again."""
    seen: list[int] = []

    def record(info: Info) -> dict[str, float]:
        seen.append(info.iteration)
        if len(seen) == 6:
            raise KeyboardInterrupt
        return {"twice": 2.0 * info.iteration}

    run(checkpoint=tmp_path / "run", callback=record)
    resumed = run(checkpoint=tmp_path / "run", callback=record)
    assert seen == [*range(1, 7), *range(6, 15)]
    assert resumed.history["twice"].tolist() == [2.0 * k for k in range(1, 15)]


def test_interrupted_before_the_first_step_ends(tmp_path, steps):
    """Nothing is saved of a run without a step, and it begins anew."""
    steps.interrupt_at = 1
    assert run(checkpoint=tmp_path / "run").status.code == "interrupted"
    assert list(tmp_path.iterdir()) == []
    assert_same(run(checkpoint=tmp_path / "run"), run())


# ---------------------------------------------------------------- finished
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ["max_iter", "converged", "stopped"])
def test_finished_run_returns_at_once(end, way, tmp_path, steps):
    """A run that has ended, however, gives its answer again without a step."""
    options: dict[str, Any] = {
        "max_iter": {"max_iter": 6},
        "converged": {"max_iter": 200, "tol": 0.1},
        "stopped": {"callback": lambda info: info.iteration == 4},
    }[end]
    first = run(checkpoint=tmp_path / "run", **options, **WAYS[way])
    assert first.status.code == end
    steps.count = 0
    again = run(checkpoint=tmp_path / "run", **options, **WAYS[way])
    assert steps.count == 0
    assert_same(again, first)


@pytest.mark.parametrize(("way", "every"), [*((way, 1) for way in WAYS), ("tiled", 3), ("sampled", 3)])
def test_larger_max_iter_goes_on(way, every, tmp_path, steps):
    """With a larger max_iter a finished run goes on, also where the objective is evaluated now and then only."""
    options = WAYS[way] | {"evaluate_every": every}
    run(checkpoint=tmp_path / "run", max_iter=5, **options)
    steps.count = 0
    resumed = run(checkpoint=tmp_path / "run", max_iter=12, **options)
    assert steps.count == 7
    assert_same(resumed, run(max_iter=12, **options))


def test_smaller_tol_goes_on(tmp_path):
    """So does a run that had converged, with a smaller tol."""
    first = run(checkpoint=tmp_path / "run", tol=0.05, max_iter=200)
    resumed = run(checkpoint=tmp_path / "run", tol=0.01, max_iter=200)
    assert first.n_iter < resumed.n_iter
    assert_same(resumed, run(tol=0.01, max_iter=200))


# ---------------------------------------------------------------- refused
OTHERS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "lam": ({"lam": math.nextafter(12.0, 13.0)}, "apg", "spectral differs"),
    "xi": ({"xi": 0.06}, "apg", r"discrete differs \(L1.* xi=0.05\) then, L1.* xi=0.06\) now\)"),
    "data": ({"seed": 1}, "apg", "observations differs"),
    "solver": ({}, "soft-impute", r"solver differs \(APG\(.*\) then, SoftImpute\(.*\) now\)"),
    "hyperparameter": ({}, APG(beta="fista"), "solver differs"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_problem_or_solver_is_refused(name, tmp_path, steps):
    """A file of another problem or solver is refused before any step, and what differs is named."""
    change, solver, message = OTHERS[name]
    run(checkpoint=tmp_path / "run", max_iter=2)
    before = (tmp_path / "run").read_bytes()
    steps.count = 0
    with pytest.raises(ValueError, match=f"belongs to another problem: .*{message}"):
        si.solve(build(**change), solver, max_iter=4, tol=0, checkpoint=tmp_path / "run")
    assert steps.count == 0
    assert (tmp_path / "run").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"random_state": 4}, r"setting random_state differs \(3 then, 4 now\)"),
        ({"alphabet_term": "tiled"}, r"setting alphabet_term differs \('sampled' then, 'tiled' now\)"),
        ({"dtype": "float32"}, r"setting dtype differs \('float64' then, 'float32' now\)"),
        ({"max_rank": 3}, r"setting max_rank differs \(None then, 3 now\)"),
        ({"evaluate_every": 2}, r"setting evaluate_every differs \(1 then, 2 now\)"),
        ({"x0": si.LowRank.constant(SHAPE, 1.0)}, r"setting x0 differs"),
    ],
    ids=str,
)
def test_other_settings_are_refused(change, named, tmp_path):
    """So is a file of another seed, way, precision, limit or start; a name of the solver is as good as itself."""
    way = WAYS["sampled"]
    run(checkpoint=tmp_path / "run", max_iter=2, **way)
    with pytest.raises(ValueError, match=f"belongs to another problem: .*{named}"):
        run(checkpoint=tmp_path / "run", **way | change)
    assert run(APG(), checkpoint=str(tmp_path / "run"), max_iter=3, **way).n_iter == 3


# ---------------------------------------------------------------- where it cannot be written
def written(result_of: Any) -> tuple[Result, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = result_of()
    return result, [str(w.message) for w in caught]


@pytest.mark.parametrize("way", ["tiled", "sampled"])
def test_full_disk_does_not_end_the_run(way, tmp_path, monkeypatch):
    """Where the file cannot be written a warning says so, and the fit goes on to its end."""

    def full(self: CheckpointFile, saved: Any) -> None:
        raise OSError(28, "No space left on device")

    expected = run(**WAYS[way])
    monkeypatch.setattr(CheckpointFile, "save", full)
    path = tmp_path / "run"
    result, messages = written(lambda: run(checkpoint=Checkpoint(path, every_seconds=0), **WAYS[way]))
    assert_same(result, expected)
    assert messages
    for message in messages:
        assert re.search(rf"the checkpoint {re.escape(str(path))} could not be written: .*No space left", message)
    assert not path.exists()


def test_a_folder_that_is_none(tmp_path):
    """A path below something that is no folder is such a case, met with the real file system."""
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "run"
    result, messages = written(lambda: run(checkpoint=path))
    assert_same(result, run())
    assert len(messages) == 1  # at the end only: it is not yet time before
    assert f"the checkpoint {path} could not be written" in messages[0]


@pytest.mark.parametrize("why", ["column", "length"])
def test_history_that_cannot_be_stored(why, tmp_path, monkeypatch):
    """A callback's column that no checkpoint holds, or too long a history: a warning, and the result is returned."""
    odd: Any = Fraction(1, 3) if why == "column" else 0.5
    if why == "length":
        monkeypatch.setattr(checkpoint, "MAX_TEXT", 10)
    path = tmp_path / "run"
    result, messages = written(lambda: run(checkpoint=path, callback=lambda info: {"odd": odd}))
    assert_same(result, run(callback=lambda info: {"odd": odd}))
    assert result.history["odd"].tolist() == [odd] * 14
    assert len(messages) == 1
    found = {"column": r"a checkpoint cannot hold a fractions\.Fraction", "length": "the history is too long"}[why]
    assert re.search(rf"the checkpoint {re.escape(str(path))} could not be written: {found}", messages[0])
    assert not path.exists()


def test_column_that_can_be_stored_no_longer(tmp_path):
    """The file written last stays good: a run goes on from where its history could still be stored."""

    def record(info: Info) -> dict[str, Any]:
        return {"odd": 0.5 if info.iteration < 4 else Fraction(1, 2)}

    path = tmp_path / "run"
    result, messages = written(lambda: run(checkpoint=Checkpoint(path, every_seconds=0), max_iter=8, callback=record))
    assert result.n_iter == 8
    assert len(messages) == 8 - 4 + 1  # from iteration 5 on, and at the end; a row is saved with the next step
    plain = {"callback": lambda info: {"odd": 0.5}}
    assert_same(run(checkpoint=path, **plain), run(**plain))


def test_disk_that_has_room_again(tmp_path, monkeypatch):
    """One failed write costs that file only: the next one is complete."""
    save, calls = CheckpointFile.save, []

    def sometimes(self: CheckpointFile, saved: Any) -> None:
        calls.append(saved.state.iteration)
        if len(calls) in (2, 3):
            raise OSError(28, "No space left on device")
        save(self, saved)

    monkeypatch.setattr(CheckpointFile, "save", sometimes)
    with pytest.warns(UserWarning, match="could not be written"):
        run(checkpoint=Checkpoint(tmp_path / "run", every_seconds=0), max_iter=6)
    assert calls == [1, 2, 3, 4, 5, 6, 6]
    assert_same(run(checkpoint=tmp_path / "run"), run())


def test_without_a_checkpoint_nothing_is_written(tmp_path, monkeypatch):
    """By default no file is made anywhere, not even looked for."""
    monkeypatch.chdir(tmp_path)

    def never(*arguments: Any, **options: Any) -> None:
        raise AssertionError("written")

    monkeypatch.setattr(checkpoint, "write_atomically", never)
    monkeypatch.setattr(CheckpointFile, "__init__", never)
    run(max_iter=3, checkpoint=None)
    assert list(tmp_path.iterdir()) == []


def test_when_a_run_is_saved(tmp_path, monkeypatch):
    """After every iteration if asked to, else when the time has come, and always at the end."""
    saved: list[tuple[int, bool]] = []
    monkeypatch.setattr(CheckpointFile, "save", lambda self, what: saved.append((what.state.iteration, what.done)))
    run(checkpoint=Checkpoint(tmp_path / "run", every_seconds=0), max_iter=3)
    assert saved == [(1, False), (2, False), (3, False), (3, True)]
    saved.clear()
    run(checkpoint=tmp_path / "new folder" / "run", max_iter=3)
    assert saved == [(3, True)]


def test_folders_are_made(tmp_path):
    """A path in a folder that is not there yet makes the folder."""
    run(checkpoint=tmp_path / "new" / "folder" / "run", max_iter=2)
    assert (tmp_path / "new" / "folder" / "run").is_file()


@pytest.mark.parametrize("name", [n for n in SOLVERS if n not in (*SOLVERS_TRIED, "sdp", "mm")])
def test_other_solvers_go_on_too(name, tmp_path):
    """Solvers that are not proximal resume in the loop to the same bits as well."""
    kind = SOLVERS[name]
    spectral = si.Nuclear(12.0) if "nuclear" in kind.info.spectral else si.Rank(2.0)
    discrete = si.L1("1:5", xi=0.05) if kind.info.discrete else None
    observations = si.datasets.low_rank_alphabet((40, 30), 2, observed=0.5).observations
    options = {"max_iter": 7, "tol": 0.0}

    def solved(**more: Any) -> Result:
        return si.solve(si.Problem(observations, spectral, discrete), name, **options | more)

    assert solved(checkpoint=tmp_path / "run", callback=interrupt(4)).status.code == "interrupted"
    assert_same(solved(checkpoint=tmp_path / "run"), solved())


def test_a_clock_goes_on(tmp_path):
    """The seconds of a run that was taken up include those before."""
    broken = run(checkpoint=tmp_path / "run", callback=interrupt(6))
    resumed = run(checkpoint=tmp_path / "run")
    assert resumed.history["seconds"][:5].tolist() == broken.history["seconds"][:5].tolist()
    assert (np.diff(resumed.history["seconds"]) > 0).all()


def test_long_sampled_run(tmp_path):
    """The same long after a sampled run has settled to its noise, and the sample has grown for it."""
    way = WAYS["sampled"] | {"max_iter": 70}
    for at in (20, 41, 60):
        run(checkpoint=tmp_path / "run", callback=interrupt(at), **way)
    assert_same(run(checkpoint=tmp_path / "run", **way), run(**way))
