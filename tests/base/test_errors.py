"""Errors about arguments: what they carry, and how the command says them."""

import pickle
from dataclasses import fields

import pytest
import typer

from snapimpute.app.cli._options import Fitting, Reading
from snapimpute.app.cli._wording import OPTIONS, in_options
from snapimpute.app.cli.fit import fit
from snapimpute.base import errors
from snapimpute.base.errors import ArgumentError, ArgumentName, Setting, Value, inside
from snapimpute.data.alphabet import Alphabet
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.solvers import FitOptions

KINDS = [
    (ArgumentError, ValueError),
    (errors.MissingPackageError, ImportError),
    (errors.MissingDeviceError, RuntimeError),
    (errors.DeviceMemoryError, MemoryError),
]


@pytest.mark.parametrize(("kind", "builtin"), KINDS)
def test_an_error_survives_pickling(kind, builtin):
    """A worker of a cluster hands it over whole: the class, the argument, the value and the sentence."""
    err = kind("backend", ["gpu"], ArgumentName("backend"), " is not ", Setting("backend", "gpu"))
    assert isinstance(kind.__new__(kind), kind)  # so does tblib, which Dask loads
    copy = pickle.loads(pickle.dumps(err))  # noqa: S301  our own
    assert type(copy) is kind
    assert isinstance(copy, builtin)
    assert (copy.argument, copy.value, str(copy)) == ("backend", ["gpu"], 'backend is not backend="gpu"')


@pytest.mark.parametrize(
    ("argument", "value", "call"),
    [
        ("k", 0, lambda: SnapImputer("1:2", method="proximal").fit([[1, 2], [2, None]]).recommend(0, 0)),
        ("max_iter", 0, lambda: FitOptions(max_iter=0)),
        ("dtype", "int", lambda: FitOptions(dtype="int")),
        ("alphabet", None, lambda: SnapImputer().fit([[1, 2], [2, None]])),
        ("decide", "best", lambda: SnapImputer("1:2", decide="best", method="proximal").fit([[1, 2], [2, None]])),
        ("values", "x", lambda: Alphabet.of(["low", "high"]).encode(np_objects("low", "x"))),
        ("X", 7.0, lambda: SnapImputer("1:2", method="proximal").fit([[1, 7], [2, None]])),
    ],
)
def test_an_error_names_its_argument_and_its_value(argument, value, call):
    """Programs need not read the sentence."""
    with pytest.raises(ArgumentError) as caught:
        call()
    assert (caught.value.argument, caught.value.value) == (argument, value)


def np_objects(*values):
    import numpy as np

    return np.array(values, dtype=object)


def test_a_place_comes_first_and_the_argument_stays():
    """A file says where the value is; an error of another kind stays a ValueError with the place before it."""
    err = inside("x.csv", ArgumentError.must("k", 0, "be at least 1"))
    assert (str(err), err.argument, err.value) == ("x.csv: k must be at least 1, got 0", "k", 0)
    assert repr(inside("x.csv", ValueError("odd"))) == "ValueError('x.csv: odd')"


@pytest.mark.parametrize(
    ("parts", "library", "command"),
    [
        ((Setting("alphabet", ["no", "yes"]),), "alphabet=['no', 'yes']", "--alphabet no,yes"),
        ((Setting("missing", [99]),), "missing=[99]", "--missing 99"),
        ((Setting("discrete", None),), "discrete=None", "--discrete none"),
        ((Setting("random_state", 3),), "random_state=3", "--seed 3"),
        ((ArgumentName("min_confidence"), " must"), "min_confidence must", "--min-confidence must"),
        ((Setting("theta", 2.0), ArgumentName("rows")), "theta=2.0rows", "theta=2.0rows"),
        (
            ("not in ", Value("alphabet", Alphabet.of("1:3"))),
            "not in Alphabet([1, 2, 3])",
            "not in the alphabet 1, 2, 3",
        ),
    ],
)
def test_the_command_says_it_with_its_options(parts, library, command):
    """Arguments without an option keep their name."""
    err = ArgumentError("a", 1, *parts)
    assert (str(err), in_options(err)) == (library, command)
    assert in_options(KeyError("odd")) == "'odd'"


def test_every_option_that_an_error_names_is_there():
    """In `fit`, under the argument's own name or another."""
    app = typer.Typer()
    app.command()(fit)
    there = {name for one in typer.main.get_command(app).params for name in one.opts}
    assert set(OPTIONS.values()) <= there
    named = {one.name for one in (*fields(Fitting), *fields(Reading))}
    assert {name for name in OPTIONS if name not in named} == {"random_state"}
