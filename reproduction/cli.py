"""`python -m reproduction`: the paper's evaluation and the studies behind the documentation, run anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from reproduction import claims as claiming
from reproduction import gallery, index_coding, paper, peers
from reproduction import links as linking
from reproduction import posterior as posteriors
from reproduction import ranking as ranked
from reproduction import recovery as recovering
from reproduction import systems as comparing
from reproduction.studies import CORES, StudyRunner, known, units
from reproduction.units import Unit
from snapimpute.base.files import write_atomically
from snapimpute.data.datasets import movielens_100k

reproduce = typer.Typer(
    help="Run the paper's evaluation, and the studies behind the documentation.", no_args_is_help=True
)

Out = Annotated[Path, typer.Option(help="Folder; scores that are there already are kept.")]
Jobs = Annotated[int, typer.Option(min=1, help="Processes, with one thread each.")]
Seeds = Annotated[int, typer.Option(min=1, help="Splits of each setting.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small part, in minutes.")]
OUT = Path("reproduce-output")
FEW = 3
"""Splits of what is beside the paper's figures."""


# ---------------------------------------------------------------- the paper's figures
@reproduce.command()
def fig1(
    out: Out = OUT,
    seeds: Seeds = 5,
    method: Annotated[list[str] | None, typer.Option(help="Names as in the table; all if none.")] = None,
    quick: Quick = False,
    jobs: Jobs = CORES,
) -> None:
    """The paper's Figure 1: NMSE against the share of MovieLens-100k that is observed, with controls."""
    runner = StudyRunner(out, jobs)
    asked = known(method, paper.QUICK if quick else [*paper.BASELINES, *paper.METHODS], "--method")
    scores = _paper_scores(runner, seeds, asked, quick)
    lines = paper.summarise(scores)
    runner.write("fig1", paper.as_markdown(lines), scores, without="curve")
    from reproduction import curves

    for on_test, name in ((False, "held-out"), (True, "best-on-test")):
        drawn = [line for line in lines if line.on_test == on_test]
        if drawn:
            curves.shares(runner.picture(f"fig1-{name}"), drawn, paper.TITLES[on_test])


def _paper_scores(runner: StudyRunner, seeds: int, asked: list[str], quick: bool) -> list[paper.Score]:
    shares = paper.OTHER_SHARES[:2] if quick else paper.SHARES
    wanted: dict[Unit, Mapping[str, str]] = {
        ("movielens", share, seed): paper.prints(share, asked, on_test=not quick)
        for seed in range(1 if quick else seeds)
        for share in shares
    }
    return runner.collect("fig1", paper.run_unit, paper.Score, wanted)


@reproduce.command()
def fig2(out: Out = OUT, seeds: Seeds = 5, quick: Quick = False, jobs: Jobs = CORES) -> None:
    """The paper's Figure 2: NMSE against iterations, 20 % of MovieLens-100k observed."""
    runner = StudyRunner(out, jobs)
    from reproduction import curves

    own = [label for label, method in paper.METHODS.items() if method.kind == "paper" or label in curves.LEVELS]
    asked = [label for label in (*paper.BASELINES, *own) if not quick or label in paper.QUICK]
    codes = paper.prints(paper.FEW, asked, on_test=False)
    wanted = {("movielens", paper.FEW, seed): codes for seed in range(1 if quick else seeds)}
    scores = runner.collect("fig1", paper.run_unit, paper.Score, wanted)
    runner.tidy(
        "fig2",
        [
            {"method": one.method, "seed": one.seed, "iteration": i, "nmse": nmse}
            for one in scores
            for i, nmse in enumerate(one.curve or (), 1)
        ],
    )
    for one in scores:
        if one.curve:
            after = paper.count_in_words(paper.settled(one.curve), len(one.curve))
            runner.say(f"{one.method}, seed {one.seed}: NMSE {one.nmse:.4f}, settled after {after} iterations")
    title = f"MovieLens-100k, {100 * paper.FEW:g} % observed, tuned on held-out ratings"
    curves.iterations(runner.picture("fig2"), scores, title)


@reproduce.command()
def claims(out: Out = OUT, seeds: Seeds = 5, quick: Quick = False, jobs: Jobs = CORES) -> None:
    """Set each statement of the paper about its method beside a measurement."""
    runner = StudyRunner(out, jobs)
    asked = list(paper.QUICK) if quick else [*paper.BASELINES, *paper.METHODS]
    found = claiming.claims(_paper_scores(runner, seeds, asked, quick))
    runner.write("claims", claiming.as_markdown(found), found)


