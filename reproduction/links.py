"""Links of a network: of some pairs of nodes it is known whether they are linked, and of the others it is asked.

Links and pairs without a link are hidden alike, at the same rate, and everything
that a method has to choose, the threshold from which on an estimate counts as a
link included, is chosen on a fifth of the *known* pairs. The diagonal belongs to
neither side. Where a graph is not directed its matrix is symmetric: a cell and
its mirror are known, held out or hidden together, and count as one pair.

A large graph has too many pairs without a link (8 million of ego-Facebook's):
a sample of them, a stated number for each link, takes part, and the others play no
role. Precision and F1 are then those at the prevalence of links in the sample,
which is the same among known and hidden pairs; AUC does not depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
    precision_recall_fscore_support,
    roc_auc_score,
)

from reproduction.data.graphs import ALPHABET, Graph, facebook, karate, polblogs
from reproduction.summary import mean_in_words
from reproduction.units import fingerprint
from snapimpute.base.types import Array, Index
from snapimpute.data.observations import Observations
from snapimpute.evaluation.baselines import ConstantMean
from snapimpute.experts.proximal import tuning
from snapimpute.experts.proximal.offsets import Center, KnownCells, best_damping
from snapimpute.experts.proximal.spec import ModelSpec
from snapimpute.experts.proximal.tuned import TunedSpec
from snapimpute.experts.proximal.tuning import Search
from snapimpute.linalg import Sparse, partial_svd
from snapimpute.solvers import FitOptions

DATA: dict[str, tuple[Callable[[], Graph], tuple[float, ...]]] = {
    "karate": (karate, (0.5, 0.8)),
    "polblogs": (polblogs, (0.2, 0.5, 0.8)),
    "facebook": (facebook, (0.5,)),
}
"""Sources of the links, and the shares of the pairs that stay known."""

RATIO: dict[str, float] = {"facebook": 10.0}
"""Pairs without a link that take part, for each link; all where nothing is said."""

HELD_OUT = 0.2
"""Share of the known pairs that everything is chosen on."""

RANKS = (1, 2, 3, 5, 8, 12, 20, 30, 50)
"""Tried by the spectral baseline."""

XI_STEPS = (0.0, 0.003, 0.03)
"""ξ tried: some of those that `tuning` tries. Between 0 and 1 the L1 term of this alphabet is flat, so that its
strength matters little."""

LIMITS: dict[str, Any] = {"max_rank": 50, "dtype": "float32"}
PATH: dict[str, Any] = {"max_iter": 15, "tol": 1e-3}
LAST: dict[str, Any] = {"max_iter": 40, "tol": 3e-4, "evaluate_every": 40}
"""Limits of all fits, of those along a path, and of the last one, for the sake of time. The rank often
reaches its bound: with one of 120 the average precision of Soft-Impute was higher by 0.003 (facebook) and 0.005
(polblogs, 80 % known; seed 0)."""

VERSION = 1
"""To be raised when something is run otherwise: scores are then made anew."""


# ---------------------------------------------------------------- pairs of nodes
@dataclass(frozen=True, eq=False)
class Pairs:
    """Some pairs of nodes of a graph, and which of them are linked.

    Parameters
    ----------
    nodes : int
    directed : bool
    rows, cols : array of int
        Each pair once.
    values : array of float
        1 for a link, else 0.
    share : float
        Of all links of the graph, those among these pairs.
    """

    nodes: int
    directed: bool
    rows: Index
    cols: Index
    values: Array
    share: float = 1.0

    @classmethod
    def of(cls, graph: Graph, ratio: float | None = None, random_state: int = 0) -> Pairs:
        """All pairs, or all links and a sample of the others."""
        return cls(graph.nodes, graph.directed, *graph.cells(ratio, random_state))

    def split(self, share: float, random_state: int) -> tuple[Pairs, Pairs]:
        """Take a share of the links and the same share of the others away; return (what is left, what was taken)."""
        rng = np.random.default_rng(random_state)
        taken = np.zeros(self.values.size, dtype=bool)
        for value in (0.0, 1.0):
            places = rng.permutation(np.flatnonzero(self.values == value))
            taken[places[: round(share * places.size)]] = True
        return self._pick(~taken, 1 - share), self._pick(taken, share)

    def _pick(self, mask: Any, share: float) -> Pairs:
        rows, cols, values = self.rows[mask], self.cols[mask], self.values[mask]
        if not 0 < values.mean() < 1:
            raise ValueError(f"of {values.size} pairs {values.sum():g} are links: there must be some of both kinds")
        return replace(self, rows=rows, cols=cols, values=values, share=self.share * share)

    @cached_property
    def observations(self) -> Observations:
        """The cells of the adjacency matrix that belong to the pairs: two for each if the graph is not directed."""
        rows, cols, values = self.rows, self.cols, self.values
        if not self.directed:
            rows, cols, values = np.append(rows, cols), np.append(cols, rows), np.tile(values, 2)
        return Observations.from_coo(rows, cols, values, (self.nodes, self.nodes))

    @cached_property
    def links(self) -> Observations:
        """Cells that are links."""
        return self.observations.take(self.observations.values > 0)

    def at(self, estimate: Estimate) -> Array:
        """Estimate of each pair: the mean of both cells if the graph is not directed."""
        found = estimate(self.rows, self.cols)
        if self.directed:
            return found
        mean: Array = (found + estimate(self.cols, self.rows)) / 2
        return mean


Estimate = Callable[[Index, Index], Array]
"""Rows and columns of cells → how much speaks for a link there, the more the larger."""

Baseline = Callable[[Pairs], Estimate]


class Answer(NamedTuple):
    """An estimate, the least value that counts as a link, and what was chosen for it."""

    estimate: Estimate
    threshold: float
    lam: float | None = None
    xi: float | None = None
    rank: int | None = None


class Path(NamedTuple):
    """The fits without a term for the alphabet, from the largest λ down, and how long they took."""

    search: Search
    seconds: float


@dataclass(frozen=True, eq=False)
class Known:
    """All known pairs, the two parts that everything is chosen with, and the paths that methods share."""

    pairs: Pairs
    kept: Pairs
    held: Pairs
    seed: int
    paths: dict[Center, Path] = field(default_factory=dict)

    def path(self, center: Center) -> Path:
        """The path of a centre, walked once."""
        if center not in self.paths:
            begin = time.perf_counter()
            damping = best_damping(self.kept.observations, center, random_state=self.seed)
            spec = ModelSpec(ALPHABET, discrete=None, center=center, damping=damping)
            self.paths[center] = Path(self._search(spec).plain(xi=XI_STEPS), time.perf_counter() - begin)
        return self.paths[center]

    def _search(self, spec: ModelSpec) -> Search:
        """A search by the squared error on the pairs that are held out."""
        parts = self.kept.observations, self.held.observations
        options = FitOptions(random_state=self.seed, alphabet_term="auto", **LIMITS, **PATH)
        return Search(spec, [parts], "rmse", "ais-impute", options)


@dataclass(frozen=True)
class Method:
    """Function that answers, and the centres whose paths it begins with."""

    run: Callable[[Known], Answer]
    centers: tuple[Center, ...] = ()


def best_threshold(truth: Array, estimate: Array) -> float:
    """The threshold of the largest F1, halfway to the next smaller estimate; −∞ if all are links then."""
    precision, recall, values = precision_recall_curve(truth, estimate)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    place = int(np.argmax(f1[:-1]))
    return float((values[place - 1] + values[place]) / 2) if place else -np.inf


# ---------------------------------------------------------------- baselines
def constant(pairs: Pairs) -> Estimate:
    """The share of links, for every pair."""
    return ConstantMean.fit(pairs.observations).entries


def degree(pairs: Pairs) -> Estimate:
    """Preferential attachment: o_i e_j / p, the share of links in the row, in the column, and in all known cells."""
    seen, size = pairs.observations, pairs.nodes
    sides = (seen.rows, seen.cols)
    out, into = (np.bincount(i, seen.values, size) / np.maximum(np.bincount(i, minlength=size), 1) for i in sides)
    mean = float(seen.values.mean())
    return lambda rows, cols: out[rows] * into[cols] / mean


def common_neighbours(pairs: Pairs, *, rare: bool = False) -> Estimate:
    """Number of known common neighbours, in either direction, over the square of the share known.

    With ``rare``, the index of Adamic and Adar: a common neighbour that has d
    known neighbours counts 1/log d.
    """
    linked = pairs.links.to_sparse()
    linked = (linked + linked.T > 0).astype(np.float64)
    counts = linked.sum(axis=0)
    weight = np.where(counts > 1, 1 / np.log(np.maximum(counts, 2)), 0.0) if rare else np.ones(pairs.nodes)
    found = sp.csr_array(linked @ sp.diags_array(weight / pairs.share**2) @ linked)

    def estimate(rows: Index, cols: Index) -> Array:
        return np.asarray(found[rows, cols], dtype=np.float64)

    return estimate


def biases(pairs: Pairs) -> Estimate:
    """Damped biases of rows and columns; the dampings are chosen on a fifth of these pairs' cells."""
    seen = KnownCells(pairs.observations)
    return seen.biases("biases", best_damping(seen, "biases")).entries


