"""Memory of a fit, counted, and the time of a sweep, measured on a piece of like cells."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from snapimpute.base.machine import available_memory
from snapimpute.base.threads import single_threaded_blas, thread_count
from snapimpute.posterior._cells import Cells
from snapimpute.posterior._covariance import Column, CovarianceChain
from snapimpute.posterior._features import MASK_FEATURES, Features
from snapimpute.posterior._gram import padded
from snapimpute.posterior._low_rank import FACTORS_FROM, Chain
from snapimpute.posterior._samplers import FEWEST_DRAWS, KEPT_BYTES, PARAMETERS_EVERY

PIECE_CELLS, PIECE_UNITS, PIECE_ROWS = 200_000, 8000, 1000
"""Cells, units and rows of a piece that is timed, at most."""

RUNS = 4
"""Runs of a piece, the fastest of which counts."""

MASK_SWEEPS = 40
"""Sweeps over the cells that take as long as the features of the mask, about."""

SORTING, CELLS = 46, 25
"""Bytes of a cell while the mask is made and cells are sorted, and as long as the chain is there; measured."""

Parts = dict[str, int]


@dataclass(frozen=True)
class Case(ABC):
    """Sizes of a fit.

    Attributes
    ----------
    shape : (int, int)
    cells : int
        Known ones.
    symbols : int
        Of the column that has most.
    draws, chains : int
        Draws of a chain at most, and chains.
    """

    shape: tuple[int, int]
    cells: int
    symbols: int
    draws: int
    chains: int

    @property
    @abstractmethod
    def words(self) -> str:
        """Name of the model."""

    @abstractmethod
    def memory(self) -> Parts:
        """Bytes at the peak, by part, without the observations."""

    @property
    def fits(self) -> bool:
        """False if that is more than the free memory."""
        free = available_memory()
        return free is None or sum(self.memory().values()) <= free

    @abstractmethod
    def saved(self) -> int:
        """Bytes of the fit in a file, without the observations."""

    @abstractmethod
    def sweep_seconds(self) -> tuple[float, float]:
        """Seconds of a sweep of one chain, and of everything before the first one."""


@dataclass(frozen=True)
class LowRankCase(Case):
    """Sizes of a low-rank fit; ``features`` are those of a unit."""

    rank: int
    features: int

    @property
    def words(self) -> str:
        """Name of the model."""
        return f"low rank, {self.rank} factors"

    @property
    def _draw(self) -> int:
        units = sum(self.shape)
        return 4 * (units * (self.rank + 3) + max(self.shape) * (self.symbols - 1))

    @property
    def _kept(self) -> int:
        """Bytes of the draws of all chains."""
        most = max(KEPT_BYTES // self.chains, FEWEST_DRAWS * self._draw)
        return self.chains * min(self.draws * self._draw, most + self._draw)

    def memory(self) -> Parts:
        """Bytes at the peak, by part, without the observations."""
        units, width = sum(self.shape), padded(self.rank + 1)
        cells, draws = CELLS * self.chains * self.cells, 2 * self._kept  # once apart, once stacked
        return {
            "cells": cells,
            "sorting": max(SORTING * self.cells - cells - draws, 0),
            "units": units * (self.chains * (8 * width + 8 * self.features) + 24 * self.features),
            "draws": draws,
        }

    def saved(self) -> int:
        """Bytes of the fit in a file, without the observations."""
        return self._kept + 8 * sum(self.shape) * min(MASK_FEATURES, self.features)

    def sweep_seconds(self) -> tuple[float, float]:
        """Seconds of a sweep of one chain, and of everything before the first one."""
        cells, units = min(self.cells, PIECE_CELLS), min(sum(self.shape), PIECE_UNITS)
        long, short = (quiet_seconds(self._piece(count, units)) for count in (cells, cells // 4))
        each = max(long - short, 0.0) / (cells - cells // 4)
        unit = max(short - each * (cells // 4), 0.0) / units
        return each * self.cells + unit * sum(self.shape), MASK_SWEEPS * each * self.cells * (self.features > 0)

    def _piece(self, count: int, units: int) -> Callable[[], object]:
        """Return what makes a sweep over so many cells and units."""
        rng = np.random.default_rng(0)
        sides = max(units * self.shape[0] // sum(self.shape), 1), max(units * self.shape[1] // sum(self.shape), 1)
        at = [rng.integers(0, size, count) for size in sides]
        cells = Cells.of(at[0], at[1], rng.integers(0, self.symbols, count), sides, np.full(sides[0], self.symbols))
        some = (Features.of(size, rng.normal(size=(size, self.features))) for size in sides)
        chain = Chain(cells, self.rank, (next(some), next(some)), burn_in=0)
        chain.number = FACTORS_FROM
        chain.sweep()  # compiles

        def sweep() -> None:
            chain.sweep()
            chain.draw()

        return sweep


@dataclass(frozen=True)
class CovarianceCase(Case):
    """Sizes of a fit with a full covariance."""

    @property
    def words(self) -> str:
        """Name of the model."""
        return "full covariance"

    @property
    def _averages(self) -> int:
        m, n = self.shape
        return 4 * m * n * (self.symbols + 1)

    @property
    def _kept(self) -> int:
        return self.chains * (self.draws // PARAMETERS_EVERY + 1) * 4 * self.shape[1] * (self.shape[1] + self.symbols)

    def memory(self) -> Parts:
        """Bytes at the peak, by part, without the observations."""
        m, n = self.shape
        return {
            "cells": SORTING * self.cells + 8 * m * n + 4 * m * n * self.chains,
            "averages": self._averages * (self.chains + 1),
            "draws": self._kept,
        }

    def saved(self) -> int:
        """Bytes of the fit in a file, without the observations."""
        return self._averages + self._kept

    def sweep_seconds(self) -> tuple[float, float]:
        """Seconds of a sweep of one chain, and of everything before the first one."""
        rows = min(self.shape[0], PIECE_ROWS)
        long, short = (quiet_seconds(self._piece(count)) for count in (rows, rows // 2))
        each = max(long - short, 0.0) / max(rows - rows // 2, 1)
        return long + each * (self.shape[0] - rows), 0.0

    def _piece(self, rows: int) -> Callable[[], object]:
        """Return what makes a sweep over so many rows."""
        rng, n = np.random.default_rng(0), self.shape[1]
        columns, share = [], self.cells / (self.shape[0] * n)
        for _ in range(n):
            known = rng.random(rows) < share
            there = np.flatnonzero(known)
            symbols = np.sort(rng.integers(0, self.symbols, there.size)).astype(np.uint8)
            columns.append(Column(there, symbols, np.flatnonzero(~known), self.symbols))
        chain = CovarianceChain((rows, n), columns, {})
        sums, means = np.zeros((n, self.symbols, rows), np.float32), np.zeros((n, rows), np.float32)
        for _ in range(2):  # compiles
            chain.sweep(sums, means)
        return lambda: chain.sweep(sums, means)


def quiet_seconds(work: Callable[[], object]) -> float:
    """Time the fastest of some runs on all threads, without the time that other processes take."""
    times = []
    for _ in range(RUNS):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times) / thread_count()


def seconds_of(cases: Sequence[Case], tried: int, short: int, sweeps: int) -> float:
    """Seconds of the short runs, one for each of ``tried`` models, and of the slowest model with all its sweeps."""
    with single_threaded_blas():
        found = [case.sweep_seconds() for case in cases]
    slowest = max(sweep * sweeps * case.chains + before for (sweep, before), case in zip(found, cases, strict=True))
    return slowest + tried * max(sweep * short + before for sweep, before in found)
