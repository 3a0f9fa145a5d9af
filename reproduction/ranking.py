"""All on the same hidden ratings, the best first: the paper's methods, their controls, ours, other packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reproduction import paper, peers
from reproduction.summary import in_words, standard_error

KINDS = {"paper": "the paper's", "control": "control", "beyond": "beyond the paper"}
OURS = "ours"


@dataclass(frozen=True)
class Place:
    """One method at one share: its mean over the splits that all have, and its place by NMSE among all of them."""

    share: float
    place: int
    method: str
    kind: str
    nmse: float
    nmse_error: float
    exact: float
    exact_error: float
    seeds: int


def rank(own: Sequence[paper.Score], others: Sequence[peers.Score]) -> list[Place]:
    """Places by share, of the splits that other packages ran, too; methods tuned on test have no place here."""
    found = []
    splits = {(one.share, one.seed) for one in others if one.nmse is not None}
    for share in sorted({share for share, _ in splits} & {one.share for one in own}):
        seeds = {seed for at, seed in splits if at == share}
        rows = sorted(_rows(own, others, share, seeds), key=lambda row: float(np.mean(row[2])))
        for place, (method, kind, nmse, exact) in enumerate(rows, 1):
            means = float(np.mean(nmse)), standard_error(nmse), float(np.mean(exact)), standard_error(exact)
            found.append(Place(share, place, method, kind, *means, len(nmse)))
    return found


def _rows(
    own: Sequence[paper.Score], others: Sequence[peers.Score], share: float, seeds: set[int]
) -> Iterator[tuple[str, str, list[float], list[float]]]:
    """Method, kind, NMSE and exact match by seed; only of those that have all seeds."""
    scored: dict[str, dict[int, tuple[float, float]]] = {}
    both: Sequence[paper.Score | peers.Score] = [*own, *others]
    for one in both:
        tuned_on_test = one.method.endswith(paper.ON_TEST)
        if one.share == share and one.seed in seeds and not tuned_on_test and one.nmse is not None:
            scored.setdefault(one.method, {}).setdefault(one.seed, (one.nmse, one.exact or 0.0))
    for method, by_seed in scored.items():
        if by_seed.keys() == seeds:
            nmse, exact = zip(*by_seed.values(), strict=True)
            yield method, _kind(method), list(nmse), list(exact)


def _kind(method: str) -> str:
    if method in paper.METHODS:
        return KINDS[paper.METHODS[method].kind]
    if method in paper.BASELINES:
        return KINDS["control"]
    return OURS if method.startswith(OURS) else "another package"


def as_markdown(places: Sequence[Place]) -> str:
    """Winners, and all methods with their places at each share, ordered by the mean of these."""
    shares = sorted({one.share for one in places})
    found = {(one.method, one.share): one for one in places}
    methods = list(dict.fromkeys(one.method for one in places))
    methods.sort(key=lambda name: np.mean([found[name, s].place for s in shares if (name, s) in found]))
    out = [_first([one for one in places if one.share == share]) for share in shares]
    heads = [f"{100 * share:g} %: NMSE (place) | exact %" for share in shares]
    out += ["", "| method | | " + " | ".join(heads) + " |", "|---|---|" + "---|---|" * len(shares)]
    for name in methods:
        cells = [_cells(found.get((name, share))) for share in shares]
        out.append(f"| {name} | {_kind(name)} | " + " | ".join(cells) + " |")
    out += ["", "MovieLens-100k; the splits of a share are the same for all, and nothing was tuned on test."]
    return "\n".join(out) + "\n"


def _first(places: Sequence[Place]) -> str:
    """Winners by NMSE and by exact match; all that have the same in the digits shown."""
    least, most = f"{places[0].nmse:.4f}", f"{100 * max(one.exact for one in places):.1f}"
    best = [one.method for one in places if f"{one.nmse:.4f}" == least]
    sure = [one.method for one in places if f"{100 * one.exact:.1f}" == most]
    share, seeds = places[0].share, places[0].seeds
    return (
        f"- {100 * share:g} % observed, {seeds} split{'s' * (seeds != 1)}: least NMSE {'; '.join(best)} ({least}), "
        f"most ratings exact {'; '.join(sure)} ({most} %)."
    )


def _cells(one: Place | None) -> str:
    if one is None:
        return " | "
    exact = in_words(100 * one.exact, 100 * one.exact_error, 1)
    return f"{in_words(one.nmse, one.nmse_error, 4)} ({one.place}) | {exact}"
