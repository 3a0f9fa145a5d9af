"""A table is read once, and no split or bias fit of the same cells is computed twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import snapimpute as si
from snapimpute.app.cli.app import app
from snapimpute.app.io import read, triplets, wide
from snapimpute.data import cells, tables
from snapimpute.data.observations import Observations
from snapimpute.estimator import imputer
from snapimpute.evaluation.baselines import ConstantMean, DampedBiases
from snapimpute.experts.proximal import offsets
from tests.helpers import complete

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(7)
NUMBERS = np.where(RNG.random((20, 5)) < 0.7, RNG.integers(1, 6, (20, 5)).astype(float), np.nan)
NAMES = list("abcde")
GIVEN = {"lam": 0.5, "xi": 0.01}
OPTIONS = ["--lam", "0.5", "--xi", "0.01"]


@pytest.fixture
def counts(monkeypatch) -> Counter[str]:
    """How often each of the functions that convert cells or read files was called."""
    found: Counter[str] = Counter()

    def count(owner: Any, name: str, called: str) -> None:
        real = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            found[called] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(nw.Series, "to_numpy", "columns as numbers")
    count(tables, "texts", "columns as objects")
    count(cells, "texts", "columns written")
    count(tables.ArrayTable, "_missing", "arrays told apart")
    count(tables.Table, "read", "columns interpreted")
    count(read, "_bytes", "files")
    count(pl, "read_csv", "texts cut")
    count(wide, "_parsed", "texts interpreted")
    count(triplets, "_levels", "triplets interpreted")
    for module in (imputer, wide, triplets):
        count(module, "read_table", "tables")
    count(tables, "coded_missing", "searches for codes")
    return found


@pytest.mark.parametrize("alphabet", ["1:5", "infer"])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, lambda X: pa.table(dict(X))])
def test_each_column_of_a_frame_is_converted_once(counts, make, alphabet):
    """From the frame to numbers there is one way, which a column goes once in `complete`."""
    frame = make({name: NUMBERS[:, j] for j, name in enumerate(NAMES)})
    complete(frame, alphabet, **GIVEN)
    assert (counts["tables"], counts["columns as numbers"], counts["columns interpreted"]) == (1, 5, 5)
    assert counts["columns as objects"] == counts["columns written"] == 0
    assert counts["searches for codes"] == 5


@pytest.mark.parametrize("alphabet", [["low", "high"], "infer"])
def test_each_column_of_labels_is_converted_once(counts, alphabet):
    """Labels are looked at once; columns with missing cells are taken again to be written."""
    text = np.array(["high", "low", None], dtype=object)[np.where(np.isnan(NUMBERS), 2, NUMBERS > 2).astype(int)]
    text[0] = "high"
    text[:, 4] = "low"
    text[1, 4] = "high"
    complete(pl.DataFrame({name: text[:, j].tolist() for j, name in enumerate(NAMES)}), alphabet, **GIVEN)
    assert (counts["tables"], counts["columns as objects"], counts["columns interpreted"]) == (1, 5, 5)
    assert counts["columns as numbers"] == 0
    assert counts["columns written"] == 4


@pytest.mark.parametrize("X", [NUMBERS, NUMBERS.astype(np.float32)])
def test_an_array_is_looked_through_once(counts, X):
    """An array of numbers stays as it is; which of its cells are missing is told once."""
    complete(X, "1:5", **GIVEN)
    assert (counts["tables"], counts["arrays told apart"], counts["columns interpreted"]) == (1, 1, 0)


def test_symbols_are_checked_once(monkeypatch):
    """Fitting, folding in and filling share the known cells of one table, which are put in order once."""
    built: list[int] = []
    real = Observations.from_coo.__func__
    monkeypatch.setattr(
        Observations, "from_coo", classmethod(lambda cls, *a, **k: (built.append(1), real(cls, *a, **k))[1])
    )
    table = tables.read_table(NUMBERS, "1:5")
    assert table.observations() is table.observations()
    assert len(built) == 1
    assert table.checked


def written(folder: Path) -> tuple[str, str]:
    """One table as a file with a row in each line, and as one with a cell in each line."""
    whole, long = str(folder / "wide.csv"), str(folder / "long.csv")
    frame = pl.DataFrame(NUMBERS, schema=NAMES).fill_nan(None).cast(pl.Int64)
    frame.write_csv(whole)
    rows, cols = np.nonzero(~np.isnan(NUMBERS))
    pl.DataFrame({"user": rows, "item": cols, "value": NUMBERS[rows, cols].astype(int)}).write_csv(long)
    return whole, long


@pytest.mark.parametrize("alphabet", ["1:5", "infer"])
@pytest.mark.parametrize("out", ["out.csv", "out.npz", "out.parquet"])
def test_a_command_reads_a_wide_file_once(counts, tmp_path, alphabet, out):
    """`complete` opens the file once, cuts its text once, and makes numbers of each column once."""
    path, _ = written(tmp_path)
    done = CliRunner().invoke(app, ["complete", path, "-o", str(tmp_path / out), "--alphabet", alphabet, *OPTIONS])
    assert done.exit_code == 0, done.output
    assert (counts["files"], counts["texts cut"], counts["texts interpreted"], counts["tables"]) == (1, 1, 1, 1)
    assert counts["columns as numbers"] == counts["columns interpreted"] == 5


@pytest.mark.parametrize("out", ["out.csv", "out.npz"])
def test_a_command_reads_a_file_of_triplets_once(counts, tmp_path, out):
    """`complete` makes one table of the cells of a file, for the fit and for the output."""
    _, path = written(tmp_path)
    done = CliRunner().invoke(app, ["complete", path, "-o", str(tmp_path / out), "--alphabet", "1:5", *OPTIONS])
    assert done.exit_code == 0, done.output
    assert (counts["files"], counts["texts cut"], counts["triplets interpreted"], counts["tables"]) == (1, 1, 1, 1)


def test_new_rows_are_read_once(counts, tmp_path):
    """`predict` reads a file of rows once, for the check by its labels and for the model."""
    path, _ = written(tmp_path)
    model, out = str(tmp_path / "m.snap"), str(tmp_path / "out.csv")
    assert CliRunner().invoke(app, ["fit", path, "-m", model, "--alphabet", "1:5", *OPTIONS]).exit_code == 0
    assert counts.pop("tables") == 1
    counts.clear()
    done = CliRunner().invoke(app, ["predict", model, path, "-o", out])
    assert done.exit_code == 0, done.output
    assert (counts["files"], counts["texts cut"], counts["tables"], counts["columns interpreted"]) == (1, 1, 1, 5)


# -------------------------------------------------------------------- computing once
@pytest.fixture
def computed(monkeypatch) -> Counter[tuple[str, Any]]:
    """How often each split and each fit of biases or a mean was computed, by its cells and parameters."""
    found: Counter[tuple[str, Any]] = Counter()

    def cells(one: Observations) -> tuple[bytes, ...]:
        return one.rows.tobytes(), one.cols.tobytes(), one.values.tobytes()

    def count(owner: Any, name: str, called: str) -> None:
        real = getattr(owner, name)
        bound = owner is not Observations

        def counting(*args: Any, **options: Any) -> Any:
            found[called, (cells(args[0]), *args[1:], *options.items())] += 1
            return real(*args, **options)

        monkeypatch.setattr(owner, name, staticmethod(counting) if bound else counting)

    count(DampedBiases, "fit", "bias fits")
    count(ConstantMean, "fit", "means")
    count(Observations, "split", "splits")
    count(Observations, "kfold", "folds")
    real = offsets.folds_of

    def by_labels(observations: Observations, parts: int, *args: Any) -> Any:
        found["splits" if parts == 1 else "folds", (cells(observations), parts, *args)] += 1
        return real(observations, parts, *args)

    monkeypatch.setattr(offsets, "folds_of", by_labels)
    return found


def totals(computed: Counter[tuple[str, Any]]) -> dict[str, int]:
    """The numbers of computations, none of which may be done twice."""
    assert set(computed.values()) == {1}
    return dict(Counter(called for called, _ in computed))


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, {"splits": 1, "bias fits": 9, "means": 2}),  # 9 dampings of the biases; the mean is then taken
        ({"center": "mean"}, {"splits": 1, "means": 2}),
        ({"center": "biases", **GIVEN}, {"splits": 1, "bias fits": 10, "means": 1}),
        ({"center": "biases", "cv": 3}, {"splits": 1, "folds": 1, "bias fits": 13, "means": 1}),
        ({"center": "rows", "discrete": "l0"}, {"splits": 1, "bias fits": 6, "means": 1}),
        ({"center": None}, {"splits": 1, "means": 1}),
    ],
)
def test_complete_splits_and_centres_once(computed, counts, params, expected):
    """Damping, tuning and calibration share one split, and every λ and ξ the offsets of the same cells."""
    complete(pd.DataFrame(NUMBERS, columns=NAMES), "1:5", **params)
    assert totals(computed) == expected
    assert (counts["tables"], counts["columns as numbers"], counts["columns interpreted"]) == (1, 5, 5)


@pytest.mark.parametrize("center", ["mean", "biases"])
def test_evaluate_shares_what_its_fits_have_in_common(computed, counts, center):
    """The plain fit beside ours and the baselines take the damping, the offsets and the biases of ours."""
    rows, cols = np.nonzero(~np.isnan(NUMBERS))
    known = Observations.from_coo(rows, cols, NUMBERS[rows, cols], NUMBERS.shape)
    found = si.evaluate(known, si.SnapImputer("1:5", method=si.Proximal(center=center, lam=0.5, xi=0.01)))
    assert found.imputer.xi_ > 0  # so that there is a plain fit
    fits = {"mean": 2, "biases": 12}[center]  # two are of the baselines
    assert totals(computed)["bias fits"] == fits
    assert totals(computed)["splits"] == 2  # the hidden cells, and those to calibrate on
    assert counts["tables"] == 1


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # biases are taken: 10 fits each for the table and for the report, and 2 of its baselines
        ("proximal", {"splits": 3, "bias fits": 22, "means": 3}),
        ("auto", {"splits": 8, "bias fits": 11, "means": 15}),  # low rank is fitted without each of the parts, too
    ],
)
def test_a_command_with_a_report_computes_once(computed, counts, tmp_path, method, expected):
    """One reading, one interpretation; a split for the fit, and two for the report, which hides other cells."""
    path, _ = written(tmp_path)
    options = ["--alphabet", "1:5", "--method", method, "--report", str(tmp_path / "report.html")]
    done = CliRunner().invoke(app, ["complete", path, "-o", str(tmp_path / "out.csv"), *options])
    assert done.exit_code == 0, done.output
    assert totals(computed) == expected
    assert (counts["files"], counts["texts cut"], counts["texts interpreted"]) == (1, 1, 1)
    assert counts["columns as numbers"] == counts["columns interpreted"] == 5
    assert counts["tables"] == 2  # the file's, and the cells that the report does not hide
