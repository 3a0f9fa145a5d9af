"""Pictures for notebooks: of tuning, a fit, an evaluation, a table.

Each function draws into the matplotlib axes that it is given, or into new ones,
and returns them. The numbers come from `figures`, as those of the report do.
matplotlib is imported when something is drawn: the package works without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from snapimpute.base.errors import ArgumentError
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet, AlphabetLike
from snapimpute.data.schema import ColumnSchema
from snapimpute.data.tables import read_table
from snapimpute.evaluation.metrics import Reliability
from snapimpute.experts.proximal.choice import Choice
from snapimpute.solvers import Result
from snapimpute.views.figures import (
    Confusion,
    Convergence,
    ExpertScores,
    TuningScores,
    WayScores,
    in_range,
    names,
    part_of,
    reliability_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from snapimpute.estimator.evaluation import Evaluation
    from snapimpute.estimator.imputer import SnapImputer

__all__ = [
    "plot_confusion",
    "plot_convergence",
    "plot_experts",
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
"""Rows and columns of a table that are drawn, at most: a picture has hardly more points."""

MOST_TICKS, MOST_LAMS = 25, 7
MOST_COUNTS = 12
"""Most symbols for which the counts of a confusion are written out."""


# -------------------------------------------------------------------- tuning
def plot_path(choice: Choice | SnapImputer, ax: Axes | None = None) -> Axes:
    """Draw the scores on held-out cells against λ, a curve for each ξ, with a ring around the chosen pair.

    Bars are standard errors. A curve ends where tuning stopped it.

    Parameters
    ----------
    choice : Choice or SnapImputer
        Result of `tuning.choose` or `tuning.path`, or an imputer that tuned λ or ξ.
    ax : Axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> from snapimpute.experts.proximal.tuning import ModelSpec, path
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.4)
    >>> choice = path(data.observations, ModelSpec(data.alphabet), lam=[4, 2, 1], xi=[0, 0.03])
    >>> [text.get_text() for text in plot_path(choice, Figure().subplots()).get_legend().get_texts()]
    ['ξ = 0', 'ξ = 0.03', 'chosen: λ = 4, ξ = 0']
    """
    found, axes = TuningScores.of(choice), _axes(ax)
    colours = _colormap("viridis")(np.linspace(0, 0.85, found.xis.size))
    curves = []
    for one, colour in zip(found.curves, colours, strict=True):
        look: dict[str, Any] = {"color": colour, "ls": "-" if one.xi else "--", "marker": "o", "ms": 4, "capsize": 2}
        curves.append(axes.errorbar(one.lam, one.score, one.error, label=f"ξ = {one.xi:.3g}", **look))
    label = f"chosen: λ = {found.lam:.3g}, ξ = {found.xi:.3g}"
    ring = axes.plot(found.lam, found.score, **RING, label=label)
    if found.lams[0] > 0:
        axes.set_xscale("log")
    some_lams = found.lams[:: -(-found.lams.size // MOST_LAMS)]
    axes.set_xticks(some_lams, [f"{lam:.3g}" for lam in some_lams], minor=False)
    axes.minorticks_off()
    axes.set(xlabel="λ", ylabel=found.label)
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
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> from snapimpute.experts.proximal.tuning import ModelSpec, path
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.4)
    >>> choice = path(data.observations, ModelSpec(data.alphabet), lam=[4, 2, 1], xi=[0, 0.03])
    >>> plot_surface(choice, Figure().subplots()).images[0].get_array().shape
    (2, 3)
    """
    found, axes = TuningScores.of(choice), _axes(ax)
    shades = _colormap("viridis_r").with_extremes(bad=MISSING)
    image = axes.imshow(np.ma.masked_invalid(found.grid), aspect="auto", origin="lower", cmap=shades)
    axes.plot(*found.place, **RING)
    axes.set_xticks(range(found.lams.size), [f"{lam:.3g}" for lam in found.lams], rotation=90 * (found.lams.size > 8))
    axes.set_yticks(range(found.xis.size), [f"{xi:.3g}" for xi in found.xis])
    axes.set(xlabel="λ", ylabel="ξ")
    _bar(axes, image).set_label(found.label)
    return axes


# -------------------------------------------------------------------- a blend
def plot_experts(imputer: SnapImputer, ax: Axes | None = None) -> Axes:
    """Draw the log loss of each expert of a blend on held-out cells, with standard errors and its weight.

    Lower is better. Experts with a weight are red. The line is the log loss of the blend.

    Parameters
    ----------
    imputer : SnapImputer
        Fitted by several experts, which is the default.
    ax : Axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> from snapimpute.estimator.imputer import SnapImputer
    >>> from snapimpute.experts.proximal.expert import Proximal
    >>> known = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.5).observations
    >>> imputer = SnapImputer("0,1", method=["habits", Proximal(lam=2.0, xi=0.0)]).fit(known)
    >>> [text.get_text() for text in plot_experts(imputer, Figure().subplots()).get_yticklabels()][-1]
    'proximal'
    """
    found, axes = ExpertScores.of(imputer), _axes(ax)
    rows = zip(found.losses.tolist(), found.errors.tolist(), found.weights.tolist(), found.texts, strict=True)
    for place, (loss, error, weight, text) in enumerate(rows):
        axes.barh(-place, loss, color=AWARE if weight else BASELINE, xerr=error, ecolor="#333333")
        axes.text(loss + 1.2 * error, -place, f" {loss:.3f}, {text}", va="center", fontsize=9)
    axes.set_yticks(range(1 - len(found.names), 1), found.names[::-1], fontsize=9)
    if np.isfinite(found.loss):
        axes.axvline(found.loss, color="black", lw=1, ls=":", label=f"blend: {found.loss:.3f}")
        axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.12))
    axes.margins(x=0.3)
    axes.set_xlabel(f"log loss on {found.cells:,} held-out cells, with one standard error")
    return axes


