"""A table that was read to be fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from snapimpute.base.errors import ArgumentError
from snapimpute.data.features import own_labels
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import Table
from snapimpute.estimator._features import Sides, sides_of

_SHOWN_VALUES = 20
"""Values found in a table that an error lists, at most."""


@dataclass(frozen=True, eq=False)
class FitData:
    """A table to fit, read once, and features of its rows and columns."""

    table: Table
    features: Sides = (None, None)

    def with_features(self, row_features: Any, column_features: Any) -> FitData:
        """Return the table with features of its rows and columns, where some are given."""
        if row_features is None and column_features is None:
            return self
        return replace(self, features=sides_of(self.table, row_features, column_features))

    @property
    def schema(self) -> ColumnSchema:
        """The alphabets of the columns."""
        return self.table.schema

    @cached_property
    def observed(self) -> Observations:
        """The known cells in the units of the data, with the labels of rows and columns that name each one thing."""
        found, table = self.table.observations(), self.table
        if found.row_labels is not None or found.col_labels is not None:
            return found
        return found.labelled(_names(table.row_labels), _names(table.names))


def _names(labels: Any) -> list[str] | list[int] | None:
    """Return labels that are all text or all whole numbers, and all different; else nothing."""
    if labels is None:
        return None
    own = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    alike = any(all(isinstance(one, kind) and not isinstance(one, bool) for one in own) for kind in (str, int))
    return own_labels(own) if alike and len(set(own)) == len(own) else None


def no_alphabet(table: Table) -> ArgumentError:
    """Return the error for no alphabet, with the values found as one."""
    one, hint, names = table.schema.one, "", []
    found = [levels.values for levels in map(table.levels, range(table.shape[1])) if levels.count]
    if one is not None:
        names = one.names()
    elif found and all(values.dtype.kind == "f" for values in found):
        names = [f"{value:.15g}" for value in np.unique(np.concatenate(found)).tolist()]
    if 0 < len(names) <= _SHOWN_VALUES:
        shown = ", ".join(names)
        hint = f"; the values found are {shown}, so alphabet=[{shown}] if there are no others"
    told = f'alphabet is required: the symbols a cell can have, such as "1:5" or [0, 1], or "infer"{hint}'
    return ArgumentError("alphabet", None, told)
