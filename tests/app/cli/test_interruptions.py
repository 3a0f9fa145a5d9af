"""Full disks, readers that go away, Ctrl-C: what is left, and what is said."""

from __future__ import annotations

import errno
import io
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from snapimpute.app.cli import _cells as cells
from snapimpute.app.cli import _terminal as terminal
from snapimpute.app.cli import main
from snapimpute.data.datasets import low_rank_alphabet
from tests.app.cli.running import (
    EXCEL,
    FIVE,
    TUNED,
    frame,
    gaps,
    left_over,
    one_line,
)


# -------------------------------------------------------------------- disks
@pytest.mark.parametrize(
    ("suffix", "method"), [(".csv", "write_csv"), (".parquet", "write_parquet"), (".arrow", "write_ipc")]
)
def test_a_full_disk_leaves_nothing_half_written(snap, wide_csv, monkeypatch, suffix, method):
    """However the library that writes words it: one line, and what was there before is still there."""

    class Full(io.RawIOBase):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    def full(self: Any, file: Any, *args: Any, **more: Any) -> None:
        file.write(b"half of")
        file._file = Full()
        try:
            file.write(b"the other half")
        except OSError:
            raise pl.exceptions.ComputeError("parquet: underlying IO error") from None

    monkeypatch.setattr(pl.DataFrame, method, full)
    Path(f"out{suffix}").write_text("what was there")
    done = snap("complete", wide_csv, "-o", f"out{suffix}", *FIVE, "-q", ok=False)
    one_line(done, f"out{suffix}: the disk is full: nothing was written; make room, or name another place")
    assert Path(f"out{suffix}").read_text() == "what was there"
    assert left_over() == set()


def test_a_disk_that_fills_up_while_cells_are_streamed(snap, long_csv, monkeypatch):
    """After some pieces were written."""
    real, calls = pl.DataFrame.write_csv, []

    def full(self: Any, file: Any, *args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, file, *args, **more)

    monkeypatch.setattr("snapimpute.app.io.triplets.BLOCK", 20)
    monkeypatch.setattr(pl.DataFrame, "write_csv", full)
    done = snap("complete", long_csv, "-o", "out.csv", *FIVE, "-q", ok=False)
    one_line(done, "out.csv: the disk is full: nothing was written")
    assert len(calls) == 4
    assert left_over() == set()
    assert not Path("out.csv").exists()


def test_a_full_disk_when_the_model_is_saved(snap, wide_csv, monkeypatch):
    """The table is there by then, the model is not."""

    def full(*args: Any, **more: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("snapimpute.solvers.model_file.write_atomically", full)
    done = snap("complete", wide_csv, "-o", "out.csv", "--model", "m.snap", *FIVE, "-q", ok=False)
    one_line(done, "m.snap: the disk is full")
    assert Path("out.csv").exists()
    assert not Path("m.snap").exists()


def child(code: str, *arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
    """The command in a process of its own, after some preparations; Ctrl-C reaches it even if not these tests."""
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    start += f"sys.argv = ['snapimpute', *{list(map(str, arguments))!r}]\n"
    script = start + textwrap.dedent(code) + "\nfrom snapimpute.app.cli import main\nmain()\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", script], **(pipes | more))  # noqa: S603


def wait_for(stream: Any, word: bytes) -> bytes:
    """Read lines until one has a word."""
    seen = b""
    while word not in seen:
        line = stream.readline()
        assert line, seen.decode()
        seen += line
    return seen


