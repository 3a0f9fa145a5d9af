"""Draw the figures of the recovery study and of the penalties, each into one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from reproduction.recovery import CONTROLS, METHODS, SOURCES, Line
from snapimpute.app.report.figures import save
from snapimpute.base.types import Array
from snapimpute.data.alphabet import Alphabet
from snapimpute.penalties import CellPenalty
from snapimpute.views.plots import AWARE, BASELINE, PLAIN

STUDY_COLOURS = ["#e377c2", "#9467bd", "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e"]


def recovery(path: Path, lines: Sequence[Line]) -> None:
    """Draw error rate, gain over ξ = 0, squared error relative to it and exact recovery by the share observed."""
    sources = list(dict.fromkeys(line.source for line in lines))
    methods = list(dict.fromkeys(line.method for line in lines))
    figure = Figure(figsize=(4.2 * len(sources), 12), layout="constrained")
    axes = figure.subplots(4, len(sources), squeeze=False, sharex="col")
    for (error, gain, square, exact), source in zip(axes.T, sources, strict=True):
        for method in methods:
            mine = [line for line in lines if (line.source, line.method) == (source, method)]
            shares = np.array([100 * line.share for line in mine])
            style = _study_style(method)
            error.plot(shares, [100 * line.error for line in mine], **style)
            gains = 100 * np.array([[line.gain, line.gain_se] for line in mine]).T
            ratios = np.array([[line.square_ratio, line.square_ratio_se] for line in mine]).T
            gain.errorbar(shares, *gains, **style)
            square.errorbar(shares, *ratios, **style)
            exact.plot(shares, [100 * line.exact for line in mine], **style)
        error.set_title(SOURCES[source].title, fontsize=10)
        square.set_yscale("log")
        square.set_yticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
        square.minorticks_off()
        exact.set(xscale="log", xticks=shares, xticklabels=[f"{share:g}" for share in shares], ylim=(-5, 105))
        exact.set_xlabel("per cent observed")
        exact.minorticks_off()
        for axis in (error, gain, square, exact):
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("hidden entries predicted wrongly, %")
    axes[1, 0].set_ylabel("fewer than with ξ = 0, points (± s.e.)")
    axes[2, 0].set_ylabel("squared error relative to ξ = 0 (± s.e.)")
    axes[3, 0].set_ylabel("exact recovery, % of seeds")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    save(figure, path)


def _study_style(method: str) -> dict[str, Any]:
    """Controls dashed, in black, greys and brown; discrete penalties in colour."""
    control = method in CONTROLS
    same = [m.label for m in METHODS if (m.label in CONTROLS) == control]
    number = same.index(method) if method in same else len(same)
    colours = ["black", "#b5b5b5", "#7d7d7d", "#a08060", "#55557a"] if control else STUDY_COLOURS
    return {
        "label": method,
        "color": colours[number % len(colours)],
        "ls": "--" if control else "-",
        "lw": 1.5,
        "marker": "os^DvX*P"[number % 8],
        "ms": 4,
    }


def penalties(path: Path, alphabet: Alphabet, shown: Mapping[str, CellPenalty]) -> None:
    """Draw the value, the envelope, the prox and the pull of penalties, with the symbols marked."""
    symbols = alphabet.symbols
    margin = 0.6 * float(np.diff(symbols).min())
    x = np.linspace(symbols[0] - margin, symbols[-1] + margin, 4001)
    figure = Figure(figsize=(2.2 * len(shown), 6.4), layout="constrained")
    axes = figure.subplots(3, len(shown), sharex=True, squeeze=False)
    for (value, prox, pull), (title, penalty) in zip(axes.T, shown.items(), strict=True):
        envelope, moved = penalty.envelope(x), penalty.prox(x)
        cost = penalty.value(x)
        low = float(envelope.min())
        value.plot(x, cost - low, color=BASELINE, lw=1.2, label="penalty")
        value.plot(x, envelope - low, color=AWARE, lw=1.8, label="envelope")
        on_symbols = penalty.value(symbols) - low
        value.plot(symbols, on_symbols, "o", color="#555555", ms=3)
        value.set_title(title, fontsize=10)
        prox.plot(x, x, color=BASELINE, lw=1)
        prox.plot(x, _broken(x, moved), color=AWARE, lw=1.6)
        pull.axhline(0, color=BASELINE, lw=1)
        pull.plot(x, _broken(x, moved) - x, color=PLAIN, lw=1.6)
        for axis in (value, prox, pull):
            for a in symbols:
                axis.axvline(a, color="#888888", lw=0.6, ls=":")
            axis.set_xticks(symbols, [f"{a:g}" for a in symbols])
            axis.tick_params(labelsize=8)
        prox.set_yticks(symbols, [f"{a:g}" for a in symbols])
    axes[0, 0].legend(frameon=False, fontsize=8)
    for axis, label in zip(axes[:, 0], ("cost less its minimum", "prox(y)", "pull: prox(y) − y"), strict=True):
        axis.set_ylabel(label)
    for axis in axes[2]:
        axis.set_xlabel("y", fontsize=9)
    save(figure, path)


def _broken(x: Array, y: Array) -> Array:
    """The curve with a gap where it jumps."""
    out = y.copy()
    out[1:][np.abs(np.diff(y)) > 10 * (x[1] - x[0])] = np.nan
    return out
