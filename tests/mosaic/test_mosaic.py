"""The mosaic as a model: choices, answers, drawn tables, new rows, phases, and the house around it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import snapimpute as si
from snapimpute.data.datasets import mosaic_genotypes
from snapimpute.mosaic import Mosaic, MosaicFit, MosaicForecast, Round
from snapimpute.mosaic import _run as run_module
from snapimpute.mosaic._run import KeptStrands
from tests.helpers import ROOT

DATA = mosaic_genotypes((80, 60), founders=6, jump=0.03, observed=0.7, random_state=0)
SEQUENCES = mosaic_genotypes((60, 40), founders=5, strands=1, symbols=4, jump=0.05, observed=0.6, random_state=0)
GENOTYPES = [0, 1, 2]
COPYING = Mosaic(order="given", strands=2, rounds=4, starts=2, classes=6)
CLASSES = Mosaic(order="given", strands=2, rounds=0, starts=3, classes=6)
ONE = Mosaic(order="given", strands=1, rounds=3, starts=1, classes=6)
LATENT = Mosaic(order=None, strands=1, starts=3, classes=4)
MODELS = {"copying": COPYING, "classes": CLASSES, "found": replace(COPYING, order="found")}
SINGLES = {"one strand": ONE, "latent": LATENT}
ALL = {**{name: (model, DATA) for name, model in MODELS.items()}, **{n: (m, SEQUENCES) for n, m in SINGLES.items()}}
FITS: dict[str, MosaicFit] = {}


def fitted(name: str) -> MosaicFit:
    """Each model once."""
    if name not in FITS:
        model, data = ALL[name]
        FITS[name] = model.fit(data.observations, data.alphabet)
    return FITS[name]


def wrong(fit: MosaicFit, truth: np.ndarray) -> float:
    rows, cols = fit.missing()
    return float(np.mean(fit.proba(rows, cols).argmax(axis=1) != truth[rows, cols]))


# ---------------------------------------------------------------- answers
@pytest.mark.parametrize("name", ALL)
def test_hidden_cells_come_back(name):
    """Most hidden cells of a planted mosaic are right: far more than the most common symbol of each column."""
    _, data = ALL[name]
    fit = fitted(name)
    rows, cols = fit.missing()
    known = np.full(data.truth.shape, np.nan)
    known[data.observations.rows, data.observations.cols] = data.observations.values
    usual = np.array([np.bincount(one[~np.isnan(one)].astype(int)).argmax() for one in known.T])
    baseline = float(np.mean(usual[cols] != data.truth[rows, cols]))
    assert wrong(fit, data.truth) < {"latent": 0.8, "found": 0.75}.get(name, 0.35) * baseline


@pytest.mark.parametrize("name", ALL)
def test_probabilities_means_and_known_cells(name):
    """Probabilities add up, means follow from them, and a known cell answers with its own symbol."""
    _, data = ALL[name]
    fit = fitted(name)
    rows, cols = fit.missing()
    p = fit.proba(rows, cols)
    assert_allclose(p.sum(axis=1), 1)
    assert p.min() > 0
    assert_allclose(fit.mean(rows, cols), p @ data.alphabet.symbols)
    assert_array_equal(fit.entries(rows[:3], cols[:3]), fit.mean(rows[:3], cols[:3]))
    seen = data.observations
    assert_array_equal(fit.proba(seen.rows, seen.cols).argmax(axis=1), seen.values)
    with pytest.raises(ValueError, match="rows must be whole numbers between 0 and"):
        fit.proba([1000], [0])


def test_probabilities_can_be_trusted():
    """Symbols are right at least as often as they are said to be, and not far more often: averages are modest."""
    fit = COPYING.fit(mosaic_genotypes((150, 100), founders=8, observed=0.5).observations, GENOTYPES)
    truth = mosaic_genotypes((150, 100), founders=8, observed=0.5).truth
    rows, cols = fit.missing()
    p = fit.proba(rows, cols)
    right = p.argmax(axis=1) == truth[rows, cols]
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 1.0)):
        inside = (p.max(axis=1) > low) & (p.max(axis=1) <= high)
        assert -0.03 < right[inside].mean() - p.max(axis=1)[inside].mean() < 0.13


# ---------------------------------------------------------------- choices
def test_held_out_cells_choose_strands_order_and_copying():
    """Genotypes in order: two strands, the given order, copying; each trial is told and kept."""
    told: list[object] = []
    fit = Mosaic().fit(DATA.observations, GENOTYPES, progress=told.append)
    chosen = fit.settings
    assert (chosen.order, chosen.strands) == ("given", 2)
    assert chosen.rounds > 0
    assert [str(one) for one in fit.diagnostics.held_out] == [str(one) for one in told]
    assert "given order, 2 strands, copying: log loss" in str(fit.diagnostics)
    assert str(fit.diagnostics).splitlines()[0] == "chosen: given order, 2 strands, copying"


def test_a_lost_order_is_found():
    """Shuffled columns: the order that is found beats none and the given one, and helps by far."""
    data = mosaic_genotypes((150, 100), founders=4, jump=0.1, observed=0.8, random_state=0)
    seen, shuffled = data.observations, np.random.default_rng(0).permutation(100)
    table = si.Observations.from_coo(seen.rows, np.argsort(shuffled)[seen.cols], seen.values, seen.shape)
    fit = Mosaic(strands=2).fit(table, GENOTYPES)
    assert fit.settings.order == "found"
    assert len(fit.lines) == fit.settings.starts  # each start along an order of its own
    truth = data.truth[:, shuffled]
    assert wrong(fit, truth) < 0.75 * wrong(Mosaic(strands=2, order=None, starts=3).fit(table, GENOTYPES), truth)


def test_soft_classes_do_not_copy():
    """Where strands of a class differ much, held-out cells say that rows should not copy."""
    rng = np.random.default_rng(0)
    shown, source = rng.beta(0.8, 0.8, (4, 80)), np.zeros((300, 80), int)
    for j in range(80):
        source[:, j] = np.where((rng.random(300) < 0.98) & (j > 0), source[:, j - 1], rng.integers(0, 4, 300))
    strands = rng.random((300, 80)) < shown[source, np.arange(80)]
    values = (strands[0::2].astype(float) + strands[1::2]) * np.where(rng.random((150, 80)) < 0.8, 1, np.nan)
    fit = Mosaic(order="given", strands=2).fit(si.Observations.from_dense(values), GENOTYPES)
    assert fit.settings.rounds == 0
    assert fit.settings.classes <= 12


def test_categories_without_an_order_of_columns():
    """Planted types, columns of several alphabets, some of categories: latent classes; one strand each."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 3, 200)
    pets, answers = rng.integers(0, 3, (3, 5)), rng.integers(0, 5, (3, 5))
    values = np.hstack([pets[kind], answers[kind]]).astype(float)
    noise = np.hstack([rng.integers(0, 3, (200, 5)), rng.integers(0, 5, (200, 5))])
    values = np.where(rng.random((200, 10)) < 0.8, values, noise)
    known = np.where(rng.random(values.shape) < 0.7, values, np.nan)
    alphabet = [si.Nominal(["cat", "dog", "fox"])] * 5 + [si.Alphabet.of("0:4")] * 5
    schema = si.data.schema.ColumnSchema.of(alphabet, 10)
    fit = Mosaic().fit(si.Observations.from_dense(known), schema)
    assert fit.settings.strands == 1
    rows, cols = fit.missing()
    inside = cols < 5
    found = fit.proba(rows[inside], cols[inside])
    assert found.shape[1] == 3
    assert np.mean(found.argmax(axis=1) == values[rows[inside], cols[inside]]) > 0.7
    assert np.isnan(fit.mean(rows, cols)[inside]).all()
    with pytest.raises(ValueError, match="with one alphabet"):
        fit.proba([0, 0], [0, 7])


