"""Other systems beside ours: which of them fit, their scores on tiny tables, and the table of the study."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from snapimpute.alphabet import Alphabet
from snapimpute.datasets import Dataset, low_rank_alphabet
from snapimpute.experiments import systems
from snapimpute.experiments.systems import SYSTEMS, Score, as_markdown, binarised, fits, run_unit

SHARE, SEED = 0.5, 2
ONE_BIT, MULTINOMIAL = "1-bit (Davenport 2014)", "multinomial (Lafond 2014)"
TINY = {"two": "-1,1", "three": "0:2"}


def tiny(alphabet: str) -> Dataset:
    """Blocks of 20×15, one entry in ten wrong, one in ten missing."""
    made = low_rank_alphabet((20, 15), 2, alphabet, kind="blocks", noise=0.1, observed=0.9, random_state=SEED)
    entries = made.observations
    return Dataset(f"tiny {alphabet}", entries.rows, entries.cols, entries.values, entries.shape, made.alphabet)


def units(data: dict[str, Dataset], names: Sequence[str] = tuple(SYSTEMS)) -> dict[str, list[Score]]:
    """One unit of each set of data, with the real systems."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(systems, "DATA", {name: (lambda one=one: one, (SHARE,)) for name, one in data.items()})
        return {name: list(run_unit(name, SHARE, SEED, names)) for name in data}


@pytest.fixture(scope="module")
def scores() -> dict[str, list[Score]]:
    return units({name: tiny(alphabet) for name, alphabet in TINY.items()})


# ---------------------------------------------------------------- data
def test_binarised_is_the_sign_of_the_distance_to_the_mean():
    """Entries above the mean of all become 1, the mean itself and all below −1; cells, labels and splits stay."""
    data = Dataset("toy", [0, 0, 1, 1], [0, 1, 0, 2], [1, 2, 4, 1], (2, 3), Alphabet.of("1:5"), splits={"last": [3]})
    signs = binarised(data)
    assert signs.values.tolist() == [-1, -1, 1, -1]  # the mean is 2
    assert signs.alphabet == Alphabet.of("-1,1")
    assert (signs.rows.tolist(), signs.cols.tolist(), signs.shape) == ([0, 0, 1, 1], [0, 1, 0, 2], (2, 3))
    assert signs.splits["last"].tolist() == [3]
    assert signs.name == "toy, above or below its mean"
    assert data.values.tolist() == [1, 2, 4, 1]


def test_systems_fit_where_they_are_defined():
    """1-bit takes two symbols, multinomial, which is the same then, more than two; all others take both."""
    two, three = Alphabet.of("-1,1"), Alphabet.of("0:2")
    assert (fits(ONE_BIT, two), fits(ONE_BIT, three)) == (True, False)
    assert (fits(MULTINOMIAL, two), fits(MULTINOMIAL, three)) == (False, True)
    assert {ONE_BIT, MULTINOMIAL} < set(SYSTEMS)
    assert all(fits(name, a) for name in set(SYSTEMS) - {ONE_BIT, MULTINOMIAL} for a in (two, three))


# ---------------------------------------------------------------- a unit
@pytest.mark.parametrize("name", TINY)
def test_every_system_that_fits_has_finite_scores(scores, name):
    """The systems come in their order, each with its setting, an error rate and a finite NMSE."""
    left_out = {"two": MULTINOMIAL, "three": ONE_BIT}[name]
    assert [s.system for s in scores[name]] == [system for system in SYSTEMS if system != left_out]
    for s in scores[name]:
        assert (s.data, s.share, s.seed) == (name, SHARE, SEED)
        assert 0 <= s.error <= 1
        assert np.isfinite([s.nmse, s.seconds]).all()
        assert min(s.nmse, s.seconds) >= 0


@pytest.mark.parametrize("name", TINY)
def test_systems_of_low_rank_beat_a_constant(scores, name):
    """On blocks every system with a low-rank model errs less than half as often as the most common symbol."""
    errors = {s.system: s.error for s in scores[name]}
    limit = errors["most common symbol"] / 2
    modelled = set(errors) - {"constant mean", "most common symbol", "damped biases"}
    assert all(errors[system] < limit for system in modelled)


