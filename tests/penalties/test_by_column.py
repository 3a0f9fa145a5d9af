"""Columns with penalties of their own, and the discrete term on a matrix: all equal naive dense formulas."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from snapimpute import L0, L1, L2, ByColumn, ComposedL1, FractionalL0, LowRank, Nuclear, Observations, Problem, Ridge
from snapimpute.linalg import ColumnGroups, Dense, MappedLowRank
from snapimpute.penalties import CellPenalty, DiscretePenalty
from snapimpute.problem.discreteness import DiscreteTerm

MIXED = ByColumn(
    [
        L1("1:5", 0.3),
        None,
        L0("0,1", 0.2, weights=[1, 3]),
        L2("-1,1", 1.5),
        FractionalL0("1:3", 0.5, 0.1),
        L0("9", 1.0),
    ],
    which=[3, 0, 2, 1, 3, 0, 4, 2, 0],
)
PENALTIES: list[DiscretePenalty] = [
    L1("1:5", 0.3),
    L0("1:5", 0.2),
    L2("1:5", 3.0),
    L2("1:5", 1e4),  # all at one symbol
    MIXED,
    ByColumn([L2("1:5", 2.0), L2("0,1", 1.0)], [0, 0, 1, 0, 1, 1, 1, 1, 0]),
    ByColumn([Ridge(2.0, 0.3)], [0] * 9),
]
STEPS = [1.0, 0.25]


class Setting(NamedTuple):
    """A matrix of low rank as a solver has it, the same as an array, and which cells were observed."""

    x: LowRank
    dense: np.ndarray
    seen: np.ndarray
    observations: Observations


def setting(seed: int, m: int = 8, n: int = 9) -> Setting:
    """Column 1 without observations, column 2 with nothing else."""
    rng = np.random.default_rng(seed)
    x = LowRank.from_dense(2 + rng.standard_normal((m, n))).truncated(2)
    seen = rng.random((m, n)) < 0.4
    seen[:, 1], seen[:, 2] = False, True
    observations = Observations.from_dense(np.where(seen, rng.integers(1, 6, (m, n)), np.nan))
    return Setting(x, x.to_dense(), seen, observations)


def parts(penalty: DiscretePenalty, hidden: np.ndarray) -> list[tuple[DiscretePenalty, np.ndarray]]:
    """Each penalty with the cells that it acts on, column by column."""
    if not isinstance(penalty, ByColumn):
        return [(penalty, hidden)]
    out = []
    for position, one in enumerate(penalty.penalties):
        where = hidden & np.array([w == position for w in penalty.which])
        if one is not None:
            out.append((one, where))
    return out


def value(penalty: DiscretePenalty, x: np.ndarray) -> float:
    """The penalty of a vector from its definition."""
    if isinstance(penalty, Ridge):
        return penalty.xi * float(np.sum((x - penalty.center) ** 2))
    assert isinstance(penalty, L0 | L1 | L2 | FractionalL0)
    total = 0.0
    for a, w in zip(penalty.alphabet, penalty.weights, strict=True):
        if isinstance(penalty, L1):
            total += w * np.abs(x - a).sum()
        elif isinstance(penalty, L0):
            total += w * np.count_nonzero(x != a)
        elif isinstance(penalty, L2):
            total += w * np.sqrt(np.sum((x - a) ** 2))
        else:
            total += w * np.sum((x - a) ** 2 / ((x - a) ** 2 + penalty.alpha))
    return penalty.xi * total


def naive_value(penalty: DiscretePenalty, x: np.ndarray, hidden: np.ndarray) -> float:
    return sum(value(one, x[where]) for one, where in parts(penalty, hidden))


def naive_prox(penalty: DiscretePenalty, x: np.ndarray, hidden: np.ndarray, step: float) -> np.ndarray:
    """X with the prox of each part put in its cells; that of a vector is tested by its own."""
    out = x.copy()
    for one, where in parts(penalty, hidden):
        out[where] = one.prox(x[where], step)
    return out


def naive_envelope(penalty: DiscretePenalty, x: np.ndarray, hidden: np.ndarray, step: float) -> float:
    """penalty(u) + ‖u − x‖²/(2·step) at the prox."""
    u = naive_prox(penalty, x, hidden, step)
    return naive_value(penalty, u, hidden) + float(np.sum((u - x) ** 2)) / (2 * step)


# ---------------------------------------------------------------- the penalty itself
def test_each_column_is_treated_by_its_own_penalty():
    """Prox column by column, value and envelope summed over the columns; L2 takes its columns together."""
    x = np.random.default_rng(0).normal(2, 2, (6, 9))
    before = x.copy()
    everywhere = np.ones(x.shape, dtype=bool)
    for step in (1.0, 0.3):
        found = MIXED.prox(x, step)
        assert_allclose(found, naive_prox(MIXED, x, everywhere, step), rtol=1e-12)
        assert_array_equal(found[:, 3], x[:, 3])
        assert_array_equal(found[:, 5], L1("1:5", 0.3).prox(x[:, 5], step))
        assert_allclose(found[:, [0, 4]], L2("-1,1", 1.5).prox(x[:, [0, 4]], step), rtol=1e-12)
        assert_allclose(MIXED.envelope(x, step), step * naive_envelope(MIXED, x, everywhere, step), rtol=1e-10)
    assert_allclose(MIXED.value(x), naive_value(MIXED, x, everywhere), rtol=1e-12)
    assert_array_equal(x, before)
    assert MIXED.value(x).shape == MIXED.envelope(x).shape == ()


def test_groups_are_the_columns_of_each_penalty_that_is_used():
    """Every column is in one group; a penalty without columns is in none."""
    groups = MIXED.groups()
    assert [penalty for penalty, _ in groups] == list(MIXED.penalties[:-1])
    assert [cols.tolist() for _, cols in groups] == [[1, 5, 8], [3], [2, 7], [0, 4], [6]]


def test_of_shares_penalties_between_equal_alphabets():
    """One alphabet for each column: equal ones, however written, share a penalty; None is a column without."""
    penalty = ByColumn.of(lambda alphabet: L1(alphabet, 0.1), ["0,1", "1:3", [1.0, 0.0], None, [1, 2, 3], None])
    assert penalty.which.tolist() == [0, 1, 0, 2, 1, 2]
    assert [None if p is None else list(p.alphabet) for p in penalty.penalties] == [[0, 1], [1, 2, 3], None]
    assert repr(penalty) == (
        "ByColumn(2 columns L1(Alphabet([0, 1]), xi=0.1), 2 columns L1(Alphabet([1, 2, 3]), xi=0.1), 2 columns None)"
    )
    assert repr(ByColumn([L1("0,1", 0.1)], [0])) == "ByColumn(1 column L1(Alphabet([0, 1]), xi=0.1))"


def test_convex_exact_and_strength_are_those_of_the_penalties_used():
    """Convex if all are, exact if all are, ξ the largest; what no column uses does not count."""
    convex = ByColumn([L1("0,1", 0.1), None, L2("0,1", 0.4), L0("0,1", 9.0)], [0, 1, 2])
    assert convex.convex
    assert convex.exact
    assert convex.xi == 0.4
    assert not MIXED.convex
    assert MIXED.exact
    assert not ByColumn([L1("0,1", 0.1), ComposedL1("0,1", 0.1)], [0, 1]).exact
    nothing = ByColumn([None], [0, 0])
    assert nothing.xi == 0
    assert nothing.convex
    assert nothing.value(np.ones((3, 2))) == nothing.envelope(np.ones((3, 2))) == 0


@pytest.mark.parametrize(
    ("penalties", "which", "error", "message"),
    [
        ([L1("0,1", 0.1)], [0, 1], ValueError, "which must lie in 0..0, the positions of the penalties, got 0 to 1"),
        ([L1("0,1", 0.1)], [-1, 0], ValueError, "got -1 to 0"),
        ([L1("0,1", 0.1)], [], ValueError, "flat list of integers, one for each column, got []"),
        ([L1("0,1", 0.1)], [[0]], ValueError, "flat list of integers"),
        ([L1("0,1", 0.1)], [0.0], ValueError, "flat list of integers"),
        ([L1("0,1", 0.1)], [True], ValueError, "flat list of integers"),
        (["0,1"], [0], TypeError, "each column has a DiscretePenalty of its own or None, got '0,1'"),
        ([MIXED], [0], TypeError, "each column has a DiscretePenalty of its own or None, got ByColumn"),
    ],
)
def test_bad_columns_are_refused(penalties, which, error, message):
    """Positions must be a flat list of integers within the penalties, and these no groups of columns again."""
    with pytest.raises(error, match=re.escape(message)):
        ByColumn(penalties, which)


@pytest.mark.parametrize("shape", [(9,), (4, 8), (9, 4), (2, 3, 9)])
def test_tables_with_other_columns_are_refused(shape):
    """Value, prox and envelope take tables with just these columns."""
    for apply in (MIXED.value, MIXED.prox, MIXED.envelope):
        with pytest.raises(ValueError, match=re.escape(f"expected a table with 9 columns, got shape {shape}")):
            apply(np.zeros(shape))


# ---------------------------------------------------------------- operators
def operators() -> list[tuple[str, object, np.ndarray]]:
    rng = np.random.default_rng(5)
    A, B, C = rng.standard_normal((6, 3)), rng.standard_normal((6, 2)), rng.standard_normal((6, 4))
    low = LowRank.from_dense(B)
    mapped = MappedLowRank(LowRank.from_dense(C), L1("0,1", 0.3).compiled("prox"))
    whole = np.empty((6, 9))
    cols = (np.array([0, 4, 8]), np.array([2, 1]), np.array([7, 3, 5, 6]))
    for group, values in zip(cols, (A, B, L1("0,1", 0.3).prox(C)), strict=True):
        whole[:, group] = values
    groups = ColumnGroups((Dense(A), low, mapped), cols)
    return [
        ("dense", Dense(A), A),
        ("dense, transposed", Dense(A).T, A.T),
        ("one group", ColumnGroups((Dense(A),), (np.array([2, 0, 1]),)), A[:, [1, 2, 0]]),
        ("groups", groups, whole),
        ("groups, transposed", groups.T, whole.T),
        ("groups, added", groups + Dense(whole), 2 * whole),
    ]


@pytest.mark.parametrize(("name", "operator", "dense"), operators(), ids=lambda v: v if isinstance(v, str) else "")
def test_operators_equal_their_dense_matrices(name, operator, dense):
    """Shape, products from both sides and the dense form are those of the matrix; ⟨AB, C⟩ = ⟨B, AᵀC⟩."""
    rng = np.random.default_rng(1)
    B, C = rng.standard_normal((dense.shape[1], 3)), rng.standard_normal((dense.shape[0], 3))
    kept = B.copy(), C.copy()
    assert operator.shape == dense.shape
    assert_allclose(operator.matmat(B), dense @ B, atol=1e-12)
    assert_allclose(operator.rmatmat(C), dense.T @ C, atol=1e-12)
    assert_allclose(operator.to_dense(), dense, atol=1e-12)
    assert_allclose(np.sum(operator.matmat(B) * C), np.sum(B * operator.rmatmat(C)), rtol=1e-11)
    assert_array_equal(B, kept[0])
    assert_array_equal(C, kept[1])


# ---------------------------------------------------------------- the term on a matrix
@pytest.fixture(params=PENALTIES, ids=repr)
def penalty(request: pytest.FixtureRequest) -> DiscretePenalty:
    return request.param


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("seed", [0, 1])
def test_total_is_the_sum_over_the_cells_that_were_not_observed(penalty, seed, step):
    """Value, envelope and value at the prox over Ωᶜ are the naive ones; what is handed in stays as it is."""
    x, dense, seen, observations = setting(seed)
    term = DiscreteTerm(penalty, observations)
    on_observed = x.entries(observations.rows, observations.cols)
    before = on_observed.copy()
    assert_allclose(term.total(x, on_observed, "value", step), naive_value(penalty, dense, ~seen), rtol=1e-10)
    assert_allclose(
        term.total(x, on_observed, "envelope", step), naive_envelope(penalty, dense, ~seen, step), rtol=1e-9
    )
    landed = naive_value(penalty, naive_prox(penalty, dense, ~seen, step), ~seen)
    assert_allclose(term.total(x, on_observed, "landing", step), landed, rtol=1e-6)
    assert_array_equal(on_observed, before)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("seed", [0, 1])
def test_prox_is_that_of_the_cells_that_were_not_observed(penalty, seed, step):
    """The operator is prox(X) on Ωᶜ, and on Ω it has the values that are returned with it."""
    x, dense, seen, observations = setting(seed)
    on_observed = x.entries(observations.rows, observations.cols)
    before = on_observed.copy()
    operator, values = DiscreteTerm(penalty, observations).prox(x, on_observed, step)
    found = operator.to_dense()
    assert operator.shape == dense.shape
    assert_allclose(found[~seen], naive_prox(penalty, dense, ~seen, step)[~seen], atol=1e-7)
    assert_allclose(values, found[observations.rows, observations.cols], atol=1e-10)
    assert_array_equal(on_observed, before)


@pytest.mark.parametrize("step", STEPS)
def test_prox_of_an_array(penalty, step):
    """prox_dense is prox(X) on Ωᶜ and X on Ω, for any array, which it does not change."""
    _, _, seen, observations = setting(0)
    x = np.random.default_rng(7).normal(2, 2, seen.shape)
    before = x.copy()
    found = DiscreteTerm(penalty, observations).prox_dense(x, step)
    assert_allclose(found, naive_prox(penalty, x, ~seen, step), rtol=1e-12)
    assert_array_equal(found[seen], x[seen])
    assert_array_equal(x, before)


def test_the_prox_of_a_block_penalty_has_low_rank():
    """With L2 no pass over all cells is needed: rank r becomes r + 1 at most."""
    x, _, _, observations = setting(0)
    on_observed = x.entries(observations.rows, observations.cols)
    operator, _ = DiscreteTerm(L2("1:5", 3.0), observations).prox(x, on_observed)
    assert isinstance(operator, LowRank)
    assert operator.rank == x.rank + 1


def test_least_is_the_least_of_all_matrices(penalty):
    """Each part at its cheapest symbol costs `least`, and no matrix costs less."""
    _, _, seen, observations = setting(0)
    term = DiscreteTerm(penalty, observations)
    expected = 0.0
    for one, where in parts(penalty, ~seen):
        points = (
            [one.center]
            if isinstance(one, Ridge)
            else np.linspace(one.alphabet.symbols[0], one.alphabet.symbols[-1], 4001)
        )
        expected += min(value(one, np.full(np.count_nonzero(where), a)) for a in points)
    assert_allclose(term.least, expected, rtol=1e-5, atol=1e-9)
    x = np.random.default_rng(3).normal(2, 2, seen.shape)
    for matrix in (x, term.prox_dense(x, 1e6)):
        assert naive_value(penalty, matrix, ~seen) >= term.least * (1 - 1e-9)


def test_nothing_hidden_and_nothing_in_the_matrix():
    """With every cell observed the term is 0 and changes nothing; the zero matrix, of rank 0, is like others."""
    full = Observations.from_dense(np.ones((3, 9)))
    x = LowRank.from_dense(np.random.default_rng(0).standard_normal((3, 9))).truncated(2)
    on_observed = x.entries(full.rows, full.cols)
    _, dense, seen, observations = setting(0)
    zero, none = LowRank.zeros(dense.shape), np.zeros(len(observations))
    for one in (L2("1:5", 3.0), MIXED):
        term = DiscreteTerm(one, full)
        assert_allclose(term.total(x, on_observed, "envelope"), 0, atol=1e-12)
        assert term.least == 0
        assert_array_equal(term.prox_dense(x.to_dense()), x.to_dense())
        term = DiscreteTerm(one, observations)
        expected = naive_prox(one, np.zeros(dense.shape), ~seen, 1.0)
        assert_allclose(term.prox(zero, none)[0].to_dense()[~seen], expected[~seen], atol=1e-7)
        assert_allclose(term.total(zero, none, "value"), naive_value(one, np.zeros(dense.shape), ~seen), rtol=1e-10)


# ---------------------------------------------------------------- the problem
def offsets(shape: tuple[int, int]) -> LowRank:
    rng = np.random.default_rng(9)
    left, right = np.ones((shape[0], 2)), np.ones((shape[1], 2))
    left[:, 0], right[:, 1] = rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
    return LowRank(left, np.array([1.0, 0.7]), right)


@pytest.mark.parametrize("biased", [False, True])
def test_problem_with_any_discrete_penalty(penalty, biased):
    """Terms of (E) and (P), the imputed matrix, steps of any length and the curvature equal the dense formulas."""
    x, dense, seen, observations = setting(2)
    base = offsets(dense.shape) if biased else None
    B = base.to_dense() if base is not None else np.zeros(dense.shape)
    data = np.zeros(dense.shape)
    data[observations.rows, observations.cols] = observations.values
    problem = Problem(observations, Nuclear(1.5), penalty, base)

    def smooth(X: np.ndarray, gamma: float = 1.0) -> float:
        return 0.5 * float(np.sum((X + B - data)[seen] ** 2)) + naive_envelope(penalty, X + B, ~seen, gamma)

    def gradient(X: np.ndarray, gamma: float = 1.0) -> np.ndarray:
        return np.where(seen, X + B - data, (X + B - naive_prox(penalty, X + B, ~seen, gamma)) / gamma)

    for objective, gamma in [("E", 1.0), ("E", 0.25), ("P", 1.0)]:
        terms = problem.terms(x, objective=objective, gamma=gamma)
        naive = (
            naive_envelope(penalty, dense + B, ~seen, gamma)
            if objective == "E"
            else naive_value(penalty, dense + B, ~seen)
        )
        assert_allclose(terms.fit, 0.5 * np.sum((dense + B - data)[seen] ** 2), rtol=1e-10)
        assert_allclose(terms.spectral, 1.5 * x.s.sum(), rtol=1e-12)
        assert_allclose(terms.discrete, naive, rtol=1e-9)
    at = problem.at_observed(x)
    split = problem.split_terms(x, at, 0.5)
    landed = naive_value(penalty, naive_prox(penalty, dense + B, ~seen, 0.5), ~seen)
    assert_allclose([split.fit, split.spectral, split.discrete], [terms.fit, terms.spectral, landed], rtol=1e-6)
    assert_allclose(problem.smooth.imputed(x, at).to_dense(), dense - gradient(dense), atol=1e-7)
    for step, gamma in [(1.0, 0.25), (0.4, 1.0), (0.25, 0.25), (0.7, 0.5)]:
        found = problem.smooth.gradient_step(x, at, step, gamma=gamma).to_dense()
        assert_allclose(found, dense - step * gradient(dense, gamma), atol=1e-6)
    z, other, _, _ = setting(3)
    expected = smooth(dense) - smooth(other) - np.sum(gradient(other) * (dense - other))
    assert_allclose(problem.smooth.curvature(x, at, z, problem.at_observed(z)), expected, rtol=1e-6, atol=1e-6)
    assert_allclose(problem.smooth.prox_dense(dense, 0.3), naive_prox(penalty, dense + B, ~seen, 0.3) - B, atol=1e-12)
    assert problem.convex == penalty.convex
    assert_allclose(problem.smooth.least_discrete, DiscreteTerm(penalty, observations).least)


def test_problems_with_other_columns_are_refused():
    """A table with other columns than the penalty is refused when the problem is made, with both numbers."""
    observations = Observations.from_dense(np.ones((3, 4)))
    with pytest.raises(ValueError, match="9 columns have a penalty, but the table has 4"):
        Problem(observations, Nuclear(1.0), MIXED)
    with pytest.raises(ValueError, match="9 columns have a penalty, but the table has 4"):
        _ = DiscreteTerm(MIXED, observations).parts


def test_penalties_of_no_strength_are_no_discrete_term():
    """Columns without any penalty make the problem the one without a discrete term."""
    x, _, _, observations = setting(0)
    nothing = Problem(observations, Nuclear(1.0), ByColumn([None, L1("0,1", 0.0)], [0, 1] * 4 + [0]))
    assert not nothing.is_discrete
    assert nothing.terms(x) == Problem(observations, Nuclear(1.0)).terms(x)


def test_one_group_of_all_columns_is_the_penalty_itself():
    """ByColumn with one penalty for all columns gives the terms and the imputed matrix of that penalty."""
    x, _, _, observations = setting(0)
    for one in (L1("1:5", 0.3), L2("1:5", 3.0), FractionalL0("1:3", 0.5, 0.1)):
        assert isinstance(one, CellPenalty) == (not isinstance(one, L2))
        plain, grouped = (Problem(observations, Nuclear(1.0), p) for p in (one, ByColumn([one], [0] * 9)))
        assert_allclose(grouped.terms(x).discrete, plain.terms(x).discrete, rtol=1e-10)
        at = plain.at_observed(x)
        assert_allclose(grouped.smooth.imputed(x, at).to_dense(), plain.smooth.imputed(x, at).to_dense(), atol=1e-10)