# ---------------------------------------------------------------- drawn tables, new rows, phases
@pytest.mark.parametrize("name", ALL)
def test_drawn_tables_keep_known_cells_and_follow_the_answers(name):
    """Shares of drawn symbols are near the probabilities, draws differ, and a seed gives the same ones."""
    _, data = ALL[name]
    fit = fitted(name)
    rows, cols = fit.missing()
    drawn = fit.draw(60, random_state=1)
    p = fit.proba(rows, cols)
    share = np.stack([(drawn == s).mean(axis=0) for s in data.alphabet.symbols], axis=1)
    assert np.abs(share - p).mean() < 0.06
    assert np.corrcoef(share.ravel(), p.ravel())[0, 1] > 0.95
    assert_array_equal(fit.draw(2, random_state=1), drawn[:2])
    assert (drawn[0] != drawn[1]).any()
    seen = data.observations
    assert_array_equal(fit.draw(1, seen.rows[:9], seen.cols[:9])[0], seen.values[:9])


def test_drawn_cells_of_a_row_go_together():
    """Neighbouring cells come from the same piece: drawn jointly they agree with a founder more often than apart."""
    data = mosaic_genotypes((80, 40), founders=3, strands=1, symbols=4, jump=0.02, observed=0.9, random_state=2)
    hidden = data.observations.take(~((data.observations.rows < 20) & (data.observations.cols > 9)))
    fit = replace(ONE, classes=3).fit(hidden, data.alphabet)
    rows, cols = np.repeat(np.arange(20), 10), np.tile(np.arange(30, 40), 20)
    drawn = fit.draw(30, rows, cols).reshape(30, 20, 10)
    pieces = {tuple(one) for one in data.truth[:, 30:].tolist()}
    joint = np.mean([tuple(one) in pieces for one in drawn.reshape(-1, 10).tolist()])
    apart = np.take_along_axis(drawn, np.random.default_rng(0).random(drawn.shape).argsort(axis=0), axis=0)
    assert joint > np.mean([tuple(one) in pieces for one in apart.reshape(-1, 10).tolist()]) + 0.15


