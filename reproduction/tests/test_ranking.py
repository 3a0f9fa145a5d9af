"""The ranking: the same splits for all, the best first, nothing that was tuned on test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reproduction import paper, peers, ranking


def own(method: str, nmse: float, seeds: tuple[int, ...] = (0, 1), share: float = 0.2) -> Iterator[paper.Score]:
    for seed in seeds:
        yield paper.Score("d", share, seed, method, nmse + 0.01 * seed, 1.0, 1.0, 0.4, 0.2, 1.0)


def theirs(method: str, nmse: float | None, exact: float = 0.5, share: float = 0.2) -> Iterator[peers.Score]:
    for seed in (0, 1):
        found = None if nmse is None else nmse + 0.01 * seed
        yield peers.Score("d", share, seed, method, found, 1.0, 1.0, None if nmse is None else exact)


@pytest.fixture
def places() -> list[ranking.Place]:
    mine = [
        *own("AIS-Impute", 0.10, (0, 1, 2)),
        *own("AIS-Impute (best on test)", 0.01),
        *own("damped biases", 0.07, (0, 1, 2)),
        *own("discrete-aware LSP", 0.075, (0,)),
        *own("AIS-Impute", 0.08, share=0.25),
    ]
    others = [
        *theirs("myFM regression", 0.065, 0.41),
        *theirs("ours, SnapImputer", 0.068, 0.43),
        *theirs("damped biases", 0.01),
        *theirs("cornac MF", None),
        *theirs("myFM regression", 0.06, share=0.8),
    ]
    return ranking.rank(mine, others)


def test_the_best_is_first(places):
    """By NMSE over the splits that all have; a method without all of them, or tuned on test, has no place."""
    assert [(one.place, one.method) for one in places] == [
        (1, "myFM regression"),
        (2, "ours, SnapImputer"),
        (3, "damped biases"),
        (4, "AIS-Impute"),
    ]
    assert {one.share for one in places} == {0.2}  # what one side has not run is not compared
    assert {one.seeds for one in places} == {2}
    assert [one.nmse for one in places] == pytest.approx([0.07, 0.073, 0.075, 0.105])
    assert [one.kind for one in places] == ["another package", "ours", "control", "the paper's"]


def test_the_table_names_the_winners(places):
    """Who is first by squared error and who by exact match, whoever that is; then all of them."""
    table = ranking.as_markdown(places)
    first, _, head, _, best, *_ = table.splitlines()
    assert first.startswith("- 20 % observed, 2 splits: least NMSE myFM regression (0.0700), ")
    assert first.endswith("most ratings exact ours, SnapImputer (43.0 %).")
    assert head == "| method | | 20 %: NMSE (place) | exact % |"
    assert best == "| myFM regression | another package | 0.0700 ± 0.0050 (1) | 41.0 ± 0.0 |"
    assert table.endswith("the splits of a share are the same for all, and nothing was tuned on test.\n")


def test_those_who_are_level_are_all_named():
    """A lead that no digit of the table shows is none."""
    mine = [*own("Soft-Impute, bias-centred", 0.06500001), *own("damped biases", 0.0651)]
    table = ranking.as_markdown(ranking.rank(mine, list(theirs("myFM regression", 0.065, 0.3))))
    assert "least NMSE myFM regression; Soft-Impute, bias-centred (0.0700)" in table
    assert "most ratings exact Soft-Impute, bias-centred; damped biases (40.0 %)." in table
