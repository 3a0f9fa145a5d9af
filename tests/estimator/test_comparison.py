"""Methods side by side, and the demo that shows them."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from snapimpute.data.datasets import low_rank_alphabet
from snapimpute.estimator import comparison
from snapimpute.estimator.comparison import BASELINES, Method, compare, paired_difference, verdict
from snapimpute.experts.proximal import tuned as tuned_spec

pytestmark = pytest.mark.slow

FEW = (Method("plain", center="mean"), Method("aware", discrete="l1", center="mean"))


@pytest.fixture(scope="module")
def blocks():
    data = low_rank_alphabet((80, 60), rank=3, alphabet="1:5", kind="blocks", observed=0.5, random_state=3)
    return data, *data.observations.split(0.3, random_state=1)


@pytest.fixture(scope="module")
def outcomes(blocks):
    data, known, hidden = blocks
    return compare(known, hidden, data.alphabet, FEW)


def test_every_baseline_and_method_has_a_row_in_order(outcomes):
    """The table has the baselines first, then the methods asked for."""
    assert [o.label for o in outcomes] == [*BASELINES, "plain", "aware"]


def test_errors_are_those_of_the_snapped_estimates(outcomes, blocks):
    """`error` is the share of hidden entries whose nearest symbol is wrong, with its binomial standard error."""
    data, _, hidden = blocks
    for o in outcomes:
        wrong = data.alphabet.snap(o.estimate) != hidden.values
        assert o.error == pytest.approx(wrong.mean())
        assert o.standard_error == pytest.approx(np.sqrt(o.error * (1 - o.error) / len(hidden)))


def test_low_rank_methods_recover_blocks_that_baselines_cannot(outcomes):
    """On planted blocks the fitted methods err at most a fifth as often as the best baseline."""
    least = min(o.error for o in outcomes if o.method is None)
    assert all(o.error <= least / 5 for o in outcomes if o.method is not None)


def test_hidden_entries_have_no_say_in_the_fit(blocks, outcomes):
    """Other hidden values lead to the same λ, ξ and estimates: tuning sees visible entries only."""
    data, known, hidden = blocks
    other = hidden.with_values(np.full(len(hidden), 1.0))
    again = compare(known, other, data.alphabet, FEW)
    for a, b in zip(outcomes, again, strict=True):
        assert (a.lam, a.xi, a.held_out) == (b.lam, b.xi, b.held_out)
        assert np.array_equal(a.estimate, b.estimate)


def test_discrete_aware_rows_never_use_the_plain_method(outcomes):
    """A discrete-aware row has ξ > 0, a plain one ξ = 0."""
    for o in outcomes:
        if o.method is not None:
            assert (o.xi > 0) == o.method.discrete_aware


def test_interruption_ends_the_comparison(blocks, monkeypatch):
    """Ctrl-C in the last fit of a method is not swallowed."""
    data, known, hidden = blocks

    def interrupted(*args, **kwargs):
        result = run(*args, **kwargs)
        return replace(result, status=replace(result.status, code="interrupted"))

    run = tuned_spec.run
    monkeypatch.setattr(tuned_spec, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(known, hidden, data.alphabet, FEW[:1])


def outcome(label, wrong, method, held_out):
    wrong = np.asarray(wrong, dtype=float)
    return comparison.Outcome(label, wrong, wrong, {}, method, 1.0, 0.0, held_out)


def test_paired_difference_is_that_of_the_entries():
    """The difference and its standard error come from the entries pair by pair."""
    a, b = outcome("a", [1, 1, 0, 0], FEW[0], 0.5), outcome("b", [0, 1, 0, 0], FEW[1], 0.5)
    assert paired_difference(a, b) == (0.25, pytest.approx(np.std([1, 0, 0, 0]) / 2))


@pytest.mark.parametrize(
    ("plain", "aware", "word"),
    [(0.2, 0.05, "helped"), (0.05, 0.2, "did harm"), (0.1, 0.1, "made no measurable difference")],
)
def test_verdict_says_which_way_it_came_out(plain, aware, word):
    """The verdict follows the paired difference, whichever way it comes out."""
    n = 1000
    rows = [
        outcome("plain", np.arange(n) < plain * n, FEW[0], 0.3),
        outcome("aware", np.arange(n) < aware * n, FEW[1], 0.3),
    ]
    assert f"Discreteness {word}" in verdict(rows)


def test_verdict_picks_methods_by_held_out_score():
    """Of several methods the one with the best held-out score speaks, though another did better on the hidden."""
    rows = [
        outcome("lucky", np.zeros(100), FEW[0], 0.5),
        outcome("chosen", np.ones(100), FEW[0], 0.1),
        outcome("aware", np.ones(100), FEW[1], 0.2),
    ]
    assert "chosen with rounding on 100.00 %" in verdict(rows)


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    """`snapimpute demo` end to end, with two methods instead of eight."""
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")
    from typer.testing import CliRunner

    from snapimpute.app.cli.app import app

    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison.compare, "__defaults__", (FEW,))
        result = CliRunner().invoke(app, ["demo", "--out", str(out), "--observed", "0.3"])
    return result, out


def test_prints_every_method_and_a_verdict(demo_run):
    """The table and the verdict are printed and the command succeeds."""
    result, _ = demo_run
    assert result.exit_code == 0, result.output
    for word in ("damped biases", "plain", "aware", "Discreteness"):
        assert word in result.output


def test_completed_table_holds_symbols_only_and_keeps_known_votes(demo_run):
    """completed.csv has every cell filled with 0 or 1, and the visible votes as they were."""
    from snapimpute.data.datasets import senate_votes

    with (demo_run[1] / "completed.csv").open(encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    votes = senate_votes(117)
    table = np.array([row[1:] for row in rows], dtype=float)
    known, _ = votes.observations.split(0.7, random_state=0)
    assert header[1:] == [str(c) for c in votes.col_labels]
    assert table.shape == votes.shape
    assert set(np.unique(table)) == {0.0, 1.0}
    assert np.array_equal(table[known.rows, known.cols], known.values)


def test_pictures_are_png_and_nothing_else_is_left(demo_run):
    """The folder holds the table, the two pictures and the report only, without temporary files."""
    files = sorted(p.name for p in demo_run[1].iterdir())
    assert files == ["completed.csv", "demo.png", "reliability.png", "report.html"]
    assert all((demo_run[1] / name).read_bytes().startswith(b"\x89PNG") for name in files[1:3])


def test_wrong_congress_is_refused_with_the_choices():
    """A congress that is not bundled gives an error that names those that are."""
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from snapimpute.app.cli.app import app

    result = CliRunner().invoke(app, ["demo", "--congress", "116"])
    assert result.exit_code == 2
    assert "117" in result.output


def test_command_without_its_extra_says_what_to_install(monkeypatch, capsys):
    """Without typer the command ends with the line that installs it."""
    import sys

    from snapimpute.app import cli

    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "snapimpute.app.cli.app", raising=False)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    assert 'pip install "snapimpute[app]"' in capsys.readouterr().err
