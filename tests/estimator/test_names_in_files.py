"""Names in files: classes and fields keep theirs, whatever is renamed or moved in the package."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.base.files import file_form, stored
from snapimpute.estimator import files as model_io
from snapimpute.mosaic._checkpoint import Snapshot
from snapimpute.mosaic._run import RunState as MosaicState
from snapimpute.penalties import DiscretePenalty, SpectralPenalty
from snapimpute.posterior._row_means import RowMeans
from snapimpute.posterior._run import RunState
from snapimpute.posterior._samplers import CovarianceState, LowRankState
from snapimpute.problem.losses import Loss, Multinomial, Squares, Thresholds
from snapimpute.solvers.base import Solver, State
from snapimpute.solvers.checkpoint import _known_classes, fingerprint
from snapimpute.solvers.serialise import digest, known_by_name, name_of
from tests.helpers import proximal

RNG = np.random.default_rng(3)
TABLE = np.where(RNG.random((12, 6)) < 0.7, RNG.integers(1, 6, (12, 6)), np.nan)


def problem(**parts: Any) -> si.Problem:
    return si.Problem(si.Observations.from_dense(TABLE), **{"spectral": si.Nuclear(1.0), **parts})


STATE = "x x_observed iteration change certificate terms final"

PINNED: dict[str, str] = {
    "alphabet": "symbols labels",
    "barrier": "rho row whole",
    "blend": "experts square backend dtype decide random_state",
    "blend fit": "columns observations members pools reach square scores verdict status",
    "blend member": "label expert fit columns table",
    "blend verdict": "leader share loss best rival gain error lead lead_error cells penalty",
    "boosted trees": "symbols edges features splits shifts kids values starts depths baseline losses ended",
    "calibration": "alphabet middle spread weights log_odds",
    "candidate": "lam xi score rank n_iter error",
    "choice": "best tried metric held_out verdict",
    "column schema": "kinds which",
    "covariance answers": "sums means draws",
    "decision": "decide min_confidence",
    "drawn sample": "iteration step factors sample past noise past_noise",
    "expert score": "name loss error wrong weight seconds cells reason",
    "feature block": "block center components",
    "feature categories": "name categories pooled",
    "feature map": "blocks names argument",
    "feature matrix": "width columns scales",
    "feature numbers": "names centers scales means spreads gaps",
    "feature tags": "name tags",
    "fit options": "max_iter tol max_rank evaluate_every alphabet_term backend dtype random_state",
    "fitted model": "schema expert fit rule",
    "habits": "damping",
    "habits fit": "observations columns powers damping",
    "held-out cells": "observations estimate loss",
    "links": "folds rounds sets leaves cells random_state",
    "links diagnostics": "symmetric folds cells loss baseline",
    "links fit": "columns observations symmetric trees weights history status diagnostics",
    "links step": "number rounds loss seconds",
    "loss least-squares": "",
    "loss multinomial": "symbols",
    "loss thresholds": "thresholds",
    "low-rank answers": "draws cold",
    "low-rank matrix": "U s V",
    "model": "schema scale x base shown offsets discrete shrink rule log_odds",
    "model specification": "alphabet spectral discrete center weights damping theta",
    "mosaic": "classes order strands rounds starts groups positions random_state",
    "mosaic diagnostics": "settings answers excess held_out",
    "mosaic fit": "columns observations settings lines answers classes kept turns history status diagnostics pool",
    "mosaic line": "order begins jumps weight linked",
    "mosaic pair classes": "theta alpha rho",
    "mosaic round": "start stage number log_likelihood excess seconds left",
    "mosaic run": "start stage number classes strands lines finished total latest samples kept turns history spent",
    "mosaic settings": "order strands classes starts rounds skipped others iterations",
    "mosaic single classes": "theta alpha rho used",
    "mosaic snapshot": "settings tried run",
    "mosaic strands": "packed columns start binary",
    "mosaic trial": "settings loss error seconds",
    "nominal alphabet": "symbols labels",
    "objective terms": "fit spectral discrete constrained",
    "observations": "rows cols values shape row_labels col_labels",
    "offset model": "center mean col_biases damping cold",
    "penalty by-column": "penalties which",
    "penalty capped-l1": "lam theta",
    "penalty l0": "alphabet xi weights",
    "penalty l0-fractional": "alphabet xi alpha weights",
    "penalty l1": "alphabet xi weights",
    "penalty l1-composed": "alphabet xi",
    "penalty l2": "alphabet xi weights",
    "penalty lp": "alphabet xi p weights",
    "penalty lsp": "lam theta",
    "penalty mcp": "lam gamma",
    "penalty nuclear": "lam",
    "penalty rank": "lam",
    "penalty ridge": "center xi",
    "penalty scad": "lam a",
    "penalty tnn": "lam r",
    "pool": "low high constants mirror careless usual",
    "posterior candidate": "covariance thresholds loss error seconds",
    "posterior cold levels": "raters items by_item by_rater",
    "posterior completion": "fitted seed rows",
    "posterior covariance draw": "precision thresholds level noise_shape slopes offsets",
    "posterior covariance state": "chain sums means count draws watched likelihoods",
    "posterior diagnostics": "chains restarts draws error excess r_hat cell_r_hat largest_r_hat effective_size "
    "cell_effective_size held_out",
    "posterior draws": "raters items rater_noise item_noise thresholds factors levels priors threshold_priors links",
    "posterior fit": "frame answers observations history status completion diagnostics",
    "posterior frame": "schema by_rows centers scales row_side column_side",
    "posterior given features": "map columns units lane",
    "posterior links": "block loadings shared",
    "posterior mask": "weights vectors",
    "posterior row means": "features slopes precision",
    "posterior side": "mask given cold weights",
    "posterior low-rank state": "chain raters items draws every seen watched likelihoods",
    "posterior run": "model number history seconds restarts chains held_out",
    "posterior sweep": "number log_likelihood seconds error excess left",
    "posterior": "covariance rank thresholds sweeps mask noise item_noise own_thresholds factors links chains "
    "random_state",
    "posterior threshold prior": "center spread factor_spread",
    "posterior unit prior": "precision center slopes slope_precision",
    "proximal": "spectral discrete symbol_weights lam xi center solver cv max_iter tol max_rank "
    "alphabet_term backend dtype decide random_state",
    "proximal fit": "tuned model observations status history solver why options",
    "proximal move": "to length error subspace step spectral jumps",
    "proximal point": "x observed",
    "rank limit": "rank crowd",
    "reach": "few many",
    "run": "state rows seconds best row answer extras done memory",
    "sample": "windows groups seed",
    "solver admm": "rho accuracy",
    "solver ais-impute": "nu accuracy",
    "solver als": "rank",
    "solver altmin": "rank",
    "solver apg": "beta accuracy",
    "solver apgl": "fall shrink accuracy",
    "solver davis-yin": "gamma accuracy",
    "solver fancl": "nu step_size accuracy",
    "solver fpc": "tau eta stage_tol accuracy",
    "solver fpca": "tau eta stage_tol accuracy",
    "solver low-rank-sparse": "tau delta beta",
    "solver mm": "first fall accuracy",
    "solver niapg": "q step_size accuracy",
    "solver nmapg": "step_size eta delta accuracy",
    "solver optspace": "rank trim",
    "solver penalty-decomposition": "gamma fall stage_tol accuracy",
    "solver sdp": "max_gib",
    "solver soft-impute": "accuracy",
    "solver sun-luo": "rank rho",
    "solver svt": "tau delta",
    "state": STATE,
    "state admm": f"{STATE} dense gap subspace multiplier",
    "state als": f"{STATE} left scale",
    "state dense": f"{STATE} dense gap subspace",
    "state low-rank-sparse": f"{STATE} errors rest multiplier residual weight subspace",
    "state mm": f"{STATE} dense gap subspace alpha final_alpha joint",
    "state momentum": f"{STATE} before subspace scale spectral t continuing lipschitz",
    "state niapg": f"{STATE} before subspace scale bound recent",
    "state nmapg": f"{STATE} before subspace scale bound z average t_before t q",
    "state optspace": f"{STATE} left right middle length",
    "state penalty-decomposition": f"{STATE} before subspace scale gamma final_gamma envelope t",
    "state sun-luo": f"{STATE} factors barriers gradients value length",
    "state svt": f"{STATE} dual residual subspace",
    "status": "code message advice",
    "symbol log-odds": "tables",
    "symbol rule": "book decide calibrations usual cols",
    "tuned specification": "spec lam xi choice",
    "verdict": "plain aware gain error count metric",
}
"""Every class that may stand in a file or counts in a digest: its name, and its fields."""


def declared() -> dict[str, type]:
    losses = (Squares, Multinomial, Thresholds)
    return {
        **_known_classes(problem(), si.solvers.APG()),
        **model_io._known(),
        **known_by_name(losses),
        **known_by_name((RunState, LowRankState, CovarianceState, RowMeans)),
        **known_by_name((MosaicState, Snapshot)),
    }


def test_names_and_fields_stay():
    """A change of this list makes files unreadable: it takes a new version of the formats."""
    assert {name: " ".join(file_form(kind).fields) for name, kind in declared().items()} == PINNED


def test_fields_are_what_the_constructor_takes():
    """A field that was added to a class but not to its declaration would be lost."""
    for name, kind in declared().items():
        assert sorted(file_form(kind).fields) == sorted(inspect.signature(kind).parameters), name


def test_every_class_of_the_package_has_a_name():
    """No penalty, loss, solver or state of the package is left to the name of its class."""
    for module in pkgutil.walk_packages(si.__path__, "snapimpute."):
        if module.name.split(".")[1] in ("penalties", "solvers"):
            import_module(module.name)
    waiting = [SpectralPenalty, DiscretePenalty, Loss, Solver, State]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        parts = kind.__module__.split(".")
        if parts[0] == "snapimpute" and "rivals" not in parts and not inspect.isabstract(kind):
            assert file_form(kind) is not None, f"{kind} needs @stored"


def test_no_module_path_is_in_a_file(tmp_path):
    """Models and checkpoints hold no name of a module, so that none of them binds a module to its place."""
    alphabet = {0: list("abcde"), **dict.fromkeys(range(1, 5), "1:5"), 5: None}
    mixed = TABLE.astype(object)
    mixed[:, 0] = [None if np.isnan(one) else "abcde"[int(one) - 1] for one in TABLE[:, 0]]
    options: list[dict[str, Any]] = [{"center": "biases"}, {"lam": 0.5, "xi": 0.1}]
    options += [{"spectral": si.LogSum(1.0, 1.0), "discrete": si.L1("1:5", 0.02), "solver": si.solvers.NIAPG()}]
    for number, (table, symbols, params) in enumerate(
        [(TABLE, "1:5", options[0]), (mixed, alphabet, options[1]), (TABLE, "1:5", options[2])]
    ):
        proximal(symbols, max_iter=40, tol=1e-2, **params).fit(table).save(tmp_path / f"{number}.snap")
    terms = {}, {"discrete": si.L1("1:5", 0.05)}, {"offsets": si.LowRank.constant(TABLE.shape, 3.0)}
    problems = [problem(**parts) for parts in terms]
    for name, solver in si.solvers.SOLVERS.items():
        for number, one in enumerate(problems):
            if solver.objection(one) is None and name != "sdp":
                si.solve(one, solver(), max_iter=2, tol=0, checkpoint=tmp_path / f"{name}-{number}")
    files = list(tmp_path.iterdir())
    assert len(files) > 20
    for path in files:
        assert b"snapimpute." not in path.read_bytes(), path


class Own(si.Nuclear):
    """A penalty of a user."""


class Plain:
    """A setting without words of its own."""


def test_digests_do_not_depend_on_modules(monkeypatch):
    """The same class in another module has the same digest, and what is shown of it names no module."""
    values = [si.Nuclear(1.0), si.L1("1:5", 0.1), Own(1.0), Plain(), float, si.solvers.APG(), problem().observations]
    before = [digest(value) for value in values]
    for value in values:
        if not isinstance(value, type):
            monkeypatch.setattr(type(value), "__module__", "elsewhere")
    assert [digest(value) for value in values] == before
    assert len(set(before)) == len(before)
    parts = fingerprint(problem(spectral=Own(1.0)), si.solvers.APG(), {"plain": Plain()})
    assert parts["setting plain"]["shown"] == "own Plain"
    assert not any(__name__ in part["shown"] or "elsewhere" in part["shown"] for part in parts.values())


def test_a_penalty_of_a_user_is_named_by_its_class(tmp_path):
    """A checkpoint takes a penalty class of one's own, under its own name; two classes of one name are refused."""
    one = problem(spectral=Own(1.0))
    half = si.solve(one, si.solvers.APG(), max_iter=3, tol=0, checkpoint=tmp_path / "a")
    whole = si.solve(one, si.solvers.APG(), max_iter=6, tol=0, checkpoint=tmp_path / "a")
    assert (half.n_iter, whole.n_iter) == (3, 6)
    assert name_of(Own) == "own Own"
    other = type("Own", (si.MCP,), {})
    with pytest.raises(ValueError, match="would both be called 'own Own' in a file: rename one of them"):
        known_by_name([Own, other])


def test_a_name_is_the_class_s_own():
    """A subclass does not pass for its base; it may declare a name and fields itself."""

    class Child(si.Nuclear): ...

    assert file_form(Child) is None
    assert file_form(stored("child", "lam")(Child)) == ("child", ("lam",), ("lam",))
    assert name_of(Child) == "child"
    assert file_form(si.Nuclear).name == "penalty nuclear"
