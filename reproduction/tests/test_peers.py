"""Other libraries beside ours: what their processes get and give back, failures, environments, the table."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
import sysconfig
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reproduction import peer_run, peers, posterior, units
from reproduction.peer_run import Answer, Task, histories, on_table, one_hot, tuned
from reproduction.peers import PEERS, Peer, Score, as_markdown, environment, prints, run_unit
from snapimpute.data.datasets import Dataset, low_rank_alphabet
from snapimpute.evaluation.baselines import ConstantMean, DampedBiases

SHARE, SEED = 0.6, 3

SCRIPT = """
    import os, sys, time
    import numpy as np

    name, task, answer = sys.argv[1:]
    task = np.load(task)
    size = task["asked_rows"].size
    facts = {"seconds": 1.25, "peak_mib": 3.04, "total_mib": 40.0, "chosen": ""}
    found = {"estimate": np.full(size, task["values"].mean()), **facts}
    if name == "symbols":
        found["symbols"] = np.full(size, 5.0)
    if name == "spy":
        found["chosen"] = " ".join(sorted(task.files)) + " " + os.environ["OMP_NUM_THREADS"]
    if name == "no memory known":
        found["peak_mib"] = found["total_mib"] = np.nan
    if name == "crash":
        print("something before")
        raise ValueError("no luck\\ntoday")
    if name == "exit":
        sys.exit(3)
    if name == "killed":
        os.kill(os.getpid(), 9)
    if name == "slow":
        time.sleep(60)
    if name == "short":
        found["estimate"] = found["estimate"][1:]
    if name == "nan":
        found["estimate"][0] = np.nan
    if name == "off":
        found["symbols"] = np.full(size, 2.5)
    if name == "incomplete":
        del found["seconds"]
    if name == "garbage":
        open(answer, "w").write("garbage")
    elif name == "pickled":
        np.savez(answer, **found | {"estimate": np.array([object()])})
    elif name != "silent":
        np.savez(answer, **found)
"""
UNREADABLE = "gave no answer that can be read: "
FAILURES = {
    "crash": "failed: today",
    "exit": "failed: exit status 3",
    "slow": "did not finish in 1 s",
    "short": UNREADABLE + "40 finite estimates wanted, got (39,)",
    "nan": UNREADABLE + "40 finite estimates wanted, got (40,)",
    "off": UNREADABLE + "its symbols are not those of the alphabet",
    "incomplete": UNREADABLE,
    "garbage": UNREADABLE,
    "pickled": UNREADABLE,
    "silent": UNREADABLE,
} | ({"killed": "was ended by signal 9"} if os.name == "posix" else {})


def tiny(shape: tuple[int, int] = (12, 10)) -> Dataset:
    """Blocks, five of each six entries observed."""
    made = low_rank_alphabet(shape, 2, "1:5", kind="blocks", observed=5 / 6, random_state=SEED)
    entries = made.observations
    return Dataset("tiny", entries.rows, entries.cols, entries.values, entries.shape, made.alphabet)


@pytest.fixture(autouse=True)
def tiny_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "DATA", {"tiny": tiny})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A script in place of the real one, with a peer for each thing it can do, in the interpreter of this test."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    names = ("mean", "symbols", "spy", "no memory known", *FAILURES)
    monkeypatch.setattr(peers, "SCRIPT", script)
    limits = {"slow": 1.0}
    made = {name: Peer(name, None, "for this test", limits.get(name, 60.0)) for name in names}
    monkeypatch.setattr(peers, "PEERS", made)
    return script


@pytest.fixture
def requirements(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The requirements of one environment, "other"."""
    folder = tmp_path / "requirements"
    folder.mkdir()
    (folder / "other.txt").write_text("# why\nno-such-package-of-anyone==1.5\nnumpy==2.0\n", encoding="utf-8")
    monkeypatch.setattr(peers, "REQUIREMENTS", folder)
    peers._prepared.cache_clear()
    yield folder
    peers._prepared.cache_clear()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A script in place of uv that runs this interpreter; a file with the arguments of each call."""
    if os.name != "posix":
        pytest.skip("a script stands for uv")
    uv, calls = tmp_path / "uv", tmp_path / "calls.txt"
    uv.write_text(
        f'#!/bin/sh\necho "$@" >> {calls}\n'
        f'while [ "$1" != python ]; do shift; done\nshift\n"{sys.executable}" "$@"\nexit $?\n',
        encoding="utf-8",
    )
    uv.chmod(0o755)
    monkeypatch.setattr(peers, "_uv", lambda: str(uv))
    return calls


def only(method: str, seed: int = SEED) -> Score:
    (score,) = run_unit("tiny", SHARE, seed, [method])
    return score


# ---------------------------------------------------------------- one run
@pytest.mark.parametrize("method", ["mean", "symbols"])
def test_scores_are_those_of_the_answer(fake, method):
    """Every score by hand, from the mean of the known entries; exact match by the peer's symbols if it gives them."""
    known, hidden = tiny().observations.split(1 - SHARE, random_state=SEED)
    mean, truth = known.values.mean(), hidden.values
    assert len(hidden) == 40
    score = only(method)
    assert (score.data, score.share, score.seed, score.method, score.note) == ("tiny", SHARE, SEED, method, "")
    assert score.nmse == pytest.approx(((truth - mean) ** 2).sum() / (truth**2).sum())
    assert score.rmse == pytest.approx(((truth - mean) ** 2).mean() ** 0.5)
    assert score.mae == pytest.approx(abs(truth - mean).mean())
    decided = 5 if method == "symbols" else np.round(mean)
    assert score.exact == pytest.approx((truth == decided).mean())
    assert (score.seconds, score.peak_mib, score.total_mib) == (1.25, 3.0, 40.0)


