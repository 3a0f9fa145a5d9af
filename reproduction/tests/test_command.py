"""`python -m reproduction`: tables, numbers and pictures of the studies, going on after a break, processes."""

from __future__ import annotations

import importlib
import io
import json
import math
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

pytest.importorskip("typer", reason="the command line is an optional extra")
pytest.importorskip("matplotlib", reason="pictures are an optional extra")
from matplotlib.figure import Figure
from matplotlib.image import imread
from rich.console import Console
from typer.testing import CliRunner

import reproduction
import snapimpute.penalties
from reproduction import cli, gallery, recovery, study_figures, systems
from reproduction.recovery import PLAIN, Line, Source
from reproduction.studies import StudyRunner
from reproduction.units import Job, collect
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets import Dataset, low_rank_alphabet
from snapimpute.data.observations import Observations
from snapimpute.estimator.comparison import Method
from snapimpute.penalties import L1, CellPenalty

FEW = (
    Method(PLAIN, center="mean"),
    Method("ridge", discrete="ridge", center="mean"),
    Method("L1", discrete="l1", center="mean"),
)


def run(*arguments: str, columns: int = 200) -> Any:
    env = {"COLUMNS": str(columns), "TERMINAL_WIDTH": "200"}
    return CliRunner().invoke(cli.reproduce, [*arguments], env=env)


def squeezed(text: str) -> str:
    """Without white space and frames: long lines are broken where the terminal ends."""
    return "".join(text.replace("│", "").split())


def picture_size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG that is whole and not blank."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    image = imread(path)
    assert image.shape[:2] == (height, width)
    assert image.std() > 0.05
    return width, height


def tiny(seed: int) -> Observations:
    table = low_rank_alphabet((20, 15), 2, "0,1", kind="blocks", observed=0.5, random_state=seed).to_dense()
    return Observations.from_dense(table)


class Runs(NamedTuple):
    """A command run twice, the files after each run, and the units worked off in each."""

    out: Path
    results: list[Any]
    files: list[dict[str, bytes]]
    worked: list[list[tuple[str, float, int]]]


def run_twice(out: Path, *arguments: str) -> Runs:
    """Run a command twice in this process: others would not see what a test has replaced."""
    runs = Runs(out, [], [], [])

    def spread(runner: StudyRunner, rest: Sequence[Job]) -> None:
        runs.worked.append([job.unit for job in rest])
        for job in rest:
            job.work()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StudyRunner, "_spread", spread)
        for _ in range(2):
            runs.results.append(run(*arguments, "--out", str(out)))
            runs.files.append({str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()})
    return runs


