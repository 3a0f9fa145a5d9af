"""Passes, draws and answers of the kernels against all paths, one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute.base.vectors import LANES
from snapimpute.mosaic._chain import FEWER_JUMPS, WRONG, Chain, by_column
from snapimpute.mosaic._classes import (
    PairClasses,
    SingleClasses,
    drawn_pairs,
    lanes_of,
    rates_of,
    space_of,
)
from snapimpute.mosaic._copying import draw_rows, fill_rows
from snapimpute.mosaic._expectation import expect
from snapimpute.mosaic._pairs import MISSING
from snapimpute.mosaic._panel import Line, Panel
from tests.mosaic.brute import copying, one_strand, two_strands

DRAWS = 60_000
LOOSE = 5 / np.sqrt(DRAWS)
"""Five standard errors of a share, at most."""


def panel(symbols, levels: int, line: Line | None = None) -> Panel:
    symbols = np.atleast_2d(np.asarray(symbols, np.uint8))
    columns = symbols.shape[1]
    return Panel(symbols, np.full(columns, levels), line or Line.of(np.arange(columns)))


def pair_classes(rng, columns: int, classes: int, low: float = 0.05) -> PairClasses:
    theta = rng.uniform(0.02, 0.98, (columns, classes)).astype(np.float32)
    alpha = rng.dirichlet(np.ones(classes), columns).astype(np.float32)
    rho = np.concatenate([[1.0], rng.uniform(low, 0.9, columns - 1)]).astype(np.float32)
    return PairClasses(theta, alpha, rho)


def single_classes(rng, columns: int, classes: int, levels: int) -> SingleClasses:
    theta, alpha = np.zeros((columns, levels, LANES), np.float32), np.zeros((columns, LANES), np.float32)
    theta[:, :, :classes] = rng.dirichlet(np.ones(levels), (columns, classes)).transpose(0, 2, 1)
    alpha[:, :classes] = rng.dirichlet(np.ones(classes), columns)
    rho = np.concatenate([[1.0], rng.uniform(0.05, 0.9, columns - 1)]).astype(np.float32)
    return SingleClasses(theta, alpha, rho, classes)


PAIRS = [[0, 1, 2], [MISSING, 1, MISSING], [1, 1, 1], [2, MISSING, 0], [MISSING, MISSING, MISSING]]


@pytest.mark.parametrize("symbols", PAIRS)
@pytest.mark.parametrize("block", [1, 2, 3])
def test_two_strands_pass_as_all_paths_do(symbols, block):
    """Log-likelihood, counts of 1, 0 and jumps, and P(1), P(2) of missing cells, whatever the checkpoints."""
    classes = pair_classes(np.random.default_rng(1), 3, 2)
    truth = two_strands(np.array(symbols), classes.theta.astype(float), classes.alpha, classes.rho)
    counts, answers = np.zeros((3, 2, 3), np.float32), np.zeros((3, LANES, 2), np.float32)
    given = lanes_of(np.array([symbols], np.uint8)), classes.theta, classes.alpha, rates_of(classes.rho), block
    likelihood = expect(1, *given, *space_of(2, 3, block), counts, answers)
    assert likelihood == pytest.approx(truth.likelihood, abs=1e-5)
    assert_allclose(counts, truth.counts, atol=2e-6)
    hidden = np.array(symbols) == MISSING
    assert_allclose(answers[hidden, 0], truth.chances[hidden, 1:], atol=2e-6)


@pytest.mark.parametrize("symbols", [[0, 1, 2], [MISSING, 1, MISSING], [2, MISSING, 0], [MISSING] * 3])
def test_one_strand_passes_as_all_paths_do(symbols):
    """The same for one strand of three symbols, whose other lanes stay empty."""
    classes = single_classes(np.random.default_rng(2), 3, 3, 3)
    theta = classes.theta[:, :, :3].transpose(0, 2, 1).astype(float)
    truth = one_strand(np.array(symbols), theta, classes.alpha, classes.rho)
    one = panel([symbols], 3)
    answers = one.answers(3)
    counts, likelihood = classes.expected(one, answers)
    assert likelihood == pytest.approx(truth.likelihood, abs=1e-5)
    assert_allclose(counts[:, :, :3], truth.counts, atol=2e-6)
    assert not counts[:, :, 3:].any()
    assert_allclose(answers, truth.chances[np.array(symbols) == MISSING, 1:], atol=2e-6)


def shares(drawn: np.ndarray) -> dict[tuple[int, ...], float]:
    return {key: count / len(drawn) for key, count in Counter(map(tuple, drawn.tolist())).items()}


def assert_drawn(drawn: np.ndarray, truth: dict[tuple[int, ...], float]) -> None:
    found = shares(drawn)
    assert found.keys() <= truth.keys()
    for key, p in truth.items():
        assert abs(found.get(key, 0.0) - p) < LOOSE, key


@pytest.mark.parametrize("symbols", [[1, MISSING, 1], [1, 1, 2]])
def test_two_strands_are_drawn_as_often_as_all_paths_say(symbols):
    """Joint shares of what both strands show, phases included."""
    classes = pair_classes(np.random.default_rng(3), 3, 2, low=0.8)  # often both strands jump
    truth = two_strands(np.array(symbols), classes.theta.astype(float), classes.alpha, classes.rho)
    drawn = classes.draw(panel([symbols] * DRAWS, 3), key=5).reshape(DRAWS, 6)
    assert_drawn(drawn, truth.rows)


def test_two_strands_are_drawn_from_strands_of_others():
    """With donors, a class shows what its strand does, but for a wrong copy."""
    rng = np.random.default_rng(4)
    pool = np.array([[0, 1, 1], [1, 0, 1]], np.uint8)
    theta = np.where(pool.T == 1, 0.8, 0.2)
    alpha, rho = np.full((3, 2), 0.5, np.float32), np.array([1, 0.3, 0.6], np.float32)
    truth = two_strands(np.array([1, MISSING, 1]), theta, alpha, rho)
    donors = np.tile(np.arange(2), (1, DRAWS, 1))
    one = panel([[1, MISSING, 1]] * DRAWS, 3)
    drawn = drawn_pairs(one, np.zeros((0, 0), np.float32), alpha, rho, pool, donors, 0.2, int(rng.integers(2**31)))
    assert_drawn(drawn.reshape(DRAWS, 6), truth.rows)


def test_one_strand_is_drawn_as_often_as_all_paths_say():
    """Joint shares of the missing cells."""
    classes = single_classes(np.random.default_rng(5), 3, 2, 3)
    theta = classes.theta[:, :, :2].transpose(0, 2, 1).astype(float)
    truth = one_strand(np.array([MISSING, 1, MISSING]), theta, classes.alpha, classes.rho)
    assert_drawn(classes.draw(panel([[MISSING, 1, MISSING]] * DRAWS, 3), key=7), truth.rows)


# ---------------------------------------------------------------- copying
STRANDS = np.random.default_rng(0).integers(0, 3, (4, 4)).astype(np.uint8)
JUMP = np.array([0.999999999, 0.3, 0.2, 0.4])
STAY = np.cumsum(np.log1p(-JUMP))
POOL = np.full((4, LANES), 254, np.uint8)
POOL[:, :4] = STRANDS.T


def hidden(missing: list[int]) -> np.ndarray:
    symbols = STRANDS.copy()
    symbols[1, missing] = MISSING
    return symbols


@pytest.mark.parametrize("missing", [[1], [0, 2], [3], [0, 1, 2, 3], [1, 2]])
@pytest.mark.parametrize("block", [1, 2, 4])
def test_a_strand_is_filled_from_all_others(missing, block):
    """Chances at missing cells, without the row's own strand, whatever the number of columns held."""
    symbols = hidden(missing)
    others = np.delete(STRANDS, 1, axis=0)
    chances, _ = copying(STRANDS[1], symbols[1] != MISSING, others, JUMP, 0.1, 3)
    answers, starts = np.zeros((len(missing), 2), np.float32), np.array([0, 0, len(missing), len(missing)])
    given = symbols, STRANDS, POOL, 4, True, STAY, 3, np.float32(0.1), block, starts
    fill_rows(1, 2, *given, answers)
    assert_allclose(answers, chances[missing, 1:], atol=1e-6)


