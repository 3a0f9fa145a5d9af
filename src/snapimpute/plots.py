"""Pictures for notebooks: of a choice, a fit, an evaluation, a table.

Each function draws into the matplotlib axes that it is given, or into new ones,
and returns them. matplotlib is imported when something is drawn: the package
works without it. What `report.figures` draws in the same way is drawn here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.alphabet import Alphabet, AlphabetLike
from snapimpute.codebook import Codebook
from snapimpute.metrics import Reliability
from snapimpute.solvers import Result
from snapimpute.tables import Table, read_table
from snapimpute.tuning import Choice, Metric
from snapimpute.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from snapimpute.estimator import SnapImputer
    from snapimpute.evaluation import Evaluation

__all__ = [
    "plot_confusion",
    "plot_convergence",
    "plot_matrix",
    "plot_path",
    "plot_reliability",
    "plot_scores",
    "plot_surface",
]

MISSING = "#e4e4e4"
PLAIN, AWARE, BASELINE = "#5b7f95", "#c0392b", "#b8b8b8"
RING: dict[str, Any] = {"marker": "o", "ms": 13, "mfc": "none", "mec": AWARE, "mew": 1.6, "ls": "none"}
MOST_SHOWN = 400
"""Rows and columns of a table that are drawn, at most: a picture has not many more points."""

MOST_TICKS, MOST_LAMS = 25, 7
MOST_COUNTS = 12
"""With more symbols than that, counts of a confusion are not written out."""

SCORES: dict[Metric, tuple[float, str]] = {
    "error": (100.0, "held-out cells with the wrong symbol, %"),
    "mae": (1.0, "mean absolute error of held-out cells"),
    "rmse": (1.0, "root mean squared error of held-out cells"),
}


# -------------------------------------------------------------------- tuning
def plot_path(choice: Choice | SnapImputer, ax: Axes | None = None) -> Axes:
    """Draw the scores on held-out cells against λ, a curve for each ξ; the pair that was chosen has a ring.

    Bars are standard errors. Curves end where tuning gave up on them.

    Parameters
    ----------
    choice : Choice or SnapImputer
        What `tuning.choose` or `tuning.path` returned, or an imputer that tuned λ or ξ.
    ax : Axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.datasets import low_rank_alphabet
    >>> from snapimpute.tuning import Recipe, path
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.4)
    >>> choice = path(data.observations, Recipe(data.alphabet), lam=[4, 2, 1], xi=[0, 0.03])
    >>> [text.get_text() for text in plot_path(choice, Figure().subplots()).get_legend().get_texts()]
    ['ξ = 0', 'ξ = 0.03', 'chosen: λ = 4, ξ = 0']
    """
    found = _choice(choice)
    axes, unit, best = _axes(ax), SCORES[found.metric][0], found.best
    xis, curves = sorted({one.xi for one in found.tried}), []
    for xi, colour in zip(xis, _colormap("viridis")(np.linspace(0, 0.85, len(xis))), strict=True):
        some = sorted((one for one in found.tried if one.xi == xi), key=lambda one: one.lam)
        scores = np.array([[one.score, one.error] for one in some]).T * unit
        look: dict[str, Any] = {"color": colour, "ls": "-" if xi else "--", "marker": "o", "ms": 4, "capsize": 2}
        curves.append(axes.errorbar([one.lam for one in some], *scores, label=f"ξ = {xi:.3g}", **look))
    label = f"chosen: λ = {best.lam:.3g}, ξ = {best.xi:.3g}"
    ring = axes.plot(best.lam, unit * best.score, **RING, label=label)
    lams = sorted({one.lam for one in found.tried})
    if lams[0] > 0:
        axes.set_xscale("log")
    some_lams = lams[:: -(-len(lams) // MOST_LAMS)]
    axes.set_xticks(some_lams, [f"{lam:.3g}" for lam in some_lams], minor=False)
    axes.minorticks_off()
    axes.set(xlabel="λ", ylabel=SCORES[found.metric][1])
    axes.grid(alpha=0.3)
    axes.legend(handles=[*curves, *ring], frameon=False, fontsize=9)
    return axes


def plot_surface(choice: Choice | SnapImputer, ax: Axes | None = None) -> Axes:
    """Draw the scores on held-out cells as a map of λ and ξ; pairs not tried are grey, the chosen one has a ring.

    Parameters
    ----------
    choice : Choice or SnapImputer
        As in `plot_path`; `tuning.path` tries every pair.
    ax : Axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.datasets import low_rank_alphabet
    >>> from snapimpute.tuning import Recipe, path
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.4)
    >>> choice = path(data.observations, Recipe(data.alphabet), lam=[4, 2, 1], xi=[0, 0.03])
    >>> plot_surface(choice, Figure().subplots()).images[0].get_array().shape
    (2, 3)
    """
    found = _choice(choice)
    lams, xis, scores = found.surface()
    axes, (unit, label) = _axes(ax), SCORES[found.metric]
    shades = _colormap("viridis_r").with_extremes(bad=MISSING)
    image = axes.imshow(np.ma.masked_invalid(unit * scores.T), aspect="auto", origin="lower", cmap=shades)
    place = np.searchsorted(lams, found.lam), np.searchsorted(xis, found.xi)
    axes.plot(*place, **RING)
    axes.set_xticks(range(lams.size), [f"{lam:.3g}" for lam in lams], rotation=90 if lams.size > 8 else 0)
    axes.set_yticks(range(xis.size), [f"{xi:.3g}" for xi in xis])
    axes.set(xlabel="λ", ylabel="ξ")
    _bar(axes, image).set_label(label)
    return axes


def _choice(given: Any) -> Choice:
    found = getattr(given, "choice_", given)
    if found is None:
        raise ValueError("nothing was tuned: λ and ξ were given, or there were too few cells to hold any out")
    if not isinstance(found, Choice):
        raise TypeError(f"expected what tuning.choose returned, or a fitted SnapImputer, got {type(given).__name__}")
    return found


# -------------------------------------------------------------------- a fit
def plot_convergence(result: Result | SnapImputer, ax: Axes | None = None) -> Axes:
    """Draw how far each iteration was from a stationary point, relative to ‖X‖; the title says why the run ended.

    Nothing is drawn for iterations without a certificate, such as those of a
    continuation while λ is still coming down; the objective is, if there is none at all.

    Parameters
    ----------
    result : Result or SnapImputer
        An imputer shows its last fit, not those of the tuning.
    ax : Axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.estimator import SnapImputer
    >>> imp = SnapImputer("1:5", lam=0.5, xi=0.0).fit([[5, 4, 1], [5, 5, 1], [1, 1, 5], [1, 2, None]])
    >>> plot_convergence(imp, Figure().subplots()).get_xlabel()
    'iteration'
    """
    if isinstance(result, Result):
        history, status, size = result.history, result.status, result.x.s
    elif hasattr(result, "history_"):
        history, status, size = result.history_, result.status_, result.singular_values_
    else:
        raise TypeError(f"expected what solve returned, or a fitted SnapImputer, got {type(result).__name__}")
    axes = _axes(ax)
    if np.isfinite(history["certificate"]).any():
        draw_certificate(axes, history, size, color=AWARE)
    else:
        axes.plot(history["iteration"], history["objective"], color=AWARE)
        axes.set_ylabel("objective")
    axes.set(xlabel="iteration", title=f"{status.code} after {history['iteration'].size} iterations")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    return axes


def draw_certificate(axes: Any, history: Mapping[str, Any], size: Array, **style: Any) -> None:
    """Draw the certificates of a history relative to the norm that singular values have."""
    relative = history["certificate"] / max(float(np.linalg.norm(size)), 1e-12)
    axes.semilogy(history["iteration"], relative, **style)
    axes.set_ylabel("distance from a stationary point, relative to ‖X‖")


# -------------------------------------------------------------------- an evaluation
def plot_reliability(reliability: Reliability | Evaluation, ax: Axes | None = None) -> Axes:
    """Draw how often the likeliest symbol was right against how probable it was said to be.

    Points on the diagonal are right as often as they say; their size is the number of cells.

    Parameters
    ----------
    reliability : Reliability or Evaluation
        What `metrics.reliability` or `evaluation.evaluate` returned.
    ax : Axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.metrics import reliability
    >>> plot_reliability(reliability([0, 1, 1, 1], [[0.2, 0.8]] * 4, "0,1"), Figure().subplots()).get_title()
    'expected calibration error 0.050'
    """
    found = reliability if isinstance(reliability, Reliability) else reliability.reliability()
    if found is None:
        raise ValueError('there are no probabilities: decide="nearest" makes none, nor do columns of any numbers')
    axes = _axes(ax)
    axes.plot([0, 1], [0, 1], color="black", lw=0.8)
    axes.scatter(found.confidence, found.accuracy, 10 + 200 * found.count / found.count.sum(), color=AWARE, zorder=3)
    axes.plot(found.confidence, found.accuracy, color=AWARE, lw=1)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="probability of the likeliest symbol")
    axes.set(ylabel="share of the cells where it was right", title=f"expected calibration error {found.error:.3f}")
    return axes


def plot_confusion(
    found: Evaluation | ArrayLike,
    alphabet: AlphabetLike | None = None,
    ax: Axes | None = None,
    *,
    kind: int | None = None,
) -> Axes:
    """Draw how often each symbol (row) became each symbol (column), shaded by its share of the row.

    Parameters
    ----------
    found : Evaluation, or array of shape (K, K)
        What `evaluation.evaluate` returned, or counts such as those of `metrics.confusion`.
    alphabet : alphabet, optional
        Of the counts.
    ax : Axes, optional
    kind : int, optional
        Where columns of an evaluation have different alphabets: which one, as a
        position in ``found.codebook.kinds``; the first if not given.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> axes = plot_confusion([[8, 2], [1, 9]], ["no", "yes"], Figure().subplots())
    >>> axes.get_title(), [text.get_text() for text in axes.get_xticklabels()]
    ('17 of 20 cells right', ['no', 'yes'])
    """
    counts, symbols = _counts(found, alphabet, kind)
    axes, total = _axes(ax), counts.sum(axis=1, keepdims=True)
    share = np.where(total > 0, counts / np.maximum(total, 1), np.nan)
    axes.imshow(np.ma.masked_invalid(share), cmap=_colormap("Blues").with_extremes(bad=MISSING), vmin=0, vmax=1)
    if len(symbols) <= MOST_COUNTS:
        for (row, col), count in np.ndenumerate(counts):
            colour = "white" if share[row, col] > 0.5 else "black"
            axes.text(col, row, f"{count:,}", ha="center", va="center", color=colour, fontsize=9)
    places, names = _ticks(symbols)
    axes.set_xticks(places, names, rotation=90 if max(map(len, names)) > 4 else 0)
    axes.set_yticks(places, names)
    axes.set(xlabel="symbol decided", ylabel="true symbol")
    axes.set_title(f"{np.trace(counts):,} of {counts.sum():,} cells right", fontsize=10)
    return axes


def _counts(found: Any, alphabet: AlphabetLike | None, kind: int | None) -> tuple[NDArray[np.int64], Alphabet]:
    if hasattr(found, "confusion"):
        kinds = found.codebook.kinds
        if kind is None:
            kind = next((i for i, one in enumerate(kinds) if one is not None), 0)
        return found.confusion(kind), kinds[kind]
    if alphabet is None:
        raise TypeError("expected an evaluation, or counts and their alphabet: plot_confusion(counts, alphabet)")
    symbols, counts = Alphabet.of(alphabet), np.asarray(found)
    if counts.shape != (len(symbols), len(symbols)):
        raise ValueError(f"expected counts of shape {(len(symbols),) * 2} for {symbols!r}, got {counts.shape}")
    return counts, symbols


def plot_scores(evaluation: Evaluation, ax: Axes | None = None) -> Axes:
    """Draw how many hidden cells each way of filling them got right, with standard errors, the best on top.

    Where no column has an alphabet, the root mean squared errors.

    Parameters
    ----------
    evaluation : Evaluation
        What `evaluation.evaluate` returned.
    ax : Axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.datasets import low_rank_alphabet
    >>> from snapimpute.estimator import SnapImputer
    >>> from snapimpute.evaluation import evaluate
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.5)
    >>> found = evaluate(data.observations, SnapImputer("0,1", lam=3.0, xi=0.0))
    >>> len(plot_scores(found, Figure().subplots()).patches) == len(found.ways)
    True
    """
    colours = {"ours": AWARE, "rounding": PLAIN, "baseline": BASELINE}
    if np.isnan(evaluation.ours.exact):
        ways = sorted(evaluation.ways, key=lambda way: -way.rmse)
        values, errors, form = [way.rmse for way in ways], [0.0] * len(ways), ".3f"
        label = "root mean squared error of the hidden cells, in units of each column"
    else:
        ways = sorted(evaluation.ways, key=lambda way: way.exact)
        values, errors, form = [100 * way.exact for way in ways], [100 * way.error for way in ways], ".2f"
        label = "hidden cells with the right symbol, %, with one standard error"
    axes = _axes(ax)
    draw_bars(axes, [way.label for way in ways], values, errors, [colours[way.kind] for way in ways], form)
    axes.set_xlabel(label)
    return axes


def draw_bars(
    axes: Any,
    labels: Sequence[str],
    values: Sequence[float],
    errors: Sequence[float],
    colours: Sequence[str],
    form: str = ".2f",
) -> None:
    """Draw horizontal bars from the bottom up, each with its standard error and its number."""
    for place, (value, error, colour) in enumerate(zip(values, errors, colours, strict=True)):
        axes.barh(place, value, color=colour, xerr=error, ecolor="#333333")
        axes.text(value + 1.5 * error, place, f" {value:{form}}", va="center", fontsize=9)
    axes.set_yticks(range(len(labels)), labels, fontsize=9)
    axes.margins(x=0.12)


# -------------------------------------------------------------------- a table
def plot_matrix(
    observations: Any,
    imputer: SnapImputer | None = None,
    ax: Axes | None = None,
    *,
    alphabet: Any = "infer",
    completed: bool = True,
    most: int = MOST_SHOWN,
) -> Axes:
    """Draw a table, its rows and columns in an order that shows structure; missing cells are grey.

    The order is that of the leading singular vectors. Where columns have
    different alphabets, each is shaded from its lowest to its highest symbol.

    Parameters
    ----------
    observations : Observations, array, sparse matrix or frame
    imputer : SnapImputer, optional
        Fitted to this table; missing cells get its symbols.
    ax : Axes, optional
    alphabet : alphabet
        Of the table, if there is no imputer; as in `SnapImputer`.
    completed : bool
        Whether to draw what the imputer fills in. If not, it gives the order
        alone: so a table before and after can stand side by side.
    most : int
        Rows and columns to draw at most; of more, an evenly spread sample is shown, and the title says so.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.estimator import SnapImputer
    >>> X = [[5, 4, 1], [5, 5, 1], [1, 1, 5], [1, 2, None]]
    >>> plot_matrix(X, ax=Figure().subplots()).get_title()
    'known: 91.7 % of the cells'
    >>> plot_matrix(X, SnapImputer("1:5", lam=0.5, xi=0.0).fit(X), Figure().subplots()).get_title()
    'completed'
    """
    fitted = None if imputer is None else imputer.estimates_
    book = alphabet if imputer is None else imputer._model.codebook
    table = read_table(observations, book, missing=() if imputer is None else imputer.missing)
    if imputer is not None and table.shape != imputer._model.shape:
        raise ValueError(f"the imputer was fitted to a table of shape {imputer._model.shape}, this is {table.shape}")
    rows, cols = _spread(np.arange(table.shape[0]), most), _spread(table.codebook.coded, most)
    known, density = _known(table, rows, cols)
    whole = known.copy()
    if fitted is not None:
        r, c = np.nonzero(np.isnan(known))
        whole[r, c] = fitted.symbols(rows[r], cols[c])
    title = "completed" if fitted is not None and completed else f"known: {100 * density:.1f} % of the cells"
    if (rows.size, cols.size) != table.shape:
        title += f"\n{rows.size:,} of {table.shape[0]:,} rows, {cols.size:,} of {table.shape[1]:,} columns"
    shades, one = whole, table.codebook.one
    if one is None:
        shades = _in_ranges(whole, table.codebook, cols)
    order = np.ix_(*seriation(shades))
    axes = _axes(ax)
    if not completed:
        shades = np.where(np.isnan(known), np.nan, shades)
    bar = _bar(axes, draw_matrix(axes, shades[order], one, title))
    if one is None:
        bar.set_ticks([0, 1], labels=["lowest", "highest"])
    else:
        places, names = _ticks(one)
        bar.set_ticks(places, labels=names)
    return axes


def _spread(positions: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """So many of the positions, evenly spread."""
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    if positions.size <= most:
        return positions
    return positions[np.linspace(0, positions.size - 1, most).round().astype(np.intp)]


def _known(table: Table, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> tuple[Array, float]:
    """The known cells in some rows and columns, and the share of all cells that is known."""
    out, count = np.full((rows.size, cols.size), np.nan), 0
    places = [np.full(size, -1) for size in table.shape]
    for place, picked in zip(places, (rows, cols), strict=True):
        place[picked] = np.arange(picked.size)
    for r, c, values in table.pieces():
        count += values.size
        i, j = places[0][r], places[1][c]
        inside = (i >= 0) & (j >= 0)
        out[i[inside], j[inside]] = values[inside]
    return out, count / (table.shape[0] * table.codebook.coded.size)


def _in_ranges(table: Array, book: Codebook, cols: NDArray[np.intp]) -> Array:
    """Each column from 0 for its lowest symbol to 1 for its highest; by its values if it may have any."""
    out = np.full(table.shape, np.nan)
    for j, col in enumerate(cols.tolist()):
        alphabet, here = book[col], ~np.isnan(table[:, j])
        seen = table[here, j]
        ends = seen if alphabet is None else alphabet.symbols
        size = float(np.ptp(ends)) if ends.size else 0.0
        out[here, j] = (seen - ends.min()) / size if size > 0 else 0.5
    return out


def seriation(table: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Order rows and columns by the leading singular vectors, missing cells as the mean, so that structure shows."""
    known = ~np.isnan(table)
    centred = np.where(known, table - (table[known].mean() if known.any() else 0.0), 0.0)
    U, _, Vt = np.linalg.svd(centred, full_matrices=False)
    return np.argsort(U[:, 0]), np.argsort(Vt[0])