# ---------------------------------------------------------------- recovery
@pytest.fixture(scope="module")
def recovered(tmp_path_factory) -> Runs:
    """`reproduce recovery --quick` on tiny blocks with three methods."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(recovery.SOURCES, "blocks", Source("tiny blocks, 20×15", Alphabet.of("0,1"), tiny))
        patch.setattr(recovery, "SHARES", (0.1, 0.4, 0.6, 0.8))
        patch.setattr(recovery, "METHODS", FEW)
        return run_twice(tmp_path_factory.mktemp("recovery"), "recovery", "--quick", "--source", "blocks")


def test_recovery_runs_two_shares_and_two_seeds(recovered):
    """Quick means the second and third share with two seeds each; every unit has its file."""
    assert recovered.results[0].exit_code == 0, recovered.results[0].output
    assert recovered.worked[0] == [("blocks", share, seed) for share in (0.4, 0.6) for seed in (0, 1)]
    assert sorted(recovered.files[0]) == [
        *(f"recovery.{suffix}" for suffix in ("csv", "md", "parquet", "pdf", "png", "svg")),
        *(f"scores/recovery/blocks-{share}-{seed}.json" for share in (40, 60) for seed in (0, 1)),
    ]


def test_recovery_writes_table_and_numbers(recovered):
    """CSV and Parquet hold the lines that the scores in the files give, and the table is theirs."""
    files = recovered.files[0]
    units = [json.loads(files[name]) for name in sorted(files) if "scores" in name]
    scores = [recovery.Score(**row["score"]) for unit in units for row in unit.values()]
    lines = recovery.summarise(scores)
    assert len(lines) == 2 * len(FEW)
    for frame in (pl.read_csv(files["recovery.csv"]), pl.read_parquet(files["recovery.parquet"])):
        assert frame.rows(named=True) == [pytest.approx(asdict(line), nan_ok=True) for line in lines]
    table = files["recovery.md"].decode()
    assert table.startswith("### tiny blocks, 20×15: 2 seeds\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(recovery.SOURCES, "blocks", Source("tiny blocks, 20×15", Alphabet.of("0,1"), tiny))
        assert table == recovery.as_markdown(lines)


def test_recovery_prints_the_table_and_a_verdict_for_each_share(recovered):
    """The table is shown, one sentence for each share names the winner, and the files are named."""
    shown = squeezed(recovered.results[0].output)
    assert squeezed(recovered.files[0]["recovery.md"].decode()) in shown
    for share in (40, 60):
        assert squeezed(f"tiny blocks, 20×15, {share} % observed, 2 seeds: of 1 discrete penalties L1 errs") in shown
    assert shown.count(squeezed("the best control there")) == 2
    assert squeezed(f"Picture: {recovered.out / 'recovery'}.png, .svg, .pdf") in shown
    assert squeezed(f"Table and numbers: {recovered.out / 'recovery'}.md, .csv, .parquet") in shown


def test_recovery_draws_a_picture(recovered):
    """The picture is a PNG of one column, three panels high."""
    width, height = picture_size(recovered.out / "recovery.png")
    assert 300 < width < 800
    assert 800 < height < 1600


def test_a_second_run_computes_nothing_again(recovered):
    """A folder that holds all units leaves nothing to run, and all comes out the same."""
    assert recovered.results[1].exit_code == 0
    assert recovered.worked[1] == []
    assert recovered.results[1].output == recovered.results[0].output
    assert recovered.files[1] == recovered.files[0]


# ---------------------------------------------------------------- systems
@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Runs:
    """`reproduce systems` on tiny blocks with three quick systems."""
    entries = tiny(0)
    data = Dataset("tiny table", entries.rows, entries.cols, entries.values, entries.shape, Alphabet.of("0,1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(systems, "DATA", {"tiny": (lambda: data, (0.3, 0.5)), "other": (lambda: 1 / 0, (0.5,))})
        names = "constant mean", "damped biases", "ours, ξ = 0"
        patch.setattr(systems, "SYSTEMS", {name: systems.SYSTEMS[name] for name in names})
        return run_twice(tmp_path_factory.mktemp("systems"), "systems", "--data", "tiny", "--seeds", "2")


def test_systems_writes_and_prints_its_table(compared):
    """Table and numbers hold each system at each share and seed; the table is shown; other data are left alone."""
    result, files = compared.results[0], compared.files[0]
    assert result.exit_code == 0, result.output
    assert compared.worked[0] == [("tiny", share, seed) for share in (0.3, 0.5) for seed in (0, 1)]
    assert {name for name in files if "scores" not in name} == {"systems.md", "systems.csv", "systems.parquet"}
    rows = pl.read_parquet(files["systems.parquet"]).rows(named=True)
    assert [(row["share"], row["seed"], row["method"]) for row in rows] == [
        (share, seed, system)
        for share in (0.3, 0.5)
        for seed in (0, 1)
        for system in ("constant mean", "damped biases", "ours, ξ = 0")
    ]
    table = files["systems.md"].decode()
    assert table.startswith("### tiny: 2 seeds\n")
    assert all(f"| {name} |" in table for name in ("constant mean", "damped biases", "ours, ξ = 0"))
    assert squeezed(table) in squeezed(result.output)


def test_systems_goes_on_where_it_was(compared):
    """A second run finds every unit done and changes nothing."""
    assert compared.results[1].exit_code == 0
    assert compared.worked[1] == []
    assert compared.files[1] == compared.files[0]


# ---------------------------------------------------------------- options
@pytest.fixture
def nothing_runs(monkeypatch) -> None:
    """A command that should refuse fails at once if it goes on."""
    monkeypatch.setattr(StudyRunner, "_spread", lambda runner, rest: pytest.fail(f"{len(rest)} units were run"))


@pytest.mark.parametrize(
    ("command", "option", "names"),
    [("recovery", "--source", recovery.SOURCES), ("systems", "--data", systems.DATA)],
)
def test_unknown_names_are_refused_with_the_choices(command, option, names, tmp_path, nothing_runs):
    """A name that is not there ends with status 2, before anything is run, and the error lists those that are."""
    good = next(iter(names))
    result = run(command, option, good, option, "nonsense", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert squeezed(f"Invalid value for {option}: there are {', '.join(names)}, got 'nonsense'") in squeezed(
        result.stderr
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("command", "seeds"), [("recovery", "1"), ("systems", "0")])
def test_too_few_seeds_are_refused(command, seeds, tmp_path, nothing_runs):
    """A paired difference needs two splits, a comparison one."""
    result = run(command, "--seeds", seeds, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_without_names_all_are_run(tmp_path, monkeypatch):
    """Without --source and --quick every source is run at every share, with the seeds asked for."""
    handed = []

    def stop(runner: StudyRunner, rest: Sequence[Job]) -> None:
        handed.append((runner.jobs, rest))
        raise KeyboardInterrupt

    monkeypatch.setattr(StudyRunner, "_spread", stop)
    run("recovery", "--seeds", "3", "--jobs", "2", "--out", str(tmp_path))
    ((jobs, rest),) = handed
    assert jobs == 2
    assert [job.unit for job in rest] == [
        (source, share, seed) for source in recovery.SOURCES for share in recovery.SHARES for seed in range(3)
    ]
    assert len({job.file for job in rest}) == len(rest)


def test_reproduce_alone_shows_help():
    """Without a study the command says which there are, and what each is about."""
    result = run()
    for words in ("Usage", "recovery", "systems", "penalties", "Draw what every discrete penalty does"):
        assert words in result.output
    assert "Traceback" not in result.output


# ---------------------------------------------------------------- processes
STUDY = """
import os, time
from dataclasses import dataclass

