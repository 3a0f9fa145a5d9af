"""The data of figures: matplotlib and plotly draw the same numbers, and every number is that of its source."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snapimpute.app.report import _bars as named_bars
from snapimpute.app.report import _charts as charts
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.estimator.evaluation import Evaluation, evaluate
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.blend import ExpertScore
from snapimpute.experts.proximal.expert import Proximal
from snapimpute.experts.proximal.tuning import Candidate, Choice
from snapimpute.views import plots
from snapimpute.views.figures import (
    Confusion,
    Convergence,
    ExpertScores,
    Series,
    TuningScores,
    WayScores,
    names,
    reliability_of,
)


@pytest.fixture(scope="module")
def imputer() -> SnapImputer:
    data = low_rank_alphabet((40, 30), rank=2, alphabet="1:3", observed=0.6, random_state=2)
    return SnapImputer("1:3", method="proximal").fit(data.observations)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    data = low_rank_alphabet((40, 30), rank=2, alphabet="1:3", observed=0.6, random_state=2)
    return evaluate(data.observations, SnapImputer("1:3", method=Proximal(lam=2.0, xi=0.0)))


@pytest.fixture(scope="module")
def blend() -> SnapImputer:
    data = low_rank_alphabet((40, 30), rank=2, alphabet="1:3", observed=0.6, random_state=2)
    return SnapImputer("1:3", method=["habits", Proximal(lam=2.0, xi=0.0)]).fit(data.observations)


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


def floats(values: Any) -> np.ndarray:
    """Numbers as an array; plotly's null is NaN."""
    return np.array(values, dtype=float)


# -------------------------------------------------------------------- both draw the same
def test_both_draw_the_same_tuning(imputer, ax):
    """Curves with their errors, the map and the place of the chosen pair."""
    found = TuningScores.of(imputer)
    plots.plot_path(imputer, ax)
    *lines, ring = charts.curves(found)["data"]
    for container, line in zip(ax.containers, lines, strict=True):
        np.testing.assert_allclose(container.lines[0].get_ydata().astype(float), line["y"], rtol=1e-5)
    assert ax.lines[-1].get_ydata() == ring["y"]
    assert ax.get_ylabel() == charts.curves(found)["layout"]["yaxis"]["title"]["text"]
    image = plots.plot_surface(imputer, Figure().subplots()).images[0].get_array()
    np.testing.assert_allclose(image.filled(np.nan), floats(charts.score_map(found)["data"][0]["z"]), rtol=1e-5)


def test_both_draw_the_same_certificates(imputer, ax):
    """At the same iterations; matplotlib relative to ‖X‖."""
    plots.plot_convergence(imputer, ax)
    panels = {one["name"]: one for one in charts.convergence(Convergence.of(imputer))["data"]}
    assert ax.lines[0].get_xdata().tolist() == panels["certificate"]["x"]
    size = np.linalg.norm(imputer.singular_values_)
    np.testing.assert_allclose(ax.lines[0].get_ydata() * size, panels["certificate"]["y"], rtol=1e-5)


def test_both_draw_the_same_evaluation(evaluation, ax):
    """Bars of the ways, shares of the confusion, and points of the reliability."""
    plots.plot_scores(evaluation, ax)
    bars = named_bars.scores(WayScores.of(evaluation))["data"][0]
    np.testing.assert_allclose(sorted(bars["x"]), [one.get_width() for one in ax.patches], rtol=1e-5)
    image = plots.plot_confusion(evaluation, ax=Figure().subplots()).images[0].get_array()
    chart = charts.confusion(Confusion.of(evaluation))
    np.testing.assert_allclose(image, chart["data"][0]["z"], rtol=1e-3)
    points = plots.plot_reliability(evaluation, Figure().subplots()).collections[0].get_offsets()
    found = reliability_of(evaluation)
    assert found is not None
    dots = charts.reliability(found)["data"][1]
    np.testing.assert_allclose(100 * points, np.column_stack([dots["x"], dots["y"]]), rtol=1e-5)


def test_both_draw_the_same_experts(blend, ax):
    """Bars of the log losses from the top down, with their errors; the line is the blend."""
    plots.plot_experts(blend, ax)
    figure = named_bars.experts(ExpertScores.of(blend))
    (bars,) = figure["data"]
    np.testing.assert_allclose([one.get_width() for one in ax.patches], bars["x"], rtol=1e-5)
    assert [round(one.get_y() + one.get_height() / 2) for one in ax.patches] == bars["y"]
    names = [label.get_text() for label in ax.get_yticklabels()][::-1]
    assert [one["text"].partition("  ")[0].removeprefix("<b>").removesuffix("</b>") for one in
            figure["layout"]["annotations"]] == names  # fmt: skip
    assert ax.lines[-1].get_xdata()[0] == figure["layout"]["shapes"][0]["x0"] == blend.verdict_.loss


