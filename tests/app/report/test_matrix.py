"""Parts of a table that the report shows: what was filled, what is least certain."""

from __future__ import annotations

import re

import numpy as np
import pytest

from snapimpute.app.report import _heatmap as heatmap
from snapimpute.app.report import _matrix as matrix
from snapimpute.app.report import _sections as sections
from snapimpute.app.report import _words as words
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator.imputer import SnapImputer
from snapimpute.experts.proximal.expert import Proximal
from tests.app.report.pages import Reader, made, mixed, prose, ratings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("decide", ["accuracy", "mae", "rmse", "nearest"])
def test_what_is_filled_is_what_the_estimator_predicts(decide):
    """Symbols are those of `predict`, open ones its NaN, probabilities those of `predict_proba`."""
    table, spec = mixed()
    sure = 0.0 if decide == "nearest" else 0.55
    case = made(table, spec, center="columns", decide=decide, min_confidence=sure)
    imputer, book = case.imputer, matrix.alphabets(case.imputer)
    rows, cols = (part.ravel() for part in np.indices(table.shape))
    found = matrix.fill(imputer, book, rows, cols)
    asked = imputer.predict(rows, cols)
    for k in range(rows.size):
        alphabet = book[cols[k]]
        if alphabet is None:
            assert found.symbols[k] == pytest.approx(asked[k])
            assert np.isnan(found.sure[k])
            continue
        written = None if found.is_open[k] else words.symbol(alphabet, found.symbols[k])
        expected = None if asked[k] is None or asked[k] != asked[k] else asked[k]
        assert written == (expected if isinstance(expected, str | None) else f"{expected:.15g}")
        if decide == "nearest":
            assert np.isnan(found.sure[k])
            assert np.isnan(found.second[k])
            continue
        p = imputer.predict_proba(rows[k], cols[k])
        code = alphabet.indices(found.symbols[k])
        assert found.sure[k] == pytest.approx(p[code])
        others = np.delete(p, code)
        assert found.second_sure[k] == pytest.approx(others.max())
        assert p[alphabet.indices(found.second[k])] == pytest.approx(others.max())
    assert found.is_open.any() == (decide != "nearest")


def test_blocks_do_not_change_what_is_filled(hostile, monkeypatch):
    """Filling a few cells at a time gives the same."""
    book = matrix.alphabets(hostile.imputer)
    rows, cols = (part.ravel() for part in np.indices(hostile.observations.shape))
    whole = matrix.fill(hostile.imputer, book, rows, cols)
    monkeypatch.setattr(matrix, "BLOCK_NUMBERS", 17)
    parts = matrix.fill(hostile.imputer, book, rows, cols)
    np.testing.assert_allclose(whole.symbols, parts.symbols)
    np.testing.assert_allclose(whole.second_sure, parts.second_sure)
    np.testing.assert_array_equal(whole.is_open, parts.is_open)


def test_the_part_shown_is_that_part_of_the_table(hostile):
    """Known cells have their values and no probability, the others what was filled in, all at their places."""
    table = hostile.observations
    shown = matrix.show(hostile.imputer, table)
    assert sorted(shown.rows.tolist()) == list(range(table.shape[0]))
    assert sorted(shown.cols.tolist()) == list(range(table.shape[1]))
    assert shown.rows.tolist() != sorted(shown.rows.tolist())
    dense = np.full(table.shape, np.nan)
    dense[table.rows, table.cols] = table.values
    known = dense[np.ix_(shown.rows, shown.cols)]
    np.testing.assert_array_equal(shown.known, ~np.isnan(known))
    np.testing.assert_array_equal(shown.values[shown.known], known[shown.known])
    assert np.isnan(shown.sure[shown.known]).all()
    assert not shown.is_open[shown.known].any()
    at = np.argwhere(~shown.known)
    found = matrix.fill(
        hostile.imputer, matrix.alphabets(hostile.imputer), shown.rows[at[:, 0]], shown.cols[at[:, 1]]
    )
    np.testing.assert_allclose(shown.values[~shown.known], found.symbols)
    np.testing.assert_allclose(shown.sure[~shown.known], found.sure)
    np.testing.assert_array_equal(shown.is_open[~shown.known], found.is_open)