# ---------------------------------------------------------------- applications
@reproduce.command()
def links(
    out: Out = OUT,
    seeds: Seeds = 3,
    data: Annotated[list[str] | None, typer.Option(help=f"{', '.join(linking.DATA)}; all if none.")] = None,
    quick: Quick = False,
    jobs: Jobs = CORES,
) -> None:
    """Hidden links and non-links of networks, against degrees, common neighbours and spectral scores."""
    runner = StudyRunner(out, jobs)
    asked = known(data, ["karate"] if quick else linking.DATA, "--data")
    chosen = runner.available({name: linking.DATA[name][0] for name in asked})
    wanted = {unit: linking.prints(unit[0]) for unit in units(linking.DATA, chosen, 1 if quick else seeds)}
    scores = runner.collect("links", linking.run_unit, linking.Score, wanted)
    if scores:
        runner.write("links", linking.as_markdown(scores), scores)


@reproduce.command()
def index(out: Out = OUT, quick: Quick = False, jobs: Jobs = CORES) -> None:
    """Index coding as completion of least rank: what is broadcast, and how each receiver decodes."""
    runner = StudyRunner(out, jobs)
    names = list(index_coding.INSTANCES)
    wanted = {(name, 1.0, 0): index_coding.prints(name) for name in (names[:4] if quick else names)}
    scores = runner.collect("index", index_coding.run_unit, index_coding.Score, wanted)
    runner.write("index", index_coding.as_markdown(scores), scores, without="broadcasts")


@reproduce.command()
def systems(
    out: Out = OUT,
    seeds: Seeds = 3,
    data: Annotated[list[str] | None, typer.Option(help=f"{', '.join(comparing.DATA)}; all if none.")] = None,
    system: Annotated[list[str] | None, typer.Option(help="Names as in the table; all if none.")] = None,
    quick: Quick = False,
    jobs: Jobs = CORES,
) -> None:
    """Votes, survey answers, genotypes, ratings: other systems for finite alphabets beside ours, same splits."""
    runner = StudyRunner(out, jobs)
    asked = known(system, comparing.QUICK if quick else comparing.SYSTEMS, "--system")
    named = known(data, ["senate"] if quick else comparing.DATA, "--data")
    chosen = runner.available({name: comparing.DATA[name][0] for name in named})
    named_units = units(comparing.DATA, chosen, 1 if quick else seeds, most=1 if quick else None)
    wanted = {
        unit: {one: code for one, code in comparing.prints(unit[0]).items() if one in asked} for unit in named_units
    }
    scores = runner.collect("systems", comparing.run_unit, comparing.Score, wanted)
    if scores:
        runner.write("systems", comparing.as_markdown(scores), scores)


@reproduce.command("peers")
def others(out: Out = OUT, seeds: Seeds = 3, quick: Quick = False, jobs: Jobs = CORES) -> None:
    """Other packages on the same splits of MovieLens-100k, each in an environment of its own, beside ours."""
    runner = StudyRunner(out, jobs)
    wanted = {
        ("movielens", share, seed): peers.prints()
        for share in (peers.SHARES[:1] if quick else peers.SHARES)
        for seed in range(1 if quick else seeds)
    }
    scores = runner.collect("peers", peers.run_unit, peers.Score, wanted)
    runner.write("peers", peers.as_markdown(scores), scores)


@reproduce.command()
def posterior(
    out: Out = OUT,
    data: Annotated[list[str] | None, typer.Option(help=f"{', '.join(posteriors.DATA)}; all if none.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Names as in the table; all if none.")] = None,
    quick: Quick = False,
    jobs: Jobs = 1,
) -> None:
    """The posterior beside myFM with histories, on splits of MovieLens-100k and of MovieLens-1M."""
    runner = StudyRunner(out, jobs)
    names = ["movielens-100k"] if quick else known(data, posteriors.DATA, "--data")
    asked = known(method, posteriors.METHODS["movielens-100k"], "--method")
    wanted: dict[Unit, Mapping[str, str]] = {
        (name, share, seed): posteriors.prints(name, asked)
        for name in runner.available({name: posteriors.DATA[name] for name in names})
        for seed in range(1 if quick else posteriors.SEEDS[name])
        for share in (posteriors.SHARES[name][:1] if quick else posteriors.SHARES[name])
    }
    scores = runner.collect("posterior", posteriors.run_unit, posteriors.Score, wanted)
    if scores:
        runner.write("posterior", posteriors.as_markdown(scores), scores)


