"""The estimator: a table with missing cells in, the same kind of table filled with symbols out."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from snapimpute.alphabet import Alphabet, AlphabetLike
from snapimpute.operators import LowRank
from snapimpute.operators.threads import cut
from snapimpute.penalties import DiscretePenalty, SpectralPenalty
from snapimpute.plan import Plan, Strength, settle
from snapimpute.recipe import Center, Weights
from snapimpute.solvers import AlphabetTerm, Precision, Result, Solver
from snapimpute.tables import BLOCK_CELLS, Index, Table, read_table
from snapimpute.types import Array

_SHOWN_VALUES = 20


class SnapImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill the missing cells of a table with symbols of a finite alphabet.

    The table is modelled as offsets plus a matrix of low rank whose unobserved
    entries are drawn to the alphabet; each missing cell gets the symbol nearest
    to its estimate. Observed cells are not changed.

    Parameters
    ----------
    alphabet : list, str or Alphabet
        The symbols a cell can have: ``[0, 1]``, ``"1:5"``, ``"0.5:5:0.5"``.
        Required.
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
        cells, held out for that, by the share of symbols predicted wrongly; then
        everything observed is fitted again with the strengths chosen. ξ = 0 is
        among those tried: ``xi_ == 0`` says that discreteness did not help.
    solver : str or Solver
        "auto" takes one that fits the penalties, and ``solver_why_`` says why;
        else a name of ``solvers.SOLVERS`` or a solver with its parameters. What
        the solver has no use for is not tuned: ξ is 0 for one that does not
        treat a discrete penalty.
    center : {"auto", "mean", "biases"} or None
        What is subtracted before modelling: the mean, or the mean and damped
        row and column biases. "auto" tries both on the held-out cells, with
        ξ = 0 while ξ is open, and keeps the better one.
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
    random_state : int
        Seed of the held-out cells and of the solver: same seed, same result.

    Attributes
    ----------
    left_, singular_values_, right_ : arrays of shape (m, r), (r,) and (n, r)
        The factors: ``left_ @ diag(singular_values_) @ right_.T``.
    offsets_ : LowRank or None
        What was subtracted before; `predict_mean` adds it again.
    alphabet_ : Alphabet
    lam_, xi_ : float
        The strengths used.
    center_ : {"mean", "biases"} or None
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
        alphabet: AlphabetLike | None = None,
        *,
        spectral: str | SpectralPenalty = "nuclear",
        discrete: str | DiscretePenalty | None = "l1",
        weights: Weights = None,
        lam: Strength = "auto",
        xi: Strength = "auto",
        solver: str | Solver[Any] = "auto",
        center: Center | Literal["auto"] = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        max_rank: int | None = None,
        alphabet_term: AlphabetTerm = "auto",
        dtype: Precision = "float64",
        random_state: int = 0,
    ) -> None:
        self.alphabet = alphabet
        self.spectral = spectral
        self.discrete = discrete
        self.weights = weights
        self.lam = lam
        self.xi = xi
        self.solver = solver
        self.center = center
        self.max_iter = max_iter
        self.tol = tol
        self.max_rank = max_rank
        self.alphabet_term = alphabet_term
        self.dtype = dtype
        self.random_state = random_state

    # ---------------------------------------------------------------- fitting
    def fit(self, X: Any, y: None = None) -> SnapImputer:
        """Fit to the observed cells of a table.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (m, n)
        y : None
            Not used; scikit-learn passes it.
        """
        self._fit(X, read_table(X))
        return self

    def fit_transform(self, X: Any, y: None = None) -> Any:
        """Fit to a table and return it filled."""
        table = read_table(X)
        table.check_fillable()  # before a long fit, not after it
        self._fit(X, table)
        return self._filled(table)

    def _fit(self, X: Any, table: Table) -> None:
        limits: dict[str, Any] = {
            "max_iter": self.max_iter,
            "tol": self.tol,
            "max_rank": self.max_rank,
            "alphabet_term": self.alphabet_term,
            "dtype": self.dtype,
            "random_state": _check_seed(self.random_state),
        }
        alphabet = _read_alphabet(self.alphabet, table)
        observations = table.observations(alphabet)
        validate_data(self, X, skip_check_array=True)  # sets n_features_in_ and feature_names_in_
        plan = settle(
            observations,
            alphabet,
            spectral=self.spectral,
            discrete=self.discrete,
            weights=self.weights,
            lam=self.lam,
            xi=self.xi,
            center=self.center,
            solver=self.solver,
            **limits,
        )
        result = plan.fit(observations, self.solver, **limits)
        self._row_labels = table.row_labels
        self._keep(plan, result)

    def _keep(self, plan: Plan, result: Result) -> None:
        recipe = plan.recipe
        self.alphabet_, self.center_, self.choice_ = recipe.alphabet, recipe.center, plan.choice
        self.lam_ = recipe.spectral.lam if isinstance(recipe.spectral, SpectralPenalty) else plan.lam
        self.xi_ = recipe.discrete.xi if isinstance(recipe.discrete, DiscretePenalty) else plan.xi
        self.left_, self.singular_values_, self.right_ = result.x.U, result.x.s, result.x.V
        self.offsets_ = result.offsets
        self.solver_, self.solver_why_ = result.settings["solver"], result.settings["why"]
        self.n_iter_, self.status_, self.history_ = result.n_iter, result.status, result.history
        if result.status.code == "interrupted":  # the best so far is kept, but a script must not go on with it
            raise KeyboardInterrupt(result.status.message)
        if result.status.advice:
            warnings.warn(str(result.status), ConvergenceWarning, stacklevel=4)

    # ---------------------------------------------------------------- filling
    def transform(self, X: Any) -> Any:
        """Fill the missing cells of the table that was fitted.

        Cells that are observed in X stay as they are; the others get the symbols
        of the fit.

        Parameters
        ----------
        X : array, sparse matrix or frame
            With the rows and columns of the table that was fitted, in the same
            order.
        """
        check_is_fitted(self, "left_")
        table = read_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)  # number and names of the columns
        self._check_rows(table)
        table.check_symbols(self.alphabet_)
        return self._filled(table)

    def _filled(self, table: Table) -> Any:
        return table.filled(_Symbols(self._estimate(), self.alphabet_), self.alphabet_)

    def _check_rows(self, table: Table) -> None:
        count, fitted = table.shape[0], self.left_.shape[0]
        if count != fitted:
            raise ValueError(
                f"X has {count} rows, but this SnapImputer was fitted on {fitted}: transform fills the rows "
                f"it was fitted on; to fill others, fit on a table that holds them"
            )
        here, there = table.row_labels, self._row_labels
        if here is not None and there is not None and not here.equals(there):
            labels = list(zip(map(repr, here), map(repr, there), strict=True))
            row = next((i for i, (label, known) in enumerate(labels) if label != known), 0)
            raise ValueError(
                f"the index of X is not the one this SnapImputer was fitted on: row {row} is {labels[row][0]}, "
                f"expected {labels[row][1]}; transform fills the rows it was fitted on, in the same order"
            )

    # ---------------------------------------------------------------- single cells
    def predict(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the symbols of the fit at the given cells, also where a cell was observed.

        Parameters
        ----------
        rows, cols : int or array of int
            Zero-based positions, broadcast against each other.
        """
        estimate = self.predict_mean(rows, cols)
        return self.alphabet_.snap(estimate)

    def predict_mean(self, rows: ArrayLike, cols: ArrayLike) -> Array:
        """Return the estimates at the given cells before they become symbols, to rank by.

        Parameters
        ----------
        rows, cols : int or array of int
            Zero-based positions, broadcast against each other.
        """
        check_is_fitted(self, "left_")
        return self._estimate().entries(rows, cols)

    def _estimate(self) -> LowRank:
        """The low-rank matrix and the offsets together."""
        x = LowRank(self.left_, self.singular_values_, self.right_)
        return x if self.offsets_ is None else LowRank.combine([1.0, 1.0], [x, self.offsets_])

    # ---------------------------------------------------------------- for scikit-learn
    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def complete(X: Any, alphabet: AlphabetLike | None = None, **params: Any) -> Any:
    """Fill the missing cells of a table with symbols of an alphabet.

    Short for ``SnapImputer(alphabet, **params).fit_transform(X)``; everything
    else is said at `SnapImputer`.

    Parameters
    ----------
    X : array, sparse matrix or frame
    alphabet : list, str or Alphabet
        For instance ``[0, 1]`` or ``"1:5"``.
    **params
        Parameters of `SnapImputer`.

    Returns
    -------
    table
        Of the same kind as X; a dense array if X is sparse.

    Examples
    --------
    >>> complete([[1, 5, 5], [1, None, 5], [5, 1, None]], "1:5")
    array([[1., 5., 5.],
           [1., 5., 5.],
           [5., 1., 1.]])
    """
    return SnapImputer(alphabet, **params).fit_transform(X)