def test_of_a_large_table_the_most_observed_lanes_are_shown():
    """At most so many rows and columns, those with most observed cells, and the page says so."""
    known = ratings((30, 25), 0.5)
    case = made(known, "1:5")
    shown = matrix.show(case.imputer, known, most=10)
    for lanes, chosen, size in ((known.rows, shown.rows, 30), (known.cols, shown.cols, 25)):
        counts = np.bincount(lanes, minlength=size)
        expected = sorted(range(size), key=lambda i: (-counts[i], i))[:10]
        assert sorted(chosen.tolist()) == sorted(expected)
    assert shown.shape == (30, 25)
    book, name = matrix.alphabets(case.imputer), words.namer(None, "row")
    said = sections._table(shown, book, name, name, {})
    assert said["cut"] == "the 10 most observed of 30 rows and the 10 most observed of 25 columns"
    title = heatmap.view("known", shown, book, name, name)["layout"]["yaxis"]["title"]["text"]
    assert title == "10 of 30 rows"


def test_positions_are_within_the_range_of_the_column():
    """Symbols stand in the range of their alphabet, numbers in that of what was observed, from 0 to 1."""
    table = Observations.from_dense([[1.0, 10.0, 0.0], [5.0, 30.0, np.nan], [np.nan, 20.0, np.nan]])
    book = ColumnSchema.of(["1:5", None, [0.0]], 3)
    values = np.array([[1.0, 10.0, 0.0], [5.0, 30.0, 0.0], [2.0, 99.0, 0.0]])
    found = matrix.positions(values, table, book, np.arange(3))
    np.testing.assert_allclose(found, [[0.0, 0.0, 0.5], [1.0, 1.0, 0.5], [0.25, 1.0, 0.5]])


def test_similar_rows_stand_side_by_side():
    """The order makes the sum of the distances of neighbours small: two groups are not mixed."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat([0.0, 1.0, 2.0], 15))
    order = matrix.leaf_order(group[:, None] + 0.05 * rng.standard_normal((45, 6)))
    assert sorted(order.tolist()) == list(range(45))
    assert np.count_nonzero(np.diff(group[order])) == 2
    assert matrix.leaf_order(np.zeros((2, 3))).tolist() == [0, 1]
    assert sorted(matrix.leaf_order(1 - np.eye(4)).tolist()) == [0, 1, 2, 3]  # looks like a matrix of distances


def test_columns_that_were_left_alone_are_not_shown():
    """Of columns that the fit says nothing of none is drawn, nor is one of their cells doubtful."""
    table, spec = mixed(8, labels=False)
    dense = np.full(table.shape, np.nan)
    dense[table.rows, table.cols] = table.values
    frame = {f"c{j}": np.array(Alphabet.of(one).decode(dense[:, j])) if one else dense[:, j]
             for j, one in enumerate(spec)}  # fmt: skip
    alphabet = {f"c{j}": one for j, one in enumerate(spec)}
    frame = pytest.importorskip("pandas").DataFrame(frame)
    imputer = SnapImputer(alphabet, method=Proximal(lam=1.0, xi=0.0, center="columns"), continuous="passthrough").fit(
        frame
    )
    shown, doubts = matrix.show(imputer, table), matrix.least_certain(imputer, table)
    assert sorted(shown.cols.tolist()) == [j for j, one in enumerate(spec) if one is not None]
    assert shown.shape == (40, 6)
    assert set(doubts.cols.tolist()) <= set(shown.cols.tolist())


@pytest.mark.parametrize("cols", [[0, 1, 2, 3, 4], [1, 3], [4]])
def test_missing_cells_are_those_not_observed(cols):
    """Against a dense mask: all missing cells of some columns, row by row."""
    known = ratings((9, 5), 0.5)
    dense = np.zeros(known.shape, dtype=bool)
    dense[known.rows, known.cols] = True
    rows, found, total = matrix.missing_cells(known, np.array(cols))
    expected = [(i, j) for i in range(9) for j in cols if not dense[i, j]]
    assert list(zip(rows.tolist(), found.tolist(), strict=True)) == expected
    assert total == len(expected)


def test_a_sample_of_missing_cells_is_spread_over_all_of_them():
    """So many different missing cells, one from each part of the table, the same for the same seed."""
    known = ratings((40, 30), 0.3)
    everything = list(zip(*(part.tolist() for part in matrix.missing_cells(known, np.arange(30))[:2]), strict=True))
    rows, cols, total = matrix.missing_cells(known, np.arange(30), most=100, seed=4)
    places = [everything.index(cell) for cell in zip(rows.tolist(), cols.tolist(), strict=True)]
    assert total == len(everything) > 500
    assert len(set(places)) == 100
    for place, part in zip(places, np.array_split(np.arange(total), 100), strict=True):
        assert place in part
    again = matrix.missing_cells(known, np.arange(30), most=100, seed=4)
    other = matrix.missing_cells(known, np.arange(30), most=100, seed=5)
    np.testing.assert_array_equal(rows, again[0])
    assert (rows != other[0]).any() or (cols != other[1]).any()


@pytest.mark.parametrize("count", [1, 7, 10_000])
def test_the_least_certain_cells_are_the_least_certain(hostile, count, monkeypatch):
    """Against a look at every missing cell: the smallest probabilities, in order, with their cells."""
    monkeypatch.setattr(matrix, "BLOCK_NUMBERS", 50)  # several blocks
    table, imputer = hostile.observations, hostile.imputer
    book = matrix.alphabets(imputer)
    found = matrix.least_certain(imputer, table, count=count)
    seen = set(zip(table.rows.tolist(), table.cols.tolist(), strict=True))
    all_sure = {}
    for i in range(table.shape[0]):
        for j in np.flatnonzero(book.discrete).tolist():
            if (i, j) not in seen:
                all_sure[i, j] = float(imputer.predict_proba(i, j).max())
    expected = sorted(all_sure.values())[:count]
    np.testing.assert_allclose(found.filled.sure, expected)
    for i, j, sure in zip(found.rows, found.cols, found.filled.sure, strict=True):
        assert all_sure[int(i), int(j)] == pytest.approx(sure)
    assert found.missing == found.scanned == len(all_sure) == found.counts.sum()
    assert found.left_open == sum(sure < 0.6 for sure in all_sure.values())
    low = sum(sure < 0.5 for sure in all_sure.values())
    assert found.counts[: matrix.BINS // 2].sum() == low


def test_the_table_of_least_certain_cells_is_in_order(hostile):
    """Rows of the page's table are sorted by probability, and cells left open are marked."""
    html = hostile.render()
    block = html[html.index('id="least-certain"') :]
    values = [float(v) for v in re.findall(r'data-value="([\d.]+)"', block)][::2]
    assert values == sorted(values)
    assert len(values) == min(matrix.MOST_DOUBTS, matrix.least_certain(hostile.imputer, hostile.observations).missing)
    assert "left open" in block
    assert 'aria-sort="ascending"' in block


