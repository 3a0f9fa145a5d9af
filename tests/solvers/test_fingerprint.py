"""Fingerprints of runs: the least change of a problem, a solver or a setting makes a file another one's."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.penalties import DISCRETE, SPECTRAL
from snapimpute.problem.losses import Multinomial, Squares, Thresholds
from snapimpute.solvers import APG, FPC, SOLVERS
from snapimpute.solvers.base import State
from snapimpute.solvers.checkpoint import Checkpoint, digest, fingerprint
from tests.solvers.saved_runs import SETTINGS, SMALL, build, of_state, refused, some_run, stepped

OBSERVED = build().observations


def with_value(at: int, value: float) -> si.Observations:
    values = OBSERVED.values.copy()
    values[at] = value
    return si.Observations.from_coo(OBSERVED.rows, OBSERVED.cols, values, OBSERVED.shape)


def base_problem(**change: Any) -> si.Problem:
    parts = {
        "observations": OBSERVED,
        "spectral": si.LogSum(lam=3.0, theta=2.0),
        "discrete": si.FractionalL0("1:5", xi=0.1, alpha=0.3),
        "offsets": si.LowRank.constant(SMALL, 2.0),
        "loss": Thresholds(np.array([0.0, 1.0])),
    }
    return si.Problem(**(parts | change))


def up(value: float) -> float:
    """The next number."""
    return math.nextafter(value, math.inf)


PROBLEMS = {
    "a value": (base_problem(observations=with_value(7, up(OBSERVED.values[7]))), "observations"),
    "lam": (base_problem(spectral=si.LogSum(lam=up(3.0), theta=2.0)), "spectral"),
    "theta": (base_problem(spectral=si.LogSum(lam=3.0, theta=up(2.0))), "spectral"),
    "another spectral": (base_problem(spectral=si.CappedL1(lam=3.0, theta=2.0)), "spectral"),
    "xi": (base_problem(discrete=si.FractionalL0("1:5", xi=up(0.1), alpha=0.3)), "discrete"),
    "alpha": (base_problem(discrete=si.FractionalL0("1:5", xi=0.1, alpha=up(0.3))), "discrete"),
    "alphabet": (base_problem(discrete=si.FractionalL0([1, 2, 3, 4, up(5)], xi=0.1, alpha=0.3)), "discrete"),
    "weights": (base_problem(discrete=si.FractionalL0("1:5", 0.1, 0.3, [1, 1, up(1), 1, 1])), "discrete"),
    "another discrete": (base_problem(discrete=si.L1("1:5", xi=0.1)), "discrete"),
    "no discrete": (base_problem(discrete=None), "discrete"),
    "offsets": (base_problem(offsets=si.LowRank.constant(SMALL, up(2.0))), "offsets"),
    "no offsets": (base_problem(offsets=None), "offsets"),
    "threshold": (base_problem(loss=Thresholds(np.array([0.0, up(1.0)]))), "loss"),
    "another loss": (base_problem(loss=Squares()), "loss"),
}


def unequal(a: dict[str, Any], b: dict[str, Any]) -> set[str]:
    return {name for name in {**a, **b} if a.get(name, {}).get("digest") != b.get(name, {}).get("digest")}


@pytest.mark.parametrize("name", PROBLEMS)
def test_fingerprint_sees_every_ingredient(name):
    """The least change of any part of a problem changes the digest of that part and of no other."""
    problem, part = PROBLEMS[name]
    reference = fingerprint(base_problem(), FPC(), SETTINGS)
    assert unequal(reference, fingerprint(problem, FPC(), SETTINGS)) == {part}


def test_fingerprint_sees_the_cells_and_the_shape():
    """The same values in other cells, or in a larger table, are other observations."""
    obs = OBSERVED
    moved = si.Observations.from_coo((obs.rows + 1) % SMALL[0], obs.cols, obs.values, obs.shape)
    turned = si.Observations.from_coo(obs.rows, (obs.cols + 1) % SMALL[1], obs.values, obs.shape)
    larger = si.Observations.from_coo(obs.rows, obs.cols, obs.values, (SMALL[0] + 1, SMALL[1]))
    assert len({digest(one) for one in (obs, moved, turned, larger)}) == 4


@pytest.mark.parametrize(
    ("solver", "changed", "part"),
    [
        (replace(FPC(), tau=up(FPC().tau)), {}, "solver"),
        (replace(FPC(), accuracy=up(FPC().accuracy)), {}, "solver"),
        (SOLVERS["fpca"](accuracy=FPC().accuracy), {}, "solver"),
        (FPC(), {"max_rank": 7}, "setting max_rank"),
        (FPC(), {"random_state": 6}, "setting random_state"),
        (FPC(), {"x0": si.LowRank.zeros(SMALL)}, "setting x0"),
        (FPC(), {"dtype": np.dtype(np.float32)}, "setting dtype"),
    ],
    ids=str,
)
def test_fingerprint_sees_solver_and_settings(solver, changed, part):
    """A hyperparameter, another solver, or a setting changes its own digest alone."""
    reference = fingerprint(base_problem(), FPC(), SETTINGS)
    assert unequal(reference, fingerprint(base_problem(), solver, SETTINGS | changed)) == {part}


NUMERIC = [
    *(si.Nuclear(1.0), si.LogSum(1.0, 2.0), si.CappedL1(1.0, 2.0), si.MCP(1.0, 2.5), si.SCAD(1.0, 3.0), si.Rank(1.0)),
    *(
        si.TruncatedNuclear(1.0, 2),
        si.L1("1:5", 0.5),
        si.ComposedL1("1:5", 0.5),
        si.L0("1:5", 0.5),
        si.L2("1:5", 0.5),
    ),
    *(si.FractionalL0("1:5", 0.5, 0.25), si.Lp("1:5", 0.5, 0.25), si.Ridge(3.0, 0.5), Multinomial(3)),
]


@pytest.mark.parametrize("value", NUMERIC, ids=repr)
def test_digest_sees_every_number(value):
    """Each number of each penalty counts, to the last bit."""
    numbers = {name: number for name, number in vars(value).items() if isinstance(number, int | float)}
    assert numbers
    for name, number in numbers.items():
        other = copy.copy(value)
        object.__setattr__(other, name, number + 1 if isinstance(number, int) else up(number))
        assert digest(other) != digest(value), name
        assert digest(copy.deepcopy(value)) == digest(value)


def test_every_penalty_is_tried():
    """The list of the test before has every penalty that there is."""
    assert {type(value) for value in NUMERIC} >= {*SPECTRAL.values(), *DISCRETE.values()}


def test_equal_copies_have_equal_fingerprints():
    """Other objects with equal values, other orders in memory, labels and spellings of numbers are the same run."""
    problem = base_problem()
    obs, offsets = problem.observations, problem.offsets
    labelled = si.Observations.from_coo(
        obs.rows.astype(np.int64), obs.cols, obs.values, obs.shape, row_labels=[f"r{i}" for i in range(SMALL[0])]
    )
    other = si.Problem(
        labelled,
        si.LogSum(lam=3, theta=np.float64(2.0)),
        copy.deepcopy(problem.discrete),
        si.LowRank(np.asfortranarray(offsets.U), offsets.s.copy(), offsets.V[::1]),
        copy.deepcopy(problem.loss),
    )
    _ = problem.targets, problem.smooth.scale  # what a problem computes for itself does not count
    settings_again = {"random_state": np.int64(5), "x0": None, "max_rank": None}
    before, now = fingerprint(problem, FPC(tau=1), SETTINGS), fingerprint(other, FPC(tau=1.0), settings_again)
    assert before.keys() == now.keys()
    assert unequal(before, now) == set()


class Cached:
    """An object that remembers a result."""

    def __init__(self, a: float) -> None:
        self.a = a

    @cached_property
    def twice(self) -> float:
        return 2 * self.a


def test_remembered_results_do_not_count():
    """An object that has computed something is still the same object; its parameters do count."""
    first, second = Cached(1.0), Cached(1.0)
    assert first.twice == 2.0
    assert digest(first) == digest(second) != digest(Cached(3.0))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, [2]], [[1], 2]),
        (["ab", "c"], ["a", "bc"]),
        ("1", 1),
        ("None", None),
        (True, "True"),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(2), np.zeros(4, np.float32)),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        (0.1 + 0.2, 0.3),
        (math.inf, -math.inf),
        (math.nan, None),
        ([], None),
        (float, int),
    ],
    ids=str,
)
def test_digests_do_not_collide(one, other):
    """Values that could read alike do not."""
    assert digest(one) != digest(other)


OPAQUE = {
    "built-in": len,
    "function": lambda: 0,
    "module": math,
    "object": object(),
    "generator": np.random.default_rng(0),
    "array of objects": np.array([None]),
}


@pytest.mark.parametrize("value", OPAQUE.values(), ids=list(OPAQUE))
def test_what_cannot_be_told_apart_is_refused(value):
    """A function or an opaque object might be anything: no digest is made up for it."""
    with pytest.raises(TypeError, match=r"cannot tell what is in|not of dtype object"):
        fingerprint(build(), APG(), {"value": value})


@pytest.mark.parametrize("name", PROBLEMS)
def test_another_problem_is_refused(name, tmp_path):
    """A file of another problem is refused, and the part that differs is named with both values."""
    problem, part = PROBLEMS[name]
    state = State(x=si.LowRank.zeros(SMALL), x_observed=np.zeros(len(OBSERVED)), change=1.0, certificate=1.0)
    Checkpoint(tmp_path / "a").begin(base_problem(), FPC(), SETTINGS).save(of_state(state))
    refused(
        Checkpoint(tmp_path / "a").begin(problem, FPC(), SETTINGS), "belongs to another problem", f"{part} differs ("
    )


def test_message_of_a_mismatch(tmp_path):
    """The message shows what was and what is; where both read alike, it says so."""
    keeper, _ = some_run(tmp_path / "a")
    path = keeper.path
    refused(
        Checkpoint(path).begin(build(spectral=si.Nuclear(2.0)), APG(beta="fista"), SETTINGS | {"max_rank": 4}),
        "spectral differs (Nuclear(lam=3.0) then, Nuclear(lam=2.0) now); solver differs (APG(beta='paper', accuracy=",
        "; setting max_rank differs (None then, 4 now). ",
    )
    xi = [si.L1("1:5", xi=0.1), si.L1("1:5", xi=up(0.1))]
    state = stepped(APG(), build(), None, 1)
    Checkpoint(path).begin(build(discrete=xi[0]), APG(), {}).save(of_state(state))
    shown = "L1(Alphabet([1, 2, 3, 4, 5]), xi=0.1)"
    refused(Checkpoint(path).begin(build(discrete=xi[1]), APG(), {}), f"discrete differs (though both read {shown})")
    refused(
        Checkpoint(path).begin(build(discrete=xi[0]), APG(), {"dtype": 1}), "dtype differs (not given then, 1 now)"
    )
