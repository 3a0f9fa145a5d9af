"""Scores of an estimate against the truth, as plain functions of two arrays.

Distances (`nmse`, `rmse`, `mae`) take the raw estimate. `exact_match`,
`confusion`, `recall_per_symbol` and `quadratic_weighted_kappa` take decided
symbols. `scores` computes both kinds at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.errors import ArgumentError, Value
from snapimpute.data.alphabet import Alphabet, AlphabetLike

__all__ = [
    "Reliability",
    "confusion",
    "exact_match",
    "expected_calibration_error",
    "mae",
    "nmse",
    "quadratic_weighted_kappa",
    "recall_per_symbol",
    "reliability",
    "rmse",
    "scores",
]


def nmse(truth: ArrayLike, estimate: ArrayLike) -> float:
    """Return the normalised mean squared error Σ(x − o)² / Σo², as in the paper.

    Parameters
    ----------
    truth, estimate : array_like of float
        Of the same shape.

    Examples
    --------
    >>> nmse([3, 4], [3, 3])
    0.04
    """
    o, x = _pair(truth, estimate)
    size = float(np.sum(o**2))
    if size == 0:
        raise ValueError("nmse divides by the sum of the squared truth, which is 0 here: use rmse")
    return float(np.sum((x - o) ** 2)) / size


def rmse(truth: ArrayLike, estimate: ArrayLike) -> float:
    """Return the root of the mean squared error.

    Examples
    --------
    >>> rmse([1, 5], [4, 1])
    3.5355339
    """
    o, x = _pair(truth, estimate)
    return float(np.sqrt(np.mean((x - o) ** 2)))


def mae(truth: ArrayLike, estimate: ArrayLike) -> float:
    """Return the mean absolute error.

    Examples
    --------
    >>> mae([1, 5], [4, 1])
    3.5
    """
    o, x = _pair(truth, estimate)
    return float(np.mean(np.abs(x - o)))


def exact_match(truth: ArrayLike, estimate: ArrayLike) -> float:
    """Return the share of entries where the decided symbol is the true one.

    Both arrays hold symbols and are compared exactly: snap an estimate first,
    for instance with `Alphabet.snap`.

    Examples
    --------
    >>> exact_match([1, 2, 3, 4], [1, 2, 3, 5])
    0.75
    """
    o, x = _pair(truth, estimate)
    return float(np.mean(o == x))


def confusion(truth: ArrayLike, estimate: ArrayLike, alphabet: AlphabetLike) -> NDArray[np.int64]:
    """Count how often each symbol (row) was decided to be each symbol (column).

    Examples
    --------
    >>> confusion([0, 0, 1], [0, 1, 1], "0,1")
    array([[1, 1],
           [0, 1]])
    """
    symbols = Alphabet.of(alphabet)
    o, x = _pair(truth, estimate)
    pairs = _codes(symbols, o, "truth") * len(symbols) + _codes(symbols, x, "estimate")
    return np.bincount(pairs, minlength=len(symbols) ** 2).reshape(len(symbols), len(symbols))


def recall_per_symbol(truth: ArrayLike, estimate: ArrayLike, alphabet: AlphabetLike) -> NDArray[np.float64]:
    """Return for each symbol the share of its true occurrences that were decided right; NaN if it has none.

    Examples
    --------
    >>> recall_per_symbol([0, 0, 1], [0, 1, 1], "0:2")
    array([0.5, 1. , nan])
    """
    table = confusion(truth, estimate, alphabet)
    total = table.sum(axis=1)
    return np.where(total > 0, np.diag(table) / np.maximum(total, 1), np.nan)


def quadratic_weighted_kappa(truth: ArrayLike, estimate: ArrayLike) -> float:
    """Return Cohen's kappa with the squared distance of the symbol values as weight.

    One minus the mean squared distance of the pairs over the one expected if
    the estimate were independent of the truth with the same frequencies: 1 is
    perfect, 0 is no better than chance. For equally spaced symbols this is the
    usual quadratic weighted kappa, which counts positions in the alphabet;
    for other alphabets the distance is that of the values. NaN if both arrays
    hold one and the same symbol only: chance and skill then look alike.

    Notes
    -----
    With squared weights the expected distance is var(o) + var(x) + (mean(o) − mean(x))²,
    so no table of counts is needed.

    Examples
    --------
    >>> quadratic_weighted_kappa([1, 2, 3], [1, 2, 3])
    1.0
    >>> quadratic_weighted_kappa([1, 2, 3], [3, 2, 1])
    -1.0
    """
    o, x = _pair(truth, estimate)
    expected = float(np.var(o) + np.var(x) + (np.mean(o) - np.mean(x)) ** 2)
    return 1.0 - float(np.mean((o - x) ** 2)) / expected if expected > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence and accuracy of predictions, by bins of the confidence."""

    confidence: NDArray[np.float64]
    """Mean probability of the likeliest symbol in each bin."""
    accuracy: NDArray[np.float64]
    """Share of the entries of each bin where that symbol was the true one."""
    count: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of the two, weighted by the counts."""
        return float(np.sum(self.count * np.abs(self.confidence - self.accuracy)) / self.count.sum())


def reliability(truth: ArrayLike, probabilities: ArrayLike, alphabet: AlphabetLike, *, bins: int = 15) -> Reliability:
    """Compare the stated probability of the likeliest symbol with the share of cells where it was right.

    Parameters
    ----------
    truth : array_like of shape (N,)
        Symbols of the alphabet.
    probabilities : array_like of shape (N, K)
        Of the symbols in ascending order.
    alphabet : alphabet
    bins : int
        Equally wide bins of the confidence; those without an entry are left out.

    Examples
    --------
    >>> reliability([0, 1, 1, 1], [[0.2, 0.8]] * 4, "0,1").accuracy
    array([0.75])
    """
    symbols, p = Alphabet.of(alphabet), np.asarray(probabilities, dtype=np.float64)
    o = np.asarray(truth, dtype=np.float64).ravel()
    if o.size == 0:
        raise ValueError("nothing to score: truth is empty")
    if p.shape != (o.size, len(symbols)):
        raise ValueError(f"expected probabilities of shape ({o.size}, {len(symbols)}), got {p.shape}")
    if bins < 1:
        raise ArgumentError.must("bins", bins, "be at least 1")
    return binned(p.max(axis=1), _codes(symbols, o, "truth") == np.argmax(p, axis=1), bins=bins)


def binned(sure: NDArray[np.float64], right: NDArray[np.bool_], *, bins: int = 15) -> Reliability:
    """Compare confidence with accuracy in equally wide bins; see `reliability`."""
    where = np.minimum((sure * bins).astype(np.intp), bins - 1)
    count = np.bincount(where, minlength=bins)
    used = count > 0
    confidence, accuracy = (np.bincount(where, x, bins)[used] / count[used] for x in (sure, right.astype(float)))
    return Reliability(confidence, accuracy, count[used])


def expected_calibration_error(
    truth: ArrayLike, probabilities: ArrayLike, alphabet: AlphabetLike, *, bins: int = 15
) -> float:
    """Return the mean distance of confidence and accuracy over bins of the confidence; see `reliability`.

    Examples
    --------
    >>> round(expected_calibration_error([0, 1, 1, 1], [[0.2, 0.8]] * 4, "0,1"), 3)
    0.05
    """
    return reliability(truth, probabilities, alphabet, bins=bins).error


def scores(
    truth: ArrayLike, estimate: ArrayLike, alphabet: AlphabetLike, *, symbols: ArrayLike | None = None
) -> dict[str, float]:
    """Return all scalar scores under the keys nmse, rmse, mae, exact and kappa.

    Parameters
    ----------
    truth : array_like
        Symbols of the alphabet.
    estimate : array_like
        The raw estimate, which nmse, rmse and mae take.
    alphabet : alphabet
    symbols : array_like, optional
        The decided symbols, which exact and kappa take; by default the
        nearest symbol to the estimate.

    Examples
    --------
    >>> {name: round(score, 3) for name, score in scores([1, 2, 3], [1.2, 2.0, 2.1], "1:3").items()}
    {'nmse': 0.061, 'rmse': 0.532, 'mae': 0.367, 'exact': 0.667, 'kappa': 0.667}
    """
    known = Alphabet.of(alphabet)
    o, x = _pair(truth, estimate)
    decided = known.symbols[_codes(known, *((x, None) if symbols is None else (_pair(o, symbols)[1], "symbols")))]
    truly = known.symbols[_codes(known, o, "truth")]
    return {
        "nmse": nmse(o, x),
        "rmse": rmse(o, x),
        "mae": mae(o, x),
        "exact": exact_match(truly, decided),
        "kappa": quadratic_weighted_kappa(truly, decided),
    }


def _pair(truth: ArrayLike, estimate: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check that the two arrays can be compared; return them flat."""
    o, x = np.asarray(truth, dtype=np.float64), np.asarray(estimate, dtype=np.float64)
    if o.shape != x.shape:
        raise ValueError(f"truth and estimate must have the same shape, got {o.shape} and {x.shape}")
    if o.size == 0:
        raise ValueError("nothing to score: truth and estimate are empty")
    for array, name in ((o, "truth"), (x, "estimate")):
        bad = int(np.count_nonzero(~np.isfinite(array)))
        if bad:
            raise ValueError(f"{bad} of {array.size} values of {name} are not finite: score the known entries only")
    return o.ravel(), x.ravel()


def _codes(symbols: Alphabet, values: NDArray[np.float64], name: str | None) -> NDArray[np.intp]:
    """Return positions in the alphabet; values off it are an error if they have a name, else they are snapped."""
    if name is not None:
        outside = ~symbols.contains(values)
        if outside.any():
            first = float(values[outside][0])
            raise ArgumentError(
                str(name),
                first,
                f"{int(outside.sum())} of {values.size} values of {name} are not in ",
                Value("alphabet", symbols),
                f", the first is {first:g}: snap the estimate to the alphabet, or correct the data",
            )
    return symbols.indices(values)
