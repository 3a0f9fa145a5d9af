"""The proximal method as an expert: its parameters, and the fit that answers for cells."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from snapimpute.backends import backend_named
from snapimpute.base.clock import Clock
from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.answers import CellAnswers
from snapimpute.data.expert import Expert
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.decide import Decide
from snapimpute.experts.proximal.choice import Choice, Metric, Verdict
from snapimpute.experts.proximal.fitting import Fitted, Manner, ProximalData, fit_further, fit_table
from snapimpute.experts.proximal.model import LowRankPredictions, Model
from snapimpute.experts.proximal.offsets import Center
from snapimpute.experts.proximal.spec import ModelSpec, Weights
from snapimpute.experts.proximal.tuned import Strength, TunedSpec, TuningInterruptedError, tune
from snapimpute.experts.proximal.tuning import xi_grid
from snapimpute.linalg import LowRank
from snapimpute.penalties import DiscretePenalty, SpectralPenalty
from snapimpute.solvers import AlphabetTerm, FitOptions, Precision, Solver, Status, forecast

logger = logging.getLogger("snapimpute")

ITERATIONS = 60
"""Iterations of a fit with its tuning, about."""

METRICS: dict[Decide, Metric] = {"accuracy": "error", "mae": "mae", "rmse": "rmse", "nearest": "error"}


@stored(
    "proximal",
    *("spectral", "discrete", "symbol_weights", "lam", "xi", "center", "solver", "cv", "max_iter", "tol"),
    *("max_rank", "alphabet_term", "backend", "dtype", "decide", "random_state"),
)
@dataclass(frozen=True, eq=False)
class Proximal(Expert):
    """A matrix of low rank whose missing cells are drawn to the alphabet: the method of the paper, and its relatives.

    The table is modelled as offsets plus a matrix of low rank. Probabilities are calibrated on held-out cells.

    Parameters
    ----------
    spectral : {"nuclear", "lsp", "capped-l1", "tnn", "mcp", "scad", "rank"} or SpectralPenalty
        What favours low rank: the nuclear norm, the log-sum penalty with
        θ = √λ, the capped ℓ1 with θ = 2λ, the truncated nuclear norm with r = 3
        (the three largest singular values are free), MCP with γ = 3, SCAD with
        a = 3.7, or the rank itself. A penalty object brings its own λ.
    discrete : {"l1", "l1-composed", "l0", "l0-fractional", "lp", "l2", "ridge"}, DiscretePenalty or None
        What draws unobserved entries to the alphabet; "lp" with p = ½,
        "l0-fractional" with α = d²/20, d the smallest distance of two symbols.
        "ridge" is a control that does not see the alphabet, None leaves it out.
        A penalty object brings its own ξ.
    symbol_weights : {None, "frequency"} or list
        Of the symbols in the discrete penalty: all alike, K times the observed
        frequencies, or one number for each symbol in ascending order.
    lam, xi : float or "auto"
        Strengths of the two. "auto" chooses them on a fifth of the observed
        cells, held out for that, by the loss of ``decide``; then everything
        observed is fitted again with the strengths chosen. ξ = 0 is among those
        tried. With several alphabets ξ is in units of each.
    center : {"auto", "mean", "rows", "columns", "biases"} or None
        What is subtracted before modelling: the mean, and damped biases of rows,
        of columns or of both; the damping is tuned. "auto" tries the mean (of
        columns, where they differ in kind) and both biases on the held-out cells,
        with ξ = 0 while ξ is open, and keeps the better one.
    solver : str or Solver
        "auto" takes one that fits the penalties, and ``solver_why_`` says why;
        else a name of ``solvers.SOLVERS`` or a solver with its parameters. What
        the solver has no use for is not tuned.
    cv : int, optional
        Tune on so many folds instead of one fifth.
    max_iter : int
        Iterations at most, of each fit.
    tol : float
        Stop when the relative change of an iteration is at most this; 0 never
        stops early.
    max_rank : int, optional
        Keep at most that many factors.
    alphabet_term : {"auto", "tiled", "sampled"}
        Whether the discrete penalty is computed on all missing cells or
        estimated on a sample of them; "auto" takes a sample of huge tables only.
    backend : {"cpu", "torch", "torch:cpu", "torch:cuda"}, optional
        Where the fit runs; that of the estimator if not given, or else here.
    dtype : {"float64", "float32"}, optional
        Precision of the fit; that of the estimator if not given.
    decide : {"accuracy", "mae", "rmse", "nearest"}, optional
        Loss that strengths are chosen by; that of the estimator if not given. "nearest" leaves out the calibration.
    random_state : int, optional
        That of the estimator if not given.

    Examples
    --------
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="1:5", observed=0.5)
    >>> fit = Proximal(lam=1.0, xi=0.01).fit(data.observations, data.alphabet)
    >>> fit.xi, fit.proba([0, 1], [2, 3]).shape
    (0.01, (2, 5))
    """

    name: ClassVar[str] = "proximal"

    spectral: str | SpectralPenalty = "nuclear"
    discrete: str | DiscretePenalty | None = "l1"
    symbol_weights: Weights = None
    lam: Strength = "auto"
    xi: Strength = "auto"
    center: Center | Literal["auto"] = "auto"
    solver: str | Solver[Any] = "auto"
    cv: int | None = None
    max_iter: int = 300
    tol: float = 1e-4
    max_rank: int | None = None
    alphabet_term: AlphabetTerm = "auto"
    backend: str | None = None
    dtype: Precision | None = None
    decide: Decide | None = None
    random_state: int | None = None

    def takes(self, alphabet: Alphabet | None) -> bool:
        """Tell whether columns have an order, or plain numbers."""
        return alphabet is None or alphabet.ordered

    def options(self) -> FitOptions:
        """Return the options of its fits."""
        return FitOptions(
            max_iter=self.max_iter,
            tol=self.tol,
            max_rank=self.max_rank,
            alphabet_term=self.alphabet_term,
            backend=self.backend or "cpu",
            dtype=self.dtype or "float64",
            random_state=self.random_state or 0,
        )

    def tuned(
        self, data: ProximalData, progress: Callable[[Any], Any] | None = None, options: FitOptions | None = None
    ) -> TunedSpec:
        """Choose everything that is "auto".

        Raises
        ------
        TuningInterruptedError
            After an interruption; it has the best so far.
        """
        return tune(
            data.known,
            data.alphabet,
            spectral=self.spectral,
            discrete=self.discrete,
            weights=self.symbol_weights,
            lam=self.lam,
            xi=self.xi,
            center=self.center,
            solver=self.solver,
            metric=METRICS[self.decide or "accuracy"],
            cv=self.cv,
            options=options or self.options(),
            progress=progress,
        )

    def forecast(self, observations: Observations, alphabet: Any, *, timed: bool = True) -> ProximalForecast:
        """Estimate memory and seconds of the last fit, without fitting.

        Parameters
        ----------
        observations, alphabet
            As in `fit`.
        timed : bool
            True times a small piece, which takes less than an iteration.
        """
        data = ProximalData(observations, ColumnSchema.read(alphabet, observations.shape[1]))
        center: Center = "mean" if isinstance(data.alphabet, Alphabet) else "columns"
        spec = ModelSpec(data.alphabet, self.spectral, self.discrete, center, self.symbol_weights)
        xi = max(xi_grid(spec)) if isinstance(self.xi, str) else self.xi
        problem = spec.bind(data.known).problem(1.0, xi)
        options = self.options()
        term = "tiled" if options.alphabet_term == "auto" else options.alphabet_term
        plan = forecast(
            problem, self.solver, max_rank=options.max_rank, alphabet_term=term, dtype=options.dtype, timed=timed
        )
        seconds = None if plan.seconds is None else plan.seconds * ITERATIONS
        return ProximalForecast(plan.memory, plan.fits, seconds)

    def fit(
        self,
        observations: Observations,
        alphabet: Any,
        *,
        time_limit: float | None = None,
        callback: Callable[[Any], Any] | None = None,
        progress: Callable[[Any], Any] | None = None,
    ) -> ProximalFit:
        """Choose what is open on held-out cells, fit everything, and calibrate.

        Parameters
        ----------
        observations : Observations
        alphabet : Alphabet, what makes one, or ColumnSchema
        time_limit : float, optional
            Seconds after which nothing more is tried, and the last fit ends at its next iteration.
        callback : callable, optional
            Called in every iteration of the last fit, as in `solve`.
        progress : callable, optional
            Called with each `tuning.Candidate` as it is scored.
        """
        data = ProximalData.of(observations, ColumnSchema.read(alphabet, observations.shape[1]))
        clock = Clock(time_limit)
        manner = self._manner(clock.stopping(callback))
        backend_named(manner.options.backend)  # an error before anything is computed, if it is not there
        try:
            tuned, stopped = self.tuned(data, clock.interrupting(progress)), False
        except TuningInterruptedError as err:
            tuned, stopped = err.tuned, not clock.over
            logger.log(logging.WARNING if stopped else logging.INFO, "%s: the best so far is fitted", err)
        return self._kept(fit_table(data, tuned, manner, stopped=stopped), observations)

    def update(self, fit: ProximalFit, observations: Observations, **told: Any) -> ProximalFit:
        """Go on from a fit with more known cells, at the same strengths."""
        manner = self._manner(told.get("callback"))
        return self._kept(fit_further(fit.model, fit.tuned, observations, manner), observations)

    def again(self, fit: ProximalFit, observations: Observations, **told: Any) -> ProximalFit:
        """Fit other known cells of the same table, at the strengths and with the centre of a fit."""
        spec = fit.tuned.spec
        lam = fit.tuned.lam if spec.lam_is_open else self.lam
        xi = fit.tuned.xi if spec.xi_is_open else self.xi
        return replace(self, lam=lam, xi=xi, center=spec.center).fit(observations, fit.schema, **told)

    def _manner(self, callback: Callable[[Any], Any] | None) -> Manner:
        return Manner(self.solver, self.options(), self.decide or "accuracy", callback)

    def _kept(self, fitted: Fitted, observations: Observations) -> ProximalFit:
        result, settings = fitted.result, fitted.result.settings
        status = result.status
        if fitted.stopped and status.code != "interrupted":
            status = Status("interrupted", "interrupted: the best so far is kept")
        elif status.advice and status.code != "interrupted":
            warnings.warn(str(status), ConvergenceWarning, stacklevel=3)
        return ProximalFit(
            fitted.tuned,
            fitted.model,
            observations,
            status,
            result.history,
            settings["solver"],
            settings["why"],
            self.options(),
        )


class ProximalForecast(NamedTuple):
    """Bytes at the peak, whether they are free, and seconds of all iterations; None if not timed."""

    memory: int
    fits: bool
    seconds: float | None


@stored("proximal fit", "tuned", "model", "observations", "status", "history", "solver", "why", "options")
@dataclass(frozen=True, eq=False)
class ProximalFit(CellAnswers):
    """Offsets and a matrix of low rank, and what they say of cells.

    Attributes
    ----------
    tuned : TunedSpec
        The specification with its strengths, and what was tried.
    model : Model
        Factors, offsets, and calibrations.
    observations : Observations
    status : Status
        Why the fit ended, and what to do about it.
    history : dict of arrays
        Objective, its terms, rank and seconds in each iteration.
    solver, why : str
        The solver that was run with its parameters, and why it was taken.
    options : FitOptions
    """

    tuned: TunedSpec
    model: Model
    observations: Observations
    status: Status
    history: dict[str, NDArray[Any]] = field(repr=False)
    solver: str
    why: str
    options: FitOptions
    rows: LowRankPredictions | None = field(default=None, init=False, repr=False)
    """Of the rows that were folded in; those of the fit if None. They stand in no file."""

    @property
    def schema(self) -> ColumnSchema:
        """Content of each column."""
        return self.model.schema

    @property
    def scale(self) -> Array:
        """Size of one unit of the model in each column."""
        return self.model.scale

    @property
    def by_cells(self) -> bool:
        """Tell whether the known cells of a row are all that its answers depend on."""
        return True

    @property
    def lam(self) -> float:
        """λ, the strength of low rank."""
        given = self.tuned.spec.spectral
        return given.lam if isinstance(given, SpectralPenalty) else self.tuned.lam

    @property
    def xi(self) -> float:
        """ξ, the strength of discreteness."""
        given = self.tuned.spec.discrete
        return given.xi if isinstance(given, DiscretePenalty) else self.tuned.xi

    @property
    def choice(self) -> Choice | None:
        """Strengths tried on held-out cells, for the centre that was kept; None if nothing was tuned."""
        return self.tuned.choice

    @property
    def verdict(self) -> Verdict | None:
        """Verdict on discreteness against rounding, on held-out cells; None where that was not tried."""
        return None if self.choice is None else self.choice.verdict

    @cached_property
    def factors(self) -> LowRank:
        """Factors of the matrix of low rank, in the precision of the fit."""
        return self.model.shown.astype(np.dtype(self.options.dtype))

    @property
    def rank(self) -> int:
        """Number of factors."""
        return self.model.shown.rank

    @cached_property
    def _predictions(self) -> LowRankPredictions:
        return self.model.fitted if self.rows is None else self.rows

    def _chances(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        return self._predictions.proba(rows, cols)

    def mean(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the estimates at cells, neither snapped nor held in range."""
        return self._predictions.mean(*self._cells(rows, cols))

    def _numbers(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        return self._predictions.mean(rows, cols)

    def _drawn(self, rows: NDArray[np.intp], cols: NDArray[np.intp], count: int, seed: int) -> Iterator[Array]:
        return self._independent(rows, cols, count, seed)

    def fold_in(self, observations: Observations) -> ProximalFit:
        """Return the answers for new rows with the same columns, by their known cells (`foldin`)."""
        cells = observations.rows, observations.cols, observations.values
        out = replace(self, observations=observations)
        object.__setattr__(out, "rows", self.model.folded(cells, observations.shape[0], self.observations))
        return out
