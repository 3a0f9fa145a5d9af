"""Figures of the report, and pages of special tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from snapimpute.app.report import _charts as charts
from snapimpute.app.report import _experts as experts
from snapimpute.app.report import _matrix as matrix
from snapimpute.app.report import _words as words
from snapimpute.data.observations import Observations
from snapimpute.solvers.result import Status
from snapimpute.views.figures import Convergence, TuningScores
from tests.app.report.pages import Case, Reader, made, mixed, named, prose, ratings

pytestmark = pytest.mark.slow


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


def test_a_status_without_its_name_in_front_is_kept_whole(tuned):
    """Only the word that the page says already is left out of the message."""
    status = Status("diverged", "The objective is not finite after 3 iteration(s).", "Take a larger λ.")
    said = experts.status_of(SimpleNamespace(status_=status, fit_=tuned.imputer.fit_))
    assert said["title"] == "Not converged"
    assert said["detail"] == status.message
    assert said["advice"] == "Take a larger λ."
