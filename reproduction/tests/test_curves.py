"""The paper's two figures: its methods as it draws them, arrows with the gain, controls in the same axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="pictures are an optional extra")
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from reproduction import curves, paper
from reproduction.paper import Score


@pytest.fixture
def drawn(monkeypatch) -> list[Figure]:
    """The figures that are saved."""
    found: list[Figure] = []
    monkeypatch.setattr(curves, "save", lambda figure, path: found.append(figure))
    return found


def scores(methods: list[str]) -> Iterator[Score]:
    """Two seeds at the three shares, lower with the place in the list."""
    for i, method in enumerate(methods):
        for share in paper.OTHER_SHARES:
            for seed in (0, 1):
                nmse = 0.12 - 0.001 * i - 0.01 * share + 1e-4 * seed
                yield Score("d", share, seed, method, nmse, 1.0, 1.0, 0.4, nmse + 0.01, 1.0)


@pytest.fixture
def figure(drawn, tmp_path) -> Figure:
    """Figure 1 of all methods."""
    lines = paper.summarise(list(scores([*paper.BASELINES, *paper.METHODS])))
    curves.shares(tmp_path / "fig1", lines, "title")
    return drawn[0]


def labels(axes: Any) -> list[str]:
    return axes.get_legend_handles_labels()[1]


def test_every_method_has_a_curve_in_the_panel_of_its_kind(figure):
    """Three panels; in the first the controls that matter most, in the others the paper's discrete-aware methods."""
    for axes, kind in zip(figure.axes, curves.PANELS, strict=True):
        own = {label for label, method in paper.METHODS.items() if method.kind == kind}
        assert own <= set(labels(axes))
        assert len(labels(axes)) == len(set(labels(axes)))
        beside = curves.LEVELS if kind == "paper" else curves.PAIRS
        assert set(beside) <= set(labels(axes))
    assert set(paper.BASELINES) <= set(labels(figure.axes[1]))


def test_arrows_lead_from_the_plain_method_to_the_discrete_aware_one(figure):
    """Two at each share that all methods have, from one mean to the other, with the gain beside."""
    arrows = [text for text in figure.axes[0].texts if isinstance(text, Annotation)]
    words = [text for text in figure.axes[0].texts if not isinstance(text, Annotation)]
    assert len(arrows) == len(words) == len(curves.PAIRS) * len(paper.OTHER_SHARES)
    order = [*paper.BASELINES, *paper.METHODS]
    steps = [order.index(aware) - order.index(plain) for aware, plain in curves.PAIRS.items()]
    for arrow, word, step in zip(arrows, words, np.repeat(steps, len(paper.OTHER_SHARES)), strict=True):
        (_, low), (_, high) = arrow.xy, arrow.xyann
        assert high - low == pytest.approx(0.001 * step)
        assert word.get_text() == f"−{0.001 * step:.4f}"
    assert [len(axes.texts) for axes in figure.axes[1:]] == [0, 0]


@pytest.mark.parametrize("methods", [["constant mean"], ["AIS-Impute", "L0"]])
def test_without_a_kind_its_panel_is_left_out(drawn, tmp_path, methods):
    """A part of the methods makes as many panels as they are of kinds, without a warning."""
    lines = [line for line in paper.summarise(list(scores(methods))) if line.method in methods]
    curves.shares(tmp_path / "fig1", lines, "title")
    assert len(drawn[0].axes) == len(methods)


def test_no_legend_covers_a_curve(figure):
    """Legends stand below the axes, and every word inside of the figure."""
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        legend, frame = axes.get_legend().get_window_extent(), axes.get_window_extent()
        assert legend.y1 < frame.y0
        assert legend.y0 >= 0
        for text in axes.texts:
            if text.get_text():
                assert frame.x0 < text.get_window_extent().x0
                assert text.get_window_extent().x1 < frame.x1


def test_the_papers_discrete_aware_methods_are_red(figure):
    """The paper's own methods are red, as in the paper, the others black and grey."""
    colours = {bars.get_label(): bars.lines[0].get_color() for bars in figure.axes[0].containers}
    for label, method in paper.METHODS.items():
        if method.kind == "paper":
            red, green, blue = (int(curves.mpl.colors.to_hex(colours[label])[i : i + 2], 16) for i in (1, 3, 5))
            assert (red > green + 50 and red > blue + 50) == (method.discrete is not None)


def test_iterations_stand_beside_the_levels_of_the_controls(drawn, tmp_path):
    """A curve for each method that has one, a line for each control, and ticks that can be read."""
    curve = tuple(np.geomspace(1, 0.08, 30)) + (0.08,) * 170
    found = [
        replace(one, curve=curve if one.method in curves.LOOKS else None)
        for one in scores([*paper.BASELINES, *paper.METHODS])
        if one.share == paper.FEW
    ]
    curves.iterations(tmp_path / "fig2", found, "title")
    (axes,) = drawn[0].axes
    assert [label.split(" (")[0] for label in labels(axes)] == [*curves.LOOKS, *curves.LEVELS]
    assert sum("settled after" in label for label in labels(axes)) == len(curves.LOOKS)
    lines = {line.get_label(): line for line in axes.lines}
    mean = np.mean([one.nmse for one in found if one.method == "constant mean"])
    assert lines["constant mean (control)"].get_ydata() == pytest.approx([mean, mean])
    assert {"0.07", "0.1", "0.2", "1"} <= {label.get_text() for label in axes.get_yticklabels()}