def draw_matrix(axes: Any, table: Array, alphabet: Alphabet | None, title: str) -> Any:
    """Draw cells, a colour for each symbol, or shades of numbers from 0 to 1; return the image."""
    from matplotlib.colors import BoundaryNorm, ListedColormap

    if alphabet is None:
        codes, shades, norm = table, _colormap("viridis").with_extremes(bad=MISSING), None
    else:
        colours = _colormap("viridis")(np.linspace(0.12, 0.92, len(alphabet)))
        shades = ListedColormap(colours).with_extremes(bad=MISSING)
        codes = np.where(np.isnan(table), np.nan, alphabet.indices(np.nan_to_num(table)))
        norm = BoundaryNorm(np.arange(len(alphabet) + 1) - 0.5, shades.N)
    limits = {"vmin": 0, "vmax": 1} if norm is None else {"norm": norm}
    image = axes.imshow(np.ma.masked_invalid(codes), aspect="auto", interpolation="nearest", cmap=shades, **limits)
    axes.set(title=title, xlabel="columns", ylabel="rows", xticks=[], yticks=[])
    return image


# -------------------------------------------------------------------- shared
def _axes(ax: Axes | None) -> Axes:
    """The axes given, or new ones that a notebook shows."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as err:
        raise ImportError('pictures need matplotlib: pip install "snapimpute[app]"') from err
    return plt.subplots(layout="constrained")[1]


def _colormap(name: str) -> Any:
    import matplotlib as mpl

    return mpl.colormaps[name]


def _bar(axes: Any, image: Any) -> Any:
    return axes.figure.colorbar(image, ax=axes)


def _ticks(alphabet: Alphabet) -> tuple[NDArray[np.intp], list[str]]:
    """Positions of symbols and what they are called; not of all where there are many."""
    places = np.arange(0, len(alphabet), -(-len(alphabet) // MOST_TICKS))
    names = alphabet.labels or [f"{a:g}" for a in alphabet]
    return places, [names[i].replace("$", r"\$") for i in places]  # between two dollars matplotlib reads mathematics
