"""Answers of a fitted model about cells: which are asked for, how well they are filled, what to recommend."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.data.tables import Table
from snapimpute.estimator.model import FittedModel
from snapimpute.experts.proximal.offsets import HELD_OUT


def asked_cells(
    model: FittedModel, rows: ArrayLike, cols: ArrayLike
) -> tuple[NDArray[np.intp], NDArray[np.intp], tuple[int, ...]]:
    """Return flat positions of cells in the fitted table, and the shape in which they were asked for."""
    r, c = np.broadcast_arrays(np.asarray(rows), np.asarray(cols))
    for index, size, name in ((r, model.shape[0], "rows"), (c, model.shape[1], "cols")):
        if index.size and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= size):
            raise ValueError(f"{name} must be whole numbers between 0 and {size - 1}, positions in the fitted table")
    check_coded(model, c)
    return r.ravel().astype(np.intp), c.ravel().astype(np.intp), r.shape


def check_coded(model: FittedModel, cols: NDArray[Any]) -> None:
    """Refuse columns that the fit left alone."""
    if cols.size and (alone := model.schema.which[cols] < 0).any():
        raise ValueError(f"column {cols[alone][0]} was left alone by the fit, which says nothing of it")


def decoded(model: FittedModel, symbols: Array, cols: NDArray[np.intp]) -> NDArray[Any]:
    """Return symbols as labels where the alphabet of their column has labels."""
    book = model.schema
    if all(kind is None or kind.labels is None for kind in book.kinds):
        return symbols
    out = symbols.astype(object)
    for kind, alphabet in enumerate(book.kinds):
        inside = book.inside(kind, cols)
        out[inside] = symbols[inside] if alphabet is None else alphabet.decode(symbols[inside])
    return out


def recommended(model: FittedModel, observed: Observations, row: Any, k: Any) -> NDArray[np.intp]:
    """Return the k columns with the highest estimates in a row, of those not observed there; best first."""
    r, _, shape = asked_cells(model, row, model.schema.coded[0])
    if shape:
        raise ValueError(f"row must be one position, got shape {shape}")
    if not isinstance(k, Integral) or k < 1:
        raise ArgumentError.must("k", k, "be a whole number, at least 1")
    open_ = model.schema.discrete & ~model.schema.nominal
    open_[observed.cols[slice(*observed.by_row.indptr[[r[0], r[0] + 1]])]] = False
    cols = np.flatnonzero(open_)
    scores = model.fitted.mean(np.full(cols.size, r[0]), cols)
    return cols[np.argsort(-scores, kind="stable")[: int(k)]]


def hidden_score(model: FittedModel, table: Table, seed: int) -> float:
    """Hide a fifth of the observed cells of a table, fill them, and return the score; higher is better."""
    rows, cols, values = table.cells()
    if values.size < 2:
        raise ValueError(f"a table with {values.size} observed cell(s) cannot be scored: some have to be hidden")
    order = np.random.default_rng(seed).permutation(values.size)
    hidden, kept = np.split(order, [max(round(HELD_OUT * values.size), 1)])
    folded = model.deciding(0.0).folded((rows[kept], cols[kept], values[kept]), table.shape[0])
    found = folded.symbols(rows[hidden], cols[hidden])
    off = (found - values[hidden]) / model.scale[cols[hidden]]
    off = np.where(model.schema.nominal[cols[hidden]], off != 0, off)  # a wrong category is wrong by 1
    if model.rule.decide == "mae":
        return -float(np.mean(np.abs(off)))
    if model.rule.decide == "rmse":
        return -float(np.sqrt(np.mean(off**2)))
    discrete = model.schema.discrete[cols[hidden]]
    return float(np.mean(np.where(discrete, np.abs(off) < 1e-9, -(off**2))))
