"""Measure how well a table is filled: hide known cells, fill them, and compare with baselines that need no model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator._data import FitData
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.evaluation import metrics
from snapimpute.evaluation.metrics import Reliability
from snapimpute.experts.proximal.expert import ProximalFit
from snapimpute.experts.proximal.fitting import Manner, ProximalData, fit_table
from snapimpute.experts.proximal.offsets import DAMPING, Center, KnownCells
from snapimpute.experts.proximal.tuned import TunedSpec

__all__ = ["Evaluation", "Way", "check", "evaluate"]

FitFunction = Callable[[SnapImputer, FitData], Any]

SHARE = 0.2
CHECK_SEED = 1
"""Added to the seed of the tuning, so that other cells are hidden than were held out there."""


@dataclass(frozen=True, eq=False)
class Way:
    """One way to fill the hidden cells, and how it did.

    ``exact`` is the share of cells with an alphabet that got their symbol,
    ``error`` its standard error. ``mae`` is of what was written, ``rmse`` of the
    estimate before it became a symbol; both in units of the data, or, where columns
    differ in kind, of their ranges.
    """

    label: str
    kind: Literal["ours", "rounding", "baseline"]
    estimate: Array
    symbols: Array
    right: Array
    mae: float
    rmse: float

    @property
    def exact(self) -> float:
        """Share of right symbols; NaN if no column has an alphabet."""
        return float(self.right.mean()) if self.right.size else float("nan")

    @property
    def error(self) -> float:
        """Standard error of `exact`, cells taken as independent."""
        return float(self.right.std() / np.sqrt(self.right.size)) if self.right.size else float("nan")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Hidden cells, filled and compared.

    Parameters
    ----------
    imputer : SnapImputer
        Fitted to ``known``.
    schema : ColumnSchema
    known, hidden : Observations
        In units of the data.
    ways : tuple of Way
        Ours first, then rounding, then the baselines.
    proba : tuple of array or None
        For each kind of column the probabilities at its hidden cells, in their order.
    strict : bool
        Whether λ and ξ were chosen without the hidden cells.
    """

    imputer: SnapImputer
    schema: ColumnSchema
    known: Observations
    hidden: Observations
    ways: tuple[Way, ...]
    proba: tuple[Array | None, ...]
    strict: bool

    @property
    def ours(self) -> Way:
        """The estimator as it was asked for."""
        return self.ways[0]

    def confusion(self, kind: int, way: Way | None = None) -> Any:
        """Count how often each symbol (row) became each (column), in columns of a kind; without cells left open."""
        alphabet = self._alphabet(kind)
        inside = self.schema.inside(kind, self.hidden.cols)
        truth, found = self.hidden.values[inside], (way or self.ours).symbols[inside]
        written = ~np.isnan(found)
        if not written.any():
            return np.zeros((len(alphabet), len(alphabet)), dtype=np.int64)
        return metrics.confusion(truth[written], found[written], alphabet)

    def reliability(self) -> Reliability | None:
        """Calibration of the probabilities, over all kinds of columns; None where there are none."""
        sure, right = [np.zeros(0)], [np.zeros(0, dtype=bool)]
        for kind, (alphabet, p) in enumerate(zip(self.schema.kinds, self.proba, strict=True)):
            if alphabet is not None and p is not None and p.size:
                truth = self.hidden.values[self.schema.inside(kind, self.hidden.cols)]
                sure.append(p.max(axis=1))
                right.append(alphabet.indices(truth) == p.argmax(axis=1))
        every = np.concatenate(sure)
        return metrics.binned(every, np.concatenate(right)) if every.size else None

    def gain(self, other: Way) -> tuple[float, float]:
        """Gain in the share of right symbols over another way of filling, with its standard error."""
        difference = self.ours.right - other.right
        if not difference.size:
            return float("nan"), float("nan")
        return float(difference.mean()), float(difference.std() / np.sqrt(difference.size))

    def __str__(self) -> str:
        """One line: ours against rounding and against the best baseline; by RMSE where no column has an alphabet."""
        if not self.ours.right.size:
            best = min((way for way in self.ways if way.kind == "baseline"), key=lambda way: way.rmse)
            return f"RMSE {self.ours.rmse:.4g} at the hidden cells, {best.rmse:.4g} by {best.label}"
        best = max((way for way in self.ways if way.kind == "baseline"), key=lambda way: way.exact)
        parts = []
        for other in (self.ways[1], best):
            gain, error = self.gain(other)
            words = f"{100 * gain:+.2f} ± {100 * error:.2f} points"
            known = abs(gain) > 2 * error
            parts.append(f"{words} against {other.label}" + ("" if known else ", which is no measurable difference"))
        return f"{100 * self.ours.exact:.2f} % of the hidden cells right: {'; '.join(parts)}"

    def _alphabet(self, kind: int) -> Alphabet:
        alphabet = self.schema.kinds[kind]
        if alphabet is None:
            raise ValueError("columns of any numbers have no symbols to confuse")
        return alphabet