@pytest.mark.parametrize("name", ALL)
def test_new_rows_are_answered_by_the_fit(name):
    """Rows left out of a fit are nearly as well answered afterwards; the fit itself does not change."""
    model, data = ALL[name]
    cut = data.truth.shape[0] * 3 // 4
    first = data.observations.take(data.observations.rows < cut)
    first = si.Observations.from_coo(first.rows, first.cols, first.values, (cut, data.truth.shape[1]))
    rest = data.observations.take(data.observations.rows >= cut)
    shape = (data.truth.shape[0] - cut, data.truth.shape[1])
    rest = si.Observations.from_coo(rest.rows - cut, rest.cols, rest.values, shape)
    fit = model.fit(first, data.alphabet)
    before = fit.answers.copy()
    new = fit.fold_in(rest)
    assert_array_equal(fit.answers, before)
    assert wrong(new, data.truth[cut:]) < 1.6 * wrong(fit, data.truth[:cut]) + 0.05
    assert_array_equal(fit.fold_in(rest).answers, new.answers)
    assert new.draw(3).shape == (3, new.missing()[0].size)
    again = new.fold_in(rest)  # new rows again, by the rows of the fit
    assert again.answers.shape == new.answers.shape
    with pytest.raises(ValueError, match="the new rows have 3 columns"):
        fit.fold_in(si.Observations.from_dense(np.ones((2, 3))))


def test_a_row_without_any_cell_is_average():
    """Nothing is known of it, so its symbols are as frequent as in the columns."""
    fit = fitted("copying")
    empty = si.Observations(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), (1, 60))
    p = fit.fold_in(empty).proba(np.zeros(60, int), np.arange(60))
    frequency = DATA.truth.mean(axis=0) / 2
    assert np.corrcoef(p @ [0, 0.5, 1], frequency)[0, 1] > 0.9


@pytest.mark.parametrize("name", ["copying", "classes"])
def test_planted_phases_come_back(name):
    """At cells with both alleles, strands switch sides far less often than by chance, and add up to the row."""
    strands = fitted(name).strands()
    assert strands.shape == (80, 2, 60)
    seen = DATA.observations
    assert_array_equal(strands.sum(axis=1)[seen.rows, seen.cols], seen.values)
    truth, switches, pairs = DATA.strands.reshape(80, 2, 60), 0, 0
    known = np.zeros((80, 60), bool)
    known[seen.rows, seen.cols] = True
    for row in range(80):
        both = np.flatnonzero(known[row] & (truth[row, 0] != truth[row, 1]))
        same = strands[row, 0, both] == truth[row, 0, both]
        switches, pairs = switches + int((same[1:] != same[:-1]).sum()), pairs + max(both.size - 1, 0)
    assert switches / pairs < {"copying": 0.08, "classes": 0.15}[name]


