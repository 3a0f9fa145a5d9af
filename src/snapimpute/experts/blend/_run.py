"""A blend on its way: probes, folds, weights, and the last fits, within a time limit."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.clock import Clock
from snapimpute.base.types import Array
from snapimpute.data.expert import Expert
from snapimpute.data.holdout import Split, folds_of, imitating, row_order
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.blend.contest import BlendTable, Candidate, Contest
from snapimpute.experts.blend.fit import BlendFit, Member, Reach, columns_of
from snapimpute.experts.blend.forecast import BlendForecast, plan_of
from snapimpute.experts.blend.pool import Pool
from snapimpute.experts.blend.report import BlendVerdict, Step
from snapimpute.experts.proximal.expert import Proximal, ProximalFit
from snapimpute.solvers import Status

logger = logging.getLogger("snapimpute")

HELD_OUT, ENOUGH, MOST_FOLDS, MOST_HELD_OUT = 0.1, 4000, 5, 100_000
"""Share of the known cells in a fold; cells that the weights want, folds that may give them, and cells at most."""

SMALL, MOST_OF_SMALL = 20_000, 8
"""Cells of a small table, known or not, and folds that it may have: they cost little, and more steady the weights."""

LEAST_CELLS = 50
"""Known cells from which some are held out; with fewer, one expert answers alone."""

PROBE_CELLS, PIECE_CELLS, PIECE_COLUMNS = 200_000, 60_000, 800
"""Known cells from which experts are tried on a piece first; cells of the piece, and neighbouring columns at most."""

PIECE_ROWS = 500
"""Rows of a piece at least: fewer neighbouring columns are taken for them."""

ENDED = Status("converged", "All experts of the blend have ended.")
OUT_OF_TIME = Status("stopped", "The time limit ended the blend: some members know only nine tenths of the cells.")
INTERRUPTED = Status("interrupted", "interrupted: the best so far is kept")


class BlendRun:
    """A blend on its way."""

    def __init__(
        self,
        experts: Sequence[Expert],
        table: BlendTable,
        seed: int,
        clock: Clock,
        callback: Callable[[Any], Any] | None,
        progress: Callable[[Step], Any] | None,
    ) -> None:
        self.table, self.clock, self.callback, self.progress = table, clock, callback, progress
        self.waiting: list[Candidate] = []
        """Members that are not fitted to everything yet."""
        self.seed, self.stage, self.done, self.status = seed, "held out", 0, ENDED
        self.candidates = [Candidate(one, table.columns_for(one)) for one in experts]
        plans = [plan_of(one, table, timed=False) for one in self.candidates]
        for one, plan in zip(self.candidates, plans, strict=True):
            one.reason = plan.reason
        if not self._active:
            reasons = "; ".join(f"{one.label}: {one.reason}" for one in self.candidates)
            raise ValueError(f"no expert takes this table ({reasons})")
        for kind in table.kinds:
            if not self._taking([kind]):
                alphabet = table.schema.kinds[kind]
                told = "any numbers" if alphabet is None else repr(alphabet)
                raise ValueError(f"no expert of the blend takes columns of {told}: add one that does, or si.Habits()")
        BlendForecast.of(table.observations.shape, len(table.observations), 1, plans).check()
        self.few = len(table.observations) < LEAST_CELLS or min(table.observations.shape) == 1

    @property
    def _active(self) -> list[Candidate]:
        return [one for one in self.candidates if not one.reason]

    def _taking(self, kinds: Sequence[int]) -> list[Candidate]:
        """Return the candidates that take columns of all these kinds."""
        given = [self.table.schema.kinds[kind] for kind in kinds]
        return [one for one in self._active if all(map(one.expert.takes, given))]

    def _part(self, observations: Observations, one: Candidate) -> Observations:
        return columns_of(observations, one.columns)

    def _schema(self, one: Candidate) -> ColumnSchema:
        return self.table.schema if one.columns is None else self.table.schema.taken(one.columns)

    # ---------------------------------------------------------------- stages
    def finished(self) -> BlendFit:
        """Run all stages and return the blend."""
        if self.few:
            return self._alone()
        self.latest = self._contest(self.table)
        try:
            if len(self.table.observations) > PROBE_CELLS and self.table.square == "no":
                self._probe()
                if len(self._active) == 1:
                    return self._unrivalled(self.latest)
                self._forget(self.latest)
                self.latest = self._contest(self.table)
            self.stage = "held out"
            self.latest.run(self._splits())
        except KeyboardInterrupt:
            self.status = INTERRUPTED
            logger.warning("interrupted while experts were compared: the best so far is kept")
        if not any(one.found for one in self.candidates):
            raise KeyboardInterrupt("interrupted before any expert was fitted")
        return self._blended(self.latest)

    def _contest(self, table: BlendTable) -> Contest:
        return Contest(table, self.candidates, self.clock, self._say)

    def _forget(self, probe: Contest) -> None:
        """Begin anew after a probe, whose scores are all that is known of those that it left out."""
        for one in self.candidates:
            if one.reason and one.found:
                one.probed = probe.score(one)
            one.found, one.fit = [], None

    def _splits(self, table: BlendTable | None = None) -> list[Split]:
        """Choose held-out cells: by a hash, or in the pattern of the missing ones where that can be seen."""
        given = (table or self.table).observations
        count, share = folds_for(given)
        symmetric = self.table.square == "symmetric"
        alike = None if symmetric else imitating(given, count, share, self.seed)
        return alike or folds_of(given, count, share, self.seed, symmetric=symmetric)

    def _probe(self) -> None:
        """Try the experts on a piece of a large table, and leave out those that win nothing there."""
        rows, cols = piece_of(self.table.observations, self.seed)
        part = part_of(self.table, rows, cols)
        self.stage = "probe"
        self.latest = self._contest(part)
        self.latest.run(self._splits(part)[:1])
        for one in self.candidates:
            if one.reason and one.found:
                one.reason += f" (on a piece of {len(part.observations):,} known cells)"

    def _unrivalled(self, probe: Contest) -> BlendFit:
        """Let the one expert that won the probe answer as it is: a piece tells too little of its calibration."""
        (one,), schema = self._active, self.table.schema
        pools = self._pools_of(lambda kind: Pool.single(1, 0, len(schema.kinds[kind] or ())))
        weights = {one.label: 1.0}
        return self._made([one], pools, probe, weights, verdict_of(probe, pools, weights))

    def _alone(self) -> BlendFit:
        """Let one expert answer alone: low rank, where it takes all columns, since too few cells tell more."""
        whole = self._taking(self.table.kinds)
        if not whole:
            few = "with so few known cells one expert answers alone, and none of the blend takes all columns"
            raise ValueError(f"{few}: add one that does, or si.Habits()")
        one = next((one for one in whole if isinstance(one.expert, Proximal)), whole[0])
        for other in self._active:
            other.reason = "" if other is one else "too few cells are known to compare experts"
        pools = self._pools_of(lambda kind: Pool.single(1, 0, len(self.table.schema.kinds[kind] or ())))
        verdict = BlendVerdict(one.label, 1.0, math.nan, one.label, "", 0.0, 0.0, 0.0, 0.0, 0)
        contest = self._contest(self.table)
        return self._made([one], pools, contest, {one.label: 1.0}, verdict)

    def _pools_of(self, pool: Callable[[int], Pool]) -> tuple[Pool, ...]:
        nothing = Pool(np.zeros(0), np.zeros(0), np.zeros(0))
        return tuple(
            pool(kind) if kind in self.table.kinds else nothing for kind in range(len(self.table.schema.kinds))
        )

    def _blended(self, contest: Contest) -> BlendFit:
        """Weigh the experts that are left, and fit them to everything."""
        for one in self._active:
            if not one.found:
                one.reason = "it had not been fitted when the comparison ended"
        contest.drop(surely=False)
        pools = self._pools_of(lambda kind: contest.pool(kind)[1] if contest.shared(kind) else Pool.single(1, 0, 0))
        weights = self._weights(contest, pools)
        verdict = verdict_of(contest, pools, weights)
        return self._made(self._active, pools, contest, weights, verdict)

    def _weights(self, contest: Contest, pools: Sequence[Pool]) -> dict[str, float]:
        """Return the share of each expert in all answers: kinds count by their columns."""
        out = dict.fromkeys((one.label for one in self.candidates), 0.0)
        columns = np.bincount(np.maximum(self.table.schema.which, 0), minlength=len(pools))
        for kind in self.table.kinds:
            total = max(float(pools[kind].weights.sum()), 1e-12)
            for one, weight in zip(contest.shared(kind), pools[kind].weights, strict=True):
                out[one.label] += float(weight / total * columns[kind] / columns[self.table.kinds].sum())
        return out

    def _made(
        self,
        chosen: Sequence[Candidate],
        pools: tuple[Pool, ...],
        contest: Contest,
        weights: dict[str, float],
        verdict: BlendVerdict,
    ) -> BlendFit:
        self.stage = "everything"
        self.waiting = sorted(chosen, key=lambda one: -weights.get(one.label, 0.0))
        members = tuple(self._last_fit(self.waiting.pop(0)) for _ in chosen)
        place = {one.label: k for k, one in enumerate(members)}
        pools = tuple(
            _ordered(pool, [place[one.label] for one in contest.shared(kind) or chosen]) if pool.low.size else pool
            for kind, pool in enumerate(pools)
        )
        scores = [one.probed or contest.score(one, weights.get(one.label, 0.0)) for one in self.candidates]
        scores.sort(key=lambda one: (-one.weight, one.loss if one.loss == one.loss else math.inf))
        verdict = replace(verdict, penalty=self._penalty(members))
        return BlendFit(
            self.table.schema,
            self.table.observations,
            members,
            pools,
            Reach.of(self.table.observations),
            self.table.square,
            tuple(scores),
            verdict,
            self.status,
        )

    def _last_fit(self, one: Candidate) -> Member:
        """Fit a member to everything; where time or patience is over, the fit without held-out cells stays."""
        observations, schema, told = self._part(self.table.observations, one), self._schema(one), dict[str, Any]()
        whole = one.fit is not None and one.fit.observations.shape == observations.shape
        if whole and (self.status is INTERRUPTED or self.clock.left < one.last):
            self.status = OUT_OF_TIME if self.status is ENDED else self.status
            return one.member(one.fit, self.table)
        if math.isfinite(self.clock.limit):
            told["time_limit"] = max(self.clock.left, 0.01)
        begun = self.clock.here
        try:
            if whole:
                fit = one.expert.update(one.fit, observations, callback=self.callback, **told)
            else:
                told |= self.table.features if one.expert.uses_features else {}
                fit = one.expert.fit(observations, schema, callback=self.callback, **told)
        except KeyboardInterrupt:
            if not whole:
                raise
            self.status, fit = INTERRUPTED, one.fit
        if fit.interrupted:
            self.status = INTERRUPTED
        one.seconds += self.clock.here - begun
        self._say(one.label, math.nan)
        return one.member(fit, self.table)

    def _penalty(self, members: Sequence[Member]) -> Any:
        """Return whether the discrete penalty beat rounding, where the proximal expert tried it."""
        found = [*(one.fit for one in members), *(one.fit for one in self.candidates)]
        fits = [fit for fit in found if isinstance(fit, ProximalFit)]
        return next((fit.verdict for fit in fits if fit.verdict is not None), None)

    def _say(self, name: str, loss: float) -> None:
        """Report a step, with about how long the others will take."""
        self.done += 1
        logger.info("%s, %s: log loss %.4f", name, self.stage, loss)
        if self.progress is None:
            return
        if self.stage == "everything":
            waiting = self.waiting
            left = sum(one.last for one in waiting)
        else:
            known = [one.last for one in self._active if one.found]
            waiting = [*(one for one in self._active if not one.found), *self._active]  # a fold, and everything
            left = sum(one.last or sum(known) / len(known) for one in waiting)
        steps = self.done + len(waiting)
        self.progress(Step(name, self.stage, loss, self.done, steps, self.clock.here, left))


# ---------------------------------------------------------------- before anything is fitted
def folds_for(observations: Observations) -> tuple[int, float]:
    """Return how many parts of the known cells are held out in turn, and the share of each."""
    cells, (m, n) = len(observations), observations.shape
    share = min(HELD_OUT, MOST_HELD_OUT / cells)
    most = MOST_FOLDS if m * n > SMALL else MOST_OF_SMALL
    return int(np.clip(math.ceil(ENOUGH / (share * cells)), 1, most)), share


# ---------------------------------------------------------------- pieces of a large table
def piece_of(observations: Observations, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of a piece of a large table: random rows, and of a wide one neighbouring columns."""
    (m, n), rng = observations.shape, np.random.default_rng(seed)
    by_row = len(observations) / m
    rows = min(m, max(round(PIECE_CELLS / by_row), PIECE_ROWS))
    columns = min(n, max(round(n * PIECE_CELLS / (rows * by_row)), min(n, PIECE_COLUMNS)))
    if rows * by_row * columns / n > 2 * PIECE_CELLS and observations.density < HELD_OUT:
        columns = n
    first = int(rng.integers(0, n - columns + 1))
    return np.sort(row_order(observations, seed)[:rows]), np.arange(first, first + columns)