def evaluate(
    observations: Observations,
    imputer: SnapImputer,
    *,
    share: float = SHARE,
    random_state: int = 0,
    fit: FitFunction = SnapImputer.fit,
) -> Evaluation:
    """Hide a share of the known cells, do everything else with the others, tuning included, and compare.

    Parameters
    ----------
    observations : Observations
    imputer : SnapImputer
        What to fit; a copy is fitted.
    share : float
        Of the known cells that are hidden.
    random_state : int
        Seed of their choice.
    fit : callable
        Fits the copy to the cells that are left, as `SnapImputer.fit` takes them; another
        one may go on after an interruption.

    Examples
    --------
    >>> from snapimpute import Proximal
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.5)
    >>> found = evaluate(data.observations, SnapImputer("0,1", method=Proximal(lam=3.0, xi=0.0)))
    >>> [way.label for way in found.ways][:2]
    ['snapimpute', 'plain low rank, rounded']
    """
    known, hidden = observations.split(share, random_state=random_state)
    return _compared(known, hidden, _copy(imputer), strict=True, fit=fit)


def check(observations: Observations, imputer: SnapImputer, *, share: float = SHARE) -> Evaluation:
    """Hide some cells from a fit at the strengths that a fitted imputer has chosen: much faster than `evaluate`.

    Those strengths were chosen with the hidden cells among the known ones, so that it may be a little optimistic.
    """
    known, hidden = observations.split(share, random_state=imputer.random_state + CHECK_SEED)
    same = _copy(imputer, callback=None, progress=None)
    strict = isinstance(imputer.fit_, ProximalFit) and imputer.choice_ is None
    return _compared(
        known, hidden, same, strict=strict, chosen=imputer, fit=lambda one, data: one._fit(data, like=imputer)
    )


def _compared(
    known: Observations,
    hidden: Observations,
    imputer: SnapImputer,
    *,
    strict: bool,
    chosen: SnapImputer | None = None,
    fit: FitFunction = SnapImputer.fit,
) -> Evaluation:
    data = imputer._read(known)
    units = ProximalData.of(data.observed, data.schema)  # kept here, so that the fit computes it for all
    fit(imputer, data)
    book = ColumnSchema.of(imputer.alphabet_, known.shape[1])
    known, hidden = (one.with_values(book.snapped(one.cols, one.values)) for one in (known, hidden))
    rows, cols = hidden.rows, hidden.cols
    estimate = np.full(len(hidden), np.nan)
    if (measured := ~book.nominal[cols]).any():  # categories without order have no mean
        estimate[measured] = imputer.predict_mean(rows[measured], cols[measured])
    symbols = np.array(estimate)
    proba: list[Array | None] = []
    for kind, alphabet in enumerate(book.kinds):
        inside = book.inside(kind, cols)
        if alphabet is None or not rows[inside].size:
            proba.append(None if alphabet is None or imputer.decide == "nearest" else np.zeros((0, len(alphabet))))
            continue
        found = imputer.predict(rows[inside], cols[inside])
        symbols[inside] = alphabet.encode(found) if alphabet.labels is not None else found
        proba.append(None if imputer.decide == "nearest" else imputer.predict_proba(rows[inside], cols[inside]))
    ways = [_way("snapimpute", "ours", hidden, book, imputer.scale_, estimate, symbols)]
    if isinstance(imputer.fit_, ProximalFit) and (plain := _plain(imputer, chosen or imputer)) is not None:
        options = imputer.fit_.options
        estimate = fit_table(units, plain, Manner("auto", options, "nearest")).model.fitted.mean(rows, cols)
    modes = _column_modes(known, book)[cols]
    estimate = np.where(book.nominal[cols], modes, estimate)  # categories cannot be rounded to
    label = "plain low rank, rounded" if isinstance(imputer.fit_, ProximalFit) else "expected value, rounded"
    ways.append(_rounded(label, "rounding", hidden, book, imputer.scale_, estimate))
    ways += _baselines(known, hidden, book, imputer.scale_, units.known)
    return Evaluation(imputer, book, known, hidden, tuple(ways), tuple(proba), strict)


