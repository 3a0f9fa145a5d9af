"""The committed results follow from the scores that lie beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from reproduction import claims, index_coding, links, paper, peers, ranking, systems
from tests.helpers import ROOT

DOCS = ROOT / "docs"
RESULTS = ROOT / "reproduction" / "results"
PAGE = (RESULTS / "paper.md").read_text(encoding="utf-8")
STUDIES: dict[str, tuple[Any, Sequence[str]]] = {
    "fig1": (paper, ["movielens"]),
    "systems": (systems, list(systems.DATA)),
    "links": (links, list(links.DATA)),
    "index": (index_coding, list(index_coding.INSTANCES)),
    "peers": (peers, list(peers.DATA)),
}


def scores(study: str) -> list[Any]:
    """All that are kept, in the order of the data, the shares and the seeds."""
    module, data = STUDIES[study]
    files = [json.loads(file.read_text(encoding="utf-8")) for file in (RESULTS / "scores" / study).glob("*.json")]
    found = [module.Score(**row["score"]) for rows in files for row in rows.values()]
    return sorted(found, key=lambda one: (data.index(one.data), one.share, one.seed))


def missing(table: str) -> list[str]:
    """The lines of a table that are not on the page."""
    lines = set(PAGE.splitlines())
    return [line for line in table.splitlines() if line.strip() and line not in lines]


def test_figure_1_is_that_of_the_scores():
    """Five seeds of every method at its shares, both ways of tuning, and a table of their means."""
    found = scores("fig1")
    wanted = {
        (share, seed, name)
        for share in paper.SHARES
        for seed in range(5)
        for name in paper.prints(share, [*paper.BASELINES, *paper.METHODS])
    }
    assert {(one.share, one.seed, one.method) for one in found} == wanted
    assert missing(paper.as_markdown(paper.summarise(found))) == []


def test_scores_of_the_figures_were_made_by_what_is_here():
    """No setting has been changed since: a run would take every one of them as it is."""
    for file, kept in made_by("fig1").items():
        assert kept == paper.prints(int(file.split("-")[1]) / 100, [*paper.BASELINES, *paper.METHODS]), file


def test_scores_of_the_peers_were_made_by_what_is_here(monkeypatch):
    """No setting and no pinned version has been changed since."""
    monkeypatch.setattr(peers, "environment", lambda name: peers.Made(("python",)))
    codes = peers.prints([name for name, peer in peers.PEERS.items() if peer.environment])
    for file, kept in made_by("peers").items():
        assert {name: code for name, code in kept.items() if name in codes} == codes, file


def made_by(study: str) -> dict[str, dict[str, str]]:
    """The fingerprints that lie beside the scores, by the name of the file."""
    files = (RESULTS / "scores" / study).glob("*.json")
    found = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    return {name: {method: row["made by"] for method, row in rows.items()} for name, rows in found.items()}


@pytest.mark.parametrize("study", ["systems", "links", "index", "peers"])
def test_tables_are_those_of_the_scores(study):
    """Each line of the study's table, made anew from what is kept, is on the page."""
    found = scores(study)
    assert found
    assert missing(STUDIES[study][0].as_markdown(found)) == []


def test_the_ranking_is_that_of_the_scores():
    """Own methods and other packages on the same splits, nobody left out."""
    places = ranking.rank(scores("fig1"), scores("peers"))
    assert {one.share for one in places} == set(paper.OTHER_SHARES)
    assert {one.method for one in places} == {*paper.BASELINES, *paper.METHODS, *peers.PEERS}
    assert missing(ranking.as_markdown(places)) == []


def test_claims_are_judged_by_the_scores():
    """Claims that rest on the figures; the others are measured anew in each run."""
    honest = [one for one in scores("fig1") if not one.method.endswith(paper.ON_TEST)]
    judged = [
        judge(honest)
        for judge in (claims.below, claims.gains, claims.lowest_share, claims.convergence, claims.sooner)
    ]
    assert missing("\n".join(claims.as_markdown(judged).splitlines()[2:])) == []


@pytest.mark.parametrize("study", STUDIES)
def test_numbers_are_those_of_the_scores(study):
    """One row of the CSV file for each score, with what the score says."""
    rows = pl.read_csv(RESULTS / "paper" / f"{study}.csv", infer_schema_length=None).rows(named=True)
    found = {(one.data, one.share, one.seed, one.method): one for one in scores(study)}
    assert len(rows) == len(found)
    for row in rows:
        one = found[row["data"], row["share"], row["seed"], row["method"]]
        for name, value in row.items():
            kept = getattr(one, name)
            assert value == (pytest.approx(kept) if isinstance(kept, float) else kept or value), name


def test_the_page_on_discreteness_quotes_the_scores():
    """Each NMSE in its table is the mean over the seeds."""
    names = {"mean of all ratings": "constant mean", "ridge to the mean, nuclear norm": "ridge to the mean"}
    means = {
        (line.method, line.share): f"{line.nmse:.4f}".lstrip("0")
        for line in paper.summarise(scores("fig1"))
        if not line.on_test
    }
    text = (DOCS / "discreteness.md").read_text(encoding="utf-8")
    table = text.split("## The paper's figure, with its controls")[1].split("![")[0]
    rows = re.findall(r"^\| ([^|*]+?) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE)
    quoted = [row for row in rows if "observed" not in row[1]]
    assert len(quoted) >= len(paper.METHODS) - 1
    for name, *cells in quoted:
        label = name.split(" (")[0]
        for share, cell in zip(paper.OTHER_SHARES, cells, strict=True):
            assert cell.strip("* ") == means[names.get(label, label), share], (label, share)


def test_figures_are_there_in_three_formats():
    """PNG, SVG and PDF of each."""
    for name in ("fig1-held-out", "fig1-best-on-test", "fig2"):
        for suffix in ("png", "svg", "pdf"):
            assert (RESULTS / "paper" / f"{name}.{suffix}").stat().st_size > 1000
    assert np.isfinite([one.nmse for one in scores("fig1")]).all()
