"""A model specification builds the problem that its names say, with the offsets of the baselines."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapimpute import (
    L1,
    MCP,
    SCAD,
    Alphabet,
    ByColumn,
    CappedL1,
    LogSum,
    Nuclear,
    Observations,
    Rank,
    Ridge,
    TruncatedNuclear,
    penalties,
)
from snapimpute.data.schema import ColumnSchema
from snapimpute.evaluation.baselines import ConstantMean, DampedBiases
from snapimpute.experts.proximal.expert import Proximal
from snapimpute.experts.proximal.offsets import DAMPING, DAMPINGS, KnownCells, best_damping, offsets
from snapimpute.experts.proximal.spec import DISCRETE_BY_XI, SPECTRAL_BY_LAM, ModelSpec, smallest_gap

ALPHABET = Alphabet.of("1:5")
NAMES = [*DISCRETE_BY_XI, "ridge"]
CENTERS = (None, "mean", "rows", "columns", "biases")


@pytest.fixture
def observations() -> Observations:
    rng = np.random.default_rng(3)
    X = rng.integers(1, 6, size=(9, 7)).astype(float)
    X[rng.random(X.shape) < 0.5] = np.nan
    X[4], X[:, 2] = np.nan, np.nan  # a row and a column without any observation
    return Observations.from_dense(X)


def all_cells(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    rows, cols = np.indices(shape)
    return rows.ravel(), cols.ravel()


# -------------------------------------------------------------------- offsets
@pytest.mark.parametrize(("center", "baseline"), [("mean", ConstantMean), ("biases", DampedBiases)])
def test_offsets_are_the_baseline_at_every_cell(observations, center, baseline):
    """The matrix that is subtracted is the baseline of the same name, also in empty rows and columns."""
    cells = all_cells(observations.shape)
    B = offsets(observations, center)
    np.testing.assert_allclose(B.entries(*cells), baseline.fit(observations).entries(*cells), rtol=1e-14)


def lane_means(lanes: np.ndarray, size: int, values: np.ndarray, damping: float) -> np.ndarray:
    """How far the mean of each lane lies from that of all, damped."""
    centred = values - values.mean()
    return np.array([centred[lanes == i].sum() / ((lanes == i).sum() + damping) for i in range(size)])


@given(st.sampled_from(DAMPINGS), st.sampled_from(DAMPINGS), st.integers(0, 2**32 - 1))
def test_offsets_of_rows_or_columns_are_damped_means(damping_rows, damping_cols, seed):
    """Only one damping counts: each row, or column, is as far from the mean as its damped mean says."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((6, 5)) < 0.5, rng.integers(1, 6, (6, 5)), np.nan)
    X[0, 0], X[:, 3], X[2] = 4.0, np.nan, np.nan
    obs, damping = Observations.from_dense(X), (damping_rows, damping_cols)
    found = {center: offsets(obs, center, damping).entries(*all_cells(obs.shape)) for center in ("rows", "columns")}
    mean = obs.values.mean()
    by_row = mean + lane_means(obs.rows, 6, obs.values, damping_rows)[:, None] + np.zeros(5)
    by_col = mean + lane_means(obs.cols, 5, obs.values, damping_cols) + np.zeros((6, 1))
    np.testing.assert_allclose(found["rows"].reshape(6, 5), by_row, rtol=1e-13)
    np.testing.assert_allclose(found["columns"].reshape(6, 5), by_col, rtol=1e-13)


def test_offsets_of_biases_take_both_dampings(observations):
    """The biases are those of the baseline with the same dampings, in the specification as well."""
    cells = all_cells(observations.shape)
    expected = DampedBiases.fit(observations, damping_rows=2.0, damping_cols=30.0).entries(*cells)
    for B in (
        offsets(observations, "biases", (2.0, 30.0)),
        ModelSpec(ALPHABET, center="biases", damping=(2.0, 30.0)).problem(observations, 1.0, 0.0).offsets,
    ):
        np.testing.assert_allclose(B.entries(*cells), expected, rtol=1e-13)


def test_biases_of_the_mean_are_none(observations):
    """The centre "mean" has a mean and no biases, whatever the damping."""
    fitted = KnownCells(observations).biases("mean", (1.0, 1.0))
    assert fitted.mean == pytest.approx(observations.values.mean())
    assert not fitted.row_biases.any()
    assert not fitted.col_biases.any()


