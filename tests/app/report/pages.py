"""Pages of the report: cases to render, and a reader of what was rendered."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any, NamedTuple

import numpy as np

from snapimpute.app.report import page
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.data.observations import Observations
from snapimpute.estimator import evaluation as evaluations
from snapimpute.estimator.evaluation import Evaluation
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.proximal.expert import Proximal

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<b>bold</b> & 'quoted' \"twice\"",
    "naïve — 日本語 \u202eabc",
    "<!-- <script>",
    "&lt;b&gt;",
    "%{x} $y$ var(--ink)",
    "line\u2028break\nand tab\t",
    "x" * 300,
]
SECTIONS = ["read", "headline", "choice", "convergence", "scores", "confusion", "reliability"]
SECTIONS += ["table", "doubts", "settings"]
READ = [("file", "films.csv"), ("delimiter", "semicolon")]
SETTINGS = {
    "command": "snapimpute complete films.csv",
    "python": "import snapimpute",
    "seed": 7,
    "versions": {"a": "1"},
}


class Case(NamedTuple):
    imputer: SnapImputer
    observations: Observations
    evaluation: Evaluation

    def render(self, **options: Any) -> str:
        return page.render(*self, **{"read": READ, "settings": SETTINGS, **options})


def made(observations: Observations, alphabet: Any, **params: Any) -> Case:
    """A case of the proximal expert at given strengths, which is fast; ``method`` asks for others."""
    if "method" not in params:
        names = {name for name in params if name in Proximal().get_params() and name != "decide"}
        strengths = {"lam": 1.0, "xi": 0.01, "center": "mean", "tol": 1e-3}
        params["method"] = Proximal(**strengths | {name: params.pop(name) for name in names})
    imputer = SnapImputer(alphabet, **params).fit(observations)
    return Case(imputer, observations, evaluations.check(observations, imputer))


def ratings(shape: tuple[int, int] = (24, 16), observed: float = 0.7, alphabet: str = "1:5") -> Observations:
    return low_rank_alphabet(shape, rank=2, alphabet=alphabet, observed=observed, random_state=3).observations


def named(observations: Observations, rows: list[str] | None, cols: list[str] | None) -> Observations:
    """The same cells with labels, repeated as often as needed."""
    m, n = observations.shape
    labels = [None if some is None else [f"{some[i % len(some)]} {i}" for i in range(k)]
              for some, k in ((rows, m), (cols, n))]  # fmt: skip
    cells = observations.rows, observations.cols, observations.values
    return Observations.from_coo(*cells, observations.shape, row_labels=labels[0], col_labels=labels[1])


KINDS: list[Any] = [["low", "mid", "high"], "1:5", None, ["n", "y"]]


def mixed(cols: int = 12, labels: bool = True, kinds: list[Any] = KINDS) -> tuple[Observations, list[Any]]:
    """A table whose columns have labels, numbers, any numbers and yes or no in turn, and what they can hold."""
    rng = np.random.default_rng(5)
    hidden = rng.standard_normal((40, 2)) @ rng.standard_normal((2, cols)) + 0.3 * rng.standard_normal((40, cols))
    spec = [kinds[j % len(kinds)] for j in range(cols)]
    for j, kind in enumerate(spec):
        if kind is not None:
            alphabet = Alphabet.of(kind)
            at = np.quantile(hidden[:, j], np.linspace(0, 1, len(alphabet) + 1)[1:-1])
            hidden[:, j] = alphabet.symbols[np.searchsorted(at, hidden[:, j])]
    hidden[rng.random(hidden.shape) < 0.25] = np.nan
    table = Observations.from_dense(hidden)
    return (named(table, HOSTILE, HOSTILE[::-1]) if labels else table), spec


plotly_js = page.plotly_js


class Reader(HTMLParser):
    """Collects tags with their attributes, and the text of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style", "td", "th", "title", "dd", "pre", "span", "option"):
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            self.texts[tag][-1] += data

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.texts["script"][0])

    @property
    def policy(self) -> str:
        return next(a["content"] for _, a in self.tags if a.get("http-equiv") == "Content-Security-Policy")


def prose(html: str) -> str:
    """What a reader sees without the scripts."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", bare).split())
