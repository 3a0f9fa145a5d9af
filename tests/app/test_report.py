"""The report of a completion: what it says, that it is safe and complete in itself, and what is shown of a table."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import clone

from snapimpute.app.report import _charts as charts
from snapimpute.app.report import _heatmap as heatmap
from snapimpute.app.report import _matrix as matrix
from snapimpute.app.report import _sections as sections
from snapimpute.app.report import _words as words
from snapimpute.app.report import page
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator import evaluation as evaluations
from snapimpute.estimator.evaluation import Evaluation
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.solvers.result import Status
from snapimpute.views.figures import Convergence, TuningScores

pytestmark = pytest.mark.slow

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
    params = {"lam": 1.0, "xi": 0.01, "center": "mean", "tol": 1e-3, **params}
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


@pytest.fixture(autouse=True)
def short_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests do without the five megabytes of plotly.js."""
    monkeypatch.setattr(page, "plotly_js", lambda: "window.Plotly = {};")


@pytest.fixture
def whole_script(monkeypatch: pytest.MonkeyPatch, short_script: None) -> None:
    """The page as it is."""
    pytest.importorskip("plotly")
    monkeypatch.setattr(page, "plotly_js", plotly_js)


@pytest.fixture(scope="module")
def tuned() -> Case:
    options = {"rank": 2, "alphabet": "0,1", "shares": [0.35, 0.65], "noise": 0.05, "observed": 0.6}
    return made(low_rank_alphabet((36, 24), **options).observations, "0,1", lam="auto", xi="auto")


@pytest.fixture(scope="module")
def hostile() -> Case:
    table, spec = mixed()
    spec = [["</script><img src=y onerror=alert(2)>", "<i>", "&amp;"] if one == KINDS[0] else one for one in spec]
    return made(table, spec, center="columns", min_confidence=0.6)


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


# ---------------------------------------------------------------- what it says
def test_all_sections_stand_in_order(tuned):
    """The ten sections are there, in order, and the contents lead to each of them."""
    reader = Reader(tuned.render())
    ids = [attrs["id"] for tag, attrs in reader.tags if tag == "section"]
    assert ids == SECTIONS
    links = [attrs["href"] for tag, attrs in reader.tags if tag == "a"]
    assert [f"#{name}" for name in ids] == links[1:]


def test_the_page_says_what_was_read_and_how_to_repeat_it(tuned):
    """What was read, the command, the code, the versions and the seed are on the page."""
    reader = Reader(tuned.render(title="My films"))
    assert reader.texts["title"] == ["My films"]
    assert {"films.csv", "semicolon", "7", "a 1"} <= set(reader.texts["dd"])
    assert reader.texts["pre"] == ["snapimpute complete films.csv", "import snapimpute"]
    copies = [attrs["data-code"] for tag, attrs in reader.tags if attrs.get("class") == "copy"]
    assert copies == [attrs["id"] for tag, attrs in reader.tags if tag == "pre"]


def test_the_headline_has_the_shares_and_the_verdict(tuned):
    """Ours, rounding, the best baseline, the verdict and the status are said in words."""
    said = prose(tuned.render())
    ours, rounding = tuned.evaluation.ways[:2]
    best = max((way for way in tuned.evaluation.ways if way.kind == "baseline"), key=lambda way: way.exact)
    for way in (ours, rounding, best):
        assert f"{100 * way.exact:.1f} % {way.label}" in said
    assert str(tuned.imputer.verdict_).partition(": ")[2] in said
    assert "quick check" in said
    assert "optimistic" in said
    assert "This is strict" not in said


def test_a_strict_evaluation_is_called_so(tuned):
    """Whether λ and ξ were settled without the hidden cells is said."""
    strict = Evaluation(**{**vars(tuned.evaluation), "strict": True})
    said = prose(tuned._replace(evaluation=strict).render())
    assert "This is strict" in said
    assert "quick check" not in said


@pytest.mark.parametrize(
    ("gain", "error", "answer"),
    [(0.1, 0.01, "Yes"), (-0.1, 0.01, "No, it did worse"), (0.1, 0.1, "No measurable difference")],
)
def test_the_verdict_is_that_of_the_tuning(tuned, gain, error, answer):
    """A gain beyond two standard errors is a yes, a loss a no, anything else no difference."""
    choice = tuned.imputer.choice_
    verdict = replace(choice.verdict, gain=gain, error=error)
    assert sections._verdict(choice, verdict)["answer"] == answer


