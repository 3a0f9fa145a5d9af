"""What is released: a source archive, the wheel made from it, and that wheel alone in an empty environment."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import ROOT

PACKAGE = ROOT / "src" / "snapimpute"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "1"]

pytestmark = pytest.mark.slow

SMOKE = """
import sys
import snapimpute as si
assert not (heavy := {"numba", "scipy", "sklearn", "numpy"} & set(sys.modules)), heavy

import numpy as np
X = np.array([[5, 4, np.nan, 1], [np.nan, 4, 1, 1], [1, np.nan, 5, 5], [1, 1, 5, np.nan]])
method = si.Proximal(lam=0.5, xi=0.01)
filled = si.complete(X, "1:5", method=method)
assert filled.tolist() == [[5, 4, 1, 1], [5, 4, 1, 1], [1, 1, 5, 5], [1, 1, 5, 5]], filled
si.SnapImputer("1:5", method=method).fit(X).save("model.snap")
assert (si.load("model.snap").transform(X) == filled).all()

for name in si.datasets.names():
    if name.startswith("senate"):
        votes = si.datasets.load(name)
        assert votes.observations.shape[0] > 90 and set(votes.observations.values.tolist()) == {0, 1}

absent = {"matplotlib", "pandas", "polars", "rich", "typer"}
assert all(getattr(si, name) is not None for name in si.__all__)
assert not (more := absent & set(sys.modules)), more
try:
    si.plots.plot_confusion([[1, 0], [0, 1]], "0,1")
except ImportError as err:
    print(err)
"""


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command away from this checkout: what it imports is what is installed."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([str(part) for part in command], cwd=cwd, env=mine, capture_output=True, text=True)  # noqa: S603, PLW1510


def build(source: Path, out: Path, target: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> tuple[Path, Path]:
    """The source archive, and the wheel built from what is in it."""
    pytest.importorskip("hatchling", reason="hatchling builds the package: it is in the extra test")
    folder = tmp_path_factory.mktemp("release")
    archive = build(ROOT, folder / "sdist", "sdist")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return archive, build(source, folder / "wheel", "wheel")


@pytest.fixture(scope="module")
def installed(released, tmp_path_factory) -> Iterator[Path]:
    """A new environment with the wheel and what it asks for, nothing else; removed at the end, as it is large."""
    pytest.importorskip("pip", reason="pip installs the wheel")
    folder = tmp_path_factory.mktemp("empty") / "venv"
    venv.EnvBuilder(symlinks=os.name != "nt").create(folder)  # without pip: this environment's will do
    python = programs(folder) / "python"
    probe = run(*PIP, "--python", python, "install", "--dry-run", "--no-deps", "--timeout", "10", "narwhals")
    if probe.returncode:
        pytest.skip(f"no package index to install from: {probe.stderr.strip().splitlines()[-1]}")
    done = run(*PIP, "--python", python, "install", "--no-compile", released[1])
    assert done.returncode == 0, done.stderr
    yield folder
    shutil.rmtree(folder)


def programs(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin")


def test_the_wheel_holds_the_package_with_its_data(released):
    """Every file of the package is in it, templates, data and typing mark included; no tests, no caches."""
    with zipfile.ZipFile(released[1]) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
        (about,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(about))
        licences = [name for name in wheel.namelist() if "/licenses/" in name]
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert held == {path.relative_to(PACKAGE.parent).as_posix() for path in files if path.suffix != ".pyc"}
    assert {f"snapimpute/data/datasets/data/senate_{number}.npz" for number in ("094", "109", "117")} < held
    assert "snapimpute/py.typed" in held
    assert not any(name.startswith("reproduction/") for name in held)
    assert licences
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(needed) == sorted(project["dependencies"])


def test_the_source_archive_holds_what_a_packager_needs(released):
    """Sources, tests, documentation and licence; no environment, no output of runs."""
    with tarfile.open(released[0]) as tar:
        held = {name.split("/", 1)[1] for name in tar.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "tests/fixtures.py", "docs/estimator.md"} < held
    assert {name.split("/")[0] for name in held}.isdisjoint({".venv", "demo-output", "reproduce-output", "dist"})
    assert [name for name in held if "__pycache__" in name or name.endswith((".pyc", ".nbc", ".nbi"))] == []


def test_the_wheel_works_alone(installed, tmp_path):
    """With the core dependencies only: they agree, tables are completed, models saved, and errors name the extra."""
    python = programs(installed) / "python"
    agree = run(*PIP, "--python", python, "check")
    assert agree.returncode == 0, agree.stdout
    smoke = run(python, "-I", "-c", SMOKE, cwd=tmp_path)
    assert smoke.returncode == 0, smoke.stderr
    assert 'pip install "snapimpute[app]"' in smoke.stdout
    command = run(programs(installed) / "snapimpute", "--help", cwd=tmp_path)
    assert command.returncode != 0
    assert 'pip install "snapimpute[app]"' in command.stderr
    assert "Traceback" not in command.stderr
