"""The recovery study: tuning without the hidden entries, its scores and tables, and the units it is worked off in."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from reproduction import recovery, units
from reproduction.recovery import PLAIN, Line, Score, Source, as_markdown, run_unit, summarise, verdict
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.data.observations import Observations
from snapimpute.estimator.comparison import Method
from snapimpute.experts.proximal import tuning
from snapimpute.linalg import LowRank

SHARE, SEED = 0.6, 12
XI_STEPS = (0.1, 0.5)  # strong enough to be seen in the errors
RESCALED = "ξ = 0, rescaled"
FEW = (PLAIN, RESCALED, "ridge", "L1")


def noisy_blocks(seed: int) -> Observations:
    """20×15 blocks of 0 and 1 of which every tenth entry is wrong, so that the best λ is not the smallest."""
    table = low_rank_alphabet((20, 15), 2, "0,1", kind="blocks", observed=0.5, random_state=seed).to_dense()
    wrong = np.random.default_rng(seed).random(table.shape) < 0.1
    return Observations.from_dense(np.where(wrong, 1 - table, table))


def ones_where_hidden(seed: int) -> Observations:
    """The same, but every entry that a unit hides is 1."""
    data = noisy_blocks(seed)
    _, hidden = data.split(1 - SHARE, random_state=seed)
    cells = data.rows.astype(int) * 15 + data.cols
    unseen = np.isin(cells, hidden.rows.astype(int) * 15 + hidden.cols)
    return data.with_values(np.where(unseen, 1.0, data.values))


def watched_unit(
    make: Callable[[int], Observations], seed: int = SEED, labels: Sequence[str] = FEW
) -> tuple[list[Score], list[Any]]:
    """Scores of a unit on a tiny source, and the result of every fit on the way."""
    fits = []

    def solve(*args: Any, **options: Any) -> Any:
        fits.append(original(*args, **options))
        return fits[-1]

    original = tuning.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(recovery.SOURCES, "tiny", Source("tiny blocks", Alphabet.of("0,1"), make))
        patch.setattr(recovery, "XI_STEPS", XI_STEPS)
        patch.setattr(tuning, "run", solve)
        return run_unit("tiny", SHARE, seed, labels), fits


@pytest.fixture(scope="module")
def unit() -> tuple[list[Score], list[Any]]:
    return watched_unit(noisy_blocks)


def timeless(scores: Sequence[Score]) -> list[Score]:
    return [replace(score, seconds=0.0) for score in scores]


# ---------------------------------------------------------------- a unit
def test_hidden_entries_have_no_say(unit):
    """Other hidden symbols change no fit on the way and no strength chosen, only the errors."""
    (scores, fits), (others, refits) = unit, watched_unit(ones_where_hidden)
    assert [(s.lam, s.xi, s.scale) for s in scores] == [(s.lam, s.xi, s.scale) for s in others]
    assert len(fits) == len(refits)
    for a, b in zip(fits, refits, strict=True):
        assert np.array_equal(a.x.to_dense(), b.x.to_dense())
    assert all(a.error != b.error for a, b in zip(scores, others, strict=True))


def test_the_same_seed_gives_the_same_scores(unit):
    """A unit run again has the same scores to the last bit, with another seed others."""
    assert timeless(unit[0]) == timeless(watched_unit(noisy_blocks)[0])
    other, _ = watched_unit(noisy_blocks, SEED + 1, FEW[:1])
    assert other[0].error != unit[0][0].error


def test_a_unit_has_a_score_for_every_method(unit):
    """The scores of the methods asked for carry the setting and come in order, and exact means no error."""
    scores, _ = unit
    assert tuple(s.method for s in scores) == FEW
    assert [s.method for s in watched_unit(noisy_blocks, labels=("L1", "no such"))[0]] == ["L1"]
    for s in scores:
        assert (s.source, s.share, s.seed) == ("tiny", SHARE, SEED)
        assert 0 <= s.error < 0.5
        assert s.square > 0
        assert s.seconds >= 0
        assert s.exact is (s.error == 0)
        assert (s.xi > 0) == (s.method in ("ridge", "L1"))
        assert s.scale >= 1
        assert s.scale == 1 or s.method == RESCALED
        assert s.xi in (0.0, *XI_STEPS)


def l1_prox(x: Any, xi: float) -> Any:
    """argmin_u ξ(|u| + |u − 1|) + ½(u − x)²."""
    inside = np.clip(x, 0, 1)
    return inside + np.sign(x - inside) * np.maximum(np.abs(x - inside) - 2 * xi, 0)


def test_the_error_is_that_of_the_strengths_reported(unit):
    """Dense iterations to convergence, with only λ, ξ and the scale taken from the score, err on as many entries."""
    known, hidden = noisy_blocks(SEED).split(1 - SHARE, random_state=SEED)
    mean, seen = known.values.mean(), np.zeros(known.shape, dtype=bool)
    seen[known.rows, known.cols] = True
    data = np.zeros(known.shape)
    data[known.rows, known.cols] = known.values
    for score in unit[0]:
        pull = {
            PLAIN: lambda x, _: x,
            RESCALED: lambda x, _: x,
            "ridge": lambda x, xi: (x + 2 * xi * mean) / (1 + 2 * xi),
            "L1": l1_prox,
        }[score.method]
        X = np.zeros(known.shape)
        for _ in range(1500):
            U, s, Vt = np.linalg.svd(np.where(seen, data, pull(X + mean, score.xi)) - mean, full_matrices=False)
            X = (U * np.maximum(s - score.lam, 0)) @ Vt
        estimate = (score.scale * X + mean)[hidden.rows, hidden.cols]
        assert np.abs(estimate - 0.5).min() > 1e-4  # no entry is undecided
        assert score.error == np.mean((estimate > 0.5) != hidden.values)


class Fitted(NamedTuple):
    """Part of a result that is scored: X, and X + B with a constant B."""

    x: Any
    offset: float

    def entries(self, rows: Any, cols: Any) -> Any:
        return self.x.entries(rows, cols) + self.offset


def test_scores_are_counted_in_units_of_the_gap():
    """Estimates beyond the alphabet count as its end, squares in units of the smallest gap, errors by the nearest."""
    ternary = Alphabet.of("0,2,6")
    test = Observations.from_dense([[0.0, 2.0], [2.0, 6.0]])
    table = LowRank.from_dense(np.array([[-10.0, 0.2], [1.9, 6.0]]))
    error, square = recovery._scores(Fitted(table, 1.0), test, ternary, 1.0)  # -9, 1.2, 2.9, 7
    assert error == 0.0
    assert square == pytest.approx(np.mean([0, 0.8**2, 0.9**2, 0]) / 2**2)
    error, _ = recovery._scores(Fitted(table, 1.0), test.with_values([2.0, 2.0, 2.0, 6.0]), ternary, 1.0)
    assert error == 0.25


def test_the_scale_is_that_of_the_matrix_without_offsets():
    """A scale multiplies X, not the mean that was subtracted before."""
    test = Observations.from_dense([[0.0, 2.0], [2.0, 6.0]])
    table = LowRank.from_dense(np.array([[-0.5, 0.2], [0.6, 2.0]]))
    error, square = recovery._scores(Fitted(table, 1.0), test, Alphabet.of("0,2,6"), 2.0)  # 0, 1.4, 2.2, 5
    assert error == 0.0
    assert square == pytest.approx(np.mean([0, 0.6**2, 0.2**2, 1]) / 2**2)


def test_an_interrupted_fit_ends_the_unit(monkeypatch):
    """Ctrl-C during a fit is not taken for its end."""
    original = tuning.run

    def interrupted(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        return replace(result, status=replace(result.status, code="interrupted"))

    monkeypatch.setattr(tuning, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        watched_unit(noisy_blocks)


# ---------------------------------------------------------------- tuning
P = recovery.PATIENCE
FALLING = [(1 / k, 1.0) for k in range(1, 10)]


@pytest.mark.parametrize(
    ("scores", "tried"),
    [
        (FALLING, 9),
        ([(b, a) for a, b in FALLING], 9),
        ([(0.5, 0.5)] * 9, 1 + P),
        ([(0.5, 0.5), (0.4, 0.6), (0.6, 0.4), *[(0.4, 0.4)] * 9], 3 + P),
        ([(0.5, 0.5), *[(0.6, 0.6)] * (P - 1), (0.5, 0.4), *[(0.6, 0.5)] * 9], 1 + P + P),
    ],
    ids=["error falls", "square falls", "nothing falls", "each falls once", "just in time"],
)
def test_the_path_has_patience(monkeypatch, scores, tried):
    """A path ends at its last λ, or once neither score has improved for the patience; no fit is done beyond."""
    fitted = []

    def path(*_: Any) -> Iterator[Any]:
        for score in scores:
            fitted.append(score)
            yield score

    monkeypatch.setattr(recovery, "_path", path)
    # the second of two scales is always bad: it must not count as no improvement
    monkeypatch.setattr(recovery, "_scores", lambda result, test, alphabet, c: (2.0, 2.0) if c == 3 else result)
    spec = recovery.ModelSpec(Alphabet.of("0,1"))
    trials = list(recovery._walk_down(spec, None, None, [1.0] * len(scores), 0.25, (1.0, 3.0)))
    assert fitted == scores[:tried]
    assert trials == [
        recovery._Trial(*score, place, 0.25, c)
        for place, one in enumerate(scores[:tried])
        for c, score in ((1.0, one), (3.0, (2.0, 2.0)))
    ]


def test_the_last_fit_has_the_strengths_chosen(monkeypatch):
    """All known entries are fitted down the path to the λ chosen, at that ξ; the last fit is scored at that scale."""
    asked = []

    def path(spec: Any, observations: Any, lams: Sequence[float], xi: float) -> Iterator[Any]:
        asked.append((observations, lams, xi))
        return iter(lams)

    monkeypatch.setattr(recovery, "_path", path)
    monkeypatch.setattr(recovery, "_scores", lambda result, test, alphabet, scale: (result, test, scale))
    trial = recovery._Trial(0.1, 0.2, place=2, xi=0.25, scale=1.5)
    found = recovery._final(recovery.ModelSpec(Alphabet.of("0,1")), "known", "hidden", [8.0, 4.0, 2.0, 1.0], trial)
    assert asked == [("known", [8.0, 4.0, 2.0], 0.25)]
    assert found == (2.0, "hidden", 1.5)


def test_each_score_has_its_own_strengths(monkeypatch):
    """Error, λ and ξ are of the least held-out error, ties by the square; the square is that of its own best."""
    known, hidden = noisy_blocks(0).split(0.4)
    grid = []

    def walk(
        spec: Any, kept: Observations, held: Observations, lams: Sequence[float], xi: float, *_: Any
    ) -> list[Any]:
        assert len(kept) + len(held) == len(known)
        assert len(held) == round(0.2 * len(known))
        grid[:] = lams
        first, second, _ = (step for step in recovery.XI_STEPS)
        scripted = {first: [(0.3, 0.2), (0.2, 0.3)], second: [(0.2, 0.25), (0.2, 0.28)]}.get(xi, [(0.9, 0.1)])
        return [recovery._Trial(error, square, place, xi, 1.0) for place, (error, square) in enumerate(scripted)]

    def final(spec: Any, observed: Any, test: Any, lams: Any, trial: Any) -> tuple[float, float]:
        assert (observed, test) == (known, hidden)
        return 10 + trial.error, 10 + trial.square

    monkeypatch.setattr(recovery, "_walk_down", walk)
    monkeypatch.setattr(recovery, "_final", final)
    found = recovery._tuned(Method("L1", discrete="l1", center="mean"), known, hidden, Alphabet.of("0,1"), 0)
    assert found == (10.2, 10.1, grid[0], (0.2, 0.25, 0, recovery.XI_STEPS[1], 1.0))
    assert len(grid) == recovery.LAM_STEPS
    assert np.allclose(np.array(grid[1:]) / grid[:-1], recovery.LAM_RATIO)
    assert all(a > b for a, b in pairwise(grid))


def test_the_controls_of_a_claim_are_among_the_methods():
    """Beside the penalties stand ξ = 0 centred, uncentred, with biases and rescaled, and the ridge; labels differ."""
    assert recovery.METHODS[0] == Method(PLAIN, discrete=None, center="mean")
    for control in (
        Method("ξ = 0, uncentred", discrete=None, center=None),
        Method("ξ = 0, biases", discrete=None, center="biases"),
        Method("ridge", discrete="ridge", center="mean"),
    ):
        assert control in recovery.METHODS
    (rescaled,) = (m for m in recovery.METHODS if m.scales != (1.0,))
    assert (rescaled.label, rescaled.discrete, rescaled.center) == (RESCALED, None, "mean")
    assert 1.0 in rescaled.scales
    assert max(rescaled.scales) >= 2
    aware = [m for m in recovery.METHODS if m.discrete_aware]
    assert {m.discrete for m in aware} >= {"l1", "l0", "l0-fractional", "lp"}
    for m in aware:  # the same centre without the penalty
        assert any(c.discrete is None and c.center == m.center for c in recovery.METHODS)
    assert set(recovery.CONTROLS) == {PLAIN, "ξ = 0, uncentred", "ξ = 0, biases", RESCALED, "ridge"}
    assert len({m.label for m in recovery.METHODS}) == len(recovery.METHODS)


def test_a_fingerprint_is_that_of_the_definition(monkeypatch):
    """Each method has its own, the same each time; another grid gives others, another definition that one another."""
    first = recovery.prints()
    assert list(first) == [m.label for m in recovery.METHODS]
    assert len(set(first.values())) == len(first)
    assert recovery.prints() == first
    monkeypatch.setattr(recovery, "METHODS", (*recovery.METHODS[:-1], replace(recovery.METHODS[-1], center=None)))
    *same, last = recovery.prints().items()
    assert same == list(first.items())[:-1]
    assert last[1] != list(first.values())[-1]
    for name, value in (("XI_STEPS", XI_STEPS), ("LAM_RATIO", 0.5), ("LAM_STEPS", 3), ("MAX_ITER", 7)):
        with monkeypatch.context() as patch:
            patch.setattr(recovery, name, value)
            assert not set(recovery.prints().values()) & set(first.values())


def test_every_source_gives_entries_on_its_alphabet():
    """The sources have the size in their title and symbols only; the synthetic ones differ from seed to seed."""
    for source in recovery.SOURCES.values():
        data = source.make(0)
        assert np.isin(data.values, source.alphabet.symbols).all()
        assert source.title.endswith("{}×{}".format(*data.shape))
        if data.density == 1:
            assert not np.array_equal(data.values, source.make(1).values)


# ---------------------------------------------------------------- summary
SHARES = (0.02, 0.4)
LABELS = (PLAIN, "ξ = 0, uncentred", "ridge", "L1", "weighted L1", "fractional L0, biases")


def study(seeds: int = 5, sources: Sequence[str] = ("blocks", "signs")) -> list[Score]:
    """Scores at random, the seeds in another order for every method, some of them exact."""
    rng = np.random.default_rng(3)
    scores = []
    for source in sources:
        for share in SHARES:
            for label in LABELS:
                for seed in rng.permutation(seeds).tolist():
                    error = 0.0 if (label, share, seed % 2) == ("L1", 0.4, 0) else float(rng.random())
                    square = float(rng.random())
                    scores.append(Score(source, share, seed, label, error, square, error == 0, 1.0, 0.0, 1.0))
    return scores


def test_means_and_paired_gains_are_the_plain_formulas():
    """Means, differences seed by seed to ξ = 0, and their standard errors s/√n, are those of numpy."""
    scores = study()
    lines = summarise(scores)
    assert [(li.source, li.share, li.method) for li in lines] == [
        (source, share, label) for source in ("blocks", "signs") for share in SHARES for label in LABELS
    ]

    def column(name: str, *setting: Any) -> Any:
        mine = {s.seed: getattr(s, name) for s in scores if (s.source, s.share, s.method) == setting}
        return np.array([mine[seed] for seed in sorted(mine)])

    for line in lines:
        place = line.source, line.share
        error, square = column("error", *place, line.method), column("square", *place, line.method)
        gain = column("error", *place, PLAIN) - error
        ratio = square / column("square", *place, PLAIN)
        assert line.seeds == 5
        assert line.error == pytest.approx(error.mean())
        assert line.error_se == pytest.approx(np.sqrt(np.sum((error - error.mean()) ** 2) / 4 / 5))
        assert line.gain == pytest.approx(gain.mean(), abs=1e-15)
        assert line.gain_se == pytest.approx(np.sqrt(np.sum((gain - gain.mean()) ** 2) / 4 / 5))
        assert line.square == pytest.approx(square.mean())
        assert line.square_ratio == pytest.approx(ratio.mean())
        assert line.square_ratio_se == pytest.approx(np.sqrt(np.sum((ratio - ratio.mean()) ** 2) / 4 / 5))
        assert line.exact == (0.6 if (line.method, line.share) == ("L1", 0.4) else 0.0)


def test_one_seed_has_no_standard_error():
    """The standard error of a single value is NaN, without a warning, and so it is in a line."""
    assert math.isnan(recovery.standard_error(np.array([0.3])))
    assert recovery.standard_error(np.array([1.0, 3.0])) == pytest.approx(1.0)
    (line, *_) = summarise(study(seeds=1))
    assert line.seeds == 1
    assert math.isnan(line.error_se)
    assert math.isnan(line.gain_se)


def parsed(markdown: str) -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    """Headings of the columns and cells of each method, by the title of the table."""
    tables: dict[str, tuple[list[str], dict[str, list[str]]]] = {}
    for block in markdown.split("### ")[1:]:
        title, empty, head, rule, *rows = block.rstrip("\n").split("\n")
        assert empty == ""
        assert set(rule) == {"|", "-"}
        first, *columns = split_row(head)
        assert first == "method"
        assert rule.count("---") == 1 + len(columns)
        tables[title] = columns, {cells[0]: cells[1:] for cells in map(split_row, rows)}
    return tables


def split_row(row: str) -> list[str]:
    assert row.startswith("| ")
    assert row.endswith(" |")
    return [cell.strip() for cell in row[1:-1].split("|")]


def test_the_table_says_what_the_lines_say():
    """Read back, the table has every source, share and method, with the numbers of the lines; ξ = 0 has no gain."""
    lines = summarise(study())
    tables = parsed(as_markdown(lines))
    number = r"([+-]?\d+\.\d\d)"
    pattern = rf"{number} ± {number}(?: \({number} ± {number}; ([+-]\d+) %\))?(?: \*\*exact (\d+)%\*\*)?"
    assert list(tables) == [f"{recovery.SOURCES[source].title}: 5 seeds" for source in ("blocks", "signs")]
    for (columns, rows), source in zip(tables.values(), ("blocks", "signs"), strict=True):
        assert columns == ["2 % observed", "40 % observed"]
        assert list(rows) == list(LABELS)
        for label, cells in rows.items():
            mine = [line for line in lines if (line.source, line.method) == (source, label)]
            for line, cell in zip(mine, cells, strict=True):
                found = re.fullmatch(pattern, cell)
                assert found, cell
                error, error_se, gain, gain_se, ratio, exact = found.groups()
                assert float(error) == pytest.approx(100 * line.error, abs=0.0051)
                assert float(error_se) == pytest.approx(100 * line.error_se, abs=0.0051)
                assert (gain is None) == (label == PLAIN)
                if gain is not None:
                    assert gain[0] in "+-"
                    assert float(gain) == pytest.approx(100 * line.gain, abs=0.0051)
                    assert float(gain_se) == pytest.approx(100 * line.gain_se, abs=0.0051)
                    assert float(ratio) == pytest.approx(100 * (line.square_ratio - 1), abs=0.51)
                assert exact == ("60" if line.exact else None)


def test_the_verdict_sets_the_best_penalty_beside_the_best_controls():
    """The penalty with the largest gain, ξ = 0, and the best control by each score are named with their numbers."""
    template = Line("signs", 0.02, PLAIN, 7, 0.5, 0.01, 0.0, 0.0, 0.2, 1.0, 0.0, 0.0)
    gains = {"ξ = 0, uncentred": -0.2, "ξ = 0, biases": 0.05, RESCALED: 0.02, "ridge": 0.01}
    gains |= {"L1": 0.01, "L0": 0.0234, "weighted L1": -0.1}
    lines = [template] + [
        replace(template, method=m, error=0.5 - g, gain=g, gain_se=0.1 + g, square_ratio=0.8, square_ratio_se=0.03)
        for m, g in gains.items()
    ]
    lines = [replace(line, square_ratio=0.7) if line.method == RESCALED else line for line in lines]
    elsewhere = [replace(line, share=0.05, gain=1.0, square_ratio=0.1) for line in lines]
    other = [replace(line, source="blocks", gain=1.0, square_ratio=0.1) for line in lines]
    assert verdict([*other, *elsewhere, *lines], "signs", 0.02) == (
        f"{recovery.SOURCES['signs'].title}, 2 % observed, 7 seeds: of 3 discrete penalties L0 errs least, on "
        "47.66 %, ξ = 0 on 50.00 % (gain +2.34 ± 12.34 points), the best control, ξ = 0, biases, on 45.00 %. "
        "Squared error -20.0 ± 3.0 % against ξ = 0; the best control there, ξ = 0, rescaled, has -30.0 %."
    )


# ---------------------------------------------------------------- units
@dataclass(frozen=True)
class Mark:
    """A score of the trivial study below."""

    name: str
    share: float
    seed: int
    method: str
    value: float


UNITS = [("a", 0.02, 0), ("a", 0.02, 1), ("a", 0.2, 0), ("b", 0.2, 0)]
PRINTS = {"one": "x", "two": "y"}


def marks(name: str, share: float, seed: int, methods: Sequence[str]) -> Iterator[Mark]:
    for method in methods:
        yield Mark(name, share, seed, method, share / 3)


EXPECTED = [mark for unit in UNITS for mark in marks(*unit, tuple(PRINTS))]


class Watched:
    """The trivial study, which keeps a list of what was run; it may break after the first score of a unit."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.breaks: Any = None

    def __call__(self, name: str, share: float, seed: int, methods: Sequence[str]) -> Iterator[Mark]:
        self.ran.append((name, share, seed, methods))
        for mark in marks(name, share, seed, methods):
            yield mark
            if (name, share, seed) == self.breaks:
                raise KeyboardInterrupt