@pytest.mark.parametrize("count", [5, 16, 37])
def test_a_bit_for_each_strand_is_as_good_as_a_byte(count):
    """Answers and draws of strands of 0 and 1 are the same bits, however the panel is packed."""
    rng = np.random.default_rng(count)
    strands = rng.integers(0, 2, (count, 30)).astype(np.uint8)
    symbols = np.where(rng.random(strands.shape) < 0.4, MISSING, strands).astype(np.uint8)
    stay, starts = -0.1 * np.arange(30.0), np.concatenate([[0], np.cumsum((symbols == MISSING).sum(axis=1))])
    found = []
    for binary in (False, True):
        panel = by_column(strands, binary=binary)
        answers, out = np.zeros((int(starts[-1]), 1), np.float32), np.zeros_like(strands)
        given = symbols, strands, panel, count, True, stay, 2, np.float32(0.01), 7
        fill_rows(0, count, *given, starts, answers)
        draw_rows(0, count, *given, 3, out)
        found.append((answers, out, panel.nbytes))
    assert_array_equal(found[0][0], found[1][0])
    assert_array_equal(found[0][1], found[1][1])
    assert found[0][2] == 8 * found[1][2]
    assert found[0][0].any()


def test_new_strands_copy_from_all_of_a_pool():
    """A row that is not in the pool leaves out no strand of it."""
    symbols = hidden([1, 2])[1:2]
    chances, _ = copying(STRANDS[1], symbols[0] != MISSING, STRANDS, JUMP, 0.1, 3)
    answers = np.zeros((2, 2), np.float32)
    given = symbols, STRANDS[1:2], POOL, 4, False, STAY, 3, np.float32(0.1), 4, np.array([0])
    fill_rows(0, 1, *given, answers)
    assert_allclose(answers, chances[1:3, 1:], atol=1e-6)


