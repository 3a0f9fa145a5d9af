"""The two figures of the paper, drawn anew: its own methods as it draws them, and the controls in the same axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from reproduction import paper
from reproduction.claims import PAIRS
from reproduction.paper import Kind, Line, Score
from snapimpute.app.report.figures import save

PANELS: Mapping[Kind, str] = {
    "paper": "the paper's methods (discrete-aware in red)",
    "control": "controls, which know no alphabet",
    "beyond": "beyond the paper",
}
LOOKS: Mapping[str, tuple[str, str]] = {
    "Soft-Impute": ("#b0b0b0", "o"),
    "AIS-Impute": ("#777777", "s"),
    "niAPG, LSP": ("black", "D"),
    "discrete-aware nuclear": ("#ff7f6e", "^"),
    "discrete-aware nuclear, composed": ("#e8303a", "x"),
    "discrete-aware LSP": ("#8b0000", "v"),
}
"""Colour and marker of the paper's methods: red for the discrete-aware, black and grey for the others, as there."""

LEVELS: Mapping[str, str] = {
    "constant mean": "#9ecae1",
    "damped biases": "#4292c6",
    "Soft-Impute, bias-centred": "#08519c",
}
"""Controls that are drawn beside the paper's methods, and their colours."""

MARKERS = "osD^vP*X<>hd"
TICKS = (0.06, 0.07, 0.08, 0.09, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)


# ---------------------------------------------------------------- against the share observed
def shares(path: Path, lines: Sequence[Line], title: str) -> None:
    """Draw NMSE against the share observed, with arrows from plain methods to their discrete-aware ones."""
    shown = {kind: heading for kind, heading in PANELS.items() if any(line.kind == kind for line in lines)}
    figure = Figure(figsize=(1 + 5 * len(shown), 8), layout="constrained")
    figure.suptitle(title)
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, (kind, heading) in zip(panels, shown.items(), strict=True):
        mine = dict.fromkeys(line.method for line in lines if line.kind == kind)
        beside = LEVELS if kind == "paper" else PAIRS
        for method in dict.fromkeys(line.method for line in lines if line.method in beside):
            if method not in mine:
                _curve(axes, lines, method, _faint(method))
        for i, method in enumerate(mine):
            _curve(axes, lines, method, _look(method, i))
        axes.set(title=heading, xlabel="per cent of the ratings observed", xlim=(13, 67))
        axes.grid(alpha=0.3)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, fontsize=8, frameon=False)
    panels[0].set_ylabel("NMSE of the hidden ratings")
    if "paper" in shown:
        _arrows(panels[0], lines)
    save(figure, path)


def _curve(axes: Any, lines: Sequence[Line], method: str, look: Mapping[str, Any]) -> None:
    some = [line for line in lines if line.method == method]
    errors = [0.0 if np.isnan(line.error) else line.error for line in some]
    places = [100 * line.share for line in some]
    axes.errorbar(places, [line.nmse for line in some], errors, label=method, ms=5, capsize=2, **look)


def _look(method: str, i: int) -> dict[str, Any]:
    """Solid if the alphabet is known, else dashed."""
    known = paper.METHODS.get(method)
    aware = known is not None and known.discrete not in (None, "ridge")
    colour, marker = LOOKS.get(method, (mpl.colormaps["tab10"](i % 10), MARKERS[i % len(MARKERS)]))
    return {"color": colour, "marker": marker, "ls": "-" if aware else "--"}


def _faint(method: str) -> dict[str, Any]:
    """Methods of another panel, for comparison."""
    colour = LEVELS.get(method) or LOOKS[method][0]
    return {"color": colour, "ls": ":", "marker": ".", "lw": 1.2}


def _arrows(axes: Any, lines: Sequence[Line]) -> None:
    """Arrows from each plain method down to its discrete-aware one, with the gain, where all methods are run."""
    found = {(line.method, line.share): line.nmse for line in lines}
    for aside, (aware, plain) in zip((-0.45, 0.45), PAIRS.items(), strict=True):
        for share in paper.OTHER_SHARES:
            if (aware, share) not in found or (plain, share) not in found:
                continue
            place, low, high = 100 * share + aside, found[aware, share], found[plain, share]
            style = {"arrowstyle": "-|>", "color": LOOKS[aware][0], "lw": 1.1, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", (place, low), (place, high), arrowprops=style)
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
            words = {"fontsize": 8, "color": LOOKS[aware][0], "va": "center", "ha": "right" if aside < 0 else "left"}
            axes.text(place + aside, (low + high) / 2, f"{low - high:+.4f}".replace("-", "−"), bbox=box, **words)


# ---------------------------------------------------------------- against iterations
def iterations(path: Path, scores: Sequence[Score], title: str) -> None:
    """Draw NMSE against iterations, the mean over the seeds, where each curve has settled, and where controls are."""
    figure = Figure(figsize=(9, 7), layout="constrained")
    axes = figure.subplots()
    for method in dict.fromkeys(score.method for score in scores if score.curve):
        curves = [score.curve for score in scores if score.method == method and score.curve]
        mean, colour = np.mean(curves, axis=0), LOOKS[method][0]
        settled = float(np.mean([paper.settled(curve) for curve in curves]))
        label = f"{method} (settled after {paper.count_in_words(settled, mean.size)})"
        axes.semilogy(np.arange(1, mean.size + 1), mean, color=colour, label=label)
        if np.isfinite(settled):
            axes.plot(round(settled), mean[round(settled) - 1], "o", color=colour)
    for method, colour in LEVELS.items():
        level = [score.nmse for score in scores if score.method == method]
        if level:
            axes.axhline(float(np.mean(level)), color=colour, ls=":", label=f"{method} (control)")
    axes.set(xlabel="iteration", ylabel="NMSE of the hidden ratings", title=title)
    axes.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.minorticks_off()
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    save(figure, path)