def part_of(table: BlendTable, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> BlendTable:
    """Return some rows and columns of a table as a table; without features, which the piece does not need."""
    given, (m, n) = table.observations, table.observations.shape
    down, across = np.full(m, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    down[rows], across[cols] = np.arange(rows.size), np.arange(cols.size)
    inside = np.flatnonzero((down[given.rows] >= 0) & (across[given.cols] >= 0))
    part = Observations.from_coo(
        down[given.rows[inside]], across[given.cols[inside]], given.values[inside], (rows.size, cols.size)
    )
    return BlendTable(part, table.schema.taken(cols), "no")


# ---------------------------------------------------------------- verdict
def verdict_of(contest: Contest, pools: Sequence[Pool], weights: dict[str, float]) -> BlendVerdict:
    """Compare the blend with its experts on the held-out cells of all kinds with an alphabet."""
    mine, leader = _blended(contest, pools), max(weights, key=lambda name: weights[name])
    losses = {one.label: contest.losses(one)[0] for one in contest.candidates}
    whole = [label for label, some in losses.items() if some.size >= mine.size > 0]
    if not whole:
        return BlendVerdict(leader, weights[leader], math.nan, leader, "", 0.0, 0.0, 0.0, 0.0, int(mine.size))
    best = min(whole, key=lambda label: float(losses[label].mean()))
    others = [label for label, some in losses.items() if some.size and label != best]
    rival = min(others, key=lambda label: float(losses[label].mean()), default="")
    gain, error = _difference(losses[best][: mine.size], mine)
    lead, lead_error = 0.0, 0.0
    if rival:  # one that was left out early has fewer folds
        shared = min(losses[rival].size, losses[best].size)
        lead, lead_error = _difference(losses[rival][:shared], losses[best][:shared])
    loss = float(mine.mean())
    return BlendVerdict(leader, weights[leader], loss, best, rival, gain, error, lead, lead_error, mine.size)


def _blended(contest: Contest, pools: Sequence[Pool]) -> Array:
    """Return the log losses of the blend, in the order of `Contest.losses`."""
    out, kinds = [np.zeros(0)], contest.table.kinds
    members = {kind: contest.shared(kind) for kind in kinds if contest.table.schema.kinds[kind] is not None}
    members = {kind: some for kind, some in members.items() if some}
    folds = min((len(one.found) for some in members.values() for one in some), default=0)
    for fold in range(folds):
        for kind, some in members.items():
            given = contest.evidence(some, kind, fold)
            p = pools[kind].proba(given.logs, given.reach, given.mirror)
            out.append(-np.log(np.maximum(p[np.arange(given.truth.size), given.truth], 1e-12)))
    return np.concatenate(out)


def _difference(one: Array, other: Array) -> tuple[float, float]:
    off = one - other
    return float(off.mean()), float(off.std() / math.sqrt(off.size))


def _ordered(pool: Pool, places: Sequence[int]) -> Pool:
    """Return a pool whose experts stand in the order of the members."""
    order = np.argsort(places)
    return replace(pool, low=pool.low[order], high=pool.high[order])