def test_a_fit_that_did_not_converge_gives_advice(tuned):
    """The status, and what to do about it, are on the page."""
    imputer = clone(tuned.imputer).set_params(max_iter=1, lam=1.0, xi=0.0)
    with pytest.warns(match="max_iter"):
        imputer.fit(tuned.observations)
    said = prose(tuned._replace(imputer=imputer).render())
    assert "Not converged" in said
    assert imputer.status_.advice
    assert imputer.status_.advice in said
    assert sections._status(tuned.imputer)["title"] == "Converged"


def test_every_way_is_in_the_table_with_its_gain(tuned):
    """The table has a line for each way, with its share, standard error and distance to ours."""
    cells = Reader(tuned.render()).texts["td"]
    for way in tuned.evaluation.ways:
        assert words.percent(way.exact, way.error) in cells
    gain = tuned.evaluation.gain(tuned.evaluation.ways[1])
    assert words.points(*gain) in cells


def test_nothing_tuned_is_said(hostile):
    """Without a choice of λ and ξ the page says so, and has no figure of one."""
    html = hostile.render()
    assert hostile.imputer.choice_ is None
    assert "Nothing was tuned" in prose(html)
    assert not any(name.startswith("choice") for name in Reader(html).data["figures"])


# ---------------------------------------------------------------- the figures
def test_the_curves_have_every_candidate_once(tuned):
    """Each pair that was tried is a point of the curve of its ξ, and the chosen one has the ring."""
    choice = tuned.imputer.choice_
    *lines, ring = charts.curves(TuningScores.of(choice))["data"]
    xis = sorted({c.xi for c in choice.tried})
    assert len(lines) == len(xis)
    for xi, line in zip(xis, lines, strict=True):
        some = sorted((c for c in choice.tried if c.xi == xi), key=lambda c: c.lam)
        np.testing.assert_allclose(line["y"], [100 * c.score for c in some], rtol=1e-5)
        np.testing.assert_allclose(line["error_y"]["array"], [100 * c.error for c in some], rtol=1e-5)
        np.testing.assert_allclose(line["x"], [c.lam for c in some], rtol=0.05)
    assert ring["y"] == [100 * choice.best.score]
    assert ring["x"][0] == pytest.approx(choice.lam, rel=0.05)


def test_the_map_and_the_surface_leave_out_what_was_not_tried(tuned):
    """Pairs that were not tried are null, which is no number; the others have their score."""
    choice = tuned.imputer.choice_
    lams, xis, scores = choice.surface()
    assert np.isnan(scores).any()
    found = TuningScores.of(choice)
    for figure in (charts.score_map(found), charts.surface(found)):
        z = np.array(figure["data"][0]["z"], dtype=float)
        assert z.shape == (xis.size, lams.size)
        np.testing.assert_allclose(z.T, 100 * scores, rtol=1e-5)
    outline = charts.score_map(found)["layout"]["shapes"][0]
    at = int((outline["x0"] + outline["x1"]) / 2), int((outline["y0"] + outline["y1"]) / 2)
    assert (lams[at[0]], xis[at[1]]) == (choice.lam, choice.xi)


def test_every_figure_is_one_that_plotly_knows(tuned, hostile):
    """Plotly's own validation takes every figure, with all its properties."""
    graph_objects = pytest.importorskip("plotly.graph_objects")
    for case in (tuned, hostile):
        for name, figure in Reader(case.render()).data["figures"].items():
            drawn = graph_objects.Figure(data=figure["data"], layout=figure["layout"])
            assert len(drawn.data) >= 1, name
            assert figure["caption"].strip().endswith("."), name
            graph_objects.Figure(layout=figure["narrow"])


def test_convergence_leaves_out_what_is_not_finite():
    """A certificate that is infinite at first begins later, and one that never comes has no panel."""
    history = {"iteration": np.arange(1, 5), "objective": np.array([4.0, np.nan, 2.0, 1.0])}
    history |= {"certificate": np.array([np.inf, np.inf, 0.5, 0.1]), "rank": np.array([1, 2, 2, 2])}
    found = {one["name"]: one for one in charts.convergence(Convergence.from_history(history))["data"]}
    assert found["objective"]["x"] == [1, 3, 4]
    assert found["certificate"]["y"] == [0.5, 0.1]
    never = charts.convergence(Convergence.from_history(history | {"certificate": np.full(4, np.inf)}))
    assert [one["name"] for one in never["data"]] == ["objective", "rank"]


