"""The posterior beside myFM: splits, scores from probabilities, and the sentence about the gain."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from reproduction import posterior
from reproduction.peers import Answer, Made, PeerError
from reproduction.posterior import OURS, Score, as_markdown, gain_in_words, prints, run_unit, split
from snapimpute.data.datasets import Dataset, low_rank_alphabet
from tests.helpers import ROOT

RESULTS = ROOT / "reproduction" / "results"


def kept(split: str) -> dict[str, Any]:
    """The committed scores of one split, by method."""
    rows: dict[str, Any] = json.loads(
        (RESULTS / "scores" / "posterior" / f"{split}.json").read_text(encoding="utf-8")
    )
    return rows


def tiny() -> Dataset:
    """Entries in an order of their own."""
    made = low_rank_alphabet((12, 10), 2, "1:5", observed=5 / 6, random_state=3)
    order = np.random.default_rng(1).permutation(100)
    cells = made.observations
    return Dataset("tiny", cells.rows[order], cells.cols[order], cells.values[order], cells.shape, made.alphabet)


@pytest.fixture(autouse=True)
def tiny_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posterior, "DATA", {"movielens-100k": tiny})
    monkeypatch.setattr(posterior, "environment", lambda name: Made(("python",)))


def test_the_first_share_of_a_permutation_in_source_order_is_known():
    """The split of the issue, and nothing else: cells by their place in the source."""
    data = tiny()
    known, hidden = split(data, 0.6, 7)
    order = np.random.default_rng(7).permutation(100)
    cells = {(r, c): v for r, c, v in zip(data.rows, data.cols, data.values, strict=True)}
    chosen = {(data.rows[i], data.cols[i]) for i in order[:60]}
    assert set(zip(known.rows, known.cols, strict=True)) == chosen
    assert len(hidden) == 40
    assert all(cells[r, c] == v for r, c, v in zip(hidden.rows, hidden.cols, hidden.values, strict=True))


def test_scores_follow_from_the_probabilities(monkeypatch):
    """Log loss by hand where there are probabilities, none where there are not; a failure is a note."""
    asked = []

    def ask(peer, known, hidden, alphabet, seed):
        asked.append(peer.run)
        if peer.run.startswith("myfm-regression"):
            return Answer(np.full(len(hidden), 3.0), np.full(len(hidden), 3.0), 1.0, 2.0, 3.0, "")
        if peer.run.startswith("myfm-probit"):
            raise PeerError("no luck")
        p = np.tile([0.1, 0.2, 0.4, 0.2, 0.1], (len(hidden), 1))
        return Answer(p @ alphabet.symbols, np.full(len(hidden), 3.0), 1.0, 2.0, 3.0, "30 sweeps", p)

    monkeypatch.setattr(posterior, "ask", ask)
    ours, regression, probit = run_unit("movielens-100k", 0.6, 7, list(posterior.METHODS["movielens-100k"]))
    truth = split(tiny(), 0.6, 7)[1].values.astype(int)
    loss = -np.log(np.array([0, 0.1, 0.2, 0.4, 0.2, 0.1])[truth]).mean()
    assert ours.log_loss == pytest.approx(loss)
    assert ours.nmse == regression.nmse == pytest.approx(((truth - 3) ** 2).sum() / (truth**2).sum())
    assert (regression.log_loss, regression.calibration) == (None, None)
    assert probit == Score("movielens-100k", 0.6, 7, "myFM ordered probit", note="no luck")
    assert asked == ["posterior", "myfm-regression-histories-8", "myfm-probit-histories-8"]


def test_the_print_of_ours_follows_its_code(monkeypatch):
    """A changed line of the posterior makes its scores anew, and leaves those of the others."""
    before = prints("movielens-100k")
    monkeypatch.setattr(posterior, "_sources", lambda: (b"another line",))
    after = prints("movielens-100k")
    assert [name for name in before if before[name] != after[name]] == [OURS]


def test_the_gain_is_that_over_the_better_other_of_each_split():
    """Seed by seed; a method that did not run is no rival."""
    scores = [Score("movielens-100k", 0.2, seed, OURS, nmse=0.06) for seed in (3, 4)]
    scores += [
        Score("movielens-100k", 0.2, 3, "myFM regression", nmse=0.0625),
        Score("movielens-100k", 0.2, 3, "myFM ordered probit", nmse=0.08),
        Score("movielens-100k", 0.2, 4, "myFM regression", note="no luck"),
        Score("movielens-100k", 0.2, 4, "myFM ordered probit", nmse=0.0612244898, exact=0.4, log_loss=1.3),
    ]
    assert gain_in_words(scores) == "Ours is below the better myFM of each split by 3.00 ± 1.00 % (least 2.00 %)."
    table = as_markdown(scores)
    assert "### movielens-100k, 20 % known, seeds 3, 4\n" in table
    assert "| myFM ordered probit | 0.0706 ± 0.0094 | – | 0.4000 | 1.300 | – | – | – |" in table
    assert gain_in_words(scores[:1]) == "The methods have no split in common."


def test_the_committed_scores_of_others_were_made_by_what_is_here():
    """No setting and no pinned version has been changed since, and no split is left out."""
    for name, shares in posterior.SHARES.items():
        codes = prints(name, [one for one in posterior.METHODS[name] if one != OURS])
        for share in shares:
            for seed in range(posterior.SEEDS[name]):
                rows = kept(f"{name}-{100 * share:g}-{seed}")
                assert {one: rows[one]["made by"] for one in codes} == codes
                assert OURS in rows


def test_the_committed_table_is_that_of_the_scores():
    """Each line of the table, made anew from what is kept, is in the file and on the page of results."""
    scores = [
        Score(**row["score"])
        for name, shares in posterior.SHARES.items()
        for seed in range(posterior.SEEDS[name])
        for share in shares
        for row in kept(f"{name}-{100 * share:g}-{seed}").values()
    ]
    table = as_markdown(scores)
    assert sorted((RESULTS / "posterior.md").read_text(encoding="utf-8").splitlines()) == sorted(table.splitlines())
    page = set((ROOT / "docs" / "results" / "posterior.md").read_text(encoding="utf-8").splitlines())
    assert {line for line in table.splitlines() if line.startswith("|")} <= page