class _Symbols:
    """The symbols at cells that lie in a few rows, or in a few columns: only the factors of these are touched.

    Bit for bit what `SnapImputer.predict` gives: the products are the same, in
    the same order.
    """

    def __init__(self, estimate: LowRank, alphabet: Alphabet) -> None:
        self._left = np.ascontiguousarray(estimate.U * estimate.s)
        self._right = np.ascontiguousarray(estimate.V)
        self._ones = np.ones(estimate.rank, estimate.dtype)
        self._alphabet = alphabet

    def __call__(self, rows: Index, cols: Index) -> Array:
        out = np.empty(rows.size)
        for start, stop in cut(rows.size, BLOCK_CELLS):
            out[start:stop] = self._alphabet.snap(self._entries(rows[start:stop], cols[start:stop]))
        return out

    def _entries(self, rows: Index, cols: Index) -> Array:
        top, left = rows.min(), cols.min()
        U, V = self._left[top : rows.max() + 1], self._right[left : cols.max() + 1]
        if U.shape[0] <= V.shape[0]:  # `entries` copies the first factor
            return LowRank(U, self._ones, V).entries(rows - top, cols - left)
        return LowRank(V, self._ones, U).entries(cols - left, rows - top)


def _read_alphabet(alphabet: AlphabetLike | None, table: Table) -> Alphabet:
    if alphabet is not None:
        return Alphabet.of(alphabet)
    found = table.distinct()
    hint = ""
    if 0 < found.size <= _SHOWN_VALUES:
        names = ", ".join(f"{value:.15g}" for value in found)
        hint = f"; the values found are {names}, so alphabet=[{names}] if there are no others"
    raise ValueError(f'alphabet is required: the symbols a cell can have, such as "1:5" or [0, 1]{hint}')


def _check_seed(seed: object) -> int:
    if not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"random_state must be a whole number, at least 0, got {seed!r}")
    return int(seed)