def test_phases_are_those_of_most_rounds():
    """Where the last round alone has a piece the other way round, the phases follow the rounds before."""
    fit = fitted("copying")
    last = fit.kept[-1]
    turned = last.strands.copy()
    turned[8, 30:], turned[9, 30:] = last.strands[9, 30:], last.strands[8, 30:]
    assert (turned != last.strands).any()
    other = replace(fit, kept=(*fit.kept[:-1], KeptStrands.of(turned, last.start)))
    row, same = fit.strands()[4], other.strands()[4]
    sides = row[0] != row[1]
    assert_array_equal(same[0, sides] == row[0, sides], np.full(sides.sum(), same[0, sides][0] == row[0, sides][0]))


def test_phases_need_two_strands():
    """A row of one strand has no phase."""
    with pytest.raises(ValueError, match="each row has one strand"):
        fitted("latent").strands()


# ---------------------------------------------------------------- equivariance of the whole
def test_swapped_alleles_and_reversed_columns_give_like_answers():
    """Within Monte Carlo error: a fit of the mirrored table answers the mirror, one of reversed columns the same."""
    rows, cols = fitted("copying").missing()
    p, seen = fitted("copying").proba(rows, cols), DATA.observations
    swapped = COPYING.fit(seen.with_values(2 - seen.values), GENOTYPES).proba(rows, cols)[:, ::-1]
    turned = si.Observations.from_coo(seen.rows, 59 - seen.cols, seen.values, seen.shape)
    reverse = COPYING.fit(turned, GENOTYPES).proba(rows, 59 - cols)
    again = replace(COPYING, random_state=1).fit(seen, GENOTYPES).proba(rows, cols)
    noise = np.abs(again - p).mean()
    assert np.abs(swapped - p).mean() < 1.5 * noise + 0.005
    assert np.abs(reverse - p).mean() < 1.5 * noise + 0.005


@pytest.mark.parametrize("name", ["copying", "one strand"])
def test_the_bits_do_not_depend_on_threads(name, monkeypatch):
    """One thread and three give the same answers and strands."""
    model, data = ALL[name]
    monkeypatch.setattr("snapimpute.base.threads.WORTH_THREADS", 0.0)
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", "3")
    fit = model.fit(data.observations, data.alphabet)
    assert_array_equal(fit.answers, fitted(name).answers)
    assert_array_equal(fit.kept[-1].strands, fitted(name).kept[-1].strands)


def test_many_rows_copy_from_the_nearest(monkeypatch):
    """Above a number of strands only the nearest ones count, and answers hardly change."""
    monkeypatch.setattr("snapimpute.mosaic._chain.COPIED", 100)
    monkeypatch.setattr("snapimpute.mosaic._chain.NEAR", 60)
    assert wrong(COPYING.fit(DATA.observations, GENOTYPES), DATA.truth) < wrong(fitted("copying"), DATA.truth) + 0.03


# ---------------------------------------------------------------- the house
def test_rounds_are_told_as_they_come():
    """Stages, numbers and likelihoods; True from the callback ends the run with the answers so far."""
    told: list[Round] = []
    COPYING.fit(DATA.observations, GENOTYPES, callback=told.append)
    assert len(told) == 2 * (15 + 4)
    assert [one.stage for one in told[14:17]] == ["classes", "copying", "copying"]
    assert told[5].log_likelihood > told[0].log_likelihood
    assert np.isnan(told[16].log_likelihood)
    assert str(told[0]).startswith("start 1, classes 1: log-likelihood -")
    assert told[30].left < told[5].left
    fit = COPYING.fit(DATA.observations, GENOTYPES, callback=lambda one: one.stage == "copying" and one.number == 2)
    assert fit.status.code == "stopped"
    assert fit.status.message == "Stopped after 18 steps: the callback asked for it."
    assert wrong(fit, DATA.truth) < 0.3


def test_the_time_limit_keeps_the_best_so_far():
    """No time at all: one step of classes answers, with a warning that says what to do."""
    with pytest.warns(ConvergenceWarning, match=r"the time is over.*raise time_limit"):
        fit = COPYING.fit(DATA.observations, GENOTYPES, time_limit=0)
    assert len(fit.history) == 1
    assert_allclose(fit.proba(*fit.missing()).sum(axis=1), 1)
    assert fit.draw(2).shape[0] == 2


