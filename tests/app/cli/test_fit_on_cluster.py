"""`snapimpute fit --cluster` uses an option, or refuses it by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dask", reason="dask is not installed")
pytest.importorskip("distributed", reason="dask's scheduler is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")
import distributed
import pandas as pd
from typer.main import get_command
from typer.testing import CliRunner

from snapimpute.app.cli._on_cluster import fit_on_cluster
from snapimpute.app.cli._options import Fitting, Manner, Reading, Workers
from snapimpute.app.cli._terminal import Terminal
from snapimpute.app.cli.app import app
from snapimpute.app.cli.fit import NOT_ON_A_CLUSTER, fit
from snapimpute.data.datasets import low_rank_alphabet

pytestmark = pytest.mark.slow

OPTIONS = {one.name: one for one in get_command(app).commands["fit"].params}
"""Every parameter of `fit`, as the parser of the command has it."""

VALUES = {"cluster": "local", "report": "r.html", "sheet": "one", "format": "csv", "duplicates": "last"}
VALUES |= {"layout": "triplets", "decide": "accuracy", "backend": "cpu", "min_confidence": "0.5"}
VALUES |= {"time_limit": "5"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    options: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    known = low_rank_alphabet((30, 20), 2, "1:5", observed=0.5, random_state=0).observations
    cells = {"row": known.rows, "column": known.cols, "value": known.values}
    pd.DataFrame(cells).to_parquet(tmp_path / "ratings.parquet")
    return tmp_path / "ratings.parquet"


def watched(kind: Any, read: set[str], **given: Any) -> Any:
    """A group of options that notes which of them are read, after its own checks."""
    names = {one.name for one in fields(kind)}

    class Watched(kind):
        def __getattribute__(self, name: str) -> Any:
            if name in names:
                read.add(name)
            return super().__getattribute__(name)

    out = Watched(**given)
    read.clear()
    return out


def test_every_option_is_used_or_refused(address: str, ratings: Path, tmp_path: Path) -> None:
    """What a fit on a cluster reads of the options, and what it refuses, is all that `fit` offers."""
    sets: list[set[str]] = [set(), set(), set(), set()]
    reading = watched(Reading, sets[0], alphabet=["1:5"])
    fitting = watched(Fitting, sets[1], lam="2", xi="0.01", center="mean", max_iter=2)
    workers = watched(Workers, sets[2], cluster=address, top=2)
    terminal = Terminal(watched(Manner, sets[3], quiet=True))
    model = tmp_path / "model"
    fit_on_cluster(workers, [str(ratings)], model, reading, fitting, terminal)
    terminal.done()
    assert (model / "model.json").exists()
    used = set().union(*sets) | {"table", "model"}
    assert used.isdisjoint(NOT_ON_A_CLUSTER), "refuse no option that is used"
    assert used | {*NOT_ON_A_CLUSTER} == {*OPTIONS} == {*signature(fit).parameters} - {"ctx"}


@pytest.mark.parametrize("name", NOT_ON_A_CLUSTER)
def test_an_option_without_use_is_refused(name: str, tmp_path: Path) -> None:
    """By its name, with what to do, even with its default, and before anything is read."""
    option = OPTIONS[name]
    value = [] if option.is_flag else [VALUES.get(name, "x")]
    model = tmp_path / "model"
    given = ["fit", "none.parquet", "--cluster", "tcp://127.0.0.1:9", "-a", "1:5", "--model", str(model)]
    done = CliRunner().invoke(app, [*given, option.opts[0], *value], env={"COLUMNS": "1000"})
    assert done.exit_code == 2, done.output
    assert f"{option.opts[0]} has no use with --cluster: leave it out, and {NOT_ON_A_CLUSTER[name]}" in done.output
    assert not model.exists()
