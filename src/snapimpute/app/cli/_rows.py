"""Rows that a saved model has not seen: whole, or cell by cell."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from snapimpute.app.cli import _cells as cells
from snapimpute.app.cli._cells import column_labels, positions
from snapimpute.app.cli._terminal import Terminal
from snapimpute.app.cli._work import read_as
from snapimpute.app.io import (
    MATRICES,
    AlphabetSpec,
    Content,
    Options,
    Triplets,
    Wide,
    arranged,
    missing_cells,
    read_content,
)
from snapimpute.data.observations import Observations
from snapimpute.estimator.imputer import SnapImputer


def _source(imputer: SnapImputer) -> dict[str, Any]:
    """Layout and names of the table that the model was fitted to."""
    return getattr(imputer, "source_", None) or {"layout": "wide", "names": []}


def names(imputer: SnapImputer) -> list[str]:
    """The names of row, column and value in the table that a model was fitted to."""
    return list(_source(imputer)["names"])


def write_rows(
    imputer: SnapImputer, path: str, out: str, kind: str, options: Options, probability: bool, terminal: Terminal
) -> tuple[int, int]:
    """Complete the rows of a file and write them; how many cells were filled in, and how many are left open."""
    content = read_content(path, options)
    if options.layout == "auto" and options.triplets is None and content.cells is None:
        options = replace(options, layout=_source(imputer)["layout"])
    if content.cells is not None or options.layout == "triplets" or options.triplets is not None:
        spec = AlphabetSpec(*_labels_or_numbers(imputer))
    else:
        options, spec = _matched(content, imputer, options)
    source = arranged(content, options, spec)
    terminal.say(read_as(source))
    if isinstance(source, Triplets):
        if kind in MATRICES:
            raise ValueError(f"cells of rows cannot be written as {kind}: choose .csv or .parquet")
        return _cells_of_rows(imputer, source, out, kind, probability)
    if probability:
        raise ValueError(f"--probability is for cells; {path} is a wide table, and is written whole")
    return _whole_rows(imputer, source, out, kind)


def _labels_or_numbers(imputer: SnapImputer) -> tuple[Any, dict[str, Any]]:
    """Reading of text in each column: labels, or numbers (which ones is checked later)."""
    one_for_each = imputer.alphabet_ if isinstance(imputer.alphabet_, list) else [imputer.alphabet_]
    read = [None if one is None else list(one.labels) if one.labels else "0" for one in one_for_each]
    names = [str(name) for name in column_labels(imputer)]
    return (read[0], {}) if len(read) == 1 else (None, dict(zip(names, read, strict=True)))


def _matched(content: Content, imputer: SnapImputer, options: Options) -> tuple[Options, AlphabetSpec]:
    """Find the columns of the model in a wide table; one more at its left has labels."""
    columns = [str(name) for name in column_labels(imputer)]
    there = [name for name in content.frame.columns if name not in options.leave and name != options.index]
    lost = [name for name in columns if name not in there]
    more = [name for name in there if name not in set(columns)]
    if more and more[0] == there[0] and options.index is None and content.frame[more[0]].is_unique().all():
        options = replace(options, index=more.pop(0))
    if lost or more:
        what = f"has no column {lost[0]!r}, which" if lost else f"has a column {more[0]!r}, which not"
        do = "add it, empty where nothing is known" if lost else f"carry it along with --leave {more[0]!r}"
        raise ValueError(
            f"{content.where} {what} the model was fitted with ({len(lost)} missing, {len(more)} new): {do}"
        )
    default, own = _labels_or_numbers(imputer)
    return replace(options, index=options.index or "none"), AlphabetSpec(None, own or dict.fromkeys(columns, default))


def _whole_rows(imputer: SnapImputer, source: Wide, out: str, kind: str) -> tuple[int, int]:
    columns = [str(name) for name in column_labels(imputer)]
    source = replace(source, values=source.values.select(columns))
    _, table = source.observations(imputer._model.schema)  # refuses what is no symbol, by the labels of the file
    if kind in MATRICES and not all(dtype.is_numeric() for dtype in source.values.dtypes):
        raise ValueError(f"labels cannot be written as {kind}: choose .csv or .parquet")
    with _by_label():
        completed = cells.completed(source, table, imputer)
    return cells.write_whole(source, completed, out, kind)


@contextmanager
def _by_label() -> Iterator[None]:
    """Wide rows for a model of triplets, or the other way round: scikit-learn would miss the names of the columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* feature names")
        yield


def _cells_of_rows(imputer: SnapImputer, source: Triplets, out: str, kind: str, probability: bool) -> tuple[int, int]:
    """Rows given cell by cell: columns are found by their labels, and the missing cells of the rows are written."""
    at = positions(source.col_labels.tolist(), column_labels(imputer), "column", source.where)
    alphabet = imputer.alphabet_
    known, _ = source.observations([alphabet[j] for j in at] if isinstance(alphabet, list) else alphabet)
    shape = known.shape[0], imputer.n_features_in_
    given = Observations.from_coo(known.rows, at[known.cols], known.values, shape)
    missing = shape[0] * shape[1] - len(given)
    if missing > cells.MOST_CELLS:
        raise ValueError(
            f"{source.where} has {missing:,} missing cells, more than the {cells.MOST_CELLS:,} that are written: "
            "give fewer rows at a time"
        )
    with _by_label():
        estimates = imputer.fold_in(given)
    return cells.write_cells(
        imputer,
        missing_cells(given),
        out,
        kind,
        list(source.names),
        probability=probability,
        estimates=estimates,
        labels=source.row_labels,
    )