def work_off(jobs: Sequence[units.Job]) -> None:
    for job in jobs:
        job.work()


def test_only_missing_units_are_run(tmp_path):
    """A unit that has a file is not run again; the scores of all units come back exactly, in their order."""
    folder, study, both = tmp_path / "new" / "scores", Watched(), tuple(PRINTS)
    assert units.collect(study, Mark, dict.fromkeys(UNITS[1:2], PRINTS), folder, work_off) == EXPECTED[2:4]
    assert study.ran == [(*UNITS[1], both)]
    assert units.collect(study, Mark, dict.fromkeys(UNITS, PRINTS), folder, work_off) == EXPECTED
    assert study.ran == [(*unit, both) for unit in (UNITS[1], UNITS[0], *UNITS[2:])]
    handed: list[Any] = []
    assert units.collect(study, Mark, dict.fromkeys(UNITS, PRINTS), folder, handed.extend) == EXPECTED
    assert handed == []
    assert len(list(folder.iterdir())) == len(UNITS)


def test_only_methods_made_otherwise_are_run_again(tmp_path):
    """A method that is new or has another fingerprint is run in every unit, the others stay as they are."""
    study = Watched()
    units.collect(study, Mark, dict.fromkeys(UNITS, PRINTS), tmp_path, work_off)
    study.ran.clear()
    changed = {"one": "x", "three": "z", "two": "other"}
    found = units.collect(study, Mark, dict.fromkeys(UNITS, changed), tmp_path, work_off)
    assert study.ran == [(*unit, ("three", "two")) for unit in UNITS]
    assert found == [mark for unit in UNITS for mark in marks(*unit, tuple(changed))]
    assert units.collect(study, Mark, {unit: {"two": "other"} for unit in UNITS}, tmp_path, work_off) == [
        mark for mark in found if mark.method == "two"
    ]
    assert len(study.ran) == len(UNITS)


