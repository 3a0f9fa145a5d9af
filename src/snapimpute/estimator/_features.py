"""Features of the rows and columns of a table, matched with its labels."""

from __future__ import annotations

from typing import Any

from snapimpute.data.checks import Labels
from snapimpute.data.features import FeatureTable, own_labels, read_features
from snapimpute.data.tables import Table

Sides = tuple[FeatureTable | None, FeatureTable | None]
"""Features of rows and of columns; None where none are given."""


def row_table(table: Table, given: Any) -> FeatureTable | None:
    """Read features of the rows of a table, by its index or row labels where it has any."""
    if given is None:
        return None
    return read_features(given, table.shape[0], own_labels(table.row_labels), "row_features", "row")


def sides_of(table: Table, row_features: Any, column_features: Any) -> Sides:
    """Read features of the rows and columns of a table, by their labels or names where it has any."""
    rows = row_table(table, row_features)
    if column_features is None:
        return rows, None
    names = own_labels(table.names)
    return rows, read_features(column_features, table.shape[1], names, "column_features", "column")


def further_sides(
    old: tuple[int, int],
    new: tuple[int, int],
    labels: tuple[Labels | None, Labels | None],
    row_features: Any,
    column_features: Any,
) -> Sides:
    """Read features of the rows and columns by which a table grew from one shape to another, by their labels."""

    def read(lane: str, side: int, given: Any) -> FeatureTable | None:
        if given is None:
            return None
        names = labels[side]
        own = None if names is None else own_labels(names[old[side] :])
        return read_features(given, new[side] - old[side], own, f"{lane}_features", lane)

    return read("row", 0, row_features), read("column", 1, column_features)