# -------------------------------------------------------------------- the damping
def lost(obs: Observations, center: str, damping: tuple[float, float], seed: int) -> float:
    kept, held = obs.split(0.2, random_state=seed)
    d_rows, d_cols = np.inf if center == "columns" else damping[0], np.inf if center == "rows" else damping[1]
    fitted = DampedBiases.fit(kept, damping_rows=d_rows, damping_cols=d_cols)
    return float(np.mean((fitted.entries(held.rows, held.cols) - held.values) ** 2))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
def test_the_best_damping_is_that_of_the_grid(spread, seed):
    """Of rows or columns alone it is the least of all; of both, of rows first and then of columns."""
    rng = np.random.default_rng(seed)
    X = spread * rng.normal(size=(30, 1)) + spread * rng.normal(size=25) + rng.normal(size=(30, 25))
    obs = Observations.from_dense(np.where(rng.random(X.shape) < 0.3, X, np.nan))
    found = {center: best_damping(obs, center, random_state=seed) for center in ("rows", "columns", "biases")}
    for center, place in (("rows", 0), ("columns", 1)):
        others = [(d, DAMPING[1]) if place == 0 else (DAMPING[0], d) for d in DAMPINGS]
        assert found[center] == min(others, key=lambda one: lost(obs, center, one, seed))
    rows, cols = found["biases"]
    assert rows == min(DAMPINGS, key=lambda d: lost(obs, "biases", (d, DAMPING[1]), seed))
    assert cols == min(DAMPINGS, key=lambda d: lost(obs, "biases", (rows, d), seed))
    assert lost(obs, "biases", (rows, cols), seed) <= lost(obs, "biases", DAMPING, seed)


def test_the_damping_follows_the_biases():
    """Rows that differ much are hardly damped, rows that do not differ as much as can be."""
    rng = np.random.default_rng(0)
    for spread, expected in ((30.0, DAMPINGS[0]), (0.0, DAMPINGS[-1])):
        X = spread * rng.normal(size=(60, 1)) + rng.normal(size=(60, 40))
        assert best_damping(Observations.from_dense(X), "rows") == (expected, DAMPING[1])


@pytest.mark.parametrize("center", [None, "mean"])
def test_without_biases_there_is_no_damping_to_choose(center):
    """Nothing is held out where nothing depends on it: one cell is enough."""
    assert best_damping(Observations.from_dense([[1.0]]), center) == DAMPING


def test_no_centre_has_no_offsets(observations):
    """Without a centre nothing is subtracted."""
    assert offsets(observations, None) is None
    assert ModelSpec(ALPHABET).problem(observations, 1.0, 0.0).offsets is None


def test_offsets_see_the_given_observations_only(observations):
    """The centre is one of the observations given, so held-out ones cannot leak into it."""
    kept, _ = observations.split(0.4)
    B = ModelSpec(ALPHABET, center="mean").problem(kept, 1.0, 0.0).offsets
    assert B.entries(0, 0) == pytest.approx(kept.values.mean())
    assert kept.values.mean() != pytest.approx(observations.values.mean())


# -------------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("spectral", "discrete", "center"),
    [
        *((spectral, "l1", "mean") for spectral in SPECTRAL_BY_LAM),
        *(("nuclear", discrete, "mean") for discrete in [*NAMES, None]),
        *(("nuclear", "l1", center) for center in CENTERS),
    ],
)
def test_every_name_builds_a_problem_with_its_strengths(observations, spectral, discrete, center):
    """Every name gives a problem that holds λ and ξ as given."""
    spec = ModelSpec(ALPHABET, spectral, discrete, center)
    problem = spec.problem(observations, lam=2.5, xi=0.25)
    assert problem.observations is observations
    assert (problem.spectral.name, problem.spectral.lam) == (spectral, 2.5)
    assert spec.lam_is_open
    assert spec.xi_is_open == (discrete is not None)
    if discrete is None:
        assert problem.discrete is None
    else:
        m, n = observations.shape
        unit = (m * n - len(observations)) ** 0.5 if discrete == "l2" else 1.0  # ξ of a norm is for each entry
        assert problem.discrete.xi == pytest.approx(0.25 * unit)