@dataclass(frozen=True)
class Mark:
    name: str
    seed: int
    method: str
    process: int
    threads: str

def study(name, share, seed, methods):
    if name == "bad":
        raise ZeroDivisionError("this unit is broken")
    if name == "late":
        time.sleep(0.3)
    threads = os.environ["SNAPIMPUTE_NUM_THREADS"] + os.environ["OPENBLAS_NUM_THREADS"]
    return [Mark(name, seed, method, os.getpid(), threads) for method in methods]
"""


@pytest.fixture
def trivial(tmp_path, monkeypatch) -> Iterator[Any]:
    """A module with a study that other processes can import; the environment is restored afterwards."""
    (tmp_path / "trivial_study_of_units.py").write_text(STUDY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("SNAPIMPUTE_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    yield importlib.import_module("trivial_study_of_units")
    del sys.modules["trivial_study_of_units"]


def spread(jobs: int) -> Any:
    runner = StudyRunner(Path(), jobs)
    runner.console = Console(file=io.StringIO())
    return runner._spread


def test_units_are_spread_over_processes(trivial, tmp_path):
    """Two processes with one thread each work off all units, none of them in this one."""
    units = [("good", 0.5, seed) for seed in range(4)]
    marks = collect(
        trivial.study, trivial.Mark, {unit: {"only": "x"} for unit in units}, tmp_path / "scores", spread(2)
    )
    assert [(mark.name, mark.seed) for mark in marks] == [(name, seed) for name, _, seed in units]
    assert {mark.threads for mark in marks} == {"11"}
    assert os.getpid() not in {mark.process for mark in marks}
    assert len({mark.process for mark in marks}) <= 2


def test_a_unit_that_fails_ends_the_study_and_keeps_the_rest(trivial, tmp_path):
    """The exception of a unit comes out; what was finished is kept, what had not begun is dropped."""
    units = [("good", 0.5, 0), ("bad", 0.5, 0), *(("late", 0.5, seed) for seed in range(8))]
    with pytest.raises(ZeroDivisionError, match="this unit is broken"):
        collect(trivial.study, trivial.Mark, {unit: {"only": "x"} for unit in units}, tmp_path / "scores", spread(1))
    kept = {path.name for path in (tmp_path / "scores").iterdir()}
    assert "good-50-0.json" in kept
    assert not kept & {"bad-50-0.json", "late-50-7.json"}


KILLED = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from reproduction.studies import end_with_parent

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=end_with_parent) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(60)
"""


