"""The protocol of experts: models of a table that an estimator fits alone, or blends with others."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.answers import CellAnswers
from snapimpute.data.features import FeatureTable
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema


class Expert(ABC):
    """A model of a table: parameters, and a `fit` that answers for any cell.

    A subclass stores its parameters in the constructor under their names, as scikit-learn's estimators do, and
    has a `fit`. Everything else has a default. `SnapImputer` takes an expert as ``method=``, or blends several.

    Attributes
    ----------
    name : str
        Name of the expert in verdicts and reports.
    uses_features : bool
        Whether `fit` takes ``row_features`` and ``column_features``.

    Examples
    --------
    >>> class Shares(Expert):
    ...     "Every cell has the symbols of the table, as often as they are known."
    ...     name = "shares"
    ...     def fit(self, observations, alphabet, **told):
    ...         return SharesFit(observations, alphabet)
    >>> class SharesFit(ExpertFit):
    ...     def chances(self, rows, cols):
    ...         shares = self.schema.one.frequencies(self.observations.values)
    ...         return np.tile(shares, (rows.size, 1))
    >>> table = Observations.from_dense([[0, 1, 1], [1, np.nan, 1]])
    >>> Shares().fit(table, Alphabet.of([0, 1])).proba([1], [1])
    array([[0.2, 0.8]])
    """

    name: ClassVar[str] = ""
    uses_features: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """Name in verdicts and reports."""
        return self.name or type(self).__name__.lower()

    @abstractmethod
    def fit(self, observations: Observations, alphabet: Any, *args: Any, **told: Any) -> Any:
        """Fit to the known cells; return a `CellAnswers`, such as an `ExpertFit`.

        Parameters
        ----------
        observations : Observations
        alphabet : Alphabet or ColumnSchema
        *args, **told
            What the caller tells besides: ``time_limit`` in seconds or None, ``callback`` and ``progress``, and
            where the expert ``uses_features`` also ``row_features`` and ``column_features``.
        """

    def update(self, fit: Any, observations: Observations, *args: Any, **told: Any) -> Any:
        """Go on from a fit with more known cells; by default everything is fitted again."""
        n = fit.observations.shape[1]
        schema = fit.schema.widened(observations.shape[1] - n) if observations.shape[1] > n else fit.schema
        return self.fit(observations, schema, **told)

    def again(self, fit: Any, observations: Observations, *args: Any, **told: Any) -> Any:
        """Fit other known cells of the same table, without choosing again what a fit has chosen."""
        return self.fit(observations, fit.schema, **told)

    def probe(self) -> Self | None:
        """Return a very cheap form of the expert: if that is worse than `Habits`, a blend leaves the expert out."""
        return None

    def brief(self) -> Self:
        """Return the expert with as little work as a comparison on held-out cells needs; by default itself."""
        return self

    def takes(self, alphabet: Alphabet | None) -> bool:
        """Tell whether columns with an alphabet, or with any numbers (None), are answered."""
        return alphabet is not None

    def objection(self, observations: Observations, schema: ColumnSchema) -> str | None:
        """Return why a table is none for this expert, in a few words; None if it is.

        It is asked before anything is fitted, and takes much less time than a fit.
        """
        return None

    def forecast(self, observations: Observations, alphabet: Any, *args: Any, **told: Any) -> Any:
        """Estimate memory and seconds of a fit before it begins; None if nobody knows.

        What comes back has ``memory`` in bytes, ``fits``, and ``seconds``, which may be None.
        """
        return None

    def sharing(self, **shared: Any) -> Self:
        """Return the expert with those parameters of the estimator that it has and leaves open (None)."""
        mine = self.get_params()
        return self.with_params(**{name: one for name, one in shared.items() if name in mine and mine[name] is None})

    # ---------------------------------------------------------------- parameters
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as scikit-learn's estimators do."""
        if type(self).__init__ is object.__init__:
            return {}
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    def with_params(self, **changes: Any) -> Self:
        """Return the same expert with other parameters.

        Raises
        ------
        ArgumentError
            If it has no such parameter.
        """
        if not changes:
            return self
        params = self.get_params()
        for name, value in changes.items():
            if name not in params:
                told = f"{type(self).__name__} has no parameter {name!r}: it has {', '.join(params) or 'none'}"
                raise ArgumentError(name, value, told)
        return type(self)(**(params | changes))


class ExpertFit(CellAnswers):
    """Answers of a fitted expert that a user writes: `chances` is all it needs.

    Parameters
    ----------
    observations : Observations
    alphabet : Alphabet or ColumnSchema
    """

    status: Any = None
    history: Any = ()
    diagnostics: Any = None

    def __init__(self, observations: Observations, alphabet: Any) -> None:
        self.observations = observations
        self._schema = ColumnSchema.read(alphabet, observations.shape[1])

    @property
    def schema(self) -> ColumnSchema:
        """Content of each column."""
        return self._schema

    @abstractmethod
    def chances(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        """Return the probability of each symbol at cells of columns with one alphabet, one row a cell."""

    def _chances(self, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> Array:
        return self.chances(rows, cols)

    def _drawn(self, rows: NDArray[np.intp], cols: NDArray[np.intp], count: int, seed: int) -> Iterator[Array]:
        return self._independent(rows, cols, count, seed)

    def fold_in(self, observations: Observations, *, row_features: FeatureTable | None = None) -> CellAnswers:
        """Return the answers for new rows; a subclass that can says how."""
        raise ValueError(f"{type(self).__name__} says nothing of new rows: fit again with them in the table")
