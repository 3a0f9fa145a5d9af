"""The estimator: a table with missing cells in, the same kind of table filled with symbols out."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from snapimpute.backends import backend_named
from snapimpute.base.display import html_of
from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Array
from snapimpute.data.checks import Labels
from snapimpute.data.features import FeatureTable, refuse_features
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import Table, read_table
from snapimpute.estimator._answers import asked_cells, check_coded, decoded, hidden_score, recommended
from snapimpute.estimator._features import further_sides, row_table
from snapimpute.estimator._fitting import FitData, Fitted, Manner, fit_further, fit_table, no_alphabet
from snapimpute.estimator._update import grown_labels, merged, new_cells
from snapimpute.estimator.engines import (
    Decision,
    EngineFit,
    EngineModel,
    ended,
    engine_of,
    fit_engine,
    update_engine,
)
from snapimpute.estimator.files import write_model
from snapimpute.experts.decide import Decide, check_confidence, check_decide
from snapimpute.experts.proximal.choice import Choice, Metric, Verdict
from snapimpute.experts.proximal.model import Model, Predictions
from snapimpute.experts.proximal.offsets import Center
from snapimpute.experts.proximal.spec import Weights
from snapimpute.experts.proximal.tuned import Strength, TunedSpec, TuningInterruptedError, tune
from snapimpute.mosaic import Mosaic, MosaicDiagnostics
from snapimpute.penalties import DiscretePenalty, SpectralPenalty
from snapimpute.posterior import Diagnostics, Posterior
from snapimpute.solvers import AlphabetTerm, FitOptions, Precision, Solver

logger = logging.getLogger("snapimpute")

METRICS: dict[Decide, Metric] = {"accuracy": "error", "mae": "mae", "rmse": "rmse", "nearest": "error"}


class SnapImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill the missing cells of a table with symbols of a finite alphabet.

    The table is modelled as offsets plus a matrix of low rank whose unobserved
    entries are drawn to the alphabet. Each missing cell gets the symbol that
    ``decide`` asks for, by calibrated probabilities. Observed cells are not changed.

    Parameters
    ----------
    alphabet : list, str, Alphabet, or a dict or list of such
        The symbols a cell can have: ``[0, 1]``, ``"1:5"``, ``"0.5:5:0.5"``, or
        labels from lowest to highest, ``["low", "mid", "high"]``. A dict by the
        name or position of columns, or a list with one entry for each, gives
        columns their own; None there is a column of any numbers. `Nominal` holds
        categories without order, not for the proximal method. "infer" looks
        at the values; ``alphabet_`` is what it found. Required.
    method : {"proximal", "posterior", "mosaic"}, Posterior or Mosaic
        Model of the table: low rank by proximal gradient, as in the paper, with the
        parameters below; draws from an ordinal `Posterior`, whose probabilities
        need no calibration; or a `Mosaic`, for columns that stand in an order. The
        last two have parameters of their own.
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
    weights : {None, "frequency"} or list
        Of the symbols in the discrete penalty: all alike, K times the observed
        frequencies, or one number for each symbol in ascending order.
    lam, xi : float or "auto"
        Strengths of the two. "auto" chooses them on a fifth of the observed
        cells, held out for that, by the loss of ``decide``; then everything
        observed is fitted again with the strengths chosen. ξ = 0 is among those
        tried: ``xi_ == 0`` says that discreteness did not help, and ``verdict_``
        by how much. With several alphabets ξ is in units of each.
    solver : str or Solver
        "auto" takes one that fits the penalties, and ``solver_why_`` says why;
        else a name of ``solvers.SOLVERS`` or a solver with its parameters. What
        the solver has no use for is not tuned: ξ is 0 for one that does not
        treat a discrete penalty.
    center : {"auto", "mean", "rows", "columns", "biases"} or None
        What is subtracted before modelling: the mean, and damped biases of rows,
        of columns or of both; the damping is tuned. "auto" tries the mean (of
        columns, where they differ in kind) and both biases on the held-out cells,
        with ξ = 0 while ξ is open, and keeps the better one.
    decide : {"accuracy", "mae", "rmse", "nearest"}
        What a symbol is to minimise: the chance of being wrong, the expected
        absolute or squared error, or the distance to the estimate. All but the
        last need probabilities, calibrated on held-out cells.
    min_confidence : float
        Cells whose symbol is less probable than that stay missing.
    continuous : {"fit", "passthrough"}
        What becomes of columns of any numbers: they are part of the model and get
        its estimates, or they are left alone.
    missing : sequence
        Values that mean missing, such as ``[-99, "?"]``, besides NaN and null.
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
    dtype : {"float64", "float32"}
        Precision of the fit; float32 needs half the memory.
    backend : {"cpu", "torch", "torch:cpu", "torch:cuda"}
        Where the fit runs: here, or with torch, on a GPU if there is one.
    random_state : int
        Seed of the held-out cells and of the solver: same seed, same result.
    callback : callable, optional
        Called in every iteration of the last fit, as in `solve`; with the posterior, with each
        `posterior.Sweep`; with the mosaic, with each `mosaic.Round`.
    progress : callable, optional
        Called with each `tuning.Candidate` as it is scored; with the posterior, with each
        `posterior.Candidate`; with the mosaic, with each `mosaic.Trial`.
        ``progress=print, callback=print`` shows them.

    Attributes
    ----------
    left_, singular_values_, right_ : arrays of shape (m, r), (r,) and (n, r)
        The factors: ``left_ @ diag(singular_values_) @ right_.T``.
    offsets_ : LowRank
        What was subtracted before; `predict_mean` adds it again. Without a centre
        it is 0 but for rows and columns without any observed cell.
    scale_ : array of shape (n,)
        What a unit of the model is in each column; 1 if all have one alphabet.
    alphabet_ : Alphabet or list
        One for all columns, or one for each; None for columns of any numbers.
    lam_, xi_ : float
        The strengths used.
    center_, damping_
        What was subtracted, and the damping of row and column biases.
    diagnostics_ : Diagnostics or None
        Figures that tell if a posterior has settled, or what a mosaic has chosen; None with the proximal method.
    verdict_ : Verdict or None
        Whether discreteness beat rounding on the held-out cells, by how much, and how sure that is.
    solver_, solver_why_ : str
        The solver that was run with its parameters, and why it was taken.
    choice_ : Choice or None
        What was tried on the held-out cells, with the scores, for the centre
        that was kept; None if nothing was tuned.
    n_iter_ : int
    status_ : Status
        Why the fit ended, and what to do about it.
    history_ : dict of arrays
        Objective, its terms, rank and seconds in each iteration.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where all columns of X have names that are strings.
    row_labels_, col_labels_ : array or None
        Of the rows and columns, if X was Observations that have any.

    See Also
    --------
    complete : The same in one call.

    Notes
    -----
    How missing cells are coded: NaN in numpy arrays, or a mask; null or NaN in
    pandas, polars and Arrow tables; *not stored* in scipy sparse matrices, where
    a stored 0 is an observation. 0 never means missing, nor does -1 or 99.

    What comes back: a table of the same kind with the same labels and dtypes, as
    long as the dtype of a column can hold every symbol. So a nullable integer
    column stays one, and a float column stays a float column, with whole numbers
    in it if the symbols are. An integer or boolean column that has missing cells
    and cannot hold the alphabet becomes Int64 or Float64. A sparse matrix comes
    back as a dense array of the smallest dtype for the alphabet; above 100
    million cells that is refused, and `predict` gives the cells you need.

    With fewer than 10 observed cells, or a single row or column, nothing can be
    held out: "auto" then means the mean as centre, ξ = 0 and a λ of about a
    fiftieth of the largest that matters.

    A row or column without any observed cell has the bias 0 and no factors: it
    gets the mean and the bias of the column or row it crosses, and probabilities
    as usual there. `transform` takes any rows: the factors of each follow from its
    observed cells (`foldin`), for rows of the fit as for others.

    Examples
    --------
    >>> X = np.array([[5, 4, np.nan, 1], [np.nan, 4, 1, 1], [1, np.nan, 5, 5], [1, 1, 5, np.nan]])
    >>> SnapImputer("1:5", lam=0.5, xi=0.01).fit_transform(X)
    array([[5., 4., 1., 1.],
           [5., 4., 1., 1.],
           [1., 1., 5., 5.],
           [1., 1., 5., 5.]])
    """

    def __init__(
        self,
        alphabet: Any = None,
        *,
        method: str | Posterior | Mosaic = "proximal",
        spectral: str | SpectralPenalty = "nuclear",
        discrete: str | DiscretePenalty | None = "l1",
        weights: Weights = None,
        lam: Strength = "auto",
        xi: Strength = "auto",
        solver: str | Solver[Any] = "auto",
        center: Center | Literal["auto"] = "auto",
        decide: Decide = "accuracy",
        min_confidence: float = 0.0,
        continuous: Literal["fit", "passthrough"] = "fit",
        missing: Sequence[Any] = (),
        cv: int | None = None,
        max_iter: int = 300,
        tol: float = 1e-4,
        max_rank: int | None = None,
        alphabet_term: AlphabetTerm = "auto",
        backend: str = "cpu",
        dtype: Precision = "float64",
        random_state: int = 0,
        callback: Callable[[Any], Any] | None = None,
        progress: Callable[[Any], Any] | None = None,
    ) -> None:
        self.alphabet = alphabet
        self.method = method
        self.spectral = spectral
        self.discrete = discrete
        self.weights = weights
        self.lam = lam
        self.xi = xi
        self.solver = solver
        self.center = center
        self.decide = decide
        self.min_confidence = min_confidence
        self.continuous = continuous
        self.missing = missing
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.max_rank = max_rank
        self.alphabet_term = alphabet_term
        self.backend = backend
        self.dtype = dtype
        self.random_state = random_state
        self.callback = callback
        self.progress = progress

    # ---------------------------------------------------------------- fitting
    def fit(self, X: Any, y: None = None, *, row_features: Any = None, column_features: Any = None) -> SnapImputer:
        """Fit to the observed cells of a table.

        Parameters
        ----------
        X : array, sparse matrix, Observations or frame of shape (m, n)
        y : None
            Not used; scikit-learn passes it.
        row_features, column_features : array, frame, sparse matrix or dict, optional
            One line for each row or column, for ``method="posterior"``: numbers, categories, sets of tags, dates.
            They go by label where both sides have labels (an index, names of columns, a dict), else by position.

        Raises
        ------
        KeyboardInterrupt
            If it is interrupted; the best so far is kept. An interruption of the
            tuning goes on to the last fit, which takes another one.
        """
        self._fit(self._read(X).with_features(row_features, column_features))
        return self

    def fit_transform(self, X: Any, y: None = None, *, row_features: Any = None, column_features: Any = None) -> Any:
        """Fit to a table and return it filled.

        Parameters
        ----------
        X, y, row_features, column_features
            As in `fit`.
        """
        data = self._read(X).with_features(row_features, column_features)
        data.table.check_fillable()  # before a long fit, not after it
        self._fit(data)
        return self._filled(data.table)

    def _read(self, X: Any) -> FitData:
        """Take in a table to fit; one that was read by the same alphabet is taken as it is."""
        if isinstance(X, FitData):
            return X
        if isinstance(X, Table):
            return FitData(X)
        if self.continuous not in ("fit", "passthrough"):
            raise ArgumentError.must("continuous", self.continuous, 'be "fit" or "passthrough"')
        if isinstance(self.missing, str) or not isinstance(self.missing, Sequence | np.ndarray):
            raise ArgumentError.must("missing", self.missing, 'be a list of values such as [-99, "?"]')
        if self.alphabet is None:
            raise no_alphabet(read_table(X, "infer", missing=self.missing))
        table = read_table(X, self.alphabet, missing=self.missing, leave=self.continuous == "passthrough")
        logger.info("alphabet: %s", table.schema.describe())
        return FitData(table)

    def _fit(self, data: FitData) -> None:
        engine, manner = engine_of(self), self._manner()
        backend_named(self.backend)  # an error before anything is computed, if it is not there
        given = data.table.given
        validate_data(self, given, skip_check_array=True)  # sets n_features_in_ and feature_names_in_
        if engine is None:
            refuse_features(*data.features)
            tuned, stopped = self._settled(data, manner)
            fitted: Fitted | EngineFit = fit_table(data, tuned, manner, stopped=stopped)
        else:
            told = {"callback": self.callback, "progress": self.progress}
            fitted = fit_engine(engine, data.observed, data.schema, data.features, **told)
        labelled = given if isinstance(given, Observations) else None
        self.row_labels_: NDArray[Any] | None = None if labelled is None else labelled.row_labels
        self.col_labels_: NDArray[Any] | None = None if labelled is None else labelled.col_labels
        self._keep(fitted, data.schema)

    def _settled(self, data: FitData, manner: Manner) -> tuple[TunedSpec, bool]:
        """Choose everything that is "auto"; the second is whether that was interrupted."""
        try:
            tuned = tune(
                data.known,
                data.alphabet,
                spectral=self.spectral,
                discrete=self.discrete,
                weights=self.weights,
                lam=self.lam,
                xi=self.xi,
                center=self.center,
                solver=self.solver,
                metric=METRICS[manner.decide],
                cv=self.cv,
                options=manner.options,
                progress=self.progress,
            )
            return tuned, False
        except TuningInterruptedError as err:
            logger.warning("%s: the best so far is fitted", err)
            return err.tuned, True

    def _manner(self) -> Manner:
        decide, sure = check_decide(self.decide), check_confidence(self.min_confidence, self.decide)
        return Manner(self.solver, self._options(), decide, sure, self.callback)

    def _options(self) -> FitOptions:
        return FitOptions(
            max_iter=self.max_iter,
            tol=self.tol,
            max_rank=self.max_rank,
            alphabet_term=self.alphabet_term,
            backend=self.backend,
            dtype=self.dtype,
            random_state=self.random_state,
        )

    def _keep(self, fitted: Fitted | EngineFit, schema: ColumnSchema) -> None:
        if isinstance(fitted, Fitted):
            self._keep_proximal(fitted)
        else:
            self._keep_engine(fitted, schema)

    def _keep_engine(self, fit: EngineFit, schema: ColumnSchema) -> None:
        manner = self._manner()
        model = EngineModel(schema, fit, Decision(manner.decide, manner.min_confidence))
        self._tuned: TunedSpec | None = None
        self._model: Model | EngineModel = model
        self._observed = fit.observations
        self.alphabet_, self.scale_ = schema.by_column, model.scale
        self.choice_: Choice | None = None
        self.verdict_: Verdict | None = None
        self.diagnostics_: Diagnostics | MosaicDiagnostics | None = fit.diagnostics
        (self.n_iter_, self.history_), self.status_ = ended(fit), fit.status
        if fit.status.code == "interrupted":  # the draws so far are kept
            raise KeyboardInterrupt(fit.status.message)

    def _keep_proximal(self, fitted: Fitted) -> None:
        tuned, model, result = fitted.tuned, fitted.model, fitted.result
        spec = tuned.spec
        self._tuned, self._model, self._observed = tuned, model, fitted.observed
        self.alphabet_, self.scale_ = model.schema.by_column, model.scale
        self.center_, self.damping_ = spec.center, spec.damping
        self.choice_ = tuned.choice
        self.verdict_ = None if tuned.choice is None else tuned.choice.verdict
        self.diagnostics_ = None
        self.lam_ = spec.spectral.lam if isinstance(spec.spectral, SpectralPenalty) else tuned.lam
        self.xi_ = spec.discrete.xi if isinstance(spec.discrete, DiscretePenalty) else tuned.xi
        shown = model.shown.astype(result.x.dtype)
        self.left_, self.singular_values_, self.right_ = shown.U, shown.s, shown.V
        self.offsets_ = model.offsets
        self.solver_, self.solver_why_ = result.settings["solver"], result.settings["why"]
        self.n_iter_, self.status_, self.history_ = result.n_iter, result.status, result.history
        fitted.announce(stacklevel=4)

    # ---------------------------------------------------------------- filling
    def transform(self, X: Any, *, row_features: Any = None) -> Any:
        """Fill the missing cells of a table with the columns of the one that was fitted, and any rows.

        Cells that are observed in X stay as they are. What is written into a row
        follows from its observed cells, whether it was part of the fit or not.

        Parameters
        ----------
        X : array, sparse matrix or frame
        row_features : array, frame, sparse matrix or dict, optional
            Features of the rows of X, as the fit had them. Rows without features count as average.
        """
        check_is_fitted(self, "_model")
        table = self._read_again(X)
        return self._filled(table, row_table(table, row_features))

    def _read_again(self, X: Any) -> Table:
        """Take in a table by the alphabet of the fit; one that was read by it is taken as it is."""
        given = X.given if isinstance(X, Table) else X
        if getattr(given, "ndim", 2) != 2:
            raise ValueError(
                f"expected a two-dimensional table, got {given.ndim} dimension(s). Reshape your data: "
                f"X.reshape(1, -1) makes it a single row, X.reshape(-1, 1) a single column"
            )
        validate_data(self, given, reset=False, skip_check_array=True)  # number and names of the columns
        book = self._model.schema
        known = isinstance(X, Table) and X.schema is book
        table: Table = X if known else read_table(given, book, missing=self.missing)
        table.check_symbols()
        return table

    def _filled(self, table: Table, given: FeatureTable | None = None) -> Any:
        return table.filled(self._folded(table, given).symbols, may_abstain=self._model.rule.min_confidence > 0)

    def fold_in(self, X: Any, *, row_features: Any = None) -> Predictions:
        """Return what the fit says of any rows, by their observed cells: raw scores, probabilities, symbols.

        For rows that were not fitted what `predict_mean`, `predict_proba` and
        `predict` are for those that were; `transform` writes its symbols.

        Parameters
        ----------
        X : array, sparse matrix or frame
        row_features : array, frame, sparse matrix or dict, optional
            As in `transform`.

        Examples
        --------
        >>> imp = SnapImputer("1:5", lam=0.5, xi=0.0).fit([[5, 4, 1], [5, 5, 1], [1, 1, 5], [1, 2, 4]])
        >>> imp.fold_in([[5, None, None], [1, None, None]]).mean([0, 1], [2, 2]).round()
        array([2., 4.])
        """
        check_is_fitted(self, "_model")
        table = self._read_again(X)
        return self._folded(table, row_table(table, row_features))

    def _folded(self, table: Table, given: FeatureTable | None = None) -> Predictions:
        return self._model.folded(table.cells(), table.shape[0], self._observed, given)

    def score(self, X: Any, y: None = None) -> float:
        """Hide a fifth of the observed cells of a table, fill them, and say how well that went.

        The share of right symbols, or minus the mean absolute or the root mean
        squared error, as ``decide`` asks; in columns of any numbers minus the
        squared error in units of the model counts. Higher is better.
        """
        check_is_fitted(self, "_model")
        table, model = self._read_again(X), self._model
        return hidden_score(model, table, self._options().random_state)

    # ---------------------------------------------------------------- single cells
    def predict(self, rows: Any, cols: ArrayLike | None = None) -> NDArray[Any]:
        """Return the decided symbols at cells of the table that was fitted, also where a cell was observed.

        Labels where the alphabet has labels; NaN or None where no symbol is
        probable enough for ``min_confidence``.

        Parameters
        ----------
        rows, cols : int or array of int
            Zero-based positions, broadcast against each other. A table alone asks
            for all its cells, whose rows are folded in.
        """
        estimates, r, c, shape = self._asked(rows, cols)
        return decoded(self._model, estimates.symbols(r, c), c).reshape(shape)

    def predict_mean(self, rows: Any, cols: ArrayLike | None = None) -> Array:
        """Return the estimates at the given cells before they become symbols, neither snapped nor held in range.

        Parameters
        ----------
        rows, cols
            As in `predict`.
        """
        estimates, r, c, shape = self._asked(rows, cols)
        return estimates.mean(r, c).reshape(shape)

    def predict_proba(self, rows: Any, cols: ArrayLike | None = None) -> Array:
        """Return calibrated probabilities at the given cells: the last axis is the alphabet, in ascending order.

        Parameters
        ----------
        rows, cols
            As in `predict`; the columns must have one alphabet.
        """
        estimates, r, c, shape = self._asked(rows, cols)
        p = estimates.proba(r, c)
        return p.reshape(*shape, p.shape[1])

    def recommend(self, row: Any, k: Any = 10) -> NDArray[np.intp]:
        """Return the k columns with the highest estimates in a row of the fit, of those not observed there.

        Best first; fewer where there are fewer. Columns that were left alone, or
        hold any numbers, are never among them.

        Parameters
        ----------
        row : int
            Zero-based position.
        k : int

        Examples
        --------
        >>> X = [[5, 4, None, None], [5, 4, 5, 1], [1, 1, 2, 5], [4, 5, 5, None]]
        >>> SnapImputer("1:5", lam=0.5, xi=0.0).fit(X).recommend(0, k=1)
        array([2])
        """
        check_is_fitted(self, "_model")
        return recommended(self._model, self._observed, row, k)

    @property
    def estimates_(self) -> Predictions:
        """Predictions for the cells of the fitted table: `fold_in` for the rows that were fitted."""
        check_is_fitted(self, "_model")
        return self._model.fitted

    def _asked(
        self, rows: Any, cols: ArrayLike | None
    ) -> tuple[Predictions, NDArray[np.intp], NDArray[np.intp], tuple[int, ...]]:
        """Cells of the fit, or all cells of a table, and what is said of them."""
        check_is_fitted(self, "_model")
        if cols is not None:
            return self._model.fitted, *asked_cells(self._model, rows, cols)
        table = self._read_again(rows)
        table.check_fillable()
        cells = np.indices(table.shape).reshape(2, -1)
        check_coded(self._model, cells[1])
        return self._folded(table), cells[0], cells[1], table.shape

    # ---------------------------------------------------------------- more data
    def partial_fit(
        self,
        rows: Any,
        cols: ArrayLike | None = None,
        values: ArrayLike | None = None,
        *,
        row_labels: Labels | None = None,
        col_labels: Labels | None = None,
        row_features: Any = None,
        column_features: Any = None,
    ) -> SnapImputer:
        """Take in further observed cells, and go on from the fit there is, at the same strengths.

        A cell that was known gets the new value. Positions beyond the table that
        was fitted make it larger: new rows, and new columns where all have one
        alphabet, begin with the factors that their own cells ask for.

        Parameters
        ----------
        rows, cols : array of int
            Zero-based positions.
        values : array
            Symbols, or labels where the alphabet has labels. Without values, the
            first argument is a table of further rows, or the first table to fit.
        row_labels, col_labels : sequence, optional
            Labels of the new rows and columns. A table of Observations brings those of
            its rows. In a table with labels, a new row without one is called "row 30"
            by its position, a new column "column 12".
        row_features, column_features : array, frame, sparse matrix or dict, optional
            Features of the new rows and columns alone, as the fit had them.

        Examples
        --------
        >>> table = Observations.from_dense([[5, 4, 1], [5, 5, 1], [1, 1, 5]], row_labels=["Ann", "Bob", "Cem"])
        >>> imp = SnapImputer("1:5", lam=0.5, xi=0.0).fit(table)
        >>> imp.partial_fit([3, 4], [0, 0], [1, 5]).row_labels_.tolist()
        ['Ann', 'Bob', 'Cem', 'row 3', 'row 4']
        """
        if values is None and not hasattr(self, "_model"):
            return self.fit(rows, row_features=row_features, column_features=column_features)
        check_is_fitted(self, "_model")
        if values is None:
            new = self._read_again(rows).observations().below(self._model.shape[0])
            if isinstance(rows, Observations) and row_labels is None:
                row_labels = rows.row_labels
        elif not np.size(rows) and not np.size(cols) and not np.size(values):  # type: ignore[arg-type]
            return self
        else:
            named = hasattr(self, "feature_names_in_")
            new = new_cells(self._model.schema, rows, np.asarray(cols), values, may_grow=not named)
        observed = merged(self._observed, new)
        (m, n), (rows_now, cols_now) = self._model.shape, observed.shape
        labels = (
            grown_labels(self.row_labels_, row_labels, m, rows_now, "row"),
            grown_labels(self.col_labels_, col_labels, n, cols_now, "column"),
        )
        engine, model = engine_of(self), self._model
        of_rows, of_cols = further_sides(self._observed.shape, observed.shape, labels, row_features, column_features)
        fitted: Fitted | EngineFit
        if isinstance(model, EngineModel):
            fitted = update_engine(engine, model.fit, observed, (of_rows, of_cols), callback=self.callback)
        elif self._tuned is not None:
            refuse_features(of_rows, of_cols)
            fitted = fit_further(model, self._tuned, observed, self._manner())
        self.n_features_in_ = observed.shape[1]
        self.row_labels_, self.col_labels_ = labels
        self._keep(fitted, model.schema)
        return self

    # ---------------------------------------------------------------- files
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file: numbers and text, no code; `load` reads it.

        Parameters
        ----------
        path : path
            Written atomically; a file that is there is replaced.
        """
        check_is_fitted(self, "_model")
        if self.callback is not None or self.progress is not None:
            raise ValueError(
                "a callback is code, which no model file holds: set_params(callback=None, progress=None) before save"
            )
        write_model(path, vars(self))

    # ---------------------------------------------------------------- for scikit-learn
    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _html_repr(self) -> str:
        """HTML for notebooks where scikit-learn's ``display`` is "diagram", the default."""
        return html_of(self)