def test_names_mean_their_penalties(observations):
    """Each discrete name builds its class, with the parameters that come from the data."""
    built = {name: ModelSpec(ALPHABET, discrete=name).problem(observations, 1.0, 0.1).discrete for name in NAMES}
    assert {name: type(p) for name, p in built.items()} == penalties.DISCRETE | {"ridge": Ridge}
    assert built["ridge"].center == pytest.approx(observations.values.mean())
    for name in DISCRETE_BY_XI:
        assert built[name].alphabet == ALPHABET
        assert name == "l1-composed" or built[name].weights.tolist() == [1, 1, 1, 1, 1]
    assert (built["lp"].p, built["l0-fractional"].alpha) == (0.5, 0.05)
    halves = Alphabet.of("0,0.5,3")
    coded = observations.with_values(halves.symbols[observations.values.astype(int) % 3])
    assert ModelSpec(halves, discrete="l0-fractional").problem(coded, 1.0, 0.1).discrete.alpha == 0.05 * 0.25


@pytest.mark.parametrize("name", [name for name in DISCRETE_BY_XI if name != "l1-composed"])
def test_weights_of_symbols(observations, name):
    """Weights are K times the observed frequencies, or those given, of every penalty that takes them."""
    frequent = ModelSpec(ALPHABET, discrete=name, weights="frequency").problem(observations, 1.0, 0.1).discrete
    np.testing.assert_allclose(frequent.weights, 5 * ALPHABET.frequencies(observations.values))
    given = ModelSpec(ALPHABET, discrete=name, weights=[1, 0, 2, 0.5, 1]).problem(observations, 1.0, 0.1).discrete
    np.testing.assert_array_equal(given.weights, [1, 0, 2, 0.5, 1])


@pytest.mark.parametrize("discrete", ["l1-composed", "ridge", None, L1("1:5", 0.1)])
def test_weights_without_a_penalty_to_take_them_are_refused(discrete):
    """The error names the penalty and the weights."""
    with pytest.raises(ValueError, match='takes no weights here, got weights="frequency"'):
        ModelSpec(ALPHABET, discrete=discrete, weights="frequency")


def test_wrong_weights_are_refused():
    """A name other than "frequency" is an error at once."""
    with pytest.raises(ValueError, match="weights must be None"):
        ModelSpec(ALPHABET, weights="uniform")


@pytest.mark.parametrize(
    ("discrete", "unit"),
    [
        *(("l1", 0.5), ("l1-composed", 0.5), ("l0", 0.25), ("l0-fractional", 0.25)),
        *(("lp", 0.5**1.5), ("l2", 0.5), ("ridge", 1.0), (None, 1.0)),
    ],
)
def test_the_unit_of_xi(discrete, unit):
    """ξ is measured such that the penalty scales with the symbols as the fit does."""
    assert ModelSpec(Alphabet.of("0,0.5,3"), discrete=discrete).xi_unit == pytest.approx(unit)


@pytest.mark.parametrize("alphabet", [ALPHABET, ColumnSchema.of(["0,1", "1:5"], 2)])
def test_penalties_by_column_are_refused(alphabet):
    """They are built from the alphabets of the columns, not given: the error says what to use."""
    with pytest.raises(ValueError, match=r"ByColumn\(...\) brings its own alphabets: use Problem and solve"):
        ModelSpec(alphabet, discrete=ByColumn([L1("1:5", 0.1)], [0, 0]))


# -------------------------------------------------------------------- several alphabets
BOOK = ColumnSchema.of({0: "0,1", 1: "0,0.5,3", 2: None, 3: "0,1", 5: "0,0.5,3", 6: [7.0]}, 7, leave=False)
ALONE = ColumnSchema(BOOK.kinds[:2], np.where((BOOK.which < 0) | (BOOK.which > 1), -1, BOOK.which))
"""Two columns of each of two alphabets, two of any number, one of one symbol; or these three left alone."""


def mixed() -> Observations:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(10, 7))
    for alphabet, cols in BOOK.groups:
        if alphabet is not None:
            X[:, cols] = alphabet.symbols[rng.integers(len(alphabet), size=(10, cols.size))]
    X[rng.random(X.shape) < 0.3] = np.nan
    return Observations.from_dense(X)


def by_alphabet(penalty: ByColumn) -> dict[Alphabet | None, tuple[float | None, list[int]]]:
    return {
        None if one is None else one.alphabet: (None if one is None else one.xi, cols.tolist())
        for one, cols in penalty.groups()
    }