def test_confusion_and_recall_are_those_of_the_evaluation(tuned):
    """The figures have the counts, the shares of the rows, and the diagonal of these."""
    data = Reader(tuned.render()).data["figures"]
    table = tuned.evaluation.confusion(0)
    share = table / table.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(data["confusion-0"]["data"][0]["z"], share, atol=1e-4)
    counts = [[cell[2] for cell in row] for row in data["confusion-0"]["data"][0]["customdata"]]
    assert counts == [[f"{n:,}" for n in row] for row in table.tolist()]
    np.testing.assert_allclose(data["recall-0"]["data"][0]["y"], 100 * np.diag(share), rtol=1e-4)


def test_kinds_of_columns_have_a_selector(hostile):
    """Each kind of column with symbols has its own confusion, those with most hidden cells first."""
    reader = Reader(hostile.render())
    kinds = [kind for kind in hostile.evaluation.schema.kinds if kind is not None]
    assert len(reader.texts["option"]) == len(kinds) == 3
    counts = [int(re.search(r"([\d,]+) hidden", text)[1]) for text in reader.texts["option"]]
    assert counts == sorted(counts, reverse=True)
    for place in range(3):
        assert f"confusion-{place}" in reader.data["figures"]
        assert f"recall-{place}" in reader.data["figures"]


def test_reliability_has_counts_and_its_error(tuned):
    """Confidence, accuracy and counts are drawn, and the expected calibration error is said."""
    found = tuned.evaluation.reliability()
    _, dots, bars = charts.reliability(found)["data"]
    np.testing.assert_allclose(dots["x"], 100 * found.confidence, rtol=1e-4)
    np.testing.assert_allclose(dots["y"], 100 * found.accuracy, rtol=1e-4)
    assert bars["y"] == found.count.tolist()
    assert f"{100 * found.error:.1f} points" in prose(tuned.render())


# ---------------------------------------------------------------- safety
def test_text_from_data_stays_text(hostile):
    """Names, symbols, titles and settings full of markup make no element and no attribute."""
    bad = HOSTILE[0]
    settings = {"command": bad, "python": bad, "versions": {bad: bad}, bad: bad}
    html = hostile.render(title=bad, read=[(bad, bad)], settings=settings)
    reader = Reader(html)
    assert [tag for tag, _ in reader.tags].count("script") == 3
    assert not {"img", "b ", "i", "iframe"} & {tag for tag, _ in reader.tags}
    assert not [name for _, attrs in reader.tags for name in attrs if name.startswith("on")]
    assert reader.texts["title"] == [bad]
    assert bad in reader.texts["dd"]
    assert reader.texts["pre"] == [bad, bad]
    shown = set(reader.texts["span"])
    assert any(text.startswith("</script><img src=y") for text in shown), "symbols of the alphabet"
    assert any(text.startswith("naïve — 日本語") for text in shown)


def test_data_in_the_script_cannot_end_it(hostile):
    """The JSON has no <, > or &, nor U+2028, and reads back as what was written."""
    html = hostile.render()
    raw = Reader(html).texts["script"][0]
    assert not set(raw) & set("<>&\u2028\u2029")
    assert html.count("</script") == 3
    value = {"a": ["</script>", "<!--", "&", "\u2028\u2029", 'quo"te', "日本"]}
    assert json.loads(page.script_json(value)) == value
    with pytest.raises(ValueError, match="JSON"):
        page.script_json([float("nan")])


def test_figures_get_names_that_plotly_shows_as_they_are(hostile):
    """Plotly reads tags and entities: in everything drawn they are escaped, on one line and cut."""
    data = Reader(hostile.render()).data
    names = data["cells"]["rows"] + data["cells"]["cols"] + data["cells"]["names"]
    assert any(name.startswith("row: &lt;/script&gt;&lt;img") for name in names)
    assert any("&amp;lt;b&amp;gt;" in name for name in names)
    for name in names:
        assert not set(name) & set("<>\n\t\u2028")
        assert len(name) < 200
    ticks = data["figures"]["table-known"]["layout"]["xaxis"]["ticktext"]
    assert not [tick for tick in ticks if "<" in tick]
    assert all(len(re.sub("&[a-z]+;", "_", tick)) <= 20 for tick in ticks)


