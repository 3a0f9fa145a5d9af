"""Sections about experts: who carries the answer, whether their runs have settled, and what they have chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from snapimpute.app.report import _bars as bars
from snapimpute.app.report._canvas import Figure
from snapimpute.app.report._words import NOTHING, number, percent, plural
from snapimpute.base.machine import seconds_in_words
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.blend import BlendFit, BlendVerdict, ExpertScore
from snapimpute.experts.proximal.choice import Choice, Verdict
from snapimpute.experts.proximal.expert import ProximalFit
from snapimpute.views.figures import ExpertScores

Text = dict[str, Any]

RUN_ON = "More sweeps, or a longer time limit, let the chains agree; until then probabilities may be off a little."
SETTLED = {
    True: ("Settled", "good", ""),
    False: ("Not settled", "bad", RUN_ON),
    None: ("Too few draws to tell", "even", RUN_ON),
}


def fits_of(imputer: SnapImputer) -> list[tuple[str, Any]]:
    """Return the fitted experts with their names: the members of a blend, or the one there is."""
    fit = imputer.fit_
    if isinstance(fit, BlendFit):
        return [(one.label, one.fit) for one in fit.members]
    return [(next(iter(imputer.blend_)), fit)]


def choice_of(imputer: SnapImputer) -> Choice | None:
    """Return the strengths that were tried by the proximal expert, alone or as a member of a blend."""
    fits = (fit for _, fit in fits_of(imputer))
    return next((fit.choice for fit in fits if isinstance(fit, ProximalFit) and fit.choice is not None), None)


# ---------------------------------------------------------------- who carries the answer
def experts(imputer: SnapImputer, figures: dict[str, Figure]) -> Text | None:
    """Tell what each expert of a blend scored, its weight, and what follows; None where one expert was asked for."""
    if not isinstance(imputer.fit_, BlendFit):
        return None
    verdict: BlendVerdict = imputer.fit_.verdict
    if any(math.isfinite(one.loss) for one in imputer.experts_):
        figures["experts"] = bars.experts(ExpertScores.of(imputer))
    lines = str(verdict).splitlines()
    return {
        "rows": [_row(one) for one in imputer.experts_],
        "cells": plural(verdict.cells, "held-out cell") if verdict.cells else "",
        "said": f"{lines[0]}.",
        "penalty": " ".join(lines[1:]),
    }


def _row(one: ExpertScore) -> Text:
    known = math.isfinite(one.loss)
    return {
        "name": one.name,
        "loss": f"{one.loss:.4f} ± {one.error:.4f}" if known else NOTHING,
        "wrong": percent(one.wrong) if known else NOTHING,
        "weight": f"{one.weight:.2f}" if one.weight else NOTHING,
        "seconds": seconds_in_words(one.seconds) if one.seconds else NOTHING,
        "reason": one.reason,
        "member": one.weight > 0,
    }


def verdict_of(imputer: SnapImputer) -> Text:
    """Answer in a few words the question that the method raises: who carries the answer, or did discreteness help."""
    verdict = imputer.verdict_
    if isinstance(verdict, BlendVerdict):
        asked = "Which expert carries the answer?"
        share = "alone" if verdict.share >= 1 else percent(verdict.share, digits=0)
        detail = str(verdict).splitlines()[0].partition(": ")[2]
        return {"asked": asked, "answer": f"{verdict.leader}, {share}", "tone": "even", "detail": _sentence(detail)}
    if isinstance(imputer.fit_, ProximalFit):
        return {"asked": "Did discreteness beat rounding?", **of_penalty(imputer.choice_, verdict)}
    (label,) = imputer.blend_
    detail = "It was the only one that was asked for, so no other was compared with it."
    return {"asked": "Which expert answers?", "answer": f"{label}, alone", "tone": "even", "detail": detail}


def of_penalty(choice: Choice | None, verdict: Verdict | None) -> Text:
    """Tell whether discreteness beat rounding on the held-out cells of the tuning."""
    if verdict is None:
        why = "λ and ξ were given" if choice is None else "only one side was tried, with ξ or without"
        return {"answer": "Not asked", "tone": "even", "detail": f"{why}, so the two were not compared."}
    answers = {True: ("Yes", "good"), False: ("No, it did worse", "bad"), None: ("No measurable difference", "even")}
    answer, tone = answers[verdict.helped]
    return {"answer": answer, "tone": tone, "detail": f"{str(verdict).partition(': ')[2]}."}


# ---------------------------------------------------------------- how the runs went
def runs(imputer: SnapImputer) -> list[Text]:
    """Tell of each run with diagnostics: whether it has settled, its figures, and what to do."""
    return [
        _run(label, fit.status, fit.diagnostics)
        for label, fit in fits_of(imputer)
        if getattr(fit, "diagnostics", None) is not None
    ]


def _run(label: str, status: Any, found: Any) -> Text:
    lines = str(found).splitlines()
    tried = [line.removeprefix("tried: ") for line in lines if line.startswith("tried: ")]
    shown = [_sentence(line) for line in lines if not line.startswith("tried: ")]
    if hasattr(found, "settled"):
        title, tone, advice = SETTLED[found.settled]
        shown[:1] = [_sentence(lines[0].rpartition("settled: ")[2])]  # the title says so
    else:
        title, tone, advice = ("Ended", "good", "") if has_ended(status) else ("Stopped early", "bad", "")
    advice = getattr(status, "advice", "") or advice
    return {"label": label, "title": title, "tone": tone, "lines": shown, "tried": tried, "advice": advice}


def has_ended(status: Any) -> bool:
    """Tell whether a run did all that it was to do; sweeps and rounds have no other end than their number."""
    return status is None or status.code in ("converged", "max_iter")


def status_of(imputer: SnapImputer) -> Text:
    """Tell whether the fit has settled, and what to do; the proximal expert converges, chains have to agree."""
    status = imputer.status_
    if isinstance(imputer.fit_, ProximalFit):
        title, tone = ("Converged", "good") if status.converged else ("Not converged", "bad")
        detail = _sentence(status.message.removeprefix(f"{title}: "))
        return {"title": title, "tone": tone, "detail": detail, "advice": status.advice}
    told = {"title": "Yes", "tone": "good", "detail": _sentence(status.message), "advice": status.advice}
    if not has_ended(status):
        return told | {"title": "Stopped early", "tone": "bad"}
    for tone, title, words in (("bad", "Not settled", "do not agree yet"), ("even", SETTLED[None][0], "are short")):
        unsure = [one["label"] for one in runs(imputer) if one["tone"] == tone]
        if unsure:
            detail = f"{told['detail']} The chains of {' and '.join(unsure)} {words}."
            return {"title": title, "tone": tone, "detail": detail, "advice": status.advice or RUN_ON}
    return told


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


# ---------------------------------------------------------------- what was fitted
def settings(imputer: SnapImputer) -> list[tuple[str, str]]:
    """List what was fitted, and what each expert has chosen."""
    sure = f", left open below {percent(imputer.min_confidence, digits=0)}" if imputer.min_confidence > 0 else ""
    decided = ("symbols decided by", f"{imputer.decide}{sure}")
    if isinstance(imputer.fit_, ProximalFit):
        return [*_of_proximal(imputer.fit_)[:3], decided, *_of_proximal(imputer.fit_)[3:]]
    chosen = []
    for label, fit in fits_of(imputer):
        weight = imputer.blend_.get(label, 0.0)
        share = f"weight {weight:.2f}" if isinstance(imputer.fit_, BlendFit) else ""
        chosen.append((label, "; ".join([*filter(None, [share]), *_chosen(fit)])))
    return [*chosen, decided]


def _chosen(fit: Any) -> Iterator[str]:
    """Say what an expert has chosen, in a few words."""
    found: Any = getattr(fit, "diagnostics", None)
    if isinstance(fit, ProximalFit):
        yield from (f"{name} {value}" for name, value in _of_proximal(fit))
    elif hasattr(found, "settings"):
        yield str(found.settings)
    elif hasattr(found, "draws"):
        yield f"{plural(found.draws, 'draw')} of {plural(found.chains, 'chain')}"
        if hasattr(fit, "frame"):
            yield f"thresholds by {'row' if fit.frame.by_rows else 'column'}"


def _of_proximal(fit: ProximalFit) -> list[tuple[str, str]]:
    spec = fit.tuned.spec
    biased = spec.center in ("rows", "columns", "biases")
    damping = f" (damping {', '.join(number(float(one)) for one in spec.damping)})" if biased else ""
    return [
        ("strength of low rank, λ", number(fit.lam, 6)),
        ("strength of discreteness, ξ", number(fit.xi, 6)),
        ("subtracted first", f"{spec.center or 'nothing'}{damping}"),
        ("rank", str(fit.rank)),
        ("solver", f"{fit.solver}: {fit.why}"),
    ]
