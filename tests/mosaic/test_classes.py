"""Classes by expectation–maximisation: the likelihood rises, planted classes come back, edges hold."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute.data.datasets import mosaic_genotypes
from snapimpute.data.schema import ColumnSchema
from snapimpute.mosaic._classes import Classes, PairClasses, SingleClasses
from snapimpute.mosaic._pairs import MISSING
from snapimpute.mosaic._panel import Line, Panel, Table


def table_of(data) -> Table:
    return Table.of(data.observations, ColumnSchema.single(data.alphabet, data.observations.shape[1]))


def begun(panel: Panel, strands: int, classes: int, seed: int = 0) -> Classes:
    kind = PairClasses if strands == 2 else SingleClasses
    return kind.begin(panel, classes, seed)


def room(panel: Panel, strands: int) -> np.ndarray:
    return panel.answers(3 if strands == 2 else panel.most)


LINES = {
    "chain": lambda n: Line.of(np.arange(n)),
    "groups": lambda n: Line.of(np.arange(n), groups=np.arange(n) // 7),
    "positions": lambda n: Line.of(np.arange(n), positions=np.cumsum(1.0 + np.arange(n) % 3)),
    "unlinked": Line.unlinked,
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("strands", [1, 2])
def test_the_likelihood_with_its_prior_never_falls(line, strands):
    """Each iteration raises it, for chains with groups, with distances, and without links, bounds included."""
    data = mosaic_genotypes((30, 40), founders=4, strands=strands, symbols=4 - strands, jump=0.1, observed=0.7)
    panel = table_of(data).along(LINES[line](40))
    classes, told = begun(panel, strands, 5), []
    for _ in range(15):
        classes, likelihood = classes.step(panel, room(panel, strands))
        told.append(likelihood)
    for before, after in pairwise(told):
        assert after >= before - 2e-5 * abs(before)  # float32
    assert told[-1] > told[0] + 10


@settings(max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([1, 2]), st.integers(1, 12), st.integers(1, 12))
def test_any_small_table_is_fitted(seed, strands, rows, columns):
    """One row, one column, more classes than rows, columns and rows without a cell: probabilities stay so."""
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, 3, (rows, columns)).astype(np.uint8)
    symbols[rng.random(symbols.shape) < rng.random()] = MISSING
    panel = Panel(symbols, np.full(columns, 3), Line.of(np.arange(columns)))
    classes = begun(panel, strands, 6, seed)
    for _ in range(4):
        answers = room(panel, strands)
        classes, likelihood = classes.step(panel, answers)
        assert np.isfinite(likelihood)
        assert np.isfinite(answers).all()
        assert answers.min(initial=0) >= 0
        assert answers.sum(axis=1).max(initial=0) <= 1 + 1e-5


def wrong(data, panel: Panel, answers: np.ndarray) -> float:
    """Share of the missing cells whose most probable symbol is not the true one."""
    p = np.column_stack([1 - answers.sum(axis=1), answers])
    return float(np.mean(p.argmax(axis=1) != data.truth[panel.symbols == MISSING]))


def test_planted_founders_come_back():
    """Fitted classes answer nearly as well as the founders themselves, and jump as often."""
    data = mosaic_genotypes((150, 120), founders=4, jump=0.02, observed=0.6, random_state=1)
    panel = table_of(data).along(Line.of(np.arange(120)))
    shown = np.full((120, 4), 0.002)
    shown[np.arange(120)[None, :], data.sources] = np.where(data.strands == 1, 0.998, 0.002)
    rho = np.where(panel.line.begins, 1.0, 0.02)
    answers = room(panel, 2)
    PairClasses(shown, np.full((120, 4), 0.25), rho).expected(panel, answers)
    least = wrong(data, panel, answers)
    classes = begun(panel, 2, 6, seed=1)
    for _ in range(25):
        answers = room(panel, 2)
        classes, _ = classes.step(panel, answers)
    assert least < 0.05
    assert wrong(data, panel, answers) < 1.3 * least
    assert 0.01 < np.median(classes.rho[1:]) < 0.03


def test_latent_classes_come_back():
    """Without an order, rows of planted types with noise are told apart."""
    rng = np.random.default_rng(0)
    kinds, shown = rng.integers(0, 3, 300), rng.integers(0, 4, (3, 12))
    symbols = np.where(rng.random((300, 12)) < 0.85, shown[kinds], rng.integers(0, 4, (300, 12))).astype(np.uint8)
    panel = Panel(symbols, np.full(12, 4), Line.unlinked(12))
    found = []
    for seed in range(4):
        classes = begun(panel, 1, 3, seed)
        for _ in range(30):
            classes, likelihood = classes.step(panel, room(panel, 1))
        found.append((likelihood, seed, classes))
    _, _, best = max(found)
    assert_array_equal(best.rho[1:], 0)
    modes = {tuple(best.theta[:, :, k].argmax(axis=1)) for k in range(3)}
    assert modes == {tuple(one) for one in shown.tolist()}


@pytest.mark.parametrize("strands", [1, 2])
def test_classes_do_not_depend_on_threads(strands, monkeypatch):
    """Counts are summed by parts of the rows: the same bits on one thread and on four."""
    data = mosaic_genotypes((70, 30), strands=strands, observed=0.7)
    panel, found = table_of(data).along(Line.of(np.arange(30))), []
    monkeypatch.setattr("snapimpute.base.threads.WORTH_THREADS", 0.0)
    for threads in ("1", "4"):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", threads)
        classes, answers = begun(panel, strands, 5), room(panel, strands)
        classes, likelihood = classes.step(panel, answers)
        found.append((classes.theta, classes.rho, answers, classes.draw(panel, 3), likelihood))
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)


# ---------------------------------------------------------------- equivariance of the passes
DATA = mosaic_genotypes((40, 25), founders=5, jump=0.1, observed=0.7, random_state=3)
PANEL = table_of(DATA).along(Line.of(np.arange(25)))


def passed(panel: Panel, classes: PairClasses) -> tuple[float, np.ndarray, np.ndarray]:
    """Likelihood, counts, and chances of the missing cells as a table with NaN elsewhere."""
    answers = panel.answers(3)
    counts, likelihood = classes.expected(panel, answers)
    chances = np.full((*panel.shape, 2), np.nan)
    chances[panel.symbols == MISSING] = answers
    return likelihood, counts, chances


def test_swapped_alleles_swap_the_answers():
    """With 0 and 2 exchanged and θ mirrored, P(0) and P(2) change places, and so do the counts of 1 and 0."""
    classes = begun(PANEL, 2, 6)
    likelihood, counts, chances = passed(PANEL, classes)
    mirrored = np.where(PANEL.symbols == MISSING, MISSING, 2 - PANEL.symbols.astype(int)).astype(np.uint8)
    other = PairClasses(1 - classes.theta, classes.alpha, classes.rho)
    again, swapped, found = passed(Panel(mirrored, PANEL.levels, PANEL.line), other)
    assert again == pytest.approx(likelihood, rel=1e-6)
    assert_allclose(swapped[..., [1, 0, 2]], counts, atol=2e-4)
    assert_allclose(found[..., 1], 1 - chances.sum(axis=2), atol=1e-5)
    assert_allclose(found[..., 0], chances[..., 0], atol=1e-5)


def test_permuted_rows_and_classes_permute_the_answers():
    """Rows in another order, and classes under other numbers, change nothing else."""
    classes, rng = begun(PANEL, 2, 6), np.random.default_rng(0)
    rows, names = rng.permutation(40), rng.permutation(6)
    likelihood, counts, chances = passed(PANEL, classes)
    other = PairClasses(classes.theta[:, names], classes.alpha[:, names], classes.rho)
    again, moved, found = passed(Panel(PANEL.symbols[rows], PANEL.levels, PANEL.line), other)
    assert again == pytest.approx(likelihood, rel=1e-6)
    assert_allclose(moved, counts[:, names], atol=2e-4)
    assert_allclose(found, chances[rows], atol=1e-5)


def test_reversed_columns_reverse_the_answers():
    """A chain whose jumps forget alike in both directions gives the same answers from either end."""
    rng = np.random.default_rng(0)
    alpha = np.tile(rng.dirichlet(np.ones(6)).astype(np.float32), (25, 1))
    rho = np.concatenate([[1.0], rng.uniform(0.05, 0.5, 24)]).astype(np.float32)
    theta = rng.uniform(0.05, 0.95, (25, 6)).astype(np.float32)
    back = np.concatenate([[1.0], rho[:0:-1]]).astype(np.float32)
    likelihood, _, chances = passed(PANEL, PairClasses(theta, alpha, rho))
    mirror = Panel(np.ascontiguousarray(PANEL.symbols[:, ::-1]), PANEL.levels, PANEL.line)
    again, _, found = passed(mirror, PairClasses(theta[::-1].copy(), alpha, back))
    assert again == pytest.approx(likelihood, rel=1e-6)
    assert_allclose(found[:, ::-1], chances, atol=1e-5)


def test_a_group_ends_what_columns_tell():
    """Cells of one group say nothing about another: hiding them changes no answer there."""
    line = Line.of(np.arange(25), groups=np.arange(25) // 10)
    panel = Panel(PANEL.symbols, PANEL.levels, line)
    classes = begun(panel, 2, 6)
    assert_array_equal(np.flatnonzero(classes.rho == 1), [0, 10, 20])
    hidden = panel.symbols.copy()
    hidden[:, :10] = MISSING
    _, _, whole = passed(panel, classes)
    _, _, part = passed(Panel(hidden, panel.levels, line), classes)
    assert_allclose(part[:, 10:], whole[:, 10:], atol=1e-6)


def test_jumps_follow_distances():
    """Where positions are known, a far neighbour is reached by a jump more often; the scale is fitted."""
    positions = np.cumsum(np.tile([1.0, 1.0, 30.0], 20))
    rng, founders = np.random.default_rng(2), np.random.default_rng(3).integers(0, 2, (6, 60))
    steps, source = np.diff(positions, prepend=positions[0]), np.zeros((160, 60), int)
    for j in range(60):
        jumps = (rng.random(160) < 1 - np.exp(-0.01 * steps[j])) | (j == 0)
        source[:, j] = np.where(jumps, rng.integers(0, 6, 160), source[:, max(j - 1, 0)])
    strands = founders[source, np.arange(60)]
    symbols = (strands[0::2] + strands[1::2]).astype(np.uint8)
    line = Line.of(np.arange(60), positions=positions)
    panel = Panel(symbols, np.full(60, 3), line)
    classes = begun(panel, 2, 6, 1)
    for _ in range(15):
        classes, _ = classes.step(panel, room(panel, 2))
    far = np.flatnonzero(steps == 30)
    assert classes.rho[far].mean() > 3 * np.delete(classes.rho, [0, *far]).mean()
    scaled = line.rescaled(classes.rho.astype(float))
    rate = -np.log1p(-scaled.jumps[far[0]]) / 30
    assert 0.003 < rate < 0.03
