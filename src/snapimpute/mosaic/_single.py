"""Passes over the classes of rows that have one strand, of any alphabet, along the columns.

A row is in one of K classes in each column, and shows symbol s with probability
θ_s of the class. Numbers by class are in multiples of sixteen, the last ones 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snapimpute.base.compiled import kernel, part
from snapimpute.base.vectors import LANES, Writer, intrinsic, written
from snapimpute.mosaic._pairs import MISSING
from snapimpute.mosaic._phasing import ALLELE, CASE, uniforms

_ONE, _ZERO = np.float32(1), np.float32(0)

KEEP, LEAVE, TOTAL, ENDS = range(4)
"""Places of the numbers that a step takes and gives."""


@intrinsic
def _ahead(typing: Any, size: Any, numbers: Any, alpha: Any, shown: Any, f: Any, prior: Any, out: Any) -> Any:
    """Step forward: prior ← keep·f + leave·α, out ← prior·θ, and the sum of it."""

    def body(write: Writer, *given: Any) -> None:
        size, numbers, alpha, shown, f, prior, out = given
        keep, leave = (write.spread(write.number(numbers, at)) for at in (KEEP, LEAVE))
        total = write.variable(write.zeros())
        with write.loop(0, size, LANES) as at:
            expected = write.plus(write.product(leave, write.load(alpha, at)), keep, write.load(f, at))
            found = write.product(expected, write.load(shown, at))
            write.store(expected, prior, at)
            write.store(found, out, at)
            total.value = write.sum(total.value, found)
        write.put(write.total(total.value), numbers, TOTAL)

    return written(body, size, numbers, alpha, shown, f, prior, out)


@intrinsic
def _back(typing: Any, size: Any, numbers: Any, alpha: Any, shown: Any, b: Any, prior: Any, weights: Any) -> Any:
    """Step backward: b ← θ·(keep·b + leave), weights ← prior·b, and the sums of them and of α·b."""

    def body(write: Writer, *given: Any) -> None:
        size, numbers, alpha, shown, b, prior, weights = given
        keep, leave = (write.spread(write.number(numbers, at)) for at in (KEEP, LEAVE))
        total, ends = write.variable(write.zeros()), write.variable(write.zeros())
        with write.loop(0, size, LANES) as at:
            seen = write.product(write.load(shown, at), write.plus(leave, keep, write.load(b, at)))
            both = write.product(write.load(prior, at), seen)
            write.store(seen, b, at)
            write.store(both, weights, at)
            total.value = write.sum(total.value, both)
            ends.value = write.plus(ends.value, write.load(alpha, at), seen)
        write.put(write.total(total.value), numbers, TOTAL)
        write.put(write.total(ends.value), numbers, ENDS)

    return written(body, size, numbers, alpha, shown, b, prior, weights)


@intrinsic
def _add(typing: Any, size: Any, weights: Any, others: Any, factor: Any, out: Any) -> Any:
    """Add factor·weights·others."""

    def body(write: Writer, *given: Any) -> None:
        size, weights, others, factor, out = given
        scale = write.spread(write.number(factor, 0))
        with write.loop(0, size, LANES) as at:
            value = write.product(write.load(weights, at), write.load(others, at))
            write.store(write.plus(write.load(out, at), scale, value), out, at)

    return written(body, size, weights, others, factor, out)


@part
def _forward(symbols, theta, alpha, rho, ones, numbers, priors, passed):
    """Pass the columns of a row, keeping what is expected and what is found; return the log-likelihood."""
    columns, _, size = theta.shape
    likelihood, scale = 0.0, _ONE
    for j in range(columns):
        shown = theta[j, symbols[j]] if symbols[j] != MISSING else ones
        numbers[KEEP], numbers[LEAVE] = (_ONE - rho[j]) * scale, rho[j]
        _ahead(size, numbers, alpha[j], shown, passed[max(j - 1, 0)], priors[j], passed[j])
        likelihood += np.log(np.float64(numbers[TOTAL]))
        scale = _ONE / numbers[TOTAL]
    return likelihood


@kernel
def expect_single(first, last, symbols, theta, alpha, rho, counts, starts, answers):
    """Pass forward and backward along the columns of rows ``first`` … ``last`` − 1; return their log-likelihood.

    Adds to ``counts[j, s]`` the expected rows in each class that show s, and to
    ``counts[j, S]`` those that jumped there; and to ``answers`` the probabilities of
    all symbols but the first in the missing cells, which begin at ``starts[i]``.
    """
    columns, levels, size = theta.shape
    priors, passed = np.zeros((columns, size), np.float32), np.zeros((columns, size), np.float32)
    ones, b, weights = np.ones(size, np.float32), np.zeros(size, np.float32), np.zeros(size, np.float32)
    numbers, factor, likelihood = np.zeros(4, np.float32), np.zeros(1, np.float32), 0.0
    for i in range(first, last):
        own = symbols[i]
        passed[0] = _ZERO
        likelihood += _forward(own, theta, alpha, rho, ones, numbers, priors, passed)
        at = starts[i + 1]
        b[:] = _ZERO
        keep, leave = _ZERO, _ONE
        for j in range(columns - 1, -1, -1):
            known = own[j] != MISSING
            shown = theta[j, own[j]] if known else ones
            numbers[KEEP], numbers[LEAVE] = keep, leave
            _back(size, numbers, alpha[j], shown, b, priors[j], weights)
            inverse = _ONE / numbers[TOTAL]
            keep, leave = (_ONE - rho[j]) * inverse, rho[j] * numbers[ENDS] * inverse
            factor[0] = inverse
            if known:
                _add(size, weights, ones, factor, counts[j, own[j]])
            else:
                at -= 1
                for s in range(1, levels):
                    total = _ZERO
                    for k in range(size):
                        total += weights[k] * theta[j, s, k]
                    answers[at, s - 1] += total * inverse
            factor[0] = rho[j] * inverse
            _add(size, alpha[j], b, factor, counts[j, levels])
    return likelihood


@part
def _chosen(weights, u):
    """Draw a place by its weight."""
    total = _ZERO
    for k in range(weights.size):
        total += weights[k]
    left = u * total
    for k in range(weights.size - 1):
        left -= weights[k]
        if left < 0:
            return k
    return weights.size - 1


@kernel
def draw_single(first, last, symbols, theta, alpha, rho, key, out):
    """Draw the missing cells of rows ``first`` … ``last`` − 1, jointly along each row; known ones are copied."""
    columns, levels, size = theta.shape
    priors, passed = np.zeros((columns, size), np.float32), np.zeros((columns, size), np.float32)
    ones, numbers, weights = np.ones(size, np.float32), np.zeros(4, np.float32), np.zeros(levels, np.float32)
    for i in range(first, last):
        passed[0] = _ZERO
        _forward(symbols[i], theta, alpha, rho, ones, numbers, priors, passed)
        k = 0
        for j in range(columns - 1, -1, -1):
            u, v = uniforms(j, CASE, i, key)
            if j == columns - 1:
                k = _chosen(passed[j], u)
            else:
                total = _ZERO
                for other in range(size):
                    total += passed[j, other]
                stay, jump = (_ONE - rho[j + 1]) * passed[j, k], rho[j + 1] * alpha[j + 1, k] * total
                if u * (stay + jump) >= stay:
                    k = _chosen(passed[j], v)
            out[i, j] = symbols[i, j]
            if symbols[i, j] == MISSING:
                for s in range(levels):
                    weights[s] = theta[j, s, k]
                u, _ = uniforms(j, ALLELE, i, key)
                out[i, j] = _chosen(weights, u)