@pytest.mark.parametrize("missing", [[0, 2], [1, 2, 3]])
@pytest.mark.parametrize("block", [1, 4])
def test_missing_cells_of_a_strand_are_drawn_jointly(missing, block):
    """Joint shares of what a strand shows, given that it copies from the others."""
    symbols, others = hidden(missing), np.delete(STRANDS, 1, axis=0)
    _, rows = copying(STRANDS[1], symbols[1] != MISSING, others, JUMP, 0.1, 3)
    out, drawn, each = np.zeros_like(STRANDS), [], DRAWS // 12
    for key in range(each):
        draw_rows(1, 2, symbols, STRANDS, POOL, 4, True, STAY, 3, np.float32(0.1), block, key, out)
        drawn.append(out[1].copy())
    found = shares(np.array(drawn))
    for key, p in rows.items():
        assert abs(found.get(key, 0.0) - p) < 5 / np.sqrt(each)


def test_two_strands_are_filled_apart_and_added_up():
    """P(1) = a(1 − b) + b(1 − a) and P(2) = ab, with a and b the chances of allele 1 on each strand."""
    rng = np.random.default_rng(8)
    strands = rng.integers(0, 2, (8, 4)).astype(np.uint8)
    symbols = strands[0::2] + strands[1::2]
    symbols[2, [1, 3]] = MISSING
    classes = PairClasses(np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float32), np.array([1, 0.5, 0.9, 0.3]))
    chain = Chain(panel(symbols, 3), classes, strands)
    answers = chain.panel.answers(3)
    chain.fill(answers)
    jump = np.array([1.0, *(classes.rho[1:] / FEWER_JUMPS)])
    others, known = np.delete(strands, [4, 5], axis=0), symbols[2] != MISSING
    a, b = (copying(strands[t], known, others, jump, WRONG, 2)[0][[1, 3], 1] for t in (4, 5))
    assert_allclose(answers, np.stack([a * (1 - b) + b * (1 - a), a * b], axis=1), atol=1e-6)


