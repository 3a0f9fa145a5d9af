"""Functions for whole tasks: complete a table in one call, read a saved model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, Unpack

from snapimpute.data.expert import Expert
from snapimpute.estimator.files import read_model
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.decide import Decide
from snapimpute.solvers import Precision


class ImputerParameters(TypedDict, total=False):
    """The parameters of `SnapImputer` besides the alphabet, for functions that take them by keyword."""

    method: str | Expert | Sequence[str | Expert]
    decide: Decide
    min_confidence: float
    continuous: Literal["fit", "passthrough"]
    missing: Sequence[Any]
    time_limit: float | None
    backend: str
    dtype: Precision
    random_state: int
    callback: Callable[[Any], Any] | None
    progress: Callable[[Any], Any] | None


def complete(
    X: Any,
    alphabet: Any = None,
    *,
    row_features: Any = None,
    column_features: Any = None,
    square: bool | Literal["auto"] = "auto",
    **params: Unpack[ImputerParameters],
) -> Any:
    """Fill the missing cells of a table with symbols of an alphabet.

    Short for ``SnapImputer(alphabet, **params).fit_transform(X)``; everything
    else is said at `SnapImputer`.

    Parameters
    ----------
    X : array, sparse matrix or frame
    alphabet : list, str, Alphabet, or a dict or list of such
        For instance ``[0, 1]`` or ``"1:5"``.
    row_features, column_features, square
        As in `SnapImputer.fit`.
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
    imputer = SnapImputer(alphabet, **params)
    return imputer.fit_transform(X, row_features=row_features, column_features=column_features, square=square)


def load(path: str | os.PathLike[str]) -> SnapImputer:
    """Read a model that `SnapImputer.save` wrote.

    Raises
    ------
    ValueError
        If the file is no model, is damaged, or was written by a newer version.
    """
    out = SnapImputer()
    for name, value in read_model(path).items():
        setattr(out, name, value)
    return out
