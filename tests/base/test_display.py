"""What notebooks show of an imputer and of a result: all that matters, escaped, by scikit-learn's own switch."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline

import snapimpute as si
from snapimpute import SnapImputer
from snapimpute.base.display import html_of, html_of_result
from snapimpute.experts.proximal.expert import Proximal

NASTY = ['<b onclick="x">no</b>', "yes & 'more'"]


def rows(html: str) -> dict[str, str]:
    """The lines of the table, as text."""
    found = re.findall(r"<th[^>]*>(.*?)</th><td[^>]*>(.*?)</td>", html)
    return {unescape(name): unescape(value) for name, value in found}


class Tags(HTMLParser):
    """Collects tags and checks that they are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.names: set[str] = set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        self.names |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    data = si.datasets.low_rank_alphabet((40, 30), rank=2, alphabet="1:5", observed=0.5, random_state=0)
    return data.observations.to_sparse()


@pytest.fixture(scope="module")
def tuned(table) -> SnapImputer:
    return SnapImputer("1:5", method=Proximal(max_iter=200)).fit(table)


# -------------------------------------------------------------------- an imputer
def test_only_parameters_that_were_changed_are_shown():
    """Before a fit there are the parameters that differ from their defaults, and nothing else."""
    html = html_of(SnapImputer("1:5", method=Proximal(lam=2.0, solver=si.solvers.APG()), missing=[-99]))
    method = f"Proximal(lam=2.0, solver={si.solvers.APG()!r})"
    assert rows(html) == {"alphabet": "'1:5'", "method": method, "missing": "[-99]"}
    several = SnapImputer(method=["habits", Proximal(xi=0.0)])
    assert rows(html_of(several)) == {"method": "['habits', Proximal(xi=0.0)]"}
    assert "not fitted" in html
    assert rows(html_of(SnapImputer())) == {}


def test_a_fit_says_what_it_is_and_how_it_went(tuned):
    """Shape, symbols, strengths, centre, rank, iterations, status with advice, held-out score and verdict."""
    found = rows(html_of(tuned))
    best = tuned.choice_.best
    assert found["table"] == "40 × 30"
    assert found["symbols"] == "Alphabet([1, 2, 3, 4, 5])"
    for part in (
        f"λ = {tuned.lam_:.4g}",
        f"ξ = {tuned.xi_:.4g}",
        f"rank {tuned.singular_values_.size}",
        tuned.center_,
    ):
        assert part in found["model"]
    assert found["solver"] == tuned.solver_
    assert found["iterations"] == str(tuned.n_iter_)
    assert found["status"] == str(tuned.status_)
    assert found["held-out score"].startswith(f"{100 * best.score:.4g} ± {100 * best.error:.2g} %")
    assert found["verdict"] == str(tuned.verdict_)


def test_a_blend_says_who_carries_the_answer(table):
    """Each expert with its score and weight, the verdict on several lines, and no strengths."""
    imputer = SnapImputer("1:5", method=["habits", Proximal(lam=1.0, xi=0.01)]).fit(table)
    html = html_of(imputer)
    assert Tags(html).names == {"style"}
    said = [unescape(one) for one in re.findall(r"<td[^>]*>(.*?)</td>", html)]
    for line in (*map(str, imputer.experts_), *str(imputer.verdict_).splitlines(), str(imputer.status_)):
        assert line in said
    assert {"table", "symbols", "experts", "verdict", "status"} <= {*rows(html)}
    assert {"model", "solver", "iterations"}.isdisjoint(rows(html))


@pytest.mark.parametrize("method", ["posterior", "mosaic", "habits"])
def test_another_expert_says_how_its_run_went(table, method):
    """Its name, how it ended, and what its diagnostics say, where it has any."""
    imputer = SnapImputer("1:5", method=method, time_limit=2.0).fit(table)
    found = rows(html_of(imputer))
    assert (found["expert"], found["table"], found["status"]) == (method, "40 × 30", str(imputer.status_))
    if imputer.diagnostics_ is not None:
        assert found["run"] == str(imputer.diagnostics_).splitlines()[0]
        assert f"{imputer.n_iter_:,}" in (found.get("sweeps"), found.get("steps"))


