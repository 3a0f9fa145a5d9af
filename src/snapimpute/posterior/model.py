"""The posterior as an engine: its parameters, and what they choose where nobody says."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np

from snapimpute.base.clock import Clock
from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.base.threads import single_threaded_blas
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.expert import Expert
from snapimpute.data.holdout import split_by_labels
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior._answers import LowRankAnswers
from snapimpute.posterior._checkpoint import RunFile
from snapimpute.posterior._choice import Progress, choose
from snapimpute.posterior._completion import Completion
from snapimpute.posterior._features import MASK_FEATURES, side_maps
from snapimpute.posterior._given import Sides, further_features, given_features
from snapimpute.posterior._low_rank import Chain, Parts
from snapimpute.posterior._run import Plan, Run, warn_of
from snapimpute.posterior._samplers import KEPT_BYTES, CovarianceSampler, LowRankSampler, Sampler
from snapimpute.posterior._table import Frame
from snapimpute.posterior._watch import Watch
from snapimpute.posterior._workload import CovarianceCase, LowRankCase
from snapimpute.posterior.diagnostics import Candidate
from snapimpute.posterior.fit import PosteriorFit, Sweep
from snapimpute.posterior.forecast import PosteriorForecast
from snapimpute.solvers import Checkpoint

Covariance = Literal["auto", "low-rank", "full"]
Thresholds = Literal["auto", "rows", "columns"]

BURN_IN, SLOW_BURN_IN = 40, 150
"""Sweeps before the first draw is kept; more for 0 and 1, and categories, whose chains find the factors late."""

SWEEPS, SLOW_SWEEPS = 400, 900
"""Sweeps at most where nobody gives a number."""

BRIEF_SWEEPS, FEWEST_SWEEPS = 220, 120
"""Sweeps at most of a fit that is only compared with others, and where several posteriors are."""

SHORT_SWEEPS, HELD_OUT = 60, 0.1
"""Sweeps of the short runs that choose between models, and their share of held-out cells."""

DENSE = 0.3
"""Share of known cells from which columns are tried before rows."""

RANK, LARGE_RANK = 15, 31
LARGE_CELLS, LARGE_PER_UNIT = 200_000, 40
"""A table with so many known cells, and so many for each row and column, gets the larger rank."""

MOST_SYMBOLS = 256
"""Symbols of an alphabet: the number of each is kept in one byte."""

MASK_TIME = 0.5
"""Share of the time that the features of the mask may take; without them by then, the fit has none."""

MOST_COLUMNS, LEAST_KNOWN = 300, 0.2
"""A full covariance is tried up to so many columns, if that share of the cells is known and rows are many."""


@stored(
    "posterior",
    *("covariance", "rank", "thresholds", "sweeps", "mask", "noise", "item_noise", "own_thresholds", "factors"),
    *("links", "chains", "random_state"),
)
@dataclass(frozen=True)
class Posterior(Expert):
    """An ordinal probit model of the whole table, and draws from its posterior.

    Each known cell has a latent value, and its symbol says between which two
    thresholds that lies. With ``covariance="low-rank"`` the latent value is a level
    of the row, one of the column and a product of factors, with noise of the row and
    of the column. With ``covariance="full"`` the columns of a narrow table have any
    covariance.

    Parameters
    ----------
    covariance : {"auto", "low-rank", "full"}
        "auto" tries both on held-out cells where the table is narrow enough.
    rank : int or "auto"
        Number of factors.
    thresholds : {"auto", "rows", "columns"}
        Units with thresholds of their own: rows for people who rate, columns for
        questions; "auto" tries both on held-out cells.
    sweeps : int or "auto"
        Sweeps of the sampler; "auto" ends when the Monte Carlo error is small.
    mask : bool
        Whether the pattern of known cells serves as features of rows and columns.
    noise, item_noise, own_thresholds, factors : bool
        Parts of the low-rank model, each of which can be turned off for study.
    links : bool or "auto"
        Whether the low-rank model looks for blocks of a few columns that share something no other column has,
        where columns have thresholds; "auto" leaves that to the full covariance where the table is narrow.
    chains : int
        Chains that are run beside each other, all of whose draws count. One is enough as a rule; with several,
        `PosteriorFit.diagnostics` compares them, and one that is stuck goes on from the best.
    random_state : int

    Examples
    --------
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="1:5", observed=0.5)
    >>> fit = Posterior(covariance="low-rank", sweeps=60).fit(data.observations, data.alphabet)
    >>> fit.proba([0, 1], [2, 3]).shape
    (2, 5)
    """

    name: ClassVar[str] = "posterior"
    uses_features: ClassVar[bool] = True

    covariance: Covariance = "auto"
    rank: int | Literal["auto"] = "auto"
    thresholds: Thresholds = "auto"
    sweeps: int | Literal["auto"] = "auto"
    mask: bool = True
    noise: bool = True
    item_noise: bool = True
    own_thresholds: bool = True
    factors: bool = True
    links: bool | Literal["auto"] = "auto"
    chains: int = 1
    random_state: int = 0

    @property
    def label(self) -> str:
        """Name in verdicts: a full covariance says so, and the side of the thresholds where that is given."""
        if self.covariance == "full":
            return f"{self.name} (full covariance)"
        return self.name if self.thresholds == "auto" else f"{self.name} (thresholds by {self.thresholds[:-1]})"

    def brief(self) -> Posterior:
        """Return the model with fewer sweeps, where nobody gave a number: fewest where several are weighed."""
        several = self.covariance == "full" or self.thresholds != "auto"
        return self if self.sweeps != "auto" else replace(self, sweeps=FEWEST_SWEEPS if several else BRIEF_SWEEPS)

    def takes(self, alphabet: Alphabet | None) -> bool:
        """Take columns of plain numbers, and alphabets of at most 256 symbols."""
        return alphabet is None or len(alphabet) <= MOST_SYMBOLS

    def variants(self, observations: Observations, alphabet: AlphabetLike | ColumnSchema) -> list[Posterior]:
        """Return the models that a blend weighs: one, or all where the table is narrow and they are cheap."""
        schema = ColumnSchema.read(alphabet, observations.shape[1])
        if not self.can_be_full(observations, schema):
            return [replace(self, covariance="low-rank")]
        sides = self._sides(observations, schema, "low-rank")
        links = self.links is True  # the full covariance beside them has every link
        low_rank = [replace(self, covariance="low-rank", thresholds=one, links=links) for one in sides]
        return [*low_rank, replace(self, covariance="full")]

    def can_be_full(self, observations: Observations, alphabet: AlphabetLike | ColumnSchema) -> bool:
        """Tell whether a table is narrow and known enough for a full covariance."""
        schema = ColumnSchema.read(alphabet, observations.shape[1])
        return "full" in self._covariances(observations, schema)

    def fit(
        self,
        observations: Observations,
        alphabet: AlphabetLike | ColumnSchema,
        *,
        row_features: Any = None,
        column_features: Any = None,
        time_limit: float | None = None,
        callback: Callable[[Sweep], Any] | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    ) -> PosteriorFit:
        """Draw from the posterior given the known cells.

        Memory is checked first; `forecast` tells it, and the time.

        Parameters
        ----------
        observations : Observations
        alphabet : Alphabet, what makes one, or ColumnSchema
        row_features, column_features : array, frame, sparse matrix or dict, optional
            One line for each row, or column: numbers, categories (text, booleans), sets of tags, dates. They go by
            label where both sides have labels, else by position. A dict goes from labels to the features of each.
            A full covariance takes features of rows only.
        time_limit : float, optional
            Seconds after which the draws so far are kept.
        callback : callable, optional
            Called with a `Sweep` after each; True ends the run.
        progress : callable, optional
            Called with a `Candidate` for each model that a short run has tried.
        checkpoint : path or Checkpoint, optional
            Save the run there, every 30 seconds, when it ends, and when it is interrupted between two sweeps. If
            the file exists, the run goes on where it was: short runs are not made again, and the draws are the same
            bits as if it had never stopped. It must be of the same table and parameters, but may have more sweeps.
        """
        self._check(observations)
        clock = Clock(time_limit)
        schema = _schema(alphabet, observations.shape[1])
        with single_threaded_blas():
            given = given_features(observations, row_features, column_features)
            able = self._able_to_take(given)._with_links(observations, schema)
            able._forecast(observations, schema, given, timed=False).check()
            file = None if checkpoint is None else RunFile(checkpoint, able._parts(observations, schema, given))
            saved = None if file is None else file.load()
            if saved is None:
                chosen, tried = able._settled(observations, schema, given, clock, progress)
            else:
                chosen, tried, clock.spent = able._as(saved.model), saved.held_out, saved.seconds
            run = chosen._run(observations, schema, given, clock if file is None else Clock())
            if saved is not None:
                run.restore(saved)
            if file is not None:
                file.begin((chosen.covariance, chosen.thresholds), tried)
            fit = run.finish(clock, callback, file, tried)
        warn_of(fit)
        return replace(fit, completion=able._completion(observations, schema, chosen.covariance))

    def forecast(
        self,
        observations: Observations,
        alphabet: AlphabetLike | ColumnSchema,
        *,
        row_features: Any = None,
        column_features: Any = None,
        timed: bool = True,
    ) -> PosteriorForecast:
        """Estimate memory, seconds and the size of a saved fit, without fitting.

        Parameters
        ----------
        observations, alphabet, row_features, column_features
            As in `fit`, which refuses a table that does not fit into memory.
        timed : bool
            True times some sweeps over a piece of like size, which takes less than a second once compiled.

        Examples
        --------
        >>> from snapimpute.data.datasets import low_rank_alphabet
        >>> data = low_rank_alphabet((2000, 500), rank=2, alphabet="1:5", observed=0.1)
        >>> plan = Posterior().forecast(data.observations, "1:5", timed=False)
        >>> print(str(plan).splitlines()[1])
        at most 400 sweeps, after 2 short runs
        >>> plan.seconds is None, plan.memory < 2**30
        (True, True)
        """
        self._check(observations)
        schema, given = (
            _schema(alphabet, observations.shape[1]),
            given_features(observations, row_features, column_features),
        )
        return self._able_to_take(given)._forecast(observations, schema, given, timed=timed)

    def _forecast(
        self, observations: Observations, schema: ColumnSchema, given: Sides, *, timed: bool
    ) -> PosteriorForecast:
        features = MASK_FEATURES * self.mask + max(sum(part.shape[1] for part in one.columns) for one in given)
        low_rank = LowRankCase(*self._sizes(observations, schema), self.rank_of(observations, schema), features)
        full = CovarianceCase(*self._sizes(observations, schema, fewer=1))
        models = self._models(observations, schema)
        cases = [full if one == "full" else low_rank for one in dict.fromkeys(name for name, _ in models)]
        sweeps = self._sweeps(schema, _is_binary(schema))[0]
        return PosteriorForecast.of(cases, len(models), sweeps, SHORT_SWEEPS if timed else 0)

    def _sizes(
        self, observations: Observations, schema: ColumnSchema, fewer: int = 0
    ) -> tuple[tuple[int, int], int, int, int, int]:
        """Sizes that memory and time follow from: see `Case`; for ``fewer`` see `_latent`."""
        sweeps, burn_in = self._sweeps(schema, _is_binary(schema))
        symbols = max((len(kind) for kind in schema.kinds if kind is not None), default=2)
        return *_latent(observations, schema, fewer), symbols, sweeps - burn_in, self.chains

    def _parts(self, observations: Observations, schema: ColumnSchema, given: Sides) -> dict[str, Any]:
        """Everything that draws depend on: more sweeps change none of them, as long as the burn-in is the same."""
        model, parts = replace(self, sweeps="auto"), {"observations": observations, "alphabet": schema}
        return parts | {"model": model, "burn-in": self._sweeps(schema, _is_binary(schema))[1], "features": given}

    def _completion(self, observations: Observations, schema: ColumnSchema, chosen: Covariance) -> Completion | None:
        """Complete a narrow table by the full covariance, though low rank predicts as well: it keeps every link."""
        if chosen == "full" or "full" not in self._covariances(observations, schema):
            return None
        return Completion(observations, self.random_state)

    def update(
        self,
        fit: PosteriorFit,
        observations: Observations,
        *,
        row_features: Any = None,
        column_features: Any = None,
        time_limit: float | None = None,
        callback: Callable[[Sweep], Any] | None = None,
    ) -> PosteriorFit:
        """Go on from a fit with a table that has more known cells, and perhaps more rows or columns.

        A full covariance takes no further columns, nor does a table whose columns differ in kind.

        Parameters
        ----------
        fit : PosteriorFit
        observations : Observations
            All known cells, those of the fit included.
        row_features, column_features : array, frame, sparse matrix or dict, optional
            Features of the further rows and columns alone; those of the fit keep theirs.
        time_limit, callback
            As in `fit`.
        """
        self._check(observations)
        clock, schema = Clock(time_limit), _grown(fit, observations)
        old = fit.frame.row_side.given, fit.frame.column_side.given
        given = further_features(old, observations, row_features, column_features)
        low_rank, draws = isinstance(fit.answers, LowRankAnswers), fit.answers.draws
        chosen = replace(
            self._with_links(observations, schema),
            covariance="low-rank" if low_rank else "full",
            thresholds="rows" if fit.frame.by_rows else "columns",
            rank=draws.raters.shape[2] - 1 if low_rank else "auto",
            chains=1,
        )
        with single_threaded_blas():
            run = chosen._run(observations, schema, given, clock)
            run.resume(draws[len(draws) - 1])
            updated = run.finish(clock, callback)
        warn_of(updated)
        return replace(updated, completion=self._completion(observations, schema, chosen.covariance))

    def again(self, fit: PosteriorFit, observations: Observations, **told: Any) -> PosteriorFit:
        """Fit other known cells of the same table, with the covariance and the thresholds that a fit has chosen."""
        low_rank, side = isinstance(fit.answers, LowRankAnswers), "rows" if fit.frame.by_rows else "columns"
        return self._as(("low-rank" if low_rank else "full", side)).fit(observations, fit.frame.schema, **told)

    def _check(self, observations: Observations) -> None:
        for name, choices in (
            ("covariance", ("auto", "low-rank", "full")),
            ("thresholds", ("auto", "rows", "columns")),
        ):
            if getattr(self, name) not in choices:
                given = getattr(self, name)
                raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {given!r}")
        for name in ("rank", "sweeps"):
            value = getattr(self, name)
            if value != "auto" and (not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1):
                raise ValueError(f'{name} must be a whole number, at least 1, or "auto", got {value!r}')
        if self.links not in (True, False, "auto"):
            raise ArgumentError.must("links", self.links, 'be True, False or "auto"')
        if not isinstance(self.chains, int | np.integer) or isinstance(self.chains, bool) or self.chains < 1:
            raise ArgumentError.must("chains", self.chains, "be a whole number, at least 1")
        if self.covariance == "full" and self.thresholds == "rows":
            raise ValueError('thresholds="rows" needs covariance="low-rank": a full covariance has them by column')

    def _able_to_take(self, given: Sides) -> Posterior:
        """Return the model with a covariance that can take the features given."""
        if not given[1]:
            return self
        if self.covariance == "full":
            told = 'column_features need covariance="low-rank": a full covariance has every column stand for itself'
            raise ArgumentError("column_features", None, told)
        return replace(self, covariance="low-rank")

    def _with_links(self, observations: Observations, schema: ColumnSchema) -> Posterior:
        """Return the model that knows whether to look for links."""
        if self.links != "auto":
            return self
        return replace(self, links="full" not in self._covariances(observations, schema))

    def _settled(
        self,
        observations: Observations,
        schema: ColumnSchema,
        given: Sides,
        clock: Clock,
        progress: Progress | None,
    ) -> tuple[Posterior, tuple[Candidate, ...]]:
        """Choose the covariance and the side of the thresholds by short runs, scored on held-out cells."""
        models = self._models(observations, schema)
        if len(models) == 1:
            return self._as(models[0]), ()
        kept, held = split_by_labels(observations, HELD_OUT, self.random_state)

        def short_run(model: tuple[str, str], clock: Clock) -> PosteriorFit | None:
            one = replace(self._as(model), sweeps=SHORT_SWEEPS, chains=1)
            fit = one._run(kept, schema, given, clock).finish(clock)
            if fit.status.code == "interrupted":
                raise KeyboardInterrupt
            return None if fit.status.code == "stopped" else fit

        best, tried = choose(models, short_run, held, clock, progress)
        return self._as(best), tried

    def _models(self, observations: Observations, schema: ColumnSchema) -> list[tuple[str, str]]:
        """Covariances and sides of the thresholds that are open, the usual ones first."""
        return [
            (covariance, side)
            for covariance in self._covariances(observations, schema)
            for side in self._sides(observations, schema, covariance)
        ]

    def _as(self, model: tuple[str, str]) -> Posterior:
        return replace(self, covariance=cast(Covariance, model[0]), thresholds=cast(Thresholds, model[1]))

    def _covariances(self, observations: Observations, schema: ColumnSchema) -> tuple[Covariance, ...]:
        m, n = observations.shape
        if self.covariance != "auto":
            return (self.covariance,)
        latent = _latent(observations, schema, fewer=1)[0][1]
        narrow = n >= 2 and latent <= MOST_COLUMNS and m >= 2 * latent and observations.density >= LEAST_KNOWN
        fits = narrow and CovarianceCase(*self._sizes(observations, schema, fewer=1)).fits
        return ("low-rank", "full") if fits else ("low-rank",)

    def _sides(
        self, observations: Observations, schema: ColumnSchema, covariance: Covariance
    ) -> tuple[Thresholds, ...]:
        """Sides to try; the one that is usual for such a table first: rows where few cells are known."""
        if covariance == "full":
            return ("columns",)
        if self.thresholds != "auto":
            return (self.thresholds,)
        if not _can_have_rows(schema) or len(schema.one or ()) == 2:
            return ("columns",)
        return ("rows", "columns") if observations.density < DENSE else ("columns", "rows")

    def _run(self, observations: Observations, schema: ColumnSchema, given: Sides, clock: Clock) -> Run:
        """Build the run of a model that is settled."""
        by_rows = self.thresholds == "rows" and self.covariance != "full"
        if by_rows and not _can_have_rows(schema):
            raise ValueError('thresholds="rows" needs one alphabet for all columns, with an order: use "columns"')
        full = self.covariance == "full"
        mask, part = self.mask and not full, clock.share(MASK_TIME)
        sides = side_maps(observations, given, mask=mask, seed=self.random_state, over=lambda: part.over)
        frame = Frame.of(observations, schema, by_rows, sides)
        binary = bool((frame.levels == 2).all()) and not full
        sweeps, burn_in = self._sweeps(schema, binary)
        note = ", and there was none for the features of the mask" if mask and part.over else ""
        plan, watch = (
            Plan(sweeps, burn_in, self.sweeps == "auto", note),
            Watch.of(frame, observations, self.random_state),
        )
        sampler = self._sampler(observations, frame, watch, burn_in)
        return Run(frame, observations, watch, [sampler(seed) for seed in self._seeds()], plan)

    def _sweeps(self, schema: ColumnSchema, binary: bool) -> tuple[int, int]:
        """Return the sweeps at most, and those of the burn-in."""
        slow = binary or not all(map(_has_order, schema.kinds))
        sweeps = (SLOW_SWEEPS if slow else SWEEPS) if self.sweeps == "auto" else int(self.sweeps)
        return sweeps, min(SLOW_BURN_IN if slow else BURN_IN, sweeps // 2)

    def _seeds(self) -> list[int]:
        """Seeds of the chains; the first is that of a single one."""
        more = [np.random.SeedSequence((self.random_state, chain)) for chain in range(1, self.chains)]
        return [self.random_state, *(int(one.generate_state(1)[0]) for one in more)]

    def _sampler(
        self, observations: Observations, frame: Frame, watch: Watch, burn_in: int
    ) -> Callable[[int], Sampler]:
        """Return what makes the chain of a seed."""
        if self.covariance == "full":
            return lambda seed: CovarianceSampler(
                frame.covariance_chain(observations, seed=seed, burn_in=burn_in), watch
            )
        links = self.links is True and not frame.by_rows
        parts = Parts(self.noise, self.item_noise, self.own_thresholds, self.factors, links)
        given = frame.cells(observations), self.rank_of(observations, frame.schema), frame.features(observations)
        return lambda seed: LowRankSampler(
            Chain(*given, seed=seed, burn_in=burn_in, parts=parts), watch, KEPT_BYTES // self.chains
        )

    def rank_of(self, observations: Observations, schema: ColumnSchema) -> int:
        """Return the number of factors for a table: more where many cells are known."""
        most = max(min(_latent(observations, schema)[0]) - 1, 1)
        if self.rank != "auto":
            return min(int(self.rank), most)
        per_unit = len(observations) / sum(observations.shape)
        large = len(observations) >= LARGE_CELLS and per_unit >= LARGE_PER_UNIT
        return min(LARGE_RANK if large else RANK, most)


def _grown(fit: PosteriorFit, observations: Observations) -> ColumnSchema:
    """Return the columns of a table that holds that of the fit."""
    schema, (m, n), shape = fit.frame.schema, fit.observations.shape, observations.shape
    may_widen = schema.one is not None and isinstance(fit.answers, LowRankAnswers)
    if shape[0] < m or shape[1] < n or (shape[1] > n and not may_widen):
        raise ValueError(
            f"update goes on with at least the rows and {'' if may_widen else 'exactly '}the columns of the fit: "
            f"that is of {(m, n)}, the table of {shape}"
        )
    return schema.widened(shape[1] - n)


def _is_binary(schema: ColumnSchema) -> bool:
    return all(len(kind or ()) == 2 for kind in schema.kinds)


def _schema(alphabet: AlphabetLike | ColumnSchema, columns: int) -> ColumnSchema:
    schema = ColumnSchema.read(alphabet, columns)
    for one in schema.kinds:
        if one is not None and len(one) > MOST_SYMBOLS:
            told = f"the posterior takes alphabets of at most {MOST_SYMBOLS} symbols, got one of {len(one)}: "
            raise ArgumentError("alphabet", one, f"{told}join rare ones, or give None for a column of any numbers")
    return schema


def _latent(observations: Observations, schema: ColumnSchema, fewer: int = 0) -> tuple[tuple[int, int], int]:
    """Return shape and known cells of the table of latent values: categories have one each, or some ``fewer``."""
    m, n = observations.shape
    counts = np.array([1 if _has_order(one) else len(one or ()) - fewer for one in map(schema.__getitem__, range(n))])
    return (m, int(counts.sum())), int(counts[observations.cols].sum())


def _can_have_rows(schema: ColumnSchema) -> bool:
    """Tell whether rows can have thresholds: all columns share an alphabet with an order."""
    return schema.one is not None and _has_order(schema.one)


def _has_order(alphabet: Alphabet | None) -> bool:
    """Tell whether symbols have an order; of two of them it makes no difference."""
    return alphabet is None or alphabet.ordered or len(alphabet) <= 2
