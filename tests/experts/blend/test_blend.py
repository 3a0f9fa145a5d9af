"""The blend: who carries planted tables, reasons, time, interruptions, columns of several kinds, square tables."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import snapimpute as si
from snapimpute.data.datasets import low_rank_alphabet, mosaic_genotypes
from snapimpute.data.schema import ColumnSchema
from snapimpute.experts.blend.contest import Candidate
from snapimpute.experts.blend.fit import Reach
from snapimpute.solvers.model_file import read_content, write_content

NAN = np.nan
QUICK = (si.Habits(), si.Posterior("low-rank", rank=3, thresholds="columns", sweeps=60))


def split(observations: si.Observations, seed: int = 0) -> tuple[si.Observations, si.Observations]:
    return observations.split(0.25, random_state=seed)


def losses(fit, hidden: si.Observations, alphabet) -> np.ndarray:
    codes = si.Alphabet.of(alphabet).indices(hidden.values)
    return -np.log(fit.proba(hidden.rows, hidden.cols)[np.arange(codes.size), codes])


@pytest.fixture(scope="module")
def ratings():
    """A table of low rank, its hidden cells, and the blend of two experts on it."""
    data = low_rank_alphabet((90, 40), rank=2, alphabet="1:5", observed=0.5)
    known, hidden = split(data.observations)
    return known, hidden, si.Blend(QUICK).fit(known, "1:5")


# ---------------------------------------------------------------- who carries the answer
def test_low_rank_is_carried_by_the_posterior(ratings):
    """The posterior leads on a table of low rank; the blend is not worse than it beyond two standard errors."""
    known, hidden, fit = ratings
    assert fit.verdict.leader == fit.scores[0].name == "posterior (thresholds by column)"
    assert fit.verdict.share > 0.8
    alone = losses(QUICK[1].fit(known, "1:5"), hidden, "1:5")
    off = losses(fit, hidden, "1:5") - alone
    assert off.mean() < 2 * off.std() / np.sqrt(off.size)


def test_neighbours_are_carried_by_the_mosaic():
    """On planted genotypes the mosaic has the largest weight, by far."""
    data = mosaic_genotypes((60, 120), founders=5, observed=0.7)
    fit = si.Blend([*QUICK, si.Mosaic(starts=1, rounds=3)]).fit(data.observations, [0, 1, 2])
    assert fit.verdict.leader == "mosaic"
    assert fit.verdict.share > 0.5
    assert fit.weights()["mosaic"] == max(fit.weights().values())


def test_noise_is_carried_by_nothing():
    """On random answers the blend is as good as the shares of the symbols, to two standard errors."""
    values = np.random.default_rng(0).integers(1, 6, (80, 40)).astype(float)
    known, hidden = split(si.Observations.from_dense(values))
    fit = si.Blend(QUICK).fit(known, "1:5")
    off = losses(fit, hidden, "1:5") - np.log(5)
    assert off.mean() < 2 * off.std() / np.sqrt(off.size) + 0.005


def test_careless_rows_cost_little():
    """Where a fifth of the answers are random, the blend tells so, and beats its expert by its calibration."""
    data = low_rank_alphabet((120, 40), rank=2, alphabet="1:5", observed=0.6, noise=0.2)
    known, hidden = split(data.observations)
    fit = si.Blend(QUICK[1:]).fit(known, "1:5")
    assert 0.05 < fit.pools[0].careless < 0.4
    assert losses(fit, hidden, "1:5").mean() < losses(QUICK[1].fit(known, "1:5"), hidden, "1:5").mean() - 0.02


def test_the_usual_line_up():
    """A wide sparse table has no full covariance and no neighbours; a narrow one has every posterior."""
    narrow = low_rank_alphabet((200, 12), rank=2, alphabet="1:5", observed=0.7)
    labels = [one.label for one in si.Blend().line_up(narrow.observations, "1:5")]
    assert labels[:4] == [
        "habits",
        "posterior (thresholds by column)",
        "posterior (thresholds by row)",
        "posterior (full covariance)",
    ]
    wide = low_rank_alphabet((60, 300), rank=2, alphabet="1:5", observed=0.05)
    assert [one.label for one in si.Blend().line_up(wide.observations, "1:5")] == [
        "habits",
        "posterior",
        "latent classes",
        "proximal",
    ]


def test_a_quick_form_that_is_worse_than_habits_ends_an_expert():
    """An expert is not fitted in full where its quick form is worse than habits; the reason tells by how much."""

    class Slow(si.Habits):
        name = "slow"

        def probe(self):
            return si.Mosaic(order=None, classes=1, starts=1)

        def fit(self, observations, alphabet, **told):
            raise AssertionError("fitted in full")

    rng = np.random.default_rng(0)
    level = 2 * rng.standard_normal((60, 1)) + rng.standard_normal(30)
    table = si.Observations.from_dense((level + rng.standard_normal((60, 30)) > 0).astype(float))
    (score,) = [one for one in si.Blend([si.Habits(), Slow()]).fit(table, [0, 1]).scores if one.name == "slow"]
    assert score.reason.startswith("a quick form of it has 0.")
    assert score.weight == 0


def test_experts_are_tried_on_a_piece_of_a_large_table(monkeypatch):
    """Those that win nothing on the piece are left out, with its size in the reason; the rest is blended on all."""
    from snapimpute.experts.blend import _run as run

    monkeypatch.setattr(run, "PROBE_CELLS", 1000)
    monkeypatch.setattr(run, "PIECE_CELLS", 600)
    monkeypatch.setattr(run, "PIECE_ROWS", 30)
    data = low_rank_alphabet((150, 40), rank=2, alphabet="1:5", observed=0.5)
    known, hidden = split(data.observations)
    steps = []
    fit = si.Blend([*QUICK, QUICK[1].with_params(rank=2)]).fit(known, "1:5", progress=steps.append)
    assert {one.stage for one in steps} >= {"probe", "everything"}
    left = [one for one in fit.scores if one.reason]
    assert all("on a piece of" in one.reason for one in left if one.cells < 150)
    assert np.isfinite(losses(fit, hidden, "1:5")).all()
    alone = si.Blend([si.Habits(), QUICK[1]]).fit(known, "1:5")
    assert [one.label for one in alone.members] == ["posterior (thresholds by column)"]
    assert alone.pools[0].careless == 0
    assert alone.verdict.rival == "habits"


# ---------------------------------------------------------------- what it tells
def test_the_verdict_is_of_the_held_out_cells(ratings):
    """Losses, gain and lead of the verdict agree with the scores of the experts."""
    verdict, scores = ratings[2].verdict, {one.name: one for one in ratings[2].scores}
    best, rival = scores[verdict.best], scores[verdict.rival]
    assert verdict.cells == best.cells
    assert verdict.loss + verdict.gain == pytest.approx(best.loss)
    assert verdict.lead == pytest.approx(rival.loss - best.loss, abs=2 * rival.error)  # habits saw fewer folds
    assert sum(one.weight for one in ratings[2].scores) == pytest.approx(1)
    told = "answers alone" if verdict.share > 0.995 else f"carries {100 * verdict.share:.0f} % of the answer"
    assert str(verdict).startswith(f"{verdict.leader} {told}: log loss {verdict.loss:.4f}")


def test_steps_are_told(ratings):
    """Progress names experts and stages, and counts to the last step."""
    steps = []
    si.Blend(QUICK).fit(ratings[0], "1:5", progress=steps.append)
    assert {one.stage for one in steps} == {"held out", "everything"}
    assert steps[0].name == "habits"
    assert [one.done for one in steps] == list(range(1, len(steps) + 1))
    assert steps[-1].left == 0
    assert "log loss" in str(steps[0])


def test_the_same_seed_gives_the_same_bits(ratings):
    """Two fits agree in every probability."""
    known, hidden, fit = ratings
    again = si.Blend(QUICK).fit(known, "1:5")
    np.testing.assert_array_equal(again.proba(hidden.rows, hidden.cols), fit.proba(hidden.rows, hidden.cols))


def test_a_permuted_table_with_labels_has_the_permuted_answers():
    """With experts that are deterministic, the order of rows and columns changes no answer."""
    data = low_rank_alphabet((50, 30), rank=2, alphabet="1:5", observed=0.6).observations
    data = data.labelled([f"r{i}" for i in range(50)], [f"c{j}" for j in range(30)])
    rng = np.random.default_rng(0)
    rows, cols = rng.permutation(50), rng.permutation(30)
    turned = si.Observations.from_coo(
        np.argsort(rows)[data.rows],
        np.argsort(cols)[data.cols],
        data.values,
        data.shape,
        row_labels=data.row_labels[rows],
        col_labels=data.col_labels[cols],
    )
    blend = si.Blend([si.Habits(), si.Habits(damping=1.0)])
    one, other = blend.fit(data, "1:5"), blend.fit(turned, "1:5")
    i, j = np.indices((50, 30)).reshape(2, -1)
    np.testing.assert_allclose(other.proba(i, j), one.proba(rows[i], cols[j]), rtol=1e-6)


# ---------------------------------------------------------------- limits
def test_a_time_limit_keeps_the_best_so_far(ratings):
    """With hardly any time there is an answer, the status says so, and experts without time have a reason."""
    known, hidden, _ = ratings
    fit = si.Blend([*QUICK, si.Proximal()]).fit(known, "1:5", time_limit=0.003)
    assert fit.status.code == "stopped"
    assert np.isfinite(losses(fit, hidden, "1:5")).all()
    assert any("time" in one.reason for one in fit.scores)


def test_an_interruption_keeps_the_best_so_far(ratings):
    """Interrupted at the second expert, the first one answers, and the status tells."""
    known = ratings[0]

    class Broken(si.Habits):
        name = "broken"

        def fit(self, observations, alphabet, **told):
            raise KeyboardInterrupt

    fit = si.Blend([si.Habits(), Broken()]).fit(known, "1:5")
    assert fit.interrupted
    assert [one.label for one in fit.members] == ["habits"]
    with pytest.raises(KeyboardInterrupt):
        si.Blend([Broken()]).fit(known, "1:5")


def test_an_expert_that_refuses_a_table_is_left_out(ratings):
    """Its error is the reason; where nobody is left, the error tells all reasons."""

    class Picky(si.Habits):
        name = "picky"

        def objection(self, observations, schema):
            return "it likes no ratings"

    fit = si.Blend([si.Habits(), Picky()]).fit(ratings[0], "1:5")
    assert {one.name: one.reason for one in fit.scores}["picky"] == "it likes no ratings"
    with pytest.raises(ValueError, match=r"no expert takes this table \(picky: it likes no ratings\)"):
        si.Blend([Picky()]).fit(ratings[0], "1:5")


def test_memory_is_forecast_and_refused(ratings, monkeypatch):
    """The forecast adds up the experts; with little memory free, large ones are left out."""
    plan = si.Blend().forecast(ratings[0], "1:5", timed=False)
    assert plan.memory == sum(plan.parts.values()) > 0
    assert plan.seconds is None
    assert si.Blend(QUICK).forecast(ratings[0], "1:5").seconds > 0
    assert str(plan).count("\n") == len(plan.plans) + 1
    monkeypatch.setenv("SNAPIMPUTE_MAX_MEMORY", "100kB")
    told = [one.reason for one in si.Blend().forecast(ratings[0], "1:5", timed=False).plans]
    assert any("more than is free" in one for one in told)


@pytest.mark.parametrize(
    ("experts", "message"),
    [
        ([], "experts must name at least one expert"),
        (["posterior"], "experts must be experts such as"),
        ("all", 'experts must be a list of experts, or "auto"'),
    ],
)
def test_line_ups_that_are_none_are_refused(ratings, experts, message):
    """The error names the argument and what it takes."""
    with pytest.raises(ValueError, match=message):
        si.Blend(experts).fit(ratings[0], "1:5")


# ---------------------------------------------------------------- after the fit
def test_new_rows_cells_and_files(ratings, tmp_path):
    """Fitted rows folded in get nearly their answers; more cells go on; a file gives the same bits back."""
    from snapimpute.estimator.files import _known

    known, hidden, fit = ratings
    rows, cols = hidden.rows[:50], hidden.cols[:50]
    folded = fit.fold_in(known)
    assert np.abs(folded.proba(rows, cols) - fit.proba(rows, cols)).mean() < 0.05
    more = si.Blend(QUICK).update(
        fit,
        si.Observations.from_coo(
            np.append(known.rows, rows),
            np.append(known.cols, cols),
            np.append(known.values, hidden.values[:50]),
            known.shape,
        ),
    )
    assert len(more.observations) == len(known) + 50
    np.testing.assert_array_equal(more.pools[0].low, fit.pools[0].low)
    write_content(tmp_path / "blend", fit, _known(), "snapimpute model")
    back = read_content(tmp_path / "blend", _known(), "snapimpute model")
    np.testing.assert_array_equal(back.proba(rows, cols), fit.proba(rows, cols))
    assert back.verdict == fit.verdict


def test_again_fits_other_cells_without_choosing(ratings):
    """The same members and weights, fitted to other known cells, and not to those of the first fit."""
    known, _, fit = ratings
    fewer, _ = split(known, 1)
    again = si.Blend(QUICK).again(fit, fewer)
    np.testing.assert_array_equal(again.pools[0].high, fit.pools[0].high)
    assert [len(one.fit.observations) for one in again.members] == [len(fewer)] * len(again.members)


def test_drawn_tables_keep_known_cells(ratings):
    """Draws are symbols, and known cells keep theirs."""
    known, _, fit = ratings
    drawn = fit.draw(3, known.rows[:20], known.cols[:20])
    np.testing.assert_array_equal(drawn, np.tile(known.values[:20], (3, 1)))
    assert set(np.unique(fit.draw(2))) <= {1, 2, 3, 4, 5}


def test_columns_of_several_kinds():
    """Numbers, ordered symbols and categories have weights of their own; experts answer for those they take."""
    rng = np.random.default_rng(0)
    taste = rng.standard_normal((150, 1))
    answers = np.clip(np.round(3 + taste * [1.2, -1, 0.9, 1.1] + 0.5 * rng.standard_normal((150, 4))), 1, 5)
    size = 10 * taste + rng.standard_normal((150, 1))
    kind = (taste + 0.3 * rng.standard_normal((150, 1)) > 0.3).astype(float) + (taste < -0.5) * 2.0
    X = np.hstack([answers, size, np.minimum(kind, 2)])
    X[rng.random(X.shape) < 0.2] = NAN
    schema = ColumnSchema((si.Alphabet.of("1:5"), None, si.Nominal(["a", "b", "c"])), np.array([0, 0, 0, 0, 1, 2]))
    fit = si.Blend([si.Habits(), si.Proximal(lam=1.0, xi=0.0), si.Posterior(sweeps=80)]).fit(
        si.Observations.from_dense(X), schema
    )
    assert fit.proba([0], [5]).shape == (1, 3)
    assert fit.pools[1].constants.size == 0
    assert "proximal" not in fit.weights(2)
    rows = np.flatnonzero(np.isnan(X[:, 4]))
    found = fit.mean(rows, np.full(rows.size, 4))
    assert np.corrcoef(found, size[rows, 0])[0, 1] > 0.8
    assert np.isnan(fit.mean([0, 0], [4, 5])).tolist() == [False, True]


# ---------------------------------------------------------------- square tables
def blogs(symmetric: bool, seed: int = 0) -> si.Observations:
    """Links within two groups, most of them mutual or all of them; a third is hidden."""
    rng = np.random.default_rng(seed)
    group = np.arange(40) % 2
    p = np.where(group[:, None] == group, 0.5, 0.08)
    upper = np.triu(rng.random((40, 40)) < p, 1)
    other = upper if symmetric else np.where(rng.random((40, 40)) < 0.85, upper, np.triu(rng.random((40, 40)) < p, 1))
    X = (upper | other.T).astype(float)
    hidden = np.triu(rng.random((40, 40)) < 0.3, 1)
    X[hidden | (hidden.T if symmetric else np.tril(rng.random((40, 40)) < 0.3, -1))] = NAN
    np.fill_diagonal(X, NAN)
    return si.Observations.from_dense(X)


def test_a_symmetric_table_is_answered_alike_on_both_sides():
    """Probabilities of a cell and its mirror agree, though the experts do not know of symmetry."""
    fit = si.Blend(QUICK, square=True).fit(blogs(True), [0, 1])
    assert fit.square == "symmetric"
    rows, cols = np.triu_indices(40, 1)
    np.testing.assert_allclose(fit.proba(rows, cols), fit.proba(cols, rows))
    upper = blogs(True)
    half = si.Blend(QUICK, square=True).fit(upper.take(upper.rows < upper.cols), [0, 1])
    assert len(half.observations) == len(upper)


def test_the_mirror_of_a_directed_table_is_an_input():
    """Where links are mostly mutual, a known mirror raises the probability of a link, and new rows are refused."""
    fit = si.Blend(QUICK, square=True).fit(blogs(False), [0, 1])
    assert fit.square == "directed"
    constants = fit.pools[0].mirror
    assert constants[2, 1] - constants[2, 0] > constants[1, 1] - constants[1, 0] + 1
    with pytest.raises(ValueError, match="a new row of a square table is a new column, too"):
        fit.fold_in(blogs(False))


def test_reach_is_the_middle_where_rows_are_alike():
    """Rows with about as many known cells have the same weights; others lie between few and many."""
    alike = si.Observations.from_dense(np.ones((10, 8)))
    assert (Reach.of(alike).at(alike) == 0.5).all()
    ragged = np.where(np.arange(40)[:, None] >= np.arange(40), 1.0, NAN)
    reach = Reach.of(si.Observations.from_dense(ragged)).at(si.Observations.from_dense(ragged))
    assert reach[0] == 0
    assert reach[-1] == 1
    assert (np.diff(reach) >= 0).all()


def test_too_few_cells_are_answered_by_one_expert():
    """Nothing is held out of a tiny table, and the verdict says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = si.Blend().fit(si.Observations.from_dense([[1, 2, NAN], [2, NAN, 1]]), [1, 2])
    assert len(fit.members) == 1
    assert "nothing was held out" in str(fit.verdict)


def test_candidates_name_their_experts():
    """A candidate is called as its expert is."""
    assert Candidate(si.Mosaic(order=None), None).label == "latent classes"
    assert Candidate(si.Posterior("full"), None).label == "posterior (full covariance)"
