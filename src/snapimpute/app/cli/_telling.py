"""Words about a fit: for people, for scripts, and for those who want to repeat it."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import snapimpute
from snapimpute.data.expert import Expert
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.blend import BlendFit, BlendVerdict
from snapimpute.experts.proximal.choice import Verdict
from snapimpute.experts.proximal.expert import ProximalFit

LINES = 2
"""Lines of the diagnostics of a single expert that are shown; a report has all."""


# ---------------------------------------------------------------- people
def told(imputer: SnapImputer) -> list[str]:
    """Describe a fit for people."""
    if isinstance(imputer.fit_, BlendFit):
        return _of_blend(imputer)
    if isinstance(imputer.fit_, ProximalFit):
        return _of_proximal(imputer)
    label = next(iter(imputer.blend_))
    lines = str(imputer.diagnostics_ or "").splitlines()
    return [f"fit: {label}, {imputer.status_}", *lines[:LINES]]


def _of_blend(imputer: SnapImputer) -> list[str]:
    """Say what each expert scored, its weight or why it has none, and who carries the answer."""
    lines = [*map(str, imputer.experts_), *str(imputer.verdict_).splitlines()]
    return lines if imputer.status_.converged else [*lines, f"fit: {imputer.status_}"]


def _of_proximal(imputer: SnapImputer) -> list[str]:
    expert = imputer._model.expert
    asked = {"λ": expert.lam, "ξ": expert.xi, "centre": expert.center}
    open_ = [name for name, value in asked.items() if isinstance(value, str) and value == "auto"]
    how = f"{', '.join(open_)} chosen on held-out cells" if open_ else "as given"
    if open_ and imputer.choice_ is None:
        how = f"{', '.join(open_)} by default: too few cells are known to choose, or the solver has no use for it"
    lines = [
        f"strengths: λ = {imputer.lam_:.4g}, ξ = {imputer.xi_:.3g}, centre {imputer.center_ or 'none'} ({how})",
        f"fit: rank {imputer.singular_values_.size}, {imputer.n_iter_} iterations, {imputer.status_}",
    ]
    return lines + ([str(imputer.verdict_)] if imputer.verdict_ is not None else [])


# ---------------------------------------------------------------- scripts
def facts(imputer: SnapImputer) -> dict[str, Any]:
    """The same for scripts."""
    out: dict[str, Any] = {
        "method": _named(imputer.method),
        "status": imputer.status_.code,
        "advice": imputer.status_.advice,
        "seed": imputer.random_state,
        "experts": [asdict(one) for one in imputer.experts_],
        "blend": dict(imputer.blend_),
    }
    if isinstance(imputer.fit_, ProximalFit):
        out |= _proximal_facts(imputer)
    verdict = imputer.verdict_
    if isinstance(verdict, BlendVerdict):
        own = {one.name: getattr(verdict, one.name) for one in fields(verdict) if one.name != "penalty"}
        out["verdict"] = {"helped": verdict.helped, **own}
        if verdict.penalty is not None:
            out["verdict"]["penalty"] = _verdict(verdict.penalty)
    elif verdict is not None:
        out["verdict"] = _verdict(verdict)
    return out


def _proximal_facts(imputer: SnapImputer) -> dict[str, Any]:
    out: dict[str, Any] = {
        "lam": imputer.lam_,
        "xi": imputer.xi_,
        "center": imputer.center_,
        "solver": imputer.solver_,
        "rank": imputer.singular_values_.size,
        "iterations": imputer.n_iter_,
    }
    if imputer.choice_ is not None:
        best = imputer.choice_.best
        out["held_out"] = {"metric": imputer.choice_.metric, "score": best.score, "error": best.error}
    return out


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"helped": verdict.helped, "gain": verdict.gain, "error": verdict.error, "cells": verdict.count}


def _named(method: Any) -> Any:
    """Return a method by its name, or by those of its experts."""
    if isinstance(method, str):
        return method
    return method.label if isinstance(method, Expert) else [_named(one) for one in method]


def alphabets(book: ColumnSchema) -> Any:
    """Return the symbols of each column, or of all, as scripts and code can hold them."""
    kinds = [None if kind is None else list(kind.labels or map(_whole, kind)) for kind in book.kinds]
    return kinds[0] if book.one is not None else [kinds[kind] for kind in book.which.tolist()]


def _whole(symbol: float) -> float:
    return int(symbol) if symbol == round(symbol) else symbol


# ---------------------------------------------------------------- to do it again
def repeat(imputer: SnapImputer, book: ColumnSchema) -> dict[str, Any]:
    """Everything needed to repeat the fit: the command, the code and the versions."""
    import platform
    from importlib.metadata import version

    words = " ".join(shlex.quote(word) for word in ["snapimpute", *sys.argv[1:]])
    symbols = alphabets(book)
    lines = [f"alphabet={repr(symbols) if book.one is not None or len(symbols) <= 20 else '[...]'}"]
    lines += [f"method={_method_as_code(imputer)}"]
    asked = imputer.get_params(deep=False)
    usual = SnapImputer().get_params(deep=False)
    names = ("decide", "min_confidence", "time_limit", "backend", "dtype")
    lines += [f"{name}={asked[name]!r}" for name in names if asked[name] != usual[name]]
    lines += [f"random_state={imputer.random_state}"]
    python = "\n".join(["import snapimpute as si\n", "imp = si.SnapImputer(", *(f"    {one}," for one in lines), ")"])
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    versions = [f"snapimpute {snapimpute.__version__}", f"Python {platform.python_version()}"]
    versions += [f"{name} {version(name)}" for name in packages]
    told = {"command": words, "python": f"{python}\nimp.fit(X)\n", "versions": ", ".join(versions)}
    return {**told, "seed": imputer.random_state}


def _method_as_code(imputer: SnapImputer) -> str:
    """Write the method; of the proximal expert with the strengths and the centre that it has chosen."""
    if not isinstance(imputer.fit_, ProximalFit):
        return _as_code(imputer.method)
    expert: Any = imputer.method if isinstance(imputer.method, Expert) else imputer._model.expert
    chosen: dict[str, Any] = {"center": imputer.center_}
    strengths = {"lam": expert.spectral, "xi": expert.discrete}
    for name, penalty in strengths.items():
        if penalty is None or isinstance(penalty, str):  # a penalty object brings its own
            chosen[name] = float(f"{getattr(imputer, f'{name}_'):.10g}")
    if expert is not imputer.method:
        chosen |= dict.fromkeys(("backend", "dtype", "decide", "random_state"))  # those of the estimator
    return _as_code(expert.with_params(**chosen))


def _as_code(method: Any) -> str:
    """Write a name, an expert with the parameters that differ from its defaults, or a list of such."""
    if not isinstance(method, Expert):
        return repr(method) if isinstance(method, str) else f"[{', '.join(map(_as_code, method))}]"
    usual: dict[str, Any] = type(method)().get_params() if is_dataclass(method) else {}
    params = {name: one for name, one in method.get_params().items() if not _same(one, usual.get(name, _same))}
    inside = ", ".join(f"{name}={_as_code(one) if _is_experts(one) else repr(one)}" for name, one in params.items())
    return f"si.{type(method).__name__}({inside})"


def _is_experts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, Expert) for one in value)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