# ---------------------------------------------------------------- long rows
@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(1, 70), st.integers(1, 6))
def test_long_rows_pass_as_a_dense_chain_does(seed, columns, classes):
    """Against forward and backward over all K² pairs in float64, with any number of columns, classes and rows."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 20))
    found = pair_classes(rng, columns, classes)
    symbols = rng.integers(0, 3, (rows, columns)).astype(np.uint8)
    symbols[rng.random(symbols.shape) < 0.4] = MISSING
    one = panel(symbols, 3)
    answers = one.answers(3)
    _, likelihood = found.expected(one, answers)
    total, expected = 0.0, []
    for row in symbols:
        part, chances = dense(row, found)
        total += part
        expected.append(chances[row == MISSING, 1:])
    assert likelihood == pytest.approx(total, rel=1e-4, abs=1e-3)
    assert_allclose(answers, np.concatenate(expected), atol=2e-5)


def dense(row: np.ndarray, classes: PairClasses) -> tuple[float, np.ndarray]:
    """Forward and backward over a row of K² pairs, in float64."""
    theta, alpha, rho = (one.astype(float) for one in (classes.theta, classes.alpha, classes.rho))
    columns, count = theta.shape
    step = [(1 - rho[j]) * np.eye(count) + rho[j] * alpha[j][None, :] for j in range(columns)]
    both = [np.kron(one, one) for one in step]

    def shows(j: int, s: int) -> np.ndarray:
        t, rest = theta[j], 1 - theta[j]
        made = {0: np.outer(rest, rest), 1: np.outer(t, rest) + np.outer(rest, t), 2: np.outer(t, t)}
        return made[s].ravel()

    e = [np.ones(count**2) if row[j] == MISSING else shows(j, int(row[j])) for j in range(columns)]
    f, priors, likelihood = np.full(count**2, 1 / count**2), [], 0.0
    for j in range(columns):
        priors.append(f @ both[j])
        f = priors[j] * e[j]
        likelihood += np.log(f.sum())
        f /= f.sum()
    b, chances = np.ones(count**2), np.zeros((columns, 3))
    for j in range(columns - 1, -1, -1):
        weights = np.array([(priors[j] * b * shows(j, s)).sum() for s in range(3)])
        chances[j] = weights / weights.sum()
        b = both[j] @ (e[j] * b)
        b /= b.sum()
    return likelihood, chances


def test_nothing_overflows_on_long_rows():
    """20,000 columns whose classes contradict the cells, and strands that none resembles, stay finite."""
    rng = np.random.default_rng(0)
    symbols = rng.integers(0, 3, (5, 20_000)).astype(np.uint8)
    symbols[rng.random(symbols.shape) < 0.1] = MISSING
    theta = np.where(rng.random((20_000, 2)) < 0.5, 0.998, 0.002).astype(np.float32)
    alpha, rho = np.full((20_000, 2), 0.5, np.float32), np.full(20_000, 1e-4, np.float32)
    rho[0] = 1
    classes, one = PairClasses(theta, alpha, rho), panel(symbols, 3)
    answers = one.answers(3)
    counts, likelihood = classes.expected(one, answers)
    chain = Chain.begin(one, classes, 0).round(1)
    chain.fill(answers)
    assert np.isfinite(likelihood)
    assert np.isfinite(counts).all()
    assert np.isfinite(answers).all()
    assert 0 <= answers.min() <= answers.sum(axis=1).max() <= 2 + 1e-4
