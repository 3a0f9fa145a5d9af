"""Pictures for notebooks: each draws the numbers it was given into the axes it was given, and says what they are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

import snapimpute as si
from snapimpute import Observations, SnapImputer
from snapimpute.app.report import figures
from snapimpute.estimator.evaluation import Evaluation, evaluate
from snapimpute.evaluation.metrics import Reliability
from snapimpute.experts.proximal.expert import Proximal
from snapimpute.experts.proximal.tuning import Candidate, Choice, ModelSpec
from snapimpute.views import plots

LABELS = ["$low$", "mid", "$high"]


@pytest.fixture
def ax() -> Iterator[Axes]:
    """Axes of a figure that no window knows, drawn at the end: what cannot be drawn fails."""
    axes = Figure(layout="constrained").subplots()
    yield axes
    axes.figure.canvas.draw()


@pytest.fixture(scope="module")
def known() -> Observations:
    data = si.datasets.low_rank_alphabet(
        (60, 50), rank=2, alphabet="0,1", kind="blocks", observed=0.4, random_state=0
    )
    return data.observations


@pytest.fixture(scope="module")
def choice(known) -> Choice:
    return si.tuning.path(known, ModelSpec(si.Alphabet.of("0,1")), lam=[8, 4, 2, 1], xi=[0, 0.01, 0.03])


@pytest.fixture(scope="module")
def imputer(known) -> SnapImputer:
    return SnapImputer("0,1", method=Proximal(lam=3.0, xi=0.0, center="mean")).fit(known)


@pytest.fixture(scope="module")
def blend(known) -> SnapImputer:
    return SnapImputer("0,1", method=["habits", Proximal(lam=3.0, xi=0.0)]).fit(known)


@pytest.fixture(scope="module")
def mixed() -> tuple[pd.DataFrame, SnapImputer]:
    """Ratings, labels with signs of mathematics in them, and any numbers; and a fit to them."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 7))
    frame = pd.DataFrame({f"q{j}": np.clip(np.round(3 + z[:, j]), 1, 5) for j in range(3)})
    for j in range(3):
        codes = np.clip(np.round(1 + z[:, 3 + j]), 0, 2).astype(int)
        frame[f"l{j}"] = pd.Series(np.array(LABELS, dtype=object)[codes], dtype=object)
    frame["age"] = 40 + 10 * z[:, 6]
    frame = frame.mask(rng.random(frame.shape) < 0.3)
    alphabet = {f"q{j}": "1:5" for j in range(3)} | {f"l{j}": LABELS for j in range(3)}
    return frame, SnapImputer(alphabet, method=Proximal(lam=0.5, xi=0.0)).fit(frame)


@pytest.fixture(scope="module")
def evaluation(known) -> Evaluation:
    return evaluate(known, SnapImputer("0,1", method=Proximal(lam=3.0, xi=0.0)))


@pytest.fixture(scope="module")
def mixed_evaluation(mixed) -> Evaluation:
    _, imputer = mixed
    return evaluate(imputer._observed, SnapImputer(imputer.alphabet_, method=Proximal(lam=0.5, xi=0.0)))


# -------------------------------------------------------------------- tuning
def test_path_has_a_curve_for_each_xi_and_a_ring(choice, ax):
    """Every candidate stands at its λ with its score and its standard error; the chosen pair is ringed and named."""
    assert plots.plot_path(choice, ax) is ax
    assert ax.get_xscale() == "log"
    for container, xi in zip(ax.containers, [0, 0.01, 0.03], strict=True):
        some = sorted((one for one in choice.tried if one.xi == xi), key=lambda one: one.lam)
        line, _, (bars,) = container.lines
        np.testing.assert_allclose(line.get_xdata().astype(float), [one.lam for one in some])
        np.testing.assert_allclose(line.get_ydata().astype(float), [100 * one.score for one in some])
        heights = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
        np.testing.assert_allclose(heights, [200 * one.error for one in some])
    (ring,) = [line for line in ax.lines if str(line.get_label()).startswith("chosen")]
    np.testing.assert_allclose(ring.get_xydata(), [[choice.lam, 100 * choice.best.score]])
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == ["ξ = 0", "ξ = 0.01", "ξ = 0.03", f"chosen: λ = {choice.lam:.3g}, ξ = {choice.xi:.3g}"]
    assert "%" in ax.get_ylabel()