def test_the_page_loads_nothing(tuned, whole_script):
    """No element has an address outside the page, no style imports one, and the policy forbids it all."""
    reader = Reader(tuned.render())
    for tag, attrs in reader.tags:
        for name in ("src", "href", "srcset", "action", "data", "poster", "background"):
            assert (attrs.get(name) or "#").startswith("#"), (tag, attrs)
        assert tag not in ("link", "iframe", "object", "embed", "base")
    assert not re.search(r"url\(|@import", "".join(reader.texts["style"]))
    ours = reader.texts["script"][2]
    assert "http" not in ours
    policy = reader.policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline'" not in policy.split(";")[1]


def test_the_policy_allows_the_two_scripts_only(tuned, whole_script):
    """The hashes in the policy are those of the scripts on the page."""
    reader = Reader(tuned.render())
    found = re.findall(r"'sha256-([^']+)'", reader.policy)
    digests = [hashlib.sha256(script.encode()).digest() for script in reader.texts["script"][1:]]
    assert found == [base64.b64encode(digest).decode() for digest in digests]


def test_a_script_cannot_end_itself():
    """A script is put on the page as a browser reads it: one kind of line end, and no end of the element in it."""
    assert page._as_read("a\r\nb\rc\n'</script>'") == "a\nb\nc\n'<\\/script>'"


def test_figures_are_not_sent_anywhere(tuned):
    """The script lists the buttons of a figure, and turns off the one that uploads it."""
    ours = Reader(tuned.render()).texts["script"][2]
    assert "showSendToCloud: false" in ours
    assert 'plotlyServerURL: ""' in ours
    assert "modeBarButtons:" in ours


# ---------------------------------------------------------------- the same bytes, whole files
def test_same_input_same_bytes():
    """Two fits to the same table give the same page: no times, no random names."""
    known = ratings((12, 9))
    assert made(known, "1:5").render() == made(known, "1:5").render()


def test_the_file_is_written_at_once(tuned, tmp_path, monkeypatch):
    """The page goes through `write_atomically`; a page that cannot be made leaves the old file alone."""
    path = tmp_path / "new" / "report.html"
    page.write_report(path, *tuned, read=READ, settings=SETTINGS)
    assert path.read_text("utf-8") == tuned.render()
    assert [one.name for one in path.parent.iterdir()] == ["report.html"]
    monkeypatch.setattr(page, "render", lambda *_, **__: 1 / 0)
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError):
        page.write_report(path, *tuned, read=READ, settings=SETTINGS)
    assert path.read_bytes() == before
    seen: list[Any] = []
    monkeypatch.setattr(page, "render", lambda *_, **__: "half a pair: \ud800")
    monkeypatch.setattr(page, "write_atomically", lambda *args: seen.append(args))
    page.write_report(str(path), *tuned, read=READ, settings=SETTINGS)
    assert seen == [(path, b"half a pair: ?")]


def test_other_observations_are_refused(tuned):
    """Observations of another shape than the fit are an error that says so."""
    with pytest.raises(ValueError, match="the fit"):
        tuned._replace(observations=ratings((5, 4))).render()


