"""Features as numbers: learned on the units of a fit, applied to those and to new ones.

A map has a block for each kind of features: all numbers together, each column of
categories, each column of tags, a sparse matrix. The mean of a block over the
units of the fit is 0, so that 0 says nothing: a feature that is not known, a
category or tag that was never seen, count as the average.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.features import FeatureTable

RARE = 2
"""Categories and tags of so many units or fewer: categories are pooled, tags are left out."""

MOST_CATEGORIES = 1000
"""Categories of a column that stand for themselves at most, the frequent ones."""

MOST_COLUMNS = 256
"""Columns of a block at most: of a wider one the leading principal components are taken."""

Encoded: TypeAlias = Array | sp.csr_array
"""One row for each unit; NaN in a row of which nothing is known."""


class Block(ABC):
    """Features of one kind, as columns of numbers."""

    reads_matrix = False

    @abstractmethod
    def encode(self, table: FeatureTable) -> Encoded:
        """Return the columns of the units of a table."""


@stored("feature numbers", "names", "centers", "scales", "means", "spreads", "gaps")
@dataclass(frozen=True, eq=False)
class NumberBlock(Block):
    """Numbers about their median, in units of their spread, with long tails drawn in: asinh grows as a logarithm.

    A number that is not known counts as the average; where some were unknown in
    the fit (``gaps``), a further column of 0 and 1 tells which.
    """

    names: tuple[str, ...]
    centers: Array
    scales: Array
    means: Array
    spreads: Array
    gaps: tuple[str, ...]

    @classmethod
    def learn(cls, table: FeatureTable) -> NumberBlock:
        """Learn centres and spreads; columns that hold one value only are dropped."""
        names, found, gaps = [], [], []
        for name, values in table.numbers.items():
            known = values[~np.isnan(values)]
            if 0 < known.size < values.size:
                gaps.append(name)
            if known.size and np.ptp(known) > 0:
                center, scale = _robust(known)
                drawn_in = np.arcsinh((known - center) / scale)
                names.append(name)
                found.append((center, scale, drawn_in.mean(), drawn_in.std()))
        centers, scales, means, spreads = np.array(found).reshape(-1, 4).T
        return cls(tuple(names), centers, scales, means, spreads, tuple(gaps))

    def encode(self, table: FeatureTable) -> Encoded:
        """Return the numbers, then the indicators of unknown ones."""
        for name in (*self.names, *self.gaps):
            _check_kind(table, name, table.numbers, "numbers")
        unknown = np.full(table.size, np.nan)
        raw = [table.numbers.get(name, unknown) for name in self.names]
        values = np.stack(raw, axis=1) if raw else np.zeros((table.size, 0))
        out = (np.arcsinh((values - self.centers) / self.scales) - self.means) / self.spreads
        gaps = [np.isnan(table.numbers.get(name, unknown)) for name in self.gaps]
        return np.column_stack([np.where(np.isnan(out), 0.0, out), *gaps])


@stored("feature categories", "name", "categories", "pooled")
@dataclass(frozen=True, eq=False)
class CategoryBlock(Block):
    """One column of 0 and 1 for each category of a feature; rare ones share a column where ``pooled`` lists them."""

    name: str
    categories: tuple[str, ...]
    pooled: tuple[str, ...]

    @classmethod
    def learn(cls, table: FeatureTable, name: str) -> CategoryBlock:
        """Learn the categories of a feature."""
        counts = Counter(one for one in table.categories[name] if one is not None)
        order = sorted(counts, key=lambda one: (-counts[one], one))
        kept = [one for one in order if counts[one] > RARE][:MOST_CATEGORIES]
        return cls(name, tuple(kept), tuple(one for one in order if one not in set(kept)))

    def encode(self, table: FeatureTable) -> Encoded:
        """Return the columns; NaN for a unit whose category is not known or was never seen."""
        _check_kind(table, self.name, table.categories, "categories")
        where = {one: place for place, one in enumerate(self.categories)}
        where |= dict.fromkeys(self.pooled, len(self.categories))
        width = len(self.categories) + bool(self.pooled)
        out = np.full((table.size, width), np.nan)
        for row, one in enumerate(table.categories.get(self.name, ())):
            if one in where:
                out[row] = 0.0
                out[row, where[one]] = 1.0
        return out


@stored("feature tags", "name", "tags")
@dataclass(frozen=True, eq=False)
class TagBlock(Block):
    """A column for each tag: 1 over the root of a unit's number of tags."""

    name: str
    tags: tuple[str, ...]

    @classmethod
    def learn(cls, table: FeatureTable, name: str) -> TagBlock:
        """Learn the tags that more than a few units have."""
        counts = Counter(tag for tags in table.tags[name] if tags is not None for tag in tags)
        return cls(name, tuple(sorted(tag for tag, count in counts.items() if count > RARE)))

    def encode(self, table: FeatureTable) -> Encoded:
        """Return the columns; NaN for a unit whose tags are not known."""
        _check_kind(table, self.name, table.tags, "tags")
        where, rows, cols, values = {tag: place for place, tag in enumerate(self.tags)}, [], [], []
        unknown = np.ones(table.size, dtype=bool)
        for row, tags in enumerate(table.tags.get(self.name, ())):
            if tags is None:
                continue
            unknown[row] = False
            places = sorted(where[tag] for tag in tags if tag in where)
            rows += [row] * len(places)
            cols += places
            values += [1 / np.sqrt(max(len(places), 1))] * len(places)
        out = sp.csr_array((values, (rows, cols)), shape=(table.size, len(self.tags)))
        return _without(out, unknown)


