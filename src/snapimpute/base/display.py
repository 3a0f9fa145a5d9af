"""HTML of fits for notebooks: a small table that stands alone, in light and dark themes.

It reads attributes and knows no other part of the package, so that solvers and the
estimator can both use it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from html import escape
from typing import Any

MOST_LETTERS = 160
"""Characters of a parameter or an alphabet that are shown; longer ones are cut."""

# Colours are those of the notebook, and a grey that is readable on white and on black.
_CARD = (
    "display:inline-block;border:1px solid #8888;border-radius:6px;padding:.5em .8em;font-size:90%;line-height:1.4"
)
_NAME = (
    "text-align:left;vertical-align:top;padding:0 1em 0 0;font-weight:normal;opacity:.7;background:none;border:none"
)
_VALUE = "text-align:left;vertical-align:top;padding:0;background:none;border:none;max-width:48em"

_SCORES = {"error": (100.0, "% of the held-out cells wrong"), "mae": (1.0, "MAE"), "rmse": (1.0, "RMSE")}


def html_of(imputer: Any) -> str:
    """Return HTML with the parameters of an imputer and, if it is fitted, its results.

    It has no scripts, and text from data or parameters is escaped.

    Examples
    --------
    >>> from snapimpute.estimator.imputer import SnapImputer
    >>> "<th" in html_of(SnapImputer("1:5")), "lam" in html_of(SnapImputer("1:5"))
    (True, False)
    """
    rows = [(name, _short(_called(value))) for name, value in _changed(imputer)]
    fitted = hasattr(imputer, "fit_")
    if fitted:
        m, n = imputer.fit_.observations.shape
        rows += [("table", f"{m:,} × {n:,}"), ("symbols", _short(_alphabets(imputer.alphabet_))), *_fit(imputer)]
    return _card(type(imputer).__name__, "fitted" if fitted else "not fitted", rows)


def html_of_result(result: Any) -> str:
    """Return HTML with the input of a solver run, its status, and advice.

    Examples
    --------
    >>> from snapimpute import Nuclear, Observations, Problem, solve
    >>> result = solve(Problem(Observations.from_dense([[1, 2], [2, 4]]), Nuclear(0.1)))
    >>> "converged" in html_of_result(result)
    True
    """
    (m, n), settings = result.x.shape, result.settings
    rows = [("matrix", f"{m:,} × {n:,}, rank {result.x.rank}")]
    rows += [(name, _short(settings[name])) for name in ("solver", "spectral", "discrete") if name in settings]
    rows.append(("iterations", f"{result.n_iter:,}"))
    if not math.isnan(result.objective):
        rows.append(("objective", f"{result.objective_name} = {result.objective:.8g}"))
    rows.append(("status", str(result.status)))
    return _card(type(result).__name__, result.status.code, rows)


def _changed(imputer: Any) -> Iterable[tuple[str, Any]]:
    """The parameters that are not at their defaults."""
    defaults = inspect.signature(type(imputer).__init__).parameters
    for name, value in imputer.get_params(deep=False).items():
        default = defaults[name].default if name in defaults else None
        same = value is default or (type(value) is type(default) and bool(value == default))
        if not same:
            yield name, value


def _called(value: Any) -> str:
    """Write a parameter as it is called: of an expert the parameters that are not at their defaults."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_called, value))}]"
    if not hasattr(value, "get_params"):
        return repr(value)
    inside = ", ".join(f"{name}={_called(one)}" for name, one in _changed(value))
    return f"{type(value).__name__}({inside})"


def _fit(imputer: Any) -> list[tuple[str, str]]:
    """Tell of a fit: by a blend, by the proximal expert, or by another one."""
    if imputer.experts_:
        return _blend(imputer)
    return _strengths(imputer) if hasattr(imputer, "lam_") else _run(imputer)


def _blend(imputer: Any) -> list[tuple[str, str]]:
    """Give each expert with its score and weight, or why it was left out, and who carries the answer."""
    experts, verdict = [str(one) for one in imputer.experts_], str(imputer.verdict_).splitlines()
    return [
        *zip(["experts", *[""] * (len(experts) - 1)], experts, strict=True),
        *zip(["verdict", *[""] * (len(verdict) - 1)], verdict, strict=True),
        ("status", str(imputer.status_)),
    ]


def _strengths(imputer: Any) -> list[tuple[str, str]]:
    rank = imputer.singular_values_.size
    center = "nothing" if imputer.center_ is None else imputer.center_
    rows = [
        ("model", f"λ = {imputer.lam_:.4g}, ξ = {imputer.xi_:.4g}, rank {rank}, {center} subtracted"),
        ("solver", imputer.solver_),
        ("iterations", f"{imputer.n_iter_:,}"),
        ("status", str(imputer.status_)),
    ]
    if imputer.choice_ is not None:
        unit, what = _SCORES[imputer.choice_.metric]
        best = imputer.choice_.best
        rows.append(("held-out score", f"{unit * best.score:.4g} ± {unit * best.error:.2g} {what}"))
    if imputer.verdict_ is not None:
        rows.append(("verdict", str(imputer.verdict_)))
    return rows


def _run(imputer: Any) -> list[tuple[str, str]]:
    """Tell of a fit by another expert: what its diagnostics say, if it has any."""
    expert = ("expert", next(iter(imputer.blend_)))
    if imputer.diagnostics_ is None:
        return [expert, ("status", str(imputer.status_))]
    first, *rest = str(imputer.diagnostics_).splitlines()
    return [
        expert,
        ("steps" if "stage" in imputer.history_ else "sweeps", f"{imputer.n_iter_:,}"),
        ("status", str(imputer.status_)),
        ("run", first),
        *(("", line) for line in rest),
    ]


def _alphabets(found: Any) -> str:
    """The alphabet of all columns, or how many columns have each."""
    if not isinstance(found, list):
        return repr(found)
    counts: dict[Any, int] = {}
    for one in found:
        counts[one] = counts.get(one, 0) + 1
    return "; ".join(
        f"{count:,} column{'s' * (count != 1)}: {'no alphabet' if one is None else repr(one)}"
        for one, count in counts.items()
    )


def _card(title: str, state: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = "".join(
        f'<tr style="background:none"><th style="{_NAME}">{escape(name)}</th>'
        f'<td style="{_VALUE}">{escape(value)}</td></tr>'
        for name, value in rows
    )
    head = f'<div><b>{escape(title)}</b> <span style="opacity:.7">{escape(state)}</span></div>'
    return f'<div style="{_CARD}">{head}<table style="border:none;margin:0">{lines}</table></div>'


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"