@pytest.mark.parametrize("name", [name for name in DISCRETE_BY_XI if name != "l2"])
def test_each_alphabet_has_its_penalty_in_its_unit(name):
    """A column is pulled to its own symbols, with ξ in units of their distance; any number is not pulled."""
    spec = ModelSpec(BOOK, discrete=name)
    penalty = spec.problem(mixed(), 1.0, 0.1).discrete
    unit = 0.5 ** DISCRETE_BY_XI[name].power
    assert spec.xi_unit == 1.0
    assert by_alphabet(penalty) == {
        Alphabet.of("0,1"): (0.1, [0, 3]),
        Alphabet.of("0,0.5,3"): (pytest.approx(0.1 * unit), [1, 5]),
        None: (None, [2, 4]),
        Alphabet.of([7.0]): (0.1, [6]),
    }
    assert {type(one) for one in penalty.penalties if one is not None} == {penalties.DISCRETE[name]}


def test_the_norm_of_each_alphabet_is_that_of_its_cells():
    """ξ of "l2" is for each entry: the norm over a group is as strong as the group has unobserved cells."""
    obs = mixed()
    found = by_alphabet(ModelSpec(BOOK, discrete="l2").problem(obs, 1.0, 0.1).discrete)
    for alphabet, cols in BOOK.groups:
        if alphabet is not None:
            hidden = 10 * cols.size - np.isin(obs.cols, cols).sum()
            assert found[alphabet][0] == pytest.approx(0.1 * smallest_gap(alphabet) * math.sqrt(hidden))


def test_frequencies_are_those_of_the_group():
    """The weights of an alphabet go by the columns that have it, and no others."""
    obs = mixed()
    penalty = ModelSpec(BOOK, weights="frequency").problem(obs, 1.0, 0.1).discrete
    for one, cols in penalty.groups():
        if one is not None:
            seen = obs.values[np.isin(obs.cols, cols)]
            expected = [len(one.alphabet) * np.mean(seen == a) for a in one.alphabet]
            np.testing.assert_allclose(one.weights, expected)


def test_a_group_without_observation_has_equal_weights():
    """Where nothing was seen no symbol is more frequent."""
    obs = mixed()
    some = obs.take(~np.isin(obs.cols, [1, 5]))
    penalty = ModelSpec(BOOK, weights="frequency").problem(some, 1.0, 0.1).discrete
    assert [one.weights.tolist() for one, cols in penalty.groups() if 1 in cols] == [[1, 1, 1]]


@pytest.mark.parametrize("name", ["l1", "l0"])
def test_columns_left_alone_have_no_penalty(name):
    """They keep their place in the table, and are not pulled."""
    penalty = ModelSpec(ALONE, discrete=name).problem(mixed(), 1.0, 0.1).discrete
    assert penalty.which.size == 7
    assert by_alphabet(penalty)[None] == (None, [2, 4, 6])
    x = np.full((1, 7), 0.3)
    moved = penalty.prox(x)[0] != 0.3
    assert not moved[[2, 4, 6]].any()


@pytest.mark.parametrize(("book", "xi"), [(BOOK, 0.0), (ColumnSchema.of([None, None], 2), 0.1)])
def test_nothing_to_pull_is_no_penalty(book, xi):
    """With ξ = 0, or without any alphabet, the problem has no discrete term."""
    obs = mixed() if book is BOOK else Observations.from_dense([[1.0, 2.5]])
    assert ModelSpec(book).problem(obs, 1.0, xi).discrete is None


def test_the_control_knows_no_alphabet():
    """The ridge pulls all columns to the mean, also where they have several alphabets."""
    obs = mixed()
    penalty = ModelSpec(BOOK, discrete="ridge").problem(obs, 1.0, 0.1).discrete
    assert (type(penalty), penalty.xi) == (Ridge, 0.1)
    assert penalty.center == pytest.approx(obs.values.mean())


def test_the_book_of_a_recipe():
    """One alphabet is that of every column; a column schema is used as it is."""
    assert ModelSpec(BOOK).book(7) is BOOK
    single = ModelSpec(ALPHABET).book(3)
    assert (single.one, single.which.tolist()) == (ALPHABET, [0, 0, 0])


def test_a_penalty_object_is_refused_with_several_alphabets():
    """It has one alphabet: the error shows it, and says to name the penalty."""
    with pytest.raises(ValueError, match=r"L1\(.*\) has one alphabet, the table has several: name the penalty"):
        ModelSpec(BOOK, discrete=L1("1:5", 0.1))


def test_weights_must_fit_every_alphabet():
    """Weights that are given have one length; an alphabet of another is refused."""
    with pytest.raises(ValueError, match="weights must hold one number for each of the 3 symbols"):
        ModelSpec(BOOK, weights=[1.0, 2.0]).problem(mixed(), 1.0, 0.1)