@pytest.mark.parametrize("name", TINY)
def test_scores_are_those_of_the_estimates(scores, name):
    """Error and NMSE of the mean and of the most common symbol are those computed by hand."""
    known, hidden = tiny(TINY[name]).observations.split(1 - SHARE, random_state=SEED)
    symbols = Alphabet.of(TINY[name]).symbols
    mean = known.values.mean()
    common = symbols[np.argmax([(known.values == a).sum() for a in symbols])]
    decided = {"constant mean": symbols[np.argmin(np.abs(symbols - mean))], "most common symbol": common}
    estimate = {"constant mean": mean, "most common symbol": common}
    for s in scores[name][:2]:
        assert s.error == pytest.approx(np.mean(hidden.values != decided[s.system]))
        assert s.nmse == pytest.approx(np.sum((hidden.values - estimate[s.system]) ** 2) / np.sum(hidden.values**2))


def test_hidden_entries_have_no_say(scores):
    """With every hidden symbol the other one, each system gives the same estimates: right becomes wrong."""
    data = tiny(TINY["two"])
    _, hidden = data.observations.split(1 - SHARE, random_state=SEED)
    unseen = np.isin(data.rows * 15 + data.cols, hidden.rows * 15 + hidden.cols)
    opposite = replace(data, values=np.where(unseen, -data.values, data.values))
    others = units({"two": opposite})["two"]
    for a, b in zip(scores["two"], others, strict=True):
        assert a.error == pytest.approx(1 - b.error), a.system


def test_only_the_systems_asked_for_are_run(monkeypatch):
    """Of the systems asked for those that fit are run, once each and in that order, on the same split and seed."""
    calls = []

    def watched(known: Any, hidden: Any, alphabet: Any, seed: int) -> Any:
        calls.append((len(known), len(hidden), alphabet, seed))
        return np.zeros(len(hidden)), hidden.values

    for name in (MULTINOMIAL, ONE_BIT, "ours, L1"):
        monkeypatch.setitem(SYSTEMS, name, watched)
    found = units({"two": tiny("-1,1")}, ("ours, L1", MULTINOMIAL, ONE_BIT))["two"]
    assert [(s.system, s.error, s.nmse) for s in found] == [("ours, L1", 0, 1), (ONE_BIT, 0, 1)]
    assert calls == [(135, 135, Alphabet.of("-1,1"), SEED)] * 2


# ---------------------------------------------------------------- the table
def split_row(row: str) -> list[str]:
    assert row.startswith("| ")
    assert row.endswith(" |")
    return [cell.strip() for cell in row[1:-1].split("|")]


@pytest.mark.parametrize("seeds", [1, 4])
def test_the_table_says_what_the_scores_say(monkeypatch, seeds):
    """Read back, the table has every system and share with mean, standard error, NMSE and seconds."""
    rng = np.random.default_rng(0)
    data, shares, names = ("two", "three"), (0.05, 0.6), ("constant mean", "ours, ξ = 0")
    monkeypatch.setattr(systems, "DATA", {name: (lambda name=name: tiny(TINY[name]), shares) for name in data})
    given = {
        (one, share, name): [Score(one, share, seed, name, *rng.random(3).tolist()) for seed in range(seeds)]
        for one in data
        for share in shares
        for name in names
    }
    blocks = as_markdown([s for rows in given.values() for s in rows]).split("### ")
    assert blocks[0] == ""
    for one, block in zip(data, blocks[1:], strict=True):
        title, empty, head, rule, *rows = block.rstrip("\n").split("\n")
        assert (title, empty) == (f"tiny {TINY[one]}: {seeds} seeds", "")
        wanted = [column for share in ("5", "60") for column in (f"{share} % known: wrong %", "NMSE", "s")]
        assert split_row(head) == ["system", *wanted]
        assert rule == "|" + "---|" * 7
        assert [split_row(row)[0] for row in rows] == list(names)
        for name, row in zip(names, rows, strict=True):
            cells = split_row(row)[1:]
            for share, (wrong, nmse, seconds) in zip(shares, (cells[:3], cells[3:]), strict=True):
                mine = given[one, share, name]
                errors = 100 * np.array([s.error for s in mine])
                found = re.fullmatch(r"(\d+\.\d\d)(?: ± (\d+\.\d\d))?", wrong)
                assert found
                assert float(found[1]) == pytest.approx(errors.mean(), abs=0.0051)
                assert (found[2] is None) == (seeds == 1)
                if found[2] is not None:
                    spread = np.sqrt(np.sum((errors - errors.mean()) ** 2) / (seeds - 1) / seeds)
                    assert float(found[2]) == pytest.approx(spread, abs=0.0051)
                assert float(nmse) == pytest.approx(np.mean([s.nmse for s in mine]), abs=0.000051)
                assert float(seconds) == pytest.approx(np.mean([s.seconds for s in mine]), abs=0.051)
