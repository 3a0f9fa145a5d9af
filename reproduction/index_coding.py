"""Index coding: the fewest broadcasts after which every receiver knows the message that it wants.

The best linear code is a completion of least rank, "minrank", of a matrix with 1
on the diagonal, free entries where a receiver holds a message, and 0 elsewhere
(see `index_codes`). The answer depends on the field, and on the entries allowed:
the instance "random-9" needs 5 broadcasts over GF(2), but 4 over GF(3) and, as
far as rounding can tell, over the reals.

The nuclear norm is no help here: ‖X‖_* ≥ tr X = n, and the identity, which sends
every message, attains it. So does every positive semidefinite completion, which
leaves nothing to choose by. Methods that seek low rank otherwise stand beside an
exact search. A rank is claimed only for a scheme that decodes: with exact
numbers, or to rounding, and then it says which singular value was taken for 0.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from reproduction.index_codes import (
    BITS,
    GF2,
    MAX_SECONDS,
    REALS,
    SIGNS,
    Field,
    Scheme,
    SideInformation,
    TooLong,
    clique_cover,
    exact,
    lower_bound,
    search_seconds,
)
from reproduction.units import fingerprint
from snapimpute.base.types import Array
from snapimpute.data.observations import Observations
from snapimpute.linalg import LowRank
from snapimpute.penalties import L1, DiscretePenalty, LogSum, Nuclear, Rank, SpectralPenalty
from snapimpute.problem import Problem
from snapimpute.solvers import solve

__all__ = [
    "BITS",
    "GF2",
    "INSTANCES",
    "METHODS",
    "REALS",
    "SIGNS",
    "Field",
    "Instance",
    "Scheme",
    "Score",
    "SideInformation",
    "TooLong",
    "alternating_projections",
    "as_markdown",
    "clique_cover",
    "exact",
    "index_code",
    "local_search",
    "lower_bound",
    "nuclear",
    "penalised",
    "prints",
    "run_unit",
    "search_seconds",
]


def index_code(side: SideInformation, field: Field = GF2, *, seed: int = 0) -> Scheme:
    """Find a code with few broadcasts, the fewest where an exact search is short enough.

    Parameters
    ----------
    side : SideInformation
    field : Field
        ``GF2``; ``SIGNS`` or ``BITS``, the reals with entries −1, 0, 1 or 0, 1, which are searched exactly or
        refused (`TooLong`); ``REALS``, by methods that may miss the best.
    seed : int
        For the random starts of such methods.

    Returns
    -------
    Scheme
        Its ``proved`` says whether no code over the field is better.

    Examples
    --------
    >>> print(index_code(SideInformation.from_lists([[1, 2], [0], [0, 1]])))
    2 broadcasts for 3 receivers over GF(2), proved least
    broadcast 1: x1 + x2
    broadcast 2: x3
    receiver 1 wants x1, holds x2, x3: from b1 subtract x2
    receiver 2 wants x2, holds x1: from b1 subtract x1
    receiver 3 wants x3, holds x1, x2: take b2
    """
    if field.alphabet is not None:
        try:
            return exact(side, field)
        except TooLong:
            if field != GF2:
                raise
    ways = (alternating_projections, METHODS["LSP, reals"]) if field == REALS else (local_search, _walk_from_reals)
    found = (clique_cover(side, field), *(way(side, seed) for way in ways))
    return min(found, key=lambda scheme: scheme.rank).judged()


# ---------------------------------------------------------------- GF(2), larger
def local_search(side: SideInformation, seed: int = 0, *, start: Scheme | None = None, steps: int = 20_000) -> Scheme:
    """Walk among codes over GF(2), from `clique_cover` if not told, one row at a time, and never to a higher rank.

    Where a row can be made of the others, it becomes one of the rows that can,
    at random; else its free entries are drawn anew, which costs no rank.
    """
    start = clique_cover(side) if start is None else start
    if (start.side, start.field) != (side, GF2):
        raise ValueError(f"start must be a scheme over GF(2) for the same receivers, got one over {start.field.name}")
    draw, n = random.Random(seed), side.n  # noqa: S311  # a search
    rows = [sum(1 << j for j, x in enumerate(row) if x) for row in start.matrix]
    best, least, bound = list(rows), _binary_rank(rows), lower_bound(side)
    for _ in range(steps):
        if least == bound:
            break
        i = draw.randrange(n)
        made = _made_of(rows[:i] + rows[i + 1 :], 1 << i, (1 << n) - 1 - side.masks[i], draw)
        rows[i] = 1 << i | draw.getrandbits(n) & side.masks[i] if made is None else made
        rank = _binary_rank(rows)
        if rank < least:
            best, least = list(rows), rank
    return Scheme.of(side, GF2, [[row >> j & 1 for j in range(n)] for row in best]).judged()


def _walk_from_reals(side: SideInformation, seed: int = 0) -> Scheme:
    """`local_search` from what LSP finds: entries −1, 0, 1 modulo 2 have no higher rank than over the reals."""
    found = METHODS["LSP, reals"](side, seed)
    return local_search(side, seed, start=None if found.discarded else Scheme.of(side, GF2, found.matrix))


def _made_of(rows: Sequence[int], target: int, fixed: int, draw: random.Random) -> int | None:
    """A random sum of rows that equals a target on the bits that are fixed, None if no sum does."""
    basis: dict[int, int] = {}
    loose, made = [], 0
    for row in rows:
        left = row
        while left & fixed and (top := (left & fixed).bit_length()) in basis:
            left ^= basis[top]
        if left & fixed:
            basis[top] = left
        else:
            loose.append(left)
    while wrong := (made ^ target) & fixed:
        if wrong.bit_length() not in basis:
            return None
        made ^= basis[wrong.bit_length()]
    for row in loose:
        made ^= row if draw.random() < 0.5 else 0
    return made


def _binary_rank(rows: Sequence[int]) -> int:
    basis: list[int] = []
    for row in rows:
        for other in basis:
            row = min(row, row ^ other)  # noqa: PLW2901  # reduced step by step
        if row:
            basis.append(row)
    return len(basis)


# ---------------------------------------------------------------- reals
def alternating_projections(
    side: SideInformation, seed: int = 0, *, starts: int = 32, max_iter: int = 3000
) -> Scheme:
    """Project by turns on matrices of rank r and on completions, from random starts; r falls while one arrives."""
    rng, best = np.random.default_rng(seed), _sent_singly(side)
    while best.rank > lower_bound(side):
        start = 0.3 * rng.standard_normal((starts, side.n, side.n))
        found = _projected(side, start, best.rank - 1, max_iter)
        scheme = None if found is None else _cleaned(side, found, best.rank - 1)
        if scheme is None or scheme.rank >= best.rank:
            break
        best = scheme
    return best.judged()


def penalised(
    side: SideInformation,
    seed: int = 0,
    *,
    spectral: Sequence[SpectralPenalty],
    discrete: DiscretePenalty | None = None,
    starts: int = 10,
    max_iter: int = 300,
) -> Scheme:
    """Minimise (E), the fixed entries observed, from random starts, with each of some spectral penalties in turn.

    What is found is cleaned: the free entries are rounded to −1, 0, 1, and where
    that costs rank, the matrix is projected to the completions of its rank.
    """
    rng, best = np.random.default_rng(seed), _sent_singly(side)
    for k in range(starts):
        if best.rank == lower_bound(side):
            break
        U, s, Vt = np.linalg.svd(side.completed(rng.standard_normal((side.n, side.n))))
        problem = Problem(_fixed(side), spectral[k % len(spectral)], discrete)
        found = solve(problem, x0=LowRank(U, s, Vt.T), max_iter=max_iter, tol=1e-6, evaluate_every=max_iter)
        best = min(best, _cleaned(side, found.x.to_dense(), found.x.rank), key=lambda scheme: scheme.rank)
    return best.judged()


def nuclear(side: SideInformation, seed: int = 0, *, lam: float = 1e-3) -> Scheme:
    """Minimise (E) with the nuclear norm by Soft-Impute, from 0: that gives (1 − λ) times the identity."""
    found = solve(Problem(_fixed(side), Nuclear(lam)), "soft-impute", tol=1e-9, random_state=seed)
    return _cleaned(side, found.x.to_dense(), found.x.rank)


def _fixed(side: SideInformation) -> Observations:
    return Observations.from_dense(side.completed(np.full((side.n, side.n), np.nan)))


def _sent_singly(side: SideInformation) -> Scheme:
    return Scheme.of(side, REALS, np.eye(side.n).tolist())


def _projected(side: SideInformation, start: Array, rank: int, max_iter: int) -> Array | None:
    """The first of a stack of matrices that comes to be a completion of a rank, if one does."""
    M = side.completed(start)
    for _ in range(max_iter):
        U, s, Vt = np.linalg.svd(M)
        there = np.flatnonzero(s[:, rank : rank + 1].max(axis=1, initial=0.0) <= 1e-11)
        if there.size:
            return np.asarray(M[there[0]])
        M = side.completed((U[:, :, :rank] * s[:, None, :rank]) @ Vt[:, :rank])
    return None


def _cleaned(side: SideInformation, X: Array, rank: int) -> Scheme:
    """A scheme from a matrix near a completion: of entries −1, 0, 1, or of its rank to rounding if that is lower."""
    rounded = Scheme.of(side, REALS, side.completed(np.clip(np.rint(X), -1, 1)).tolist())
    found = _projected(side, X[None], rank, 300) if rank < rounded.rank else None
    near = None if found is None else Scheme.near(side, found, rank)
    return near or rounded


# ---------------------------------------------------------------- the study
class Instance(NamedTuple):
    """Side information, and the least rank by name of the field where theory tells it."""

    side: SideInformation
    known: Mapping[str, int]


def _directed(n: int) -> Instance:
    """n − 1, but n over the reals with 0 and 1 if n is odd: the circulant of 1, 1, 0, … is regular then."""
    side = SideInformation.cycle(n, directed=True)
    return Instance(side, {GF2.name: n - 1, SIGNS.name: n - 1, REALS.name: n - 1, BITS.name: n - 1 + n % 2})


def _everywhere(side: SideInformation, rank: int) -> Instance:
    return Instance(side, {field.name: rank for field in (GF2, SIGNS, BITS, REALS)})


INSTANCES: dict[str, Instance] = {
    "none-5": _everywhere(SideInformation.none(5), 5),
    "complete-6": _everywhere(SideInformation.complete(6), 1),
    "cycle-5": _everywhere(SideInformation.cycle(5), 3),
    "cycle-9": Instance(SideInformation.cycle(9), {GF2.name: 5}),
    **{f"directed-{n}": _directed(n) for n in (3, 4, 5, 6, 7)},
    "random-7": Instance(SideInformation.random(7, 0.5, seed=0), {}),
    "random-8": Instance(SideInformation.random(8, 0.4, seed=0), {}),
    "random-8-dense": Instance(SideInformation.random(8, 0.5, seed=35), {}),
    "random-9": Instance(SideInformation.random(9, 0.5, seed=24), {}),
    "random-10": Instance(SideInformation.random(10, 0.4, seed=19), {}),
    "random-16": Instance(SideInformation.random(16, 0.4, seed=0), {}),
    "random-24": Instance(SideInformation.random(24, 0.4, seed=0), {}),
}


def _searched(field: Field, side: SideInformation, seed: int) -> Scheme:
    return exact(side, field)


LSP = tuple(LogSum(lam, theta=0.1) for lam in (0.01, 0.02, 0.03, 0.05, 0.08))
EXACT = {"exact, GF(2)": GF2, "exact, reals −1/0/1": SIGNS, "exact, reals 0/1": BITS}
METHODS: dict[str, Callable[[SideInformation, int], Scheme]] = {
    **{name: partial(_searched, field) for name, field in EXACT.items()},
    "local search, GF(2)": local_search,
    "LSP, then local search, GF(2)": _walk_from_reals,
    "clique cover, GF(2)": lambda side, seed: clique_cover(side),
    "alternating projections, reals": alternating_projections,
    "LSP, reals": partial(penalised, spectral=LSP),
    "LSP and L1 to −1/0/1, reals": partial(penalised, spectral=LSP, discrete=L1([-1, 0, 1], xi=0.001)),
    "rank penalty, reals": partial(penalised, spectral=tuple(Rank(lam) for lam in (0.02, 0.05, 0.1, 0.2, 0.3))),
    "nuclear norm, reals": nuclear,
}
SHOWN = ("cycle-5", "random-8")
"""Schemes of these are printed below the tables."""

VERSION = 1
"""To be raised when a method is run otherwise: its scores are then made anew."""


@dataclass(frozen=True)
class Score:
    """Answer of one method: a rank over a field, whether it is proved least, and the lines of the scheme.

    ``discarded`` is the largest singular value that was taken for 0, and 0 where numbers are exact.
    """

    data: str
    share: float
    seed: int
    method: str
    field: str
    rank: int
    exact: bool
    known: int | None
    verified: bool
    seconds: float
    broadcasts: tuple[str, ...]
    discarded: float = 0.0


def prints(data: str | None = None) -> dict[str, str]:
    """The methods with their fingerprints; of an instance, those that are not refused there."""
    if data is None:
        return {name: fingerprint(name, VERSION) for name in METHODS}
    side = INSTANCES[data].side
    too_long = {name for name, field in EXACT.items() if search_seconds(side, field) > MAX_SECONDS}
    return {name: fingerprint(name, VERSION, side.held) for name in METHODS if name not in too_long}


def run_unit(data: str, share: float, seed: int, methods: Sequence[str]) -> Iterator[Score]:
    """Let methods find a code for an instance, and verify it; the share has no meaning here."""
    side, known = INSTANCES[data]
    for name in methods:
        begin = time.perf_counter()
        scheme = METHODS[name](side, seed).judged()
        spent = round(time.perf_counter() - begin, 3)
        yield Score(
            data,
            share,
            seed,
            name,
            scheme.field.name,
            scheme.rank,
            scheme.proved,
            known.get(scheme.field.name),
            scheme.verify(),
            spent,
            tuple(str(scheme).splitlines()),
            scheme.discarded,
        )


def as_markdown(scores: Sequence[Score]) -> str:
    """Tables of ranks and seconds, instances by methods, and the best schemes of the 5-cycle and a random graph."""
    ranks = _table(scores, _ranks, {"at least": _bound, "known": _known})
    seconds = _table(scores, lambda rows: f"{np.mean([s.seconds for s in rows]):.2f}", {})
    marks = "\\* proved least over the field, ≈ a code to rounding, ! not verified; over several seeds from – to."
    out = ["### Broadcasts\n", marks, "", *ranks, "", "### Seconds\n", *seconds, ""]
    for data in dict.fromkeys(s.data for s in scores):
        verified = [s for s in scores if s.data == data and s.verified]
        if verified and data in SHOWN:
            best = min(verified, key=lambda s: (s.rank, not s.exact))
            out += [f"### {data}, {best.method}\n", "```text", *best.broadcasts, "```", ""]
    return "\n".join(out)


def _table(
    scores: Sequence[Score], cell: Callable[[Sequence[Score]], str], more: Mapping[str, Callable[[str], str]]
) -> list[str]:
    """A line for each instance and a column for each method, after further columns that depend on the instance."""
    methods = list(dict.fromkeys(s.method for s in scores))
    lines = ["| instance | " + " | ".join((*more, *methods)) + " |", "|---|" + "---|" * (len(more) + len(methods))]
    for data in dict.fromkeys(s.data for s in scores):
        rows = {m: [s for s in scores if (s.data, s.method) == (data, m)] for m in methods}
        cells = [*(column(data) for column in more.values()), *(cell(r) if r else "–" for r in rows.values())]
        lines.append(f"| {data} | " + " | ".join(cells) + " |")
    return lines


def _ranks(rows: Sequence[Score]) -> str:
    low, high = min(s.rank for s in rows), max(s.rank for s in rows)
    marks = "*" * all(s.exact for s in rows) + "≈" * any(s.discarded for s in rows)
    marks += "!" * (not all(s.verified for s in rows))
    return (f"{low}" if low == high else f"{low}–{high}") + marks


def _bound(data: str) -> str:
    return str(lower_bound(INSTANCES[data].side))


def _known(data: str) -> str:
    known = INSTANCES[data].known
    same = len(set(known.values())) == 1
    return (str(min(known.values())) if same else "; ".join(f"{f}: {r}" for f, r in known.items())) or "–"