def test_peers_do_not_see_the_hidden_entries_and_have_one_thread(fake):
    """A task holds the known entries and the places asked for, nothing else."""
    assert only("spy").note.split() == [*sorted(Task._fields), "1"]


def test_memory_that_no_one_knows_is_left_out(fake):
    """A system that does not tell the memory leaves the other scores."""
    score = only("no memory known")
    assert (score.peak_mib, score.total_mib) == (None, None)
    assert score.nmse == only("mean").nmse
    assert "NaN" not in json.dumps(score.__dict__)


def test_failing_peers_have_one_note_and_do_not_stop_the_others(fake):
    """Crash, time limit, and answers of every wrong kind: no score, one line that says why; the next one runs."""
    scores = list(run_unit("tiny", SHARE, SEED, [*FAILURES, "mean"]))
    assert [s.method for s in scores] == [*FAILURES, "mean"]
    for score in scores[:-1]:
        assert score.note.startswith(FAILURES[score.method])
        assert "\n" not in score.note
        assert len(score.note) < 250
        assert score == Score("tiny", SHARE, SEED, score.method, note=score.note)
    assert scores[-1].nmse is not None


def test_an_interpreter_that_cannot_be_started_is_a_note(fake, monkeypatch):
    """The environment may have gone since it was made."""
    monkeypatch.setattr(peers, "environment", lambda name: peers.Made(("/no/such/python",)))
    assert only("mean").note.startswith("could not be started: ")


# ---------------------------------------------------------------- the real script
@pytest.mark.parametrize("method", ["constant mean", "damped biases"])
def test_the_real_script_runs_from_end_to_end(method):
    """The baselines in their own process are those of the package."""
    known, hidden = tiny().observations.split(1 - SHARE, random_state=SEED)
    model = {"constant mean": ConstantMean, "damped biases": DampedBiases}[method]
    estimate = model.fit(known).entries(hidden.rows, hidden.cols)
    score = only(method)
    assert score.note == ""
    assert score.nmse == pytest.approx(((hidden.values - estimate) ** 2).sum() / (hidden.values**2).sum())
    assert score.exact == pytest.approx((hidden.values == tiny().alphabet.snap(estimate)).mean())
    assert score.seconds is not None
    assert (score.peak_mib is None) == (score.total_mib is None)
    assert score.total_mib is None or score.total_mib > 10


@pytest.mark.slow
@pytest.mark.skipif("SNAPIMPUTE_TEST_PEERS" not in os.environ, reason="set SNAPIMPUTE_TEST_PEERS: it may install")
@pytest.mark.parametrize("method", [m for m in PEERS if m not in ("constant mean", "damped biases")])
def test_every_library_beats_the_mean(monkeypatch, method):
    """On blocks, in the library's own environment."""
    monkeypatch.setattr(peers, "DATA", {"tiny": lambda: tiny((60, 40))})
    score = only(method)
    assert score.nmse is not None, score.note
    assert score.nmse < (only("constant mean").nmse or 0)