@reproduce.command()
def ranking(out: Out = OUT, seeds: Seeds = 3, jobs: Jobs = CORES) -> None:
    """All on the same splits of MovieLens-100k, the best first: the paper's methods, controls, other packages."""
    runner = StudyRunner(out, jobs)
    every = [*paper.BASELINES, *paper.METHODS]
    splits = [("movielens", share, seed) for share in paper.OTHER_SHARES for seed in range(seeds)]
    ours = {unit: paper.prints(unit[1], every, on_test=False) for unit in splits}
    own = runner.collect("fig1", paper.run_unit, paper.Score, ours)
    theirs = runner.collect("peers", peers.run_unit, peers.Score, dict.fromkeys(splits, peers.prints()))
    places = ranked.rank(own, theirs)
    runner.write("ranking", ranked.as_markdown(places), places)


# ---------------------------------------------------------------- further studies
@reproduce.command()
def recovery(
    out: Out = OUT,
    seeds: Annotated[int, typer.Option(min=2, help="Splits of each setting.")] = 10,
    source: Annotated[list[str] | None, typer.Option(help=f"{', '.join(recovering.SOURCES)}; all if none.")] = None,
    quick: Quick = False,
    jobs: Jobs = CORES,
) -> None:
    """Exact recovery and error against the share observed, with and without each discrete penalty."""
    runner = StudyRunner(out, jobs)
    sources = known(source, recovering.SOURCES, "--source")
    shares = recovering.SHARES[1:3] if quick else recovering.SHARES
    table = dict.fromkeys(sources, (None, shares))
    wanted = dict.fromkeys(units(table, sources, 2 if quick else seeds), recovering.prints())
    scores = runner.collect("recovery", recovering.run_unit, recovering.Score, wanted)
    lines = recovering.summarise(scores)
    runner.write("recovery", recovering.as_markdown(lines), lines)
    from reproduction import study_figures

    study_figures.recovery(runner.picture("recovery"), lines)
    for name in sources:
        for share in shares:
            runner.say(recovering.verdict(lines, name, share))


@reproduce.command()
def penalties(out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = OUT) -> None:
    """Draw what every discrete penalty does to a value, on the alphabets 1..5 and ±1."""
    from reproduction import study_figures

    for name, (alphabet, shown) in gallery.GALLERY.items():
        study_figures.penalties(out / f"{name}.png", alphabet, shown)
        typer.echo(out / f"{name}.png")


# ---------------------------------------------------------------- everything
@reproduce.command("all")
def everything(out: Out = OUT, seeds: Seeds = 5, quick: Quick = False, jobs: Jobs = CORES) -> None:
    """The paper's evaluation: figures, claims, applications and peers, and a page that holds them all."""
    runner = StudyRunner(out, jobs)
    few = min(seeds, FEW)
    ratings = runner.available({"MovieLens-100k": movielens_100k})
    if ratings:
        fig1(out, seeds, None, quick, jobs)
        fig2(out, seeds, quick, jobs)
        claims(out, seeds, quick, jobs)
    systems(out, few, None, None, quick, jobs)
    links(out, few, None, quick, jobs)
    index(out, quick, jobs)
    if quick:
        runner.say("Peers are left out with --quick: `python -m reproduction peers` runs them.")
    elif ratings:
        others(out, few, quick, jobs)
        ranking(out, few, jobs)
    split = "seed 0" if quick else f"seeds 0 to {seeds - 1} (figures, claims), 0 to {few - 1} (all else)"
    page = _page(out, runner.about(split))
    write_atomically(out / "results.md", page.encode())
    runner.say(f"All together: {out / 'results.md'}")


PAGE = {
    "The paper's claims": ("claims",),
    "The ranking": ("ranking",),
    "Figure 1: error against the share observed": ("fig1-held-out", "fig1-best-on-test", "fig1"),
    "Figure 2: error against iterations": ("fig2",),
    "Votes, survey answers, genotypes, ratings": ("systems",),
    "Links of networks": ("links",),
    "Index coding": ("index",),
    "Peers": ("peers",),
}
"""Headings, and the pictures and tables under each."""


def _page(out: Path, about: str) -> str:
    """One page of all tables and pictures that are in the folder."""
    parts = ["# Results", "", "Made by", "", about]
    for heading, names in PAGE.items():
        found = [f"![{heading}]({name}.png)\n" for name in names if (out / f"{name}.png").exists()]
        tables = [out / f"{name}.md" for name in names if (out / f"{name}.md").exists()]
        found += [table.read_text(encoding="utf-8") for table in tables]
        if found:
            parts += [f"## {heading}", "", *found]
    return "\n".join(parts)
