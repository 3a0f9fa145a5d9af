"""All paths of a mosaic, one by one: what passes and draws are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

MISSING = 255


class Path(NamedTuple):
    """Probability, class and jump in each column, and what the strand shows."""

    p: float
    classes: tuple[int, ...]
    jumps: tuple[int, ...]
    shown: tuple[int, ...]


class Truth(NamedTuple):
    """Log-likelihood, expected counts by column and class, probabilities of the symbols, and of whole rows."""

    likelihood: float
    counts: np.ndarray
    chances: np.ndarray
    rows: dict[tuple[int, ...], float]


def paths(theta: np.ndarray, alpha: np.ndarray, rho: np.ndarray) -> Iterator[Path]:
    """Every way of one strand; ``theta[j, k]`` are the probabilities of the symbols."""
    columns, classes, symbols = theta.shape
    for way in product(range(classes), repeat=columns):
        for later in product((0, 1), repeat=columns - 1):
            jumps, p = (1, *later), float(alpha[0][way[0]])
            for j in range(1, columns):
                p *= rho[j] * alpha[j][way[j]] if jumps[j] else (1 - rho[j]) * (way[j] == way[j - 1])
            if p > 0:
                for shown in product(range(symbols), repeat=columns):
                    q = p * np.prod([theta[j, way[j], shown[j]] for j in range(columns)])
                    yield Path(q, way, jumps, shown)


def one_strand(symbols: np.ndarray, theta: np.ndarray, alpha: np.ndarray, rho: np.ndarray) -> Truth:
    """Counts have shape (columns, symbols + 1, classes): cells that show each symbol, then jumps."""
    columns, classes, levels = theta.shape
    total, counts, chances = 0.0, np.zeros((columns, levels + 1, classes)), np.zeros((columns, levels))
    rows: dict[tuple[int, ...], float] = {}
    for one in paths(theta, alpha, rho):
        if any(symbols[j] not in (MISSING, one.shown[j]) for j in range(columns)):
            continue
        total += one.p
        rows[one.shown] = rows.get(one.shown, 0.0) + one.p
        for j in range(columns):
            chances[j, one.shown[j]] += one.p
            counts[j, one.shown[j], one.classes[j]] += one.p * (symbols[j] != MISSING)
            counts[j, levels, one.classes[j]] += one.p * one.jumps[j]
    return Truth(np.log(total), counts / total, chances / total, {key: p / total for key, p in rows.items()})


def two_strands(symbols: np.ndarray, theta: np.ndarray, alpha: np.ndarray, rho: np.ndarray) -> Truth:
    """Counts have shape (columns, classes, 3): strands that show 1, that show 0, and that jumped; rows are pairs."""
    columns, classes = theta.shape
    both = np.stack([1 - theta, theta], axis=2)
    every = list(paths(both, alpha, rho))
    total, counts, chances = 0.0, np.zeros((columns, classes, 3)), np.zeros((columns, 3))
    rows: dict[tuple[int, ...], float] = {}
    for first, second in product(every, every):
        sums = [a + b for a, b in zip(first.shown, second.shown, strict=True)]
        if any(symbols[j] not in (MISSING, sums[j]) for j in range(columns)):
            continue
        p = first.p * second.p
        total += p
        rows[first.shown + second.shown] = rows.get(first.shown + second.shown, 0.0) + p
        for j in range(columns):
            chances[j, sums[j]] += p
            for one in (first, second):
                counts[j, one.classes[j], 1 - one.shown[j]] += p * (symbols[j] != MISSING)
                counts[j, one.classes[j], 2] += p * one.jumps[j]
    return Truth(np.log(total), counts / total, chances / total, {key: p / total for key, p in rows.items()})


def copying(
    row: np.ndarray, known: np.ndarray, others: np.ndarray, jump: np.ndarray, wrong: float, levels: int
) -> tuple[np.ndarray, dict[tuple[int, ...], float]]:
    """Chances of the symbols in each column, and of whole strands, of one that copies from others."""
    count, columns = others.shape
    theta = np.full((columns, count, levels), wrong / (levels - 1))
    for j in range(columns):
        theta[j, np.arange(count), others[:, j]] = 1 - wrong
    even, rho = np.full((columns, count), 1 / count), jump.copy()
    rho[0] = 1.0
    truth = one_strand(np.where(known, row, MISSING), theta, even, rho)
    return truth.chances, truth.rows
