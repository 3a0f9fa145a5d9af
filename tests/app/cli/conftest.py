"""Fixtures of the tests of commands: a folder of their own, and one small table in every form."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.data.datasets import low_rank_alphabet

if find_spec("typer") is None or find_spec("polars") is None:  # the command is an optional extra
    collect_ignore_glob = ["test_*.py"]
else:
    import polars as pl

    from snapimpute.app.cli import main
    from tests.app.cli.running import Done, M, N


@pytest.fixture
def snap(monkeypatch, capsysbinary, tmp_path) -> Callable[..., Done]:
    """Run the command as the shell would, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: Any, stdin: bytes = b"", ok: bool = True) -> Done:
        monkeypatch.setattr(sys, "argv", ["snapimpute", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        said = capsysbinary.readouterr()
        done = Done(int(left.value.code or 0), said.out, said.err.decode())
        assert not ok or done.code == 0, done.err
        return done

    return run


@pytest.fixture(scope="session")
def ratings() -> Any:
    """A table of low rank, NaN where a cell is missing; one row and one column have all."""
    known = low_rank_alphabet((M, N), 2, "1:5", observed=0.6, random_state=0).observations
    X = np.full((M, N), np.nan)
    X[known.rows, known.cols] = known.values
    X[0], X[:, 0] = np.arange(N) % 5 + 1, np.arange(M) % 5 + 1
    return X


@pytest.fixture(scope="session")
def wide_frame(ratings) -> Any:
    """The table with a column of labels."""
    columns = {f"q{j}": pl.Series(ratings[:, j], nan_to_null=True).cast(pl.Int64) for j in range(N)}
    return pl.DataFrame({"who": [f"r{i:02}" for i in range(M)], **columns})


@pytest.fixture(scope="session")
def long_frame(ratings) -> Any:
    """The known cells as triplets."""
    rows, cols = np.nonzero(~np.isnan(ratings))
    values = ratings[rows, cols].astype(int)
    return pl.DataFrame({"user": [f"u{i}" for i in rows], "item": cols + 100, "rating": values})


@pytest.fixture
def wide_csv(snap, wide_frame) -> str:
    """The wide table as a file."""
    wide_frame.write_csv("wide.csv")
    return "wide.csv"


@pytest.fixture
def long_csv(snap, long_frame) -> str:
    """The triplets as a file."""
    long_frame.write_csv("long.csv")
    return "long.csv"


@pytest.fixture(scope="session")
def library(ratings) -> Callable[..., si.SnapImputer]:
    """The estimator that the options `FIVE` describe, fitted by the library to the table with labels."""
    made: dict[str, si.SnapImputer] = {}

    def fit(rows: Any = None, cols: Any = None) -> si.SnapImputer:
        if (key := f"{rows} {cols}") not in made:
            table = si.Observations.from_dense(ratings, row_labels=rows, col_labels=cols)
            given = si.Proximal(lam=2.0, xi=0.01, center="mean")
            made[key] = si.SnapImputer("1:5", method=given).fit(table)
        return made[key]

    return fit


@pytest.fixture(scope="session")
def fitted(ratings) -> si.SnapImputer:
    """The same, fitted to an array, which has no labels."""
    return si.SnapImputer("1:5", method=si.Proximal(lam=2.0, xi=0.01, center="mean")).fit(ratings)


@pytest.fixture(scope="session")
def survey() -> Any:
    """Numbers, labels and a column of any numbers."""
    rng = np.random.default_rng(0)
    mood = rng.standard_normal(40)

    def answers(symbols: list[Any], lost: float = 0.2) -> list[Any]:
        place = np.clip(((mood + rng.normal(0, 0.3, 40) + 2) / 4 * len(symbols)).astype(int), 0, len(symbols) - 1)
        return [symbols[place[0]], *(None if rng.random() < lost else symbols[k] for k in place[1:])]

    columns: dict[str, list[Any]] = {f"q{j}": answers([1, 2, 3, 4, 5]) for j in range(6)}
    ages = [None if x is None else round(20.0 + 3 * x + rng.random(), 1) for x in answers([1, 2, 3, 4, 5])]
    return pl.DataFrame({"id": [f"p{i}" for i in range(40)], **columns, "sex": answers(["f", "m"]), "age": ages})