def test_a_study_broken_off_goes_on(tmp_path):
    """A unit that raises in the middle keeps the scores it has; the next run does the rest."""
    study = Watched()
    study.breaks = UNITS[2]
    with pytest.raises(KeyboardInterrupt):
        units.collect(study, Mark, dict.fromkeys(UNITS, PRINTS), tmp_path, work_off)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-2-0.json", "a-2-1.json", "a-20-0.json"]
    study.ran, study.breaks = [], None
    jobs: list[units.Job] = []
    units.collect(study, Mark, dict.fromkeys(UNITS, PRINTS), tmp_path, jobs.extend)
    assert [(len(job.methods), job.done()) for job in jobs] == [(1, 0), *[(2, 0)] * len(UNITS[3:])]
    assert units.collect(study, Mark, dict.fromkeys(UNITS, PRINTS), tmp_path, work_off) == EXPECTED
    first, *others = tuple(PRINTS)
    assert study.ran == [(*UNITS[2], tuple(others)), *((*unit, tuple(PRINTS)) for unit in UNITS[3:])]
    assert [job.done() for job in jobs] == [len(job.methods) for job in jobs]
    assert first not in study.ran[0][3]


def test_files_appear_whole(tmp_path, monkeypatch):
    """After each score a whole file takes the place of the one before; if that fails, the one before stays."""
    original, moved = Path.replace, []

    def watched(self: Path, target: Path) -> Path:
        moved.append(target.name)
        written = json.loads(self.read_text(encoding="utf-8"))
        assert list(written) == list(PRINTS)[: moved.count(target.name)]
        if len(moved) == 4:
            raise OSError("no space left")
        return original(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    with pytest.raises(OSError, match="no space"):
        units.collect(marks, Mark, dict.fromkeys(UNITS, PRINTS), tmp_path, work_off)
    assert moved == ["a-2-0.json", "a-2-0.json", "a-2-1.json", "a-2-1.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-2-0.json", "a-2-1.json"]
    assert list(json.loads((tmp_path / "a-2-1.json").read_text(encoding="utf-8"))) == list(PRINTS)[:1]


def test_scores_of_the_study_survive_their_file(tmp_path, unit):
    """The scores of a unit read back from their file are equal to those that were written."""
    scores, _ = unit
    given = dict.fromkeys(FEW, "x")
    read = units.collect(lambda *_: scores, Score, {("tiny", SHARE, SEED): given}, tmp_path, work_off)
    assert read == scores