def test_an_interruption_keeps_the_best_so_far():
    """Ctrl-C in the middle of copying ends the run; before the first step it ends everything."""

    def stop(one: Round) -> None:
        if one.stage == "copying":
            raise KeyboardInterrupt

    fit = COPYING.fit(DATA.observations, GENOTYPES, callback=stop)
    assert fit.status.code == "interrupted"
    assert wrong(fit, DATA.truth) < 0.3


@pytest.mark.parametrize("name", ["copying", "latent"])
@pytest.mark.parametrize("steps", [3, 17])
def test_a_killed_run_goes_on_to_the_same_bits(name, steps, tmp_path):
    """From a checkpoint in the middle of classes, or of copying; a second call after the end computes nothing."""
    model, data = ALL[name]
    where = si.solvers.Checkpoint(tmp_path / "run.safetensors", every_seconds=0)
    made = 0

    def stop(_: Round) -> bool:
        nonlocal made
        made += 1
        return made == steps

    model.fit(data.observations, data.alphabet, callback=stop, checkpoint=where)
    fit = model.fit(data.observations, data.alphabet, checkpoint=where)
    assert_array_equal(fit.answers, fitted(name).answers)
    assert len(fit.history) == len(fitted(name).history)
    assert_array_equal(fit.draw(2), fitted(name).draw(2))
    told: list[Round] = []
    model.fit(data.observations, data.alphabet, checkpoint=where, callback=told.append)
    assert told == []
    with pytest.raises(ValueError, match="belongs to another problem"):
        replace(model, random_state=9).fit(data.observations, data.alphabet, checkpoint=where)


@pytest.mark.parametrize("name", ALL)
def test_files_hold_the_whole_fit(name, tmp_path):
    """Answers, draws, new rows and diagnostics come back from a file, to the bit."""
    fit = fitted(name)
    fit.save(tmp_path / "fit.snap")
    back = si.MosaicFit.load(tmp_path / "fit.snap")
    assert_array_equal(back.answers, fit.answers)
    assert_array_equal(back.draw(2), fit.draw(2))
    assert_array_equal(back.fold_in(fit.observations).answers, fit.fold_in(fit.observations).answers)
    assert str(back.diagnostics) == str(fit.diagnostics)
    assert back.settings == fit.settings


def test_other_files_are_refused(tmp_path):
    """A model of the estimator is no fit of a mosaic, and a damaged file is none either."""
    si.SnapImputer(GENOTYPES, method=LATENT).fit(DATA.observations).save(tmp_path / "model.snap")
    with pytest.raises(ValueError, match="its format is 'snapimpute model'"):
        si.MosaicFit.load(tmp_path / "model.snap")
    (tmp_path / "noise.snap").write_bytes(b"noise")
    with pytest.raises(ValueError, match="is no mosaic file of snapimpute, or is damaged"):
        si.MosaicFit.load(tmp_path / "noise.snap")


def test_kept_strands_take_a_bit_each():
    """Strands of 0 and 1 are packed, those of more symbols are not; widths that are no multiple of eight survive."""
    rng = np.random.default_rng(0)
    for columns in (1, 8, 13):
        binary, many = rng.integers(0, 2, (5, columns)), rng.integers(0, 4, (5, columns))
        many[0, 0] = 3
        for strands in (binary.astype(np.uint8), many.astype(np.uint8)):
            assert_array_equal(KeptStrands.of(strands, 0).strands, strands)
    assert KeptStrands.of(np.ones((5, 80), np.uint8), 0).packed.shape == (5, 10)


def test_few_strands_are_kept_where_they_are_large(monkeypatch):
    """With no room for many, the last rounds stay, and tables are still drawn."""
    monkeypatch.setattr(run_module, "KEPT_BYTES", 3000)
    fit = COPYING.fit(DATA.observations, GENOTYPES)
    assert len(fit.kept) <= 2
    assert_array_equal(fit.answers, fitted("copying").answers)
    assert fit.draw(3).shape[0] == 3


