"""The report of a completion: what it says, and that it is safe and complete in itself."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace
from typing import Any

import pytest
from sklearn.base import clone

from snapimpute.app.report import _experts as experts
from snapimpute.app.report import _words as words
from snapimpute.app.report import page
from snapimpute.estimator.evaluation import Evaluation
from tests.app.report.pages import HOSTILE, READ, SECTIONS, SETTINGS, Reader, made, prose, ratings

pytestmark = pytest.mark.slow


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
    assert experts.of_penalty(choice, verdict)["answer"] == answer


def test_a_fit_that_did_not_converge_gives_advice(tuned):
    """The status, and what to do about it, are on the page."""
    imputer = clone(tuned.imputer).set_params(method__max_iter=1, method__lam=1.0, method__xi=0.0)
    with pytest.warns(match="max_iter"):
        imputer.fit(tuned.observations)
    said = prose(tuned._replace(imputer=imputer).render())
    assert "Not converged" in said
    assert imputer.status_.advice
    assert imputer.status_.advice in said
    assert experts.status_of(tuned.imputer)["title"] == "Converged"


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