def _plain(imputer: SnapImputer, chosen: SnapImputer) -> TunedSpec | None:
    """Return the best specification without a discrete penalty; None if that was fitted."""
    verdict = chosen.verdict_
    lam = imputer.lam_ if verdict is None else verdict.plain.lam
    if imputer.xi_ == 0 and lam == imputer.lam_:
        return None
    return TunedSpec(replace(imputer.fit_.tuned.spec, discrete=None, weights=None), lam, 0.0)


def _copy(imputer: SnapImputer, **changes: Any) -> SnapImputer:
    """The same, not fitted, with other parameters; callbacks stay as they are, which `clone` would copy."""
    return SnapImputer(**{**imputer.get_params(deep=False), **changes})


def _baselines(
    known: Observations, hidden: Observations, book: ColumnSchema, scale: Array, units: KnownCells
) -> list[Way]:
    """Baselines without a model of the table: usual symbols, means, biases."""
    out = []
    if book.one is not None:
        usual = int(np.bincount(book.one.indices(known.values)).argmax())
        common = np.full(len(hidden), book.one.symbols[usual])
        out.append(_way("most common symbol", "baseline", hidden, book, scale, common, common))
    modes = _column_modes(known, book)[hidden.cols]
    out.append(_way("most common of the column", "baseline", hidden, book, scale, modes, modes))
    at = hidden.rows, hidden.cols
    centers: dict[str, Center] = {"mean of the column, rounded": "columns", "damped biases, rounded": "biases"}
    for label, center in centers.items():
        damping = (DAMPING[0], 0.0) if center == "columns" else DAMPING
        estimate = units.biases(center, damping).entries(*at) * scale[hidden.cols]
        estimate = np.where(book.nominal[hidden.cols], modes, estimate)
        out.append(_rounded(label, "baseline", hidden, book, scale, estimate))
    return out


def _column_modes(known: Observations, book: ColumnSchema) -> Array:
    """The most frequent symbol of each column, or of its kind if it is empty; the mean of columns of any numbers."""
    n = known.shape[1]
    out = np.zeros(n)
    for kind, (alphabet, cols) in enumerate(book.groups):
        inside = book.inside(kind, known.cols)
        at, values = known.cols[inside], known.values[inside]
        if alphabet is None:
            mean = float(values.mean()) if values.size else 0.0
            counts = np.bincount(at, minlength=n)
            out[cols] = np.where(counts > 0, np.bincount(at, values, n) / np.maximum(counts, 1), mean)[cols]
            continue
        size = len(alphabet)
        table = np.bincount(at * np.int64(size) + alphabet.indices(values), minlength=n * size).reshape(n, size)
        usual = table.sum(axis=0).argmax()
        out[cols] = alphabet.symbols[np.where(table.any(axis=1), table.argmax(axis=1), usual)][cols]
    return out


def _rounded(label: str, kind: Any, hidden: Observations, book: ColumnSchema, scale: Array, estimate: Array) -> Way:
    return _way(label, kind, hidden, book, scale, estimate, book.snapped(hidden.cols, estimate))


def _way(
    label: str, kind: Any, hidden: Observations, book: ColumnSchema, scale: Array, estimate: Array, symbols: Array
) -> Way:
    """Score symbols; a cell that was left open is not right.

    Neither that cell nor categories without order count in a distance.
    """
    units, measured = scale[hidden.cols], ~book.nominal[hidden.cols]
    off = np.abs(symbols - hidden.values) / units
    right = (off < 1e-9)[book.discrete[hidden.cols]].astype(np.float64)
    written = off[~np.isnan(off) & measured]
    mae = float(written.mean()) if written.size else float("nan")
    truth, told = (hidden.values / units)[measured], (estimate / units)[measured]
    return Way(label, kind, estimate, symbols, right, mae, metrics.rmse(truth, told) if truth.size else float("nan"))