@pytest.mark.parametrize(("metric", "word"), [("mae", "absolute"), ("rmse", "squared")])
def test_other_scores_are_drawn_in_their_units(ax, metric, word):
    """Distances are not percentages; a penalty that brings its own λ, which counts as 0, is no problem."""
    best = Candidate(0.0, 0.0, 0.7, 3, 10, 0.1)
    plots.plot_path(Choice(best, (best,), metric), ax)
    assert ax.get_xscale() == "linear"
    assert word in ax.get_ylabel()
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), [0.7])


def test_surface_is_the_surface_of_the_choice(choice, ax):
    """Scores stand at λ across and ξ upwards, pairs that were not tried are masked, and the ring is on the chosen."""
    less = Choice(choice.best, tuple(one for one in choice.tried if (one.lam, one.xi) != (8, 0.03)), choice.metric)
    assert plots.plot_surface(less, ax) is ax
    image = ax.images[0].get_array()
    lams, xis, scores = less.surface()
    np.testing.assert_array_equal(image.mask, np.isnan(scores.T))
    assert image.mask.sum() == 1
    np.testing.assert_allclose(image.filled(np.nan), 100 * scores.T)
    (x,), (y,) = ax.lines[0].get_data()
    assert (lams[int(x)], xis[int(y)]) == (choice.lam, choice.xi)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "2", "4", "8"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "0.01", "0.03"]


@pytest.mark.parametrize("draw", [plots.plot_path, plots.plot_surface])
def test_an_imputer_shows_its_choice(known, imputer, draw, ax):
    """A tuned imputer is drawn by what it tried; one that tuned nothing says so."""
    tuned = SnapImputer("0,1", method=Proximal(center="mean", xi=0.0)).fit(known)
    draw(tuned, ax)
    draw(tuned.choice_, other := Figure().subplots())
    for mine, theirs in zip(ax.lines, other.lines, strict=True):
        np.testing.assert_array_equal(mine.get_xydata(), theirs.get_xydata())
    with pytest.raises(ValueError, match="nothing was tuned"):
        draw(imputer)
    with pytest.raises(TypeError, match="got int"):
        draw(3)


def test_a_path_is_written_without_a_window(choice, tmp_path):
    """The command line writes the same picture to a file, and pyplot keeps no figure of it."""
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    figures.tuning(tmp_path / "path.svg", choice)
    assert "ξ = 0.03" in (tmp_path / "path.svg").read_text(encoding="utf-8")
    assert plt.get_fignums() == before


# -------------------------------------------------------------------- a fit
def test_convergence_is_the_certificate_relative_to_the_matrix(known, imputer, ax):
    """The same for a result and an imputer with the same fit; the title says why and when it ended."""
    result = si.solve(si.Problem(known, si.Nuclear(3.0)), max_iter=30)
    assert plots.plot_convergence(result, ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), result.history["iteration"])
    expected = result.history["certificate"] / np.linalg.norm(result.x.s)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected)
    assert ax.get_yscale() == "log"
    assert ax.get_title() == f"{result.status.code} after {result.n_iter} iterations"
    other = plots.plot_convergence(imputer, Figure().subplots())
    np.testing.assert_allclose(
        other.lines[0].get_ydata(), imputer.history_["certificate"] / np.linalg.norm(imputer.singular_values_)
    )
    with pytest.raises(TypeError, match="fitted SnapImputer"):
        plots.plot_convergence(SnapImputer("0,1", method="proximal"))


def test_convergence_without_a_certificate_is_the_objective(known, ax):
    """Where no iteration has a certificate, the objective is drawn, and the axis says so."""
    result = si.solve(si.Problem(known, si.Nuclear(3.0)), max_iter=5, tol=0.0)
    result.history["certificate"][:] = np.nan
    plots.plot_convergence(result, ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), result.history["objective"])
    assert ax.get_ylabel() == "objective"