@pytest.mark.parametrize(("library", "name"), [("plotly.offline", "plotly"), ("jinja2", "jinja2")])
def test_a_missing_library_says_what_to_install(tuned, whole_script, monkeypatch, library, name):
    """Without plotly or jinja2 the error names it and the extra."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf'{name}: pip install "snapimpute\[app\]"'):
        tuned.render()


# ---------------------------------------------------------------- special tables
def _nearest() -> Case:
    return made(ratings(), "1:5", decide="nearest")


def _open() -> Case:
    return made(ratings((30, 20), 0.5), "1:5", min_confidence=0.97)


def _numbers() -> Case:
    table, _ = mixed(6, labels=False, kinds=[None])
    return made(table, [None] * 6, center="columns")


def _full() -> Case:
    return made(Observations.from_dense(np.tile([1.0, 2.0, 3.0], (8, 4))), "1:3")


def _column() -> Case:
    return made(Observations.from_dense([[1.0], [2.0], [np.nan], [2.0], [1.0], [1.0]]), "1,2", xi=0.0)


def _tiny() -> Case:
    return made(Observations.from_dense([[1.0, 2.0], [np.nan, 2.0], [1.0, np.nan]]), "1,2", xi=0.0)


def _one_symbol() -> Case:
    return made(Observations.from_dense(np.where(np.eye(6) > 0, np.nan, 3.0)), [3.0], xi=0.0)


def _many_symbols() -> Case:
    return made(ratings((40, 30), 0.8, "0:80"), "0:80", lam=20.0)


def _many_kinds() -> Case:
    table, _ = mixed(36, labels=False, kinds=["0,1"])
    return made(table, [[f"no {j}", f"yes {j}"] for j in range(36)], center="columns")


def _long_labels() -> Case:
    return made(named(ratings(), ["x" * 5000], ["y" * 5000]), "1:5")


SPECIAL: dict[str, tuple[Callable[[], Case], list[str], list[str]]] = {
    "nearest": (_nearest, ["There are no probabilities"], ["table-confidence", "reliability", "certainty"]),
    "left open": (_open, ["were left open", "stay open", "left open"], []),
    "any numbers": (_numbers, ["No hidden cell lies in a column with an alphabet"], ["confusion-0"]),
    "nothing missing": (_full, ["there was nothing to fill in", "none missing"], ["certainty", "table-confidence"]),
    "one column": (_column, ["1 column"], []),
    "tiny": (_tiny, ["3 rows × 2 columns"], []),
    "one symbol": (_one_symbol, ["100.0 %"], []),
    "many symbols": (_many_symbols, ["The 40 most frequent of 81 symbols"], []),
    "many kinds": (_many_kinds, ["the 30 with most cells of 36"], ["confusion-30"]),
    "long labels": (_long_labels, ["24 rows"], []),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_tables_have_a_page(name):
    """Each special table has a whole page that says what is special, and only the figures that make sense."""
    case, texts, without = SPECIAL[name][0](), *SPECIAL[name][1:]
    html = case.render()
    said, reader = prose(html), Reader(html)
    for text in texts:
        assert text in said
    for figure in without:
        assert figure not in reader.data["figures"]
    used = [attrs["data-figure"] for _, attrs in reader.tags if "data-figure" in attrs]
    assert set(used) <= set(reader.data["figures"])
    assert not re.search(r"\b(nan|inf|None|Undefined)\b", said.replace("stay grey", ""))


def test_scores_that_are_nan_become_dashes():
    """Where no column has symbols the share of right ones is a dash, and the errors are compared."""
    case = _numbers()
    assert np.isnan(case.evaluation.ours.exact)
    reader = Reader(case.render())
    assert reader.texts["td"].count(words.NOTHING) >= 2 * len(case.evaluation.ways)  # the share and the gain
    bars = reader.data["figures"]["scores"]["data"][0]
    np.testing.assert_allclose(bars["x"], [way.rmse for way in case.evaluation.ways], rtol=1e-5)


def test_positions_stand_in_for_labels(tuned):
    """Without labels rows and columns are named by their positions, which `predict` takes."""
    html = tuned.render()
    found = matrix.least_certain(tuned.imputer, tuned.observations)
    spans = Reader(html).texts["span"]
    assert f"row {found.rows[0]}" in spans
    assert f"column {found.cols[0]}" in spans
    assert f"row {found.rows[0]}" in Reader(html).data["cells"]["rows"]


def test_long_names_are_cut_for_the_eye_only():
    """Tables show long names cut, with the whole name in the title; figures have them cut."""
    html = _long_labels().render()
    assert "text-overflow: ellipsis" in html
    reader = Reader(html)
    whole = [attrs["title"] for tag, attrs in reader.tags if attrs.get("class") == "name" and "title" in attrs]
    assert max(map(len, whole)) > 5000
    ticks = reader.data["figures"]["table-known"]["layout"]["yaxis"]["ticktext"]
    assert {len(tick) for tick in ticks} == {20}


def test_a_status_without_its_name_in_front_is_kept_whole():
    """Only the word that the page says already is left out of the message."""
    imputer = SnapImputer("0,1")
    imputer.status_ = Status("diverged", "The objective is not finite after 3 iteration(s).", "Take a larger λ.")
    said = sections._status(imputer)
    assert said["title"] == "Not converged"
    assert said["detail"] == imputer.status_.message
    assert said["advice"] == "Take a larger λ."


# ---------------------------------------------------------------- what is shown of a table
@pytest.mark.parametrize("decide", ["accuracy", "mae", "rmse", "nearest"])
def test_what_is_filled_is_what_the_estimator_predicts(decide):
    """Symbols are those of `predict`, open ones its NaN, probabilities those of `predict_proba`."""
    table, spec = mixed()
    sure = 0.0 if decide == "nearest" else 0.55
    case = made(table, spec, center="columns", decide=decide, min_confidence=sure)
    imputer, book = case.imputer, matrix.alphabets(case.imputer)
    rows, cols = (part.ravel() for part in np.indices(table.shape))
    found = matrix.fill(imputer, book, rows, cols)
    asked = imputer.predict(rows, cols)
    for k in range(rows.size):
        alphabet = book[cols[k]]
        if alphabet is None:
            assert found.symbols[k] == pytest.approx(asked[k])
            assert np.isnan(found.sure[k])
            continue
        written = None if found.is_open[k] else words.symbol(alphabet, found.symbols[k])
        expected = None if asked[k] is None or asked[k] != asked[k] else asked[k]
        assert written == (expected if isinstance(expected, str | None) else f"{expected:.15g}")
        if decide == "nearest":
            assert np.isnan(found.sure[k])
            assert np.isnan(found.second[k])
            continue
        p = imputer.predict_proba(rows[k], cols[k])
        code = alphabet.indices(found.symbols[k])
        assert found.sure[k] == pytest.approx(p[code])
        others = np.delete(p, code)
        assert found.second_sure[k] == pytest.approx(others.max())
        assert p[alphabet.indices(found.second[k])] == pytest.approx(others.max())
    assert found.is_open.any() == (decide != "nearest")


def test_blocks_do_not_change_what_is_filled(hostile, monkeypatch):
    """Filling a few cells at a time gives the same."""
    book = matrix.alphabets(hostile.imputer)
    rows, cols = (part.ravel() for part in np.indices(hostile.observations.shape))
    whole = matrix.fill(hostile.imputer, book, rows, cols)
    monkeypatch.setattr(matrix, "BLOCK_NUMBERS", 17)
    parts = matrix.fill(hostile.imputer, book, rows, cols)
    np.testing.assert_allclose(whole.symbols, parts.symbols)
    np.testing.assert_allclose(whole.second_sure, parts.second_sure)
    np.testing.assert_array_equal(whole.is_open, parts.is_open)


def test_the_part_shown_is_that_part_of_the_table(hostile):
    """Known cells have their values and no probability, the others what was filled in, all at their places."""
    table = hostile.observations
    shown = matrix.show(hostile.imputer, table)
    assert sorted(shown.rows.tolist()) == list(range(table.shape[0]))
    assert sorted(shown.cols.tolist()) == list(range(table.shape[1]))
    assert shown.rows.tolist() != sorted(shown.rows.tolist())
    dense = np.full(table.shape, np.nan)
    dense[table.rows, table.cols] = table.values
    known = dense[np.ix_(shown.rows, shown.cols)]
    np.testing.assert_array_equal(shown.known, ~np.isnan(known))
    np.testing.assert_array_equal(shown.values[shown.known], known[shown.known])
    assert np.isnan(shown.sure[shown.known]).all()
    assert not shown.is_open[shown.known].any()
    at = np.argwhere(~shown.known)
    found = matrix.fill(
        hostile.imputer, matrix.alphabets(hostile.imputer), shown.rows[at[:, 0]], shown.cols[at[:, 1]]
    )
    np.testing.assert_allclose(shown.values[~shown.known], found.symbols)
    np.testing.assert_allclose(shown.sure[~shown.known], found.sure)
    np.testing.assert_array_equal(shown.is_open[~shown.known], found.is_open)


def test_of_a_large_table_the_most_observed_lanes_are_shown():
    """At most so many rows and columns, those with most observed cells, and the page says so."""
    known = ratings((30, 25), 0.5)
    case = made(known, "1:5")
    shown = matrix.show(case.imputer, known, most=10)
    for lanes, chosen, size in ((known.rows, shown.rows, 30), (known.cols, shown.cols, 25)):
        counts = np.bincount(lanes, minlength=size)
        expected = sorted(range(size), key=lambda i: (-counts[i], i))[:10]
        assert sorted(chosen.tolist()) == sorted(expected)
    assert shown.shape == (30, 25)
    book, name = matrix.alphabets(case.imputer), words.namer(None, "row")
    said = sections._table(shown, book, name, name, {})
    assert said["cut"] == "the 10 most observed of 30 rows and the 10 most observed of 25 columns"
    title = heatmap.view("known", shown, book, name, name)["layout"]["yaxis"]["title"]["text"]
    assert title == "10 of 30 rows"


def test_positions_are_within_the_range_of_the_column():
    """Symbols stand in the range of their alphabet, numbers in that of what was observed, from 0 to 1."""
    table = Observations.from_dense([[1.0, 10.0, 0.0], [5.0, 30.0, np.nan], [np.nan, 20.0, np.nan]])
    book = ColumnSchema.of(["1:5", None, [0.0]], 3)
    values = np.array([[1.0, 10.0, 0.0], [5.0, 30.0, 0.0], [2.0, 99.0, 0.0]])
    found = matrix.positions(values, table, book, np.arange(3))
    np.testing.assert_allclose(found, [[0.0, 0.0, 0.5], [1.0, 1.0, 0.5], [0.25, 1.0, 0.5]])


def test_similar_rows_stand_side_by_side():
    """The order makes the sum of the distances of neighbours small: two groups are not mixed."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat([0.0, 1.0, 2.0], 15))
    order = matrix.leaf_order(group[:, None] + 0.05 * rng.standard_normal((45, 6)))
    assert sorted(order.tolist()) == list(range(45))
    assert np.count_nonzero(np.diff(group[order])) == 2
    assert matrix.leaf_order(np.zeros((2, 3))).tolist() == [0, 1]
    assert sorted(matrix.leaf_order(1 - np.eye(4)).tolist()) == [0, 1, 2, 3]  # looks like a matrix of distances