def test_a_sample_is_said_to_be_one(tuned, monkeypatch):
    """Where there are too many missing cells to look at all, the page says how many were."""
    full = matrix.least_certain
    monkeypatch.setattr(sections, "least_certain", lambda *args, **options: full(*args, most=50, **options))
    assert "A sample of 50 of the" in prose(tuned.render())
    monkeypatch.undo()
    assert "A sample" not in prose(tuned.render())


def test_cells_of_the_pictures_say_what_is_in_them(hostile):
    """The compact cells name every value, say which are known, and have the probabilities."""
    shown, book = matrix.show(hostile.imputer, hostile.observations), matrix.alphabets(hostile.imputer)
    name = words.namer(None, "row")
    cells = heatmap.cells(shown, book, name, name)
    for i in range(shown.rows.size):
        for j, col in enumerate(shown.cols.tolist()):
            text = words.drawn(words.symbol(book[col], shown.values[i, j]), 40)
            assert cells["names"][cells["code"][i][j]] == text
            state = "k" if shown.known[i, j] else "o" if shown.is_open[i, j] else "f"
            assert cells["state"][i][j] == state
    sure = np.array(cells["sure"], dtype=float)
    np.testing.assert_allclose(sure, shown.sure, atol=1e-3)


def test_two_symbols_have_two_fields_in_the_legend(tuned, hostile):
    """With two or three symbols the legend has a field of one colour for each; other tables have a scale."""
    figures = Reader(tuned.render()).data["figures"]
    heat = figures["table-completed"]["data"][0]
    assert heat["colorscale"] == [
        [0.0, "var(--low)"],
        [0.5, "var(--low)"],
        [0.5, "var(--high)"],
        [1.0, "var(--high)"],
    ]
    assert heat["colorbar"]["ticktext"] == ["0", "1"]
    places, scale = heatmap._steps(np.array([0.0, 0.2, 1.0]))
    np.testing.assert_allclose(places, [0.05, 0.35, 0.8])
    assert [one[0] for one in scale] == pytest.approx([0.0, 0.1, 0.1, 0.6, 0.6, 1.0])
    other = Reader(hostile.render()).data["figures"]["table-completed"]["data"][0]
    assert other["colorbar"]["ticktext"] == ["lowest", "highest"]