# -------------------------------------------------------------------- an evaluation
def test_reliability_shows_every_bin(ax):
    """Points at confidence and accuracy, larger where there are more cells, beside the diagonal."""
    found = Reliability(np.array([0.6, 0.9]), np.array([0.5, 0.95]), np.array([10, 30]))
    assert plots.plot_reliability(found, ax) is ax
    points = ax.collections[0]
    np.testing.assert_allclose(points.get_offsets(), [[0.6, 0.5], [0.9, 0.95]])
    assert np.diff(points.get_sizes())[0] > 0
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0, 0], [1, 1]])
    assert f"{found.error:.3f}" in ax.get_title()


def test_reliability_takes_an_evaluation_with_probabilities(mixed_evaluation, known, ax):
    """All kinds of columns together; without probabilities an error says why there are none."""
    plots.plot_reliability(mixed_evaluation, ax)
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 0], mixed_evaluation.reliability().confidence)
    nearest = evaluate(known, SnapImputer("0,1", method=Proximal(lam=3.0, xi=0.0), decide="nearest"))
    with pytest.raises(ValueError, match="no probabilities"):
        plots.plot_reliability(nearest)


def test_confusion_of_counts(ax):
    """Shares of each row as shades, counts as text, symbols by name; a symbol that never was is grey."""
    counts = np.array([[6, 2, 0], [0, 0, 0], [1, 0, 1]])
    assert plots.plot_confusion(counts, LABELS, ax) is ax
    image = ax.images[0].get_array()
    np.testing.assert_allclose(image[0], [0.75, 0.25, 0])
    assert image.mask.tolist() == [[False] * 3, [True] * 3, [False] * 3]
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written == {(j, i): str(counts[i, j]) for i in range(3) for j in range(3)}
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [r"\$low\$", "mid", r"\$high"]  # drawn as dollars, not as mathematics
    assert ax.get_title() == "7 of 10 cells right"


def test_confusion_of_an_evaluation(evaluation, mixed_evaluation, ax):
    """The counts of one alphabet, by default the first; columns of any numbers have none."""
    plots.plot_confusion(evaluation, ax=ax)
    assert sum(int(text.get_text().replace(",", "")) for text in ax.texts) == len(evaluation.hidden)
    for kind, alphabet in enumerate(mixed_evaluation.schema.kinds):
        if alphabet is None:
            with pytest.raises(ValueError, match="any numbers"):
                plots.plot_confusion(mixed_evaluation, kind=kind)
            continue
        other = plots.plot_confusion(mixed_evaluation, ax=Figure().subplots(), kind=kind)
        counts = mixed_evaluation.confusion(kind)
        assert [text.get_text() for text in other.texts] == [str(count) for count in counts.ravel()]
    with pytest.raises(TypeError, match="counts and their alphabet"):
        plots.plot_confusion(np.eye(2))
    with pytest.raises(ValueError, match=r"expected counts of shape \(5, 5\)"):
        plots.plot_confusion(np.eye(2), "1:5")


def test_confusion_of_many_symbols_stays_readable(ax):
    """With a hundred symbols there is no text in the cells, and not a name for each."""
    plots.plot_confusion(np.eye(100, dtype=int), "1:100", ax)
    assert len(ax.texts) == 0
    assert 5 < len(ax.get_xticks()) <= plots.MOST_TICKS


def test_scores_are_bars_with_the_best_on_top(evaluation, ax):
    """One bar for each way, as long as its share of right symbols, coloured by its kind, with its standard error."""
    assert plots.plot_scores(evaluation, ax) is ax
    ways = sorted(evaluation.ways, key=lambda way: way.exact)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [100 * way.exact for way in ways])
    assert [text.get_text() for text in ax.get_yticklabels()] == [way.label for way in ways]
    colours = {"ours": plots.AWARE, "rounding": plots.PLAIN, "baseline": plots.BASELINE}
    assert [bar.get_facecolor() for bar in ax.patches] == [to_rgba(colours[way.kind]) for way in ways]
    spans = [np.ptp(bars.get_segments()[0][:, 0]) for bars in ax.collections]
    np.testing.assert_allclose(spans, [200 * way.error for way in ways])