def _simple(baseline: Baseline) -> Method:
    def run(known: Known) -> Answer:
        held = known.held.at(baseline(known.kept))
        return Answer(baseline(known.pairs), best_threshold(known.held.values, held))

    return Method(run)


def truncated(pairs: Pairs, rank: int) -> Any:
    """The leading triplets of the matrix with the known links and 0 elsewhere, over the share known."""
    operator = Sparse(pairs.links, pairs.links.values / pairs.share)
    return partial_svd(operator, min(rank, pairs.nodes), tol=1e-3).x


def spectral(known: Known) -> Answer:
    """Truncated SVD, of the rank with the largest average precision on what is held out."""
    whole = truncated(known.kept, max(RANKS))
    ranks = [rank for rank in RANKS if rank <= whole.rank]
    held = {rank: known.held.at(whole.truncated(rank).entries) for rank in ranks}
    truth = known.held.values
    best = max(ranks, key=lambda rank: float(average_precision_score(truth, held[rank])))
    return Answer(truncated(known.pairs, best).entries, best_threshold(truth, held[best]), rank=best)


# ---------------------------------------------------------------- completion
def _completed(discrete: str | None, centers: tuple[Center, ...]) -> Method:
    """Nuclear norm, with or without another term; centre, λ and ξ by the squared error on what is held out."""

    def run(known: Known) -> Answer:
        plain = min((known.path(center).search for center in centers), key=lambda one: one.lowest)
        search = plain if discrete is None else _beside(plain, discrete).others()
        best = min(search.best.values(), key=lambda one: (one.score, one.xi))
        held = search.found[best][0]
        options = FitOptions(random_state=known.seed, **LIMITS, **LAST)
        plan = TunedSpec(search.spec, best.lam, best.xi)
        result = plan.fit(known.pairs.observations, "ais-impute", options, x0=search.ends[best][0])
        threshold = best_threshold(held.observations.values, held.estimate)
        xi = None if discrete is None else best.xi
        return Answer(result.entries, threshold, best.lam, xi, result.x.rank)

    return Method(run, centers)


