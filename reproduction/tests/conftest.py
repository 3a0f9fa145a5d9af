"""Stand-ins for the data of the studies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reproduction import paper
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets import Dataset, low_rank_alphabet, senate_votes


@pytest.fixture
def small_ratings(monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """Ratings of low rank in the place of MovieLens."""
    votes = senate_votes(117)
    made = low_rank_alphabet((40, 30), 2, "1:5", observed=0.8, random_state=0).observations
    data = replace(
        votes,
        name="small",
        rows=made.rows,
        cols=made.cols,
        values=made.values,
        shape=made.shape,
        alphabet=Alphabet.of("1:5"),
        row_labels=None,
        col_labels=None,
        splits={},
    )
    monkeypatch.setattr(paper, "movielens_100k", lambda: data)
    monkeypatch.setattr(paper, "THETAS", (5.0, 20.0))
    monkeypatch.setattr(paper, "ITERATIONS", 12)
    return data
