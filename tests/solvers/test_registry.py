"""The list of solvers: their cards, which of them fit a problem, refusals that help, and the automatic choice."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.penalties import DISCRETE, SPECTRAL
from snapimpute.problem.losses import Loss, Multinomial
from snapimpute.solvers import (
    APG,
    NIAPG,
    SOLVERS,
    SVT,
    AISImpute,
    FaNCL,
    SoftImpute,
    Solver,
    SolverInfo,
    fitting,
    pick,
)
from snapimpute.solvers.base import Context
from snapimpute.solvers.proximal.gradient import ProximalSolver
from tests import helpers

SPECTRAL_PENALTIES = {penalty.name: penalty for penalty in helpers.SPECTRAL}
DISCRETE_PENALTIES = [
    None,
    si.L1("1:5", xi=0.0),
    si.FractionalL0("1:5", xi=0.0, alpha=0.1),
    *helpers.RATING_PENALTIES[1:],
    *helpers.JUMPING_PENALTIES,
    si.ComposedL1("1:5", xi=0.1),
    si.L2("1:5", xi=0.1),
    si.ByColumn([si.L1("1:5", xi=0.1), None], [0, 0, 1, 0, 0, 1, 0]),
    si.ByColumn([si.L1("1:5", xi=0.1), si.L0("1:5", xi=0.1)], [0, 0, 1, 0, 0, 1, 0]),
]
OBSERVATIONS = si.datasets.low_rank_alphabet((9, 7), 2, observed=0.7).observations
PROXIMAL = [
    name for name, kind in SOLVERS.items() if issubclass(kind, ProximalSolver) and name != "penalty-decomposition"
]
every_solver = pytest.mark.parametrize("name", SOLVERS)
FRACTIONAL = si.FractionalL0("1:5", xi=0.1, alpha=0.1)
PAIRS = [
    si.Problem(OBSERVATIONS, spectral, discrete)
    for spectral in SPECTRAL_PENALTIES.values()
    for discrete in DISCRETE_PENALTIES
]


def suited(name: str) -> si.Problem:
    """A problem that the solver of that name treats."""
    penalty = next(p for p in SPECTRAL_PENALTIES.values() if p.name in SOLVERS[name].info.spectral)
    return si.Problem(OBSERVATIONS, penalty, FRACTIONAL if name == "mm" else None)


def never(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("work began")


# ---------------------------------------------------------------- cards
def test_every_spectral_penalty_is_tried():
    """The list that these tests run over has every spectral penalty under its name."""
    assert {name: type(p) for name, p in SPECTRAL_PENALTIES.items()} == SPECTRAL


def test_every_discrete_penalty_is_tried():
    """The list of discrete penalties has every one, none, the control, and tables with several."""
    tried = {type(p) for p in DISCRETE_PENALTIES}
    assert tried == {*DISCRETE.values(), si.Ridge, si.ByColumn, type(None)}


def test_every_solver_is_listed():
    """Each solver that the package shows is in the list, and no other."""
    shown = {value for value in vars(si.solvers).values() if isinstance(value, type) and issubclass(value, Solver)}
    assert set(SOLVERS.values()) == shown - {Solver}


@every_solver
def test_card_is_complete(name):
    """Every solver has its own card: a text in every line, penalties that exist, at least one of them."""
    solver = SOLVERS[name]
    assert solver.name == name
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
    info = solver.info
    for line in fields(SolverInfo):
        if line.type == "str":
            text = getattr(info, line.name)
            assert text == text.strip() != "", line.name
    assert re.search(r"(19|20)\d\d", info.paper), "a paper has a year"
    assert info.spectral
    assert set(info.spectral) <= set(SPECTRAL)
    assert {type(info.discrete), type(info.convex)} == {bool}
    assert solver.measures
    assert solver.if_it_diverges


def test_titles_and_names_are_unique():
    """No two solvers share a title or a name."""
    assert len({solver.info.title for solver in SOLVERS.values()}) == len(SOLVERS)
    assert len({solver.name for solver in SOLVERS.values()}) == len(SOLVERS)


@every_solver
def test_solver_is_found_by_its_name(name):
    """A name gives that solver with its defaults; an instance is taken as it is; both were "given"."""
    problem = suited(name)
    by_name = pick(problem, name)
    assert type(by_name.solver) is SOLVERS[name]
    assert by_name.solver == SOLVERS[name]()
    assert pick(problem, by_name.solver).solver is by_name.solver
    assert by_name.why == "given"


# ---------------------------------------------------------------- pairs of penalties
def fits_by_card(name: str, problem: si.Problem) -> bool:
    """What the card says, that MM is for one penalty only, and that (P) needs the prox of the penalty itself."""
    info, discrete = SOLVERS[name].info, problem.discrete
    if problem.spectral.name not in info.spectral or (problem.is_discrete and not info.discrete):
        return False
    if name == "mm":
        return isinstance(discrete, si.FractionalL0) and problem.is_discrete
    if name in ("davis-yin", "admm") and problem.is_discrete and not discrete.exact:
        return False
    return not (info.convex and problem.is_discrete and not discrete.convex)


def test_solvers_that_fit_are_accepted_and_no_other():
    """For every pair, `fitting` names the solvers that `pick` takes, in the order of the list, and never none."""
    for problem in PAIRS:
        taken = [name for name in SOLVERS if fits_by_card(name, problem)]
        assert fitting(problem) == taken != []
        for name in SOLVERS:
            if name in taken:
                assert pick(problem, name).why == "given"
            else:
                with pytest.raises(ValueError, match=SOLVERS[name].__name__):
                    pick(problem, name)


@every_solver
def test_every_penalty_runs(name):
    """Each spectral and each discrete penalty that a solver treats: no product, as neither asks for the other."""
    if name == "sdp":
        pytest.importorskip("cvxpy")
    easy = suited(name)
    problems = [replace(easy, spectral=spectral) for spectral in SPECTRAL_PENALTIES.values()]
    problems += [replace(easy, discrete=discrete) for discrete in DISCRETE_PENALTIES]
    for problem in problems:
        if fits_by_card(name, problem):
            result = si.solve(problem, name, max_iter=2, tol=0)
            assert 1 <= result.n_iter <= 2
            assert np.isfinite(result.x.to_dense()).all()
            assert np.isfinite(result.objective)


@every_solver
def test_a_pair_that_does_not_fit_is_refused_at_once(name, monkeypatch):
    """By name or as an instance, before any work: the message names what does not fit, and solvers that do."""
    kind = SOLVERS[name]
    monkeypatch.setattr(kind, "init", never)
    for problem in PAIRS:
        if fits_by_card(name, problem):
            continue
        with pytest.raises(ValueError, match=kind.__name__) as by_name:
            si.solve(problem, name)
        with pytest.raises(ValueError, match=kind.__name__) as by_instance:
            si.solve(problem, kind())
        message = str(by_name.value)
        assert message == str(by_instance.value)
        spectral = name != "mm" and problem.spectral.name not in kind.info.spectral
        assert repr(problem.spectral if spectral else problem.discrete) in message
        _, advice = message.split("Solvers that fit this problem: ")
        assert advice.split(", ") == fitting(problem)


@pytest.mark.parametrize("discrete", [p for p in DISCRETE_PENALTIES if p and p.xi and not p.convex], ids=repr)
def test_solvers_that_need_convexity_refuse_a_discrete_term_without(discrete):
    """A discrete penalty that is not convex is refused by name where convexity is needed, and only there."""
    problem = si.Problem(OBSERVATIONS, si.Nuclear(1.5), discrete)
    needing = [name for name, kind in SOLVERS.items() if kind.info.discrete and kind.info.convex]
    assert needing == ["davis-yin", "admm"]
    for name in needing:
        message = re.escape(f"needs every term to be convex, and {discrete!r} is not. Solvers that fit")
        with pytest.raises(ValueError, match=message):
            pick(problem, name)
    for name in ("soft-impute", "apg", "apgl", "fpc", "fpca", "ais-impute", "fancl", "penalty-decomposition"):
        assert name in fitting(problem)


@every_solver
def test_another_loss_is_refused_where_it_is_not_treated(name):
    """Only the proximal solvers and Davis–Yin take a loss that is not least squares; the others name it and them."""
    loss: Loss = Multinomial(2)
    binary = si.Observations.from_coo(OBSERVATIONS.rows, OBSERVATIONS.cols, 1.0 * (OBSERVATIONS.values > 3), (9, 7))
    problem = replace(suited(name), observations=binary, loss=loss)
    takes = {*PROXIMAL, "penalty-decomposition", "davis-yin"}
    assert SOLVERS[name].any_loss == (name in takes)
    assert (name in fitting(problem)) == (name in takes)
    if name in takes:
        result = si.solve(problem, name, max_iter=3, tol=0)
        assert np.isfinite(result.objective)
    else:
        with pytest.raises(
            ValueError, match=re.escape(f"treats only the least-squares fit, not {loss!r}")
        ) as refusal:
            pick(problem, name)
        assert "soft-impute" in str(refusal.value)


def test_refusal_by_hand():
    """The whole message, once: who refuses what, and who does not."""
    problem = si.Problem(OBSERVATIONS, si.Rank(1.3), si.L1("1:5", xi=0.1))
    expected = (
        "SVT treats only the spectral penalty nuclear, not Rank(lam=1.3). "
        "Solvers that fit this problem: soft-impute, apg, nmapg, niapg, fancl, penalty-decomposition"
    )
    with pytest.raises(ValueError, match=re.escape(expected) + "$"):
        pick(problem, SVT())
    expected = f"MM needs the discrete penalty FractionalL0 with ξ > 0, not {problem.discrete!r}. Solvers that fit"
    with pytest.raises(ValueError, match=re.escape(expected)):
        pick(problem, "mm")
    expected = "SVT does not treat a discrete term, here L1(Alphabet([1, 2, 3, 4, 5]), xi=0.1). "
    with pytest.raises(ValueError, match=re.escape(expected)):
        pick(si.Problem(OBSERVATIONS, si.Nuclear(1.3), si.L1("1:5", xi=0.1)), "svt")


def test_own_solvers_are_taken():
    """A solver that is not in the list is taken as it is, and held to its own card."""

    class Mine(SoftImpute):
        name = "mine"
        info = SVT.info

    nuclear, rank = si.Problem(OBSERVATIONS, si.Nuclear(1.5)), si.Problem(OBSERVATIONS, si.Rank(1.5))
    mine = Mine()
    assert pick(nuclear, mine).solver is mine
    assert si.solve(nuclear, mine, max_iter=2).n_iter == 2
    with pytest.raises(ValueError, match="Mine treats"):
        pick(rank, mine)


# ---------------------------------------------------------------- wrong arguments
@pytest.mark.parametrize("name", ["Auto", "APG", "soft", "", "soft_impute"])
def test_unknown_name_is_refused_with_those_that_exist(name):
    """A name that is not in the list is an error that lists the names."""
    problem = si.Problem(OBSERVATIONS, si.Nuclear(1.5))
    with pytest.raises(ValueError, match=re.escape(f"got {name!r}")) as refusal:
        si.solve(problem, name)
    assert '"auto"' in str(refusal.value)
    assert all(known in str(refusal.value) for known in SOLVERS)


@pytest.mark.parametrize(("solver", "kind"), [(APG, "type|ABCMeta"), (None, "NoneType"), (1, "int"), ({}, "dict")])
def test_other_things_are_no_solvers(solver, kind):
    """A class, None or a number is refused by its type."""
    with pytest.raises(TypeError, match=f"solver must be a Solver or the name of one, got ({kind})"):
        si.solve(si.Problem(OBSERVATIONS, si.Nuclear(1.5)), solver)


# ---------------------------------------------------------------- the automatic choice
def test_auto_picks_one_that_fits():
    """For every pair of penalties the choice fits, and says why in words that are not "given"."""
    for problem in PAIRS:
        chosen = pick(problem, "auto")
        assert chosen.solver.name in fitting(problem)
        assert chosen == pick(problem, "auto")
        assert len(chosen.why.split()) >= 5
        assert chosen.why != "given"


@pytest.mark.parametrize("spectral", ["nuclear", "rank"])
@pytest.mark.parametrize("discrete", [None, si.L1("1:5", xi=0.1), FRACTIONAL], ids=repr)
def test_auto_runs_its_choice(spectral, discrete):
    """`solve` without a solver runs the one that is picked, and its settings say which and why."""
    problem = si.Problem(OBSERVATIONS, SPECTRAL_PENALTIES[spectral], discrete)
    chosen, settings = pick(problem, "auto"), si.solve(problem, max_iter=2, tol=0).settings
    assert (settings["solver"], settings["why"]) == (repr(chosen.solver), chosen.why)


@pytest.mark.parametrize(("shape", "solver"), [((100, 100), APG()), ((20, 500), APG()), ((100, 101), AISImpute())])
def test_auto_looks_at_the_size_of_a_convex_problem(shape, solver):
    """λ is brought down only where a whole SVD is dear; the reason names the solver and, if small, the size."""
    observations = si.Observations.from_coo([0, 1], [0, 1], [1.0, 5.0], shape)
    chosen = pick(si.Problem(observations, si.Nuclear(1.5), si.L1("1:5", xi=0.1)), "auto")
    assert chosen.solver == solver
    assert chosen.why.startswith("every term is convex")
    assert (f"{shape[0]}×{shape[1]}" in chosen.why) == (shape[0] * shape[1] <= 10_000)


def test_auto_looks_at_convexity():
    """A penalty that is not convex gets a solver that keeps to a bound, the discrete one first; it is named."""
    for spectral, discrete, solver, culprit in (
        (si.Rank(1.5), si.L1("1:5", xi=0.1), NIAPG(), "Rank(lam=1.5)"),
        (si.Rank(1.5), si.L0("1:5", xi=0.0), NIAPG(), "Rank(lam=1.5)"),
        (si.Nuclear(1.5), si.L0("1:5", xi=0.1), FaNCL(), "L0(Alphabet([1, 2, 3, 4, 5]), xi=0.1)"),
        (si.Rank(1.5), si.L0("1:5", xi=0.1), FaNCL(), "L0(Alphabet([1, 2, 3, 4, 5]), xi=0.1)"),
    ):
        chosen = pick(si.Problem(OBSERVATIONS, spectral, discrete), "auto")
        assert chosen.solver == solver
        assert chosen.why.startswith(f"{culprit} is not convex: ")


def test_auto_looks_at_the_start_where_a_discrete_penalty_is_not_convex():
    """From zero λ is brought down, from a warm start momentum is taken; `solve` tells which of the two it is."""
    problem = si.Problem(OBSERVATIONS, si.Nuclear(1.5), si.L0("1:5", xi=0.1))
    assert pick(problem, "auto", warm=True).solver == NIAPG()
    assert pick(problem, "auto", warm=True).why.startswith("L0(Alphabet([1, 2, 3, 4, 5]), xi=0.1) is not convex")
    cold = si.solve(problem, max_iter=3)
    assert cold.settings["solver"] == repr(FaNCL())
    assert si.solve(problem, x0=cold.x, max_iter=3).settings["solver"] == repr(NIAPG())


@every_solver
def test_init_does_not_move(name):
    """The state before the first iteration has number 0 and nothing known of the change."""
    problem = suited(name)
    state = SOLVERS[name]().init(problem, si.LowRank.zeros(problem.shape), Context(max_rank=None, seed=0))
    assert state.iteration == 0
    assert state.change == np.inf
    assert not state.final