def test_the_script_imports_numpy_and_the_standard_library_only():
    """It is run where this package is not: all else is imported inside the functions that need it."""
    names = set()
    for node in ast.parse(peers.SCRIPT.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    assert {name for name in names if name.startswith("numpy")} == {"numpy", "numpy.typing"}
    assert not any(name.split(".")[0] in ("snapimpute", "scipy", "sklearn") for name in names)


def test_every_peer_is_one_that_can_be_run():
    """Runs and grids have a name in the script; environments have a file, all of whose versions are pinned."""
    studied = [*PEERS.values(), *(peer for some in posterior.METHODS.values() for peer in some.values())]
    assert {peer.run for peer in studied} == set(peer_run.RUNS)
    assert set(peer_run.GRIDS) < set(peer_run.RUNS)
    assert all(1 < len(grid) <= 6 for grid in peer_run.GRIDS.values())
    named = {peer.environment for peer in PEERS.values()} - {None}
    assert {file.stem for file in peers.REQUIREMENTS.glob("*.txt")} == named
    for file in peers.REQUIREMENTS.glob("*.txt"):
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        assert lines
        assert all(line.count("==") == 1 for line in lines)


# ---------------------------------------------------------------- parts of the script
def _task(seed: int = 0) -> Task:
    rng = np.random.default_rng(seed)
    rows, cols = np.divmod(rng.permutation(48)[:30], 8)
    asked = np.divmod(np.arange(48), 8)
    return Task(np.array([6, 8]), np.arange(1.0, 6.0), seed, rows, cols, rng.integers(1, 6, 30) * 1.0, *asked)


def test_tuning_takes_the_best_on_a_held_out_fifth_of_the_known_entries():
    """The fits see four fifths, are asked for the rest, and the best setting is then fitted to everything."""
    task, seen = _task(), list[tuple[Task, float]]()

    def fit(given: Task, *, level: float) -> Any:
        seen.append((given, level))
        return np.full(given.asked_rows.size, level)

    grid = [{"level": level} for level in (1.0, 2.0, 3.0, 4.0, 5.0)]
    answer = tuned(fit, grid)(task)
    assert [level for _, level in seen[:-1]] == [1, 2, 3, 4, 5]
    keys = task.rows * 8 + task.cols
    for inner, _ in seen[:-1]:
        kept, out = inner.rows * 8 + inner.cols, inner.asked_rows * 8 + inner.asked_cols
        assert (kept.size, out.size) == (24, 6)
        assert sorted([*kept, *out]) == sorted(keys)
        assert inner.values.tolist() == [task.values[keys == key][0] for key in kept]
    held = np.array([task.values[keys == key][0] for key in out])
    best = min((1.0, 2.0, 3.0, 4.0, 5.0), key=lambda level: ((held - level) ** 2).mean())
    assert (seen[-1][0] is task, seen[-1][1], answer.chosen) == (True, best, f"level={best}")
    assert answer.estimate.tolist() == [best] * 48
    assert answer.symbols is None


def test_default_settings_that_win_are_called_so():
    """A setting without a name is the library's own."""
    run = tuned(lambda task, wrong=0: np.full(task.asked_rows.size, 3.0 + wrong), [{"wrong": 9}, {}])
    assert run(_task()).chosen == "its defaults"


def test_tables_come_without_empty_rows_and_columns():
    """Tables to fill have an entry in each row and column; elsewhere the mean of the known entries is given."""
    task = _task()._replace(rows=np.array([0, 0, 4]), cols=np.array([1, 6, 6]), values=np.array([1.0, 2.0, 5.0]))

    def fill(table: Any, given: Task, *, plus: float) -> Any:
        assert given is task
        assert np.array_equal(table, [[1, 2], [np.nan, 5]], equal_nan=True)
        return np.where(np.isnan(table), 9.0, table) + plus

    expected = np.full((6, 8), 8 / 3)
    expected[np.ix_([0, 4], [1, 6])] = [[1.5, 2.5], [9.5, 5.5]]
    assert on_table(fill)(task, plus=0.5).reshape(6, 8) == pytest.approx(expected)


def test_one_hot_rows_have_a_one_for_the_row_and_one_for_the_column():
    """Columns of the table come after its rows."""
    found = one_hot(_task(), np.array([5, 0]), np.array([0, 7])).toarray()
    assert found.shape == (2, 14)
    assert [np.flatnonzero(row).tolist() for row in found] == [[5, 6], [0, 13]]
    assert found.sum() == 4


def test_histories_name_the_known_entries_of_a_row_and_of_a_column():
    """Each row has a 1 for itself and 1/√n for each of its n known columns; columns alike; hidden ones have none."""
    task = _task()
    rows, cols = (side.toarray() for side in histories(task))
    known = np.zeros((6, 8))
    known[task.rows, task.cols] = 1
    assert known.sum() == 30
    assert np.array_equal(rows[:, :6], np.eye(6))
    assert np.array_equal(cols[:, :8], np.eye(8))
    assert rows[:, 6:] == pytest.approx(known / np.sqrt(np.maximum(known.sum(axis=1), 1))[:, None])
    assert cols[:, 8:] == pytest.approx((known / np.sqrt(np.maximum(known.sum(axis=0), 1))).T)


def test_the_script_writes_what_its_run_gives(monkeypatch, tmp_path):
    """Estimates, symbols and choice as they are, seconds and memory of the run without its preparation."""
    task = _task()
    np.savez(tmp_path / "task.npz", **task._asdict())

    def prepare() -> Any:
        def run(given: Task) -> Answer:
            assert given.seed == 0
            assert all(np.array_equal(a, b) for a, b in zip(given, task, strict=True))
            return Answer(np.arange(48.0), np.ones(48), "this", np.full((48, 5), 0.2))

        clock.append(100.0)  # what the preparation takes
        return run

    clock = [0.0]
    monkeypatch.setattr(peer_run.time, "process_time", lambda: clock.append(clock[-1] + 1) or clock[-1])
    monkeypatch.setattr(peer_run, "RUNS", {"one": prepare})
    with warnings.catch_warnings():  # which the script changes, for the process it has to itself
        peer_run.main("one", str(tmp_path / "task.npz"), str(tmp_path / "answer.npz"))
    found = np.load(tmp_path / "answer.npz")
    assert (found["estimate"].tolist(), found["symbols"].tolist()) == (list(range(48)), [1] * 48)
    assert (str(found["chosen"]), float(found["seconds"])) == ("this", 1.0)
    assert np.array_equal(found["proba"], np.full((48, 5), 0.2))
    assert not found["total_mib"] < found["peak_mib"]


# ---------------------------------------------------------------- environments
needs_uv = pytest.mark.skipif(shutil.which("uv", path=sysconfig.get_path("scripts")) is None, reason="uv is an extra")


@needs_uv
def test_an_environment_that_cannot_be_made_is_a_note(fake, requirements, monkeypatch):
    """Without an index: the reason is uv's, the others go on, and uv does not try again and again."""
    monkeypatch.setenv("UV_NO_INDEX", "1")
    (requirements / "other.txt").write_text("no-such-package-of-anyone==1.5\n", encoding="utf-8")
    monkeypatch.setitem(peers.PEERS, "other", Peer("mean", "other", "for this test"))
    scores = list(run_unit("tiny", SHARE, SEED, ["other", "mean"]))
    assert scores[0].note.startswith("no environment for it: failed: error: ")
    assert "no-such-package-of-anyone" in scores[0].note
    assert scores[1].nmse is not None
    monkeypatch.setattr(peers, "_start", None)
    assert environment("other").reason == scores[0].note


@needs_uv
def test_uv_runs_a_script_in_an_environment_of_its_own(monkeypatch, requirements):
    """The interpreter of an environment without requirements has no numpy."""
    (requirements / "other.txt").write_text("# nothing\n", encoding="utf-8")
    made = environment("other")
    assert made.reason == ""
    peers._start([*made.command, "-c", "import sys; assert sys.flags.isolated"], 60.0)
    with pytest.raises(peers.PeerError, match="failed: ModuleNotFoundError: No module named 'numpy'"):
        peers._start([*made.command, "-c", "import numpy"], 60.0)


def test_uv_is_asked_for_pinned_and_isolated_environments(fake, requirements, calls, monkeypatch):
    """Each run names the requirements and the Python; an environment is prepared once."""
    monkeypatch.setitem(peers.PEERS, "other", Peer("mean", "other", "for this test"))
    assert [score.nmse for score in (only("other"), only("other"))] == [only("mean").nmse] * 2
    wanted = f"run --quiet --isolated --no-project --python {peers.PYTHON} "
    wanted += f"--with-requirements {requirements / 'other.txt'} python -I "
    lines = calls.read_text(encoding="utf-8").splitlines()
    assert all(line.startswith(wanted) for line in lines)
    assert [line.removeprefix(wanted).split()[0] for line in lines] == ["-c", str(fake), str(fake)]


@pytest.mark.skipif(os.name != "posix", reason="processes are looked up as POSIX does")
def test_what_a_peer_has_started_ends_with_it(tmp_path):
    """uv starts the interpreter: over time, both are ended at once."""
    number = tmp_path / "number"
    with pytest.raises(peers.PeerError, match="did not finish in 1 s"):
        peers._start(["sh", "-c", f"sleep 60 & echo $! > {number}; wait"], 1.0)
    state = Path("/proc") / number.read_text(encoding="utf-8").strip() / "stat"
    assert not state.exists() or state.read_text(encoding="utf-8").split()[2] == "Z"


def test_without_uv_the_error_says_how_to_install_it(requirements, monkeypatch, tmp_path):
    """It is looked for beside the interpreter and on the path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(peers.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(ImportError, match=r"uv is not installed.*snapimpute\[reproduction\]"):
        environment("other")
    assert environment(None).command[0] == sys.executable
    (tmp_path / "uv").touch(mode=0o755)
    assert os.name != "posix" or peers._uv() == str(tmp_path / "uv")


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("error: first\n  cause: last\nhint: see above", "error: first cause: last"),
        ("Traceback\n  line 1\nodd\n\n", "odd"),
        ("", "exit status 1"),
        ("a" * 300, "a" * 199 + "…"),
    ],
)
def test_the_reason_of_a_failure_is_one_line(printed, reason):
    """uv's errors without its hints, else the last line, cut where it is too long."""
    command = [sys.executable, "-c", f"import sys; sys.stderr.write({printed!r}); sys.exit(1)"]
    with pytest.raises(peers.PeerError) as caught:
        peers._start(command, 60.0)
    assert str(caught.value) == f"failed: {reason}"


# ---------------------------------------------------------------- fingerprints and units
def test_fingerprints_follow_what_is_run(requirements, calls, monkeypatch):
    """Versions, limits and grids count, words about a peer do not."""
    monkeypatch.setattr(peers, "PEERS", {"one": Peer("knn", "other", "words"), "two": Peer("ours", None, "words")})
    before = prints()
    assert list(before) == ["one", "two"]
    assert prints(["two"]) == {"two": before["two"]}

    def changed() -> list[str]:
        return [name for name, code in prints().items() if code != before[name]]

    assert changed() == []
    monkeypatch.setitem(peers.PEERS, "one", Peer("knn", "other", "other words"))
    assert changed() == []
    monkeypatch.setitem(peers.PEERS, "two", Peer("ours", None, "words", 5.0))
    assert changed() == ["two"]
    monkeypatch.setitem(peers.PEERS, "two", Peer("ours", None, "words"))
    monkeypatch.setitem(peer_run.GRIDS, "knn", ({}, {"n_neighbors": 7}))
    assert changed() == ["one"]


def test_changed_versions_are_changed_fingerprints(requirements, calls, monkeypatch):
    """The pins of a file of requirements are part of the print, its comments are not."""
    monkeypatch.setattr(peers, "PEERS", {"one": Peer("knn", "other", "words")})
    before = prints()
    (requirements / "other.txt").write_text("no-such-package-of-anyone==1.5\nnumpy==2.0\n", encoding="utf-8")
    assert prints() == before
    (requirements / "other.txt").write_text("numpy==2.1\n", encoding="utf-8")
    assert prints() != before


def work(jobs: Sequence[units.Job]) -> None:
    for job in jobs:
        job.work()


def test_scores_are_kept_and_what_was_skipped_is_run_when_it_can_be(fake, requirements, calls, monkeypatch, tmp_path):
    """A second collection runs nothing; once an environment can be made, only what lacked it is run."""
    monkeypatch.setitem(peers.PEERS, "other", Peer("mean", "other", "for this test"))
    asked: list[str] = []

    def run(data: str, share: float, seed: int, methods: Sequence[str]) -> Iterator[Score]:
        asked.extend(methods)
        return run_unit(data, share, seed, methods)

    def collect() -> list[Score]:
        wanted = {("tiny", SHARE, seed): prints(["mean", "crash", "other"]) for seed in (0, 1)}
        return units.collect(run, Score, wanted, tmp_path / "out", work)

    start = peers._start

    def fail(command: Sequence[str], limit: float) -> None:
        if limit == peers.INSTALL_LIMIT:
            raise peers.PeerError("no index")
        start(command, limit)

    monkeypatch.setattr(peers, "_start", fail)
    first = collect()
    assert asked == ["mean", "crash", "other"] * 2
    assert [s.note for s in first if s.method == "other"] == ["no environment for it: no index"] * 2
    assert collect() == first
    assert len(asked) == 6
    monkeypatch.setattr(peers, "_start", start)
    peers._prepared.cache_clear()
    second = collect()
    assert asked[6:] == ["other"] * 2
    assert [s for s in second if s.method != "other"] == [s for s in first if s.method != "other"]
    assert not any("environment" in s.note for s in second)


# ---------------------------------------------------------------- the table
def _score(method: str, seed: int, nmse: float | None, note: str = "", share: float = 0.2) -> Score:
    if nmse is None:
        return Score("tiny", share, seed, method, note=note)
    return Score("tiny", share, seed, method, nmse, 10 * nmse, 5 * nmse, 0.4 + nmse, 2.0 + seed, 100.0, note, 300.0)


def test_tables_are_sorted_by_error_whoever_wins():
    """The best NMSE comes first, what did not run last, one table for each share, with the notes under it."""
    scores = [
        *(_score("ours, SnapImputer", seed, 0.06 + 0.01 * seed, note="ξ=0") for seed in (0, 1)),
        *(_score("KNNImputer", seed, None, "did not finish in 1 s") for seed in (0, 1)),
        _score("myFM regression", 0, 0.05, "this"),
        _score("myFM regression", 1, None, "failed: that"),
        _score("constant mean", 0, 0.03, share=0.4),
        _score("damped biases", 0, 0.02, share=0.4),
    ]
    text = as_markdown(scores)
    first, second = text.split("### ")[1:]
    assert first.startswith("tiny, 20 % known: 2 seeds\n")
    assert second.startswith("tiny, 40 % known: 1 seed\n")
    rows = [line for line in first.splitlines() if line.startswith("|")][2:]
    assert rows == [
        "| myFM regression | 0.0500 | 0.5000 | 0.2500 | 45.00 | 2.0 | 100 | 300 |",
        "| ours, SnapImputer | 0.0650 ± 0.0050 | 0.6500 ± 0.0500 | 0.3250 ± 0.0250 | 46.50 ± 0.50 | "
        "2.5 | 100 | 300 |",
        "| KNNImputer | – | – | – | – | – | – | – |",
    ]
    assert [line.split(" | ")[0] for line in second.splitlines() if line.startswith("| ")][1:] == [
        "| damped biases",
        "| constant mean",
    ]
    notes = [line for line in first.splitlines() if line.startswith("- ")]
    assert notes == [
        "- ours, SnapImputer: chose ξ=0 (2 of 2)",
        "- KNNImputer: did not finish in 1 s (2 of 2)",
        "- myFM regression: chose this (1 of 2); failed: that (1 of 2)",
    ]


def test_the_table_says_how_each_method_was_run():
    """Library, version and settings; methods that are not in the table are not explained."""
    text = as_markdown([_score("Surprise SVD", 0, 0.05), _score("KNNImputer", 0, None, "why")])
    last = [line for line in text.splitlines() if line.startswith("- ")][-2:]
    pinned = (peers.REQUIREMENTS / "surprise.txt").read_text(encoding="utf-8")
    version = next(line for line in pinned.splitlines() if line.startswith("scikit-surprise==")).split("==")[1]
    assert last[0] == f"- Surprise SVD (scikit-surprise {version}): {PEERS['Surprise SVD'].about}."
    assert last[1].startswith("- KNNImputer (scikit-learn ")
    assert "cornac" not in text
    assert "- KNNImputer: why\n" in text  # one seed: no counts
