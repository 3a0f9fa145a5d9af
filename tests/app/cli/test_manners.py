"""Manners of every command: what it says and where, and what it never overwrites."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from snapimpute.app.cli import _terminal as terminal
from tests.app.cli.running import (
    FAST,
    FIVE,
    TUNED,
    M,
    N,
    frame,
    gaps,
    one_line,
)


# -------------------------------------------------------------------- manners
def test_quiet_says_nothing(snap, wide_csv, long_csv):
    """Neither on standard output nor beside it."""
    snap("fit", long_csv, "-m", "m.snap", *FIVE)
    for command in (
        ["complete", wide_csv, "-o", "out.csv", *FIVE],
        ["fit", wide_csv, "-m", "w.snap", *FIVE],
        ["predict", "w.snap", wide_csv, "-o", "out.csv"],
        ["recommend", "m.snap", "--all", "-o", "out.csv"],
        ["tune", wide_csv, "-a", "1:5", "-o", "out.csv", "--lam", 2, "--center", "mean"],
        ["evaluate", wide_csv, *FIVE],
        ["datasets"],
    ):
        done = snap(*command, "--quiet")
        assert (done.out, done.err) == ("", "")


def test_json_is_one_object(snap, wide_csv):
    """With what a script needs to know."""
    done = snap("complete", wide_csv, "-o", "out.csv", *FIVE, "--model", "m.snap", "--json")
    found = done.json
    assert done.err == ""
    for name in ("input", "rows", "columns", "known", "alphabet", "lam", "xi", "center", "rank", "status", "seconds"):
        assert name in found
    assert (found["output"], found["model"], found["interrupted"]) == ("out.csv", "m.snap", False)
    assert (found["rows"], found["columns"]) == (M, N)


def test_what_is_read_and_fitted_is_told(snap, wide_csv):
    """To people: how the file was read, the strengths, how the fit ended, what was written."""
    done = snap("complete", wide_csv, "-o", "out.csv", *TUNED)
    for part in (
        "read wide.csv: format csv",
        "delimiter comma",
        "layout wide: one row a line",
        "row labels column 'who'",
        "table: 24 rows × 10 columns",
        "(λ, ξ, centre chosen on held-out cells)",
        "did discreteness beat rounding?",
        "wrote out.csv: ",
    ):
        assert part in done.out


def test_warnings_are_one_line_each(snap, wide_csv):
    """A fit that did not converge says so, with what to do."""
    done = snap("complete", wide_csv, "-o", "out.csv", *FIVE, "--max-iter", 2)
    assert done.code == 0
    assert done.err.startswith("snapimpute: Stopped at max_iter=2")
    assert "Raise max_iter" in done.err
    assert len(done.err.splitlines()) == 1
    done = snap("evaluate", wide_csv, *FIVE, "--max-iter", 2, "-q")
    assert done.err.splitlines()[0].startswith("snapimpute: Stopped at max_iter=2")


def test_progress_tells_of_scores_and_time(snap, wide_csv, monkeypatch):
    """Lines beside the output where there is no terminal: loss, rank, objective, time left."""
    monkeypatch.setattr(terminal, "EVERY", 0.0)
    done = snap("complete", wide_csv, "-o", "out.csv", *TUNED)
    assert "fitting: λ " in done.err
    lines = done.err.splitlines()
    assert any("held-out loss" in line and "rank" in line and "left" in line for line in lines)
    assert any("iteration 1, objective" in line and "held-out loss" in line for line in lines)
    assert "held-out loss" not in done.out


def test_a_terminal_gets_a_live_line(snap, wide_csv, monkeypatch):
    """Drawn beside the output and wiped away at the end; what is written is the same."""
    snap("complete", wide_csv, "-o", "plain.csv", *TUNED)
    monkeypatch.setenv("FORCE_COLOR", "1")
    for columns in ("80", "140"):
        monkeypatch.setenv("COLUMNS", columns)
        done = snap("complete", wide_csv, "-o", "-", *TUNED)
        assert done.out == Path("plain.csv").read_text()
        assert "\x1b[" in done.err
        drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.err)
        assert re.search(
            r"iteration \d+, objective [\d.]+, rank \d+, loss [\d.]+ .*\d:\d\d:\d\d ≤ [\d.]+ \w+ left", drawn
        )


# -------------------------------------------------------------------- what is not overwritten
def test_never_over_the_input_without_force(snap, wide_csv, long_csv):
    """By whatever name; with --force it is done."""
    before = Path(wide_csv).read_bytes()
    Path("link.csv").symlink_to(wide_csv)
    for out in (wide_csv, f"./{wide_csv}", "link.csv"):
        done = snap("complete", wide_csv, "-o", out, *FIVE, ok=False)
        assert done.code == 1
        assert "is the input, which would be lost: name another file, or add --force" in done.err
    assert snap("fit", wide_csv, "-m", wide_csv, *FIVE, ok=False).code == 1
    assert snap("complete", wide_csv, "-o", "o.csv", "--model", wide_csv, *FIVE, ok=False).code == 1
    assert snap("evaluate", wide_csv, "--report", wide_csv, *FIVE, ok=False).code == 1
    assert snap("tune", wide_csv, "-o", wide_csv, "-a", "1:5", ok=False).code == 1
    Path("cells.csv").write_text("u1,101\n")
    assert snap("complete", long_csv, "--cells", "cells.csv", "-o", "cells.csv", *FIVE, ok=False).code == 1
    snap("fit", long_csv, "-m", "m.snap", *FIVE)
    assert snap("predict", "m.snap", "--cells", "cells.csv", "-o", "cells.csv", ok=False).code == 1
    assert Path(wide_csv).read_bytes() == before
    snap("complete", wide_csv, "-o", wide_csv, *FIVE, "--force")
    assert frame(wide_csv).null_count().sum_horizontal()[0] == 0


def test_force_is_offered_where_it_is_an_option(snap, wide_csv):
    """Advice that leads to another error is none."""
    snap("fit", wide_csv, "-m", "m.snap", *FIVE)
    for command in (
        ("tune", wide_csv, "-a", "1:5", "-o", wide_csv),
        ("evaluate", wide_csv, "-a", "1:5", "--report", wide_csv),
        ("recommend", "m.snap", "--all", "-o", "m.snap", "--to", "csv"),
    ):
        one_line(snap(*command, ok=False), "is the input, which would be lost: name another file")
        assert "--force" not in snap(*command, ok=False).err


@pytest.mark.skipif(os.name == "nt", reason="pipes of other systems")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_pipe_with_a_name_is_written_to_and_not_replaced(snap, wide_csv, kind):
    """As -o >(gzip > out.csv.gz) of a shell."""
    os.mkfifo(f"pipe.{kind}")
    reader = threading.Thread(target=lambda: Path(f"out.{kind}").write_bytes(Path(f"pipe.{kind}").read_bytes()))
    reader.start()
    snap("complete", wide_csv, "-o", f"pipe.{kind}", *FIVE, "-q")
    reader.join(60)
    assert Path(f"pipe.{kind}").is_fifo()
    assert gaps(frame(f"out.{kind}")) == 0


def test_two_results_do_not_go_to_one_file(snap, wide_csv):
    """One of them would be lost."""
    done = snap("complete", wide_csv, "-o", "x.csv", "--model", "x.csv", *FIVE, ok=False)
    assert done.code == 2
    assert "two different results" in done.err
    assert not Path("x.csv").exists()


# ---------------------------------------------------------------- another backend
@pytest.mark.slow
def test_a_backend_is_used_and_named(snap, tmp_path):
    """The fit is done there, and the line about it says so."""
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "votes.csv").write_text("a,b,c\n1,0,\n0,1,1\n1,,0\n0,1,1\n")
    done = snap("complete", "votes.csv", "-a", "0,1", *FAST, "--backend", "torch:cpu", "-o", "out.csv")
    assert "Computed with torch on cpu." in done.out


@pytest.mark.parametrize(
    ("backend", "says"), [("jax", "backend must be one of"), ("torch:gpu", "torch knows no device")]
)
def test_a_backend_that_is_not_there_is_said_before_anything_is_read(snap, backend, says):
    """Bad usage, and no file is looked for."""
    pytest.importorskip("torch", reason="torch is not installed")
    done = snap("complete", "missing.csv", "-a", "0,1", "--backend", backend, "-o", "out.csv", ok=False)
    assert done.code == 2
    assert says in done.err


@pytest.mark.slow
def test_python_m_runs_the_command():
    """Where scripts are not on the path: `python -m snapimpute`."""
    done = subprocess.run(
        [sys.executable, "-m", "snapimpute", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("snapimpute ")
