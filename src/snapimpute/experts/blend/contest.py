"""Experts on held-out cells: fits without them, losses, weights, and who is left out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from snapimpute.base.clock import Clock
from snapimpute.base.types import Array
from snapimpute.data.expert import Expert
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.blend.fit import CodedCells, Member, Reach, columns_of, kind_taken, mirror_codes
from snapimpute.experts.blend.pool import Evidence, Pool, softmax
from snapimpute.experts.blend.report import ExpertScore
from snapimpute.experts.blend.square import Form
from snapimpute.experts.habits import Habits

LEAST_WEIGHT = 0.1
"""Share of the weights that an expert needs, for some kind of columns, to have a part."""

SURELY_WORSE = 4.0
"""Standard errors by which an expert without weight must be worse to be left out before all folds are fitted."""


@dataclass(frozen=True, eq=False)
class BlendTable:
    """A table to blend experts on: known cells, columns, whether it is square, and what features there are."""

    observations: Observations
    schema: ColumnSchema
    square: Form = "no"
    features: dict[str, Any] = field(default_factory=dict)

    @property
    def kinds(self) -> list[int]:
        """Positions of the kinds that some column has."""
        return [kind for kind in range(len(self.schema.kinds)) if (self.schema.which == kind).any()]

    def columns_for(self, expert: Expert) -> NDArray[np.intp] | None:
        """Return the columns that an expert takes; None for all."""
        taken = [expert.takes(kind) for kind in self.schema.kinds]
        inside = np.array([*taken, False])[self.schema.which]
        return None if inside.all() else np.flatnonzero(inside)


@dataclass(eq=False)
class Candidate:
    """An expert in a contest: what it has found so far."""

    expert: Expert
    columns: NDArray[np.intp] | None
    fit: Any = None
    """Of the first fold."""
    found: list[list[Array | None]] = field(default_factory=list)
    """For each fold and kind of columns: log-probabilities, or expected values, at the held-out cells."""
    seconds: float = 0.0
    last: float = 0.0
    """Seconds of the last fit."""
    reason: str = ""
    probed: ExpertScore | None = None
    """What it scored on a piece of the table, if it was left out after that."""

    @property
    def label(self) -> str:
        """Name of the expert."""
        return self.expert.label

    def member(self, fit: Any, table: BlendTable) -> Member:
        """Return the candidate with a fit as a member of a blend."""
        return Member(self.label, self.expert, fit, self.columns, table.observations.shape[1])


class Fold:
    """Cells that are kept, and held-out cells by kind of columns."""

    def __init__(self, table: BlendTable, kept: Observations, held: Observations) -> None:
        self.table, self.kept = table, kept
        self.inside = [
            np.flatnonzero(table.schema.which[held.cols] == kind) for kind in range(len(table.schema.kinds))
        ]
        self.held = held
        self.reach = Reach.of(kept).at(kept)

    def truth(self, kind: int) -> Array | NDArray[np.intp]:
        """Return the codes of the held-out symbols, or their numbers."""
        alphabet, values = self.table.schema.kinds[kind], self.held.values[self.inside[kind]]
        return values if alphabet is None else alphabet.indices(values)

    @cached_property
    def mirror(self) -> NDArray[np.intp] | None:
        """Codes of the mirrors of the held-out cells, in a directed square table."""
        if self.table.square != "directed":
            return None
        return mirror_codes(CodedCells.of(self.kept, self.table.schema), self.held.rows, self.held.cols)

    def answers(self, member: Member) -> list[Array | None]:
        """Return what a member says of the held-out cells, by kind; None where it does not take them."""
        out: list[Array | None] = []
        for kind, inside in enumerate(self.inside):
            alphabet = self.table.schema.kinds[kind]
            rows, cols = (one[inside].astype(np.intp) for one in (self.held.rows, self.held.cols))
            if not kind_taken(member, self.table.schema, kind):
                out.append(None)
            elif not inside.size:
                out.append(np.zeros(0 if alphabet is None else (0, len(alphabet))))
            elif alphabet is None:
                out.append(member.means(rows, cols))
            else:
                out.append(member.logs(rows, cols, both=self.table.square == "symmetric"))
        return out


class Contest:
    """Fits experts to the cells that are kept, fold by fold, and weighs what they say of the others."""

    def __init__(
        self, table: BlendTable, candidates: Sequence[Candidate], clock: Clock, say: Callable[[str, float], object]
    ) -> None:
        self.table, self.candidates, self.clock, self.say = table, list(candidates), clock, say
        self.folds: list[Fold] = []

    @property
    def active(self) -> list[Candidate]:
        """Candidates that nothing speaks against."""
        return [one for one in self.candidates if not one.reason]

    def run(self, splits: Sequence[tuple[Observations, Observations]]) -> None:
        """Fit all candidates to all splits; an interruption, or the end of the time, leaves what is there."""
        for number, (kept, held) in enumerate(splits):
            fold = Fold(self.table, kept, held)
            self.folds.append(fold)
            for one in self.active:
                if len(one.found) < number or not self._has_time(one):
                    continue
                if number or self._passes(one, fold):
                    self._fit(one, fold)
            self.drop(surely=number + 1 < len(splits))
            if self.clock.over:
                break

    def _passes(self, one: Candidate, fold: Fold) -> bool:
        """Tell whether the cheap form of an expert, if it has one, is as good as habits."""
        quick, habits = one.expert.probe(), next((some for some in self.active if some.label == Habits.name), None)
        if quick is None or habits is None or not habits.found:
            return True
        trial = Candidate(quick, one.columns)
        self._fit(trial, fold, quiet=True)
        one.seconds, one.reason = trial.seconds, trial.reason
        if trial.reason:
            return False
        off = float(self.losses(trial)[0].mean() - self.losses(habits)[0].mean())
        if off > 0:
            one.reason = f"a quick form of it has {off:.2f} more log loss than habits"
        return off <= 0

    def _has_time(self, one: Candidate) -> bool:
        """Tell whether another fit of an expert should end in time, with as much left for the last one."""
        if self.clock.left > 2 * one.last and not self.clock.over:
            return True
        if self._needed(one):
            return True
        if not one.found:
            one.reason = "the time limit left no time for it"
        return False

    def _needed(self, one: Candidate) -> bool:
        """Tell whether an expert takes a kind of columns that nobody has answered for."""
        kinds = [self.table.schema.kinds[kind] for kind in self.table.kinds]
        there = [other.expert for other in self.candidates if other.found]
        return any(one.expert.takes(kind) and not any(other.takes(kind) for other in there) for kind in kinds)

    def _fit(self, one: Candidate, fold: Fold, *, quiet: bool = False) -> None:
        begun, schema = self.clock.here, self.table.schema
        told = dict(self.table.features) if one.expert.uses_features else {}
        if math.isfinite(self.clock.limit):
            told["time_limit"] = max(self.clock.left / 3, 0.01)
        kept, columns = columns_of(fold.kept, one.columns), one.columns
        try:
            with warnings.catch_warnings():  # what is wrong with a fit that is only scored, the score tells
                warnings.simplefilter("ignore", ConvergenceWarning)
                expert = one.expert.brief()
                if one.fit is None:
                    fit = expert.fit(kept, schema if columns is None else schema.taken(columns), **told)
                else:
                    fit = expert.again(one.fit, kept, **told)
                found = fold.answers(one.member(fit, self.table))
        except (ValueError, MemoryError) as err:
            one.reason = f"it refused the table: {err}"
            return
        one.fit = fit if one.fit is None else one.fit
        one.found.append(found)
        one.last = self.clock.here - begun
        one.seconds += one.last
        if not quiet:
            self.say(one.label, self.score(one).loss)
        if fit.interrupted:
            raise KeyboardInterrupt(f"interrupted while {one.label} was fitted")

    # ---------------------------------------------------------------- weights
    def shared(self, kind: int) -> list[Candidate]:
        """Return the candidates that answered for a kind of columns in the first fold."""
        return [one for one in self.active if one.found and one.found[0][kind] is not None]

    def pool(self, kind: int) -> tuple[list[Candidate], Pool]:
        """Weigh the candidates for a kind of columns."""
        members = self.shared(kind)
        if self.table.schema.kinds[kind] is None:
            means, truth = self._numbers(members, kind)
            return members, Pool.of_numbers(means, truth)
        return members, Pool.fit(self.evidence(members, kind))

    def _common(self, members: Sequence[Candidate]) -> list[tuple[int, Fold]]:
        count = min(len(one.found) for one in members)
        return list(enumerate(self.folds[:count]))

    def evidence(self, members: Sequence[Candidate], kind: int, only: int | None = None) -> Evidence:
        """Gather what candidates say of the held-out cells of a kind, from one fold or all that they share."""
        folds = self._common(members) if only is None else [(only, self.folds[only])]
        logs = np.stack([np.concatenate([_there(one.found[k][kind]) for k, _ in folds]) for one in members])
        truth = np.concatenate([fold.truth(kind) for _, fold in folds]).astype(np.intp)
        reach = np.concatenate([fold.reach[fold.held.rows[fold.inside[kind]]] for _, fold in folds])
        mirrors = [fold.mirror[fold.inside[kind]] for _, fold in folds if fold.mirror is not None]
        return Evidence(logs, truth, reach, np.concatenate(mirrors) if mirrors else None)

    def _numbers(self, members: Sequence[Candidate], kind: int) -> tuple[Array, Array]:
        folds = self._common(members)
        means = np.stack([np.concatenate([_there(one.found[k][kind]) for k, _ in folds]) for one in members])
        return means, np.concatenate([fold.truth(kind) for _, fold in folds])

    def drop(self, *, surely: bool) -> None:
        """Leave out candidates without weight; ``surely``, only those that are also much worse than the best."""
        if len(self.active) < 2:
            return
        shares: dict[str, float] = {}
        for kind in self.table.kinds:
            members = self.shared(kind)
            if not members:
                continue
            members, pool = self.pool(kind)
            total = max(float(pool.weights.sum()), 1e-12)
            for one, weight in zip(members, pool.weights, strict=True):
                shares[one.label] = max(shares.get(one.label, 0.0), float(weight) / total)
        for one in self.active:
            share = shares.get(one.label)
            if share is not None and share < LEAST_WEIGHT and (not surely or self._much_worse(one)):
                one.reason = "it adds nothing to the others"

    def _much_worse(self, one: Candidate) -> bool:
        worse = []
        for kind in self.table.kinds:
            if self.table.schema.kinds[kind] is None or one.found[0][kind] is None:
                continue
            members = self.shared(kind)
            given = self.evidence(members, kind)
            if not given.truth.size:
                continue
            at = np.arange(given.truth.size)
            losses = [-np.log(softmax(logs)[at, given.truth]) for logs in given.logs]
            least = min(losses, key=lambda loss: float(loss.mean()))
            worse.append(_sure(losses[members.index(one)] - least) > SURELY_WORSE)
        return all(worse)

    # ---------------------------------------------------------------- scores
    def losses(self, one: Candidate) -> tuple[Array, Array]:
        """Return log losses and mistakes of a candidate at the held-out symbols of all its folds."""
        losses, wrong = [np.zeros(0)], [np.zeros(0)]
        for fold, found in zip(self.folds, one.found, strict=False):
            for kind in self.table.kinds:
                logs = found[kind]
                if logs is None or self.table.schema.kinds[kind] is None:
                    continue
                truth = fold.truth(kind).astype(np.intp)
                losses.append(-np.log(softmax(logs)[np.arange(truth.size), truth]))
                wrong.append(logs.argmax(axis=1) != truth)
        return np.concatenate(losses), np.concatenate(wrong)

    def score(self, one: Candidate, weight: float = 0.0) -> ExpertScore:
        """Return what a candidate scored."""
        losses, wrong = self.losses(one)
        nothing = not losses.size
        return ExpertScore(
            name=one.label,
            loss=math.nan if nothing else float(losses.mean()),
            error=math.nan if nothing else float(losses.std() / math.sqrt(losses.size)),
            wrong=math.nan if nothing else float(wrong.mean()),
            weight=weight,
            seconds=one.seconds,
            cells=int(losses.size),
            reason=one.reason,
        )


def _there(found: Array | None) -> Array:
    assert found is not None, "asked for a kind of columns that the expert does not take"  # noqa: S101
    return found


def _sure(worse: Array) -> float:
    """Return the mean of differences in standard errors."""
    return float(worse.mean() / max(worse.std() / math.sqrt(worse.size), 1e-12))