def test_every_spectral_penalty_has_its_name():
    """Whatever penalty there is can be had by its name, and there are no other names."""
    assert list(SPECTRAL_BY_LAM) == list(penalties.SPECTRAL)
    for name, build in SPECTRAL_BY_LAM.items():
        assert type(build(1.0)) is penalties.SPECTRAL[name]


def test_every_spectral_name_is_documented():
    """The descriptions of the parameter name every choice."""
    for text in (ModelSpec.__doc__, Proximal.__doc__):
        assert [name for name in SPECTRAL_BY_LAM if f'"{name}"' not in text] == []
    assert [name for name in NAMES if f'"{name}"' not in Proximal.__doc__] == []


@pytest.mark.parametrize("lam", [0.3, 400.0])
def test_spectral_names_have_their_defaults(lam):
    """λ alone makes each penalty: θ = √λ for the log-sum, θ = 2λ for the capped ℓ1, r = 3, γ = 3, a = 3.7."""
    built = {name: build(lam) for name, build in SPECTRAL_BY_LAM.items()}
    assert built == {
        "nuclear": Nuclear(lam),
        "lsp": LogSum(lam, np.sqrt(lam)),
        "capped-l1": CappedL1(lam, 2 * lam),
        "tnn": TruncatedNuclear(lam, 3),
        "mcp": MCP(lam, 3.0),
        "scad": SCAD(lam, 3.7),
        "rank": Rank(lam),
    }


@pytest.mark.parametrize("name", SPECTRAL_BY_LAM)
def test_lambda_zero_is_no_error(name):
    """Without strength every name gives a penalty that changes nothing."""
    penalty = SPECTRAL_BY_LAM[name](0.0)
    assert penalty.threshold() == 0
    np.testing.assert_allclose(penalty.prox([5.0, 4.0, 3.0, 2.0, 1e-3]), [5.0, 4.0, 3.0, 2.0, 1e-3], rtol=1e-15)


@pytest.mark.parametrize("lam", [0.0, 0.3, 400.0])
def test_lsp_takes_theta_from_lambda(lam):
    """With θ = √λ the log-sum penalty cuts singular values at √λ; λ = 0 is no error."""
    penalty = SPECTRAL_BY_LAM["lsp"](lam)
    assert isinstance(penalty, LogSum)
    assert penalty.threshold() == pytest.approx(np.sqrt(lam), abs=1e-12)


def test_penalty_objects_keep_their_own_strengths(observations):
    """A penalty object is used as it is, and its strength is not open."""
    spectral, discrete = Nuclear(7.0), L1("0:9", xi=0.5)
    spec = ModelSpec(ALPHABET, spectral, discrete)
    assert not spec.lam_is_open
    assert not spec.xi_is_open
    problem = spec.problem(observations, lam=1.0, xi=0.0)
    assert problem.spectral is spectral
    assert problem.discrete is discrete


# -------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("wrong", "choices"),
    [
        ({"spectral": "nuclear norm"}, SPECTRAL_BY_LAM),
        ({"spectral": None}, SPECTRAL_BY_LAM),
        ({"spectral": L1("1:5", 0.1)}, SPECTRAL_BY_LAM),
        ({"discrete": "L1"}, NAMES),
        ({"discrete": Nuclear(1.0)}, NAMES),
        ({"center": "median"}, CENTERS[1:]),
        ({"center": "auto"}, CENTERS[1:]),
    ],
)
def test_a_wrong_name_is_refused_with_the_choices(wrong, choices):
    """The error names the parameter, every choice, and what was given."""
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be") as caught:
        ModelSpec(ALPHABET, **wrong)
    for name in (*choices, next(iter(wrong.values()))):
        assert repr(name) in str(caught.value).replace('"', "'")


def test_theta_may_be_given(observations):
    """For LSP and capped ℓ1; others have no use for it."""
    alphabet = Alphabet.of("1:5")
    assert ModelSpec(alphabet, "lsp", None, theta=7.0).problem(observations, 3.0, 0.0).spectral == LogSum(3.0, 7.0)
    assert ModelSpec(alphabet, "capped-l1", None, theta=7.0).spectral_at(3.0) == CappedL1(3.0, 7.0)
    assert ModelSpec(alphabet, "lsp", None).spectral_at(4.0) == LogSum(4.0, 2.0)
    with pytest.raises(ValueError, match=r'theta=7\.0 has no use with spectral="nuclear"'):
        ModelSpec(alphabet, theta=7.0)