def test_what_was_not_tuned_has_no_score(table):
    """With given strengths there is neither a held-out score nor a verdict; advice is shown where there is some."""
    with pytest.warns(match="max_iter"):
        imputer = SnapImputer("1:5", method=Proximal(lam=1.0, xi=0.01, center=None, max_iter=2)).fit(table)
    found = rows(html_of(imputer))
    assert {"held-out score", "verdict"}.isdisjoint(found)
    assert imputer.status_.advice
    assert imputer.status_.advice in found["status"]
    assert "nothing subtracted" in found["model"]


def test_labels_and_parameters_are_escaped():
    """Nothing in labels, codes or names of columns becomes a tag, an attribute or an entity."""
    frame = pd.DataFrame({f"<script>{j}": (NASTY * 6)[j : j + 10] for j in range(3)}).astype(object)
    frame.iloc[0, 0] = "<i>"
    imputer = SnapImputer(dict.fromkeys(frame.columns, NASTY), method=Proximal(lam=0.5, xi=0.0), missing=["<i>"]).fit(
        frame
    )
    for html in (html_of(imputer), html_of(SnapImputer(NASTY, method="proximal"))):
        tags = Tags(html)
        assert tags.seen == {"div", "b", "span", "table", "tr", "th", "td"}
        assert tags.names == {"style"}
        assert "<b onclick" not in html
        assert "& '" not in html
    assert rows(html)["alphabet"] == repr(NASTY)
    assert rows(html_of(imputer))["missing"] == "['<i>']"


def test_several_alphabets_are_counted():
    """Of many columns each alphabet is named once, with the number of its columns."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(1, 6, (20, 2)), rng.integers(0, 2, 20), rng.standard_normal(20)])
    imputer = SnapImputer(["1:5", "1:5", [0, 1], None], method=Proximal(lam=0.5, xi=0.0)).fit(X)
    expected = "2 columns: Alphabet([1, 2, 3, 4, 5]); 1 column: Alphabet([0, 1]); 1 column: no alphabet"
    assert rows(html_of(imputer))["symbols"] == expected


def test_long_parameters_are_cut():
    """A parameter of ten thousand entries does not fill the screen."""
    shown = rows(html_of(SnapImputer(dict.fromkeys(range(10_000), "1:5"), method="proximal")))["alphabet"]
    assert len(shown) < 200
    assert shown.endswith("…")


def test_scikit_learn_decides_whether_it_is_shown(tuned):
    """It is the HTML of scikit-learn's mime bundle; as text there is none, and a pipeline keeps its own diagram."""
    with config_context(display="diagram"):
        assert tuned._repr_html_() == tuned._repr_mimebundle_()["text/html"] == html_of(tuned)
        assert "Pipeline" in make_pipeline(tuned)._repr_html_()
    with config_context(display="text"):
        assert not hasattr(tuned, "_repr_html_")
        assert set(tuned._repr_mimebundle_()) == {"text/plain"}


def test_it_stands_alone(tuned):
    """No scripts, links, classes or colours of its own but a grey: it can be read on white and on black."""
    html = html_of(tuned)
    assert Tags(html).names == {"style"}
    assert not re.search(r"url\(|https?:|[^-]color:", html)
    assert len(html) < 5000


# -------------------------------------------------------------------- a result
def test_a_result_says_what_was_run_and_how_it_ended():
    """Matrix, solver, penalties, iterations, objective and status; what notebooks show is the same."""
    data = si.datasets.low_rank_alphabet((30, 20), rank=2, alphabet="0,1", observed=0.5, random_state=0)
    result = si.solve(si.Problem(data.observations, si.Nuclear(1.0), si.L1("0,1", xi=0.01)), max_iter=2, tol=0.0)
    html = html_of_result(result)
    assert html == result._repr_html_()
    found = rows(html)
    assert found["matrix"] == f"30 × 20, rank {result.x.rank}"
    assert found["spectral"] == "Nuclear(lam=1.0)"
    assert found["discrete"].startswith("L1(")
    assert found["iterations"] == "2"
    assert found["objective"] == f"E = {result.objective:.8g}"
    assert found["status"] == str(result.status)
    assert "max_iter" in html
    assert Tags(html).names == {"style"}