def _beside(plain: Search, discrete: str) -> Search:
    """A search with another term that has walked the path of ξ = 0 already, where the term does not count."""
    search = copy(plain)
    search.spec = replace(plain.spec, discrete=discrete)
    search.fits = [replace(fit, bound=search.spec.bind(fit.bound.cells)) for fit in plain.fits]
    search.tried, search.best, search.found = list(plain.tried), dict(plain.best), dict(plain.found)
    search.losses, search.ends = dict(plain.losses), dict(plain.ends)
    return search


BOTH: tuple[Center, ...] = ("mean", "biases")
METHODS: dict[str, Method] = {
    "constant": _simple(constant),
    "degrees": _simple(degree),
    "common neighbours": _simple(common_neighbours),
    "Adamic–Adar": _simple(partial(common_neighbours, rare=True)),
    "spectral": Method(spectral),
    "damped biases": _simple(biases),
    "Soft-Impute, mean-centred": _completed(None, ("mean",)),
    "Soft-Impute, bias-centred": _completed(None, ("biases",)),
    "ridge to the mean": _completed("ridge", BOTH),
    "discrete-aware L1": _completed("l1", BOTH),
}


# ---------------------------------------------------------------- scores
@dataclass(frozen=True)
class Score:
    """Scores of one method on the hidden pairs of one split.

    ``seconds`` hold those of the paths that it begins with, also where another method has walked them;
    ``prevalence`` is the share of links among the ``hidden_cells`` pairs that are scored.
    """

    data: str
    share: float
    seed: int
    method: str
    auc: float
    average_precision: float
    precision: float
    recall: float
    f1: float
    seconds: float
    prevalence: float
    hidden_links: int
    hidden_cells: int
    lam: float | None = None
    xi: float | None = None
    rank: int | None = None


