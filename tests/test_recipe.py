"""A recipe builds the problem that its names say, with the offsets of the baselines."""

from __future__ import annotations

import numpy as np
import pytest

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
from snapimpute.baselines import ConstantMean, DampedBiases
from snapimpute.estimator import SnapImputer
from snapimpute.recipe import DISCRETE, SPECTRAL, Recipe, offsets

ALPHABET = Alphabet.of("1:5")
NAMES = [*DISCRETE, "ridge"]
CENTERS = (None, "mean", "biases")


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


def test_no_centre_has_no_offsets(observations):
    """Without a centre nothing is subtracted."""
    assert offsets(observations, None) is None
    assert Recipe(ALPHABET).problem(observations, 1.0, 0.0).offsets is None


def test_offsets_see_the_given_observations_only(observations):
    """The centre is one of the observations given, so held-out ones cannot leak into it."""
    kept, _ = observations.split(0.4)
    B = Recipe(ALPHABET, center="mean").problem(kept, 1.0, 0.0).offsets
    assert B.entries(0, 0) == pytest.approx(kept.values.mean())
    assert kept.values.mean() != pytest.approx(observations.values.mean())


# -------------------------------------------------------------------- names
@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("discrete", [*NAMES, None])
@pytest.mark.parametrize("spectral", SPECTRAL)
def test_every_name_builds_a_problem_with_its_strengths(observations, spectral, discrete, center):
    """Every combination of names gives a problem that holds λ and ξ as given."""
    recipe = Recipe(ALPHABET, spectral, discrete, center)
    problem = recipe.problem(observations, lam=2.5, xi=0.25)
    assert problem.observations is observations
    assert (problem.spectral.name, problem.spectral.lam) == (spectral, 2.5)
    assert recipe.lam_is_open
    assert recipe.xi_is_open == (discrete is not None)
    if discrete is None:
        assert problem.discrete is None
    else:
        m, n = observations.shape
        unit = (m * n - len(observations)) ** 0.5 if discrete == "l2" else 1.0  # ξ of a norm is for each entry
        assert problem.discrete.xi == pytest.approx(0.25 * unit)


def test_names_mean_their_penalties(observations):
    """Each discrete name builds its class, with the parameters that come from the data."""
    built = {name: Recipe(ALPHABET, discrete=name).problem(observations, 1.0, 0.1).discrete for name in NAMES}
    assert {name: type(p) for name, p in built.items()} == penalties.DISCRETE | {"ridge": Ridge}
    assert built["ridge"].center == pytest.approx(observations.values.mean())
    for name in DISCRETE:
        assert built[name].alphabet == ALPHABET
        assert name == "l1-composed" or built[name].weights.tolist() == [1, 1, 1, 1, 1]
    assert (built["lp"].p, built["l0-fractional"].alpha) == (0.5, 0.05)
    halves = Alphabet.of("0,0.5,3")
    coded = observations.with_values(halves.symbols[observations.values.astype(int) % 3])
    assert Recipe(halves, discrete="l0-fractional").problem(coded, 1.0, 0.1).discrete.alpha == 0.05 * 0.25


@pytest.mark.parametrize("name", [name for name in DISCRETE if name != "l1-composed"])
def test_weights_of_symbols(observations, name):
    """Weights are K times the observed frequencies, or those given, of every penalty that takes them."""
    frequent = Recipe(ALPHABET, discrete=name, weights="frequency").problem(observations, 1.0, 0.1).discrete
    np.testing.assert_allclose(frequent.weights, 5 * ALPHABET.frequencies(observations.values))
    given = Recipe(ALPHABET, discrete=name, weights=[1, 0, 2, 0.5, 1]).problem(observations, 1.0, 0.1).discrete
    np.testing.assert_array_equal(given.weights, [1, 0, 2, 0.5, 1])


@pytest.mark.parametrize("discrete", ["l1-composed", "ridge", None, L1("1:5", 0.1)])
def test_weights_without_a_penalty_to_take_them_are_refused(discrete):
    """The error names the penalty and the weights."""
    with pytest.raises(ValueError, match="takes no weights here, got weights='frequency'"):
        Recipe(ALPHABET, discrete=discrete, weights="frequency")


def test_wrong_weights_are_refused():
    """A name other than "frequency" is an error at once."""
    with pytest.raises(ValueError, match="weights must be None"):
        Recipe(ALPHABET, weights="uniform")