def test_processes_end_with_the_one_that_started_them(tmp_path):
    """Killed without a chance to say so, a study leaves no process behind."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED, encoding="utf-8")
    where = {**os.environ, "PYTHONPATH": str(Path(reproduction.__file__).parents[1])}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=where) as study:  # noqa: S603
        assert study.stdout is not None
        worker = int(study.stdout.readline())
        study.kill()
    until = time.monotonic() + 20
    while Path(f"/proc/{worker}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()


def test_without_units_nothing_is_started(tmp_path):
    """No process and no empty bar where all is done, or no data could be had."""
    runner = StudyRunner(tmp_path, 2)
    runner.console = Console(file=io.StringIO())
    runner._spread([])
    assert runner.console.file.getvalue() == ""


# ---------------------------------------------------------------- pictures
def line(source: str, share: float, method: str, k: int, spread: float = 0.01) -> Line:
    return Line(
        source, share, method, 5, 0.1 + 0.02 * k, spread, 0.02, spread, 0.2, 1 - 0.03 * k, spread, 0.2 * (k % 3)
    )


@pytest.fixture
def drawn(monkeypatch) -> list[Figure]:
    """The figures that are saved."""
    kept: list[Figure] = []
    original = study_figures.save

    def save(figure: Figure, path: Path) -> None:
        kept.append(figure)
        original(figure, path)

    monkeypatch.setattr(study_figures, "save", save)
    return kept


@pytest.mark.parametrize(
    ("sources", "methods", "shares", "spread"),
    [
        (["signs"], [PLAIN], [0.1], math.nan),
        (["signs"], [PLAIN], [0.05, 0.1], 0.01),
        (list(recovery.SOURCES), [m.label for m in recovery.METHODS], recovery.SHARES, 0.01),
    ],
    ids=["one point", "one method", "everything"],
)
def test_recovery_picture_shows_every_line(tmp_path, drawn, sources, methods, shares, spread):
    """One column a source, one curve a method with its numbers, a legend of all; without a warning."""
    lines = [line(s, x, m, k, spread) for s in sources for x in shares for k, m in enumerate(methods)]
    study_figures.recovery(tmp_path / "picture.png", lines)
    width, height = picture_size(tmp_path / "picture.png")
    assert (width, height) == (round(4.2 * 110 * len(sources)), 12 * 110)
    (figure,) = drawn
    assert [text.get_text() for text in figure.legends[0].get_texts()] == methods
    axes = np.array(figure.axes).reshape(4, len(sources))
    for source, column in zip(sources, axes.T, strict=True):
        assert column[0].get_title() == recovery.SOURCES[source].title
        for k in range(len(methods)):
            gain, ratio = (axis.containers[k].lines[0] for axis in column[1:3])
            assert np.allclose(column[0].lines[k].get_xdata(), 100 * np.array(shares))
            assert np.allclose(column[0].lines[k].get_ydata(), 100 * (0.1 + 0.02 * k))
            assert np.allclose(gain.get_ydata(), 100 * lines[k].gain)
            assert np.allclose(ratio.get_ydata(), 1 - 0.03 * k)
            assert np.allclose(column[3].lines[k].get_ydata(), 100 * 0.2 * (k % 3))


def test_every_method_has_a_look_of_its_own():
    """No two methods of the study have the same colour and marker; controls are dashed, ξ = 0 is black."""
    styles = [study_figures._study_style(m.label) for m in recovery.METHODS]
    looks = [(str(style["color"]), style["marker"]) for style in styles]
    assert len({colour for colour, _ in looks}) == len(looks)
    for method, style in zip(recovery.METHODS, styles, strict=True):
        assert style["ls"] == ("-" if method.discrete_aware else "--")
    assert styles[0]["color"] == "black"


@pytest.mark.parametrize("count", [1, 5])
def test_penalty_picture_has_a_column_for_each(tmp_path, drawn, count):
    """Cost, prox and pull of each penalty stand in its column under its title; without a warning."""
    alphabet = Alphabet.of("0,1,3")
    shown = {f"L1, strength {k}": L1(alphabet, 0.1 * k) for k in range(1, count + 1)}
    study_figures.penalties(tmp_path / "deep" / "penalties.png", alphabet, shown)
    picture_size(tmp_path / "deep" / "penalties.png")
    (figure,) = drawn
    axes = np.array(figure.axes).reshape(3, count)
    assert [axis.get_title() for axis in axes[0]] == list(shown)
    for (_, prox, pull), penalty in zip(axes.T, shown.values(), strict=True):
        x = prox.lines[1].get_xdata()
        assert np.allclose(prox.lines[1].get_ydata(), penalty.prox(x))
        assert np.allclose(pull.lines[1].get_ydata(), penalty.prox(x) - x)


def test_penalties_writes_a_picture_for_each_alphabet(tmp_path):
    """The command draws both galleries and says where they are."""
    result = run("penalties", "--out", str(tmp_path / "new"))
    assert result.exit_code == 0, result.output
    files = [tmp_path / "new" / "ratings.png", tmp_path / "new" / "signs.png"]
    assert sorted((tmp_path / "new").iterdir()) == files
    assert result.output.split() == [str(file) for file in files]
    sizes = [picture_size(file) for file in files]
    assert sizes == [(round(2.2 * 110 * n), round(6.4 * 110)) for n in (8, 6)]


def test_every_penalty_of_entries_is_in_the_gallery():
    """Each penalty of single entries of the package is shown, and each on the alphabet of its gallery."""
    kinds = {
        kind
        for name in snapimpute.penalties.__all__
        if isinstance(kind := getattr(snapimpute.penalties, name), type)
        and issubclass(kind, CellPenalty)
        and kind is not CellPenalty
    }
    assert len(kinds) >= 6
    shown = [penalty for _, penalties in gallery.GALLERY.values() for penalty in penalties.values()]
    assert {type(penalty) for penalty in shown} == kinds
    for alphabet, penalties in gallery.GALLERY.values():
        assert {penalty.alphabet for penalty in penalties.values()} <= {alphabet, None}