LIMITED = """
    import resource
    from snapimpute.app.cli import _cells as cells, main
    before = cells.write
    def limited(*arguments):
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
        return before(*arguments)
    cells.write = limited
    for out in OUTS:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        sys.argv[4] = out
        try:
            main()
        except SystemExit as left:
            sys.stderr.write(f"exit code {left.code}\\n")
    sys.exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["wide", "triplets"])
def test_a_file_that_may_not_grow(snap, wide_csv, long_csv, layout):
    """A real limit of the system: every way to write ends with one line and leaves nothing."""
    pytest.importorskip("resource")
    outs = ["out.csv", "out.parquet", "out.arrow", "out.npz", "out.npy", "out.mtx", *(["out.xlsx"] if EXCEL else [])]
    before = set(os.listdir())
    table = wide_csv if layout == "wide" else long_csv
    with child(f"    OUTS = {outs!r}" + LIMITED, "complete", table, "-o", "", *FIVE, "-q") as process:
        said, err = process.communicate(timeout=120)
    lines = err.decode().splitlines()
    assert said == b""
    assert lines[1::2] == ["exit code 1"] * len(outs), lines
    for out, line in zip(outs, lines[::2], strict=True):
        assert line.startswith(
            f"snapimpute: {out}: the file would be larger than is allowed here: nothing was written"
        )
    assert set(os.listdir()) == before


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(snap, long_csv):
    """As with head: no message, no traceback, exit code 0."""
    wait = """
        import snapimpute.app.cli._cells as cells
        before = cells.write
        def later(*arguments):
            sys.stderr.write("ready\\n")
            sys.stderr.flush()
            sys.stdin.readline()
            return before(*arguments)
        cells.write = later
    """
    for kind in ("csv", "parquet"):
        with child(wait, "complete", long_csv, "-o", "-", "--to", kind, *FIVE, "-q") as process:
            wait_for(process.stderr, b"ready")
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdin is not None
            process.stdout.close()
            process.stdin.write(b"go\n")
            process.stdin.flush()
            assert process.stderr.read() == b""
            assert process.wait(120) == 0


def test_a_reader_that_goes_away_while_we_talk_is_no_error(snap, monkeypatch):
    """As in snapimpute solvers | head: rich would end with the code of an error."""

    def gone(*args: Any) -> int:
        raise BrokenPipeError

    monkeypatch.setattr("snapimpute.app.cli._forget_the_rest", lambda: None)
    for command in ("solvers", "datasets"):
        monkeypatch.setattr(Console, "file", SimpleNamespace(write=gone, flush=gone, isatty=lambda: False))
        done = snap(command, ok=False)
        assert (done.code, done.err) == (0, "")


# -------------------------------------------------------------------- Ctrl-C
def test_an_interrupted_fit_writes_the_best_so_far(snap, wide_csv, monkeypatch):
    """The table is whole, the model can be used, the exit code is 130; no report, which would take longer."""

    def stop(self: Any, info: Any) -> None:
        if info.iteration == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(terminal.Watcher, "iterated", stop)
    done = snap(
        *("complete", wide_csv, "-o", "out.csv", "--model", "m.snap", "--report", "r.html", *FIVE), "--json", ok=False
    )
    assert done.code == 130
    assert "snapimpute: interrupted: going on with the best so far" in done.err
    assert "no report was written" in done.err
    found = done.json
    assert (found["status"], found["interrupted"], found["iterations"]) == ("interrupted", True, 4)
    assert gaps(frame("out.csv")) == 0
    assert snap("predict", "m.snap", wide_csv, "-o", "again.csv").code == 0
    done = snap("fit", wide_csv, "-m", "f.snap", *FIVE, ok=False)
    assert (done.code, Path("f.snap").exists()) == (130, True)
    done = snap("complete", wide_csv, "-o", "-", *FIVE, "-q", ok=False)
    assert done.code == 130
    assert done.out.startswith("who,q0")


def test_the_time_that_is_left_is_that_of_iterations_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a fit that goes on from a checkpoint the iterations before do not count; after the first nobody knows."""
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr(terminal.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(terminal, "EVERY", -1.0)
    said = io.StringIO()
    watcher = terminal.Watcher(Console(file=said, width=200), "fitting", 1, max_iter=100)
    for iteration in (41, 42):
        watcher.iterated(SimpleNamespace(iteration=iteration, objective=1.0, x=SimpleNamespace(rank=2)))
    first, second = said.getvalue().splitlines()
    assert first == "fitting: iteration 41, objective 1, rank 2"
    assert re.fullmatch(r"fitting: iteration 42, objective 1, rank 2; at most 29 min left", second)


def test_an_interrupted_tuning_goes_on_with_the_best_so_far(snap, wide_csv, monkeypatch, fitted):
    """What was tried counts: the best of it is fitted and written; tune writes what there is."""
    real, seen = terminal.Watcher.tried, []

    def stop(self: Any, candidate: Any) -> None:
        seen.append(candidate)
        real(self, candidate)
        if len(seen) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(terminal.Watcher, "tried", stop)
    done = snap("complete", wide_csv, "-o", "out.csv", *TUNED, "--json", ok=False)
    assert done.code == 130
    assert len(seen) == 4
    assert done.json["lam"] in {one.lam for one in seen}
    assert gaps(frame("out.csv")) == 0
    seen.clear()
    done = snap("tune", wide_csv, *TUNED, "-o", "tried.csv", "--json", ok=False)
    assert done.code == 130
    assert frame("tried.csv").height == 4
    assert done.json["interrupted"] is True
    seen.clear()
    done = snap("evaluate", wide_csv, *TUNED, "--json", ok=False)
    assert done.code == 130
    assert "interrupted: going on with the best so far" in done.err
    found = done.json
    assert (found["interrupted"], found["ways"][0]["label"]) == (True, "snapimpute")
    assert found["lam"] in {one.lam for one in seen}


@pytest.fixture
def usual_signals():
    """Ctrl-C as Python has it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("times", [1, 2])
def test_an_interruption_while_results_are_written(snap, wide_csv, monkeypatch, usual_signals, times):
    """The fit is over: what it found is written first, and only a second Ctrl-C stops that."""
    real = cells.write

    def interrupted(*arguments: Any) -> Any:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(cells, "write", interrupted)
    done = snap("complete", wide_csv, "-o", "out.csv", "--model", "m.snap", "--report", "r.html", *FIVE, ok=False)
    assert done.code == 130
    assert "snapimpute: interrupted: what there is will be written; Ctrl-C again stops that" in done.err
    assert {"out.csv", "m.snap", "r.html"} & set(os.listdir()) == ({"out.csv", "m.snap"} if times == 1 else set())
    assert ("no file was left half written" in done.err) == (times == 2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("stage", "status"),
    [("experts.proximal.fitting._held_out", "interrupted"), ("estimator.evaluation.check", "converged")],
)
def test_an_interruption_after_the_last_fit(snap, wide_csv, monkeypatch, stage, status):
    """While probabilities are calibrated, or scores for the report are made: the table is there nevertheless."""

    def stop(*args: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"snapimpute.{stage}", stop)
    done = snap("complete", wide_csv, "-o", "out.csv", "--report", "r.html", *FIVE, "--json", ok=False)
    assert (done.code, done.json["interrupted"], done.json["status"]) == (130, True, status)
    assert "no report was written" in done.err
    assert gaps(frame("out.csv")) == 0
    assert not Path("r.html").exists()


def test_an_interruption_before_the_first_iteration_of_the_last_fit(snap, wide_csv, monkeypatch):
    """What was chosen is not lost: it is said, beside that the result knows nothing else."""

    def stop(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapimpute.solvers.proximal.gradient.ProximalGradient.step", stop)
    done = snap("complete", wide_csv, "-o", "out.csv", *FIVE, "-q", ok=False)
    assert done.code == 130
    assert "knows the mean only: fit again with --lam 2 --xi 0.01 --center mean" in done.err


@pytest.mark.parametrize("where", ["read", "fit"])
def test_an_interruption_before_anything_was_fitted_writes_nothing(snap, wide_csv, monkeypatch, where):
    """While the file is read, or before the first λ was scored."""

    def stop(*args: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(
        {"read": "snapimpute.app.io.read._bytes", "fit": "snapimpute.experts.proximal.tuned.best_damping"}[where],
        stop,
    )
    before = os.listdir()
    done = snap("complete", wide_csv, "-o", "out.csv", *TUNED, "-q", ok=False)
    assert done.code == 130
    assert done.err == "snapimpute: interrupted; no file was left half written\n"
    assert os.listdir() == before


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of other systems")
def test_a_real_signal_while_it_tunes(snap):
    """SIGINT: the best so far is written, exit code 130, one line for each thing that is said."""
    known = low_rank_alphabet((400, 300), 5, "1:5", observed=0.3, random_state=0).observations
    table = pl.DataFrame({"user": known.rows, "item": known.cols, "rating": known.values.astype(int)})
    table.write_csv("in.csv")
    loud = "import snapimpute.app.cli._terminal as talk\ntalk.EVERY = 0"
    with child(loud, "complete", "in.csv", "-o", "out.csv", *TUNED, "--max-iter", 100) as process:
        seen = wait_for(process.stderr, b"held-out loss")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    said = (seen + err).decode()
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "interrupted: going on with the best so far" in said
    assert b"wrote out.csv" in out
    assert frame("out.csv").height == 400 * 300 - len(known)
    assert left_over() == set()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of other systems")
def test_a_real_signal_while_it_waits_for_a_pipe(snap):
    """Nothing is written, and there is no traceback."""
    loud = """
        import snapimpute.app.io.read as read
        before = read._bytes
        def told(path):
            sys.stderr.write("reading\\n")
            sys.stderr.flush()
            return before(path)
        read._bytes = told
    """
    with child(loud, "complete", "-", "-o", "out.csv", "-a", "1:5") as process:
        wait_for(process.stderr, b"reading")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert process.wait(60) == 130
    assert said == "snapimpute: interrupted; no file was left half written\n"
    assert os.listdir() == []


def test_an_interruption_while_the_commands_are_loaded(snap, monkeypatch):
    """That takes a second or two, in which a person may think again."""

    def stop() -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("snapimpute.app.cli._app", stop)
    done = snap("complete", "in.csv", ok=False)
    assert (done.code, done.err) == (130, "snapimpute: interrupted; no file was left half written\n")


def test_debugging_shows_the_traceback(snap, monkeypatch):
    """Who asks for it gets the exception itself."""
    monkeypatch.setenv("SNAPIMPUTE_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["snapimpute", "complete", "none.csv", "-o", "x.csv", "-a", "1:5"])
    with pytest.raises(FileNotFoundError):
        main()


def test_a_package_that_is_missing_is_named(snap, monkeypatch):
    """The command without its extra says what to install."""
    monkeypatch.setitem(sys.modules, "snapimpute.app.cli.app", None)
    one_line(snap("solvers", ok=False), "pip install", "snapimpute[app]")
