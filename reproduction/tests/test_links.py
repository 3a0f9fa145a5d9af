"""Links of a network: files of graphs, which pairs are hidden, the baselines by brute force, the scores."""

from __future__ import annotations

import gzip
import hashlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from reproduction import links
from reproduction.data.graphs import Graph, facebook, karate, polblogs, read_edges, read_gml
from reproduction.links import METHODS, Answer, Known, Pairs, Score, as_markdown, best_threshold, hide
from snapimpute.data.datasets import DatasetUnavailable
from snapimpute.evaluation.baselines import DampedBiases
from snapimpute.experts.proximal import tuning
from snapimpute.experts.proximal.offsets import best_damping
from snapimpute.experts.proximal.spec import ModelSpec
from snapimpute.experts.proximal.tuning import Search
from snapimpute.solvers import FitOptions

SHARE, SEED = 0.6, 3
KINDS = ("directed", "undirected")
COMPLETIONS = ("Soft-Impute, mean-centred", "Soft-Impute, bias-centred", "ridge to the mean", "discrete-aware L1")


def planted(kind: str, nodes: int = 40) -> Graph:
    """Two groups; two nodes of one group are linked with probability 0.6, two of different ones with 0.05."""
    rng = np.random.default_rng(0)
    group = np.arange(nodes) % 2
    linked = rng.random((nodes, nodes)) < np.where(group[:, None] == group, 0.6, 0.05)
    linked &= ~np.eye(nodes, dtype=bool)
    if kind == "undirected":
        linked = np.triu(linked)
    order = rng.permutation(int(linked.sum()))
    rows, cols = (side[order] for side in np.nonzero(linked))
    return Graph(nodes, rows, cols, kind == "directed")


def dense(graph: Graph) -> Any:
    out = np.zeros((graph.nodes, graph.nodes))
    out[graph.rows, graph.cols] = 1
    return out if graph.directed else np.maximum(out, out.T)


TOYS: Any = {kind: (partial(planted, kind), (SHARE,)) for kind in KINDS}