# ---------------------------------------------------------------- forecast and refusals
def test_the_forecast_tells_memory_and_seconds(monkeypatch):
    """Parts add up, words say the steps, and a table that does not fit is refused before anything is computed."""
    plan = COPYING.forecast(DATA.observations, GENOTYPES)
    assert isinstance(plan, MosaicForecast)
    assert plan.memory == sum(plan.parts.values())
    assert 0 < plan.seconds < 60
    assert "2 starts, each 15 iterations of 6 classes and 4 rounds of copying" in str(plan)
    assert Mosaic().forecast(DATA.observations, GENOTYPES, timed=False).settings.rounds > 0
    monkeypatch.setenv("SNAPIMPUTE_MAX_MEMORY", "1MB")
    with pytest.raises(MemoryError, match=r"the mosaic of 80×60 needs about .*fit groups of columns one by one"):
        COPYING.fit(DATA.observations, GENOTYPES)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"order": "seriated"}, 'order must be "auto", "given", "found" or None'),
        ({"strands": 3}, 'strands must be 1, 2 or "auto", got 3'),
        ({"classes": 0}, 'classes must be a whole number, at least 1, or "auto", got 0'),
        ({"classes": 500}, "classes must be at most 100, got 500"),
        ({"rounds": -1}, "rounds must be a whole number, at least 0"),
        ({"starts": True}, "starts must be a whole number, at least 1"),
        ({"groups": [1, 2]}, "groups must have one entry for each of the 60 columns, got shape"),
        ({"positions": [np.nan] * 60}, "positions must be finite numbers"),
        (
            {"positions": range(60), "order": "found"},
            "positions give the columns an order",
        ),
        ({"order": None, "rounds": 5}, "rows copy along an order: give one, or rounds=0"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(given, message):
    """Each error says what was given and what was expected."""
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        Mosaic(**given).fit(DATA.observations, GENOTYPES)


def test_tables_that_a_mosaic_cannot_take_are_refused():
    """Plain numbers, huge alphabets, and two strands of other symbols than three in even steps."""
    seen = SEQUENCES.observations
    schema = si.data.schema.ColumnSchema.of([None] * 40, 40)
    with pytest.raises(ValueError, match="takes columns of symbols only"):
        Mosaic().fit(seen, schema)
    with pytest.raises(ValueError, match="alphabets of at most 200 symbols, got one of 301"):
        Mosaic().fit(seen, "0:300")
    with pytest.raises(ValueError, match="two strands need three symbols in even steps"):
        Mosaic(strands=2).fit(seen, SEQUENCES.alphabet)


def test_update_goes_on_with_more_cells():
    """More cells and rows with the settings of the fit: nothing is tried again; other columns are refused."""
    fit, rng = fitted("copying"), np.random.default_rng(0)
    extra = rng.integers(0, 2, (3, 60)) + rng.integers(0, 2, (3, 60))
    seen = DATA.observations
    rows, cols = np.indices((3, 60)).reshape(2, -1)
    more = si.Observations.from_coo(
        np.append(seen.rows, rows + 80), np.append(seen.cols, cols), np.append(seen.values, extra.ravel()), (83, 60)
    )
    updated = COPYING.update(fit, more)
    assert updated.settings == fit.settings
    assert updated.observations.shape == (83, 60)
    assert wrong(updated, np.vstack([DATA.truth, extra])) < 1.3 * wrong(fit, DATA.truth) + 0.01
    with pytest.raises(ValueError, match="update goes on with at least the rows and exactly the columns"):
        COPYING.update(fit, si.Observations.from_dense(np.ones((80, 61))))


def test_positions_and_groups_put_columns_in_order():
    """Columns that come shuffled with their positions are fitted along these, group by group."""
    shuffled = np.random.default_rng(0).permutation(60)
    seen, place = DATA.observations, np.argsort(shuffled)
    table = si.Observations.from_coo(seen.rows, place[seen.cols], seen.values, seen.shape)
    groups = np.where(shuffled < 30, "late", "early")
    fit = replace(COPYING, order="auto", positions=shuffled, groups=groups).fit(table, GENOTYPES)
    along = shuffled[fit.lines[0].order]
    parts = along[:30], along[30:]
    assert all((np.diff(one) > 0).all() for one in parts)
    assert fit.lines[0].begins.sum() == 2
    assert wrong(fit, DATA.truth[:, shuffled]) < wrong(fitted("copying"), DATA.truth) + 0.03


def test_every_public_name_of_the_mosaic_is_exported():
    """The page of the mosaic and the package name the same classes."""
    assert {"Mosaic", "MosaicFit"} <= set(si.__all__)
    assert (ROOT / "docs" / "mosaic.md").exists()