@pytest.mark.parametrize(
    ("discrete", "unit"),
    [
        *(("l1", 0.5), ("l1-composed", 0.5), ("l0", 0.25), ("l0-fractional", 0.25)),
        *(("lp", 0.5**1.5), ("l2", 0.5), ("ridge", 1.0), (None, 1.0)),
    ],
)
def test_the_unit_of_xi(discrete, unit):
    """ξ is measured such that the penalty scales with the symbols as the fit does."""
    assert Recipe(Alphabet.of("0,0.5,3"), discrete=discrete).xi_unit == pytest.approx(unit)


def test_penalties_by_column_are_refused():
    """A recipe decides by one alphabet: with several the error says what to use."""
    with pytest.raises(ValueError, match=r"several alphabets.*use Problem and solve"):
        Recipe(ALPHABET, discrete=ByColumn([L1("1:5", 0.1)], [0, 0]))


def test_every_spectral_penalty_has_its_name():
    """Whatever penalty there is can be had by its name, and there are no other names."""
    assert list(SPECTRAL) == list(penalties.SPECTRAL)
    for name, build in SPECTRAL.items():
        assert type(build(1.0)) is penalties.SPECTRAL[name]


def test_every_spectral_name_is_documented():
    """The descriptions of the parameter name every choice."""
    for text in (Recipe.__doc__, SnapImputer.__doc__):
        assert [name for name in SPECTRAL if f'"{name}"' not in text] == []
    assert [name for name in NAMES if f'"{name}"' not in SnapImputer.__doc__] == []


@pytest.mark.parametrize("lam", [0.3, 400.0])
def test_spectral_names_have_their_defaults(lam):
    """λ alone makes each penalty: θ = √λ for the log-sum, θ = 2λ for the capped ℓ1, r = 3, γ = 3, a = 3.7."""
    built = {name: build(lam) for name, build in SPECTRAL.items()}
    assert built == {
        "nuclear": Nuclear(lam),
        "lsp": LogSum(lam, np.sqrt(lam)),
        "capped-l1": CappedL1(lam, 2 * lam),
        "tnn": TruncatedNuclear(lam, 3),
        "mcp": MCP(lam, 3.0),
        "scad": SCAD(lam, 3.7),
        "rank": Rank(lam),
    }


@pytest.mark.parametrize("name", SPECTRAL)
def test_lambda_zero_is_no_error(name):
    """Without strength every name gives a penalty that changes nothing."""
    penalty = SPECTRAL[name](0.0)
    assert penalty.threshold() == 0
    np.testing.assert_allclose(penalty.prox([5.0, 4.0, 3.0, 2.0, 1e-3]), [5.0, 4.0, 3.0, 2.0, 1e-3], rtol=1e-15)


@pytest.mark.parametrize("lam", [0.0, 0.3, 400.0])
def test_lsp_takes_theta_from_lambda(lam):
    """With θ = √λ the log-sum penalty cuts singular values at √λ; λ = 0 is no error."""
    penalty = SPECTRAL["lsp"](lam)
    assert isinstance(penalty, LogSum)
    assert penalty.threshold() == pytest.approx(np.sqrt(lam), abs=1e-12)


def test_penalty_objects_keep_their_own_strengths(observations):
    """A penalty object is used as it is, and its strength is not open."""
    spectral, discrete = Nuclear(7.0), L1("0:9", xi=0.5)
    recipe = Recipe(ALPHABET, spectral, discrete)
    assert not recipe.lam_is_open
    assert not recipe.xi_is_open
    problem = recipe.problem(observations, lam=1.0, xi=0.0)
    assert problem.spectral is spectral
    assert problem.discrete is discrete


# -------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("wrong", "choices"),
    [
        ({"spectral": "nuclear norm"}, SPECTRAL),
        ({"spectral": None}, SPECTRAL),
        ({"spectral": L1("1:5", 0.1)}, SPECTRAL),
        ({"discrete": "L1"}, NAMES),
        ({"discrete": Nuclear(1.0)}, NAMES),
        ({"center": "median"}, {"mean": 0, "biases": 0}),
        ({"center": "auto"}, {"mean": 0, "biases": 0}),
    ],
)
def test_a_wrong_name_is_refused_with_the_choices(wrong, choices):
    """The error names the parameter, every choice, and what was given."""
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be") as caught:
        Recipe(ALPHABET, **wrong)
    for name in (*choices, next(iter(wrong.values()))):
        assert repr(name) in str(caught.value).replace('"', "'")