@pytest.fixture(autouse=True)
def toy_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted graphs are the data of the study."""
    monkeypatch.setattr(links, "DATA", dict(TOYS))


# ---------------------------------------------------------------- files
GML = b"""Creator "somebody [not a bracket]"
# node [ id 99 ]
graph [
  directed 1
  node [ id 10 label "b c" value 0 graphics [ x 1.5 id 3 ] ]
  node [
    id 4
    label "a"
  ]
  node [ id -1 ]
  edge [ source 4 target 10 ]
  edge [ source -1 target -1 ]
  edge [ source 10 target 4 ]
  edge [ source 4 target 10 value 2 ]
]
"""


def test_gml_is_read_in_its_order():
    """Nodes and links stand in the order of the file; comments and other attributes change nothing."""
    graph = read_gml(GML, "toy.gml")
    assert (graph.rows.tolist(), graph.cols.tolist(), graph.nodes, graph.directed) == ([1, 0], [0, 1], 3, True)
    more = GML.replace(
        b"edge [ source 4 target 10 ]", b"edge [ source -1 target 10 ]\n  edge [ source 4 target 10 ]", 1
    )
    assert read_gml(more, "toy.gml").rows.tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("directed", "rows", "cols"), [(b"directed 1", [1, 0], [0, 1]), (b"directed 0", [0], [1]), (b"", [0], [1])]
)
def test_loops_and_repeats_are_dropped(directed, rows, cols):
    """The first of equal links stays, a loop does not; the other direction is a repeat only if undirected."""
    graph = read_gml(GML.replace(b"directed 1", directed), "toy.gml")
    assert (graph.rows.tolist(), graph.cols.tolist(), graph.nodes) == (rows, cols, 3)
    assert graph.directed == (directed == b"directed 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no graph"),
        ("graph 5", "not a graph in GML"),
        ("<html> not found </html>", "cannot tokenize"),
        ("graph [ node [ id 1 ] ]", "lists no link"),
        ("graph [ node [ id 1 ] edge [ source 1 target 2 ] ]", "undefined target 2"),
        ("graph [ node [ id 1 ] node [ id 1 ] edge [ source 1 target 1 ] ]", "node id 1 is duplicated"),
        ("graph [ node [ label 1 ] ]", "no 'id'"),
        ("graph [ node [ id 1 ] edge [ source 1 ] ]", "no 'target'"),
        ("graph [ node [ id 1 ]", "found EOF"),
    ],
)
def test_what_is_not_gml_is_refused(text, message):
    """The message names the file and says what is wrong."""
    with pytest.raises(ValueError, match=r"bad\.gml") as caught:
        read_gml(text.encode(), "bad.gml")
    assert message in str(caught.value)


def test_a_list_of_links_is_read():
    """Two numbers a line, in either order; nodes and links are sorted, loops and repeats are dropped."""
    graph = read_edges(b"# from to\n7 3\n\n3\t12\n3 7\n12 12\n", "toy.txt")
    assert (graph.rows.tolist(), graph.cols.tolist(), graph.nodes) == ([0, 0], [1, 2], 3)
    assert not graph.directed


@pytest.mark.parametrize("text", ["1 2\n3 x\n", "1 2\n3 4 5\n", "1 2\n3 ²\n", "<html> not found </html>"])
def test_what_is_not_a_list_of_links_is_refused(text):
    """The message names the file and what was wrong in it."""
    with pytest.raises(ValueError, match=r"bad.txt must list the numbers of two nodes a line: Failed to convert"):
        read_edges(text.encode(), "bad.txt")


@pytest.mark.parametrize("text", ["# nothing\n", "", "]", "1 1\n"])
def test_a_list_without_links_is_refused(text):
    """The message names the file."""
    with pytest.raises(ValueError, match=r"bad.txt lists no link"):
        read_edges(text.encode(), "bad.txt")


@pytest.mark.parametrize(
    ("loader", "file"), [(karate, "karate.gml"), (polblogs, "polblogs.gml"), (facebook, "facebook_combined.txt")]
)
def test_graphs_are_read_where_the_user_keeps_them(loader, file, tmp_path, monkeypatch):
    """From a path or the folder of the variable, packed or not; without it, the message says what to get."""
    monkeypatch.delenv("SNAPIMPUTE_DATA", raising=False)
    with pytest.raises(DatasetUnavailable, match="SNAPIMPUTE_DATA"):
        loader()
    with pytest.raises(DatasetUnavailable, match=f"{file} or {file}.gz"):
        loader(tmp_path)
    (tmp_path / f"{file}.gz").write_bytes(gzip.compress(b"0 1\n" if file.endswith("txt") else GML))
    monkeypatch.setenv("SNAPIMPUTE_DATA", str(tmp_path))
    for graph in (loader(), loader(tmp_path), loader(tmp_path / f"{file}.gz")):
        assert graph.nodes == (2 if file.endswith("txt") else 3)
    (tmp_path / file).write_bytes(b"]")
    with pytest.raises(ValueError, match=r"lists no link|not a graph"):
        loader()


@pytest.mark.parametrize(
    ("loader", "file", "nodes", "count", "directed", "order"),
    [
        (karate, "karate.gml.gz", 34, 78, False, "60629ae2b6bd"),
        (polblogs, "polblogs.gml.gz", 1490, 19022, True, "5cda11c10c5b"),
        (facebook, "facebook_edges.txt.gz", 4039, 88234, False, "e61a6a2569fe"),
    ],
)
def test_the_real_graphs(shared_data, loader, file, nodes, count, directed, order):
    """Each has the published number of nodes and of links without loops and repeats, in the order of the splits."""
    graph = loader(shared_data(file))
    assert (graph.nodes, len(graph), graph.directed) == (nodes, count, directed)
    assert hashlib.sha256(np.array([graph.rows, graph.cols]).tobytes()).hexdigest()[:12] == order


# ---------------------------------------------------------------- graphs
@pytest.mark.parametrize(
    ("rows", "cols", "message"),
    [
        ([0, 1], [1], "equally long"),
        ([], [], "equally long"),
        ([0], [3], r"0\.\.2"),
        ([-1], [1], r"0\.\.2"),
        ([0, 1], [1, 1], "1 loops and 0 repeated"),
        ([0, 0], [1, 1], "0 loops and 1 repeated"),
        ([0, 1], [1, 0], "0 loops and 1 repeated"),
    ],
)
def test_a_graph_checks_its_links(rows, cols, message):
    """Links must lie inside, and be neither loops nor repeats."""
    with pytest.raises(ValueError, match=message):
        Graph(3, rows, cols, directed=False)
    assert len(Graph(3, [0, 1], [1, 0], directed=True)) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [2, 3, 7, 40])
def test_cells_are_all_pairs_once(kind, nodes):
    """Without a ratio every pair off the diagonal is there once with its value, the smaller first if undirected."""
    graph = planted(kind, nodes) if nodes > 3 else Graph(nodes, [1], [0], kind == "directed")
    rows, cols, values = graph.cells()
    wanted = itertools.permutations(range(nodes), 2) if graph.directed else itertools.combinations(range(nodes), 2)
    assert sorted(zip(rows.tolist(), cols.tolist(), strict=True)) == sorted(wanted)
    assert rows.size == graph.pairs
    assert np.array_equal(values, dense(graph)[rows, cols])
    first = zip(graph.rows.tolist(), graph.cols.tolist(), strict=True)  # the links, in their order
    ends = zip(rows[: len(graph)].tolist(), cols[: len(graph)].tolist(), strict=True)
    assert list(ends) == [pair if graph.directed else tuple(sorted(pair)) for pair in first]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_the_cells(kind):
    """A ratio gives all links and that many others a link, none twice, other ones with another seed, all alike."""
    graph = planted(kind)
    samples = [graph.cells(1.5, seed) for seed in range(60)]
    truth, seen = dense(graph), np.zeros((40, 40))
    for rows, cols, values in samples:
        assert (int(values.sum()), values.size) == (len(graph), len(graph) + round(1.5 * len(graph)))
        assert np.array_equal(values, truth[rows, cols])
        assert np.unique(rows * 40 + cols).size == rows.size
        seen[rows, cols] += 1
    assert not np.array_equal(samples[0].rows, samples[1].rows)
    assert all(map(np.array_equal, samples[0], graph.cells(1.5, 0)))
    places = np.array(graph.cells()[:2])[:, len(graph) :]
    rate = round(1.5 * len(graph)) / (graph.pairs - len(graph))
    assert np.abs(seen[*places] / 60 - rate).max() < 6 * np.sqrt(rate * (1 - rate) / 60)
    assert graph.cells(1000.0).rows.size == graph.pairs


# ---------------------------------------------------------------- what is hidden
def parts(kind: str) -> dict[str, Pairs]:
    known, hidden = hide(kind, SHARE, SEED)
    return {"kept": known.kept, "held": known.held, "hidden": hidden, "known": known.pairs}


@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_is_on_one_side(kind):
    """Kept, held-out and hidden pairs are all pairs, none twice; the first two are the known ones."""
    found = {name: set(zip(p.rows.tolist(), p.cols.tolist(), strict=True)) for name, p in parts(kind).items()}
    assert sum(len(found[name]) for name in ("kept", "held", "hidden")) == planted(kind).pairs
    assert len(found["kept"] | found["held"] | found["hidden"]) == planted(kind).pairs
    assert found["kept"] | found["held"] == found["known"]
    truth = dense(planted(kind))
    assert all(np.array_equal(p.values, truth[p.rows, p.cols]) for p in parts(kind).values())


def test_a_cell_and_its_mirror_are_on_the_same_side():
    """Both cells of a pair of an undirected graph are kept, held out or hidden together; else they need not be."""
    for kind in KINDS:
        cells = {}
        for name, p in parts(kind).items():
            seen = p.observations
            cells[name] = set(zip(seen.rows.tolist(), seen.cols.tolist(), strict=True))
            mirrored = {(j, i) for i, j in cells[name]}
            assert (cells[name] == mirrored) == (kind == "undirected"), name
            assert np.array_equal(seen.values, dense(planted(kind))[seen.rows, seen.cols])
        assert len(cells["known"] | cells["hidden"]) == 40 * 39
        assert not cells["known"] & cells["hidden"]
        assert not cells["kept"] & cells["held"]


@pytest.mark.parametrize("kind", KINDS)
def test_links_and_others_are_hidden_at_the_same_rate(kind):
    """The share stays known of the links and of the others, a fifth of it held out; each part knows its share."""
    total = len(planted(kind)), planted(kind).pairs - len(planted(kind))
    wanted = {"kept": 0.8 * SHARE, "held": 0.2 * SHARE, "hidden": 1 - SHARE, "known": SHARE}
    for name, p in parts(kind).items():
        assert p.share == pytest.approx(wanted[name])
        for value, count in zip((1, 0), total, strict=True):
            assert (p.values == value).sum() == pytest.approx(wanted[name] * count, abs=1)
    others = hide(kind, SHARE, SEED + 1)[1]
    assert not np.array_equal(others.rows, parts(kind)["hidden"].rows)


def test_a_split_needs_both_kinds_of_pairs():
    """A side that would be left without a link is an error that says so."""
    graph = Graph(6, [0], [1], directed=False)
    with pytest.raises(ValueError, match="there must be some of both kinds"):
        Pairs.of(graph).split(0.5, 0)


def test_a_large_graph_takes_part_with_a_sample(monkeypatch):
    """A ratio makes prevalence the same on every side: one link in 1 + ratio."""
    monkeypatch.setattr(links, "RATIO", {"undirected": 1.5})
    for p in parts("undirected").values():
        assert p.values.mean() == pytest.approx(1 / 2.5, abs=0.01)
    (score,) = links.run_unit("undirected", SHARE, SEED, ["constant"])
    assert score.prevalence == pytest.approx(1 / 2.5, abs=0.01)
    assert score.hidden_cells < planted("undirected").pairs * (1 - SHARE) - 10


# ---------------------------------------------------------------- baselines by brute force
def table(pairs: Pairs) -> Any:
    """The known cells, NaN elsewhere."""
    out = np.full((pairs.nodes, pairs.nodes), np.nan)
    for i, j, value in zip(pairs.rows, pairs.cols, pairs.values, strict=True):
        out[i, j] = value
        if not pairs.directed:
            out[j, i] = value
    return out


def everywhere(estimate: links.Estimate, nodes: int = 40) -> Any:
    rows, cols = (side.ravel() for side in np.indices((nodes, nodes)))
    return np.asarray(estimate(rows, cols)).reshape(nodes, nodes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["kept", "known"])
def test_degrees_by_brute_force(kind, part):
    """Share of links in the row times that in the column over that of all known cells, node by node."""
    pairs = parts(kind)[part]
    seen = table(pairs)
    row, col = np.nanmean(seen, axis=1), np.nanmean(seen, axis=0)
    assert everywhere(links.degree(pairs)) == pytest.approx(np.outer(row, col) / np.nanmean(seen))
    assert everywhere(links.constant(pairs)) == pytest.approx(np.full((40, 40), np.nanmean(seen)))


def test_a_node_of_which_nothing_is_known_gets_no_link():
    """Degrees of nodes without known cells are 0; a single known cell that is a link is a share of 1."""
    pairs = Pairs(4, False, np.array([0, 0]), np.array([1, 2]), np.array([1.0, 0.0]))
    found = everywhere(links.degree(pairs), 4)
    assert found[3].tolist() == [0, 0, 0, 0]
    assert found[0].tolist() == [0.5, 1, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rare", [False, True])
def test_common_neighbours_by_brute_force(kind, rare):
    """Count, one by one, the nodes linked with both in either direction; Adamic and Adar's weigh them by 1/log d."""
    pairs = parts(kind)["kept"]
    linked = np.nan_to_num(table(pairs))
    linked = (linked + linked.T) > 0
    wanted = np.zeros((40, 40))
    for i, j, k in itertools.product(range(40), repeat=3):
        if linked[i, k] and linked[j, k]:
            d = int(linked[k].sum())
            wanted[i, j] += ((1 / np.log(d) if d > 1 else 0) if rare else 1) / pairs.share**2
    assert everywhere(links.common_neighbours(pairs, rare=rare)) == pytest.approx(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_the_spectral_baseline_by_brute_force(kind):
    """The whole SVD of the known links over the share known, cut at the rank that is best on held-out pairs."""
    known, _ = hide(kind, SHARE, SEED)

    def cut(pairs: Pairs, rank: int) -> Any:
        U, s, Vt = np.linalg.svd(np.nan_to_num(table(pairs)) / pairs.share)
        return (U[:, :rank] * s[:rank]) @ Vt[:rank]

    held, found = known.held, {}
    for rank in (r for r in links.RANKS if r <= 40):
        X = cut(known.kept, rank)
        found[rank] = X[held.rows, held.cols] if held.directed else (X + X.T)[held.rows, held.cols] / 2
    best = max(found, key=lambda rank: average_precision_score(held.values, found[rank]))
    answer = METHODS["spectral"].run(known)
    assert answer.rank == best > 1
    assert everywhere(answer.estimate) == pytest.approx(cut(known.pairs, best), abs=1e-4)
    assert answer.threshold == pytest.approx(best_threshold(held.values, found[best]), abs=1e-4)


def test_the_biases_are_those_of_the_package():
    """Damped biases with the dampings that predict some of the cells best."""
    pairs = parts("directed")["known"]
    rows, cols = best_damping(pairs.observations, "biases")
    wanted = DampedBiases.fit(pairs.observations, damping_rows=rows, damping_cols=cols)
    assert everywhere(links.biases(pairs)) == pytest.approx(everywhere(wanted.entries))


def test_a_pair_gets_the_mean_of_its_cells_if_undirected():
    """An estimate that differs between a cell and its mirror is averaged; a directed pair is its one cell."""
    pairs = Pairs(4, False, np.array([0, 1]), np.array([2, 3]), np.array([1.0, 0.0]))

    def estimate(rows: Any, cols: Any) -> Any:
        return 10.0 * rows + cols

    assert pairs.at(estimate).tolist() == [11, 22]
    assert replace(pairs, directed=True).at(estimate).tolist() == [2, 13]


# ---------------------------------------------------------------- a whole unit
class Unit(NamedTuple):
    """Known and hidden pairs, the scores of all methods, and the answers of each."""

    known: Known
    hidden: Pairs
    scores: list[Score]
    answers: dict[str, Answer]


def unit(kind: str, turned: Callable[[Any], Any] = lambda values: values) -> Unit:
    """Run a unit with all methods, after a change of the hidden values."""
    answers = {}

    def watched(name: str, method: links.Method) -> links.Method:
        def run(known: Known) -> Answer:
            answers[name] = method.run(known)
            return answers[name]

        return replace(method, run=run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "DATA", TOYS)
        known, hidden = hide(kind, SHARE, SEED)
        hidden = replace(hidden, values=turned(hidden.values))
        patch.setattr(links, "hide", lambda *_: (known, hidden))
        patch.setattr(links, "METHODS", {name: watched(name, method) for name, method in METHODS.items()})
        return Unit(known, hidden, list(links.run_unit(kind, SHARE, SEED, list(METHODS))), answers)


@pytest.fixture(scope="module")
def done() -> dict[str, Unit]:
    return {kind: unit(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_thresholds_of_baselines_are_chosen_on_pairs_they_have_not_seen(done, kind):
    """A baseline is fitted to the kept pairs, its threshold is the best on those held out, and then it sees all."""
    known, hidden, _, answers = done[kind]
    baselines = {
        "degrees": links.degree,
        "common neighbours": links.common_neighbours,
        "Adamic–Adar": partial(links.common_neighbours, rare=True),
        "damped biases": links.biases,
    }
    for name, baseline in baselines.items():
        wanted = best_threshold(known.held.values, known.held.at(baseline(known.kept)))
        assert answers[name].threshold == wanted, name
        assert np.array_equal(hidden.at(answers[name].estimate), hidden.at(baseline(known.pairs))), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "discrete"), [("discrete-aware L1", "l1"), ("ridge to the mean", "ridge")])
def test_strengths_are_those_of_a_search_of_its_own(done, kind, name, discrete):
    """λ and ξ are what a search from scratch with that term finds best on held-out pairs, at the better centre."""
    known, _, _, answers = done[kind]
    folds = [(known.kept.observations, known.held.observations)]
    options = FitOptions(random_state=SEED, alphabet_term="auto", **links.LIMITS, **links.PATH)
    searches = []
    for center in ("mean", "biases"):
        damping = best_damping(folds[0][0], center, random_state=SEED)
        spec = ModelSpec(links.ALPHABET, discrete=discrete, center=center, damping=damping)
        search = Search(spec, folds, "rmse", "ais-impute", options)
        searches.append(search.plain(xi=links.XI_STEPS))
    search = min(searches, key=lambda one: one.lowest).others()
    best = min(search.tried, key=lambda c: c.score)
    assert (answers[name].lam, answers[name].xi) == (pytest.approx(best.lam), best.xi)
    held = search.found[best][0]
    assert answers[name].threshold == pytest.approx(best_threshold(held.observations.values, held.estimate), abs=1e-5)
    assert {c.xi for c in search.tried} == set(links.XI_STEPS)


@pytest.mark.parametrize("kind", KINDS)
def test_one_method_does_not_disturb_another(done, kind):
    """The methods that share a path answer as they do alone, in whatever order they come."""
    known, _, _, answers = done[kind]
    for name in COMPLETIONS:
        alone = METHODS[name].run(replace(known, paths={}))
        assert alone[1:] == answers[name][1:], name
        assert np.array_equal(known.held.at(alone.estimate), known.held.at(answers[name].estimate)), name
    assert answers["Soft-Impute, mean-centred"].xi is None
    assert all(set(path.search.best) == {False} for path in known.paths.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_fit_is_to_all_known_pairs(done, kind):
    """On pairs that were held out the last fit, which knows them, is far better than on hidden ones."""
    known, hidden, _, answers = done[kind]
    for name, answer in ((name, answers[name]) for name in COMPLETIONS):
        lost = [np.mean((p.at(answer.estimate) - p.values) ** 2) for p in (known.held, hidden)]
        assert lost[0] < 0.8 * lost[1], name
        assert answer.rank > 0, name


# ---------------------------------------------------------------- scores
def brute_auc(truth: Any, estimate: Any) -> float:
    """Share of all pairs of a link and another in which the link has the larger estimate; equal ones count half."""
    larger = estimate[truth == 1][:, None] - estimate[truth == 0]
    return float(np.mean((larger > 0) + 0.5 * (larger == 0)))


@pytest.mark.parametrize("kind", KINDS)
def test_scores_by_brute_force(done, kind):
    """AUC, average precision, precision, recall and F1 are those of the estimates, counted out."""
    _, hidden, scores, answers = done[kind]
    truth = hidden.values
    for s in scores:
        answer = answers[s.method]
        assert (s.data, s.share, s.seed, s.lam, s.xi, s.rank) == (kind, SHARE, SEED, *answer[2:])
        assert (s.hidden_links, s.hidden_cells, s.prevalence) == (truth.sum(), truth.size, truth.mean())
        estimate = hidden.at(answer.estimate)
        assert s.auc == pytest.approx(brute_auc(truth, estimate)), s.method
        # Recall gained at each distinct value from the top, times the precision there.
        value, before, area = 0.0, 0.0, 0.0
        for value in np.unique(estimate)[::-1]:
            said = estimate >= value
            area += (truth[said].sum() - before) / truth.sum() * truth[said].mean()
            before = truth[said].sum()
        assert s.average_precision == pytest.approx(area), s.method
        said = estimate >= answer.threshold
        right = (truth * said).sum()
        assert (s.precision, s.recall) == pytest.approx((right / max(said.sum(), 1), right / truth.sum()))
        assert s.f1 == pytest.approx(2 * right / (said.sum() + truth.sum()))
        assert s.seconds >= 0
    assert [s.method for s in scores] == list(METHODS)


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_pairs_have_no_say(done, kind):
    """Exchanging links and others among the hidden pairs leaves thresholds and strengths; AUC turns to 1 − AUC."""
    _, hidden, scores, answers = done[kind]
    other_unit = unit(kind, lambda values: 1 - values)
    for s, t in zip(scores, other_unit.scores, strict=True):
        answer, other = answers[s.method], other_unit.answers[s.method]
        assert answer[1:] == other[1:], s.method
        assert np.array_equal(hidden.at(answer.estimate), hidden.at(other.estimate)), s.method
        assert t.auc == pytest.approx(1 - s.auc)


@pytest.mark.parametrize("kind", KINDS)
def test_low_rank_finds_the_groups(done, kind):
    """On planted groups spectral and completing methods do well, better than what knows degrees only."""
    found = {s.method: s for s in done[kind].scores}
    limit = max(found[name].auc for name in ("constant", "degrees", "damped biases"))
    for name in ("common neighbours", "Adamic–Adar", "spectral", *COMPLETIONS):
        assert found[name].auc > max(limit + 0.05, 0.7), name
        assert found[name].f1 > found["constant"].f1 + 0.1, name


def test_the_threshold_by_brute_force():
    """Threshold with the largest F1, in the middle between two neighbouring estimates."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        truth = (rng.random(30) < 0.3).astype(float)
        truth[0] = 1
        estimate = np.round(truth + rng.normal(size=30), 1)

        def f1(threshold: float, truth: Any = truth, estimate: Any = estimate) -> float:
            said = estimate >= threshold
            return float(2 * (truth * said).sum() / (said.sum() + truth.sum()))

        found, values = best_threshold(truth, estimate), np.unique(estimate)
        assert f1(found) == pytest.approx(max(map(f1, values)))
        assert found == -np.inf or np.isclose((values[1:] + values[:-1]) / 2, found).any()
    assert best_threshold(np.array([1.0, 0.0]), np.array([0.3, 0.3])) == -np.inf
    assert best_threshold(np.array([0.0, 1.0, 1.0]), np.array([1.0, 2.0, 5.0])) == 1.5


def test_only_the_methods_asked_for_are_run(monkeypatch):
    """They are run in that order, and the time of the paths that a method begins with is part of its own."""
    known, hidden = hide("directed", SHARE, SEED)
    known.path("mean")
    known.paths["mean"] = known.paths["mean"]._replace(seconds=1000.0)
    monkeypatch.setattr(links, "hide", lambda *unit: (known, hidden))
    scores = list(links.run_unit("directed", SHARE, SEED, ["Soft-Impute, mean-centred", "degrees"]))
    assert [s.method for s in scores] == ["Soft-Impute, mean-centred", "degrees"]
    assert 1000 <= scores[0].seconds < 1100
    assert scores[1].seconds < 100


def test_fingerprints_follow_what_scores_depend_on(monkeypatch):
    """One for each method, the same each time, all others after a change of what they are made by."""
    found = links.prints("directed")
    assert list(found) == list(METHODS)
    assert len(set(found.values())) == len(found)
    assert links.prints("directed") == found
    changes = [(links, "XI_STEPS", (0.0,)), (links, "LAST", {}), (links, "RATIO", {"directed": 2.0})]
    changes += [(tuning, "LAM_STEPS", 3), (links, "VERSION", -1), (links, "HELD_OUT", 0.3), (links, "RANKS", (1,))]
    for where, name, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            assert not set(links.prints("directed").values()) & set(found.values()), name


def test_a_graph_that_cannot_be_had_is_an_error(monkeypatch):
    """Whoever asks for methods or scores hears of it."""
    monkeypatch.delenv("SNAPIMPUTE_DATA", raising=False)
    monkeypatch.setitem(links.DATA, "karate", (karate, (0.5,)))
    with pytest.raises(DatasetUnavailable, match="karate"):
        links.prints("karate")
    with pytest.raises(DatasetUnavailable, match="karate"):
        next(links.run_unit("karate", 0.5, 0, ["constant"]))


def test_the_karate_club(shared_data, monkeypatch):
    """On the real club every method gives scores, and biases alone are far better than chance."""
    path = shared_data("karate.gml.gz")
    monkeypatch.setitem(links.DATA, "karate", (lambda: karate(path), (0.8,)))
    scores = {s.method: s for s in links.run_unit("karate", 0.8, 0, list(METHODS))}
    assert list(scores) == list(METHODS)
    assert {(s.hidden_links, s.hidden_cells) for s in scores.values()} == {(16, 113)}
    assert scores["damped biases"].auc > 0.6


# ---------------------------------------------------------------- the table
def made_up(data: str, share: float, seed: int, method: str, xi: float | None = None) -> Score:
    rng = np.random.default_rng([len(data), int(100 * share), seed, len(method)])
    return Score(data, share, seed, method, *rng.random(5).tolist(), 1.0, 0.25, 1000, 4000, xi=xi)


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_table_says_what_the_scores_say(seeds):
    """Read back, the table has every method and share with the means and standard errors of four scores."""
    data, shares, methods = ("one", "another"), (0.2, 0.75), ("constant", "spectral")
    given = [made_up(*of) for of in itertools.product(data, shares, range(seeds), methods)]
    blocks = as_markdown(given).split("### ")[1:]
    for one, block in zip(data, blocks, strict=True):
        title, _, sizes, _, head, rule, *rows = block.rstrip("\n").split("\n")
        assert title == f"{one}: {seeds} seeds"
        assert sizes == "; ".join(
            f"{percent} % known: 1,000 links among 4,000 hidden pairs (25 %)" for percent in (20, 75)
        )
        names = [f"{percent} %: {name}" for percent in (20, 75) for name in ("AUC", "AP", "precision", "F1")]
        assert head == "| method | " + " | ".join(names) + " |"
        assert rule == "|---" * 9 + "|"
        for method, row in zip(methods, rows, strict=True):
            label, *cells = (cell.strip() for cell in row.strip("|").split("|"))
            assert label == method
            columns = itertools.product(shares, ("auc", "average_precision", "precision", "f1"))
            for cell, (share, of) in zip(cells, columns, strict=True):
                mine = [s for s in given if (s.data, s.share, s.method) == (one, share, method)]
                values = np.array([getattr(s, of) for s in mine])
                mean, *spread = map(float, cell.split(" ± "))
                assert mean == pytest.approx(values.mean(), abs=0.00051)
                assert len(spread) == (seeds > 1)
                if spread:
                    assert spread[0] == pytest.approx(values.std(ddof=1) / np.sqrt(seeds), abs=0.00051)


def test_the_table_tells_where_no_further_term_was_chosen():
    """A method that may choose ξ says in how many splits it was 0; a share that was not run stays empty."""
    rows = [made_up("one", 0.5, seed, "discrete-aware L1", xi) for seed, xi in enumerate((0.0, 0.03, 0.0))]
    rows += [made_up("one", 0.8, 0, "spectral")]
    table = as_markdown(rows)
    assert "| discrete-aware L1 (ξ = 0 chosen in 2 of 3) |" in table
    assert table.splitlines()[-2].endswith(" |  |  |  |  |")
    assert table.splitlines()[-1].startswith("| spectral |  |  |  |  | ")
    assert "chosen" not in as_markdown([*rows[1:2], *rows[3:]])
