"""Pages that several tests of the report look at, without the megabytes of plotly.js."""

from __future__ import annotations

import pytest

from snapimpute.app.report import page
from snapimpute.data.datasets import low_rank_alphabet
from tests.app.report.pages import KINDS, Case, made, mixed, plotly_js


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