def test_scores_without_an_alphabet_are_distances(ax):
    """Where columns hold any numbers there is no right symbol: squared errors are drawn, the smallest on top."""
    X = np.random.default_rng(0).standard_normal((30, 4))
    found = evaluate(Observations.from_dense(X), SnapImputer([None] * 4, method=Proximal(lam=0.5, discrete=None)))
    plots.plot_scores(found, ax)
    lengths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(lengths, sorted((way.rmse for way in found.ways), reverse=True))
    assert "squared" in ax.get_xlabel()


# -------------------------------------------------------------------- a table
def test_matrix_of_known_cells(known, ax):
    """Known cells keep their symbols in another order of rows and columns, missing ones are masked."""
    assert plots.plot_matrix(known, ax=ax) is ax
    image = ax.images[0].get_array()
    table = np.full(known.shape, -1.0)
    table[known.rows, known.cols] = known.values
    order = plots.seriation(np.where(table < 0, np.nan, table))
    np.testing.assert_array_equal(image.filled(-1), table[np.ix_(*order)])
    assert ax.get_title() == f"known: {100 * known.density:.1f} % of the cells"


def test_the_order_brings_blocks_together():
    """Two mixed blocks come apart: after ordering, rows and columns change their symbol once."""
    rng = np.random.default_rng(1)
    one, two = rng.permutation(np.repeat([0, 1], 10)), rng.permutation(np.repeat([0, 1], 15))
    table = np.where(one[:, None] == two, 1.0, 0.0)
    table[rng.random(table.shape) < 0.3] = np.nan
    rows, cols = plots.seriation(table)
    assert np.abs(np.diff(one[rows])).sum() == np.abs(np.diff(two[cols])).sum() == 1
    assert [order.size for order in plots.seriation(np.full((2, 3), np.nan))] == [2, 3]


def test_matrix_before_and_after(known, imputer, ax):
    """Completed, no cell is missing and known ones are kept; before, the same order shows the known ones alone."""
    plots.plot_matrix(known, imputer, ax)
    after = ax.images[0].get_array()
    before = plots.plot_matrix(known, imputer, Figure().subplots(), completed=False).images[0].get_array()
    assert not np.ma.getmaskarray(after).any()
    assert (~before.mask).sum() == len(known)
    np.testing.assert_array_equal(after[~before.mask], before[~before.mask])
    whole = imputer.predict(*np.indices(known.shape))
    whole[known.rows, known.cols] = known.values
    np.testing.assert_array_equal(after, whole[np.ix_(*plots.seriation(whole))])
    assert ax.get_title() == "completed"
    with pytest.raises(ValueError, match=r"fitted to a table of shape \(60, 50\)"):
        plots.plot_matrix(np.ones((3, 50)), imputer)
    with pytest.raises(NotFittedError):
        plots.plot_matrix(known, SnapImputer("0,1", method="proximal"))


@pytest.mark.parametrize("show", ["known", "completed"])
def test_matrix_of_several_alphabets(mixed, ax, show):
    """Each column runs from its lowest symbol to its highest, labels and any numbers too."""
    frame, imputer = mixed
    plots.plot_matrix(frame, imputer, ax, completed=show == "completed")
    image = ax.images[0].get_array()
    assert 0 <= image.min() < image.max() <= 1
    assert np.ma.getmaskarray(image).sum() == (frame.isna().sum().sum() if show == "known" else 0)
    levels = sorted((set(column.compressed().tolist()) for column in image.T), key=len)
    assert all(found <= {0, 0.5, 1} for found in levels[:3])  # labels
    assert all(found <= {0, 0.25, 0.5, 0.75, 1} for found in levels[3:6])  # ratings
    assert len(levels[6]) > 20


