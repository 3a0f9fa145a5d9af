"""Sections of a page: text, tables and figures, ready for the template."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snapimpute.app.report import _bars as bars
from snapimpute.app.report import _charts as charts
from snapimpute.app.report import _experts as experts
from snapimpute.app.report import _heatmap as heatmap
from snapimpute.app.report._canvas import Figure
from snapimpute.app.report._heatmap import Name
from snapimpute.app.report._matrix import Doubts, Shown, alphabets, least_certain, show
from snapimpute.app.report._words import NOTHING, namer, number, percent, plural, points, symbol
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator.evaluation import Evaluation, Way
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.blend import BlendFit
from snapimpute.experts.proximal.expert import ProximalFit
from snapimpute.views.figures import Confusion, Convergence, TuningScores, WayScores, reliability_of

MOST_KINDS = 30
"""Kinds of columns whose confusion is shown, at most."""

MOST_SYMBOLS = 40
"""Symbols of an alphabet whose confusion is shown, at most."""

MOST_TABLED = 12
"""Symbols of an alphabet whose confusion is also written as a table, at most."""

PARTS = (
    ("read", "What was read"),
    ("headline", "In short"),
    ("experts", "Experts"),
    ("runs", "Runs"),
    ("choice", "Choice of λ and ξ"),
    ("convergence", "Convergence"),
    ("scores", "Hidden cells"),
    ("confusion", "Symbols"),
    ("reliability", "Probabilities"),
    ("table", "The table"),
    ("doubts", "Least certain cells"),
    ("settings", "To repeat it"),
)
"""Sections of a page, with their names in the contents."""

OPTIONAL = ("experts", "runs", "choice", "convergence")
"""Sections that only some methods have."""

Text = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Content:
    """Content of a page: text by section, figures by name, and the cells of the pictures of the table."""

    text: Text
    figures: dict[str, Figure] = field(default_factory=dict)
    cells: dict[str, Any] = field(default_factory=dict)


def content(
    imputer: SnapImputer,
    observations: Observations,
    evaluation: Evaluation,
    read: Sequence[tuple[str, str]],
    settings: Mapping[str, Any],
) -> Content:
    """Put together the content of a page; parameters as in `page.write_report`."""
    shape = imputer._model.shape
    if observations.shape != shape:
        raise ValueError(
            f"the observations have shape {observations.shape}, the fit {shape}: give those that were fitted"
        )
    figures: dict[str, Figure] = {}
    row_name, col_name = namer(observations.row_labels, "row"), namer(observations.col_labels, "column")
    shown, doubts = show(imputer, observations), least_certain(imputer, observations, seed=imputer.random_state)
    book = alphabets(imputer)
    text = {
        "lede": _lede(observations),
        "read": [(str(name), str(value)) for name, value in read],
        "headline": _headline(imputer, evaluation),
        "experts": experts.experts(imputer, figures),
        "runs": experts.runs(imputer),
        "choice": _choice(imputer, figures),
        "convergence": _convergence(imputer, figures),
        "scores": _scores(evaluation, figures),
        "confusion": _confusion(evaluation, col_name, figures),
        "reliability": _reliability(evaluation, figures),
        "table": _table(shown, book, row_name, col_name, figures),
        "doubts": _doubts(doubts, book, row_name, col_name, figures),
        "settings": _settings(imputer, settings),
    }
    text["parts"] = [(name, title) for name, title in PARTS if name not in OPTIONAL or text[name]]
    return Content(text, figures, heatmap.cells(shown, book, row_name, col_name))


def _lede(observations: Observations) -> str:
    (m, n), known = observations.shape, len(observations)
    missing = m * n - known
    rest = f"{missing:,} missing" if missing else "none missing"
    return (
        f"{plural(m, 'row')} × {plural(n, 'column')}, {known:,} cells known ({percent(observations.density)}), {rest}"
    )


# ---------------------------------------------------------------- headline
def _headline(imputer: SnapImputer, evaluation: Evaluation) -> Text:
    others = [way for way in evaluation.ways if way.kind == "rounding"][:1]
    baselines = [way for way in evaluation.ways if way.kind == "baseline"]
    symbols = math.isfinite(evaluation.ours.exact)
    if baselines:
        others.append(max(baselines, key=lambda way: way.exact) if symbols else min(baselines, key=lambda w: w.rmse))
    return {
        "main": _share_card(evaluation.ours) if symbols else _error_card(evaluation.ours),
        "others": [_against(evaluation, way) if symbols else _error_card(way) for way in others],
        "count": plural(len(evaluation.hidden), "hidden cell"),
        "strict": evaluation.strict,
        "chosen": _what_is_chosen(imputer),
        "open": _left_open(evaluation),
        "verdict": experts.verdict_of(imputer),
        "status": experts.status_of(imputer),
    }


def _what_is_chosen(imputer: SnapImputer) -> str:
    if isinstance(imputer.fit_, ProximalFit):
        return "λ and ξ"
    return "experts and their weights" if isinstance(imputer.fit_, BlendFit) else "its settings"


def _share_card(way: Way) -> Text:
    return {
        "label": way.label,
        "value": percent(way.exact),
        "note": "",
        "gain": f"± {100 * way.error:.1f} points",
        "tone": "",
    }


def _error_card(way: Way) -> Text:
    return {"label": way.label, "value": number(way.rmse), "note": "root mean squared error", "gain": "", "tone": ""}


def _against(evaluation: Evaluation, way: Way) -> Text:
    gain, error = evaluation.gain(way)
    even = not abs(gain) > 2 * error
    words = "no measurable difference" if even else "ours is ahead" if gain > 0 else "ours is behind"
    tone = "even" if even else "good" if gain > 0 else "bad"
    return {"label": way.label, "value": percent(way.exact), "note": words, "gain": points(gain, error), "tone": tone}


def _left_open(evaluation: Evaluation) -> str:
    """Describe the hidden cells that stay open, which count as wrong."""
    discrete = evaluation.schema.discrete[evaluation.hidden.cols]
    is_open = np.isnan(evaluation.ours.symbols[discrete])
    if not is_open.any():
        return ""
    written = evaluation.ours.right[~is_open]
    rest = f"of the others {percent(float(written.mean()))} are right" if written.size else "no other was written"
    return f"{int(is_open.sum()):,} of them were left open, being too uncertain, and count as wrong; {rest}."


# ---------------------------------------------------------------- how it was fitted
def _choice(imputer: SnapImputer, figures: dict[str, Figure]) -> Text | None:
    """Tell how the proximal expert chose; None without one, or without a choice in a blend."""
    choice = experts.choice_of(imputer)
    if choice is None:
        return {"views": []} if isinstance(imputer.fit_, ProximalFit) else None
    found = TuningScores.of(choice)
    views = [("choice-curves", "Curves")]
    figures["choice-curves"] = charts.curves(found)
    if found.lams.size > 1 and found.xis.size > 1:
        views += [("choice-map", "Map"), ("choice-surface", "3-D surface")]
        figures["choice-map"], figures["choice-surface"] = charts.score_map(found), charts.surface(found)
    tried = [
        {
            "lam": number(lam),
            "xi": number(curve.xi),
            "score": f"{score:.4g} ± {error:.2g}{' %' * found.percent}",
            "rank": f"{rank:,}",
            "chosen": (lam, curve.xi) == (found.lam, found.xi),
        }
        for curve in found.curves
        for lam, score, error, rank in zip(*(one[::-1].tolist() for one in curve.columns), strict=True)
    ]
    best = f"λ = {number(found.lam)} and ξ = {number(found.xi)}"
    return {"views": views, "tried": tried, "best": best, "metric": found.label}


def _convergence(imputer: SnapImputer, figures: dict[str, Figure]) -> Text | None:
    if not isinstance(imputer.fit_, ProximalFit):
        return None
    if imputer.n_iter_:
        figures["convergence"] = charts.convergence(Convergence.of(imputer))
    return {"count": plural(imputer.n_iter_, "iteration"), "rank": int(imputer.singular_values_.size)}


# ---------------------------------------------------------------- hidden cells
def _scores(evaluation: Evaluation, figures: dict[str, Figure]) -> Text:
    figures["scores"] = bars.scores(WayScores.of(evaluation))
    ways = [
        {
            "label": way.label,
            "kind": way.kind,
            "exact": percent(way.exact, way.error),
            "mae": number(way.mae),
            "rmse": number(way.rmse),
            "gain": NOTHING if way is evaluation.ours else points(*evaluation.gain(way)),
        }
        for way in evaluation.ways
    ]
    symbols = math.isfinite(evaluation.ours.exact)
    low_rank = isinstance(evaluation.imputer.fit_, ProximalFit)
    return {"ways": ways, "mixed": evaluation.schema.one is None, "symbols": symbols, "low_rank": low_rank}


def _confusion(evaluation: Evaluation, col_name: Name, figures: dict[str, Figure]) -> Text:
    book = evaluation.schema
    counts = np.bincount(book.which[evaluation.hidden.cols] + 1, minlength=len(book.kinds) + 1)[1:]
    found = [
        kind for kind in np.argsort(-counts, kind="stable").tolist() if counts[kind] and book.kinds[kind] is not None
    ]
    kinds = []
    for place, kind in enumerate(found[:MOST_KINDS]):
        whole = Confusion.of(evaluation, kind=kind)
        table = whole.most_frequent(MOST_SYMBOLS)
        symbols, of = table.names, len(whole.names)
        figures[f"confusion-{place}"] = charts.confusion(table)
        figures[f"recall-{place}"] = charts.recall(table)
        kinds.append(
            {
                "name": _kind_name(book, kind, col_name),
                "count": plural(int(counts[kind]), "hidden cell"),
                "symbols": symbols,
                "cut": f"The {len(symbols)} most frequent of {of} symbols are shown." * (of > len(symbols)),
                "rows": [
                    (name, [(f"{n:,}", percent(s)) for n, s in zip(row, rates, strict=True)])
                    for name, row, rates in zip(symbols, table.counts.tolist(), table.share.tolist(), strict=True)
                ]
                if len(symbols) <= MOST_TABLED
                else [],
            }
        )
    return {"kinds": kinds, "cut": f"the {MOST_KINDS} with most cells of {len(found)}" * (len(found) > MOST_KINDS)}


def _kind_name(book: ColumnSchema, kind: int, col_name: Name) -> str:
    if book.one is not None:
        return "all columns"
    cols = book.groups[kind].cols.tolist()
    some = [col_name(j) for j in cols[:3]]
    first = ", ".join(name if len(name) <= 24 else f"{name[:23]}…" for name in some)
    return first if len(cols) <= 3 else f"{first} and {len(cols) - 3:,} more"


def _reliability(evaluation: Evaluation, figures: dict[str, Figure]) -> Text | None:
    found = reliability_of(evaluation)
    if found is None:
        return None
    figures["reliability"] = charts.reliability(found)
    return {"error": f"{100 * found.error:.1f}", "count": f"{int(found.count.sum()):,}"}


# ---------------------------------------------------------------- the table
def _table(shown: Shown, book: ColumnSchema, row_name: Name, col_name: Name, figures: dict[str, Figure]) -> Text:
    views = [("table-known", "Known"), ("table-completed", "Completed")]
    if np.isfinite(shown.sure).any():
        views.append(("table-confidence", "Confidence"))
    for name, _ in views:
        view = name.removeprefix("table-")
        figures[name] = {**heatmap.view(view, shown, book, row_name, col_name), "cells": view}
    parts = [
        f"the {some:,} most observed of {plural(whole, what)}"
        for some, whole, what in zip(shown.values.shape, shown.shape, ("row", "column"), strict=True)
        if some < whole
    ]
    return {
        "views": views,
        "cut": " and ".join(parts),
        "complete": bool(shown.known.all()) and not parts,
        "mixed": len({int(kind) for kind in book.which[shown.cols]}) > 1,
        "sure": len(views) == 3,
    }


def _doubts(
    doubts: Doubts | None, book: ColumnSchema, row_name: Name, col_name: Name, figures: dict[str, Figure]
) -> Text | None:
    if doubts is None:
        return None
    if doubts.scanned:
        figures["certainty"] = charts.certainty(doubts)
    rows, cols, found = doubts.rows.tolist(), doubts.cols.tolist(), doubts.filled
    listed = [
        {
            "row": row_name(i),
            "col": col_name(j),
            "symbol": symbol(book[j], float(found.symbols[k])),
            "sure": percent(float(found.sure[k])),
            "second": symbol(book[j], float(found.second[k])),
            "second_sure": percent(float(found.second_sure[k])),
            "open": bool(found.is_open[k]),
            "order": [f"{np.nan_to_num(p):.6f}" for p in (found.sure[k], found.second_sure[k])],
        }
        for k, (i, j) in enumerate(zip(rows, cols, strict=True))
    ]
    sampled = f"{doubts.scanned:,}" if doubts.scanned < doubts.missing else ""
    opened = f"{doubts.left_open:,}" if doubts.left_open else ""
    return {"cells": listed, "missing": f"{doubts.missing:,}", "sampled": sampled, "open": opened}


# ---------------------------------------------------------------- to do it again
def _settings(imputer: SnapImputer, settings: Mapping[str, Any]) -> Text:
    codes = {"command": "On the command line", "python": "In Python"}
    given = [(str(name), _flat(value)) for name, value in settings.items() if name not in codes and value is not None]
    return {
        "codes": [(label, str(settings[name])) for name, label in codes.items() if settings.get(name)],
        "given": given,
        "model": experts.settings(imputer),
    }


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value)
