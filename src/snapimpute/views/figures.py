"""Numbers and labels of every figure: `plots` draws them with matplotlib, the report with plotly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.types import Array, Index
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.evaluation.metrics import Reliability
from snapimpute.experts.blend import BlendFit
from snapimpute.experts.proximal.choice import Choice, Metric
from snapimpute.experts.proximal.expert import ProximalFit
from snapimpute.solvers import Result

if TYPE_CHECKING:
    from snapimpute.estimator.evaluation import Evaluation
    from snapimpute.estimator.imputer import SnapImputer

SCORES: dict[Metric, str] = {
    "error": "held-out cells with the wrong symbol, %",
    "mae": "mean absolute error on held-out cells",
    "rmse": "root mean squared error on held-out cells",
}


# -------------------------------------------------------------------- tuning
@dataclass(frozen=True, eq=False)
class TuningCurve:
    """Scores of all λ that were tried with one ξ, by ascending λ, with standard errors and ranks."""

    xi: float
    lam: Array
    score: Array
    error: Array
    rank: Index

    @property
    def columns(self) -> tuple[Array, Array, Array, Index]:
        """Give λ, score, standard error and rank of each pair."""
        return self.lam, self.score, self.error, self.rank


@dataclass(frozen=True, eq=False)
class TuningScores:
    """Scores on held-out cells of the pairs (λ, ξ) that were tried; lower is better.

    There is a curve for each ξ. ``grid`` (ξ, λ) has the scores again, NaN where a pair was not tried. ``error`` is
    the standard error of the score of the chosen pair.
    """

    label: str
    percent: bool
    curves: tuple[TuningCurve, ...]
    lams: Array
    xis: Array
    grid: Array
    lam: float
    xi: float
    score: float
    error: float

    @classmethod
    def of(cls, given: Choice | SnapImputer) -> TuningScores:
        """Take the scores of a choice, or of an imputer that tuned λ or ξ.

        Examples
        --------
        >>> from snapimpute.experts.proximal.tuning import Candidate
        >>> tried = [Candidate(lam, xi, score, 2, 9) for lam, xi, score in [(1, 0, 0.3), (2, 0, 0.2), (2, 0.1, 0.1)]]
        >>> found = TuningScores.of(Choice(tried[2], tuple(tried), "error"))
        >>> found.grid, found.place
        (array([[30., 20.],
               [nan, 10.]]), (1, 1))
        """
        _check_proximal(given, "tunes λ and ξ")
        choice = getattr(given, "choice_", given)
        if choice is None:
            raise ValueError("nothing was tuned: λ and ξ were given, or there were too few cells to hold any out")
        if not isinstance(choice, Choice):
            got = type(given).__name__
            raise TypeError(f"expected a Choice from tuning.choose, or a fitted SnapImputer, got {got}")
        percent = choice.metric == "error"
        unit, best = 100.0 if percent else 1.0, choice.best
        lams, xis, scores = choice.surface()
        curves = tuple(_curve(choice, xi, unit) for xi in xis.tolist())
        chosen = best.lam, best.xi, unit * best.score, unit * best.error
        return cls(SCORES[choice.metric], percent, curves, lams, xis, unit * scores.T, *chosen)

    @property
    def place(self) -> tuple[int, int]:
        """Positions of the chosen λ and ξ among `lams` and `xis`."""
        return int(np.searchsorted(self.lams, self.lam)), int(np.searchsorted(self.xis, self.xi))


def _curve(choice: Choice, xi: float, unit: float) -> TuningCurve:
    some = sorted((one for one in choice.tried if one.xi == xi), key=lambda one: one.lam)
    lam, score, error = np.array([[one.lam, unit * one.score, unit * one.error] for one in some]).T
    return TuningCurve(xi, lam, score, error, np.array([one.rank for one in some]))


def _check_proximal(given: Any, does: str) -> None:
    """Refuse an imputer that was fitted by another method than the proximal one."""
    fit = getattr(given, "fit_", None)
    if fit is not None and not isinstance(fit, ProximalFit):
        by = "a blend" if isinstance(fit, BlendFit) else next(iter(given.blend_))
        told = "; plot_experts draws the scores of a blend" * isinstance(fit, BlendFit)
        raise ValueError(
            f'only the proximal expert {does}, and this was fitted by {by}: fit with method="proximal"{told}'
        )


# -------------------------------------------------------------------- a blend
@dataclass(frozen=True, eq=False)
class ExpertScores:
    """Log losses of experts on held-out cells, with standard errors, and their weights, the largest weight first.

    Lower is better. ``loss`` is that of the blend. ``others`` are the experts without a score, with the reasons.
    """

    names: list[str]
    losses: Array
    errors: Array
    weights: Array
    reasons: list[str]
    loss: float
    cells: int
    others: dict[str, str]

    @classmethod
    def of(cls, imputer: SnapImputer) -> ExpertScores:
        """Take the scores of an imputer that was fitted by a blend of experts.

        Examples
        --------
        >>> from snapimpute.data.datasets import low_rank_alphabet
        >>> from snapimpute.estimator.imputer import SnapImputer
        >>> from snapimpute.experts.proximal.expert import Proximal
        >>> known = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.5).observations
        >>> imputer = SnapImputer("0,1", method=["habits", Proximal(lam=2.0, xi=0.0)]).fit(known)
        >>> ExpertScores.of(imputer).names
        ['proximal', 'habits']
        """
        fit = getattr(imputer, "fit_", None)
        if not isinstance(fit, BlendFit):
            by = "" if fit is None else f", and this was fitted by {next(iter(imputer.blend_))} alone"
            raise ValueError(f'only a blend compares experts{by}: fit with method="auto", or a list of experts')
        scored = [one for one in fit.scores if np.isfinite(one.loss)]
        if not scored:
            raise ValueError("no expert has a score: too few cells with an alphabet are known to hold any out")
        names, reasons = [one.name for one in scored], [one.reason for one in scored]
        losses, errors, weights = np.array([[one.loss, one.error, one.weight] for one in scored]).T
        others = {one.name: one.reason for one in fit.scores if not np.isfinite(one.loss)}
        return cls(names, losses, errors, weights, reasons, fit.verdict.loss, fit.verdict.cells, others)

    @property
    def texts(self) -> list[str]:
        """Text beside each expert: its weight, or that it has none."""
        return [f"weight {weight:.2f}" if weight else "left out" for weight in self.weights.tolist()]


# -------------------------------------------------------------------- a fit
@dataclass(frozen=True, eq=False)
class Series:
    """Finite values of one column of a history, with their iterations."""

    iteration: NDArray[Any]
    values: Array

    @classmethod
    def of(cls, history: Mapping[str, NDArray[Any]], name: str) -> Series:
        """Take the finite values of a column."""
        values = history[name].astype(float)
        seen = np.isfinite(values)
        return cls(history["iteration"][seen], values[seen])

    def __len__(self) -> int:
        return self.values.size


@dataclass(frozen=True, eq=False)
class Convergence:
    """Objective, certificate and rank of a fit by iteration, ‖X‖ at its end (``size``), and how it ended.

    The certificate bounds how far an iterate is from a stationary point. Iterations
    without one are left out, such as those of a continuation while λ still comes down.
    """

    objective: Series
    certificate: Series
    rank: Series
    size: float = 1.0
    count: int = 0
    status: str = ""

    @classmethod
    def of(cls, given: Result | SnapImputer) -> Convergence:
        """Take the history of a result, or of the last fit of an imputer."""
        if isinstance(given, Result):
            found = cls.from_history(given.history)
            return replace(found, size=float(np.linalg.norm(given.x.s)), status=given.status.code)
        _check_proximal(given, "minimises an objective")
        if hasattr(given, "history_"):
            found = cls.from_history(given.history_)
            return replace(found, size=float(np.linalg.norm(given.singular_values_)), status=given.status_.code)
        raise TypeError(f"expected a Result from solve, or a fitted SnapImputer, got {type(given).__name__}")

    @classmethod
    def from_history(cls, history: Mapping[str, NDArray[Any]]) -> Convergence:
        """Take the columns of a history."""
        objective, certificate, rank = (Series.of(history, name) for name in ("objective", "certificate", "rank"))
        return cls(objective, certificate, rank, count=history["iteration"].size)

    @property
    def relative(self) -> Array:
        """Certificates relative to ‖X‖."""
        return self.certificate.values / max(self.size, 1e-12)


# -------------------------------------------------------------------- an evaluation
def reliability_of(given: Reliability | Evaluation) -> Reliability | None:
    """Return how far probabilities can be trusted; None where an evaluation has none."""
    return given if isinstance(given, Reliability) else given.reliability()


@dataclass(frozen=True, eq=False)
class Confusion:
    """Counts of how often each true symbol (row) became each symbol (column), and the names of the symbols."""

    counts: NDArray[np.int64]
    names: list[str]

    @classmethod
    def of(cls, given: Any, alphabet: AlphabetLike | None = None, kind: int | None = None) -> Confusion:
        """Take the counts of an evaluation, or counts with their alphabet.

        ``kind`` is a position in ``given.schema.kinds``, by default that of the first kind with an alphabet.
        """
        if hasattr(given, "confusion"):
            kinds = given.schema.kinds
            if kind is None:
                kind = next((i for i, one in enumerate(kinds) if one is not None), 0)
            return cls(given.confusion(kind), names(kinds[kind]))
        if alphabet is None:
            raise TypeError("expected an evaluation, or counts and their alphabet: plot_confusion(counts, alphabet)")
        symbols, counts = Alphabet.of(alphabet), np.asarray(given)
        if counts.shape != (len(symbols), len(symbols)):
            raise ValueError(f"expected counts of shape {(len(symbols),) * 2} for {symbols!r}, got {counts.shape}")
        return cls(counts, names(symbols))

    @property
    def total(self) -> NDArray[np.int64]:
        """Cells of each true symbol."""
        total: NDArray[np.int64] = self.counts.sum(axis=1)
        return total

    @property
    def share(self) -> Array:
        """Counts as shares of their rows; NaN in rows without a cell."""
        total = self.total[:, None]
        return np.where(total > 0, self.counts / np.maximum(total, 1), np.nan)

    @property
    def recall(self) -> Array:
        """Share of the cells of each true symbol that got it back."""
        return np.diag(self.share)

    def most_frequent(self, most: int) -> Confusion:
        """Keep the symbols that occur most, true or written."""
        met = self.counts.sum(axis=0) + self.counts.sum(axis=1)
        few = np.sort(np.argsort(-met, kind="stable")[:most])
        return Confusion(self.counts[np.ix_(few, few)], [self.names[i] for i in few.tolist()])


@dataclass(frozen=True, eq=False)
class WayScores:
    """Scores of each way to fill hidden cells, ours first; ``kinds`` are "ours", "rounding" or "baseline".

    If ``symbols``, a score is the per cent of right symbols, higher being better, with standard errors. If not, no
    column has an alphabet, and it is an error.
    """

    label: str
    symbols: bool
    names: list[str]
    kinds: list[Literal["ours", "rounding", "baseline"]]
    values: Array
    errors: Array

    @classmethod
    def of(cls, evaluation: Evaluation) -> WayScores:
        """Take the scores of an evaluation."""
        ways = evaluation.ways
        names, kinds = [way.label for way in ways], [way.kind for way in ways]
        if np.isnan(evaluation.ours.exact):
            values, errors = np.array([way.rmse for way in ways]), np.zeros(len(ways))
            return cls("root mean squared error, in units of each column", False, names, kinds, values, errors)
        values, errors = 100 * np.array([[way.exact, way.error] for way in ways]).T
        return cls("hidden cells with the right symbol, %", True, names, kinds, values, errors)

    @property
    def best_last(self) -> WayScores:
        """The ways from the worst to the best."""
        order = np.argsort(self.values if self.symbols else -self.values, kind="stable")
        names, kinds = ([one[i] for i in order.tolist()] for one in (self.names, self.kinds))
        return replace(self, names=names, kinds=kinds, values=self.values[order], errors=self.errors[order])


# -------------------------------------------------------------------- a table
def places(chosen: Index, size: int) -> Index:
    """Return the position of each row, or column, among the chosen ones; -1 if it is not chosen.

    Examples
    --------
    >>> places(np.array([2, 0]), 4)
    array([ 1, -1,  0, -1])
    """
    place = np.full(size, -1, dtype=np.intp)
    place[chosen] = np.arange(chosen.size)
    return place


def part_of(
    pieces: Iterable[tuple[Index, Index, Array]], shape: tuple[int, int], rows: Index, cols: Index
) -> tuple[Array, int]:
    """Return the known cells of some rows and columns, NaN elsewhere, and the number of known cells of the table.

    Examples
    --------
    >>> cells = np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0])
    >>> part_of([cells], (2, 2), np.array([1, 0]), np.array([1]))
    (array([[nan],
           [ 2.]]), 3)
    """
    down, across = places(rows, shape[0]), places(cols, shape[1])
    out, count = np.full((rows.size, cols.size), np.nan), 0
    for r, c, values in pieces:
        count += values.size
        i, j = down[r], across[c]
        inside = (i >= 0) & (j >= 0)
        out[i[inside], j[inside]] = values[inside]
    return out, count


def in_range(values: Array, low: Array | float, high: Array | float) -> Array:
    """Place values between the ends of a range, 0 and 1; in the middle of a range without a width.

    Examples
    --------
    >>> in_range(np.array([[1.0, 7.0], [3.0, 7.0]]), np.array([1.0, 7.0]), np.array([5.0, 7.0]))
    array([[0. , 0.5],
           [0.5, 0.5]])
    """
    wide = np.greater(high, low)
    out: Array = np.where(wide, (values - low) / np.where(wide, np.subtract(high, low), 1.0), 0.5)
    return out


def names(alphabet: Alphabet) -> list[str]:
    """Return the labels of an alphabet, or its numbers as text.

    Examples
    --------
    >>> names(Alphabet.of("1:3")), names(Alphabet.of(["no", "yes"]))
    (['1', '2', '3'], ['no', 'yes'])
    """
    return list(alphabet.labels or alphabet.names())