def test_columns_that_were_left_alone_are_not_shown():
    """Of columns that the fit says nothing of none is drawn, nor is one of their cells doubtful."""
    table, spec = mixed(8, labels=False)
    dense = np.full(table.shape, np.nan)
    dense[table.rows, table.cols] = table.values
    frame = {f"c{j}": np.array(Alphabet.of(one).decode(dense[:, j])) if one else dense[:, j]
             for j, one in enumerate(spec)}  # fmt: skip
    alphabet = {f"c{j}": one for j, one in enumerate(spec)}
    frame = pytest.importorskip("pandas").DataFrame(frame)
    imputer = SnapImputer(alphabet, lam=1.0, xi=0.0, center="columns", continuous="passthrough").fit(frame)
    shown, doubts = matrix.show(imputer, table), matrix.least_certain(imputer, table)
    assert sorted(shown.cols.tolist()) == [j for j, one in enumerate(spec) if one is not None]
    assert shown.shape == (40, 6)
    assert set(doubts.cols.tolist()) <= set(shown.cols.tolist())


@pytest.mark.parametrize("cols", [[0, 1, 2, 3, 4], [1, 3], [4]])
def test_missing_cells_are_those_not_observed(cols):
    """Against a dense mask: all missing cells of some columns, row by row."""
    known = ratings((9, 5), 0.5)
    dense = np.zeros(known.shape, dtype=bool)
    dense[known.rows, known.cols] = True
    rows, found, total = matrix.missing_cells(known, np.array(cols))
    expected = [(i, j) for i in range(9) for j in cols if not dense[i, j]]
    assert list(zip(rows.tolist(), found.tolist(), strict=True)) == expected
    assert total == len(expected)