# -------------------------------------------------------------------- each number
def test_scores_of_experts_are_those_of_the_fit(blend):
    """Losses, errors and weights in the order of the weights; experts without a score stand apart."""
    found = ExpertScores.of(blend)
    scored = [one for one in blend.experts_ if np.isfinite(one.loss)]
    assert found.names == [one.name for one in scored]
    np.testing.assert_array_equal(found.losses, [one.loss for one in scored])
    np.testing.assert_array_equal(found.errors, [one.error for one in scored])
    np.testing.assert_array_equal(found.weights, [one.weight for one in scored])
    assert (found.loss, found.cells) == (blend.verdict_.loss, blend.verdict_.cells)
    assert found.texts == [f"weight {one.weight:.2f}" if one.weight else "left out" for one in scored]
    reason = ExpertScore("mosaic", np.nan, np.nan, np.nan, 0.0, 0.0, 0, "few cells are known")
    more = SimpleNamespace(fit_=replace(blend.fit_, scores=(*blend.experts_, reason)))
    assert ExpertScores.of(more).others == {"mosaic": "few cells are known"}
    assert ExpertScores.of(more).names == found.names


def test_figures_of_another_method_are_refused_in_words(imputer, blend):
    """The error names the method that was fitted, and the one that has such a figure."""
    with pytest.raises(
        ValueError, match=r'only the proximal expert tunes λ and ξ.*a blend.*method="proximal"; plot_ex'
    ):
        TuningScores.of(blend)
    with pytest.raises(ValueError, match="only the proximal expert minimises an objective"):
        Convergence.of(blend)
    with pytest.raises(
        ValueError, match=r'only a blend compares experts, and this was fitted by proximal alone.*"auto"'
    ):
        ExpertScores.of(imputer)
    with pytest.raises(ValueError, match="only a blend compares experts: fit with"):
        ExpertScores.of(SnapImputer("1:3"))
    few = SnapImputer("1:3", method=["habits", "proximal"]).fit([[1, 2, 3], [3, 2, 1], [1, 2, None]])
    with pytest.raises(ValueError, match="no expert has a score: too few cells"):
        ExpertScores.of(few)


def test_curves_and_map_hold_the_same_scores():
    """A pair that was not tried is NaN in the map and missing from its curve; per cent for wrong symbols only."""
    tried = [Candidate(2, 0, 0.2, 3, 9, 0.01), Candidate(1, 0, 0.3, 4, 9), Candidate(2, 0.1, 0.1, 2, 9)]
    found = TuningScores.of(Choice(tried[2], tuple(tried), "error"))
    np.testing.assert_allclose(found.grid, [[30, 20], [np.nan, 10]])
    assert [one.xi for one in found.curves] == [0, 0.1]
    first = found.curves[0]
    np.testing.assert_allclose(np.array(first.columns), [[1, 2], [30, 20], [0, 1], [4, 3]])
    assert (found.lam, found.xi, found.score, found.place) == (2, 0.1, 10, (1, 1))
    other = TuningScores.of(Choice(tried[2], tuple(tried), "rmse"))
    assert (other.score, other.percent, found.percent) == (0.1, False, True)


def test_only_finite_values_of_a_history_are_kept():
    """Iterations without a number are left out of their series, and of no other."""
    history = {"iteration": np.arange(1, 4), "objective": np.array([3.0, 2.0, 1.0]), "rank": np.array([1, 2, 2])}
    found = Convergence.from_history(history | {"certificate": np.array([np.inf, np.nan, 0.5])})
    assert found.certificate.iteration.tolist() == [3]
    assert (len(found.certificate), len(found.objective), found.count) == (1, 3, 3)
    assert found.relative.tolist() == [0.5]
    np.testing.assert_array_equal(Series.of(history, "rank").values, [1, 2, 2])


def test_shares_recall_and_the_most_frequent_symbols():
    """Rows without a cell have no share; the symbols met least are dropped, in rows and columns."""
    found = Confusion.of([[6, 2, 0], [0, 0, 0], [1, 0, 1]], ["a", "b", "c"])
    np.testing.assert_array_equal(found.share, [[0.75, 0.25, 0], [np.nan] * 3, [0.5, 0, 0.5]])
    np.testing.assert_array_equal(found.recall, [0.75, np.nan, 0.5])
    few = found.most_frequent(2)
    assert (few.names, few.counts.tolist()) == (["a", "c"], [[6, 0], [1, 1]])


def test_ways_stand_from_the_worst_to_the_best(evaluation):
    """The largest share of right symbols comes last, with its own name and kind."""
    found = WayScores.of(evaluation)
    last = found.best_last
    assert found.kinds[0] == "ours"
    assert last.values.tolist() == sorted(found.values)
    both = [zip(one.names, one.kinds, one.values.tolist(), strict=True) for one in (last, found)]
    assert sorted(both[0]) == sorted(both[1])


def test_symbols_keep_all_their_digits():
    """Two symbols that differ in the seventh digit have different names."""
    assert names(plots.Alphabet.of([1.0000001, 1.0000002])) == ["1.0000001", "1.0000002"]
