"""A recipe builds the problem that its names say, with the offsets of the baselines."""

from __future__ import annotations

import numpy as np
import pytest

from snapimpute import (
    L1,
    MCP,
    SCAD,
    Alphabet,
    CappedL1,
    ComposedL1,
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
@pytest.mark.parametrize("discrete", [*DISCRETE, None])
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
        assert problem.discrete.xi == 0.25


def test_names_mean_their_penalties(observations):
    """Each discrete name builds its class, with the parameters that come from the data."""
    built = {name: Recipe(ALPHABET, discrete=name).problem(observations, 1.0, 0.1).discrete for name in DISCRETE}
    assert {name: type(p) for name, p in built.items()} == {
        "l1": L1,
        "l1-weighted": L1,
        "l1-composed": ComposedL1,
        "ridge": Ridge,
    }
    np.testing.assert_array_equal(built["l1"].weights, np.ones(5))
    np.testing.assert_allclose(built["l1-weighted"].weights, 5 * ALPHABET.frequencies(observations.values))
    assert built["ridge"].center == pytest.approx(observations.values.mean())
    for name in ("l1", "l1-weighted", "l1-composed"):
        assert built[name].alphabet == ALPHABET


def test_every_spectral_penalty_has_its_name():
    """Whatever penalty there is can be had by its name, and there are no other names."""
    assert list(SPECTRAL) == list(penalties.SPECTRAL)
    for name, build in SPECTRAL.items():
        assert type(build(1.0)) is penalties.SPECTRAL[name]


def test_every_spectral_name_is_documented():
    """The descriptions of the parameter name every choice."""
    for text in (Recipe.__doc__, SnapImputer.__doc__):
        assert [name for name in SPECTRAL if f'"{name}"' not in text] == []


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
        ({"discrete": "L1"}, DISCRETE),
        ({"discrete": Nuclear(1.0)}, DISCRETE),
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
