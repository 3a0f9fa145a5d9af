"""The estimator: a table with missing cells in, the same kind of table filled with symbols out."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
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
from snapimpute.data.expert import Expert
from snapimpute.data.features import FeatureTable, refuse_features
from snapimpute.data.observations import Observations
from snapimpute.data.tables import Table, read_table
from snapimpute.estimator._answers import asked_cells, check_coded, decoded, hidden_score, recommended
from snapimpute.estimator._data import FitData, no_alphabet
from snapimpute.estimator._features import further_sides, row_table
from snapimpute.estimator._proximal import ProximalAttributes
from snapimpute.estimator._update import grown_labels, merged, new_cells
from snapimpute.estimator.files import write_model
from snapimpute.estimator.model import Decision, FittedModel, Predictions
from snapimpute.experts.blend import Blend, BlendFit, ExpertScore
from snapimpute.experts.decide import Decide, check_confidence, check_decide
from snapimpute.experts.links import Links
from snapimpute.experts.methods import expert_for, expert_of
from snapimpute.experts.proximal.expert import ProximalFit
from snapimpute.solvers import Precision, Status
from snapimpute.solvers.parameters import check_count

logger = logging.getLogger("snapimpute")


class SnapImputer(ProximalAttributes, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill the missing cells of a table with symbols of a finite alphabet.

    Several experts are fitted and weighed on held-out cells. Each missing cell gets the symbol that ``decide`` asks
    for, by their probabilities. Observed cells are not changed.

    Parameters
    ----------
    alphabet : list, str, Alphabet, or a dict or list of such
        The symbols a cell can have: ``[0, 1]``, ``"1:5"``, ``"0.5:5:0.5"``, or
        labels from lowest to highest, ``["low", "mid", "high"]``. A dict by the
        name or position of columns, or a list with one entry for each, gives
        columns their own; None there is a column of any numbers. `Nominal` holds
        categories without order. "infer" looks at the values; ``alphabet_`` is what it found. Required.
    method : str, Expert, or a list of such
        "auto" is a `Blend` of every expert that suits the table. "posterior", "mosaic", "proximal", "links" and
        "habits" are one expert alone, with its defaults. `Posterior`, `Mosaic`, `Proximal`, `Links`, `Habits`, or an
        `Expert` of your own, come with parameters. A list is a blend of several.
    decide : {"accuracy", "mae", "rmse", "nearest"}
        What a symbol is to minimise: the chance of being wrong, the expected
        absolute or squared error, or the distance to the expected value.
    min_confidence : float
        Cells whose symbol is less probable than that stay missing.
    continuous : {"fit", "passthrough"}
        What becomes of columns of any numbers: they are part of the model and get
        its estimates, or they are left alone.
    missing : sequence
        Values that mean missing, such as ``[-99, "?"]``, besides NaN and null.
    time_limit : float, optional
        Seconds; when they are over, the best so far is kept.
    backend : {"cpu", "torch", "torch:cpu", "torch:cuda"}
        Where the proximal expert runs: here, or with torch, on a GPU if there is one.
    dtype : {"float64", "float32"}
        Precision of the proximal expert; float32 needs half the memory.
    random_state : int
        Seed: same seed, same result.
    callback : callable, optional
        Called in every step of the last fits: with each `posterior.Sweep`, `mosaic.Round`, or iteration of `solve`.
    progress : callable, optional
        Called with each `Step` of a blend; with one expert, with each model or strength that it tries.
        ``progress=print, callback=print`` shows them.

    Attributes
    ----------
    fit_ : CellAnswers
        Answers of the expert: a `BlendFit`, `PosteriorFit`, `MosaicFit`, `ProximalFit` …
    experts_ : tuple of ExpertScore
        What each expert of a blend scored on held-out cells, its weight, or why it was left out.
    blend_ : dict
        Share of each expert in the answer; 1 for a single one.
    verdict_ : BlendVerdict, Verdict or None
        Which expert carries the answer, by how much, and how sure that is. With the proximal expert alone, whether
        discreteness beat rounding.
    diagnostics_ : Diagnostics, MosaicDiagnostics, dict of such or None
        Figures that tell if chains have settled, and what was chosen; by expert in a blend.
    alphabet_ : Alphabet or list
        One for all columns, or one for each; None for columns of any numbers.
    scale_ : array of shape (n,)
        What a unit of the model is in each column; 1 if all have one alphabet.
    n_iter_ : int
        Sweeps, rounds or iterations; of a blend, the experts in it.
    status_ : Status
        Why the fit ended, and what to do about it.
    history_ : dict of arrays
        History of the run, one entry for each step; empty for a blend.
    left_, singular_values_, right_, offsets_, lam_, xi_, center_, damping_, solver_, solver_why_, choice_
        With ``method="proximal"`` only: the factors, what was subtracted, and everything that was chosen.
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

    With fewer than 50 observed cells, or a single row or column, nothing is held
    out, and one expert answers alone.

    A row or column without any observed cell gets what is usual in the column or
    row that it crosses. `transform` takes any rows: what is written into a row
    follows from its observed cells, for rows of the fit as for others.

    Examples
    --------
    >>> from snapimpute import Proximal
    >>> X = np.array([[5, 4, np.nan, 1], [np.nan, 4, 1, 1], [1, np.nan, 5, 5], [1, 1, 5, np.nan]])
    >>> SnapImputer("1:5", method=Proximal(lam=0.5, xi=0.01)).fit_transform(X)
    array([[5., 4., 1., 1.],
           [5., 4., 1., 1.],
           [1., 1., 5., 5.],
           [1., 1., 5., 5.]])
    """

    def __init__(
        self,
        alphabet: Any = None,
        *,
        method: str | Expert | Sequence[str | Expert] = "auto",
        decide: Decide = "accuracy",
        min_confidence: float = 0.0,
        continuous: Literal["fit", "passthrough"] = "fit",
        missing: Sequence[Any] = (),
        time_limit: float | None = None,
        backend: str = "cpu",
        dtype: Precision = "float64",
        random_state: int = 0,
        callback: Callable[[Any], Any] | None = None,
        progress: Callable[[Any], Any] | None = None,
    ) -> None:
        self.alphabet = alphabet
        self.method = method
        self.decide = decide
        self.min_confidence = min_confidence
        self.continuous = continuous
        self.missing = missing
        self.time_limit = time_limit
        self.backend = backend
        self.dtype = dtype
        self.random_state = random_state
        self.callback = callback
        self.progress = progress

    def set_params(self, **params: Any) -> SnapImputer:
        """Set parameters; ``method__rank=8`` sets one of the expert, also where ``method`` is its name.

        Parameters
        ----------
        **params
        """
        own = {name: value for name, value in params.items() if not name.startswith("method__")}
        super().set_params(**own)
        inner = {name.removeprefix("method__"): value for name, value in params.items() if name not in own}
        if inner:
            self.method = expert_for(self.method, self.random_state).with_params(**inner)
        return self

    # ---------------------------------------------------------------- fitting
    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        row_features: Any = None,
        column_features: Any = None,
        square: bool | Literal["auto"] = "auto",
    ) -> SnapImputer:
        """Fit to the observed cells of a table.

        Parameters
        ----------
        X : array, sparse matrix, Observations or frame of shape (m, n)
        y : None
            Not used; scikit-learn passes it.
        row_features, column_features : array, frame, sparse matrix or dict, optional
            One line for each row or column, for the posterior: numbers, categories, sets of tags, dates.
            They go by label where both sides have labels (an index, names of columns, a dict), else by position.
        square : bool or "auto"
            Whether rows and columns are the same things, as in a table of links; "auto" looks whether their labels
            agree.

        Raises
        ------
        KeyboardInterrupt
            If it is interrupted; the best so far is kept.
        """
        self._fit(self._read(X).with_features(row_features, column_features), square)
        return self

    def fit_transform(
        self,
        X: Any,
        y: None = None,
        *,
        row_features: Any = None,
        column_features: Any = None,
        square: bool | Literal["auto"] = "auto",
    ) -> Any:
        """Fit to a table and return it filled.

        Parameters
        ----------
        X, y, row_features, column_features, square
            As in `fit`.
        """
        data = self._read(X).with_features(row_features, column_features)
        data.table.check_fillable()  # before a long fit, not after it
        self._fit(data, square)
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

    def _fit(self, data: FitData, square: bool | Literal["auto"] = "auto", like: SnapImputer | None = None) -> None:
        """Fit to a table; ``like`` is a fitted imputer whose choices are taken over."""
        decision, expert = self._decision(), self._expert(square)
        backend_named(self.backend)  # an error before anything is computed, if it is not there
        given = data.table.given
        validate_data(self, given, skip_check_array=True)  # sets n_features_in_ and feature_names_in_
        told: dict[str, Any] = {"callback": self.callback, "progress": self.progress}
        told["time_limit"] = self.time_limit
        if expert.uses_features:
            told |= dict(zip(("row_features", "column_features"), data.features, strict=True))
        else:
            refuse_features(*data.features)
        labelled = given if isinstance(given, Observations) else None
        if like is None:
            fitted = expert.fit(data.observed, data.schema, **told)
        else:
            fitted = expert.again(like.fit_, data.observed, **told)
        self.row_labels_: NDArray[Any] | None = None if labelled is None else labelled.row_labels
        self.col_labels_: NDArray[Any] | None = None if labelled is None else labelled.col_labels
        self._keep(FittedModel(data.schema, expert, fitted, decision))

    def _decision(self) -> Decision:
        return Decision(check_decide(self.decide), check_confidence(self.min_confidence, self.decide))

    def _expert(self, square: bool | Literal["auto"] = "auto") -> Expert:
        """Return the expert that ``method`` asks for, with what the estimator says of all experts."""
        if self.time_limit is not None and not self.time_limit > 0:
            raise ArgumentError.must("time_limit", self.time_limit, "be a number of seconds above 0, or None")
        check_count("random_state", self.random_state, least=0)
        shared = {"backend": self.backend, "dtype": self.dtype, "decide": self.decide}
        expert = expert_of(self.method, random_state=self.random_state, **shared)
        if not isinstance(expert, Blend):
            self._refuse_unused(expert)
        if square == "auto" or (square is True and isinstance(expert, Links)):
            return expert
        if "square" not in expert.get_params():
            told = f"square={square!r} has no use with method={self.method!r}: leave it out"
            raise ArgumentError("square", square, told)
        return expert.with_params(square=square)

    def _refuse_unused(self, expert: Expert) -> None:
        """Refuse a backend or precision that an expert would ignore."""
        for name, usual in (("backend", "cpu"), ("dtype", "float64")):
            if (given := getattr(self, name)) != usual and name not in expert.get_params():
                told = (
                    f"{name}={given!r} belongs to the proximal expert, {expert.label} has no use for it: leave it out"
                )
                raise ArgumentError(name, given, told)

    def _keep(self, model: FittedModel) -> None:
        self._model, self._observed = model, model.fit.observations
        self.alphabet_, self.scale_ = model.schema.by_column, model.scale
        if model.fit.interrupted:
            raise KeyboardInterrupt(str(model.fit.status))

    # ---------------------------------------------------------------- what was learned
    @property
    def fit_(self) -> Any:
        """Answers of the expert that was fitted."""
        return self._fitted("fit_").fit

    @property
    def experts_(self) -> tuple[ExpertScore, ...]:
        """Scores of each expert of a blend on held-out cells."""
        fit = self._fitted("experts_").fit
        return fit.scores if isinstance(fit, BlendFit) else ()

    @property
    def blend_(self) -> Mapping[str, float]:
        """Share of each expert in the answer."""
        model = self._fitted("blend_")
        if isinstance(model.fit, BlendFit):
            return {one.name: one.weight for one in model.fit.scores if one.weight > 0}
        return {model.expert.label: 1.0}

    @property
    def verdict_(self) -> Any:
        """Verdict on who carries the answer; of the proximal expert alone, on discreteness against rounding."""
        return getattr(self._fitted("verdict_").fit, "verdict", None)

    @property
    def diagnostics_(self) -> Any:
        """Figures that tell if chains have settled, and what was chosen."""
        return getattr(self._fitted("diagnostics_").fit, "diagnostics", None)

    @property
    def status_(self) -> Status:
        """Reason why the fit ended, and what to do about it."""
        status: Status = self._fitted("status_").fit.status
        return status

    @property
    def history_(self) -> dict[str, NDArray[Any]]:
        """History of the run."""
        return self._fitted("history_").history

    @property
    def n_iter_(self) -> int:
        """Steps of the run; of a blend, the experts in it."""
        fit = self._fitted("n_iter_").fit
        if isinstance(fit, BlendFit):
            return len(fit.members)
        return len(fit.history["iteration"]) if isinstance(fit, ProximalFit) else len(fit.history)

    def _fitted(self, name: str) -> FittedModel:
        model: FittedModel | None = vars(self).get("_model")
        if model is None:
            raise AttributeError(f"{name} is learned by fit, which was not called yet")
        return model

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
        >>> from snapimpute import Proximal
        >>> imp = SnapImputer("1:5", method=Proximal(lam=0.5, xi=0.0))
        >>> imp = imp.fit([[5, 4, 1], [5, 5, 1], [1, 1, 5], [1, 2, 4]])
        >>> imp.fold_in([[5, None, None], [1, None, None]]).mean([0, 1], [2, 2]).round()
        array([2., 4.])
        """
        check_is_fitted(self, "_model")
        table = self._read_again(X)
        return self._folded(table, row_table(table, row_features))

    def _folded(self, table: Table, given: FeatureTable | None = None) -> Predictions:
        return self._fitted("fit_").folded(table.cells(), table.shape[0], self._observed, given)

    def score(self, X: Any, y: None = None) -> float:
        """Hide a fifth of the observed cells of a table, fill them, and say how well that went.

        The share of right symbols, or minus the mean absolute or the root mean
        squared error, as ``decide`` asks; in columns of any numbers minus the
        squared error in units of the model counts. Higher is better.
        """
        check_is_fitted(self, "_model")
        table, model = self._read_again(X), self._model
        return hidden_score(model, table, self.random_state)

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
        >>> from snapimpute import Proximal
        >>> X = [[5, 4, None, None], [5, 4, 5, 1], [1, 1, 2, 5], [4, 5, 5, None]]
        >>> SnapImputer("1:5", method=Proximal(lam=0.5, xi=0.0)).fit(X).recommend(0, k=1)
        array([2])
        """
        check_is_fitted(self, "_model")
        return recommended(self._model, self._observed, row, k)

    @property
    def estimates_(self) -> Predictions:
        """Predictions for the cells of the fitted table: `fold_in` for the rows that were fitted."""
        check_is_fitted(self, "_model")
        return self._fitted("estimates_").fitted

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
        >>> from snapimpute import Proximal
        >>> table = Observations.from_dense([[5, 4, 1], [5, 5, 1], [1, 1, 5]], row_labels=["Ann", "Bob", "Cem"])
        >>> imp = SnapImputer("1:5", method=Proximal(lam=0.5, xi=0.0)).fit(table)
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
        model, decision = self._model, self._decision()
        expert = self._expert()
        of_rows, of_cols = further_sides(self._observed.shape, observed.shape, labels, row_features, column_features)
        told: dict[str, Any] = {"callback": self.callback, "time_limit": self.time_limit}
        if expert.uses_features:
            told |= {"row_features": of_rows, "column_features": of_cols}
        else:
            refuse_features(of_rows, of_cols)
        fitted = expert.update(model.fit, observed, **told)
        self.n_features_in_ = observed.shape[1]
        self.row_labels_, self.col_labels_ = labels
        self._keep(FittedModel(model.schema.widened(observed.shape[1] - n), expert, fitted, decision))
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