# -------------------------------------------------------------------- a fit
def plot_convergence(result: Result | SnapImputer, ax: Axes | None = None) -> Axes:
    """Draw the distance of each iteration from a stationary point, relative to ‖X‖; the title says why the run ended.

    Iterations without a certificate are left out, such as those of a continuation
    while λ is still coming down. Without any certificate the objective is drawn.

    Parameters
    ----------
    result : Result or SnapImputer
        An imputer shows its last fit, not the fits of the tuning.
    ax : Axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.estimator.imputer import SnapImputer
    >>> from snapimpute.experts.proximal.expert import Proximal
    >>> imp = SnapImputer("1:5", method=Proximal(lam=0.5, xi=0.0))
    >>> imp = imp.fit([[5, 4, 1], [5, 5, 1], [1, 1, 5], [1, 2, None]])
    >>> plot_convergence(imp, Figure().subplots()).get_xlabel()
    'iteration'
    """
    found, axes = Convergence.of(result), _axes(ax)
    if len(found.certificate):
        draw_certificate(axes, found, color=AWARE)
    else:
        axes.plot(found.objective.iteration, found.objective.values, color=AWARE)
        axes.set_ylabel("objective")
    axes.set(xlabel="iteration", title=f"{found.status} after {found.count} iterations")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    return axes


def draw_certificate(axes: Any, found: Convergence, **style: Any) -> None:
    """Draw the certificates of a fit relative to the norm of its matrix."""
    axes.semilogy(found.certificate.iteration, found.relative, **style)
    axes.set_ylabel("distance from a stationary point, relative to ‖X‖")


# -------------------------------------------------------------------- an evaluation
def plot_reliability(reliability: Reliability | Evaluation, ax: Axes | None = None) -> Axes:
    """Draw the accuracy of the likeliest symbol against its stated probability.

    On the diagonal the two are equal. The size of a point is its number of cells.

    Parameters
    ----------
    reliability : Reliability or Evaluation
        Result of `metrics.reliability` or `evaluation.evaluate`.
    ax : Axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.evaluation.metrics import reliability
    >>> plot_reliability(reliability([0, 1, 1, 1], [[0.2, 0.8]] * 4, "0,1"), Figure().subplots()).get_title()
    'expected calibration error 0.050'
    """
    found = reliability_of(reliability)
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
    """Draw the confusion: counts of true symbols (rows) by decided symbols (columns), shaded by row.

    Parameters
    ----------
    found : Evaluation, or array of shape (K, K)
        Result of `evaluation.evaluate`, or counts such as those of `metrics.confusion`.
    alphabet : alphabet, optional
        Alphabet of the counts.
    ax : Axes, optional
    kind : int, optional
        If columns of an evaluation have different alphabets, the position of one in
        ``found.schema.kinds``; by default the first.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> axes = plot_confusion([[8, 2], [1, 9]], ["no", "yes"], Figure().subplots())
    >>> axes.get_title(), [text.get_text() for text in axes.get_xticklabels()]
    ('17 of 20 cells right', ['no', 'yes'])
    """
    table, axes = Confusion.of(found, alphabet, kind), _axes(ax)
    share = np.ma.masked_invalid(table.share)
    axes.imshow(share, cmap=_colormap("Blues").with_extremes(bad=MISSING), vmin=0, vmax=1)
    if len(table.names) <= MOST_COUNTS:
        for (row, col), count in np.ndenumerate(table.counts):
            colour = "white" if table.share[row, col] > 0.5 else "black"
            axes.text(col, row, f"{count:,}", ha="center", va="center", color=colour, fontsize=9)
    places, texts = _ticks(table.names)
    axes.set_xticks(places, texts, rotation=90 if max(map(len, texts)) > 4 else 0)
    axes.set_yticks(places, texts)
    axes.set(xlabel="symbol decided", ylabel="true symbol")
    axes.set_title(f"{np.trace(table.counts):,} of {table.counts.sum():,} cells right", fontsize=10)
    return axes


