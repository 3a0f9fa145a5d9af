"""`python -m reproduction all`: every study on small stand-ins, one page, and what cannot be had left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

pytest.importorskip("typer", reason="the command line is an optional extra")
pytest.importorskip("matplotlib", reason="pictures are an optional extra")
from typer.testing import CliRunner

from reproduction import claims, cli, index_coding, links, paper, peers, systems
from reproduction.studies import StudyRunner
from snapimpute.data.datasets import DatasetUnavailable


def unavailable() -> Any:
    raise DatasetUnavailable("the small data are with somebody else")


@pytest.fixture
def studies(small_ratings, monkeypatch) -> None:
    """Everything small, and in this process: another one would not see what is replaced here."""
    monkeypatch.setattr(StudyRunner, "_spread", lambda runner, rest: [job.work() for job in rest])
    monkeypatch.setattr(cli, "movielens_100k", lambda: small_ratings)
    monkeypatch.setattr(claims, "growth", lambda: {"plain": [1.0, 2.0, 4.0], "discrete-aware": [1.0, 4.0, 16.0]})
    monkeypatch.setattr(
        systems, "DATA", {"senate": (lambda: small_ratings, (0.5, 0.8)), "gone": (unavailable, (0.5,))}
    )
    monkeypatch.setattr(links, "DATA", {"karate": (unavailable, (0.5,))})
    few = ("none-5", "directed-3", "directed-4")
    monkeypatch.setattr(index_coding, "INSTANCES", {name: index_coding.INSTANCES[name] for name in few})
    simple = {name: peers.PEERS[name] for name in ("constant mean",)}
    monkeypatch.setattr(peers, "PEERS", simple)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli.reproduce, [*arguments], env={"COLUMNS": "300"})


def test_quick_leaves_every_table_and_picture(studies, tmp_path):
    """Tables for people, tidy numbers, figures in three formats, and one page; the same again from what is kept."""
    done = run("all", "--quick", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    names = {file.name for file in tmp_path.iterdir()}
    for table in ("fig1", "claims", "systems", "index"):
        assert {f"{table}.md", f"{table}.csv", f"{table}.parquet"} <= names
    for picture in ("fig1-held-out", "fig2"):
        assert {f"{picture}.png", f"{picture}.svg", f"{picture}.pdf"} <= names
    assert "karate is left out: the small data are with somebody else" in done.output
    assert "Peers are left out with --quick" in done.output
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    for part in ("A unique solution", "![Figure 2", "| discrete-aware nuclear |", "Index coding", "numpy", "seed 0"):
        assert part in page
    assert "## Links" not in page
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.suffix in {".csv", ".md", ".svg"}}
    assert run("all", "--quick", "--out", str(tmp_path)).exit_code == 0
    assert {file: file.read_bytes() for file in before} == before


def test_numbers_are_tidy(studies, tmp_path):
    """One row for each method, share and seed; one for each iteration of a curve."""
    for command in ("fig1", "fig2"):
        assert run(command, "--quick", "--out", str(tmp_path)).exit_code == 0
    scores = pl.read_parquet(tmp_path / "fig1.parquet")
    assert scores.shape[0] == len(paper.QUICK) * 2
    assert scores.select("method", "share", "seed").is_duplicated().sum() == 0
    assert pl.read_csv(tmp_path / "fig1.csv")["nmse"].to_list() == pytest.approx(scores["nmse"].to_list())
    curves = pl.read_parquet(tmp_path / "fig2.parquet")
    assert curves.group_by("method").len()["len"].to_list() == [paper.ITERATIONS] * 2
    assert curves["iteration"].min() == 1


def test_both_ways_of_tuning_have_figures_of_their_own(studies, monkeypatch, tmp_path):
    """Without --quick: every share of the paper's curves, and what was tuned on test apart."""
    monkeypatch.setattr(paper, "SHARES", (0.4, 0.6))
    monkeypatch.setattr(paper, "CURVES", ((("paper",), (0.4, 0.6)), (("control", "beyond"), (0.6,))))
    few = ["--method", "AIS-Impute", "--method", "constant mean", "--seeds", "2"]
    done = run("fig1", *few, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "fig1-best-on-test.svg").exists()
    table = (tmp_path / "fig1.md").read_text(encoding="utf-8")
    honest, on_test = table.split("Best on test (indicative only)")
    for table in (honest, on_test):
        assert table.count("±") == 5  # AIS-Impute and it rounded at two shares, the mean at one
        assert "| constant mean |" in table


def test_peers_are_run_and_ranked(studies, monkeypatch, tmp_path):
    """A peer in a process of its own, on the small data."""
    from snapimpute.data import datasets

    monkeypatch.setattr(peers, "DATA", {"movielens": lambda: small})
    small = replace(datasets.senate_votes(117), name="votes")
    done = run("peers", "--quick", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "constant mean" in (tmp_path / "peers.md").read_text(encoding="utf-8")
    assert pl.read_parquet(tmp_path / "peers.parquet")["nmse"][0] > 0


def test_all_ranks_everybody_and_names_the_seeds(studies, small_ratings, monkeypatch, tmp_path):
    """Without --quick: the peers on the same splits, one ranking of all, and a page that says which seeds."""
    monkeypatch.setattr(paper, "METHODS", {"AIS-Impute": paper.METHODS["AIS-Impute"]})
    monkeypatch.setattr(peers, "DATA", {"movielens": lambda: small_ratings})
    monkeypatch.setattr(peers, "SHARES", (0.2, 0.4))
    monkeypatch.setattr(peers, "PEERS", {"ours, simple": replace(peers.PEERS["constant mean"], about="small")})
    monkeypatch.setattr(systems, "SYSTEMS", {name: systems.SYSTEMS[name] for name in ("constant mean",)})
    monkeypatch.setattr(paper, "SHARES", (0.2, 0.4))
    monkeypatch.setattr(paper, "OTHER_SHARES", (0.2, 0.4))
    done = run("all", "--seeds", "2", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    places = pl.read_parquet(tmp_path / "ranking.parquet")
    assert places.group_by("share").len()["len"].to_list() == [4, 4]
    assert set(places["method"]) == {"constant mean", "damped biases", "AIS-Impute", "ours, simple"}
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "seeds 0 to 1 (figures, claims), 0 to 1 (all else)" in page
    assert page.index("## The paper's claims") < page.index("## The ranking") < page.index("## Figure 1")


@pytest.mark.parametrize("quick", [["--quick"], []])
def test_without_movielens_the_rest_is_run(quick, studies, monkeypatch, tmp_path):
    """Studies that need the ratings are left out, and named."""
    monkeypatch.setattr(cli, "movielens_100k", unavailable)
    monkeypatch.setattr(peers, "DATA", {"movielens": unavailable})
    monkeypatch.setattr(systems, "SYSTEMS", {name: systems.SYSTEMS[name] for name in systems.QUICK})
    done = run("all", *quick, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "MovieLens-100k is left out: the small data are with somebody else" in done.output
    assert not (tmp_path / "fig1.md").exists()
    assert (tmp_path / "index.md").exists()