@stored("feature matrix", "width", "columns", "scales")
@dataclass(frozen=True, eq=False)
class MatrixBlock(Block):
    """A sparse matrix, its columns in units of their root mean square, with long tails drawn in."""

    width: int
    columns: NDArray[np.int64]
    scales: Array

    reads_matrix = True

    @classmethod
    def learn(cls, matrix: sp.csr_array) -> MatrixBlock:
        """Learn the sizes of the columns; those that hold one value only are dropped."""
        squares = np.asarray(matrix.power(2).mean(axis=0)).ravel()
        means = np.asarray(matrix.mean(axis=0)).ravel()
        columns = np.flatnonzero(squares - means**2 > 1e-12 * squares)
        return cls(matrix.shape[1], columns, np.sqrt(squares[columns]))

    def encode(self, table: FeatureTable) -> Encoded:
        """Return the columns; a unit without an entry is all 0."""
        if table.matrix is None or table.matrix.shape[1] != self.width:
            got = "no sparse matrix" if table.matrix is None else f"one of {table.matrix.shape[1]}"
            told = f"{table.argument} must be a sparse matrix of {self.width} columns as in the fit, got {got}"
            raise ArgumentError(table.argument, got, told)
        out = sp.csr_array(table.matrix[:, self.columns] @ sp.diags_array(1 / self.scales))
        out.data = np.arcsinh(out.data)
        return out


@stored("feature block", "block", "center", "components")
@dataclass(frozen=True, eq=False)
class CentredBlock:
    """A block less its mean; where it is wide, its leading principal components."""

    block: Block
    center: Array
    components: Array | None

    @classmethod
    def learn(cls, block: Block, table: FeatureTable) -> CentredBlock:
        """Learn the mean, and the components if there are many columns."""
        encoded = block.encode(table)
        components = None
        if min(encoded.shape) > MOST_COLUMNS:
            known = _known_rows(encoded)
            start = np.random.default_rng(0).standard_normal(min(known.shape))
            components = svds(known, MOST_COLUMNS, v0=start)[2].T.copy()
        values = _projected(encoded, components)
        return cls(block, np.nan_to_num(_mean_of_known(values)), components)

    def encode(self, table: FeatureTable) -> Array:
        """Return the columns, 0 where nothing is known."""
        values = _projected(self.block.encode(table), self.components) - self.center
        return np.where(np.isnan(values), 0.0, values).astype(np.float32)


