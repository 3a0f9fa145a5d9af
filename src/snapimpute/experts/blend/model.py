"""The blend as an expert: who takes part, folds, weights, and the last fits, within a time limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from snapimpute.base.clock import Clock
from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import stored
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.expert import Expert
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.blend._run import ENDED, INTERRUPTED, BlendRun, folds_for
from snapimpute.experts.blend.contest import BlendTable, Candidate
from snapimpute.experts.blend.fit import BlendFit, Member, Reach, columns_of
from snapimpute.experts.blend.forecast import BlendForecast, plan_of
from snapimpute.experts.blend.pool import Pool
from snapimpute.experts.blend.report import BlendVerdict, ExpertScore, Step
from snapimpute.experts.blend.square import Form, form_of, mirrored
from snapimpute.experts.decide import Decide
from snapimpute.experts.habits import Habits
from snapimpute.experts.links import Links
from snapimpute.experts.proximal.expert import Proximal
from snapimpute.mosaic import Mosaic
from snapimpute.posterior import Posterior
from snapimpute.solvers import Precision

MOST_LINKS = 600_000
"""Known cells of a square table up to which the proximal expert takes part: beyond, it costs more than all others."""

MOST_FACTORS = 50
"""Rank of the proximal expert in a blend, at most: more cost much time, and win little beside others."""


@stored("blend", "experts", "square", "backend", "dtype", "decide", "random_state")
@dataclass(frozen=True, eq=False)
class Blend(Expert):
    """Several experts, weighed on held-out cells.

    Each expert is fitted without a tenth of the known cells. A logistic model of their log-probabilities there gives
    the weights. Those that have weight are fitted once more, to everything.

    Parameters
    ----------
    experts : sequence of Expert or "auto"
        "auto" takes every expert that the table suits.
    square : bool or "auto"
        Whether rows and columns are the same things; "auto" looks whether their labels agree.
    backend, dtype, decide : optional
        Of the proximal expert; those of the estimator if not given.
    random_state : int, optional
        That of the estimator if not given.

    Examples
    --------
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="1:5", observed=0.5)
    >>> fit = Blend([Habits(), Posterior(sweeps=60)]).fit(data.observations, data.alphabet)
    >>> fit.verdict.leader
    'posterior'
    """

    name: ClassVar[str] = "blend"
    uses_features: ClassVar[bool] = True

    experts: Sequence[Expert] | Literal["auto"] = "auto"
    square: bool | Literal["auto"] = "auto"
    backend: str | None = None
    dtype: Precision | None = None
    decide: Decide | None = None
    random_state: int | None = None

    def takes(self, alphabet: Alphabet | None) -> bool:
        """Take every kind of column."""
        return True

    def sharing(self, **shared: Any) -> Blend:
        """Return the blend with the open parameters of its experts filled in."""
        if shared.get("decide") == "nearest":  # members need probabilities, whatever is decided by them
            shared["decide"] = "accuracy"
        own = super().sharing(**shared)
        if isinstance(own.experts, str):
            return own
        several = (one.sharing(**shared) if isinstance(one, Expert) else one for one in own.experts)
        return replace(own, experts=tuple(several))

    def line_up(self, observations: Observations, alphabet: Any, *, square: Form = "no") -> list[Expert]:
        """Return the experts that take part, before anything is fitted."""
        if not isinstance(self.experts, str):
            for one in self.experts:
                if not isinstance(one, Expert):
                    raise ArgumentError.must("experts", one, "be experts such as si.Posterior() or si.Mosaic()")
            if not self.experts:
                raise ArgumentError.must("experts", self.experts, "name at least one expert")
            return list(self.experts)
        if self.experts != "auto":
            raise ArgumentError.must("experts", self.experts, 'be a list of experts, or "auto"')
        seed = self.random_state or 0
        schema = ColumnSchema.read(alphabet, observations.shape[1])
        posterior = Posterior(random_state=seed)
        whole = all(map(posterior.takes, schema.kinds))
        posteriors = posterior.variants(observations, schema) if whole else [posterior]
        proximal = Proximal(
            max_rank=MOST_FACTORS,
            tol=1e-3,
            backend=self.backend,
            dtype=self.dtype,
            decide=self.decide,
            random_state=seed,
        )
        if square != "no":  # neither rows nor columns stand in an order
            more = [proximal] if len(observations) <= MOST_LINKS else []
            return [Habits(), Links(random_state=seed), *posteriors, *more]
        mosaic = Mosaic(random_state=seed)
        if all(map(mosaic.takes, schema.kinds)):
            mosaic = mosaic.suited(observations, schema)
        return [Habits(), *posteriors, mosaic, proximal]

    def forecast(
        self, observations: Observations, alphabet: Any, *, timed: bool = True, **features: Any
    ) -> BlendForecast:
        """Estimate memory and seconds of all experts together, without fitting.

        Parameters
        ----------
        observations, alphabet
            As in `fit`, which refuses a table that does not fit into memory.
        timed : bool
            True times small pieces, which takes a second or two once compiled.
        **features
            ``row_features`` and ``column_features``, as in `fit`.
        """
        schema = ColumnSchema.read(alphabet, observations.shape[1])
        table = BlendTable(observations, schema, form_of(observations, schema, self.square), features)
        plans = [plan_of(Candidate(one, table.columns_for(one)), table, timed=timed) for one in self._experts(table)]
        return BlendForecast.of(observations.shape, len(observations), folds_for(observations)[0], plans)

    def _experts(self, table: BlendTable) -> list[Expert]:
        return self.line_up(table.observations, table.schema, square=table.square)

    def fit(
        self,
        observations: Observations,
        alphabet: Any,
        *,
        row_features: Any = None,
        column_features: Any = None,
        time_limit: float | None = None,
        callback: Callable[[Any], Any] | None = None,
        progress: Callable[[Step], Any] | None = None,
    ) -> BlendFit:
        """Fit the experts, weigh them, and fit those that have weight to everything.

        Parameters
        ----------
        observations : Observations
        alphabet : Alphabet, what makes one, or ColumnSchema
        row_features, column_features : array, frame, sparse matrix or dict, optional
            For the experts that use them.
        time_limit : float, optional
            Seconds after which the best so far is kept.
        callback : callable, optional
            Called in every step of the last fits, as their experts do.
        progress : callable, optional
            Called with each `Step`.
        """
        schema = ColumnSchema.read(alphabet, observations.shape[1])
        square = form_of(observations, schema, self.square)
        known = mirrored(observations) if square == "symmetric" else observations
        features = {"row_features": row_features, "column_features": column_features}
        table = BlendTable(known, schema, square, features)
        experts, seed = self._experts(table), self.random_state or 0
        return BlendRun(experts, table, seed, Clock(time_limit), callback, progress).finished()

    def update(self, fit: BlendFit, observations: Observations, **told: Any) -> BlendFit:
        """Go on from a fit with more known cells: every member does, and the weights stay."""
        return self._remade(fit, observations, "update", told)

    def again(self, fit: BlendFit, observations: Observations, **told: Any) -> BlendFit:
        """Fit the members to other known cells of the same table, with what they have chosen and their weights."""
        return self._remade(fit, observations, "again", told)

    def _remade(self, fit: BlendFit, observations: Observations, how: str, told: dict[str, Any]) -> BlendFit:
        clock, told = Clock(told.pop("time_limit", None)), dict(told)
        features = {name: told.pop(name, None) for name in ("row_features", "column_features")}
        told.pop("progress", None)
        schema = fit.columns.widened(observations.shape[1] - fit.columns.which.size)
        known = mirrored(observations) if fit.square == "symmetric" else observations
        members = []
        for one in fit.members:
            columns = one.columns
            if columns is not None and schema is not fit.columns and observations.shape[1] > one.table:
                raise ValueError("a table whose columns differ in kind takes no further columns: fit again")
            more = features if one.expert.uses_features else {}
            if math.isfinite(clock.limit):
                more = more | {"time_limit": max(clock.left, 0.01)}
            part = columns_of(known, columns)
            made = getattr(one.expert, how)(one.fit, part, **more, **told)
            members.append(replace(one, fit=made, table=observations.shape[1]))
        status = INTERRUPTED if any(one.fit.interrupted for one in members) else ENDED
        return replace(
            fit,
            columns=schema,
            observations=known,
            members=tuple(members),
            reach=Reach.of(known),
            status=status,
        )


BLEND_KINDS: tuple[type, ...] = (Blend, BlendFit, BlendVerdict, ExpertScore, Member, Pool, Reach)
"""Classes of a blend that stand in files."""
