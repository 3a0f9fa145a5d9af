"""What a report says of experts: which one carries the answer, whether the runs have settled, what was chosen."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from snapimpute.app.report import _experts as experts
from snapimpute.data.expert import Expert, ExpertFit
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.proximal.expert import Proximal
from snapimpute.mosaic import Mosaic
from snapimpute.posterior import Posterior
from snapimpute.solvers import Status
from tests.app.report.pages import HOSTILE, SECTIONS, Case, Reader, made, prose, ratings

pytestmark = pytest.mark.slow

QUICK = Posterior(covariance="low-rank", thresholds="columns", sweeps=60)


@pytest.fixture(scope="module")
def blend() -> Case:
    known = ratings((40, 20), 0.7)
    return made(known, "1:5", method=["habits", Proximal(center="mean", tol=1e-3), QUICK])


@pytest.fixture(scope="module")
def posterior() -> Case:
    return made(ratings(), "1:5", method=QUICK)


def sections(html: str) -> list[str | None]:
    return [attrs["id"] for tag, attrs in Reader(html).tags if tag == "section"]


def links(html: str) -> list[str]:
    return [str(attrs["href"])[1:] for tag, attrs in Reader(html).tags if tag == "a"][1:]


# ---------------------------------------------------------------- a blend
def test_a_blend_has_sections_of_its_own(blend):
    """Experts and runs come before the hidden cells; the choice of the proximal member is there, no convergence."""
    html = blend.render()
    expected = ["read", "headline", "experts", "runs", "choice", *SECTIONS[4:]]
    members = [type(one.fit).__name__ for one in blend.imputer.fit_.members]
    if "ProximalFit" not in members:
        expected.remove("choice")
    if "PosteriorFit" not in members:
        expected.remove("runs")
    assert sections(html) == links(html) == expected
    assert not re.search(r"\b(nan|inf|None|Undefined)\b", prose(html))


def test_the_table_of_experts_has_what_each_scored(blend):
    """Log loss with its error, share of wrong cells, weight, and why one was left out."""
    html = blend.render()
    cells = Reader(html).texts["td"]
    for one in blend.imputer.experts_:
        assert f"{one.loss:.4f} ± {one.error:.4f}" in cells
        assert f"{100 * one.wrong:.1f} %" in cells
        assert (f"{one.weight:.2f}" if one.weight else one.reason) in cells
    bars = Reader(html).data["figures"]["experts"]["data"][0]
    np.testing.assert_allclose(bars["x"], [one.loss for one in blend.imputer.experts_], rtol=1e-5)


def test_the_verdict_is_said_in_words(blend):
    """In the headline who carries the answer; in the section by how much, and what the penalty brought."""
    verdict, said = blend.imputer.verdict_, prose(blend.render())
    first, *rest = str(verdict).splitlines()
    assert f"Which expert carries the answer? {verdict.leader}, " in said
    assert f"{first}." in said
    for line in rest:
        assert f"Of the proximal expert: {line}" in said
    assert "experts and their weights were chosen while" in said


def test_settings_name_what_each_expert_has_chosen(blend):
    """By expert, with its weight; of the proximal one the strengths."""
    found = dict(experts.settings(blend.imputer))
    for name, weight in blend.imputer.blend_.items():
        assert found[name].startswith(f"weight {weight:.2f}")
    for one in blend.imputer.fit_.members:
        if hasattr(one.fit, "lam"):
            assert f"λ {experts.number(one.fit.lam, 6)}" in found[one.label]
        if hasattr(one.fit, "frame"):
            assert "draws of 1 chain; thresholds by column" in found[one.label]
    assert found["symbols decided by"] == "accuracy"


def test_an_expert_without_a_score_has_its_reason(blend):
    """Dashes stand for numbers that are not there; text of users stays text."""
    bad = HOSTILE[0]
    one, *others = blend.imputer.experts_
    missing = replace(one, name=bad, loss=np.nan, error=np.nan, wrong=np.nan, weight=0.0, seconds=0.0, reason=bad)
    imputer = changed(blend.imputer, scores=(*others, missing))
    html = blend._replace(imputer=imputer).render()
    reader = Reader(html)
    assert bad in reader.texts["td"]
    assert "img" not in {tag for tag, _ in reader.tags}
    assert experts._row(missing)["loss"] == "–"


def changed(imputer: SnapImputer, **fields: Any) -> SnapImputer:
    """The imputer with another fit."""
    out = SnapImputer()
    vars(out).update(vars(imputer))
    out._model = replace(imputer._model, fit=replace(imputer.fit_, **fields))
    return out


def test_too_few_cells_leave_one_expert_alone():
    """The page says why nothing was compared, and has no figure of it."""
    case = made(ratings((6, 5), 0.8), "1:5", method="auto")
    html = case.render()
    said = prose(html)
    assert "Too few cells are known to hold any out, so one of them answers alone." in said
    assert "nothing was held out to compare experts on" in said
    assert "too few cells are known to compare experts" in said
    assert "experts" not in Reader(html).data["figures"]


# ---------------------------------------------------------------- one expert
def test_a_single_expert_has_its_run_and_no_strengths(posterior):
    """Neither λ nor ξ is spoken of; the diagnostics are there, in words."""
    html = posterior.render()
    said = prose(html)
    assert sections(html) == ["read", "headline", "runs", *SECTIONS[4:]]
    assert "λ" not in said
    assert "Did discreteness" not in said
    assert "Which expert answers? posterior (thresholds by column), alone" in said
    first = str(posterior.imputer.diagnostics_).splitlines()[0]
    assert f"{first.rpartition('settled: ')[2]}." in said
    assert "its settings were chosen while" in said
    assert "Rounding takes the expected value to the nearest symbol" in said


@pytest.mark.parametrize("method", [Mosaic(rounds=0, starts=2), "habits"])
def test_every_expert_has_a_page(method):
    """With the figures of the hidden cells and the table, and nothing that is not a number in it."""
    case = made(ratings(), "1:5", method=method)
    html = case.render()
    assert {"scores", "table-known", "reliability", "certainty"} <= {*Reader(html).data["figures"]}
    assert ("runs" in sections(html)) == (method != "habits")
    assert not re.search(r"\b(nan|inf|None|Undefined)\b", prose(html))


def test_an_expert_of_the_reader_has_a_page():
    """Whatever it knows of itself."""

    class Shares(Expert):
        def __init__(self) -> None:
            pass

        def fit(self, observations, alphabet, **told):
            return SharesFit(observations, alphabet)

    class SharesFit(ExpertFit):
        status = Status("converged", "The shares are counted.")

        def chances(self, rows, cols):
            return np.tile(self.schema.one.frequencies(self.observations.values), (rows.size, 1))

    case = made(ratings(), "1:5", method=Shares())
    assert "Which expert answers? shares, alone" in prose(case.render())


def test_the_strict_evaluation_of_a_blend_is_called_so(blend):
    """By what was settled there."""
    strict = replace(blend.evaluation, strict=True)
    assert "This is strict: experts and their weights were settled" in prose(
        blend._replace(evaluation=strict).render()
    )


# ---------------------------------------------------------------- whether runs have settled
@pytest.mark.parametrize(
    ("settled", "title", "tone"),
    [(True, "Settled", "good"), (False, "Not settled", "bad"), (None, "Too few draws to tell", "even")],
)
def test_a_run_says_whether_it_has_settled(settled, title, tone):
    """With what to do, where it has not."""

    class Found(SimpleNamespace):
        def __str__(self) -> str:
            return "not settled: 8 draws\ntried: one\ntried: two"

    status = Status("converged", "Made.")
    found = experts._run("posterior", status, Found(settled=settled))
    assert (found["title"], found["tone"], found["lines"]) == (title, tone, ["8 draws."])
    assert found["tried"] == ["one", "two"]
    assert bool(found["advice"]) == (settled is not True)
    own = Status("stopped", "Stopped.", "Take more time.")
    assert experts._run("posterior", own, Found(settled=settled))["advice"] == "Take more time."


def test_a_member_that_has_not_settled_is_said_in_the_headline(posterior):
    """Though the run has made all its sweeps."""
    loose = replace(posterior.imputer.diagnostics_, draws=500, cell_r_hat=1.4)
    imputer = changed(posterior.imputer, diagnostics=loose)
    found = experts.status_of(imputer)
    assert (found["title"], found["tone"]) == ("Not settled", "bad")
    assert "The chains of posterior (thresholds by column) do not agree yet." in found["detail"]
    assert found["advice"] == experts.RUN_ON
    few = changed(posterior.imputer, diagnostics=replace(loose, draws=1))
    assert experts.status_of(few)["title"] == "Too few draws to tell"
    fine = changed(posterior.imputer, diagnostics=replace(loose, cell_r_hat=1.001))
    assert (fine.status_.code, experts.status_of(fine)["title"]) == ("max_iter", "Yes")
    early = changed(fine, status=Status("stopped", "The time is over.", "Take more."))
    found = experts.status_of(early)
    assert (found["title"], found["tone"], found["advice"]) == ("Stopped early", "bad", "Take more.")