def prints(data: str) -> dict[str, str]:
    """The methods with their fingerprints; a graph that cannot be had is an error here already."""
    DATA[data][0]()
    made_by = tuning.LAM_STEPS, tuning.LAM_RATIO, XI_STEPS, RANKS, LIMITS, PATH, LAST, HELD_OUT, VERSION
    return {name: fingerprint(name, RATIO.get(data), made_by) for name in METHODS}


def hide(data: str, share: float, seed: int) -> tuple[Known, Pairs]:
    """Return what stays known when all but a share of the pairs are hidden, and the hidden ones."""
    pairs = Pairs.of(DATA[data][0](), RATIO.get(data), seed)
    known, hidden = pairs.split(1 - share, seed)
    return Known(known, *known.split(HELD_OUT, seed), seed), hidden


def run_unit(data: str, share: float, seed: int, methods: Sequence[str]) -> Iterator[Score]:
    """Hide all but a share of the pairs and let methods tell which are links."""
    known, hidden = hide(data, share, seed)
    for part in (known.pairs, known.kept, known.held):
        part.observations  # noqa: B018  made once for all methods, and counted for none
    for name in methods:
        shared = sum(known.path(center).seconds for center in METHODS[name].centers)
        begin = time.perf_counter()
        answer = METHODS[name].run(known)
        estimate = hidden.at(answer.estimate)
        seconds = shared + time.perf_counter() - begin
        yield _score((data, share, seed), name, hidden.values, estimate, answer, seconds)


def _score(
    unit: tuple[str, float, int], method: str, truth: Array, estimate: Array, answer: Answer, seconds: float
) -> Score:
    decided = estimate >= answer.threshold
    precision, recall, f1, _ = precision_recall_fscore_support(truth, decided, average="binary", zero_division=0.0)
    return Score(
        *unit,
        method,
        auc=float(roc_auc_score(truth, estimate)),
        average_precision=float(average_precision_score(truth, estimate)),
        precision=float(precision),
        recall=float(recall),
        f1=float(f1),
        seconds=round(seconds, 2),
        prevalence=float(truth.mean()),
        hidden_links=int(truth.sum()),
        hidden_cells=truth.size,
        lam=answer.lam,
        xi=answer.xi,
        rank=answer.rank,
    )


SHOWN = {"AUC": "auc", "AP": "average_precision", "precision": "precision", "F1": "f1"}


def as_markdown(scores: Sequence[Score]) -> str:
    """A table for each graph: AUC, average precision, precision and F1, each mean ± standard error over the seeds."""
    out = []
    for data in dict.fromkeys(s.data for s in scores):
        mine = [s for s in scores if s.data == data]
        shares = list(dict.fromkeys(s.share for s in mine))
        hidden = {share: next(s for s in mine if s.share == share) for share in shares}
        sizes = "; ".join(
            f"{100 * share:g} % known: {one.hidden_links:,} links among {one.hidden_cells:,} hidden pairs"
            f" ({100 * one.prevalence:.2g} %)"
            for share, one in hidden.items()
        )
        out.append(f"### {data}: {len({s.seed for s in mine})} seeds\n\n{sizes}\n")
        heads = [f"{100 * share:g} %: {name}" for share in shares for name in SHOWN]
        out.append("| method | " + " | ".join(heads) + " |")
        out.append("|---" * (len(heads) + 1) + "|")
        for method in dict.fromkeys(s.method for s in mine):
            rows = {share: [s for s in mine if (s.method, s.share) == (method, share)] for share in shares}
            cells = [
                mean_in_words([getattr(s, of) for s in rows[share]], 3) if rows[share] else ""
                for share in shares
                for of in SHOWN.values()
            ]
            out.append(f"| {method}{_plain([s for s in mine if s.method == method])} | " + " | ".join(cells) + " |")
        out.append("")
    return "\n".join(out)


def _plain(rows: Sequence[Score]) -> str:
    """Count the seeds for which a method was the plain one after all."""
    chosen = [s.xi for s in rows if s.xi is not None]
    return f" (ξ = 0 chosen in {chosen.count(0.0)} of {len(chosen)})" if 0.0 in chosen else ""