def test_matrix_of_labels(ax):
    """A table of one set of labels has a colour for each, named beside the picture."""
    frame = pd.DataFrame({"a": LABELS * 2, "b": LABELS[::-1] * 2})
    plots.plot_matrix(frame, ax=ax, alphabet=LABELS)
    assert set(ax.images[0].get_array().compressed().tolist()) == {0, 1, 2}
    bar = ax.figure.axes[1]
    assert [text.get_text() for text in bar.get_yticklabels()] == [r"\$low\$", "mid", r"\$high"]


def test_a_large_table_is_shown_in_part(known, imputer, ax):
    """No more rows and columns than asked for, spread over the table; the title tells, and the density is of all."""
    plots.plot_matrix(known, imputer, ax, most=20, completed=False)
    assert ax.images[0].get_array().shape == (20, 20)
    assert ax.get_title() == f"known: {100 * known.density:.1f} % of the cells\n20 of 60 rows, 20 of 50 columns"
    picked = plots._spread(np.arange(60), 20)
    assert (picked[0], picked[-1], np.unique(picked).size) == (0, 59, 20)
    with pytest.raises(ValueError, match="at least 1"):
        plots.plot_matrix(known, most=0)


# -------------------------------------------------------------------- matplotlib
def test_given_axes_need_no_window_and_new_ones_are_shown(evaluation):
    """pyplot knows of a figure only where no axes were given."""
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    plots.plot_scores(evaluation, Figure().subplots())
    assert plt.get_fignums() == before
    axes = plots.plot_scores(evaluation)
    assert plt.get_fignums() == [*before, axes.figure.number]
    plt.close(axes.figure)


def test_experts_have_their_weights_beside_them(blend, ax):
    """A bar for each, coloured if it has a weight; the axis says what is drawn, on how many cells."""
    assert plots.plot_experts(blend, ax) is ax
    weights = {one.name: one.weight for one in blend.experts_}
    labels = [label.get_text() for label in ax.get_yticklabels()][::-1]
    for name, bar, text in zip(labels, ax.patches, ax.texts, strict=True):
        assert bar.get_facecolor() == to_rgba(plots.AWARE if weights[name] else plots.BASELINE)
        assert (f"weight {weights[name]:.2f}" if weights[name] else "left out") in text.get_text()
    assert f"{blend.verdict_.cells:,} held-out cells" in ax.get_xlabel()
    assert [one.get_text() for one in ax.get_legend().get_texts()] == [f"blend: {blend.verdict_.loss:.3f}"]


@pytest.mark.slow
def test_drawing_into_axes_does_not_load_pyplot():
    """A program that draws into its own figure gets no window system with it."""
    code = (
        "import sys; from matplotlib.figure import Figure; import snapimpute as si; "
        "si.plots.plot_confusion([[1, 0], [0, 1]], '0,1', Figure().subplots()); "
        "si.plots.plot_matrix([[1, 0], [0, None]], ax=Figure().subplots()); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.stdout.strip(), done.returncode) == ("False", 0), done.stderr


def test_without_matplotlib_an_error_says_what_to_install(monkeypatch, evaluation, choice, imputer, blend, known):
    """The module itself loads; every function that has to make axes says which extra brings matplotlib."""
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    counts = evaluation.confusion(0), "0,1"
    calls = {
        "plot_confusion": counts,
        "plot_convergence": (imputer,),
        "plot_experts": (blend,),
        "plot_matrix": (known,),
        "plot_path": (choice,),
        "plot_reliability": (evaluation,),
        "plot_scores": (evaluation,),
        "plot_surface": (choice,),
    }
    assert sorted(calls) == sorted(plots.__all__)
    for name, arguments in calls.items():
        with pytest.raises(ImportError, match=r'pip install "snapimpute\[app\]"'):
            getattr(si.plots, name)(*arguments)


def test_the_style_of_the_reader_is_kept(choice, ax):
    """Nothing is written to matplotlib's settings."""
    before = dict(mpl.rcParams)
    plots.plot_path(choice, ax)
    plots.plot_surface(choice, Figure().subplots())
    assert dict(mpl.rcParams) == before