@stored("feature map", "blocks", "names", "argument")
@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Everything that turns the features of any units into numbers, as it was learned on those of a fit.

    Examples
    --------
    >>> from snapimpute.data.features import read_features
    >>> table = read_features([[20, "f"], [30, "m"], [40, "f"]] * 4, 12, None, "row_features", "row")
    >>> [columns.shape for columns in FeatureMap.learn(table).encode(table)]
    [(12, 1), (12, 2)]
    """

    blocks: tuple[CentredBlock, ...]
    names: tuple[str, ...]
    argument: str

    @classmethod
    def learn(cls, table: FeatureTable) -> FeatureMap:
        """Learn a map from the features of the units that are fitted."""
        blocks: list[Block] = [NumberBlock.learn(table)] if table.numbers else []
        blocks += [CategoryBlock.learn(table, name) for name in table.categories]
        blocks += [TagBlock.learn(table, name) for name in table.tags]
        if table.matrix is not None:
            blocks.append(MatrixBlock.learn(table.matrix))
        return cls(tuple(CentredBlock.learn(block, table) for block in blocks), tuple(table.names), table.argument)

    def encode(self, table: FeatureTable) -> tuple[Array, ...]:
        """Return the columns of each block for the units of a table; other features are an error."""
        if new := [name for name in table.names if name not in self.names]:
            told = f"{table.argument} has a feature {new[0]!r} that the fit did not have: leave it out, or fit again"
            raise ArgumentError(table.argument, new[0], told)
        if table.whole and (lost := [name for name in self.names if name not in table.names]):
            told = (
                f"{table.argument} lacks the feature {lost[0]!r} of the fit: give it, with NaN where it is not known"
            )
            raise ArgumentError(table.argument, lost[0], told)
        if table.matrix is not None and not any(one.block.reads_matrix for one in self.blocks):
            told = f"{table.argument} is a sparse matrix and was none in the fit: give the same kind of features"
            raise ArgumentError(table.argument, table.matrix.shape, told)
        return tuple(block.encode(table) for block in self.blocks)

    def nothing(self, units: int) -> tuple[Array, ...]:
        """Return the columns of units of which nothing is known."""
        return tuple(np.zeros((units, block.center.size), np.float32) for block in self.blocks)


def _check_kind(table: FeatureTable, name: str, expected: Any, kind: str) -> None:
    """Refuse a feature that was of another kind in the fit; one without any value is of every kind."""
    if name in expected or name not in table.names:
        return
    if name in table.numbers and np.isnan(table.numbers[name]).all():
        return
    told = f"feature {name!r} of {table.argument} held {kind} in the fit and holds others now: write it alike"
    raise ArgumentError(table.argument, name, told)


def _robust(known: Array) -> tuple[float, float]:
    """Median, and spread: of the middle half, or of all where the middle half is one number."""
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    scale = (high - low) / 1.349
    return float(middle), float(scale if scale > 1e-9 * np.ptp(known) else known.std())


def _without(values: sp.csr_array, unknown: Array) -> Encoded:
    """Return NaN in the rows of which nothing is known."""
    if not unknown.any():
        return values
    out = values.toarray()
    out[unknown] = np.nan
    return out


def _known_rows(values: Encoded) -> Encoded:
    return values if sp.issparse(values) else values[~np.isnan(values).any(axis=1)]


def _projected(values: Encoded, components: Array | None) -> Array:
    if components is not None:
        return np.asarray(values @ components)
    return values if isinstance(values, np.ndarray) else values.toarray()


def _mean_of_known(values: Array) -> Array:
    known = values[~np.isnan(values).any(axis=1)]
    return known.mean(axis=0) if len(known) else np.zeros(values.shape[1])


FEATURE_KINDS: tuple[type, ...] = (CategoryBlock, CentredBlock, FeatureMap, MatrixBlock, NumberBlock, TagBlock)
"""Classes of a map that stand in files."""