def plot_scores(evaluation: Evaluation, ax: Axes | None = None) -> Axes:
    """Draw the share of hidden cells that each way of filling got right, with standard errors, the best on top.

    Without an alphabet in any column, root mean squared errors are drawn.

    Parameters
    ----------
    evaluation : Evaluation
        Result of `evaluation.evaluate`.
    ax : Axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.data.datasets import low_rank_alphabet
    >>> from snapimpute.estimator.imputer import SnapImputer
    >>> from snapimpute.estimator.evaluation import evaluate
    >>> from snapimpute.experts.proximal.expert import Proximal
    >>> data = low_rank_alphabet((60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.5)
    >>> found = evaluate(data.observations, SnapImputer("0,1", method=Proximal(lam=3.0, xi=0.0)))
    >>> len(plot_scores(found, Figure().subplots()).patches) == len(found.ways)
    True
    """
    colours = {"ours": AWARE, "rounding": PLAIN, "baseline": BASELINE}
    found, axes = WayScores.of(evaluation).best_last, _axes(ax)
    kinds, form = [colours[kind] for kind in found.kinds], ".2f" if found.symbols else ".3f"
    draw_bars(axes, found.names, found.values.tolist(), found.errors.tolist(), kinds, form)
    axes.set_xlabel(f"{found.label}{', with one standard error' * found.symbols}")
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

    The leading singular vectors give the order. If columns have different
    alphabets, each is shaded from its lowest to its highest symbol.

    Parameters
    ----------
    observations : Observations, array, sparse matrix or frame
    imputer : SnapImputer, optional
        Fitted to this table; missing cells get its symbols.
    ax : Axes, optional
    alphabet : alphabet
        Alphabet of the table, if there is no imputer; as in `SnapImputer`.
    completed : bool
        True draws the symbols that the imputer fills in. False uses the imputer for
        the order alone, so that a table before and after can stand side by side.
    most : int
        Rows and columns to draw, at most. Of a larger table an evenly spread sample
        is shown, and the title says so.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from snapimpute.estimator.imputer import SnapImputer
    >>> from snapimpute.experts.proximal.expert import Proximal
    >>> X = [[5, 4, 1], [5, 5, 1], [1, 1, 5], [1, 2, None]]
    >>> plot_matrix(X, ax=Figure().subplots()).get_title()
    'known: 91.7 % of the cells'
    >>> plot_matrix(X, SnapImputer("1:5", method=Proximal(lam=0.5, xi=0.0)).fit(X), Figure().subplots()).get_title()
    'completed'
    """
    fitted = None if imputer is None else imputer.estimates_
    book = alphabet if imputer is None else imputer._model.schema
    table = read_table(observations, book, missing=() if imputer is None else imputer.missing)
    if imputer is not None and table.shape != imputer._model.shape:
        raise ValueError(f"the imputer was fitted to a table of shape {imputer._model.shape}, this is {table.shape}")
    rows, cols = _spread(np.arange(table.shape[0]), most), _spread(table.schema.coded, most)
    known, count = part_of(table.pieces(), table.shape, rows, cols)
    density = count / (table.shape[0] * table.schema.coded.size)
    whole = known.copy()
    if fitted is not None:
        r, c = np.nonzero(np.isnan(known))
        whole[r, c] = fitted.symbols(rows[r], cols[c])
    title = "completed" if fitted is not None and completed else f"known: {100 * density:.1f} % of the cells"
    if (rows.size, cols.size) != table.shape:
        title += f"\n{rows.size:,} of {table.shape[0]:,} rows, {cols.size:,} of {table.shape[1]:,} columns"
    shades, one = whole, table.schema.one
    if one is None:
        shades = _in_ranges(whole, table.schema, cols)
    order = np.ix_(*seriation(shades))
    axes = _axes(ax)
    if not completed:
        shades = np.where(np.isnan(known), np.nan, shades)
    bar = _bar(axes, draw_matrix(axes, shades[order], one, title))
    if one is None:
        bar.set_ticks([0, 1], labels=["lowest", "highest"])
    else:
        places, texts = _ticks(names(one))
        bar.set_ticks(places, labels=texts)
    return axes


def _spread(positions: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Take at most ``most`` of the positions, evenly spread."""
    if most < 1:
        raise ArgumentError.must("most", most, "be at least 1")
    if positions.size <= most:
        return positions
    return positions[np.linspace(0, positions.size - 1, most).round().astype(np.intp)]


def _in_ranges(table: Array, book: ColumnSchema, cols: NDArray[np.intp]) -> Array:
    """Scale each column from 0 for its lowest symbol to 1 for its highest; by its values if it may have any."""
    out = np.full(table.shape, np.nan)
    for j, col in enumerate(cols.tolist()):
        alphabet, here = book[col], ~np.isnan(table[:, j])
        seen = table[here, j]
        ends = seen if alphabet is None else alphabet.symbols
        out[here, j] = in_range(seen, ends.min(initial=np.inf), ends.max(initial=-np.inf))
    return out


def seriation(table: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Order rows and columns by the leading singular vectors, with the mean for missing cells."""
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
    """Return the axes given, or new ones that a notebook shows."""
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


def _ticks(texts: Sequence[str]) -> tuple[NDArray[np.intp], list[str]]:
    """Return positions of symbols and their names; not of all where there are many."""
    places = np.arange(0, len(texts), -(-len(texts) // MOST_TICKS))
    return places, [
        texts[i].replace("$", r"\$") for i in places.tolist()
    ]  # between two dollars matplotlib reads mathematics