def test_a_sample_of_missing_cells_is_spread_over_all_of_them():
    """So many different missing cells, one from each part of the table, the same for the same seed."""
    known = ratings((40, 30), 0.3)
    everything = list(zip(*(part.tolist() for part in matrix.missing_cells(known, np.arange(30))[:2]), strict=True))
    rows, cols, total = matrix.missing_cells(known, np.arange(30), most=100, seed=4)
    places = [everything.index(cell) for cell in zip(rows.tolist(), cols.tolist(), strict=True)]
    assert total == len(everything) > 500
    assert len(set(places)) == 100
    for place, part in zip(places, np.array_split(np.arange(total), 100), strict=True):
        assert place in part
    again = matrix.missing_cells(known, np.arange(30), most=100, seed=4)
    other = matrix.missing_cells(known, np.arange(30), most=100, seed=5)
    np.testing.assert_array_equal(rows, again[0])
    assert (rows != other[0]).any() or (cols != other[1]).any()


@pytest.mark.parametrize("count", [1, 7, 10_000])
def test_the_least_certain_cells_are_the_least_certain(hostile, count, monkeypatch):
    """Against a look at every missing cell: the smallest probabilities, in order, with their cells."""
    monkeypatch.setattr(matrix, "BLOCK_NUMBERS", 50)  # several blocks
    table, imputer = hostile.observations, hostile.imputer
    book = matrix.alphabets(imputer)
    found = matrix.least_certain(imputer, table, count=count)
    seen = set(zip(table.rows.tolist(), table.cols.tolist(), strict=True))
    all_sure = {}
    for i in range(table.shape[0]):
        for j in np.flatnonzero(book.discrete).tolist():
            if (i, j) not in seen:
                all_sure[i, j] = float(imputer.predict_proba(i, j).max())
    expected = sorted(all_sure.values())[:count]
    np.testing.assert_allclose(found.filled.sure, expected)
    for i, j, sure in zip(found.rows, found.cols, found.filled.sure, strict=True):
        assert all_sure[int(i), int(j)] == pytest.approx(sure)
    assert found.missing == found.scanned == len(all_sure) == found.counts.sum()
    assert found.left_open == sum(sure < 0.6 for sure in all_sure.values())
    low = sum(sure < 0.5 for sure in all_sure.values())
    assert found.counts[: matrix.BINS // 2].sum() == low


def test_the_table_of_least_certain_cells_is_in_order(hostile):
    """Rows of the page's table are sorted by probability, and cells left open are marked."""
    html = hostile.render()
    block = html[html.index('id="least-certain"') :]
    values = [float(v) for v in re.findall(r'data-value="([\d.]+)"', block)][::2]
    assert values == sorted(values)
    assert len(values) == min(matrix.MOST_DOUBTS, matrix.least_certain(hostile.imputer, hostile.observations).missing)
    assert "left open" in block
    assert 'aria-sort="ascending"' in block


def test_a_sample_is_said_to_be_one(tuned, monkeypatch):
    """Where there are too many missing cells to look at all, the page says how many were."""
    full = matrix.least_certain
    monkeypatch.setattr(sections, "least_certain", lambda *args, **options: full(*args, most=50, **options))
    assert "A sample of 50 of the" in prose(tuned.render())
    monkeypatch.undo()
    assert "A sample" not in prose(tuned.render())


def test_cells_of_the_pictures_say_what_is_in_them(hostile):
    """The compact cells name every value, say which are known, and have the probabilities."""
    shown, book = matrix.show(hostile.imputer, hostile.observations), matrix.alphabets(hostile.imputer)
    name = words.namer(None, "row")
    cells = heatmap.cells(shown, book, name, name)
    for i in range(shown.rows.size):
        for j, col in enumerate(shown.cols.tolist()):
            text = words.drawn(words.symbol(book[col], shown.values[i, j]), 40)
            assert cells["names"][cells["code"][i][j]] == text
            state = "k" if shown.known[i, j] else "o" if shown.is_open[i, j] else "f"
            assert cells["state"][i][j] == state
    sure = np.array(cells["sure"], dtype=float)
    np.testing.assert_allclose(sure, shown.sure, atol=1e-3)


def test_two_symbols_have_two_fields_in_the_legend(tuned, hostile):
    """With two or three symbols the legend has a field of one colour for each; other tables have a scale."""
    figures = Reader(tuned.render()).data["figures"]
    heat = figures["table-completed"]["data"][0]
    assert heat["colorscale"] == [
        [0.0, "var(--low)"],
        [0.5, "var(--low)"],
        [0.5, "var(--high)"],
        [1.0, "var(--high)"],
    ]
    assert heat["colorbar"]["ticktext"] == ["0", "1"]
    places, scale = heatmap._steps(np.array([0.0, 0.2, 1.0]))
    np.testing.assert_allclose(places, [0.05, 0.35, 0.8])
    assert [one[0] for one in scale] == pytest.approx([0.0, 0.1, 0.1, 0.6, 0.6, 1.0])
    other = Reader(hostile.render()).data["figures"]["table-completed"]["data"][0]
    assert other["colorbar"]["ticktext"] == ["lowest", "highest"]
