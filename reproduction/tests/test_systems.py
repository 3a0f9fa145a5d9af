"""Other systems beside ours: which of them fit, their scores on tiny tables, and the table of the study."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from reproduction import systems
from reproduction.systems import SYSTEMS, Answer, Score, as_markdown, binarised, fits, prints, run_unit
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets import Dataset, low_rank_alphabet
from snapimpute.experts.proximal import tuning

SHARE, SEED = 0.5, 2
ONE_BIT, MULTINOMIAL = "1-bit (Davenport 2014)", "multinomial (Lafond 2014)"
TINY = {"two": "-1,1", "three": "0:2"}


def tiny(alphabet: str) -> Dataset:
    """Blocks of 20×15, one entry in fifty wrong, one in ten missing."""
    made = low_rank_alphabet((20, 15), 2, alphabet, kind="blocks", noise=0.02, observed=0.9, random_state=SEED)
    entries = made.observations
    return Dataset(f"tiny {alphabet}", entries.rows, entries.cols, entries.values, entries.shape, made.alphabet)


class Unit(NamedTuple):
    """The scores of a unit, and what each system answered: estimates and symbols of the hidden entries."""

    scores: list[Score]
    answers: list[tuple[Any, Any]]


def unit(data: Dataset, name: str, wanted: Sequence[str] | None = None) -> Unit:
    """Run a unit with the real systems, all that fit if none are named."""
    answers = []

    def watched(system: Any) -> Any:
        def run(*args: Any) -> Any:
            answers.append(system(*args))
            return answers[-1]

        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(systems, "DATA", {name: (lambda: data, (SHARE,))})
        patch.setattr(systems, "SYSTEMS", {one: watched(system) for one, system in SYSTEMS.items()})
        return Unit(list(run_unit(name, SHARE, SEED, wanted or tuple(prints(name)))), answers)


@pytest.fixture(scope="module")
def done() -> dict[str, Unit]:
    return {name: unit(tiny(alphabet), name) for name, alphabet in TINY.items()}


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
def test_every_system_that_fits_has_finite_scores(done, name):
    """The systems come in their order, each with its setting, an error rate, and a finite NMSE if it estimates."""
    left_out = {"two": MULTINOMIAL, "three": ONE_BIT}[name]
    assert [s.method for s in done[name].scores] == [system for system in SYSTEMS if system != left_out]
    for s in done[name].scores:
        assert (s.data, s.share, s.seed) == (name, SHARE, SEED)
        assert 0 <= s.error <= 1
        assert (s.nmse is None) == (s.method in ("most common symbol", "learned thresholds (Huo 2016)"))
        assert np.isfinite([s.nmse or 0.0, s.seconds]).all()
        assert min(s.nmse or 0.0, s.seconds) >= 0


@pytest.mark.parametrize("name", TINY)
def test_systems_of_low_rank_beat_a_constant(done, name):
    """On blocks every system with a low-rank model errs less than half as often as the most common symbol."""
    errors = {s.method: s.error for s in done[name].scores}
    limit = errors["most common symbol"] / 2
    modelled = set(errors) - {"constant mean", "most common symbol", "damped biases"}
    assert all(errors[system] < limit for system in modelled)


@pytest.mark.parametrize("name", TINY)
def test_scores_are_those_of_the_estimates(done, name):
    """Error and NMSE are those of the answers; the mean and the most common symbol are computed by hand."""
    known, hidden = tiny(TINY[name]).observations.split(1 - SHARE, random_state=SEED)
    symbols = Alphabet.of(TINY[name]).symbols
    mean = known.values.mean()
    common = symbols[np.argmax([(known.values == a).sum() for a in symbols])]
    decided = {"constant mean": symbols[np.argmin(np.abs(symbols - mean))], "most common symbol": common}
    for s in done[name].scores[:2]:
        assert s.error == pytest.approx(np.mean(hidden.values != decided[s.method]))
    size = np.sum(hidden.values**2)
    assert done[name].scores[0].nmse == pytest.approx(np.sum((hidden.values - mean) ** 2) / size)
    for s, (estimates, symbols, _) in zip(*done[name], strict=True):
        assert s.error == pytest.approx(np.mean(hidden.values != symbols))
        assert s.nmse is None or s.nmse == pytest.approx(np.sum((hidden.values - estimates) ** 2) / size)


def test_hidden_entries_have_no_say(done):
    """Each system gives the same estimates and decides for the same symbols whatever the hidden symbols are."""
    data = tiny(TINY["two"])
    _, hidden = data.observations.split(1 - SHARE, random_state=SEED)
    unseen = np.isin(data.rows * 15 + data.cols, hidden.rows * 15 + hidden.cols)
    other = unit(replace(data, values=np.where(unseen, 1.0, data.values)), "two")
    for score, mine, theirs in zip(other.scores, done["two"].answers, other.answers, strict=True):
        assert np.array_equal(mine.estimate, theirs.estimate), score.method
        assert np.array_equal(mine.symbols, theirs.symbols), score.method
        assert mine.xi == theirs.xi == score.xi
        assert score.error == pytest.approx(np.mean(mine.symbols != 1))


def test_only_the_systems_asked_for_are_run(monkeypatch):
    """The systems asked for are run, once each and in that order, on the same split and seed."""
    calls = []

    def watched(known: Any, hidden: Any, alphabet: Any, seed: int) -> Any:
        calls.append((len(known), len(hidden), alphabet, seed))
        return Answer(np.zeros(len(hidden)), hidden.values)

    for name in (ONE_BIT, "ours, L1"):
        monkeypatch.setitem(SYSTEMS, name, watched)
    found = unit(tiny("-1,1"), "two", ("ours, L1", ONE_BIT)).scores
    assert [(s.method, s.error, s.nmse) for s in found] == [("ours, L1", 0, 1), (ONE_BIT, 0, 1)]
    assert calls == [(135, 135, Alphabet.of("-1,1"), SEED)] * 2


def test_systems_wanted_are_those_that_fit_with_their_fingerprints(monkeypatch):
    """The fingerprints are of the systems that fit, all different, the same each time, and others on other grids."""
    monkeypatch.setattr(systems, "DATA", {"two": (lambda: tiny("-1,1"), (SHARE,))})
    found = prints("two")
    assert list(found) == [name for name in SYSTEMS if name != MULTINOMIAL]
    assert len(set(found.values())) == len(found)
    assert prints("two") == found
    for name, value in (("XI_STEPS", (0.0, 1.0)), ("LAM_STEPS", 3), ("LAM_RATIO", 0.1)):
        with monkeypatch.context() as patch:
            patch.setattr(tuning, name, value)
            assert not set(prints("two").values()) & set(found.values())


# ---------------------------------------------------------------- the table
def split_row(row: str) -> list[str]:
    assert row.startswith("| ")
    assert row.endswith(" |")
    return [cell.strip() for cell in row[1:-1].split("|")]


@pytest.mark.parametrize("seeds", [1, 4])
def test_the_table_says_what_the_scores_say(seeds):
    """Read back, the table has every system and share with mean, standard error, NMSE and seconds."""
    rng = np.random.default_rng(0)
    data, shares, names = ("two", "three"), (0.05, 0.6), ("constant mean", "ours, ξ = 0")
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
        assert (title, empty) == (f"{one}: {seeds} seeds", "")
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


def test_a_system_without_estimates_has_no_nmse_in_the_table():
    """A dash stands for the NMSE of a system that decides for symbols only."""
    table = as_markdown([Score("two", 0.5, seed, "most common symbol", 0.25, None, 0.0) for seed in (0, 1)])
    assert table.splitlines()[-1] == "| most common symbol | 25.00 ± 0.00 | – | 0.0 |"


def test_the_table_tells_where_no_discreteness_was_chosen():
    """The table says in how many splits ξ was 0 where it may be chosen; the plain method has nothing to tell."""
    rows = [Score("two", 0.5, seed, "ours, L1", 0.25, 0.1, 0.0, xi) for seed, xi in enumerate((0.0, 0.01, 0.0))]
    assert "| ours, L1 | 25.00 ± 0.00 (ξ = 0 chosen in 2 of 3) |" in as_markdown(rows)
    assert "chosen" not in as_markdown([replace(row, method="ours, ξ = 0") for row in rows])
    assert "chosen" not in as_markdown(rows[1:2])


def test_the_published_error_stands_below_its_table():
    """The table of the signs of MovieLens ends with the published error rate, one less the accuracy."""
    rows = [Score(data, 0.95, 0, ONE_BIT, 0.3, 0.9, 1.0) for data in ("movielens", "movielens-signs")]
    first, second = as_markdown(rows).split("### ")[1:]
    assert "Published" not in first
    assert second.rstrip().endswith("\n\nPublished for 1-bit completion: 27 % wrong (one split).")
